"""What a run's calls changed, and what they did not."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from planner.checks.citations import sources_of
from planner.checks.claims import is_date, is_number
from planner.checks.dates import in_moment
from planner.checks.grounding import carried_out, chosen, given_values, results
from planner.checks.guards.instead import form_of, values_in
from planner.checks.lenient import only, sentences_in, text_of
from planner.evidence.context import entries_within
from planner.evidence.words import apart, long_words, quoted, says, words
from planner.state import Iteration, RunState
from planner.text import flat, shortened, strings
from planner.tools import Arguments

RELATED_SHARE = 0.2
"""The share of a sentence's long words that has to be said elsewhere too."""
MAX_CALL_CHARS = 200
"""Characters of a call; its approval and its run's record have all of it."""
MAX_VALUE_CHARS = 60
"""Characters of a text among its arguments, if it has more: none cuts the others off."""
MIN_TOLD = 3
"""Long words of a sentence that may be judged; "as you wish" tells nothing."""

_JOINING = re.compile(r"(?=.*\S)(?:\s?([,;&+/、，]))?[\s\u2060]*(?:[^\W\d_]{1,4}[\s\u2060]+)?")
"""What may join two values: a mark or a short word."""


def invented(state: RunState, call: Iteration, known: str) -> bool:
    """Whether a model gave a call a text of which no word was said before: by the user, in results,
    or in what is `known` of the tool. The texts of an object count as one. Dates do not count: a
    day may be said as "tomorrow"."""
    before = [each.text for each in sources_of(state) if each.made.number < call.number]
    said = {*words("\n".join([state.said_by_user, known, *before]))}
    given = [{*words("\n".join(texts))} for texts in _texts(call.arguments)]
    return call.by_model and any(told and not told & said for told in given)


def _texts(arguments: Arguments) -> Iterator[list[str]]:
    for value in arguments.values():
        for each in value if isinstance(value, list) else [value]:
            yield [text for text in strings(each) if not (is_number(text) or is_date(text))]


def related(state: RunState, answer: str, known: str) -> str:
    """An answer on what was done, without the sentences that share next to no word with the
    request, the calls, what they did, or what is `known` of the tools."""
    said = {*words("\n".join([state.said_by_user, known, carried_out(state)]))}

    def is_related(sentence: str) -> bool:
        told = {*long_words(sentence)}
        return len(told) < MIN_TOLD or len(told & said) >= RELATED_SHARE * len(told)

    return text_of(only(sentences_in(answer), is_related))


def left_out(state: RunState, made: Sequence[Iteration]) -> list[str]:
    """The values of a request that are joined with one that a change was given, and that no call
    has: the 9 of "close 7 and 9". A word between may join them or not, as in "from 7 to 9", so one
    of the lists that were read has to have both as entries. Addresses, and codes of one form such
    as `S-101`, need not be joined. A text in quotation marks of which neither a call nor a result
    has all words is left out, too."""
    asked = apart(state.prompt)
    text = "\n".join(given_values(chosen(state)))
    known, done = {*words(text)}, {each.casefold() for each in given_values(made)}
    values = values_in(asked)
    forms = {*filter(None, map(form_of, done))}
    left = {each: None for _, each in values if form_of(each) in forms}
    left = {each: None for each in left if not known.issuperset(words(each))}
    for first, second in [*pairwise(values), *zip(values, values[2:], strict=False)]:
        between = asked[first[0].end() : second[0].start()]
        for (_, this), (_, other) in ((first, second), (second, first)):
            if (
                this.casefold() in done
                and _kind(this) == _kind(other) != ()
                and not known.issuperset(words(other))
                and _joins(between, this, other, state)
                and not (other.isdigit() and in_moment(other, asked, text))
            ):
                left[other] = None
    seen = known.union(words(results(state)))
    return [*left, *(f'"{each}"' for each in quoted(asked) if not seen.issuperset(words(each)))]


def _joins(between: str, one: str, other: str, state: RunState) -> bool:
    """Whether what stands between two values of a request joins them."""
    if not (found := _JOINING.fullmatch(between)):
        return False
    if found[1]:
        return True
    lists = [entries_within(each.result) for each in chosen(state) if not each.changes]
    return any(
        any(says(each, one) and not says(each, other) for each in entries)
        and any(says(each, other) and not says(each, one) for each in entries)
        for entries in lists
    )


def _kind(value: str) -> tuple[bool, ...]:
    """Of which kind a value is: an address, a path, a number, a code, a name; empty for a word."""
    kind = ("@" in value, "/" in value, value.isdigit(), any(map(str.isdigit, value)))
    return kind if any(kind) or value[:1].isupper() else ()


def done(calls: Sequence[Iteration]) -> str:
    """The calls that changed something, a line each."""
    return "\n".join(f"- {each}" for each in changes(calls))


def changes(calls: Sequence[Iteration]) -> list[str]:
    """The calls that changed something: the tool and its arguments, up to `MAX_CALL_CHARS`."""
    return [_call(each) for each in calls if each.changed]


def left_undone(calls: Sequence[Iteration], steps: Sequence[str]) -> str:
    """Calls that failed, with the reason, and steps that were not begun, below a heading."""
    if not (calls or steps):
        return ""
    failed = [
        f"{_call(each)}: {_why_not(each)}" if each.outcome else f"{each.prompt}: not begun"
        for each in calls
    ]
    lines = [f"- {each}" for each in [*failed, *(f"{step}: not begun" for step in steps)]]
    return "\n".join(["Not done, as far as is known:", *lines])


def _why_not(iteration: Iteration) -> str:
    if iteration.approval and not iteration.approval.approved:
        return f"not approved ({iteration.approval.reason})"
    return iteration.result.strip().partition("\n")[0][:200]


def _call(iteration: Iteration) -> str:
    arguments = iteration.arguments
    if len(json.dumps(arguments, ensure_ascii=False)) > MAX_CALL_CHARS:
        arguments = {
            name: shortened(value, MAX_VALUE_CHARS) if isinstance(value, str) else value
            for name, value in arguments.items()
        }
    call = f"{iteration.tool} {json.dumps(arguments, ensure_ascii=False)}"
    return shortened(flat(call), MAX_CALL_CHARS)
