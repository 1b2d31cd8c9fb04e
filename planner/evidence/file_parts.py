"""The parts of a file that a model is shown, to write them again as a request wants them."""

from collections.abc import Sequence

from planner.evidence.definitions import defined
from planner.evidence.file_text import split_lines
from planner.evidence.passages import of_file
from planner.evidence.ranking import followed, ranked
from planner.evidence.words import tokens, words
from planner.passage import Passage

MAX_CHARS = 1200
"""Characters of a file that are written again at once."""
MAX_GAP = 3
"""Lines between two units that are shown as one part."""
FOLLOWED = 2
"""Units whose names lead to a definition that may have to be changed."""


def parts(
    path: str, text: str, request: str, search: Sequence[str], names: set[str]
) -> list[Passage]:
    """The file itself if it is short; else its best units for a request and what was searched for,
    if possible among those with one of the names or texts, what defines one first; neighbours stand
    together. What the first units mention and the request has a word of may be defined elsewhere,
    as a default is: the unit that defines it comes second."""
    lines = split_lines(text)
    if len(text) <= MAX_CHARS:
        return [whole(path, text)] if lines else []
    units = of_file(path, text)
    held = [each for each in units if any(" " in name and name in each.text for name in names)]
    names = names - {*tokens(path)}  # in a file of its name, a class is all of it
    held = held or [each for each in units if names & {*tokens(each.heading + "\n" + each.text)}]
    best = ranked(held or units, request, " ".join(search))
    best.sort(key=lambda each: not names & {*defined(each)})
    best[1:1] = _mentioned(units, best[:FOLLOWED], {*words(" ".join([request, *search]))})
    room, spans = MAX_CHARS, dict[tuple[int, int], None]()
    for unit in dict.fromkeys(best):
        room -= len(unit.text)
        if spans and room < 0:
            break
        spans[unit.first, unit.last] = None
    found = [
        Passage(
            source=path, first=first, last=last, text="\n".join(lines[first - 1 : last]).rstrip()
        )
        for first, last in _together(sorted(spans))
    ]
    return [each for each in found if len(each.text) <= 2 * MAX_CHARS]


def whole(path: str, text: str) -> Passage:
    return Passage(source=path, first=1, last=len(split_lines(text)), text=text.rstrip())


def _mentioned(
    units: Sequence[Passage], first: Sequence[Passage], asked: set[str]
) -> list[Passage]:
    """The unit that defines the name among those in the first ones that has most words of what is
    asked, if one has any."""
    defining = followed(units, first)
    best = max(defining, key=lambda each: len(asked & {*words(each[1])}), default=None)
    return [best[0]] if best and asked & {*words(best[1])} else []


def _together(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in spans:
        if joined and first - joined[-1][1] <= MAX_GAP:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined
