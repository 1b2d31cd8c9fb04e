"""The items of requests that are lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.evidence.items import MAX_ITEMS, listed


def _numbered(count: int) -> str:
    return "\n".join(f"{number}. Which?" for number in range(1, count + 1))


@pytest.mark.parametrize(
    ("request_", "before", "items"),
    [
        ("Answer: 1. What is it? 2. Who calls it?", "Answer:", ["What is it?", "Who calls it?"]),
        ("1. Find it at 10.5 km.\n2. Pay it.", "", ["Find it at 10.5 km.", "Pay it."]),
        ("In a.py: (1) where? (2) who?", "In a.py:", ["where?", "who?"]),
        ("请完成：1、查询余额 2、转账 50 元", "请完成：", ["查询余额", "转账 50 元"]),
        ("请回答：1、X在哪里？2、Y是多少？", "请回答：", ["X在哪里？", "Y是多少？"]),
        ("请回答：（1）X在哪里？（2）Y是多少？", "请回答：", ["X在哪里？", "Y是多少？"]),
        ("答えて：１．Xは？ ２．Yは3.5？", "答えて：", ["Xは？", "Yは3.5？"]),
        ("請完成：1.查詢餘額 2.轉帳", "請完成：", ["查詢餘額", "轉帳"]),
        ("أجب: ١. أين X؟ ٢. كم Y؟", "أجب:", ["أين X؟", "كم Y؟"]),
        ("Do\n1) a\n\n2) b\n\nThanks!", "Do", ["a\nThanks!", "b\nThanks!"]),
        ("Do\r\n1) a\r\n2) b\r\n\r\nThanks!", "Do", ["a\nThanks!", "b\nThanks!"]),
        ("Compare version 1. and 2. please", None, []),
        ("Step 1. do x. Step 2. do y.", None, []),
        ("Only this: 1. one", None, []),
        (_numbered(MAX_ITEMS), "", ["Which?"] * MAX_ITEMS),
        (_numbered(MAX_ITEMS + 1), None, []),
        ("Sum this up:\n\nDear all,\n\n1. When do we meet?\n2. Where?", None, []),
    ],
)
def test_items_of_a_request(request_: str, before: str | None, items: list[str]) -> None:
    assert listed(request_) == (request_ if before is None else before, items)


@given(st.text(alphabet="12345. )(\n:?ab、。", max_size=80))
def test_items_have_the_words_of_the_request(request: str) -> None:
    before, items = listed(request)
    assert len(items) != 1
    assert len(items) <= MAX_ITEMS
    assert before in request
    for item in items:
        assert all(line in request for line in item.split("\n"))
