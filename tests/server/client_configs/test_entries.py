"""Planloom's entry as each client writes a server."""
# ruff: noqa: E501  texts stand as they are shown

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from client_files import Run
from inline_snapshot import snapshot
from paths import ROOT

from server.client_configs import documents
from server.client_configs.clients import CLIENTS, servers

COMMAND = str(Path(sys.executable).with_name("planloom"))
PLACES = {
    "claude-code": "~/.claude.json",
    "claude-desktop": "~/.config/Claude/claude_desktop_config.json",
    "cline": "~/.cline/data/settings/cline_mcp_settings.json",
    "codex": "~/.codex/config.toml",
    "continue": "~/.continue/config.yaml",
    "copilot": "~/.copilot/mcp-config.json",
    "cursor": "~/.cursor/mcp.json",
    "gemini": "~/.gemini/settings.json",
    "goose": "~/.config/goose/config.yaml",
    "opencode": "~/.config/opencode/opencode.json",
    "vscode": "~/.config/Code/User/mcp.json",
    "zed": "~/.config/zed/settings.json",
}


def entry_in(client: str, text: str) -> Any:
    """Planloom's entry in a file that has nothing else but what the client needs."""
    data = documents.parsed(text, CLIENTS[client].file.suffix)
    servers = data.pop(CLIENTS[client].key)
    data.pop("inputs", None)
    assert data == CLIENTS[client].head
    (entry,) = servers if CLIENTS[client].listed else [servers.pop("planloom")]
    return entry


def caveat(client: str) -> str:
    """The line about a client that nobody has tried, by what docs/clients.md says of it."""
    page = (ROOT / "docs" / "clients.md").read_text("utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{client}` |")]
    if "| not seen |" not in row:
        return ""
    return (
        f"This entry follows {CLIENTS[client].title}'s documentation but was never tried. If the "
        f"tools do not appear in {CLIENTS[client].title}, please report it.\n"
    )


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_a_clients_entry_is_printed(run: Run, home: Path, client: str) -> None:
    code, output, told = run("init", "--client", client)
    place = "~/.vscode/mcp.json" if client == "vscode" else PLACES[client]
    assert (code, told) == (0, f"This goes into {place}; --write puts it there.\n{caveat(client)}")
    plain = {"command": COMMAND, "args": ["serve", "--project", str(home)]}
    expected = {
        "claude-code": {"type": "stdio", **plain},
        "cline": {**plain, "timeout": 60},
        "continue": {"name": "planloom", **plain},
        "copilot": {"type": "local", **plain, "tools": ["*"]},
        "goose": {
            "enabled": True,
            "type": "stdio",
            "name": "planloom",
            "description": "A planning agent for questions about a project",
            "cmd": plain["command"],
            "args": plain["args"],
            "timeout": 300,
        },
        "opencode": {
            "type": "local",
            "command": [COMMAND, "serve", "--project", str(home)],
            "timeout": 60_000,
        },
        "vscode": {
            "type": "stdio",
            "command": COMMAND,
            "args": ["serve", "--project", "${workspaceFolder}"],
        },
    }
    assert entry_in(client, output) == expected.get(client, plain)


URL = "http://127.0.0.1:8000/mcp"
OVER_HTTP: dict[str, Any] = {
    "claude-code": {
        "type": "http",
        "url": URL,
        "headers": {"Authorization": "Bearer ${PLANLOOM_TOKEN}"},
    },
    "codex": {"url": URL, "bearer_token_env_var": "PLANLOOM_TOKEN"},
    "continue": {
        "name": "planloom",
        "type": "streamable-http",
        "url": URL,
        "requestOptions": {"headers": {"Authorization": "Bearer ${{ secrets.PLANLOOM_TOKEN }}"}},
    },
    "copilot": {
        "type": "http",
        "url": URL,
        "headers": {"Authorization": "Bearer ${PLANLOOM_TOKEN}"},
        "tools": ["*"],
    },
    # https://cursor.com/docs/mcp: `url` and `headers`, with `${env:NAME}`
    "cursor": {"url": URL, "headers": {"Authorization": "Bearer ${env:PLANLOOM_TOKEN}"}},
    "gemini": {"httpUrl": URL, "headers": {"Authorization": "Bearer ${PLANLOOM_TOKEN}"}},
    "goose": {
        "enabled": True,
        "type": "streamable_http",
        "name": "planloom",
        "description": "A planning agent for questions about a project",
        "uri": URL,
        "headers": {"Authorization": "Bearer ${PLANLOOM_TOKEN}"},
        "env_keys": ["PLANLOOM_TOKEN"],
        "timeout": 300,
    },
    "opencode": {
        "type": "remote",
        "url": URL,
        "headers": {"Authorization": "Bearer {env:PLANLOOM_TOKEN}"},
    },
    # https://code.visualstudio.com/docs/copilot/reference/mcp-configuration: `${input:ID}`
    "vscode": {
        "type": "http",
        "url": URL,
        "headers": {"Authorization": "Bearer ${input:planloom-token}"},
    },
}
"""Programs start or reach Planloom by these in tests/server/clients/test_init.py; Cursor and VS Code
cannot be tested so, and theirs are as the pages say."""


@pytest.mark.parametrize("client", sorted(name for name, form in CLIENTS.items() if form.http))
def test_an_entry_over_http_refers_to_the_token(run: Run, home: Path, client: str) -> None:
    code, output, told = run("init", "--client", client, "--http", "127.0.0.1:8000")
    title = CLIENTS[client].title
    needs = "asks for the token" if client == "vscode" else "needs the token in PLANLOOM_TOKEN"
    assert (code, told) == (
        0,
        f"This goes into {PLACES[client]}; --write puts it there.\n{caveat(client)}"
        f"{title} {needs}: `planloom token` prints it.\n",
    )
    assert entry_in(client, output) == OVER_HTTP[client]


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:8000", "http://127.0.0.1:8000/", f"{URL}/", URL]
)
def test_an_address_leads_to_mcp(run: Run, address: str) -> None:
    _, output, _ = run("init", "--client", "cursor", "--http", address)
    assert json.loads(output)["mcpServers"]["planloom"]["url"] == URL


def test_vs_code_asks_for_the_token_once(run: Run) -> None:
    _, output, _ = run("init", "--client", "vscode", "--http", "127.0.0.1:8000")
    assert json.loads(output)["inputs"] == [
        {
            "type": "promptString",
            "id": "planloom-token",
            "description": "Planloom's token (planloom token)",
            "password": True,
        }
    ]


def test_an_entry_is_printed_as_a_person_would_write_it(run: Run, home: Path) -> None:
    printed = [run("init", "--client", client)[1] for client in ("cursor", "codex", "continue")]
    text = "".join(printed).replace(COMMAND, "/bin/planloom").replace(str(home), "HOME")
    assert text == snapshot("""\
{
  "mcpServers": {
    "planloom": {
      "command": "/bin/planloom",
      "args": [
        "serve",
        "--project",
        "HOME"
      ]
    }
  }
}
[mcp_servers.planloom]
command = "/bin/planloom"
args = ["serve", "--project", "HOME"]
name: Local Config
version: 1.0.0
schema: v1
mcpServers:
- name: planloom
  command: /bin/planloom
  args:
  - serve
  - --project
  - HOME
""")


def test_claude_desktop_takes_no_url(run: Run) -> None:
    assert run("init", "--client", "claude-desktop", "--http", "127.0.0.1:8000") == snapshot(
        (
            2,
            "",
            "planloom: --http: Claude Desktop's file cannot refer to a token; leave --http out\n",
        )
    )


@pytest.mark.parametrize(
    "address", ["nonsense", "127.0.0.1", "http://", "a b:1", "ftp://a:1", "", "http://[a"]
)
def test_what_is_no_address_is_refused(run: Run, home: Path, address: str) -> None:
    told = f"planloom: --http: {address} is not an address; write HOST:PORT or a URL\n"
    assert run("init", "--client", "cursor", "--write", "--http", address) == (2, "", told)
    assert not (home / ".cursor").exists()


def test_a_folder_that_is_not_there_is_refused(run: Run, home: Path) -> None:
    assert run("init", "--client", "cursor", "--write", "--project", "/gone") == snapshot(
        (2, "", "planloom: --project: /gone is not a directory; name the project's folder\n")
    )
    assert not (home / ".cursor").exists()


def test_vs_code_gets_the_open_folder_in_a_workspace_only(run: Run, home: Path) -> None:
    run("init", "--client", "vscode", "--write")
    (workspace,) = servers(home / ".vscode/mcp.json")
    assert workspace[1]["args"][-1] == "${workspaceFolder}"
    assert not CLIENTS["vscode"].file.exists()
    run("init", "--client", "vscode", "--write", "--project", ".")
    ((_, entry),) = servers(CLIENTS["vscode"].file)
    assert entry["args"][-1] == str(home)


def test_uvx_is_named_where_planloom_was_started_with_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/me/.cache/uv/archive-v0/abc")
    _, output, _ = run("init", "--client", "cursor")
    entry = json.loads(output)["mcpServers"]["planloom"]
    assert (entry["command"], entry["args"][:2]) == ("uvx", ["planloom", "serve"])


def test_the_command_of_an_entry_starts_planloom(run: Run) -> None:
    _, output, _ = run("init", "--client", "cursor")
    command = json.loads(output)["mcpServers"]["planloom"]["command"]
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"planloom {version('planloom')}\n"
