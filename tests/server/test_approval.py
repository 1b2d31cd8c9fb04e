"""Approval: who may run what, asked in both protocol eras, and never more than was approved."""
# ruff: noqa: E501  texts stand as people see them

import json
import os
import pty
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import anyio
import anyio.to_thread
import pytest
import uvicorn
from fastmcp import FastMCP
from hypothesis import given
from hypothesis import strategies as st
from in_memory import READ, WRITE, DictionaryPool, Fast, planned, spec
from inline_snapshot import snapshot
from mcp import MCPError
from mcp_types import ElicitResult as RawElicitResult
from mcp_types import InputRequiredResult
from notes import CALL, CALL_IN_WORDS, YES, Person, noted, notes, raw, report
from replies import beside_record, conclusion, deed, deep, found, nowhere, plan, stay, was_done
from scripted_ollama import ScriptedOllama
from serving import (
    Caller,
    Place,
    SharedUpstream,
    connected,
    free_port,
    normalised,
    text,
    until,
    upstream,
)

from planner.checks.guards.repeats import UNKNOWN
from planner.events import ApprovalAsked, ToolSelected
from planner.inbox import Inbox
from planner.protocol import Limits, RunRequest, Steering
from planner.state import RunState
from planner.tools import Approval, Outcome, Policy, Safety, ToolResult, ToolSpec, strictest
from server.app import build
from server.approval.approval import Approvals, GuardedPool, Question
from server.cli import ask
from server.views.consent import shown_arguments, visible

pytestmark = pytest.mark.anyio

ERAS = ("memory", "memory-legacy")
FACES = (*ERAS, "http", "http-legacy")
NOTED = beside_record("It is noted.", CALL_IN_WORDS)


@pytest.fixture
def place(notes_place: Place) -> Place:
    return notes_place


@asynccontextmanager
async def client(face: str, place: Place, person: Person | None = None) -> AsyncIterator[Caller]:
    """A client of a server in this process."""
    kind, _, era = face.partition("-")
    async with (
        served(place) if kind == "http" else in_memory(place) as server,
        connected(server, person, era or "auto") as caller,
    ):
        yield caller


@asynccontextmanager
async def in_memory(place: Place) -> AsyncIterator[FastMCP]:
    yield build(place.settings)


@asynccontextmanager
async def served(place: Place) -> AsyncIterator[str]:
    """The URL of a server over HTTP."""
    port = free_port()
    app = build(place.settings).http_app(path="/mcp", host_origin_protection=True)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", lifespan="on"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve)
        await until(lambda: server.started)
        yield f"http://127.0.0.1:{port}/mcp"
        server.should_exit = server.force_exit = True


def approval(result: Any, iteration: int = -1) -> Any:
    (call,) = report(result)["actions"][iteration]["tool_calls"]
    return call["approval"]


# Asked, in both eras


@pytest.mark.parametrize("face", FACES)
async def test_an_approved_call_is_shown_whole_and_runs_once(
    face: str, place: Place, ollama: ScriptedOllama, shared_notes: SharedUpstream
) -> None:
    place.upstreams = {"notes": notes(shared_notes, add_note={"arguments": {"author": "Planloom"}})}
    ollama.expect(conclusion("It is noted."), contains=["added"])
    person = Person(True)
    async with client(face, place, person) as caller:
        result = await caller.call("run_step", **CALL)
    assert noted(place.project) == [["hello", "Planloom"]]
    assert [normalised(each) for each in person.shown] == snapshot(
        [
            """\
Planloom asks: may it make this call?

add_note of notes (write: it adds or changes something)
```text
text: "hello"
author: "Planloom"
```
For run RUN: "Note hello". It is made once, exactly as shown. Without an answer within 120 s it is declined.\
"""
        ]
    )
    assert approval(result) == snapshot(
        {"safety": "write", "approved": True, "by": "person", "reason": "the user approved it"}
    )
    assert report(result)["answer"] == NOTED
    events = [event["type"] for event in caller.progress.events]
    assert events.count("run_started") == events.count("approval_asked") == 1  # nothing twice
    after = events[events.index("approval_decided") :]
    assert after[:3] == ["approval_decided", "tool_called", "tool_returned"]
    asked = next(each for each in caller.progress.events if each["type"] == "approval_asked")
    assert asked["arguments"] == {"text": "hello", "author": "Planloom"}
    assert [each for each in caller.progress.messages if "approv" in each][-2:] == snapshot(
        [
            'approval is needed: add_note of notes (write: it adds or changes something), with text: "hello"; author: "Planloom"',
            "add_note was approved: the user approved it",
        ]
    )
    assert normalised(text(result)) == snapshot("""\
What was done:
- add_note {"text": "hello"}

The model says:
It is noted.

Call run_step with run_id `RUN` for another step, plan_and_answer with it to conclude.

### Approvals

- `add_note` (write), approved: the user approved it

_Run RUN: 1 tool call (0.0 s), 1 model call (N prompt tokens, N of them cached, N generated, 0.0 s); 0.0 s in all; some 1 tokens of tool results read for an answer of 21_\
""")


@pytest.mark.parametrize("face", ERAS)
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (False, "the user said no"),
        ("decline", "the user said no"),
        ("cancel", "the user gave no answer"),
        ("accept", "the user said no"),  # of a client that shows no form
    ],
)
async def test_anything_but_a_yes_is_a_no(
    face: str, answer: bool | str, reason: str, place: Place, ollama: ScriptedOllama
) -> None:
    told = f"Not approved: {reason}. It was not made; go on without it."
    ollama.expect(conclusion("It was not noted.", success=False), contains=[told])
    async with client(face, place, Person(answer)) as caller:
        result = await caller.call("run_step", **CALL)
    assert noted(place.project) == []
    decided = {"approved": False, "by": "person", "reason": reason, "safety": "write"}
    assert approval(result) == decided
    (call,) = report(result)["actions"][0]["tool_calls"]
    assert (call["outcome"], call["upstream"], call["result"]) == ("ERROR", None, told)
    assert f"- `add_note` (write), refused: {reason}" in text(result)


async def test_a_run_goes_on_after_a_refusal_and_does_not_ask_again(
    place: Place, ollama: ScriptedOllama
) -> None:
    note = {"text": "hello"}
    ollama.expect(deed("notes"))
    ollama.expect(plan("add_note"))
    ollama.expect(note)
    told = "Not approved: the user said no"
    ollama.expect(was_done("Nothing.", "Note it", "add_note"), contains=[told])
    ollama.expect(note)
    person = Person(False)
    async with client("memory", place, person) as caller:
        result = await caller.call("plan_and_answer", prompt="Note hello and count the notes")
    assert (report(result)["status"], report(result)["answer"]) == (
        "refused",
        "Nothing was changed: add_note was not approved (the user said no).",
    )
    assert len(person.shown) == 1
    guards = [guard.partition(":")[0] for guard in report(result)["guards"]]
    assert guards == ["not_again", "no_progress"]
    assert [approval(result, number) is None for number in range(2)] == [False, True]
    [again] = report(result)["actions"][1]["tool_calls"]
    assert again["result"].startswith("This very call was made in iteration 0, and not approved")


@pytest.mark.parametrize(
    ("prompt", "claim"),
    [
        ("Lege die Notiz hallo an", "Die Notiz hallo wurde angelegt."),
        ("Crée une note bonjour", "La note bonjour a été créée."),
        ("添加一条笔记：你好", "笔记“你好”已添加。"),
    ],
)
async def test_in_no_language_is_said_to_be_done_what_was_not(
    prompt: str, claim: str, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(deed("notes"))
    ollama.expect(plan("add_note"))
    ollama.expect({"text": prompt.split()[-1]})
    ollama.expect(was_done(claim))
    async with client("memory", place, Person(False)) as caller:
        result = await caller.call("plan_and_answer", prompt=prompt)
    assert (report(result)["status"], report(result)["answer"]) == (
        "refused",
        "Nothing was changed: add_note was not approved (the user said no).",
    )
    assert claim not in text(result)
    assert noted(place.project) == []


# Who may not be asked, and what needs nobody


@pytest.mark.parametrize("face", ERAS)
async def test_a_client_that_cannot_ask_is_told_and_its_models_see_no_such_tool(
    face: str, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(plan("count_notes"))
    ollama.expect(found("There are 0 notes."))
    async with client(face, place) as caller:
        told = await caller.error("run_step", **CALL)
        result = await caller.call("plan_and_answer", prompt="How many notes are there?")
    assert told == snapshot(
        'The tool "add_note" was refused: its safety class is write, so the user has to approve the call, and this client cannot ask (it does not declare elicitation). Open the list of runs in the browser view, or use `planloom ask` on a terminal.'
    )
    assert "Started with 1 read-only tool" in caller.progress.messages
    schema = ollama.requests[0].schema
    assert isinstance(schema, dict)
    step = schema["properties"]["steps"]["items"]
    assert step["properties"]["tool"] == {"enum": ["count_notes", None]}
    assert not any("add_note" in str(request.messages) for request in ollama.requests)
    assert report(result)["status"] == "answered"
    assert noted(place.project) == []


@pytest.mark.parametrize(
    ("file", "run", "asked", "by"),
    [
        ("allow", "allow", False, "policy"),
        ("allow", "ask", True, "person"),
        ("ask", "allow", True, "person"),
        ("ask", "ask", True, "person"),
    ],
)
async def test_the_strictest_of_file_and_run_holds(
    file: str,
    run: str,
    asked: bool,
    by: str,
    place: Place,
    ollama: ScriptedOllama,
    shared_notes: SharedUpstream,
) -> None:
    place.upstreams = {"notes": notes(shared_notes, add_note={"policy": file})}
    ollama.expect(conclusion("It is noted."))
    person = Person(True)
    async with client("memory", place, person) as caller:
        result = await caller.call("run_step", policy=run, **CALL)
    assert bool(person.shown) == asked
    assert (approval(result)["approved"], approval(result)["by"]) == (True, by)
    assert noted(place.project) == [["hello", "nobody"]]


async def test_read_only_by_file_or_run_is_refused_before_a_run_is_spent(
    place: Place, shared_notes: SharedUpstream
) -> None:
    tools = {"add_note": {"policy": "read_only"}}
    place.upstreams = {"notes": notes(shared_notes, policy="allow", **tools)}
    person = Person()
    async with client("memory", place, person) as caller:
        by_file = await caller.error("run_step", policy="allow", **CALL)
        delete = {"prompt": "Delete", "tool": "delete_notes", "arguments": {}}
        by_run = await caller.error("run_step", policy="read_only", **delete)
        unknown = await caller.error("run_step", policy="yolo", **delete)
    assert [by_file, by_run, unknown] == snapshot(
        [
            'The tool "add_note" was refused: its safety class is write, and the operator permits read-only tools only.',
            'The tool "delete_notes" was refused: its safety class is destructive, and this run may use read-only tools only.',
            "run_step: policy: should be 'read_only', 'ask' or 'allow', not 'yolo'.",
        ]
    )


async def test_what_is_allowed_needs_no_client_that_can_ask(
    place: Place, ollama: ScriptedOllama, shared_notes: SharedUpstream
) -> None:
    """And what is not is refused at once, as the call's result."""
    place.upstreams = {"notes": notes(shared_notes, add_note={"policy": "allow"})}
    ollama.expect(deed("notes"))
    first, then = (plan(tool, objective=tool) for tool in ("add_note", "delete_notes"))
    ollama.expect(first | {"steps": [*first["steps"], *then["steps"]]})
    ollama.expect({"text": "hello"})
    ollama.expect(
        was_done("Noted, not deleted."),
        contains=["no client that can ask the user follows the run"],
    )
    async with client("memory", place) as caller:
        result = await caller.call("plan_and_answer", prompt="Note hello, delete", policy="allow")
        listed = text(await caller.call("list_tools"))
    started = "Started with 1 read-only tool and 2 that need approval"
    assert started in caller.progress.messages
    assert [approval(result, each)["by"] for each in (0, 1)] == ["policy", "no_way_to_ask"]
    assert noted(place.project) == [["hello", "nobody"]]
    assert "- add_note (notes, write, policy allow, priority 0): Add a note." in listed
    assert "- delete_notes (notes, destructive, policy ask, priority 0)" in listed


async def test_a_server_of_read_only_tools_says_that_it_is(
    place: Place, shared_notes: SharedUpstream
) -> None:
    hints = {}
    for policy in ("ask", "read_only"):
        place.upstreams = {"notes": notes(shared_notes, policy=policy)}
        async with client("memory", place) as caller:
            tools = {tool.name: tool for tool in await caller.client.list_tools()}
        for name in ("plan_and_answer", "run_step", "make_plan"):
            annotations = tools[name].annotations
            assert annotations
            hints[policy, name] = annotations.read_only_hint
    assert {name for name, reads in hints.items() if not reads} == {
        ("ask", "plan_and_answer"),
        ("ask", "run_step"),
    }


# Time, other views, and clients that go


@pytest.mark.parametrize("face", FACES)
async def test_without_an_answer_in_time_the_run_goes_on(
    face: str, place: Place, ollama: ScriptedOllama
) -> None:
    place.approval = {"timeout_s": 0.2}
    ollama.expect(conclusion("It was not noted.", success=False), contains=["nobody answered"])
    person = Person(None)
    async with client(face, place, person) as caller, anyio.create_task_group() as tasks:

        async def come_back() -> None:
            """Of a modern client, which brings the answer when nobody waits for it."""
            await ollama.arrived()
            person.comes_back.set()

        if "legacy" not in face:
            tasks.start_soon(come_back)
        result = await caller.call("run_step", **CALL)
        if "legacy" in face:
            await until(lambda: person.withdrawn == 1)
    decided = snapshot(
        {
            "safety": "write",
            "approved": False,
            "by": "timeout",
            "reason": "nobody answered within 0.2 s",
        }
    )
    assert approval(result) == decided
    told = "Nothing was changed: add_note was not approved (nobody answered within 0.2 s)."
    assert report(result)["answer"] == told
    assert noted(place.project) == []


@asynccontextmanager
async def while_asked(caller: Caller, person: Person) -> AsyncIterator[list[Any]]:
    """While a person is asked about a call; its result is there at the end."""
    results: list[Any] = []

    async def begin() -> None:
        results.append(await caller.call("run_step", **CALL))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(begin)
        await until(lambda: bool(person.shown))
        yield results


async def test_the_first_answer_of_several_views_counts(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It is noted."))
    away, here = Person(None), Person(True)
    async with (
        served(place) as url,
        connected(url, away, "legacy") as first,
        connected(url, here) as second,
        connected(url, None) as third,
        while_asked(first, away) as results,
    ):
        run_id = first.progress.run_id
        waiting = await third.call("get_run", run_id=run_id, wait_s=0)
        results.append(await second.call("get_run", run_id=run_id))
    told = re.sub(r"\d+ s left", "N s left", normalised(text(waiting)))
    assert told == snapshot("""\
Still running: Waiting for approval of add_note (N s left), 0 s. `add_note` needs the user's approval. Call get_run with run_id `RUN` to ask the user and go on, cancel_run to end it.

- [~] Note hello

New:

- Note hello
- approval is needed: add_note of notes (write: it adds or changes something), with text: "hello"\
""")
    assert approval(waiting)["approved"] is None
    assert (len(away.shown), away.withdrawn, len(here.shown)) == (1, 1, 1)
    assert [report(result)["answer"] for result in results] == [NOTED] * 2
    assert noted(place.project) == [["hello", "nobody"]]


async def test_a_question_outlives_the_client_that_was_asked(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It is noted."))
    async with served(place) as url:
        async with connected(url, Person()) as gone:
            asked = await raw(gone, "run_step", CALL)
            run_id = gone.progress.run_id
        assert isinstance(asked, InputRequiredResult)
        async with connected(url, Person(True), "legacy") as other:
            await other.call("get_run", run_id=run_id, wait_s=0)  # a person is waited for
            result = await other.call("get_run", run_id=run_id)
    assert report(result)["answer"] == NOTED
    assert noted(place.project) == [["hello", "nobody"]]


async def test_a_client_that_goes_while_it_asks_has_not_answered(
    place: Place, ollama: ScriptedOllama
) -> None:
    """It was a no: who called again was told that the client could not ask."""
    server, away = build(place.settings), Person(None)
    async with connected(server, Person(True)) as back:
        async with connected(server, away, "legacy") as gone:

            async def call() -> None:
                with pytest.raises(MCPError, match="Connection closed"):
                    await gone.call("run_step", **CALL)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await until(lambda: bool(away.shown))
                await gone.client.close()  # type: ignore[no-untyped-call]
        ollama.expect(conclusion("It is noted."))
        result = await back.call("run_step", **CALL)
    assert report(result)["run_id"] == gone.progress.run_id
    assert report(result)["answer"] == NOTED
    assert noted(place.project) == [["hello", "nobody"]]


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_cancelling_the_run_ends_the_question(era: str, place: Place) -> None:
    server = build(place.settings)
    person = Person(None)
    async with (
        connected(server, person, era) as caller,
        connected(server) as other,
        while_asked(caller, person) as results,
    ):
        ended = await other.call("cancel_run", run_id=caller.progress.run_id)
        call = await other.call("get_run", run_id=caller.progress.run_id, iteration=0)
        person.comes_back.set()
    assert [report(each)["status"] for each in (ended, *results)] == ["cancelled"] * 2
    assert approval(ended)["approved"] is None
    assert "waits for approval" not in text(call)
    assert noted(place.project) == []


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("no window", "no window"),
        ("no\n  window " + "x" * 900, f"no window {'x' * 189}…"),
    ],
)
async def test_a_client_that_fails_to_ask_is_no_way_to_ask(
    says: str, why: str, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It was not noted.", success=False))
    async with client("memory-legacy", place, Person(ValueError(says))) as caller:
        result = await caller.call("run_step", **CALL)
    assert approval(result) == {
        "safety": "write",
        "approved": False,
        "by": "no_way_to_ask",
        "reason": f"the client could not ask the user: {why}",
    }
    assert noted(place.project) == []


async def test_a_client_that_fails_to_ask_takes_the_question_from_no_other(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It is noted."))
    server = build(place.settings)
    async with (
        connected(server, Person()) as caller,
        connected(server, Person(ValueError("no window")), "legacy") as failing,
    ):
        asked = await raw(caller, "run_step", CALL)
        seen = await failing.call("get_run", run_id=caller.progress.run_id, wait_s=0.1)
        answer = {"request_state": asked.request_state, "input_responses": YES}
        result = await raw(caller, "run_step", CALL, **answer)
    assert approval(seen)["approved"] is None
    assert report(result)["answer"] == NOTED


async def test_after_a_question_without_answer_nobody_is_waited_for_until_somebody_calls() -> None:
    request = RunRequest(prompt="p", policy=Policy.ASK)
    asked = ApprovalAsked(
        iteration=0, upstream=WRITE.upstream, tool=WRITE.name, arguments=NOTE, safety=WRITE.safety
    )
    state = RunState.of([ToolSelected(tool=WRITE.name, prompt="p"), asked])
    approvals = Approvals("run", request, state, timeout_s=0.01)
    approvals.can_ask = True
    by = [(await approvals.decide(WRITE, NOTE)).by for _ in range(2)]
    approvals.can_ask = True  # a view came
    by.append((await approvals.decide(WRITE, NOTE)).by)
    assert by == ["timeout", "no_way_to_ask", "timeout"]


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_person_is_asked_through_another_server_than_the_one_that_drives_the_run(
    era: str, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It is noted."), contains=["added"])
    first, second = Person(None), Person(True)
    async with (
        connected(build(place.settings), first, era) as one,
        connected(build(place.settings), second, era) as two,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(raw, one, "run_step", CALL)
        await until(lambda: any("approval" in each for each in one.progress.messages))
        result = await two.call("get_run", run_id=one.progress.run_id)
        own = await one.call("get_run", run_id=one.progress.run_id)
    assert noted(place.project) == [["hello", "nobody"]]
    assert (first.withdrawn, len(second.shown)) == (era == "legacy", 1)
    assert approval(result)["by"] == "person"
    assert text(result) == text(own)


@pytest.mark.parametrize("answer", [True, False])
async def test_servers_of_a_fleet_take_each_others_states(
    answer: bool, place: Place, ollama: ScriptedOllama
) -> None:
    """The client asks one server, and answers another: a balancer knows nothing of runs."""
    place.bounds = {"runs": {"fleet": "notes"}}
    said = conclusion("It is noted.") if answer else conclusion("It is not.", success=False)
    ollama.expect(said)
    async with (
        connected(build(place.settings), Person()) as one,
        connected(build(place.settings), Person()) as two,
    ):
        asked = await raw(one, "run_step", CALL)
        assert isinstance(asked, InputRequiredResult)
        elicited = RawElicitResult(action="accept", content={"approve": answer})
        result = await raw(
            two,
            "run_step",
            CALL,
            request_state=asked.request_state,
            input_responses={"approval": elicited},
        )
        late = await raw(
            one, "run_step", CALL, request_state=asked.request_state, input_responses=YES
        )
    assert noted(place.project) == ([["hello", "nobody"]] if answer else [])
    told = [report(each)["asked"] for each in (result, late)]
    assert told[0] == told[1]
    assert told[0][0].startswith(f"`add_note` (write), {'approved' if answer else 'refused'}")


# The state that goes over the wire


async def test_a_state_is_secret_and_good_for_one_answer_to_its_own_call(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    ollama.expect(conclusion("It is noted."))
    server = build(place.settings)
    async with (
        connected(server, Person()) as caller,
        connected(build(place.settings), Person()) as elsewhere,
    ):
        asked = await raw(caller, "run_step", CALL)
        assert isinstance(asked, InputRequiredResult)
        state = asked.request_state
        assert state
        assert caller.progress.run_id not in state
        other = CALL | {"arguments": {"text": "bye"}}
        flipped = state[:-1] + ("A" if state[-1] != "A" else "B")
        refused: list[tuple[Caller, str, dict[str, Any], str]] = [
            (caller, "run_step", CALL, flipped),  # forged
            (caller, "run_step", other, state),  # of another call
            (caller, "plan_and_answer", {"prompt": "Note hello"}, state),  # of another tool
            (elsewhere, "run_step", CALL, state),  # of another server
        ]
        for who, name, arguments, forged in refused:
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await raw(who, name, arguments, request_state=forged, input_responses=YES)
        with monkeypatch.context() as later:
            clock = SimpleNamespace(time=lambda: time.time() + 10_000)
            later.setattr("mcp.server.request_state.time", clock)
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await raw(caller, "run_step", CALL, request_state=state, input_responses=YES)
        assert noted(place.project) == []
        again = await raw(caller, "run_step", CALL, request_state=state)
        assert isinstance(again, InputRequiredResult)  # no answer: it is asked once more
        answer = {"request_state": again.request_state, "input_responses": YES}
        result = await raw(caller, "run_step", CALL, **answer)
        replayed = await raw(caller, "run_step", CALL, **answer)
    assert report(result)["answer"] == NOTED
    assert replayed.is_error
    assert normalised(replayed.content[0].text) == snapshot(
        "requestState: it was used for an answer before, and can be used once. Follow the run with get_run, run_id RUN."
    )
    assert noted(place.project) == [["hello", "nobody"]]


async def test_an_answer_without_a_state_starts_a_run_that_asks(place: Place) -> None:
    async with client("memory", place, Person()) as caller:
        asked = await raw(caller, "run_step", CALL, input_responses=YES)
    assert isinstance(asked, InputRequiredResult)
    assert noted(place.project) == []


# What is shown


async def test_what_is_too_long_for_a_question_is_had_by_get_run(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It was not noted.", success=False))
    long = "x" * 5000 + "\nrm -rf /"
    call = CALL | {"arguments": {"text": long, "author": "\x1b[8mme\u202e\u3164"}}
    person = Person(None, False)
    async with connected(build(place.settings), person) as caller:
        asked = await raw(caller, "run_step", call)
        run_id = caller.progress.run_id
        whole = text(await caller.call("get_run", run_id=run_id, iteration=0))
        question = asked.input_requests["approval"].params.message
        declined = {"approval": RawElicitResult(action="decline")}
        await raw(
            caller,
            "run_step",
            call,
            request_state=asked.request_state,
            input_responses=declined,
        )
    assert "x" * 2000 + " … and 3009 more characters" in question
    assert normalised(question.partition("author")[2]) == snapshot("""\
: "\\u001b[8mme\\u202e\\u3164"
```
This is not all of it. get_run with run_id RUN and iteration 0 shows the whole.
For run RUN: "Note hello". It is made once, exactly as shown. Without an answer within 120 s it is declined.\
""")
    assert "rm -rf" not in question
    assert "x" * 5000 + "\n  | rm -rf /\n" in whole


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.text(), JSON | st.text('\n\\"`|: \t\x1b\u202ea'), max_size=4))
def test_what_is_shown_says_exactly_what_is_sent(arguments: dict[str, Any]) -> None:
    shown, cut = shown_arguments(arguments, whole=True)
    assert not cut
    assert all(visible(line) == line for line in shown.split("\n"))
    read: dict[str, Any] = {}
    name = ""
    for line in shown.split("\n") if arguments else []:
        if line.startswith("  | "):
            plain = json.loads('"' + line[4:].replace('"', '\\"') + '"')
            read[name] = plain if read[name] is None else f"{read[name]}\n{plain}"
            continue
        name, said = json.JSONDecoder().raw_decode(line) if line[0] == '"' else (line, 0)
        if not said:
            name, said = line.partition(":")[0], line.index(":")
        value = line[said:].removeprefix(":").removeprefix(" ")
        read[name] = json.loads(value) if value else None
    assert read == arguments


def test_what_a_reader_does_not_see_is_escaped() -> None:
    shown, _ = shown_arguments({"a": "b\u200bc\x7f\u00a0\ufe0f\ud800\U000e0041", "\u3164": 1})
    assert shown == snapshot("""\
a: "b\\u200bc\\u007f\\u00a0\\ufe0f\\ud800\\udb40\\udc41"
"\\u3164": 1\
""")


# The gate before the pool


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from("AB"), st.sampled_from(["x", "y"]))),
    st.booleans(),
)
def test_only_what_was_approved_goes_out_and_once(
    moves: list[tuple[bool, str, str]], fixed: bool
) -> None:
    """Whatever the planner does: `moves` are approvals and calls of two tools."""
    tools = {
        name: spec(
            name,
            "text",
            safety=Safety.WRITE,
            policy=Policy.ALLOW,
            fixed_arguments={"by": "me"} if fixed else {},
        )
        for name in "AB"
    }
    pool = DictionaryPool({}, [*tools.values()], {name: ["done"] * 99 for name in "AB"})
    request = RunRequest(prompt="p", policy=Policy.ALLOW)
    approvals = Approvals("run", request, RunState(), timeout_s=1)
    gate = GuardedPool(pool, approvals)
    granted: set[tuple[str, str]] = set()
    expected = []

    async def play() -> None:
        for approve, name, written in moves:
            arguments = {"text": written}
            if approve:
                whole = arguments | tools[name].fixed_arguments
                decided = await approvals.decide(tools[name], whole)
                assert decided.approved
                approvals.grant(tools[name], whole)
                granted.add((name, written))
            else:
                result = await gate.call(tools[name], arguments)
                assert (result.outcome is Outcome.SUCCESS) == ((name, written) in granted)
                if (name, written) in granted:
                    granted.remove((name, written))
                    expected.append((name, arguments))

    anyio.run(play)
    assert pool.calls == expected


async def test_a_tool_that_stopped_being_read_only_during_the_run_is_held_back() -> None:
    pool = DictionaryPool({"a": "b"}, [READ.model_copy(update={"safety": Safety.DESTRUCTIVE})])
    approvals = Approvals("run", RunRequest(prompt="p"), RunState(), timeout_s=1)
    result = await GuardedPool(pool, approvals).call(READ, {"path": "a"})
    assert (result.outcome, pool.calls) == (Outcome.ERROR, [])
    assert result.text == snapshot("The call of read_file was not approved and not made.")


async def test_an_approval_under_a_looser_policy_lets_nothing_out() -> None:
    tool = WRITE.model_copy(update={"policy": Policy.ALLOW})
    now = tool.model_copy(update={"policy": Policy.ASK})
    approvals = Approvals("run", RunRequest(prompt="p"), RunState(), timeout_s=1)
    approvals.grant(tool, {"path": "a"})
    pool = DictionaryPool({}, [now])
    result = await GuardedPool(pool, approvals).call(tool, {"path": "a"})
    assert (result.outcome, pool.calls) == (Outcome.ERROR, [])
    assert result.text == snapshot(
        "The call of write_file was not made: the operator has changed its upstream files since this run began. Ask again."
    )


async def test_a_tool_is_judged_by_what_its_own_upstream_says_now() -> None:
    """Another upstream may have got its name meanwhile."""
    own = READ.model_copy(update={"name": "files.read_file", "safety": Safety.WRITE})
    pool = DictionaryPool({"a": "b"}, [READ.model_copy(update={"upstream": "other"}), own])
    approvals = Approvals("run", RunRequest(prompt="p"), RunState(), timeout_s=1)
    result = await GuardedPool(pool, approvals).call(READ, {"path": "a"})
    assert (result.outcome, pool.calls) == (Outcome.ERROR, [])


@given(st.lists(st.sampled_from(Policy), min_size=1))
def test_the_strictest_policy_is_never_looser_than_any(policies: list[Policy]) -> None:
    order = [Policy.READ_ONLY, Policy.ASK, Policy.ALLOW]
    assert all(order.index(strictest(*policies)) <= order.index(policy) for policy in policies)
    assert strictest(*policies) in policies


# The planner, whoever decides

NOTE = {"path": "jobs/secert.py", "text": "hello"}
FILES = {"jobs/secret.py": "old"}


class Yes:
    """Approves everything, and notes what it was asked."""

    def __init__(self, seconds: float = 0) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.seconds = seconds

    async def __call__(self, tool: ToolSpec, arguments: dict[str, Any]) -> Approval:
        self.asked.append((tool.name, arguments))
        await anyio.sleep(self.seconds)
        return Approval(approved=True, by="person", reason="yes")


def writing(*results: str | ToolResult) -> DictionaryPool:
    return DictionaryPool(dict(FILES), [READ, WRITE], {"write_file": list(results)})


async def changed(*turns: Any, pool: DictionaryPool, **request: Any) -> Any:
    """A run that begins with a write, which it was asked for."""
    yes = Yes(request.pop("seconds", 0))
    ran = await planned(
        *turns,
        pool=pool,
        approver=yes,
        policy=Policy.ASK,
        prompt="Write hello",
        tool="write_file",
        arguments=NOTE,
        **request,
    )
    return ran, yes


async def test_arguments_of_a_change_are_not_mended() -> None:
    """Of a read they would be: jobs/secret.py is the nearest path."""
    pool = writing("written")
    yes = Yes()
    await planned(
        Fast(deed("hello")),
        plan("write_file"),
        NOTE,
        was_done("written"),
        pool=pool,
        approver=yes,
        policy=Policy.ASK,
        prompt="Write hello beside jobs/secret.py",
    )
    assert pool.calls == yes.asked == [("write_file", NOTE)]


async def test_what_was_read_before_a_change_is_read_again() -> None:
    read = {"path": "jobs/secret.py"}
    ran, _ = await changed(
        was_done("written", "read it", "read_file"),
        plan("read_file"),
        read,
        was_done("written", "write more", "write_file"),
        NOTE | {"text": "more"},
        was_done("written", "read it again", "read_file"),
        read,
        was_done("old"),
        pool=writing("written", "more written"),
    )
    assert [name for name, _ in ran.pool.calls] == ["write_file", "read_file"] * 2
    assert "repeated" not in ran.guards


LOST = ToolResult(outcome=Outcome.ERROR, text="files was lost.", answered=False)


async def test_a_change_without_an_answer_is_of_unknown_outcome_and_not_made_again() -> None:
    ran, yes = await changed(
        nowhere(),
        plan("write_file"),
        NOTE,
        was_done("It may be written."),
        pool=writing(LOST),
    )
    assert [text for _, _, text in ran.results] == snapshot(
        [
            "files was lost. It may have been done or not, and is not made again; look with a tool that reads.",
            "This very call was made in iteration 0, and what it did is unknown. It may have been done or not, and is not made again; look with a tool that reads.",
        ]
    )
    assert len(yes.asked) == len(ran.pool.calls) == 1
    assert ran.guards == ["not_again", "no_progress"]


async def test_a_change_that_says_nothing_is_not_widened() -> None:
    ran, _ = await changed(
        was_done("written", "read it", "read_file"),
        plan("read_file"),
        {"path": "jobs/secret.py"},
        was_done("old"),
        pool=writing(""),
    )
    assert [name for name, _ in ran.pool.calls] == ["write_file", "read_file"]
    assert ran.guards == []


class SaidOnce(Inbox):
    """What is said after the first planned call, so that it is decided how to go on."""

    looks = 0

    def steering(self) -> Sequence[Steering]:
        self.looks += 1
        return [Steering(hint="Write one and two.")] if self.looks == 2 else []


async def test_changes_of_one_decision_are_made_one_by_one_after_the_reads() -> None:
    several = stay("write_file", "Write")
    several["tool_calls"] += [
        {"prompt": "Read", "tool": "read_file"},
        {"prompt": "Write more", "tool": "write_file"},
    ]
    ran, yes = await changed(
        was_done("written", "look at it", "read_file"),
        plan("read_file"),
        {"path": "nothing.py"},
        deep(several),
        {"path": "a", "text": "one"},
        {"path": "jobs/secret.py"},
        {"path": "a", "text": "two"},
        was_done("old"),
        pool=writing("one", "two", "three"),
        inbox=SaidOnce(),
    )
    assert [name for name, _ in ran.pool.calls[2:]] == ["read_file", "write_file", "write_file"]
    assert [event.type for event in ran.events if event.type.startswith("approval")] == [
        "approval_asked",
        "approval_decided",
    ] * 3
    assert [arguments["text"] for _, arguments in yes.asked] == ["hello", "one", "two"]


async def test_the_time_a_person_takes_is_not_the_runs() -> None:
    ran, _ = await changed(
        was_done("written"),
        {"data": {"done": True}},
        pool=writing("written"),
        seconds=1.1,
        limits=Limits(seconds=1),
        data_schema={"type": "object", "properties": {"done": {"type": "boolean"}}},
    )
    assert (ran.state.status, ran.state.reason) == ("answered", None)
    assert ran.state.data == {"done": True}


class Hanging(DictionaryPool):
    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        self.calls.append((tool.name, arguments))
        await anyio.sleep_forever()
        raise AssertionError


async def test_a_change_under_way_at_the_time_limit_is_of_unknown_outcome() -> None:
    ran, _ = await changed(pool=Hanging({}, [WRITE]), limits=Limits(seconds=0.2))
    assert ran.results == [("write_file", Outcome.TIMEOUT, UNKNOWN)]
    assert not ran.state.iterations[0].answered
    assert (ran.state.status, ran.state.reason) == ("failed", "the time limit of 0.2 s was reached")
    assert "It may have been done or not, and is not made again" in ran.state.answer


async def test_an_upstream_that_dies_of_a_change_leaves_its_outcome_unknown(
    tmp_path: Path, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, ollama)
    place.upstreams = {"files": upstream(tools={"crash": {"safety": "destructive"}})}
    monkeypatch.setenv("XDG_CACHE_HOME", place.environ["XDG_CACHE_HOME"])
    ollama.expect(conclusion("Nobody knows.", success=False), contains=[UNKNOWN])
    async with client("memory", place, Person(True)) as caller:
        result = await caller.call("run_step", prompt="Crash", tool="crash", arguments={})
    (call,) = report(result)["actions"][0]["tool_calls"]
    assert call["outcome"] == "ERROR"
    assert call["result"].startswith("files was lost during crash")
    assert call["result"].endswith(UNKNOWN)
    assert place.processes() == []


# The terminal


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[IO[bytes]]:
    """What is typed on the terminal that is our standard input."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as stdin, os.fdopen(ours, "wb", 0) as keyboard:
        monkeypatch.setattr("sys.stdin", stdin)
        yield keyboard


async def on_terminal(
    place: Place, asked: RunRequest | str, keyboard: IO[bytes], capsys: pytest.CaptureFixture[str]
) -> str:
    """What a run on the terminal has told, where a person says yes."""
    told = ""

    def asks() -> bool:
        nonlocal told
        told += capsys.readouterr().err
        return "[y/N]" in told

    async def answer() -> None:
        await until(asks)
        keyboard.write(b"y\n")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer)
        assert await ask.run_on_terminal(place.settings, asked, as_json=False) == 0
        tasks.cancel_scope.cancel()
    asks()
    return told


async def test_a_run_that_goes_on_asks_on_the_terminal(
    place: Place,
    ollama: ScriptedOllama,
    keyboard: IO[bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with client("memory", place, Person()) as gone:
        await raw(gone, "run_step", CALL)
    ollama.expect(conclusion("It is noted."))
    await on_terminal(place, gone.progress.run_id, keyboard, capsys)
    assert noted(place.project) == [["hello", "nobody"]]


async def test_a_question_is_put_to_the_terminal(
    place: Place,
    ollama: ScriptedOllama,
    keyboard: IO[bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    ollama.expect(deed("notes"))
    ollama.expect(plan("add_note", objective="Note hello"))
    ollama.expect({"text": "hello"})
    ollama.expect(was_done("added"))
    request = RunRequest(prompt="Note hello", policy=Policy.ASK)
    told = await on_terminal(place, request, keyboard, capsys)
    assert normalised(told.partition("role ")[0]) == snapshot("""\
   0.0 s  Started with 1 read-only tool and 2 that need approval
   0.0 s  qwen2.5-coder:1.5b read the request (N tokens in, N out, 0 s)
   0.0 s  looking for notes
   0.0 s  qwen2.5-coder:1.5b made a plan (N tokens in, N out, 0.0 s)
   0.0 s  Plan of 1 step (add_note may change something)
   0.0 s  Step 1 of 1: Note hello
   0.0 s  Step 1 of 1: next is add_note: Note hello
   0.0 s  Step 1 of 1: qwen2.5-coder:1.5b wrote the arguments (N tokens in, N out, 0.0 s)
   0.0 s  Step 1 of 1: arguments {"text": "hello"}
   0.0 s  Step 1 of 1: approval is needed: add_note of notes (write: it adds or changes something), with text: "hello"

Planloom asks: may it make this call?

add_note of notes (write: it adds or changes something)
```text
text: "hello"
```
For run RUN: "Note hello". It is made once, exactly as shown. Without an answer within 120 s it is declined.
Make this call? [y/N] \n\
   0.0 s  Step 1 of 1: add_note was approved: the user approved it
   0.0 s  Step 1 of 1: add_note hello
   0.0 s  Step 1 of 1: add_note returned 1 line in 0.0 s
   0.0 s  Step 1 of 1: qwen2.5-coder:1.5b read whether it was done (N tokens in, N out, 0.0 s)
   0.0 s  Step 1 of 1: qwen2.5-coder:1.5b tried the answer (N tokens in, N out, 0.0 s)
   0.0 s  Step 1 done
   0.0 s  Finished: answered
""")
    assert noted(place.project) == [["hello", "nobody"]]


@pytest.mark.parametrize(
    ("typed", "approved"), [("yes", True), ("Y", True), ("n", False), ("", False), ("yy", False)]
)
async def test_only_a_yes_is_one_on_the_terminal(
    typed: str, approved: bool, keyboard: IO[bytes]
) -> None:
    question = Question("May it?")
    keyboard.write(b"y\n")  # before it was asked
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask.ask, question)
        await anyio.wait_all_tasks_blocked()
        assert not question.closed.is_set()
        keyboard.write(f"{typed}\n".encode())
    assert question.approval
    assert (question.approval.approved, question.approval.by) == (approved, "person")
