"""The questions about changes of files: which ones, with which tool, and what they have to hold."""

from collections.abc import Mapping, Sequence
from typing import Any

from planner.agent.questions import ARGUMENT_TOKENS, BRIEF_TOKENS, SELECTION_TOKENS, Asker
from planner.checks import lenient, schemas
from planner.evidence.additions import Place
from planner.evidence.file_text import split_lines
from planner.passage import Passage
from planner.prompts import questions
from planner.prompts.texts import as_it_was, catalogue, fill
from planner.tools import ToolSpec

REWRITE_TOKENS = 600


class EditAsker:
    """What is asked where a request may be met by replacing texts in files."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.calls = asker.calls
        self.state = asker.state

    async def files_to_change(self, texts: Mapping[str, str]) -> list[str]:
        """The files that a request wants changed, out of these, each with its passages."""
        question = questions.which_files(self.state, texts)
        schema = schemas.several(schemas.one_of([*texts]))
        files = await self.asker.only("rewrite", question, "files", list[str], schema, BRIEF_TOKENS)
        return list(dict.fromkeys(files))

    async def rewrite(self, part: Passage) -> tuple[str, bool]:
        """A part of a file as the request wants it, or something else where nothing has to change;
        and whether it is whole. If it was cut off, it goes up to the last line that the part has:
        what is new after that may lack its end."""
        question = questions.asked("ask_rewrite", self.state, path=part.source, text=part.text)
        reply = await self.calls.chat("rewrite", question, None, REWRITE_TOKENS)
        written = as_it_was(lenient.block_in(reply.text, part.text), part.text)
        if reply.finish != "length":
            return written, True
        lines, own = split_lines(written), {*filter(None, split_lines(part.text))}
        copied = [number for number, line in enumerate(lines, 1) if line in own]
        return "\n".join(lines[: max(copied, default=0)]), False

    async def add(self, path: str, where: Place) -> str:
        """What a request wants to be added to a file, by itself; empty if that was cut off."""
        question = questions.asked(
            "ask_addition",
            self.state,
            path=path,
            outline=where.outline,
            example=where.example.text,
        )
        reply = await self.calls.chat("rewrite", question, None, REWRITE_TOKENS)
        return lenient.block_in(reply.text, where.example.text) if reply.finish == "stop" else ""

    async def renames(self, old: str, new: str) -> bool:
        """Whether a request wants a definition to get another name, and not another one beside
        it."""
        rename, add = f"rename {old} to {new}", f"add {new}"
        question = questions.asked("ask_rename", self.state, rename=rename, add=add)
        schema = schemas.one_of([add, rename])
        wants = await self.asker.only("rewrite", question, "wants", str, schema, SELECTION_TOKENS)
        return wants == rename

    async def editing_tool(self, names: Sequence[str]) -> str | None:
        """The tool that replaces texts in files, out of these."""
        return await self.asker.select("example", fill("ask_editing_tool"), schemas.or_none(names))

    async def edit_call(self, tool: ToolSpec) -> dict[str, Any]:
        """How a tool is called that replaces texts in files."""
        question = questions.edit_call(tool)
        return await self.calls.ask(
            "example", question, tool.grammar, dict[str, Any], ARGUMENT_TOKENS, called=tool.name
        )

    async def changing_tools(self, names: Sequence[str]) -> list[str]:
        """The tools that the change of a request needs, out of these."""
        listed = catalogue([self.asker.tools[name] for name in names])
        question = questions.asked("ask_changing_tools", self.state, tools=listed)
        schema = schemas.several(schemas.one_of(names), most=3)
        return await self.asker.only(
            "example", question, "tools", list[str], schema, SELECTION_TOKENS
        )
