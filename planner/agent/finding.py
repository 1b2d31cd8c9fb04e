"""What a call needs and nobody has said: another tool finds it, and the call is made again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planner.agent.budget import Budget
from planner.agent.questions import Asker
from planner.agent.tool_calls import Caller
from planner.checks.guards import sources
from planner.checks.guards.arguments import takes_paths
from planner.checks.guards.results import empty
from planner.checks.guards.widening import items
from planner.checks.validation import narrowed
from planner.evidence.answers import kind
from planner.evidence.tool_ranking import Ranking
from planner.grammar import MAX_ITEMS
from planner.protocol import Call
from planner.state import Iteration, RunState
from planner.tools import Arguments, Outcome, Policy

TEXTS = ("string", "array", None)
"""The types of arguments that things are named in."""
LIKELY_FINDERS = 3
"""How many tools are named for finding out what a call needs."""


@dataclass
class Finder:
    state: RunState
    ranking: Ranking
    asker: Asker
    caller: Caller
    budget: Budget
    tools: dict[frozenset[str], str] = field(default_factory=dict)
    """The tools that were called to find what arguments of some kinds need, each of them once."""

    def forget(self) -> None:
        """Begin with another plan."""
        self.tools = {}

    def choices(self, calls: Sequence[Call]) -> Mapping[str, Sequence[str]]:
        """The values that arguments of these look-ups are chosen from, as a tool was called before
        to find them. What a change is made with is not for a list to say."""
        tools = (self.asker.tools.get(call.tool) for call in calls)
        needed = (name for tool in tools if tool and tool.read_only for name in tool.required)
        found = {name: self._found(self.tools.get(kind(name)), name) for name in needed}
        return {name: values for name, values in found.items() if values}

    def all_found(self, call: Call, found: Mapping[str, Sequence[str]]) -> Arguments | None:
        """The arguments of a look-up that takes nothing but a list of what was found: all of it,
        which a model would copy. `found`: its `choices`."""
        tool = self.asker.tools.get(call.tool)
        if not (tool and found and found.keys() == {*tool.required}):
            return None
        if any(tool.parameters.get(name, {}).get("type") != "array" for name in found):
            return None
        takes = narrowed(tool.input_schema, found)["properties"]
        return {name: takes[name]["items"]["enum"][:MAX_ITEMS] for name in found}

    async def follow(self, call: Call) -> None:
        """After a call, find what it lacks: what was guessed for a change, or the things that a
        look-up which found nothing is about."""
        [*_, newest] = self.state.newest
        if self.caller.guessed:
            await self.find_guessed(call, newest)
        elif _found_nothing(newest) and newest.upstream:
            await self.find_first(call, newest)

    async def find_first(self, call: Call, newest: Iteration) -> None:
        """Call a tool that finds the things which a look-up is about, and then the look-up for
        these: asked for the prices of hotels, a small model gives the name of the city."""
        tool = self.asker.tools.get(newest.tool)
        if tool is None or not tool.read_only or tool.has_role or takes_paths(tool):
            return  # the last two look up what they are given
        texts = [
            each for each in tool.required if tool.parameters.get(each, {}).get("type") in TEXTS
        ]
        needed = [name for name in texts if kind(name) not in self.tools]
        called = {each.tool for each in self.state.part_iterations}
        finders = [each for each in self._finders(needed) if each not in called]
        if not finders:
            return
        likely = await self.ranking.likeliest(" ".join(needed), finders, LIKELY_FINDERS)
        if not likely:
            return
        if finder := await self.asker.select_to_find(call, needed, finders, likely):
            self.budget.hold()
            await self.caller.call(Call(prompt=f"Find {', '.join(needed)}", tool=finder))
            self.tools |= {kind(name): finder for name in needed}
            if choices := self.choices([call]):
                self.budget.hold()
                given = self.all_found(call, choices)
                await self.caller.call(call, choices=choices, given=given)

    async def find_guessed(self, call: Call, newest: Iteration) -> None:
        """Look up what was guessed for a change, and make the call then, with values that were
        found under the same name if there are any. Where no tool finds it, and for an amount that
        the call needs, a person is asked about the call as it is."""
        sought = [each for each in self.caller.guessed if not each.is_amount]
        names = [each.argument for each in sought]
        missing = [each.wanted for each in sought]
        required = self.asker.tools[call.tool].required
        amount = any(each.is_amount and each.argument in required for each in self.caller.guessed)
        self.budget.hold()
        finder = None
        if (finders := self._finders(names)) and not amount:
            query = " ".join([call.tool, *missing])
            likely = await self.ranking.likeliest(query, finders, LIKELY_FINDERS)
            finder = await self.asker.select_to_find(call, missing, finders, likely)
        if finder:
            purpose = f"Find {', '.join(missing)} for {call.tool}"
            await self.caller.call(Call(prompt=purpose, tool=finder))
            self.budget.hold()
            [*_, found] = self.state.newest
            text = sources.found_by(found)
            choices = {name: sources.only_candidates(name, text) for name in names}
            await self.caller.call(call, choices=choices)
        elif self.state.part.request.policy is not Policy.ALLOW:
            by = self.asker.models.full.name
            await self.caller.call(call, given=newest.arguments, by=by)

    def _finders(self, names: Sequence[str]) -> list[str]:
        """The tools that may find what arguments of these names need: those that read, and do not
        need one of them."""
        sought = {*map(kind, names)}
        reading = [each for each in self.asker.choices if each.read_only and each.upstream]
        free = [each for each in reading if sought.isdisjoint(map(kind, each.required))]
        return [each.name for each in free if names]

    def _found(self, finder: str | None, name: str) -> list[str]:
        """What the calls of a tool found for an argument of this name: values under that name, or
        the items of lists, if they were made for nothing else."""
        calls = (each for each in self.state.part_iterations if each.tool == finder)
        results = [each.result for each in calls if not _found_nothing(each)]
        found = [value for each in results for value in sources.only_candidates(name, each)]
        if not found and [*self.tools.values()].count(finder or "") == 1:
            found = [item for each in results for item in items(each)]
        return list(dict.fromkeys(found))


def _found_nothing(call: Iteration) -> bool:
    """Whether a call failed, or succeeded and returned nothing."""
    return call.outcome is Outcome.FAILURE or (call.succeeded and empty(call.result))
