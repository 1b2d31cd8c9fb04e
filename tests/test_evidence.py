"""The evidence of an answer says it, and an answer without any says so; as clients see it."""
# ruff: noqa: E501  texts stand as clients see them

import json
from typing import Any

import anyio.to_thread
import pytest
from inline_snapshot import snapshot
from replies import conclusion, found, nowhere, plan, second
from scripted_ollama import ScriptedOllama
from serving import Place, normalised, text

pytestmark = pytest.mark.anyio

FILES = {
    "server.py": "def listen():\n    port = 8123\n    return port\n",
    "texts.py": "MAX_CHARS = 600\n\n\ndef cut(text):\n    return text[:MAX_CHARS]\n",
    "counts.py": "OLD_COUNT = 8123\n",
    "limits.py": "LIMIT = 45\n",
}
PORT = "On which port does the server listen?"


@pytest.fixture
def place(own_place: Place) -> Place:
    for name, content in FILES.items():
        (own_place.project / name).write_text(content)
    return own_place


def read_as(*search: str) -> dict[str, Any]:
    return {"search": list(search), "wants": "short answer"}


PROVED = {
    "a line with the words of the question": (
        (PORT, "port"),
        "The server listens on port 8123.",
        [("server.py", ["8123"], ["port = 8123"])],
    ),
    "nothing but a number": (
        (PORT, "port"),
        "8123",
        [("server.py", ["8123"], ["port = 8123"])],
    ),
    "the digits also for another reason": (
        (PORT, "port", "count"),
        "The server listens on port 8123.",
        [("server.py", ["8123"], ["port = 8123"])],
    ),
    "another language": (
        ("Auf welchem Port lauscht der Server?", "port"),
        "Der Port ist 8123.",
        [("server.py", ["8123"], ["port = 8123"])],
    ),
    "a name that another line is about": (
        ("How long may a cut text be?", "cut", "text"),
        "At most 600 characters.",
        [("texts.py", ["600"], ["MAX_CHARS = 600"])],
    ),
}
"""A question and what is searched for, the answer, and its evidence."""


@pytest.mark.parametrize("case", PROVED)
async def test_the_evidence_is_the_line_that_says_it(
    case: str, place: Place, ollama: ScriptedOllama
) -> None:
    (prompt, *search), answer, evidence = PROVED[case]
    ollama.expect(read_as(*search))
    ollama.expect(found(answer))
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt=prompt)
    report = result.whole or {}
    assert (report["status"], report["answer"]) == ("answered", answer)
    told = [
        (each["source"].partition(":")[0], each["claims"], each["lines"])
        for each in report["evidence"]
    ]
    assert told == evidence


def reads_one_file(ollama: ScriptedOllama, path: str, answer: str) -> None:
    for said in (read_as("harbour"), plan("read_file"), {"path": path}, found(answer)):
        ollama.expect(said)


def assert_unproved(report: dict[str, Any], number: str) -> None:
    why = f"the results contain {number}, but not about what was asked"
    assert (report["status"], report["reason"], report["evidence"]) == ("partial", why, [])


async def test_the_same_digits_prove_nothing(place: Place, ollama: ScriptedOllama) -> None:
    reads_one_file(ollama, "limits.py", "It is 45.")
    asked = ("ask", "--json", "How deep may a harbour be?")
    done = await anyio.to_thread.run_sync(place.run, *asked)
    assert_unproved(json.loads(done.stdout), "45")
    assert done.returncode == 1


QUEUE = """# the server
def listen():
    port = 8123  # the port that the server listens on
    one = open("a")
    two = open("b")
    # the most
    backlog = 77
"""


async def test_a_number_of_another_line_does_not_prove_it(
    place: Place, ollama: ScriptedOllama
) -> None:
    """It stands beside a word of the question that many lines have; another number beside more."""
    (place.project / "server.py").write_text(QUEUE)
    reads_one_file(ollama, "server.py", "The port is 77.")
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt="Which is the port?")
    assert_unproved(result.whole or {}, "77")


CALLS = """def take():
    most = 16  # calls at a time
    one = open("a")
    two = open("b")
    three = open("c")
    old = 8123
"""


async def test_the_same_digits_are_no_evidence_beside_another_number(
    place: Place, ollama: ScriptedOllama
) -> None:
    (place.project / "calls.py").write_text(CALLS)
    ollama.expect(read_as("harbour"))
    files = ["server.py", "calls.py"]
    ollama.expect({"steps": [{"objective": f"Read {each}", "tool": "read_file"} for each in files]})
    for each in files:
        ollama.expect({"path": each})
    ollama.expect(found("It listens on port 8123, with 16 calls at a time."))
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt="Wo lauscht er, und wie oft zugleich?")
    told = [each["claims"] for each in (result.whole or {})["evidence"]]
    assert sorted(told) == [["16"], ["8123"]]


NO_STEP = [{"objective": "Think", "tool": None}]
UNPROVED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "no result says 99": (
        [plan("read_file"), {"path": "server.py"}, nowhere(), conclusion("The port is 99.")],
        "The port is 99.",
    ),
    "nothing was looked up for it": (
        [{"steps": NO_STEP}, conclusion("The port is the usual one.")],
        "The port is the usual one.",
    ),
}
"""Why an answer is not certain: what a model says, and the answer."""


@pytest.mark.parametrize("why", UNPROVED)
async def test_an_answer_without_evidence_says_so(
    why: str, place: Place, ollama: ScriptedOllama
) -> None:
    replies, answer = UNPROVED[why]
    ollama.expect(read_as("harbour"))
    for each in replies:
        ollama.expect(each)
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt="Wo lauscht er?")
    report = result.whole or {}
    assert (report["status"], report["answer"], report["reason"]) == ("partial", answer, why)
    assert report["evidence"] == []


@pytest.mark.parametrize(
    ("readings", "answer"),
    [
        (("texts.py:1 (defines MAX_CHARS)", "texts.py:5 (cut uses MAX_CHARS)"), "texts.py"),
        (("texts.py:1 (defines MAX_CHARS)", "texts.py"), "texts.py:1"),
    ],
)
async def test_small_models_answer_with_the_line_above_a_passage(
    readings: tuple[str, str], answer: str, place: Place, ollama: ScriptedOllama
) -> None:
    """What code says there of the passage is left out, and readings of two places agree on their
    file."""
    first, again = readings
    ollama.expect(read_as("MAX_CHARS"))
    ollama.expect(found(first))
    ollama.expect(second(again))
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt="In which file is MAX_CHARS?")
    report = result.whole or {}
    assert (report["status"], report["answer"]) == ("answered", answer)


async def test_a_list_that_a_tool_returns_is_queried_and_every_view_shows_the_query(
    place: Place, ollama: ScriptedOllama
) -> None:
    issues = [{"number": number, "state": state} for number, state in enumerate("abacada")]
    query = "SELECT COUNT(*) FROM say WHERE state = 'a'"
    ollama.expect({"sql": query})
    ollama.expect(conclusion("There are 4 of them."))
    async with place.client() as caller:
        result = await caller.call(
            "run_step",
            prompt="How many issues are in state a?",
            tool="say",
            arguments={"text": json.dumps(issues)},
        )
    assert normalised(text(result)) == snapshot("""\
There are 4 of them.

_Status: partial: it was found by a query that the model wrote; check its conditions_

Call run_step with run_id `RUN` for another step, plan_and_answer with it to conclude.

### Evidence

1. `4`: step 1 (How many issues are in state a?), `query_results`
   ```text
   SELECT COUNT(*) FROM say WHERE state = 'a'
   COUNT(*): 4
   ```

_Run RUN: 1 tool call (0.0 s), 2 model calls (N prompt tokens, N of them cached, N generated, 0.0 s); 0.0 s in all; some 58 tokens of tool results read for an answer of 6_\
""")
    report = result.whole or {}
    assert (report["status"], report["evidence"]) == snapshot(
        (
            "partial",
            [
                {
                    "iteration": 1,
                    "step": 1,
                    "tool": "query_results",
                    "source": "",
                    "claims": ["4"],
                    "lines": ["SELECT COUNT(*) FROM say WHERE state = 'a'", "COUNT(*): 4"],
                }
            ],
        )
    )
