"""The Ollama adapter: `ChatModel` over Ollama's own `/api/chat`, and a probe for a running server.

Every call streams, so that a cancelled call closes its connection and the server stops computing.
The options of a model never change between calls, because Ollama restarts a model's runner, and
loses its prefix cache, when `num_ctx` or `shift` change; only `num_predict` is free (0.5 to 0.40).
"""

import contextlib
import json
import os
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio
import httpx
import ollama
from pydantic import BaseModel

from planner.errors import ConfigError, ContextExceeded, ModelError, ModelUnavailable
from planner.models import http
from planner.models.base import ChatRequest, Message, PromptBefore, Reply, Written

DEFAULT_KEEP_ALIVE = "30m"
DEFAULT_PORT = 11434
_NANOSECONDS = 1e9
_SCHEMA_REFUSED = ("json schema", "grammar", "invalid format", "number of repetitions")
_RUNNER_ENDED = ("unexpectedly stopped", "process has terminated", "process no longer running")
MAX_TOKENS, MAX_NANOSECONDS = 10**9, 10**18
"""The largest counts of a server that may be true."""

Think = Literal["low"] | Literal[False] | None
"""How much a model is asked to think; None says nothing of it."""


class _ThinkRefusedError(ModelError):
    """The server, or the model, does not know this value of `think`."""


class ChatReply(ollama.ChatResponse):
    """One record of a chat stream, with the field that the client's own type leaves out."""

    prompt_eval_cached_count: int | None = None


class OllamaClient(http.ServerClient):
    """The connection to one server: chats with the fields that the official client's `chat` lacks,
    and that client (`api`) for everything else.

    `host` is what `OLLAMA_HOST` may hold (default: that variable, else `127.0.0.1:11434`). Raises
    `ConfigError` for a `host` that is not an address.
    """

    called = "Ollama"
    advice = "start it with `ollama serve`, or set OLLAMA_HOST to the address where it listens."
    larger_window = (
        "Use a context window (num_ctx) larger than {} tokens, or a shorter prompt. (Ollama "
        "0.30.0, and those before 0.4, do not count cached tokens: update them.)"
    )
    token_limit = "num_predict"
    too_long = "Use a larger context window (num_ctx), or a shorter prompt."
    refusals = (
        (
            {404},
            "model",
            "{at} does not have the model `{name}`; run `ollama pull {name}`, or choose another "
            "model.",
        ),
        (
            {404},
            "",
            "What answers at {url} has no /api/chat; set OLLAMA_HOST to the address of an Ollama "
            "server.",
        ),
        (
            {401, 403},
            "",
            "{at} refused access (HTTP {status}); set OLLAMA_API_KEY to a key it accepts.",
        ),
        (
            {503},
            "",
            "{at} is busy: {said}. Try again when other requests have ended, or raise "
            "OLLAMA_MAX_QUEUE on the server.",
        ),
    )

    def __init__(
        self, host: str | None = None, *, gap_seconds: float = http.DEFAULT_GAP_SECONDS
    ) -> None:
        url = host_url(os.environ.get("OLLAMA_HOST") if host is None else host)
        key = os.environ.get("OLLAMA_API_KEY")
        super().__init__(url, key, gap_seconds, base_url=url, follow_redirects=True)

    @cached_property
    def api(self) -> ollama.AsyncClient:
        return ollama.AsyncClient(self.url, **http.client_options(self.url, self.gap_seconds))

    async def aclose(self) -> None:
        await super().aclose()
        if "api" in vars(self):
            await self.api.close()  # type: ignore[no-untyped-call]

    async def version(self) -> str:
        """The server's version, which the official client does not ask for."""
        response = await self.http.get("/api/version")
        return _Version.model_validate_json(response.raise_for_status().content).version

    async def chat_records(self, body: dict[str, Any]) -> AsyncGenerator[ChatReply]:
        """Yield the records of `POST /api/chat` as they arrive; `body` is the request's JSON.

        Raises `ModelUnavailable`, `ContextExceeded` or `ModelError`.
        """
        name, tokens = body["model"], body["options"].get("num_predict", 0)
        request = self.http.stream("POST", "/api/chat", json={**body, "stream": True})
        with self.faults(name):
            async with request as response:
                if not response.is_success:
                    said = (await response.aread()).decode(errors="replace")
                    raise self.refusal(http.innermost(said), response.status_code, name)
                async for line in self.reply_lines(response, name, tokens):
                    yield self._record(line, name)

    def refusal(self, said: str, status: int | None, name: str) -> ModelError:
        found, low = super().refusal(said, status, name), said.lower()
        if isinstance(found, ContextExceeded):
            return found
        if any(part in low for part in _SCHEMA_REFUSED):
            return ModelError(
                f"{self.at} refused the JSON Schema of the reply of `{name}`: {said}. Remove what "
                "a grammar cannot express from the schema, such as unanchored patterns and very "
                "long bounds."
            )
        if status == 400 and "think" in low.replace(name.lower(), ""):
            return _ThinkRefusedError(str(found))
        if any(part in low for part in _RUNNER_ENDED) and not isinstance(found, ModelUnavailable):
            return ModelUnavailable(
                f"The process that runs `{name}` at {self.url} ended: {said}. Often the memory is "
                "too small; use a smaller model or a smaller context window (num_ctx), and see the "
                "server's log."
            )
        return found

    def _record(self, line: bytes, name: str) -> ChatReply:
        try:
            record = json.loads(line)
            if isinstance(record, dict) and "error" in record:
                raise self.refusal(http.innermost(record["error"]), None, name)
            return ChatReply.model_validate(record)
        except (ValueError, RecursionError) as error:
            raise ModelError(
                f"What answers at {self.url} does not speak Ollama's protocol "
                f"({type(error).__name__}); set OLLAMA_HOST to the address of an Ollama server."
            ) from error


class OllamaModel:
    """One model of an Ollama server; a `ChatModel`.

    `client` may be shared with other models. `context_tokens` is `num_ctx`, prompt and reply
    together; it belongs to the model for as long as the model is loaded. `keep_alive` says how long
    that is after a call: seconds, or a duration such as `30m`; -1 means forever.
    """

    def __init__(
        self,
        name: str,
        client: OllamaClient,
        *,
        context_tokens: int,
        keep_alive: int | str = DEFAULT_KEEP_ALIVE,
    ) -> None:
        self.name, self.context_tokens = name, context_tokens
        self._keep_alive = keep_alive
        self._client = client
        self._think: Think = False
        self._options = {"num_ctx": context_tokens, "temperature": 0, "seed": 0}
        self._before = PromptBefore()

    async def chat(self, request: ChatRequest) -> Reply:
        """Ask once, at temperature 0; see `planner.models.base.ChatModel.chat`. Ollama also ends a
        reply that repeats itself, whose `finish` is "length" too."""
        think = self._think
        try:
            return await self._ask(request, think)
        except _ThinkRefusedError:
            if think is None:
                raise
            self._think = None
            return await self._ask(request, None)

    async def _ask(self, request: ChatRequest, think: Think) -> Reply:
        messages = request.messages
        body = self._body(messages, self._options | {"num_predict": request.max_tokens}, think)
        if request.schema is not None:
            body["format"] = request.schema
        written = Written(request)
        last: ChatReply | None = None
        async with contextlib.aclosing(self._client.chat_records(body)) as records:
            with written.received():
                async for record in records:
                    written.add(record.message.content, record.message.thinking)
                    last = record
                    if written.is_enough:
                        break
        if last is None or not (last.done or written.pieces):
            raise ModelError(
                f"{self._client.at} ended the reply of `{self.name}` before it began; see the "
                "server's log."
            )
        if not last.done:  # Ollama also ends one that repeats itself without a last record
            told = {
                "done_reason": "length",
                "eval_count": written.pieces,
                "prompt_eval_duration": round(written.prefill_seconds * _NANOSECONDS),
                "eval_duration": round(written.decode_seconds * _NANOSECONDS),
            }
            last = last.model_copy(update=told)
        counted = _plausible(last.prompt_eval_count, MAX_TOKENS)
        if counted is not None:  # 0.5.4 cuts a prompt in spite of `truncate: false`
            self._client.check_whole(self.name, messages, counted, self.context_tokens)
        cut = last.done_reason == "length"
        if request.schema and not written.text.strip() and not (cut and written.thought):
            # A model that cannot stop thinking replies nothing under a schema while it is told to.
            self._think = "low" if think is False else None
        generated = _plausible(last.eval_count, MAX_TOKENS) or 0
        return self._before.reply(
            messages,
            written.text,
            counted,
            _plausible(last.prompt_eval_cached_count, MAX_TOKENS),
            finish="ended" if not last.done and written.ended else "length" if cut else "stop",
            fault=written.fault,
            generated_tokens=generated,
            thinking_tokens=written.thinking_tokens(generated, cut),
            load_seconds=_seconds(last.load_duration),
            prefill_seconds=_seconds(last.prompt_eval_duration),
            decode_seconds=_seconds(last.eval_duration),
        )

    async def load(self) -> None:
        """Have the server load the model, with the options of every call."""
        async for _ in self._client.chat_records(self._body([], self._options, None)):
            pass

    async def aclose(self) -> None:
        """Close the client, for every model that shares it. The model stays loaded."""
        await self._client.aclose()

    def _body(
        self, messages: Sequence[Message], options: dict[str, Any], think: Think
    ) -> dict[str, Any]:
        return {
            "model": self.name,
            "messages": http.sendable(messages),
            "options": options,
            "keep_alive": self._keep_alive,
            "truncate": False,
            "shift": False,
            **({} if think is None else {"think": think}),
        }


@dataclass(frozen=True)
class OllamaServer:
    """A running Ollama server, as `probe` found it."""

    url: str
    version: str
    models: tuple[str, ...]
    """The names of the models it has, each with its tag."""

    def has(self, name: str) -> bool:
        """Whether the server has this model; a name without a tag means `:latest`."""
        return (name if ":" in name else f"{name}:latest") in self.models


@dataclass(frozen=True)
class InstalledModel:
    """A model that an Ollama server has and that can chat."""

    name: str
    size: int
    """Bytes of its weights."""


async def installed(host: str | None) -> list[InstalledModel]:
    """The models that can chat, the smallest first. Raises `ModelUnavailable`."""
    async with OllamaClient(host) as client:
        with _answering(client):
            models = [
                InstalledModel(each.model, each.size or 0)
                for each in (await client.api.list()).models
                if each.model and await _chats(client, each.model)
            ]
    return sorted(models, key=lambda each: each.size)


async def _chats(client: OllamaClient, name: str) -> bool:
    details = await client.api.show(name)
    if details.capabilities is not None:
        return "completion" in details.capabilities
    return "bert" not in ((details.details and details.details.family) or "")  # before Ollama 0.6.4


async def memory(host: str | None, names: Collection[str]) -> int | None:
    """The bytes that these models take; None where one is not loaded. Raises `ModelUnavailable`."""
    async with OllamaClient(host) as client:
        with _answering(client):
            loaded = {each.model: each.size for each in (await client.api.ps()).models}
    sizes = [loaded.get(name) for name in set(names)]
    return None if None in sizes else sum(size or 0 for size in sizes)


async def unload(host: str | None, names: Collection[str], context_tokens: int) -> None:
    """Unload these models. Raises `ModelError`."""
    async with OllamaClient(host) as client:
        for name in set(names):
            # An empty chat that keeps the model for no time unloads it.
            await OllamaModel(name, client, context_tokens=context_tokens, keep_alive=0).load()


@contextlib.contextmanager
def _answering(client: OllamaClient) -> Iterator[None]:
    try:
        yield
    except (OSError, httpx.HTTPError, ollama.ResponseError, ValueError) as error:
        raise ModelUnavailable(
            f"Ollama does not answer as it should at {client.url} ({error}); {client.advice}"
        ) from error


class _Version(BaseModel):
    version: str


async def probe(host: str | None = None) -> OllamaServer | None:
    """Ask what listens at `host` (default: `OLLAMA_HOST`) for at most 5 s; None if no Ollama
    answers. Raises `ConfigError` for a `host` that is not an address."""
    async with OllamaClient(host) as client:
        with (
            anyio.move_on_after(http.PROBE_SECONDS),
            contextlib.suppress(
                OSError, httpx.HTTPError, ollama.ResponseError, ValueError, TypeError
            ),
        ):
            version = await client.version()
            listed = await client.api.list()
            names = tuple(model.model for model in listed.models if model.model)
            return OllamaServer(url=client.url, version=version, models=names)
    return None


def host_url(host: str | None) -> str:
    """The base URL that Ollama's clients make of `OLLAMA_HOST`, without a user name, a password and
    a query. Raises `ConfigError`, which does not repeat `host`, since it may hold a password."""
    scheme, separator, place = (host or "").partition("://")
    if not separator:
        scheme, place = "http", scheme
    try:
        given = urlsplit(f"{scheme}://{place}")
        url = httpx.URL(
            scheme=scheme,
            host=given.hostname or "127.0.0.1",
            port=given.port or (None if separator else DEFAULT_PORT),
            path=given.path.rstrip("/"),
        )
    except (ValueError, httpx.InvalidURL):
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(
            "The address of Ollama (OLLAMA_HOST, or `host` under `models`) is not one; write it as "
            "`127.0.0.1:11434` or as `http://example.com:11434`."
        )
    return str(url)


def _plausible(count: int | None, maximum: int) -> int | None:
    """A server's count; None if it cannot be true."""
    return count if count is not None and 0 <= count <= maximum else None


def _seconds(nanoseconds: int | None) -> float:
    return (_plausible(nanoseconds, MAX_NANOSECONDS) or 0) / _NANOSECONDS
