"""Which lines of a look-up a model is shown, and with what beside them."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable

from planner import ranking
from planner.findings import facts_among, findings
from planner.lines import BODY_LINES, Line, in_tests
from planner.lookup import PROSE, Lookup, speaks

LEAST_SHARE = 0.3
"""Of the best line's score; what tells less is left out."""
LEAST_SHARE_OF_WORDS = 0.5
"""The same, where only plain words are looked up."""
WINDOW = 3
"""Lines before and after a line that count as one passage with it."""
SHARE_OF_PASSAGE, SHARE_OF_FILE = 0.6, 0.4
"""Of what the words of a line's passage, and of its file, count for the line."""
SHARE_OF_SUGGESTED = 0.5
"""Of what a model's word for a thing counts, against the request's own."""
OPTION_LINES = 6
"""Lines in which an option of a command is declared."""
SETTINGS = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".json", ".env")
MOST_CANDIDATES = 10
"""Files to choose from, where the request describes one."""
WHOLE_FILE_LINES = 60
"""A file that the request names is shown whole up to so many."""

Give = Callable[[Line, float], None]


def shown(lookup: Lookup, longest: int) -> str:
    """The findings and the telling lines, at most about `longest` characters; the best file
    first."""
    found = findings(lookup)
    said = [finding.text for finding in found]
    if facts_among(found, lookup):
        return "\n".join(said)[:longest]
    if lookup.reading.asks_for_file:
        return _files(lookup, longest)
    scores = _scores(lookup)
    share = LEAST_SHARE if lookup.names else LEAST_SHARE_OF_WORDS
    least = share * max(scores.values(), default=0.0)
    scores = {line: score for line, score in scores.items() if score >= least}
    kept: list[Line] = []
    room = longest - sum(len(each) + 1 for each in said)
    for line in sorted(scores, key=lambda line: -scores[line]):
        text = _annotated(lookup, line)
        if len(text) + 1 > room:
            break
        room -= len(text) + 1
        kept.append(line)
    best: dict[str, float] = {}
    for line in kept:
        best[line.path] = max(best.get(line.path, 0), scores[line])
    kept.sort(key=lambda line: (-best[line.path], line.path, line.number))
    rows = [*said, *(_annotated(lookup, line) for line in kept)]
    if len(kept) < len(scores):
        rows.append(f"({len(scores) - len(kept)} more lines; ask more narrowly to see them)")
    return "\n".join(rows)


def _files(lookup: Lookup, longest: int) -> str:
    """The files that speak most of what the request describes: what each is for, what it defines,
    and its most telling line."""
    wanted = set(ranking.words(" ".join(lookup.reading.keywords.values())))
    suggested = set(ranking.words(" ".join(lookup.suggested))) - wanted
    paths = _candidates(lookup)
    index = ranking.BM25([Counter(_spoken(lookup, path)) for path in paths])
    scores = {
        path: mine + SHARE_OF_SUGGESTED * other
        for path, mine, other in zip(
            paths, index.scores(wanted), index.scores(suggested), strict=True
        )
    }
    rows: list[str] = []
    for path in sorted(paths, key=lambda path: -scores[path])[:MOST_CANDIDATES]:
        row = _file(lookup, path, wanted | suggested)
        if scores[path] <= 0 or sum(map(len, rows)) + len(row) > longest:
            break
        rows.append(row)
    return "\n".join(rows)


def _candidates(lookup: Lookup) -> list[str]:
    """The files that may be meant: tests only if they are asked for, settings and code as well."""
    paths = sorted({line.path for line in lookup.all})
    words = {word.lower() for word in lookup.reading.words}
    tests = {line.path for line in lookup.all if in_tests(line)}
    if of_kind := [path for path in paths if (path in tests) is bool({"test", "tests"} & words)]:
        paths = of_kind
    if any(word.startswith("config") or word == "settings" for word in words):
        return [path for path in paths if path.endswith(SETTINGS)] or paths
    return [path for path in paths if not path.endswith(PROSE)] or paths


def _spoken(lookup: Lookup, path: str) -> Iterable[str]:
    yield from ranking.words(path)
    for line in lookup.lines.of(path):
        if not line.imports:
            yield from ranking.words(line.text)


def _file(lookup: Lookup, path: str, words: set[str]) -> str:
    lines = [line for line in lookup.lines.of(path) if not line.imports]
    defined = [str(line.defines) for line in lines if line.is_class or line.is_function]
    best = max(lines, key=lambda line: len(words & set(ranking.words(line.text))))
    row = f"{path}: {lookup.lines.purpose(path)[:120]}"
    if defined:
        row += f" Defines {', '.join(dict.fromkeys(defined))[:120]}."
    return f"{row} Line {best.number}: {best.text.strip()[:100]}"


def _scores(lookup: Lookup) -> dict[Line, float]:
    """How much each line tells; lines that tell nothing are left out."""
    scores: dict[Line, float] = {}

    def give(line: Line, score: float) -> None:
        scores[line] = max(scores.get(line, 0.0), score)

    for path in lookup.files_named:
        whole = lookup.lines.of(path) if path in lookup.lines.whole else []
        for line in whole if len(whole) <= WHOLE_FILE_LINES else []:
            give(line, 4.0)
    for line in lookup.world:
        give(line, 6.0)
    if lookup.names:
        _score_names(lookup, give)
    else:
        _score_words(lookup, give)
    return scores


def _score_names(lookup: Lookup, give: Give) -> None:
    """Definitions before uses, and what stands in them nearer to what the request speaks of."""
    names = set(lookup.names)
    spoken = [stem for stem in lookup.reading.stems if stem not in {n.lower() for n in names}]
    options = any(name.startswith("--") for name in names)
    for line in lookup.all:
        if hits := sum(line.has(name) for name in names):
            near = sum(stem in line.text.lower() for stem in spoken)
            score = 2.0 * hits + 0.5 * near
            if line.imports:
                score *= 0.2
            if in_tests(line):
                score *= 0.7
            give(line, score)
            if options and not in_tests(line):
                for below in lookup.lines.around(line, OPTION_LINES):
                    give(below, 0.6 * score if below.number > line.number else 0.0)
    followed = lookup.lines.definitions(sorted(lookup.asked - names))
    for weight, heads in ((8.0, lookup.heads), (5.0, followed)):
        for rank, head in enumerate(heads):
            others = sum(head.has(name) for name in names) - 1
            score = weight - min(rank, 4) * 0.5 + 3.0 * max(0, others)
            give(head, score)
            for distance, line in enumerate(lookup.lines.body(head, 3 * BODY_LINES), 1):
                near = sum(stem in line.text.lower() for stem in spoken)
                near += sum(constant in lookup.lines.values for constant in line.constants)
                give(line, score * 0.6 - min(distance, BODY_LINES) * 0.1 + 0.5 * near)


def _score_words(lookup: Lookup, give: Give) -> None:
    """Without names: lines by the request's words in the passage around them, the rarer the
    better, and more in files that hold many of them."""
    lines = [line for line in lookup.all if line not in lookup.world]
    texts = {line: f"{line.path}:{line.text} {lookup.lines.about(line)}" for line in lines}
    weights = dict.fromkeys((word.lower() for word in lookup.suggested), SHARE_OF_SUGGESTED)
    weights |= dict.fromkeys(lookup.reading.stems, 1.0)
    # Nothing iterates over a set: its order, and so that of equal lines, differs between processes.
    holding = {
        stem: dict.fromkeys(line for line, text in texts.items() if speaks(text, stem))
        for stem in weights
    }
    rarity = {
        stem: weights[stem] * math.log(1 + len(lines) / len(found))
        for stem, found in holding.items()
        if found
    }
    in_file: dict[str, float] = {}
    near: dict[Line, set[str]] = {}
    for stem, value in rarity.items():
        for path in dict.fromkeys(line.path for line in holding[stem]):
            in_file[path] = in_file.get(path, 0.0) + value
        for line in holding[stem]:
            for beside in lookup.lines.around(line, WINDOW):
                near.setdefault(beside, set()).add(stem)
    for line, passage in near.items():
        own = sum(value for stem, value in rarity.items() if line in holding[stem])
        around = sum(value for stem, value in rarity.items() if stem in passage) - own
        score = own + SHARE_OF_PASSAGE * around + SHARE_OF_FILE * in_file.get(line.path, 0.0)
        if line.imports or _told_beside(lookup, line):
            score *= 0.3
        give(line, score if own else 0.75 * score)


def _told_beside(lookup: Lookup, line: Line) -> bool:
    """Whether the line beside it is shown with what this line says of it."""
    if line.text.lstrip()[:1] not in ('"', "'", "#", "/"):
        return False
    said = [lookup.lines.about(each) for each in lookup.lines.around(line, 1) if each != line]
    return any(each and each in line.text for each in said)


def _annotated(lookup: Lookup, line: Line) -> str:
    """The line with what code knows of it: what it stands in, what is said of it, what a class
    inherits from, the values of its constants."""
    notes = []
    used = [name for name in lookup.names if line.has(name) and line.defines != name]
    scope = lookup.lines.scope(line) if used and not line.imports else None
    if scope and re.search(rf"\b{re.escape(used[0])}\(", line.text):
        return f"{scope} calls {used[0]} at {line}"
    if scope:
        notes.append(f"in {scope}")
    if about := lookup.lines.about(line):
        notes.append(about)
    if line.bases:
        notes.append(f"{line.defines} inherits from {', '.join(line.bases)}")
    for constant in line.constants:
        value = lookup.lines.values.get(constant)
        if value is not None and value.number != line.number and not line.imports:
            notes.append(value.text.strip())
    return f"{line}    <- {'; '.join(notes)}" if notes else str(line)
