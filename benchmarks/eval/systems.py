"""The three systems: Planloom as a client meets it, and two baselines on the same models and tools.

`planloom`  the real server, started as a host starts it, asked over MCP
`native`    the ordinary loop: the full model with native tool calling, ten rounds
`retrieve`  the ordinary pipeline: keywords, one search, snippets, one answer with quotes

The baselines get their tools through Planloom's own pool, so that they see the same line numbers
(from 1); the loop with the upstreams' own descriptions. Where a plain choice could favour Planloom,
the baselines get the better one: calls that the loop's model writes as text are run too.
"""

import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import yaml
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from benchmarks.eval.case import Answer, Called, Family, Setting
from benchmarks.eval.results import Ledger
from planner.errors import PlanloomError
from planner.models.base import ChatRequest, Message, Models, PromptBefore
from planner.models.ollama import ChatReply, OllamaClient
from planner.tools import Outcome, Safety, ToolSpec
from server.backends import open_models
from server.config import ModelSettings
from server.config_file import load_settings
from server.upstreams.pool import UpstreamPool

START_SECONDS = 300.0
"""For the upstreams to start; Serena's first start on a machine downloads it."""

Ask = Callable[[str, Ledger], Awaitable[Answer]]
"""Answers a question; the ledger is kept while it does, so that a question cut off has one too."""
System = Callable[["Bench", Setting], AbstractAsyncContextManager[Ask]]


@dataclass(frozen=True)
class Bench:
    """What the systems of a run share."""

    models: ModelSettings
    upstreams: Path
    """The shipped upstreams.yaml, or another one under measurement."""
    environ: dict[str, str]
    work: Path
    """For settings, derived files and logs. A run has it to itself."""
    seconds: float
    """The time limit of a question."""

    @property
    def state(self) -> Path:
        """Where Planloom keeps its runs and the pins of upstreams' tools."""
        return self.work / "state"

    def derived(self, setting: Setting, *, tools_as_they_are: bool = False) -> Path:
        """An upstreams.yaml with the setting's upstreams alone; `tools_as_they_are`: those that are
        shipped as they describe themselves."""
        data = yaml.safe_load(self.upstreams.read_text(encoding="utf-8"))
        entries = {}
        for name, own in setting.upstreams.items():
            shipped = dict(data["upstreams"].get(name, {}))
            if tools_as_they_are:
                shipped.pop("tools", None)
            entries[name] = shipped | own
        self.work.mkdir(parents=True, exist_ok=True)
        path = self.work / f"upstreams-{'plain' if tools_as_they_are else 'shipped'}.yaml"
        text = yaml.safe_dump(data | {"upstreams": entries}, sort_keys=False)
        path.write_text(text, encoding="utf-8")
        return path

    def project(self, setting: Setting) -> Path:
        """The folder that is served, an empty one where the setting has none."""
        project = setting.project or self.work / "no-project"
        project.mkdir(parents=True, exist_ok=True)
        return project


# Planloom.


@asynccontextmanager
async def planloom(bench: Bench, setting: Setting) -> AsyncIterator[Ask]:
    """`planloom serve` on stdio, one server per setting. Its start is not part of any question's
    time: a host starts it once. Its runs and pins stay in the work folder."""
    transport = StdioTransport(
        sys.executable,
        [
            *("-m", "server.cli", "serve", "--project", str(bench.project(setting))),
            *("--upstreams", str(bench.derived(setting))),
        ],
        env=bench.environ
        | {
            "OLLAMA_HOST": bench.models.host or "",
            "PLANLOOM_FAST_MODEL": bench.models.fast,
            "PLANLOOM_FULL_MODEL": bench.models.full,
            "PLANLOOM_BACKEND": bench.models.backend,
            "XDG_STATE_HOME": str(bench.state),
        },
        keep_alive=False,
        log_file=bench.work / "planloom-serve.log",
    )
    async with Client(transport, init_timeout=START_SECONDS) as client:
        with anyio.fail_after(START_SECONDS):
            while "starting" in (states := await _states(client)).values():  # noqa: ASYNC110
                await anyio.sleep(0.5)
        check(states)

        async def ask(question: str, ledger: Ledger) -> Answer:
            arguments = {
                "prompt": question,
                "wait_s": bench.seconds * 2,
                "max_seconds": bench.seconds,
            }
            if setting.policy == "allow":
                arguments["policy"] = "allow"
            result = await client.call_tool_mcp("plan_and_answer", arguments)
            if result.structured_content is None:
                text = "\n".join(getattr(block, "text", "") for block in result.content)
                return Answer("failed", text)
            asked = {"run_id": result.structured_content["run_id"], "whole": True}
            report = (await client.call_tool_mcp("get_run", asked)).structured_content or {}
            usage = report["usage"]
            for name in Ledger.model_fields:
                setattr(ledger, name, usage[name])
            return Answer(report["status"], report["answer"], _called(report), report)

        yield ask


def _called(report: dict[str, Any]) -> tuple[Called, ...]:
    return tuple(
        Called(call["upstream"], call["name"], call["args"], call["outcome"] == Outcome.SUCCESS)
        for action in report["actions"]
        for call in action["tool_calls"]
        if call["upstream"]
    )


async def _states(client: Client[StdioTransport]) -> dict[str, str]:
    result = await client.call_tool_mcp("list_tools", {})
    return {each["name"]: each["state"] for each in (result.structured_content or {})["upstreams"]}


def check(states: dict[str, str]) -> None:
    """Raises `PlanloomError` unless every upstream is there: an answer without it says nothing."""
    if missing := [name for name, state in states.items() if state != "ready"]:
        raise PlanloomError(f"These upstreams did not start: {', '.join(missing)}")


# The baselines' common ground.


@asynccontextmanager
async def _pool(bench: Bench, setting: Setting) -> AsyncIterator[UpstreamPool]:
    settings = load_settings(
        bench.derived(setting, tools_as_they_are=True),
        bench.project(setting),
        bench.environ,
        bench.models.model_dump(),
    )
    async with UpstreamPool(settings) as pool:
        await pool.ready(START_SECONDS)
        check({each.name: each.state for each in pool.upstreams()})
        yield pool


# The ordinary loop.

ROUNDS = 10
MAX_TOOL_RESULT_CHARS = 8000
"""In characters. An uncut result of Serena (150,000) would leave nothing of the question."""
LOOP_TOOLS = (
    "list_dir",
    "find_file",
    "search_for_pattern",
    "read_file",
    "get_symbols_overview",
    "find_symbol",
    "find_referencing_symbols",
)
"""Serena's, of those that only read."""
LOOP_PROMPT = (
    "You answer questions about a software project. Use the tools to look things up in it, then "
    "answer briefly. If you cannot find something out, say so."
)


ACTING_PROMPT = (
    "You are a helpful assistant. Use the tools where the request needs them, then answer briefly. "
    "If you cannot do something or find it out, say so."
)
"""Where the tools are not those of a project that is only read."""


@asynccontextmanager
async def native(bench: Bench, setting: Setting) -> AsyncIterator[Ask]:
    """Chat, run the tool calls, append their results, chat again: until a reply calls no tool."""
    async with _pool(bench, setting) as pool, OllamaClient(bench.models.host) as client:
        specs = {spec.name: spec for spec in pool.tools() if _offered(spec, setting)}
        reading = "serena" in setting.upstreams and setting.policy == "read_only"
        before = PromptBefore()

        async def ask(question: str, ledger: Ledger) -> Answer:
            messages: list[dict[str, Any]] = [
                {"role": "system", "content": LOOP_PROMPT if reading else ACTING_PROMPT},
                {"role": "user", "content": question},
            ]
            called: list[Called] = []
            for _ in range(ROUNDS):
                reply = await _native_chat(client, bench.models, messages, specs, ledger, before)
                calls = reply["tool_calls"] or _written_calls(reply["content"])
                messages.append({"role": "assistant"} | reply)
                if not calls:
                    said = reply["content"].strip()
                    status = "answered" if said else "failed"
                    return Answer(status, said, tuple(called), messages)
                for call in calls:
                    result = await _run(pool, specs, call, ledger, called)
                    messages.append({"role": "tool", "content": result})
            return Answer("failed", f"No answer in {ROUNDS} rounds.", tuple(called), messages)

        yield ask


def _offered(spec: ToolSpec, setting: Setting) -> bool:
    """The loop asks nobody, so it has what it may call by itself; of Serena the tools that a host
    would leave on for questions."""
    if setting.policy == "allow":
        return True
    return spec.name in LOOP_TOOLS if spec.upstream == "serena" else spec.safety is Safety.READ_ONLY


async def _native_chat(
    client: OllamaClient,
    models: ModelSettings,
    messages: list[dict[str, Any]],
    specs: dict[str, ToolSpec],
    ledger: Ledger,
    before: PromptBefore,
) -> dict[str, Any]:
    functions = [
        {"name": spec.name, "description": spec.description, "parameters": spec.input_schema}
        for spec in specs.values()
    ]
    body = {
        "model": models.full,
        "messages": messages,
        "tools": [{"type": "function", "function": function} for function in functions],
        # The options of `OllamaModel`: with others, the server would load the model again.
        "options": {"num_ctx": models.num_ctx, "temperature": 0, "seed": 0, "num_predict": 700},
        "keep_alive": models.keep_alive,
    }
    text, calls, last = "", [], ChatReply.model_validate({"message": {"role": "assistant"}})
    async for last in client.chat_records(body):
        text += last.message.content or ""
        calls += [call.model_dump() for call in last.message.tool_calls or ()]
    prompt, generated = last.prompt_eval_count or 0, last.eval_count or 0
    read = [_as_read(message) for message in messages]
    cached = last.prompt_eval_cached_count
    ledger.add(prompt, round(before.covers(read) * prompt) if cached is None else cached, generated)
    before.read(read, text)
    return {"content": text, "tool_calls": calls}


def _as_read(message: dict[str, Any]) -> Message:
    """A message of the loop as far as prefixes go: a tool's result stands in a user's place."""
    by_model = message["role"] == "assistant"
    return {"role": "assistant" if by_model else "user", "content": message["content"]}


def _written_calls(text: str) -> list[dict[str, Any]]:
    """Tool calls that a model wrote as plain JSON, as qwen2.5-coder mostly does."""
    found = []
    for match in re.finditer(r"\{", text):
        try:
            value, _ = json.JSONDecoder().raw_decode(text[match.start() :])
        except ValueError:
            continue
        if isinstance(value, dict) and "name" in value and "arguments" in value:
            found.append({"function": value})
    return found


async def _run(
    pool: UpstreamPool,
    specs: dict[str, ToolSpec],
    call: dict[str, Any],
    ledger: Ledger,
    called: list[Called],
) -> str:
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    if name not in specs or not isinstance(arguments, dict):
        return f"Error: there is no tool {name}, or its arguments are no object."
    ledger.tool_calls += 1
    result = await pool.call(specs[name], arguments)
    success = result.outcome is Outcome.SUCCESS
    called.append(Called(specs[name].upstream, name, arguments, success))
    return result.text[:MAX_TOOL_RESULT_CHARS]


# Retrieve, then answer.

SNIPPET_CHARACTERS = 7000
"""Some 2000 tokens."""
MAX_KEYWORDS = 8
RETRIEVE_PROMPT = """\
Answer the question about a software project from the excerpts below and from nothing else. Quote
the line that your answer rests on, with its file and line number. If the excerpts do not hold the
answer, say that it could not be found.

{snippets}

Question: {question}"""
_IDENTIFIER = re.compile(r"`([^`]+)`|\b(\w*_\w+|[A-Z]?[a-z]+[A-Z]\w*|[\w/]+\.\w{2,4})\b")
STOP = frozenset(
    re.findall(
        r"\w+",
        """
        about according after anything before between called calls class code constant could default
        defaults defined defines definition does each file find from function give given have here
        how included into line looking make many method methods much name need number parameter part
        people place project right says some special tell than that their them there thing this used
        uses using value what when where which whose will with without work would
        """,
    )
)


@asynccontextmanager
async def retrieve(bench: Bench, setting: Setting) -> AsyncIterator[Ask]:
    """One search for the question's keywords, the best snippets, one answer."""
    models = await open_models(bench.models)
    try:
        async with _pool(bench, setting) as pool:
            search = pool.find("search_for_pattern")
            assert search is not None

            async def ask(question: str, ledger: Ledger) -> Answer:
                return await _retrieve(question, ledger, models, pool, search)

            yield ask
    finally:
        await models.aclose()


async def _retrieve(
    question: str, ledger: Ledger, models: Models, pool: UpstreamPool, search: ToolSpec
) -> Answer:
    wanted = keywords(question)
    if not wanted:
        return Answer("failed", "The question has no keywords.")
    ledger.tool_calls += 1
    found = await pool.call(
        search,
        {
            "substring_pattern": f"(?i)({'|'.join(map(re.escape, wanted))})",
            "context_lines_before": 3,
            "context_lines_after": 6,
            "max_answer_chars": 1_000_000,
        },
    )
    shown = snippets(found.text, wanted) if found.outcome is Outcome.SUCCESS else ""
    prompt = RETRIEVE_PROMPT.format(snippets=shown or "(nothing was found)", question=question)
    message: Message = {"role": "user", "content": prompt}
    reply = await models.full.chat(ChatRequest([message], max_tokens=300))
    ledger.add(reply.prompt_tokens, reply.cached_tokens, reply.generated_tokens)
    success = found.outcome is Outcome.SUCCESS
    called = (Called(search.upstream, search.name, {"keywords": wanted}, success),)
    return Answer("answered" if reply.text.strip() else "failed", reply.text, called, prompt)


def keywords(question: str) -> list[str]:
    """The identifiers that a question names, else its longer words without the common ones."""
    named = [quoted or plain for quoted, plain in _IDENTIFIER.findall(question)]
    plain = [word for word in re.findall(r"[^\W\d_]{4,}", question) if word.lower() not in STOP]
    return list(dict.fromkeys(named or plain))[:MAX_KEYWORDS]


def snippets(found: str, wanted: list[str]) -> str:
    """The search's blocks with the most and the rarest keywords, as many as there is room for."""
    try:
        blocks = [(path, block) for path, some in json.loads(found).items() for block in some]
    except (ValueError, AttributeError):
        return found[:SNIPPET_CHARACTERS]
    low = [f"{path}\n{block}".lower() for path, block in blocks]
    share = {word: sum(word.lower() in text for text in low) for word in wanted}
    score = [sum(1 / share[word] for word in wanted if word.lower() in text) for text in low]
    shown: list[str] = []
    seen: set[tuple[str, str]] = set()
    room = SNIPPET_CHARACTERS
    for index in sorted(range(len(blocks)), key=lambda index: -score[index]):
        path, block = blocks[index]
        # Each match has a block of its own, so that neighbours share most of their lines.
        lines = {(path, line[5:]): line for line in block.splitlines()}
        new = [line for key, line in lines.items() if key not in seen]
        seen |= set(lines)
        if not new:
            continue
        text = "\n".join([path, *new])[:room]
        shown.append(text)
        room -= len(text)
        if room <= 0:
            break
    return "\n\n".join(shown)


SYSTEMS: dict[str, System] = {"planloom": planloom, "native": native, "retrieve": retrieve}
SEARCHED: tuple[Family, ...] = ("lookup", "polyglot", "wild", "broad")
"""The families that `retrieve` is asked: their pools have a text search that finds the answer."""
