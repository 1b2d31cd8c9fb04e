"""Texts on one line, cut, and counted."""

from planner.text import counted, flat, shortened


def test_a_text_is_on_one_line_with_single_blanks() -> None:
    assert flat("  one\n\ttwo  three ") == "one two three"


def test_a_cut_text_has_its_mark_within_the_limit() -> None:
    assert shortened("12345", 5) == "12345"
    assert shortened("123456", 5) == "1234…"


def test_only_one_is_singular() -> None:
    assert [counted(count, "tool") for count in (0, 1, 2)] == ["0 tools", "1 tool", "2 tools"]
