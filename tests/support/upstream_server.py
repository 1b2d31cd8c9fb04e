"""A small real MCP server for tests, over HTTP; `upstream_process.py` has its tools over stdio.

Tools over a folder (lines from 1), and tools that do what upstreams do at their worst.
"""

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from by_hand import Tool

if TYPE_CHECKING:
    from fastmcp import FastMCP

READ_ONLY = {"readOnlyHint": True, "destructiveHint": False}
THINGS = "boiler bridge carriage engine signal station ticket timetable tunnel wheel".split()  # noqa: SIM905
ASPECTS = ("age", "colour", "length", "owner", "price", "weight")


def tools(folder: Path) -> Iterator[Tool]:
    """Its tools, but those that need a library."""

    def read_file(path: str, start_line: int = 1, end_line: int | None = None) -> str:
        """Read a file, or its lines start_line to end_line."""
        lines = _inside(folder, path).read_text().splitlines()
        return "\n".join(lines[max(start_line - 1, 0) : end_line])

    yield read_file, READ_ONLY

    def list_dir(path: str = ".") -> dict[str, list[str]]:
        """List the directories and files of a directory."""
        entries = sorted(_inside(folder, path).iterdir())
        return {
            "dirs": [entry.name for entry in entries if entry.is_dir()],
            "files": [entry.name for entry in entries if entry.is_file()],
        }

    yield list_dir, READ_ONLY

    def search(pattern: str, path: str = ".") -> str:
        """Search files for a regular expression; answers file:line: text."""
        return "\n".join(
            f"{file.relative_to(folder)}:{number}: {line}"
            for file in sorted(_inside(folder, path).rglob("*.py"))
            for number, line in enumerate(file.read_text().splitlines(), 1)
            if re.search(pattern, line)
        )

    yield search, READ_ONLY

    def write_file(path: str, text: str) -> str:
        """Write a file."""
        _inside(folder, path).write_text(text)
        return "written"

    yield write_file, {"readOnlyHint": False, "destructiveHint": True}

    def append_note(text: str) -> str:
        """Add a note."""
        return text

    yield append_note, {"readOnlyHint": False, "destructiveHint": False}

    def unannotated() -> str:
        """Says nothing of what it does."""
        return "done"

    yield unannotated, None

    def pid() -> int:
        """The process this server runs in."""
        return os.getpid()

    yield pid, READ_ONLY

    def environment() -> dict[str, str]:
        """The environment this server got."""
        return dict(os.environ)

    yield environment, READ_ONLY

    async def sleep(seconds: float, trace: str = "") -> str:
        """Sleep, and leave a trace file that says how it ended."""
        file = folder / trace if trace else None
        try:
            if file:
                file.write_text("started")
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if file:
                file.write_text("cancelled")
            raise
        return "slept"

    yield sleep, READ_ONLY

    def crash() -> str:
        """End this process at once."""
        print("the last words, with", os.environ.get("TOKEN"), file=sys.stderr, flush=True)
        os._exit(3)

    yield crash, READ_ONLY

    def fail(text: str) -> str:
        """Answer with an error result."""
        raise ValueError(text)

    yield fail, READ_ONLY

    def say(text: str) -> str:
        """Answer with the text."""
        return text

    yield say, READ_ONLY

    def flood(characters: int) -> str:
        """Answer with that many characters."""
        return "x" * characters

    yield flood, READ_ONLY


def crowd() -> Iterator[Tool]:
    """Sixty tools, such as `engine_weight`."""

    def made(thing: str, aspect: str) -> Tool:
        def tell(name: str) -> str:
            return f"The {aspect} of the {thing} {name} is {sum(map(ord, thing + aspect + name))}."

        tell.__name__, tell.__doc__ = f"{thing}_{aspect}", f"Tell the {aspect} of a {thing}."
        return tell, READ_ONLY

    for thing in THINGS:
        for aspect in ASPECTS:
            yield made(thing, aspect)


def build_server(folder: Path) -> "FastMCP":
    """The server with all its tools, for HTTP in the test's own process or for stdio."""
    from fastmcp import Context, FastMCP  # takes seconds, which tools by hand do not need
    from fastmcp.tools import ToolResult
    from mcp_types import (
        BlobResourceContents,
        EmbeddedResource,
        ImageContent,
        ResourceLink,
        TextContent,
        TextResourceContents,
        ToolListChangedNotification,
    )

    mcp = FastMCP("test upstream", version="1")
    for function, annotations in tools(folder):
        mcp.tool(annotations=annotations)(function)

    @mcp.tool(annotations=READ_ONLY)
    def mixed() -> ToolResult:
        """Answer with a block of each kind."""
        return ToolResult(
            content=[
                TextContent(type="text", text="first"),
                ImageContent(type="image", data="A" * 45_000, mime_type="image/png"),
                EmbeddedResource(
                    type="resource", resource=TextResourceContents(uri="a://1", text="second")
                ),
                EmbeddedResource(
                    type="resource", resource=BlobResourceContents(uri="a://2", blob="QUJD")
                ),
                ResourceLink(
                    type="resource_link",
                    uri="a://3",
                    name="third",
                    title="The third one",
                    description="what it is about",
                ),
            ],
            structured_content={"content": [{"type": "image", "data": "A" * 45_000}]},
        )

    @mcp.tool(annotations=READ_ONLY)
    async def grow(ctx: Context) -> str:
        """Add the tool `grown` to the list, and say that the list changed."""

        @mcp.tool(annotations=READ_ONLY)
        def grown() -> str:
            """New."""
            return "grown"

        await ctx.send_notification(ToolListChangedNotification())
        return "a tool was added"

    return mcp


def _inside(folder: Path, path: str) -> Path:
    found = (folder / path).resolve()
    if not found.is_relative_to(folder.resolve()):
        raise ValueError(f"{path} is outside of the folder")
    return found
