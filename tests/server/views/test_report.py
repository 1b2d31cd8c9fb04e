"""What is shown of a run never fails and keeps its form, whatever the models and tools said."""

import json
import re
import time
from typing import Any, get_args

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from recorded import state_of

from planner.actions import MAX_RESULT_CHARS, in_words
from planner.events import (
    EVENT,
    ApprovalAsked,
    ApprovalDecided,
    ArgumentsWritten,
    Event,
    FinalStatus,
    GuardTripped,
    ModelCalled,
    PlanMade,
    PlanRevised,
    Role,
    RunFinished,
    RunResumed,
    RunStarted,
    RunSteered,
    StepConcluded,
    StepContinued,
    StepStarted,
    ToolCalled,
    ToolReturned,
    ToolSelected,
)
from planner.protocol import RunRequest, Steering
from planner.state import RunState
from planner.tools import Outcome, Safety, UpstreamState, UpstreamStatus
from server.approval.approval import Approvals, Question
from server.text import clean
from server.views import consent
from server.views.progress import DOING, MAX_LINE_CHARS, heartbeat, message
from server.views.report import MAX_REPORT_CHARS, Report, report, usage
from server.views.report_text import markdown
from server.views.timeline import timeline

pytestmark = pytest.mark.anyio

text = st.text(max_size=400) | st.sampled_from(
    [
        "",
        "\n",
        "```\n# no fence\n",
        "a_name in src/x.py:1\r\nb",
        "[]",
        '{"a": ["b"]}',
        "_x_ *y* `z`",
    ]
)
names = st.sampled_from(["search", "read_file"])
numbers = st.integers(min_value=0, max_value=10**6)
seconds = st.floats(min_value=0, max_value=10**5)
finite = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
arguments = st.dictionaries(
    st.sampled_from(["path", "pattern", "relative_path", "file", "limit"]) | text,
    values,
    max_size=4,
)
models = st.builds(
    ModelCalled,
    role=st.sampled_from(get_args(Role)),
    model=st.just("m"),
    reply=text,
    prompt_tokens=numbers,
    cached_tokens=numbers,
    cached_told=st.booleans(),
    generated_tokens=numbers,
    load_seconds=seconds,
    prefill_seconds=seconds,
    decode_seconds=seconds,
)
guards = st.builds(GuardTripped, guard=names, message=text)


@st.composite
def calls(draw: st.DrawFn) -> list[Event]:
    """A tool call, from its selection to its result or to anywhere before it."""
    tool, given_arguments = draw(names), draw(arguments)
    events: list[Event] = [
        ToolSelected(tool=tool, prompt=draw(text)),
        draw(models),
        ArgumentsWritten(iteration=0, tool=tool, arguments=given_arguments, model="m"),
        draw(guards),
        ToolCalled(iteration=0, upstream="files", tool=tool, arguments=given_arguments),
        ToolReturned(
            iteration=0,
            tool=tool,
            arguments=given_arguments,
            outcome=draw(st.sampled_from(Outcome)),
            text=draw(text | st.text(min_size=MAX_RESULT_CHARS, max_size=3 * MAX_RESULT_CHARS)),
            seconds=draw(seconds),
        ),
        draw(models),
    ]
    return events


@st.composite
def runs(draw: st.DrawFn) -> list[Event]:
    """A run, cut off anywhere."""
    upstream = UpstreamStatus(name="x", state=draw(st.sampled_from(UpstreamState)), error="e")
    listing = draw(st.none() | text)
    request = RunRequest(prompt=draw(text))
    events: list[Event] = [
        RunStarted(
            request=request,
            listing=listing,
            upstreams=[upstream],
            tools=["search"],
            offered=["search"],
        ),
        *draw(calls()),
    ]
    if draw(st.booleans()):
        later = draw(st.lists(text, max_size=3))
        events.append(
            PlanMade(
                main_objective=draw(text),
                conclusion_from_assistant_data=draw(text),
                later_steps=later,
            )
        )
        for number in range(1, draw(st.integers(1, 3)) + 1):
            offered = draw(st.lists(text, max_size=2))
            events.append(StepStarted(number=number, objective=draw(text), offered=offered))
            events += draw(calls())
            events.append(StepContinued(number=number, notes=draw(text)))
            events += draw(calls())
            success = draw(st.booleans())
            events.append(StepConcluded(number=number, success=success, notes=draw(text)))
            events.append(PlanRevised(later_steps=draw(st.lists(text, max_size=3))))
    status = draw(st.sampled_from(get_args(FinalStatus)))
    events.append(RunFinished(status=status, answer=draw(text), reason=draw(st.none() | text)))
    return events[: draw(st.integers(0, len(events)))]


def test_progress_has_words_for_each_model_call() -> None:
    assert DOING.keys() == {*get_args(Role)}


@given(runs())
def test_progress_is_one_short_line_for_every_event(events: list[Event]) -> None:
    state = RunState()
    for event in events:
        state.apply(event)
        for line in (message(event, state), heartbeat(state, 12.3)):
            assert 0 < len(line) <= MAX_LINE_CHARS
            assert len(line.splitlines()) == 1
            assert line == line.strip()
            assert "\x1b" not in line


@given(runs(), seconds)
def test_every_run_has_a_report(events: list[Event], now: float) -> None:
    found = report("run", state_of(events), now)
    assert Report.model_validate_json(found.model_dump_json()) == found
    assert state_of(EVENT.validate_json(EVENT.dump_json(event)) for event in events) is not None
    assert all(
        len(call.result) <= MAX_RESULT_CHARS for each in found.actions for call in each.tool_calls
    )
    assert "_Run run: " in markdown(found).splitlines()[-1]


ASKED: list[Event] = [
    RunStarted(
        at=0.0,
        request=RunRequest(prompt="p"),
        listing=None,
        upstreams=[],
        tools=["add"],
        offered=["add"],
    ),
    ToolSelected(at=1.0, tool="add", prompt="p"),
    ApprovalAsked(
        at=2.0,
        iteration=0,
        upstream="notes",
        tool="add",
        arguments={},
        safety=Safety.WRITE,
        digest="d" * 64,
    ),
    RunResumed(at=3602.0, paused=3600.0),
]
"""A run that was resumed, an hour after its server ended, with a call that waits for approval."""


async def test_a_question_that_is_asked_again_has_its_whole_time() -> None:
    state = RunState.of(ASKED)
    call = consent.waiting("run", state, timeout_s=120)
    assert call
    assert call.lapses == 3722.0
    approvals = Approvals("run", RunRequest(prompt="p"), state, timeout_s=120)
    approvals.can_ask = True
    async with anyio.create_task_group() as tasks:
        before = time.time()
        tasks.start_soon(approvals.put, Question("Well?"))
        await anyio.wait_all_tasks_blocked()
        assert approvals.waiting
        assert approvals.waiting.lapses >= before + 120  # though the run had to wait for its turn
        tasks.cancel_scope.cancel()


def test_the_time_without_a_server_is_not_a_persons() -> None:
    decided = ApprovalDecided(
        at=3612.0, iteration=0, tool="add", approved=True, by="person", reason="r"
    )
    spans = [(each.kind, each.at, each.seconds) for each in timeline([*ASKED, decided])]
    assert spans == [("pause", 2.0, 3600.0), ("person", 3602.0, 10.0)]


def test_long_times_are_said_in_minutes_in_every_view() -> None:
    state = RunState.of(ASKED)
    assert message(ASKED[-1], state) == "resumed after 60 min 0 s"
    finished = RunFinished(at=3727.0, status="answered", answer="a")
    found = report("run", RunState.of([*ASKED, finished]), now=9999.0)
    assert markdown(found, cost=False).endswith("_Run run: 2 min 7 s in all_")
    assert markdown(found).endswith("; 2 min 7 s in all_")


def test_the_time_before_a_run_has_begun_is_not_taken_off() -> None:
    """As of one that was steered while it waited for its turn, until another server took it up."""
    state = RunState.of(
        [
            RunSteered(at=0.0, steering=Steering(hint="h")),
            RunResumed(at=3600.0, paused=3600.0),
            ASKED[0].model_copy(update={"at": 3600.0}),
            RunFinished(at=3630.0, status="answered", answer="a"),
        ]
    )
    assert usage(state, now=9999.0).seconds == 30.0


@pytest.mark.parametrize("iteration", [None, 0])
def test_a_report_is_within_what_hosts_take(iteration: int | None) -> None:
    request = RunRequest(prompt="?")
    events: list[Event] = [
        RunStarted(request=request, listing=None, upstreams=[], tools=[], offered=[])
    ]
    for number in range(100):
        said = f"{number}\n" + "\N{SNOWMAN} \n" * (500 if number else 35_000)
        given = {"text": "x" * 2500}
        events += [
            ToolSelected(tool="say", prompt="p" * 240),
            ToolReturned(
                iteration=0,
                tool="say",
                arguments=given,
                outcome=Outcome.SUCCESS,
                text=said,
                seconds=0,
            ),
        ]
    found = report("run", state_of(events), 0, iteration)
    assert (
        0 < len(json.dumps(found.model_dump(mode="json"), ensure_ascii=False)) <= MAX_REPORT_CHARS
    )
    results = [call.result for action in found.actions for call in action.tool_calls]
    assert len(results) == (100 if iteration is None else 1)
    assert min(map(len, results)) >= (100 if iteration is None else 100_000)


@given(st.lists(text, min_size=1, max_size=4))
def test_evidence_cannot_leave_its_fence(lines: list[str]) -> None:
    """What an upstream said stays data: no heading, link or picture comes of it."""
    said = "\n".join([f"fact_{number} {line}" for number, line in enumerate(lines)])
    events: list[Event] = [
        RunStarted(
            request=RunRequest(prompt="?"), listing=None, upstreams=[], tools=[], offered=[]
        ),
        ToolSelected(tool="search", prompt=""),
        ToolCalled(iteration=0, upstream="files", tool="search", arguments={}),
        ToolReturned(
            iteration=0, tool="search", arguments={}, outcome=Outcome.SUCCESS, text=said, seconds=0
        ),
        RunFinished(status="answered", answer="It is fact_0."),
    ]
    found = report("run", state_of(events), 0)
    (evidence,) = found.evidence
    (fence,) = [each for each in MarkdownIt().parse(markdown(found)) if each.type == "fence"]
    assert fence.content.split() == clean("\n".join(evidence.lines)).split()


@given(arguments)
def test_arguments_are_said_in_words(given_arguments: dict[str, Any]) -> None:
    assert in_words(given_arguments)


def test_a_cut_message_says_so() -> None:
    event = GuardTripped(guard="x", message="word " * 100)
    line = message(event, RunState())
    assert len(line) == MAX_LINE_CHARS
    assert re.fullmatch(r"(word )+.*…", line)
