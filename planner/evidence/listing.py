"""The files that a listing names, whatever tool made it."""

import json
from collections.abc import Iterator
from typing import Any

from planner.checks.guards import paths_in


def of_listing(result: str) -> list[str]:
    """The paths in a listing, each once: of JSON, such as a tree of names with what is inside
    them, or of text. Folders may be among them."""
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        return paths_in(result)
    return list(dict.fromkeys(_paths(value, "")))


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
