"""The adapter for other model servers: on the wire, in whole runs, and with a real llama.cpp."""
# ruff: noqa: E501  texts stand as they are shown

import asyncio
import contextlib
import json
import re
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from fastmcp import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from messages import COLOUR, user
from ollama_replies import Answer, Drop, ErrorLine, Garbage, Hang, HttpError, NoEnd, Reply
from planted import ANSWER, CLASS, CONSTANT, FUNCTION, VALUE
from replies import found, move_on, nowhere, plan, second, words
from scripted_ollama import FAST, FULL, hung_up
from scripted_openai import ScriptedOpenAI
from serving import LONG, Place, SharedUpstream, script_two_steps, text

from planner.errors import ConfigError, ContextExceeded, ModelError, ModelUnavailable
from planner.models.base import ChatRequest, Message
from planner.models.embedded import WORKER
from planner.models.openai_chat import OpenAIClient, OpenAIModel, alternating
from planner.models.weights import fetch
from server.app import build
from server.backends import open_models
from server.cli.doctor import findings
from server.config import Settings
from server.config_file import load_settings

pytestmark = pytest.mark.anyio

KEY = "sk-local-0123456789abcdef"
QUESTION = f"In which file is {CLASS} defined?"


@pytest.fixture
def server() -> Iterator[ScriptedOpenAI]:
    with ScriptedOpenAI() as server:
        yield server


@contextlib.asynccontextmanager
async def model_of(
    server: ScriptedOpenAI,
    *,
    key: str | None = None,
    gap_seconds: float = LONG,
    context_tokens: int = 8192,
) -> AsyncIterator[OpenAIModel]:
    client = OpenAIClient(server.base, key=key, gap_seconds=gap_seconds)
    async with contextlib.aclosing(
        OpenAIModel(FULL, client, context_tokens=context_tokens)
    ) as model:
        yield model


# What goes over the wire


async def test_the_request(server: ScriptedOpenAI) -> None:
    server.expect({"colour": "red"})
    messages: list[Message] = [{"role": "system", "content": "Be brief."}, user("caf\udce9?")]
    async with model_of(server) as model:
        await model.chat(ChatRequest(messages, max_tokens=64, schema=COLOUR))
    assert server.sent == snapshot(
        [
            {
                "model": "qwen2.5-coder:1.5b",
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "caf??"},
                ],
                "max_tokens": 64,
                "temperature": 0,
                "seed": 0,
                "stream": True,
                "stream_options": {"include_usage": True},
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "reply",
                        "strict": True,
                        "schema": {
                            "type": "object",
                            "properties": {"colour": {"type": "string", "maxLength": 20}},
                            "required": ["colour"],
                        },
                    },
                },
            }
        ]
    )


async def test_the_reply_and_its_cost(server: ScriptedOpenAI) -> None:
    first = user("This is a long beginning that stays. " * 20)
    for _ in range(2):
        server.expect("One two three.")
    pieces: list[str] = []
    async with model_of(server) as model:
        cold = await model.chat(ChatRequest([first], max_tokens=99, on_text=pieces.append))
        warm = await model.chat(
            ChatRequest(
                [first, {"role": "assistant", "content": "One two three."}, user("And?")],
                max_tokens=9,
            )
        )
    assert pieces == ["One", " two", " three", "."]
    assert (cold.text, cold.finish, cold.generated_tokens) == ("One two three.", "stop", 4)
    assert (cold.cached_tokens, cold.cached_told) == (0, True)
    assert cold.prompt_tokens <= warm.cached_tokens < warm.prompt_tokens
    assert cold.decode_seconds > 0


@pytest.mark.parametrize("tells", [(), ("usage",), ("usage", "timings"), ("timings",)])
async def test_what_a_server_does_not_tell_is_estimated(tells: tuple[str, ...]) -> None:
    with ScriptedOpenAI(tells=tells) as server:
        server.expect(Answer("One two three.", done_reason="length"))
        async with model_of(server) as model:
            reply = await model.chat(ChatRequest([user("x" * 400)], max_tokens=4))
    assert reply.finish == "length"
    assert reply.cached_told == ("timings" in tells)
    assert reply.generated_tokens == (4 if "usage" in tells else 3)
    assert reply.prompt_tokens == pytest.approx(100, rel=0.2)
    if "timings" in tells:
        assert reply.decode_seconds == 0.2


@pytest.fixture(scope="module")
def echo() -> Iterator[ScriptedOpenAI]:
    with ScriptedOpenAI(handler=lambda request: Answer(request.last)) as server:
        yield server


@pytest.mark.parametrize("ends", [{"enough": lambda text: "three" in text}, {"until": 0.0}])
async def test_a_reply_ends_where_it_is_enough(server: ScriptedOpenAI, ends: Any) -> None:
    server.expect(Hang(after="One two three four "))
    async with model_of(server) as model:
        reply = await model.chat(ChatRequest([user("x")], max_tokens=9, **ends))
    assert (reply.text.split()[:1], reply.finish) == (["One"], "ended")
    assert await hung_up(server.requests[0])


@pytest.mark.parametrize(
    "fault",
    [ErrorLine("oh", "Half a "), Garbage(after="Half a "), Drop("Half a "), NoEnd("Half a ")],
)
async def test_what_was_written_of_a_reply_that_may_end_early_is_kept(
    server: ScriptedOpenAI, fault: Reply
) -> None:
    server.expect(fault)
    request = ChatRequest([user("x")], max_tokens=9, until=anyio.current_time() + 60)
    async with model_of(server) as model:
        reply = await model.chat(request)
    assert (reply.text, reply.finish) == ("Half a ", "ended")
    assert server.url in reply.fault


@settings(max_examples=40)
@given(st.text(min_size=1))
def test_any_text_goes_there_and_back_unchanged(echo: ScriptedOpenAI, said: str) -> None:
    async def ask() -> str:
        async with model_of(echo) as model:
            return (await model.chat(ChatRequest([user(said)], max_tokens=4096))).text

    assert anyio.run(ask) == said


# Faults


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (
            HttpError(400, "This model's maximum context length is 4096 tokens."),
            ContextExceeded,
            ["maximum context length is 4096", "shorter prompt"],
        ),
        (
            HttpError(
                400,
                b'{"error": {"code": 400, "message": "the request exceeds the available context '
                b'size. try increasing the context size", "type": "exceed_context_size_error"}}',
            ),
            ContextExceeded,
            ["available context size"],
        ),
        (
            ErrorLine(
                "Trying to keep the first 5000 tokens when context the overflows. However, the "
                "model is loaded with context length of only 4096 tokens"
            ),
            ContextExceeded,
            ["loaded with context length"],
        ),
        (HttpError(404, "The model `x` does not exist."), ModelUnavailable, ["Load it there"]),
        (HttpError(404, b"404 page not found"), ModelUnavailable, ["ends in /v1"]),
        (HttpError(401, f"Incorrect API key: {KEY}"), ModelUnavailable, ["PLANLOOM_MODEL_KEY"]),
        (HttpError(503, "Loading model"), ModelUnavailable, ["still loading: Loading model"]),
        (HttpError(429, "slow down"), ModelUnavailable, ["busy", "slow down"]),
        (HttpError(500, f"oh, {KEY}"), ModelError, ["HTTP 500", "oh, ***"]),
        (HttpError(502, b"<html>Oh no</html>"), ModelError, ["HTTP 502", "Oh no"]),
        (HttpError(500, b""), ModelError, ["no reason given"]),
        (ErrorLine("out of memory", after="Half a "), ModelError, ["while it was answering"]),
        (Garbage(after="Half a "), ModelError, ["does not speak the OpenAI chat API"]),
        (Garbage("data: {"), ModelError, ["does not speak the OpenAI chat API"]),
        (Garbage("data: [1]"), ModelError, ["does not speak the OpenAI chat API"]),
        (Garbage("data: " + "[" * 100_000), ModelError, ["does not speak the OpenAI chat API"]),
        (Garbage('error: {"code": 500, "message": "oh"}'), ModelError, [": oh."]),
        (NoEnd(after="Half a "), ModelError, ["before it was complete"]),
        (NoEnd(), ModelError, ["before it was complete"]),
        (Drop(after="Half a "), ModelUnavailable, ["broke while"]),
        (Drop(), ModelUnavailable, ["broke while"]),
    ],
)
async def test_a_fault_becomes_an_error_that_says_what_to_do(
    server: ScriptedOpenAI, fault: Reply, error: type[ModelError], words: list[str]
) -> None:
    server.expect(fault)
    server.expect("Fine.")
    async with model_of(server, key=KEY) as model:
        with pytest.raises(ModelError) as caught:
            await model.chat(ChatRequest([user("x")], max_tokens=9))
        assert (await model.chat(ChatRequest([user("x")], max_tokens=9))).text == "Fine."
    assert type(caught.value) is error
    message = str(caught.value)
    assert all(part in message for part in [*words, server.base]), message
    assert KEY not in message


@pytest.mark.parametrize("after", ["", "Half a "])
async def test_a_silent_server(server: ScriptedOpenAI, after: str) -> None:
    server.expect(Hang(after))
    async with model_of(server, gap_seconds=0.1) as model:
        with pytest.raises(ModelUnavailable, match=r"sent nothing for 0\.1 s"):
            await model.chat(ChatRequest([user("x")], max_tokens=9))
    await server.arrived()
    assert await hung_up(server.requests[0])


async def test_a_call_that_is_cancelled_stops_the_server(server: ScriptedOpenAI) -> None:
    server.expect(Hang("Half a "))
    async with model_of(server) as model, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: model.chat(ChatRequest([user("x")], max_tokens=9)))
        await server.arrived()
        tasks.cancel_scope.cancel()
    assert await hung_up(server.requests[0])


async def test_no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        base = f"http://127.0.0.1:{gone.getsockname()[1]}/v1"
    client = OpenAIClient(base)
    async with contextlib.aclosing(OpenAIModel(FULL, client, context_tokens=8192)) as model:
        for call in (model.load(), model.chat(ChatRequest([user("x")], max_tokens=9))):
            with pytest.raises(ModelUnavailable, match=f"does not answer at {base}; start it"):
                await call


async def test_a_prompt_that_the_server_cut_is_found() -> None:
    """LM Studio drops the middle of one that is too long, as long as it is not told otherwise."""
    long = "\n".join(f"{i}: the quick brown fox jumps over it" for i in range(1000))
    with ScriptedOpenAI() as server:
        server.expect(Answer("Red.", fields={"prompt_eval_count": 4000}))
        async with model_of(server) as model:
            with pytest.raises(ContextExceeded, match="read 4000 tokens of at least 7000"):
                await model.chat(ChatRequest([user(long)], max_tokens=9))


# Models that think


QUIET = ("chat_template_kwargs", "reasoning_effort")


async def test_a_model_that_thinks_is_asked_to_think_little(server: ScriptedOpenAI) -> None:
    for _ in range(2):
        server.expect(Answer("Red.", thinking="What is it? Red"))
    pieces: list[str] = []
    async with model_of(server) as model:
        for _ in range(2):
            request = ChatRequest([user("x")], max_tokens=99, on_text=pieces.append)
            reply = await model.chat(request)
            assert reply.text == "Red."
            assert 0 < reply.thinking_tokens < reply.generated_tokens
    assert "".join(pieces) == "Red.Red."
    assert [[name in each for name in QUIET] for each in server.sent] == [[False] * 2, [True] * 2]


@pytest.mark.parametrize(
    "reply",
    [HttpError(400, "Unknown parameter: chat_template_kwargs"), Answer("", thinking="It is red.")],
)
async def test_where_that_does_not_work_it_is_left_out(
    server: ScriptedOpenAI, reply: Reply
) -> None:
    """Some servers then take the reply for thoughts."""
    for each in (Answer("Red.", thinking="Hm."), reply, "Red.", "Red."):
        server.expect(each)
    async with model_of(server) as model:
        for _ in range(3):
            assert (await model.chat(ChatRequest([user("x")], max_tokens=99))).text == "Red."
    assert [QUIET[0] in each for each in server.sent] == [False, True, False, False]


async def test_an_object_in_place_of_thoughts_is_the_reply(server: ScriptedOpenAI) -> None:
    """LM Studio holds the thoughts of some models to the schema, and sends nothing else."""
    server.expect(Answer("", thinking='{"colour": "red"}', unconstrained=True))
    server.expect(Answer("", thinking="Red, I say.", unconstrained=True))
    request = ChatRequest([user("x")], max_tokens=99, schema=COLOUR)
    async with model_of(server) as model:
        reply = await model.chat(request)
    assert (reply.text, reply.thinking_tokens) == ('{"colour": "red"}', 0)
    async with model_of(server) as model:
        assert (await model.chat(request)).text == ""


# What a server does not take


async def test_a_server_that_takes_no_schema_is_asked_without(server: ScriptedOpenAI) -> None:
    with ScriptedOpenAI(refuses=["response_format"]) as server:
        for _ in range(2):
            server.expect("red")
        async with model_of(server) as model:
            for _ in range(2):
                assert (
                    await model.chat(ChatRequest([user("x")], max_tokens=9, schema=COLOUR))
                ).text == "red"
    assert ["response_format" in each for each in server.sent] == [True, False, False]


async def test_one_schema_that_is_refused_says_nothing_of_the_others(
    server: ScriptedOpenAI,
) -> None:
    server.expect(HttpError(400, "failed to parse grammar"))
    server.expect("red")
    server.expect({"colour": "red"})
    async with model_of(server) as model:
        for _ in range(2):
            await model.chat(ChatRequest([user("x")], max_tokens=9, schema=COLOUR))
    assert ["response_format" in each for each in server.sent] == [True, False, True]


async def test_a_template_that_wants_turns_gets_them() -> None:
    messages: list[Message] = [
        {"role": "system", "content": "S"},
        user("a"),
        user("b"),
        {"role": "assistant", "content": "c"},
        user("d"),
    ]
    with ScriptedOpenAI(takes_roles=False) as server:
        for _ in range(2):
            server.expect("Yes.")
        async with model_of(server) as model:
            for _ in range(2):
                await model.chat(ChatRequest(messages, max_tokens=9))
    assert [len(each["messages"]) for each in server.sent] == [5, 3, 3]
    assert server.sent[-1]["messages"] == snapshot(
        [
            {
                "role": "user",
                "content": """\
S

a

b\
""",
            },
            {"role": "assistant", "content": "c"},
            {"role": "user", "content": "d"},
        ]
    )


@given(st.lists(st.sampled_from(["user", "assistant"])), st.lists(st.just("user")))
def test_a_conversation_in_turns_begins_as_the_one_before(before: Any, more: Any) -> None:
    def written(roles: list[Any]) -> str:
        said: list[Message] = [{"role": role, "content": f"{n}."} for n, role in enumerate(roles)]
        return "".join(f"{each['role'][0]}{each['content']}" for each in alternating(said))

    assert written(before + more).startswith(written(before))


# Whole runs


@pytest.fixture
def place(tmp_path: Path, shared_upstream: SharedUpstream) -> Iterator[Place]:
    with ScriptedOpenAI(key=KEY) as server:
        yield ApiPlace(tmp_path, server, shared=shared_upstream)


class ApiPlace(Place):
    """A place whose models are those of the scripted server."""

    @property
    def environ(self) -> dict[str, str]:
        assert isinstance(self.ollama, ScriptedOpenAI)
        ours = {
            "PLANLOOM_BACKEND": "openai",
            "PLANLOOM_MODEL_URL": self.ollama.url,
            "PLANLOOM_MODEL_KEY": KEY,
        }
        return super().environ | ours


async def test_a_whole_run(place: Place) -> None:
    script_two_steps(place.ollama)
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt=f"What does {CLASS} return?")
    report = result.whole
    assert report
    assert (report["status"], report["answer"]) == ("answered", f"`{CONSTANT}` is {VALUE}.")
    assert report["usage"]["cached_tokens"] > 0
    assert report["usage"]["cached_told"]
    assert any("Answer so far" in message for message in caller.progress.messages)
    assert KEY not in json.dumps(report) + json.dumps(caller.progress.meta)


async def test_a_run_with_models_that_are_held_to_nothing(place: Place) -> None:
    """They wrap JSON into prose, write a dictionary or a tool call instead, add keys, and once say
    something else: that is asked for again."""
    server = place.ollama
    assert isinstance(server, ScriptedOpenAI)
    server.refuses = ["response_format"]
    fence = "Here you are:\n```json\n%s\n```"
    server.expect(fence % json.dumps({"search": ["value"], "wants": "short answer"}))
    server.expect(str(nowhere() | {"found_in": "Nowhere (no line says it)"}))
    server.expect(fence % json.dumps(words("qqqq", "zzzz")))
    server.expect("I would read the file.")
    server.expect(fence % json.dumps(plan("read_file", "Look for its uses") | {"sure": True}))
    server.expect("<think>Hm.</think>" + json.dumps({"path": "jobs/secret.py", "start_line": 1}))
    server.expect(fence % json.dumps(move_on("search", "Look for its uses") | {"final_answer": ""}))
    call = {"name": "search", "arguments": {"path": "jobs", "pattern": FUNCTION}}
    server.expect(f"<tool_call>{json.dumps(call)}</tool_call>")
    server.expect(fence % json.dumps(found(f"`{CONSTANT}` is {VALUE}.")))
    server.expect(json.dumps(second(f"{CONSTANT} is {VALUE}")))
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt=f"What does {CLASS} return?")
    report = result.whole
    assert report
    assert (report["status"], report["answer"]) == ("answered", f"`{CONSTANT}` is {VALUE}.")
    assert report["guards"] == snapshot(
        [
            "reply: qwen2.5-coder:1.5b: Invalid JSON: expected ident at line 1 column 2",
            "thinking: qwen2.5-coder:1.5b thinks before it replies, which makes runs slow. A model that does not think is faster.",
        ]
    )
    again = server.requests[4].last
    assert again[again.index("The reply before") :][:200] == snapshot("""\
The reply before was not usable: Invalid JSON: expected ident at line 1 column 2. Reply with one line of JSON and nothing else.
It has to fit this JSON Schema: {"type":"object","properties":{"steps":{\
""")


async def test_a_model_that_does_not_stop_is_stopped(place: Place) -> None:
    """Only the time limit of the run ended it."""
    endless = Answer("{" + " " * 3_000_000, unconstrained=True)
    with ScriptedOpenAI(handler=lambda request: endless) as place.ollama:
        async with place.client() as caller:
            result = await caller.call("plan_and_answer", prompt="What is 2 plus 3?")
    assert result.whole
    assert "did not end the reply" in result.whole["reason"]


async def test_a_server_that_dies_ends_the_run_with_what_was_found(place: Place) -> None:
    place.ollama.expect(Drop("Half a"))
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt=QUESTION)
    shown = text(result).replace(place.ollama.url, "URL")
    assert shown[: shown.index("\n")] == snapshot(
        "Could not find out: The connection to the model server at URL/v1 broke while `qwen2.5-coder:1.5b` was answering (RemoteProtocolError: peer closed connection without sending complete message body (incomplete chunked read)); see whether the server still runs, then try again."
    )
    assert re.search(rf":6\b.*\n *class {CLASS}", shown)


async def test_a_prompt_that_does_not_fit_is_made_shorter(tmp_path: Path) -> None:
    """By the context window that the server tells, not by the larger one of the settings."""
    plenty = "\n".join(f"{CLASS} {number}" for number in range(2000))
    with ScriptedOpenAI(windows={FAST: 2816, FULL: 2816}) as server:
        place = ApiPlace(tmp_path, server)
        (place.project / "jobs" / "uses.txt").write_text(plenty)
        for _ in range(3):
            server.expect(found(ANSWER))
        async with place.client() as caller:
            for _ in range(3):
                result = await caller.call("plan_and_answer", prompt=QUESTION)
                assert text(result).startswith(ANSWER)
    assert all(request.prompt_tokens < 2816 for request in server.requests)


# Settings


def of(place: Place, **environ: str) -> Settings:
    return load_settings(place.file, place.project, place.environ | environ)


async def test_the_models_that_a_server_has(place: Place) -> None:
    server = place.ollama
    models = await open_models(of(place).models)
    assert [model.name for model in models.distinct] == [FULL]
    await models.aclose()

    models = await open_models(of(place, PLANLOOM_FAST_MODEL=FAST).models)
    assert [model.name for model in models.distinct] == [FULL, FAST]
    assert models.full.context_tokens == 8192
    await models.aclose()

    server.models = ("only-one",)
    models = await open_models(of(place, PLANLOOM_BACKEND="auto").models)
    assert [model.name for model in models.distinct] == ["only-one"]
    await models.aclose()

    told = []
    for names, environ in (
        (("only-one",), {"PLANLOOM_FULL_MODEL": "qwen3"}),
        ((), {}),
        ((FAST, FULL), {"PLANLOOM_MODEL_KEY": "another"}),
        ((FAST, FULL), {"PLANLOOM_MODEL_URL": f"{server.url}/elsewhere"}),
    ):
        server.models = names
        with pytest.raises(ModelUnavailable) as error:
            await open_models(of(place, **environ).models)
        told.append(str(error.value).replace(server.url, "URL"))
    assert told == snapshot(
        [
            "The model server at URL/v1 does not have the model qwen3; it has only-one. Name one with PLANLOOM_FAST_MODEL and PLANLOOM_FULL_MODEL.",
            "The model server at URL/v1 does not have the model qwen2.5-coder:1.5b; it has no models; load one there. Name one with PLANLOOM_FAST_MODEL and PLANLOOM_FULL_MODEL.",
            "The model server at URL/v1 refused access (HTTP 401); set PLANLOOM_MODEL_KEY to a key it accepts.",
            "What answers at URL/elsewhere has no OpenAI API there (HTTP 404); set PLANLOOM_MODEL_URL to its base, most often one that ends in /v1.",
        ]
    )
    assert KEY not in str(told)


async def test_doctor_looks_at_the_server(place: Place) -> None:
    server = place.ollama
    assert isinstance(server, ScriptedOpenAI)

    async def found(**environ: str) -> list[tuple[str, str, str | None]]:
        seen = [finding async for finding in findings(of(place, **environ))]
        return [
            (
                each.what,
                each.detail.replace(server.url, "URL"),
                each.fix and each.fix.replace(server.url, "URL"),
            )
            for each in seen
            if each.what.startswith("model")
        ]

    server.windows = {FULL: 4096}
    assert await found() == snapshot(
        [
            ("model server", "2 models at URL/v1", None),
            (
                "model qwen2.5-coder:1.5b",
                "there, with a context of 4096 tokens (num_ctx: 8192)",
                None,
            ),
        ]
    )
    server.models = ("qwen3-4b", "gemma-3")
    assert await found(PLANLOOM_FAST_MODEL="gemma-3") == snapshot(
        [
            ("model server", "2 models at URL/v1", None),
            ("model gemma-3", "there", None),
            (
                "model qwen2.5-coder:1.5b",
                "missing",
                "The model server at URL/v1 does not have the model qwen2.5-coder:1.5b; it has qwen3-4b, gemma-3. Name one with PLANLOOM_FAST_MODEL and PLANLOOM_FULL_MODEL.",
            ),
        ]
    )
    told = await found(PLANLOOM_MODEL_KEY="another")
    assert told == snapshot(
        [
            (
                "model server",
                "cannot be used at URL/v1",
                "The model server at URL/v1 refused access (HTTP 401); set PLANLOOM_MODEL_KEY to a key it accepts.",
            )
        ]
    )


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        (
            {"PLANLOOM_MODEL_URL": ""},
            snapshot(
                "PLANLOOM_MODEL_URL: the backend `openai` needs it; write http://HOST:PORT/v1"
            ),
        ),
        (
            {"PLANLOOM_MODEL_URL": "127.0.0.1:1234"},
            snapshot(
                "PLANLOOM_MODEL_URL: is not the address of an API; write it as http://HOST:PORT/v1"
            ),
        ),
        (
            {"PLANLOOM_MODEL_URL": "http://127.0.0.1:99999"},
            snapshot(
                "PLANLOOM_MODEL_URL: is not the address of an API; write it as http://HOST:PORT/v1"
            ),
        ),
        (
            {"PLANLOOM_MODEL_KEY": "secret\n"},
            snapshot(
                "PLANLOOM_MODEL_KEY: has characters that an HTTP header cannot contain; give the key alone"
            ),
        ),
        (
            {"PLANLOOM_MODEL_URL": "http://me:secret@127.0.0.1:1234"},
            snapshot("PLANLOOM_MODEL_URL: contains a password; give it as the key instead"),
        ),
    ],
)
def test_a_wrong_setting_is_told(place: Place, environ: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as error:
        of(place, **environ)
    assert "secret" not in str(error.value)
    assert str(error.value) == told


def test_the_address_and_the_key(place: Place) -> None:
    place.bounds = {"models": {"url": "http://127.0.0.1:1234", "key": "${LM_KEY}-x"}}
    file = {"PLANLOOM_BACKEND": "auto", "PLANLOOM_MODEL_URL": "", "PLANLOOM_MODEL_KEY": ""}
    models = of(place, **file, LM_KEY=KEY).models
    assert models.url == "http://127.0.0.1:1234/v1"
    assert models.uses_url
    assert models.key
    assert models.key.get_secret_value() == f"{KEY}-x"
    models = of(place, LM_KEY="", PLANLOOM_MODEL_KEY="a${b}$$").models
    assert models.key
    assert models.key.get_secret_value() == "a${b}$$"
    assert "${b}" not in repr(models) + models.model_dump_json()


# A real llama.cpp server


@pytest.fixture(scope="module")
def llama() -> Iterator[tuple[str, str]]:
    """The base URL and the key of llama.cpp's own server with the 0.5B model."""
    weights = anyio.run(fetch, FAST)
    worker = subprocess.Popen(WORKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdin
    assert worker.stdout
    wanted = {"weights": str(weights), "api_key": KEY, "context_tokens": 4096, "threads": 2}
    with worker:
        print(json.dumps(wanted | {"ping_seconds": 1}), file=worker.stdin, flush=True)
        yield json.loads(worker.stdout.readline())["address"], KEY


@pytest.mark.parametrize("closed", [1, 2])
async def test_a_kept_connection_that_was_closed_costs_no_call(closed: int) -> None:
    """Before anything of a response came; once, since a server that is gone is gone."""
    event = {"choices": [{"delta": {"content": "teal"}, "finish_reason": "stop"}]}
    body = f"data: {json.dumps(event)}\n\n".encode()
    asked = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1
        if asked > closed:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = OpenAIClient(f"http://127.0.0.1:{port}/v1")
        async with contextlib.aclosing(OpenAIModel("any", client, context_tokens=4096)) as model:
            if closed == 1:
                assert (await model.chat(ChatRequest([user("Pick")], max_tokens=9))).text == "teal"
            else:
                with pytest.raises(ModelUnavailable, match="broke while"):
                    await model.chat(ChatRequest([user("Pick")], max_tokens=9))
    assert asked == 2


@pytest.mark.outside
async def test_a_real_server_holds_a_reply_to_its_schema_and_tells_its_cost(
    llama: tuple[str, str],
) -> None:
    client = OpenAIClient(f"{llama[0]}/v1", key=llama[1])
    ((name, window),) = (await client.probe()).models.items()
    assert window == 4096
    async with contextlib.aclosing(OpenAIModel(name, client, context_tokens=window)) as model:
        schema = {
            "type": "object",
            "properties": {"colour": {"enum": ["mauve", "teal"]}},
            "required": ["colour"],
        }
        pieces: list[str] = []
        asked = [user('Pick a colour. Reply as {"colour": "..."}.')]
        reply = await model.chat(
            ChatRequest(asked, max_tokens=64, schema=schema, on_text=pieces.append)
        )
        assert json.loads(reply.text) in ({"colour": "mauve"}, {"colour": "teal"})
        assert "".join(pieces) == reply.text
        assert reply.cached_told
        assert reply.prefill_seconds > 0
        again = await model.chat(ChatRequest(asked, max_tokens=2, schema=schema))
        assert again.cached_tokens > again.prompt_tokens // 2
        assert (again.finish, again.generated_tokens) == ("length", 2)

        unheard_of = {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}
        assert (
            await model.chat(ChatRequest(asked, max_tokens=2, schema=unheard_of))
        ).generated_tokens == 2
        with pytest.raises(ContextExceeded, match="available context size"):
            await model.chat(ChatRequest([user("word " * 5000)], max_tokens=2))
    with pytest.raises(ModelUnavailable, match="PLANLOOM_MODEL_KEY"):
        await OpenAIClient(f"{llama[0]}/v1", key="another").probe()


@pytest.mark.outside
async def test_a_real_server_stops_when_a_call_is_cancelled(llama: tuple[str, str]) -> None:
    """It computes one request at a time, and the schema makes the first one long: the second is
    answered within its gap only because the first was stopped."""
    schema = {"type": "array", "items": {"enum": ["yes"]}, "minItems": 1900}
    begun = anyio.Event()
    client = OpenAIClient(f"{llama[0]}/v1", key=llama[1], gap_seconds=LONG)
    async with contextlib.aclosing(OpenAIModel("any", client, context_tokens=4096)) as model:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                lambda: model.chat(
                    ChatRequest(
                        [user("Say yes.")],
                        max_tokens=3900,
                        schema=schema,
                        on_text=lambda _: begun.set(),
                    )
                )
            )
            await begun.wait()
            tasks.cancel_scope.cancel()
        assert (
            await model.chat(ChatRequest([user("Name a colour.")], max_tokens=4))
        ).generated_tokens <= 4


@pytest.mark.outside
async def test_a_question_is_answered_with_a_real_server(
    llama: tuple[str, str], tmp_path: Path, shared_upstream: SharedUpstream
) -> None:
    with ScriptedOpenAI() as unused:
        place = ApiPlace(tmp_path, unused, shared=shared_upstream)
        place.bounds = {"models": {"url": llama[0], "key": llama[1], "backend": "openai"}}
        there = {name: "" for name in place.environ if name.startswith("PLANLOOM_MODEL_")}
        chosen = of(place, PLANLOOM_BACKEND="", **there)
    async with Client(build(chosen)) as client:
        result = await client.call_tool("plan_and_answer", {"prompt": QUESTION, "wait_s": 600})
    report = result.structured_content
    assert report
    assert report["status"] == "answered", report
    assert "jobs/secret.py" in report["answer"]


@pytest.mark.parametrize(
    "chunk",
    [
        '{"choices": null, "usage": {"prompt_tokens": 0, "completion_tokens": null}}',
        '{"choices": [{"delta": null, "finish_reason": "stop"}], "usage": {}}',
        '{"choices": [], "timings": {"prompt_n": 3}, "usage": {"prompt_tokens": -1}}',
    ],
)
async def test_counts_that_cannot_be_true_are_estimated(chunk: str) -> None:
    parts = ['{"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop"}]}', chunk]
    stream = "".join(f"data: {each}\n\n" for each in [*parts, "[DONE]"])
    async with OpenAIClient("http://127.0.0.1:1/v1") as client:
        answer = httpx.MockTransport(lambda request: httpx.Response(200, text=stream))
        client.http = httpx.AsyncClient(transport=answer, base_url="http://127.0.0.1:1/v1")
        model = OpenAIModel("m", client, context_tokens=200)
        reply = await model.chat(ChatRequest([user("word " * 60)], max_tokens=4))
    assert (reply.text, reply.finish) == ("yes", "stop")
    assert reply.prompt_tokens > 0
