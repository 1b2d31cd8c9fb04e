"""The MCP server: its tools, and the lifespan that owns the pool, the models and the runs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import anyio
from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider
from fastmcp.server.lifespan import lifespan
from mcp.server.request_state import AESGCMRequestStateCodec, RequestStateSecurity
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from server.approval.approval import LATE_SECONDS
from server.backends import Backend, OnDownload
from server.background import background_tasks
from server.config import Settings
from server.http import openai_api, web_view
from server.journal import journal_for
from server.mcp import handshake, prompts, resources, tools
from server.mcp.input_errors import ClearInputErrors
from server.mcp.list_changes import ListChanges
from server.mcp.roots import CallersProject
from server.mcp.tasks import Tasks
from server.runs.engine import Engine
from server.upstreams.launch import Launcher
from server.upstreams.pool import UpstreamPool
from server.upstreams.reload import apply_file, watch_file

T = TypeVar("T")


@dataclass(frozen=True)
class Parts:
    pool: UpstreamPool
    engine: Engine
    backend: Backend

    async def aclose(self) -> None:
        """End every child process now, from any task. The runs stop and can be resumed."""
        await self.engine.interrupt_all()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.pool.aclose)
            tasks.start_soon(self.backend.aclose)


@asynccontextmanager
async def open_parts(
    settings: Settings,
    on_download: OnDownload | None = None,
    launcher: Launcher | None = None,
    *,
    for_operator: bool = True,
) -> AsyncIterator[Parts]:
    """Pool, models and engine; closed in reverse order: the runs before what they use. `launcher`
    comes from a `head_start`. `for_operator`: nobody but the operator makes calls."""
    async with (
        aclosing(Backend(settings.models, on_download)) as backend,
        UpstreamPool(settings, launcher=launcher, for_operator=for_operator) as pool,
        journal_for(settings.runs, pool.redact) as journal,
        background_tasks() as tasks,
    ):
        engine = Engine(backend, pool, journal, settings.approval, tasks)
        tasks.start_soon(engine.driver.warm_up, backend.warm)
        yield Parts(pool, engine, backend)


@asynccontextmanager
async def in_own_task(context: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Open and close `context` in a task of its own: FastMCP leaves a lifespan inside a cancel
    scope that it entered later, for which the task groups in ours would raise an error."""
    opened: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    closing = asyncio.Event()

    async def live() -> None:
        async with context as value:
            opened.set_result(value)
            await closing.wait()

    task = asyncio.create_task(live())
    try:
        await asyncio.wait((task, opened), return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            await task  # raises why it did not open
        yield opened.result()
    finally:
        closing.set()
        await task


def build(
    settings: Settings,
    on_open: Callable[[Parts], None] | None = None,
    auth: AuthProvider | None = None,
    launcher: Launcher | None = None,
) -> FastMCP:
    """The server for these settings. Its parts start with its lifespan, and `on_open` gets them.
    `auth` authenticates HTTP callers; without it, all are one. `launcher`: of a `head_start`."""
    running: list[Parts] = []
    list_changes = ListChanges()
    security = RequestStateSecurity.ephemeral(ttl=settings.approval.timeout_s + LATE_SECONDS)

    async def announce(now: Settings) -> None:
        await list_changes.announce(mcp, now.may_change, now.project)

    @asynccontextmanager
    async def followed() -> AsyncIterator[Parts]:
        try:
            async with (
                open_parts(settings, launcher=launcher, for_operator=auth is None) as opened,
                background_tasks() as tasks,
            ):
                tasks.start_soon(watch_file, settings, opened.pool, announce)
                running[:] = [opened]
                yield opened
        finally:
            running.clear()

    @lifespan
    async def parts(_server: FastMCP) -> AsyncIterator[dict[str, Any]]:
        async with in_own_task(followed()) as opened:
            if fleet := settings.runs.fleet:
                # Every server of the fleet can open the states that clients send back.
                secret = await opened.engine.journal.secret()
                security.codec = AESGCMRequestStateCodec([secret])
                opened.engine.driver.join(fleet)
            if on_open:
                on_open(opened)
            given: dict[str, Any] = {"engine": opened.engine}
            if auth is None and not settings.project_named:

                async def move(project: Path) -> None:
                    settings.move_to(project)
                    await apply_file(settings, opened.pool, announce)

                given["project"] = CallersProject(settings.project, move)
            yield given

    mcp: FastMCP = FastMCP(
        "planloom",
        instructions=handshake.instructions(settings.project),
        version=version("planloom"),
        lifespan=parts,
        auth=auth,
        mask_error_details=True,
        middleware=[ClearInputErrors(), list_changes],
        dereference_schemas=False,  # they are made without references
        request_state_security=security,
    )
    tools.register(mcp, settings.may_change, settings.project)
    web_view.register(mcp, lambda: running[0].engine)
    resources.register(mcp)
    prompts.register(mcp)
    openai_api.register(mcp, lambda: running[0].engine)
    mcp.add_extension(Tasks())

    @mcp.custom_route("/health", methods=["GET"])
    async def health(_request: Request) -> Response:
        """Whether the server runs; this is public and says nothing else."""
        return JSONResponse({"status": "ok" if running else "down"}, 200 if running else 503)

    return mcp
