"""Which passages are shown for a request, within the room that there is.

The best passages come first, as a whole: those that define what the request names, and then the
best ranked. The lines that define what the first two mention follow directly, and lines that have a
name of the request. A long answer is shown more of the same.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice

from planner.evidence.counting import entries, worked_out
from planner.evidence.definitions import (
    defined,
    defined_in,
    defined_name,
    defining_line,
    heads,
    indentation,
    is_local,
    lines_with,
    related,
    user,
)
from planner.evidence.passages import MAX_UNIT, MIN_UNIT
from planner.evidence.ranking import NOT_COMPARED, Alike, followed, named_in, ranked, weight
from planner.evidence.words import is_name, tokens, words
from planner.passage import Passage
from planner.text import counted

MAX_COUNTED = 16
"""Passages in which the entries of lists are counted."""
MAX_MENTIONS = 4
"""Lines that have a name of the question, shown before the third passage."""
TOP = 2
"""Passages whose mentions are followed, and which are shown before any line beside them."""
MAX_INSIDE = 4
"""Passages within what the question names, whose mentions are followed too."""
MAX_FOLLOWED = 3
"""Passages, or lines for a short answer, that define what they mention, shown after them."""
MAX_VALUES = 2
"""Lines that give a name of the question another name as its value."""
MAX_WHOLE = 2500
"""Characters of the definitions that are shown as a whole, so that there is room for others."""
MAX_LISTED = 400
"""Characters of the names within one definition, of functions and of others."""
MAX_USERS = 6
"""Users of a definition that are named beside it."""
MIN_SAME = 60
"""Characters of a text that says the same wherever it stands; a short line may not."""
LIKELIEST = 1000
"""Characters of what is read first. From more, a small model often names something else."""
_LABEL = re.compile(r"\s*\w+(?: \w+)?:")
"""`public:` in a class of C++, or a key with others below it."""
_ENTRY = re.compile(r"\s*(\w+)\s*(?:[,;({=]|$)")
"""A line of an enum: `LOW(1),`, `Red,`."""
MAX_GAP = 3
"""Lines between two units of one definition, all of them blank."""


def selected(
    passages: Sequence[Passage],
    question: str,
    more: Sequence[str],
    room: int,
    before: Sequence[Passage],
    alike: Alike = NOT_COMPARED,
    whole: bool = False,
) -> list[Passage]:
    """The best passages and what the first of them need, without those that were shown `before`.
    `whole`: a definition that the request names has all its passages."""
    beside = " ".join(more)
    best = [
        each
        for each in ranked(passages, question, beside, alike)
        if not any(each.within(other) for other in before)
    ]
    names = named_in(passages, question)
    top = foremost(best, names)
    if whole:
        left = MAX_WHOLE
        for number, each in enumerate(top):
            if names & defined(each).keys():
                top[number] = _definition(passages, each, longest=left)
                left -= len(top[number].text)
    asked = {*words(question), *words(beside)}
    counted_in = {*top, *best[:MAX_COUNTED]}
    order = list(dict.fromkeys([*top, *best]))
    after = {(each.source, each.first): each for each in passages}
    told = (
        _told(_with_next(each, after), passages, names, asked if each in counted_in else set())
        for each in order
    )
    having = [line for each in best for line in lines_with(each, names)]
    values = valued(having, names)
    defining = followed(passages, [*values, *top])
    if whole:
        used = list(dict.fromkeys(each for each, _ in defining))[:MAX_FOLLOWED]
    else:
        used = [defining_line(each, name) for each, name in defining[:MAX_FOLLOWED]]
    lines = _mentions(having)[:MAX_MENTIONS]
    shown = fitting(chain(islice(told, TOP), values, used, lines, told), room, before)
    return [*map(worked_out, shown)]


def valued(lines: Iterable[Passage], names: set[str]) -> list[Passage]:
    """The first of these lines that give one of the names another name as its value, as in
    `timeout: float = DEFAULT_TIMEOUT`."""
    either = "|".join(map(re.escape, sorted(names)))
    sign = r"(:?=(?!=)|:|\?\?=?|\|\|=?)"
    given = re.compile(rf"(?<!\w)(?:{either})\b[\"']?(?:\s*:[^=,;]*?)?\s*{sign}(?=\s*([\w.]+))")
    found: dict[str, Passage] = {}
    for line in lines:
        for by, value in given.findall(line.text):
            name = value.rpartition(".")[2]
            is_type = by == ":" and name[:1].isupper() and not name.isupper()
            if is_name(name) and name not in names and not is_type:
                found.setdefault(name, line)
        if len({*found.values()}) == MAX_VALUES:
            break
    return list(dict.fromkeys(found.values()))


def _mentions(lines: Sequence[Passage]) -> list[Passage]:
    """One of these lines of each place; last those that stand in nothing, such as imports."""
    places = {(line.source, line.heading): line for line in reversed(lines)}
    return sorted([*places.values()][::-1], key=lambda line: not line.heading)


def _with_next(passage: Passage, after: Mapping[tuple[str, int], Passage]) -> Passage:
    """A passage of a file that was read; a short one, such as a heading or a comment, with those
    that follow it, up to the size of a unit."""
    whole = passage
    while passage.upstream and len(whole.text) < MIN_UNIT:  # what a search found has unknown gaps
        lines = range(whole.last + 1, whole.last + MAX_GAP + 2)
        following = next(
            (after[whole.source, n] for n in lines if (whole.source, n) in after), None
        )
        if following is None or following.heading != passage.heading or defined(following):
            break
        gap = [""] * (following.first - whole.last - 1)
        text = "\n".join([whole.text, *gap, following.text])
        if len(text) > MAX_UNIT:
            break
        whole = whole.model_copy(update={"last": following.last, "text": text})
    return whole


def subjects(passages: Sequence[Passage], question: str) -> list[Passage]:
    """The definitions, as a whole, of what a request names; a plain word names only what has an
    inside. Names as such come first, then what stands within another one, then what is defined in
    the fewest places, and then the longest."""
    names = named_in(passages, question)
    plain = {*tokens(question)} - names
    defining = [(each, defined(each).keys()) for each in passages]
    places = Counter(name for _, inside in defining for name in inside)
    found: list[tuple[tuple[bool, bool, int, float, int], Passage]] = []
    for each, inside in defining:
        own = inside & (names | plain)
        if not own:
            continue
        definition = _definition(passages, each)
        spelled = own & names
        if spelled or definition != each:
            rank = (
                not spelled,
                not names & heads(each),
                min(places[name] for name in spelled or own),
                -weight(each.source, {*words(question)}),
                -len(definition.text),
            )
            found.append((rank, definition))
    found.sort(key=lambda each: each[0])
    return [definition for _, definition in found]


def _told(
    passage: Passage, passages: Sequence[Passage], names: set[str], asked: set[str]
) -> Passage:
    """The passage with what it is to these names, and with what code has counted in it: the names
    within what it defines, such as a class, and the entries of lists that are asked for."""
    inside = names_inside(passages, passage) if names & defined(passage).keys() else []
    functions = [name for name, called in inside if called]
    others = [name for name, called in inside if not called]
    told = [
        f"{counted(len(each), noun)} in it: {as_fit(each, asked)}"
        for each, noun in ((functions, "function"), (others, "other name" if functions else "name"))
        if each
    ]
    told += entries(passage, passages, asked) if asked else []
    shown = related(passage, names)
    return shown.model_copy(update={"inside": "; ".join(told)}) if told else shown


def as_fit(names: Sequence[str], asked: set[str]) -> str:
    """Names, as many as fit: those that share words with what is `asked` are left out last."""
    left = MAX_LISTED
    kept: set[str] = set()
    different = list(dict.fromkeys(names))
    for name in sorted(different, key=lambda name: not asked & {*words(name)}):
        left -= len(name) + 2
        if left < 0:
            break
        kept.add(name)
    more = ["…"] if len(kept) < len(different) else []
    return ", ".join([*(name for name in different if name in kept), *more])


def names_inside(passages: Sequence[Passage], begins: Passage) -> list[tuple[str, bool]]:
    """The names that stand directly in a definition, but for a function's own variables, and
    whether each is a function."""
    units = (each for each in passages if each.source == begins.source)
    head = next((each for each in units if each.first == begins.first), begins)
    whole = _definition(passages, head, longest=sys.maxsize)
    lines = whole.text.splitlines()
    at = next((number for number, line in enumerate(lines) if defined_in(line)), None)
    if at is None:
        return []
    own, is_enum = defined_name(lines[at]), "enum" in lines[at].split()
    body = [line for line in lines[at + 1 :] if line.strip()]
    if not _LABEL.fullmatch(lines[at]):
        body = [line for line in body if not _LABEL.fullmatch(line)]
    inside = [line for line in body if indentation(line) > indentation(lines[at])]
    least = min(map(indentation, inside), default=0)
    names: list[tuple[str, bool]] = []
    for line in (each for each in inside if indentation(each) == least):
        entry = _ENTRY.match(line) if is_enum else None
        name = defined_name(line)
        if entry and entry[1] != own:
            names.append((entry[1], False))
        elif name and (f"{name}(" in line or not is_local(whole, line)):
            names.append((name, f"{name}(" in line))
    return names


def _definition(passages: Sequence[Passage], begins: Passage, longest: int = MAX_WHOLE) -> Passage:
    """The definition that begins in a passage, as far as it fits."""
    head = next(filter(defined_in, begins.text.splitlines()), "")
    inside = [*begins.heading.splitlines(), head]
    whole = begins
    for each in passages[passages.index(begins) + 1 :] if begins in passages else ():
        within = each.source == begins.source and each.heading.splitlines()[: len(inside)] == inside
        gap = each.first - whole.last - 1
        if not (within and 0 <= gap <= MAX_GAP):
            break
        text = "\n".join([whole.text, *[""] * gap, each.text])
        if len(text) > longest:
            break
        whole = whole.model_copy(update={"last": each.last, "text": text})
    return whole


def foremost(best: Sequence[Passage], names: set[str]) -> list[Passage]:
    """Of ranked passages the best ones that define one of these names, if possible one for each
    name, the best ones of all, and those within what the names stand for. The constructor of a
    class, which has its name, is one of those within."""
    own = {each: names & (defined(each).keys() - heads(each)) for each in best}
    defining = [each for each in best if own[each]]
    pairs = ((name, each) for each in reversed(defining) for name in own[each])
    first = {*dict(pairs).values()}
    defining.sort(key=lambda each: each not in first)
    inside = [each for each in best if names & heads(each)]
    return list(dict.fromkeys([*defining[:TOP], *best[:TOP], *inside[:MAX_INSIDE]]))


def with_uses(shown: Passage, passages: Sequence[Passage], names: set[str]) -> Passage:
    """The passage with what uses the names that it defines, which were searched for."""
    own = sorted(names & defined(shown).keys())
    told = [*filter(None, [shown.inside, *(_uses(passages, name) for name in own)])]
    return shown.model_copy(update={"inside": "; ".join(told)})


def _uses(passages: Sequence[Passage], name: str) -> str:
    """What uses a name, as far as it can be seen, and if several things do not have that name."""
    lines = {
        (each.source, each.first + number): (line, user(each, number))
        for each in passages
        if name in each.text
        for number, line in enumerate(each.text.splitlines())
        if name in tokens(line)
    }
    if len(lines) == 1:
        return f"no use of {name} was found"
    defining = {at for at, (line, _) in lines.items() if defined_name(line) == name}
    if len({lines[at][1] for at in defining}) > 1:
        return ""
    uses = [at for at in lines if at not in defining]
    uses.sort(key=lambda at: -weight(at[0], set()))
    users = dict.fromkeys(lines[at][1] for at in uses)
    known = [each for each in users if each and each != name][:MAX_USERS]
    return f"used by {', '.join(known)}" if known else ""


def size(passages: Iterable[Passage]) -> int:
    """About how many characters these take in a prompt."""
    return sum(map(_size, passages))


def _size(passage: Passage) -> int:
    told = len(passage.place) + len(passage.relation) + len(passage.heading)
    return told + len(passage.told) + 10


def fitting(
    passages: Iterable[Passage], room: int, before: Sequence[Passage] = ()
) -> list[Passage]:
    """The first of the passages that fit, without what says the same; a few long ones are passed
    over for shorter ones."""
    shown: list[Passage] = []
    said: set[str] = set()
    over = 0
    for passage in passages:
        text = " ".join(passage.text.split())
        if any(passage.within(each) for each in (*before, *shown)) or text in said:
            continue
        if _size(passage) > room:
            over += 1
            if over > TOP + 2:
                break
            continue
        shown.append(passage)
        room -= _size(passage)
        if len(text) >= MIN_SAME:
            said.add(text)
    return shown


def likeliest(passages: Sequence[Passage]) -> list[Passage]:
    """The first of ranked passages. If there are more, and the first one defines or uses what the
    request names, only those that do: a small model takes others for answers too."""
    groups = grouped(passages, LIKELIEST)
    if len(groups) > 1 and passages[0].relation:
        groups = grouped([each for each in passages if each.relation], LIKELIEST) or groups
    return groups[0] if groups else []


def grouped(passages: Sequence[Passage], characters: int) -> list[list[Passage]]:
    """The passages in their order, in groups of no more than so many characters, if possible."""
    groups: list[list[Passage]] = []
    room = 0
    for passage in passages:
        if not groups or len(passage.text) > room:
            groups.append([])
            room = characters
        groups[-1].append(passage)
        room -= len(passage.text)
    return groups
