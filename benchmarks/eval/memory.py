"""Pools in this process: a project's files in memory, and pools side by side.

The files are searched, found and read as Serena does it, by tools of the same names, arguments and
forms of results, so that a run costs milliseconds and no second process.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.eval.case import Called
from benchmarks.eval.codebases import Files, write
from planner.tools import (
    Outcome,
    Policy,
    Safety,
    ToolPool,
    ToolResult,
    ToolSpec,
    UpstreamState,
    UpstreamStatus,
)

UPSTREAM = "serena"
MAX_RESULT_CHARS = 400_000
"""Characters; what is longer is refused, as by the shipped settings."""


def _spec(name: str, about: str, required: str, optional: str = "", **options: Any) -> ToolSpec:
    names = [*required.split(), *optional.split()]
    kinds = {"start_line": "integer", "end_line": "integer"}
    return ToolSpec(
        name=name,
        upstream=UPSTREAM,
        description=about,
        input_schema={
            "type": "object",
            "properties": {each: {"type": kinds.get(each, "string")} for each in names},
            "required": required.split(),
        },
        **({"safety": Safety.READ_ONLY} | options),
    )


READING = (
    _spec(
        "find_file",
        "Find files by name. file_mask is a name or a pattern like *.py; relative_path is the "
        'folder to search, "." for all.',
        "file_mask relative_path",
        name_argument="file_mask",
    ),
    _spec(
        "search_for_pattern",
        "Search the text of all files. substring_pattern is a regular expression; relative_path "
        "limits it to a folder or file.",
        "substring_pattern",
        "relative_path",
        text_argument="substring_pattern",
    ),
    _spec(
        "read_file",
        "Read a file. relative_path is the file; start_line and end_line are line numbers, the "
        "first line is 1.",
        "relative_path",
        "start_line end_line",
        file_argument="relative_path",
    ),
)
CHANGING = _spec(
    "replace_content",
    "Replace a text in a file by another, wherever it stands there.",
    "relative_path needle repl",
    safety=Safety.DESTRUCTIVE,
    policy=Policy.ALLOW,
)


@dataclass
class ProjectPool:
    """A folder's files; what is changed is changed in the folder too."""

    root: Path
    changes: bool = False
    files: Files = field(default_factory=dict)

    def __post_init__(self) -> None:
        paths = sorted(path for path in self.root.rglob("*") if path.is_file())
        self.files = {path.relative_to(self.root).as_posix(): path.read_text() for path in paths}
        self._made: dict[str, Callable[..., str]] = {
            "find_file": self._find,
            "search_for_pattern": self._search,
            "read_file": self._read,
            "replace_content": self._replace,
        }

    def tools(self) -> Sequence[ToolSpec]:
        return [*READING, CHANGING] if self.changes else READING

    def upstreams(self) -> Sequence[UpstreamStatus]:
        return [UpstreamStatus(name=UPSTREAM, state=UpstreamState.READY, tools=len(self.tools()))]

    async def listing(self) -> str | None:
        return " ".join(sorted({re.sub("/.*", "/", path) for path in self.files})) or None

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        try:
            text = self._made[tool.name](**arguments)
        except (KeyError, ValueError, re.error) as error:
            return ToolResult(outcome=Outcome.FAILURE, text=str(error))
        if len(text) > MAX_RESULT_CHARS:
            text = f"The answer is too long ({len(text)} characters)."
            return ToolResult(outcome=Outcome.FAILURE, text=text)
        return ToolResult(outcome=Outcome.SUCCESS, text=text)

    def _within(self, path: str) -> list[str]:
        path = path.removeprefix("./").strip("/")
        inside = [each for each in self.files if each == path or each.startswith(f"{path}/")]
        return list(self.files) if path in ("", ".") else inside

    def _find(self, file_mask: str, relative_path: str) -> str:
        found = [
            path for path in self._within(relative_path) if fnmatch(path.split("/")[-1], file_mask)
        ]
        return json.dumps({"files": found})

    def _search(self, substring_pattern: str, relative_path: str = "") -> str:
        pattern = re.compile(substring_pattern)
        found: dict[str, list[str]] = {}
        for path in self._within(relative_path):
            for number, line in enumerate(self.files[path].splitlines(), 1):
                if pattern.search(line):
                    found.setdefault(path, []).append(f"  >{number:4}:{line}")
        return json.dumps(found)

    def _read(self, relative_path: str, start_line: int = 1, end_line: int | None = None) -> str:
        lines = self._text(relative_path).splitlines(keepends=True)
        return "".join(lines[start_line - 1 : end_line])

    def _replace(self, relative_path: str, needle: str, repl: str) -> str:
        text = self._text(relative_path)
        if needle not in text:
            raise ValueError(f"No match of the needle in {relative_path}.")
        self.files[relative_path] = text.replace(needle, repl)
        write({relative_path: self.files[relative_path]}, self.root)
        return "OK"

    def _text(self, path: str) -> str:
        path = path.removeprefix("./")
        if path not in self.files:
            raise ValueError(f"File not found: {path}")
        return self.files[path]


class Watched:
    """Several pools as one, with what was called of them."""

    def __init__(self, pools: Sequence[ToolPool]) -> None:
        self.pools = pools
        self.calls: list[Called] = []

    def tools(self) -> Sequence[ToolSpec]:
        return [tool for pool in self.pools for tool in pool.tools()]

    def upstreams(self) -> Sequence[UpstreamStatus]:
        return [each for pool in self.pools for each in pool.upstreams()]

    async def listing(self) -> str | None:
        listings = [await pool.listing() for pool in self.pools]
        return next(filter(None, listings), None)

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        pool = next(each for each in self.pools if tool in each.tools())
        result = await pool.call(tool, arguments)
        success = result.outcome is Outcome.SUCCESS
        self.calls.append(Called(tool.upstream, tool.name, arguments, success))
        return result
