"""The Ollama adapter against a scripted server on the real wire, and a real one (`live`)."""

import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from messages import COLOUR, user
from ollama_replies import Answer, Drop, ErrorLine, Garbage, Hang, HttpError, NoEnd, Reply
from scripted_ollama import FAST, FULL, ScriptedOllama, hung_up

import planner.models.http
from planner.errors import ConfigError, ContextExceeded, ModelError, ModelUnavailable
from planner.models.base import ChatRequest, Message, PromptBefore
from planner.models.base import Reply as ModelReply
from planner.models.http import DEFAULT_GAP_SECONDS
from planner.models.ollama import OllamaClient, OllamaModel, host_url, probe

pytestmark = pytest.mark.anyio

PATIENCE_SECONDS = 30


@pytest.fixture
async def ollama() -> AsyncIterator[ScriptedOllama]:
    async with ScriptedOllama() as server:
        yield server


@pytest.fixture(scope="module")
def echo() -> Iterator[ScriptedOllama]:
    """A server whose models repeat the last message."""
    with ScriptedOllama(handler=lambda request: Answer(request.last)) as server:
        yield server


@contextlib.asynccontextmanager
async def model_at(
    host: str | None,
    name: str = FAST,
    *,
    context_tokens: int = 8192,
    gap_seconds: float = PATIENCE_SECONDS,
) -> AsyncIterator[OllamaModel]:
    client = OllamaClient(host, gap_seconds=gap_seconds)
    async with contextlib.aclosing(
        OllamaModel(name, client, context_tokens=context_tokens)
    ) as model:
        yield model


@pytest.fixture
async def model(ollama: ScriptedOllama) -> AsyncIterator[OllamaModel]:
    async with model_at(ollama.url) as model:
        yield model


# What goes over the wire


async def test_request_has_every_field_that_keeps_the_server_honest(
    ollama: ScriptedOllama, model: OllamaModel
) -> None:
    ollama.expect({"colour": "red"})
    messages: list[Message] = [{"role": "system", "content": "Be brief."}, user("A colour?")]
    await model.chat(ChatRequest(messages, max_tokens=64, schema=COLOUR))
    assert ollama.requests[0].body == {
        "model": FAST,
        "messages": messages,
        "stream": True,
        "format": COLOUR,
        "options": {"num_ctx": 8192, "temperature": 0, "seed": 0, "num_predict": 64},
        "keep_alive": "30m",
        "truncate": False,
        "shift": False,
        "think": False,
    }


async def test_schema_keeps_its_key_order(ollama: ScriptedOllama, model: OllamaModel) -> None:
    properties = {name: {"type": "null"} for name in ("zeta", "alpha", "midst")}
    ollama.expect({})
    await model.chat(ChatRequest([user("x")], max_tokens=9, schema={"properties": properties}))
    schema = ollama.requests[0].schema
    assert schema is not None
    assert list(schema["properties"]) == ["zeta", "alpha", "midst"]


async def test_reply_carries_text_and_cost(ollama: ScriptedOllama, model: OllamaModel) -> None:
    ollama.expect("A wall of text, it is.")
    reply = await model.chat(ChatRequest([user("Write.")], max_tokens=99))
    assert reply.text == "A wall of text, it is."
    assert reply.finish == "stop"
    assert (reply.prompt_tokens, reply.cached_tokens, reply.generated_tokens) == (18, 0, 8)
    assert (reply.load_seconds, reply.prefill_seconds, reply.decode_seconds) == (0.1, 0.18, 0.4)


async def test_text_arrives_piece_by_piece(ollama: ScriptedOllama, model: OllamaModel) -> None:
    ollama.expect("One two three.")
    pieces: list[str] = []
    reply = await model.chat(ChatRequest([user("Count.")], max_tokens=99, on_text=pieces.append))
    assert pieces == ["One", " two", " three", "."]
    assert reply.text == "One two three."


async def test_text_arrives_before_the_reply_ends(
    ollama: ScriptedOllama, model: OllamaModel
) -> None:
    ollama.expect(Hang(after="First", then=" second"))
    first = anyio.Event()

    def on_text(text: str) -> None:
        first.set()

    async with anyio.create_task_group() as group:

        async def ask() -> None:
            reply = await model.chat(ChatRequest([user("Go.")], max_tokens=9, on_text=on_text))
            assert reply.text == "First second"

        group.start_soon(ask)
        with anyio.fail_after(PATIENCE_SECONDS):
            await first.wait()
        ollama.release()


async def test_thoughts_are_no_part_of_the_reply(
    ollama: ScriptedOllama, model: OllamaModel
) -> None:
    ollama.expect(Answer("A wall.", thinking="What is it? A"))
    ollama.expect(Answer("", thinking="What is it?", done_reason="length"))
    pieces: list[str] = []
    reply = await model.chat(ChatRequest([user("Say.")], max_tokens=99, on_text=pieces.append))
    assert (reply.text, "".join(pieces)) == ("A wall.", "A wall.")
    assert 0 < reply.thinking_tokens < reply.generated_tokens
    reply = await model.chat(ChatRequest([user("Say.")], max_tokens=99))
    assert reply.text == ""
    assert reply.thinking_tokens == reply.generated_tokens


@pytest.mark.parametrize("refused", [False, True])
async def test_a_model_that_replies_nothing_where_it_may_not_think_may_think_a_little(
    refused: bool, ollama: ScriptedOllama, model: OllamaModel
) -> None:
    red = {"colour": "red"}
    ollama.expect(Answer("", unconstrained=True))
    if refused:
        ollama.expect(HttpError(400, f'"{FAST}" does not support thinking'))
    ollama.expect(Answer(red, thinking="Red?"))
    ollama.expect(Answer(red))
    request = ChatRequest([user("A colour?")], max_tokens=99, schema=COLOUR)
    assert (await model.chat(request)).text == ""
    for _ in range(2):
        assert json.loads((await model.chat(request)).text) == red
    said = [each.body.get("think") for each in ollama.requests]
    assert said == ([False, "low", None, None] if refused else [False, "low", "low"])


async def test_think_is_left_out_where_it_is_refused(
    ollama: ScriptedOllama, model: OllamaModel
) -> None:
    for reply in (HttpError(400, 'invalid think value: "false"'), "Red.", "Red."):
        ollama.expect(reply)
    for _ in range(2):
        await model.chat(ChatRequest([user("A colour?")], max_tokens=99))
    assert ["think" in each.body for each in ollama.requests] == [True, False, False]


async def test_reply_cut_by_its_token_limit_says_so(
    ollama: ScriptedOllama, model: OllamaModel
) -> None:
    ollama.expect(Answer('{"colour": "re', done_reason="length"))
    reply = await model.chat(ChatRequest([user("A colour?")], max_tokens=9, schema=COLOUR))
    assert reply.finish == "length"


async def cold_and_warm(
    ollama: ScriptedOllama, model: OllamaModel
) -> tuple[ModelReply, ModelReply]:
    """The replies to a prompt, and to one that it begins."""
    first = user("This is a long beginning that stays. " * 20)
    for _ in range(2):
        ollama.expect("Yes.")
    cold = await model.chat(ChatRequest([first], max_tokens=9))
    warm = await model.chat(
        ChatRequest([first, {"role": "assistant", "content": "Yes."}, user("And?")], max_tokens=9)
    )
    return cold, warm


async def test_known_prefix_is_told_as_cached(ollama: ScriptedOllama, model: OllamaModel) -> None:
    cold, warm = await cold_and_warm(ollama, model)
    assert cold.cached_tokens == 0
    assert (cold.cached_told, warm.cached_told) == (True, True)
    assert cold.prompt_tokens <= warm.cached_tokens < warm.prompt_tokens


async def test_what_a_server_does_not_tell_is_worked_out_from_the_prompts() -> None:
    async with ScriptedOllama(tells_cached=False) as ollama, model_at(ollama.url) as model:
        cold, warm = await cold_and_warm(ollama, model)
    assert (cold.cached_tokens, cold.cached_told, warm.cached_told) == (0, False, False)
    assert 0.9 * cold.prompt_tokens < warm.cached_tokens < warm.prompt_tokens


texts = st.text("ab", max_size=6)
conversations = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant"]),
        texts,
    ),
    max_size=4,
)


@given(conversations, conversations, texts)
def test_a_prompt_covers_what_begins_with_it(first: Any, then: Any, reply: str) -> None:
    before = PromptBefore()
    assert before.covers(first) == 0
    before.read(first, reply)
    assert before.covers(first) == (1 if any(m["content"] for m in first) else 0)
    assert 0 <= before.covers(then) <= 1
    grown = [*first, {"role": "assistant", "content": reply}, {"role": "user", "content": "abab"}]
    told = sum(len(message["content"]) for message in grown)
    assert before.covers(grown) == (told - 4) / told


async def test_missing_prompt_count_is_estimated(
    ollama: ScriptedOllama, model: OllamaModel
) -> None:
    """Ollama before 0.4 leaves the count out when all of the prompt was cached."""
    fields = {"prompt_eval_count": None, "prompt_eval_cached_count": None}
    ollama.expect(Answer("Yes.", fields=fields))
    reply = await model.chat(ChatRequest([user("x" * 4000)], max_tokens=9))
    assert reply.prompt_tokens == 1000


async def test_two_models_share_one_client(ollama: ScriptedOllama) -> None:
    client = OllamaClient(ollama.url)
    fast, full = (
        OllamaModel(FAST, client, context_tokens=8192),
        OllamaModel(FULL, client, context_tokens=4096),
    )
    ollama.expect("from the fast one", model=FAST)
    ollama.expect("from the full one", model=FULL)
    texts = {}

    async def ask(model: OllamaModel) -> None:
        texts[model.name] = (await model.chat(ChatRequest([user("Who?")], max_tokens=9))).text

    async with anyio.create_task_group() as group:
        group.start_soon(ask, full)
        group.start_soon(ask, fast)
    assert texts == {FAST: "from the fast one", FULL: "from the full one"}
    assert {r.model: r.options["num_ctx"] for r in ollama.requests} == {FAST: 8192, FULL: 4096}
    await fast.aclose()
    await full.aclose()


@settings(max_examples=50)
@example([("user", "the client's own reader splits lines here: \x85, \u2028")])
@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text()), min_size=1))
def test_any_text_goes_there_and_back_unchanged(
    echo: ScriptedOllama, turns: list[tuple[Any, str]]
) -> None:
    messages: list[Message] = [{"role": role, "content": text} for role, text in turns]

    async def ask() -> str:
        async with model_at(echo.url) as model:
            return (await model.chat(ChatRequest(messages, max_tokens=4096))).text

    assert anyio.run(ask) == messages[-1]["content"]
    assert echo.requests[-1].messages == messages


async def test_lone_surrogate_becomes_a_question_mark(echo: ScriptedOllama) -> None:
    """A file name in a tool result may hold one, and JSON on the wire is UTF-8."""
    async with model_at(echo.url) as model:
        assert (
            await model.chat(ChatRequest([user("caf\udce9.txt")], max_tokens=99))
        ).text == "caf?.txt"


# Faults


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (
            HttpError(400, "request (9000 tokens) exceeds the available context size (8192)"),
            ContextExceeded,
            ["9000 tokens", "num_ctx"],
        ),
        (
            HttpError(400, "the prompt is longer than the context length currently available"),
            ContextExceeded,
            ["num_ctx"],
        ),
        (  # as Ollama 0.5.4 says it
            ErrorLine(
                '{"error": "{\\"error\\":{\\"code\\":400,\\"message\\":\\"request (26898 tokens) '
                'exceeds the available context size (8192 tokens), try increasing it\\"}}"}'
            ),
            ContextExceeded,
            [": request (26898 tokens) exceeds the available context size (8192 tokens)"],
        ),
        (ErrorLine("invalid JSON schema in format"), ModelError, ["refused the JSON Schema"]),
        (HttpError(500, "failed to parse grammar"), ModelError, ["refused the JSON Schema"]),
        (
            HttpError(404, f"model '{FAST}' not found"),
            ModelUnavailable,
            [f"run `ollama pull {FAST}`"],
        ),
        (HttpError(404, b"404 page not found"), ModelUnavailable, ["OLLAMA_HOST"]),
        (HttpError(401, "unauthorized"), ModelUnavailable, ["OLLAMA_API_KEY"]),
        (
            HttpError(503, "server busy, please try again.  maximum pending requests exceeded"),
            ModelUnavailable,
            ["is busy", "OLLAMA_MAX_QUEUE"],
        ),
        (
            HttpError(500, "model runner has unexpectedly stopped, this may be due to resources"),
            ModelUnavailable,
            ["ended", "memory"],
        ),
        (HttpError(500, b"<html>Oh no</html>"), ModelError, ["HTTP 500", "Oh no"]),
        (HttpError(502, b""), ModelError, ["HTTP 502", "no reason given"]),
        (HttpError(500, b"[1]"), ModelError, ["HTTP 500", "[1]"]),
        (
            ErrorLine("an error was encountered while running the model", after="Half a "),
            ModelError,
            ["while it was answering", "an error was encountered"],
        ),
        (Garbage(after="Half a "), ModelError, ["does not speak Ollama's protocol"]),
        (Garbage("[]"), ModelError, ["does not speak Ollama's protocol"]),
        (Garbage('{"choices": []}'), ModelError, ["does not speak Ollama's protocol"]),
        (NoEnd(), ModelError, ["before it began"]),
        (Drop(after="Half a "), ModelUnavailable, ["broke while"]),
        (Drop(), ModelUnavailable, ["broke while"]),
    ],
)
async def test_fault_becomes_an_error_that_says_what_to_do(
    ollama: ScriptedOllama,
    model: OllamaModel,
    fault: Reply,
    error: type[ModelError],
    words: list[str],
) -> None:
    ollama.expect(fault)
    with pytest.raises(ModelError) as caught:
        await model.chat(ChatRequest([user("x")], max_tokens=9))
    assert type(caught.value) is error
    message = str(caught.value)
    assert all(part in message for part in [*words, ollama.url]), message
    ollama.expect("Fine.")
    assert (await model.chat(ChatRequest([user("x")], max_tokens=9))).text == "Fine."


async def test_a_reply_that_repeats_itself_is_taken_as_cut(
    ollama: ScriptedOllama, model: OllamaModel
) -> None:
    ollama.expect(NoEnd(after="Again again again"))
    reply = await model.chat(ChatRequest([user("x")], max_tokens=9))
    assert (reply.text, reply.finish) == ("Again again again", "length")
    assert reply.generated_tokens > 0


async def test_model_that_the_server_lacks(ollama: ScriptedOllama) -> None:
    async with model_at(ollama.url, "other:1b") as model:
        with pytest.raises(ModelUnavailable, match="run `ollama pull other:1b`"):
            await model.chat(ChatRequest([user("x")], max_tokens=9))


async def test_no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        host = f"127.0.0.1:{gone.getsockname()[1]}"
    async with model_at(host) as model:
        with pytest.raises(ModelUnavailable) as caught:
            await model.chat(ChatRequest([user("x")], max_tokens=9))
    assert f"does not answer at http://{host}; start it with `ollama serve`" in str(caught.value)


@pytest.mark.parametrize("after", ["", "Half a "])
async def test_silent_server(ollama: ScriptedOllama, after: str) -> None:
    ollama.expect(Hang(after))
    async with model_at(ollama.url, gap_seconds=0.1) as model:
        with pytest.raises(ModelUnavailable, match=r"sent nothing for 0\.1 s"):
            await model.chat(ChatRequest([user("x")], max_tokens=9))
        await ollama.arrived()
        assert await hung_up(ollama.requests[0])


# Prompts that the server cut: Ollama 0.5.4 drops whole messages in spite of `truncate: false`

LONG = "\n".join(f"{i}: the quick brown fox jumps over it" for i in range(1000))


async def test_cut_prompt_is_found(ollama: ScriptedOllama) -> None:
    fields = {"prompt_eval_count": 21, "prompt_eval_cached_count": None}
    ollama.expect(Answer("Red.", fields=fields))
    async with model_at(ollama.url, context_tokens=16384) as model:
        with pytest.raises(ContextExceeded, match=r"read 21 tokens of at least 7004.*num_ctx"):
            await model.chat(
                ChatRequest([user(LONG), user("Name a colour, please.")], max_tokens=9)
            )


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # Counts of qwen2.5-coder on a real server, scaled to a prompt larger than its window.
        pytest.param((" " * 50 + "x\n") * 600, 1790, id="blanks"),
        pytest.param(("-" * 60 + "\n") * 400, 790, id="dashes"),
        pytest.param("the " * 5000, 5000, id="short words"),
        pytest.param("a b c d e f g h i j " * 500, 5000, id="letters"),
        pytest.param("don't it's I'm " * 800, 4800, id="contractions"),
    ],
)
async def test_whole_prompt_is_never_taken_for_a_cut_one(
    ollama: ScriptedOllama, text: str, tokens: int
) -> None:
    ollama.expect(Answer("Yes.", fields={"prompt_eval_count": tokens}))
    async with model_at(ollama.url, context_tokens=9000) as model:
        assert (await model.chat(ChatRequest([user(text)], max_tokens=9))).prompt_tokens == tokens


async def test_prompt_that_fits_is_never_taken_for_a_cut_one(
    ollama: ScriptedOllama, model: OllamaModel
) -> None:
    """Such as by a server that counts the new tokens alone: 8000 bytes cannot be 8192 tokens."""
    ollama.expect(Answer("Yes.", fields={"prompt_eval_count": 1}))
    await model.chat(ChatRequest([user("word " * 1600)], max_tokens=9))


# Cancellation


@pytest.mark.parametrize("after", ["", "Half a "])
async def test_cancel_closes_the_request(
    ollama: ScriptedOllama, model: OllamaModel, after: str
) -> None:
    ollama.expect(Hang(after))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: model.chat(ChatRequest([user("x")], max_tokens=9)))
        await ollama.arrived()
        group.cancel_scope.cancel()
    assert await hung_up(ollama.requests[0])
    ollama.expect("Fine.")
    assert (await model.chat(ChatRequest([user("x")], max_tokens=9))).text == "Fine."


@pytest.mark.parametrize(
    ("ends", "words"), [({"enough": lambda text: "three" in text}, 3), ({"until": 0.0}, 1)]
)
async def test_a_reply_ends_where_it_is_enough(
    ollama: ScriptedOllama, model: OllamaModel, ends: Any, words: int
) -> None:
    ollama.expect(Hang(after="One two three four "))
    reply = await model.chat(ChatRequest([user("x")], max_tokens=9, **ends))
    assert (reply.text.split()[:words], reply.finish) == (["One", "two", "three"][:words], "ended")
    assert reply.generated_tokens > 0
    assert reply.prefill_seconds > 0
    assert await hung_up(ollama.requests[0])


@pytest.mark.parametrize(
    "fault", [ErrorLine("oh", "Half a "), Garbage(after="Half a "), Drop("Half a ")]
)
async def test_what_was_written_of_a_reply_that_may_end_early_is_kept(
    ollama: ScriptedOllama, model: OllamaModel, fault: Reply
) -> None:
    ollama.expect(fault)
    request = ChatRequest([user("x")], max_tokens=9, until=anyio.current_time() + 60)
    reply = await model.chat(request)
    assert (reply.text, reply.finish) == ("Half a ", "ended")
    assert ollama.url in reply.fault


async def test_failing_listener_closes_the_request(
    ollama: ScriptedOllama, model: OllamaModel
) -> None:
    def on_text(text: str) -> None:
        raise ZeroDivisionError

    ollama.expect(Hang(after="Half a "))
    with pytest.raises(ZeroDivisionError):
        await model.chat(ChatRequest([user("x")], max_tokens=9, on_text=on_text))
    assert await hung_up(ollama.requests[0])


# The server's address


@pytest.mark.parametrize(
    ("host", "url"),
    [
        (None, "http://127.0.0.1:11434"),
        ("", "http://127.0.0.1:11434"),
        (":5000", "http://127.0.0.1:5000"),
        ("example.com", "http://example.com:11434"),
        ("http://example.com", "http://example.com"),
        ("example.com:80", "http://example.com"),
        ("https://example.com:443/ollama/", "https://example.com/ollama"),
        ("[::1]:5000", "http://[::1]:5000"),
        ("http://me:secret@example.com:5000/?key=secret", "http://example.com:5000"),
    ],
)
def test_host_is_read_as_the_client_reads_it(host: str | None, url: str) -> None:
    assert host_url(host) == url
    assert host_url(url) == url


@pytest.mark.parametrize("host", ["http://me:secret@h:port", "h:99999", "http://[::1", "ftp://h"])
def test_host_that_is_no_address(host: str) -> None:
    with pytest.raises(ConfigError, match="OLLAMA_HOST, or `host` under `models`") as caught:
        host_url(host)
    assert host not in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_password_in_the_address_stays_out_of_errors(
    ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", f"http://me:secret@{ollama.host}")
    async with model_at(None) as model:
        for fault in (HttpError(500, "oh"), Drop(), Garbage(), NoEnd()):
            ollama.expect(fault)
            with pytest.raises(ModelError) as caught:
                await model.chat(ChatRequest([user("x")], max_tokens=9))
            assert "secret" not in str(caught.value)


async def test_server_on_this_machine_is_reached_without_the_proxy(
    ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for host in (ollama.host, ollama.host.replace("127.0.0.1", "localhost")):
        ollama.expect("Yes.")
        async with model_at(host) as model:
            assert (await model.chat(ChatRequest([user("x")], max_tokens=9))).text == "Yes."


async def test_probe_finds_a_server(ollama: ScriptedOllama) -> None:
    server = await probe(ollama.host)
    assert server is not None
    assert (server.url, server.version, server.models) == (ollama.url, "0.40.3", (FAST, FULL))
    assert server.has(FAST)
    assert not server.has("qwen2.5-coder")


async def test_probe_knows_that_no_tag_means_latest() -> None:
    async with ScriptedOllama(models=["small:latest"]) as ollama:
        server = await probe(ollama.host)
    assert server is not None
    assert server.has("small")
    assert server.has("small:latest")


@pytest.mark.parametrize(
    "said",
    [
        None,
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"models":1}',
    ],
)
async def test_probe_of_something_else_is_none(
    said: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that takes the connection and says nothing (None)."""
    if said is None:
        monkeypatch.setattr(planner.models.http, "PROBE_SECONDS", 0.1)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            if said is not None:
                connection.sendall(said)
            else:
                connection.recv(4096)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        assert await probe(f"127.0.0.1:{listener.getsockname()[1]}") is None
        thread.join()


async def test_probe_of_nothing_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        host = f"127.0.0.1:{gone.getsockname()[1]}"
    assert await probe(host) is None


# The scripted server itself


async def run_script(
    reply: Reply, *, contains: Sequence[str] = (), schema: dict[str, Any] | None = None
) -> str:
    """What the model says to one question, if the script had nothing to complain of."""
    async with ScriptedOllama() as ollama, model_at(ollama.url) as model:
        ollama.expect(reply, contains=contains)
        return (
            await model.chat(ChatRequest([user("A colour?")], max_tokens=9, schema=schema))
        ).text


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        ({"color": "red"}, "breaks the schema"),
        ({"colour": "red", "more": 1}, "breaks the schema"),
        ("red", "is no JSON"),
        ({"colour": "a b c d e f g h i"}, "num_predict is 9"),
    ],
)
async def test_script_may_not_say_what_no_server_could(reply: Reply, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        await run_script(reply, schema=COLOUR)


async def test_script_may_say_anything_if_it_says_so() -> None:
    assert await run_script(Answer("red", unconstrained=True), schema=COLOUR) == "red"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "abc"},
        {"type": "array", "items": True},
        {"type": "string", "maxLength": 2000},
        {"type": "object", "properties": {"more": {"$ref": "#"}}},
        {"properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {}]},
    ],
)
async def test_schema_that_a_grammar_refuses_fails_the_test(schema: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="Ollama's grammar"):
        await run_script(Answer("x", unconstrained=True), schema=schema)


async def test_unexpected_and_missing_requests_fail_the_test() -> None:
    with pytest.raises(ModelError) as caught:
        await run_script("Red.", contains=["another question"])
    (note,) = caught.value.__notes__
    assert "An unexpected request came" in note
    assert "A colour?" in note
    assert "An expected request did not come" in note


async def test_changed_options_fail_the_test() -> None:
    async def run() -> None:
        async with ScriptedOllama(handler=lambda request: "Yes.") as ollama:
            for size in (4096, 8192):
                async with model_at(ollama.url, context_tokens=size) as model:
                    await model.chat(ChatRequest([user("x")], max_tokens=9))

    with pytest.raises(AssertionError, match="options changed"):
        await run()


async def test_prompt_larger_than_the_window_is_refused(ollama: ScriptedOllama) -> None:
    ollama.expect("Yes.")
    async with model_at(ollama.url, context_tokens=2048) as model:
        with pytest.raises(ContextExceeded, match="exceeds the available context size"):
            await model.chat(ChatRequest([user(LONG)], max_tokens=9))


# A real server


@pytest.fixture
async def real() -> AsyncIterator[OllamaModel]:
    server = await probe()
    if server is None:
        pytest.skip(f"no Ollama answers at {OllamaClient().url} (OLLAMA_HOST)")
    if not server.has(FAST):
        pytest.skip(f"the Ollama at {server.url} lacks {FAST}; run `ollama pull {FAST}`")
    async with model_at(server.url, gap_seconds=DEFAULT_GAP_SECONDS) as model:
        yield model


@pytest.mark.live
async def test_live_reply_fits_its_schema(real: OllamaModel) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["mauve", "teal"]}},
        "required": ["colour"],
    }
    pieces: list[str] = []
    reply = await real.chat(
        ChatRequest(
            [user('Pick a colour. Reply as {"colour": "..."}.')],
            max_tokens=64,
            schema=schema,
            on_text=pieces.append,
        )
    )
    assert reply.finish == "stop"
    assert json.loads(reply.text) in ({"colour": "mauve"}, {"colour": "teal"})
    assert "".join(pieces) == reply.text


@pytest.mark.live
async def test_live_counts_the_whole_prompt_when_it_was_cached(real: OllamaModel) -> None:
    messages = [user("Count the words of this sentence, and of the one after it. " * 4)]
    cold = await real.chat(ChatRequest(messages, max_tokens=2))
    warm = await real.chat(ChatRequest(messages, max_tokens=3))
    assert warm.prompt_tokens == cold.prompt_tokens
    assert warm.cached_tokens > warm.prompt_tokens // 2
    assert warm.generated_tokens <= 3


@pytest.mark.live
async def test_live_cut_prompt_is_an_error(real: OllamaModel) -> None:
    """The server either refuses it, or cuts it and is found out."""
    with pytest.raises(ContextExceeded):
        await real.chat(ChatRequest([user(LONG), user("Name a colour.")], max_tokens=2))


@pytest.mark.live
async def test_live_cancel_stops_the_work(real: OllamaModel) -> None:
    """A model computes one request at a time, and the schema makes the first one last minutes on a
    CPU: the second is answered within its gap only because the first was stopped."""
    begun = anyio.Event()

    def on_text(text: str) -> None:
        begun.set()

    async def write_a_lot() -> None:
        schema = {"type": "array", "items": {"enum": ["yes"]}, "minItems": 1900}
        await real.chat(
            ChatRequest([user("Say yes.")], max_tokens=7900, schema=schema, on_text=on_text)
        )

    async with anyio.create_task_group() as group:
        group.start_soon(write_a_lot)
        await begun.wait()
        group.cancel_scope.cancel()
    async with model_at(None, gap_seconds=60) as model:
        assert (
            await model.chat(ChatRequest([user("Name a colour.")], max_tokens=4))
        ).generated_tokens <= 4
