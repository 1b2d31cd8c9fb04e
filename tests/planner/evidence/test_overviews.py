"""Definitions that are named alike."""

import pytest

from planner.evidence.overviews import MAX_ALIKE, named_alike
from planner.evidence.passages import of_file

ERRORS = "".join(
    f"class {name}(HttpError):\n    status = {status}\n\n\n"
    for name, status in (("Gone", 410), ("Conflict", 409), ("NotFound", 404))
)
BESIDE = "class Gate:\n    pass\n\n\ndef open_gate(error):\n    http_error = error\n"
GO = "func NewHttpGate() {\n}\n\nfunc HttpGate() {\n}\n\nfunc OldHttpGate() {\n}\n"


@pytest.mark.parametrize(
    ("path", "text", "question", "names"),
    [
        ("errors.py", ERRORS + BESIDE, "list all HTTP errors", "Conflict, Gone, NotFound"),
        ("gates.go", GO, "¿Qué gates de http hay?", "HttpGate, NewHttpGate, OldHttpGate"),
        ("errors.py", ERRORS + BESIDE, "which gates are there?", None),
        ("tests/test_errors.py", ERRORS, "list all HTTP errors", None),
        ("many.go", "".join(f"func Gate{n}() {{\n}}\n" for n in range(50)), "which gates?", None),
    ],
)
def test_what_shares_most_words_with_a_request_is_listed(
    path: str, text: str, question: str, names: str | None
) -> None:
    assert MAX_ALIKE < 50
    found = named_alike(of_file(path, text), question, "search")
    assert [each.text for each in found] == ([names] if names else [])


def test_the_list_says_what_it_was_looked_for() -> None:
    (found,) = named_alike(of_file("errors.py", ERRORS), "list all HTTP errors", "search")
    assert (found.place, found.relation) == ("search HTTP errors:1", "3 definitions named alike")
