"""The runs in progress. A run belongs to the server; calls, the CLI and tests are views on it."""

import logging
import math
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Self

import anyio
from anyio.abc import TaskGroup

from planner import agent, warming
from planner.errors import Busy, PlanloomError, RequestError
from planner.events import Event, RunFinished
from planner.models import Models
from planner.protocol import RunRequest
from planner.state import RunState
from planner.tools import Policy
from server.approval import Approvals, GuardedPool
from server.config import ApprovalSettings, RunSettings
from server.telemetry import Spans
from server.upstreams import UpstreamPool

log = logging.getLogger(__name__)

RUNS_KEPT = 200
"""Finished runs that can still be asked for; the oldest go first."""
START_SECONDS = 90.0
"""How long a run waits for slow upstreams before it goes on without them."""
CANCEL_SECONDS = 5.0
"""How long `cancel` waits for a run to let go of its model call and its tool call."""
USUAL_SECONDS = 30.0
"""What a run takes, as long as none has ended."""


class Run:
    """One run: its events so far, and their fold."""

    def __init__(
        self,
        request: RunRequest,
        providers: Mapping[str, str],
        approval: ApprovalSettings,
        can_ask: bool,
    ) -> None:
        self.id = uuid.uuid4().hex[:12]
        self.request = request
        self.created = time.time()
        self.events: list[Event] = []
        self.state = RunState()
        self._spans = Spans(self.id, providers)
        self.approvals = Approvals(self.id, request, self.state, approval.timeout_s, can_ask)
        self.queued = True
        """Whether it still waits for its turn."""
        self._changed = anyio.Event()
        self._scope = anyio.CancelScope()

    @property
    def finished(self) -> bool:
        return self.state.status != "running"

    def record(self, event: Event) -> None:
        """Append an event. Never waits, so no follower can hold the run up."""
        self.events.append(event)
        self.state.apply(event)
        self._spans.record(event)
        self._changed.set()
        self._changed = anyio.Event()

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
        approval: ApprovalSettings,
        settings: RunSettings,
        tasks: TaskGroup,
    ) -> None:
        self._models = models
        self._approval = approval
        self.pool = pool
        self._settings = settings
        self._turns = anyio.CapacityLimiter(settings.concurrent)
        self._usual_seconds = USUAL_SECONDS
        self._tasks = tasks
        self._runs: dict[str, Run] = {}

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        models: Callable[[], Awaitable[Models]],
        pool: UpstreamPool,
        approval: ApprovalSettings,
        settings: RunSettings,
    ) -> AsyncIterator[Self]:
        """An engine whose runs all end with this scope."""
        tasks = await anyio.create_task_group().__aenter__()
        try:
            yield cls(models, pool, approval, settings, tasks)
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

    async def start(self, request: RunRequest, can_ask: bool = False) -> Run:
        """Start a run, or put it at the end of the queue; `can_ask`: its caller can ask a person
        for approval. Raises `RequestError` for one that cannot be, `ModelUnavailable` when there is
        no model to run it with, and `Busy`."""
        agent.check(request)
        models = await self._models()
        self._hold_bounds()
        if request.policy is Policy.ASK and not can_ask:
            # The models are not shown what every call of would be refused.
            request = request.model_copy(update={"policy": Policy.READ_ONLY})
        providers = {each.name: each.provider for each in models.distinct}
        run = Run(request, providers, self._approval, can_ask)
        self._runs[run.id] = run
        self._forget_oldest()
        self._tasks.start_soon(self._drive, run, models)
        return run

    def get(self, run_id: str) -> Run:
        """The run of this id. Raises `RequestError` when there is none (any more)."""
        run = self._runs.get(run_id)
        if run is None:
            raise RequestError(
                f'There is no run "{run_id}". Run ids come with the report of plan_and_answer; the '
                f"last {RUNS_KEPT} runs of this server are kept."
            )
        return run

    async def cancel(self, run: Run) -> None:
        """End a run: its model call and its tool call are cancelled. Fine when it has ended."""
        run._scope.cancel()
        with anyio.move_on_after(CANCEL_SECONDS, shield=True):
            while not run.finished:
                await run.wait_beyond(len(run.events))

    async def cancel_all(self) -> None:
        """End every run."""
        async with anyio.create_task_group() as tasks:
            for run in list(self._runs.values()):
                tasks.start_soon(self.cancel, run)

    async def _drive(self, run: Run, models: Models) -> None:
        try:
            with run._scope:
                async with self._turns:
                    run.queued = False
                    began = anyio.current_time()
                    await self.pool.ready(START_SECONDS)
                    pool = GuardedPool(self.pool, run.approvals)
                    await agent.run(run.request, models, pool, run.record, run.approvals)
                    self._usual_seconds += (anyio.current_time() - began - self._usual_seconds) / 8
        except PlanloomError as error:
            run.record(RunFinished(status="failed", answer=str(error), reason=str(error)))
        except Exception as error:  # the other runs go on
            log.exception("run %s", run.id)
            reason = f"a fault in planloom itself ({type(error).__name__}: {error})"
            answer = (
                f"The run ended by {reason}. Its trace is in the server's log; please report it."
            )
            run.record(RunFinished(status="failed", answer=answer, reason=reason))
        finally:
            if not run.finished:
                found = "; ".join(step.notes for step in run.state.completed_steps if step.notes)
                answer = f"Cancelled. Found so far: {found}" if found else "Cancelled."
                run.record(RunFinished(status="cancelled", answer=answer, reason="cancelled"))

    def _hold_bounds(self) -> None:
        limits = self._settings
        unfinished = sum(not run.finished for run in self._runs.values())
        if unfinished >= limits.concurrent + limits.queue:
            seconds = max(1, math.ceil(self._usual_seconds / limits.concurrent))
            raise Busy(
                f"Busy: {limits.concurrent} runs are under way and "
                f"{unfinished - limits.concurrent} wait for their turn. "
                f"Try again in {seconds} s."
            )

    def _forget_oldest(self) -> None:
        finished = [run_id for run_id, run in self._runs.items() if run.finished]
        for run_id in finished[: max(0, len(finished) - RUNS_KEPT)]:
            del self._runs[run_id]
