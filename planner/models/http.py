"""What the adapters of model servers share: addresses, errors within errors, cut prompts."""

import ipaddress
import json
import re
from collections.abc import Sequence
from typing import Any

import httpx

from planner.models.base import Message

DEFAULT_GAP_SECONDS = 300.0
"""The longest silence of a server within a call; a CPU reads a long prompt for minutes."""
CONNECT_SECONDS = 5.0
PROBE_SECONDS = 5.0
"""A hundred first calls at once are slow to begin with."""

CONTEXT_REFUSED = (
    *("context size", "context length", "context window", "maximum context"),
    *("exceed_context_size", "context_length_exceeded"),
)
"""What servers say of a prompt that is too long."""

_WORD = re.compile(r"\b[A-Za-z]+\b")
# No common tokenizer lets one token reach across two words, so that a whole prompt has at least as
# many tokens as words. Characters say less: one token may hold 80 blanks or 30 dashes. The rest is
# for tokenizers that take "don't" for one token.
_TOKENS_PER_WORD = 0.8


def client_options(url: str, gap_seconds: float) -> dict[str, Any]:
    """How any client speaks to a model server; `gap_seconds` bounds the silence within a call. A
    server on this machine is reached directly, never through a proxy."""
    return {
        "timeout": httpx.Timeout(gap_seconds, connect=CONNECT_SECONDS, pool=None),
        # How many calls there are at a time is for the caller to bound.
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=None),
        "trust_env": not is_loopback(url),
    }


def http_client(url: str, gap_seconds: float, key: str | None, **options: Any) -> httpx.AsyncClient:
    """A client of the server at `url`; `key` goes out in the header `Authorization` only."""
    headers = {"Authorization": f"Bearer {key}"} if key else None
    return httpx.AsyncClient(headers=headers, **client_options(url, gap_seconds), **options)


def is_loopback(url: str) -> bool:
    """Whether a server is on this machine."""
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def innermost(error: Any) -> str:
    """The plain text of an error; servers pass their engine's on as JSON in a JSON string."""
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
    """The messages as JSON on the wire can hold them: a lone surrogate is a `?`."""
    return [
        {"role": m["role"], "content": m["content"].encode(errors="replace").decode()}
        for m in messages
    ]


def words_if_cut(messages: Sequence[Message], counted: int, context_tokens: int) -> int | None:
    """How many words a prompt has, if a server that counted so many tokens cannot have read all of
    it: some cut what is too long without a word. None for one that it can have read."""
    # A token is at least a byte: a prompt of no more bytes than the window has tokens fits.
    if sum(len(m["content"].encode(errors="replace")) for m in messages) <= context_tokens:
        return None
    words = sum(len(_WORD.findall(m["content"])) for m in messages)
    return words if counted < _TOKENS_PER_WORD * words else None
