"""A server of lists: `python benchmarks/eval/lists.py FOLDER`, on stdio.

Each file of the folder is what one tool returns, `list_issues` for `issues.json`; the file beside
the folder describes them. It starts with this one file, so that the lists need nothing of Planloom.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import yaml
from fastmcp import FastMCP


def reader(file: Path) -> Callable[[], str]:
    def read() -> str:
        return file.read_text("utf-8")

    return read


def build_server(folder: Path) -> FastMCP:
    mcp = FastMCP(folder.name)
    described = yaml.safe_load(folder.with_suffix(".yaml").read_text("utf-8"))
    for file in sorted(folder.iterdir()):
        mcp.tool(
            reader(file),
            name=f"list_{file.stem}",
            description=described[file.stem],
            annotations={"readOnlyHint": True, "openWorldHint": False},
        )
    return mcp


if __name__ == "__main__":
    build_server(Path(sys.argv[1])).run(show_banner=False)
