"""The embedded model: against a scripted worker, and (live) against the real one."""

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psutil
import pytest
from paths import ROOT
from serving import until

from planner.errors import EMBEDDED_EXTRA, ContextExceeded, ModelError, ModelUnavailable
from planner.models.base import ChatModel, ChatRequest, Message, Reply
from planner.models.embedded import EmbeddedModel
from planner.models.weights import fetch

pytestmark = pytest.mark.anyio

# Speaks as planner.embedded_worker does. A token is a character. What it does with a completion is
# the prompt's first upper-case word.
FAKE_WORKER = textwrap.dedent("""
    import json, os, re, sys, threading, time
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    settings = json.loads(sys.stdin.readline())
    mode = sys.argv[1]
    if mode == "dies":
        sys.exit("no such luck")
    if mode == "refuses":
        print(json.dumps({"error": "the file is no model"}), flush=True)
    if mode == "babbles":
        print("llama_model_loader: hello", flush=True)
    if mode != "serves":
        sys.stdin.read()
        sys.exit()

    slot = threading.Lock()
    last = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def whole(self, status, value):
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def chunk(self, data):
            self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(data), data))
            self.wfile.flush()

        def event(self, content=None, finish=None, **more):
            choice = {"delta": {"content": content}, "finish_reason": finish}
            value = {"choices": [choice], **more}
            self.chunk(b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\\n\\n")

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers["Authorization"] != "Bearer " + settings["api_key"]:
                return self.whole(401, {"error": {"message": "key", "type": "auth"}})
            if self.path != "/v1/chat/completions":
                return self.whole(404, {"error": {"message": "no such path", "type": "path"}})
            with slot:
                self.complete(body)

        def complete(self, body):
            prompt = "".join(each["role"] + each["content"] for each in body["messages"])
            script = re.search("[A-Z]{3,}", prompt)
            script = script.group() if script else ""
            if script == "EXCEED":
                return self.whole(400, {"error": {
                    "code": 400, "type": "exceed_context_size_error",
                    "message": "request (9001 tokens) exceeds the available context size"}})
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.chunk(b":\\n\\n")
            while script == "READING":
                time.sleep(0.01)
                self.event(prompt_progress={
                    "total": 1365, "cache": 256, "processed": 1024, "time_ms": 900})
            self.event("one")
            if script == "CRASH":
                print("ggml: a terrible thing", file=sys.stderr, flush=True)
                os._exit(9)
            if script == "GARBAGE":
                self.chunk(b"data: <html>\\n\\n")
            if script == "ERROR":
                self.event(error={"code": 500, "message": "no memory", "type": "server_error"})
                return self.chunk(b"")
            if script == "SHORT":
                return self.chunk(b"")
            while script == "ENDLESS":
                time.sleep(0.01)
                self.event(".")
            text = {"SEPARATOR": "\\u2028\\x85two", "ECHO": json.dumps(body)}.get(script, " two")
            half = len(text) // 2
            self.event(text[:half])
            self.event(text[half:])
            same = 0
            for one, two in zip(prompt, last):
                if one != two:
                    break
                same += 1
            last[:] = prompt
            self.event(finish="length" if body["max_tokens"] < 3 else "stop")
            self.event(
                usage={"prompt_tokens": len(prompt), "completion_tokens": 3,
                       "prompt_tokens_details": {"cached_tokens": same}},
                timings={"cache_n": same, "prompt_n": len(prompt) - same,
                         "prompt_ms": 500, "predicted_n": 3, "predicted_ms": 250})
            self.chunk(b"")

        def handle_one_request(self):
            try:
                super().handle_one_request()
            except OSError:
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"address": f"http://127.0.0.1:{server.server_port}"}), flush=True)
    sys.stdin.read()
    os._exit(0)
""")


@asynccontextmanager
async def fake(folder: Path, mode: str = "serves") -> AsyncIterator[EmbeddedModel]:
    """A model over the scripted worker; on leaving, no worker may be left."""
    weights = folder / "tiny.gguf"
    weights.write_bytes(b"")
    model = EmbeddedModel("tiny", weights, command=[sys.executable, "-c", FAKE_WORKER, mode])
    try:
        yield model
    finally:
        await model.aclose()
        assert workers() == []


def workers() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def user(content: str) -> list[Message]:
    return [{"role": "user", "content": content}]


async def ask(model: ChatModel, content: str) -> Reply:
    return await model.chat(ChatRequest(user(content), max_tokens=100))


async def test_the_first_call_starts_the_worker_and_the_reply_says_what_it_cost(
    tmp_path: Path,
) -> None:
    pieces: list[str] = []
    async with fake(tmp_path) as model:
        assert workers() == []
        reply = await model.chat(ChatRequest(user("hi"), max_tokens=100, on_text=pieces.append))
        assert reply.text == "one two" == "".join(pieces)
        assert len(pieces) == 3
        assert (reply.finish, reply.cached_tokens, reply.generated_tokens) == ("stop", 0, 3)
        assert (reply.prefill_seconds, reply.decode_seconds) == (0.5, 0.25)
        assert reply.load_seconds > 0.01
        again = await ask(model, "hi")
        assert again.prompt_tokens == reply.prompt_tokens == again.cached_tokens
        assert again.load_seconds < 0.01


async def test_the_key_and_the_path_are_not_on_the_command_line(tmp_path: Path) -> None:
    async with fake(tmp_path) as model:
        await model.load()
        (worker,) = workers()
        assert str(tmp_path) not in " ".join(worker.cmdline())


async def test_the_schema_goes_out_as_it_is_and_in_its_order(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"zeta": {"type": "string"}, "alpha": {}}}
    async with fake(tmp_path) as model:
        reply = await model.chat(ChatRequest(user("ECHO"), max_tokens=100, schema=schema))
    request = json.loads(reply.text.removeprefix("one"))
    sent = request.pop("response_format")["json_schema"]["schema"]
    assert json.dumps(sent) == json.dumps(schema)
    assert request == {
        "model": "tiny",
        "messages": user("ECHO"),
        "max_tokens": 100,
        "temperature": 0,
        "seed": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
    }


async def test_what_it_does_is_known_while_it_works(tmp_path: Path) -> None:
    async with fake(tmp_path) as model, anyio.create_task_group() as tasks:
        assert model.doing == ""
        tasks.start_soon(ask, model, "READING")
        await until(lambda: model.doing == "is being loaded")
        await until(lambda: model.doing == "reads the prompt, 1,024 of 1,365 tokens")
        tasks.cancel_scope.cancel()
    assert model.doing == ""
    async with fake(tmp_path) as model, anyio.create_task_group() as tasks:
        tasks.start_soon(ask, model, "ENDLESS")
        await until(lambda: model.doing == "is writing")
        tasks.cancel_scope.cancel()


async def test_line_separators_of_unicode_do_not_break_the_stream(tmp_path: Path) -> None:
    async with fake(tmp_path) as model:
        assert (await ask(model, "SEPARATOR")).text == "one\u2028\x85two"


async def test_a_reply_at_the_limit_says_so(tmp_path: Path) -> None:
    async with fake(tmp_path) as model:
        assert (await model.chat(ChatRequest(user("hi"), max_tokens=2))).finish == "length"


async def test_a_crash_is_told_and_the_next_call_has_a_new_worker(tmp_path: Path) -> None:
    async with fake(tmp_path) as model:
        with pytest.raises(ModelUnavailable, match=r"(?s)exit code 9.*a terrible thing"):
            await ask(model, "CRASH")
        assert workers() == []
        assert (await ask(model, "hi")).text == "one two"


async def test_a_worker_that_died_between_calls_is_replaced(tmp_path: Path) -> None:
    async with fake(tmp_path) as model:
        await model.load()
        (worker,) = workers()
        worker.kill()
        await anyio.to_thread.run_sync(worker.wait)
        await anyio.sleep(0.1)
        assert (await ask(model, "hi")).load_seconds > 0.01


@pytest.mark.parametrize(
    ("script", "error", "text"),
    [
        ("EXCEED", ContextExceeded, "9001 tokens"),
        ("GARBAGE", ModelError, "cannot be read"),
        ("ERROR", ModelError, "no memory"),
        ("SHORT", ModelError, "before it was complete"),
    ],
)
async def test_failures_have_their_error_and_the_model_goes_on(
    tmp_path: Path, script: str, error: type[ModelError], text: str
) -> None:
    async with fake(tmp_path) as model:
        with pytest.raises(ModelError, match=text) as caught:
            await ask(model, script)
        assert type(caught.value) is error
        assert (await ask(model, "hi")).text == "one two"


async def test_a_cancelled_call_frees_the_worker(tmp_path: Path) -> None:
    async with fake(tmp_path) as model:
        await model.load()
        (before,) = workers()
        with anyio.move_on_after(0.3) as scope:
            await ask(model, "ENDLESS")
        assert scope.cancelled_caught
        with anyio.fail_after(1):
            assert (await ask(model, "hi")).text == "one two"
        assert workers() == [before]


async def test_calls_queue(tmp_path: Path) -> None:
    replies: list[Reply] = []
    async with fake(tmp_path) as model:

        async def one() -> None:
            replies.append(await ask(model, "hi"))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(one)
        assert len(workers()) == 1
    assert [reply.text for reply in replies] == ["one two"] * 4


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("dies", r"(?s)exit code 1.*no such luck"),
        ("refuses", "the file is no model"),
        ("babbles", "did not start"),
    ],
)
async def test_a_worker_that_does_not_come_up(tmp_path: Path, mode: str, text: str) -> None:
    async with fake(tmp_path, mode) as model:
        with pytest.raises(ModelUnavailable, match=text):
            await model.load()
        assert workers() == []


async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    async with fake(tmp_path, "sleeps") as model:
        with anyio.move_on_after(0.3) as scope:
            await model.load()
        assert scope.cancelled_caught
        assert workers() == []


async def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"")
    model = EmbeddedModel("tiny", tmp_path / "tiny.gguf", command=["/no/such/program"])
    with pytest.raises(ModelUnavailable, match="/no/such/program"):
        await model.load()


async def test_weights_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="no weights at"):
        await EmbeddedModel("tiny", tmp_path / "missing.gguf").load()


async def test_the_real_worker_tells_of_a_file_that_is_no_model(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    weights = tmp_path / "tiny.gguf"
    weights.write_bytes(b"this is no model")
    with pytest.raises(ModelUnavailable, match="cannot be loaded") as told:
        await EmbeddedModel("tiny", weights).load()
    assert EMBEDDED_EXTRA in str(told.value)
    assert workers() == []


@asynccontextmanager
async def real() -> AsyncIterator[EmbeddedModel]:
    name = "qwen2.5-coder:0.5b"
    model = EmbeddedModel(name, await fetch(name))
    try:
        yield model
    finally:
        await model.aclose()
        assert workers() == []


@pytest.mark.live
async def test_live_schema_prefix_and_limits() -> None:
    schema = {
        "type": "object",
        "properties": {"tool": {"enum": ["read_file", "write_file"]}, "done": {"type": "boolean"}},
        "required": ["tool", "done"],
        "additionalProperties": False,
    }
    rules = "You choose tools. " + "Reading comes before writing. " * 40
    async with real() as model:
        system: Message = {"role": "system", "content": rules}
        first = await model.chat(
            ChatRequest([system, *user("Read a.py")], max_tokens=40, schema=schema)
        )
        assert list(json.loads(first.text)) == ["tool", "done"]
        second = await model.chat(
            ChatRequest([system, *user("Write b.py")], max_tokens=40, schema=schema)
        )
        assert second.cached_tokens > 0.9 * first.prompt_tokens
        with pytest.raises(ContextExceeded):
            await ask(model, "word " * 9000)
        assert (
            await model.chat(ChatRequest(user("Count to 100."), max_tokens=5))
        ).finish == "length"


@pytest.mark.live
@pytest.mark.parametrize("seconds", [0.5, 4.0], ids=["in prefill", "later"])
async def test_live_a_cancelled_call_frees_the_worker(seconds: float) -> None:
    async with real() as model:
        await ask(model, "Say hi.")
        with anyio.move_on_after(seconds):
            await model.chat(
                ChatRequest(user("word " * 3000 + "Write a long story."), max_tokens=4000)
            )
        begun = time.monotonic()
        await model.chat(ChatRequest(user("Say hi."), max_tokens=1))
        assert time.monotonic() - begun < 10  # one batch of prefill on a busy machine


@pytest.mark.live
async def test_live_the_worker_dies_with_a_killed_parent() -> None:
    weights = await fetch("qwen2.5-coder:0.5b")
    program = textwrap.dedent(f"""
        import anyio, pathlib, psutil
        from planner.models.embedded import EmbeddedModel
        async def main():
            model = EmbeddedModel("m", pathlib.Path({str(weights)!r}))
            await model.load()
            print(psutil.Process().children()[0].pid, flush=True)
            await anyio.sleep_forever()
        anyio.run(main)
    """)
    parent = await anyio.open_process(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert parent.stdout is not None
    worker = psutil.Process(int(await parent.stdout.receive()))
    parent.kill()
    await parent.aclose()
    await anyio.to_thread.run_sync(worker.wait, 5)
