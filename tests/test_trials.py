"""What hostile trials of a whole server found, seen by its clients (docs/reliability.md)."""

import json
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp.exceptions import ToolError
from faults import ANSWER, QUESTION
from generated import fitting
from mcp import MCPError
from scripted_ollama import Answer, Reply, Request, ScriptedOllama
from serving import LONG, Caller, Place, upstream

from planner.errors import ConfigError
from server import sqlite_runs
from server.clients import servers
from server.config import RunSettings, load_settings
from server.sqlite_runs import SqliteJournal

pytestmark = pytest.mark.anyio


def answering(request: Request) -> Reply:
    """What a model says that knows the answer, however it is asked."""
    said = fitting(request.schema or {}, random.Random(0), [ANSWER])
    return Answer(json.dumps(said | ({"found_in": "results"} if "found_in" in said else {})))


@pytest.fixture
def ollama() -> Iterator[ScriptedOllama]:
    with ScriptedOllama(handler=answering) as ollama:
        yield ollama


def report_of(result: Any) -> dict[str, Any]:
    assert result.structured_content, result
    return dict(result.structured_content)


async def test_a_key_at_several_servers_at_once_is_one_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(6) A call was told of a run that never was."""
    begin = SqliteJournal.begin

    async def slowly(self: SqliteJournal, *given: Any, **more: Any) -> Any:
        await anyio.sleep(0.1)
        return await begin(self, *given, **more)

    monkeypatch.setattr(SqliteJournal, "begin", slowly)
    async with place.client() as one, place.client() as two:

        async def ask(caller: Caller, key: str, ids: Counter[str]) -> None:
            asked = {"prompt": QUESTION, "request_key": key}
            report = report_of(await caller.call("plan_and_answer", **asked))
            assert report["answer"] == ANSWER
            ids[report["run_id"]] += 1

        for number in range(4):
            ids: Counter[str] = Counter()
            async with anyio.create_task_group() as calls:
                for caller in (one, two, one, two, one, two):
                    calls.start_soon(ask, caller, f"k{number}", ids)
                    await anyio.sleep(0.02)  # while others are beginning
            assert list(ids.values()) == [6]


async def test_a_journal_that_could_not_be_opened_is_tried_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(7) It stayed off for good."""
    monkeypatch.setattr(sqlite_runs, "AGAIN_SECONDS", 0.0)
    directory = anyio.Path(place.environ["PLANLOOM_RUNS"])
    await directory.write_text("this is in its place")
    async with place.client() as caller:
        before = report_of(await caller.call("plan_and_answer", prompt=QUESTION))
        assert "not recorded" in before["warnings"][0]
        await directory.unlink()
        after = report_of(await caller.call("plan_and_answer", prompt=QUESTION))
        assert after["warnings"] == []
    async with place.client() as later:
        assert report_of(await later.call("get_run", run_id=after["run_id"]))["answer"] == ANSWER


async def test_a_run_is_over_in_its_time_whatever_starts(place: Place) -> None:
    """(10) 5 s asked, 90 s taken, while no upstream was up."""
    hangs = upstream()
    hangs["args"] = ["-c", "import time; time.sleep(3600)"]
    place.upstreams = {"hangs": hangs | {"start_timeout_s": 3600}}
    async with place.client() as caller:
        with anyio.fail_after(LONG):  # less than what it waits for upstreams
            result = await caller.call("plan_and_answer", prompt=QUESTION, max_seconds=0.5)
    assert report_of(result)["status"] != "running"


async def test_the_journal_gives_back_what_it_no_longer_needs(place: Place, tmp_path: Path) -> None:
    """(13) One free page was given back at a time."""
    file = tmp_path / "journal" / "runs.sqlite"
    async with SqliteJournal(RunSettings(directory=file.parent, most=0)):
        pass
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("CREATE TABLE filler AS SELECT randomblob(5000000)")
        row = ("r1", "", "{}", "{}", "", "answered", 0.0, 0.0)
        columns = "id, caller, request, made, owner, status, created, updated"
        db.execute(f"INSERT INTO run ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        db.execute("DROP TABLE filler")
    async with SqliteJournal(RunSettings(directory=file.parent, most=0)):
        pass
    assert file.stat().st_size < 500_000


async def test_a_clock_set_forward_makes_no_run_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(21) All ended runs were deleted at once."""
    async with SqliteJournal(RunSettings(directory=tmp_path)) as journal:
        with closing(sqlite3.connect(journal.file)) as db, db:
            row = ("r1", "", "{}", "{}", "", "answered", time.time(), time.time())
            columns = "id, caller, request, made, owner, status, created, updated"
            db.execute(f"INSERT INTO run ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + 40 * 86_400)
        await journal.prune()
        assert await journal.status("r1") == "answered"


BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)


def test_a_few_lines_of_aliases_are_not_written_out(tmp_path: Path) -> None:
    """(14) They hung the start, and the reload of a running server."""
    file = tmp_path / "upstreams.yaml"
    file.write_text(BOMB)
    with pytest.raises(ConfigError, match="its aliases stand for too much"):
        load_settings(file, tmp_path, {})


@pytest.mark.parametrize("number", ["9" * 5000, "1e300"])
def test_a_number_that_is_too_long_is_told(tmp_path: Path, number: str) -> None:
    """(18) The start ended in a traceback."""
    file = tmp_path / "upstreams.yaml"
    file.write_text(f"runs: {{megabytes: {number}}}\n")
    with pytest.raises(ConfigError):
        load_settings(file, tmp_path, {})
    other = tmp_path / "mcp.json"
    other.write_text(f'{{"mcpServers": {{"a": {"9" * 5000}}}}}')
    with pytest.raises(ConfigError):
        servers(other)


@pytest.mark.parametrize("iteration", ["5" * 5000, "7"])
async def test_a_result_that_is_not_there_is_told(place: Place, iteration: str) -> None:
    """(18)"""
    async with place.client() as caller:
        run_id = report_of(await caller.call("plan_and_answer", prompt=QUESTION))["run_id"]
        with pytest.raises((MCPError, ToolError), match="counted from 0"):
            await caller.client.read_resource(f"run://{run_id}/result/{iteration}")


@pytest.mark.parametrize("count", [-15, 10**309])
async def test_absurd_counts_of_a_model_server_count_for_nothing(place: Place, count: int) -> None:
    """(18) They were a fault in planloom itself, or gave a run tokens back."""
    names = ("eval_count", "eval_duration", "load_duration", "prompt_eval_cached_count")

    def absurd(request: Request) -> Reply:
        reply = answering(request)
        assert isinstance(reply, Answer)
        return replace(reply, fields=dict.fromkeys(names, count))

    with ScriptedOllama(handler=absurd) as place.ollama:
        async with place.client() as caller:
            report = report_of(await caller.call("plan_and_answer", prompt=QUESTION))
    assert report["answer"] == ANSWER
    assert report["usage"]["generated_tokens"] >= 0
    assert 0 <= report["usage"]["model_seconds"] < 1e6


async def test_a_model_that_does_not_stop_is_stopped(place: Place) -> None:
    """(14) Only the time limit of the run ended it."""
    endless = Answer("{" + " " * 3_000_000, unconstrained=True)
    with ScriptedOllama(handler=lambda request: endless) as place.ollama:
        async with place.client() as caller:
            report = report_of(await caller.call("plan_and_answer", prompt=QUESTION))
    assert "did not end the reply" in str(report["reason"])
