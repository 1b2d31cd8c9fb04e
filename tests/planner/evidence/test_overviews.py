"""Lists of names that code puts together."""

import pytest

from planner.evidence.overviews import (
    MAX_ALIKE,
    listed,
    lists_all,
    members_said,
    named_alike,
    of_file_named,
    with_names,
)
from planner.evidence.passages import of_file
from planner.prompts.texts import passage

ERRORS = "".join(
    f"class {name}(HttpError):\n    status = {status}\n\n\n"
    for name, status in (("Gone", 410), ("Conflict", 409), ("NotFound", 404))
)
BODY = "\n".join(f"        step_{n} = tie({n})  # to the quay of the lock" for n in range(12))
GATES = "src/gates.py"
BESIDE = "class Gate:\n    pass\n\n\ndef open_gate(error):\n    http_error = error\n"
OPERATIONS = "".join(f"def {each}(gate):\n    pass\n\n\n" for each in ("turn", "shut", "lift"))
GO = "func NewHttpGate() {\n}\n\nfunc HttpGate() {\n}\n\nfunc OldHttpGate() {\n}\n"


@pytest.mark.parametrize(
    ("path", "text", "question", "names"),
    [
        ("errors.py", ERRORS + BESIDE, "list all HTTP errors", "Conflict, Gone, NotFound"),
        ("gates.go", GO, "¿Qué gates de http hay?", "HttpGate, NewHttpGate, OldHttpGate"),
        ("errors.py", ERRORS + BESIDE, "which gates are there?", None),
        ("errors.py", ERRORS, "what is made of HttpError?", "Conflict, Gone, NotFound"),
        ("gates.go", GO, "Explain OpenHttpGate", None),
        ("tests/test_errors.py", ERRORS, "list all HTTP errors", None),
        ("gates/operations.py", OPERATIONS, "Which operations are there?", "lift, shut, turn"),
        ("gates/gate_operations.py", OPERATIONS, "Which operations are there?", None),
        (".operations", OPERATIONS, "Which operations are there?", None),
        ("many.go", "".join(f"func Gate{n}() {{\n}}\n" for n in range(50)), "which gates?", None),
    ],
)
def test_what_shares_most_words_with_a_request_is_listed(
    path: str, text: str, question: str, names: str | None
) -> None:
    assert MAX_ALIKE < 50
    found = named_alike(of_file(path, text), question)
    assert found is None if names is None else found and ", ".join(found.names) == names


def test_a_list_says_what_it_was_looked_for() -> None:
    question = "list all HTTP errors"
    (found,), _ = listed(of_file("errors.py", ERRORS), question, [], "search")
    assert found.place == "search HTTP errors:1"
    assert found.relation == "3 names"
    assert lists_all("There are Gone, NotFound, and Conflict.", question, found)
    assert not lists_all("There are Gone and NotFound.", question, found)
    told = "Gone, NotFound and Conflict are raised by the gates where a ship has left its berth"
    assert not lists_all(f"{told}, or where two of them want the same one.", question, found)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (["There are 3 errors."], ["There are 3 errors: Conflict, Gone, NotFound."]),
        (["Yes.", "有3个错误。"], ["Yes.", "有3个错误: Conflict, Gone, NotFound."]),
        (["There are 3 errors.", "One is Gone."], None),
        (["There are 4 errors."], None),
        (["There are several errors."], None),
        ([], None),
    ],
)
def test_an_answer_that_only_counts_what_is_listed_is_given_the_list(
    answer: list[str], told: list[str] | None
) -> None:
    found, _ = listed(of_file("errors.py", ERRORS), "list all HTTP errors", [], "search")
    assert with_names([answer], found) == [answer if told is None else told]


def test_classes_come_before_functions_and_with_those_made_of_them() -> None:
    checks = "".join(f"def check_http_{number}():\n    pass\n\n\n" for number in range(9))
    late = "class Late(Gone):\n    pass\n\n\nclass Gone(Exception):\n    pass\n"
    passages = [*of_file("checks.py", checks + late), *of_file("errors.py", ERRORS)]
    found = named_alike(passages, "list all HTTP errors")
    assert found
    assert found.names == ["Conflict", "Gone", "Late", "NotFound"]


def test_a_group_that_shares_a_single_word_is_not_certain() -> None:
    errors = of_file("errors.py", ERRORS)
    question = "which errors are there if an error is raised?"
    certain, likely = listed(errors, question, [], "search")
    assert certain == []
    assert [each.text for each in likely] == ["Conflict, Gone, NotFound"]


def test_a_file_that_is_named_is_told_by_its_names() -> None:
    body = "".join(f"    def open_{n}(self):\n{BODY}\n" for n in range(3))
    text = f"class Gate:\n{body}\n\ndef close():\n{BODY}\n"
    (found,) = of_file_named(
        of_file("src/gates.py", text), "src/gates.py", "Summarise gates.py", "read"
    )
    assert passage(found) == (
        "read src/gates.py:1-2 (5 names)\nGate: open_0, open_1, open_2\nclose"
    )
    assert (
        of_file_named(of_file("errors.py", ERRORS), "errors.py", "Summarise errors.py", "read")
        == []
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("gate.rs", "pub(crate) enum GateState {\n    Open,\n    Shut,\n    Stuck(u8),\n}\n"),
        ("gate.py", "class GateState(Enum):\n    Open = 1\n    Shut = 2\n    Stuck = 3\n"),
    ],
)
def test_the_names_in_an_enum_that_is_said_in_words_are_told(path: str, text: str) -> None:
    (found,) = members_said(of_file(path, text), "¿Qué gate states hay?", "search")
    assert passage(found) == "search GateState:1 (3 names)\nOpen, Shut, Stuck"
    assert members_said(of_file(path, text), "which gates are there?", "search") == []
