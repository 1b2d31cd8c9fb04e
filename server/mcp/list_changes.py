"""Tells clients that what the tools say has changed.

Only clients up to 2025-11-25 are told, which is what `server.mcp.handshake` promises: later ones
listen with requests of their own, and do not keep a list that may be old.
"""

from collections.abc import Sequence
from weakref import WeakSet

import anyio
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool
from mcp.server.connection import Connection
from mcp_types import ListToolsRequest

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
        assert context.fastmcp_context  # there is one in every request
        # A session of the SDK is one request; what it belongs to has no public name.
        self._connections.add(context.fastmcp_context.session._connection)
        return await call_next(context)

    async def tell(self) -> None:
        async with anyio.create_task_group() as tasks:
            for connection in list(self._connections):
                tasks.start_soon(_told, connection)


async def _told(connection: Connection) -> None:
    with anyio.move_on_after(SEND_SECONDS):
        await connection.send_tool_list_changed()
