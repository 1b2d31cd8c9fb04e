"""An agent of LangGraph with one MCP server; prints progress, questions and the answer."""

import json
import sys
from typing import Any

import anyio
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from mcp.types import ElicitRequestParams, ElicitResult


async def told(progress: float, total: float | None, message: str | None, _about: object) -> None:
    print(message, flush=True)


async def asked(_context: Any, params: ElicitRequestParams, _about: object) -> ElicitResult:
    print(params.message, flush=True)
    return ElicitResult(action="accept", content={"approve": True})


async def main() -> None:
    where = json.loads(sys.argv[1])
    command, *args = where["command"]
    entry = {"transport": "stdio", "command": command, "args": args, "env": where["env"]}
    callbacks = Callbacks(on_progress=told, on_elicitation=asked)
    client = MultiServerMCPClient({"planloom": entry}, callbacks=callbacks)
    model = ChatOpenAI(model="scripted", base_url=where["model"], api_key="none")
    async with client.session("planloom") as session:  # one server for all calls
        tools = await load_mcp_tools(session, callbacks=callbacks, server_name="planloom")
        agent = create_react_agent(model, tools)
        done = await agent.ainvoke({"messages": [("user", "Ask Planloom")]})
        print(done["messages"][-1].content)


anyio.run(main)
