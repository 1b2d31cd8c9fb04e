"""What a model was shown: the prompts of all systems, taken down between them and Ollama.

async with recording(host) as wire:
    ...                         # systems are given wire.host for a model server
wire.saw(evidence)              # whether it stood in the prompts since wire.clear()
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from planner.models.ollama import host_url

_HOP = {"host", "content-length", "connection", "transfer-encoding", "accept-encoding"}
"""Headers that are about one connection."""
CLIENT_GONE = 499
"""The status of a request that its client gave up, as nginx has it."""


@dataclass
class Wire:
    """A model server that passes everything on to another one."""

    host: str = ""
    prompts: list[str] = field(default_factory=list)
    """Of the requests since the last `clear`, each as `plain` text."""

    def clear(self) -> None:
        self.prompts.clear()

    def saw(self, evidence: Sequence[Sequence[str]]) -> bool | None:
        """Whether of each group one text stood in some prompt. None: there is no evidence."""
        if not evidence:
            return None
        return all(
            any(plain(text) in prompt for text in group for prompt in self.prompts)
            for group in evidence
        )

    def record(self, body: bytes) -> None:
        try:
            self.prompts.append(plain("\n".join(_texts(json.loads(body or b"{}")))))
        except ValueError:
            return  # no chat request; nothing that a model reads


class _Passed(StreamingResponse):
    """A reply of the other server, piece by piece. It is closed however it ends: one that is not
    read to its end would hold up that server's next reply."""

    def __init__(self, reply: httpx.Response) -> None:
        kept = {k: v for k, v in reply.headers.items() if k not in _HOP}
        super().__init__(reply.aiter_raw(), reply.status_code, kept)
        self.reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await self.reply.aclose()


async def _cancel_once_gone(request: Request, scope: anyio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass  # its body was read
    scope.cancel()


def plain(text: str) -> str:
    """Without JSON's escapes, however often they were applied, without numbers before lines, and
    with one space for any run of white space: the same text as it stands in a file, in a tool's
    JSON and in a prompt."""
    text = re.sub(r"(?:\n|\\+n)[ >.]*\d+:", "\n", text)
    text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    text = re.sub(r"\\+[nrt]", " ", text)
    return " ".join(re.sub(r"\\+", "", text).split())


def _texts(body: Any) -> Iterator[str]:
    """Every text that the request holds for the model."""
    match body:
        case {"messages": [*messages]}:
            yield from (str(message.get("content") or "") for message in messages)
        case {"prompt": str(prompt)}:
            yield prompt


@asynccontextmanager
async def recording(upstream: str | None) -> AsyncIterator[Wire]:
    """A wire to the Ollama at `upstream`, in the form that OLLAMA_HOST takes (None: its default).

    Streams pass through piece by piece, and a request that its client gives up is given up.
    """
    wire = Wire()
    async with httpx.AsyncClient(
        base_url=host_url(upstream), timeout=None, trust_env=False
    ) as http:

        async def forward(request: Request) -> Response:
            body = await request.body()
            wire.record(body)
            headers = {k: v for k, v in request.headers.items() if k not in _HOP}
            sent = http.build_request(
                request.method, request.url.path, headers=headers, content=body
            )
            reply: httpx.Response | None = None
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_once_gone, request, tasks.cancel_scope)
                reply = await http.send(sent, stream=True)
                tasks.cancel_scope.cancel()
            return _Passed(reply) if reply else Response(status_code=CLIENT_GONE)

        route = Route("/{path:path}", forward, methods=["GET", "POST", "DELETE", "HEAD"])
        config = uvicorn.Config(
            Starlette(routes=[route]),
            port=0,
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve)
            while not server.started:  # noqa: ASYNC110  uvicorn sets no event
                await anyio.sleep(0.01)
            wire.host = f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            try:
                yield wire
            finally:
                server.should_exit = True
