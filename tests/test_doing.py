"""What an answer says was done is what was done: by the journal, whatever a model says of it."""

from typing import Any

import openai
import pytest
from notes import CALL, Person, noted, report
from scripted_ollama import FAST, FULL, ScriptedOllama
from serving import Place, conclusion, deed, found, plan, served, text

from server import auth
from server.app import build

pytestmark = pytest.mark.anyio

CLAIM = "The note hello was added."
KEY = "0123456789abcdef"


@pytest.fixture
def place(notes_place: Place) -> Place:
    return notes_place


@pytest.mark.parametrize("tool", [None, "count_notes"])
async def test_a_step_that_wants_a_change_has_not_made_it_by_reading(
    tool: str | None, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(deed("note"))
    ollama.expect({"tool": tool})
    ollama.expect(conclusion(CLAIM))
    async with place.client(person=Person()) as caller:
        result = await caller.call("run_step", prompt="Note hello")
    told = "Nothing was changed: no call that changes anything was made."
    assert (report(result)["status"], report(result)["answer"]) == ("failed", told)
    assert CLAIM not in text(result)


async def test_a_step_where_nothing_can_be_changed_is_refused(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(deed("note"))
    ollama.expect({"tool": "count_notes"})
    ollama.expect(conclusion(CLAIM))
    async with place.client() as caller:
        result = await caller.call("run_step", prompt="Note hello")
    told = "Nothing was changed: this run may only use tools that read."
    assert (report(result)["status"], report(result)["answer"]) == ("refused", told)


async def test_a_step_that_only_sounds_like_a_change_keeps_its_answer(
    place: Place, ollama: ScriptedOllama
) -> None:
    """A small model takes "how do I …" for one."""
    ollama.expect(deed("note"))
    ollama.expect({"tool": "count_notes"})
    ollama.expect(conclusion("There are 0 notes."))
    async with place.client(person=Person()) as caller:
        result = await caller.call("run_step", prompt="How do I count the notes?")
    assert report(result)["status"] == "partial"
    assert report(result)["answer"] == (
        "There are 0 notes.\n\nNothing was changed: no call that changes anything was made."
    )


async def test_a_conclusion_says_which_steps_of_its_run_were_not_made(
    place: Place, ollama: ScriptedOllama
) -> None:
    claim = "The notes hello and farewell were added."
    farewell = CALL | {"prompt": "Note farewell", "arguments": {"text": "farewell"}}
    for said in ("It is noted.", "It is noted.", claim, "It is one."):
        ollama.expect(conclusion(said))
    async with place.client(person=Person(True, False)) as caller:
        run = {"run_id": report(await caller.call("run_step", **CALL))["run_id"]}
        await caller.call("run_step", **farewell, **run)
        results = [await caller.call("plan_and_answer", prompt="", **run)]
        again = {"prompt": "How many?", **run}
        results.append(await caller.call("plan_and_answer", **again))
    assert noted(place.project) == [["hello", "nobody"]]
    not_done = (
        'Not done, as far as is known:\n- add_note {"text": "farewell"}: not approved (the user '
        "said no)"
    )
    assert [(each["status"], each["answer"]) for each in map(report, results)] == [
        ("partial", f'What was done:\n- add_note {{"text": "hello"}}\n\n{not_done}'),
        ("partial", f"It is one.\n\n{not_done}"),
    ]


async def test_of_two_changes_only_the_one_that_was_made_is_said_to_be_done(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(deed("notes"))
    steps = [{"objective": f"Note {each}", "tool": "add_note"} for each in ("hello", "farewell")]
    ollama.expect({"main_objective": "Note both", "steps": steps})
    ollama.expect({"text": "hello"})
    ollama.expect({"text": "farewell"})
    ollama.expect(found("Hello and farewell are noted."))
    prompt = "Note hello and farewell"
    async with place.client(person=Person(True, False)) as caller:
        result = await caller.call("plan_and_answer", prompt=prompt)
    assert noted(place.project) == [["hello", "nobody"]]
    assert report(result)["status"] == "partial"
    assert report(result)["answer"] == (
        'What was done:\n- add_note {"text": "hello"}\n\nNot done, as far as is known:\n'
        '- add_note {"text": "farewell"}: not approved (the user said no)'
    )


@pytest.mark.parametrize("face", ["mcp", "openai"])
async def test_what_is_only_talk_says_that_nothing_was_done(
    face: str, place: Place, ollama: ScriptedOllama
) -> None:
    """A model that takes an order for talk replies to it at once."""
    ollama.expect({"search": [], "reply": CLAIM})
    told = "nothing was looked up or changed for this reply"
    if face == "mcp":
        async with place.client(person=Person()) as caller:
            said = text(await caller.call("plan_and_answer", prompt="Note hello"))
    else:
        with served(build(place.settings, auth=auth.Tokens([KEY]))) as url:
            base = f"{url.removesuffix('/mcp')}/v1"
            async with openai.AsyncOpenAI(base_url=base, api_key=KEY, max_retries=0) as client:
                asked: Any = [{"role": "user", "content": "Note hello"}]
                reply = await client.chat.completions.create(model="planloom", messages=asked)
        said = reply.choices[0].message.content or ""
    assert CLAIM in said
    assert told in said


async def test_a_greeting_is_answered_by_a_greeting(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect({"search": [], "reply": "Good day. What shall I look up?"})
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt="Hi!")
    assert (report(result)["status"], report(result)["reason"]) == ("answered", None)


async def test_a_change_is_chosen_and_argued_by_the_full_model_in_a_plan(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANLOOM_FAST_MODEL", FAST)
    ollama.expect(deed("note"), model=FAST)
    ollama.expect(plan("add_note"), model=FULL)
    ollama.expect({"text": "hello"}, model=FULL)
    ollama.expect(found("It is added."), model=FULL)
    async with place.client("stdio-legacy", Person(True)) as caller:
        result = await caller.call("plan_and_answer", prompt="Note hello")
    assert report(result)["status"] == "answered"
    told = [each["type"] for each in caller.progress.events]
    assert told.index("plan_made") < told.index("approval_asked") < told.index("tool_called")
    assert noted(place.project) == [["hello", "nobody"]]
