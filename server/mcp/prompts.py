"""Prompts that a user picks in a client, so that its model uses the tools well, and completion of
their arguments and those of resources; the protocol has none for arguments of tools."""

from contextlib import suppress

import mcp_types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ValidationError
from fastmcp.prompts import Message
from fastmcp.server.providers import LocalProvider

from planner.errors import PlanloomError
from server.auth import caller
from server.mcp.context import callers_run, engine_of
from server.mcp.results import RUN
from server.runs.run import report_of
from server.views.report_text import markdown

MAX_OFFERED = 50
"""Runs that are searched to complete an argument."""

PLAN = """\
Have Planloom answer this: {request}

Call its tool plan_and_answer once, with this request as the prompt, complete in itself: Planloom \
sees nothing else of our conversation, so add what it has to know. Do not search or read files \
yourself in the meantime.
- If the status is "running", call get_run with the run_id until it is not.
- If I say something while it runs, pass it on with steer_run.
- Then tell me the answer, with the places that the evidence names. If the status is "partial" or \
"not_found", say what could not be found out, and do not fill it in from memory.
"""
STEPS = """\
Let us find this out step by step: {request}

You plan, and Planloom makes the steps:
1. Call its tool make_plan with this request as the prompt, and show me the plan in a few lines.
2. Call run_step with the run_id of the plan, once for each step{tool}. Say in the prompt what the \
step should find out, with full names and paths; name the tool and its arguments if you know \
them.
3. After each step tell me in a sentence what it found, and change the plan where that asks for it.
4. When the steps hold the answer, call plan_and_answer with the same run_id and this request as \
the prompt, and tell me its answer with the places that the evidence names.
"""
RUN_TEXT = """\
This is the report of a run of Planloom. Tell me in a few lines what was asked and what was found, \
and what is still open. If its status is "interrupted", offer to go on with it: plan_and_answer \
with the same prompt and run_id {run_id}. If it is "running", get_run follows it.
"""


PROMPTS = LocalProvider()
"""Arguments are described in docstrings: to one that is `Annotated`, FastMCP adds a JSON Schema,
and the client shows that to a person."""


@PROMPTS.prompt(title="Plan and answer")
def plan(request: str) -> str:
    """Have Planloom plan, look things up and answer, in one go.

    Args:
        request: The question or task, in your own words.
    """
    return PLAN.format(request=request)


@PROMPTS.prompt(title="Plan step by step")
def plan_step_by_step(request: str, tool: str = "") -> str:
    """Plan together with your model; Planloom makes each step and the conclusion.

    Args:
        request: The question or task, in your own words.
        tool: A tool to begin with, if you know one.
    """
    begin = f" (begin with the tool {tool})" if tool else ""
    return STEPS.format(request=request, tool=begin)


@PROMPTS.prompt(title="Look at a run")
async def look_at_run(run_id: str, ctx: Context) -> list[Message]:
    """What one of your runs found, and how to go on with it.

    Args:
        run_id: The id of the run; your client may offer those of the newest.
    """
    run = await callers_run(ctx, run_id, ValidationError)
    contents = mcp_types.TextResourceContents(
        uri=RUN.format(run_id=run.id), mime_type="text/markdown", text=markdown(report_of(run))
    )
    report = mcp_types.EmbeddedResource(type="resource", resource=contents)
    return [Message(report), Message(RUN_TEXT.format(run_id=run.id))]


def register(mcp: FastMCP) -> None:
    """Publish the prompts, and complete their arguments and those of the resources."""
    mcp.add_provider(PROMPTS)

    @mcp.completion
    async def complete(
        ref: mcp_types.PromptReference | mcp_types.ResourceTemplateReference,
        argument: mcp_types.CompletionArgument,
        context: mcp_types.CompletionContext | None,
    ) -> list[str]:
        """Runs by id or by words of the request, tools by parts of their names, and requests."""
        ctx = Context(mcp)
        prefix = argument.value.strip().lower()
        with suppress(PlanloomError):  # nothing is completed when the journal cannot be read
            match argument.name:
                case "run_id" | "request":
                    runs = await engine_of(ctx).list_runs(MAX_OFFERED, [caller()])
                    if argument.name == "run_id":
                        return [
                            run.id
                            for run in runs
                            if run.id.startswith(prefix) or prefix in run.prompt.lower()
                        ]
                    asked = dict.fromkeys(run.prompt for run in runs)
                    return [each for each in asked if each.lower().startswith(prefix)]
                case "tool":
                    names = [tool.name for tool in engine_of(ctx).pool.tools()]
                    names = [name for name in names if prefix in name.lower()]
                    return sorted(names, key=lambda name: not name.lower().startswith(prefix))
                case "iteration":
                    run_id = (context.arguments or {}).get("run_id", "") if context else ""
                    run = await engine_of(ctx).get(run_id, caller())
                    numbers = [str(each.number) for each in run.state.iterations]
                    return [number for number in numbers if number.startswith(prefix)]
        return []
