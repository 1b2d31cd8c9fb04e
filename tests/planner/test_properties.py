"""What holds for every run, every schema and every result, whatever was said."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from in_memory import LIST, READ, SEARCH, WRITE, DictionaryPool, models, spec
from planted import SOURCE
from serving import LONG

from planner import agent, grammar
from planner.actions import MAX_RESULT_CHARS, Action, actions, attempts
from planner.agent.gathering import MAX_FILES, MAX_SINGLE
from planner.agent.reading import READINGS
from planner.checks import validation
from planner.checks.agreement import agree
from planner.errors import ContextExceeded, ModelError, ModelUnavailable, RequestError
from planner.events import (
    ALONE,
    ASIDE,
    EVENT,
    TRIES,
    Event,
    ModelCalled,
    RunContinued,
    RunFinished,
    StepConcluded,
    ToolReturned,
)
from planner.evidence import context, hits
from planner.evidence.search_terms import MAX_TERMS, search_terms
from planner.inbox import Inbox
from planner.models.base import Message, Reply
from planner.prompts import BEFORE_ACTING, without_questions
from planner.prompts.texts import fenced
from planner.protocol import Goal, Limits, RunRequest, Steering
from planner.state import RunState, plain, skipped
from planner.tools import Outcome, Safety, ToolResult, ToolSpec

"""Of one look-up, each with fewer words than the one before."""
PHRASES = [
    "",
    " ",
    "jobs/secret.py",
    "line 6",
    "</result>",
    "search",
    "$x ${y} $$",
    "a\nb",
    "\u2028",
]
words = st.text(max_size=30) | st.sampled_from(PHRASES)
lines = st.lists(
    st.sampled_from([*SOURCE.splitlines(), "jobs/secret.py:6:class A:", "</Result >", "x" * 700])
    | words,
    max_size=40,
).map("\n".join)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)
phrases = st.sampled_from(PHRASES)
"""Short to draw: a run takes many, and a run that is cut off holds little."""
READ_WHOLE = spec("read_file", "path", priority=1, file_argument="path")
CROWD = [
    *(spec(f"filler_{number}") for number in range(9)),
    *(spec(f"about_{number}", description=each) for number, each in enumerate(PHRASES)),
    *(SEARCH, READ, LIST, WRITE),
]
"""More tools than are shown at once; a step with one of the phrases brings in those about it."""
RESULTS = (
    SOURCE,
    "jobs/secret.py:6:class A:\njobs/secret.py:7:  B_C_D",
    '{"a": [1]}',
    "</Result >",
)
results = st.builds(
    ToolResult,
    outcome=st.sampled_from([*[Outcome.SUCCESS] * 9, *Outcome]),
    text=st.sampled_from([*RESULTS, *RESULTS, "", '{"files": []}', "x" * 9000]),
)


def said(schema: Any) -> st.SearchStrategy[Any]:
    """A value that the schema lets through; more often one that goes on than one that ends."""
    if schema is None:
        return st.sampled_from(["-", f"- {SOURCE}", "Here it is:\n1. `A` is 6.\n2. `B` is 7."])
    if "anyOf" in schema:
        first, *others = [said(branch) for branch in schema["anyOf"]]
        return st.one_of([first, *others, *others, *others])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(
            [*schema["enum"], *[each for each in schema["enum"] if each == "nowhere"] * 4]
        )
    match schema.get("type"):
        case "object":
            required = schema.get("required", [])
            fields = {name: said(part) for name, part in schema.get("properties", {}).items()}
            return st.fixed_dictionaries(
                {name: field for name, field in fields.items() if name in required},
                optional={name: field for name, field in fields.items() if name not in required},
            )
        case "array":
            return st.lists(said(schema["items"]), min_size=schema.get("minItems", 0), max_size=3)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "string":
            return phrases
        case _:
            return scalars


MAX_LOOKED_UP = READINGS * (1 + MAX_SINGLE + MAX_FILES)
"""Calls of the planner's own for one request."""


class AnyPool(DictionaryPool):
    """Its tools answer anything."""

    def __init__(self, data: st.DataObject, specs: list[ToolSpec]) -> None:
        super().__init__({"jobs/secret.py": SOURCE}, specs)
        self.data = data

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        assert tool.safety is Safety.READ_ONLY
        return self.data.draw(results, label=tool.name)


class AnyInbox(Inbox):
    """Says anything to a run, now and then, and asks a run of single steps for more."""

    def __init__(self, data: st.DataObject, events: list[Event], goal: Goal) -> None:
        self.data, self.events = data, events
        self.left = 0 if goal == "answer" else data.draw(st.sampled_from([0, 0, 1, 3]))

    def steering(self) -> Sequence[Steering]:
        if self.data.draw(st.sampled_from([True] * 9 + [False]), label="silent"):
            return []
        later = RunState.of(self.events).later_steps
        steps = st.lists(st.sampled_from([*later, "Gone"]), max_size=2)
        return [Steering(hint=self.data.draw(phrases), skip=self.data.draw(steps), order=later[1:])]

    def next_request(self) -> RunContinued | None:
        if not self.left:
            return None
        self.left -= 1
        goals: list[Goal] = ["step", "step", "conclude"]
        goal = self.data.draw(st.sampled_from(goals))
        request = RunRequest(prompt="And then?", goal=goal, limits=Limits(seconds=LONG))
        return RunContinued(request=request, spent=0.0, paused=0.0)


def run(data: st.DataObject) -> tuple[RunRequest, list[Event], list[tuple[int, list[Message]]]]:
    """A run whose models and tools do anything: its events, and each prompt that was answered,
    with the number of the events before it."""
    events: list[Event] = []
    asked: list[tuple[int, list[Message]]] = []

    async def answer(name: str, messages: Sequence[Message], schema: Any) -> Reply:
        kind = data.draw(st.sampled_from(["said"] * 24 + ["no JSON", "long", "fault"]))
        if kind == "fault":
            raise data.draw(st.sampled_from([ModelError("no"), ModelUnavailable("gone")]))
        if kind == "long":
            raise ContextExceeded("too long")
        text = "No JSON" if kind == "no JSON" else json.dumps(data.draw(said(schema), label=kind))
        if "answer_again" not in (schema or {}).get(
            "properties", {}
        ):  # it is asked as if it were first
            asked.append((len(events), list(messages)))
        return Reply(text=text, prompt_tokens=300, generated_tokens=9)

    specs = data.draw(
        st.sampled_from(
            [*[[SEARCH, READ_WHOLE, LIST, WRITE]] * 5, CROWD, CROWD, [READ, LIST], [WRITE], []]
        )
    )
    request = RunRequest(
        prompt=data.draw(st.sampled_from(["Where is `run` in jobs/secret.py?", "Greet me", "?"])),
        goal=data.draw(st.sampled_from([*["answer"] * 8, "plan", "step"])),
        limits=Limits(
            iterations=data.draw(st.sampled_from([10, 9, 5, 2, 1])), model_tokens=6000, seconds=LONG
        ),
    )
    if request.goal == "plan" and not any(tool.safety is Safety.READ_ONLY for tool in specs):
        request = request.model_copy(update={"goal": "answer"})

    async def main() -> RunState:
        pool = AnyPool(data, specs)
        inbox = AnyInbox(data, events, request.goal)
        return await agent.run(request, models(answer, 4000), pool, events.append, inbox=inbox)

    state = anyio.run(main)
    event(f"{len(asked)} prompts, {len(state.steps)} steps")
    assert RunState.of(events) == state
    return request, events, asked


@given(st.data())
def test_any_run(data: st.DataObject) -> None:
    """Runs are what takes time here, so that each is looked at in every way."""
    request, events, asked = run(data)
    ends_once_and_within_its_limits(request, events)
    is_the_fold_of_any_part(events)
    has_actions_that_are_a_fold(events[: data.draw(st.integers(0, len(events)))])
    has_prompts_that_only_grow(events, asked)


def ends_once_and_within_its_limits(request: RunRequest, events: list[Event]) -> None:
    state = RunState.of(events)
    ends = [each for each in events if isinstance(each, RunFinished)]
    assert len(ends) == len(state.parts)
    assert ends[-1] == events[-1]
    assert all(end.answer.strip() for end in ends) or request.goal == "plan"
    most = request.limits.iterations if request.goal == "answer" else request.limits.iterations + 1
    for number in range(len(state.parts)):
        own = [each for each in state.iterations if each.part == number]
        looked_up = [each for each in own if each.by == "lookup"]
        assert len(own) - len(looked_up) <= most
        assert len(looked_up) <= MAX_LOOKED_UP
    for taken in state.steered:
        assert not {plain(step) for step in state.later_steps} & skipped([taken.said])
    before = state.iterations[: len(state.iterations) - len(state.newest)]
    assert all(each.outcome is not None for each in before)
    numbers = [each.number for each in events if isinstance(each, StepConcluded)]
    assert numbers == sorted(set(numbers))
    if ends[-1].status == "answered" and state.parts[-1].request.goal != "plan":
        assert state.unsupported == []


def is_the_fold_of_any_part(events: list[Event]) -> None:
    wire = [EVENT.validate_json(EVENT.dump_json(each)) for each in events]
    assert wire == events
    state = RunState()
    for number, each in enumerate(events):
        state.apply(each)
        assert RunState.of(wire[: number + 1]) == state


def has_actions_that_are_a_fold(events: list[Event]) -> None:
    state = RunState.of(events)
    done = actions(state)
    assert [each.iteration for each in done] == list(range(len(state.iterations)))
    for each in done:
        assert Action.model_validate_json(each.model_dump_json()) == each
        assert datetime.fromisoformat(each.timestamp).tzinfo is UTC
        assert each.mode == "deep" or not (each.planning or each.reflection)
        assert all(len(call.result) <= MAX_RESULT_CHARS for call in each.tool_calls)
    assert actions(RunState.of(events)) == done
    lines = attempts(done)
    assert all(line.splitlines() == [line] for line in lines)
    assert len(lines) <= len(done)
    assert not [field for field in vars(state) if field in ("actions", "attempts")]


def has_prompts_that_only_grow(events: list[Event], asked: list[tuple[int, list[Message]]]) -> None:
    for (before, first), (after, second) in pairwise(asked):
        between = events[before:after]
        if any(each.type == "guard_tripped" and each.guard == "context" for each in between):
            continue  # results are shown shorter from here on
        if any(each.type in ("context_compressed", "run_continued") for each in between):
            continue  # the past is told in short, or what is asked is another thing now
        state = RunState.of(events[:before])
        if state.iterations and state.iterations[-1] not in state.shown_iterations:
            continue  # what was asked about it is not shown either
        roles = [each.role for each in events[before:] if isinstance(each, ModelCalled)][:2]
        if RunState.of(events[:after]).wants == "action" and {*roles} & {*BEFORE_ACTING}:
            continue  # an action is planned on a prompt of its own
        if roles[0] in TRIES and roles[1:] == ["answer"]:
            continue  # it is asked again as if it had not been asked
        if {*roles} & {*ALONE}:
            continue  # it is asked without what was before
        failed = [each for each in state.shown_iterations if each.outcome is Outcome.FAILURE]
        returned = [each for each in between if isinstance(each, ToolReturned)]
        if failed and any(each.outcome is Outcome.SUCCESS for each in returned):
            continue  # a look-up that failed is not shown on once one has found something
        newest = state.iterations[-1] if state.iterations else None
        if newest and roles[0] == "answer" and {*TRIES} & {each.role for each in newest.exchange}:
            continue  # it did not see the try before, and what follows does
        tried = [each.role for each in newest.exchange] + roles[:1] if newest else []
        if newest and newest.gathered and {*tried} & {*TRIES}:
            continue  # it is read from the likeliest passages; if not certain, it is not shown on
        assert second[: len(first) - 1] == first[:-1]
        called = [each for each in between if isinstance(each, ModelCalled)]
        (call,) = [each for each in called if each.role != "again"]
        pending = first[-1]["content"].removesuffix(call.question).rstrip("\n")
        assert second[len(first) - 1]["content"].startswith(pending)
        # What is asked before the first call for a later request is told in it, and not kept.
        if call.role not in ASIDE and (len(state.parts) == 1 or state.part_iterations):
            assert second[len(first) - 1] == first[-1]
            told = [call.reply, *([without_questions(call.reply)] if call.role == "brief" else [])]
            assert second[len(first)]["role"] == "assistant"
            assert second[len(first)]["content"] in told


# Schemas

kinds = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
references = st.sampled_from(
    ["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/none", "http://x"]
)
names = st.sampled_from(["a", "b", "path"])


def schema_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": kinds | st.lists(kinds, min_size=1, max_size=3, unique=True),
            "$ref": references,
            "properties": st.dictionaries(names, inner, max_size=3),
            "required": st.lists(names, max_size=2, unique=True),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "enum": st.lists(scalars, min_size=1, max_size=3),
            "const": scalars,
            "maxLength": st.integers(0, 10**6),
            "minLength": st.integers(0, 9),
            "maxItems": st.integers(0, 10**6),
            "minItems": st.integers(0, 9),
            "minimum": st.integers(),
            "pattern": st.sampled_from(["a", "^a$", "(", r"\d"]),
            "additionalProperties": inner,
            "default": scalars,
            "description": words,
        },
    )


subschemas = st.recursive(st.booleans() | schema_of(st.booleans()), schema_of, max_leaves=6)
tool_schemas = st.builds(
    lambda schema, definitions: schema | {"$defs": definitions},
    schema_of(subschemas),
    st.dictionaries(st.sampled_from(["a", "b"]), subschemas, max_size=2),
)
cycle = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/a"}, "b": True, "path": False},
    "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
}
tree = {
    "properties": {"a": {"$ref": "#/$defs/a"}},
    "$defs": {"a": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/a"}}, {"$ref": "#"}]}},
}
arguments = st.dictionaries(names | words, values, max_size=4)


def parts(schema: Any) -> list[Any]:
    """A schema and all schemas in it."""
    if not isinstance(schema, dict):
        return [schema]
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    inner += [schema["items"]] if "items" in schema else []
    return [schema, *(each for part in inner for each in parts(part))]


@given(tool_schemas, arguments)
@example(cycle, {"a": [1]})
@example(tree, {"a": [[[]]]})
@example({"type": "object", "properties": {"a": {"const": float("inf")}}}, {})
def test_any_schema_becomes_one_that_a_grammar_takes_and_checks_any_arguments(
    schema: dict[str, Any], written: dict[str, Any]
) -> None:
    simple = grammar.for_grammar(schema)
    json.dumps(simple, allow_nan=False)  # as it is sent
    for part in parts(simple):
        assert isinstance(part, dict)
        assert not part.keys() & {"$ref", "$defs", "allOf", "oneOf", "pattern", "description"}
        assert part.get("maxLength", 0) <= grammar.MAX_STRING_CHARS
        assert part.get("maxItems", 0) <= grammar.MAX_ITEMS
        assert not ("anyOf" in part and "properties" in part)
    corrected = validation.coerced(written, schema)
    assert corrected.keys() <= written.keys()
    assert validation.coerced(corrected, schema) == corrected
    told = validation.problem(corrected, schema)
    assert told is None or 0 < len(told) <= 300


@given(values, values)
def test_what_is_no_schema_at_all_raises_nothing(schema: Any, properties: Any) -> None:
    broken = {"type": schema, "properties": properties, "required": schema, "anyOf": properties}
    for each in (broken, {"type": "object", "properties": {"a": broken}}):
        grammar.for_grammar(each)
        validation.problem(validation.coerced({"a": "1"}, each), each)


@given(tool_schemas, st.data())
@example(cycle, None)
@example(tree, None)
def test_any_schema_of_data_is_met_or_refused_or_said_not_to_fit(
    schema: dict[str, Any], data: st.DataObject | None
) -> None:
    said_of_it = "In jobs/secret.py."

    async def answer(name: str, messages: Sequence[Message], wire: Any) -> Reply:
        value: Any = {"assessment": "", "final_answer": said_of_it, "found_in": "results"}
        asked = {name for branch in wire.get("anyOf", [wire]) for name in branch["properties"]}
        if "wants" in asked:
            value = {"search": ["run"], "wants": "short answer"}
        elif "answer_again" in asked:
            value = {"answer_again": said_of_it}
        elif "data" in asked:
            value = data.draw(said(wire) | values) if data else {"data": {"a": [[1]]}}
        return Reply(text=json.dumps(value), prompt_tokens=300, generated_tokens=9)

    async def main() -> RunState:
        request = RunRequest(prompt="Where is `run` in jobs/secret.py?", data_schema=schema)
        pool = DictionaryPool({"jobs/secret.py": SOURCE})
        return await agent.run(request, models(answer, 8000), pool, lambda _: None)

    if validation.data_schema_problem(schema):
        event("refused")
        with pytest.raises(RequestError, match=r"^data_schema: "):
            anyio.run(main)
        return
    state = anyio.run(main)
    event(f"{state.status}, {'data' if state.data is not None else 'no data'}")
    if state.status == "answered":
        assert validation.problem(state.data, schema) is None
    else:
        assert (state.status, bool(state.reason)) == ("partial", True)
    assert state.answer == said_of_it


# Results


@given(lines, st.integers(100, 2000), st.sets(st.sampled_from(["class", "run", "return"])))
def test_what_is_shown_of_a_result_is_within_its_bound(
    text: str, longest: int, wanted: set[str]
) -> None:
    shown = context.shortened(text, longest, wanted, 3)
    assert len(shown) <= longest
    if len(text) <= longest and max(map(len, text.splitlines()), default=0) <= 300:
        assert shown == "\n".join(text.splitlines())


@given(st.integers(100, 2000), st.integers(1, 3000))
def test_short_lines_apart_are_within_the_bound_too(longest: int, count: int) -> None:
    text = "\n".join("run" if number % 2 else "x" for number in range(count))
    assert len(context.shortened(text, longest, {"run"}, 3)) <= longest


@given(lines, st.integers(500, 2000))
def test_every_line_of_a_result_can_be_seen(text: str, longest: int) -> None:
    rows = context.lines(text)
    seen: list[str] = []
    while len(seen) < len(rows):
        shown = context.part(text, len(seen) + 1, longest, 3)
        assert len(shown) <= longest
        fresh = shown.split("\n")
        if context.left_out(shown):
            assert f'"from_line":{len(seen) + len(fresh)},"iteration":3' in fresh.pop()
        seen += fresh
    assert seen == rows
    assert context.part(text, len(rows) + 1, longest, 3) == ""


@given(st.lists(st.text(max_size=300), max_size=60), st.integers(120, 3000))
def test_rows_within_a_bound_lose_only_the_ends_of_the_longest(
    rows: list[str], longest: int
) -> None:
    kept = context.within(rows, longest)
    assert sum(len(row) + 1 for row in kept) <= longest
    if sum(len(row) + 1 for row in rows) <= longest:
        assert kept == rows
    cut = [row for row, short in zip(rows, kept, strict=True) if row != short]
    whole = [row for row, short in zip(rows, kept, strict=True) if row == short]
    assert max(map(len, whole), default=0) <= min(map(len, cut), default=300)


searched = st.lists(
    st.builds(
        lambda path, number, line: f"{path}:{number}:{line}",
        st.sampled_from(["a.py", "b/test_c.py"]),
        st.integers(1, 60),
        st.sampled_from([*SOURCE.splitlines(), "x" * 5000]) | words,
    ),
    max_size=60,
).map("\n".join)


@given(searched | lines | values.map(json.dumps) | st.text())
def test_any_result_of_a_search_is_read(result: str) -> None:
    found = hits.of_search(result)
    assert len(found) == len(set(found))
    passages = hits.as_passages(found)
    places = [(each.source, each.first, each.last) for each in passages]
    assert places == sorted(set(places))
    held = {(path, n) for path, first, last in places for n in range(first, last + 1)}
    assert held == {(hit.path, hit.line) for hit in found}


@given(st.text() | st.lists(phrases, max_size=6).map(" ".join) | st.text("aA_.`'\" ?", max_size=80))
def test_any_request_is_searched_for(request: str) -> None:
    terms = search_terms(request, [request])
    assert len(terms) <= MAX_TERMS
    re.compile("|".join(map(re.escape, terms)))


@given(st.text() | lines, st.text() | lines)
def test_an_answer_agrees_with_itself_and_both_ways(first: str, second: str) -> None:
    assert agree(first, first, "What is it?")
    assert agree(first, second, "What?") == agree(second, first, "What?")


@given(values.map(json.dumps) | lines | st.text())
def test_any_result_is_readable(result: str) -> None:
    assert isinstance(context.readable(result), str)


@pytest.mark.parametrize("depth", [10, 200, 400, 800, 960, 5000])
@pytest.mark.parametrize(
    "around", [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]"), ('[1,{"b":[],"a":', "}]")]
)
def test_a_deep_result_is_readable(depth: int, around: tuple[str, str]) -> None:
    opens, closes = around
    assert context.readable(opens * depth + "1" + closes * depth)


@given(st.text() | lines | st.from_regex(r"(?i)<\s?/?\s?result\s?>?.{0,9}"))
def test_a_strangers_text_cannot_close_its_fence(text: str) -> None:
    assert not re.search("</?result", fenced(text), re.IGNORECASE)


@pytest.mark.parametrize(
    "node",
    [
        {"type": "string", "pattern": r"^(?!-)\p{L}+$"},
        {"type": "number", "minimum": 0, "exclusiveMinimum": True},
    ],
)
def test_what_no_engine_here_knows_is_left_to_the_tool(node: Any) -> None:
    """Patterns of ECMAScript, and the flags of JSON Schema's draft 4."""
    value: Any = "a" if node["type"] == "string" else 1
    assert validation.problem({"a": value}, {"type": "object", "properties": {"a": node}}) is None


def test_a_schema_of_many_ifs_is_not_checked_for_hours() -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {"if": True, "then": {"$ref": f"#/$defs/d{n + 1}"}, "$ref": f"#/$defs/d{n + 1}"}
        for n in range(40)
    }
    schema = {"unevaluatedProperties": False, "$ref": "#/$defs/d0", "$defs": definitions}
    schema["$defs"]["d40"] = {}  # type: ignore[index]
    told = validation.problem({"x": 1}, schema)
    assert told == "the schema itself cannot be used (OverflowError)"


def test_a_property_may_be_called_like_a_keyword() -> None:
    properties = {"$schema": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    assert validation.problem({"$schema": "x"}, schema) is None


@pytest.mark.parametrize("reference", ["#/properties/a/anyOf/1", "#/$defs/A%20B", "#/$defs/A B"])
def test_what_a_reference_leads_to(reference: str) -> None:
    target = {"type": "integer"}
    root = {"properties": {"a": {"anyOf": [{}, target]}}, "$defs": {"A B": target}}
    assert grammar.resolve(reference, root) == target
