"""The records of a list that a tool returns, whatever it writes them in."""

import ast
import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from functools import lru_cache, reduce
from typing import Any

import yaml

RESULTS_KEPT = 64
"""How many results stay prepared: each decision needs them again."""
MIN_ROWS = 3
"""Fewer are read at a glance."""
MAX_YAML_CHARS = 200_000
"""A longer text takes its parser seconds."""
MAX_ROWS = 5000
"""A longer list is not made a table."""
MAX_DEPTH = 4
"""Objects around a list."""
MAX_BESIDE_CHARS = 200
"""Characters around a list in a fence, or beside the lines of a table."""
MAX_CELL_CHARS = 60
"""Characters of the name of a column."""
_DECODER = json.JSONDecoder()
_JSON = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
_SPACE = re.compile(r"\s*")
_YAML_RECORD = re.compile(r"- [^\s:]+:(?: |\n)")
_UNFIT = (
    *(ValueError, SyntaxError, TypeError, ArithmeticError, MemoryError, RecursionError),
    csv.Error,
)
"""What readers raise for a text in another notation."""
_FENCE = re.compile(r"```\w*\n(.*?)\n?```", re.DOTALL)
BOXED = re.compile(r"^<([\w-]+)>\n(?P<told>[\[{].*)\n</\1>$", re.MULTILINE)
"""JSON on a line between tags: some servers return what strangers wrote so, with warnings."""
_PART = re.compile(r"(?i)(\bpage )?\b(\d{1,9}) (?:of|/) (\d{1,9})\b")
"""What says that a list is a part of one: "3 of 250", "page 2 of 2"."""
_COUNTED = re.compile(r"\b(\d{1,9}) ([^\W\d]\w*)")
"""How many of what: "250 documents"."""
_RULE = re.compile(r"[\s|:+-]+")
"""The line between the names and the rows of a table."""
_REST = re.compile(
    r"(?i)(?:^|[_.@])next(?:_?(?:page|link|cursor|token|url|offset).*)?$"
    r"|next_?(?:page|link|cursor|token)|continuation_?token$|^last_?evaluated_?key$"
    r"|(?<!start)(?<!start_)(?<!before)(?<!before_)cursor$"
)
_MORE = re.compile(r"(?i)has_?(?:more|next)")
_CUT = re.compile(r"(?i)^(?:(?:is_?)?truncated|more)$")
_CURSOR = re.compile(r"(?!\d+\Z)\w{8}")
"""The beginning of a place in a list where it is no number, nor `+02:00`."""
_LAST = re.compile(r"(?i)^is_?last(?:_?page)?$")
PAGES = re.compile(r"(?i)^(?:(?:total|num|last)_?pages?|pages|page_?count)$")
_TOTAL = re.compile(
    r"(?i)^(?:count|(?:total|num)_?(?:count|items|results|hits|records|entries|elements))$"
)
_PAGE = re.compile(
    r"(?i)^(?:page|limit|offset|skip|per_?page|page_?(?:size|number|index)|pagination|start_?at"
    r"|max_?results)$"
)
"""How services say that a list goes on, how long all of it is, and which part it is."""
_FURTHER = re.compile(
    r"(?i)cursor$|page_?token$|^starting_?after$"
    r"|^(?:page|offset|skip|page_?(?:number|index)|start_?(?:at|index))$"
)
"""The names by which they are asked for another part than the first."""


class _WithoutAliases(yaml.BaseLoader):
    """Reads YAML as texts. Aliases are refused: they make a small text as large as one likes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has an alias")
        return super().compose_node(parent, index)


def records(result: str) -> Sequence[Mapping[str, Any]]:
    """The records of a list: of the only list within objects, of an object that has each under its
    name, of values one below the other, or of a table with names in its first row."""
    value = value_of(result)
    for _ in range(MAX_DEPTH):
        if not isinstance(value, dict):
            break
        if rows := _with_names(value):
            value = [] if is_page(value, rows) else rows
            break
        inner = [each for each in value.values() if isinstance(each, list | dict) and each]
        lists = [each for each in inner if isinstance(each, list)]
        if len(lists) == 1 and is_page(value, lists[0]):
            return []
        by_name = all(isinstance(each, dict) for each in value.values()) and _common(value.values())
        named = [{"name": name} | each for name, each in value.items()] if by_name else None
        alone = inner[0] if len(inner) == len(value) == 1 else None
        value = lists[0] if len(lists) == 1 else named if by_name and len(value) > 1 else alone
    listed: Sequence[Any] = value if isinstance(value, list) else []
    if listed and all(isinstance(each, list) for each in listed):
        listed = _rows(listed) if _has_names(listed) else []
    fits = MIN_ROWS <= len(listed) <= MAX_ROWS and all(isinstance(each, dict) for each in listed)
    begins = _JSON.search(result)
    before = result[: begins.start()] if begins else result
    return listed if fits and not _is_part(before, len(listed)) else []


@lru_cache(maxsize=RESULTS_KEPT)
def value_of(result: str) -> Any:
    """What a result says, by the first notation that it fits; None where it fits none. All who ask
    share the value, and change nothing in it."""
    texts = [result, *_FENCE.findall(result)]
    if len(texts) != 2 or len(result) - len(texts[1]) > MAX_BESIDE_CHARS:
        texts = texts[:1]
    if box := BOXED.search(result):
        texts = [box["told"]]
    for text in texts:
        for read in (_in_json, _in_python, _in_yaml, _in_lines):
            with suppress(*_UNFIT):
                return read(text)
    return None


def only_list(value: Any) -> Sequence[Any]:
    """A list, or the only one within objects."""
    around, name = list_within(value)
    return value if isinstance(value, list) else around.get(name, [])


def list_within(value: Any) -> tuple[Mapping[str, Any], str]:
    """The object around the only list within objects, and the list's name there; an empty object
    where there is none."""
    for _ in range(MAX_DEPTH):
        if not isinstance(value, dict):
            break
        inner = {name: each for name, each in value.items() if isinstance(each, list | dict)}
        lists = [name for name, each in inner.items() if isinstance(each, list) and each]
        if len(lists) == 1:
            return value, lists[0]
        objects = [each for each in inner.values() if each]
        value = objects[0] if len(objects) == 1 else None
    return {}, ""


def beside(around: Mapping[str, Any]) -> dict[str, Any]:
    """What stands beside a list, and in objects beside it."""
    within = [each for each in around.values() if isinstance(each, dict)]
    return {str(name): each for some in (*within, around) for name, each in some.items()}


def is_page(value: Mapping[str, Any], listed: Sequence[Any]) -> bool:
    """Whether a list is a part of one: what stands beside it says that there is more."""
    told = beside(value)
    more = [_is_true(each) for name, each in told.items() if _MORE.search(name)]
    cut = any(_is_true(each) for name, each in told.items() if _CUT.search(name))
    last = [_is_true(each) for name, each in told.items() if _LAST.search(name)]
    ends = more == [False] or last == [True]  # the last page may have a cursor too
    goes_on = not ends and any(goes_on_at(*each) for each in told.items())
    paged = any(map(_PAGE.search, told))
    longer = {name for name, each in told.items() if type(each) is int and each > len(listed)}
    several = (type(each) is int and each > 1 and PAGES.search(n) for n, each in told.items())
    return (
        (True in more or False in last or cut or goes_on)
        or any(_TOTAL.search(name) or (paged and name.lower() == "total") for name in longer)
        or (paged and any(several))
    )


def goes_on_at(name: str, value: Any) -> bool:
    """Whether a value of this name beside a list is the place where it goes on."""
    place = name == "offset" and _CURSOR.match(str(value))
    return bool(value) and bool(_REST.search(name) or place)


def tells_of_whole(name: str) -> bool:
    """Whether a value of this name beside a list tells how it goes on, or how long all of it is."""
    return any(each.search(name) for each in (_REST, _MORE, _CUT, _LAST, PAGES, _TOTAL))


def is_further(arguments: Mapping[str, Any]) -> bool:
    """Whether a call asks for another part than the first: the last page may not say so."""
    named = (str(each or "") for name, each in arguments.items() if _FURTHER.search(name))
    return any(each not in ("", "0", "1") for each in named)


def _is_true(value: Any) -> bool:
    """Whether a flag is set, as services write it."""
    return str(value).lower() not in ("false", "0", "no", "none", "")


def _is_part(text: str, length: int) -> bool:
    """Whether what stands beside a list of this length says that it is a part of one."""
    told = [(page, int(part), int(whole)) for page, part, whole in _PART.findall(text)]
    counted = [(int(number), of_what) for number, of_what in _COUNTED.findall(text)]
    listed = {of_what for number, of_what in counted if number == length}
    return any(whole > 1 if page else part == length < whole for page, part, whole in told) or any(
        number > length and of_what in listed for number, of_what in counted
    )


def _common(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """The names under which all records have a plain value. Groups have none."""
    plain = (
        {name for name, each in record.items() if not isinstance(each, list | dict)}
        for record in records
    )
    return reduce(set.intersection, plain, next(plain, set()))


def _in_json(result: str) -> Any:
    """The value that a result ends with, or all of several. Raises `ValueError` for another end."""
    begins = _JSON.search(result)
    place = begins.end() if begins else 0
    values = []
    while place < len(result):
        value, place = _DECODER.raw_decode(result, place)
        values.append(value)
        place = _SPACE.match(result, place).end()  # type: ignore[union-attr]  # it always matches
    return values[0] if len(values) == 1 else values


def _in_python(text: str) -> Any:
    """As Python prints it, which servers in Python return."""
    if len(text) > MAX_YAML_CHARS or not text.lstrip().startswith(("[", "{")):
        raise ValueError("no list")
    return ast.literal_eval(_Plain().visit(ast.parse(text.strip(), mode="eval")))


class _Plain(ast.NodeTransformer):
    """Values that Python prints as calls: `Decimal('12.50')` as its text,
    `datetime.date(2026, 11, 1)` as 2026-11-01."""

    def visit_Call(self, node: ast.Call) -> ast.Constant:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        given = [ast.literal_eval(each) for each in node.args]
        if any(each.arg != "tzinfo" for each in node.keywords):
            raise ValueError("no plain value")
        if name in _MOMENTS:
            return ast.Constant(str(_MOMENTS[name](*given)))
        [alone] = given
        return ast.Constant(alone)


_MOMENTS: Mapping[str, Callable[..., Any]] = {"date": date, "datetime": datetime, "time": time}


def _in_yaml(text: str) -> Any:
    if len(text) > MAX_YAML_CHARS or not _YAML_RECORD.match(text):
        raise ValueError("no list of records")
    try:
        return yaml.load(text, _WithoutAliases)
    except yaml.YAMLError as error:
        raise ValueError("no YAML") from error


def _in_lines(text: str) -> Sequence[Mapping[str, Any]]:
    """The rows of lines that all have as many cells: of Markdown, of `psql`, of CSV or TSV."""
    lines = [line for line in text.splitlines() if line.strip()]
    rules = [n for n, line in enumerate(lines) if "-" in line and _RULE.fullmatch(line)]
    barred = [n for n, line in enumerate(lines) if "|" in line or n in rules]
    beside = sum(len(line) for n, line in enumerate(lines) if n not in barred)
    if len(rules) == 1 and barred == [*range(rules[0] - 1, rules[0] + len(barred) - 1)]:
        rows = [lines[n].strip().strip("|") for n in barred if n not in rules]
        cells = _cells(rows, "|")
        if cells and beside <= MAX_BESIDE_CHARS:
            return _rows(cells)
    for mark in ("\t", ";", ","):
        cells = _cells(lines, mark)
        if cells and _has_names(cells):
            return _rows(cells)
    raise ValueError("no table")


def _cells(lines: Sequence[str], mark: str) -> Sequence[Sequence[str]]:
    """The cells of lines that all have as many; none of prose, which has a blank behind marks."""
    raw = [*csv.reader(lines, delimiter=mark)]
    as_many = len(raw) > MIN_ROWS and len({*map(len, raw)}) == 1 and len(raw[0]) > 1
    prose = mark in ",;" and all(each[:1] == " " for row in raw for each in row[1:])
    return [[each.strip() for each in row] for row in raw] if as_many and not prose else []


def _has_names(table: Sequence[Sequence[Any]]) -> bool:
    """Whether the first row has names, and no values: a column has numbers below one without."""
    names, *rows = table
    return any(
        not re.search(r"\d", str(name)) and all(re.search(r"\d", str(each)) for each in below)
        for name, *below in zip(names, *rows, strict=False)
    )


def _with_names(value: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The rows of an object that has the names of the columns beside them."""
    lists = [each for each in value.values() if isinstance(each, list) and each]
    names = [each for each in lists if all(isinstance(name, str) for name in each)]
    rows = [each for each in lists if all(isinstance(row, list) for row in each)]
    return _rows([names[0], *rows[0]]) if len(names) == len(rows) == 1 else []


def _rows(table: Sequence[Sequence[Any]]) -> Sequence[Mapping[str, Any]]:
    """Rows as records, by the names in the first of them; empty if these are no names."""
    names, *rows = table
    said = all(isinstance(each, str) and 0 < len(each) <= MAX_CELL_CHARS for each in names)
    plain = said and len({*names}) == len(names) and not any(map(str.isdigit, names))
    return [dict(zip(names, row, strict=False)) for row in rows] if plain else []
