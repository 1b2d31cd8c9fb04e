"""Whether a text is in the language of the prompts, which small models fall into: their own words
are what tells it, so that there is no list of words to keep."""

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from planner.evidence.words import is_name, tokens, words

LANGUAGE = "English"
"""That of the prompts."""
MIN_PLAIN = 2
"""Words of a text that are no names; a single one tells nothing of its language."""
OWN_SHARE = 0.2
"""The share of them that prompts have too is higher in English alone (docs/experiments.md)."""
SEARCHED_SHARE = 0.5
"""The share of a request's words that were searched for: they are English, as code is."""
_EXAMPLES = "brief_examples.txt"
"""These are in many languages."""


@cache
def _own_words() -> frozenset[str]:
    own = (each for each in files("planner.prompts").iterdir() if each.name.endswith(".txt"))
    texts = (each.read_text("utf-8") for each in own if each.name != _EXAMPLES)
    return frozenset(words(re.sub(r"\$\w+", "", "\n".join(texts))))


def _plain(text: str) -> list[str]:
    spelled = (each for each in tokens(text) if not (is_name(each) or each.isdigit()))
    return [word for each in spelled for word in words(each)]


def is_own(text: str) -> bool:
    """Whether a text is in the language of the prompts."""
    plain = _plain(text)
    return len(plain) >= MIN_PLAIN and _share(plain, _own_words()) > OWN_SHARE


def is_other(request: str, search: Sequence[str]) -> bool:
    """Whether a request, for which these words are searched for, is in another language."""
    plain = _plain(request)
    if len(plain) < MIN_PLAIN or _share(plain, _own_words()) > OWN_SHARE:
        return False
    return _share(plain, {*words("\n".join(search))}) <= SEARCHED_SHARE


def _share(plain: Sequence[str], known: frozenset[str] | set[str]) -> float:
    return sum(each in known for each in plain) / len(plain)
