"""Results that are lists of records, as tables that SQL can query. A small model writes a query
better than it counts, adds up, or picks the largest of many (docs/experiments.md, "Lists as
tables").
"""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import yaml

from planner.evidence.context import RESULTS_KEPT
from planner.evidence.words import says
from planner.text import whole

Value = str | float | None
Row = Mapping[str, Value]

QUERY = "query_results"
"""The planner's own tool, which runs a query."""

MIN_ROWS = 3
"""Fewer are read at a glance."""
MAX_YAML_CHARS = 200_000
"""A longer text takes its parser seconds."""
MAX_ROWS = 5000
"""A longer list is not made a table."""
MAX_COLUMNS = 40
MAX_NAME_CHARS = 60
MAX_VALUES = 5
"""A column with so many different values, or fewer, is shown with all of them."""
MAX_VALUE_CHARS = 40
"""Characters of a value that is shown."""
MIN_KIND_CHARS = 3
"""Characters of a value that a request may name; shorter ones are like "me"."""
MAX_FOUND = 200
"""Rows that a query may find. The first ones of more would be taken for all of them."""
MAX_LENGTH = 1_000_000
"""Bytes of a text or a row in SQLite."""
MAX_STEPS = 5_000_000
"""Instructions of SQLite for one query."""
STEPS_AT_ONCE = 10_000
DECIMALS = 10
"""Of a number that is worked out."""
_DECODER = json.JSONDecoder()
_JSON = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
_SPACE = re.compile(r"\s*")
_YAML_RECORD = re.compile(r"- [^\s:]+:(?: |\n)")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,10})?")
_FLAGS = {"true": 1, "false": 0}
_SELECTED = re.compile(r"\bSELECT\b(.*?)(?:\bFROM\b|\Z)", re.IGNORECASE | re.DOTALL)
_OWN_VALUE = re.compile(r"(?:\A|,)\s*(?:'[^']*'|-?\d[\d.]*)\s*(?:,|\bAS\b|\Z)", re.IGNORECASE)
"""A text or a number for itself in what is selected."""
_ORDER = re.compile(
    r"(?P<by>\bORDER\s+BY\s+)(?P<terms>(?:[^()]|\([^()]*\))+?)(?=\s+LIMIT\b|\s*\)|\s*;?\s*\Z)",
    re.IGNORECASE,
)
_LAST = re.compile(r"\b(?:DESC|NULLS \w+)\Z", re.IGNORECASE)
_COMMA = re.compile(r",(?![^(]*\))")
"""One that is not in brackets."""
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION)


class QueryError(Exception):
    """A query cannot be run. Its text says why."""


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
        """Its statement in SQL, with values of its columns: a condition has to fit them."""
        return f"CREATE TABLE {self.name} ({', '.join(map(_shown, self.columns))})"


class _WithoutAliases(yaml.BaseLoader):
    """Reads YAML as texts. Aliases are refused: they make a small text as large as one likes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has an alias")
        return super().compose_node(parent, index)


@lru_cache(maxsize=RESULTS_KEPT)
def table(name: str, result: str) -> Table | None:
    """A tool's result as a table of this name; None if it is no list of at least three records."""
    rows = [_flat(each) for each in _records(result)]
    told = ((key, each) for row in rows for key, each in row.items())
    keys = dict.fromkeys(key for key, each in told if each not in (None, ""))
    if not 0 < len(keys) <= MAX_COLUMNS:
        return None
    plain = {key: _plain(key) for key in keys}
    names = {plain[key].lower(): key for key in keys}  # as SQL reads them
    columns = [_column(plain[key], [row.get(key) for row in rows]) for key in names.values()]
    return Table(_plain(name), columns)


def query(tables: Sequence[Table], sql: str) -> Sequence[Row]:
    """The rows that a query finds. It can only read the tables, within bounds of time and memory.
    Raises `QueryError`, also if it finds more than `MAX_FOUND`, or selects a value of its own: that
    was not found."""
    if any(map(_OWN_VALUE.search, _SELECTED.findall(sql))):
        raise QueryError("it selects a value that is in no column")
    with closing(sqlite3.connect(":memory:")) as database:
        for each in tables:
            columns = ", ".join(map(_declared, each.columns))
            database.execute(f"CREATE TABLE {each.name} ({columns})")
            values = ", ".join("?" * len(each.columns))
            database.executemany(f"INSERT INTO {each.name} VALUES ({values})", each.rows)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LENGTH)
        database.set_authorizer(_only_reads)
        steps = iter(range(MAX_STEPS // STEPS_AT_ONCE))
        database.set_progress_handler(lambda: next(steps, None) is None, STEPS_AT_ONCE)
        try:
            found = database.execute(sql)
            names = [each[0] for each in found.description or ()]
            rows = found.fetchmany(MAX_FOUND + 1)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise QueryError(str(error)) from None
    if len(rows) > MAX_FOUND:
        raise QueryError(f"it finds more than {MAX_FOUND} rows")
    return [dict(zip(names, map(_rounded, row), strict=True)) for row in rows]


def unknown_last(sql: str) -> str:
    """A query that sorts missing values last. SQLite sorts them first, and the record with the
    smallest value is not the one that has none."""
    return _ORDER.sub(_with_nulls_last, sql)


def _with_nulls_last(order: re.Match[str]) -> str:
    terms = (each.strip() for each in _COMMA.split(order["terms"]))
    last = (each if _LAST.search(each) else f"{each} NULLS LAST" for each in terms)
    return order["by"] + ", ".join(last)


def passed_over(tables: Sequence[Table], sql: str, request: str) -> list[str]:
    """The values that a request names and a query does not: those of columns whose values repeat,
    such as a state or a label."""
    told = {each for table in tables for column in table.columns for each in _kinds(column)}
    return [each for each in sorted(told) if says(request, each) and not says(sql, each)]


def known_values(tables: Sequence[Table], sql: str) -> list[str]:
    """The values of the columns that a query names, where these are few: `state is 'open' or
    'closed'.`"""
    columns = [each for table in tables for each in table.columns if says(sql, each.name)]
    few = {each.name: _few(each) for each in columns}
    return [f"{name} is {' or '.join(values)}." for name, values in few.items() if values]


def says_something(rows: Sequence[Row]) -> bool:
    """Whether rows say more than zero: a condition that fits no row counts and adds up to that."""
    return any(value not in (None, 0, "") for row in rows for value in row.values())


def _records(result: str) -> Sequence[Mapping[str, Any]]:
    """The records of a list in JSON or YAML, of the only list in an object, or of an object that
    has each of them under its name. JSON may stand below a text, and records one below the
    other."""
    try:
        value = _in_json(result)
    except (ValueError, RecursionError):
        if len(result) > MAX_YAML_CHARS or not _YAML_RECORD.match(result):
            return []
        try:
            value = yaml.load(result, _WithoutAliases)
        except (yaml.YAMLError, RecursionError):
            return []
    if isinstance(value, dict):
        lists = [each for each in value.values() if isinstance(each, list) and each]
        by_name = all(isinstance(each, dict) for each in value.values()) and _common(value.values())
        named = [{"name": name} | each for name, each in value.items()] if by_name else None
        value = lists[0] if len(lists) == 1 else named
    listed = value if isinstance(value, list) else []
    fits = MIN_ROWS <= len(listed) <= MAX_ROWS and all(isinstance(each, dict) for each in listed)
    return listed if fits else []


def _common(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """The names under which all records have a plain value. Groups have none."""
    plain = (
        {name for name, each in record.items() if not isinstance(each, list | dict)}
        for record in records
    )
    return reduce(set.intersection, plain, next(plain, set()))


def _in_json(result: str) -> Any:
    """The value that a result ends with, from the first line on that may begin one, or all of them
    if there are several. Raises `ValueError` if something else is left."""
    begins = _JSON.search(result)
    place = begins.end() if begins else 0
    values = []
    while place < len(result):
        value, place = _DECODER.raw_decode(result, place)
        values.append(value)
        place = _SPACE.match(result, place).end()  # type: ignore[union-attr]  # it always matches
    return values[0] if len(values) == 1 else values


def _flat(record: Mapping[str, Any]) -> dict[str, Value]:
    """The values of a record by their names; those of an object within it one by one, under their
    own names where no other value has it."""
    values: list[tuple[str, str, Any]] = []
    for key, value in record.items():
        within = value if isinstance(value, dict) else {}
        values += [(str(name), f"{key}_{name}", each) for name, each in within.items()]
        values += [] if within else [(str(key), str(key), value)]
    count = Counter(name.lower() for name, _, _ in values)
    return {
        (name if count[name.lower()] == 1 else path): _scalar(value) for name, path, value in values
    }


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
        case _:
            return json.dumps(value, ensure_ascii=False)


def _column(name: str, values: Sequence[Value]) -> Column:
    """A column of numbers, or of yes and no, if all of its values that are not empty are; of texts
    otherwise."""
    texts = [None if each is None else whole(str(each)) for each in values]
    said = [each for each in texts if each]
    if said and all(each.lower() in _FLAGS for each in said):
        flags = [_FLAGS[each.lower()] if each else None for each in texts]
        return Column(name, "BOOLEAN", flags)
    if said and all(map(_NUMBER.fullmatch, said)):
        return Column(name, "NUMERIC", [float(each) if each else None for each in texts])
    return Column(name, "TEXT", texts)


def _declared(column: Column) -> str:
    case = " COLLATE NOCASE" if column.type == "TEXT" else ""
    return f"{column.name} {column.type}{case}"


def _kinds(column: Column) -> set[str]:
    """The values of a column, one by one where they are lists, if some of them repeat."""
    values = [each for each in column.values if isinstance(each, str)]
    if len({*values}) == len(values):
        return set()
    parts = (part.strip().lower() for value in values for part in value.split(","))
    return {part for part in parts if MIN_KIND_CHARS <= len(part) <= MAX_VALUE_CHARS}


def _shown(column: Column) -> str:
    """The column with its values if there are few, or with one of them: `state TEXT /* 'open',
    'closed' */`."""
    values = _few(column) or _values(column)[:1]
    if column.type == "BOOLEAN" or not values:
        return f"{column.name} {column.type}"
    return f"{column.name} {column.type} /* {', '.join(values)} */"


def _few(column: Column) -> list[str]:
    """All values of a column as SQL writes them, if they are few and some repeat."""
    values = _values(column)
    few = len(values) <= MAX_VALUES and len(values) < len(column.values)
    return values if few and column.type != "BOOLEAN" else []


def _values(column: Column) -> list[str]:
    """The short values of a column, each once."""
    said = dict.fromkeys(each for each in column.values if each is not None)
    short = (each for each in said if len(str(each)) <= MAX_VALUE_CHARS)
    return [repr(each) if isinstance(each, str) else f"{each:g}" for each in short]


def _rounded(value: Value) -> Value:
    return round(value, DECIMALS) if isinstance(value, float) else value


def _only_reads(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
