"""The sentences of an answer in plain text."""

from textwrap import indent

import pytest

from planner.checks.lenient import (
    block_in,
    completed,
    items_in,
    only,
    prose_in,
    sentences_in,
    text_of,
    whole,
)

CODE = "```python\nfor each in pages:\n    save(each)\n```"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("One. Two is it.\n- three. four", [["One.", "Two is it."], ["- three. four"]]),
        ("一。二。", [["一。", "二。"]]),
        ("यह है। वह भी।", [["यह है।", "वह भी।"]]),
        ("「一。」と二。三！？四。", [["「一。」と二。", "三！？", "四。"]]),
        ("Es kam am 12. Mai 2024. Mehr nicht.", [["Es kam am 12. Mai 2024.", "Mehr nicht."]]),
        ("Это (напр. так). Ещё.", [["Это (напр. так).", "Ещё."]]),
        (f"Do it so:\n{CODE}\nThat is all.", [["Do it so:"], [CODE], ["That is all."]]),
        ("```\nOne.\nTwo.\n```", [["One."], ["Two."]]),
        ("One.\n\n\nTwo.\n\n---\n\n", [["One."], [], ["Two."]]),
        (f"So:\n\n{CODE}\n\nDone.", [["So:"], [], [CODE], [], ["Done."]]),
        (f"1. So:\n{indent(CODE, '   ')}", [["1. So:"], [indent(CODE, "   ")]]),
        ("- One\n  goes on.\n\nTwo", [["- One\n  goes on."], [], ["Two"]]),
        ("- All others\nare not. So.\nTwo.", [["- All others\nare not. So."], ["Two."]]),
        ("It is `f(\n  a,\n)`. Two.", [["It is `f(\n  a,\n)`. Two."]]),
        ("| a | b |\n|---|---|\n| c | d |", [["| a | b |"], ["|---|---|"], ["| c | d |"]]),
    ],
)
def test_sentences_blocks_and_tables(text: str, lines: list[list[str]]) -> None:
    assert sentences_in(text) == lines


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("It has:\n- one\n2. two", ["one", "two"]),
        ("次のとおりです：\n・一\n・二", ["一", "二"]),
        ("以下是：\n1、甲\n（2）乙\n3．丙\n4.丁", ["甲", "乙", "丙", "丁"]),
        ("3.5 と 1.2", ["3.5 と 1.2"]),
        ("- `f<'j>(\n- a: 'j,\n    b,\n) -> c`\n- d", ["`f<'j>(\na: 'j,\nb,\n) -> c`", "d"]),
        ("- It`s\n- `a` and\n- `b`", ["It`s", "`a` and", "`b`"]),
        ("- **A**:\n  It is 5.\n- b\nC", ["**A**:\nIt is 5.", "b", "C"]),
        ("indent\nsort_keys\n```\n  x", ["indent", "sort_keys", "x"]),
    ],
)
def test_items_have_the_marks_of_their_language(text: str, items: list[str]) -> None:
    assert items_in(text) == items


def test_code_that_never_ends_is_read_in_the_time_of_its_lines() -> None:
    """Once, each line more doubled the time, and nothing can stop a pattern at work."""
    text = "- It begins `here\n" + "- and there is another line\n" * 40 + "```"
    assert len(items_in(text)) == 41


@pytest.mark.parametrize(
    "text", ["One. Two.\n\n- three", "一。二！三？", "यह है। वह भी।", f"So:\n{CODE}"]
)
def test_sentences_stand_as_they_did(text: str) -> None:
    assert text_of(sentences_in(text)) == text


COMMENT = """
 * Only plain objects are made mutable. All other objects are
 * considered uncopyable. So
 * they stay, as they were
 * before this call
 */"""


@pytest.mark.parametrize(
    ("sentence", "whole"),
    [
        ("- Some. All other objects are", "- Some. All other objects are considered uncopyable."),
        ("They stay, as they were", "They stay, as they were"),  # it ends nowhere
        ("All other objects are", "All other objects are considered uncopyable."),
        ("other objects are", "other objects are"),
        ("All other objects are.", "All other objects are."),
    ],
)
def test_a_sentence_that_was_copied_up_to_the_end_of_a_line_has_its_rest(
    sentence: str, whole: str
) -> None:
    assert completed(sentence, COMMENT) == whole


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"It saves.\n\nUse this code:\n\n{CODE}\n\nThat is all.", "It saves.\n\nThat is all."),
        ("It has two. They are:\n- code one\n- code two", "It has two."),
        ("They are:\n- code one\n- two", "They are:\n- two"),
        ("They are:\n- one\n- two", "They are:\n- one\n- two"),
        ("It saves:", "It saves:"),
    ],
)
def test_what_leads_to_nothing_else_is_left_out_with_it(text: str, left: str) -> None:
    told = only(
        sentences_in(text), lambda each: ("code" not in each and each != CODE) or "Use" in each
    )
    assert text_of(told) == left


def test_a_text_that_was_cut_off_ends_with_its_last_whole_sentence() -> None:
    assert whole("It is 5. The limit is", 21) == "It is 5."
    assert whole("It is 5. The limit is", 22) == "It is 5. The limit is"
    assert whole("The limits are five, si", 23) == "The limits are five"
    assert whole("limits", 6) == "limits"


@pytest.mark.parametrize(
    ("reply", "text", "block"),
    [
        ("Here:\n```python\nx = 1\n```\nDone.", "", "x = 1\n"),
        ("```md\na\n```sh\nb\n```\nc\n```", "```", "a\n```sh\nb\n```\nc\n"),
        ("```md\na\n```sh\nb\n```\nc\n```\nDone.", "", "a\n```sh\nb\n```\nc\n"),
        ("```py\na\n```\nor\n```py\nb\n```", "", "a\n"),
        (
            "This:\n```py\nb = 2\n```\nSo:\n```py\na = 1\nb = 2\n```",
            "a = 1\nb = 1",
            "a = 1\nb = 2\n",
        ),
        ("1. So:\n   ```py\n   if a:\n       b\n   ```\n2. Done.", "", "if a:\n    b\n"),
        ("```\ncut short", "", "cut short"),
        ("```\nx = 1```", "", "x = 1"),
        ("a = 1\nb = 2\nc = 3", "a = 1\nb = 1\nc = 3\n", "a = 1\nb = 2\nc = 3"),
        ("So:\na = 1\nb = 2\nc = 3", "a = 1\nb = 1\nc = 3\n", ""),
        ("NOTHING", "", ""),
    ],
)
def test_the_code_block_of_a_reply_is_what_was_written(reply: str, text: str, block: str) -> None:
    assert block_in(reply, text) == block


@pytest.mark.parametrize(
    ("reply", "prose"),
    [
        ('{"answer": "It is 5.\\nSo it is."}', "It is 5.\nSo it is."),
        ('["It is 5.", "It is 6."]', "- It is 5.\n- It is 6."),
        ('"It is 5."', "It is 5."),
        ('{"limit": 5}', '{"limit": 5}'),
        ('{"a": "x", "b": "y"}', '{"a": "x", "b": "y"}'),
        ("It is 5.", "It is 5."),
    ],
)
def test_plain_text_may_come_as_json(reply: str, prose: str) -> None:
    assert prose_in(reply) == prose
