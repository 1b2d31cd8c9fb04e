"""Repeated calls, and runs without progress."""

from collections.abc import Sequence

from planner.checks.guards.arguments import same
from planner.checks.guards.results import new_lines
from planner.evidence.words import long_words, words
from planner.state import Iteration, RunState
from planner.text import flat, leaves, shortened
from planner.tools import Arguments, Outcome, ToolSpec, find

FRUITLESS_DECISIONS = 2
"""After so many in a row whose calls brought nothing new, the run concludes, or without any answer
has to choose another tool."""
MAX_COMPLAINT_CHARS = 300
"""Characters of what a tool says about a call that it did not accept."""
REFUSED = "It was not made; go on without it."
UNKNOWN = "It may have been done or not, and is not made again; look with a tool that reads."


def repeated(
    state: RunState, tool: ToolSpec, arguments: Arguments, outcome: Outcome = Outcome.SUCCESS
) -> Iteration | None:
    """The last iteration that made an equal call with this outcome. One from before a change, or
    for an earlier request, does not count: it may have another result now."""
    for iteration in reversed(state.part_iterations):
        if iteration.outcome is outcome and made(iteration, tool, arguments):
            return iteration
        if iteration.changes and Outcome.SUCCESS in (iteration.outcome, outcome):
            return None
    return None


def in_one_way(tool: ToolSpec) -> bool:
    """Whether a tool that reads takes no arguments."""
    return tool.read_only and not tool.parameters


def exhausted(state: RunState, tool: ToolSpec) -> bool:
    """Whether a tool takes no arguments, and what it returned is in view."""
    return in_one_way(tool) and repeated(state, tool, {}) in state.shown_iterations


def known(state: RunState, iteration: Iteration) -> bool:
    """Whether a call was not sent because its result is known since the last change."""
    for each in reversed(state.iterations[: iteration.number]):
        same_call = each.tool == iteration.tool and each.arguments == iteration.arguments
        if same_call and each.succeeded:
            return True
        if each.changed:
            return False
    return False


def not_again(state: RunState, tool: ToolSpec, arguments: Arguments) -> str | None:
    """Why a change is not requested or made again: it was refused, or its effect is unknown."""
    for iteration in state.iterations:
        if not made(iteration, tool, arguments):
            continue
        before = f"This very call was made in iteration {iteration.number}"
        if not iteration.answered:
            return f"{before}, and what it did is unknown. {UNKNOWN}"
        if iteration.approval and not iteration.approval.approved:
            return f"{before}, and not approved: {iteration.approval.reason}. {REFUSED}"
    return None


def in_another_way(
    state: RunState, tool: ToolSpec, arguments: Arguments, tools: Sequence[ToolSpec]
) -> str | None:
    """Why a change is not made that another of these tools has made with all its values, two at
    least: a payment that was sent is not scheduled as well. If the request or its search words have
    a word for this tool alone, both are asked for: a branch is created, and switched to."""
    values = _values(arguments)
    asked = _told(tool) & {*words(" ".join([state.user_words, *state.search]))}
    for each in state.part_iterations:
        done = each.changed and each.tool != tool.name
        alike = len(values) > 1 and values <= _values(each.arguments)
        other = find(each.tool, tools) if done and alike else None
        if other and asked <= _told(other):
            return f"It was not made: {each.tool} was called with the same values."
    return None


def _told(tool: ToolSpec) -> set[str]:
    """The words that tell what a tool does."""
    return {*words(tool.name), *long_words(tool.description)}


def _values(arguments: Arguments) -> set[str]:
    """The texts and numbers of a call."""
    told = (each for _, each in leaves(arguments) if not isinstance(each, bool))
    return {str(each) for each in told if each not in (None, "")}


def made(iteration: Iteration, tool: ToolSpec, arguments: Arguments) -> bool:
    """Whether an iteration made this call, or an equal one."""
    return iteration.tool == tool.name and same(tool, iteration.arguments, arguments)


def fruitless(state: RunState) -> list[list[str]]:
    """The tools of the newest decisions in a row whose calls brought no new line. Look-ups by code
    end by themselves and do not count, nor does what was before the newest request or steering."""
    fresh = new_lines(state.iterations)
    decisions: list[list[str]] = [[]]
    steered_at = max((each.iteration for each in state.steered), default=-1)
    for each in reversed(state.part_iterations):
        if each.by == "lookup" or fresh[each.number] or each.number <= steered_at:
            decisions[-1] = []  # one of its calls brought something
            break
        decisions[-1].append(each.tool)
        if not each.beside:
            decisions.append([])
    return [tools for tools in decisions if tools]


def failed(state: RunState) -> set[str]:
    """The tools whose calls have all failed."""
    made = [each for each in state.part_iterations if each.answered]
    return {each.tool for each in made} - {each.tool for each in made if each.succeeded}


def newest_failure(state: RunState) -> str | None:
    """What the tool said of the newest call that a model wrote, if it failed."""
    newest = next((each for each in state.part_iterations[::-1] if each.by_model), None)
    if newest is None or newest.outcome is not Outcome.FAILURE:
        return None
    return f"{newest.tool} failed: {shortened(flat(newest.result), MAX_COMPLAINT_CHARS)}"


def left_out(state: RunState) -> list[str]:
    """The tools that may not be chosen next, because their last calls brought nothing new."""
    decisions = fruitless(state)
    if len(decisions) < FRUITLESS_DECISIONS:
        return []
    return list(dict.fromkeys(tool for tools in decisions for tool in tools))
