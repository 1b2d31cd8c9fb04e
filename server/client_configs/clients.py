"""The programs that people use MCP servers from: where each keeps its servers, and in which form.
No file in a project is read: that is a stranger's folder, and the files name commands to run."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from platformdirs import PlatformDirs

from planner.errors import ConfigError
from server.client_configs import documents
from server.environment import TOKEN
from server.text import read_text

SUFFIXES = (".json", ".jsonc", ".toml", ".yaml", ".yml")
INPUT_ID = "planloom-token"
"""Of the input by which VS Code asks for the token once and keeps it."""

Server = dict[str, Any]
"""A server as a client's file has it."""


def http_server(url: str, token: str | None) -> Server:
    """The entry in the form of most clients; without a token if the client gets its own."""
    return {"url": url} | ({"headers": _bearer(token)} if token else {})


def _bearer(token: str) -> Server:
    return {"Authorization": f"Bearer {token}"}


def _command(name: str, words: list[str]) -> Server:
    return {"command": words[0], "args": words[1:]}


def _typed(name: str, words: list[str]) -> Server:
    return {"type": "stdio", **_command(name, words)}


def _goose(kind: str, name: str, server: Server) -> Server:
    about = "A planning agent for questions about a project"
    head = {"enabled": True, "type": kind, "name": name, "description": about}
    return {**head, **server, "timeout": 300}


@dataclass(frozen=True)
class Client:
    """A program, the user's files in which it keeps its servers, and their form there."""

    title: str
    patterns: tuple[str, ...]
    """Where they may be; `CONFIG`: below the system's folder for configurations, `XDG`: Linux's."""
    key: str = "mcpServers"
    stdio: Callable[[str, list[str]], Server] = _command
    """Makes the server of the entry's name and the words of the command."""
    http: Callable[[str, str], Server] | None = None
    """Makes the server of the name and a URL; None if the file cannot refer to the token."""
    head: Server = field(default_factory=dict)
    """What else a new file needs."""
    listed: bool = False
    """The servers are a list, not a map."""
    tried: bool = True
    """Whether the program was seen to start Planloom by its entry (docs/clients.md)."""

    def files(self) -> list[Path]:
        return [
            file
            for place in map(_expanded, self.patterns)
            for file in sorted(place.parent.glob(place.name))
            if file.suffix in SUFFIXES and file.is_file()
        ]

    @property
    def file(self) -> Path:
        """Where an entry goes: the first file that exists, else the first one."""
        places = [_expanded(each) for each in self.patterns if "*" not in each]
        return next((each for each in places if each.is_file()), places[0])


CLIENTS = {
    "claude-desktop": Client(
        "Claude Desktop", ("CONFIG/Claude/claude_desktop_config.json",), tried=False
    ),
    "claude-code": Client(
        "Claude Code",
        ("~/.claude.json",),
        stdio=_typed,
        http=lambda name, url: {"type": "http", **http_server(url, f"${{{TOKEN}}}")},
    ),
    "cursor": Client(
        "Cursor",
        ("~/.cursor/mcp.json",),
        http=lambda name, url: http_server(url, f"${{env:{TOKEN}}}"),
        tried=False,
    ),
    "vscode": Client(
        "VS Code",
        ("CONFIG/Code/User/mcp.json",),
        "servers",
        _typed,
        lambda name, url: {"type": "http", **http_server(url, f"${{input:{INPUT_ID}}}")},
        tried=False,
    ),
    "continue": Client(
        "Continue",
        ("~/.continue/config.yaml", "~/.continue/mcpServers/*"),
        stdio=lambda name, words: {"name": name, **_command(name, words)},
        http=lambda name, url: {
            "name": name,
            "type": "streamable-http",
            "url": url,
            "requestOptions": {"headers": _bearer(f"${{{{ secrets.{TOKEN} }}}}")},
        },
        head={"name": "Local Config", "version": "1.0.0", "schema": "v1"},
        listed=True,
    ),
    "zed": Client(
        "Zed",
        ("XDG/zed/settings.json", "CONFIG/Zed/settings.json"),
        "context_servers",
        tried=False,
    ),
    "codex": Client(
        "Codex",
        ("~/.codex/config.toml",),
        "mcp_servers",
        http=lambda name, url: {"url": url, "bearer_token_env_var": TOKEN},
    ),
    "gemini": Client(
        "Gemini CLI",
        ("~/.gemini/settings.json",),
        http=lambda name, url: {"httpUrl": url, "headers": _bearer(f"${{{TOKEN}}}")},
    ),
    "copilot": Client(
        "Copilot CLI",
        ("~/.copilot/mcp-config.json",),
        stdio=lambda name, words: {"type": "local", **_command(name, words), "tools": ["*"]},
        http=lambda name, url: {
            "type": "http",
            **http_server(url, f"${{{TOKEN}}}"),
            "tools": ["*"],
        },
    ),
    "cline": Client(
        "Cline",
        (
            "~/.cline/data/settings/cline_mcp_settings.json",
            "CONFIG/Code/User/globalStorage/saoudrizwan.claude-dev/settings/"
            "cline_mcp_settings.json",
        ),
        # In seconds; its own is 3 at a start.
        stdio=lambda name, words: {**_command(name, words), "timeout": 60},
    ),
    "goose": Client(
        "goose",
        ("XDG/goose/config.yaml", "CONFIG/Block/goose/config/config.yaml"),
        "extensions",
        lambda name, words: _goose("stdio", name, {"cmd": words[0], "args": words[1:]}),
        lambda name, url: _goose(
            "streamable_http",
            name,
            {"uri": url, "headers": _bearer(f"${{{TOKEN}}}"), "env_keys": [TOKEN]},
        ),
    ),
    "opencode": Client(
        "opencode",
        ("XDG/opencode/opencode.json", "XDG/opencode/opencode.jsonc"),
        "mcp",
        lambda name, words: {"type": "local", "command": words, "timeout": 60_000},  # ms
        lambda name, url: {"type": "remote", **http_server(url, f"{{env:{TOKEN}}}")},
    ),
}
KEYS = tuple(dict.fromkeys(client.key for client in CLIENTS.values()))


def _expanded(place: str) -> Path:
    config = PlatformDirs(appauthor=False, roaming=True).user_config_dir
    starts = {"CONFIG": config, "XDG": os.environ.get("XDG_CONFIG_HOME") or "~/.config"}
    start, rest = place.split("/", 1)
    return Path(starts.get(start, start), rest).expanduser()


@dataclass(frozen=True)
class OfProject:
    """Stands for a server that its client starts in one project only; it is not imported."""

    folder: str


def servers(file: Path) -> list[tuple[str, Any]]:
    """Every server in a client's file, with its entry unchanged. What is not a map is a setting:
    Gemini CLI has some under `mcp` and `extensions`. Raises `ConfigError`."""
    data = parsed(file, read_text(file))
    found = list(_servers(data, file.stem)) if isinstance(data, dict) else []
    return [(str(name), entry) for name, entry in found if isinstance(entry, dict | OfProject)]


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
    match data.get("projects"):
        case dict() as projects:  # Claude Code's
            for folder, project in projects.items():
                own = project.get("mcpServers") if isinstance(project, dict) else None
                yield from ((name, OfProject(str(folder))) for name in own or ())


def parsed(file: Path, text: str) -> Any:
    """The data of a file with this text. Raises `ConfigError`."""
    try:
        return documents.parsed(text, file.suffix)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else str(file)
        raise ConfigError(f"{place}: this is not YAML; correct that line") from None
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{file}:{error.lineno}: this is not JSON: {error.msg}; correct that line"
        ) from None
    except RecursionError:
        raise ConfigError(f"{file}: this is nested too deep; correct the file") from None
    except ValueError as error:  # TOML; or a number of thousands of digits
        raise ConfigError(f"{file}: this cannot be read: {error}") from None
    except (LookupError, AttributeError):  # PyYAML's, of `!!int ''`, `!!bool x`, `!!timestamp x`
        raise ConfigError(f"{file}: a value does not fit its tag") from None
