"""The server through its real faces: in memory, as a stdio child, and over HTTP.

A `Place` is a small project with unguessable names, an `upstreams.yaml` for the test upstream over
it, and a scripted Ollama. `Place.client` opens a client to a server on it through any face.
"""

import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import forked
import psutil
import uvicorn
from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult
from fastmcp.client.elicitation import ElicitationHandler
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import StdioTransport
from mcp_types import (
    ProgressNotification,
    TextContent,
    TextResourceContents,
    ToolListChangedNotification,
)
from planted import CLASS, CONSTANT, FUNCTION, VALUE, plant
from replies import found, move_on, nowhere, plan
from scripted_ollama import FULL, ScriptedOllama
from upstream_server import build_server

from server import auth
from server.app import build
from server.config import Settings
from server.config_file import load_settings

SERVER = Path(__file__).with_name("upstream_process.py")
LONG = 240.0
"""A bound for tests that hang, in seconds, also on a machine that has much else to do; nothing
waits for it to pass."""

FACES = ("memory", "memory-legacy", "stdio", "stdio-legacy", "http", "http-legacy")
"""How a client reaches the server; `legacy` is the protocol of 2025-11-25, else 2026-07-28."""


def upstream(**options: Any) -> dict[str, Any]:
    """The entry of a test upstream in `upstreams.yaml`."""
    mode = options.pop("mode", "plain")
    arguments = [str(SERVER), "--folder", "${PLANLOOM_PROJECT}", "--mode", mode]
    return {"command": "${PLANLOOM_PYTHON}", "args": arguments} | options


FILES = upstream(
    allow=["append_note", "fail", "list_dir", "read_file", "say", "search", "sleep", "write_file"],
    listing={"tool": "list_dir", "arguments": {"path": "."}},
    tools={"search": {"text_argument": "pattern", "priority": 2}, "read_file": {"priority": 1}},
)

FILES_LISTED = """\
- search (files, read-only, priority 2): Search files for a regular expression; answers file:line: text.
- read_file (files, read-only, priority 1): Read a file, or its lines start_line to end_line.
- append_note (files, open-world, policy ask, priority 0): Add a note.
- fail (files, read-only, priority 0): Answer with an error result.
- list_dir (files, read-only, priority 0): List the directories and files of a directory.
- say (files, read-only, priority 0): Answer with the text.
- sleep (files, read-only, priority 0): Sleep, and leave a trace file that says how it ended.
- write_file (files, destructive, policy ask, priority 0): Write a file.\
"""  # noqa: E501  it stands as it is shown
"""The tools of `FILES`, as people and clients are shown them."""

TRIAL_FILES = {
    "command": sys.executable,
    "args": ["-P", "-m", "planloom.server.cli.trial.files", "${PLANLOOM_PROJECT}"],
    "listing": {"tool": "list_dir"},
    "tools": {
        "search": {"text_argument": "pattern", "priority": 1},
        "read_file": {"file_argument": "path"},
    },
}
"""The upstream of `planloom try`, which knows the files of any project."""


@dataclass
class SharedUpstream:
    """The test upstream over HTTP, in a thread, for tests that change nothing in its project."""

    project: Path
    url: str

    @classmethod
    @contextmanager
    def open(
        cls, project: Path, build: Callable[[Path], FastMCP] = build_server
    ) -> Iterator["SharedUpstream"]:
        plant(project)
        with served(build(project)) as url:
            yield cls(project, url)


@contextmanager
def served(
    mcp: FastMCP,
    port: int = 0,
    wrap: Callable[[Any], Any] | None = None,
    http: Any = "auto",
    **options: Any,
) -> Iterator[str]:
    """The URL of a server that runs over HTTP in a thread; `port` 0 is a free one. `wrap` puts
    something around its ASGI app, which is made with these options; `http` is the protocol."""
    app: Any = mcp.http_app(path="/mcp", **options)
    app = wrap(app) if wrap else app
    server = uvicorn.Server(
        uvicorn.Config(app, port=port, log_level="error", lifespan="on", http=http)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


@dataclass
class Place:
    """A project, its upstreams and its models."""

    root: Path
    ollama: ScriptedOllama
    upstreams: dict[str, Any] = field(default_factory=lambda: {"files": FILES})
    approval: dict[str, Any] = field(default_factory=dict)
    bounds: dict[str, Any] = field(default_factory=dict)
    """Other keys of `upstreams.yaml`."""
    variables: dict[str, str] = field(default_factory=dict)
    """What its servers have in their environment besides."""
    shared: "SharedUpstream | None" = None
    """Where upstream processes are not the point: the session's one, over its own project."""
    forks: bool = True
    """Whether what `popen` or a client starts is forked from a process that has imported it."""
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """What `popen` started."""

    def __post_init__(self) -> None:
        if self.shared:
            http = {"url": self.shared.url, "command": None, "args": None}
            files = {key: value for key, value in (FILES | http).items() if value is not None}
            self.upstreams = {"files": files}
        else:
            plant(self.project)

    @property
    def project(self) -> Path:
        return self.shared.project if self.shared else self.root / "project"

    @property
    def file(self) -> Path:
        file = self.root / "upstreams.yaml"
        settings = {"approval": self.approval, "upstreams": self.upstreams} | self.bounds
        file.write_text(json.dumps(settings))
        return file

    @property
    def journal(self) -> Path:
        """Where its runs are recorded."""
        return self.root / "runs" / "runs.sqlite"

    @property
    def environ(self) -> dict[str, str]:
        """What a server needs of the environment, besides ours."""
        cache = str(self.root / "cache")
        return {
            "OLLAMA_HOST": self.ollama.host,
            "PLANLOOM_BACKEND": "ollama",
            "PLANLOOM_WARM_UP": "false",
            "XDG_CACHE_HOME": cache,
            "PLANLOOM_RUNS": str(self.root / "runs"),
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "XDG_STATE_HOME": str(self.root / "state"),
            **self.variables,
        }

    @property
    def settings(self) -> Settings:
        return load_settings(self.file, self.project, self.environ)

    def command(self, *words: str) -> list[str]:
        """`planloom` with these words, on this place."""
        where = ["--project", str(self.project), "--upstreams", str(self.file)]
        return [sys.executable, "-m", "server.cli", *words, *where]

    @property
    def entry(self) -> list[str]:
        """What a client starts its server by."""
        serve = self.command("serve")
        return forked.relayed(serve) if self.forks else serve

    def popen(self, *words: str, **environ: str) -> subprocess.Popen[bytes]:
        return self.popen_on({}, *words, **environ)

    def popen_on(
        self, files: dict[str, int], *words: str, **environ: str
    ) -> subprocess.Popen[bytes]:
        """The same, with these file descriptors as its `stdin`, `stdout` or `stderr`. Others are
        pipes; only `serve` has a standard input otherwise."""
        stdin = subprocess.PIPE if words[0] == "serve" else subprocess.DEVNULL
        start: type[subprocess.Popen[bytes]] = forked.Process if self.forks else subprocess.Popen
        process = start(
            self.command(*words),
            env={**os.environ, **self.environ, **environ},
            stdin=files.get("stdin", stdin),
            stdout=files.get("stdout", subprocess.PIPE),
            stderr=files.get("stderr", subprocess.PIPE),
        )
        self.started.append(process)
        return process

    def run(
        self, *words: str, text: str | None = None, merged: bool = False, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """The same to its end, in a forked process (`forked.run`)."""
        environment = {**os.environ, **self.environ, **environ}
        return forked.run(self.command(*words)[3:], environment, LONG, text, merged)

    def run_alone(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """`planloom` with these words only, to its end."""
        return forked.run(words, {**os.environ, **self.environ, **environ}, LONG)

    def processes(self) -> list[psutil.Process]:
        """Every live process that was started on this place, orphans too."""
        cache = self.environ["XDG_CACHE_HOME"]
        # One that is forked has the environment of the process that it is forked from.
        started = {each.pid for each in self.started if each.poll() is None}
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                ours = process.pid in started or process.environ().get("XDG_CACHE_HOME") == cache
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    @contextmanager
    def http(self, **environ: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
        """A served HTTP port, ended by force at the latest here."""
        port = free_port()
        process = self.popen("serve", "--http", f"127.0.0.1:{port}", **environ)
        try:
            wait_until_it_listens(process, port)
            yield process, port
        finally:
            end(process)

    @property
    def token(self) -> str:
        """What its HTTP server wants to see; there once it was started."""
        return (self.root / "state" / "planloom" / "token").read_text().strip()

    @asynccontextmanager
    async def client(
        self, face: str = "memory", person: ElicitationHandler | None = None
    ) -> AsyncIterator["Caller"]:
        """A client of a server on this place, which ends with it; it can ask a `person`. Besides
        `FACES` there is `served`, which is HTTP without a process of its own."""
        kind, _, era = face.partition("-")
        era = era or "auto"
        if kind == "memory":
            async with connected(build(self.settings), person, era) as caller:
                yield caller
        elif kind == "stdio":
            command, *arguments = self.entry
            environ = {**os.environ, **self.environ}
            transport = StdioTransport(command, arguments, env=environ, keep_alive=False)
            async with connected(transport, person, era) as caller:
                yield caller
        elif kind == "served":
            provider, source = auth.provider({}, "127.0.0.1")
            with served(build(self.settings, auth=provider)) as url:
                async with connected(url, person, era, auth=str(source.own)) as caller:
                    yield caller
        else:
            with self.http() as (process, port):
                url = f"http://127.0.0.1:{port}/mcp"
                async with connected(url, person, era, auth=self.token) as caller:
                    yield caller
                process.terminate()
                await anyio.to_thread.run_sync(process.wait)


class Progress(MessageHandler):
    """The progress notifications of a client, in the order of their arrival."""

    def __init__(self) -> None:
        self.numbers: list[float] = []
        self.messages: list[str] = []
        self.meta: list[dict[str, Any]] = []
        self.list_changes = 0

    async def on_tool_list_changed(self, message: ToolListChangedNotification) -> None:
        self.list_changes += 1

    async def on_progress(self, message: ProgressNotification) -> None:
        self.numbers.append(message.params.progress)
        self.messages.append(message.params.message or "")
        self.meta.append(dict(message.params.meta or {}))

    @property
    def events(self) -> list[dict[str, Any]]:
        return [meta["planloom/event"] for meta in self.meta if "planloom/event" in meta]

    @property
    def runs(self) -> list[str]:
        return list(dict.fromkeys(str(meta["planloom/run_id"]) for meta in self.meta))

    @property
    def run_id(self) -> str:
        return self.runs[0]


@dataclass
class Called(CallToolResult):
    """A result, with the whole report of the run that it tells of in short."""

    whole: dict[str, Any] | None = None


@dataclass
class Caller:
    """A connected client that notes progress."""

    client: Client[Any]
    progress: Progress

    async def call(self, name: str, /, **arguments: Any) -> Called:
        with anyio.fail_after(LONG):
            result = await self.client.call_tool(
                name, arguments, progress_handler=ignored, raise_on_error=False
            )
            return await called(self.client, result)

    async def begin(self, prompt: str, **arguments: Any) -> str:
        """Begin a run without waiting for it; its id."""
        begun = await self.call("plan_and_answer", prompt=prompt, wait_s=0, **arguments)
        assert begun.whole
        return str(begun.whole["run_id"])

    async def error(self, name: str, /, **arguments: Any) -> str:
        """The text of the error that this call has to end in."""
        result = await self.call(name, **arguments)
        assert result.is_error
        return text(result)


@asynccontextmanager
async def connected(
    server: FastMCP | StdioTransport | str,
    person: ElicitationHandler | None = None,
    era: str = "auto",
    **options: Any,
) -> AsyncIterator[Caller]:
    """A client of this server, perhaps one of several; it can ask a `person`."""
    seen = Progress()
    async with Client(
        server, mode=era, message_handler=seen, elicitation_handler=person, **options
    ) as client:
        yield Caller(client, seen)


async def called(client: Client[Any], result: CallToolResult) -> Called:
    whole = result.structured_content
    if whole and "report" in whole:
        _, read = await client.read_resource(whole["report"])
        assert isinstance(read, TextResourceContents)
        whole = json.loads(read.text) | {"status": whole["status"]}
    return Called(**vars(result), whole=whole)


async def ignored(progress: float, total: float | None, message: str | None) -> None:
    """Asks for progress; the message handler sees it with its `_meta`."""


def text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def script_two_steps(ollama: ScriptedOllama) -> None:
    """A run on what `CLASS` returns, with a plan of two steps and an answer that is corrected."""
    ollama.expect(nowhere(), model=FULL, contains=[CLASS])
    ollama.expect(plan("read_file", "Look for its uses"), model=FULL, contains=[CLASS])
    ollama.expect({"path": "jobs/secret.py", "start_line": 1}, contains=[CLASS])
    ollama.expect(move_on("search", "Look for its uses"), contains=[str(VALUE)])
    ollama.expect({"path": "jobs", "pattern": FUNCTION})
    ollama.expect(found(f"`{CONSTANT}` is 48614."), contains=[FUNCTION])
    ollama.expect(found(f"`{CONSTANT}` is {VALUE}."), contains=["48614"])


def normalised(text: str) -> str:
    """Without what differs from run to run, or with the wording of the prompts."""
    text = re.sub(r"\b[0-9a-f]{32}\b", "RUN", text)
    text = re.sub(r"\d+\.\d+ s\b", "0.0 s", text)
    text = re.sub(r"(?<![\d.])\d+ s(?=\); | in all)", "0.0 s", text)
    text = re.sub(r", \d+ s\b", ", 0 s", text)
    text = re.sub(r"\d+ (tokens in|prompt tokens|of them cached)", r"N \1", text)
    text = re.sub(r"\d+ (out|generated)\b", r"N \1", text)
    return re.sub(r"^(\w+ +qwen\S+) +[\d. s]+$", r"\1 N", text, flags=re.MULTILINE)


def bearer(token: str, **headers: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **headers}


def free_port() -> int:
    """A port below those that the system itself gives away (from 32768 or 49152 on), so that no
    other socket has it by the time its server starts."""
    while True:
        port = random.randint(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.05)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def has_started(process: subprocess.Popen[bytes], port: int) -> bool:
    """Whether a server listens. Fails with its output if it has ended."""
    assert process.poll() is None, process.communicate()
    return listens(port)


def wait_until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    while not has_started(process, port):
        time.sleep(0.02)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a child of a test, by force if it has to be, and close its pipes."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):
                if process.poll() is None:
                    child.kill()
    process.kill()
    process.communicate()


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(LONG):
        while not condition():  # noqa: ASYNC110  other processes set no events
            await anyio.sleep(0.02)


def wait_until(condition: Callable[[], bool]) -> None:
    anyio.run(until, condition)
