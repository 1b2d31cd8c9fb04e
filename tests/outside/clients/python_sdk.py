"""The client of the Python SDK, 2.x, told what to do as `remote.py` says."""

from contextlib import AsyncExitStack
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult, ProgressNotification
from remote import as_told, obey, say, server, told_progress


async def heard(message: Any) -> None:
    if isinstance(message, ProgressNotification):
        told_progress(message.params)


async def ignored(progress: float, total: float | None, message: str | None) -> None:
    """Asks for progress, which `heard` gets with its `_meta`."""


async def asked(_context: Any, params: ElicitRequestParams) -> ElicitResult:
    say(asked=params.message)
    return ElicitResult(action="accept", content={"approve": True})


async def main() -> None:
    where = server()
    async with AsyncExitStack() as stack:
        if "url" in where:
            headers = {"Authorization": f"Bearer {where['token']}"}
            http = await stack.enter_async_context(create_mcp_http_client(headers=headers))
            face: Any = streamable_http_client(where["url"], http_client=http)
        else:
            command, *args = where["command"]
            face = StdioServerParameters(command=command, args=args, env=where["env"])
        client = await stack.enter_async_context(
            Client(
                face,
                message_handler=heard,
                elicitation_callback=asked,
            )
        )

        async def call(
            tool: str, arguments: dict[str, Any], limit_s: float | None = None
        ) -> dict[str, Any]:
            result = await client.call_tool(tool, arguments, limit_s, ignored)
            return as_told(result.content[0].text, result.structured_content, result.is_error)

        tools = [tool.name for tool in (await client.list_tools()).tools]
        await obey(tools, call, MCPError)


anyio.run(main)
