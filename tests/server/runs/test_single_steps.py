"""Single steps through the server: a client's own model plans, on one run."""
# ruff: noqa: E501  texts stand as clients see them

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from fastmcp.client.elicitation import ElicitResult
from inline_snapshot import snapshot
from mcp_types import TextResourceContents
from ollama_replies import Hang
from planted import CLASS, CONSTANT, VALUE
from replies import beside_record, conclusion, found, plan
from scripted_ollama import ScriptedOllama, hung_up
from serving import Place, normalised, text

pytestmark = pytest.mark.anyio

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

_Run RUN: 2 tool calls (0.0 s), 3 model calls (N prompt tokens, N of them cached, N generated, 0.0 s); 0.0 s in all; some 130 tokens of tool results read for an answer of 31_\
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
            await caller.error("run_step", run_id=run_id, prompt="x", request_key="k1"),
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
        ollama.expect(found(FOUND))
        answered = await caller.call("plan_and_answer", prompt=f"Where is {CLASS}?")
        run_id = str((answered.whole or {})["run_id"])
        errors += [await caller.error("run_step", run_id=run_id, **more) for more in ({}, SEEK)]
    assert normalised("\n".join(errors)) == snapshot("""\
prompt: say what this step should find out; no step is planned.
There is no run "nope". Run ids come with the report of plan_and_answer; ended runs are kept for 30 days at most.
The tool "raed_file" does not exist. The nearest tools are: read_file, fail, sleep. list_tools shows all.
request_key: it names a run that begins, run_id one that has begun. Give one of them.
Run RUN is under way. Follow it with get_run, and go on when it has ended.
Run RUN is under way. Follow it with get_run, and go on when it has ended.
Run RUN was cancelled, and cannot do more. Start another.
Run RUN is not a run of single steps: only runs that run_step or make_plan started can go on after their end. Leave run_id out to start another.
Run RUN is not a run of single steps: only runs that run_step or make_plan started can go on after their end. Leave run_id out to start another.\
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
    assert normalised(too_soon) == (
        "Run RUN has not made a step yet. Call run_step with its run_id first."
    )
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
        'prompt: run RUN has another prompt: "Read it.". Give that one to continue the run, or leave out run_id to start a new run.'
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
    assert (done.whole or {})["answer"] == beside_record(
        "It is written.", 'write_file {"path": "note.txt", "text": "Hello"}'
    )
    assert len(asked) == 1
    assert "write_file of files" in asked[0]
    assert (place.project / "note.txt").read_text() == "Hello"
    assert "was refused" in read_only
