"""The calls that should have changed something and did not, so that the report mentions each one. A
tool's own answer is in its result, and a refused call is among the approvals."""

import json
from collections.abc import Sequence

from planner.actions import MAX_ARGUMENTS_CHARS
from planner.checks.guards import repeats
from planner.state import Iteration, RunState
from planner.text import shortened
from planner.tools import Outcome

CUT_OFF = "the run ended while it was under way"


def unsettled(state: RunState, over: bool) -> list[str]:
    """A line for each of these calls, however often it was tried. `over`: nobody drives the run."""
    calls: dict[str, list[Iteration]] = {}
    for each in state.iterations:
        if _may_change(state, each):
            calls.setdefault(json.dumps([each.tool, each.arguments]), []).append(each)
    return [line for tries in calls.values() if (line := _line(tries, over))]


def _may_change(state: RunState, iteration: Iteration) -> bool:
    """Whether it is a complete call of a tool that is not read-only."""
    named = state.started is not None and iteration.tool in state.started.approved_first
    return iteration.asked is not None or (named and bool(iteration.arguments))


def _line(tries: Sequence[Iteration], over: bool) -> str | None:
    call = _call(tries[0])
    if unknown := [each for each in tries if _unknown(each, over)]:
        why = _why(unknown[0])
        return f"It is not known whether {call} was carried out, and it was not made again: {why}"
    if any(map(_shown_elsewhere, tries)) or tries[-1].outcome is None:
        return None
    return f"{call} was not made: {_why(tries[-1])}"


def _unknown(iteration: Iteration, over: bool) -> bool:
    if iteration.upstream is None:
        return False
    return over if iteration.outcome is None else not iteration.answered


def _shown_elsewhere(iteration: Iteration) -> bool:
    refused = iteration.approval is not None and not iteration.approval.approved
    return refused or iteration.outcome in (Outcome.SUCCESS, Outcome.FAILURE)


def _call(iteration: Iteration) -> str:
    """`notes.add_note {"text": "hello"}`"""
    upstream = iteration.asked.upstream if iteration.asked else ""
    arguments = json.dumps(iteration.arguments, ensure_ascii=False)
    name = iteration.tool.removeprefix(f"{upstream}.")
    return f"{upstream}{upstream and '.'}{name} {shortened(arguments, MAX_ARGUMENTS_CHARS)}"


def _why(iteration: Iteration) -> str:
    said = iteration.result.removesuffix(repeats.UNKNOWN).strip()
    return said.partition("\n")[0] or CUT_OFF
