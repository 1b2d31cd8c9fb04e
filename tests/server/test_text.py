"""Texts of strangers, made harmless."""

from server.text import clean, fence, one_line


def test_a_foreign_text_is_one_harmless_line_within_the_limit() -> None:
    foreign = "\x1b[31mred\x1b[0m\n\u202eand\u200b on"
    assert one_line(foreign) == "red and on"
    assert one_line("a\n" * 100_000, 5) == "a a …"


def test_nothing_in_a_text_closes_its_fence_also_after_hidden_characters_are_gone() -> None:
    fenced = fence("``\u200b``\n# not a heading\x1b[2J")
    assert fenced == "`````text\n````\n# not a heading\n`````"
    assert fenced == clean(fenced)
