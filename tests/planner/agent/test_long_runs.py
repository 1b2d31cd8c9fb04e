"""Runs longer than their context: what is put in short, and what can be seen again."""

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from in_memory import DictionaryPool, planned, spec
from replies import conclusion, deep, found, move_on, nowhere, plan, stay
from scripted_ollama import FULL, Request, ScriptedOllama
from serving import LONG, Place, text

from planner.tools import Outcome, ToolResult
from server.mcp import progress_stream

pytestmark = pytest.mark.anyio

CONTEXT_TOKENS = 8192
ITERATIONS = 50
LINES = 100
"""Of the long file, read at a time; more than a prompt shows."""
QUESTION = "What is the greatest number in jobs/long.py?"
PLANTED = "NUMBER_ZX9 is 48613"
"""What the first notes say, and no prompt shows after them but in short."""


def line(number: int) -> str:
    return f"amount_{number} = compute({number}, {number * 31})  # of part {number // LINES}"


class Reader:
    """A model that reads the long file part by part and never finds the answer."""

    def __init__(self, moves_on: Callable[[int], bool]) -> None:
        self.moves_on = moves_on
        self.part = 0
        self.planted = False

    def __call__(self, request: Request) -> dict[str, Any]:
        branches = (request.schema or {}).get("anyOf")
        if branches:
            _, stayed, _ = branches
            if self.moves_on(self.part):
                decision = move_on("read_file", f"Read part {self.part} of the file")
            else:
                decision = stay("read_file", f"Read part {self.part}")
                if "notes" not in stayed["properties"]:
                    return decision
            notes = f"amount_{self.part * LINES} is made by compute; nothing greater was seen. " * 5
            notes, self.planted = notes if self.planted else f"{PLANTED}. {notes}", True
            return decision | {"notes": notes[:400]}
        if "wants" in request.properties:
            return {"search": ["number"], "wants": "short answer"}
        if "words" in request.properties:
            return {"words": ["greatest", "maximum"]}
        if "found_in" in request.properties:
            return nowhere()
        if "steps" in request.properties:
            return plan("read_file", objective="Read the first part")
        if "final_answer" in request.properties:
            return conclusion("It was not found.", success=False)
        if "start_line" not in request.properties:
            return {"path": "jobs"}
        self.part += 1
        first = self.part * LINES
        return {"path": "jobs/long.py", "start_line": first, "end_line": first + LINES}


@pytest.fixture
def ollama(request: pytest.FixtureRequest) -> Iterator[ScriptedOllama]:
    with ScriptedOllama(handler=Reader(request.param)) as ollama:
        yield ollama


@pytest.fixture
def place(own_place: Place) -> Place:
    rows = [line(number) for number in range(LINES * (ITERATIONS + 2))]
    (own_place.project / "jobs" / "long.py").write_text("\n".join(rows))
    return own_place


def rebuilt(before: Request, after: Request) -> bool:
    """Whether the model server has to compute again what stood before the last question."""
    return after.messages[: len(before.messages) - 1] != before.messages[:-1]


@pytest.mark.parametrize(
    "ollama",
    [
        pytest.param(lambda part: False, id="one step"),
        pytest.param(lambda part: True, id="a step each"),
        pytest.param(lambda part: part % 10 == 1, id="steps of ten"),
    ],
    indirect=True,
)
async def test_fifty_iterations_stay_within_the_context(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_stream, "MAX_BACKLOG", sys.maxsize)  # every event is looked at
    async with place.client() as caller:
        result = await caller.call(
            "plan_and_answer",
            prompt=QUESTION,
            max_iterations=ITERATIONS,
            max_model_tokens=1_000_000,
            wait_s=LONG,
        )
        events = [each["type"] for each in caller.progress.events]
        calls = [each for each in caller.progress.events if each["type"] == "tool_selected"]
        run_id, made = caller.progress.run_id, len(calls)
        whole = await caller.call("get_run", run_id=run_id, iteration=made - 1)
        none = await caller.error("get_run", run_id=run_id, iteration=made)
    report = result.whole
    assert report
    assert report["reason"] == f"the limit of {ITERATIONS} iterations was reached"
    assert sum(each["by"] == "choice" for each in calls) == ITERATIONS
    assert [each["iteration"] for each in report["actions"]] == list(range(made))
    assert not [each for each in report["guards"] if each.startswith("context")]
    for request in ollama.requests:
        assert request.options["num_ctx"] == CONTEXT_TOKENS
        assert request.prompt_tokens + request.options["num_predict"] <= CONTEXT_TOKENS

    last = ollama.requests[-1]
    assert PLANTED in last.prompt
    first_line = report["actions"][-1]["tool_calls"][0]["args"]["start_line"]
    assert line(first_line) in last.prompt
    asked = [request for request in ollama.requests if request.model == FULL]
    rebuilds = sum(rebuilt(before, after) for before, after in pairwise(asked))
    compressed, concluded = events.count("context_compressed"), events.count("step_concluded")
    assert rebuilds <= compressed + concluded
    assert compressed <= len(asked) // 7
    assert report["usage"]["cached_tokens"] > 0.85 * report["usage"]["prompt_tokens"]

    rest = line(first_line + LINES - 2)
    assert rest not in last.prompt
    assert rest in text(whole)
    assert none.endswith(f"there are {made}, counted from 0.")


# What was cut is seen

ROWS = "\n".join(f"row {number}: {number * 7919}" for number in range(400))
READ = spec("read", "part")


def reading(**results: list[str | ToolResult]) -> DictionaryPool:
    return DictionaryPool({}, specs=[READ], results=dict(results))


async def test_what_a_prompt_left_out_of_a_result_can_be_seen() -> None:
    pool = reading(read=[ROWS])
    ran = await planned(
        {"part": "all"},
        nowhere(),
        plan("see_more"),
        {"from_line": 1000, "iteration": 0},
        deep(stay("see_more", "See the end")),
        {"from_line": 301, "iteration": 0},
        found(f"Row 301 is {301 * 7919}."),
        pool=pool,
        prompt="Read row 301",
        tool="read",
    )
    first = ran.asked[1].last
    assert "row 301" not in first.partition("<result>")[2].partition("</result>")[0]
    assert 'more lines: see_more {"from_line":' in first
    assert ran.results[1] == (
        "see_more",
        Outcome.FAILURE,
        "The result of iteration 0 has 400 lines.",
    )
    assert f"row 301: {301 * 7919}" in ran.asked[-1].last
    assert len(pool.calls) == 1
    assert (ran.state.status, len(ran.state.iterations)) == ("answered", 3)


async def test_see_more_is_no_tool_while_nothing_was_cut() -> None:
    ran = await planned(
        {"part": "all"},
        nowhere(),
        plan("read"),
        {"part": "other"},
        found("It is 5."),
        pool=reading(read=["row 1", "row 5"]),
        prompt="Which is it?",
        tool="read",
    )
    schema = ran.asked[2].schema
    assert schema
    steps = schema["properties"]["steps"]
    assert steps["items"]["properties"]["tool"] == {"enum": ["read", None]}


async def test_a_call_made_again_after_its_step_gets_its_result_from_the_record() -> None:
    pool = reading(read=["row 1", "row 2"])
    ran = await planned(
        {"part": "1"},
        nowhere(),
        plan("read"),
        {"part": "2"},
        nowhere(),
        move_on("read", "Read 2 again"),
        {"part": "2"},
        deep(stay("read", "And again")),
        {"part": "2"},
        conclusion("Nothing.", success=False),
        pool=pool,
        prompt="Which is it?",
        tool="read",
        reply_fields={"prompt_tokens": 5500},  # so the first step's results make room
    )
    assert len(pool.calls) == 2
    assert ran.results[2:] == [("read", Outcome.SUCCESS, "row 2")] * 2
    assert ran.guards == ["repeated", "repeated", "no_progress"]
