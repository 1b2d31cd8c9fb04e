"""The client's side of a session with an upstream: the SDK's, but an invalid tool in a list is left
out alone, and an upstream that asks for what it cannot have gets an error in words."""

import json
import logging
from collections.abc import Mapping
from typing import Any

import mcp_types
from fastmcp import Client
from fastmcp.client.transports import ClientTransport
from fastmcp.client.transports.base import TransportOptions
from mcp import ClientSession, MCPError
from mcp.client.session import ClientRequestContext, ElicitationFnT
from mcp.shared.dispatcher import CallOptions
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from server.text import one_line
from server.upstreams.pins import MAX_TOOLS
from server.upstreams.results import MAX_NAME_CHARS
from server.upstreams.stdio import MAX_MESSAGE_BYTES

NO_SAMPLING = "Sampling is not supported: Planloom does not lend its models."
NO_ROOTS = "Roots are not supported: `upstreams.yaml` does not permit them for this upstream."
NO_QUESTIONS = (
    "Elicitation is not supported: `upstreams.yaml` does not permit it for this upstream."
)
REFUSALS = (NO_SAMPLING, NO_ROOTS, NO_QUESTIONS)
"""The error that an upstream gets which asks for it."""
MAX_REQUESTS = 32
"""Unanswered requests of an upstream. Each of our calls, 16 at a time, may cause one."""

log = logging.getLogger(__name__)


class Dispatcher(JSONRPCDispatcher[TransportContext]):
    """Removes invalid tools from a list, because the SDK would refuse the whole list, but not if
    there is no valid one. A list that is too long over all pages is refused. Only so many requests
    of an upstream are accepted at a time: each is a task until the upstream reads our answer."""

    def __init__(self, *streams: Any) -> None:
        super().__init__(*streams)
        self.unreadable: list[str] = []
        """Why each of those tools is invalid."""
        self._tool_list_chars = self._tools = 0
        """The characters and the tools of the pages of the tool list so far."""
        self._unanswered = 0
        self._warned = False

    async def _dispatch_request(self, *request: Any) -> None:
        if self._unanswered < MAX_REQUESTS:
            self._unanswered += 1
            await super()._dispatch_request(*request)
        elif not self._warned:
            self._warned = True
            log.warning("an upstream sends too many requests at once; not all of them are answered")

    async def _handle_request(self, *request: Any) -> None:
        try:
            await super()._handle_request(*request)
        finally:
            self._unanswered -= 1

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **related: Any,
    ) -> dict[str, Any]:
        result = await super().send_raw_request(method, params, opts, **related)
        if method == "tools/list" and isinstance(listed := result.get("tools"), list):
            self._bound(listed, further="cursor" in (params or {}))
            version = ((opts or {}).get("headers") or {}).get(MCP_PROTOCOL_VERSION_HEADER, "")
            judged = [(tool, unreadable(tool, version)) for tool in listed]
            if readable := [tool for tool, why in judged if why is None]:
                result["tools"] = readable
                self.unreadable += [why for _, why in judged if why is not None]
        return result

    def _bound(self, listed: list[Any], further: bool) -> None:
        """Count a page of the tool list, which may be a `further` one. Raises `MCPError`."""
        self._tool_list_chars = further * self._tool_list_chars + len(json.dumps(listed))
        self._tools = further * self._tools + len(listed)
        if self._tool_list_chars > MAX_MESSAGE_BYTES:
            length = f"{MAX_MESSAGE_BYTES // 2**20} MiB"
        elif self._tools > MAX_TOOLS:
            length = f"{MAX_TOOLS} tools"
        else:
            return
        why = f"its tool list is longer than {length}, with all pages"
        raise MCPError(mcp_types.PARSE_ERROR, why)


def unreadable(tool: Any, version: str) -> str | None:
    """Why a listed tool is invalid by the protocol of this version; None if it is valid."""
    try:
        listing = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [tool]}
        validate_server_result("tools/list", version, listing)
        mcp_types.Tool.model_validate(tool, by_name=False)
    except ValidationError as error:
        problem = error.errors()[0]
        name = tool.get("name") if isinstance(tool, dict) else None
        called = name[:MAX_NAME_CHARS] if isinstance(name, str) else "a tool without a name"
        where = [str(part) for part in problem["loc"] if part not in ("tools", 0)]
        return one_line(": ".join([called, *where, problem["msg"]]))
    return None


class Session(ClientSession):
    def __init__(self, *streams: Any, **options: Any) -> None:
        self.dispatcher = Dispatcher(*streams)
        self._has_roots = options.get("list_roots_callback") is not None
        self._has_person = options.get("elicitation_callback") is not None
        super().__init__(dispatcher=self.dispatcher, **options)

    async def validate_tool_result(self, name: str, result: mcp_types.CallToolResult) -> None:
        """Does nothing: results are read as text, and a schema may block a validator forever."""

    async def dispatch_input_request(
        self, ctx: ClientRequestContext, request: mcp_types.InputRequest
    ) -> mcp_types.InputResponse | mcp_types.ErrorData:
        """Refuses clearly what the upstream may not request."""
        match request:
            case mcp_types.CreateMessageRequest():
                why = NO_SAMPLING
            case mcp_types.ListRootsRequest() if not self._has_roots:
                why = NO_ROOTS
            case mcp_types.ElicitRequest() if not self._has_person:
                why = NO_QUESTIONS
            case _:
                return await super().dispatch_input_request(ctx, request)
        return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=why)


class UpstreamClient(Client[ClientTransport]):
    """A client of an upstream; `ask` answers its questions, None if it may not ask any."""

    # Importing fastmcp_tasks makes every client of the process offer tasks, and
    # neither a time limit nor a cancellation reaches a call that an upstream turns into a task.
    _auto_internal_extensions = False

    def __init__(
        self, transport: ClientTransport, ask: ElicitationFnT | None, **options: Any
    ) -> None:
        super().__init__(transport, **options)
        self._transport_options = TransportOptions(session_class=Session)
        if ask:
            # Not as FastMCP's handler, which makes a class of any schema that comes.
            self._session_kwargs["elicitation_callback"] = ask
