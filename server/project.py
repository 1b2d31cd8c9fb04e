"""Which folder is the project."""

from collections.abc import Mapping
from os.path import normpath
from pathlib import Path

from planner.errors import ConfigError


def project_folder(given: Path | None, environ: Mapping[str, str]) -> Path:
    """The given folder, or PLANLOOM_PROJECT, or the current one. Raises `ConfigError`."""
    named = environ.get("PLANLOOM_PROJECT")
    place = "--project" if given else "PLANLOOM_PROJECT" if named else "the current directory"
    try:
        path = Path(normpath(expanded(given or Path(named or ".")).absolute()))
    except FileNotFoundError:  # a path from the root needs no current directory
        raise ConfigError(
            "The current directory no longer exists; change to another one, or name the project "
            "by a whole path with --project"
        ) from None
    if not is_folder(path):
        raise ConfigError(f"{place}: {path} is not a directory; name the project's folder")
    try:
        str(path).encode()
    except UnicodeEncodeError:  # the name stands in JSON, in URIs and in prompts
        raise ConfigError(f"{place}: the name of {path} is not UTF-8; rename the folder") from None
    return path


def is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # its name is too long, or it is in a folder that may not be read
        return False


def expanded(path: Path) -> Path:
    """A path that a person wrote, with its `~` filled in. Raises `ConfigError`."""
    try:
        return path.expanduser()
    except RuntimeError:  # pathlib's, where `~` names nobody
        raise ConfigError(f"{path}: `~` names no user's folder; write the whole path") from None
