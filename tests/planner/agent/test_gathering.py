"""From a question to passages: search_terms, the files read, what is shown of them."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import anyio
import pytest
from in_memory import (
    LIST,
    READ,
    SEARCH,
    Comparing,
    DictionaryPool,
    Fast,
    Ran,
    Unconstrained,
    planned,
    spec,
)
from replies import found, nowhere, plan, second, words

from planner.agent.closeness import MAX_COMPARED, MAX_COMPARED_CHARS
from planner.agent.gathering import MAX_FILES
from planner.agent.reading import MAY_LACK
from planner.checks.citations import evidence
from planner.evidence.best_files import MIN_COPIED
from planner.evidence.hits import Hit, as_passages, of_search
from planner.evidence.search_terms import search_terms
from planner.passage import Passage
from planner.prompts.texts import passage
from planner.protocol import Limits
from planner.tools import Outcome, ToolResult, ToolSpec

pytestmark = pytest.mark.anyio

READ_WHOLE = spec("read_file", "path", file_argument="path")
FIND = spec("find_file", "mask", "folder", name_argument="mask")
SOURCE = """import gates

WIDTH_OF_GATES = 31


def open_gate(name: str) -> int:
    return WIDTH_OF_GATES + len(name)


class Gatekeeper:
    def greet(self) -> str:
        return "hello"
"""
QUESTION = "What does open_gate return?"
ANSWER = "`open_gate` returns `WIDTH_OF_GATES` and the length."


def pool_of(files: dict[str, str]) -> DictionaryPool:
    return DictionaryPool(files, specs=[SEARCH, READ_WHOLE, LIST])


async def gathered(pool: DictionaryPool, prompt: str = QUESTION, **options: Any) -> Ran:
    """A run that answers from what is gathered first."""
    return await planned(found("It is told."), pool=pool, prompt=prompt, **options)


def read(ran: Ran) -> list[str]:
    return [arguments["path"] for name, arguments in ran.pool.calls if name == "read_file"]


# What a search found


@pytest.mark.parametrize(
    ("result", "hits"),
    [
        ("a.py:3:x = 1\n./b/c.py:12:  y", [Hit("a.py", 3, "x = 1"), Hit("b/c.py", 12, "  y")]),
        ("a.py:3:x\na.py:4-z\na.py:3:x", [Hit("a.py", 3, "x"), Hit("a.py", 4, "z")]),
        ("a.py:3:", [Hit("a.py", 3, "")]),
        ("a.py:3:at 12:30: x", [Hit("a.py", 3, "at 12:30: x")]),
        (
            json.dumps({"a.py": ["  > 12:x = 1\n...13:y"], "b.py": [" 1:z"]}),
            [Hit("a.py", 12, "x = 1"), Hit("a.py", 13, "y"), Hit("b.py", 1, "z")],
        ),
        (json.dumps({"a.py": [{"line": 7, "text": "x"}]}), [Hit("a.py", 7, "x")]),
        (json.dumps({"a.py": 5, "b": [None, 3]}), []),
        (json.dumps(["a.py:3:x"]), []),
        ("No match.", []),
        ("", []),
    ],
)
def test_hits_are_read_in_whichever_form_they_come(result: str, hits: list[Hit]) -> None:
    assert of_search(result) == hits


def test_neighbouring_hits_are_one_passage() -> None:
    hits = [Hit("b.py", 9, "z"), Hit("a.py", 4, "y"), Hit("a.py", 3, "x"), Hit("a.py", 6, "w")]
    assert as_passages(hits) == [
        Passage(source="a.py", first=3, last=4, text="x\ny"),
        Passage(source="a.py", first=6, last=6, text="w"),
        Passage(source="b.py", first=9, last=9, text="z"),
    ]


@pytest.mark.parametrize("form", ["lines", "json"])
async def test_a_pool_that_reads_no_files_shows_the_lines_found(form: str) -> None:
    line = "def open_gate(name: str) -> int:"
    results = {
        "lines": f"src/gates.py:6:{line}",
        "json": json.dumps({"src/gates.py": [f"6:{line}"]}),
    }
    pool = DictionaryPool({}, specs=[SEARCH], results={"search": [results[form]]})
    ran = await gathered(pool)
    assert [each.place for each in ran.state.passages] == ["src/gates.py:6"]
    told = "defines open_gate, no use of open_gate was found"
    assert f"src/gates.py:6 ({told})\n{line}" in ran.asked[0].last


@pytest.mark.parametrize(
    ("other", "searched", "told"),
    [
        ("shut()", True, True),
        ("open_gate(1)", True, False),
        ("shut()", False, False),  # other files may use it
    ],
)
async def test_that_a_name_is_not_used_is_said_where_it_was_searched_for(
    other: str, searched: bool, told: bool
) -> None:
    pool = pool_of({"src/gates.py": SOURCE, "src/tolls.py": f"value = {other}\n"})
    files = ["src", "src/gates.py", "src/tolls.py"]
    if not searched:
        pool.specs = [READ_WHOLE, LIST]
        pool.results["list_dir"] = ["\n".join(files)]
    ran = await planned(
        *([] if searched else [{"lists": "list_dir", "reads": "read_file"}]),
        found("It is told."),
        pool=pool,
        prompt="Who calls open_gate and returns its value?",
    )
    assert ran.state.passages
    assert ("no use of open_gate was found" in ran.asked[-1].last) == told


OPENS = "(self):\n        open_gate(1)\n"
TWICE = f"class Tolls:\n    def day{OPENS}    def night{OPENS}"
USED = "def visit() -> None:\n    open_gate('north')\n"


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({"src/tolls.py": USED}, ", used by visit)"),
        ({"src/tolls.py": USED, "src/walk.py": USED.replace("visit", "walk")}, "by visit, walk)"),
        (
            {"tests/test_gates.py": USED.replace("visit", "test_it"), "z.py": USED},
            "visit, test_it)",
        ),
        ({"src/tolls.py": TWICE}, "by day, night)"),
        ({"src/tolls.py": "from gates import open_gate\n"}, ""),  # it does not say what for
        ({"src/tolls.py": f"{USED}\n\nclass Inner:\n    def open_gate(self):\n        ...\n"}, ""),
    ],
    ids=["one", "two", "tests last", "the same line", "an import", "several of the name"],
)
async def test_a_definition_that_is_asked_for_says_what_uses_it(
    others: dict[str, str], told: str
) -> None:
    pool = pool_of({"src/gates.py": SOURCE, **others})
    ran = await planned(found("It is told."), pool=pool, prompt="Who calls open_gate?")
    shown = ran.asked[-1].last
    assert "(defines open_gate" in shown
    assert told in shown if told else "used by" not in shown


# What is searched for


def test_names_are_searched_for_as_they_are_spelled_and_words_by_their_stems() -> None:
    terms = search_terms("Where is maxRetries used by workers?", ["retrying"])
    assert terms[:2] == ["maxRetries", "retr"]  # its stem is `retri`, which no text has
    assert "worker" in terms
    assert not {"is", "by"} & {*terms}
    assert search_terms("is it so?", []) == []
    assert search_terms("日志", []) == ["日志"]


LOG = "\n".join(f"INFO req_{number}a7 GET /api/items/{number}" for number in range(1000, 1040))


@pytest.mark.parametrize("has_search", [True, False])
async def test_a_log_in_a_question_does_not_hide_what_it_is_about(has_search: bool) -> None:
    pool = pool_of({"src/gates.py": SOURCE})
    pool.specs = [SEARCH, READ_WHOLE, FIND] if has_search else [READ_WHOLE, LIST]
    pool.results["find_file"] = ["{}"] * 40
    ran = await planned(
        Fast({"search": ["gates", "width"], "wants": "short answer"}),
        *([] if has_search else [{"lists": "list_dir", "reads": "read_file"}]),
        found("WIDTH_OF_GATES is 31."),
        pool=pool,
        prompt=f"How wide are these?\n\n{LOG}",
    )
    assert "src/gates.py" in read(ran)
    assert len(pool.calls) < 20
    assert ran.state.status == "answered"


@pytest.mark.parametrize("word", ["Größe", "límite", "schöne", "größer"])
async def test_a_word_with_other_letters_is_one_word(word: str) -> None:
    """Else a search for a single `ö` or `í` finds every line that has one."""
    assert all(len(each) >= 3 for each in search_terms(f"{word}?", [word]))


async def test_words_that_are_too_much_together_are_searched_for_one_by_one() -> None:
    """Refused for its length, a search is not taken for one that knows no flags."""
    pool = pool_of({"src/gates.py": SOURCE})
    pool.results["search"] = [ToolResult(outcome=Outcome.FAILURE, text="too many matches")] * 2
    ran = await gathered(pool)
    patterns = [each["pattern"] for name, each in pool.calls if name == "search"]
    assert patterns[1:4] == ["(?i)open_gate", "(?i)valu", "(?i)return"]
    assert any("def open_gate" in each.text for each in ran.state.passages)


async def test_words_that_stand_nowhere_do_not_end_a_search_that_was_too_much() -> None:
    pool = pool_of({"src/gates.py": SOURCE})
    pool.results["search"] = ["The answer is too long.", ""]
    ran = await planned(
        Fast({"search": ["gate_value"], "wants": "short answer"}),
        found("It is told."),
        pool=pool,
        prompt=QUESTION,
    )
    assert any("def open_gate" in each.text for each in ran.state.passages)


async def test_a_pattern_matches_names_with_signs_in_them_as_they_are() -> None:
    pool = pool_of({"src/gates.py": SOURCE})
    ran = await gathered(pool, prompt="What does open_gate(x) + [a].b* return?")
    assert ran.state.passages


# The files that are read


async def test_the_best_files_are_read_whole_and_no_more_than_a_few() -> None:
    others = {f"lib/part_{number:02}.py": "open = 1  # what to return\n" for number in range(20)}
    ran = await gathered(pool_of(others | {"src/gates.py": SOURCE}))
    assert read(ran)[0] == "src/gates.py"
    assert len(read(ran)) == MAX_FILES
    best, *_ = ran.state.passages
    assert (best.source, "return WIDTH_OF_GATES" in best.text) == ("src/gates.py", True)


async def test_of_a_file_and_its_copies_one_is_read_first_and_shown() -> None:
    body = "".join(
        f"\ndef open_gate_{number}(name: str) -> int:\n    # The width that {number} gates have.\n"
        f"    return width_of_gate({number}) + len(name) + len('what open_gate returns')\n"
        for number in range(MIN_COPIED)
    )
    built = {f"dist/gates.{each}": f"{each} = 1\n{body}" for each in ("cjs", "esm", "umd")}
    others = {f"lib/part_{number}.py": "open = 1  # what to return\n" for number in range(5)}
    ran = await gathered(pool_of(built | others))
    first, *further = read(ran)
    assert (first, {*further}) == ("dist/gates.cjs", {*others})
    texts = [" ".join(each.text.split()) for each in ran.state.passages]
    assert len([text for text in texts if "what open_gate returns" in text]) > 1
    assert len({*texts}) == len(texts)


async def test_a_file_that_cannot_be_read_leaves_its_lines() -> None:
    pool = pool_of({"src/gates.py": SOURCE})
    pool.results["read_file"] = [ToolResult(outcome=Outcome.FAILURE, text="no permission")]
    ran = await gathered(pool)
    assert {each.source for each in ran.state.passages} == {"src/gates.py"}
    assert any(each.text.startswith("def open_gate") for each in ran.state.passages)


async def test_a_file_that_the_question_names_is_found_and_read() -> None:
    pool = pool_of({"src/gates.py": SOURCE, "deep/in/notes.txt": "The sky is green.\n"})
    pool.specs = [*pool.specs, FIND]
    pool.results["find_file"] = [json.dumps({"files": ["deep/in/notes.txt"]})]
    ran = await gathered(pool, prompt="What do the first lines of notes.txt say of the sky?")
    assert read(ran)[0] == "deep/in/notes.txt"
    assert "The sky is green." in ran.asked[0].last


async def test_what_the_question_names_and_no_word_leads_to_is_found_by_its_name() -> None:
    pool = pool_of({"a/settings.ini": "size = 4\n"})
    pool.specs = [*pool.specs, FIND]
    pool.results["find_file"] = [json.dumps({"files": ["a/settings.ini"]})]
    ran = await gathered(pool, prompt="What is said in settings.ini?")
    assert ("find_file", {"mask": "settings.ini", "folder": "."}) in pool.calls
    assert read(ran) == ["a/settings.ini"]


async def test_sources_are_read_before_what_was_made_of_them() -> None:
    bundles = {
        f"lib/{number}.js": f"open_gate return open_gate what;{'x' * 2000}\n"
        for number in range(MAX_FILES)
    }
    ran = await gathered(pool_of(bundles | {"src/gates.py": "gate = open_gate(3)\n"}))
    assert read(ran)[0] == "src/gates.py"


# What is shown


async def test_the_best_passage_is_read_first_with_what_it_mentions_behind_it() -> None:
    """A question that names nothing: only the lines behind the best passage say what it is to
    something else, and they do not answer it alone."""
    others = [f"def wait_{n}():\n    # wait between tries\n    step()\n" for n in range(9)]
    best = "def wait_tries():\n    # how long to wait between tries\n    sleep(PAUSE_OF_TRIES)\n"
    source = "\n\n".join([best, *(each * 3 for each in others)])
    pool = pool_of({"src/tries.py": source, "src/limits.py": "PAUSE_OF_TRIES = 31\n"})
    ran = await gathered(pool, prompt="how long is the wait between tries?")
    assert ran.state.passages[0].relation == ""
    assert any(each.relation for each in ran.state.passages)
    assert "sleep(PAUSE_OF_TRIES)" in ran.asked[0].last
    assert "PAUSE_OF_TRIES = 31" in ran.asked[0].last


async def test_what_the_best_passages_mention_is_shown_where_it_is_defined() -> None:
    values = "".join(f"filler_{number} = {number}\n\n\n" for number in range(200))
    pool = pool_of(
        {
            "src/gates.py": SOURCE.replace("WIDTH_OF_GATES = 31\n\n\n", ""),
            "src/limits.py": f"{values}WIDTH_OF_GATES = 31  # open, return\n",
        }
    )
    ran = await gathered(pool)
    assert "WIDTH_OF_GATES = 31" in ran.asked[0].last


async def test_the_evidence_names_the_tool_that_returned_it() -> None:
    source = SOURCE.replace("WIDTH_OF_GATES = 31\n\n\n", "")
    far = {f"far_{number}.py": "gate = open(gate)\n" * 9 for number in range(9)}
    pool = pool_of({"gates.py": source, **far, "sizes.py": "WIDTH_OF_GATES = 31\n"})
    answer = "`open_gate` returns `WIDTH_OF_GATES`, 31, and the length of the name."
    ran = await planned(found(answer), second(answer), pool=pool, prompt=QUESTION)
    tools = {each.source.partition(":")[0]: each.tool for each in evidence(ran.state)}
    assert tools == {"gates.py": "read_file", "sizes.py": "search"}


async def test_of_many_passages_the_others_are_shown_by_their_best_lines() -> None:
    body = "\n".join(f"    step_{number} = prepare({number})" for number in range(18))
    functions = [
        f"def part_{number}():\n{body}\n    return open_gate({number})\n" for number in range(12)
    ]
    ran = await gathered(pool_of({"src/parts.py": "\n\n".join(functions)}))
    sizes = [len(each.text) for each in ran.state.passages]
    assert max(sizes) > 300
    assert min(sizes) < 200
    excerpts = [each for each in ran.state.passages if len(each.text) < 200]
    for each in excerpts:
        assert "return open_gate(" in each.text
        file = ran.pool.files["src/parts.py"].split("\n")
        assert each.text.split("\n") == file[each.first - 1 : each.last]


@pytest.mark.parametrize("searched", [True, False])
async def test_of_passages_with_the_same_words_those_that_mean_the_same_come_first(
    searched: bool,
) -> None:
    filler = "# filler\n" * 99
    numbers = range(MAX_FILES)
    files = {f"src/part_{number}.py": f"# return open_gate\n{filler}" for number in numbers}
    files["src/part_4.py"] = files["src/part_4.py"].replace("gate", "gate ajar", 1)
    pool = pool_of(files)
    if not searched:
        pool.specs = [READ_WHOLE, LIST]
    names = [] if searched else [{"lists": "list_dir", "reads": "read_file"}]
    for encoder in (None, Comparing("ajar")):
        ran = await planned(
            *names, found("It is told."), pool=pool, prompt=QUESTION, encoder=encoder
        )
        first, *_ = ran.state.passages
        assert (first.source == "src/part_4.py") == (encoder is not None)


async def test_passages_are_compared_with_the_question_and_the_words_searched_for() -> None:
    files = {f"src/part_{number}.py": SOURCE * 40 for number in range(9)}
    encoder = Comparing("")
    await planned(
        Fast({"search": ["gate", "width"], "wants": "short answer"}),
        found("It is told."),
        pool=pool_of(files),
        prompt=QUESTION,
        encoder=encoder,
    )
    assert encoder.questions == [f"{QUESTION} gate width"]
    assert len(encoder.texts) == MAX_COMPARED
    assert all(len(text) <= MAX_COMPARED_CHARS for text in encoder.texts)
    assert encoder.texts[0].startswith("src/part_")


async def test_nothing_is_compared_where_there_is_room_for_all() -> None:
    encoder = Comparing("")
    await gathered(pool_of({"src/gates.py": SOURCE}), encoder=encoder)
    assert encoder.questions == []


@pytest.mark.parametrize("context_tokens", [4096, 8192])
async def test_what_is_shown_is_within_a_share_of_the_context(context_tokens: int) -> None:
    files = {f"src/part_{number}.py": SOURCE * 30 for number in range(9)}
    ran = await gathered(pool_of(files), context_tokens=context_tokens)
    shown = ran.asked[0].last.partition("<result>")[2].partition("</result>")[0]
    assert 0 < len(shown) < context_tokens


async def test_a_second_look_up_shows_what_is_new_and_makes_no_call_twice() -> None:
    pool = pool_of({"src/gates.py": SOURCE, "src/sky.py": "COLOUR = 'green'\n"})
    ran = await planned(
        nowhere(), Fast(words("colour", "sky")), found("It is green."), pool=pool, prompt=QUESTION
    )
    assert sorted(read(ran)) == ["src/gates.py", "src/sky.py"]
    assert "COLOUR = 'green'" in ran.asked[-1].last


async def test_a_file_read_by_the_look_up_can_still_be_read_as_a_whole() -> None:
    unseen = "".join(f"filler_{number} = {number}\n\n\n" for number in range(200))
    pool = pool_of({"src/gates.py": f"{SOURCE}\n\n{unseen}"})
    ran = await planned(
        *[nowhere()] * 4,  # of the likeliest passages and of all, and both after other words
        plan("read_file"),
        {"path": "src/gates.py"},
        found("`filler_0` is 0."),
        pool=pool,
        prompt=QUESTION,
    )
    assert ran.results[-1][1] is Outcome.SUCCESS


async def test_a_tools_result_bears_an_answer_out_where_the_passages_do_not() -> None:
    pool = pool_of({"src/gates.py": SOURCE})
    pool.results["list_dir"] = ["notes\nthe gate is made of copper"]
    ran = await planned(
        *(nowhere(), plan("list_dir"), {"path": "."}, found("Of copper.")),
        pool=pool,
        prompt=QUESTION,
    )
    assert ran.state.passages
    assert (ran.state.status, ran.guards) == ("answered", [])
    assert ran.state.quotes[0] == "the gate is made of copper"


@pytest.mark.parametrize("said", ["100,000,000", "100000000", "100_000_000"])
async def test_a_number_may_be_grouped_otherwise_than_in_the_code(said: str) -> None:
    pool = pool_of({"src/gates.py": f"{SOURCE}\nMOST_BYTES_OF_GATES = 100_000_000\n"})
    prompt = "What is MOST_BYTES_OF_GATES?"
    ran = await planned(found(f"It is {said}."), pool=pool, prompt=prompt)
    assert (ran.state.status, ran.guards) == ("answered", [])


@pytest.mark.parametrize(
    ("said", "status", "reason"),
    [
        ("Every 30000 ms.", "answered", None),
        ("Every 30 seconds.", "partial", "no result says 30, unless in another unit"),
    ],
)
async def test_a_number_in_another_unit_is_told_and_is_not_certain(
    said: str, status: str, reason: str | None
) -> None:
    pool = pool_of({"src/gates.py": f"{SOURCE}\nGATE_INTERVAL_MS = 30_000\n"})
    prompt = "How often does GATE_INTERVAL_MS open the gate?"
    ran = await planned(found(said), pool=pool, prompt=prompt)
    assert (ran.state.status, ran.state.answer, ran.state.reason) == (status, said, reason)


async def test_a_number_that_the_user_said_needs_no_other_unit() -> None:
    pool = pool_of({"src/gates.py": f"{SOURCE}\nGATE_INTERVAL_MS = 30_000\n"})
    prompt = "Does GATE_INTERVAL_MS open the gate every 30 s, and where is it?"
    said = "GATE_INTERVAL_MS is in src/gates.py, and 30 s is right."
    ran = await planned(found(said), pool=pool, prompt=prompt)
    assert (ran.state.status, ran.state.reason) == ("answered", None)


# What stands within a symbol

OUTLINE = spec("find_symbol", "name", "relative_path", symbol_argument="name")
BODY = "".join(f"        self.row_{row} = {row}  # of the deck\n" for row in range(12))
FERRY = f"class Ferry:\n    def load(self):\n{BODY}\n    def cross(self):\n{BODY}"
"""Too long for one passage."""
MEMBERS = '[{"name_path": "Ferry", "kind": "Class", "children": {"Method": ["load", "cross"]}}]'


async def test_the_members_of_what_a_question_names_are_counted() -> None:
    pool = DictionaryPool(
        {"src/ferry.py": FERRY, "src/other.py": "ferry = Ferry()\n"},
        specs=[SEARCH, READ_WHOLE, LIST, OUTLINE],
        results={"find_symbol": [MEMBERS]},
    )
    ran = await gathered(pool, "How many methods does Ferry have?")
    asked = [arguments for name, arguments in pool.calls if name == "find_symbol"]
    assert asked == [{"relative_path": "src/ferry.py", "name": "Ferry"}]
    members = "find_symbol Ferry:1-2 (members of Ferry)\nFerry, Class\n  Method (2): load, cross"
    assert members in ran.asked[0].last
    assert "(defines Ferry, 2 functions in it: load, cross)" in ran.asked[0].last


GATES = "".join(f"class {name}gate(Gate):\n    width = {n}\n\n\n" for n, name in enumerate("ABC"))


async def test_a_long_answer_that_has_what_is_listed_is_not_read_on() -> None:
    pool = DictionaryPool(
        {"src/gates.py": GATES, **{f"src/ferry_{n}.py": FERRY for n in range(4)}},
        specs=[SEARCH, READ_WHOLE, LIST],
    )
    said = "There are Agate, Bgate and Cgate."
    reply = f"- gates:1 (3 names)\n{said}"
    ran = await planned(
        *(Fast({"search": ["gates", "ferry"], "wants": "long answer"}), Unconstrained(reply)),
        pool=pool,
        prompt="list all gates of the ferry",
    )
    assert "search gates:1 (3 names)\nAgate, Bgate, Cgate" in ran.asked[0].last
    assert (ran.state.answer, ran.state.reason) == (said, MAY_LACK)


async def test_a_file_that_a_request_names_is_shown_by_its_names() -> None:
    text = f"{FERRY}\n\n{FERRY.replace('Ferry', 'Heron')}"
    pool = DictionaryPool({"src/ferry.py": text}, specs=[SEARCH, READ_WHOLE, LIST])
    rows = ", ".join(f"self.row_{n} is {n}" for n in range(12))
    said = Unconstrained(f"The class Ferry has load and cross.\nOf the deck, {rows}.")
    ran = await planned(
        *(Fast({"search": ["ferry"], "wants": "long answer"}), said, second("It has load.")),
        pool=pool,
        prompt="Summarise src/ferry.py",
    )
    names = "(6 names)\nFerry: load, cross\nHeron: load, cross"
    assert f"search src/ferry.py:1-2 {names}" in ran.asked[0].last


async def test_an_upstream_that_does_not_know_a_symbol_is_passed_over() -> None:
    pool = DictionaryPool(
        {"src/ferry.py": FERRY},
        specs=[SEARCH, READ_WHOLE, LIST, OUTLINE],
        results={"find_symbol": ["[]"]},
    )
    ran = await gathered(pool, "How many methods does Ferry have?")
    assert "class Ferry:" in ran.asked[0].last
    assert "find_symbol Ferry" not in ran.asked[0].last


async def test_what_fails_for_one_symbol_is_asked_for_another() -> None:
    broken = ToolResult(outcome=Outcome.FAILURE, text="The language server does not start.")
    pool = DictionaryPool(
        {
            "src/heron.py": FERRY.replace("Ferry", "Heron"),
            "src/ferry.py": FERRY,
        },
        specs=[SEARCH, READ_WHOLE, LIST, OUTLINE],
        results={"find_symbol": [broken, MEMBERS]},
    )
    ran = await gathered(pool, "How many methods do Heron and Ferry have?")
    assert [name for name, _ in pool.calls].count("find_symbol") == 2
    assert "Ferry, Class\n  Method (2): load, cross" in ran.asked[0].last


# What a library's documentation says

FIND_LIBRARY = spec(
    "find_library",
    "name",
    "topic",
    upstream="docs",
    library_argument="name",
    topic_argument="topic",
)
READ_DOCS = spec(
    "read_docs",
    "id",
    "topic",
    upstream="docs",
    identifier_argument="id",
    topic_argument="topic",
)
FOUND = "Libraries:\n\n- Title: Rails\n- ID: /iron/rails\n---\n- Title: Hinge\n- ID: /gates/hinge"
SAID = "### Limits\n\nA hinge opens up to `max_angle`, 110 by default.\n\n### Colours\n\nAny."


def documented(files: dict[str, str]) -> DictionaryPool:
    return DictionaryPool(
        files,
        specs=[SEARCH, READ_WHOLE, LIST, FIND_LIBRARY, READ_DOCS],
        results={"find_library": [FOUND], "read_docs": [SAID]},
    )


def asked_documentation(ran: Ran) -> list[dict[str, Any]]:
    return [
        arguments for name, arguments in ran.pool.calls if name in ("find_library", "read_docs")
    ]


@pytest.mark.parametrize(
    "use",
    [
        "import hinge",
        "from hinge import Hinge",
        'const { open } = require("hinge")',
        'import { open } from "hinge";',
        "use hinge::Hinge;",
        '"hinge": "^2.1.0"',
        '    "hinge>=2",',
        "hinge==2.1",
        "#include <hinge.h>",
    ],
)
async def test_the_documentation_of_a_library_that_the_project_uses_is_read(use: str) -> None:
    prompt = "How far does a Hinge open by default?"
    ran = await gathered(documented({"src/gate.txt": f"{use}\n\nopen it\n"}), prompt)
    topic = f"{prompt} value"  # with the words of the brief
    assert asked_documentation(ran) == [
        {"name": "Hinge", "topic": topic},
        {"id": "/gates/hinge", "topic": topic},
    ]
    assert "/gates/hinge:1-4\n" in ran.asked[0].last
    assert "A hinge opens up to `max_angle`, 110 by default." in ran.asked[0].last


@pytest.mark.parametrize(
    "files",
    [
        {"src/gate.py": "# A hinge holds a gate.\n"},
        {"src/gate.py": "from .hinge import Hinge\n"},
        {"hinge/__init__.py": "", "src/gate.py": "from hinge import Hinge  # a Hinge of ours\n"},
    ],
    ids=["a word", "a file beside it", "the project's own"],
)
async def test_what_is_no_library_of_the_project_is_not_looked_up(files: dict[str, str]) -> None:
    files["hinge/value.py"] = "value = 1  # of a hinge\n"
    ran = await gathered(documented(files), "How far does a Hinge open by default?")
    assert asked_documentation(ran) == []


@pytest.mark.parametrize(
    ("use", "library"),
    [
        ("import angle from 'node:angle'", False),
        ("const angle = require('angle')", False),  # one of Node's own may have that name
        ("from angles import Angle", False),
        ('"angle": "10"', False),
        ("angle", False),
        ("angle = {};", False),
        ("#include <angle>", False),
        ("import java.angle.Angle;", False),
        ("use Angle::*;", False),
        ("import type { Angle } from './angle'", False),
        ("angles may be angle < 0: no", False),
        ("import angle", True),
        ("from angle.limits import MAX", True),
        ("import angle.limits.Max", True),
        ('    "angle": "^2.1.0",', True),
        ('angle = { version = "1" }', True),
        ('angle = "1"', True),
        ("use angle::Limits;", True),
        ("#include <angle/limits.h>", True),
        ("gem 'angle', '~> 2'", True),
    ],
)
async def test_a_plain_word_is_a_library_where_nothing_else_is_called_so(
    use: str, library: bool
) -> None:
    pool = documented({"src/gate.txt": f"{use}\n\nopens at an angle\n"})
    words = Fast({"search": ["angle"], "wants": "short answer"})
    prompt = "At what angle does it open?"
    ran = await planned(words, found("It is told."), pool=pool, prompt=prompt)
    assert bool(asked_documentation(ran)) is library


async def test_a_module_of_pythons_own_is_no_library() -> None:
    pool = documented({"src/gate.py": "import json\n\nopens = json.loads\n"})
    words = Fast({"search": ["json"], "wants": "short answer"})
    ran = await planned(words, found("It is told."), pool=pool, prompt="Which json does it read?")
    assert asked_documentation(ran) == []


async def test_documentation_that_is_named_is_asked_for_any_library() -> None:
    pool = documented({"src/gate.py": "value = 1\n"})
    prompt = "Use docs: how far does a hinge open by default?"
    ran = await planned(
        Fast({"search": ["hinge", "angle"], "wants": "short answer"}),
        found("110"),
        pool=pool,
        prompt=prompt,
    )
    assert [each.get("id") or each["name"] for each in asked_documentation(ran)] == [
        "hinge",
        "/gates/hinge",
    ]
    assert ran.state.status == "answered"


@pytest.mark.parametrize(
    ("search", "asked"),
    [
        (["hinge", "angle"], ["hinge", "/gates/hinge"]),
        (["angle", "hinge"], ["hinge", "/gates/hinge"]),
        (["angle", "open"], []),  # not what the question is about
        (["gate", "far", "hinge"], ["far", "hinge", "/gates/hinge"]),  # no library is called "far"
    ],
)
async def test_a_name_that_no_file_has_may_be_that_of_a_library(
    search: list[str], asked: list[str]
) -> None:
    pool = documented({"src/gate.py": "value = 1  # how a gate opens, its angle\n"})
    pool.results["find_library"] = [FOUND.replace("/iron/rails", "/iron/so-far")] * 2
    prompt = "how far does a hinge open by default, not a gate?"
    words = Fast({"search": search, "wants": "short answer"})
    ran = await planned(words, found("It is told."), pool=pool, prompt=prompt)
    assert [each.get("id") or each["name"] for each in asked_documentation(ran)] == asked


@pytest.mark.parametrize(
    ("said", "shown"), [(SAID, True), (SAID.replace("max_angle", "limit"), False)]
)
@pytest.mark.parametrize(
    "use", ["import hinge", "const gate = require('hinge')", "use hinge::Gate"]
)
async def test_a_name_that_no_file_has_may_be_of_a_library_that_the_files_use(
    use: str, said: str, shown: bool
) -> None:
    pool = documented(
        {"src/gate.txt": f"import os\n{use}\n\nvalue = 1\n", "needs": '"hinge": "^2"'}
    )
    pool.results["read_docs"] = [said]
    ran = await gathered(pool, "Why does the gate open no further than max_angle?")
    names = [each.get("id") or each["name"] for each in asked_documentation(ran)]
    assert names == ["hinge", "/gates/hinge"]
    assert ("A hinge opens up to" in ran.asked[0].last) is shown


async def test_what_documentation_says_is_compared_with_the_question_by_its_meaning() -> None:
    sections = [
        f"### Part {n}\n\nA hinge opens by default.\n\n{'It is so. ' * 60}" for n in range(9)
    ]
    sections[6] = sections[6].replace("default", "default, ajar")
    for encoder in (None, Comparing("ajar")):
        pool = documented({"src/gate.py": "import hinge\n\nvalue = 1\n"})
        pool.results["read_docs"] = ["\n\n".join(sections)]
        prompt = "How far does a Hinge open by default?"
        ran = await gathered(pool, prompt, encoder=encoder)
        first, *_ = ran.state.passages
        assert ("ajar" in first.text) == (encoder is not None)


async def test_what_documentation_contains_stands_somewhere() -> None:
    """Though no file does."""
    ran = await planned(
        Fast({"search": ["hinge", "max_angle"], "wants": "short answer"}),
        found("Yes"),
        second("Yes"),
        pool=documented({"src/gate.py": "import hinge\n\nvalue = 1\n"}),
        prompt="Does a Hinge open up to its max_angle?",
    )
    assert "max_angle" in ran.asked[0].last.partition("<result>")[2]
    assert (ran.state.status, ran.state.answer) == ("partial", "Yes")


async def test_a_word_of_a_question_is_not_looked_up_as_a_library() -> None:
    """Lock files list all kinds of words."""
    pool = documented({"package-lock.json": '"which": "^1.2.9"\n', "src/gate.js": "gate = 1\n"})
    ran = await gathered(pool, "In which file is the gate?")
    assert asked_documentation(ran) == []


async def test_words_that_many_files_define_do_not_choose_the_files_to_read() -> None:
    files = {f".github/workflows/w{n}.yml": "default: 1\nname: x\n" for n in range(9)}
    files["src/serve.py"] = "def listen():\n    # the default port\n    return 8080\n"
    pool = DictionaryPool(files, specs=[SEARCH, READ_WHOLE, LIST])
    ran = await gathered(pool, "What is the default port that it should listen on?")
    assert read(ran)[0] == "src/serve.py"


async def test_a_search_that_ends_at_a_limit_is_completed_word_by_word() -> None:
    common = {f"src/m{n}.py": "value = 1\n" * 4 for n in range(30)}
    pool = Limited(common | {"src/scheduler.py": "SCHEDULER = 2\n"}, specs=[SEARCH, READ_WHOLE])
    ran = await gathered(pool, "Which value has the scheduler?")
    assert "src/scheduler.py" in read(ran)
    assert not ran.state.answer.startswith("No file contains")


class Stuck(DictionaryPool):
    """Its second file cannot be read, nor refused."""

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        if arguments.get("path", "").startswith("stuck"):
            await anyio.sleep_forever()
        return await super().call(tool, arguments)


@pytest.mark.parametrize(
    ("tools", "named"),
    [([SEARCH, READ_WHOLE], []), ([READ, LIST], [{"lists": "list_dir", "reads": "read_file"}])],
)
async def test_what_was_found_until_the_time_for_it_was_over_is_read(
    tools: list[ToolSpec], named: list[dict[str, Any]]
) -> None:
    pool = Stuck({"gates.py": SOURCE, "stuck/other.py": SOURCE}, specs=tools)
    ran = await planned(
        *(*named, found(ANSWER), second(ANSWER)),
        pool=pool,
        prompt="What does open_gate return, in gates.py?",
        limits=Limits(seconds=3),
    )
    assert "gates.py" in {each.source for each in ran.state.passages}
    assert (ran.state.status, ran.state.answer) == ("answered", ANSWER)
    assert ran.results[-1][1] is Outcome.TIMEOUT


class Limited(DictionaryPool):
    """Its search shows the first ten lines."""

    def _search(self, pattern: str, path: str = "") -> Iterator[str]:
        yield from islice(super()._search(pattern, path), 10)


async def test_a_library_that_is_not_documented_is_passed_over() -> None:
    pool = documented({"src/gate.py": "import hinge\n\nvalue = 1\n"})
    pool.results["find_library"] = ["No libraries found."]
    ran = await gathered(pool, "How far does a Hinge open by default?")
    assert [each["name"] for each in asked_documentation(ran)] == ["Hinge"]
    assert (ran.state.status, ran.state.reason) == (
        "partial",
        "no line of the results was found that says it",
    )


# For a long answer


async def explained(files: dict[str, str], prompt: str, *search: str) -> str:
    """All that is shown for a long answer that is read in one go."""
    pool = DictionaryPool(files, specs=[SEARCH, READ_WHOLE, FIND, LIST])
    pool.results["find_file"] = [
        json.dumps({"files": [path for path in files if "README" in path]})
    ]
    ran = await planned(
        Fast({"search": [*search], "wants": "long answer"}),
        Unconstrained(f"It is told:\n- `WIDTH_OF_GATES` is 31{', so wide' * 20}."),
        pool=pool,
        prompt=prompt,
    )
    (gathered,) = [each.gathered for each in ran.state.iterations if each.gathered]
    return "\n".join(map(passage, gathered.passages))


async def test_the_file_that_defines_what_a_long_answers_subject_calls_is_read() -> None:
    files = {
        "gates.py": "def cross_over(total):\n    return begin_toll(total, WIDTH_OF_GATES)\n",
        "tolls.py": "WIDTH_OF_GATES = 31\ndef begin_toll(total, width):\n    return total.taxed\n",
    }
    assert "total.taxed" in await explained(files, "Explain how cross_over works", "cross_over")


async def test_a_projects_introduction_is_shown_though_no_word_leads_to_it() -> None:
    files = {"width.py": "WIDTH_OF_GATES = 31\n", "README.md": "# Locks\n\nLets barges pass.\n"}
    assert "Lets barges pass." in await explained(files, "Explain the gates", "gates")
