"""Runs the MCP server over standard input and output; no upstream is left when it ends."""

import os
import signal

import anyio

from server.app import Parts, build
from server.background import background_tasks
from server.cli.front import Front
from server.config import Settings
from server.upstreams.launch import Launcher

CLOSE_SECONDS = 8.0
"""A host kills us a few seconds after its signal; the upstreams have to be gone by then."""


async def serve_stdio(
    settings: Settings, front: Front | None = None, launcher: Launcher | None = None
) -> None:
    """Serve on standard input and output, until the input ends or a signal comes."""
    opened: list[Parts] = []
    mcp = build(settings, on_open=opened.append, launcher=launcher)
    async with background_tasks() as tasks:
        tasks.start_soon(_exit_on_signal, opened)
        if front:
            front.take()
        await mcp.run_async("stdio", show_banner=False)


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
