"""What a model means whose server holds it to no schema."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.checks.replies import after_thoughts, json_in, without_end
from planner.checks.schemas import (
    answer,
    closed,
    file_tools,
    iteration_decision,
    one_of,
    plan,
    sql,
    summary,
)
from planner.checks.schemas import text as string
from planner.checks.validation import problem

SAID = closed(final_answer=string(400), found_in=one_of(["results", "nowhere"]))


@pytest.mark.parametrize(
    "said",
    [
        '{"final_answer": "x", "found_in": "results"}',
        'Sure! ```json\n{"final_answer": "x",\n "found_in": "results"}\n``` Anything else?',
        '<think>{"final_answer": "no"}</think>\n{"found_in": "results", "final_answer": "x"}',
        'By {this}: {"final_answer": "x", "found_in": "results", "sure": true, "why": {"a": 1}}',
        '{"note": 1} {"final_answer": "x", "found_in": "results"}',
    ],
)
def test_the_json_in_what_was_said(said: str) -> None:
    read = json_in(said, SAID)
    assert read is not None
    assert json.loads(read) == {"final_answer": "x", "found_in": "results"}


@pytest.mark.parametrize("said", ["", "no", "{", "[1]", "<think>{}", "[" * 10_000])
def test_where_there_is_no_json_none_is_found(said: str) -> None:
    assert json_in(said, SAID) is None


@pytest.mark.parametrize(
    "said",
    [
        {"decision": "conclude", "final_answer": "x", "success": True},
        {"decision": "give_up", "notes": "x", "objective": "y", "tool_calls": [["search", "z"]]},
    ],
)
def test_keys_that_a_decision_does_not_know_are_left_out(said: dict[str, Any]) -> None:
    schema = iteration_decision(one_of(["search"]), "fast")
    read = json_in(json.dumps(said | {"tool": None, "next_step": {}}), schema)
    assert json.loads(read or "") == said


def test_of_two_choices_none_is_guessed() -> None:
    schema = {"anyOf": [closed(a={"type": "null"}), closed(b={"type": "null"})]}
    assert json_in('{"a": null, "b": null}', schema) == '{"a": null, "b": null}'


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["final_answer", "found_in", "x"]), inner, max_size=3)
    ),
)


@given(json_values, st.text(max_size=20), st.text(max_size=20))
def test_what_is_read_is_json_and_what_fits_stays(value: Any, before: str, after: str) -> None:
    said = json.dumps(value)
    read = json_in(f"{before}{said}{after}", SAID)
    assert read is None or isinstance(json.loads(read), dict)
    if isinstance(value, dict) and problem(value, SAID) is None and "{" not in before:
        assert json.loads(read or "") == value


TOOL = {"enum": ["get_doc", "search", None]}
STEPS = {"properties": {"steps": {"items": {"properties": {"objective": {}, "tool": TOOL}}}}}


@pytest.mark.parametrize("said", ["Get_Doc", "getDoc", "get-doc", "functions.get_doc"])
def test_a_choice_is_spelled_as_the_schema_has_it(said: str) -> None:
    reply = json.dumps({"steps": [{"objective": "Get_Doc", "tool": said}, {"tool": None}]})
    assert json.loads(json_in(reply, STEPS) or "null") == {
        "steps": [{"objective": "Get_Doc", "tool": "get_doc"}, {"tool": None}]
    }


@pytest.mark.parametrize("reply", ['{"steps": [{"tool": "fetch"}]}', '{"steps": 5}'])
def test_what_is_no_choice_stays(reply: str) -> None:
    assert json_in(reply, STEPS) == reply


ANSWER = {"assessment": "It says so.", "final_answer": "It is 5.", "found_in": "results"}
JSON = json.dumps(ANSWER)


@pytest.mark.parametrize(
    "said",
    [
        str(ANSWER),
        "{assessment: 'It says so.', final_answer: \"It is 5.\", found_in: 'results',}",
        JSON.replace(", ", ",\n  // next\n  ", 1),
        JSON.replace(", ", ",  # it's next\n", 1).replace("}", ", /* end */ }"),
        JSON.replace("final_answer", "finalAnswer").replace("found_in", "Found In"),
        json.dumps({"response": ANSWER}),
        json.dumps({"response": JSON}),
        json.dumps([ANSWER]),
        json.dumps({"type": "object", "properties": ANSWER}),
        json.dumps(answer(400)) + JSON,
        json.dumps({"name": "reply", "arguments": ANSWER}),
        f"<tool_call>\n{json.dumps({'name': 'reply', 'arguments': ANSWER})}\n</tool_call>",
        json.dumps({"type": "function", "function": {"name": "reply", "arguments": JSON}}),
        json.dumps(ANSWER | {"found_in": "Results."}),
        json.dumps(ANSWER | {"found_in": "results (line 5)"}),
        json.dumps(ANSWER | {"final_answer": ["It is 5."]}),
        f"<|channel|>analysis<|message|>Or {JSON.replace('5', '6')}?<|end|>"
        f"<|start|>assistant<|channel|>final <|constrain|>json<|message|>{JSON}<|return|>",
        f"Say {JSON.replace('5', '6')}?\n</think>\n\n{JSON}",
        f"{JSON}<|im_end|>\n<|im_start|>user\nThanks!",
        f"{JSON}\n{JSON}",
    ],
)
def test_what_is_meant_by_a_reply_in_another_form(said: str) -> None:
    assert json.loads(json_in(said, answer(400)) or "null") == ANSWER


@pytest.mark.parametrize(
    "said",
    [
        f"{JSON} or {JSON.replace('5', '6')}",
        json.dumps({"a": ANSWER, "b": ANSWER | {"final_answer": "It is 6."}}),
    ],
)
def test_of_two_replies_none_is_taken(said: str) -> None:
    assert json_in(said, answer(400)) is None


def test_a_part_of_a_reply_that_was_cut_off_is_none() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    assert json_in('{"edits": [{"path": "a.py"}', schema, "read") is None


SCHEMA = closed(tool=one_of(["search", "search_all"]))


@pytest.mark.parametrize(
    "said", ["search(pattern)", "`Search`.", 'search: "x"', {"name": "search"}]
)
def test_a_choice_may_be_explained(said: Any) -> None:
    assert json_in(json.dumps({"tool": said}), SCHEMA) == '{"tool": "search"}'


@pytest.mark.parametrize("said", ["search or search_all", "search-files", "search nothing", "se"])
def test_another_word_is_not_taken_for_a_choice(said: str) -> None:
    assert json_in(json.dumps({"tool": said}), SCHEMA) == json.dumps({"tool": said})


@pytest.mark.parametrize(
    ("schema", "said", "meant"),
    [
        (
            file_tools(["ls"], ["cat"]),
            {"lists": "null", "reads": "None"},
            {"lists": None, "reads": None},
        ),
        (
            summary(["search"]),
            {"final_answer": "Done.", "missing": "null", "tool": "none"},
            {"final_answer": "Done.", "missing": None, "tool": None},
        ),
        (
            plan(["search"], "action"),
            {"steps": {"objective": "Find it", "tool": "search"}},
            {"steps": [{"objective": "Find it", "tool": "search"}]},
        ),
        (closed(sql=sql()), {"SQL": ["SELECT 1 FROM t"]}, {"sql": "SELECT 1 FROM t"}),
        (
            iteration_decision(one_of(["search"]), "fast"),
            {
                "decision": "Stay",
                "later_steps": None,
                "tool_calls": [{"name": "search", "arguments": {"pattern": "x"}}],
            },
            {
                "decision": "stay",
                "tool_calls": [{"tool": "search", "prompt": '{"pattern": "x"}'}],
            },
        ),
        (
            iteration_decision(one_of(["search"]), "fast"),
            {"decision": "conclude", "final_answer": "x", "success": "true"},
            {"decision": "conclude", "final_answer": "x", "success": True},
        ),
    ],
)
def test_near_misses_are_corrected(
    schema: dict[str, Any], said: dict[str, Any], meant: dict[str, Any]
) -> None:
    assert json.loads(json_in(json.dumps(said), schema) or "null") == meant
    assert problem(meant, schema) is None


ARGUMENTS = closed(path=string(400))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"name": "read_file", "arguments": {"path": "a.py"}}, {"path": "a.py"}),
        ({"name": "functions.read_file", "parameters": {"path": "a.py"}}, {"path": "a.py"}),
        ({"name": "write_file", "arguments": {"path": "a.py"}}, None),
        ({"path": "a.py", "dry_run": True}, None),
        ({"path": "a.py", "options": {"path": "b.py"}}, None),
    ],
)
def test_arguments_are_those_of_the_call_that_was_meant(
    said: dict[str, Any], meant: dict[str, Any] | None
) -> None:
    assert json.loads(json_in(json.dumps(said), ARGUMENTS, "read_file") or "null") == (
        meant or said
    )


@pytest.mark.parametrize(
    ("said", "after"),
    [
        ("<think>\nHm.\n</think>\n\nIt is 5.", "It is 5."),
        ("Hm.\n</think>\n\nIt is 5.", "It is 5."),
        ("<think>Hm", ""),
        ("<|channel|>analysis<|message|>Hm.", ""),
        (
            '```python\nend = text.find("</think>")\n```',
            '```python\nend = text.find("</think>")\n```',
        ),
        ("`<think>` begins it.\n</think>\nends it.", "`<think>` begins it.\n</think>\nends it."),
    ],
)
def test_thoughts_are_no_part_of_a_reply(said: str, after: str) -> None:
    assert after_thoughts(said) == after


def test_a_token_at_the_end_is_no_part_of_it() -> None:
    assert without_end("It is 5.<|im_end|>\n") == "It is 5."
    assert without_end("`<|im_end|>` ends it.") == "`<|im_end|>` ends it."


def test_deep_nesting_is_no_reply() -> None:
    assert json_in('{"a":' * 5000 + "1" + "}" * 5000, answer(400)) in (None, "{}")
