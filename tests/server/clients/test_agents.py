"""Agent programs, each with Planloom as its MCP server and a scripted model of its own.

That model calls `plan_and_answer`, follows the run, has a note made, and repeats what it was shown.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from host_model import Call, HostModel
from inline_snapshot import external_file
from ollama_replies import Hang
from planted import ANSWER, CLASS
from remote_client import PATIENCE, command, pinned, with_node
from replies import conclusion, found
from scripted_ollama import ScriptedOllama
from serving import Place, until
from wire import Wire

from benchmarks.clients import OBSERVED, Row

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

QUESTION = {"prompt": f"What is {CLASS}, and in which file?"}
NOTE = {"prompt": "Note it", "tool": "append_note", "arguments": {"text": "bring milk"}}


@dataclass(frozen=True)
class Host:
    """Where an agent runs: a folder of its own, the server's command, and the model."""

    folder: Path
    server: Sequence[str]
    environ: dict[str, str]
    """The server's."""
    model: str
    """The URL of its API."""

    def written(self, name: str, settings: dict[str, Any]) -> str:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))
        return str(file)


def program(name: str) -> Callable[[Host], list[str]]:
    """A program of ours around a framework."""

    def of(host: Host) -> list[str]:
        environ = {"PATH": os.environ["PATH"], **host.environ}
        where = {"command": host.server, "env": environ, "model": host.model}
        return [*command(name), json.dumps(where)]

    return of


def continue_cli(host: Host) -> list[str]:
    model = {
        "name": "scripted",
        "provider": "openai",
        "model": "scripted",
        "apiBase": host.model,
        "apiKey": "none",
        "roles": ["chat"],
        "capabilities": ["tool_use"],
    }
    first, *rest = host.server
    server = {"name": "planloom", "command": first, "args": rest, "env": host.environ}
    head = {"name": "test", "version": "1.0.0", "schema": "v1"}
    settings = head | {"models": [model], "mcpServers": [server]}
    return ["cn", "--print", "--auto", "--config", host.written("config.yaml", settings), "Ask"]


def opencode(host: Host) -> list[str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": host.model, "apiKey": "none"},
        "models": {"scripted": {"name": "scripted"}},
    }
    server = {
        "type": "local",
        "command": host.server,
        "environment": host.environ,
        "timeout": int(PATIENCE * 1000),
    }
    host.written(
        "opencode.json",
        {
            "provider": {"scripted": provider},
            "model": "scripted/scripted",
            "small_model": "scripted/scripted",
            "mcp": {"planloom": server},
        },
    )
    return ["opencode", "run", "Ask"]


def qwen_code(host: Host) -> list[str]:
    first, *rest = host.server
    server = {"command": first, "args": rest, "env": host.environ, "alwaysLoadTools": True}
    host.written(".qwen/settings.json", {"mcpServers": {"planloom": server}})
    return ["qwen", "--yolo", "--prompt", "Ask"]


@dataclass(frozen=True)
class Agent:
    """An agent program and how it is started."""

    id: str
    name: str
    started: Callable[[Host], list[str]]
    asks: bool = False
    """It has a way to ask its person."""
    callback: bool = False
    """A framework: what is shown is for the program around it to say."""

    def __str__(self) -> str:
        return self.id


AGENTS = [
    Agent("cn", f"Continue's `cn` {pinned('@continuedev/cli')}", continue_cli),
    Agent(
        "langgraph",
        f"LangGraph {pinned('langgraph')} with `langchain-mcp-adapters` "
        f"{pinned('langchain-mcp-adapters')}",
        program("langchain_agent.py"),
        asks=True,
        callback=True,
    ),
    Agent(
        "openai_agents",
        f"OpenAI Agents SDK {pinned('openai-agents')}",
        program("openai_agents_sdk.py"),
        callback=True,
    ),
    Agent("opencode", f"opencode {pinned('opencode-ai')}", opencode),
    Agent(
        "pydantic_ai",
        f"Pydantic AI {pinned('pydantic-ai-slim')}",
        program("pydantic_ai_agent.py"),
        asks=True,
        callback=True,
    ),
    Agent("qwen", f"Qwen Code {pinned('@qwen-code/qwen-code')}", qwen_code),
]


@contextmanager
def running(
    agent: Agent, place: Place, wire: Wire, model: HostModel
) -> Iterator[subprocess.Popen[str]]:
    """The agent, in a folder and with settings of its own, in a process group of its own."""
    home = place.root / "home"
    home.mkdir()
    server = wire.tapped(place.entry)
    host = Host(home, server, place.environ, model.url)
    environ = (
        with_node(dict(os.environ))
        | {
            "HOME": str(home),
            "PWD": str(home),
            "CONTINUE_GLOBAL_DIR": str(home / "continue"),
            "CONTINUE_TELEMETRY_ENABLED": "0",
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": model.url,
            "OPENAI_MODEL": "scripted",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }
        | {f"XDG_{kind}_HOME": str(home / kind) for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
    )
    with subprocess.Popen(
        agent.started(host),
        cwd=home,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("agent", AGENTS, ids=str)
async def test_an_agent_gets_the_answer_and_repeats_it(
    agent: Agent, place: Place, ollama: ScriptedOllama, tmp_path: Path
) -> None:
    wire = Wire(tmp_path)
    ollama.expect(found(ANSWER))
    if agent.asks:
        ollama.expect(conclusion("It is noted."), contains=["bring milk"])
    calls = [
        Call("plan_and_answer", QUESTION | {"wait_s": 0}),
        Call("get_run", lambda shown: {"run_id": run_id(shown)}),
        Call("run_step", NOTE),
        Call("get_run", lambda _: {"run_id": run_id(model.results[0])}),
    ]
    with HostModel(calls) as model, running(agent, place, wire, model) as process:
        printed, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, printed
    offered = [name for name in model.offered if name.endswith("plan_and_answer")]
    first, answered, noted, again = model.results
    assert offered
    assert "running" in first.lower()
    assert "get_run" in first or '"status":"running"' in first
    assert ANSWER in answered
    assert ANSWER in printed
    assert "It said" in printed
    assert again == answered
    assert ("It is noted." if agent.asks else "this client cannot ask") in noted
    asked = any("progressToken" in str(message) for message in wire.said)
    shown = "Finished: answered" in printed
    row = Row(
        client=agent.name,
        transport="stdio",
        protocol=wire.protocol,
        tools="yes",
        report=kind(answered),
        progress=progress(asked, shown, agent.callback),
        approval=approval(agent, wire),
        cancel="Ctrl-C stops the run",
        long_call="`running`, then `get_run`",
    )
    assert asdict(row) == external_file(OBSERVED / f"{agent}.json")


@pytest.mark.parametrize("agent", AGENTS, ids=str)
async def test_an_agent_that_is_interrupted_leaves_no_run(
    agent: Agent, place: Place, ollama: ScriptedOllama, tmp_path: Path
) -> None:
    ollama.expect(Hang())
    with (
        HostModel([Call("plan_and_answer", QUESTION)]) as model,
        running(agent, place, Wire(tmp_path), model) as process,
    ):
        await until(lambda: bool(ollama.requests))
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        process.communicate(timeout=PATIENCE)
    assert ollama.requests[0].hung_up.wait(PATIENCE)


def run_id(shown: str) -> str:
    """As a model reads it from a report."""
    (found,) = set(re.findall(r"[0-9a-f]{32}", shown))
    return str(found)


def kind(shown: str) -> str:
    """What a model is shown of a report."""
    kinds = {
        "text": "### Evidence" in shown,
        "data": '"evidence":[' in shown.replace('": [', '":['),
    }
    return " and ".join(each for each, there in kinds.items() if there) + " to its model"


def progress(asked: bool, shown: bool, callback: bool) -> str:
    if not asked:
        return "does not ask for it"
    if not shown:
        return "asks for it, shows none"
    return "to a callback" if callback else "shown"


def approval(agent: Agent, wire: Wire) -> str:
    assert ("elicitation" in wire.capabilities) == agent.asks
    return wire.asked_by or "cannot ask: refused"
