"""What programs around a model are sent: how soon, how much, and what is left when they die."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from fastmcp import Client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from ollama_replies import Hang
from planted import ANSWER, CLASS, CONSTANT, VALUE
from replies import found
from scripted_ollama import ScriptedOllama
from serving import LONG, Place, script_two_steps, text, until, upstream

from server.app import build
from server.config_file import load_settings
from server.mcp import handshake
from server.mcp.handshake import ABILITIES
from server.mcp.roots import CallersProject

pytestmark = pytest.mark.anyio

QUESTION = f"In which file and line is {CLASS} defined?"
CLIENT = {"name": "host", "version": "1"}


@pytest.fixture
def place(own_place: Place) -> Place:
    return own_place


def initialize(version: str) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def discover() -> dict[str, Any]:
    meta = {
        f"{handshake.META}protocolVersion": MODERN_PROTOCOL_VERSIONS[-1],
        f"{handshake.META}clientInfo": CLIENT,
        f"{handshake.META}clientCapabilities": {},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}


class Wire:
    """A server's standard streams, as a host has them."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdin
        assert process.stdout
        self._in, self._out = process.stdin, process.stdout

    async def say(self, *messages: dict[str, Any]) -> None:
        self._in.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages))
        self._in.flush()

    async def hear(self) -> dict[str, Any]:
        with anyio.fail_after(LONG):
            line = await anyio.to_thread.run_sync(self._out.readline)
        message: dict[str, Any] = json.loads(line)
        return message

    async def answer(self, number: int) -> dict[str, Any]:
        while (message := await self.hear()).get("id") != number:
            pass
        return message

    def cut(self) -> None:
        """What a killed host leaves of them."""
        self._in.close()
        self._out.close()


@asynccontextmanager
async def served(place: Place, forks: bool = False, **environ: str) -> AsyncIterator[Wire]:
    """Forked, it never says anything before it is imported."""
    place.forks = forks
    process = place.popen("serve", **environ)
    try:
        yield Wire(process)
    finally:
        process.kill()
        await anyio.to_thread.run_sync(process.wait)


# The handshake


@pytest.mark.parametrize("opening", [initialize("2025-11-25"), discover()])
async def test_a_connection_is_opened_before_the_server_is_imported(
    opening: dict[str, Any], place: Place, tmp_path: Path
) -> None:
    gate, slow = tmp_path / "gate", tmp_path / "slow" / "fastmcp"
    slow.mkdir(parents=True)
    (slow / "__init__.py").write_text(f"open({str(gate)!r}).read()\nraise SystemExit('shut')\n")
    os.mkfifo(gate)  # the import waits until somebody writes to it
    async with served(place, PYTHONPATH=f"{slow.parent}{os.pathsep}{Path.cwd()}") as wire:
        await wire.say(opening)
        assert "result" in await wire.hear()
        assert wire.process.poll() is None
        await anyio.to_thread.run_sync(gate.write_text, "now")


async def test_a_connection_is_opened_while_an_upstream_hangs(place: Place) -> None:
    place.upstreams = {"hangs": upstream(mode="never_starts")}
    async with served(place) as wire:
        await wire.say(initialize("2025-11-25"))
        assert (await wire.hear())["id"] == 1


OPENINGS = [*map(initialize, [*HANDSHAKE_PROTOCOL_VERSIONS, "1999-01-01"]), discover()]
SERVED = textwrap.dedent("""
    import os, sys
    from pathlib import Path
    import anyio
    from server.config_file import load_settings
    from server.cli.serve_stdio import serve_stdio
    file, project, *openings = sys.argv[1:]
    settings = load_settings(Path(file), Path(project), os.environ)
    for opening in openings:
        if os.fork() == 0:
            reading, writing = os.pipe()
            os.write(writing, opening.encode() + b"\\n")
            os.close(writing)
            os.dup2(reading, 0)
            anyio.run(serve_stdio, settings)
            sys.exit()
        assert os.wait()[1] == 0
""")
"""A server for each opening, one after the other: forked, because the import takes seconds."""


async def test_the_first_answer_is_the_servers_own(place: Place) -> None:
    place.upstreams = {}
    given = [sys.executable, "-c", SERVED, str(place.file), str(place.project)]
    process = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [*given, *map(json.dumps, OPENINGS)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=os.environ | place.environ,
            timeout=LONG,
            check=True,
        )
    )
    answers = [json.loads(line) for line in process.stdout.splitlines()]
    assert answers == [handshake.first_answer(each, place.project) for each in OPENINGS]


def test_the_protocols_are_those_of_the_sdk() -> None:
    assert tuple(HANDSHAKE_PROTOCOL_VERSIONS) == handshake.LEGACY
    assert tuple(MODERN_PROTOCOL_VERSIONS) == handshake.MODERN


async def test_a_client_is_answered_once(place: Place) -> None:
    place.upstreams = {}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    async with served(place) as wire:
        await wire.say(initialize("2025-11-25"), ready)
        await wire.say({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        heard = [await wire.hear()]
        while heard[-1].get("id") != 2:
            heard.append(await wire.hear())
    assert [each["id"] for each in heard if "id" in each] == [1, 2]
    assert heard[0]["result"]["serverInfo"]["name"] == "planloom"
    assert str(place.project) in heard[0]["result"]["instructions"]
    assert ABILITIES in heard[0]["result"]["instructions"]
    assert str(place.project) in heard[-1]["result"]["tools"][0]["description"]


# What a host forwards to its model


async def test_what_a_model_reads_is_short_and_complete(
    place: Place, ollama: ScriptedOllama
) -> None:
    script_two_steps(ollama)
    async with place.client() as caller:
        done = await caller.call("plan_and_answer", prompt=f"What does {CLASS} return?")
        tools = await caller.client.list_tools()
        whole = await caller.call("get_run", run_id=(done.whole or {})["run_id"], whole=True)
    short = done.structured_content or {}
    assert (short["status"], short["answer"]) == ("answered", f"`{CONSTANT}` is {VALUE}.")
    assert short["plan"] == ["[x] Read the file", "[x] Look for its uses"]
    assert {"source": "jobs/secret.py:3", "lines": [f"{CONSTANT} = {VALUE}"]} in short["evidence"]
    assert short["report"] == f"run://{short['run_id']}"
    assert len(json.dumps(short)) < 1000
    assert len(json.dumps(whole.structured_content)) > 5000
    assert whole.structured_content == done.whole
    spared = short["spared"]
    results = [call for each in (done.whole or {})["actions"] for call in each["tool_calls"]]
    assert spared["characters"] >= sum(len(each["result"]) for each in results if each["upstream"])
    assert spared["answer_characters"] == len(short["answer"])
    listed = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in tools]
    assert len(json.dumps(listed)) < 28_000
    for each in listed:
        del each["outputSchema"]
    assert len(json.dumps(listed)) < 12_500


async def test_a_poll_tells_only_what_is_new(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(Hang(then=json.dumps(found(ANSWER))))
    async with place.client() as caller:
        run_id = await caller.begin(QUESTION)
        await ollama.arrived()
        one = await caller.call("get_run", run_id=run_id, wait_s=0)
        told = list(caller.progress.messages)
        two = await caller.call("get_run", run_id=run_id, wait_s=0)
        assert caller.progress.messages == told
        ollama.release()
        done = await caller.call("get_run", run_id=run_id)
    short, shorter = one.structured_content or {}, two.structured_content or {}
    assert any("found" in each for each in short["news"])
    assert set(shorter) == {"status", "doing", "next", "run_id", "report"}
    assert f"get_run with run_id `{run_id}`" in shorter["next"]
    assert shorter["next"] in text(two)
    assert len(json.dumps(shorter)) < 400
    assert text(done).startswith(ANSWER)


async def test_the_time_that_is_waited_counts_on(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(Hang())
    async with place.client() as caller:
        run_id = await caller.begin(QUESTION)
        await ollama.arrived()
        seconds = []
        for _ in range(2):
            poll = await caller.call("get_run", run_id=run_id, wait_s=1.2)
            doing = (poll.structured_content or {})["doing"]
            seconds.append(int(doing.removeprefix("Waiting for the model, ").removesuffix(" s")))
        await caller.call("cancel_run", run_id=run_id)
    assert seconds[1] > seconds[0]


# Calls that are cut off, and hosts that die


@pytest.mark.parametrize("face", ["memory", "memory-legacy"])
async def test_a_call_that_was_cut_off_goes_on_when_it_is_made_again(
    face: str, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(Hang())
    async with place.client(face) as caller:
        async with anyio.create_task_group() as tasks:  # a host whose time limit is over
            tasks.start_soon(lambda: caller.call("plan_and_answer", prompt=QUESTION))
            await ollama.arrived()
            await until(lambda: bool(caller.progress.meta))
            tasks.cancel_scope.cancel()
        run_id = caller.progress.run_id
        ollama.expect(found(ANSWER))
        done = await caller.call("plan_and_answer", prompt=QUESTION)
        ollama.expect(found(ANSWER))
        again = await caller.call("plan_and_answer", prompt=QUESTION)
        tools = {each.name: each for each in await caller.client.list_tools()}
    assert (done.structured_content or {})["run_id"] == run_id
    assert text(done).startswith(ANSWER)
    assert (again.structured_content or {})["run_id"] != run_id
    assert "call it again with the same prompt" in (tools["plan_and_answer"].description or "")


async def test_a_killed_host_leaves_a_run_that_goes_on(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(Hang())
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    params = {"name": "plan_and_answer", "arguments": {"prompt": QUESTION}}
    async with served(place, forks=True) as wire:
        await wire.say(initialize("2025-11-25"), ready)
        await wire.say({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
        await ollama.arrived()
        wire.cut()
        assert wire.process.stderr
        errors = await anyio.to_thread.run_sync(wire.process.stderr.read)
        assert (await anyio.to_thread.run_sync(wire.process.wait), errors.decode()) == (0, "")
    ollama.expect(found(ANSWER))
    async with place.client() as caller:
        listed = await caller.client.read_resource("runs://newest")
        (run,) = json.loads(listed[0].text)["runs"]  # type: ignore[union-attr]
        done = await caller.call("plan_and_answer", prompt=QUESTION)
    assert run["status"] == "interrupted"
    assert (done.structured_content or {})["run_id"] == run["id"]
    assert text(done).startswith(ANSWER)


# What is said to a caller


async def test_a_missing_upstream_is_no_matter_to_an_answer_that_needs_none(
    place: Place, ollama: ScriptedOllama
) -> None:
    place.upstreams |= {"hangs": upstream(mode="never_starts")}
    ollama.expect(found(ANSWER))
    async with place.client() as caller:
        done = await caller.call("plan_and_answer", prompt=QUESTION)
        before = len(ollama.requests)
        ollama.expect(Hang())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: caller.call("plan_and_answer", prompt=f"What is {CONSTANT}?"))
            await ollama.arrived(before + 1)
            # The model may hear of the run before the client does.
            await until(lambda: len(caller.progress.runs) == 2)
            tasks.cancel_scope.cancel()
        cut = await caller.call("get_run", run_id=caller.progress.runs[-1])
    assert (done.whole or {})["upstreams"][1]["state"] == "starting"
    assert "hangs" not in text(done) + json.dumps(done.structured_content)
    assert (cut.structured_content or {})["status"] == "interrupted"
    assert "hangs" not in text(cut) + json.dumps(cut.structured_content)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_project_is_the_folder_that_the_host_works_in(
    mode: str,
    place: Place,
    ollama: ScriptedOllama,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)  # where a host with a window starts its servers
    unnamed = load_settings(place.file, None, place.environ)
    ollama.expect(found(ANSWER))
    roots = [(tmp_path / ("x" * 300)).as_uri(), place.project.as_uri()]
    async with Client(build(unnamed), mode=mode, roots=roots) as client:
        before = await client.list_tools()
        done = await client.call_tool("plan_and_answer", {"prompt": QUESTION})
        after = await client.list_tools()
    assert f"in {home}:" in (before[0].description or "")
    assert "jobs/secret.py:6" in text(done)
    assert f"in {place.project}:" in (after[0].description or "")


async def test_a_call_beside_the_first_waits_until_the_server_has_moved(tmp_path: Path) -> None:
    """Its run began on the folder that the server was just leaving."""
    moved: list[Path] = []
    seen: list[list[Path]] = []

    async def move(project: Path) -> None:
        await anyio.sleep(0.01)
        moved.append(project)

    project = CallersProject(tmp_path / "home", move)
    work = tmp_path / "work"
    work.mkdir()

    async def call() -> None:
        if not project.known:
            await project.settle([str(work)])
        seen.append([*moved])

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(call)
    assert seen == [[work]] * 3


async def test_a_run_goes_on_in_the_folder_that_the_host_works_in(
    place: Place, ollama: ScriptedOllama, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in another one where the same is asked by a host with a server of its own."""
    for name in ("home", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "home")
    unnamed = partial(load_settings, place.file, None, place.environ)
    here, there = [place.project.as_uri()], [(tmp_path / "other").as_uri()]
    asked = {"prompt": QUESTION, "wait_s": 0}
    ollama.expect(Hang())
    async with Client(build(unnamed()), roots=here) as client:
        begun = (await client.call_tool("plan_and_answer", asked)).structured_content
        await ollama.arrived()
    async with Client(build(unnamed()), roots=there) as client:
        another = (await client.call_tool("plan_and_answer", asked)).structured_content
    ollama.expect(found(ANSWER))
    async with Client(build(unnamed()), roots=here) as client:
        done = await client.call_tool("plan_and_answer", {"prompt": QUESTION} | _id(begun))
    assert _id(another) != _id(begun)
    assert text(done).startswith(ANSWER)


def _id(result: dict[str, Any] | None) -> dict[str, str]:
    return {"run_id": (result or {})["run_id"]}


async def test_a_project_that_was_named_stays(
    place: Place, ollama: ScriptedOllama, tmp_path: Path
) -> None:
    ollama.expect(found(ANSWER))
    async with Client(build(place.settings), roots=[tmp_path.as_uri()]) as client:
        assert "jobs/secret.py:6" in text(
            await client.call_tool("plan_and_answer", {"prompt": QUESTION})
        )
        (tool, *_) = await client.list_tools()
    assert f"in {place.project}:" in (tool.description or "")


async def test_a_tool_that_is_not_there_is_told_with_those_that_may_be_used(place: Place) -> None:
    async with place.client() as caller:
        await caller.call("list_tools")
        told = await caller.error("run_step", prompt="Do it", tool="write_fil")
    assert "write_file" not in told
    assert "The nearest tools are:" in told


async def test_over_http_a_caller_is_listed_what_he_may_open(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(ANSWER))
    async with place.client() as caller:
        await caller.call("plan_and_answer", prompt=QUESTION)
    with place.http() as (_, port):
        async with Client(f"http://127.0.0.1:{port}/mcp", auth=place.token) as client:
            ollama.expect(found(ANSWER))
            own = (
                await client.call_tool("plan_and_answer", {"prompt": QUESTION})
            ).structured_content
            (listed,) = await client.read_resource("runs://newest")
        async with httpx.AsyncClient(headers={"Authorization": "Bearer wrong"}) as stranger:
            body = initialize("2025-11-25")
            wrong = await stranger.post(f"http://127.0.0.1:{port}/mcp", json=body)
    runs = json.loads(listed.text)["runs"]
    assert [each["id"] for each in runs] == [own["run_id"]]
    assert wrong.status_code == 401
    assert "`planloom token`" in wrong.text
    assert "register" not in wrong.text
