"""What a terminal shows of a run while it goes on."""

import io
import json
import os
import pty
import re
from pathlib import Path

import pytest
from in_memory import READ, SEARCH, DictionaryPool, Ran, planned
from inline_snapshot import snapshot
from ollama_replies import Hang
from planted import CLASS, CONSTANT, SOURCE, VALUE
from replies import deep, found, move_on, nowhere, plan
from rich.console import Console
from rich.text import Text
from scripted_ollama import ScriptedOllama
from serving import LONG, Place, SharedUpstream, end, normalised, until

from server.cli.hyperlinks import linked
from server.cli.live_view import LiveView

pytestmark = pytest.mark.anyio

QUESTION = f"What does {CLASS} return?"


@pytest.fixture
async def ran() -> Ran:
    """A step that is given up, one that is done, and a hostile one that is drafted in."""
    return await planned(
        nowhere(),
        plan("read_file", "Read the source", "Look for its uses"),
        {"path": "notes/guide.md"},
        move_on("read_file", "Read the source", "Look for its \x1b[2J\x1b]0;taken\x07uses")
        | {"decision": "give_up"},
        {"path": "jobs/secret.py"},
        deep(move_on("search", "Look for its \x1b[2J\x1b]0;taken\x07uses")),
        {"pattern": CONSTANT},
        found(f"`{CONSTANT}` is {VALUE}."),
        pool=DictionaryPool(
            {"jobs/secret.py": SOURCE, "notes/guide.md": "Nothing is said.\n"}, specs=[SEARCH, READ]
        ),
        prompt=QUESTION,
    )


def drawn(ran: Ran, count: int) -> str:
    """The picture after so many events."""
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=80)
    view = LiveView(console, QUESTION, ran.events[0].at, Path.cwd())
    view.add(ran.events[:count])
    with console.capture() as captured:
        console.print(view.drawn("Waiting"))
    text = re.sub(r"[\d.]+ s, (\d+ model calls?), .*", r"N s, \1, N tokens", captured.get())
    return "\n".join(line.rstrip() for line in text.splitlines())


def after(ran: Ran, kind: str, nth: int = 1) -> int:
    """How many events there are with the `nth` one of a kind."""
    places = [place for place, each in enumerate(ran.events, 1) if each.type == kind]
    return places[nth - 1]


async def test_a_plan_is_drawn_with_the_calls_of_its_current_step(ran: Ran) -> None:
    assert drawn(ran, after(ran, "tool_returned")) == snapshot("""\
What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?

● Look around
    search VeryUniqueClassName_Phoenix_2025_QW3RTY, value, return 5 lines, 0.0 s

Waiting
N s, 1 model call, N tokens\
""")
    assert drawn(ran, after(ran, "tool_called", 4)) == snapshot("""\
What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?

× Read the file (without success)
  The file was read.
● Read the source
    read_file jobs/secret.py                                           under way
○ Look for its uses

Found by the search, before the model's answer:
  jobs/secret.py:6  defines VeryUniqueClassName_Phoenix_2025_QW3RTY: class Very…
  jobs/secret.py:12  standalone_unique_function_MNBVCX_777 uses VeryUniqueClass…
  jobs/secret.py:8  return UNIQUE_CONSTANT_VERIFICATION_ZX9
  jobs/secret.py:3  UNIQUE_CONSTANT_VERIFICATION_ZX9 = 48613

Waiting
N s, 7 model calls, N tokens\
""")
    assert drawn(ran, len(ran.events) - 1).partition("\n\nFound")[0] == snapshot("""\
What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?

× Read the file (without success)
  The file was read.
✓ Read the source
  The file was read.
✓ Look for its uses\
""")


async def test_what_the_model_does_is_drawn(ran: Ran) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system=None, width=80)
    with LiveView(console, QUESTION, ran.events[0].at, Path.cwd()) as view:
        view.add(ran.events[: after(ran, "run_started")])
        view.draw(models_doing="tiny is being loaded")
    assert "Waiting for the model (tiny is being loaded), " in screen.getvalue()


async def test_a_run_of_another_process_is_followed(
    tmp_path: Path, ollama: ScriptedOllama, shared_upstream: SharedUpstream
) -> None:
    place = Place(tmp_path, ollama, shared=shared_upstream)
    question = f"What is {CLASS}, and in which file?"
    ollama.expect(Hang("", json.dumps(found(f"`{CLASS}` is in jobs/secret.py, line 6."))))
    asking = place.popen("ask", question)
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        await until(lambda: bool(ollama.requests))
        following = place.popen_on(
            {"stderr": theirs}, "runs", "--follow", COLUMNS="80", TERM="xterm"
        )
        os.close(theirs)
        try:
            shown = ""
            while "Waiting for the model" not in shown:
                shown += screen.read(4096).decode()
            ollama.release()
            report, _ = following.communicate(timeout=LONG)
            assert asking.wait(LONG) == 0
        finally:
            end(asking)
            end(following)
    assert following.returncode == 0
    for part in (question, "● Look around", f"search {CLASS}, value, which"):
        assert part in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert report.decode().startswith(f"`{CLASS}` is in jobs/secret.py, line 6.")

    (run_id,) = re.findall("_Run ([0-9a-f]{8})", report.decode())
    again = place.run("runs", "show", run_id, "--follow")
    assert again.stdout == report.decode()
    told = [line.strip() for line in normalised(again.stderr).splitlines()]  # 10.0 s is wider
    assert [told[0], told[-1]] == snapshot(
        ["0.0 s  Started with 6 read-only tools", "0.0 s  Finished: answered"]
    )


def test_a_name_that_no_file_can_have_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    shown = linked(Text(f"{'a' * 300}.py:12 a.py:12"), tmp_path)
    assert [shown.plain[span.start : span.end] for span in shown.spans] == ["a.py:12"]
