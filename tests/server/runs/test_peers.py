"""Several servers that share their runs, over a file and over a real Redis."""
# ruff: noqa: E501  texts stand as people see them

import json
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult
from inline_snapshot import snapshot
from mcp_types import InputRequiredResult, TextResourceContents
from notes import CALL, CALL_IN_WORDS, YES, Person, noted, notes, notes_server, raw, report
from ollama_replies import Hang
from recorded import begun
from redis import Redis
from replies import beside_record, conclusion, deed, plan, was_done
from scripted_ollama import FAST, ScriptedOllama
from serving import (
    LONG,
    Caller,
    Place,
    Progress,
    SharedUpstream,
    end,
    free_port,
    has_started,
    normalised,
    text,
    until,
    wait_until_it_listens,
)
from task_client import begin, taken_up, taking_tasks

from planner.errors import RequestError
from planner.events import GuardTripped, RunContinued, RunFinished
from planner.protocol import RunRequest
from server.config_file import load_settings
from server.journal import journal_for
from server.journal.base import Journal, KeyUsed
from server.journal.records import Entry, Letter
from server.journal.redis import SPACE, RedisJournal
from server.journal.sqlite import SqliteJournal

pytestmark = pytest.mark.anyio

PLACES = ("file", pytest.param("redis", marks=pytest.mark.outside))
COUNTED = "How many notes are there, and what is in them?"


@contextmanager
def serving_redis(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    durable = ["--appendonly", "yes", "--appendfsync", "always"]
    server = subprocess.Popen(
        ["redis-server", *options, *durable],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_until_it_listens(server, port)
        yield server
    finally:
        end(server)


@pytest.fixture(scope="module")
def redis_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """The URL of an empty database of a server of its own, and its process."""
    port = free_port()
    with serving_redis(tmp_path_factory.mktemp("redis"), port) as server:
        yield f"redis://127.0.0.1:{port}/0", server.pid


@pytest.fixture
def redis_server(redis_served: tuple[str, int]) -> str:
    return redis_served[0]


@pytest.fixture
def redis_process(redis_served: tuple[str, int]) -> int:
    return redis_served[1]


@pytest.fixture
def redis(redis_server: str) -> str:
    with Redis.from_url(redis_server) as database:
        database.flushall()
    return redis_server


@pytest.fixture
def journal(where: str, request: pytest.FixtureRequest) -> str:
    """The URL of the journal that servers share; empty for a file."""
    return str(request.getfixturevalue("redis")) if where == "redis" else ""


def slow_notes_server(folder: Path) -> FastMCP:
    mcp = notes_server(folder)

    @mcp.tool(annotations={"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False})
    async def add_slowly(text: str) -> str:
        """Add a note, and take long to say so."""
        with (folder / "notes.txt").open("a") as stream:
            stream.write(json.dumps([text, "slowly"]) + "\n")
        await anyio.sleep(LONG)
        return "added"

    return mcp


@pytest.fixture(scope="module")
def shared_notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedUpstream]:
    project = tmp_path_factory.mktemp("notes") / "project"
    with SharedUpstream.open(project, slow_notes_server) as shared:
        yield shared


@pytest.fixture
def place(notes_place: Place) -> Place:
    return notes_place


# In one process


@asynccontextmanager
async def members(place: Place, **bounds: Any) -> AsyncIterator[tuple[Caller, Caller]]:
    """A client of each of two servers of one fleet, of one turn each."""
    place.bounds = {"runs": {"fleet": "notes", "concurrent": 1} | bounds}
    async with place.client() as one, place.client() as two:
        with anyio.fail_after(LONG):
            yield one, two


COUNT = {"prompt": "Count", "tool": "count_notes", "arguments": {}, "wait_s": 0}


async def test_what_one_has_no_turn_for_another_takes_up(
    place: Place, ollama: ScriptedOllama
) -> None:
    for number in range(2):
        ollama.expect(Hang(then=json.dumps(conclusion(f"Number {number}."))))
    async with members(place, queue=1) as (one, two):
        ids = [report(await one.call("run_step", **COUNT))["run_id"] for _ in range(2)]
        await ollama.arrived(2)  # side by side
        waits = report(await one.call("run_step", **COUNT))
        busy = await one.error("run_step", **COUNT)
        cancelled = await two.call("cancel_run", run_id=waits["run_id"])
        with anyio.move_on_after(0.5):  # which cancels the run, and so makes room
            await one.client.call_tool("run_step", COUNT | {"wait_s": LONG})
        last = await one.call("run_step", **COUNT)
        while last.is_error:  # the server has not seen it yet
            await anyio.sleep(0.05)
            last = await one.call("run_step", **COUNT)
        await one.call("cancel_run", run_id=report(last)["run_id"])
        ollama.release()
        ends = [report(await two.call("get_run", run_id=each)) for each in ids]
    assert (waits["status"], waits["evidence"]) == ("running", [])
    assert busy == "Busy: 1 run is under way and 1 waits for its turn. Try again in 30 s."
    assert report(cancelled)["status"] == "cancelled"
    assert {each["answer"] for each in ends} == {"Number 0.", "Number 1."}
    assert len(ollama.requests) == 2


async def test_what_a_server_leaves_when_it_ends_goes_on_with_another(
    place: Place, ollama: ScriptedOllama
) -> None:
    place.bounds = {"runs": {"fleet": "notes"}}
    ollama.expect(Hang())
    async with place.client() as two:
        async with place.client() as one:
            run_id = report(await one.call("run_step", **COUNT))["run_id"]
            await ollama.arrived()
            followed = await two.call("get_run", run_id=run_id, wait_s=0)
            ollama.expect(conclusion("There are 0 notes."))
        result = await two.call("get_run", run_id=run_id)
    assert report(followed)["status"] == "running"
    assert report(result)["answer"] == "There are 0 notes."


async def test_a_later_step_that_a_server_leaves_goes_on_with_another(
    place: Place, ollama: ScriptedOllama
) -> None:
    place.bounds = {"runs": {"fleet": "notes"}}
    ollama.expect(conclusion("There are 0 notes."))
    async with place.client() as two:
        async with place.client() as one:
            run_id = report(await one.call("run_step", **COUNT | {"wait_s": LONG}))["run_id"]
            ollama.expect(Hang())
            await one.call("run_step", run_id=run_id, **COUNT | {"prompt": "Count again"})
            await ollama.arrived(2)
            ollama.expect(conclusion("There are still 0 notes."))
        result = await two.call("get_run", run_id=run_id)
    assert report(result)["answer"] == "There are still 0 notes."


async def test_a_look_at_the_journal_that_fails_once_does_not_end_a_followed_run(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, looks = SqliteJournal.status, 0

    async def fails_once(self: SqliteJournal, run_id: str) -> str | None:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise RequestError("The runs cannot be read: busy")
        return await status(self, run_id)

    ollama.expect(Hang(then=json.dumps(conclusion("There are 0 notes."))))
    async with place.client() as one, place.client() as two:
        run_id = report(await one.call("run_step", **COUNT))["run_id"]
        await ollama.arrived()
        monkeypatch.setattr(SqliteJournal, "status", fails_once)
        followed = await two.call("get_run", run_id=run_id, wait_s=0)
        await until(lambda: looks > 1)
        ollama.release()
        result = await two.call("get_run", run_id=run_id)
    assert report(followed)["status"] == "running"
    assert report(result)["answer"] == "There are 0 notes."


async def test_a_run_of_no_fleet_is_left_alone(place: Place, ollama: ScriptedOllama) -> None:
    """And so is one of a fleet of other models, which could not go on with it."""
    ollama.expect(Hang())
    async with place.client() as one:
        alone = report(await one.call("run_step", **COUNT))["run_id"]
        await ollama.arrived()
    place.bounds = {"runs": {"fleet": "notes"}, "models": {"full": FAST}}
    ollama.expect(Hang())
    async with place.client() as one:
        other = report(await one.call("run_step", **COUNT))["run_id"]
        await ollama.arrived(2)
    place.bounds = {"runs": {"fleet": "notes"}}
    ollama.expect(conclusion("There are 0 notes."))
    async with place.client() as two:
        another = COUNT | {"prompt": "How many are there?", "wait_s": LONG}
        await two.call("run_step", **another)  # it has looked by then
        states = [report(await two.call("get_run", run_id=alone, wait_s=0))["status"]]
        states.append(report(await two.call("get_run", run_id=other, wait_s=0))["status"])
    assert states == ["interrupted", "running"]
    assert len(ollama.requests) == 3


# The journal in Redis


@asynccontextmanager
async def journals(redis: str, count: int, **options: Any) -> AsyncIterator[list[Journal]]:
    """As of so many servers."""
    environ = {"PLANLOOM_RUNS": redis}
    runs = load_settings(None, Path("/"), environ).runs.model_copy(update=options)
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(journal_for(runs)) for _ in range(count)]
        assert [each.problem for each in opened] == [None] * count
        yield opened


def guard(message: str) -> Entry:
    return Entry.of(GuardTripped(guard="note", message=message), 1.0)


def ended() -> Entry:
    return Entry.of(RunFinished(status="answered", answer="42", reason=""), 2.0)


@pytest.mark.outside
async def test_a_run_in_redis_is_as_it_was_written(redis: str) -> None:
    async with journals(redis, 2) as (one, two):
        record = await begun(one, "r1", request_key="k")
        for number in range(300):
            record.append(guard(f"number {number} \ud800"))
        assert await record.flush()
        assert await two.status("r1") == "running"
        record.append(ended())
        assert await record.flush()
        found = await two.load("r1", "me")
        assert found
        assert [each.seconds for each in found.entries] == [1.0] * 300 + [2.0]
        assert found.events[7] == GuardTripped(
            guard="note", message="number 7 \ud800", at=found.events[7].at
        )
        assert (found.status, found.request.prompt) == ("answered", "prompt of r1")
        assert await two.load("r1", "another") is None
        assert await two.load("r2") is None
        assert len(await two.entries("r1", 299)) == 2
        assert await two.find_key("me", "k") == "r1"
        assert await two.find_key("another", "k") is None
        with pytest.raises(KeyUsed):
            await begun(two, "r3", request_key="k")
        assert await two.whole_id("r") == "r1"
        with pytest.raises(RequestError, match="no run that begins"):
            await two.whole_id("x")
        assert [each.prompt for each in await two.list(5)] == ["prompt of r1"]
        assert await one.secret() == await two.secret()


@pytest.mark.outside
async def test_a_run_in_redis_is_driven_by_one_server(redis: str) -> None:
    async with journals(redis, 3) as (one, two, three):
        record = await begun(one, "r1", fleet="f")
        record.append(guard("first"))
        await record.flush()
        assert await two.resume("r1") is None
        assert await two.take("f") is None
        with Redis.from_url(redis) as database:  # as when it has given no sign of life
            database.delete(f"{SPACE}server:{one.owner}")
        taken = await two.take("f")
        assert taken
        assert await three.take("f") is None
        record.append(guard("second"))
        assert not await record.flush()
        assert record.lost
        assert "Another server has taken over the run" in str(record.problem)
        new, recorded = taken
        assert len(recorded.entries) == 1
        new.append(ended())
        assert await new.flush()
        assert await three.status("r1") == "answered"


@pytest.mark.outside
async def test_a_fleets_runs_are_taken_up_oldest_first_and_its_letters_reach_the_driver(
    redis: str,
) -> None:
    async with journals(redis, 2) as (one, two):
        for number in range(3):
            await begun(one, f"r{number}", fleet="f", waits=True)
        assert (await one.waiting("f"), await one.waiting("g")) == (3, 0)
        assert await one.status("r0") == "running"
        taken = [await each.take("f") for each in (one, two, one, two)]
        assert [each and each[1].id for each in taken] == ["r0", "r1", "r2", None]
        for kind in ("attend", "cancel"):
            await one.post(Letter(run_id="r1", kind=kind))
        await one.post(Letter(run_id="nope", kind="cancel"))
        letters = await two.collect(["r0", "r1"])
        assert [letter.kind for letter in letters] == ["attend", "cancel"]
        assert await two.collect(["r0", "r1"]) == []
        assert taken[1]
        assert await taken[1][0].release()
        again = await one.take("f") if await taken[1][0].flush() else None
        assert again
        assert again[1].id == "r1"


@pytest.mark.parametrize("where", PLACES)
async def test_a_fleets_run_that_a_server_cannot_read_is_left_to_the_others(
    where: str, journal: str, tmp_path: Path
) -> None:
    """It had that run for ever, and no newer server of the fleet could take it up."""
    async with journals(journal or str(tmp_path), 2) as (one, two):
        record = await begun(one, "r1", fleet="f")
        record.append(Entry("event", {"type": "of_later"}))
        assert await record.release()
        await begun(one, "r2", fleet="f", waits=True)
        with pytest.raises(RequestError, match="another version of Planloom"):
            await two.take("f")
        taken = [await two.take("f") for _ in range(2)]
        assert [each and each[1].id for each in taken] == ["r2", None]
        assert await one.waiting("f") == 1


@pytest.mark.parametrize("where", PLACES)
async def test_a_letter_about_a_step_that_has_ended_does_not_reach_the_next(
    where: str, journal: str, tmp_path: Path
) -> None:
    """A cancel that came as the step ended cancelled the next one."""
    async with journals(journal or str(tmp_path), 2) as (one, two):
        record = await begun(one, "r1")
        record.append(ended())
        assert await record.flush()
        await two.post(Letter(run_id="r1", kind="cancel"))
        request = RunRequest(prompt="more", goal="step")
        more = Entry.of(RunContinued(request=request, spent=2.0, paused=1.0), 2.0)
        assert await one.reopen("r1", more)
        assert await one.collect(["r1"]) == []


@pytest.mark.parametrize("where", PLACES)
async def test_an_id_that_is_not_text_is_refused(where: str, journal: str, tmp_path: Path) -> None:
    async with journals(journal or str(tmp_path), 1) as (one,):
        with pytest.raises(RequestError, match="half of a surrogate pair"):
            await one.load("\ud800")


@pytest.mark.outside
async def test_runs_in_redis_are_kept_within_bounds(redis: str) -> None:
    async with journals(redis, 1, most=3) as (journal,):
        for number in range(6):
            record = await begun(journal, f"r{number}", request_key=f"k{number}")
            record.save_tools([])
            if number != 1:
                record.append(ended())
            await record.flush()
        await journal.prune()
        assert [each.id for each in await journal.list(9)] == ["r5", "r4", "r3", "r1"]
        assert await journal.find_key("me", "k0") is None
    with Redis.from_url(redis) as database:
        keys = {str(key, "ascii").removeprefix(SPACE) for key in database.scan_iter()}
    assert not any(key.endswith(("r0", "r2")) for key in keys)


async def test_without_redis_runs_go_on_unrecorded_and_say_so() -> None:
    nobody = f"redis://:password@127.0.0.1:{free_port()}/0"
    settings = load_settings(None, Path("/"), {"PLANLOOM_RUNS": nobody}).runs
    assert "password" not in repr(settings)
    async with RedisJournal(settings) as journal:
        record = await begun(journal, "r1")
        record.append(guard("first"))
        assert not await record.flush()
        with pytest.raises(RequestError, match="cannot be resumed"):
            await journal.take("f")
    assert "Connection refused" in str(record.problem) or "connect" in str(record.problem)
    assert "password" not in str(record.problem)


# Replicas


@asynccontextmanager
async def replicas(
    place: Place,
    journal: str = "",
    person: Person | None = None,
    count: int = 2,
    **bounds: Any,
) -> AsyncIterator[tuple[list[Caller], list[subprocess.Popen[bytes]]]]:
    """A client of each of so many server processes of one fleet. `journal`: where it is, if not in
    a file."""
    place.bounds = {"runs": {"fleet": "notes"} | bounds}
    environ = {"PLANLOOM_RUNS": journal} if journal else {}
    async with AsyncExitStack() as stack:
        ports = [free_port() for _ in range(count)]
        served = []
        for port in ports:
            served.append(place.popen("serve", "--http", f"127.0.0.1:{port}", **environ))
            stack.callback(end, served[-1])
        await until(lambda: all(map(has_started, served, ports)))
        callers = []
        for port in ports:
            seen = Progress()
            url = f"http://127.0.0.1:{port}/mcp"
            # Pinned: a busy machine's slow answer would be taken for an older server's.
            client = Client(
                url,
                auth=place.token,
                mode="2026-07-28",
                message_handler=seen,
                elicitation_handler=person,
            )
            callers.append(Caller(await stack.enter_async_context(client), seen))
        with anyio.fail_after(LONG):
            yield callers, served


NOTE_UNASKED = {"prompt": "Note hello", "policy": "allow", "wait_s": 0}


def plans_a_note(place: Place, ollama: ScriptedOllama, shared_notes: SharedUpstream) -> None:
    """Nobody is asked about a note, and a model plans one; what it notes it says next."""
    place.upstreams = {"notes": notes(shared_notes, policy="allow")}
    ollama.expect(deed("note"))
    ollama.expect(plan("add_note", objective="Note hello"))


@pytest.mark.parametrize("where", PLACES)
async def test_a_run_survives_the_kill_of_its_worker(
    where: str, place: Place, ollama: ScriptedOllama, shared_notes: SharedUpstream, journal: str
) -> None:
    """What it did is not done again, and what it may have done is not either, but told."""
    plans_a_note(place, ollama, shared_notes)
    ollama.expect({"text": "hello"})
    ollama.expect(Hang())
    async with replicas(place, journal) as ((one, two), (first, _)):
        run_id = report(await one.call("plan_and_answer", **NOTE_UNASKED))["run_id"]
        await ollama.arrived(3)
        call = {"prompt": "Note", "tool": "add_slowly", "arguments": {"text": "bye"}, "wait_s": 0}
        in_flight = report(await one.call("run_step", policy="allow", **call))["run_id"]
        await until(lambda: len(noted(place.project)) == 2)
        ollama.expect(was_done("It is noted."), contains=["hello", "added"])
        not_known = conclusion("It may be noted.", success=False)
        ollama.expect(not_known, contains=["bye", "its outcome is unknown"])
        first.send_signal(signal.SIGKILL)
        result = await two.call("get_run", run_id=run_id)
        told = await two.call("get_run", run_id=in_flight)
    assert report(result)["answer"] == beside_record("It is noted.", CALL_IN_WORDS)
    assert report(told)["answer"].startswith("It is not known whether anything was changed")
    assert noted(place.project) == [["hello", "nobody"], ["bye", "slowly"]]
    assert len(ollama.requests) == 5  # of the model's calls only the one under way is made again
    assert report(result)["warnings"] == []
    assert [normalised(each) for each in report(told)["warnings"]] == snapshot(
        [
            'It is not known whether notes.add_slowly {"text": "bye"} was carried out, and it was not made again: The server ended while this call was under way; its outcome is unknown.'
        ]
    )


@pytest.mark.parametrize("where", PLACES)
async def test_any_replica_answers_for_any_run(
    where: str, place: Place, ollama: ScriptedOllama, journal: str
) -> None:
    """Every request goes to the other replica than the one before."""
    person = Person(True)
    async with replicas(place, journal, person, concurrent=1) as ((one, two), _):
        # Followed, read and cancelled.
        ollama.expect(Hang())
        run_id = report(await one.call("plan_and_answer", prompt=COUNTED, wait_s=0))["run_id"]
        await ollama.arrived()
        followed = await two.call("get_run", run_id=run_id, wait_s=0)
        assert report(followed)["status"] == "running"
        resource, _ = await one.client.read_resource(f"run://{run_id}")
        same, _ = await two.client.read_resource(f"run://{run_id}")
        assert isinstance(resource, TextResourceContents)
        assert isinstance(same, TextResourceContents)
        assert resource.text.splitlines()[0] == same.text.splitlines()[0]
        cancelled = await two.call("cancel_run", run_id=run_id)
        await until(ollama.requests[0].hung_up.is_set)
        assert report(cancelled)["status"] == "cancelled"
        assert text(await one.call("get_run", run_id=run_id)) == text(cancelled)

        # Approved: the question from one, the answer to the other.
        ollama.expect(conclusion("It is noted."), contains=["added"])
        asked = await raw(one, "run_step", CALL)
        assert isinstance(asked, InputRequiredResult)
        answer = {"request_state": asked.request_state, "input_responses": YES}
        result = await raw(two, "run_step", CALL, **answer)
        assert report(result)["answer"] == beside_record("It is noted.", CALL_IN_WORDS)
        assert noted(place.project) == [["hello", "nobody"]]

        # As a task.
        ollama.expect(conclusion("It is noted again."), contains=["added"])
        urls = [each.client.transport.url for each in (one, two)]
        async with (
            taking_tasks(urls[0], person, auth=place.token) as begins,
            taking_tasks(urls[1], person, auth=place.token) as ends,
        ):
            task = await begin(begins, "run_step", CALL)
            done = await taken_up(ends, "run_step", task).result()
        assert report(done)["answer"] == beside_record("It is noted again.", CALL_IN_WORDS)
        assert noted(place.project) == [["hello", "nobody"]] * 2
        assert len(person.shown) == 1

        # More than one replica has a turn for: the other takes it up.
        for number in range(2):
            ollama.expect(Hang(then=json.dumps(conclusion(f"Number {number}."))))
        count = {"prompt": "Count", "tool": "count_notes", "arguments": {}, "wait_s": 0}
        ids = [report(await one.call("run_step", **count))["run_id"] for _ in range(2)]
        await ollama.arrived(5)
        ollama.release()
        ended = [await two.call("get_run", run_id=each) for each in ids]
        assert {report(each)["answer"] for each in ended} == {"Number 0.", "Number 1."}


def assert_goes_on_elsewhere(result: CallToolResult) -> None:
    """The caller of a server that has let go of a run is told where it is."""
    short = result.structured_content or {}
    assert (short["status"], short["doing"]) == ("running", "Another server goes on with it")
    assert f"Call get_run with run_id `{short['run_id']}` to follow it" in text(result)
    assert "warnings" not in short


async def test_who_waits_at_a_server_that_ends_is_told_that_another_goes_on(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(Hang())
    async with replicas(place) as ((one, two), (first, _)):
        waiting: list[CallToolResult] = []

        async def wait() -> None:
            with suppress(Exception):  # the last answer may be cut off on a busy machine
                waiting.append(await one.client.call_tool("run_step", COUNT | {"wait_s": LONG}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await ollama.arrived()
            listed = await two.client.read_resource("runs://newest")
            (run,) = json.loads(listed[0].text)["runs"]  # type: ignore[union-attr]
            # What it follows now is behind what it drives later.
            await two.call("get_run", run_id=run["id"], wait_s=0)
            ollama.expect(conclusion("There are 0 notes."))
            first.terminate()
        followed = await two.call("get_run", run_id=run["id"], wait_s=LONG)
    for each in waiting:
        assert_goes_on_elsewhere(each)
    assert report(followed)["answer"] == "There are 0 notes."


@pytest.mark.parametrize("where", PLACES)
async def test_a_server_that_was_paused_writes_nothing_twice(
    where: str, place: Place, ollama: ScriptedOllama, shared_notes: SharedUpstream, journal: str
) -> None:
    """Over Redis its lease ends meanwhile and another one goes on; over a file its lock holds."""
    plans_a_note(place, ollama, shared_notes)
    ollama.expect(Hang(then=json.dumps({"text": "hello"})))
    async with replicas(place, journal) as ((one, two), (first, _)):
        run_id = report(await one.call("plan_and_answer", **NOTE_UNASKED))["run_id"]
        await ollama.arrived(2)  # the brief is not counted
        waiting: list[CallToolResult] = []
        before = len(one.progress.messages)

        async def wait() -> None:
            waiting.append(await one.client.call_tool("get_run", {"run_id": run_id}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            # Not an event: the first call may have reported all of them.
            await until(lambda: len(one.progress.messages) > before)
            first.send_signal(signal.SIGSTOP)
            try:
                if where == "redis":
                    ollama.expect({"text": "hello"})
                ollama.expect(was_done("It is noted."), contains=["hello", "added"])
                seconds = LONG if where == "redis" else 1
                meanwhile = report(await two.call("get_run", run_id=run_id, wait_s=seconds))
            finally:
                first.send_signal(signal.SIGCONT)
            assert meanwhile["status"] == ("answered" if where == "redis" else "running")
            ollama.release()
        if where == "redis":
            assert_goes_on_elsewhere(waiting[0])
        told = [report(await each.call("get_run", run_id=run_id)) for each in (one, two)]
    assert [each["answer"] for each in told] == [beside_record("It is noted.", CALL_IN_WORDS)] * 2
    assert noted(place.project) == [["hello", "nobody"]]


@pytest.mark.outside
async def test_what_redis_did_not_take_is_sent_again(redis: str, redis_process: int) -> None:
    """A run that was answered while Redis stood still was running for ever elsewhere."""
    async with journals(redis, 2) as (one, two):
        record = await begun(one, "r1")
        record.append(guard("before"))
        assert await record.flush()
        psutil.Process(redis_process).suspend()
        try:
            record.append(guard("meanwhile"))
            record.append(ended())
            assert not await record.flush()
            assert "Timeout" in str(record.problem)
        finally:
            psutil.Process(redis_process).resume()
        await until(lambda: record.problem is None)
        found = await two.load("r1")
    assert found
    assert (found.status, len(found.entries)) == ("answered", 3)


@pytest.mark.outside
async def test_a_release_may_be_sent_again(redis: str) -> None:
    """One whose answer was lost is."""
    async with journals(redis, 2) as (one, two):
        record = await begun(one, "r1")
        assert [await record.release() for _ in range(2)] == [False, False]
        taken = await two.resume("r1")
        assert taken
        taken[0].append(ended())
        assert await taken[0].flush()
        assert await record.release()  # it has ended elsewhere


@pytest.mark.outside
async def test_a_run_that_began_while_redis_stood_still_is_on_record(
    redis: str, redis_process: int
) -> None:
    """Redis carried it out later: nobody drove what it had, and the fleet began it once more."""
    async with journals(redis, 2) as (one, two):
        psutil.Process(redis_process).suspend()
        try:
            record = await begun(one, "r1", fleet="f")
            assert "Timeout" in str(record.problem)
            record.append(ended())
        finally:
            psutil.Process(redis_process).resume()
        await until(lambda: record.problem is None)
        found = await two.load("r1")
    assert found
    assert (found.status, len(found.entries)) == ("answered", 1)


@pytest.mark.outside
async def test_a_run_that_was_answered_while_redis_was_killed_is_over_at_every_server(
    tmp_path: Path, place: Place, ollama: ScriptedOllama
) -> None:
    """(8) It was running for ever at the other, and was taken up again."""
    ollama.expect(Hang(then=json.dumps(conclusion("There are 0 notes."))))
    port = free_port()
    folder = tmp_path / "redis"
    folder.mkdir()
    with ExitStack() as first:
        killed = first.enter_context(serving_redis(folder, port))
        async with replicas(place, f"redis://127.0.0.1:{port}/0") as ((one, two), _):
            run_id = report(await one.call("run_step", **COUNT))["run_id"]
            await ollama.arrived()
            asked = {"run_id": run_id, "wait_s": 0}
            killed.kill()
            killed.wait()
            ollama.release()
            meanwhile = ""
            while "The run is not recorded" not in meanwhile:
                meanwhile = text(await one.client.call_tool("get_run", asked, raise_on_error=False))
            there = text(await two.client.call_tool("get_run", asked, raise_on_error=False))
            with serving_redis(folder, port):
                told = [report(await each.call("get_run", run_id=run_id)) for each in (one, two)]
                listed = [await each.client.read_resource("runs://newest") for each in (one, two)]
                cancelled = await two.call("cancel_run", run_id=run_id)
    assert "There are 0 notes." in meanwhile
    assert there.startswith("The runs cannot be read: redis://127.0.0.1")
    over = ("answered", "There are 0 notes.")
    assert [(each["status"], each["answer"]) for each in told] == [over] * 2
    assert all("running" not in str(each) for each in listed)
    assert report(cancelled)["status"] == "answered"
    assert len(ollama.requests) == 1


@pytest.mark.outside
async def test_a_redis_that_comes_later_is_used_then(tmp_path: Path) -> None:
    port = free_port()
    settings = load_settings(None, Path("/"), {"PLANLOOM_RUNS": f"redis://127.0.0.1:{port}/0"}).runs
    async with RedisJournal(settings) as journal:
        assert (await begun(journal, "r1")).problem
        with serving_redis(tmp_path, port):
            await until(lambda: journal.problem is None)
            assert (await begun(journal, "r2")).problem is None
