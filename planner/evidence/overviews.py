"""Passages that code puts together of many: the names of a file that a request names, and those of
definitions that are named alike."""

import re
from collections.abc import Sequence

from planner.evidence.definitions import KINDS, defined, defined_name, indentation, is_local
from planner.evidence.ranking import weight
from planner.evidence.selection import as_fit, names_inside, size
from planner.evidence.words import parts_of, tokens, words
from planner.passage import Passage

MIN_ALIKE = 3
MAX_ALIKE = 40
"""Definitions that are named alike; more of them have little in common."""
MAX_SHORT = 1500
"""Characters of a file that is shown as a whole."""
MAX_OVERVIEW = 1000
"""Characters of the names in a file, each with those within it."""
_OF_A_KIND = re.compile(rf"\s*(?:\w+ )*?{KINDS}")


def of_file_named(passages: Sequence[Passage], path: str, question: str) -> list[Passage]:
    """A passage with the names that a file defines, and those within them; none for a short file,
    or one that defines next to nothing."""
    asked = {*words(question)}
    own = [each for each in passages if each.source == path]
    if size(own) <= MAX_SHORT:
        return []
    told: list[str] = []
    for unit in (each for each in own if not each.heading):
        names = [*defined(unit)]
        inside = as_fit([name for name, _ in names_inside(own, unit)], asked) if names else ""
        told += [f"{names[0]}: {inside}", *names[1:]] if inside else names
    text = "\n".join(told)
    if len(text) > MAX_OVERVIEW:
        text = as_fit(told, asked)
    about = f"the names in {path}"
    return [Passage(source=path, first=1, last=1, text=text, relation=about)] if text else []


def named_alike(passages: Sequence[Passage], question: str, tool: str) -> list[Passage]:
    """A passage with the names of the definitions that share the most words of the question, or
    whose classes are made of something that does: `class Gone(HttpError)` for "all HTTP errors".
    None where only a few share any, or many. `tool`: what found the passages."""
    asked = {*words(question)}
    said: dict[str, set[str]] = {}
    for passage in passages:
        if weight(passage.source, asked) == 1:
            for line in _outermost(passage):
                name = defined_name(line)
                if name and not is_local(passage, line):
                    own = words(line[line.index(name) :]) if _OF_A_KIND.match(line) else ()
                    said.setdefault(name, asked & {*own, *parts_of(name)})
    groups = [
        (key, sorted(name for name, own in said.items() if key <= own))
        for key in {frozenset(own) for own in said.values() if own}
    ]
    groups = [group for group in groups if MIN_ALIKE <= len(group[1]) <= MAX_ALIKE]
    if not groups:
        return []
    key, names = max(groups, key=lambda group: (len(group[0]), len(group[1]), group[1]))
    shared = " ".join(token for token in tokens(question) if key & {*words(token)})
    told = f"{len(names)} definitions named alike"
    source, text = f"{tool} {shared}", ", ".join(names)
    return [Passage(source=source, first=1, last=1, text=text, relation=told)]


def _outermost(passage: Passage) -> list[str]:
    lines = [line for line in passage.text.splitlines() if line.strip()]
    depth = min(map(indentation, lines), default=0)
    return [line for line in lines if indentation(line) == depth]
