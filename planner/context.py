"""What of a result stands in a prompt: readable, relevant, within a budget."""

import json
import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from planner.models import Message, Reply

BODY_LINES = 9
"""Lines after a telling line that tell something too."""
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
    if matches := _matches(value):
        return "\n".join(matches)
    if not isinstance(value, dict | list):
        return str(value) if not isinstance(value, str) else value
    return "\n".join(_outline(value)) or "(nothing)"


_MATCH = re.compile(r"\s*(?:>|\.{3})?\s*(\d+):(.*)")


def _matches(value: Any) -> list[str] | None:
    """Search results by file, `{path: [" > 12:text", …]}`, as `path:12: text`, each line once.

    A small model takes a line's number and another line's path for one place, unless they stand
    together on every line.
    """
    if not isinstance(value, dict):
        return None
    lines: dict[str, None] = {}
    for path, blocks in value.items():
        if not isinstance(blocks, list):
            return None
        for block in blocks:
            for line in block.splitlines() if isinstance(block, str) else [""]:
                match = _MATCH.fullmatch(line)
                if match is None:
                    return None
                if match[2].strip():
                    lines.setdefault(f"{path}:{match[1]}:{match[2].rstrip()}")
    return list(lines)


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


_NAME = re.compile(
    r"`([^`\n]{2,80})`|\"([^\"\n]{2,80})\"|(?<!\w)'([^'\n]{2,80})'(?!\w)"  # a quotation
    r"|\b(?:function|method|class|constant|variable|parameter|field|module|option|setting|named|called)"
    r"\s+([A-Za-z_]\w+)"
    r"|\b([\w.-]+\.(?:py|ts|js|tsx|md|toml|yaml|yml|json|go|rs|java|c|h|cpp|txt|cfg|ini|sh))\b"
    r"|\b((?:[A-Za-z]\w*)?_\w+)\b"  # snake_case
    r"|\b([a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*)\b"  # camelCase
    r"|\b([A-Z][A-Z0-9]{2,})\b"  # CONSTANT
)
_PLAIN = frozenset((files(__package__) / "prompts" / "plain_words.txt").read_text("utf-8").split())
"""Words of ordinary questions: they point at no line of code."""


def names(text: str) -> list[str]:
    """What a request names of the code: identifiers, files, quotations, in their order."""
    found: dict[str, None] = {}
    for match in _NAME.finditer(text):
        name = next(group for group in match.groups() if group)
        if name.lower() not in _PLAIN:
            found.setdefault(name)
    return list(found)


def keywords(text: str) -> list[str]:
    """A request's telling plain words, the longest first."""
    found = {word.lower() for word in re.findall(r"[A-Za-z]{4,}", text)} - _PLAIN
    return sorted(found, key=lambda word: (-len(word), word))


def constants(text: str, wanted: set[str]) -> list[str]:
    """The constants that the lines around the wanted names mention: their values are often the
    answer. Those with a value in the text are left out."""
    found: dict[str, None] = {}
    for name in re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b", text):
        if name not in wanted and not re.search(rf"\b{name}\s*(?::[^=\n]+)?=\s*\S", text):
            found.setdefault(name)
    return list(found)


def words(text: str) -> set[str]:
    """The words of a request that can point at a line: identifiers and longer plain words."""
    found = set(re.findall(r"[A-Za-z_]\w{3,}", text))
    return {word for word in found if word.lower() not in _PLAIN}


_DEFINITION = re.compile(
    r"\b(?:def|class|function|func|fn|const|let|var|type|interface|struct|enum|trait)\s+(\w+)"
    r"|^\s*([A-Za-z_]\w*)\s*(?::[^=]+)?="
)


_IMPORT = re.compile(r"(?:^|:)\s*(?:from\s+\S+\s+import|import|use|using|#include)\b")


def weight(line: str, wanted: set[str]) -> int:
    """How much a line tells about the wanted words; a definition of one counts most."""
    score = len(wanted.intersection(re.findall(r"\w+", line)))
    if _defines(line) & wanted:
        score += 3
    elif _IMPORT.search(line):
        score -= 1
    return score


def definitions(text: str, wanted: Iterable[str]) -> str:
    """Only the lines that define one of the wanted names."""
    names = set(wanted)
    return "\n".join(line for line in text.splitlines() if _defines(line) & names)


def with_values(text: str, values: str) -> str:
    """The lines of `text` that mention a constant, each with the value that `values` defines."""
    known = {}
    for line in values.splitlines():
        for name in _defines(line):
            known[name] = line[len(_place(line)) :].strip()
    used = []
    for line in text.splitlines():
        said = [known[name] for name in dict.fromkeys(re.findall(r"\w+", line)) if name in known]
        if said and not _IMPORT.search(line):
            used.append(f"{line}    <- {'; '.join(said)}")
    return "\n".join([values, *used])


def shortened(text: str, longest: int, wanted: set[str]) -> str:
    """At most about `longest` characters of a result, its most telling lines.

    Lines with a wanted word stay, a definition before its uses, with what they stand in and the
    lines after them; the file with the most telling line comes first. What is left out is said, so
    that the model can ask for it.
    """
    lines = [line[:300] + " …" if len(line) > 300 else line for line in text.splitlines()]
    scores = _scores(lines, wanted)
    kept = set(range(len(lines)))
    if sum(len(line) + 1 for line in lines) > longest:
        kept.clear()
        room = longest - 60
        for index in sorted(range(len(lines)), key=lambda index: (-scores[index], index)):
            room -= len(lines[index]) + 1
            if room < 0:
                break
            kept.add(index)
    best: dict[str, float] = {}
    for index in kept:
        file = _file(lines[index])
        best[file] = max(best.get(file, 0), scores[index])
    order = sorted(kept, key=lambda index: (-best[_file(lines[index])], index))
    shown: list[str] = []
    for position, index in enumerate(order):
        if position and index != order[position - 1] + 1 and len(kept) < len(lines):
            shown.append("…")
        shown.append(lines[index])
    if len(kept) < len(lines):
        shown.append(f"({len(lines) - len(kept)} more lines; ask more narrowly to see them)")
    return "\n".join(shown)


def _scores(lines: list[str], wanted: set[str]) -> list[float]:
    direct = [2.0 * weight(line, wanted) for line in lines]
    scores = list(direct)
    for index, score in enumerate(direct):
        if score <= 0:
            continue
        for after in range(index + 1, min(index + BODY_LINES, len(lines))):
            scores[after] = max(scores[after], score * 0.5 - (after - index) * 0.1)
        for before in range(index - 1, max(-1, index - BODY_LINES), -1):
            if _defines(lines[before]):  # what the telling line stands in
                scores[before] = max(scores[before], score * 0.75)
                break
    return scores


def _place(line: str) -> str:
    """`path:12:` at the head of a search result's line; empty for other text."""
    match = re.match(r"[^\s:]+:\d+:", line)
    return match[0] if match else ""


def _file(line: str) -> str:
    return _place(line).split(":")[0]


def _defines(line: str) -> set[str]:
    match = _DEFINITION.search(line[len(_place(line)) :])
    return {match[1] or match[2]} if match else set()
