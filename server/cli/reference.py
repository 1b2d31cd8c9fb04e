"""Writes the configuration reference from the types: `python -m server.cli.reference`.

docs/configuration.md keeps what stands before `MARK`; upstreams.schema.json is written as a whole.
A test holds that both are up to date.
"""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from server.cli import commands as cli
from server.config import MODEL_VARIABLES, ModelSettings
from server.config_schema import NAME, schema_text, upstreams_schema

ROOT = Path(__file__).parents[2]
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

VARIABLES = {
    "PLANLOOM_PROJECT": "The folder that questions are about; `--project` wins over it. Default: "
    "the working folder. In the upstreams file it is always set.",
    "PLANLOOM_UPSTREAMS": "The upstreams file; `--upstreams` wins over it. Default: "
    "`upstreams.yaml` in your configuration directory, else the shipped one.",
    "PLANLOOM_PYTHON": "Set by Planloom for the upstreams file: the Python that it runs on.",
    "PLANLOOM_RUNS": "The directory where runs are recorded, or the `redis://` URL; wins over "
    "`runs.directory` and `runs.redis`.",
    "PLANLOOM_FLEET": "The name that servers share when they take over each other's runs; wins "
    "over `runs.fleet`.",
    "PLANLOOM_TOKEN": "The tokens that HTTP callers send, with commas between them. Default, on "
    "loopback only: what `planloom token` prints.",
    "PLANLOOM_AUTH": "`module:name` of a FastMCP auth provider, such as OAuth or JWT, in place of "
    "tokens.",
    "PLANLOOM_ALLOWED_HOSTS": "Names by which a proxy reaches the HTTP server, with commas between "
    "them.",
}
"""The environment variables that do not concern the models."""

INNER = {"PLANLOOM_UPSTREAM"}
"""Variables between our own processes, which nobody sets."""


def reference() -> str:
    """The part of docs/configuration.md that is made."""
    parts = ["## upstreams.yaml", *_file(), "## Environment variables", _variables()]
    return "\n\n".join([*parts, "## Command line", *_commands()]) + "\n"


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
    fields = ModelSettings.model_fields
    models = {
        variable: f"`models.{name}`: {' '.join((fields[name].description or '').split())}"
        for name, variable in MODEL_VARIABLES.items()
    }
    rows = [(f"`{name}`", meaning) for name, meaning in (VARIABLES | models).items()]
    return _table(("variable", "meaning"), rows)


def _commands() -> Iterator[str]:
    for words, function in _walked(cli.app, "planloom"):
        yield f"### `{words}`"
        yield " ".join((function.__doc__ or "").split())
        if rows := list(_parameters(function)):
            yield _table(("option", "meaning"), rows)


def _walked(app: typer.Typer, words: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    if app.registered_callback and app.registered_callback.callback:
        yield words, app.registered_callback.callback
    for command in app.registered_commands:
        if function := command.callback:
            yield f"{words} {command.name or function.__name__}", function
    for group in app.registered_groups:
        if group.typer_instance:
            yield from _walked(group.typer_instance, f"{words} {group.name}")


def _parameters(function: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """The arguments and options of a command, with what they mean."""
    parameters = inspect.signature(function).parameters
    for name, hint in get_type_hints(function, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            continue  # typer's own, or what is returned
        kind, info, *_ = get_args(hint)
        default = parameters[name].default
        shown = isinstance(default, str | float | int) and not isinstance(default, bool)
        meaning = f"{info.help} Default: {default}." if shown else str(info.help)
        if isinstance(info, ArgumentInfo):
            yield f"`{name.upper()}`", meaning
        else:
            # In `Annotated`, typer takes the first name for a default.
            given = [each for each in (info.default, *(info.param_decls or ())) if each]
            named = [each for each in given if str(each).startswith("--")]
            flag = named[0] if named else f"--{name.replace('_', '-')}"
            yield f"`{' '.join([flag, *_taken(kind, info)])}`", meaning


def _taken(kind: Any, info: OptionInfo) -> Iterator[str]:
    """What follows an option, if anything."""
    kinds = {kind, *get_args(kind)}
    if info.metavar:
        yield info.metavar
    elif literal := [part for part in kinds if get_origin(part) is Literal]:
        yield "|".join(get_args(literal[0]))
    elif Path in kinds:
        yield "PATH"
    elif kind is not bool:
        yield "NUMBER"


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
