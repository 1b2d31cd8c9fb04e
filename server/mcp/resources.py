"""Runs as resources, to which results of tools link and which a user picks from a client's menu:
reports, transcripts, whole tool results, and a list of the caller's newest runs."""

import time
from collections.abc import Sequence

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ValidationError
from fastmcp.resources import Resource, ResourceContent, ResourceResult
from fastmcp.server.providers import LocalProvider, Provider
from fastmcp.utilities.versions import VersionSpec
from pydantic import AnyUrl

from server.auth import caller
from server.mcp.context import callers_run, engine_of, errors_as, numbered
from server.mcp.results import MAX_TITLE_CHARS, RESULT, RUN, TRANSCRIPT
from server.runs.run import report_of
from server.text import clean, one_line
from server.views.consent import SHORT_ID
from server.views.report_text import markdown
from server.views.transcript import transcript

MAX_LISTED = 20
"""Runs in a client's list of resources."""


RESOURCES = LocalProvider()


@RESOURCES.resource(RUN, title="Report of a run", mime_type="text/markdown")
async def run_report(run_id: str, ctx: Context) -> ResourceResult:
    """The report of a run, for a reader and as data."""
    found = report_of(await callers_run(ctx, run_id, ValidationError))
    return ResourceResult(
        [
            ResourceContent(markdown(found), mime_type="text/markdown"),
            ResourceContent(found.model_dump_json(), mime_type="application/json"),
        ]
    )


@RESOURCES.resource(TRANSCRIPT, title="Transcript of a run", mime_type="text/markdown")
async def run_transcript(run_id: str, ctx: Context) -> str:
    """What was asked of the models and tools in a run, and what they replied."""
    run = await callers_run(ctx, run_id, ValidationError)
    return transcript(run.id, run.events)


@RESOURCES.resource(RESULT, title="Result of a tool call", mime_type="text/plain")
async def tool_result(run_id: str, iteration: str, ctx: Context) -> str:
    """The whole result of one tool call of a run; iterations count from 0."""
    run = await callers_run(ctx, run_id, ValidationError)
    with errors_as(ValidationError):
        return clean(numbered("iteration", run.state.iterations, iteration).result)


def register(mcp: FastMCP) -> None:
    """Publish the runs as resources, and the newest of them in the list."""
    mcp.add_provider(RESOURCES)
    mcp.add_provider(NewestRuns(mcp))


class NewestRuns(Provider):
    """The caller's newest runs, as they are when a client lists resources."""

    def __init__(self, mcp: FastMCP) -> None:
        super().__init__()
        self._mcp = mcp

    async def _list_resources(self) -> Sequence[Resource]:
        engine = engine_of(Context(self._mcp))
        return [
            Resource(
                uri=AnyUrl(RUN.format(run_id=run.id)),
                name=f"run-{run.id[:SHORT_ID]}",
                title=one_line(run.prompt, MAX_TITLE_CHARS),
                description=f"{run.status}, {_at(run.created)}",
                mime_type="text/markdown",
            )
            for run in await engine.list_runs(MAX_LISTED, [caller()])
        ]

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> None:
        """None: they are read through the template, which has all runs."""


def _at(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
