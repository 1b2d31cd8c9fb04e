"""The folders that a caller works in (MCP roots), and which of them an upstream is told of.

Roots say what to work on; they hold nobody back who does not heed them. They were deprecated with
2026-07-28, where they come as the answer to an `InputRequiredResult`; up to 2025-11-25 a server
asks for them with `roots/list`.
"""

import json
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from fastmcp import Context
from mcp import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import InputRequiredResult, ListRootsRequest, ListRootsResult
from pydantic import ValidationError

from server.approval import is_modern

MOST = 50
"""Roots of a caller; more are not looked at."""
ASK_SECONDS = 5.0
"""How long a client is waited for that says it has roots."""
ANSWER = "roots"
"""The key of the question in an `InputRequiredResult`, and of its answer."""


class CallersProject:
    """The project of a server that was told of none and has one client: the folder that the client
    works in, from the first call on that tells it."""

    def __init__(self, project: Path, move: Callable[[Path], Awaitable[None]]) -> None:
        """`project`: where it was started. `move` has the server work on another one."""
        self._project, self._move = project, move
        self.known = False
        """Whether the client has been asked."""

    async def settle(self, given: Iterable[str] | None) -> None:
        """Go by the client's folders, None where it does not say."""
        if self.known:
            return
        self.known = True
        folders = [path for each in given or () if (path := Path(each)).is_dir()]
        if folders and not any(self._project.is_relative_to(each) for each in folders):
            await self._move(folders[0])


async def asked(ctx: Context) -> InputRequiredResult | tuple[str, ...] | None:
    """The folders that the caller works in, as paths; None where he does not say. In a call of
    2026-07-28, first the result that asks for them."""
    declared = ctx.session.client_capabilities
    if declared is None or declared.roots is None:
        return None
    if is_modern(ctx):
        if ctx.request_state is None:
            return InputRequiredResult(
                input_requests={ANSWER: ListRootsRequest()}, request_state=json.dumps({})
            )
        answer = (ctx.input_responses or {}).get(ANSWER)
        return paths(answer) if isinstance(answer, ListRootsResult) else None
    with suppress(MCPError, ValidationError):
        return paths(
            await ctx.session.send_request(
                ListRootsRequest(),
                ListRootsResult,
                ASK_SECONDS,
                ServerMessageMetadata(related_request_id=ctx.request_id),
            )
        )
    return None


def paths(given: ListRootsResult) -> tuple[str, ...]:
    """The folders of this machine among the roots, as the caller named them."""
    parts = [urlsplit(str(root.uri)) for root in given.roots[:MOST]]
    return tuple(
        url2pathname(each.path)
        for each in parts
        if each.scheme == "file" and each.netloc in ("", "localhost")
    )


def resolved(folders: Iterable[str]) -> tuple[str, ...]:
    """The folders as they are once links are followed, in order."""
    found = set()
    for folder in folders:
        with suppress(OSError, RuntimeError, ValueError):  # no name of a file; links in a circle
            path = Path(folder).expanduser()
            if path.is_absolute():
                found.add(str(path.resolve()))
    return tuple(sorted(found))


def within(given: Iterable[str], permitted: Iterable[str]) -> tuple[str, ...]:
    """What is in a caller's folders and in the operator's, links followed."""
    common = set()
    for one in map(Path, resolved(given)):
        for other in map(Path, resolved(permitted)):
            if one.is_relative_to(other):
                common.add(str(one))
            elif other.is_relative_to(one):
                common.add(str(other))
    return tuple(sorted(common))
