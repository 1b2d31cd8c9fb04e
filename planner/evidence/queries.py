"""Queries of tables in SQL: what they may do, and what is wrong with what they find."""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing

from planner.evidence.tables import FLAGS, Column, Table, Value, few, kinds, unique
from planner.evidence.words import says

Row = Mapping[str, Value]

QUERY = "query_results"
"""The planner's own tool, which runs a query."""

MAX_FOUND = 200
"""Rows that a query may find. The first ones of more would be taken for all of them."""
MAX_LENGTH = 1_000_000
"""Bytes of a text or a row in SQLite."""
MAX_STEPS = 5_000_000
"""Instructions of SQLite for one query."""
STEPS_AT_ONCE = 10_000
DECIMALS = 10
"""Of a number that is worked out."""
_FLAG = re.compile("'(true|false)'", re.IGNORECASE)
_SELECTED = re.compile(r"\bSELECT\b(.*?)(?:\bFROM\b|\Z)", re.IGNORECASE | re.DOTALL)
_TEXT = re.compile(r"'(?:[^']|'')*'")
_ALIAS = re.compile(r"(?<=[\w)'\"])\s+(?:AS\s+)?\"?(\w+)\"?\s*\Z", re.IGNORECASE)
_COLUMN = re.compile(
    r"\b[^\W\d]\w*\b(?!\s*\()|(?:\A|[(.])\s*\*|\b(?:COUNT|SUM)\s*\(\s*1?\s*\)", re.IGNORECASE
)
"""A name that is no function's, all columns, or how many rows there are."""
_ORDER = re.compile(
    r"(?P<by>\bORDER\s+BY\s+)(?P<terms>(?:[^()]|\([^()]*\))+?)(?=\s+LIMIT\b|\s*\)|\s*;?\s*\Z)",
    re.IGNORECASE,
)
_LAST = re.compile(r"\b(?:DESC|NULLS \w+)\Z", re.IGNORECASE)
_EXISTS = re.compile(r"\bEXISTS\s*\(\s*SELECT\s+1\b", re.IGNORECASE)
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION)


class QueryError(Exception):
    """A query cannot be run. Its text says why."""


def query(tables: Sequence[Table], sql: str) -> Sequence[Row]:
    """The rows that a query finds, which can only read the tables, within bounds of time and
    memory. Raises `QueryError`, also if it finds more than `MAX_FOUND` or selects a value of its
    own."""
    if any(column.type == "BOOLEAN" for each in tables for column in each.columns):
        sql = _FLAG.sub(lambda found: str(FLAGS[found[1].lower()]), sql)
    with closing(sqlite3.connect(":memory:")) as database:
        for each in tables:
            columns = ", ".join(map(_declared, each.columns))
            database.execute(f"CREATE TABLE {each.name} ({columns})")
            values = ", ".join("?" * len(each.columns))
            database.executemany(f"INSERT INTO {each.name} VALUES ({values})", each.rows)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LENGTH)
        database.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
        )
        steps = iter(range(MAX_STEPS // STEPS_AT_ONCE))
        database.set_progress_handler(lambda: next(steps, None) is None, STEPS_AT_ONCE)
        try:
            found = database.execute(sql)
            names = unique([each[0] for each in found.description or ()])
            rows = found.fetchmany(MAX_FOUND + 1)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise QueryError(str(error)) from None
    if _selects_own_value(sql):
        raise QueryError("it selects a value that is in no column")
    if len(rows) > MAX_FOUND:
        raise QueryError(f"it finds more than {MAX_FOUND} rows")
    if any(isinstance(each, bytes) for row in rows for each in row):
        raise QueryError("it finds bytes")
    return [dict(zip(names, map(_rounded, row), strict=True)) for row in rows]


def _selects_own_value(sql: str) -> bool:
    """Whether a query selects something that names no column: a text or a number of its own."""
    plain = _EXISTS.sub("EXISTS (SELECT *", _TEXT.sub("''", sql))
    selected = [
        term
        for each in _SELECTED.findall(plain)
        for term in _terms(re.sub(r"(?i)\bDISTINCT\b", "", each))
    ]
    return any(not _COLUMN.search(_ALIAS.sub("", each)) for each in selected)


def unknown_last(sql: str) -> str:
    """A query that sorts missing values last, since none of them is the smallest one."""
    return _ORDER.sub(_with_nulls_last, sql)


def _with_nulls_last(order: re.Match[str]) -> str:
    last = (each if _LAST.search(each) else f"{each} NULLS LAST" for each in _terms(order["terms"]))
    return order["by"] + ", ".join(last)


def _terms(listed: str) -> list[str]:
    """What stands between commas that are not in brackets."""
    terms, depth = [""], 0
    for sign in listed:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            terms.append("")
        else:
            terms[-1] += sign
    return [each.strip() for each in terms]


def passed_over(tables: Sequence[Table], sql: str, request: str) -> list[str]:
    """The values that a request names and a query does not, such as a state or a label."""
    told = {each for table in tables for column in table.columns for each in kinds(column)}
    plain = sql.replace("''", "'")
    return [each for each in sorted(told) if says(request, each) and not says(plain, each)]


def known_values(tables: Sequence[Table], sql: str) -> list[str]:
    """The few values of columns that a query names: `state is 'open' or 'closed'.`"""
    columns = [each for table in tables for each in table.columns if says(sql, each.name)]
    told = {each.name: few(each) for each in columns}
    return [f"{name} is {' or '.join(values)}." for name, values in told.items() if values]


def says_something(rows: Sequence[Row]) -> bool:
    """Whether rows say more than zero, which is what a condition without any row adds up to."""
    return any(value not in (None, 0, "") for row in rows for value in row.values())


def _declared(column: Column) -> str:
    case = " COLLATE NOCASE" if column.type == "TEXT" else ""
    return f"{column.name} {column.type}{case}"


def _rounded(value: Value) -> Value:
    return round(value, DECIMALS) if isinstance(value, float) else value
