"""Pools whose tools say things in other forms than Serena's: marked listings, names with spaces,
dialects of regular expressions, paths from the root, errors in an object."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import Tool, ToolResult
from inline_snapshot import snapshot
from mcp_types import TextContent
from replies import conclusion, found, plan
from scripted_ollama import ScriptedOllama
from serving import Place, served

from server.upstreams.results import content_text

pytestmark = pytest.mark.anyio

READ_ONLY = {"readOnlyHint": True}
FILES = {
    "odd names/buoy list.txt": "The buoy is named Larus.\n",
    "skerry/tides.py": "SPRING_OFFSET = 2.875\n",
    ".git/objects/31/8f0728f2": "x\n",
    ".git/HEAD": "ref: refs/heads/buoy\n",
    "Makefile": "all:\n",
}
BUOYS = [
    {"name": name, "depth": depth} for name, depth in (("Larus", 12), ("Uria", 31), ("Alca", 9))
]
ROOT = "/srv/skerry"


@pytest.fixture
def pool(tmp_path: Path, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch) -> "OtherPool":
    place = Place(tmp_path, ollama)
    for name, value in place.environ.items():
        monkeypatch.setenv(name, value)
    return OtherPool(place)


class OtherPool:
    """One server whose tools the test names, the place that uses it, and the calls it got."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.calls: list[tuple[str, str]] = []

    @contextmanager
    def of(self, *names: str, **tools: Any) -> Iterator[Place]:
        mcp = FastMCP("other", version="1")
        for name in names:
            mcp.tool(getattr(self, name), annotations=READ_ONLY)
        with served(mcp) as url:
            self.place.upstreams = {"other": {"url": url, "tools": tools}}
            yield self.place

    def list_directory(self, path: str) -> str:
        """List what is in a folder, with a mark for files and folders."""
        self.calls.append(("list_directory", path))
        inside = "" if path == "." else f"{path}/"
        names = {
            each.removeprefix(inside).partition("/")[::2]
            for each in FILES
            if each.startswith(inside)
        }
        if not names:
            raise ToolError(f"not a directory: {path}")
        rows = [
            f"[{'DIR' if rest else 'FILE'}] {name:<28}{'' if rest else '25 B'}"
            for name, rest in sorted(names)
        ]
        return "\n".join([*dict.fromkeys(rows), "", "Total: 2 files, 3 directories"])

    def read_text_file(self, path: str) -> str:
        """Read a file."""
        self.calls.append(("read_text_file", path))
        if path not in FILES:
            raise ToolError(f"no such file: {path}")
        return FILES[path]

    def search_code(self, pattern: str) -> dict[str, Any]:
        """Search the text of files for a POSIX regular expression."""
        self.calls.append(("search_code", pattern))
        if "(?" in pattern:
            raise ToolError("grep: Invalid preceding regular expression")
        hits = [
            {"file": path, "line": 1, "text": text.strip()}
            for path, text in FILES.items()
            if re.search(pattern, text)
        ]
        return {"results": hits, "pagination": {"total_matches": len(hits), "max_results": 10}}

    def allowed_folders(self) -> str:
        """List the folders that may be read."""
        return f"Allowed folders:\n{ROOT}"

    def changed_files(self) -> str:
        """List the files that changed."""
        return "skerry/tides.py"

    def read_whole_path(self, path: str) -> str:
        """Read a file. The path begins at the root."""
        self.calls.append(("read_whole_path", path))
        if not path.startswith(f"{ROOT}/"):
            raise ToolError(f"not an absolute path: {path}")
        return FILES[path.removeprefix(f"{ROOT}/")]

    def buoys_in_data(self) -> ToolResult:
        """List the buoys."""
        return ToolResult(content="3 buoys", structured_content={"buoys": BUOYS})

    def buoy_in_words(self) -> ToolResult:
        """Show a buoy."""
        said = "Buoy Larus, as of 2026-11-27 12:05"
        return ToolResult(content=said, structured_content={"name": "Larus", "depth": 12, "at": 7})

    def buoys_one_by_one(self) -> ToolResult:
        """List the buoys."""
        blocks = [TextContent(type="text", text=json.dumps(each, indent=2)) for each in BUOYS]
        return ToolResult(content=blocks, structured_content={"result": BUOYS})

    def symbol_body(self, symbol: str) -> dict[str, Any]:
        """Show the text of a symbol."""
        return {"status": "error", "message": "The index is not built.", "symbol": symbol}


async def test_marked_entries_are_taken_as_they_are_spelled(pool: OtherPool) -> None:
    pool.place.ollama.expect({"lists": "list_directory", "reads": "read_text_file"})
    pool.place.ollama.expect(found("The buoy is named Larus."))
    with pool.of("list_directory", "read_text_file") as place:
        async with place.client() as client:
            result = await client.call("plan_and_answer", prompt="What is the buoy named?")
    assert result.whole
    assert result.whole["status"] == "answered"
    assert ("read_text_file", "odd names/buoy list.txt") in pool.calls
    named = {path for _, path in pool.calls} - {"."}
    folders = {path.rpartition("/")[0] for path in FILES} - {""}
    assert not {path for path in named if path.startswith(".git")}
    assert named <= FILES.keys() | folders


async def test_a_tool_that_takes_no_folder_is_not_tried_as_a_listing_again(
    pool: OtherPool,
) -> None:
    """`git_log` takes a path as well: the model names it as a tool that lists files."""
    pool.place.ollama.expect({"lists": "read_text_file", "reads": "list_directory"})
    for reply in (plan("list_directory"), {"path": "skerry"}, found("It is tides.py.")):
        pool.place.ollama.expect(reply)
    with pool.of("list_directory", "read_text_file") as place:
        async with place.client() as client:
            await client.call("plan_and_answer", prompt="What is in skerry?")
    assert pool.calls == [("read_text_file", "."), ("list_directory", "skerry")]


async def test_a_search_without_flags_is_given_patterns_without_them(pool: OtherPool) -> None:
    pool.place.ollama.expect(found("`SPRING_OFFSET` is 2.875."))
    roles = {"search_code": {"text_argument": "pattern"}}
    with pool.of("search_code", **roles) as place:
        async with place.client() as client:
            result = await client.call("plan_and_answer", prompt="What is `Spring_Offset`?")
    assert result.whole
    assert result.whole["status"] == "answered"
    assert pool.calls[-1][1].startswith("[Ss][Pp][Rr][Ii][Nn][Gg]_[Oo]")


async def test_a_path_from_the_root_stays_where_both_of_its_parts_were_seen(
    pool: OtherPool,
) -> None:
    whole = f"{ROOT}/skerry/tides.py"
    ollama = pool.place.ollama
    steps = [("allowed_folders", "f"), ("changed_files", "c"), ("read_whole_path", "r")]
    ollama.expect({"steps": [{"objective": each, "tool": tool} for tool, each in steps]})
    ollama.expect({"path": whole})
    ollama.expect(found("SPRING_OFFSET is 2.875."))
    with pool.of("allowed_folders", "changed_files", "read_whole_path") as place:
        async with place.client() as client:
            await client.call("plan_and_answer", prompt="What does the changed file say?")
    assert pool.calls == [("read_whole_path", whole)]


@pytest.mark.parametrize("tool", ["buoys_in_data", "buoys_one_by_one"])
async def test_a_list_is_one_wherever_a_server_puts_it(pool: OtherPool, tool: str) -> None:
    ollama = pool.place.ollama
    ollama.expect(plan(tool))
    ollama.expect({"sql": f"SELECT name FROM {tool} ORDER BY depth DESC LIMIT 1"})
    ollama.expect(found("Uria lies deepest."))
    with pool.of(tool) as place:
        async with place.client() as client:
            result = await client.call("plan_and_answer", prompt="Which buoy is deepest?")
    assert result.whole
    listed, queried = (action["tool_calls"][0] for action in result.whole["actions"])
    assert listed["result"].count("Larus") == 1
    assert queried["result"] == '{"name": "Uria"}'
    assert result.whole["answer"] == "Uria lies deepest."


async def test_data_that_a_text_leaves_out_follows_it(pool: OtherPool) -> None:
    """The digits of a value may stand in the text for another reason: 7 and 12 in a time."""
    pool.place.ollama.expect(conclusion("Larus lies at 12."))
    with pool.of("buoy_in_words") as place:
        async with place.client() as client:
            asked = {"prompt": "How deep does it lie?", "tool": "buoy_in_words"}
            result = await client.call("run_step", **asked)
    assert result.whole
    shown = result.whole["actions"][0]["tool_calls"][0]["result"]
    assert shown.splitlines()[1:] == ['{"name": "Larus", "depth": 12, "at": 7}']


@pytest.mark.parametrize(
    ("text", "data", "is_said"),
    [
        ("a = 1\n" * 500, {"path": "a.py", "content": "a = 1\n" * 500}, True),
        (r'{"a": "x \u0026 y", "b": "c\/d"}', {"a": "x & y", "b": "c/d"}, True),
        ("| price |\n| 3.50 |", {"price": 3.5}, True),
        ("Kunde 张三", {"name": "张三"}, True),
        ("as of 2027-11-07", {"depth": 7}, False),
        ("10 rows of 40", {"rows": [{"name": f"row {n}"} for n in range(40)]}, False),
    ],
)
def test_data_is_shown_once(text: str, data: Any, is_said: bool) -> None:
    shown = content_text([TextContent(type="text", text=text)], data)
    assert (shown == text) is is_said


async def test_a_tool_that_cannot_be_offered_is_listed_with_the_reason(pool: OtherPool) -> None:
    mcp = FastMCP("other", version="1")
    properties = {"Due Date": {"type": "string"}}
    mcp.add_tool(Unnamed(name="add_task", parameters={"type": "object", "properties": properties}))
    with served(mcp) as url:
        pool.place.upstreams = {"other": {"url": url}}
        async with pool.place.client() as client:
            listed = await client.call("list_tools")
    assert listed.whole
    assert listed.whole["upstreams"][0]["unreadable"] == snapshot(
        ["add_task: the argument 'Due Date' has other characters than names in code"]
    )


class Unnamed(Tool):
    """A tool with an argument of any name."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(content="Added.")


async def test_an_object_that_only_says_an_error_is_one(pool: OtherPool) -> None:
    pool.place.ollama.expect(conclusion("The index is not built.", success=False))
    with pool.of("symbol_body") as place:
        async with place.client() as client:
            asked = {"tool": "symbol_body", "arguments": {"symbol": "Gauge"}}
            result = await client.call("run_step", prompt="Show Gauge", **asked)
    assert result.whole
    assert [guard.partition(":")[0] for guard in result.whole["guards"]] == ["error_text"]
