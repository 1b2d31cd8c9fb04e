"""The runs in progress. A run belongs to the server; calls, the CLI and tests are views on it.

What happens in a run goes to the journal (`server.runs`) as well; a run that is not in progress
here, or not any more, comes from there.
"""

import logging
import math
import time
import traceback
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Literal, Self

import anyio
from anyio.abc import TaskGroup

from planner import agent, warming
from planner.clock import Clock
from planner.errors import Busy, PlanloomError, RequestError
from planner.events import AnswerDelta, Event, RunFinished, RunResumed
from planner.models import Models
from planner.protocol import RunRequest
from planner.state import RunState, Status
from planner.tools import Policy
from server import replay
from server.approval import Approvals, GuardedPool
from server.config import ApprovalSettings
from server.replay import Tape, TapedPool, taped_approver, taped_models
from server.runs import Entry, Journal, KeyUsed, Made, Record, Recorded
from server.telemetry import Spans
from server.upstreams import UpstreamPool

log = logging.getLogger(__name__)

RUNS_KEPT = 200
"""Finished runs that can be asked for without the journal; the oldest go first."""
PATIENCE_SECONDS = 15.0
"""How long a run waits for slow upstreams when another is up; it goes on without them."""
START_SECONDS = 90.0
"""How long it waits when none is."""
CANCEL_SECONDS = 5.0
"""How long `cancel` waits for a run to let go of its model call and its tool call."""
INTERRUPT_SECONDS = 2.0
"""The same, when the server ends: a host soon kills it."""
FOLLOW_SECONDS = 0.2
"""How often the journal is looked at for a run that another server drives."""
LOCAL = ""
"""The caller, where there is only one: who starts the server owns its runs."""
USUAL_SECONDS = 30.0
"""What a run takes, as long as none has ended."""


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
        """`caller`: who may see it (`server.access.caller`). `run_id`: None makes one of 122 random
        bits. `events`: of a run that began before."""
        self.id = run_id or uuid.uuid4().hex
        self.request = request
        self.caller = caller
        self.request_key = request_key
        self.created = time.time()
        self.events: list[Event] = list(events)
        self.state = RunState.of(events)
        self.approvals = Approvals(self.id, request, self.state, approval.timeout_s)
        self.interrupted = False
        """Nobody drives it, and it has not ended: it can be resumed."""
        self.driven = False
        """Whether this server drives it."""
        self.queued = False
        """Whether it still waits for its turn."""
        self.stopping = False
        """Whether it is being interrupted, not cancelled."""
        self.clock = Clock()
        self._record: Record | None = None
        self._spans: Spans | None = None
        self._changed = anyio.Event()
        self._scope = anyio.CancelScope()

    @classmethod
    def of(cls, recorded: Recorded, approval: ApprovalSettings) -> Self:
        run = cls(recorded.request, approval, recorded.caller, None, recorded.id, recorded.events)
        run.created = recorded.created
        run.interrupted = recorded.status == "interrupted"
        return run

    @property
    def status(self) -> Status | Literal["interrupted"]:
        return "interrupted" if self.interrupted else self.state.status

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen in it, unless it is resumed."""
        return self.status != "running"

    @property
    def now(self) -> float:
        """The time up to which it has been going on, in seconds since the epoch."""
        return self.events[-1].at if self.finished and self.events else time.time()

    @property
    def not_recorded(self) -> str | None:
        """Why it is not in the journal, or not as a whole."""
        return self._record.problem if self._record else None

    async def saved(self) -> None:
        """Wait until all events so far are on disk, or cannot be."""
        if self._record:
            await self._record.saved()

    def record(self, event: Event) -> None:
        """Append an event. Never waits, so no follower can hold the run up."""
        if self._record and not isinstance(event, AnswerDelta):  # the reply has it as a whole
            last = isinstance(event, RunFinished)
            self._record.append(Entry.of(event, self.clock.seconds), synced=last)
        if self._spans:
            self._spans.record(event)
        self.add(event)

    def add(self, *events: Event) -> None:
        """Take in events that are recorded already."""
        for event in events:
            self.events.append(event)
            self.state.apply(event)
        self._changed.set()
        self._changed = anyio.Event()

    def interrupt(self) -> None:
        """The run stops here, to be resumed; one that is not recorded ends."""
        if self._record and self._record.problem is None:
            self._record.release()
            self.interrupted = True
            self.add()
        else:
            self.record(cancelled(self.state, "the server ended"))

    async def wait_beyond(self, count: int) -> None:
        """Wait until there are more than `count` events."""
        while len(self.events) <= count and not self.finished:
            await self._changed.wait()

    async def follow(self) -> AsyncIterator[Event]:
        """Every event from the first to the last, as they come."""
        seen = 0
        while True:
            while seen < len(self.events):
                yield self.events[seen]
                seen += 1
            if self.finished:
                return
            await self.wait_beyond(seen)


class Engine:
    """Starts runs in its own task group and keeps them for whoever asks.

    So many work at a time as `settings` say; the others wait for their turn, as many as may wait.
    """

    def __init__(
        self,
        models: Callable[[], Awaitable[Models]],
        pool: UpstreamPool,
        journal: Journal,
        approval: ApprovalSettings,
        tasks: TaskGroup,
    ) -> None:
        self._models = models
        self._approval = approval
        self.pool = pool
        self.journal = journal
        self._turns = anyio.CapacityLimiter(journal.settings.concurrent)
        self._usual_seconds = USUAL_SECONDS
        self._tasks = tasks
        self._runs: dict[str, Run] = {}
        self._resuming = anyio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        models: Callable[[], Awaitable[Models]],
        pool: UpstreamPool,
        journal: Journal,
        approval: ApprovalSettings,
    ) -> AsyncIterator[Self]:
        """An engine whose runs all stop with this scope."""
        tasks = await anyio.create_task_group().__aenter__()
        try:
            yield cls(models, pool, journal, approval, tasks)
        finally:
            tasks.cancel_scope.cancel()
            # Without the exception, which would come out wrapped in a group.
            await tasks.__aexit__(None, None, None)

    def warm_up(self, warm: Callable[[], Awaitable[Models | None]]) -> None:
        """In the background: have the models loaded while the upstreams start, and then the
        instructions read, unless a run has come first."""
        self._tasks.start_soon(self._warm_up, warm)

    async def _warm_up(self, warm: Callable[[], Awaitable[Models | None]]) -> None:
        try:
            models = await warm()
            await self.pool.ready(START_SECONDS)
            if models and not self._runs:
                await warming.read_instructions(models, self.pool)
        except PlanloomError as error:
            log.info("warm-up: %s", error)  # a run will tell whom it concerns

    async def start(
        self,
        request: RunRequest,
        caller: str = LOCAL,
        request_key: str | None = None,
        can_ask: bool = False,
    ) -> Run:
        """Start a run, or put it at the end of the queue; or, where the caller has used the
        `request_key` before, go on with the run it belongs to. `can_ask`: the caller can ask a
        person for approval.

        Raises `RequestError` for a request that cannot be, or that is not the key's,
        `ModelUnavailable` when there is no model to run it with, and `Busy`.
        """
        agent.check(request)
        if request.policy is Policy.ASK and not can_ask:
            # The models are not shown what every call of would be refused.
            request = request.model_copy(update={"policy": Policy.READ_ONLY})
        if request_key and (known := await self._of_key(caller, request_key)):
            return await self._same(known, caller, request, request_key)
        models = await self._models()
        self._hold_bounds()
        run = Run(request, self._approval, caller, request_key)
        run.approvals.can_ask = can_ask
        run._spans = _spans(run, models)
        self._runs[run.id] = run
        self._forget_oldest()
        made = _made(models)
        try:
            with anyio.CancelScope(shield=True):  # a run on record is driven
                run._record = await self.journal.begin(run.id, request, made, caller, request_key)
        except KeyUsed as used:
            del self._runs[run.id]
            return await self._same(used.run_id, caller, request, str(request_key))
        self._go_on(run, models)
        return run

    async def get(self, run_id: str, caller: str = LOCAL) -> Run:
        """The caller's run of this id, wherever it is or was driven. Raises `RequestError` when
        there is none (any more), and in the same words when it is another's."""
        run = self._runs.get(run_id)
        if run is not None and run.caller == caller:
            return run
        recorded = await self.journal.load(run_id, caller)
        if recorded is None:
            raise RequestError(
                f'There is no run "{run_id}". Run ids come with the report of plan_and_answer; '
                f"ended runs are kept for {self.journal.settings.days:g} days at most."
            )
        run = Run.of(recorded, self._approval)
        if not run.finished:
            self._tasks.start_soon(self._follow, run, len(recorded.entries))
        return run

    async def resume(self, run_id: str, caller: str = LOCAL) -> Run:
        """The run, going on if it was interrupted. Raises `RequestError` when it cannot, and
        `ModelUnavailable`."""
        async with self._resuming:
            run = await self.get(run_id, caller)
            if not run.interrupted:
                return run
            models = await self._models()
            before = await self.journal.load(run_id, caller)
            assert before  # it was there a moment ago
            _check_made(before, _made(models))
            with anyio.CancelScope(shield=True):  # what is taken over is driven
                taken = await self.journal.resume(run_id)
            if taken is None:
                return await self.get(run_id, caller)
            record, recorded = taken
            run = Run.of(recorded, self._approval)
            run.interrupted, run._record = False, record
            run._spans = _spans(run, models)
            self._runs[run_id] = run
            paused = max(0.0, time.time() - run.events[-1].at) if run.events else 0.0
            run.record(RunResumed(paused=paused, unknown=replay.in_doubt(recorded.entries)))
            self._go_on(run, models, recorded)
            return run

    async def cancel(self, run: Run) -> None:
        """End a run: its model call and its tool call are cancelled. Fine when it has ended.
        Raises `RequestError` for a run that another server drives."""
        if run.interrupted and (taken := await self.journal.resume(run.id)):
            run._record, run.interrupted = taken[0], False
            run.record(cancelled(run.state, "cancelled"))
            await run.saved()
        if run.finished:
            return
        if not run.driven:
            raise RequestError(
                f"Run {run.id} is driven by another Planloom server. Cancel it there, or end that "
                "server."
            )
        run._scope.cancel()
        await self._stopped(run, CANCEL_SECONDS)

    async def interrupt_all(self) -> None:
        """Stop every run, so that it can be resumed; whoever waits for one gets its report."""
        async with anyio.create_task_group() as tasks:
            for run in [each for each in self._runs.values() if each.driven and not each.finished]:
                run.stopping = True
                run._scope.cancel()
                tasks.start_soon(self._stopped, run, INTERRUPT_SECONDS)

    async def _stopped(self, run: Run, seconds: float) -> None:
        with anyio.move_on_after(seconds, shield=True):
            while not run.finished:
                await run.wait_beyond(len(run.events))
            await run.saved()

    def _go_on(self, run: Run, models: Models, recorded: Recorded | None = None) -> None:
        run.driven = True
        self._tasks.start_soon(self._drive, run, models, recorded)

    async def _drive(self, run: Run, models: Models, recorded: Recorded | None) -> None:
        assert run._record
        tape: Tape | None = None
        try:
            with run._scope:
                run.queued = True
                async with self._turns:
                    run.queued = False
                    began = anyio.current_time()
                    await self.pool.usable(PATIENCE_SECONDS, START_SECONDS)
                    tools = recorded.tools if recorded else None
                    if tools is None:
                        tools = list(self.pool.tools())
                        run._record.began_with(tools)
                    tape = Tape(run._record, run.record, recorded)
                    run.clock = tape.clock
                    guarded = GuardedPool(self.pool, run.approvals, self.pool.changed())
                    pool = TapedPool(guarded, tape, tools, recorded.began if recorded else None)
                    taped = taped_models(models, tape)
                    approver = taped_approver(run.approvals, tape)
                    await agent.run(run.request, taped, pool, tape.say, approver, tape.clock)
                    self._usual_seconds += (anyio.current_time() - began - self._usual_seconds) / 8
        except PlanloomError as error:
            run.record(RunFinished(status="failed", answer=str(error), reason=str(error)))
        except Exception as error:  # noqa: BLE001  the other runs go on
            if recorded and tape and tape.diverged:
                reason = _parted(recorded.made.planloom, tape.diverged)
                run.record(agent.cut_short(run.state, reason))
                return
            log.error("run %s\n%s", run.id, self.pool.redacted(traceback.format_exc()))
            told = self.pool.redacted(f"{type(error).__name__}: {error}")
            reason = f"a fault in planloom itself ({told})"
            answer = (
                f"The run ended by {reason}. Its trace is in the server's log; please report it."
            )
            run.record(RunFinished(status="failed", answer=answer, reason=reason))
        finally:
            if not run.finished:
                if run._scope.cancel_called and not run.stopping:
                    run.record(cancelled(run.state, "cancelled"))
                else:
                    run.interrupt()
            if not self._tasks.cancel_scope.cancel_called:
                self._tasks.start_soon(self.journal.prune)

    async def _follow(self, run: Run, seen: int) -> None:
        """Take in what another server records of a run that it drives."""
        while not run.finished:
            await anyio.sleep(FOLLOW_SECONDS)
            try:
                status = await self.journal.status(run.id)
                entries = await self.journal.entries(run.id, seen)
            except RequestError:  # it cannot be read any more
                status, entries = None, []
            seen += len(entries)
            run.add(*(entry.event for entry in entries if entry.kind == "event"))
            if status in ("interrupted", None) and not entries:
                run.interrupted = True
                run.add()

    async def _of_key(self, caller: str, request_key: str) -> str | None:
        for run in self._runs.values():
            if (run.caller, run.request_key) == (caller, request_key):
                return run.id
        if self.journal.problem:
            return None
        return await self.journal.find_key(caller, request_key)

    async def _same(self, run_id: str, caller: str, request: RunRequest, request_key: str) -> Run:
        run = await self.get(run_id, caller)
        if run.request != request:
            raise RequestError(
                f'request_key "{request_key}" belongs to run {run_id}, which asks something else. '
                "Give each request a key of its own."
            )
        return await self.resume(run_id, caller)

    def _hold_bounds(self) -> None:
        limits = self.journal.settings
        unfinished = sum(not run.finished for run in self._runs.values())
        if unfinished >= limits.concurrent + limits.queue:
            seconds = max(1, math.ceil(self._usual_seconds / limits.concurrent))
            raise Busy(
                f"Busy: {limits.concurrent} runs are under way and "
                f"{unfinished - limits.concurrent} wait for their turn. "
                f"Try again in {seconds} s.",
                seconds,
            )

    def _forget_oldest(self) -> None:
        finished = [run_id for run_id, run in self._runs.items() if run.finished]
        for run_id in finished[: max(0, len(finished) - RUNS_KEPT)]:
            del self._runs[run_id]


def cancelled(state: RunState, why: str) -> RunFinished:
    """The end of a run that was ended from outside."""
    found = "; ".join(step.notes for step in state.completed_steps if step.notes)
    answer = f"Cancelled. Found so far: {found}" if found else "Cancelled."
    return RunFinished(status="cancelled", answer=answer, reason=why)


def _spans(run: Run, models: Models) -> Spans:
    return Spans(run.id, {each.name: each.provider for each in models.distinct})


def _made(models: Models) -> Made:
    return Made(
        planloom=version("planloom"),
        fast=models.fast.name,
        full=models.full.name,
        context_tokens=(models.fast.context_tokens, models.full.context_tokens),
        argument_route=models.argument_route,
    )


def _check_made(recorded: Recorded, now: Made) -> None:
    """Raises `RequestError` for a run that was begun with other models."""
    was = recorded.made
    if was.model_copy(update={"planloom": now.planloom}) != now:
        raise RequestError(
            f"Run {recorded.id} was begun with {_models(was)}; this server has {_models(now)}. "
            "Resume it with those, or ask anew."
        )


def _models(made: Made) -> str:
    return (
        f"{made.fast} and {made.full} (num_ctx {made.context_tokens[1]}, argument route "
        f"{made.argument_route})"
    )


def _parted(before: str, what: str) -> str:
    other = f", made by planloom {before}," if before != version("planloom") else ""
    return f"the record of the run{other} cannot be followed to its end: {what}"
