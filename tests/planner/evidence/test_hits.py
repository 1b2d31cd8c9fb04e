"""What a search found, in the forms in which tools say it."""

import json
from typing import Any

import pytest

from planner.evidence.context import readable
from planner.evidence.hits import Hit, of_search

RECORD = {"path": "src/a.py", "line": 3, "text": "def load():"}
FOUND = [Hit("src/a.py", 3, "def load():")]


@pytest.mark.parametrize(
    "value",
    [
        [RECORD],
        {"matches": [RECORD]},
        {"count": 1, "results": [RECORD]},
        [{"file": "./src/a.py", "lineNumber": 3, "content": "def load():", "exact": True}],
        [RECORD | {"column": 5}],
        [RECORD, {"path": "src/a.py", "line": None, "text": "x"}],
        [RECORD, {"path": "src/a.py", "from": 4, "to": 5, "text": "x"}],  # which is the line?
        [RECORD, {"path": "src/a.py", "line": 4}],
        [RECORD, {"title": "Ferry", "line": 4, "text": "It sails."}],
        [RECORD, None, "src/a.py", 3, [RECORD]],
    ],
)
def test_records_are_lines_whatever_their_fields_are_called(value: Any) -> None:
    assert of_search(json.dumps(value)) == FOUND


@pytest.mark.parametrize(
    "result",
    [
        f"The answer is too long (205,530 characters).\nMatched lines:\n{json.dumps([RECORD])}",
        "src/a.py:3:5:def load():",  # with the column
        "src/a.py:\n  3:5: def load():\n",
        "src/a.py\n  Line 3: def load():\n",
        json.dumps(
            {"results": [{"file": "src/a.py", "matches": [{"n": 3, "text": "def load():"}]}]}
        ),
    ],
)
def test_a_line_below_a_text_behind_a_column_or_within_its_file(result: str) -> None:
    assert [(each.path, each.line, each.text.strip()) for each in of_search(result)] == [*FOUND]


@pytest.mark.parametrize(
    ("result", "path", "text"),
    [
        ("app.log:12:10:15:30 started", "app.log", "10:15:30 started"),
        ("compose.yml:12:8080:80", "compose.yml", "8080:80"),
        ("app.log\n12:10-20 items", "app.log", "10-20 items"),
        ('a.py:12:x = 1\n\n{"matches": 1, "truncated": false}', "a.py", "x = 1"),
    ],
)
def test_times_ports_and_what_is_said_below_are_no_columns_and_no_hits(
    result: str, path: str, text: str
) -> None:
    assert of_search(result) == [Hit(path, 12, text)]


@pytest.mark.parametrize("line", [None, "12", 3.5, True, [1]])
def test_what_has_no_line_is_skipped(line: Any) -> None:
    value = {"a.py": [{"line": line, "text": "x"}, {"line": 7, "text": "y"}]}
    assert of_search(json.dumps(value)) == [Hit("a.py", 7, "y")]
    assert "y" in readable(json.dumps(value))


HEADED = """src/a.py
12:x: 1
13-y
--
20:z

C:\\b\\c.py
3:w
"""
COLOURED = (
    "\x1b[35m\x1b[Ka.py\x1b[m\x1b[K:\x1b[0m\x1b[32m3\x1b[0m:a \x1b[1;31mx\x1b[0m\n"
    "\x1b[0m\x1b[35mb.py\x1b[0m\n\x1b[0m\x1b[32m4\x1b[0m:y"
)
BESIDE = """a-3-b.py-11-x[1:2:3]
a-3-b.py:12:y
a-3-b.py-13-z-4-w
--
other.py-14-z
"""


@pytest.mark.parametrize(
    ("result", "hits"),
    [
        (HEADED, ["src/a.py:12:x: 1", "src/a.py:13:y", "src/a.py:20:z", "C:\\b\\c.py:3:w"]),
        (COLOURED, ["a.py:3:a x", "b.py:4:y"]),
        ("C:\\x\\a.py:12:text", ["C:\\x\\a.py:12:text"]),
        (BESIDE, ["a-3-b.py:11:x[1:2:3]", "a-3-b.py:12:y", "a-3-b.py:13:z-4-w"]),
        ("Two lines\n12:x\n", []),
        ("Found in src/a.py\n12:x\n", []),
        ("src/a.py\nNothing more.\n12:x\n", []),
    ],
)
def test_lines_are_read_as_searches_print_them(result: str, hits: list[str]) -> None:
    assert [f"{path}:{line}:{text}" for path, line, text in of_search(result)] == hits


@pytest.mark.parametrize("line", [" " * 40_000 + "x", "/" * 40_000 + "(", "-1" * 40_000])
def test_long_lines_are_passed_over(line: str) -> None:
    """In quadratic time, each takes half a minute."""
    assert of_search(f"a.py:1:x\n{line}")[0] == Hit("a.py", 1, "x")


def test_a_number_of_thousands_of_digits_is_no_line() -> None:
    assert of_search(f"a.py:{'1' * 5000}:x\na.py:2:y") == [Hit("a.py", 2, "y")]
