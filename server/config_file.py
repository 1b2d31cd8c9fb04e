"""Reads the settings: from `upstreams.yaml`, the environment and explicit arguments.

Explicit arguments win over the environment, the environment over the file. A mistake is one
`ConfigError` whose text names the file, the line, the key and what to do. No text contains a
variable's value.
"""

import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from platformdirs import user_config_path
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from rapidfuzz import fuzz, process

from planner.errors import ConfigError
from server.config import (
    ApprovalSettings,
    File,
    Listing,
    ModelSettings,
    RunSettings,
    Settings,
    Stamp,
    ToolSettings,
    UpstreamSettings,
)
from server.environment import VARIABLES, Environment
from server.project import expanded, project_folder
from server.text import plain, read_text
from server.variables import PUBLIC_VARIABLES, VARIABLE, Expanded
from server.yaml_lines import Key, dotted, parse

S = TypeVar("S", bound=BaseModel)


def load_settings(
    upstreams_file: Path | None,
    project: Path | None,
    environ: Mapping[str, str],
    models: Mapping[str, Any] | None = None,
) -> Settings:
    """Read the settings for one server. Raises `ConfigError`.

    `upstreams_file`: by default PLANLOOM_UPSTREAMS, else the user's `upstreams.yaml`, else the
    shipped one. A file in the project is never read: a project is a stranger's folder, and the file
    names commands to run. `project`: by default PLANLOOM_PROJECT, else the current directory.
    `models`: fields of `ModelSettings` that win over everything.
    """
    environ = dict(environ)  # to read the files again, whatever becomes of the process's own
    named = Environment.model_validate({name: value for name, value in environ.items() if value})
    root = project_folder(project, environ)
    variables = {**environ, "PLANLOOM_PROJECT": str(root), "PLANLOOM_PYTHON": sys.executable}
    given, own = upstreams_file or named.upstreams, own_file()
    path = expanded(Path(given)) if given else own if own.is_file() else shipped_file()
    stamps = file_stamps(path)
    file = _read(path, variables)
    settings = Settings(
        models=_overridden(file.models, named, models or {}),
        approval=file.approval,
        runs=_placed(file.runs, named),
        project=root,
        project_named=project is not None or named.project is not None,
        upstreams=file.upstreams,
        source=path,
        stamps=stamps,
    )
    settings._load = partial(load_settings, upstreams_file, environ=environ, models=models)
    return settings


def _placed(runs: RunSettings, named: Environment) -> RunSettings:
    given = named.runs or ""
    in_redis = "://" in given
    place = Path(runs.directory if in_redis or not given else given)
    changes: dict[str, Any] = {"directory": expanded(place).absolute()}
    if given:
        changes["redis"] = Expanded(given) if in_redis else None
    if named.fleet:
        changes["fleet"] = named.fleet
    placed = _changed(runs, changes, VARIABLES | {"redis": VARIABLES["runs"]})
    if placed.redis and find_spec("redis") is None:
        raise ConfigError(
            "runs in Redis need its client: run `pipx install --force '.[redis]'` in a checkout of "
            "Planloom"
        )
    if placed.redis:
        _check_parameters(placed.redis.get_secret_value())
    return placed


def _check_parameters(url: str) -> None:
    """Raises `ConfigError` for parameters of a Redis URL with which no connection can be made."""
    from redis.asyncio import ConnectionPool

    try:
        ConnectionPool.from_url(url).make_connection()  # type: ignore[no-untyped-call]
    except (TypeError, ValueError):
        raise ConfigError(
            "runs.redis: a parameter after the `?` is not one that redis-py takes; correct it"
        ) from None


def own_file() -> Path:
    """The path of the user's `upstreams.yaml`, which may not exist."""
    return user_config_path("planloom") / "upstreams.yaml"


def shipped_file() -> Path:
    """The `upstreams.yaml` that comes with Planloom: in the wheel, or in a source checkout."""
    here = Path(__file__).parent
    packaged = here / "upstreams.yaml"
    return packaged if packaged.is_file() else here.parent / "upstreams.yaml"


def file_stamps(source: Path | None) -> dict[Path, Stamp]:
    """The stamps of `source` and of the user's own file, which may replace it, if they exist."""
    stamps = {}
    for file in {source or own_file(), own_file()}:
        with suppress(OSError):
            found = file.stat()
            stamps[file] = found.st_mtime_ns, found.st_size, found.st_ino
    return stamps


def named_variables(path: Path) -> list[str]:
    """The environment variables in an upstreams file; none if it cannot be read."""
    try:
        data, _ = parse(path, read_text(path))
    except ConfigError:
        return []
    found = {match["name"] for match in VARIABLE.finditer(str(data))}  # which has no comments
    return sorted(found - PUBLIC_VARIABLES - {None})


def _read(path: Path, variables: Mapping[str, str]) -> File:
    data, lines = parse(path, read_text(path))
    try:
        return File.model_validate(data, context=variables)
    except ValidationError as error:
        problems = [_explain(problem, path, lines) for problem in error.errors()]
    raise ConfigError("\n".join(problems))


def _explain(problem: ErrorDetails, path: Path, lines: Mapping[Key, int]) -> str:
    """One problem as `file:line: key.path: what is wrong; do this`, without the value itself."""
    key = location = problem["loc"]
    while key not in lines:  # pydantic adds parts of its own, such as `[key]`
        key = key[:-1]
    if problem["type"] == "extra_forbidden":
        what = _unknown_key(str(location[-1]), location[:-1])
    elif problem["type"] == "missing":
        what = f"`{location[-1]}` is missing; add it"
    elif problem["type"] == "config":
        what = problem["msg"]
    elif location[-1:] == ("[key]",) and problem["type"] == "string_type":
        what = (
            "a key is not text (YAML reads on, off, yes and no as true or false); put it in quotes"
        )
    elif location[-1:] == ("[key]",):
        what = "is not a valid name for an upstream; use letters, digits, `_` and `-`"
    elif problem["type"] in {"model_type", "dict_type"}:
        what = "should be a map; write `key: value` lines below it"
    else:
        what = f"{plain(problem['msg'])}; correct the value"
    return f"{path}:{lines[key]}: {dotted(key)}: {what}"


def _unknown_key(name: str, parent: Key) -> str:
    sections: dict[str, type[BaseModel]] = {"approval": ApprovalSettings, "runs": RunSettings}
    section = sections.get(str(parent[0]), ModelSettings) if parent else ModelSettings
    levels: list[type[BaseModel]] = [File, section, UpstreamSettings, Listing, ToolSettings]
    known = list(levels[len(parent)].model_fields)
    near = process.extractOne(name, known, scorer=fuzz.ratio, score_cutoff=60)
    advice = f"did you mean `{near[0]}`?" if near else f"known keys: {', '.join(known)}"
    return f"unknown key `{name}`; {advice}"


def _overridden(
    models: ModelSettings, named: Environment, explicit: Mapping[str, Any]
) -> ModelSettings:
    fields = named.model_dump(include={*ModelSettings.model_fields}, exclude_none=True)
    if named.key:
        fields["key"] = Expanded(named.key)  # as it is: no variables are filled in
    places = {name: place for name, place in VARIABLES.items() if name not in explicit}
    merged = _changed(models, {**fields, **explicit}, places)
    if merged.backend == "openai" and not merged.url:
        place = places.get("url", "url")
        raise ConfigError(f"{place}: the backend `openai` needs it; write http://HOST:PORT/v1")
    return merged


def _changed(section: S, changes: Mapping[str, Any], places: Mapping[str, str]) -> S:
    """The section with these values. `places`: where they come from, for the error."""
    written = {name: getattr(section, name) for name in section.model_fields_set}
    try:
        return type(section).model_validate({**written, **changes})
    except ValidationError as error:
        wrong = error.errors()[0]
    field = str(wrong["loc"][0])
    what = plain(wrong["msg"]) + ("" if wrong["type"] == "config" else "; correct the value")
    raise ConfigError(f"{places.get(field, field)}: {what}")
