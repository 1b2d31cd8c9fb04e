"""Where what an answer claims stands in what was found, and whether it is about the same there."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import fsum, log

from pydantic import BaseModel

from planner.checks.claims import (
    adds_words,
    beyond,
    claims,
    holds,
    in_all_readings,
    is_number,
    is_value,
    lines_as_read,
)
from planner.checks.forms import counts
from planner.checks.grounding import (
    as_read,
    chosen,
    given,
    given_paths,
    names_more,
    results,
    said,
)
from planner.checks.lenient import sentences_in
from planner.evidence.answers import answers
from planner.evidence.context import with_count
from planner.evidence.tables import table
from planner.evidence.words import is_name, tokens, words
from planner.state import Iteration, RunState
from planner.text import strings

MAX_LINES = 6
"""Of one passage or result, in the evidence."""
MAX_LINE = 300
"""Characters."""
MAX_SUPPORT = 2
"""Lines that are named for an answer."""
MIN_QUOTE = 4
"""Characters of such a line, for it to tell where it stands."""
NEAR_ROWS = 2
"""Rows before and after a number that may say what it is about."""
BY_NAME = 0.8
"""The share of what one row says of a subject that counts for all rows with the same name."""
TELLING_SHARE = 0.5
"""A row proves its number if it says at least this share of what the most telling row with a number
says (docs/experiments.md, "Numbers for another reason"). Several numbers of an answer share it."""
MIN_BARE = 2
"""Answers that are nothing but a number, for it to count as a guess."""
SAID_SHARE = 0.5
"""The share of an answer's new words, by their weight, that one passage or result has to hold."""
MIN_NEW = 4
"""New words of such an answer; fewer say next to nothing."""
LINE_SHARE = 0.8
"""The share of the most telling row for a number that is the row's own, where the answer does not
name the file: any small count is the number of some line."""

_PLACE = re.compile(r"(.+):(\d+)(?:-\d+)?")


class Evidence(BaseModel, frozen=True):
    """A passage or tool result that supports the answer."""

    iteration: int
    step: int
    """0 is the gathering before the plan."""
    tool: str
    source: str = ""
    """`path:12-30` for lines of a file; empty for other results."""
    claims: list[str]
    """What of the answer stands in it."""
    lines: list[str]


def evidence(state: RunState) -> list[Evidence]:
    """The passages and results that hold the answer's quotations and claims, the best first. A
    claim of the request alone is no reason to name one."""
    subject = Subject(state, state.own_words)
    wanted = claims(as_read(f"{state.own_words}\n{said(state, state.data)}", subject.results))
    wanted = [claim for claim in wanted if claim not in state.unsupported]
    found: list[Evidence] = []
    cited: set[tuple[str, ...]] = set()
    shown: set[str] = set()
    asked = in_all_readings(state.user_words)
    missing = [claim for claim in wanted if not holds(asked, claim)]
    for source in subject.sources:
        held = [claim for claim in wanted if subject.told(claim, source)]
        quoted = _is_quoted(source.text, state.quotes)
        new = [claim for claim in held if claim in missing]
        lines = [*source.query, *_telling(source.text, held, state.quotes)]
        again = (source.place, *lines) in cited or (not source.place and shown.issuperset(lines))
        if not (quoted or new) or (lines and again):
            continue
        cited.add((source.place, *lines))
        shown.update(lines)
        missing = [claim for claim in missing if claim not in held]
        made = source.returned_by(state.iterations)
        found.append(
            Evidence(
                iteration=made.number,
                step=made.step,
                tool=made.tool,
                source=source.place,
                claims=held,
                lines=lines,
            )
        )
    return found


def _is_quoted(text: str, quotes: Sequence[str]) -> bool:
    """Whether a text has one of the quotes; a short one may stand anywhere."""
    return any(len(quote) >= MIN_QUOTE and quote in text for quote in quotes)


def _telling(text: str, held: Sequence[str], quotes: Sequence[str]) -> list[str]:
    scores = [
        (row.strip(), sum(holds(read, claim) for claim in held) + 2 * _is_quoted(row, quotes))
        for row, read in lines_as_read(text)
        if row.strip()
    ]
    best = max((score for _, score in scores), default=0)
    telling = [row for row, score in scores if score > 0.6 * best]
    return [row[:MAX_LINE] for row in telling[:MAX_LINES]] if best else []


def unproved(state: RunState, answer: str) -> list[str]:
    """The numbers of an answer that stand in results for another reason, and count no list."""
    subject = Subject(state, answer)
    held = [claim for claim in subject.numbers if holds(subject.results, claim)]
    held = [claim for claim in held if not counts(claim, answer)]
    return [
        claim for claim in held if not any(subject.told(claim, each) for each in subject.sources)
    ]


def beside_lists(state: RunState, answer: str, request: str) -> bool:
    """Whether results that no query reads say all that an answer claims beyond the request."""
    if answers(state.part_iterations):
        return False
    subject = Subject(state, answer)
    new = beyond(as_read(answer, subject.results), request)
    others = [
        each
        for each in subject.sources
        if each.made.by != "query" and not table(each.made.tool, each.made.result)
    ]
    return bool(new) and all(any(subject.told(claim, each) for each in others) for claim in new)


def guessed(state: RunState, readings: Sequence[str], request: str) -> list[str]:
    """The numbers that differing answers name, where these are guesses: results have them for
    another reason, the answers name nothing else, and some have no other word."""
    named = [beyond(each, request) for each in readings]
    bare = [each for each in readings if not adds_words(each, request)]
    if len(bare) < MIN_BARE or not all(each and all(map(is_value, each)) for each in named):
        return []  # before every row of the results is weighed
    numbers = [unproved(state, each) for each in readings]
    only = all({*new} <= {*loose} for new, loose in zip(named, numbers, strict=True))
    return list(dict.fromkeys(chain.from_iterable(numbers))) if only else []


def likelier(state: RunState, readings: Sequence[str], request: str) -> str | None:
    """Of differing answers the first that names something beyond the request, all of it in results;
    if all such answers have numbers, the first one whose numbers are proved."""
    named = [each for each in readings if names_more(state, each, request)]
    widest = next(iter(named), None)
    if not all(any(map(is_number, claims(each))) for each in named):
        return widest
    return next((each for each in named if not unproved(state, each)), widest)


def supporting(state: RunState, answer: str, request: str) -> list[str]:
    """The lines of passages and results that say an answer, the best first: those that hold most of
    its claims and of its words beyond the request's, or of all its words where it has no others.
    A line adds more than a number that one before it holds."""
    answer = as_read(answer, in_all_readings(results(state)))
    wanted = claims(answer)
    told = set(words(answer))
    new = told - set(words(request)) or told
    scored: dict[str, float] = {}
    says: dict[str, Set[str]] = {}
    texts = [each.told for each in state.passages]
    texts += [with_count(each.result) for each in chosen(state)]
    for line, read in chain.from_iterable(map(lines_as_read, texts)):
        have = {*words(read)}
        held = {claim for claim in wanted if holds(read, claim)}
        if held or have & new:
            score = 3 * len(held) + len(have & new) + len(have & told) / 4
            scored.setdefault(shown := line.strip()[:MAX_LINE], score)
            says.setdefault(shown, held | have & told)
    lines: list[str] = []
    for line in sorted(scored, key=lambda line: -scored[line]):
        known = {each for line in lines for each in says[line] if is_number(each)}
        if not lines or (scored[line] >= scored[lines[0]] / 2 and says[line] - known):
            lines.append(line)
        if len(lines) == MAX_SUPPORT:
            break
    return lines


def said_by_one(state: RunState, answer: str, request: str, least: int) -> bool:
    """Whether one passage or result holds most of the words of an answer, or of a sentence of it,
    beyond the request's, if there are so many at `least`. Rare words count more: what a model makes
    up shares only common ones."""
    asked = {*words(request)}
    new = {*words(answer)} - asked
    if len(new) < least:
        return True
    sentences = ({*words(each)} - asked for line in sentences_in(answer) for each in line)
    told = [new, *(each for each in sentences if len(each) >= max(least, MIN_NEW))]
    sources = [{*words(each.text)} for each in sources_of(state)]
    return any(_one_says(sources, each) for each in told)


def _one_says(sources: Sequence[set[str]], new: set[str]) -> bool:
    held = [new & each for each in sources]
    count = Counter(word for each in held for word in each)
    weights = {word: log((len(held) + 1) / (max(count[word], 1) + 0.5)) for word in new}
    most = max((fsum(map(weights.__getitem__, each)) for each in held), default=0.0)
    return most >= SAID_SHARE * fsum(weights.values())


@dataclass(frozen=True)
class Source:
    number: int
    made: Iteration
    place: str
    """`path:12-30`; empty for a result."""
    text: str

    @cached_property
    def rows(self) -> Sequence[str]:
        return in_all_readings(self.text).splitlines()

    @cached_property
    def read(self) -> str:
        return "\n".join([self.place, *self.rows])

    @property
    def tool(self) -> str:
        """The tool of a short result, whose name tells what all its rows are about."""
        return "" if self.place or len(self.rows) > MAX_LINES else self.made.tool

    def returned_by(self, iterations: Sequence[Iteration]) -> Iteration:
        """The call that returned it. Of a passage, it is the call of the look-up that was given its
        path, or else returned it."""
        if not self.place:
            return self.made
        path = self.place.rpartition(":")[0]
        calls = [each for each in iterations[self.made.number :: -1] if each.succeeded]
        reads = (each for each in calls if path in strings(each.arguments))
        return next(chain(reads, (each for each in calls if path in each.result)), self.made)

    @property
    def query(self) -> Sequence[str]:
        """The query of a list that found it, if one did."""
        return [self.made.arguments["sql"]] if self.made.by == "query" else []


def sources_of(state: RunState) -> Iterator[Source]:
    """Every passage shown and every result; first what queries found, then those with a quote."""
    found = []
    for iteration in state.iterations:
        if iteration.gathered:
            found += [(iteration, each.place, each.told) for each in iteration.gathered.passages]
        elif iteration.by != "lookup" and iteration.succeeded:
            told = given(iteration) if iteration.changes else given_paths(iteration)
            found.append((iteration, "", "\n".join([*told, with_count(iteration.result)])))
    found.sort(key=lambda each: (each[0].by != "query", not _is_quoted(each[2], state.quotes)))
    yield from (Source(number, *each) for number, each in enumerate(found))


@dataclass(frozen=True)
class Subject:
    """What an answer is about: the same digits may stand in a result for another reason."""

    state: RunState
    answer: str

    @cached_property
    def words(self) -> set[str]:
        """The words of the request, of the first searches, and of the answer, without numbers.
        After files were read, a look-up searches for names in them that nobody asked about."""
        said, read = [self.state.user_words, *self.state.search, self.answer], False
        for each in self.state.iterations:
            read |= bool(given_paths(each))
            said += strings(each.arguments) if each.by == "lookup" and not read else ()
            read &= not each.gathered
        return {each for each in words("\n".join(said)) if not each.isdigit()}

    @cached_property
    def numbers(self) -> Sequence[str]:
        """The answer's numbers and dates that the user has not said."""
        own = filter(is_value, claims(as_read(self.answer, self.results)))
        asked = in_all_readings(self.state.user_words)
        return [each for each in own if not holds(asked, each)]

    @cached_property
    def results(self) -> str:
        """What was found, in all readings of its numbers."""
        return in_all_readings(results(self.state))

    @cached_property
    def sources(self) -> Sequence[Source]:
        return [*sources_of(self.state)]

    @cached_property
    def telling(self) -> Sequence[Sequence[float]]:
        """How much each row of each source says of the subject. Rare words tell more, and those in
        the head or a row near by tell half. A row with a name tells nearly as much as any other
        row with it: one that defines the name may say nothing else."""
        own = [[self.words & {*words(row)} for row in each.rows] for each in self.sources]
        count = Counter(word for rows in own for row in rows for word in row)
        tools = [self.words & {*words(each.tool)} for each in self.sources if each.tool]
        count.update(word for has in tools for word in has)
        total = sum(map(len, own)) + len(tools)
        weights = {word: log((total + 1) / (rows + 0.5)) for word, rows in count.items()}
        told: list[list[float]] = []
        names: dict[str, float] = {}
        for source, rows in zip(self.sources, own, strict=True):
            head = self.words & {*words(source.tool or source.place)}
            told.append([])
            for number, (row, has) in enumerate(zip(source.rows, rows, strict=True)):
                near = head.union(*rows[max(0, number - NEAR_ROWS) : number + NEAR_ROWS + 1])
                # `fsum`, as the words of a set have no order: the sum must not depend on it.
                told[-1].append(fsum(weights.get(word, 0) for word in [*has, *near]) / 2)
                for name in filter(is_name, tokens(row)):
                    names[name] = max(names.get(name, 0), told[-1][-1] * BY_NAME)
        return [
            [
                max(tells, *(names.get(name, 0) for name in tokens(row)), 0)
                for row, tells in zip(source.rows, rows, strict=True)
            ]
            for source, rows in zip(self.sources, told, strict=True)
        ]

    @cached_property
    def foremost(self) -> float:
        """How much the most telling row says."""
        return max(map(max, filter(None, self.telling)))

    @cached_property
    def most(self) -> float:
        """How much the most telling row with a number says."""
        return max(
            (
                tells
                for source, rows in zip(self.sources, self.telling, strict=True)
                for row, tells in zip(source.rows, rows, strict=True)
                if any(map(is_number, tokens(row)))
            ),
            default=0.0,
        )

    def told(self, claim: str, source: Source) -> bool:
        """Whether a source holds a claim; a number in a row that says enough of the subject."""
        if not is_value(claim) or source.query or source.made.changed:  # made for the request
            return holds(source.read, claim)
        told = self.telling[source.number]
        if (place := _PLACE.fullmatch(source.place)) and claim.isdigit():
            path, first = place.groups()
            line = int(claim) - int(first)
            if 0 <= line < len(told) and (  # it may be the number of a line
                holds(self.answer, path.rsplit("/", 1)[-1])
                or 0 < told[line] >= LINE_SHARE * self.foremost
            ):
                return True
        enough = TELLING_SHARE / max(1, len(self.numbers)) * self.most
        rows = zip(source.rows, told, strict=True)
        return any(tells >= enough and tells > 0 and holds(row, claim) for row, tells in rows)
