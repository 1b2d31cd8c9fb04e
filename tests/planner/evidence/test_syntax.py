"""Whether a file can still be read after a change."""

import pytest

from planner.evidence.syntax import breaks


@pytest.mark.parametrize(
    ("path", "before", "after", "broken"),
    [
        ("a.py", "x = 1\n", "x = (1\n", True),
        ("a.py", "x = 1\n", "def f():\n", True),
        ("a.py", "x = 1\n", "x = 1  # :)\n", False),
        ("a.py", "print 'old'\n", "print 'new'\n", False),  # it could not be read before
        ("a.py", "x = '\\d'\n", "x = '\\w'\n", False),
        ("a.json", '{"a": 1}', '{"a": 1,}', True),
        ("a.json", '{"a": 1}', '{"a": 2}', False),
        ("a.toml", "a = 1\n", "a = \n", True),
        ("a.go", "func a() {}\n", "func a() {\n", True),
        ("a.go", "func a() {}\n", "func a() { b() }\n", False),
        ("a.md", "1) Do it\n", "1) Do it (\n2) Again\n", False),
        ("Makefile", "a: b\n", "a: $(b)\n", False),
    ],
)
def test_a_change_may_break_a_file(path: str, before: str, after: str, broken: bool) -> None:
    assert breaks(path, before, after) is broken
