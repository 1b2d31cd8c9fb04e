"""Ask Planloom as any MCP client does: start `planloom serve`, call a tool, read the progress.

python examples/ask_over_stdio.py QUESTION [PROJECT]
"""

import asyncio
import os
import sys
from pathlib import Path

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp_types import TextContent


async def show(progress: float, total: float | None, message: str | None) -> None:
    print(f"  {message}", file=sys.stderr, flush=True)


async def main(question: str, project: str = ".") -> int:
    planloom = StdioTransport(
        str(Path(sys.executable).parent / "planloom"),
        ["serve", "--project", project],
        env=dict(os.environ),
    )
    async with Client(planloom, init_timeout=60, progress_handler=show) as client:
        print(f"> {question}\n", file=sys.stderr)
        result = await client.call_tool(
            "plan_and_answer", {"prompt": question, "wait_s": 600}, raise_on_error=False
        )
    for block in result.content:
        if isinstance(block, TextContent):  # others are links to whole tool results
            print(f"\n{block.text}")
    status = (result.structured_content or {}).get("status")
    return 0 if status == "answered" else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
