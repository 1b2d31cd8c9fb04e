"""One run in progress, or as it was recorded."""

import math
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal, Self

import anyio

from planner.clock import Clock
from planner.events import ApprovalAsked, Event, OfTheMoment, RunFinished
from planner.protocol import RunRequest
from planner.state import RunState, Status
from planner.tools import ToolSpec
from server.approval.approval import Approvals
from server.config import ApprovalSettings
from server.journal.base import RunWriter
from server.journal.records import Entry, StoredRun
from server.upstreams.side_channel import SideChannel
from server.views.progress import heartbeat
from server.views.report import Report, report

LOCAL = ""
"""The caller, where there is only one: who starts the server owns its runs."""

AT_REQUEST = "at the caller's request"


class Run:
    """One run: its events so far, and their fold."""

    def __init__(
        self,
        request: RunRequest,
        approval: ApprovalSettings,
        caller: str = LOCAL,
        request_key: str | None = None,
        run_id: str | None = None,
        events: Sequence[Event] = (),
    ) -> None:
        """`caller`: who may see it (`server.auth.caller`). `run_id`: None makes one of 122 random
        bits. `events`: of a run that began before."""
        self.id = run_id or uuid.uuid4().hex
        self.request = request
        self.caller = caller
        self.request_key = request_key
        self.created = time.time()
        self.project = ""
        self.events: list[Event] = list(events)
        self.state = RunState.of(events)
        asked = self.state.request or request
        self.approvals = Approvals(self.id, asked, self.state, approval.timeout_s)
        self.interrupted = False
        """Nobody drives it, and it has not ended: it can be resumed."""
        self.elsewhere = False
        """This server has let go of it, and another one goes on with it."""
        self.driven = False
        self.queued = False
        """Whether it still waits for its turn."""
        self.stopping = False
        """Whether it is being interrupted, not cancelled."""
        self.reported_events = 0
        """How many events its caller had seen when the last call returned."""
        self.clock = Clock()
        self.models_doing: Callable[[], str] = str
        """What a model that it uses here does now, in words; empty if that is not known."""
        self.scope = anyio.CancelScope()
        """Cancels what it does here."""
        self.writer: RunWriter | None = None
        self._changed = anyio.Event()

    @classmethod
    def of(cls, stored: StoredRun, approval: ApprovalSettings) -> Self:
        run = cls(stored.request, approval, stored.caller, None, stored.id, stored.events)
        run.created, run.project = stored.created, stored.setup.project
        run.interrupted = stored.status == "interrupted"
        run.queued = not stored.events
        run.approvals.secret_lost = stored.secret_lost
        return run

    @property
    def status(self) -> Status | Literal["interrupted"]:
        return "interrupted" if self.interrupted else self.state.status

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen in it here, unless it is resumed."""
        return self.elsewhere or self.status != "running"

    @property
    def under_way(self) -> bool:
        return self.driven and not self.finished

    @property
    def paused(self) -> float:
        """The seconds since anything happened in it."""
        return max(0.0, time.time() - self.events[-1].at) if self.events else 0.0

    @property
    def now(self) -> float:
        """The time of its end, or the present if it goes on, in seconds since the epoch."""
        return self.events[-1].at if self.finished and self.events else time.time()

    @property
    def not_recorded(self) -> str | None:
        """Why it is not in the journal, or not as a whole."""
        return self.writer.problem if self.writer and not self.writer.lost else None

    def doing(self, state: RunState) -> str:
        """What it waits for, in words, and how long it has; `state`: as its reader knows it."""
        if self.elsewhere:
            return "Another server goes on with it"
        quiet = self.paused if self.events else max(0.0, time.time() - self.created)
        waiting = self.approvals.waiting
        return heartbeat(state, quiet, self.queued, waiting, self.models_doing())

    async def flush(self) -> None:
        """Wait until all events so far are on disk, or cannot be."""
        if self.writer:
            await self.writer.flush()

    def record(self, event: Event) -> None:
        """Append an event. Never waits, so no follower can hold the run up."""
        if isinstance(event, ApprovalAsked):
            event = self.approvals.sealed(event)
        if self.writer and not isinstance(event, OfTheMoment):
            last = isinstance(event, RunFinished)
            self.writer.append(Entry.of(event, self.clock.seconds), synced=last)
        self.add(event)

    def add(self, *events: Event) -> None:
        """Apply events that are recorded already."""
        for event in events:
            self.events.append(event)
            self.state.apply(event)
        self._changed.set()
        self._changed = anyio.Event()

    def open_channel(self, tool: ToolSpec, iteration: int | None) -> SideChannel:
        return SideChannel(
            tool, iteration, self.approvals, self.record, self.clock, alone=self.caller == LOCAL
        )

    def stop(self) -> None:
        self.stopping = True
        self.scope.cancel()

    async def let_go(self) -> None:
        """Leave the run to the fleet or to whoever resumes it; if it is not recorded, it ends."""
        if self.writer is None or self.not_recorded:
            self.record(cancelled(self.state, "it was cut off, and is not recorded"))
            return
        self.elsewhere = await self.writer.release()
        self.interrupted = not self.elsewhere
        self.add()

    async def wait_beyond(self, count: int) -> None:
        while len(self.events) <= count and not self.finished:
            await self._changed.wait()

    async def follow(
        self, patience: Callable[[], float] = lambda: math.inf
    ) -> AsyncIterator[list[Event]]:
        """The run's events up to its end, the new ones each time, once they are on disk or cannot
        be. `patience`: after so many seconds without one, the list is empty."""
        seen = 0
        while True:
            known = len(self.events)
            await self.flush()  # what a client has seen is not lost
            if new := self.events[seen:known]:
                yield new
            seen = known
            if self.finished and seen == len(self.events):
                return
            with anyio.move_on_after(patience()) as wait:
                await self.wait_beyond(seen)
            if wait.cancelled_caught:
                yield []


def cancelled(state: RunState, why: str) -> RunFinished:
    """The end of a run that was ended from outside."""
    found = "; ".join(step.notes for step in state.completed_steps if step.notes)
    answer = f"Cancelled. Found so far: {found}" if found else "Cancelled."
    return RunFinished(status="cancelled", answer=answer, reason=why)


def report_of(run: Run, iteration: int | None = None) -> Report:
    return report(
        run.id,
        run.state,
        run.now,
        iteration,
        interrupted=run.interrupted,
        not_recorded=run.not_recorded,
    )
