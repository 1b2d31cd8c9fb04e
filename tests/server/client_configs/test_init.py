"""`planloom init`: servers of other clients as upstreams, and clients' entries for Planloom."""
# ruff: noqa: E501  texts stand as they are shown

import json
import stat
import string
import subprocess
import sys
from collections.abc import Callable
from difflib import ndiff
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args, get_type_hints

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from jsonschema import Draft202012Validator
from platformdirs.macos import MacOS

from server.cli import commands as cli
from server.cli.init import upstreams_text
from server.client_configs.clients import CLIENTS, servers
from server.client_configs.entries import FORMS
from server.client_configs.importing import (
    ImportedServer,
    SkippedServer,
    Source,
    import_servers,
    missing_variables,
)
from server.config import expand, load_settings
from server.config_schema import schema_text, upstreams_schema

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

VALIDATOR = Draft202012Validator(upstreams_schema())
Run = Callable[..., tuple[Any, str, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("PLANLOOM_UPSTREAMS", raising=False)
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """`planloom` with these words: exit code, output, errors."""

    def run(*words: str) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["planloom", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capfd.readouterr()

    return run


def put(file: Path, content: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


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


# Upstreams


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
  # Taken without its `alwaysAllow`.
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
  #   context7 (Claude Desktop): Planloom brings context7, set up for its planner
  #   planner (Claude Desktop): it is Planloom itself, which would call itself
  #   old (Claude Desktop): it is switched off there
  #   mcp.json (Cursor): ~/.cursor/mcp.json:1: this is not JSON: Expecting property name enclosed in double quotes
  #   linear (VS Code): it speaks SSE, which streamable HTTP has replaced
  #   odd (VS Code): `${command…` is known to its client only
  #   extension (Zed): it has no command and no URL; its client starts it by itself
""")
    assert told == snapshot("""\
Read Claude Desktop: ~/.config/Claude/claude_desktop_config.json
Read Cursor: ~/.cursor/mcp.json
Read VS Code: ~/.config/Code/User/mcp.json
Read Continue: ~/.continue/config.yaml
Read Continue: ~/.continue/mcpServers/block.json
Read Zed: ~/.config/zed/settings.json
Taken:
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
  context7 (Claude Desktop): Planloom brings context7, set up for its planner
  planner (Claude Desktop): it is Planloom itself, which would call itself
  old (Claude Desktop): it is switched off there
  mcp.json (Cursor): ~/.cursor/mcp.json:1: this is not JSON: Expecting property name enclosed in double quotes
  linear (VS Code): it speaks SSE, which streamable HTTP has replaced
  odd (VS Code): `${command…` is known to its client only
  extension (Zed): it has no command and no URL; its client starts it by itself
Set these variables where Planloom is started; no value was copied:
  GITHUB_TOKEN: `env` of github in ~/.config/Claude/claude_desktop_config.json
  DB_ARGS: `args` of db in ~/.config/Claude/claude_desktop_config.json
  SEARCH_API_KEY: `args` of search in ~/.config/Claude/claude_desktop_config.json
  SOME_KEY: VS Code asks for it (some-key), for asks
  REMOTE_PAT: `headers` of remote takes it from your environment
  DOCS_TOKEN: Continue asks for it (DOCS_TOKEN), for docs
  DOCS_X_KEY: `headers` of docs in ~/.continue/config.yaml
Next: planloom doctor
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
        (2, "", "planloom: gone.json: cannot be read: No such file or directory\n")
    )
    put(populated / "none.json", {"mcp": {}})
    assert run("init", "--from", "none.json") == snapshot(
        (
            2,
            "",
            "planloom: none.json: names no MCP servers (`mcpServers`, `servers`, `context_servers`, `mcp_servers`, `extensions`, `mcp`); name a client's file\n",
        )
    )


def test_without_any_client_the_shipped_file_is_written(run: Run) -> None:
    code, output, told = run("init", "--dry-run")
    assert (code, [*yaml.safe_load(output)["upstreams"]]) == (0, ["serena", "context7"])
    assert told == snapshot("""\
No file of a client was found (Claude Desktop, Claude Code, Cursor, VS Code, Continue, Zed, Codex, Gemini CLI, Copilot CLI, Cline, goose, opencode); --from FILE names one.
Next: planloom doctor
""")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("text", "its entry is not a map"),
        ({"command": "planloom"}, "it is Planloom itself, which would call itself"),
        ({"command": "C:\\x\\planloom.exe"}, "it is Planloom itself, which would call itself"),
        (
            {"command": "python", "args": ["-m", "server.cli"]},
            "it is Planloom itself, which would call itself",
        ),
        (
            {"command": "uvx", "args": ["planloom==0.1.0"]},
            "it is Planloom itself, which would call itself",
        ),
        (
            {"url": "https://mcp.context7.com/mcp"},
            "Planloom brings context7, set up for its planner",
        ),
        ({"command": "x", "enabled": False}, "it is switched off there"),
        ({"url": "https://a/sse"}, "it speaks SSE, which streamable HTTP has replaced"),
        ({"url": "ws://a/mcp"}, "its address is not an HTTP address"),
        ({"type": "ws", "url": "https://a"}, "the transport ws is not supported by Planloom"),
        ({"type": "http", "command": "x"}, "it has no address for the transport http"),
        ({"command": "x", "url": "https://a"}, "it has both a command and a URL"),
        ({"command": 3}, "its `command` is not text"),
        ({"command": "\ud800"}, "it has invalid characters"),
        ({"command": "x", "args": "a"}, "its `args` are not a list"),
        ({"command": "x", "args": [["a"]]}, "one of its values is not text"),
        ({"command": "x", "env": ["A"]}, "its `env` are not a map"),
        ({"command": "x", "args": ["${file}"]}, None),
        ({"command": "x", "args": ["${config:a.b}"]}, "`${config…` is known to its client only"),
    ],
)
def test_what_cannot_be_taken_is_left_out_with_the_reason(
    tmp_path: Path, entry: Any, why: str | None
) -> None:
    taken, left_out = taken_from(tmp_path, {"it": entry})
    assert [each.why for each in left_out] == ([why] if why else [])
    assert len(taken) == (0 if why else 1)


def taken_from(folder: Path, servers: Any) -> tuple[list[ImportedServer], list[SkippedServer]]:
    file = put(folder / "mcp.json", {"mcpServers": servers})
    return import_servers([Source("It", file)], ["serena", "context7"])


def settings_from(folder: Path, entry: dict[str, Any]) -> dict[str, Any]:
    (taken,), left_out = taken_from(folder, {"it": entry})
    assert left_out == []
    return taken.settings


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ({"LEVEL": "debug"}, {"LEVEL": "debug"}),
        ({"PORT": 8080, "ON": True, "GONE": None}, {"PORT": "8080", "ON": "true"}),
        ({"ROOT": "/home/me/data_v3"}, {"ROOT": "/home/me/data_v3"}),
        ({"BASE": "https://api.example.com/v1"}, {"BASE": "https://api.example.com/v1"}),
        ({"API_KEY": "debug"}, {"API_KEY": "${API_KEY:-}"}),
        ({"PHRASE": "correct horse battery"}, {"PHRASE": "${PHRASE:-}"}),
        ({"HOOK": "https://hooks.example.com/T024BE7LD/B1"}, {"HOOK": "${HOOK:-}"}),
        ({"DSN": "postgres://a:b@c/d"}, {"DSN": "${DSN:-}"}),
        ({"A": "${B}", "C": "${D:-info}"}, {"A": "${B:-}", "C": "${D:-info}"}),
        ({"A": f"${{B:-{SECRET}}}"}, {"A": "${B:-}"}),
        ({"A": f"{SECRET}${{B}}"}, {"A": "${A:-}"}),
        ({"A": "$HOME"}, {"A": "$$HOME"}),
    ],
)  # fmt: skip
def test_a_value_comes_along_only_if_it_is_plainly_no_secret(
    tmp_path: Path, given: Any, becomes: Any
) -> None:
    assert settings_from(tmp_path, {"command": "x", "env": given})["env"] == becomes


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        (["--token", "abc"], ["--token", "${IT_TOKEN:-}"]),
        (["--token=abc"], ["--token=${IT_TOKEN:-}"]),
        (["--token", "--verbose"], ["--token", "${IT_TOKEN:-}"]),
        (["-e", "API_KEY=abc"], ["-e", "API_KEY=${API_KEY:-}"]),
        (["--header", f"Authorization: Bearer {SECRET}"], ["--header", "Authorization: Bearer ${IT_TOKEN:-}"]),
        (["https://a.example/?api_key=abc"], ["${IT_ARGS:-}"]),
        ([SECRET], ["${IT_ARGS:-}"]),
        (["-y", "@scope/server@1.2.3", "--port", 80], ["-y", "@scope/server@1.2.3", "--port", "80"]),
        (["${userHome}${/}x"], ["${HOME}/x"]),
    ],
)  # fmt: skip
def test_arguments_come_along_unless_they_are_called_or_look_secret(
    tmp_path: Path, given: Any, becomes: Any
) -> None:
    assert settings_from(tmp_path, {"command": "x", "args": given})["args"] == becomes


def test_one_variable_has_one_value(tmp_path: Path) -> None:
    env = {name: {"command": "x", "env": {"API_KEY": name * 9}} for name in ("a1", "b2")}
    env["c3"] = env["a1"]
    taken, _ = taken_from(tmp_path, env)
    assert [each.settings["env"]["API_KEY"] for each in taken] == [
        *("${API_KEY:-}", "${B2_API_KEY:-}", "${API_KEY:-}")
    ]
    assert [*missing_variables(taken)] == ["API_KEY", "B2_API_KEY"]


def test_servers_of_one_name_are_taken_once(tmp_path: Path) -> None:
    same, other = {"command": "x"}, {"command": "y"}
    files = [
        put(tmp_path / f"{name}.json", {"mcpServers": {"it": entry}})
        for name, entry in (("a", same), ("b", same), ("c", other))
    ]
    taken, left_out = import_servers([Source(file.stem, file) for file in files], [])
    assert [(each.source.title, each.settings) for each in taken] == [("a", same)]
    assert [(each.source.title, each.why) for each in left_out] == [
        ("c", f"another server is called it, in {files[0]}")
    ]


names = st.text(min_size=1, max_size=12)
texts = st.text(max_size=20)
entries = st.fixed_dictionaries(
    {"command": texts},
    optional={
        "args": st.lists(texts, max_size=3),
        "env": st.dictionaries(names, texts, max_size=3),
        "url": texts,
        "headers": st.dictionaries(names, texts, max_size=3),
        "type": st.sampled_from(["stdio", "http", "sse"]),
        "other": st.none() | st.booleans() | texts,
    },
)


@given(st.dictionaries(names, entries | texts, max_size=4))
@hypothesis_settings(max_examples=60)
def test_whatever_a_client_says_the_file_written_is_one_that_can_be_read(servers: Any) -> None:
    with TemporaryDirectory() as folder:
        taken, left_out = taken_from(Path(folder), servers)
    assert len(taken) + len(left_out) == len(servers)
    text = upstreams_text("upstreams:\n  first: {command: x}\n", taken, left_out)
    data = yaml.safe_load(text.encode())
    VALIDATOR.validate(data)
    assert data["upstreams"] == {"first": {"command": "x"}} | {
        each.name: each.settings for each in taken
    }


tokens = st.text(string.ascii_letters + string.digits, min_size=20, max_size=40).filter(
    lambda text: any(map(str.isupper, text)) and any(map(str.islower, text)) and not text.isalpha()
)
WHOLE = ("{}", "Bearer {}", "Bearer ${{A}}{}", "https://me:{}@host/x", "${{A:-{}}}", "a b {}")
CALLED = ("--token={}", "--header=Authorization: Bearer {}", "https://host/?key={}", "KEY={}", "{}")


@given(tokens, st.sampled_from(WHOLE), st.sampled_from(CALLED), st.sampled_from(WHOLE[:4]))
def test_no_token_gets_into_the_file(token: str, value: str, argument: str, after: str) -> None:
    servers = {
        "one": {
            "command": f"/opt/{token}/x",
            "cwd": f"/srv/{token}",
            "args": [argument.format(token), "--password", after.format(token)],
            "env": {"A": value.format(token)},
        },
        "two": {
            "url": f"https://host/{token}",
            "headers": {"X-A": value.format(token), "Authorization": after.format(token)},
        },
    }
    with TemporaryDirectory() as folder:
        taken, left_out = taken_from(Path(folder), servers)
    assert (len(taken), left_out) == (2, [])
    assert token not in upstreams_text("upstreams: {}", taken, left_out)
    assert token not in str([missing_variables(taken), taken])


@given(texts)
def test_a_text_that_comes_along_is_the_same_text(text: str) -> None:
    with TemporaryDirectory() as folder:
        taken, _ = taken_from(Path(folder), {"it": {"command": "x", "args": ["a", text]}})
    for each in taken:
        if not each.variables and "${" not in text:
            assert expand(each.settings["args"][1], {}).get_secret_value() == text


def test_each_system_has_its_places(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    places = {name: str(client.file.relative_to(home)) for name, client in CLIENTS.items()}
    assert places == snapshot(
        {
            "claude-desktop": ".config/Claude/claude_desktop_config.json",
            "claude-code": ".claude.json",
            "cursor": ".cursor/mcp.json",
            "vscode": ".config/Code/User/mcp.json",
            "continue": ".continue/config.yaml",
            "zed": ".config/zed/settings.json",
            "codex": ".codex/config.toml",
            "gemini": ".gemini/settings.json",
            "copilot": ".copilot/mcp-config.json",
            "cline": ".cline/data/settings/cline_mcp_settings.json",
            "goose": ".config/goose/config.yaml",
            "opencode": ".config/opencode/opencode.json",
        }
    )
    monkeypatch.setattr("server.client_configs.clients.PlatformDirs", MacOS)
    claude = CLIENTS["claude-desktop"].file
    assert claude == home / "Library/Application Support/Claude/claude_desktop_config.json"


def test_the_schema_is_printed(run: Run) -> None:
    assert run("schema") == (0, schema_text(), "")


# Clients' entries

COMMAND = str(Path(sys.executable).with_name("planloom"))


def shown(text: str, home: Path) -> str:
    return text.replace(COMMAND, "/bin/planloom").replace(str(home), "HOME")


def test_every_client_can_be_named() -> None:
    named, _ = get_args(get_type_hints(cli.init)["client"])
    assert sorted(get_args(named)) == sorted(FORMS) == sorted(CLIENTS)


@pytest.mark.parametrize("client", sorted(FORMS))
def test_a_clients_entry_is_printed(run: Run, home: Path, client: str) -> None:
    code, output, told = run("init", "--client", client)
    assert code == 0
    expected = snapshot(
        {
            "claude-code": [
                """\
{
  "mcpServers": {
    "planloom": {
      "type": "stdio",
      "command": "/bin/planloom",
      "args": [
        "serve",
        "--project",
        "HOME"
      ]
    }
  }
}
""",
                "This goes into ~/.claude.json; --write puts it there.\n",
            ],
            "claude-desktop": [
                """\
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
""",
                "This goes into ~/.config/Claude/claude_desktop_config.json; --write puts it there.\n",
            ],
            "cline": [
                """\
{
  "mcpServers": {
    "planloom": {
      "command": "/bin/planloom",
      "args": [
        "serve",
        "--project",
        "HOME"
      ],
      "timeout": 60
    }
  }
}
""",
                "This goes into ~/.cline/data/settings/cline_mcp_settings.json; --write puts it there.\n",
            ],
            "codex": [
                """\
[mcp_servers.planloom]
command = "/bin/planloom"
args = ["serve", "--project", "HOME"]
""",
                "This goes into ~/.codex/config.toml; --write puts it there.\n",
            ],
            "continue": [
                """\
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
""",
                "This goes into ~/.continue/config.yaml; --write puts it there.\n",
            ],
            "copilot": [
                """\
{
  "mcpServers": {
    "planloom": {
      "type": "local",
      "command": "/bin/planloom",
      "args": [
        "serve",
        "--project",
        "HOME"
      ],
      "tools": [
        "*"
      ]
    }
  }
}
""",
                "This goes into ~/.copilot/mcp-config.json; --write puts it there.\n",
            ],
            "cursor": [
                """\
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
""",
                "This goes into ~/.cursor/mcp.json; --write puts it there.\n",
            ],
            "gemini": [
                """\
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
""",
                "This goes into ~/.gemini/settings.json; --write puts it there.\n",
            ],
            "goose": [
                """\
extensions:
  planloom:
    enabled: true
    type: stdio
    name: planloom
    description: A planning agent for questions about a project
    cmd: /bin/planloom
    args:
    - serve
    - --project
    - HOME
    timeout: 300
""",
                "This goes into ~/.config/goose/config.yaml; --write puts it there.\n",
            ],
            "opencode": [
                """\
{
  "mcp": {
    "planloom": {
      "type": "local",
      "command": [
        "/bin/planloom",
        "serve",
        "--project",
        "HOME"
      ],
      "timeout": 60000
    }
  }
}
""",
                "This goes into ~/.config/opencode/opencode.json; --write puts it there.\n",
            ],
            "vscode": [
                """\
{
  "servers": {
    "planloom": {
      "type": "stdio",
      "command": "/bin/planloom",
      "args": [
        "serve",
        "--project",
        "${workspaceFolder}"
      ]
    }
  }
}
""",
                "This goes into ~/.vscode/mcp.json; --write puts it there.\n",
            ],
            "zed": [
                """\
{
  "context_servers": {
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
""",
                "This goes into ~/.config/zed/settings.json; --write puts it there.\n",
            ],
        }
    )
    assert expected[client] == [shown(output, home), told]


HEADERS = {"type": "object", "additionalProperties": {"type": "string"}}
DOCUMENTED = {
    # https://cursor.com/docs/mcp: `url` and `headers`, with `${env:NAME}`
    "cursor": {
        "properties": {"url": {"type": "string"}, "headers": HEADERS},
        "required": ["url"],
        "additionalProperties": False,
    },
    # https://code.visualstudio.com/docs/copilot/reference/mcp-configuration: `${input:ID}`
    "vscode": {
        "properties": {
            "type": {"enum": ["http", "sse"]},
            "url": {"type": "string"},
            "headers": HEADERS,
        },
        "required": ["type", "url"],
        "additionalProperties": False,
    },
}
"""An entry over HTTP as the documentation of a program says that no test can start; those that one
can are in tests/server/clients/test_init.py."""
REFERENCES = {"cursor": "Bearer ${env:PLANLOOM_TOKEN}", "vscode": "Bearer ${input:planloom-token}"}


@pytest.mark.parametrize("client", DOCUMENTED)
def test_an_entry_over_http_is_as_documented(run: Run, home: Path, client: str) -> None:
    _, output, _ = run("init", "--client", client, "--http", "127.0.0.1:8000")
    written = json.loads(output)
    entry = written[FORMS[client].key]["planloom"]
    Draft202012Validator(DOCUMENTED[client]).validate(entry)
    assert entry["headers"]["Authorization"] == REFERENCES[client]
    asked = [each["id"] for each in written.get("inputs", [])]
    assert asked == (["planloom-token"] if client == "vscode" else [])


@pytest.mark.parametrize("client", sorted(name for name, form in FORMS.items() if form.http))
def test_an_entry_over_http_refers_to_the_token(run: Run, home: Path, client: str) -> None:
    code, output, told = run("init", "--client", client, "--http", "127.0.0.1:8000")
    assert code == 0
    expected = snapshot(
        {
            "claude-code": [
                """\
{
  "mcpServers": {
    "planloom": {
      "type": "http",
      "url": "http://127.0.0.1:8000/mcp",
      "headers": {
        "Authorization": "Bearer ${PLANLOOM_TOKEN}"
      }
    }
  }
}
""",
                """\
This goes into ~/.claude.json; --write puts it there.
Claude Code needs the token in PLANLOOM_TOKEN: `planloom token` prints it.
""",
            ],
            "codex": [
                """\
[mcp_servers.planloom]
url = "http://127.0.0.1:8000/mcp"
bearer_token_env_var = "PLANLOOM_TOKEN"
""",
                """\
This goes into ~/.codex/config.toml; --write puts it there.
Codex needs the token in PLANLOOM_TOKEN: `planloom token` prints it.
""",
            ],
            "continue": [
                """\
name: Local Config
version: 1.0.0
schema: v1
mcpServers:
- name: planloom
  type: streamable-http
  url: http://127.0.0.1:8000/mcp
  requestOptions:
    headers:
      Authorization: Bearer ${{ secrets.PLANLOOM_TOKEN }}
""",
                """\
This goes into ~/.continue/config.yaml; --write puts it there.
Continue needs the token in PLANLOOM_TOKEN: `planloom token` prints it.
""",
            ],
            "copilot": [
                """\
{
  "mcpServers": {
    "planloom": {
      "type": "http",
      "url": "http://127.0.0.1:8000/mcp",
      "headers": {
        "Authorization": "Bearer ${PLANLOOM_TOKEN}"
      },
      "tools": [
        "*"
      ]
    }
  }
}
""",
                """\
This goes into ~/.copilot/mcp-config.json; --write puts it there.
Copilot CLI needs the token in PLANLOOM_TOKEN: `planloom token` prints it.
""",
            ],
            "cursor": [
                """\
{
  "mcpServers": {
    "planloom": {
      "url": "http://127.0.0.1:8000/mcp",
      "headers": {
        "Authorization": "Bearer ${env:PLANLOOM_TOKEN}"
      }
    }
  }
}
""",
                """\
This goes into ~/.cursor/mcp.json; --write puts it there.
Cursor needs the token in PLANLOOM_TOKEN: `planloom token` prints it.
""",
            ],
            "gemini": [
                """\
{
  "mcpServers": {
    "planloom": {
      "httpUrl": "http://127.0.0.1:8000/mcp",
      "headers": {
        "Authorization": "Bearer ${PLANLOOM_TOKEN}"
      }
    }
  }
}
""",
                """\
This goes into ~/.gemini/settings.json; --write puts it there.
Gemini CLI needs the token in PLANLOOM_TOKEN: `planloom token` prints it.
""",
            ],
            "goose": [
                """\
extensions:
  planloom:
    enabled: true
    type: streamable_http
    name: planloom
    description: A planning agent for questions about a project
    uri: http://127.0.0.1:8000/mcp
    headers:
      Authorization: Bearer ${PLANLOOM_TOKEN}
    env_keys:
    - PLANLOOM_TOKEN
    timeout: 300
""",
                """\
This goes into ~/.config/goose/config.yaml; --write puts it there.
goose needs the token in PLANLOOM_TOKEN: `planloom token` prints it.
""",
            ],
            "opencode": [
                """\
{
  "mcp": {
    "planloom": {
      "type": "remote",
      "url": "http://127.0.0.1:8000/mcp",
      "headers": {
        "Authorization": "Bearer {env:PLANLOOM_TOKEN}"
      }
    }
  }
}
""",
                """\
This goes into ~/.config/opencode/opencode.json; --write puts it there.
opencode needs the token in PLANLOOM_TOKEN: `planloom token` prints it.
""",
            ],
            "vscode": [
                """\
{
  "servers": {
    "planloom": {
      "type": "http",
      "url": "http://127.0.0.1:8000/mcp",
      "headers": {
        "Authorization": "Bearer ${input:planloom-token}"
      }
    }
  },
  "inputs": [
    {
      "type": "promptString",
      "id": "planloom-token",
      "description": "Planloom's token (planloom token)",
      "password": true
    }
  ]
}
""",
                """\
This goes into ~/.config/Code/User/mcp.json; --write puts it there.
VS Code needs the token once it asks: `planloom token` prints it.
""",
            ],
        }
    )
    assert expected[client] == [output, told]


def test_claude_desktop_takes_no_url(run: Run) -> None:
    assert run("init", "--client", "claude-desktop", "--http", "127.0.0.1:8000") == snapshot(
        (
            2,
            "",
            "planloom: --http: Claude Desktop's file cannot refer to a token; leave --http out\n",
        )
    )


def test_options_that_do_not_go_together_are_told(run: Run) -> None:
    for words in (["--write"], ["--client", "cursor", "--force"]):
        code, _, told = run("init", *words)
        assert (code, "with --client" in " ".join(told.split())) == (2, True)


@pytest.mark.parametrize("half", ["", "\ud800"])
@pytest.mark.parametrize("client", ["claude-desktop", "cursor", "vscode"])
def test_writing_keeps_everything_else(run: Run, home: Path, client: str, half: str) -> None:
    key = "servers" if client == "vscode" else "mcpServers"
    own = {"command": "old", "args": ["serve"], "env": {"A": "b"}}
    other = {"command": "x", "env": {"ü": "✓", "N": 1.5, "half": half}}
    inputs = [{"id": "some-key"}, "odd", {"id": "planloom-token", "type": "old"}]
    before = {"theme": "dark", key: {"other": other, "planloom": own}, "inputs": inputs}
    file = put(CLIENTS[client].file, json.dumps(before, indent="\t"))
    file.chmod(0o640)
    words = ["--http", "127.0.0.1:8000"] if client != "claude-desktop" else []
    code, output, _ = run("init", "--client", client, "--write", *words)
    assert (code, output) == (0, "")
    after = json.loads(file.read_text())
    entry = after[key].pop("planloom")
    assert after[key] == {"other": other}
    assert entry["env"] == {"A": "b"}
    assert entry.get("command") != "old"
    assert after["theme"] == "dark"
    if client == "vscode":
        assert after["inputs"][:2] == inputs[:2]
        assert [each["type"] for each in after["inputs"][2:]] == ["promptString"]
    else:
        assert after["inputs"] == inputs
    assert file.read_text().startswith('{\n\t"theme"')
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    kept = file.with_name(f"{file.name}.bak")
    assert json.loads(kept.read_text()) == before

    again = file.read_text()
    run("init", "--client", client, "--write", *words)
    assert (file.read_text(), len([*file.parent.iterdir()])) == (again, 2)


BEFORE = {
    "zed": """\
// mine
{
  "theme": "One", // dark
  /* servers */
  "context_servers": {
    "other": {"command": "x"}, // the other
    // "old": {},
  },
}
""",
    "codex": """\
# mine
model = 'some'   # small

[mcp_servers.other]  # the other
command = "x"

# profiles
[profiles.fast]
model = "tiny"
""",
    "continue": """\
# mine
name: me
version: 1.0.0
schema: v1
mcpServers:
  # the other
  - name: other
    command: "x" # it

# models
models:
  - name: a
""",
    "goose": """\
GOOSE_MODEL: some # small
extensions:
  # the other
  other:
    enabled: true
    cmd: 'x'

# more
GOOSE_MODE: auto
""",
}


@pytest.mark.parametrize("client", sorted(BEFORE))
def test_what_people_wrote_stays_as_it_is(run: Run, home: Path, client: str) -> None:
    before = BEFORE[client]
    file = put(CLIENTS[client].file, before)
    assert run("init", "--client", client, "--write")[0] == 0
    after = file.read_text()
    expected = snapshot(
        {
            "codex": """\
# mine
model = 'some'   # small

[mcp_servers.other]  # the other
command = "x"

# profiles
[profiles.fast]
model = "tiny"

[mcp_servers.planloom]
command = "/bin/planloom"
args = ["serve", "--project", "HOME"]
""",
            "continue": """\
# mine
name: me
version: 1.0.0
schema: v1
mcpServers:
  # the other
  - name: other
    command: "x" # it
  - name: planloom
    command: /bin/planloom
    args:
      - serve
      - --project
      - HOME

# models
models:
  - name: a
""",
            "goose": """\
GOOSE_MODEL: some # small
extensions:
  # the other
  other:
    enabled: true
    cmd: 'x'
  planloom:
    enabled: true
    type: stdio
    name: planloom
    description: A planning agent for questions about a project
    cmd: /bin/planloom
    args:
    - serve
    - --project
    - HOME
    timeout: 300

# more
GOOSE_MODE: auto
""",
            "zed": """\
// mine
{
  "theme": "One", // dark
  /* servers */
  "context_servers": {
    "other": {"command": "x"}, // the other
    "planloom": {
      "command": "/bin/planloom",
      "args": [
        "serve",
        "--project",
        "HOME"
      ]
    },
    // "old": {},
  },
}
""",
        }
    )
    assert expected[client] == shown(after, home)
    differing = [line for line in ndiff(before.splitlines(), after.splitlines()) if line[0] == "-"]
    assert not differing
    run("init", "--client", client, "--write")
    assert file.read_text() == after


@pytest.mark.parametrize("client", sorted(BEFORE))
def test_ends_of_lines_stay(run: Run, client: str) -> None:
    file = put(CLIENTS[client].file, "")
    file.write_bytes(BEFORE[client].replace("\n", "\r\n").encode())
    run("init", "--client", client, "--write")
    assert file.read_bytes().count(b"\n") == file.read_bytes().count(b"\r\n") > 5


@pytest.mark.parametrize("client", sorted(FORMS))
def test_a_client_may_have_several_projects(run: Run, home: Path, client: str) -> None:
    folders = [home / "a/Some Shop", home / "b/some-shop", home / "c"]
    for folder in folders:
        folder.mkdir(parents=True)
        assert run("init", "--client", client, "--write", "--project", str(folder))[0] == 0
    file = CLIENTS[client].file
    text = file.read_text()
    named = {name: str(entry) for name, entry in servers(file)}
    assert [*named] == ["planloom", "planloom-some-shop", "planloom-c"]
    for folder, entry in zip(folders, named.values(), strict=True):
        assert f"'{folder}'" in entry
    _, _, told = run("init", "--client", client, "--write", "--project", str(folders[1]))
    assert "as planloom-some-shop" in told
    assert file.read_text() == text


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


def test_what_a_person_added_to_an_entry_stays(run: Run, home: Path) -> None:
    file = put(home / ".continue/config.yaml", BEFORE["continue"])
    run("init", "--client", "continue", "--write")
    file.write_text(
        file.read_text().replace("/planloom\n", "/planloom # mine\n    env: {A: b}\n    cwd: /x\n")
    )
    before = file.read_text()
    assert "# mine" in before
    file.write_text(before.replace("serve", "old"))
    run("init", "--client", "continue", "--write")
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("[]", "there is no map"),
        ("[1]", "it is not a map of settings"),
        ('{"mcpServers": []}', "there is no map"),
        ('{"mcpServers": [1]}', "`mcpServers` is no map"),
        ('{"a": ' * 100_000, "nested too deep"),
        ("{", "Expecting property name"),
        ("{,}", "Expecting property name"),
    ],
)
def test_a_file_that_cannot_be_changed_is_left_alone(
    run: Run, home: Path, before: str, told: str
) -> None:
    file = put(home / ".cursor/mcp.json", before)
    code, _, errors = run("init", "--client", "cursor", "--write")
    assert (code, told in errors, file.read_text()) == (2, True, before)
    assert [*file.parent.iterdir()] == [file]


def test_a_link_stays_a_link(run: Run, home: Path) -> None:
    real = put(home / "dotfiles/mcp.json", {})
    link = home / ".cursor/mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    run("init", "--client", "cursor", "--write")
    assert link.is_symlink()
    assert "planloom" in real.read_text()


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
