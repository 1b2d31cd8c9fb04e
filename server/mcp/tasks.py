"""A run as a task of the tasks extension (SEP-2663), for clients of 2026-07-28 that accept tasks.

The task is the run, and has its id. So only its caller sees it, it survives what the run survives,
and `get_run` can follow it too. docs/design.md says why FastMCP's own extension is not used.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from fastmcp import Context
from fastmcp.server.dependencies import get_context, get_http_request
from fastmcp.server.extensions import (
    MethodBinding,
    ServerExtension,
    ToolCallContinuation,
    ToolCallOutcome,
)
from fastmcp.tools import ToolResult
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    RequestParams,
    Result,
    TaskStatus,
)
from mcp_types.jsonrpc import HEADER_MISMATCH
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from planner.errors import PlanloomError, RequestError
from server.auth import caller
from server.mcp.context import as_task, can_ask, engine_of
from server.mcp.results import result_of
from server.runs.run import Run
from server.views.progress import message

POLL_MS = 1000
"""How often a client should ask, and so how long a question to its user may wait."""
ACKNOWLEDGED = {"resultType": "complete"}
"""The answer to `tasks/update` and `tasks/cancel`."""
STARTS_RUNS = frozenset({"plan_and_answer", "run_step", "make_plan"})

Requested = ServerRequestContext[Any, Any]


class Task(Result):
    """What a call is answered with that goes on as a task, and `tasks/get`."""

    result_type: Literal["task", "complete"] = "complete"
    task_id: str
    status: TaskStatus
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int
    poll_interval_ms: int = POLL_MS
    result: dict[str, Any] | None = None
    """Of a run that has ended."""
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None
    """The question of a run that waits."""


class TaskParams(RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any]


class Tasks(ServerExtension):
    """The extension, over the engine of the server that it is registered on."""

    identifier = TASKS_EXTENSION_ID

    def methods(self) -> Sequence[MethodBinding]:
        modern = frozenset(MODERN_PROTOCOL_VERSIONS)
        return [
            MethodBinding("tasks/get", TaskParams, self._get, modern),
            MethodBinding("tasks/update", UpdateParams, self._update, modern),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, modern),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, context: Context, call_next: ToolCallContinuation
    ) -> ToolCallOutcome:
        """Answer a call that began or continued a run with its task, unless the run has ended."""
        outcome = await call_next()
        if params.name not in STARTS_RUNS or not as_task(context):
            return outcome
        begun = isinstance(outcome, ToolResult) and (outcome.structured_content or {}).get("run_id")
        if not begun:
            return outcome
        run = await engine_of(context).get(begun, caller())
        if run.finished:
            return outcome
        return Task(**_fields(run, context), result_type="task", status="working")

    async def _get(self, request: Requested, params: TaskParams) -> Task:
        """The task as it is now. An interrupted run goes on, because someone waits for it."""
        context = get_context()
        run = await self._run(request, params)
        if run.interrupted:
            try:
                run = await engine_of(context).resume(run.id, caller(), can_ask(context))
            except PlanloomError as error:
                fault = {"code": INVALID_PARAMS, "message": str(error)}
                fields = _fields(run, context) | {"status_message": str(error)}
                return Task(**fields, status="failed", error=fault)
        await run.flush()  # what a client has seen is not lost
        fields = _fields(run, context)
        if run.finished:
            if run.status == "cancelled":
                return Task(**fields, status="cancelled")
            found = result_of(run)
            result = CallToolResult(
                content=found.content,
                structured_content=found.structured_content,
                is_error=found.is_error,
            )
            return Task(**fields, status="completed", result=_wire(result))
        if can_ask(context):
            await engine_of(context).attend(run)
            if question := run.approvals.question:
                requests = {question.id: _wire(question.request())}
                return Task(**fields, status="input_required", input_requests=requests)
        return Task(**fields, status="working")

    async def _update(self, request: Requested, params: UpdateParams) -> dict[str, str]:
        """An answer to the open question; one to another, or a second one, changes nothing."""
        run = await self._run(request, params)
        question = run.approvals.question
        if question and question.id in params.input_responses:
            try:
                question.answer(ElicitResult.model_validate(params.input_responses[question.id]))
            except ValidationError:
                raise MCPError(
                    INVALID_PARAMS, "inputResponses: an answer is the result of elicitation/create"
                ) from None
        return ACKNOWLEDGED

    async def _cancel(self, request: Requested, params: TaskParams) -> dict[str, str]:
        run = await self._run(request, params)
        try:
            await engine_of(get_context()).cancel(run)
        except RequestError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        return ACKNOWLEDGED

    async def _run(self, request: Requested, params: TaskParams) -> Run:
        """The run of a request about a task, after the checks that the extension asks for."""
        if self.client_settings(request) is None:
            raise MCPError(
                MISSING_REQUIRED_CLIENT_CAPABILITY,
                f"The client did not declare {TASKS_EXTENSION_ID} for this request.",
                {"requiredCapabilities": {"extensions": {TASKS_EXTENSION_ID: {}}}},
            )
        _check_route(params.task_id)
        try:
            return await engine_of(get_context()).get(params.task_id, caller())
        except RequestError as error:
            raise MCPError(INVALID_PARAMS, f"Task not found. {error}") from None


def _fields(run: Run, context: Context) -> dict[str, Any]:
    updated = run.events[-1].at if run.events else run.created
    if run.queued or not run.events:
        doing = run.doing(run.state)
    else:
        doing = message(run.events[-1], run.state)
    return {
        "task_id": run.id,
        "status_message": doing,
        "created_at": _iso(run.created),
        "last_updated_at": _iso(updated),
        "ttl_ms": int(engine_of(context).journal.settings.days * 86_400_000),
    }


def _wire(shape: BaseModel) -> dict[str, Any]:
    return shape.model_dump(by_alias=True, mode="json", exclude_none=True)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _check_route(task_id: str) -> None:
    """The header that a balancer may have routed by has to match the request (SEP-2243)."""
    try:
        named = get_http_request().headers.get(MCP_NAME_HEADER)
    except RuntimeError:
        return  # not over HTTP
    if named is not None and decode_header_value(named) != task_id:
        raise MCPError(HEADER_MISMATCH, f"{MCP_NAME_HEADER} does not name the task of the request")
