"""`python -m benchmarks.eval`: ask the questions, print the table, keep everything as JSON."""

import os
import platform
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import anyio
import typer
from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from benchmarks import ROOT, say
from benchmarks.eval.case import SPLITS, Answer, Case, Family, Setting, Split
from benchmarks.eval.codebases import PACKAGE
from benchmarks.eval.families import CASES
from benchmarks.eval.results import Ledger, Record, Results, table
from benchmarks.eval.systems import SEARCHED, SYSTEMS, Ask, Bench
from benchmarks.eval.wire import Wire, recording
from planner.errors import PlanloomError
from planner.models.base import ChatRequest, Message
from planner.models.ollama import probe
from server.backends import open_models
from server.config import ModelSettings
from server.config_file import shipped_file
from server.text import digest

GRACE_SECONDS = 10.0
"""Beyond the time limit, for a system that ends by itself when it is told the limit."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
Choice = Literal["dev", "report", "all"]
Name = TypeVar("Name", bound=str)


@app.callback(invoke_without_command=True)
def evaluate(
    context: typer.Context,
    families: Annotated[str, typer.Option(help="Which, with commas.")] = ",".join(CASES),
    split: Annotated[Choice, typer.Option(help="Tune on dev only.")] = "dev",
    systems: Annotated[str, typer.Option(help="Which, with commas.")] = ",".join(SYSTEMS),
    fast: Annotated[str, typer.Option(help="The fast model.")] = ModelSettings().fast,
    full: Annotated[str, typer.Option(help="The full model.")] = ModelSettings().full,
    upstreams: Annotated[
        Path | None, typer.Option(help="An upstreams.yaml with a serena; default: the shipped one.")
    ] = None,
    only: Annotated[str, typer.Option(help="Cases whose id or text matches this regex.")] = "",
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="So many cases of each family, evenly taken."),
    ] = None,
    wordings: Annotated[int, typer.Option(min=1, help="So many wordings of each case.")] = 1,
    seconds: Annotated[float, typer.Option(min=1, help="The time limit of a question.")] = 120.0,
    out: Annotated[Path | None, typer.Option(help="The folder for the JSON.")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="A JSON to go on with: what it has is not asked again."),
    ] = None,
) -> None:
    """Ask the questions of the systems and print how they did. Subcommands: table, questions."""
    if context.invoked_subcommand:
        return
    if resume and not resume.is_file():
        raise typer.BadParameter(f"{resume} does not exist.", param_hint="--resume")
    names = named(systems, SYSTEMS)
    cases = selected(cases_of(named(families, CASES), split), only, limit)
    work = _cache() / "work"
    bench = Bench(
        models=ModelSettings(
            fast=fast,
            full=full,
            host=os.environ.get("OLLAMA_HOST"),
        ),
        upstreams=upstreams or shipped_file(),
        environ=dict(os.environ),
        work=work,
        seconds=seconds,
    )
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    path = resume or (out or _cache() / "results") / f"{split}-{stamp}.json"
    results = Results.load(resume) if resume else Results(about={})
    work.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{work}.lock", timeout=0):
            anyio.run(_evaluate, bench, cases, names, wordings, results, path)
    except Timeout:
        say(f"Another evaluation uses {work}, and the models; wait for its end.")
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        say(f"Interrupted. Go on with: --resume {path}")
        raise typer.Exit(130) from None
    except PlanloomError as error:
        say(str(error))
        raise typer.Exit(2) from None
    finally:
        if results.records:
            print(table(results), flush=True)
            say(f"Everything is in {path}")


@app.command("table")
def print_table(files: list[Path]) -> None:
    """Print the Markdown tables of JSON files."""
    print("\n\n".join(table(Results.load(file)) for file in files))


@app.command()
def questions(
    split: Choice = "all",
    families: Annotated[str, typer.Option(help="Which, with commas.")] = ",".join(CASES),
) -> None:
    """List the questions with their answers, without asking them."""
    for case in cases_of(named(families, CASES), split):
        print(f"{case.id} ({case.kind}, {case.language}) -> {case.expected}")
        print("".join(f"    {' '.join(wording.split())}\n" for wording in case.wordings), end="")


def named(names: str, known: Iterable[Name]) -> list[Name]:
    """Of what there is, those named with commas, in the order of the names."""
    by_name = {str(each): each for each in known}
    if unknown := set(names.split(",")) - set(by_name):
        raise typer.BadParameter(f"no {', '.join(unknown)}; there are {', '.join(by_name)}")
    return [by_name[name] for name in names.split(",")]


def cases_of(families: Sequence[Family], split: Choice) -> list[Case]:
    splits: Sequence[Split] = SPLITS if split == "all" else (split,)
    return [case for family in families for each in splits for case in CASES[family](each)]


def _cache() -> Path:
    return user_cache_path("planloom") / "eval"


def selected(cases: Sequence[Case], only: str, limit: int | None) -> list[Case]:
    """The cases that match, in their order; of each family and split at most `limit`, spread
    evenly over languages, kinds and places."""
    pattern = re.compile(only, re.IGNORECASE)
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        if pattern.search(case.id) or any(map(pattern.search, case.wordings)):
            groups.setdefault((case.family, case.split), []).append(case)
    return [case for group in groups.values() for case in _spread(group, limit or len(group))]


def _spread(cases: Sequence[Case], most: int) -> list[Case]:
    """So many of them, with each kind, place and foreign language in about its share."""

    def traits(case: Case) -> tuple[tuple[str, object], ...]:
        return ("kind", case.kind), ("place", case.place), ("english", case.language == "en")

    total = Counter(trait for case in cases for trait in traits(case))
    taken: Counter[tuple[str, object]] = Counter()
    rest = list(cases)
    while len(cases) - len(rest) < min(most, len(cases)):
        rarest = min(rest, key=lambda case: sum((taken[t] + 1) / total[t] for t in traits(case)))
        rest.remove(rarest)
        taken.update(traits(rarest))
    return [case for case in cases if case not in rest]


async def _evaluate(
    bench: Bench,
    cases: Sequence[Case],
    names: Sequence[str],
    wordings: int,
    results: Results,
    path: Path,
) -> None:
    """System by system, so that one's prompts do not push another's out of the prefix cache."""
    ollama = await probe(bench.models.host)
    if ollama is None and "native" in names:
        say("Ollama does not answer: native is left out, since the embedded models call no tools.")
        names = [name for name in names if name != "native"]
    results.go_on(about(bench, ollama.version if ollama else None))
    await warm_up(bench.models)
    async with AsyncExitStack() as stack:
        wire = None
        if ollama:
            wire = await stack.enter_async_context(recording(bench.models.host))
            models = bench.models.model_copy(update={"host": wire.host})
            environ = bench.environ | {"OLLAMA_HOST": wire.host}
            bench = replace(bench, models=models, environ=environ)
        for name in names:
            asked = [
                (case, text)
                for case in cases
                for text in case.wordings[:wordings]
                if not results.has(name, case, text)
                and (name != "retrieve" or case.family in SEARCHED)
            ]
            done = 0
            for together in by_place(asked):
                async with _opened(name, bench, together[0][0]) as (setting, ask):
                    for case, text in together:
                        record = await _record(name, case, text, setting, ask, bench.seconds, wire)
                        results.add(record)
                        results.save(path)
                        done += 1
                        _progress(record, f"{done}/{len(asked)}")


def by_place(asked: Iterable[tuple[Case, str]]) -> Iterator[list[tuple[Case, str]]]:
    """What is asked in one opening of a setting."""
    together: dict[str, list[tuple[Case, str]]] = {}
    for number, (case, text) in enumerate(asked):
        together.setdefault(case.place or f"{case.id} {number}", []).append((case, text))
    yield from together.values()


@asynccontextmanager
async def _opened(name: str, bench: Bench, case: Case) -> AsyncIterator[tuple[Setting, Ask]]:
    """The setting in a fresh folder, and the system in it, without what another run left."""
    say(f"{name}: starting on {case.place or case.id}")
    folder = bench.work / re.sub(r"[^\w-]", "-", case.place or case.id)
    for left in (folder, bench.state):
        shutil.rmtree(left, ignore_errors=True)
    folder.mkdir(parents=True)
    async with case.open(folder) as setting, SYSTEMS[name](bench, setting) as ask:
        yield setting, ask


def about(bench: Bench, ollama: str | None) -> dict[str, Any]:
    """What the figures of a run depend on, besides the questions."""
    commit = _git("describe", "--always", "--dirty").strip() or "unknown"
    if commit.endswith("-dirty"):
        commit += f"-{digest(_git('diff', 'HEAD'))[:7]}"
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit,
        "fast": bench.models.fast,
        "full": bench.models.full,
        "on": f"Ollama {ollama}" if ollama else "embedded",
        "num_ctx": bench.models.num_ctx,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        PACKAGE: version(PACKAGE),
        "limit": f"{bench.seconds:g} s",
        "upstreams": "shipped" if bench.upstreams == shipped_file() else str(bench.upstreams),
    }


def _git(*words: str) -> str:
    git = ["git", "-C", str(ROOT), *words]
    return subprocess.run(git, capture_output=True, check=False).stdout.decode(errors="replace")


async def warm_up(settings: ModelSettings) -> None:
    """Load both models before the clock runs, whoever is asked first."""
    models = await open_models(settings)
    try:
        hello: Message = {"role": "user", "content": "Say OK."}
        for model in models.distinct:
            await model.chat(ChatRequest([hello], max_tokens=2))
    finally:
        await models.aclose()


async def _record(
    name: str,
    case: Case,
    text: str,
    setting: Setting,
    ask: Ask,
    limit: float,
    wire: Wire | None,
) -> Record:
    """Ask one question. Whatever goes wrong in it is its record, and the others go on."""
    ledger = Ledger()
    answer = Answer("failed", f"No answer within {limit:g} s.")
    if wire:
        wire.clear()
    began = time.monotonic()
    with anyio.move_on_after(limit + GRACE_SECONDS):
        try:
            answer = await ask(text, ledger)
        except Exception as error:  # noqa: BLE001  a system's fault is what is measured here
            answer = Answer("failed", f"{type(error).__name__}: {error}")
    seconds = round(time.monotonic() - began, 2)
    grade = case.grade(setting, answer)
    return Record(
        system=name,
        id=case.id,
        family=case.family,
        split=case.split,
        kind=case.kind,
        language=case.language,
        place=case.place,
        text=text,
        expected=case.expected,
        verdict=grade.verdict,
        share=grade.share,
        why=grade.why,
        seen=wire.saw(case.evidence) if wire else None,
        status=answer.status,
        answer=answer.text,
        seconds=seconds,
        ledger=ledger,
        details=answer.details,
    )


def _progress(record: Record, done: str) -> None:
    said = " ".join(record.answer.split())[:90]
    seen = {True: ", seen", False: ", not seen", None: ""}[record.seen]
    say(
        f"[{done}] {record.system} {record.id} {record.verdict} ({record.status}{seen}) "
        f"{record.seconds:.1f} s: {said}  [{record.expected}]"
    )


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.eval")
