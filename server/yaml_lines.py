"""YAML with the line of each of its keys, so that a mistake can be named where it stands."""

from pathlib import Path
from typing import Any

import yaml

from planner.errors import ConfigError

MAX_NODES = 100_000
"""Of the file, with aliases expanded; a few lines of aliases can expand to billions."""

Key = tuple[str | int, ...]


def parse(path: Path, text: str) -> tuple[Any, dict[Key, int]]:
    """The file's data, and the line (from 1) of every key and list entry in it."""
    try:
        loader = yaml.SafeLoader(text)
        lines: dict[Key, int] = {(): 1}
        if (node := loader.get_single_node()) is None:
            return {}, lines
        if _size(node, {}) > MAX_NODES:
            why = "its aliases (`*name`) expand to too many values; write these out"
            raise ConfigError(f"{path}:1: {why}")
        _note_lines(node, (), lines, path)  # before `<<` keys are merged into the nodes
        return loader.construct_document(node), lines
    except RecursionError:
        why = "it is nested too deep, or an alias contains itself"
        raise ConfigError(f"{path}:1: {why}; write it out") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        what = getattr(error, "problem", None) or "it contains a character that YAML does not allow"
        raise ConfigError(f"{path}:{line}: this is not YAML: {what}; correct that line") from None
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(f"{path}:1: this cannot be read: {error}") from None
    except (LookupError, AttributeError):  # PyYAML's, of `!!int ''`, `!!bool x`, `!!timestamp x`
        raise ConfigError(f"{path}:1: a value does not fit its tag; remove the `!!`") from None


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """The number of nodes from this one on, with aliases expanded."""
    if id(node) not in known:
        known[id(node)] = 1 + sum(
            _size(part, known)
            for each in (node.value if isinstance(node, yaml.CollectionNode) else ())
            for part in (each if isinstance(each, tuple) else (each,))
        )
    return known[id(node)]


def _note_lines(node: yaml.Node, key: Key, lines: dict[Key, int], path: Path) -> None:
    if isinstance(node, yaml.SequenceNode):
        children = list(enumerate(node.value))
    elif isinstance(node, yaml.MappingNode):
        children = []
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                continue  # no key of ours; the constructor refuses it
            line = name.start_mark.line + 1
            if (child := (*key, name.value)) in lines:
                place = f"{path}:{line}: {dotted(child)}"
                raise ConfigError(f"{place}: the key appears twice; remove one of the two")
            lines[child] = line
            children.append((name.value, value))
    else:
        return
    for name, value in children:
        lines.setdefault((*key, name), value.start_mark.line + 1)
        _note_lines(value, (*key, name), lines, path)


def dotted(key: Key) -> str:
    return ".".join(str(part) for part in key) or "(top level)"
