"""What the commands show of recorded runs. It loads no MCP framework: looking is quick."""

import sys
import time

import anyio
from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from planner.errors import RequestError
from planner.state import RunState
from server.cli.live_view import Drawing
from server.config import Settings
from server.journal.factory import journal_for
from server.text import clean, flat
from server.views.report import Report, markdown, report
from server.views.transcript import transcript

output = Console(highlight=False)
console = Console(stderr=True, highlight=False)
FOLLOW_SECONDS = 0.2
"""How often the journal is looked at for a run that goes on."""
LONGEST_PROMPT = 80
"""Characters of it in a list."""


async def list_runs(settings: Settings, most: int) -> None:
    """Print the newest runs, one a line."""
    for run in await journal_for(settings.runs).list(most):
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.created))
        prompt = clean(flat(run.prompt))[:LONGEST_PROMPT]
        output.print(Text(f"{run.id}  {began}  {run.status:<11}  {prompt}"), soft_wrap=True)


async def show_run(settings: Settings, run_id: str, whole: bool, as_json: bool) -> None:
    """Print the report of a run, or its transcript."""
    journal = journal_for(settings.runs)
    recorded = await journal.load(await journal.whole_id(run_id))
    assert recorded  # `whole_id` found it
    events = recorded.events
    if whole:
        show_markdown(transcript(recorded.id, events))
        return
    going_on = recorded.status == "running" or not events
    now = time.time() if going_on else events[-1].at
    interrupted = recorded.status == "interrupted"
    found = report(recorded.id, RunState.of(events), now, interrupted=interrupted)
    print_report(found, as_json)


async def follow_run(settings: Settings, run_id: str | None, whole: bool, as_json: bool) -> None:
    """Show a run as it goes on, whichever server drives it, and in the end its report; the newest
    run if none is named. Raises `RequestError`."""
    journal = journal_for(settings.runs)
    if run_id is None:
        newest = await journal.list(1)
        if not newest:
            raise RequestError("There is no run yet. `planloom ask` begins one, or a client does.")
        run_id = newest[0].id
    recorded = await journal.load(await journal.whole_id(run_id))
    assert recorded  # `whole_id` found it
    seen, status = 0, "running"
    with Drawing(console, recorded.request.prompt, recorded.created) as drawing:
        while status == "running":
            status = await journal.status(recorded.id) or "deleted"  # first: it may end meanwhile
            entries = await journal.entries(recorded.id, seen)
            seen += len(entries)
            drawing.tell(entry.event for entry in entries if entry.kind == "event")
            drawing.wait()
            await anyio.sleep(FOLLOW_SECONDS)
    await show_run(settings, recorded.id, whole, as_json)


def print_report(found: Report, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(found.model_dump_json(indent=2) + "\n")
    else:
        show_markdown(markdown(found))


def show_markdown(text: str) -> None:
    """Rendered on a terminal, as it is elsewhere."""
    if output.is_terminal:
        output.print(Markdown(text))
    else:
        sys.stdout.write(text + "\n")
