"""The members of a symbol, from the result of an upstream that knows symbols."""

from collections.abc import Iterable, Iterator
from typing import Any

from planner.evidence.records import value_of


def outline(result: str) -> str:
    """A line for each symbol of a result in JSON that has members by kind, and below it one for
    each kind with their number and names."""
    value = value_of(result)
    lines: list[str] = []
    for symbol in value if isinstance(value, list) else [value]:
        kinds = list(_kinds(symbol.values())) if isinstance(symbol, dict) else []
        if kinds:
            lines.append(", ".join(each for each in symbol.values() if isinstance(each, str)))
            lines += (f"  {kind} ({len(names)}): {', '.join(names)}" for kind, names in kinds)
    return "\n".join(lines)


def _kinds(values: Iterable[Any]) -> Iterator[tuple[str, list[str]]]:
    """The names of the members of each kind."""
    for members in (value for value in values if isinstance(value, dict)):
        for kind, listed in members.items():
            names = [*map(_name, listed)] if isinstance(listed, list) else []
            if names and all(names):
                yield kind, names


def _name(member: Any) -> str:
    """A member's name, which comes before what else is said of it."""
    said = member.values() if isinstance(member, dict) else [member]
    return next((each for each in said if isinstance(each, str)), "")
