"""Whether a text is in the language of the prompts."""

import pytest

from planner.prompts.language import is_other, is_own


@pytest.mark.parametrize(
    ("request_", "search", "other"),
    [
        ("Welche Klasse liest die Rechnungen?", ["invoice", "read", "class"], True),
        ("¿Qué hace skip_dir?", ["skip_dir"], True),
        ("quelle est la limite par défaut du timeout ?", ["timeout", "limit", "default"], True),
        ("缓存什么时候被清空？", ["cache", "clear"], True),
        ("Когда очищается кэш?", ["cache", "clear"], True),
        ("url ohne schema -> welcher fehler?", ["url", "schema", "error"], True),
        ("What does skip_dir do?", ["skip_dir"], False),
        ("max header size in bytes?", ["max", "header", "size", "bytes", "limit"], False),
        ("minimum tls version?", ["minimum", "tls", "version"], False),
        ("default max_connections?", ["max_connections", "default"], False),
        ("MAX_RETRIES?", ["MAX_RETRIES"], False),
        ("", [], False),
    ],
)
def test_a_request_in_another_language_shares_few_words_with_the_prompts(
    request_: str, search: list[str], other: bool
) -> None:
    assert is_other(request_, search) is other


@pytest.mark.parametrize(
    ("answer", "own"),
    [
        ("The default timeout is 30 seconds.", True),
        ("`Gate.open` returns the width of the gate.", True),
        ("Die Voreinstellung ist 30 Sekunden.", False),
        ("El valor es 30 segundos.", False),
        ("`MAX_RETRIES` = 4", False),
        ("30 s", False),
    ],
)
def test_an_answer_in_the_language_of_the_prompts_shares_many(answer: str, own: bool) -> None:
    assert is_own(answer) is own
