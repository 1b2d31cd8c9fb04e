"""`python -m benchmarks.faults`: inject every fault into the real server, and print what came."""

import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import Annotated, Any

import anyio
import generated
import typer
from faults import CATALOGUE, Fault, obliging, seen
from scripted_ollama import ScriptedOllama
from serving import Place, called, ignored, upstream

from benchmarks.faults.clients import ATTACKS, SURVIVAL_SECONDS, random_kill
from benchmarks.faults.model import LoadModel

PARTS = ("catalogue", "clients", "load", "kills", "inputs")
KILLS_AT_ONCE = 3
MAX_CELL_CHARS = 160
"""Characters of what a caller saw, in the table."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def measure(
    parts: Annotated[str, typer.Option(help="Which to run.")] = ",".join(PARTS),
    faces: Annotated[str, typer.Option(help="Where the catalogue is run.")] = "memory,stdio",
    runs: Annotated[int, typer.Option(help="Concurrent runs under load.")] = 100,
    steps: Annotated[int, typer.Option(help="Of each of them.")] = 10,
    model_seconds: Annotated[float, typer.Option(help="Of each model call under load.")] = 2.0,
    kills: Annotated[int, typer.Option(help="Servers killed at a random point.")] = 200,
    inputs: Annotated[
        int, typer.Option(help="Generated inputs, half of them over stdio.")
    ] = 10_000,
    replies: Annotated[int, typer.Option(help="Generated, half by models, half upstream.")] = 2000,
) -> None:
    """Print tables in Markdown; progress goes to standard error."""
    chosen = parts.split(",")
    if "catalogue" in chosen:
        anyio.run(_catalogue, faces.split(","))
    if "clients" in chosen:
        anyio.run(_clients)
    if "load" in chosen:
        anyio.run(_load, runs, steps, model_seconds)
    if "kills" in chosen:
        anyio.run(_kills, kills)
    if "inputs" in chosen:
        _generated(inputs, replies)


async def _catalogue(faces: list[str]) -> None:
    print(
        "| fault | what the caller sees |", " | ".join(f"{face}, s" for face in faces), "| left |"
    )
    print("| --- | --- |", " | ".join("---:" for _ in faces), "| ---: |")
    for fault in CATALOGUE:
        results = [await _injected(fault, face) for face in faces]
        told = results[-1][0]
        missed = "" if all(_as_said(fault, each[0]) for each in results) else "**not as said**: "
        times = " | ".join(f"{seconds:.2f}" for _, seconds, _ in results)
        left = sum(count for _, _, count in results)
        print(f"| {fault.name} | {missed}{_short(told)} | {times} | {left} |", flush=True)


def _as_said(fault: Fault, told: str) -> bool:
    return re.search(fault.sees, told) is not None


def _short(told: str) -> str:
    cell = told.replace("|", "\\|")
    return cell if len(cell) <= MAX_CELL_CHARS else f"{cell[:MAX_CELL_CHARS]}…"


async def _injected(fault: Fault, face: str) -> tuple[str, float, int]:
    """What the caller saw, after how many seconds, and how many processes were left."""
    print(f"{fault.name} ({face})", file=sys.stderr)
    with ExitStack() as stack:
        place = _place(stack, fault.models)
        fault.arrange(place)
        async with place.client(face) as caller:
            await caller.call("list_tools")  # the start is not the call's time
            began = time.monotonic()
            result = await caller.call(fault.call, **fault.arguments)
            seconds = time.monotonic() - began
        return seen(result), seconds, await _left(place)


def _generated(inputs: int, replies: int) -> None:
    print("\n| generated | how many | s | what came of them |\n| --- | ---: | ---: | --- |")
    for name, check, count in (
        ("tool calls, in memory", generated.in_memory, inputs // 2),
        ("requests and lines, over stdio", generated.over_stdio, inputs // 2),
        ("replies of models", generated.model_says, replies // 2),
        ("replies of an upstream", generated.upstream_says, replies // 2),
    ):
        print(name, file=sys.stderr)
        with ExitStack() as stack:
            place = _place(stack, lambda: ScriptedOllama(handler=generated.willing))
            began = time.monotonic()
            told = check(place, count)
            seconds = time.monotonic() - began
        print(f"| {name} | {count} | {seconds:.0f} | {_counted(told)} |", flush=True)


def _place(stack: ExitStack, models: Callable[[], Any] | None = None) -> Place:
    root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    server = models() if models else ScriptedOllama(handler=obliging)
    if isinstance(server, ScriptedOllama):
        stack.enter_context(server)
    return Place(root, server, forks=False)


async def _left(place: Place) -> int:
    """Processes of the server, 3 s after its end at the latest."""
    with anyio.move_on_after(SURVIVAL_SECONDS):
        while place.processes():  # noqa: ASYNC110
            await anyio.sleep(0.05)
    return len(place.processes())


async def _clients() -> None:
    print("\n| what happens | what comes of it | s | left |\n| --- | --- | ---: | ---: |")
    for name, attack in ATTACKS.items():
        print(name, file=sys.stderr)
        with ExitStack() as stack:
            place = _place(stack)
            began = time.monotonic()
            told = await attack(place)
            seconds = time.monotonic() - began
            print(f"| {name} | {told} | {seconds:.1f} | {await _left(place)} |", flush=True)


async def _load(runs: int, steps: int, model_seconds: float) -> None:
    print(f"{runs} runs", file=sys.stderr)
    with tempfile.TemporaryDirectory() as root:
        with LoadModel(steps, model_seconds) as model:
            place = Place(Path(root), model, forks=False)  # type: ignore[arg-type]
            place.upstreams = {name: upstream(allow=["say"]) for name in ("one", "two")}
            place.bounds = {"runs": {"concurrent": runs}, "models": {"parallel": runs}}
            async with place.client("http") as caller:
                await caller.call("list_tools")
                server = next(p for p in place.processes() if "serve" in p.cmdline())
                before, peak, cpu = server.memory_info().rss, 0, server.cpu_times()
                statuses: Counter[str] = Counter()

                async def one(number: int) -> None:
                    result = await caller.client.call_tool(
                        "plan_and_answer",
                        {
                            "prompt": f"Do errand {number}",
                            "max_iterations": steps + 1,
                            "max_model_tokens": 10_000_000,
                            "wait_s": 600,
                        },
                        progress_handler=ignored,
                        raise_on_error=False,
                    )
                    statuses[seen(await called(caller.client, result))] += 1

                async def watch() -> None:
                    nonlocal peak
                    while True:
                        peak = max(peak, server.memory_info().rss)
                        await anyio.sleep(0.2)

                began = time.monotonic()
                async with anyio.create_task_group() as watching:
                    watching.start_soon(watch)
                    async with anyio.create_task_group() as tasks:
                        for number in range(runs):
                            tasks.start_soon(one, number)
                    watching.cancel_scope.cancel()
                seconds = time.monotonic() - began
                used = sum(server.cpu_times()[:2]) - sum(cpu[:2])
            found = model.step_seconds()
        cuts = quantiles(found, n=100)
        print(
            f"\n{runs} runs at once, {len(found)} steps of two model calls and a tool call each, "
            f"{seconds:.0f} s in all ({_counted(statuses)}):\n\n"
            "| per step, beyond the model's time | p50 | p95 | p99 | CPU of the server "
            "| memory before | at most |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            f"| | {1000 * cuts[49]:.1f} ms | {1000 * cuts[94]:.1f} ms | {1000 * cuts[98]:.1f} ms "
            f"| {1000 * used / len(found):.1f} ms "
            f"| {before / 2**20:.0f} MB | {peak / 2**20:.0f} MB |",
            flush=True,
        )


def _counted(statuses: Counter[str]) -> str:
    return ", ".join(f"{count} {_short(status)}" for status, count in statuses.most_common())


async def _kills(count: int) -> None:
    chance = random.Random(1)
    left: list[int] = []
    turns = anyio.Semaphore(KILLS_AT_ONCE)

    async def one() -> None:
        async with turns:
            with ExitStack() as stack:
                left.append(await random_kill(_place(stack), chance))
            print(f"{len(left)} of {count} kills, {sum(left)} left", file=sys.stderr)

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)
    print(
        f"\n{count} servers with three upstreams (one ignores the end of its input and SIGTERM and "
        f"has a child, one hangs while it starts) killed at random points, SIGKILL or SIGTERM: "
        f"{sum(left)} processes left after {SURVIVAL_SECONDS:g} s."
    )


if __name__ == "__main__":
    app()
