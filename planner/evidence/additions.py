"""Additions: functions and classes that a file does not have yet, and where they go.

A small model that is to write a part of a file again puts a new function into the middle of it, or
in its place. If it is shown what the file defines, and one of these as a whole, it writes what is
new by itself, and code puts it behind that one.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from rapidfuzz import fuzz

from planner.evidence.definitions import CLASS, defined_name, function_in, indentation
from planner.evidence.file_text import split_lines
from planner.evidence.passages import around, unit_of
from planner.evidence.ranking import ranked
from planner.evidence.rewriting import Change
from planner.evidence.words import tokens
from planner.passage import Passage

MAX_OUTLINE_CHARS = 1200
"""Characters of the lines that define something."""
MAX_EXAMPLE_CHARS = 900
"""Characters of a definition that is shown as a whole."""
ALIKE = 90
"""Of 100: how similar what stands before two names has to be, as in `func (s *Shop) All`."""


class Place(NamedTuple):
    """What the model is shown of a file: the lines beside which something is added, and the
    definition that it goes behind."""

    outline: str
    example: Passage


def new_names(text: str, written: str, asked: set[str]) -> set[str]:
    """The functions and classes that what was written defines, and the file does not, of names that
    are asked for."""
    there, new = ({*map(_defined, split_lines(each))} for each in (text, written))
    return {name for name in new - there if name in asked}


def place(path: str, text: str, query: str, written: str, names: set[str]) -> Place | None:
    """Where a definition that was written in the wrong place belongs: behind the one that fits the
    query best, of those that begin like the new one, and stand in what the query names. None
    where the file defines nothing that could be shown."""
    asked = {each.casefold() for each in tokens(query)}
    new = max(_new(written, names), key=lambda each: each.last - each.first).line
    found = dict(_units(path, split_lines(text)))
    order = [*dict.fromkeys([*ranked([*found], query), *reversed(found)])]

    def unlike(each: Passage) -> bool:
        return fuzz.ratio(_beginning(found[each]), _beginning(new)) < ALIKE

    def outside(each: Passage) -> bool:
        within = {str(defined_name(line)).casefold() for line in each.heading.splitlines()}
        return not within & asked

    def otherwise_deep(each: Passage) -> bool:
        return indentation(found[each]) != indentation(new)

    shown = [
        each
        for each in order
        if function_in(found[each])
        and each.last > each.first
        and len(each.text) <= MAX_EXAMPLE_CHARS
    ]
    if not shown:
        return None
    example = min(shown, key=lambda each: (unlike(each), outside(each), otherwise_deep(each)))
    beside = sorted((each for each in order if each.heading == example.heading), key=unlike)
    return Place("\n".join(_outline(example, beside, found)), example)


def placed(
    text: str, where: Place, written: str, names: set[str]
) -> tuple[list[Change], list[str]]:
    """What is new in what was written, behind the definition that was shown, and the lines beside
    it that the file does not have; empty where it defines none of these names."""
    lines, new = split_lines(text), split_lines(written)
    defining = _new(written, names)
    if not defining:
        return [], []
    begin, end = defining[0].first, defining[-1].last + 1
    block, beside = new[begin:end], [*new[:begin], *new[end:]]
    first, last = where.example.first - 1, where.example.last
    deep = lines[first][: indentation(lines[first])]
    least = min(indentation(line) for line in block if line.strip())
    indented = [f"{deep}{line[least:]}" if line.strip() else "" for line in block]
    above = takewhile(lambda line: not line.strip(), reversed(lines[:first]))
    known = {line.strip() for line in lines}
    other = [line for line in beside if re.search(r"\w", line) and line.strip() not in known]
    return [Change(last, last, [*([*above] or [""]), *indented])], other


def beside(text: str, made: Sequence[Change], names: Collection[str]) -> list[Change]:
    """Changes that put what they bring behind the lines that define one of these names, where they
    would replace it."""
    lines = split_lines(text)
    return [
        Change(each.last, each.last, each.new)
        if {*map(defined_name, lines[each.first : each.last])} & {*names}
        else each
        for each in made
    ]


def _defined(line: str) -> str | None:
    return defined_name(line) if function_in(line) or CLASS.match(line) else None


class _New(NamedTuple):
    """The lines, from 0, of a definition that was written, and the one that has its name."""

    first: int
    last: int
    line: str


def _new(written: str, names: set[str]) -> list[_New]:
    lines = split_lines(written)
    return [
        _New(*unit_of(lines, number), line)
        for number, line in enumerate(lines)
        if _defined(line) in names
    ]


def _units(path: str, lines: list[str]) -> Iterator[tuple[Passage, str]]:
    """The functions and classes that stand in no function, and the lines that define them."""
    for number, line in enumerate(lines):
        if _defined(line) and not any(map(function_in, heads := around(lines, number))):
            first, last = unit_of(lines, number)
            text = "\n".join(lines[first : last + 1])
            heading = "\n".join(heads)
            whole = Passage(source=path, first=first + 1, last=last + 1, text=text, heading=heading)
            yield whole, line


def _beginning(line: str) -> str:
    """What stands before the name that a line defines."""
    return line.partition(defined_name(line) or line)[0].strip()


def _outline(
    example: Passage, beside: list[Passage], found: Mapping[Passage, str]
) -> Iterator[str]:
    """The lines that define what stands beside the example, as far as there is room, with what they
    stand within."""
    room, shown = MAX_OUTLINE_CHARS, list[Passage]()
    for each in beside:
        room -= len(found[each])
        if room < 0:
            break
        shown.append(each)
    yield from example.heading.splitlines()
    yield from (found[each] for each in sorted(shown, key=lambda each: each.first))
