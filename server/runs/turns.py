"""How many runs of a server work at a time, and how many may wait for their turn."""

import math
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

import anyio

from planner.errors import Busy
from planner.text import counted
from server.config import RunSettings
from server.runs.run import LOCAL, Run

MAX_SHARE = 0.75
"""The largest part of the turns, and of the places in the queue, for one of several callers."""
USUAL_SECONDS = 30.0
"""How long a run is assumed to take until the first one has ended."""


class Turns:
    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self._turns = anyio.CapacityLimiter(settings.concurrent)
        self._shares: WeakValueDictionary[str, anyio.CapacityLimiter] = WeakValueDictionary()
        self._usual_seconds = USUAL_SECONDS

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """Wait for a turn, and keep it."""
        async with self._share_of(caller), self._turns:
            began = anyio.current_time()
            yield
            self._usual_seconds += (anyio.current_time() - began - self._usual_seconds) / 8

    def is_free(self, runs: Collection[Run]) -> bool:
        """Whether a run would start at once. `runs`: those of this server."""
        return sum(run.under_way for run in runs) < self._settings.concurrent

    def check_room(self, caller: str, runs: Collection[Run], waiting_elsewhere: int) -> None:
        """Raises `Busy` if the caller cannot start a run. `waiting_elsewhere`: without a server."""
        turns, places = self._settings.concurrent, self._settings.concurrent + self._settings.queue
        unfinished = [run for run in runs if not run.finished]
        own = sum(run.caller == caller for run in unfinished)
        seconds = max(1, math.ceil(self._usual_seconds / turns))
        if caller != LOCAL and own >= math.ceil(MAX_SHARE * places):
            raise Busy(
                f"Busy: you have {counted(own, 'run')} under way or waiting, and the remaining "
                f"places are for other callers. Try again in {seconds} s.",
                seconds,
            )
        if (waiting := len(unfinished) + waiting_elsewhere - turns) >= self._settings.queue:
            wait = "1 waits for its turn" if waiting == 1 else f"{waiting} wait for their turn"
            raise Busy(
                f"Busy: {counted(turns, 'run')} {'is' if turns == 1 else 'are'} under way and "
                f"{wait}. Try again in {seconds} s.",
                seconds,
            )

    def _share_of(self, caller: str) -> anyio.CapacityLimiter:
        """The turns that a caller may have at a time: all of them, if it is the only one."""
        part = 1 if caller == LOCAL else MAX_SHARE
        share = anyio.CapacityLimiter(math.ceil(part * self._settings.concurrent))
        return self._shares.setdefault(caller, share)
