"""The JSON Schema of `upstreams.yaml`, by which editors complete and check it."""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from planner.text import flat
from server.config import File

NAME = "upstreams.schema.json"
"""It stands beside each `upstreams.yaml` that names it in its first line
(`# yaml-language-server: $schema=…`), so that no editor needs the network."""


class Untitled(GenerateJsonSchema):
    """Without the titles that pydantic makes of the fields' names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def upstreams_schema() -> dict[str, Any]:
    """The schema, made of the types in `server.config`."""
    schema = File.model_json_schema(schema_generator=Untitled)
    for definition in [schema, *schema["$defs"].values()]:
        definition.pop("title", None)
    unwrapped = json.loads(json.dumps(schema), object_hook=_unwrapped)
    return {"$schema": GenerateJsonSchema.schema_dialect, **unwrapped}


def schema_text() -> str:
    return json.dumps(upstreams_schema(), indent=2, ensure_ascii=False) + "\n"


def _unwrapped(schema: dict[str, Any]) -> dict[str, Any]:
    """The description on one line; the source wraps it."""
    if isinstance(description := schema.get("description"), str):
        schema["description"] = flat(description)
    return schema
