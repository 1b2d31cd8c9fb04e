"""An MCP server that says what it was given in secret, wherever it can say something."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from by_hand import Tool, serve

GIVEN = {name: os.environ.get(name, "") for name in os.environ if name.startswith("PLANTED_")}
EVERYTHING = " ".join(GIVEN.values())


def said() -> list[str]:
    """Each value as it is and in other spellings."""
    spelled = []
    for value in GIVEN.values():
        basic = base64.b64encode(f"user:{value}".encode()).decode()
        spelled += [value, quote(value, safe=""), basic, value.encode().hex(), json.dumps(value)]
        spelled.append("\u200b".join(value))
    return spelled


def tools() -> Iterator[Tool]:
    def leak(word: str = EVERYTHING) -> dict[str, list[str]]:
        print("leaking", EVERYTHING, file=sys.stderr, flush=True)
        return {"result": said()}

    def fail() -> str:
        raise RuntimeError(f"cannot log in with {said()}")

    def structured() -> dict[str, Any]:
        return {"nested": [{value: value} for value in GIVEN.values()]}

    def crash() -> str:
        print("the last words", *said(), file=sys.stderr, flush=True)
        os._exit(3)

    for function in (leak, fail, structured, crash):
        function.__doc__ = f"Says {EVERYTHING}"
        yield function, {"readOnlyHint": True}


if __name__ == "__main__":
    asyncio.run(serve("leaky", [*tools()], instructions=EVERYTHING))
