"""The call of an MCP client: the engine it reaches, and what its client can do."""

from fastmcp import Context
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from server.runs.engine import Engine


def engine_of(ctx: Context) -> Engine:
    engine: Engine = ctx.lifespan_context["engine"]
    return engine


def as_task(ctx: Context) -> bool:
    """Whether the client takes a task for an answer (`server.mcp.tasks`)."""
    declared = ctx.client_extension_settings(TASKS_EXTENSION_ID)
    return declared is not None and is_modern(ctx)


def can_ask(ctx: Context) -> bool:
    """Whether the client says that it shows forms to its person."""
    declared = ctx.session.client_capabilities
    elicitation = declared.elicitation if declared else None
    # `{}` stands for forms: they were all there was at first.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def is_modern(ctx: Context) -> bool:
    """Whether the call is one of 2026-07-28, whose questions are results."""
    request = ctx.request_context
    return request is not None and request.protocol_version in MODERN_PROTOCOL_VERSIONS
