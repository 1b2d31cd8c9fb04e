"""Tasks in the background of a context."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def background_tasks() -> AsyncIterator[TaskGroup]:
    """A task group that is cancelled when the context ends. It does not see an error of the
    context's body, which it would wrap in an exception group."""
    tasks = await anyio.create_task_group().__aenter__()
    try:
        yield tasks
    finally:
        tasks.cancel_scope.cancel()
        await tasks.__aexit__(None, None, None)


async def cancel_on(event: anyio.Event, scope: anyio.CancelScope) -> None:
    """Wait for the event, and cancel the scope then."""
    await event.wait()
    scope.cancel()
