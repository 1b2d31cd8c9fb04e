"""The bound on an upstream's message over HTTP; the SDK's client reads one of any length. It counts
the bytes that arrive, so compressed answers are not accepted: two megabytes of gzip can be ten
gigabytes. Measured with mcp 2.3: 50 MB take 6 s and 125 MB of memory."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from server.upstreams.stdio import MAX_MESSAGE_BYTES

CONNECT_SECONDS, READ_SECONDS = 30.0, 300.0
"""As the SDK's own client has them; a stream may be silent for long. Calls have their own limit."""


def bounded_client(on_excess: Callable[[str], None]) -> Callable[..., httpx2.AsyncClient]:
    """A factory of HTTP clients that break a response off in a message that is too long, and say
    so to `on_excess`. They follow no redirect; the SDK does, within an upstream's own origin."""

    async def bound(response: httpx2.Response) -> None:
        encoding = response.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            why = f"its answer is compressed ({encoding[:20]}), which Planloom did not ask for"
            on_excess(why)
            raise httpx2.ReadError(why)
        events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _Bounded(response.stream, on_excess, events)

    def factory(
        *,
        headers: dict[str, str] | None = None,
        auth: httpx2.Auth | None = None,
        timeout: httpx2.Timeout | None = None,
        **_: Any,
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers={**(headers or {}), "Accept-Encoding": "identity"},
            auth=auth,
            timeout=timeout or httpx2.Timeout(CONNECT_SECONDS, read=READ_SECONDS),
            event_hooks={"response": [bound]},
        )

    return factory


@dataclass
class _Bounded(httpx2.AsyncByteStream):
    """Bounds the length of each event, which an empty line ends, or of the whole response."""

    stream: Any
    on_excess: Callable[[str], None]
    events: bool

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        async for chunk in self.stream:
            end = max(chunk.rfind(b"\n\n"), chunk.rfind(b"\r\n\r\n")) if self.events else -1
            length = len(chunk) - end if end >= 0 else length + len(chunk)
            if length > MAX_MESSAGE_BYTES:
                why = f"its answer is longer than {MAX_MESSAGE_BYTES // 2**20} MiB; ask for less"
                self.on_excess(why)
                raise httpx2.ReadError(why)
            yield chunk

    async def aclose(self) -> None:
        await self.stream.aclose()
