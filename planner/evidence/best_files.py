"""Which files to read for a question, by the lines that a search found."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from planner.evidence.hits import Hit, as_passages
from planner.evidence.passages import is_generated
from planner.evidence.ranking import defined_in, ranked, weight
from planner.evidence.words import tokens

REGION = 30
"""Lines between two hits that belong to different places of a file."""
MAX_DEFINING_FILES = 2
"""Files that may define a name of the question, so that it says which of them to read."""
MIN_COPIED = 20
"""Lines that were found in a file, for these to tell whether another one is a copy of it: files
that are only alike have a few lines in common."""
COPIED_SHARE = 0.75
"""Of all lines found in two files, so many are in both if one is a copy of the other."""


def defining_files(found: Sequence[Hit], names: set[str]) -> list[str]:
    """The files whose lines define some of the names: those that define most of them first, of
    those that do so at their outermost level."""
    count: Counter[str] = Counter()
    for path, _, outermost in _definitions(found, names):
        count[path] += len(names) if outermost else 1
    return sorted(count, key=lambda path: (-count[path], path))


def _definitions(found: Sequence[Hit], names: set[str]) -> set[tuple[str, str, bool]]:
    """The files whose lines define some of the names, each with the name and whether it is defined
    at the outermost level."""
    return {
        (hit.path, name[0], not hit.text[:1].isspace())
        for hit in found
        if (name := defined_in(hit.text)) and name[0] in names
    }


def best_files(found: Sequence[Hit], question: str, more: Sequence[str]) -> list[str]:
    """The files that define something whose name is a word of the question, and then the files with
    the best places. A place is a group of hits near each other in a file; places are ranked. What
    many files define, such as `default:` and `name:`, is a word like others. Copies of files come
    last, and then files that were generated."""
    best = ranked(as_passages(found, REGION), question, " ".join(more))
    generated = {hit.path for hit in found if is_generated(hit.text)}
    asked = {*tokens(question)}
    copies = _copies(found, [place.source for place in best], asked)
    best.sort(key=lambda place: (place.source in generated, place.source in copies))
    written = (hit for hit in found if hit.path not in generated | copies)
    source = [hit for hit in written if weight(hit.path, asked) == 1]
    defining: dict[str, set[str]] = defaultdict(set)
    for path, name, _ in _definitions(source, asked):
        defining[name].add(path)
    telling = {name for name, paths in defining.items() if len(paths) <= MAX_DEFINING_FILES}
    files = [*defining_files(source, telling), *(place.source for place in best)]
    return list(dict.fromkeys(files))


def _copies(found: Sequence[Hit], order: Sequence[str], asked: set[str]) -> set[str]:
    """The files in which nearly the same was found as in another one, such as a package that was
    built in several formats. The one whose path says most of what is asked is the original, or else
    the one that was written, or the first in this order."""
    lines: dict[str, set[str]] = defaultdict(set)
    for hit in found:
        lines[hit.path].add(hit.text.strip())
    telling = [path for path in dict.fromkeys(order) if len(lines[path]) >= MIN_COPIED]
    telling.sort(key=lambda path: (-len(asked & {*tokens(path)}), -weight(path, asked)))
    copies: set[str] = set()
    for number, path in enumerate(telling):
        own = lines[path]
        others = (lines[each] for each in telling[:number])
        if any(len(own & each) >= COPIED_SHARE * len(own | each) for each in others):
            copies.add(path)
    return copies
