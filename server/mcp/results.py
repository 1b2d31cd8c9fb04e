"""The result of a call: a run as a client's model sees it, small, complete, and in a poll only what
is new. Text and data say the same, because a host may show its model only one of them. The whole
report (`server.views.report`) is at `run://` and in `get_run` with `whole`."""

from collections.abc import Sequence
from typing import Any, Literal

from fastmcp.tools import ToolResult
from fastmcp.utilities.json_schema import dereference_refs
from mcp_types import ResourceLink, TextContent
from pydantic import BaseModel, Field

from planner import events
from planner.actions import MAX_RESULT_CHARS, call_in_words
from planner.checks.citations import Evidence
from planner.state import RunState, Status
from planner.text import flat, shortened
from server.config_schema import Untitled
from server.mcp.context import knows_links
from server.runs.run import Run, report_of
from server.text import clean, cleaned, fence, one_line
from server.views import consent
from server.views.inert import inert
from server.views.progress import message
from server.views.report import Report, Spared, steps
from server.views.report_text import (
    MARKS,
    asked_in_words,
    decisions,
    markdown,
    unavailable,
    warned,
    what_next,
)

VIEW = "ui://planloom/view.html"
"""The page that a host of MCP Apps shows beside an answer (`server.http.web_view`)."""
RUN = "run://{run_id}"
TRANSCRIPT = "run://{run_id}/transcript"
RESULT = "run://{run_id}/result/{iteration}"
MAX_LINKS = 5
"""In one report; each one is a block in the client's context."""
MAX_TITLE_CHARS = 80

MAX_CITATIONS = 5
MAX_LINES = 3
"""Of a citation."""
MAX_LINE = 200
"""Characters of a line, of a step and of what happened."""
MAX_NEWS = 6
"""News of one poll; the newest are kept."""
REPORTED = (
    events.ApprovalAsked,
    events.ApprovalDecided,
    events.GuardTripped,
    events.ItemStarted,
    events.PassagesGathered,
    events.PlanMade,
    events.QuestionAsked,
    events.RunContinued,
    events.RunResumed,
    events.StepConcluded,
    events.StepStarted,
    events.SteeringTaken,
    events.ToolCalled,
    events.ToolReturned,
)


class Citation(BaseModel):
    """Lines that support the answer."""

    source: str = Field(description="path:first-last, or the tool whose result it is.")
    lines: list[str]


class ShortReport(BaseModel, title="Run"):
    """A run so far or in the end; what is empty is left out."""

    status: Status | Literal["interrupted"] = Field(
        description="answered; partial: see reason and unsupported; not_found; refused: a change "
        "was not approved or not allowed; failed; cancelled; running and interrupted: see next."
    )
    answer: str = ""
    data: Any = Field(
        default=None,
        description="The answer as data_schema asks.",
        json_schema_extra={"type": ["object", "array", "string", "number", "boolean", "null"]},
    )
    reason: str | None = Field(default=None, description="Why the answer is not complete.")
    unsupported: list[str] = Field(
        default=[], description="Claims in the answer that no source supports."
    )
    done: list[str] = Field(
        default=[], description="Calls that changed something, from the record."
    )
    evidence: list[Citation] = []
    plan: list[str] = Field(default=[], description="[x] done, [~] under way, [ ] to come.")
    asked: list[str] = Field(default=[], description="What the user was asked, and the outcome.")
    warnings: list[str] = []
    doing: str = ""
    news: list[str] = Field(default=[], description="What happened since the report before.")
    draft: str = Field(
        default="", description="The new part of an answer that is being written, unchecked."
    )
    result: str = Field(default="", description="The tool result that `iteration` asked for.")
    next: str = Field(default="", description="What to do now.")
    run_id: str
    report: str = Field(default="", description="The resource with the whole report.")
    spared: Spared | None = None


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Its schema without references, which some clients do not follow."""
    schema = model.model_json_schema(mode="serialization", schema_generator=Untitled)
    return dereference_refs(schema)


SHORT_SCHEMA = schema_of(ShortReport)


def as_data(short: ShortReport) -> dict[str, Any]:
    """The data for the client, without empty fields."""
    said = short.model_dump(mode="json", exclude_defaults=True)
    shown: dict[str, Any] = cleaned(said, keys=True)  # models may write anything
    return shown


def ended(found: Report) -> ShortReport:
    return ShortReport(
        run_id=found.run_id,
        status=found.status,
        answer=found.answer,
        data=found.data,
        reason=found.reason,
        unsupported=found.unsupported,
        done=found.done,
        evidence=[
            Citation(
                source=each.source or f"{each.tool}, iteration {each.iteration}",
                lines=[shortened(line, MAX_LINE) for line in each.lines[:MAX_LINES]],
            )
            for each in found.evidence[:MAX_CITATIONS]
        ],
        plan=_plan(found),
        asked=[*decisions(found), *map(asked_in_words, found.questions)],
        warnings=[*found.warnings, *(f"Not available: {each}" for each in unavailable(found))],
        next=what_next(found),
        report=RUN.format(run_id=found.run_id),
        spared=found.spared,
    )


def under_way(run: Run, found: Report) -> ShortReport:
    """What is new in a run since its caller saw it last."""
    state, news = RunState.of(run.events[: run.reported_events]), []
    plan, draft = _objectives(state), state.draft
    for event in run.events[run.reported_events :]:
        state.apply(event)
        if isinstance(event, REPORTED):
            news.append(shortened(message(event, state), MAX_LINE))
    return ShortReport(
        run_id=run.id,
        status=found.status,
        plan=_plan(found) if _objectives(state) != plan else [],
        doing=run.doing(state),
        news=news[-MAX_NEWS:],
        draft=state.draft.removeprefix(draft),
        warnings=found.warnings,
        next=what_next(found),
        report=RUN.format(run_id=run.id),
    )


def markdown_under_way(short: ShortReport) -> str:
    parts = [f"Still running: {flat(short.doing)}. {short.next}"]
    if short.plan:
        parts.append("\n".join(f"- {flat(step)}" for step in short.plan))
    if short.news:
        parts.append("New:\n\n" + "\n".join(f"- {flat(each)}" for each in short.news))
    if short.draft:
        parts.append(f"Draft, unchecked:\n\n{fence(short.draft)}")
    if short.warnings:
        parts.append(warned(short.warnings))
    return inert("\n\n".join(parts))


def _objectives(state: RunState) -> list[tuple[str, str]]:
    return [(step.status, step.objective) for step in steps(state)]


def _plan(found: Report) -> list[str]:
    return [shortened(f"[{MARKS[step.status]}] {step.in_words}", MAX_LINE) for step in found.steps]


def result_of(run: Run, iteration: int | None = None, *, whole: bool = False) -> ToolResult:
    """One `iteration` of a run, the whole report, or the short one."""
    found = report_of(run, iteration)
    linked: list[ResourceLink] = []
    if iteration is not None:
        shown = run.state.iterations[iteration]
        waits = shown.asked and not shown.approval and found.status == "running"
        text = consent.whole_call(shown.asked) if shown.asked and waits else clean(shown.result)
        data = as_data(ShortReport(run_id=found.run_id, status=found.status, result=text))
    elif found.status == "running" and not whole:
        short = under_way(run, found)
        text, data = markdown_under_way(short), as_data(short)
        run.reported_events = len(run.events)
    elif whole:
        text, data = markdown(found), found.model_dump(mode="json")
    else:
        text, data = markdown(found), as_data(ended(found))
        linked = links(run.id, run.state, found.evidence) if knows_links() else []
    content = [TextContent(type="text", text=text), *linked]
    return ToolResult(content, data, is_error=found.status == "failed")


def links(run_id: str, state: RunState, evidence: Sequence[Evidence]) -> list[ResourceLink]:
    """Links to results that the report cuts: first what supports the answer, then the newest."""
    cut = [each for each in state.iterations if len(each.result) > MAX_RESULT_CHARS]
    cited = [each.iteration for each in evidence]
    cut.sort(key=lambda each: (each.number not in cited, -each.number))
    return [
        ResourceLink(
            type="resource_link",
            uri=RESULT.format(run_id=run_id, iteration=each.number),
            name=f"result-{each.number}",
            title=one_line(f"{each.tool} {call_in_words(each)}", MAX_TITLE_CHARS),
            description="The whole result of this tool call, of which the report contains the "
            "beginning.",
            mime_type="text/plain",
            size=len(clean(each.result).encode()),
        )
        for each in cut[:MAX_LINKS]
    ]
