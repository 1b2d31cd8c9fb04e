"""What a person would search first: the request's names, and what their definitions mention.

It costs no model call. A small model answers well from the right dozen lines and badly finds them;
so code follows the names through the project's text search and files. `findings` says in words what
code sees in the lines, `telling` picks those that a model is shown.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from planner.lines import BODY_LINES, Line, Lines, in_tests
from planner.reading import WORLD_WORDS, Intent, Reading
from planner.state import RunState
from planner.tools import Outcome

MOST_SEARCHES = 12
"""Of one look-up."""
MOST_HOPS = 2
"""Times that the names in what was found are followed."""
MOST_FOLLOWED = 10
"""Names in one hop."""
MOST_FILES = 3
"""Read whole, for one purpose."""
NEAR = 20
"""Lines between a word for people, dates or events and what it may be said of."""
PASSAGE = 5
"""Lines before and after a line that are about the same thing."""
PROSE = (".md", ".rst", ".txt")
WELL_SPOKEN = 0.6
"""Of the request's words; a passage with so many of them is probably what is asked for."""

_OUTLINE = r'^(?:class|def|async def|export|func|function|fn|pub) |^(?:"""|#+ )'
_CALLED = re.compile(r"\b([A-Za-z_]\w{3,})\(")
_IDENTIFIER = re.compile(r"\b(?:[a-z]+_\w+|[A-Z][a-z]+[A-Z]\w+)\b")
_PATH = re.compile(r"[\w.@+-]*(?:/[\w.@+-]+)*\.?[\w-]+")


class Search(NamedTuple):
    """The next thing to look up."""

    what: str
    kind: Literal["text", "name", "file"] = "text"
    """A regular expression in all files, the name of a file to find, or a file to read whole."""
    wanted: str = ""
    """What for, in words."""
    purpose: Literal["names", "words", "world", "outline", "hop", ""] = ""


@dataclass
class Lookup:
    """The look-up of one request: `next()`, then `add()` its result, until None."""

    request: str
    listing: str = ""
    """The project's top level, to tell the paths of files that the request names."""
    suggested: tuple[str, ...] = ()
    """A model's words for what the request describes."""
    lines: Lines = field(default_factory=Lines)
    paths: list[str] = field(default_factory=list)
    """Found by name."""
    missing: set[str] = field(default_factory=set)
    """Paths that the request names and nothing was read from: it may see another folder as the
    project's, and name them from there."""
    done: list[Search] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    """Names that were searched for."""
    world: list[Line] = field(default_factory=list)
    """The lines that hold one of the request's words for people, dates and events."""

    def __post_init__(self) -> None:
        self.reading = Reading(self.request)
        self._first = self.reading

    @property
    def names(self) -> list[str]:
        return self.reading.names

    # What to look up.

    def next(self) -> Search | None:
        """The next search; None when there is nothing more to look up."""
        if len(self.done) >= MOST_SEARCHES:
            return None
        return next((search for search in self._due() if search not in self.done), None)

    def _due(self) -> Iterable[Search]:
        if first := self._first.names:
            wanted = ", ".join(first)
            yield Search(_whole(first), wanted=wanted, purpose="names")
            if not self.lines:  # perhaps it is spelt otherwise
                yield Search(f"(?i){'|'.join(map(_loose, first))}", wanted=wanted, purpose="names")
        reading = self.reading
        if reading.stems and not self.names and not reading.files:
            wanted = ", ".join(reading.keywords.values())
            yield Search(f"(?i){_either(reading.stems)}", wanted=wanted, purpose="words")
        if reading.world:
            pattern = rf"(?i)(?:^|[^a-z])({_either(reading.world)})(?:[^a-z]|$)"
            yield Search(pattern, wanted=", ".join(reading.world), purpose="world")
        if self.suggested:
            wanted = ", ".join(self.suggested)
            yield Search(f"(?i){_either(self.suggested)}", wanted=wanted, purpose="words")
        if reading.asks_for_file:
            yield Search(_OUTLINE, wanted="what each file is for", purpose="outline")
        for name in reading.files:
            if not self._paths_of(name):
                yield Search(name.rsplit("/", 1)[-1], "name", wanted=name)
        for path in [*self.files_named, *self._files_wanted()]:
            yield Search(path, "file", wanted=path)
        decisive = (Intent.USES, Intent.PLACE, Intent.HEIRS)
        if self.names and (reading.compound or reading.intent not in decisive):
            mentioned = self._mentioned()[:MOST_FOLLOWED]
            if mentioned and sum(search.purpose == "hop" for search in self.done) < MOST_HOPS:
                either = _either(mentioned)
                defined = rf"\b(?:def|class|function|func|fn)\s+({either})\b"
                given = rf"\b({either})\s*(:[^=]+)?= "
                yield Search(f"{defined}|{given}", wanted=", ".join(mentioned), purpose="hop")

    @property
    def files_named(self) -> list[str]:
        """The paths of the files that the request names, as far as they are known."""
        found = [path for name in self.reading.files for path in self._paths_of(name)[:1]]
        return list(dict.fromkeys(found))[:MOST_FILES]

    def _paths_of(self, name: str) -> list[str]:
        found = dict.fromkeys(line.path for line in self.all)
        known = [*_PATH.findall(self.listing), *self.paths, *found]
        files = {path: path.rsplit("/", 1)[-1] for path in known if path not in self.missing}
        likely = [path for path in files if path == name or path.endswith("/" + name)]
        likely = likely or [path for path, file in files.items() if file.startswith(name + ".")]
        if name in self.missing:
            likely = [path for path, file in files.items() if file == name.rsplit("/", 1)[-1]]
        elif "/" in name:
            likely = likely or [name]
        return sorted(likely, key=len)

    def _files_wanted(self) -> list[str]:
        """The files that have to be known whole: those of what is counted, of the definitions
        asked for, and of uses whose function no line shows."""
        if self.reading.intent is Intent.USES and not self.reading.compound:
            lines = [line for line in self.uses if line.indent and self.lines.scope(line) is None]
        elif self.reading.intent is Intent.HEIRS or (
            self.reading.intent is Intent.PLACE and len(self.names) < 2
        ):
            lines = []
        else:
            lines = self.heads
        return list(dict.fromkeys(line.path for line in lines))[:MOST_FILES]

    def add(self, search: Search, result: str) -> None:
        """Take in the result of a search that `next` gave."""
        self.done.append(search)
        for derived in ("all", "heads", "uses", "best_passage"):  # they follow from the lines
            self.__dict__.pop(derived, None)
        if search.kind == "file":
            if not result:
                self.missing.add(search.what)
            self.lines.add_file(search.what, result)
            return
        if search.kind == "name":
            ends = re.compile(rf"[\w./@+-]*{re.escape(search.what)}(?![\w-])")
            self.paths += [path.strip("./") for path in ends.findall(result)]
            return
        found = self.lines.add(result)
        if search.purpose == "world":
            holds = re.compile(search.what)
            self.world = [line for line in found if holds.search(line.text) and self._near(line)]
            return
        if search.purpose == "names":
            texts = [line.text for line in found if not line.path.endswith(PROSE)]
            quoted = {
                name
                for name in self._first.names
                if " " in name and _in_any(re.escape(name), texts)
            }
            self.reading = replace(self._first, defined=frozenset(self.lines.heads) | quoted)
        self.asked |= set(search.wanted.split(", "))

    def _near(self, line: Line) -> bool:
        """Whether a line that holds something else of the request stands near this one."""
        wanted = self.names or [stem for stem in self.reading.stems if not _is_world(stem)]
        text = "\n".join(each.text for each in self.lines.around(line, NEAR)).lower()
        return not wanted or any(each.lower() in text for each in wanted)

    def _mentioned(self) -> list[str]:
        """Names in the definitions of those asked for, whose own definitions are not known."""
        found: dict[str, None] = {}
        heads = self.lines.definitions(sorted(self.asked))
        heads.sort(key=lambda head: head.defines not in self.names)
        bodies = [[head, *self.lines.body(head, 4 * BODY_LINES)] for head in heads[:6]]
        for line in [line for body in bodies for line in body]:
            for name in [*line.constants, *line.bases, *_CALLED.findall(line.text)]:
                found.setdefault(name)
        if not self.heads:  # they are texts in the code, told by what stands beside them
            for line in self.uses:
                found |= dict.fromkeys(_IDENTIFIER.findall(line.text))
        known = self.asked | self.lines.heads.keys()
        return [name for name in found if name not in known]

    # What was found.

    @cached_property
    def all(self) -> list[Line]:
        return list(self.lines.by_place.values())

    @cached_property
    def heads(self) -> list[Line]:
        """The definitions of the names; of a class and its member, that of the member. Without
        names, those of a class that the request describes by the words of its name."""
        if not self.names:
            spoken = [name for name in self.lines.heads if self._describes(name)]
            return [head for head in self.lines.definitions(spoken) if head.is_class]
        heads = self.lines.definitions(self.names)
        owners = {head.defines for head in heads if head.is_class}
        owned = [head for head in heads if _owner(self.lines.scope(head)) in owners]
        return owned or heads

    def _describes(self, name: str) -> bool:
        words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
        spoken = {word.lower() for word in self.reading.words}
        return len(words) > 1 and all({word, f"{word}s", f"{word}es"} & spoken for word in words)

    @cached_property
    def uses(self) -> list[Line]:
        """The lines that use the names: those in tests if they are asked for, else the others."""
        names = [name for name in self.names if not self._is_owner(name)]
        uses = self.lines.uses(names)
        of_tests = "test" in self.request.lower()
        return [line for line in uses if in_tests(line) is of_tests] or uses

    def _is_owner(self, name: str) -> bool:
        """Whether the request names a class only to say whose member it means."""
        members = re.findall(rf"\b{re.escape(name)}\.(\w+)", self.request)
        return any(member in self.names for member in members)

    @cached_property
    def best_passage(self) -> float:
        """The share of the request's words that stand together in some passage."""
        stems = self.reading.stems
        if not stems:
            return 0.0
        shares = [0.0]
        for line in self.all:
            if any(speaks(line.text, stem) for stem in stems):
                around = [line.path, *(each.text for each in self.lines.around(line, PASSAGE))]
                text = "\n".join(around)
                shares.append(sum(speaks(text, stem) for stem in stems) / len(stems))
        return max(shares)

    @property
    def vague(self) -> bool:
        """Whether the request describes something in words that do not stand together anywhere."""
        described = self.done and self.reading.stems and not self.names and not self.reading.files
        return bool(described) and self.best_passage < WELL_SPOKEN

    @property
    def unmentioned(self) -> list[str]:
        """What of the request no line mentions: its names, or else its telling words. Nothing where
        nothing was looked up."""
        if not self.done:
            return []
        if certain := [name for name in self.names if name in self.reading.certain]:
            return [name for name in certain if not _in_any(_loose(name), self._texts())]
        texts = self._texts()
        keywords = self.reading.keywords.items()
        return [word for stem, word in keywords if not any(speaks(text, stem) for text in texts)]

    def _texts(self) -> list[str]:
        return [f"{line.path} {line.text}" for line in self.all]

    @property
    def absent(self) -> bool:
        """Whether the request asks if something is there, or where, and no line mentions it."""
        asks = self.reading.whether or self.reading.intent is Intent.PLACE
        if not asks or not self.done or self.reading.files:
            return False
        wanted = [name for name in self.names if name in self.reading.certain]
        return bool(self.unmentioned) and len(self.unmentioned) == len(
            wanted or self.reading.keywords
        )

    @property
    def beyond(self) -> bool:
        """Whether the request is about people, dates or events that no line mentions."""
        searched = any(search.purpose == "world" for search in self.done)
        return bool(self.reading.world) and searched and not self.world


def _either(names: Iterable[str]) -> str:
    return "|".join(re.escape(name) for name in names)


def _whole(names: Iterable[str]) -> str:
    """A pattern for any of the names as a whole word. It has no look-around: few engines do."""
    return "|".join(
        ("\\b" if re.match(r"\w", name) else "")
        + re.escape(name)
        + ("\\b" if re.search(r"\w$", name) else "")
        for name in names
    )


def _loose(name: str) -> str:
    """A pattern for the name with any separator, or none, between its words."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)
    return "[ _.-]?".join(parts) or re.escape(name)


def _in_any(pattern: str, texts: Iterable[str]) -> bool:
    loose = re.compile(pattern, re.IGNORECASE)
    return any(loose.search(text) for text in texts)


def _owner(scope: str | None) -> str | None:
    return scope.split(".", 1)[0] if scope else None


def _is_world(stem: str) -> bool:
    return any(word.startswith(stem) for word in WORLD_WORDS)


def speaks(text: str, stem: str) -> bool:
    """Whether a word of the text begins with the stem."""
    return re.search(rf"(?<![a-z]){re.escape(stem)}", text.lower()) is not None


@lru_cache(maxsize=4)
def followed(
    request: str, listing: str, suggested: tuple[str, ...], calls: tuple[tuple[str, str], ...]
) -> Lookup:
    """The look-up after these calls, each the pattern or path asked for and its result. What it
    wanted in between and no tool could do, it goes on without."""
    lookup = Lookup(request, listing, suggested)
    for asked, result in calls:
        while (search := lookup.next()) and search.what != asked:
            lookup.add(search, "")
        if search:
            lookup.add(search, result)
    return lookup


def looked_up(state: RunState, part: int = -1, *, anew: bool = False) -> Lookup:
    """The look-up that a part of the run began with, by default the newest; not to be changed,
    unless it is made `anew`."""
    if not state.parts:
        return Lookup("")
    part %= len(state.parts)
    calls = tuple(
        (str(asked), each.result if each.outcome is Outcome.SUCCESS else "")
        for each in state.lookups_of(part)
        if each.outcome is not None
        for asked in list(each.arguments.values())[:1]
    )
    request, suggested = state.parts[part].request.prompt, tuple(state.parts[part].suggested)
    listing = (state.started.listing if state.started else None) or ""
    make = followed.__wrapped__ if anew else followed
    return make(request, listing, suggested, calls)
