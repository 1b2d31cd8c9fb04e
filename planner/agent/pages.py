"""The pages on the web that a question names, through a tool of the pool that reads one."""

import re

from planner.agent.tool_calls import Caller
from planner.checks.guards.results import found_something
from planner.evidence.passages import of_document
from planner.evidence.words import words
from planner.passage import Passage
from planner.tools import ToolSpec

MAX_PAGES = 3
"""Pages that are read for one question."""
_ADDRESS = re.compile(r"https?://[^\s<>\"'`«»“”]*[\w/]")
"""An address, without the marks of the sentence that it stands in."""


class Pages:
    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.read = next(filter(_reads_pages, caller.read_only), None)

    async def passages(self, question: str) -> list[Passage]:
        """What stands on the pages that a question names; nothing of those that cannot be read."""
        found: list[Passage] = []
        if self.read:
            for address in list(dict.fromkeys(_ADDRESS.findall(question)))[:MAX_PAGES]:
                taking = dict.fromkeys(self.read.required, address)
                page = await self.caller.own_call(self.read, taking, f"read {address}")
                if found_something(page):
                    found += of_document(address, page.result, self.read.upstream)
        return found


def _reads_pages(tool: ToolSpec) -> bool:
    """Whether a tool needs nothing but an address."""
    match tool.required:
        case [name]:
            form = tool.parameters.get(name, {}).get("format")
            return form in ("uri", "url") or not {"uri", "url"}.isdisjoint(words(name))
    return False
