"""Whether an answer or a change may be about all of a list of which only a part was read."""

import json
from collections.abc import Sequence

from planner.checks.claims import beyond, holds, in_all_readings, numbers_in
from planner.checks.grounding import given_values
from planner.evidence.context import entries_within
from planner.evidence.pages import is_part
from planner.evidence.records import is_further
from planner.evidence.words import long_words, says, words
from planner.state import RunState


def read_in_part(state: RunState, answer: str) -> str | None:
    """The tool that returned only a part of a list, where several of its entries were changed that
    the request does not tell from the others, or where the answer is none that such an entry or
    another result says. As many entries as the request says are what was asked for."""
    calls = [each for each in state.part_iterations if each.by == "choice" and each.succeeded]
    read = [each for each in calls if not each.changes]
    made = given_values(each for each in calls if each.changes)
    for call in reversed(read):
        entries = entries_within(call.result)
        if len(entries) < 2 or len(entries) in numbers_in(state.prompt):
            continue
        if not is_part(call.result):
            if is_further(call.arguments):
                return None  # the model has asked for the last part
            continue
        meant = _told_apart(entries, state.prompt)
        others = [each.result for each in read if each is not call and not is_part(each.result)]
        if made:
            changed = _of(entries, made)
            if len(changed) > 1 and not {*changed} <= {*meant}:
                return call.tool
        elif not _says(answer, len(entries), state.prompt, meant, others):
            return call.tool
    return None


def rows_left(state: RunState) -> list[str]:
    """What the newest query has found beside what was changed, where the request does not tell
    these apart: of two running builds one was cancelled. The first values of the rows."""
    calls = [each for each in state.part_iterations if each.succeeded]
    queries = [each for each in calls if each.by == "query"]
    rows = entries_within(queries[-1].result) if queries else ()
    changed = _of(rows, given_values(each for each in calls if each.changes))
    left = [each for each in rows if each not in changed]
    meant = _told_apart(rows, state.prompt) if changed and left else []
    if meant and {*changed} <= {*meant}:
        left = [each for each in left if each in meant]
    return [str(next(iter(json.loads(each).values()))) for each in left if changed]


def _of(entries: Sequence[str], values: Sequence[str]) -> list[str]:
    """The entries that have one of these values alone."""
    having = ([each for each in entries if says(each, value)] for value in values)
    return list(dict.fromkeys(found[0] for found in having if len(found) == 1))


def _told_apart(entries: Sequence[str], request: str) -> list[str]:
    """The entries that have a word or a number of a request which not all of them have."""
    asked = {*long_words(request), *(each for each in words(request) if each.isdigit())}
    said = [asked.intersection(words(each)) for each in entries]
    common = set.intersection(*said)
    return [each for each, told in zip(entries, said, strict=True) if told - common]


def _says(
    answer: str, count: int, request: str, meant: Sequence[str], others: Sequence[str]
) -> bool:
    """Whether one of the entries that are meant says what an answer claims, or one of other
    results does; the number of the entries is not said by one of them."""
    new = beyond(answer, request)
    if str(count) in new:
        return False
    texts = [in_all_readings(each) for each in (*meant, *(others if new else ()))]
    return any(all(holds(text, claim) for claim in new) for text in texts)
