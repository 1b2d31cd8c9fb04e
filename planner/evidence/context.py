"""The part of a result that a prompt shows: readable, relevant, within a budget."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import inf
from typing import Any

from planner.evidence.hits import by_path
from planner.evidence.records import (
    BOXED,
    RESULTS_KEPT,
    only_list,
    tells_of_whole,
    value_of,
)
from planner.evidence.words import words
from planner.models.base import Message, Reply
from planner.state import RunState
from planner.text import json_of

LINES_AFTER = 6
"""Lines after a relevant line that are shown with it."""
MAX_HEAD_CHARS = 400
"""Characters of prose before the JSON in a result."""
MAX_LINE_CHARS = 300
"""Characters of a line; a longer one is shown as several lines."""
CUT = " …"
"""At the end of all but the last of these."""
SEE_MORE = "see_more"
"""The planner's own tool, which shows more of a result that was cut."""
MIN_TEXT_CHARS = 240
"""Characters of a long text in one of several entries that are shown at least."""
REST_CHARACTERS = 70
"""Characters that are kept free for the line that says what is left out."""
_ITEM = re.compile(r" *- ")
MAX_BESIDE = 4
"""Lines beside a list that tell how it goes on."""
_BESIDE = re.compile(r" {0,2}([\w.@$]+): (?!null\b|\"|$)")
"""A value beside a list, or in an object beside it."""
_REST = re.compile(rf'{SEE_MORE} \{{"from_line":\d+,"iteration":(\d{{1,9}})\}}')
CHARACTERS_PER_TOKEN = 3.5
"""A cautious start for code and JSON; corrected by what the server counts."""
DENSER = 0.95
"""The share of the characters per token counted so far that is assumed for the next text."""


class TokenEstimate:
    """Estimates the tokens of a text, and learns from the server's counts of prompts."""

    def __init__(self) -> None:
        self.characters_per_token = CHARACTERS_PER_TOKEN

    def of(self, messages: Iterable[Message]) -> int:
        return round(characters(messages) / self.characters_per_token) + 1

    def learn(self, messages: Iterable[Message], reply: Reply) -> None:
        if reply.prompt_tokens > 100:
            observed = characters(messages) / reply.prompt_tokens
            self.characters_per_token = max(1.0, min(DENSER * observed, CHARACTERS_PER_TOKEN * 2))


def characters(messages: Iterable[Message]) -> int:
    """Characters of the messages, with what a chat template adds to each."""
    return sum(len(message["content"]) + 25 for message in messages)


_LAID_OUT = re.compile(r"[\[{]\n\s+\S")


@lru_cache(maxsize=RESULTS_KEPT)
def readable(result: str) -> str:
    """A tool result as a small model reads it best: JSON as an outline, with its texts line by
    line. JSON that is laid out already stays: a file of it can only be edited by its very lines."""
    if _LAID_OUT.match(result) and "\\n" not in result:
        return result
    try:
        value = json.loads(result, parse_float=str)  # 3.10 is not 3.1
        return _laid_out(value) if isinstance(value, dict | list | str) else result
    except RecursionError:
        return result
    except ValueError:
        if box := BOXED.search(result):
            begin, end = box.span("told")
            return f"{result[:begin]}{readable(box['told'])}{result[end:]}"
        head, brace, rest = result.partition("\n{")  # some say something before their JSON
        lines = head.startswith("{") or "\n{" in rest  # an object in each
        if not brace or lines or len(head) > MAX_HEAD_CHARS:
            return result
        return f"{head}\n{readable('{' + rest)}"


def _laid_out(value: Any) -> str:
    if matches := _matches(value):
        return "\n".join(matches)
    if isinstance(value, str):
        return value
    return "\n".join(_outline(value)) or "(nothing)"


_YAML_LIST = re.compile(r"- .*(?:\n(?:- .*|[ \t].*|))*\n?")


def with_count(result: str, shown: str | None = None) -> str:
    """What is shown of a result, by default all of it. The number of its entries comes first if it
    is a list: small models do not count, and some entries may not be shown."""
    text = readable(result) if shown is None else shown
    count = len(entries(result))
    return f"{count} entries:\n{text}" if count > 1 else text


@lru_cache(maxsize=RESULTS_KEPT)
def entries(result: str) -> Sequence[str]:
    """The entries of a list in JSON or YAML; none of anything else."""
    box = BOXED.search(result)
    if (value := json_of(box["told"] if box else result)) is None:
        return _outlined(result)
    listed = value if isinstance(value, list) else []
    return [json.dumps(each, ensure_ascii=False) for each in listed]


@lru_cache(maxsize=RESULTS_KEPT)
def entries_within(result: str) -> Sequence[str]:
    """The entries of a list, or of the only list within objects."""
    if found := entries(result):
        return found
    listed = only_list(value_of(result))
    return [json.dumps(each, ensure_ascii=False) for each in listed if isinstance(each, dict)]


def _outlined(text: str) -> Sequence[str]:
    """The entries of a text that is a list in YAML, or as the outline of JSON."""
    return re.split(r"(?m)^- ", text)[1:] if _YAML_LIST.fullmatch(text) else []


def _matches(value: Any) -> list[str]:
    """Search results by file, `{path: [" > 12:text", …]}`, as `path:12:text`, each once; none of
    anything else. A small model mixes up numbers and paths that stand on different lines."""
    found = list(by_path(value)) if isinstance(value, dict) else []
    hits = [each for each in found if each]
    shown = [f"{path}:{line}:{text.rstrip()}" for path, line, text in hits if text.strip()]
    return list(dict.fromkeys(shown)) if len(hits) == len(found) else []


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


def lines(text: str) -> list[str]:
    """The lines of a result as they are shown and counted: a very long one is several."""
    return [
        line[start : start + MAX_LINE_CHARS] + (CUT if start + MAX_LINE_CHARS < len(line) else "")
        for line in text.splitlines()
        for start in range(0, max(len(line), 1), MAX_LINE_CHARS)
    ]


def shortened(text: str, longest: int, wanted: set[str], iteration: int) -> str:
    """The most relevant lines of an iteration's result, about `longest` characters at most: those
    with a wanted word, the lines after them, the first line of their entry, and what tells how a
    list goes on; then the others from the top. A long text in one of several entries has a share of
    that length, so that it does not draw a small model away from the others. A last line says how
    much is left out, and which call shows it."""
    rows = lines(text)
    whole = "\n".join(rows)
    count = _listed(text)
    if count < 2 and len(whole) <= longest:
        return whole
    scores = [float(len(wanted.intersection(words(row)))) for row in rows]
    for index, score in enumerate(tuple(scores)):
        for after in range(index + 1, min(index + LINES_AFTER, len(rows))):
            scores[after] = max(scores[after], score * 0.5 - (after - index) * 0.1)
    _raise_heads(rows, scores)
    places = list(range(len(rows)))
    if count > 1:
        share = max(MIN_TEXT_CHARS, longest // (2 * count))
        places = [each for field in _fields(rows) for each in _best(field, rows, scores, share)]
    if len(places) == len(rows) and len(whole) <= longest:
        return whole
    kept = {*_best(places, rows, scores, longest - REST_CHARACTERS)}
    shown: list[str] = []
    for index in sorted(kept):
        if shown and index - 1 not in kept:
            shown.append("…")
        shown.append(rows[index])
    first = next(index for index in range(len(rows)) if index not in kept)
    return "\n".join([*shown, _rest(len(rows) - len(kept), first, iteration)])


def _raise_heads(rows: Sequence[str], scores: list[float]) -> None:
    """Give the first line of an entry, mostly with its id, the score of its best one, and the
    highest score to what tells how a list goes on."""
    marks = [found[0] if (found := _ITEM.match(row)) else None for row in rows]
    outermost = min(filter(None, marks), key=len, default=None)
    head, beside = None, []
    for index, (row, mark) in enumerate(zip(rows, marks, strict=True)):
        field = _BESIDE.match(row)
        if mark and mark == outermost:
            head = index
        elif field and tells_of_whole(field[1]):
            beside.append(index)
        elif head is not None:
            scores[head] = max(scores[head], scores[index])
    if outermost and len(beside) <= MAX_BESIDE:  # more are values of the entries
        for index in beside:
            scores[index] = inf


def _listed(text: str) -> int:
    """How many entries a shown list has, below a line that may end in a colon."""
    head, _, rest = text.partition("\n")
    return len(_outlined(rest if head.endswith(":") and not head.startswith("- ") else text))


def _fields(rows: Sequence[str]) -> list[list[int]]:
    """The rows of each value in a list of entries. A value goes on with empty and deeper rows, and
    with the rest of a long line."""
    fields: list[list[int]] = []
    for index, row in enumerate(rows):
        inside = not row.strip() or row.startswith("   ") or rows[index - 1].endswith(CUT)
        if not (fields and inside):
            fields.append([])
        fields[-1].append(index)
    return fields


def _best(
    places: Sequence[int], rows: Sequence[str], scores: Sequence[float], longest: int
) -> list[int]:
    """The rows with the best scores that fit, of equal ones the first."""
    kept = []
    for index in sorted(places, key=lambda index: (-scores[index], index)):
        longest -= len(rows[index]) + 3  # its end, and the sign of a gap before it
        if longest < 0:
            break
        kept.append(index)
    return kept


def part(text: str, from_line: int, longest: int, iteration: int) -> str:
    """The lines of an iteration's result from `from_line` on (from 1), and how to go on."""
    rows = lines(text)[from_line - 1 :]
    shown: list[str] = []
    room = longest - REST_CHARACTERS
    for row in rows:
        room -= len(row) + 1
        if room < 0 and shown:
            break
        shown.append(row)
    left = len(rows) - len(shown)
    rest = [_rest(left, from_line - 1 + len(shown), iteration)] if left else []
    return "\n".join([*shown, *rest])


def _rest(left_out: int, first: int, iteration: int) -> str:
    call = f'{{"from_line":{first + 1},"iteration":{iteration}}}'
    return f"({left_out} more lines: {SEE_MORE} {call})"


def left_out(shown: str) -> list[int]:
    """The iterations whose further lines a shown result points to."""
    return [int(number) for number in _REST.findall(shown)]


def within(rows: Sequence[str], longest: int) -> list[str]:
    """The rows in at most `longest` characters: the longer ones cut to one length."""
    room, share = longest, longest
    for index, row in enumerate(sorted(rows, key=len)):
        share = room // (len(rows) - index)
        if len(row) + 1 > share:
            break
        room -= len(row) + 1
    else:
        return list(rows)
    return [row if len(row) < share else row[: max(share - 2, 0)] + "…" for row in rows]


READ_SECONDS = 16.0
"""The seconds that reading the passages for a short answer may take."""
READ_SECONDS_LONG = 36.0
"""The same for a long answer."""
USUAL_SPEED = 60.0
"""Tokens that a model is taken to read a second at least: a slow machine takes longer, since what
is not shown is not answered."""
MIN_MEASURED = 100
"""A call's time says something about the speed from this many computed tokens on."""
READ_SHARE = 0.4
"""The share of the context that one question's passages may take."""
CHARACTERS_READ = 3.0
"""Characters per token of code, as counted when its lines had numbers; without, they are more."""


def reading_speed(state: RunState) -> float:
    """Tokens that the models read a second, by the calls so far. The first one tells nothing: what
    the server still had of its prompt is not known."""
    measured = [
        (call.prompt_tokens - call.cached_tokens, call.prefill_seconds)
        for call in state.ledger[1:]
        if call.prompt_tokens - call.cached_tokens >= MIN_MEASURED and call.prefill_seconds > 0
    ]
    if not measured:
        return USUAL_SPEED
    tokens, seconds = (sum(each) for each in zip(*measured, strict=True))
    return max(USUAL_SPEED, float(tokens / seconds))


def reading_characters(state: RunState, context_tokens: int) -> int:
    """How much of passages a prompt shows: what this machine reads in the time for such an answer,
    within a share of the context."""
    seconds = READ_SECONDS_LONG if state.wants == "long answer" else READ_SECONDS
    tokens = min(reading_speed(state) * seconds, READ_SHARE * context_tokens)
    return round(CHARACTERS_READ * tokens)
