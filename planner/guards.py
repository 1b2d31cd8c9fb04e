"""Checks in code, before a call is spent. Each answers with a text for the model, or None."""

from collections.abc import Sequence
from typing import Any

from rapidfuzz import fuzz, process

from planner.state import Iteration, RunState
from planner.tools import Outcome, Safety, ToolSpec


def nearest(name: str, names: Sequence[str], most: int = 3) -> list[str]:
    """The names most like `name`, best first; none that have nothing to do with it."""
    found = process.extract(name, names, scorer=fuzz.WRatio, limit=most, score_cutoff=40)
    return [each for each, _, _ in found]


def unknown_tool(name: str, tools: Sequence[ToolSpec]) -> str:
    """An invented tool "does not exist"; never "is not available" (source: design section 3)."""
    near = nearest(name, [tool.name for tool in tools])
    hint = f" The nearest tools are: {', '.join(near)}." if near else ""
    return f'The tool "{name}" does not exist.{hint}'


def not_allowed(tool: ToolSpec) -> str | None:
    """Only read-only tools run by themselves; the rest is refused until a person can approve it."""
    if tool.safety is Safety.READ_ONLY:
        return None
    return (
        f'The tool "{tool.name}" was refused: its safety class is {tool.safety}, and only '
        "read-only tools run without approval."
    )


def repeated(state: RunState, tool: ToolSpec, arguments: dict[str, Any]) -> Iteration | None:
    """The earlier iteration that made this very call and got its result."""
    for iteration in state.iterations:
        if (
            iteration.tool == tool.name
            and iteration.arguments == arguments
            and iteration.outcome is Outcome.SUCCESS
        ):
            return iteration
    return None
