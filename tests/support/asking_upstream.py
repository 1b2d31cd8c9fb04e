"""An MCP server that asks, logs, reports and wants to be told things, of either protocol era."""

from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.server.middleware import Middleware
from mcp import MCPError
from mcp_types import (
    METHOD_NOT_FOUND,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

READS = ToolAnnotations(read_only_hint=True)


class Legacy(Middleware):
    """A server of 2025-11-25, which knows no `server/discover`."""

    async def on_discover(self, context: Any, call_next: Any) -> Any:
        raise MCPError(code=METHOD_NOT_FOUND, message="Method not found")


def build_server(got: list[Any], *, legacy: bool) -> FastMCP:
    """`got` gets what the server was answered."""
    mcp = FastMCP("asker", version="1", middleware=[Legacy()] if legacy else [])

    async def told(ctx: Context, request: InputRequest) -> Any:
        """The answer to a request, or the result that asks for it."""
        if ctx.request_context and ctx.request_context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            if ctx.input_responses is None:
                return InputRequiredResult(input_requests={"it": request}, request_state="mine")
            return ctx.input_responses["it"]
        session = ctx.session
        match request:
            case ElicitRequest(params=ElicitRequestFormParams() as form):
                return await session.elicit_form(
                    form.message, form.requested_schema, ctx.request_id
                )
            case ElicitRequest(params=ElicitRequestURLParams() as page):
                return await session.elicit_url(page.message, page.url, "1", ctx.request_id)
            case CreateMessageRequest(params=params):
                return await session.create_message(params.messages, max_tokens=9)
        return await session.list_roots()

    @mcp.tool(annotations=READS)
    async def ask(
        ctx: Context, message: str, form: dict[str, Any], echo: bool = False
    ) -> str | InputRequiredResult:
        """Ask the user to fill in a form."""
        params = ElicitRequestFormParams(message=message, requested_schema=form)
        answer = await told(ctx, ElicitRequest(params=params))
        if isinstance(answer, InputRequiredResult):
            return answer
        got.append((answer.action, answer.content))
        return f"It was {answer.content}" if echo else f"The user said {answer.action}"

    @mcp.tool(annotations=READS)
    async def open_page(ctx: Context, url: str) -> str | InputRequiredResult:
        """Have the user open a page."""
        params = ElicitRequestURLParams(message="Please log in", url=url, elicitation_id="1")
        answer = await told(ctx, ElicitRequest(params=params))
        if isinstance(answer, InputRequiredResult):
            return answer
        got.append((answer.action, answer.content))
        return f"The user said {answer.action}"

    @mcp.tool(annotations=READS)
    async def nag(ctx: Context, form: dict[str, Any]) -> str | InputRequiredResult:
        """Ask again and again."""
        request = ElicitRequest(params=ElicitRequestFormParams(message="?", requested_schema=form))
        if legacy:
            got.extend([(await told(ctx, request)).action for _ in range(12)])
            return "That will do"
        return InputRequiredResult(input_requests={"it": request}, request_state="more")

    @mcp.tool(annotations=READS)
    async def sample(ctx: Context) -> str | InputRequiredResult:
        """Have a model write something."""
        text = TextContent(type="text", text="Write")
        params = CreateMessageRequestParams(
            messages=[SamplingMessage(role="user", content=text)], max_tokens=9
        )
        answer = await told(ctx, CreateMessageRequest(params=params))
        return answer if isinstance(answer, InputRequiredResult) else str(answer)

    @mcp.tool(annotations=READS)
    async def folders(ctx: Context) -> str | InputRequiredResult:
        """The folders it may work in."""
        answer = await told(ctx, ListRootsRequest())
        if isinstance(answer, InputRequiredResult):
            return answer
        got.append(sorted(str(root.uri) for root in answer.roots))
        return "\n".join(got[-1]) or "none"

    @mcp.tool(annotations=READS)
    async def work(ctx: Context, words: str) -> str:
        """Do something that takes a while."""
        for number in range(50):
            await ctx.report_progress(number, 50, f"step {number} {words}")
        for number in range(50):
            await ctx.log(f"log {number} {words}", "warning", "worker")
        await ctx.debug("for nobody")
        return "worked"

    return mcp
