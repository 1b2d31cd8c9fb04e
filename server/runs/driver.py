"""The runs that this server drives, each in a task of its own when it has a turn. The servers of a
fleet share a journal and drive each other's runs too: those that wait, and those of servers that
have ended."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.metadata import version

import anyio
from anyio.abc import TaskGroup

from planner.agent import warming
from planner.errors import PlanloomError, RequestError
from planner.events import RunContinued, RunFinished, RunResumed
from planner.models.base import Models
from planner.protocol import RunRequest
from planner.tools import Policy
from server.config import ApprovalSettings
from server.journal import base
from server.journal.records import Entry, NewRun, RunSetup, StoredRun
from server.journal.secret_memory import MAX_RUNS_KEPT
from server.runs.execution import START_SECONDS, execute, failure
from server.runs.peers import Letters
from server.runs.run import AT_REQUEST, Run, cancelled
from server.runs.steering import UNDER_WAY
from server.runs.turns import Turns
from server.text import digest
from server.upstreams.pool import UpstreamPool

log = logging.getLogger(__name__)


class Driver:
    """Begins runs, takes them over, and drives them to their end."""

    def __init__(
        self,
        models: Callable[[], Awaitable[Models]],
        pool: UpstreamPool,
        journal: base.Journal,
        approval: ApprovalSettings,
        tasks: TaskGroup,
    ) -> None:
        self._models = models
        self.pool = pool
        self.journal = journal
        self.approval = approval
        self._tasks = tasks
        self._turns = Turns(journal.settings)
        self._letters = Letters(journal, tasks, self.under_way)
        self._fleet = ""
        self._leaving = False
        self._warming: anyio.CancelScope | None = None
        """Of the models, while no run is on; None in a server that does not warm up."""
        self.runs: dict[str, Run] = {}
        """By id: the runs that are driven here, and the last ones that have ended here."""

    async def warm_up(self, warm: Callable[[], Awaitable[Models | None]]) -> None:
        """Load the models while the upstreams start; then read the instructions, before any run."""
        try:
            models = await warm()
            await self.pool.ready(START_SECONDS)
            if models:
                self._warming = anyio.CancelScope()
                if not self.runs:
                    await self._warm(models)
        except PlanloomError as error:
            log.info("warm-up: %s", error)  # the next run reports it

    async def _warm(self, models: Models) -> None:
        """Have the models read the instructions, until a run begins."""
        with anyio.CancelScope() as self._warming:
            try:
                await warming.read_instructions(models, self.pool)
            except PlanloomError as error:
                log.info("warm-up: %s", error)

    async def begin(
        self, request: RunRequest, caller: str, request_key: str | None, can_ask: bool
    ) -> Run:
        """Begin a run, here or, if no turn is free, at any server of the fleet. Raises `KeyUsed`,
        `ModelUnavailable`, and `Busy`."""
        models = await self._models()
        fleet = self._fleet_of(models)
        await self._check_room(caller, fleet)
        elsewhere = bool(fleet) and not self._has_turn() and self.journal.problem is None
        run = Run(request, self.approval, caller, request_key)
        run.project = self.project
        run.approvals.can_ask = can_ask
        if not elsewhere:
            self._own(run)  # before anything is waited for: it takes a turn
        try:
            with anyio.CancelScope(shield=True):  # a run on record is driven
                setup = self._setup(models)
                new = NewRun(run.id, caller, request, setup, request_key, fleet, waits=elsewhere)
                writer = run.writer = await self.journal.begin(new)
        except BaseException:  # whatever it is, the run has no record and gives up its turn
            self.runs.pop(run.id, None)
            raise
        if not elsewhere or writer.problem is not None:
            self._own(run)
            self._go_on(run, models)
        return run

    async def resume(self, run: Run, can_ask: bool) -> Run | None:
        """Go on with an interrupted run; None when another server does. Raises `RequestError` if it
        cannot go on here, and `ModelUnavailable`."""
        models = await self._models()
        before = await self.journal.load(run.id, run.caller)
        assert before  # it was there a moment ago
        self._check_setup(before, models)
        taken = await self.journal.resume(run.id)
        return self._take_over(taken, models, can_ask) if taken else None

    async def reopen(self, run: Run, request: RunRequest, can_ask: bool) -> Run:
        """Go on with a run of single steps that has ended. Raises `RequestError` when it cannot go
        on here, `ModelUnavailable` and `Busy`."""
        models = await self._models()
        fleet = self._fleet_of(models)
        await self._check_room(run.caller, fleet)
        await run.flush()
        before = None if run.not_recorded else await self.journal.load(run.id, run.caller)
        if before is None:
            why = f" {run.not_recorded}" if run.not_recorded else ""
            raise RequestError(f"Run {run.id} cannot go on: it is not recorded.{why}")
        self._check_setup(before, models)
        event = RunContinued(request=request, spent=before.seconds, paused=run.paused)
        taken = await self.journal.reopen(run.id, Entry.of(event, before.seconds), fleet)
        if taken is None:
            raise RequestError(UNDER_WAY.format(run.id))
        return self._take_over(taken, models, can_ask, had_ended=True)

    # The fleet.

    def join(self, fleet: str) -> None:
        """Drive also the runs of a fleet that its other servers left or have no turn for."""
        self._fleet = fleet
        self._tasks.start_soon(self._drive_waiting)

    def leave(self) -> None:
        """The server ends: new runs are left to the rest of the fleet, or interrupted at once."""
        self._leaving = True

    def _fleet_of(self, models: Models) -> str:
        """The part of the fleet with the same models: only those servers can continue a run."""
        if not self._fleet:
            return ""
        same = self._setup(models).model_dump_json(exclude={"planloom", "project", "as_typed"})
        return f"{self._fleet} {digest(same)[:16]}"

    async def _drive_waiting(self) -> None:
        while not self._leaving:
            found = False
            try:
                found = self._has_turn() and await self._take_next()
            except PlanloomError as error:
                log.warning("fleet %s: %s", self._fleet, error)
            if not found:
                await self.journal.wait_for_news("fleet")

    async def _take_next(self) -> bool:
        """Drive the oldest run of the fleet that no server drives; False when there is none."""
        models = await self._models()
        taken = await self.journal.take(self._fleet_of(models))
        if taken is None:
            return False
        # Otherwise its policy would be stricter: see `Engine.start`.
        self._take_over(taken, models, can_ask=taken[1].request.policy is Policy.ASK)
        return True

    # One run, from here to its end.

    def under_way(self) -> list[Run]:
        return [run for run in self.runs.values() if run.under_way]

    def _take_over(
        self, taken: base.TakenOver, models: Models, can_ask: bool, *, had_ended: bool = False
    ) -> Run:
        """Drive a run that nobody drives any more, or yet."""
        writer, stored = taken
        run = Run.of(stored, self.approval)
        run.interrupted, run.writer = False, writer
        self._own(run)
        run.approvals.can_ask = can_ask  # it may come to a question before anybody looks at it
        if stored.entries and not had_ended:
            run.record(RunResumed(paused=run.paused))
        self._go_on(run, models, stored)
        return run

    def _own(self, run: Run) -> None:
        run.driven = True
        self.runs[run.id] = run
        ended = [run_id for run_id, run in self.runs.items() if run.finished]
        for run_id in ended[: max(0, len(ended) - MAX_RUNS_KEPT)]:  # the oldest
            del self.runs[run_id]

    def _go_on(self, run: Run, models: Models, stored: StoredRun | None = None) -> None:
        if self._leaving:
            run.stop()
        if self._warming:
            self._warming.cancel()
        self._tasks.start_soon(self._drive, run, models, stored)
        self._letters.read()

    async def _drive(self, run: Run, models: Models, stored: StoredRun | None) -> None:
        assert run.writer
        try:
            with run.scope:
                run.queued = True
                async with self._turns.turn(run.caller):
                    run.queued = False
                    await execute(run, models, self.pool, stored, self._letters.collect)
        except PlanloomError as error:
            run.record(RunFinished(status="failed", answer=str(error), reason=str(error)))
        except Exception as error:  # noqa: BLE001  the other runs go on
            run.record(failure(run, error, self.pool))
        finally:
            if not run.finished:
                if run.scope.cancel_called and not run.stopping:
                    run.record(cancelled(run.state, AT_REQUEST))
                else:
                    await run.let_go()
            if (run.elsewhere or run.interrupted) and self.runs.get(run.id) is run:
                del self.runs[run.id]  # another server goes on with it, or may
            self.journal.notify("fleet")  # there is a turn
            if not self._tasks.cancel_scope.cancel_called:
                self._tasks.start_soon(self.journal.prune)
                if self._warming and warming.pushes_out(run.state) and not self.under_way():
                    self._tasks.start_soon(self._warm, models)

    def _has_turn(self) -> bool:
        return not self._leaving and self._turns.is_free(self.runs.values())

    def _setup(self, models: Models) -> RunSetup:
        return RunSetup(
            planloom=version("planloom"),
            fast=models.fast.name,
            full=models.full.name,
            context_tokens=(models.fast.context_tokens, models.full.context_tokens),
            project=self.project,
        )

    @property
    def project(self) -> str:
        """The folder of the project, as records have it."""
        return str(self.pool.project)

    def _check_setup(self, stored: StoredRun, models: Models) -> None:
        """Raises `RequestError` for a run of other models, or of another project, whose files it
        needs. The servers of a fleet may have the project in different folders."""
        was, now = stored.setup, self._setup(models)
        if was.project not in ("", now.project) and not self._fleet:
            raise RequestError(
                f"Run {stored.id} works on {was.project}; this server works on {now.project}. "
                "Resume it there, or ask again."
            )
        if (was.fast, was.full, was.context_tokens) != (now.fast, now.full, now.context_tokens):
            raise RequestError(
                f"Run {stored.id} was begun with {_models(was)}; this server has {_models(now)}. "
                "Resume it with those, or ask again."
            )

    async def _check_room(self, caller: str, fleet: str) -> None:
        """Raise `Busy` when the caller can start no run now."""
        waiting = 0
        if fleet:
            with suppress(RequestError):  # the journal cannot be read
                waiting = await self.journal.waiting(fleet)
        self._turns.check_room(caller, self.runs.values(), waiting)


def _models(setup: RunSetup) -> str:
    names = dict.fromkeys((setup.fast, setup.full))
    return f"{' and '.join(names)} (num_ctx {setup.context_tokens[1]})"
