"""The pool as clients and the terminal see it."""

from pydantic import BaseModel, Field

from planner.text import counted, flat, indented, shortened
from planner.tools import Policy, Safety, UpstreamState, UpstreamStatus
from server.upstreams.pool import UpstreamPool
from server.views.inert import inert

MAX_DESCRIPTION = 120
"""Characters shown of a tool's description."""


class ToolListing(BaseModel):
    """One tool of the pool."""

    name: str
    upstream: str
    safety: Safety = Field(description="Only read_only tools run by themselves.")
    policy: Policy = Field(description="The most that is permitted if it is not read_only.")
    priority: int
    description: str


class UpstreamListing(UpstreamStatus):
    """One upstream server and whether it is up."""

    first_seen: int = Field(description="The number of tools that were new and were pinned.")


class PoolListing(BaseModel):
    """The pool of tools that the planner works with."""

    problem: str | None = Field(
        description="Why the newest changes of the operator's file are not in effect."
    )
    upstreams: list[UpstreamListing]
    tools: list[ToolListing]
    shadowed: list[str] = Field(description="Names that tools of several upstreams have.")


def pool_listing(pool: UpstreamPool) -> PoolListing:
    return PoolListing(
        problem=pool.problem,
        upstreams=[
            UpstreamListing(**each.model_dump(), first_seen=pool.first_seen.get(each.name, 0))
            for each in pool.upstreams()
        ],
        tools=[ToolListing.model_validate(tool, from_attributes=True) for tool in pool.tools()],
        shadowed=pool.shadowed,
    )


def listing_markdown(found: PoolListing) -> str:
    held = [f"- {up.name}.{each}" for up in found.upstreams for each in up.held]
    unreadable = [f"- {up.name}: {each}" for up in found.upstreams for each in up.unreadable]
    lines = [
        *_section(
            "The newest changes of the operator's file are not in effect",
            [found.problem] if found.problem else [],
        ),
        *_section("Upstreams", [_upstream(each) for each in found.upstreams] or ["(none)"]),
        *_section("Held back until you consent: planloom tools --accept NAME", held),
        *_section("Left out, because they are not valid tools", unreadable),
        *_section("Names that look the same", [f"- {each}" for each in found.shadowed]),
        *_section("Tools", [_tool(each) for each in found.tools] or ["(none)"]),
    ]
    return inert("\n".join(lines[:-1]))


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"### {title}", "", *lines, ""] if lines else []


def _upstream(upstream: UpstreamListing) -> str:
    count = counted(upstream.tools, "tool")
    state = f"ready, {count}" if upstream.state is UpstreamState.READY else upstream.state
    new = f", {upstream.first_seen} new and pinned" if upstream.first_seen else ""
    why = f": {indented(upstream.error, 2)}" if upstream.error else ""
    return f"- {upstream.name}: {state}{new}{why}"


def _tool(tool: ToolListing) -> str:
    short = shortened(flat(tool.description), MAX_DESCRIPTION)
    safety = tool.safety.replace("_", "-")
    if tool.safety is not Safety.READ_ONLY:
        safety += f", policy {tool.policy}"
    return f"- {tool.name} ({tool.upstream}, {safety}, priority {tool.priority}): {short}"
