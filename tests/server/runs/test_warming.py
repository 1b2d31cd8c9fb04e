"""What models read while no run is on."""

import pytest
from fastmcp import FastMCP
from notes import Person
from ollama_replies import Hang
from replies import deed, found, plan, was_done
from scripted_ollama import ScriptedOllama, hung_up
from serving import Place, connected

from server.app import build

pytestmark = pytest.mark.anyio

READY = ["Are you ready?"]


@pytest.fixture
def server(notes_place: Place, ollama: ScriptedOllama) -> FastMCP:
    """A server that has warmed up, and is asked to note something."""
    settings = notes_place.settings
    models = settings.models.model_copy(update={"warm_up": True})
    ollama.expect("Y", contains=READY)
    ollama.expect(deed("notes"))
    ollama.expect(plan("add_note"))
    ollama.expect({"text": "hello"})
    ollama.expect(was_done("It is noted."))
    return build(settings.model_copy(update={"models": models}))


async def test_after_an_action_the_instructions_are_read_again(
    server: FastMCP, ollama: ScriptedOllama
) -> None:
    async with connected(server, Person(True), "auto") as caller:
        await ollama.arrived(1)
        ollama.expect("Y", contains=READY)
        await caller.call("plan_and_answer", prompt="Note hello and count the notes")
        await ollama.arrived(5)
    first, *_, last = ollama.requests
    assert last.messages == first.messages


async def test_they_are_read_no_longer_once_a_run_begins(
    server: FastMCP, ollama: ScriptedOllama
) -> None:
    async with connected(server, Person(True), "auto") as caller:
        await ollama.arrived(1)
        ollama.expect(Hang(), contains=READY)
        await caller.call("plan_and_answer", prompt="Note hello and count the notes")
        await ollama.arrived(5)
        ollama.expect(plan("count_notes"))
        ollama.expect(found("There is 1 note."))
        await caller.call("plan_and_answer", prompt="How many notes are there?")
    assert await hung_up(ollama.requests[4])
