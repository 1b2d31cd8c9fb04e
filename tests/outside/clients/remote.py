"""A client that does what it is told, one line of JSON each on its standard input and output.

> {"tool": "plan_and_answer", "arguments": {...}, "limit_s": 2.0}   a call; the limit is its own
> "cancel"                                                         cancels the call under way
< {"tools": ["plan_and_answer", ...]}                              it is connected
< {"progress": "Started with 4 tools", "run_id": "..."}
< {"asked": "May it make this call?"}                              the person says yes
< {"result": {"text": "...", "structured": {...}, "is_error": false}}
< {"error": "Timed out"}
"""

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread

META_RUN = "planloom/run_id"


def say(**said: Any) -> None:
    print(json.dumps(said), flush=True)


def told_progress(params: Any) -> None:
    """Of a progress notification, as every line of the SDK has it."""
    meta = params.meta
    found = meta if isinstance(meta, dict) else meta.model_dump() if meta else {}
    say(progress=params.message, run_id=found.get(META_RUN))


def as_told(text: str, structured: dict[str, Any] | None, is_error: bool) -> dict[str, Any]:
    """A call's result, whatever the SDK calls its parts."""
    return {"text": text, "structured": structured, "is_error": is_error}


async def obey(
    tools: list[str],
    call: Callable[..., Awaitable[dict[str, Any]]],
    *errors: type[Exception],
) -> None:
    """Do what the lines say until they end. `call` makes one call; it may raise `errors`."""
    say(tools=tools)
    scope = anyio.CancelScope()

    async def one(wanted: dict[str, Any], scope: anyio.CancelScope) -> None:
        with scope:
            try:
                say(result=await call(**wanted))
            except errors as error:
                say(error=str(error))
        if scope.cancelled_caught:
            say(error="cancelled")

    async with anyio.create_task_group() as tasks:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            wanted = json.loads(line)
            if wanted == "cancel":
                scope.cancel()
            else:
                scope = anyio.CancelScope()
                tasks.start_soon(one, wanted, scope)


def server() -> dict[str, Any]:
    """Where the server is: `command` and `env`, or `url` and `token`."""
    found: dict[str, Any] = json.loads(sys.argv[1])
    return found
