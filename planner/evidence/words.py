"""The words of texts, names and paths, as everything that is ranked or compared sees them."""

import re
from collections.abc import Iterator
from functools import lru_cache

import Stemmer

_SCRIPTS = r"\u3040-\u30ff\u3400-\u9fff"
_UNSPACED = re.compile(f"[{_SCRIPTS}]+")
"""Words in scripts that put no space between them."""
_BESIDE = re.compile(rf"(?<=[{_SCRIPTS}])(?=[A-Za-z0-9_])|(?<=[A-Za-z0-9_])(?=[{_SCRIPTS}])")
LETTER = rf"[^\W{_SCRIPTS}]"
"""What a name may go on with; a name may stand right beside a word in one of these scripts."""
_PLAIN = rf"[^\W_{_SCRIPTS}]"
TOKEN = re.compile(rf"{_UNSPACED.pattern}|(?<!_)_*{_PLAIN}+(?:_+{_PLAIN}+)*_*")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?(?:[a-z]|[^\W\dA-Za-z_])+|[A-Z]+|\d+")
_MARKED = re.compile(r"(?<!\w)[@`'\"](\w+)|\b([^\W\d]\w*)\(|(?<=[)\]])\.([^\W\d]\w*)")
_stemmer = Stemmer.Stemmer("english")


@lru_cache(maxsize=100_000)
def _words(token: str) -> tuple[str, ...]:
    if _UNSPACED.fullmatch(token):  # pairs of characters are what a word there mostly is
        return tuple(token[at : at + 2] for at in range(max(len(token) - 1, 1)))
    parts = [part.lower() for part in _PART.findall(token)]
    stems = [_stemmer.stemWord(part) for part in parts]
    return (token.lower(), *stems) if len(parts) > 1 or "_" in token else tuple(stems)


def apart(text: str) -> str:
    """The text with a space between a name or number and a word in a script without spaces."""
    return _BESIDE.sub(" ", text)


def tokens(text: str) -> list[str]:
    """The words and names of a text as they are spelled."""
    return TOKEN.findall(text)


def words(text: str) -> Iterator[str]:
    """The words of a text, lower case and stemmed. A name of several words (`maxRetries`,
    `max_retries`) counts as a whole and by its parts."""
    for token in TOKEN.findall(text):
        yield from _words(token)


def beginning(stem: str, token: str) -> str:
    """A stem as far as it stands in the token: `retri` stands in no text, `retr` in all that have
    `retry` or `retries`."""
    while stem not in token.lower():
        stem = stem[:-1]
    return stem


def long_words(text: str, least: int) -> Iterator[str]:
    """The words of a text that have at least so many characters; one in another script than the
    Latin one tells something however short it is."""
    return (word for word in words(text) if len(word) >= least or not word.isascii())


def says(text: str, name: str) -> bool:
    """Whether a text has a name as a word of its own, in any case."""
    alone = rf"(?<!{LETTER})(?<![.-]){re.escape(name)}(?!\.?(?:{LETTER}|-))"
    return re.search(alone, text, re.IGNORECASE) is not None


def named(text: str) -> set[str]:
    """The names in a text: what is spelled as names in code are, or stands as one does: quoted,
    called, or behind a dot (`every(2).day`)."""
    marked = {name for groups in _MARKED.findall(text) for name in groups if name}
    return marked | {each for each in tokens(text) if is_name(each)}


def is_name(token: str) -> bool:
    """Whether a token is spelled as names in code are: with an underscore, a digit or a capital
    inside. An abbreviation alone is not."""
    return bool(re.search(r"_|[^\W\d]\d|(?<=[a-z])[A-Z]|[A-Z]{2,}[a-z]", token))
