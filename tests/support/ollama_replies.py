"""The replies that a scripted Ollama may give, whole ones and faulty ones."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """A whole reply. A plain `str`, `dict` or `list` as the reply is `Answer` of it."""

    content: str | dict[str, Any] | list[Any]
    """Text as it is; anything else as compact JSON."""
    done_reason: str = "stop"
    """`length` also allows a text that does not fit the schema: it was cut."""
    unconstrained: bool = False
    """The text may break the requested schema, which no real grammar would let through."""
    thinking: str = ""
    """What the model thinks before it."""
    gap_seconds: float = 0.0
    """The wait before each piece."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Values for the last record, such as `prompt_eval_count`; None leaves a field out."""

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return json.dumps(self.content, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class HttpError:
    """An error status; `error` is a message, or the whole body if it is bytes."""

    status: int
    error: str | bytes


@dataclass(frozen=True)
class ErrorLine:
    """An error within a stream that began with `after`."""

    error: str
    after: str = ""


@dataclass(frozen=True)
class Garbage:
    """A line that is no JSON record, within a stream that began with `after`."""

    line: str = "<html>Bad gateway</html>"
    after: str = ""


@dataclass(frozen=True)
class NoEnd:
    """A stream that ends in good order after `after`, without its last record."""

    after: str = ""


@dataclass(frozen=True)
class Drop:
    """A connection lost in mid-stream after `after`."""

    after: str = ""


@dataclass(frozen=True)
class Hang:
    """Silence after `after`, until `ScriptedOllama.release()`; then the rest `then`, and the end.

    The silence also ends when the client hangs up; the request's `hung_up` tells.
    """

    after: str = ""
    then: str = ""


Reply = (
    str
    | dict[str, Any]
    | list[Any]
    | Answer
    | HttpError
    | ErrorLine
    | Garbage
    | NoEnd
    | Drop
    | Hang
)
