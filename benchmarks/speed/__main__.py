"""`python -m benchmarks.speed`: replay the recorded runs in two designs, without a model."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from benchmarks import ROOT
from benchmarks.eval.results import markdown
from benchmarks.speed import plot, results, runs
from benchmarks.speed.bound import least
from benchmarks.speed.designs import loop, planloom
from benchmarks.speed.results import Measured
from planner.errors import PlanloomError
from planner.models.ollama import OllamaClient

JSON = ROOT / ".planloom" / "speed.json"
DOCUMENT = ROOT / "docs" / "performance.md"
PLOT = DOCUMENT.with_name("performance.svg")
BEGIN, END = "<!-- written by python -m benchmarks.speed --docs -->", "<!-- to here -->"
BROKEN_DOWN = 10
"""The run whose calls are told by what they were for."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    json_file: Annotated[Path, typer.Option("--json", help="Where the figures go.")] = JSON,
    docs: Annotated[
        bool, typer.Option("--docs", help="Write them and the plot to docs/, too.")
    ] = False,
    real: Annotated[
        bool,
        typer.Option("--real", help="Compare token counts with the server at OLLAMA_HOST instead."),
    ] = False,
    steps: Annotated[int, typer.Option(help="Of the run that --real sends.")] = 3,
    record: Annotated[
        bool, typer.Option("--record", help="Make the runs' tool calls again, with a real Serena.")
    ] = False,
) -> None:
    """Print model calls, tokens and simulated seconds of each design, and their ratio to the lower
    bound."""
    try:
        if record:
            anyio.run(runs.record)
        if real:
            print(anyio.run(_compared, steps))
            return
        measured = anyio.run(measure)
    except PlanloomError as error:
        sys.exit(str(error))
    told = tables(measured)
    print(told)
    json_file.parent.mkdir(parents=True, exist_ok=True)
    json_file.write_text(json.dumps(results.as_json(measured), indent=1) + "\n", encoding="utf-8")
    if docs:
        before, _, rest = DOCUMENT.read_text("utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        text = f"{before}{BEGIN}\n\n{told}\n\n{END}{after}"
        DOCUMENT.write_text(text, encoding="utf-8")
        PLOT.write_text(chart(measured), encoding="utf-8")


async def measure(steps: Sequence[int] = runs.STEPS) -> list[Measured]:
    """Replay the runs of so many steps in every design."""
    measured = []
    for run in map(runs.load, steps):
        replays = [await planloom(run), await loop(run), await loop(run, shortened=True)]
        measured.append(Measured(least(run), replays))
    return measured


def tables(measured: Sequence[Measured]) -> str:
    broken_down = next(each for each in measured if each.bound.steps == BROKEN_DOWN)
    return "\n\n".join(
        [
            "### Ratio to the lower bound",
            results.ratios(measured),
            "### Calls, tokens and simulated seconds",
            results.counts(measured),
            f"### What the planner's tokens at {BROKEN_DOWN} steps were for",
            results.roles(broken_down.replay("planloom")),
        ]
    )


def chart(measured: Sequence[Measured]) -> str:
    def points(design: str) -> list[tuple[int, int]]:
        return [(each.bound.steps, each.replay(design).computed) for each in measured]

    lines = {
        "this planner": points("planloom"),
        "the ordinary tool loop": points("loop"),
        "lower bound": [(each.bound.steps, each.bound.computed) for each in measured],
    }
    return plot.chart(
        lines,
        title="Computed prompt tokens against tool steps",
        across="tool steps of the run",
        up="computed prompt tokens",
    )


async def _compared(steps: int) -> str:
    """The prompts of the planner's replay at a real server, which reads them and writes one token:
    its count of each, beside the simulated one."""
    sent: list[dict[str, Any]] = []
    replay = await planloom(runs.load(steps), sent=sent)
    rows = []
    counted = simulated = 0
    async with OllamaClient(os.environ.get("OLLAMA_HOST")) as client:
        for role, served, body in zip(replay.roles, replay.served, sent, strict=True):
            body["options"]["num_predict"] = 1
            count = 0
            async for each in client.chat_records(body):
                count = each.prompt_eval_count or count
            counted, simulated = counted + count, simulated + served.prompt
            rows.append(_compared_row(role, served.model, served.prompt, count))
    rows.append(_compared_row("all", "", simulated, counted))
    return markdown(("asked for", "model", "simulated", "real", "simulated / real"), rows)


def _compared_row(role: str, model: str, simulated: int, real: int) -> list[str]:
    return [role, model, str(simulated), str(real), f"{simulated / real:.3f}" if real else ""]


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.speed")
