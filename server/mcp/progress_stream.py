"""A call's view of a run until either ends: its progress, and the questions to the person."""

import json
import math
import warnings
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import anyio
from fastmcp import Context
from mcp import MCPDeprecationWarning
from mcp_types import InputRequiredResult, ProgressNotification, ProgressNotificationParams

from planner.actions import MAX_RESULT_CHARS
from planner.events import Event, RunContinued, UpstreamLogged
from planner.state import RunState
from server.approval.approval import Question
from server.mcp.context import can_ask, is_modern
from server.runs.engine import Engine
from server.runs.run import Run
from server.text import clean, each_text
from server.views.progress import HEARTBEAT_SECONDS, message

# Deprecated with 2026-07-28, and what clients up to 2025-11-25 have for the logs of upstreams.
warnings.filterwarnings("ignore", "The logging capability", MCPDeprecationWarning)

MAX_BACKLOG = 50
"""How many events a view may lag behind its run; a slow client misses the older ones."""
SEND_SECONDS = 1.0
"""How long a view waits for a client that does not read, after its own time is over."""
META_EVENT, META_RUN = "planloom/event", "planloom/run_id"
"""The keys in a progress notification's `_meta`: by the run's id a client finds it again."""


async def followed(
    run: Run, engine: Engine, ctx: Context, wait_s: float
) -> InputRequiredResult | None:
    """Send the client every event as progress until the run ends or `wait_s` seconds are over.
    If a person has to be asked, a modern client gets the question as the result of this call. An
    older client is asked while the call goes on, and `wait_s` does not end the call while the
    question is open. A client that does not read holds up this view only."""
    send_progress = _progress_sender(ctx, run)
    asks = can_ask(ctx)
    if asks:
        await engine.attend(run)
    asked: Question | None = None
    required: InputRequiredResult | None = None
    state = RunState()
    deadline = anyio.current_time() + wait_s
    continued = [number for number, each in enumerate(run.events) if isinstance(each, RunContinued)]
    seen = json.loads(ctx.request_state or "{}").get("seen", 0)  # before the question it answers
    sent, begins = 0, max([run.reported_events, seen, *continued])
    asking = deaf = False

    def time_left() -> float:
        return math.inf if asking else deadline - anyio.current_time()

    async def in_time(send: Callable[..., Awaitable[None]], *what: Any) -> None:
        nonlocal deaf
        if not deaf:
            late = max(deadline, anyio.current_time()) + SEND_SECONDS
            with anyio.CancelScope(deadline=late) as scope:
                await send(*what)
            deaf = scope.cancelled_caught

    async def elicit(question: Question) -> None:
        nonlocal asking
        await question.elicit(ctx)
        asking = False

    async with anyio.create_task_group() as tasks:
        async for events in run.follow(lambda: min(HEARTBEAT_SECONDS, time_left())):
            for event in events:
                sent += 1
                state.apply(event)
                if sent > begins and len(run.events) - sent < MAX_BACKLOG:
                    await in_time(send_progress, message(event, state), _slim(event))
                    if isinstance(event, UpstreamLogged):
                        await in_time(ctx.log, event.text, event.level, event.upstream)
            if sent < len(run.events):
                continue
            question = run.approvals.question
            if asks and question and question is not asked:
                if is_modern(ctx):
                    required = run.approvals.ask(question, sent)
                    break
                asked, asking = question, True
                tasks.start_soon(elicit, question)
            if time_left() <= 0:
                break
            if not events:
                await in_time(send_progress, run.doing(state), None)
    return required


def _slim(event: Event) -> dict[str, Any]:
    """The event for a notification: long texts are cut, the report has them."""
    data = event.model_dump(mode="json")
    slim: dict[str, Any] = each_text(data, lambda text: clean(text[:MAX_RESULT_CHARS]))
    return slim


def _progress_sender(ctx: Context, run: Run) -> Callable[..., Awaitable[None]]:
    """Sends progress notifications with growing numbers, and with the event in `_meta`."""
    request = ctx.request_context
    token = (request.meta or {}).get("progressToken") if request else None
    numbers = count(1)

    async def send(text: str, event: dict[str, Any] | None) -> None:
        if token is None:
            return
        meta: dict[str, Any] = {META_RUN: run.id}
        await ctx.send_notification(
            ProgressNotification(
                params=ProgressNotificationParams(
                    progress_token=token,
                    progress=float(next(numbers)),
                    message=text,
                    _meta=meta | {META_EVENT: event} if event else meta,
                )
            )
        )

    return send
