"""Changes what the tools say while the server runs, and tells clients up to 2025-11-25 so, as
`server.mcp.handshake` promises. Later ones do not keep a list that may be old."""

from collections.abc import Sequence
from pathlib import Path
from weakref import WeakSet

import anyio
from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool
from mcp.server.connection import Connection
from mcp_types import ListToolsRequest

from server.mcp.tools import describe

SEND_SECONDS = 1.0
"""For a client that does not read; it hears of a later change."""


class ListChanges(Middleware):
    def __init__(self) -> None:
        self._connections: WeakSet[Connection] = WeakSet()
        """Those of the clients that have listed the tools."""

    async def on_list_tools(
        self,
        context: MiddlewareContext[ListToolsRequest],
        call_next: CallNext[ListToolsRequest, Sequence[Tool]],
    ) -> Sequence[Tool]:
        asked = context.fastmcp_context
        if asked and asked.request_context:  # else code of ours asks
            # A session of the SDK is one request; what it belongs to has no public name.
            self._connections.add(asked.session._connection)
        return await call_next(context)

    async def announce(self, mcp: FastMCP, changes: bool, project: Path) -> None:
        """Update the tools' texts: whether runs may do more than read, and on which project."""
        tools = await mcp.list_tools(run_middleware=False)
        before = [(tool.description, tool.annotations) for tool in tools]
        for tool in tools:
            describe(tool, changes, project)
        if before != [(tool.description, tool.annotations) for tool in tools]:
            async with anyio.create_task_group() as clients:
                for connection in list(self._connections):
                    clients.start_soon(_tell, connection)


async def _tell(connection: Connection) -> None:
    with anyio.move_on_after(SEND_SECONDS):
        await connection.send_tool_list_changed()
