"""Planning: a plan of tool calls, carried out call by call, and the decisions on how to go on."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.agent.best_answer import BestAnswer
from planner.agent.budget import Budget
from planner.agent.changes import Changes
from planner.agent.finding import Finder
from planner.agent.querying import Querier
from planner.agent.questions import Asker
from planner.agent.reading import Reader
from planner.agent.steps import Steps
from planner.agent.tool_calls import Caller
from planner.checks.guards import repeats
from planner.checks.guards.arguments import takes_paths
from planner.checks.guards.decisions import against_the_user
from planner.checks.guards.results import found_something
from planner.evidence.tool_ranking import Ranking
from planner.evidence.words import words
from planner.protocol import Call, Conclude, MakePlan, MoveOn, PlanFor, PlannedStep, Stay
from planner.state import RunState
from planner.tools import ToolSpec

LIKELY_TOOLS = 5
"""How many tools are listed once more for a plan, ranked for the request. Otherwise a small model
takes the first ones of a long list."""
Decision = MakePlan | Stay | MoveOn | Conclude
"""How a run goes on, or ends."""


@dataclass
class Planner:
    state: RunState
    ranking: Ranking
    asker: Asker
    caller: Caller
    querier: Querier
    finder: Finder
    changes: Changes
    steps: Steps
    budget: Budget
    best: BestAnswer
    reader: Reader
    missing: Call | None = None
    """What an action still needs, after the calls of its plan."""

    async def follow_plan(self) -> Conclude | None:
        """Plan, and carry the plan out call by call; None when a conclusion is still due."""
        if not self.asker.choices:
            return None
        self.missing = None
        self.finder.forget()
        plan = await self.asker.optional(self.plan(), None)
        if plan is None:
            return None
        if self.nothing_returned and not self.asker.may_change and self.has_change(plan):
            plan = await self.as_order(plan)
        while plan.steps and plan.steps[0].tool is None:  # nothing to call for it
            plan = plan.model_copy(update={"steps": plan.steps[1:]})
        decision: Decision | None = plan if plan.steps else None
        while decision is not None and not isinstance(decision, Conclude):
            decision = await self.carry_out(decision) or await self.next_decision()
        return decision

    @property
    def nothing_returned(self) -> bool:
        """Whether no text of a stranger is in view, which could turn a question into an order."""
        return not self.state.iterations

    def has_change(self, plan: MakePlan) -> bool:
        return any(map(self.changes_something, plan.steps))

    def changes_something(self, step: PlannedStep) -> bool:
        tool = self.asker.tools.get(step.tool or "")
        return tool is not None and not tool.read_only

    async def as_order(self, plan: MakePlan) -> MakePlan:
        """The plan of a request that was read as a question and may be an order, as its plan has a
        change. Without a question mark it is planned as an action, unless that plan changes
        nothing. With one, only the calls that read are made, and the end says so."""
        read = self.state.brief
        assert read, "only a request that was read is planned as a question"
        if not self.changes.asked:
            self.asker.emit(read.model_copy(update={"wants": "action"}))
            self.asker.may_change = True
            action = await self.asker.optional(self.plan(), None)
            if action and self.has_change(action):
                return action
            self.asker.may_change = False
            self.asker.emit(read)
        else:
            self.asker.emit(read.model_copy(update={"may_be_order": True}))
        reading = [step for step in plan.steps if not self.changes_something(step)]
        return plan.model_copy(update={"steps": self.once_each(reading)})

    async def carry_out(self, decision: MakePlan | Stay | MoveOn) -> Conclude | None:
        """Make the next calls, each with the tool that is best for it by now. The answer, if a
        query of what they return has found one."""
        calls = (await self.steps.follow(decision))[: self.budget.calls_left]
        step = self.state.step
        if self.changes.looked_up_for(calls[0]):
            chosen = await self.asker.select_to_do(calls[0])
            if chosen is None:
                self.caller.decline(calls[0])
                self.budget.hold()
                return None
            calls[0] = chosen
        elif step and step.offered and not isinstance(decision, Stay):
            calls[0] = await self.asker.select_for_step(step, calls[0])
        several = len(calls) > 1
        choices = self.finder.choices(calls)
        given = None if several else self.finder.all_found(calls[0], choices)
        await self.caller.call(*calls, may_guess=several, choices=choices, given=given)
        if not several:
            await self.finder.follow(calls[0])
        # The plan may go on with lists that have nothing to do with it.
        found = await self.querier.query() and not self.changes.wanted
        if found and (conclusion := await self.answer()):
            return conclusion
        if refused := self.changes.to_repeat():
            self.budget.hold()
            await self.caller.call(refused, problem=self.changes.complaint())
        if before := self.changes.possible_now():
            self.budget.hold()
            call = Call(prompt=before.prompt, tool=before.tool)
            await self.caller.call(call, given=before.arguments, by=self.asker.models.full.name)
        self.budget.hold()
        return None

    async def next_decision(self) -> Decision | None:
        """How to go on after calls: with the plan, with an answer, or as the model decides."""
        spoken_to = self.steps.take_steering()
        if not spoken_to and (planned := await self.planned_next()):
            return planned
        if self.stuck():
            return None
        last_step = not self.state.later_steps
        # What the user has just said is decided on: an answer would pass it over.
        if self.changes.acting and not spoken_to:
            return await self.what_was_done() or self.missing_call()
        ready = last_step and not spoken_to and not self.changes.due
        if ready and self.unread:
            conclusion = await self.answer()
            if conclusion or self.reader.settled:
                return conclusion
        if not self.asker.choices:
            return None
        decision = await self.decide()
        if isinstance(decision, Conclude) and decision.success:
            found = None if last_step else await self.answer()
            return found or await self.reader.confirmed(decision)
        return decision

    async def answer(self) -> Conclude | None:
        """A try at the answer from what was found or done; None when it is not there, or not
        certain."""
        if self.changes.acting and not self.changes.due:
            return await self.what_was_done()
        return await self.reader.answer()

    async def planned_next(self) -> MoveOn | None:
        """The plan's next step, unless a change before it failed. The plan goes on when looking
        something up brought nothing: a later step may not need it, or know it. Of changes that take
        the same values, the one that does what is asked comes first."""
        done = all(
            self.changes.reads(each) or each.succeeded or repeats.known(self.state, each)
            for each in self.state.newest
        )
        following = next(iter(self.state.later_steps), None)
        tool = self.state.planned_tools.get(following or "")
        # Without notes, nothing of a step is left when its results have to make room.
        if not done or following is None or tool is None or self.asker.calls.crowded:
            return None
        call = Call(prompt=following, tool=tool)
        if alternatives := self.changes.alternatives(tool):
            chosen = await self.asker.select_to_do(call, [*alternatives])
            if chosen is None:
                return None
            call = chosen.model_copy(update={"prompt": alternatives[chosen.tool]})
        return MoveOn(notes="", objective=call.prompt, tool_calls=[call])

    async def plan(self) -> MakePlan:
        self.steps.take_steering()
        query = " ".join([self.state.prompt, *self.state.search])
        choices = self.asker.choices
        purpose: PlanFor = "question"
        if self.state.wants == "action":
            choices = self.without_read_files(choices)
            looks_up = any(tool.read_only and tool.upstream for tool in choices)
            purpose = "action" if looks_up else "change"
        names = [tool.name for tool in choices]
        failed = repeats.failed(self.state)
        working = [name for name in names if name not in failed]
        likely = await self.ranking.likeliest(query, working, LIKELY_TOOLS)
        if purpose == "question" and self.nothing_returned:
            names = [tool.name for tool in self.asker.offered(changing=True)]
        plan = await self.asker.plan(names, likely, purpose)
        return plan.model_copy(update={"steps": self.once_each(plan.steps)})

    def once_each(self, steps: Sequence[PlannedStep]) -> list[PlannedStep]:
        """The steps without those that can only return the same as one before."""
        called: set[str] = set()
        kept = []
        for each in steps:
            tool = self.asker.tools.get(each.tool or "")
            if tool and not tool.read_only:
                called.clear()
            elif tool and repeats.in_one_way(tool):
                if tool.name in called:
                    continue
                called.add(tool.name)
            kept.append(each)
        return kept

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
        """The next decision; None if there is none, or if two in a row contradict what the user has
        said, so that a conclusion is due."""
        self.steps.take_steering()
        problem: str | None = None
        for _ in range(2):
            decision = await self.asker.optional(self.asker.decide(problem), None)
            problem = against_the_user(self.state, decision) if decision else None
            if problem is None:
                return decision
            self.asker.guard("steering", problem)
        return None

    def stuck(self) -> bool:
        """Whether more calls will not help, so that a conclusion is due. As long as there is no
        answer at all, one call of another tool is made before that."""
        fruitless = repeats.fruitless(self.state)
        if len(fruitless) < repeats.FRUITLESS_DECISIONS:
            return False
        message = f"the last {sum(map(len, fruitless))} calls brought nothing new"
        first = len(fruitless) == repeats.FRUITLESS_DECISIONS
        another = first and self.best.text is None and bool(self.asker.choices)
        without = ", ".join(repeats.left_out(self.state))
        message += f"; going on without {without}" if another else "; concluding"
        self.asker.guard("no_progress", message)
        return not another

    @property
    def unread(self) -> bool:
        """Whether another call has returned something since the last try at the answer."""
        read: set[str] = set()
        unread = {""}  # no answer was tried yet
        for each in self.state.part_iterations:
            if each.by != "lookup" and found_something(each):
                unread.add(each.result)
            if any(said.role == "answer" for said in each.exchange):
                read, unread = read | unread, set()
        return bool(unread - read)

    async def what_was_done(self) -> Conclude | None:
        """The answer to a request for a change, when it was made; None where a call is missing, as
        the model says. What it claims is held against the calls at the end."""
        await self.changes.read_outcomes()
        said = await self.asker.what_was_done()
        missing = (said.missing or "").strip()
        told = {*words(missing)}
        if len(told) < 2 and not told & {*words(self.state.prompt)}:
            missing = ""  # "none"
        if not missing:
            # After a call that was not accepted, the name of another tool says enough.
            missing = f"{said.tool} first" if said.tool and self.changes.failed() else ""
        repeated = any(repeats.known(self.state, each) for each in self.state.newest)
        more = said.tool if missing and not repeated else None
        self.missing = Call(prompt=missing, tool=more) if more else None
        self.best.keep(
            said.final_answer, f"something is left to do: {missing}" if missing else None
        )
        return self.best.certain()

    def missing_call(self) -> MoveOn | None:
        """The call that is missing after those of the plan."""
        call, self.missing = self.missing, None
        return MoveOn(notes="", objective=call.prompt, tool_calls=[call]) if call else None
