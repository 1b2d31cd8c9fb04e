"""The argument routes: who writes a call's arguments, and the benchmark that compares them."""

import json
from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_memory import (
    LIST,
    READ,
    SEARCH,
    Asked,
    DictionaryPool,
    Fast,
    Script,
    Unconstrained,
    models,
    planned,
    spec,
)
from inline_snapshot import snapshot
from pydantic import ValidationError
from scripted_ollama import FAST, FULL, ScriptedOllama
from serving import (
    CLASS,
    CONSTANT,
    FUNCTION,
    LONG,
    SOURCE,
    conclusion,
    deep,
    found,
    move_on,
    nowhere,
    plan,
    stay,
)

from benchmarks.arguments.__main__ import ROUTES, measure, serena, table
from benchmarks.arguments.situations import SITUATIONS, Call, Situation, reads
from benchmarks.eval.systems import LOOP_TOOLS
from planner import agent, schemas
from planner.events import ArgumentsWritten
from planner.models import ArgumentRoute, Models
from planner.ollama import OllamaClient, OllamaModel
from planner.protocol import SELECTION, RunRequest, ToolChoice
from planner.ranking import MOST_SHOWN
from planner.tools import Outcome, ToolSpec

pytestmark = pytest.mark.anyio

QUESTION = f"What is {CLASS}, and in which file?"
ANSWER = f"`{CLASS}` is defined in jobs/secret.py, line 6."
FILE = {"path": "jobs/secret.py"}
GUIDE = {"path": "notes/guide.md"}


@pytest.fixture
def pool() -> DictionaryPool:
    return DictionaryPool({"jobs/secret.py": SOURCE, "notes/guide.md": "# Guide\n\nNothing.\n"})


def fused(decision: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """A decision whose tool carries its arguments."""
    (call,) = decision["tool_calls"]
    return decision | {"tool_calls": [[call["tool"], *arguments.values()]]}


def writers(events: list[Any]) -> list[str | None]:
    return [each.model for each in events if isinstance(each, ArgumentsWritten)]


# Routes with a call of its own


@pytest.mark.parametrize(
    ("route", "of_a_fast_tool", "of_another"),
    [("fast", "fast", "fast"), ("full", "full", "full"), ("by_tool", "fast", "full")],
)
async def test_the_route_says_who_writes_arguments(
    route: ArgumentRoute, of_a_fast_tool: str, of_another: str, pool: DictionaryPool
) -> None:
    def by(model: str, said: dict[str, Any]) -> Any:
        return Fast(said) if model == "fast" else said

    ran = await planned(
        nowhere(),
        plan(LIST.name),
        by(of_a_fast_tool, {"path": "jobs"}),
        nowhere(),
        stay(READ.name, "Read it"),
        by(of_another, FILE),
        found(ANSWER),
        pool=pool,
        prompt=QUESTION,
        route=route,
    )
    assert [model for role, model in ran.roles if role == "arguments"] == [
        of_a_fast_tool,
        of_another,
    ]
    assert pool.calls[1:] == [("list_dir", {"path": "jobs"}), ("read_file", FILE)]
    assert writers(ran.events) == [of_a_fast_tool, of_another]


@pytest.mark.parametrize(
    ("said", "guard"), [({"folder": "jobs"}, "arguments"), ("no JSON", "reply")]
)
async def test_what_the_fast_model_could_not_write_the_full_one_does(
    said: str | dict[str, Any], guard: str, pool: DictionaryPool
) -> None:
    ran = await planned(
        nowhere(),
        plan(READ.name),
        Fast(Unconstrained(said)),
        FILE,
        found(ANSWER),
        pool=pool,
        prompt=QUESTION,
        route="fast",
    )
    assert ran.roles[2:4] == [("arguments", "fast"), ("arguments", "full")]
    assert ran.guards == [guard]
    assert writers(ran.events) == ["full"]
    assert pool.calls[-1] == ("read_file", FILE)


# Decision and arguments in one call


async def test_a_fused_decision_carries_its_arguments(pool: DictionaryPool) -> None:
    ran = await planned(
        nowhere(),
        fused(plan("read_file", "Second"), **FILE),
        fused(stay("read_file", "Read the guide"), **GUIDE),
        fused(move_on("search", "Second"), pattern=FUNCTION, path=None),
        nowhere(),
        fused(stay("search", "Look for the value"), pattern=CONSTANT, path="jobs"),
        found(ANSWER),
        pool=pool,
        prompt=QUESTION,
        route="fused",
    )
    assert [role for role, _ in ran.roles] == [
        *("answer", "plan", "decide", "decide"),
        *("answer", "decide"),
        "answer",
    ]
    assert pool.calls[1:] == [
        ("read_file", FILE),
        ("read_file", GUIDE),
        ("search", {"pattern": FUNCTION}),
        ("search", {"pattern": CONSTANT, "path": "jobs"}),
    ]
    assert writers(ran.events) == ["full"] * 4
    assert (ran.state.status, ran.guards) == ("answered", [])


async def test_a_fused_decision_stands_in_later_prompts_as_it_was_said(
    pool: DictionaryPool,
) -> None:
    said = fused(plan("read_file"), **FILE)
    ran = await planned(
        nowhere(),
        said,
        nowhere(),
        fused(stay("read_file", "Read the guide"), **GUIDE),
        nowhere(),
        conclusion(ANSWER),
        pool=pool,
        prompt=QUESTION,
        route="fused",
    )
    replies = [each["content"] for each in ran.asked[-1].messages if each["role"] == "assistant"]
    assert json.dumps(said) in replies

    def kept(asked: Asked) -> list[Any]:
        return list(asked.messages[:-1])

    for before, after in pairwise(ran.asked):
        assert after.messages[: len(kept(before))] == kept(before)


async def test_the_fast_model_selects_with_arguments_too(pool: DictionaryPool) -> None:
    pool.specs = [READ, LIST]
    ran = await planned(
        Fast({"tool": ["list_dir", "jobs"]}),
        found("There is notes/guide.md."),
        pool=pool,
        prompt="Please greet me",
        route="fused",
    )
    assert ran.roles == [("select", "fast"), ("answer", "full")]
    assert pool.calls == [("list_dir", {"path": "jobs"})]
    assert writers(ran.events) == ["fast"]


async def test_a_fused_selection_may_need_no_tool(pool: DictionaryPool) -> None:
    pool.specs = [READ, LIST]
    ran = await planned(
        Fast({"tool": None}), conclusion("Hello."), pool=pool, prompt="Greet me", route="fused"
    )
    assert (ran.state.answer, pool.calls) == ("Hello.", [])


async def test_a_fused_selection_that_is_no_choice_is_redone_by_the_full_model(
    pool: DictionaryPool,
) -> None:
    pool.specs = [READ, LIST]
    ran = await planned(
        Fast(Unconstrained({"tool": {"read_file": FILE}})),
        {"tool": ["read_file", *FILE.values()]},
        found(f"`{CLASS}`"),
        pool=pool,
        prompt="Read jobs/secret.py",
        route="fused",
    )
    assert ran.roles[:2] == [("select", "fast"), ("select", "full")]
    assert ran.guards == ["reply"]
    assert writers(ran.events) == ["full"]


@pytest.mark.parametrize("first", ["fast", "full"])
async def test_fused_arguments_that_do_not_fit_are_written_in_a_call_of_their_own(
    first: str, pool: DictionaryPool
) -> None:
    wrong = ["read_file", ["jobs/secret.py"]]
    if first == "fast":
        pool.specs = [READ, LIST]
        decided: list[Any] = [Fast(Unconstrained({"tool": wrong}))]
    else:
        said = plan(wrong)
        decided = [nowhere(), Unconstrained(said)]
    ran = await planned(
        *decided,
        FILE,
        found("It is in jobs/secret.py."),
        pool=pool,
        prompt="See jobs/secret.py" if first == "fast" else QUESTION,
        route="fused",
    )
    assert ran.roles[-2:] == [("arguments", "full"), ("answer", "full")]
    assert "did not fit: path: ['jobs/secret.py'] is not of type 'string'" in ran.asked[-2].last
    assert ran.guards == ["arguments"]
    assert pool.calls[-1] == ("read_file", FILE)


def test_arguments_stand_in_order_or_by_name() -> None:
    schema = SEARCH.grammar
    assert schemas.by_name(["x", None], schema) == {"pattern": "x"}
    assert schemas.by_name(["x"], schema) == {"pattern": "x"}
    assert schemas.by_name([{"path": "jobs"}], schema) == {"path": "jobs"}
    assert schemas.by_name([], schema) is None
    assert schemas.by_name(["x", "jobs", "more"], schema) is None
    many = spec("many", *(f"p{n}" for n in range(schemas.MOST_IN_ORDER + 1))).grammar
    (named,) = schemas.in_order(many)
    assert list(named["properties"]) == [f"p{n}" for n in range(schemas.MOST_IN_ORDER + 1)]
    assert schemas.by_name([{"other": 1}], many) == {"other": 1}  # validation says what is wrong


async def test_guards_apply_to_fused_arguments(pool: DictionaryPool) -> None:
    ran = await planned(
        nowhere(),
        fused(plan("read_file"), path="src/secret.py"),
        nowhere(),
        fused(stay("read_file", "Once more"), **FILE),
        found(ANSWER),
        pool=pool,
        prompt=f"See {CLASS} in jobs/secret.py",
        route="fused",
    )
    assert ran.guards == ["path", "repeated"]
    assert pool.calls[1:] == [("read_file", FILE)]


async def test_near_misses_of_a_fused_call_are_put_right(pool: DictionaryPool) -> None:
    schema = {"type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"]}
    pool.specs = [spec("show", input_schema=schema)]
    pool.results = {"show": ["shown"]}
    ran = await planned(
        Fast(Unconstrained({"tool": ["show", "5"]})),
        found("It was shown."),
        pool=pool,
        prompt="Greet me",
        route="fused",
    )
    assert (pool.calls, ran.guards) == ([("show", {"line": 5})], ["coercion"])


async def test_an_invented_tool_does_not_exist_in_the_fused_route_either(
    pool: DictionaryPool,
) -> None:
    ran = await planned(
        nowhere(),
        Unconstrained(fused(plan("read_fiel"), **FILE)),
        found(ANSWER),
        pool=pool,
        prompt=QUESTION,
        route="fused",
    )
    _, outcome, result = ran.results[1]
    assert outcome is Outcome.ERROR
    assert result.startswith('The tool "read_fiel" does not exist.')


async def test_a_tool_too_large_to_be_fused_gets_a_call_of_its_own(pool: DictionaryPool) -> None:
    many = [f"parameter_{number}?" for number in range(400)]
    pool.specs = [spec("huge", *many), READ, spec("now")]
    pool.results = {"huge": ["It is huge."], "now": ["12 o'clock"]}
    ran = await planned(
        Fast({"tool": ["huge"]}),
        {"parameter_7": "seven"},
        nowhere(),
        plan(["now"]),
        found("12 o'clock"),
        pool=pool,
        prompt="Greet me",
        route="fused",
    )
    assert ran.roles[1] == ("arguments", "full")
    assert pool.calls == [("huge", {"parameter_7": "seven"}), ("now", {})]


async def test_more_of_a_cut_result_is_fused_too(pool: DictionaryPool) -> None:
    pool.files["jobs/long.py"] = "".join(f"number_{n} = {CLASS}()\n" for n in range(400))
    more = {"from_line": 60, "iteration": 1}
    ran = await planned(
        nowhere(),
        fused(plan("read_file"), path="jobs/long.py"),
        nowhere(),
        fused(stay("see_more", "See the rest"), **more),
        found(ANSWER),
        pool=pool,
        prompt=QUESTION,
        route="fused",
    )
    tool, outcome, result = ran.results[-1]
    assert (tool, outcome) == ("see_more", Outcome.SUCCESS)
    assert result.startswith("number_59 = ")


@pytest.mark.parametrize("better", ["ticket_price", "tunnel_owner"])
async def test_a_step_that_brings_tools_in_keeps_the_fused_arguments_of_its_tool(
    better: str,
) -> None:
    things = ["bridge_colour", "ticket_price", "train_age", "tunnel_owner"]
    fillers = [spec(f"filler_{n}", description="Nothing.") for n in range(20)]
    specs = [*fillers, *(spec(each, "name", description=each.replace("_", " ")) for each in things)]
    pool = DictionaryPool({}, specs, results={each: ["Monthly: 40"] * 2 for each in things})
    said = fused(plan("ticket_price"), name="Monthly")
    said["objective"] = "The owner of the tunnel"
    written = [{"name": "Monthly"}] if better != "ticket_price" else []
    ran = await planned(
        Fast({"tool": ["ticket_price", "Weekly"]}),
        nowhere(),
        said,
        {"tool": better},
        *written,
        found("It is 40."),
        pool=pool,
        prompt="The price of the ticket, please",
        route="fused",
    )
    assert pool.calls[-1] == (better, {"name": "Monthly"})
    assert ("select", "full") in ran.roles
    assert (("arguments", "full") in ran.roles) == (better != "ticket_price")


# What the model may write


def test_what_a_fused_decision_is_constrained_to() -> None:
    choice = schemas.calls([SEARCH, READ])
    assert choice == snapshot(
        {
            "anyOf": [
                {
                    "type": "array",
                    "prefixItems": [
                        {"const": "search"},
                        {"type": "string", "maxLength": 400},
                        {"anyOf": [{"type": "string", "maxLength": 400}, {"type": "null"}]},
                    ],
                    "minItems": 3,
                    "maxItems": 3,
                },
                {
                    "type": "array",
                    "prefixItems": [{"const": "read_file"}, {"type": "string", "maxLength": 400}],
                    "minItems": 2,
                    "maxItems": 2,
                },
            ]
        }
    )
    planned_calls = schemas.plan(choice, assessed=False)["properties"]["tool_calls"]
    _, stayed, moved = schemas.iteration_decision(choice, "fast")["anyOf"]
    moved_calls = moved["properties"]["tool_calls"]
    assert planned_calls == stayed["properties"]["tool_calls"] == moved_calls
    assert planned_calls["items"] == choice
    assert list(stayed["properties"]) == snapshot(["decision", "later_steps", "tool_calls"])
    assert schemas.selection(schemas.or_none(choice)) == {
        "type": "object",
        "properties": {"tool": {"anyOf": [*choice["anyOf"], {"type": "null"}]}},
        "required": ["tool"],
        "additionalProperties": False,
    }


async def test_a_whole_small_pool_fused_is_taken_by_the_server(pool: DictionaryPool) -> None:
    more = MOST_SHOWN - len(LOOP_TOOLS)
    pool.specs = [*serena(), *(spec(f"of_{n}", *"abcdef") for n in range(more))]
    pool.results = {"read_file": [SOURCE]}
    call = ["read_file", "jobs/secret.py", None, None]
    said = plan(call)
    again = stay(["find_symbol", "x", None, None], "Its body")
    pool.results["find_symbol"] = [SOURCE]
    with ScriptedOllama() as ollama:
        ollama.expect({"tool": call}, model=FAST)
        ollama.expect(nowhere(), model=FULL)
        ollama.expect(said, model=FULL)
        ollama.expect(nowhere(), model=FULL)
        ollama.expect(deep(again), model=FULL)
        ollama.expect(found(f"`{CLASS}`"), model=FULL)
        client = OllamaClient(ollama.url)
        fast, full = (OllamaModel(name, client, context_tokens=8192) for name in (FAST, FULL))
        try:
            with anyio.fail_after(LONG):
                request = RunRequest(prompt="Please greet jobs/secret.py")
                state = await agent.run(
                    request, Models(fast, full, "fused"), pool, lambda event: None
                )
        finally:
            await full.aclose()
            await fast.aclose()
    assert state.status == "answered"
    for asked in ollama.requests:
        assert len(json.dumps(asked.schema)) < 3 * schemas.LARGEST_CALLS


tool_schemas = st.recursive(
    st.sampled_from([{}, True, {"type": "string"}, {"$ref": "#"}, {"enum": [1, "a"]}]),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", ["string", "null"], 5]),
            "properties": st.dictionaries(st.text(max_size=5), inner, max_size=4),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "required": st.lists(st.text(max_size=5), max_size=2),
            "maxLength": st.integers(0, 10**6),
        },
    ),
    max_leaves=9,
).filter(lambda schema: isinstance(schema, dict))


@given(
    st.lists(
        st.builds(
            lambda name, schema, wide: spec(
                name,
                input_schema=schema
                if not wide
                else {"properties": {f"{name}{n}": schema for n in range(wide)}},
            ),
            st.from_regex(r"[\w.-]{1,12}", fullmatch=True),
            tool_schemas,
            st.sampled_from([0, 0, 0, 9, 90, 900]),
        ),
        min_size=1,
        max_size=40,
        unique_by=lambda tool: tool.name,
    )
)
def test_any_tools_make_a_choice_of_bounded_size(tools: list[ToolSpec]) -> None:
    choice = schemas.calls(tools)
    branches = [branch["prefixItems"] for branch in choice["anyOf"]]
    assert [branch[0] for branch in branches] == [{"const": tool.name} for tool in tools]
    carried = [
        json.dumps(value, separators=(",", ":")) for _, *values in branches for value in values
    ]
    assert sum(map(len, carried)) <= schemas.LARGEST_CALLS


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=9), inner, max_size=2)
        ),
        max_leaves=5,
    )
)
def test_a_choice_is_a_name_or_a_list_that_a_name_begins(said: Any) -> None:
    try:
        chosen = SELECTION.validate_python({"tool": said}).tool
    except ValidationError:
        assert not isinstance(said, str)
        assert said is not None
        return
    match said:
        case None:
            assert chosen is None
        case str():
            assert chosen == ToolChoice(said)
        case _:
            assert chosen
            assert [chosen.name, *chosen.values] == said


# The benchmark


def test_every_situation_has_a_right_call_that_fits_its_tool() -> None:
    specs = {tool.name: tool for tool in serena()}
    assert sorted(specs) == sorted(LOOP_TOOLS)
    assert len(SITUATIONS) == 24
    assert len({each.request for each in SITUATIONS}) == len(SITUATIONS)
    for situation in SITUATIONS:
        assert situation.right
        for right in situation.right:
            properties = specs[right.tool].input_schema["properties"]
            assert right.arguments.keys() <= properties.keys(), situation
        if situation.before:
            assert not any(right.allows(situation.before) for right in situation.right), situation


@pytest.mark.parametrize(
    ("path", "right"),
    [("jobs/a.py", True), ("./jobs/a.py", True), ("a.py", False), ("jobs/a.pyx", False)],
)
def test_a_call_is_right_by_all_its_arguments(path: str, right: bool) -> None:
    expected = reads("jobs/a.py", start_line="3")
    made = {"relative_path": path, "start_line": 3, "end_line": 9}
    assert expected.allows(Call("read_file", made)) is right
    assert not expected.allows(Call("read_file", made | {"start_line": 4}))
    assert not expected.allows(Call("get_symbols_overview", made))


@pytest.mark.parametrize("route", ROUTES)
async def test_a_situation_is_measured_from_the_decision_to_its_call(route: ArgumentRoute) -> None:
    situation = next(each for each in SITUATIONS if each.before)
    read = {"relative_path": "jobs/lekum.py"}
    turns: list[Any] = [plan("read_file")]
    if route == "fused":
        turns = [fused(plan("read_file"), **read, start_line=None, end_line=None)]
    else:
        turns.append(Fast(read) if route == "fast" else read)
    script = Script(turns)
    measured = await measure(situation, models(script.reply, 8192, route))
    assert script.turns == []
    assert measured.call == Call("read_file", read)
    assert (measured.right, measured.escalations) == (True, 0)
    assert measured.ledger.model_calls == len(script.asked)
    assert situation.result.splitlines()[0] in script.asked[0].text


async def test_a_situation_at_the_start_and_a_wrong_call_are_measured(
    pool: DictionaryPool,
) -> None:
    situation = Situation("What does README.md say?", (reads("README.md"),))
    script = Script(
        [
            Fast({"tool": "read_file"}),
            Fast(Unconstrained({"file": "README.md"})),
            {"relative_path": "settings.yaml"},
        ]
    )
    measured = await measure(situation, models(script.reply, 8192, "fast"))
    assert (measured.right, measured.right_tool, measured.escalations) == (False, True, 1)
    assert measured.ledger.model_calls == 3
    head, _, row, *_, start = table([measured]).splitlines()
    assert head.startswith("| route | situations | right | right tool | fit at first |")
    assert row.startswith("| fast | 1 | 0 | 1 | 0 | 1 | 3.0 |")
    assert start == "| at the start | 0/1 |"
