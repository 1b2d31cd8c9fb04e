"""The folders that a caller works in (MCP roots), asked of its client."""

import json
from contextlib import suppress

from fastmcp import Context
from mcp import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import InputRequiredResult, ListRootsRequest, ListRootsResult
from pydantic import ValidationError

from server.mcp.context import is_modern
from server.upstreams.roots import paths

ASK_SECONDS = 5.0
"""How long a client is waited for that says it has roots."""
ANSWER = "roots"
"""The key of the question in an `InputRequiredResult`, and of its answer."""


async def client_roots(ctx: Context) -> InputRequiredResult | tuple[str, ...] | None:
    """The folders that the caller works in; None if unknown. In a call of 2026-07-28, first the
    result that asks for them."""
    declared = ctx.session.client_capabilities
    if declared is None or declared.roots is None:
        return None
    if is_modern(ctx):
        if ctx.request_state is None:
            return InputRequiredResult(
                input_requests={ANSWER: ListRootsRequest()}, request_state=json.dumps({})
            )
        answer = (ctx.input_responses or {}).get(ANSWER)
        return paths(answer) if isinstance(answer, ListRootsResult) else None
    with suppress(MCPError, ValidationError):
        return paths(
            await ctx.session.send_request(
                ListRootsRequest(),
                ListRootsResult,
                ASK_SECONDS,
                ServerMessageMetadata(related_request_id=ctx.request_id),
            )
        )
    return None
