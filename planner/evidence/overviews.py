"""Passages that code puts together of many: the names of a file that a request names, and those of
definitions that are named alike."""

import re
from collections import defaultdict
from collections.abc import Sequence

from planner.evidence.definitions import KINDS, defined, defined_name, indentation, is_local
from planner.evidence.ranking import weight
from planner.evidence.selection import as_fit, names_inside, size
from planner.evidence.words import is_name, parts_of, tokens, words
from planner.passage import Passage

MIN_ALIKE = 3
MAX_ALIKE = 40
"""Definitions that are named alike; more of them have little in common."""
MAX_SHORT = 1500
"""Characters of a file that is shown as a whole."""
MAX_OVERVIEW = 1000
"""Characters of the names in a file, each with those within it."""
LISTED_SHARE = 0.8
"""The share of names that an answer has which lists them."""
_NAMES = re.compile(r"\w+(?:, \w+)+")
_CLASS = re.compile(rf"\s*(?:\w+ )*?{KINDS}")


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
    """A passage with the names of the classes, or else of other definitions, that share the most
    words of the question, such as `class Gone(HttpError)` for "all HTTP errors", or are made of
    what it names; with the classes that are made of these. None where only a few share any, or
    many. `tool`: what found them."""
    names = {*filter(is_name, tokens(question))}
    asked = {*names, *(word for each in {*tokens(question)} - names for word in words(each))}
    said: dict[tuple[bool, str], set[str]] = defaultdict(set)
    made_of: dict[str, set[str]] = defaultdict(set)
    for passage in passages:
        if weight(passage.source, asked) == 1:
            for line in _outermost(passage):
                name, is_class = defined_name(line), _CLASS.match(line) is not None
                if name and not is_local(passage, line):
                    said[is_class, name] |= asked & {*parts_of(name)}
                    if is_class:
                        behind = line[line.index(name) + len(name) :]
                        made_of[name] |= {*tokens(behind)}
                        said[is_class, name] |= asked & {*words(behind), *tokens(behind)}
    groups: list[tuple[frozenset[str], bool, list[str]]] = []
    for are_classes, key in {(is_class, frozenset(own)) for (is_class, _), own in said.items()}:
        alike = {name for (kind, name), own in said.items() if kind == are_classes and key <= own}
        while are_classes and (more := {each for each in made_of if made_of[each] & alike} - alike):
            alike |= more
        if key and MIN_ALIKE <= len(alike) <= MAX_ALIKE:
            groups.append((key, are_classes, sorted(alike)))
    if not groups:
        return []
    key, _, best = max(groups, key=lambda each: (len(each[0]), each[1], len(each[2]), each[2]))
    shared = " ".join(token for token in tokens(question) if key & {token, *words(token)})
    source, about = f"{tool} {shared}", f"{len(best)} definitions for {shared}"
    return [Passage(source=source, first=1, last=1, text=", ".join(best), relation=about)]


def lists_all(answer: str, passage: Passage) -> bool:
    """Whether an answer has what a passage lists, which is nothing but names. A few that it leaves
    out may be something else."""
    names = {*tokens(passage.text)} if _NAMES.fullmatch(passage.text) else set()
    return 0 < LISTED_SHARE * len(names) <= len(names & {*tokens(answer)})


def _outermost(passage: Passage) -> list[str]:
    lines = [line for line in passage.text.splitlines() if line.strip()]
    depth = min(map(indentation, lines), default=0)
    return [line for line in lines if indentation(line) == depth]
