"""Pools of more tools than a prompt lists: which of them a run can call."""

from typing import Any

import pytest
from in_memory import DictionaryPool, Fast, Unconstrained, add_many, planned
from replies import found, nowhere, plan, second

pytestmark = pytest.mark.anyio

ASKED = "Wann ist Hochwasser?"
LISTED = "Tools for this request too:\n- tide_table(text): Tides"
NOON = "High water is at noon."
BRIEF = {"search": ["high water", "tide"], "wants": "short answer"}


def looked_up(day: str, answer: str) -> list[dict[str, Any]]:
    """How the tide is looked up, and what it is."""
    steps = plan("tide_table", objective="Look up the tide")
    return [steps, {"text": day}, found(answer), second(answer)]


async def test_the_words_of_a_brief_bring_in_tools_that_the_request_does_not() -> None:
    pool = DictionaryPool({})
    add_many(pool)
    ran = await planned(
        Fast(BRIEF),
        *looked_up("today", NOON),
        pool=pool,
        prompt=ASKED,
    )
    assert ran.state.started
    assert "tide_table" not in ran.state.started.offered
    assert all(each.text.count(LISTED) == 1 for each in ran.asked)
    assert pool.calls[-1] == ("tide_table", {"text": "today"})
    assert ran.state.answer == NOON


async def test_they_stay_when_a_long_answer_is_looked_for_and_a_short_one_found() -> None:
    pool = DictionaryPool({"notes/sea.md": "The sea is wide. Hochwasser is a word for flood.\n"})
    add_many(pool)
    ran = await planned(
        Fast(BRIEF | {"wants": "long answer"}),
        Unconstrained("-"),
        nowhere(),
        *looked_up("today", NOON),
        pool=pool,
        prompt=ASKED,
    )
    assert all(each.text.count(LISTED) == 1 for each in ran.asked)
    assert pool.calls[-1] == ("tide_table", {"text": "today"})


async def test_each_item_of_a_list_gets_its_own() -> None:
    pool = DictionaryPool({})
    add_many(pool)
    pool.results = {"tide_table": ["High water at noon", "High water at one"]}
    ran = await planned(
        Fast(BRIEF),
        Fast(BRIEF),
        *looked_up("today", NOON),
        Fast(BRIEF),
        *looked_up("tomorrow", "High water is at one."),
        pool=pool,
        prompt="1. Wann ist heute Hochwasser?\n2. Wann ist morgen Hochwasser?",
    )
    assert all(each.text.count(LISTED) == 1 for each in ran.asked)
    asked = [arguments for name, arguments in pool.calls if name == "tide_table"]
    assert asked == [{"text": "today"}, {"text": "tomorrow"}]
    assert "Completed steps" not in "".join(each.text for each in ran.asked)
