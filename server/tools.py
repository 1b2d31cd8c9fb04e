"""The tools a client sees. Each is thin: it starts a run, or views one until it may answer."""

import json
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated, Any

import anyio
from anyio import get_cancelled_exc_class
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ResourceError, ToolError
from fastmcp.resources import ResourceContent, ResourceResult
from fastmcp.tools import ToolResult
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID
from mcp_types import (
    InputRequiredResult,
    ProgressNotification,
    ProgressNotificationParams,
    TextContent,
    ToolAnnotations,
)
from pydantic import BaseModel, Field

from planner import guards, schemas
from planner.actions import LONGEST_RESULT
from planner.errors import PlanloomError
from planner.events import Event
from planner.protocol import Limits, RunRequest
from planner.state import RunState
from planner.tools import Policy, Safety, strictest
from server import approval
from server.access import caller
from server.approval import Question
from server.engine import Engine, Run
from server.progress import HEARTBEAT_SECONDS, heartbeat, message
from server.reports import UP, Report, counted, indented, markdown, report
from server.toolresults import clean
from server.transcript import transcript
from server.upstreams import UpstreamPool

WAIT_SECONDS = 45.0
"""Some hosts cut a call at 60 s whatever is sent."""
BACKLOG = 50
"""Events that a view may lag behind its run; of what is older, a slow client is told nothing."""
SEND_SECONDS = 1.0
"""How long a view waits beyond its time for a client that does not read."""
LISTING_SECONDS = 20.0
"""How long list_tools waits for upstreams that are starting."""
META_EVENT, META_RUN = "planloom/event", "planloom/run_id"
"""The keys in the `_meta` of a progress notification: its event, and the run, so that a client
whose call is cut off finds the run again."""

Prompt = Annotated[
    str,
    Field(
        description="The question or task, complete in itself: this agent sees nothing else of "
        "your conversation. Example: 'In which file and line is parse_url defined?'"
    ),
]
WaitSeconds = Annotated[
    float,
    Field(
        description="Seconds to wait for the answer. After that the report so far comes back with "
        "status 'running' and a run_id for get_run. Keep it under your own time limit.",
        ge=0,
        le=86_400,
    ),
]
Iterations = Annotated[
    int, Field(description="Most tool calls; the last one has to conclude.", ge=1, le=100)
]
Seconds = Annotated[
    float, Field(description="Most seconds of the whole run, waited for or not.", gt=0, le=86_400)
]
ModelTokens = Annotated[
    int, Field(description="Most tokens, prompts and replies of all model calls.", ge=1000)
]
DataSchema = Annotated[
    dict[str, Any] | None,
    Field(
        description="A JSON Schema for the answer: the report then has `data` that fits it, "
        'besides the text. Example: {"type": "object", "properties": {"file": {"type": "string"}, '
        '"line": {"type": "integer"}}, "required": ["file", "line"]}'
    ),
]
RunPolicy = Annotated[
    Policy,
    Field(
        description="read_only: tools that only read. ask: others too, each call after the user "
        "approved it, if your client can ask (elicitation). allow: without asking where the "
        "operator's file permits it."
    ),
]
RunId = Annotated[str, Field(description="The run_id of a report.", max_length=100)]
ResumedId = Annotated[
    str | None,
    Field(
        description="The run_id of an interrupted run to go on with; the prompt may be left out "
        "then, and the run keeps its own limits. What it did is not done again.",
        max_length=100,
    ),
]
RequestKey = Annotated[
    str | None,
    Field(
        description="A name of your own for this request, such as a UUID. The same call with the "
        "same key gives the same run, also after a restart. Cancelling the call leaves it alone.",
        min_length=1,
        max_length=200,
    ),
]

LIMITS = Limits()
REPORT_SCHEMA = Report.model_json_schema(mode="serialization")
LOOKS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=False, open_world_hint=True
)
CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)


class ToolListing(BaseModel):
    """One tool of the pool."""

    name: str
    upstream: str
    safety: Safety = Field(description="Only read_only tools run by themselves.")
    policy: Policy = Field(description="The most that is permitted if it is not read_only.")
    priority: int
    description: str


class UpstreamListing(BaseModel):
    """One upstream server and whether it is up."""

    name: str
    state: str
    tools: int
    error: str | None = Field(description="Why it is not ready, and what to do.")
    held: list[str] = Field(
        description="Tools that are not used until the operator consents, and what has changed."
    )
    first_seen: int = Field(description="So many tools were seen for the first time, and pinned.")


class PoolListing(BaseModel):
    """The pool of tools that the planner works with."""

    problem: str | None = Field(
        description="Why the operator's file is not in force as it stands now."
    )
    upstreams: list[UpstreamListing]
    tools: list[ToolListing]
    shadowed: list[str] = Field(description="Names that tools of several upstreams have.")


def register_resources(mcp: FastMCP) -> None:
    """Publish the runs as resources."""

    @mcp.resource("run://{run_id}", title="Report of a run", mime_type="text/markdown")
    async def run_report(run_id: str, ctx: Context) -> ResourceResult:
        """The report of a run, for a reader and as data."""
        found = report_of(await _resource(ctx, run_id))
        return ResourceResult(
            [
                ResourceContent(markdown(found), mime_type="text/markdown"),
                ResourceContent(found.model_dump_json(), mime_type="application/json"),
            ]
        )

    @mcp.resource(
        "run://{run_id}/transcript", title="Transcript of a run", mime_type="text/markdown"
    )
    async def run_transcript(run_id: str, ctx: Context) -> str:
        """What was asked of the models and tools in a run, and what they replied."""
        run = await _resource(ctx, run_id)
        return transcript(run.id, run.events)


async def _resource(ctx: Context, run_id: str) -> Run:
    try:
        return await engine_of(ctx).get(run_id, caller())
    except PlanloomError as error:
        raise ResourceError(str(error)) from None


def engine_of(ctx: Context) -> Engine:
    engine: Engine = ctx.lifespan_context["engine"]
    return engine


def as_task(ctx: Context) -> bool:
    """Whether the client takes a task for an answer (`server.tasks`)."""
    declared = ctx.client_extension_settings(TASKS_EXTENSION_ID)
    return declared is not None and approval.is_modern(ctx)


def register(mcp: FastMCP, changes: bool) -> None:
    """Publish the tools on a server whose lifespan yields `engine` and `pool`; `changes`: its runs
    may do more than read."""

    @mcp.tool(
        title="Plan and answer",
        annotations=CHANGES if changes else LOOKS,
        output_schema=REPORT_SCHEMA,
    )
    async def plan_and_answer(
        ctx: Context,
        prompt: Prompt = "",
        wait_s: WaitSeconds = WAIT_SECONDS,
        max_iterations: Iterations = LIMITS.iterations,
        max_seconds: Seconds = LIMITS.seconds,
        max_model_tokens: ModelTokens = LIMITS.model_tokens,
        data_schema: DataSchema = None,
        policy: RunPolicy = Policy.ASK,
        run_id: ResumedId = None,
        request_key: RequestKey = None,
    ) -> ToolResult | InputRequiredResult:
        """Answer a question about the project (its code, files, libraries) by planning and running
        tools with small local models; what may change something is done only when the user
        approves it. Returns the answer with the plan, the evidence and the cost. Use it instead of
        many searches and file reads of your own: one call, one answer.
        """
        limits = Limits(
            iterations=max_iterations, seconds=max_seconds, model_tokens=max_model_tokens
        )
        request = RunRequest(prompt=prompt, limits=limits, data_schema=data_schema, policy=policy)
        if run_id is not None:
            return await _resume(ctx, run_id, request, wait_s)
        return await _begin(ctx, request, wait_s, request_key)

    @mcp.tool(
        title="Run one step",
        annotations=CHANGES if changes else LOOKS,
        output_schema=REPORT_SCHEMA,
    )
    async def run_step(
        ctx: Context,
        prompt: Prompt = "",
        tool: Annotated[
            str | None,
            Field(description="The tool to call (see list_tools); null: let it choose."),
        ] = None,
        arguments: Annotated[
            dict[str, Any] | None,
            Field(description="The tool's arguments; null: let the model write them."),
        ] = None,
        wait_s: WaitSeconds = WAIT_SECONDS,
        max_seconds: Seconds = LIMITS.seconds,
        policy: RunPolicy = Policy.ASK,
        run_id: ResumedId = None,
        request_key: RequestKey = None,
    ) -> ToolResult | InputRequiredResult:
        """Make one tool call and say what its result means for the prompt, for a client that plans
        by itself and wants single steps done.
        """
        request = RunRequest(
            prompt=prompt,
            goal="step",
            tool=tool,
            arguments=arguments,
            limits=Limits(iterations=1, seconds=max_seconds),
            policy=policy,
        )
        if run_id is not None:
            return await _resume(ctx, run_id, request, wait_s)
        if tool is None and arguments is not None:
            raise ToolError("arguments: they need a tool. Name the tool that shall get them.")
        if tool is not None and ctx.request_state is None:
            await _check_call(ctx, request, tool, wait_s)
        return await _begin(ctx, request, wait_s, request_key)

    @mcp.tool(
        title="Make a plan",
        annotations=LOOKS,
        output_schema=REPORT_SCHEMA,
    )
    async def make_plan(
        prompt: Prompt,
        ctx: Context,
        wait_s: WaitSeconds = WAIT_SECONDS,
        max_seconds: Seconds = LIMITS.seconds,
        request_key: RequestKey = None,
    ) -> ToolResult | InputRequiredResult:
        """Look around once and return a plan for the prompt (objective and steps) without running
        it.
        """
        limits = Limits(seconds=max_seconds)
        request = RunRequest(prompt=prompt, goal="plan", limits=limits)
        return await _begin(ctx, request, wait_s, request_key)

    @mcp.tool(
        title="Follow a run",
        annotations=ToolAnnotations(
            read_only_hint=True, idempotent_hint=True, open_world_hint=False
        ),
        output_schema=REPORT_SCHEMA,
    )
    async def get_run(
        run_id: RunId,
        ctx: Context,
        wait_s: WaitSeconds = WAIT_SECONDS,
        iteration: Annotated[
            int | None,
            Field(
                description="Of the report: show this one's whole tool result instead, or its "
                "whole call while that waits for approval.",
                ge=0,
            ),
        ] = None,
    ) -> ToolResult | InputRequiredResult:
        """The report of a run: waits for its end for up to wait_s seconds, returns what there is.
        Cancelling this call leaves the run alone. When the run waits for approval, the user is
        asked. Runs are found after a restart too.
        """
        run = await _answered(ctx) or await _run(ctx, run_id)
        if iteration is None:
            return await _view(run, ctx, wait_s) or result_of(run)
        if iteration >= len(run.state.iterations):
            count = counted(len(run.state.iterations), "iteration")
            raise ToolError(f"iteration: run {run_id} has {count}, counted from 0.")
        return result_of(run, iteration)

    @mcp.tool(
        title="Cancel a run",
        annotations=ToolAnnotations(
            read_only_hint=False,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
        output_schema=REPORT_SCHEMA,
    )
    async def cancel_run(run_id: RunId, ctx: Context) -> ToolResult:
        """End a run and return the report of what it found. Fine when it has ended already."""
        run = await _run(ctx, run_id)
        try:
            await engine_of(ctx).cancel(run)
        except PlanloomError as error:
            raise ToolError(str(error)) from None
        return result_of(run)

    @mcp.tool(
        title="List the tools of the pool",
        annotations=ToolAnnotations(
            read_only_hint=True, idempotent_hint=True, open_world_hint=False
        ),
        output_schema=PoolListing.model_json_schema(mode="serialization"),
    )
    async def list_tools(ctx: Context) -> ToolResult:
        """The upstream servers with their state, and their tools with safety class and priority."""
        pool: UpstreamPool = ctx.lifespan_context["pool"]
        await pool.ready(LISTING_SECONDS)
        found = pool_listing(pool)
        return ToolResult(
            content=[TextContent(type="text", text=listing_markdown(found))],
            structured_content=found.model_dump(mode="json"),
        )


async def announce(mcp: FastMCP, changes: bool) -> None:
    """Say from now on whether runs may do more than read."""
    for name in ("plan_and_answer", "run_step"):
        if tool := await mcp.get_tool(name):
            tool.annotations = CHANGES if changes else LOOKS


async def _begin(
    ctx: Context, request: RunRequest, wait_s: float, request_key: str | None
) -> ToolResult | InputRequiredResult:
    """Start a run and view it, or go on with the one whose question the call answers. The client's
    cancel of this call ends the run, unless it gave a key to come back with."""
    try:
        run = await _answered(ctx) or await engine_of(ctx).start(
            request, caller(), request_key, approval.can_ask(ctx)
        )
    except PlanloomError as error:
        raise ToolError(str(error)) from None
    return await _attached(run, ctx, wait_s, held=request_key is not None)


async def _resume(
    ctx: Context, run_id: str, request: RunRequest, wait_s: float
) -> ToolResult | InputRequiredResult:
    """Go on with a run and view it. What else the request says has to be what the run's says."""
    engine = engine_of(ctx)
    try:
        run = await engine.get(run_id, caller())
        for name in ("prompt", "tool", "arguments", "data_schema"):
            given, its = getattr(request, name), getattr(run.request, name)
            if given not in (None, "", its):
                raise ToolError(
                    f"{name}: run {run_id} was begun with another. Leave it out to resume the run, "
                    "or leave run_id out to start one."
                )
        run = await engine.resume(run_id, caller())
    except PlanloomError as error:
        raise ToolError(str(error)) from None
    return await _attached(run, ctx, wait_s, held=not run.driven)


async def _attached(
    run: Run, ctx: Context, wait_s: float, *, held: bool = False
) -> ToolResult | InputRequiredResult:
    """View a run that ends with this call, if the client cancels it, unless it is `held`. A client
    that takes tasks views it by those, and not here."""
    if as_task(ctx):
        return result_of(run)
    try:
        return await _view(run, ctx, wait_s) or result_of(run)
    except get_cancelled_exc_class():
        if not held:
            with anyio.CancelScope(shield=True), suppress(PlanloomError):
                await engine_of(ctx).cancel(run)
        raise


async def _answered(ctx: Context) -> Run | None:
    """The run whose question this call answers, after it got the answer; None for any other call.

    The state is ours: the SDK has unsealed it, and refuses one that is forged, expired, or another
    call's.
    """
    if ctx.request_state is None:
        return None
    state = json.loads(ctx.request_state)
    run = await _run(ctx, state["run"])
    try:
        run.approvals.answer(state["question"], state["ticket"], ctx.input_responses)
    except PlanloomError as error:
        raise ToolError(str(error)) from None
    return run


async def _view(run: Run, ctx: Context, wait_s: float) -> InputRequiredResult | None:
    """Tell the client every event as progress until the run ends or `wait_s` seconds are over.

    A question to a person ends the view as its result, or is asked beside it: `wait_s` does not end
    it as long as the person has it before him. The run's own record is the queue of events, so a
    client that does not read holds up this view only.
    """
    tell = _teller(ctx, run)
    asks = approval.can_ask(ctx)
    if asks:
        await engine_of(ctx).attend(run)
    asked: Question | None = None
    asking, pause = False, anyio.CancelScope()
    required: InputRequiredResult | None = None
    seen = RunState()
    deadline = anyio.current_time() + wait_s
    quiet_since = anyio.current_time()
    told = 0
    deaf = False

    async def tell_in_time(text: str, event: dict[str, Any] | None) -> None:
        nonlocal deaf
        if not deaf:
            late = max(deadline, anyio.current_time()) + SEND_SECONDS
            with anyio.CancelScope(deadline=late) as scope:
                await tell(text, event)
            deaf = scope.cancelled_caught

    async def elicit(question: Question) -> None:
        nonlocal asking
        await question.elicit(ctx)
        asking = False
        pause.cancel()

    async with anyio.create_task_group() as tasks:
        while True:
            known = len(run.events)
            await run.saved()  # what a client was told is not lost
            while told < known:
                event = run.events[told]
                told += 1
                seen.apply(event)
                if len(run.events) - told < BACKLOG:
                    await tell_in_time(message(event, seen), _slim(event))
                quiet_since = anyio.current_time()
            if told < len(run.events):
                continue
            question = run.approvals.question
            if asks and question and question is not asked:
                if approval.is_modern(ctx):
                    required = run.approvals.ask(question)
                    break
                asked, asking = question, True
                tasks.start_soon(elicit, question)
            left = math.inf if asking else deadline - anyio.current_time()
            if run.finished or left <= 0:
                break
            with anyio.move_on_after(min(HEARTBEAT_SECONDS, left)) as pause:
                await run.wait_beyond(told)
                continue
            quiet = anyio.current_time() - quiet_since
            if left > HEARTBEAT_SECONDS <= quiet:
                await tell_in_time(heartbeat(seen, quiet, run.queued), None)
    return required


def _slim(event: Event) -> dict[str, Any]:
    """The event for a notification: long texts are cut, the report has them."""
    slim: dict[str, Any] = _cut(event.model_dump(mode="json"))
    return slim


def _cut(value: Any) -> Any:
    match value:
        case str():
            return value[:LONGEST_RESULT]
        case list():
            return [_cut(item) for item in value]
        case dict():
            return {key: _cut(item) for key, item in value.items()}
        case _:
            return value


def _teller(ctx: Context, run: Run) -> Callable[..., Awaitable[None]]:
    """Sends progress notifications, numbered so that they grow, the event in `_meta`."""
    request = ctx.request_context
    token = (request.meta or {}).get("progressToken") if request else None
    number = 0

    async def tell(text: str, event: dict[str, Any] | None) -> None:
        nonlocal number
        if token is None:
            return
        number += 1
        meta: dict[str, Any] = {META_RUN: run.id}
        await ctx.send_notification(
            ProgressNotification(
                params=ProgressNotificationParams(
                    progress_token=token,
                    progress=float(number),
                    message=text,
                    _meta=meta | {META_EVENT: event} if event else meta,
                )
            )
        )

    return tell


async def _run(ctx: Context, run_id: str) -> Run:
    try:
        return await engine_of(ctx).get(run_id, caller())
    except PlanloomError as error:
        raise ToolError(str(error)) from None


async def _check_call(ctx: Context, request: RunRequest, name: str, wait_s: float) -> None:
    """Refuse a call that cannot be before a run is spent on it. While upstreams still start, that
    is for the run to find out."""
    pool: UpstreamPool = ctx.lifespan_context["pool"]
    tool = pool.find(name)
    if tool is None:
        if not await pool.ready(wait_s):
            return
        tool = pool.find(name)
    if tool is None and (held := pool.held(name)):
        raise ToolError(
            f"tool: {held.upstream}.{held}. So it is not used until the operator consents: "
            f"planloom tools --accept {held.upstream}.{held.tool}"
        )
    if tool is None:
        down = [each.name for each in pool.upstreams() if each.state not in UP]
        without = f" Not available are the tools of: {', '.join(down)}." if down else ""
        raise ToolError(
            f"{guards.unknown_tool(name, list(pool.tools()))}{without} list_tools shows all."
        )
    if refusal := guards.not_allowed(tool, request.policy):
        raise ToolError(refusal)
    asked = strictest(tool.policy, request.policy) is Policy.ASK
    if asked and not tool.read_only and not approval.can_ask(ctx):
        raise ToolError(
            f'The tool "{tool.name}" was refused: its safety class is {tool.safety}, so the user '
            "has to approve the call, and this client cannot ask (it does not declare "
            "elicitation)."
        )
    arguments = request.arguments
    wrong = None if arguments is None else schemas.problem(arguments, tool.input_schema)
    if wrong:
        raise ToolError(
            f"arguments: they do not fit {tool.name}: {wrong}. Its input schema: "
            f"{json.dumps(tool.input_schema, ensure_ascii=False)[:LONGEST_RESULT]}"
        )


def report_of(run: Run, iteration: int | None = None) -> Report:
    return report(
        run.id,
        run.state,
        run.now,
        iteration,
        interrupted=run.interrupted,
        not_recorded=run.not_recorded,
    )


def result_of(run: Run, iteration: int | None = None) -> ToolResult:
    found = report_of(run, iteration)
    text = markdown(found)
    if iteration is not None:
        shown = run.state.iterations[iteration]
        waits = shown.asked and not shown.approval
        text = approval.whole_call(shown.asked) if shown.asked and waits else clean(shown.result)
    return ToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=found.model_dump(mode="json"),
        is_error=found.status == "failed",
    )


def pool_listing(pool: UpstreamPool) -> PoolListing:
    """The pool as it is now."""
    return PoolListing(
        problem=pool.problem,
        upstreams=[
            UpstreamListing(**each.model_dump(), first_seen=pool.first_seen.get(each.name, 0))
            for each in pool.upstreams()
        ],
        tools=[
            ToolListing(
                name=tool.name,
                upstream=tool.upstream,
                safety=tool.safety,
                policy=tool.policy,
                priority=tool.priority,
                description=tool.description,
            )
            for tool in pool.tools()
        ],
        shadowed=pool.shadowed,
    )


def listing_markdown(found: PoolListing) -> str:
    lines = []
    if found.problem:
        lines += ["### The operator's file is not in force as it stands", "", found.problem, ""]
    lines += ["### Upstreams", ""]
    for upstream in found.upstreams:
        count = counted(upstream.tools, "tool")
        state = f"ready, {count}" if upstream.state == "ready" else upstream.state
        new = f", {upstream.first_seen} seen first and pinned" if upstream.first_seen else ""
        why = f": {indented(upstream.error, 2)}" if upstream.error else ""
        lines.append(f"- {upstream.name}: {state}{new}{why}")
    lines.append("" if found.upstreams else "(none)\n")
    held = [f"- {up.name}.{each}" for up in found.upstreams for each in up.held]
    if held:
        lines += ["### Held back until you consent: planloom tools --accept NAME", "", *held, ""]
    if found.shadowed:
        lines += ["### Names that look the same", "", *(f"- {each}" for each in found.shadowed), ""]
    lines += ["### Tools", ""]
    for tool in found.tools:
        flat = " ".join(tool.description.split())
        short = flat if len(flat) <= 120 else flat[:119] + "…"
        safety = tool.safety.replace("_", "-")
        if tool.safety is not Safety.READ_ONLY:
            safety += f", policy {tool.policy}"
        lines.append(
            f"- {tool.name} ({tool.upstream}, {safety}, priority {tool.priority}): {short}"
        )
    return "\n".join(lines if found.tools else [*lines, "(none)"])
