"""The sentences of an answer in plain text."""

import pytest

from planner.checks.lenient import block_in, sentences_in, whole

CODE = "```python\nfor each in pages:\n    save(each)\n```"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("One. Two is it.\n- three. four", [["One.", "Two is it."], ["- three. four"]]),
        ("一。二。", [["一。", "二。"]]),
        ("यह है। वह भी।", [["यह है।", "वह भी।"]]),
        (f"Do it so:\n{CODE}\nThat is all.", [["Do it so:"], [CODE], ["That is all."]]),
        ("```\nOne.\nTwo.\n```", [["One."], ["Two."]]),
        ("| a | b |\n|---|---|\n| c | d |", [["| a | b |"], ["|---|---|"], ["| c | d |"]]),
    ],
)
def test_sentences_blocks_and_tables(text: str, lines: list[list[str]]) -> None:
    assert sentences_in(text) == lines


def test_a_text_that_was_cut_off_ends_with_its_last_whole_sentence() -> None:
    assert whole("It is 5. The limit is") == "It is 5."
    assert whole("The limit is") == "The limit is"


def test_the_code_block_of_a_reply_is_what_was_written() -> None:
    assert block_in("Here:\n```python\nx = 1\n```\nDone.", fences=False) == "x = 1\n"
    assert block_in("```md\na\n```sh\nb\n```\nc\n```", fences=True) == "a\n```sh\nb\n```\nc\n"
    assert block_in("```md\na\n```sh\nb\n```\nc\n```\nDone.", fences=False) == (
        "a\n```sh\nb\n```\nc\n"
    )
    assert block_in("```py\na\n```\nor\n```py\nb\n```", fences=False) == "a\n"
    assert block_in("```\ncut short", fences=False) == "cut short"
    assert block_in("NOTHING", fences=False) == ""
