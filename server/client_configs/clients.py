"""The programs that people use MCP servers from: where each keeps its servers, and in which form.

Only what belongs to the user is looked at, never a file in a project: that is a stranger's folder,
and the files name commands to run.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from platformdirs import PlatformDirs

from planner.errors import ConfigError
from server.client_configs import documents

KEYS = ("mcpServers", "servers", "context_servers", "mcp_servers", "extensions", "mcp")
"""The keys of the servers in clients' files: most of them, VS Code, Zed, Codex, goose, opencode."""


@dataclass(frozen=True)
class Client:
    """A program, and the user's files in which it keeps its servers."""

    name: str
    title: str
    patterns: tuple[str, ...]
    """Where they may be; `CONFIG` is where the system keeps configurations of programs, `XDG`
    where Linux does."""
    tried: bool = True
    """Whether the program was seen to start Planloom by its entry (docs/clients.md)."""

    def files(self) -> list[Path]:
        return [file for place in self.patterns for file in _matching(place) if file.is_file()]

    @property
    def file(self) -> Path:
        """Where an entry goes: the first file that exists, else the first one."""
        places = [_expanded(each) for each in self.patterns if "*" not in each]
        return next((each for each in places if each.is_file()), places[0])


CLIENTS = {
    client.name: client
    for client in (
        Client(
            "claude-desktop",
            "Claude Desktop",
            ("CONFIG/Claude/claude_desktop_config.json",),
            tried=False,
        ),
        Client("claude-code", "Claude Code", ("~/.claude.json",)),
        Client("cursor", "Cursor", ("~/.cursor/mcp.json",), tried=False),
        Client("vscode", "VS Code", ("CONFIG/Code/User/mcp.json",), tried=False),
        Client("continue", "Continue", ("~/.continue/config.yaml", "~/.continue/mcpServers/*")),
        Client("zed", "Zed", ("XDG/zed/settings.json", "CONFIG/Zed/settings.json"), tried=False),
        Client("codex", "Codex", ("~/.codex/config.toml",)),
        Client("gemini", "Gemini CLI", ("~/.gemini/settings.json",)),
        Client("copilot", "Copilot CLI", ("~/.copilot/mcp-config.json",)),
        Client(
            "cline",
            "Cline",
            (
                "~/.cline/data/settings/cline_mcp_settings.json",
                "CONFIG/Code/User/globalStorage/saoudrizwan.claude-dev/settings/"
                "cline_mcp_settings.json",
            ),
        ),
        Client(
            "goose", "goose", ("XDG/goose/config.yaml", "CONFIG/Block/goose/config/config.yaml")
        ),
        Client(
            "opencode", "opencode", ("XDG/opencode/opencode.json", "XDG/opencode/opencode.jsonc")
        ),
    )
}


def _expanded(place: str) -> Path:
    config = PlatformDirs(appauthor=False, roaming=True).user_config_dir
    starts = {"CONFIG": config, "XDG": os.environ.get("XDG_CONFIG_HOME") or "~/.config"}
    start, rest = place.split("/", 1)
    return Path(starts.get(start, start), rest).expanduser()


def _matching(place: str) -> list[Path]:
    path = _expanded(place)
    if "*" not in path.name:
        return [path]
    return sorted(each for each in path.parent.glob(path.name) if each.suffix in SUFFIXES)


SUFFIXES = (".json", ".jsonc", ".toml", ".yaml", ".yml")


def servers(file: Path) -> list[tuple[str, Any]]:
    """Every server in a client's file, with its entry unchanged. Raises `ConfigError`."""
    data = read(file)
    found = list(_servers(data, file.stem)) if isinstance(data, dict) else []
    return [(str(name), entry) for name, entry in found]


def _servers(data: dict[str, Any], stem: str) -> Iterator[tuple[Any, Any]]:
    if "command" in data or "url" in data:  # Continue takes a file that is one server
        yield data.get("name", stem), data
    for key in KEYS:
        match data.get(key):
            case {"servers": dict() as entries} if key == "mcp":  # VS Code's settings.json
                yield from entries.items()
            case dict() as entries:
                yield from entries.items()
            case list() as entries:
                for number, entry in enumerate(entries):
                    named = isinstance(entry, dict) and "name" in entry
                    yield entry["name"] if named else f"{key}.{number}", entry


def read(file: Path) -> Any:
    return parsed(file, read_text(file))


def parsed(file: Path, text: str) -> Any:
    """The data of a file with this text. Raises `ConfigError`."""
    try:
        return documents.parsed(text, file.suffix)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else str(file)
        raise ConfigError(f"{place}: this is not YAML") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{file}:{error.lineno}: this is not JSON: {error.msg}") from None
    except RecursionError:
        raise ConfigError(f"{file}: this is nested too deep") from None
    except ValueError as error:  # TOML; or a number of thousands of digits
        raise ConfigError(f"{file}: this cannot be read: {error}") from None


def read_text(file: Path) -> str:
    """The text of a file. Raises `ConfigError`."""
    try:
        return file.read_bytes().decode("utf-8-sig")  # with the ends of lines that it has
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{file}: cannot be read: {why}") from None
