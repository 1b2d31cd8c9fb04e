"""What a text claims that code can check in any language: quotations, names, paths, numbers."""

import re
from collections.abc import Sequence

from planner.evidence.words import LETTER, apart, is_name, tokens, words
from planner.text import flat

MAX_NAME = 60
"""Characters of an answer that is a name as a whole."""
MAX_FACTS = 12
"""Of a long answer."""
REPEATED_WORDS = 0.8
"""Of a fact, that a text has which repeats it."""
SAME_WORDS = 0.6
"""Of the words of the shorter of two answers, so many stand in the other when they agree."""
FEW_WORDS = 4
"""Of fewer, the other answer begins with all."""

_UNIT = r"(?:[A-WYZa-wyz][A-Za-z]{0,7}|x|[fiu]\d{1,3})"
"""What may stand right behind a number: `30s`, `256Mi`, `3x`, `1500u64`; not `0xFF`."""
_CLAIM = re.compile(
    r"https?://[^\s)>\]\"']+"  # a URL
    r"|(?:[\w.-]+/)+[\w.-]+"  # a path
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # an e-mail address
    r"|\b(?=\w{8})(?=\w*[A-Za-z])(?:[^\W\d_]*\d){2}\w*\b"  # an account, a code
    r"|\b\w+\.(?:py|ts|js|md|toml|yaml|yml|json|go|rs|java|c|h|cpp|txt|cfg|sh)\b"  # a file name
    r"|\b[A-Za-z]\w*_\w+\b|\b_\w+\b"  # snake_case
    r"|\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z0-9]+[A-Z]\w*\b"  # camelCase
    r"|\b[A-Z]{2,}[a-z]{2,}\w*\b"  # HTTPServer, but not APIs
    r"|\b\d{4}-\d{2}-\d{2}(?!\d)"  # a date
    r"|\b0[xX][0-9A-Fa-f]+\b"
    r"|(?:(?<![\w)\]}])-)?\b\d+(?:\.\d+)*\b"  # a number, a version
    rf"|\b\d{{2,}}(?:\.\d+)*(?={_UNIT}\b)"  # the same with a unit; `2nd` is none
    r"|(?<=\bv)\d+(?:\.\d+)+\b"
    r"|(?<![\w)\]])\[[^\W\d_](?:[^\W\d_]|[ _-]){2,40}\](?!\()"  # `[number]`, left open
    r"|`[^`\n]+`|\"(?=\S)[^\"\n]{3,80}(?<=\S)\""
    r"|(?<!\w)'(?=\S)[^'\n]{3,80}(?<=\S)'(?!\w)"  # a quotation, and no apostrophe
)

_NUMBER = re.compile(r"-?\d+(?:\.\d+)*")
_UNSIGNED = re.compile(rf"(?<!{LETTER})(?<!\.)\d+(?:\.\d+)?(?={_UNIT}?(?!{LETTER}))")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_LINES = re.compile(r"((?:[\w.-]+/)*[\w-]+\.\w+):\d+(?:-\d+)?\b")


def claims(text: str) -> list[str]:
    """The checkable parts of an answer: identifiers, paths, numbers, URLs, quotations, blanks."""
    found: dict[str, None] = {}
    for match in _CLAIM.finditer(apart(text)):
        found.setdefault(match.group().strip("`\"'").rstrip(".,;:"))
    return [claim for claim in found if claim]


def holds(text: str, claim: str) -> bool:
    """Whether the claim stands in the text as a whole word; a number with its sign, and with or
    without its unit: 5 is neither in -5 nor in 1.5."""
    if claim not in text:
        return False
    before, after = rf"(?<!{LETTER})", rf"(?!{LETTER})"
    if _NUMBER.fullmatch(claim):
        before = rf"(?:{before}|(?<=\bv)|(?<=\dT))(?<!\d\.)(?<!\A-)(?<![\s(\[{{=:,<>\"'`]-)"
        after = rf"(?!\.\d){_UNIT}?{after}"
    elif _DATE.fullmatch(claim):  # a time may follow
        after = r"(?!\d)"
    return re.search(f"{before}{re.escape(claim)}{after}", text) is not None


def without_separators(text: str) -> str:
    """Numbers without separators: `11,340` and `11_340` are 11340."""
    return re.sub(r"(?<=\d)[_,](?=\d{3}(?!\d))", "", text)


def without_points(text: str) -> str:
    """Numbers as some languages separate them: `1.500` is 1500."""
    return re.sub(r"(?<=\d)\.(?=\d{3}(?!\d))", "", text)


def numbers_in(text: str) -> list[float]:
    """The numbers of a text in their order, however it writes them: `1,500`, `1.500`, `12,50`."""
    with_commas = re.sub(r"(?<=\d),(?=\d{1,2}(?!\d))", ".", text)
    forms = (with_commas, without_points(text), without_separators(text), text)
    return [float(found.group()) for form in forms for found in _UNSIGNED.finditer(form)]


def is_number(claim: str) -> bool:
    return re.fullmatch(r"-?\d+(?:\.\d+)?", claim) is not None


def is_value(claim: str) -> bool:
    """Whether it is a number or a date."""
    return is_number(claim) or _DATE.fullmatch(claim) is not None


def beyond(answer: str, request: str) -> list[str]:
    """What an answer claims that the request does not, paths by their file's name."""
    plain = [claim.rsplit("/", 1)[-1] for claim in claims(without_separators(answer))]
    return [claim for claim in plain if not holds(request, claim)]


def name_in(answer: str, question: str) -> str | None:
    """What an answer names that the question does not, as another question may name it: a name,
    the only word that the question has not, or the whole of a short answer."""
    told = [each for each in beyond(answer, question) if not is_number(each)]
    asked = {*words(question)}
    new = [token for token in tokens(answer) if not asked.issuperset(words(token))]
    whole = flat(answer).rstrip(".")
    short = whole if len(whole) <= MAX_NAME else None
    only = new[0] if len(new) == 1 else short
    return next(filter(is_name, told), next(iter(told), only))


def agree(first: str, second: str, request: str) -> bool:
    """Whether two answers say the same: one of them holds all that the other claims beyond the
    request; where neither claims a name or a number, most of the words."""
    readings = [(first, second), (second, first)]
    told = [(beyond(one, request), without_separators(other)) for one, other in readings]
    if any(claimed for claimed, _ in told):
        return any(
            claimed and all(holds(other, claim) for claim in claimed) for claimed, other in told
        )
    asked = set(words(request))
    new = ([each for each in words(text) if each not in asked] for text in (first, second))
    short, long = sorted(new, key=len)
    if len(short) < FEW_WORDS:  # "it is on" and "it is not on" share most of theirs
        return long[: len(short)] == short and bool(short or not long)
    return len({*short} & {*long}) >= SAME_WORDS * len({*short})


def without_lines(answer: str) -> str:
    """The answer with the file alone of each `path:12-30`: models copy the lines of the passage
    that they read, whichever that is."""
    return _LINES.sub(r"\1", answer)


def only_repeats(answer: str, request: str) -> bool:
    """Whether an answer is nothing but names or numbers that the request has, and all of these:
    asked for the base of `Foo`, a small model names `Foo`. One of several that the request names is
    an answer."""
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
    """Of many facts those that have most words of a query, and most names and numbers besides, in
    their order."""
    asked = {*words(query)}

    def tells(fact: str) -> int:
        return len(asked & {*words(fact)}) + len(beyond(fact, query))

    best = sorted(facts, key=tells, reverse=True)[:MAX_FACTS]
    return [fact for fact in facts if fact in best]
