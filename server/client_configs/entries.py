"""Planloom's own entry in the files of its clients."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from planner.errors import ConfigError
from server.client_configs import clients, documents, files
from server.client_configs.clients import CLIENTS, INPUT_ID, Client, Server
from server.client_configs.jsonc import Place
from server.project import project_folder
from server.text import read_text

NAME = "planloom"
INPUT = {
    "type": "promptString",
    "id": INPUT_ID,
    "description": "Planloom's token (planloom token)",
    "password": True,
}
OURS = frozenset(
    {"args", "cmd", "command", "name", "type"}
    | {"bearer_token_env_var", "headers", "httpUrl", "requestOptions", "uri", "url"}
)
"""The keys of an entry that Planloom writes; others, such as `env`, are the user's."""
WORKSPACE = "${workspaceFolder}"
"""The folder that is open, in VS Code's file of a workspace only."""
MAX_STEM_CHARS = 24
"""Characters of a project's name in that of its entry: clients put it before each tool's."""


@dataclass(frozen=True)
class Entry:
    client: Client
    file: Path
    subject: str
    """The project or the address it is for: a client may have several."""
    server: Callable[[str], Server]
    """The entry of the server itself, by its name."""
    inputs: list[Server] = field(default_factory=list)

    def text(self, before: str, name: str) -> str:
        """The file with the entry, and everything else unchanged. Raises `ConfigError`."""
        changes = dict(self._changes(self._data(before), name))
        try:
            return documents.changed(before, self.file.suffix, changes)
        except ValueError as error:
            raise ConfigError(
                f"{self.file}: {error}; put the entry in by hand (without --write it is printed)"
            ) from None

    def name_in(self, before: str) -> str:
        """The entry's name in the file: an entry's with the same subject, else a free one."""
        servers = self._servers(self._data(before))
        ours = [name for name in servers if name == NAME or name.startswith(f"{NAME}-")]
        for name in ours:
            if _subject(servers[name][1]) == self.subject:
                return name
        if NAME not in servers or _subject(servers[NAME][1]) is None:
            return NAME
        last = re.split(r"[/\\]", self.subject.removesuffix("/mcp").rstrip("/\\"))[-1]
        stem = re.sub(r"[^A-Za-z0-9]+", "-", last).strip("-").lower()[:MAX_STEM_CHARS]
        name = f"{NAME}-{stem}" if stem else NAME
        tries = [name, *(f"{name}-{number}" for number in range(2, len(servers) + 3))]
        return next(each for each in tries if each not in servers)

    def _data(self, before: str) -> dict[str, Any]:
        data = clients.parsed(self.file, before) or {}
        if not isinstance(data, dict):
            raise ConfigError(f"{self.file}: it is not a map of settings; correct that first")
        return data

    def _servers(self, data: dict[str, Any]) -> dict[str, tuple[str | int, Any]]:
        """Each server's key and entry, by its name."""
        listed, key = self.client.listed, self.client.key
        servers = data.get(key) or ([] if listed else {})
        if not isinstance(servers, list if listed else dict):
            kind = "list" if listed else "map"
            raise ConfigError(f"{self.file}: `{key}` is not a {kind}; correct that first")
        if isinstance(servers, dict):
            return {str(name): (name, entry) for name, entry in servers.items()}
        maps = ((number, each) for number, each in enumerate(servers) if isinstance(each, dict))
        return {str(each.get("name")): (number, each) for number, each in maps}

    def _changes(self, data: dict[str, Any], name: str) -> Iterator[tuple[Place, Any]]:
        form, servers = self.client, self._servers(data)
        for key, value in form.head.items():
            if key not in data:
                yield (key,), value
        free = len(data.get(form.key) or []) if form.listed else name
        number, before = servers.get(name, (free, None))
        place, wanted = (form.key, number), self.server(name)
        kept = before if isinstance(before, dict) else {}
        others = {key: value for key, value in kept.items() if key not in OURS}
        if not kept or any(key in OURS and key not in wanted for key in kept):
            yield place, wanted | others
        else:
            for key, value in (wanted | others).items():
                if key not in kept or kept[key] != value:
                    yield (*place, key), value
        if self.inputs:
            asked = data.get("inputs") or []
            if not isinstance(asked, list):
                raise ConfigError(f"{self.file}: `inputs` is not a list; correct that first")
            ids = [each.get("id") if isinstance(each, dict) else None for each in asked]
            number = ids.index(INPUT_ID) if INPUT_ID in ids else len(asked)
            if INPUT not in asked:
                yield ("inputs", number), INPUT


def _subject(server: Any) -> str | None:
    """The project or the address that an entry of ours names."""
    if not isinstance(server, dict):
        return None
    for key in ("url", "httpUrl", "uri"):
        if key in server:
            return str(server[key])
    words = [each for key in ("command", "args") for each in _words(server.get(key))]
    named = re.search(r"\0--project[\0=]([^\0]*)", "\0".join(words))
    return named and named[1]


def _words(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def over_stdio(client: str, project: Path | None) -> Entry:
    """The entry by which a client starts Planloom itself, for `project` or the working folder. VS
    Code has it in the working folder unless a project is named. Raises `ConfigError`."""
    folder = str(project_folder(project, {}))
    form = CLIENTS[client]
    file = form.file
    if client == "vscode" and project is None:
        file, folder = Path.cwd() / ".vscode" / "mcp.json", WORKSPACE
    words = [*planloom_command(), "serve", "--project", folder]
    return Entry(form, file, folder, lambda name: form.stdio(name, words))


def over_http(client: str, address: str) -> Entry:
    """The entry by which a client reaches `planloom serve --http`, at `HOST:PORT` or a URL; for the
    token it has the client's own kind of reference. Raises `ConfigError`."""
    url = _endpoint(address)
    form = CLIENTS[client]
    if (over_http := form.http) is None:
        raise ConfigError(f"--http: {form.title}'s file cannot refer to a token; leave --http out")
    inputs = [INPUT] if client == "vscode" else []
    return Entry(form, form.file, url, lambda name: over_http(name, url), inputs)


def _endpoint(address: str) -> str:
    """The URL of MCP at an address. Raises `ConfigError`."""
    with suppress(ValueError):
        parts = urlsplit(address if "://" in address else f"http://{address}")
        if re.fullmatch(r"https?://\S+|[^\s/]+:\d+", address) and parts.hostname:
            return parts._replace(path=parts.path.rstrip("/") or "/mcp").geturl()
    raise ConfigError(f"--http: {address} is not an address; write HOST:PORT or a URL")


def planloom_command() -> list[str]:
    """The command by which this Planloom is started from anywhere."""
    if any(part.startswith("archive-v") for part in Path(sys.prefix).parts):
        return ["uvx", NAME]  # uvx's own environment, which may be gone tomorrow
    script = Path(sys.executable).with_name(NAME)
    if script.is_file():
        return [str(script)]
    return [sys.executable, "-P", "-m", "planloom.server.cli"]


def write(entry: Entry) -> tuple[str, Path | None]:
    """Put the entry into the client's file; returns its name there, and where the former file is
    kept, if it was changed. Raises `ConfigError`."""
    before = read_text(entry.file) if entry.file.exists() else ""
    name = entry.name_in(before)
    text = entry.text(before, name)
    return name, None if text == before else files.replace(entry.file, text)


def printed(entry: Entry) -> str:
    before = read_text(entry.file) if entry.file.exists() else ""
    return entry.text("", entry.name_in(before))
