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
    readable = _can_be_read if PurePosixPath(path).suffix in _READERS else _is_balanced
    return readable(path, before) and not readable(path, after)


def _can_be_read(path: str, text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what code does, which is not asked
            _READERS[PurePosixPath(path).suffix](text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _is_balanced(path: str, text: str) -> bool:
    return all(text.count(opens) == text.count(closes) for opens, closes in _BRACKETS)
