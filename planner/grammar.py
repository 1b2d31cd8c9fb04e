"""The part of JSON Schema that model servers can turn into a grammar.

Their converters fail on the rest, or ignore it. What is lost here is checked afterwards
(`planner.checks.validation.problem`).
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

Schema = dict[str, Any]

MAX_STRING_CHARS = 400
"""A longer bound takes thousands of rules; without one, a small model may write without end."""
MAX_ITEMS = 20
MAX_REFERENCE_DEPTH = 4
MAX_PARTS = 1000
"""Of a schema with its references inlined, which can multiply without end."""
UNUSABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors that an invalid schema raises. A stranger wrote it, and nobody has checked it."""


def for_grammar(schema: Schema) -> Schema:
    """The part of a stranger's schema that converters know: references are inlined, bounds are
    small, objects are closed; patterns, unknown keywords and prose are left out."""
    try:
        return simplified(schema)
    except UNUSABLE:
        return {"type": "object"}


def simplified(schema: Schema) -> Schema:
    """As `for_grammar`; raises one of `UNUSABLE` for an invalid schema."""
    grammar = _simplify(schema, schema, MAX_REFERENCE_DEPTH, iter(range(MAX_PARTS)))
    json.dumps(grammar, allow_nan=False)  # 1e999 is read as infinity, which cannot be sent
    return grammar


def _simplify(node: Any, root: Schema, depth: int, parts: Iterator[int]) -> Schema:
    if next(parts, None) is None:
        raise OverflowError(f"more than {MAX_PARTS} parts")
    if not isinstance(node, dict):  # true and false are schemas too
        return {}
    if "$ref" in node:
        target = resolve(node["$ref"], root)
        return _simplify(target, root, depth - 1, parts) if target is not None and depth else {}
    for union in ("anyOf", "oneOf"):
        if union in node:
            rest = {key: value for key, value in node.items() if key != union}
            shared = rest if "properties" in rest else {}
            branches = [
                _simplify(_merged(shared, branch), root, depth, parts)
                for branch in node[union]
                if isinstance(branch, dict)
            ]
            return {"anyOf": branches} if branches else {}
    if "allOf" in node:
        merged: Schema = {key: value for key, value in node.items() if key != "allOf"}
        for part in node["allOf"]:
            found = (
                resolve(part["$ref"], root) if isinstance(part, dict) and "$ref" in part else part
            )
            if isinstance(found, dict):
                merged = _merged(merged, found)
        return _simplify(merged, root, depth - 1, parts) if depth else {}
    kept: Schema = {key: node[key] for key in ("type", "enum", "const") if key in node}
    if "enum" in kept or "const" in kept:
        return {key: value for key, value in kept.items() if key != "type"}
    closed = node.get("properties") or node.get("additionalProperties") in (None, False)
    if "properties" in node and closed:  # else it may have any, as the filter of a query does
        properties = node["properties"]
        required = [name for name in node.get("required", []) if name in properties]
        return {
            "type": "object",
            "properties": {
                name: _simplify(value, root, depth, parts) for name, value in properties.items()
            },
            "required": required,
            "additionalProperties": False,
        }
    if node.get("type") == "array":
        kept["items"] = _simplify(node.get("items", {}), root, depth, parts)
        kept["maxItems"] = min(node.get("maxItems", MAX_ITEMS), MAX_ITEMS)
        if "minItems" in node:
            kept["minItems"] = min(node["minItems"], MAX_ITEMS)
    if node.get("type") == "string":
        kept["maxLength"] = min(node.get("maxLength", MAX_STRING_CHARS), MAX_STRING_CHARS)
        if "minLength" in node:
            kept["minLength"] = min(node["minLength"], MAX_STRING_CHARS)
    if node.get("type") == "integer":
        kept |= {key: node[key] for key in ("minimum", "maximum") if key in node}
    return kept


def unbounded(grammar: Any) -> Any:
    """A grammar without our bounds on texts and lists; the schema's own are checked afterwards."""
    if isinstance(grammar, list):
        return [unbounded(each) for each in grammar]
    if not isinstance(grammar, dict):
        return grammar
    bounds = (("maxLength", MAX_STRING_CHARS), ("maxItems", MAX_ITEMS))
    return {key: unbounded(each) for key, each in grammar.items() if (key, each) not in bounds}


def reaches_bound(value: Any) -> bool:
    """Whether a text or a list in a value is as long as our bounds permit, and may lack its end."""
    match value:
        case str():
            return len(value) >= MAX_STRING_CHARS
        case list():
            return len(value) >= MAX_ITEMS or any(map(reaches_bound, value))
        case dict():
            return any(map(reaches_bound, value.values()))
    return False


def resolve(reference: str, root: Schema) -> Any:
    """The target of a reference; None if it is not in this schema."""
    if not reference.startswith("#/"):
        return None
    node: Any = root
    for part in unquote(reference[2:]).split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        elif isinstance(node, dict) and key in node:
            node = node[key]
        else:
            return None
    return node


def _merged(first: Schema, second: Schema) -> Schema:
    merged = first | second
    if "properties" in first and "properties" in second:
        merged["properties"] = first["properties"] | second["properties"]
    if "required" in first or "required" in second:
        merged["required"] = [*first.get("required", []), *second.get("required", [])]
    return merged
