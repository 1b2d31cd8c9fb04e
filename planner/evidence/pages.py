"""Lists that a tool returns in parts: how the next part is asked for, and all parts as one."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from planner.evidence.records import (
    PAGES,
    beside,
    goes_on_at,
    is_page,
    list_within,
    tells_of_whole,
    value_of,
)
from planner.tools import Arguments, ToolSpec

_CURSOR = re.compile(r"(?i)(cursor|page_?token)$")
_OFFSET = re.compile(r"(?i)^(?:offset|skip|start_?at)$")
_PAGE_NUMBER = re.compile(r"(?i)^page(?:_?(?:number|index))?$")


class Part:
    """A result as a list in an object with what is said about it; without one, nothing is listed.

    The list may be whole.
    """

    def __init__(self, result: str) -> None:
        self.value = value_of(result)
        self.around, self.key = list_within(self.value)

    @property
    def listed(self) -> list[Any]:
        return list(self.around[self.key]) if self.key else []

    @property
    def beside(self) -> dict[str, Any]:
        return beside(self.around)

    @property
    def total(self) -> int:
        """How many entries all of the list has, if that is said."""
        totals = (each for name, each in self.beside.items() if "total" in name.lower())
        return max((each for each in totals if type(each) is int), default=0)

    def ends(self, read: int) -> bool:
        """Whether the list ends here, of which so many entries were read."""
        if not is_page(self.around, self.listed):
            return True
        beside = [*self.beside.items()]
        page = max(
            (each for name, each in beside if _PAGE_NUMBER.search(name)), default=None, key=str
        )
        last = page is not None and page in [each for name, each in beside if PAGES.search(name)]
        return last or (read == self.total and not any(goes_on_at(*each) for each in beside))

    def joined(self, listed: Sequence[Any], whole: bool) -> str:
        """The result with this list, and without what says how it goes on if it is whole."""

        def told(value: Any) -> Any:
            if not isinstance(value, dict):
                return value
            if value is self.around:
                value = value | {self.key: listed}
            kept = (name for name in value if not (whole and tells_of_whole(str(name))))
            return {name: told(value[name]) for name in kept}

        return json.dumps(told(self.value), ensure_ascii=False)


def is_part(result: str) -> bool:
    """Whether a result says that it is a part of a list."""
    part = Part(result)
    return bool(part.key) and is_page(part.around, part.listed)


def next_arguments(tool: ToolSpec, arguments: Arguments, part: Part) -> Arguments | None:
    """The arguments that ask for the next part; None where no argument of the tool is for that."""
    for name, at in part.beside.items():
        if not goes_on_at(name, at):
            continue
        told = {**dict(_in_address(str(at), tool)), **dict(_under_its_name(name, at, tool))}
        if any(arguments.get(each) != value for each, value in told.items()):
            return arguments | told
    for name, schema in tool.parameters.items():
        said = (arguments.get(name), part.beside.get(name), schema.get("default"))
        now = next((each for each in said if type(each) is int), None)
        if _OFFSET.search(name):
            return arguments | {name: (now or 0) + len(part.listed)}
        if _PAGE_NUMBER.search(name) and now is not None:  # the first one may be 0 or 1
            return arguments | {name: now + 1}
    return None


def _in_address(address: str, tool: ToolSpec) -> Iterator[tuple[str, Any]]:
    """The arguments that the address of the next part has: `?$skip=20`."""
    for name, value in parse_qsl(urlsplit(address).query):
        if (bare := name.lstrip("$")) in tool.parameters:
            yield bare, int(value) if value.isdigit() else value


def _under_its_name(name: str, at: Any, tool: ToolSpec) -> Iterator[tuple[str, Any]]:
    """The argument of the name under which the place of the next part stands, or of a like name:
    `cursor` for `next_cursor`, and `after` for the `endCursor` of GraphQL."""
    kind = _CURSOR.search(name)
    for each in tool.parameters:
        own = _CURSOR.search(each)
        alike = kind and own and _plain(kind[1]) == _plain(own[1])
        if alike or _plain(each) == _plain(name) or (each, _plain(name)) == ("after", "endcursor"):
            yield each, at


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
