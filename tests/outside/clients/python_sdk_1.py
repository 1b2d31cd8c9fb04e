"""The client of the Python SDK, 1.x, told what to do as `remote.py` says."""

from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from remote import as_told, obey, say, server, told_progress


async def heard(message: Any) -> None:
    if isinstance(message, types.ServerNotification):
        notification = message.root
        if isinstance(notification, types.ProgressNotification):
            told_progress(notification.params)


async def ignored(progress: float, total: float | None, message: str | None) -> None:
    """Asks for progress, which `heard` gets with its `_meta`."""


async def asked(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    say(asked=params.message)
    return types.ElicitResult(action="accept", content={"approve": True})


async def main() -> None:
    where = server()
    async with AsyncExitStack() as stack:
        if "url" in where:
            headers = {"Authorization": f"Bearer {where['token']}"}
            face: Any = streamablehttp_client(where["url"], headers=headers)
        else:
            command, *args = where["command"]
            parameters = StdioServerParameters(command=command, args=args, env=where["env"])
            face = stdio_client(parameters)
        read, write, *_ = await stack.enter_async_context(face)
        client = await stack.enter_async_context(
            ClientSession(read, write, message_handler=heard, elicitation_callback=asked)
        )
        await client.initialize()

        async def call(
            tool: str, arguments: dict[str, Any], limit_s: float | None = None
        ) -> dict[str, Any]:
            limit = None if limit_s is None else timedelta(seconds=limit_s)
            result = await client.call_tool(tool, arguments, limit, ignored)
            return as_told(result.content[0].text, result.structuredContent, result.isError)

        tools = [tool.name for tool in (await client.list_tools()).tools]
        await obey(tools, call, McpError)


anyio.run(main)
