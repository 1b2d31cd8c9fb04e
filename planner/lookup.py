"""What a person would search first: the request's names, and what their definitions mention.

It costs no model call. A small model answers well from the right dozen lines and badly finds them;
so code follows the names through the project's text search, two hops far, and shows the telling
lines: definitions before uses, each use with the function it stands in, each constant with its
value.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import NamedTuple

from planner.context import readable

MOST_NAMES = 6
"""Of a request, looked up."""
LONGEST_REQUEST = 4000
"""Characters of it that are searched for names."""
LONGEST_LINE = 300
"""Characters of a line; minified code has no telling ones."""
MOST_FOLLOWED = 10
"""Names in one hop."""
LEAST_SHARE = 0.3
"""Of the best line's score; lines under it are noise to a small model."""
LEAST_SHARE_OF_WORDS = 0.5
"""The same when the request names nothing and its plain words are searched."""
BODY_LINES = 9
"""Of a definition, shown after its first line."""

PLAIN_WORDS = frozenset(
    (files(__package__) / "prompts" / "plain_words.txt").read_text("utf-8").split()
)
"""Words of ordinary questions: they point at no line of code."""

_NAME = re.compile(
    r"`([^`\n]{2,80})`|\"([^\"\n]{2,80})\"|(?<!\w)'([^'\n]{2,80})'(?!\w)"  # a quotation
    r"|\b(?:function|method|class|constant|variable|parameter|field|module|option|called)"
    r"\s+([A-Za-z_]\w+)"
    r"|\b([\w.-]+\.(?:py|ts|js|tsx|md|toml|yaml|yml|json|go|rs|java|c|h|cpp|txt|cfg|ini|sh))\b"
    r"|\b((?:[A-Za-z]\w*)?_\w+)\b"  # snake_case
    r"|\b([a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|[A-Z]{2,}[a-z]\w*)\b"  # camelCase
    r"|\b([A-Z][A-Z0-9]{2,})\b"  # CONSTANT
)
_DEFINITION = re.compile(
    r"^\s*(?:export\s+|public\s+|private\s+|static\s+|async\s+|pub\s+|abstract\s+)*"
    r"(?:def|class|function|func|fn|const|let|var|type|interface|struct|enum|trait)\s+(\w+)"
    r"|^\s*([A-Za-z_][\w-]*)\s*(?::[^=]+)?=(?!=)"
    r"|^\s*\"?([A-Za-z_][\w-]*)\"?\s*:\s"
)
_SCOPE = re.compile(r"^\s*(?:\w+\s+)*?(?:def|class|function|func|fn)\s+(\w+)")
_IMPORT = re.compile(r"^\s*(?:from\s+\S+\s+import|import|use|using|#include)\b")
_CONSTANT = re.compile(r"\b_?[A-Z][A-Z0-9_]{3,}\b")
_CALLED = re.compile(r"\b([A-Za-z_]\w{3,})\(")
_BASES = re.compile(r"^\s*class\s+\w+\((.*)\)")
_ASKS_FOR_USES = re.compile(
    r"\b(?:who|which (?:functions?|methods?|class(?:es)?|code|modules?|files?)) (?:calls?|uses?)\b"
    r"|\bwhere (?:is|are) .*\b(?:used|called)\b|\bcallers? of\b|\b(?:called|used) (?:by|from)\b",
    re.IGNORECASE,
)
_ASKS_FOR_BASE = re.compile(
    r"\b(?:inherits?|(?:base|parent|super) ?class(?:es)?|subclass(?:es)?)\b", re.IGNORECASE
)
_ASKS_FOR_PLACE = re.compile(
    r"\b(?:where|file|line|module)\b.*\b(?:defined?s?|declared?s?|definition)\b", re.IGNORECASE
)
_ASKS_FOR_MORE = re.compile(r"\b(?:inherits?|bases?|parents?|uses?|values?)\b", re.IGNORECASE)
_LINE = re.compile(r"([^\s:]+):(\d+):(.*)")


class Line(NamedTuple):
    """One line of the project, as the search gave it."""

    path: str
    number: int
    text: str

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())

    @property
    def defines(self) -> str | None:
        match = _DEFINITION.match(self.text)
        return (match[1] or match[2] or match[3]) if match else None

    def __str__(self) -> str:
        return f"{self.path}:{self.number}:{self.text}"


def names(text: str) -> list[str]:
    """What a request names of the code: identifiers, files, quotations, in their order."""
    found: dict[str, None] = {}
    for match in _NAME.finditer(text):
        name = next(group for group in match.groups() if group)
        if name.lower() not in PLAIN_WORDS and not name.startswith("__"):
            found.setdefault(name)
    return list(found)


def keywords(text: str) -> list[str]:
    """The stems of a request's telling plain words, in their order."""
    found: dict[str, None] = {}
    for word in re.findall(r"[A-Za-z]{4,}", text):
        if word.lower() not in PLAIN_WORDS:
            found.setdefault(re.sub(r"(?:ing|ers?|ed|es|s)$", "", word.lower()))
    stems = [stem for stem in found if len(stem) > 2]
    return [stem for stem in stems if not any(other in stem for other in stems if other != stem)]


@dataclass
class Lookup:
    """The search of one request, hop by hop: `pattern()`, then `add()` its result, until None."""

    request: str
    lines: dict[tuple[str, int], Line] = field(default_factory=dict)
    hops: int = 0
    asked: set[str] = field(default_factory=set)

    @cached_property
    def names(self) -> list[str]:
        return names(self.request[:LONGEST_REQUEST])[:MOST_NAMES]

    @cached_property
    def stems(self) -> list[str]:
        return keywords(self.request[:LONGEST_REQUEST])[:MOST_NAMES]

    @cached_property
    def asks_for_uses(self) -> bool:
        """Whether the request is who calls a name, not what stands in its definition."""
        return bool(self.names) and _ASKS_FOR_USES.search(self.request) is not None

    @cached_property
    def asks_for_place(self) -> bool:
        """Whether the request is only where a name is defined."""
        place = _ASKS_FOR_PLACE.search(self.request) is not None
        return bool(self.names) and place and not _ASKS_FOR_MORE.search(self.request)

    @cached_property
    def asks_for_base(self) -> bool:
        """Whether the request is what a class inherits from."""
        return bool(self.names) and _ASKS_FOR_BASE.search(self.request) is not None

    @property
    def wanted(self) -> list[str]:
        """What the next search looks for."""
        if self.hops == 0:
            return self.names or self.stems
        if not self.names or self.hops > 2 or self.asks_for_uses or self.asks_for_place:
            return []
        return self._mentioned()[:MOST_FOLLOWED]

    def pattern(self) -> str | None:
        """The regular expression of the next search; None when there is nothing more to look up."""
        wanted = self.wanted
        if not wanted:
            return None
        either = "|".join(re.escape(name) for name in wanted)
        if self.hops == 0:
            return either if self.names else f"(?i){either}"
        return rf"\b(def|class|function|func|fn)\s+({either})\b|\b({either})\s*(:[^=]+)?= "

    def add(self, result: str) -> None:
        """Take in the result of the search that `pattern` asked for."""
        self.asked |= set(self.wanted)
        self.hops += 1
        for derived in ("_values", "_heirs"):  # they follow from the lines
            self.__dict__.pop(derived, None)
        for row in readable(result).splitlines():
            if match := _LINE.fullmatch(row):
                line = Line(match[1], int(match[2]), match[3][:LONGEST_LINE])
                self.lines.setdefault((line.path, line.number), line)

    def _definitions(self, wanted: Iterable[str]) -> list[Line]:
        names = set(wanted)
        found = [
            line
            for line in self.lines.values()
            if line.defines in names and not _IMPORT.match(line.text)
        ]
        return sorted(found, key=lambda line: "test" in line.path)

    def _body(self, head: Line, most: int = BODY_LINES) -> list[Line]:
        """The lines after a definition's first that belong to it, as far as they are known."""
        body: list[Line] = []
        for number in range(head.number + 1, head.number + 1 + 3 * most):
            line = self.lines.get((head.path, number))
            if line is None:
                continue  # a blank line, or one the search did not give
            closes = line.text.lstrip().startswith((")", "]", "}"))
            if len(body) >= most or (line.indent <= head.indent and not closes):
                break
            body.append(line)
        return body

    def _mentioned(self) -> list[str]:
        """Names in the definitions of those asked for, whose own definitions are not known."""
        found: dict[str, None] = {}
        for head in self._definitions(self.asked)[:6]:
            for line in [head, *self._body(head)]:
                called = _CALLED.findall(line.text)
                for name in [*_CONSTANT.findall(line.text), *_bases(line), *called]:
                    if name not in self.asked:
                        found.setdefault(name)
        known = {line.defines for line in self.lines.values()}
        return [name for name in found if name not in known]

    def shown(self, longest: int) -> str:
        """The telling lines, at most about `longest` characters; the best file first."""
        scores = self._scores()
        share = LEAST_SHARE if self.names else LEAST_SHARE_OF_WORDS
        least = share * max(scores.values(), default=0.0)
        scores = {line: score for line, score in scores.items() if score >= least}
        kept: list[Line] = []
        room = longest
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
        shown = [self._annotated(line) for line in kept]
        if len(kept) < len(scores):
            shown.append(f"({len(scores) - len(kept)} more lines; ask more narrowly to see them)")
        return "\n".join(shown)

    def _scores(self) -> dict[Line, float]:
        """How much each line tells; lines that tell nothing are left out."""
        scores: dict[Line, float] = {}

        def give(line: Line, score: float) -> None:
            scores[line] = max(scores.get(line, 0.0), score)

        if not self.names:
            self._score_stems(give)
            return scores
        wanted = set(self.names)
        bases = self._definitions(base for _, base in self._heirs)
        if self.asks_for_base and bases:
            return {head: 1.0 for head in bases}
        if self.asks_for_uses and (uses := self._uses(wanted)):
            return {line: 1.0 for line in uses}
        only_places = self.asks_for_place and bool(self._definitions(wanted))
        spoken = {stem for stem in self.stems if stem not in {name.lower() for name in wanted}}
        for line in self.lines.values():
            hits = sum(_has(line.text, name) for name in wanted)
            if hits and not only_places:
                near = sum(stem in line.text.lower() for stem in spoken)
                score = 2.0 * hits + 0.5 * near
                if _IMPORT.match(line.text):
                    score *= 0.2
                if "test" in line.path:
                    score *= 0.7
                give(line, score)
        for weight, heads in ((8.0, self._definitions(wanted)), (5.0, self._followed(wanted))):
            for rank, head in enumerate(heads):
                others = sum(_has(head.text, name) for name in wanted) - 1
                score = weight - min(rank, 4) * 0.5 + 3.0 * max(0, others)
                give(head, score)
                shown = 3 if self.asks_for_place else BODY_LINES
                for distance, line in enumerate(self._body(head, shown), 1):
                    near = sum(stem in line.text.lower() for stem in spoken)
                    give(line, score * 0.6 - distance * 0.1 + 0.5 * near)
        return scores

    def _uses(self, wanted: set[str]) -> list[Line]:
        """The lines that call a wanted name, with what they stand in, tests last."""
        uses = [
            line
            for line in self.lines.values()
            if any(f"{name}(" in line.text and line.defines != name for name in wanted)
            and self._scope(line)
        ]
        return sorted(uses, key=lambda line: "test" in line.path)

    def _followed(self, wanted: set[str]) -> list[Line]:
        return [line for line in self._definitions(self.asked - wanted) if line.defines]

    def _score_stems(self, give: Callable[[Line, float], None]) -> None:
        """Without names: lines by the request's words, the rarer the better, and more in files
        that hold many of them."""
        lines = list(self.lines.values())
        holding = {
            stem: [line for line in lines if stem in str(line).lower()] for stem in self.stems
        }
        rarity = {
            stem: math.log(1 + len(lines) / len(found)) for stem, found in holding.items() if found
        }
        in_file: dict[str, float] = {}
        for stem, value in rarity.items():
            for path in {line.path for line in holding[stem]}:
                in_file[path] = in_file.get(path, 0.0) + value
        for line in lines:
            said = sum(value for stem, value in rarity.items() if stem in line.text.lower())
            if said:
                score = said + 0.4 * in_file[line.path]
                give(line, score)
                for beside in (line.number - 1, line.number + 1):
                    if near := self.lines.get((line.path, beside)):
                        give(near, 0.75 * score)

    def _annotated(self, line: Line) -> str:
        """The line with what code knows of it: what it stands in, what a class inherits from, the
        values of its constants. A small model does not put two lines together."""
        notes = []
        used = [name for name in self.names if _has(line.text, name) and line.defines != name]
        scope = self._scope(line) if used else None
        if scope and f"{used[0]}(" in line.text:
            return f"{scope} calls {used[0]} at {line}"
        if scope:
            notes.append(f"in {scope}")
        if bases := _bases(line):
            notes.append(f"{line.defines} inherits from {', '.join(bases)}")
        if heirs := [heir for heir, base in self._heirs if base == line.defines]:
            return f"{line.defines}, which {heirs[0]} inherits from, is defined at {line}"
        for constant in dict.fromkeys(_CONSTANT.findall(line.text)):
            value = self._values.get(constant)
            if value is not None and value.number != line.number and not _IMPORT.match(line.text):
                notes.append(value.text.strip())
        return f"{line}    <- {'; '.join(notes)}" if notes else str(line)

    @cached_property
    def _heirs(self) -> list[tuple[str, str]]:
        """The request's classes, each with a class that it inherits from."""
        return [
            (str(head.defines), base)
            for head in self._definitions(self.names)
            for base in _bases(head)
        ]

    @cached_property
    def _values(self) -> dict[str, Line]:
        return {
            line.defines: line
            for line in self.lines.values()
            if line.defines and _CONSTANT.fullmatch(line.defines) and "=" in line.text
        }

    def _scope(self, line: Line) -> str | None:
        """The function or class that a line stands in, as far as the search shows it."""
        indent = line.indent
        for number in range(line.number - 1, max(0, line.number - 60), -1):
            above = self.lines.get((line.path, number))
            if above is None or above.indent >= indent or above.text.lstrip().startswith(")"):
                continue  # the last one ends a signature of several lines
            if match := _SCOPE.match(above.text):
                return match[1]
            indent = above.indent
        return None


def _bases(line: Line) -> list[str]:
    """The classes that a class line inherits from."""
    match = _BASES.match(line.text)
    return re.findall(r"(?<![=\w])[A-Za-z_]\w{2,}(?!\s*=)", match[1]) if match else []


def _has(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def followed(request: str, results: Sequence[str]) -> Lookup:
    """The look-up after these results of its searches, in their order."""
    lookup = Lookup(request)
    for result in results:
        lookup.add(result)
    return lookup
