"""A run as a client's model sees it: small, complete, and in a poll only what is new.

Some hosts show their model this data instead of the text, so that both have to say the same. The
whole report (`server.views.report`) is at `run://` and in `get_run` with `whole`.
"""

from typing import Any, Literal

from pydantic import BaseModel, Field

from planner import events
from planner.state import RunState, Status
from planner.text import flat, shortened
from server.config_schema import Untitled
from server.mcp.links import RUN
from server.runs.run import Run
from server.text import cleaned, fence
from server.views.inert import inert
from server.views.progress import message
from server.views.report import Report, Spared, steps
from server.views.report_text import (
    MARKS,
    asked_in_words,
    decisions,
    unavailable,
    warned,
    what_next,
)

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
    return model.model_json_schema(mode="serialization", schema_generator=Untitled)


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
    state, news = RunState(), []
    before = RunState.of(run.events[: run.reported_events])
    for number, event in enumerate(run.events):
        state.apply(event)
        if number >= run.reported_events and isinstance(event, REPORTED):
            news.append(shortened(message(event, state), MAX_LINE))
    return ShortReport(
        run_id=run.id,
        status=found.status,
        plan=_plan(found) if _objectives(state) != _objectives(before) else [],
        doing=run.doing(state),
        news=news[-MAX_NEWS:],
        draft=state.draft.removeprefix(before.draft),
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
