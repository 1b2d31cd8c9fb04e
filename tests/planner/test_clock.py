"""The limits of a run's time."""

import anyio
import anyio.lowlevel
import pytest

from planner.clock import Clock

pytestmark = pytest.mark.anyio


async def test_of_two_limits_side_by_side_the_one_that_goes_on_stays() -> None:
    clock, over = Clock(), anyio.Event()

    async def short() -> None:
        with clock.limit(10):
            await anyio.lowlevel.checkpoint()
        over.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(short)
        await anyio.lowlevel.checkpoint()
        with clock.limit(1000):
            await over.wait()
            assert clock.seconds_left > 10
