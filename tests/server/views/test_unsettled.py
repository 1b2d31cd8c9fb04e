"""Calls that were to change something and did not come through: each is told, wherever a run is."""
# ruff: noqa: E501  texts stand as people see them

import base64
import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from fastmcp import Client
from inline_snapshot import snapshot
from paths import SUPPORT
from replies import conclusion
from serving import Place, text, until

from server.app import Parts, build
from server.http import web_view

pytestmark = pytest.mark.anyio

FAULTY = str(SUPPORT / "faulty_upstream.py")
REFUSED = {"jsonrpc": "2.0", "id": "@ID@", "error": {"code": -32602, "message": "no such note"}}
LINE = {"line": base64.b64encode(json.dumps(REFUSED).encode()).decode()}


@pytest.fixture
def place(own_place: Place) -> Place:
    names = ("die", "flood", "never", "says", "shape", "calls_it_success", "slow")
    own_place.upstreams = {
        "up": {
            "command": "${PLANLOOM_PYTHON}",
            "args": [FAULTY],
            "policy": "allow",
            "tools": {name: {"safety": "write"} for name in names},
        }
    }
    return own_place


def step(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"prompt": "Do it", "tool": tool, "arguments": arguments, "policy": "allow"}


async def told(place: Place, tool: str, **arguments: Any) -> list[str]:
    """The warnings of a run that makes a call: the same in its report, as Markdown, in the browser
    and on the terminal."""
    place.ollama.expect(conclusion("Nobody knows.", success=False))
    opened: list[Parts] = []
    async with Client(build(place.settings, opened.append)) as client:
        done = await client.call_tool("run_step", step(tool, **arguments), raise_on_error=False)
        short: dict[str, Any] = done.structured_content or {}
        run = await opened[0].engine.get(short["run_id"])
        pages = [json.loads(each) async for each in web_view.changes(run)]
    warnings: list[str] = short.get("warnings", [])
    assert pages[-1]["warnings"] == warnings
    assert [line for line in text(done).splitlines() if line.startswith("**Warning:**")] == [
        f"**Warning:** {each}" for each in warnings
    ]
    shown = place.run("runs", "show", "--json", run.id)
    assert json.loads(shown.stdout)["warnings"] == warnings
    return warnings


async def test_a_call_whose_upstream_dies_is_not_known_to_be_made(place: Place) -> None:
    assert await told(place, "die") == snapshot(
        [
            "It is not known whether up.die {} was carried out, and it was not made again: up was lost during die: Connection closed"
        ]
    )


def recorded(place: Place) -> str:
    """All that is on record."""
    with closing(sqlite3.connect(place.journal)) as db:
        return str(db.execute("SELECT run, data FROM entry").fetchall())


@pytest.mark.parametrize("tool", ["flood", "shape", "never", "says", "calls_it_success", "slow"])
async def test_what_came_of_a_call_is_told_as_far_as_it_is_known(tool: str, place: Place) -> None:
    if tool == "never":
        place.upstreams["up"]["call_timeout_s"] = 0.5
    warnings = await told(place, tool, **(LINE if tool == "says" else {}))
    assert (
        warnings
        == {
            "flood": snapshot(
                [
                    "It is not known whether up.flood {} was carried out, and it was not made again: up answered flood, but its answer is longer than 8 MiB, and was not read; ask for less"
                ]
            ),
            "shape": snapshot(
                [
                    "It is not known whether up.shape {} was carried out, and it was not made again: up answered shape, but its answer is not a tool result: Input should be a valid list"
                ]
            ),
            "never": snapshot(
                [
                    "It is not known whether up.never {} was carried out, and it was not made again: never did not end within 0.5 s; ask it for less."
                ]
            ),
            "says": snapshot(
                [
                    'up.says {"line": "eyJqc29ucnBjIjogIjIuMCIsICJpZCI6ICJASURAIiwgImVycm9yIjogeyJjb2RlIjogL… was not made: up refused the call: no such note'
                ]
            ),
            "calls_it_success": [],  # the tool's own no is its result
            "slow": [],
        }[tool]
    )


async def test_a_call_that_could_not_be_recorded_is_told_as_not_made(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(8) Nine writes were neither made nor told as unknown while Redis stood still."""
    monkeypatch.setattr("server.journal.sqlite.BUSY_SECONDS", 0.1)
    async with place.client() as caller:
        await caller.call("list_tools")
        with closing(sqlite3.connect(place.journal, isolation_level=None)) as db:
            place.ollama.expect(conclusion("It was not done.", success=False))
            db.execute("BEGIN IMMEDIATE")
            done = await caller.call("run_step", **step("slow"))
    report = done.whole or {}
    assert report["warnings"][0] == snapshot(
        "up.slow {} was not made: The call was not made, because it could not be recorded first: after a restart it might be made twice."
    )
    assert report["actions"][0]["tool_calls"][0]["outcome"] == "ERROR"


async def test_a_call_that_was_under_way_when_its_run_was_cancelled_is_told(place: Place) -> None:
    async with place.client() as caller:
        started = await caller.call("run_step", **step("never"), wait_s=0)
        run_id = (started.whole or {})["run_id"]
        await until(lambda: "tool_called" in recorded(place))
        running = await caller.call("get_run", run_id=run_id, wait_s=0)
        ended = await caller.call("cancel_run", run_id=run_id)
    assert (running.whole or {})["warnings"] == []
    assert (ended.whole or {})["warnings"] == snapshot(
        [
            "It is not known whether up.never {} was carried out, and it was not made again: the run ended while it was under way"
        ]
    )


async def test_a_call_that_was_under_way_when_its_server_was_killed_is_told(place: Place) -> None:
    with place.http() as (process, port):
        url = f"http://127.0.0.1:{port}/mcp"
        async with Client(url, auth=place.token) as client:
            started = await client.call_tool("run_step", step("never") | {"wait_s": 0})
            run_id = (started.structured_content or {})["run_id"]
            await until(lambda: "up.never" in recorded(place))  # its intent
            process.kill()
    place.ollama.expect(conclusion("Nobody knows.", success=False))
    async with place.client("served") as caller:
        interrupted = await caller.call("get_run", run_id=run_id)
        ended = await caller.call("run_step", run_id=run_id)
    told = [(each.whole or {})["warnings"] for each in (interrupted, ended)]
    assert told == snapshot(
        [
            [
                "It is not known whether up.never {} was carried out, and it was not made again: the run ended while it was under way"
            ],
            [
                "It is not known whether up.never {} was carried out, and it was not made again: The server ended while this call was under way; its outcome is unknown."
            ],
        ]
    )
