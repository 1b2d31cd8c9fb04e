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
    "answer",
    "again",
    "repair",
    "facts",
    "summary",
    "plan",
    "decide",
    "conclude",
    "format",
]
"""What a model was asked for."""
TRIES: Sequence[Role] = ("answer", "repair")
"""Tries at an answer. One that was not certain is not shown beside newer passages: a small model
repeats it."""
ASIDE: Sequence[Role] = ("words", "files", "select", "arguments", "again", "facts", "summary")
"""Asked beside the conversation: neither the question nor the reply stands in later prompts."""
ALONE: Sequence[Role] = ("facts", "summary")
"""Asked without the results so far: all that is to be read stands in the question."""

FinalStatus = Literal["answered", "partial", "not_found", "refused", "failed", "cancelled"]
"""How a run ended. `partial`: a limit or a fault cut it short, and the answer says what was found;
or something in it is in no result, or it does not fit the caller's schema. `not_found`: the run
looked and says honestly that it could not find out. `refused`: what was to be done was not
permitted, and was not done."""


LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""As RFC 5424 has them, from the least to the worst."""

FROM_OUTSIDE = frozenset(
    {"run_resumed", "run_steered", "upstream_logged", "question_asked", "question_answered"}
)
"""The types of what others than the agent record. They do not come again when a record is
replayed."""


class BaseEvent(BaseModel):
    model_config = ConfigDict(frozen=True)

    at: float = Field(default_factory=time.time)
    """Seconds since the epoch."""


class RunStarted(BaseEvent):
    type: Literal["run_started"] = "run_started"
    request: RunRequest
    listing: str | None
    """The project's top-level listing, as it stands in the first prompt."""
    upstreams: list[UpstreamStatus]
    tools: list[str]
    """Names of the tools that the run may call, in the pool's order."""
    approved_first: list[str] = []
    """Those of them that are not read-only: each call of one is decided on (`ApprovalAsked`)."""
    offered: list[str]
    """Those of them that the models are shown: all of a small pool, the best for the request of a
    large one."""


class ModelCalled(BaseEvent):
    """One entry of the ledger."""

    type: Literal["model_called"] = "model_called"
    role: Role
    model: str
    question: str
    """What was asked last; the messages before it follow from the events before this one."""
    reply: str
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens served from the prefix cache."""
    cached_told: bool
    """Whether the server told that; else it is worked out from the prompts."""
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
    by: Literal["lookup", "choice"] = "choice"
    """`lookup`: code looks up names of the request; `choice`: a model or the caller chose."""
    beside: bool = False
    """Whether the decision on the tool before named this one too."""


class BriefMade(BaseEvent):
    """How the request was read."""

    type: Literal["brief_made"] = "brief_made"
    search: list[str]
    """Words to search for, besides the request's own."""
    wants: Wants
    may_be_order: bool = False
    """Whether it was read as an action first, which no tool of the run can do: "Can you delete
    it?"."""


class PassagesGathered(BaseEvent):
    """What a question was looked up with: the passages that the models are shown."""

    type: Literal["passages_gathered"] = "passages_gathered"
    iteration: int
    """The last call of the look-up; the passages stand in its place."""
    query: str
    passages: list[Passage]


class ArgumentsWritten(BaseEvent):
    type: Literal["arguments_written"] = "arguments_written"
    iteration: int
    tool: str
    arguments: dict[str, Any]
    model: str | None
    """Who wrote them; None when the caller gave them."""


class ApprovalAsked(BaseEvent):
    """A call whose tool is not read-only is about to go out."""

    type: Literal["approval_asked"] = "approval_asked"
    iteration: int
    upstream: str
    tool: str
    arguments: dict[str, Any]
    """All of them, the operator's among them."""
    safety: Safety
    guessed: list[str] = []
    """The arguments that neither a result nor the request has, `name: value` each."""
    digest: str = ""
    """What an answer names the call by; whoever drives the run makes it (`server.approval`)."""


class ApprovalDecided(BaseEvent):
    """Whether it may: an `Approval`."""

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
    """Every iteration ends in one of these, also when the call was refused or never went out.
    Calls that are made side by side return in any order."""

    type: Literal["tool_returned"] = "tool_returned"
    iteration: int
    tool: str
    arguments: dict[str, Any]
    outcome: Outcome
    text: str
    seconds: float
    answered: bool = True
    """False when the call went out and nothing came back: nobody knows what it did."""


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
    """The upstream asks the person something."""

    type: Literal["question_asked"] = "question_asked"
    text: str


class QuestionAnswered(UpstreamEvent):
    """How the person reacted. No event has the answer itself, which is for the upstream only."""

    type: Literal["question_answered"] = "question_answered"
    action: Literal["accept", "decline", "cancel"]
    by: DecidedBy
    reason: str


class PlanMade(BaseEvent):
    type: Literal["plan_made"] = "plan_made"
    main_objective: str
    conclusion_from_assistant_data: str
    later_steps: list[str]
    tools: dict[str, str] = {}
    """The tool that each step is to call, by its objective; none where that is decided later."""


class ResultAssessed(BaseEvent):
    """What the full model made of the newest result when it decided how to go on, in deep mode."""

    type: Literal["result_assessed"] = "result_assessed"
    assessment: str
    belief: str
    critique: str


class StepStarted(BaseEvent):
    type: Literal["step_started"] = "step_started"
    number: int
    objective: str
    offered: list[str] = []
    """Tools shown from here on besides those before; none where the pool is shown whole."""


class StepContinued(BaseEvent):
    """The step stays open for another tool call."""

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
    """Something was said to the run; it waits for the next decision. Recorded when it comes, by
    whoever drives the run, not by the agent."""

    type: Literal["run_steered"] = "run_steered"
    steering: Steering


class SteeringTaken(BaseEvent):
    """What was said to the run holds from here on: a decision is next."""

    type: Literal["steering_taken"] = "steering_taken"
    steering: Steering
    later_steps: list[str]
    """As they are now."""
    offered: list[str] = []
    """Tools shown from here on besides those before: what the hint names or means."""


class GuardTripped(BaseEvent):
    type: Literal["guard_tripped"] = "guard_tripped"
    guard: str
    message: str


class ContextCompressed(BaseEvent):
    """Prompts were to grow beyond the context: the past stands in them in short from here on."""

    type: Literal["context_compressed"] = "context_compressed"
    up_to: int
    """The last iteration that does."""


class RunResumed(BaseEvent):
    """The server that ran the run had ended; another goes on with it. Recorded by whoever resumes
    the run, not by the agent."""

    type: Literal["run_resumed"] = "run_resumed"
    paused: float
    """Seconds since the event before, in which nothing was done."""


class RunContinued(BaseEvent):
    """A run that had ended is asked for more: another step, or the conclusion from all of them.
    Recorded by whoever takes the run up again; the agent finds it in its inbox."""

    type: Literal["run_continued"] = "run_continued"
    request: RunRequest
    spent: float
    """Seconds that the run had taken before."""
    paused: float
    """Seconds since the event before, in which nothing was done."""


class AnswerDelta(BaseEvent):
    """The next piece of an answer while a model writes it, before it is checked."""

    type: Literal["answer_delta"] = "answer_delta"
    text: str
    begins: bool
    """Whether it is the first piece: a try at an answer replaces the one before."""


class RunFinished(BaseEvent):
    type: Literal["run_finished"] = "run_finished"
    status: FinalStatus
    answer: str
    reason: str | None = None
    """Why it ended other than by a conclusion: the limit, the fault, the cancel."""
    quotes: list[str] = []
    """The lines that the answer rests on, as the model quoted them."""
    unsupported: list[str] = []
    """What the answer or its data says and no result does."""
    data: Any = None
    """The answer in the shape of the request's `data_schema`; None where there is none."""


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
"""What is told while it happens, and kept in no record."""
