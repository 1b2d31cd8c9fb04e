"""Texts of models and strangers as Markdown that fetches nothing and hides nothing.

A client that renders Markdown fetches an image without asking, and the image's URL can carry data
that a hostile text had the model put into it. Clients use many kinds of parsers, so this relies on
none of them: it also works in what a parser takes for code, and in raw HTML. It inserts blanks,
which do not change the meaning of code.
"""

import re

from server.text import clean

_CLOSES_AN_IMAGE = re.compile(r"\]\s*[\[(:]|\]\]")
_IMAGE = re.compile(r"!(?=\[)")
# A tag needs an attribute to fetch, and so an equals sign before its end; a quoted `>` comes after
# that. A tag may end in what is shown next. A comment hides what follows.
_FETCHING_TAG = re.compile(
    r"<(?=[a-z](?:[^>]*=|[^>\n]*\Z)|style\b|script\b|!--)", flags=re.IGNORECASE
)


def inert(text: str) -> str:
    """The Markdown without invisible characters, and with a blank in each image and each HTML tag
    that could fetch."""
    text = clean(text)  # first: what is taken out may stand between `!` and `[`
    if _CLOSES_AN_IMAGE.search(text):  # without a link or a definition there is no image
        text = _IMAGE.sub("! ", text)
    return _FETCHING_TAG.sub("< ", text)


def inert_piece(text: str) -> str:
    """The same for a piece of a text whose rest is shown next to it, wherever it was cut."""
    return re.sub(r"!(?=\[|\Z)|<(?=[a-z!]|\Z)", r"\g<0> ", clean(text), flags=re.IGNORECASE)
