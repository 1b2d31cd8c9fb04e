"""Lists of names that code puts together of many passages: those in a file or in an enum that a
request names, and those of definitions that are named alike."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from planner.evidence.definitions import CLASS, defined, defined_name, is_local, outermost
from planner.evidence.listing import without_paths
from planner.evidence.ranking import in_words, weight
from planner.evidence.selection import as_fit, names_inside, size
from planner.evidence.words import SHORT, is_name, long_words, parts_of, tokens, words
from planner.passage import Passage

MIN_ALIKE = 3
MAX_ALIKE = 40
"""Definitions that are named alike; more of them have little in common."""
MAX_SHORT = 1500
"""Characters of a file that is shown as a whole."""
MAX_OVERVIEW = 1000
"""Characters of the names in a file, each with those within it."""
MAX_SAID = 2
"""Enums of which the names are told."""
_ENUM = re.compile(r"\benum\b", re.IGNORECASE)
LISTED_SHARE = 0.75
"""The share of names that an answer has which lists them."""
MAX_BESIDE = 12
"""Words of an answer that only lists, beside the names: "There are several, including"."""
_NAMES = re.compile(r"\w+(?:, \w+)+")


def listed(
    passages: Sequence[Passage], question: str, named: Sequence[str], tool: str
) -> tuple[list[Passage], list[Passage]]:
    """The names in the files that a question names (`named`: their paths), or else those that it
    may ask for all of. `tool`: what found the passages. Returns those that come before any other
    passage, and those of a group that shares a single word, which may be about something else."""
    certain = [each for path in named for each in of_file_named(passages, path, question, tool)]
    certain = certain or members_said(passages, question, tool)
    if certain:
        return certain, []
    question = without_paths(question, named)
    group = named_alike(passages, question)
    if group is None:
        return [], []
    shared = [each for each in tokens(question) if group.shared & {each, *words(each)}]
    alike = [_listed(f"{tool} {' '.join(shared)}", ", ".join(group.names))]
    return (alike, []) if len({*words(" ".join(shared))}) > 1 else ([], alike)


def of_file_named(
    passages: Sequence[Passage], path: str, question: str, tool: str
) -> list[Passage]:
    """A passage with the names that a file defines, and those within them; none for a short file,
    or one that defines nothing."""
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
    return [_listed(f"{tool} {path}", text)] if text else []


def members_said(passages: Sequence[Passage], question: str, tool: str) -> list[Passage]:
    """For each enum that the question names in words, such as `enum Colour` for "which colours are
    there?", a passage with the names in it."""
    asked, spoken = {*words(question)}, in_words(question)
    found: list[Passage] = []
    for passage in passages:
        line = next(filter(_ENUM.search, outermost(passage)), "")
        name = defined_name(line) if weight(passage.source, asked) == 1 else None
        if name and spoken(name) and not is_local(passage, line):
            names = [each for each, called in names_inside(passages, passage) if not called]
            if len(names) >= MIN_ALIKE:
                found.append(_listed(f"{tool} {name}", as_fit(names, asked)))
    return found[:MAX_SAID]


def named_alike(passages: Sequence[Passage], question: str) -> "Group | None":
    """The classes, or else the other definitions, that share the most words of the question, such
    as `class Gone(HttpError)` for "all HTTP errors", or are made of what it names; with the classes
    that are made of these. None where only a few share any, or many."""
    names = {*filter(is_name, tokens(question))}
    plain = {*tokens(question)} - names
    asked = names.union(*(long_words(each, SHORT) for each in plain))
    return max(_Definitions(passages, asked).groups(), key=Group.rank, default=None)


class Group(NamedTuple):
    """Definitions that are named alike."""

    names: list[str]
    classes: bool
    shared: frozenset[str]
    """What they have in common with what is asked for."""

    def rank(self) -> tuple[int, bool, int, list[str], list[str]]:
        return len(self.shared), self.classes, len(self.names), self.names, sorted(self.shared)


class _Definitions:
    """What passages define outside of functions."""

    def __init__(self, passages: Sequence[Passage], asked: set[str]) -> None:
        self.said: dict[tuple[bool, str], set[str]] = defaultdict(set)
        """Whether it is a class, its name, and what it has of what is asked for."""
        self.made_of: dict[str, set[str]] = defaultdict(set)
        """What stands behind the name of each class."""
        for passage in passages:
            if weight(passage.source, asked) == 1:
                file = _words_of_file(passage.source)
                shared = file if file <= asked and not passage.heading else set[str]()
                for line in outermost(passage):
                    name = defined_name(line)
                    if name and not is_local(passage, line):
                        self._add(name, line, asked, shared)

    def _add(self, name: str, line: str, asked: set[str], shared: set[str]) -> None:
        """`shared`: what the name of its file has of what is asked for."""
        is_class = CLASS.match(line) is not None
        self.said[is_class, name] |= shared | (asked & {*parts_of(name)})
        if is_class:
            behind = line.partition(name)[2]
            self.made_of[name] |= {*tokens(behind)}
            self.said[is_class, name] |= asked & {*words(behind), *tokens(behind)}

    def groups(self) -> Iterator[Group]:
        for classes, shared in {(kind, frozenset(own)) for (kind, _), own in self.said.items()}:
            of_kind = ((name, own) for (kind, name), own in self.said.items() if kind == classes)
            names = {name for name, own in of_kind if shared <= own}
            if classes:
                names = self._with_subclasses(names)
            if shared and MIN_ALIKE <= len(names) <= MAX_ALIKE:
                yield Group(sorted(names), classes, shared)

    def _with_subclasses(self, names: set[str]) -> set[str]:
        while more := {each for each, bases in self.made_of.items() if bases & names} - names:
            names = names | more
        return names


def _words_of_file(path: str) -> set[str]:
    stem = path.rpartition("/")[2].partition(".")[0]
    return {part for token in tokens(stem) for part in parts_of(token)}


def _listed(source: str, text: str) -> Passage:
    return Passage.made(source, text, f"{len(tokens(text))} names")


def with_names(lines: list[list[str]], passages: Sequence[Passage]) -> list[list[str]]:
    """The lines of an answer, each as its sentences, with the names that a passage lists behind the
    sentence that only says how many there are."""
    said = {*tokens("\n".join(each for line in lines for each in line))}
    for passage in passages:
        names = _names(passage)
        if names and not names & said and str(len(names)) in said:
            return [[_with_names(each, passage) for each in line] for line in lines]
    return lines


def _with_names(sentence: str, passage: Passage) -> str:
    counted = str(len(_names(passage))) in tokens(sentence)
    return re.sub(r"\W*\Z", f": {passage.text}.", sentence, count=1) if counted else sentence


def lists_all(answer: str, question: str, passage: Passage) -> bool:
    """Whether an answer has what a passage lists, and says little else. A few that it leaves out
    may be something else."""
    names, said = _names(passage), {*tokens(answer)}
    beside = {*words(" ".join(said - names))} - {*words(question)}
    return 0 < LISTED_SHARE * len(names) <= len(names & said) and len(beside) <= MAX_BESIDE


def _names(passage: Passage) -> set[str]:
    """What a passage lists, which is nothing but names."""
    return {*tokens(passage.text)} if _NAMES.fullmatch(passage.text) else set()
