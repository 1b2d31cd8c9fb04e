"""Which files have what a request changes, and which of the edits that a model wrote fit it."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from planner.evidence.definitions import defined_name, function_in, indentation
from planner.evidence.file_text import split_lines
from planner.evidence.listing import says_path
from planner.evidence.passages import around
from planner.evidence.rewriting import Change, Edit, by_file, edits
from planner.evidence.words import is_name, long_words, named, only_in, quoted, tokens, words

_USED = re.compile(r"(?:\.|->|::)(\w+)|(\w+)(?=\()")
"""A member, or what is called."""


def files_for(
    request: str, chosen: Sequence[str], texts: Mapping[str, str], absent: set[str]
) -> list[str]:
    """The files to change: those that a model chose; first the ones that the request names by their
    paths, then those that have what it quotes, or a name beside one that is `absent` so far. If it
    chose none of the latter, they are taken: they get the new name, or something with it, and a
    small model goes by the names of files."""
    names, quotes = named(request), quoted(request)
    known = names - absent if names & absent else set[str]()
    having = [
        path
        for path, text in texts.items()
        if known & {*tokens(text)} or any(each in text for each in quotes)
    ]
    if having and not {*having} & {*chosen}:
        return having
    said = [path for path in chosen if says_path(request, path)]
    said += [path for path in chosen if path in having]
    old = old_numbers(request, [*texts.values()])
    holding = [path for path in chosen if old & {*tokens(texts[path])}]
    return list(dict.fromkeys([*said, *(holding or chosen)]))


def old_numbers(request: str, texts: Sequence[str]) -> set[str]:
    """The numbers of a request that stand in one of these texts, where another one stands in none:
    a value, and what it is to become."""
    numbers = {each for each in tokens(request) if each.isdigit() and len(each) > 1}
    there = numbers & {*tokens("\n".join(texts))}
    return there if numbers - there else set()


def likeliest(found: Sequence[Edit], texts: Mapping[str, str], query: str) -> list[str]:
    """The files whose edits fit a query best. Their edits bring most words of it that no text had;
    of these files, the replaced lines and what they stand in, or else the texts, have most of its
    words. With them go the files where the same is replaced by the same."""
    asked, telling = {*words(query)}, {*long_words(query)}
    held = {path: asked & {*words(text)} for path, text in texts.items()}
    new = asked.difference(*held.values())

    def score(edit: Edit) -> tuple[int, int, int]:
        around_it = _around(texts[edit.path], edit)
        lost, added = ({*words("\n".join(each))} for each in (edit.lost + around_it, edit.added))
        brought = len(new & added)
        return brought, len(telling & lost), 0 if brought else len(held[edit.path])

    scored = [(score(each), each.path) for each in found]
    best = max(scored, default=(None, ""))[0]
    kept = [edit for edit, (reached, _) in zip(found, scored, strict=True) if reached == best]
    said = {*tokens(query)}
    pairs = _replaced(kept, said).items()
    kept += [edit for edit in found if pairs & _replaced([edit], said).items()]
    return list(dict.fromkeys(edit.path for edit in kept))


def unlike_first(found: Sequence[Edit], query: str) -> list[str]:
    """The files whose edits do something else than those of the first one."""
    said = {*tokens(query)}

    def done(some: Sequence[Edit]) -> set[str]:
        hunks = (hunk for each in some for hunk in each.hunks)
        return {*map(str, hunks), *map(str, _replaced(some, said).items())}

    each_done = [(path, done(some)) for path, some in by_file(found)]
    return [path for path, does in each_done if does.isdisjoint(each_done[0][1])]


def files_without_names(found: Sequence[Edit], request: str) -> list[str]:
    """The files that a request does not name, and whose edits neither bring nor take away a name or
    a number of it, where those of another file do."""
    asked = _names_in(request)
    touched = {path: asked & (brought(some) | taken_away(some)) for path, some in by_file(found)}
    if not any(touched.values()):
        return []
    return [path for path, names in touched.items() if not (names or says_path(request, path))]


def _names_in(request: str) -> set[str]:
    """The names and the numbers of a request."""
    return {*named(request), *filter(str.isdigit, tokens(request))}


def brought(some: Sequence[Edit]) -> set[str]:
    """The words and names that edits bring."""
    return only_in(*_texts(some)[::-1])


def taken_away(some: Sequence[Edit]) -> set[str]:
    """The words and names that edits take away."""
    return only_in(*_texts(some))


def _texts(some: Sequence[Edit]) -> tuple[str, str]:
    """What edits replace, and what they replace it by."""
    return "\n".join(each.old for each in some), "\n".join(each.new for each in some)


def _around(text: str, edit: Edit) -> list[str]:
    """The lines that an edit of a text stands in."""
    before, found, _ = text.partition(edit.old)
    return around(split_lines(text), before.count("\n")) if found else []


def defined_once(
    text: str, found: Sequence[Edit], asked: set[str], before: Sequence[Sequence[Edit]]
) -> list[Edit]:
    """The edits of a file but for those that define something asked about that it has already, or
    that edits `before`, also of other files, define."""
    there = {name for some in before for edit in some for name in new_definitions(edit)}
    return [
        edit
        for edit in found
        if asked.isdisjoint(new_definitions(edit) & there) and not defines_again(text, edit, asked)
    ]


def defines_again(text: str, edit: Edit, asked: set[str]) -> bool:
    """Whether an edit adds the line of an outermost definition that the file has, and keeps, of a
    name that is asked about: a small model writes the class around a method once more."""
    there = {line for line in split_lines(text) if line and not indentation(line)} - {*edit.lost}
    new = ((defined_name(line), line.strip()) for line in edit.added)
    # A key of YAML may well stand on its own at two levels.
    return any(name in asked and line in there and line != f"{name}:" for name, line in new)


def misplaced(
    text: str, changed: Sequence[Change], asked: set[str]
) -> list[tuple[str, list[Change]]]:
    """The changes that a model makes in the wrong place, with where that is."""
    lines = split_lines(text)
    return [
        ("within a function", [each for each in changed if _is_hidden(lines, each, asked)]),
        ("in functions not asked about", _strays(lines, changed, asked)),
    ]


def _is_hidden(lines: Sequence[str], change: Change, asked: set[str]) -> bool:
    """Whether a change brings a function that is asked for inside another one that is not: a small
    model writes it into the part of a file that it is shown."""
    after = [*lines[: change.first], *change.new, *lines[change.last :]]
    before = {*map(function_in, lines[change.first : change.last])}
    for number, line in enumerate(change.new, change.first):
        if (name := function_in(line)) and name in asked - before:
            outer = {*filter(None, map(function_in, around(after, number)))}
            if outer and outer.isdisjoint(asked):
                return True
    return False


def _strays(lines: Sequence[str], changed: Sequence[Change], asked: set[str]) -> list[Change]:
    """The changes within functions that are not asked about, and do not use one that is and is
    changed: a small model does to its neighbours what it does to this one."""
    inside = [(each, _functions_of(lines, each)) for each in changed]
    meant = {name for _, names in inside for name in names & asked}
    return [
        each
        for each, names in inside
        if meant
        and names
        and names.isdisjoint(meant)
        and meant.isdisjoint(tokens("\n".join([*lines[each.first : each.last], *each.new])))
    ]


def _functions_of(lines: Sequence[str], change: Change) -> set[str]:
    """The functions whose lines a change replaces, or stands in."""
    found: set[str] = set()
    for number in range(change.first, min(max(change.last, change.first + 1), len(lines))):
        outer = [*around(lines, number), lines[number]]
        found |= {*filter(None, map(function_in, outer))}
    return found


def in_place(
    request: str, changed: Mapping[str, Sequence[Change]], texts: Mapping[str, str]
) -> tuple[dict[str, list[Change]], list[tuple[str, list[Edit]]]]:
    """The changes of files that a request may want, and the edits of the others, with why. Asked to
    change 10 to 20, a small model changes a 1 to 20 as well; asked for an entry of a list, it also
    writes a function that adds entries."""
    alone = [
        (path, each, edits(path, texts[path], [each]))
        for path, some in changed.items()
        for each in some
    ]
    found = [edit for _, _, some in alone for edit in some]
    pairs = _replaced(found, {*tokens(request)})
    names = {*_names_in(request), *quoted(request)}
    new = {each for each in names if not any(each in text for text in texts.values())}
    kept: dict[str, list[Change]] = {path: [] for path in changed}
    elsewhere, unasked = list[Edit](), list[Edit]()
    for path, each, some in alone:
        others = ["\n".join(edit.added) for edit in found if edit not in some]
        if any(_takes_over(edit, pairs) for edit in some):
            elsewhere += some
        elif any(all(name in other for name in new) for other in others) and all(
            _only_defines(edit, new, others) for edit in some
        ):
            unasked += some
        else:
            kept[path].append(each)
    left_out = [
        ("because it replaces something else", elsewhere),
        ("which nobody asked for", unasked),
    ]
    return kept, left_out


def _only_defines(edit: Edit, new: set[str], others: Sequence[str]) -> bool:
    """Whether an edit adds the definition of something that no edit uses: a function that has none
    of these new names, or a value."""
    added = "\n".join(edit.added)
    lost, brought = (
        {name for name in map(defined_name, lines) if name} for lines in (edit.lost, edit.added)
    )
    said = Counter(tokens("\n".join([added, *others])))
    unused = all(said[name] == 1 and name not in new for name in brought - lost)
    is_value = not (lost or any(map(function_in, edit.added)))
    if not (new and brought - lost and unused):
        return False
    return is_value or not any(name in added for name in new)


def _replaced(found: Sequence[Edit], asked: set[str]) -> dict[str, str]:
    """What a word, name or number that is asked about is replaced by, if by another such one."""
    pairs: dict[str, str] = {}
    for lost, added in (hunk for edit in found for hunk in edit.hunks):
        old, new = Counter(tokens("\n".join(lost))), Counter(tokens("\n".join(added)))
        gone, brought = {*(old - new)}, {*(new - old)}
        if len(gone) == len(brought) == 1 and gone | brought <= asked:
            pairs[gone.pop()] = brought.pop()
    return pairs


def _takes_over(edit: Edit, pairs: Mapping[str, str]) -> bool:
    for lost, added in edit.hunks:
        before, after = Counter(tokens("\n".join(lost))), Counter(tokens("\n".join(added)))
        if before - after and any(
            after[new] > before[new] + before[old] for old, new in pairs.items()
        ):
            return True
    return False


def scattered(by_part: Sequence[Sequence[Edit]]) -> bool:
    """Whether lines were only added in several parts of a file, or the same lines put in the place
    of different ones: a model that is shown one part after another makes a change in each."""
    made = [
        (
            [line.strip() for edit in some for line in edit.lost],
            [line.strip() for edit in some for line in edit.added],
        )
        for some in by_part
        if some
    ]
    return sum(not lost for lost, _ in made) > 1 or any(
        added and added == other and lost != before
        for (lost, added), (before, other) in combinations(made, 2)
    )


def new_definitions(edit: Edit) -> set[str]:
    """What an edit defines at the outermost level that it does not just change."""
    before, after = (
        {defined_name(line) for line in lines if not indentation(line)}
        for lines in (edit.lost, edit.added)
    )
    return {name for name in after - before if name}


def used(found: Sequence[Edit]) -> set[str]:
    """The members and functions that edits bring and do not define, spelled as names in code."""
    added = [line for edit in found for line in edit.added]
    names = {name for each in _USED.findall("\n".join(added)) for name in each}
    return {name for name in names - {*map(defined_name, added)} if is_name(name)}


def fitting(found: Sequence[Edit], query: str) -> list[Edit]:
    """The edits that have a word of the query, or a name that another one of these brings: a model
    that has nothing to change changes something else."""
    kept = [each for each in found if {*words(_told(each))} & {*words(query)}]
    new = {each: brought([each]) for each in found}
    while more := [
        each for each in found if each not in kept and any(new[each] & new[other] for other in kept)
    ]:
        kept += more
    return [each for each in found if each in kept]


def _told(edit: Edit) -> str:
    return "\n".join([edit.old, edit.new] if edit.added else edit.lost)
