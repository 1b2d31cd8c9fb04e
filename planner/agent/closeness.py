"""How close passages are to a request in meaning, where there is an encoder that can tell."""

from collections.abc import Sequence

from planner.evidence.ranking import NOT_COMPARED, Alike
from planner.models.encoder import Encoder
from planner.passage import Passage

MAX_COMPARED = 32
"""Passages whose meaning is compared with the question, the likeliest by their words."""
MAX_COMPARED_CHARS = 1200
"""Characters of each that are."""
NEAR = 0.6
"""How close passages have to be, as a share of how close the closest ones are, to be read for what
they add to a long answer (docs/experiments.md)."""

ABOUT = 0.18
"""How close a fact has to be to a question with its answer, to be added (docs/experiments.md)."""


async def likeness(
    encoder: Encoder | None, passages: Sequence[Passage], question: str, more: Sequence[str]
) -> Alike:
    """How close each passage is to the question, with the words that were searched for besides."""
    if encoder is None:
        return NOT_COMPARED
    texts = [f"{each.source} {each.heading}\n{each.text}"[:MAX_COMPARED_CHARS] for each in passages]
    found = await encoder.likeness(" ".join([question, *more]), texts)
    return dict(zip(passages, found.scores, strict=True))


async def near(
    encoder: Encoder | None,
    groups: Sequence[list[Passage]],
    question: str,
    more: Sequence[str],
) -> list[list[Passage]]:
    """The first of these groups, and those that are not much further from the question than the
    closest one: what is far adds nothing to an answer."""
    if len(groups) < 2:
        return [*groups]
    alike = await likeness(encoder, [each for group in groups for each in group], question, more)
    closest = [max(alike.get(each, 0.0) for each in group) for group in groups]
    least = NEAR * max(closest)
    return [
        group
        for number, (group, how) in enumerate(zip(groups, closest, strict=True))
        if not number or how >= least
    ]


async def about(encoder: Encoder | None, facts: Sequence[str], answer: str) -> list[str]:
    """Those of these facts that have to do with a question and the answer to it so far."""
    if encoder is None or not facts:
        return [*facts]
    found = await encoder.likeness(answer, facts)
    return [fact for fact, how in zip(facts, found.scores, strict=True) if how >= ABOUT]
