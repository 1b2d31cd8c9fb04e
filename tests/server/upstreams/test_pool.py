"""The pool through real child processes and real HTTP, and the pure functions it reads with."""

import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from mcp_types import Tool, ToolAnnotations
from paths import DATA
from serving import LONG, SERVER, until
from upstream_server import build_server

from planner.tools import Outcome, Policy, Safety, ToolResult, ToolSpec
from server.config import UpstreamSettings
from server.config_file import load_settings, shipped_file
from server.text import clean
from server.upstreams import results
from server.upstreams.launch import Launcher, child_environment
from server.upstreams.pool import UpstreamPool

pytestmark = pytest.mark.anyio

SECRET = "s3cret-value-of-the-environment"

MakePool = Callable[..., UpstreamPool]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "jobs").mkdir(parents=True)
    (folder / "jobs" / "scheduler.py").write_text("LIMIT = 3\n\n\ndef run():\n    return LIMIT\n")
    (folder / "notes.txt").write_text("notes")
    return folder


@pytest.fixture
def make(tmp_path: Path, folder: Path) -> MakePool:
    """Build a pool from upstreams: options over the test server's, and its `mode`."""

    def make(environ: dict[str, str] | None = None, **upstreams: dict[str, Any]) -> UpstreamPool:
        entries = {}
        for name, options in upstreams.items():
            mode = options.pop("mode", "plain")
            local = {
                "command": "${PLANLOOM_PYTHON}",
                "args": [str(SERVER), "--folder", "${PLANLOOM_PROJECT}", "--mode", mode],
            }
            entries[name] = ({} if "url" in options else local) | options
        file = tmp_path / "upstreams.yaml"
        file.write_text(json.dumps({"upstreams": entries}))
        return UpstreamPool(
            load_settings(file, folder, environ or {}), launcher=Launcher(tmp_path / "cache")
        )

    return make


@pytest.fixture(autouse=True)
def no_process_left() -> Any:
    yield
    left = [child.cmdline() for child in running()]
    assert left == []


def running() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if is_alive(child)]


def is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


async def call(pool: UpstreamPool, tool_name: str, **arguments: Any) -> ToolResult:
    tool = pool.find(tool_name)
    assert tool, tool_name
    with anyio.fail_after(LONG):
        return await pool.call(tool, arguments)


def states(pool: UpstreamPool) -> dict[str, str]:
    return {status.name: status.state for status in pool.upstreams()}


# Calls


async def test_a_pool_lists_tools_and_calls_them(make: MakePool) -> None:
    async with make(up={"mode": "library", "listing": {"tool": "list_dir"}}) as pool:
        assert await pool.listing() is None
        assert await pool.ready(LONG)
        assert states(pool) == {"up": "ready"}
        assert await pool.listing() == "jobs/\nnotes.txt"

        result = await call(pool, "read_file", path="jobs/scheduler.py", start_line=4, end_line=4)
        assert (result.outcome, result.text) == (Outcome.SUCCESS, "def run():")
        assert result.seconds > 0
        result = await call(pool, "search", pattern="LIMIT$")
        assert result.text == "jobs/scheduler.py:5:     return LIMIT"

        result = await call(pool, "fail", text="no such thing")
        assert result.outcome == Outcome.FAILURE
        assert "no such thing" in result.text
        result = await call(pool, "read_file", wrong="x")
        assert result.outcome == Outcome.FAILURE

        result = await call(pool, "mixed")
        assert result.text == snapshot("""\
first
[image/png, 34 kB]
[a://1]
second
[a://2]
[binary data, 1 kB]
[third: a://3] The third one: what it is about\
""")
        result = await call(pool, "say", text="\x1b[31mred\x1b[0m\r\nline\x00\u202e")
        assert result.text == "red\nline"
        result = await call(pool, "flood", characters=2_000_010)
        assert result.text.endswith("x\n[cut here: 10 of 2000010 characters left out]")


async def test_the_text_of_a_file_keeps_the_ends_of_its_lines(make: MakePool) -> None:
    async with make(up={"tools": {"say": {"file_argument": "text"}}}) as pool:
        await pool.ready(LONG)
        result = await call(pool, "say", text="\x1b[31mred\x1b[0m\r\nline\x00\u202e\r\n\r")
        assert result.text == "red\r\nline\r\n\n"


async def test_what_does_not_exist_is_answered_with_the_nearest_names(make: MakePool) -> None:
    async with make(up={"deny": ["write_*"]}) as pool:
        await pool.ready(LONG)
        assert pool.find("raed_file") is None
        for name in ("raed_file", "write_file"):
            result = await pool.call(ToolSpec(name=name, upstream="up"), {})
            assert result.outcome == Outcome.ERROR
            assert f'The tool "{name}" does not exist. The nearest tools are: read_' in result.text
        result = await pool.call(ToolSpec(name="x", upstream="nowhere"), {})
        assert result.outcome == Outcome.ERROR


async def test_arguments_that_cannot_be_sent_do_not_break_the_connection(make: MakePool) -> None:
    async with make(up={}) as pool:
        await pool.ready(LONG)
        assert (await call(pool, "say", text="\ud800")).outcome == Outcome.ERROR
        assert (await call(pool, "say", text=object())).outcome == Outcome.ERROR
        assert (await call(pool, "say", text="fine")).text == "fine"


async def test_fixed_arguments_are_sent_and_neither_they_nor_hidden_ones_are_seen(
    make: MakePool,
) -> None:
    tools = {
        "read_file": {"arguments": {"path": "notes.txt"}, "hide": ["end_line"]},
        "search": {"hide": ["pattern"], "description": "Find.", "priority": 3},
    }
    async with make(up={"tools": tools}) as pool:
        await pool.ready(LONG)
        read_file, search = pool.find("read_file"), pool.find("search")
        assert read_file
        assert list(read_file.input_schema["properties"]) == ["start_line"]
        assert read_file.input_schema["required"] == []
        assert (await call(pool, "read_file", path="ignored")).text == "notes"
        assert search
        assert (search.description, search.priority) == ("Find.", 3)
        assert "pattern" in search.input_schema["properties"]  # required: hiding it would break it


async def test_texts_that_tell_of_errors_are_failures(make: MakePool) -> None:
    async with make(up={"error_texts": ["Error "]}) as pool:
        await pool.ready(LONG)
        assert (await call(pool, "say", text="Error searching")).outcome == Outcome.FAILURE
        assert (await call(pool, "say", text="No Error here")).outcome == Outcome.SUCCESS


# Names, order, safety


async def test_a_clash_is_won_by_priority_and_both_stay_reachable(make: MakePool) -> None:
    allow = {"allow": ["pid", "say"]}
    async with make(
        low={**allow}, high={**allow, "priority": 5, "tools": {"say": {"priority": -1}}}
    ) as pool:
        await pool.ready(LONG)
        assert [(tool.name, tool.upstream) for tool in pool.tools()] == [
            ("pid", "high"),
            ("low.pid", "low"),
            ("say", "low"),
            ("high.say", "high"),
        ]
        pids = {name: (await call(pool, name)).text for name in ("pid", "high.pid", "low.pid")}
        assert pids["pid"] == pids["high.pid"] != pids["low.pid"]
        found = pool.find("low.say")
        assert found
        assert (found.name, found.upstream) == ("say", "low")


async def test_safety_is_the_operators_word_then_the_upstreams_if_trusted(make: MakePool) -> None:
    named = {"tools": {"unannotated": {"safety": "read_only"}, "pid": {"safety": "open_world"}}}
    async with make(up=named, doubted={"trust_annotations": False, "priority": -1}) as pool:
        await pool.ready(LONG)
        safety = {(tool.upstream, tool.name.split(".")[-1]): tool.safety for tool in pool.tools()}
        assert safety["up", "read_file"] == Safety.READ_ONLY
        assert safety["up", "write_file"] == Safety.DESTRUCTIVE
        assert safety["up", "append_note"] == Safety.OPEN_WORLD
        assert safety["up", "unannotated"] == Safety.READ_ONLY
        assert safety["up", "pid"] == Safety.OPEN_WORLD
        doubted = {safety for (upstream, _), safety in safety.items() if upstream == "doubted"}
        assert doubted == {Safety.DESTRUCTIVE}


@pytest.mark.parametrize(
    ("annotations", "safety"),
    [
        (None, Safety.DESTRUCTIVE),
        (ToolAnnotations(), Safety.DESTRUCTIVE),
        (ToolAnnotations(read_only_hint=True), Safety.READ_ONLY),
        (ToolAnnotations(read_only_hint=True, open_world_hint=True), Safety.READ_ONLY),
        (ToolAnnotations(read_only_hint=False), Safety.DESTRUCTIVE),
        (ToolAnnotations(destructive_hint=False), Safety.DESTRUCTIVE),
        (ToolAnnotations(read_only_hint=False, destructive_hint=False), Safety.OPEN_WORLD),
        (
            ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False),
            Safety.WRITE,
        ),
    ],
)
def test_safety_of_annotations(annotations: ToolAnnotations | None, safety: Safety) -> None:
    assert results.safety_of(annotations, trusted=True) == safety
    assert results.safety_of(annotations, trusted=False) == Safety.DESTRUCTIVE


# Faults


async def test_one_upstream_that_fails_does_not_hold_up_the_others(make: MakePool) -> None:
    async with make(
        environ={"TOKEN": SECRET},
        good={},
        rubbish={"mode": "rubbish"},
        ends={"mode": "exits", "env": {"TOKEN": "${TOKEN}"}},
        hangs={"mode": "never_starts", "start_timeout_s": 0.5},
        missing={"command": "no-such-command-anywhere", "args": []},
        off={"enabled": False},
    ) as pool:
        assert await pool.ready(LONG)
        # What failed is started again now and then: on a busy machine before all others are up.
        await until(lambda: list(states(pool).values()).count("failed") == 3)
        found = {status.name: status for status in pool.upstreams()}
        assert (found["good"].state, found["good"].error) == ("ready", None)
        assert found["rubbish"].state == "ready"
        assert found["off"].state == "disabled"
        assert "set `enabled: true`" in str(found["off"].error)
        ends = found["ends"].error or ""
        assert ends.splitlines()[-1] == "cannot start with ***"
        assert str(found["hangs"].error).startswith("it did not answer within 0.5 s; raise ")
        missing = "no-such-command-anywhere: No such file or directory; install it, or correct"
        assert str(found["missing"].error).startswith(missing)
        assert (await call(pool, "rubbish.say", text="hi")).text == "hi"
        result = await pool.call(ToolSpec(name="say", upstream="missing"), {})
        assert result.outcome == Outcome.ERROR
        assert result.text.startswith("missing is not available (failed: ")


async def test_an_upstream_of_a_variable_that_is_not_set_fails_alone(make: MakePool) -> None:
    remote = {"url": "${NOT_SET:-}", "headers": {"A": "b"}}
    async with make(remote=remote, local={"command": "${NOT_SET:-}"}) as pool:
        assert await pool.ready(LONG)
        assert {(status.state, status.error) for status in pool.upstreams()} == {
            ("failed", "`command` or `url` is empty; set the variable that it comes from")
        }


async def test_an_upstream_that_crashes_comes_back(make: MakePool) -> None:
    async with make(environ={"TOKEN": SECRET}, up={"env": {"TOKEN": "${TOKEN}"}}) as pool:
        await pool.ready(LONG)
        tools = pool.tools()
        before = (await call(pool, "pid")).text
        result = await call(pool, "crash")
        assert result.outcome == Outcome.ERROR
        assert result.text.startswith("up was lost during crash: ")
        assert "the last words, with ***" in result.text
        assert pool.tools() == tools  # what a model was told exists stays
        after = await call(pool, "pid")
        assert after.outcome == Outcome.SUCCESS
        assert after.text != before


async def test_an_upstream_that_dies_between_calls_costs_no_call(make: MakePool) -> None:
    async with make(up={}) as pool:
        await pool.ready(LONG)
        pid = int((await call(pool, "pid")).text)
        psutil.Process(pid).kill()
        await until(lambda: pid not in [child.pid for child in running()])
        assert (await call(pool, "pid")).outcome == Outcome.SUCCESS


async def test_calls_in_flight_share_a_crash_and_one_restart(make: MakePool) -> None:
    async with make(up={}) as pool:
        await pool.ready(LONG)
        outcomes: list[Outcome] = []

        async def one(name: str, **arguments: Any) -> None:
            outcomes.append((await call(pool, name, **arguments)).outcome)

        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: one("sleep", seconds=LONG))
            await anyio.sleep(0.1)
            calls.start_soon(one, "crash")
        assert outcomes == [Outcome.ERROR, Outcome.ERROR]
        pids: set[str] = set()

        async def pid() -> None:
            pids.add((await call(pool, "pid")).text)

        async with anyio.create_task_group() as calls:
            for _ in range(4):
                calls.start_soon(pid)
        assert len(pids) == 1


async def test_a_slow_call_is_cut_off_and_the_upstream_stays(make: MakePool, folder: Path) -> None:
    async with make(up={"call_timeout_s": 0.3}) as pool:
        await pool.ready(LONG)
        pid = (await call(pool, "pid")).text
        result = await call(pool, "sleep", seconds=LONG, trace="trace")
        assert result.outcome == Outcome.TIMEOUT
        assert result.text == "sleep did not end within 0.3 s; ask it for less."
        await until(lambda: (folder / "trace").read_text() == "cancelled")
        assert (await call(pool, "pid")).text == pid


async def test_an_upstream_that_never_answers_is_started_again(make: MakePool) -> None:
    async with make(up={"call_timeout_s": 0.1}) as pool:
        await pool.ready(LONG)
        pid = (await call(pool, "pid")).text
        for _ in range(3):
            assert (await call(pool, "sleep", seconds=LONG)).outcome == Outcome.TIMEOUT
        assert (await call(pool, "pid")).text != pid


async def test_cancelling_a_call_cancels_it_upstream(make: MakePool, folder: Path) -> None:
    async with make(up={}) as pool:
        await pool.ready(LONG)
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: call(pool, "sleep", seconds=LONG, trace="trace"))
            await until((folder / "trace").exists)
            calls.cancel_scope.cancel()
        await until(lambda: (folder / "trace").read_text() == "cancelled")
        assert (await call(pool, "say", text="still here")).text == "still here"


async def test_a_changed_tool_list_is_fetched(make: MakePool) -> None:
    async with make(up={"mode": "library", "pin_tools": False}) as pool:
        await pool.ready(LONG)
        assert pool.find("grown") is None
        await call(pool, "grow")
        await until(lambda: pool.find("grown") is not None)
        assert (await call(pool, "grown")).text == "grown"


@pytest.mark.parametrize("mode", ["stubborn", "never_starts", "forks"])
async def test_nothing_outlives_the_pool(make: MakePool, mode: str) -> None:
    async with make(up={"mode": mode, "start_timeout_s": LONG}) as pool:
        await until(lambda: len(running()) >= (2 if mode == "forks" else 1))
        if mode != "never_starts":
            await pool.ready(LONG)
        started = running()
    await until(lambda: not any(map(is_alive, started)))  # a killed one takes a moment


async def test_closing_ends_calls_in_flight_and_refuses_later_ones(make: MakePool) -> None:
    async with make(up={}) as pool:
        await pool.ready(LONG)
        results: list[ToolResult] = []

        async def sleep() -> None:
            results.append(await call(pool, "sleep", seconds=LONG))

        async with anyio.create_task_group() as calls:
            calls.start_soon(sleep)
            await anyio.sleep(0.1)
            await pool.aclose()
        assert results[0].outcome == Outcome.ERROR
        assert (await call(pool, "pid")).text == (
            "up is not available (closed: the server is shutting down)"
        )
        assert states(pool) == {"up": "closed"}


async def test_an_exception_leaves_the_pool_as_itself(make: MakePool) -> None:
    with pytest.raises(ValueError, match="mine"):
        async with make(up={}):
            raise ValueError("mine")


# HTTP


@asynccontextmanager
async def serving(folder: Path, port: int = 0) -> AsyncIterator[str]:
    """The test server over HTTP in this process; its URL."""
    app = build_server(folder).http_app(path="/mcp")
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", lifespan="on"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve)
        await until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/mcp"
        server.should_exit = server.force_exit = True


async def test_an_http_upstream(make: MakePool, folder: Path) -> None:
    async with serving(folder) as url, make(up={"url": url, "call_timeout_s": 0.5}) as pool:
        await pool.ready(LONG)
        assert (await call(pool, "say", text="over HTTP")).text == "over HTTP"
        result = await call(pool, "sleep", seconds=LONG, trace="trace")
        assert result.outcome == Outcome.TIMEOUT
        await until(lambda: (folder / "trace").read_text() == "cancelled")
        assert (await call(pool, "fail", text="x")).outcome == Outcome.FAILURE


async def test_an_http_upstream_that_goes_away_and_comes_back(make: MakePool, folder: Path) -> None:
    async with serving(folder) as url:
        port = int(re.findall(r":(\d+)", url)[0])
    async with make(up={"url": url}) as pool:
        await pool.ready(LONG)
        assert states(pool) == {"up": "failed"}
        for text in ("first", "second"):
            async with serving(folder, port):
                await until(lambda: states(pool) == {"up": "ready"})
                assert (await call(pool, "say", text=text)).text == text
            assert (await call(pool, "say", text=text)).outcome == Outcome.ERROR


async def test_an_http_failure_does_not_show_the_token_in_its_url(make: MakePool) -> None:
    up = {"url": "http://127.0.0.1:9/${TOKEN}", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    async with make(environ={"TOKEN": SECRET}, up=up, odd={"url": "ftp://${TOKEN}"}) as pool:
        await pool.ready(LONG)
        assert states(pool) == {"up": "failed", "odd": "failed"}
        assert SECRET not in repr(pool.upstreams())


# Environment and secrets


async def test_an_upstream_gets_the_base_environment_and_its_own(
    make: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_API_KEY", "x" * 20)
    monkeypatch.setenv("UV_INDEX_URL", "https://example.invalid/simple")
    async with make(environ={"TOKEN": SECRET}, up={"env": {"TOKEN": "${TOKEN}"}}) as pool:
        await pool.ready(LONG)
        result = await call(pool, "environment")
        got = json.loads(result.text)
    assert "OTHER_API_KEY" not in got
    assert got["UV_INDEX_URL"] == "https://example.invalid/simple"
    assert got["TOKEN"] == "***"  # it did get the value, and a result does not show it
    assert got["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_the_base_environment() -> None:
    environ = {
        "HOME": "/home/me",
        "LC_ALL": "C",
        "https_proxy": "http://proxy",
        "npm_config_registry": "http://npm",
        "OPENAI_API_KEY": "no",
        "HOMEBREW_GITHUB_API_TOKEN": "no",
        "PYTHONPATH": "no",
        "PATH": "/bin",
    }
    got = child_environment(environ)
    assert got.pop("PATH") == f"{Path(sys.executable).parent}{os.pathsep}/bin"
    assert "no" not in got.values()
    assert len(got) == 4


# What upstreams say


def recorded(name: str) -> Any:
    return json.loads((DATA / "upstreams" / f"{name}.json").read_text())


def recorded_text(name: str) -> str:
    text = recorded(f"call-{name}")["content"][0]["text"]
    assert isinstance(text, str)
    return text


def test_the_shipped_file_fits_the_tools_serena_and_context7_have(tmp_path: Path) -> None:
    upstreams = load_settings(shipped_file(), tmp_path, {}).upstreams
    for name, settings in upstreams.items():
        tools = {tool["name"]: Tool.model_validate(tool) for tool in recorded(name)}
        specs = [results.tool_spec(tool, name, settings) for tool in tools.values()]
        there = {spec.name: spec for spec in specs if spec}
        assert settings.tools.keys() <= there.keys()
        assert settings.listing is None or settings.listing.tool in there
        for tool_name, tool in settings.tools.items():
            assert {*tool.arguments, *tool.hide} <= tools[tool_name].input_schema[
                "properties"
            ].keys()
            assert there[tool_name].safety == Safety.READ_ONLY
            assert 1 <= len(there[tool_name].input_schema["properties"]) <= 4
        read_only = {spec.name for spec in there.values() if spec.safety == Safety.READ_ONLY}
        assert read_only == settings.tools.keys()
        assert {spec.policy for spec in there.values()} == {Policy.READ_ONLY}  # else all are shown
    read_file = {tool["name"]: tool for tool in recorded("serena")}["read_file"]
    spec = results.tool_spec(Tool.model_validate(read_file), "serena", upstreams["serena"])
    assert spec
    start_line = spec.input_schema["properties"]["start_line"]
    assert start_line["default"] == 1
    assert "1-based" in start_line["description"]


def test_serenas_lines_count_from_one() -> None:
    found = json.loads(results.lines_from_one(recorded_text("serena-find_symbol")))
    assert found[0]["body_location"] == {"start_line": 3, "end_line": 5}
    assert found[0]["children"]["Method"][0]["body_location"] == {"start_line": 4, "end_line": 4}

    matches = json.loads(results.lines_from_one(recorded_text("serena-search_for_pattern")))
    line = "  >   3:class VeryUniqueClassName_Phoenix_QW3RTY:"
    assert matches == {"jobs/scheduler.py": [line]}

    references = results.lines_from_one(recorded_text("serena-find_referencing_symbols"))
    module = json.loads(references)["anyio/__init__.py"]["File"][0]
    assert module["body_location"] == {"start_line": 1, "end_line": 156}
    assert module["content_around_reference"].split("\n") == [
        "... 100:    from ._core._tasks import TaskHandle as TaskHandle",
        "  > 101:    from ._core._tasks import create_task_group as create_task_group",
        "... 102:    from ._core._tasks import current_effective_deadline as"
        " current_effective_deadline",
    ]
    for name in ("serena-list_dir", "serena-find_file", "serena-get_symbols_overview"):
        assert results.lines_from_one(recorded_text(name)) == recorded_text(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'The answer is too long. \nMatched lines per file:\n{"a": [{"line": 0}]}',
            'The answer is too long. \nMatched lines per file:\n{"a": [{"line": 1}]}',
        ),
        ('Match lines per file:\n{"a": [0, 7]}', 'Match lines per file:\n{"a": [1, 8]}'),
        ('Match counts per file:\n{"a": 2}', 'Match counts per file:\n{"a": 2}'),
        ('{"line": true, "end_line": null}', '{"line": true, "end_line": null}'),
        ('{"body": "x = 1\\n  > 9:y"}', '{"body": "x = 1\\n  > 9:y"}'),
        ("  >   2:class A:", "  >   2:class A:"),
        ("[deep" + "[" * 10_000, "[deep" + "[" * 10_000),
        ("", ""),
    ],
)
def test_only_what_is_a_line_number_is_changed(text: str, expected: str) -> None:
    assert results.lines_from_one(text) == expected


def serena_line(number: int, content: str, *, match: bool) -> str:
    """As Serena's `TextLine.format_line` writes it."""
    return f"{'  >' if match else '...'}{number:>4}:{content}"


CONTENTS = st.text().filter(lambda text: "\n" not in text)


@given(st.lists(st.tuples(st.integers(0, 99_999), CONTENTS, st.booleans()), min_size=1))
def test_numbered_lines_go_up_by_one_and_stay_as_they_are(
    lines: list[tuple[int, str, bool]],
) -> None:
    shown = "\n".join(serena_line(n, content, match=match) for n, content, match in lines)
    expected = "\n".join(serena_line(n + 1, content, match=match) for n, content, match in lines)
    text = results.lines_from_one(json.dumps({"file.py": [shown]}))
    assert json.loads(text) == {"file.py": [expected]}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | CONTENTS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=10,
)


@given(JSON.filter(lambda data: isinstance(data, list | dict)))
def test_data_without_lines_stays(data: Any) -> None:
    text = json.dumps(data)
    if not re.search(r'"(  >|\.\.\.) *\d+:', text):
        assert json.loads(results.lines_from_one(text)) == data


@given(st.dictionaries(st.sampled_from(["start_line", "end_line", "line", "x"]), st.integers()))
def test_line_arguments_go_down_by_one_from_one_on(arguments: dict[str, int]) -> None:
    lowered = results.lines_from_zero(arguments)
    assert lowered.keys() == arguments.keys()
    for name, value in arguments.items():
        assert lowered[name] == (value - 1 if name != "x" and value > 0 else value)


async def test_lines_from_zero_through_the_pool(make: MakePool) -> None:
    up = {"lines_from": 0, "tools": {"read_file": {"verbatim": True}}}
    async with make(up=up) as pool:
        await pool.ready(LONG)
        assert (await call(pool, "say", text='{"line": 3}')).text == '{"line": 4}'
        # This server counts from 1, so lowering shows: the third line is asked for, two arrive.
        path = "jobs/scheduler.py"
        result = await call(pool, "read_file", path=path, start_line=5, end_line=5)
        assert result.text == "def run():"


@given(st.text())
def test_clean_text_holds_nothing_unseen_and_stays_clean(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", once)
    once.encode()


seen = st.characters(
    categories=["L", "N", "P", "Zs"],
    include_characters="\n\t",
    exclude_characters="\u115f\u1160\u3164\uffa0",  # letters of Hangul that fill a place
)


@given(st.text(seen))
def test_ordinary_text_is_clean(text: str) -> None:
    assert clean(text) == text


def test_terminal_escapes_go_with_all_they_hold() -> None:
    hidden = "\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1b(B\x9b1m\x1bPq#\x1b\\end"
    assert clean(hidden) == "linkend"


def test_a_description_and_a_schema_are_cleaned(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"description": "x\x1b[31m", "enum": ["\x00y"]}},
    }
    tool = Tool(name="t", description="do\x1b[2J", input_schema=schema)
    settings = load_settings(shipped_file(), tmp_path, {}).upstreams["context7"]
    spec = results.tool_spec(tool, "context7", settings)
    assert spec
    assert spec.description == "do"
    assert spec.input_schema["properties"] == {"a": {"description": "x", "enum": ["y"]}}
    named = Tool(name="bad\nname", input_schema={"type": "object"})
    assert results.tool_spec(named, "context7", settings) is None


def test_what_is_wrong_in_a_schema_disables_nothing() -> None:
    settings = UpstreamSettings.model_validate({"command": "x", "lines_from": 0})
    properties = {"line": None, "end_line": {"description": None}, "a": {}}
    for required, kept in ((None, None), ("a", None), ([1, None, "a"], ["a"])):
        schema = {"type": "object", "properties": properties, "required": required}
        tool = Tool(name="t", input_schema=schema)
        spec = results.tool_spec(tool, "up", settings)
        assert spec
        assert spec.input_schema["properties"] == properties
        assert spec.input_schema.get("required") == kept


def test_a_listing_is_short() -> None:
    assert results.listing_text('{"dirs": ["src"], "files": null}') == "src/"
    assert results.listing_text('{"dirs": "src", "files": ["a"]}') == "a"
    assert results.listing_text(recorded_text("serena-list_dir")).split("\n") == [
        "jobs/",
        ".serena/",
        ".git/",
        "anyio/",
    ]
    assert results.listing_text('["a", "b c"]') == "a\nb c"
    many = json.dumps({"dirs": ["d"], "files": [f"f{n}" for n in range(100)]})
    shown = results.listing_text(many).split("\n")
    assert (len(shown), shown[0], shown[-1]) == (61, "d/", "… and 41 more")
    assert results.listing_text("a\n\nb\n") == "a\nb"


@pytest.mark.parametrize("name", ["context7-query-docs", "context7-resolve-library-id"])
def test_context7s_failures_begin_as_the_shipped_file_says(tmp_path: Path, name: str) -> None:
    patterns = load_settings(shipped_file(), tmp_path, {}).upstreams["context7"].error_texts
    assert any(re.match(pattern, recorded_text(name)) for pattern in patterns)


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.live
async def test_the_shipped_serena_finds_a_symbol_and_leaves_the_project_alone(
    tmp_path: Path, folder: Path
) -> None:
    settings = load_settings(shipped_file(), folder, os.environ)
    serena = settings.model_copy(update={"upstreams": {"serena": settings.upstreams["serena"]}})
    before = files_of(folder)
    async with UpstreamPool(serena) as pool:
        assert await pool.ready(300)
        assert states(pool) == {"serena": "ready"}, pool.upstreams()
        assert await pool.listing() == "jobs/\nnotes.txt"
        symbol = await call(pool, "find_symbol", name_path_pattern="run")
        assert json.loads(symbol.text)[0]["body_location"] == {"start_line": 4, "end_line": 5}
        match = await call(pool, "search_for_pattern", substring_pattern="def run.*")
        (block,) = json.loads(match.text)["jobs/scheduler.py"]
        assert "  >   4:def run():" in block.splitlines()
        path = "jobs/scheduler.py"
        line = await call(pool, "read_file", relative_path=path, start_line=4, end_line=4)
        assert line.text == "def run():"
    assert files_of(folder) == before


# What is not waited for


async def test_an_upstream_that_does_not_read_the_project_is_not_waited_for(
    make: MakePool,
) -> None:
    reads = {"tools": {"search": {"text_argument": "pattern"}}}
    slow = {"mode": "never_starts", "start_timeout_s": 600}
    async with make(up=reads, slow=slow) as pool:
        with anyio.fail_after(LONG):
            await pool.usable(600, 600, "Where is it?")
        assert states(pool) == {"up": "ready", "slow": "starting"}
        with anyio.move_on_after(2) as waiting:
            await pool.usable(600, 600, "Ask slow where it is.")
        assert waiting.cancelled_caught


async def test_a_slow_upstream_is_not_waited_for_when_another_is_up(make: MakePool) -> None:
    async with make(up={}, slow={"mode": "never_starts", "start_timeout_s": 600}) as pool:
        with anyio.fail_after(LONG):
            await pool.usable(0.01, 600)
        assert states(pool) == {"up": "ready", "slow": "starting"}
    async with make(slow={"mode": "never_starts", "start_timeout_s": 600}) as pool:
        await pool.usable(0.01, 0.1)
        assert states(pool) == {"slow": "starting"}
