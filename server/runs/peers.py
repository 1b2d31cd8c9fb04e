"""The other servers that use the same journal. A server follows their runs there, and sends them
the messages of its clients as letters."""

import logging
from collections.abc import Callable, Collection

from anyio.abc import TaskGroup

from planner.errors import RequestError
from planner.events import RunSteered
from server.approval.approval import Question
from server.journal.base import Journal
from server.journal.records import Letter
from server.runs.run import Run

log = logging.getLogger(__name__)

MAX_FAILED_LOOKS = 3
"""In a row, before a followed run counts as lost: the store may have been busy for a moment."""


class Peers:
    """Follows runs that other servers drive."""

    def __init__(self, journal: Journal, tasks: TaskGroup) -> None:
        self._journal, self._tasks = journal, tasks
        self.followed: dict[str, Run] = {}
        """Those that somebody has asked for here."""
        self._leaving = False

    def leave(self) -> None:
        """The server ends: whoever follows a run here has to follow it elsewhere."""
        self._leaving = True
        for run in self.followed.values():
            run.elsewhere = True
            run.add()

    def follow(self, run: Run, known: int) -> None:
        """Add to a run what its server records. `known`: how many entries of it are known."""
        if self._leaving:
            run.elsewhere = True
            return
        self.followed[run.id] = run
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
            if self.followed.get(run.id) is run:
                del self.followed[run.id]

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


class Letters:
    """Reads the letters of other servers about the runs that are driven here."""

    def __init__(
        self, journal: Journal, tasks: TaskGroup, under_way: Callable[[], Collection[Run]]
    ) -> None:
        self._journal, self._tasks, self._under_way = journal, tasks, under_way
        self._reading = False

    def read(self) -> None:
        """Read letters as long as a run is under way."""
        if not self._reading and self._journal.problem is None:
            self._reading = True
            self._tasks.start_soon(self._read)

    async def collect(self, runs: Collection[Run]) -> None:
        """Carry out the letters that have come about these runs."""
        driven = {run.id: run for run in runs}
        try:
            for letter in await self._journal.collect(list(driven)):
                self._carry_out(letter, driven[letter.run_id])
        except RequestError as error:
            log.info("letters: %s", error)  # they are still there the next time

    async def _read(self) -> None:
        while driven := self._under_way():
            await self._journal.wait_for_news("letters")
            for run in driven:
                if run.writer and run.writer.lost:
                    run.stop()
            await self.collect(driven)
        self._reading = False

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
