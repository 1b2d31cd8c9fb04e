"""Whether a file can still be read after a change, as far as code can tell."""

import ast
import json
import tomllib
import warnings
from collections.abc import Callable
from pathlib import PurePosixPath

_READERS: dict[str, Callable[[str], object]] = {
    ".py": ast.parse,
    ".json": json.loads,
    ".toml": tomllib.loads,
}
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))


def breaks(path: str, before: str, after: str) -> bool:
    """Whether a text that could be read cannot be read any more; in a language that is not known,
    whether its brackets, of which each had a partner, do not all have one now."""
    read = _READERS.get(PurePosixPath(path).suffix, _pair_brackets)
    return _can_be_read(before, read) and not _can_be_read(after, read)


def _can_be_read(text: str, read: Callable[[str], object]) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what code does, which is not asked
            read(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _pair_brackets(text: str) -> None:
    """Raises `ValueError` if there are not as many of each kind that open as that close."""
    if any(text.count(opens) != text.count(closes) for opens, closes in _BRACKETS):
        raise ValueError("a bracket has no partner")
