"""Every fault of the catalogue on the real wire: told within its limit, and nothing left behind."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import psutil
import pytest
from anyio.abc import Process
from fastmcp import Client
from fastmcp.client.transports import StdioTransport as ClientStdio
from faults import CATALOGUE, Fault, faulty, obliging, seen
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse
from ollama_replies import Hang
from planted import ANSWER, QUESTION
from replies import found
from scripted_ollama import ScriptedOllama
from serving import (
    LONG,
    Called,
    Caller,
    Place,
    Progress,
    SharedUpstream,
    end,
    text,
    until,
)

from planner.checks import validation
from planner.errors import ModelUnavailable
from planner.tools import Outcome, ToolSpec
from server.app import build
from server.backends import Backend
from server.config import RunSettings, Settings, UpstreamSettings
from server.journal.base import RunWriter
from server.journal.records import NewRun
from server.journal.sqlite import SqliteJournal
from server.upstreams import connection, stdio
from server.upstreams.launch import Launcher, head_start
from server.upstreams.pool import UpstreamPool
from server.upstreams.reaper import Reaper
from server.upstreams.stdio import StdioTransport
from server.variables import Expanded

pytestmark = pytest.mark.anyio


@pytest.fixture
def ollama() -> Iterator[ScriptedOllama]:
    with ScriptedOllama(handler=obliging) as ollama:
        yield ollama


@pytest.fixture
def place(place: Place) -> Iterator[Place]:
    """No process of it is left."""
    yield place
    assert [process.cmdline() for process in place.processes()] == []


@pytest.mark.parametrize("fault", CATALOGUE, ids=lambda fault: fault.name)
async def test_a_fault_is_told_and_the_next_call_is_answered(fault: Fault, place: Place) -> None:
    with ExitStack() as stack:
        if fault.models:
            place.ollama = fault.models()
            if isinstance(place.ollama, ScriptedOllama):
                stack.enter_context(place.ollama)
        fault.arrange(place)
        async with place.client() as caller:
            result = await caller.call(fault.call, **fault.arguments)
            listed = await caller.call("list_tools")
    assert re.search(fault.sees, seen(result)), seen(result)
    assert "Traceback" not in text(result)
    assert not listed.is_error


# The transport


@pytest.fixture
async def up(place: Place, tmp_path: Path) -> Any:
    """A pool of the faulty upstream alone."""
    place.upstreams = {"up": faulty(call_timeout_s=LONG)}
    async with UpstreamPool(place.settings, launcher=Launcher(tmp_path / "cache")) as pool:
        await pool.ready(LONG)
        yield pool


async def called(pool: UpstreamPool, name: str) -> tuple[Outcome, str]:
    tool = pool.find(name)
    assert tool
    with anyio.fail_after(LONG):
        result = await pool.call(tool, {})
    return result.outcome, result.text


@pytest.mark.parametrize("fault", ["deep", "flood", "neither", "shape"])
async def test_an_answer_that_cannot_be_read_ends_one_call_only(
    fault: str, up: UpstreamPool
) -> None:
    ended: list[tuple[str, Outcome]] = []

    async def one(name: str) -> None:
        ended.append((name, (await called(up, name))[0]))

    async with anyio.create_task_group() as calls:
        calls.start_soon(one, "never")
        await anyio.lowlevel.checkpoint()
        calls.start_soon(one, fault)
        await until(lambda: bool(ended))
        assert ended == [(fault, Outcome.ERROR)]
        assert await called(up, "slow") == (Outcome.SUCCESS, "better late than never")
        assert len(ended) == 1  # the other call still waits: the connection is the same
        calls.cancel_scope.cancel()


async def test_a_flood_is_not_kept(up: UpstreamPool) -> None:
    await called(up, "slow")
    before = psutil.Process().memory_info().rss
    for name in ("flood", "flood_id_last"):
        outcome, said = await called(up, name)
        assert (outcome, said.endswith("ask for less")) == (Outcome.ERROR, True)
    assert psutil.Process().memory_info().rss - before < 32 * 2**20


async def test_a_flood_over_http_ends_its_call_and_the_upstream_comes_back(
    place: Place, tmp_path: Path, shared_upstream: SharedUpstream
) -> None:
    place.upstreams = {"up": {"url": shared_upstream.url, "allow": ["flood", "say"]}}
    async with UpstreamPool(place.settings, launcher=Launcher(tmp_path / "cache")) as pool:
        await pool.ready(LONG)
        flood, say = pool.find("flood"), pool.find("say")
        assert flood
        assert say
        result = await pool.call(flood, {"characters": stdio.MAX_MESSAGE_BYTES + 1})
        why = "up was lost during flood: its answer is longer than 8 MiB; ask for less"
        assert (result.outcome, result.text) == (Outcome.ERROR, why)
        assert (await pool.call(say, {"text": "still here"})).text == "still here"


def message(number: int, text: str, first: bool = True) -> bytes:
    head, body = (
        b'"jsonrpc":"2.0","id":%d' % number,
        b'"result":{"x":%s}' % json.dumps(text).encode(),
    )
    return b"{" + b",".join([head, body] if first else [body, head]) + b"}"


@pytest.fixture
def short_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_MESSAGE_BYTES", 300)
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 100_000)
    monkeypatch.setattr(stdio, "EDGE", 100)


LINES = st.one_of(
    st.builds(message, st.integers(0, 10**9), st.text(max_size=400), st.booleans()),
    st.binary(max_size=400).map(lambda line: line.replace(b"\n", b"")),
)


@hypothesis_settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("short_messages")
@given(st.lists(LINES), st.lists(st.integers(1, 500), min_size=1))
def test_messages_are_the_same_however_they_arrive(lines: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    whole = list(stdio.Messages().feed(stream))
    pieces: list[JSONRPCMessage] = []
    reader, start = stdio.Messages(), 0
    for size in cycle(sizes):
        if start >= len(stream):
            break
        pieces += reader.feed(stream[start : start + size])
        start += size
        assert len(reader._line) <= stdio.MAX_MESSAGE_BYTES + size
    assert pieces == whole


@given(st.integers(0, 10**9), st.text(max_size=400), st.booleans())
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("short_messages")
def test_every_answer_is_read_or_refused_by_its_id(number: int, said: str, first: bool) -> None:
    line = message(number, said, first)
    (read,) = stdio.Messages().feed(line + b"\n")
    if len(line) <= stdio.MAX_MESSAGE_BYTES:
        assert isinstance(read, JSONRPCResponse)
        assert read.result == {"x": said}
    else:
        assert isinstance(read, JSONRPCError)
    assert read.id == number


@pytest.mark.usefixtures("short_messages")
def test_a_request_of_an_upstream_is_not_taken_for_an_answer() -> None:
    line = b'{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage","params":"%s"}' % (
        b"x" * 999
    )
    assert list(stdio.Messages().feed(line + b"\n")) == []


# Processes


@pytest.mark.parametrize(
    ("kinds", "processes"),
    [
        # Itself, its reaper with its standby, and of the upstreams three.
        pytest.param(("stubborn", "hangs"), 6, id="running"),
        # The upstream is there long before FastMCP is imported.
        pytest.param(("hangs",), 4, id="starting"),
    ],
)
async def test_a_killed_server_leaves_no_process(
    place: Place, kinds: tuple[str, ...], processes: int
) -> None:
    place.upstreams = {each: faulty(each, start_timeout_s=LONG) for each in kinds}
    place.forks = "stubborn" in kinds
    server = place.popen("serve")
    try:
        await until(lambda: len(place.processes()) == processes)
        server.send_signal(signal.SIGKILL)
        await until(lambda: place.processes() == [])
    finally:
        end(server)


async def test_an_upstream_that_was_begun_ahead_is_taken_over(place: Place) -> None:
    others = {
        "missing": {"command": "no-such-command"},
        "impossible": faulty("\0"),
        "off": faulty() | {"enabled": False},
    }
    place.upstreams = {"up": faulty(), **others}
    async with head_start(place.settings) as launcher:
        await until(lambda: len(place.processes()) == 3)  # with the reaper and its standby
        begun = place.processes()
        async with UpstreamPool(place.settings, launcher=launcher) as pool:
            await pool.ready(LONG)
            assert place.processes() == begun
            states = {each.name: (each.state, each.error) for each in pool.upstreams()}
            assert states["up"] == ("ready", None)
            assert "no-such-command: No such file or directory; install it" in str(states)
            assert "embedded null byte" in str(states["impossible"])


async def test_an_upstream_that_was_begun_ahead_and_not_wanted_is_ended(place: Place) -> None:
    place.upstreams = {"hangs": faulty("hangs"), "missing": {"command": "no-such-command"}}
    async with head_start(place.settings):
        await until(lambda: len(place.processes()) == 3)
    assert place.processes() == []


def test_a_reaper_that_was_killed_is_replaced() -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(3600)"]
    children = [subprocess.Popen(sleeper, start_new_session=True) for _ in range(2)]
    reaper = Reaper()
    reaper.start()
    reaper.adopt(children[0].pid)
    (first,) = set(psutil.Process().children()) - {psutil.Process(each.pid) for each in children}
    first.kill()
    first.wait()
    reaper.adopt(children[1].pid)
    reaper.close()
    assert [child.wait(LONG) for child in children] == [-signal.SIGTERM] * 2


# Load


async def test_a_server_that_has_enough_to_do_says_when_to_come_again(place: Place) -> None:
    runs = RunSettings(concurrent=2, queue=3)
    with ScriptedOllama(handler=lambda request: Hang(then=json.dumps(found(ANSWER)))) as ollama:
        place.ollama = ollama
        settings = place.settings.model_copy(update={"runs": runs})
        async with Client(build(settings)) as client, anyio.create_task_group() as tasks:
            caller = Caller(client, Progress())
            results: list[Called] = []

            async def ask() -> None:
                results.append(await caller.call("plan_and_answer", prompt=QUESTION))

            for _ in range(300):
                tasks.start_soon(ask)
            await until(lambda: len(results) == 295)
            assert {text(result) for result in results} == {
                "Busy: 2 runs are under way and 3 wait for their turn. Try again in 15 s."
            }
            assert len(ollama.requests) == 2
            ollama.release()
        assert [text(result).startswith(ANSWER) for result in results[295:]] == [True] * 5


async def test_a_run_that_cannot_be_begun_leaves_its_place(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_journal: SqliteJournal, _run: NewRun) -> RunWriter:
        raise RecursionError

    place.bounds = {"runs": {"concurrent": 1, "queue": 0}}
    with ScriptedOllama(handler=lambda request: found(ANSWER)) as ollama:
        place.ollama = ollama
        async with place.client() as caller:
            with monkeypatch.context() as broken:
                broken.setattr(SqliteJournal, "begin", fails)
                assert (await caller.call("plan_and_answer", prompt=QUESTION)).is_error
            done = await caller.call("plan_and_answer", prompt=QUESTION)
    assert text(done).startswith(ANSWER)


async def test_a_run_that_waits_says_so_and_leaves_the_queue_when_cancelled(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.mcp.progress_stream.HEARTBEAT_SECONDS", 0.01)
    with ScriptedOllama(handler=lambda request: Hang(then=json.dumps(found(ANSWER)))) as ollama:
        place.ollama = ollama
        runs = RunSettings(concurrent=1, queue=2)
        settings = place.settings.model_copy(update={"runs": runs})
        seen = Progress()
        async with Client(build(settings), message_handler=seen) as client:
            caller = Caller(client, seen)
            first = await caller.call("plan_and_answer", prompt=QUESTION, wait_s=0)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: caller.call("plan_and_answer", prompt=QUESTION))
                await until(lambda: "Waiting for other runs to end, 0 s" in seen.messages)
                third = await caller.call("plan_and_answer", prompt=QUESTION, wait_s=0)
                tasks.cancel_scope.cancel()
            ollama.release()
            ids = [r.whole["run_id"] for r in (first, third) if r.whole]
            ends = [await caller.call("get_run", run_id=run_id) for run_id in ids]
    assert [text(result).startswith(ANSWER) for result in ends] == [True, True]
    assert len(ollama.requests) == 2


async def test_many_callers_do_not_each_wait_for_a_model_server_that_is_silent(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    async def probe(host: str | None) -> None:
        nonlocal tries
        tries += 1
        await anyio.sleep(0.01)

    monkeypatch.setattr("planner.models.ollama.probe", probe)
    backend = Backend(place.settings.models)
    told: list[str] = []

    async def ask() -> None:
        with pytest.raises(ModelUnavailable) as error:
            await backend()
        told.append(str(error.value))

    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(ask)
    assert (tries, len(told), len(set(told))) == (2, 100, 1)
    await ask()
    assert tries == 3  # a later call tries again


async def test_a_models_calls_wait_for_their_turn(place: Place) -> None:
    with ScriptedOllama(handler=lambda request: Hang(then=json.dumps(found(ANSWER)))) as ollama:
        place.ollama = ollama
        models = place.settings.models.model_copy(update={"parallel": 2})
        settings = place.settings.model_copy(update={"models": models})
        async with Client(build(settings)) as client, anyio.create_task_group() as tasks:
            caller = Caller(client, Progress())
            results: list[Called] = []

            async def ask(seconds: float) -> None:
                limit = {"max_seconds": seconds}
                results.append(await caller.call("plan_and_answer", prompt=QUESTION, **limit))

            for seconds in (LONG, LONG):
                tasks.start_soon(ask, seconds)
            await ollama.arrived(2)
            for seconds in (1, LONG):
                tasks.start_soon(ask, seconds)
            await until(lambda: len(results) == 1)  # out of its time, and so out of the queue
            assert "the time limit of 1 s was reached" in text(results[0])
            assert len(ollama.requests) == 2
            ollama.release()
        assert [text(result).startswith(ANSWER) for result in results[1:]] == [True] * 3
        assert len(ollama.requests) == 3


async def test_a_view_that_lags_behind_is_told_the_newest(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.mcp.progress_stream.MAX_BACKLOG", 3)
    ollama.expect(found(ANSWER))
    async with place.client() as caller:
        started = await caller.call("plan_and_answer", prompt=QUESTION, wait_s=0)
        assert started.whole
        run_id = started.whole["run_id"]
        await caller.call("get_run", run_id=run_id)
        before = len(caller.progress.messages)
        await caller.call("get_run", run_id=run_id)
    told = caller.progress.messages[before:]
    assert (len(told), told[-1]) == (3, "Finished: answered")


# Clients, disks and clocks


LINE = st.binary(max_size=200).map(lambda line: line.replace(b"\n", b" ").replace(b"\r", b" "))
OTHER_LINES = [b"[" * 100_000, b'{"jsonrpc":"2.0","id":1}', b"\xff\xfe", b'"\\ud800"', b"null", b""]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "last",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


HALF_PAIR = {"jsonrpc": "2.0", "id": "half \ud83d 😀", "method": "ping"}


def test_lines_that_are_no_requests_do_not_end_the_server(place: Place) -> None:
    server = place.popen("serve")
    assert server.stdin
    assert server.stdout
    sent = server.stdin

    @hypothesis_settings(max_examples=50, database=None)
    @given(LINE)
    def send(line: bytes) -> None:
        sent.write(line + b"\n")

    try:
        send()
        for line in (*OTHER_LINES, json.dumps(INITIALIZE).encode()):
            sent.write(line + b"\n")
        sent.flush()
        assert any(json.loads(line).get("id") == "last" for line in server.stdout)
        sent.write(json.dumps(HALF_PAIR).encode() + b"\n")
        sent.flush()
        assert any(json.loads(line).get("id") == "half ? 😀" for line in server.stdout)
        sent.close()
        assert server.wait(LONG) == 0
    finally:
        server.kill()
        server.wait()
        for pipe in (server.stdout, server.stderr):
            assert pipe
            pipe.close()


@pytest.mark.parametrize("disk", ["full", "no directory"])
async def test_an_upstream_needs_no_disk(disk: str, place: Place, tmp_path: Path) -> None:
    cache = tmp_path / "disk"
    if disk == "full":
        (cache / "logs").mkdir(parents=True)
        (cache / "logs" / "up.log").symlink_to("/dev/full")
    else:
        cache.write_text("a file where the directory should be")
    place.upstreams = {"up": faulty()}
    async with UpstreamPool(place.settings, launcher=Launcher(cache)) as pool:
        await pool.ready(LONG)
        assert await called(pool, "noise") == (Outcome.SUCCESS, "after 20 MiB of complaints")
        assert "the last words" in (await called(pool, "die"))[1]


async def test_last_words_that_are_read_late_are_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = StdioTransport._log

    async def late(self: StdioTransport, process: Process) -> None:
        while self.alive:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        await anyio.sleep(0.1)
        await log(self, process)

    monkeypatch.setattr(StdioTransport, "_log", late)
    for name in ("ENDING_SECONDS", "LAST_WORDS_SECONDS"):
        monkeypatch.setattr(connection, name, LONG)
    place.upstreams = {"up": faulty()}
    async with UpstreamPool(place.settings, launcher=Launcher(place.root)) as pool:
        await pool.ready(LONG)
        assert "the last words" in (await called(pool, "die"))[1]


async def test_a_log_does_not_grow_for_ever(up: UpstreamPool, tmp_path: Path) -> None:
    await called(up, "noise")
    log = tmp_path / "cache" / "logs" / "up.log"
    await until(lambda: 0 < log.stat().st_size < 2 * stdio.MAX_LOG_BYTES)


async def test_a_clock_that_jumps_changes_no_limit(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(found(ANSWER))
    jumps = (
        "import itertools, time\n"
        "real, hours = time.time, itertools.cycle((0, -1, 1))\n"
        "time.time = lambda: real() + 3600 * next(hours)\n"
        "from server.cli.commands import main; main()"
    )
    words = place.command("serve")
    arguments = ["-c", jumps, *words[words.index("serve") :]]
    environ = os.environ | place.environ
    transport = ClientStdio(words[0], arguments, env=environ, keep_alive=False)
    async with Client(transport) as client:
        result = await Caller(client, Progress()).call("plan_and_answer", prompt=QUESTION)
    assert result.whole
    assert result.whole["status"] == "answered"
    assert result.whole["usage"]["seconds"] >= 0


# Schemas


def doubled(depth: int) -> dict[str, Any]:
    """A schema whose validation doubles with each of its definitions."""
    definitions: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)
    }
    definitions[f"d{depth}"] = {"type": "integer"}
    a = {"$ref": "#/$defs/d0"}
    return {"type": "object", "properties": {"a": a}, "$defs": definitions}


@pytest.mark.parametrize("dialect", [None, "http://json-schema.org/draft-07/schema#"])
def test_validation_is_bounded(dialect: str | None) -> None:
    assert validation.problem({"a": 1}, doubled(5)) is None
    schema = doubled(70)
    if dialect:
        schema["properties"]["a"]["$schema"] = dialect
    unusable = "the schema itself cannot be used (OverflowError)"
    assert validation.problem({"a": 1}, schema) == unusable


def test_a_pattern_is_matched_in_linear_time() -> None:
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}}
    assert validation.problem({"a": "a" * 50}, schema) is None
    assert "does not match" in (validation.problem({"a": "a" * 50 + "!"}, schema) or "")
    assert validation.problem({"a": "b"}, {"properties": {"a": {"pattern": "^(?=a)"}}}) is None
    names = {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}
    assert validation.problem({"a" * 50 + "!": 1}, names) is None


# Names


NAMES = st.text("ab._", min_size=1, max_size=5)


@hypothesis_settings(max_examples=30)
@given(st.dictionaries(st.text("ab_", min_size=1, max_size=3), st.sets(NAMES), min_size=1))
@example({"_": {"a"}, "a": {"a", "a.a"}})
def test_every_tool_has_a_name_of_its_own_that_finds_it(tools: dict[str, set[str]]) -> None:
    upstreams = {name: UpstreamSettings(url=Expanded("http://x")) for name in tools}
    pool = UpstreamPool(
        Settings(project=Path("/"), upstreams=upstreams), launcher=Launcher(Path("/none"))
    )
    for upstream, names in tools.items():
        specs = {name: ToolSpec(name=name, upstream=upstream) for name in names}
        pool._upstreams[upstream].tools = specs
    found = [pool.find(tool.name) for tool in pool.tools()]
    assert found == list(pool.tools())
    meant = {(tool.upstream, tool.name.removeprefix(f"{tool.upstream}.")) for tool in pool.tools()}
    assert meant == {(upstream, name) for upstream, names in tools.items() for name in names}
