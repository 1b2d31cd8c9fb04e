"""The JSON Schema of upstreams.yaml and the configuration reference: true, whole, up to date."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from benchmarks import ROOT
from benchmarks.reference import INNER, MARK, PAGE, page
from planner.errors import ConfigError
from server.config_file import load_settings, shipped_file
from server.config_schema import NAME, schema_text, upstreams_schema

SCHEMA = upstreams_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def test_the_pages_are_up_to_date() -> None:
    text = PAGE.read_text("utf-8")
    assert page(text) == text, "make reference"
    assert (ROOT / NAME).read_text("utf-8") == schema_text(), "make reference"


def test_what_a_person_wrote_stays() -> None:
    before = PAGE.read_text("utf-8").partition(MARK)[0]
    assert page(before).startswith(before)
    assert len(before) > 1000


def test_every_field_is_described() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    places = [SCHEMA, *SCHEMA["$defs"].values()]
    fields = [field for place in places for field in place.get("properties", {}).items()]
    assert len(fields) > 40
    assert [name for name, field in fields if not field.get("description")] == []


def test_every_variable_that_the_code_names_is_told() -> None:
    files = [*ROOT.glob("planner/**/*.py"), *ROOT.glob("server/**/*.py")]
    named = {
        name for file in files for name in re.findall(r'"(PLANLOOM_[A-Z_]+)"', file.read_text())
    }
    told = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE))
    assert named - told == INNER


def test_the_shipped_file_names_the_schema_and_fits_it() -> None:
    text = shipped_file().read_text("utf-8")
    assert text.startswith(f"# yaml-language-server: $schema={NAME}\n")
    assert (shipped_file().parent / NAME).is_file()
    assert list(VALIDATOR.iter_errors(yaml.safe_load(text))) == []


@pytest.mark.parametrize(
    "text",
    [
        "modls: {}",
        "approval: {timeout_s: 0}",
        "models: {num_ctx: 5}",
        "models: {backend: cloud}",
        "upstreams: {a: {}}",
        "upstreams: {a: {command: x, url: y}}",
        "upstreams: {a: {command: x, args: [1]}}",
        "upstreams: {a: {command: x, env: {A: 1}}}",
        "upstreams: {a: {command: x, listing: {}}}",
        "upstreams: {a: {command: x, tools: {t: {safety: harmless}}}}",
        "upstreams: {a: {command: x, lines_from: 2}}",
    ],
)
def test_an_editor_marks_what_planloom_refuses(tmp_path: Path, text: str) -> None:
    file = tmp_path / "upstreams.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError):
        load_settings(file, tmp_path, {})
    assert list(VALIDATOR.iter_errors(yaml.safe_load(text)))


def test_the_registry_entry_agrees_with_the_package() -> None:
    entry: dict[str, Any] = json.loads((ROOT / "server.json").read_text("utf-8"))
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    (version,) = re.findall(r'^version = "(.+)"$', project, re.MULTILINE)
    (package,) = entry["packages"]
    assert (package["identifier"], package["registryType"]) == ("planloom", "pypi")
    assert entry["version"] == package["version"] == version
    # By the registry's schema (modelcontextprotocol/registry, 2025-12-11).
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/planloom", entry["name"])
    assert len(entry["description"]) <= 100
    # The registry takes a package only if its description names the entry.
    assert f"mcp-name: {entry['name']}" in (ROOT / "README.md").read_text("utf-8")
    told = PAGE.read_text("utf-8")
    named = [each["name"] for each in package["environmentVariables"]]
    assert [name for name in named if f"`{name}`" not in told] == []
    options = [each["name"] for each in package["packageArguments"] if each["type"] == "named"]
    assert [name for name in options if f"`{name} " not in told] == []
