"""The runs of all callers; calls, the CLI and tests are views on them. A run is driven here
(`server.runs.driver`), by another server with the same journal (`server.runs.peers`), or by nobody:
then it has ended or was interrupted, and comes from the journal (`server.journal.base`)."""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup

from planner import agent
from planner.errors import RequestError
from planner.events import RunSteered
from planner.models.base import Models
from planner.protocol import RunRequest, SteeredBy
from planner.tools import Policy
from server.config import ApprovalSettings
from server.journal import base
from server.journal.records import Letter, RunSummary
from server.runs.driver import Driver
from server.runs.peers import Peers
from server.runs.run import AT_REQUEST, LOCAL, Run, cancelled
from server.runs.steering import SINGLE_STEPS, next_request, steering_of
from server.upstreams.pool import UpstreamPool
from server.views import consent

MIN_ID_CHARS, WHOLE_ID = 4, 32
"""Characters of an id: how many are needed to name a run, and how many it has."""
WATCHED_SECONDS = 15.0
"""A page counts as open so long after its last request; it makes one every two seconds."""
INTERRUPT_SECONDS = 2.0
"""How long runs may take to end when the server ends: its host kills it soon."""
TAKEN_UP_SECONDS = 900.0
"""How old an interrupted run may be that the same request continues: the project may change."""
MAX_RUNS_SEARCHED = 20
"""Runs that are searched for one that was cut off."""


class Engine:
    """What a caller may do with its runs: start, find, resume, steer and end them. `Driver` has
    those that are driven here, `Peers` those of other servers."""

    def __init__(
        self,
        models: Callable[[], Awaitable[Models]],
        pool: UpstreamPool,
        journal: base.Journal,
        approval: ApprovalSettings,
        tasks: TaskGroup,
    ) -> None:
        """`tasks`: where its runs work; they all stop with it."""
        self.driver = Driver(models, pool, journal, approval, tasks)
        self.pool, self.journal = pool, journal
        self._peers = Peers(journal, tasks)
        self._watched: dict[str, float] = {}
        """When a person last looked at a caller's runs."""
        self._resuming = anyio.Lock()
        self._beginning: WeakValueDictionary[tuple[str, str], anyio.Lock] = WeakValueDictionary()
        """Callers' request keys for which a run is just being started."""

    async def start(
        self,
        request: RunRequest,
        caller: str = LOCAL,
        request_key: str | None = None,
        can_ask: bool = False,
        *,
        taking_up: bool = False,
    ) -> Run:
        """Start a run, or queue it; or continue the run of this `request_key`. `can_ask`: the
        caller can ask a person for approval. `taking_up`: without a key too, continue a run that
        was just cut off and asked the same. Raises `RequestError` for an invalid request or one
        that differs from the key's, `ModelUnavailable`, and `Busy`."""
        agent.check(request)
        can_ask = can_ask or self.watched(caller)
        if not request_key:
            cut_off = await self._cut_off(request, caller, can_ask) if taking_up else None
            return cut_off or await self._start(request, caller, None, can_ask)
        beginning = self._beginning.setdefault((caller, request_key), anyio.Lock())
        async with beginning:  # until the key has its run
            try:
                run_id = await self._of_key(caller, request_key)
                if run_id is None:
                    return await self._start(request, caller, request_key, can_ask)
            except base.KeyUsed as used:  # another server was first
                run_id = used.run_id
            if not self._is_of(request, await self.get(run_id, caller)):
                raise RequestError(
                    f'request_key "{request_key}" belongs to run {run_id}, which asks something '
                    "else. Give each request a key of its own."
                )
            return await self.resume(run_id, caller, can_ask)

    async def _cut_off(self, request: RunRequest, caller: str, can_ask: bool) -> Run | None:
        """Resume the caller's newest run that asks the same on this project and was cut off."""
        for run in list(self.driver.runs.values()):
            if run.caller == caller and run.stopping and self._is_of(request, run):
                await self._wait_until_ended(run, base.LETTER_SECONDS)
        if self.journal.problem:
            return None
        since = time.time() - TAKEN_UP_SECONDS
        wanted = ("interrupted", self.journal.redact(request.prompt), self.driver.project)
        with suppress(RequestError):  # then a new run starts
            for each in await self.journal.list(MAX_RUNS_SEARCHED, [caller]):
                known = (each.status, each.prompt, each.project) == wanted
                if known and each.updated > since:
                    run = await self.get(each.id, caller)
                    if self._is_of(request, run):
                        return await self.resume(run.id, caller, can_ask)
        return None

    async def _start(
        self, request: RunRequest, caller: str, request_key: str | None, can_ask: bool
    ) -> Run:
        permitted = request
        if request.policy is Policy.ASK and not can_ask:
            # The models do not see tools whose calls would all be refused.
            permitted = request.model_copy(update={"policy": Policy.READ_ONLY})
        run = await self.driver.begin(permitted, caller, request_key, can_ask)
        return run if run.driven else await self.get(run.id, caller)

    async def get(self, run_id: str, caller: str = LOCAL) -> Run:
        """The caller's run of this id or unique beginning, on whichever server. Raises
        `RequestError` if there is none, in the same words as for another caller's run."""
        run_id = await self._whole_id(run_id, caller)
        kept = self.driver.runs.get(run_id)
        if kept and kept.caller == caller and not await self._went_on_elsewhere(kept):
            return kept
        if followed := self._followed(run_id, caller):
            return followed
        stored = await self.journal.load(run_id, caller)
        if stored is None:
            named = f' "{run_id}"' if run_id.isalnum() else " of that id"  # it may be logged
            raise RequestError(
                f"There is no run{named}. Run ids come with the report of plan_and_answer; "
                f"ended runs are kept for {self.journal.settings.days:g} days at most."
            )
        if followed := self._followed(run_id, caller):  # since the journal was asked
            return followed
        run = Run.of(stored, self.driver.approval)
        if not run.finished:
            self._peers.follow(run, len(stored.entries))
        return run

    async def _went_on_elsewhere(self, run: Run) -> bool:
        """Whether another server has made another step of a run that has ended here."""
        if not run.finished or run.request.goal not in SINGLE_STEPS or run.writer is None:
            return False
        await run.flush()
        return not run.not_recorded and bool(await self.journal.entries(run.id, run.writer.next))

    def _followed(self, run_id: str, caller: str) -> Run | None:
        """The caller's run, as another server drives it."""
        followed = self._peers.followed.get(run_id)
        return followed if followed and followed.caller == caller else None

    async def _whole_id(self, beginning: str, caller: str) -> str:
        """The id of the caller's run that begins so; else `beginning` unchanged."""
        if not (MIN_ID_CHARS <= len(beginning) < WHOLE_ID and beginning.isalnum()):
            return beginning
        own = [run.id for run in self.driver.runs.values() if run.caller == caller]
        stored = [] if self.journal.problem else await self.journal.ids(beginning, caller)
        found = {*stored, *(each for each in own if each.startswith(beginning))}
        if len(found) > 1:
            raise RequestError(f'Several runs begin with "{beginning}". Give more of the id.')
        return found.pop() if found else beginning

    async def resume(self, run_id: str, caller: str = LOCAL, can_ask: bool = False) -> Run:
        """The run, going on if it was interrupted. `can_ask`: the caller can ask a person for
        approval. Raises `RequestError` when it cannot go on, and `ModelUnavailable`."""
        async with self._resuming:
            run = await self.get(run_id, caller)
            if not run.interrupted:
                return run
            can_ask = can_ask or self.watched(caller)
            return await self.driver.resume(run, can_ask) or await self.get(run.id, caller)

    def watch(self, callers: Sequence[str]) -> None:
        """Note that a person watches these callers' runs in a view that can ask for approval."""
        self._watched |= dict.fromkeys(callers, anyio.current_time())

    def watched(self, caller: str) -> bool:
        return anyio.current_time() - self._watched.get(caller, -math.inf) < WATCHED_SECONDS

    async def attend(self, run: Run) -> None:
        """Note that a client that can ask a person for approval follows the run."""
        known, run.approvals.can_ask = run.approvals.can_ask, True
        if not known and not run.driven and not run.finished:
            with suppress(RequestError):  # then the person is not asked
                await self.journal.post(Letter(run_id=run.id, kind="attend"))

    async def ask_more(self, run_id: str, request: RunRequest, caller: str, can_ask: bool) -> Run:
        """Continue a run of single steps that has ended: with another step (without a prompt, the
        planned one), or with the conclusion from all of them. It keeps its results, and its policy
        unless the request's is stricter. Raises `RequestError`, `ModelUnavailable` and `Busy`."""
        async with self._resuming:
            run = await self.get(run_id, caller)
            can_ask = can_ask or self.watched(caller)
            request = next_request(run, request, can_ask)
            return await self.driver.reopen(run, request, can_ask)

    async def decide(self, run: Run, digest: str, approve: bool, where: str) -> None:
        """Apply a person's answer to the call of this `digest`, which they saw, on any server.
        Raises `RequestError` if the run does not wait for it, or its server ignores the answer."""
        run.approvals.decide_by_hand(digest, approve, where)

        def decided() -> bool:  # the run may wait for the next call by now
            asked = run.state.undecided
            return asked is None or not asked.digest.startswith(digest)

        await self._until(decided, run, base.LETTER_SECONDS)
        if not (decided() or run.finished):
            raise consent.not_taken(run.id, base.LETTER_SECONDS)

    async def cancel(self, run: Run) -> None:
        """End a run and cancel its calls, on any server, unless it has ended. Raises `RequestError`
        when the server that drives it does not end it."""
        await self._end_undriven(run)
        if not run.finished:
            if run.driven:
                run.scope.cancel()
            else:
                await self.journal.post(Letter(run_id=run.id, kind="cancel"))
            await self._wait_until_ended(run, base.LETTER_SECONDS)
            await self._end_undriven(run)  # it was being interrupted
        if not run.driven and not run.finished:
            raise RequestError(
                f"Run {run.id} is driven by another Planloom server, which was asked to end it and "
                f"did not within {base.LETTER_SECONDS:g} s. Look again with get_run, or end that "
                "server."
            )

    async def _end_undriven(self, run: Run) -> None:
        if run.interrupted or not (run.driven or run.finished):
            with anyio.CancelScope(shield=True):  # what is taken over is ended
                if taken := await self.journal.resume(run.id):
                    run.writer, run.interrupted = taken[0], False
                    run.record(cancelled(run.state, AT_REQUEST))
                    await run.flush()

    async def list_runs(self, most: int, callers: Sequence[str]) -> list[RunSummary]:
        """The newest runs of these callers, the newest first; also those that could not be
        recorded. Raises `RequestError` when the journal cannot be read."""
        stored = [] if self.journal.problem else await self.journal.list(most, callers)
        found = {each.id: each for each in stored}
        for run in self.driver.runs.values():
            if run.not_recorded and run.caller in callers:
                prompt = run.request.prompt
                times = run.created, run.now
                found[run.id] = RunSummary(run.id, run.status, *times, prompt, run.project)
        return sorted(found.values(), key=lambda each: -each.created)[:most]

    async def steer(
        self,
        run: Run,
        *,
        hint: str,
        skip: Sequence[int],
        order: Sequence[int],
        by: SteeredBy = "caller",
    ) -> None:
        """Steer a running or interrupted run from its next decision on, on any server. `hint`:
        words for its models. `skip`, `order`: numbers of later steps to leave out, and to do first.
        Raises `RequestError`."""
        steering = steering_of(run, hint, skip, order, by)
        if run.driven and not run.finished:
            run.record(RunSteered(steering=steering))
            await run.flush()
            return
        await self.journal.post(Letter(run_id=run.id, kind="steer", steering=steering))
        if not (run.interrupted or run.queued):
            await self._until(lambda: steering in run.state.steering, run, base.LETTER_SECONDS)

    async def pause(self, run: Run) -> None:
        """Stop a run so that it can be resumed. A run that is not recorded or has not begun ends;
        one that another server drives goes on."""
        if run.driven:
            run.stop()
            await self._wait_until_ended(run, base.LETTER_SECONDS)
        elif not run.events:
            await self.cancel(run)

    async def interrupt_all(self) -> None:
        """Stop every run so that it can be resumed. Callers that wait get its report."""
        self.driver.leave()
        self._peers.leave()
        async with anyio.create_task_group() as tasks:
            for run in self.driver.under_way():
                run.stop()
                tasks.start_soon(self._wait_until_ended, run, INTERRUPT_SECONDS)

    async def _wait_until_ended(self, run: Run, seconds: float) -> None:
        with anyio.CancelScope(shield=True):
            await self._until(lambda: run.finished, run, seconds)

    async def _until(self, holds: Callable[[], bool], run: Run, seconds: float) -> None:
        """Wait until a condition holds and is recorded, or the run has ended."""
        with anyio.move_on_after(seconds):
            while not (holds() or run.finished):
                await run.wait_beyond(len(run.events))
            await run.flush()

    async def _of_key(self, caller: str, request_key: str) -> str | None:
        for run in self.driver.runs.values():
            if (run.caller, run.request_key) == (caller, request_key):
                return run.id
        if self.journal.problem:
            return None
        return await self.journal.find_key(caller, request_key)

    def _is_of(self, request: RunRequest, run: Run) -> bool:
        """Whether this request began the run, where perhaps nobody could be asked."""
        began = run.request
        if (request.policy, began.policy) == (Policy.ASK, Policy.READ_ONLY):
            began = began.model_copy(update={"policy": Policy.ASK})
        redact = self.journal.redact
        return bool(redact(began.model_dump()) == redact(request.model_dump()))
