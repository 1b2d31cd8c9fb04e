"""The result of a call: what a client sees of a run."""

from fastmcp.tools import ToolResult
from mcp_types import ResourceLink, TextContent

from server.mcp import short_report
from server.mcp.context import knows_links
from server.mcp.links import links
from server.runs.run import Run, report_of
from server.text import clean
from server.views import consent
from server.views.report_text import markdown


def result_of(run: Run, iteration: int | None = None, *, whole: bool = False) -> ToolResult:
    """One `iteration` of a run, the whole report, or the short one."""
    found = report_of(run, iteration)
    linked: list[ResourceLink] = []
    if iteration is not None:
        shown = run.state.iterations[iteration]
        waits = shown.asked and not shown.approval and found.status == "running"
        text = consent.whole_call(shown.asked) if shown.asked and waits else clean(shown.result)
        data = short_report.as_data(
            short_report.ShortReport(run_id=found.run_id, status=found.status, result=text)
        )
    elif found.status == "running" and not whole:
        short = short_report.under_way(run, found)
        text, data = short_report.markdown_under_way(short), short_report.as_data(short)
        run.reported_events = len(run.events)
    elif whole:
        text, data = markdown(found), found.model_dump(mode="json")
    else:
        text, data = markdown(found), short_report.as_data(short_report.ended(found))
        linked = links(run.id, run.state, found.evidence) if knows_links() else []
    return ToolResult(
        content=[TextContent(type="text", text=text), *linked],
        structured_content=data,
        is_error=found.status == "failed",
    )
