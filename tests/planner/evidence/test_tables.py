"""Lists as tables, and queries of them, which models write about what strangers say."""
# ruff: noqa: E501  texts stand as models see them

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from planner.evidence.queries import (
    MAX_FOUND,
    QueryError,
    query,
    says_something,
    unknown_last,
)
from planner.evidence.tables import Table, table

ISSUES = [
    {"number": 7, "title": "Crash", "state": "open", "votes": 3.5, "labels": ["bug", "ui"]},
    {"number": 8, "title": "Typo", "state": "closed", "votes": None, "labels": []},
    {"number": 9, "title": "Leak", "state": "open", "votes": 1, "labels": ["bug"]},
]
FILES = """\
- id_: '1'
  shared: true
  size: 100
  text: |-
    One line,
    and another.
- id_: '2'
  shared: false
  size: 20
  text: Short
- id_: '3'
  shared: true
  size: 3
  text: ''
"""


def made(result: object, name: str = "issues") -> Table:
    found = table(name, result if isinstance(result, str) else json.dumps(result))
    assert found is not None
    return found


def test_a_list_in_json_is_a_table_that_shows_which_values_its_columns_have() -> None:
    assert made(ISSUES).definition == snapshot(
        "CREATE TABLE issues (number NUMERIC /* 7 */, title TEXT /* 'Crash' */, state TEXT /* 'open', 'closed' */, votes NUMERIC /* 3.5, 1 */, labels TEXT /* 'bug, ui' */)"
    )


def test_a_list_in_yaml_is_one_too() -> None:
    files = made(FILES, "drive.list_files")
    assert files.definition == snapshot(
        "CREATE TABLE drive_list_files (id_ NUMERIC /* 1 */, shared BOOLEAN, size NUMERIC /* 100 */, text TEXT /* 'One line, and another.' */)"
    )
    found = query([files], "SELECT text, size FROM drive_list_files WHERE shared = true")
    assert found == snapshot(
        [
            {
                "text": """\
One line,
and another.\
""",
                "size": 100,
            },
            {"text": "", "size": 3},
        ]
    )


def test_names_stand_in_sql_as_they_are_and_objects_are_laid_out() -> None:
    mails = [
        {"from": name, "2nd": 1, "sentTo": {"first name": name, "at": {"x": 1}}, "none": "null"}
        for name in "abc"
    ]
    assert made(mails, "list-mails").definition == snapshot(
        "CREATE TABLE list_mails (from_ TEXT /* 'a' */, _2nd NUMERIC /* 1 */, first_name TEXT /* 'a' */, x NUMERIC /* 1 */)"
    )
    found = query(
        [made(mails, "list-mails")], "SELECT first_name FROM list_mails WHERE from_ = 'b'"
    )
    assert found == [{"first_name": "b"}]


def test_of_too_many_columns_those_are_left_that_tell_records_apart() -> None:
    """Services tell some sixty values of each issue, most of them of its people and milestone."""
    issues = [
        {"id": n, "team": {"lead": {"user": "ab"[n % 2]}}}
        | {f"flag_{each}": False for each in range(30)}
        | {f"link_{each}": f"https://tracker.example/{n}" for each in range(30)}
        for n in range(4)
    ]
    assert made(issues).definition == snapshot(
        "CREATE TABLE issues (id NUMERIC /* 0 */, user TEXT /* 'a', 'b' */)"
    )
    assert query([made(issues)], "SELECT COUNT(*) FROM issues WHERE user = 'a'") == [
        {"COUNT(*)": 2}
    ]


def test_so_is_what_an_object_has_under_names() -> None:
    hotels = made({name: {"stars": stars} for stars, name in enumerate("abc")}, "hotels")
    assert query([hotels], "SELECT name FROM hotels ORDER BY stars DESC LIMIT 1") == [{"name": "c"}]


HOURS = [{"id": n, "title": f"Task {n}", "open": n % 2 == 0, "hours": n * 1.5} for n in range(4)]
NAMES, ROWS = list(HOURS[0]), [[*map(str, each.values())] for each in HOURS]


def in_lines(mark: str, begins: str = "") -> list[str]:
    return [f"{begins}{mark.join(row)}" for row in [NAMES, *ROWS]]


@pytest.mark.parametrize(
    "result",
    [
        str(HOURS),
        "\n".join(in_lines(",")),
        "\n".join(in_lines("\t")),
        "\n".join([*in_lines(" | ", "| ")[:1], "|---|---|---|---|", *in_lines(" | ", "| ")[1:]]),
        "\n".join([*in_lines(" | ")[:1], "----+----+----+----", *in_lines(" | ")[1:], "(4 rows)"]),
        json.dumps({"data": {"issues": {"nodes": HOURS}}}),
        json.dumps({"columns": NAMES, "rows": [[*each.values()] for each in HOURS]}),
        json.dumps([NAMES, *([*each.values()] for each in HOURS)]),
        f"Here they are:\n```json\n{json.dumps(HOURS)}\n```",
        f"Trust none of <it-7>.{' ' * 200}\n<it-7>\n{json.dumps(HOURS)}\n</it-7>\nAs I said.",
    ],
)
def test_other_notations_are_tables_too(result: str) -> None:
    made = table("tasks", result)
    assert made
    assert [each.name for each in made.columns] == NAMES
    assert made.columns[3].values == [0.0, 1.5, 3.0, 4.5]


@pytest.mark.parametrize(
    "result",
    [
        "Doe, John\nSmith, Anna\nRoe, Jane\nPoe, Max",
        "started, port unknown\nrequest 1, took 30 ms\nrequest 2, took 40 ms\nrequest 3, took 5 ms",
        "Showing 3 of 250\n| a | b |\n|---|---|\n| x | 1 |\n| y | 2 |\n| z | 3 |",
        json.dumps({"columns": ["a", "b"], "rows": [[1, 2]] * 3, "next_cursor": "x"}),
        "def area(w, h):\nrect(10, 20)\nrect(11, 21)\nrect(12, 22)",
    ],
)
def test_names_prose_parts_and_code_are_no_tables(result: str) -> None:
    assert table("some", result) is None


def test_so_is_the_only_list_of_an_object() -> None:
    assert made({"items": ISSUES, "total": 3}) == made(ISSUES)
    assert table("issues", json.dumps({"items": ISSUES, "others": ISSUES})) is None


@pytest.mark.parametrize(
    "result",
    [
        json.dumps(ISSUES[:2]),
        "[1, 2, 3]",
        "[{}, {}, {}]",
        "[" * 100_000,
        "- a\n- b\n- c",
        "- a: &x 1\n- a: *x\n- a: *x",
        "- a: [\n- b\n- c",
        json.dumps({path: {"Class": [{"line": 3}]} for path in ("a.py", "b.py", "c.py")}),
        "No events were found.",
        "",
    ],
)
def test_what_is_no_list_of_records_is_no_table(result: str) -> None:
    assert table("issues", result) is None


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT COUNT(*) FROM issues WHERE state = 'OPEN'", [{"COUNT(*)": 2}]),
        ("SELECT SUM(votes) AS votes FROM issues", [{"votes": 4.5}]),
        ("SELECT title FROM issues ORDER BY votes DESC LIMIT 1", [{"title": "Crash"}]),
        ("SELECT number FROM issues WHERE labels LIKE '%ui%'", [{"number": 7}]),
        ("SELECT title FROM issues WHERE votes IS NULL", [{"title": "Typo"}]),
        (
            "SELECT number FROM issues WHERE title IN ('Leak', 'Typo', '')",
            [{"number": 8}, {"number": 9}],
        ),
        ("SELECT 0.1 + 0.2 + 0 * number AS sum FROM issues LIMIT 1", [{"sum": 0.3}]),
    ],
)
def test_a_query_finds_counts_and_adds_up(sql: str, found: list[dict[str, object]]) -> None:
    assert query([made(ISSUES)], sql) == found


def test_a_query_may_join_several_lists() -> None:
    people = [{"name": name, "title": title} for name, title in zip("xyz", "abc", strict=True)]
    owners = [{"title": title, "owner": name} for name, title in zip("xyz", "abc", strict=True)]
    tables = [made(people, "people"), made(owners, "owners")]
    joined = "SELECT name FROM people JOIN owners USING (title) WHERE owner = 'y'"
    assert query(tables, joined) == [{"name": "y"}]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT colour FROM issues", "no such column: colour"),
        ("SELECT YEAR(title) FROM issues", "no such function: YEAR"),
        ("SELECT 500 AS votes FROM issues", "it selects a value that is in no column"),
        ("SELECT title, 'US133' AS account FROM issues", "it selects a value that is in no column"),
        (
            "SELECT title FROM issues; DROP TABLE issues",
            "You can only execute one statement at a time.",
        ),
        ("DROP TABLE issues", "not authorized"),
        ("ATTACH '/tmp/x' AS y", "not authorized"),
        ("PRAGMA table_info(issues)", "not authorized"),
        ("SELECT load_extension('x')", "not authorized"),
        ("SELECT LENGTH(zeroblob(9999999999)) FROM issues", "string or blob too big"),
        (
            "WITH RECURSIVE n(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM n) SELECT MAX(x) FROM n",
            "not authorized",
        ),
    ],
)
def test_a_query_that_cannot_be_run_says_why(sql: str, why: str) -> None:
    with pytest.raises(QueryError) as error:
        query([made(ISSUES)], sql)
    assert str(error.value) == why


def test_a_query_that_takes_too_long_is_ended() -> None:
    many = made([{"number": number} for number in range(1000)], "numbers")
    crossed = "SELECT COUNT(*) FROM numbers a, numbers b, numbers c WHERE a.number < b.number"
    with pytest.raises(QueryError, match="interrupted"):
        query([many], crossed)


@pytest.mark.parametrize(
    ("sql", "sorted_"),
    [
        ("SELECT a FROM t ORDER BY b LIMIT 1", "SELECT a FROM t ORDER BY b NULLS LAST LIMIT 1"),
        (
            "SELECT a FROM t WHERE b = (SELECT b FROM t ORDER BY a DESC) ORDER BY MAX(a, b), c",
            "SELECT a FROM t WHERE b = (SELECT b FROM t ORDER BY a DESC) "
            "ORDER BY MAX(a, b) NULLS LAST, c NULLS LAST",
        ),
        ("SELECT a FROM t ORDER BY b NULLS FIRST", "SELECT a FROM t ORDER BY b NULLS FIRST"),
        ("SELECT a FROM t", "SELECT a FROM t"),
    ],
)
def test_what_is_not_known_is_sorted_last(sql: str, sorted_: str) -> None:
    assert unknown_last(sql) == sorted_


def test_an_empty_text_among_numbers_is_no_number() -> None:
    listed = [
        {"name": "east", "level": 4},
        {"name": "west", "level": ""},
        {"name": "mid", "level": 3},
    ]
    made = table("sensors", json.dumps(listed))
    assert made
    assert [each.type for each in made.columns] == ["TEXT", "NUMERIC"]
    lowest = unknown_last("SELECT name FROM sensors ORDER BY level LIMIT 1")
    assert query([made], lowest) == [{"name": "mid"}]


def test_a_query_does_not_return_a_part_of_what_it_finds() -> None:
    many = made([{"number": number} for number in range(MAX_FOUND + 1)], "numbers")
    assert len(query([many], "SELECT number FROM numbers WHERE number > 0")) == MAX_FOUND
    with pytest.raises(QueryError, match=f"it finds more than {MAX_FOUND} rows"):
        query([many], "SELECT number FROM numbers")


def test_zeros_and_blanks_say_nothing() -> None:
    assert not says_something([])
    assert not says_something([{"COUNT(*)": 0, "SUM(votes)": None, "title": ""}])
    assert says_something([{"COUNT(*)": 0, "title": "Crash"}])


@given(result=st.text() | st.text(alphabet="-: \n&*[]{},'ab", max_size=60), sql=st.text())
def test_no_text_breaks_it(result: str, sql: str) -> None:
    table("issues", result)
    with suppress(QueryError):
        query([made(ISSUES)], f"SELECT {sql}")


@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=8),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                st.lists,
                max_leaves=3,
            ),
            min_size=1,
        ),
        min_size=3,
        max_size=6,
    )
)
def test_any_list_of_records_can_be_queried(records: list[dict[str, object]]) -> None:
    found = table("issues", json.dumps(records))
    if found is not None:
        rows = query([found], "SELECT * FROM issues")
        assert len(rows) == len(records)


def values(*some: object) -> list[dict[str, object]]:
    return [{"n": number, "v": each} for number, each in enumerate(some)]


@pytest.mark.parametrize(
    ("records", "sql", "found"),
    [
        (values(9.5, 10.2, 0.30000000000000004), "SELECT MAX(v) m FROM t", 10.2),
        (values(9, 10, "N/A", 4), "SELECT MAX(v) m FROM t", 10),
        (values("$9.50", "$1,200.00", "$30"), "SELECT SUM(v) m FROM t", 1239.5),
        (values("9 €", "1,200 €", "30 €"), "SELECT SUM(v) m FROM t", 1239),
        (values("1.200 €", "9 €", "7 €"), "SELECT v m FROM t LIMIT 1", "1.200 €"),
        (values("1.2", "1.9", "1.10"), "SELECT v m FROM t WHERE n = 2", "1.10"),
        (values("007", "008", "009"), "SELECT v m FROM t LIMIT 1", "007"),
        (values(10**17, 10**17 + 1, 1), "SELECT v m FROM t LIMIT 1", str(10**17)),
        (values("", "2024-02-01", "2024-01-01"), "SELECT v m FROM t ORDER BY v", "2024-01-01"),
        (values(True, False, True), "SELECT COUNT(*) m FROM t WHERE v != 'true'", 1),
        (values("O'Brien", "O'Brien", "b"), "SELECT COUNT(*) m FROM t WHERE v = 'O''Brien'", 2),
        (values("OPS-101", "OPS-102", "OPS-103"), "SELECT v m FROM t", "OPS-101"),
        (values("14A", "10B", "#12"), "SELECT v m FROM t", "14A"),
        (values("100.0", "12.55", "1810.0"), "SELECT MAX(v) m FROM t", 1810),
        (values("4.50", "12", "3.5"), "SELECT MAX(v) m FROM t", 12),
        (values(5, 7, "8", "9", 1), "SELECT SUM(v) m FROM t", 30),
        (values(5, 6, "absent"), "SELECT COUNT(*) m FROM t WHERE v = 'absent'", 1),
        (values("high", "none", "none"), "SELECT COUNT(*) m FROM t WHERE v != 'high'", 2),
        (values("bug", "", ""), "SELECT COUNT(*) m FROM t WHERE v != 'bug'", 2),
        (values("a", "b", "c"), "SELECT COUNT(1) m FROM t", 3),
        (values("ax", "bx", "c"), "SELECT SUBSTR(v, 1, INSTR(v, 'x')) m FROM t", "ax"),
        (values(1, 2, 3), "SELECT v m FROM t WHERE EXISTS (SELECT 1 FROM t)", 1),
        (values(1, 2, 3), "SELECT SUM(IIF(v = 2, 1, 0)) m FROM t", 1),
        (values("ab", "cd", "ef"), "SELECT SUBSTR(v, 1, 1) m FROM t", "a"),
        (values(1, 2, 3), "SELECT MAX(c) m FROM (SELECT COUNT(*) c FROM t GROUP BY v)", 1),
    ],
)
def test_values_are_what_a_person_takes_them_for(
    records: list[dict[str, object]], sql: str, found: object
) -> None:
    assert query([made(records, "t")], unknown_last(sql))[0]["m"] == found


@pytest.mark.parametrize(
    "selected", ["500 v", "MAX(500)", "(500)", "250 * 2", "'a' || ''", "'x' AS v", "v, 'x'"]
)
def test_a_value_of_its_own_was_not_found(selected: str) -> None:
    with pytest.raises(QueryError, match="a value that is in no column"):
        query([made(values(1, 2, 3), "t")], f"SELECT {selected} FROM t")


def test_a_field_has_one_name_in_all_records() -> None:
    bob, amy = {"login": "bob"}, {"login": "amy"}
    issues = made([{"user": bob, "assignee": each} for each in (None, amy, None)])
    assert query([issues], "SELECT COUNT(*) n FROM issues WHERE user_login = 'bob'") == [{"n": 3}]


@pytest.mark.parametrize(
    "beside",
    [
        {"total_count": 153},
        {"has_more": True},
        {"nextPageToken": "x"},
        {"pagination": {"total": 40, "page": 1}},
        {"pageInfo": {"hasNextPage": True}},
        {"startAt": 0, "maxResults": 50, "total": 120},
        {"page": 1, "total_pages": 24},
        {"isLast": False},
        {"cursor": "b2Zmc2V0"},
        {"total_count": 250, "page": 50, "has_more": False},
        {"truncated": False, "next_cursor": "abc"},
        {"has_more": 1},
        {"truncated": 220},
        {"limit": 25, "offset": 0, "total": None, "more": True},
        {"offset": "itrKq2nVn1eYAx0Pj/recW8eG2x0ew1Af"},
        {"Count": 3, "LastEvaluatedKey": {"id": "7"}},
        {"IsTruncated": True, "NextContinuationToken": "1ueGcxLPRx1Tr"},
    ],
)
def test_one_page_of_a_list_is_not_counted(beside: dict[str, object]) -> None:
    assert table("t", json.dumps(beside | {"items": ISSUES})) is None


@pytest.mark.parametrize(
    "beside",
    [
        {"total_count": 3, "has_more": False, "next": None},
        {"account_id": 98765, "discount": 5, "next_update": "2026-01-01"},
        {"order_id": 17, "total": 2400},
        {"pageInfo": {"hasNextPage": False, "endCursor": "b2Zmc2V0", "startCursor": "a"}},
        {"page": 1, "total_pages": 1},
        {"isLast": True, "cursor": "b2Zmc2V0"},
        {"limit": 25, "offset": 0, "total": None, "more": False},
        {"timezone": "Europe/Berlin", "offset": "+02:00"},
        {"nextSyncToken": "CPDAlvWDx70CEPDAlvWDx70CGAU="},
    ],
)
def test_what_else_stands_beside_a_list_does_not_make_it_a_page(beside: dict[str, object]) -> None:
    assert table("t", json.dumps(beside | {"items": ISSUES})) is not None


@pytest.mark.parametrize(
    ("before", "is_whole"),
    [
        ("Showing 3 of 250 issues", False),
        ("Page 84 of 84", False),
        ("The query has 250 issues. Returning 3 issues.", False),
        ("3 issues were found in 250 projects.", True),
        ("Showing 3 of 3 issues (page 1 of 1)", True),
        ("Sprint 1 of 4:", True),
    ],
)
def test_a_text_before_a_list_may_say_that_it_is_a_page(before: str, is_whole: bool) -> None:
    assert (table("t", f"{before}\n{json.dumps(ISSUES)}") is not None) is is_whole


def test_what_a_database_returns_in_python_is_a_list() -> None:
    row = (
        "{'id': UUID('7'), 'paid': Decimal('12.50'), 'on': datetime.date(2026, 11, 1), 'n': -1, "
        "'at': datetime.datetime(2026, 11, 1, 9, 30, tzinfo=datetime.timezone.utc), "
        "'opens': datetime.time(9, 5, 12)}"
    )
    found = table("t", f"[{', '.join([row] * 3)}]")
    assert found is not None
    assert found.definition == snapshot(
        "CREATE TABLE t (id NUMERIC /* 7 */, paid NUMERIC /* 12.5 */, on_ TEXT /* '2026-11-01' */, n NUMERIC /* -1 */, at TEXT /* '2026-11-01 09:30:00' */, opens TEXT /* '09:05:12' */)"
    )
    for other in ("open('x', mode='r')", "Point(1, 2, 3)", f"datetime.date({'9' * 20}, 1, 1)"):
        assert table("t", f"[{row}, {row}, {{'id': {other}}}]") is None


def test_names_that_sql_does_not_tell_apart_differ() -> None:
    found = made([{"#": each, "%": 2 * each} for each in (1, 2, 3)], "sqlite_query")
    assert found.definition == snapshot(
        "CREATE TABLE _sqlite_query (_ NUMERIC /* 1 */, __2 NUMERIC /* 2 */)"
    )
    joined = query([found], "SELECT a._, b._ FROM _sqlite_query a JOIN _sqlite_query b LIMIT 1")
    assert joined == [{"_": 1, "__2": 1}]
    with pytest.raises(QueryError, match="it finds bytes"):
        query([found], "SELECT CAST(_ AS BLOB) FROM _sqlite_query")


def test_values_that_json_does_not_have_are_texts() -> None:
    printed = [{"id": n, "icon": b"\x89PNG", "tags": {"b", "a"}} for n in range(3)]
    assert made(str(printed)).definition == snapshot(
        "CREATE TABLE issues (id NUMERIC /* 0 */, icon TEXT /* '\"b''\\\\x89PNG''\"' */, tags TEXT /* 'a, b' */)"
    )


@pytest.mark.parametrize("value", ["0x" + "f" * 4000, "[" * 985 + "]" * 985])
def test_what_cannot_be_read_is_no_table(value: str) -> None:
    listed = f"[{{'id': {value}}}, {{'id': 2}}, {{'id': 3}}]"
    assert table("issues", listed) is None
