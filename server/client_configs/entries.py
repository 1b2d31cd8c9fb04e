"""Planloom's own entry in the files of its clients."""

import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from planner.errors import ConfigError
from server.client_configs import clients, files
from server.client_configs.clients import CLIENTS

NAME = "planloom"
TOKEN = "PLANLOOM_TOKEN"
INPUT_ID = "planloom-token"
INPUT = {
    "type": "promptString",
    "id": INPUT_ID,
    "description": "Planloom's token (planloom token)",
    "password": True,
}
"""By which VS Code asks for the token once and keeps it."""
OURS = frozenset({"args", "command", "headers", "name", "requestOptions", "type", "url"})
"""The keys of an entry that are ours to say; others, such as `env`, are the user's."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """What a client has to be told of Planloom."""

    client: str
    server: dict[str, Any]
    """The entry of the server itself."""
    inputs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """Where it goes."""
        if self.client == "continue":
            return CLIENTS["continue"].file.parent / "mcpServers" / f"{NAME}.yaml"
        return CLIENTS[self.client].file

    def text(self, before: str = "") -> str:
        """The file with the entry in it, and with all else that stood there before. Raises
        `ConfigError` where something would be lost."""
        if self.client == "continue":
            head = {"name": "Planloom", "version": "0.1.0", "schema": "v1"}
            return yaml.safe_dump(
                head | {"mcpServers": [self._merged(_continued(before))]},
                sort_keys=False,
                allow_unicode=True,
            )
        data = _object(self.file, before)
        key = "servers" if self.client == "vscode" else "mcpServers"
        entries = data.setdefault(key, {})
        if not isinstance(entries, dict):
            raise ConfigError(f"{self.file}: `{key}` is no map; mend that first")
        entries[NAME] = self._merged(entries.get(NAME))
        if self.inputs:
            others = data.get("inputs") or []
            if not isinstance(others, list):
                raise ConfigError(f"{self.file}: `inputs` is no list; mend that first")
            ours = [
                each for each in others if isinstance(each, dict) and each.get("id") == INPUT_ID
            ]
            data["inputs"] = [*(each for each in others if each not in ours), *self.inputs]
        indent = _INDENT.search(before)
        width = indent[1] if indent else 2
        text = json.dumps(data, indent=width, ensure_ascii=False)
        if _SURROGATE.search(text):  # of half a pair, which UTF-8 does not have
            text = json.dumps(data, indent=width)
        return text + "\n"

    def _merged(self, before: Any) -> dict[str, Any]:
        kept = before if isinstance(before, dict) else {}
        return self.server | {key: value for key, value in kept.items() if key not in OURS}


def over_stdio(client: str, project: Path | None) -> Entry:
    """The entry by which a client starts Planloom itself. `project`: None means the folder that is
    open in the client, where it can say that, else the working folder."""
    folder = str(project.absolute() if project else Path.cwd())
    if client == "vscode" and project is None:
        folder = "${workspaceFolder}"
    command, *arguments = planloom_command()
    server: dict[str, Any] = {
        "command": command,
        "args": [*arguments, "serve", "--project", folder],
    }
    if client == "vscode":
        server = {"type": "stdio", **server}
    return Entry(client, {"name": NAME, **server} if client == "continue" else server)


def over_http(client: str, address: str) -> Entry:
    """The entry by which a client reaches `planloom serve --http`, at `HOST:PORT` or a URL; the
    token stands in it as the client's own reference. Raises `ConfigError`."""
    url = address if "://" in address else f"http://{address}/mcp"
    match client:
        case "cursor":
            return Entry(client, http_server(url, f"${{env:{TOKEN}}}"))
        case "vscode":
            server = {"type": "http", **http_server(url, f"${{input:{INPUT_ID}}}")}
            return Entry(client, server, [INPUT])
        case "continue":
            headers = http_server(url, f"${{{{ secrets.{TOKEN} }}}}")["headers"]
            way = {"name": NAME, "type": "streamable-http", "url": url}
            return Entry(client, way | {"requestOptions": {"headers": headers}})
    raise ConfigError(
        f"--http: {CLIENTS[client].title}'s file takes commands only; leave --http out"
    )


def http_server(url: str, token: str | None) -> dict[str, Any]:
    """The entry as most clients take it; without a token where the client gets its own."""
    return {"url": url} | ({"headers": {"Authorization": f"Bearer {token}"}} if token else {})


def planloom_command() -> list[str]:
    """The command by which this Planloom is started from anywhere."""
    if any(part.startswith("archive-v") for part in Path(sys.prefix).parts):
        return ["uvx", NAME]  # uvx's own environment, which may be gone tomorrow
    script = Path(sys.executable).with_name(f"{NAME}.exe" if os.name == "nt" else NAME)
    return [str(script)] if script.is_file() else [sys.executable, "-P", "-m", "server.cli"]


def write(entry: Entry) -> Path | None:
    """Put the entry into the client's file; returns where the former file is kept, None if there
    was none or nothing had to change. Raises `ConfigError`."""
    before = clients.read_text(entry.file) if entry.file.exists() else ""
    text = entry.text(before)
    return None if text == before else files.replace(entry.file, text)


def _continued(before: str) -> Any:
    try:
        data = yaml.safe_load(before) or {}
        return next(each for each in data["mcpServers"] if each["name"] == NAME)
    except (yaml.YAMLError, LookupError, TypeError, StopIteration):
        return None  # the file is ours alone, and what it was is kept


def _object(file: Path, text: str) -> dict[str, Any]:
    try:
        data = json.loads(text.strip() or "{}", object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        commented = clients.without_comments(text) != text
        why = "it has comments, which would be lost" if commented else str(error)
        raise ConfigError(
            f"{file}: {why}; put the entry in by hand (without --write it is printed)"
        ) from None
    if not isinstance(data, dict):
        raise ConfigError(f"{file}: it is no JSON object; mend that first")
    return data


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key stands twice, and one of the two would be lost")
    return data
