"""An agent of the OpenAI Agents SDK with one MCP server; prints the answer."""

import json
import sys

import anyio
from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI


async def main() -> None:
    where = json.loads(sys.argv[1])
    command, *args = where["command"]
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=where["model"], api_key="none")
    async with MCPServerStdio(
        params={"command": command, "args": args, "env": where["env"]},
        client_session_timeout_seconds=60,  # 5 without it: less than the server may take
    ) as planloom:
        model = OpenAIChatCompletionsModel("scripted", client)
        agent = Agent("test", model=model, mcp_servers=[planloom])
        print((await Runner.run(agent, "Ask Planloom")).final_output)


anyio.run(main)
