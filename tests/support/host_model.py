"""A scripted OpenAI-compatible endpoint on a real loopback port: it plays the model of a host.

It makes the tool calls of its script one after the other, whatever the host's own prompt says, and
in the end repeats what the host showed it of the last result.
"""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

NAME = "scripted"
"""The name of its only model."""
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}

Arguments = dict[str, Any] | Callable[[str], dict[str, Any]]
"""A call's arguments, or what makes them of the text of the result before."""


@dataclass(frozen=True)
class Call:
    """A tool call; hosts put names of their own before that of the tool."""

    tool: str
    arguments: Arguments


@dataclass
class HostModel:
    """The endpoint; `with` starts and ends it."""

    calls: Sequence[Call]
    offered: set[str] = field(default_factory=set)
    """The tools that the host offered to it, by the host's names for them."""
    results: list[str] = field(default_factory=list)
    """What it was shown of the results of its calls."""

    @property
    def url(self) -> str:
        """Of the API, as clients want it."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """The assistant's message to a request."""
        offered = {each["function"]["name"] for each in body.get("tools") or ()}
        if not offered:  # hosts have titles and summaries written beside the conversation
            return {"role": "assistant", "content": "A title"}
        self.offered |= offered
        results = [_text(each) for each in body["messages"] if each["role"] == "tool"]
        self.results = max(self.results, results, key=len)
        if len(results) == len(self.calls):
            return {"role": "assistant", "content": f"It said:\n\n{results[-1]}"}
        call = self.calls[len(results)]
        name = next((each for each in offered if each.endswith(call.tool)), None)
        if name is None:
            return {
                "role": "assistant",
                "content": f"There is no {call.tool} in {sorted(offered)}.",
            }
        arguments = call.arguments
        if callable(arguments):
            arguments = arguments(results[-1])
        function = {"name": name, "arguments": json.dumps(arguments)}
        made = {"index": 0, "id": f"call_{len(results)}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [made]}


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: HostModel) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": NAME, "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = self.server.model.reply(body)
        head = {"id": "chatcmpl-1", "created": 0, "model": NAME}
        ended = {"index": 0, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        if not body.get("stream"):
            choices = [ended | {"message": message}]
            self._send(head | {"object": "chat.completion", "choices": choices, "usage": USAGE})
            return
        chunk = head | {"object": "chat.completion.chunk"}
        chunks = [
            chunk | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            chunk | {"choices": [ended | {"delta": {}}]},
            chunk | {"choices": [], "usage": USAGE},
        ]
        events = [*map(json.dumps, chunks), "[DONE]"]
        self._send("".join(f"data: {each}\n\n" for each in events).encode(), "text/event-stream")

    def _send(self, body: dict[str, Any] | bytes, kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Not on the test's output."""
