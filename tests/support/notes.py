"""An upstream that takes notes, and the person who approves its calls."""

import json
from pathlib import Path
from typing import Any

import anyio
from fastmcp import FastMCP
from fastmcp.client.elicitation import ElicitResult
from mcp_types import ElicitResult as RawElicitResult
from serving import LONG, Called, Caller, SharedUpstream, ignored

CALL = {"prompt": "Note hello", "tool": "add_note", "arguments": {"text": "hello"}}
CALL_IN_WORDS = 'add_note {"text": "hello"}'
YES = {"approval": RawElicitResult(action="accept", content={"approve": True})}
"""The answer that approves a call, as it goes over the wire."""


def notes_server(folder: Path) -> FastMCP:
    """Notes in a file, which so records what was run."""
    mcp = FastMCP("notes", version="1")
    file = folder / "notes.txt"

    @mcp.tool(annotations={"readOnlyHint": True})
    def count_notes() -> str:
        """Count the notes."""
        return f"{len(noted(folder))} notes"

    @mcp.tool(annotations={"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False})
    def add_note(text: str, author: str = "nobody") -> str:
        """Add a note."""
        with file.open("a") as stream:
            stream.write(json.dumps([text, author]) + "\n")
        return "added"

    @mcp.tool
    def delete_notes() -> str:
        """Delete all notes."""
        file.unlink()
        return "deleted"

    return mcp


def noted(folder: Path) -> list[list[str]]:
    file = folder / "notes.txt"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


class Person:
    """Answers forms in turn: a bool is the tick, a text the action, `None` no answer at all."""

    def __init__(self, *answers: bool | str | Exception | None) -> None:
        self.answers = list(answers)
        self.shown: list[str] = []
        self.withdrawn = 0
        self.comes_back = anyio.Event()
        """Set for an answer after all, where there was none."""

    async def __call__(self, message: str, _type: Any, params: Any, _context: Any) -> Any:
        self.shown.append(message)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            try:
                await self.comes_back.wait()
            except anyio.get_cancelled_exc_class():
                self.withdrawn += 1
                raise
            answer = True
        if isinstance(answer, str):
            return ElicitResult.model_validate({"action": answer})
        return {"approve": answer}


def notes(shared: SharedUpstream, policy: str = "ask", **tools: Any) -> dict[str, Any]:
    return {"url": shared.url, "policy": policy, "tools": tools}


def report(result: Any) -> dict[str, Any]:
    found = result.whole if isinstance(result, Called) else result.structured_content
    assert found
    return dict(found)


async def raw(caller: Caller, name: str, arguments: dict[str, Any], **answer: Any) -> Any:
    """A call whose questions are not answered by itself."""
    with anyio.fail_after(LONG):
        return await caller.client.session.call_tool(
            name, arguments, allow_input_required=True, progress_callback=ignored, **answer
        )
