"""Imports MCP servers from clients' files as upstreams.

Secrets are not copied: a variable replaces each one, and the person learns which variables to set.
Code cannot know what is a secret, so a value of `env` or `headers` is copied only if it clearly is
not one: a short word, a number, a path, an address.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import ValidationError

from planner.errors import ConfigError
from server.client_configs.clients import OfProject, Server, servers
from server.client_configs.files import short
from server.client_configs.variables import Variables, variable_name
from server.config import UpstreamSettings
from server.variables import CALLED_SECRET

STDIO = ("stdio", "local", "custom")
HTTP = ("http", "streamable-http", "streamable_http", "streamableHttp", "remote")
"""What clients call the two transports."""
URLS = ("url", "serverUrl", "httpUrl")
ALIASES = {
    "cmd": "command",  # goose
    "environment": "env",  # opencode
    "envs": "env",  # goose
    "http_headers": "headers",  # Codex
    "uri": "url",  # goose
}
NAMED_VARIABLES = ("env_keys", "env_vars")
"""Where goose and Codex name the variables of the environment that a server gets."""
UNDERSTOOD = frozenset(
    {"apiKey", "args", "command", "cwd", "env", "headers", "path", "requestOptions", *URLS}
    | {"bearer_token_env_var", "disabled", "enabled", "transport", "type", *NAMED_VARIABLES}
)
UNIMPORTANT = frozenset(
    {"bundled", "description", "display_name", "gallery", "icon", "name", "source", "version"}
)
"""Keys that change nothing in what a server does."""
ALWAYS_SET = ("PLANLOOM_PROJECT", "HOME")
"""Variables that are always set, so that they need no default."""
MAX_NAME_CHARS = 64

_REFERENCE = re.compile(
    r"\$\{\{\s*(?:secrets|inputs|env)\.(?P<secret>[\w.-]+)\s*\}\}"  # Continue
    r"|\$\{env:(?P<env>[A-Za-z_]\w*)\}"  # Cursor, VS Code
    r"|\$\{input:(?P<input>[^}]+)\}"  # VS Code
    r"|\$\{(?P<folder>workspaceFolder|workspaceRoot)(?::[^}]*)?\}"
    r"|\$\{(?P<home>userHome)\}"
    r"|\$\{(?P<separator>pathSeparator|/)\}"
    # Claude Code. In lower case and without a default it is a value of the client: `${file}`.
    r"|\$\{(?P<name>[A-Z_]\w*|[a-z]\w*(?=:-))(?::-(?P<default>[^}]*))?\}"
    r"|\{env:(?P<braces>[A-Za-z_]\w*)\}"  # opencode
    r"|(?P<other>\$\{[^}]*\}?)"
)
_SCHEME = re.compile(r"(Bearer|Basic|Token|Bot|ApiKey) +(?=\S)", re.IGNORECASE)
_OPTION = re.compile(r"(?P<dashes>-*)(?P<name>[\w.-]+)(?P<sign>[=:] *)(?P<value>.+)", re.DOTALL)
_CALLED = rf"[\w-]*(?:{CALLED_SECRET.pattern})[\w-]*"
_ASSIGNED = re.compile(rf"(?<![^\s;(\"'])(?:{_CALLED}[=:] *|-{_CALLED} +)\S", CALLED_SECRET.flags)
"""A variable, header or option with the name of a secret, within the text of a shell command."""
_PLACE = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\]|https?://")
_TOKEN = re.compile(
    r"(?:sk-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|eyJ)[\w.-]{8,}"
    r"|(?=[\w-]*[a-z])(?=[\w-]*[A-Z])(?=[\w-]*\d)[\w-]{20,}"
)
"""Texts that look like a token, in arguments and addresses, most of which are not secrets."""
_SELF = re.compile(r"planloom(?:\[[\w,-]*\])?(?:[=<>~!@].*)?")
_SHIPPED = {
    "serena": re.compile(r"serena|serena-agent|serena-mcp-server|.*oraios/serena.*"),
    "context7": re.compile(r".*(?:upstash/context7-mcp|mcp\.context7\.com).*"),
}
"""Commands and addresses of the servers in the shipped file."""


@dataclass(frozen=True)
class Source:
    title: str
    file: Path


@dataclass
class ImportedServer:
    """A server as an entry of `upstreams`."""

    name: str
    source: Source
    settings: dict[str, Any]
    variables: dict[str, str] = field(default_factory=dict)
    """What the person has to set, since no value was copied: where each is, or who asks for it."""
    notes: list[str] = field(default_factory=list)
    """What was not imported."""


@dataclass(frozen=True)
class SkippedServer:
    name: str
    source: Source
    why: str


class _CannotImportError(Exception):
    """Its text says why."""


def import_servers(
    sources: Iterable[Source], shipped: Iterable[str]
) -> tuple[list[ImportedServer], list[SkippedServer]]:
    """The servers of these files as upstreams, and why others are not. `shipped`: taken names."""
    imported: dict[str, ImportedServer] = {}
    skipped: list[SkippedServer] = []
    variables = Variables()
    for source in sources:
        try:
            found = servers(source.file)
        except ConfigError as error:
            why = str(error).replace(str(source.file), short(source.file))
            skipped.append(SkippedServer(source.file.name, source, why))
            continue
        for name, entry in found:
            try:
                each = _import_server(name, entry, source, variables, set(shipped))
                if (other := imported.get(each.name)) and other.settings != each.settings:
                    raise _CannotImportError(
                        f"another server is called {each.name}, in {short(other.source.file)}"
                    )
                imported.setdefault(each.name, each)
            except _CannotImportError as why:
                skipped.append(SkippedServer(name, source, str(why)))
    return list(imported.values()), skipped


def _import_server(
    name: str, entry: Server | OfProject, source: Source, variables: Variables, shipped: set[str]
) -> ImportedServer:
    if isinstance(entry, OfProject):
        raise _CannotImportError(f"it is only for the project {short(Path(entry.folder))}")
    if entry.get("disabled") is True or entry.get("enabled") is False:
        raise _CannotImportError("it is disabled in that file")
    entry = _flat(entry)
    words = [str(each) for each in (entry.get("command"), *entry.get("args", ())) if each]
    url = next((str(entry[key]) for key in URLS if entry.get(key)), None)
    if name.lower() == "planloom" or _is_planloom(words):
        raise _CannotImportError("it is Planloom itself, which would call itself")
    called = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:MAX_NAME_CHARS]
    for own in shipped:
        marks = _SHIPPED.get(own)
        if called.lower() == own or (marks and any(map(marks.fullmatch, [*words, url or ""]))):
            raise _CannotImportError(f"Planloom comes with its own {own}")
    if not called:
        raise _CannotImportError("its name has neither a letter a–z nor a digit")
    translator = _Translator(called, source, variables)
    settings = _over_http(entry, url, translator) if url else _over_stdio(entry, translator)
    try:
        UpstreamSettings.model_validate(settings, context=dict.fromkeys(ALWAYS_SET, "x"))
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"])) or "its entry"
        raise _CannotImportError(f"{place}: {problem['msg']}") from None
    if re.search(r"[\ud800-\udfff]", json.dumps(settings, ensure_ascii=False)):
        raise _CannotImportError("it has invalid characters")
    lost = [key for key in entry if key not in UNDERSTOOD | UNIMPORTANT and entry[key]]
    notes = [f"without its {', '.join(f'`{key}`' for key in lost)}"] if lost else []
    return ImportedServer(called, source, settings, translator.missing_variables, notes)


def _flat(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with `command` as text and `args` as a list, in whichever form it was written."""
    entry = {ALIASES.get(key, key): value for key, value in entry.items()}
    env = entry.get("env") or {}
    for key in NAMED_VARIABLES:
        if not isinstance(names := entry.get(key) or [], list):
            raise _CannotImportError(f"its `{key}` are not a list")
        if isinstance(env, dict):
            for name in map(_scalar, names):
                entry["env"] = env = {name: f"${{env:{name}}}"} | env
    command = entry.get("command")
    if isinstance(command, dict):  # Zed, formerly
        entry = {**entry, **command, "command": command.get("path", "")}
    elif isinstance(command, list) and command:
        entry = {**entry, "command": command[0], "args": command[1:]}
    if not isinstance(entry.get("args") or [], list):
        raise _CannotImportError("its `args` are not a list")
    if not isinstance(entry.get("command", ""), str):
        raise _CannotImportError("its `command` is not text")
    return {**entry, "args": entry.get("args") or []}


def _is_planloom(words: list[str]) -> bool:
    """Whether a command starts Planloom, by itself or through another program."""
    if not words:
        return False
    program = re.split(r"[/\\]", words[0])[-1].lower().removesuffix(".exe")
    return program == "planloom" or any(
        _SELF.fullmatch(word) or word.endswith("server.cli") for word in words[1:]
    )


def _over_stdio(entry: dict[str, Any], translator: "_Translator") -> dict[str, Any]:
    if not entry.get("command"):
        raise _CannotImportError("it has no command and no URL; its client starts it by itself")
    if (way := entry.get("type") or entry.get("transport")) and way not in STDIO:
        raise _CannotImportError(f"it has no address for the transport {way}")
    settings: dict[str, Any] = {"command": translator.argument(entry["command"], "command")}
    if entry["args"]:
        settings["args"] = list(translator.arguments(entry["args"]))
    if entry.get("cwd"):
        settings["cwd"] = translator.argument(str(entry["cwd"]), "cwd")
    if env := translator.values(entry.get("env"), "env"):
        settings["env"] = env
    return settings


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        raise _CannotImportError("its address is not an HTTP address") from None


def _over_http(entry: dict[str, Any], url: str, translator: "_Translator") -> dict[str, Any]:
    if entry.get("command"):
        raise _CannotImportError("it has both a command and a URL")
    way = entry.get("type") or entry.get("transport")
    if way == "sse" or (way is None and _path(url).rstrip("/").endswith("/sse")):
        raise _CannotImportError("it speaks SSE, which streamable HTTP has replaced")
    if way is not None and way not in HTTP:
        raise _CannotImportError(f"the transport {way} is not supported by Planloom")
    if not re.match(r"https?://|\$\{", url):
        raise _CannotImportError("its address is not an HTTP address")
    options = entry.get("requestOptions")
    given = entry.get("headers") or (options.get("headers") if isinstance(options, dict) else None)
    headers = translator.values(given, "headers")
    if variable := entry.get("bearer_token_env_var"):  # Codex
        headers |= translator.values({"Authorization": f"Bearer ${{env:{variable}}}"}, "headers")
    if isinstance(key := entry.get("apiKey"), str) and key:
        headers |= translator.values({"Authorization": f"Bearer {key}"}, "apiKey")
    settings: dict[str, Any] = {"url": translator.argument(url, "url")}
    return settings | ({"headers": headers} if headers else {})


class _Translator:
    """Translates the texts of one server, with variables in place of secrets."""

    def __init__(self, upstream: str, source: Source, variables: Variables) -> None:
        self.missing_variables: dict[str, str] = {}
        self._upstream = upstream
        self._source = source
        self._variables = variables

    def values(self, given: Any, key: str) -> dict[str, str]:
        if given is None:
            return {}
        if not isinstance(given, dict):
            raise _CannotImportError(f"its `{key}` are not a map")
        return {
            str(name): self._value(str(name), _scalar(value), key)
            for name, value in given.items()
            if value is not None
        }

    def arguments(self, given: list[Any]) -> Iterator[str]:
        """The arguments of a command; the one after an option such as `--token` is a secret."""
        before = ""
        for each in map(_scalar, given):
            if before.startswith("-") and "=" not in before and CALLED_SECRET.search(before):
                yield self._value(before.strip("-"), each, "args", own=True)
            else:
                yield self.argument(each, "args")
            before = each

    def argument(self, text: str, key: str) -> str:
        """A text that is usually not a secret: an argument, an address."""
        match = _OPTION.fullmatch(text)
        if match and CALLED_SECRET.search(match["name"]):
            own = bool(match["dashes"]) or ":" in match["sign"]  # not NAME=value
            value = self._value(match["name"], match["value"], key, own=own)
            return text[: match.start("value")] + value
        if match and match["dashes"]:  # `--env=API_KEY=…`
            return text[: match.start("value")] + self.argument(match["value"], key)
        rest = _REFERENCE.sub("", text)
        if _TOKEN.search(rest) or _has_credentials(rest) or _ASSIGNED.search(rest):
            return self._reference(key, text, key, own=True)
        return self.text(text, key)

    def text(self, text: str, key: str) -> str:
        """The text with the client's references replaced by ours."""
        written, end = "", 0
        for match in _REFERENCE.finditer(text):
            written += _plain(text[end : match.start()]) + self._referred(match, key)
            end = match.end()
        return written + _plain(text[end:])

    def _value(self, name: str, text: str, key: str, *, own: bool = False) -> str:
        """A text that may be a secret as a whole; `name` is its name."""
        if _REFERENCE.search(text):
            if _is_harmless("", _REFERENCE.sub("", _SCHEME.sub("", text))):
                return self.text(text, key)
        elif _is_harmless(name, text):
            return _plain(text)
        if (scheme := _SCHEME.match(text)) and name.lower() == "authorization":
            return scheme[0] + self._reference("token", text[scheme.end() :], key, own=True)
        return self._reference(name, text, key, own=own or key == "headers")

    def _reference(self, name: str, value: str, key: str, *, own: bool) -> str:
        """A variable in place of a value. `own`: `name` is not the server's own, so that of the
        upstream is put before it."""
        wanted = f"{self._upstream}_{name}" if own else name
        variable = self._variables.name_for(wanted, value, self._upstream)
        return self._require(variable, f"`{key}` of {self._upstream} in {short(self._source.file)}")

    def _referred(self, match: re.Match[str], key: str) -> str:
        if match["other"]:
            kind = re.match(r"\$\{[\w ]*", match["other"])
            raise _CannotImportError(
                f"only its client knows the value of `{kind[0] if kind else ''}…`"
            )
        if match["folder"]:
            return "${PLANLOOM_PROJECT}"
        if match["home"]:
            return "${HOME}"
        if match["separator"]:
            return os.sep
        default = match["default"] or ""
        if default and _is_harmless(match["name"], default):
            return f"${{{match['name']}:-{default}}}"
        if asked := match["input"] or match["secret"]:
            place = f"{self._source.title} asks for it ({asked}), for {self._upstream}"
            return self._require(variable_name(asked), place)
        name = match["env"] or match["braces"] or match["name"]
        return self._require(name, f"`{key}` of {self._upstream} takes it from your environment")

    def _require(self, name: str, place: str) -> str:
        self._variables.add_used(name)
        self.missing_variables.setdefault(name, place)
        return f"${{{name}:-}}"


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise _CannotImportError("one of its values is not text")


def _plain(text: str) -> str:
    """The text escaped for `server.variables.expand`."""
    return text.replace("$", "$$")


def _is_harmless(name: str, text: str) -> bool:
    """Whether a value is clearly not a secret, by its form and its name."""
    parts = re.split(r"[\W_]+", text)
    plain = all(
        len(part) <= 4
        or (part.isalpha() and len(part) < 16)
        or (part.isdecimal() and len(part) <= 6)
        for part in parts
    )
    short = len(text) < 16 or bool(_PLACE.match(text))
    return plain and short and not CALLED_SECRET.search(name) and not re.search(r"[@?]", text)


def _has_credentials(text: str) -> bool:
    """Whether it is an address with a password, or with a parameter named like a secret."""
    if "://" not in text:
        return False
    try:
        parts = urlsplit(text)
        named = [name for name, value in parse_qsl(parts.query) if value]
    except ValueError:
        return True
    return bool(parts.password) or any(map(CALLED_SECRET.search, named))


def missing_variables(imported: Iterable[ImportedServer]) -> Mapping[str, list[str]]:
    """Every variable that has to be set, with the places where its value is."""
    found: dict[str, list[str]] = {}
    for each in imported:
        for name, place in each.variables.items():
            found.setdefault(name, []).append(place)
    return found
