"""What a call needs and nobody has said: another tool finds it, and the call is made again."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planner.agent.budget import Budget
from planner.agent.changes import complaint
from planner.agent.questions import Asker
from planner.agent.tool_calls import Caller
from planner.checks.claims import numbers_in
from planner.checks.guards import sources
from planner.checks.guards.arguments import takes_path, takes_paths
from planner.checks.guards.results import found_something
from planner.checks.guards.widening import QUOTED, STATEMENT, instead_of, items
from planner.checks.validation import narrowed
from planner.evidence.answers import kind
from planner.evidence.tool_ranking import Ranking
from planner.evidence.words import says
from planner.grammar import MAX_ITEMS
from planner.prompts.texts import compact
from planner.protocol import Call
from planner.state import Iteration, RunState
from planner.tools import Arguments, Outcome, Policy, ToolSpec

TEXTS = ("string", "array", None)
"""The types of arguments that things are named in."""
_FORM = re.compile(r"""(?<![\w'"/.])(?:\.[a-z]\w+|(?:[A-Z]{2,}[-/:.])+[A-Z]{2,})\b""")
"""A form that values are to have: `YYYY-MM-DD`, `.xlsx`."""
MAX_CORRECTIONS = 2
"""How often the arguments of a look-up are written again, with what its tool said of them."""
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
        """After a call, find what it lacks: what was guessed for a change, or what a look-up needs
        that failed or found nothing."""
        [*_, newest] = self.state.newest
        tool = self.asker.tools.get(call.tool)
        if self.caller.guessed:
            await self.find_guessed(call, newest)
        elif tool and tool.read_only:
            await self.look_up_again(tool, call, newest)

    async def look_up_again(self, tool: ToolSpec, call: Call, newest: Iteration) -> None:
        """Make a look-up that failed or found nothing again, with one of the values that its tool
        names instead, or with what another tool finds, or else with what its tool said in view, if
        that is new: the form of a date."""
        known = f"{self.state.said_by_user} {tool}"
        for _ in range(MAX_CORRECTIONS):
            if not (newest.upstream and _found_nothing(newest)):
                return
            failed = newest.outcome is Outcome.FAILURE
            instead = instead_of(newest) if failed else {}
            if instead or not await self.find_first(tool, call, newest):
                if not (failed and (new := _told(newest, known))):
                    return
                known = " ".join([known, *new])
                self.budget.hold()
                await self.caller.call(call, problem=complaint(newest), choices=instead)
            [*_, again] = self.state.newest
            newest = again if again.upstream or again.succeeded else newest

    async def find_first(self, tool: ToolSpec, call: Call, newest: Iteration) -> bool:
        """Call a tool that finds the things which a look-up is about, and then the look-up for
        these: asked for the prices of hotels, a small model gives the name of the city. Returns
        whether another tool was called."""
        if tool.has_role:
            return False  # it looks up what it is given
        texts = self._unknown(tool, newest)
        if await self.find_known(call, self._names(texts, newest)):
            return True
        needed = self._names(texts, newest)
        called = {each.tool for each in self.state.part_iterations}
        finders = [each for each in self._finders(texts, self.asker.choices) if each not in called]
        if not finders:
            return False
        likely = await self.ranking.likeliest(" ".join(needed), finders, LIKELY_FINDERS)
        if not likely and newest.outcome is Outcome.FAILURE:  # which may say what it lacks
            said = sources.found_by(newest)
            likely = await self.ranking.likeliest(said, finders, LIKELY_FINDERS)
            needed = []
        if not likely:
            return False
        finder = await self.asker.select_to_find(call, needed or texts, finders, likely)
        if finder is None:
            return False
        self.budget.hold()
        finding = Call(prompt=f"Find {', '.join(needed or texts)}", tool=finder)
        await self.caller.call(finding)
        [*_, found] = self.state.newest
        if _found_nothing(found):
            unknown = self._unknown(self.asker.tools[finder], found)
            await self.find_known(finding, self._names(unknown, found))
            [*_, found] = self.state.newest
        again = await self.call_again(call, finder, needed)
        if not again and newest.outcome is Outcome.FAILURE and not _found_nothing(found):
            self.budget.hold()
            await self.caller.call(call)
        return True

    async def find_known(self, call: Call, needed: Sequence[str]) -> bool:
        """Make a look-up that found nothing again with what an earlier call has found for its
        arguments of these names, if one has."""
        called = {each.tool for each in self.state.part_iterations if each.succeeded}
        made = [each for each in self.asker.tools.values() if each.name in called]
        finders = self._finders(needed, made)
        known = await self.ranking.likeliest(" ".join(needed), finders, 1)
        return bool(known) and await self.call_again(call, known[0], needed)

    def _unknown(self, tool: ToolSpec, call: Iteration) -> list[str]:
        """The required texts of a call that may have to be found out; of one that takes a path, by
        which it is known what it is about, those that nobody has said."""
        texts = [
            each for each in tool.required if tool.parameters.get(each, {}).get("type") in TEXTS
        ]
        if not takes_paths(tool):
            return texts
        said = sources.said(self.state)
        given = ((name, call.arguments.get(name)) for name in texts if not takes_path(name))
        return [
            name for name, value in given if not says(f"{said} {tool.parameters[name]}", str(value))
        ]

    def _names(self, texts: Sequence[str], call: Iteration) -> list[str]:
        """Those of a call's texts that name things, for which nothing was called yet."""
        given = ((name, str(call.arguments.get(name))) for name in texts)
        return [
            name
            for name, value in given
            if kind(name) not in self.tools and not STATEMENT.search(value)
        ]

    async def call_again(self, call: Call, finder: str, names: Sequence[str]) -> bool:
        """Make a look-up with what a tool has found for its arguments of these names, if it has."""
        self.tools |= {kind(name): finder for name in names}
        choices = self.choices([call])
        if choices:
            self.budget.hold()
            given = self.all_found(call, choices)
            await self.caller.call(call, choices=choices, given=given)
        return bool(choices)

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
        if (finders := self._finders(names, self.asker.choices)) and not amount:
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

    def _finders(self, names: Sequence[str], tools: Sequence[ToolSpec]) -> list[str]:
        """The tools that may find what arguments of these names need: those that read, and do not
        need one of them."""
        sought = {*map(kind, names)}
        reading = [each for each in tools if each.read_only and each.upstream]
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


def _told(call: Iteration, known: str) -> list[str]:
    """What a failure says that is new: quotations, forms, and numbers where the call has some."""
    said = f"{known} {call.tool} {compact(call.arguments)}"
    counted = any(type(each) in (int, float) for each in call.arguments.values())
    numbers = [f"{each:g}" for each in numbers_in(call.result) if counted]
    new = [*QUOTED.findall(call.result), *_FORM.findall(call.result), *numbers]
    return [each for each in new if each not in said]


def _found_nothing(call: Iteration) -> bool:
    """Whether a call failed, or succeeded and returned nothing."""
    return call.outcome is Outcome.FAILURE or (call.succeeded and not found_something(call))
