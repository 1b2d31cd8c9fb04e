"""Texts of models and strangers as Markdown that fetches nothing and hides nothing.

A client that renders Markdown fetches an image without asking, and the image's URL can carry data
that a hostile text had the model put into it. Clients have many kinds of parsers, so this works in
code and raw HTML too. It inserts blanks, which do not change the meaning of code.
"""

import re

from server.text import clean

_CLOSES_AN_IMAGE = re.compile(r"\]\s*[\[(:]|\]\]")
_IMAGE = re.compile(r"!(?=\[)")
_TAG = re.compile(r"<(?=[a-z])", flags=re.IGNORECASE)
_HIDING_TAG = re.compile(r"<(?=style\b|script\b|!--)", flags=re.IGNORECASE)
"""What hides the text that follows."""


def inert(text: str) -> str:
    """The Markdown without invisible characters, with a blank in images and tags that may fetch."""
    text = clean(text)  # first: what is taken out may stand between `!` and `[`
    if _CLOSES_AN_IMAGE.search(text):  # without a link or a definition there is no image
        text = _IMAGE.sub("! ", text)
    *closed, rest = _HIDING_TAG.sub("< ", text).split(">")
    return ">".join([*map(_without_fetching, closed), _without_fetching(rest, open_end=True)])


def _without_fetching(text: str, *, open_end: bool = False) -> str:
    """A text up to a `>`, in time linear in its length. A tag needs an attribute to fetch, and so
    an equals sign before its end; a quoted `>` comes after that. With an `open_end`, a tag of its
    last line may end in what is shown next."""
    attributes_end = text.rfind("=") + 1
    head, tail = text[:attributes_end], text[attributes_end:]
    if open_end:
        last_line = tail.rfind("\n") + 1
        tail = tail[:last_line] + _TAG.sub("< ", tail[last_line:])
    return _TAG.sub("< ", head) + tail


def inert_piece(text: str) -> str:
    """The same for a piece of a text whose rest is shown next to it, wherever it was cut."""
    return re.sub(r"!(?=\[|\Z)|<(?=[a-z!]|\Z)", r"\g<0> ", clean(text), flags=re.IGNORECASE)
