"""The designs that replay a recorded run: the planner and the ordinary loop.

The planner is the real one. The loop reads raw results up to `MAX_RESULT_CHARS`; with
`shortened=True` it reads what the planner shows its models.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.eval.systems import LOOP_PROMPT, MAX_TOOL_RESULT_CHARS
from benchmarks.speed import runs
from benchmarks.speed.runs import Call, RecordedPool, Run
from benchmarks.speed.script import PlannerScript
from benchmarks.speed.server import FULL, Said, serving
from benchmarks.speed.simulation import Machine, ModelServer, Served
from planner import agent
from planner.agent import warming
from planner.evidence import context
from planner.evidence.words import long_words
from planner.models.base import Models
from planner.models.ollama import OllamaClient, OllamaModel
from planner.prompts import RESULT_CHARACTERS
from planner.prompts.texts import compact
from planner.protocol import Limits, RunRequest
from planner.tools import Safety, ToolSpec

SHORTENED = ", shortened results"
CONTEXT_TOKENS = 8192
LOOP_CONTEXT_TOKENS = 32_768
"""The loop keeps every result; with less the server would drop its oldest messages."""
UNLIMITED = Limits(iterations=100, seconds=86_400, model_tokens=10_000_000)
MAX_RESULT_CHARS = MAX_TOOL_RESULT_CHARS


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

    def seconds(self, machine: Machine) -> float:
        return machine.seconds(self.calls, self.computed, self.generated)


async def planloom(run: Run, sent: list[dict[str, Any]] | None = None) -> Replay:
    """The real planner over the real Ollama adapter, with one model in both roles, as it ships.
    `sent` receives the bodies of its requests."""
    script = PlannerScript(run)

    def said(body: dict[str, Any]) -> Said:
        if "format" not in body:  # the instructions are read
            return ""
        if sent is not None:
            sent.append(body)
        return script(body)

    server = ModelServer()
    async with serving(server, said) as host, OllamaClient(host) as client:
        model = OllamaModel(FULL, client, context_tokens=CONTEXT_TOKENS)
        pool, models = RecordedPool(run), Models(model, model)
        await warming.read_instructions(models, pool)
        server.served.clear()
        request = RunRequest(prompt=run.request, limits=UNLIMITED)
        state = await agent.run(request, models, pool, lambda _: None)
    trouble = [f"{each.guard}: {each.message}" for each in state.guards]
    assert state.status == "answered", f"{state.status}: {state.reason} {trouble}"
    assert len(pool.calls) == len(run.calls), f"{len(pool.calls)} calls were made; {trouble}"
    return Replay("planloom", len(run.calls), server.served, [each.role for each in state.ledger])


def shown(run: Run, call: Call) -> str:
    """A result as the planner shows it: readable, its telling lines within the budget."""
    wanted = {*long_words(f"{run.request} {call.prompt} {compact(call.arguments)}")}
    number = run.calls.index(call)
    return context.shortened(context.readable(call.result), RESULT_CHARACTERS, wanted, number)


def seen(run: Run, call: Call, shortened: bool) -> str:
    return shown(run, call) if shortened else call.result[:MAX_RESULT_CHARS]


@dataclass
class Scripted:
    """A client that knows each reply before it asks: what it asks is what is measured."""

    client: OllamaClient
    replies: list[Said]
    roles: list[str] = field(default_factory=list)

    async def read(self, message: dict[str, Any], **more: Any) -> None:
        """Have the model read what every run begins with, before what is measured."""
        await self.ask("read", [message, warming.READY], "", **more)
        self.roles.clear()

    async def ask(
        self,
        role: str,
        messages: Sequence[Mapping[str, Any]],
        reply: Said,
        **more: Any,
    ) -> None:
        self.roles.append(role)
        self.replies.append(reply)
        options = {"num_ctx": LOOP_CONTEXT_TOKENS, "num_predict": 4000}
        body = {"model": FULL, "messages": list(messages), "options": options, **more}
        async for _ in self.client.chat_records(body):
            pass


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


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
        model = Scripted(client, replies)
        system = {"role": "system", "content": LOOP_PROMPT}
        await model.read(system, tools=tools)
        server.served.clear()
        messages: list[dict[str, Any]] = [system, user(run.request)]
        for group in groups(run):
            calls = [{"name": call.tool, "arguments": call.arguments} for call in group]
            await model.ask("call", messages, calls, tools=tools)
            said = {"role": "assistant", "content": ""}
            messages.append({**said, "tool_calls": [{"function": call} for call in calls]})
            messages += [{"role": "tool", "content": seen(run, call, shortened)} for call in group]
        await model.ask("answer", messages, run.answer, tools=tools)
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
