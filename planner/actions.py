"""What a run did, as records, and in a short form for prompts; both are computed from the state.

docs/design.md ("State") says which fields a model writes, and which are the work of code.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, Field

from planner.checks.claims import claims, holds
from planner.checks.guards.arguments import takes_path
from planner.checks.guards.results import empty, found_something, new_lines
from planner.evidence.context import readable
from planner.evidence.records import RESULTS_KEPT
from planner.evidence.words import long_words, words
from planner.protocol import Mode
from planner.state import Iteration, RunState
from planner.text import counted, flat, shortened
from planner.tools import DecidedBy, Outcome, Safety

Relevance = Literal["high", "medium", "low"]
Progress = Literal["advancing", "stuck", "regressing"]

MAX_RESULT_CHARS = 1000
"""Characters of a tool result in a record; the model saw more."""
MAX_ARGUMENTS_CHARS = 80
"""Characters of a call's arguments in an attempt."""
MAX_CALL_CHARS = 200
"""Characters of a call in words."""
MAX_GLIMPSE_CHARS = 120
"""Characters of a result in an attempt whose notes say nothing about it."""


class Hypothesis(BaseModel, frozen=True):
    """What a deep decision believed, and the call that tests it. Empty in fast mode."""

    belief: str = ""
    test: str = ""


class ActionApproval(BaseModel, frozen=True):
    """The decision on a call whose tool is not read-only."""

    safety: Safety
    approved: bool | None = Field(description="Null while it is being decided.")
    by: DecidedBy | None
    reason: str


class ActionToolCall(BaseModel, frozen=True):
    """One tool call."""

    name: str
    upstream: str | None = Field(description="Null when no upstream was called.")
    args: dict[str, Any]
    in_words: str = Field(description="The arguments in a few words, the same in every view.")
    approval: ActionApproval | None = Field(
        description="Null for a read-only tool, and for a call that was refused before anybody was "
        "asked."
    )
    result: str = Field(
        description=f"At most {MAX_RESULT_CHARS} characters; get_run with the iteration has all, "
        "and so has the resource run://RUN_ID/result/ITERATION."
    )
    outcome: Outcome | None = Field(description="Null while the call is under way.")
    outcome_text: str = Field(description="The outcome in a few words, the same in every view.")
    execution_time: float = Field(description="Seconds.")
    insights: str = Field(description="What the model noted of the result.")
    learning: str = Field(description="What the call brought: new lines, nothing, a fault.")
    relevance: Relevance = Field(
        description="high: the notes or the answer say what is in the result. medium: words of the "
        "request are in it or in the notes. low: neither, or it failed."
    )


class Action(BaseModel, frozen=True):
    """One iteration: a tool call, and the decision on its result."""

    iteration: int = Field(description="From 0.")
    step: int = Field(description="The step it served; 0 is the gathering before the plan.")
    timestamp: str = Field(description="ISO 8601, UTC.")
    mode: Mode = Field(description="deep: the decision was asked for with more reasoning.")
    thinking: str
    planning: str = Field(description="What should be done next; deep mode only.")
    reflection: str = Field(description="Why the calls so far missed it; deep mode only.")
    approach: str = Field(description="The main objective and the step's own.")
    prompt: str = Field(description="What the tool should find.")
    tool_calls: list[ActionToolCall]
    synthesis: str = Field(description="The notes of the step that ended with this iteration.")
    progress: Progress = Field(
        description="advancing: the result has new lines. stuck: it has none. regressing: the step "
        "was given up after it."
    )
    hypothesis: Hypothesis


def actions(
    state: RunState, of: Sequence[Iteration] | None = None, longest: int = MAX_RESULT_CHARS
) -> list[Action]:
    """The records of these iterations, or of all; results are cut to `longest` characters."""
    fresh = new_lines(state.iterations)
    chosen = state.iterations if of is None else of
    return [_action(state, each, fresh[each.number], longest) for each in chosen]


def attempts(done: Sequence[Action]) -> list[str]:
    """What was tried and with what result, a line each; the model's own words come first. Calls
    without relevance share one line, so that they are not made again."""
    lines: dict[str, None] = {}
    others: dict[str, None] = {}
    for call in (call for action in done for call in action.tool_calls):
        made = flat(f"{call.name}({in_words(call.args)[:MAX_ARGUMENTS_CHARS]})")
        glimpse = flat(call.result)[:MAX_GLIMPSE_CHARS]
        if call.relevance == "low":
            others.setdefault(made)
        elif not call.insights:
            lines.setdefault(f"{made} → {call.learning}: {glimpse}")
        elif call.relevance == "high":
            lines.setdefault(f"{flat(call.insights)} ({made})")
        else:  # its words hold none of the result's
            lines.setdefault(f"{flat(call.insights)} ({made} → {glimpse})")
    return [*lines, *([f"without result: {'; '.join(others)}"] if others else [])]


def mode(state: RunState) -> Mode:
    """How to ask for the decision on the newest result: deep if the newest calls brought no new
    line, or if the last step ended without success."""
    if not state.iterations:
        return "fast"
    given_up = bool(state.completed_steps) and not state.completed_steps[-1].success
    fresh = new_lines(state.iterations)
    advancing = any(fresh[each.number] for each in state.newest)
    return "fast" if advancing and not given_up else "deep"


def _action(state: RunState, iteration: Iteration, fresh: int, longest: int) -> Action:
    step = state.steps[iteration.step - 1] if iteration.step else None
    ended = next((each for each in state.steps if each.last_iteration == iteration.number), None)
    last = iteration is state.iterations[-1]
    before = state.iterations[iteration.number - 1] if iteration.number else None
    answered = last and state.status == "answered"
    insights = iteration.notes or (state.own_words if answered else "") or iteration.assessment
    progress: Progress = "advancing" if fresh else "stuck"
    if ended and not ended.success:
        progress = "regressing"
    planning = ""
    if iteration.mode == "deep" and not last:
        after = state.iterations[iteration.number + 1]
        planning = f"{after.tool}: {after.prompt}"
    return Action(
        iteration=iteration.number,
        step=iteration.step,
        timestamp=datetime.fromtimestamp(iteration.started, UTC).isoformat(timespec="milliseconds"),
        mode=iteration.mode,
        thinking=iteration.assessment,
        planning=planning,
        reflection=iteration.critique,
        approach=": ".join(filter(None, [state.main_objective, step.objective if step else ""])),
        prompt=iteration.prompt,
        tool_calls=[
            ActionToolCall(
                name=iteration.tool,
                upstream=iteration.upstream,
                args=iteration.arguments,
                in_words=shortened(call_in_words(iteration), MAX_CALL_CHARS),
                approval=_approval(iteration),
                result=shortened(iteration.result, longest),
                outcome=iteration.outcome,
                outcome_text=outcome_in_words(iteration, over=state.status != "running"),
                execution_time=round(iteration.seconds, 3),
                insights=insights,
                learning=_learning(iteration, fresh),
                relevance=_relevance(state, iteration, insights),
            )
        ],
        synthesis=ended.notes if ended else "",
        progress=progress,
        hypothesis=Hypothesis(belief=before.belief, test=f"{iteration.tool}: {iteration.prompt}")
        if before and before.belief
        else Hypothesis(),
    )


def _approval(iteration: Iteration) -> ActionApproval | None:
    asked, decided = iteration.asked, iteration.approval
    if asked is None:
        return None
    return ActionApproval(
        safety=asked.safety,
        approved=decided.approved if decided else None,
        by=decided.by if decided else None,
        reason=decided.reason if decided else "",
    )


def outcome_in_words(iteration: Iteration, *, over: bool = False) -> str:
    """The outcome of a call, in a few words. `over`: its run has ended."""
    match iteration.outcome:
        case None if over:
            return "not finished" if iteration.upstream else "not made"
        case None:
            return (
                "waits for approval" if iteration.asked and not iteration.approval else "under way"
            )
        case Outcome.SUCCESS:
            return size(iteration.result)
        case _ if iteration.approval and not iteration.approval.approved:
            return "not approved"
        case _ if iteration.upstream is None:
            return "not made"
        case Outcome.TIMEOUT:
            return "timed out"
        case _:
            return "failed"


def size(result: str) -> str:
    """How much a result says: the lines that a reader sees."""
    if empty(result):
        return "nothing"
    lines = len(readable(result).splitlines())
    return f"{lines:,} {'line' if lines == 1 else 'lines'}"


def _learning(iteration: Iteration, fresh: int) -> str:
    match iteration.outcome:
        case None:
            return ""
        case Outcome.SUCCESS if iteration.changes:
            return "was made"
        case Outcome.SUCCESS if empty(iteration.result):
            return "found nothing"
        case Outcome.SUCCESS if fresh:
            return counted(fresh, "new line")
        case Outcome.SUCCESS:
            return "nothing new"
        case _:
            return f"{iteration.outcome}: {iteration.result.strip().partition(chr(10))[0][:160]}"


def _relevance(state: RunState, iteration: Iteration, said: str) -> Relevance:
    """How relevant a result is, by what was said about it."""
    if not found_something(iteration):
        return "low"
    request = state.user_words
    text = readable(iteration.result)
    answer = state.own_words if state.status == "answered" else ""
    said_of_it = claims(f"{said}\n{answer}")
    if any(holds(text, claim) and not holds(request, claim) for claim in said_of_it):
        return "high"
    asked = {*long_words(request)}
    return "medium" if asked & _words_of(text) or asked & {*words(said)} else "low"


@lru_cache(maxsize=RESULTS_KEPT)
def _words_of(result: str) -> frozenset[str]:
    """They are kept, because the records are made again for each decision."""
    return frozenset(words(result))


def call_in_words(call: Iteration) -> str:
    """The arguments of a call in a person's words. A pattern that code has made has only the
    beginnings of words, so that what it is to find is shown instead."""
    patterns = (value for value in call.arguments.values() if isinstance(value, str))
    if call.by == "lookup" and any(re.search(r"\||\(\?", each) for each in patterns):
        return call.prompt.removeprefix("find ")
    if call.upstream is None and not call.arguments:
        return ""  # they were not written
    return in_words(call.arguments)


def in_words(arguments: dict[str, Any]) -> str:
    """`create_task_group in src`: arguments in the words of a person."""
    named = (value for key, value in arguments.items() if takes_path(key))
    places = [str(each) for each in named if each not in (None, "", ".")]
    words = [
        value.replace(r"\b", "")  # the edges of words in a pattern
        for value in arguments.values()
        if isinstance(value, str) and value not in ("", ".", *places)
    ]
    numbers = [
        f"{key} {value}"
        for key, value in arguments.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    said = " in ".join(part for part in (" ".join(words), *places[:1]) if part)
    return (said + (f" ({', '.join(numbers)})" if numbers else "")).strip() or "everything"
