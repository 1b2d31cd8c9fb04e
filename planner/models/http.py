"""What the adapters of model servers share: the connection and its faults, lines, cut prompts."""

import json
import re
import ssl
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import httpx

from planner.errors import ContextExceeded, ModelError, ModelUnavailable
from planner.hosts import is_loopback
from planner.models.base import Message
from planner.text import whole

DEFAULT_GAP_SECONDS = 300.0
"""The longest silence of a server within a call; a CPU may read a long prompt for minutes."""
CONNECT_SECONDS = 5.0
PROBE_SECONDS = 5.0
"""Enough for a hundred first calls at once."""

RECORD_BYTES, SPARE_RECORDS = 1000, 100
"""How many bytes a reply may take for each of its tokens, and for how many records more. Ollama
sends a record of some 150 bytes for each token, llama.cpp one of some 250."""

CONTEXT_REFUSED = (
    *("context size", "context length", "context window", "maximum context"),
    *("exceed_context_size", "context_length_exceeded"),
)
"""What servers say about a prompt that is too long."""

_WORD = re.compile(r"\b[A-Za-z]+\b")
# No common tokenizer lets one token reach across two words, so that a whole prompt has at least as
# many tokens as words. Characters say less: one token may hold 80 blanks or 30 dashes. The rest is
# for tokenizers that take "don't" for one token.
_TOKENS_PER_WORD = 0.8


def client_options(url: str, gap_seconds: float) -> dict[str, Any]:
    """The options of every client of a model server; `gap_seconds` limits the silence within a
    call. A server on this machine is reached without a proxy, and without the authorities'
    certificates: reading them takes longer than a call."""
    local = is_loopback(httpx.URL(url).host)
    return {
        "timeout": httpx.Timeout(gap_seconds, connect=CONNECT_SECONDS, pool=None),
        # The caller limits the calls at a time.
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=None),
        "trust_env": not local,
        "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if local else True,
    }


class ServerClient:
    """The connection to a model server; models may share it.

    `key` is sent in the header `Authorization` only. `gap_seconds` limits the wait for each piece
    of a reply.
    """

    called: ClassVar[str]
    """The server, within a sentence."""
    advice: ClassVar[str]
    """What to do when it does not answer."""
    larger_window: ClassVar[str]
    """How to get a larger window; contains the number of tokens."""
    token_limit: ClassVar[str]
    """What a request calls the most tokens of its reply."""
    too_long: ClassVar[str]
    """What to do about a prompt that is longer than the context window."""
    see_log: ClassVar[str] = " See the server's log."
    refusals: ClassVar[Sequence[tuple[Collection[int], str, str]]]
    """What it means when the server refuses a call: the HTTP statuses, a word of its text, and what
    the error then says."""

    def __init__(self, url: str, key: str | None, gap_seconds: float, **options: Any) -> None:
        self.url = url
        self.gap_seconds = gap_seconds
        self.http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else None,
            **client_options(url, gap_seconds),
            **options,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self.http.aclose()

    @property
    def at(self) -> str:
        """`Ollama at URL`, at the beginning of a sentence."""
        return f"{self._begin} at {self.url}"

    @property
    def _begin(self) -> str:
        return self.called[:1].upper() + self.called[1:]

    def absent(self) -> ModelUnavailable:
        return ModelUnavailable(f"{self._begin} does not answer at {self.url}; {self.advice}")

    def refusal(self, said: str, status: int | None, name: str) -> ModelError:
        """The exception for an error that the server reports on this model, with an HTTP status or
        in a stream (None)."""
        low = said.lower()
        if any(part in low for part in CONTEXT_REFUSED):
            return ContextExceeded(
                f"The prompt does not fit the context window of `{name}` at {self.url}: {said}. "
                f"{self.too_long}"
            )
        for statuses, word, text in self.refusals:
            if status in statuses and word in low:
                known = {"at": self.at, "url": self.url, "name": name, "said": said}
                return ModelUnavailable(text.format(status=status, **known))
        where = "while it was answering" if status is None else f"HTTP {status}"
        return ModelError(f"{self.at} failed on `{name}` ({where}): {said}.{self.see_log}")

    @contextmanager
    def faults(self, name: str) -> Iterator[None]:
        """Raise `ModelUnavailable` for a connection that fails in a call of this model."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise self.absent() from error
        except httpx.ReadTimeout as error:
            raise ModelUnavailable(
                f"{self.at} sent nothing for {self.gap_seconds:g} s while `{name}` should have "
                "answered; the machine may be too slow for this prompt: use a smaller model or a "
                "shorter prompt."
            ) from error
        except httpx.HTTPError as error:
            raise ModelUnavailable(
                f"The connection to {self.called} at {self.url} broke while `{name}` was answering "
                f"({type(error).__name__}: {error}); see whether the server still runs, then try "
                "again."
            ) from error

    async def reply_lines(
        self, response: httpx.Response, name: str, max_tokens: int
    ) -> AsyncGenerator[bytes]:
        """The lines of a reply as they arrive; httpx's also end at U+0085 and U+2028, which JSON
        may contain. Raises `ModelError` for a reply that is longer than it was to be."""
        room, rest = RECORD_BYTES * (max_tokens + SPARE_RECORDS), b""
        async for chunk in response.aiter_bytes():
            room -= len(chunk)
            if room < 0:
                raise ModelError(
                    f"{self.at} did not end the reply of `{name}` after the limit of {max_tokens} "
                    f"tokens ({self.token_limit}). Update or restart it, or use another model."
                )
            *ended, rest = (rest + chunk).split(b"\n")
            for line in ended:
                yield line
        if rest:
            yield rest

    def check_whole(
        self, name: str, messages: Sequence[Message], counted: int, context_tokens: int
    ) -> None:
        """Raise `ContextExceeded` if a server that counted so many tokens cannot have read the
        whole prompt: some cut a long one silently."""
        # A token is at least a byte: a prompt of no more bytes than the window has tokens fits.
        if sum(len(m["content"].encode(errors="replace")) for m in messages) <= context_tokens:
            return
        words = sum(len(_WORD.findall(m["content"])) for m in messages)
        if counted < _TOKENS_PER_WORD * words:
            raise ContextExceeded(
                f"{self.at} cut the prompt for `{name}`: it read {counted} tokens of at least "
                f"{words}. {self.larger_window.format(context_tokens)}"
            )


def innermost(error: Any) -> str:
    """The plain text of an error. Servers pass on their engine's as JSON in a JSON string."""
    while True:
        if isinstance(error, str):
            try:
                error = json.loads(error)
            except (ValueError, RecursionError):
                return error.strip().rstrip(".") or "no reason given"
        if not isinstance(error, dict):
            return str(error)
        error = error.get("error") or error.get("message") or "no reason given"


def sendable(messages: Sequence[Message]) -> list[Message]:
    """The messages as JSON can transport them: a lone surrogate becomes a `?`."""
    return [{"role": m["role"], "content": whole(m["content"])} for m in messages]
