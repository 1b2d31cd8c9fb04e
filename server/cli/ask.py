"""What the commands show on a terminal: progress on standard error, results on output."""

import shlex
import sqlite3
import sys
import termios
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp_types import ElicitResult
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from planner.errors import ConfigError
from planner.protocol import RunRequest
from server.app import open_parts
from server.approval import elicitation
from server.approval.approval import FORM, Question
from server.backends import open_models
from server.background import background_tasks
from server.cli.live_view import LiveView
from server.cli.runs import YES, console, load, output, print_report, show_markdown, typed
from server.config import Settings
from server.journal import journal_for
from server.runs.execution import START_SECONDS
from server.runs.run import Run, report_of
from server.text import one_line
from server.upstreams.launch import Launcher
from server.upstreams.listing import listing_markdown, pool_listing
from server.upstreams.pins import Pins, digest_of, identity
from server.views.report import Usage
from server.views.report_text import conclusion

Detail = Literal["quiet", "usual", "verbose"]
"""How much is shown beside the answer: nothing; progress; progress and the cost."""
EXIT_CODES = {"answered": 0, "not_found": 0, "interrupted": 130, "running": 130}
"""The exit status of a command that runs a question, by the run's status; others are 1, and 2 is
for what cannot be run at all. A run that is "running" was taken over by another server."""
REDRAW_SECONDS = 1.0
"""How often a run is drawn again while nothing happens in it."""


async def run_on_terminal(
    settings: Settings,
    asked: RunRequest | str,
    as_json: bool,
    detail: Detail = "usual",
    given: Sequence[str] = (),
    launcher: Launcher | None = None,
) -> int:
    """Run a request, or continue the interrupted run of this id, and show each event; returns the
    exit status. On a terminal it asks for approval. `given`: the options to continue with."""
    beside = Console(quiet=True) if detail == "quiet" else console
    # Loaded before upstreams start, because there may be no such run.
    begun = await load(journal_for(settings.runs), asked) if isinstance(asked, str) else asked
    with closing(Downloads(beside)) as downloads:
        async with open_parts(settings, downloads.advance, launcher) as parts:
            asks = sys.stdin.isatty()
            if isinstance(begun, RunRequest):
                run = await parts.engine.start(begun, can_ask=asks)
            else:
                run = await parts.engine.resume(begun.id, begun.caller, asks)
            downloads.close()  # the terminal is the run's now
            try:
                await show(run, settings.project, beside)
            except anyio.get_cancelled_exc_class():
                command = shlex.join(["planloom", "runs", "resume", run.id, *given])
                console.print(Text(f"Interrupted. To continue: {command}"), soft_wrap=True)
                raise
            await run.flush()
    found = report_of(run)
    if detail == "quiet" and not as_json:
        show_markdown(conclusion(found), settings.project)
    else:
        print_report(found, as_json, settings.project, cost=detail == "verbose")
    if detail == "verbose":
        sys.stdout.flush()  # the answer comes first, wherever both go
        show_ledger(found.usage)
    return EXIT_CODES.get(found.status, 1)


async def show(run: Run, project: Path, beside: Console) -> None:
    """Show a run as it goes on, and put its questions to the person."""
    asked: Question | None = None
    shown_count = 0
    began = run.events[0].at if run.events else time.time()  # one that goes on began before
    with LiveView(beside, run.request.prompt, began, project) as view:
        view.draw(run.queued, run.models_doing())
        async for events in run.follow(lambda: REDRAW_SECONDS):
            view.add(events)
            shown_count += len(events)
            question = run.approvals.question
            # What led to a question is shown before it.
            if question and question is not asked and shown_count == len(run.events):
                asked = question
                view.pause()
                await ask(question)
                view.resume()
            view.draw(run.queued, run.models_doing())


async def ask(question: Question) -> None:
    """Put a question to the person at the terminal, until it is answered or closed."""
    termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before is no answer to it
    console.print(Text(f"\n{question.message}"), soft_wrap=True)
    async with background_tasks() as tasks:
        tasks.start_soon(answer, question)
        await question.closed.wait()
    console.print()


async def answer(question: Question) -> None:
    """Read an answer: whether a call may be made, or the fields of a form."""
    try:
        if question.form is FORM:
            said = await typed("Make this call? [y/N] ")
            question.answer(ElicitResult(action="accept", content={"approve": said.lower() in YES}))
        elif (await typed("Answer this question? [y/N] ")).lower() in YES:
            content = await filled_in(question.form)
            question.answer(ElicitResult(action="accept", content=content))
        else:
            question.answer(ElicitResult(action="decline"))
    except EOFError:
        question.answer(ElicitResult(action="cancel"))


async def filled_in(form: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, field in form["properties"].items():
        value = await field_of(name, field, name in form.get("required", []))
        content |= {} if value is None else {name: value}
    return content


async def field_of(name: str, field: dict[str, Any], required: bool) -> Any:
    """Ask for a field until the typed value fits; None for an empty line."""
    while True:
        try:
            value = elicitation.typed(await typed(elicitation.prompt(name, field)), field)
        except ValueError as error:
            console.print(Text(f"{error}"))
            continue
        if value is not None or not required:
            return value


def show_ledger(usage: Usage) -> None:
    """Print the total cost of each kind of model call."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("role", no_wrap=True)
    table.add_column("model", no_wrap=True)
    about = "cached" if usage.cached_told else "~cached"
    for name in ("calls", "prompt", about, "generated", "prefill", "decode"):
        table.add_column(name, justify="right", no_wrap=True)
    for model, role in dict.fromkeys((call.model, call.role) for call in usage.calls):
        calls = [each for each in usage.calls if (each.model, each.role) == (model, role)]
        table.add_row(
            role,
            Text(model),
            f"{len(calls)}",
            f"{sum(call.prompt_tokens for call in calls)}",
            f"{sum(call.cached_tokens for call in calls)}",
            f"{sum(call.generated_tokens for call in calls)}",
            f"{sum(call.prefill_seconds for call in calls):.1f} s",
            f"{sum(call.decode_seconds for call in calls):.1f} s",
        )
    if usage.calls:
        console.print(table)


async def list_tools(settings: Settings, launcher: Launcher | None = None) -> int:
    """Print the pool; 1 when an upstream is not ready."""
    async with open_parts(settings, launcher=launcher) as parts:
        with console.status("starting the upstreams"):
            await parts.pool.ready(START_SECONDS)
        found = pool_listing(parts.pool)
    show_markdown(listing_markdown(found), settings.project)
    return 0 if not any(each.state.needs_attention for each in found.upstreams) else 1


def accept_tools(settings: Settings, names: Sequence[str]) -> None:
    """Print what changed in held tools, and accept it where the name has its digest (`docs@8f…`),
    so that nothing is accepted unseen. A name is a tool's (bare or `upstream.tool`) or an
    upstream's. Raises `ConfigError` if nothing of that name, or of that digest, is held back."""
    shown: list[str] = []
    pins = Pins()
    try:
        held = [
            tool
            for name, upstream in settings.upstreams.items()
            for tool in pins.held(identity(name, upstream))
        ]
        for named in names:
            name, _, digest = named.partition("@")
            meant = [
                each
                for each in held
                if name in (each.upstream, each.tool, f"{each.upstream}.{each.tool}")
            ]
            if not meant:
                every = ", ".join(one_line(f"{each.upstream}.{each.tool}") for each in held)
                why = f"of that name is held back; these are: {every}" if held else "is held back"
                raise ConfigError(f"--accept {name}: no tool {why}")
            changed = ConfigError(
                f"--accept {named}: its definition has changed since; see what is held "
                f"back now: planloom tools --accept {name}"
            )
            if digest not in ("", digest_of(meant)):
                raise changed
            for each in meant:
                upstream = settings.upstreams[each.upstream]
                if digest and not pins.accept(identity(each.upstream, upstream), each):
                    raise changed
                done = "Accepted" if digest else "Would accept"
                output.print(Text(f"{done} {each.upstream}.{each}"), soft_wrap=True)
            if not digest:
                shown.append(f"{name}@{digest_of(meant)}")
    except sqlite3.Error as error:
        raise ConfigError(f"{pins.file} cannot be used: {error}") from None
    if shown:
        command = f"planloom tools --accept {' --accept '.join(shown)}"
        output.print(Text(f"\nAccept exactly these definitions with: {command}"), soft_wrap=True)


async def prepare_models(settings: Settings) -> None:
    """Open the models once, fetching what is missing."""
    with closing(Downloads(console)) as downloads:
        models = await open_models(settings.models, downloads.advance)
    await models.aclose()
    console.print(Text(f"Ready: {' and '.join(model.name for model in models.distinct)}"))


class Downloads:
    """A progress bar for each download; without one, nothing is shown."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            TextColumn("downloading {task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=console,
        )
        self._tasks: dict[str, Any] = {}

    def advance(self, name: str, done: int, total: int | None) -> None:
        if name not in self._tasks:
            self._bars.start()
            self._tasks[name] = self._bars.add_task(name, total=total)
        self._bars.update(self._tasks[name], completed=done, total=total)

    def close(self) -> None:
        if self._tasks:
            self._bars.stop()
