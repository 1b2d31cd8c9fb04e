"""A scripted OpenAI-compatible endpoint on a real loopback port: it plays the model of a host.

It makes the tool calls of its script one after the other, whatever the host's own prompt says, and
in the end repeats what the host showed it of the last result.
"""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

NAME = "scripted"
"""The name of its only model."""

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
    offered: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The tools that the host offered to it, by the host's names for them."""
    results: list[str] = field(default_factory=list)
    """What it was shown of the results of its calls."""

    @property
    def url(self) -> str:
        """Of the API, as clients want it."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.model = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """The assistant's message to a request."""
        offered = {each["function"]["name"]: each["function"] for each in body.get("tools") or ()}
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
        said = {"id": f"call_{len(results)}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [said]}


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": NAME, "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model: HostModel = self.server.model  # type: ignore[attr-defined]
        message = model.reply(body)
        reason = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "finish_reason": reason}
        head = {"id": "chatcmpl-1", "created": 0, "model": NAME}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not body.get("stream"):
            self._send(
                head
                | {"object": "chat.completion", "usage": usage}
                | {"choices": [choice | {"message": message}]}
            )
            return
        for number, each in enumerate(message.get("tool_calls", ())):
            each["index"] = number
        chunk = head | {"object": "chat.completion.chunk"}
        delta = choice | {"delta": message, "finish_reason": None}
        last = choice | {"delta": {}}
        chunks = [
            chunk | {"choices": [delta]},
            chunk | {"choices": [last]},
            chunk | {"choices": [], "usage": usage},
        ]
        lines = [f"data: {json.dumps(each)}\n\n" for each in chunks] + ["data: [DONE]\n\n"]
        self._send("".join(lines).encode(), "text/event-stream")

    def _send(self, body: dict[str, Any] | bytes, kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Not on the test's output."""
