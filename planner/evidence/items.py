"""Requests that are lists of requests, or ask for two things in turn."""

import re
from itertools import pairwise

from planner.evidence.words import asks, long_words, named, tokens, words
from planner.protocol import IT, Brief
from planner.text import NUMBERED

MAX_ITEMS = 9
MAX_BETWEEN = 8
"""Letters between two questions that a request consists of: "and", "sowie"."""
_FIRST = re.compile(rf"(?:\A|[\n:：.。;；?？؟!！]) *(?P<mark>{NUMBERED})\s*(?=\S)")
"""At the beginning of a line, or after the end of a sentence."""
_NEXT_LINE = re.compile(rf"\n\s*(?P<mark>{NUMBERED})\s*(?=\S)")
_NEXT = re.compile(rf"(?:\s|(?<=[。；？！]))\s*(?P<mark>{NUMBERED})\s*(?=\S)")


def listed(request: str) -> tuple[str, list[str]]:
    """What stands before a list in a request, and its items, numbered from 1 on; a paragraph after
    it is part of each. It has two items at least and `MAX_ITEMS` at most, and begins in the first
    or the second paragraph: a later one may be of a text that was pasted."""
    request = request.replace("\r\n", "\n")
    mark = _numbered(_FIRST, request, 0, 1)
    if mark is None:
        return request, []
    before = request[: mark.start("mark")].rstrip(" \n")
    items: list[str] = []
    within, _, _ = request[mark.end() :].partition("\n\n")
    # Within a line, many languages write "2. " for "second".
    following = _NEXT_LINE if _numbered(_NEXT_LINE, within, 0, 2) else _NEXT
    while mark and len(items) < MAX_ITEMS:
        begins = mark.end()
        mark = _numbered(following, request, begins, len(items) + 2)
        items.append(request[begins : mark.start() if mark else None].strip())
    if mark:  # more than can be met one by one: none may be left out
        return request, []
    items[-1], _, after = items[-1].partition("\n\n")
    if len(items) < 2 or "\n\n" in before:
        return request, []
    return before, [f"{each}\n{after}".strip() for each in items]


def in_turn(brief: Brief, request: str) -> bool:
    """Whether a request asks for two things in turn, since a small model makes two questions of a
    single one: it consists of the two, or the second is about what the first finds, each has words
    of the request that the other has not, apart from names, and together they have all its
    names."""
    if IT not in brief.then:
        return _consists_of(brief.first, brief.then, request)
    if IT in brief.first or not brief.first:
        return False
    first, rest = brief.first, brief.then.replace(IT, " ")
    names = named(request)
    kinds = [before for before, name in pairwise(tokens(request)) if name in names]
    said = {*words(request)} - {*words(" ".join([*names, *kinds]))}
    apart = (
        said & {*long_words(one)} - {*words(other)} for one, other in ((first, rest), (rest, first))
    )
    return all(apart) and names <= {*tokens(first), *tokens(rest)}


def _consists_of(first: str, second: str, request: str) -> bool:
    begin, end, whole = (
        "".join(re.findall(r"\w", each.casefold())) for each in (first, second, request)
    )
    between = len(whole) - len(begin) - len(end)
    together = whole.startswith(begin) and whole.endswith(end) and 0 <= between <= MAX_BETWEEN
    return asks(first) and asks(second) and together


def _numbered(mark: re.Pattern[str], text: str, begins: int, number: int) -> re.Match[str] | None:
    """The first mark of an item with this number, in any digits."""
    found = mark.finditer(text, begins)
    return next((each for each in found if int(re.sub(r"\D", "", each["mark"])) == number), None)
