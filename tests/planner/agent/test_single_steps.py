"""A client's own model plans: single steps on one run, and the conclusion from all of them."""
# ruff: noqa: E501  texts stand as clients see them

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from fastmcp.client.elicitation import ElicitResult
from in_memory import DictionaryPool, planned, spec
from inline_snapshot import snapshot
from mcp_types import TextResourceContents
from scripted_ollama import Hang, ScriptedOllama, hung_up
from serving import (
    CLASS,
    CONSTANT,
    VALUE,
    Place,
    conclusion,
    normalised,
    plan,
    text,
)

from planner.events import RunContinued
from planner.evidence.tool_ranking import MAX_SHOWN
from planner.inbox import Inbox
from planner.protocol import Limits, RunRequest

pytestmark = pytest.mark.anyio

SINGLE = Limits(iterations=1)


class Requests(Inbox):
    """What a run is asked for, one after the other."""

    def __init__(self, *requests: RunRequest) -> None:
        self.requests = list(requests)

    def next_request(self) -> RunContinued | None:
        if not self.requests:
            return None
        return RunContinued(request=self.requests.pop(0), spent=0.0, paused=0.0)


def step(prompt: str, **options: Any) -> RunRequest:
    return RunRequest(prompt=prompt, goal="step", limits=SINGLE, **options)


def ending(prompt: str, **options: Any) -> RunRequest:
    return RunRequest(prompt=prompt, goal="conclude", **options)


# What the models are asked


async def test_steps_share_a_prompt_that_only_grows(pool: DictionaryPool) -> None:
    ran = await planned(
        conclusion("notes/a.md says Alpha."),
        {"path": "notes/b.md"},
        conclusion("It says Beta."),
        conclusion("They say Alpha and Beta."),
        pool=pool,
        inbox=Requests(step("Read the other note.", tool="read_file"), ending("What do they say?")),
        prompt="Read a note.",
        goal="step",
        tool="read_file",
        arguments={"path": "notes/a.md"},
    )
    assert pool.calls == [("read_file", {"path": f"notes/{name}.md"}) for name in "ab"]
    for before, now in zip(ran.asked, ran.asked[1:], strict=False):
        assert now.messages[: len(before.messages) - 1] == before.messages[:-1]
    assert "\n".join(each["content"] for each in ran.asked[-1].messages[1:]) == snapshot("""\
Request: Read a note.
read_file({"path":"notes/a.md"}) returned this:
<result>
Alpha
</result>
No calls are left. Give the best answer to the request from the results and notes above: Read a note.
Reply {"decision":"conclude","final_answer":...,"success":true, or false if it could not be found out}.
{"decision": "conclude", "final_answer": "notes/a.md says Alpha.", "success": true}
read_file({"path":"notes/b.md"}) returned this:
<result>
Beta
</result>
No calls are left. Give the best answer to the request from the results and notes above: Read the other note.
Reply {"decision":"conclude","final_answer":...,"success":true, or false if it could not be found out}.
{"decision": "conclude", "final_answer": "It says Beta.", "success": true}
No calls are left. Give the best answer to the request from the results and notes above: What do they say?
Reply {"decision":"conclude","final_answer":...,"success":true, or false if it could not be found out}.\
""")
    steps = [(each.objective, each.success, each.notes) for each in ran.state.steps]
    assert steps == [
        ("Read a note.", True, "notes/a.md says Alpha."),
        ("Read the other note.", True, "It says Beta."),
    ]
    assert (ran.state.status, ran.state.answer) == ("answered", "They say Alpha and Beta.")
    assert ran.state.unsupported == []


async def test_a_step_without_a_tool_is_given_one_by_the_full_model(pool: DictionaryPool) -> None:
    ran = await planned(
        conclusion("It says Alpha."),
        {"tool": "list_dir"},
        {},
        conclusion("There is jobs/secret.py."),
        pool=pool,
        inbox=Requests(step("Which files are there?")),
        prompt="Read a note.",
        goal="step",
        tool="read_file",
        arguments={"path": "notes/a.md"},
    )
    assert "The user's next request: Which files are there?\nWhich tool" in ran.asked[1].last
    assert [each.tool for each in ran.state.iterations] == ["read_file", "list_dir"]


async def test_a_step_that_needs_no_tool_is_known_by_its_notes(pool: DictionaryPool) -> None:
    ran = await planned(
        {"tool": None},
        conclusion("Hello."),
        conclusion("It says Alpha."),
        pool=pool,
        inbox=Requests(step("Read.", tool="read_file", arguments={"path": "notes/a.md"})),
        prompt="Greet me.",
        goal="step",
    )
    assert "Completed steps, in short:\n1. Hello. (Greet me.)" in ran.asked[-1].text
    assert ran.state.unsupported == []


async def test_a_call_is_made_again_for_another_step(pool: DictionaryPool) -> None:
    """The client asks for it; what it reads may have changed."""
    note: dict[str, Any] = {"tool": "read_file", "arguments": {"path": "notes/a.md"}}
    ran = await planned(
        conclusion("It says Alpha."),
        conclusion("It says Alpha still."),
        pool=pool,
        inbox=Requests(step("And now?", **note)),
        prompt="Read a note.",
        goal="step",
        **note,
    )
    assert len(pool.calls) == 2
    assert ran.guards == []


async def test_a_note_alone_bears_nothing_out(pool: DictionaryPool) -> None:
    """The results of all steps are there; what a model said of them is no fact."""
    ran = await planned(
        conclusion("It says `Gamma`."),
        conclusion("The note says `Gamma`."),
        pool=pool,
        inbox=Requests(ending("What does it say?")),
        prompt="Read a note.",
        goal="step",
        tool="read_file",
        arguments={"path": "notes/a.md"},
    )
    assert (ran.state.status, ran.state.unsupported) == ("partial", ["Gamma"])


async def test_many_steps_stay_within_the_context(pool: DictionaryPool) -> None:
    pool.files |= {f"notes/{number}.md": f"Line {number}. " * 99 for number in range(12)}
    requests = [
        step(f"Read {number}.", tool="read_file", arguments={"path": f"notes/{number}.md"})
        for number in range(12)
    ]
    ran = await planned(
        conclusion("It says Alpha."),
        *(conclusion(f"It says Line {number}.") for number in range(12)),
        conclusion("It was read."),
        pool=pool,
        inbox=Requests(*requests, ending("What was read?")),
        context_tokens=3000,
        prompt="Read a note.",
        goal="step",
        tool="read_file",
        arguments={"path": "notes/a.md"},
    )
    assert "context_compressed" in [event.type for event in ran.events]
    assert "\n2. It says Line 0. (Read 0.)\n" in ran.asked[-1].text
    assert len(ran.state.steps) == 13


async def test_tools_that_a_step_brings_in_stay(pool: DictionaryPool) -> None:
    others = [f"tool_{number}" for number in range(MAX_SHOWN)]
    pool.specs += [spec(name, "text", description="Something") for name in others]
    pool.specs.append(spec("tide_table", "text", description="Tides"))
    pool.results = {"tide_table": ["High water at noon"]}
    ran = await planned(
        conclusion("It says Alpha."),
        {"tool": "tide_table"},
        {"text": "today"},
        conclusion("High water at noon."),
        conclusion("It says Alpha; high water at noon."),
        pool=pool,
        inbox=Requests(step("Ask the tide_table."), ending("And?")),
        prompt="Read a note.",
        goal="step",
        tool="read_file",
        arguments={"path": "notes/a.md"},
    )
    assert "tide_table" not in ran.asked[0].text
    listed = "Tools for step 2:\n- tide_table(text): Tides"
    assert all(each.text.count(listed) == 1 for each in ran.asked[1:])
    for before, now in zip(ran.asked[2:], ran.asked[3:], strict=False):
        assert now.messages[: len(before.messages) - 1] == before.messages[:-1]


async def test_steps_follow_a_plan(pool: DictionaryPool) -> None:
    ran = await planned(
        plan("read_file", "Read a", "Read b"),
        conclusion(f"It has {CLASS}."),
        conclusion("It says Beta."),
        pool=pool,
        inbox=Requests(
            step("Read the file", tool="read_file", arguments={"path": "jobs/secret.py"}),
            step("Read b", tool="read_file", arguments={"path": "notes/b.md"}),
        ),
        prompt="Read them.",
        goal="plan",
    )
    steps = [(each.number, each.objective, each.success) for each in ran.state.steps]
    assert steps == [(1, "Read the file", True), (2, "Read b", True)]
    assert ran.state.later_steps == ["Read a"]


# Through the server


SEEK = {"tool": "search", "arguments": {"pattern": CLASS}}
LOOK = {"tool": "read_file", "arguments": {"path": "jobs/secret.py"}}
FOUND = f"{CLASS} is in jobs/secret.py."
VALUE_FOUND = f"{CONSTANT} is {VALUE}."
BOTH = f"{CLASS} is in jobs/secret.py, and {CONSTANT} is {VALUE}."


async def first_step(caller: Any, ollama: ScriptedOllama) -> str:
    ollama.expect(conclusion(FOUND))
    done = await caller.call("run_step", prompt="Find the class.", **SEEK)
    assert (done.whole or {})["answer"] == FOUND
    return str((done.whole or {})["run_id"])


@pytest.mark.parametrize("face", ["memory", "memory-legacy"])
async def test_a_client_drives_a_plan_on_one_run(
    face: str, place: Place, ollama: ScriptedOllama
) -> None:
    async with place.client(face) as caller:
        run_id = await first_step(caller, ollama)
        ollama.expect(conclusion(VALUE_FOUND), contains=[FOUND])
        next_ = await caller.call("run_step", run_id=run_id, prompt="Read it.", **LOOK)
        told = caller.progress.messages
        ollama.expect(conclusion(BOTH), contains=[FOUND, VALUE_FOUND, "Where, and what value?"])
        done = await caller.call("plan_and_answer", run_id=run_id, prompt="Where, and what value?")
        again = await caller.call("plan_and_answer", run_id=run_id, prompt="")
        shown = await caller.call("get_run", run_id=run_id)
        (transcript,) = await caller.client.read_resource(f"run://{run_id}/transcript")
    report = done.whole or {}
    assert (report["run_id"], report["status"], report["answer"]) == (run_id, "answered", BOTH)
    assert [(each["number"], each["notes"]) for each in report["steps"]] == [
        (1, FOUND),
        (2, VALUE_FOUND),
    ]
    assert {each["step"] for each in report["evidence"]} == {1, 2}
    assert len(report["actions"]) == report["usage"]["tool_calls"] == 2
    assert (next_.whole or {})["answer"] == VALUE_FOUND
    assert told[0].startswith("Started with")
    assert "Goes on: Read it." in told
    assert sum(line.startswith("Started with") for line in told) == 1
    assert text(again) == text(shown) == text(done)
    assert normalised(text(done)) == snapshot("""\
VeryUniqueClassName_Phoenix_2025_QW3RTY is in jobs/secret.py, and UNIQUE_CONSTANT_VERIFICATION_ZX9 is 48613.

### Steps

1. Find the class.
   VeryUniqueClassName_Phoenix_2025_QW3RTY is in jobs/secret.py.
2. Read it.
   UNIQUE_CONSTANT_VERIFICATION_ZX9 is 48613.

### Evidence

1. `VeryUniqueClassName_Phoenix_2025_QW3RTY`, `jobs/secret.py`: step 1 (Find the class.), `search`
   ```text
   jobs/secret.py:6: class VeryUniqueClassName_Phoenix_2025_QW3RTY:
   jobs/secret.py:12:     return VeryUniqueClassName_Phoenix_2025_QW3RTY().run()
   ```
2. `VeryUniqueClassName_Phoenix_2025_QW3RTY`, `jobs/secret.py`, `UNIQUE_CONSTANT_VERIFICATION_ZX9`, `48613`: step 2 (Read it.), `read_file`
   ```text
   UNIQUE_CONSTANT_VERIFICATION_ZX9 = 48613
   ```

_Run RUN: 2 tool calls (0.0 s), 3 model calls (N prompt tokens, N of them cached, N generated, 0.0 s); 0.0 s in all; some 136 tokens of tool results read for an answer of 31_\
""")
    assert isinstance(transcript, TextResourceContents)
    assert transcript.text.count("## Next request") == 2


async def test_what_cannot_go_on_says_so(place: Place, ollama: ScriptedOllama) -> None:
    async with place.client() as caller:
        run_id = await first_step(caller, ollama)
        errors = [
            await caller.error("run_step", run_id=run_id),
            await caller.error("run_step", run_id="nope", prompt="More"),
            await caller.error("run_step", run_id=run_id, prompt="x", tool="raed_file"),
        ]
        ollama.expect(Hang())
        under_way = await caller.call(
            "run_step", run_id=run_id, prompt="Read it.", wait_s=0, **LOOK
        )
        assert (under_way.whole or {})["status"] == "running"
        await ollama.arrived(2)
        errors += [
            await caller.error("run_step", run_id=run_id, prompt="Another"),
            await caller.error("plan_and_answer", run_id=run_id, prompt=""),
        ]
        await caller.call("cancel_run", run_id=run_id)
        errors += [await caller.error("run_step", run_id=run_id, prompt="Another")]
    assert normalised("\n".join(errors)) == snapshot("""\
prompt: say what this step should find out; no step is planned.
There is no run "nope". Run ids come with the report of plan_and_answer; ended runs are kept for 30 days at most.
The tool "raed_file" does not exist. The nearest tools are: read_file, fail, sleep. list_tools shows all.
Run RUN is under way. Follow it with get_run, and go on when it has ended.
Run RUN is under way. Follow it with get_run, and go on when it has ended.
Run RUN was cancelled, and cannot do more. Start another.\
""")


async def test_the_next_step_of_a_plan_needs_no_prompt(
    place: Place, ollama: ScriptedOllama
) -> None:
    async with place.client() as caller:
        ollama.expect(plan("read_file", "Read the notes"))
        planned_ = await caller.call("make_plan", prompt=f"What is {CLASS}?")
        run_id = (planned_.whole or {})["run_id"]
        too_soon = await caller.error("plan_and_answer", run_id=run_id, prompt="")
        ollama.expect(conclusion(VALUE_FOUND))
        await caller.call("run_step", run_id=run_id, **LOOK)
        ollama.expect(conclusion("Nothing else.", success=False))
        done = await caller.call("run_step", run_id=run_id, **SEEK)
        no_more = await caller.error("run_step", run_id=run_id)
        ollama.expect(conclusion(VALUE_FOUND))
        concluded = await caller.call("plan_and_answer", run_id=run_id, prompt="")
    steps = [(each["objective"], each["status"]) for each in (done.whole or {})["steps"]]
    assert steps == [("Read the file", "completed"), ("Read the notes", "failed")]
    assert normalised(too_soon) == "Run RUN has made no step yet. run_step with its run_id does."
    assert no_more == "prompt: say what this step should find out; no step is planned."
    assert (concluded.whole or {})["status"] == "answered"


async def test_a_run_of_steps_goes_on_after_a_restart(place: Place, ollama: ScriptedOllama) -> None:
    async with place.client() as caller:
        run_id = await first_step(caller, ollama)
    async with place.client() as caller:  # another server on the same runs
        ollama.expect(Hang())
        await caller.call("run_step", run_id=run_id, prompt="Read it.", wait_s=0, **LOOK)
        await ollama.arrived(2)
    async with place.client() as caller:
        other = await caller.error("run_step", run_id=run_id, prompt="Another")
        ollama.expect(conclusion(VALUE_FOUND), contains=[FOUND])
        await caller.call("run_step", run_id=run_id)
        ollama.expect(conclusion(BOTH), contains=[FOUND, VALUE_FOUND])
        done = await caller.call("plan_and_answer", run_id=run_id, prompt="")
    report = done.whole or {}
    assert (report["status"], report["answer"]) == ("answered", BOTH)
    assert report["usage"]["tool_calls"] == 2
    assert normalised(other) == snapshot(
        'prompt: run RUN was begun with another: "Read it.". Give that to go on with the run, or leave run_id out to start one.'
    )


async def test_servers_take_turns_with_the_steps_of_a_run(
    place: Place, ollama: ScriptedOllama
) -> None:
    async with place.client() as one, place.client() as two:
        run_id = await first_step(one, ollama)
        ollama.expect(conclusion(VALUE_FOUND), contains=[FOUND])
        await two.call("run_step", run_id=run_id, prompt="Read it.", **LOOK)
        seen = await one.call("get_run", run_id=run_id)
        ollama.expect(conclusion(BOTH), contains=[FOUND, VALUE_FOUND, "Find the class.; Read it."])
        done = await one.call("plan_and_answer", run_id=run_id, prompt="")
    assert (seen.whole or {})["answer"] == VALUE_FOUND
    assert (done.whole or {})["answer"] == BOTH


async def test_a_step_that_is_given_up_leaves_what_was_found(
    place: Place, ollama: ScriptedOllama
) -> None:
    async with place.client() as caller:
        run_id = await first_step(caller, ollama)
        ollama.expect(Hang())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                lambda: caller.call("run_step", run_id=run_id, prompt="Read it.", **LOOK)
            )
            await ollama.arrived(2)
            tasks.cancel_scope.cancel()
        assert await hung_up(ollama.requests[1])
        ended = await caller.call("get_run", run_id=run_id)
        ollama.expect(conclusion(VALUE_FOUND))
        done = await caller.call("run_step", run_id=run_id)
    assert (ended.whole or {})["status"] == "interrupted"
    assert (done.whole or {})["answer"] == VALUE_FOUND


async def test_a_call_of_a_later_step_is_approved_too(
    tmp_path: Path, ollama: ScriptedOllama
) -> None:
    place = Place(tmp_path, ollama)
    asked: list[str] = []

    async def person(message: str, *_: Any) -> ElicitResult[Any]:
        asked.append(message)
        return ElicitResult(action="accept", content={"approve": True})

    async with place.client(person=person) as caller:
        run_id = await first_step(caller, ollama)
        ollama.expect(conclusion("It is written."))
        written = {"path": "note.txt", "text": "Hello"}
        done = await caller.call(
            "run_step", run_id=run_id, prompt="Note it.", tool="write_file", arguments=written
        )
        read_only = await caller.error(
            "run_step",
            run_id=run_id,
            prompt="Again.",
            tool="write_file",
            arguments=written,
            policy="read_only",
        )
    assert (done.whole or {})["answer"] == "It is written."
    assert len(asked) == 1
    assert "write_file of files" in asked[0]
    assert (place.project / "note.txt").read_text() == "Hello"
    assert "was refused" in read_only
