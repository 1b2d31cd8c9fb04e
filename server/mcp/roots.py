"""The folders that a caller works in (MCP roots), which say what the project is if nobody else did.
The client is asked for them: up to 2025-11-25 with `roots/list`, and since then, when they were
deprecated, with an `InputRequiredResult`."""

import json
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import anyio
from fastmcp import Context
from mcp import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import InputRequiredResult, ListRootsRequest, ListRootsResult
from pydantic import ValidationError

from server.mcp.context import is_modern
from server.project import is_folder

ASK_SECONDS = 5.0
"""How long a client that says it has roots may take to list them."""
ANSWER = "roots"
"""The key of the question in an `InputRequiredResult`, and of its answer."""
MAX_ROOTS = 50


class CallersProject:
    """Moves a server that was started without a project to the folder of its one client."""

    def __init__(self, project: Path, move: Callable[[Path], Awaitable[None]]) -> None:
        """`project`: where it was started. `move` has the server work on another one."""
        self._project, self._move = project, move
        self.known = False
        """Whether the client has been asked, and the server works where it said."""
        self._settling = anyio.Lock()

    async def settle(self, given: Iterable[str] | None) -> None:
        """Use the client's folders; None if the client does not name any."""
        async with self._settling:  # calls that come meanwhile are about the same folder
            if self.known:
                return
            folders = [path for each in given or () if is_folder(path := Path(each))]
            if folders and not any(self._project.is_relative_to(each) for each in folders):
                await self._move(folders[0])
            self.known = True


async def settle_project(ctx: Context) -> InputRequiredResult | None:
    """Work on the client's folder if nobody named a project; returns a question for it, if any."""
    project: CallersProject | None = ctx.lifespan_context.get("project")
    if project and not project.known:
        given = await client_roots(ctx)
        if isinstance(given, InputRequiredResult):
            return given
        await project.settle(given)
    return None


async def client_roots(ctx: Context) -> InputRequiredResult | tuple[str, ...] | None:
    """The folders that the caller works in, if known; since 2026-07-28, first the question."""
    declared = ctx.session.client_capabilities
    if declared is None or declared.roots is None:
        return None
    if is_modern(ctx):
        if ctx.request_state is None:
            return InputRequiredResult(
                input_requests={ANSWER: ListRootsRequest()}, request_state=json.dumps({})
            )
        answer = (ctx.input_responses or {}).get(ANSWER)
        return _paths(answer) if isinstance(answer, ListRootsResult) else None
    with suppress(MCPError, ValidationError):
        return _paths(
            await ctx.session.send_request(
                ListRootsRequest(),
                ListRootsResult,
                ASK_SECONDS,
                ServerMessageMetadata(related_request_id=ctx.request_id),
            )
        )
    return None


def _paths(given: ListRootsResult) -> tuple[str, ...]:
    """The folders of this machine among the roots, as the caller named them."""
    parts = [urlsplit(str(root.uri)) for root in given.roots[:MAX_ROOTS]]
    return tuple(
        url2pathname(each.path)
        for each in parts
        if each.scheme == "file" and each.netloc in ("", "localhost")
    )
