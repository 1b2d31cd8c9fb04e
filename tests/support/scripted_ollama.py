"""A scripted Ollama server on a real loopback port, speaking Ollama's wire format.

    async with ScriptedOllama() as ollama:
        ollama.expect({"tool": "read_file"}, model=FAST, contains=["the request"])
        ollama.expect(HttpError(503, "server busy"))
        ...                                # what is under test calls ollama.url
        assert "xyz" in ollama.requests[0].last

It runs in threads of its own, so that the test's event loop, or another process, may use it. It
fails the test at exit for a request nobody expected, an expectation nobody met, and whatever a real
server could not do or would punish: see `ScriptedOllama`.
"""

import contextlib
import json
import re
import select
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self

import anyio
from jsonschema import Draft202012Validator
from ollama_replies import Answer, Drop, ErrorLine, Garbage, Hang, HttpError, NoEnd, Reply

from benchmarks.speed.simulation import common_prefix

FAST = "qwen2.5-coder:0.5b"
FULL = "qwen2.5-coder:1.5b"

_POLL_SECONDS = 0.01
_PATIENCE_SECONDS = 240.0
_CREATED_AT = "2026-11-21T07:30:10.573310833Z"
_NS_PER_PROMPT_TOKEN = 10_000_000
_NS_PER_REPLY_TOKEN = 50_000_000
_NS_LOAD = 100_000_000
_TOKEN = re.compile(r" ?\w{1,6}| ?[^\w\s]{1,4}|\s+")


@dataclass(frozen=True)
class Request:
    """One POST to `/api/chat`, as it came."""

    body: dict[str, Any]
    hung_up: threading.Event = field(default_factory=threading.Event, repr=False)
    """Set when the server saw that the client closed the connection before the reply's end."""

    @property
    def model(self) -> str:
        return str(self.body.get("model"))

    @property
    def messages(self) -> list[dict[str, str]]:
        return list(self.body.get("messages") or [])

    @property
    def last(self) -> str:
        """The text of the last message."""
        return self.messages[-1]["content"]

    @cached_property
    def prompt(self) -> str:
        """The prompt as the model's ChatML template renders it; messages are in it verbatim."""
        turns = (f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in self.messages)
        return "".join(turns) + "<|im_start|>assistant\n"

    @cached_property
    def prompt_tokens(self) -> int:
        return len(_tokens(self.prompt))

    @property
    def schema(self) -> dict[str, Any] | None:
        """The requested `format`."""
        return self.body.get("format")

    @property
    def properties(self) -> frozenset[str]:
        """The names of the schema's properties."""
        return frozenset((self.schema or {}).get("properties", ()))

    @property
    def keys(self) -> frozenset[str]:
        """The keys that a reply may have, in any branch of the schema."""
        schema = self.schema or {}
        branches = schema.get("anyOf", [schema])
        return frozenset(name for each in branches for name in each.get("properties", ()))

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.body.get("options") or {})

    def __str__(self) -> str:
        return json.dumps(self.body, indent=1, ensure_ascii=False)


async def hung_up(request: Request) -> bool:
    """Whether the server saw the client close the connection of this request."""
    return await anyio.to_thread.run_sync(request.hung_up.wait, _PATIENCE_SECONDS)


@dataclass(frozen=True)
class _Expectation:
    reply: Reply
    model: str | None
    contains: tuple[str, ...]
    when: Callable[[Request], bool] | None

    def matches(self, request: Request) -> bool:
        return (
            self.model in (None, request.model)
            and all(part in request.prompt for part in self.contains)
            and (self.when is None or self.when(request))
        )


def _final_answer(reply: Reply) -> str | None:
    """The answer in a reply that has one."""
    content: object = reply
    if isinstance(reply, Answer):
        content = reply.content
    if isinstance(reply, Hang):
        content = reply.after + reply.then
    if isinstance(content, str):
        with contextlib.suppress(ValueError):
            content = json.loads(content)
    return content.get("final_answer") if isinstance(content, dict) else None


def usual_reply(properties: frozenset[str], last_answer: str) -> dict[str, Any] | None:
    """The reply where a script says nothing of its own: the request wants a fact, a second reading
    agrees with the first, other words and queries find nothing, no tool shows files, nothing is
    translated; None where there is no usual one."""
    if "wants" in properties:
        return {"search": ["value"], "wants": "short answer"}
    if "answer_again" in properties:
        return {"answer_again": last_answer}
    if properties == {"words"}:
        return {"words": ["qqqq", "zzzz"]}
    if properties == {"lists", "reads"}:
        return {"lists": None, "reads": None}
    if properties == {"sql"}:
        return {"sql": "SELECT NULL WHERE 0"}
    if properties == {"language"}:
        return {"language": "English"}
    if properties == {"says"}:
        return {"says": "it was done"}
    return None


def _says(reply: Reply, properties: frozenset[str]) -> bool:
    """Whether a scripted reply is one to a question with these keys, all or those of a branch."""
    said = reply.content if isinstance(reply, Answer) else reply
    return isinstance(said, dict) and bool(said) and said.keys() <= properties


class ScriptedOllama:
    """The server; `with` or `async with` starts and ends it.

    `models` are the models it has; another one is answered with Ollama's 404. `handler` answers
    what no expectation matches. `tells_cached` is False for a server older than
    `prompt_eval_cached_count`.

    Besides unexpected requests and unmet expectations, these fail the test at exit:

    - `format` together with `tools`; a call that does not stream, or lets the server cut the
      prompt or think (`truncate`, `shift`, `think` other than false; after an empty reply, or an
      error that speaks of thinking, `think` may be another)
    - options (`num_predict` aside) or `shift` that differ between two calls of a model
    - a schema that Ollama's grammar refuses, and a reply that its grammar could not produce or
      that is longer than `num_predict`
    """

    def __init__(
        self,
        *,
        models: Sequence[str] = (FAST, FULL),
        handler: Callable[[Request], Reply] | None = None,
        version: str = "0.40.3",
        tells_cached: bool = True,
    ) -> None:
        self.models = tuple(models)
        self.version = version
        self.requests: list[Request] = []
        """Every chat request so far, in the order of arrival, those with a usual reply aside."""
        self.loaded: list[str] = []
        """The models that were to be loaded, by a request without messages."""
        self._handler = handler
        self._tells_cached = tells_cached
        self._lock = threading.Condition()
        self._expected: list[_Expectation] = []
        self._problems: list[str] = []
        self._last_answer = ""
        self._may_think = False
        self._options: dict[str, dict[str, Any]] = {}
        self._slots: dict[str, list[str]] = {}
        self._released = threading.Event()
        self._connections: set[socket.socket] = set()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_SECONDS,))

    @property
    def connection(self) -> "type[Connection]":
        """How it speaks."""
        return Connection

    @property
    def host(self) -> str:
        """`127.0.0.1:PORT`, for `OLLAMA_HOST`."""
        address, port = self._server.server_address[:2]
        return f"{address!s}:{port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def expect(
        self,
        reply: Reply,
        *,
        model: str | None = None,
        contains: Sequence[str] = (),
        when: Callable[[Request], bool] | None = None,
    ) -> None:
        """Answer one request with `reply`.

        What has a usual reply (`usual_reply`) is given it unless the script has one of
        its own. Any other request takes the first expectation, in the order given, whose `model` is
        its model, whose `contains` are all somewhere in its messages, and for which `when` is true.
        """
        assert not isinstance(contains, str), "contains is a list of strings"
        with self._lock:
            self._expected.append(_Expectation(reply, model, tuple(contains), when))

    def release(self) -> None:
        """Let every `Hang`, now and later, go on."""
        self._released.set()

    async def arrived(self, count: int = 1) -> None:
        """Wait until `count` chat requests have arrived."""

        def wait() -> bool:
            with self._lock:
                return self._lock.wait_for(lambda: len(self.requests) >= count, _PATIENCE_SECONDS)

        came = await anyio.to_thread.run_sync(wait)
        assert came, f"{count} requests did not arrive: {self.requests}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._released.set()
        self._server.shutdown()
        self._thread.join()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        problems = [*self._problems]
        problems += [f"An expected request did not come: {e}" for e in self._expected]
        if not problems:
            return
        report = "\n\n".join(problems)
        if error is None:
            raise AssertionError(report)
        error.add_note(f"The scripted Ollama saw:\n{report}")

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def _problem(self, what: str, request: Request) -> None:
        with self._lock:
            self._problems.append(f"{what}\nThe request was {request}")

    def _take(self, request: Request) -> Reply:
        with self._lock:
            usual = usual_reply(request.keys, self._last_answer)
            own = any(_says(each.reply, request.keys) for each in self._expected)
            if usual is not None and not own:
                return Answer(usual, unconstrained="language" in usual)
            for i, expectation in enumerate(self._expected):
                if expectation.matches(request):
                    reply = self._expected.pop(i).reply
                    self._last_answer = _final_answer(reply) or self._last_answer
                    return reply
            waiting = "\n".join(map(str, self._expected)) or "nothing"
        if self._handler is not None:
            reply = self._handler(request)
            self._last_answer = _final_answer(reply) or self._last_answer
            return reply
        self._problem(f"An unexpected request came; expected was {waiting}.", request)
        return HttpError(500, "the script of the test expected another request")

    def _answer(self, request: Request) -> Reply:
        """The reply to a request, once both are checked."""
        with self._lock:
            if not request.messages:
                self.loaded.append(request.model)
            elif usual_reply(request.keys, "") is None:
                self.requests.append(request)
            self._lock.notify_all()
        if request.model not in self.models:
            return HttpError(404, f"model '{request.model}' not found")
        for problem in self._request_problems(request):
            self._problem(problem, request)
        try:
            reply = self._take(request) if request.messages else Answer("", done_reason="load")
        except Exception as error:  # noqa: BLE001 -- a matcher's or handler's own failure
            self._problem(f"The script failed: {error!r}", request)
            return HttpError(500, "the script of the test failed")
        if isinstance(reply, str | dict | list):
            reply = Answer(reply)
        count, limit = request.prompt_tokens, request.options.get("num_ctx", 0)
        if isinstance(reply, HttpError) and "think" in str(reply.error):
            self._may_think = True
        if isinstance(reply, Answer):
            self._may_think |= bool(request.messages) and not reply.text
            if count >= limit:
                return HttpError(
                    400,
                    f"request ({count} tokens) exceeds the available context size "
                    f"({limit} tokens), try increasing it",
                )
            for problem in _reply_problems(request, reply):
                self._problem(problem, request)
        return reply

    def _request_problems(self, request: Request) -> Iterator[str]:
        body = request.body
        if "format" in body and body.get("tools"):
            yield "`format` and `tools` came together; Ollama would ignore the tools."
        if body.get("stream") is not True:
            yield "The call does not stream, so that a cancel would not stop the server."
        for name in ("truncate", "shift"):
            if body.get(name) is not False:
                yield f"`{name}` is not false."
        if request.messages and not self._may_think and body.get("think") is not False:
            yield "`think` is not false."
        options = {k: v for k, v in request.options.items() if k != "num_predict"}
        with self._lock:
            first = self._options.setdefault(request.model, options)
        if options != first:
            yield f"The options changed from {first}: Ollama would restart the runner."
        if "num_ctx" not in options:
            yield "`num_ctx` is not set."
        if request.schema is not None:
            yield from schema_problems(request.schema, "format")

    def _last_record(self, request: Request, answer: Answer, reply: list[str]) -> dict[str, Any]:
        """The record with the counts, from a cache of one slot per model."""
        prompt = _tokens(request.prompt)
        with self._lock:
            slot = self._slots.get(request.model, [])
            self._slots[request.model] = prompt + reply
        # The last token is always computed again: its result is what the reply starts from.
        cached = min(common_prefix(slot, prompt), len(prompt) - 1)
        prefill = (len(prompt) - cached) * _NS_PER_PROMPT_TOKEN
        decode = len(reply) * _NS_PER_REPLY_TOKEN
        record = {
            **_record(request, ""),
            "done": True,
            "done_reason": answer.done_reason,
            "total_duration": _NS_LOAD + prefill + decode,
            "load_duration": _NS_LOAD,
            "prompt_eval_count": len(prompt),
            "prompt_eval_cached_count": cached if self._tells_cached else None,
            "prompt_eval_duration": prefill,
            "eval_count": len(reply),
            "eval_duration": decode,
            **answer.fields,
        }
        return {name: value for name, value in record.items() if value is not None}

    def _get(self, path: str) -> dict[str, Any] | None:
        match path:
            case "/api/version":
                return {"version": self.version}
            case "/api/tags":
                return {"models": [_model(name) for name in self.models]}
            case "/api/ps":
                with self._lock:
                    loaded = dict(self._options)
                return {
                    "models": [
                        {**_model(name), "size_vram": 0, "context_length": options.get("num_ctx")}
                        for name, options in loaded.items()
                    ]
                }
        return None


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = False  # so that closing waits for every thread

    def __init__(self, ollama: ScriptedOllama) -> None:
        self.ollama = ollama
        super().__init__(("127.0.0.1", 0), ollama.connection)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self.ollama._lock:
            self.ollama._connections.add(connection)
        return connection, address

    def close_request(self, request: Any) -> None:
        with self.ollama._lock:
            self.ollama._connections.discard(request)
        super().close_request(request)


class Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    """What comes without a pause is sent together: each piece alone would wake its reader."""
    server: _Server

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a test's output is its own."""

    def do_GET(self) -> None:
        found = self.server.ollama._get(self.path)
        self._send(200 if found else 404, found or b"404 page not found")

    def do_POST(self) -> None:
        ollama = self.server.ollama
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/api/show" and body.get("model") in ollama.models:
            told = {"capabilities": ["completion", "tools"], "model_info": {}}
            self._send(200, {**_model(body["model"]), **told})
        elif self.path == "/api/show":
            self._send(404, {"error": f"model '{body.get('model')}' not found"})
        elif self.path == "/api/chat":
            request = Request(body)
            try:
                self._reply(request, ollama._answer(request))
            except ConnectionError:
                request.hung_up.set()
                self.close_connection = True
        else:
            self._send(404, b"404 page not found")

    def _reply(self, request: Request, reply: Reply) -> None:
        if isinstance(reply, HttpError):
            error = reply.error
            self._send(reply.status, error if isinstance(error, bytes) else {"error": error})
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        match reply:
            case Answer():
                thoughts, pieces = _tokens(reply.thinking), _tokens(reply.text)
                for piece in thoughts:
                    self._line(_record(request, "", piece))
                for piece in pieces:
                    self._wait(request, reply.gap_seconds)
                    self._line(_record(request, piece))
                self._line(self.server.ollama._last_record(request, reply, thoughts + pieces))
            case Hang():
                self._pieces(request, reply.after)
                self._wait(request)
                self._pieces(request, reply.then)
                answer = Answer(reply.after + reply.then)
                pieces = _tokens(answer.text)
                self._line(self.server.ollama._last_record(request, answer, pieces))
            case ErrorLine():
                self._pieces(request, reply.after)
                self._line({"error": reply.error})
            case Garbage():
                self._pieces(request, reply.after)
                self._chunk(reply.line.encode() + b"\n")
            case NoEnd():
                self._pieces(request, reply.after)
            case Drop():
                self._pieces(request, reply.after)
                self.close_connection = True
                return
        self._chunk(b"")
        self.wfile.flush()

    def _wait(self, request: Request, seconds: float | None = None) -> None:
        """Wait `seconds`, or for the release, watching whether the client hangs up."""
        released = self.server.ollama._released
        if seconds != 0:
            self.wfile.flush()
        end = None if seconds is None else time.monotonic() + seconds
        while not released.is_set() and (end is None or time.monotonic() < end):
            readable, _, _ = select.select([self.connection], [], [], _POLL_SECONDS)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionAbortedError("the client hung up")

    def _pieces(self, request: Request, text: str) -> None:
        for piece in _tokens(text):
            self._line(_record(request, piece))

    def _line(self, record: dict[str, Any]) -> None:
        # Like Go's encoder: UTF-8 as it is, except for these.
        line = json.dumps(record, ensure_ascii=False)
        line = re.sub("[<>&\u2028\u2029]", lambda c: f"\\u{ord(c[0]):04x}", line)
        self._chunk(line.encode() + b"\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _send(self, status: int, body: dict[str, Any] | bytes) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _tokens(text: str) -> list[str]:
    """Cut `text` into pieces of about four characters, never across two words."""
    return _TOKEN.findall(text)


def _record(request: Request, piece: str, thought: str = "") -> dict[str, Any]:
    thinking = {"thinking": thought} if thought else {}
    return {
        "model": request.model,
        "created_at": _CREATED_AT,
        "message": {"role": "assistant", "content": piece, **thinking},
        "done": False,
    }


def _model(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "model": name,
        "modified_at": _CREATED_AT,
        "size": 491401996,
        "digest": "f9145d7981f8954c062c12a2282f7753fe052658eb559aa7420722642fd610af",
        "details": {
            "parent_model": "",
            "format": "gguf",
            "family": "qwen2",
            "families": ["qwen2"],
            "parameter_size": "630.17M",
            "quantization_level": "Q4_K_M",
        },
    }


def schema_problems(schema: Any, path: str) -> Iterator[str]:
    """What llama.cpp's schema converter refuses, or drops without a word."""
    if not isinstance(schema, dict):
        yield f"Ollama's grammar refuses the schema {schema!r} at {path}."
        return
    pattern = schema.get("pattern")
    if pattern is not None and not (pattern.startswith("^") and pattern.endswith("$")):
        yield f"Ollama's grammar refuses the unanchored pattern at {path}."
    if max(schema.get("maxLength", 0), schema.get("maxItems", 0)) >= 2000:
        yield f"Ollama's grammar refuses the long bound at {path}."
    if schema.get("$ref", "#/").startswith("#/") is False:
        yield f"Ollama's grammar refuses the reference {schema['$ref']!r} at {path}."
    if "properties" in schema and ("anyOf" in schema or "oneOf" in schema):
        yield f"Ollama's grammar drops the properties beside the union at {path}."
    for key in ("properties", "$defs", "definitions"):
        for name, part in schema.get(key, {}).items():
            yield from schema_problems(part, f"{path}.{name}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for i, part in enumerate(schema.get(key, ())):
            yield from schema_problems(part, f"{path}.{key}[{i}]")
    if "items" in schema:
        yield from schema_problems(schema["items"], f"{path}[]")


def _reply_problems(request: Request, answer: Answer) -> Iterator[str]:
    """Why no real server would have written this reply."""
    text, limit = answer.text, request.options.get("num_predict", -1)
    if 0 <= limit < (count := len(_tokens(answer.thinking + text))):
        yield f"The scripted reply has {count} tokens, num_predict is {limit}: {text}"
    if request.schema is None or answer.unconstrained or answer.done_reason == "length":
        return
    try:
        value = json.loads(text)
    except ValueError:
        yield f"The scripted reply is no JSON, but a schema was given: {text}"
        return
    for error in Draft202012Validator(_closed(request.schema)).iter_errors(value):
        yield f"The scripted reply breaks the schema at {error.json_path}: {error.message}"


def _closed(schema: Any) -> Any:
    """The schema as the grammar reads it: an object has no properties but those named."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    # Values of enum, const and default are data; the branches of allOf count only together.
    closed = {
        key: part if key in ("enum", "const", "default", "allOf") else _closed(part)
        for key, part in schema.items()
    }
    if isinstance(schema.get("properties"), dict) and "allOf" not in schema:
        closed.setdefault("additionalProperties", False)
    return closed
