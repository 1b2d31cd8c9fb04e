"""The model as the planner sees it: one `chat` call on explicit messages under a JSON Schema."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from os.path import commonprefix
from typing import Any, Literal, Protocol, TypedDict

import anyio
from pydantic import BaseModel

from planner.errors import ContextExceeded, ModelError
from planner.models.encoder import Encoder
from planner.text import json_of


class Message(TypedDict):
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class ChatRequest:
    """What a model is asked: the whole conversation, since a server keeps none."""

    messages: Sequence[Message]
    max_tokens: int
    """The longest reply, in tokens."""
    schema: dict[str, Any] | None = None
    """The reply's text is JSON of this JSON Schema."""
    on_text: Callable[[str], None] | None = None
    """Receives the text piece by piece while it is written."""
    enough: Callable[[str], bool] | None = None
    """Whether the text so far is enough: the reply then ends there."""
    until: float = inf
    """When a reply that has begun ends as it is, in seconds of the event loop's clock. Such a reply
    may say less than all: it also ends where the server breaks off."""


class Reply(BaseModel, frozen=True):
    text: str
    finish: Literal["stop", "length", "ended"] = "stop"
    """`ended`: by `enough` or `until` of the request, or by a fault."""
    fault: str = ""
    """What the server broke it off with."""
    prompt_tokens: int
    """The whole prompt, including the part from the prefix cache."""
    cached_tokens: int = 0
    """The part of the prompt from the prefix cache."""
    cached_told: bool = False
    """Whether the server reported that; else it is estimated (`PromptBefore`)."""
    generated_tokens: int
    thinking_tokens: int = 0
    """The part of these that the model thought, and that is no part of the text."""
    load_seconds: float = 0.0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0


class Written:
    """What a server has sent of a reply: its text, and what the model thought."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._text: list[str] = []
        self._thought: list[str] = []
        self._begun = time.monotonic()
        self._first: float | None = None
        self.is_enough = False
        self.fault = ""
        self._in_time = anyio.CancelScope()

    @contextmanager
    def received(self) -> Iterator[None]:
        """Around what receives it: a reply that has begun ends in time, even of a silent server,
        and is kept as it is where the server breaks off."""
        with self._in_time:
            try:
                yield
            except ModelError as error:
                too_long = isinstance(error, ContextExceeded)
                if too_long or self._request.until == inf or not self.text.strip():
                    raise
                self.fault = str(error)

    def add(self, text: str | None, thought: str | None) -> None:
        if thought:
            self._thought.append(thought)
        if text or thought:
            self._first = self._first or time.monotonic()
        if text:
            self._text.append(text)
            self._in_time.deadline = self._request.until
            if self._request.on_text is not None:
                self._request.on_text(text)
            if self._request.enough is not None:
                self.is_enough = self._request.enough("".join(self._text))

    @property
    def ended(self) -> bool:
        """Whether it was enough, its time was over, or the server broke off."""
        return self.is_enough or self._in_time.cancelled_caught or bool(self.fault)

    @property
    def pieces(self) -> int:
        return len(self._text) + len(self._thought)

    @property
    def prefill_seconds(self) -> float:
        """The seconds until the reply began, by our own clock."""
        return (self._first or time.monotonic()) - self._begun

    @property
    def decode_seconds(self) -> float:
        """The seconds since then."""
        return time.monotonic() - (self._first or time.monotonic())

    @property
    def thought(self) -> str:
        return "".join(self._thought)

    @property
    def text(self) -> str:
        """The text, or else an object that was thought: some servers hold thoughts to a schema."""
        said = "".join(self._text)
        if self._request.schema is None or said.strip():
            return said
        return self.thought if isinstance(json_of(self.thought), dict) else said

    def thinking_tokens(self, generated: int, cut: bool) -> int:
        """The part of so many generated tokens that was thought: all of a reply that was cut off
        before it began, since some servers leave thoughts out."""
        said, thoughts = self.text, self.thought
        thought = len(thoughts) if said != thoughts else 0
        if not said:
            return generated if thought or cut else 0
        return round(generated * thought / (thought + len(said)))


class PromptBefore:
    """The last prompt of a model, and its reply, which the server need not compute again where the
    next prompt begins so."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def covers(self, messages: Sequence[Message]) -> float:
        """The share of a prompt's characters with which the one before begins, too."""
        covered = 0
        for mine, before in zip(messages, self._messages, strict=False):
            if mine["role"] != before["role"]:
                break
            same = commonprefix([mine["content"], before["content"]])  # noqa: RUF071  characters
            covered += len(same)
            if mine["content"] != before["content"]:
                break
        return covered / max(1, sum(len(message["content"]) for message in messages))

    def read(self, messages: Sequence[Message], reply: str) -> None:
        self._messages = [*messages, {"role": "assistant", "content": reply}]

    def reply(
        self,
        messages: Sequence[Message],
        text: str,
        prompt_tokens: int | None,
        cached_tokens: int | None,
        **cost: Any,
    ) -> Reply:
        """The reply to a prompt, which is remembered. Missing counts are estimated: four characters
        a token, and what the prompt before covers was cached."""
        if prompt_tokens is None:
            prompt_tokens = sum(len(message["content"]) for message in messages) // 4
        covered = round(self.covers(messages) * prompt_tokens)
        self.read(messages, text)
        return Reply(
            text=text,
            prompt_tokens=prompt_tokens,
            cached_tokens=covered if cached_tokens is None else cached_tokens,
            cached_told=cached_tokens is not None,
            **cost,
        )


class ChatModel(Protocol):
    """One local model behind one server."""

    @property
    def name(self) -> str:
        """The model's name as its server knows it."""

    @property
    def context_tokens(self) -> int:
        """The context window in tokens (`num_ctx`), prompt and reply together."""

    async def chat(self, request: ChatRequest) -> Reply:
        """Ask once, at temperature 0. Raises `ModelUnavailable`, `ContextExceeded` or
        `ModelError`; a cancelled call stops the server's work on it."""

    async def load(self) -> None:
        """Load the model; its prefix cache stays. Raises the same errors as `chat`."""

    async def aclose(self) -> None:
        """Release what the adapter holds (connections, a worker process)."""


class ModelAround:
    """A model that wraps another one; its subclasses override a part of that one's methods."""

    def __init__(self, model: ChatModel) -> None:
        self.model = model
        self.name, self.context_tokens = model.name, model.context_tokens

    async def chat(self, request: ChatRequest) -> Reply:
        return await self.model.chat(request)

    async def load(self) -> None:
        await self.model.load()

    async def aclose(self) -> None:
        await self.model.aclose()


@dataclass(frozen=True)
class Models:
    """The two models of a run. They may be one and the same."""

    fast: ChatModel
    full: ChatModel
    doing: Callable[[], str] = str
    """What a model does now, in words; empty if their server does not tell."""
    encoder: Encoder | None = None
    """What compares texts by their meaning; without one, words alone are compared."""

    @property
    def distinct(self) -> list[ChatModel]:
        return [self.full] if self.fast is self.full else [self.full, self.fast]

    async def aclose(self) -> None:
        for model in self.distinct:
            await model.aclose()
