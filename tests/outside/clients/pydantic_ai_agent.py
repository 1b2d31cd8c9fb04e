"""An agent of Pydantic AI with one MCP server; prints progress, questions and the answer."""

import json
import sys
from typing import Any

import anyio
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


async def told(progress: float, total: float | None, message: str | None) -> None:
    print(message, flush=True)


async def asked(message: str, *_about: Any) -> dict[str, Any]:
    print(message, flush=True)
    return {"approve": True}


async def main() -> None:
    where = json.loads(sys.argv[1])
    command, *args = where["command"]
    planloom = MCPToolset(
        StdioTransport(command, args, env=where["env"]),
        progress_handler=told,
        elicitation_handler=asked,
        init_timeout=60,  # 5 without it
    )
    model = OpenAIChatModel(
        "scripted", provider=OpenAIProvider(base_url=where["model"], api_key="none")
    )
    agent = Agent(model, toolsets=[planloom])
    async with agent:
        print((await agent.run("Ask Planloom")).output)


anyio.run(main)
