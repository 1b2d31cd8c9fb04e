"""The state of a run: a fold of its events, and nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.events import (
    AnswerDelta,
    ApprovalAsked,
    ApprovalDecided,
    ArgumentsWritten,
    ContextCompressed,
    Event,
    FinalStatus,
    GuardTripped,
    ModelCalled,
    PlanMade,
    PlanRevised,
    QuestionAnswered,
    QuestionAsked,
    ResultAssessed,
    RunFinished,
    RunResumed,
    RunStarted,
    StepConcluded,
    StepContinued,
    StepStarted,
    ToolCalled,
    ToolProgressed,
    ToolReturned,
    ToolSelected,
    UpstreamLogged,
    WordsSuggested,
)
from planner.protocol import Mode
from planner.tools import Outcome

Status = Literal["running"] | FinalStatus


@dataclass
class Iteration:
    """One tool call and the decision on it."""

    number: int
    """From 0, over the whole run (source: seeds/003)."""
    step: int
    """The step it served; 0 is the gathering before the plan."""
    tool: str
    prompt: str
    by: Literal["lookup", "choice"] = "choice"
    beside: bool = False
    """Decided on together with the one before, and made side by side with it."""
    arguments: dict[str, Any] = field(default_factory=dict)
    asked: ApprovalAsked | None = None
    """Set for a tool that is not read-only, when its call was about to go out."""
    approval: ApprovalDecided | None = None
    """None while it is being decided."""
    upstream: str | None = None
    """None until the call goes out."""
    started: float = 0.0
    outcome: Outcome | None = None
    """None while the call is under way."""
    result: str = ""
    answered: bool = True
    """False when the call went out and nothing came back: nobody knows what it did."""
    seconds: float = 0.0
    exchange: list[tuple[str, str]] = field(default_factory=list)
    """What a model was asked about the result and what it replied, word for word."""
    mode: Mode = "fast"
    """How the decision on the result was asked for."""
    assessment: str = ""
    belief: str = ""
    critique: str = ""
    notes: str = ""
    """The model's notes for later on, made with this result before it."""

    @property
    def changes(self) -> bool:
        """Whether a call went out that may change something."""
        return self.asked is not None and self.upstream is not None


@dataclass
class Step:
    """An objective. It may take several iterations and is recorded as completed once."""

    number: int
    objective: str
    later_steps: list[str] = field(default_factory=list)
    """As they were when it began: its prompts only grow, so they show no newer ones before it."""
    completed: bool = False
    success: bool = False
    notes: str = ""
    offered: list[str] = field(default_factory=list)
    """Tools that the models are shown since it began."""
    last_iteration: int = -1
    """The last one that served it, once it is completed."""


NOT_THERE = "The first results do not hold the answer."
"""What a plan begins from when a try at the answer has failed."""


@dataclass
class Asked:
    """A question of an upstream."""

    question: QuestionAsked
    answer: QuestionAnswered | None = None
    """None while the person is waited for."""


@dataclass
class RunState:
    """What happened so far. Built by `apply`, event by event."""

    started: RunStarted | None = None
    status: Status = "running"
    main_objective: str | None = None
    conclusion_from_assistant_data: str = ""
    steps: list[Step] = field(default_factory=list)
    later_steps: list[str] = field(default_factory=list)
    iterations: list[Iteration] = field(default_factory=list)
    suggested: list[str] = field(default_factory=list)
    """A model's words to search for."""
    ledger: list[ModelCalled] = field(default_factory=list)
    guards: list[GuardTripped] = field(default_factory=list)
    draft: str = ""
    """What a model has written of an answer so far, unchecked; empty once the run has ended."""
    answer: str = ""
    reason: str | None = None
    unsupported: list[str] = field(default_factory=list)
    data: Any = None
    finished_at: float | None = None
    resumed: list[RunResumed] = field(default_factory=list)
    questions: list[Asked] = field(default_factory=list)
    """What upstreams asked the person."""
    compressed_up_to: int = -1
    """The last iteration that stands in prompts in short."""
    _first_open: int = 0

    @classmethod
    def of(cls, events: Iterable[Event]) -> "RunState":
        state = cls()
        for event in events:
            state.apply(event)
        return state

    @property
    def step(self) -> Step | None:
        """The step being worked on."""
        return self.steps[-1] if self.steps and not self.steps[-1].completed else None

    @property
    def completed_steps(self) -> list[Step]:
        return [step for step in self.steps if step.completed]

    @property
    def offered(self) -> list[str]:
        """The tools shown so far: a model may name each of them."""
        at_first = self.started.offered if self.started else []
        return [*at_first, *(name for step in self.steps for name in step.offered)]

    @property
    def open_iterations(self) -> list[Iteration]:
        """The iterations of the current step, and the gathering as long as the first one lasts."""
        return self.iterations[self._first_open :]

    @property
    def steps_in_short(self) -> list[Step]:
        """The completed steps that stand in prompts in short, from the first on."""
        return [
            step for step in self.completed_steps if step.last_iteration <= self.compressed_up_to
        ]

    @property
    def shown_iterations(self) -> list[Iteration]:
        """Those whose results stand in prompts. The gathering does as long as the first step does:
        the plan is made from it."""
        gathered = not self.steps_in_short
        return [
            each
            for each in self.iterations
            if (gathered if each.step == 0 else each.number > self.compressed_up_to)
        ]

    @property
    def iterations_in_short(self) -> list[Iteration]:
        """Those that stand in prompts in short, of a step that does not as a whole."""
        steps = len(self.steps_in_short)
        return [
            each
            for each in self.iterations
            if each.step > steps and each.number <= self.compressed_up_to
        ]

    @property
    def lookups(self) -> list[Iteration]:
        """The searches by code that the run began with."""
        return [each for each in self.iterations if each.by == "lookup"]

    @property
    def newest(self) -> list[Iteration]:
        """The iterations of the newest decision: one, or several side by side."""
        first = len(self.iterations) - 1
        while first > 0 and self.iterations[first].beside:
            first -= 1
        return self.iterations[max(first, 0) :]

    @property
    def undecided(self) -> Iteration | None:
        """The iteration whose call waits for approval."""
        return next((each for each in self.newest if each.asked and not each.approval), None)

    @property
    def tried(self) -> bool:
        """Whether the newest results were read for an answer, which they do not hold."""
        return bool(self.iterations and self.iterations[-1].exchange)

    @property
    def newest_prompt(self) -> int:
        """Tokens of the newest prompt and its reply."""
        return (
            self.ledger[-1].prompt_tokens + self.ledger[-1].generated_tokens if self.ledger else 0
        )

    @property
    def unanswered(self) -> QuestionAsked | None:
        """The upstream's question that the run waits with."""
        last = self.questions[-1] if self.questions else None
        return last.question if last and not last.answer and self.status == "running" else None

    @property
    def model_tokens(self) -> int:
        return sum(call.prompt_tokens + call.generated_tokens for call in self.ledger)

    def apply(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.started = event
            case ModelCalled():
                self.ledger.append(event)
                if event.role not in ("words", "select", "arguments", "again") and self.iterations:
                    self.iterations[-1].exchange.append((event.question, event.reply))
            case ToolSelected(tool=str(tool)):
                self.iterations.append(
                    Iteration(
                        number=len(self.iterations),
                        step=self.step.number if self.step else 0,
                        tool=tool,
                        prompt=event.prompt,
                        by=event.by,
                        beside=event.beside,
                        started=event.at,
                    )
                )
            case WordsSuggested():
                self.suggested = list(event.words)
            case ArgumentsWritten():
                self.iterations[event.iteration].arguments = event.arguments
            case ApprovalAsked():
                self.iterations[event.iteration].asked = event
            case ApprovalDecided():
                self.iterations[event.iteration].approval = event
            case ToolCalled():
                iteration = self.iterations[event.iteration]
                iteration.upstream, iteration.arguments = event.upstream, event.arguments
            case ToolReturned():
                iteration = self.iterations[event.iteration]
                iteration.arguments = event.arguments
                iteration.outcome = event.outcome
                iteration.result, iteration.answered = event.text, event.answered
                iteration.seconds = event.seconds
            case PlanMade():
                self.main_objective = event.main_objective
                self.conclusion_from_assistant_data = (
                    event.conclusion_from_assistant_data or NOT_THERE
                )
                self.later_steps = list(event.later_steps)
                if self.iterations:
                    self.iterations[-1].assessment = event.conclusion_from_assistant_data
            case StepStarted():
                later = [step for step in self.later_steps if step != event.objective]
                offered = list(event.offered)
                self.steps.append(Step(event.number, event.objective, later, offered=offered))
            case ResultAssessed():
                if self.iterations:
                    iteration = self.iterations[-1]
                    iteration.mode, iteration.assessment = "deep", event.assessment
                    iteration.belief, iteration.critique = event.belief, event.critique
            case StepContinued():
                if self.step:
                    self.step.notes = event.notes
                if self.iterations:
                    self.iterations[-1].notes = event.notes
            case StepConcluded():
                step = self.steps[event.number - 1]
                step.completed, step.success, step.notes = True, event.success, event.notes
                step.last_iteration = len(self.iterations) - 1
                self._first_open = len(self.iterations)
                if self.iterations:
                    self.iterations[-1].notes = event.notes
            case PlanRevised():
                self.later_steps = list(event.later_steps)
            case GuardTripped():
                self.guards.append(event)
            case ContextCompressed():
                self.compressed_up_to = event.up_to
            case RunResumed():
                self.resumed.append(event)
                if (asked := self.unanswered) is not None:
                    self.questions[-1].answer = QuestionAnswered(
                        at=event.at,
                        iteration=asked.iteration,
                        upstream=asked.upstream,
                        tool=asked.tool,
                        action="cancel",
                        by="no_way_to_ask",
                        reason="the server ended",
                    )
            case QuestionAsked():
                self.questions.append(Asked(event))
            case QuestionAnswered():
                self.questions[-1].answer = event
            case ToolProgressed() | UpstreamLogged():
                pass  # for whoever watches
            case AnswerDelta():
                self.draft = event.text if event.begins else self.draft + event.text
            case RunFinished():
                self.draft = ""
                self.status, self.answer, self.reason = event.status, event.answer, event.reason
                self.unsupported = list(event.unsupported)
                self.data = event.data
                self.finished_at = event.at
            case ToolSelected():
                pass  # no tool is needed: the next event is the conclusion
