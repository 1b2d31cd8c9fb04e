"""Texts on one line, cut, counted, compared, read as JSON, and as UTF-8 can hold them."""

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

NUMBERED = r"[(（]?\d{1,2}(?:[.)](?=\s|[^\W\d_A-Za-z])|[、．）](?!\d))"
"""What an item of a list begins with, as many scripts write it: `1. `, `(2) `, `3、`, `（4）`."""


def flat(text: str) -> str:
    """The text on one line, with single blanks."""
    return " ".join(text.split())


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and a mark: `most` characters in all."""
    return text if len(text) <= most else text[: most - 1] + "…"


def counted(count: int, noun: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def indented(text: str, spaces: int) -> str:
    """The text with its further lines indented, so that they stay in a list's item."""
    return textwrap.indent(text.strip(), " " * spaces).lstrip()


def begin_alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words or lines both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    least = min(len(one), len(other))
    return next((number for number, (mine, others) in pairs if mine != others), least)


def json_of(text: str) -> Any:
    """What a text says in JSON; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def whole(text: str) -> str:
    """The text with a `?` for each lone surrogate, which UTF-8 does not have."""
    return text.encode(errors="replace").decode()


def with_whole_characters(message: str | bytes) -> bytes:
    """JSON once more, with a `?` for each lone surrogate, which UTF-8 does not have. Raises
    `ValueError` or `RecursionError` for what is no JSON."""
    return json.dumps(json.loads(message), ensure_ascii=False).encode("utf-8", "replace")


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The plain values within a value of JSON, each with its name."""
    match value:
        case dict():
            for key, inner in value.items():
                yield from leaves(inner, key)
        case list():
            for inner in value:
                yield from leaves(inner, name)
        case _:
            yield name, value


def strings(value: Any) -> Iterator[str]:
    return (each for _, each in leaves(value) if isinstance(each, str))
