"""What a text search found, whatever tool made it."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from planner.passage import Passage

_JSON = re.compile(r"(?m)(?<=\n)(?=[\[{])")
"""Where JSON may begin below a text."""
MAX_LINE_CHARS = 2000
"""Characters of a line that are read: a generated file has them by the million."""
MAX_BEGINNINGS = 3
"""Places from the first and from the last on, at which JSON is tried."""
_COLOUR = re.compile(r"\x1b\[[\d;]*[mK]")
_SHOWN = r"\s*(?:(?:>|\.{3})\s*)?"
_PLACE = re.compile(rf"{_SHOWN}((?:[A-Za-z]:(?=[\\/]))?[^\s:][^:\n]*?):(\d{{1,9}})[:-](.*)")
_NUMBERED = re.compile(rf"{_SHOWN}(\d{{1,9}}):(.*)")
_UNDER_PATH = re.compile(r"\s*(?:[Ll](?:ine )?)?(\d{1,9})(?::\d+(?=:(?!\d)))?[:-](.*)")
_COLUMN = re.compile(r"\d+:(?!\d)")
_BESIDE = re.compile(r"-(\d{1,9})(?=-)")
_FILE = re.compile(r"(?:[A-Za-z]:)?[^\s:;,=<>\"']*(?:[/\\][^\s:;,=<>\"'(){}]+|\w\.[A-Za-z]\w{0,5})")
"""What can only be the path of a file, by a slash or an extension."""


class Hit(NamedTuple):
    """One line that a search shows."""

    path: str
    line: int
    text: str


def of_search(result: str) -> list[Hit]:
    """The lines of a search's result, each once: of `path:12:text` lines, of `12:text` lines below
    their path, or of JSON, maybe below a text, with numbered lines by path or with records."""
    begins = [each.start() for each in _JSON.finditer(result)]
    for at in dict.fromkeys([0, *begins[:MAX_BEGINNINGS], *begins[-MAX_BEGINNINGS:]]):
        with suppress(ValueError, RecursionError):
            found = list(_of_json(json.loads(result[at:])))
            if found or not at:
                return list(dict.fromkeys(found))
    lines = [line[:MAX_LINE_CHARS] for line in _COLOUR.sub("", result).splitlines()]
    return list(dict.fromkeys(_of_lines(lines)))


def _of_lines(lines: list[str]) -> Iterator[Hit]:
    placed = [_PLACE.fullmatch(line) for line in lines]
    paths = {match[1] for match in placed if match}
    columns = all(_COLUMN.match(match[3]) for match in placed if match)
    heading = ""
    for line, place in zip(lines, placed, strict=True):
        if under := _UNDER_PATH.fullmatch(line) if heading else None:
            yield _hit(heading, *under.groups())
        elif beside := _beside(line, paths):
            yield beside
        elif place:
            path, number, text = place.groups()
            yield _hit(path, number, _COLUMN.sub("", text, count=1) if columns else text)
        elif line != "--":  # between two places of a file
            bare = line.strip().rstrip(":")
            heading = bare if _FILE.fullmatch(bare) else ""


def _hit(path: str, line: str, text: str) -> Hit:
    return Hit(path.removeprefix("./"), int(line), text)


def _beside(line: str, paths: set[str]) -> Hit | None:
    """A line `path-11-text` beside a match of its path: names of files have such numbers too."""
    for found in _BESIDE.finditer(line):
        if (path := line[: found.start()]) in paths:
            return _hit(path, found[1], line[found.end() + 1 :])
    return None


def _of_json(value: Any, path: str = "") -> Iterator[Hit]:
    """The lines in JSON; `path`: of the file that has them, if that stands around them."""
    if isinstance(value, dict):
        yield from filter(None, by_path(value))
    for records in value.values() if isinstance(value, dict) else [value]:
        for record in records if isinstance(records, list) else []:
            if hit := _of_record(record, path):
                yield hit
            elif isinstance(record, dict):
                texts = [each for each in record.values() if isinstance(each, str)]
                [own] = [each for each in texts if _FILE.fullmatch(each)][:1] or [""]
                yield from _of_json(record, own) if own else ()


def by_path(value: dict[str, Any]) -> Iterator[Hit | None]:
    """Lines by path, `{path: [" > 12:text", …]}` or `{path: [{"line": 12, "text": …}]}`; None for
    whatever is something else."""
    for path, blocks in value.items():
        for block in blocks if isinstance(blocks, list) else [None]:
            if isinstance(block, dict):
                yield _of_fields(path, block)
            elif isinstance(block, str):
                lines = map(_NUMBERED.fullmatch, block.splitlines())
                yield from (Hit(path, int(each[1]), each[2]) if each else None for each in lines)
            else:
                yield None


def _of_fields(path: str, fields: dict[str, Any]) -> Hit | None:
    line, text = fields.get("line"), fields.get("text")
    if len(fields) == 2 and type(line) is int and isinstance(text, str):
        return Hit(path, line, text)
    return None


def _of_record(record: Any, path: str) -> Hit | None:
    """The line of a record, whatever its fields are called: one number, one path if that is not
    known, and one other text."""
    fields = list(record.items()) if isinstance(record, dict) else []
    values = [each for _, each in fields]
    numbers = [each for name, each in fields if type(each) is int and "col" not in name.lower()]
    texts = [each for each in values if isinstance(each, str)]
    if path and len(numbers) == len(texts) == 1:
        return Hit(path.removeprefix("./"), numbers[0], texts[0])
    paths = [each for each in texts if _FILE.fullmatch(each)]
    if len(numbers) == len(paths) == 1 and len(texts) == 2:
        (text,) = (each for each in texts if each not in paths)
        return Hit(paths[0].removeprefix("./"), numbers[0], text)
    return None


def as_passages(hits: Iterable[Hit], gap: int = 1) -> list[Passage]:
    """The lines as passages; lines of one file that are at most so far apart are one passage."""
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
