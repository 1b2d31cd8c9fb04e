"""Every guard against what a real model wrote (tests/data/guards.json: arguments as they
were written, results as they came; what a guard's own calls find is made up)."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_memory import (
    ALLOWED,
    READ,
    SEARCH,
    DictionaryPool,
    Ran,
    Said,
    Unconstrained,
    planned,
    rows,
    spec,
)
from mcp_types import Tool
from paths import DATA, ROOT
from recorded import state_with
from replies import conclusion, deep, found, nowhere, plan, stay, two_more_rows

from planner.checks import validation
from planner.checks.guards import repeats, widening
from planner.checks.guards.arguments import (
    Seen,
    corrected_paths,
    corrected_patterns,
    laid_out_as_said,
    same,
    seen_paths,
    takes_path,
    without_limits,
)
from planner.checks.guards.no_effect import complaints
from planner.checks.guards.results import empty, fault
from planner.checks.guards.sources import unseen, without_codes
from planner.prompts.texts import compact
from planner.state import RunState
from planner.tools import Outcome, Safety, ToolResult, ToolSpec
from server.config_file import load_settings, shipped_file
from server.upstreams.results import tool_spec

pytestmark = pytest.mark.anyio

TRANSCRIPTS: dict[str, dict[str, Any]] = json.loads((DATA / "guards.json").read_text())
EMPTY = {
    "find_file": '{"files": []}',
    "list_dir": '{"dirs": [], "files": []}',
    "search_for_pattern": "{}",
}
"""What Serena says when it finds nothing."""


def serena() -> dict[str, ToolSpec]:
    """Serena's tools as the shipped configuration offers them."""
    settings = load_settings(shipped_file(), ROOT, {}).upstreams["serena"]
    tools = json.loads((DATA / "upstreams" / "serena.json").read_text())
    specs = [tool_spec(Tool.model_validate(tool), "serena", settings) for tool in tools]
    return {spec.name: spec for spec in specs if spec and spec.name in settings.tools}


SERENA = serena()


class Serena(DictionaryPool):
    """Serena's tools over recorded results: by a call's tool and arguments, else nothing found."""

    def __init__(self, *found: tuple[str, dict[str, Any], str]) -> None:
        super().__init__({}, specs=list(SERENA.values()))
        self.found = {(tool, compact(arguments)): result for tool, arguments, result in found}

    async def listing(self) -> str | None:
        return "anyio/\nroiyad/"

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        result = self.found.get((tool.name, compact(arguments)), EMPTY.get(tool.name, "[]"))
        self.results.setdefault(tool.name, []).append(result)
        return await super().call(tool, arguments)


def wrote(name: str, key: str = "arguments") -> Said:
    """The arguments of a transcript, as they were written."""
    return Unconstrained(TRANSCRIPTS[name][key])


async def written(name: str, *found: tuple[str, dict[str, Any], str]) -> Ran:
    """One step in which a model wrote the arguments of a transcript."""
    said = TRANSCRIPTS[name]
    return await planned(
        wrote(name),
        conclusion("That is all."),
        pool=Serena(*found),
        prompt=said["request"],
        goal="step",
        tool=said["tool"],
    )


def told(ran: Ran, guard: str) -> list[str]:
    return [each.message for each in ran.state.guards if each.guard == guard]


def test_every_transcript_says_where_it_is_from() -> None:
    for said in TRANSCRIPTS.values():
        assert said["model"].startswith("qwen2.5")
        assert said["source"]


# Tools


async def test_an_invented_tool_does_not_exist() -> None:
    said = TRANSCRIPTS["an invented tool"]
    ran = await planned(
        conclusion("That is all.", success=False),
        pool=Serena(),
        prompt=said["request"],
        goal="step",
        tool=said["tool"],
    )
    assert ran.guards == ["unknown_tool"]
    _, outcome, result = ran.results[0]
    assert outcome is Outcome.ERROR
    assert result.startswith(f'The tool "{said["tool"]}" does not exist.')
    assert "The nearest tools are: " in result


# Arguments


async def test_a_regular_expression_is_no_file_mask() -> None:
    ran = await written("a regular expression as a file mask")
    assert ran.pool.calls[0] == ("find_file", {"file_mask": "*", "relative_path": "."})
    assert told(ran, "pattern") == ["file_mask: .* is a regular expression; the mask is *"]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("a file mask as a regular expression", r"\.toml"),
        ("a broken regular expression", r"connect\("),
    ],
)
async def test_what_is_no_regular_expression_is_made_one(name: str, pattern: str) -> None:
    ran = await written(name, ("search_for_pattern", {"substring_pattern": pattern}, '{"a": [1]}'))
    assert ran.pool.calls == [("search_for_pattern", {"substring_pattern": pattern})]
    (message,) = told(ran, "pattern")
    assert message.endswith(pattern)


MASK = spec("find", "mask")
REGEX = spec("look", "regex")
GLOB_TOOL = spec("search_files", "pattern", description="Finds files by a glob pattern.")


@pytest.mark.parametrize(
    ("tool", "before", "after"),
    [
        (MASK, r".*\.py$", "*.py"),
        (MASK, r"^test_.*\.py$", "test_*.py"),
        (MASK, ".*config.*", "*config*"),
        (MASK, r"\w+_test\.go", "*_test.go"),
        (MASK, r"(?i)readme.*", "readme*"),
        (MASK, r"(foo|bar)\.ts$", "*.ts"),
        (MASK, "app.ts|main.ts", "*"),
        (MASK, "main.*", "main.*"),
        (MASK, "*.py", "*.py"),
        (MASK, "src/[a-z]?.py", "src/[a-z]?.py"),
        (GLOB_TOOL, r".*\.py$", "*.py"),
        (SEARCH, r".*\.py$", r".*\.py$"),
        (SEARCH, "*foo*", "foo"),
        (SEARCH, "**/*.py", r"\.py"),
        (SEARCH, "src/**/*.ts", r"src.*\.ts"),
        (SEARCH, "*", "."),
        (SEARCH, "items[0", r"items\[0"),
        (SEARCH, r"(?<name>\w+)", r"(?<name>\w+)"),  # JavaScript's
        (REGEX, "*.py", r"\.py"),
        (READ, "*.py", "*.py"),
    ],
)
def test_patterns_are_translated(tool: ToolSpec, before: str, after: str) -> None:
    (name,) = [each for each in tool.input_schema["properties"] if each != "path" or tool is READ]
    corrected, changes = corrected_patterns({name: before}, tool)
    assert corrected == {name: after}
    assert len(changes) == (before != after)


@given(st.text())
def test_any_text_is_taken_for_a_pattern(text: str) -> None:
    for tool, name in ((MASK, "mask"), (SEARCH, "pattern")):
        corrected, changes = corrected_patterns({name: text}, tool)
        again, more = corrected_patterns(corrected, tool)
        assert changes or corrected == {name: text}
        if tool is SEARCH:
            assert (again, more) == (corrected, [])


COUNT = {"type": "integer", "default": 100}


@pytest.mark.parametrize(
    ("value", "said", "required", "kept"),
    [
        (1, "What was paid last?", [], False),
        (1, "What were the last 10?", [], False),
        (9.5, "What was paid?", [], False),
        (5, "What were the last 5.5?", [], False),
        (5, "What were the last 5?", [], True),
        (5.0, "What were the last 5?", [], True),
        (1, "What was paid last?", ["count"], True),
        (10, "What was paid last?", [], True),  # as a day of a week
        (0, "What was paid last?", [], True),  # an offset
        (-1, "What was paid last?", [], True),  # all
        (200, "What was paid?", [], True),
        (True, "What was paid?", [], True),
    ],
)
def test_nothing_is_asked_for_in_less_than_the_usual_number_unless_the_user_says_so(
    value: float, said: str, required: list[str], kept: bool
) -> None:
    assert asked_for(value, COUNT, said, required) == ([value] if kept else [])


def test_a_number_is_said_with_separators_too() -> None:
    usual = {"type": "integer", "default": 50_000}
    assert asked_for(1000, usual, "What were the last 1,000?") == [1000]
    assert asked_for(1000, usual, "What were the last 100?") == []


def asked_for(
    value: float, count: dict[str, Any], said: str, required: list[str] | None = None
) -> list[Any]:
    """The number that a tool is asked for; none if it was left out, which is told."""
    schema = {"type": "object", "properties": {"count": count}, "required": required or []}
    asked, changes = without_limits({"count": value}, spec("paid", input_schema=schema), said)
    assert len(changes) == (not asked)
    return [*asked.values()]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("A1:D20", False),
        ("id-77", False),
        ("B7", True),
        ("2026-11-30T14:30:00Z", True),
        ("now-6h", True),
        ("7d", True),
        ("Asia/Tokyo", True),
        ("all sheets", True),
        ("v1", True),
    ],
)
def test_an_optional_code_that_nobody_said_is_not_looked_up(value: str, kept: bool) -> None:
    place = {"type": "string", "description": "e.g. 'A1:D20'", "default": "v1"}
    tool = spec("read_sheet", input_schema={"type": "object", "properties": {"place": place}})
    asked, changes = without_codes({"place": value}, tool, "What does B7 say?")
    assert asked == ({"place": value} if kept else {})
    assert bool(changes) is not kept


def test_what_an_argument_is_described_as_is_no_value_of_it() -> None:
    about = {"type": "string", "description": "1-31 characters, none of [ ] : * ? /"}
    tool = spec("rename", input_schema={"type": "object", "properties": {"name": about}})
    assert unseen({"name": "1-31 characters, none of [ ]"}, "Rename it to Staff", tool)
    assert not unseen({"name": "Staff"}, "Rename it to Staff", tool)


@pytest.mark.parametrize(
    ("required", "arguments", "first"),
    [
        ([], {"database": "x", "limit": 5}, {"limit": 5}),
        (["path"], {"path": "a/b", "since": "2026-11-30"}, {"path": "a/b"}),
    ],
)
def test_what_a_listing_was_limited_to_is_left_out_first(
    required: list[str], arguments: dict[str, Any], first: dict[str, Any]
) -> None:
    properties: dict[str, Any] = {name: {} for name in arguments}
    schema = {"type": "object", "properties": properties, "required": required}
    assert widening.wider(spec("list_all", input_schema=schema), arguments)[0] == first


def test_a_listing_that_fails_is_made_without_its_conditions() -> None:
    properties: dict[str, Any] = {"database": {}, "schema": {}}
    tool = spec("list_all", input_schema={"type": "object", "properties": properties})
    [*_, last] = widening.in_fewer_words(tool, {"database": "default", "schema": "default"})
    assert last == {}


def test_an_empty_text_clears_nothing_where_something_is_looked_up() -> None:
    text = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    schema = {"type": "object", "properties": {"table": {}, "schema": text}, "required": ["table"]}
    written = {"table": "t", "schema": ""}
    assert validation.coerced(written, schema, None) == {"table": "t"}
    assert validation.coerced(written, schema) == written


async def test_types_and_empty_options_are_put_right_and_told() -> None:
    ran = await written("a broken regular expression")
    assert told(ran, "coercion") == ["relative_path: '' was left out"]
    assert "relative_path" not in ran.pool.calls[0][1]


async def test_an_invented_folder_is_taken_off_a_path() -> None:
    ran = await written("an invented folder before a path")
    assert ran.pool.calls == [
        ("read_file", {"end_line": None, "relative_path": "planner/tools.py"})
    ]
    assert told(ran, "path") == [
        "relative_path: /path/to/planner/tools.py was never seen; "
        "planner/tools.py is the nearest path"
    ]


def test_the_nearest_path_is_no_part_of_the_path() -> None:
    said = TRANSCRIPTS["a known folder before a path"]
    seen = Seen(["roiyad", "README.md", *json.loads(said["seen"])])
    corrected, changes = corrected_paths(said["arguments"], SERENA[said["tool"]], seen)
    assert corrected == {"relative_path": "roiyad/chaezhask/vraeseth.py"}
    assert len(changes) == 1
    unseen = Seen(["roiyad", "chaezhask", "config/chitund.ini"])
    assert corrected_paths(said["arguments"], SERENA[said["tool"]], unseen) == (
        said["arguments"],
        [],
    )


@pytest.mark.parametrize(
    ("path", "corrected"),
    [
        ("parcel/rates.py", "parcel/rates.py"),  # a tree shows `parcel`, and `rates.py` below it
        ("/home/me/rates.py", "rates.py"),
        ("app/parcel/zones.py", "parcel/zones.py"),
    ],
)
def test_a_bare_name_of_a_listing_takes_no_folder_off_a_path(path: str, corrected: str) -> None:
    seen = Seen(["rates.py", "parcel/zones.py"])
    found, _ = corrected_paths({"path": path}, READ, seen)
    assert found == {"path": corrected}


@pytest.mark.parametrize(
    ("path", "text", "spelled"),
    [
        ("src/app.py", "see /home/u/proj/src/app.py", "/home/u/proj/src/app.py"),
        ("workflows/ci.yml", "see .github/workflows/ci.yml", ".github/workflows/ci.yml"),
        ("foo/src/app.py", "see ./src/app.py", "src/app.py"),
    ],
)
def test_a_path_is_corrected_to_the_spelling_that_was_seen(
    path: str, text: str, spelled: str
) -> None:
    found, _ = corrected_paths({"path": path}, READ, seen_paths(state_with(text)))
    assert found == {"path": spelled}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Sent", "What is in the folder Sent?"),
        ("Dockerfile", "Dockerfile.dev\nDockerfile\nsrc/a.py"),
        ("./Dockerfile", '["Dockerfile", "Dockerfile.dev"]'),
        ("app/[id]/edit/page.tsx", "app/[id]/edit/page.tsx"),
        ("my notes/a b.md", "my notes/a b.md"),
        ("src/config.py", "读取src/config.py的内容"),
    ],
)
def test_a_path_that_a_text_holds_as_a_whole_stays(path: str, text: str) -> None:
    seen = Seen(["Dockerfile.dev", "edit/page.tsx"], [text])
    tool = spec("read", "path", input_schema={"type": "object", "properties": {"path": {}}})
    assert corrected_paths({"path": path}, tool, seen) == ({"path": path}, [])
    longer = text.replace(path.removeprefix("./"), f"old-{path}")
    assert corrected_paths({"path": path}, tool, seen._replace(texts=[longer]))[1]


async def test_a_folder_that_the_request_names_stays() -> None:
    schema = {"type": "object", "properties": {"folder": {"type": "string"}}}
    mails = spec("mails", input_schema=schema)
    pool = DictionaryPool({}, specs=[mails], results={"mails": ["One mail."]})
    said = Unconstrained({"folder": "Sent"}), conclusion("That is all.")
    prompt = "What is in the folder Sent?"
    ran = await planned(*said, pool=pool, prompt=prompt, goal="step", tool="mails")
    assert ran.pool.calls[0] == ("mails", {"folder": "Sent"})


@pytest.mark.parametrize(
    ("folder", "result", "path"),
    [
        ("/srv/garden", "[FILE] plan.yaml\n[DIR] notes", "/srv/garden/plan.yaml"),
        ("/srv", '[{"name":"garden","children":[{"name":"plan.yaml"}]}]', "/srv/garden/plan.yaml"),
        ("/elsewhere", "[FILE] plan.yaml\n[DIR] notes", "plan.yaml"),
    ],
)
def test_a_file_of_a_listed_folder_keeps_its_folder(folder: str, result: str, path: str) -> None:
    """There are servers that take only paths from the root, and list names alone."""
    state = state_with(result)
    state.iterations[0].arguments["path"] = folder
    found, _ = corrected_paths({"path": "/srv/garden/plan.yaml"}, READ, seen_paths(state))
    assert found == {"path": path}


def test_another_number_is_another_file() -> None:
    seen = Seen(["migrations/0001_x.sql", "config/rates.py"])
    found, _ = corrected_paths({"path": "migrations/0002_x.sql"}, READ, seen)
    assert found == {"path": "migrations/0002_x.sql"}
    found, _ = corrected_paths({"path": "config/rate.py"}, READ, seen)
    assert found == {"path": "config/rates.py"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name_path_pattern", "Uploads/run"),
        ("xpath", "//div/a"),
        ("row_xpath", "//div/a"),
        ("json_path", "$.uploads.run"),
        ("jsonPath", "$.uploads.run"),
    ],
)
def test_what_leads_to_a_part_of_a_document_is_no_path(name: str, value: str) -> None:
    seen = Seen(["uploads/run.py", "jobs/Uploads/run"])
    tool = spec("find", input_schema={"type": "object", "properties": {name: {}}})
    assert corrected_paths({name: value}, tool, seen) == ({name: value}, [])


@pytest.mark.parametrize("name", ["path", "index_path", "indexPath", "json_file", "json_file_path"])
def test_what_takes_a_path_is_known_by_its_name(name: str) -> None:
    assert takes_path(name)


# Repeats


async def test_a_call_equal_but_for_a_default_is_not_spent_again() -> None:
    said = TRANSCRIPTS[name := "a call made before, but for a default"]
    ran = await planned(
        wrote(name),
        nowhere(),
        plan(said["tool"]),
        wrote(name, "then"),
        deep(conclusion("That is all.", success=False)),
        pool=Serena((said["tool"], said["arguments"], said["result"])),
        prompt=said["request"],
        tool=said["tool"],
    )
    assert ran.pool.calls == [(said["tool"], said["arguments"])]
    assert ran.guards == ["repeated"]


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ({}, {"path": "."}, True),
        ({"path": ""}, {"path": None}, True),
        ({"path": "./jobs/"}, {"path": "jobs"}, True),
        ({"limit": 5}, {}, True),
        ({"limit": 6}, {}, False),
        ({"path": "jobs"}, {}, False),
        ({"pattern": ""}, {}, False),
    ],
)
def test_when_calls_are_the_same(
    first: dict[str, Any], second: dict[str, Any], equal: bool
) -> None:
    tool = spec("search", "pattern", "path?")
    tool.input_schema["properties"]["limit"] = {"type": "integer", "default": 5}
    assert same(tool, {"pattern": "x"} | first, {"pattern": "x"} | second) is equal


# Nothing found


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        (
            "a search limited to the wrong folder",
            [
                {"substring_pattern": "rotateImage"},
                {"substring_pattern": "(?i)rotate[ _.-]?Image"},
                {"substring_pattern": "(?i)rotate"},
            ],
        ),
        ("a search for words of a regular expression", []),
        (
            "a file name without its ending",
            [
                {"file_mask": "README", "relative_path": "."},
                {"file_mask": "*README*", "relative_path": "."},
            ],
        ),
        ("a path as a file mask", [{"file_mask": "*mawir*", "relative_path": "."}]),
        ("a file listed as a folder", [{"relative_path": "anyio", "recursive": True}]),
    ],
)
async def test_what_finds_nothing_is_widened(name: str, calls: list[dict[str, Any]]) -> None:
    tool = TRANSCRIPTS[name]["tool"]
    ran = await written(name)
    assert [arguments for _, arguments in ran.pool.calls[1:]] == calls
    assert len(told(ran, "empty")) == len(calls)
    _, outcome, result = ran.results[0]
    assert (outcome, empty(result)) == (Outcome.SUCCESS, True)
    for wider in calls:
        assert f"nor for {compact(wider)}" in result
    if calls:
        found = await written(name, (tool, calls[-1], "a/file.py"))
        assert found.results[0][2] == (
            f"Nothing for the arguments above; for {compact(calls[-1])}:\na/file.py"
        )


@pytest.mark.parametrize(
    ("tool", "arguments", "tries"),
    [
        ("find_symbol", {"name_path_pattern": "FTP", "include_body": False}, []),
        (
            "find_symbol",
            {"name_path_pattern": "FTP", "relative_path": "a/b.py"},
            [{"name_path_pattern": "FTP"}],
        ),
        ("find_referencing_symbols", {"name_path": "upload", "relative_path": "a/b.py"}, []),
        ("read_file", {"relative_path": "a/empty.py"}, []),
        ("list_dir", {"relative_path": ".", "recursive": True}, []),
        ("find_file", {"file_mask": "*.toml", "relative_path": "a"}, ["*.toml", "*.toml*"]),
        ("search_for_pattern", {"substring_pattern": "in|xy"}, []),
    ],
)
def test_wider_tries(tool: str, arguments: dict[str, Any], tries: list[Any]) -> None:
    found = widening.wider(SERENA[tool], arguments)
    assert [each if isinstance(tries[0], dict) else each["file_mask"] for each in found] == tries


@pytest.mark.parametrize(
    ("query", "tries"),
    [
        ("weekly introduction (2026)", ["introduction", "weekly"]),
        ("from:priya visa", ["priya", "visa"]),
        ("会议 预算", ["会议", "预算"]),
        ("बैठक समय", ["बैठक", "समय"]),
        ("SELECT id FROM boats WHERE length > 9", []),
        ("project = OPS AND status = Open", []),
        ('rate(trips_total{job="ferry"}[5m]) / 60', []),
    ],
)
def test_a_look_up_is_tried_in_fewer_words_if_it_is_in_words(query: str, tries: list[str]) -> None:
    for tried in (widening.wider, widening.in_fewer_words):
        assert [each["query"] for each in tried(spec("find", "query"), {"query": query})] == tries


@pytest.mark.parametrize(
    ("pattern", "tries"),
    [
        ("größe prüfen", ["(?i)größe[ _.-]?prüfen", "(?i)prüfen"]),
        ("Настройки сервера", ["(?i)Настройки[ _.-]?сервера", "(?i)Настройки"]),
        ("缓存 清空", ["(?i)缓存[ _.-]?清空", "(?i)缓存"]),
        ("maxRetries", ["(?i)max[ _.-]?Retries", "(?i)Retries"]),
    ],
)
def test_a_pattern_is_loosened_in_any_script(pattern: str, tries: list[str]) -> None:
    found = widening.wider(SERENA["search_for_pattern"], {"substring_pattern": pattern})
    assert [each["substring_pattern"] for each in found] == tries


def test_a_mask_of_whole_paths_stays_one() -> None:
    about = "Find files by a glob: *.ext in the top folder, **/*.ext in all."
    tool = spec("find_files", "path", "pattern", description=about)
    found = widening.wider(tool, {"path": ".", "pattern": "**/mooring.txt"})
    assert [each["pattern"] for each in found] == ["**/*mooring*"]


@pytest.mark.parametrize(
    ("result", "nothing"),
    [
        ('{"items": [], "total": 0}', True),
        ('{"results": [], "pagination": {"returned": 0, "more": false, "limit": 10}}', True),
        ('{"results": [{"id": 1}], "pagination": {"returned": 1}}', False),
        ('{"tags": [], "price": 12}', False),
        ('{"tags": [], "owner": {"name": "Larus"}}', False),
        ('{"total": 0}', False),
        ('{"success": true, "database": "x", "tables": [], "tableCount": 0}', True),
        ('{"name": "Anna", "balance": 0, "tags": []}', False),
        ('{"name": "Anna", "discount": 0, "tags": []}', False),
        ('{"query": "x", "total": 0, "hits": []}', True),
        ('{"tables": [], "tableCount": 3}', False),
        ("null", True),
        ('{"status": "ok", "message": "No results found"}', True),
        ('{"query": "x", "results": [], "message": "No results"}', True),
        ("Search results for 'report':\n\nNo results found.", True),
        ("Query: foo\nNo matches found", True),
        ("grep: no matches", True),
        ("Searched 12 files and found no results.", True),
        ("Directory src/assets contains no files", True),
        ("Search finished. No results.", True),
        ('[{"id": 7, "title": "Search returns no results"}]', False),
        ("Build ok: no files changed, 3 tests failed", False),
    ],
)
def test_a_list_without_entries_is_nothing_whatever_is_counted_of_it(
    result: str, nothing: bool
) -> None:
    assert empty(result) == nothing


@given(st.text(), st.text())
def test_any_call_is_widened_a_few_times_at_most(text: str, place: str) -> None:
    for name, tool in SERENA.items():
        properties = tool.input_schema["properties"]
        arguments = {each: place if "relative" in each else text for each in properties}
        tries = widening.wider(tool, arguments)
        assert len(tries) <= 3
        for each in tries:
            assert not same(tool, each, arguments)
            assert each.keys() <= arguments.keys()
            if name == "search_for_pattern" and each["substring_pattern"] != text:
                re.compile(each["substring_pattern"])


async def test_a_wider_try_made_before_is_taken_from_the_record() -> None:
    found = ("search_for_pattern", {"substring_pattern": "rotate"}, '{"a.py": ["  > 1:rotate"]}')
    ran = await planned(
        {"substring_pattern": "rotate"},
        nowhere(),
        plan("search_for_pattern"),
        {"substring_pattern": "rotate", "relative_path": "anyio"},
        nowhere(),
        deep(conclusion("That is all.", success=False)),
        pool=Serena(found),
        prompt="Is there anything that rotates?",
        tool="search_for_pattern",
    )
    assert len(ran.pool.calls) == 2
    assert "> 1:rotate" in ran.results[1][2]


# Errors marked fine


async def test_an_error_that_came_as_a_result_is_a_failure() -> None:
    said = TRANSCRIPTS[name := "an error that came as a result"]
    ran = await written(name, (said["tool"], said["arguments"], said["result"]))
    assert ran.results[0][1:] == (Outcome.FAILURE, said["result"])
    (message,) = told(ran, "error_text")
    assert message.startswith("find_file said as a success: Error: Tool")


CONTEXT7 = json.loads((DATA / "upstreams" / "call-context7-query-docs.json").read_text())[
    "content"
][0]["text"]
OTHER = spec("query-docs", "query")
CHANGE = spec("open_cover", "entity", safety=Safety.WRITE)


@pytest.mark.parametrize(
    ("tool", "text", "is_fault"),
    [
        (OTHER, CONTEXT7, True),
        (OTHER, "Error: ", True),
        (OTHER, "MCP error -32602: Invalid arguments", True),
        (OTHER, "Tool foo not found", True),
        (OTHER, "FileNotFoundError: [Errno 2] No such file or directory: 'x'", True),
        (OTHER, "Traceback (most recent call last):\n  File x\n    y()\nKeyError: 'z'", True),
        (OTHER, '{"error": "rate limited", "status": 429}', True),
        (OTHER, "Database error: UNIQUE constraint failed: boats.id", True),
        (OTHER, '{"status": "error", "message": "no index", "query": "logs/run.log"}', True),
        (OTHER, '{"status": "error", "message": "of the boiler", "entry": 7}', False),
        (OTHER, '{"status": "ok", "message": "no error"}', False),
        (OTHER, '{"success": false, "message": "Insufficient funds"}', True),
        (OTHER, '{"ok": false, "error": null}', True),
        (OTHER, '{"status": "failed"}', True),
        (OTHER, '{"status": "failed", "query": "logs/run.log"}', False),
        (OTHER, '{"error": null, "message": "fine"}', False),
        (OTHER, '{"error": "E1", "rows": [1, 2]}', False),
        (OTHER, "Error handling is described in docs/errors.md", False),
        (OTHER, "Errors are few typed classes.", False),
        (OTHER, "Error: a\n" * 9, False),
        (OTHER, "Error: " + "x" * 1000, False),
        (READ, "Error: disk full", False),
        (READ, "Traceback (most recent call last):\n  File x\n    y()\nKeyError: 'z'", False),
        (READ, "Error: ENOENT: no such file or directory, open 'logs/run.log'", True),
        (READ, "Error executing tool read_file: ValueError: no", True),
        (SEARCH, "Error: the pattern was found", False),
        (OTHER, "❌ Error: no such channel", True),
        (OTHER, "Unable to attend on Friday, please move it", False),
        (OTHER, "# Error: the base class", False),
        (OTHER, '{"type": "import", "status": "failed", "message": "row 3"}', False),
        (CHANGE, "Failed to send: channel_not_found", True),
        (CHANGE, '{"id": 3, "title": "Outage", "error": "OOM"}', False),
        (CHANGE, '{"deleted": [1, 2], "error": "3 is in use"}', False),
        (OTHER, '{"object": "error", "status": 404, "message": "x", "request_id": "7"}', True),
        (OTHER, '{"message": "Not Found", "status": "404"}', True),
        (OTHER, '{"message": "GET /", "status": 404, "at": "12:05"}', False),
        (OTHER, '{"ok": false, "error": "missing_scope", "needed": "chat"}', False),
        (CHANGE, '{"ok": false, "error": "missing_scope", "needed": "chat"}', True),
        (CHANGE, '{"error": "device unavailable"}', True),
        (OTHER, '{"success": false, "query": "all", "error": "none", "errorType": "X"}', True),
        (OTHER, '{"success": false, "job": "all", "error": "none", "errorType": "X"}', False),
        (CHANGE, '{"id": 7, "status": "failed"}', False),
        (CHANGE, '{"id": 7, "success": false}', True),
        (spec("get_logs", "service", safety=Safety.WRITE), "Error: disk full", False),
        (spec("read_query", "query"), "Database error: no such column: o.amount", True),
        (spec("web_search", "query"), "Error: Rate limit exceeded", True),
        (spec("search_notes", "path"), "Error: disk full", False),
        (CHANGE, '{"id": 7, "error": null, "status": "open"}', False),
        (CHANGE, "Error: device unavailable", True),
        (CHANGE, "Error deleting event: it is locked", True),
        (OTHER, "Error deleting event: it is locked", False),
        (CHANGE, '{"error": "Event is locked", "data": null}', True),
        (CHANGE, '{"errors": [{"message": "Event is locked"}]}', True),
        (CHANGE, '{"errors": [], "id": 7}', False),
        (CHANGE, '{"status": "error", "message": "locked", "data": null}', True),
        (CHANGE, '{"status": "error", "message": "locked", "correlationId": "7"}', True),
        (CHANGE, '{"status": "error", "message": "stuck", "entity": "garage"}', False),
        (CHANGE, '{"took": 3, "errors": true, "items": [{"status": 404}]}', True),
        (CHANGE, '{"updated": 3, "errors": 0}', False),
        (CHANGE, '{"error": "invalid_grant", "error_description": "It has expired"}', True),
        (
            CHANGE,
            '{"data": {"save": {"event": null, "userErrors": [{"message": "locked"}]}}, '
            '"extensions": {"cost": 10}}',
            True,
        ),
        (CHANGE, '{"data": {"save": {"event": {"id": 7}, "userErrors": []}}}', False),
        (CHANGE, '{"status": "fail", "message": "locked"}', True),
        (CHANGE, '{"status": "failed", "reason": "locked"}', True),
        (CHANGE, "{'success': False, 'message': 'Event is locked'}", True),
        (CHANGE, "{'success': True, 'message': 'Event was deleted'}", False),
        (OTHER, '{"message": "403 Forbidden"}', True),
        (OTHER, "404: Not Found", True),
        (OTHER, "HTTP/1.1 503 Service Unavailable", True),
        (OTHER, "404 notes were found", False),
        (OTHER, "<html><head><title>502 Bad Gateway</title></head></html>", True),
        (OTHER, '{"code": 404, "message": "no such page"}', True),
        (OTHER, '{"code": "404", "title": "Room 404"}', False),
        (OTHER, '{"code": 0, "message": "success"}', False),
        (OTHER, '{"StatusCode": 401, "Message": "x"}', True),
        (OTHER, '{"timestamp": "2026", "status": 404, "error": "Not Found", "path": "/x"}', True),
        (OTHER, '{"url": "/x", "status": 503, "error": "Service Unavailable"}', False),
        (OTHER, '{"errorMessages": ["It does not exist"], "errors": {}}', True),
        (OTHER, '{"errcode": 40013, "errmsg": "invalid"}', True),
        (OTHER, '{"errcode": 0, "errmsg": "ok"}', False),
        (OTHER, '[{"status": "error", "message": "of the boiler"}]', False),
        (CHANGE, '[{"message": "x", "errorCode": "INVALID_FIELD"}]', True),
        (CHANGE, '{"code": 20404, "message": "x", "more_info": "y", "status": 404}', True),
        (CHANGE, '{"id": 7, "code": 404, "message": "x"}', False),
        (
            OTHER,
            '<?xml version="1.0"?><s:Envelope xmlns:s="x"><s:Header/><s:Body><s:Fault>'
            "<faultstring>no such order</faultstring></s:Fault></s:Body></s:Envelope>",
            True,
        ),
        (OTHER, "<order><id>7</id><error>0</error></order>", False),
        (CHANGE, "<r><Save><Success>false</Success><Why>locked</Why></Save></r>", True),
        (CHANGE, "<r><Success>true</Success><Id>7</Id></r>", False),
        (CHANGE, '{"exit_code": 128, "stdout": "", "stderr": "fatal: no such remote"}', True),
        (CHANGE, '{"exit_code": 1, "stdout": "2 failed", "stderr": ""}', False),
        (CHANGE, '{"returncode": 0, "stdout": "", "stderr": "warning"}', False),
    ],
)
async def test_what_counts_as_an_error(tool: ToolSpec, text: str, is_fault: bool) -> None:
    argument = tool.input_schema["required"][0]
    ran = await planned(
        conclusion("That is all."),
        pool=DictionaryPool({}, specs=[tool], results={tool.name: [text]}),
        prompt="Look",
        goal="step",
        tool=tool.name,
        arguments={argument: "logs/run.log"},
        **ALLOWED,
    )
    outcome = Outcome.FAILURE if is_fault else Outcome.SUCCESS
    assert ran.results == [(tool.name, outcome, text)]
    assert ran.guards == ["error_text"] * is_fault


SQL = {"sql": "UPDATE boats SET status = 'sold' WHERE id = 7"}


@pytest.mark.parametrize(
    ("name", "arguments", "result", "changed"),
    [
        ("update_many", {}, '{"acknowledged": true, "matchedCount": 0, "upsertedId": null}', False),
        ("update_many", {}, '{"acknowledged": true, "matchedCount": 1, "modifiedCount": 0}', True),
        ("update_rows", {}, '{"status": "success", "data": {"updatedRows": 0}}', False),
        ("query", SQL, "UPDATE 0", False),
        ("query", SQL, "Query OK, 0 rows affected (0.01 sec)", False),
        ("query", SQL, "[{'affected_rows': 0}]", False),
        ("query", SQL, "UPDATE 1", True),
        ("query", {"sql": "INSERT INTO boats VALUES (1)"}, "INSERT 0 1", True),
        ("query", {"sql": "CREATE TABLE boats (id int)"}, '{"affected_rows": 0}', True),
        ("delete_items", {}, '{"deleted": []}', False),
        ("delete_items", {}, "Deleted `0` document(s)", False),
        ("delete_items", {"folder": 12}, "0 files were deleted from folder 12.", False),
        ("delete_items", {}, "Deleted 3 items; 0 left", True),
        ("delete_file", {}, "Deleted a.txt (0 bytes)", True),
        ("delete_items", {}, '{"deleted": 0, "moved": 3}', True),
        ("remove_item", {}, '{"items": []}', True),
        ("create_task", {}, "Task created: 0 subtasks", True),
        ("create_list", {}, '{"id": "a8f", "completedCount": 0}', True),
        ("lock_door", {}, '{"locked": false}', False),
        ("unlock_door", {}, '{"locked": false}', True),
        ("toggle_lock", {}, '{"locked": false}', True),
        ("create_or_update", {}, '{"created": false, "updated": true}', True),
        ("put_targets", {}, '{"FailedEntryCount": 0, "FailedEntries": []}', True),
        ("run", {"command": "git add ."}, '{"exit_code": 0, "stdout": ""}', True),
        ("set_volume", {"level": 0}, '{"volume": 0}', True),
        ("mark_all_read", {}, '{"unread": 0}', True),
        ("start_build", {}, '{"build": "b-77", "started": false}', True),
        ("update_pull_request", {}, '{"number": 7, "requested_reviewers": []}', True),
    ],
)
def test_a_change_that_says_it_changed_nothing_is_a_failure(
    name: str, arguments: dict[str, Any], result: str, changed: bool
) -> None:
    """A zero alone says nothing: it may be a code, or what is left."""
    tool = spec(name, safety=Safety.WRITE)
    assert fault(tool, arguments, result) is not changed
    assert not fault(spec(name), arguments, result)


@pytest.mark.parametrize(
    ("result", "names"),
    [
        ('{"updated": 12, "failed": 3, "errors": [{"sku": "A1"}]}', ["failed", "errors"]),
        ('{"data": {"save": {"id": 1, "userErrors": [{"message": "x"}]}}}', ["userErrors"]),
        ('{"updated": 12, "failed": 0, "errors": [], "error": null}', []),
        ('{"id": 3, "title": "Outage", "error": "OOM"}', []),
        ('{"mirrors": [1]}', []),
    ],
)
def test_a_change_that_was_made_may_have_failed_in_part(result: str, names: list[str]) -> None:
    assert complaints(result) == names


# No progress


async def test_calls_that_bring_nothing_force_another_tool_then_the_conclusion() -> None:
    said = TRANSCRIPTS[name := "the same call again and again"]
    tool = said["tool"]
    ran = await planned(
        wrote(name),
        nowhere(),
        plan(tool),
        wrote(name),
        deep(stay(tool, "Look again")),
        wrote(name),
        deep(stay("find_symbol", "Look elsewhere")),
        {"name_path_pattern": "DuklastTokenbox", "include_body": False},
        conclusion("Nothing.", success=False),
        pool=Serena((tool, said["arguments"], said["result"])),
        prompt=said["request"],
        tool=tool,
    )
    assert [each for each, _ in ran.pool.calls] == [tool, "find_symbol"]
    assert ran.guards == ["repeated", "repeated", "no_progress", "no_progress"]
    assert told(ran, "no_progress") == [
        f"the last 2 calls brought nothing new; going on without {tool}",
        "the last 3 calls brought nothing new; concluding",
    ]
    before, after = (asked for asked in ran.asked if '"critique"' in asked.last)
    assert tool in json.dumps(before.schema)
    assert tool not in json.dumps(after.schema)
    assert "Choose another tool" not in before.last
    assert after.last.endswith(
        f"Choose another tool than {tool}: the last calls brought nothing new."
    )


async def test_a_result_shown_again_is_no_progress_either() -> None:
    ran = await planned(
        {"number": "1"},
        nowhere(),
        *two_more_rows(),
        deep(conclusion("Nothing.", success=False)),
        pool=rows("one", "one", "one"),
        prompt="Which?",
        tool="row",
    )
    assert [outcome for _, outcome, _ in ran.results] == [Outcome.SUCCESS] * 3
    assert ran.guards == ["no_progress"]


async def test_with_an_answer_no_other_tool_has_to_be_chosen() -> None:
    ran = await planned(
        {"number": "1"},
        found("It is 77."),
        found("It is 77."),  # no result says 77
        *two_more_rows(),
        pool=rows("one", "one", "one"),
        prompt="Which?",
        tool="row",
    )
    assert told(ran, "no_progress") == ["the last 2 calls brought nothing new; concluding"]
    assert (ran.state.status, ran.state.answer) == ("partial", "It is 77.")


async def test_a_call_that_brings_something_starts_the_count_again() -> None:
    said = TRANSCRIPTS[name := "a failing call again and again"]
    failed = ToolResult(outcome=Outcome.FAILURE, text=said["result"])
    pool = DictionaryPool({}, specs=list(SERENA.values()))
    pool.results = {said["tool"]: [failed, failed, failed], "find_symbol": ['["new"]']}
    ran = await planned(
        wrote(name),
        nowhere(),
        plan(said["tool"]),
        wrote(name),
        deep(stay("find_symbol", "Look for it")),
        {"name_path_pattern": "upload", "include_body": False},
        nowhere(),
        stay(said["tool"], "Once more"),
        wrote(name),
        deep(conclusion("Nothing.", success=False)),
        pool=pool,
        prompt=said["request"],
        tool=said["tool"],
    )
    assert told(ran, "no_progress") == [
        f"the last 2 calls brought nothing new; going on without {said['tool']}"
    ]


def test_a_run_without_calls_has_made_no_fruitless_ones() -> None:
    assert repeats.fruitless(RunState()) == []
    assert repeats.left_out(RunState()) == []


LIST_MAILS = ToolSpec(
    name="list_mails",
    upstream="mail",
    input_schema={
        "type": "object",
        "properties": {
            "folder": {"enum": ["inbox", "sent"]},
            "sort_dir": {"type": "string", "description": "asc or desc"},
            "box_folder": {"type": "string", "default": "inbox"},
            "dir": {"type": "string", "description": "From the root, such as src/app"},
        },
    },
)


@pytest.mark.parametrize(
    ("argument", "value", "is_kept"),
    [
        ("folder", "sent", True),
        ("sort_dir", "desc", True),
        ("box_folder", "drafts", True),
        ("dir", "root", False),
        ("box_folder", "path/to/drafts", False),
        ("dir", "src/app", False),
        ("dir", "lib", False),
    ],
)
def test_a_choice_is_no_path_that_was_never_seen(argument: str, value: str, is_kept: bool) -> None:
    given = {argument: value}
    kept, _ = corrected_paths(given, LIST_MAILS, Seen([], ["What is in my archive?"]))
    assert kept == (given if is_kept else {})


def test_words_of_a_query_are_no_file_mask() -> None:
    """A search of logs whose description speaks of wildcards takes no files."""
    described = {"type": "string", "description": "Words; wildcards such as err* are supported."}
    logs = ToolSpec(
        name="search_logs",
        upstream="logs",
        input_schema={"type": "object", "properties": {"query": described}},
    )
    given = {"query": "level:error|warn"}
    assert corrected_patterns(given, logs) == (given, [])


async def test_what_broader_arguments_found_is_no_list_to_query() -> None:
    """Without the condition that was left out, a count would be one of something else."""
    messages = json.dumps([{"id": each, "text": "deploy failed"} for each in range(9)])
    search = spec("search_messages", "query", "channel?")
    ran = await planned(
        plan("search_messages"),
        {"query": "deploy failed", "channel": "random"},
        found("Nobody said so in random."),
        pool=DictionaryPool({}, specs=[search], results={"search_messages": ["[]", messages]}),
        prompt="How many messages in random say that a deploy failed?",
    )
    assert ran.guards[:1] == ["empty"]
    assert "query" not in [role for role, _ in ran.roles]


@given(st.lists(st.text("ab$( .-", min_size=1).filter(str.strip), min_size=1, max_size=4))
def test_a_text_of_the_request_keeps_its_line_breaks(lines: list[str]) -> None:
    text = "\n".join(lines).strip()
    written = " ".join(text.split())
    arguments = {"path": "a.md", "edits": [{"new": f"{written}\n"}]}
    found, changes = laid_out_as_said(arguments, f"Write to a.md:\n{text}\nand nothing else")
    assert ["".join(each["new"].split()) for each in found["edits"]] == ["".join(text.split())]
    if changes:
        assert found["edits"][0]["new"].count("\n") == text.count("\n") + 1


def test_a_text_that_has_its_line_breaks_or_is_not_said_stays() -> None:
    said = "Write these lines:\n# Use\n\n    run it"
    for text in ("# Use\n\n    run it", "# Use: run it", "# Use"):
        assert laid_out_as_said({"text": text}, said) == ({"text": text}, [])
    assert laid_out_as_said({"text": "# Use run it"}, said) == (
        {"text": "# Use\n\n    run it"},
        ["'# Use run it': its line breaks are the request's"],
    )
