"""The folders that a caller works in (MCP roots), and which of them an upstream learns.

Roots say what to work on; they do not stop an upstream that ignores them. They were deprecated with
2026-07-28, where they come as the answer to an `InputRequiredResult`; up to 2025-11-25 a server
asks for them with `roots/list`.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mcp_types import ListRootsResult

MAX_ROOTS = 50
"""Roots of a caller; more are not looked at."""


class CallersProject:
    """Moves a server that was started without a project to the folder that its one client works
    in."""

    def __init__(self, project: Path, move: Callable[[Path], Awaitable[None]]) -> None:
        """`project`: where it was started. `move` has the server work on another one."""
        self._project, self._move = project, move
        self.known = False
        """Whether the client has been asked."""

    async def settle(self, given: Iterable[str] | None) -> None:
        """Use the client's folders; None if the client does not name any."""
        if self.known:
            return
        self.known = True
        folders = [path for each in given or () if (path := Path(each)).is_dir()]
        if folders and not any(self._project.is_relative_to(each) for each in folders):
            await self._move(folders[0])


def paths(given: ListRootsResult) -> tuple[str, ...]:
    """The folders of this machine among the roots, as the caller named them."""
    parts = [urlsplit(str(root.uri)) for root in given.roots[:MAX_ROOTS]]
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
    """The overlap of the caller's folders and the operator's, with links followed."""
    common = set()
    for one in map(Path, resolved(given)):
        for other in map(Path, resolved(permitted)):
            if one.is_relative_to(other):
                common.add(str(one))
            elif other.is_relative_to(one):
                common.add(str(other))
    return tuple(sorted(common))
