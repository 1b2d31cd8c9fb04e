"""Which folder is the project."""

from collections.abc import Mapping
from os.path import normpath
from pathlib import Path

from planner.errors import ConfigError


def project_folder(given: Path | None, environ: Mapping[str, str]) -> Path:
    """The given folder, or PLANLOOM_PROJECT, or the current one. Raises `ConfigError`."""
    named = environ.get("PLANLOOM_PROJECT")
    place = "--project" if given else "PLANLOOM_PROJECT"
    chosen = given or (Path(named) if named else Path.cwd())
    path = Path(normpath(chosen.expanduser().absolute()))
    if not path.is_dir():
        raise ConfigError(f"{place}: {path} is not a directory; name the project's folder")
    return path
