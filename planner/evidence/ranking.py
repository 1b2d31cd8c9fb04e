"""Which passages are shown: by BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework,
2009) over the words of their text, their path and the lines they stand in.

A library would need numpy, whose import takes longer than the ranking of a whole project.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from statistics import fmean, pstdev
from types import MappingProxyType
from typing import TypeVar

from planner.evidence.definitions import defined, defined_in, defined_name, heads
from planner.evidence.listing import is_path_of, paths_said
from planner.evidence.words import (
    hyphenated,
    in_another_spelling,
    is_name,
    named,
    parts_of,
    tokens,
    words,
)
from planner.passage import Passage

Compared = TypeVar("Compared")

DEFINED_WEIGHT = 3
"""A word of a name that a passage defines counts as often as so many words of its text."""
PATH_WEIGHT = 2
"""The same for a word of its path."""
NAMED_LIFT = 2.0
"""The factor for the score of a passage that has a name of the query word for word, defines what it
says in words, or stands in a file that it names."""
ADDED_WEIGHT = 0.6
"""The weight of the words that a model added to those of the query that it chose."""
LEFT_OUT_WEIGHT = 0.2
"""The weight of the query's own words that a model did not choose: "how", "step by step"."""
ALIKE_WEIGHT = 0.4
"""The exponent of the factor for a passage that is one standard deviation closer to the query in
meaning than those compared with it."""
BESIDE_SOURCE = (
    ({"test", "spec", "fixtur", "mock", "t"}, 0.7),
    ({"md", "rst", "doc", "exampl", "benchmark"}, 0.8),
    ({"changelog", "chang", "histori", "releas", "lock"}, 0.5),
)
"""Words of a path that speak of something beside the source, and what its passages count for,
unless the query has such a word itself."""
MADE, MADE_SHARE = "dist", 0.5
"""The folder of what is made of sources, and what its passages count for."""

Alike = Mapping[Passage, float]
"""How close passages are to a question in meaning, those that were compared with it."""
NOT_COMPARED: Alike = MappingProxyType({})


class BM25:
    """Documents, scored by the words of a query: rare words count more, long documents less."""

    SATURATION = 1.2
    LENGTH = 0.3
    """Less than for prose, where a long document repeats itself: units of code do not."""

    def __init__(self, documents: Sequence[Counter[str]]) -> None:
        self.size = len(documents)
        lengths = [document.total() for document in documents]
        average = sum(lengths) / max(1, self.size) or 1.0
        self._shares: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, document in enumerate(documents):
            norm = self.SATURATION * (1 - self.LENGTH + self.LENGTH * lengths[number] / average)
            for word, count in document.items():
                share = count * (self.SATURATION + 1) / (count + norm)
                self._shares[word].append((number, share))

    def scores(self, query: Iterable[str]) -> list[float]:
        """One score for each document; 0 where it shares no word. A word counts once."""
        scores = [0.0] * self.size
        for word in sorted(set(query)):  # sorted: sums of floats depend on their order
            shares = self._shares.get(word, [])
            rarity = math.log(1 + (self.size - len(shares) + 0.5) / (len(shares) + 0.5))
            for number, share in shares:
                scores[number] += rarity * share
        return scores


def ranked(
    passages: Sequence[Passage], query: str, more: str = "", alike: Alike = NOT_COMPARED
) -> list[Passage]:
    """The passages that share words with the query, best first. `more`: the words of the query that
    a model chose, and others that it added. `alike`: how close some passages are in meaning."""
    asked, beside = set(words(query)), set(words(more))
    chosen, added = asked & beside, beside - asked
    if not chosen:  # asked in another language
        chosen, added = asked | beside, set()
    index = BM25([_document(each) for each in passages])
    scores, of_added = index.scores(chosen), index.scores(added)
    of_left_out = index.scores(asked - chosen)
    names, spoken, files = named_in(passages, query), in_words(query), paths_said(query)
    joined, nearer = hyphenated(query), closer(alike)
    scored = []
    for number, passage in enumerate(passages):
        score = scores[number] + ADDED_WEIGHT * of_added[number]
        score += LEFT_OUT_WEIGHT * of_left_out[number]
        if score <= 0:
            continue
        text = passage.text.lower() if joined else ""
        spelled = any(in_another_spelling(each, text) for each in joined)
        if spelled or names & {*tokens(passage.text), *tokens(passage.heading)}:
            score *= NAMED_LIFT
        if any(is_name(name) and spoken(name) for name in defined(passage)):
            score *= NAMED_LIFT
        if any(is_path_of(file, passage.source) for file in files):
            score *= NAMED_LIFT
        score *= math.exp(ALIKE_WEIGHT * nearer.get(passage, 0.0))
        scored.append((score * weight(passage.source, asked), number))
    return [passages[number] for _, number in sorted(scored, key=lambda each: (-each[0], each[1]))]


def closer(alike: Mapping[Compared, float]) -> dict[Compared, float]:
    """By how many standard deviations texts are closer to a question than the others."""
    if len(alike) < 2:
        return {}
    mean, deviation = fmean(alike.values()), pstdev(alike.values())
    return {each: (score - mean) / (deviation or 1.0) for each, score in alike.items()}


def named_in(passages: Sequence[Passage], query: str) -> set[str]:
    """The names in a query: what is spelled as one, and words with a capital that passages define,
    such as a class `Session`."""
    spelled = named(query)
    capital = {token for token in tokens(query)[1:] if token[0].isupper()} - spelled
    if capital:
        capital &= {name for passage in passages for name in defined(passage)}
    return spelled | capital


def in_words(query: str) -> Callable[[str], bool]:
    """Whether a query has a name as words in a row: "max retries" for `maxRetries`."""
    said = " ".join(["", *(word for token in tokens(query) for word in parts_of(token)), ""])
    return lambda name: f" {' '.join(parts_of(name))} " in said


def followed(passages: Sequence[Passage], top: Sequence[Passage]) -> list[tuple[Passage, str]]:
    """Passages that define what the top ones mention, each with that name, such as a constant or
    the base of a class, but for constructors. What the first ones mention comes first; of each, the
    names of its first line, and then the rarest."""
    defining: dict[str, list[tuple[int, int]]] = defaultdict(list)
    spread: Counter[str] = Counter()
    for number, passage in enumerate(passages):
        spread.update(set(tokens(passage.text)))
        if passage not in top:
            inside = heads(passage)
            for name, position in defined(passage).items():
                if name not in inside:
                    defining[name].append((position, number))
    found: list[tuple[Passage, str]] = []
    for passage in top:
        lines = [(line, defined_in(line)) for line in passage.text.splitlines()]
        head = set(tokens(next((line for line, name in lines if name), "")))
        # What stands within it too: many classes have methods of the same names.
        own = defined(passage).keys() | {name[0] for _, name in lines if name and name[1]}
        names = {name for name in tokens(passage.text) if is_name(name) and name not in own}
        for name in sorted(names, key=lambda name: (name not in head, spread[name], name)):
            found += [(passages[number], name) for _, number in sorted(defining[name])[:2]]
    return list(dict.fromkeys(found))


def undefined(passages: Sequence[Passage], top: Sequence[Passage]) -> list[str]:
    """The names that the top passages mention and none of the passages defines."""
    known = {name for passage in passages for name in defined(passage)}
    mentioned = dict.fromkeys(name for passage in top for name in tokens(passage.text))
    return [name for name in mentioned if is_name(name) and name not in known]


@lru_cache(maxsize=4_000)  # passages are ranked again when more have been found
def _document(passage: Passage) -> Counter[str]:
    bag = Counter(words(f"{passage.text}\n{passage.heading}"))
    for word in words(passage.source):
        bag[word] += PATH_WEIGHT
    names = filter(None, map(defined_name, passage.text.splitlines()))
    for word in words(" ".join(names)):
        bag[word] += DEFINED_WEIGHT - 1
    return bag


def weight(source: str, asked: set[str]) -> float:
    """What the passages of a source count for, by its path."""
    parts = set(words(source))
    if MADE in source.split("/")[:-1] and MADE not in asked:
        return MADE_SHARE
    return min(
        (share for told, share in BESIDE_SOURCE if told & parts and not told & asked), default=1.0
    )
