"""Reads files that people write, of three kinds, and changes a few places in them. All comments and
the order of everything else stay."""

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from io import StringIO
from typing import Any

import tomlkit
import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import CommentMark, YAMLError
from ruamel.yaml.tokens import CommentToken
from ruamel.yaml.util import load_yaml_guess_indent
from tomlkit.exceptions import TOMLKitError

from planner.text import flat
from server.client_configs import jsonc
from server.client_configs.jsonc import Place

MAX_WIDTH = 10_000
"""Of a line of YAML, so that no text is wrapped."""


def parsed(text: str, suffix: str) -> Any:
    """The data. Raises `ValueError`, `yaml.YAMLError`, `RecursionError`."""
    match suffix:
        case ".toml":
            return tomllib.loads(text)
        case ".yaml" | ".yml":
            return yaml.safe_load(text)
        case _:
            return jsonc.loads(text)


def changed(text: str, suffix: str, changes: Mapping[Place, Any]) -> str:
    """A valid text with these values at these places, parents included. Raises `ValueError`."""
    if not changes:
        return text
    lines = text.count("\n")
    if lines and text.count("\r\n") == lines:  # libraries write plain ends of lines
        return changed(text.replace("\r\n", "\n"), suffix, changes).replace("\n", "\r\n")
    wanted = parsed(text, suffix) or {}
    for place, value in changes.items():
        _put(wanted, place, value)
    match suffix:
        case ".toml":
            new = _toml(text, changes, wanted)
        case ".yaml" | ".yml":
            new = _yaml(text, changes)
        case _:
            new = text
            for place, value in changes.items():
                new = jsonc.changed(new, place, value)
    with suppress(ValueError, yaml.YAMLError):
        if parsed(new, suffix) == wanted and not _comments(text, suffix) - _comments(new, suffix):
            return new
    raise ValueError("it cannot be changed without losing comments or other content")


def _comments(text: str, suffix: str) -> Counter[str]:
    """The comments of YAML and TOML, of which ruamel.yaml loses those within `{}` and `[]`."""
    hashed = suffix in (".toml", ".yaml", ".yml")
    return Counter(re.findall(r"(?:^|\s)(#.*)", text, re.MULTILINE) if hashed else ())


def _toml(text: str, changes: Mapping[Place, Any], wanted: Any) -> str:
    new: dict[str, Any] = {}
    for place, value in changes.items():
        _put(new, place, value)
    gap = "\n" if text.endswith("\n") else "\n\n"
    appended = f"{text}{gap if text else ''}{tomlkit.dumps(new)}"
    with suppress(tomllib.TOMLDecodeError):  # of a table that is there already
        if tomllib.loads(appended) == wanted:
            return appended
    try:
        document = tomlkit.parse(text)
        for place, value in changes.items():
            _put(document, place, value)
        return tomlkit.dumps(document)
    except TOMLKitError as error:
        raise ValueError(str(error)) from None


def _yaml(text: str, changes: Mapping[Place, Any]) -> str:
    writer = YAML()
    writer.preserve_quotes = True
    writer.width = MAX_WIDTH
    writer.explicit_start = text.startswith("---")
    try:
        _, indent, offset = load_yaml_guess_indent(text)
        if indent:
            writer.indent(mapping=2, sequence=indent, offset=offset)
        data = writer.load(text)
        before = ""
        if data is None:  # nothing but comments, which belong to no value
            data, before = {}, text if text.endswith("\n") or not text else f"{text}\n"
        for place, value in changes.items():
            _put(data, place, value)
        out = StringIO()
        writer.dump(data, out)
    except YAMLError as error:
        raise ValueError(flat(str(error))) from None
    return before + out.getvalue()


def _put(data: Any, place: Place, value: Any) -> None:
    """Works on the data of each library, and on plain data."""
    key: Any = place[0]
    rest = place[1:]
    kind: Any = list if isinstance(key, int) else dict
    if not isinstance(data, kind):
        raise ValueError(f"there is no {'map' if kind is dict else 'list'} where `{key}` should go")
    new = key == len(data) if kind is list else key not in data
    if rest:
        if new or data[key] is None:
            data[key] = [] if isinstance(rest[0], int) else {}
        return _put(data[key], rest, value)
    above = data if new else data[key]
    if above and isinstance(above, CommentedMap | CommentedSeq):
        value = _moved_below(above, value)
    if new and kind is list:
        data.append(value)
    else:
        data[key] = value
    return None


def _moved_below(data: CommentedMap | CommentedSeq, value: Any) -> Any:
    """The value with the comments and blank lines that follow the last line of `data`: they belong
    to what comes next, but ruamel.yaml keeps them with the line before."""
    holder, key, slot = _last(data)
    if (comments := holder.ca.items.get(key)) and (token := comments[slot]):
        line, end, rest = token.value.partition("\n")
        if rest:
            token.value = line + end
            value = _commented(value)
            holder, key, slot = _last(CommentedSeq([value]))
            moved: list[Any] = [None] * 4
            moved[slot] = CommentToken(f"\n{rest}", CommentMark(0), None)
            holder.ca.items[key] = moved
    return value


def _last(data: Any) -> tuple[Any, Any, int]:
    """The map or list with the last line, the line's key, and the slot of the comments after it."""
    while True:
        mapping = isinstance(data, CommentedMap)
        key = list(data)[-1] if mapping else len(data) - 1
        inner = data[key] if len(data) else None
        if not isinstance(inner, CommentedMap | CommentedSeq) or not inner or inner.fa.flow_style():
            return data, key, 2 if mapping else 0
        data = inner


def _commented(value: Any) -> Any:
    match value:
        case dict():
            return CommentedMap((key, _commented(each)) for key, each in value.items())
        case list():
            return CommentedSeq(map(_commented, value))
    return value
