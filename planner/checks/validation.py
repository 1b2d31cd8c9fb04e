"""What fits a JSON Schema that a stranger wrote, for a tool's arguments or a caller's data.

Such a schema may be unusable, or made to keep its reader busy.
"""

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Annotated, Any

import jsonschema
import pydantic_core
from jsonschema_specifications import REGISTRY
from pydantic import StringConstraints, TypeAdapter, ValidationError
from referencing.exceptions import Unresolvable

from planner.checks.dates import as_described
from planner.grammar import MAX_REFERENCE_DEPTH, Schema, resolve, simplified
from planner.grammar import UNUSABLE as NO_SCHEMA
from planner.text import flat

MAX_DATA_SCHEMA_CHARS = 4000
"""Characters of a caller's schema as compact JSON; it is part of a prompt."""
MAX_CHECKS = 20_000
"""Keywords that are checked for one value: definitions may refer to each other without end."""
MAX_CHECK_DEPTH = 80
"""Keywords within keywords. Python's own bound might be reached in a Rust library, which panics."""
UNUSABLE = (
    *NO_SCHEMA,
    *(jsonschema.SchemaError, jsonschema.exceptions.UnknownType, Unresolvable, re.error),
)
"""The errors that an unusable schema raises."""

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_TYPE_CHECKER = jsonschema.Draft4Validator.TYPE_CHECKER
"""The last one for which 5.0 is not an integer: it is to be written as 5."""


def coerced(
    arguments: dict[str, Any], schema: Schema, emptied: Container[str] | None = ()
) -> dict[str, Any]:
    """The arguments with near misses corrected: `"5"` for an integer, a scalar for a list of one,
    `"null"` or an empty string for an optional argument, a date in another format than the
    description names. `emptied`: the arguments whose empty text is meant; None for a call that
    reads, where none is."""
    try:
        return _coerced(arguments, schema, emptied)
    except UNUSABLE:
        return arguments


def _coerced(
    arguments: dict[str, Any], schema: Schema, emptied: Container[str] | None
) -> dict[str, Any]:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    corrected: dict[str, Any] = {}
    cleared: dict[str, Any] = {}
    for name, value in arguments.items():
        node = properties.get(name, {})
        kinds = kinds_of(node, schema)
        nullable = "null" in kinds
        meant = value == "" and name in (emptied or ())
        if nullable and value in ("null", "None"):
            value = None
        unsaid = value == "" or (not nullable and value in (None, "null", "None"))
        if name not in required and unsaid and not meant:
            if nullable:
                cleared[name] = value
            continue
        value = coerced_value(value, kinds)
        if isinstance(value, str) and isinstance(node, dict):
            value = as_described(value, str(node.get("description", "")))
        corrected[name] = value
    if emptied is None:
        return corrected
    # A change that would say nothing else is there to clear something.
    return corrected if corrected.keys() - {*required} else corrected | cleared


def kinds_of(node: Any, root: Schema, depth: int = MAX_REFERENCE_DEPTH) -> set[str]:
    if not isinstance(node, dict) or not depth:
        return set()
    if "$ref" in node:
        return kinds_of(resolve(node["$ref"], root), root, depth - 1)
    kinds: set[str] = set()
    for branch in [*node.get("anyOf", []), *node.get("oneOf", [])]:
        kinds |= kinds_of(branch, root, depth - 1)
    declared = node.get("type", [])
    return kinds | ({declared} if isinstance(declared, str) else set(declared))


def coerced_value(value: Any, kinds: set[str]) -> Any:
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


def narrowed(schema: Schema, choices: Mapping[str, Sequence[str]]) -> Schema:
    """An input schema whose properties of these names take only these values."""
    properties = dict(schema.get("properties", {}))
    for name, values in choices.items():
        kinds = kinds_of(properties.get(name), schema)
        if not values or not kinds:
            continue
        about = {"description": properties[name].get("description", "")}
        several = "array" in kinds
        kinds = kinds_of(properties[name].get("items"), schema) if several else kinds
        choice = {"enum": [coerced_value(each, kinds) for each in values]}
        properties[name] = about | ({"type": "array", "items": choice} if several else choice)
    return schema | {"properties": properties}


def texts(grammar: Schema) -> list[str]:
    """The names of the properties in a tool's grammar that are texts, at any depth."""
    named = [each for part in objects(grammar) for each in part.get("properties", {}).items()]
    return [name for name, node in named if "string" in kinds_of(node, grammar)]


def problem(value: Any, schema: Schema) -> str | None:
    """Why a value does not fit a stranger's schema, in one line. No document is fetched."""
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
    """By pydantic's engine, which takes linear time: `(a+)+$` never ends in Python's. A pattern
    that it does not know (look-around, back-references) is left to the tool."""
    try:
        if isinstance(value, str):
            _matcher(pattern).validate_python(value)
    except ValidationError:
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")
    except pydantic_core.SchemaError:
        return


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> TypeAdapter[str]:
    return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])


_KEYWORDS = {**jsonschema.Draft202012Validator.VALIDATORS, "pattern": _pattern}
_Bounded = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, {name: _counted(check) for name, check in _KEYWORDS.items()}
)


_FLAGS = {"exclusiveMinimum", "exclusiveMaximum"}


def _plain(node: Any) -> Any:
    """The schema without what gets around the bounds: another dialect (`$schema`), unevaluated
    parts, patterns of names; and without the flags of draft 4, which are numbers in later ones."""
    if isinstance(node, list):
        return [_plain(part) for part in node]
    if not isinstance(node, dict):
        return node
    left_out = {"unevaluatedItems", "unevaluatedProperties"}
    left_out |= {"$schema"} if isinstance(node.get("$schema"), str) else set()  # else a property
    left_out |= {each for each in _FLAGS & node.keys() if isinstance(node[each], bool)}
    if "patternProperties" in node:
        left_out |= {"patternProperties", "additionalProperties"}
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
        for part in objects(schema):
            reference = part.get("$ref", "#")
            inside = reference == "#" or not isinstance(reference, str)
            if not inside and resolve(reference, schema) is None:
                where = "leads to nothing in it; other documents are not fetched"
                return f"the reference {reference!r} {where}"
        simplified(schema)
    except jsonschema.SchemaError as error:
        return f"it is not a JSON Schema: {_described(error)}"
    except UNUSABLE as error:
        return f"it cannot be used ({error})"
    return None


def named(schema: Schema) -> list[Any]:
    """The properties of a schema, and the values of `enum` and `const`."""
    found: list[Any] = []
    for part in objects(schema):
        for key in ("properties", "enum"):
            found += part[key] if isinstance(part.get(key), dict | list) else []
        found += [part["const"]] if "const" in part else []
    return found


def choices(grammar: Schema, argument: str) -> list[Any]:
    """The values that a tool's grammar names for an argument."""
    return named(grammar.get("properties", {}).get(argument, {}))


def takes_whole(grammar: Schema, argument: str) -> bool:
    """Whether all numbers that a tool takes for an argument are whole ones."""
    kinds = [part.get("type") for part in objects(grammar.get("properties", {}).get(argument))]
    return "integer" in kinds and "number" not in kinds


def objects(node: Any) -> Iterator[dict[str, Any]]:
    """Every object in JSON data, the outermost first."""
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    for inner in node if isinstance(node, list) else ():
        yield from objects(inner)
