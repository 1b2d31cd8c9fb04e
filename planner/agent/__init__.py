"""The agent: `run` is its loop. It knows nothing of MCP servers: tools come as a `ToolPool`."""

from planner.agent.ending import cut_short
from planner.agent.loop import check, run

__all__ = ["check", "cut_short", "run"]
