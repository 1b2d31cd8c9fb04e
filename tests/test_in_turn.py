"""A request that asks for two things in turn is read so; as clients see it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_memory import DictionaryPool, Fast, Hangs, Said, planned
from inline_snapshot import snapshot
from ollama_replies import Drop
from replies import found, nowhere, second
from scripted_ollama import ScriptedOllama
from serving import Place, text

from planner.agent.reading import NOT_FIRST, ONE_OF_TWO
from planner.checks.claims import both
from planner.evidence.items import in_turn
from planner.protocol import Brief, Limits

pytestmark = pytest.mark.anyio

BASE = "In which file is the base of Gull defined?"
FILES = {
    "birds/gull.py": "from birds.waders import Shorebird\n\n\nclass Gull(Shorebird):\n    pass\n",
    "birds/waders.py": 'class Shorebird:\n    """Lives at the water."""\n',
}


@pytest.fixture
def place(own_place: Place) -> Place:
    for name, content in FILES.items():
        (own_place.project / name).parent.mkdir(exist_ok=True)
        (own_place.project / name).write_text(content)
    return own_place


def two_questions(first: str, then: str) -> dict[str, Any]:
    return {"search": ["Gull", "base"], "wants": "short answer", "first": first, "then": then}


FIRST, THEN = "Which class is the base of Gull?", "In which file is [it] defined?"


async def test_the_rest_is_asked_with_what_was_found(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(two_questions(FIRST, THEN))
    ollama.expect(found("The base of Gull is Shorebird."))
    ollama.expect(second("Shorebird"))
    ollama.expect(found("Shorebird is defined in birds/waders.py."))
    ollama.expect(second("birds/waders.py"))
    async with place.client() as caller:
        done = await caller.call("plan_and_answer", prompt=BASE)
    assert done.structured_content is not None
    report = done.structured_content
    assert report["status"] == "answered"
    assert report["answer"].splitlines() == [
        "The base of Gull is Shorebird.",
        "Shorebird is defined in birds/waders.py.",
    ]
    asked = [each.last for each in ollama.requests]
    assert any(f"\nRequest: {FIRST}\n" in each for each in asked)
    assert any("\nRequest: In which file is Shorebird defined?\n" in each for each in asked)
    assert report["plan"] == snapshot(
        ["[x] Which class is the base of Gull?", "[x] In which file is Shorebird defined?"]
    )
    assert "In which file is Shorebird defined?" in text(done)


async def test_a_first_question_without_an_answer_leaves_the_request_as_a_whole(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(two_questions(FIRST, THEN))
    ollama.expect(nowhere())
    ollama.expect(found("It is defined in birds/waders.py."))
    ollama.expect(second("birds/waders.py"))
    async with place.client() as caller:
        done = await caller.call("plan_and_answer", prompt=BASE)
    assert done.structured_content is not None
    assert done.structured_content["answer"] == "It is defined in birds/waders.py."
    read = [each.last for each in ollama.requests if "final_answer" in each.keys]
    assert len(read) == 2
    newest = [each.rpartition("Passages for ")[2] for each in read]
    assert all("class Gull(Shorebird):" in each for each in newest)  # beside either question


async def test_questions_that_code_did_not_take_are_not_read_later(
    place: Place, ollama: ScriptedOllama
) -> None:
    """A small model may write an answer there, and then believes it."""
    ollama.expect(two_questions("What is the base of Gull?", "It is Bird."))
    ollama.expect(found("Shorebird"))
    ollama.expect(second("Shorebird"))
    async with place.client() as caller:
        await caller.call("plan_and_answer", prompt="What is the base of Gull?")
    _, *later = [str(each.messages) for each in ollama.requests if "search" not in each.keys]
    assert all('{"search":["Gull","base"],"wants":"short answer"}' in each for each in later)
    assert not any("It is Bird." in each for each in later)


async def test_the_first_answer_stays_where_the_time_ends_the_second() -> None:
    ran = await planned(
        Fast(two_questions(FIRST, THEN)),
        *(found("The base of Gull is Shorebird."), second("Shorebird")),
        *(found("Shorebird is defined in birds/waders.py."), Hangs()),
        pool=DictionaryPool(FILES),
        prompt=BASE,
        limits=Limits(seconds=3),
    )
    assert ran.state.answer.splitlines() == [
        "The base of Gull is Shorebird.",
        "Shorebird is defined in birds/waders.py.",
    ]
    assert ran.state.status == "partial"


PORT = "What is the default port and who maintains this?"
PARTS = ("What is the default port?", "Who maintains this?")
ABOUT = {"about.md": "The default port is 8080.\n\nAnna Berg maintains this.\n"}


@pytest.mark.parametrize(
    ("said", "answer", "reason"),
    [
        (
            [found("The default port is 8080."), found("Anna Berg maintains this.")],
            *("The default port is 8080.\nAnna Berg maintains this.", None),
        ),
        ([found("The default port is 8080."), nowhere()], "The default port is 8080.", ONE_OF_TWO),
        (
            [
                *(found("The default port is 8080."), second("9090")),
                found("Anna Berg maintains this."),
            ],
            "The default port is 8080.\nAnna Berg maintains this.",
            "Two readings of the results differ: 9090",
        ),
        (
            [nowhere(), found("Anna Berg maintains this.")],
            *("Anna Berg maintains this.", NOT_FIRST),
        ),
    ],
)
async def test_each_of_two_questions_needs_an_answer(
    said: list[Said], answer: str, reason: str | None
) -> None:
    ran = await planned(
        Fast(two_questions(*PARTS) | {"search": ["port", "maintainer"]}),
        *said,
        pool=DictionaryPool(ABOUT),
        prompt=PORT,
    )
    assert (ran.state.answer, ran.state.reason) == (answer, reason)
    assert ran.state.status == ("partial" if reason else "answered")


TWO = [
    (PORT, *PARTS),
    ("默认端口是什么？谁维护它？", "默认端口是什么？", "谁维护它？"),
    (BASE, FIRST, THEN),
    (
        "value of the constant open_store compares with",
        "Which constant does open_store compare with?",
        "What is the value of [it]?",
    ),
    (
        "Wie groß ist der Vorrat, den open_store prüft?",
        "Welchen Vorrat prüft open_store?",
        "Wie groß ist [it]?",
    ),
]
ONE = [
    ("Who maintains this, and the port?", "Who maintains this?", "What is the port?"),
    (
        "Which function calls close_all?",
        "Which function calls close_all?",
        "Where is [it] defined?",
    ),
    ("Which file reads a page?", "Which file reads a page?", "In which file is [it]?"),
    ("How large is a chunk by default?", "How large is a chunk?", "What is the default size?"),
    ("Where does `gull` call `tern`?", "What does it call?", "Where is [it] called?"),
    (
        "In which file and on which line is `open_store` defined?",
        "Which class or function defines open_store?",
        "In which file and on which line is [it] defined?",
    ),
    (
        "In which file and line is the function open_store defined?",
        "Which function defines open_store?",
        "In which file is [it] defined?",
    ),
    ("Where is Gull defined?", "Where is [it] defined?", "Where is [it] defined?"),
    ("Where is Gull defined?", "", "Where is [it] defined?"),
]


def split(first: str, then: str) -> Brief:
    return Brief(search=["x"], first=first, then=then)


@pytest.mark.parametrize(("request_", "first", "then"), TWO)
def test_two_things_in_turn(request_: str, first: str, then: str) -> None:
    assert in_turn(split(first, then), request_)


@pytest.mark.parametrize(("request_", "first", "then"), ONE)
def test_a_single_question_of_which_a_model_made_two(request_: str, first: str, then: str) -> None:
    assert not in_turn(split(first, then), request_)


@given(st.text(), st.text(), st.text())
def test_any_reply_is_read(request_: str, first: str, then: str) -> None:
    assert in_turn(split(first, then), request_) in (True, False)


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("`LIMIT` is used. Its value is 40.", "The value of LIMIT is 40.", 0),
        ("LIMIT", "The value of LIMIT is 40.", 1),
        ("The base is Shorebird.", "birds/waders.py", 2),
    ],
)
def test_of_two_answers_the_one_that_says_both_is_enough(
    first: str, second: str, told: int
) -> None:
    assert both(first, second) == [first, second, f"{first}\n{second}"][told]


async def test_a_second_question_without_an_answer_leaves_the_first_ones(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(two_questions(FIRST, THEN))
    ollama.expect(found("The base of Gull is Shorebird."))
    ollama.expect(second("Shorebird"))
    ollama.expect(Drop("{"))
    async with place.client() as caller:
        done = await caller.call("plan_and_answer", prompt=BASE)
    report = done.structured_content or {}
    assert (report["status"], report["answer"]) == ("partial", "The base of Gull is Shorebird.")
    assert report["reason"].startswith("only the first of its two questions was answered; ")
