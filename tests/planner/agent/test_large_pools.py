"""Pools of more tools than a prompt lists: which of them a run can call."""

import pytest
from in_memory import DictionaryPool, Fast, add_many, planned
from replies import found, plan, second

pytestmark = pytest.mark.anyio

ASKED = "Wann ist Hochwasser?"
LISTED = "Tools for this request too:\n- tide_table(text): Tides"
BRIEF = {"search": ["high water", "tide"], "wants": "short answer"}


async def test_the_words_of_a_brief_bring_in_tools_that_the_request_does_not() -> None:
    pool = DictionaryPool({})
    add_many(pool)
    ran = await planned(
        Fast(BRIEF),
        plan("tide_table", objective="Look up the tide"),
        {"text": "today"},
        found("High water is at noon."),
        second("High water is at noon."),
        pool=pool,
        prompt=ASKED,
    )
    assert ran.state.started
    assert "tide_table" not in ran.state.started.offered
    assert all(each.text.count(LISTED) == 1 for each in ran.asked)
    assert pool.calls[-1] == ("tide_table", {"text": "today"})
    assert ran.state.answer == "High water is at noon."
