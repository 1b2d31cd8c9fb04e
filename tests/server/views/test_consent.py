"""A waiting approval in every view, and a person's answer in the browser and on the terminal."""

import hashlib
import json
import os
import pty
import re
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from fastmcp import Client
from notes import CALL, Person, noted
from ollama_replies import Hang
from planted import CLASS, CONSTANT, FUNCTION, VALUE
from replies import conclusion, deed, found, move_on, nowhere, plan, was_done
from scripted_ollama import ScriptedOllama
from serving import LONG, Place, SharedUpstream, bearer, connected, end, served, until

from server import auth
from server.app import build
from server.text import duration

pytestmark = pytest.mark.anyio

MINE, THEIRS = "mine-0123456789abcdef", "theirs-0123456789abcdef"
SECRET = "hunter2!"
LONG_TEXT = "\n".join(f"line {number} of a note" for number in range(400))
"""More than a form shows of an argument."""


@pytest.fixture
def place(notes_place: Place) -> Place:
    notes_place.approval = {"timeout_s": 10 * LONG}  # no question lapses on a busy machine
    return notes_place


@asynccontextmanager
async def waiting(client: Client[Any], person: Person, text: str = "hello") -> AsyncIterator[str]:
    """A run that waits with a call until the body is over; the client's person says nothing."""
    arguments = CALL | {"arguments": {"text": text}, "request_key": "one"}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "run_step", arguments)
        await until(lambda: bool(person.shown))
        (run_id,) = re.findall(r"For run (\w+):", person.shown[0])
        yield run_id
        with anyio.fail_after(LONG):
            while (await report_of(client, run_id))["status"] == "running":  # noqa: ASYNC110
                await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()


async def report_of(client: Client[Any], run_id: str) -> dict[str, Any]:
    got = await client.call_tool(
        "get_run", {"run_id": run_id, "wait_s": 0, "whole": True}, raise_on_error=False
    )
    return got.structured_content or {}


def decided(report: dict[str, Any]) -> tuple[bool, str]:
    approval = report["actions"][0]["tool_calls"][0]["approval"]
    return approval["approved"], approval["reason"]


async def first_of(http: httpx.AsyncClient, run_id: str, token: str) -> dict[str, Any]:
    """What a page is told at first."""
    path = f"/view/runs/{run_id}"
    async with http.stream("GET", path, headers=bearer(token)) as response:
        async for line in response.aiter_lines():
            first: dict[str, Any] = json.loads(line.removeprefix("data: "))
            return first
    raise AssertionError


async def test_the_browser_shows_the_whole_call_and_only_its_own_answer_counts(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It is noted."))
    person = Person(None)
    app = build(place.settings, auth=auth.Tokens([MINE, THEIRS]))
    with served(app) as url:
        base = url.removesuffix("/mcp")
        async with (
            Client(url, auth=MINE, elicitation_handler=person, mode="legacy") as client,
            httpx.AsyncClient(base_url=base, timeout=LONG) as http,
            waiting(client, person, LONG_TEXT) as run_id,
        ):
            call = (await first_of(http, run_id, MINE))["approval"]
            assert call["call"] == "add_note of notes (write: it adds or changes something)"
            assert all(f"  | {line}" in call["arguments"] for line in LONG_TEXT.splitlines())
            listed = (await http.get("/view/runs", headers=bearer(MINE))).json()["runs"]
            assert [each["approval"] for each in listed] == [call]
            assert [each["project"] for each in listed] == [str(place.project)]

            path, yes = f"/view/runs/{run_id}/approval", {"approve": True}
            right = yes | {"digest": call["digest"]}
            wrong = yes | {"digest": "0" * 64}
            short = yes | {"digest": ""}
            other_site = bearer(MINE, **{"Sec-Fetch-Site": "cross-site"})
            refused = [
                (await http.post(path, json=right, headers=headers)).status_code
                for headers in ({}, bearer(THEIRS), other_site)
            ]
            refused += [
                (await http.post(path, json=body, headers=bearer(MINE))).status_code
                for body in (wrong, short)
            ]
            assert refused == [401, 400, 400, 400, 400]
            assert noted(place.project) == []

            assert (await http.post(path, json=right, headers=bearer(MINE))).status_code == 204
            again = await http.post(path, json=right, headers=bearer(MINE))
            assert again.status_code == 400
            assert "no longer waits for approval" in again.text
            report = await report_of(client, run_id)
        assert decided(report) == (True, "the user approved it in the browser")
    assert noted(place.project) == [[LONG_TEXT, "nobody"]]


async def test_each_of_a_runs_calls_is_shown_and_decided_at_another_server(
    place: Place, ollama: ScriptedOllama
) -> None:
    """A look at the journal tells that server at once of one decision and of the next question."""
    place.approval = {"timeout_s": 12}
    ollama.expect(deed("note"))
    steps = [{"objective": f"Note {each}", "tool": "add_note"} for each in ("one", "two")]
    ollama.expect({"steps": steps})
    for each in ("one", "two"):
        ollama.expect({"text": each})
    ollama.expect(was_done("Both are noted."))
    with ExitStack() as stack:
        drives, other = (
            stack.enter_context(served(build(place.settings, auth=auth.Tokens([MINE]))))
            for _ in range(2)
        )
        base = other.removesuffix("/mcp")
        async with (
            connected(drives, auth=MINE) as caller,
            httpx.AsyncClient(base_url=base, timeout=LONG, headers=bearer(MINE)) as http,
        ):
            await http.get(drives.replace("/mcp", "/view/runs"))  # a page that can ask is open
            run_id = await caller.begin("Note one and two")
            told = []
            for _ in range(2):
                page = await first_of(http, run_id, MINE)
                while page["status"] == "running" and not page["approval"]:
                    page = await first_of(http, run_id, MINE)
                answer = {"digest": (page["approval"] or {}).get("digest", ""), "approve": True}
                done = await http.post(f"/view/runs/{run_id}/approval", json=answer)
                told.append(done.text or done.status_code)
            await caller.call("get_run", run_id=run_id)
    assert told == [204, 204]
    assert noted(place.project) == [["one", "nobody"], ["two", "nobody"]]


async def test_another_process_shows_what_waits_and_answers_it(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It is noted."))
    person = Person(None)
    async with (
        place.client("memory-legacy", person) as caller,
        waiting(caller.client, person, LONG_TEXT) as run_id,
    ):

        async def planloom(*words: str) -> tuple[int, str, str]:
            done = await anyio.to_thread.run_sync(place.run, *words)
            return done.returncode, done.stdout, done.stderr

        _, listed, _ = await planloom("runs")
        assert listed.startswith(" APPROVAL NEEDED  ")
        assert re.search(r" \d+ s left\n", listed)
        assert "  add_note of notes (write: it adds or changes something)\n" in listed
        assert all(f"  | {line}" in listed for line in LONG_TEXT.splitlines())
        assert f'For the run {run_id[:8]} in {place.project}: "Note hello"' in listed
        assert re.search(rf"^{run_id[:8]}  waits for approval  \d+ s ago", listed, re.MULTILINE)
        (command,) = re.findall(r"planloom (runs approve \w+@\w+)\n", listed)

        code, _, shown = await planloom("runs", "approve", run_id[:8])
        assert (code, command in shown, noted(place.project)) == (2, True, [])
        assert "planloom: Not approved: there is no terminal to confirm on." in shown
        for digest, why in (
            ("0" * 12, "This call no longer waits"),
            ("0" * 8, "The digest is not"),
        ):
            code, _, error = await planloom("runs", "approve", f"{run_id}@{digest}")
            assert (code, noted(place.project)) == (2, [])
            assert error.startswith(f"planloom: {why}")

        code, _, told = await planloom(*command.split())
        assert (code, told) == (
            0,
            "add_note of notes (write: it adds or changes something) was approved: the user "
            "approved it with `planloom runs`.\n",
        )
    assert noted(place.project) == [[LONG_TEXT, "nobody"]]


@pytest.mark.parametrize("on_terminal", [False, True])
async def test_who_looks_at_a_run_on_a_terminal_sees_what_waits(
    on_terminal: bool, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It is noted."))
    person = Person(None)
    ours, theirs = pty.openpty() if on_terminal else os.pipe()
    async with (
        place.client("memory-legacy", person) as caller,
        waiting(caller.client, person) as run_id,
    ):
        shown = await anyio.to_thread.run_sync(place.run, "runs", "show", run_id)
        assert shown.stderr.startswith(" APPROVAL NEEDED  ")
        with os.fdopen(ours, "rb", buffering=0) as screen:
            words = ("runs", "show", run_id, "--follow")
            following = place.popen_on({"stderr": theirs}, *words, COLUMNS="100", TERM="xterm")
            os.close(theirs)
            try:
                seen, read = b"", partial(screen.read, 4096)
                with anyio.fail_after(LONG):
                    while b" APPROVAL NEEDED " not in seen:
                        piece = await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
                        assert piece, seen
                        seen += piece
            finally:
                end(following)
        (command,) = re.findall(r"planloom (runs approve \w+@\w+)\n", shown.stderr)
        await anyio.to_thread.run_sync(place.run, *command.split())
    assert noted(place.project) == [["hello", "nobody"]]


async def test_ctrl_c_ends_the_question_of_approve(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(conclusion("It is not noted.", success=False))
    person = Person(None)
    async with (
        place.client("memory-legacy", person) as caller,
        waiting(caller.client, person) as run_id,
    ):
        ours, theirs = pty.openpty()
        approving = place.popen_on({"stdin": theirs}, "runs", "approve", run_id)
        try:
            assert approving.stderr
            seen, read = b"", partial(os.read, approving.stderr.fileno(), 4096)
            with anyio.fail_after(LONG):
                while b"[y/N]" not in seen:
                    seen += await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
            await anyio.sleep(0.5)  # it waits for the terminal now
            approving.send_signal(signal.SIGINT)
            assert await anyio.to_thread.run_sync(approving.wait, LONG) == 130
        finally:
            for end_of_terminal in (ours, theirs):
                os.close(end_of_terminal)
            end(approving)
            await anyio.to_thread.run_sync(place.run, "runs", "decline", run_id)
    assert noted(place.project) == []


@pytest.mark.parametrize("face", ["memory", "memory-legacy"])
async def test_a_plan_says_what_may_change_something_before_it_is_asked_for(
    face: str, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(deed("notes"))
    steps = [("Count the notes", "count_notes"), ("Note it", "add_note")]
    planned = [{"objective": objective, "tool": tool} for objective, tool in steps]
    ollama.expect({"steps": planned})
    ollama.expect({"tool": "add_note"})
    ollama.expect(Hang(after="", then=json.dumps({"text": "hello"})))
    ollama.expect(was_done("added"))
    async with place.client(face, Person(True)) as caller:
        question = {"prompt": "Count the notes, note hello", "wait_s": 0}
        begun = await caller.call("plan_and_answer", **question)
        await ollama.arrived(3)
        run_id = (begun.structured_content or {})["run_id"]
        shown = await caller.call("get_run", run_id=run_id, wait_s=0)
        told = "Plan of 2 steps (add_note may change something)"
        assert caller.progress.messages.count(told) == 1
        reported = [(each.structured_content or {}).get("plan", []) for each in (begun, shown)]
        assert ["[~] Note it (add_note may change something)"] in [each[-1:] for each in reported]
        page = await report_of(caller.client, run_id)
        assert [each["change"] for each in page["steps"]] == ["", "add_note"]
        assert not any("Approval is needed" in each for each in caller.progress.messages)
        ollama.release()
        done = await caller.call("get_run", run_id=run_id)
    assert (done.structured_content or {})["plan"] == ["[x] Count the notes", "[x] Note it"]
    assert noted(place.project) == [["hello", "nobody"]]


async def test_what_a_model_has_guessed_is_told_where_approval_is_asked_for(
    place: Place, ollama: ScriptedOllama
) -> None:
    """It stands neither in the request nor in a result; what the caller wrote is no guess."""
    ollama.expect(deed("notes"))
    ollama.expect(plan("add_note"))
    ollama.expect({"text": "anna@example.com"})
    ollama.expect({"tool": None})
    ollama.expect(was_done("It is not noted."))
    guess = "This may be a guess: neither a result nor the request contains text: anna@example.com."
    person = Person(None)
    async with place.client("memory-legacy", person) as caller, anyio.create_task_group() as tasks:
        question = {"prompt": "Note hello", "request_key": "one"}
        tasks.start_soon(caller.client.call_tool, "plan_and_answer", question)
        await until(lambda: bool(person.shown))
        assert f"```\n{guess}\nFor run " in person.shown[0]
        listed = await anyio.to_thread.run_sync(place.run, "runs")
        assert f"  {guess}\n" in listed.stdout
        (run_id,) = re.findall(r"For run (\w+):", person.shown[0])
        await anyio.to_thread.run_sync(place.run, "runs", "decline", run_id)
        with anyio.fail_after(LONG):
            while (await report_of(caller.client, run_id))["status"] == "running":  # noqa: ASYNC110
                await anyio.sleep(0.05)
        ollama.expect(conclusion("It is noted."))
        given = {"text": "hello", "author": "anna@example.com"}
        person.answers = [True]
        await caller.call("run_step", **CALL | {"arguments": given})
        assert "guess" not in person.shown[1]
    assert noted(place.project) == [["hello", "anna@example.com"]]


async def test_another_process_declines(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(conclusion("It is not noted.", success=False))
    person = Person(None)
    async with place.client("memory-legacy", person) as caller:
        async with waiting(caller.client, person) as run_id:
            done = await anyio.to_thread.run_sync(place.run, "runs", "decline", run_id[:6])
            assert done.returncode == 0
        assert decided(await report_of(caller.client, run_id)) == (
            False,
            "the user said no with `planloom runs`",
        )
        late = await anyio.to_thread.run_sync(place.run, "runs", "approve", run_id)
        assert late.returncode == 2
        assert "is not waiting for approval" in late.stderr
    assert noted(place.project) == []


async def test_a_call_with_a_secret_is_approved_by_what_the_record_shows_of_it(
    place: Place, ollama: ScriptedOllama
) -> None:
    """The call is made with the secret, which no file holds, nor a hash that could be tried."""
    text = keep_secret(place)
    ollama.expect(conclusion("It is noted."))
    person = Person(None)
    async with (
        place.client("memory-legacy", person) as caller,
        waiting(caller.client, person, text) as run_id,
    ):
        shown = await anyio.to_thread.run_sync(place.run, "runs", "approve", run_id)
        assert 'text: "the password is ***"' in shown.stderr
        (command,) = re.findall(r"planloom (runs approve \w+@\w+)\n", shown.stderr)
        done = await anyio.to_thread.run_sync(place.run, *command.split())
        assert (done.returncode, done.stderr) == (
            0,
            "add_note of notes (write: it adds or changes something) was approved: the user "
            "approved it with `planloom runs`.\n",
        )
    assert noted(place.project) == [[text, "nobody"]]
    call = [run_id, 0, "notes", "add_note", {"text": text}]
    plain = hashlib.sha256(json.dumps(call, sort_keys=True).encode()).hexdigest()
    written = b"".join(file.read_bytes() for file in place.root.rglob("*") if file.is_file())
    assert run_id.encode() in written
    assert [each for each in (SECRET, plain) if each.encode() in written] == []


async def test_a_run_taken_up_from_the_record_does_not_call_with_a_redacted_secret(
    place: Place, ollama: ScriptedOllama
) -> None:
    text = keep_secret(place)
    ollama.expect(conclusion("It is not noted.", success=False))
    person = Person(None)
    with place.http() as (process, port):
        url = f"http://127.0.0.1:{port}/mcp"
        async with (
            Client(url, auth=place.token, elicitation_handler=person, mode="legacy") as client,
            anyio.create_task_group() as tasks,
        ):
            arguments = CALL | {"arguments": {"text": text}, "wait_s": 30}
            tasks.start_soon(partial(client.call_tool, "run_step", arguments))
            await until(lambda: bool(person.shown))
            (run_id,) = re.findall(r"For run (\w+):", person.shown[0])
            process.kill()
            tasks.cancel_scope.cancel()
    async with place.client("served-legacy", Person(True)) as caller:
        await caller.call("run_step", run_id=run_id)
        report = await report_of(caller.client, run_id)
    assert decided(report) == (
        False,
        "its arguments hold a secret, which the run's record does not contain; give the secret "
        "again, in another step or a new run",
    )
    assert noted(place.project) == []


ABOUT_SECRET = {"prompt": f"Note that the password is {SECRET}", "tool": "add_note"}


@pytest.mark.parametrize("by_model", [False, True])
async def test_a_later_step_is_called_with_the_secret(
    by_model: bool, place: Place, ollama: ScriptedOllama
) -> None:
    """Whether the caller gives it in the step's arguments, or a model knows it from an earlier
    step's prompt; nothing of it is on record."""
    text = keep_secret(place)
    steps: list[dict[str, Any]] = [ABOUT_SECRET | {"arguments": {"text": "one"}}]
    ollama.expect(conclusion("One is noted."))
    if by_model:
        steps.append({"prompt": "Note it", "tool": "add_note"})
        ollama.expect({"text": text}, contains=[SECRET])
    else:
        steps.append({"prompt": "Note two", "tool": "add_note", "arguments": {"text": text}})
    steps.append({"prompt": "Note three", "tool": "add_note", "arguments": {"text": f"3 {text}"}})
    ollama.expect(conclusion("It is noted."))
    ollama.expect(conclusion("All is noted."))
    async with place.client(person=Person(True, True, True)) as caller:
        run_id = None
        for step in steps:
            done = await caller.call("run_step", **step, **({"run_id": run_id} if run_id else {}))
            run_id = (done.whole or {})["run_id"]
    assert noted(place.project) == [["one", "nobody"], [text, "nobody"], [f"3 {text}", "nobody"]]
    notes = place.project / "notes.txt"
    files = [file for file in place.root.rglob("*") if file.is_file() and file != notes]
    assert [file for file in files if SECRET.encode() in file.read_bytes()] == []


async def test_a_step_on_another_server_knows_only_the_secret_that_it_is_given(
    place: Place, ollama: ScriptedOllama
) -> None:
    text = keep_secret(place)
    ollama.expect(conclusion("One is noted."))
    async with place.client(person=Person(True)) as caller:
        arguments: dict[str, Any] = {"arguments": {"text": "one"}}
        done = await caller.call("run_step", **ABOUT_SECRET, **arguments)
        run_id = (done.whole or {})["run_id"]
    ollama.expect({"text": "the password is ***"}, contains=["password is ***"])
    ollama.expect(conclusion("It is not noted.", success=False))
    ollama.expect(conclusion("It is noted."))
    asked = Person(True)
    async with place.client(person=asked) as caller:
        await caller.call("run_step", run_id=run_id, prompt="Note it", tool="add_note")
        report = await report_of(caller.client, run_id)
        again = {"prompt": "Note it again", "tool": "add_note", "arguments": {"text": text}}
        await caller.call("run_step", run_id=run_id, **again)
    (*_, last) = [call for action in report["actions"] for call in action["tool_calls"]]
    assert last["result"] == (
        "Not approved: its arguments hold a secret, which the run's record does not contain; give "
        "the secret again, in another step or a new run. It was not made; go on without it."
    )
    assert len(asked.shown) == 1
    assert noted(place.project) == [["one", "nobody"], [text, "nobody"]]


async def test_stars_that_stand_for_no_secret_are_noted(
    place: Place, ollama: ScriptedOllama
) -> None:
    """As Markdown has them between two parts."""
    async with place.client(person=Person(True, True)) as caller:
        stars = {"tool": "add_note", "arguments": {"text": "***"}}
        ollama.expect(conclusion("It is noted."))
        done = await caller.call("run_step", prompt="Note ***", **stars)
        run_id = (done.whole or {})["run_id"]
        more = {"tool": "add_note", "arguments": {"text": "two ***"}}
        ollama.expect(conclusion("It is noted."))
        await caller.call("run_step", run_id=run_id, prompt="Note two", **more)
    assert noted(place.project) == [["***", "nobody"], ["two ***", "nobody"]]


async def test_stars_that_another_server_has_recorded_are_noted(
    place: Place, ollama: ScriptedOllama
) -> None:
    run: dict[str, str] = {}
    for number in range(3):
        ollama.expect(conclusion("It is noted."))
        async with place.client(person=Person(True)) as caller:
            step = {"tool": "add_note", "arguments": {"text": f"***{number}***"}}
            done = await caller.call("run_step", prompt=f"Note ***{number}***", **step, **run)
        run = {"run_id": (done.whole or {})["run_id"]}
    assert noted(place.project) == [[f"***{number}***", "nobody"] for number in range(3)]


def keep_secret(place: Place) -> str:
    """A text with a secret of the operator, who gives it to the upstream."""
    place.variables = {"NOTES_PASSWORD": SECRET}
    place.upstreams["notes"] |= {"headers": {"X-Password": "${NOTES_PASSWORD}"}}
    return f"the password is {SECRET}"


async def test_the_browser_answers_for_another_servers_run(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It is noted."))
    person = Person(None)
    with place.http() as (_, port):
        base = f"http://127.0.0.1:{port}"
        async with (
            place.client("memory-legacy", person) as caller,
            httpx.AsyncClient(base_url=base, timeout=LONG) as http,
            waiting(caller.client, person) as run_id,
        ):
            call = (await first_of(http, run_id, place.token))["approval"]
            answer = {"digest": call["digest"], "approve": True}
            path, headers = f"/view/runs/{run_id}/approval", bearer(place.token)
            done = await http.post(path, json=answer, headers=headers)
            assert (done.status_code, done.text) == (204, "")
    assert noted(place.project) == [["hello", "nobody"]]


async def test_every_view_says_the_same_of_a_run(
    tmp_path: Path, ollama: ScriptedOllama, shared_upstream: SharedUpstream
) -> None:
    """Counts, ticks, status and seconds; of a result in JSON, too, and of a step given up."""
    place = Place(tmp_path, ollama, shared=shared_upstream)
    ollama.expect(nowhere())
    ollama.expect(plan("list_dir", "Look for its uses"))
    ollama.expect({"path": "."})
    ollama.expect(move_on("search", "Look for its uses") | {"decision": "give_up"})
    ollama.expect({"path": "jobs", "pattern": FUNCTION})
    ollama.expect(found(f"`{CONSTANT}` is {VALUE}."))
    with place.http() as (_, port):
        base = f"http://127.0.0.1:{port}"
        async with (
            Client(f"{base}/mcp", auth=place.token) as client,
            httpx.AsyncClient(base_url=base, timeout=LONG) as http,
        ):
            question = {"prompt": f"What does {CLASS} return?"}
            answered = await client.call_tool("plan_and_answer", question)
            run_id = (answered.structured_content or {})["run_id"]
            report = await report_of(client, run_id)
            page = await first_of(http, run_id, place.token)
            path, headers = f"/view/runs/{run_id}", bearer(place.token)
            (made,) = [
                each for each in report["actions"] if each["tool_calls"][0]["name"] == "list_dir"
            ]
            whole = (await http.get(f"{path}/results/{made['iteration']}", headers=headers)).text
            asked = (await http.get(f"{path}/calls/1", headers=headers)).json()
            no_such = (await http.get(f"{path}/calls/99", headers=headers)).status_code
    terminal = place.run("runs", "show", run_id[:8], "--follow")
    transcript = place.run("runs", "show", run_id[:8], "--transcript").stdout
    listed = place.run("runs").stdout

    calls = [call for action in report["actions"] for call in action["tool_calls"]]
    (listing,) = made["tool_calls"]
    assert len(listing["result"].splitlines()) == 1  # it is JSON
    assert listing["outcome_text"] == f"{len(whole.splitlines())} lines"
    for call in calls:
        took = duration(call["execution_time"])
        assert f"{call['name']} returned {call['outcome_text']} in {took}" in terminal.stderr
        assert f"## {call['name']}: {call['outcome_text']}\n" in transcript
    assert [(each["objective"], each["status"]) for each in report["steps"]] == [
        ("Read the file", "failed"),
        ("Look for its uses", "completed"),
    ]
    assert "- [!] Read the file (without success)\n- [x] Look for its uses\n" in terminal.stdout
    assert f"; {duration(report['usage']['seconds'])} in all" in terminal.stdout
    assert {key: page[key] for key in report} == report
    assert re.search(rf"^{run_id[:8]}  {report['status']} ", listed, re.MULTILINE)
    assert f"Finished: {report['status']}" in terminal.stderr

    kinds = [(each["kind"], each["number"]) for each in page["timeline"]]
    assert [number for kind, number in kinds if kind == "model"] == [
        *range(report["usage"]["model_calls"])
    ]
    assert asked["question"]
    assert json.loads(asked["reply"])
    assert no_such == 404


async def test_an_open_page_is_a_way_to_ask_for_a_client_that_has_none(
    place: Place, ollama: ScriptedOllama
) -> None:
    """Who looks at the list is asked; so the run's models may see such tools."""
    ollama.expect(conclusion("It is noted."))
    with served(build(place.settings, auth=auth.Tokens([MINE]))) as url:
        async with (
            Client(url, auth=MINE) as client,
            httpx.AsyncClient(base_url=url.removesuffix("/mcp"), timeout=LONG) as http,
        ):
            refused = await client.call_tool("run_step", CALL, raise_on_error=False)
            assert refused.is_error
            headers = bearer(MINE)
            await http.get("/view/runs", headers=headers)
            begun = await client.call_tool("run_step", CALL | {"wait_s": 0})
            run_id = (begun.structured_content or {})["run_id"]
            call = None
            with anyio.fail_after(LONG):
                while call is None:
                    listed = (await http.get("/view/runs", headers=headers)).json()["runs"]
                    call = listed[0]["approval"]
            answer = {"digest": call["digest"], "approve": True}
            await http.post(f"/view/runs/{run_id}/approval", json=answer, headers=headers)
            await client.call_tool("get_run", {"run_id": run_id})
            report = await report_of(client, run_id)
    assert decided(report) == (True, "the user approved it in the browser")
