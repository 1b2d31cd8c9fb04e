"""What a model meant if its server does not enforce schemas: the JSON, the list or the block of
code in its reply."""

import json
import re
from collections.abc import Iterator
from typing import Any

from planner.checks.validation import problem
from planner.grammar import Schema

_MARK = re.compile(r"^\s*(?:[-*•]\s|\d+[.)]\s|```.*)\s*")


_BLOCK = re.compile(r"^(```[^\n]*\n.*?^```)[^\n]*$", re.DOTALL | re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?؟۔።])\s+(?=[^\W\d_a-z`])|(?<=[。！？।॥။។])\s*")
"""A sentence begins after a blank, with a capital or a name in code; in some scripts right after
the sign that ends the one before."""


def json_in(text: str, schema: Schema) -> str | None:
    """The object in a reply that fits the schema best, as JSON; None when there is none.

    There may be thoughts (`<think>`), prose or a code fence around it. Keys in it that the schema
    does not know are left out.
    """
    said = re.sub(r"<think>.*?(?:</think>|\Z)", "", text, flags=re.DOTALL)
    found = [_known(value, schema) for value in _objects(said)]
    fitting = [value for value in found if problem(value, schema) is None]
    best = next(iter(fitting or found), None)
    return None if best is None else json.dumps(best, ensure_ascii=False)


def respelled(reply: str, schema: Schema) -> str:
    """A reply in JSON with its choices as the schema spells them: `Get_Doc` and
    `functions.get-doc` for `get_doc`."""
    try:
        value = json.loads(reply)
    except (ValueError, RecursionError):
        return reply
    spelled = _respelled(value, schema)
    return reply if spelled == value else json.dumps(spelled, ensure_ascii=False)


def _respelled(value: Any, schema: Schema) -> Any:
    for branch in schema.get("anyOf", ()):
        value = _respelled(value, branch)
    choices = [each for each in schema.get("enum", ()) if isinstance(each, str)]
    match value:
        case str() if choices and value not in choices:
            alike = [each for each in choices if _bare(each) == _bare(value.rpartition(".")[2])]
            return alike[0] if len(alike) == 1 else value
        case dict():
            known = schema.get("properties", {})
            return {name: _respelled(each, known.get(name, {})) for name, each in value.items()}
        case list():
            return [_respelled(each, schema.get("items", {})) for each in value]
    return value


def _bare(name: str) -> str:
    """The letters and digits of a name."""
    return re.sub(r"[\W_]", "", name).casefold()


def items_in(text: str) -> list[str]:
    """The items of a list in plain text, without their marks, and without what introduces them."""
    found = [_MARK.sub("", line).strip() for line in text.splitlines()]
    return [item for item in found if re.search(r"\w", item) and not item.endswith(":")]


def sentences_in(text: str) -> list[list[str]]:
    """The lines of an answer in plain text that say something, each as its sentences; an item of a
    list is one sentence, and so is a block of code between others."""
    *before, last = _BLOCK.split(text)
    if not any(re.search(r"\w", each) for each in [*before[::2], last]):  # it is all in a block
        before, last = [], text
    lines: list[list[str]] = []
    for prose, block in zip([*before[::2], last], [*before[1::2], ""], strict=True):
        lines += _sentences(prose)
        lines += [[block]] if block else []
    return lines


def _sentences(prose: str) -> list[list[str]]:
    lines = [line.rstrip() for line in prose.splitlines() if not line.lstrip().startswith("```")]
    said = [line for line in lines if re.search(r"\w|\|\s*:?-", line)]  # or the rule of a table
    return [
        [line] if _MARK.match(line) else [*filter(None, _SENTENCE_END.split(line.strip()))]
        for line in said
    ]


def whole(text: str) -> str:
    """A text that was cut off, up to its last sentence that is whole, if it has one."""
    return "\n".join(" ".join(line) for line in without_last(sentences_in(text)))


def without_last(lines: list[list[str]]) -> list[list[str]]:
    """Lines, each as its sentences, without the last sentence unless it is the only one."""
    *before, last = lines or [[]]
    kept = [*before, last[:-1]] if before or len(last) > 1 else lines
    return [line for line in kept if line]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost objects in a text, one after the other."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
            yield value
        except (ValueError, RecursionError):
            end = start + 1
        start = text.find("{", end)


def _known(value: Any, schema: Schema) -> Any:
    """The value without keys that the schema does not know."""
    if isinstance(value, list):
        items = schema.get("items")
        return [_known(item, items) for item in value] if isinstance(items, dict) else value
    if not isinstance(value, dict):
        return value
    if "anyOf" in schema:
        schema = _meant(value, schema["anyOf"])
    if "properties" not in schema:
        return value
    known = schema["properties"]
    return {name: _known(item, known[name]) for name, item in value.items() if name in known}


def _meant(value: dict[str, Any], branches: list[Schema]) -> Schema:
    """The only branch that has a constant of the value, as decisions do."""
    named = [
        branch
        for branch in branches
        if any(
            name in value and value[name] in part.get("enum", [part.get("const")])
            for name, part in branch.get("properties", {}).items()
            if "enum" in part or "const" in part
        )
    ]
    return named[0] if len(named) == 1 else {}


def block_in(reply: str, fences: bool) -> str:
    """What a reply has in a code block; empty where it has none. `fences`: whether the text itself
    has code blocks; one in a language may be added to it in any case."""
    inside = r".*" if fences else r"(?:^```\w.*?^```(?!\w)|(?!^```).)*"
    closed = re.search(rf"^```[^\n]*\n({inside})^```(?!\w)", reply, re.DOTALL | re.MULTILINE)
    found = closed or re.search(r"^```[^\n]*\n(.*)", reply, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""
