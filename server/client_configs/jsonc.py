"""Reads JSON with comments and trailing commas, and changes one place in it; every other character
stays. No maintained package on PyPI does that: they rewrite comments, or only read."""

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

Place = tuple[str | int, ...]
"""Where a value stands: keys of maps, numbers of list items."""

_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|[{\[]\s*,|,(?=\s*[}\]])', re.DOTALL)
_COMMENTS_TO_LINE_END = re.compile(
    r"(?:[ \t]*/\*(?:(?!\*/)[^\n])*\*/)*(?:[ \t]*//[^\n]*)?(?=[ \t]*(?:\n|\Z))"
)
_COMMA = re.compile(r"\s*,")
_NOT_SPACE = re.compile(r"\S")
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_decode = json.JSONDecoder().raw_decode


def loads(text: str) -> Any:
    """The data; an empty text is an empty map. Raises `ValueError`, `RecursionError`."""
    plain = _plain(text)
    return json.loads(plain) if plain.strip() else {}


def changed(text: str, place: Place, value: Any) -> str:
    """The text with this value at this place. Missing parents are created, and a list gets the item
    at its end. Raises `ValueError`, `RecursionError`."""
    if not _plain(text).strip():
        gap = "" if text.endswith("\n") or not text else "\n"
        text = f"{text}{gap}{{\n}}\n"
    loads(text)  # the rest relies on its being valid
    plain = _plain(text)
    start = _next(plain, 0)
    for number, key in enumerate(place):
        members = list(_members(plain, start))
        there = [value_start for each, value_start in members if each == key]
        if not there:
            inner = _nested(place[number + 1 :], value)
            return _added(text, plain, start, [each for _, each in members], key, inner)
        start = there[-1]  # of two the last one counts
        if plain.startswith("null", start):  # as if it were not there
            value = _nested(place[number + 1 :], value)
            break
    before, after = text[:start], text[_end(plain, start) :]
    return before + _written(value, text, _line_indent(text, start)) + after


def _nested(place: Place, value: Any) -> Any:
    for key in reversed(place):
        value = [value] if isinstance(key, int) else {key: value}
    return value


def _members(plain: str, start: int) -> Iterator[tuple[str | int, int]]:
    """The key of each member of a container, and where its value starts; none if it is not one."""
    if plain[start] not in "{[":
        return
    at = _next(plain, start + 1)
    for number in count():
        if plain[at] in "}]":
            return
        key: str | int = number
        if plain[start] == "{":
            key, end = _decode(plain, at)
            at = _next(plain, _next(plain, end) + 1)
        yield key, at
        at = _next(plain, _end(plain, at))
        if plain[at] == ",":
            at = _next(plain, at + 1)


def _next(plain: str, at: int) -> int:
    found = _NOT_SPACE.search(plain, at)
    assert found  # the text was read before
    return found.start()


def _end(plain: str, start: int) -> int:
    """Where the value that begins at `start` ends."""
    return _decode(plain, start)[1]


def _added(
    text: str, plain: str, start: int, members: list[int], key: str | int, value: Any
) -> str:
    """The text with another member in the container at `start`, whose values are at `members`."""
    opening, close = plain[start], _end(plain, start) - 1
    if (opening, type(key)) not in (("{", str), ("[", int)):
        raise ValueError(f"there is no map where `{key}` should go")
    name = f"{json.dumps(key, ensure_ascii=False)}: " if opening == "{" else ""
    outer = _line_indent(text, start)
    if not members:
        inner = outer + _unit(text)
        head = text[: start + 1] + text[start + 1 : close].rstrip()
        return f"{head}\n{inner}{name}{_written(value, text, inner)}\n{outer}{text[close:]}"
    end = _end(plain, members[-1])
    if "\n" not in text[start:close]:
        return f"{text[:end]}, {name}{_written(value, None, '')}{text[end:]}"
    inner = _line_indent(text, members[-1])
    new = f"\n{inner}{name}{_written(value, text, inner)}"
    comma = _COMMA.match(_blanked(_STRING_OR_COMMENT, text), end)
    where = comma.end() if comma else end
    if beside := _COMMENTS_TO_LINE_END.match(text, where):
        where = beside.end()
    if comma:
        return f"{text[:where]}{new},{text[where:]}"
    return f"{text[:end]},{text[end:where]}{new}{text[where:]}"


def _written(value: Any, like: str | None, indent: str) -> str:
    """A value as JSON, with the indentation that the text has, or on one line."""
    unit = None if like is None else _unit(like)
    written = json.dumps(value, indent=unit, ensure_ascii=False)
    if _SURROGATE.search(written):  # of half a pair, which UTF-8 does not have
        written = json.dumps(value, indent=unit)
    return written.replace("\n", f"\n{indent}")


def _unit(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _plain(text: str) -> str:
    """The text as plain JSON, in which every place is the same."""
    return _blanked(_STRING_OR_COMMA, _blanked(_STRING_OR_COMMENT, text))


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """The text with the matched comments or commas replaced by spaces, so that places stay."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found[0] in '"{[' else re.sub(r"[^\n]", " ", found)

    return pattern.sub(blank, text)
