"""Requests that are lists of requests, or ask for two things in turn."""

import re
from itertools import pairwise

from planner.evidence.words import long_words, named, tokens, words
from planner.protocol import IT, Brief

MAX_ITEMS = 9
_MARK = r"\(?{number}(?:[.)]\s+|、)(?=\S)"
"""`1. `, `2) `, `(3) `, `4、`"""
_FIRST = re.compile(rf"(?:\A|[\n:：.。;；?？!！]) *{_MARK.format(number=1)}")
"""At the beginning of a line, or after the end of a sentence."""


def listed(request: str) -> tuple[str, list[str]]:
    """The items of a list in a request, with numbers from 1 on, and what stands before it. What
    stands in a paragraph after it is part of each. No items if there are not two at least, or if
    the list is not in the first paragraph or the second: it may be of a text that was pasted. None
    either if there are more than `MAX_ITEMS`."""
    request = request.replace("\r\n", "\n")
    mark = _FIRST.search(request)
    if mark is None:
        return request, []
    before = request[: mark.end()].rpartition("1")[0].rstrip("( \n")
    items: list[str] = []
    rest = request[mark.end() :]
    between = r"(?:\s|(?<=[。；？！]))\s*"
    if re.search(rf"\n *{_MARK.format(number=2)}", rest.partition("\n\n")[0]):
        between = r"\n\s*"  # within a line, many languages write "2. " for "second"
    while len(items) < MAX_ITEMS:
        mark_of_next = between + _MARK.format(number=len(items) + 2)
        item, *others = re.split(mark_of_next, rest, maxsplit=1)
        items.append(item.strip())
        if not others:
            break
        [rest] = others
    else:  # more than can be met one by one: none may be left out
        return request, []
    items[-1], _, after = items[-1].partition("\n\n")
    if len(items) < 2 or "\n\n" in before:
        return request, []
    return before, [f"{each}\n{after}".strip() for each in items]


def in_turn(brief: Brief, request: str) -> bool:
    """Whether a request asks for two things in turn: the second question is about what the first
    one finds, each asks for something of the request that the other does not, names apart, and
    together they have all names of the request. A small model makes two questions of many a single
    one: "the function open_store" says which function it is."""
    if IT not in brief.then or IT in brief.first or not brief.first:
        return False
    first, rest = brief.first, brief.then.replace(IT, " ")
    names = named(request)
    kinds = [before for before, name in pairwise(tokens(request)) if name in names]
    said = {*words(request)} - {*words(" ".join([*names, *kinds]))}
    apart = (
        said & {*long_words(one)} - {*words(other)} for one, other in ((first, rest), (rest, first))
    )
    return all(apart) and names <= {*tokens(first), *tokens(rest)}
