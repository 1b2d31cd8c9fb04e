"""Products of numbers, worked out by code in several languages."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.evidence.counting import worked_out
from planner.evidence.passages import of_file
from planner.evidence.selection import selected
from planner.passage import Passage

LINES = {
    "const BUFFER: usize = 1024 * 1024;": "1024 * 1024 is 1048576",
    "gcTime: 5 * 60 * 1000,": "5 * 60 * 1000 is 300000",
    "static const long MAX = 1L << 20;": "1L << 20 is 1048576",
    "TIMEOUT = 1_000 * 60  # ms": "1_000 * 60 is 60000",
    "delay = 0.1 * 3": "0.1 * 3 is 0.3",
    "sleep(() => 30*1000)": "30*1000 is 30000",
    "a = 2 * 3, b = 4 * 5": "2 * 3 is 6; 4 * 5 is 20",
    "The limit is 10 * 1024.": "10 * 1024 is 10240",
    "x = n * 2 * 3": "",
    "x = a / 2 * 3": "",
    "x = 60 * 60 * hours": "",
    "x = 1 << 2 << 3": "",
    "x = 1 << 63": "",
    "x = 1 << 4 - 1": "",
    "x = 2 + 1 << 4": "",
    "x = 1.5 << 2": "",
    "x = 2 * 3(y)": "",
    "- 2 * 3": "",
    "version 1.2.3 * 4": "",
    "99999999999999999999 * 2": "",
}


def passage(text: str) -> Passage:
    return Passage(source="a.py", first=1, last=1, text=text)


@pytest.mark.parametrize("line", LINES)
def test_a_product_of_plain_numbers_is_worked_out(line: str) -> None:
    assert worked_out(passage(line)).inside == LINES[line]


@given(st.lists(st.integers(min_value=1, max_value=9999), min_size=2, max_size=4))
def test_what_is_told_is_the_product(numbers: list[int]) -> None:
    line = " * ".join(map(str, numbers))
    assert worked_out(passage(line)).inside == f"{line} is {prod(numbers)}"


@given(st.text(alphabet="0123456789_*<. ux(\n-", max_size=40))
def test_any_text_is_a_text(text: str) -> None:
    assert worked_out(passage(text)).text == text


def test_what_is_shown_is_worked_out() -> None:
    passages = of_file("buffer.rs", "const BUFFER: usize = 1024 * 1024;\n")
    (shown,) = selected(passages, "How large is the buffer?", [], 1000, [])
    assert shown.inside == "1024 * 1024 is 1048576"
