"""An upstream that returns what a recorded run's calls returned, over stdio.

python -m benchmarks.overhead.upstream STEPS
"""

import sys
from typing import Any

from fastmcp import FastMCP
from fastmcp.tools import Tool, ToolResult
from mcp_types import ToolAnnotations
from pydantic import PrivateAttr

from benchmarks.speed import runs
from benchmarks.speed.runs import Run


class Recorded(Tool):
    """One tool of a recorded run."""

    _recorded: Run = PrivateAttr()

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        for call in self._recorded.calls:
            if (call.tool, call.arguments) == (self.name, arguments):
                return ToolResult(content=call.result)
        raise ValueError(f"the run has no call {self.name} {arguments}")


def server(run: Run) -> FastMCP:
    mcp = FastMCP("recorded")
    for spec in runs.tools():
        tool = Recorded(
            name=spec.name,
            description=spec.description,
            parameters=spec.input_schema,
            annotations=ToolAnnotations(read_only_hint=True),
        )
        tool._recorded = run
        mcp.add_tool(tool)
    return mcp


if __name__ == "__main__":
    server(runs.load(int(sys.argv[1]))).run("stdio", show_banner=False)
