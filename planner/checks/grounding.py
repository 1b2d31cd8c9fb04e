"""Whether what an answer claims was found or said at all."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from unicodedata import normalize

from planner.checks import validation
from planner.checks.claims import (
    beyond,
    claims,
    holds,
    in_all_readings,
    is_number,
    is_value,
    numbers_in,
    readings,
    repeats,
    stated,
    without_lines,
    without_number,
    without_separators,
)
from planner.checks.forms import FILE, counts, file_in, in_another_form, is_path
from planner.checks.guards.results import empty
from planner.checks.lenient import is_block
from planner.evidence.context import with_count
from planner.evidence.words import apart, is_name, long_words, says, tokens, words
from planner.state import Iteration, RunState
from planner.text import leaves, strings

SCALES = (
    *(60, 1000, 3600, 86_400, 60_000, 3_600_000, 86_400_000),
    *(1024, 1024**2, 1024**3, 10**6, 10**9, 10**4, 10**8),
)
"""By what a number grows in a smaller unit, of time or of size, or without a Chinese numeral."""
CENTS = 100
"""By what an amount of money grows where it is told in the smallest unit of its currency."""
SMALLEST_AMOUNT = 0.01
OWN_WORDS_SHARE = 0.2
"""The share of an answer's words that nothing shown may have (docs/experiments.md, "Answers in
words of their own")."""
MIN_OWN_WORDS = 3
"""So many of them; fewer are too large a share of a few words."""
UNHELD_SHARE = 0.25
"""The share of a sentence's claims that results may lack."""

_TEXT = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")
"""What code says between quotation marks."""
_HOUR = re.compile(r"(?<![\d:])0(\d):\d\d")
"""Of a time, without the zero before it."""


def unsupported(state: RunState, answer: str) -> list[str]:
    """What an answer claims and nothing that was seen says: no passage, no result, and not the
    request. Numbers may follow from others in the answer, or have another unit in results."""
    missing = unsaid(answer, seen(state))
    other = _in_other_units(state, missing)
    return [claim for claim in missing if claim not in other]


def names_more(state: RunState, answer: str, request: str) -> bool:
    """Whether an answer names something beyond the request, and all that it claims was seen."""
    return bool(beyond(answer, request)) and not unsupported(state, answer)


def converted(state: RunState, answer: str) -> list[str]:
    """The numbers of an answer that were seen in a smaller unit alone, such as 30 seconds for
    30000. This proves nothing, since the units are not known. 1 is mostly a count."""
    return _in_other_units(state, unsaid(answer, seen(state)))


def _in_other_units(state: RunState, missing: Sequence[str]) -> list[str]:
    numbers = [claim for claim in missing if is_number(claim) and float(claim) > 1]
    text = in_all_readings(results(state)) if numbers else ""
    return [claim for claim in numbers if any(holds(text, each) for each in _scaled(float(claim)))]


def _scaled(number: float) -> list[str]:
    """A number in smaller units, and as a share if it may be a percentage: 45 may be 0.45."""
    share = number / 100
    values = [number * by for by in SCALES] + ([] if share.is_integer() else [share])
    return [f"{each:.15g}" for each in values]


def not_done(state: RunState, answer: str) -> list[str]:
    """What the answer to a request for a change claims, and what was done does not say. What was
    planned, or read before, proves nothing. But a number may come from any result, since it claims
    no change, stand in a call in a smaller unit, or be what a number was changed by; and an hour
    of the request may have a zero before it in a call."""
    done = carried_out(state)
    missing = unsaid(answer, done)
    if not missing:
        return []
    read, told = in_all_readings(results(state)), in_all_readings(done)
    hours = [each for each in _HOUR.findall(done) if holds(state.prompt, each)]
    left = [claim for claim in missing if claim not in hours]
    left = [claim for claim in left if not (is_value(claim) and holds(read, claim))]
    return [
        claim
        for claim in left
        if not is_number(claim)
        or not (_in_smaller_unit(claim, told) or _changed_by(float(claim), state))
    ]


def _in_smaller_unit(number: str, text: str) -> bool:
    cents = f"{float(number) * CENTS:.15g}"
    return any(holds(text, each) for each in (cents, *_scaled(float(number))))


def _changed_by(number: float, state: RunState) -> bool:
    """Whether a change was given a read number plus or minus this one, or so many percent."""
    before = set(numbers_in("\n".join(each.result for each in chosen(state) if not each.changes)))
    made = [each for each in chosen(state) if each.changes]
    now = numbers_in("\n".join(text for each in made for text in given(each)))
    share = number / 100
    ways = ((1, number), (1, -number), (1 + share, 0), (1 - share, 0))
    return any(
        abs(each * by + plus - new) < SMALLEST_AMOUNT / 2
        for each in before
        for by, plus in ways
        for new in now
    )


def carried_out(state: RunState) -> str:
    """The calls of a run with what they were given, and the results from the first change on. What
    was read before, strangers wrote: it may tell of anything as if it had been done. All results
    where nothing was changed."""
    texts = [each.place for each in state.passages]
    changed = False
    for each in state.iterations:
        if each.succeeded:
            changed = changed or each.changes
            texts.append(called(each))
            texts += [with_count(each.result)] if changed else []
    return "\n".join(texts) if changed else results(state)


def as_read(answer: str, text: str) -> str:
    """The reading of an answer's numbers by which a text holds most of it."""
    return min(readings(answer), key=lambda each: len(_unheld(each, text)))


def unsaid(answer: str, text: str) -> list[str]:
    """What an answer claims and a text does not say, in no form."""
    answer, text = (normalize("NFC", each) for each in (answer, text))  # files may take `é` apart
    if not _unheld(as_read(answer, text), text):  # all readings of a large result take a while
        return []
    text = in_all_readings(text)
    return _unheld(as_read(answer, text), text)


def _unheld(answer: str, text: str) -> list[str]:
    answer = apart(answer)
    wanted = [*claims(answer), *stated(answer, text)]
    held = [claim for claim in wanted if holds(text, claim) or file_in(claim, text)]
    missing = [claim for claim in wanted if claim not in held]
    return [claim for claim in missing if not in_another_form(claim, answer, text, held)]


def echoed(state: RunState, answer: str, calls: Sequence[Iteration] | None = None) -> list[str]:
    """The words of the request, or of these calls, that an answer repeats and no result has."""
    asked = state.prompt
    if calls is not None:
        asked = "\n".join(f"{each.prompt}\n{each.arguments}" for each in calls)
    missing = {*long_words(asked)} - {*words(results(state))}
    return [word for word in dict.fromkeys(words(answer)) if word in missing]


def only_of_request(state: RunState, answer: str) -> bool:
    """Whether all names and numbers of an answer are the request's, and one of them is in no
    result: `MAX_SIZE is 90` for "set the max size to 90"."""
    asked = state.prompt
    own = {*words(asked)}
    new = [claim for claim in beyond(answer, asked) if not own.issuperset(_parts(claim))]
    return not new and bool(of_request(state, answer))


def of_request(state: RunState, answer: str) -> list[str]:
    """The names and numbers of an answer that the request has, and no result."""
    asked, known = state.prompt, results(state)
    repeated = [claim for claim in claims(without_separators(answer)) if holds(asked, claim)]
    return [claim for claim in repeated if not holds(known, claim)]


def _parts(name: str) -> set[str]:
    """The words that a name consists of."""
    return {word for word in words(name) if word != name.lower()} or {*words(name)}


def mostly_held(state: RunState, sentence: str, answer: str) -> bool:
    """Whether results hold what a sentence of a long answer claims, or nearly all of many claims:
    the end says what they do not hold. A number may count what the answer lists."""
    claimed, missing = _checked(state, sentence)
    missing = [each for each in missing if not counts(each, answer)]
    return len(missing) <= UNHELD_SHARE * len(claimed)


def _checked(state: RunState, sentence: str) -> tuple[list[str], list[str]]:
    """What a sentence of a long answer claims, and what of it results do not hold. Of a block of
    code, which may be an example, only the names count."""
    told = without_number(sentence)
    claimed, missing = claims(told), unsupported(state, told)
    if not is_block(sentence):
        return claimed, missing
    names = {*filter(is_name, tokens(_TEXT.sub("", sentence)))}
    return [each for each in claimed if each in names], [each for each in missing if each in names]


def borne_out(state: RunState, facts: Sequence[str], known: Sequence[str]) -> list[str]:
    """The facts of a long answer that results hold and that are not known yet."""
    kept: list[str] = []
    lines = [line for each in known for line in each.split("\n")]
    for fact in facts:
        alone = FILE.fullmatch(without_lines(fact.strip()))  # the name of a file says nothing
        new = not any(repeats(fact, other) for other in (*lines, *kept))
        if fact.strip() and not alone and new and not _checked(state, fact)[1]:
            kept.append(fact.strip())
    return kept


def in_own_words(state: RunState, answer: str) -> bool:
    """Whether too many of an answer's words stand neither in what a model was shown nor in the
    request: what a small model makes up, it says in its own words. Words that no file has do not
    count, as those of another language. Without passages, results are too short for this."""
    if not state.passages:
        return False
    shown = {*words(seen(state))}
    read = [each.result for each in state.part_iterations if each.by == "lookup"]
    told = {*words(answer)} & {*words("\n".join(read))}.union(shown)
    own = len(told - shown)
    return own >= MIN_OWN_WORDS and own > OWN_WORDS_SHARE * len(told)


def unsupported_data(state: RunState, answer: str, data: Any) -> list[str]:
    """What the answer's data claims beyond the answer, and nothing that was seen says."""
    missing = unsaid(said(state, data), seen(state))
    return [claim for claim in missing if not holds(answer, claim)]


def said(state: RunState, data: Any) -> str:
    """What data holds, as an answer would say it, without what the schema names; one a line."""
    schema = state.request.data_schema if state.request else None
    named = validation.named(schema or {})
    names = [("", name) for each in validation.objects(data) for name in each]
    return "\n".join(
        _as_said(name, value)
        for name, value in [*names, *leaves(data)]
        if not (value is None or isinstance(value, bool) or value in named)
    )


def _as_said(name: str, value: Any) -> str:
    if isinstance(value, int) and "line" in name.lower():
        return f"line {value}"  # the place of a line supports its number
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def results(state: RunState) -> str:
    """What came of tool calls: passages, results, and what changes were given. What a reading call
    was given is the model's own, except for the path of a file: it is known to be there."""
    texts = gathered(state)
    for each in chosen(state):
        given = [called(each)] if each.changes else given_paths(each)
        texts += [*given, with_count(each.result)]
    return "\n".join(texts)


def queries(state: RunState) -> list[Iteration]:
    """The queries of lists that found something for the newest request."""
    return [each for each in state.part_iterations if each.by == "query"]


def query_written(state: RunState) -> bool:
    return any(call.role == "query" for call in state.ledger[state.part.calls :])


def found_row(state: RunState) -> dict[str, Any]:
    """The only row that the newest query of a list found; empty if it found more."""
    made = queries(state)
    found = json.loads(made[-1].result) if made else None
    return found if isinstance(found, dict) else {}


def queried(state: RunState) -> list[str]:
    """The values of that row."""
    values = [each for each in found_row(state).values() if each is not None]
    return [f"{each:.15g}" if isinstance(each, float) else str(each) for each in values]


def otherwise_queried(state: RunState, answer: str) -> str | None:
    """Why queries of the results speak against an answer: one says another number, or none found
    anything, and small models miss half of a list when they read it."""
    if query_written(state) and not queries(state):
        return "The answer was read from a list, and no query confirms it"
    found = queried(state)
    if len(found) == 1 and is_number(found[0]) and not tells(answer, found):
        return f"A query of the results says {found[0]}"
    return None


def tells(answer: str, values: Sequence[str]) -> bool:
    """Whether an answer has all of some values, of one at least."""
    text = in_all_readings(answer)
    return bool(values) and all(says(text, each) for each in values)


def called(call: Iteration) -> str:
    """The tool of a call and what it was given, a value a line; texts are not escaped."""
    return "\n".join([call.tool, *given(call)])


def given(call: Iteration) -> list[str]:
    return [f"{name} {value}" for name, value in leaves(call.arguments)]


def given_values(calls: Iterable[Iteration]) -> list[str]:
    """The values that calls were given, without their names."""
    return [str(value) for call in calls for _, value in leaves(call.arguments)]


def given_paths(call: Iteration) -> list[str]:
    return [each for each in strings(call.arguments) if is_path(each)]


def gathered(state: RunState) -> list[str]:
    """The passages, each with its place and what it stands in."""
    return [f"{each.place}\n{each.heading}\n{each.told}" for each in state.passages]


def seen(state: RunState) -> str:
    """What was found and what the user said; not what a model planned or looked for in vain."""
    texts = [results(state), *(each for call in chosen(state) for each in _asked_for(call))]
    if state.started:
        texts += [state.user_words, state.started.listing or ""]
    return "\n".join(texts)


def _asked_for(call: Iteration) -> Iterator[str]:
    """What a call was made for that may be said: a day or an id ("there is nothing on 2024-05-20"),
    and another word only if something was found. A model makes up phrases and whole numbers."""
    found = not empty(call.result)
    for _, value in leaves(call.arguments):
        one_word = isinstance(value, str) and not re.search(r"\s", value)
        if isinstance(value, float) or (one_word and (found or re.search(r"\d", value))):
            yield str(value)


def chosen(state: RunState) -> list[Iteration]:
    """The iterations that a model chose and that came to a result."""
    return [each for each in state.iterations if each.by != "lookup" and each.succeeded]
