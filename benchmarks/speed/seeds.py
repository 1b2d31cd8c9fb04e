"""The protocol of the first design (`seeds`), as its own texts ask for it."""

import json
from typing import Any

from benchmarks.speed import runs
from benchmarks.speed.designs import (
    CONTEXT_TOKENS,
    SHORTENED,
    Replay,
    Scripted,
    plain_tools,
    seen,
    user,
)
from benchmarks.speed.runs import Call, Run
from benchmarks.speed.server import FAST, FULL, Said, serving
from benchmarks.speed.simulation import ModelServer
from planner.models.ollama import OllamaClient
from planner.tools import ToolSpec

SYSTEM = (
    "You are an AI assistant. You are a skilled developer with deep knowledge of programming "
    "languages, frameworks, and development best practices. If including code snippets, always "
    "start code blocks with the programming language and file name (e.g., "
    "```{language} path/to/file)."
)
SELECT = """\
INFORMATION GATHERING PHASE

User request: "{request}"

Files and folders of the project:
{listing}

Available information-gathering tools:
{tools}

Select the BEST tool to gather relevant information for this request.

Respond: {{"tool": "name"}} or {{"tool": null}}"""
ARGUMENTS = """\
Generate tool arguments from user request.

Tool: {tool}
User request: "{prompt}"

Parameters:
{parameters}

Respond ONLY with JSON: {{"args": {{"param": "value"}}}}"""
PLAN = """\
Available tools:
{tools}

Based on the tool results above, you have two options:

1. If you have enough information to provide a complete answer, respond directly to the user.

2. If you need additional information to provide better assistance, create a plan in JSON format:

{{
  "main_objective": "Brief description of the overall goal",
  "conclusion_from_assistant_data": "What the tool results show",
  "assistant_data_was_helpful": true,
  "next_step": {{
    "objective": "What this step will accomplish",
    "tool": "tool_name",
    "prompt": "Clear instruction for the tool"
  }},
  "later_steps": [
    "Description of the step after the next step",
    "Final step description"
  ]
}}"""
DECIDE = """\
{state}

Available tools:
{tools}

Based on the results above, decide your next action. Tool results are not kept for completed
steps: leave enough detail in notes_to_future_self to use them later.

1. If you have enough information to complete the objective, provide your final conclusion.

2. If the current step needs more tools, answer in JSON format:

{{
  "current_step": {{
    "notes_to_future_self": "What you learned so far",
    "tool": "tool_name",
    "prompt": "Clear instruction for the tool"
  }},
  "later_steps": ["Optional: remaining step descriptions"]
}}

3. If the current step is complete, successfully or not, answer in JSON format:

{{
  "current_step": {{
    "completed": true,
    "success": true,
    "notes_to_future_self": "What you learned from this step"
  }},
  "next_step": {{
    "objective": "What the next step will accomplish",
    "tool": "tool_name",
    "prompt": "Clear instruction for the tool"
  }},
  "later_steps": ["Optional: remaining step descriptions"]
}}

Choose the option that best serves completing the objective."""
"""The first design's texts, with the changes that its notes ask for."""
PLAIN = {"list_dir", "find_file", "get_symbols_overview", "resolve-library-id"}
"""Tools with arguments so plain that the fast model writes them."""


async def seeds(run: Run, *, shortened: bool = False) -> Replay:
    """Separate calls for selection, arguments and decision, each prompt built again from the
    state. Calls are made one by one; the design's state fields are left out."""
    specs = {tool.name: tool for tool in runs.tools()}
    listed = "\n".join(f"- {tool.name}: {tool.description}" for tool in plain_tools())
    server, replies = ModelServer(), list[Said]()
    async with serving(server, lambda _: replies[-1]) as host, OllamaClient(host) as client:
        models = Scripted(client, replies, CONTEXT_TOKENS)

        async def arguments(call: Call, prompt: str) -> None:
            model = FAST if call.tool in PLAIN else FULL
            question = ARGUMENTS.format(
                tool=call.tool, prompt=prompt, parameters=_parameters(specs[call.tool])
            )
            reply = json.dumps({"args": call.arguments})
            await models.ask("arguments", model, [user(question)], reply)

        await models.read(FULL, {"role": "system", "content": SYSTEM})
        server.served.clear()
        question = SELECT.format(request=run.request, listing=run.listing, tools=listed)
        reply = json.dumps({"tool": run.first.tool})
        await models.ask("select", FAST, [user(question)], reply)
        await arguments(run.first, run.request)
        messages = [
            {"role": "system", "content": SYSTEM},
            user(f"{run.request}\n\nFiles and folders of the project:\n{run.listing}"),
            {"role": "assistant", "content": _result(run, run.first, run.request, shortened)},
            user(PLAN.format(tools=listed)),
        ]
        calls = run.calls
        plan = run.answer if len(calls) == 1 else _pretty(_plan(run))
        await models.ask("plan", FULL, messages, plan)
        for number, call in enumerate(calls[1:], start=1):
            await arguments(call, call.prompt)
            state = _pretty(_state(run, call, shortened))
            messages = [
                {"role": "system", "content": SYSTEM},
                user(DECIDE.format(state=state, tools=listed)),
            ]
            last = number == len(calls) - 1
            said = run.answer if last else _pretty(_decision(run, call, calls[number + 1]))
            await models.ask("decide", FULL, messages, said)
    name = f"seeds{SHORTENED if shortened else ''}"
    return Replay(name, len(run.calls), server.served, models.roles)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _parameters(tool: ToolSpec) -> str:
    properties = tool.input_schema.get("properties", {})
    return "\n".join(
        f"- {name} ({schema.get('type', 'any')}): {schema.get('description', '')}"
        for name, schema in properties.items()
    )


def _result(run: Run, call: Call, prompt: str, shortened: bool) -> str:
    return _pretty(_assistant(run, call, prompt, shortened))


def _assistant(run: Run, call: Call, prompt: str, shortened: bool) -> dict[str, Any]:
    results = seen(run, call, shortened)
    return {"tool": call.tool, "prompt": prompt, "args": call.arguments, "results": results}


def _plan(run: Run) -> dict[str, Any]:
    step = run.steps[0]
    return {
        "main_objective": run.main_objective,
        "conclusion_from_assistant_data": run.first.assessment,
        "assistant_data_was_helpful": True,
        "next_step": _next(step.objective, step.calls[0]),
        "later_steps": [each.objective for each in run.steps[1:4]],
    }


def _next(objective: str, call: Call) -> dict[str, Any]:
    return {"objective": objective, "tool": call.tool, "prompt": call.prompt}


def _state(run: Run, call: Call, shortened: bool) -> dict[str, Any]:
    at = next(number for number, step in enumerate(run.steps) if call in step.calls)
    step = run.steps[at]
    before = step.calls[: step.calls.index(call)]
    first = {"objective": "assistant to help gather initial information", "success": True}
    return {
        "user_prompt": run.request,
        "main_objective": run.main_objective,
        "completed_steps": [
            first | {"conclusion": run.first.assessment},
            *(
                {"objective": s.objective, "success": s.success, "conclusion": s.calls[-1].notes}
                for s in run.steps[:at]
            ),
        ],
        "current_step": {
            "objective": step.objective,
            "completed": False,
            "notes": before[-1].notes if before else "",
            "assistant": _assistant(run, call, call.prompt, shortened),
        },
        "next_steps": [each.objective for each in run.steps[at + 1 : at + 4]],
    }


def _decision(run: Run, call: Call, following: Call) -> dict[str, Any]:
    step = next(step for step in run.steps if call in step.calls)
    if following in step.calls:
        noted = {"notes_to_future_self": call.notes, "tool": following.tool}
        return {"current_step": noted | {"prompt": following.prompt}}
    after = next(each for each in run.steps if following in each.calls)
    return {
        "current_step": {
            "completed": True,
            "success": step.success,
            "notes_to_future_self": call.notes,
        },
        "next_step": _next(after.objective, following),
    }
