"""The run journal: what every run took in and said, recorded as it happens, for later readers.

Several servers use one journal, and share runs through it: one of them drives each run. The others
can see whether that server is alive, follow the run by its record, and write letters to its server.
Where it lives is `server.journal.sqlite` (a file, for the servers of one machine) or
`server.journal.redis` (for those of several).
"""

import json
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, Self
from weakref import WeakValueDictionary

import anyio
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from planner.errors import RequestError
from planner.events import EVENT, Event, FinalStatus, RunStarted
from planner.protocol import RunRequest, Steering
from planner.tools import Approval, ToolSpec
from server.config import HIDDEN, RunSettings
from server.text import digest, each_text

Kind = Literal["event", "intent", "outcome", "error", "cut"]
TOOLS: TypeAdapter[list[ToolSpec]] = TypeAdapter(list[ToolSpec])
MAX_LETTERS = 10
"""Letters about one run that nobody has collected yet."""
LATE_SECONDS = 2.0
"""Between two attempts to repeat failed writes."""
LETTER_SECONDS = 5.0
"""How long to wait for the server that drives a run to act on a letter: to end what it is doing, to
take an answer or steering."""
MAX_RUNS_REMEMBERED = 200
"""Runs whose secrets are kept in memory; as many as the engine keeps."""
SAID = ("run_started", "run_continued", "run_steered")
"""The events with words of the caller."""


@dataclass(frozen=True)
class Entry:
    """One line of a run's record.

    `event`: an event of the run. `intent`: it is about to do something that must not be done twice.
    `outcome`, `error`, `cut`: the result of a request to the outside, an error of ours, or nothing
    because the time was over; `key` identifies the request.
    """

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

    @cached_property
    def event(self) -> Event:
        return EVENT.validate_python(self.data)


class RunSetup(BaseModel):
    """What a run was begun with. It can only be resumed with the same models."""

    model_config = ConfigDict(frozen=True)

    planloom: str
    fast: str
    full: str
    context_tokens: tuple[int, int]
    project: str = ""
    """The folder that the server worked on; for a reader."""


@dataclass(frozen=True)
class NewRun:
    id: str
    caller: str
    request: RunRequest
    setup: RunSetup
    request_key: str | None = None
    fleet: str = ""
    """Any of its servers continues the run if nobody drives it."""
    waits: bool = False
    """Whether another one may do so at once, since this one does not drive it."""


@dataclass(frozen=True)
class StoredRun:
    id: str
    caller: str
    request: RunRequest
    setup: RunSetup
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


class KeyUsed(Exception):
    """The caller has used the request key before, for the run of this id."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id


class Letter(BaseModel):
    """A message to the server that drives a run.

    `cancel`: end it. `attend`: a client that can ask a person follows it. `answer`: a person's
    answer to its question. `steer`: what a person or the caller says to it.
    """

    model_config = ConfigDict(frozen=True)

    run_id: str
    kind: Literal["cancel", "attend", "answer", "steer"]
    question: str = ""
    answer: Approval | None = None
    steering: Steering | None = None


def too_many_letters(run_id: str) -> RequestError:
    return RequestError(
        f"{MAX_LETTERS} messages to run {run_id} are waiting to be read, which is the limit. They "
        "are read when the run goes on."
    )


def parse_letters(letters: Iterable[str]) -> list[Letter]:
    """The letters; those of another version that cannot be read are skipped."""
    found = []
    for letter in letters:
        with suppress(ValidationError):
            found.append(Letter.model_validate_json(letter))
    return found


class Lost(Exception):
    """Another server has taken over the run because this one seemed dead."""


@dataclass
class RunWriter:
    """Writes the record of one run. Failed writes are repeated before later ones: a record has no
    gaps."""

    journal: "Journal"
    run_id: str
    next: int = 0
    problem: str | None = None
    """Why the run is not recorded, or no longer."""
    late: bool = False
    """Whether the problem is a failed write, which is repeated."""
    lost: bool = False
    """Whether another server has taken over the run because this one seemed dead."""

    def append(self, entry: Entry, *, synced: bool = False) -> None:
        """Write an entry soon. `synced`: so that it also survives a power failure."""
        number, self.next = self.next, self.next + 1
        self.journal._soon(self, self.journal._appending(self.run_id, number, entry), synced)

    def save_tools(self, tools: Sequence[ToolSpec]) -> None:
        listed = json.dumps([self.journal.redact(tool.model_dump()) for tool in tools])
        self.journal._soon(self, self.journal._saving(self.run_id, digest(listed), listed))

    async def flush(self) -> bool:
        """Wait until everything appended so far is recorded; False if that failed."""
        await self.journal._write_waiting()
        return self.problem is None

    def release(self) -> None:
        """The run has stopped here; any server may resume it."""
        self.journal._soon(self, self.journal._releasing(self.run_id))


Write = Any
"""A change of one run's record, as its store takes it."""
Due = tuple[RunWriter, Write, bool]
"""A write, its record, and whether it has to survive a power failure."""
TakenOver = tuple[RunWriter, StoredRun]


class Journal(anyio.AsyncContextManagerMixin, ABC):
    """The runs of all servers that use it. Enter it to write; `problem` says why that
    fails."""

    look_seconds: ClassVar[float]
    """How often to check what other servers have done."""
    errors: ClassVar[tuple[type[Exception], ...]]
    """The errors of its store."""
    passing: ClassVar[tuple[type[Exception], ...]]
    """Those after which a write is repeated."""

    def __init__(self, settings: RunSettings, redact: Callable[[str], str] | None = None) -> None:
        """`redact` removes secrets from a text."""
        self.settings = settings
        self.problem: str | None = None
        """Why nothing can be recorded."""
        self.owner = uuid.uuid4().hex
        """This server, to the others."""
        self._opened = time.time(), time.monotonic()
        self._redact = redact
        self._true: dict[str, dict[str, dict[str, Any]]] = {}
        """Of the newest runs with `***` in their records: what this server wrote, as it was before,
        by what is on record instead. In memory only."""
        self._waiting: list[Due] = []
        self._late: list[Due] = []
        """Writes that failed."""
        self._due = anyio.Event()
        self._writing = anyio.Lock()
        self._bells: WeakValueDictionary[str, anyio.Event] = WeakValueDictionary()

    @abstractmethod
    def __asynccontextmanager__(self) -> AbstractAsyncContextManager[Self]: ...

    # Writing.

    @abstractmethod
    async def begin(self, run: NewRun) -> RunWriter:
        """Begin the record of a run; it is there then, or `RunWriter.problem` says why it is not.
        Raises `KeyUsed` when the caller has used the key before."""

    async def resume(self, run_id: str) -> TakenOver | None:
        """Take over a run that nobody drives; None when somebody does, or it has ended.

        Raises `RequestError` when the journal cannot be written.
        """
        return await self._take_over(partial(self._claim, run_id))

    async def take(self, fleet: str) -> TakenOver | None:
        """Like `resume`, for the oldest run of the fleet that nobody drives."""
        return await self._take_over(partial(self._claim_oldest, fleet))

    async def reopen(self, run_id: str, entry: Entry) -> TakenOver | None:
        """Take over a run that has ended, with an entry that says what else it should do; None when
        it goes on already. Both are recorded, or neither.

        Raises `RequestError` when the journal cannot be written.
        """
        return await self._take_over(partial(self._claim_ended, run_id, entry))

    async def _take_over(self, claim: Callable[[], Awaitable[str | None]]) -> TakenOver | None:
        if self.problem:
            raise RequestError(f"The run cannot be resumed: {self.problem}")
        await self._write_waiting()  # it may just have been released here
        with self._explained("The run cannot be resumed"):
            run_id = await claim()
        if run_id is None:
            return None
        stored = await self.load(run_id)
        assert stored  # it is ours, and nobody deletes what is
        return self._writer(run_id, len(stored.entries)), self.recalled(stored)

    def _writer(self, run_id: str, written: int = 0) -> RunWriter:
        """`written`: the number of entries in the record."""
        return RunWriter(self, run_id, next=written, problem=self.problem)

    def _soon(self, writer: RunWriter, write: Write, synced: bool = False) -> None:
        if writer.problem is None or writer.late:
            self._waiting.append((writer, write, synced))
            self._due.set()

    async def _keep_writing(self) -> None:
        again = anyio.current_time()
        while True:
            with anyio.move_on_after(LATE_SECONDS):
                await self._due.wait()
            self._due = anyio.Event()
            await self._write_waiting()
            if anyio.current_time() >= again:
                await self._write_late()
                again = anyio.current_time() + LATE_SECONDS

    async def _write_waiting(self) -> None:
        """Make the waiting writes, in their order. What follows a failed write of the same run
        waits with it, and no run waits for a store that does not answer."""
        async with self._writing:
            waiting, self._waiting = self._waiting, []
            self._late += [each for each in waiting if each[0].late]
            await self._write([each for each in waiting if each[0].problem is None])

    async def _write_late(self) -> None:
        async with self._writing:
            late, self._late = self._late, []
            await self._write(late)

    async def _write(self, due: Sequence[Due]) -> None:
        if not due:
            return
        with anyio.CancelScope(shield=True):  # what is written is known to be
            outcomes = await self._commit(due)
        failed: dict[int, Exception] = {}
        for (writer, _, _), error in zip(due, outcomes, strict=True):
            if error is not None:
                failed.setdefault(id(writer), error)
        for writer in {id(writer): writer for writer, _, _ in due}.values():
            first = failed.get(id(writer))
            writer.late, writer.lost = isinstance(first, self.passing), isinstance(first, Lost)
            writer.problem = self._why(first) if first else None
        self._late += [each for each in due if each[0].late]

    @abstractmethod
    async def _commit(self, due: Sequence[Due]) -> Sequence[Exception | None]:
        """Make writes, in their order; returns why each failed, if it did."""

    @abstractmethod
    def _appending(self, run_id: str, number: int, entry: Entry) -> Write:
        """The write of an entry."""

    @abstractmethod
    def _saving(self, run_id: str, digest: str, tools: str) -> Write:
        """The write of the tools that a run is offered, as JSON."""

    @abstractmethod
    def _releasing(self, run_id: str) -> Write: ...

    @abstractmethod
    async def _claim(self, run_id: str) -> str | None: ...

    @abstractmethod
    async def _claim_oldest(self, fleet: str) -> str | None: ...

    @abstractmethod
    async def _claim_ended(self, run_id: str, entry: Entry) -> str | None: ...

    @abstractmethod
    async def post(self, letter: Letter) -> None:
        """Leave a letter for the server that drives the run, now or later. Raises `RequestError`,
        also if too many letters are waiting."""

    @abstractmethod
    async def collect(self, run_ids: Sequence[str]) -> list[Letter]:
        """Remove and return the letters about these runs of this server. Raises `RequestError`."""

    @abstractmethod
    async def prune(self) -> None:
        """Delete the ended and interrupted runs beyond what the settings keep."""

    @abstractmethod
    async def secret(self) -> bytes:
        """32 random bytes, the same for every server of this journal."""

    # Reading.

    @abstractmethod
    async def load(self, run_id: str, caller: str | None = None) -> StoredRun | None:
        """A run, of this caller only if one is named; None when there is none.

        Raises `RequestError` for a run that cannot be read.
        """

    @abstractmethod
    async def entries(self, run_id: str, first: int) -> list[Entry]:
        """The record of a run from entry `first` on."""

    @abstractmethod
    async def status(self, run_id: str) -> str | None: ...

    @abstractmethod
    async def waiting(self, fleet: str) -> int:
        """How many runs of the fleet nobody drives yet."""

    @abstractmethod
    async def find_key(self, caller: str, request_key: str) -> str | None:
        """The run that the caller began with this key."""

    @abstractmethod
    async def ids(self, beginning: str, caller: str | None = None) -> "list[str]":
        """The runs whose ids begin so, two at most; of this caller only, if one is named."""

    async def whole_id(self, beginning: str) -> str:
        """The id of the only run that begins so. Raises `RequestError`."""
        found = await self.ids(beginning)
        if len(found) == 1:
            return found[0]
        what = "Several runs begin" if found else "There is no run that begins"
        raise RequestError(f'{what} with "{beginning}". `planloom runs` lists them.')

    @abstractmethod
    async def list(self, most: int, callers: Sequence[str] | None = None) -> "list[RunSummary]":
        """The newest runs, the newest first; of these callers only, if any are named."""

    @abstractmethod
    def _why(self, error: Exception) -> str:
        """What an error of the store means, and what to do."""

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Raise `RequestError` for the errors of the store; `what` says what failed."""
        try:
            yield
        except ValidationError:
            raise RequestError(
                "The run was recorded by another version of Planloom, and this version cannot "
                "read it."
            ) from None
        except self.errors as error:
            raise RequestError(f"{what}: {self._why(error)}") from None

    # What is new.

    async def wait_for_news(self, topic: str) -> None:
        """Wait for possible news: about a run (its id), "letters", or a run to take over
        ("fleet")."""
        bell = self._bells.setdefault(topic, anyio.Event())
        with anyio.move_on_after(self.look_seconds):
            await bell.wait()

    def notify(self, topic: str) -> None:
        """Wake up everyone on this server who waits for news on the topic."""
        if bell := self._bells.pop(topic, None):
            bell.set()

    @property
    def now(self) -> float:
        """The time that ages of runs refer to. Setting the clock forward while this server runs has
        no effect."""
        opened, since = self._opened
        return min(time.time(), opened + time.monotonic() - since)

    def written(self, run_id: str, data: dict[str, Any]) -> dict[str, Any]:
        """The data as it is recorded; secrets that are hidden there are remembered here."""
        redacted: dict[str, Any] = self.redact(data)
        if HIDDEN in (line := _sorted(redacted)):
            self._true.setdefault(run_id, {})[line] = data
            if len(self._true) > MAX_RUNS_REMEMBERED:
                del self._true[next(iter(self._true))]
        return redacted

    def recalled(self, stored: StoredRun) -> StoredRun:
        """The run as it was before secrets were hidden, if this server wrote all that has any; else
        only its newest entry, since the others follow from each other."""
        known = self._true.get(stored.id, {})
        request, *lines = (
            _sorted(data)
            for data in (stored.request.model_dump(), *(each.data for each in stored.entries))
        )
        if any(HIDDEN in line and line not in known for line in (request, *lines)):
            known = {line: known[line] for line in lines[-1:] if line in known}
        said = [
            line
            for each, line in zip(stored.entries, lines, strict=True)
            if each.data.get("type") in SAID
        ]
        return replace(
            stored,
            request=RunRequest.model_validate(known.get(request, stored.request)),
            entries=[
                replace(each, data=known[line]) if line in known else each
                for each, line in zip(stored.entries, lines, strict=True)
            ],
            secret_lost=any(HIDDEN in line and line not in known for line in (request, *said)),
        )

    def redact(self, value: Any) -> Any:
        """JSON data without secrets. Upstreams' texts have none by now; other texts may."""
        return each_text(value, self._redact) if self._redact else value


def _sorted(data: dict[str, Any]) -> str:
    """The data as a text that is the same before and after it was on record."""
    return json.dumps(data, sort_keys=True)
