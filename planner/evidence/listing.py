"""The files and folders that a listing names, whatever tool made it."""

import json
import re
from collections.abc import Iterator
from typing import Any

MAX_PATH_CHARS = 400
"""Characters of a path. Longer texts are not paths, and each of their folders would be listed."""

_PATH = re.compile(
    r"(?<![\w@.+-])"  # from a word's start only: else a long word takes the square of its length
    r"(?:[\w@.+-]*(?:/[\w@.+-]+)+/?|[\w@+-][\w@.+-]*\.[A-Za-z]\w{0,5}\b|[\w@.+-]+/)"
)


def of_listing(result: str) -> list[str]:
    """The paths in a listing, each once: of JSON, such as a tree of names with what is inside
    them, or of lines of text. Folders may be among them."""
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        paths = [path for line in result.splitlines() for path in _of_line(line)]
    else:
        paths = list(_paths(value, ""))
    return list(dict.fromkeys(path.removeprefix("./").rstrip("/") for path in paths))


def _of_line(line: str) -> list[str]:
    """The text that looks like a path; else the last word, such as the name of a folder."""
    return paths_in(line) or re.findall(r"[\w@.+-]+$", line.strip())


def is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def _paths(value: Any, folder: str) -> Iterator[str]:
    match value:
        case str():
            yield f"{folder}{value}"
        case list():
            for each in value:
                yield from _paths(each, folder)
        case dict():
            name = next((each for each in value.values() if isinstance(each, str)), "")
            inside = [each for each in value.values() if isinstance(each, list | dict)]
            if name and not inside:
                yield f"{folder}{name}"
            for each in inside:
                yield from _paths(each, f"{folder}{name}/" if name else folder)


def paths_in(text: str) -> list[str]:
    """What looks like a path, as it stands in a text."""
    found = dict.fromkeys(match.group() for match in _PATH.finditer(text))
    return [path for path in found if len(path) <= MAX_PATH_CHARS]
