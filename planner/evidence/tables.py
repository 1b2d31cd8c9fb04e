"""Results that are lists of records, as tables that SQL can query. A small model writes a query
better than it counts, adds up, or picks the largest of many (docs/experiments.md, "Lists as
tables")."""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count
from typing import Any

from planner.evidence.records import RESULTS_KEPT, records
from planner.text import flat, whole

Value = str | float | None

MAX_COLUMNS = 40
MAX_NAME_CHARS = 60
MAX_VALUES = 5
"""A column with no more different values is shown with all of them."""
MAX_VALUE_CHARS = 40
"""Characters of a value that is shown."""
MIN_KIND_CHARS = 3
"""Characters of a value that a request may name; shorter ones are like "me"."""
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.(\d+))?(?:[eE][-+]?\d{1,3})?")
_MONEY = r"[$€£¥₹₽₩₺₴]|(?:USD|EUR|GBP|CHF|JPY|CNY|INR)"
_AMOUNT = re.compile(
    rf"((?:{_MONEY}) ?|)(-?(?:[1-9]\d{{0,2}}(?:,\d{{2}})*(?:,\d{{3}})+|0|[1-9]\d{{0,14}}))(\.\d+)?"
    rf"((?: ?(?:{_MONEY}|%|°[CF]))?)"
)
"""An amount with its unit, such as `$1,200.00`, `30 €`, `12%`; `A12` is a code."""
_ADDRESS = re.compile(r"https?://")
_MISSING = ("", "-", "–", "—", "~", "?", "n/a", "null", "none", "nan")
"""What stands for no value among numbers, in lower case."""
_DATED = re.compile(r"\d{1,4}[-/.:]\d")
"""What a date or a time begins with."""
FLAGS = {"true": 1, "false": 0}


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    """TEXT, NUMERIC or BOOLEAN."""
    values: Sequence[Value]


@dataclass(frozen=True)
class Table:
    """The records of one result."""

    name: str
    columns: Sequence[Column]

    @property
    def rows(self) -> Iterator[tuple[Value, ...]]:
        return zip(*(each.values for each in self.columns), strict=True)

    @property
    def definition(self) -> str:
        """Its statement in SQL, with values of its columns, which conditions have to fit."""
        return f"CREATE TABLE {self.name} ({', '.join(map(_shown, self.columns))})"


@lru_cache(maxsize=RESULTS_KEPT)
def table(name: str, result: str) -> Table | None:
    """A tool's result as a table of this name; None if it is no list of at least three records."""
    try:
        return of_records(name, records(result))
    except (ValueError, RecursionError):  # a number of thousands of digits, deep nesting
        return None


def of_records(name: str, records: Sequence[Mapping[str, Any]]) -> Table | None:
    """Records as a table of this name; None if there are none, or too many columns."""
    rows = _flat(records)
    told = ((key, each) for row in rows for key, each in row.items())
    keys = [*dict.fromkeys(key for key, each in told if each not in (None, ""))]
    if len(keys) > MAX_COLUMNS:
        keys = [key for key in keys if _tells_apart([row.get(key) for row in rows])]
    if not 0 < len(keys) <= MAX_COLUMNS:
        return None
    names = unique([_plain(key) for key in keys])
    columns = [
        _column(name, [row.get(key) for row in rows]) for name, key in zip(names, keys, strict=True)
    ]
    own = _plain(name)
    return Table(f"_{own}" if own.lower().startswith("sqlite_") else own, columns)


def _flat(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Value]]:
    """The values of records by their names; those of an inner object one by one, under names of
    their own where these are free."""
    rows = [[*_leaves(record)] for record in records]
    paths = {(name.lower(), path) for values in rows for name, path, _ in values}
    shared = Counter(name for name, _ in paths)
    return [
        {
            (name if shared[name.lower()] == 1 else path): _scalar(each)
            for name, path, each in values
        }
        for values in rows
    ]


def _leaves(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str, Any]]:
    """The values of a record and of the objects within it, each with its name and its path."""
    for key, value in record.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{before}{key}_")
        else:
            yield str(key), f"{before}{key}", value


def _tells_apart(values: Sequence[Value]) -> bool:
    """Whether values may tell records apart: they are neither all the same nor addresses."""
    return len({*values}) > 1 and not any(map(_ADDRESS.match, map(str, values)))


def unique(names: Sequence[str]) -> list[str]:
    """Names that differ for SQL, which reads `Name` and `name` alike."""
    found: dict[str, str] = {}
    for name in names:
        tries = chain([name], (f"{name}_{number}" for number in count(2)))
        free = next(each for each in tries if each.lower() not in found)
        found[free.lower()] = free
    return [*found.values()]


def _plain(name: str) -> str:
    """A name that stands in SQL without quotation marks: `from_` for `from`, a keyword there."""
    bare = re.sub(r"\W+", "_", name)[:MAX_NAME_CHARS]
    with closing(sqlite3.connect(":memory:")) as database:
        try:
            database.execute(f"SELECT {bare} FROM (SELECT 0 AS {bare})")
        except sqlite3.Error:
            return f"{bare}_" if bare.isidentifier() else f"_{bare}"
    return bare


def _scalar(value: Any) -> Value:
    match value:
        case "null" | "~":  # in YAML
            return None
        case bool():
            return str(value).lower()
        case str() | int() | float() | None:
            return value
        case list() if not any(isinstance(each, list | dict) for each in value):
            return ", ".join(map(str, value))
        case set():  # as Python prints it, in whatever order
            return ", ".join(sorted(map(str, value)))
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)


def _column(name: str, values: Sequence[Value]) -> Column:
    """A column of numbers, or of yes and no, if all its values are so or missing; else of texts."""
    texts = [None if each is None else whole(str(each)) for each in values]
    said = [each for each in texts if each and each.strip().lower() not in _MISSING]
    if said and all(each.lower() in FLAGS for each in said):
        return Column(name, "BOOLEAN", [FLAGS.get((each or "").lower()) for each in texts])
    if said and (worth := _numbers(said)):
        return Column(name, "NUMERIC", [worth.get(each or "") for each in texts])
    if all(map(_DATED.match, said)):  # sorted, the one without a date is not the first
        texts = [each or None for each in texts]
    return Column(name, "TEXT", texts)


def _numbers(texts: Sequence[str]) -> dict[str, float]:
    """What texts are worth, if all are numbers, with the same unit or none; else empty."""
    found = [each for each in map(_NUMBER.fullmatch, texts) if each]
    if len(found) == len(texts):
        places = [each[1] or "" for each in found]
        uneven = all(places) and len({*map(len, places)}) > 1
        # `1.10` beside `1.9` is a version.
        versions = uneven and any(len(each) > 1 and each.endswith("0") for each in places)
        return {} if versions else {each: float(each) for each in texts}
    amounts = [each for each in map(_AMOUNT.fullmatch, texts) if each]
    units = {(each[1], each[4]) for each in amounts}
    thousands = any(len(each[3] or "") == 4 for each in amounts)  # 1.200 € may be one of them
    if len(amounts) < len(texts) or len(units) > 1 or thousands:
        return {}
    return {each[0]: float(each[2].replace(",", "") + (each[3] or "")) for each in amounts}


def kinds(column: Column) -> set[str]:
    """The values of a column, those of lists one by one, if some repeat and some differ."""
    values = [each for each in column.values if isinstance(each, str)]
    if len({*values}) == len(values) or {*column.values} == {*values[:1]}:
        return set()
    parts = (part.strip().lower() for value in values for part in value.split(","))
    least = {part: MIN_KIND_CHARS if part.isascii() else 2 for part in parts}
    return {part for part, chars in least.items() if chars <= len(part) <= MAX_VALUE_CHARS}


def _shown(column: Column) -> str:
    """The column with its few values, or one of many: `state TEXT /* 'open', 'closed' */`."""
    values = few(column) or _values(column)[:1]
    if column.type == "BOOLEAN" or not values:
        return f"{column.name} {column.type}"
    return f"{column.name} {column.type} /* {', '.join(values)} */"


def few(column: Column) -> list[str]:
    """All values of a column as SQL writes them, if they are few and some repeat."""
    values = _values(column)
    repeat = len(values) < len(column.values)
    return values if repeat and len(values) <= MAX_VALUES and column.type != "BOOLEAN" else []


def _values(column: Column) -> list[str]:
    """The short values of a column, each once."""
    said = dict.fromkeys(each for each in column.values if each is not None)
    short = (each for each in said if len(str(each)) <= MAX_VALUE_CHARS)
    return [_literal(each) for each in short]


def _literal(value: str | float) -> str:
    """A value as SQL writes it, on one line."""
    if isinstance(value, str):
        return "'" + flat(value).replace("'", "''") + "'"
    return f"{value:.15g}"
