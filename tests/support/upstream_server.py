"""A small real MCP server for tests; `upstream_process.py` runs it over stdio.

Tools over a folder (lines from 1), and tools that do what upstreams do at their worst.
"""

import asyncio
import os
import re
import sys
from pathlib import Path

from fastmcp import Context, FastMCP
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

READ_ONLY = {"readOnlyHint": True, "destructiveHint": False}
THINGS = "boiler bridge carriage engine signal station ticket timetable tunnel wheel".split()  # noqa: SIM905
ASPECTS = ("age", "colour", "length", "owner", "price", "weight")


def build_server(folder: Path) -> FastMCP:
    """The server with all its tools, for stdio or for HTTP in the test's own process."""
    mcp = FastMCP("test upstream", version="1")

    @mcp.tool(annotations=READ_ONLY)
    def read_file(path: str, start_line: int = 1, end_line: int | None = None) -> str:
        """Read a file, or its lines start_line to end_line."""
        lines = _inside(folder, path).read_text().splitlines()
        return "\n".join(lines[max(start_line - 1, 0) : end_line])

    @mcp.tool(annotations=READ_ONLY)
    def list_dir(path: str = ".") -> dict[str, list[str]]:
        """List the directories and files of a directory."""
        entries = sorted(_inside(folder, path).iterdir())
        return {
            "dirs": [entry.name for entry in entries if entry.is_dir()],
            "files": [entry.name for entry in entries if entry.is_file()],
        }

    @mcp.tool(annotations=READ_ONLY)
    def search(pattern: str, path: str = ".") -> str:
        """Search files for a regular expression; answers file:line: text."""
        return "\n".join(
            f"{file.relative_to(folder)}:{number}: {line}"
            for file in sorted(_inside(folder, path).rglob("*.py"))
            for number, line in enumerate(file.read_text().splitlines(), 1)
            if re.search(pattern, line)
        )

    @mcp.tool(annotations={"readOnlyHint": False, "destructiveHint": True})
    def write_file(path: str, text: str) -> str:
        """Write a file."""
        _inside(folder, path).write_text(text)
        return "written"

    @mcp.tool(annotations={"readOnlyHint": False, "destructiveHint": False})
    def append_note(text: str) -> str:
        """Add a note."""
        return text

    @mcp.tool
    def unannotated() -> str:
        """Says nothing of what it does."""
        return "done"

    @mcp.tool(annotations=READ_ONLY)
    def pid() -> int:
        """The process this server runs in."""
        return os.getpid()

    @mcp.tool(annotations=READ_ONLY)
    def environment() -> dict[str, str]:
        """The environment this server got."""
        return dict(os.environ)

    @mcp.tool(annotations=READ_ONLY)
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

    @mcp.tool(annotations=READ_ONLY)
    def crash() -> str:
        """End this process at once."""
        print("the last words, with", os.environ.get("TOKEN"), file=sys.stderr, flush=True)
        os._exit(3)

    @mcp.tool(annotations=READ_ONLY)
    def fail(text: str) -> str:
        """Answer with an error result."""
        raise ValueError(text)

    @mcp.tool(annotations=READ_ONLY)
    def say(text: str) -> str:
        """Answer with the text."""
        return text

    @mcp.tool(annotations=READ_ONLY)
    def flood(characters: int) -> str:
        """Answer with that many characters."""
        return "x" * characters

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


def crowd(mcp: FastMCP) -> None:
    """Add sixty tools, such as `engine_weight`."""

    def add(thing: str, aspect: str) -> None:
        @mcp.tool(
            name=f"{thing}_{aspect}",
            description=f"Tell the {aspect} of a {thing}.",
            annotations=READ_ONLY,
        )
        def tell(name: str) -> str:
            return f"The {aspect} of the {thing} {name} is {sum(map(ord, thing + aspect + name))}."

    for thing in THINGS:
        for aspect in ASPECTS:
            add(thing, aspect)


def _inside(folder: Path, path: str) -> Path:
    found = (folder / path).resolve()
    if not found.is_relative_to(folder.resolve()):
        raise ValueError(f"{path} is outside of the folder")
    return found
