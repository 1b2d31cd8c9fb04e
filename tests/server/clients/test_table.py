"""The page about clients says what the tests of clients saw."""

from benchmarks import clients


def test_the_page_has_the_table_of_what_was_seen() -> None:
    assert clients.PAGE.read_text("utf-8") == clients.page(), "python -m benchmarks.clients"
