"""What stands within the definitions that a question names, through a tool that knows symbols."""

from collections.abc import Sequence

from planner.agent.tool_calls import Caller
from planner.checks.guards.arguments import takes_path
from planner.evidence.definitions import defined
from planner.evidence.outline import outline
from planner.evidence.selection import subjects
from planner.evidence.words import tokens
from planner.passage import Passage

MAX_OUTLINES = 2
"""Definitions named in one question whose members are looked up."""


class Outlines:
    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.symbols = next((tool for tool in caller.read_only if tool.symbol_argument), None)

    async def passages(self, passages: Sequence[Passage], question: str) -> list[Passage]:
        """The members of the definitions among the passages that the question names."""
        if self.symbols is None or self.symbols.symbol_argument is None:
            return []
        found: list[Passage] = []
        asked = {*tokens(question)}
        for definition in subjects(passages, question)[:MAX_OUTLINES]:
            name = next((name for name in defined(definition) if name in asked), None)
            if name is None:  # a quoted name may be several words of a text
                continue
            paths = filter(takes_path, self.symbols.parameters)
            where = {path: definition.source for path in paths}
            members = await self.caller.own_call(
                self.symbols, where | {self.symbols.symbol_argument: name}, f"outline {name}"
            )
            text = outline(members.result) if members.succeeded else ""
            if text:
                source = f"{self.symbols.name} {name}"
                found.append(Passage.made(source, text, f"members of {name}"))
        return found
