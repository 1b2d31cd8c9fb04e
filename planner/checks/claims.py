"""Whether what an answer claims stands in what was found, and where.

What code can check of a claim in any language: quotations, names, paths, numbers. A number may also
follow from others: a sum, a difference, a product or a count.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import log
from typing import Any

from pydantic import BaseModel, ConfigDict

from planner.checks import schemas
from planner.evidence.context import readable
from planner.evidence.words import is_name, long_words, tokens, words
from planner.passage import Passage
from planner.state import Iteration, RunState
from planner.tools import Outcome

MAX_LINES = 6
"""Of one passage or result, in the evidence."""
MAX_LINE = 300
"""Characters."""
MAX_SUPPORT = 2
"""Lines that are named for an answer."""
MIN_QUOTE = 4
"""Characters of a quotation; a shorter one stands anywhere."""
MIN_ECHO = 4
"""Characters of a word that an answer may repeat from the request; shorter ones are like "the"."""
MAX_FACTS = 12
"""Of a long answer."""
UNHELD_SHARE = 0.25
"""Of what a sentence claims."""
REPEATED_WORDS = 0.8
"""Of a fact, that a text has which repeats it."""
SAME_WORDS = 0.6
"""Of the words of the shorter of two answers, so many stand in the other when they agree."""

_CLAIM = re.compile(
    r"https?://[^\s)>\]\"']+"  # a URL
    r"|(?:[\w.-]+/)+[\w.-]+"  # a path
    r"|\b\w+\.(?:py|ts|js|md|toml|yaml|yml|json|go|rs|java|c|h|cpp|txt|cfg|sh)\b"  # a file name
    r"|\b[A-Za-z]\w*_\w+\b|\b_\w+\b"  # snake_case
    r"|\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z0-9]+[A-Z]\w*\b"  # camelCase
    r"|\b[A-Z]{2,}[a-z]{2,}\w*\b"  # HTTPServer, but not APIs
    r"|\b\d+(?:\.\d+)?\b"  # a number
    r"|`[^`\n]+`|\"(?=\S)[^\"\n]{3,80}(?<=\S)\"|'(?=\S)[^'\n]{3,80}(?<=\S)'"  # a quotation
)

NEAR_ROWS = 2
"""Rows before and after a number that may say what it is about."""
BY_NAME = 0.8
"""Of what one row says of a subject, so much is said by another row that has the same name."""
TELLING_SHARE = 0.25
"""A number is proved by a row that says at least so much of the subject, as a share of the row with
a number that says most of it (docs/evaluation.md, "Numbers for another reason")."""

_PLACE = re.compile(r"(.+):(\d+)(?:-\d+)?")
_FILE = re.compile(r"[\w./-]+\.\w{1,8}")


class Evidence(BaseModel):
    """A passage or tool result that supports the answer."""

    model_config = ConfigDict(frozen=True)

    iteration: int
    step: int
    """0 is the gathering before the plan."""
    tool: str
    source: str = ""
    """`path:12-30` for lines of a file; empty for other results."""
    claims: list[str]
    """What of the answer stands in it."""
    lines: list[str]
    """The lines it stands in."""


def claims(text: str) -> list[str]:
    """The checkable parts of an answer: identifiers, paths, numbers, URLs, quotations."""
    found: dict[str, None] = {}
    for match in _CLAIM.finditer(text):
        found.setdefault(match.group().strip("`\"'").rstrip(".,;:"))
    return [claim for claim in found if claim]


def evidence(state: RunState) -> list[Evidence]:
    """The passages and results that hold the answer's quotations and claims, the best first. What
    the user said counts only beside something that the user did not say."""
    wanted = claims(f"{state.answer}\n{said(state, state.data)}")
    wanted = [claim for claim in wanted if claim not in state.unsupported]
    found: list[Evidence] = []
    subject = Subject(state, state.answer)
    cited = set()
    missing = [claim for claim in wanted if not holds(state.user_words, claim)]
    for source in subject.sources:
        held = [claim for claim in wanted if subject.told(claim, source)]
        quoted = any(quoted_in(quote, source.text) for quote in state.quotes)
        new = [claim for claim in held if claim in missing]
        lines = _telling(source.text, held, state.quotes)
        if not (quoted or new) or (source.place, *lines) in cited:
            continue
        cited.add((source.place, *lines))
        missing = [claim for claim in missing if claim not in held]
        found.append(
            Evidence(
                iteration=source.made.number,
                step=source.made.step,
                tool=source.made.tool,
                source=source.place,
                claims=held,
                lines=lines,
            )
        )
    return found


def unproved(state: RunState, answer: str) -> list[str]:
    """The numbers of an answer that stand in results, but nowhere with what they are about."""
    subject, found = Subject(state, answer), results(state)
    held = [
        claim
        for claim in claims(_plain(answer))
        if _is_number(claim) and not holds(state.user_words, claim) and holds(found, claim)
    ]
    return [
        claim for claim in held if not any(subject.told(claim, each) for each in subject.sources)
    ]


@dataclass(frozen=True)
class Subject:
    """What an answer is about: the same digits may stand in a result for another reason."""

    state: RunState
    answer: str

    @cached_property
    def words(self) -> set[str]:
        """Of the request, of what was searched for, and of the answer; no numbers."""
        lookups = [each.arguments for each in self.state.iterations if each.by == "lookup"]
        searched = [text for text in _said(lookups, "", ()) if not _FILE.fullmatch(text)]
        said = words("\n".join([self.state.user_words, *searched, self.answer]))
        return {word for word in said if not word.isdigit()}

    @cached_property
    def sources(self) -> Sequence["_Source"]:
        return [*_sources(self.state)]

    @cached_property
    def telling(self) -> Sequence[Sequence[float]]:
        """How much each row of each source says of it. A word tells the more the fewer rows have
        it, and half as much in the head or in a row near by. A row with a name tells nearly as
        much as any other row with it: one that defines the name may say nothing else."""
        own = [[self.words & {*words(row)} for row in each.rows] for each in self.sources]
        count = Counter(word for rows in own for row in rows for word in row)
        total = sum(map(len, own))
        weights = {word: log((total + 1) / (rows + 0.5)) for word, rows in count.items()}
        told: list[list[float]] = []
        names: dict[str, float] = {}
        for source, rows in zip(self.sources, own, strict=True):
            head = self.words & {*words(source.head)}
            told.append([])
            for number, (row, said) in enumerate(zip(source.rows, rows, strict=True)):
                near = head.union(*rows[max(0, number - NEAR_ROWS) : number + NEAR_ROWS + 1])
                told[-1].append(sum(weights.get(word, 0) for word in [*said, *near]) / 2)
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
    def most(self) -> float:
        """How much a row says of it that has any number."""
        return max(
            (
                tells
                for source, rows in zip(self.sources, self.telling, strict=True)
                for row, tells in zip(source.rows, rows, strict=True)
                if any(map(_is_number, tokens(row)))
            ),
            default=0.0,
        )

    def told(self, claim: str, source: "_Source") -> bool:
        """Whether a passage or a result holds a claim; a number in a row that says enough of what
        the answer is about, held against the other rows with numbers."""
        if not _is_number(claim):
            return holds(f"{source.place}\n{source.text}", claim)
        told = self.telling[source.number]
        if (place := _PLACE.fullmatch(source.place)) and claim.isdigit():
            path, first = place.groups()
            line = int(claim) - int(first)
            if 0 <= line < len(told) and (  # it may be the number of a line
                holds(self.answer, path.rsplit("/", 1)[-1]) or self._enough(told[line])
            ):
                return True
        rows = zip(source.rows, told, strict=True)
        return any(self._enough(tells) for row, tells in rows if holds(row, claim))

    def _enough(self, tells: float) -> bool:
        return tells > 0 and tells >= TELLING_SHARE * self.most


@dataclass(frozen=True)
class _Source:
    """A passage or a result."""

    number: int
    made: Iteration
    place: str
    """`path:12-30`; empty for a result."""
    text: str

    @cached_property
    def rows(self) -> Sequence[str]:
        return _plain(self.text).splitlines()

    @property
    def head(self) -> str:
        """What stands for all its rows: of a short result what it was asked for."""
        short = not self.place and len(self.rows) <= MAX_LINES
        return f"{self.made.tool} {self.made.prompt}" if short else self.place


def _sources(state: RunState) -> Iterator[_Source]:
    """Every passage shown and every result, those with a quotation first."""
    found = []
    for iteration in state.iterations:
        if iteration.gathered:
            found += [(iteration, each.place, each.text) for each in iteration.gathered.passages]
        elif iteration.by == "choice" and iteration.outcome is Outcome.SUCCESS:
            found.append((iteration, "", f"{iteration.arguments}\n{readable(iteration.result)}"))
    found.sort(key=lambda each: not any(quoted_in(quote, each[2]) for quote in state.quotes))
    for number, each in enumerate(found):
        yield _Source(number, *each)


def _telling(text: str, held: Sequence[str], quotes: Sequence[str]) -> list[str]:
    rows = [row for row in text.splitlines() if row.strip()]
    scores = [
        sum(holds(row, claim) for claim in held)
        + 2 * any(quoted_in(quote, row) for quote in quotes)
        for row in rows
    ]
    best = max(scores, default=0)
    telling = [row for row, score in zip(rows, scores, strict=True) if score > 0.6 * best]
    return [row.strip()[:MAX_LINE] for row in telling[:MAX_LINES]] if best else []


def quoted_in(quote: str, text: str) -> bool:
    """Whether a quotation stands in a text, but for white space."""
    plain = _flat(quote)
    return len(plain) >= MIN_QUOTE and plain in _flat(text)


def supporting(state: RunState, answer: str, request: str) -> list[str]:
    """The lines of passages and of results that say an answer, the best first: those that hold most
    of what it claims, and of its words beyond the request's; of all its words where it has no
    others, as "yes" has not. None is there only for a number that one before it holds. Empty when
    none does."""
    answer = _plain(answer)
    wanted = claims(answer)
    told = set(words(answer))
    new = told - set(words(request)) or told
    scored: dict[str, float] = {}
    says: dict[str, Set[str]] = {}
    texts = [each.text for each in state.passages]
    texts += [readable(each.result) for each in _chosen(state)]
    for line in (line for text in texts for line in text.splitlines()):
        plain = _plain(line)
        have = {*words(plain)}
        held = {claim for claim in wanted if holds(plain, claim)}
        if held or have & new:
            score = 3 * len(held) + len(have & new) + len(have & told) / 4
            scored.setdefault(shown := line.strip()[:MAX_LINE], score)
            says.setdefault(shown, held | have & told)
    lines: list[str] = []
    for line in sorted(scored, key=lambda line: -scored[line]):
        known = {each for line in lines for each in says[line] if _is_number(each)}
        if not lines or (scored[line] >= scored[lines[0]] / 2 and says[line] - known):
            lines.append(line)
        if len(lines) == MAX_SUPPORT:
            break
    return lines


def _flat(text: str) -> str:
    return " ".join(re.sub(r"^[ \t]*\d+: ", "", text, flags=re.MULTILINE).split())


def unsupported(state: RunState, answer: str) -> list[str]:
    """What an answer claims and nothing that was seen says: no passage, no result, no note, nor the
    request. Numbers may follow from others in the answer; `1,500` is two of them or 1500."""
    return _unsaid(answer, seen(state))


def not_done(state: RunState, answer: str) -> list[str]:
    """What the answer to a request for a change claims, and no call and no result says. That the
    request or the plan says so proves nothing: only what was done does."""
    return _unsaid(answer, results(state))


def echoed(state: RunState, answer: str, calls: Sequence[Iteration] | None = None) -> list[str]:
    """The words that an answer repeats of the request, or of what these calls were for, and no
    result has."""
    asked = state.request.prompt if state.request else ""
    if calls is not None:
        asked = "\n".join(f"{each.prompt}\n{each.arguments}" for each in calls)
    missing = {*long_words(asked, MIN_ECHO)} - {*words(results(state))}
    return [word for word in dict.fromkeys(words(answer)) if word in missing]


def invented(state: RunState, call: Iteration, known: str) -> bool:
    """Whether a model gave a call a text of which no word was said before: not by the user, in no
    result, and not in what is `known` of the tool."""
    before = [each.text for each in _sources(state) if each.made.number < call.number]
    said = {*words("\n".join([state.user_words, known, *before]))}
    texts = [text for text in _said(call.arguments, "", ()) if not _is_number(text)]
    given = [{*words(text)} for text in texts]
    return call.by_model and any(told and not told & said for told in given)


def done(calls: Sequence[Iteration]) -> str:
    """The calls that changed something, a line each."""
    return "\n".join(f"- {each}" for each in changes(calls))


def changes(calls: Sequence[Iteration]) -> list[str]:
    """The calls that changed something: the tool and its arguments."""
    made = [each for each in calls if each.changes and each.outcome is Outcome.SUCCESS]
    return [_call(each) for each in made]


def left_undone(calls: Sequence[Iteration], steps: Sequence[str]) -> str:
    """Calls that did not succeed, a line each, with the reason, and steps that were not begun."""
    failed = [
        f"{_call(each)}: {_why_not(each)}" if each.outcome else f"{each.prompt}: not begun"
        for each in calls
    ]
    return "\n".join(f"- {each}" for each in [*failed, *(f"{step}: not begun" for step in steps)])


def _why_not(iteration: Iteration) -> str:
    if iteration.approval and not iteration.approval.approved:
        return f"not approved ({iteration.approval.reason})"
    return iteration.result.strip().partition("\n")[0][:200]


def _call(iteration: Iteration) -> str:
    return f"{iteration.tool} {json.dumps(iteration.arguments, ensure_ascii=False)}"


def _unsaid(answer: str, text: str) -> list[str]:
    text += f"\n{_plain(text)}"
    return min((_unheld(each, text) for each in (answer, _plain(answer))), key=len)


def _unheld(answer: str, text: str) -> list[str]:
    wanted = claims(answer)
    held = [claim for claim in wanted if holds(text, claim) or _file_in(claim, text)]
    return [
        claim
        for claim in wanted
        if claim not in held and not (_is_number(claim) and _follows(claim, answer, held))
    ]


def results(state: RunState) -> str:
    """What came of tool calls: passages, and the calls that succeeded with their results."""
    texts = [f"{each.place}\n{each.heading}\n{_numbered(each)}" for each in state.passages]
    texts += [f"{each.arguments}\n{readable(each.result)}" for each in _chosen(state)]
    return "\n".join(texts)


def seen(state: RunState) -> str:
    """All that the models were shown and the user said."""
    texts = [results(state)]
    # A single step's notes are an answer, which supports nothing.
    noted = [] if state.single_steps else state.completed_steps
    texts += [f"{step.objective}\n{step.notes}" for step in noted]
    if state.started:
        texts += [state.user_words, state.started.listing or ""]
    return "\n".join(texts)


def _chosen(state: RunState) -> list[Iteration]:
    """The iterations that a model chose and that came to a result."""
    return [
        each for each in state.iterations if each.by == "choice" and each.outcome is Outcome.SUCCESS
    ]


def _numbered(passage: Passage) -> str:
    lines = passage.text.splitlines()
    return "\n".join(f"{number}: {line}" for number, line in enumerate(lines, passage.first))


def _file_in(claim: str, text: str) -> bool:
    """Whether a path's last part stands in the text: an answer may say more folders, or fewer."""
    return "/" in claim and holds(text, claim.rsplit("/", 1)[-1])


def _is_number(claim: str) -> bool:
    return re.fullmatch(r"\d+(?:\.\d+)?", claim) is not None


def _follows(claim: str, answer: str, held: Sequence[str]) -> bool:
    """Whether a number counts the names in the answer, or follows from two of its numbers."""
    value = float(claim)
    names = {each for each in held if not _is_number(each)}
    items = re.findall(r"(?m)^\s*(?:[-*]|\d+[.)])\s", answer)
    if value in (len(names), len(items)) and value > 1:
        return True
    numbers = [float(each) for each in held if _is_number(each)]
    if len(numbers) > 2 and abs(sum(numbers) - value) < 1e-6:
        return True
    return any(
        abs(result - value) < 1e-6
        for first, second in combinations(numbers, 2)
        for result in (first + second, abs(first - second), first * second)
    )


def unsupported_data(state: RunState, answer: str, data: Any) -> list[str]:
    """The same for the answer's data, beyond what the answer says, which is checked by itself."""
    claimed = unsupported(state, said(state, data))
    return [claim for claim in claimed if not holds(answer, claim)]


def said(state: RunState, data: Any) -> str:
    """What data holds, as an answer would say it, one value a line. What the caller's schema names
    is left out, as words of the request are."""
    schema = state.request.data_schema if state.request else None
    return "\n".join(_said(data, "", schemas.named(schema or {})))


def _said(value: Any, key: str, named: Sequence[Any]) -> Iterator[str]:
    match value:
        case dict():
            for name, inner in value.items():
                yield from _said(name, "", named)
                yield from _said(inner, name, named)
        case list():
            for inner in value:
                yield from _said(inner, key, named)
        case None | bool():
            return
        case _ if value in named:
            return
        case int() if "line" in key.lower():
            yield f"line {value}"  # the place of a line supports its number
        case float() if value.is_integer():
            yield str(int(value))
        case _:
            yield str(value)


def borne_out(state: RunState, facts: Sequence[str], known: Sequence[str]) -> list[str]:
    """The facts of a long answer that results hold and that are not known yet."""
    kept: list[str] = []
    for fact in facts:
        alone = _FILE.fullmatch(fact.strip())  # the name of a file says nothing
        new = not any(repeats(fact, other) for other in (*known, *kept))
        if fact.strip() and not alone and new and not unsupported(state, fact):
            kept.append(fact.strip())
    return kept


def mostly_held(state: RunState, sentence: str) -> bool:
    """Whether results hold all that a sentence of a long answer claims, or nearly all of a list,
    such as its names without the number that counts them: the end says what they do not."""
    missing = unsupported(state, sentence)
    return len(missing) <= UNHELD_SHARE * len(claims(sentence))


def telling(facts: Sequence[str], query: str) -> list[str]:
    """Of many facts those that have most words of a query, and most names and numbers besides, in
    their order."""
    asked = {*words(query)}

    def tells(fact: str) -> int:
        return len(asked & {*words(fact)}) + len(beyond(fact, query))

    best = sorted(facts, key=tells, reverse=True)[:MAX_FACTS]
    return [fact for fact in facts if fact in best]


def repeats(fact: str, text: str) -> bool:
    """Whether a text has most words of a fact, and all its names and numbers."""
    said = {*words(fact)}
    most = len(said & {*words(text)}) >= REPEATED_WORDS * len(said)
    return most and all(holds(text, claim) for claim in claims(fact))


def agree(first: str, second: str, request: str) -> bool:
    """Whether two answers say the same: one of them holds all that the other claims beyond the
    request; where neither claims a name or a number, most of the words."""
    readings = [(first, second), (second, first)]
    told = [(beyond(one, request), _plain(other)) for one, other in readings]
    if any(claimed for claimed, _ in told):
        return any(
            claimed and all(holds(other, claim) for claim in claimed) for claimed, other in told
        )
    asked = set(words(request))
    short, long = sorted(({*words(text)} - asked for text in (first, second)), key=len)
    return len(short & long) >= SAME_WORDS * len(short)


def only_repeats(answer: str, request: str) -> bool:
    """Whether an answer is nothing but names or numbers that the request has, and all of these:
    asked for the base of `Foo`, a small model names `Foo`. One of several that the request names is
    an answer."""
    told, named = claims(answer), claims(_plain(request))
    bare = bool(told) and not [*words(_CLAIM.sub("", answer))]
    return bare and {*told} == {*named}


def beyond(answer: str, request: str) -> list[str]:
    """What an answer claims that the request does not, paths by their file's name."""
    plain = [claim.rsplit("/", 1)[-1] for claim in claims(_plain(answer))]
    return [claim for claim in plain if not holds(request, claim)]


def _plain(text: str) -> str:
    """Numbers without separators: `11,340` and `11_340` are 11340."""
    return re.sub(r"(?<=\d)[_,](?=\d{3}(?!\d))", "", text)


def holds(text: str, claim: str) -> bool:
    """Whether the claim stands in the text as a whole word."""
    return claim in text and bool(re.search(rf"(?<!\w){re.escape(claim)}(?!\w)", text))
