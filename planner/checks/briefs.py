"""Whether what a model made of a request holds against the request."""

from itertools import pairwise

from planner.evidence.words import long_words, named, tokens, words
from planner.protocol import IT, Brief


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
