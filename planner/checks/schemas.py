"""JSON Schemas for the replies of models, and the validation of replies.

The model server makes a grammar of a schema (`planner.grammar`), which loses a part of it. So a
reply is validated against the tool's own schema afterwards.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Annotated, Any

import jsonschema
import pydantic_core
from jsonschema_specifications import REGISTRY
from pydantic import StringConstraints, TypeAdapter, ValidationError
from referencing.exceptions import Unresolvable

from planner.grammar import (
    MAX_REFERENCE_DEPTH,
    MAX_STRING_CHARS,
    Schema,
    for_grammar,
    resolve,
    simplified,
)
from planner.grammar import UNUSABLE as NO_SCHEMA
from planner.protocol import Mode, PlanFor
from planner.text import flat

MAX_STEPS = 6
"""Of one plan; others can follow after these."""
MAX_CALLS = 3
"""Tool calls that one decision may name."""
MAX_DATA_SCHEMA_CHARS = 4000
"""Characters of a caller's schema as compact JSON; it is part of a prompt."""
MAX_CHECKS = 20_000
"""Keywords that are checked for one value: seventy definitions that each refer twice to the next
one would take for ever."""
MAX_CHECK_DEPTH = 80
"""Keywords within keywords. Python's own bound might be reached in a Rust library, which panics."""
UNUSABLE = (
    *NO_SCHEMA,
    *(jsonschema.SchemaError, jsonschema.exceptions.UnknownType, Unresolvable, re.error),
)
"""The errors that an unusable schema raises; a stranger wrote it."""


TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_TYPE_CHECKER = jsonschema.Draft4Validator.TYPE_CHECKER
"""The last one for which 5.0 is not an integer: it is to be written as 5."""


def text(longest: int) -> Schema:
    return {"type": "string", "maxLength": longest}


def closed(**properties: Schema) -> Schema:
    return _object(properties, required=list(properties))


def _object(properties: dict[str, Schema], required: Iterable[str]) -> Schema:
    """An object with its keys in alphabetical order, which is the order they are generated in."""
    return {
        "type": "object",
        "properties": {key: properties[key] for key in sorted(properties)},
        "required": sorted(required),
        "additionalProperties": False,
    }


def one_of(names: Sequence[str]) -> Schema:
    return {"type": "string", "enum": list(names)}


def or_none(names: Sequence[str]) -> Schema:
    return {"enum": [*names, None]}


def selection(choice: Schema) -> Schema:
    return closed(tool=choice)


def tools(names: Sequence[str]) -> Schema:
    return closed(tools={"type": "array", "items": one_of(names), "minItems": 1, "maxItems": 3})


def files(paths: Sequence[str]) -> Schema:
    return closed(files={"type": "array", "items": one_of(paths), "minItems": 1, "maxItems": 6})


def words() -> Schema:
    return closed(words={"type": "array", "items": SEARCH_WORD, "minItems": 2, "maxItems": 6})


def file_tools(lists: Sequence[str], reads: Sequence[str]) -> Schema:
    return closed(lists=or_none(lists), reads=or_none(reads))


SEARCH_WORD: Schema = {"type": "string", "pattern": "^[0-9A-Za-z_@./-][0-9A-Za-z_@./ -]{0,29}$"}
"""In Latin letters: otherwise a small model copies the words of a Chinese request, and code is
written in English. The request's own words are searched for as well."""


BRIEF_KEYS = ("search", "wants", "first", "then")
"""In the order they are generated in: what has to be found out first is seen once the request is
sorted."""
MAX_QUESTION = 160
"""Characters of a question that is made of a part of the request."""


def brief(acting: bool = True) -> Schema:
    """The search words come before what is wanted. If there are none, a reply follows: a model that
    may reply at once does so to any question. `acting`: whether the request may be for an action;
    not if it was read as one before."""
    wants = ["short answer", "long answer", *(["action"] if acting else [])]
    search = {"type": "array", "items": SEARCH_WORD, "minItems": 1, "maxItems": 6}
    question = text(MAX_QUESTION)
    sorted_ = _object(
        {"search": search, "wants": one_of(wants), "first": question, "then": question},
        required=["search", "wants"],
    )
    sorted_["properties"] = {key: sorted_["properties"][key] for key in BRIEF_KEYS}
    talk = _object({"search": {"const": []}, "reply": text(300)}, required=["search", "reply"])
    talk["properties"] = {key: talk["properties"][key] for key in ("search", "reply")}
    return {"anyOf": [sorted_, talk] if acting else [sorted_]}


def answer(longest: int) -> Schema:
    return closed(
        assessment=text(300), final_answer=text(longest), found_in=one_of(["results", "nowhere"])
    )


def second_reading() -> Schema:
    return closed(answer_again=text(240))


def narrowed(schema: Schema, choices: Mapping[str, Sequence[str]]) -> Schema:
    """An input schema whose properties of these names take only these values."""
    properties = dict(schema.get("properties", {}))
    for name, values in choices.items():
        kinds = _kinds(properties.get(name), schema)
        if not values or not kinds:
            continue
        about = {"description": properties[name].get("description", "")}
        if "array" in kinds:
            properties[name] = about | {"type": "array", "items": one_of(values)}
        else:
            properties[name] = about | {"enum": [_coerced_value(each, kinds) for each in values]}
    return schema | {"properties": properties}


def summary(tools: Sequence[str]) -> Schema:
    """`tools` are those of which one more call may be made."""
    return closed(final_answer=text(800), missing=text(160), tool=or_none(tools))


def conclude(longest: int = 1200) -> Schema:
    return closed(
        decision={"const": "conclude"},
        final_answer=text(longest),
        success={"type": "boolean"},
    )


def tool_calls(choice: Schema) -> Schema:
    call = closed(prompt=text(240), tool=choice)
    return {"type": "array", "items": call, "minItems": 1, "maxItems": MAX_CALLS}


def later_steps() -> Schema:
    return {"type": "array", "items": text(120), "maxItems": 4}


def plan(tools: Sequence[str], purpose: PlanFor) -> Schema:
    """Steps with the tool that each calls, if it is not for a question."""
    step = closed(
        objective=text(160), tool=or_none(tools) if purpose == "question" else one_of(tools)
    )
    return closed(steps={"type": "array", "items": step, "minItems": 1, "maxItems": MAX_STEPS})


def iteration_decision(
    choice: Schema, mode: Mode, noted: bool = False, planned: bool = False
) -> Schema:
    """`choice` is that of the next tool. `noted`: with notes also where the step goes on.
    `planned`: the next step is the first of the later ones, and need not be said again. In deep
    mode with three fields more, in every branch: they are written before the decision, and a branch
    without them would be decided against by writing them."""
    assessed: Schema = {}
    if mode == "deep":
        assessed = {"assessment": text(240), "belief": text(160), "critique": text(160)}
    stay = {
        **assessed,
        "decision": {"const": "stay"},
        "later_steps": later_steps(),
        **({"notes": text(MAX_STRING_CHARS)} if noted else {}),
        "tool_calls": tool_calls(choice),
    }
    move_on = {
        **assessed,
        "decision": one_of(["move_on", "give_up"]),
        "later_steps": later_steps(),
        "notes": text(MAX_STRING_CHARS),
        "objective": text(160),
        "tool_calls": tool_calls(choice),
    }
    conclusion = {**assessed, **conclude()["properties"]}
    optional = {"later_steps", "objective"} if planned else {"later_steps"}
    return {
        "anyOf": [
            _object(branch, required=branch.keys() - optional)
            for branch in (conclusion, stay, move_on)
        ]
    }


def formatted(data_schema: Schema) -> Schema:
    """The caller's schema inside an object, so that its root may be anything."""
    return closed(data=for_grammar(data_schema))


def coerced(arguments: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """The arguments with near misses corrected: `"5"` for an integer, a scalar for a list of one,
    `"null"` or an empty string for an optional argument that should be left out."""
    try:
        return _coerced(arguments, schema)
    except UNUSABLE:
        return arguments


def _coerced(arguments: dict[str, Any], schema: Schema) -> dict[str, Any]:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    corrected: dict[str, Any] = {}
    for name, value in arguments.items():
        kinds = _kinds(properties.get(name, {}), schema)
        if name not in required and value in (None, "", "null", "None") and "null" not in kinds:
            continue
        corrected[name] = _coerced_value(value, kinds)
    return corrected


def _kinds(node: Any, root: Schema, depth: int = MAX_REFERENCE_DEPTH) -> set[str]:
    if not isinstance(node, dict) or not depth:
        return set()
    if "$ref" in node:
        return _kinds(resolve(node["$ref"], root), root, depth - 1)
    kinds: set[str] = set()
    for branch in [*node.get("anyOf", []), *node.get("oneOf", [])]:
        kinds |= _kinds(branch, root, depth - 1)
    declared = node.get("type", [])
    return kinds | ({declared} if isinstance(declared, str) else set(declared))


def _coerced_value(value: Any, kinds: set[str]) -> Any:
    if not kinds or _fits(value, kinds):
        return value
    if isinstance(value, str):
        try:
            parsed = json.loads(value.lower() if value in ("True", "False") else value)
        except (ValueError, RecursionError):
            parsed = value
        if _fits(parsed, kinds):
            return parsed
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        return int(value)
    if "array" in kinds:
        return [value]
    if "string" in kinds and isinstance(value, int | float):
        return str(value)
    return value


def _fits(value: Any, kinds: set[str]) -> bool:
    return any(kind in TYPES and _TYPE_CHECKER.is_type(value, kind) for kind in kinds)


def texts(node: Any, root: Schema | None = None, depth: int = MAX_REFERENCE_DEPTH) -> Iterator[str]:
    """The names of a schema's properties that are texts, at any depth."""
    root = node if root is None else root
    if not isinstance(node, dict) or not depth:
        return
    if isinstance(reference := node.get("$ref"), str):
        yield from texts(resolve(reference, root), root, depth - 1)
    for name, inner in node.get("properties", {}).items():
        if "string" in _kinds(inner, root):
            yield name
        yield from texts(inner, root, depth - 1)
    yield from texts(node.get("items"), root, depth - 1)


def problem(value: Any, schema: Schema) -> str | None:
    """Why a value does not fit a stranger's schema, in one line; None if it fits.

    References to other documents are never fetched: they make the schema unusable.
    """
    try:
        validator = _Bounded(_plain(schema), registry=REGISTRY)
        _checks.set(iter(range(MAX_CHECKS)))
        _depth.set(0)
        error = next(iter(validator.iter_errors(value)), None)
    except UNUSABLE as unusable:
        return f"the schema itself cannot be used ({type(unusable).__name__})"
    return _described(error) if error else None


_checks: ContextVar[Iterator[int]] = ContextVar("checks")
_depth: ContextVar[int] = ContextVar("depth", default=0)


def _counted(check: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*arguments: Any) -> Any:
        if next(_checks.get(), None) is None:
            raise OverflowError(f"more than {MAX_CHECKS} checks")
        if (depth := _depth.get()) == MAX_CHECK_DEPTH:
            raise OverflowError(f"keywords nest more than {MAX_CHECK_DEPTH} deep")
        _depth.set(depth + 1)
        try:
            yield from check(*arguments) or ()
        finally:
            _depth.set(depth)

    return counted


def _pattern(_: Any, pattern: str, value: Any, __: Schema) -> Iterator[jsonschema.ValidationError]:
    if isinstance(value, str) and not _matches(pattern, value):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


def _matches(pattern: str, value: str) -> bool:
    """By pydantic's engine, which takes linear time: `(a+)+$` keeps Python's busy for ever. What
    that engine does not know (look-around, back-references) is left to the tool."""
    try:
        _matcher(pattern).validate_python(value)
    except ValidationError:
        return False
    except pydantic_core.SchemaError:
        re.compile(pattern)  # an invalid pattern makes the schema unusable
    return True


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> TypeAdapter[str]:
    return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])


_KEYWORDS = {**jsonschema.Draft202012Validator.VALIDATORS, "pattern": _pattern}
_Bounded = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, {name: _counted(check) for name, check in _KEYWORDS.items()}
)


def _plain(node: Any) -> Any:
    """The schema without what would get around the bounds: another dialect's validator (`$schema`),
    and patterns of names with what depends on them."""
    if isinstance(node, list):
        return [_plain(part) for part in node]
    if not isinstance(node, dict):
        return node
    left_out = {"$schema"}
    if "patternProperties" in node:
        left_out |= {"patternProperties", "additionalProperties", "unevaluatedProperties"}
    return {key: _plain(part) for key, part in node.items() if key not in left_out}


def _described(error: jsonschema.ValidationError | jsonschema.SchemaError) -> str:
    place = ".".join(str(part) for part in error.absolute_path)
    text = f"{place}: {error.message}" if place else error.message
    return flat(text)[:300]


def data_schema_problem(schema: Schema) -> str | None:
    """Why a caller's schema cannot be used, in one line; None if it can."""
    validator = jsonschema.Draft202012Validator
    try:
        size = len(json.dumps(schema, ensure_ascii=False, separators=(",", ":")))
        if size > MAX_DATA_SCHEMA_CHARS:
            return f"it has {size} characters; the limit is {MAX_DATA_SCHEMA_CHARS}"
        validator.check_schema(schema, format_checker=validator.FORMAT_CHECKER)
        for part in _objects(schema):
            reference = part.get("$ref", "#")
            if isinstance(reference, str) and not _leads(reference, schema):
                where = "leads to nothing in it; other documents are not fetched"
                return f"the reference {reference!r} {where}"
        simplified(schema)
    except jsonschema.SchemaError as error:
        return f"it is not a JSON Schema: {_described(error)}"
    except UNUSABLE as error:
        return f"it is too deep or too large ({error})"
    return None


def _leads(reference: str, schema: Schema) -> bool:
    return reference == "#" or resolve(reference, schema) is not None


def named(schema: Schema) -> list[Any]:
    """What the schema itself names: properties, and the values of `enum` and `const`."""
    found: list[Any] = []
    for part in _objects(schema):
        for key in ("properties", "enum"):
            found += part[key] if isinstance(part.get(key), dict | list) else []
        found += [part["const"]] if "const" in part else []
    return found


def _objects(node: Any) -> Iterator[dict[str, Any]]:
    """Every object in JSON data, the outermost first."""
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    for inner in node if isinstance(node, list) else ():
        yield from _objects(inner)
