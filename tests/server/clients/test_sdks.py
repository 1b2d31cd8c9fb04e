"""Clients of other makes and ages against the server: each does all that a client can do."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import external_file
from ollama_replies import Answer, Hang
from planted import CLASS, CONSTANT, FUNCTION, VALUE
from remote_client import RemoteClient, pinned
from replies import beside_record, conclusion, found, second
from scripted_ollama import ScriptedOllama
from serving import Place
from wire import Wire

from benchmarks.clients import OBSERVED, Row

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

LIMIT_SECONDS = 3.0
"""A client's own limit for a call, such as the 60 s that the TypeScript SDKs begin with."""
TELLS_CANCEL_SECONDS = 5.0


@dataclass(frozen=True)
class Sdk:
    """A client, and what it can do."""

    name: str
    program: str
    transport: str
    mode: str | None = None
    """The era that it is told to speak; None: its default."""
    resets: bool = False
    """Progress sets its limit back, if it is told so."""

    def __str__(self) -> str:
        era = f"-{self.mode}" if self.mode else ""
        return f"{Path(self.program).stem}{era}-{self.transport}"


SDKS = [
    Sdk(name, program, transport, mode, resets)
    for name, program, mode, resets in (
        (f"Python SDK {version('mcp')}", "python_sdk.py", None, False),
        (f"Python SDK {pinned('mcp')}", "python_sdk_1.py", None, False),
        (f"FastMCP {version('fastmcp')}", "fastmcp_client.py", None, False),
        (
            f"TypeScript SDK {pinned('@modelcontextprotocol/client')}, told to negotiate",
            "typescript_sdk.mjs",
            "auto",
            True,
        ),
        (
            f"TypeScript SDK {pinned('@modelcontextprotocol/client')}",
            "typescript_sdk.mjs",
            None,
            True,
        ),
        (
            f"TypeScript SDK {pinned('@modelcontextprotocol/sdk')}",
            "typescript_sdk_1.mjs",
            None,
            True,
        ),
    )
    for transport in ("stdio", "http")
]


@contextmanager
def connected(sdk: Sdk, place: Place, wire: Wire) -> Iterator[RemoteClient]:
    with ExitStack() as stack:
        if sdk.transport == "stdio":
            environ = {"PATH": os.environ["PATH"], **place.environ}
            server: dict[str, Any] = {"command": wire.tapped(place.entry)}
            server["env"] = environ
        else:
            _, port = stack.enter_context(place.http())
            port = stack.enter_context(wire.forwarded(port))
            server = {"url": f"http://127.0.0.1:{port}/mcp", "token": place.token}
        if sdk.mode:
            server["mode"] = sdk.mode
        yield stack.enter_context(RemoteClient.started(sdk.program, server))


@pytest.mark.parametrize("sdk", SDKS, ids=str)
async def test_a_client_does_all_that_it_can(
    sdk: Sdk, place: Place, ollama: ScriptedOllama, tmp_path: Path
) -> None:
    wire = Wire(tmp_path)
    with connected(sdk, place, wire) as client:
        assert "plan_and_answer" in client.tools
        is_answered(client, ollama)
        asks_its_person(client, ollama)
        if sdk.resets:
            waits_while_progress_comes(client, ollama)
        told = await cancels(client, ollama)
        is_cut_off_and_finds_its_answer(client, ollama)
    assert wire.asked_by
    row = Row(
        client=sdk.name,
        transport=sdk.transport,
        protocol=wire.protocol,
        tools="yes",
        report="text and data",
        progress="to a callback",
        approval=wire.asked_by,
        cancel="stops the run" if told else "is kept to itself: `cancel_run`",
        long_call="kept alive by progress" if sdk.resets else "limit stands: `get_run`",
    )
    assert asdict(row) == external_file(OBSERVED / f"{sdk}.json")


def is_answered(client: RemoteClient, ollama: ScriptedOllama) -> None:
    answer = f"`{CLASS}` is defined in jobs/secret.py, line 6."
    ollama.expect(found(answer))
    # The SDK for TypeScript drops the progress that comes together with the result.
    ollama.expect(Answer(second(answer), gap_seconds=0.05))
    call = client.call("plan_and_answer", prompt=f"What is {CLASS}, and in which file?")
    assert (call.report["status"], call.report["answer"]) == ("answered", answer)
    assert call.text.startswith(answer)
    assert any(each.startswith("Started with ") for each in call.progress)
    assert any(line.startswith("search ") and CLASS in line for line in call.progress)
    assert any(each.startswith("Answer so far: ") for each in call.progress)
    assert call.run_id == call.report["run_id"]


def asks_its_person(client: RemoteClient, ollama: ScriptedOllama) -> None:
    note = {"text": "bring milk"}
    ollama.expect(conclusion("It is noted."), contains=["bring milk"])
    call = client.call("run_step", prompt="Note it", tool="append_note", arguments=note)
    (asked,) = call.asked
    assert 'text: "bring milk"' in asked
    made = f"append_note {json.dumps(note)}"
    assert call.text.startswith(beside_record("It is noted.", made))
    whole = client.call("get_run", run_id=call.report["run_id"], whole=True).report
    (decided,) = [each for action in whole["actions"] for each in action["tool_calls"]]
    assert (decided["approval"]["approved"], decided["outcome"]) == (True, "SUCCESS")


def waits_while_progress_comes(client: RemoteClient, ollama: ScriptedOllama) -> None:
    """The answer takes longer than the client's limit, with a word of it now and then."""
    answer = f"`{FUNCTION}` is defined in jobs/secret.py, line 11."
    ollama.expect(Answer(found(answer), gap_seconds=LIMIT_SECONDS / 20))
    prompt = f"What is {FUNCTION}, and in which file?"
    begun = time.monotonic()
    call = client.call("plan_and_answer", prompt=prompt, limit_s=LIMIT_SECONDS, reset=True)
    assert time.monotonic() - begun > LIMIT_SECONDS, "the script is too short"
    assert call.error is None
    assert call.text.startswith(answer)


async def cancels(client: RemoteClient, ollama: ScriptedOllama) -> bool:
    """Whether the client's cancel reaches the server, and stops the run; else cancel_run does."""
    ollama.expect(Hang())
    come = len(ollama.requests)
    client.begin("plan_and_answer", prompt=f"Which methods has {CLASS}?")
    await ollama.arrived(come + 1)
    client.cancel()
    call = client.ended()
    assert call.error
    seen = client.call("get_run", run_id=call.run_id, wait_s=TELLS_CANCEL_SECONDS)
    status = seen.report["status"]
    if status == "running":
        status = client.call("cancel_run", run_id=call.run_id).report["status"]
        assert ollama.requests[come].hung_up.wait(TELLS_CANCEL_SECONDS)
        assert status == "cancelled"
        return False
    assert status == "interrupted"
    return True


def is_cut_off_and_finds_its_answer(client: RemoteClient, ollama: ScriptedOllama) -> None:
    answer = f"`{CONSTANT}` is {VALUE}, in jobs/secret.py, line 3."
    ollama.expect(Hang(then=json.dumps(found(answer))))
    prompt = f"What is {CONSTANT}, and in which file?"
    call = client.call("plan_and_answer", prompt=prompt, request_key="mine", limit_s=LIMIT_SECONDS)
    assert call.result is None
    assert "timed out" in str(call.error).lower()
    ollama.release()
    again = client.call("get_run", run_id=call.run_id)
    assert again.text.startswith(answer)
    same = client.call("plan_and_answer", prompt=prompt, request_key="mine")
    assert same.report["run_id"] == call.run_id
