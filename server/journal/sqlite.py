"""The run journal in a file, for the servers of one machine.

One SQLite file for all servers of a user, in WAL mode: a killed process loses nothing that was
committed, and several processes write side by side. One thread writes all waiting entries together.
A run waits for the disk only where it must be sure that something is saved (`RunWriter.flush`).

A server holds a lock on a file of its own as long as it lives, so that others know which runs are
under way. A run's owner is its server's name; in a fleet, `@` and the fleet's name follow.
"""

import asyncio
import fcntl
import json
import math
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import anyio
import anyio.to_thread
from filelock import FileLock, Timeout

from server.background import background_tasks
from server.config import RunSettings
from server.journal import base
from server.journal.records import Entry, Letter, NewRun, RunSummary, StoredRun, parse_letters
from server.text import digest

FORMAT = 2
"""Of the file. Another one is neither read nor written."""
APPLICATION = 0x506C6F6D
"""SQLite's `application_id` of our files."""
MAX_INLINE_CHARS = 1000
"""Of a text in its entry; a run's longer texts are stored apart, each of them once."""
AGAIN_SECONDS = 5.0
"""Between two attempts to open the file, which are made when a run begins."""
BUSY_SECONDS = 5.0
"""How long a write waits for another server's."""

_SCHEMA = f"""
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS catalogue (digest TEXT PRIMARY KEY, tools TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS run (
    id TEXT PRIMARY KEY,
    caller TEXT NOT NULL,
    request_key TEXT,
    request TEXT NOT NULL,
    made TEXT NOT NULL,
    catalogue TEXT REFERENCES catalogue,
    status TEXT NOT NULL DEFAULT 'running',
    owner TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    bytes INTEGER NOT NULL DEFAULT 0,
    UNIQUE (caller, request_key)
);
CREATE TABLE IF NOT EXISTS entry (
    run TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    seconds REAL NOT NULL,
    data TEXT NOT NULL,
    text TEXT,
    PRIMARY KEY (run, seq)
);
CREATE TABLE IF NOT EXISTS text (
    run TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    digest TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run, digest)
);
CREATE TABLE IF NOT EXISTS letter (
    run TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    letter TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS secret (secret BLOB NOT NULL);
INSERT INTO secret SELECT randomblob(32) WHERE NOT EXISTS (SELECT * FROM secret);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
COMMIT;
"""

_PRUNED = """
DELETE FROM run WHERE id IN (
    SELECT id FROM (
        SELECT id, updated,
               row_number() OVER newest AS place,
               sum(bytes) OVER newest AS taken
        FROM run WHERE owner = '' OR owner LIKE '@%' AND updated < :before
        WINDOW newest AS (ORDER BY updated DESC, id)
    ) WHERE place > :most OR updated < :before OR taken > :bytes
)
"""

_OF_KEY = "SELECT id FROM run WHERE caller = ? AND request_key = ?"

_FREED = "substr(owner, instr(owner || '@', '@'))"
"""The owner of a run that nobody drives any more."""

T = TypeVar("T")


class SqliteJournal(base.Journal):
    errors = (sqlite3.Error, OSError)
    passing = (sqlite3.OperationalError,)  # locked, full, not writable
    look_seconds: ClassVar[float] = 0.2

    def __init__(self, settings: RunSettings, redact: Callable[[str], str] | None = None) -> None:
        super().__init__(settings, redact)
        self.file = settings.directory / "runs.sqlite"
        self._lock = FileLock(self._lock_file(self.owner), thread_local=False)
        self._thread = ThreadPoolExecutor(1, "journal")
        self._connection: sqlite3.Connection | None = None
        self._tried = -math.inf
        """When the file was last opened, or could not be."""

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        await self._in_thread(self._open)
        try:
            async with background_tasks() as tasks:
                tasks.start_soon(self._keep_writing)
                yield self
        finally:
            with anyio.CancelScope(shield=True):
                await self._write_waiting()
                await self._write_waiting(late=True)
                await self._in_thread(self._close)
            self._thread.shutdown()

    # Writing.

    async def begin(self, run: NewRun) -> base.RunWriter:
        if self.problem and time.monotonic() > self._tried + AGAIN_SECONDS:
            await self._in_thread(self._open)
        writer = self._writer(run.id)
        now = time.time()
        shown, setup = self._first_lines(run)
        owner = ("" if run.waits else self.owner) + _fleet_suffix(run.fleet)
        row = (run.id, run.caller, run.request_key, shown, setup, owner, now, now)

        def insert() -> None:
            with self._transaction():
                if used := self._db.execute(_OF_KEY, (run.caller, run.request_key)).fetchone():
                    raise base.KeyUsed(used[0])
                columns = "id, caller, request_key, request, made, owner, created, updated"
                add = f"INSERT INTO run ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                self._db.execute(add, row)

        if writer.problem is None:
            try:
                await self._in_thread(insert)
            except sqlite3.Error as error:
                writer.problem = self._why(error)
        return writer

    async def _commit(self, due: Sequence[base.Due]) -> Sequence[Exception | None]:
        """All at once, which is fast; if one can never be written, those of each run apart."""
        error = await self._in_thread(partial(self._commit_at_once, due))
        writers = {writer for writer, _, _ in due}
        if error is None or isinstance(error, self.passing) or len(writers) == 1:
            return [error] * len(due)
        outcomes = {
            writer: (await self._commit([each for each in due if each[0] is writer]))[0]
            for writer in writers
        }
        return [outcomes[writer] for writer, _, _ in due]

    def _commit_at_once(self, due: Sequence[base.Due]) -> Exception | None:
        try:
            if any(synced for _, _, synced in due):
                self._db.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                for _, write, _ in due:
                    write(self._db)
        except Exception as error:  # noqa: BLE001  whatever it is, the runs go on and say so
            return error
        finally:
            with suppress(sqlite3.Error):
                self._db.execute("PRAGMA synchronous = NORMAL")
        return None

    def _appending(self, run_id: str, number: int, entry: Entry) -> base.Write:
        def insert(db: sqlite3.Connection) -> None:
            data, long = self.written(run_id, entry.data), None
            if isinstance(text := data.get("text"), str) and len(text) > MAX_INLINE_CHARS:
                data = {key: value for key, value in data.items() if key != "text"}
                long = _save_text(db, run_id, text)
            line = json.dumps(data)
            values = (run_id, number, entry.kind, entry.key, entry.seconds, line, long)
            db.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            size = "UPDATE run SET updated = ?, bytes = bytes + ? WHERE id = ?"
            db.execute(size, (time.time(), len(line) + 100, run_id))
            if status := entry.final_status:
                ended = "UPDATE run SET status = ?, owner = '' WHERE id = ?"
                db.execute(ended, (status, run_id))

        return insert

    def _saving(self, run_id: str, digest: str, tools: str) -> base.Write:
        def save(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR IGNORE INTO catalogue VALUES (?, ?)", (digest, tools))
            db.execute("UPDATE run SET catalogue = ? WHERE id = ?", (digest, run_id))

        return save

    def _releasing(self, run_id: str) -> base.Write:
        free = f"UPDATE run SET owner = {_FREED} WHERE id = ?"
        return lambda db: db.execute(free, (run_id,))

    async def _claim(self, run_id: str = "", fleet: str = "") -> str | None:
        what, value = ("id", run_id) if run_id else (_FREED, f"@{fleet}")
        find = f"SELECT id, owner FROM run WHERE status = 'running' AND {what} = ? ORDER BY created"

        def claim() -> str | None:
            with self._transaction():
                for found, owner in self._db.execute(find, (value,)).fetchall():
                    if found not in self._unreadable and not self._lives(owner):
                        ours = f"UPDATE run SET owner = ? || {_FREED} WHERE id = ?"
                        self._db.execute(ours, (self.owner, found))
                        return str(found)
            return None

        return await self._in_thread(claim)

    async def _claim_ended(self, run_id: str, entry: Entry, fleet: str) -> str | None:
        ours = "UPDATE run SET owner = ?, status = 'running' WHERE id = ? AND status != 'running'"
        count = "SELECT count(*) FROM entry WHERE run = ?"

        def claim() -> str | None:
            with self._transaction():
                if not self._db.execute(ours, (self.owner + _fleet_suffix(fleet), run_id)).rowcount:
                    return None
                self._db.execute("DELETE FROM letter WHERE run = ?", (run_id,))
                (number,) = self._db.execute(count, (run_id,)).fetchone()
                self._appending(run_id, number, entry)(self._db)
                return run_id

        return await self._in_thread(claim)

    async def _post(self, run_id: str, letter: str) -> bool:
        def insert() -> bool:
            count = "SELECT count(*) FROM letter WHERE run = ?"
            with self._transaction():
                if self._db.execute(count, (run_id,)).fetchone()[0] >= base.MAX_LETTERS:
                    return False
                add = "INSERT INTO letter SELECT id, ? FROM run WHERE id = ?"
                self._db.execute(add, (letter, run_id))
            return True

        return await self._in_thread(insert)

    async def collect(self, run_ids: Sequence[str]) -> list[Letter]:
        these = f"FROM letter WHERE run IN ({_places(run_ids)})"
        if not await self._rows(f"SELECT 1 {these} LIMIT 1", *run_ids):
            return []

        def delete() -> list[Letter]:
            with self._transaction():
                rows = self._db.execute(f"SELECT letter {these} ORDER BY rowid", run_ids).fetchall()
                self._db.execute(f"DELETE {these}", run_ids)
                return parse_letters(letter for (letter,) in rows)

        with self._explained("The runs cannot be read"):
            return await self._in_thread(delete)

    async def secret(self) -> bytes:
        if self.problem:
            return os.urandom(32)
        rows = await self._rows("SELECT secret FROM secret")
        return bytes(rows[0]["secret"])

    async def prune(self) -> None:
        if self.problem is None:
            with suppress(sqlite3.Error, OSError):  # the next time will do
                await self._in_thread(self._prune)

    # Reading.

    async def load(self, run_id: str, caller: str | None = None) -> StoredRun | None:
        find = "SELECT * FROM run LEFT JOIN catalogue ON digest = catalogue WHERE id = ?"

        def stored(db: sqlite3.Connection) -> StoredRun | None:
            row = db.execute(find, (run_id,)).fetchone()
            if row is None or caller not in (None, row["caller"]):
                return None
            return StoredRun.of_row(
                run_id, dict(row), self._status(row), row["tools"], _entries(db, run_id)
            )

        return await self._read(stored)

    async def entries(self, run_id: str, first: int) -> list[Entry]:
        return await self._read(lambda db: _entries(db, run_id, first)) or []

    async def find_key(self, caller: str, request_key: str) -> str | None:
        rows = await self._rows(_OF_KEY, caller, request_key)
        return rows[0]["id"] if rows else None

    async def ids(self, beginning: str, caller: str | None = None) -> "list[str]":
        find = (
            "SELECT id FROM run WHERE substr(id, 1, ?) = ? AND caller = coalesce(?, caller) LIMIT 2"
        )
        return [row["id"] for row in await self._rows(find, len(beginning), beginning, caller)]

    async def status(self, run_id: str) -> str | None:
        rows = await self._rows("SELECT * FROM run WHERE id = ?", run_id)
        return self._status(rows[0]) if rows else None

    async def waiting(self, fleet: str) -> int:
        find = "SELECT count(*) FROM run WHERE status = 'running' AND owner = ?"
        rows = await self._rows(find, f"@{fleet}")
        return rows[0][0] if rows else 0

    async def list(self, most: int, callers: Sequence[str] | None = None) -> "list[RunSummary]":
        whose = f"WHERE caller IN ({_places(callers)})" if callers else ""
        find = f"SELECT * FROM run {whose} ORDER BY created DESC LIMIT ?"
        rows = await self._rows(find, *(callers or ()), most)
        return [RunSummary.of_row(row["id"], dict(row), self._status(row)) for row in rows]

    def _status(self, row: sqlite3.Row) -> Any:
        owner = row["owner"]
        if row["status"] == "running" and "@" not in owner and not self._lives(owner):
            return "interrupted"  # one of a fleet goes on by itself
        return row["status"]

    async def _rows(self, find: str, *values: Any) -> Sequence[sqlite3.Row]:
        return await self._read(lambda db: db.execute(find, values).fetchall()) or []

    async def _read(self, query: Callable[[sqlite3.Connection], T]) -> T | None:
        """The result of a query; None if there is no journal yet."""

        def read() -> T | None:
            if not self.file.exists():
                return None
            with closing(sqlite3.connect(self.file, BUSY_SECONDS)) as db:
                db.row_factory = sqlite3.Row
                _check(db)
                return query(db)

        with self._explained("The runs cannot be read"):
            return await anyio.to_thread.run_sync(read)

    # In the writing thread.

    @property
    def _db(self) -> sqlite3.Connection:
        assert self._connection  # nothing comes here when there is a problem
        return self._connection

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._thread.submit(function))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit all statements in it, or none."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # after some errors SQLite has ended it itself
                self._db.execute("ROLLBACK")
            raise

    def _open(self) -> None:
        self.problem, self._tried = None, time.monotonic()
        self._disconnect()
        try:
            self.settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.file, os.O_CREAT | os.O_RDWR, 0o600))  # its WAL takes that over
            self._connection = sqlite3.connect(
                self.file, BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            # SQLite does not wait for another connection that makes the file a WAL one.
            with FileLock(self.settings.directory / "opening", timeout=BUSY_SECONDS):
                _check(self._db)
                self._db.executescript(_SCHEMA)
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute("PRAGMA foreign_keys = ON")
            with self._transaction():  # nobody may take our lock file for a dead server's
                self._lock.acquire(blocking=False)
            self._prune()
        except (sqlite3.Error, OSError, Timeout) as error:
            self.problem = self._why(error)

    def _close(self) -> None:
        if self._lock.is_locked:
            self._lock.release()
            self._lock_file(self.owner).unlink(missing_ok=True)
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    def _prune(self) -> None:
        keep = self.settings
        limits = {
            "most": keep.most,
            "before": self.now - keep.days * 86_400,
            "bytes": int(keep.megabytes * 1e6),
        }
        with self._transaction():
            owners = self._db.execute("SELECT DISTINCT owner FROM run WHERE owner != ''")
            for (owner,) in owners.fetchall():
                if not self._lives(owner):
                    free = f"UPDATE run SET owner = {_FREED} WHERE owner = ?"
                    self._db.execute(free, (owner,))
            gone = self._db.execute(_PRUNED, limits).rowcount
            used = "SELECT catalogue FROM run WHERE catalogue IS NOT NULL"
            self._db.execute(f"DELETE FROM catalogue WHERE digest NOT IN ({used})")
            for file in self.settings.directory.glob("*.lock"):
                if not self._lives(file.stem):
                    file.unlink(missing_ok=True)
        if gone:
            # `execute` takes one step of it, which frees one page.
            self._db.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")

    def _lock_file(self, owner: str) -> Path:
        return self.settings.directory / f"{owner}.lock"

    def _lives(self, owner: str) -> bool:
        owner = owner.partition("@")[0]
        if owner == self.owner:
            return True
        try:
            with self._lock_file(owner).open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # others may look meanwhile
        except FileNotFoundError:
            return False
        except OSError:  # it holds the lock; or this cannot be seen, as without free files
            return True
        return False

    def _why(self, error: Exception) -> str:
        return (
            f"{self.file}: {error}. Make it writable, free space on its disk, move it away if it "
            "is damaged, or name another directory with PLANLOOM_RUNS."
        )


def _fleet_suffix(fleet: str) -> str:
    """What follows the server's name in the owner of a run."""
    return f"@{fleet}" if fleet else ""


def _places(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))


def _check(db: sqlite3.Connection) -> None:
    """Raises `sqlite3.DatabaseError` for a file that is neither empty nor of this format."""
    both = "SELECT * FROM pragma_application_id, pragma_user_version"  # of one moment
    application, version = db.execute(both).fetchone()
    if (application, version) not in ((0, 0), (APPLICATION, FORMAT)):
        raise sqlite3.DatabaseError(
            f"it is a journal of format {version}, and this version of Planloom writes {FORMAT}"
            if application == APPLICATION
            else "it is another program's file"
        )


def _save_text(db: sqlite3.Connection, run_id: str, text: str) -> str:
    line = json.dumps(text)
    name = digest(line)
    insert = "INSERT OR IGNORE INTO text VALUES (?, ?, ?)"
    if db.execute(insert, (run_id, name, line)).rowcount:
        db.execute("UPDATE run SET bytes = bytes + ? WHERE id = ?", (len(line), run_id))
    return name


def _entries(db: sqlite3.Connection, run_id: str, first: int = 0) -> list[Entry]:
    find = (
        "SELECT kind, key, seconds, data, text.text AS long FROM entry LEFT JOIN text "
        "ON text.run = entry.run AND digest = entry.text WHERE entry.run = ? AND seq >= ? "
        "ORDER BY seq"
    )
    found = []
    for row in db.execute(find, (run_id, first)):
        data = json.loads(row["data"])
        if row["long"] is not None:
            data["text"] = json.loads(row["long"])
        found.append(Entry.stored(row["kind"], data, row["key"], row["seconds"]))
    return found
