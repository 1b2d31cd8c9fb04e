"""What of a result stands in a prompt: readable, relevant, within a budget."""

import json
import re
from collections.abc import Iterable
from typing import Any

from planner.models import Message, Reply

CHARACTERS_PER_TOKEN = 3.5
"""A cautious start for code and JSON; corrected by what the server counts."""


class TokenEstimate:
    """Tokens of a text without a tokenizer, learnt from the server's own counts of prompts."""

    def __init__(self) -> None:
        self.characters_per_token = CHARACTERS_PER_TOKEN

    def of(self, messages: Iterable[Message]) -> int:
        return round(characters(messages) / self.characters_per_token) + 1

    def learn(self, messages: Iterable[Message], reply: Reply) -> None:
        if reply.prompt_tokens > 100:
            observed = characters(messages) / reply.prompt_tokens
            self.characters_per_token = max(1.0, min(observed, CHARACTERS_PER_TOKEN * 2))


def characters(messages: Iterable[Message]) -> int:
    """Characters of the messages, with what a chat template adds to each."""
    return sum(len(message["content"]) + 25 for message in messages)


def readable(result: str) -> str:
    """A tool result as a small model reads it best.

    Many tools return JSON inside a text, with code in it escaped line by line. It is laid out as
    an outline with the lines as they are. Other text stays.
    """
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        return result
    if not isinstance(value, dict | list):
        return str(value) if not isinstance(value, str) else value
    return "\n".join(_outline(value)) or "(nothing)"


def _outline(value: Any, indent: str = "") -> list[str]:
    lines: list[str] = []
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict | list) and item and not _inline(item):
                lines += [f"{indent}{key}:", *_outline(item, indent + "  ")]
            else:
                lines += _entry(f"{indent}{key}: ", item, indent)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict) and all(not isinstance(v, list) for v in item.values()):
                lines += _flat(item, indent)
            elif isinstance(item, dict | list) and item:
                first, *rest = _outline(item, indent + "  ")
                lines += [f"{indent}- {first.strip()}", *rest]
            else:
                lines += _entry(indent, item, indent)
    return lines


def _flat(item: dict[str, Any], indent: str) -> list[str]:
    """A record on one line, and its long texts below it."""
    short = {k: v for k, v in item.items() if not (isinstance(v, str) and "\n" in v)}
    head = f"{indent}- " + ", ".join(f"{key}: {_scalar(value)}" for key, value in short.items())
    long = [
        line
        for key in item
        if key not in short
        for line in _entry(f"{indent}  {key}: ", item[key], indent + "  ")
    ]
    return [head, *long]


def _entry(head: str, item: Any, indent: str) -> list[str]:
    text = _scalar(item)
    if "\n" in text:
        return [head.rstrip(), *(f"{indent}  {line}" for line in text.splitlines())]
    return [head + text]


def _inline(item: Any) -> bool:
    return (
        isinstance(item, list)
        and all(not isinstance(entry, dict | list) for entry in item)
        and sum(len(str(entry)) + 2 for entry in item) < 100
        and all("\n" not in str(entry) and ":" not in str(entry) for entry in item)
    )


def _scalar(item: Any) -> str:
    match item:
        case str():
            return item
        case list():
            return "[" + ", ".join(_scalar(entry) for entry in item) + "]"
        case dict():
            return "{" + ", ".join(f"{key}: {_scalar(entry)}" for key, entry in item.items()) + "}"
        case _:
            return json.dumps(item)


def words(text: str) -> set[str]:
    """The words of a request that can point at a line: identifiers and longer plain words."""
    found = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]{2,}", text))
    return {word for word in found if len(word) > 3 or "_" in word or word.isupper()}


def shortened(text: str, longest: int, wanted: set[str]) -> str:
    """At most about `longest` characters of a result, its most telling lines first.

    Lines with a wanted word stay, with a line around them; the rest is filled from the top. What is
    left out is said, so that the model can ask for it.
    """
    lines = [line[:300] + " …" if len(line) > 300 else line for line in text.splitlines()]
    if sum(len(line) + 1 for line in lines) <= longest:
        return "\n".join(lines)
    scores = [sum(word in line for word in wanted) for line in lines]
    order = sorted(
        range(len(lines)),
        key=lambda i: (-max(scores[i] * 2, *(scores[max(0, i - 1) : i + 2])), i),
    )
    kept: set[int] = set()
    room = longest - 40
    for index in order:
        cost = len(lines[index]) + 1
        if cost > room:
            break
        kept.add(index)
        room -= cost
    shown: list[str] = []
    left_out = 0
    for index, line in enumerate(lines):
        if index in kept:
            if left_out:
                shown.append(f"… {left_out} lines left out …")
                left_out = 0
            shown.append(line)
        else:
            left_out += 1
    if left_out:
        shown.append(f"… {left_out} lines left out; ask more narrowly to see them …")
    return "\n".join(shown)
