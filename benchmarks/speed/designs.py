"""Three designs that replay a recorded run: the planner, the seeds' protocol, the ordinary loop.

The planner is the real one. The other two read raw results up to `LONGEST_RESULT`, since neither
shortens them; with `shortened=True` they read what the planner shows its models.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.eval.systems import LONGEST_TOOL_RESULT, LOOP_PROMPT
from benchmarks.speed import runs, simulation
from benchmarks.speed.runs import Call, RecordedPool, Run
from benchmarks.speed.script import PlannerScript
from benchmarks.speed.server import FAST, FULL, Said, serving
from benchmarks.speed.simulation import ModelServer, Served
from planner import agent, context
from planner.models import ArgumentRoute, Models
from planner.ollama import OllamaClient, OllamaModel
from planner.prompts import compact
from planner.protocol import Limits, RunRequest
from planner.tools import Safety, ToolSpec

SHORTENED = ", shortened results"
CONTEXT_TOKENS = 8192
LOOP_CONTEXT_TOKENS = 32_768
"""The loop keeps every result; with less the server would drop its oldest messages."""
UNLIMITED = Limits(iterations=100, seconds=86_400, model_tokens=10_000_000)
LONGEST_RESULT = LONGEST_TOOL_RESULT


@dataclass(frozen=True)
class Replay:
    """What one design did with one run."""

    design: str
    steps: int
    served: list[Served]
    roles: list[str]
    """What each call was for, in the order of `served`."""

    @property
    def calls(self) -> int:
        return len(self.served)

    @property
    def prompt(self) -> int:
        return sum(each.prompt for each in self.served)

    @property
    def computed(self) -> int:
        return sum(each.computed for each in self.served)

    @property
    def generated(self) -> int:
        return sum(each.generated for each in self.served)

    @property
    def cached_share(self) -> float:
        return 1 - self.computed / self.prompt

    def loadings(self, kind: simulation.Loading) -> int:
        return sum(each.loading == kind for each in self.served)

    def seconds(self, machine: simulation.Machine) -> float:
        return sum(machine.seconds(each, FAST) for each in self.served)


async def planloom(
    run: Run,
    route: ArgumentRoute = Models.argument_route,
    sent: "list[dict[str, Any]] | None" = None,
) -> Replay:
    """The real planner over the real Ollama adapter. `sent` receives the bodies of its requests."""
    script = PlannerScript(run)

    def said(body: dict[str, Any]) -> Said:
        if sent is not None:
            sent.append(body)
        return script(body)

    server = ModelServer()
    async with serving(server, said) as host, OllamaClient(host) as client:
        fast, full = (
            OllamaModel(name, client, context_tokens=CONTEXT_TOKENS) for name in (FAST, FULL)
        )
        pool = RecordedPool(run)
        request = RunRequest(prompt=run.request, limits=UNLIMITED)
        state = await agent.run(request, Models(fast, full, route), pool, lambda _: None)
    trouble = [f"{each.guard}: {each.message}" for each in state.guards]
    assert state.status == "answered", f"{state.status}: {state.reason} {trouble}"
    assert len(pool.calls) == len(run.calls), f"{len(pool.calls)} calls were made; {trouble}"
    return Replay("planloom", len(run.calls), server.served, [each.role for each in state.ledger])


def shown(run: Run, call: Call) -> str:
    """A result as the planner shows it: readable, its telling lines within the budget."""
    wanted = context.words(f"{run.request} {call.prompt} {compact(call.arguments)}")
    number = run.calls.index(call)
    return context.shortened(context.readable(call.result), agent.RESULT_CHARACTERS, wanted, number)


def seen(run: Run, call: Call, shortened: bool) -> str:
    return shown(run, call) if shortened else call.result[:LONGEST_RESULT]


@dataclass
class _Scripted:
    """A client that knows each reply before it asks: what it asks is what is measured."""

    client: OllamaClient
    replies: list[Said]
    num_ctx: int
    roles: list[str] = field(default_factory=list)

    async def ask(
        self, role: str, model: str, messages: Sequence[dict[str, Any]], reply: Said, **more: Any
    ) -> None:
        self.roles.append(role)
        self.replies.append(reply)
        options = {"num_ctx": self.num_ctx, "num_predict": 4000}
        body = {"model": model, "messages": list(messages), "options": options, **more}
        async for _ in self.client.chat_records(body):
            pass


# The seeds' protocol.

SEEDS_SYSTEM = (
    "You are an AI assistant. You are a skilled developer with deep knowledge of programming "
    "languages, frameworks, and development best practices. If including code snippets, always "
    "start code blocks with the programming language and file name (e.g., "
    "```{language} path/to/file)."
)
SEEDS_SELECT = """\
INFORMATION GATHERING PHASE

User request: "{request}"

Files and folders of the project:
{listing}

Available information-gathering tools:
{tools}

Select the BEST tool to gather relevant information for this request.

Respond: {{"tool": "name"}} or {{"tool": null}}"""
SEEDS_ARGUMENTS = """\
Generate tool arguments from user request.

Tool: {tool}
User request: "{prompt}"

Parameters:
{parameters}

Respond ONLY with JSON: {{"args": {{"param": "value"}}}}"""
SEEDS_PLAN = """\
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
SEEDS_DECIDE = """\
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
"""The texts of seeds/000 with the changes its notes ask for."""


async def seeds(run: Run, *, shortened: bool = False) -> Replay:
    """Separate calls for selection, arguments and decision, each prompt built anew from the state
    (seeds/000 and 001). Calls are made one by one; state fields of seeds/003 are left out."""
    specs = {tool.name: tool for tool in runs.tools()}
    listed = "\n".join(f"- {tool.name}: {tool.description}" for tool in plain_tools())
    server, replies = ModelServer(), list[Said]()
    async with serving(server, lambda _: replies[-1]) as host, OllamaClient(host) as client:
        models = _Scripted(client, replies, CONTEXT_TOKENS)

        async def arguments(call: Call, prompt: str) -> None:
            model = FAST if specs[call.tool].fast_arguments else FULL
            question = SEEDS_ARGUMENTS.format(
                tool=call.tool, prompt=prompt, parameters=_parameters(specs[call.tool])
            )
            reply = json.dumps({"args": call.arguments})
            await models.ask("arguments", model, [_user(question)], reply)

        question = SEEDS_SELECT.format(request=run.request, listing=run.listing, tools=listed)
        reply = json.dumps({"tool": run.first.tool})
        await models.ask("select", FAST, [_user(question)], reply)
        await arguments(run.first, run.request)
        messages = [
            {"role": "system", "content": SEEDS_SYSTEM},
            _user(f"{run.request}\n\nFiles and folders of the project:\n{run.listing}"),
            {"role": "assistant", "content": _result(run, run.first, run.request, shortened)},
            _user(SEEDS_PLAN.format(tools=listed)),
        ]
        calls = run.calls
        plan = run.answer if len(calls) == 1 else _pretty(_seeds_plan(run))
        await models.ask("plan", FULL, messages, plan)
        for number, call in enumerate(calls[1:], start=1):
            await arguments(call, call.prompt)
            state = _pretty(_seeds_state(run, call, shortened))
            messages = [
                {"role": "system", "content": SEEDS_SYSTEM},
                _user(SEEDS_DECIDE.format(state=state, tools=listed)),
            ]
            last = number == len(calls) - 1
            said = run.answer if last else _pretty(_seeds_decision(run, call, calls[number + 1]))
            await models.ask("decide", FULL, messages, said)
    name = f"seeds{SHORTENED if shortened else ''}"
    return Replay(name, len(run.calls), server.served, models.roles)


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


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


def _seeds_plan(run: Run) -> dict[str, Any]:
    step = run.steps[0]
    return {
        "main_objective": run.main_objective,
        "conclusion_from_assistant_data": run.first.assessment,
        "assistant_data_was_helpful": True,
        "next_step": _seeds_next(step.objective, step.calls[0]),
        "later_steps": [each.objective for each in run.steps[1:4]],
    }


def _seeds_next(objective: str, call: Call) -> dict[str, Any]:
    return {"objective": objective, "tool": call.tool, "prompt": call.prompt}


def _seeds_state(run: Run, call: Call, shortened: bool) -> dict[str, Any]:
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


def _seeds_decision(run: Run, call: Call, following: Call) -> dict[str, Any]:
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
        "next_step": _seeds_next(after.objective, following),
    }


# The ordinary loop.


async def loop(run: Run, *, shortened: bool = False) -> Replay:
    """Chat with all tools, run the calls, append their results, chat again. Calls that can be made
    at once are made in one reply; the model says nothing beside them."""
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
            },
        }
        for tool in plain_tools()
    ]
    server, replies = ModelServer(), list[Said]()
    async with serving(server, lambda _: replies[-1]) as host, OllamaClient(host) as client:
        model = _Scripted(client, replies, LOOP_CONTEXT_TOKENS)
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": LOOP_PROMPT},
            _user(run.request),
        ]
        for group in groups(run):
            calls = [{"name": call.tool, "arguments": call.arguments} for call in group]
            await model.ask("call", FULL, messages, calls, tools=tools)
            said = {"role": "assistant", "content": ""}
            messages.append({**said, "tool_calls": [{"function": call} for call in calls]})
            messages += [{"role": "tool", "content": seen(run, call, shortened)} for call in group]
        await model.ask("answer", FULL, messages, run.answer, tools=tools)
    name = f"loop{SHORTENED if shortened else ''}"
    return Replay(name, len(run.calls), server.served, model.roles)


def groups(run: Run) -> Iterator[list[Call]]:
    """The calls, those together that can be made at once."""
    group: list[Call] = []
    for call in run.calls:
        if group and not call.alongside:
            yield group
            group = []
        group.append(call)
    yield group


def plain_tools() -> list[ToolSpec]:
    """The same tools as their servers describe them, for designs that do not reword them."""
    own = {tool.name: tool for name in ("serena", "context7") for tool in runs.listed(name)}
    return [
        ToolSpec(
            name=spec.name,
            upstream=spec.upstream,
            description=own[spec.name].description or "",
            input_schema=own[spec.name].input_schema,
            safety=Safety.READ_ONLY,
        )
        for spec in runs.tools()
    ]


def by_role(replay: Replay) -> dict[tuple[str, str], Counter[str]]:
    """Calls and tokens of a replay by what they were for, and by model."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for role, served in zip(replay.roles, replay.served, strict=True):
        counts = {"calls": 1, "prompt": served.prompt, "computed": served.computed}
        found.setdefault((role, served.model), Counter()).update(
            counts | {"generated": served.generated}
        )
    return found
