"""What a person would search first: the request's names, and what their definitions mention.

It costs no model call. A small model answers well from the right dozen lines and badly finds them,
and it does not count, nor put two lines together. So code follows the names through the project's
text search and files, says in words what it sees (`Finding`), and shows the telling lines:
definitions before uses, each use with the function it stands in, each constant with its value.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from planner.lines import BODY_LINES, Line, Lines, in_tests
from planner.reading import WORLD_WORDS, Intent, Reading
from planner.state import RunState
from planner.tools import Outcome

MOST_SEARCHES = 10
"""Of one look-up."""
MOST_HOPS = 2
MOST_FOLLOWED = 10
"""Names in one hop."""
MOST_FILES = 3
"""Read whole, for one purpose."""
MOST_FINDINGS = 8
LEAST_SHARE = 0.3
"""Of the best line's score; what tells less is left out."""
LEAST_SHARE_OF_WORDS = 0.5
"""The same, where only plain words are looked up."""
WINDOW = 3
"""Lines before and after a line that count as one passage with it."""
SHARE_OF_PASSAGE, SHARE_OF_FILE = 0.6, 0.4
"""Of what the words of a line's passage, and of its file, count for the line."""
NEAR = 20
"""Lines between a word for people, dates or events and what it may be said of."""
WHOLE_FILE_LINES = 60
"""A file that the request names is shown whole up to so many."""

_LEFT_OUT = r"(?:without|exclud\w+|except|besides|not counting|not including|other than|apart from)"
_ONLY_PUBLIC = re.compile(rf"\bpublic\b|\b{_LEFT_OUT}\b.*\b(?:private|underscore)", re.IGNORECASE)
_NOT_SPECIAL = re.compile(rf"\b{_LEFT_OUT}\b.*(?:__|\b(?:special|dunder|magic)\b)", re.IGNORECASE)
_ASKS_FILE = re.compile(r"\b(?:file|module)\b", re.IGNORECASE)
_ASKS_FUNCTION = re.compile(r"\b(?:function|method|class|who|caller)\b", re.IGNORECASE)
_SECTION = re.compile(r"\s*\[+[^\]]+\]+\s*$|#+ ")
_YAML_SECTION = re.compile(r"[\w\"'-]+\s*:")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
_CALLED = re.compile(r"\b([A-Za-z_]\w{3,})\(")


class Search(NamedTuple):
    """The next thing to look up: a regular expression in all files, or a whole file."""

    text: str | None = None
    file: str | None = None
    wanted: str = ""
    """What for, in words."""
    hop: bool = False
    """Whether it follows names that the definitions asked for mention."""


class Finding(NamedTuple):
    """A fact that code sees, in words."""

    text: str
    says: tuple[str, ...] = ()
    """What an answer that goes by it holds."""


@dataclass
class Lookup:
    """The look-up of one request: `next()`, then `add()` its result, until None."""

    request: str
    listing: str = ""
    """The project's top level, to tell the paths of files that the request names."""
    lines: Lines = field(default_factory=Lines)
    asked: set[str] = field(default_factory=set)
    """Names that were searched for."""
    done: list[Search] = field(default_factory=list)
    world: list[Line] = field(default_factory=list)
    """The lines that hold one of the request's words for people, dates and events."""

    @cached_property
    def reading(self) -> Reading:
        return Reading(self.request)

    @property
    def hops(self) -> int:
        return sum(search.hop for search in self.done)

    @property
    def names(self) -> list[str]:
        return [name for name in self.reading.names if name not in self.reading.files]

    # What to look up.

    def next(self) -> Search | None:
        """The next search; None when there is nothing more to look up."""
        if len(self.done) >= MOST_SEARCHES:
            return None
        return next((search for search in self._due() if search not in self.done), None)

    def _due(self) -> Iterable[Search]:
        names, stems, world = self.names, self.reading.stems, self.reading.world
        if names:
            wanted = ", ".join(names)
            yield Search(text=_whole(names), wanted=wanted)
            if not self.lines:  # perhaps it is spelt otherwise
                yield Search(text=rf"(?i){'|'.join(map(_loose, names))}", wanted=wanted)
        elif stems and not self.reading.files:
            yield Search(text=rf"(?i){_either(stems)}", wanted=", ".join(stems))
        if world:
            pattern = rf"(?i)(?:^|[^a-z])({_either(world)})(?:[^a-z]|$)"
            yield Search(text=pattern, wanted=", ".join(world))
        for path in self._files_named():
            yield Search(file=path, wanted=path)
        for path in self._files_wanted():
            yield Search(file=path, wanted=path)
        if names and self.reading.intent not in (Intent.USES, Intent.PLACE, Intent.HEIRS):
            hops = [
                search for search in self.done if search.text and "class|function" in search.text
            ]
            mentioned = self._mentioned()[:MOST_FOLLOWED]
            if mentioned and len(hops) < 2:
                either = _either(mentioned)
                pattern = (
                    rf"\b(def|class|function|func|fn)\s+({either})\b|\b({either})\s*(:[^=]+)?= "
                )
                yield Search(text=pattern, wanted=", ".join(mentioned))

    def _files_named(self) -> list[str]:
        """The paths of the files that the request names, as far as the listing or lines tell."""
        known = [*re.findall(r"[\w./-]+", self.listing), *{line.path for line in self._all()}]
        found: list[str] = []
        for name in self.reading.files:
            exact = [path for path in known if path == name or path.endswith("/" + name)]
            begun = [path for path in known if path.rsplit("/", 1)[-1].startswith(name + ".")]
            found += sorted(set(exact or begun), key=len)[:1] or ([name] if "/" in name else [])
        return list(dict.fromkeys(found))[:MOST_FILES]

    def _files_wanted(self) -> list[str]:
        """The files that have to be known whole: those of what is counted, of the definitions
        asked for, and of uses whose function no line shows."""
        if self.reading.intent in (Intent.PLACE, Intent.HEIRS):
            return []
        if self.reading.intent is Intent.USES:
            uses = self._uses()
            lines = [line for line in uses if line.indent and self.lines.scope(line) is None]
        else:
            lines = self.lines.definitions(self.names)
        return list(dict.fromkeys(line.path for line in lines))[:MOST_FILES]

    def add(self, search: Search, result: str) -> None:
        """Take in the result of a search that `next` gave."""
        self.done.append(search)
        if search.file:
            self.lines.add_file(search.file, result)
            return
        found = self.lines.add(result)
        self.asked |= set(search.wanted.split(", "))
        if search.text and search.wanted == ", ".join(self.reading.world):
            holds = re.compile(search.text)
            self.world = [line for line in found if holds.search(line.text) and self._near(line)]

    def _near(self, line: Line) -> bool:
        """Whether a line that holds something else of the request stands near this one."""
        wanted = self.names or [stem for stem in self.reading.stems if not _is_world(stem)]
        numbers = range(line.number - NEAR, line.number + NEAR + 1)
        beside = (self.lines.by_place.get((line.path, number)) for number in numbers)
        text = "\n".join(each.text for each in beside if each).lower()
        return not wanted or any(each.lower() in text for each in wanted)

    def _all(self) -> list[Line]:
        return list(self.lines.by_place.values())

    def _mentioned(self) -> list[str]:
        """Names in the definitions of those asked for, whose own definitions are not known."""
        found: dict[str, None] = {}
        heads = self.lines.definitions(sorted(self.asked))
        for head in sorted(heads, key=lambda head: head.defines not in self.names)[:6]:
            for line in [head, *self.lines.body(head, 4 * BODY_LINES)]:
                for name in [*line.constants, *line.bases, *_CALLED.findall(line.text)]:
                    if name not in self.asked:
                        found.setdefault(name)
        return [name for name in found if name not in self.lines.heads]

    # What was found.

    @property
    def absent(self) -> bool:
        """Whether the request asks if something is there, or where, and nothing has its name."""
        asks = self.reading.whether or self.reading.intent is Intent.PLACE
        if not asks or not self.done or self.reading.files:
            return False
        if self.reading.identifiers:
            return not any(self._mentions(name) for name in self.reading.identifiers)
        return not self.lines

    def _mentions(self, name: str) -> bool:
        loose = re.compile(_loose(name), re.IGNORECASE)
        return any(loose.search(line.text) for line in self._all())

    @property
    def beyond(self) -> bool:
        """Whether the request is about people, dates or events that no line mentions."""
        searched = any(search.wanted == ", ".join(self.reading.world) for search in self.done)
        return bool(self.reading.world) and searched and not self.world

    @property
    def findings(self) -> list[Finding]:
        """What code sees for itself of what is asked."""
        reading = self.reading
        if reading.intent is Intent.USES:
            return self._found_uses()
        if reading.intent is Intent.HEIRS:
            return self._found_heirs()
        if reading.intent is Intent.PLACE:
            return self._found_places()
        if reading.intent is Intent.BASES:
            return self._found_bases()
        if reading.counted:
            return self._found_counts()
        if reading.asks_for_default:
            return self._found_defaults()
        return []

    @property
    def facts(self) -> list[Finding]:
        """The findings of which one is the answer, if the request asks for just that."""
        if self.reading.compound:
            return []
        return [finding for finding in self.findings if finding.says]

    def misses(self, answer: str) -> str | None:
        """What an answer ought to say by the facts and does not; None when it goes by one."""
        facts = self.facts
        if not facts or any(all(_said(answer, each) for each in fact.says) for fact in facts):
            return None
        return facts[0].text

    def _found_places(self) -> list[Finding]:
        asks_line = "line" in self.request.lower()
        found = []
        for head in self.lines.definitions(self.names)[:MOST_FINDINGS]:
            says = (_file(head), *([str(head.number)] if asks_line else []))
            place = f"{head.path} on line {head.number}"
            found.append(
                Finding(f"{head.defines} is defined in {place}: {head.text.strip()}", says)
            )
        return found

    def _uses(self) -> list[Line]:
        uses = self.lines.uses(self.names)
        if "test" not in self.request.lower():
            uses = [line for line in uses if not in_tests(line)] or uses
        return uses

    def _found_uses(self) -> list[Finding]:
        uses = self._uses()
        by_scope: dict[tuple[str, str], list[Line]] = {}
        for line in uses:
            by_scope.setdefault((line.path, self.lines.scope(line) or ""), []).append(line)
        only_file = _ASKS_FILE.search(self.request) and not _ASKS_FUNCTION.search(self.request)
        found = []
        for (_, scope), lines in by_scope.items():
            name = next(name for name in self.names if lines[0].has(name))
            verb = "calls" if re.search(rf"\b{re.escape(name)}\s*\(", lines[0].text) else "uses"
            if scope and not only_file:
                found.append(
                    Finding(f"{scope} {verb} {name} at {lines[0]}", (scope.rsplit(".", 1)[-1],))
                )
            else:
                where = f"in {scope}, at" if scope else "at"
                found.append(Finding(f"{name} is used {where} {lines[0]}", (_file(lines[0]),)))
        counted = self.reading.counted
        if counted and uses:
            files = sorted({line.path for line in uses})
            number = {"places": len(uses), "files": len(files)}.get(counted, len(by_scope))
            name = " or ".join(name for name in self.names if any(u.has(name) for u in uses))
            unit = counted if counted in ("places", "files") else "functions"
            total = Finding(f"{_counted(number, unit)} call {name}:", (str(number),))
            return [total, *(Finding(each.text) for each in found[:MOST_FINDINGS])]
        return found[:MOST_FINDINGS]

    def _found_heirs(self) -> list[Finding]:
        heirs = self.lines.heirs(self.names)
        found = [
            Finding(
                f"{line.defines} inherits from {', '.join(line.bases)} at {line}",
                (str(line.defines),),
            )
            for line in heirs[:MOST_FINDINGS]
        ]
        if self.reading.counted and heirs:
            names = ", ".join(str(line.defines) for line in heirs)
            text = f"{_counted(len(heirs), 'classes')} inherit from {self.names[0]}: {names}"
            return [Finding(text, (str(len(heirs)),)), *(Finding(each.text) for each in found)]
        return found

    def _found_bases(self) -> list[Finding]:
        found: list[Finding] = []
        heads = [head for head in self.lines.definitions(self.names) if head.bases][:2]
        for head in heads:
            for base in head.bases:
                for place in self.lines.definitions([base])[:2]:
                    above = f", which inherits from {', '.join(place.bases)}" if place.bases else ""
                    text = (
                        f"{head.defines} inherits from {base}{above}. "
                        f"{base} is defined in {place.path} on line {place.number}"
                    )
                    says = _file(place) if _ASKS_FILE.search(self.request) else base
                    found.append(Finding(text, (says,)))
                if base not in self.lines.heads:
                    found.append(Finding(f"{head.defines} inherits from {base} at {head}", (base,)))
        return found

    def _found_defaults(self) -> list[Finding]:
        """The defaults of a named function or class, of the parameters that the request names."""
        found = []
        for head in self.lines.definitions(self.names):
            if head.path not in self.lines.whole or not (head.is_class or head.is_function):
                continue
            for name, value in self.lines.defaults(head).items():
                if name in self.reading.words and name != head.defines:
                    constant = self.lines.values.get(value)
                    is_what = f"{value}, and {constant.text.strip()}" if constant else value
                    text = f"The default of {name} in {head.defines} is {is_what}. At {head}"
                    says = constant.text.partition("=")[2].strip() if constant else value
                    found.append(Finding(text, (says,)))
        return found[:MOST_FINDINGS]

    def _found_counts(self) -> list[Finding]:
        counted = str(self.reading.counted)
        found: list[Finding] = []
        for path in self._files_named():
            found += self._counts_of_file(path, counted)
        heads = [
            head for head in self.lines.definitions(self.names) if head.path in self.lines.whole
        ]
        for head in heads[:2]:
            found += self._counts_of(head, counted)
        return found

    def _counts_of(self, head: Line, counted: str) -> list[Finding]:
        if counted == "parameters" and head.is_function:
            names, of = list(self.lines.parameters(head)), "parameters"
        elif counted == "methods" and head.is_class:
            names, of = self._methods_meant(head), "methods"
        elif counted in ("fields", "parameters", "items") and head.is_class:
            names, of = self.lines.fields(head), "fields"
        else:
            return []
        text = f"{head.defines} has {_counted(len(names), of)}: {', '.join(names)}"
        return [Finding(f"{text}. At {head}", (str(len(names)),))]

    def _methods_meant(self, head: Line) -> list[str]:
        names = self.lines.methods(head)
        if _ONLY_PUBLIC.search(self.request):
            return [name for name in names if not name.startswith("_")]
        if _NOT_SPECIAL.search(self.request):
            return [name for name in names if not name.startswith("__")]
        return names

    def _counts_of_file(self, path: str, counted: str) -> list[Finding]:
        lines = self.lines.of(path)
        if path not in self.lines.whole or not lines:
            return []
        section = _YAML_SECTION if path.endswith((".yaml", ".yml")) else _SECTION
        unit, found = {
            "classes": ("classes", [line for line in lines if line.is_class]),
            "methods": ("functions", [line for line in lines if line.is_function]),
            "sections": ("sections", [line for line in lines if section.match(line.text)]),
            "items": ("list items", [line for line in lines if _ITEM.match(line.text)]),
        }.get(counted, ("", []))
        if not found:
            return []
        names = ", ".join(line.defines or line.text.strip(" #-*[]:") for line in found)
        text = f"{path} has {_counted(len(found), unit)}: {names[:400]}"
        return [Finding(text, (str(len(found)),))]

    # What a model is shown of it.

    def shown(self, longest: int) -> str:
        """The findings and the telling lines, at most about `longest` characters; the best file
        first."""
        said = [finding.text for finding in self.findings]
        if self.facts:
            return "\n".join(said)[:longest]
        scores = self._scores()
        share = LEAST_SHARE if self.names else LEAST_SHARE_OF_WORDS
        least = share * max(scores.values(), default=0.0)
        scores = {line: score for line, score in scores.items() if score >= least}
        kept: list[Line] = []
        room = longest - sum(len(each) + 1 for each in said)
        for line in sorted(scores, key=lambda line: -scores[line]):
            text = self._annotated(line)
            if len(text) + 1 > room:
                break
            room -= len(text) + 1
            kept.append(line)
        best: dict[str, float] = {}
        for line in kept:
            best[line.path] = max(best.get(line.path, 0), scores[line])
        kept.sort(key=lambda line: (-best[line.path], line.path, line.number))
        shown = [*said, *(self._annotated(line) for line in kept)]
        if len(kept) < len(scores):
            shown.append(f"({len(scores) - len(kept)} more lines; ask more narrowly to see them)")
        return "\n".join(shown)

    def _scores(self) -> dict[Line, float]:
        """How much each line tells; lines that tell nothing are left out."""
        scores: dict[Line, float] = {}

        def give(line: Line, score: float) -> None:
            scores[line] = max(scores.get(line, 0.0), score)

        for path in self._files_named():
            whole = self.lines.of(path) if path in self.lines.whole else []
            for line in whole if len(whole) <= WHOLE_FILE_LINES else []:
                give(line, 4.0)
        for line in self.world:
            give(line, 6.0)
        if self.names:
            self._score_names(give)
        else:
            self._score_stems(give)
        return scores

    def _score_names(self, give: Callable[[Line, float], None]) -> None:
        wanted = set(self.names)
        spoken = {
            stem for stem in self.reading.stems if stem not in {name.lower() for name in wanted}
        }
        for line in self._all():
            hits = sum(line.has(name) for name in wanted)
            if hits:
                near = sum(stem in line.text.lower() for stem in spoken)
                score = 2.0 * hits + 0.5 * near
                if line.imports:
                    score *= 0.2
                if in_tests(line):
                    score *= 0.7
                give(line, score)
        followed = [line for line in self.lines.definitions(sorted(self.asked - wanted))]
        for weight, heads in ((8.0, self.lines.definitions(self.names)), (5.0, followed)):
            for rank, head in enumerate(heads):
                others = sum(head.has(name) for name in wanted) - 1
                score = weight - min(rank, 4) * 0.5 + 3.0 * max(0, others)
                give(head, score)
                for distance, line in enumerate(self.lines.body(head, 3 * BODY_LINES), 1):
                    near = sum(stem in line.text.lower() for stem in spoken)
                    near += sum(constant in self.lines.values for constant in line.constants)
                    give(line, score * 0.6 - min(distance, BODY_LINES) * 0.1 + 0.5 * near)

    def _score_stems(self, give: Callable[[Line, float], None]) -> None:
        """Without names: lines by the request's words in the passage around them, the rarer the
        better, and more in files that hold many of them."""
        lines = [line for line in self._all() if line not in self.world]
        stems = self.reading.stems
        texts = {line: f"{line.path}:{line.text} {self.lines.about(line)}" for line in lines}
        holding = {
            stem: [line for line, text in texts.items() if _speaks(text, stem)] for stem in stems
        }
        rarity = {
            stem: math.log(1 + len(lines) / len(found)) for stem, found in holding.items() if found
        }
        in_file: dict[str, float] = {}
        near: dict[Line, set[str]] = {}
        for stem, value in rarity.items():
            for path in {line.path for line in holding[stem]}:
                in_file[path] = in_file.get(path, 0.0) + value
            for line in holding[stem]:
                for number in range(line.number - WINDOW, line.number + WINDOW + 1):
                    if beside := self.lines.by_place.get((line.path, number)):
                        near.setdefault(beside, set()).add(stem)
        for line, passage in near.items():
            own = sum(value for stem, value in rarity.items() if line in holding[stem])
            around = sum(rarity[stem] for stem in passage) - own
            score = own + SHARE_OF_PASSAGE * around + SHARE_OF_FILE * in_file[line.path]
            if line.imports or (line.text.lstrip()[:1] in "\"'#" and self._told_beside(line)):
                score *= 0.3
            give(line, score if own else 0.75 * score)

    def _told_beside(self, line: Line) -> bool:
        """Whether the line beside it is shown with what this line says of it."""
        beside = (self.lines.by_place.get((line.path, line.number + way)) for way in (-1, 1))
        said = [self.lines.about(each) for each in beside if each]
        return any(each and each in line.text for each in said)

    def _annotated(self, line: Line) -> str:
        """The line with what code knows of it: what it stands in, what a class inherits from, the
        values of its constants. A small model does not put two lines together."""
        notes = []
        used = [name for name in self.names if line.has(name) and line.defines != name]
        scope = self.lines.scope(line) if used and not line.imports else None
        if scope and f"{used[0]}(" in line.text:
            return f"{scope} calls {used[0]} at {line}"
        if scope:
            notes.append(f"in {scope}")
        if about := self.lines.about(line):
            notes.append(about)
        if line.bases:
            notes.append(f"{line.defines} inherits from {', '.join(line.bases)}")
        for constant in line.constants:
            value = self.lines.values.get(constant)
            if value is not None and value.number != line.number and not line.imports:
                notes.append(value.text.strip())
        return f"{line}    <- {'; '.join(notes)}" if notes else str(line)


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


def _is_world(stem: str) -> bool:
    return any(word.startswith(stem) for word in WORLD_WORDS)


def _file(line: Line) -> str:
    return line.path.rsplit("/", 1)[-1]


def _either(names: Iterable[str]) -> str:
    return "|".join(re.escape(name) for name in names)


def _speaks(text: str, stem: str) -> bool:
    """Whether a word of the text begins with the stem."""
    return re.search(rf"(?<![a-z]){re.escape(stem)}", text.lower()) is not None


_WORDS = (  # noqa: SIM905  as one reads it
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
).split()


def _counted(number: int, unit: str) -> str:
    singular = {"classes": "class", "list items": "list item"}.get(unit, unit.removesuffix("s"))
    return f"{number} {singular if number == 1 else unit}"


def _said(answer: str, part: str) -> bool:
    """Whether the answer says it, a small number also in words."""
    ways = [part, part.strip("\"'")]
    if part.isdigit() and int(part) < len(_WORDS):
        ways.append(_WORDS[int(part)])
    dotted = part.removesuffix(".py")
    if dotted != part:
        ways.append(dotted)
    return any(re.search(rf"(?<!\w){re.escape(way)}(?!\w)", answer, re.IGNORECASE) for way in ways)


@lru_cache(maxsize=4)
def followed(request: str, listing: str, calls: tuple[tuple[str, str], ...]) -> Lookup:
    """The look-up after these calls, each the pattern or path asked for and its result. What it
    wanted in between and no tool could do, it goes on without."""
    lookup = Lookup(request, listing)
    for asked, result in calls:
        while (search := lookup.next()) and asked not in search:
            lookup.add(search, "")
        if search:
            lookup.add(search, result)
    return lookup


def looked_up(state: RunState) -> Lookup:
    """The look-up that the run began with; not to be changed."""
    calls = tuple(
        (str(asked), each.result if each.outcome is Outcome.SUCCESS else "")
        for each in state.lookups
        if each.outcome is not None
        for asked in list(each.arguments.values())[:1]
    )
    started = state.started
    request, listing = (started.request.prompt, started.listing or "") if started else ("", "")
    return followed(request, listing, calls)
