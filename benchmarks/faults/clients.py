"""What clients, disks, clocks and killers do to a server; each says in a line what came of it."""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from faults import faulty, obliging, seen
from ollama_replies import Hang
from planted import ANSWER, CLASS, QUESTION
from replies import found, of_many_steps
from scripted_ollama import Request, ScriptedOllama
from serving import Caller, Place, Progress, called, end, until

Attack = Callable[[Place], Awaitable[str]]
WHERE = f"In which file and line is the class {CLASS} defined?"
"""Code sees the answer to this in what it looked up, so that the results are read once."""
SURVIVAL_SECONDS = 3.0
"""By then no process of a killed server may be left."""
JUMPS = """\
import itertools, time
real, hours = time.time, itertools.cycle((0, -1, 1))
time.time = lambda: real() + 3600 * next(hours)
from server.cli.commands import main
main()
"""


def request(number: int, name: str, **arguments: Any) -> bytes:
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    return _line(id=number, method="tools/call", params=params | {"_meta": {"progressToken": 1}})


def _line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n"


GREETING = _line(
    id=0,
    method="initialize",
    params={
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bare", "version": "1"},
    },
) + _line(method="notifications/initialized")


def bare_client(place: Place) -> subprocess.Popen[bytes]:
    """A server on standard input and output, greeted; everything else is the caller's."""
    server = place.popen("serve")
    assert server.stdin
    server.stdin.write(GREETING)
    server.stdin.flush()
    return server


async def cancels(place: Place) -> str:
    place.ollama.expect(Hang())
    async with place.client("stdio") as caller:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: caller.call("plan_and_answer", prompt=QUESTION))
            await place.ollama.arrived()
            await until(lambda: bool(caller.progress.meta))
            began = time.monotonic()
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(place.ollama.requests[0].hung_up.wait, 30)
        seconds = time.monotonic() - began
        ended = await caller.call("get_run", run_id=caller.progress.run_id)
    return f"{seen(ended)}; its model call was closed after {seconds:.2f} s"


async def disconnects(place: Place) -> str:
    place.ollama.expect(Hang())
    server = bare_client(place)
    try:
        assert server.stdin
        server.stdin.write(request(1, "plan_and_answer", prompt=QUESTION))
        server.stdin.flush()
        await place.ollama.arrived()
        began = time.monotonic()
        server.stdin.close()
        server.stdin = None
        await anyio.to_thread.run_sync(place.ollama.requests[0].hung_up.wait, 30)
        closed = time.monotonic() - began
        code = await anyio.to_thread.run_sync(server.wait)
    finally:
        end(server)
    return f"model call closed after {closed:.2f} s, server ended with {code}"


async def malformed(place: Place) -> str:
    chance = random.Random(1)
    server = bare_client(place)
    try:
        assert server.stdin
        assert server.stdout
        good = request(5, "list_tools")
        for _ in range(2000):
            line = bytearray(good)
            for _ in range(chance.randint(1, 8)):
                line[chance.randrange(len(line))] = chance.randrange(256)
            server.stdin.write(bytes(line).replace(b"\n", b" ") + b"\n")
        server.stdin.write(request(99, "list_tools"))
        server.stdin.flush()
        for answer in server.stdout:
            if json.loads(answer).get("id") == 99:
                return "the next request is answered"
    finally:
        end(server)
    return "the server ended"


def at_once(count: int, model_hangs: bool = False) -> Attack:
    async def call(place: Place) -> str:
        def answer(asked: Request) -> Any:
            if model_hangs:
                return Hang()
            return found(ANSWER) if "found_in" in asked.properties else obliging(asked)

        with ScriptedOllama(handler=answer) as place.ollama:
            said: Counter[str] = Counter()
            times: list[float] = []
            async with place.client("stdio") as caller:
                await caller.call("list_tools")
                (server,) = [p for p in place.processes() if "serve" in p.cmdline()]

                async def one() -> None:
                    began = time.monotonic()
                    result = await caller.client.call_tool(
                        "plan_and_answer",
                        {"prompt": WHERE, "wait_s": 5 if model_hangs else 600},
                        raise_on_error=False,
                    )
                    times.append(time.monotonic() - began)
                    said[seen(await called(caller.client, result))] += 1

                async with anyio.create_task_group() as tasks:
                    for _ in range(count):
                        tasks.start_soon(one)
                memory = server.memory_info().rss / 2**20
        shown = ", ".join(f"{number} {what}" for what, number in said.most_common())
        return f"{shown}; the last after {max(times):.1f} s; server {memory:.0f} MB"

    return call


async def deaf(place: Place) -> str:
    done = 0.0

    def answer(asked: Request) -> Any:
        nonlocal done
        if reply := of_many_steps(asked.properties, len(place.ollama.requests)):
            return reply
        done = time.monotonic()
        return found("It is over.")

    limits = {"max_iterations": 100, "max_model_tokens": 10_000_000, "wait_s": 3600}
    with ScriptedOllama(handler=answer) as place.ollama:
        server = bare_client(place)
        try:
            assert server.stdin
            began = time.monotonic()
            server.stdin.write(request(1, "plan_and_answer", prompt=QUESTION, **limits))
            server.stdin.flush()
            await until(lambda: bool(done))
        finally:
            end(server)
    return f"nothing was read, and the run of 90 model calls was over after {done - began:.1f} s"


def killed(number: signal.Signals) -> Attack:
    async def kill(place: Place) -> str:
        place.upstreams |= {"stubborn": faulty("stubborn"), "hangs": faulty("hangs")}
        server = bare_client(place)
        try:
            await until(lambda: len(place.processes()) >= 7)
            count = len(place.processes())
            server.send_signal(number)
            began = time.monotonic()
            await until(lambda: not place.processes())
            return f"{count} processes, none left after {time.monotonic() - began:.1f} s"
        finally:
            end(server)

    return kill


async def disk_full(place: Place) -> str:
    logs = place.root / "cache" / "planloom" / "logs"
    logs.mkdir(parents=True)
    for name in ("files", "up"):
        (logs / f"{name}.log").symlink_to("/dev/full")
    place.upstreams |= {"up": faulty(allow=["noise"])}
    async with place.client("stdio") as caller:
        arguments = {"prompt": "Do it", "tool": "up.noise", "arguments": {}}
        return seen(await caller.call("run_step", **arguments))


async def clock_jumps(place: Place) -> str:
    place.ollama.expect(found(ANSWER))
    words = place.command("serve")
    arguments = ["-c", JUMPS, *words[words.index("serve") :]]
    transport = StdioTransport(
        words[0], arguments, env=os.environ | place.environ, keep_alive=False
    )
    async with Client(transport) as client:
        return seen(await Caller(client, Progress()).call("plan_and_answer", prompt=QUESTION))


ATTACKS: dict[str, Attack] = {
    "client cancels": cancels,
    "client closes the connection": disconnects,
    "client sends 2,000 malformed lines": malformed,
    "client does not read": deaf,
    "200 calls at once": at_once(200),
    "1,000 calls at once": at_once(1000),
    "1,000 calls at once, the model hangs": at_once(1000, model_hangs=True),
    "server gets SIGTERM, upstreams stubborn": killed(signal.SIGTERM),
    "server gets SIGKILL, upstreams stubborn": killed(signal.SIGKILL),
    "disk full (logs)": disk_full,
    "clock jumps by hours": clock_jumps,
}


async def random_kill(place: Place, chance: random.Random) -> int:
    """How many processes are left 3 s after a kill at a random point of a server's life."""
    kinds = [{}, {"start": "stubborn"}, {"start": "hangs"}]
    place.upstreams = {f"up{n}": faulty(**kind) for n, kind in enumerate(kinds)}
    server = bare_client(place)
    try:
        assert server.stdin
        server.stdin.write(request(1, "run_step", prompt="Do it", tool="up0.never", arguments={}))
        server.stdin.flush()
        await anyio.sleep(chance.uniform(0, 4))
        server.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        deadline = time.monotonic() + SURVIVAL_SECONDS
        await anyio.to_thread.run_sync(server.wait)
        while (left := place.processes()) and time.monotonic() < deadline:  # noqa: ASYNC110
            await anyio.sleep(0.05)
        for process in left:
            process.kill()
        return len(left)
    finally:
        end(server)
