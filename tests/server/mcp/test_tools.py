"""The MCP server as its clients see it: in memory, over stdio and over HTTP, in both eras."""
# ruff: noqa: E501  texts stand as clients see them

import json
import logging
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from fastmcp import Client
from inline_snapshot import snapshot
from jsonschema import Draft202012Validator
from mcp import MCPError
from mcp_types import INVALID_PARAMS
from ollama_replies import Answer, Drop, Hang
from planted import ANSWER, CLASS, CONSTANT, QUESTION, SOURCE, VALUE
from replies import conclusion, found, nowhere, of_many_steps, plan, second
from scripted_ollama import FAST, FULL, Request, ScriptedOllama, hung_up
from serving import (
    FACES,
    FILES,
    FILES_LISTED,
    LONG,
    Called,
    Place,
    end,
    normalised,
    script_two_steps,
    text,
    until,
    upstream,
)

from planner import agent
from server.app import build
from server.config import Settings

pytestmark = pytest.mark.anyio

ONE_OF_EACH = ("memory", "memory-legacy", "stdio", "served", "served-legacy")


@pytest.fixture
def place(
    tmp_path: Path,
    ollama: ScriptedOllama,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Any:
    """With an upstream process of its own for tests over every face; the others share one."""
    faces = "face" in request.fixturenames
    shared = None if faces else request.getfixturevalue("shared_upstream")
    place = Place(tmp_path, ollama, shared=shared)
    monkeypatch.setenv("XDG_CACHE_HOME", place.environ["XDG_CACHE_HOME"])
    yield place
    assert [process.cmdline() for process in place.processes()] == []


# Over every face


@pytest.mark.parametrize("face", FACES)
async def test_a_question_is_answered_from_the_tools(
    face: str, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(ANSWER), model=FULL, contains=["jobs/secret.py:6 ", f"class {CLASS}:"])
    async with place.client(face) as caller:
        tools = {tool.name: tool for tool in await caller.client.list_tools()}
        result = await caller.call("plan_and_answer", prompt=QUESTION)
        with pytest.raises(MCPError) as unknown:
            await caller.call("plan_and_anser", prompt=QUESTION)
    report = result.whole
    assert report
    Draft202012Validator(tools["plan_and_answer"].output_schema or {}).validate(report)
    assert (report["status"], report["answer"]) == ("answered", ANSWER)
    assert text(result).startswith(ANSWER)
    assert "jobs/secret.py:6" in text(result)
    assert f"class {CLASS}:" in text(result)
    progress = caller.progress
    assert progress.numbers == [float(number) for number in range(1, len(progress.numbers) + 1)]
    assert [event["type"] for event in progress.events][:3] == [
        "run_started",
        "model_called",
        "brief_made",
    ]
    assert progress.events[-1]["type"] == "run_finished"
    assert progress.run_id == report["run_id"]
    assert unknown.value.error.code == INVALID_PARAMS
    assert unknown.value.error.message == snapshot(
        'There is no tool "plan_and_anser"; the tools are plan_and_answer, run_step, make_plan, get_run, steer_run, cancel_run, list_tools.'
    )


@pytest.mark.parametrize("face", ONE_OF_EACH)
async def test_a_client_that_gives_up_stops_its_run_and_what_it_does(
    face: str, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(Hang())
    trace = place.project / "trace.txt"
    async with place.client(face) as caller:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: caller.call("plan_and_answer", prompt=QUESTION))
            await ollama.arrived()
            await until(lambda: bool(caller.progress.meta))
            tasks.cancel_scope.cancel()
        assert await hung_up(ollama.requests[0])
        ended = await caller.call("get_run", run_id=caller.progress.run_id)
        async with anyio.create_task_group() as tasks:
            arguments = {"seconds": 3600, "trace": trace.name}
            tasks.start_soon(
                lambda: caller.call("run_step", prompt="Wait", tool="sleep", arguments=arguments)
            )
            await until(lambda: trace.exists() and trace.read_text() == "started")
            tasks.cancel_scope.cancel()
        await until(lambda: trace.read_text() == "cancelled")
    report = ended.whole
    assert report
    assert report["status"] == "interrupted"
    assert "plan_and_answer with the same prompt" in text(ended)


@pytest.mark.parametrize("face", ["memory", "stdio", "served"])
async def test_a_run_outlives_its_call_and_is_followed_or_ended_later(
    face: str, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(Hang(then=json.dumps(found(ANSWER))))
    ollama.expect(Hang())
    async with place.client(face) as caller:
        first = await caller.call("plan_and_answer", prompt=QUESTION, wait_s=0)
        assert first.whole
        run_id = first.whole["run_id"]
        assert first.whole["status"] == "running"
        assert f"get_run with run_id `{run_id}`" in text(first)
        await ollama.arrived()
        async with anyio.create_task_group() as tasks:  # a view that gives up is only a view
            tasks.start_soon(lambda: caller.call("get_run", run_id=run_id))
            await until(lambda: len(caller.progress.events) > 1)
            tasks.cancel_scope.cancel()
        second = await caller.call("plan_and_answer", prompt=f"What is {CONSTANT}?", wait_s=0.1)
        assert second.whole
        await ollama.arrived(2)
        hanging = next(each for each in ollama.requests if f"What is {CONSTANT}?" in each.last)
        ended = await caller.call("cancel_run", run_id=second.whole["run_id"])
        assert await hung_up(hanging)
        ollama.release()
        followed = await caller.call("get_run", run_id=run_id)
        again = await caller.call("cancel_run", run_id=run_id)
    for result, status in ((ended, "cancelled"), (followed, "answered"), (again, "answered")):
        assert result.whole
        assert result.whole["status"] == status
    assert text(followed).startswith(ANSWER)


# What a client is told of the tools


async def test_tools_say_what_they_are(place: Place) -> None:
    async with place.client() as caller:
        modern = await caller.client.list_tools()
    async with place.client("memory-legacy") as caller:
        legacy = await caller.client.list_tools()
    shown = [
        tool.model_dump(
            mode="json",
            by_alias=True,
            exclude_none=True,
            include={"name", "title", "description", "annotations", "input_schema"},
        )
        for tool in modern
    ]
    assert [tool.name for tool in legacy] == [tool.name for tool in modern]
    assert [tool.input_schema for tool in legacy] == [tool.input_schema for tool in modern]
    assert all(tool.output_schema for tool in modern)
    assert all(
        "description" in argument
        for tool in modern
        for argument in tool.input_schema["properties"].values()
    )
    shown[0]["description"] = shown[0]["description"].replace(str(place.project), "PROJECT")
    first = shown[0]["inputSchema"]["properties"]
    for tool in shown[1:]:
        arguments = tool["inputSchema"]["properties"]
        for same in [name for name in arguments if arguments[name] == first.get(name)]:
            arguments[same] = "as above"
    assert shown == snapshot(
        [
            {
                "name": "plan_and_answer",
                "title": "Plan and answer",
                "description": """\
Answer a question about the project in PROJECT: its code, files and libraries. An agent with small local models plans, searches and reads with its own tools, and returns the answer with the lines that support it. It changes something only if the prompt asks for it and the user approves the call, unless the operator allows changes without asking.
If this call is cut off, for example by a time limit, call it again with the same prompt: the run goes on where it stopped.\
""",
                "inputSchema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "prompt": {
                            "description": "The question or task, complete in itself: this agent sees nothing else of your conversation. Example: 'In which file and line is parse_url defined?'",
                            "type": "string",
                        },
                        "wait_s": {
                            "default": 45.0,
                            "description": "Seconds to wait for the end. After that the call returns with status 'running' and a run_id, and get_run waits on.",
                            "maximum": 86400,
                            "minimum": 0,
                            "type": "number",
                        },
                        "max_iterations": {
                            "default": 10,
                            "description": "Limit of tool calls; after the last one the run answers.",
                            "maximum": 100,
                            "minimum": 1,
                            "type": "integer",
                        },
                        "max_seconds": {
                            "default": 600.0,
                            "description": "Time limit of the whole run in seconds, even when no client is waiting.",
                            "exclusiveMinimum": 0,
                            "maximum": 86400,
                            "type": "number",
                        },
                        "max_model_tokens": {
                            "default": 120000,
                            "description": "Limit of tokens in the prompts and replies of all model calls.",
                            "minimum": 1000,
                            "type": "integer",
                        },
                        "data_schema": {
                            "anyOf": [
                                {"additionalProperties": True, "type": "object"},
                                {"type": "null"},
                            ],
                            "default": None,
                            "description": 'A JSON Schema: the answer then comes as `data` that fits it too. Example: {"type": "object", "properties": {"file": {"type": "string"}, "line": {"type": "integer"}}, "required": ["file", "line"]}',
                        },
                        "policy": {
                            "description": "read_only: tools that only read. ask: others too, each call after the user approved it, if your client can ask (elicitation). allow: without asking where the operator's file permits it.",
                            "enum": ["read_only", "ask", "allow"],
                            "type": "string",
                            "default": "ask",
                        },
                        "run_id": {
                            "anyOf": [{"maxLength": 100, "type": "string"}, {"type": "null"}],
                            "default": None,
                            "description": "The run_id of a report: go on with its run, which knows what was found so far, instead of starting one.",
                        },
                        "request_key": {
                            "anyOf": [
                                {"maxLength": 200, "minLength": 1, "type": "string"},
                                {"type": "null"},
                            ],
                            "default": None,
                            "description": "A name of your own for this request, such as a UUID. The same call with the same key gives the same run, and cancelling the call does not stop it. Not with run_id.",
                        },
                    },
                    "required": ["prompt"],
                },
                "annotations": {
                    "readOnlyHint": False,
                    "destructiveHint": True,
                    "idempotentHint": False,
                    "openWorldHint": True,
                },
            },
            {
                "name": "run_step",
                "title": "Run one step",
                "description": """\
Make one tool call and say what its result means for the prompt, for clients that plan
the steps themselves. Give the prompt alone, or the tool and its arguments too. With the
run_id of a step, or of make_plan, the next step is made in the same run; plan_and_answer
with that run_id concludes from all steps.\
""",
                "inputSchema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "prompt": {
                            "default": "",
                            "description": "What this step should find out, complete in itself. Optional with run_id: then the next planned step is made, or the interrupted one is finished.",
                            "type": "string",
                        },
                        "tool": {
                            "anyOf": [{"type": "string"}, {"type": "null"}],
                            "default": None,
                            "description": "The tool to call (see list_tools); null: let it choose.",
                        },
                        "arguments": {
                            "anyOf": [
                                {"additionalProperties": True, "type": "object"},
                                {"type": "null"},
                            ],
                            "default": None,
                            "description": "The tool's arguments; null: let the model write them.",
                        },
                        "wait_s": "as above",
                        "max_seconds": "as above",
                        "policy": "as above",
                        "run_id": "as above",
                        "request_key": "as above",
                    },
                },
                "annotations": {
                    "readOnlyHint": False,
                    "destructiveHint": True,
                    "idempotentHint": False,
                    "openWorldHint": True,
                },
            },
            {
                "name": "make_plan",
                "title": "Make a plan",
                "description": """\
Look around once and return a plan for the prompt (objective and steps) without running
it. run_step with its run_id makes the steps.\
""",
                "inputSchema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "prompt": "as above",
                        "wait_s": "as above",
                        "max_seconds": "as above",
                        "request_key": "as above",
                    },
                    "required": ["prompt"],
                },
                "annotations": {
                    "readOnlyHint": True,
                    "destructiveHint": False,
                    "idempotentHint": False,
                    "openWorldHint": True,
                },
            },
            {
                "name": "get_run",
                "title": "Follow a run",
                "description": """\
Wait for the end of a run for up to wait_s seconds and return its report; while it goes
on, what is new since the last call. Cancelling this call does not stop the run. When the
run waits for approval, the user is asked. Runs are found after a restart too.\
""",
                "inputSchema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "run_id": {
                            "description": "The run_id of a report.",
                            "maxLength": 100,
                            "type": "string",
                        },
                        "wait_s": "as above",
                        "iteration": {
                            "anyOf": [{"minimum": 0, "type": "integer"}, {"type": "null"}],
                            "default": None,
                            "description": "Return the whole tool result of this iteration instead, or its whole call while that waits for approval.",
                        },
                        "whole": {
                            "default": False,
                            "description": "Return the whole report: each action, model call and upstream.",
                            "type": "boolean",
                        },
                    },
                    "required": ["run_id"],
                },
                "annotations": {
                    "readOnlyHint": True,
                    "idempotentHint": True,
                    "openWorldHint": False,
                },
            },
            {
                "name": "steer_run",
                "title": "Steer a run",
                "description": """\
Say something to a run that is under way: a hint, steps to skip, another order. It takes
effect at the run's next decision; get_run shows when. To stop the run use cancel_run.\
""",
                "inputSchema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "run_id": {
                            "description": "The run_id of a report.",
                            "maxLength": 100,
                            "type": "string",
                        },
                        "hint": {
                            "default": "",
                            "description": "Words for the run's models, as an addition to the request. Example: 'Look in server/ rather than in tests/.'",
                            "maxLength": 500,
                            "type": "string",
                        },
                        "skip": {
                            "default": [],
                            "description": "Later steps not to do: their numbers in the report.",
                            "items": {"type": "integer"},
                            "maxItems": 20,
                            "type": "array",
                        },
                        "order": {
                            "default": [],
                            "description": "Later steps to do first, in this order: numbers.",
                            "items": {"type": "integer"},
                            "maxItems": 20,
                            "type": "array",
                        },
                    },
                    "required": ["run_id"],
                },
                "annotations": {
                    "readOnlyHint": False,
                    "destructiveHint": False,
                    "idempotentHint": False,
                    "openWorldHint": False,
                },
            },
            {
                "name": "cancel_run",
                "title": "Cancel a run",
                "description": "End a run and return the report of what it found; one that has ended stays as it is.",
                "inputSchema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "run_id": {
                            "description": "The run_id of a report.",
                            "maxLength": 100,
                            "type": "string",
                        }
                    },
                    "required": ["run_id"],
                },
                "annotations": {
                    "readOnlyHint": False,
                    "destructiveHint": False,
                    "idempotentHint": True,
                    "openWorldHint": False,
                },
            },
            {
                "name": "list_tools",
                "title": "List the upstreams and their tools",
                "description": "The upstream servers with their state, and their tools with safety class and priority.",
                "inputSchema": {"type": "object", "additionalProperties": False, "properties": {}},
                "annotations": {
                    "readOnlyHint": True,
                    "idempotentHint": True,
                    "openWorldHint": False,
                },
            },
        ]
    )


# A whole run


async def test_progress_of_a_whole_run(place: Place, ollama: ScriptedOllama) -> None:
    script_two_steps(ollama)
    async with place.client() as caller:
        await caller.call("plan_and_answer", prompt=f"What does {CLASS} return?")
    assert [normalised(message) for message in caller.progress.messages] == snapshot(
        [
            "Started with 6 read-only tools",
            "qwen2.5-coder:1.5b read the request (N tokens in, N out, 0 s)",
            "looking for value",
            "Next is search: find VeryUniqueClassName_Phoenix_2025_QW3RTY, value, return",
            "search VeryUniqueClassName_Phoenix_2025_QW3RTY, value, return",
            "search returned 5 lines in 0.0 s",
            "found 4 passages: jobs/secret.py:6, jobs/secret.py:11-12, jobs/secret.py:8, jobs/secret.py:3",
            "Answer so far: No line says it.",
            "qwen2.5-coder:1.5b tried the answer (N tokens in, N out, 0.0 s)",
            "qwen2.5-coder:1.5b said what else to search for (N tokens in, N out, 0.0 s)",
            "Next is search: find VeryUniqueClassName_Phoenix_2025_QW3RTY, value, qqqq, zzzz, return",
            "search VeryUniqueClassName_Phoenix_2025_QW3RTY, value, qqqq, zzzz, return",
            "search returned 5 lines in 0.0 s",
            "no new passage was found",
            "qwen2.5-coder:1.5b made a plan (N tokens in, N out, 0.0 s)",
            "Plan of 2 steps",
            "Step 1 of 2: Read the file",
            "Step 1 of 2: next is read_file: Read the file",
            "Step 1 of 2: qwen2.5-coder:1.5b wrote the arguments (N tokens in, N out, 0.0 s)",
            'Step 1 of 2: arguments {"path": "jobs/secret.py", "start_line": 1}',
            "Step 1 of 2: read_file jobs/secret.py (start_line 1)",
            "Step 1 of 2: read_file returned 12 lines in 0.0 s",
            "Step 1 of 2: qwen2.5-coder:1.5b weighed the result (N tokens in, N out, 0.0 s)",
            "Step 1 done: The file was read.",
            "Plan revised: no later steps",
            "Step 2 of 2: Look for its uses",
            "Step 2 of 2: next is search: Look for its uses",
            "Step 2 of 2: qwen2.5-coder:1.5b wrote the arguments (N tokens in, N out, 0.0 s)",
            'Step 2 of 2: arguments {"path": "jobs", "pattern": "standalone_unique_function_MNBVCX_777"}',
            "Step 2 of 2: search standalone_unique_function_MNBVCX_777 in jobs",
            "Step 2 of 2: search returned 1 line in 0.0 s",
            "Answer so far: `UNIQUE_CONSTANT_VERIFICATION_ZX9`",
            "Answer so far: `UNIQUE_CONSTANT_VERIFICATION_ZX9` is 48614.",
            "Step 2 of 2: qwen2.5-coder:1.5b tried the answer (N tokens in, N out, 0.0 s)",
            "Step 2 of 2: no result says 48614",
            "Answer so far: `UNIQUE_CONSTANT_VERIFICATION_ZX9`",
            "Answer so far: `UNIQUE_CONSTANT_VERIFICATION_ZX9` is 48613.",
            "Step 2 of 2: qwen2.5-coder:1.5b tried the answer again (N tokens in, N out, 0.0 s)",
            "Step 2 of 2: qwen2.5-coder:1.5b read the results again (N tokens in, N out, 0.0 s)",
            "Step 2 done",
            "Finished: answered",
        ]
    )


async def test_a_list_of_questions_is_answered_one_by_one(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(ANSWER), model=FULL)
    ollama.expect(found(f"{CONSTANT} is {VALUE}."), model=FULL)
    asked = f"Please answer: 1. {QUESTION} 2. What is {CONSTANT}?"
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt=asked)
    report = result.whole
    assert report
    assert (report["status"], report["answer"]) == (
        "answered",
        f"1. {ANSWER}\n2. {CONSTANT} is {VALUE}.",
    )
    assert [line for line in caller.progress.messages if line.startswith("Item")] == snapshot(
        [
            "Item 1 of 2: Please answer: What is VeryUniqueClassName_Phoenix_2025_QW3RTY, and in which file?",
            "Item 2 of 2: Please answer: What is UNIQUE_CONSTANT_VERIFICATION_ZX9?",
        ]
    )
    assert f"{CONSTANT} = {VALUE}" in text(result)
    assert f"class {CLASS}:" in text(result)


async def test_report_of_a_whole_run(place: Place, ollama: ScriptedOllama) -> None:
    script_two_steps(ollama)
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt=f"What does {CLASS} return?")
    report = result.whole
    assert report
    assert normalised(text(result)) == snapshot("""\
`UNIQUE_CONSTANT_VERIFICATION_ZX9` is 48613.

A plan has been created where the objective is: What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?

- [x] Read the file
- [x] Look for its uses

### Steps

1. Read the file
   The file was read.

### Evidence

1. `UNIQUE_CONSTANT_VERIFICATION_ZX9`: `jobs/secret.py:8`, step 0 (gathering), `search`
   ```text
   return UNIQUE_CONSTANT_VERIFICATION_ZX9
   ```
2. `UNIQUE_CONSTANT_VERIFICATION_ZX9`, `48613`: `jobs/secret.py:3`, step 0 (gathering), `search`
   ```text
   UNIQUE_CONSTANT_VERIFICATION_ZX9 = 48613
   ```

_Run RUN: 4 tool calls (0.0 s), 10 model calls (N prompt tokens, N of them cached, N generated, 0.0 s); 0.0 s in all; some 303 tokens of tool results read for an answer of 13_\
""")
    for action in report["actions"]:
        action["timestamp"] = action["timestamp"][:2] + "…"
        for call in action["tool_calls"]:
            call["execution_time"] = 0.0
    report["run_id"] = "RUN"
    for usage in (report["usage"], *report["usage"]["calls"]):
        for key in usage:
            usage[key] = 0 if "tokens" in key or "seconds" in key else usage[key]
    assert report == snapshot(
        {
            "run_id": "RUN",
            "goal": "answer",
            "status": "answered",
            "answer": "`UNIQUE_CONSTANT_VERIFICATION_ZX9` is 48613.",
            "draft": "",
            "data": None,
            "reason": None,
            "unsupported": [],
            "done": [],
            "objective": "What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?",
            "steps": [
                {
                    "number": 1,
                    "objective": "Read the file",
                    "status": "completed",
                    "success": True,
                    "change": "",
                    "notes": "The file was read.",
                },
                {
                    "number": 2,
                    "objective": "Look for its uses",
                    "status": "completed",
                    "success": True,
                    "change": "",
                    "notes": "",
                },
            ],
            "steering": [],
            "actions": [
                {
                    "iteration": 0,
                    "step": 0,
                    "timestamp": "20…",
                    "mode": "fast",
                    "thinking": "",
                    "planning": "",
                    "reflection": "",
                    "approach": "What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?",
                    "prompt": "find VeryUniqueClassName_Phoenix_2025_QW3RTY, value, return",
                    "tool_calls": [
                        {
                            "name": "search",
                            "upstream": "files",
                            "args": {
                                "pattern": "(?i)VeryUniqueClassName_Phoenix_2025_QW3RTY|valu|uniqu|class|phoenix|return"
                            },
                            "in_words": "VeryUniqueClassName_Phoenix_2025_QW3RTY, value, return",
                            "approval": None,
                            "result": """\
jobs/secret.py:3: UNIQUE_CONSTANT_VERIFICATION_ZX9 = 48613
jobs/secret.py:6: class VeryUniqueClassName_Phoenix_2025_QW3RTY:
jobs/secret.py:8:         return UNIQUE_CONSTANT_VERIFICATION_ZX9
jobs/secret.py:11: def standalone_unique_function_MNBVCX_777() -> int:
jobs/secret.py:12:     return VeryUniqueClassName_Phoenix_2025_QW3RTY().run()\
""",
                            "outcome": "SUCCESS",
                            "outcome_text": "5 lines",
                            "execution_time": 0.0,
                            "insights": "",
                            "learning": "5 new lines",
                            "relevance": "high",
                        }
                    ],
                    "synthesis": "",
                    "progress": "advancing",
                    "hypothesis": {"belief": "", "test": ""},
                },
                {
                    "iteration": 1,
                    "step": 0,
                    "timestamp": "20…",
                    "mode": "fast",
                    "thinking": "",
                    "planning": "",
                    "reflection": "",
                    "approach": "What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?",
                    "prompt": "find VeryUniqueClassName_Phoenix_2025_QW3RTY, value, qqqq, zzzz, return",
                    "tool_calls": [
                        {
                            "name": "search",
                            "upstream": "files",
                            "args": {
                                "pattern": "(?i)VeryUniqueClassName_Phoenix_2025_QW3RTY|valu|qqqq|zzzz|uniqu|class|phoenix|return"
                            },
                            "in_words": "VeryUniqueClassName_Phoenix_2025_QW3RTY, value, qqqq, zzzz, return",
                            "approval": None,
                            "result": """\
jobs/secret.py:3: UNIQUE_CONSTANT_VERIFICATION_ZX9 = 48613
jobs/secret.py:6: class VeryUniqueClassName_Phoenix_2025_QW3RTY:
jobs/secret.py:8:         return UNIQUE_CONSTANT_VERIFICATION_ZX9
jobs/secret.py:11: def standalone_unique_function_MNBVCX_777() -> int:
jobs/secret.py:12:     return VeryUniqueClassName_Phoenix_2025_QW3RTY().run()\
""",
                            "outcome": "SUCCESS",
                            "outcome_text": "5 lines",
                            "execution_time": 0.0,
                            "insights": "",
                            "learning": "nothing new",
                            "relevance": "high",
                        }
                    ],
                    "synthesis": "",
                    "progress": "stuck",
                    "hypothesis": {"belief": "", "test": ""},
                },
                {
                    "iteration": 2,
                    "step": 1,
                    "timestamp": "20…",
                    "mode": "fast",
                    "thinking": "",
                    "planning": "",
                    "reflection": "",
                    "approach": "What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?: Read the file",
                    "prompt": "Read the file",
                    "tool_calls": [
                        {
                            "name": "read_file",
                            "upstream": "files",
                            "args": {"path": "jobs/secret.py", "start_line": 1},
                            "in_words": "jobs/secret.py (start_line 1)",
                            "approval": None,
                            "result": '''\
"""Names that no model can guess."""

UNIQUE_CONSTANT_VERIFICATION_ZX9 = 48613


class VeryUniqueClassName_Phoenix_2025_QW3RTY:
    def run(self) -> int:
        return UNIQUE_CONSTANT_VERIFICATION_ZX9


def standalone_unique_function_MNBVCX_777() -> int:
    return VeryUniqueClassName_Phoenix_2025_QW3RTY().run()\
''',
                            "outcome": "SUCCESS",
                            "outcome_text": "12 lines",
                            "execution_time": 0.0,
                            "insights": "The file was read.",
                            "learning": "7 new lines",
                            "relevance": "high",
                        }
                    ],
                    "synthesis": "The file was read.",
                    "progress": "advancing",
                    "hypothesis": {"belief": "", "test": ""},
                },
                {
                    "iteration": 3,
                    "step": 2,
                    "timestamp": "20…",
                    "mode": "fast",
                    "thinking": "",
                    "planning": "",
                    "reflection": "",
                    "approach": "What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?: Look for its uses",
                    "prompt": "Look for its uses",
                    "tool_calls": [
                        {
                            "name": "search",
                            "upstream": "files",
                            "args": {
                                "path": "jobs",
                                "pattern": "standalone_unique_function_MNBVCX_777",
                            },
                            "in_words": "standalone_unique_function_MNBVCX_777 in jobs",
                            "approval": None,
                            "result": "jobs/secret.py:11: def standalone_unique_function_MNBVCX_777() -> int:",
                            "outcome": "SUCCESS",
                            "outcome_text": "1 line",
                            "execution_time": 0.0,
                            "insights": "`UNIQUE_CONSTANT_VERIFICATION_ZX9` is 48613.",
                            "learning": "nothing new",
                            "relevance": "medium",
                        }
                    ],
                    "synthesis": "",
                    "progress": "stuck",
                    "hypothesis": {"belief": "", "test": ""},
                },
            ],
            "evidence": [
                {
                    "iteration": 0,
                    "step": 0,
                    "tool": "search",
                    "source": "jobs/secret.py:8",
                    "claims": ["UNIQUE_CONSTANT_VERIFICATION_ZX9"],
                    "lines": ["return UNIQUE_CONSTANT_VERIFICATION_ZX9"],
                },
                {
                    "iteration": 0,
                    "step": 0,
                    "tool": "search",
                    "source": "jobs/secret.py:3",
                    "claims": ["UNIQUE_CONSTANT_VERIFICATION_ZX9", "48613"],
                    "lines": ["UNIQUE_CONSTANT_VERIFICATION_ZX9 = 48613"],
                },
            ],
            "questions": [],
            "warnings": [],
            "guards": ["grounding: no result says 48614"],
            "usage": {
                "seconds": 0,
                "model_calls": 10,
                "prompt_tokens": 0,
                "cached_tokens": 0,
                "cached_told": True,
                "generated_tokens": 0,
                "model_seconds": 0,
                "tool_calls": 4,
                "tool_seconds": 0,
                "calls": [
                    {
                        "role": "brief",
                        "model": "qwen2.5-coder:1.5b",
                        "prompt_tokens": 0,
                        "cached_tokens": 0,
                        "generated_tokens": 0,
                        "load_seconds": 0,
                        "prefill_seconds": 0,
                        "decode_seconds": 0,
                    },
                    {
                        "role": "answer",
                        "model": "qwen2.5-coder:1.5b",
                        "prompt_tokens": 0,
                        "cached_tokens": 0,
                        "generated_tokens": 0,
                        "load_seconds": 0,
                        "prefill_seconds": 0,
                        "decode_seconds": 0,
                    },
                    {
                        "role": "words",
                        "model": "qwen2.5-coder:1.5b",
                        "prompt_tokens": 0,
                        "cached_tokens": 0,
                        "generated_tokens": 0,
                        "load_seconds": 0,
                        "prefill_seconds": 0,
                        "decode_seconds": 0,
                    },
                    {
                        "role": "plan",
                        "model": "qwen2.5-coder:1.5b",
                        "prompt_tokens": 0,
                        "cached_tokens": 0,
                        "generated_tokens": 0,
                        "load_seconds": 0,
                        "prefill_seconds": 0,
                        "decode_seconds": 0,
                    },
                    {
                        "role": "arguments",
                        "model": "qwen2.5-coder:1.5b",
                        "prompt_tokens": 0,
                        "cached_tokens": 0,
                        "generated_tokens": 0,
                        "load_seconds": 0,
                        "prefill_seconds": 0,
                        "decode_seconds": 0,
                    },
                    {
                        "role": "decide",
                        "model": "qwen2.5-coder:1.5b",
                        "prompt_tokens": 0,
                        "cached_tokens": 0,
                        "generated_tokens": 0,
                        "load_seconds": 0,
                        "prefill_seconds": 0,
                        "decode_seconds": 0,
                    },
                    {
                        "role": "arguments",
                        "model": "qwen2.5-coder:1.5b",
                        "prompt_tokens": 0,
                        "cached_tokens": 0,
                        "generated_tokens": 0,
                        "load_seconds": 0,
                        "prefill_seconds": 0,
                        "decode_seconds": 0,
                    },
                    {
                        "role": "answer",
                        "model": "qwen2.5-coder:1.5b",
                        "prompt_tokens": 0,
                        "cached_tokens": 0,
                        "generated_tokens": 0,
                        "load_seconds": 0,
                        "prefill_seconds": 0,
                        "decode_seconds": 0,
                    },
                    {
                        "role": "repair",
                        "model": "qwen2.5-coder:1.5b",
                        "prompt_tokens": 0,
                        "cached_tokens": 0,
                        "generated_tokens": 0,
                        "load_seconds": 0,
                        "prefill_seconds": 0,
                        "decode_seconds": 0,
                    },
                    {
                        "role": "again",
                        "model": "qwen2.5-coder:1.5b",
                        "prompt_tokens": 0,
                        "cached_tokens": 0,
                        "generated_tokens": 0,
                        "load_seconds": 0,
                        "prefill_seconds": 0,
                        "decode_seconds": 0,
                    },
                ],
            },
            "spared": {
                "characters": 1060,
                "tokens": 303,
                "answer_characters": 44,
                "answer_tokens": 13,
            },
            "upstreams": [
                {
                    "name": "files",
                    "state": "ready",
                    "tools": 8,
                    "error": None,
                    "held": [],
                    "unreadable": [],
                }
            ],
        }
    )


async def test_make_plan(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(plan("read_file", "Look for its uses"))
    async with place.client() as caller:
        result = await caller.call("make_plan", prompt=f"What does {CLASS} return?")
    assert result.whole
    steps = [(step["status"], step["objective"]) for step in result.whole["steps"]]
    assert steps == [("current", "Read the file"), ("later", "Look for its uses")]
    _, told = normalised(text(result)).split("\n\n", 1)
    assert told == snapshot("""\
Call run_step with run_id `RUN` to make the first step.

A plan has been created where the objective is: What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?

- [~] Read the file
- [ ] Look for its uses

_Run RUN: 1 tool call (0.0 s), 1 model call (N prompt tokens, N of them cached, N generated, 0.0 s); 0.0 s in all; some 97 tokens of tool results read for an answer of 12_\
""")


# Progress


async def test_silence_is_filled_with_what_is_waited_for(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = ["-c", 'sleep 1; exec "$0" "$@"', FILES["command"], *FILES["args"]]
    place.upstreams = {"files": FILES | {"command": "sh", "args": late}}
    monkeypatch.setattr("server.mcp.progress_stream.HEARTBEAT_SECONDS", 0.01)
    ollama.expect(Hang(then=json.dumps(found(ANSWER))))
    async with place.client() as caller, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: caller.call("plan_and_answer", prompt=QUESTION))
        await until(lambda: "Waiting for the model, 0 s" in caller.progress.messages)
        ollama.release()
    waits = {message for message in caller.progress.messages if message.startswith("Waiting for")}
    assert {message.rpartition(",")[0] for message in waits} >= {
        "Waiting for the upstreams to start",
        "Waiting for the model",
    }
    assert caller.progress.numbers == sorted(set(caller.progress.numbers))
    assert all("planloom/run_id" in meta for meta in caller.progress.meta)


async def test_what_the_model_does_is_told_where_its_server_says_it(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch, reading: str
) -> None:
    monkeypatch.setattr("server.mcp.progress_stream.HEARTBEAT_SECONDS", 0.01)
    told = f"Waiting for the model ({reading})"
    ollama.expect(Hang(then=json.dumps(found(ANSWER))))
    async with place.client() as caller, anyio.create_task_group() as tasks:
        begun = await caller.call("plan_and_answer", prompt=QUESTION, wait_s=0)
        await ollama.arrived()
        run_id = (begun.structured_content or {})["run_id"]
        poll = await caller.call("get_run", run_id=run_id, wait_s=0)
        assert (poll.structured_content or {})["doing"].startswith(f"{told}, ")
        tasks.start_soon(lambda: caller.call("get_run", run_id=run_id))
        await until(lambda: any(each.startswith(told) for each in caller.progress.messages))
        ollama.release()


async def test_a_client_that_does_not_read_does_not_stall_its_run(place: Place) -> None:
    done = threading.Event()

    def answer(request: Request) -> Any:
        if reply := of_many_steps(request.properties, len(scripted.requests)):
            return reply
        done.set()
        return found("It is over.")

    with ScriptedOllama(handler=answer) as scripted:
        place.ollama = scripted
        server = place.popen("serve")
        assert server.stdin
        assert server.stdout
        try:
            for message in (
                {
                    "id": 1,
                    "method": "initialize",
                    "params": {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {},
                        "clientInfo": {"name": "deaf", "version": "1"},
                    },
                },
                {"method": "notifications/initialized"},
                {
                    "id": 2,
                    "method": "tools/call",
                    "params": {
                        "name": "plan_and_answer",
                        "arguments": {
                            "prompt": QUESTION,
                            "wait_s": 3600,
                            "max_iterations": 100,
                            "max_model_tokens": 10_000_000,
                        },
                        "_meta": {"progressToken": 7},
                    },
                },
            ):
                server.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
                server.stdin.flush()
            assert await anyio.to_thread.run_sync(done.wait, LONG)
            sent = 0
            for line in server.stdout:
                sent += len(line)
                if json.loads(line).get("id") == 2:
                    break
        finally:
            end(server)
    assert sent > 65_536  # more than a pipe holds: the server was held up, the run was not


# Single steps and the pool


async def test_run_step_calls_the_given_tool(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(conclusion(f"It is {VALUE}."), contains=[str(VALUE)])
    async with place.client() as caller:
        arguments = {"path": "jobs/secret.py"}
        result = await caller.call(
            "run_step", prompt=f"What is {CONSTANT}?", tool="read_file", arguments=arguments
        )
    report = result.whole
    assert report
    assert (report["status"], report["answer"]) == ("answered", f"It is {VALUE}.")
    (action,) = report["actions"]
    (call,) = action["tool_calls"]
    assert (call["name"], call["args"]) == ("read_file", arguments)
    assert (call["outcome"], call["result"]) == ("SUCCESS", SOURCE.strip())


async def test_run_step_lets_the_models_choose(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect({"tool": "say"}, model=FULL)
    ollama.expect({"text": "hello"})
    ollama.expect(conclusion("It said hello."), contains=["hello"])
    async with place.client() as caller:
        result = await caller.call("run_step", prompt="Greet me")
    assert result.whole
    assert result.whole["answer"] == "It said hello."


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            {"tool": "serch"},
            snapshot(
                'The tool "serch" does not exist. The nearest tools are: search, say, sleep. list_tools shows all.'
            ),
        ),
        (
            {"tool": "write_file", "arguments": {"path": "a", "text": "b"}},
            snapshot(
                'The tool "write_file" was refused: its safety class is destructive, so the user has to approve the call, and this client cannot ask (it does not declare elicitation). Open the list of runs in the browser view, or use `planloom ask` on a terminal.'
            ),
        ),
        (
            {"tool": "read_file", "arguments": {"file": "a"}},
            snapshot(
                'arguments: they do not fit read_file: Additional properties are not allowed (\'file\' was unexpected). Its input schema: {"type": "object", "additionalProperties": false, "properties": {"path": {"type": "string"}, "start_line": {"default": 1, "type": "integer"}, "end_line": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null}}, "required": ["path"]}'
            ),
        ),
        (
            {"arguments": {"path": "a"}},
            snapshot("arguments: they need a tool. Name the tool to call with them."),
        ),
        (
            {"tool": "read_file", "arguments": {"path": json.loads("[" * 150 + "]" * 150)}},
            snapshot(
                "arguments: lists and objects nest more than 100 deep, which is the limit. Give flatter ones."
            ),
        ),
    ],
)
async def test_run_step_refuses_what_cannot_be(
    place: Place, arguments: dict[str, Any], told: str
) -> None:
    async with place.client() as caller:
        assert await caller.error("run_step", prompt="Do it", **arguments) == told
    assert not (place.project / "a").exists()


async def test_list_tools(place: Place) -> None:
    place.upstreams |= {"broken": {"command": "no-such-command"}}
    async with place.client() as caller:
        result = await caller.call("list_tools")
    upstreams, _, tools = text(result).partition("### Tools\n\n")
    assert tools == FILES_LISTED
    assert upstreams == snapshot("""\
### Upstreams

- files: ready, 8 tools, 8 new and pinned
- broken: failed: no-such-command: No such file or directory; install it, or correct `command` or `cwd`

""")
    assert result.whole
    assert result.whole["tools"][0] == snapshot(
        {
            "name": "search",
            "upstream": "files",
            "safety": "read_only",
            "policy": "ask",
            "priority": 2,
            "description": "Search files for a regular expression; answers file:line: text.",
        }
    )


# Wrong input


@pytest.mark.parametrize("face", ["memory", "memory-legacy"])
async def test_wrong_input_is_told_in_one_line(
    face: str, place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("fastmcp"), "propagate", True)
    async with place.client(face) as caller:
        told = [
            await caller.error("plan_and_answer"),
            await caller.error("plan_and_answer", prompt=" \n"),
            await caller.error("plan_and_answer", prompt=["a", "b"]),
            await caller.error("plan_and_answer", prompt="a", max_iterations=1000),
            await caller.error("plan_and_answer", prompt="a", wait_s=-1, max_seconds="soon"),
            await caller.error("plan_and_answer", prompt="a", question="b"),
            await caller.error("run_step", prompt="a", tool="say", arguments="text"),
            await caller.error("steer_run", run_id="nope", skip=[*range(21)]),
            await caller.error("get_run", run_id="nope"),
            await caller.error("cancel_run", run_id="nope"),
            await caller.error("list_tools", all=True),
        ]
        for uri in ("run://nope", "run://nope/result/0"):
            with pytest.raises(MCPError, match="There is no run") as unknown:
                await caller.client.read_resource(uri)
            assert unknown.value.error.code == INVALID_PARAMS
        with pytest.raises(MCPError, match="There is no run") as unknown:
            await caller.client.get_prompt("look_at_run", {"run_id": "nope"})
        assert unknown.value.error.code == INVALID_PARAMS
    assert "Error" not in caplog.text  # it is the caller's fault, and he was told
    assert all("\n" not in line for line in told)
    assert told == snapshot(
        [
            "plan_and_answer: prompt is missing; give it.",
            "The prompt is empty. Say what you want to know.",
            "plan_and_answer: prompt: should be a valid string, not ['a', 'b'].",
            "plan_and_answer: max_iterations: should be less than or equal to 100, not 1000.",
            "plan_and_answer: wait_s: should be greater than or equal to 0, not -1. max_seconds: should be a valid number, not 'soon'.",
            "plan_and_answer: question is not an argument; the arguments are prompt, wait_s, max_iterations, max_seconds, max_model_tokens, data_schema, policy, run_id, request_key.",
            "run_step: arguments: should be an object, not 'text'.",
            "steer_run: skip: List should have at most 20 items, not [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, ….",
            'There is no run "nope". Run ids come with the report of plan_and_answer; ended runs are kept for 30 days at most.',
            'There is no run "nope". Run ids come with the report of plan_and_answer; ended runs are kept for 30 days at most.',
            "list_tools: all is not an argument; it takes none.",
        ]
    )


# Faults


async def test_no_model_server_is_an_error_that_says_what_to_do(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = place.settings
    dead = settings.models.model_copy(update={"host": "127.0.0.1:1"})
    auto = dead.model_copy(update={"backend": "auto"})
    monkeypatch.setattr("server.backends.embedded_installed", lambda: False)

    async def error(models: Any) -> str:
        changed: Settings = settings.model_copy(update={"models": models})
        async with Client(build(changed)) as client:
            result = await client.call_tool(
                "plan_and_answer", {"prompt": QUESTION}, raise_on_error=False
            )
        assert result.is_error
        return text(result)

    assert await error(dead) == snapshot(
        "Ollama does not answer at http://127.0.0.1:1; start it with `ollama serve`, or set OLLAMA_HOST to the address where it listens."
    )
    assert await error(auto) == snapshot(
        "No model server: Ollama does not answer at http://127.0.0.1:1, and the embedded models are not installed. Start Ollama (`ollama serve`, then `ollama pull qwen2.5-coder:1.5b`), or install them: pipx install --force '.[embedded]', in a checkout of Planloom"
    )


async def test_a_missing_model_is_an_error_that_says_what_to_do(place: Place) -> None:
    with ScriptedOllama(models=[FAST]) as ollama:
        place.ollama = ollama
        async with place.client() as caller:
            told = await caller.error("plan_and_answer", prompt=QUESTION)
    assert told.replace(ollama.url, "URL") == snapshot(
        "Ollama at URL does not have the model qwen2.5-coder:1.5b; run `ollama pull qwen2.5-coder:1.5b`, or name others with PLANLOOM_FAST_MODEL and PLANLOOM_FULL_MODEL."
    )


async def test_a_model_that_dies_leaves_what_was_found(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(Drop(after='{"assess'))
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt=QUESTION)
    report = result.whole
    assert report
    assert (result.is_error, report["status"]) == (False, "partial")
    assert "broke while" in report["reason"]
    assert f"class {CLASS}:" in report["answer"]
    assert "Traceback" not in text(result)


async def test_a_prompt_too_long_for_the_model_is_an_error_that_says_so(place: Place) -> None:
    async with place.client() as caller:
        told = await caller.error("plan_and_answer", prompt="word " * 100_000)
    assert told.startswith(
        "Could not find out: The request does not fit the 8192 tokens of qwen2.5"
    )
    assert "Shorten it, or raise num_ctx." in told
    assert max(len(json.dumps(meta)) for meta in caller.progress.meta) < 10_000


async def test_a_fault_of_ours_ends_one_run_only(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    ollama.expect(found(ANSWER))
    async with place.client() as caller:
        with monkeypatch.context() as patch:

            async def broken(*_: Any) -> None:
                raise IndexError("list index out of range")

            patch.setattr(agent, "run", broken)
            told = await caller.error("plan_and_answer", prompt=QUESTION)
        result = await caller.call("plan_and_answer", prompt=QUESTION)
    assert normalised(told) == snapshot("""\
The run ended because of a fault in Planloom itself (IndexError: list index out of range). The server's log has the details; please report it.

_Status: failed_

_Run RUN: 0 tool calls (0.0 s), 0 model calls (N prompt tokens, N generated, 0.0 s); 0.0 s in all_\
""")
    assert text(result).startswith(ANSWER)


async def test_an_upstream_that_does_not_start_is_reported_and_the_rest_is_used(
    place: Place, ollama: ScriptedOllama
) -> None:
    place.upstreams |= {"broken": {"command": "no-such-command"}, "exits": upstream(mode="exits")}
    ollama.expect(found(ANSWER), contains=[CLASS])
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt=QUESTION)
        told = await caller.error("run_step", prompt="Do it", tool="gone")
    report = result.whole
    assert report
    assert report["status"] == "answered"
    states = [(each["name"], each["state"]) for each in report["upstreams"]]
    assert states == [("files", "ready"), ("broken", "failed"), ("exits", "failed")]
    assert "Started with 6 read-only tools, without broken, exits" in caller.progress.messages
    assert "The tools of these upstreams are not available: broken, exits." in told


async def test_without_any_upstream_it_is_said_that_one_is_missing(
    place: Place, ollama: ScriptedOllama
) -> None:
    place.upstreams = {}
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt=QUESTION)
        listed = await caller.call("list_tools")
    assert result.whole
    assert result.whole["status"] == "not_found"
    assert text(result).startswith("Nothing can be looked up: this run has no tools.")
    assert text(listed) == snapshot("""\
### Upstreams

(none)

### Tools

(none)\
""")


# Limits


async def test_the_last_iteration_has_to_conclude(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(conclusion("Not seen yet.", success=False))
    async with place.client() as caller:
        result = await caller.call("run_step", prompt=QUESTION, tool="say", arguments={"text": "a"})
        assert result.whole
        ollama.expect(nowhere())
        ollama.expect(plan("say"))
        ollama.expect({"text": "hello"})
        ollama.expect(conclusion("Only hello.", success=False), contains=["hello"])
        result = await caller.call("plan_and_answer", prompt=QUESTION, max_iterations=1)
    assert result.whole
    assert result.whole["status"] == "partial"
    assert text(result).startswith(
        "Only hello.\n\n_Status: partial: the limit of 1 iterations was reached_"
    )


async def test_the_time_limit_yields_an_answer(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(Hang())
    ollama.expect(conclusion("So far nothing.", success=False))
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt=QUESTION, max_seconds=4)
    assert await hung_up(ollama.requests[0])
    assert result.whole
    assert result.whole["status"] == "partial"
    assert result.whole["reason"] == "the time limit of 4 s was reached"


async def test_an_answer_that_is_being_written_at_the_time_limit_is_kept(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(Hang(after=f'{{"assessment": "", "final_answer": "{ANSWER} It is'))
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt=QUESTION, max_seconds=4)
    assert result.whole
    assert (result.whole["status"], result.whole["answer"]) == ("partial", f"{ANSWER} […]")


async def test_the_token_limit_yields_an_answer(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(Answer(nowhere(), fields={"prompt_eval_count": 5000}))
    ollama.expect(conclusion(f"{CLASS} is a class."), contains=["jobs/secret.py"])
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt=QUESTION, max_model_tokens=2000)
    report = result.whole
    assert report
    assert (report["status"], report["answer"]) == ("partial", f"{CLASS} is a class.")
    assert report["reason"] == "the limit of 2000 model tokens was reached"


# HTTP


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_http_ends_its_runs_and_answers_before_it_ends(
    mode: str, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(Hang())
    with place.http() as (process, port):
        with suppress(Exception):  # a client's close fails once its server is gone
            url = f"http://127.0.0.1:{port}/mcp"
            async with Client(url, auth=place.token, mode=mode) as client:
                results: list[Any] = []

                async def call() -> None:
                    results.append(await client.call_tool("plan_and_answer", {"prompt": QUESTION}))

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(call)
                    await ollama.arrived()
                    process.terminate()
        _, errors = await anyio.to_thread.run_sync(process.communicate)
    # Within a whole run of the suite the last answer is now and then cut off before it arrives.
    assert [text(result).split()[0] for result in results] in ([], ["Interrupted"])
    assert process.returncode == -signal.SIGTERM
    assert b"Traceback" not in errors, errors.decode()
    assert await hung_up(ollama.requests[0])


# The answer while it is written


def report_of(result: Called) -> dict[str, Any]:
    report: dict[str, Any] | None = result.whole
    assert report
    return report


async def test_an_answer_is_told_while_it_is_written(place: Place, ollama: ScriptedOllama) -> None:
    begun = f'{{"final_answer": "The constant {CONSTANT} is '
    ollama.expect(Hang(after=begun, then=f'{VALUE}.", "found_in": "results"}}'))
    ollama.expect(second(f"{CONSTANT} is {VALUE}."))
    async with place.client() as client:
        started = await client.call("plan_and_answer", prompt=f"What is {CONSTANT}?", wait_s=0)
        run_id = report_of(started)["run_id"]
        draft = ""
        while not draft:
            short = (await client.call("get_run", run_id=run_id, wait_s=0)).structured_content or {}
            assert (short["status"], "answer" in short) == ("running", False)
            draft += short.get("draft", "")
            await anyio.sleep(0.02)
        client.progress.meta.clear()
        ollama.release()
        report = report_of(await client.call("get_run", run_id=run_id))
    assert (report["draft"], report["answer"]) == ("", f"The constant {CONSTANT} is {VALUE}.")
    deltas = [each for each in client.progress.events if each["type"] == "answer_delta"]
    assert draft + "".join(each["text"] for each in deltas) == report["answer"]
    assert not any(each["begins"] for each in deltas)
    assert deltas


# Warm before the first run


async def test_a_server_warms_up_while_its_upstreams_start(
    place: Place, ollama: ScriptedOllama
) -> None:
    for model in (FULL, FAST):
        ollama.expect("Y", model=model, contains=["Are you ready?"])
    settings = place.settings
    warm = settings.model_copy(
        update={"models": settings.models.model_copy(update={"warm_up": True, "fast": FAST})}
    )
    ollama.expect(found(ANSWER), contains=[QUESTION])
    async with Client(build(warm)) as client:
        await ollama.arrived(2)
        assert ollama.loaded == [FULL, FAST]
        await client.call_tool("plan_and_answer", {"prompt": QUESTION})
    full, fast, first = ollama.requests
    assert (full.model, fast.model) == (FULL, FAST)
    assert first.messages[0] == full.messages[0] == fast.messages[0]
    assert first.prompt.startswith(
        full.prompt.partition("Are you ready?")[0].rpartition("<|im_start|>")[0]
    )


async def test_a_warm_up_that_fails_keeps_nobody_from_asking(place: Place) -> None:
    settings = place.settings
    models = settings.models.model_copy(update={"warm_up": True, "full": "not-there:1b"})
    async with Client(build(settings.model_copy(update={"models": models}))) as client:
        assert await client.list_tools()
        result = await client.call_tool(
            "plan_and_answer", {"prompt": QUESTION}, raise_on_error=False
        )
    assert "run `ollama pull not-there:1b`" in text(result)
