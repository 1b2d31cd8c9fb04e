"""The report of a run: a pure fold of its events, as structured content."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from planner.actions import MAX_RESULT_CHARS, Action, actions
from planner.checks.citations import Evidence, evidence
from planner.checks.deeds import changes
from planner.evidence.context import CHARACTERS_PER_TOKEN
from planner.protocol import Goal, Steering
from planner.state import RunState, Status, Step
from planner.text import flat
from planner.tools import UpstreamStatus
from server.text import cleaned
from server.views.unsettled import unsettled

MAX_REPORT_CHARS = 400_000
"""Characters of JSON; hosts refuse more. Tool results are cut until a report is small enough."""
MIN_RESULT_CHARS = 100

NOT_DONE = {"failed": " (without success)", "unfinished": " (not finished)"}

Rounded = Annotated[float, AfterValidator(lambda seconds: round(seconds, 3))]


class StepReport(BaseModel):
    """One step of the plan."""

    number: int
    objective: str
    status: Literal["completed", "failed", "current", "unfinished", "later"] = Field(
        description="failed: it ended without success. unfinished: the run ended before it did."
    )
    success: bool | None = Field(default=None, description="Null until the step has ended.")
    change: str = Field(
        default="", description="Until then: the tool that it is planned to change something with."
    )
    notes: str = ""

    @property
    def in_words(self) -> str:
        """`Note it (add_note may change something)`."""
        change = f" ({self.change} may change something)" if self.change else ""
        return f"{flat(self.objective)}{NOT_DONE.get(self.status, '')}{change}"


class SteeringReport(Steering):
    """Something that was said to the run while it went on."""

    taken: bool = Field(description="Whether a decision was made with it; false: it still waits.")


class ModelCallReport(BaseModel):
    """One entry of the ledger."""

    role: str
    model: str
    prompt_tokens: int
    cached_tokens: int = Field(description="Of the prompt, from the model server's prefix cache.")
    generated_tokens: int
    load_seconds: Rounded
    prefill_seconds: Rounded = Field(description="For the prompt without its cached part.")
    decode_seconds: Rounded


class Usage(BaseModel):
    """What the run cost."""

    seconds: Rounded
    model_calls: int
    prompt_tokens: int
    cached_tokens: int
    cached_told: bool = Field(
        description="Whether the model server reported what was cached; else it is what the "
        "prompts before cover."
    )
    generated_tokens: int
    model_seconds: Rounded
    tool_calls: int
    tool_seconds: Rounded
    calls: list[ModelCallReport]


class QuestionReport(BaseModel):
    """What an upstream asked the user. The answer is the upstream's alone."""

    upstream: str
    tool: str
    question: str
    action: Literal["accept", "decline", "cancel"] | None = Field(
        description="accept: the user answered. Null while the user is waited for."
    )
    reason: str = ""


class Spared(BaseModel):
    """What the caller did not have to read, against what it got instead; tokens are estimated."""

    characters: int = Field(description="Of tool results.")
    tokens: int
    answer_characters: int
    answer_tokens: int


class Report(BaseModel, title="Report"):
    """Everything about a run, so far or in the end."""

    run_id: str
    goal: Goal = Field(default="answer", description="What was asked of it last.")
    status: Status | Literal["interrupted"] = Field(
        description="running: follow it with get_run. answered. partial: a limit or fault cut it "
        "short, or part of it is unsupported or does not fit data_schema. not_found: looked for, "
        "not found. refused: a change was not approved or not allowed. failed. cancelled. "
        "interrupted: the call was cut off or its server ended; plan_and_answer with this run_id "
        "goes on with it."
    )
    answer: str = Field(description="Empty while the run is running.")
    draft: str = Field(
        default="", description="While it runs: what a model has written of an answer, unchecked."
    )
    data: Any = Field(default=None, description="The answer as data_schema asks; null without one.")
    reason: str | None = Field(default=None, description="Why it ended without a full answer.")
    unsupported: list[str] = Field(default=[], description="What it says and no result supports.")
    objective: str | None = Field(default=None, description="The plan's main objective, if any.")
    steps: list[StepReport] = []
    steering: list[SteeringReport] = Field(default=[], description="What steer_run said to it.")
    actions: list[Action] = []
    done: list[str] = Field(
        default=[],
        description="The calls that changed something, from the record, whatever the answer says.",
    )
    evidence: list[Evidence] = []
    questions: list[QuestionReport] = Field(
        default=[], description="What upstreams asked the user."
    )
    warnings: list[str] = Field(
        default=[],
        description="Calls that should have changed something and were not made, or whose outcome "
        "is not known; why the run is not recorded.",
    )
    guards: list[str] = Field(
        default=[], description="Where checks in code had to correct the models."
    )
    usage: Usage
    spared: Spared
    upstreams: list[UpstreamStatus] = []


def report(
    run_id: str,
    state: RunState,
    now: float,
    iteration: int | None = None,
    *,
    interrupted: bool = False,
    not_recorded: str | None = None,
) -> Report:
    """Fold a run's state into its report; `now` is the time in seconds since the epoch. With an
    `iteration`, the report's only action is that one, with its whole tool result. `interrupted`:
    nobody drives the run any more; `not_recorded`: why its record is not whole."""
    chosen, longest = state.iterations, MAX_RESULT_CHARS
    if iteration is not None:
        chosen, longest = state.iterations[iteration : iteration + 1], MAX_REPORT_CHARS
    warnings = unsettled(state, over=interrupted or state.status != "running")
    if not_recorded:
        warnings.append(f"The run is not recorded and ends with this server. {not_recorded}")
    found = Report(
        run_id=run_id,
        goal=state.request.goal if state.request else "answer",
        status="interrupted" if interrupted else state.status,
        answer=state.answer,
        draft=state.draft,
        data=state.data,
        reason=state.reason,
        unsupported=state.unsupported,
        objective=state.main_objective,
        steps=steps(state, interrupted=interrupted),
        steering=[
            *(SteeringReport(**each.said.model_dump(), taken=True) for each in state.steered),
            *(SteeringReport(**each.model_dump(), taken=False) for each in state.waiting),
        ],
        actions=actions(state, chosen, longest),
        done=changes(state.iterations),
        evidence=evidence(state),
        warnings=warnings,
        guards=[f"{guard.guard}: {guard.message}" for guard in state.guards],
        questions=[
            QuestionReport(
                upstream=each.question.upstream,
                tool=each.question.tool,
                question=each.question.text,
                action=each.answer.action if each.answer else None,
                reason=each.answer.reason if each.answer else "",
            )
            for each in state.questions
        ],
        usage=usage(state, now),
        spared=_spared(state),
        upstreams=state.started.upstreams if state.started else [],
    )
    while longest > MIN_RESULT_CHARS and _size(found) > MAX_REPORT_CHARS:
        longest //= 2
        found = found.model_copy(update={"actions": actions(state, chosen, longest)})
    shown = cleaned(found.model_dump(mode="json"), keys=True)  # models may write anything
    return Report.model_validate(shown)


def _size(found: Report) -> int:
    return len(json.dumps(found.model_dump(mode="json"), ensure_ascii=False))


def steps(state: RunState, *, interrupted: bool = False) -> list[StepReport]:
    """The plan: what was done of it, and how it stands."""
    over = (interrupted or state.status != "running") and not state.single_steps
    made = [_step(step, over, state) for step in state.steps]
    later = [
        StepReport(
            number=number,
            objective=objective,
            status="later",
            change="" if over else planned_change(state, objective),
        )
        for number, objective in enumerate(state.later_steps, len(made) + 1)
    ]
    return made + later


def planned_change(state: RunState, objective: str) -> str:
    """The tool that a step is planned to change something with; empty where none is."""
    tool = state.planned_tools.get(objective, "")
    return tool if state.started and tool in state.started.approved_first else ""


def _step(step: Step, over: bool, state: RunState) -> StepReport:
    ended: Literal["completed", "failed"] = "completed" if step.success else "failed"
    under_way = not (step.completed or over)
    return StepReport(
        number=step.number,
        objective=step.objective,
        status=ended if step.completed else "unfinished" if over else "current",
        success=step.success if step.completed else None,
        change=planned_change(state, step.objective) if under_way else "",
        notes=step.notes,
    )


def usage(state: RunState, now: float) -> Usage:
    """What the run has cost; `now` is the time in seconds since the epoch."""
    calls = [ModelCallReport.model_validate(call, from_attributes=True) for call in state.ledger]
    ended = state.finished_at or now
    began = state.started.at if state.started else ended
    sent = [each for each in state.iterations if each.upstream is not None]
    return Usage(
        seconds=max(0.0, ended - began - state.paused),  # clocks are set back, too
        model_calls=len(calls),
        prompt_tokens=sum(call.prompt_tokens for call in calls),
        cached_tokens=sum(call.cached_tokens for call in calls),
        cached_told=all(call.cached_told for call in state.ledger),
        generated_tokens=sum(call.generated_tokens for call in calls),
        model_seconds=sum(call.seconds for call in state.ledger),
        tool_calls=len(sent),
        tool_seconds=sum(each.seconds for each in sent),
        calls=calls,
    )


def _spared(state: RunState) -> Spared:
    read = sum(len(each.result) for each in state.iterations if each.upstream is not None)
    data = "" if state.data is None else json.dumps(state.data, ensure_ascii=False)
    characters = len(state.answer) + len(data)
    return Spared(
        characters=read,
        tokens=round(read / CHARACTERS_PER_TOKEN),
        answer_characters=characters,
        answer_tokens=round(characters / CHARACTERS_PER_TOKEN),
    )
