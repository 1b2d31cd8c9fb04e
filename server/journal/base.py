"""The run journal: what every run took in and said, recorded as it happens, for later readers.

Servers share runs through one journal: one drives each run, and the others see whether that server
is alive, follow the run by its record, and write letters to its server. The journal is a file
(`server.journal.sqlite`) or, for several machines, in Redis (`server.journal.redis`).
"""

import json
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self
from weakref import WeakValueDictionary

import anyio
from pydantic import ValidationError

from planner.errors import RequestError
from planner.tools import ToolSpec
from server.config import RunSettings
from server.journal.records import Entry, Letter, NewRun, RunSummary, StoredRun
from server.journal.secret_memory import AS_TYPED, SecretMemory
from server.text import digest, each_text

MAX_LETTERS = 10
"""Letters about one run that nobody has collected yet."""
LATE_SECONDS = 2.0
"""Between two attempts to repeat failed writes."""
LETTER_SECONDS = 5.0
"""How long to wait until the server that drives a run has acted on a letter."""


class KeyUsed(Exception):
    """The caller has used the request key before, for the run of this id."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id


class Lost(Exception):
    """Another server has taken over the run because this one seemed dead."""


class Unreachable(RequestError):
    """The store cannot be read or written now; later it may be."""


class Unreadable(RequestError):
    """The record is of another version of Planloom."""


@dataclass(eq=False)
class RunWriter:
    """Writes the record of one run, without gaps: a failed write is repeated before later ones."""

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

    async def release(self) -> bool:
        """Let any server resume the run, which has stopped here; returns whether one does."""
        self.journal._soon(self, self.journal._releasing(self.run_id))
        with anyio.CancelScope(shield=True), suppress(RequestError):
            await self.flush()
            return self.lost or await self.journal.status(self.run_id) == "running"
        return False


Write = Any
"""A change of one run's record, as its store takes it."""
Due = tuple[RunWriter, Write, bool]
"""A write, its record, and whether it has to survive a power failure."""
TakenOver = tuple[RunWriter, StoredRun]


class Journal(anyio.AsyncContextManagerMixin, ABC):
    """The runs of all servers that use it. Enter it to write; `problem` says why that fails."""

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
        self._secrets = SecretMemory()
        self._unreadable: set[str] = set()
        """Runs of a fleet that another server has to take up, one of their own version."""
        self._waiting: list[Due] = []
        self._due = anyio.Event()
        self._writing = anyio.Lock()
        self._bells: WeakValueDictionary[str, anyio.Event] = WeakValueDictionary()

    @abstractmethod
    def __asynccontextmanager__(self) -> AbstractAsyncContextManager[Self]: ...

    # Writing.

    @abstractmethod
    async def begin(self, run: NewRun) -> RunWriter:
        """Begin the record of a run, or say in `RunWriter.problem` why not. Raises `KeyUsed`."""

    async def resume(self, run_id: str) -> TakenOver | None:
        """Take over a run that nobody drives; None when somebody does, or it has ended. Raises
        `RequestError` when the journal cannot be written."""
        return await self._take_over(partial(self._claim, run_id))

    async def take(self, fleet: str) -> TakenOver | None:
        """Like `resume`, for the fleet's oldest run that nobody drives. One that cannot be read
        raises `RequestError` too, once."""
        return await self._take_over(partial(self._claim, fleet=fleet))

    async def reopen(self, run_id: str, entry: Entry, fleet: str = "") -> TakenOver | None:
        """Take over a run that has ended, with an entry that says what else it should do; None when
        it goes on already. Both are recorded, or neither, and old letters are thrown away. `fleet`:
        as for a new run. Raises `RequestError` when the journal cannot be written."""
        return await self._take_over(partial(self._claim_ended, run_id, entry, fleet))

    async def _take_over(self, claim: Callable[[], Awaitable[str | None]]) -> TakenOver | None:
        if self.problem:
            raise RequestError(f"The run cannot be resumed: {self.problem}")
        with anyio.CancelScope(shield=True):  # what is taken over is driven
            await self._write_waiting()  # it may just have been released here
            with self._explained("The run cannot be resumed"):
                run_id = await claim()
            if run_id is None:
                return None
            try:
                stored = await self.load(run_id)
            except RequestError as error:
                if isinstance(error, Unreadable):
                    self._unreadable.add(run_id)
                await self._writer(run_id).release()
                raise
        assert stored  # it is ours, and nobody deletes what is
        return self._writer(stored.id, len(stored.entries)), self._secrets.recalled(stored)

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
                await self._write_waiting(late=True)
                again = anyio.current_time() + LATE_SECONDS

    async def _write_waiting(self, *, late: bool = False) -> None:
        """Make the waiting writes, in order. If one fails, those of its run wait for it, and are
        tried again separately (`late`), so that other runs do not wait too."""
        async with self._writing:
            due = [each for each in self._waiting if each[0].late is late]
            self._waiting = [each for each in self._waiting if each[0].late is not late]
            await self._write([each for each in due if late or each[0].problem is None])

    async def _write(self, due: Sequence[Due]) -> None:
        if not due:
            return
        with anyio.CancelScope(shield=True):  # what is written is known to be
            outcomes = await self._commit(due)
        failed: dict[RunWriter, Exception] = {}
        for (writer, _, _), error in zip(due, outcomes, strict=True):
            if error is not None:
                failed.setdefault(writer, error)
        for writer in {writer for writer, _, _ in due}:
            first = failed.get(writer)
            writer.late, writer.lost = isinstance(first, self.passing), isinstance(first, Lost)
            writer.problem = self._why(first) if first else None
        self._waiting[:0] = [each for each in due if each[0].late]

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
    async def _claim(self, run_id: str = "", fleet: str = "") -> str | None:
        """Make this run ours, or the oldest of this fleet that can be; returns its id."""

    @abstractmethod
    async def _claim_ended(self, run_id: str, entry: Entry, fleet: str) -> str | None: ...

    async def post(self, letter: Letter) -> None:
        """Leave a letter for the server that drives the run or will. Raises `RequestError`."""
        what = f"The server of run {letter.run_id} cannot be reached"
        if self.problem:
            raise RequestError(f"{what}: {self.problem}")
        with self._explained(what):
            posted = await self._post(letter.run_id, json.dumps(self.redact(letter.model_dump())))
        if not posted:
            raise RequestError(
                f"{MAX_LETTERS} messages to run {letter.run_id} are waiting to be read, which is "
                "the limit. They are read when the run goes on."
            )

    @abstractmethod
    async def _post(self, run_id: str, letter: str) -> bool:
        """Returns whether there was room for it."""

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
        """A run, of this caller if one is named; None when there is none. Raises `RequestError`."""

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
            raise Unreadable(
                "The run was recorded by another version of Planloom, and this version cannot "
                "read it."
            ) from None
        except UnicodeError:  # it is the caller's, not the store's
            raise RequestError(
                f"{what}: an id or a key has half of a surrogate pair, which is not a character. "
                "Leave it out."
            ) from None
        except self.errors as error:
            raise Unreachable(f"{what}: {self._why(error)}") from None

    # What is new.

    async def wait_for_news(self, topic: str) -> None:
        """Wait for possible news of a run (its id), "letters", or runs to take over ("fleet")."""
        bell = self._bells.setdefault(topic, anyio.Event())
        with anyio.move_on_after(self.look_seconds):
            await bell.wait()

    def notify(self, topic: str) -> None:
        """Wake up everyone on this server who waits for news on the topic."""
        if bell := self._bells.pop(topic, None):
            bell.set()

    @property
    def now(self) -> float:
        """The time that ages of runs refer to; a clock that is set forward has no effect."""
        opened, since = self._opened
        return min(time.time(), opened + time.monotonic() - since)

    def written(self, run_id: str, data: dict[str, Any]) -> dict[str, Any]:
        """The data as it is recorded; secrets that are hidden there are remembered here."""
        redacted: dict[str, Any] = self.redact(data)
        if data.get("type") == "run_continued" and redacted == data:
            redacted = redacted | {AS_TYPED: True}
        self._secrets.remember(run_id, data, redacted)
        return redacted

    def _first_lines(self, run: NewRun) -> tuple[str, str]:
        """The request and the setup of a run as they are recorded."""
        request = run.request.model_dump()
        shown = self.written(run.id, request)
        setup = run.setup.model_copy(update={"as_typed": shown == request})
        return json.dumps(shown), setup.model_dump_json()

    def redact(self, value: Any) -> Any:
        """JSON data without secrets. Upstreams' texts have none by now; other texts may."""
        return each_text(value, self._redact) if self._redact else value
