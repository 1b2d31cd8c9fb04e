"""The answer as data: a caller's JSON Schema, from the request to the report."""
# ruff: noqa: E501  texts stand as clients see them

import json
from typing import Any

import pytest
from in_memory import READ, DictionaryPool, Fast, Hangs, planned
from inline_snapshot import snapshot
from jsonschema import Draft202012Validator
from ollama_replies import Answer, Drop
from planted import ANSWER, CLASS, CONSTANT, QUESTION, SOURCE, VALUE
from replies import conclusion, found, nowhere, plan, second
from scripted_ollama import FULL, Request, ScriptedOllama
from serving import Place, text

from planner.checks import validation
from planner.protocol import Limits

pytestmark = pytest.mark.anyio

PLACE: dict[str, Any] = {
    "type": "object",
    "properties": {"file": {"type": "string", "pattern": r"\.py$"}, "line": {"type": "integer"}},
    "required": ["file", "line"],
}
FOUND = {"file": "jobs/secret.py", "line": 6}


async def asked(place: Place, schema: dict[str, Any], **arguments: Any) -> tuple[Any, str]:
    """The report and the Markdown for the question, with this schema."""
    async with place.client() as caller:
        result = await caller.call(
            "plan_and_answer", **({"prompt": QUESTION, "data_schema": schema} | arguments)
        )
        (tool,) = [
            each for each in await caller.client.list_tools() if each.name == "plan_and_answer"
        ]
    assert result.whole, text(result)
    for each in (result.structured_content, result.whole):  # in short, and as get_run may give it
        Draft202012Validator(tool.output_schema or {}).validate(each)
    return result.whole, text(result)


def formats(request: Request) -> bool:
    return request.properties == {"data"}


async def test_the_answer_comes_as_data_besides_the_text(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(ANSWER))
    ollama.expect({"data": FOUND}, model=FULL, when=formats)
    report, markdown = await asked(place, PLACE)
    assert (report["status"], report["answer"], report["data"]) == ("answered", ANSWER, FOUND)
    assert report["unsupported"] == []
    assert [call["role"] for call in report["usage"]["calls"]] == [
        "brief",
        "answer",
        "again",
        "format",
    ]
    assert markdown.partition("\n\n### Evidence")[0] == snapshot("""\
`VeryUniqueClassName_Phoenix_2025_QW3RTY` is defined in jobs/secret.py, line 6.

```json
{
  "file": "jobs/secret.py",
  "line": 6
}
```\
""")


async def test_the_question_for_data_only_adds_to_the_prompt(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(ANSWER))
    ollama.expect({"data": {"file": "jobs/secret", "line": 6}})
    ollama.expect({"data": FOUND})
    await asked(place, PLACE)
    first, second, third = (request.messages for request in ollama.requests)
    reply = {"role": "assistant", "content": json.dumps(found(ANSWER), separators=(",", ":"))}
    assert second[:-1] == [*first, reply]
    assert third[: len(second)] == second
    assert ANSWER in second[-1]["content"]


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"type": "array", "items": {"type": "string"}}, ["jobs/secret.py"]),
        ({"type": "string"}, "jobs/secret.py"),
        ({"type": "integer"}, 6),
        ({"type": "boolean"}, False),
        ({"enum": ["HERE", "THERE"]}, "HERE"),
        ({"type": "array", "items": PLACE}, [FOUND]),
        ({"$ref": "#/$defs/place", "$defs": {"place": PLACE}}, FOUND),
        ({"anyOf": [{"type": "null"}, PLACE]}, FOUND),
        ({}, {"any": ["thing"]}),
    ],
)
async def test_the_root_may_be_anything(
    place: Place, ollama: ScriptedOllama, schema: dict[str, Any], data: Any
) -> None:
    ollama.expect(found(ANSWER))
    ollama.expect({"data": data})
    report, _ = await asked(place, schema)
    assert (report["status"], report["data"]) == ("answered", data)


async def test_data_that_does_not_fit_is_written_again(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(ANSWER))
    ollama.expect({"data": {"file": "jobs/secret", "line": 6}})
    ollama.expect({"data": FOUND}, contains=[r"did not fit: file: 'jobs/secret' does not match"])
    report, _ = await asked(place, PLACE)
    assert (report["status"], report["data"]) == ("answered", FOUND)
    assert report["guards"] == snapshot(
        ["format: the data does not fit: file: 'jobs/secret' does not match '\\\\.py$'"]
    )


async def test_a_near_miss_is_put_right(place: Place, ollama: ScriptedOllama) -> None:
    near = {"data": {"file": "jobs/secret.py", "line": "6"}}
    ollama.expect(found(ANSWER))
    ollama.expect(Answer(near, unconstrained=True))
    report, _ = await asked(place, PLACE)
    assert (report["status"], report["data"]) == ("answered", FOUND)


async def test_data_that_never_fits_leaves_the_text(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(found(ANSWER))
    ollama.expect({"data": {"file": "jobs/secret", "line": 6}})
    ollama.expect({"data": {"file": "secret", "line": 6}})
    report, markdown = await asked(place, PLACE)
    assert (report["status"], report["answer"], report["data"]) == ("partial", ANSWER, None)
    assert report["reason"] == snapshot(
        "the answer could not be put into the caller's schema: file: 'secret' does not match '\\\\.py$'"
    )
    assert markdown.startswith(f"{ANSWER}\n\n_Status: partial: the answer could not be put into")


async def test_a_fault_while_data_is_written_leaves_the_text(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(ANSWER))
    ollama.expect(Drop(after='{"data'))
    report, _ = await asked(place, PLACE)
    assert (report["status"], report["answer"], report["data"]) == ("partial", ANSWER, None)
    assert report["reason"].startswith("the answer could not be put into the caller's schema: ")


async def test_a_number_that_json_cannot_hold_is_no_data(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(ANSWER))
    for _ in range(2):
        ollama.expect('{"data":1e999}')
    report, _ = await asked(place, {"type": "number"})
    assert (report["status"], report["data"]) == ("partial", None)


async def test_time_that_runs_out_leaves_the_text() -> None:
    ran = await planned(
        found(ANSWER),
        second(ANSWER),
        Hangs(),
        pool=DictionaryPool({"jobs/secret.py": SOURCE}),
        prompt=QUESTION,
        data_schema=PLACE,
        limits=Limits(seconds=0.5),
    )
    assert (ran.state.status, ran.state.answer, ran.state.data) == ("partial", ANSWER, None)
    assert ran.state.reason == snapshot(
        "the answer could not be put into the caller's schema: the time limit was reached"
    )


async def test_what_was_not_found_is_not_put_into_data(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(nowhere())
    ollama.expect(plan("say"))
    ollama.expect({"text": "hello"})
    ollama.expect(nowhere())
    ollama.expect(conclusion("It is not there.", success=False))
    report, _ = await asked(place, PLACE, max_iterations=3)
    assert (report["status"], report["data"]) == ("not_found", None)
    assert "format" not in [call["role"] for call in report["usage"]["calls"]]


async def test_a_run_whose_model_dies_has_no_data(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(Drop())
    report, _ = await asked(place, PLACE)
    assert (report["status"], report["data"]) == ("partial", None)
    assert len(ollama.requests) == 1


async def test_an_answer_without_a_tool_call_is_put_into_data_too() -> None:
    ran = await planned(
        Fast({"search": [], "reply": "Hello."}),
        {"data": "Hello"},
        pool=DictionaryPool({}, specs=[READ]),
        prompt="Please greet me",
        data_schema={"type": "string"},
    )
    assert (ran.state.status, ran.state.data) == ("answered", "Hello")
    assert "Hello." in ran.asked[-1].last


# Grounding


@pytest.mark.parametrize(
    ("data", "missing"),
    [
        ({"file": "jobs/secret.py", "line": 6}, []),
        ({"file": "jobs/secret.py", "line": 7}, ["7"]),
        ({"file": "jobs/other.py", "line": 6}, ["jobs/other.py"]),
        ({"file": "jobs/secret.py", "line": 6, "value": VALUE}, []),
        ({"file": "jobs/secret.py", "line": 6, "value": float(VALUE)}, []),
        ({"file": "jobs/secret.py", "line": 6, "value": 99_999}, ["99999"]),
        ({"file": "jobs/secret.py", "line": 6, "names": [CONSTANT, "an_invention"]}, ["an_invention"]),
        ({"file": "jobs/secret.py", "line": 6, "kind": "CLASS"}, []),
        ({"file": "jobs/secret.py", "line": 6, "sure": True}, []),
        ({"file": "jobs/secret.py", "line": 6, "is_a": {CONSTANT: VALUE, "no_such": VALUE}}, ["no_such"]),
    ],
)  # fmt: skip
async def test_what_nothing_says_of_the_data_is_unsupported(
    data: dict[str, Any], missing: list[str]
) -> None:
    more = {
        "value": {"type": "number"},
        "names": {"type": "array", "items": {"type": "string"}},
        "kind": {"enum": ["CLASS", "FUNCTION"]},
        "sure": {"type": "boolean"},
        "is_a": {"type": "object"},
    }
    searched = f"jobs/secret.py:3:{CONSTANT} = {VALUE}\njobs/secret.py:6:class {CLASS}:"
    pool = DictionaryPool({"jobs/secret.py": SOURCE}, results={"search": [searched]})
    ran = await planned(
        found(f"`{CLASS}` is defined in jobs/secret.py."),
        {"data": data},
        pool=pool,
        prompt=f"What are {CLASS} and {CONSTANT}?",
        data_schema=PLACE | {"properties": {**PLACE["properties"], **more}},
    )
    assert ran.state.unsupported == missing
    assert ran.state.status == ("partial" if missing else "answered")
    assert ran.state.reason == (f"no result says {', '.join(missing)}" if missing else None)
    assert ran.state.data == data


# Schemas that are none


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "text"}, snapshot("data_schema: it is not a JSON Schema: type: 'text' is not valid under any of the given schemas. Correct it, or leave it out.")),
        ({"type": "object", "properties": {"line": {"type": "int"}}}, snapshot("data_schema: it is not a JSON Schema: properties.line.type: 'int' is not valid under any of the given schemas. Correct it, or leave it out.")),
        ({"type": "string", "pattern": "("}, snapshot("data_schema: it is not a JSON Schema: pattern: '(' is not a 'regex'. Correct it, or leave it out.")),
        ({"$ref": "http://127.0.0.1:1/schema.json"}, snapshot("data_schema: the reference 'http://127.0.0.1:1/schema.json' leads to nothing in it; other documents are not fetched. Correct it, or leave it out.")),
        ({"type": "array", "items": {"$ref": "#/$defs/missing"}}, snapshot("data_schema: the reference '#/$defs/missing' leads to nothing in it; other documents are not fetched. Correct it, or leave it out.")),
        ({"enum": ["x" * 5000]}, snapshot('data_schema: it has 5013 characters; the limit is 4000. Correct it, or leave it out.')),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {str(number): {"$ref": "#/$defs/a"} for number in range(50)}}}},
            snapshot('data_schema: it cannot be used (more than 1000 parts). Correct it, or leave it out.'),
        ),
        ("text", snapshot("plan_and_answer: data_schema: should be an object, not 'text'.")),
    ],
)  # fmt: skip
async def test_a_wrong_schema_is_refused_before_anything_runs(
    place: Place, ollama: ScriptedOllama, schema: Any, told: str
) -> None:
    async with place.client() as caller:
        error = await caller.error("plan_and_answer", prompt=QUESTION, data_schema=schema)
        assert caller.progress.events == []
    assert error == told
    assert ollama.requests == []


def test_no_schema_makes_anything_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[Any] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda request, *_: fetched.append(request))
    schema = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/schema.json"}}}
    assert validation.data_schema_problem(schema)
    assert (
        validation.problem({"a": 1}, schema)
        == "the schema itself cannot be used (_WrappedReferencingError)"
    )
    assert fetched == []
