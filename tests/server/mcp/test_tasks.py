"""Runs as tasks of the tasks extension, driven by FastMCP's own client half."""
# ruff: noqa: E501  texts stand as clients get them

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from inline_snapshot import snapshot
from mcp import MCPError
from mcp_types import Request, RequestParams, Result
from notes import CALL, CALL_IN_WORDS, Person, noted, report
from ollama_replies import Hang
from planted import CLASS, CONSTANT, VALUE
from replies import beside_record, conclusion, found, nowhere, plan
from scripted_ollama import ScriptedOllama
from serving import Place, normalised, served, until
from task_client import begin, taken_up, taking_tasks

from server.app import build
from server.auth import Tokens
from server.journal.base import RunWriter

pytestmark = pytest.mark.anyio

QUESTION = f"In which file is the class {CLASS} defined?"
ANSWER = "It is defined in jobs/secret.py."
ONE, OTHER = "one-" + "a" * 20, "other-" + "b" * 20


@asynccontextmanager
async def over(face: str, place: Place, person: Person | None = None) -> AsyncIterator[Client[Any]]:
    """A client that takes tasks, of a server over HTTP or in memory."""
    with ExitStack() as stack:
        server: FastMCP | str = build(place.settings)
        if face == "http":
            server = stack.enter_context(served(build(place.settings)))
        async with taking_tasks(server, person) as client:
            yield client


class AboutTask(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


async def ask_about(client: Client[Any], method: str, task_id: str, **more: Any) -> Any:
    """A request about a task, as it stands on the wire."""
    params = AboutTask(task_id=task_id, **more)
    return await client.session.send_request(
        Request[AboutTask, str](method=method, params=params), Result
    )


@pytest.mark.parametrize("face", ["memory", "http"])
async def test_a_run_is_a_task_and_its_message_is_the_current_step(
    face: str, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(nowhere())
    ollama.expect(plan("read_file", "Look for its uses"))
    ollama.expect({"path": "jobs/secret.py"})
    ollama.expect(Hang(then=json.dumps(conclusion("It can be said."))))
    ollama.expect(found(f"{CONSTANT} is {VALUE}."))
    async with over(face, place) as client:
        call = {"prompt": f"What does {CLASS} return?"}
        task = await begin(client, "plan_and_answer", call)
        created = task.create_result
        await ollama.arrived(4)
        working = await task.status()
        ollama.release()
        result = await task.result()
        ended = await task.status()
        by_id = await client.call_tool("get_run", {"run_id": task.task_id})
    assert (created.status, created.ttl_ms, created.poll_interval_ms) == (
        "working",
        30 * 86_400_000,
        1000,
    )
    assert (working.status, normalised(working.status_message)) == snapshot(
        ("working", "Step 1 of 2: read_file returned 12 lines in 0.0 s")
    )
    assert working.created_at == created.created_at <= working.last_updated_at
    assert (ended.status, ended.status_message) == ("completed", "Finished: answered")
    assert report(result)["answer"] == f"{CONSTANT} is {VALUE}."
    assert report(result)["run_id"] == task.task_id
    assert result.structured_content == by_id.structured_content


async def test_a_call_that_waits_for_its_task_gets_the_report(
    place: Place, ollama: ScriptedOllama
) -> None:
    """What the client half does for a caller who knows nothing of tasks."""
    ollama.expect(found(ANSWER))
    async with taking_tasks(build(place.settings)) as client:
        result = await client.call_tool("plan_and_answer", {"prompt": QUESTION})
        listed = await client.call_tool("list_tools")
    assert report(result)["answer"] == ANSWER
    assert report(listed)["upstreams"]


@pytest.mark.parametrize("face", ["memory", "http"])
async def test_a_person_approves_a_call_through_the_task(
    face: str, notes_place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It is noted."), contains=["added"])
    person = Person(True)
    async with over(face, notes_place, person) as client:
        task = await begin(client, "run_step", CALL)
        asked = await task.wait(state="input_required")
        again = await task.status()
        assert noted(notes_place.project) == []
        result = await task.result()
        (key,) = asked.input_requests
        no = {"action": "decline"}
        await ask_about(client, "tasks/update", task.task_id, input_responses={key: no})
        after = await task.result()
    assert noted(notes_place.project) == [["hello", "nobody"]]
    assert again.input_requests == asked.input_requests  # one question, however often it is seen
    assert asked.input_requests[key]["method"] == "elicitation/create"
    assert [normalised(each) for each in person.shown] == snapshot(
        [
            """\
Planloom asks: may it make this call?

add_note of notes (write: it adds or changes something)
```text
text: "hello"
```
For run RUN: "Note hello". It is made once, exactly as shown. Without an answer within 120 s it is declined.\
"""
        ]
    )
    assert asked.status_message == snapshot(
        "approval is needed: add_note of notes (write: it adds or changes something), "
        'with text: "hello"'
    )
    note = beside_record("It is noted.", CALL_IN_WORDS)
    assert report(result)["answer"] == report(after)["answer"] == note


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (False, "the user said no"),
        ("decline", "the user said no"),
        ("cancel", "the user gave no answer"),
        (None, "nobody answered within 0.3 s"),
    ],
)
async def test_anything_but_a_yes_is_a_no_and_the_run_goes_on(
    answer: bool | str | None, reason: str, notes_place: Place, ollama: ScriptedOllama
) -> None:
    notes_place.approval = {"timeout_s": 120 if answer is not None else 0.3}
    ollama.expect(conclusion("Not noted.", success=False), contains=[f"Not approved: {reason}"])
    async with taking_tasks(build(notes_place.settings), Person(answer)) as client:
        task = await begin(client, "run_step", CALL)
        ended = await (task.wait() if answer is None else task.result())
        assert answer is not None or ended.status == "completed"
    assert noted(notes_place.project) == []


async def test_what_is_not_an_answer_to_the_open_question_changes_nothing(
    notes_place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It is noted."))
    yes = {"action": "accept", "content": {"approve": True}}
    async with taking_tasks(build(notes_place.settings), Person()) as client:
        task = await begin(client, "run_step", CALL)
        (key,) = (await task.wait(state="input_required")).input_requests
        await ask_about(client, "tasks/update", task.task_id, input_responses={"approval": yes})
        with pytest.raises(MCPError, match="an answer is the result of elicitation/create"):
            await ask_about(client, "tasks/update", task.task_id, input_responses={key: "yes"})
        assert (await task.status()).status == "input_required"
        assert noted(notes_place.project) == []
        await ask_about(client, "tasks/update", task.task_id, input_responses={key: yes})
        assert (await task.wait()).status == "completed"
    assert noted(notes_place.project) == [["hello", "nobody"]]


async def test_a_client_without_forms_is_not_asked(
    notes_place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(plan("count_notes"))
    ollama.expect(found("There are 0 notes."))
    async with taking_tasks(build(notes_place.settings)) as client:
        result = await client.call_tool("plan_and_answer", {"prompt": "How many notes are there?"})
    assert report(result)["answer"] == "There are 0 notes."
    assert not any("add_note" in str(request.messages) for request in ollama.requests)


@asynccontextmanager
async def waiting_for_its_model(
    place: Place, ollama: ScriptedOllama
) -> AsyncIterator[tuple[Client[Any], Any]]:
    """A client, and its task whose model does not answer."""
    ollama.expect(Hang())
    async with taking_tasks(build(place.settings)) as client:
        task = await begin(client, "plan_and_answer", {"prompt": QUESTION})
        await ollama.arrived()
        yield client, task


async def test_cancelling_the_task_ends_the_run_and_its_model_call(
    place: Place, ollama: ScriptedOllama
) -> None:
    async with waiting_for_its_model(place, ollama) as (client, task):
        await task.cancel()
        await until(ollama.requests[0].hung_up.is_set)
        ended = await task.status()
        with pytest.raises(ToolError, match="cancelled"):
            await task.result()
        await task.cancel()  # fine when it has ended
        run = await client.call_tool("get_run", {"run_id": task.task_id})
    assert ended.status == "cancelled"
    assert report(run)["status"] == "cancelled"


async def test_a_task_is_its_callers_only(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(found(ANSWER))
    with served(build(place.settings, auth=Tokens([ONE, OTHER]))) as url:
        async with (
            taking_tasks(url, auth=ONE) as one,
            taking_tasks(url, auth=OTHER) as other,
        ):
            task = await begin(one, "plan_and_answer", {"prompt": QUESTION})
            for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                with pytest.raises(MCPError, match="Task not found") as foreign:
                    await ask_about(other, method, task.task_id, input_responses={})
                with pytest.raises(MCPError) as unknown:
                    await ask_about(other, method, "0" * 32, input_responses={})
                same = str(unknown.value).replace("0" * 32, task.task_id)
                assert str(foreign.value) == same
            result = await task.result()
        headers = {
            "authorization": f"Bearer {ONE}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tasks/get",
            "mcp-name": "another",
        }
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {
                "extensions": {"io.modelcontextprotocol/tasks": {}}
            },
        }
        params = {"taskId": task.task_id, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": params}
        async with httpx2.AsyncClient() as http:
            routed = await http.post(url, json=body, headers=headers)
    assert report(result)["answer"] == ANSWER
    assert "Mcp-Name does not name the task" in routed.text.replace("mcp-name", "Mcp-Name")


async def test_without_the_extension_nothing_is_different(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(ANSWER))
    server = build(place.settings)
    async with Client(server) as modern, Client(server, mode="legacy") as legacy:
        result = await modern.call_tool("plan_and_answer", {"prompt": QUESTION})
        run_id = report(result)["run_id"]
        with pytest.raises(MCPError, match="The client did not declare"):
            await ask_about(modern, "tasks/get", run_id)
        with pytest.raises(MCPError, match="not available at protocol version"):
            await ask_about(legacy, "tasks/get", run_id)
    assert report(result)["answer"] == ANSWER


async def test_what_is_refused_is_no_task(place: Place) -> None:
    async with taking_tasks(build(place.settings)) as client:
        with pytest.raises(ToolError, match="prompt"):
            await client.call_tool("plan_and_answer", {"prompt": ""})
        with pytest.raises(ToolError, match="nope"):
            await client.call_tool("run_step", {"prompt": "p", "tool": "nope"})


async def test_a_task_goes_on_with_another_server_when_its_own_has_ended(
    place: Place, ollama: ScriptedOllama
) -> None:
    async with waiting_for_its_model(place, ollama) as (_, task):
        pass
    ollama.expect(found(ANSWER))
    async with taking_tasks(build(place.settings)) as client:
        task = taken_up(client, "plan_and_answer", task)
        assert (await task.status()).status == "working"
        result = await task.result()
    assert report(result)["answer"] == ANSWER


@pytest.mark.parametrize("called_again", [False, True])
async def test_a_task_that_goes_on_asks_again(
    called_again: bool,
    notes_place: Place,
    ollama: ScriptedOllama,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It came to its question before anybody was there to be asked: where the disk was slow, and
    in the second before its client looks at it."""
    flush = RunWriter.flush

    async def slow_flush(writer: RunWriter) -> bool:
        await anyio.sleep(0.3)
        return await flush(writer)

    async with over("memory", notes_place, Person(True)) as client:
        task = await begin(client, "run_step", CALL)
        await task.wait(state="input_required")
    monkeypatch.setattr(RunWriter, "flush", slow_flush)
    ollama.expect(conclusion("It is noted."))
    async with over("memory", notes_place, Person(True)) as client:
        task = (
            await begin(client, "run_step", CALL)
            if called_again
            else taken_up(client, "run_step", task)
        )
        await anyio.sleep(0.3)
        await task.result()
    assert noted(notes_place.project) == [["hello", "nobody"]]
