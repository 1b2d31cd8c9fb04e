"""Requests that are lists of requests."""

import pytest
from in_memory import ALLOWED, DictionaryPool, Fast, Said, Unconstrained, more_files, planned
from planted import CLASS, CONSTANT, FUNCTION, SOURCE, VALUE
from replies import conclusion, deed, found, nowhere, plan, was_done, words

from planner.errors import ModelUnavailable
from planner.events import ItemStarted
from planner.protocol import Limits

pytestmark = pytest.mark.anyio

VALUE_ASKED = f"What is {CONSTANT}?"
PLACE_ASKED = f"In which file is {FUNCTION}?"
WRITE_ORDERED = "Write 'Closed on Monday' to notes/hours.md"
IN_FILE = f"{FUNCTION} is in jobs/secret.py."


@pytest.fixture
def pool() -> DictionaryPool:
    return DictionaryPool({"jobs/secret.py": SOURCE, "notes/hours.md": "Hours\n"})


def looked_in_vain(*other_words: str) -> list[Said]:
    """What is said of a question whose answer stands nowhere."""
    return [
        nowhere(),
        Fast(words(*other_words)),
        plan("list_dir"),
        {"path": "jobs"},
        nowhere(),
        conclusion("Not found.", success=False),
    ]


def hours_written() -> list[Said]:
    """What is said of `WRITE_ORDERED`."""
    call = {"path": "notes/hours.md", "text": "Closed on Monday"}
    return [Fast(deed("hours")), plan("write_file"), call, was_done("notes/hours.md was written.")]


async def test_each_item_is_met_by_itself(pool: DictionaryPool) -> None:
    ran = await planned(
        found(f"{CONSTANT} is {VALUE}."),
        found(IN_FILE),
        pool=pool,
        prompt=f"Please answer:\n1. {VALUE_ASKED}\n2. {PLACE_ASKED}",
        limits=Limits(seconds=100, iterations=8),
    )
    assert ran.state.answer == f"1. {CONSTANT} is {VALUE}.\n2. {IN_FILE}"
    assert ran.state.status == "answered"
    begun = [event for event in ran.events if isinstance(event, ItemStarted)]
    assert [(each.number, each.of) for each in begun] == [(1, 2), (2, 2)]
    asked = [part.request.prompt for part in ran.state.parts]
    assert asked == [f"Please answer:\n{VALUE_ASKED}", f"Please answer:\n{PLACE_ASKED}"]
    assert [(part.ends_at, part.request.limits.iterations) for part in ran.state.parts] == [
        (50, 4),
        (100, 4),
    ]
    assert ran.state.request
    assert ran.state.request.prompt.startswith("Please answer:\n1.")
    quotes = "\n".join(ran.state.quotes)
    assert f"{CONSTANT} = {VALUE}" in quotes
    assert f"def {FUNCTION}" in quotes
    *_, last = ran.asked
    assert "What is" in last.messages[1]["content"]
    assert f"{CONSTANT} is {VALUE}." in last.messages[1]["content"]  # the answer before
    assert last.text.count(f"def {FUNCTION}") == 1  # and nothing else of it


async def test_an_item_has_the_time_that_others_have_left(pool: DictionaryPool) -> None:
    more_files(pool)
    told = f"`{CLASS}` has a method `run`, which returns `{CONSTANT}`.\n{CONSTANT} is {VALUE}."
    ran = await planned(
        found(f"{CONSTANT} is {VALUE}."),
        Fast({"search": ["phoenix"], "wants": "long answer"}),
        Unconstrained(told, {"decode_seconds": 45.0}),
        *(Unconstrained("- `phoenix_5` is a function."), Unconstrained("-")),
        pool=pool,
        prompt=f"1. {VALUE_ASKED}\n2. How does {CLASS} work?",
        context_tokens=16_384,
        limits=Limits(seconds=200),
    )
    assert "`phoenix_5` is a function." in ran.state.answer


async def test_a_number_within_the_lines_of_a_list_begins_no_item(pool: DictionaryPool) -> None:
    questions = [f"Ist der 2. Wert {CONSTANT}?", f"Wo steht die 3. Funktion, {FUNCTION}?"]
    ran = await planned(
        found(f"{CONSTANT} = {VALUE}"),
        found(IN_FILE),
        pool=pool,
        prompt=f"1. {questions[0]}\n2. {questions[1]}",
    )
    assert [part.request.prompt for part in ran.state.parts] == questions


@pytest.mark.parametrize(
    "prompt",
    [
        f"请回答：（1）{CONSTANT}是多少？（2）{FUNCTION}在哪个文件？",
        f"Απάντησε: 1. Πόσο είναι το {CONSTANT} εδώ; 2. Σε ποιο αρχείο είναι η {FUNCTION} εδώ;",
    ],
)
async def test_a_list_has_the_marks_of_its_language(pool: DictionaryPool, prompt: str) -> None:
    said = found(f"{CONSTANT} = {VALUE}"), found(IN_FILE)
    ran = await planned(*said, pool=pool, prompt=prompt)
    assert ran.state.answer == f"1. {CONSTANT} = {VALUE}\n2. {IN_FILE}"
    assert ran.state.status == "answered"


@pytest.mark.parametrize("log", ["", "\n\nThis was logged:\n" + "WARN A worker waits.\n" * 99])
async def test_many_items_fit_into_a_small_context(log: str, pool: DictionaryPool) -> None:
    questions = [f"{n}. What is {CONSTANT} on day {n}?" for n in range(1, 9)]
    pool.files["jobs/long.py"] = "\n\n".join(
        f"def use_{n}() -> int:\n    # {'constant days ' * 20}\n    return {CONSTANT} + {n}"
        for n in range(40)
    )
    ran = await planned(
        *[found(f"{CONSTANT} is {VALUE}.")] * 8,
        pool=pool,
        prompt="\n".join(questions) + log,
        context_tokens=4096,
    )
    assert ran.state.status == "answered"
    assert ran.state.answer.count(str(VALUE)) == 8
    lengths = [len(asked.text) for asked in ran.asked]
    assert max(lengths) - min(lengths) < 2000


async def test_what_one_item_lacks_makes_the_whole_partial(pool: DictionaryPool) -> None:
    ran = await planned(
        *looked_in_vain("greeting", "hello"),
        found(IN_FILE),
        pool=pool,
        prompt=f"1. Who greets the {CLASS}? 2. {PLACE_ASKED}",
    )
    assert ran.state.answer == f"1. Not found.\n2. {IN_FILE}"
    assert ran.state.status == "partial"


async def test_an_item_may_be_an_order(pool: DictionaryPool) -> None:
    pool.results["write_file"] = ["Written."]
    ran = await planned(
        Fast({"search": ["constant"], "wants": "short answer"}),
        Fast({"search": ["constant"], "wants": "short answer"}),
        found(f"{CONSTANT} is {VALUE}."),
        *hours_written(),
        pool=pool,
        prompt=f"Do this in turn: 1. {VALUE_ASKED} 2. {WRITE_ORDERED}",
        **ALLOWED,
    )
    assert pool.calls[-1] == ("write_file", {"path": "notes/hours.md", "text": "Closed on Monday"})
    call = 'write_file {"path": "notes/hours.md", "text": "Closed on Monday"}'
    assert ran.state.answer == (
        f"1. {CONSTANT} is {VALUE}.\n"
        f"2. What was done:\n   - {call}\n\n   The model says:\n   notes/hours.md was written."
    )
    assert ran.state.status == "answered"


async def test_what_an_order_may_change_the_next_question_may_not(pool: DictionaryPool) -> None:
    pool.results["write_file"] = ["Written."]
    ran = await planned(
        Fast(deed("hours")),
        *hours_written(),
        Fast({"search": ["greeting"], "wants": "short answer"}),
        *looked_in_vain("hello", "welcome"),
        pool=pool,
        prompt=f"1. {WRITE_ORDERED} 2. Who greets the {CLASS}?",
        **ALLOWED,
    )
    offered = [str(asked.schema) for asked in ran.asked if "steps" in str(asked.schema)]
    assert "write_file" in offered[0]
    assert "write_file" not in offered[1]
    assert ran.state.status == "partial"


@pytest.mark.parametrize(
    ("wants", "prompt"),
    [
        ("short answer", "Which of these is right? 1. A constant? 2. A class?"),
        ("action", "Send Tom: 1. When do you come? 2. Where do you stay?"),
        ("action", "1. Create notes/a.md 2. Write 'Hours' to it"),
    ],
)
async def test_a_list_may_belong_to_one_request(
    pool: DictionaryPool, wants: str, prompt: str
) -> None:
    brief = Fast({"search": ["hours"], "wants": wants})
    ran = await planned(brief, ModelUnavailable("over"), pool=pool, prompt=prompt, **ALLOWED)
    assert [part.request.prompt for part in ran.state.parts] == [prompt]
