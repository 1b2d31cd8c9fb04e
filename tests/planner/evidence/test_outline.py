"""What stands within a symbol, counted."""

import json

import pytest

from planner.evidence.outline import outline

SYMBOL = {
    "name_path": "Ferry",
    "kind": "Class",
    "relative_path": "ferry/boat.py",
    "body_location": {"start_line": 3, "end_line": 60},
    "children": {
        "Method": [
            {"name": "load", "body_location": {"start_line": 5, "end_line": 9}},
            {"name": "cross", "body_location": {"start_line": 11, "end_line": 40}},
        ],
        "Variable": ["crew"],
    },
}


def test_the_members_of_a_symbol_are_counted_by_kind() -> None:
    assert outline(json.dumps([SYMBOL])) == (
        "Ferry, Class, ferry/boat.py\n  Method (2): load, cross\n  Variable (1): crew"
    )


@pytest.mark.parametrize(
    "result",
    [
        "[]",
        "Error: no symbol",
        "3",
        '"text"',
        json.dumps([{"name_path": "cross", "kind": "Function"}]),
        json.dumps([{"name_path": "Ferry", "children": {"Method": [[1], {}]}}]),
        "[" * 100_000,
    ],
)
def test_what_has_no_members_has_no_outline(result: str) -> None:
    assert outline(result) == ""
