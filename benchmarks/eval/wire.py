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
from starlette.responses import StreamingResponse
from starlette.routing import Route

from planner.models.ollama import host_url

_HOP = {"host", "content-length", "connection", "transfer-encoding", "accept-encoding"}
"""Headers that are about one connection."""


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

        async def forward(request: Request) -> StreamingResponse:
            body = await request.body()
            wire.record(body)
            headers = {k: v for k, v in request.headers.items() if k not in _HOP}
            sent = http.build_request(
                request.method, request.url.path, headers=headers, content=body
            )
            reply = await http.send(sent, stream=True)

            async def pieces() -> AsyncIterator[bytes]:
                try:
                    async for piece in reply.aiter_raw():
                        yield piece
                finally:
                    with anyio.CancelScope(shield=True):
                        await reply.aclose()

            kept = {k: v for k, v in reply.headers.items() if k not in _HOP}
            return StreamingResponse(pieces(), reply.status_code, kept)

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
