"""`python -m benchmarks.arguments`: the argument routes on situations whose right call is known."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Annotated, Any, get_args

import anyio
import typer
from mcp_types import Tool

from benchmarks.arguments.situations import LISTING, SITUATIONS, Call, Situation
from benchmarks.eval.__main__ import warm_up
from benchmarks.eval.codebases import REPOSITORY
from benchmarks.eval.results import Ledger, markdown
from benchmarks.eval.systems import LOOP_TOOLS
from planner import agent, schemas
from planner.events import GuardTripped
from planner.models import ArgumentRoute, Message, ModelAround, Models, Reply
from planner.protocol import Limits, RunRequest
from planner.state import RunState
from planner.tools import Outcome, ToolResult, ToolSpec, UpstreamStatus
from server.backends import open_models
from server.config import ModelSettings, load_settings, shipped_file
from server.toolresults import tool_spec

ROUTES: tuple[ArgumentRoute, ...] = get_args(ArgumentRoute)
LISTED = REPOSITORY / "tests" / "data" / "upstreams" / "serena.json"
"""What Serena lists as its tools."""
COLUMNS = (
    "route", "situations", "right", "right tool", "fit at first", "escalations",
    "model calls", "prompt", "computed", "generated", "s",
)  # fmt: skip
"""Calls, tokens and seconds are means per situation. `computed` is the prompt without its cached
part."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def compare(
    routes: Annotated[str, typer.Option(help="Which, with commas.")] = ",".join(ROUTES),
    fast: Annotated[str, typer.Option(help="The fast model.")] = ModelSettings().fast,
    full: Annotated[str, typer.Option(help="The full model.")] = ModelSettings().full,
    limit: Annotated[int, typer.Option(min=1, help="So many, evenly taken.")] = len(SITUATIONS),
) -> None:
    """Have the next call of every situation written by every route, and print how they did."""
    chosen = [route for route in ROUTES if route in routes.split(",")]
    if len(chosen) < len(routes.split(",")):
        raise typer.BadParameter(f"there are {', '.join(ROUTES)}", param_hint="--routes")
    count = min(limit, len(SITUATIONS))
    situations = [SITUATIONS[index * len(SITUATIONS) // count] for index in range(count)]
    settings = ModelSettings(fast=fast, full=full, host=os.environ.get("OLLAMA_HOST"))
    measured = anyio.run(_compare, settings, chosen, situations)
    print(
        f"Run of {time.strftime('%Y-%m-%d')}, fast {fast}, full {full}, {os.cpu_count()} cores.\n"
    )
    print(table(measured))


@dataclass(frozen=True)
class Measured:
    """What one route did in one situation."""

    route: ArgumentRoute
    situation: Situation
    call: Call | None
    """None when no call went out."""
    guards: list[GuardTripped]
    ledger: Ledger
    seconds: float

    @property
    def escalations(self) -> int:
        """Replies that did not fit: the full model was asked once more, or it was given up."""
        return sum(guard.guard in ("reply", "arguments") for guard in self.guards)

    @property
    def right(self) -> bool:
        return self.call is not None and any(r.allows(self.call) for r in self.situation.right)

    @property
    def right_tool(self) -> bool:
        return self.call is not None and self.call.tool in [r.tool for r in self.situation.right]


async def _compare(
    settings: ModelSettings, routes: Sequence[ArgumentRoute], situations: Sequence[Situation]
) -> list[Measured]:
    """Route by route, so that none finds the prompts of the same situation in the cache."""
    await warm_up(settings)
    models = await open_models(settings)
    measured = []
    try:
        for route in routes:
            for situation in situations:
                each = await measure(situation, replace(models, argument_route=route))
                measured.append(each)
                print(told(each), file=sys.stderr, flush=True)
    finally:
        await models.aclose()
    return measured


def told(each: Measured) -> str:
    """One situation in a line: the call, and what the guards said of it."""
    made = f"{each.call.tool} {json.dumps(each.call.arguments)}" if each.call else "no call"
    guards = "".join(f" [{guard.guard}: {guard.message}]" for guard in each.guards)
    verdict = "right" if each.right else "wrong"
    return f"{each.route}: {each.situation.request} {made} {verdict} {each.seconds:.1f} s{guards}"


async def measure(situation: Situation, models: Models) -> Measured:
    """The agent itself from the situation to its next call; what it asks before and after that
    is answered without a model."""
    pool = CannedPool(serena(), situation.result or "Nothing more is known.")
    decides = Models(models.fast, DecidesOnly(models.full), models.argument_route)
    before = situation.before
    request = RunRequest(
        prompt=situation.request,
        tool=before.tool if before else None,
        arguments=before.arguments if before else None,
        limits=Limits(iterations=2 if before else 1),
    )
    began = time.monotonic()
    state = await agent.run(request, decides, pool, lambda _: None)
    seconds = time.monotonic() - began
    made = pool.calls[1:] if before else pool.calls
    return Measured(
        route=models.argument_route,
        situation=situation,
        call=made[0] if made else None,
        guards=state.guards,
        ledger=_ledger(state),
        seconds=seconds,
    )


def _ledger(state: RunState) -> Ledger:
    ledger = Ledger()
    for each in state.ledger:
        if each.role not in ("answer", "conclude"):  # those were answered without a model
            ledger.add(each.prompt_tokens, each.cached_tokens, each.generated_tokens)
    return ledger


class DecidesOnly(ModelAround):
    """A model that is asked for decisions and arguments; to every try at the answer it says that
    it stands nowhere, so that a plan is made."""

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        schema: dict[str, Any] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        said: dict[str, Any]
        if schema == schemas.answer():
            said = {"final_answer": "No line says it.", "found_in": "nowhere"}
        elif schema == schemas.conclude():
            said = {"decision": "conclude", "final_answer": "It was looked for.", "success": False}
        else:
            return await super().chat(
                messages, max_tokens=max_tokens, schema=schema, on_text=on_text
            )
        text = json.dumps(said, separators=(",", ":"))
        return Reply(text=text, prompt_tokens=0, generated_tokens=0)


class CannedPool:
    """Tools that all return the same text."""

    def __init__(self, specs: Sequence[ToolSpec], result: str) -> None:
        self.specs = specs
        self.result = result
        self.calls: list[Call] = []

    def tools(self) -> Sequence[ToolSpec]:
        return self.specs

    def upstreams(self) -> Sequence[UpstreamStatus]:
        return [UpstreamStatus(name="serena", state="ready", tools=len(self.specs))]

    async def listing(self) -> str | None:
        return LISTING

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        self.calls.append(Call(tool.name, arguments))
        return ToolResult(outcome=Outcome.SUCCESS, text=self.result)


def serena() -> list[ToolSpec]:
    """Serena's tools as the shipped upstreams.yaml shows them, without the look-up by code: it
    answers most requests before any argument has to be written."""
    settings = load_settings(shipped_file(), REPOSITORY, {}).upstreams["serena"]
    listed = [Tool.model_validate(each) for each in json.loads(LISTED.read_text("utf-8"))]
    specs = [tool_spec(tool, "serena", settings) for tool in listed if tool.name in LOOP_TOOLS]
    shown = [
        spec.model_copy(update={"text_argument": None, "file_argument": None})
        for spec in specs
        if spec
    ]
    return sorted(shown, key=lambda spec: -spec.priority)


def table(measured: Sequence[Measured]) -> str:
    """The Markdown tables: what each route did and cost, and its right calls by moment."""
    routes = list(dict.fromkeys(each.route for each in measured))
    by_route = {route: [each for each in measured if each.route == route] for route in routes}
    moments = {"after a result": True, "at the start": False}
    rows = []
    for moment, after in moments.items():
        row = [moment]
        for some in by_route.values():
            mine = [each for each in some if (each.situation.before is not None) == after]
            row.append(f"{sum(each.right for each in mine)}/{len(mine)}")
        rows.append(row)
    costs = markdown(COLUMNS, [_row(route, each) for route, each in by_route.items()])
    return f"{costs}\n\n{markdown(('right', *routes), rows)}"


def _row(route: str, some: Sequence[Measured]) -> list[str]:
    ledgers = [each.ledger for each in some]
    return [
        route,
        str(len(some)),
        str(sum(each.right for each in some)),
        str(sum(each.right_tool for each in some)),
        str(sum(not each.escalations for each in some)),
        str(sum(each.escalations for each in some)),
        f"{fmean(each.model_calls for each in ledgers):.1f}",
        f"{fmean(each.prompt_tokens for each in ledgers):.0f}",
        f"{fmean(each.prompt_tokens - each.cached_tokens for each in ledgers):.0f}",
        f"{fmean(each.generated_tokens for each in ledgers):.0f}",
        f"{fmean(each.seconds for each in some):.1f}",
    ]


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.arguments")
