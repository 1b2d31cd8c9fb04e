"""The plan of a run and its steps, as they are recorded: made, begun, revised, steered."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from planner.agent.model_calls import ModelCalls
from planner.events import (
    PlanMade,
    PlanRevised,
    SteeringTaken,
    StepConcluded,
    StepContinued,
    StepStarted,
)
from planner.evidence.tool_ranking import Ranking
from planner.inbox import Inbox
from planner.protocol import Call, MakePlan, MoveOn, Stay
from planner.state import RunState, plain, skipped, steered


@dataclass(frozen=True)
class Steps:
    state: RunState
    ranking: Ranking
    inbox: Inbox
    calls: ModelCalls

    async def make(self, plan: MakePlan) -> None:
        """Make a plan, and begin with its first step."""
        objectives = _distinct([step.objective for step in plan.steps])
        steps = zip(objectives, plan.steps, strict=True)
        self.plan(objectives, {objective: step.tool for objective, step in steps if step.tool})
        await self.start(objectives[0])

    def plan(self, objectives: Sequence[str], tools: dict[str, str], known: str = "") -> None:
        """Make a plan of these steps, each with its tool; `known` is what it is based on."""
        self.calls.emit(
            PlanMade(
                main_objective=self.state.part.asked.prompt,
                conclusion_from_assistant_data=known,
                later_steps=list(objectives[1:]),
                tools=tools,
            )
        )

    async def start(self, objective: str, asks: bool = False) -> None:
        """Begin a step; `asks`: its objective is a question, which is read for in place of the
        request."""
        number = len(self.state.steps) + 1
        shown = self.state.offered
        brought = await self.ranking.for_step(objective)
        offered = [name for name in brought if name not in shown]
        self.calls.emit(StepStarted(number=number, objective=objective, offered=offered, asks=asks))
        if objective in self.state.later_steps:  # it is no longer a later one
            self.revise([step for step in self.state.later_steps if step != objective])

    def end(self, success: bool, notes: str = "") -> None:
        number = len(self.state.steps)
        self.calls.emit(StepConcluded(number=number, success=success, notes=notes))

    async def begin_single(self) -> None:
        """The step that a request is for: the one that is planned next, or a new one."""
        prompt, planned = self.state.prompt, self.state.step
        if planned and prompt not in self.state.later_steps:
            return
        if planned:
            self.end(success=False, notes="Left out.")
        await self.start(prompt)

    async def follow(self, decision: MakePlan | Stay | MoveOn) -> list[Call]:
        """Record what was decided; returns the next tool calls."""
        match decision:
            case MakePlan():
                await self.make(decision)
                first = decision.steps[0]
                return [Call(prompt=first.objective, tool=first.tool or "")]
            case Stay():
                self.calls.emit(StepContinued(number=len(self.state.steps), notes=decision.notes))
                self.revise(decision.later_steps)
                return decision.tool_calls
            case MoveOn():
                self.end(success=decision.decision == "move_on", notes=decision.notes)
                self.calls.shorten_past()
                planned = [*self.state.later_steps, self.state.prompt]
                self.revise(decision.later_steps)
                await self.start(decision.objective or planned[0])
                return decision.tool_calls

    def revise(self, later_steps: list[str] | None) -> None:
        if later_steps is None:
            return
        revised = steered(later_steps, self.state.said)
        if revised != self.state.later_steps:
            self.calls.emit(PlanRevised(later_steps=revised))

    @property
    def unheeded(self) -> bool:
        """Whether the user has said something that no model was shown."""
        return any(each.said.hint for each in self.state.unshown)

    def wanted(self, step: str) -> bool:
        """Whether a step is still to be done, by what the user has said until now."""
        self.take_steering()
        return plain(step) not in skipped(self.state.said)

    def take_steering(self) -> bool:
        """Apply what was said to the run meanwhile, from here on. Returns whether there was
        anything."""
        said = self.inbox.steering()
        for each in said:
            shown = self.state.offered
            brought = self.ranking.for_hint(each.hint) if each.hint else []
            self.calls.emit(
                SteeringTaken(
                    steering=each,
                    later_steps=steered(self.state.later_steps, [*self.state.said, each]),
                    offered=[name for name in brought if name not in shown],
                )
            )
        return bool(said)


def _distinct(objectives: Sequence[str]) -> list[str]:
    """The objectives, numbered where they are the same: a step is known by its own."""
    count: Counter[str] = Counter()
    found = []
    for each in objectives:
        count[each] += 1
        found.append(f"{each} ({count[each]})" if count[each] > 1 else each)
    return found
