"""What a text search looks for: the words of a question, and those to search for beside it."""

import re
from collections.abc import Iterable, Sequence
from unicodedata import normalize

from planner.evidence.hits import Hit
from planner.evidence.words import (
    beginning,
    in_another_spelling,
    is_name,
    long_words,
    says,
    tokens,
    words,
)

MAX_TERMS = 24
"""The words that one search may have."""
MIN_TERM = 3
"""Characters of a word that is searched for; a name may be shorter."""
_TELLING = re.compile(r"[A-Z]{2,}|\d{3,}")
"""An abbreviation or a number, which says more than other short words."""
MIN_OWN_TERM = 5
"""The same for the question's own words; shorter ones are in every line of prose."""


def search_terms(question: str, more: Sequence[str]) -> list[str]:
    """What to search for: names, and the stems of the words beside the question and of its own
    longer words, what tells most first."""
    asked = tokens(question)
    beside = [token for each in more for token in tokens(each)]
    telling = {each for each in [*asked, *beside] if _TELLING.fullmatch(each)}
    if question == question.upper():
        telling = set()
    named, known = (
        [token for token in each if is_name(token) or token in telling] for each in (asked, beside)
    )
    plain = [
        beginning(stem, token) for token in beside for stem in words(token) if len(stem) >= MIN_TERM
    ]
    own = [beginning(stem, each) for each in asked for stem in long_words(each, MIN_OWN_TERM)]
    leading = [*named, *known, *plain]
    if len(_distinct(named)) > MAX_TERMS // 2:  # as in a log: those it is about are chosen by now
        leading = [*known, *plain, *named]
    return _distinct([*leading, *own])[:MAX_TERMS]


def in_any_case(term: str) -> str:
    """A pattern for a text in any case, which every dialect of regular expressions knows."""
    cases = ((each.upper(), each.lower(), re.escape(each)) for each in term)
    return "".join(
        f"[{up}{low}]" if up != low and len(up + low) == 2 else same for up, low, same in cases
    )


def spelled_out(terms: Sequence[str], question: str, more: Sequence[str]) -> list[str]:
    """The words that these terms search for, as the question and those beside it spell them."""
    asked, beside = tokens(question), tokens("\n".join(more))
    names = filter(is_name, [*asked, *beside])
    spellings: dict[str, str] = {}
    for token in [*names, *beside, *asked]:
        for searched in (token.lower(), *(beginning(stem, token) for stem in words(token))):
            spellings.setdefault(searched, token)
    return _distinct(spellings.get(term.lower(), term) for term in terms)


def absent(
    question: str, more: Sequence[str], searched: Sequence[str], found: Sequence[Hit]
) -> list[str]:
    """The names of the question, and its words among `more`, that were searched for and stand in
    none of the lines found, nor in their paths."""
    text = normalize("NFC", "\n".join(f"{hit.path} {hit.text}" for hit in found)).lower()
    terms = {term.lower() for term in searched}

    def spelled(said: str) -> set[str]:
        """What to look for: a name as a whole, and the stems of other words."""
        return {
            beginning(part, token)
            for token in tokens(said)
            for part in ([token.lower()] if is_name(token) else words(token))
        }

    return [
        each
        for each in dict.fromkeys([*filter(is_name, tokens(question)), *more])
        if terms >= (looked_for := spelled(each))
        and says(question, each)
        and not any(part in text for part in looked_for)
        and not in_another_spelling(each, text)
    ]


def _distinct(terms: Iterable[str]) -> list[str]:
    """The terms, each once whatever its case."""
    found: dict[str, str] = {}
    for term in terms:
        found.setdefault(term.lower(), term)
    return list(found.values())
