"""What a journal keeps of runs, and what it tells about them."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import BaseModel, TypeAdapter, ValidationError

from planner.events import EVENT, Event, FinalStatus, RunStarted
from planner.protocol import RunRequest, Steering
from planner.tools import Approval, ToolSpec

Kind = Literal["event", "intent", "outcome", "error", "cut"]
TOOLS: TypeAdapter[list[ToolSpec]] = TypeAdapter(list[ToolSpec])


@dataclass(frozen=True)
class Entry:
    """One line of a run's record. `event`: an event. `intent`: it is about to do something that
    must not be done twice. `outcome`, `error`, `cut`: what came of the request that `key` names: a
    result, an error of ours, or nothing because the time was over."""

    kind: Kind
    data: dict[str, Any]
    key: str = ""
    seconds: float = 0.0
    """How long the run had taken by then."""

    @classmethod
    def of(cls, event: Event, seconds: float) -> Self:
        return cls("event", event.model_dump(), seconds=seconds)

    @classmethod
    def stored(cls, kind: Kind, data: dict[str, Any], key: str, seconds: float) -> Self:
        """An entry from the store. Raises `ValidationError` for an event of another version."""
        entry = cls(kind, data, key, seconds)
        if kind == "event":
            _ = entry.event
        return entry

    @property
    def final_status(self) -> str:
        """The status with which the run ends here; empty if it goes on."""
        return str(self.data["status"]) if self.data.get("type") == "run_finished" else ""

    @cached_property
    def event(self) -> Event:
        return EVENT.validate_python(self.data)


class RunSetup(BaseModel, frozen=True):
    """What a run was begun with. It can only be resumed with the same models."""

    planloom: str
    fast: str
    full: str
    context_tokens: tuple[int, int]
    project: str = ""
    as_typed: bool = False
    """Whether the record hides nothing of the request: `***` in it is the caller's own."""


@dataclass(frozen=True)
class _Run:
    id: str
    caller: str
    request: RunRequest
    setup: RunSetup


@dataclass(frozen=True)
class NewRun(_Run):
    request_key: str | None = None
    fleet: str = ""
    """Any of its servers continues the run if nobody drives it."""
    waits: bool = False
    """Whether another one may do so at once, since this one does not drive it."""


@dataclass(frozen=True)
class StoredRun(_Run):
    tools: list[ToolSpec] | None
    """As they were when the run began; None if it has not begun."""
    status: Literal["running", "interrupted"] | FinalStatus
    created: float
    entries: list[Entry]
    secret_lost: bool = False
    """Whether a secret of the caller is lost, because the record has `***` in its place."""

    @classmethod
    def of_row(
        cls,
        run_id: str,
        row: Mapping[str, Any],
        status: Any,
        tools: str | None,
        entries: list[Entry],
    ) -> Self:
        """From a row of the store. Raises `ValidationError` for one of another version."""
        return cls(
            id=run_id,
            caller=row["caller"],
            request=RunRequest.model_validate_json(row["request"]),
            setup=RunSetup.model_validate_json(row["made"]),
            tools=TOOLS.validate_json(tools) if tools else None,
            status=status,
            created=float(row["created"]),
            entries=entries,
        )

    @property
    def events(self) -> list[Event]:
        return [entry.event for entry in self.entries if entry.kind == "event"]

    @property
    def began(self) -> RunStarted | None:
        return next((event for event in self.events if isinstance(event, RunStarted)), None)

    @property
    def seconds(self) -> float:
        return max((entry.seconds for entry in self.entries), default=0.0)


@dataclass(frozen=True)
class RunSummary:
    id: str
    status: str
    created: float
    updated: float
    prompt: str
    project: str = ""

    @classmethod
    def of_row(cls, run_id: str, row: Mapping[str, Any], status: str) -> Self:
        return cls(
            id=run_id,
            status=status,
            created=float(row["created"]),
            updated=float(row["updated"]),
            prompt=json.loads(row["request"])["prompt"],
            project=json.loads(row["made"]).get("project", ""),
        )


class Letter(BaseModel, frozen=True):
    """A message to the server that drives a run. `cancel`: end it. `attend`: a client that can ask
    a person follows it. `answer`: a person's answer to its question. `steer`: words to it."""

    run_id: str
    kind: Literal["cancel", "attend", "answer", "steer"]
    question: str = ""
    answer: Approval | None = None
    steering: Steering | None = None


def parse_letters(letters: Iterable[str]) -> list[Letter]:
    """The letters; those of another version that cannot be read are skipped."""
    found = []
    for letter in letters:
        with suppress(ValidationError):
            found.append(Letter.model_validate_json(letter))
    return found
