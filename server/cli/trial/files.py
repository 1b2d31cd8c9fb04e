"""The upstream of a trial; `python -m planloom.server.cli.trial.files FOLDER` serves it."""

import re
import sys
from pathlib import Path

from fastmcp import FastMCP

READ_ONLY = {"readOnlyHint": True, "destructiveHint": False}


def build_server(folder: Path) -> FastMCP:
    mcp = FastMCP("files")

    def inside(path: str) -> Path:
        file = (folder / path).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise ValueError(f"{path} is not in the project")
        return file

    def files() -> list[Path]:
        return sorted(file for file in folder.rglob("*") if file.is_file())

    @mcp.tool(annotations=READ_ONLY)
    def search(pattern: str) -> str:
        """Search the text of all files for a regular expression."""
        wanted = re.compile(pattern)
        return "\n".join(
            f"{file.relative_to(folder)}:{number}: {line}"
            for file in files()
            for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
            if wanted.search(line)
        )

    @mcp.tool(annotations=READ_ONLY)
    def find_file(name: str) -> str:
        """Find files by name."""
        found = (file.relative_to(folder) for file in files() if name in file.name)
        return "\n".join(map(str, found))

    @mcp.tool(annotations=READ_ONLY)
    def read_file(path: str) -> str:
        """Read a file."""
        return inside(path).read_text("utf-8")

    @mcp.tool(annotations=READ_ONLY)
    def list_dir(path: str = ".") -> str:
        """List the files and folders in a folder; "." is the top."""
        entries = sorted(inside(path).iterdir())
        return "\n".join(f"{each.name}{'/' if each.is_dir() else ''}" for each in entries)

    return mcp


if __name__ == "__main__":
    build_server(Path(sys.argv[1])).run(show_banner=False)
