"""An MCP server that says what it was given in secret, wherever it can say something."""

import base64
import json
import os
import sys
from typing import Any
from urllib.parse import quote

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import FunctionTool
from mcp_types import ToolAnnotations

GIVEN = {name: os.environ.get(name, "") for name in os.environ if name.startswith("PLANTED_")}
EVERYTHING = " ".join(GIVEN.values())


def said() -> list[str]:
    """Each value as it is and in other spellings."""
    spelled = []
    for value in GIVEN.values():
        basic = base64.b64encode(f"user:{value}".encode()).decode()
        spelled += [value, quote(value, safe=""), basic, value.encode().hex(), json.dumps(value)]
        spelled.append("\u200b".join(value))
    return spelled


def build_server() -> FastMCP:
    mcp = FastMCP("leaky", version="1", instructions=EVERYTHING)

    def leak(word: str = EVERYTHING) -> list[str]:
        print("leaking", EVERYTHING, file=sys.stderr, flush=True)
        return said()

    def fail() -> str:
        raise ToolError(f"cannot log in with {said()}")

    def structured() -> dict[str, Any]:
        return {"nested": [{value: value} for value in GIVEN.values()]}

    def crash() -> str:
        print("the last words", *said(), file=sys.stderr, flush=True)
        os._exit(3)

    for function in (leak, fail, structured, crash):
        tool = FunctionTool.from_function(
            function,
            description=f"Says {EVERYTHING}",
            annotations=ToolAnnotations(read_only_hint=True),
        )
        mcp.add_tool(tool)
    return mcp


if __name__ == "__main__":
    build_server().run("stdio", show_banner=False)
