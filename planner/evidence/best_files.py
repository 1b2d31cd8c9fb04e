"""Which files to read for a question, by the lines that a search found."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from planner.evidence.definitions import CLASS, defined_name
from planner.evidence.file_text import is_generated
from planner.evidence.hits import Hit, as_passages
from planner.evidence.ranking import in_words, ranked, weight
from planner.evidence.words import tokens

REGION = 30
"""Lines between two hits that belong to different places of a file."""
MAX_DEFINING_FILES = 2
"""Files that may define a name, for it to tell which of them to read."""
MIN_COPIED = 20
"""Lines found in a file that may be a copy: files that are only alike share a few lines."""
COPIED_SHARE = 0.75
"""The share of all lines found in two files that copies have in common."""


def defining_files(found: Sequence[Hit], names: set[str]) -> list[str]:
    """The files whose lines define some of the names; first those that define one at their
    outermost level, then those that define most."""
    count: Counter[str] = Counter()
    for path, _, outermost in _definitions(found, names):
        count[path] += len(names) if outermost else 1
    return sorted(count, key=lambda path: (-count[path], path))


def _definitions(found: Sequence[Hit], names: set[str]) -> set[tuple[str, str, bool]]:
    """Each file with a name that it defines, and whether it does so at its outermost level."""
    return {
        (hit.path, name, not hit.text[:1].isspace())
        for hit in found
        if (name := defined_name(hit.text)) in names
    }


def best_files(found: Sequence[Hit], question: str, more: Sequence[str]) -> list[str]:
    """The files that define a word of the question, unless many do, as for `default:` and `name:`;
    and then the files with the best places, which are groups of hits near each other. Copies of
    files come last, and then files that were generated."""
    best = ranked(as_passages(found, REGION), question, " ".join(more))
    generated = {hit.path for hit in found if is_generated(hit.text)}
    asked = {*tokens(question)}
    copies = _copies(found, [place.source for place in best], asked)
    best.sort(key=lambda place: (place.source in generated, place.source in copies))
    written = (hit for hit in found if hit.path not in generated | copies)
    source = [hit for hit in written if weight(hit.path, asked) == 1]
    defining: dict[str, set[str]] = defaultdict(set)
    spoken = in_words(question)
    classes = filter(None, (defined_name(hit.text) for hit in source if CLASS.match(hit.text)))
    for path, name, _ in _definitions(source, {*asked, *filter(spoken, classes)}):
        defining[name].add(path)
    telling = {name for name, paths in defining.items() if len(paths) <= MAX_DEFINING_FILES}
    files = [*defining_files(source, telling), *(place.source for place in best)]
    return list(dict.fromkeys(files))


def _copies(found: Sequence[Hit], order: Sequence[str], asked: set[str]) -> set[str]:
    """The files in which nearly the same was found as in another one, such as the formats in which
    a package is built. The original's path says most of what is asked; else it is a source, or the
    first in this order."""
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
