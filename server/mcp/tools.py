"""The tools a client sees. Each is thin: it starts a run, or views one until it may answer."""

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import anyio
from anyio import get_cancelled_exc_class
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import FunctionTool, Tool, ToolResult, tool
from fastmcp.utilities.json_schema import dereference_refs
from mcp_types import InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, Field

from planner.actions import MAX_RESULT_CHARS
from planner.checks import validation
from planner.checks.guards.decisions import not_allowed, unknown_tool
from planner.errors import PlanloomError
from planner.protocol import Goal, Limits, RunRequest
from planner.tools import Policy, strictest
from server.auth import caller
from server.mcp import parameters
from server.mcp.context import as_task, callers_run, can_ask, engine_of, errors_as, numbered
from server.mcp.input_errors import RefusedCall, check_depth
from server.mcp.progress_stream import followed
from server.mcp.results import SHORT_SCHEMA, VIEW, result_of, schema_of
from server.mcp.roots import settle_project
from server.runs.run import Run, report_of
from server.runs.steering import MAX_HINT_CHARS, SINGLE_STEPS
from server.upstreams.listing import PoolListing, listing_markdown, pool_listing
from server.views.report import SteeringReport
from server.views.report_text import what_next

WAIT_SECONDS = 45.0
"""Some hosts end a call at 60 s even if progress is sent."""
LISTING_SECONDS = 20.0
"""How long list_tools waits for upstreams that are starting."""

LIMITS = Limits()
LOOKS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=False, open_world_hint=True
)
CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)
OWN_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
OWN_CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
"""Of tools that concern Planloom's own runs and pool only."""

PLAN_AND_ANSWER = """\
Answer a question about the project in {project}: its code, files and libraries. An agent with \
small local models plans, searches and reads with its own tools, and returns the answer with the \
lines that support it. It changes something only if the prompt asks for it and the user approves \
the call, unless the operator allows changes without asking.
If this call is cut off, for example by a time limit, call it again with the same prompt: the run \
goes on where it stopped.\
"""


class SteeringResult(BaseModel):
    """What was said to a run so far."""

    run_id: str
    status: str
    steering: list[SteeringReport] = Field(
        description="Does not include steering that has not yet reached a run on another server."
    )


@tool(title="Plan and answer", output_schema=SHORT_SCHEMA, meta={"ui": {"resourceUri": VIEW}})
async def plan_and_answer(
    prompt: parameters.Prompt,
    ctx: Context,
    wait_s: parameters.WaitSeconds = WAIT_SECONDS,
    max_iterations: parameters.Iterations = LIMITS.iterations,
    max_seconds: parameters.Seconds = LIMITS.seconds,
    max_model_tokens: parameters.ModelTokens = LIMITS.model_tokens,
    data_schema: parameters.DataSchema = None,
    policy: parameters.RunPolicy = Policy.ASK,
    run_id: parameters.GoesOn = None,
    request_key: parameters.RequestKey = None,
) -> ToolResult | InputRequiredResult:
    limits = Limits(iterations=max_iterations, seconds=max_seconds, model_tokens=max_model_tokens)
    request = RunRequest(prompt=prompt, limits=limits, data_schema=data_schema, policy=policy)
    return await _begin(ctx, request, wait_s, request_key, run_id)


@tool(title="Run one step", output_schema=SHORT_SCHEMA)
async def run_step(
    ctx: Context,
    prompt: parameters.StepPrompt = "",
    tool: Annotated[str | None, "The tool to call (see list_tools); null: let it choose."] = None,
    arguments: Annotated[
        dict[str, Any] | None, "The tool's arguments; null: let the model write them."
    ] = None,
    wait_s: parameters.WaitSeconds = WAIT_SECONDS,
    max_seconds: parameters.Seconds = LIMITS.seconds,
    policy: parameters.RunPolicy = Policy.ASK,
    run_id: parameters.GoesOn = None,
    request_key: parameters.RequestKey = None,
) -> ToolResult | InputRequiredResult:
    """Make one tool call and say what its result means for the prompt, for clients that plan
    the steps themselves. Give the prompt alone, or the tool and its arguments too. With the
    run_id of a step, or of make_plan, the next step is made in the same run; plan_and_answer
    with that run_id concludes from all steps.
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
        raise RefusedCall("arguments: they need a tool. Name the tool to call with them.")
    check_depth(arguments)
    if tool is not None and ctx.request_state is None:
        await _check_call(ctx, request, tool, wait_s)
    return await _begin(ctx, request, wait_s, request_key, run_id)


@tool(title="Make a plan", annotations=LOOKS, output_schema=SHORT_SCHEMA)
async def make_plan(
    prompt: parameters.Prompt,
    ctx: Context,
    wait_s: parameters.WaitSeconds = WAIT_SECONDS,
    max_seconds: parameters.Seconds = LIMITS.seconds,
    request_key: parameters.RequestKey = None,
) -> ToolResult | InputRequiredResult:
    """Look around once and return a plan for the prompt (objective and steps) without running
    it. run_step with its run_id makes the steps.
    """
    limits = Limits(seconds=max_seconds)
    request = RunRequest(prompt=prompt, goal="plan", limits=limits)
    return await _begin(ctx, request, wait_s, request_key)


@tool(title="Follow a run", annotations=OWN_READS, output_schema=SHORT_SCHEMA)
async def get_run(
    run_id: parameters.RunId,
    ctx: Context,
    wait_s: parameters.WaitSeconds = WAIT_SECONDS,
    iteration: Annotated[
        int | None,
        Field(
            description="Return the whole tool result of this iteration instead, or its "
            "whole call while that waits for approval.",
            ge=0,
        ),
    ] = None,
    whole: Annotated[
        bool, "Return the whole report: each action, model call and upstream."
    ] = False,
) -> ToolResult | InputRequiredResult:
    """Wait for the end of a run for up to wait_s seconds and return its report; while it goes
    on, what is new since the last call. Cancelling this call does not stop the run. When the
    run waits for approval, the user is asked. Runs are found after a restart too.
    """
    run = await _answered(ctx) or await callers_run(ctx, run_id, ToolError)
    if iteration is None:
        return await followed(run, engine_of(ctx), ctx, wait_s) or result_of(run, whole=whole)
    with errors_as(ToolError):
        numbered("iteration", run.state.iterations, str(iteration))
    return result_of(run, iteration)


@tool(title="Steer a run", annotations=OWN_CHANGES, output_schema=schema_of(SteeringResult))
async def steer_run(
    run_id: parameters.RunId,
    ctx: Context,
    hint: Annotated[
        str,
        Field(
            description="Words for the run's models, as an addition to the request. Example: "
            "'Look in server/ rather than in tests/.'",
            max_length=MAX_HINT_CHARS,
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
    """Say something to a run that is under way: a hint, steps to skip, another order. It takes
    effect at the run's next decision; get_run shows when. To stop the run use cancel_run.
    """
    run = await callers_run(ctx, run_id, ToolError)
    with errors_as(ToolError):
        await engine_of(ctx).steer(run, hint=hint, skip=skip, order=order)
    found = report_of(run)
    result = SteeringResult(run_id=run.id, status=found.status, steering=found.steering)
    goes_on = what_next(found) if run.interrupted else ""
    said = f"Run `{run.id}` will follow this from its next decision on. {goes_on}".strip()
    return ToolResult(said, result)


@tool(
    title="Cancel a run",
    annotations=OWN_CHANGES.model_copy(update={"idempotent_hint": True}),
    output_schema=SHORT_SCHEMA,
)
async def cancel_run(run_id: parameters.RunId, ctx: Context) -> ToolResult:
    """End a run and return the report of what it found; one that has ended stays as it is."""
    run = await callers_run(ctx, run_id, ToolError)
    with errors_as(ToolError):
        await engine_of(ctx).cancel(run)
    return result_of(run)


@tool(
    title="List the upstreams and their tools",
    annotations=OWN_READS,
    output_schema=schema_of(PoolListing),
)
async def list_tools(ctx: Context) -> ToolResult:
    """The upstream servers with their state, and their tools with safety class and priority."""
    pool = engine_of(ctx).pool
    await pool.ready(LISTING_SECONDS)
    found = pool_listing(pool)
    return ToolResult(listing_markdown(found), found)


@cache
def _tools() -> list[FunctionTool]:
    """Made once, because their schemas take much longer than all else of a server."""
    functions = (plan_and_answer, run_step, make_plan, get_run, steer_run, cancel_run, list_tools)
    for each in (made := [Tool.from_function(function) for function in functions]):
        each.parameters = dereference_refs(each.parameters)
    return made


def register(mcp: FastMCP, changes: bool, project: Path) -> None:
    """Publish the tools on a server whose lifespan yields `engine`."""
    for made in _tools():
        describe(mcp.add_tool(made.model_copy()), changes, project)


def describe(tool: Tool, changes: bool, project: Path) -> None:
    """Say in a tool whether its runs may do more than read, and what they are about."""
    if tool.name in ("plan_and_answer", "run_step"):
        tool.annotations = CHANGES if changes else LOOKS
    if tool.name == "plan_and_answer":
        tool.description = PLAN_AND_ANSWER.format(project=project)


async def _begin(
    ctx: Context,
    request: RunRequest,
    wait_s: float,
    request_key: str | None,
    run_id: str | None = None,
) -> ToolResult | InputRequiredResult:
    """Start a run and view it, or continue: the run whose question the call answers, the one that
    it names, or the caller's run with the same request that was cut off."""
    if run_id is not None and request_key is not None:  # a key would not make a step safe to repeat
        raise RefusedCall(
            "request_key: it names a run that begins, run_id one that has begun. Give one of them."
        )
    with errors_as(ToolError):
        run = await _answered(ctx)
        if run is None:
            if question := await settle_project(ctx):
                return question
            if run_id is None:
                asks = can_ask(ctx)
                engine = engine_of(ctx)
                run = await engine.start(request, caller(), request_key, asks, taking_up=True)
            else:
                run = await _resumed(ctx, run_id, request)
    held = request_key is not None if run_id is None else not run.driven
    return await _attached(run, ctx, wait_s, held=held)


async def _resumed(ctx: Context, run_id: str, request: RunRequest) -> Run:
    """An interrupted run that goes on, or a run of single steps with `request` as the next one."""
    engine = engine_of(ctx)
    goal: Goal = "step" if request.goal == "step" else "conclude"
    asked = ("prompt", "tool", "arguments", "data_schema")
    given = {name: value for name in asked if (value := getattr(request, name)) not in (None, "")}
    run = await engine.get(run_id, caller())
    its = run.state.request or run.request
    redact = engine.journal.redact  # a record has no secrets
    known = {name: redact(getattr(its, name)) for name in given}
    other = [name for name in given if redact(given[name]) != known[name]]
    more = its.goal != goal or bool(other) or (run.finished and goal == "step")
    steps = goal == "step" or run.request.goal in SINGLE_STEPS
    if steps and more and not run.interrupted:
        request = request.model_copy(update={"goal": goal})
        return await engine.ask_more(run_id, request, caller(), can_ask(ctx))
    if other:
        raise RefusedCall(
            f"{other[0]}: run {run_id} has another {other[0]}: "
            f"{json.dumps(known[other[0]], ensure_ascii=False)[:MAX_RESULT_CHARS]}. "
            "Give that one to continue the run, or leave out run_id to start a new run."
        )
    return await engine.resume(run_id, caller(), can_ask(ctx))


async def _attached(
    run: Run, ctx: Context, wait_s: float, *, held: bool
) -> ToolResult | InputRequiredResult:
    """View a run, which stops if the client cancels the call, unless it is `held`. A client that
    accepts tasks gets the run at once and follows the task."""
    if as_task(ctx):
        return result_of(run)
    try:
        return await followed(run, engine_of(ctx), ctx, wait_s) or result_of(run)
    except get_cancelled_exc_class():
        if not held:
            with anyio.CancelScope(shield=True), suppress(PlanloomError):
                await engine_of(ctx).pause(run)
        raise


async def _answered(ctx: Context) -> Run | None:
    """The run whose question this call answers, after it got the answer; None for any other call.
    The SDK has refused a state that is not ours, has expired, or is another call's."""
    if ctx.request_state is None:
        return None
    state = json.loads(ctx.request_state)
    if "run" not in state:  # it asked for the caller's roots
        return None
    run = await callers_run(ctx, state["run"], ToolError)
    with errors_as(ToolError):
        run.approvals.answer(state["question"], state["ticket"], ctx.input_responses)
    return run


async def _check_call(ctx: Context, request: RunRequest, name: str, wait_s: float) -> None:
    """Refuse an impossible call before a run starts. While upstreams start, the run checks it."""
    pool = engine_of(ctx).pool
    tool = pool.find(name)
    if tool is None:
        if not await pool.ready(wait_s):
            return
        tool = pool.find(name)
    if tool is None and (held := pool.held(name)):
        raise RefusedCall(
            f"tool: {held.upstream}.{held}. It is held back until the operator accepts it: "
            f"planloom tools --accept {held.upstream}.{held.tool}"
        )
    if tool is None:
        down = [each.name for each in pool.upstreams() if each.state.needs_attention]
        names = ", ".join(down)
        without = f" The tools of these upstreams are not available: {names}." if down else ""
        asks = request.policy is not Policy.ASK or can_ask(ctx)
        policy = request.policy if asks else Policy.READ_ONLY
        permitted = [each for each in pool.tools() if not_allowed(each, policy) is None]
        raise RefusedCall(f"{unknown_tool(name, permitted)}{without} list_tools shows all.")
    if refusal := not_allowed(tool, request.policy):
        raise RefusedCall(refusal)
    asked = strictest(tool.policy, request.policy) is Policy.ASK
    asks = can_ask(ctx) or engine_of(ctx).watched(caller())
    if asked and not tool.read_only and not asks:
        raise RefusedCall(
            f'The tool "{tool.name}" was refused: its safety class is {tool.safety}, so the user '
            "has to approve the call, and this client cannot ask (it does not declare "
            "elicitation). Open the list of runs in the browser view, or use `planloom ask` on a "
            "terminal."
        )
    arguments = request.arguments
    wrong = None if arguments is None else validation.problem(arguments, tool.input_schema)
    if wrong:
        raise RefusedCall(
            f"arguments: they do not fit {tool.name}: {wrong}. Its input schema: "
            f"{json.dumps(tool.input_schema, ensure_ascii=False)[:MAX_RESULT_CHARS]}"
        )
