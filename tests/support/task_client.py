"""Clients that take tasks, by FastMCP's own client half of the extension."""

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from types import ModuleType
from typing import Any

import anyio
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client import extension_hooks
from serving import LONG

FACTORIES = "_internal_client_extension_factories"


@cache
def client_half() -> ModuleType:
    """Its import has every `Client` made from then on take tasks, those of the pool too; here they
    do so only in `taking_tasks`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extension_hooks, FACTORIES, [])
        importlib.import_module("fastmcp_tasks")
    return importlib.import_module("fastmcp_tasks.client")


@asynccontextmanager
async def taking_tasks(
    server: FastMCP | str, person: Any = None, **options: Any
) -> AsyncIterator[Client[Any]]:
    half = client_half()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extension_hooks, FACTORIES, [half._build_tasks_client_extension])
        client = Client(server, elicitation_handler=person, mode="2026-07-28", **options)
    with anyio.fail_after(LONG):
        async with client:
            yield client


async def begin(client: Client[Any], name: str, arguments: dict[str, Any]) -> Any:
    """Call the tool as a task; a handle on it."""
    return await client_half().call_tool_task(client, name, arguments)


def taken_up(client: Client[Any], name: str, task: Any) -> Any:
    """A handle on a task that another client has begun."""
    return client_half().ToolTask(client, name, task.create_result)
