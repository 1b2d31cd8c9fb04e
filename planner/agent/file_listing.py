"""The files of a project where no text can be searched: a model says which tools list them and read
one, and they are read by the words in their paths.
"""

from collections.abc import Sequence

from planner.agent.tool_calls import Caller
from planner.checks.guards.arguments import takes_path, takes_paths
from planner.checks.guards.results import found_something
from planner.evidence.file_text import file_text
from planner.evidence.listing import folders_in, of_listing, paths_in, paths_said, visible
from planner.evidence.passages import of_file
from planner.evidence.ranking import ranked
from planner.passage import Passage
from planner.state import Iteration
from planner.tools import ToolSpec

MAX_LISTED = 40
"""Files that are read for one question if no text can be searched."""
MAX_UNLISTED = 12
"""Those of them that the question names and no listing has; a log in it may have hundreds."""
MAX_FOLDERS = 30
"""Folders that are listed for one question."""
MAX_UNREAD = 3
"""Files of a listing in a row that cannot be read before it is taken for something else."""


class FileListing:
    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.state = caller.state
        self.tools: tuple[ToolSpec, ToolSpec] | None = None
        """The tool that lists files, and the one that reads a file."""
        self.asked = False

    async def passages(
        self, question: str, more: Sequence[str]
    ) -> tuple[Iteration | None, list[Passage]]:
        """The passages of the files that a listing names, and the listing."""
        tools = await self._found_tools()
        if tools is None:
            return None, []
        lists, reads = tools
        listing, paths = await self._paths(lists, question, more)
        best = _likeliest(paths, question, more)
        unlisted = [
            name for name in paths_said(question) if not any(name in path for path in paths)
        ]
        if listing is None:  # a tool that reads a folder does not read files
            unlisted = [name for name in unlisted if "." in name.rpartition("/")[2]]
        passages: list[Passage] = []
        unread = 0
        wanted = [*unlisted[:MAX_UNLISTED], *best, *paths]
        for path in list(dict.fromkeys(wanted))[:MAX_LISTED]:
            iteration = await self.caller.own_call(reads, _taking(reads, path), f"read {path}")
            if found_something(iteration):
                passages += of_file(path, file_text(iteration.result), reads.upstream)
                unread = 0
            elif path in paths:
                unread += 1
            if unread == MAX_UNREAD:
                break
        if not (listing or passages):
            self.tools = None
        return listing, passages

    async def _paths(
        self, lists: ToolSpec, question: str, more: Sequence[str]
    ) -> tuple[Iteration | None, list[str]]:
        """The paths of all files, and the call that listed the first of them. What is marked as a
        folder, or has no extension where nothing is marked, is listed too where the tool takes one:
        first those with words of the question, then those with few beside them. None where nothing
        in the listing looks like a path: a model may name any tool that lists something."""
        first: Iteration | None = None
        files: list[str] = []
        folders, beside = ["."], {".": 1}
        for _ in range(MAX_FOLDERS):
            if not folders:
                break
            folder = folders.pop(0)
            call = _taking(lists, folder)
            listing = await self.caller.own_call(lists, call, f"list the files in {folder}")
            if not listing.succeeded:
                files += [folder] if first else []  # the first may be no path that the tool takes
                continue
            first = first or listing
            inside = "" if folder == "." else f"{folder}/"
            marked = folders_in(listing.result) if call else {}
            found: list[str] = []
            for path in visible(of_listing(listing.result)):
                path = path if path.startswith((inside, "/")) else f"{inside}{path}"
                name = path.rsplit("/", 1)[-1]
                is_folder = call and marked.get(name, "." not in name)
                if path not in beside:
                    (found if is_folder else files).append(path)
            beside |= dict.fromkeys(found, len(found))
            folders += found
            best = {path: n for n, path in enumerate(_likeliest(folders, question, more))}
            folders.sort(
                key=lambda path: (best.get(path, len(best)), beside[path], path.count("/"))
            )
        return first, list(dict.fromkeys(files)) if any(map(paths_in, files)) else []

    async def _found_tools(self) -> tuple[ToolSpec, ToolSpec] | None:
        """The tools that list files and read one, as a model says, asked once in a run: both take a
        path and need nothing else. A small model names any two where no tool does either."""
        if not self.asked:
            self.asked = True
            offered = [tool for tool in self.caller.read_only if tool.name in self.state.offered]
            lists = {
                tool.name: tool
                for tool in offered
                if takes_paths(tool) and all(map(takes_path, tool.required))
            }
            reads = {name: tool for name, tool in lists.items() if len(tool.required) == 1}
            if reads and len(lists) > 1:
                said = await self.caller.asker.file_tools([*lists], [*reads])
                if said.lists and said.reads and said.lists != said.reads:
                    self.tools = lists[said.lists], reads[said.reads]
        return self.tools

    async def read(self, path: str) -> Iteration | None:
        """The call that reads a file; None if no tool that reads files is known."""
        if self.tools is None:
            return None
        _, reads = self.tools
        return await self.caller.own_call(reads, _taking(reads, path), f"read {path}")


def _likeliest(paths: Sequence[str], question: str, more: Sequence[str]) -> list[str]:
    """The paths that share words with a question, best first."""
    by_path = [Passage(source=path, first=1, last=1, text=path) for path in paths]
    return [each.source for each in ranked(by_path, question, " ".join(more))]


def _taking(tool: ToolSpec, path: str) -> dict[str, str]:
    """The tool's arguments for a path: it takes one, or none."""
    return {name: path for name in tool.required}
