"""The run journal in a Redis or Valkey database, for servers on several machines.

Each atomic change is one script. A server shows that it is alive by a key that expires. Then other
servers may take over its runs, and Redis refuses its writes, even if it was only paused. So a call
that is not read-only is sent at most once here too, since its intent is such a write.

Redis has to be durable: `appendonly yes`, and `appendfsync always` if an intent has to survive a
power failure, because `synced` has no effect here.
"""

import json
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar, Self, cast
from urllib.parse import urlsplit

import anyio
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from planner.errors import RequestError
from server.background import background_tasks
from server.config import RunSettings
from server.journal import base
from server.journal.records import Entry, Letter, NewRun, RunSummary, StoredRun, parse_letters
from server.text import digest

Database = Any
"""A `Redis`, whose type covers both the blocking and the asynchronous client."""

SPACE = "planloom:1:"
"""What all keys begin with; the number is the format's."""
LEASE_SECONDS = 10.0
"""How long after its last sign of life a server counts as dead."""
RENEW_SECONDS = 2.0
PRUNE_SECONDS = 30.0
"""The shortest time between two searches for runs to delete."""

# KEYS are those of a run: its hash, its entries, its letters. ARGV begins with the sender.

_BEGIN = """
if redis.call('EXISTS', KEYS[1]) == 1 then return end  -- it is sent again
if ARGV[2] ~= '' then
    local used = redis.call('GET', ARGV[2])
    if used and used ~= ARGV[3] then return used end
    redis.call('SET', ARGV[2], ARGV[3])
end
redis.call('HSET', KEYS[1], unpack(ARGV, 6))
redis.call('ZADD', 'SPACEruns', ARGV[4], ARGV[3])
if ARGV[5] ~= '' then
    redis.call('ZADD', 'SPACEfleet:' .. ARGV[5], ARGV[4], ARGV[3])
    redis.call('PUBLISH', 'SPACEbell', 'fleet')
end
"""

_APPEND = """
if redis.call('LINDEX', KEYS[2], ARGV[3]) == ARGV[4] then return end  -- it is sent again
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return redis.error_reply('TAKEN') end
if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[3]) then return redis.error_reply('GAP') end
redis.call('RPUSH', KEYS[2], ARGV[4])
redis.call('HINCRBY', KEYS[1], 'bytes', #ARGV[4])
redis.call('HSET', KEYS[1], 'updated', ARGV[5])
if ARGV[6] ~= '' then
    redis.call('HSET', KEYS[1], 'status', ARGV[6], 'owner', '')
    redis.call('ZREM', 'SPACEfleet:' .. redis.call('HGET', KEYS[1], 'fleet'), ARGV[2])
end
redis.call('PUBLISH', 'SPACEbell', ARGV[2])
"""

_OFFER = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return redis.error_reply('TAKEN') end
redis.call('HSET', 'SPACEcatalogues', ARGV[3], ARGV[4])
redis.call('HSET', KEYS[1], 'catalogue', ARGV[3])
"""

_RELEASE = """
local owner, status = unpack(redis.call('HMGET', KEYS[1], 'owner', 'status'))
if owner == '' and status == 'running' then return end  -- it is sent again
if owner ~= ARGV[1] then return redis.error_reply('TAKEN') end
redis.call('HSET', KEYS[1], 'owner', '')
redis.call('PUBLISH', 'SPACEbell', ARGV[2])
redis.call('PUBLISH', 'SPACEbell', 'fleet')
"""

_CLAIM = """
local unreadable = {}
for place = 4, #ARGV do unreadable[ARGV[place]] = true end
for _, id in ipairs(ARGV[2] ~= '' and {ARGV[2]} or redis.call('ZRANGE', ARGV[3], 0, -1)) do
    local run = 'SPACErun:' .. id
    local owner = redis.call('HGET', run, 'owner')
    local gone = owner and redis.call('EXISTS', 'SPACEserver:' .. owner) == 0
    local free = owner == '' or gone and owner ~= ARGV[1]
    if free and not unreadable[id] and redis.call('HGET', run, 'status') == 'running' then
        redis.call('HSET', run, 'owner', ARGV[1])
        return id
    end
end
"""

_REOPEN = """
local status = redis.call('HGET', KEYS[1], 'status')
if not status or status == 'running' then return nil end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'status', 'running', 'updated', ARGV[4])
redis.call('RPUSH', KEYS[2], ARGV[3])
redis.call('HINCRBY', KEYS[1], 'bytes', #ARGV[3])
redis.call('DEL', KEYS[3])
redis.call('HSET', KEYS[1], 'fleet', ARGV[5])
if ARGV[5] ~= '' then
    redis.call('ZADD', 'SPACEfleet:' .. ARGV[5], redis.call('HGET', KEYS[1], 'created'), ARGV[2])
end
return ARGV[2]
"""

_POST = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 1 end
if redis.call('LLEN', KEYS[3]) >= tonumber(ARGV[2]) then return 0 end
redis.call('RPUSH', KEYS[3], ARGV[3])
redis.call('PUBLISH', 'SPACEbell', 'letters')
return 1
"""

_DELETE = """
if (redis.call('HGET', KEYS[1], 'owner') or '') == ARGV[2] then  -- else it was taken up just now
    redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
    if ARGV[3] ~= '' then redis.call('DEL', ARGV[3]) end
    redis.call('ZREM', 'SPACEruns', ARGV[1])
    redis.call('ZREM', 'SPACEfleet:' .. ARGV[4], ARGV[1])
end
"""


class RedisJournal(base.Journal):
    errors = passing = (RedisError, OSError)
    look_seconds: ClassVar[float] = 2.0  # a server that was not notified by then looks on its own

    def __init__(self, settings: RunSettings, redact: Callable[[str], str] | None = None) -> None:
        super().__init__(settings, redact)
        assert settings.redis
        self._url = settings.redis.get_secret_value()
        self._db: Database = None
        self._pruned = -math.inf

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with self._connect() as self._db, background_tasks() as tasks:
            await self._open()
            for task in (self._live, self._keep_writing, self._listen):
                tasks.start_soon(task)
            try:
                yield self
            finally:
                if self.problem is None:
                    with (
                        anyio.move_on_after(LEASE_SECONDS, shield=True),
                        suppress(RedisError, OSError),
                    ):
                        await self._write_waiting()
                        await self._db.delete(f"{SPACE}server:{self.owner}")

    # Writing.

    async def begin(self, run: NewRun) -> base.RunWriter:
        writer = self._writer(run.id)
        if writer.problem is not None:
            return writer
        shown, setup = self._first_lines(run)
        now = str(time.time())
        fields = {
            "caller": run.caller,
            "request": shown,
            "made": setup,
            "status": "running",
            "fleet": run.fleet,
            "created": now,
            "updated": now,
            "bytes": "0",
        }
        key = _key_of(run.caller, run.request_key) if run.request_key else ""
        if key:
            fields["request_key"] = key

        def first(owner: str) -> base.Write:
            flat = [part for pair in (fields | {"owner": owner}).items() for part in pair]
            return _script(_BEGIN, run.id, self.owner, key, run.id, now, run.fleet, *flat)

        try:
            used = await self._db.eval(*first("" if run.waits else self.owner))
        except (RedisError, OSError) as error:
            # Whether it is there is not known. It is sent again, for this server, which drives it.
            writer.problem, writer.late = self._why(error), True
            self._soon(writer, first(self.owner))
        else:
            if used:
                raise base.KeyUsed(str(used))
        return writer

    def _appending(self, run_id: str, number: int, entry: Entry) -> base.Write:
        line, now = self._line(run_id, entry), str(time.time())
        status = entry.final_status
        return _script(_APPEND, run_id, self.owner, run_id, str(number), line, now, status)

    def _saving(self, run_id: str, digest: str, tools: str) -> base.Write:
        return _script(_OFFER, run_id, self.owner, run_id, digest, tools)

    def _releasing(self, run_id: str) -> base.Write:
        return _script(_RELEASE, run_id, self.owner, run_id)

    async def _claim(self, run_id: str = "", fleet: str = "") -> str | None:
        passed_over = () if run_id else self._unreadable
        where = f"{SPACE}fleet:{fleet}"
        return cast(str | None, await self._eval(_CLAIM, run_id, run_id, where, *passed_over))

    async def _claim_ended(self, run_id: str, entry: Entry, fleet: str) -> str | None:
        line, now = self._line(run_id, entry), str(time.time())
        return cast(str | None, await self._eval(_REOPEN, run_id, run_id, line, now, fleet))

    def _line(self, run_id: str, entry: Entry) -> str:
        line: dict[str, Any] = {"data": self.written(run_id, entry.data), "kind": entry.kind}
        if entry.key:
            line["key"] = entry.key
        return json.dumps(line | {"seconds": entry.seconds})

    async def _post(self, run_id: str, letter: str) -> bool:
        return bool(await self._eval(_POST, run_id, str(base.MAX_LETTERS), letter))

    async def collect(self, run_ids: Sequence[str]) -> list[Letter]:
        async with self._reading() as db:
            pipe = db.pipeline(transaction=True)
            for run_id in run_ids:
                *_, letters = _keys(run_id)
                pipe.lrange(letters, 0, -1).delete(letters)
            found = await pipe.execute()
            return parse_letters(line for lines in found[::2] for line in lines)

    async def prune(self) -> None:
        if self.problem is None and time.monotonic() > self._pruned + PRUNE_SECONDS:
            self._pruned = time.monotonic()
            with suppress(RequestError):  # the next time will do
                async with self._reading() as db:
                    await self._prune(db)

    async def _prune(self, db: Database) -> None:
        keep, before = self.settings, self.now - self.settings.days * 86_400
        catalogues = set(await db.hkeys(f"{SPACE}catalogues"))  # before the runs that use them
        rows = await _rows(db, "owner", "updated", "bytes", "fleet", "request_key", "catalogue")
        owners = {row["owner"] for row in rows.values()} - {""}
        lives = {owner: await db.exists(f"{SPACE}server:{owner}") for owner in owners}
        used = {row["catalogue"] for row in rows.values()}
        place, taken = 0, 0
        for run_id, row in sorted(rows.items(), key=lambda each: -float(each[1]["updated"] or 0)):
            old = float(row["updated"] or 0) < before
            if lives.get(row["owner"]) or (row["status"] == "running" and row["fleet"] and not old):
                continue
            place, taken = place + 1, taken + int(row["bytes"] or 0)
            if place > keep.most or old or taken > keep.megabytes * 1e6:
                what = (run_id, row["owner"], row["request_key"], row["fleet"])
                await db.eval(*_script(_DELETE, run_id, *what))
        if unused := catalogues - used:
            await db.hdel(f"{SPACE}catalogues", *unused)

    async def secret(self) -> bytes:
        if self.problem:
            return os.urandom(32)
        async with self._reading() as db:
            return bytes.fromhex(await db.hget(f"{SPACE}secret", "key"))

    # Reading.

    async def load(self, run_id: str, caller: str | None = None) -> StoredRun | None:
        async with self._reading() as db:
            row = await db.hgetall(_keys(run_id)[0])
            if not row or caller not in (None, row["caller"]):
                return None
            tools = None
            if "catalogue" in row:
                tools = await db.hget(f"{SPACE}catalogues", row["catalogue"])
            status, entries = await _status(db, row), await _entries(db, run_id, 0)
            return StoredRun.of_row(run_id, row, status, tools, entries)

    async def entries(self, run_id: str, first: int) -> list[Entry]:
        async with self._reading() as db:
            return await _entries(db, run_id, first)

    async def status(self, run_id: str) -> str | None:
        async with self._reading() as db:
            names = ("status", "owner", "fleet")
            row = dict(zip(names, await db.hmget(_keys(run_id)[0], names), strict=True))
            return await _status(db, row) if row["status"] else None

    async def waiting(self, fleet: str) -> int:
        async with self._reading() as db:
            pipe = db.pipeline(transaction=False)
            for run_id in await db.zrange(f"{SPACE}fleet:{fleet}", 0, -1):
                pipe.hget(_keys(run_id)[0], "owner")
            return sum(owner == "" for owner in await pipe.execute())

    async def find_key(self, caller: str, request_key: str) -> str | None:
        async with self._reading() as db:
            return cast(str | None, await db.get(_key_of(caller, request_key)))

    async def ids(self, beginning: str, caller: str | None = None) -> "list[str]":
        async with self._reading() as db:
            rows = await _rows(db, "caller")
        found = [
            run_id
            for run_id, row in rows.items()
            if run_id.startswith(beginning) and row["status"] and caller in (None, row["caller"])
        ]
        return found[:2]

    async def list(self, most: int, callers: Sequence[str] | None = None) -> "list[RunSummary]":
        async with self._reading() as db:
            names = ("caller", "owner", "fleet", "created", "updated", "request", "made")
            rows = await _rows(db, *names, newest=0 if callers else most)
            found = [
                RunSummary.of_row(run_id, row, await _status(db, row))
                for run_id, row in rows.items()
                if row["status"] and (not callers or row["caller"] in callers)
            ]
            return found[:most]

    # Over the wire.

    def _connect(self) -> Database:
        return Redis.from_url(
            self._url, decode_responses=True, socket_connect_timeout=5.0, socket_timeout=10.0
        )

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[Database]:
        """The connection of a journal that was entered, else one for what is read now."""
        with self._explained("The runs cannot be read"):
            if self._db:
                yield self._db
            else:
                async with self._connect() as db:
                    yield db

    async def _eval(self, script: str, run_id: str, *arguments: str) -> Any:
        return await self._db.eval(*_script(script, run_id, self.owner, *arguments))

    async def _commit(self, due: Sequence[base.Due]) -> Sequence[Exception | None]:
        """A write whose answer was lost is sent again: safely, since each entry has its number."""
        pipe = self._db.pipeline(transaction=False)
        for _, script, _ in due:
            pipe.eval(*script)
        try:
            answers = await pipe.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            return [error] * len(due)
        taken = (isinstance(each, ResponseError) and "TAKEN" in str(each) for each in answers)
        return [
            base.Lost(TAKEN) if lost else each if isinstance(each, Exception) else None
            for each, lost in zip(answers, taken, strict=True)
        ]

    async def _renew(self) -> None:
        await self._db.set(f"{SPACE}server:{self.owner}", "1", px=int(LEASE_SECONDS * 1000))

    async def _open(self) -> None:
        try:
            await self._renew()
            await self._db.hsetnx(f"{SPACE}secret", "key", os.urandom(32).hex())
            self.problem = None
        except (RedisError, OSError) as error:
            self.problem = self._why(error)

    async def _live(self) -> None:
        while True:
            await anyio.sleep(RENEW_SECONDS)
            if self.problem:
                await self._open()
            with suppress(RedisError, OSError):  # once more soon; the lease lasts longer
                await self._renew()

    async def _listen(self) -> None:
        while True:
            with suppress(RedisError, OSError):
                async with self._connect() as db, db.pubsub() as bell:
                    await bell.subscribe(f"{SPACE}bell")
                    while True:
                        said = await bell.get_message(True, timeout=LEASE_SECONDS / 2)
                        if said:
                            self.notify(said["data"])
            await anyio.sleep(1.0)

    def _why(self, error: Exception) -> str:
        if isinstance(error, base.Lost):
            return str(error)
        place = urlsplit(self._url)
        where = f"{place.scheme}://{place.hostname or ''}{f':{place.port}' if place.port else ''}"
        return (
            f"{where}{place.path}: {error}. Check that it runs and accepts writes (PLANLOOM_RUNS)."
        )


TAKEN = (
    "Another server has taken over the run, because this one did not respond for "
    f"{LEASE_SECONDS:g} s."
)


def _keys(run_id: str) -> list[str]:
    return [f"{SPACE}{kind}:{run_id}" for kind in ("run", "entries", "letters")]


def _script(script: str, run_id: str, *arguments: str) -> tuple[str | int, ...]:
    """What `EVAL` takes for a script about a run."""
    keys = _keys(run_id)
    return script.replace("SPACE", SPACE), len(keys), *keys, *arguments


def _key_of(caller: str, request_key: str) -> str:
    both = json.dumps([caller, request_key])
    return f"{SPACE}key:{digest(both)}"


async def _rows(db: Database, *names: str, newest: int = 0) -> dict[str, dict[str, str]]:
    """These fields of the runs, and their status, the newest first."""
    ids = await db.zrange(f"{SPACE}runs", 0, newest - 1, desc=True)
    pipe = db.pipeline(transaction=False)
    wanted = ("status", *names)
    for run_id in ids:
        pipe.hmget(_keys(run_id)[0], wanted)
    found = zip(ids, await pipe.execute(), strict=True)
    return {
        run_id: {name: value or "" for name, value in zip(wanted, values, strict=True)}
        for run_id, values in found
    }


async def _status(db: Database, row: dict[str, str]) -> Any:
    if row["status"] != "running" or row["fleet"]:  # one of a fleet goes on by itself
        return row["status"]
    lives = row["owner"] and await db.exists(f"{SPACE}server:{row['owner']}")
    return "running" if lives else "interrupted"


async def _entries(db: Database, run_id: str, first: int) -> list[Entry]:
    found = []
    for line in await db.lrange(_keys(run_id)[1], first, -1):
        each = json.loads(line)
        key = each.get("key", "")
        found.append(Entry.stored(each["kind"], each["data"], key, each["seconds"]))
    return found
