"""The other servers that use the same journal.

Each run is driven by one server. A server that does not drive it follows it in the journal, and
sends the messages of its clients as letters. The servers of a fleet also drive each other's runs:
those that wait for a turn, and those whose server has ended.
"""

import logging
from collections.abc import Collection
from contextlib import suppress
from typing import Protocol

from anyio.abc import TaskGroup

from planner.errors import PlanloomError, RequestError
from planner.events import RunSteered
from server.approval.approval import Question
from server.journal.base import Journal, Letter, RunSetup
from server.runs.run import Run
from server.text import digest

log = logging.getLogger(__name__)

MAX_FAILED_LOOKS = 3
"""In a row, before a followed run counts as lost: the store may have been busy for a moment."""


class OwnRuns(Protocol):
    """The part of `server.runs.engine.Engine` that is needed here, and described there."""

    def under_way(self) -> Collection[Run]: ...

    def has_turn(self) -> bool: ...

    async def take_next(self) -> bool: ...


class Peers:
    """Follows the runs of other servers, and reads their letters about ours."""

    def __init__(self, journal: Journal, tasks: TaskGroup, own: OwnRuns) -> None:
        self._journal = journal
        self._tasks = tasks
        self._own = own
        self._followed: dict[str, Run] = {}
        """Runs that other servers drive, and that somebody has asked for here."""
        self._fleet = ""
        self._reading_letters = False

    # The fleet.

    def join(self, fleet: str) -> None:
        """Take part in a fleet: drive runs that its other servers no longer drive or have no turn
        for."""
        self._fleet = fleet
        self._tasks.start_soon(self._drive_waiting)

    def leave(self) -> None:
        self._fleet = ""

    def fleet_of(self, setup: RunSetup) -> str:
        """The part of the fleet with the same models: only those servers can continue a run."""
        if not self._fleet:
            return ""
        same = setup.model_dump_json(exclude={"planloom", "project"})
        return f"{self._fleet} {digest(same)[:16]}"

    async def waiting(self, fleet: str) -> int:
        """How many runs of the fleet no server drives yet; 0 if the journal cannot be read."""
        if fleet:
            with suppress(RequestError):
                return await self._journal.waiting(fleet)
        return 0

    async def _drive_waiting(self) -> None:
        while self._fleet:
            found = False
            try:
                found = self._own.has_turn() and await self._own.take_next()
            except PlanloomError as error:
                log.warning("fleet %s: %s", self._fleet, error)
            if not found:
                await self._journal.wait_for_news("fleet")

    # Runs that other servers drive.

    def followed(self, run_id: str) -> Run | None:
        return self._followed.get(run_id)

    def follow(self, run: Run, known: int) -> None:
        """Add to a run what its server records. `known`: how many entries of it are known."""
        self._followed[run.id] = run
        self._mirror(run)
        self._tasks.start_soon(self._follow, run, known)

    async def _follow(self, run: Run, known: int) -> None:
        failed = 0
        try:
            while not run.finished:
                await self._journal.wait_for_news(run.id)
                try:
                    status = await self._journal.status(run.id)
                    entries = await self._journal.entries(run.id, known)
                    failed = 0
                except RequestError:
                    if (failed := failed + 1) < MAX_FAILED_LOOKS:
                        continue
                    status, entries = None, []
                if run.finished:  # it was cancelled here meanwhile
                    return
                known += len(entries)
                run.queued = run.queued and not entries
                run.add(*(entry.event for entry in entries if entry.kind == "event"))
                self._mirror(run)
                if status in ("interrupted", None) and not entries:
                    run.interrupted = True
                    run.add()
        finally:
            if question := run.approvals.question:
                question.closed.set()
            del self._followed[run.id]

    def _mirror(self, run: Run) -> None:
        if question := run.approvals.mirror():
            self._tasks.start_soon(self._pass_on, run, question)

    async def _pass_on(self, run: Run, question: Question) -> None:
        """Send the answer of a person here to the run's server."""
        await question.closed.wait()
        answer = question.approval
        if answer and answer.by == "person":  # where no client can ask, another may
            try:
                await self._journal.post(
                    Letter(run_id=run.id, kind="answer", question=question.id, answer=answer)
                )
            except RequestError as error:
                log.warning("an answer was lost, which means no: %s", error)

    # Runs that this server drives.

    def read_letters(self) -> None:
        """Read the letters about this server's runs, as long as it has any."""
        if not self._reading_letters and self._journal.problem is None:
            self._reading_letters = True
            self._tasks.start_soon(self._read_letters)

    async def collect(self, runs: Collection[Run]) -> None:
        """Carry out the letters that have come about these runs."""
        driven = {run.id: run for run in runs}
        try:
            for letter in await self._journal.collect(list(driven)):
                self._carry_out(letter, driven[letter.run_id])
        except RequestError as error:
            log.info("letters: %s", error)  # they are still there the next time

    async def _read_letters(self) -> None:
        while driven := self._own.under_way():
            await self._journal.wait_for_news("letters")
            for run in driven:
                if run.writer and run.writer.lost:
                    run.stop()
            await self.collect(driven)
        self._reading_letters = False

    def _carry_out(self, letter: Letter, run: Run) -> None:
        match letter.kind:
            case "cancel":
                run.scope.cancel()
            case "attend":
                run.approvals.can_ask = True
            case "answer" if letter.answer:
                run.approvals.answered_elsewhere(letter.question, letter.answer)
            case "steer" if letter.steering and not run.finished:
                run.record(RunSteered(steering=letter.steering))
