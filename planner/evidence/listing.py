"""The files and folders that a listing names, whatever tool made it."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from posixpath import commonpath, dirname
from typing import Any

from planner.evidence.words import BETWEEN, apart
from planner.text import json_of

MAX_PATH_CHARS = 400
"""Characters of a path; a longer text is none."""

_PATH = re.compile(
    r"(?<![\w@.+-])"  # from a word's start only: else a long word takes the square of its length
    r"(?:[\w@.+-]*(?:/[\w@.+-]+)+/?|[\w@+-][\w@.+-]*\.[A-Za-z]\w{0,5}\b|[\w@.+-]+/)"
)
_END = re.compile(r"(?<=\w)\.+\Z")
_MARKED = re.compile(r"\s*\[(\w+)\] +(\S+(?: \S+)*)(?: {2,}.*)?\s*")
"""`[FILE] buoy list.txt    25 B`: a mark of its kind, the name, and what stands in a column after
it."""
_TOTAL = re.compile(r":\s(?:.{0,80}\s)?\d[\d.]*\s")
"""What a line says that counts: `: 0 files`."""
_WHOLE = re.compile(r"/[^\s:,;]+(?: [^\s:,;]+)*")
"""A line that is nothing but a path from the root."""


def of_listing(result: str) -> list[str]:
    """The paths in a listing, each once, folders among them: of JSON, such as a tree of names, or
    of lines; where some lines are marked as entries, only of these."""
    value, lines = json_of(result), result.splitlines()
    if value is None:
        paths = [entry[2] for entry in map(_MARKED.fullmatch, lines) if entry]
        paths = paths or [path for line in lines for path in _of_line(line)]
    else:
        paths = list(_paths(value, "", _keys(value)))
    return list(dict.fromkeys(path.removeprefix("./").rstrip("/") for path in paths))


def folders_in(result: str) -> dict[str, bool]:
    """Whether the entries that a listing marks are folders: `[DIR] src`, `src/`, or a record of
    another kind than that of entries with an extension."""
    lines = result.splitlines()
    marked = {entry[2]: entry[1] for entry in map(_MARKED.fullmatch, lines) if entry}
    value = json_of(result)
    keys = _keys(value)
    entries = value if isinstance(value, list) else []
    for record in (each for each in entries if isinstance(each, dict)):
        texts = [each for each in record if isinstance(record[each], str)]
        texts.sort(key=lambda key: keys[key])
        if len(texts) == 2:
            kind, name = texts
            marked[record[name]] = record[kind]
    of_files = {kind for name, kind in marked.items() if paths_in(name) == [name]}
    kinds_apart = len({*marked.values()} - of_files) == 1 and len(of_files) == 1
    found = {name: kind not in of_files for name, kind in marked.items()} if kinds_apart else {}
    ended = (line.strip() for line in lines if line.endswith("/") and " " not in line.strip())
    return found | {each.rstrip("/").rsplit("/", 1)[-1]: True for each in ended}


def _of_line(line: str) -> list[str]:
    """The line if it is a path; else what looks like a path in it; else its last word, unless it
    tells a number: `Total: 0 files, 0 directories`."""
    if _WHOLE.fullmatch(line):
        return [line]
    found = paths_in(line)
    if found or _TOTAL.search(line):
        return found
    return re.findall(r"(?<![\w@.+-])[\w@.+-]+$", line.strip())


def visible(paths: Sequence[str]) -> list[str]:
    """The paths without those of hidden files and folders. A folder that all paths from the root
    share may be hidden, such as `~/.cache`."""
    whole = [path for path in paths if path.startswith("/")]
    above = commonpath(map(dirname, whole)) if whole else ""
    return [path for path in paths if "/." not in f"/{path.removeprefix(above)}"]


def _paths(value: Any, folder: str, keys: dict[str, tuple[int, int]]) -> Iterator[str]:
    match value:
        case str():
            yield f"{folder}{value}"
        case list():
            for each in value:
                yield from _paths(each, folder, keys)
        case dict():
            named = [key for key, each in value.items() if isinstance(each, str)]
            name = value[max(named, key=lambda key: keys[key])] if named else ""
            inside = [each for each in value.values() if isinstance(each, list | dict)]
            if name and not inside:
                yield f"{folder}{name}"
            for each in inside:
                yield from _paths(each, f"{folder}{name}/" if name else folder, keys)


def _keys(value: Any) -> dict[str, tuple[int, int]]:
    """How likely each key is that of names: how many of its texts are paths, of how many."""
    texts: dict[str, set[str]] = defaultdict(set)
    for key, text in _texts(value):
        texts[key].add(text)
    return {
        key: (sum(paths_in(text) == [text] for text in found), len(found))
        for key, found in texts.items()
    }


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Each text in the records of a listing, with its key."""
    for key, each in value.items() if isinstance(value, dict) else ():
        if isinstance(each, str):
            yield key, each
    inside = value.values() if isinstance(value, dict) else value
    for each in inside if isinstance(value, dict | list) else ():
        yield from _texts(each)


def paths_in(text: str) -> list[str]:
    """What looks like a path, as it stands in a text, without the end of a sentence."""
    found = dict.fromkeys(_END.sub("", match.group()) for match in _PATH.finditer(text))
    return [path for path in found if len(path) <= MAX_PATH_CHARS]


def says_path(text: str, path: str) -> bool:
    """Whether a text names a file."""
    return any(is_path_of(name, path) for name in paths_said(text))


def paths_said(text: str) -> list[str]:
    """What looks like a path in what a person writes, also right beside a word in a script without
    spaces, which may be a part of it."""
    return list(dict.fromkeys([*paths_in(apart(text)), *paths_in(text)]))


def is_path_of(name: str, path: str) -> bool:
    """Whether a name is that of the file at a path: the path, or the end of it. Of a name in two
    scripts, only its last part may be known."""
    return f"/{apart(path)}".endswith((f"/{apart(name)}", f"{BETWEEN}{name}"))


def without_paths(text: str, paths: Sequence[str]) -> str:
    """A text without the names by which it says these paths."""
    said = (each for each in paths_said(text) if any(is_path_of(each, path) for path in paths))
    for each in said:
        text = text.replace(each, " ")
    return text
