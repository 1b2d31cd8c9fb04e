"""What a text search found, whatever tool made it."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from planner.passage import Passage

_PLACE = re.compile(r"\s*(?:>|\.{3})?\s*([^\s:][^:\n]*?):(\d+)[:-](.*)")
_NUMBERED = re.compile(r"\s*(?:>|\.{3})?\s*(\d+):(.*)")


class Hit(NamedTuple):
    """One line that a search shows."""

    path: str
    line: int
    text: str


def of_search(result: str) -> list[Hit]:
    """The lines of a search's result, each once: of `path:12:text` lines, or of JSON that holds
    numbered lines by path. Empty where it is neither."""
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        found = [
            Hit(match[1].removeprefix("./"), int(match[2]), match[3])
            for match in map(_PLACE.fullmatch, result.splitlines())
            if match
        ]
    else:
        found = list(_by_path(value)) if isinstance(value, dict) else []
    return list(dict.fromkeys(found))


def _by_path(value: dict[str, object]) -> Iterator[Hit]:
    for path, blocks in value.items():
        for block in blocks if isinstance(blocks, list) else []:
            if isinstance(block, dict) and block.keys() == {"line", "text"}:
                yield Hit(path, int(block["line"]), str(block["text"]))
            for line in block.splitlines() if isinstance(block, str) else []:
                if match := _NUMBERED.fullmatch(line):
                    yield Hit(path, int(match[1]), match[2])


def as_passages(hits: Iterable[Hit], gap: int = 1) -> list[Passage]:
    """Lines of a file that are at most so far apart as one passage each."""
    passages: list[Passage] = []
    for hit in sorted(hits):
        last = passages[-1] if passages else None
        if last and last.source == hit.path and hit.line <= last.last + gap:
            if hit.line > last.last:
                text = f"{last.text}\n{hit.text}"
                passages[-1] = last.model_copy(update={"text": text, "last": hit.line})
            continue
        passages.append(Passage(source=hit.path, first=hit.line, last=hit.line, text=hit.text))
    return passages
