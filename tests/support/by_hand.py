"""An MCP server of 2025-11-25 over stdio, by hand: a library takes seconds of processor time to
start, for each process of each test."""

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

Tool = tuple[Callable[..., Any], dict[str, bool] | None]
"""A function, whose docstring is its description, and the annotations it is listed with."""

TYPES = {str: "string", int: "integer", float: "number"}
MAX_LINE = 2**26


async def serve(name: str, tools: Iterable[Tool], instructions: str | None = None) -> None:
    """Answer what comes on the standard input until it ends."""
    listed = [_listed(*each) for each in tools]
    functions = {function.__name__: function for function, _ in tools}
    told = {"instructions": instructions} if instructions else {}
    under_way: dict[Any, asyncio.Task[None]] = {}
    reader = asyncio.StreamReader(MAX_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        message = json.loads(line)
        given = message.get("params", {})
        match message.get("method"):
            case "initialize":
                _answer(
                    message,
                    result={
                        "protocolVersion": given["protocolVersion"],
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": name, "version": "1"},
                        **told,
                    },
                )
            case "tools/list":
                _answer(message, result={"tools": listed})
            case "tools/call":
                called = _call(message, functions[given["name"]], given.get("arguments", {}))
                under_way[message["id"]] = asyncio.create_task(called)
            case "notifications/cancelled" if given["requestId"] in under_way:
                under_way[given["requestId"]].cancel()
            case _ if "id" in message:
                _answer(message, error={"code": -32601, "message": "Method not found"})


async def _call(message: Any, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    try:
        result = function(**arguments)
        result = await result if inspect.isawaitable(result) else result
    except Exception as error:  # noqa: BLE001  whatever a tool raises is its answer
        text = f"Error calling tool '{function.__name__}': {error}"
        _answer(message, result={"content": [{"type": "text", "text": text}], "isError": True})
        return
    said = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    more = {"structuredContent": result} if isinstance(result, dict) else {}
    _answer(message, result={"content": [{"type": "text", "text": said}]} | more)


def _answer(message: Any, **said: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"]} | said), flush=True)


def _listed(function: Callable[..., Any], annotations: dict[str, bool] | None) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    schema = {
        "type": "object",
        "properties": {each.name: _schema(each) for each in parameters},
        "required": [each.name for each in parameters if each.default is each.empty],
        "additionalProperties": False,
    }
    listed = {"name": function.__name__, "description": function.__doc__, "inputSchema": schema}
    return listed | ({"annotations": annotations} if annotations else {})


def _schema(parameter: inspect.Parameter) -> dict[str, Any]:
    if kind := TYPES.get(parameter.annotation):
        schema: dict[str, Any] = {"type": kind}
    else:  # `int | None`
        schema = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    default = {} if parameter.default is parameter.empty else {"default": parameter.default}
    return schema | default
