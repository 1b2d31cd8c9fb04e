"""Passages: whole units of a file's text.

A file is divided by its indentation and blank lines, which every language has: a line, with the
deeper lines below it, is a unit. A long unit is divided into the units within it, which keep the
first lines of those around them (`heading`), so that a method is seen with its class.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from planner.evidence.file_text import readable, split_lines
from planner.passage import Passage

MAX_UNIT = 500
"""Characters of a unit that is not divided further."""
MIN_UNIT = 250
"""Neighbouring units are joined up to this many characters; a small one says little."""
MAX_TEXT = 100
"""Lines of a text in quotation marks; where it seems to have more, one of them is no such mark."""
MAX_NESTED = 20
"""Units around a unit; a deeper one is cut by its size, since each level reads all its lines."""


class _Unit(NamedTuple):
    """Lines `first` to `last` (from 0, inclusive) within a heading."""

    first: int
    last: int
    heading: tuple[int, ...]


_GOES_ON = re.compile(
    r"\s*+(?:[)\]}{>].*|(?i:end|fi|done|esac|where(?! ?[:=(]))\b.*"
    r"|(?:public|private|protected)[\w ]*:|</[\w:-]+>\s*|#\s*(?:if|el|endif).*)"
)
"""A line that belongs to what stands before it, however deep: a bracket or another end, a condition
on types, `public:`, or a condition of C's preprocessor."""
_COMMENT = "/*"
"""What a block comment begins with, in most languages."""
_QUOTES = re.compile(r"\"\"\"|'''")
"""What texts of several lines stand in, in languages that have such marks."""
_BACKTICK = re.compile(r"(?<!\\)(?:(?<![\"'/\[])`|`(?![\"'/\]]))")
"""The same in others, but not as a character that is quoted by itself."""
_NOTE = re.compile(r"\s*+(?:(?:/[/*]+!?|--+(?=[\s|]|$)|#(?![#\[]|[\w-]+\W*$)[:!]?)(<|\s*\^)?)")
"""A comment, or a directive such as `#pragma`, which leads to what stands below it; `///<` and
`-- ^` tell of what stands before. A `#name` alone is none, as in CSS."""
_DECORATOR = re.compile(r"\s*+(?:@[\w.]+(?:\(|$)|#!?\[|\[[A-Z]\w*\()")
"""What leads to what stands below it, and may have lines of its own."""
_MARK = re.compile(r"(#{1,6}|={1,6}) ")
_UNDERLINE = re.compile(r"([=\-~^\"'#*+.])\1{2,}")


def of_file(path: str, text: str, upstream: str = "") -> list[Passage]:
    lines = [readable(line) for line in split_lines(text)]
    marked = path.lower().endswith((".md", ".mdx", ".markdown", ".rst", ".txt", ".adoc"))
    units = _sections(lines) if marked else _divided(_flat(tuple(lines)), 0, len(lines) - 1, ())
    passages = []
    for unit in units:
        body = lines[unit.first : unit.last + 1]
        if any(line.strip() for line in body):
            passages.append(
                Passage(
                    source=path,
                    first=unit.first + 1,
                    last=unit.last + 1,
                    text="\n".join(body),
                    heading="\n".join(lines[number] for number in unit.heading),
                    upstream=upstream,
                )
            )
    return passages


@lru_cache(maxsize=16)  # asked for each line of a passage
def _flat(lines: tuple[str, ...]) -> Sequence[str]:
    """The lines as they are divided: those of a block comment are as deep as its first one, and not
    blank. A comment that is shallower than the code on both of its sides is as deep as that."""
    flat: list[str] = []
    begun: list[str] = []
    for line in lines:
        if begun or _is_comment(line):
            begun.append(line)
        else:
            flat.append(line)
        if begun and "*/" in line:
            indent = begun[0][: -len(begun[0].lstrip())]
            flat += (indent + _COMMENT.ljust(len(each) - len(indent), "*") for each in begun)
            begun = []
    flat += begun  # what has no end is no comment
    before, notes = "", list[int]()
    for number, line in enumerate(flat):
        if _NOTE.match(line):
            notes.append(number)
        elif line.strip():
            shallower = min(before, line, key=_depth)
            for each in notes:
                flat[each] = _no_shallower(flat[each], shallower)
            before, notes = line, []
    for first, last in _texts(flat):
        for number in range(first + 1, last + 1):
            flat[number] = _no_shallower(flat[number], flat[first])
    return flat


def _no_shallower(line: str, other: str) -> str:
    """A line, at least as deep as another one."""
    indent = other.removesuffix(other.lstrip())
    return max(line, indent + line.lstrip(), key=_depth)


def _texts(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The first and the last line of each text in quotation marks that has several."""
    quote = _QUOTES if any(map(_QUOTES.search, lines)) else _BACKTICK
    mark, first = "", 0
    for number, line in enumerate(lines):
        quotes = quote.findall(line)
        if len(quotes) % 2 == 0 or not (mark or _is_code(line)):
            continue
        if not mark:
            mark, first = quotes[-1], number
        elif mark in quotes:
            mark = ""
            if number <= first + MAX_TEXT:
                yield first, number


def _is_code(line: str) -> bool:
    return not (_is_comment(line) or _NOTE.match(line))


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith(_COMMENT)


def of_document(source: str, text: str, upstream: str) -> list[Passage]:
    """The passages of a text in Markdown that is not a file, such as a library's documentation."""
    found = of_file(f"{source}.md", text, upstream)
    return [each.model_copy(update={"source": source}) for each in found]


def around(lines: Sequence[str], number: int) -> list[str]:
    """The lines that a line is nested in, from the outermost on."""
    found: list[str] = []
    flat = _flat(tuple(lines))
    inner = flat[number]
    for above in reversed(range(number)):
        line = flat[above]
        if not (inner[:1].isspace() or inner.startswith("- ")):
            break  # it stands in nothing
        if line.strip() and _within(inner, line) and not _GOES_ON.fullmatch(line):
            inner = line
            found.insert(0, lines[above])
    return found


def unit_of(lines: Sequence[str], number: int) -> tuple[int, int]:
    """The first and the last line of the unit that a line begins: with the comments and decorators
    directly before it, and what stands deeper below it."""
    flat = _flat(tuple(lines))
    line = flat[number]

    def leads(other: str) -> bool:
        return bool(other.strip()) and not _within(line, other)

    def belongs(other: str) -> bool:
        ends = _depth(other) == _depth(line) and _GOES_ON.fullmatch(other) is not None
        return not other.strip() or _within(other, line) or ends

    first = number - sum(1 for _ in takewhile(leads, reversed(flat[:number])))
    last = number + sum(1 for _ in takewhile(belongs, flat[number + 1 :]))
    chunks = _chunks(flat, first, last)
    start, end = next(each for each in chunks if each[0] <= number <= each[1])
    return start, next(each for each in range(end, start - 1, -1) if lines[each].strip())


def _size(lines: Sequence[str], first: int, last: int) -> int:
    return sum(len(line) + 1 for line in lines[first : last + 1])


def _depth(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


def _within(line: str, above: str) -> bool:
    """Whether a line stands within one above it: deeper, or as an entry below a key of YAML."""
    deeper = _depth(line) - _depth(above)
    listed = above.endswith(":") and line.lstrip().startswith("- ")
    return deeper > 0 or (deeper == 0 and listed)


def _divided(
    lines: Sequence[str], first: int, last: int, heading: tuple[int, ...]
) -> Iterator[_Unit]:
    chunks = list(_chunks(lines, first, last))
    for start, end in _joined(lines, chunks, apart=not heading):
        if _size(lines, start, end) <= MAX_UNIT:
            yield _Unit(start, end, heading)
            continue
        head = _head(lines, start, end)
        if head is None or len(heading) == MAX_NESTED:
            yield from _windows(lines, start, end, heading)
            continue
        if _size(lines, start, head - 1) > MIN_UNIT:
            yield from _windows(lines, start, head - 1, heading)
            start = head
        body = head + 1
        while body < end and (not lines[body].strip() or _GOES_ON.fullmatch(lines[body])):
            body += 1
        inner = list(_divided(lines, body, end, (*heading, head)))
        if inner:
            inner[0] = _Unit(start, inner[0].last, heading)  # the head stands with what follows it
        yield from inner


def _written(lines: Sequence[str], first: int, last: int) -> Iterator[str]:
    """The lines that are not blank."""
    return (line for line in map(lines.__getitem__, range(first, last + 1)) if line.strip())


def _least_depth(lines: Sequence[str], first: int, last: int) -> int | None:
    """The depth that units of these lines begin at."""
    inside = _written(lines, first, last)
    return min((_depth(line) for line in inside if not _GOES_ON.fullmatch(line)), default=None)


def _head(lines: Sequence[str], first: int, last: int) -> int | None:
    """The line of a unit under which the others stand deeper; None where it has no inside."""
    depth = _least_depth(lines, first, last)
    decorator: int | None = None
    for number in range(first, last):
        line = lines[number]
        if not line.strip() or _depth(line) != depth or _GOES_ON.fullmatch(line):
            continue
        following = _written(lines, number + 1, last)
        body = next((each for each in following if not _GOES_ON.fullmatch(each)), "")
        if _within(body, line):
            if not _DECORATOR.match(line):
                return number
            decorator = number if decorator is None else decorator
    return decorator


def _chunks(lines: Sequence[str], first: int, last: int) -> Iterator[tuple[int, int]]:
    """The units of one depth: a line of the least depth, with the comments and decorators directly
    before it, and what stands deeper below it."""
    depth = _least_depth(lines, first, last)
    above = ""  # the line of the least depth that the newest lines may stand within
    start, end, deep = -1, -1, False
    for number in range(first, last + 1):
        line = lines[number]
        if not line.strip():
            continue
        goes_on = _GOES_ON.fullmatch(line) or (above and _within(line, above))
        begins = _depth(line) == depth and not goes_on
        leads = _is_comment(line) and not _is_comment(lines[number - 1])
        led = begins and _DECORATOR.match(above) and re.match(r"\s*[)\]}@#[]", lines[end])
        apart = (deep and not led) or leads or end < number - 1
        if start >= 0 and begins and apart:
            yield start, end
        if start < 0 or (begins and apart):
            start, deep = number, False
        above, deep = (line, deep) if begins else (above, True)
        end = number
    if start >= 0:
        yield start, last


def _joined(
    lines: Sequence[str], chunks: Sequence[tuple[int, int]], apart: bool
) -> Iterator[tuple[int, int]]:
    """Small neighbours put together, until they are large enough to tell something. `apart`: what
    has an inside, such as a function, stays by itself, since models confuse several."""
    held: tuple[int, int] | None = None
    alone = False
    for start, end in chunks:
        inside = apart and _head(lines, start, end) is not None
        if held is None:
            held = (start, end)
        elif not (alone or inside) and (
            _size(lines, held[0], end) <= MAX_UNIT
            and (_size(lines, *held) < MIN_UNIT or _size(lines, start, end) < MIN_UNIT // 4)
        ):
            held = (held[0], end)
        else:
            yield held
            held = (start, end)
        alone = inside
    if held:
        yield held


def _windows(
    lines: Sequence[str], first: int, last: int, heading: tuple[int, ...]
) -> Iterator[_Unit]:
    start = cut = first
    for number in range(first, last + 1):
        if number > first and _begins(lines, number):
            cut = number
        if _size(lines, start, number) > MAX_UNIT and number > start:
            end = cut if cut > start else number
            yield _Unit(start, end - 1, heading)
            start = end
    yield _Unit(start, last, heading)


def _begins(lines: Sequence[str], number: int) -> bool:
    """Whether something begins at a line: with a comment or a decorator, or below a comment that
    tells of what stands before it."""
    above, line = _NOTE.match(lines[number - 1]), _NOTE.match(lines[number])
    if line or not above:
        leads = (line and not line[1]) or _DECORATOR.match(lines[number])
        return bool(leads and not above)
    while not above[1] and number > 1 and (further := _NOTE.match(lines[number - 2])):
        above, number = further, number - 1
    return above[1] is not None


_FENCE = re.compile(r"(`{3,}|~{3,})(.*)")


def _sections(lines: Sequence[str]) -> Iterator[_Unit]:
    """The paragraphs of a document under their headings; a code block is one paragraph."""
    headings: list[tuple[int, int]] = []  # the level and the line of each
    underlines: dict[str, int] = {}
    start: int | None = None
    fence = ""
    """The mark that the code block around began with."""

    def ended(end: int) -> Iterator[_Unit]:
        if start is None:
            return
        inside = tuple(number for _, number in headings if number < start)
        if _size(lines, start, end) <= MAX_UNIT:
            yield _Unit(start, end, inside)
            return
        first, *further = _windows(lines, start, end, inside)
        yield first
        head = tuple(number for _, number in headings if number <= start)
        begins = {each.first: each for each in further}
        top = start  # the first row of the newest table
        for number in range(start, end + 1):
            is_row = lines[number].startswith("|")
            if is_row and not lines[number - 1].startswith("|"):
                top = number
            if each := begins.get(number):
                in_table = is_row and top < number
                yield _Unit(number, each.last, (*head, top) if in_table else head)

    for number, line in enumerate(lines):
        under = bool(headings) and headings[-1][1] == number - 1 and line.startswith("~")
        underline = under and not _MARK.match(lines[number - 1])
        if (mark := _FENCE.match(line.lstrip())) and not underline:
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        level = 0 if fence else _level(lines, number, underlines)
        if level:
            yield from ended(number - 1)
            headings = [*(each for each in headings if each[0] < level), (level, number)]
            start = number
        elif not line.strip() and not fence and start is not None:
            if _size(lines, start, number) >= MIN_UNIT:
                yield from ended(number - 1)
                start = None
        elif line.strip() and start is None:
            start = number
    yield from ended(len(lines) - 1)


def _level(lines: Sequence[str], number: int, underlines: dict[str, int]) -> int:
    """The level of a line as a heading, by its marks or the line under it; 0 if it is none.
    `underlines`: the levels of underlines so far."""
    line = lines[number]
    if mark := _MARK.match(line):
        return len(mark[1])
    under = lines[number + 1] if number + 1 < len(lines) else ""
    underlined = len(under) >= len(line) and _UNDERLINE.fullmatch(under)
    if not (underlined and re.search(r"\w", line)):
        return 0
    return underlines.setdefault(under[0], len(underlines) + 1)
