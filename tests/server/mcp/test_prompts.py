"""What a user picks from in his client: prompts, resources, and completed arguments."""
# ruff: noqa: E501  texts stand as clients see them

import json
from typing import Any

import pytest
from fastmcp import Client
from inline_snapshot import snapshot
from mcp import MCPError
from mcp_types import (
    INVALID_PARAMS,
    EmbeddedResource,
    PromptReference,
    Resource,
    ResourceLink,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)
from planted import ANSWER, QUESTION
from replies import conclusion, found
from scripted_ollama import ScriptedOllama
from serving import Place, end, normalised, served, text

from server.app import build
from server.auth import Tokens

pytestmark = pytest.mark.anyio

ERAS = ("memory", "memory-legacy")
ONE, ANOTHER = "one-caller-0123456789abc", "another-caller-0123456789"
CLIENT = {"name": "old", "version": "1"}
LINES = "".join(f"Line {number} of many.\n" for number in range(1, 201))

SAY = {"prompt": "Read it.", "tool": "say", "arguments": {"text": LINES}}


async def answered(caller: Any, ollama: ScriptedOllama) -> str:
    ollama.expect(found(ANSWER))
    done = await caller.call("plan_and_answer", prompt=QUESTION)
    return str((done.structured_content or {})["run_id"])


@pytest.mark.parametrize("face", ERAS)
async def test_prompts_say_how_to_use_the_tools(
    face: str, place: Place, ollama: ScriptedOllama
) -> None:
    async with place.client(face) as caller:
        listed = await caller.client.list_prompts()
        one = await caller.client.get_prompt("plan", {"request": "Where is {it}?"})
        many = await caller.client.get_prompt(
            "plan_step_by_step", {"request": "Where is it?", "tool": "search"}
        )
        run_id = await answered(caller, ollama)
        run = await caller.client.get_prompt("look_at_run", {"run_id": run_id})
        with pytest.raises(Exception, match='There is no run "nope"'):
            await caller.client.get_prompt("look_at_run", {"run_id": "nope"})
        with pytest.raises(MCPError, match="plan: request is missing; give it") as missing:
            await caller.client.get_prompt("plan")
        assert missing.value.error.code == INVALID_PARAMS
        tools = {tool.name for tool in await caller.client.list_tools()}
    shown = {
        each.name: {argument.name: argument.description for argument in each.arguments or []}
        for each in listed
    }
    assert shown == {
        "plan": {"request": "The question or task, in your own words."},
        "plan_step_by_step": {
            "request": "The question or task, in your own words.",
            "tool": "A tool to begin with, if you know one.",
        },
        "look_at_run": {"run_id": "The id of the run; your client may offer those of the newest."},
    }
    assert "Args" not in "".join(each.description or "" for each in listed)
    said = [each.messages[0].content for each in (one, many)]
    texts = [each.text for each in said if isinstance(each, TextContent)]
    assert texts == snapshot(
        [
            """\
Have Planloom answer this: Where is {it}?

Call its tool plan_and_answer once, with this request as the prompt, complete in itself: Planloom sees nothing else of our conversation, so add what it has to know. Do not search or read files yourself in the meantime.
- If the status is "running", call get_run with the run_id until it is not.
- If I say something while it runs, pass it on with steer_run.
- Then tell me the answer, with the places that the evidence names. If the status is "partial" or "not_found", say what could not be found out, and do not fill it in from memory.
""",
            """\
Let us find this out step by step: Where is it?

You plan, and Planloom makes the steps:
1. Call its tool make_plan with this request as the prompt, and show me the plan in a few lines.
2. Call run_step with the run_id of the plan, once for each step (begin with the tool search). Say in the prompt what the step should find out, with full names and paths; name the tool and its arguments if you know \
them.
3. After each step tell me in a sentence what it found, and change the plan where that asks for it.
4. When the steps hold the answer, call plan_and_answer with the same run_id and this request as the prompt, and tell me its answer with the places that the evidence names.
""",
        ]
    )
    assert {"plan_and_answer", "get_run", "steer_run", "make_plan", "run_step"} <= tools
    report, words = (message.content for message in run.messages)
    assert isinstance(report, EmbeddedResource)
    assert isinstance(report.resource, TextResourceContents)
    assert report.resource.text.startswith(ANSWER)
    assert str(report.resource.uri) == f"run://{run_id}"
    assert isinstance(words, TextContent)
    assert f"plan_and_answer with the same prompt and run_id {run_id}" in words.text


@pytest.mark.parametrize("face", ERAS)
async def test_a_large_result_is_linked_and_read_whole(
    face: str, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It has `Line 200 of many.`"))
    async with place.client(face) as caller:
        done = await caller.call("run_step", **SAY)
        run_id = (done.structured_content or {})["run_id"]
        shown, link = done.content
        assert isinstance(link, ResourceLink)
        (whole,) = await caller.client.read_resource(link.uri)
        pasted = await caller.call("get_run", run_id=run_id, iteration=0)
        for wrong in ("1", "-1", "x", "1e9"):
            with pytest.raises(Exception, match="there are 1, counted from 0"):
                await caller.client.read_resource(f"run://{run_id}/result/{wrong}")
        templates = await caller.client.list_resource_templates()
    assert isinstance(shown, TextContent)
    assert "Line 150" not in shown.text
    assert isinstance(whole, TextResourceContents)
    assert whole.text == text(pasted)
    assert "Line 150 of many." in whole.text
    assert link.size == len(whole.text)
    described = link.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert {key: normalised(str(value)) for key, value in described.items()} == snapshot(
        {
            "name": "result-0",
            "title": "say Line 1 of many. Line 2 of many. Line 3 of many. Line 4 of many. Line 5 of m…",
            "uri": "run://RUN/result/0",
            "description": "The whole result of this tool call, of which the report contains the beginning.",
            "mimeType": "text/plain",
            "size": "3492",
            "type": "resource_link",
        }
    )
    assert [each.uri_template for each in templates] == [
        "run://{run_id}",
        "run://{run_id}/transcript",
        "run://{run_id}/result/{iteration}",
    ]


def test_a_client_that_knows_no_links_gets_none(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(conclusion("It has `Line 200 of many.`"))
    about = {"protocolVersion": "2025-03-26", "capabilities": {}}
    server = place.popen("serve")
    try:
        assert server.stdin
        assert server.stdout
        for message in (
            {"id": 1, "method": "initialize", "params": about | {"clientInfo": CLIENT}},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "run_step", "arguments": SAY}},
        ):
            server.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
            server.stdin.flush()
        replies = (json.loads(line) for line in server.stdout)
        result = next(each["result"] for each in replies if each.get("id") == 2)
    finally:
        end(server)
    assert [each["type"] for each in result["content"]] == ["text"]
    assert result["structuredContent"]["status"] == "answered"


async def runs(client: Client[Any]) -> list[Resource]:
    """Those among the resources that a client is listed."""
    return [each for each in await client.list_resources() if str(each.uri).startswith("run://")]


@pytest.mark.parametrize("face", ERAS)
async def test_the_newest_runs_are_listed(face: str, place: Place, ollama: ScriptedOllama) -> None:
    async with place.client(face) as caller:
        none = await runs(caller.client)
        first = await answered(caller, ollama)
        second = await answered(caller, ollama)
        listed = await runs(caller.client)
        (readable, _) = await caller.client.read_resource(listed[0].uri)
    assert none == []
    assert [str(each.uri) for each in listed] == [f"run://{second}", f"run://{first}"]
    assert [each.title for each in listed] == [QUESTION] * 2
    assert all((each.description or "").startswith("answered, 20") for each in listed)
    assert isinstance(readable, TextResourceContents)
    assert readable.text.startswith(ANSWER)


@pytest.mark.parametrize("face", ERAS)
async def test_arguments_are_completed(face: str, place: Place, ollama: ScriptedOllama) -> None:
    prompts = {
        name: PromptReference(type="ref/prompt", name=name)
        for name in ("plan", "plan_step_by_step", "look_at_run")
    }
    report, result = (
        ResourceTemplateReference(type="ref/resource", uri=uri)
        for uri in ("run://{run_id}", "run://{run_id}/result/{iteration}")
    )
    async with place.client(face) as caller:

        async def completed(ref: Any, name: str, value: str, **others: str) -> list[str]:
            found = await caller.client.complete(
                ref, {"name": name, "value": value}, context_arguments=others or None
            )
            return list(found.values)

        assert await completed(prompts["look_at_run"], "run_id", "") == []
        run_id = await answered(caller, ollama)
        for ref in (prompts["look_at_run"], report, result):
            assert await completed(ref, "run_id", run_id[:4]) == [run_id]
            assert await completed(ref, "run_id", "which FILE") == [run_id]
            assert await completed(ref, "run_id", "zzz") == []
        assert await completed(prompts["plan"], "request", "what is") == [QUESTION]
        assert await completed(prompts["plan"], "request", "why") == []
        assert await completed(prompts["plan_step_by_step"], "tool", "file") == [
            "read_file",
            "write_file",
        ]
        assert await completed(prompts["plan_step_by_step"], "tool", "s") == snapshot(
            ["search", "say", "sleep", "list_dir"]
        )
        assert await completed(result, "iteration", "", run_id=run_id) == ["0"]
        assert await completed(result, "iteration", "1", run_id=run_id) == []
        assert await completed(result, "iteration", "") == []
        assert await completed(report, "nothing", "x") == []


async def test_callers_see_their_own_runs_only(place: Place, ollama: ScriptedOllama) -> None:
    async with place.client() as caller:
        await answered(caller, ollama)
    with served(build(place.settings, auth=Tokens([ONE, ANOTHER]))) as url:
        ollama.expect(found(ANSWER))
        async with Client(url, auth=ONE) as one:
            done = await one.call_tool("plan_and_answer", {"prompt": QUESTION})
            own = await runs(one)
        async with Client(url, auth=ANOTHER) as another:
            others = await runs(another)
            ref = PromptReference(type="ref/prompt", name="look_at_run")
            completed = await another.complete(ref, {"name": "run_id", "value": ""})
    assert [str(each.uri) for each in own] == [f"run://{done.structured_content['run_id']}"]
    assert (others, list(completed.values)) == ([], [])
