"""The call of an MCP client: the engine and the runs it reaches, and what the client can do."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from fastmcp import Context
from fastmcp.exceptions import FastMCPError
from fastmcp.server.dependencies import get_context
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID
from mcp_types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least

from planner.errors import PlanloomError, RequestError
from server.auth import caller
from server.runs.engine import Engine
from server.runs.run import Run

T = TypeVar("T")
FIRST_WITH_LINKS = "2025-06-18"
"""The first protocol whose clients know links in results."""


def engine_of(ctx: Context) -> Engine:
    engine: Engine = ctx.lifespan_context["engine"]
    return engine


@contextmanager
def errors_as(kind: type[FastMCPError]) -> Iterator[None]:
    """Raise our own errors as those that FastMCP passes on, and does not log as faults."""
    try:
        yield
    except PlanloomError as error:
        raise kind(str(error), log_level=logging.DEBUG) from None


async def callers_run(ctx: Context, run_id: str, errors: type[FastMCPError]) -> Run:
    """The caller's run. `errors`: what is raised; outside of tools a `ValidationError`, because
    others reach the client as faults of the server."""
    with errors_as(errors):
        return await engine_of(ctx).get(run_id, caller())


def numbered(what: str, items: Sequence[T], number: str) -> T:
    """The item of this number, from 0. Raises `RequestError`."""
    if number.isdecimal() and len(number) < 10 and int(number) < len(items):
        return items[int(number)]
    raise RequestError(f"There is no {what} {number[:10]}: there are {len(items)}, counted from 0.")


def as_task(ctx: Context) -> bool:
    """Whether the client accepts a task as the answer (`server.mcp.tasks`)."""
    declared = ctx.client_extension_settings(TASKS_EXTENSION_ID)
    return declared is not None and is_modern(ctx)


def can_ask(ctx: Context) -> bool:
    """Whether the client declares that it can show forms to the user."""
    declared = ctx.session.client_capabilities
    elicitation = declared.elicitation if declared else None
    # `{}` stands for forms: they were all there was at first.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def is_modern(ctx: Context) -> bool:
    """Whether the call is one of 2026-07-28, whose questions are results."""
    request = ctx.request_context
    return request is not None and request.protocol_version in MODERN_PROTOCOL_VERSIONS


def knows_links() -> bool:
    """Whether the caller's protocol has links; else its client would refuse the result."""
    request = get_context().request_context
    return request is None or is_version_at_least(request.protocol_version, FIRST_WITH_LINKS)
