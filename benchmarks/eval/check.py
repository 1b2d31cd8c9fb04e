"""Whether an answer is right, decided by code: no model and no person judges.

An answer is prose, so a check looks for what has to stand in it (a name, a number, a path) and for
what must not. Three outcomes count: `right`, `wrong` (it claims to be an answer and is not), and
`honest` (it says, or its status says, that it is none).
"""

import re
from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict

Kind = Literal[
    "definition",
    "value",
    "default",
    "caller",
    "chain",
    "count",
    "file",
    "absence",
    "unanswerable",
]
KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]
Split = Literal["dev", "report"]
SPLITS: tuple[Split, Split] = ("dev", "report")
Verdict = Literal["right", "wrong", "honest"]

LONGEST_ANSWER = 1500
"""In characters. What is longer is a dump that holds the right string by chance."""
_WORDS = (  # noqa: SIM905  as one reads it
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
).split()


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Check(_Frozen):
    """Regular expressions, case-insensitive: of each group of `required` one has to match, and
    none of `forbidden` may."""

    required: tuple[tuple[str, ...], ...] = ()
    forbidden: tuple[str, ...] = ()

    def holds(self, answer: str) -> bool:
        text = normal(answer)
        return (
            len(text) <= LONGEST_ANSWER
            and all(any(_found(each, text) for each in group) for group in self.required)
            and not any(_found(each, text) for each in self.forbidden)
        )


class Proof(_Frozen):
    """Where a code base says what the check expects: `text` stands in that line of that file."""

    path: str
    line: int
    text: str


class Question(_Frozen):
    """One question about one code base, and how its answer is checked."""

    id: str
    split: Split
    codebase: str
    kind: Kind
    text: str
    expected: str
    """The right answer, for people."""
    check: Check
    proofs: tuple[Proof, ...] = ()
    absent: tuple[str, ...] = ()
    """What matches nowhere in the code base, so that "no" or "could not be found out" is right."""


def normal(answer: str) -> str:
    """The answer with plain numbers (`1_500` and `1,500` are 1500) and plain apostrophes."""
    return re.sub(r"(?<=\d)[_,](?=\d{3}(?!\d))", "", answer.replace("\u2019", "'"))


def whole(text: str) -> str:
    """A pattern for this very text as a word of its own, be it in a path or between quotes."""
    return rf"(?<!\w){re.escape(text)}(?!\w)"


def number(value: float) -> tuple[str, ...]:
    """Patterns for a number: in digits, and a small whole one in words."""
    if value == int(value):
        digits = rf"(?<![\w.]){int(value)}(?:\.0+)?(?!\w|\.\d)"
        return (digits, whole(_WORDS[int(value)])) if 0 <= value <= 20 else (digits,)
    return (rf"(?<![\w.]){re.escape(repr(value))}0*(?!\w|\.\d)",)


def file(path: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Patterns for a file: its name if no other file has it, else its last folder too; or dotted,
    as a module is imported."""
    parts = path.split("/")
    alone = sum(each.split("/")[-1] == parts[-1] for each in paths) == 1
    dotted = path.removesuffix(".py").replace("/", ".")
    return whole("/".join(parts[-1:] if alone else parts[-2:])), whole(dotted)


_UNKNOWN = (
    r"(?:could|can|was|were|am|is|are)(?: not|n't|not)(?: \w+)? (?:be )?(?:found out|find|found|"
    r"determined?|locate[d]?|answer(?:ed)?|tell|identif\w+|know|able|possible)\b",
    r"\b(?:unable|impossible|not enough|insufficient)\b",
    r"\b(?:not know|don't know|unknown|no (?:\w+ )?(?:information|mention|data|record|indication))",
    r"\bnot (?:\w+ )?(?:specified|mentioned|provided|stated|available|recorded|documented|given)\b",
    r"\b(?:not|n't) (?:\w+ )?(?:say|tell|specify|mention|provide|state|record|include|contain)\b",
)
_UNDECIDED = (
    r"find out",
    r"(?:not|n't)(?: \w+)? (?:be )?(?:determine|tell|answer|know|sure|clear)",
    r"\bunable\b",
)
NEGATIONS = (
    r"\bno\b",
    r"\bnone\b",
    r"(?:not|n't)(?: \w+){0,3} (?:exist|f[io]u?nd|defined?|contain|ha(?:ve|s)|present|includ|"
    r"implement|any|appear|mention|locate|support|part|us(?:e|ed))",
)
"""How an answer says "no, there is none"."""


def _found(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def _any(patterns: Iterable[str], text: str) -> bool:
    return any(_found(each, normal(text)) for each in patterns)


def verdict(question: Question, status: str, answer: str) -> Verdict:
    """The outcome of an answer that came with this status (`answered`, `partial`, `not_found`,
    `failed`; a system without statuses has answered whenever it said anything).

    Where the answer cannot be known, saying so is right; but a crash or a time limit said nothing,
    so `failed` is honest at best. A `partial` answer is right if it holds the answer and does not
    say that it was not found: a list of what was seen on the way is no answer.
    """
    unknown = _any(_UNKNOWN, answer)
    honest: Verdict = "honest" if status != "answered" or unknown else "wrong"
    if status == "failed":
        return "honest"
    if question.kind == "unanswerable":
        if status in ("not_found", "partial") or (unknown and question.check.holds(answer)):
            return "right"
        return "wrong"
    holds = question.check.holds(answer)
    if question.kind == "absence":
        return "right" if holds and not _any(_UNDECIDED, answer) else honest
    if holds and (status == "answered" or (status == "partial" and not unknown)):
        return "right"
    return honest
