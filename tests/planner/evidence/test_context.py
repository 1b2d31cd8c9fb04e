"""Results as models read them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.evidence.context import readable, shortened, with_count

EVENTS = """- all_day: false
  description: 'Weekly sync

    with the team.'
  id_: '6'
- all_day: false
  participants:
  - emma@example.com
  - sarah@example.com
- all_day: true
"""


@pytest.mark.parametrize(
    ("result", "first"),
    [
        (EVENTS, "3 entries:"),
        ('[{"id": 1}, {"id": 2}]', "2 entries:"),
        ('["a", "b", "c"]', "3 entries:"),
        ('[{"id": 1}]', "- id: 1"),
        ("[]", "(nothing)"),
        ('{"id": 1}', "id: 1"),
        ("# Notes\n\n- one\n- two", "# Notes"),
        ("- one\n- two\nThe end.", "- one"),
    ],
)
def test_the_entries_of_a_list_are_counted(result: str, first: str) -> None:
    assert with_count(result).splitlines()[0] == first


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text()), min_size=2, max_size=9))
def test_the_number_is_that_of_the_list(entries: list[dict[str, object]]) -> None:
    result = json.dumps(entries)
    assert with_count(result) == f"{len(entries)} entries:\n{readable(result)}"


def test_the_number_stands_above_what_is_left_of_a_long_list() -> None:
    result = json.dumps([{"name": f"place {number}"} for number in range(90)])
    shown = with_count(result, shortened(readable(result), 300, {"89"}, 0))
    assert shown.startswith("90 entries:\n- name: place 0\n")
    assert "more lines" in shown


@given(st.text())
def test_no_text_is_lost(result: str) -> None:
    assert with_count(result).endswith(readable(result))
