"""The agent's loop: from a request to an answer.

    items      a request that is a numbered list of requests is met item by item
    brief      the fast model reads the request: what it wants, and what to search for
    talk       what needs no tool is replied to at once
    read       passages are gathered for the request; the full model answers from them, code checks
               what it says and finds the lines that say it, and a second reading has to agree
               (`reading`)
    overview   a long answer: one from the first passages, and then the facts that others add; one
               that is short after all is read like a short one (`reading`)
    plan       what gathering does not answer: a plan of calls of tools that read, each argued,
               checked and made; then the answer, or a decision on how to go on (`planning`)
    edit       a change of files: the model writes them again, code compares, plans the edits and
               makes the calls (`editing`)
    do         another action: what it needs is looked up, then the calls are planned, approved and
               made, and one that the model names as missing; what it guesses for a change is looked
               up first; nothing but these two may change anything (`planning`)

An answer that results hold ends the reading, even if it is not certain; a plan follows only if
other upstreams may know more. Without one, the next of these follows while there are calls and
seconds for it. A run never ends without an answer that says what it is. Everything that happens is
an event; what the next prompt needs is a fold of them (`RunState`). `planner/protocol.py` has the
plans and decisions that a model writes.
"""

from collections.abc import Callable
from typing import Any

from planner.agent.best_answer import BestAnswer
from planner.agent.budget import Budget, LimitReached
from planner.agent.changes import Changes
from planner.agent.editing import Editor
from planner.agent.ending import Ending, of_items
from planner.agent.finding import Finder
from planner.agent.gathering import Gatherer
from planner.agent.model_calls import ModelCalls
from planner.agent.planning import Planner
from planner.agent.querying import Querier
from planner.agent.questions import Asker
from planner.agent.reading import Reader
from planner.agent.steps import Steps
from planner.agent.tool_calls import Caller, permitted
from planner.checks import validation
from planner.checks.grounding import results, unsupported
from planner.clock import Clock
from planner.errors import ModelError, RequestError
from planner.events import BriefMade, Event, ItemStarted, RunFinished, RunStarted, ToolSelected
from planner.evidence.items import in_turn, listed
from planner.evidence.tool_ranking import Ranking
from planner.evidence.words import asks, is_name, named, says
from planner.inbox import Inbox
from planner.models.base import Models
from planner.prompts import Prompts
from planner.prompts.texts import in_short
from planner.protocol import Brief, Call, Conclude, RunRequest, Wants
from planner.state import RunState
from planner.text import shortened
from planner.tools import Approval, Approver, Policy, ToolPool, ToolSpec, names_of, refuse

MAX_ANSWER_CHARS = 400
"""Characters of the answer to an item, for the items after it."""
NOT_HEEDED = "the answer was written before what was said to the run meanwhile"
ONLY_PLANNED = "Nothing found so far answers the request."
"""The answer to a request for a plan."""


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
    asked before each call whose tool is not read-only. The `inbox` is checked before each decision;
    without one, nothing arrives. `clock` limits the run's seconds; by default, a new one starts
    now.

    Always ends in `RunFinished`, except when cancelled or when the request itself is wrong
    (`RequestError`): a model or a tool that fails is part of the run. Nothing else comes from
    outside: with the same replies and results, in the same order, a run records the same events.
    """
    check(request)
    begun = _Run(request.policy, models, pool, record, approver, clock or Clock(), inbox or Inbox())
    return await begun.to_its_end(request)


def check(request: RunRequest) -> None:
    """Raises `RequestError` for a request that no run can meet."""
    if not request.prompt.strip():
        raise RequestError("The prompt is empty. Say what you want to know.")
    if request.data_schema is not None:
        problem = validation.data_schema_problem(request.data_schema)
        if problem:
            raise RequestError(f"data_schema: {problem}. Correct it, or leave it out.")


class _Run:
    """The way of each request of a run, and what the parts of the way share."""

    def __init__(
        self,
        policy: Policy,
        models: Models,
        pool: ToolPool,
        record: Callable[[Event], None],
        approver: Approver,
        clock: Clock,
        inbox: Inbox,
    ) -> None:
        self.clock = clock
        self.inbox = inbox
        self.pool = pool
        self.state = state = RunState()
        self._record = record
        self._approver = approver
        tools = list(pool.tools())
        self.ranking = ranking = Ranking(permitted(tools, policy), models.encoder)
        calls = ModelCalls(models, Prompts(ranking.tools), state, self.emit, clock)
        self.asker = asker = Asker(calls, ranking.tools)
        self.caller = Caller(pool, tools, asker, self.approve, clock)
        self.gatherer = gatherer = Gatherer(self.caller)
        self.changes = changes = Changes(state, tools, ranking.tools, asker)
        self.budget = budget = Budget(state)
        self.best = best = BestAnswer(state, changes, gatherer)
        self.querier = querier = Querier(state, asker, self.caller)
        self.steps = steps = Steps(state, ranking, inbox, calls)
        self.editor = Editor(self.caller, gatherer, steps, budget, best)
        self.reader = Reader(state, asker, gatherer, changes, steps, budget, best)
        self.planner = Planner(
            state,
            ranking,
            asker,
            self.caller,
            querier,
            Finder(state, ranking, asker, self.caller, budget),
            changes,
            steps,
            budget,
            best,
            self.reader,
        )
        self.ending = Ending(state, changes, best, asker, clock)

    def emit(self, event: Event) -> None:
        self.state.apply(event)
        self._record(event)

    async def approve(self, tool: ToolSpec, arguments: dict[str, Any]) -> Approval:
        """The approver's decision. The time that a person takes does not count as the run's."""
        with self.clock.held():
            return await self._approver(tool, arguments)

    @property
    def request(self) -> RunRequest:
        """The newest request."""
        return self.state.part.request

    async def to_its_end(self, request: RunRequest) -> RunState:
        self.emit(
            RunStarted(
                request=request,
                listing=await self.pool.listing(),
                upstreams=list(self.pool.upstreams()),
                tools=[tool.name for tool in self.ranking.tools],
                approved_first=[tool.name for tool in self.ranking.tools if not tool.read_only],
                offered=await self.ranking.for_request(request),
            )
        )
        self.emit(self.as_heeded(await self.meet_request()))
        while more := self.inbox.next_request():
            self.emit(more)
            self.emit(self.as_heeded(await self.meet_request()))
        return self.state

    def as_heeded(self, end: RunFinished) -> RunFinished:
        """The end of a request, which says if something was said too late for it."""
        late = self.request.goal == "answer" and (self.steps.unheeded or self.inbox.steering())
        if not late or NOT_HEEDED in (end.reason or ""):
            return end
        status = "partial" if end.status == "answered" else end.status
        reason = "; ".join(filter(None, [end.reason, NOT_HEEDED]))
        return end.model_copy(update={"status": status, "reason": reason})

    async def meet_request(self) -> RunFinished:
        """Do what is asked of the run now, item by item if it is a list of requests."""
        met = await self.meet()
        if isinstance(met, RunFinished):
            return met
        ends: list[RunFinished] = []
        for number, prompt in enumerate(met, 1):
            if self.state.step:
                self.steps.end(success=False)
            self.asker.may_change = False
            before = [
                f"{in_short(asked)}\n{shortened(end.answer, MAX_ANSWER_CHARS)}"
                for asked, end in zip(met, ends, strict=False)
            ]
            self.emit(ItemStarted(number=number, of=len(met), prompt=prompt, before=before))
            end = await self.meet()
            assert isinstance(end, RunFinished), "an item is not divided"
            ends.append(end)
        return of_items(ends)

    async def meet(self) -> RunFinished | list[str]:
        """The end of the newest request, or of the newest item of it; or else the items that it
        consists of."""
        self.best.forget()
        self.reader.forget()
        limit, ends_at = self.request.limits.seconds, self.state.part.ends_at
        reason: str | None = None
        conclusion: Conclude | None = None
        try:
            with self.clock.limit(ends_at - self.budget.kept_back) as time_limit:
                found = await self.work()
                if isinstance(found, list):
                    return found
                conclusion = await self.heeded(found)
            if time_limit.cancelled_caught:
                reason = f"the time limit of {limit:g} s was reached"
        except LimitReached as reached:
            reason = str(reached)
        except ModelError as error:
            if self.best.text is None:
                return self.ending.without_model(str(error))
            self.best.doubt(str(error))
        if conclusion is None and self.best.text:
            conclusion = self.best.concluded(self.best.text)
            reason = "; ".join(filter(None, [self.best.unsure, reason])) or None
        if conclusion is None and reason is None and self.without_tools:
            return self.ending.without_tools()
        if conclusion is None:
            if not self.changes.wanted:  # what was found until then is read once
                self.best.unsure = reason
            try:
                with self.clock.limit(ends_at):
                    self.steps.take_steering()
                    conclusion = await self.asker.conclude()
            except ModelError as error:
                return self.ending.without_model(f"{reason}; {error}" if reason else str(error))
        if conclusion is None:
            return self.ending.without_model(reason or "the conclusion took too long")
        return await self.ending.conclude(conclusion, reason)

    async def heeded(self, found: Conclude | None) -> Conclude | None:
        """The conclusion with what the user said while a question was answered: a plan is made with
        it in view, and the answer is read once more."""
        answers = self.request.goal == "answer" and not self.changes.wanted
        while answers and (found or self.best.text) and self.budget.time_for_more:
            self.steps.take_steering()
            if not self.steps.unheeded:
                break
            self.best.doubt(NOT_HEEDED)
            new = await self.planner.follow_plan()
            if new is None and self.state.part_iterations:
                new = await self.planner.answer()
            found = found if new is None and self.best.text is None else new
        return found

    @property
    def without_tools(self) -> bool:
        """Whether nothing was found for a question, and no tool can look it up: a model that is
        asked for a conclusion then makes one up."""
        asked = self.request.goal == "answer" and not self.changes.wanted
        return asked and not (self.caller.read_only or results(self.state).strip())

    async def work(self) -> Conclude | list[str] | None:
        """The way to a conclusion, or the items of a request that is a list of them. None means
        that a conclusion is still due."""
        match self.request.goal:
            case "conclude":
                return None
            case "step":
                await self.single_step()
                return None
            case "plan":
                self.asker.may_change = True
                await self.gatherer.gather(self.request.prompt)
                await self.steps.make(await self.planner.plan())
                return Conclude(final_answer=ONLY_PLANNED)
        if self.request.tool:
            self.asker.may_change = True
            await self.caller.call(
                Call(prompt=self.request.prompt, tool=self.request.tool),
                given=self.request.arguments,
            )
            await self.querier.query()
            self.budget.hold()
            return await self.planner.answer() or await self.planner.follow_plan()
        brief = await self.asker.brief()
        if not self.state.part.is_item and (items := self.items(brief)):
            return items
        may_be_order = brief.wants == "action" and not self.changes.possible
        if may_be_order:  # small models take many a question for an order
            asked = brief.model_copy(update={"wants": "short answer"})
            brief = await self.asker.optional(self.asker.brief(acting=False), asked)
        talk = not brief.search and brief.reply and not unsupported(self.state, brief.reply)
        wants: Wants = "talk" if talk else brief.wants
        first, then = brief.first, brief.then
        if not in_turn(brief, self.request.prompt):
            first = then = ""
        self.emit(
            BriefMade(
                search=brief.search,
                wants=wants,
                may_be_order=may_be_order,
                first=first,
                then=then,
                offered=await self.brought(brief),
            )
        )
        if wants == "talk":
            return Conclude(final_answer=brief.reply)
        if wants == "action":
            return await self.do()
        if not self.elsewhere() and (found := await self.reader.read(wants)):
            return found
        if self.changes.wanted and self.best.text is None:
            return Conclude(final_answer="It was not done.", success=False)
        more = self.others and self.budget.time_for_more
        if self.reader.facts or (self.reader.settled and not more):
            return None
        return await self.planner.follow_plan()

    async def brought(self, brief: Brief) -> list[str]:
        """The tools of a large pool that the brief's words bring in. Only the request that prompts
        begin with has a place for them."""
        if self.state.part is not self.state.opens or not brief.search:
            return []
        query = " ".join([self.request.prompt, *brief.search])
        return await self.ranking.for_search(query, self.state.offered)

    def items(self, brief: Brief) -> list[str]:
        """The items of a request that is a list of questions, or of questions and orders. A list
        that stands in a question, or has questions only and was read as an order, is the subject or
        the text of one request, and a list of orders is planned as a whole."""
        before, items = listed(self.request.prompt)
        asking = [*filter(asks, items)]
        as_one = asks(before) or self.request.data_schema or not asking
        if as_one or (brief.wants == "action" and len(asking) == len(items)):
            return []
        return [f"{before}\n{each}".strip() for each in items]

    @property
    def others(self) -> list[ToolSpec]:
        """The tools of upstreams that gathering does not use: a plan may find more with these."""
        used = self.gatherer.upstreams
        return [tool for tool in self.ranking.tools if tool.upstream not in used]

    def elsewhere(self) -> bool:
        """Whether the request names an upstream or a tool that gathering does not use, spelled as
        a name where gathering may know more: `time` is a word like others."""
        prompt = self.request.prompt
        said = {name for name in names_of(self.others) if says(prompt, name)}
        if self.gatherer.can_look_up:
            spelled = {each.casefold() for each in named(prompt)}
            said = {name for name in said if is_name(name) or name.casefold() in spelled}
        return bool(said)

    async def single_step(self) -> None:
        """The one tool call of a `step` request, and what it means. Where no tool is named, the
        request is read for whether it wants a change: a call that reads would not be one."""
        await self.steps.begin_single()
        self.asker.may_change = self.changes.possible
        tool = self.request.tool
        if tool is None:
            brief = await self.asker.brief()
            offered = await self.brought(brief)
            self.emit(BriefMade(search=brief.search, wants=brief.wants, offered=offered))
            tool = await self.asker.select_tool()
        if tool is None:
            self.emit(ToolSelected(tool=None, prompt=self.request.prompt))
            return
        call = Call(prompt=self.request.prompt, tool=tool)
        await self.caller.call(call, given=self.request.arguments)
        await self.querier.query()

    async def do(self) -> Conclude | None:
        """A change or another action, planned with the passages in view that the request leads
        to."""
        passages = await self.gatherer.gather(self.request.prompt, self.state.search)
        self.asker.may_change = True
        if passages and (edits := await self.asker.optional(self.editor.edits(), [])):
            return await self.editor.make(edits)
        conclusion = await self.planner.follow_plan()
        await self.editor.rereader.look_again()
        return conclusion
