"""Generated inputs and replies for the real server, and what has to hold whatever is said.

Each check sends what hypothesis drew, and fails on a hang, a crash or a stack trace. Tests run a
few of each (`tests/test_generated.py`), `python -m benchmarks.faults --parts inputs` thousands.
"""

import base64
import itertools
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
from anyio.from_thread import start_blocking_portal
from faults import faulty
from hypothesis import HealthCheck, assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp import MCPError
from ollama_replies import Answer, Drop, ErrorLine, Garbage, HttpError, NoEnd, Reply
from planted import CLASS
from replies import conclusion
from scripted_ollama import Request, ScriptedOllama
from serving import FILES, LONG, Caller, Place, called, text

TRACE = re.compile(r"Traceback \(most recent|\.py\W{1,3}, line \d")
SLIP = re.compile(r"Error calling tool|Internal (server )?error", re.IGNORECASE)
"""How FastMCP and the SDK tell a client of an exception that nobody planned for."""
WITHOUT_SLEEP = FILES | {"allow": ["list_dir", "read_file", "search", "write_file"]}
END = conclusion("That is what there is.", success=False)
PROMPTS = (f"What is {CLASS}?", "Which files are there?", "Do it", "Where is `run` defined?")
GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "generated", "version": "1"},
}

# Strategies

words = st.text(max_size=40) | st.sampled_from(
    ["", "\0", "\u2028", "\ud800", "%s{0}$x", "x" * 5000]
)
numbers = st.integers() | st.floats() | st.sampled_from([0, -1, 10**400, 2**63, 1e308, 1e-300])
scalars = st.none() | st.booleans() | numbers | words
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=10,
)
objects = st.dictionaries(words, values, max_size=4)

RUN = ("wait_s", "max_seconds", "request_key")
TOOLS = {
    "plan_and_answer": ("prompt", "run_id", "data_schema", "policy", "max_iterations", *RUN),
    "run_step": ("prompt", "tool", "arguments", "run_id", "policy", *RUN),
    "make_plan": ("prompt", *RUN),
    "get_run": ("run_id", "wait_s", "iteration"),
    "steer_run": ("run_id", "hint", "skip", "order"),
    "cancel_run": ("run_id",),
    "list_tools": (),
}
USUAL = ("plan_and_answer", "run_step", "make_plan")
FITTING: dict[str, st.SearchStrategy[Any]] = {
    "prompt": st.sampled_from([f"What is {CLASS}?", "Do it", " "]) | words,
    "run_id": st.sampled_from(["", "0" * 32, "../x"]) | words,
    "request_key": words,
    "tool": st.sampled_from(["files.read_file", "read_file", "files.write_file", "no"]) | words,
    "arguments": st.fixed_dictionaries({"path": st.just("jobs/secret.py") | values}) | objects,
    "data_schema": st.sampled_from([{"type": "object"}, {"$ref": "#"}, {"type": "no"}]) | objects,
    "policy": st.sampled_from(["read_only", "ask", "allow"]),
    "iteration": st.integers(-1, 5),
    "hint": words,
    "skip": st.lists(numbers, max_size=3),
    "order": st.lists(numbers, max_size=3),
    "wait_s": st.floats(0, 5),
    "max_iterations": st.integers(1, 100),
    "max_seconds": st.floats(0.001, 50),
    "max_model_tokens": st.integers(1000, 100_000),
}
"""What an argument may well be."""


@st.composite
def tool_calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A tool and arguments: such as it takes, some of them of any kind, or of any name."""
    name = draw(st.sampled_from(USUAL) | st.sampled_from([*TOOLS]) | words)
    known = TOOLS.get(name, tuple(FITTING))
    optional = draw(st.sets(st.sampled_from(known))) if known else set()
    names = [*known[:1], *sorted(optional)]
    given = {each: draw(FITTING[each]) for each in names}
    match draw(st.sampled_from(["fitting", "fitting", "one of any kind", "of any name"])):
        case "one of any kind" if names:
            given[draw(st.sampled_from(names))] = draw(values)
        case "of any name":
            given |= draw(objects)
    return name, given


calls = tool_calls()
metas = st.none() | objects | st.fixed_dictionaries({"progressToken": values})

METHODS = (
    *("tools/call", "tools/list", "resources/read", "resources/list", "resources/templates/list"),
    *("prompts/get", "prompts/list", "completion/complete", "logging/setLevel", "initialize"),
    *("server/discover", "subscriptions/listen", "tasks/get", "tasks/list", "ping"),
)
NOTICES = ("cancelled", "progress", "initialized", "roots/list_changed", "message")
call_params = st.builds(
    lambda call, meta, more: {"name": call[0], "arguments": call[1], "_meta": meta} | more,
    calls,
    metas,
    st.fixed_dictionaries({}, optional={"requestState": values, "inputResponses": values}),
)
params = call_params | objects | st.fixed_dictionaries({"uri": words | st.just("run://x")})
requests = st.tuples(st.sampled_from(METHODS) | words, params).filter(lambda each: is_json(each))
messages = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2])},
    optional={
        "id": values,
        "method": st.sampled_from([*METHODS, *(f"notifications/{each}" for each in NOTICES)]),
        "params": params | values,
        "result": values,
        "error": values,
    },
)


def is_json(value: Any) -> bool:
    """Whether it is JSON to every parser: no NaN, no halves of surrogate pairs."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True


@st.composite
def damaged(draw: st.DrawFn, lines: st.SearchStrategy[bytes]) -> bytes:
    """A line with a few of its bytes changed, or its end cut off."""
    line = bytearray(draw(lines))
    for place, byte in draw(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)))):
        line[place % len(line)] = byte
    return bytes(line[: draw(st.integers(1, 10**6))])


def in_one_line(raw: bytes) -> bytes:
    return raw.replace(b"\n", b" ").replace(b"\r", b" ")


wellformed = messages.map(lambda message: json.dumps(message).encode())
lines = (
    wellformed
    | st.lists(messages, max_size=3).map(lambda batch: json.dumps(batch).encode())
    | damaged(wellformed)
    | st.binary(max_size=300)
    | values.map(lambda value: json.dumps(value).encode())
    | st.integers(1, 20_000).map(lambda depth: b"[" * depth)
).map(in_one_line)

block = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "hologram"])},
    optional={
        "text": words | values,
        "data": st.just("aGk=") | values,
        "mimeType": st.just("image/png") | values,
        "resource": objects | st.fixed_dictionaries({"uri": words, "text": words}),
        "uri": words,
        "name": words,
        "annotations": values,
        "_meta": values,
    },
)
tool_result = st.fixed_dictionaries(
    {"content": st.lists(block, max_size=3) | values},
    optional={"isError": st.booleans() | values, "structuredContent": objects | values},
)
ID = "@ID@"
answers = st.one_of(
    st.builds(lambda result: {"jsonrpc": "2.0", "id": ID, "result": result}, tool_result | values),
    st.builds(
        lambda error: {"jsonrpc": "2.0", "id": ID, "error": error},
        st.fixed_dictionaries({"code": values, "message": words}, optional={"data": values})
        | values,
    ),
)
upstream_lines = (
    st.one_of(answers, answers, answers, messages).map(lambda each: json.dumps(each).encode())
    | damaged(answers.map(lambda each: json.dumps(each).encode()))
    | st.binary(max_size=300)
).map(in_one_line)

model_replies = st.tuples(
    st.sampled_from(["fits"] * 6 + ["cut", "text", "value", "counts", "fault"]),
    st.integers(0, 2**32),
    words,
    values,
    st.sampled_from([400, 401, 404, 429, 500, 503]),
)
"""A kind, and what it may need; what a schema lets through is made when the schema is known."""


TEXTS = ("", "jobs/secret.py", "line 6", CLASS, "search", "</result>", "\u2028")


def fitting(schema: dict[str, Any], chance: random.Random, texts: Sequence[str] = TEXTS) -> Any:
    """A value that the schema of a model call lets through, with these texts where any may be."""
    if "anyOf" in schema:
        return fitting(chance.choice(schema["anyOf"]), chance, texts)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return chance.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            required = schema.get("required", [])
            names = [each for each in properties if each in required or chance.random() < 0.5]
            return {name: fitting(properties[name], chance, texts) for name in names}
        case "array":
            return [fitting(schema["items"], chance, texts) for _ in range(chance.randrange(3))]
        case "boolean":
            return chance.random() < 0.5
        case "integer" | "number":
            return chance.randrange(-2, 9)
        case "null":
            return None
    return chance.choice(texts)


def said(drawn: tuple[Any, ...], request: Request) -> Reply:
    kind, seed, word, value, status = drawn
    chance = random.Random(seed)
    reply = json.dumps(fitting(request.schema or {}, chance))
    limit = request.options.get("num_predict", len(reply))
    if kind == "fault":
        faults: list[Reply] = [
            Drop(after=reply[: chance.randrange(20)]),
            NoEnd(after=reply[:9]),
            ErrorLine(safe(word), after=reply[:9]),
            Garbage(safe(word)),
            Garbage(json.dumps(value)),
            HttpError(status, safe(word)),
            HttpError(status, safe(word).encode()),
        ]
        return chance.choice(faults)
    if kind == "text":
        reply = safe(word)
    if kind == "value":
        reply = json.dumps(value)
    if kind == "cut":
        reply = reply[: chance.randrange(len(reply) + 1)]
    fields = {"prompt_eval_count": value, "eval_count": word} if kind == "counts" else {}
    return Answer(
        reply[:limit],
        done_reason="length" if kind == "cut" else "stop",
        unconstrained=True,
        fields=fields,
    )


def willing(request: Request) -> Reply:
    """What a model says that wants to come to an end."""
    fits = not any(Draft202012Validator(request.schema or {}).iter_errors(END))
    return END if fits else said(("fits", len(request.prompt), "", None, 500), request)


def safe(text: str) -> str:
    """Without halves of surrogate pairs, which cannot be encoded."""
    return text.encode("utf-8", "replace").decode()


# Checks


def many(count: int) -> hypothesis_settings:
    return hypothesis_settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


def in_memory(place: Place, count: int) -> Counter[str]:
    """Calls through a client: each ends in a result or an error of its own."""
    place.upstreams = {"files": WITHOUT_SLEEP}
    told: Counter[str] = Counter()
    with connected(place) as call:

        @many(count)
        @given(calls, metas)
        def check(drawn: tuple[str, dict[str, Any]], meta: dict[str, Any] | None) -> None:
            kind, _ = call(*drawn, meta)
            assume(kind != "unsent")
            told[kind] += 1

        check()
    return told


Call = Callable[[str, dict[str, Any], dict[str, Any] | None], tuple[str, Any]]


@contextmanager
def connected(place: Place) -> Iterator[Call]:
    """A function that makes a tool call, and says how it ended and with what."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(place.client()) as caller,
    ):

        def call(name: str, given: dict[str, Any], meta: dict[str, Any] | None) -> tuple[str, Any]:
            kind, result = portal.call(_called, caller, name, given, meta)
            assert not TRACE.search(str(result)), result
            assert kind != "errors" or not SLIP.match(result), result
            return kind, result

        yield call


async def _called(
    caller: Caller, name: str, given: dict[str, Any], meta: dict[str, Any] | None
) -> tuple[str, Any]:
    with anyio.fail_after(LONG):
        try:
            result = await caller.client.call_tool(name, given, meta=meta, raise_on_error=False)
        except MCPError as error:
            return "errors", str(error)
        except ValueError:
            return "unsent", None  # by the client: halves of surrogate pairs, metas of no shape
        if result.is_error:
            return "errors", text(result)
        return "results", await called(caller.client, result)


def over_stdio(place: Place, count: int) -> Counter[str]:
    """Lines to a server's standard input, every other one a request that has to be answered; after
    each the server still answers the next request, and prints nothing but JSON-RPC."""
    place.upstreams = {"files": WITHOUT_SLEEP}
    told: Counter[str] = Counter()
    with bare(place) as ask:

        @many(count // 2)
        @given(requests, lines)
        def check(request: tuple[str, Any], line: bytes) -> None:
            method, given = request
            answer = ask(method, given, b"")
            told["errors" if "error" in answer else "results"] += 1
            ask("ping", {}, line)
            told["lines"] += 1

        check()
    return told


Ask = Callable[[str, Any, bytes], dict[str, Any]]


@contextmanager
def bare(place: Place) -> Iterator[Ask]:
    """A function that sends a line and then a request, and gives the answer to the request."""
    server = place.popen("serve")
    assert server.stdin
    assert server.stdout
    source, sink = server.stdin, server.stdout
    # What is unread would stop the server.
    drain = threading.Thread(target=lambda: server.stderr and server.stderr.read())
    drain.start()
    numbers = itertools.count()
    fault = ""

    def ask(method: str, given: Any, line: bytes) -> dict[str, Any]:
        nonlocal fault
        assert not fault, fault
        number = f"own {next(numbers)}"
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
        hung = threading.Timer(LONG, server.kill)
        hung.start()
        try:
            source.write(line + b"\n" + json.dumps(message).encode() + b"\n")
            source.flush()
            for said in sink:
                answer: dict[str, Any] = json.loads(said)
                assert answer["jsonrpc"] == "2.0"
                assert not TRACE.search(said.decode()), said
                if answer.get("id") == number:
                    assert not SLIP.match(refusal(answer)), (message, answer)
                    return answer
        except BrokenPipeError:
            pass  # it has ended
        finally:
            hung.cancel()
        fault = f"no answer to {message} after {line!r}"
        raise AssertionError(fault)

    try:
        ask("initialize", GREETING, b"")
        source.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        yield ask
        source.close()
        assert server.wait(LONG) == 0
    finally:
        server.kill()
        drain.join()
        server.wait()
        for pipe in (server.stdin, server.stdout, server.stderr):
            if pipe:
                pipe.close()


def refusal(answer: dict[str, Any]) -> str:
    """Why a request was not answered with what it asked for, if it was not."""
    if "error" in answer:
        return str(answer["error"]["message"])
    result = answer["result"]
    return str(result["content"][0]["text"]) if result.get("isError") else ""


def model_says(place: Place, count: int) -> Counter[str]:
    """Runs whose models say anything, until they have said so many replies."""
    place.upstreams = {"files": WITHOUT_SLEEP}
    ended: Counter[str] = Counter()
    drawn: list[tuple[Any, ...]] = []

    def answer(request: Request) -> Reply:
        if not drawn:
            return willing(request)
        ended["replies"] += 1
        return said(drawn.pop(0), request)

    with ScriptedOllama(handler=answer) as place.ollama, connected(place) as call:

        @many(count)
        @given(st.sampled_from(PROMPTS), st.lists(model_replies, min_size=1, max_size=12))
        def check(prompt: str, replies: list[tuple[Any, ...]]) -> None:
            if ended["replies"] >= count:
                return
            drawn[:] = replies
            ended[status(call("plan_and_answer", {"prompt": prompt}, None))] += 1

        check()
    return ended


def upstream_says(place: Place, count: int) -> Counter[str]:
    """Steps whose upstream prints anything before, or instead of, its answer."""
    place.upstreams = {"up": faulty(allow=["says"])}
    ended: Counter[str] = Counter()
    with ScriptedOllama(handler=willing) as place.ollama, connected(place) as call:

        @many(count)
        @given(upstream_lines)
        def check(line: bytes) -> None:
            given = {"line": base64.b64encode(line).decode()}
            step = {"prompt": "Do it", "tool": "up.says", "arguments": given}
            ended[outcome(call("run_step", step, None))] += 1

        check()
    return ended


def status(done: tuple[str, Any]) -> str:
    kind, result = done
    return kind if kind == "errors" else str(result.structured_content["status"])


def outcome(done: tuple[str, Any]) -> str:
    """That of the tool call in a step that made one."""
    kind, result = done
    if kind == "errors":
        return kind
    (action,) = result.whole["actions"]
    return str(action["tool_calls"][0]["outcome"])
