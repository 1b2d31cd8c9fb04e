"""Writes the configuration reference from the types: `python -m benchmarks.reference`.

In docs/configuration.md, the part before `MARK` is kept; upstreams.schema.json is written as a
whole. A test checks that both are up to date.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_group

from benchmarks import ROOT
from server.cli.commands import app
from server.config import ModelSettings
from server.config_schema import NAME, field_docs, schema_text, upstreams_schema
from server.environment import OTHERS, VARIABLES, Environment

PAGE = ROOT / "docs" / "configuration.md"
MARK = "<!-- From here on made by `make reference`, from the types. -->"

SECTIONS = {
    "ModelSettings": "models",
    "ApprovalSettings": "approval",
    "RunSettings": "runs",
    "UpstreamSettings": "upstreams.NAME",
    "Listing": "upstreams.NAME.listing",
    "ToolSettings": "upstreams.NAME.tools.TOOL",
}
"""The types of upstreams.yaml, by where they stand in it."""

INNER = {"PLANLOOM_UPSTREAM"}
"""Variables between our own processes, which nobody sets."""


def reference() -> str:
    """The part of docs/configuration.md that is made."""
    parts = ["## upstreams.yaml", *_file(), "## Environment variables", _variables()]
    return "\n\n".join([*parts, "## Command line", *_commands(get_group(app), "planloom")]) + "\n"


def page(before: str) -> str:
    """The whole page, with what stood before the mark."""
    return f"{before.partition(MARK)[0]}{MARK}\n\n{reference()}"


def _file() -> Iterator[str]:
    schema = upstreams_schema()
    yield _fields(schema)
    for name, place in SECTIONS.items():
        section = schema["$defs"][name]
        yield f"### `{place}`"
        yield section["description"]
        yield _fields(section)


def _fields(section: Mapping[str, Any]) -> str:
    rows = [
        (f"`{key}`", _value(field), _default(field), field.get("description", ""))
        for key, field in section["properties"].items()
    ]
    return _table(("key", "value", "default", "meaning"), rows)


def _value(field: Mapping[str, Any]) -> str:
    """What a field takes, in words."""
    if "anyOf" in field:
        return " or ".join(_value(each) for each in field["anyOf"] if each.get("type") != "null")
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        section = SECTIONS.get(name)
        return f"[see below](#{_anchor(section)})" if section else _value(_definition(name))
    if "enum" in field:
        return ", ".join(f"`{each}`" for each in field["enum"])
    match field.get("type"):
        case "array":
            return f"list of {_value(field['items'])}"
        case "object":
            inner = field.get("patternProperties", {"": field.get("additionalProperties")})
            (of,) = inner.values()
            return f"map of {_value(of)}" if isinstance(of, dict) else "map"
        case "boolean":
            return "`true`, `false`"
        case "integer" | "number" as kind:
            words = "whole number" if kind == "integer" else "number"
            least = f", {field['minimum']} or more" if "minimum" in field else ""
            return words + (", above 0" if "exclusiveMinimum" in field else least)
    return "text"


def _definition(name: str) -> Mapping[str, Any]:
    definition: Mapping[str, Any] = upstreams_schema()["$defs"][name]
    return definition


def _default(field: Mapping[str, Any]) -> str:
    default = field.get("default")
    return "" if default in (None, []) or isinstance(default, dict) else f"`{json.dumps(default)}`"


def _variables() -> str:
    models, others = field_docs(ModelSettings), field_docs(Environment)
    settings = {
        place: f"`models.{name}`: {models[name]}" if name in models else others[name]
        for name, place in VARIABLES.items()
    }
    rows = [(f"`{name}`", meaning) for name, meaning in (settings | OTHERS).items()]
    return _table(("variable", "meaning"), rows)


def _commands(command: TyperCommand | TyperGroup, words: str) -> Iterator[str]:
    yield f"### `{words}`"
    yield " ".join((command.callback.__doc__ or "").split())
    options = [each for each in command.params if isinstance(each, TyperArgument | TyperOption)]
    if options:
        yield _table(("option", "meaning"), [_parameter(each) for each in options])
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, f"{words} {name}")


def _parameter(parameter: TyperArgument | TyperOption) -> tuple[str, str]:
    """An argument or option of a command, and what it means."""
    default = parameter.default
    shown = isinstance(default, str | float | int) and not isinstance(default, bool)
    meaning = f"{parameter.help} Default: {default}." if shown else str(parameter.help)
    if isinstance(parameter, TyperArgument):
        return f"`{parameter.metavar}`", meaning
    words = [" ".join(sorted(parameter.opts, key=len, reverse=True)), _value_of(parameter)]
    return f"`{' '.join(words).strip()}`", meaning


def _value_of(option: TyperOption) -> str:
    kind: Any = option.type_descriptor.annotation
    if option.metavar or option.is_flag:
        return option.metavar or ""
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return "PATH" if kind is Path else "NUMBER"


def _anchor(heading: str) -> str:
    """Of a heading, as GitHub makes it."""
    return heading.lower().replace(".", "")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [[each.replace("|", "\\|") for each in row] for row in (head, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], f"|{' --- |' * len(head)}", *lines[1:]])


def main() -> None:
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    (ROOT / NAME).write_text(schema_text(), "utf-8")


if __name__ == "__main__":
    main()
