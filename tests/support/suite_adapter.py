"""Lets the tasks scenarios of MCP's conformance suite meet this server.

The suite calls tools of its own example server. `SuiteAdapter` stands in front of our ASGI app and
puts ours in their place, with arguments that make them do the same: take some seconds, fail, ask.
Nothing else of a request is changed, and nothing of an answer.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from generated import willing
from ollama_replies import Drop, Hang, Reply
from scripted_ollama import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FOR_EVER = 30
"""Seconds from which on the suite cancels what it asked for."""


def slow(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"prompt": f"Compute for {arguments.get('seconds', 0)} s"}


def asking(_: dict[str, Any]) -> dict[str, Any]:
    return {"prompt": "Note it", "tool": "add_note", "arguments": {"text": "hello"}}


OURS: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "greet": ("list_tools", lambda _: {}),
    "slow_compute": ("plan_and_answer", slow),
    "failing_job": ("plan_and_answer", lambda _: {"prompt": "Lose the model"}),
    "confirm_delete": ("run_step", asking),
}
"""What is called for each tool of the suite's own server."""


def model(request: Request) -> Reply:
    """What the model replies, as the prompts above want it."""
    said = request.messages[-1]["content"]
    if "Lose the model" in said:
        return Drop()
    found = re.search(r"Compute for (\d+) s", said)
    seconds = int(found[1]) if found else 0
    if seconds >= FOR_EVER:
        return Hang()
    time.sleep(seconds)
    return willing(request)


class SuiteAdapter:
    """An ASGI app around ours."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        body = await whole(receive)
        said = json.loads(body)
        name = said.get("params", {}).get("name")
        body = json.dumps(ours(said)).encode()
        headers = dict(scope["headers"])
        headers[b"content-length"] = str(len(body)).encode()
        if name in OURS and headers.get(b"mcp-name") == name.encode():
            headers[b"mcp-name"] = OURS[name][0].encode()
        given: Iterator[Message] = iter([{"type": "http.request", "body": body}])

        async def replayed() -> Message:
            return next(given, None) or await receive()

        changed = dict(scope, headers=[*headers.items()])
        await self.app(changed, replayed, send)


def ours(said: dict[str, Any]) -> dict[str, Any]:
    """A request of the suite, as it would be made of this server."""
    params = said.get("params", {})
    if said.get("method") == "tools/call" and params.get("name") in OURS:
        name, arguments = OURS[params["name"]]
        params |= {"name": name, "arguments": arguments(params.get("arguments", {}))}
    for answer in params.get("inputResponses", {}).values():
        content = answer.get("content", {})
        if "confirm" in content:
            answer["content"] = {"approve": content["confirm"]}
    return said


async def whole(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body
