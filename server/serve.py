"""Runs the MCP server, over stdio or HTTP, and leaves no upstream behind when it ends."""

import os
import signal

import anyio
import uvicorn

from planner.errors import ConfigError
from server.app import Parts, build
from server.config import Settings

CLOSE_SECONDS = 8.0
"""A host kills us a few seconds after its signal; the upstreams have to be gone by then."""
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
            with anyio.move_on_after(CLOSE_SECONDS):
                for parts in opened:
                    await parts.aclose()
            os._exit(128 + number)


def serve_http(settings: Settings, address: str) -> None:
    """Serve streamable HTTP at `http://HOST:PORT/mcp`. Loopback only, since nothing asks a caller
    who he is. Host and Origin headers are checked, against web pages that rebind a name."""
    host, port = split_address(address)
    app = build(settings).http_app(path="/mcp", host_origin_protection=True)
    uvicorn.run(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=3)


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
