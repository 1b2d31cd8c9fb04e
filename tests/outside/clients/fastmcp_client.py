"""FastMCP's client, told what to do as `remote.py` says."""

from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp import MCPError
from mcp_types import ProgressNotification
from remote import as_told, obey, say, server, told_progress


class Heard(MessageHandler):
    async def on_progress(self, message: ProgressNotification) -> None:
        told_progress(message.params)


async def ignored(progress: float, total: float | None, message: str | None) -> None:
    """Asks for progress, which `Heard` gets with its `_meta`."""


async def asked(message: str, *_about: Any) -> dict[str, Any]:
    say(asked=message)
    return {"approve": True}


async def main() -> None:
    where = server()
    face: Any
    if "url" in where:
        face = StreamableHttpTransport(where["url"], auth=where["token"])
    else:
        command, *args = where["command"]
        face = StdioTransport(command, args, env=where["env"], keep_alive=False)
    async with Client(face, message_handler=Heard(), elicitation_handler=asked) as client:

        async def call(
            tool: str, arguments: dict[str, Any], limit_s: float | None = None
        ) -> dict[str, Any]:
            result = await client.call_tool(
                tool,
                arguments,
                timeout=limit_s,
                progress_handler=ignored,
                raise_on_error=False,
            )
            return as_told(result.content[0].text, result.structured_content, result.is_error)

        tools = [tool.name for tool in await client.list_tools()]
        await obey(tools, call, MCPError)


anyio.run(main)
