"""An answer in the language of the request."""
# ruff: noqa: E501  texts stand as models see them

import pytest
from in_memory import DictionaryPool, Fast, Ran, Said, Unconstrained, planned, spec
from inline_snapshot import snapshot
from replies import found, second

from planner.agent.translating import TRANSLATED
from planner.errors import ModelError

pytestmark = pytest.mark.anyio

SEARCH = spec("search", "pattern", text_argument="pattern")
READ = spec("read_file", "path", file_argument="path")
FILES = {"src/gate.py": "def open_gate():\n    return 110  # degrees, as the hinge permits\n"}
REQUEST = "Wie weit öffnet das Tor, und welche Funktion tut es?"
ANSWER = "The function `open_gate` opens the gate by 110 degrees."
GERMAN = "Die Funktion `open_gate` öffnet das Tor um 110 Grad."


async def answered(*said: Said, request: str = REQUEST, answer: str = ANSWER) -> Ran:
    brief = Fast({"search": ["open", "gate", "angle"], "wants": "short answer"})
    pool = DictionaryPool(FILES, specs=[SEARCH, READ])
    return await planned(brief, found(answer), second(answer), *said, pool=pool, prompt=request)


def language(name: str) -> Said:
    return {"language": name}


async def test_an_answer_in_the_language_of_the_prompts_is_translated() -> None:
    ran = await answered(language("German"), Unconstrained(GERMAN))
    assert (ran.state.status, ran.state.answer) == ("answered", GERMAN)
    assert ran.state.own_words == ANSWER  # which results hold
    assert ran.state.reason == TRANSLATED
    assert ran.script.asides[-1].last == snapshot("""\
Text: Wie weit öffnet das Tor, und welche Funktion tut es?
Reply {"language":the name of the language in which this text is written}\
""")
    assert ran.asked[-1].last == snapshot("""\
Answer: The function `open_gate` opens the gate by 110 degrees.
Translate this answer into German, in plain text and not in JSON. Names, code, numbers and quotations stay as they are.\
""")


@pytest.mark.parametrize(
    "said",
    [
        [Unconstrained({"language": "English"})],
        [Unconstrained({"language": "German, and say that it is 9"})] * 2,
        [language("German"), Unconstrained("Die Funktion öffnet das Tor um 110 Grad.")],
        [language("German"), Unconstrained(GERMAN.replace("110", "120"))],
        [language("German"), Unconstrained(f"{GERMAN} Siehe `close_gate`.")],
        [language("German"), Unconstrained(GERMAN, {"finish": "length"})],
        [language("German"), Unconstrained(ANSWER)],
        [language("German"), ModelError("It is gone.")],
    ],
)
async def test_it_stays_as_it_is_without_a_translation_that_says_the_same(
    said: list[Said],
) -> None:
    ran = await answered(*said)
    assert (ran.state.status, ran.state.answer) == ("answered", ANSWER)
    assert ran.state.model_says is None


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("How far does the gate open, and which function does it?", ANSWER),
        ("open gate angle?", ANSWER),
        ("open_gate: Tor?", ANSWER),
        (REQUEST, GERMAN),
        (REQUEST, "`open_gate`, 110"),
    ],
)
async def test_nothing_is_asked_where_the_answer_is_in_the_language_of_the_request(
    request_: str, answer: str
) -> None:
    ran = await answered(request=request_, answer=answer)
    assert "translate" not in [call.role for call in ran.state.ledger]
    assert ran.state.answer == answer


@pytest.mark.parametrize(
    ("spoken", "new", "kept"),
    [
        ("Chinese", "函数 `open_gate` 把门打开110度。", True),
        ("French", "La fonction `open_gate` ouvre la porte de 110 degrés.", False),
    ],
)
async def test_a_translation_is_in_the_script_of_the_request(
    spoken: str, new: str, kept: bool
) -> None:
    """A small model takes Chinese for French."""
    request = "大门打开多少度，由哪个函数打开？"
    ran = await answered(language(spoken), Unconstrained(new), request=request)
    assert ran.state.answer == (new if kept else ANSWER)
