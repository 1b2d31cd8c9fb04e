"""The run journal: what is on disk, what a killed server leaves, and how a run goes on from
there."""
# ruff: noqa: E501  texts stand as clients see them

import json
import random
import re
import resource
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from fastmcp import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from in_memory import models, spec
from inline_snapshot import snapshot
from killing import Kills, ScriptedModels, answer, entry, question, script
from mcp_types import TextResourceContents
from notes import Person
from ollama_replies import Hang
from planted import ANSWER, CLASS, QUESTION
from recorded import MADE, begun
from replies import beside_record, conclusion, found, plan, second
from scripted_ollama import Request, ScriptedOllama
from serving import LONG, Caller, Place, connected, normalised, served, text, until

from planner import agent
from planner.errors import ModelUnavailable, RequestError
from planner.events import EVENT, Event, RunContinued, RunFinished, RunSteered
from planner.models.base import Message, Reply
from planner.models.encoder import Likeness
from planner.protocol import Limits, RunRequest, Steering
from planner.state import RunState
from planner.tools import (
    Outcome,
    Policy,
    Safety,
    ToolResult,
    ToolSpec,
    UpstreamState,
    UpstreamStatus,
)
from server.app import Parts, build
from server.approval.approval import Approvals, GuardedPool
from server.auth import Tokens
from server.config import RunSettings
from server.config_file import load_settings
from server.journal.base import MAX_LETTERS, RunWriter
from server.journal.records import Entry, Letter, StoredRun
from server.journal.sqlite import FORMAT, SqliteJournal
from server.runs.replay import (
    UNKNOWN,
    Diverged,
    Tape,
    TapedInbox,
    TapedPool,
    taped_approver,
    taped_models,
)

pytestmark = pytest.mark.anyio


def changed(place: Place, *statements: str) -> None:
    """Run statements on the journal."""
    with closing(sqlite3.connect(place.journal)) as db, db:
        for statement in statements:
            db.execute(statement)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """The journal, by another program."""
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield


# Record and replay, without a server


@dataclass
class Kept:
    """A record in memory."""

    journal: Any
    entries: list[Entry] = field(default_factory=list)
    problem: str | None = None
    lost: bool = False

    def append(self, entry: Entry, *, synced: bool = False) -> None:
        self.entries.append(entry)

    async def flush(self) -> bool:
        return self.problem is None


class Unredacted:
    @staticmethod
    def redact(value: Any) -> Any:
        return value


NOTE = spec("note", "text", safety=Safety.WRITE, policy=Policy.ALLOW)


@dataclass
class Counting:
    """A pool of a tool that reads and one that writes, some calls slower than others."""

    made: list[str] = field(default_factory=list)
    specs: list[ToolSpec] = field(default_factory=lambda: [spec("find", "text"), NOTE])

    def tools(self) -> Sequence[ToolSpec]:
        return self.specs

    def upstreams(self) -> Sequence[UpstreamStatus]:
        return [UpstreamStatus(name="files", state=UpstreamState.READY, tools=2)]

    async def listing(self) -> str | None:
        return "notes/"

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        words = f"{tool.name} {arguments['text']}"
        self.made.append(words)
        await anyio.sleep(0.0002 * (9 - int(words[-1])))  # of two side by side the later ends first
        return ToolResult(outcome=Outcome.SUCCESS, text=f"done {words}", seconds=len(words) / 8)


def replied(content: dict[str, Any]) -> Reply:
    return Reply(text=json.dumps(content), prompt_tokens=9, generated_tokens=9)


async def said(model: str, messages: Sequence[Message], schema: Any) -> Reply:
    reply = json.dumps(script(Request({"messages": list(messages), "format": schema})))
    return Reply(text=reply, prompt_tokens=len(str(messages)) // 4, generated_tokens=9)


async def ran(
    pool: Any,
    before: Sequence[Entry] = (),
    answers: Any = said,
    limits: Limits | None = None,
    problem: str | None = None,
    steering: Steering | None = None,
    request: RunRequest | None = None,
) -> list[Entry]:
    """The record of a run that goes on from `before`; the `steering` comes after its third call."""
    request = request or RunRequest(
        prompt=question("a"), limits=limits or Limits(), policy=Policy.ALLOW
    )
    kept = Kept(Unredacted(), list(before), problem)
    record: Any = kept
    recorded = StoredRun("x", "me", request, MADE, None, "interrupted", 0.0, list(before))
    tape = Tape(record, lambda event: record.append(Entry.of(event, tape.clock.seconds)), recorded)
    approvals = Approvals("run", request, RunState(), timeout_s=1)
    taped = TapedPool(GuardedPool(pool, approvals), tape, pool.tools(), recorded.began, approvals)
    approver = taped_approver(approvals, tape)
    said_by = taped_models(models(answers, 8192), tape)

    def waiting() -> Sequence[Steering]:
        events = [entry.event for entry in kept.entries if entry.kind == "event"]
        state = RunState.of(events)
        if steering and len(state.iterations) == 3 and not (state.waiting or state.steered):
            kept.append(Entry.of(RunSteered(steering=steering), tape.clock.seconds))
            return [steering]
        return state.waiting

    with anyio.fail_after(LONG):
        inbox = TapedInbox(tape, waiting)
        await agent.run(request, said_by, taped, tape.say, approver, tape.clock, inbox)
    return kept.entries


def untimed(entries: Sequence[Entry]) -> list[Any]:
    def data(entry: Entry) -> dict[str, Any]:
        return {key: value for key, value in entry.data.items() if key != "at"}

    return [(entry.kind, entry.key, data(entry)) for entry in entries]


async def test_a_run_goes_on_from_every_entry_of_its_record() -> None:
    whole = Counting()
    entries = await ran(whole)
    assert [word for word in whole.made if word.startswith("note")] == ["note a_3", "note a_5"]
    in_doubt = 0
    for cut in range(len(entries)):
        pool = Counting()
        again = await ran(pool, entries[:cut])
        kept = [entry for entry in entries[:cut] if entry.kind == "outcome"]
        done = [entry.data["text"] for entry in kept if "outcome" in entry.data]
        assert not {f"done {made}" for made in pool.made} & set(done)
        if entries[cut - 1].kind == "intent":
            in_doubt += 1
            asked = entries[cut - 1].data["asked"][2]["text"]
            assert f"note {asked}" not in pool.made
            told = [entry for entry in again if entry.data.get("text", "").startswith(UNKNOWN)]
            assert [entry.data.get("type") for entry in told] == [None, "tool_returned"]
        else:
            assert untimed(again)[:cut] == untimed(entries)[:cut]
            assert sorted(map(str, untimed(again))) == sorted(map(str, untimed(entries)))
        finished = again[-1].event
        assert isinstance(finished, RunFinished)
        in_doubt_now = entries[cut - 1].kind == "intent"
        assert finished.status == ("partial" if in_doubt_now else "answered")
        made, *undone, said = finished.answer.split("\n\n")
        assert made.startswith("What was done:\n- note ")
        assert said == f"The model says:\n{answer('a')}"
        assert [each.splitlines()[0] for each in undone] == [
            "Not done, as far as is known:"
        ] * in_doubt_now
    assert in_doubt == 2


async def test_what_was_said_to_a_run_is_taken_at_the_same_place_again() -> None:
    said = Steering(hint="Mind the tests.", skip=["Nothing"])
    entries = await ran(Counting(), steering=said)
    asked = [entry.data["question"] for entry in entries if "question" in entry.data]
    (told,) = [number for number, question in enumerate(asked) if said.hint in question]
    assert 0 < told < len(asked) - 1
    for cut in range(len(entries)):
        if entries[cut - 1].kind == "intent":
            continue  # the call after it is not made again, so the run is another
        again = await ran(Counting(), entries[:cut], steering=said)
        assert untimed(again)[:cut] == untimed(entries)[:cut]
        assert sorted(map(str, untimed(again))) == sorted(map(str, untimed(entries)))


async def test_a_run_of_single_steps_goes_on_from_every_entry_of_its_record() -> None:
    async def concludes(model: str, messages: Sequence[Message], schema: Any) -> Reply:
        return replied(conclusion("done find a_1."))

    def asked(goal: Any, **options: Any) -> RunRequest:
        return RunRequest(prompt=f"To {goal}", goal=goal, policy=Policy.ALLOW, **options)

    steps = [
        asked("step", tool="find", arguments={"text": "a_1"}),
        asked("step", tool="note", arguments={"text": "a_2"}),
        asked("conclude"),
    ]
    entries = await ran(Counting(), answers=concludes, request=steps[0])
    for step in steps[1:]:
        more = RunContinued(request=step, spent=entries[-1].seconds, paused=1.0)
        entries.append(Entry.of(more, entries[-1].seconds))
        entries = await ran(Counting(), entries, concludes, request=steps[0])
    state = RunState.of(entry.event for entry in entries if entry.kind == "event")
    said = beside_record("done find a_1.", 'note {"text": "a_2"}')
    assert (state.status, state.answer, state.paused) == ("answered", said, 2.0)
    assert [step.success for step in state.steps] == [True, True]
    begun = [n for n, entry in enumerate(entries) if entry.data.get("type") == "run_continued"]
    for cut in range(begun[-1] + 1, len(entries)):
        pool = Counting()
        again = await ran(pool, entries[:cut], concludes, request=steps[0])
        assert untimed(again) == untimed(entries)
        assert pool.made == []


async def test_a_list_of_requests_goes_on_from_every_entry_of_its_record() -> None:
    async def answers(model: str, messages: Sequence[Message], schema: Any) -> Reply:
        keys = schema.get("anyOf", [schema])[0]["properties"]
        number = 2 if "second" in messages[-1]["content"] else 1
        made = f"done find a_{number}."
        brief = {"search": ["a"], "wants": "short answer"}
        by_key = {"search": brief, "steps": plan("find"), "text": {"text": f"a_{number}"}}
        by_key |= {"answer_again": second(made), "found_in": found(made)}
        return replied(next(reply for key, reply in by_key.items() if key in keys))

    request = RunRequest(prompt="1. What is first? 2. What is second?")
    whole = Counting()
    entries = await ran(whole, answers=answers, request=request)
    assert whole.made == ["find a_1", "find a_2"]
    end = entries[-1].event
    assert isinstance(end, RunFinished)
    assert end.answer == "1. done find a_1.\n2. done find a_2."
    for cut in range(len(entries)):
        again = await ran(Counting(), entries[:cut], answers, request=request)
        assert untimed(again) == untimed(entries)


async def test_a_time_limit_that_was_reached_is_reached_again_at_the_same_place() -> None:
    async def hangs(model: str, messages: Sequence[Message], schema: Any) -> Reply:
        if "conclude" in str(schema) and "stay" not in str(schema):
            return replied(conclusion("done find a_0."))
        if "missing" in str(schema):
            await anyio.sleep_forever()
        return await said(model, messages, schema)

    limits = Limits(seconds=0.5)
    entries = await ran(Counting(), answers=hangs, limits=limits)
    cut = next(n for n, entry in enumerate(entries) if entry.kind == "cut")
    assert entries[-1].data["reason"] == "the time limit of 0.5 s was reached"
    for end in range(cut, len(entries)):
        again = await ran(Counting(), entries[:end], hangs, limits)
        assert untimed(again) == untimed(entries)


async def test_an_error_of_a_model_comes_again() -> None:
    async def fails(model: str, messages: Sequence[Message], schema: Any) -> Reply:
        if "answer_again" in str(schema):
            raise ModelUnavailable("it is gone")
        if "wants" in str(schema):
            return replied({"search": ["notes"], "wants": "short answer"})
        if "found_in" in str(schema):
            return replied(found("done find a_0."))
        return await said(model, messages, schema)

    request = RunRequest(prompt=question("a"))
    entries = await ran(Counting(), answers=fails, request=request)
    finished = entries[-1].data
    assert (finished["status"], finished["answer"]) == ("partial", "done find a_0.")
    assert "not read a second time; it is gone" in finished["reason"]
    again = await ran(Counting(), entries[:-2], request=request)  # the model would answer now
    assert untimed(again) == untimed(entries)


async def test_another_record_is_not_guessed_at() -> None:
    entries = await ran(Counting())
    place = next(n for n, e in enumerate(entries) if e.data.get("type") == "plan_made")
    other = replace(entries[place], data=entries[place].data | {"main_objective": "Another"})
    with pytest.raises(Diverged, match="plan_made has another main_objective now"):
        await ran(Counting(), [*entries[:place], other])
    missing = [entry for entry in entries if entry.key != entries[place - 2].key]
    with pytest.raises(Diverged, match="does not come again"):
        await ran(Counting(), missing)


async def test_nothing_is_written_that_cannot_be_recorded() -> None:
    pool = Counting()
    entries = await ran(pool, problem="the disk is full")
    assert not [made for made in pool.made if made.startswith("note")]
    refused = [e.data["text"] for e in entries if e.data.get("tool") == "note" and "text" in e.data]
    assert len(refused) == 2
    assert all(text.startswith("The call was not made") for text in refused)


async def test_what_was_compared_is_in_the_record() -> None:
    """A run that is resumed ranks its passages as before, wherever it goes on."""

    class Once:
        asked = 0

        async def likeness(self, question: str, texts: Sequence[str]) -> Likeness:
            self.asked += 1
            return Likeness(scores=[0.5] * len(texts))

    once, record = Once(), Kept(Unredacted(), [])
    for _ in range(2):
        kept: Any = Kept(Unredacted(), list(record.entries))
        request = RunRequest(prompt="?")
        stored = StoredRun("x", "me", request, MADE, None, "interrupted", 0.0, record.entries)
        tape = Tape(kept, lambda event: None, stored)
        taped = taped_models(replace(models(said, 8192), encoder=once), tape)
        assert taped.encoder
        likeness = await taped.encoder.likeness("How long?", ["a", "b"])
        assert (likeness.scores, once.asked) == ([0.5, 0.5], 1)
        record = kept


@pytest.mark.parametrize(
    "change", [{"safety": Safety.DESTRUCTIVE}, {"fixed_arguments": {"author": "bob"}}]
)
async def test_a_tool_that_was_changed_is_not_called_by_a_run_that_began_before(
    change: dict[str, Any],
) -> None:
    entries = await ran(Counting())
    half = next(n for n, e in enumerate(entries) if e.data.get("text") == "done find a_1")
    pool = Counting()
    request = RunRequest(prompt=question("a"))
    record: Any = Kept(Unredacted(), list(entries[:half]))
    recorded = StoredRun("x", "me", request, MADE, None, "interrupted", 0.0, entries[:half])
    began = [*pool.specs]
    pool.specs = [pool.specs[0].model_copy(update=change), pool.specs[1]]
    tape = Tape(record, lambda event: record.append(Entry.of(event, 0.0)), recorded)
    approvals = Approvals("run", request, RunState(), timeout_s=1)
    taped = TapedPool(pool, tape, began, recorded.began, approvals)
    result = None
    with pytest.raises(Diverged):  # it is not the agent that asks
        result = await taped.call(began[0], {"text": "new"})
    assert result is None
    tape = Tape(record, lambda event: None)
    taped = TapedPool(pool, tape, began, recorded.began, approvals)
    result = await taped.call(began[0], {"text": "new_1"})
    assert result.text == "find was changed since this run began, and is not called any more."
    assert pool.made == []


async def test_an_approval_is_used_up_by_the_replay_of_its_call() -> None:
    pool, record, arguments = Counting(), Kept(Unredacted()), {"text": "a_1"}
    request = RunRequest(prompt="p", policy=Policy.ALLOW)
    for _ in range(2):
        stored = StoredRun("x", "me", request, MADE, None, "interrupted", 0.0, [*record.entries])
        kept: Any = record
        tape = Tape(kept, lambda event: None, stored)
        approvals = Approvals("run", request, RunState(), timeout_s=1)
        gate = GuardedPool(pool, approvals)
        await taped_approver(approvals, tape)(NOTE, arguments)
        taped = TapedPool(gate, tape, pool.tools(), None, approvals)
        assert (await taped.call(NOTE, arguments)).text == "done note a_1"
        refused = await gate.call(NOTE, arguments)
        assert refused.text == "The call of note was not approved and not made."
    assert pool.made == ["note a_1"]


# The file


@asynccontextmanager
async def journal(folder: Path, **options: Any) -> AsyncIterator[SqliteJournal]:
    async with SqliteJournal(RunSettings(directory=folder, **options)) as opened:
        yield opened


async def test_what_another_version_left_is_passed_over(tmp_path: Path) -> None:
    async with journal(tmp_path) as opened:
        await begun(opened, "a")
        await begun(opened, "b")
        for run, hint in (("a", "1"), ("b", "2"), ("b", "3")):
            steering = Steering(hint=hint)
            await opened.post(Letter(run_id=run, kind="steer", steering=steering))
        with closing(sqlite3.connect(opened.file)) as db, db:
            db.execute("UPDATE letter SET letter = '{}[]' WHERE letter LIKE '%\"2\"%'")
        found = await opened.collect(["a", "b"])
        assert await opened.collect(["a", "b"]) == []
    assert [each.steering and each.steering.hint for each in found] == ["1", "3"]


async def test_few_letters_wait_for_a_run(tmp_path: Path) -> None:
    letter = Letter(run_id="a", kind="attend")
    async with journal(tmp_path) as opened:
        await begun(opened, "a")
        for _ in range(MAX_LETTERS):
            await opened.post(letter)
        with pytest.raises(RequestError, match="10 messages to run a are waiting to be read"):
            await opened.post(letter)
        assert len(await opened.collect(["a"])) == MAX_LETTERS
        await opened.post(letter)


def ended(answer: str = "") -> Entry:
    finished = {"type": "run_finished", "status": "answered", "answer": answer}
    return Entry.of(EVENT.validate_python(finished), 1.0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
TEXTS = st.text(st.characters(exclude_categories=()), max_size=30) | st.sampled_from(["long" * 999])
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "data": JSON,
    "text": TEXTS,
    "arguments": st.dictionaries(TEXTS, JSON, max_size=3),
    "request": st.builds(RunRequest, prompt=TEXTS, data_schema=st.none(), arguments=st.none()),
}


def any_event(kind: type[Event]) -> st.SearchStrategy[Event]:
    fields = {name: FIELDS[name] for name in kind.model_fields if name in FIELDS}
    return st.builds(kind, **fields)


KINDS = get_args(get_args(Event)[0])


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(events=st.lists(st.sampled_from(KINDS).flatmap(any_event), max_size=40))
def test_what_is_recorded_is_what_comes_back(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event]
) -> None:
    async def through_the_file() -> list[Event]:
        async with journal(tmp_path_factory.mktemp("runs")) as opened:
            record = await begun(opened, "x")
            for event in events:
                record.append(Entry.of(event, 0.0))
            assert await record.flush(), record.problem
            loaded = await opened.load("x")
            assert loaded
            return loaded.events

    # As text: a number that is none is not equal to itself.
    assert [*map(repr, anyio.run(through_the_file))] == [*map(repr, events)]


async def test_an_event_of_a_later_version_is_read_or_refused(tmp_path: Path) -> None:
    async with journal(tmp_path) as opened:
        record = await begun(opened, "x")
        record.append(replace(ended(), data=ended().data | {"new": 1}))
        other = await begun(opened, "y")
        other.append(Entry("event", {"type": "of_later"}))
        await other.flush()
        loaded = await opened.load("x")
        assert loaded
        assert loaded.status == "answered"
        with pytest.raises(RequestError, match="another version of Planloom"):
            await opened.load("y")


async def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    async with journal(tmp_path / "runs") as opened:
        record = await begun(opened, "x")
        await record.flush()
        modes = {file.name: file.stat().st_mode & 0o777 for file in opened.file.parent.iterdir()}
        assert opened.file.parent.stat().st_mode & 0o777 == 0o700
        assert await opened.load("x", "me")
        assert await opened.load("x", "another") is None
    data = {name: mode for name, mode in modes.items() if name.startswith("runs.sqlite")}
    assert data == dict.fromkeys(["runs.sqlite", "runs.sqlite-wal", "runs.sqlite-shm"], 0o600)


@pytest.mark.parametrize(
    ("keep", "left"),
    [({"most": 2}, ["r3", "r4"]), ({"megabytes": 0.025}, ["r3", "r4"]), ({"days": 0}, [])],
)
async def test_ended_runs_are_kept_within_bounds(
    tmp_path: Path, keep: dict[str, Any], left: list[str]
) -> None:
    async with journal(tmp_path, **keep) as opened:
        under_way = await begun(opened, "r0")
        for number in range(1, 5):
            record = await begun(opened, f"r{number}")
            record.append(Entry("outcome", {"text": str(number) * 10_000}))
            record.append(ended())
            await record.flush()
        await opened.prune()
        kept = [run.id for run in await opened.list(99)]
        assert sorted(kept) == ["r0", *left]
        under_way.append(ended())
        assert await under_way.flush()
        with closing(sqlite3.connect(opened.file)) as db:
            runs = {run for (run,) in db.execute("SELECT DISTINCT run FROM text")}
        assert runs == set(left)


async def test_a_run_belongs_to_one_server_at_a_time(tmp_path: Path) -> None:
    async with journal(tmp_path) as first, journal(tmp_path) as second:
        record = await begun(first, "x")
        record.append(Entry("outcome", {"text": "a"}))
        await record.flush()
        assert await second.status("x") == "running"
        assert await second.resume("x") is None
        await record.release()
        await record.flush()
        assert await second.status("x") == "interrupted"
        taken = await second.resume("x")
        assert taken
        assert [entry.data for entry in taken[1].entries] == [{"text": "a"}]
        assert await first.resume("x") is None
        taken[0].append(ended())
        await taken[0].flush()
        assert await first.status("x") == "answered"
        assert await first.resume("x") is None


async def test_a_run_that_was_just_released_can_be_taken_over(tmp_path: Path) -> None:
    async with journal(tmp_path) as opened:
        writer = await begun(opened, "released")
        assert await opened.resume("released") is None
        assert not await writer.release()
        assert await opened.resume("released")


async def test_several_may_look_at_once_whether_a_server_lives(tmp_path: Path) -> None:
    """Each look held the lock for a moment, by which another took the dead server for alive."""
    async with journal(tmp_path) as opened:
        opened.file.with_name("gone.lock").touch()

        def look() -> list[bool]:
            return [opened._lives("gone") for _ in range(500)]

        with ThreadPoolExecutor(4) as threads:
            seen = [threads.submit(look) for _ in range(4)]
    assert not any(any(each.result()) for each in seen)


async def test_a_server_without_free_files_takes_no_other_for_dead(tmp_path: Path) -> None:
    """It took their runs for its own, so that they were driven twice."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with journal(tmp_path) as one, journal(tmp_path) as two:
        await begun(one, "x")
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, files[1]))
        try:
            await two.prune()
            taken = await two._claim("x")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, files)
        assert taken is None
        assert await two.status("x") == "running"


async def test_many_servers_may_open_and_write_one_journal_at_once(tmp_path: Path) -> None:
    async def serve(name: str) -> None:
        async with journal(tmp_path) as opened:
            assert opened.problem is None
            record = await begun(opened, name)
            for number in range(20):
                record.append(Entry("outcome", {"text": f"{name} {number}"}))
            record.append(ended())
            assert await record.flush(), record.problem

    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(serve, f"r{number}")
    async with journal(tmp_path) as opened:
        for number in range(6):
            loaded = await opened.load(f"r{number}")
            assert loaded
            texts = [entry.data["text"] for entry in loaded.entries[:-1]]
            assert texts == [f"r{number} {each}" for each in range(20)]
        locks = [file.stem for file in opened.file.parent.iterdir() if file.suffix == ".lock"]
    assert len(locks) == 1  # its own


async def test_an_entry_that_cannot_be_written_ends_the_record_of_its_own_run_only(
    tmp_path: Path,
) -> None:
    async with journal(tmp_path) as opened:
        bad, good = await begun(opened, "bad"), await begun(opened, "good")
        for record in (bad, good, bad, good):
            record.append(Entry("outcome", {"text": {1} if record is bad else "a"}))
        assert await good.flush(), good.problem
        assert "not JSON serializable" in str(bad.problem)
        loaded = await opened.load("good")
        assert loaded
        assert len(loaded.entries) == 2


async def test_a_torn_last_record_is_not_there(tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    torn.mkdir()
    async with journal(tmp_path) as opened:
        record = await begun(opened, "x")
        for number in range(20):
            record.append(Entry("outcome", {"text": f"{number}"}))
            assert await record.flush()
        (torn / "runs.sqlite").write_bytes(opened.file.read_bytes())
        wal = opened.file.with_name("runs.sqlite-wal").read_bytes()
    assert len(wal) > 4096
    (torn / "runs.sqlite-wal").write_bytes(wal[:-100])
    async with journal(torn) as opened:
        assert opened.problem is None
        loaded = await opened.load("x")
    assert loaded
    assert loaded.status == "interrupted"
    texts = [entry.data["text"] for entry in loaded.entries]
    assert texts == [f"{number}" for number in range(len(texts))]
    assert 0 < len(texts) < 20


# Servers


async def test_killed_servers_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    with ScriptedModels() as ollama:
        place = Place(tmp_path, ollama, {"counting": entry(log)})
        kills = Kills(place, log, random.Random(7))
        while kills.kills < 2:
            await kills.kill_one()
        await kills.finish()
    assert kills.begun >= 3
    assert kills.problems == []


async def interrupted(place: Place, ollama: ScriptedOllama, **arguments: Any) -> str:
    """A run whose server ended while the model was asked for the answer."""
    ollama.expect(Hang())
    async with place.client() as caller:
        run_id = await caller.begin(QUESTION, **arguments)
        await ollama.arrived(len(ollama.requests) + 1)
    return run_id


async def test_a_run_goes_on_after_its_server_ended(place: Place, ollama: ScriptedOllama) -> None:
    run_id = await interrupted(place, ollama)
    async with place.client() as caller:
        before = await caller.call("get_run", run_id=run_id)
        other = await caller.error("plan_and_answer", prompt="Another?", run_id=run_id)
        ollama.expect(found(ANSWER))
        after = await caller.call("run_step", run_id=run_id)
    assert before.whole
    assert before.whole["status"] == "interrupted"
    assert normalised(text(before)) == snapshot("""\
Interrupted before it ended. Call plan_and_answer with the same prompt and run_id `RUN` to go on with it; nothing is done twice.

_Run RUN: 1 tool call (0.0 s), 1 model call (N prompt tokens, N of them cached, N generated, 0.0 s); 0.0 s in all_\
""")
    assert normalised(other) == snapshot(
        'prompt: run RUN has another prompt: "What is VeryUniqueClassName_Phoenix_2025_QW3RTY, and in which file?". Give that one to continue the run, or leave out run_id to start a new run.'
    )
    report = after.whole
    assert report
    assert (report["run_id"], report["status"], report["answer"]) == (run_id, "answered", ANSWER)
    assert report["warnings"] == []
    assert report["usage"]["tool_calls"] == before.whole["usage"]["tool_calls"]
    types = [event["type"] for event in caller.progress.events]
    assert types.count("tool_called") == types.count("tool_returned")
    assert types.count("run_resumed") == 1
    async with place.client() as caller:  # and it stays
        assert text(await caller.call("get_run", run_id=run_id)) == text(after)
        again = await caller.call("plan_and_answer", prompt=QUESTION, run_id=run_id)
        assert text(again) == text(after)


async def test_a_run_that_cannot_be_followed_ends_with_what_was_found(
    place: Place, ollama: ScriptedOllama
) -> None:
    run_id = await interrupted(place, ollama)
    changed(
        place,
        "UPDATE entry SET data = replace(data, 'find Very', 'look for Very') WHERE kind = 'event'",
        """UPDATE run SET made = replace(made, '"planloom":"', '"planloom":"9.')""",
    )
    async with place.client() as caller:
        ended = await caller.call("plan_and_answer", prompt=QUESTION, run_id=run_id)
        again = await caller.call("plan_and_answer", prompt=QUESTION, run_id=run_id)
    assert ended.whole
    assert ended.whole["status"] == "partial"
    assert normalised(text(ended)) == snapshot("""\
Could not find out: the record of the run, made by planloom 9.0.1.0, cannot be followed to its end: at entry 5 of 10, tool_selected has another prompt now.

Found so far:
- passages on the request:
jobs/secret.py:6 (defines VeryUniqueClassName_Phoenix_2025_QW3RTY, used by standalone_unique_function_MNBVCX_777)
 class VeryUniqueClassName_Phoenix_2025_QW3RTY:
jobs/secret.py:11-12 (standalone_unique_function_MNBVCX_777 uses VeryUniqueClassName_Phoenix_2025_QW3RTY)
 def standalone_unique_function_MNBVCX_777() -> int:
     return VeryUniqueClassName_Phoenix_2025_QW3RTY().run()
jobs/secret.py:3
 UNIQUE_CONSTANT_VERIFICATION_ZX9 = 48613
jobs/secret.py:8
         return UNIQUE_CONSTANT_VERIFICATION_ZX9

_Status: partial_

### Evidence

1. `jobs/secret.py`, `6`, `VeryUniqueClassName_Phoenix_2025_QW3RTY`, `standalone_unique_function_MNBVCX_777`: `jobs/secret.py:6`, step 0 (gathering), `search`
   ```text
   class VeryUniqueClassName_Phoenix_2025_QW3RTY:
   used by standalone_unique_function_MNBVCX_777
   ```
2. `jobs/secret.py`, `VeryUniqueClassName_Phoenix_2025_QW3RTY`, `standalone_unique_function_MNBVCX_777`, `11`, `12`: `jobs/secret.py:11-12`, step 0 (gathering), `search`
   ```text
   def standalone_unique_function_MNBVCX_777() -> int:
   return VeryUniqueClassName_Phoenix_2025_QW3RTY().run()
   ```
3. `jobs/secret.py`, `3`, `UNIQUE_CONSTANT_VERIFICATION_ZX9`, `48613`: `jobs/secret.py:3`, step 0 (gathering), `search`
   ```text
   UNIQUE_CONSTANT_VERIFICATION_ZX9 = 48613
   ```
4. `jobs/secret.py`, `UNIQUE_CONSTANT_VERIFICATION_ZX9`, `8`: `jobs/secret.py:8`, step 0 (gathering), `search`
   ```text
   return UNIQUE_CONSTANT_VERIFICATION_ZX9
   ```

_Run RUN: 1 tool call (0.0 s), 1 model call (N prompt tokens, N of them cached, N generated, 0.0 s); 0.0 s in all; some 97 tokens of tool results read for an answer of 201_\
""")
    assert text(again) == text(ended)


async def test_a_run_is_resumed_with_its_own_models(place: Place, ollama: ScriptedOllama) -> None:
    run_id = await interrupted(place, ollama)
    changed(place, "UPDATE run SET made = replace(made, '1.5b', '7b')")
    async with place.client() as caller:
        refused = await caller.error("plan_and_answer", prompt=QUESTION, run_id=run_id)
        ended = await caller.call("cancel_run", run_id=run_id)
    assert normalised(refused) == snapshot(
        "Run RUN was begun with qwen2.5-coder:7b (num_ctx 8192); this server has qwen2.5-coder:1.5b (num_ctx 8192). Resume it with those, or ask again."
    )
    assert ended.whole


async def test_a_run_stays_on_its_project(
    place: Place, ollama: ScriptedOllama, tmp_path: Path
) -> None:
    """The servers of one user share a journal: asked the same on another project, one of them
    answered from that one's files, and made there what waited for approval."""
    run_id = await interrupted(place, ollama)
    async with connected(build(load_settings(place.file, tmp_path, place.environ))) as caller:
        refused = await caller.error("plan_and_answer", prompt=QUESTION, run_id=run_id)
        ollama.expect(found(ANSWER))
        another = await caller.call("plan_and_answer", prompt=QUESTION)
    async with place.client() as caller:
        ollama.expect(found(ANSWER))
        done = await caller.call("plan_and_answer", prompt=QUESTION)
    assert normalised(refused) == (
        f"Run RUN works on {place.project}; this server works on {tmp_path}. Resume it there, or "
        "ask again."
    )
    assert (another.whole or {})["run_id"] != run_id
    assert (done.whole or {})["run_id"] == run_id


async def test_a_request_key_makes_a_retry_safe(place: Place, ollama: ScriptedOllama) -> None:
    asked = {"prompt": QUESTION, "request_key": "k1"}
    ollama.expect(Hang(then=json.dumps(found(ANSWER))))
    async with place.client() as caller:
        results = []

        async def ask() -> None:
            results.append(await caller.call("plan_and_answer", **asked, wait_s=0))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
        await ollama.arrived()
        async with anyio.create_task_group() as tasks:  # a client that gives up comes back
            tasks.start_soon(lambda: caller.call("plan_and_answer", **asked))
            await anyio.sleep(0.1)
            tasks.cancel_scope.cancel()
        ollama.release()
        done = await caller.call("plan_and_answer", **asked)
        other = await caller.error("plan_and_answer", prompt="Another?", request_key="k1")
    async with place.client() as caller:
        later = await caller.call("plan_and_answer", **asked)
        other_later = await caller.error("make_plan", **asked)
    ids = {str((each.whole or {})["run_id"]) for each in [*results, done, later]}
    assert len(ids) == 1
    assert text(done).startswith(ANSWER)
    assert text(later) == text(done)
    assert (
        normalised(other)
        == normalised(other_later)
        == snapshot(
            'request_key "k1" belongs to run RUN, which asks something else. Give each request a key of its own.'
        )
    )


@pytest.mark.parametrize("people", [(None, Person()), (Person(), None)])
async def test_a_request_key_does_not_depend_on_who_can_be_asked(
    people: tuple[Person | None, Person | None], place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(ANSWER))
    results = []
    for person in people:
        async with place.client(person=person) as caller:
            asked = {"prompt": QUESTION, "request_key": "k1"}
            results.append(text(await caller.call("plan_and_answer", **asked)))
    assert results[0].startswith(ANSWER)
    assert results[0] == results[1]


async def test_a_request_with_a_secret_is_known_again(place: Place, ollama: ScriptedOllama) -> None:
    """Though its record does not have the secret, and the server has been started again."""
    place.upstreams["files"]["headers"] = {"X-Key": "${API_KEY}"}
    environ = place.environ | {"API_KEY": "hunter2!hunter2!"}

    async def cut_off(**asked: Any) -> str:
        ollama.expect(Hang())
        before = len(ollama.requests)
        settings = load_settings(place.file, place.project, environ)
        async with connected(build(settings)) as caller:
            step = {"tool": "search", "arguments": {"pattern": CLASS}, "wait_s": 0}
            begun = await caller.call("run_step", prompt="Not hunter2!hunter2!", **step, **asked)
            await ollama.arrived(before + 1)
        return str((begun.whole or {})["run_id"])

    run_id = await cut_off(request_key="k1")
    again = [await cut_off(request_key="k1"), await cut_off(run_id=run_id), await cut_off()]
    assert again == [run_id] * 3


async def test_a_retry_goes_on_with_an_interrupted_run(
    place: Place, ollama: ScriptedOllama
) -> None:
    run_id = await interrupted(place, ollama, request_key="k2")
    ollama.expect(found(ANSWER))
    async with place.client() as caller:
        done = await caller.call("plan_and_answer", prompt=QUESTION, request_key="k2")
    assert done.whole
    assert (done.whole["run_id"], done.whole["status"]) == (
        run_id,
        "answered",
    )


async def test_a_server_that_ends_drives_nothing_more(place: Place, ollama: ScriptedOllama) -> None:
    """It answers for some seconds yet, and its callers are told to call again."""
    opened: list[Parts] = []
    async with connected(build(place.settings, opened.append)) as caller:
        await opened[0].engine.interrupt_all()
        begun, again = [await caller.call("plan_and_answer", prompt=QUESTION) for _ in range(2)]
    ollama.expect(found(ANSWER))
    async with place.client() as caller:
        done = await caller.call("plan_and_answer", prompt=QUESTION)
    told = [each.whole or {} for each in (begun, again, done)]
    assert [each["status"] for each in told] == ["interrupted", "interrupted", "answered"]
    assert len({each["run_id"] for each in told}) == 1


@asynccontextmanager
async def begun_at_one_of_two(
    place: Place, ollama: ScriptedOllama
) -> AsyncIterator[tuple[Caller, Caller, str]]:
    """Clients of two servers, and a run that the first one drives, whose model waits to answer."""
    ollama.expect(Hang(then=json.dumps(found(ANSWER))))
    async with place.client() as one, place.client() as two:
        run_id = await one.begin(QUESTION)
        await ollama.arrived()
        yield one, two, run_id


@asynccontextmanager
async def interrupted_at_one_of_two(
    place: Place, ollama: ScriptedOllama
) -> AsyncIterator[tuple[Caller, Caller, str]]:
    """The same of a run whose caller has gone."""
    ollama.expect(Hang())
    async with place.client() as one, place.client() as two:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: one.call("plan_and_answer", prompt=QUESTION))
            await ollama.arrived()
            await until(lambda: bool(one.progress.meta))
            tasks.cancel_scope.cancel()
        yield one, two, one.progress.run_id


async def test_a_run_is_followed_through_another_server(
    place: Place, ollama: ScriptedOllama
) -> None:
    async with begun_at_one_of_two(place, ollama) as (one, two, run_id):
        seen = await two.call("plan_and_answer", prompt=QUESTION, run_id=run_id, wait_s=0.1)
        ollama.release()
        done = await two.call("get_run", run_id=run_id)
        own = await one.call("get_run", run_id=run_id)
    assert (seen.whole or {})["status"] == "running"
    assert (done.whole or {})["answer"] == ANSWER
    assert text(done) == text(own)


async def test_a_run_that_goes_on_at_another_server_is_followed_where_it_was_interrupted(
    place: Place, ollama: ScriptedOllama
) -> None:
    async with interrupted_at_one_of_two(place, ollama) as (one, two, run_id):
        left = await one.call("get_run", run_id=run_id)
        ollama.expect(found(ANSWER))
        done = await two.call("plan_and_answer", prompt=QUESTION, run_id=run_id)
        told = await one.call("get_run", run_id=run_id)
    assert (left.whole or {})["status"] == "interrupted"
    assert text(done).startswith(ANSWER)
    assert text(told) == text(done)


async def test_a_run_is_cancelled_through_another_server(
    place: Place, ollama: ScriptedOllama
) -> None:
    async with begun_at_one_of_two(place, ollama) as (one, two, run_id):
        ended = await two.call("cancel_run", run_id=run_id)
        own = await one.call("get_run", run_id=run_id)
        again = await two.call("cancel_run", run_id=run_id)
    assert ollama.requests[0].hung_up.is_set()
    assert (ended.whole or {})["status"] == "cancelled"
    assert "cancelled: at the caller's request" in text(ended)
    assert text(ended) == text(own) == text(again)


async def test_a_run_that_is_being_ended_ends_though_its_caller_goes(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had been taken over by then, and nobody drove it: "running" for ever."""
    claim, claimed = SqliteJournal._claim, anyio.Event()

    async def slow_claim(journal: SqliteJournal, run_id: str) -> str | None:
        found = await claim(journal, run_id)
        claimed.set()
        await anyio.sleep(0.2)
        return found

    async with interrupted_at_one_of_two(place, ollama) as (one, two, run_id):
        await one.call("get_run", run_id=run_id)
        monkeypatch.setattr(SqliteJournal, "_claim", slow_claim)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: two.call("cancel_run", run_id=run_id))
            await claimed.wait()
            tasks.cancel_scope.cancel()
        ended = await one.call("get_run", run_id=run_id, wait_s=5)
    assert (ended.whole or {})["status"] == "cancelled"


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_run_that_is_cancelled_while_it_is_interrupted_is_cancelled(
    elsewhere: bool, place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, releasing = RunWriter.release, anyio.Event()

    async def slow_release(writer: RunWriter) -> bool:
        releasing.set()
        await anyio.sleep(0.2)
        return await release(writer)

    monkeypatch.setattr(RunWriter, "release", slow_release)
    async with interrupted_at_one_of_two(place, ollama) as (one, two, run_id):
        with anyio.fail_after(LONG):
            await releasing.wait()
        ended = await (two if elsewhere else one).call("cancel_run", run_id=run_id)
        again = await one.call("get_run", run_id=run_id)
    assert (ended.whole or {})["status"] == "cancelled"
    assert text(again) == text(ended)


async def test_a_server_that_does_not_end_a_run_is_told_of(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.journal.base.LETTER_SECONDS", 0.1)
    async with begun_at_one_of_two(place, ollama) as (_, two, run_id):
        with monkeypatch.context() as deaf:
            deaf.setattr(SqliteJournal, "collect", no_letters)
            refused = await two.error("cancel_run", run_id=run_id)
        done = await two.call("get_run", run_id=run_id)
    assert normalised(refused) == snapshot(
        "Run RUN is driven by another Planloom server, which was asked to end it and did not within 0.0 s. Look again with get_run, or end that server."
    )
    assert (done.whole or {})["status"] == "cancelled"  # once it has its letters


async def no_letters(_journal: SqliteJournal, _run_ids: Any) -> list[Letter]:
    return []


async def test_runs_are_resources(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(found(ANSWER))
    async with place.client() as caller:
        done = await caller.call("plan_and_answer", prompt=QUESTION)
        run_id = (done.whole or {})["run_id"]
        parts = await caller.client.read_resource(f"run://{run_id}")
        (transcript,) = await caller.client.read_resource(f"run://{run_id}/transcript")
        with pytest.raises(Exception, match='There is no run "nope"'):
            await caller.client.read_resource("run://nope")
    assert [part.mime_type for part in parts] == ["text/markdown", "application/json"]
    readable, data = parts
    assert isinstance(readable, TextResourceContents)
    assert isinstance(data, TextResourceContents)
    assert readable.text == text(done)
    assert json.loads(data.text) == done.whole
    assert isinstance(transcript, TextResourceContents)
    assert re.sub("Began .* UTC", "Began then", normalised(transcript.text)) == snapshot("""\
# Run RUN

Began then.

## Request

```text
What is VeryUniqueClassName_Phoenix_2025_QW3RTY, and in which file?
```

## qwen2.5-coder:1.5b: brief

```text
Reply:
```

Reply:

```text
{"search":["value"],"wants":"short answer"}
```

- looking for value

- Next is search: find VeryUniqueClassName_Phoenix_2025_QW3RTY, value, which

- search VeryUniqueClassName_Phoenix_2025_QW3RTY, value, which

## search: 5 lines

```text
{"pattern": "(?i)VeryUniqueClassName_Phoenix_2025_QW3RTY|valu|uniqu|class|phoenix|which"}
```

Result, after 0.0 s:

```text
jobs/secret.py:3: UNIQUE_CONSTANT_VERIFICATION_ZX9 = 48613
jobs/secret.py:6: class VeryUniqueClassName_Phoenix_2025_QW3RTY:
jobs/secret.py:8:         return UNIQUE_CONSTANT_VERIFICATION_ZX9
jobs/secret.py:11: def standalone_unique_function_MNBVCX_777() -> int:
jobs/secret.py:12:     return VeryUniqueClassName_Phoenix_2025_QW3RTY().run()
```

- found 4 passages: jobs/secret.py:6, jobs/secret.py:11-12, jobs/secret.py:3, jobs/secret.py:8

## qwen2.5-coder:1.5b: answer

```text
Request: What is VeryUniqueClassName_Phoenix_2025_QW3RTY, and in which file?
Answer it from the results above only, in the language of the request. The answer is one or two sentences with the exact names, values and files.
Reply {"assessment":what the results say about it,"final_answer":the answer,"found_in":"results" or, if nothing above says it, "nowhere"}.
```

Reply:

```text
{"assessment":"","final_answer":"`VeryUniqueClassName_Phoenix_2025_QW3RTY` is defined in jobs/secret.py, line 6.","found_in":"results"}
```

## qwen2.5-coder:1.5b: again

```text
Request: What is VeryUniqueClassName_Phoenix_2025_QW3RTY, and in which file?
Read the results above once more and answer in a few words: {"answer_again":"..."}.
```

Reply:

```text
{"answer_again":"`VeryUniqueClassName_Phoenix_2025_QW3RTY` is defined in jobs/secret.py, line 6."}
```

## Ended: answered

```text
`VeryUniqueClassName_Phoenix_2025_QW3RTY` is defined in jobs/secret.py, line 6.
```\
""")


async def test_runs_on_the_command_line(place: Place, ollama: ScriptedOllama) -> None:
    run_id = await interrupted(place, ollama)
    listed = place.run("runs")
    unknown = place.run("runs", "show", "nope")
    ollama.expect(found(ANSWER))
    resumed = place.run("runs", "resume", run_id[:8])
    shown = place.run("runs", "show", run_id, "--transcript")
    assert (listed.returncode, unknown.returncode, resumed.returncode) == (0, 2, 0)
    head, line = listed.stdout.splitlines()
    assert head.split() == ["RUN", "STATE", "BEGAN", "PROJECT", "REQUEST"]
    began = r"\d+ (?:s|min|h) ago"
    where = re.escape(f"{place.project}  {QUESTION}"[:100])
    assert re.match(rf"{run_id[:8]}  interrupted  {began} +{where}", line)
    assert unknown.stderr == snapshot(
        'planloom: There is no run that begins with "nope". `planloom runs` lists them.\n'
    )
    assert resumed.stdout.startswith(ANSWER)
    assert f"# Run {run_id}" in shown.stdout
    assert "## Ended: answered" in shown.stdout


# A journal that cannot be written


@pytest.mark.parametrize("fault", ["directory", "damaged", "foreign", "newer"])
async def test_runs_go_on_without_a_journal_and_say_so(
    fault: str, place: Place, ollama: ScriptedOllama
) -> None:
    file = place.journal
    if fault == "directory":
        file.parent.write_text("no directory")
    else:
        file.parent.mkdir()
        if fault == "damaged":
            file.write_bytes(b"no database, but long enough to be taken for one" * 100)
        else:
            with closing(sqlite3.connect(file)) as db, db:
                db.execute("CREATE TABLE other (a)")
                if fault == "newer":
                    db.execute("PRAGMA application_id = 0x506C6F6D")
                db.execute(f"PRAGMA user_version = {FORMAT + 1}")
    before = b"" if fault == "directory" else file.read_bytes()
    ollama.expect(found(ANSWER))
    async with place.client() as caller:
        asked = {"prompt": QUESTION, "request_key": "k"}
        done = await caller.call("plan_and_answer", **asked)
        again = await caller.call("plan_and_answer", **asked)
        unknown = await caller.error("get_run", run_id="nope")
    report = done.whole
    assert report
    assert report["status"] == "answered"
    assert text(again) == text(done)
    (warning,) = report["warnings"]
    assert f"**Warning:** {warning}" in text(done)
    assert "run" in unknown
    said = warning.replace(str(file.parent), "RUNS")
    assert (
        said
        == {
            "directory": snapshot(
                "The run is not recorded and ends with this server. RUNS/runs.sqlite: [Errno 17] File exists: 'RUNS'. Make it writable, free space on its disk, move it away if it is damaged, or name another directory with PLANLOOM_RUNS."
            ),
            "damaged": snapshot(
                "The run is not recorded and ends with this server. RUNS/runs.sqlite: file is not a database. Make it writable, free space on its disk, move it away if it is damaged, or name another directory with PLANLOOM_RUNS."
            ),
            "foreign": snapshot(
                "The run is not recorded and ends with this server. RUNS/runs.sqlite: it is another program's file. Make it writable, free space on its disk, move it away if it is damaged, or name another directory with PLANLOOM_RUNS."
            ),
            "newer": snapshot(
                "The run is not recorded and ends with this server. RUNS/runs.sqlite: it is a journal of format 3, and this version of Planloom writes 2. Make it writable, free space on its disk, move it away if it is damaged, or name another directory with PLANLOOM_RUNS."
            ),
        }[fault]
    )
    assert fault == "directory" or file.read_bytes() == before


async def test_an_unrecorded_run_whose_call_is_cancelled_says_why_it_ended(
    place: Place, ollama: ScriptedOllama
) -> None:
    """It said that the server had ended, which then told so itself."""
    place.journal.parent.write_text("no directory")
    ollama.expect(Hang())
    async with place.client() as caller:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: caller.call("plan_and_answer", prompt=QUESTION))
            await ollama.arrived()
            await until(lambda: bool(caller.progress.meta))
            tasks.cancel_scope.cancel()
        told = await caller.call("get_run", run_id=caller.progress.run_id)
    assert "_Status: cancelled: it was cut off, and is not recorded_" in text(told)


async def test_a_full_disk_ends_the_record_and_not_the_run(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(Hang(then=json.dumps(found(ANSWER))))
    with place.http() as (process, port):
        url = f"http://127.0.0.1:{port}/mcp"
        async with anyio.create_task_group() as tasks:
            results: list[Any] = []

            async def ask() -> None:
                async with Client(url, auth=place.token) as client:
                    results.append(await client.call_tool("plan_and_answer", {"prompt": QUESTION}))

            tasks.start_soon(ask)
            await ollama.arrived()
            full = place.journal.with_name("runs.sqlite-wal").stat().st_size
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (full, full))
            ollama.release()
    (done,) = results
    assert text(done).startswith(ANSWER)
    (warning,) = done.structured_content["warnings"]
    assert warning.startswith("The run is not recorded and ends with this server.")
    shown = place.run("runs", "show", done.structured_content["run_id"])
    assert shown.stdout.startswith("Interrupted before it ended.")


async def test_a_run_that_ended_while_its_file_was_locked_is_over_elsewhere_too(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(8) It was running for ever at every other server."""
    monkeypatch.setattr("server.journal.sqlite.BUSY_SECONDS", 0.1)
    async with begun_at_one_of_two(place, ollama) as (one, two, run_id):
        with locked(place.journal):
            ollama.release()
            unrecorded = await one.call("get_run", run_id=run_id)
            elsewhere = await two.call("get_run", run_id=run_id, wait_s=0)
        done = await two.call("get_run", run_id=run_id)
        own = await one.call("get_run", run_id=run_id)
    assert (unrecorded.whole or {})["status"] == "answered"
    (warning,) = (unrecorded.whole or {})["warnings"]
    assert "database is locked" in warning
    assert (elsewhere.whole or {})["status"] == "running"
    assert (done.whole or {})["answer"] == ANSWER
    assert done.whole == own.whole  # without the warning


async def test_what_a_locked_file_did_not_take_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.journal.sqlite.BUSY_SECONDS", 0.1)
    texts = ["before", "long " * 500, "after"]
    async with journal(tmp_path) as opened:
        record = await begun(opened, "x")
        with locked(opened.file):
            for each in texts:
                record.append(Entry("outcome", {"text": each}))
                assert not await record.flush()
            record.append(ended())
        # Its last try is made when the journal closes.
    async with journal(tmp_path) as opened:
        found = await opened.load("x")
    assert found
    assert found.status == "answered"
    assert [entry.data["text"] for entry in found.entries[:-1]] == texts


async def test_a_run_that_ended_while_the_disk_was_full_is_over_elsewhere_too(
    place: Place, ollama: ScriptedOllama
) -> None:
    """(8) The disk of its own server; it is taken up by nobody, since it has ended."""
    ollama.expect(Hang(then=json.dumps(found(ANSWER))))
    with (
        place.http() as (process, port),
        served(build(place.settings, auth=Tokens([place.token], users=True))) as elsewhere_url,
    ):
        url = f"http://127.0.0.1:{port}/mcp"
        async with (
            connected(elsewhere_url, auth=place.token) as other,
            Client(url, auth=place.token) as client,
        ):
            asked = {"prompt": QUESTION, "wait_s": 0}
            started = await client.call_tool("plan_and_answer", asked)
            run_id = (started.structured_content or {})["run_id"]
            await ollama.arrived()
            full = place.journal.with_name("runs.sqlite-wal").stat().st_size
            soft, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (full, hard))
            ollama.release()
            done = await client.call_tool("get_run", {"run_id": run_id})
            elsewhere = await other.call("get_run", run_id=run_id, wait_s=0)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (soft, hard))
            told = await other.call("get_run", run_id=run_id)
    assert text(done).startswith(ANSWER)
    assert "**Warning:** The run is not recorded" in text(done)
    assert (elsewhere.whole or {})["status"] == "running"
    assert ((told.whole or {})["answer"], (told.whole or {})["warnings"]) == (ANSWER, [])


async def test_no_secret_is_written(ollama: ScriptedOllama, tmp_path: Path) -> None:
    token = "planted-8c1f5e0d2b7a4496"
    own = Place(tmp_path / "own", ollama)
    (files,) = own.upstreams.values()
    own.upstreams = {"files": files | {"allow": ["*"], "env": {"TOKEN": "${PLANTED}"}}}
    ollama.expect(conclusion("TOKEN is set."))
    step = {"prompt": f"Is TOKEN {token}?", "tool": "environment", "arguments": {}}
    settings = load_settings(own.file, own.project, own.environ | {"PLANTED": token})
    async with Client(build(settings)) as client:
        done = await client.call_tool("run_step", step)
    assert (done.structured_content or {})["answer"] == "TOKEN is set."
    assert token in ollama.requests[0].prompt  # it is the request's own
    for written in own.journal.parent.iterdir():
        assert token.encode() not in written.read_bytes()
