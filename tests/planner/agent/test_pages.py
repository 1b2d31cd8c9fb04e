"""Pages on the web that a question names are read before anything is planned."""

import pytest
from in_memory import DictionaryPool, Fast, planned, spec
from replies import conclusion, found, second

from planner.tools import Outcome, Safety, ToolResult, ToolSpec

pytestmark = pytest.mark.anyio

NO_CALL = {"steps": [{"objective": "Look", "tool": None}]}
BRIEF = {"search": ["berth"], "wants": "short answer"}
PAGE = "# Prices\n\nA berth costs 41 euros a night.\n"


def fetch(*names: str, form: str | None = None, safety: Safety = Safety.READ_ONLY) -> ToolSpec:
    tool = spec("fetch", *names, upstream="web", safety=safety)
    schema = tool.input_schema
    for name in names:
        schema["properties"][name] = {"type": "string"} | ({"format": form} if form else {})
    return tool


@pytest.mark.parametrize(
    ("tool", "question", "read"),
    [
        (fetch("url"), "A night costs what, says https://quay.test/prices?", ["prices"]),
        (fetch("page", form="uri"), "See https://quay.test/prices.", ["prices"]),
        (fetch("pageUrl"), "(https://quay.test/a, https://quay.test/b)", ["a", "b"]),
        (fetch("page"), "See https://quay.test/prices.", []),
        (fetch("url", "form"), "See https://quay.test/prices.", []),
        (fetch("url"), "What does quay.test say?", []),
    ],
)
async def test_a_page_is_read_by_a_tool_that_takes_its_address_alone(
    tool: ToolSpec, question: str, read: list[str]
) -> None:
    pool = DictionaryPool({}, specs=[tool], results={"fetch": [PAGE] * 2})
    answers = [found("A berth costs 41 euros."), second("41 euros")]
    planned_only = [NO_CALL, conclusion("It is unknown.", success=False)]
    replies = answers if read else planned_only
    ran = await planned(Fast(BRIEF), *replies, pool=pool, prompt=question)
    assert [next(iter(given.values())) for _, given in pool.calls] == [
        f"https://quay.test/{each}" for each in read
    ]
    if read:
        assert ran.state.status == "answered"
        assert "A berth costs 41 euros a night." in ran.asked[0].last


async def test_of_a_page_that_cannot_be_read_nothing_is_said() -> None:
    gone = ToolResult(outcome=Outcome.FAILURE, text="404 berth")
    pool = DictionaryPool({}, specs=[fetch("url")], results={"fetch": [gone] * 3})
    ran = await planned(
        Fast(BRIEF),
        NO_CALL,
        conclusion("The page cannot be read.", success=False),
        pool=pool,
        prompt="See https://quay.test/prices: what does a berth cost?",
    )
    assert not ran.state.passages
    assert ran.state.status != "answered"


async def test_a_tool_that_may_change_something_reads_no_page() -> None:
    pool = DictionaryPool({}, specs=[fetch("url", safety=Safety.WRITE)])
    await planned(Fast(BRIEF), pool=pool, prompt="See https://quay.test/prices.")
    assert pool.calls == []
