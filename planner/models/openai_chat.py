"""The adapter for servers of the OpenAI chat API: LM Studio, llama.cpp's server, vLLM and others.

`ChatModel` over `/chat/completions` with plain httpx. Every call streams, so that a cancelled call
closes its connection and the server stops computing. Replies are constrained by `response_format`;
a server that refuses it is asked without, and `planner.agent.model_calls` reads what then comes
leniently, checks it and has it corrected once.
"""

import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

import anyio
import httpx
from pydantic import AliasChoices, AliasPath, BaseModel, Field

from planner.errors import ContextExceeded, ModelError, ModelUnavailable
from planner.models import http
from planner.models.base import ChatRequest, Message, PromptBefore, Reply, Written

_SCHEMA_REFUSED = (
    *("response_format", "json_schema", "json schema", "structured output", "guided"),
    *("grammar", "number of repetitions"),
)
_ROLES_REFUSED = ("must alternate", "system role", "only user and assistant roles")
"""What the chat templates of Mistral, Gemma and Llama 2 say about a conversation like ours."""
_THINKING_REFUSED = ("chat_template_kwargs", "enable_thinking", "reasoning_effort")
_LITTLE_THINKING: dict[str, Any] = {
    "chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "low"},
    "reasoning_effort": "low",
}
"""What servers and chat templates take as the wish that the model does not think, or little."""
_HIDDEN = "***"


class _Choice(BaseModel):
    text: str | None = Field(default=None, validation_alias=AliasPath("delta", "content"))
    thought: str | None = Field(
        default=None,
        validation_alias=AliasChoices(
            AliasPath("delta", "reasoning_content"), AliasPath("delta", "reasoning")
        ),
    )
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = Field(
        default=None, validation_alias=AliasPath("prompt_tokens_details", "cached_tokens")
    )


class _Timings(BaseModel):
    """What llama.cpp reports besides, in milliseconds."""

    cache_n: int | None = None
    prompt_ms: float = 0.0
    predicted_ms: float = 0.0


class _Progress(BaseModel):
    """How far llama.cpp has read the prompt."""

    processed: int
    """Tokens, those from the prefix cache included."""
    total: int


class _Chunk(BaseModel):
    """One event of a reply's stream. One has a `finish_reason`; it or a later one the `usage`."""

    choices: list[_Choice] | None = None
    prompt_progress: _Progress | None = None
    usage: _Usage | None = None
    timings: _Timings | None = None


class _ListedModel(BaseModel):
    """A model as servers list it; vLLM and llama.cpp tell its context window."""

    id: str
    max_model_len: int | None = None
    n_ctx: int | None = Field(default=None, validation_alias=AliasPath("meta", "n_ctx"))


class _List(BaseModel):
    data: list[_ListedModel] = Field(max_length=10_000)


@dataclass(frozen=True)
class OpenAIServer:
    """A running server, as `OpenAIClient.probe` found it."""

    url: str
    models: dict[str, int | None]
    """The models it lists, with their context windows in tokens if it reports them."""


Unsupported = Literal["response_format", "roles", "thinking"]
"""What a server or a chat template may refuse: a schema for the reply; several messages of one role
in a row, and a system message; a word on how much to think."""


class _RefusedError(Exception):
    """The server refuses a part of a request. `error` is raised if that was left out before."""

    def __init__(self, what: Unsupported, error: ModelError, said: str) -> None:
        self.what, self.error = what, error
        self.always = what != "response_format" or "response_format" in said
        """Whether it always refuses this; else it may be this one schema."""


class OpenAIClient(http.ServerClient):
    """The connection to one server. `url` is the API's base, such as `http://127.0.0.1:1234/v1`."""

    called = "the model server"
    advice = "start it, or set PLANLOOM_MODEL_URL to the address where it listens."
    larger_window = "Load the model with a context window of {} tokens, or use a shorter prompt."
    token_limit = "max_tokens"
    too_long = "Load the model with a larger one, or use a shorter prompt."
    refusals = (
        (
            {401, 403},
            "",
            "{at} refused access (HTTP {status}); set PLANLOOM_MODEL_KEY to a key it accepts.",
        ),
        (
            {404},
            "model",
            "{at} does not have the model `{name}`: {said}. Load it there, or name another with "
            "PLANLOOM_FAST_MODEL and PLANLOOM_FULL_MODEL.",
        ),
        (
            {404},
            "",
            "What answers at {url} has no OpenAI API there (HTTP 404); set PLANLOOM_MODEL_URL to "
            "its base, most often one that ends in /v1.",
        ),
        (
            {429, 503},
            "",
            "{at} is busy or still loading: {said}. Try again when other requests have ended.",
        ),
    )

    def __init__(
        self, url: str, *, key: str | None = None, gap_seconds: float = http.DEFAULT_GAP_SECONDS
    ) -> None:
        super().__init__(url.rstrip("/"), key, gap_seconds)
        self._key = key

    async def probe(self) -> OpenAIServer:
        """Ask what models there are, for at most 5 s. Raises `ModelUnavailable`."""
        try:
            with anyio.fail_after(http.PROBE_SECONDS):
                response = await self.http.get(f"{self.url}/models")
        except (TimeoutError, httpx.HTTPError) as error:
            raise self.absent() from error
        if not response.is_success:
            refusal = self._refusal(response.text, response.status_code, "the list of models")
            raise ModelUnavailable(str(refusal))
        try:
            listed = _List.model_validate_json(response.content).data
        except ValueError as error:
            raise ModelUnavailable(str(self._foreign(error))) from error
        return OpenAIServer(
            self.url, {each.id: each.max_model_len or each.n_ctx for each in listed}
        )

    async def chunks(self, body: dict[str, Any]) -> AsyncGenerator[_Chunk]:
        """Yield the events of a streamed `POST /chat/completions`. Raises `ModelUnavailable`,
        `ContextExceeded`, `ModelError`, or `_RefusedError`."""
        name = body["model"]
        with self.faults(name):
            async with contextlib.aclosing(await self._send(body)) as response:
                if not response.is_success:
                    said = (await response.aread()).decode(errors="replace")
                    raise self._refusal(said, response.status_code, name)
                async for line in self.reply_lines(response, name, body["max_tokens"]):
                    if (data := self._data(line, name)) is not None:
                        yield data

    async def _send(self, body: dict[str, Any]) -> httpx.Response:
        """The response, still to be read. Some servers close a connection that was kept for the
        next call, as after a refusal, which shows only then: it is made once more."""
        request = self.http.build_request("POST", f"{self.url}/chat/completions", json=body)
        try:
            return await self.http.send(request, stream=True)
        except httpx.RemoteProtocolError:
            return await self.http.send(request, stream=True)

    def _data(self, line: bytes, name: str) -> _Chunk | None:
        """The event in a line of a stream of server-sent events; None for one without."""
        field, _, value = line.strip().partition(b":")
        if field in (b"", b"event", b"id", b"retry") or value.strip() == b"[DONE]":
            return None  # nothing, or a comment that keeps the connection alive
        try:
            record = json.loads(value)
            if field == b"error" or (isinstance(record, dict) and record.get("error")):
                raise self._refusal(record, None, name)
            return _Chunk.model_validate(record)
        except (ValueError, RecursionError) as error:
            raise self._foreign(error) from error

    def _foreign(self, error: Exception) -> ModelError:
        return ModelError(
            f"What answers at {self.url} does not speak the OpenAI chat API "
            f"({type(error).__name__}); set PLANLOOM_MODEL_URL to the address of a server that "
            "does, most often one that ends in /v1."
        )

    def _refusal(self, error: Any, status: int | None, name: str) -> Exception:
        """The exception for an error of the server, with an HTTP status or in a stream (None)."""
        said = http.innermost(error)
        if self._key:
            said = said.replace(self._key, _HIDDEN)
        failed, low = self.refusal(said, status, name), said.lower()
        if isinstance(failed, ContextExceeded | ModelUnavailable):
            return failed
        if status and any(part in low for part in _ROLES_REFUSED):
            return _RefusedError("roles", failed, low)
        if status and any(part in low for part in _THINKING_REFUSED):
            return _RefusedError("thinking", failed, low)
        if status and any(part in low for part in _SCHEMA_REFUSED):
            return _RefusedError("response_format", failed, low)
        return failed


class OpenAIModel:
    """One model of a server; a `ChatModel`. `context_tokens` is what the server has loaded it with.
    `on_read` is called with the tokens of a prompt that llama.cpp has read, and with all of
    them."""

    def __init__(
        self,
        name: str,
        client: OpenAIClient,
        *,
        context_tokens: int,
        on_read: Callable[[int, int], None] | None = None,
    ) -> None:
        self.name, self.context_tokens = name, context_tokens
        self._client = client
        self._on_read = on_read
        self._without: frozenset[Unsupported] = frozenset()
        """What the server is known to refuse."""
        self._thinks = False
        self._before = PromptBefore()

    async def chat(self, request: ChatRequest) -> Reply:
        """Ask once, at temperature 0; see `planner.models.base.ChatModel.chat`. The reply may not
        fit `schema`, and what the server does not count is estimated."""
        without = self._without
        while True:
            try:
                return await self._ask(request, without)
            except _RefusedError as refused:
                if refused.what in without:
                    raise refused.error from None
                without |= {refused.what}
                if refused.always:
                    self._without |= {refused.what}

    async def _ask(self, request: ChatRequest, without: frozenset[Unsupported]) -> Reply:
        messages = request.messages
        sent = http.sendable(messages)
        body: dict[str, Any] = {
            "model": self.name,
            "messages": alternating(sent) if "roles" in without else sent,
            "max_tokens": request.max_tokens,
            "temperature": 0,
            "seed": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.schema is not None and "response_format" not in without:
            shape = {"name": "reply", "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        quiet = self._thinks and "thinking" not in without
        body |= _LITTLE_THINKING if quiet else {}
        if self._on_read:
            body["return_progress"] = True
        written = Written(request)
        finish: str | None = None
        usage = _Usage()
        timings: _Timings | None = None
        async with contextlib.aclosing(self._client.chunks(body)) as chunks:
            with written.received():
                async for chunk in chunks:
                    usage, timings = chunk.usage or usage, chunk.timings or timings
                    if self._on_read and (read := chunk.prompt_progress):
                        self._on_read(read.processed, read.total)
                    for choice in (chunk.choices or [])[:1]:
                        finish = choice.finish_reason or finish
                        written.add(choice.text, choice.thought)
                    if written.is_enough:
                        break
                if finish is None and not written.is_enough:
                    raise ModelError(
                        f"{self._client.at} ended the reply of `{self.name}` before it was "
                        "complete; see its log, and try again."
                    )
        counted = _told(usage.prompt_tokens)
        if counted is not None:
            self._client.check_whole(self.name, messages, counted, self.context_tokens)
        cached = usage.cached_tokens
        if cached is None and timings:
            cached = timings.cache_n
        self._thinks |= bool(written.thought)
        whole = written.text
        generated = _told(usage.completion_tokens) or len(whole + written.thought) // 4
        if quiet and finish != "length" and written.thought and not whole.strip():
            self._without |= {"thinking"}  # some servers then take the reply for thoughts
            return await self._ask(request, without | {"thinking"})
        return self._before.reply(
            messages,
            whole,
            counted,
            cached,
            finish="length" if finish == "length" else "stop" if finish else "ended",
            fault=written.fault,
            generated_tokens=generated,
            thinking_tokens=written.thinking_tokens(generated, finish == "length"),
            prefill_seconds=timings.prompt_ms / 1000 if timings else written.prefill_seconds,
            decode_seconds=timings.predicted_ms / 1000 if timings else written.decode_seconds,
        )

    async def load(self) -> None:
        """Check that the server answers. Most have their model in memory; LM Studio loads it with
        the first prompt."""
        await self._client.probe()

    async def aclose(self) -> None:
        """Close the client, for every model that shares it. The model stays loaded."""
        await self._client.aclose()


def _told(count: int | None) -> int | None:
    """A count of tokens; None for one that is missing or cannot be true."""
    return count if count and count > 0 else None


def alternating(messages: Sequence[Message]) -> list[Message]:
    """The messages with user and assistant in turn, for chat templates that require this."""
    user: list[Message] = [
        {"role": "user", "content": each["content"]} if each["role"] == "system" else each
        for each in messages
    ]
    return [
        {"role": role, "content": "\n\n".join(each["content"] for each in several)}
        for role, several in groupby(user, itemgetter("role"))
    ]
