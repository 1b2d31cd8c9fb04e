"""Where a client finds runs and their parts: URIs of resources, and links to large results."""

from collections.abc import Sequence

from mcp_types import ResourceLink

from planner.actions import MAX_RESULT_CHARS, call_in_words
from planner.checks.citations import Evidence
from planner.state import Iteration, RunState
from server.text import clean, one_line

VIEW = "ui://planloom/view.html"
"""The page that a host of MCP Apps shows beside an answer (`server.http.web_view`)."""
RUN = "run://{run_id}"
TRANSCRIPT = "run://{run_id}/transcript"
RESULT = "run://{run_id}/result/{iteration}"
MAX_LINKS = 5
"""In one report; each one is a block in the client's context."""
MAX_TITLE_CHARS = 80


def links(run_id: str, state: RunState, evidence: Sequence[Evidence]) -> list[ResourceLink]:
    """Links to the results that the report shortens: those that support the answer, then the
    newest."""
    cut = [each for each in state.iterations if len(each.result) > MAX_RESULT_CHARS]
    cited = [each.iteration for each in evidence]
    cut.sort(key=lambda each: (each.number not in cited, -each.number))
    return [_link(run_id, each) for each in cut[:MAX_LINKS]]


def _link(run_id: str, iteration: Iteration) -> ResourceLink:
    return ResourceLink(
        type="resource_link",
        uri=RESULT.format(run_id=run_id, iteration=iteration.number),
        name=f"result-{iteration.number}",
        title=one_line(f"{iteration.tool} {call_in_words(iteration)}", MAX_TITLE_CHARS),
        description="The whole result of this tool call, of which the report contains the "
        "beginning.",
        mime_type="text/plain",
        size=len(clean(iteration.result).encode()),
    )
