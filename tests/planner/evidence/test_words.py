"""The words and names of texts in any script."""

import time

import pytest

from planner.evidence.hits import Hit
from planner.evidence.renaming import renamed
from planner.evidence.search_terms import absent, in_any_case, search_terms
from planner.evidence.words import beginning, is_name, named, quoted, tokens, words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("таймаута запросов", "таймаут запросы"),
        ("المُهلة للملفات", "المهلة ملف"),
        ("फ़ाइलें", "फ़ाइल"),
        ("ÉCOLE, GRÖSSE", "école, grösse"),
        ("gro\u0308sse", "grösse"),
        ("ＡＰＩ２", "API2"),
        ("타임아웃은", "타임아웃"),
        ("ЗаказСервис", "заказ сервис"),
    ],
)
def test_a_word_is_known_however_it_is_written(one: str, other: str) -> None:
    """Inflected, in capitals, in pieces, in full width, or as a part of a name."""
    assert {*words(other)} <= {*words(one)}


@pytest.mark.parametrize("word", ["समय", "सेकंड", "நேரம்", "שָׁלוֹם", "فایل\u200cها", "größe"])
def test_a_word_is_not_cut_at_its_marks(word: str) -> None:
    assert tokens(f"{word}, {word}") == [word, word]


@pytest.mark.parametrize(
    "text",
    [
        "RETRY_LIMIT는 7입니다",
        "ค่าRETRY_LIMITคือ7ครั้ง",
        "RETRY_LIMITは７回",
        "RETRY_LIMIT是7",
        "وRETRY_LIMIT هي 7",
        "בRETRY_LIMIT",
    ],
)
def test_a_name_may_stand_beside_a_word_in_another_script(text: str) -> None:
    assert [each for each in tokens(text) if is_name(each)] == ["RETRY_LIMIT"]


@pytest.mark.parametrize(
    ("question", "searched", "not_searched"),
    [
        ("Où est la durée à définir ?", "définir", {"à", "où"}),
        ("Какой таймаут у запроса и где он?", "таймаут", {"у", "и", "он"}),
        ("समय सीमा कहाँ है?", "समय", {"स", "म", "है"}),
        ("타임아웃은 얼마입니까?", "타임", set()),
        ("超时是多少", "超时", set()),
        ("Cổng mặc định là gì?", "định", {"là", "gì"}),
    ],
)
def test_a_word_that_stands_everywhere_is_not_searched_for(
    question: str, searched: str, not_searched: set[str]
) -> None:
    terms = search_terms(question, ["timeout"])
    assert searched in terms
    assert not not_searched & {*terms}


@pytest.mark.parametrize(
    ("term", "pattern"),
    [("a-b1", r"[Aa]\-[Bb]1"), ("größe", "[Gg][Rr][Öö]ß[Ee]"), ("да", "[Дд][Аа]"), ("缓", "缓")],
)
def test_a_term_is_searched_for_in_any_case(term: str, pattern: str) -> None:
    assert in_any_case(term) == pattern


def test_what_is_searched_for_is_never_next_to_nothing() -> None:
    assert beginning("file", "ﬁle") == "ﬁle"
    assert beginning("اعدادا", "إعدادات") == "إعدادات"


def test_a_long_token_is_read_once() -> None:
    started = time.process_time()
    assert not is_name("A" * 200_000)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("what is `depot` or 'Gate'", {"depot", "Gate"}),
        ('I get "wrong password or no key found"', set()),
        ("don't use 'two words'", set()),
        ("open() and @cached", {"open", "cached"}),
        ("请解释`depot`和函数open()", {"depot", "open"}),
        ("「depot」と“Gate”とは", {"depot", "Gate"}),
        ("où est « depot », «Gate»?", {"depot", "Gate"}),
        ("er sagt „zwei Worte“ dazu", set()),
    ],
)
def test_a_quoted_word_is_a_name_and_a_quoted_message_is_none(text: str, names: set[str]) -> None:
    assert named(text) == names


@pytest.mark.parametrize(
    ("name", "line", "nowhere"),
    [
        ("maxRetries", "max-retries: 7", False),
        ("max_retries", "maxRetries = 7", False),
        ("UserStores", "class UserStore:", False),
        ("maxRetries", "retries = 7", True),
        ("größe_prüfen", "def gro\u0308ße_pru\u0308fen():", False),
    ],
)
def test_a_name_in_another_spelling_is_there(name: str, line: str, nowhere: bool) -> None:
    question = f"What is {name}?"
    searched = search_terms(question, [])
    assert absent(question, [], searched, [Hit("a.yml", 1, line)]) == [name] * nowhere


def test_a_name_is_renamed_beside_words_in_any_script() -> None:
    text = "用load函数; وload ב-load; reload, load_all, ה-API"
    told = "用read函数; وread ב-read; reload, load_all, ה-API"
    assert renamed(text, {"load": "read"}) == told


@pytest.mark.parametrize("word", ["APIs", "KPIs", "URLs"])
def test_several_abbreviations_are_no_name(word: str) -> None:
    assert not is_name(word)


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ('Fix the typo in "cover to ms", not in `x`', ["cover to ms"]),
        ("Schreibe „alles gut“ statt « tout va bien »", ["alles gut", "tout va bien"]),
        ("the user's name and the server's port", []),
        ("把“打开 门”改掉", ["打开 门"]),
        ('an open " and no end', []),
    ],
)
def test_texts_of_several_words_in_quotation_marks(text: str, texts: list[str]) -> None:
    assert quoted(text) == texts
