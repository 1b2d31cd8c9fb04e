"""What `planloom init` writes starts Planloom in the programs that read it.

Each program has a home of its own with a file that people have written, and a model that is not
there: it starts its MCP servers before it asks the model.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from paths import ROOT
from remote_client import NODE_BIN, with_node
from scripted_ollama import ScriptedOllama
from serving import Place, served, until
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.app import build
from server.auth import Tokens
from server.client_configs.clients import CLIENTS

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

GOOSE = NODE_BIN.parent / "@aaif" / "goose-binary-linux-x64" / "bin" / "goose"
NOBODY = "http://127.0.0.1:9"
"""Where no model answers."""
ENVIRON = {
    "CONTINUE_TELEMETRY_ENABLED": "0",
    "COPILOT_MODEL": "none",
    "COPILOT_OFFLINE": "true",
    "COPILOT_PROVIDER_API_KEY": "none",
    "COPILOT_PROVIDER_BASE_URL": f"{NOBODY}/v1",
    "GEMINI_API_KEY": "none",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "GOOSE_DISABLE_KEYRING": "1",
    "GOOSE_MODEL": "none",
    "GOOSE_PROVIDER": "openai",
    "GOOGLE_GEMINI_BASE_URL": NOBODY,
    "OPENAI_API_KEY": "none",
    "OPENAI_BASE_URL": f"{NOBODY}/v1",
    "OPENAI_HOST": NOBODY,
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
}
ASK = "Say hello"
COMMANDS = {
    "claude-code": ["claude", "mcp", "list"],
    "cline": ["cline", "--yolo", ASK],
    "codex": ["codex", "exec", "--skip-git-repo-check", ASK],
    "continue": ["cn", "--print", "--auto", ASK],
    "copilot": ["copilot", "--allow-all-tools", "--prompt", ASK],
    "gemini": ["gemini", "--prompt", ASK],
    "goose": [str(GOOSE), "run", "--no-session", "--text", ASK],
    "opencode": ["opencode", "mcp", "list"],
}
BEFORE = {
    "continue": (
        ".continue/config.yaml",
        "name: mine # of a person\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: none\n"
        f"    provider: openai\n    model: none\n    apiBase: {NOBODY}/v1\n    apiKey: none\n",
    ),
    "codex": (".codex/config.toml", '# of a person\nmodel = "none"\n'),
    "gemini": (
        ".gemini/settings.json",
        '{\n  // of a person\n  "security": {"auth": {"selectedType": "gemini-api-key"}}\n}\n',
    ),
    "opencode": (
        ".config/opencode/opencode.json",
        '{\n  // of a person\n  "share": "disabled",\n}\n',
    ),
}


OVER_HTTP = {name for name in COMMANDS if CLIENTS[name].http}
FILES = (".json", ".jsonc", ".toml", ".yaml")
KEY = "mine-0123456789abcdef"


@contextmanager
def running(client: str, home: Path, *words: str, **more: str) -> Iterator[None]:
    """The program, in a process group of its own; `words` for `init`, `more` of its environment."""
    environ = with_node(dict(os.environ) | ENVIRON | {"HOME": str(home)})
    for name in [name for name in environ if name.startswith(("XDG_", "PLANLOOM_"))]:
        del environ[name]
    environ |= more

    def start(command: list[str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command,
            cwd=home / "project",
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    if client == "cline":
        login = ["-p", "openai", "-k", "none", "-m", "none", "-b", f"{NOBODY}/v1"]
        assert start(["cline", "auth", *login]).wait() == 0
    planloom = str(Path(sys.executable).with_name("planloom"))
    assert start([planloom, "init", "--client", client, *words, "--write"]).wait() == 0
    with start(COMMANDS[client]) as process:
        try:
            yield
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)


@pytest.mark.parametrize("client", sorted(COMMANDS))
async def test_a_client_starts_planloom_by_its_entry(client: str, tmp_path: Path) -> None:
    prepare(client, tmp_path)
    own = tmp_path / ".config" / "planloom" / "upstreams.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("{models: {warm_up: false}, upstreams: {}}")
    with running(client, tmp_path):
        await until((tmp_path / ".local/state/planloom/runs/runs.sqlite").exists)
    untouched(client, tmp_path)


@pytest.mark.parametrize("client", sorted(OVER_HTTP))
async def test_a_client_reaches_planloom_by_its_entry_over_http(
    client: str, tmp_path: Path, ollama: ScriptedOllama
) -> None:
    """It comes with the token, which stands in its file by name only, and lists the tools."""
    home = tmp_path / "home"
    prepare(client, home)
    place = Place(tmp_path / "place", ollama, upstreams={})
    place.root.mkdir(exist_ok=True)
    log = Log()
    server = build(place.settings, auth=Tokens([KEY]))
    with (
        served(server, wrap=log.around) as url,
        running(client, home, "--http", url, PLANLOOM_TOKEN=KEY),
    ):
        await until(lambda: ("tools/list", 200) in log.seen)
    untouched(client, home)
    files = [file.read_bytes() for file in home.rglob("*") if file.suffix in FILES]
    assert any(url.encode() in each for each in files)
    assert not any(KEY.encode() in each for each in files)


class Log:
    """What a server was asked, and the status of its answers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def around(self, app: ASGIApp) -> ASGIApp:
        async def logged(scope: Scope, receive: Receive, send: Send) -> None:
            body = b""

            async def heard() -> Message:
                nonlocal body
                message = await receive()
                body += message.get("body", b"")
                return message

            async def answered(message: Message) -> None:
                if message["type"] == "http.response.start":
                    for method in re.findall(rb'"method":\s*"([^"]+)"', body):
                        self.seen.append((method.decode(), message["status"]))
                await send(message)

            await app(scope, heard, answered)

        return logged


def prepare(client: str, home: Path) -> None:
    """A home with a file that a person has written."""
    program = COMMANDS[client][0]
    if shutil.which(program, path=f"{NODE_BIN}{os.pathsep}{os.environ['PATH']}") is None:
        pytest.skip(f"{client} is not installed: run tests/outside/more-clients")
    (home / "project").mkdir(parents=True)
    if client in BEFORE:
        place, text = BEFORE[client]
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).write_text(text)


def untouched(client: str, home: Path) -> None:
    if client in BEFORE:
        assert "of a person" in (home / BEFORE[client][0]).read_text()


def test_the_page_says_which_were_seen() -> None:
    page = (ROOT / "docs" / "clients.md").read_text("utf-8")
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| `")][1:]
    told = {row[0].strip(" `"): (row[3].strip(), row[4].strip()) for row in rows if len(row) == 5}
    assert told.keys() == CLIENTS.keys()
    assert {name for name, (entry, _) in told.items() if entry.startswith("starts it")} == {
        *COMMANDS
    }
    assert {entry for name, (entry, _) in told.items() if name not in COMMANDS} == {"not seen"}
    assert {name for name, client in CLIENTS.items() if client.tried} == {*COMMANDS}
    assert {name: http for name, (_, http) in told.items()} == {
        name: ("reaches it" if name in OVER_HTTP else "not seen") if form.http else "not possible"
        for name, form in CLIENTS.items()
    }
