"""The planner is not in the way of a model that is right: the oracle reaches the right end."""

import pytest

from benchmarks.eval import memory
from benchmarks.eval.__main__ import selected
from benchmarks.eval.case import SPLITS, Case, Family
from benchmarks.eval.families import CASES
from benchmarks.eval.oracle import Ended, ask_all, table

pytestmark = pytest.mark.anyio

ENOUGH = 0.95
"""The share of its cases that the oracle has to reach in a family."""
ENOUGH_LONG = 0.8
"""Of `broad`: a long answer ends with the facts that passages hold, also where the case asks for
more (docs/evaluation.md)."""


def cases(family: Family, most: int | None = None) -> list[Case]:
    """A family's cases, or so many of each split."""
    return selected([case for split in SPLITS for case in CASES[family](split)], "", most)


async def enough(asked: list[Case]) -> list[Ended]:
    ended = [each async for each in ask_all(asked)]
    missed = [f"{each.case.id}: {each.why}" for each in ended if not each.reached]
    assert ended
    share = ENOUGH_LONG if asked[0].family == "broad" else ENOUGH
    assert len(missed) <= (1 - share) * len(ended), "\n".join(missed)
    return ended


async def test_the_oracle_reaches_what_can_be_looked_up() -> None:
    ended = await enough([each for each in cases("lookup", 8) if "package" not in each.id])
    assert sum(each.oracle.gathered for each in ended) > len(ended) / 2


async def test_what_is_not_there_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a tool to look with, nothing is reached, though "no" is right."""
    monkeypatch.setattr(memory, "READING", ())
    asked = selected(CASES["lookup"]("dev"), "generated/(absence|unanswerable)", None)
    ended = [each async for each in ask_all(asked)]
    assert {each.grade.verdict for each in ended} == {"right"}
    assert not any(each.reached for each in ended)


async def test_the_oracle_talks_in_one_call() -> None:
    ended = await enough(cases("talk"))
    assert {len(each.state.ledger) for each in ended} == {1}
    assert table(ended).splitlines()[-1].startswith(f"| talk | {len(ended)} | {len(ended)} |")


async def test_the_oracle_reads_documentation() -> None:
    await enough(cases("docs"))


async def test_the_oracle_makes_changes() -> None:
    await enough(cases("change", 2))


@pytest.mark.outside
@pytest.mark.parametrize("family", ["lookup", "polyglot", "broad", "change"])
async def test_the_oracle_reaches_every_case(family: Family) -> None:
    await enough(cases(family))
