"""What the commands show of recorded runs. It loads no MCP framework: looking is quick."""

import json
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text
from rich.theme import Theme

from planner.errors import RequestError
from planner.state import RunState
from server.cli.hyperlinks import Linked
from server.cli.live_view import LiveView, asking
from server.client_configs.files import short
from server.config import Settings
from server.journal import journal_for
from server.journal.base import LETTER_SECONDS, Journal
from server.journal.records import Letter, RunSummary, StoredRun
from server.text import clean, one_line, status_in_words
from server.views.consent import SHORT_ID, Waiting, consent, not_taken, outcome, visible, waiting
from server.views.report import Report, report
from server.views.report_text import markdown
from server.views.transcript import transcript

output = Console(highlight=False, theme=Theme({"markdown.code": "cyan"}))
"""Code has the terminal's own background."""
console = Console(stderr=True, highlight=False)
FOLLOW_SECONDS = 0.2
"""How often the journal is looked at for a run that goes on."""
MAX_PROMPT_CHARS = 80
"""Of a request in a list."""
YES = ("y", "yes")
HEAD = ("RUN", "STATE", "BEGAN", "PROJECT", "REQUEST")
COLOURS = {"running": "cyan", "answered": "green", "failed": "red", "refused": "red"}
"""Of states; the others are yellow."""
COMMANDS = {
    "interrupted": "To continue: `planloom runs resume {}`; nothing is done twice.",
    "running": "Watch it: `planloom runs show --follow {}`.",
}
"""What a person does with a run that has not ended, by its state."""
NO_RUNS = "No runs yet. Start one with `planloom ask`, or from a client."


async def list_runs(settings: Settings, most: int) -> None:
    """Print the newest runs, one a line; before them, in full, what waits for approval."""
    journal = journal_for(settings.runs)
    runs = await journal.list(most)
    if not runs:
        output.print(NO_RUNS)
        return
    asked = {
        run.id: _call_of(settings, await journal.load(run.id)) if run.status == "running" else None
        for run in runs
    }
    for run in runs:
        if call := asked[run.id]:
            output.print(asking(call), Text(f"  {_about(run)}\n"), sep="\n", soft_wrap=True)
    rows = [
        (
            run.id[:SHORT_ID],
            "waits for approval" if asked[run.id] else status_in_words(run.status),
            age(time.time() - run.created),
            _place(run.project),
            one_line(run.prompt, MAX_PROMPT_CHARS),
        )
        for run in runs
    ]
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    output.print(Text(_columns(HEAD, widths), style="dim"), soft_wrap=True)
    for run, row in zip(runs, rows, strict=True):
        line = Text(_columns(row, widths))
        colour = "bold yellow" if asked[run.id] else COLOURS.get(run.status, "yellow")
        line.stylize(colour, widths[0] + 2, widths[0] + 2 + len(row[1]))
        if output.is_terminal:
            line.truncate(output.width, overflow="ellipsis")
        output.print(line, soft_wrap=True)


def _columns(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


def age(seconds: float) -> str:
    """`3 min ago`: how long ago a run began."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name} ago"
    return f"{max(0.0, seconds):.0f} s ago"


def _place(project: str) -> str:
    """A project's folder, with `~` for the home directory."""
    return clean(short(Path(project))) if project else "-"


def _about(run: RunSummary) -> str:
    prompt = visible(json.dumps(run.prompt, ensure_ascii=False))
    where = f" in {_place(run.project)}" if run.project else ""
    return f"For the run {run.id[:SHORT_ID]}{where}: {prompt}"


async def decide_run(settings: Settings, named: str, approve: bool) -> int:
    """Approve or decline the call that a run waits with, whichever server drives it; returns the
    exit status. `named`: the run's id or its beginning, and, to approve without another question,
    the digest of the call that was shown (`99209512@8f03c1d2a97b`). Raises `RequestError`."""
    beginning, _, digest = named.partition("@")
    async with journal_for(settings.runs) as journal:
        stored = await load(journal, beginning)
        run_id, call = stored.id, _call_of(settings, stored)
        if call is None:
            raise RequestError(
                f"Run {run_id[:SHORT_ID]} is not waiting for approval; it is "
                f"{status_in_words(stored.status)}."
            )
        if approve and not digest:
            console.print(asking(call), soft_wrap=True)
            if not sys.stdin.isatty():
                raise RequestError(
                    "Not approved: there is no terminal to confirm on. The first command above "
                    "approves exactly this call."
                )
            if (await typed("Make this call? [y/N] ")).lower() not in YES:
                return 1  # it still waits
        answer = consent(call, digest or call.digest, approve, "with `planloom runs`")
        letter = Letter(run_id=run_id, kind="answer", question=call.digest, answer=answer)
        await journal.post(letter)
        with anyio.move_on_after(LETTER_SECONDS):
            while True:
                stored = await load(journal, run_id)
                decided = RunState.of(stored.events).iterations[call.iteration].approval
                if decided:
                    line = Text(f"{call.call} was {outcome(decided)}.")
                    console.print(line, soft_wrap=True)
                    return 0 if decided.approved is approve else 1
                await journal.wait_for_news(run_id)
    raise not_taken(run_id, LETTER_SECONDS)


async def typed(prompt: str) -> str:
    """The next line from the terminal, unless Ctrl-C comes first. Raises `EOFError`."""
    console.print(Text(prompt), end="", soft_wrap=True)
    await anyio.wait_readable(sys.stdin.fileno())
    line = os.read(sys.stdin.fileno(), 4096)
    if not line:
        raise EOFError
    return line.decode("utf-8", "replace").strip()


def _call_of(settings: Settings, stored: StoredRun | None) -> Waiting | None:
    if stored is None or stored.status != "running":
        return None
    return waiting(stored.id, RunState.of(stored.events), settings.approval.timeout_s)


async def show_run(settings: Settings, run_id: str, whole: bool, as_json: bool) -> None:
    journal = journal_for(settings.runs)
    stored = await load(journal, run_id)
    events = stored.events
    if whole:
        show_markdown(transcript(stored.id, events), settings.project)
        return
    going_on = stored.status == "running" or not events
    now = time.time() if going_on else events[-1].at
    interrupted = stored.status == "interrupted"
    found = report(stored.id, RunState.of(events), now, interrupted=interrupted)
    if call := _call_of(settings, stored):
        console.print(asking(call), soft_wrap=True)
    print_report(found, as_json, settings.project)


async def follow_run(settings: Settings, run_id: str | None, whole: bool, as_json: bool) -> None:
    """Show a run, or the newest one, as it goes on, and then its report. Raises `RequestError`."""
    journal = journal_for(settings.runs)
    if run_id is None:
        newest = await journal.list(1)
        if not newest:
            raise RequestError(NO_RUNS)
        run_id = newest[0].id
    stored = await load(journal, run_id)
    asked = partial(waiting, stored.id, timeout_s=settings.approval.timeout_s)
    seen, status = 0, "running"
    prompt, began = stored.request.prompt, stored.created
    with LiveView(console, prompt, began, settings.project, asked) as view:
        while status == "running":
            status = await journal.status(stored.id) or "deleted"  # first: it may end meanwhile
            entries = await journal.entries(stored.id, seen)
            seen += len(entries)
            view.add(entry.event for entry in entries if entry.kind == "event")
            view.draw()
            await anyio.sleep(FOLLOW_SECONDS)
    await show_run(settings, stored.id, whole, as_json)


async def load(journal: Journal, beginning: str) -> StoredRun:
    """The run whose id begins so. Raises `RequestError`."""
    run_id = await journal.whole_id(beginning)
    stored = await journal.load(run_id)
    if stored is None:
        raise RequestError(f"Run {run_id[:SHORT_ID]} has just been deleted.")
    return stored


def print_report(found: Report, as_json: bool, project: Path, cost: bool = True) -> None:
    """`cost`: with what the run cost, where it is not JSON."""
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        command = COMMANDS.get(found.status)
        after = command and command.format(found.run_id[:SHORT_ID])
        show_markdown(markdown(found, cost=cost, after=after), project)


def show_markdown(text: str, project: Path) -> None:
    """Print Markdown: rendered, with links to the project, on a terminal; else unchanged."""
    if output.is_terminal:
        drawn = Markdown(text, code_theme="ansi_dark")
        output.print(Linked(drawn, project))
    else:
        typer.echo(text)
