"""The pool as clients and the terminal see it."""

from pydantic import BaseModel, Field

from planner.tools import Policy, Safety, UpstreamStatus
from server.text import counted, flat, indented, shortened
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
    lines = []
    if found.problem:
        lines += [
            "### The newest changes of the operator's file are not in effect",
            "",
            found.problem,
            "",
        ]
    lines += ["### Upstreams", ""]
    for upstream in found.upstreams:
        count = counted(upstream.tools, "tool")
        state = f"ready, {count}" if upstream.state == "ready" else upstream.state
        new = f", {upstream.first_seen} new and pinned" if upstream.first_seen else ""
        why = f": {indented(upstream.error, 2)}" if upstream.error else ""
        lines.append(f"- {upstream.name}: {state}{new}{why}")
    lines.append("" if found.upstreams else "(none)\n")
    held = [f"- {up.name}.{each}" for up in found.upstreams for each in up.held]
    if held:
        lines += ["### Held back until you consent: planloom tools --accept NAME", "", *held, ""]
    unreadable = [f"- {up.name}: {each}" for up in found.upstreams for each in up.unreadable]
    if unreadable:
        lines += ["### Left out, because they are not valid tools", "", *unreadable, ""]
    if found.shadowed:
        lines += ["### Names that look the same", "", *(f"- {each}" for each in found.shadowed), ""]
    lines += ["### Tools", ""]
    for tool in found.tools:
        short = shortened(flat(tool.description), MAX_DESCRIPTION)
        safety = tool.safety.replace("_", "-")
        if tool.safety is not Safety.READ_ONLY:
            safety += f", policy {tool.policy}"
        lines.append(
            f"- {tool.name} ({tool.upstream}, {safety}, priority {tool.priority}): {short}"
        )
    return inert("\n".join(lines if found.tools else [*lines, "(none)"]))
