"""A simulated Ollama on a loopback port: real wire, scripted replies, counts of a simulation.

    async with serving(server, script) as host:
        ...                         # what is measured calls http://{host}/api/chat
    server.served                   # what every call cost

It knows `/api/chat` as a stream. A script that could not be a model's reply (not of the schema in
`format`, longer than `num_predict`) is an error of the replay: the call fails with what is wrong.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import uvicorn
from jsonschema import Draft202012Validator
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from benchmarks.speed import tokens
from benchmarks.speed.simulation import LAPTOP, Machine, ModelServer, Served

FULL = "qwen2.5-coder:1.5b"
NANOSECONDS = 1e9
CREATED_AT = "2026-11-21T00:00:00Z"
"""Of every record: the server has no clock."""

Said = str | list[dict[str, Any]]
"""A reply: its text, or tool calls as `{"name", "arguments"}`."""
Script = Callable[[dict[str, Any]], Said]
"""What the model says to the body of a chat request."""


@asynccontextmanager
async def serving(
    server: ModelServer, script: Script, machine: Machine = LAPTOP
) -> AsyncIterator[str]:
    """Yields `127.0.0.1:PORT`. `machine` is whose durations the replies report."""
    config = uvicorn.Config(
        _app(server, script, machine), port=0, log_level="warning", lifespan="off"
    )
    http = uvicorn.Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(http.serve)
        while not http.started:  # noqa: ASYNC110  uvicorn sets no event
            await anyio.sleep(0.01)
        yield f"127.0.0.1:{http.servers[0].sockets[0].getsockname()[1]}"
        http.should_exit = True


def _app(server: ModelServer, script: Script, machine: Machine) -> Starlette:
    async def chat(request: Request) -> Response:
        body = await request.json()
        said = script(body)
        prompt = tokens.prompt(body["messages"], body.get("tools") or [])
        reply = tokens.tokens(said if isinstance(said, str) else tokens.written(said))
        if problem := _impossible(body, said, len(prompt), len(reply)):
            return JSONResponse({"error": problem}, 400)
        served = server.serve(body["model"], prompt, reply)
        return StreamingResponse(
            _stream(body["model"], said, _counts(served, machine)),
            media_type="application/x-ndjson",
        )

    return Starlette(routes=[Route("/api/chat", chat, methods=["POST"])])


def _impossible(body: dict[str, Any], said: Said, prompt: int, reply: int) -> str | None:
    """Why no model could have said this, or no server taken the request."""
    options = body["options"]
    if body.get("stream") is not True:
        return "only streams are simulated"
    if prompt + reply > options["num_ctx"]:
        return f"request ({prompt} tokens) exceeds the available context size"
    if reply > options["num_predict"]:
        return f"the reply has {reply} tokens, and num_predict is {options['num_predict']}"
    if schema := body.get("format"):
        errors = Draft202012Validator(schema).iter_errors(json.loads(str(said)))
        if error := next(errors, None):
            return f"the reply breaks the schema at {error.json_path}: {error.message}: {said}"
    return None


def _counts(served: Served, machine: Machine) -> dict[str, Any]:
    """The counts of the last record, with the machine's durations."""
    prefill = served.computed / machine.rates.prefill
    decode = served.generated / machine.rates.decode
    return {
        "done": True,
        "done_reason": "stop",
        "total_duration": round((machine.overhead + prefill + decode) * NANOSECONDS),
        "load_duration": round(machine.overhead * NANOSECONDS),
        "prompt_eval_count": served.prompt,
        "prompt_eval_cached_count": served.cached,
        "prompt_eval_duration": round(prefill * NANOSECONDS),
        "eval_count": served.generated,
        "eval_duration": round(decode * NANOSECONDS),
    }


async def _stream(model: str, said: Said, counts: dict[str, Any]) -> AsyncIterator[bytes]:
    """The reply token by token, tool calls as one record, and the counts."""
    messages: list[dict[str, Any]]
    if isinstance(said, str):
        messages = [{"role": "assistant", "content": each} for each in tokens.tokens(said)]
    else:
        messages = [
            {"role": "assistant", "content": "", "tool_calls": [{"function": c} for c in said]}
        ]
    head = {"model": model, "created_at": CREATED_AT}
    for message in messages:
        yield json.dumps({**head, "message": message, "done": False}).encode() + b"\n"
    last = {**head, "message": {"role": "assistant", "content": ""}, **counts}
    yield json.dumps(last).encode() + b"\n"
