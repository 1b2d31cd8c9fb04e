"""What code works out in a passage, since small models neither count nor multiply well: how many
entries its lists have, and what its products make.

A list stands in brackets behind the name that a line defines; or it is lines of one depth with
marks, or definitions whose names begin with the same word: `COLOUR_RED`, `COLOUR_BLUE`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from math import prod

from planner.evidence.definitions import defined, defined_in, indentation
from planner.evidence.words import words
from planner.passage import Passage

MIN_ENTRIES = 2
MIN_NAMES = 3
"""Names that begin with the same word."""
MAX_COUNTS = 3
"""Lists of one passage that are counted."""
MAX_ABOVE = 60
"""Characters of the line above a list."""
_STRING = re.compile(
    r"\"\"\"[\s\S]*?\"\"\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`"
)
_COMMENT = re.compile(r"/\*[\s\S]*?\*/|(?://|#(?![\[\w])).*")
_OPENED = re.compile(
    r"(?:(?<![=<>!])=(?!=)|:)\s*&?(?:[\w.]*(?:\[\w*\])?[\w.]*\{|\w+!\s*[\[({]|[\[({])"
    r"|\benum\b.*\{"
)
"""`NAME = [`, `NAME: &[T] = &[`, `name := []T{`, `enum Name {`."""
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_MADE = re.compile(r"\bfor\b|[\[({,]\s*(?:\*|\.\.\.)")
"""What makes entries of others: a loop, or another list that is laid out."""
_GOES_ON = re.compile(r"[ \t]*(?:=>|->|[-+*/|&.\[(]|(?:if|for)\b)")
"""What stands behind a bracket that is no list, or not all of it."""
_BEGINNING = re.compile(r"[^\W_]{3,}_(?=\w)")
"""The first word of a name, with what parts it from the rest."""
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+\S")


def entries(passage: Passage, others: Sequence[Passage], asked: set[str]) -> list[str]:
    """What there is to say of the passage's lists that share a word with what is asked for:
    `COLOURS has 5 entries`. `others`: the passages that may hold more of a list."""
    found = [*_in_brackets(passage.text), *_in_lines(passage, others)]
    told = [
        f"{name} has {count} entries"
        for name, count in found
        if count >= MIN_ENTRIES and asked & {*words(name)}
    ]
    told += [
        f"{count} names begin with {beginning}"
        for beginning, count in _in_names(passage, others)
        if count >= MIN_NAMES and asked & {*words(beginning)}
    ]
    return told[:MAX_COUNTS]


def _in_brackets(text: str) -> Iterator[tuple[str, int]]:
    """The names that are defined as something in brackets, and how many entries that has."""
    plain = _COMMENT.sub("", _STRING.sub(lambda each: "s" + "\n" * each[0].count("\n"), text))
    at = 0
    for line in plain.splitlines(keepends=True):
        name, opened = defined_in(line), [*_OPENED.finditer(line)]
        if name and opened:
            yield name[0], _count(plain[at + opened[-1].end() - 1 :])
        at += len(line)


def _count(text: str) -> int:
    """The entries in the brackets that a text begins with; 0 where these do not close, hold
    statements, or are only a part of something."""
    closing: list[str] = []
    count, empty = 0, True
    for at, sign in enumerate(text):
        if closing and sign == closing[-1]:
            closing.pop()
            if not closing:
                is_list = not (_MADE.search(text[:at]) or _GOES_ON.match(text, at + 1))
                return count + (not empty) if is_list else 0
        elif sign in ";)]}":
            return 0
        elif sign in _CLOSING:
            empty = empty and not closing
            closing.append(_CLOSING[sign])
        elif len(closing) == 1 and sign == ",":
            count, empty = count + (not empty), True
        elif not sign.isspace():
            empty = False
    return 0


def _in_lines(passage: Passage, others: Sequence[Passage]) -> Iterator[tuple[str, int]]:
    """The line above a list, and how many entries it has, unless the next passage goes on."""
    lines = passage.text.splitlines()
    items = _items(lines)
    above = [line.strip() for line in lines[: items[0]] if line.strip()] if items else []
    if not above or len(above[-1]) > MAX_ABOVE or _parted(lines, items):
        return
    _, after = _beside(passage, others)
    if not (after and _items(after.text.strip("\n").splitlines()[:1])):
        yield f'"{above[-1]}"', len(items)


def _in_names(passage: Passage, others: Sequence[Passage]) -> Iterator[tuple[str, int]]:
    """The words that several of the passage's names begin with, and how many do, unless the
    passages beside it have more of them."""
    names = Counter(part[0] for name in defined(passage) if (part := _BEGINNING.match(name)))
    if not names:
        return
    elsewhere = {name for each in _beside(passage, others) if each for name in defined(each)}
    for beginning, count in names.items():
        if not any(name.startswith(beginning) for name in elsewhere):
            yield beginning, count


def _beside(passage: Passage, others: Sequence[Passage]) -> tuple[Passage | None, Passage | None]:
    """The passages of the same source before and after it."""
    same = [each for each in others if each.source == passage.source]
    before = (each for each in same if each.last < passage.first)
    after = (each for each in same if each.first > passage.last)
    return (
        max(before, key=lambda each: each.last, default=None),
        min(after, key=lambda each: each.first, default=None),
    )


def _parted(lines: Sequence[str], items: Sequence[int]) -> bool:
    """Whether something else stands between entries, which may begin another list."""
    depth = indentation(lines[items[0]])
    between = (lines[number] for number in range(items[0], items[-1]) if number not in items)
    return any(line.strip() and indentation(line) <= depth for line in between)


def _items(lines: Sequence[str]) -> list[int]:
    """The numbers of the lines that begin the entries of a list, but for the lists within it."""
    found = [number for number, line in enumerate(lines) if _ITEM.match(line)]
    least = min((indentation(lines[number]) for number in found), default=0)
    return [number for number in found if indentation(lines[number]) == least]


# Products

MAX_RESULTS = 3
"""Of one passage."""
MAX_DIGITS = 18
"""Of a number; a longer one is no size and no time limit."""
MAX_SHIFT = 62
MAX_FACTORS = 7
"""After the first; a longer product is not worked out."""
_TYPE = r"(?:[uif]\d+|[uUlLn]+)?"
_DIGITS = r"\d[\d_]*(?:\.\d+)?"
_WHOLE = rf"\d[\d_]*{_TYPE}"
_NUMBER = rf"{_DIGITS}{_TYPE}"
_EXPRESSION = re.compile(
    rf"(?<![\w.])(?:{_NUMBER}(?:\s*\*\s*{_NUMBER}){{1,{MAX_FACTORS}}}|{_WHOLE}\s*<<\s*{_WHOLE})"
    r"(?!\.?\w|\s*(?:\*|<<|\())"
)
_OPERATORS = ("*", "/", "%", "-", "^", "<<", ">>")
"""What must not come before a product: it would belong to a longer one."""


def worked_out(passage: Passage) -> Passage:
    """The passage with what its products of plain numbers make: `1024 * 1024 is 1048576`."""
    found = dict.fromkeys(_results(passage.text))
    told = "; ".join(filter(None, [passage.inside, *list(found)[:MAX_RESULTS]]))
    return passage.model_copy(update={"inside": told}) if found else passage


def _results(text: str) -> Iterator[str]:
    for match in _EXPRESSION.finditer(text):
        before = text[: match.start()].rpartition("\n")[2].rstrip()
        after = text[match.end() :].lstrip(" \t")
        shown = " ".join(match.group().split())
        if before.endswith(_OPERATORS) or (
            "<<" in shown and (before.endswith("+") or after.startswith(("+", "-")))
        ):
            continue
        numbers = [Decimal(each) for each in _plain(shown)]
        if any(len(each.as_tuple().digits) > MAX_DIGITS for each in numbers):
            continue
        if "<<" in shown:
            first, by = map(int, numbers)
            result = Decimal(first << by) if by <= MAX_SHIFT else Decimal(0)
        else:
            result = prod(numbers, start=Decimal(1))
        if 0 < result < 10**MAX_DIGITS:
            yield f"{shown} is {result.normalize():f}"


def _plain(expression: str) -> list[str]:
    """The numbers of an expression, without separators and types."""
    return [each.replace("_", "") for each in re.findall(rf"(?<![\w.]){_DIGITS}", expression)]
