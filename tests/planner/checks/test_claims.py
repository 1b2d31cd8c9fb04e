"""What an answer claims, and whether two readings of the same results say the same."""

import pytest
from recorded import state_with

from planner.checks.agreement import agree
from planner.checks.citations import supporting, unproved
from planner.checks.claims import claims, holds, name_in, only_repeats
from planner.checks.grounding import unsupported
from planner.events import PassagesGathered
from planner.passage import Passage
from planner.state import Iteration, RunState
from planner.tools import Outcome


@pytest.mark.parametrize(
    ("first", "second_", "same"),
    [
        ("Nadia likes peanuts.", "Nadia Petrov likes peanuts.", True),
        ("Nadia likes peanuts.", "Nadia Petrov likes tea.", False),
        ("Nadia Berg likes peanuts.", "Nadia Petrov likes peanuts.", False),
        ("Nadia Petrov does not like it.", "Nadia likes it.", False),
    ],
)
def test_a_name_of_the_request_may_be_said_as_a_whole(first: str, second_: str, same: bool) -> None:
    assert agree(first, second_, "What does Nadia like?") is same
    assert agree(second_, first, "What does Nadia like?") is same


@pytest.mark.parametrize(
    ("first", "second_", "same"),
    [
        ("It is 11340 grams.", "11,340", True),
        ("You spent $11,340.", "11340.00", True),
        ("It is version 2.0.1.", "2.0", False),
        ("The string is 'px-71'", "px-71", True),
        ("It is MAJOIST_MARGIN, 6010.", "MAJOIST_MARGIN = 6010", True),
        ("src/depot/gate.py", "In depot/gate.py at line 4", True),
        ("1607 seconds", "7662", False),
        ("It is 0.085.", "It is 0.5.", False),
        ("depot/gate.py", "README.md", False),
        ("Yes", "yes, it does", True),
        ("Blue", "Red", False),
        ("It is on.", "It is not on.", False),
        ("The cache is used if pages are set.", "The cache is not used if pages are set.", False),
        ("Es ist immer aktiv, wenn man es startet.", "Es ist aktiv, wenn man es startet.", False),
        ("Yes, enabled by default", "Yes, it is enabled by default.", True),
        (
            "The worker sends the request to the server",
            "The worker sends request to the server",
            True,
        ),
        ("It is held while writing a file to disk", "It is held while writing file to disk", True),
        ("It is used for pages.", "It is used for pages that are large.", True),
        ("The Blue Hall", "It takes place at the Blue Hall.", True),
        ("The Blue Hall", "It takes place at the Blue Tower.", False),
        ("The Blue Hall", "At 19:00, at the Blue Hall of 1902.", True),
        ("Harlan", "The pump was repaired by Harlan.", True),
        ("Harlan", "The pump was repaired by Harlander.", False),
        ("MIT", "It has the MIT license.", True),
        ("Closed", "The garage is not closed.", False),
        ("Session", "Each ClientPool makes a Session.", False),
        ("Blue", "It is blue, as set above.", True),
        ("What it is.", "It is not.", False),
        ("REQUEST_TIMEOUT 的值是30秒。", "REQUEST_TIMEOUT = 60", False),
        ("30 s", "30s", True),
        ("1.2.3", "2.3.1", False),
        ("-1", "1", False),
        ("12.50", "It is 12.5.", True),
        ("Yes, each access takes lock_guard.", "No, it is not: lock_guard is unused.", False),
        ("Nein, `cache` wird nie geleert.", "Ja, `cache` wird geleert.", False),
        ("Madrid, Spain: MAD_1", "Spain, Madrid: MAD_1", True),
        ("缓存在启动时会被清空。", "缓存在启动时不会被清空。", False),
        ("缓存在启动时会被清空。", "缓存会被清空。", True),
        ("是的，缓存在每次启动的时候被清空。", "不，缓存在每次启动的时候被清空。", False),
        (
            "はい、キャッシュは起動時に消去されます。",
            "いいえ、キャッシュは起動時に消去されます。",
            False,
        ),
        ("แคชจะถูกล้างเมื่อเริ่มทำงาน", "แคชจะไม่ถูกล้างเมื่อเริ่มทำงาน", False),
        ("Кэш очищается при запуске.", "Кэш не очищается при запуске.", False),
        ("המטמון נמחק בהפעלה", "המטמון לא נמחק בהפעלה", False),
        ("Кэш очищается при запуске.", "Кэш очищается при запуске программы.", True),
        ("Blue Hall。", "会場はBlue Hallです。", True),
        ("On average 50.67 minutes.", "50.673469387755105", True),
        ("On average 50.68 minutes.", "50.673469387755105", False),
        ("It is SHA-1.", "The digest method of it is hashlib.sha1.", True),
        ("It is SHA-1.", "The digest method of it is hashlib.sha256.", False),
    ],
)
def test_two_answers_agree_if_one_claims_what_the_other_says(
    first: str, second_: str, same: bool
) -> None:
    assert agree(first, second_, "What is it?") is same
    assert agree(second_, first, "What is it?") is same


@pytest.mark.parametrize(
    ("request_", "first", "second_", "same"),
    [
        ("会议在哪里举行？", "蓝厅", "会议在蓝厅举行。", True),
        ("墙是什么颜色？", "蓝色", "墙是蓝色的。", True),
        ("墙是什么颜色？", "蓝色", "墙不是蓝色的。", False),
        ("キャッシュの状態は？", "有効です", "有効ではありません", False),
        ("벽은 무슨 색입니까?", "파란색", "벽은 파란색입니다.", True),
        (
            "What is the default of max_age?",
            "false",
            "The default value of max_age is false.",
            True,
        ),
        ("What is the default of max_age?", "false", "The default of max_age is not false.", False),
        ("Which color is the wall?", "red", "The color of the wall is red.", True),
        ("Which color is the wall?", "The color is red.", "It is the red one.", False),
        ("Which state is it in?", "on", "The state is on.", True),
        ("Which state is it in?", "on", "The state is never on.", False),
        ("Is it on?", "Yes", "No", False),
    ],
)
def test_a_short_answer_agrees_with_a_sentence_in_the_words_of_the_request(
    request_: str, first: str, second_: str, same: bool
) -> None:
    assert agree(first, second_, request_) is same


@pytest.mark.parametrize(
    ("answer", "text", "missing"),
    [
        ("Uses SHA-256 and UTF-8.", "hashlib.sha256(x), utf8", []),
        ("It needs Python 3.11.", "python3.11", []),
        ("It needs Python 3.11.", "python3.10", ["3.11"]),
        ("Either and/or both.", "Nothing.", []),
        ("It is in src/utils.", "from src/core import x", ["src/utils"]),
        ("1. alpha_x\n2. beta_x\n3. gamma_x", "alpha_x beta_x gamma_x", []),
        ("The average is 3.67.", '{"average": 3.6666666667}', []),
        ("The average is 3.68.", '{"average": 3.6666666667}', ["3.68"]),
        ("It costs 12.5.", "cost: 12.50", []),
        ("It is version 3.1.", "version 3.10", ["3.1"]),
        ("It is version 3.1.", "version 3.14", ["3.1"]),
        ("It is version 24.1.", "version 24.10", ["24.1"]),
        ("It fell by -3.67.", "3.6666667", ["-3.67"]),
        ("See https://de.example/wiki/Müller", "https://de.example/wiki/Müller", []),
        ("Python3.12", "Python 3.12", []),
        ("There are 500 users.", "5 admins", ["500"]),
        ("It is 45 %.", "share = 0.45", []),
        ("Es sind ca.30 Personen", "20 Personen", ["30"]),
        ("Am 5. Mai 2024 um 15 Uhr", "start: 2024-05-05T15:00", []),
        ("At 3 pm on May 5, 2024", "start: 2024-05-05 15:00", []),
        ("Es ist 16.30 Uhr.", "start: 2024-05-05T16:30", []),
        ("It is 16:30.", "start: 2024-05-05T04:30", ["16"]),
        ("It is a1b2c3d4.", "Commit: a1b2c3d4e5f60718293a4b5c6d7e8f9012345678", []),
        ("It is a1b2c3d5.", "Commit: a1b2c3d4e5f60718293a4b5c6d7e8f9012345678", ["a1b2c3d5"]),
        ("Am 6. Mai 2024", "start: 2024-05-05T15:00", ["6"]),
        ("There are 5 users.", "start: 2024-05-05T05:00", ["5"]),
        ("It is `timeout=30`.", "timeout: int = 30", []),
        ("It is `timeout=31`.", "timeout: int = 30", ["timeout=31"]),
        ("It is `timeout=30`.", "timeout = 10  # a timeout of 30 was too long", ["timeout=30"]),
        ("If `attempts > limit`.", "if attempts < limit:", ["attempts > limit"]),
        ('It says "at most 1".', "at most 10 retries", ["at most 1"]),
        ("There were 5 releases in 2024.", "2024-12-05", ["5"]),
        ("It is `Client.connect()`.", "class Client:\n    def connect(self, host):", []),
        (
            "It is `Client.close()`.",
            "class Client:\n    def connect(self, host):",
            ["Client.close()"],
        ),
        ("It is `Client.connect`.", "class Client:\n    async def connect(self, host):", []),
        ("It is `Net::Client::Late`.", "module Net\n  class Client\n    class Late < Error", []),
        ("It is `Net::Client`.", "module Web\n  class Client\n", ["Net::Client"]),
        ("It is `Client#connect`.", "class Client\n  def connect(host)", []),
        ("It is `Client.limit`.", "export class Client {\n  limit: number = 5;", []),
        ("It is `Client.close`.", "class Client:\n    def connect(self):", ["Client.close"]),
        ("It is `config.json`.", "config = reply.json()", ["config.json"]),
        ("It is `2**attempt`.", "delay = 2 ** attempt", []),
        ("It is `close()`.", "  close(code, data) {", []),
        ("It is `.close()`, or `isFile()`.", "ws.close(1000)\nisFile: () => boolean", []),
        ("It is `close()`.", "// close the file (or not)", ["close()"]),
        ("It returns `{ id, promise }`.", "{ id: number, promise: Promise<Result> }", []),
        ("It returns `{ id, promise }`.", "{ id: number, result: Result }", ["{ id, promise }"]),
        ('It says "requests are retried".', "Requests are\nretried.", []),
        ("It is MAX_SIZE   = 90.", "MAX_SIZE = 90", []),
        ("It is MAX_SIZE = 90.", "#define MAX_SIZE UINT32_C(90)", []),
        ("It is MAX_SIZE = 90.", "MAX_SIZE = 30\nMAX_AGE = 90", ["MAX_SIZE = 90"]),
        ("The default = 90.", "MAX_SIZE = 90 by default", []),
        ("If delay > 0.", "if delay > 0:", []),
        ("If delay == 0.", "if delay > 0:", ["delay == 0"]),
        ("Any version >=3, or Node >= 3.", '"node": ">=3"', []),
        ("It is in 5.1.4alpha.", "since 5.1.4beta", ["5.1.4alpha"]),
        ("It is in v2.0.0-rc.1.", "2.0.0-rc.2", ["2.0.0-rc.1"]),
        ("It sends 429.", "code = http.StatusTooManyRequests", []),
        ("It sends 404.", "return StatusCode::NOT_FOUND", []),
        ("It sends 302.", "resp.sendError(HttpServletResponse.SC_FOUND)", []),
        ("It sends 404.", "raise KeyNotFound", ["404"]),
        ("It sends 503.", "code = http.StatusTooManyRequests", ["503"]),
    ],
)
def test_what_no_result_says(answer: str, text: str, missing: list[str]) -> None:
    assert unsupported(state_with(text), answer) == missing


@pytest.mark.parametrize(
    ("looked_for", "result", "answer", "missing"),
    [
        ("parse_csv", "jobs/read.py:3", "It is done in `parse_csv`.", []),
        ("parse_csv", "no matches found", "It is done in `parse_csv`.", ["parse_csv"]),
        ("parse_csv", "[]", "It is done in `parse_csv`.", ["parse_csv"]),
        ("a parse_csv function", "read.py", "It is done in `parse_csv`.", ["parse_csv"]),
        ("2024-05-20", "[]", "There is nothing on 2024-05-20.", []),
    ],
)
def test_what_was_looked_for_is_seen_if_something_was_found_and_a_day_even_if_not(
    looked_for: str, result: str, answer: str, missing: list[str]
) -> None:
    searched = Iteration(0, 0, "search", "", arguments={"query": looked_for}, result=result)
    searched.outcome = Outcome.SUCCESS
    assert unsupported(RunState(iterations=[searched]), answer) == missing


def test_what_stands_between_two_quotations_is_none() -> None:
    assert claims("""It is 'a' or 'b', "on" or "no".""") == []
    assert claims("""It says 'out of range' or "too long".""") == ["out of range", "too long"]


@pytest.mark.parametrize(
    ("text", "claimed"),
    [
        ("The client's timeout, the request's default; it doesn't, it can't.", []),
        ("REQUEST_TIMEOUT 的值是30秒", ["REQUEST_TIMEOUT", "30"]),
        ("在src/limits.py文件中定义，第9行", ["src/limits.py", "9"]),
        ("30s, 256Mi, 0xFF, the 2nd", ["30", "256", "0xFF"]),
        (
            "1.2.3 on 2024-05-12, 2024-05-13T10:00",
            ["1.2.3", "2024-05-12", "2024-05-13", "00"],
        ),
        ("-5 of 1-5 in a.py:12-30", ["-5", "1", "5", "a.py", "12", "30"]),
        ("It waits 2.5s, then 0.5 s.", ["2.5", "0.5"]),
        ("It makes an S3Client by LZ4FrameFile.", ["S3Client", "LZ4FrameFile"]),
        ("Python3.11, V1.2.3, ubuntu22.04", ["Python3.11", "1.2.3", "ubuntu22.04"]),
        ("5.1.4beta, v2.0.0-rc.1, 1.2.3-based", ["5.1.4beta", "2.0.0-rc.1", "1.2.3"]),
        ("见 https://example.com/docs。然后运行它", ["https://example.com/docs"]),
    ],
)
def test_what_is_claimed(text: str, claimed: list[str]) -> None:
    assert claims(text) == claimed
    assert all(holds(text, claim) for claim in claimed)


@pytest.mark.parametrize(
    ("text", "holding", "others"),
    [
        ("timeout = 30s", ["30"], ["3", "0"]),
        ("0xFF", ["0xFF"], ["0"]),
        ("1.5 of 0..9", ["1.5", "0", "9"], ["5", "1"]),
        ("v1.2.3", ["1.2.3"], ["2.3", "1.2", "3"]),
        ("x = -5", ["-5"], ["5"]),
        ("[-1]", ["-1"], ["1"]),
        ("2024-05-12T10:00", ["2024-05-12", "05", "10"], ["2024-05-1"]),
        ("sha256 and 1_500u64", [], ["256"]),
        ("timeoutの値は30秒", ["timeout", "30"], ["time", "3"]),
    ],
)
def test_what_a_text_holds(text: str, holding: list[str], others: list[str]) -> None:
    assert [claim for claim in [*holding, *others] if holds(text, claim)] == holding


def test_an_account_and_an_address_are_claims() -> None:
    said = "US133000000121212121212 or anna@example.com, by SHA256 in utf8."
    assert claims(said) == ["US133000000121212121212", "anna@example.com"]


def test_a_blank_that_was_left_open_is_a_claim() -> None:
    said = "There are [number] of [the user's names] on [this page](a.md), a list[str] or [x] each."
    assert claims(said) == ["[number]", "[the user's names]", "a.md"]


def test_an_answer_in_the_words_of_the_request_is_borne_out_by_the_line_with_most_of_them() -> None:
    text = "def dump(x):\n    # slashes are escaped by default\n    escape(x)\n    return x"
    passages = [Passage(source="dump.py", first=1, last=4, text=text)]
    gathered = PassagesGathered(iteration=0, query="", passages=passages)
    state = RunState(iterations=[Iteration(0, 0, "read", "", gathered=gathered)])
    request = "Are slashes escaped by default?"
    found = supporting(state, "Slashes are escaped by default.", request)
    assert found == ["# slashes are escaped by default"]


@pytest.mark.parametrize(
    ("answer", "request_", "repeats"),
    [
        ("TTLCache", "Which class is the base of TTLCache?", True),
        ("`TTLCache`.", "Which class is the base of TTLCache?", True),
        ("`_TimedCache`", "Which class is the base of TTLCache?", False),
        ("TTLCache has no base.", "Which class is the base of TTLCache?", False),
        ("LRUCache", "Is FIFOCache or LRUCache the default?", False),
        ("on", "Is it on or off?", False),
    ],
)
def test_nothing_but_the_names_of_the_request_is_no_answer(
    answer: str, request_: str, repeats: bool
) -> None:
    assert only_repeats(answer, request_) is repeats


@pytest.mark.parametrize(("name", "loose"), [("MAX_SIZE", []), ("OLD_SIZE", ["600"])])
def test_a_number_is_proved_by_a_name_that_stands_where_the_subject_does(
    name: str, loose: list[str]
) -> None:
    text = f"{name} = 600\n\n\n\ndef cut(lines):\n    return lines[:MAX_SIZE]"
    passages = [Passage(source="x.py", first=1, last=6, text=text)]
    gathered = PassagesGathered(iteration=0, query="", passages=passages)
    state = RunState(iterations=[Iteration(0, 0, "read", "", gathered=gathered)])
    assert unproved(state, "Cut lines have 600 characters.") == loose


def test_a_name_that_was_looked_for_in_what_was_read_proves_no_number() -> None:
    text = "STORED = Store(\n    max=60,\n\n\n    rate=parseFloat(readText, withSign, 90),\n)"
    passages = [Passage(source="x.py", first=1, last=6, text=text)]
    given = {"pattern": "stored|max"}, {"path": "x.py"}, {"pattern": "parseFloat|readText|withSign"}
    looked = [Iteration(n, 0, "", "", by="lookup", arguments=each) for n, each in enumerate(given)]
    looked[-1].gathered = PassagesGathered(iteration=2, query="", passages=passages)
    assert unproved(RunState(iterations=looked), "At most 60 are stored.") == []


@pytest.mark.parametrize(
    ("answer", "loose"),
    [
        ("There are 7 kinds of gates.", ["7"]),
        ("The kinds of gates begin on line 3.", []),
        ("`gates.md` lists swing on line 7.", []),
        ("\n".join(f"{number}. swing" for number in range(1, 8)), []),
    ],
)
def test_a_count_is_not_proved_by_a_line_of_that_number(answer: str, loose: list[str]) -> None:
    text = "# Gates\n\nThe kinds of gates:\n\n- lift\n- slide\n- swing"
    passages = [Passage(source="gates.md", first=1, last=7, text=text)]
    gathered = PassagesGathered(iteration=0, query="", passages=passages)
    state = RunState(iterations=[Iteration(0, 0, "read", "", gathered=gathered)])
    assert unproved(state, answer) == loose


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("`pull_rope` calls it, in Dock.", "pull_rope"),
        ("Ferry does it.", "Ferry"),
        ("It is loaded.", "It is loaded"),
        ("RAISE ends the run, SKIP goes on, and that is how the gate of the lock is used.", None),
    ],
)
def test_what_another_question_can_ask_about(answer: str, name: str | None) -> None:
    assert name_in(answer, "What does it?") == name
