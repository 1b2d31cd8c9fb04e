"""Records what a run gets from outside, and replays it when the run is resumed.

A run's events follow from its request and from what models, tools, people and the clock gave it. So
to resume a run, the agent runs again on the same request: what it asks for is answered from the
record, in order, and its events have to match the recorded ones. Where these end, the run goes on.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import anyio
from anyio import get_cancelled_exc_class
from pydantic import BaseModel

from planner import errors, events
from planner.clock import Clock
from planner.errors import ModelError
from planner.inbox import Inbox
from planner.models.base import ChatModel, ChatRequest, ModelAround, Models, Reply
from planner.models.encoder import Encoder, Likeness
from planner.protocol import Steering
from planner.tools import (
    Approval,
    Approver,
    PoolAround,
    Safety,
    ToolPool,
    ToolResult,
    ToolSpec,
    UpstreamStatus,
    failed_call,
)
from server.approval.approval import Approvals
from server.journal.base import RunWriter
from server.journal.records import Entry, StoredRun
from server.text import digest

T = TypeVar("T", bound=BaseModel)
E = TypeVar("E", bound=events.BaseEvent)

TURNS = 50
"""How many turns of the event loop, and then pauses, a replayed run may take without progress."""
TURN_SECONDS = 0.02

UNKNOWN = "The server ended while this call was under way; its outcome is unknown."
NOT_RECORDED = (
    "The call was not made, because it could not be recorded first: after a restart it might be "
    "made twice."
)


class Diverged(Exception):
    """A resumed run does something else than its record."""


class NotRecorded(Exception):
    """A call that must not be made twice cannot be recorded, and so is not made."""


class Listing(BaseModel):
    """The project's top level, if there is a tool that lists it."""

    text: str | None


class Tape:
    """The record of one run, played and then continued. All that is asked outside goes through
    `take`."""

    def __init__(
        self,
        writer: RunWriter,
        emit: Callable[[events.Event], None],
        stored: StoredRun | None = None,
        spent: float = 0.0,
    ) -> None:
        """`emit` gets every event that is not in the record yet; `stored` is what is, of a run
        that is resumed. `spent`: the seconds that the run has taken before."""
        played = stored.entries if stored else []
        self.clock = Clock(spent)
        self.clock.hold()
        self.diverged: str | None = None
        self._writer = writer
        self._emit = emit
        self._played = [each for each in played if each.data.get("type") not in events.FROM_OUTSIDE]
        self._head = 0
        """The first entry that is not consumed; later ones may be, of parallel calls cut off."""
        self._consumed: set[int] = set()
        self._claimed: set[int] = set()
        self._in_doubt: set[str] = set()
        """The keys of calls that may have been made and must not be made again."""
        if not self._played:
            self.clock.release()

    def say(self, event: events.Event) -> None:
        """Record an event, unless it is a draft. Raises `Diverged` if the record has another."""
        if self._head == len(self._played) or isinstance(event, events.AnswerDelta):
            return self._emit(event)
        entry = self._played[self._head]
        if entry.kind != "event" or entry.event.type != event.type:
            was = entry.data.get("type", entry.kind)
            raise self._apart(f"the record has {was} where now is {event.type}")
        differing = [
            name
            for name in type(event).model_fields
            if name not in ("at", "digest") and getattr(event, name) != getattr(entry.event, name)
        ]
        if differing:
            raise self._apart(f"{event.type} has another {' and '.join(differing)} now")
        return self._consume(self._head)

    def ahead(self, kind: type[E]) -> list[E] | None:
        """The run's next events of this kind in the record; None where the record has ended."""
        if self._head == len(self._played):
            return None
        found: list[E] = []
        for entry in self._played[self._head :]:
            if entry.kind != "event" or not isinstance(entry.event, kind):
                break
            found.append(entry.event)
        return found

    async def take(
        self,
        shape: type[T],
        asked: Sequence[Any],
        ask: Callable[[], Awaitable[T]],
        in_doubt: T | None = None,
    ) -> T:
        """The result of asking something outside: from the record, else by `ask`, and recorded.
        `asked` identifies the request. `in_doubt` is given for what must not be done twice: the
        result to continue with if it is unknown whether it was done. Raises `ModelError` as `ask`
        does, and `NotRecorded` if such a request cannot be recorded before it is made."""
        asked = self._writer.journal.redact(list(asked))  # as it is when it comes from the record
        key = digest(json.dumps(asked))[:32]
        begun = self._find(key, "intent") if in_doubt is not None else None
        if begun is not None:
            await self._turn(begun)
            self._consume(begun)
        ended = self._find(key, "outcome", "error", "cut")
        if ended is not None:
            found = await self._replayed(ended, shape)
            if found == in_doubt:
                self._in_doubt.add(key)
            return found
        await self._turn(len(self._played))
        if in_doubt is None:
            return await self._asked(key, ask)
        if begun is not None or key in self._in_doubt:
            self._in_doubt.add(key)
            self._write("outcome", in_doubt.model_dump(), key)
            return in_doubt
        self._write("intent", {"asked": asked}, key, synced=True)
        if not await self._writer.flush():
            if self._writer.lost:
                await anyio.sleep_forever()  # the server sees it soon, and lets go of the run
            self._write("error", {"error": NotRecorded.__name__, "text": ""}, key)
            raise NotRecorded  # finally, even if the intent is recorded later
        return await self._asked(key, ask)

    async def _asked(self, key: str, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            found = await ask()
        except ModelError as error:
            self._write("error", {"error": type(error).__name__, "text": str(error)}, key)
            raise
        except get_cancelled_exc_class():
            if self.clock.expired:  # else the run is over, or goes on another time
                self._write("cut", {}, key)
            raise
        self._write("outcome", found.model_dump(), key)
        return found

    async def _replayed(self, place: int, shape: type[T]) -> T:
        entry = self._played[place]
        try:
            await self._turn(place)
        finally:
            self._consume(place)  # also what was cut off side by side with another
        if entry.kind == "cut":
            self.clock.expire()
            await anyio.sleep_forever()
        if entry.kind == "error" and entry.data["error"] == NotRecorded.__name__:
            raise NotRecorded
        if entry.kind == "error":
            raise getattr(errors, entry.data["error"])(entry.data["text"])
        return shape.model_validate(entry.data)

    def _find(self, key: str, *kinds: str) -> int | None:
        """The next entry of this key and kind that no other call waits for."""
        for place in range(self._head, len(self._played)):
            entry = self._played[place]
            if entry.key == key and entry.kind in kinds and place not in self._claimed:
                self._claimed.add(place)
                return place
        return None

    async def _turn(self, place: int) -> None:
        """Wait until all that was recorded before is replayed, also by calls side by side."""
        idle = 0
        while self._head < place:
            before = self._head
            await anyio.sleep(0 if idle < TURNS else TURN_SECONDS)
            idle = 0 if self._head > before else idle + 1
            if idle > 2 * TURNS:
                entry = self._played[self._head]
                raise self._apart(f"{entry.data.get('type', entry.kind)} does not come again")

    def _consume(self, place: int) -> None:
        self._consumed.add(place)
        before = self._head
        while self._head in self._consumed:
            self._head += 1
        if before < self._head == len(self._played):
            self.clock.release()

    def _apart(self, what: str) -> Diverged:
        self.diverged = f"at entry {self._head} of {len(self._played)}, {what}"
        return Diverged(self.diverged)

    def _write(self, kind: Any, data: dict[str, Any], key: str, synced: bool = False) -> None:
        self._writer.append(Entry(kind, data, key, self.clock.seconds), synced=synced)


def taped_models(models: Models, tape: Tape) -> Models:
    fast = _TapedModel(models.fast, tape)
    full = fast if models.full is models.fast else _TapedModel(models.full, tape)
    encoder = _TapedEncoder(models.encoder, tape) if models.encoder else None
    return Models(fast, full, encoder=encoder)


def taped_approver(approvals: Approvals, tape: Tape) -> Approver:
    """The run's approver, with every decision on the tape: what was approved before a restart and
    not made is made without another question."""

    async def approve(tool: ToolSpec, arguments: dict[str, Any]) -> Approval:
        asked = ["approval", f"{tool.upstream}.{tool.name}", arguments]
        approval = await tape.take(Approval, asked, lambda: approvals.decide(tool, arguments))
        if approval.approved:
            approvals.grant(tool, arguments)
        return approval

    return approve


class TapedInbox(Inbox):
    """The steering of a run. On the tape, it is in the events that say it was taken."""

    def __init__(self, tape: Tape, waiting: Callable[[], Sequence[Steering]]) -> None:
        """`waiting`: the steering that has arrived and was not taken yet."""
        self._tape, self._waiting = tape, waiting

    def steering(self) -> Sequence[Steering]:
        taken = self._tape.ahead(events.SteeringTaken)
        return list(self._waiting()) if taken is None else [each.steering for each in taken]

    def next_request(self) -> events.RunContinued | None:
        return next(iter(self._tape.ahead(events.RunContinued) or []), None)


class _TapedModel(ModelAround):
    def __init__(self, model: ChatModel, tape: Tape) -> None:
        super().__init__(model)
        self._tape = tape

    async def chat(self, request: ChatRequest) -> Reply:
        asked = ["reply", self.name, request.messages[-1]["content"]]
        return await self._tape.take(Reply, asked, partial(super().chat, request))


class _TapedEncoder:
    def __init__(self, encoder: Encoder, tape: Tape) -> None:
        self._encoder, self._tape = encoder, tape

    async def likeness(self, question: str, texts: Sequence[str]) -> Likeness:
        ask = partial(self._encoder.likeness, question, texts)
        return await self._tape.take(Likeness, ["likeness", question, *texts], ask)


class TapedPool(PoolAround):
    """The pool of a run: with the tools that it began with, and every result on the tape."""

    def __init__(
        self,
        pool: ToolPool,
        tape: Tape,
        tools: Sequence[ToolSpec],
        began: events.RunStarted | None,
        approvals: Approvals,
    ) -> None:
        """`tools`: those the run began with; `began`: how, if that is recorded."""
        super().__init__(pool)
        self._tape, self._tools, self._began = tape, tools, began
        self._approvals = approvals
        now = {tool.name: _essence(tool) for tool in pool.tools()} if began else {}
        self._changed = {
            tool.name for tool in tools if now.get(tool.name, _essence(tool)) != _essence(tool)
        }

    def tools(self) -> Sequence[ToolSpec]:
        return self._tools

    def upstreams(self) -> Sequence[UpstreamStatus]:
        return self._began.upstreams if self._began else super().upstreams()

    async def listing(self) -> str | None:
        async def ask() -> Listing:
            return Listing(text=await self.pool.listing())

        return (await self._tape.take(Listing, ["listing"], ask)).text

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        async def ask() -> ToolResult:
            if tool.name in self._changed:
                text = f"{tool.name} was changed since this run began, and is not called any more."
                return failed_call(text)
            return await self.pool.call(tool, arguments)

        twice = tool.safety is Safety.READ_ONLY
        unknown = None if twice else failed_call(UNKNOWN, answered=False)
        asked = ["call", f"{tool.upstream}.{tool.name}", arguments]
        try:
            return await self._tape.take(ToolResult, asked, ask, unknown)
        except NotRecorded:
            return failed_call(NOT_RECORDED)
        finally:  # also if the call was made before, or is not made
            self._approvals.spend(tool, arguments)


_essence = attrgetter("upstream", "safety", "input_schema", "fixed_arguments")
"""What stays the same of a tool that takes and is sent the same arguments, and may do the same."""
