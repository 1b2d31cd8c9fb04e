"""Which tools of a large pool a request or a step is offered, best first.

Small models choose badly among many tools, and each one costs some thirty tokens of prompt. So a
pool beyond `MAX_SHOWN` is ranked by what its tools say of themselves, with BM25 (Robertson and
Zaragoza, The Probabilistic Relevance Framework, 2009) and by meaning, and a handful is offered.
What that finds and misses is measured in docs/evaluation.md.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

from planner.errors import ModelUnavailable
from planner.evidence.ranking import BM25, closer
from planner.evidence.words import apart, words
from planner.models.encoder import Encoder
from planner.protocol import RunRequest
from planner.tools import ToolSpec

MAX_SHOWN = 30
"""Tools of a pool that is shown whole, to every request."""
REQUEST_TOOLS = 8
"""Tools of a larger pool offered for a request, besides those it names."""
STEP_TOOLS = 5
"""Its tools offered for a step, besides those its objective names, or for a search."""
NAME_WEIGHT = 3
"""A word of a tool's name counts as often as so many words of its description."""
MAX_LIFT = 0.5
"""Of the best match's score, added for a very high priority."""
MAX_COMPARED = 64
"""Tools whose meaning is compared with a query, the likeliest by their words."""
MAX_COMPARED_CHARS = 600
"""Characters of each that are."""
ALIKE_WEIGHT = 0.8
"""As in `planner.evidence.ranking`."""
HALF_LIFT = 10
"""The priority that is lifted half as much."""


class Ranking:
    """The tools of one pool, ranked for requests and steps."""

    def __init__(self, tools: Sequence[ToolSpec], encoder: Encoder | None = None) -> None:
        """Without an `encoder`, tools are ranked by their words alone."""
        self.tools = tools
        """In the pool's order, which decides between equals: highest priority first."""
        self._index = BM25([_document(tool) for tool in tools])
        self._encoder = encoder

    async def for_request(self, request: RunRequest) -> list[str]:
        """The names offered from the start: all of a small pool; else those that the request names,
        and the best for it."""
        if shown_whole(self.tools):
            return [tool.name for tool in self.tools]
        query = f"{request.tool or ''} {request.prompt}"
        return self._offered(query, await self._scores(query), REQUEST_TOOLS)

    async def for_step(self, objective: str) -> list[str]:
        """The names that a step brings in: those its objective names, and the best for it."""
        if shown_whole(self.tools):
            return []
        return self._offered(objective, await self._scores(objective), STEP_TOOLS)

    async def for_search(self, query: str, shown: Sequence[str]) -> list[str]:
        """The names that the words of a search bring in, besides those `shown`."""
        others = [tool.name for tool in self.tools if tool.name not in shown]
        return await self.likeliest(query, others, STEP_TOOLS) if others else []

    def for_hint(self, hint: str) -> list[str]:
        """The names that a hint brings in, by their words alone: it is taken without waiting."""
        if shown_whole(self.tools):
            return []
        return self._offered(hint, self._index.scores(words(hint)), STEP_TOOLS)

    async def ranked(self, query: str) -> list[ToolSpec]:
        """Every tool, best first: by its match, lifted by its priority."""
        return self._best_first(await self._scores(query))

    async def likeliest(self, query: str, names: Sequence[str], most: int) -> list[str]:
        """Of the tools with these names those that share a word with the query, best first."""
        scores = await self._scores(query)
        matched = {tool.name for tool, score in zip(self.tools, scores, strict=True) if score > 0}
        matched &= {*names}
        return [tool.name for tool in self._best_first(scores) if tool.name in matched][:most]

    async def _scores(self, query: str) -> list[float]:
        """How well each tool matches, by its words and then by its meaning."""
        scores = self._index.scores(words(query))
        order = sorted(range(len(scores)), key=lambda number: -scores[number])
        compared = [number for number in order[:MAX_COMPARED] if scores[number] > 0]
        if self._encoder is None or len(compared) < 2:
            return scores
        tools = [self.tools[number] for number in compared]
        told = (f"{tool.name.replace('_', ' ')}: {tool.description}" for tool in tools)
        texts = [each[:MAX_COMPARED_CHARS] for each in told]
        try:
            likeness = await self._encoder.likeness(query, texts)
        except ModelUnavailable:  # gathering says so; tools are needed before a run can begin
            return scores
        for number, nearer in closer(dict(zip(compared, likeness.scores, strict=True))).items():
            scores[number] *= math.exp(ALIKE_WEIGHT * nearer)
        return scores

    def _best_first(self, scores: Sequence[float]) -> list[ToolSpec]:
        best = max(scores, default=0.0)
        lifted = [
            score + best * MAX_LIFT * (tool.priority / (abs(tool.priority) + HALF_LIFT))
            for score, tool in zip(scores, self.tools, strict=True)
        ]
        order = sorted(range(len(lifted)), key=lambda number: -lifted[number])
        return [self.tools[number] for number in order]

    def _offered(self, query: str, scores: Sequence[float], most: int) -> list[str]:
        named = [tool.name for tool in self.tools if _named(tool, query)]
        best = self._best_first(scores)[:most]
        return list(dict.fromkeys([*named, *(tool.name for tool in best)]))


def shown_whole(tools: Sequence[ToolSpec]) -> bool:
    return len(tools) <= MAX_SHOWN


def _document(tool: ToolSpec) -> Counter[str]:
    """What a tool says of itself, as a bag of words."""
    bag = Counter(words(f"{tool.upstream} {tool.description}"))
    for word in words(tool.name):
        bag[word] += NAME_WEIGHT
    for name, schema in tool.parameters.items():
        bag.update(words(f"{name} {schema.get('description') or ''}"))
    return bag


def _named(tool: ToolSpec, text: str) -> bool:
    """Whether a text says a tool's name, bare or as `upstream.name`."""
    return any(
        name in text and re.search(rf"(?<![\w.-]){re.escape(name)}(?!\.?[\w-])", apart(text))
        for name in (tool.name, f"{tool.upstream}.{tool.name}")
    )
