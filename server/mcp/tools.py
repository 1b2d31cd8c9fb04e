"""The tools a client sees. Each is thin: it starts a run, or views one until it may answer."""

import json
from contextlib import suppress
from typing import Annotated, Any

import anyio
from anyio import get_cancelled_exc_class
from fastmcp import Context, FastMCP
from fastmcp.apps import AppConfig
from fastmcp.exceptions import ToolError
from fastmcp.tools import ToolResult
from mcp_types import InputRequiredResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from planner.actions import LONGEST_RESULT
from planner.checks import guards, schemas
from planner.errors import PlanloomError
from planner.protocol import Goal, Limits, RunRequest
from planner.tools import Policy, strictest
from server.auth import caller
from server.mcp.context import as_task, can_ask, engine_of
from server.mcp.links import links
from server.mcp.progress_stream import followed
from server.mcp.roots import client_roots
from server.runs.run import Run, report_of
from server.runs.steering import LONGEST_HINT, SINGLE_STEPS
from server.text import clean, counted
from server.upstreams.listing import PoolListing, listing_markdown, pool_listing
from server.upstreams.pool import UpstreamPool
from server.views import consent
from server.views.report import UP, Report, SteeringReport, markdown

WAIT_SECONDS = 45.0
"""Some hosts cut a call at 60 s whatever is sent."""
LISTING_SECONDS = 20.0
"""How long list_tools waits for upstreams that are starting."""

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
        description="The run_id of an interrupted run, to go on with it (the prompt may be left "
        "out, and the run keeps its limits), or of run_step's, to conclude from all its steps.",
        max_length=100,
    ),
]
StepsId = Annotated[
    str | None,
    Field(
        description="The run_id of a step before, or of make_plan: this step goes on with its run "
        "and knows what was found. Of a step that was interrupted: given alone, it is finished.",
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

VIEW = "ui://planloom/view.html"
"""What a host of MCP Apps shows beside an answer (`server.http.web_view`)."""
LIMITS = Limits()
REPORT_SCHEMA = Report.model_json_schema(mode="serialization")
LOOKS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=False, open_world_hint=True
)
CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)


class SteeringResult(BaseModel):
    """What was said to a run so far."""

    run_id: str
    status: str
    steering: list[SteeringReport] = Field(
        description="Without what was left for a run that another server drives."
    )


def register(mcp: FastMCP, changes: bool) -> None:
    """Publish the tools on a server whose lifespan yields `engine` and `pool`; `changes`: its runs
    may do more than read."""

    @mcp.tool(
        title="Plan and answer",
        annotations=CHANGES if changes else LOOKS,
        output_schema=REPORT_SCHEMA,
        app=AppConfig(resource_uri=VIEW),
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
        many searches and file reads of your own: one call, one answer. To plan yourself, use
        run_step, and then this with its run_id for the conclusion.
        """
        limits = Limits(
            iterations=max_iterations, seconds=max_seconds, model_tokens=max_model_tokens
        )
        request = RunRequest(prompt=prompt, limits=limits, data_schema=data_schema, policy=policy)
        if run_id is not None:
            return await _resume(ctx, run_id, request, "conclude", wait_s)
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
        run_id: StepsId = None,
        request_key: RequestKey = None,
    ) -> ToolResult | InputRequiredResult:
        """Make one tool call and say what its result means for the prompt: for when you plan
        yourself. Give the prompt alone, or the tool and its arguments too. Call it again with the
        run_id of its report for the next step, which knows what the steps before found; after
        make_plan with its run_id, where the prompt may be left out for the step that is planned
        next. At last call plan_and_answer with the run_id for the conclusion from all steps.
        """
        request = RunRequest(
            prompt=prompt,
            goal="step",
            tool=tool,
            arguments=arguments,
            limits=Limits(iterations=1, seconds=max_seconds),
            policy=policy,
        )
        if tool is None and arguments is not None:
            raise ToolError("arguments: they need a tool. Name the tool that shall get them.")
        if tool is not None and ctx.request_state is None:
            await _check_call(ctx, request, tool, wait_s)
        if run_id is not None:
            return await _resume(ctx, run_id, request, "step", wait_s)
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
            return await followed(run, engine_of(ctx), ctx, wait_s) or result_of(run)
        if iteration >= len(run.state.iterations):
            count = counted(len(run.state.iterations), "iteration")
            raise ToolError(f"iteration: run {run_id} has {count}, counted from 0.")
        return result_of(run, iteration)

    @mcp.tool(
        title="Steer a run",
        annotations=ToolAnnotations(
            read_only_hint=False,
            destructive_hint=False,
            idempotent_hint=False,
            open_world_hint=False,
        ),
        output_schema=SteeringResult.model_json_schema(mode="serialization"),
    )
    async def steer_run(
        run_id: RunId,
        ctx: Context,
        hint: Annotated[
            str,
            Field(
                description="Words for the run's models, as an addition to the request. Example: "
                "'Look in server/ rather than in tests/.'",
                max_length=LONGEST_HINT,
            ),
        ] = "",
        skip: Annotated[
            list[int],
            Field(description="Later steps not to do: their numbers in the report.", max_length=20),
        ] = [],  # noqa: B006  FastMCP reads it, nobody writes it
        order: Annotated[
            list[int],
            Field(description="Later steps to do first, in this order: numbers.", max_length=20),
        ] = [],  # noqa: B006
    ) -> ToolResult:
        """Say something to a run that is under way (see get_run): a hint, steps to skip, another
        order. It holds from the run's next decision on; the report of get_run says under
        `steering` whether it was taken. To stop the run use cancel_run.
        """
        run = await _run(ctx, run_id)
        try:
            await engine_of(ctx).steer(run, hint=hint, skip=skip, order=order)
        except PlanloomError as error:
            raise ToolError(str(error)) from None
        found = report_of(run)
        result = SteeringResult(run_id=run.id, status=found.status, steering=found.steering)
        said = f"It is said to run `{run.id}`, and holds from its next decision on."
        return ToolResult(
            content=[TextContent(type="text", text=said)],
            structured_content=result.model_dump(mode="json"),
        )

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
        run = await _answered(ctx)
        if run is None:
            pool: UpstreamPool = ctx.lifespan_context["pool"]
            given = await client_roots(ctx) if pool.takes_roots else None
            if isinstance(given, InputRequiredResult):
                return given
            request = request.model_copy(update={"roots": given})
            asks = can_ask(ctx)
            run = await engine_of(ctx).start(request, caller(), request_key, asks)
    except PlanloomError as error:
        raise ToolError(str(error)) from None
    return await _attached(run, ctx, wait_s, held=request_key is not None)


async def _resume(
    ctx: Context, run_id: str, request: RunRequest, goal: Goal, wait_s: float
) -> ToolResult | InputRequiredResult:
    """Go on with a run and view it: where it was interrupted, or, a run of single steps that has
    done what was asked, with the `request` as its next `goal`."""
    engine = engine_of(ctx)
    asked = ("prompt", "tool", "arguments", "data_schema")
    given = {name: value for name in asked if (value := getattr(request, name)) not in (None, "")}
    try:
        run = await _answered(ctx)
        if run is None:
            run = await engine.get(run_id, caller())
            its = run.state.request or run.request
            other = [name for name, value in given.items() if value != getattr(its, name)]
            more = its.goal != goal or bool(other) or (run.finished and goal == "step")
            if run.request.goal in SINGLE_STEPS and more and not run.interrupted:
                request = request.model_copy(update={"goal": goal})
                run = await engine.ask_more(run_id, request, caller(), can_ask(ctx))
            elif other:
                raise ToolError(
                    f"{other[0]}: run {run_id} was begun with another. Leave it out to resume the "
                    "run, or leave run_id out to start one."
                )
            else:
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
        return await followed(run, engine_of(ctx), ctx, wait_s) or result_of(run)
    except get_cancelled_exc_class():
        if not held:
            engine = engine_of(ctx)
            with anyio.CancelScope(shield=True), suppress(PlanloomError):
                # What the steps before found is not thrown away with the one that is given up.
                single = run.driven and len(run.state.parts) > 1
                await (engine.pause(run) if single else engine.cancel(run))
        raise


async def _answered(ctx: Context) -> Run | None:
    """The run whose question this call answers, after it got the answer; None for any other call.

    The state is ours: the SDK has unsealed it, and refuses one that is forged, expired, or another
    call's.
    """
    if ctx.request_state is None:
        return None
    state = json.loads(ctx.request_state)
    if "run" not in state:  # it asked for the caller's roots
        return None
    run = await _run(ctx, state["run"])
    try:
        run.approvals.answer(state["question"], state["ticket"], ctx.input_responses)
    except PlanloomError as error:
        raise ToolError(str(error)) from None
    return run


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
    asks = can_ask(ctx) or engine_of(ctx).watched(caller())
    if asked and not tool.read_only and not asks:
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


def result_of(run: Run, iteration: int | None = None) -> ToolResult:
    found = report_of(run, iteration)
    text = markdown(found)
    linked = links(run.id, run.state, found.evidence) if iteration is None else []
    if iteration is not None:
        shown = run.state.iterations[iteration]
        waits = shown.asked and not shown.approval
        text = consent.whole_call(shown.asked) if shown.asked and waits else clean(shown.result)
    return ToolResult(
        content=[TextContent(type="text", text=text), *linked],
        structured_content=found.model_dump(mode="json"),
        is_error=found.status == "failed",
    )
