"""Which tools of a large pool the models are offered, and that the rest stays reachable."""

import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from in_memory import DictionaryPool, planned, spec
from replies import conclusion, found, move_on, nowhere, plan, stay
from scripted_ollama import FULL, Request, ScriptedOllama
from serving import Place, upstream

from benchmarks.tools.__main__ import table
from benchmarks.tools.data import Catalogue, Task, read
from planner.agent.planning import LIKELY_TOOLS
from planner.errors import ModelUnavailable
from planner.evidence.ranking import BM25
from planner.evidence.tool_ranking import MAX_SHOWN, REQUEST_TOOLS, STEP_TOOLS, Ranking
from planner.evidence.words import words
from planner.models.encoder import Encoder, Likeness
from planner.protocol import RunRequest
from planner.tools import ToolSpec

THINGS = ("boiler", "bridge", "engine", "signal", "ticket", "tunnel", "wagon", "wheel")
POOL = [
    spec(f"{thing}_{aspect}", "name", description=f"Tell the {aspect} of a {thing}.")
    for thing in THINGS
    for aspect in ("age", "owner", "price", "weight")
]


def offered(
    prompt: str,
    pool: Sequence[ToolSpec] = POOL,
    tool: str | None = None,
    encoder: Encoder | None = None,
) -> list[str]:
    request = RunRequest(prompt=prompt, tool=tool)
    return anyio.run(Ranking(pool, encoder).for_request, request)


def for_step(objective: str, pool: Sequence[ToolSpec] = POOL) -> list[str]:
    return anyio.run(Ranking(pool).for_step, objective)


def for_search(query: str, *shown: str, pool: Sequence[ToolSpec] = POOL) -> list[str]:
    return anyio.run(Ranking(pool).for_search, query, shown)


def ranked(query: str, pool: Sequence[ToolSpec], encoder: Encoder | None = None) -> list[ToolSpec]:
    return anyio.run(Ranking(pool, encoder).ranked, query)


def best(query: str, *tools: ToolSpec) -> str:
    return ranked(query, tools)[0].name


def test_a_search_brings_in_tools_that_are_not_shown_and_share_a_word() -> None:
    assert for_search("Wie schwer? weight, engine", "engine_age", pool=POOL)[0] == "engine_weight"
    assert "engine_age" not in for_search("weight engine", "engine_age")
    assert len(for_search("weight age price owner")) == STEP_TOOLS
    assert for_search("xyzzy") == []
    assert for_search("engine", *(tool.name for tool in POOL)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getHTTPResponse", ["gethttpresponse", "get", "http", "respons"]),
        ("list_all-files2", ["list_all", "list", "all", "files2", "file", "2"]),
        ("Listing FILES, listed", ["list", "file", "list"]),
        ("sing as bees", ["sing", "as", "bee"]),
        ("搜索引擎", ["搜索", "索引", "引擎"]),
        ("_- \n", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert list(words(text)) == expected


def test_a_small_pool_is_shown_whole_in_its_order() -> None:
    names = [tool.name for tool in POOL[:MAX_SHOWN]]
    assert offered("The weight of the engine", POOL[:MAX_SHOWN]) == names
    assert for_step("The weight of the engine", POOL[:MAX_SHOWN]) == []


def test_a_handful_of_a_large_pool_is_offered_the_best_first() -> None:
    names = offered("How much does the ticket cost? I want its price.")
    assert names[0] == "ticket_price"
    assert len(names) == REQUEST_TOOLS
    steps = for_step("Find the owners of the tunnel")
    assert steps[0] == "tunnel_owner"
    assert len(steps) == STEP_TOOLS


def test_name_description_and_parameters_all_count_and_the_name_most() -> None:
    described = spec("b", description="Weather: weather.")
    schema = {"properties": {"q": {"description": "The weather"}, "weather": True}}
    parameter = spec("c", input_schema=schema)
    assert best("weather", spec("a"), described) == "b"
    assert best("weather", spec("a"), parameter) == "c"
    named = spec("weather", description="Tells.")
    assert best("weather", described, parameter, named) == "weather"


def test_a_word_of_the_query_counts_once_wherever_it_stands() -> None:
    index = BM25([Counter("abc"), Counter("ab"), Counter("cab"), Counter("d")])
    assert index.scores("abc") == index.scores("cabbac")
    assert index.scores("ab")[1] > index.scores("ab")[0] > index.scores("ab")[3] == 0


@pytest.mark.parametrize(
    ("prompt", "tool", "named"),
    [
        ("What would zzz say of the engine?", None, True),
        ("Call files.zzz with the engine", None, True),
        ("`zzz`: the engine", None, True),
        ("The engine, by zzz.", None, True),
        ("请用zzz查询引擎", None, True),
        ("The engine", "zzz", True),
        ("请用zzzz查询引擎", None, False),
        ("The zzzz engine of the wheel", None, False),
        ("The engine in zzz.py and in my-zzz", None, False),
        ("Call other.zzz with the engine", None, False),
    ],
)
def test_a_tool_that_is_named_is_offered(prompt: str, tool: str | None, named: bool) -> None:
    others = [spec(f"zzz_{number}") for number in range(MAX_SHOWN)]
    pool = [*others, spec("zzz", description="Unrelated. " * 30)]
    names = offered(prompt, pool, tool)
    assert ("zzz" in names, names[0] == "zzz") == (named, named)
    assert len(names) == REQUEST_TOOLS + named


def test_every_tool_that_is_named_is_offered() -> None:
    names = [tool.name for tool in POOL]
    assert sorted(offered(" ".join(names))) == sorted(names)
    assert {"wheel_age", "tunnel_price"} <= set(for_step("wheel_age, tunnel_price"))


def test_equals_keep_the_pools_order_and_priority_lifts() -> None:
    same = [spec(name, description="Same.") for name in ("x", "y", "z")]
    assert ranked("same", same) == ranked("nothing like it", same) == same
    first, second = spec("read_log"), spec("read_file", priority=5)
    assert best("Read it", first, second) == "read_file"
    assert best("Read the log", first, second) == "read_log"


class Near:
    """Says that the texts with a word are near to anything."""

    def __init__(self, word: str) -> None:
        self.word = word

    async def likeness(self, question: str, texts: Sequence[str]) -> Likeness:
        return Likeness(scores=[float(self.word in text) for text in texts])


class Broken:
    async def likeness(self, question: str, texts: Sequence[str]) -> Likeness:
        raise ModelUnavailable("Install it again.")


def test_what_means_the_same_counts_more_among_those_that_share_a_word() -> None:
    mail = spec("search_mail", "query", description="Search the mail for a date.")
    day = spec("get_date", "day", description="The date of a day.")
    rain = spec("get_rain", description="How much rain falls.")
    asked = "the date in the letter"
    assert ranked(asked, [mail, day, rain])[0] == day
    assert ranked(asked, [mail, day, rain], Near("mail")) == [mail, day, rain]
    assert ranked(asked, [mail, day, rain], Near("rain"))[-1] == rain
    assert ranked(asked, [mail, day, rain], Broken())[0] == day


texts = st.text(max_size=40) | st.sampled_from(["engine_weight", "files.search", "İ ß 搜", "a.b-c"])
values = st.recursive(
    st.none() | st.booleans() | texts | st.integers(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
schemas = st.dictionaries(st.sampled_from(["properties", "type"]) | texts, values, max_size=3)
tools = st.builds(
    ToolSpec,
    name=texts,
    upstream=texts,
    description=texts,
    input_schema=schemas,
    priority=st.integers(),
)
pools = st.lists(tools, max_size=20, unique_by=lambda tool: tool.name)


@given(pools, texts)
@example([spec("a", priority=10**400), spec("b", priority=-(10**400))], "a b")
def test_a_ranking_is_a_permutation_of_the_pool_and_always_the_same(
    pool: list[ToolSpec], query: str
) -> None:
    found = ranked(query, pool)
    assert sorted(tool.name for tool in found) == sorted(tool.name for tool in pool)
    assert ranked(query, pool) == found
    assert ranked(f"{query} {query}", pool) == found


@given(pools, texts)
def test_what_is_offered_is_in_the_pool_and_once(pool: list[ToolSpec], query: str) -> None:
    brought = Ranking(pool).for_hint(query)
    assert brought == for_step(query, pool)
    for names in (offered(query, pool), brought):
        assert set(names) <= {tool.name for tool in pool}
        assert len(names) == len(set(names))
    assert len(offered(query, pool)) >= min(len(pool), REQUEST_TOOLS)


# Through the agent


@pytest.mark.anyio
async def test_the_models_choose_among_what_was_shown() -> None:
    pool = DictionaryPool({}, POOL, {"ticket_price": ["about 4 euros", "about 48 euros"]})
    ran = await planned(
        plan("engine_weight", objective="Find the price of the ticket"),
        {"tool": "ticket_price"},
        {"name": "day"},
        nowhere(),
        stay("ticket_price", "the price of a year"),
        {"name": "year"},
        found("It costs 48 euros."),
        pool=pool,
        prompt="What is the weight of the engine?",
    )
    assert [tool for tool, _ in pool.calls] == ["ticket_price", "ticket_price"]
    assert ran.state.started
    assert ran.state.brief
    at_first = [*ran.state.started.offered, *ran.state.brief.offered]
    brought = ran.state.steps[0].offered
    assert "ticket_price" in brought
    assert not {*brought} & {*at_first}
    enums = [enum for asked in ran.asked for enum in tool_enums(asked.schema)]
    assert enums == [
        [*at_first, None],
        ["engine_weight", *brought],
        *[[*at_first, *brought]] * 2,
    ]


def tool_enums(schema: Any) -> Iterator[list[str | None]]:
    """The names a schema lets a model choose from, wherever they stand in it."""
    if isinstance(schema, list):
        for part in schema:
            yield from tool_enums(part)
    elif isinstance(schema, dict):
        if isinstance(schema.get("tool"), dict):
            yield schema["tool"]["enum"]
        for part in schema.values():
            yield from tool_enums(part)


# Through the server


@pytest.fixture
def place(tmp_path: Path, ollama: ScriptedOllama) -> Iterator[Place]:
    place = Place(tmp_path, ollama, {"railway": upstream(mode="crowded")})
    yield place
    assert [process.cmdline() for process in place.processes()] == []


def listed(request: Request) -> list[list[str]]:
    """The names of the tools that each message of a prompt lists."""
    lines = [message["content"].splitlines() for message in request.messages]
    return [[line[2:].partition("(")[0] for line in each if "(name): " in line] for each in lines]


@pytest.mark.anyio
async def test_a_prompt_holds_a_handful_and_a_step_brings_its_own(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(plan("engine_weight", objective="Find the price of the ticket"))
    ollama.expect({"tool": "ticket_price"}, model=FULL, contains=["best for: Find the price"])
    ollama.expect({"name": "Monthly"})
    ollama.expect(nowhere())
    ollama.expect(move_on("engine_weight", "Find the owner of the tunnel"))
    ollama.expect({"tool": "tunnel_owner"}, model=FULL, contains=["best for: Find the owner"])
    ollama.expect({"name": "Gotthard"})
    ollama.expect(found("The owner is 1938."), contains=["tunnel Gotthard is"])
    ollama.expect(found("Gotthard"), contains=["tunnel Gotthard is"])
    async with place.client() as caller:
        result = await caller.call(
            "plan_and_answer", prompt="What is the weight of the engine Bertha?"
        )
    assert result.whole
    assert result.whole["status"] == "answered"
    started, *_ = caller.progress.events
    assert len(started["tools"]) > 60
    shown = f" read-only tools, {REQUEST_TOOLS} of them shown"
    assert any(message.endswith(shown) for message in caller.progress.messages)

    first, select, _, _, decide, select_again, _, answer, _ = ollama.requests
    system, request, *_ = first.messages
    assert "engine_weight" not in system["content"]
    handful = listed(first)[1]
    assert handful == started["offered"]
    assert handful[0] == "engine_weight"
    assert len(handful) == REQUEST_TOOLS
    assert "ticket_price" not in handful

    brought = listed(select)[-2]  # after the plan, before the question
    assert brought[0] == "ticket_price"
    assert not {*brought} & {*handful}
    same_model = [each for each in ollama.requests if each.model == FULL]
    until_the_decision = same_model[: same_model.index(decide) + 1]
    for before, after in pairwise(until_the_decision):
        kept = before.messages[:-1]  # all but the question
        assert after.messages[: len(kept)] == kept

    assert select_again.messages[:2] == [system, request]
    _, more, of_step_1, of_step_2 = [*filter(None, listed(select_again))]
    of_search, likeliest = more[:STEP_TOOLS], more[STEP_TOOLS:]
    assert not {*of_search} & {*handful}
    assert len(likeliest) == LIKELY_TOOLS  # that the plan was shown once more
    assert {*likeliest} <= {*handful, *of_search}
    assert of_step_1 == brought  # still there, though the step is complete
    assert of_step_2[0] == "tunnel_owner"
    assert answer.messages[: len(select_again.messages) - 1] == select_again.messages[:-1]


@pytest.mark.anyio
async def test_tools_beyond_the_handful_are_a_name_away(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect({"tool": "bridge_colour"}, model=FULL)
    ollama.expect({"name": "Bertha"})
    ollama.expect(conclusion("It is told."), contains=["The colour of the bridge Bertha is"])
    ollama.expect(conclusion("It is told."), contains=["The price of the ticket Monthly is"])
    prompt = "What is the weight of the engine Bertha?"
    async with place.client() as caller:
        await caller.call("run_step", prompt=f"{prompt} Try bridge_colour too.")
        assert listed(ollama.requests[0])[1][0] == "bridge_colour"
        result = await caller.call(
            "run_step", prompt=prompt, tool="ticket_price", arguments={"name": "Monthly"}
        )
    assert result.whole
    assert result.whole["answer"] == "It is told."


# The benchmark's data


def test_the_benchmark_reads_its_data_as_it_is(tmp_path: Path) -> None:
    servers = [
        {
            "server_name": server,
            "tools": [
                {"name": "look", "description": None, "parameter": {"q": "(string) What"}},
                {"name": f"go_{server}", "description": "Go.", "parameter": {"d": "(Optional, x)"}},
            ],
        }
        for server in ("a", "b")
    ]
    notes = {"Tools": "1. look\n2.gone \n\n3) go_b", "Steps": "1. Look at it\n 2. Go"}
    none = {"Tools": "1. gone", "Steps": "1. Vanish"}
    tasks = [
        {"task_id": str(number), "Question": "Go?", "Annotator Metadata": each}
        for number, each in enumerate((notes, none))
    ]
    with zipfile.ZipFile(tmp_path / "data.whl", "w") as archive:
        archive.writestr("baseline/annotation/x.json", json.dumps(tasks))
        for name in ("mcp_arg_y", "original_mcp_arg_y"):
            archive.writestr(f"baseline/mcp_copilot/config/{name}.json", json.dumps(servers))
    found = read(tmp_path / "data.whl")
    assert [tool.name for tool in found.tools] == ["look", "go_a", "b.look", "go_b"]
    assert [tool.input_schema["required"] for tool in found.tools] == [["q"], [], ["q"], []]
    assert found.tasks == [Task("0", "Go?", ("Look at it", "Go"), frozenset({"look", "go_b"}))]
    assert found.missing == ["gone", "gone"]


def test_the_benchmark_counts_the_needed_tools_among_the_first() -> None:
    needed = frozenset({"ticket_price", "tunnel_owner"})
    steps = ("The price of the ticket", "The owner of the tunnel")
    task = Task("1", "The price of the ticket, and what else I asked", steps, needed)
    lines = anyio.run(table, Catalogue(POOL, [task], []), [task], None).splitlines()
    assert lines[2].startswith("| by question, plain BM25 | ")
    assert lines[3].removeprefix("| by question, words alone ") == lines[4].removeprefix(
        "| by question, shipped "
    )
    assert lines[4].startswith("| by question, shipped | 0.50 |")
    assert lines[7].startswith("| by step, shipped | 1.00 (")
    assert lines[-3].startswith(f"| all tools | {len(POOL)}.0 | 1.00 |")
