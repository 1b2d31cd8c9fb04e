"""The upstreams file changes while a server runs: what it takes up, and what it refuses."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from inline_snapshot import snapshot
from replies import conclusion
from scripted_ollama import ScriptedOllama
from serving import LONG, Caller, Place, SharedUpstream, text, until, upstream

from server.config import Settings
from server.config_file import load_settings
from server.upstreams import reload
from server.upstreams.launch import Launcher
from server.upstreams.pins import Pins
from server.upstreams.pool import UpstreamPool

pytestmark = pytest.mark.anyio

SECRET = "s3cret-value-of-the-environment"


@pytest.fixture
def place(own_place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(reload, "POLL_SECONDS", 0.02)
    return own_place


@pytest.fixture(autouse=True)
def no_process_left(place: Place) -> Iterator[None]:
    yield
    assert upstream_processes(place) == []


def upstream_processes(place: Place) -> list[list[str]]:
    commands = []
    for each in place.processes():
        with suppress(psutil.Error):  # it has ended since
            commands.append(each.cmdline())
    return [command for command in commands if "upstream_process" in " ".join(command)]


def rewrite(place: Place, **upstreams: Any) -> None:
    """As an editor writes it: beside it, then in its place."""
    new = place.root / "new.yaml"
    new.write_text(json.dumps({"upstreams": upstreams}))
    new.replace(place.root / "upstreams.yaml")


async def listing(caller: Caller) -> dict[str, Any]:
    found = (await caller.call("list_tools")).whole
    assert found
    return found


async def listed(caller: Caller, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The listing, as soon as it is so."""
    with anyio.fail_after(LONG):
        while not condition(found := await listing(caller)):  # noqa: ASYNC110  it is asked for
            await anyio.sleep(0.02)
    return found


def names(found: dict[str, Any]) -> set[str]:
    return {each["name"] for each in found["tools"]}


def ready(*upstreams: str) -> Callable[[dict[str, Any]], bool]:
    def condition(found: dict[str, Any]) -> bool:
        states = {each["name"]: each["state"] for each in found["upstreams"]}
        return states == dict.fromkeys(upstreams, "ready")

    return condition


Only = Callable[..., dict[str, Any]]


@pytest.fixture
def only(shared_upstream: SharedUpstream) -> Only:
    """The entry of an upstream with these tools, and without a process of its own."""

    def entry(*tools: str, **options: Any) -> dict[str, Any]:
        return {"url": shared_upstream.url, "allow": list(tools)} | options

    return entry


def process(*tools: str) -> dict[str, Any]:
    return upstream(allow=list(tools))


async def answered(caller: Caller, tool: str, **arguments: Any) -> str:
    """What a tool says in a run of one step."""
    result = await caller.call("run_step", prompt="Do it", tool=tool, arguments=arguments)
    assert result.whole
    return str(result.whole["actions"][0]["tool_calls"][0]["result"])


# What is taken up


async def test_upstreams_are_added_changed_and_removed(
    place: Place, ollama: ScriptedOllama, only: Only
) -> None:
    place.upstreams = {"files": process("say", "pid"), "other": only("fail")}
    async with place.client() as caller:
        before = await listed(caller, ready("files", "other"))
        assert names(before) == {"say", "pid", "fail"}
        ollama.expect(conclusion("Done."))
        files = await answered(caller, "pid")

        more = only("flood")
        rewrite(place, files=process("say", "pid"), other=only("sleep"), more=more)
        found = await listed(caller, ready("files", "other", "more"))
        assert names(found) == {"say", "pid", "sleep", "flood"}
        ollama.expect(conclusion("Done."))
        assert await answered(caller, "pid") == files, "what did not change was left alone"

        rewrite(place, other=only("sleep"), more=more)
        found = await listed(caller, ready("other", "more"))
        assert (names(found), found["problem"]) == ({"sleep", "flood"}, None)
        await until(lambda: not upstream_processes(place))


async def test_a_call_under_way_is_answered_by_whom_it_was_made_to(
    place: Place, ollama: ScriptedOllama
) -> None:
    place.upstreams = {"files": process("sleep")}
    ollama.expect(conclusion("Done."))
    slept: list[str] = []
    async with place.client() as caller:
        await listed(caller, ready("files"))
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                slept.append(await answered(caller, "sleep", seconds=1.0, trace="trace"))

            tasks.start_soon(call)
            await until((place.project / "trace").exists)
            rewrite(place)
            await listed(caller, lambda found: not found["upstreams"])
            assert not slept
    assert slept == ["slept"]
    assert (place.project / "trace").read_text() == "started"


@pytest.mark.parametrize("face", ["memory", "memory-legacy", "stdio-legacy"])
async def test_it_says_whether_runs_may_change_something(
    place: Place, only: Only, face: str
) -> None:
    place.upstreams = {"files": only("say", policy="read_only")}

    async def hint(caller: Caller) -> bool | None:
        tools = {each.name: each for each in await caller.client.list_tools()}
        annotations = tools["plan_and_answer"].annotations
        assert annotations
        return annotations.read_only_hint

    async with place.client(face) as caller:
        assert await hint(caller) is True
        rewrite(place, files=only("say", "write_file", policy="ask"))
        await listed(caller, lambda found: "write_file" in names(found))
        assert await hint(caller) is False
        rewrite(place, files=only("say", policy="read_only"))
        await listed(caller, lambda found: "write_file" not in names(found))
        assert await hint(caller) is True
        if face.endswith("legacy"):  # later protocols have clients listen for it
            await until(lambda: caller.progress.list_changes == 2)


async def test_the_users_own_file_takes_the_place_of_the_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped, own = tmp_path / "shipped.yaml", tmp_path / "own.yaml"
    shipped.write_text("upstreams: {}")
    monkeypatch.setattr("server.config_file.shipped_file", lambda: shipped)
    monkeypatch.setattr("server.config_file.own_file", lambda: own)
    settings = load_settings(None, tmp_path, {})
    async with following(settings, tmp_path) as pool:
        assert not pool.upstreams()
        own.write_text("upstreams: {down: {command: x, enabled: false}}")
        await until(lambda: [each.name for each in pool.upstreams()] == ["down"])


async def test_a_change_before_the_watch_began_counts(tmp_path: Path, own_place: Place) -> None:
    file = tmp_path / "upstreams.yaml"
    file.write_text("upstreams: {}")
    settings = load_settings(file, tmp_path, {})
    file.write_text("upstreams: {down: {command: x, enabled: false}}")
    async with following(settings, tmp_path) as pool:
        await until(lambda: [each.name for each in pool.upstreams()] == ["down"])


# What is refused


async def test_a_wrong_file_changes_nothing_and_is_told(
    place: Place, ollama: ScriptedOllama, only: Only
) -> None:
    place.upstreams = {"files": only("say")}
    async with place.client() as caller:
        await listed(caller, ready("files"))
        (place.root / "upstreams.yaml").write_text("upstreams:\n  files: {comand: x}\n")
        found = await listed(caller, lambda found: found["problem"])
        told = text(await caller.call("list_tools")).replace(str(place.root), "ROOT")
        assert told == snapshot("""\
### The newest changes of the operator's file are not in effect

The change was not applied, because the file has a mistake:
ROOT/upstreams.yaml:2: upstreams.files.comand: unknown key `comand`; did you mean `command`?

### Upstreams

- files: ready, 1 tool, 1 new and pinned

### Tools

- say (files, read-only, priority 0): Answer with the text.\
""")
        assert names(found) == {"say"}
        ollama.expect(conclusion("Done."))
        assert await answered(caller, "say", text="hello") == "hello"

        rewrite(place, files=only("say", "fail"))
        assert names(await listed(caller, lambda found: not found["problem"])) == {"say", "fail"}


async def test_a_file_that_is_wrong_in_an_unexpected_way_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "upstreams.yaml"
    file.write_text("upstreams: {down: {command: x, enabled: false}}")
    settings = load_settings(file, tmp_path, {})

    def fails(_settings: Settings) -> Settings:
        raise LookupError(SECRET)

    async with following(settings, tmp_path) as pool:
        monkeypatch.setattr(Settings, "loaded_again", fails)
        file.write_text("upstreams: {}")
        await until(lambda: pool.problem is not None)
        assert pool.problem == snapshot("""\
The change was not applied, because the file has a mistake:
LookupError while it was read; see the log\
""")
        assert [each.name for each in pool.upstreams()] == ["down"]


async def test_what_needs_a_new_start_is_said(place: Place, only: Only) -> None:
    place.upstreams = {"files": only("say")}
    async with place.client() as caller:
        await listed(caller, ready("files"))
        place.bounds = {"runs": {"concurrent": 2}}
        assert place.file.exists()  # written again
        found = await listed(caller, lambda found: found["problem"])
        assert found["problem"] == snapshot("Changes of `runs` take effect at the next start.")


async def test_a_call_that_was_approved_before_a_change_is_not_made_after_it(
    place: Place, ollama: ScriptedOllama, only: Only
) -> None:
    place.upstreams = {"files": only("write_file", "say")}
    loosened = only("write_file", "say", policy="allow")

    async def person(_message: str, _type: Any, _params: Any, _context: Any) -> Any:
        rewrite(place, files=loosened)
        await listed(
            caller, lambda found: [each["policy"] for each in found["tools"]] == ["allow"] * 2
        )
        return {"approve": True}

    async with place.client("memory-legacy", person) as caller:
        await listed(caller, ready("files"))
        ollama.expect(conclusion("Not done.", success=False))
        assert await answered(caller, "write_file", path="a", text="b") == snapshot(
            "The call of write_file was not made: the operator has changed its upstream files "
            "since this run began. Ask again."
        )
        assert not (place.project / "a").exists()


# The pool


@asynccontextmanager
async def following(settings: Settings, folder: Path) -> AsyncIterator[UpstreamPool]:
    async def nobody(_settings: Settings) -> None:
        """Nobody has to be told."""

    pool = UpstreamPool(settings, launcher=Launcher(folder), pins=Pins(folder / "pins.sqlite"))
    async with pool, anyio.create_task_group() as tasks:
        tasks.start_soon(reload.watch_file, settings, pool, nobody)
        yield pool
        tasks.cancel_scope.cancel()


async def test_a_call_that_waits_for_a_changed_upstream_goes_by_its_new_settings(
    tmp_path: Path, only: Only
) -> None:
    file = tmp_path / "upstreams.yaml"

    def written(**tools: Any) -> Settings:
        file.write_text(json.dumps({"upstreams": {"files": only("say", tools=tools)}}))
        return load_settings(file, tmp_path, {})

    pins = Pins(tmp_path / "pins.sqlite")
    async with UpstreamPool(written(), launcher=Launcher(tmp_path), pins=pins) as pool:
        assert await pool.ready(LONG)
        tool = pool.find("say")
        assert tool
        pool.change(written(say={"priority": 1}).upstreams)
        assert (await pool.call(tool, {"text": "hello"})).text == "hello"
        pool.change(written(say={"safety": "write"}).upstreams)
        assert (await pool.call(tool, {"text": "hello"})).text == snapshot(
            "say is no longer read-only, and nobody has approved this call, so it was not made."
        )


async def test_secrets_of_new_and_of_former_upstreams_are_taken_out(tmp_path: Path) -> None:
    file = tmp_path / "upstreams.yaml"

    def written(variable: str) -> Settings:
        entry = {"command": "x", "enabled": False, "env": {"TOKEN": f"${{{variable}}}"}}
        file.write_text(json.dumps({"upstreams": {"up": entry}}))
        return load_settings(file, tmp_path, {"ONE": SECRET, "TWO": SECRET[::-1]})

    async with UpstreamPool(written("ONE"), launcher=Launcher(tmp_path)) as pool:
        assert pool.redact(f"{SECRET} {SECRET[::-1]}") == f"*** {SECRET[::-1]}"
        pool.change(written("TWO").upstreams)
        assert pool.redact(f"{SECRET} {SECRET[::-1]}") == "*** ***"
