"""What calls returned for each of the things they were given, as one table: a row for each thing, a
column for each call. A small model cannot join what several results say of the same ten things."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.evidence.queries import Row
from planner.evidence.records import MIN_ROWS, value_of
from planner.evidence.tables import Table, of_records
from planner.evidence.words import says, words
from planner.state import Iteration
from planner.text import flat

NAME = "name"
MAX_DETAIL_CHARS = 160
"""Characters of a value that is added to an answer."""
MAX_WHOLE = 3
"""Things of which all is shown."""
_COLON = r":(?: +|$)"
_FIELD = re.compile(rf"^([^\W\d][\w ]{{0,39}}){_COLON}", re.MULTILINE)
"""The name that a line of a text begins with."""


def answers(calls: Sequence[Iteration]) -> Table | None:
    """What calls that were given three things or more returned for each of them: the table of most
    tools on the same things, or the newest of several. None if there is none."""
    told = [
        (each.tool, argument, found)
        for each in calls
        if each.succeeded
        for argument, found in _of_each(each)
    ]
    groups = [
        (argument, {tool: found for tool, _, found in told if found.keys() & of_it.keys()})
        for _, argument, of_it in reversed(told)
    ]
    argument, of_same = max(groups, key=lambda group: len(group[1]), default=("", {}))
    columns = _columns([*of_same], argument)
    things = dict.fromkeys(thing for found in of_same.values() for thing in found)
    read = {tool: _with_fields(found) for tool, found in of_same.items()}
    rows = [
        {NAME: thing} | {columns[tool]: found.get(thing) for tool, found in read.items()}
        for thing in things
    ]
    return of_records(argument, rows)


def whole(rows: Sequence[Row], table: Table) -> Sequence[Row]:
    """All that a table says of the things in these rows; the rows as they are where they are many,
    or are no things."""
    names = [each.name for each in table.columns]
    told = {row[0]: dict(zip(names, row, strict=True)) for row in table.rows}
    found = [told[thing] for row in rows if (thing := row.get(NAME)) in told]
    return found if len(found) == len(rows) <= MAX_WHOLE else rows


def details(found: Row, answer: str, request: str) -> list[str]:
    """What a row says of the thing that an answer names, as lines: short values that the answer
    lacks, under names that share a word with the request."""
    if not says(answer, str(found.get(NAME) or "")):
        return []
    asked = {*words(request)}
    told = {name: flat(str(value)) for name, value in found.items() if value is not None}
    return [
        f"{name.replace('_', ' ')}: {value}"
        for name, value in told.items()
        if asked & {*words(name)} and len(value) <= MAX_DETAIL_CHARS and not says(answer, value)
    ]


def _of_each(call: Iteration) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The argument that lists things, with what the call returned for each."""
    for argument, given in call.arguments.items():
        things = {each for each in given if isinstance(each, str)} if type(given) is list else set()
        found = value_of(call.result) if len(things) >= MIN_ROWS else None
        if isinstance(found, dict) and len(found) >= MIN_ROWS and found.keys() <= things:
            yield argument, found


def _columns(tools: Sequence[str], argument: str) -> dict[str, str]:
    """The columns' names, from those of the tools: without the argument's words, and without those
    that most of several tools have."""
    parts = {tool: re.split(r"[_-]+", tool) for tool in tools}
    count = Counter(part for each in parts.values() for part in {*each})
    known = {part for part in count if kind(part) <= kind(argument)}
    if len(tools) > 1:
        known |= {part for part, having in count.items() if having > len(tools) / 2}
    own = {tool: "_".join(part for part in parts[tool] if part not in known) for tool in tools}
    return {tool: name or tool for tool, name in own.items()}


def kind(argument: str) -> frozenset[str]:
    """The words of an argument's name: `hotel_names` and `hotel_name` are of one kind."""
    return frozenset(word for part in argument.split("_") for word in words(part))


def _with_fields(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was found for each thing; if all of it are texts with lines such as `Rating: 4.5`, it is
    divided by these names."""
    said = [{*_FIELD.findall(text)} if isinstance(text, str) else set() for text in found.values()]
    names = set.intersection(*said)
    if not names:
        return found
    named = re.compile(rf"^({'|'.join(map(re.escape, names))}){_COLON}", re.MULTILINE)
    parts = {thing: [*map(str.strip, named.split(text)[1:])] for thing, text in found.items()}
    return {thing: dict(zip(each[::2], each[1::2], strict=True)) for thing, each in parts.items()}
