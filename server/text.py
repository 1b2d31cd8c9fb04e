"""Texts of models and strangers, made harmless and put into words of ours."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from planner.errors import ConfigError
from planner.text import flat, shortened

_ESCAPE_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]"
)
# Not seen by a reader, yet read by a model: controls, bidi overrides, zero-width, filler and tag
# characters, and the variation selectors that text is hidden in. U+200C, U+200D, U+FE0E and U+FE0F
# stay where they are few: Persian, Indic scripts and emoji are spelled with them.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b"
    r"\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_JOINERS = re.compile(r"[\u200c\u200d\ufe0e\ufe0f]{3,}")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text without terminal escapes, control and invisible characters; newlines are `\\n`."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPE_SEQUENCE.sub("", text)
    seen = _JOINERS.sub("", _UNSEEN.sub("", text))  # runs that are whole once the rest is out
    return _SURROGATE.sub("\ufffd", seen)


def cleaned(value: Any, *, keys: bool = False) -> Any:
    return each_text(value, clean, keys=keys)


def each_text(value: Any, change: Callable[[str], str], *, keys: bool = False) -> Any:
    """JSON data with `change` applied to every string, and to the keys if `keys` says so."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [each_text(item, change, keys=keys) for item in value]
    if isinstance(value, dict):
        return {
            change(key) if keys else key: each_text(item, change, keys=keys)
            for key, item in value.items()
        }
    return value


def read_text(file: Path) -> str:
    """The text of a file, with the ends of lines that it has. Raises `ConfigError`."""
    try:
        return file.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{file}: cannot be read: {why}; name a readable file") from None


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_TYPES = (
    ("a valid tuple", "a list"),
    ("a valid dictionary", "an object"),
    ("a valid boolean", "true or false"),
)


def plain(problem: str) -> str:
    """What pydantic says of a value, without its own beginnings and Python's names of types."""
    problem = problem.removeprefix("Input ").removeprefix("Value error, ")
    problem = re.split(", unable to | after validation", problem)[0]
    for python, plainly in _TYPES:
        problem = problem.replace(python, plainly)
    return problem


def one_line(text: str, most: int | None = None) -> str:
    """A foreign text on one harmless line of at most so many characters."""
    if most is None:
        return flat(clean(text))
    return shortened(flat(clean(text[: 10 * most])), most)


def fence(text: str) -> str:
    """The text as a block that nothing in it can close."""
    text = clean(text)  # before its mark is chosen
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}text\n{text}\n{mark}"


def status_in_words(status: str) -> str:
    return status.replace("_", " ")


def duration(seconds: float) -> str:
    """`4.2 s`, `38 s`, `3 min 5 s`: as the browser says it, too."""
    whole = round(seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"
