"""What hostile trials of a whole server found, seen by its clients (docs/reliability.md)."""

import json
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from typing import Any

import anyio
import anyio.to_thread
import fastmcp
import httpx
import openai
import psutil
import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError
from generated import fitting
from mcp import MCPError
from ollama_replies import Answer, Hang, Reply
from paths import SUPPORT
from planted import ANSWER, QUESTION
from replies import found
from scripted_ollama import Request, ScriptedOllama
from serving import LONG, Caller, Place, bearer, connected, served, text, until, upstream

from server import auth
from server.app import build
from server.http import web_view
from server.journal import sqlite
from server.journal.sqlite import SqliteJournal
from server.runs.run import Run
from server.runs.run import report_of as report_of_run
from server.text import each_text

pytestmark = pytest.mark.anyio

MINE, THEIRS = "mine-0123456789abcdef", "theirs-0123456789abcdef"


def answering(request: Request) -> Reply:
    """What a model says that knows the answer, however it is asked."""
    said = fitting(request.schema or {}, random.Random(0), [ANSWER])
    return Answer(json.dumps(said | ({"found_in": "results"} if "found_in" in said else {})))


@pytest.fixture
def ollama() -> Iterator[ScriptedOllama]:
    with ScriptedOllama(handler=answering) as ollama:
        yield ollama


def report_of(result: Any) -> dict[str, Any]:
    assert result.whole, result
    return dict(result.whole)


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
    monkeypatch.setattr(sqlite, "AGAIN_SECONDS", 0.0)
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


async def test_a_session_that_nobody_uses_ends(place: Place) -> None:
    """(12) Each client that went without a DELETE cost 47 kB for ever."""
    assert fastmcp.settings.http_session_idle_timeout == "auto"  # the SDK's, 30 minutes
    begin = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "gone", "version": "1"},
    }
    place.forks = False  # FastMCP reads it once
    with place.http(FASTMCP_HTTP_SESSION_IDLE_TIMEOUT="0.5") as (_, port):
        headers = bearer(place.token, Accept="application/json, text/event-stream")
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=LONG
        ) as http:
            called = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
            session = {
                "Mcp-Session-Id": (await http.post("/mcp", json=called)).headers["mcp-session-id"]
            }
            asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            statuses = []
            for pause in (1, 4, 16):  # each request keeps it for as long as it may be idle
                await anyio.sleep(pause)
                again = await http.post("/mcp", json=asked, headers=session)
                statuses.append(again.status_code)
                if again.status_code == 404:
                    break
            assert statuses[-1] == 404


async def test_the_journal_gives_back_what_it_no_longer_needs(place: Place) -> None:
    """(13) One free page was given back at a time."""
    async with place.client() as caller:
        await caller.call("plan_and_answer", prompt=QUESTION)
    with closing(sqlite3.connect(place.journal)) as db, db:
        db.execute("CREATE TABLE filler AS SELECT randomblob(5000000)")
        db.execute("DROP TABLE filler")
    place.bounds = {"runs": {"most": 0}}
    async with place.client():
        pass
    assert place.journal.stat().st_size < 500_000


async def test_a_clock_set_forward_makes_no_run_old(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(21) All ended runs were deleted at once."""
    async with place.client() as one, place.client() as two:
        asked = {"prompt": QUESTION}
        first = report_of(await one.call("plan_and_answer", **asked))["run_id"]
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + 40 * 86_400)
        for _ in range(2):  # the journal is pruned after each, and so before the next one ends
            await one.call("plan_and_answer", **asked)
        assert report_of(await two.call("get_run", run_id=first))["answer"] == ANSWER


BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)


def with_file(place: Place, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What a command says of this file of the operator's."""
    file = place.root / "theirs.yaml"
    file.write_text(text)
    return place.run_alone(*words, "--upstreams", str(file))


async def test_a_few_lines_of_aliases_are_not_written_out(place: Place) -> None:
    """(14) They hung the start, and the reload of a running server."""
    started = with_file(place, BOMB, "tools")
    assert started.returncode == 2
    assert "its aliases (`*name`) expand to too many values" in started.stderr
    async with place.client("stdio-legacy") as caller:
        await caller.call("list_tools")
        (place.root / "upstreams.yaml").write_text(BOMB)
        said = ""
        with anyio.fail_after(LONG):
            while "its aliases (`*name`) expand to too many values" not in said:
                said = text(await caller.call("list_tools"))
                await anyio.sleep(0.1)
        assert report_of(await caller.call("plan_and_answer", prompt=QUESTION))["answer"] == ANSWER


@pytest.mark.parametrize("number", ["9" * 5000, "1e300"])
def test_a_number_that_is_too_long_is_told(place: Place, number: str) -> None:
    """(18) The start ended in a traceback."""
    started = with_file(place, f"runs: {{megabytes: {number}}}\n", "tools")
    assert started.returncode == 2
    assert started.stderr.startswith("planloom: ")
    assert "Traceback" not in started.stderr
    other = place.root / "mcp.json"
    other.write_text(f'{{"mcpServers": {{"a": {"9" * 5000}}}}}')
    taken = place.run_alone("init", "--dry-run", "--from", str(other))
    assert taken.returncode == 2
    assert taken.stderr.startswith(f"planloom: {other}: this cannot be read: ")


@pytest.mark.parametrize("iteration", ["5" * 5000, "7"])
async def test_a_result_that_is_not_there_is_told(place: Place, iteration: str) -> None:
    """(18)"""
    async with place.client() as caller:
        run_id = report_of(await caller.call("plan_and_answer", prompt=QUESTION))["run_id"]
        with pytest.raises((MCPError, ToolError), match="counted from 0"):
            await caller.client.read_resource(f"run://{run_id}/result/{iteration}")


@pytest.mark.parametrize("count", [-15, 10**309])
async def test_absurd_counts_of_a_model_server_count_for_nothing(place: Place, count: int) -> None:
    """(18) They were a fault in Planloom itself, or gave a run tokens back."""
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


UNSEEN = "\u202eever\u200b \U000e0041\x1b[2J"


def hides(shown: Any) -> set[str]:
    """What stands in it and nobody sees."""
    seen = ""

    def see(text: str) -> str:
        nonlocal seen
        seen += text
        return text

    each_text(shown, see, keys=True)
    assert "ever" in seen
    return {"\u202e", "\u200b", "\U000e0041", "\x1b"} & {*seen}


def hiding(request: Request) -> Reply:
    """What a model says that hides something in whatever it may write."""
    said = fitting(request.schema or {}, random.Random(0), [f"{ANSWER} {UNSEEN}"])
    return Answer(json.dumps(said))


@asynccontextmanager
async def over_http(
    place: Place, says: Callable[[Request], Reply]
) -> AsyncIterator[tuple[str, Caller, httpx.AsyncClient]]:
    """A server whose model says this: its address, a client of MCP, and one of its pages."""
    with (
        ScriptedOllama(handler=says) as place.ollama,
        served(build(place.settings, auth=auth.Tokens([MINE]))) as url,
    ):
        base = url.removesuffix("/mcp")
        async with (
            connected(url, auth=MINE) as caller,
            httpx.AsyncClient(base_url=base, headers=bearer(MINE), timeout=LONG) as http,
        ):
            yield base, caller, http


async def test_what_nobody_sees_is_in_no_structured_content(place: Place) -> None:
    """(17) The report as data, progress, and `runs show --json` kept it."""
    with ScriptedOllama(handler=hiding) as place.ollama:
        async with place.client() as caller:
            result = await caller.call("plan_and_answer", prompt=QUESTION)
            told = [*caller.progress.messages, *caller.progress.meta]
            run_id = report_of(result)["run_id"]
        shown = await anyio.to_thread.run_sync(place.run, "runs", "show", run_id, "--json")
    for seen in (result.structured_content, report_of(result), told, json.loads(shown.stdout)):
        assert not hides(seen)


async def test_what_nobody_sees_is_on_no_page(place: Place) -> None:
    """(17) Of the request, and of what a model wrote."""
    async with over_http(place, hiding) as (_, caller, http):
        asked = await caller.call("plan_and_answer", prompt=f"{QUESTION} {UNSEEN}")
        page = f"/view/runs/{report_of(asked)['run_id']}"
        seen = [(await http.get(path)).text for path in ("/view/runs", page, f"{page}/calls/1")]
    listed, shown, call = (json.loads(each.removeprefix("data: ")) for each in seen)
    assert [hides(each) for each in (listed, shown, shown["prompt"], call)] == [set()] * 4


async def test_what_nobody_sees_is_in_no_draft(place: Place) -> None:
    """(17) The text that a model is writing, in each view that shows it."""
    seen_so_far = threading.Event()

    def hiding(request: Request) -> Reply:
        seen_so_far.wait(LONG)  # so that nothing but the draft is new to the page
        whole = json.dumps(found(f"It hides {UNSEEN} in what is read: {ANSWER}"))
        begun = whole.partition('", "found_in')[0]
        return Hang(after=begun, then=whole.removeprefix(begun))

    async with (
        over_http(place, hiding) as (base, caller, http),
        openai.AsyncOpenAI(base_url=f"{base}/v1", api_key=MINE, max_retries=0) as client,
    ):
        begun = await caller.call("plan_and_answer", prompt=QUESTION, wait_s=0)
        run_id = report_of(begun)["run_id"]
        await place.ollama.arrived()
        drafts: list[Any] = []
        async with http.stream("GET", f"/view/runs/{run_id}") as page:
            async for line in page.aiter_lines():
                seen_so_far.set()
                if "ever" in line:
                    drafts.append(json.loads(line.removeprefix("data: ")))
                    break
        short = await caller.call("get_run", run_id=run_id, wait_s=0)
        whole = await caller.call("get_run", run_id=run_id, wait_s=0, whole=True)
        drafts += [short.structured_content, text(short), whole.structured_content]
        drafts.append([*caller.progress.messages, *caller.progress.meta])
        asked: Any = [{"role": "user", "content": QUESTION}]
        said = ""
        async for chunk in await client.chat.completions.create(
            model="planloom", messages=asked, stream=True
        ):
            said += (chunk.choices[0].delta.model_extra or {}).get("reasoning_content", "")
            if "ever" in said:
                break
        place.ollama.release()
    assert [hides(draft) for draft in [*drafts, said]] == [set()] * 6


async def test_a_page_is_drawn_once_for_all_who_look_at_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(11) Each open view cost more than its run."""
    drawn = 0

    def counting(run: Run) -> Any:
        nonlocal drawn
        drawn += 1
        return report_of_run(run)

    monkeypatch.setattr(web_view, "report_of", counting)
    with served(build(place.settings, auth=auth.Tokens([MINE]))) as url:
        async with Client(url, auth=MINE) as client:
            result = await client.call_tool("plan_and_answer", {"prompt": QUESTION})
            run_id = (result.structured_content or {})["run_id"]
            async with httpx.AsyncClient(timeout=LONG, headers=bearer(MINE)) as http:
                view = url.replace("/mcp", f"/view/runs/{run_id}")
                pages = [(await http.get(view)).text for _ in range(10)]
    assert ANSWER in json.loads(pages[0].removeprefix("data: "))["answer"]
    assert pages == [pages[0]] * 10
    assert drawn == 1


async def test_a_caller_writes_no_line_into_the_log(place: Place) -> None:
    """(19) An id with an escape and a line end did."""
    with place.http() as (process, port):
        async with Client(f"http://127.0.0.1:{port}/mcp", auth=place.token) as client:
            for uri in ("run://%1b%5b2J%0aFAKE", "run://%1b%5b2J%0aFAKE/transcript"):
                with pytest.raises(MCPError):
                    await client.read_resource(uri)
        process.terminate()
        _, said = await anyio.to_thread.run_sync(process.communicate)
    assert b"\x1b[2J" not in said
    assert not [line for line in said.splitlines() if line.startswith(b"FAKE")]


async def test_one_caller_leaves_places_to_others(place: Place) -> None:
    """(20) One with a token filled all places for a day."""
    place.bounds = {"runs": {"concurrent": 4, "queue": 4}}
    asked = {"prompt": QUESTION, "wait_s": 0}
    with (
        ScriptedOllama(handler=lambda request: Hang()) as place.ollama,
        served(build(place.settings, auth=auth.Tokens([MINE, THEIRS]))) as url,
    ):
        async with connected(url, auth=MINE) as greedy, connected(url, auth=THEIRS) as other:
            for _ in range(6):
                assert not (await greedy.call("plan_and_answer", **asked)).is_error
            assert "you have 6 runs under way" in await greedy.error("plan_and_answer", **asked)
            begun = report_of(await other.call("plan_and_answer", **asked))
            with anyio.fail_after(LONG):  # it has a turn, while three of the other's wait
                while not begun["upstreams"]:
                    again = await other.call("get_run", run_id=begun["run_id"], wait_s=0)
                    begun = report_of(again)


@pytest.mark.skipif(sys.platform == "win32", reason="no reaper")
@pytest.mark.parametrize("killed", ["the first", "one after the other", "both"])
async def test_nothing_outlives_a_server_whose_reaper_was_killed_first(
    killed: str, place: Place
) -> None:
    """(22) Two processes were left. The server is killed as soon as somebody could act for it."""
    faulty = [str(SUPPORT / "faulty_upstream.py"), "stubborn"]
    place.upstreams = {"up": {"command": "${PLANLOOM_PYTHON}", "args": faulty}}

    def reapers() -> list[psutil.Process]:
        """The reaper, and its standby."""
        found = []
        for each in place.processes():
            with suppress(psutil.Error):  # it ended meanwhile
                if "reaper.py" in " ".join(each.cmdline()):
                    found.append(each)
        return sorted(found, key=lambda each: each.create_time())

    async def renewed(before: psutil.Process) -> None:
        def are_new() -> bool:
            seen = reapers()  # once: it may end between two looks
            return len(seen) == 2 and before not in seen

        await until(are_new)

    with place.http() as (process, port):
        async with Client(f"http://127.0.0.1:{port}/mcp", auth=place.token) as client:
            await client.call_tool("list_tools")
            await until(lambda: len(reapers()) == 2)
            first, standby = reapers()
            first.kill()
            if killed == "one after the other":
                await renewed(first)
                standby.kill()
            if killed == "both":
                standby.kill()
                await renewed(standby)
            process.kill()
        await until(lambda: place.processes() == [])
