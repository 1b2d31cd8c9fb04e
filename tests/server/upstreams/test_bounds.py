"""What hostile upstreams send is bounded: bytes, requests, pages, lines; as a client sees it."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from generated import fitting
from ollama_replies import Answer
from paths import SUPPORT
from scripted_ollama import ScriptedOllama
from serving import LONG, Caller, Place, served
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from upstream_server import build_server

from server.upstreams import results, stdio

pytestmark = pytest.mark.anyio


@pytest.fixture
def ollama() -> Iterator[ScriptedOllama]:
    """A model that says anything at all."""
    chance = random.Random(0)
    with ScriptedOllama(
        handler=lambda request: Answer(json.dumps(fitting(request.schema or {}, chance, ["Done."])))
    ) as ollama:
        yield ollama


async def called(caller: Caller, name: str, **arguments: Any) -> tuple[str, str]:
    """The outcome of a call, and its whole result."""
    step = {"prompt": f"Call {name}", "tool": name, "arguments": arguments, "policy": "allow"}
    done = await caller.call("run_step", wait_s=LONG, **step)
    assert done.whole, done
    (call,) = done.whole["actions"][0]["tool_calls"]
    got = {"run_id": done.whole["run_id"], "iteration": 0}
    whole = (await caller.client.call_tool("get_run", got)).structured_content or {}
    return call["outcome"], whole["result"]


async def state(caller: Caller) -> tuple[str, str]:
    """What the only upstream is, and why."""
    (up,) = ((await caller.call("list_tools")).structured_content or {})["upstreams"]
    return up["state"], str(up.get("error"))


def compressing(app: Any) -> Any:
    """Whether or not it is asked for."""
    compressed = GZipMiddleware(app)

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [each for each in scope["headers"] if each[0] != b"accept-encoding"]
            scope = {**scope, "headers": [*headers, (b"accept-encoding", b"gzip")]}
        await compressed(scope, receive, send)

    return asked


HINTS = {"readOnlyHint": True}
SPEAKER: dict[str, Any] = {
    "command": "${PLANLOOM_PYTHON}",
    "args": [str(SUPPORT / "speaking_upstream.py")],
}


async def test_requests_whose_answers_are_not_read_are_not_kept(place: Place) -> None:
    place.upstreams = {"up": SPEAKER}
    async with place.client() as caller:
        assert (await state(caller))[0] == "ready"
        before = psutil.Process().memory_info().rss
        assert await called(caller, "demand", n=5_000) == ("SUCCESS", "asked it all")
        assert psutil.Process().memory_info().rss - before < 16 * 2**20


def demanding(app: Any) -> Any:
    """An upstream in the place of `app` that sends thousands of requests in answer to a call, and
    takes no answer to them in."""

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        request = Request(scope, receive)
        posted = request.method == "POST"
        message: dict[str, Any] = await request.json() if posted else {"method": "GET"}
        number = message.get("id")
        response = Response(status_code=202 if posted else 405)
        match message.get("method"):
            case "initialize":
                server = {"name": "demanding", "version": "1"}
                version = message["params"]["protocolVersion"]
                known: dict[str, Any] = {"protocolVersion": version, "capabilities": {"tools": {}}}
                response = said(number, result=known | {"serverInfo": server})
            case "tools/list":
                tool: dict[str, Any] = {
                    "name": "demand",
                    "inputSchema": {"type": "object"},
                    "annotations": HINTS,
                }
                response = said(number, result={"tools": [tool]})
            case "tools/call":
                params = {"messages": [], "maxTokens": 1}
                asking = {"method": "sampling/createMessage", "params": params}
                text = {"type": "text", "text": "asked it all"}
                messages: list[dict[str, Any]] = [
                    {"id": f"d{each}", **asking} for each in range(5_000)
                ]
                messages.append({"id": number, "result": {"content": [text]}})
                lines = [json.dumps({"jsonrpc": "2.0"} | each) for each in messages]
                events = "".join(f"event: message\ndata: {line}\n\n" for line in lines)
                response = Response(events, media_type="text/event-stream")
            case None:
                while (await receive())["type"] != "http.disconnect":
                    pass
            case _ if number is not None:
                response = said(number, error={"code": -32601, "message": "Method not found"})
        await response(scope, receive, send)

    return asked


def said(number: Any, **answer: Any) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": number} | answer)


async def test_over_http_too_they_are_not_kept(place: Place, tmp_path: Path) -> None:
    with served(build_server(tmp_path), wrap=demanding) as url:
        place.upstreams = {"up": {"url": url}}
        async with place.client() as caller:
            assert (await state(caller))[0] == "ready"
            before = psutil.Process().memory_info().rss
            assert await called(caller, "demand") == ("SUCCESS", "asked it all")
            assert psutil.Process().memory_info().rss - before < 16 * 2**20


async def test_the_pages_of_a_tool_list_are_bounded_in_sum(place: Place) -> None:
    place.upstreams = {"up": {**SPEAKER, "args": [*SPEAKER["args"], "pages"]}}
    async with place.client() as caller:
        why = "its tool list is longer than 8 MiB, with all pages"
        assert await state(caller) == ("failed", why)


async def test_the_tools_of_a_list_are_bounded(place: Place) -> None:
    place.upstreams = {"up": {**SPEAKER, "args": [*SPEAKER["args"], "many"]}}
    async with place.client() as caller:
        why = "its tool list is longer than 1000 tools, with all pages"
        assert await state(caller) == ("failed", why)


async def test_tools_that_change_all_the_time_are_listed_now_and_then(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.upstreams.upstream.MIN_LISTING_PAUSE_SECONDS", 10 * LONG)
    place.upstreams = {
        "up": {**SPEAKER, "args": [*SPEAKER["args"], "storm"], "pin_tools": False},
    }

    async def listed(caller: Caller) -> str:
        found = (await caller.call("list_tools")).structured_content or {}
        return str(found["tools"][0]["name"])

    async with place.client() as caller:
        while await listed(caller) == "listing_1":  # noqa: ASYNC110  it is asked for
            await anyio.sleep(0.02)
        await anyio.sleep(0.5)
        assert await listed(caller) == "listing_2"


def padded(app: Any) -> Any:
    """Ends each answer in megabytes of empty lines."""

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        async def sends(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [each for each in message["headers"] if each[0] != b"content-length"]
                message = {**message, "headers": headers}
            await send({**message, "more_body": True})
            if message["type"] == "http.response.body" and not message.get("more_body"):
                for more in [True] * 12 + [False]:
                    body = more * 2**19 * b"\n\n"
                    await send({"type": message["type"], "body": body, "more_body": more})

        await app(scope, receive, sends if scope["type"] == "http" else send)

    return asked


async def state_behind(wrap: Callable[[Any], Any], place: Place, tmp_path: Path) -> tuple[str, str]:
    """The state of an upstream whose answers go through this."""
    with served(build_server(tmp_path), wrap=wrap, json_response=True) as url:
        place.upstreams = {"up": {"url": url}}
        async with place.client() as caller:
            return await state(caller)


async def test_empty_lines_do_not_lengthen_the_bound(place: Place, tmp_path: Path) -> None:
    failed, why = await state_behind(padded, place, tmp_path)
    assert failed == "failed"
    assert "its answer is longer than 8 MiB; ask for less" in why


async def test_an_upstream_is_not_asked_to_compress(place: Place, tmp_path: Path) -> None:
    with served(build_server(tmp_path), wrap=GZipMiddleware, json_response=True) as url:
        place.upstreams = {"up": {"url": url, "allow": ["flood", "say"]}}
        async with place.client() as caller:
            flood = {"characters": 6 * stdio.MAX_MESSAGE_BYTES}
            outcome, said = await called(caller, "flood", **flood)
            assert (outcome, "longer than 8 MiB" in said) == ("ERROR", True)
            assert await called(caller, "say", text="still here") == ("SUCCESS", "still here")


async def test_an_answer_that_is_compressed_all_the_same_is_not_read(
    place: Place, tmp_path: Path
) -> None:
    failed, why = await state_behind(compressing, place, tmp_path)
    assert failed == "failed"
    assert "its answer is compressed (gzip), which Planloom did not ask for" in why


async def test_the_lines_of_a_result_are_bounded(place: Place, tmp_path: Path) -> None:
    with served(build_server(tmp_path)) as url:
        place.upstreams = {"up": {"url": url}}
        async with place.client() as caller:
            outcome, said = await called(caller, "say", text="a\n" * 30_000)
            assert outcome == "SUCCESS"
            assert said.count("\n") == results.MAX_LINES
            assert said.endswith("a\n[cut here: 10001 of 30001 lines left out]")
