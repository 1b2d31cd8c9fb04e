"""Applies changes of the upstreams file while the server runs."""

import logging
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread

from planner.errors import ConfigError
from server.config import Settings
from server.config_file import file_stamps
from server.upstreams.pool import UpstreamPool

POLL_SECONDS = 0.5
"""How often the file is checked; it is read when it has not changed for this long."""
AT_START = ("models", "approval", "runs")
"""Sections that are read only at the start."""

log = logging.getLogger(__name__)


async def watch_file(
    settings: Settings, pool: UpstreamPool, on_change: Callable[[Settings], Awaitable[None]]
) -> None:
    """Apply changes of the file to the pool, and give the settings to `on_change`, until cancelled.
    A file with mistakes changes nothing, and `pool.problem` says why."""
    known = before = settings.stamps  # a change since it was read counts
    while True:
        await anyio.sleep(POLL_SECONDS)
        stamps = await anyio.to_thread.run_sync(file_stamps, settings.source)
        if stamps != known and stamps == before:  # else it may be half written
            known = stamps
            await apply_file(settings, pool, on_change)
        before = stamps


async def apply_file(
    started: Settings, pool: UpstreamPool, on_change: Callable[[Settings], Awaitable[None]]
) -> None:
    try:
        now = await anyio.to_thread.run_sync(started.loaded_again)
    except Exception as error:  # what leaves this task would end the server, and with it all runs
        expected = isinstance(error, ConfigError)
        why = error if expected else f"{type(error).__name__} while it was read; see the log"
        pool.problem = f"The change was not applied, because the file has a mistake:\n{why}"
        log.warning("%s", pool.problem, exc_info=None if expected else error)
        return
    other = [f"`{name}`" for name in AT_START if getattr(now, name) != getattr(started, name)]
    pool.problem = (
        f"Changes of {', '.join(other)} take effect at the next start." if other else None
    )
    pool.project = now.project
    pool.change(now.upstreams)
    await on_change(now)
    log.info("%s was changed and is in effect%s", now.source, f"; {pool.problem}" if other else "")
