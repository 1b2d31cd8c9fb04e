"""What a model meant by a reply that no schema held: the JSON in it, with near misses corrected.

Nothing is guessed: of two objects that fit and differ, none is taken.
"""

import ast
import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

from planner.checks.validation import coerced, coerced_value, kinds_of, problem
from planner.grammar import Schema
from planner.text import json_of

_CHANNEL = re.compile(r"<\|channel\|>(\w+).*?<\|message\|>", re.DOTALL)
"""How a part of a reply begins in the Harmony format: only the channel `final` has no thoughts."""
_TOKEN_AT_END = re.compile(r"(?:<\|\w+\|>|</s>)\s*\Z")
_LEXEME = re.compile(
    r'"(?:[^"\\]|\\.)*"'
    r"|'(?:[^'\\]|\\.)*'"
    r"|//[^\n]*|#[^\n]*|/\*.*?\*/"
    r"|[{}\[\],:]"
    r"|[^\s{}\[\],:\"'#]+|\S",
    re.DOTALL,
)
_UNOPENED = re.compile(r"^[ ]*</think>\s+", re.MULTILINE)
"""The end of thoughts that a chat template has begun in the prompt."""
MIN_REPEATED = 160
"""Characters: a list or a comparison may have long phrases in common."""
MIN_COPIED = 100
"""Characters: a reply may begin with a place and what a line there says."""
_PLACE = re.compile(r"^[-*\s]*(\S+:\d+(?:-\d+)?)(?!\S)", re.MULTILINE)
"""The place that a passage begins with."""
_PYTHON = {"None": "null", "True": "true", "False": "false"}
_NULL = ("null", "none")
_EXPLAINED = re.compile(r"[`'\"*.)]*(?:\Z|\s*[(:;\n—–]|\s-\s)")
"""What may follow a choice. A word might make another name of it, or deny it."""
_ARGUMENTS = ("arguments", "parameters")
"""Where models are trained to write the arguments of a tool call, beside `name`."""


def after_thoughts(text: str) -> str:
    """What a reply says after the thoughts that a server has left in it."""
    if text.lstrip().startswith("<|channel|>"):
        *_, last = [None, *_CHANNEL.finditer(text)]
        text = text[last.end() :] if last and last[1] == "final" else ""
    elif text.lstrip().startswith("<think>"):
        text = text.partition("</think>")[2].lstrip("\n")
    elif (end := _UNOPENED.search(text)) and "<think>" not in text[: end.start()]:
        text = text[end.end() :]
    return text


def without_end(text: str) -> str:
    """A reply without the control token at its end."""
    return _TOKEN_AT_END.sub("", text)


def repeats_itself(text: str) -> bool:
    """Whether a long end of a text stands in it before."""
    end, before = text[-MIN_REPEATED:], text[:-MIN_REPEATED]
    return len(end) == MIN_REPEATED and end in before


def copies(text: str, prompt: str) -> bool:
    """Whether a text begins with passages of the prompt, their places and their lines, as a small
    model does that goes on with all of them."""
    places = list(_PLACE.finditer(text))
    if len(places) < 2 or text[: places[0].start(1)].strip(" -*\n"):
        return False
    begins = " ".join(text[places[0].start(1) :].split())[:MIN_COPIED]
    return len(begins) == MIN_COPIED and begins in " ".join(prompt.split())


def up_to_repetition(text: str) -> str:
    """A text up to where it repeats itself."""
    ends = (end for end in range(len(text)) if repeats_itself(text[:end]))
    return text[: next(ends, len(text))]


def json_in(text: str, schema: Schema, called: str | None = None) -> str | None:
    """The object that a reply means, as JSON: the only one that fits the schema, or else the first;
    None where there is none. Thoughts, prose, a code fence or another object may stand around it.

    Keys that the schema does not know are left out, unless they are arguments of the tool that is
    `called`: without them, a call may be another one.
    """
    try:
        values = _objects(text)
        found = [each for value in values for each in _fitting(value, schema, called)]
        if not found:
            found = [_shaped(value, schema, called is None) for value in values[:1]]
    except RecursionError:
        return None
    said = {json.dumps(each, ensure_ascii=False): None for each in found}
    return next(iter(said)) if len(said) == 1 else None


def _fitting(value: Any, schema: Schema, called: str | None) -> Iterator[Any]:
    """What a value means and fits the schema: itself, or an object within it."""
    if _fits(value, schema, called):  # as nearly all do
        yield value
        return
    if _fits(shaped := _shaped(value, schema, called is None), schema, called):
        yield shaped
        return
    around = dict(value)
    if any(each in value for each in _ARGUMENTS):  # a tool call
        named = around.pop("name", None)
        if called is not None and isinstance(named, str) and _choice(named, [called]) != called:
            return
    known = {
        _bare(name) for each in schema.get("anyOf", [schema]) for name in each.get("properties", ())
    }
    if known & {*map(_bare, around)}:
        return  # it is the object itself, which does not fit
    for inner in value.values():
        if isinstance(inner, str) and inner.lstrip().startswith("{"):
            inner = next(iter(_objects(inner)), None)
        if isinstance(inner, dict):
            yield from _fitting(inner, schema, called)


def _fits(value: Any, schema: Schema, called: str | None) -> bool:
    """Whether a value is an object that fits. Arguments are corrected later, and reported."""
    return isinstance(value, dict) and not problem(
        value if called is None else coerced(value, schema), schema
    )


def _shaped(value: Any, schema: Schema, own: bool) -> Any:
    """A value with near misses corrected: names and choices in another spelling, a list of one text
    for the text. If the schema is our `own`, and no tool's: also `"null"` for null, one value for
    a list, and unknown keys."""
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    wanted = kinds_of(schema, schema)
    if value is None or value in choices:
        return value
    if isinstance(value, dict) and not choices and wanted != {"array"}:
        return _object(value, schema, own)
    texts = "string" in wanted or any(isinstance(each, str) for each in choices)
    if isinstance(value, list) and texts and "array" not in wanted:
        several = own and not choices and all(isinstance(each, str) for each in value)
        value = "\n".join(value) if several else value[0] if len(value) == 1 else value
    nullable = own and (None in choices or "null" in wanted)
    if nullable and isinstance(value, str) and value.strip(" .`").casefold() in _NULL:
        return None
    if choices:
        said = value.get("name") if isinstance(value, dict) else value  # a tool call
        return _choice(said, choices) if isinstance(said, str) else value
    value = coerced_value(value, wanted) if own else value
    if isinstance(value, list):
        return [_shaped(each, schema.get("items", {}), own) for each in value]
    return value


def _choice(said: str, choices: list[Any]) -> Any:
    """The choice that is meant, in another spelling or with something after it."""
    names = [each for each in choices if isinstance(each, str) and _bare(each)]
    spelled = (_bare(said), _bare(said.rpartition(".")[2]))  # `functions.search`
    rest = said.lstrip(" `'\"*")
    alike = [each for each in names if _bare(each) in spelled] or [
        each
        for each in names
        if _bare(rest[: len(each)]) == _bare(each) and _EXPLAINED.match(rest[len(each) :])
    ]
    return alike[0] if len(alike) == 1 else said


def _object(value: dict[str, Any], schema: Schema, own: bool) -> dict[str, Any]:
    branches = schema.get("anyOf", [schema])
    shaped = [_of_branch(value, branch, own) for branch in branches]
    fitting = [
        each for each, branch in zip(shaped, branches, strict=True) if problem(each, branch) is None
    ]
    if len(fitting) == 1 or len(branches) == 1:
        return (fitting or shaped)[0]
    named = [each for each, branch in zip(shaped, branches, strict=True) if _names(each, branch)]
    return named[0] if len(named) == 1 else value


def _names(value: dict[str, Any], branch: Schema) -> bool:
    """Whether a value has a constant of the branch, as decisions do."""
    return any(
        name in value and value[name] in part.get("enum", [part.get("const")])
        for name, part in branch.get("properties", {}).items()
        if "enum" in part or "const" in part
    )


def _of_branch(value: dict[str, Any], branch: Schema, own: bool) -> dict[str, Any]:
    known = branch.get("properties")
    if known is None:
        return value
    alike = {_bare(name): name for name in known}
    spelled: dict[str, Any] = {}
    for name, each in value.items():
        meant = name if name in known else alike.get(_bare(name), name)
        if meant not in value or meant == name:
            spelled[meant] = each
    if "tool" in known and "tool" not in spelled and isinstance(value.get("name"), str):
        spelled["tool"] = value["name"]
        told = next((value[each] for each in _ARGUMENTS if each in value), None)
        if "prompt" in known and told is not None:
            spelled.setdefault("prompt", json.dumps(told, ensure_ascii=False))
    shaped = {
        name: _shaped(each, known[name], own) if name in known else each
        for name, each in spelled.items()
        if name in known or not own
    }
    optional = known.keys() - {*branch.get("required", ())} if own else set()
    left_out = {name for name in optional & shaped.keys() if shaped[name] is None}
    return {
        name: each
        for name, each in shaped.items()
        if name not in left_out or problem(each, known[name]) is None
    }


def _bare(name: str) -> str:
    """The letters and digits of a name."""
    return re.sub(r"[\W_]", "", name).casefold()


def _objects(text: str) -> list[Any]:
    """The outermost objects in a text, one after the other."""
    value = json_of(text)
    return [value] if isinstance(value, dict) else list(_in_prose(after_thoughts(text)))


def _in_prose(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(strict=False)  # a line may end within a text
    start = text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
            yield value
        except (ValueError, RecursionError):
            written, end = _as_json(text, start)
            if not end:
                return  # it was cut off, and what is in it is only a part
            with contextlib.suppress(ValueError, RecursionError):
                yield json.loads(written)
        start = text.find("{", end)


def _as_json(text: str, start: int) -> tuple[str, int]:
    """An object of Python or JavaScript that begins there, as JSON, and its end, or 0."""
    parts: list[str] = []
    depth = 0
    for lexeme in _LEXEME.finditer(text, start):
        said = lexeme[0]
        if said.startswith(("#", "//", "/*")):
            continue
        if said[0] in "\"'":
            said = _string(said)
        elif said == ":" and parts[-1].isidentifier():
            parts[-1] = json.dumps(parts[-1])
        elif said in "}]":
            depth -= 1
            parts = parts[:-1] if parts[-1] == "," else parts
        elif said in "{[":
            depth += 1
        parts.append(_PYTHON.get(said, said))
        if not depth:
            return "".join(parts), lexeme.end()
    return "", 0


def _string(said: str) -> str:
    """A string as JSON; as it is where it is none."""
    try:
        return json.dumps(json.loads(said, strict=False))
    except ValueError:
        with contextlib.suppress(ValueError, SyntaxError):
            return json.dumps(ast.literal_eval(said))
    return said
