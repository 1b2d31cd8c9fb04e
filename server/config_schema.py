"""The JSON Schema of `upstreams.yaml`, by which editors complete and check it."""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from server.config import File

NAME = "upstreams.schema.json"
"""It stands beside each `upstreams.yaml` that names it, so that no editor needs the network."""
MODELINE = f"# yaml-language-server: $schema={NAME}"
"""The line of such a file by which editors with a YAML language server find it."""


class _Untitled(GenerateJsonSchema):
    """Without the titles that pydantic makes of names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def upstreams_schema() -> dict[str, Any]:
    """The schema, made of the types in `server.config`."""
    schema = File.model_json_schema(schema_generator=_Untitled)
    for definition in [schema, *schema["$defs"].values()]:
        definition.pop("title", None)
    return {"$schema": GenerateJsonSchema.schema_dialect, **_unwrapped(schema)}


def schema_text() -> str:
    """The schema as it stands in a file."""
    return json.dumps(upstreams_schema(), indent=2, ensure_ascii=False) + "\n"


def _unwrapped(value: Any) -> Any:
    """Descriptions as they read, not as the lines of the source are wrapped."""
    match value:
        case dict():
            return {
                key: " ".join(item.split())
                if key == "description" and isinstance(item, str)
                else _unwrapped(item)
                for key, item in value.items()
            }
        case list():
            return [_unwrapped(item) for item in value]
        case _:
            return value
