"""The planning agent: from a request to an answer, by the protocol of seeds/000 and 001.

    gather:    code looks up the names in the request; where that finds nothing, the fast model
               selects a tool, a model writes its arguments, the tool is called
    answer:    on every result the full model first tries the answer, and code looks its facts up
    plan:      where the results do not hold it, the full model makes a plan
    iterate:   arguments, call, and one decision: conclude, stay in the step, or move on
    conclude:  the last iteration has to; a run never ends without an answer
    format:    on request, the answer is put into the shape of the caller's JSON Schema

A decision is asked for in fast or in deep mode (`planner.actions.mode`).

Everything that happens is an event; what the next prompt needs is a fold of them (`RunState`).
"""

import re
from collections.abc import Callable
from typing import Any

from planner import guards, schemas
from planner.asking import Asker
from planner.calling import Caller, permitted
from planner.clock import Clock
from planner.errors import ModelError, RequestError
from planner.events import (
    Event,
    FinalStatus,
    GuardTripped,
    PlanMade,
    PlanRevised,
    RunFinished,
    RunStarted,
    SteeringTaken,
    StepConcluded,
    StepContinued,
    StepStarted,
    ToolSelected,
)
from planner.findings import facts, misses
from planner.formatting import Shaped, shaped
from planner.grounding import agree, unsupported, unsupported_data
from planner.inbox import Inbox
from planner.lookup import Lookup, looked_up
from planner.models import Models
from planner.prompts import Prompts
from planner.protocol import (
    Call,
    Conclude,
    MakePlan,
    MoveOn,
    RunRequest,
    Stay,
    ToolChoice,
)
from planner.ranking import Ranking
from planner.state import RunState, steered
from planner.tools import Approval, Approver, Outcome, ToolPool, ToolSpec, refuse

RESULT_CHARACTERS = 1800
"""Of one tool result, in a prompt; some 500 tokens, 15 s for a 1.5B model on two cores."""
CONCLUSION_SHARE = 0.2
"""Of the run's seconds, kept back for the conclusion."""
CONCLUSION_SECONDS = 60.0
"""At most so much is kept back."""
ANSWERING = ("answer", "conclude")
"""The goals that end in an answer for the user."""


async def run(
    request: RunRequest,
    models: Models,
    pool: ToolPool,
    record: Callable[[Event], None],
    approver: Approver = refuse,
    clock: Clock | None = None,
    inbox: Inbox | None = None,
) -> RunState:
    """Run a request to its end, recording every event, and return the final state. `approver` is
    asked before each call whose tool is not read-only. Before each decision the `inbox` is looked
    into; None: one that stays empty.

    Always ends in `RunFinished`, except when cancelled or when the request itself is wrong
    (`RequestError`): a model or a tool that fails is part of the run. `clock` holds the run to its
    seconds; None: one that begins now. What comes from outside are these arguments alone: with the
    same replies and results, in the same order, a run records the same events.
    """
    check(request)
    begun = _Run(request, models, pool, record, approver, clock or Clock(), inbox or Inbox())
    return await begun.to_its_end()


def cut_short(state: RunState, reason: str) -> RunFinished:
    """The honest end of a run that cannot go on: what was found, as it was found."""
    return _without_model(state, Prompts([], RESULT_CHARACTERS, False), reason)


def _without_model(state: RunState, prompts: Prompts, reason: str) -> RunFinished:
    found = [f"- {step.objective}: {step.notes}" for step in state.completed_steps]
    found += [
        f"- {each.tool} returned: {prompts.shown_result(state, each)[:600]}"
        for each in state.open_iterations
        if each.outcome is Outcome.SUCCESS and each not in state.lookups[:-1]
    ]
    answer = f"Could not find out: {reason.rstrip('.')}."
    if found:
        answer += "\n\nFound so far:\n" + "\n".join(found)
    return RunFinished(status="partial" if found else "failed", answer=answer, reason=reason)


def check(request: RunRequest) -> None:
    """Raises `RequestError` for a request that no run can meet."""
    if not request.prompt.strip():
        raise RequestError("The prompt is empty. Say what you want to know.")
    if request.data_schema is not None:
        problem = schemas.data_schema_problem(request.data_schema)
        if problem:
            raise RequestError(f"data_schema: {problem}. Mend it, or leave it out.")


class LimitReached(Exception):
    """A limit of the run; its text is the reason given to the user."""


class _Run:
    def __init__(
        self,
        request: RunRequest,
        models: Models,
        pool: ToolPool,
        record: Callable[[Event], None],
        approver: Approver,
        clock: Clock,
        inbox: Inbox,
    ) -> None:
        self.request = request
        self.clock = clock
        self.inbox = inbox
        self.pool = pool
        self.state = RunState()
        self.unsure: str | None = None
        """Why the answer is not certain, though the results hold what it says."""
        self.read_once: str | None = None
        """The answer of a first reading, should there be no time for a second."""
        self._record = record
        self._approver = approver
        tools = list(pool.tools())
        self.ranking = Ranking(permitted(tools, request.policy))
        self.prompts = Prompts(self.ranking.tools, RESULT_CHARACTERS, models.fused)
        self.asker = Asker(models, self.ranking.tools, self.prompts, self.state, self.emit)
        self.caller = Caller(
            pool,
            tools,
            self.asker,
            self.state,
            self.emit,
            request.policy,
            self.approve,
            clock,
        )

    def emit(self, event: Event) -> None:
        self.state.apply(event)
        self._record(event)

    # The way of a request.

    async def to_its_end(self) -> RunState:
        self.emit(
            RunStarted(
                request=self.request,
                listing=await self.pool.listing(),
                upstreams=list(self.pool.upstreams()),
                tools=[tool.name for tool in self.ranking.tools],
                approved_first=[tool.name for tool in self.ranking.tools if not tool.read_only],
                offered=self.ranking.for_request(self.request),
            )
        )
        await self.meet_request()
        while more := self.inbox.next_request():
            self.emit(more)
            self.request = more.request
            self.caller.policy = more.request.policy
            self.unsure = self.read_once = None
            await self.meet_request()
        return self.state

    async def meet_request(self) -> RunState:
        """Do what is asked of the run now, up to `RunFinished`."""
        limit = self.request.limits.seconds
        kept_back = min(limit * CONCLUSION_SHARE, CONCLUSION_SECONDS)
        reason: str | None = None
        conclusion: Conclude | None = None
        try:
            with self.clock.limit(self.ends_at - kept_back) as time_limit:
                conclusion = await self.work()
            if time_limit.cancelled_caught:
                reason = f"the time limit of {limit:g} s was reached"
        except LimitReached as reached:
            reason = str(reached)
        except ModelError as error:
            return self.finish_without_model(str(error))
        if conclusion is None and self.read_once and self.unsure:
            conclusion = Conclude(final_answer=self.read_once)
        if conclusion is None:
            try:
                with self.clock.limit(min(self.clock.seconds + kept_back, self.ends_at)):
                    self.take_steering()
                    conclusion = await self.asker.conclude()
                    if conclusion.success and self.request.goal in ANSWERING:
                        await self.read_again(conclusion.final_answer)
            except ModelError as error:
                return self.finish_without_model(f"{reason}; {error}" if reason else str(error))
        if conclusion is None:
            return self.finish_without_model(reason or "the conclusion took too long")
        return await self.finish(conclusion, reason)

    @property
    def ends_at(self) -> float:
        """When the request's time is over, in seconds of the run's clock."""
        return self.state.parts[-1].spent + self.request.limits.seconds

    async def approve(self, tool: ToolSpec, arguments: dict[str, Any]) -> Approval:
        """What the approver says. The time a person takes is not the run's."""
        self.clock.hold()
        try:
            return await self._approver(tool, arguments)
        finally:
            self.clock.release()

    async def work(self) -> Conclude | None:
        """The protocol. None means that a conclusion is still due."""
        if self.request.goal == "conclude":
            return None
        if self.request.goal == "step":
            self.begin_single_step()
        if not await self.gather():
            return None
        if not self.take_steering() and (conclusion := self.nothing_there()):
            return conclusion
        if self.request.goal == "step":
            return None
        if self.request.goal == "plan":
            self.make(await self.plan())
            return Conclude(final_answer=self.state.conclusion_from_assistant_data)
        if self.stuck():
            return None
        decision: Conclude | MakePlan | Stay | MoveOn | None
        decision = await self.answer() or await self.plan()
        while not isinstance(decision, Conclude):
            calls = self.follow(decision)[: self.calls_left]
            step = self.state.step
            if step and step.offered and not isinstance(decision, Stay):
                calls[0] = await self.asker.select_for_step(step, calls[0])
            await self.caller.call(*calls)
            self.hold_limits()
            spoken_to = self.take_steering()
            if self.stuck():
                return None
            last_step = not self.state.later_steps
            # What the user has just said is decided on: an answer would pass it over.
            if last_step and not spoken_to and (conclusion := await self.answer()):
                return conclusion
            decision = await self.decide()
            if decision is None:
                return None
            if isinstance(decision, Conclude) and decision.success and not last_step:
                return await self.answer() or decision
        return decision

    def take_steering(self) -> bool:
        """Take what was said to the run meanwhile, from here on; whether there was anything."""
        said = self.inbox.steering()
        for each in said:
            shown = self.state.offered
            brought = self.ranking.for_step(each.hint) if each.hint else []
            self.emit(
                SteeringTaken(
                    steering=each,
                    later_steps=steered(self.state.later_steps, [*self.state.said, each]),
                    offered=[name for name in brought if name not in shown],
                )
            )
        return bool(said)

    async def plan(self) -> MakePlan:
        self.take_steering()
        return await self.asker.plan()

    async def decide(self) -> Conclude | Stay | MoveOn | None:
        """The next decision; None when it goes twice against what the user has said, so that a
        conclusion is due."""
        self.take_steering()
        problem: str | None = None
        for _ in range(2):
            decision = await self.asker.decide(problem)
            problem = guards.against_the_user(self.state, decision)
            if problem is None:
                return decision
            self.emit(GuardTripped(guard="steering", message=problem))
        return None

    def stuck(self) -> bool:
        """Whether more calls will not help, so that a conclusion is due. Before that comes to pass,
        one call of another tool is made."""
        fruitless = guards.fruitless(self.state)
        if len(fruitless) < guards.FRUITLESS_DECISIONS:
            return False
        message = f"the last {sum(map(len, fruitless))} calls brought nothing new"
        another = len(fruitless) == guards.FRUITLESS_DECISIONS and bool(self.asker.choices)
        without = ", ".join(guards.left_out(self.state))
        message += f"; going on without {without}" if another else "; concluding"
        self.emit(GuardTripped(guard="no_progress", message=message))
        return not another

    def nothing_there(self) -> Conclude | None:
        """What needs no model: the look-up shows that what is asked about is not in the project."""
        lookup = looked_up(self.state)
        if not self.settles(lookup):
            return None
        if lookup.beyond:
            message = f"nothing in the project mentions {', '.join(lookup.reading.world)}"
            self.emit(GuardTripped(guard="beyond", message=message))
            return Conclude(final_answer=f"Could not be found out: {message}.", success=False)
        message = f"no line of the project mentions {' or '.join(lookup.unmentioned)}"
        self.emit(GuardTripped(guard="absent", message=message))
        none = "No, there is none" if lookup.reading.whether else "It is nowhere"
        return Conclude(final_answer=f"{none}: {message}.")

    def settles(self, lookup: Lookup) -> bool:
        """Whether it is the answer that the project does not mention something: not for a request
        that may be about something else, which other upstreams know."""
        if self.request.goal != "answer" or not (lookup.absent or lookup.beyond):
            return False
        upstreams = {tool.upstream for tool in self.ranking.tools}
        return len(upstreams) == 1 or lookup.reading.about_project

    async def gather(self) -> bool:
        """The first facts; False when there are none and the model needs none."""
        if self.request.tool is None:
            lookup = await self.caller.look_up()
            if lookup.vague and self.request.goal != "step" and not self.settles(lookup):
                await self.asker.words()
                lookup = await self.caller.look_up()
            if lookup.lines or self.settles(lookup):
                return True
        given = self.request.tool
        tool = ToolChoice(given) if given else await self.asker.select_tool()
        if tool is None:
            self.emit(ToolSelected(tool=None, prompt=self.request.prompt))
            return bool(self.state.iterations)
        call = Call(prompt=self.request.prompt, tool=tool)
        await self.caller.call(call, given=self.request.arguments)
        if self.request.goal == "answer":
            self.hold_limits()
        return True

    def follow(self, decision: MakePlan | Stay | MoveOn) -> list[Call]:
        """Record what was decided; returns the next tool calls."""
        match decision:
            case MakePlan():
                self.make(decision)
                return decision.tool_calls
            case Stay():
                self.emit(StepContinued(number=len(self.state.steps), notes=decision.notes))
                self.revise(decision.later_steps)
                return decision.tool_calls
            case MoveOn():
                number = len(self.state.steps)
                self.emit(
                    StepConcluded(
                        number=number,
                        success=decision.decision == "move_on",
                        notes=decision.notes,
                    )
                )
                self.asker.let_go()
                planned = [*self.state.later_steps, self.state.main_objective or ""]
                self.revise(decision.later_steps)
                self.start_step(number + 1, decision.objective or planned[0])
                return decision.tool_calls

    def make(self, plan: MakePlan) -> None:
        self.emit(
            PlanMade(
                main_objective=plan.main_objective,
                conclusion_from_assistant_data=plan.assessment,
                later_steps=plan.later_steps,
            )
        )
        self.start_step(1, plan.objective)

    def start_step(self, number: int, objective: str) -> None:
        shown = self.state.offered
        offered = [name for name in self.ranking.for_step(objective) if name not in shown]
        self.emit(StepStarted(number=number, objective=objective, offered=offered))
        if objective in self.state.later_steps:  # it is no longer a later one
            self.revise([step for step in self.state.later_steps if step != objective])

    def begin_single_step(self) -> None:
        """The step that a request is for: the one that is planned next, or a new one."""
        prompt, planned = self.request.prompt, self.state.step
        if planned and prompt not in self.state.later_steps:
            return
        if planned:
            self.conclude_single_step(success=False, notes="Left out.")
        self.start_step(len(self.state.steps) + 1, prompt)

    def conclude_single_step(self, success: bool, notes: str) -> None:
        if self.state.step:
            number = self.state.step.number
            self.emit(StepConcluded(number=number, success=success, notes=notes))

    def revise(self, later_steps: list[str] | None) -> None:
        if later_steps is None:
            return
        revised = steered(later_steps, self.state.said)
        if revised != self.state.later_steps:
            self.emit(PlanRevised(later_steps=revised))

    @property
    def calls_left(self) -> int:
        made = sum(each.by == "choice" for each in self.state.part_iterations)
        return self.request.limits.iterations - made

    def hold_limits(self) -> None:
        limits = self.request.limits
        if self.calls_left <= 0:
            raise LimitReached(f"the limit of {limits.iterations} iterations was reached")
        if self.state.model_tokens >= limits.model_tokens:
            raise LimitReached(f"the limit of {limits.model_tokens} model tokens was reached")

    async def finish(self, conclusion: Conclude, reason: str | None) -> RunState:
        answer = conclusion.final_answer
        if self.request.goal != "plan" and not answer.strip():
            return self.finish_without_model(reason or "the model gave no answer")
        found = conclusion.success and not guards.gives_up(answer)
        formatted = await self.format(answer) if found else Shaped()
        if self.request.goal == "step":
            self.conclude_single_step(found, answer)
        elif self.state.step and self.request.goal == "answer":
            self.emit(
                StepConcluded(
                    number=self.state.step.number,
                    success=conclusion.success,
                    notes=conclusion.assessment,
                )
            )
        status: FinalStatus = "answered"
        missing: list[str] = []
        doubt: str | None = None
        if not found:
            status = "partial" if reason else "not_found"
        elif self.request.goal != "plan":
            missing = unsupported(self.state, answer)
            doubt = self.doubt(answer, missing) or self.unsure
            missing += unsupported_data(self.state, answer, formatted.data)
        if missing or doubt:
            status = "partial"
            reason = reason or doubt or f"no result says {', '.join(missing)}"
        if formatted.problem:
            status = "partial"
            unfit = f"the answer could not be put into data_schema: {formatted.problem}"
            reason = f"{reason}; {unfit}" if reason else unfit
        self.emit(
            RunFinished(
                status=status,
                answer=answer,
                reason=reason,
                unsupported=missing,
                data=formatted.data,
            )
        )
        return self.state

    async def format(self, answer: str) -> Shaped:
        """The answer as data, while its step's results still stand in the prompt."""
        schema = self.request.data_schema
        if schema is None or self.request.goal not in ANSWERING:
            return Shaped()
        with self.clock.limit(self.ends_at):
            return await shaped(answer, schema, self.asker, self.emit)
        return Shaped(problem="the time limit was reached")

    def finish_without_model(self, reason: str) -> RunState:
        ended = _without_model(self.state, self.prompts, reason)
        if self.request.goal == "step":
            self.conclude_single_step(success=False, notes=reason)
        self.emit(ended)
        return self.state

    async def answer(self) -> Conclude | None:
        """A try at the answer; None when the results do not hold it, or it says what none does.

        A small model answers well from lines it sees and decides badly whether to: asked for both
        at once it plans on with the answer before its eyes. So it answers first, and code checks.
        """
        problem: str | None = None
        for _ in range(2):
            said = await self.asker.answer(problem)
            if said.found_in != "results" or not said.final_answer.strip():
                break
            answer = said.final_answer
            problem = self.doubt(answer, unsupported(self.state, answer))
            if problem is None:
                await self.read_again(answer)
                return Conclude(final_answer=answer)
            self.emit(GuardTripped(guard="grounding", message=problem))
        lookup = looked_up(self.state)
        if known := "\n".join(fact.text for fact in facts(lookup)):
            return Conclude(final_answer=known)
        if lookup.reading.whether and lookup.unmentioned:
            missing = " or ".join(lookup.unmentioned)
            answer = f"None was found: no line of the project mentions {missing}."
            return Conclude(final_answer=answer, success=False)
        return None

    async def read_again(self, answer: str) -> None:
        """Where no fact that code sees bears an answer out, the results are read a second time.

        A small model's wrong answers seldom come twice (docs/evaluation.md); the second reading
        re-uses the prompt of the first.
        """
        lookup = looked_up(self.state)
        if facts(lookup):
            return
        if lookup.reading.whether and lookup.unmentioned and re.match(r"\W*yes\b", answer, re.I):
            self.unsure = f"no line mentions {' or '.join(lookup.unmentioned)}"
            self.emit(GuardTripped(guard="unmentioned", message=self.unsure))
            return
        if lookup.reading.asks_for_file and lookup.vague:
            self.unsure = "no file speaks of all that the request describes; this one is a guess"
            self.emit(GuardTripped(guard="vague", message=self.unsure))
            return
        self.unsure, self.read_once = "there was no time to read the results again", answer
        try:
            second = await self.asker.again()
        except ModelError as error:
            self.unsure = f"the results could not be read again: {error}"
            return
        self.unsure = None
        if not agree(answer, second, self.request.prompt):
            self.unsure = f"a second reading of the results says otherwise: {second}"
            self.emit(GuardTripped(guard="second_reading", message=self.unsure))

    def doubt(self, answer: str, missing: list[str]) -> str | None:
        """What speaks against an answer of which no result says what is missing; None when every
        fact in it stands in a result."""
        if missing:
            return f"no result says {', '.join(missing)}"
        if fact := misses(looked_up(self.state), answer):
            return f"the results say: {fact}"
        return None
