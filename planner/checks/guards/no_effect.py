"""What came of a change that changed nothing."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from planner.checks.claims import is_date
from planner.checks.validation import objects
from planner.evidence.records import value_of
from planner.evidence.words import parts, words
from planner.tools import Arguments, ToolSpec

MAX_CHARS = 1000
"""Characters of a result that says no more than what was counted."""
Told = Sequence[tuple[str, Any]]
"""The values of a result, each with its name."""
_DONE = re.compile(r"[a-z]ed(?![a-z])", re.IGNORECASE)
"""What the name has of something that is counted when it was done: `removed`, `deletedCount`."""
_ZERO = re.compile(
    r"(\w+)(?::[ `]*0\b(?!.?\w| \w)|[ `]+0\b(?!.?\d))"
    r"|(?<![\w.:-])0((?:[^\w\n.]+[^\W\d]\w*){1,4})"
)
"""A word before 0, or the words behind it: `Deleted 0 documents`, `0 rows were updated`."""
_WHOLE = re.compile(r"(?<![\w.:-])\d+(?![\w:-]|\.\d)")
_CODE = re.compile(r"\S*\d\S*")
_AFFECTED = re.compile(r"affected|(?<!fail)edcount$")
"""The names of what drivers of databases count: `rows_affected`, `matchedCount`."""
_EQUALS = re.compile(r"(?i)(\w+)[\"`\]]?\s*(?:=|\bIN\s*\()([\d,\s']*\d)(?!\.\d|\w)")
"""A column and the whole numbers that it is compared with."""
_COMPLAINT = re.compile(r"(?:\w+(?=_|E))?_?(?:[Ee]rrors?|[Ff]ailed|failures?)(?:_?[Cc]ount)?")
"""What services call what went wrong: `errors`, `userErrors`, `failed_count`."""
ALTERS = re.compile(
    r"(?:UPDATE\s.*\sSET|DELETE\s+FROM|(?:INSERT|REPLACE|MERGE)\s.*INTO)\s",
    re.IGNORECASE | re.DOTALL,
)
"""A statement of SQL that changes rows; one that defines a table affects none."""
_DEFINES = re.compile(r"\s*(?:CREATE|ALTER|DROP|TRUNCATE|GRANT|REVOKE)\s", re.IGNORECASE)


def changed_nothing(tool: ToolSpec, arguments: Arguments, result: str) -> bool:
    """Whether what came of a change counts nothing that it did: 0, none or no under a form of its
    tool's own verb (`{"deleted": []}`, "Updated 0 rows"), or where a database says how many rows a
    statement has changed. Another zero may be of anything, such as a code or what is left."""
    text = result.strip()
    if len(text) > MAX_CHARS:
        return False
    given = {*map(str, arguments.values())}
    value = value_of(text) if text.startswith(("{", "[")) else None
    told = [(name, each) for name, each in _named(value) if str(each) not in given]
    counts = [each for _, each in told if type(each) is int]
    if not told:
        counts = [int(each) for each in _WHOLE.findall(text)]
    if any(map(ALTERS.search, given)):
        return counts.count(0) == len(counts) > 0
    verbs = parts(tool.bare_name)
    if told:
        return _counts_nothing(told, verbs, any(map(_DEFINES.match, given)))
    beside = (" ".join(each) for each in _ZERO.findall(text))
    said = {int(each) for each in re.findall(r"\d+", " ".join(given))}
    return {*counts} - said <= {0} and any(_is_done(verbs, each) for each in beside)


def literals(value: Any) -> Iterator[tuple[str, int]]:
    """The whole numbers that rows have to have by a statement of SQL that changes them, each with
    the name of its column."""
    if isinstance(value, str) and ALTERS.search(value):
        _, _, condition = re.sub(r"(?i)\swhere\s", "\0", value).partition("\0")
        for column, listed in _EQUALS.findall(condition):
            yield from ((column, int(each)) for each in re.findall(r"\d+", listed))


def complaints(result: str) -> list[str]:
    """The names under which a result tells of errors or failures, maybe of a part alone."""
    value = value_of(result) if result.startswith(("{", "[")) else None
    return [
        name
        for each in objects(value)
        for name, told in each.items()
        if _COMPLAINT.fullmatch(name) and told and type(told) in (int, list, dict)
    ]


def _counts_nothing(told: Told, verbs: Sequence[str], defines: bool) -> bool:
    """What an object says that has no id or code of what was made: a build that is queued is not
    started yet. If it has a number, only the first verb counts; `defines`: whether a statement of
    SQL defines something."""
    done = [each for name, each in told if each and _DONE.search(name)]
    if any(isinstance(each, int | list) and each is not True for each in done):
        return False
    if any(_is_handle(*each) for each in told):
        return False
    several = not any(type(each) is int and each for _, each in told)
    for name, each in told:
        is_none = each == [] or (each == 0 and not (each is False and True in done))
        own = verbs if several and each is not False else verbs[:1]
        if is_none and _is_done(own, name):
            return True
        if is_none and several and _AFFECTED.search(name.replace("_", "").lower()):
            return not defines
    return False


def _is_handle(name: str, value: Any) -> bool:
    """Whether a value is the id or the code of something."""
    if isinstance(value, str) and _CODE.fullmatch(value) and not is_date(value):
        return True
    return bool(value) and name.lower().endswith("id") and not isinstance(value, list)


def _named(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The values within a value of JSON, lists without objects as a whole, each with its name."""
    inner = [*value.items()] if isinstance(value, dict) else []
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        inner = [(name, each) for each in value]
    if inner:
        for key, each in inner:
            yield from _named(each, str(key))
    elif name:
        yield name, value


def _is_done(verbs: Sequence[str], name: str) -> bool:
    """Whether a name says that one of these verbs was done: `removed` for `remove`."""
    done = {each.lower() for each in parts(name) if _DONE.search(each)}
    done -= {each.lower() for each in verbs}
    return not {*words(" ".join(done))}.isdisjoint(words(" ".join(verbs)))
