"""The programs that people use MCP servers from: where each keeps its servers, and in which form.

Only what belongs to the user is looked at, never a file in a project: that is a stranger's folder,
and the files name commands to run.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from platformdirs import PlatformDirs

from planner.errors import ConfigError

KEYS = ("mcpServers", "servers", "context_servers")
"""Under which clients have their servers: most of them, VS Code, Zed."""

_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


@dataclass(frozen=True)
class Client:
    """A program, and the files of the user's in which it has its servers."""

    name: str
    title: str
    patterns: tuple[str, ...]
    """Where they may be; `CONFIG` is where the system keeps configurations of programs."""

    def files(self) -> list[Path]:
        """Those of its files that there are."""
        return [file for place in self.patterns for file in _matching(place) if file.is_file()]

    @property
    def file(self) -> Path:
        """The first of them, there or not."""
        return _expanded(self.patterns[0])


CLIENTS = {
    client.name: client
    for client in (
        Client("claude-desktop", "Claude Desktop", ("CONFIG/Claude/claude_desktop_config.json",)),
        Client("claude-code", "Claude Code", ("~/.claude.json",)),
        Client("cursor", "Cursor", ("~/.cursor/mcp.json",)),
        Client("vscode", "VS Code", ("CONFIG/Code/User/mcp.json",)),
        Client("continue", "Continue", ("~/.continue/config.yaml", "~/.continue/mcpServers/*")),
        Client("zed", "Zed", ("~/.config/zed/settings.json", "CONFIG/Zed/settings.json")),
    )
}


def _expanded(place: str) -> Path:
    config = PlatformDirs(appauthor=False, roaming=True).user_config_dir
    return Path(re.sub("^CONFIG", lambda _: config, place)).expanduser()


def _matching(place: str) -> list[Path]:
    path = _expanded(place)
    if "*" not in path.name:
        return [path]
    return sorted(each for each in path.parent.glob(path.name) if each.suffix in SUFFIXES)


SUFFIXES = (".json", ".jsonc", ".yaml", ".yml")


def servers(file: Path) -> list[tuple[str, Any]]:
    """Every server that a client's file names, with its entry as it stands there. Raises
    `ConfigError` for a file that cannot be read."""
    data = read(file)
    found = list(_servers(data, file.stem)) if isinstance(data, dict) else []
    return [(str(name), entry) for name, entry in found]


def _servers(data: dict[str, Any], stem: str) -> Iterator[tuple[Any, Any]]:
    if "command" in data or "url" in data:  # Continue takes a file that is one server
        yield data.get("name", stem), data
    inner = data.get("mcp")  # VS Code's settings.json
    for part in (data, inner if isinstance(inner, dict) else {}):
        for key in KEYS:
            match part.get(key):
                case dict() as entries:
                    yield from entries.items()
                case list() as entries:
                    for number, entry in enumerate(entries):
                        named = isinstance(entry, dict) and "name" in entry
                        yield entry["name"] if named else f"{key}.{number}", entry


def read(file: Path) -> Any:
    """The data of a YAML file, or of a JSON file that may have comments. Raises `ConfigError`."""
    text = read_text(file)
    try:
        if file.suffix in (".yaml", ".yml"):
            return yaml.safe_load(text)
        return json.loads(without_comments(text)) if text.strip() else {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else str(file)
        raise ConfigError(f"{place}: this is not YAML") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{file}:{error.lineno}: this is not JSON: {error.msg}") from None
    except RecursionError:
        raise ConfigError(f"{file}: this is nested too deep") from None
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(f"{file}: this cannot be read: {error}") from None


def read_text(file: Path) -> str:
    """What stands in a file. Raises `ConfigError`."""
    try:
        return file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{file}: cannot be read: {why}") from None


def without_comments(text: str) -> str:
    """JSON with comments and trailing commas as JSON, every line where it was."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)

    return _STRING_OR_COMMA.sub(blank, _STRING_OR_COMMENT.sub(blank, text))
