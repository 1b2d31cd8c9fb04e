"""Calls of upstreams, and what comes back: an error marked as a success is a failure, and a look-up
that finds nothing is made again in a broader form.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.checks.claims import numbers_in
from planner.checks.guards import repeats, widening
from planner.checks.guards.arguments import takes_path
from planner.checks.guards.results import NOTHING, empty, fault
from planner.evidence.context import readable
from planner.evidence.pages import Part, next_arguments
from planner.evidence.records import MAX_ROWS, is_further
from planner.prompts.texts import compact
from planner.state import Iteration, RunState
from planner.text import counted
from planner.tools import Arguments, Outcome, ToolPool, ToolResult, ToolSpec

MAX_PARTS = 10
"""Further parts of a list that are read."""


@dataclass(frozen=True)
class Sender:
    pool: ToolPool
    state: RunState
    guard: Callable[[str, str], None]

    async def read(self, iteration: Iteration, tool: ToolSpec, arguments: Arguments) -> ToolResult:
        """Make a call that changes nothing, and a broader one if nothing is found."""
        result = await self.send(tool, arguments)
        nothing = result.succeeded and empty(result.text)
        if iteration.by == "choice" and nothing:  # a look-up widens by itself
            return await self.widened(tool, arguments, result, widening.wider(tool, arguments))
        if not iteration.by_model:
            return result
        result = await self.whole(tool, arguments, result)
        if result.outcome is Outcome.FAILURE:
            fewer = widening.in_fewer_words(tool, arguments)
            return await self.widened(tool, arguments, result, fewer)
        return await self.with_siblings(tool, arguments, result)

    async def whole(self, tool: ToolSpec, arguments: Arguments, result: ToolResult) -> ToolResult:
        """The result with the further parts of a list that it is the first part of, as far as
        the tool can be asked for them. One entry, or as many as the request says, are what was
        asked for."""
        last = Part(result.text)
        read, seconds, parts = last.listed, result.seconds, 0
        as_asked = len(read) < 2 or len(read) in numbers_in(self.state.prompt)
        ends = not result.succeeded or as_asked or is_further(arguments) or last.ends(len(read))
        while not ends and parts < MAX_PARTS and len(read) < MAX_ROWS:
            further = next_arguments(tool, arguments, last)
            again = await self.send(tool, further) if further else None
            if not (further and again and again.succeeded):
                break
            arguments, following = further, Part(again.text)
            new = [each for each in following.listed if each not in read]
            parts, seconds, read = parts + 1, seconds + again.seconds, read + new
            if not new:  # a tool that does not heed the argument returns the same again
                ends = empty(again.text) and last.total <= len(read)
                break
            ends, last = following.ends(len(read)), following
        if not parts:
            return result
        self.guard("page", f"{tool.name} goes on; {counted(parts, 'further part')} read")
        text = last.joined(read, whole=ends)
        return result.model_copy(update={"text": text, "seconds": seconds})

    async def with_siblings(
        self, tool: ToolSpec, arguments: Arguments, result: ToolResult
    ) -> ToolResult:
        """The result, and those for the other items of a short list that one argument was taken
        from, where the user did not say which: a small model takes the first one. Not where
        passages of files were gathered, which are ranked."""
        if not result.succeeded or self.state.passages:
            return result
        said = self.state.said_by_user.casefold()
        made = (Outcome.SUCCESS, Outcome.FAILURE)
        calls = [each for each in self.state.part_iterations[-2::-1] if each.outcome in made]
        for name, value in arguments.items():
            if not isinstance(value, str) or takes_path(name) or value.casefold() in said:
                continue
            lists = (widening.siblings(name, value, each) for each in calls)
            others = next(filter(None, lists), [])
            if others:
                self.guard("siblings", f"{tool.name} is called for {', '.join(others)} as well")
                results = {value: result}
                for other in others:
                    results[other] = await self.send(tool, arguments | {name: other})
                found = (f"{item}:\n{readable(each.text)}" for item, each in results.items())
                text = "\n".join(found)
                seconds = sum(each.seconds for each in results.values())
                return result.model_copy(update={"text": text, "seconds": seconds})
        return result

    async def send(self, tool: ToolSpec, arguments: Arguments) -> ToolResult:
        """Make one call of an upstream. An error that is marked as a success is returned as a
        failure."""
        result = await self.pool.call(tool, arguments)
        if result.succeeded and fault(tool, arguments, result.text):
            first = result.text.strip().partition("\n")[0][:200]
            self.guard("error_text", f"{tool.name} said as a success: {first}")
            return result.model_copy(update={"outcome": Outcome.FAILURE})
        return result

    async def widened(
        self,
        tool: ToolSpec,
        arguments: Arguments,
        result: ToolResult,
        tries: Sequence[Arguments],
    ) -> ToolResult:
        """The result of the first broader try that finds something, from the record where it was
        made before; else the empty result, with what else was tried."""
        tried, seconds = [], result.seconds
        for wider in tries:
            message = f"Nothing for {compact(arguments)}; looking for {compact(wider)}"
            self.guard("empty", message)
            if earlier := repeats.repeated(self.state, tool, wider):
                again = ToolResult(outcome=Outcome.SUCCESS, text=earlier.result)
            else:
                again = await self.send(tool, wider)
            seconds += again.seconds
            if not again.succeeded:
                continue
            if not empty(again.text):
                text = f"{NOTHING}; for {compact(wider)}:\n{again.text}"
                return ToolResult(outcome=Outcome.SUCCESS, text=text, seconds=seconds)
            tried.append(f", nor for {compact(wider)}")
        if not result.succeeded:
            return result.model_copy(update={"seconds": seconds})
        text = f"{NOTHING}{''.join(tried)}." if tried else result.text
        return ToolResult(outcome=Outcome.SUCCESS, text=text, seconds=seconds)
