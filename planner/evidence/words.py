"""The words of texts, names and paths, as everything that is ranked or compared sees them."""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import Stemmer

_SCRIPTS = (
    # Thai, Lao, Burmese and Khmer; Chinese and Japanese; Korean
    r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u1000-\u103f\u1780-\u17d3"
    r"\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
    r"\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3"
)
_UNSPACED = re.compile(f"[{_SCRIPTS}]+")
"""Words in scripts that put no space between them, or between a word and what inflects it."""
_CASELESS = "".join(
    each for each in map(chr, range(0x590, 0x10A0)) if each.isalpha() and not _UNSPACED.match(each)
)
"""Letters of Hebrew, Arabic and Indic scripts, where words such as "and" stand right before a name,
or with a hyphen between."""
INTO_NAME = rf"(?<=[{_SCRIPTS}{_CASELESS}])(?=[A-Za-z0-9_])"
OUT_OF_NAME = rf"(?<=[A-Za-z0-9_])(?=[{_SCRIPTS}{_CASELESS}])"
_BESIDE = re.compile(rf"{INTO_NAME}|{OUT_OF_NAME}|(?<=[{_CASELESS}]-)(?=[A-Za-z])")
"""Between a word in one of these scripts and a name or number right beside it."""
BETWEEN = "\u2060"
"""A sign without width, which no letter is."""
LETTER = rf"[^\W{_SCRIPTS}]"
"""What a name may go on with; a name may stand right beside a word in one of these scripts."""
_BEFORE_NAME = re.compile(rf"(?:(?<!{LETTER})|{INTO_NAME})(?<![.-])")
_AFTER_NAME = re.compile(rf"(?!\.?(?:{LETTER}|-))|{OUT_OF_NAME}")
_MARKS = "\u200c\u200d" + "".join(
    each for each in map(chr, range(0x300, 0x1E00)) if unicodedata.category(each).startswith("M")
)
"""What a letter may have above, below or beside it, such as most vowels of Hindi."""
_QUESTION_MARK = re.compile(rf"\?(?!\.?{LETTER})|[？؟\u037e՞፧]|(?<=[\u0370-\u03ff\u1f00-\u1fff]);")
"""Those of most scripts; that of Greek looks like a semicolon. One right before a letter stands in
code or in an address."""
_PLAIN = rf"(?:(?:[^\W_{_SCRIPTS}{_CASELESS}]+[{_MARKS}]*)+|(?:[{_CASELESS}]+[{_MARKS}]*)+)"
TOKEN = re.compile(rf"{_UNSPACED.pattern}|(?<!_)_*{_PLAIN}(?:_+{_PLAIN})*_*")
_CASED = range(0x530)
"""Where Unicode has the Latin, the Greek and the Cyrillic letters."""
UPPER, LOWER = ("".join(filter(cased, map(chr, _CASED))) for cased in (str.isupper, str.islower))
"""Capitals and small letters, for a set in a regular expression."""
_PART = re.compile(
    rf"[{UPPER}]+(?=[{UPPER}][{LOWER}]{{2}})|[{UPPER}]?(?:[{LOWER}]|[^\dA-Za-z_{UPPER}])+|[{UPPER}]+|\d+"
)
_AS_IN_CODE = re.compile(rf"_|[^\W\d]\d|(?<=[{LOWER}])[{UPPER}]|[{UPPER}]{{2}}[{LOWER}]{{2}}")
_LATIN = re.compile(r"[\W\d_a-z\xaa-\u024f]+")
_MARKED = re.compile(
    # `"a message"` begins with a word of prose
    rf"(?<![^\W{_SCRIPTS}{_CASELESS}])(?:@|[`'\"](?=[^\s`'\"]*[`'\"])"
    r"|[«“„「『]\s?(?=[^\s»“”」』]{0,60}\s?[»“”」』]))(\w+)"
    r"|\b([^\W\d]\w*)\(|(?<=[)\]])\.([^\W\d]\w*)"
)
_QUOTED = re.compile(
    r"(?<!\w)([\"'`])(?=\S)(?P<plain>[^\"'`\n]+)(?<=\S)\1(?!\w)"
    r"|[“„«「『]\s?(?P<set>[^“”„«»「」『』\n]*\S)\s?[“”»」』]"
)
_HYPHENATED = re.compile(r"(?<![\w-])(?:--?)?([^\W\d_]\w*(?:-\w+)+)")
SHORT = 3
"""Characters of a word's beginning, or of a word that is not in Latin letters, that tell much."""
LONG = 4
"""Characters of a word that tells what a text is about; shorter ones are like "the"."""
_english = Stemmer.Stemmer("english")
_stemmers = {
    script: Stemmer.Stemmer(language)
    for script, language in (("ARABIC", "arabic"), ("CYRILLIC", "russian"), ("DEVANAGARI", "hindi"))
}


@lru_cache(maxsize=100_000)
def _words(token: str) -> tuple[str, ...]:
    if is_unspaced(token):  # pairs of characters are what a word there mostly is
        return tuple(token[at : at + 2] for at in range(max(len(token) - 1, 1)))
    token = unicodedata.normalize("NFKC", token)
    parts = [part.lower() for part in _PART.findall(token)]
    stems = [_stemmer(part).stemWord(part) for part in parts]
    return (token.lower(), *stems) if len(parts) > 1 or "_" in token else tuple(stems)


def _stemmer(word: str) -> Stemmer.Stemmer:
    """That of the language which a word's script is mostly used for."""
    return _stemmers.get(unicodedata.name(word[0], "").partition(" ")[0], _english)


def is_unspaced(token: str) -> bool:
    """Whether a token is of a script that puts no space between words."""
    return _UNSPACED.fullmatch(token) is not None


@lru_cache(maxsize=64)
def apart(text: str) -> str:
    """The text with `BETWEEN` between a name or number and a word of another script beside it."""
    return text if text.isascii() else _BESIDE.sub(BETWEEN, text)


def tokens(text: str) -> list[str]:
    return TOKEN.findall(text)


def only_in(text: str, other: str) -> set[str]:
    """The words and names, as they are spelled, that a text has and another one has not."""
    return {each for each in {*tokens(text)} - {*tokens(other)} if not each.isdigit()}


def parts(text: str) -> list[str]:
    """The words of a text and of the names in it, as they are spelled."""
    return [part for token in tokens(text) for part in _PART.findall(token)]


def words(text: str) -> Iterator[str]:
    """The words of a text, lower case and stemmed; of `maxRetries` also the whole."""
    for token in TOKEN.findall(text):
        yield from _words(token)


def parts_of(name: str) -> tuple[str, ...]:
    """The words of a name in their order, lower case and stemmed."""
    whole, *inside = found = _words(name)
    return tuple(inside) if inside and whole == name.lower() else found


def beginning(stem: str, token: str) -> str:
    """A stem as far as it stands in the token, for a search: `retr`, and not `retri`, of `retry`
    and `retries`. The token itself where that is next to nothing."""
    found = stem
    while found not in token.lower():
        found = found[:-1]
    return found if found == stem or len(found) >= SHORT else token.lower()


def long_words(text: str, least: int = LONG) -> Iterator[str]:
    """The words of a text that have so many characters at `least`; in other scripts than the Latin
    one, and with the marks of Vietnamese, fewer tell as much, and without spaces any number."""
    for word in words(text):
        if _UNSPACED.match(word) or len(word) >= (least if _LATIN.fullmatch(word) else SHORT):
            yield word


def says(text: str, name: str) -> bool:
    """Whether a text has a name as a word of its own, in any case."""
    return any(
        _BEFORE_NAME.match(text, found.start()) and _AFTER_NAME.match(text, found.end())
        for found in re.finditer(re.escape(name), text, re.IGNORECASE)
    )


def asks(text: str) -> bool:
    return _QUESTION_MARK.search(text) is not None


def named(text: str) -> set[str]:
    """The names in a text: what is spelled as names in code are, or quoted, called, or behind the
    dot of `every(2).day`."""
    marked = {name for groups in _MARKED.findall(apart(text)) for name in groups if name}
    return marked | {each for each in tokens(text) if is_name(each)}


def quoted(text: str) -> list[str]:
    """The texts of several words that a text has in quotation marks."""
    found = (each["plain"] or each["set"] for each in _QUOTED.finditer(text))
    return [each for each in found if " " in each]


def hyphenated(text: str) -> list[str]:
    """The words of a text that hyphens join, such as `--no-sort` and `Cache-Control`."""
    return _HYPHENATED.findall(text)


def in_another_spelling(name: str, text: str) -> bool:
    """Whether a lower-case text has the parts of a name, however they are joined: `max-retries` and
    `MAX_RETRY` for `maxRetries`, `userstore` for `UserStores`."""
    spellings = _spellings(name)
    return spellings is not None and spellings.search(text) is not None


@lru_cache(maxsize=64)
def _spellings(name: str) -> re.Pattern[str] | None:
    parts = [beginning(each, name) for each in words(name) if each != name.lower()]
    return re.compile(r"[\W_]?".join(map(re.escape, parts))) if parts else None


def is_name(token: str) -> bool:
    """Whether a token is spelled as names in code are: with an underscore, a digit or a capital
    inside. An abbreviation alone is not."""
    return _AS_IN_CODE.search(token) is not None
