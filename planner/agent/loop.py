"""The agent's loop: from a request to an answer.

    brief      the fast model reads the request: what it wants, and what to search for
    talk       what needs no tool is replied to at once
    read       passages are gathered for the request; the full model answers from them, code checks
               what it says and finds the lines that say it, and a second reading has to agree
    overview   a long answer: one from the first passages, and then the facts that others add; one
               that is short after all is read like a short one
    plan       what gathering does not answer: a plan of calls of tools that read, each argued,
               checked and made; then the answer, or a decision on how to go on
    edit       a change of files: the model writes them again, code compares, plans the edits and
               makes the calls
    do         another action: what it needs is looked up, then the calls are planned, approved and
               made, and one that the model names as missing; what it guesses for a change is looked
               up first; nothing but these two may change anything

An uncertain answer goes on to the next of these while there are calls and seconds for it. A run
never ends without an answer that says what it is. Everything that happens is an event; what the
next prompt needs is a fold of them (`RunState`). docs/design.md describes the protocol of plans and
decisions.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from planner.agent.changes import Changes
from planner.agent.editing import Editor
from planner.agent.ending import Ending
from planner.agent.gathering import Gatherer
from planner.agent.model_calls import Asker
from planner.agent.tool_calls import Caller, permitted
from planner.checks import schemas
from planner.checks.citations import supporting
from planner.checks.claims import agree, beyond, claims, telling
from planner.checks.grounding import borne_out, echoed, mostly_held, results, unsupported
from planner.checks.guards import repeats, sources
from planner.checks.guards.arguments import takes_paths
from planner.checks.guards.decisions import against_the_user
from planner.checks.guards.results import empty
from planner.checks.lenient import items_in
from planner.clock import Clock
from planner.errors import ModelError, RequestError
from planner.events import (
    BriefMade,
    Event,
    GuardTripped,
    PlanMade,
    PlanRevised,
    RunStarted,
    SteeringTaken,
    StepConcluded,
    StepContinued,
    StepStarted,
    ToolSelected,
)
from planner.evidence.passages import grouped, likeliest
from planner.evidence.rewriting import Edit, by_file, fence
from planner.evidence.tool_ranking import Ranking
from planner.evidence.words import says
from planner.inbox import Inbox
from planner.models.base import Models
from planner.passage import Passage
from planner.prompts import Prompts
from planner.protocol import Call, Conclude, MakePlan, MoveOn, PlanFor, RunRequest, Stay, Wants
from planner.state import RunState, steered
from planner.text import flat, shortened
from planner.tools import Approval, Approver, Outcome, Policy, ToolPool, ToolSpec, refuse

CONCLUSION_SHARE = 0.2
"""Of the run's seconds, kept back for the conclusion."""
CONCLUSION_SECONDS = 60.0
"""At most so much is kept back."""
FACTS_CHARACTERS = 2200
"""Of passages that are read at once for a long answer: a small model passes most of a longer text
over."""
NO_LINE = "no line of the results is known to say it"
NOT_ALL_READ = "not all of what was found was read"
MAY_LACK = "it was put together from several places, and may lack something"
LONG = 200
"""Characters from which on an answer is too long for two readings to agree on."""
MAX_NAMES = 2
"""Names and numbers of an answer, besides the request's; more are a list."""
LIKELY_TOOLS = 5
"""Tools that a plan is shown once more, ranked for the request: a small model takes the first ones
of a long list otherwise."""
NOTHING_MISSING = "nothing"
"""What the model is told to write where no call is missing."""
MAX_STEP_CHARS = 160
"""Characters of a step that says what is changed in a file."""
READINGS = 2
"""So often an answer is looked for in gathered passages before a plan is made."""


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


def check(request: RunRequest) -> None:
    """Raises `RequestError` for a request that no run can meet."""
    if not request.prompt.strip():
        raise RequestError("The prompt is empty. Say what you want to know.")
    if request.data_schema is not None:
        problem = schemas.data_schema_problem(request.data_schema)
        if problem:
            raise RequestError(f"data_schema: {problem}. Correct it, or leave it out.")


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
        """Why the best answer so far is not certain."""
        self.best: str | None = None
        """The best answer so far that is not certain."""
        self.readings: list[str] = []
        """Answers by second readings."""
        self.lead: str | None = None
        """A short answer from the first passages, in what was read for a long one."""
        self.facts: list[str] = []
        """Of a long answer: the one from the first passages, and what others add to it."""
        self.quotes: list[str] = []
        """The lines that say the answer."""
        self.missing: Call | None = None
        """What an action still needs, after the calls of its plan."""
        self._record = record
        self._approver = approver
        tools = list(pool.tools())
        self.ranking = Ranking(permitted(tools, request.policy))
        self.prompts = Prompts(self.ranking.tools)
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
        self.gatherer = Gatherer(self.caller)
        self.editor = Editor(self.caller, self.gatherer)
        self.changes = Changes(self.state, tools, self.ranking.tools)
        self.ending = Ending(self.state, self.changes, self.prompts, self.asker, self.emit, clock)

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
            self.unsure = self.best = self.lead = None
            self.quotes, self.readings, self.facts = [], [], []
            await self.meet_request()
        return self.state

    async def meet_request(self) -> None:
        """Do what is asked of the run now, up to `RunFinished`."""
        limit, ends_at = self.request.limits.seconds, self.state.parts[-1].ends_at
        kept_back = self.kept_back
        reason: str | None = None
        conclusion: Conclude | None = None
        try:
            with self.clock.limit(ends_at - kept_back) as time_limit:
                conclusion = await self.work()
            if time_limit.cancelled_caught:
                reason = f"the time limit of {limit:g} s was reached"
        except LimitReached as reached:
            reason = str(reached)
        except ModelError as error:
            if self.best is None:
                return self.ending.without_model(str(error))
            self.unsure = f"{self.unsure}; {error}"
        if conclusion is None and self.best:
            conclusion = self.concluded(self.best)
            reason = reason or self.unsure
        if conclusion is None and reason is None and self.without_tools:
            return self.ending.without_tools()
        if conclusion is None:
            try:
                with self.clock.limit(min(self.clock.seconds + kept_back, ends_at)):
                    self.take_steering()
                    conclusion = await self.asker.conclude()
            except ModelError as error:
                return self.ending.without_model(f"{reason}; {error}" if reason else str(error))
        if conclusion is None:
            return self.ending.without_model(reason or "the conclusion took too long")
        if self.unsure is None and self.only_told(conclusion):
            self.unsure = NO_LINE
        return await self.ending.conclude(conclusion, reason, self.unsure, self.quotes)

    def only_told(self, conclusion: Conclude) -> bool:
        """Whether a conclusion names nothing, no line says it, and it has words of the request that
        no result has: what was asked for may be told as if it were done."""
        planned = self.request.goal == "plan"
        if planned or self.changes.wanted or not results(self.state).strip():
            return False
        answer = conclusion.final_answer
        told = conclusion.success and not claims(answer) and bool(echoed(self.state, answer))
        return told and not supporting(self.state, answer, self.request.prompt)

    @property
    def without_tools(self) -> bool:
        """Whether nothing was found for a question, and no tool can look it up: a model that is
        asked for a conclusion then makes one up."""
        asked = self.request.goal == "answer" and not self.changes.wanted
        return asked and not (self.asker.choices or results(self.state).strip())

    @property
    def kept_back(self) -> float:
        """Seconds for the conclusion."""
        return min(self.request.limits.seconds * CONCLUSION_SHARE, CONCLUSION_SECONDS)

    @property
    def time_for_more(self) -> bool:
        """Whether models may take as long again as they have for this request: what is begun
        without that ends in the middle. By the record, so that a resumed run decides the same."""
        return self.state.model_seconds <= self.seconds_left

    @property
    def seconds_left(self) -> float:
        """Before the conclusion is due, by the record."""
        return self.request.limits.seconds - self.kept_back - self.state.model_seconds

    async def approve(self, tool: ToolSpec, arguments: dict[str, Any]) -> Approval:
        """What the approver says. The time a person takes is not the run's."""
        self.clock.hold()
        try:
            return await self._approver(tool, arguments)
        finally:
            self.clock.release()

    async def work(self) -> Conclude | None:
        """The way to a conclusion. None means that one is still due."""
        match self.request.goal:
            case "conclude":
                return None
            case "step":
                return await self.single_step()
            case "plan":
                self.asker.may_change = True
                await self.gatherer.gather(self.request.prompt)
                self.make(await self.plan())
                return Conclude(final_answer=self.state.conclusion_from_assistant_data)
        if self.request.tool:
            self.asker.may_change = True
            await self.caller.call(
                Call(prompt=self.request.prompt, tool=self.request.tool),
                given=self.request.arguments,
            )
            self.hold_limits()
            return await self.answer() or await self.follow_plan()
        brief = await self.asker.brief()
        may_be_order = brief.wants == "action" and not self.changes.possible
        if may_be_order:  # small models take many a question for an order
            brief = await self.asker.brief(acting=False)
        wants: Wants = brief.wants if brief.search else "talk"
        self.emit(BriefMade(search=brief.search, wants=wants, may_be_order=may_be_order))
        if wants == "talk":
            return Conclude(final_answer=brief.reply)
        if wants == "action":
            return await self.do()
        if not self.elsewhere() and (found := await self.read(wants)):
            return found
        if self.changes.wanted:
            return Conclude(final_answer="It was not done.", success=False)
        if self.facts or (self.best and not self.time_for_more):
            return None
        return await self.follow_plan()

    def elsewhere(self) -> bool:
        """Whether the request names an upstream or a tool that gathering does not use."""
        prompt = self.request.prompt
        return any(
            says(prompt, tool.upstream) or says(prompt, tool.name)
            for tool in self.ranking.tools
            if tool.upstream not in self.gatherer.upstreams
        )

    # Reading: answers from gathered passages.

    async def read(self, wants: Wants) -> Conclude | None:
        """An answer from the passages that the request's words lead to; None where there is none
        that is certain."""
        search, may_be_order = self.state.search, self.state.may_be_order
        readings = 1 if self.changes.wanted else READINGS  # no tool of the pool can do it
        for number in range(readings):
            passages = await self.gatherer.gather(self.request.prompt, search)
            self.hold_limits()
            if not passages and (number or not self.gatherer.can_look_up):
                break
            conclusion = None
            if passages and wants == "long answer":
                conclusion = await self.overview(passages)
                if not self.facts:  # small models take many a question for a long one
                    wants = "short answer"
                    self.emit(BriefMade(search=search, wants=wants, may_be_order=may_be_order))
                    self.gatherer.select_again()
            if passages and wants == "short answer":
                conclusion = await self.answer()
            if conclusion:
                return conclusion
            if self.best and not self.time_for_more:
                break
            if number + 1 < readings:
                search = [*search, *await self.asker.words()]
        return self.certain()

    def certain(self) -> Conclude | None:
        """The best answer so far, where nothing speaks against it."""
        return self.concluded(self.best) if self.best and self.unsure is None else None

    async def overview(self, passages: Sequence[Passage]) -> Conclude | None:
        """A long answer: one from the first passages, and then the facts that the others add, a few
        passages at a time; code leaves out what no passage holds. It is certain once all of it is
        held and others add nothing. None otherwise; without facts where it is short enough to be
        read a second time like any short one."""
        groups = grouped(passages, FACTS_CHARACTERS)
        held = True
        if not self.facts:
            lines = await self.asker.overview(groups.pop(0))
            if len(lines) == 1 and self.is_short(said := " ".join(lines[0])):
                self.lead = next(iter(items_in(said)), None)
                return None
            kept = [[each for each in line if mostly_held(self.state, each)] for line in lines]
            held = bool(lines) and kept == lines
            self.facts = ["\n".join(" ".join(line) for line in kept if line)] if any(kept) else []
        added, all_read = await self.add_facts(groups)
        if not self.facts:
            return None
        self.unsure = MAY_LACK if added or not held else None
        if not all_read:
            self.unsure = NOT_ALL_READ
        return self.certain()

    def is_short(self, answer: str) -> bool:
        """Whether two readings may agree on an answer: it is no explanation and no list."""
        return len(answer) <= LONG and len(beyond(answer, self.request.prompt)) <= MAX_NAMES

    async def add_facts(self, groups: Sequence[Sequence[Passage]]) -> tuple[bool, bool]:
        """Read each of these for what it adds to a long answer, a step for each. Returns whether
        any did, and whether there was time for all."""
        steps = [
            f"Read {', '.join(dict.fromkeys(each.source for each in group))}" for group in groups
        ]
        self.keep_facts()
        begun, before = len(self.state.steps), len(self.facts)
        if groups:
            self.emit(
                PlanMade(
                    main_objective=self.request.prompt,
                    conclusion_from_assistant_data=self.best or "",
                    later_steps=steps[1:],
                )
            )
        longest = self.state.ledger[-1].seconds
        for number, (step, group) in enumerate(zip(steps, groups, strict=True), begun + 1):
            if self.facts and self.seconds_left < longest:
                return len(self.facts) > before, False
            self.start_step(number, step)
            found = borne_out(self.state, await self.asker.facts(group), self.facts)
            longest = max(longest, self.state.ledger[-1].seconds)
            self.emit(StepConcluded(number=number, success=bool(found), notes="\n".join(found)))
            self.facts += found
            self.keep_facts()
            self.hold_limits()
        return len(self.facts) > before, True

    def keep_facts(self) -> None:
        """The long answer so far: the first one, and the facts beside it that tell most."""
        if self.facts:
            first, *others = self.facts
            listed = telling(others, " ".join([self.request.prompt, *self.state.search]))
            beside = "\n".join(f"- {fact}" for fact in listed)
            self.keep("\n\n".join(filter(None, [first, beside])), NOT_ALL_READ)

    async def answer(self) -> Conclude | None:
        """A try at the answer from what was found; None when it is not there, or not certain.

        Code looks up what it says, and a second reading has to agree. The first one is of the
        likeliest passages, the second of all, asked in other words: a small model's wrong answers
        seldom come twice from what is not the same. Where they differ, the first question is
        asked once more, of all passages (docs/evaluation.md).
        """
        if self.acting and not self.changes.due:
            return await self.what_was_done()
        lead, self.lead = self.lead, None
        if lead and unsupported(self.state, lead):
            lead = None
        first = lead or await self.first_reading()
        if first is None:
            return None
        if self.acting or (self.state.wants == "long answer" and len(first) > LONG):
            return self.concluded(first)
        self.keep(first, "the results were not read a second time")
        second = await self.asker.again()
        before, self.readings = self.readings, [*self.readings, second]
        certain = self.agreed(first, self.readings) or self.agreed(second, before)
        if certain is None and (lead or self.more_to_read):
            third = (await self.asker.answer(None)).final_answer
            certain = self.agreed(first, [third]) or (
                self.agreed(third, [second]) if lead else None
            )
        if certain is not None:
            self.keep(certain, None)
            conclusion = self.concluded(certain)
            if not (self.quotes or claims(certain)):
                self.unsure = NO_LINE
            return conclusion
        if not beyond(first, self.request.prompt) and self.names_something(second):
            first, second = second, first
        self.keep(first, f"Two readings of the results differ: {second}")
        self.emit(GuardTripped(guard="second_reading", message=self.unsure or ""))
        return None

    def names_something(self, answer: str) -> bool:
        """Whether an answer has a name or a number beyond the request, and results hold all."""
        told = beyond(answer, self.request.prompt)
        return bool(told) and not unsupported(self.state, answer)

    async def first_reading(self) -> str | None:
        """What the likeliest passages answer, and all where they do not; asked once more where no
        result says it. None where no answer is found that results hold."""
        problem: str | None = None
        for _ in range(2):
            said = await self.asker.answer(problem)
            if problem is None and not said.found and self.more_to_read:
                said = await self.asker.answer(problem)
            if not said.found:
                return None
            missing = unsupported(self.state, said.final_answer)
            if not missing:
                return said.final_answer
            problem = f"no result says {', '.join(missing)}"
            self.emit(GuardTripped(guard="grounding", message=problem))
        self.keep(said.final_answer, problem)
        return None

    @property
    def acting(self) -> bool:
        """Whether a change is wanted, and may be planned now."""
        return self.changes.wanted and self.asker.may_change

    async def what_was_done(self) -> Conclude | None:
        """The answer to a request for a change, when it was made; None where a call is missing, as
        the model says. What it claims is held against the calls at the end."""
        said = await self.asker.what_was_done()
        left = said.missing.strip() not in ("", NOTHING_MISSING)
        repeated = any(repeats.known(self.state, each) for each in self.state.newest)
        more = said.tool if left and not repeated else None
        self.missing = Call(prompt=said.missing, tool=more) if more else None
        self.keep(said.final_answer, f"something is left to do: {said.missing}" if left else None)
        return self.certain()

    def missing_call(self) -> MoveOn | None:
        """The call that is missing after those of the plan."""
        call, self.missing = self.missing, None
        return MoveOn(notes="", objective=call.prompt, tool_calls=[call]) if call else None

    def agreed(self, answer: str, readings: Sequence[str]) -> str | None:
        """The answer, if one of the other readings says the same and the results hold it."""
        same = any(agree(answer, each, self.request.prompt) for each in readings)
        return answer if same and not unsupported(self.state, answer) else None

    @property
    def more_to_read(self) -> bool:
        """Whether an answer was read from the likeliest passages, and not yet from all."""
        [*_, newest] = self.state.iterations
        passages = newest.gathered.passages if newest.gathered else []
        asked = sum(call.role == "answer" for call in newest.exchange)
        return len(likeliest(passages)) < len(passages) and asked == 1

    def keep(self, answer: str, unsure: str | None) -> None:
        """Remember the best answer so far, and why it is not certain."""
        self.best, self.unsure = answer, unsure

    def concluded(self, answer: str) -> Conclude:
        """The conclusion with this answer. One that tells nothing and that no line says is worth
        less than that what it is about stands nowhere."""
        self.quotes = supporting(self.state, answer, self.request.prompt)
        absent = self.gatherer.absent
        if absent and not (self.quotes or self.acting or beyond(answer, self.request.prompt)):
            nowhere = " or ".join(f'"{each}"' for each in absent)
            return Conclude(final_answer=f"No file contains {nowhere}.", success=False)
        return Conclude(final_answer=re.sub(r"</?result>", "", answer))

    # Working: a plan of tool calls.

    async def single_step(self) -> Conclude | None:
        """The one tool call of a `step` request, and what it means. Where no tool is named, the
        request is read for whether it wants a change: a call that reads would not be one."""
        self.begin_single_step()
        self.asker.may_change = self.changes.possible
        tool = self.request.tool
        if tool is None:
            brief = await self.asker.brief()
            self.emit(BriefMade(search=brief.search, wants=brief.wants))
            tool = await self.asker.select_tool()
        if tool is None:
            self.emit(ToolSelected(tool=None, prompt=self.request.prompt))
            return None
        call = Call(prompt=self.request.prompt, tool=tool)
        await self.caller.call(call, given=self.request.arguments)
        return None

    async def do(self) -> Conclude | None:
        """A change or another action, planned with the passages in view that the request leads
        to."""
        passages = await self.gatherer.gather(self.request.prompt, self.state.search)
        self.asker.may_change = True
        if passages and await self.editor.ready() and (edits := await self.editor.edits()):
            return await self.edit(edits)
        return await self.follow_plan()

    async def edit(self, edits: Sequence[Edit]) -> Conclude:
        """Make these changes of files, a step for each file, planned before the first is made.
        Where there are not calls enough for all, none is made."""
        assert self.editor.tool
        tool = self.editor.tool.name
        files = by_file(edits)
        calls = {path: self.editor.calls(changed) for path, changed in files}
        if (needed := sum(map(len, calls.values()))) > self.calls_left:
            raise LimitReached(
                f"it takes {needed} calls, and {self.calls_left} iterations are left"
            )
        steps = {
            path: shortened(
                flat(f"Change {path}: {'; '.join(each.shown for each in changed)}"), MAX_STEP_CHARS
            )
            for path, changed in files
        }
        [_, *later] = steps.values()
        self.emit(
            PlanMade(
                main_objective=self.request.prompt,
                conclusion_from_assistant_data="",
                later_steps=later,
                tools=dict.fromkeys(steps.values(), tool),
            )
        )
        for number, (path, changed) in enumerate(files, len(self.state.steps) + 1):
            self.start_step(number, steps[path])
            for arguments in calls[path]:
                call = Call(prompt=steps[path], tool=tool)
                await self.caller.call(call, given=arguments)
            stands = await self.editor.stands(changed)
            if not stands:
                self.unsure = f"{path} does not show the change"
            self.emit(StepConcluded(number=number, success=stands, notes=""))
            self.hold_limits()
        shown = (f"{path}\n{fence(changed)}" for path, changed in files)
        return Conclude(final_answer="\n\n".join(shown))

    async def follow_plan(self) -> Conclude | None:
        """Plan, and carry the plan out call by call; None when a conclusion is still due."""
        if not self.asker.choices:
            return None
        self.missing = None
        plan = await self.plan()
        while plan.steps and plan.steps[0].tool is None:  # nothing to call for it
            plan = plan.model_copy(update={"steps": plan.steps[1:]})
        decision: MakePlan | Stay | MoveOn | Conclude | None = plan if plan.steps else None
        while decision is not None and not isinstance(decision, Conclude):
            calls = self.follow(decision)[: self.calls_left]
            step = self.state.step
            if self.changes.looked_up_for(calls[0]):
                calls[0] = await self.asker.select_to_do(calls[0])
            elif step and step.offered and not isinstance(decision, Stay):
                calls[0] = await self.asker.select_for_step(step, calls[0])
            several = len(calls) > 1
            await self.caller.call(*calls, may_guess=several)
            if self.caller.guessed and not several:
                await self.look_up_guess(calls[0])
            if refused := self.changes.to_repeat():
                self.hold_limits()
                await self.caller.call(refused, problem=self.changes.complaint())
            if before := self.changes.possible_now():
                self.hold_limits()
                call = Call(prompt=before.prompt, tool=before.tool)
                await self.caller.call(call, given=before.arguments, by=self.asker.models.full.name)
            self.hold_limits()
            spoken_to = self.take_steering()
            if not spoken_to and (planned := self.planned_next()):
                decision = planned
                continue
            if self.stuck():
                return None
            last_step = not self.state.later_steps
            # What the user has just said is decided on: an answer would pass it over.
            if self.acting and not spoken_to:
                if conclusion := await self.what_was_done():
                    return conclusion
                decision = self.missing_call()
                continue
            ready = last_step and not spoken_to and not self.changes.due
            if ready and (conclusion := await self.answer()):
                return conclusion
            decision = await self.decide()
            if isinstance(decision, Conclude) and decision.success and not last_step:
                return await self.answer() or decision
        return decision

    async def look_up_guess(self, call: Call) -> None:
        """Look up what was guessed for a change, and make the call then, with values that were
        found under the same name if there are any. Where no tool finds it, a person is asked about
        the call as it is."""
        guessed = self.caller.guessed
        missing = [*map(str, guessed)]
        [*_, newest] = self.state.newest
        self.hold_limits()
        if tool := await self.asker.select_to_find(missing):
            await self.caller.call(Call(prompt=f"Find {', '.join(missing)}", tool=tool))
            self.hold_limits()
            [*_, found] = self.state.newest
            names = [each.argument for each in guessed]
            choices = {name: sources.candidates(name, found.result) for name in names}
            await self.caller.call(call, choices=choices)
        elif self.request.policy is not Policy.ALLOW:
            by = self.asker.models.full.name
            await self.caller.call(call, given=newest.arguments, by=by)

    def planned_next(self) -> MoveOn | None:
        """The plan's next step, when the one before has done what it was for. The plan of an
        action goes on when looking something up brought nothing: a later step may not need it."""
        done = all(
            (each.outcome is Outcome.SUCCESS and not empty(each.result))
            or repeats.known(self.state, each)
            or (self.changes.wanted and self.changes.reads(each))
            for each in self.state.newest
        )
        following = next(iter(self.state.later_steps), None)
        tool = self.state.planned_tools.get(following or "")
        # Without notes, nothing of a step is left when its results have to make room.
        if not done or following is None or tool is None or self.asker.crowded:
            return None
        return MoveOn(notes="", objective=following, tool_calls=[Call(prompt=following, tool=tool)])

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
        query = " ".join([self.request.prompt, *self.state.search])
        choices = self.asker.choices
        purpose: PlanFor = "question"
        if self.state.wants == "action":
            choices = self.without_read_files(choices)
            looks_up = any(tool.read_only and tool.upstream for tool in choices)
            purpose = "action" if looks_up else "change"
        names = [tool.name for tool in choices]
        likely = [name for name in self.ranking.matching(query) if name in names]
        return await self.asker.plan(names, likely[:LIKELY_TOOLS], purpose)

    def without_read_files(self, tools: Sequence[ToolSpec]) -> list[ToolSpec]:
        """The tools without those that would read what was looked up: where passages are in view,
        those that read, of an upstream that helped to find them, mostly reads files and can change
        them. A small model plans to read once more otherwise."""
        read = set()
        for upstream in self.state.looked_up if self.state.passages else ():
            beside = [tool for tool in tools if tool.upstream == upstream]
            reading = [tool for tool in beside if tool.read_only]
            of_files = sum(map(takes_paths, reading))
            if len(reading) < len(beside) and of_files > len(reading) / 2:
                read.add(upstream)
        return [tool for tool in tools if not (tool.read_only and tool.upstream in read)]

    async def decide(self) -> Conclude | Stay | MoveOn | None:
        """The next decision; None when it goes twice against what the user has said, so that a
        conclusion is due."""
        self.take_steering()
        problem: str | None = None
        for _ in range(2):
            decision = await self.asker.decide(problem)
            problem = against_the_user(self.state, decision)
            if problem is None:
                return decision
            self.emit(GuardTripped(guard="steering", message=problem))
        return None

    def stuck(self) -> bool:
        """Whether more calls will not help, so that a conclusion is due. Before that comes to pass,
        one call of another tool is made."""
        fruitless = repeats.fruitless(self.state)
        if len(fruitless) < repeats.FRUITLESS_DECISIONS:
            return False
        message = f"the last {sum(map(len, fruitless))} calls brought nothing new"
        another = len(fruitless) == repeats.FRUITLESS_DECISIONS and bool(self.asker.choices)
        without = ", ".join(repeats.left_out(self.state))
        message += f"; going on without {without}" if another else "; concluding"
        self.emit(GuardTripped(guard="no_progress", message=message))
        return not another

    def follow(self, decision: MakePlan | Stay | MoveOn) -> list[Call]:
        """Record what was decided; returns the next tool calls."""
        match decision:
            case MakePlan():
                self.make(decision)
                first = decision.steps[0]
                return [Call(prompt=first.objective, tool=first.tool or "")]
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
                main_objective=self.request.prompt,
                conclusion_from_assistant_data="",
                later_steps=[step.objective for step in plan.steps[1:]],
                tools={step.objective: step.tool for step in plan.steps if step.tool},
            )
        )
        self.start_step(len(self.state.steps) + 1, plan.steps[0].objective)

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
            self.emit(StepConcluded(number=planned.number, success=False, notes="Left out."))
        self.start_step(len(self.state.steps) + 1, prompt)

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
