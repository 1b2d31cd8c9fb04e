"""`planloom init`: an upstreams.yaml with the servers of other clients, and what is told of it."""
# ruff: noqa: E501  texts stand as they are shown

import errno
import json
import os
import stat
from pathlib import Path
from typing import NoReturn, get_args, get_type_hints

import pytest
import yaml
from client_files import Run, put
from inline_snapshot import snapshot
from jsonschema import Draft202012Validator

from server.cli import commands as cli
from server.client_configs.clients import CLIENTS
from server.config_file import load_settings
from server.config_schema import schema_text

SECRET = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6"

CLAUDE = {
    "globalShortcut": "",
    "mcpServers": {
        "github": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-github"],
            "env": {"GITHUB_TOKEN": SECRET, "LOG_LEVEL": "info"},
        },
        "My Files": {"command": "npx", "args": ["-y", "server-filesystem", "/home/me/documents"]},
        "db": {"command": "uvx", "args": ["mcp-db", "postgresql://me:hunter2@localhost/db"]},
        "search": {
            "command": "npx",
            "args": ["search", "--api-key", SECRET],
            "alwaysAllow": ["x"],
        },
        "context7": {"command": "npx", "args": ["-y", "@upstash/context7-mcp"]},
        "planner": {"command": "uvx", "args": ["planloom[embedded]", "serve"]},
        "old": {"command": "x", "disabled": True},
    },
}
VSCODE = """{
  // with comments, and a comma too many
  "inputs": [{"type": "promptString", "id": "some-key", "password": true}],
  "servers": {
    "asks": {"type": "stdio", "command": "npx", "args": ["${workspaceFolder}"], "env": {"KEY": "${input:some-key}"}},
    "remote": {"type": "http", "url": "https://api.example.com/mcp/", "headers": {"Authorization": "Bearer ${env:REMOTE_PAT}"}},
    "linear": {"type": "sse", "url": "https://example.com/sse"},
    "odd": {"command": "${command:pick}"},
  },
}
"""
CONTINUE = f"""
name: mine
mcpServers:
  - name: docs
    type: streamable-http
    url: https://docs.example.com/mcp
    requestOptions: {{headers: {{Authorization: "Bearer ${{{{ secrets.DOCS_TOKEN }}}}", X-Key: {SECRET}}}}}
"""
BLOCK = {"mcpServers": {"block": {"command": "uvx", "args": ["block$1"]}}}
ZED = {
    "theme": "One",
    "context_servers": {
        "extension": {"settings": {}},
        "own": {"command": {"path": "/opt/own", "args": ["a"], "env": {"LEVEL": 3}}},
    },
}


@pytest.fixture
def populated(home: Path) -> Path:
    """A home directory of a person with many clients."""
    put(home / ".config/Claude/claude_desktop_config.json", CLAUDE)
    put(home / ".config/Code/User/mcp.json", VSCODE)
    put(home / ".continue/config.yaml", CONTINUE)
    put(home / ".continue/mcpServers/block.json", BLOCK)
    put(home / ".config/zed/settings.json", ZED)
    put(home / ".cursor/mcp.json", "{ not json")
    return home


def test_the_servers_of_all_clients_are_taken(run: Run, populated: Path) -> None:
    code, output, told = run("init", "--dry-run")
    assert code == 0
    shipped, _, mine = output.partition("  # From ")
    assert "serena:" in shipped
    assert "# From " + mine == snapshot("""\
# From Claude Desktop, ~/.config/Claude/claude_desktop_config.json.
  # Set GITHUB_TOKEN.
  github:
    command: npx
    args: [-y, '@modelcontextprotocol/server-github']
    env: {GITHUB_TOKEN: '${GITHUB_TOKEN:-}', LOG_LEVEL: info}

  # From Claude Desktop, ~/.config/Claude/claude_desktop_config.json.
  My-Files:
    command: npx
    args: [-y, server-filesystem, /home/me/documents]

  # From Claude Desktop, ~/.config/Claude/claude_desktop_config.json.
  # Set DB_ARGS.
  db:
    command: uvx
    args: [mcp-db, '${DB_ARGS:-}']

  # From Claude Desktop, ~/.config/Claude/claude_desktop_config.json.
  # Imported without its `alwaysAllow`.
  # Set SEARCH_API_KEY.
  search:
    command: npx
    args: [search, --api-key, '${SEARCH_API_KEY:-}']

  # From VS Code, ~/.config/Code/User/mcp.json.
  # Set SOME_KEY.
  asks:
    command: npx
    args: ['${PLANLOOM_PROJECT}']
    env: {KEY: '${SOME_KEY:-}'}

  # From VS Code, ~/.config/Code/User/mcp.json.
  # Set REMOTE_PAT.
  remote:
    url: https://api.example.com/mcp/
    headers: {Authorization: 'Bearer ${REMOTE_PAT:-}'}

  # From Continue, ~/.continue/config.yaml.
  # Set DOCS_TOKEN, DOCS_X_KEY.
  docs:
    url: https://docs.example.com/mcp
    headers: {Authorization: 'Bearer ${DOCS_TOKEN:-}', X-Key: '${DOCS_X_KEY:-}'}

  # From Continue, ~/.continue/mcpServers/block.json.
  block:
    command: uvx
    args: [block$$1]

  # From Zed, ~/.config/zed/settings.json.
  own:
    command: /opt/own
    args: [a]
    env: {LEVEL: '3'}

  # Left out:
  #   context7 (Claude Desktop): Planloom comes with its own context7
  #   planner (Claude Desktop): it is Planloom itself, which would call itself
  #   old (Claude Desktop): it is disabled in that file
  #   mcp.json (Cursor): ~/.cursor/mcp.json:1: this is not JSON: Expecting property name enclosed in double quotes; correct that line
  #   linear (VS Code): it speaks SSE, which streamable HTTP has replaced
  #   odd (VS Code): only its client knows the value of `${command…`
  #   extension (Zed): it has no command and no URL; its client starts it by itself
""")
    assert told == snapshot("""\
Read Claude Desktop: ~/.config/Claude/claude_desktop_config.json
Read Cursor: ~/.cursor/mcp.json
Read VS Code: ~/.config/Code/User/mcp.json
Read Continue: ~/.continue/config.yaml
Read Continue: ~/.continue/mcpServers/block.json
Read Zed: ~/.config/zed/settings.json
Imported:
  github (Claude Desktop)
  My-Files (Claude Desktop)
  db (Claude Desktop)
  search (Claude Desktop), without its `alwaysAllow`
  asks (VS Code)
  remote (VS Code)
  docs (Continue)
  block (Continue)
  own (Zed)
Left out:
  context7 (Claude Desktop): Planloom comes with its own context7
  planner (Claude Desktop): it is Planloom itself, which would call itself
  old (Claude Desktop): it is disabled in that file
  mcp.json (Cursor): ~/.cursor/mcp.json:1: this is not JSON: Expecting property name enclosed in double quotes; correct that line
  linear (VS Code): it speaks SSE, which streamable HTTP has replaced
  odd (VS Code): only its client knows the value of `${command…`
  extension (Zed): it has no command and no URL; its client starts it by itself
Set these variables where Planloom is started; no value was copied:
  GITHUB_TOKEN: `env` of github in ~/.config/Claude/claude_desktop_config.json
  DB_ARGS: `args` of db in ~/.config/Claude/claude_desktop_config.json
  SEARCH_API_KEY: `args` of search in ~/.config/Claude/claude_desktop_config.json
  SOME_KEY: VS Code asks for it (some-key), for asks
  REMOTE_PAT: `headers` of remote takes it from your environment
  DOCS_TOKEN: Continue asks for it (DOCS_TOKEN), for docs
  DOCS_X_KEY: `headers` of docs in ~/.continue/config.yaml
Nothing was written. Without --dry-run this goes into ~/.config/planloom/upstreams.yaml.
""")
    assert not (populated / ".config/planloom").exists()
    assert SECRET not in output + told
    assert "hunter2" not in output + told


def test_what_is_written_is_private_whole_and_used(run: Run, populated: Path) -> None:
    code, output, told = run("init")
    assert (code, output) == (0, "")
    file = populated / ".config/planloom/upstreams.yaml"
    assert told.startswith("Wrote ~/.config/planloom/upstreams.yaml\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    schema = json.loads((file.parent / "upstreams.schema.json").read_text())
    Draft202012Validator(schema).validate(yaml.safe_load(file.read_text()))
    settings = load_settings(None, populated, {"GITHUB_TOKEN": SECRET})
    assert settings.source == file
    github = settings.upstreams["github"]
    assert {k: v.get_secret_value() for k, v in github.env.items()} == {
        "GITHUB_TOKEN": SECRET,
        "LOG_LEVEL": "info",
    }
    assert settings.upstreams["asks"].args[0].get_secret_value() == str(populated)
    assert settings.upstreams["block"].args[0].get_secret_value() == "block$1"


def test_a_file_that_is_there_is_replaced_by_force_only(run: Run, populated: Path) -> None:
    file = put(populated / ".config/planloom/upstreams.yaml", "upstreams: {}")
    code, _, told = run("init")
    assert (code, file.read_text()) == (2, "upstreams: {}")
    assert told.replace(str(populated), "HOME") == snapshot(
        "planloom: HOME/.config/planloom/upstreams.yaml already exists. `planloom init --dry-run` shows what would be written; --force replaces it and keeps a copy of it.\n"
    )
    code, _, told = run("init", "--force")
    assert code == 0
    assert told.splitlines()[0] == snapshot(
        "Wrote ~/.config/planloom/upstreams.yaml; the old file is ~/.config/planloom/upstreams.yaml.bak"
    )
    assert (file.parent / "upstreams.yaml.bak").read_text() == "upstreams: {}"
    run("init", "--force")
    assert (file.parent / "upstreams.yaml.bak").read_text() == "upstreams: {}"
    assert not (file.parent / "upstreams.schema.json.bak").exists()


def test_a_named_file_or_folder_is_taken_instead_of_all(run: Run, populated: Path) -> None:
    file = put(populated / "some.json", {"mcp": {"servers": {"only": {"command": "x"}}}})
    put(populated / "blocks" / "one.yaml", "{name: one, url: 'https://example.com/mcp'}")
    _, output, told = run("init", "--dry-run", "--from", str(file), "--from", "blocks")
    assert [each for each in yaml.safe_load(output)["upstreams"]] == [
        *("serena", "context7", "only", "one")
    ]
    assert told.splitlines()[0] == "Read some.json: ~/some.json"
    assert run("init", "--from", "gone.json") == snapshot(
        (
            2,
            "",
            "planloom: gone.json: cannot be read: No such file or directory; name a readable file\n",
        )
    )
    put(populated / "none.json", {"mcp": {}})
    assert run("init", "--from", "none.json") == snapshot(
        (
            2,
            "",
            "planloom: none.json: no MCP servers found under `mcpServers`, `servers`, `context_servers`, `mcp_servers`, `extensions`, `mcp`; name a client's file\n",
        )
    )


@pytest.mark.parametrize(("method", "kind"), [("stat", "file"), ("iterdir", "folder")])
def test_a_folder_that_may_not_be_read_is_told(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, method: str, kind: str
) -> None:
    """Nothing is known of what is in a closed folder."""
    (home / "mine").mkdir()

    def refused(self: Path, **given: bool) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patched:
        patched.setattr(Path, method, refused)
        patched.setattr(Path, "read_bytes", refused)
        told = run("init", "--from", "mine")
    why = f"mine: cannot be read: Permission denied; name a readable {kind}"
    assert told == (2, "", f"planloom: {why}\n")


def test_without_any_client_the_shipped_file_is_written(run: Run) -> None:
    code, output, told = run("init", "--dry-run")
    assert (code, [*yaml.safe_load(output)["upstreams"]]) == (0, ["serena", "context7"])
    assert told == snapshot("""\
No file of a client was found (Claude Desktop, Claude Code, Cursor, VS Code, Continue, Zed, Codex, Gemini CLI, Copilot CLI, Cline, goose, opencode); --from FILE names one.
Nothing was written. Without --dry-run this goes into ~/.config/planloom/upstreams.yaml.
""")


def test_options_that_do_not_go_together_are_told(run: Run) -> None:
    for words in (["--write"], ["--client", "cursor", "--force"]):
        code, _, told = run("init", *words)
        assert (code, "with --client" in " ".join(told.split())) == (2, True)


def test_every_client_can_be_named() -> None:
    named, _ = get_args(get_type_hints(cli.init)["client"])
    assert sorted(get_args(named)) == sorted(CLIENTS)


def test_the_schema_is_printed(run: Run) -> None:
    assert run("schema") == (0, schema_text(), "")
