"""The choice of models, written into an upstreams.yaml that stays as it is otherwise."""

import io
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.util import load_yaml_guess_indent

from planner.errors import ConfigError

WIDTH = 10_000
"""No line is broken that a person did not break."""


def with_models(text: str, fast: str, full: str) -> str:
    """The YAML with these models, and everything else as it was. Raises `ConfigError`."""
    _, indent, offset = load_yaml_guess_indent(text)
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = WIDTH
    yaml.indent(mapping=2, sequence=indent, offset=offset)
    data = yaml.load(text)
    if data is None:  # comments at most, which would be lost
        return f"{text}\n{with_models('{}', fast, full)}"
    if not isinstance(data, CommentedMap):
        raise ConfigError("the upstreams file should be a map; write `key: value` lines")
    if not data.get("models"):
        data.pop("models", None)
        data.insert(0, "models", CommentedMap())
    models = data["models"]
    for key, name in (("full", full), ("fast", fast)):
        if key in models:
            models[key] = name
        else:
            models.insert(0, key, name)
    data.fa.set_block_style()
    written = io.StringIO()
    yaml.dump(data, written)
    return written.getvalue()


def write_models(source: Path, file: Path, fast: str, full: str) -> None:
    """Write the file: what `source` holds, with these models."""
    text = with_models(source.read_text("utf-8"), fast, full)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(text, "utf-8")
    if file.exists():
        part.chmod(file.stat().st_mode)
    part.replace(file)
