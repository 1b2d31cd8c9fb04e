"""A server of files that can be changed: `python filesystem.py FOLDER`, on stdio.

The tools, their arguments and their texts are those of the MCP project's own filesystem server (MIT
licence), as far as text files go, and they do what its tools do; `delete_file` is ours, since the
original cannot delete. It starts with this one file, so that a project needs nothing of Planloom.
"""

import difflib
import json
import sys
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from pydantic import BaseModel, Field

READS = {"readOnlyHint": True, "openWorldHint": False}
WITHIN = "Only works within allowed directories."


class Edit(BaseModel):
    oldText: str = Field(description="Text to search for - must match exactly")
    newText: str = Field(description="Text to replace with")


def writes(*, destroys: bool, again: bool) -> dict[str, bool]:
    """The annotations of a tool that changes something; `again`: twice is as once."""
    return {
        "readOnlyHint": False,
        "destructiveHint": destroys,
        "idempotentHint": again,
        "openWorldHint": False,
    }


def build_server(root: Path) -> FastMCP:
    """The server of one folder; relative paths start there."""
    root = root.resolve()
    mcp = FastMCP("filesystem", version="0.2.0")

    def inside(path: str) -> Path:
        found = (root / path).resolve()
        if found != root and root not in found.parents:
            raise ToolError(
                f"Access denied - path outside allowed directories: {path} not in {root}"
            )
        return found

    def read(path: str) -> str:
        try:
            return inside(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ToolError(f"ENOENT: no such file or directory, open '{path}'") from None
        except IsADirectoryError:
            raise ToolError("EISDIR: illegal operation on a directory, read") from None
        except UnicodeDecodeError:
            raise ToolError(f"{path} is no text in UTF-8") from None

    def entries(path: str) -> list[Path]:
        try:
            return sorted(inside(path).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            raise ToolError(f"ENOENT: no such file or directory, scandir '{path}'") from None

    @mcp.tool(
        annotations=READS,
        description="Read the complete contents of a file from the file system as text. Use this "
        "tool when you need to examine the contents of a single file. Use the 'head' parameter to "
        "read only the first N lines of a file, or the 'tail' parameter to read only the last N "
        f"lines of a file. {WITHIN}",
    )
    def read_text_file(
        path: str,
        tail: Annotated[
            int | None, Field(description="If provided, returns only the last N lines of the file")
        ] = None,
        head: Annotated[
            int | None, Field(description="If provided, returns only the first N lines of the file")
        ] = None,
    ) -> str:
        if head and tail:
            raise ToolError("Cannot specify both head and tail parameters simultaneously")
        text = read(path)
        lines = text.splitlines(keepends=True)
        return "".join(lines[-tail:] if tail else lines[:head] if head else lines)

    @mcp.tool(
        annotations=READS,
        description="Read the contents of multiple files simultaneously. This is more efficient "
        "than reading files one by one when you need to analyze or compare multiple files. Each "
        "file's content is returned with its path as a reference. Failed reads for individual "
        f"files won't stop the entire operation. {WITHIN}",
    )
    def read_multiple_files(
        paths: Annotated[
            list[str], Field(description="Array of file paths to read.", min_length=1)
        ],
    ) -> str:
        def shown(path: str) -> str:
            try:
                return f"{path}:\n{read(path)}\n"
            except ToolError as error:
                return f"{path}: Error - {error}"

        return "\n---\n".join(shown(path) for path in paths)

    @mcp.tool(
        annotations=writes(destroys=True, again=True),
        description="Create a new file or completely overwrite an existing file with new content. "
        "Use with caution as it will overwrite existing files without warning. Handles text "
        f"content with proper encoding. {WITHIN}",
    )
    def write_file(path: str, content: str) -> str:
        if not inside(path).parent.is_dir():
            raise ToolError(f"Parent directory does not exist: {PurePosixPath(path).parent}")
        inside(path).write_text(content, encoding="utf-8")
        return f"Successfully wrote to {path}"

    @mcp.tool(
        annotations=writes(destroys=True, again=False),
        description="Make line-based edits to a text file. Each edit replaces exact line sequences "
        f"with new content. Returns a git-style diff showing the changes made. {WITHIN}",
    )
    def edit_file(
        path: str,
        edits: list[Edit],
        dryRun: Annotated[
            bool, Field(description="Preview changes using git-style diff format")
        ] = False,
    ) -> str:
        before = after = read(path)
        for edit in edits:
            after = edited(after, edit)
        if not dryRun:
            inside(path).write_text(after, encoding="utf-8")
        diff = difflib.unified_diff(
            before.splitlines(), after.splitlines(), path, path, "original", "modified", lineterm=""
        )
        return "```diff\n" + "\n".join(diff) + "\n```"

    @mcp.tool(
        annotations=writes(destroys=False, again=True),
        description="Create a new directory or ensure a directory exists. Can create multiple "
        "nested directories in one operation. If the directory already exists, this operation "
        f"will succeed silently. {WITHIN}",
    )
    def create_directory(path: str) -> str:
        inside(path).mkdir(parents=True, exist_ok=True)
        return f"Successfully created directory {path}"

    @mcp.tool(
        annotations=READS,
        description="Get a detailed listing of all files and directories in a specified path. "
        "Results clearly distinguish between files and directories with [FILE] and [DIR] prefixes. "
        f"{WITHIN}",
    )
    def list_directory(path: str) -> str:
        return "\n".join(
            f"{'[DIR]' if each.is_dir() else '[FILE]'} {each.name}" for each in entries(path)
        )

    @mcp.tool(
        annotations=READS,
        description="Get a recursive tree view of files and directories as a JSON structure. Each "
        "entry includes 'name', 'type' (file/directory), and 'children' for directories. "
        f"{WITHIN}",
    )
    def directory_tree(path: str, excludePatterns: list[str] = []) -> str:  # noqa: B006
        def tree(folder: Path) -> list[dict[str, Any]]:
            return [
                {"name": each.name, "type": "directory", "children": tree(each)}
                if each.is_dir()
                else {"name": each.name, "type": "file"}
                for each in sorted(folder.iterdir())
                if not any(each.match(pattern) for pattern in excludePatterns)
            ]

        entries(path)
        return json.dumps(tree(inside(path)), indent=2)

    @mcp.tool(
        annotations=writes(destroys=True, again=False),
        description="Move or rename files and directories. Can move files between directories and "
        "rename them in a single operation. If the destination exists, the operation will fail. "
        "Both source and destination must be within allowed directories.",
    )
    def move_file(source: str, destination: str) -> str:
        if inside(destination).exists():
            raise ToolError(f"Destination already exists: {destination}")
        if not inside(destination).parent.is_dir():
            raise ToolError(f"Parent directory does not exist: {PurePosixPath(destination).parent}")
        try:
            inside(source).rename(inside(destination))
        except FileNotFoundError:
            raise ToolError(f"ENOENT: no such file or directory, rename '{source}'") from None
        return f"Successfully moved {source} to {destination}"

    @mcp.tool(
        annotations=writes(destroys=True, again=False),
        description=f"Delete a file. It cannot be brought back. {WITHIN}",
    )
    def delete_file(path: str) -> str:
        try:
            inside(path).unlink()
        except (FileNotFoundError, IsADirectoryError):
            raise ToolError(f"ENOENT: no such file, unlink '{path}'") from None
        return f"Successfully deleted {path}"

    @mcp.tool(
        annotations=READS,
        description="Recursively search for files and directories matching a pattern. The patterns "
        "should be glob-style patterns that match paths relative to the working directory. Use "
        "pattern like '*.ext' to match files in current directory, and '**/*.ext' to match files "
        "in all subdirectories. Returns full paths to all matching items. Great for finding files "
        f"when you don't know their exact location. {WITHIN}",
    )
    def search_files(path: str, pattern: str, excludePatterns: list[str] = []) -> str:  # noqa: B006
        try:
            found = sorted(inside(path).glob(pattern))
        except (NotImplementedError, ValueError) as error:
            raise ToolError(f"{pattern}: {error}") from None
        kept = [each for each in found if not any(each.match(mask) for mask in excludePatterns)]
        return "\n".join(str(each) for each in kept) or "No matches found"

    @mcp.tool(
        annotations=READS,
        description="Returns the list of directories that this server is allowed to access. "
        "Subdirectories within these allowed directories are also accessible.",
    )
    def list_allowed_directories() -> str:
        return f"Allowed directories:\n{root}"

    return mcp


def edited(text: str, edit: Edit) -> str:
    """The text with one edit made where it fits, first as it is, then whatever the indentation.

    Raises `ToolError` where it fits nowhere."""
    if edit.oldText in text:
        return text.replace(edit.oldText, edit.newText, 1)
    lines = text.split("\n")
    old = edit.oldText.split("\n")
    for start in range(len(lines) - len(old) + 1):
        there = lines[start : start + len(old)]
        if [line.strip() for line in there] == [line.strip() for line in old]:
            indent = there[0][: len(there[0]) - len(there[0].lstrip())]
            own = old[0][: len(old[0]) - len(old[0].lstrip())]
            new = [indent + line.removeprefix(own) for line in edit.newText.split("\n")]
            return "\n".join([*lines[:start], *new, *lines[start + len(old) :]])
    raise ToolError(f"Could not find exact match for edit:\n{edit.oldText}")


if __name__ == "__main__":
    build_server(Path(sys.argv[1])).run(show_banner=False)
