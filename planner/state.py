"""The state of a run: a fold of its events, and nothing else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from planner import events
from planner.passage import Passage
from planner.protocol import Mode, RunRequest, Steering, Wants
from planner.text import flat
from planner.tools import Arguments, Outcome

Status = Literal["running"] | events.FinalStatus


@dataclass
class Iteration:
    number: int
    """From 0, over the whole run."""
    step: int
    """The step it was made for; 0 is the gathering before the plan."""
    tool: str
    prompt: str
    part: int = 0
    """The index of its request in `RunState.parts`."""
    by: events.MadeBy = "choice"
    beside: bool = False
    """Whether it was chosen together with the one before, and made side by side with it."""
    arguments: Arguments = field(default_factory=dict)
    by_model: bool = False
    asked: events.ApprovalAsked | None = None
    """Set for a tool that is not read-only, before its call is sent."""
    approval: events.ApprovalDecided | None = None
    """None while it is being decided."""
    upstream: str | None = None
    """None until the call is sent."""
    started: float = 0.0
    outcome: Outcome | None = None
    """None while the call is under way."""
    result: str = ""
    answered: bool = True
    seconds: float = 0.0
    gathered: events.PassagesGathered | None = None
    """Set on the last call of a look-up: the passages from all its calls."""
    exchange: list[events.ModelCalled] = field(default_factory=list)
    """What a model was asked about the result, and what it replied."""
    mode: Mode = "fast"
    assessment: str = ""
    belief: str = ""
    critique: str = ""
    notes: str = ""

    @property
    def succeeded(self) -> bool:
        return self.outcome is Outcome.SUCCESS

    @property
    def changes(self) -> bool:
        """Whether a call that may change something was sent."""
        return self.asked is not None and self.upstream is not None

    @property
    def changed(self) -> bool:
        """Whether such a call succeeded."""
        return self.changes and self.succeeded


@dataclass
class Step:
    """An objective, which may take several iterations."""

    number: int
    objective: str
    later_steps: list[str] = field(default_factory=list)
    """As they were when it began: its prompts only grow, so they show no newer ones before it."""
    completed: bool = False
    success: bool = False
    notes: str = ""
    offered: list[str] = field(default_factory=list)
    """Tools that are shown to the models since it began."""
    begun: tuple[int, int] = (-1, 0)
    """The iteration before it, and how many questions about its result had been asked."""
    last_iteration: int = -1
    """Its last one, once it is completed."""
    asks: bool = False
    """Whether the objective is a question that is read for in place of the request."""


def plain(objective: str) -> str:
    """An objective for comparison: models copy it with other capitals, or add a full stop."""
    return flat(objective.casefold()).rstrip(".")


def skipped(said: Sequence[Steering]) -> set[str]:
    return {plain(step) for each in said for step in each.skip}


def wanted_first(said: Sequence[Steering]) -> list[str]:
    """The later steps that the user wants done before the others, as last said, `plain`."""
    order = next((each.order for each in reversed(said) if each.order), [])
    return [plain(step) for step in order]


def steered(later_steps: Sequence[str], said: Sequence[Steering]) -> list[str]:
    out, first = skipped(said), wanted_first(said)
    kept = [step for step in later_steps if plain(step) not in out]
    return sorted(
        kept, key=lambda step: first.index(plain(step)) if plain(step) in first else len(first)
    )


@dataclass
class Steered:
    said: Steering
    iteration: int
    """The newest one then, whose result the models see it with; -1 if there was none."""
    changed: list[str] | None = None
    """The later steps, if it changed them."""
    offered: list[str] = field(default_factory=list)
    shown: bool = False


@dataclass
class Part:
    """One request of a run, which may have several, or one item of a request that is a list."""

    request: RunRequest
    asked: RunRequest
    """The request as the run got it: the same, unless it is an item."""
    first: int = 0
    """Its first iteration, if it has any."""
    spent: float = 0.0
    """The seconds, model calls and steps that the run had before it."""
    calls: int = 0
    steps: int = 0
    brief: events.BriefMade | None = None
    opening: list[events.ModelCalled] = field(default_factory=list)
    """What a model was asked before the first tool call, and what it replied."""
    before: list[str] = field(default_factory=list)
    """Of an item: the items before it and their answers."""

    @property
    def is_item(self) -> bool:
        return self.request is not self.asked

    @property
    def ends_at(self) -> float:
        """When its time is over, in seconds of the run's clock."""
        return self.spent + self.request.limits.seconds


def _item(asked: RunRequest, event: events.ItemStarted) -> RunRequest:
    """The request for one item of a list, with an equal share of the seconds and the calls."""
    seconds = asked.limits.seconds / event.of
    iterations = max(1, asked.limits.iterations // event.of)
    limits = asked.limits.model_copy(update={"seconds": seconds, "iterations": iterations})
    return asked.model_copy(update={"prompt": event.prompt, "limits": limits})


@dataclass
class Asked:
    question: events.QuestionAsked
    answer: events.QuestionAnswered | None = None
    """None while the person is waited for."""


@dataclass
class RunState:
    """What happened so far. Built by `apply`, event by event."""

    started: events.RunStarted | None = None
    status: Status = "running"
    main_objective: str | None = None
    steps: list[Step] = field(default_factory=list)
    later_steps: list[str] = field(default_factory=list)
    planned_tools: dict[str, str] = field(default_factory=dict)
    """The tool that each step should call, by its objective."""
    iterations: list[Iteration] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    ledger: list[events.ModelCalled] = field(default_factory=list)
    guards: list[events.GuardTripped] = field(default_factory=list)
    draft: str = ""
    """What a model has written so far of an answer that is not checked yet."""
    answer: str = ""
    model_says: str | None = None
    reason: str | None = None
    quotes: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    data: Any = None
    finished_at: float | None = None
    resumed: list[events.RunResumed] = field(default_factory=list)
    questions: list[Asked] = field(default_factory=list)
    paused: float = 0.0
    """Seconds in which no server drove it."""
    waiting: list[Steering] = field(default_factory=list)
    steered: list[Steered] = field(default_factory=list)
    compressed_up_to: int = -1
    """The last iteration that prompts have in the short form."""
    _first_open: int = 0

    @classmethod
    def of(cls, record: Iterable[events.Event]) -> "RunState":
        state = cls()
        for event in record:
            state.apply(event)
        return state

    @property
    def step(self) -> Step | None:
        return self.steps[-1] if self.steps and not self.steps[-1].completed else None

    @property
    def completed_steps(self) -> list[Step]:
        return [step for step in self.steps if step.completed]

    @property
    def part(self) -> Part:
        """The newest request, of a run that has begun."""
        return self.parts[-1]

    @property
    def request(self) -> RunRequest | None:
        """The newest request, as the run got it."""
        return self.parts[-1].asked if self.parts else None

    @property
    def opens(self) -> Part:
        """The request that prompts begin with: the run's first one, or the item that is met."""
        return self.part if self.part.is_item else self.parts[0]

    @property
    def prompt(self) -> str:
        """What is met now: the newest request, or an item of it."""
        return self.parts[-1].request.prompt if self.parts else ""

    @property
    def question(self) -> str:
        """What is read for now: a question of the newest request, or all of it."""
        if self.step and self.step.asks:
            return self.step.objective
        return self.prompt

    @property
    def single_steps(self) -> bool:
        """Whether the caller plans, and asks for one step at a time."""
        return bool(self.parts) and self.parts[0].request.goal in ("plan", "step")

    @property
    def part_iterations(self) -> list[Iteration]:
        """Those made for the newest request."""
        return self.iterations[self.parts[-1].first :] if self.parts else []

    @property
    def iterations_asked(self) -> list[Iteration]:
        """Those made for the newest request as the run got it: for all items of a list."""
        of_it = [part.first for part in self.parts if part.asked is self.part.asked]
        return self.iterations[of_it[0] :] if of_it else []

    @property
    def looked_up(self) -> set[str | None]:
        """The upstreams that the planner's own calls for the newest request were made of."""
        return {each.upstream for each in self.part_iterations if each.by == "lookup"}

    @property
    def offered(self) -> list[str]:
        """The tools shown so far, any of which a model may name."""
        at_first = self.started.offered if self.started else []
        briefs = filter(None, [self.opens.brief])
        steps = self.steps[self.opens.steps :]
        later: list[events.BriefMade | Step | Steered] = [*briefs, *steps, *self.steered]
        return [*at_first, *(name for each in later for name in each.offered)]

    @property
    def user_words(self) -> str:
        prompts = [part.request.prompt for part in self.parts]
        return "\n".join([*prompts, *(each.said.hint for each in self.steered if each.said.hint)])

    @property
    def said_by_user(self) -> str:
        """What a call may be made with: the user's words, also from before the run."""
        before = (part.request.user_said_before for part in self.parts)
        return "\n".join([*filter(None, before), self.user_words])

    @property
    def unshown(self) -> list[Steered]:
        """The steering that the models see with the next question."""
        return [each for each in self.steered if not each.shown]

    @property
    def steering(self) -> list[Steering]:
        return [*self.said, *self.waiting]

    @property
    def said(self) -> list[Steering]:
        return [each.said for each in self.steered]

    @property
    def open_iterations(self) -> list[Iteration]:
        """The iterations of the current step, and the gathering as long as the first one lasts."""
        return self.iterations[self._first_open :]

    @property
    def steps_in_short(self) -> list[Step]:
        """The completed steps that prompts have in the short form, from the first on."""
        return [
            step for step in self.completed_steps if step.last_iteration <= self.compressed_up_to
        ]

    @property
    def shown_iterations(self) -> list[Iteration]:
        """Those whose results are in prompts. The gathering stays as long as the first step, since
        the plan is made from it. An item's prompts have nothing of the items before it."""
        gathered, item = not self.steps_in_short, bool(self.parts) and self.part.is_item
        return [
            each
            for each in self.iterations
            if (each.number > self.compressed_up_to if each.step or item else gathered)
        ]

    @property
    def iterations_in_short(self) -> list[Iteration]:
        """Those that prompts have in the short form, of steps that are not short as a whole."""
        steps = len(self.steps_in_short)
        return [
            each
            for each in self.iterations
            if each.step > steps and each.number <= self.compressed_up_to
        ]

    @property
    def brief(self) -> events.BriefMade | None:
        return self.parts[-1].brief if self.parts else None

    @property
    def wants(self) -> Wants:
        return self.brief.wants if self.brief else "short answer"

    @property
    def search(self) -> list[str]:
        """Words to search for, besides the newest request's own."""
        return self.brief.search if self.brief else []

    @property
    def may_be_order(self) -> bool:
        """Whether the request was read as a question, and may be an order."""
        return self.brief is not None and self.brief.may_be_order

    @property
    def passages(self) -> list[Passage]:
        """All passages that the models were shown for this request, or this item, each once."""
        first = self.opens.first if self.parts else 0
        shown = {
            (each.source, each.first, each.last): each
            for iteration in self.iterations[first:]
            if iteration.gathered
            for each in iteration.gathered.passages
        }
        return list(shown.values())

    @property
    def newest(self) -> list[Iteration]:
        """The iterations of the newest decision: one, or several side by side."""
        first = len(self.iterations) - 1
        while first > 0 and self.iterations[first].beside:
            first -= 1
        return self.iterations[max(first, 0) :]

    @property
    def undecided(self) -> events.ApprovalAsked | None:
        """The call that waits for approval."""
        return next((each.asked for each in self.newest if each.asked and not each.approval), None)

    @property
    def newest_prompt(self) -> int:
        if not self.ledger:
            return 0
        return self.ledger[-1].prompt_tokens + self.ledger[-1].generated_tokens

    @property
    def own_words(self) -> str:
        """What of the answer is a model's own words, which results have to support."""
        return self.answer if self.model_says is None else self.model_says

    @property
    def unanswered(self) -> events.QuestionAsked | None:
        """The upstream's question that the run waits for."""
        last = self.questions[-1] if self.questions else None
        return last.question if last and not last.answer and self.status == "running" else None

    @property
    def model_tokens(self) -> int:
        return sum(call.prompt_tokens + call.generated_tokens for call in self.ledger)

    @property
    def model_seconds(self) -> float:
        return sum(call.seconds for call in self.ledger[self.part.calls :])

    def _begin(self, request: RunRequest, asked: RunRequest, spent: float) -> None:
        had = (len(self.iterations), spent, len(self.ledger), len(self.steps))
        self.parts.append(Part(request, asked, *had))

    def apply(self, event: events.Event) -> None:
        match event:
            case events.RunStarted():
                self.started = event
                self.paused = 0.0  # what was before counts as waiting for its turn
                self.parts = [Part(event.request, event.request)]
            case events.RunContinued():
                self._begin(event.request, event.request, event.spent)
                self.status, self.answer, self.reason = "running", "", None
                self.model_says = None
                self.quotes, self.unsupported, self.data, self.finished_at = [], [], None, None
                self.paused += event.paused
            case events.ItemStarted():
                part = self.part
                spent = part.ends_at
                if event.number == 1:  # it takes the place of the request
                    spent = self.parts.pop().spent
                self._begin(_item(part.asked, event), part.asked, spent)
                self.part.before = list(event.before)
                self.later_steps, self.planned_tools = [], {}
                self._first_open = len(self.iterations)
                self.compressed_up_to = len(self.iterations) - 1
            case events.ModelCalled():
                self.ledger.append(event)
                if event.role not in events.ASIDE:
                    for each in self.unshown:
                        each.shown = True
                    concludes = event.role == "conclude"  # also a step that needed no call
                    shown = self.iterations[(self.opens if concludes else self.part).first :]
                    (shown[-1].exchange if shown else self.part.opening).append(event)
            case events.ToolSelected(tool=str(tool)):
                self.draft = ""  # the try at an answer was not taken
                self.iterations.append(
                    Iteration(
                        number=len(self.iterations),
                        step=self.step.number if self.step else 0,
                        tool=tool,
                        prompt=event.prompt,
                        part=len(self.parts) - 1,
                        by=event.by,
                        beside=event.beside,
                        started=event.at,
                    )
                )
            case events.BriefMade():
                self.part.brief = event
            case events.PassagesGathered():
                self.iterations[event.iteration].gathered = event
            case events.ArgumentsWritten():
                self.iterations[event.iteration].arguments = event.arguments
                self.iterations[event.iteration].by_model = event.model is not None
            case events.ApprovalAsked():
                self.iterations[event.iteration].asked = event
            case events.ApprovalDecided():
                self.iterations[event.iteration].approval = event
            case events.ToolCalled():
                iteration = self.iterations[event.iteration]
                iteration.upstream, iteration.arguments = event.upstream, event.arguments
            case events.ToolReturned():
                iteration = self.iterations[event.iteration]
                iteration.arguments = event.arguments
                iteration.outcome = event.outcome
                iteration.result, iteration.answered = event.text, event.answered
                iteration.seconds = event.seconds
            case events.PlanMade():
                self.draft = ""
                self.main_objective = event.main_objective
                self.later_steps = list(event.later_steps)
                self.planned_tools = dict(event.tools)
                if self.iterations:
                    self.iterations[-1].assessment = event.conclusion_from_assistant_data
            case events.StepStarted():
                later = [step for step in self.later_steps if step != event.objective]
                offered = list(event.offered)
                step = Step(event.number, event.objective, later, offered=offered, asks=event.asks)
                if self.iterations:
                    last = self.iterations[-1]
                    step.begun = (last.number, len(last.exchange))
                self.steps.append(step)
            case events.ResultAssessed():
                if self.iterations:
                    iteration = self.iterations[-1]
                    iteration.mode, iteration.assessment = "deep", event.assessment
                    iteration.belief, iteration.critique = event.belief, event.critique
            case events.StepContinued():
                if self.step:
                    self.step.notes = event.notes
                if self.iterations:
                    self.iterations[-1].notes = event.notes
            case events.StepConcluded():
                step = self.steps[event.number - 1]
                step.completed, step.success, step.notes = True, event.success, event.notes
                step.last_iteration = len(self.iterations) - 1
                self._first_open = len(self.iterations)
                if self.iterations:
                    self.iterations[-1].notes = event.notes
            case events.PlanRevised():
                self.later_steps = list(event.later_steps)
            case events.RunSteered():
                self.waiting.append(event.steering)
            case events.SteeringTaken():
                self.waiting = self.waiting[1:]  # they are taken in the order they came in
                changed = event.later_steps if event.later_steps != self.later_steps else None
                newest, offered = len(self.iterations) - 1, list(event.offered)
                self.steered.append(Steered(event.steering, newest, changed, offered))
                self.later_steps = list(event.later_steps)
            case events.GuardTripped():
                self.guards.append(event)
            case events.ContextCompressed():
                self.compressed_up_to = event.up_to
            case events.RunResumed():
                self.resumed.append(event)
                self.paused += event.paused
                if (asked := self.unanswered) is not None:
                    self.questions[-1].answer = events.QuestionAnswered(
                        at=event.at,
                        iteration=asked.iteration,
                        upstream=asked.upstream,
                        tool=asked.tool,
                        action="cancel",
                        by="no_way_to_ask",
                        reason="the server ended",
                    )
            case events.QuestionAsked():
                self.questions.append(Asked(event))
            case events.QuestionAnswered():
                self.questions[-1].answer = event
            case events.ToolProgressed() | events.UpstreamLogged():
                pass  # only views show them
            case events.AnswerDelta():
                self.draft = event.text if event.begins else self.draft + event.text
            case events.RunFinished():
                self.draft = ""
                self.status, self.answer, self.reason = event.status, event.answer, event.reason
                self.model_says = event.model_says
                self.quotes = list(event.quotes)
                self.unsupported = list(event.unsupported)
                self.data = event.data
                self.finished_at = event.at
            case events.ToolSelected():
                pass  # no tool is needed: the next event is the conclusion
