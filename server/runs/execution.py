"""One run at work: the agent, with models and tools whose results are recorded."""

import logging
import traceback
from collections.abc import Awaitable, Callable, Collection
from importlib.metadata import version

import anyio

from planner import agent
from planner.errors import PlanloomError
from planner.events import RunFinished
from planner.models.base import Models
from server.approval.approval import GuardedPool
from server.journal.records import StoredRun
from server.runs.replay import Tape, TapedInbox, TapedPool, taped_approver, taped_models
from server.runs.run import Run
from server.upstreams.pool import RunPool, UpstreamPool

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 15.0
"""How long a run waits for slow upstreams when another is up; it goes on without them."""
START_SECONDS = 90.0
"""How long it waits when no upstream is up."""


async def execute(
    run: Run,
    models: Models,
    upstreams: UpstreamPool,
    stored: StoredRun | None,
    collect: Callable[[Collection[Run]], Awaitable[None]],
) -> None:
    """Have the agent do the run. `stored`: its record; `collect` carries out letters about it."""
    assert run.writer
    began_waiting, spent = anyio.current_time(), stored.seconds if stored else 0.0
    left = max(0.0, run.request.limits.seconds - spent)
    bounds = min(PATIENCE_SECONDS, left), min(START_SECONDS, left)
    await upstreams.usable(*bounds, run.request.prompt)
    spent += anyio.current_time() - began_waiting
    tools = stored.tools if stored else None
    if tools is None:
        tools = list(upstreams.tools())
        run.writer.save_tools(tools)
    tape = Tape(run.writer, run.record, stored, spent)
    run.clock = tape.clock
    run.models_doing = models.doing
    ours = RunPool(upstreams, run.state, run.open_channel)
    guarded = GuardedPool(ours, run.approvals, upstreams.changed())
    began = stored.began if stored else None
    pool = TapedPool(guarded, tape, tools, began, run.approvals)
    taped = taped_models(models, tape)
    approver = taped_approver(run.approvals, tape)
    inbox = TapedInbox(tape, lambda: run.state.waiting)
    if stored:
        await collect([run])
    try:
        await agent.run(run.request, taped, pool, tape.say, approver, tape.clock, inbox)
    except PlanloomError:
        raise
    except Exception:
        if not (stored and tape.diverged):
            raise
        before = stored.setup.planloom
        other = f", made by planloom {before}," if before != version("planloom") else ""
        reason = f"the record of the run{other} cannot be followed to its end: {tape.diverged}"
        run.record(agent.cut_short(run.state, reason))


def failure(run: Run, error: Exception, upstreams: UpstreamPool) -> RunFinished:
    """The end of a run by a bug in Planloom; the log has the traceback."""
    log.error("run %s\n%s", run.id, upstreams.redact(traceback.format_exc()))
    message = upstreams.redact(f"{type(error).__name__}: {error}")
    reason = f"a fault in Planloom itself ({message})"
    answer = (
        f"The run ended because of {reason}. The server's log has the details; please report it."
    )
    return RunFinished(status="failed", answer=answer, reason=reason)
