"""`python -m benchmarks.overhead`: time in our own code and in MCP for each step of a run.

A recorded run is replayed through the whole server: an MCP client in memory asks plan_and_answer
with progress, models answer at once, and the upstream is a process over stdio. A step's time is
that between the results of two calls; beside it stands what a bare `fastmcp.Client` takes for the
same calls of the same upstream.
"""

import json
import math
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import anyio
import typer
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server.lifespan import lifespan
from serving import ignored

from benchmarks import ROOT
from benchmarks.eval.results import markdown
from benchmarks.speed import runs
from benchmarks.speed.script import PlannerScript
from planner.events import ToolReturned
from planner.models.base import ChatRequest, Models, Reply
from server.background import background_tasks
from server.config import Settings
from server.config_file import load_settings
from server.journal import journal_for
from server.mcp import tools
from server.runs.engine import Engine
from server.upstreams.pool import UpstreamPool

STEPS = 30
REPEATS = 6
"""Of the run; the first only warms up."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Instant:
    """A model that knows its replies and takes no time for them."""

    context_tokens = 8192

    def __init__(self, name: str, script: PlannerScript) -> None:
        self.name = name
        self._script = script

    async def chat(self, request: ChatRequest) -> Reply:
        text = str(self._script({"format": request.schema}))
        if request.on_text:
            request.on_text(text)
        size = sum(len(message["content"]) for message in request.messages)
        return Reply(text=text, prompt_tokens=size // 4, generated_tokens=len(text) // 4)

    async def load(self) -> None:
        """It is there."""

    async def aclose(self) -> None:
        """Nothing is held."""


@app.command()
def main(
    steps: Annotated[int, typer.Option(help="Of the recorded run.")] = STEPS,
    repeats: Annotated[int, typer.Option(min=2, help="Runs; the first only warms up.")] = REPEATS,
) -> None:
    """Print milliseconds per step, through the whole server and by a bare client."""
    ours, bare = anyio.run(measure, steps, repeats)
    rows = [_row("planloom", ours), _row("bare client", bare)]
    rows.append(
        ["difference", "", *(f"{a - b:.2f}" for a, b in zip(_told(ours), _told(bare), strict=True))]
    )
    print(f"Milliseconds per step, {steps} steps, {repeats - 1} runs:\n")
    print(markdown(("", "steps", "p50", "p95"), rows))


async def measure(steps: int, repeats: int) -> tuple[list[float], list[float]]:
    """Seconds of each step, and of each of its calls by a bare client."""
    run = runs.load(steps)
    command = [sys.executable, "-m", "benchmarks.overhead.upstream", str(steps)]
    with tempfile.TemporaryDirectory() as folder:
        ours = await _ours(run, _settings(Path(folder), command), repeats)
    return ours, await _bare(run, command, repeats)


def _settings(folder: Path, command: Sequence[str]) -> Settings:
    file = folder / "upstreams.yaml"
    entry = {"command": command[0], "args": list(command[1:]), "cwd": str(ROOT)}
    file.write_text(json.dumps({"upstreams": {"recorded": entry}}))
    return load_settings(file, ROOT, {"PLANLOOM_RUNS": str(folder / "runs")})


async def _ours(run: runs.Run, settings: Settings, repeats: int) -> list[float]:
    scripts: list[PlannerScript] = []

    async def models() -> Models:
        script = scripts[-1]
        return Models(Instant("fast", script), Instant("full", script))

    async with (
        UpstreamPool(settings) as pool,
        journal_for(settings.runs) as journal,
        background_tasks() as tasks,
    ):
        engine = Engine(models, pool, journal, settings.approval, tasks)

        @lifespan
        async def parts(_server: FastMCP) -> AsyncIterator[dict[str, Any]]:
            yield {"pool": pool, "engine": engine}

        mcp: FastMCP = FastMCP("planloom", lifespan=parts)
        tools.register(mcp, changes=False, project=Path.cwd())
        seconds: list[float] = []
        async with Client(mcp) as client:
            for repeat in range(repeats):
                scripts.append(PlannerScript(run))
                limits = {"max_iterations": 100, "max_model_tokens": 10_000_000}
                result = await client.call_tool(
                    "plan_and_answer", {"prompt": run.request, **limits}, progress_handler=ignored
                )
                report = result.structured_content
                assert report["status"] == "answered", report
                events = (await engine.get(report["run_id"])).events
                returned = [event.at for event in events if isinstance(event, ToolReturned)]
                assert len(returned) == len(run.calls)
                if repeat:
                    seconds += [after - before for before, after in pairwise(returned)]
        return seconds


async def _bare(run: runs.Run, command: Sequence[str], repeats: int) -> list[float]:
    seconds: list[float] = []
    transport = StdioTransport(command[0], list(command[1:]), cwd=str(ROOT), keep_alive=False)
    async with Client(transport) as client:
        for repeat in range(repeats):
            for call in run.calls[1:]:
                began = time.perf_counter()
                await client.call_tool(call.tool, call.arguments)
                if repeat:
                    seconds.append(time.perf_counter() - began)
    return seconds


def _told(seconds: Sequence[float]) -> tuple[float, float]:
    """p50 and p95 in milliseconds."""
    ordered = sorted(seconds)
    return 1000 * median(ordered), 1000 * ordered[math.ceil(0.95 * len(ordered)) - 1]


def _row(name: str, seconds: Sequence[float]) -> list[str]:
    return [name, str(len(seconds)), *(f"{each:.2f}" for each in _told(seconds))]


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.overhead")
