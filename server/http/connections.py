"""Bounds on connections over HTTP: Uvicorn has none, and anyone can open one without a token. One
without a request is closed after a while, and at once if another needs its place, so that half-open
connections keep nobody out and other parts find free file descriptors."""

import asyncio
import resource

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""How long the headers of a request may take; twice as long at most."""
MAX_CONNECTIONS = 4096
"""Or half of the files that this process may open, if that is less."""
MAX_WAITING = 100


class BoundedConnection(H11Protocol):
    """A connection that ends if it has no request."""

    _idle_since: object = None
    """The request that was answered last, as of the last check."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > min(MAX_CONNECTIONS, _files() // 2):
            idle = [each for each in self.connections if isinstance(each, BoundedConnection)]
            gives_way = next((each for each in idle if each.idle and each is not self), self)
            gives_way.transport.abort()
            self.connections.discard(gives_way)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer:
            self._timer.cancel()

    def timeout_keep_alive_handler(self) -> None:
        """Leave idle connections to `_look`: Uvicorn closes them after 5 s, which is as long as
        httpx keeps them, and a request that is sent at that moment is lost."""

    @property
    def idle(self) -> bool:
        """Whether no request is being answered; headers may be arriving."""
        return self.cycle is None or self.cycle.response_complete

    def _look(self) -> None:
        """Close the connection if it has been idle since the last check."""
        if self._timer and self.idle and self._idle_since is self.cycle:
            self.transport.close()
            return
        self._idle_since = self.cycle if self.idle else self
        self._timer = self.loop.call_later(HEADER_SECONDS, self._look)


def max_backlog() -> int:
    """How many may wait to be accepted: asyncio logs each one without a file descriptor."""
    return min(MAX_WAITING, _files() // 16)


def _files() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2 * MAX_CONNECTIONS if files == resource.RLIM_INFINITY else files
