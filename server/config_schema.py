"""The JSON Schema of `upstreams.yaml`, by which editors complete and check it."""

import ast
import inspect
import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
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


class _Described(Untitled):
    """With the docstrings of fields as their descriptions."""

    def model_schema(self, schema: Any) -> dict[str, Any]:
        made = super().model_schema(schema)
        for name, text in field_docs(schema["cls"]).items():
            made["properties"][name]["description"] = text
        return made


def upstreams_schema() -> dict[str, Any]:
    """The schema, made of the types in `server.config`."""
    schema = File.model_json_schema(schema_generator=_Described)
    for definition in [schema, *schema["$defs"].values()]:
        definition.pop("title", None)
        definition["description"] = flat(definition["description"])  # the source wraps it
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema}


def schema_text() -> str:
    return json.dumps(upstreams_schema(), indent=2, ensure_ascii=False) + "\n"


def field_docs(model: type[BaseModel]) -> Mapping[str, str]:
    """The docstrings of a model's fields, on one line each. Pydantic's `use_attribute_docstrings`
    would read the source at each start."""
    docs: dict[str, str] = {}
    for each in reversed(model.__mro__[: model.__mro__.index(BaseModel)]):
        [definition] = ast.parse(inspect.getsource(each)).body
        assert isinstance(definition, ast.ClassDef), "a model is a class"
        for field, text in pairwise(definition.body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(name)),
                    ast.Expr(value=ast.Constant(str(said))),
                ):
                    docs[name] = flat(said)
    return docs
