"""What a text claims that code can check in any language: quotations, names, paths, numbers."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from planner.checks.dates import DAY_FIRST, MONTH_FIRST, ONE_WAY, in_iso
from planner.evidence.words import (
    BETWEEN,
    INTO_NAME,
    LETTER,
    LOWER,
    OUT_OF_NAME,
    UPPER,
    apart,
    is_name,
    tokens,
    words,
)
from planner.text import NUMBERED, flat

MAX_NAME = 60
"""Characters of an answer that is a name as a whole."""
MAX_FACTS = 12
"""Of a long answer."""
REPEATED_WORDS = 0.8
"""The share of a fact's words in a text that repeats it."""

_UNIT = r"(?:[^\W\d_Xx][^\W\d_]{0,7}|x|[fiu]\d{1,3})"
"""What may stand right behind a number: `30s`, `256Mi`, `512МБ`, `3x`, `1500u64`; not `0xFF`."""
_QUOTATION = "|".join(
    rf"(?<!{LETTER}){begin}(?=[^{end}\n]{{,80}}[A-Za-z])[^{begin}{end}\n]{{3,80}}[{end}]"
    for begin, end in (("“", "”"), ("„", "“”"), ("«", "»"), ("「", "」"), ("『", "』"))
)
"""Between other marks than those of ASCII, only what has Latin letters is a quotation: many
languages put such marks around words of their own."""
_BEFORE_RELEASE = re.compile(r"\d+(?:\.\d+){2,}(?:[A-Za-z]\w*|-[A-Za-z]+\.?\d+)\b")
"""A version that its letters tell from others: `5.1.4beta`, `2.0.0-rc.1`."""
_CLAIM = re.compile(
    r"https?://[\w./?#\[@!$&(*+,;=%~:|{}\\-]+"  # a URL
    r"|(?<![\w.-])(?=[\d./-]{0,99}[^\W\d])(?:[\w.-]+/)+[\w.-]+"  # a path
    r"|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # an e-mail address
    rf"|\b(?![{UPPER}]{{3}}\d)[^\W\d_]{{2,}}\d+(?:\.\d+)+\b"  # a name with a version
    r"|\b(?=\w{8})(?=\w*[A-Za-z])(?:[^\W\d_]*\d){2}\w*\b"  # an account, a code
    r"|\b\w+\.(?:py|ts|js|md|toml|yaml|yml|json|go|rs|java|c|h|cpp|txt|cfg|sh)\b"  # a file name
    r"|\b[^\W\d_]\w*_\w+\b|\b_\w+\b"  # snake_case
    rf"|(?<!\d )\b(?:[{LOWER}]+|[{UPPER}][{LOWER}0-9]+)[{UPPER}]\w*\b"  # camelCase, and no unit
    rf"|\b(?:[{UPPER}]{{2,}}|[{UPPER}]+\d+[{UPPER}])[{LOWER}]{{2,}}\w*\b"  # HTTPServer, S3Client
    r"|\b\d{4}-\d{2}-\d{2}(?!\d)"  # a date
    rf"|(?:\b|(?<=\b[vV])){_BEFORE_RELEASE.pattern}"
    r"|\b0[xX][0-9A-Fa-f]+\b"
    rf"|(?:(?<!{LETTER})(?<![)\]}}])-)?(?<!\d\.)\b\d+(?:\.\d+)*\b(?!\.\d)"  # a number, a version
    rf"|\b(?:\d+(?:\.\d+)+|\d{{2,}})(?={_UNIT}\b)"  # the same with a unit; `2nd` is none
    r"|(?<=\b[vV])\d+(?:\.\d+)+\b"
    r"|(?<![\w)\]])\[[^\W\d_](?:[^\W\d_]|[ _'’-]){2,40}\](?!\()"  # `[user's name]`, left open
    r"|`[^`\n]+`|\"(?=\S)[^\"\n]{3,80}(?<=\S)\""
    r"|(?<!\w)'(?=\S)[^'\n]{3,80}(?<=\S)'(?!\w)"  # a quotation, and no apostrophe
    rf"|{_QUOTATION}"
)

_STATED = re.compile(r"(?<![\w.])([^\W\d]\w*) *(?:= *| (?:[<>=!]=|[<>]) )-?\d+(?!\.?\w)")
COMPARISON = re.compile(r"[<>=!]=|(?<![-=])[<>](?!=)")
"""A sign between two things in code that are compared."""
STOPS = ".。．｡।۔"
"""What sentences end with."""
_PLAIN_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)*")
_UNSIGNED = re.compile(rf"(?<!{LETTER})(?<!\.)\d+(?:\.\d+)?(?={_UNIT}?(?!{LETTER}))")
_DIGIT = re.compile(r"(?![0-9])\d")
_ENDS = rf"(?!\.\d)(?={_UNIT}?(?!\w))"
_ZEROS = re.compile(rf"(?<![\w.])(\d+)\.0+{_ENDS}")
_LAST_ZEROS = re.compile(rf"(?<![\w.])((?:0|\d\d+)\.(?!10\b)\d*[1-9]|\d\.5)0+{_ENDS}")
"""Those of `12.50`; `3.10` and `24.10` may be versions, which are not 3.1 and 24.1."""
_QUANTITIES = re.compile(r"(?<![\w.])(?:\d+[A-Za-z]{1,2}){2,4}(?!\w)")
"""`3d4h`: numbers with units, one after the other."""
_ANY_DIGIT = re.compile(r"\d")
_COMMA = re.compile(r"(?<=\d)[_,](?=(?:\d{2},)*\d{3}(?!\d))")
_POINT = re.compile(r"(?<=\d)\.(?=\d{3}(?!\d))")
_DECIMAL = re.compile(r"(?<![\w.])-?\d+\.\d{3,}(?![\w.])")
"""Too long for a version: 3.14 is not rounded to 3.1."""
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
_COMMA_ZEROS = re.compile(r"(?<=\d)(?:,00|(,[1-9])0)(?!\d)")
"""Those of `38,50` and `2500,00`."""
_SIGNS = str.maketrans("−－٫٬．", "--.,.")
_SPACED = re.compile(rf"(?<!{LETTER})(?<![.,])\d{{1,3}}(?:[ '’，\u00a0\u2009\u202f]\d{{3}})+(?!\d)")
_AROUND_NAME = (
    re.compile(rf"(?<!{LETTER})|{INTO_NAME}"),
    re.compile(rf"(?!{LETTER})|{OUT_OF_NAME}"),
)
_AROUND_NUMBER = (
    re.compile(
        rf"(?:(?<!{LETTER})|{INTO_NAME}|(?<=\b[vV])|(?<=\dT))(?<!\d\.)(?<!\A-)(?<![\s(\[{{=:,<>\"'`]-)"
    ),
    re.compile(rf"(?!\.\d){_UNIT}?(?!{LETTER})"),
)
_AROUND_DATE = _AROUND_NAME[0], re.compile(r"(?!\d)")  # a time may follow
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATE_VALUE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ].*)?"
    r"|\d{1,2}(?::\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:?\d{2})?(?: ?[ap]m)?| ?[ap]m)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(rf"(?m)^\s*{NUMBERED}\s*")
_LINES = re.compile(r"((?:[\w.-]+/)*[\w-]+\.[^\W\d]\w*):\d+(?:-\d+)?\b")


def claims(text: str) -> list[str]:
    """The checkable parts of an answer: identifiers, paths, numbers, URLs, quotations, blanks; not
    the numbers of a list's items."""
    text = without_number(text) if len(_NUMBERED.findall(text)) > 1 else text
    found: dict[str, None] = {}
    for match in _CLAIM.finditer(apart(plain(text))):
        bare = match.group().replace(BETWEEN, "").strip("`\"'“”„«»「」『』 \u00a0\u202f")
        found.setdefault(bare.rstrip(".,;:"))
    return [claim for claim in found if claim]


def stated(answer: str, text: str) -> list[str]:
    """What an answer says of a text's names as code does: `MAX_SIZE = 90`, `n > 3`. Before `=`, a
    plain word may be one of prose."""
    said = (each for each in _STATED.finditer(answer) if holds(text, each[1]))
    return [each[0] for each in said if is_name(each[1]) or COMPARISON.search(each[0])]


def holds(text: str, claim: str) -> bool:
    """Whether the claim stands in the text as a whole word. A number may have a unit there; 5 is
    neither in -5 nor in 1.5."""
    before, after = _AROUND_NAME
    if _NUMBER.fullmatch(claim):
        before, after = _AROUND_NUMBER
    elif _DATE.fullmatch(claim):
        before, after = _AROUND_DATE
    elif _BEFORE_RELEASE.fullmatch(claim):
        before = _AROUND_NUMBER[0]
    place = text.find(claim)
    while place >= 0:
        if before.match(text, place) and after.match(text, place + len(claim)):
            return True
        place = text.find(claim, place + 1)
    return False


def plain(text: str) -> str:
    """The text with the digits and signs of ASCII, and with dates as ISO 8601 has them."""
    if not text.isascii():
        text = _DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), text.translate(_SIGNS))
    return in_iso(text, *ONE_WAY)


def without_separators(text: str) -> str:
    """Numbers without separators: `11,340`, `11_340`, `11 340`, `11'340` and `11340.0` are 11340,
    and `12.50` is 12.5."""
    return readings(text)[0]


def readings(text: str) -> tuple[str, str, str]:
    """What a text may mean by its numbers: `1,500` is 1500, 1.5 or two numbers, and `1.500` is 1.5
    or, in many languages, 1500."""
    spelled = plain(text)
    joined = _SPACED.sub(lambda found: re.sub(r"\D", "", found[0]), spelled)
    by_commas = _COMMA.sub("", in_iso(joined, MONTH_FIRST))
    by_points = _POINT.sub("", in_iso(joined, DAY_FIRST))
    return (
        _LAST_ZEROS.sub(r"\1", _ZEROS.sub(r"\1", by_commas)),
        _DECIMAL_COMMA.sub(".", _COMMA_ZEROS.sub(r"\1", by_points)),
        spelled,
    )


@lru_cache(maxsize=64)
def in_all_readings(text: str) -> str:
    """A text whose lines say what each reading of them says, also of numbers with units."""
    return "\n".join(
        _readings_of_line(line) if _ANY_DIGIT.search(line) else line for line in text.split("\n")
    )


def _readings_of_line(line: str) -> str:
    *separated, spelled = readings(line)
    by_unit = _QUANTITIES.sub(lambda each: re.sub(r"(?<=[A-Za-z])(?=\d)", " ", each[0]), spelled)
    return " ".join(dict.fromkeys([*separated, spelled, by_unit]))


def lines_as_read(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a text, each with all its readings."""
    return zip(text.split("\n"), in_all_readings(text).split("\n"), strict=True)


def numbers_in(text: str) -> list[float]:
    """The numbers of a text in their order, however it writes them: `1,500`, `1.500`, `12,50`."""
    return [float(each.group()) for form in readings(text) for each in _UNSIGNED.finditer(form)]


def is_number(claim: str) -> bool:
    return _PLAIN_NUMBER.fullmatch(claim) is not None


def is_value(claim: str) -> bool:
    """Whether it is a number or a date."""
    return is_number(claim) or _DATE.fullmatch(claim) is not None


def is_date(value: str) -> bool:
    """Whether it is a date or a time, in any format that is one: `15.01.2027`, `01/15/2027`."""
    return any(map(_DATE_VALUE.fullmatch, readings(value)))


def beyond(answer: str, request: str) -> list[str]:
    """What an answer claims that the request does not, paths by their file's name."""
    told = [claim.rsplit("/", 1)[-1] for claim in claims(without_separators(answer))]
    asked = in_all_readings(request)
    return [claim for claim in told if not holds(asked, claim)]


def adds_words(answer: str, request: str) -> bool:
    """Whether an answer has a word that the request has not, numbers apart."""
    return any(not is_number(each) for each in {*words(answer)} - {*words(request)})


def name_in(answer: str, question: str) -> str | None:
    """What an answer names that the question does not, for another question: a name, the only
    claim or new word, or the whole of a short answer."""
    told = [each for each in beyond(answer, question) if not is_number(each)]
    asked = {*words(question)}
    new = [token for token in tokens(answer) if not asked.issuperset(words(token))]
    whole = flat(answer).rstrip(STOPS)
    short = whole if len(whole) <= MAX_NAME else None
    only = new[0] if len(new) == 1 else short
    return next(filter(is_name, told), told[0] if len(told) == 1 else only)


def rounded(claim: str, text: str) -> bool:
    """Whether a decimal is a number of the text with fewer places: 3.67 for 3.6666666667."""
    places = len(claim.partition(".")[2])
    return places > 0 and any(
        len(each.rstrip("0").partition(".")[2]) > places
        and round(float(each), places) == float(claim)
        for each in _DECIMAL.findall(text)
    )


def without_lines(answer: str) -> str:
    """The answer with `path` for each `path:12-30`: models copy the lines of what they read."""
    return _LINES.sub(r"\1", answer)


def without_number(item: str) -> str:
    """An item of a list without its number, or a list without those of its items."""
    return _NUMBERED.sub("", item)


def only_repeats(answer: str, request: str) -> bool:
    """Whether an answer is nothing but the names and numbers of the request, all of them: asked for
    the base of `Foo`, a small model names `Foo`. One of several names may be the answer."""
    told, named = claims(answer), claims(without_separators(request))
    bare = bool(told) and not [*words(_CLAIM.sub("", apart(answer)))]
    return bare and {*told} == {*named}


def repeats(fact: str, text: str) -> bool:
    """Whether a text has most words of a fact, and all its names and numbers."""
    said = {*words(fact)}
    most = len(said & {*words(text)}) >= REPEATED_WORDS * len(said)
    return most and all(holds(text, claim) for claim in claims(fact))


def both(first: str, second: str) -> str:
    """Two answers as one; where one of them has all names and numbers of the other, that one."""
    if _covers(first, second):
        return first
    return second if _covers(second, first) else f"{first}\n{second}"


def _covers(text: str, answer: str) -> bool:
    told = claims(answer)
    return all(holds(text, claim) for claim in told) if told else repeats(answer, text)


def telling(facts: Sequence[str], query: str) -> list[str]:
    """The facts with most words of a query, and most names and numbers besides, in their order."""
    asked = {*words(query)}

    def tells(fact: str) -> int:
        return len(asked & {*words(fact)}) + len(beyond(fact, query))

    best = sorted(facts, key=tells, reverse=True)[:MAX_FACTS]
    return [fact for fact in facts if fact in best]
