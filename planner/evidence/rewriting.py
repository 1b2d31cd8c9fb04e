"""Rewriting: the edits that a model makes by writing a part of a file again.

A small model cannot say which text is to be replaced: it quotes from memory and forgets places. But
it copies a part of a file with a change in it, and comparing lines shows the change.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import Match, SequenceMatcher
from functools import reduce
from itertools import groupby
from math import gcd
from typing import NamedTuple

from rapidfuzz import fuzz

from planner.evidence.definitions import indentation
from planner.evidence.file_text import split_lines
from planner.passage import Passage
from planner.text import begin_alike

SAME = 60
"""Of 100: how similar lines have to be to count as the same place, if none of them is equal."""
MAX_EDGE = 3
"""Lines at the beginning or the end of a file that may be deleted by not being written."""


class Change(NamedTuple):
    """Lines from `first` up to `last` (from 0, exclusive), and what replaces them."""

    first: int
    last: int
    new: Sequence[str]


_Code = tuple[str, int, int, int, int]
"""How lines of the one text become lines of the other, as difflib has it."""


class Edit(NamedTuple):
    """A text that stands once in a file, and what replaces it."""

    path: str
    old: str
    new: str

    @property
    def lost(self) -> list[str]:
        return [line for before, _ in self.hunks for line in before]

    @property
    def added(self) -> list[str]:
        return [line for _, after in self.hunks for line in after]

    @property
    def hunks(self) -> list[tuple[list[str], list[str]]]:
        """The lines of each difference, before and after."""
        old, new = split_lines(self.old), split_lines(self.new)
        compared = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        return [(old[a:b], new[c:d]) for kind, a, b, c, d in compared if kind != "equal"]

    @property
    def shown(self) -> str:
        """The edit on one line, for people."""
        lost, added = ("; ".join(map(str.strip, lines)) for lines in (self.lost, self.added))
        return f"{lost} → {added}" if lost and added else f"+ {added}" if added else f"- {lost}"


def changes(text: str, part: Passage, written: str) -> list[Change]:
    """What the written text changes in a part of a file. What stands before its first line and
    after its last one stays."""
    lines = split_lines(text)
    before = lines[part.first - 1 : part.last]
    after = _as_deep(before, split_lines(written))
    if after and after[0] not in before:
        _, name, rest = after[0].rpartition(part.source)
        if name and not re.search(r"\w", rest):
            after = after[1:]  # the file's name, as models like to put it first
    changed = [*_changed(before, after)]
    if not changed and before == lines:
        changed = _edges(before, after)
    offset = part.first - 1
    found = _merged(Change(first + offset, last + offset, new) for first, last, new in changed)
    return [each for each in found if not any(map(_leaves_out, edits(part.source, text, [each])))]


def _edges(before: Sequence[str], after: Sequence[str]) -> list[Change]:
    """The change that leaves out the first or last few lines of a file, if it is the only one."""
    plain, written = ([line.rstrip() for line in lines] for lines in (before, after))
    missing = len(plain) - len(written)
    if not 0 < missing <= min(MAX_EDGE, len(written)):
        return []
    if plain[:-missing] == written:
        return [Change(len(written), len(plain), [])]
    return [Change(0, missing, [])] if plain[missing:] == written else []


def _leaves_out(edit: Edit) -> bool:
    """Whether dots stand for lines that the model did not want to copy."""
    dots = re.compile(r"\.\.\.|…")
    shorter = len(edit.lost) > len(edit.added)
    return shorter and any(map(dots.search, edit.added)) and not any(map(dots.search, edit.lost))


def edits(path: str, text: str, changed: Iterable[Change]) -> list[Edit]:
    """The edits that make all changes of a file, each of the text that those before it leave."""
    lines = split_lines(text)
    ends = re.findall(r"\r\n?|\n", text)
    ends = [*ends, *ends[:1], "\n"][: len(lines)]  # the last line may have none
    found, offset = [], 0
    for first, last, new in _merged(sorted(changed)):
        first, last = offset + first, offset + last
        if not new and first:  # else an empty line would stay
            first, new = first - 1, lines[first - 1 : first]
        elif not new and last < len(lines):
            last, new = last + 1, lines[last : last + 1]
        begin, stop = _distinct(lines, "\n".join(lines), first, last)
        if begin is None:
            continue
        old = _with_ends(lines[begin:stop], ends[begin:stop])
        # A new line ends as the one in its place, or else the one before it, does.
        ends[first:last] = [ends[first if first < last else first - 1]] * len(new)
        offset += len(new) - (last - first)
        lines[first:last] = new
        stop += len(new) - (last - first)
        found.append(Edit(path, old, _with_ends(lines[begin:stop], ends[begin:stop])))
    return found


def applied(text: str, found: Iterable[Edit]) -> str:
    """The text of a file after these edits of it."""
    return reduce(lambda left, each: left.replace(each.old, each.new, 1), found, text)


def as_one(text: str, found: list[Edit]) -> list[Edit]:
    """One edit in the place of several of a file: of all from the first change to the last one."""
    if len(found) < 2:
        return found
    before, after = (each.splitlines(keepends=True) for each in (text, applied(text, found)))
    first = begin_alike(before, after)
    last = begin_alike(before[:first:-1], after[:first:-1])
    old, new = ("".join(lines[first : len(lines) - last]) for lines in (before, after))
    return [Edit(found[0].path, old, new)]


def _with_ends(lines: Sequence[str], ends: Sequence[str]) -> str:
    """Lines as one text, which goes up to the end of the last line."""
    return "".join(f"{line}{end}" for line, end in zip(lines, [*ends[:-1], ""], strict=True))


def _merged(changed: Iterable[Change]) -> list[Change]:
    """Changes of lines side by side as one."""
    merged: list[Change] = []
    for first, last, new in changed:
        if merged and merged[-1].last == first:
            first, new = merged[-1].first, [*merged.pop().new, *new]
        merged.append(Change(first, last, new))
    return merged


def _changed(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    """The lines from and to which something else stands, and what does."""
    plain, written = _compared(before, after)
    matcher = SequenceMatcher(None, plain, written, autojunk=False)
    common = [
        each for each in matcher.get_matching_blocks() if any(plain[each.a : each.a + each.size])
    ]
    if not common:
        if len(before) == len(after) and fuzz.ratio("\n".join(before), "\n".join(after)) >= SAME:
            yield Change(0, len(before), after)
        return
    begin, end = common[0].a, common[-1].a + common[-1].size
    codes = matcher.get_opcodes()
    still = _still(before, after, common)
    changes = [each for each in codes if each[0] != "equal"]
    runs = [written[start:stop] for *_, start, stop in changes]
    moved = _moved(before, after, still, changes, range(begin, end))
    indent = ("", "")
    for kind, first, last, start, stop in codes:
        if kind == "equal":
            for number in range(first, last):
                if number in moved:
                    yield Change(number, number + 1, [after[start + number - first]])
                elif number in still:
                    indent = _indents(before[number], after[still[number]])
            continue
        stays = not _stands_elsewhere(plain, range(first, last), runs)
        if stays and last <= begin:  # of what stands before, only as much as was written for it
            first = max(first, last - (stop - start))
            if begin in still and begin not in moved:
                indent = _indents(before[begin], after[still[begin]])
        elif stays and first >= end:
            last = min(last, first + stop - start)
        new = [_indented(line, *indent) for line in after[start:stop]]
        if any(plain[first:last]) or any(line.strip() for line in new):
            yield Change(first, last, new)


def _compared(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    """Both texts' lines as they are compared: with their indentation if what was written has that
    of the file, so that a new end such as `}` is not taken for one further out."""
    bare, exact = (
        [[*map(way, lines)] for lines in (before, after)] for way in (str.strip, str.rstrip)
    )
    again = (line for line in exact[1] if line.strip() in bare[0] and re.search(r"\w", line))
    plain, written = exact if all(line in exact[0] for line in again) else bare
    return plain, written


def _stands_elsewhere(plain: Sequence[str], gone: range, runs: Sequence[Sequence[str]]) -> bool:
    """Whether lines that are gone were written elsewhere. An end such as `}` tells nothing."""
    moved = [*filter(None, (plain[number] for number in gone))]
    told = any(re.search(r"\w", line) and plain.count(line) == 1 for line in moved)
    together = "\n".join(["", *moved, ""])
    return told and any(together in "\n".join(["", *filter(None, run), ""]) for run in runs)


def _still(before: Sequence[str], after: Sequence[str], common: Sequence[Match]) -> dict[int, int]:
    """The lines that were written again, and where; not the first one, if it alone has less
    indentation than it had: small models leave it out there."""
    pairs = {
        each.a + number: each.b + number
        for each in common
        for number in range(each.size)
        if before[each.a + number].strip()
    }
    shifts = {
        one: indentation(after[other]) - indentation(before[one]) for one, other in pairs.items()
    }
    first = next((one for one, other in pairs.items() if other == 0 and shifts[one] < 0), None)
    if first is not None:
        others = {shift for one, shift in shifts.items() if one != first}
        within = [indentation(line) for line in after[1:] if line.strip()]
        if 0 in others or (not others and within and min(within) > indentation(before[first])):
            del pairs[first]
    return pairs


def _moved(
    before: Sequence[str],
    after: Sequence[str],
    still: Mapping[int, int],
    changes: Sequence[_Code],
    within: range,
) -> set[int]:
    """The lines that are only deeper or less deep than they were: a few where nothing else has
    changed, or those beside a line, added or gone, that makes them so, such as `if late:`. A model
    that indents the whole in another way means nothing by it. `within`: from the first to the last
    line that was written again."""
    shifts = {
        one: indentation(after[other]) - indentation(before[one]) for one, other in still.items()
    }
    differ = {one for one, shift in shifts.items() if shift}
    indents = {sign for line in (*before, *after) for sign in line[: indentation(line)]}
    if len(indents) > 1:  # tabs and spaces
        return set()
    if not changes:
        return differ if 2 * len(differ) <= len(still) else set()
    meant = [
        each
        for each in changes
        if each[3] < each[4] or (each[1] < within.stop and within.start < each[2])
    ]
    solid = [number for number, line in enumerate(before) if line.strip()]
    above, moved = 0, set[int]()
    for is_moved, run in groupby(solid, differ.__contains__):
        numbers = [*run]
        below = next((each for each in solid if each > numbers[-1]), len(before))
        depths = [indentation(before[each]) for each in numbers]
        beside = [each for each in meant if above <= each[2] and each[1] <= below]
        if is_moved and shifts[numbers[0]] > 0:
            lines = [line for *_, start, stop in beside for line in after[start:stop]]
            wanted = min(depths)
        else:
            lines = [line for _, first, last, *_ in beside for line in before[first:last]]
            wanted = min(depths) + shifts.get(numbers[0], 0)
        if is_moved and any(line.strip() and indentation(line) == wanted for line in lines):
            moved.update(numbers)
        above = numbers[-1] + 1
    return moved


def _as_deep(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """What was written, with the file's indentation for a level, if half of the lines that were
    written again differ by that alone."""
    own, unit = _level(before), _level(after)
    was = {line.strip(): indentation(line) for line in before}
    pairs = [(was.get(line.strip(), 0), indentation(line)) for line in after]
    deep = [(one, other) for one, other in pairs if one and other]
    shifts = {one - other for one, other in deep}
    shifted = len({*deep}) > 1 and len(shifts) == 1 and shifts != {0}
    alike = sum(one * len(unit) == other * len(own) for one, other in deep)
    if own == unit or shifted or not alike or 2 * alike < len(deep):
        return [*after]
    levels = [indentation(line) // len(unit) for line in after]
    return [own * n + line[n * len(unit) :] for n, line in zip(levels, after, strict=True)]


def _level(lines: Sequence[str]) -> str:
    """The spaces or the tab that lines have for a level. One such as ` * a` has none."""
    indents = [line[: indentation(line)] for line in lines if re.match(r"\s*[\w\"']", line)]
    return "".join(indents)[:1] * gcd(*map(len, indents))


def _indents(one: str, other: str) -> tuple[str, str]:
    """How two lines begin that are equal but for that."""
    return one[: indentation(one)], other[: indentation(other)]


def _indented(line: str, wanted: str, written: str) -> str:
    """A written line as deep as the part is, which may have been written further out or in."""
    if not line.strip() or wanted == written:
        return line
    if wanted.endswith(written):
        return wanted.removesuffix(written) + line
    if written.endswith(wanted):
        return line.removeprefix(written.removesuffix(wanted))
    return wanted + line.removeprefix(written)  # tabs and spaces


def _distinct(lines: Sequence[str], joined: str, first: int, last: int) -> tuple[int | None, int]:
    """From and to which line a text with these lines stands that is in the file only once."""
    if first == last:  # nothing is replaced: the line before stays beside what is added
        first, last = (first - 1, last) if first else (first, last + 1)
    while _is_twice(old := "\n".join(lines[first:last]), joined) or not old.strip():
        if first == 0 and last >= len(lines):
            return None, last
        first, last = max(first - 1, 0), min(last + (first == 0), len(lines))
    return first, last


def _is_twice(old: str, text: str) -> bool:
    """Whether a text has another one in two places, which may share a part of it."""
    return text.find(old) != text.rfind(old)


def by_file(found: Sequence[Edit]) -> list[tuple[str, list[Edit]]]:
    return [
        (path, [each for each in found if each.path == path])
        for path in dict.fromkeys(each.path for each in found)
    ]


def fence(found: Sequence[Edit]) -> str:
    """Edits as a block of Markdown."""
    lines = [
        f"{sign}{line}"
        for each in found
        for before, after in each.hunks
        for sign, some in (("-", before), ("+", after))
        for line in some
    ]
    return "\n".join(["```diff", *lines, "```"])
