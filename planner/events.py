"""The one stream of typed events that a run produces; everything outside is a fold of it."""

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from planner.passage import Passage
from planner.protocol import RunRequest, Steering, Wants
from planner.tools import DecidedBy, Outcome, Safety, UpstreamStatus

Role = Literal[
    "brief",
    "words",
    "files",
    "select",
    "arguments",
    "query",
    "answer",
    "again",
    "repair",
    "overview",
    "confirm",
    "facts",
    "rewrite",
    "example",
    "plan",
    "decide",
    "conclude",
    "translate",
    "format",
    "outcome",
]
"""The purpose of a model call."""
TRIES: Sequence[Role] = ("answer", "repair")
"""Attempts at an answer. One that was not certain is not shown beside newer passages, because a
small model repeats it."""
ALONE: Sequence[Role] = ("overview", "confirm", "facts", "rewrite", "example", "translate")
"""Asked without the results so far: the question contains all that should be read."""
ASIDE: Sequence[Role] = (
    "words",
    "files",
    "select",
    "arguments",
    "query",
    "again",
    "outcome",
    *ALONE,
)
"""Asked beside the conversation: neither the question nor the reply is in later prompts."""

MadeBy = Literal["lookup", "choice", "query"]
"""Why a tool call is made: code gathers passages, a model or the caller chose it, or code runs a
model's query of a list."""

FinalStatus = Literal["answered", "partial", "not_found", "refused", "failed", "cancelled"]
"""How a run ended. `partial`: the answer is not complete or not certain, for the `reason` that the
run gives. `not_found`: the run looked, and says that it could not find out. `refused`: what was to
be done was not permitted, and was not done."""

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""As RFC 5424 has them, from the least to the worst."""

FROM_OUTSIDE = frozenset(
    {"run_resumed", "run_steered", "upstream_logged", "question_asked", "question_answered"}
)
"""The events that the agent does not record, and that do not come again in a replay."""


class BaseEvent(BaseModel):
    model_config = ConfigDict(frozen=True)

    at: float = Field(default_factory=time.time)


class RunStarted(BaseEvent):
    type: Literal["run_started"] = "run_started"
    request: RunRequest
    listing: str | None
    """The project's top-level listing, as it stands in the first prompt."""
    upstreams: list[UpstreamStatus]
    tools: list[str]
    """Names of the tools that the run may call, in the pool's order."""
    approved_first: list[str] = []
    """Those of them that are not read-only."""
    offered: list[str]
    """Those that the models are shown: all of a small pool, the best ones of a large pool."""


class ModelCalled(BaseEvent):
    type: Literal["model_called"] = "model_called"
    role: Role
    model: str
    question: str
    """The last message; those before it follow from the events before this one."""
    reply: str
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens served from the prefix cache."""
    cached_told: bool
    """Whether the server reported that number; else it is estimated from the prompts."""
    generated_tokens: int
    load_seconds: float
    prefill_seconds: float
    decode_seconds: float

    @property
    def seconds(self) -> float:
        return self.load_seconds + self.prefill_seconds + self.decode_seconds


class ToolSelected(BaseEvent):
    type: Literal["tool_selected"] = "tool_selected"
    tool: str | None
    prompt: str
    """What the tool should find."""
    by: MadeBy = "choice"
    beside: bool = False
    """Whether it was chosen together with the tool before."""


class BriefMade(BaseEvent):
    type: Literal["brief_made"] = "brief_made"
    search: list[str]
    """Words to search for, besides the request's own."""
    wants: Wants
    may_be_order: bool = False
    """Whether it was first read as an action that the run has no tool for ("Can you delete it?"),
    or is a question whose plan has a change."""
    first: str = ""
    """A question of the request that is read for before the rest; empty if none is."""
    then: str = ""
    """The rest, with `[it]` for the answer to the first."""
    offered: list[str] = []
    """The tools of a large pool that its words bring in, besides the request's own."""


class ItemStarted(BaseEvent):
    """The next item of a request that is a list of requests."""

    type: Literal["item_started"] = "item_started"
    number: int
    """From 1."""
    of: int
    prompt: str
    before: list[str] = []
    """The items before it with their answers."""


class PassagesGathered(BaseEvent):
    """The passages that a look-up shows to the models."""

    type: Literal["passages_gathered"] = "passages_gathered"
    iteration: int
    """The last call of the look-up, in whose place the passages stand."""
    query: str
    passages: list[Passage]


class ArgumentsWritten(BaseEvent):
    type: Literal["arguments_written"] = "arguments_written"
    iteration: int
    tool: str
    arguments: dict[str, Any]
    model: str | None
    """The model that wrote them; None if the caller gave them, or code made them."""


class ApprovalAsked(BaseEvent):
    """A call whose tool is not read-only is about to go out."""

    type: Literal["approval_asked"] = "approval_asked"
    iteration: int
    upstream: str
    tool: str
    arguments: dict[str, Any]
    """All of them, also the operator's."""
    safety: Safety
    guessed: list[str] = []
    """The arguments that nobody said, each as `name: value`."""
    digest: str = ""
    """It names the call in an answer; the server that drives the run makes it."""


class ApprovalDecided(BaseEvent):
    type: Literal["approval_decided"] = "approval_decided"
    iteration: int
    tool: str
    approved: bool
    by: DecidedBy
    reason: str


class ToolCalled(BaseEvent):
    type: Literal["tool_called"] = "tool_called"
    iteration: int
    upstream: str
    tool: str
    arguments: dict[str, Any]


class ToolReturned(BaseEvent):
    """The end of an iteration, also of a call that never went out. Calls that are made side by side
    return in any order."""

    type: Literal["tool_returned"] = "tool_returned"
    iteration: int
    tool: str
    arguments: dict[str, Any]
    outcome: Outcome
    text: str
    seconds: float
    answered: bool = True


class UpstreamEvent(BaseEvent):
    """Something that an upstream does while it serves a call."""

    iteration: int | None
    """None if it is not known which call it was."""
    upstream: str
    tool: str


class ToolProgressed(UpstreamEvent):
    """How far a call has got, as its upstream reports. It is not recorded."""

    type: Literal["tool_progressed"] = "tool_progressed"
    progress: float
    total: float | None
    message: str


class UpstreamLogged(UpstreamEvent):
    type: Literal["upstream_logged"] = "upstream_logged"
    level: LogLevel
    text: str


class QuestionAsked(UpstreamEvent):
    type: Literal["question_asked"] = "question_asked"
    text: str


class QuestionAnswered(UpstreamEvent):
    """How the person reacted. The answer itself is for the upstream only, and in no event."""

    type: Literal["question_answered"] = "question_answered"
    action: Literal["accept", "decline", "cancel"]
    by: DecidedBy
    reason: str


class PlanMade(BaseEvent):
    type: Literal["plan_made"] = "plan_made"
    main_objective: str
    conclusion_from_assistant_data: str
    """What the plan is based on."""
    later_steps: list[str]
    tools: dict[str, str] = {}
    """The tool that each step should call, by its objective; none if that is decided later."""


class ResultAssessed(BaseEvent):
    """What the full model thought of the newest result when it decided, in deep mode."""

    type: Literal["result_assessed"] = "result_assessed"
    assessment: str
    belief: str
    critique: str


class StepStarted(BaseEvent):
    type: Literal["step_started"] = "step_started"
    number: int
    objective: str
    offered: list[str] = []
    """The tools that it brings in; none if the whole pool is shown."""
    asks: bool = False
    """Whether the objective is a question of the request, which is read for in its place."""


class StepContinued(BaseEvent):
    type: Literal["step_continued"] = "step_continued"
    number: int
    notes: str


class StepConcluded(BaseEvent):
    type: Literal["step_concluded"] = "step_concluded"
    number: int
    success: bool
    notes: str


class PlanRevised(BaseEvent):
    type: Literal["plan_revised"] = "plan_revised"
    later_steps: list[str]


class RunSteered(BaseEvent):
    """Steering has come in, and waits for the next decision."""

    type: Literal["run_steered"] = "run_steered"
    steering: Steering


class SteeringTaken(BaseEvent):
    """The steering is in effect from the next decision on."""

    type: Literal["steering_taken"] = "steering_taken"
    steering: Steering
    later_steps: list[str]
    offered: list[str] = []
    """The tools that the hint brings in."""


class GuardTripped(BaseEvent):
    type: Literal["guard_tripped"] = "guard_tripped"
    guard: str
    message: str


class ContextCompressed(BaseEvent):
    """From here on, prompts have the past in a short form."""

    type: Literal["context_compressed"] = "context_compressed"
    up_to: int
    """The last iteration in the short form."""


class RunResumed(BaseEvent):
    """The server that drove the run had ended, and another one continues it."""

    type: Literal["run_resumed"] = "run_resumed"
    paused: float
    """Seconds since the event before, when nothing happened."""


class RunContinued(BaseEvent):
    """A run that had ended gets another request: a step, or the conclusion from all steps. The
    agent finds it in its inbox."""

    type: Literal["run_continued"] = "run_continued"
    request: RunRequest
    spent: float
    """Seconds that the run had taken before."""
    paused: float


class AnswerDelta(BaseEvent):
    """The next piece of an answer while a model writes it, before it is checked."""

    type: Literal["answer_delta"] = "answer_delta"
    text: str
    begins: bool
    """Whether it is the first piece of an attempt, which replaces the one before."""


class RunFinished(BaseEvent):
    type: Literal["run_finished"] = "run_finished"
    status: FinalStatus
    answer: str
    model_says: str | None = None
    """What of the answer is a model's own words, which results have to support; None: all of it."""
    reason: str | None = None
    """Why it is not `answered`: a limit, a fault, a cancellation, or what makes it uncertain."""
    quotes: list[str] = []
    """The lines of results that say what the answer says; code finds them."""
    unsupported: list[str] = []
    """What the answer or its data says without a result that supports it."""
    data: Any = None
    """The answer by the request's `data_schema`."""


Event = Annotated[
    RunStarted
    | ModelCalled
    | ToolSelected
    | BriefMade
    | PassagesGathered
    | ArgumentsWritten
    | ApprovalAsked
    | ApprovalDecided
    | ToolCalled
    | ToolReturned
    | ToolProgressed
    | UpstreamLogged
    | QuestionAsked
    | QuestionAnswered
    | PlanMade
    | ResultAssessed
    | ItemStarted
    | StepStarted
    | StepContinued
    | StepConcluded
    | PlanRevised
    | RunSteered
    | SteeringTaken
    | GuardTripped
    | ContextCompressed
    | RunResumed
    | RunContinued
    | AnswerDelta
    | RunFinished,
    Field(discriminator="type"),
]

EVENT: TypeAdapter[Event] = TypeAdapter(Event)

OfTheMoment = AnswerDelta | ToolProgressed
"""Events that are shown at once and never recorded."""
