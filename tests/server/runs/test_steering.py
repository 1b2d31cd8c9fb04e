"""Steering through the server: what clients say to a run while it goes on."""
# ruff: noqa: E501  texts stand as clients see them

import json

import pytest
from inline_snapshot import snapshot
from mcp_types import TextResourceContents
from ollama_replies import Hang
from planted import CLASS
from replies import conclusion, deep, found, move_on, nowhere, plan, stay
from scripted_ollama import ScriptedOllama
from serving import Place, normalised, text

from planner.agent.loop import NOT_HEEDED

pytestmark = pytest.mark.anyio

QUESTION = f"What is {CLASS}?"
ANSWER = f"`{CLASS}` is defined in jobs/secret.py."


def step_then(ollama: ScriptedOllama, *later: str) -> None:
    """The models up to the first decision of a plan, which hangs."""
    ollama.expect(nowhere())
    ollama.expect(plan("read_file", *later))
    ollama.expect({"path": "jobs/secret.py"})
    ollama.expect(Hang(then=json.dumps(stay("read_file", "Once more"))))


@pytest.mark.parametrize("face", ["memory", "memory-legacy"])
async def test_a_client_steers_a_run(face: str, place: Place, ollama: ScriptedOllama) -> None:
    step_then(ollama, "Read a", "Read b", "Read c")
    ollama.expect({"path": "jobs/other.py"}, contains=["Once more"])
    ollama.expect(
        deep(move_on("read_file", "Read c")),
        contains=[
            "The user adds to the request: Look in server/.\n",
            "Later steps are now: Read c\n",
        ],
    )
    ollama.expect({"path": "jobs/secret.py"})
    ollama.expect(found(ANSWER))
    async with place.client(face) as caller:
        run_id = await caller.begin(QUESTION)
        await ollama.arrived(4)
        steps = (await caller.call("get_run", run_id=run_id, wait_s=0)).whole
        assert [step["number"] for step in (steps or {})["steps"]] == [1, 2, 3, 4]
        steered = await caller.call(
            "steer_run", run_id=run_id, hint=" Look in server/. ", skip=[2, 3, 2], order=[4, 4]
        )
        wrong = await caller.error("steer_run", run_id=run_id, skip=[1])
        empty = await caller.error("steer_run", run_id=run_id)
        long = await caller.error("steer_run", run_id=run_id, hint="x" * 501)
        other = await caller.error("steer_run", run_id="nope", hint="x")
        ollama.release()
        done = await caller.call("get_run", run_id=run_id)
        late = await caller.error("steer_run", run_id=run_id, hint="Too late")
        (transcript,) = await caller.client.read_resource(f"run://{run_id}/transcript")
    said = {"hint": "Look in server/.", "skip": ["Read a", "Read b"], "order": ["Read c"]}
    said |= {"by": "caller"}
    assert (steered.whole or {})["steering"] == [said | {"taken": False}]
    assert (done.whole or {})["steering"] == [said | {"taken": True}]
    assert (done.whole or {})["answer"] == ANSWER
    assert normalised("\n".join([wrong, empty, long, other, late])) == snapshot("""\
There is no later step 1: only what has not begun can be skipped or reordered. The later steps are: 2: Read a; 3: Read b; 4: Read c
There is nothing to tell the run: give `hint`, `skip` or `order`.
steer_run: hint: String should have at most 500 characters, not 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx….
There is no run "nope". Run ids come with the report of plan_and_answer; ended runs are kept for 30 days at most.
Run RUN has ended (answered); it cannot be steered.\
""")
    told = [line for line in caller.progress.messages if "Look in" in line]
    assert told == snapshot(
        [
            'Step 1 of 4: the caller says "Look in server/." and skips Read a; Read b and puts first Read c; the next decision takes it up',
            'Step 1 of 2: taken up: the caller says "Look in server/." and skips Read a; Read b and puts first Read c',
        ]
    )
    assert isinstance(transcript, TextResourceContents)
    assert "- Step 1 of 4: the caller says" in transcript.text
    assert "### Said while it ran" in text(done)


async def test_what_comes_too_late_is_told_so(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(Hang(then=json.dumps(found(ANSWER))))
    async with place.client() as caller:
        run_id = await caller.begin(QUESTION, max_seconds=30)  # too few for another answer
        await ollama.arrived()
        await caller.call("steer_run", run_id=run_id, hint="And its callers.")
        for number in range(9):
            await caller.call("steer_run", run_id=run_id, hint=f"{number}")
        many = await caller.error("steer_run", run_id=run_id, hint="Once more")
        ollama.release()
        done = await caller.call("get_run", run_id=run_id)
    assert '- the caller says "And its callers." (it came too late)' in text(done)
    assert NOT_HEEDED in text(done)
    assert normalised(many) == "Run RUN was steered 10 times, which is the limit."


async def test_a_run_is_steered_through_another_server(
    place: Place, ollama: ScriptedOllama
) -> None:
    step_then(ollama, "Later")
    ollama.expect({"path": "jobs/other.py"})
    ollama.expect(deep(conclusion(ANSWER)), contains=["The user adds to the request: It is there."])
    ollama.expect(found(ANSWER))
    async with place.client() as one, place.client() as two:
        run_id = await one.begin(QUESTION)
        await ollama.arrived(4)
        await two.call("steer_run", run_id=run_id, hint="It is there.")
        ollama.release()
        done = await two.call("get_run", run_id=run_id)
    report = done.whole or {}
    assert [(each["hint"], each["taken"]) for each in report["steering"]] == [
        ("It is there.", True)
    ]
    assert report["answer"] == ANSWER


async def test_what_was_said_to_an_interrupted_run_is_heeded_when_it_goes_on(
    place: Place, ollama: ScriptedOllama
) -> None:
    step_then(ollama, "Later")
    async with place.client() as caller:
        run_id = await caller.begin(QUESTION)
        await ollama.arrived(4)
        await caller.call("steer_run", run_id=run_id, hint="First.")  # waits when the server ends
    ollama.expect(stay("read_file", "Once more"))
    ollama.expect({"path": "jobs/other.py"})
    both = "The user adds to the request: First.\nThe user adds to the request: Second."
    ollama.expect(deep(conclusion(ANSWER)), contains=[both])
    ollama.expect(found(ANSWER))
    async with place.client() as caller:
        said = await caller.call("steer_run", run_id=run_id, hint="Second.")
        assert "Call plan_and_answer with the same prompt and run_id" in text(said)
        done = await caller.call("plan_and_answer", prompt=QUESTION, run_id=run_id)
    taken = [(each["hint"], each["taken"]) for each in (done.whole or {})["steering"]]
    assert taken == [("First.", True), ("Second.", True)]
