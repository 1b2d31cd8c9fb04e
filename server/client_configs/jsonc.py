"""Reads JSON with comments and trailing commas, as editors write their settings, and changes one
place in it. Every other character stays.

No maintained package on PyPI does the second: they rewrite comments, or only read.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Place = tuple[str | int, ...]
"""Where a value stands: keys of maps, numbers of list items."""

_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|[{\[]\s*,|,(?=\s*[}\]])', re.DOTALL)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_COMMENTS_TO_LINE_END = re.compile(
    r"(?:[ \t]*/\*(?:(?!\*/)[^\n])*\*/)*(?:[ \t]*//[^\n]*)?(?=[ \t]*(?:\n|\Z))"
)
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def loads(text: str) -> Any:
    """The data; an empty text is an empty map. Raises `ValueError`, `RecursionError`."""
    plain = _blanked(_STRING_OR_COMMA, _blanked(_STRING_OR_COMMENT, text))
    return json.loads(plain) if plain.strip() else {}


def changed(text: str, place: Place, value: Any) -> str:
    """The text with this value at this place. Missing parents are created, and a list gets the item
    at its end. Raises `ValueError`, `RecursionError`."""
    loads(text)  # the rest relies on its being valid
    plain = _blanked(_STRING_OR_COMMENT, text)
    if not plain.strip():
        gap = "" if text.endswith("\n") or not text else "\n"
        text, plain = f"{text}{gap}{{\n}}\n", f"{plain}{gap}{{\n}}\n"
    start = _next(plain, 0).start()
    for number, key in enumerate(place):
        members = list(_members(plain, start))
        there = [each for each in members if each.key == key]
        if not there:
            for missing in reversed(place[number + 1 :]):
                value = {missing: value}
            return _added(text, plain, start, members, key, value)
        start = there[-1].start  # of two the last one counts
    before, after = text[:start], text[_end(plain, start) :]
    return before + _written(value, text, _line_indent(text, start)) + after


@dataclass(frozen=True)
class _Member:
    """An entry of a map or an item of a list."""

    key: str | int
    begin: int
    """Of its key, or of its value in a list."""
    start: int
    """Of its value."""
    end: int
    comma: int | None
    """Where the comma after it stands."""

    def after(self, text: str) -> int:
        """Where the next member may begin: after the comma and a comment on the same line."""
        end = self.end if self.comma is None else self.comma + 1
        found = _COMMENTS_TO_LINE_END.match(text, end)
        return found.end() if found else end


def _members(plain: str, start: int) -> Iterator[_Member]:
    """The members of a container; none if the value is not one."""
    token = _next(plain, start)
    if token[0] not in ("{", "["):
        return
    number, mapping, at = 0, token[0] == "{", token.end()
    while (token := _next(plain, at))[0] not in ("}", "]"):
        begin, key = token.start(), number
        if mapping:
            key = json.loads(token[0])
            token = _next(plain, _next(plain, token.end()).end())
        end = _end(plain, token.start())
        following = _next(plain, end)
        comma = following.start() if following[0] == "," else None
        yield _Member(key, begin, token.start(), end, comma)
        number, at = number + 1, end if comma is None else comma + 1


def _next(plain: str, at: int) -> re.Match[str]:
    found = _TOKEN.search(plain, at)
    assert found  # the text was read before
    return found


def _end(plain: str, start: int) -> int:
    """Where the value that begins at `start` ends."""
    depth = 0
    for token in _TOKEN.finditer(plain, start):
        depth += (token[0] in ("{", "[")) - (token[0] in ("}", "]"))
        if not depth:
            return token.end()
    raise AssertionError  # the text was read before


def _added(
    text: str, plain: str, start: int, members: list[_Member], key: str | int, value: Any
) -> str:
    """The text with another member in the container that begins at `start`."""
    opening, close = plain[start], _end(plain, start) - 1
    if (opening, type(key)) not in (("{", str), ("[", int)):
        raise ValueError(f"there is no map where `{key}` should go")
    name = f"{json.dumps(key, ensure_ascii=False)}: " if opening == "{" else ""
    outer = _line_indent(text, start)
    if not members:
        inner = outer + _unit(text)
        head = text[: start + 1] + text[start + 1 : close].rstrip()
        return f"{head}\n{inner}{name}{_written(value, text, inner)}\n{outer}{text[close:]}"
    last = members[-1]
    if "\n" not in text[start:close]:
        return f"{text[: last.end]}, {name}{_written(value, None, '')}{text[last.end :]}"
    inner = _line_indent(text, last.begin)
    new = f"\n{inner}{name}{_written(value, text, inner)}"
    where = last.after(text)
    if last.comma is None:
        return f"{text[: last.end]},{text[last.end : where]}{new}{text[where:]}"
    return f"{text[:where]}{new},{text[where:]}"


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


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """The text with the matched comments or commas replaced by spaces, so that places stay."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found[0] in '"{[' else re.sub(r"[^\n]", " ", found)

    return pattern.sub(blank, text)
