"""Which tool may be called, and what a decision or an answer really says."""

import re
from collections.abc import Sequence

from rapidfuzz import fuzz, process

from planner.protocol import Conclude, MoveOn, Stay
from planner.state import RunState, plain, skipped, wanted_first
from planner.tools import Policy, ToolSpec


def unknown_tool(name: str, tools: Sequence[ToolSpec]) -> str:
    """The message about an invented tool. It never says "is not available"."""
    names = [tool.name for tool in tools]
    near = process.extract(name, names, scorer=fuzz.WRatio, limit=3, score_cutoff=40)
    hint = f" The nearest tools are: {', '.join(each for each, _, _ in near)}." if near else ""
    return f'The tool "{name}" does not exist.{hint}'


def not_allowed(tool: ToolSpec, policy: Policy) -> str | None:
    """Why a run with this policy may not ask for a call of the tool; None if it may."""
    if tool.read_only or Policy.READ_ONLY not in (tool.policy, policy):
        return None
    who = "the operator permits" if tool.policy is Policy.READ_ONLY else "this run may use"
    return (
        f'The tool "{tool.name}" was refused: its safety class is {tool.safety}, and {who} '
        "read-only tools only."
    )


def against_the_user(state: RunState, decision: Conclude | Stay | MoveOn) -> str | None:
    """What the user has said about later steps, if a decision ignores it."""
    if not isinstance(decision, MoveOn):
        return None
    begun = decision.objective or next(iter(state.later_steps), "")
    if plain(begun) in skipped(state.said):
        return f"The user does not want this step: {begun}"
    first = next(iter(state.later_steps), "")
    wanted = plain(first) in wanted_first(state.said)
    if wanted and plain(begun) in map(plain, state.later_steps[1:]):
        return f"The user wants this step first: {first}"
    return None


_GIVES_UP = re.compile(
    r"\W*(?:i )?(?:could not|cannot|can't|couldn't|unable to)\b"
    r"(?! be (?!found|determined|located|retrieved|reached|accessed))",
    re.IGNORECASE,
)


def gives_up(answer: str) -> bool:
    """Whether an answer says that it could not be found, whatever the model has marked it as."""
    return _GIVES_UP.match(answer) is not None
