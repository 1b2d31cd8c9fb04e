"""The recorded runs: real calls of a real Serena with their results, and written decisions.

A run is a request of which every decision is known: the tool calls with their arguments and the
texts that came back, the plan, the notes, the answer. Each design replays it in its own prompts.
`record` makes the calls again and keeps the decisions.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from mcp_types import Tool
from pydantic import BaseModel, ConfigDict, TypeAdapter

from benchmarks import ROOT
from benchmarks.eval.codebases import PACKAGE, files, write
from planner.errors import PlanloomError
from planner.tools import Outcome, Safety, ToolResult, ToolSpec, UpstreamState, UpstreamStatus
from server.config_file import load_settings, shipped_file
from server.upstreams.pool import UpstreamPool
from server.upstreams.results import tool_spec

FOLDER = Path(__file__).parent / "runs"
STEPS = (1, 3, 10, 30)
LISTED = ROOT / "tests" / "data" / "upstreams"
"""What the real upstreams list as their tools."""
START_SECONDS = 300.0
"""For Serena to start; its first start on a machine downloads it."""


class Recorded(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Call(Recorded):
    """One tool call, and what is decided when its result is read."""

    tool: str
    prompt: str
    """What the tool shall find."""
    planned: str = ""
    """The objective of the plan's step that this call is for, as it can be told before any result;
    empty: the call is decided on later."""
    arguments: dict[str, Any]
    alongside: bool = False
    """Whether it needs nothing of the call before, so that both may be made at once."""
    assessment: str = ""
    """What its result shows."""
    notes: str = ""
    """The notes on the step so far; of a step's last call, what is kept of the step."""
    result: str = ""


class Step(Recorded):
    objective: str
    calls: list[Call]
    success: bool = True


class Run(Recorded):
    """One request from its first call to its answer."""

    request: str
    listing: str
    search: list[str]
    """Words of the brief, to search for."""
    wants: Literal["short answer", "long answer"]
    first: Call
    """The call that gathers the first facts; its assessment and notes are the plan's."""
    main_objective: str = ""
    steps: list[Step] = []
    assessment: str
    """What the results say about the request, thought over before the answer."""
    answer: str
    again: str = ""
    """The answer in a few words, as a second reading gives it; long answers have none."""

    @property
    def calls(self) -> list[Call]:
        return [self.first, *(call for step in self.steps for call in step.calls)]

    @property
    def rounds(self) -> int:
        """Groups of calls that cannot be made at once: the least number of decisions on calls."""
        return sum(not call.alongside for call in self.calls)


def path(steps: int) -> Path:
    return FOLDER / f"{steps}.json"


def load(steps: int) -> Run:
    run = Run.model_validate_json(path(steps).read_text("utf-8"))
    assert len(run.calls) == steps, f"{path(steps)} has {len(run.calls)} calls"
    return run


def save(steps: int, run: Run) -> None:
    text = run.model_dump_json(indent=1, exclude_defaults=True)
    path(steps).write_text(text + "\n", encoding="utf-8")


def listed(upstream: str) -> list[Tool]:
    """The tools as the upstream itself lists them."""
    text = (LISTED / f"{upstream}.json").read_text("utf-8")
    return TypeAdapter(list[Tool]).validate_json(text)


def tools() -> list[ToolSpec]:
    """The tools of the shipped upstreams that only read, as a run sees them.

    Without gathering, which answers most requests before any decision is made: here every call is
    to be decided on.
    """
    settings = load_settings(shipped_file(), ROOT, {})
    specs = [
        tool_spec(tool, name, upstream)
        for name, upstream in settings.upstreams.items()
        for tool in listed(name)
    ]
    not_gathered = {"text_argument": None, "name_argument": None, "file_argument": None}
    shown = [
        spec.model_copy(update=not_gathered)
        for spec in specs
        if spec and spec.safety is Safety.READ_ONLY
    ]
    return sorted(shown, key=lambda spec: -spec.priority)


class RecordedPool:
    """The tool pool of a replay: what a run's calls returned. A call it does not have is an error
    of the replay, not of the run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.calls: list[Call] = []
        """Those made so far."""

    def tools(self) -> Sequence[ToolSpec]:
        return tools()

    def upstreams(self) -> Sequence[UpstreamStatus]:
        return [UpstreamStatus(name=PACKAGE, state=UpstreamState.READY, tools=len(tools()))]

    async def listing(self) -> str | None:
        return self.run.listing

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        for call in self.run.calls:
            if (call.tool, call.arguments) == (tool.name, arguments):
                self.calls.append(call)
                return ToolResult(outcome=Outcome.SUCCESS, text=call.result)
        raise AssertionError(f"the run has no call {tool.name} {arguments}")


async def record() -> None:
    """Make every run's calls again, with a real Serena on the installed package, and keep what they
    return."""
    with tempfile.TemporaryDirectory() as folder:
        write(files("package"), Path(folder))
        settings = load_settings(shipped_file(), Path(folder), dict(os.environ))
        serena = settings.model_copy(update={"upstreams": {"serena": settings.upstreams["serena"]}})
        async with UpstreamPool(serena) as pool:
            await pool.ready(START_SECONDS)
            for steps in STEPS:
                save(steps, await _recorded(load(steps), pool))


async def _recorded(run: Run, pool: UpstreamPool) -> Run:
    async def made(call: Call) -> Call:
        tool = pool.find(call.tool)
        if tool is None:
            raise PlanloomError(f"Serena has no tool {call.tool}; see its log.")
        result = await pool.call(tool, call.arguments)
        if result.outcome is not Outcome.SUCCESS:
            raise PlanloomError(f"{call.tool} {call.arguments} failed: {result.text}")
        return call.model_copy(update={"result": result.text})

    return run.model_copy(
        update={
            "listing": await pool.listing(),
            "first": await made(run.first),
            "steps": [
                step.model_copy(update={"calls": [await made(call) for call in step.calls]})
                for step in run.steps
            ],
        }
    )
