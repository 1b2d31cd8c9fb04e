"""A trial on the terminal: its questions are asked of each pair of models, and shown in a table."""

import os
import shlex
import sys
from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import psutil
from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from planner.errors import ConfigError, ModelError, PlanloomError
from planner.models import ollama
from planner.protocol import Limits, RunRequest
from planner.text import counted
from planner.tools import Policy
from server.app import Parts, open_parts
from server.cli.runs import console, output
from server.cli.trial.project import QUESTIONS, Question, write_project
from server.cli.trial.results import (
    Measurement,
    best,
    load_results,
    save_results,
    target,
    write_command,
)
from server.client_configs.documents import changed
from server.client_configs.files import replace
from server.client_configs.jsonc import Place
from server.config import ModelSettings, RunSettings, Settings, UpstreamSettings
from server.config_file import shipped_file
from server.environment import VARIABLES
from server.runs.execution import START_SECONDS
from server.text import read_text

MEMORY_SHARE = 0.8
"""Of this machine's memory: larger weights are not tried unless they are named."""
QUESTION_SHARE = 1 / 8
"""Of a model's time: the limit of a question. None is begun without that much time."""
MAX_COLUMNS = 1000
"""Of a table that is not on a terminal; no table is as wide."""
Pair = tuple[str, str]


async def try_on_terminal(
    settings: Settings, named: Sequence[str], minutes: float, write: bool
) -> int:
    pairs = await _pairs(settings.models, named)
    results, measured = load_results(), list[Measurement]()
    console.print(
        f"Asking each of {counted(len(pairs), 'model')} {len(QUESTIONS)} questions, for at most "
        f"{minutes:g} minutes each."
    )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[score]}"),
        TimeElapsedColumn(),
    )
    with (
        TemporaryDirectory(prefix="planloom-try-") as folder,
        Progress(*columns, console=console) as bars,
    ):
        write_project(Path(folder) / "project")

        async def measure(pair: Pair) -> None:
            each = Measurement(fast=pair[0], full=pair[1], stopped="it was interrupted")
            measured.append(each)
            await _measure(settings, each, Path(folder), minutes * 60, bars)
            results.add(each)
            save_results(results)

        try:
            for pair in pairs:
                await measure(pair)
            if not named and (both := _promising(measured)):
                await measure(both)
        except anyio.get_cancelled_exc_class():
            bars.stop()
            _show(measured)
            if found := best(measured):
                _suggest(settings, found, named)
            raise
    return _conclude(settings, measured, named, write)


def show_last(settings: Settings, named: Sequence[str], write: bool) -> int:
    """Show the results on record, of these models or of all."""
    pairs = [_pair(each) for each in named]
    measured = [
        each for each in load_results().measured if not pairs or (each.fast, each.full) in pairs
    ]
    if not measured:
        what = f"{', '.join(named)}: not measured yet" if named else "Nothing was measured yet"
        raise ConfigError(f"{what}; run `{shlex.join(['planloom', 'try', *named])}`")
    return _conclude(settings, measured, named, write)


def _pair(name: str) -> Pair:
    fast, _, full = name.partition(",")
    return fast, full or fast


async def _pairs(settings: ModelSettings, named: Sequence[str]) -> list[Pair]:
    """The pairs to measure. Raises `ConfigError` if Ollama cannot be asked for one of them."""
    server = await ollama.probe(settings.host)
    if server is None:
        async with ollama.OllamaClient(settings.host) as client:
            raise client.absent()
    pairs = [_pair(each) for each in named]
    missing = [name for name in dict.fromkeys(chain(*pairs)) if not server.has(name)]
    if missing:
        pulls = ", ".join(f"`ollama pull {name}`" for name in missing)
        have = ", ".join(server.models) or "none"
        raise ConfigError(f"Ollama does not have {', '.join(missing)}; run {pulls}. It has: {have}")
    return pairs or await _installed(settings)


async def _installed(settings: ModelSettings) -> list[Pair]:
    """Each model that Ollama has and that fits into memory, in both roles."""
    room = psutil.virtual_memory().total * MEMORY_SHARE
    pairs = []
    for model in await ollama.installed(settings.host):
        if model.size <= room:
            pairs.append((model.name, model.name))
        else:
            size = f"{model.size / 1e9:.1f} GB"
            console.print(
                Text(
                    f"{model.name} is skipped: its weights ({size}) do not fit into memory. To try "
                    f"it anyway: planloom try {model.name}"
                )
            )
    if not pairs:
        raise ConfigError("Ollama has no model to try; run `ollama pull qwen2.5-coder:1.5b`")
    return pairs


def _promising(measured: Sequence[Measurement]) -> Pair | None:
    """The best model together with a quicker one, if there is a quicker one."""
    found = best(measured)
    if found is None:
        return None
    quicker = [each for each in measured if each.median_seconds < found.median_seconds]
    quicker = [each for each in quicker if not each.stopped]
    if not quicker:
        return None
    return max(quicker, key=lambda each: (each.score, -each.median_seconds)).full, found.full


async def _measure(
    settings: Settings, measured: Measurement, folder: Path, seconds: float, bars: Progress
) -> None:
    """Ask as many questions as there is time for."""
    pair = measured.fast, measured.full
    bar = bars.add_task(measured.name, total=len(QUESTIONS), score="")
    host, limit = settings.models.host, seconds * QUESTION_SHARE
    try:
        async with open_parts(_settings(settings.models, pair, folder)) as parts:
            await parts.pool.ready(START_SECONDS)
            ends = anyio.current_time() + seconds
            for question in QUESTIONS:
                if anyio.current_time() + limit > ends:
                    break
                await _ask(parts, question, limit, measured)
                bars.update(bar, advance=1, score=f"{measured.right} right, {measured.wrong} wrong")
                if not console.is_terminal:  # where there is no bar
                    at = f"{measured.name} {len(measured.outcomes)}/{len(QUESTIONS)}"
                    said = f"{measured.outcomes[-1]}, {measured.seconds[-1]:.0f} s: {question.text}"
                    console.print(Text(f"{at} {said}"), soft_wrap=True)
        measured.memory = await ollama.memory(host, pair)
        await ollama.unload(host, pair, settings.models.num_ctx)
    except PlanloomError as error:
        measured.stopped = str(error)
    else:
        measured.stopped = ""


async def _ask(parts: Parts, question: Question, seconds: float, measured: Measurement) -> None:
    limits = Limits(seconds=seconds)
    request = RunRequest(prompt=question.text, limits=limits, policy=Policy.READ_ONLY)
    began = anyio.current_time()  # before the run's own clock starts
    run = await parts.engine.start(request)
    while not run.finished:
        await run.wait_beyond(len(run.events))
    took = anyio.current_time() - began
    if run.status == "failed" and took < seconds:  # not for want of time
        raise ModelError(run.state.reason or run.state.answer)
    measured.seconds.append(took)
    measured.outcomes.append(question.outcome(run.status, run.state.answer))


def _settings(models: ModelSettings, pair: Pair, folder: Path) -> Settings:
    """The settings of a trial: the person's Ollama and none of their other settings."""
    project = folder / "project"
    files = {
        "command": sys.executable,
        "args": ["-P", "-m", "planloom.server.cli.trial.files", str(project)],
        "pin_tools": False,
        "priority": 10,
        "listing": {"tool": "list_dir", "arguments": {"path": "."}},
        "tools": {
            "search": {"text_argument": "pattern", "priority": 13},
            "find_file": {"name_argument": "name", "priority": 12},
            "read_file": {"file_argument": "path", "priority": 11, "verbatim": True},
        },
    }
    fast, full = pair
    chosen = {"fast": fast, "full": full, "backend": "ollama", "url": None, "warm_up": False}
    return Settings(
        models=models.model_copy(update=chosen),
        runs=RunSettings(directory=folder / "runs"),
        project=project,
        upstreams={"files": UpstreamSettings.model_validate(files, context={})},
    )


def _conclude(
    settings: Settings, measured: Collection[Measurement], named: Sequence[str], write: bool
) -> int:
    _show(measured)
    found = best(measured)
    if found is None:
        console.print("No model could be measured.")
        return 1
    if not write:
        _suggest(settings, found, named)
        return 0
    file = target(settings)
    _write(settings.source or shipped_file(), file, found)
    output.print(Text(f"\nWrote {found.name} into {file}."), soft_wrap=True)
    for name in (VARIABLES["fast"], VARIABLES["full"]):
        if os.environ.get(name):
            console.print(Text(f"{name} is set and overrides the file; unset it."))
    return 0


def _suggest(settings: Settings, found: Measurement, named: Sequence[str]) -> None:
    advice = f"\nBest: {found.name} ({found.summary}). "
    if (found.fast, found.full) == (settings.models.fast, settings.models.full):
        advice += "You already use it."
    else:
        advice += f"To write it into your upstreams.yaml: {write_command(settings, named)}"
    output.print(Text(advice), soft_wrap=True)


def _write(source: Path, file: Path, chosen: Measurement) -> None:
    """Write the file: what `source` holds, with these models. Raises `ConfigError`."""
    models: dict[Place, str] = {("models", "fast"): chosen.fast, ("models", "full"): chosen.full}
    try:
        replace(file, changed(read_text(source), ".yaml", models))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{file} was not changed: {error}; write `fast: {chosen.fast}` and "
            f"`full: {chosen.full}` under `models` in it"
        ) from None


def _show(measured: Collection[Measurement]) -> None:
    """The table, and what it does not say: why not all was asked of a model."""
    table = Table(box=box.SIMPLE if output.is_terminal else box.MARKDOWN)
    table.add_column("model, or fast,full", overflow="fold")
    for name in ("right", "wrong and sure", "honest", "median seconds", "memory"):
        table.add_column(name, justify="right")
    asked = [each for each in measured if each.outcomes]
    for each in sorted(asked, key=lambda each: (-each.score, each.median_seconds)):
        memory = f"{each.memory / 1e9:.1f} GB" if each.memory else "?"
        seconds = f"{each.median_seconds:.1f}"
        counts = (f"{each.outcomes.count(kind)}" for kind in ("right", "wrong", "honest"))
        table.add_row(Text(each.name), *counts, seconds, memory)
    if asked:
        if not output.is_terminal:  # what reads it has no edge
            unbounded = output.options.update(max_width=MAX_COLUMNS)
            table.width = output.measure(table, options=unbounded).maximum
        output.print(table, crop=False)
    for each in measured:
        count = f"{len(each.outcomes)} of {len(QUESTIONS)} questions"
        if each.stopped:
            said = f"{each.name} stopped after {count}: {each.stopped}"
        elif len(each.outcomes) < len(QUESTIONS):
            said = f"{each.name} was asked {count} in its time; raise --minutes to ask more."
        else:
            continue
        console.print(Text(said), soft_wrap=True)
