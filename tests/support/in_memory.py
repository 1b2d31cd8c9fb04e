"""The planner's two outsides in memory: a scripted model and a pool over a dictionary of files."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.lowlevel
from jsonschema import Draft202012Validator
from scripted_ollama import usual_reply
from serving import LONG

from planner import agent
from planner.clock import Clock
from planner.events import Event, Role, RunContinued
from planner.evidence.tool_ranking import MAX_SHOWN
from planner.inbox import Inbox
from planner.models.base import ChatRequest, Message, Models, Reply
from planner.models.encoder import Encoder, Likeness
from planner.protocol import RunRequest
from planner.state import RunState
from planner.tools import (
    Approval,
    Approver,
    Outcome,
    Policy,
    Safety,
    ToolResult,
    ToolSpec,
    UpstreamState,
    UpstreamStatus,
    refuse,
)


@dataclass(frozen=True)
class Unconstrained:
    """A reply that the schema does not hold, as of a server that ignores it; `fields` are others
    of the `Reply`."""

    content: str | dict[str, Any]
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fast:
    """A reply that only the fast model shall give; all others are the full model's."""

    content: dict[str, Any] | Unconstrained | Exception


@dataclass(frozen=True)
class Hangs:
    """No reply until the call is cancelled, or for so many seconds."""

    seconds: float = math.inf
    then: dict[str, Any] | None = None


USUAL: tuple[Role, ...] = ("brief", "again", "confirm", "words", "files", "query", "translate")
"""What is asked of nearly every run, and has a usual reply."""

Said = dict[str, Any] | Unconstrained | Fast | Hangs | Exception


@dataclass
class Asked:
    """One call of a model."""

    model: str
    messages: list[Message]
    schema: dict[str, Any] | None

    @property
    def text(self) -> str:
        return "\n".join(message["content"] for message in self.messages)

    @property
    def last(self) -> str:
        return self.messages[-1]["content"]


@dataclass
class Script:
    """What the two models say, in order. Both models of a run share it."""

    turns: list[Said]
    asked: list[Asked] = field(default_factory=list)
    reply_fields: Mapping[str, Any] = field(default_factory=dict)
    cancelled: int = 0
    asides: list[Asked] = field(default_factory=list)
    """Questions that have a usual reply (`usual_reply`), given unless the script's next turn is one
    of their own."""
    last_answer: str = ""

    async def reply(self, model: str, messages: Sequence[Message], schema: Any) -> Reply:
        await anyio.lowlevel.checkpoint()  # a time limit that has passed shows
        asked = Asked(model, list(messages), schema)
        branches = (schema or {}).get("anyOf", [schema or {}])
        properties = frozenset(name for each in branches for name in each.get("properties", {}))
        kind = _kind(self.turns[0]) if self.turns else frozenset()
        own = bool(kind) and kind <= properties  # a brief has one of two branches
        usual = usual_reply(properties, self.last_answer)
        if "answer_again" in properties and not own:
            own = isinstance(self.turns[0] if self.turns else None, Hangs | Unconstrained)
        if model == "fast" and self.turns and isinstance(self.turns[0], Fast):
            own = own or not kind  # a fault, or no JSON: nothing else is asked of the fast model
        if usual is not None:
            self.asides.append(asked)
        else:
            self.asked.append(asked)
        if usual is not None and not own:
            said: Said = Unconstrained(usual) if "language" in usual else usual
        else:
            assert self.turns, f"{model} was asked once more: {asked.last}"
            said = self.turns.pop(0)
            assert model == ("fast" if isinstance(said, Fast) else "full"), asked.last
        if isinstance(said, Fast):
            said = said.content
        if isinstance(said, Hangs):
            try:
                await anyio.sleep(said.seconds)
            except anyio.get_cancelled_exc_class():
                self.cancelled += 1
                raise
            said = said.then or {}
        if isinstance(said, Exception):
            raise said
        if isinstance(said, Unconstrained):
            text = said.content if isinstance(said.content, str) else json.dumps(said.content)
        else:
            Draft202012Validator(schema).validate(said)
            text = json.dumps(said)
            if isinstance(said, dict):
                self.last_answer = said.get("final_answer", self.last_answer)
        counts = {"prompt_tokens": len(asked.text) // 4, "generated_tokens": len(text) // 4}
        own_fields = said.fields if isinstance(said, Unconstrained) else {}
        return Reply(text=text, **(counts | dict(self.reply_fields) | dict(own_fields)))


def _kind(said: Said) -> frozenset[str]:
    """The keys of a reply, which say what it replies to."""
    content: object = said.content if isinstance(said, Fast) else said
    content = content.content if isinstance(content, Unconstrained) else content
    return frozenset(content) if isinstance(content, dict) else frozenset()


@dataclass
class ScriptedModel:
    name: str
    answer: Callable[[str, Sequence[Message], Any], Any]
    context_tokens: int = 8192

    async def chat(self, request: ChatRequest) -> Reply:
        reply: Reply = await self.answer(self.name, request.messages, request.schema)
        if request.enough:
            words = re.findall(r"\S+\s*", reply.text)
            for number in range(1, len(words)):
                if request.enough(said := "".join(words[:number])):
                    return reply.model_copy(update={"text": said, "finish": "ended"})
        return reply

    async def load(self) -> None:
        """It is there."""

    async def aclose(self) -> None:
        """Nothing is held."""


def models(
    answer: Callable[[str, Sequence[Message], Any], Any],
    context_tokens: int,
) -> Models:
    fast, full = (ScriptedModel(name, answer, context_tokens) for name in ("fast", "full"))
    return Models(fast, full)


def spec(name: str, *parameters: str, **options: Any) -> ToolSpec:
    """A tool; a parameter with `?` is optional."""
    names = [parameter.rstrip("?") for parameter in parameters]
    schema = {
        "type": "object",
        "properties": {each: {"type": "string"} for each in names},
        "required": [each for each in parameters if not each.endswith("?")],
        "additionalProperties": False,
    }
    given: dict[str, Any] = {
        "upstream": "files",
        "description": f"What {name} does.",
        "input_schema": schema,
        "safety": Safety.READ_ONLY,
    }
    return ToolSpec(name=name, **(given | options))


def add_many(pool: "DictionaryPool") -> None:
    """Give a pool so many tools that most are shown later, `tide_table` among them."""
    others = [f"tool_{number}" for number in range(MAX_SHOWN)]
    pool.specs += [spec(name, "text", description="Something") for name in others]
    pool.specs.append(spec("tide_table", "text", description="Tides"))
    pool.results = {"tide_table": ["High water at noon"]}


def more_files(pool: "DictionaryPool", number: int = 6) -> None:
    """Further files about the class of `planted`, so that its passages are several groups."""
    for each in range(number):
        rows = "\n".join(f"    phoenix_{each}_{row} = {'x' * 60}" for row in range(12))
        pool.files[f"jobs/part_{each}.py"] = f"def phoenix_{each}():\n{rows}\n"


async def approve(tool: ToolSpec, arguments: dict[str, Any]) -> Approval:
    """A person, or a policy, that permits every call."""
    return Approval(approved=True, by="policy", reason="the test permits it")


ALLOWED: Any = {"policy": Policy.ALLOW, "approver": approve}
"""What lets a run make every call."""


class Requests(Inbox):
    """What a run is asked for, one after the other."""

    def __init__(self, *requests: RunRequest) -> None:
        self.requests = list(requests)

    def next_request(self) -> RunContinued | None:
        if not self.requests:
            return None
        return RunContinued(request=self.requests.pop(0), spent=0.0, paused=0.0)


def deciding(*approved: bool) -> Approver:
    """A person who decides on one call after the other."""
    decisions = list(approved)

    async def decide(tool: ToolSpec, arguments: dict[str, Any]) -> Approval:
        yes = decisions.pop(0)
        return Approval(approved=yes, by="person", reason=f"the user said {'yes' if yes else 'no'}")

    return decide


SEARCH = spec("search", "pattern", "path?", text_argument="pattern", priority=2)
READ = spec("read_file", "path", priority=1)
LIST = spec("list_dir", "path?")
WRITE = spec("write_file", "path", "text", safety=Safety.WRITE)


@dataclass
class DictionaryPool:
    """Tools over files in a dictionary; `results` are those of other tools, one per call."""

    files: dict[str, str]
    specs: list[ToolSpec] = field(default_factory=lambda: [SEARCH, READ, LIST, WRITE])
    results: dict[str, list[str | ToolResult]] = field(default_factory=dict)
    context_lines: int = 0
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def tools(self) -> Sequence[ToolSpec]:
        return self.specs

    def upstreams(self) -> Sequence[UpstreamStatus]:
        return [UpstreamStatus(name="files", state=UpstreamState.READY, tools=len(self.specs))]

    async def listing(self) -> str | None:
        return " ".join(sorted({path.split("/")[0] + "/" for path in self.files})) or None

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        self.calls.append((tool.name, arguments))
        if self.results.get(tool.name):
            result = self.results[tool.name].pop(0)
            if isinstance(result, ToolResult):
                return result
            return ToolResult(outcome=Outcome.SUCCESS, text=result)
        match tool.name:
            case "search":
                text = "\n".join(self._search(**arguments))
            case "read_file" if arguments["path"] not in self.files:
                return ToolResult(outcome=Outcome.FAILURE, text="no such file")
            case "read_file":
                text = self.files[arguments["path"]]
            case "list_dir":
                text = "\n".join(self.files)
            case _:
                raise AssertionError(f"{tool.name} was called")
        return ToolResult(outcome=Outcome.SUCCESS, text=text)

    def _search(self, pattern: str, path: str = "") -> Iterator[str]:
        for file, content in self.files.items():
            lines = content.splitlines()
            near = {
                other
                for index, line in enumerate(lines)
                if file.startswith(path.strip(".")) and re.search(pattern, line)
                for other in range(index - self.context_lines, index + self.context_lines + 1)
            }
            for index, line in enumerate(lines):
                if index in near:
                    yield f"{file}:{index + 1}:{line}"


class Comparing:
    """An encoder to which only texts with a certain word are close."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.questions: list[str] = []
        self.texts: list[str] = []

    async def likeness(self, question: str, texts: Sequence[str]) -> Likeness:
        self.questions.append(question)
        self.texts = [*texts]
        return Likeness(scores=[float(self.word in text) for text in texts])


def rows(*results: str) -> DictionaryPool:
    """A pool in which each call of `row` brings the next of these results."""
    return DictionaryPool({}, specs=[spec("row", "number"), READ], results={"row": [*results]})


@dataclass
class Ran:
    """A run that came to its end."""

    state: RunState
    events: list[Event]
    script: Script
    pool: DictionaryPool

    @property
    def roles(self) -> list[tuple[Role, str]]:
        """Who was asked for what, the questions with a usual reply aside."""
        return [(call.role, call.model) for call in self.state.ledger if call.role not in USUAL]

    @property
    def guards(self) -> list[str]:
        return [guard.guard for guard in self.state.guards]

    @property
    def results(self) -> list[tuple[str, Outcome | None, str]]:
        return [(each.tool, each.outcome, each.result) for each in self.state.iterations]

    @property
    def asked(self) -> list[Asked]:
        return self.script.asked


async def planned(
    *turns: Said,
    pool: DictionaryPool,
    context_tokens: int = 8192,
    reply_fields: Mapping[str, Any] | None = None,
    approver: Approver = refuse,
    inbox: Inbox | None = None,
    encoder: Encoder | None = None,
    clock: Clock | None = None,
    **request: Any,
) -> Ran:
    """Run a request whose models say these turns, every one of them."""
    script = Script(list(turns), reply_fields=reply_fields or {})
    events: list[Event] = []
    with anyio.fail_after(LONG):
        state = await agent.run(
            RunRequest(**request),
            replace(models(script.reply, context_tokens), encoder=encoder),
            pool,
            events.append,
            approver,
            clock=clock,
            inbox=inbox,
        )
    assert script.turns == [], "not everything of the script was said"
    types = [event.type for event in events]
    assert types[0] == "run_started"
    assert types[-1] == "run_finished"
    assert types.count("run_finished") == 1 + types.count("run_continued")
    assert RunState.of(events) == state
    return Ran(state, events, script, pool)
