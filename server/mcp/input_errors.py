"""Wrong input from a client, reported in one line: the place, what is wrong, and what to do."""

import logging
from collections.abc import Sequence
from typing import Any

from fastmcp.exceptions import NotFoundError, ToolError
from fastmcp.exceptions import ValidationError as BadArguments
from fastmcp.prompts import PromptResult
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, GetPromptRequestParams
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from planner.text import flat, shortened
from server.text import plain

MAX_GIVEN = 60
"""Of a wrong value that is shown."""
MAX_DEPTH = 100
"""Of lists and objects in arguments: what writes records, events and results fails at some 250."""


class RefusedCall(ToolError):
    """The error of a call that is refused; it is not logged as a fault of the server."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments, log_level=logging.DEBUG)


def check_depth(arguments: Any) -> None:
    """Raises `RefusedCall` for lists and objects that nest more than `MAX_DEPTH` deep."""
    level = [arguments]
    for _ in range(MAX_DEPTH + 1):
        nested = [each for each in level if isinstance(each, dict | list)]
        level = [x for each in nested for x in (each.values() if isinstance(each, dict) else each)]
    if level:
        raise RefusedCall(
            f"arguments: lists and objects nest more than {MAX_DEPTH} deep, which is the limit. "
            "Give flatter ones."
        )


class ClearInputErrors(Middleware):
    """Replaces FastMCP's messages, which are several lines with links to pydantic's site."""

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        try:
            return await call_next(context)
        except NotFoundError:
            tools = ", ".join(await self._tools(context))
            name = context.message.name
            message = f'There is no tool "{name}"; the tools are {tools}.'
            raise MCPError(INVALID_PARAMS, message) from None  # the protocol wants no result
        except BadArguments as error:
            name = context.message.name
            if isinstance(error.__cause__, ValidationError):
                known = (await self._tools(context)).get(name, [])
                why = " ".join(_explained(each, known) for each in error.__cause__.errors())
                raise RefusedCall(f"{name}: {why}") from None
            raise

    async def on_get_prompt(
        self,
        context: MiddlewareContext[GetPromptRequestParams],
        call_next: CallNext[GetPromptRequestParams, PromptResult],
    ) -> PromptResult:
        assert context.fastmcp_context  # there is one in every request
        name, given = context.message.name, context.message.arguments or {}
        prompt = await context.fastmcp_context.fastmcp.get_prompt(name)
        for argument in (prompt.arguments if prompt else None) or ():
            if argument.required and argument.name not in given:
                raise MCPError(INVALID_PARAMS, f"{name}: {argument.name} is missing; give it.")
        return await call_next(context)

    async def _tools(
        self, context: MiddlewareContext[CallToolRequestParams]
    ) -> dict[str, list[str]]:
        """The server's tools and the names of their arguments."""
        assert context.fastmcp_context  # there is one in every tool call
        tools = await context.fastmcp_context.fastmcp.list_tools(run_middleware=False)
        return {tool.name: list(tool.parameters.get("properties", {})) for tool in tools}


def first_problem(error: ValidationError) -> tuple[str, str]:
    """The place of a request's first problem (empty: all of it), and a line that says both."""
    wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, wrong["loc"]))
    if wrong["type"] == "missing":
        return place, f"{place} is missing; give it."
    what = plain(wrong["msg"])
    return place, f"{place}: {what}" if place else what


def _explained(problem: ErrorDetails, known: Sequence[str]) -> str:
    """A problem of a call, in one line. `known`: the tool's arguments."""
    place = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing_argument":
        return f"{place} is missing; give it."
    if problem["type"] == "unexpected_keyword_argument":
        advice = f"the arguments are {', '.join(known)}" if known else "it takes none"
        return f"{place} is not an argument; {advice}."
    given = repr(problem["input"])
    shown = flat(shortened(given, MAX_GIVEN))
    return f"{place}: {plain(problem['msg'])}, not {shown}."
