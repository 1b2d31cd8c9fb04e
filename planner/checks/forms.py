"""Whether a text has a claim in another form: another spelling, a part of a date, a rounded number,
a result of small arithmetic."""

import re
import string
from collections.abc import Sequence
from http import HTTPStatus
from itertools import combinations, groupby

from planner.checks.claims import COMPARISON, holds, is_number, rounded
from planner.checks.dates import has_time, in_moment
from planner.evidence.definitions import defined_name
from planner.evidence.words import is_name, tokens
from planner.text import NUMBERED, flat

NEAR_LINES = 15
"""Lines between the names of a piece of code that a text has in another way."""
_COMMENT = re.compile(r"(?<!:)(?:#(?!\s*define\b)|//).*")
_CODE = re.compile(r"(?!.*(?:@|://))(?:.*[=()\[\]{}*<>+]|.*\w(?:\.|::|#|\\)\w)")
"""A call, an expression or a member, and no address."""
_ITEM = re.compile(rf"\s*(?:[-*]\s|・|{NUMBERED})")
_CALLED = re.compile(r"\.?(\w+)\(\)")
"""A function's name as texts write it, without what it is given."""
_POINT_TIME = re.compile(r"[012]?\d\.[0-5]\d")
"""A time, in many languages: `16.30`."""
_HASH = re.compile(r"(?=\d*[a-f])[0-9a-f]{7,}")
"""The beginning of a hash is mostly said instead of it."""
FILE = re.compile(r"[\w./-]+\.\w{1,8}")
_STATUSES = {
    name.replace("_", "_?"): f"{status.value}" for name, status in HTTPStatus.__members__.items()
}
"""The numbers of HTTP statuses by their names, as code may write these."""


def is_path(text: str) -> bool:
    return FILE.fullmatch(text) is not None and not is_number(text)


def in_another_form(claim: str, answer: str, text: str, held: Sequence[str]) -> bool:
    """Whether a text has a claim of an answer in another form; `held`: what it has as it is."""
    return bool(
        (is_number(claim) and (_follows(claim, answer, held) or rounded(claim, text)))
        or spelled_otherwise(claim, answer, text)
        or _one_or_the_other(claim, text)
        or _written_otherwise(claim, text)
        or (claim.isdigit() and in_moment(claim, answer, text))
        or (_POINT_TIME.fullmatch(claim) and has_time(text, *claim.zfill(5).split(".")))
        or _is_status(claim, text)
        or (_HASH.fullmatch(claim) and re.search(rf"(?<!\w){claim}[0-9a-f]+(?!\w)", text))
    )


def file_in(claim: str, text: str) -> bool:
    """Whether a path's last part stands in the text: an answer may say more folders, or fewer."""
    return "/" in claim and holds(text, claim.rsplit("/", 1)[-1])


def spelled_otherwise(claim: str, answer: str, text: str) -> bool:
    """Whether a name with a number stands in the text in another spelling: SHA-256 for sha256,
    Node 20 for node20."""
    number = claim.lstrip(string.ascii_letters)
    if not is_number(number):
        return False
    named = re.finditer(rf"([^\W\d_]{{2,}})[ -]?{re.escape(number)}(?![\w.]*\d)", answer)
    spellings = (rf"\b{name[1]}[-_ ]?{re.escape(number)}(?![\w.]*\d)" for name in named)
    return any(re.search(each, text, re.IGNORECASE) for each in spellings)


def _written_otherwise(claim: str, text: str) -> bool:
    """Whether the text has a quotation with other blanks or capitals, or a piece of code in another
    way: its names near each other, with its comparisons, and each number behind one of them.
    `timeout=30` is `timeout: int = 30`, and `Client.connect` a method of `Client`."""
    quoted = rf"(?<!\w){re.escape(flat(claim).casefold())}(?!\w)"
    if " " in claim and re.search(quoted, flat(text).casefold()):
        return True
    if function := _CALLED.fullmatch(claim):
        return _in_code(function[1], text)
    parts = tokens(claim)
    names = [each for each in parts if not each.isdigit()]
    if len(parts) < 2 or not names or not _CODE.search(claim):
        return False
    if not all(each in text for each in parts):
        return False
    lines = [_COMMENT.sub("", line) for line in text.splitlines()]
    for at in (n for n, line in enumerate(lines) if holds(line, names[0])):
        near = lines[at : at + NEAR_LINES]
        having = "\n".join(line for line in near if any(holds(line, each) for each in names))
        stand = all(holds(having, each) for each in names)
        compared = all(each in having for each in COMPARISON.findall(claim))
        numbers = [each for each in parts if each.isdigit()]
        # `Client.close` looks like a file.
        member = not is_path(claim) or parts[-1] in map(defined_name, near)
        if member and stand and compared and all(_beside(each, names, having) for each in numbers):
            return True
    return False


def _in_code(name: str, text: str) -> bool:
    """Whether a text has a name as code has it; one of a plain word may stand in prose, too."""
    plain = rf"(?<!\w){name}(?: ?\(|[:=<`'\"])|[.:#`'\"]{name}(?!\w)"
    return holds(text, name) and (is_name(name) or re.search(plain, text) is not None)


def _beside(number: str, names: Sequence[str], text: str) -> bool:
    """Whether a number stands on a line with one of the names, without another number between."""
    name = rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)"
    alone = rf"(?<![\w.]){number}(?![\w.])"
    between = r"(?:[^\W\d]\w*\b|[^\w\n])*"  # `UINT32_C(` has no number of its own
    return re.search(rf"{name}{between}{alone}|{alone}{between}{name}", text) is not None


def _is_status(number: str, text: str) -> bool:
    """Whether a text has an HTTP status by its name: 429 for `http.StatusTooManyRequests`."""
    names = "|".join(name for name, status in _STATUSES.items() if status == number)
    named = rf"(?:status(?:_?code)?|http|\bsc)[.:_]*(?:{names})(?![a-z])"
    return bool(names) and re.search(named, text, re.IGNORECASE) is not None


def _one_or_the_other(claim: str, text: str) -> bool:
    """Whether two words with a stroke between them are no path: the text has none with either."""
    one, stroke, other = claim.partition("/")
    plain = bool(stroke) and one.isalpha() and other.isalpha()
    return plain and re.search(rf"\b{one}/|/{other}\b", text) is None


def counts(claim: str, answer: str) -> bool:
    """Whether a number is that of the items which an answer lists, in lines or in a table."""
    lines = answer.split("\n")
    items = [_ITEM.match(line) is not None for line in lines]
    lists = [len([*run]) for is_item, run in groupby(items) if is_item]
    rows = (line.lstrip().startswith("|") for line in lines)
    tables = [len([*run]) - 2 for is_row, run in groupby(rows) if is_row]  # a header and a rule
    return is_number(claim) and 1 < float(claim) in (sum(items), *lists, *tables)


def _follows(claim: str, answer: str, held: Sequence[str]) -> bool:
    """Whether a number counts the names in the answer, or follows from two of its numbers."""
    value = float(claim)
    names = {each for each in held if not is_number(each)}
    if counts(claim, answer) or (value == len(names) and value > 1):
        return True
    numbers = [float(each) for each in held if is_number(each)]
    if len(numbers) > 2 and abs(sum(numbers) - value) < 1e-6:
        return True
    return any(
        abs(result - value) < 1e-6
        for first, second in combinations(numbers, 2)
        for result in (first + second, abs(first - second), first * second)
    )
