"""Whether two answers say the same, in any language."""

import re
import unicodedata
from collections.abc import Collection, Sequence
from itertools import pairwise

from planner.checks.citations import MIN_NEW
from planner.checks.claims import (
    STOPS,
    beyond,
    holds,
    in_all_readings,
    is_number,
    rounded,
    without_lines,
)
from planner.checks.dates import DAY, in_moment, in_words
from planner.checks.forms import spelled_otherwise
from planner.checks.grounding import queried, tells, unsupported
from planner.checks.lenient import has_block
from planner.evidence.words import LETTER, UPPER, is_unspaced, says, tokens, words
from planner.protocol import Answer
from planner.state import RunState
from planner.text import begin_alike, flat

LONG = 200
"""Characters from which on an answer is too long for two readings to agree on."""
MAX_NAMES = 2
"""Names and numbers of an answer, besides the request's; more are a list."""
SAME_WORDS = 0.6
"""The share of the shorter answer's words in one that agrees with it."""
FEW_WORDS = 4
"""An answer of fewer words agrees with one that begins with all of them."""
MIN_NEGATION, MAX_NEGATION = 3, 5
"""Characters of a word that negates an answer, such as "not" and "never"."""

_PROPER_NAME = re.compile(rf"[{UPPER}]\w*(?: [{UPPER}]\w*)*")
_OPENING = re.compile(rf"\W*({LETTER}+|\w{{1,3}})(?:[,.;:!،؛](?=\s|\Z)|[，、。：；！])")
"""The first word of an answer, set off from the rest; in scripts without spaces, a short one."""


def agree(first: str, second: str, request: str) -> bool:
    """Whether two answers say the same: one holds all that the other claims beyond the request, or
    the whole of it if that is a proper name; without any claims, most of its words."""
    first, second = _as_named(first, second, request), _as_named(second, first, request)
    pairs = [(first, second), (second, first)]
    if any(_is_proper_name_in(one, other, request) for one, other in pairs):
        return True
    if _begins_otherwise(first, second) and _begins_otherwise(second, first):
        return False
    told = [(beyond(one, request), one, in_all_readings(other)) for one, other in pairs]
    if any(claimed for claimed, *_ in told):
        return any(
            claimed and all(_says_too(other, claim, one) for claim in claimed)
            for claimed, one, other in told
        )
    if _is_put_into(*sorted(map(_in_order, (first, second)), key=len)):
        return False
    short, long = sorted(({*words(text)} - {*words(request)} for text in (first, second)), key=len)
    if len(short) >= FEW_WORDS:
        return len(short & long) >= SAME_WORDS * len(short)
    asked = {*_in_order(request)}  # "it is on" and "it is not on" share most of their words
    texts = [_in_order(text) for text in (first, second)]
    new = [[each for each in text if each not in asked] for text in texts]
    few, more = sorted(new, key=len)
    if not few:
        return not more
    answer, sentence = sorted(texts, key=len)
    return more[: len(few)] == few or (answer in new and _ends_in(sentence, answer, asked))


def _as_named(text: str, other: str, request: str) -> str:
    """A text with "Nadia" for "Nadia Petrov", if the request and the other text say that alone."""
    names = {each for each in re.findall(r"\w+", request)[1:] if each[0].isupper()}
    following = pairwise([*re.findall(r"\w+", other), ""])
    alone = {one for one, after in following if not after[:1].isupper()}
    told, kept = text.split(), list[str]()
    for word in told:
        if not (kept and kept[-1] in names & alone and word[0].isupper()):
            kept.append(word)
    return text if len(kept) == len(told) else " ".join(kept)


def _says_too(text: str, claim: str, answer: str) -> bool:
    """Whether a text has a claim of an answer; dates and times may have another form."""
    if holds(text, claim) or (claim.isdigit() and in_moment(claim, answer, text)):
        return True
    if is_number(claim) and (rounded(claim, text) or spelled_otherwise(claim, answer, text)):
        return True
    return DAY.fullmatch(claim) is not None and in_words(claim, text)


def _in_order(text: str) -> list[str]:
    """The words of a text, one by one; of those without spaces each character."""
    return [
        each
        for token in tokens(text)
        for each in (token if is_unspaced(token) else [*words(token)])
    ]


def _is_put_into(short: Sequence[str], long: Sequence[str]) -> bool:
    """Whether one text is the other with a short word put into it, as most languages negate: "it is
    not on". What an answer goes on to say stands at its end."""
    same = begin_alike(short, long)
    end = len(long) - len(short) + same
    if same == len(short) or [*short[same:]] != [*long[end:]]:
        return False
    word = "".join(long[same:end])
    if is_unspaced(word):  # a syllable, which is one wide character
        most = 1 if unicodedata.east_asian_width(word[0]) == "W" else MIN_NEGATION
        return len(word) <= most and word not in "".join(short)
    # An article or a preposition is shorter, or stands elsewhere too; other scripts have few.
    least = MIN_NEGATION if word.isascii() else 2
    return end == same + 1 and least <= len(word) <= MAX_NEGATION and word not in short


def _ends_in(text: Sequence[str], answer: Sequence[str], asked: Collection[str]) -> bool:
    """Whether a sentence ends in a short answer: "the default is off". What may negate it there,
    as in "the default is not off", is a word right before it that the request has not."""
    last = ["", *text[: -len(answer)]][-1]
    negates = last not in asked and MIN_NEGATION <= len(last) <= MAX_NEGATION
    return [*text[-len(answer) :]] == answer and not (negates or is_unspaced(last))


def _begins_otherwise(answer: str, other: str) -> bool:
    """Whether an answer begins with a word set off that another one has not: "Yes, because …"."""
    opening = _OPENING.match(answer)
    return opening is not None and opening[1].casefold() not in other.casefold()


def _is_proper_name_in(answer: str, other: str, request: str) -> bool:
    """Whether the whole of an answer is a name, "The Blue Hall", that another one has and the
    request has not. A single word must not begin the other answer, which names nothing else."""
    whole = flat(answer).rstrip(STOPS)
    if says(request, answer) or not _PROPER_NAME.fullmatch(whole):
        return False
    if " " in whole:
        return says(other, whole)
    return holds(flat(other)[1:], whole) and {*beyond(other, request)} <= {whole}


def agreed(state: RunState, answer: str, reading: str) -> str | None:
    """The answer, if another reading says the same and the results hold it; without the lines of
    its places where they differ in these alone. Two that say what a query has found say the same.
    """
    found = queried(state)
    for said, other in ((answer, reading), (without_lines(answer), without_lines(reading))):
        same = agree(said, other, state.question) or (tells(said, found) and tells(other, found))
        if same and not unsupported(state, said):
            fuller = _claims_more(state, other, said)
            return other if fuller and not unsupported(state, other) else said
    return None


def agreed_before(state: RunState, said: Answer, reading: str) -> str | None:
    """What was written of the results before an answer, where another reading says the same: a
    small model may answer something else than what it just wrote."""
    before = said.assessment
    names = beyond(before, state.question)
    return agreed(state, before, reading) if names and is_short(before, state.question) else None


def with_reason(state: RunState, answer: str, said: Answer) -> str:
    """An answer such as "No" with what was written of the results before it, which says why; any
    other answer as it is. That one word stands in no explanation of it, in most languages."""
    reason = said.assessment.strip()
    tells = len({*words(reason)} - {*words(state.question)}) >= MIN_NEW
    bare = len(tokens(answer)) == 1 and not (is_number(answer) or says(reason, answer))
    if bare and tells and is_short(reason, state.question) and not unsupported(state, reason):
        return f"{answer.rstrip(STOPS)}. {reason}"
    return answer


def is_short(answer: str, question: str) -> bool:
    """Whether two readings may agree on an answer: it is neither an explanation nor a list, and
    gives no example."""
    few = len(beyond(answer, question)) <= MAX_NAMES
    return len(answer) <= LONG and few and not has_block(answer)


def _claims_more(state: RunState, answer: str, other: str) -> bool:
    """Whether an answer says more than another one: where one of two holds what the other claims, a
    number that stands in both may be a part of one alone."""
    if state.wants == "long answer":
        return len(answer) > len(other)
    return len(beyond(answer, state.question)) > len(beyond(other, state.question))
