"""Runs the MCP server, over stdio or HTTP, and leaves no upstream behind when it ends."""

import asyncio
import os
import signal
import socket
from types import FrameType

import anyio
import uvicorn

from planner.errors import ConfigError
from server.app import Parts, build
from server.config import Settings

CLOSE_SECONDS = 8.0
"""A host kills us a few seconds after its signal; the upstreams have to be gone by then."""
ANSWER_SECONDS = 4.0
"""For the reports of cancelled runs to go out."""
GRACE_SECONDS = 3
"""For the requests under way when an HTTP server has to end."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


async def serve_stdio(settings: Settings) -> None:
    """Serve on standard input and output until the input ends or a signal comes."""
    opened: list[Parts] = []
    mcp = build(settings, on_open=opened.append)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_exit_on_signal, opened)
        await mcp.run_async("stdio", show_banner=False)
        tasks.cancel_scope.cancel()


async def _exit_on_signal(opened: list[Parts]) -> None:
    """Close the upstreams, then leave at once: the thread that reads standard input cannot be
    stopped, so an orderly end would wait for the host's next line."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            # Shielded: the host may end our input as well, and the signal came first.
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                for parts in opened:
                    await parts.aclose()
            os._exit(128 + number)


def serve_http(settings: Settings, address: str) -> None:
    """Serve streamable HTTP at `http://HOST:PORT/mcp`. Loopback only, since nothing asks a caller
    who he is. Host and Origin headers are checked, against web pages that rebind a name."""
    host, port = split_address(address)
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        why = f"cannot listen there ({os.strerror(error.errno or 0)}); choose another port"
        raise ConfigError(f"--http {address}: {why}") from None
    opened: list[Parts] = []
    mcp = build(settings, on_open=opened.append)
    app = mcp.http_app(path="/mcp", host_origin_protection=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE_SECONDS)
    with listening:
        _Server(config, opened).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Ends the runs first on a signal, so that each request under way gets its report; uvicorn and
    the event streams cut off whatever they find."""

    def __init__(self, config: uvicorn.Config, opened: list[Parts]) -> None:
        super().__init__(config)
        self._opened = opened
        self._ending: asyncio.Future[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._ending or not self._opened:
            super().handle_exit(sig, frame)
        else:
            self._loop.call_soon_threadsafe(self._end, sig, frame)

    def _end(self, sig: int, frame: FrameType | None) -> None:
        self._ending = asyncio.ensure_future(self._end_runs(sig, frame))

    async def _end_runs(self, sig: int, frame: FrameType | None) -> None:
        try:
            for parts in self._opened:
                await parts.engine.cancel_all()
            with anyio.move_on_after(ANSWER_SECONDS):
                while self.server_state.tasks:  # noqa: ASYNC110  uvicorn sets no event
                    await anyio.sleep(0.02)
        finally:
            super().handle_exit(sig, frame)


def split_address(address: str) -> tuple[str, int]:
    """`127.0.0.1:8000` as host and port. Raises `ConfigError`."""
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"--http {address}: should be HOST:PORT, for example 127.0.0.1:8000")
    if host not in LOOPBACK:
        raise ConfigError(
            f"--http {address}: only loopback addresses are served ({', '.join(LOOPBACK)}), "
            "since callers are not asked who they are; put a proxy with authentication before it"
        )
    return host, int(port)
