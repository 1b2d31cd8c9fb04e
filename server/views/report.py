"""The report of a run: a pure fold of its events, as structured content and as Markdown."""

import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from planner.actions import MAX_RESULT_CHARS, Action, ActionToolCall, actions
from planner.checks.citations import Evidence, evidence
from planner.checks.deeds import changes
from planner.evidence.context import CHARACTERS_PER_TOKEN
from planner.protocol import Goal, Steering
from planner.state import RunState, Status, Step
from planner.tools import UpstreamStatus
from server.text import (
    cleaned,
    counted,
    duration,
    fence,
    flat,
    indented,
    shortened,
    status_in_words,
)
from server.views.inert import inert
from server.views.unsettled import unsettled

MAX_REPORT_CHARS = 400_000
"""Characters of JSON; hosts refuse more. Tool results are cut until a report is small enough."""
MIN_RESULT_CHARS = 100
MAX_CLAIM_CHARS = 80
"""Characters of a claim where it is cited."""
MAX_DONE_CHARS = 200
"""Characters of a call that changed something; its approval and `run://` show all of it."""
MAX_CLAIMS = 6
"""How many claims are cited beside the lines that support them; the data has all of them."""


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


class Report(BaseModel):
    """Everything about a run, so far or in the end."""

    model_config = ConfigDict(title="Report")

    run_id: str
    goal: Goal = Field(default="answer", description="What was asked of it last.")
    status: Status | Literal["interrupted"] = Field(
        description="running: follow it with get_run. answered. partial: a limit or fault cut it "
        "short, or part of it is unsupported or does not fit data_schema. not_found: looked for, "
        "not found. failed. cancelled. interrupted: the call was cut off or its server "
        "ended; plan_and_answer with this run_id goes on with it."
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
        done=[shortened(flat(each), MAX_DONE_CHARS) for each in changes(state.iterations)],
        evidence=evidence(state),
        warnings=_warnings(state, interrupted, not_recorded),
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


def _warnings(state: RunState, interrupted: bool, not_recorded: str | None) -> list[str]:
    warnings = unsettled(state, over=interrupted or state.status != "running")
    if not_recorded:
        warnings.append(f"The run is not recorded and ends with this server. {not_recorded}")
    return warnings


def _size(found: Report) -> int:
    return len(json.dumps(found.model_dump(mode="json"), ensure_ascii=False))


def steps(state: RunState, *, interrupted: bool = False) -> list[StepReport]:
    """The plan: what was done of it, and how it stands."""
    over = (interrupted or state.status != "running") and not state.single_steps
    made = [_step(step, over) for step in state.steps]
    for step in made:
        if step.status == "current":
            step.change = planned_change(state, step.objective)
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


def _step(step: Step, over: bool) -> StepReport:
    ended: Literal["completed", "failed"] = "completed" if step.success else "failed"
    return StepReport(
        number=step.number,
        objective=step.objective,
        status=ended if step.completed else "unfinished" if over else "current",
        success=step.success if step.completed else None,
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


UP = ("ready", "disabled")
"""The states in which an upstream needs no attention."""
MARKS = {"completed": "x", "failed": "!", "current": "~", "unfinished": "!", "later": " "}
NOT_DONE = {"failed": " (without success)", "unfinished": " (not finished)"}


def markdown(found: Report, *, cost: bool = True, after: str | None = None) -> str:
    """The report for a reader: the answer first, then the plan, the evidence and the cost.
    `after`: what to do now, for a reader who has no tools."""
    parts = [conclusion(found, after)]
    if made := done_in_words(found):
        parts.append(made)
    if found.objective:
        bullets = [f"- [{MARKS[step.status]}] {step.in_words}" for step in found.steps]
        head = f"A plan has been created where the objective is: {flat(found.objective)}"
        parts.append("\n".join([head, "", *bullets]))
    if found.steering:
        ended = found.status not in ("running", "interrupted")
        late = "it came too late" if ended else "for the next decision"
        said = [
            f"- {flat(steering_in_words(each))}{'' if each.taken else f' ({late})'}"
            for each in found.steering
        ]
        parts.append("### Said while it ran\n\n" + "\n".join(said))
    notes = [
        f"{step.number}. {step.in_words}\n   {indented(step.notes, 3)}"
        for step in found.steps
        if step.success is not None and step.notes not in ("", found.answer)
    ]
    if notes and found.status != "running":
        parts.append("### Steps\n\n" + "\n".join(notes))
    if found.evidence:
        objectives = {step.number: step.objective for step in found.steps}
        cited = [
            _cited(number, each, objectives.get(each.step, "gathering"))
            for number, each in enumerate(found.evidence, 1)
        ]
        parts.append("### Evidence\n\n" + "\n".join(cited))
    if decided := decisions(found):
        parts.append("### Approvals\n\n" + _bullets(decided))
    if found.questions:
        parts.append("### Questions\n\n" + _bullets(map(asked_in_words, found.questions)))
    if missing := unavailable(found):
        parts.append("### Not available\n\n" + _bullets(missing))
    if found.warnings:
        parts.append(warned(found.warnings))
    parts.append(
        _foot(found) if cost else f"_Run {found.run_id}: {found.usage.seconds:.1f} s in all_"
    )
    return inert("\n\n".join(parts))


def conclusion(found: Report, after: str | None = None) -> str:
    """The answer, what it is worth, and what to do now: `after`, or else by which tool."""
    after = what_next(found) if after is None else after
    if found.status == "interrupted":
        return f"Interrupted before it ended. {after}"
    if found.status == "running":
        here = next((step for step in found.steps if step.status == "current"), None)
        doing = f" (step {here.number}: {flat(here.objective)})" if here else ""
        return f"Still running{doing}. {after}"
    parts = [found.answer]
    if found.data is not None:
        parts.append(f"```json\n{json.dumps(found.data, ensure_ascii=False, indent=2)}\n```")
    if found.status != "answered" or found.reason:
        reason = f": {found.reason}" if found.reason and found.reason not in found.answer else ""
        parts.append(f"_Status: {status_in_words(found.status)}{reason}_")
    return "\n\n".join([*parts, after] if after else parts)


def done_in_words(found: Report) -> str:
    """The changes that were made, unless the answer lists them; empty without any."""
    if all(f"- {each.removesuffix('…')}" in found.answer for each in found.done):
        return ""
    return "### What was done\n\n" + _bullets(found.done)


def what_next(found: Report) -> str:
    """What the caller may do now, by which tool; empty where nothing is left to do."""
    run = f"run_id `{found.run_id}`"
    if found.status == "interrupted":
        if found.goal == "step":
            return f"Call run_step with {run} alone to finish the step; nothing is done twice."
        return (
            f"Call plan_and_answer with the same prompt and {run} to go on with it; nothing is "
            "done twice."
        )
    if found.status == "running":
        if found.questions and not found.questions[-1].action:
            asks = f"{found.questions[-1].upstream} asks the user something. "
        elif waiting := _waiting(found):
            asks = f"`{waiting.name}` needs the user's approval. "
        else:
            return f"Call get_run with {run} to follow it, cancel_run to end it."
        return f"{asks}Call get_run with {run} to ask the user and go on, cancel_run to end it."
    if found.status in ("failed", "cancelled"):
        return ""
    if found.goal == "plan":
        return f"Call run_step with {run} to make the first step."
    if found.goal == "step":
        return f"Call run_step with {run} for another step, plan_and_answer with it to conclude."
    return ""


def unavailable(found: Report) -> list[str]:
    """What the run had to do without, a line each; empty if it found its answer."""
    if found.status == "answered":
        return []
    down = [each for each in found.upstreams if each.state not in UP]
    return [f"{each.name}: {each.error or each.state}" for each in down] + [
        f"{each.name}: {counted(len(each.held), 'tool')} held back until you consent; "
        "`planloom tools` shows why"
        for each in found.upstreams
        if each.held
    ]


def decisions(found: Report) -> list[str]:
    return [_decided(call) for call in _calls(found) if call.approval]


def warned(warnings: Iterable[str]) -> str:
    return "\n".join(f"**Warning:** {flat(warning)}" for warning in warnings)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {indented(line, 2)}" for line in lines)


def steering_in_words(steering: Steering) -> str:
    parts = [f'says "{steering.hint}"'] if steering.hint else []
    parts += [f"skips {'; '.join(steering.skip)}"] if steering.skip else []
    parts += [f"puts first {'; '.join(steering.order)}"] if steering.order else []
    return f"the {steering.by} {' and '.join(parts)}"


def _calls(found: Report) -> list[ActionToolCall]:
    return [call for action in found.actions for call in action.tool_calls]


def _waiting(found: Report) -> ActionToolCall | None:
    asked = [call for call in _calls(found) if call.approval and call.approval.approved is None]
    return asked[-1] if asked and found.status == "running" else None


def _decided(call: ActionToolCall) -> str:
    """`write_file`, refused: the user said no."""
    assert call.approval
    answer = {True: "approved", False: "refused", None: "not decided"}[call.approval.approved]
    reason = f": {flat(call.approval.reason)}" if call.approval.reason else ""
    return f"`{call.name}` ({call.approval.safety}), {answer}{reason}"


def asked_in_words(each: QuestionReport) -> str:
    """files asked in `read_file`: "Which branch?", answered."""
    match each.action:
        case "accept":
            outcome = "answered"
        case "decline":
            outcome = "refused"
        case "cancel":
            outcome = f"not answered: {flat(each.reason)}"
        case None:
            outcome = "not answered yet"
    asked = shortened(flat(each.question), MAX_CLAIM_CHARS)
    return f'{each.upstream} asked in `{each.tool}`: "{asked}", {outcome}'


def _cited(number: int, each: Evidence, objective: str) -> str:
    """An item of the evidence: what it supports, its step and tool, and the lines."""
    claims = [shortened(flat(claim.replace("`", "")), MAX_CLAIM_CHARS) for claim in each.claims]
    shown = ", ".join(f"`{claim}`" for claim in claims[:MAX_CLAIMS])
    more = ", …" if len(claims) > MAX_CLAIMS else ""
    place = f"`{flat(each.source.replace('`', ''))}`, " if each.source else ""
    head = f"{number}. {shown}{more}: {place}step {each.step} ({flat(objective)}), `{each.tool}`"
    lines = "\n".join(each.lines)
    if not lines:
        return head
    margin = len(f"{number}. ")
    return f"{head}\n{' ' * margin}{indented(fence(lines), margin)}"


def _foot(found: Report) -> str:
    usage = found.usage
    about = "" if usage.cached_told else "about "
    cached = f", {about}{usage.cached_tokens} of them cached" if usage.model_calls else ""
    spared = ""
    if found.answer and found.spared.tokens:
        spared = (
            f"; some {found.spared.tokens} tokens of tool results read for an answer of "
            f"{found.spared.answer_tokens}"
        )
    return (
        f"_Run {found.run_id}: {counted(usage.tool_calls, 'tool call')} "
        f"({duration(usage.tool_seconds)}), {counted(usage.model_calls, 'model call')} "
        f"({usage.prompt_tokens} prompt tokens{cached}, {usage.generated_tokens} generated, "
        f"{duration(usage.model_seconds)}); {duration(usage.seconds)} in all{spared}_"
    )
