"""`python -m benchmarks.scaling`: runs a second of 1, 2 and 4 workers that share their runs.

The workers are `planloom serve --http` processes of one fleet, each with an upstream of its own.
The model is scripted and takes a set time for each reply, so that what is measured is Planloom.
Clients call plan_and_answer over HTTP one time after the other, each at the next worker in turn.
"""

import itertools
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import quantiles
from typing import Annotated

import anyio
import psutil
import typer
from fastmcp import Client
from serving import Place, end, free_port, listens, until, upstream

from benchmarks.eval.results import markdown
from benchmarks.faults.model import LoadModel

COLUMNS = ("workers", "runs a second", "p50, s", "p95, s", "CPU, cores", "of it by worker")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    workers: Annotated[str, typer.Option(help="How many, one measurement each.")] = "1,2,4",
    runs: Annotated[int, typer.Option(help="In each measurement.")] = 120,
    steps: Annotated[int, typer.Option(help="Of each run, of two model calls each.")] = 3,
    model_seconds: Annotated[float, typer.Option(help="Of each model call, ±50 %.")] = 0.3,
    turns: Annotated[int, typer.Option(help="Runs that a worker drives at a time.")] = 4,
    clients: Annotated[int, typer.Option(help="That call at the same time.")] = 24,
    journal: Annotated[
        str | None, typer.Option(help="redis://… for one in Redis, which is not emptied.")
    ] = None,
    one_door: Annotated[bool, typer.Option(help="All calls go to the first worker.")] = False,
) -> None:
    """Print a table in Markdown; progress goes to standard error."""
    given = (runs, steps, model_seconds, turns, clients, journal, one_door)
    rows = [anyio.run(_measured, int(count), *given) for count in workers.split(",")]
    where = "Redis" if journal else "a file"
    print(
        f"{runs} runs of {steps} steps, {clients} clients, {turns} turns a worker, "
        f"{model_seconds:g} s a model call, the journal in {where}, {os.cpu_count()} cores:\n"
    )
    print(markdown(COLUMNS, rows))


async def _measured(
    workers: int,
    runs: int,
    steps: int,
    model_seconds: float,
    turns: int,
    clients: int,
    journal: str | None,
    one_door: bool,
) -> Sequence[str]:
    print(f"{workers} workers", file=sys.stderr)
    seconds: list[float] = []
    statuses: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = stack.enter_context(LoadModel(steps, model_seconds))
        place = Place(root, model, forks=False)  # type: ignore[arg-type]
        place.upstreams = {"one": upstream(allow=["say"])}
        # Each measurement is a fleet of its own.
        shared = {"fleet": root.name.replace(".", "_"), "concurrent": turns}
        place.bounds = {"runs": shared, "models": {"parallel": turns}}
        environ = {"PLANLOOM_RUNS": journal} if journal else {}
        ports = [free_port() for _ in range(workers)]
        servers = []
        for port in ports:
            servers.append(place.popen("serve", "--http", f"127.0.0.1:{port}", **environ))
            stack.callback(end, servers[-1])
        await until(lambda: all(map(listens, ports)))
        doors = []
        for port in ports[: 1 if one_door else None]:
            client = Client(f"http://127.0.0.1:{port}/mcp", auth=place.token)
            doors.append(await stack.enter_async_context(client))
        for client in doors:
            await client.call_tool("list_tools")
        numbers, turn = iter(range(runs)), itertools.cycle(doors)

        async def one_after_the_other() -> None:
            for number in numbers:
                began = time.monotonic()
                result = await next(turn).call_tool(
                    "plan_and_answer",
                    {
                        "prompt": f"Do errand {number}",
                        "max_iterations": steps + 1,
                        "max_model_tokens": 10_000_000,
                        "wait_s": 600,
                    },
                )
                seconds.append(time.monotonic() - began)
                statuses[result.structured_content["status"]] += 1

        processes = [psutil.Process(server.pid) for server in servers]
        before, began = _cpu(processes), time.monotonic()
        async with anyio.create_task_group() as tasks:
            for _ in range(clients):
                tasks.start_soon(one_after_the_other)
        taken = time.monotonic() - began
        used = [after - first for after, first in zip(_cpu(processes), before, strict=True)]
    assert set(statuses) <= {"answered", "partial"}, statuses
    cuts = quantiles(seconds, n=100)
    shares = "+".join(f"{100 * each / sum(used):.0f} %" for each in used)
    return (
        str(workers),
        f"{runs / taken:.2f}",
        f"{cuts[49]:.1f}",
        f"{cuts[94]:.1f}",
        f"{sum(used) / taken:.2f}",
        shares,
    )


def _cpu(processes: Sequence[psutil.Process]) -> list[float]:
    return [sum(each.cpu_times()[:2]) for each in processes]


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.scaling")
