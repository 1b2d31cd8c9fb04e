"""What upstreams ask, log and report during calls, passed on in both protocol eras, and no
further."""
# ruff: noqa: E501  texts stand as people see them

import json
import os
import pty
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import asking_upstream
import pytest
from fastmcp import FastMCP
from fastmcp.client.elicitation import ElicitResult
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from mcp_types import LoggingMessageNotificationParams
from ollama_replies import Hang
from paths import SUPPORT
from replies import conclusion
from scripted_ollama import ScriptedOllama
from serving import LONG, Caller, Place, normalised, served, text, until
from serving import connected as connected_to

from planner.checks import validation
from planner.events import Event, QuestionAsked, RunResumed, RunStarted
from planner.protocol import RunRequest
from planner.state import RunState
from server import auth
from server.app import build
from server.approval import elicitation
from server.approval.approval import Question
from server.cli import ask
from server.text import clean
from server.upstreams.pins import Pins
from server.views.progress import heartbeat
from server.views.report import report
from server.views.report_text import markdown

pytestmark = pytest.mark.anyio

SPEAKER = SUPPORT / "speaking_upstream.py"
FACES = ("memory", "memory-legacy")
CROSSED = pytest.mark.parametrize(
    ("face", "asker"), [("memory", "legacy"), ("memory-legacy", "modern")], indirect=["asker"]
)
"""Each era on each side, where what counts is one side's."""
MODERN = pytest.mark.parametrize("asker", ["modern"], indirect=True)
ANSWER = "feature-zx81-unguessable"
FORM = {
    "type": "object",
    "properties": {
        "branch": {"type": "string", "title": "Branch", "minLength": 3, "pattern": "^f"},
        "kind": {"type": "string", "enum": ["old", "new"], "default": "new"},
    },
    "required": ["branch"],
}
ASK = {"message": "Which branch?", "form": FORM}


class Asker:
    """An upstream that asks, over HTTP."""

    def __init__(self, url: str, got: list[Any]) -> None:
        self.url, self.got = url, got


@asynccontextmanager
async def connected(
    server: Place | FastMCP | str, face: str, **options: Any
) -> AsyncIterator[Caller]:
    """A client of a server in this process, one of several; of a place, of one of its own."""
    server = build(server.settings) if isinstance(server, Place) else server
    era = face.partition("-")[2] or "auto"
    async with connected_to(server, era=era, **options) as caller:
        yield caller


@pytest.fixture(scope="module", params=["modern", "legacy"])
def asker(request: pytest.FixtureRequest) -> Iterator[Asker]:
    got: list[Any] = []
    server = asking_upstream.build_server(got, legacy=request.param == "legacy")
    with served(server) as url:
        yield Asker(url, got)


@pytest.fixture
def place(
    tmp_path: Path, ollama: ScriptedOllama, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> Place:
    return at(tmp_path, ollama, monkeypatch, {"asker": {"url": asker.url}}, asker)


@pytest.fixture
def speaker(tmp_path: Path, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch) -> Place:
    """With an upstream over stdio."""
    upstream = {"command": "${PLANLOOM_PYTHON}", "args": [str(SPEAKER)]}
    return at(tmp_path, ollama, monkeypatch, {"speaker": upstream})


def at(
    root: Path,
    ollama: ScriptedOllama,
    monkeypatch: pytest.MonkeyPatch,
    upstreams: dict[str, Any],
    asker: Asker | None = None,
) -> Place:
    place = Place(root, ollama, upstreams)
    monkeypatch.setenv("XDG_CACHE_HOME", place.environ["XDG_CACHE_HOME"])
    if asker:
        asker.got.clear()
    return place


class Person:
    """Answers each form with the next of these: fields, or an action."""

    def __init__(self, *answers: dict[str, Any] | str, seconds: float = 0) -> None:
        self.answers, self.seconds = list(answers), seconds
        self.shown: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, message: str, _type: Any, params: Any, _context: Any) -> Any:
        self.shown.append((message, params.requested_schema))
        await anyio.sleep(self.seconds)
        answer = self.answers.pop(0)
        return (
            answer if isinstance(answer, dict) else ElicitResult.model_validate({"action": answer})
        )


async def step(caller: Caller, tool: str, /, **arguments: Any) -> Any:
    """What came back of a call of this tool, with the report of its run."""
    result = await caller.call("run_step", prompt="Do it", tool=tool, arguments=arguments)
    assert result.whole, text(result)
    (call,) = result.whole["actions"][0]["tool_calls"]
    return call["result"], result.whole


def events(caller: Caller, *types: str) -> list[dict[str, Any]]:
    """The last view's events of these types."""
    return [each for each in caller.progress.events if each["type"] in types]


# Questions


@pytest.mark.parametrize("face", FACES)
async def test_a_question_reaches_the_person_and_the_answer_the_upstream_alone(
    face: str, place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("It said yes."), contains=["The user said accept"])
    person = Person({"branch": ANSWER, "kind": "old", "more": "than asked for"})
    async with connected(place, face, person=person) as caller:
        result = await caller.call("run_step", prompt="Do it", tool="ask", arguments=ASK)
    assert asker.got == [("accept", {"branch": ANSWER, "kind": "old"})]
    ((message, form),) = person.shown
    assert normalised(message) == snapshot("""\
asker asks, while it runs ask:
```text
Which branch?
```
Your answer goes to asker alone. If it repeats the answer in a result, models read it, and it is recorded.
For run RUN: "Do it". Without an answer within 120 s, it gets none.\
""")
    assert form == snapshot(
        {
            "type": "object",
            "properties": {
                "branch": {"type": "string", "title": "Branch", "minLength": 3},
                "kind": {"type": "string", "enum": ["old", "new"], "default": "new"},
            },
            "required": ["branch"],
        }
    )
    assert normalised(text(result)) == snapshot("""\
It said yes.

Call run_step with run_id `RUN` for another step, plan_and_answer with it to conclude.

### Questions

- asker asked in `ask`: "Which branch?", answered

_Run RUN: 1 tool call (0.0 s), 1 model call (N prompt tokens, N of them cached, N generated, 0.0 s); 0.0 s in all; some 6 tokens of tool results read for an answer of 3_\
""")
    told = [each for each in caller.progress.messages if "asker" in each]
    assert told[-2:] == snapshot(
        ["asker asks, in ask: Which branch?", "asker got an answer: the user answered"]
    )
    (answered,) = events(caller, "question_answered")
    assert (answered["iteration"], answered["action"], answered["by"]) == (0, "accept", "person")
    # The answer is nowhere else.
    assert ANSWER not in json.dumps(result.whole) + str(caller.progress.events)
    assert not any(ANSWER in str(request.messages) for request in ollama.requests)
    for file in (place.root / "runs").iterdir():
        assert ANSWER.encode() not in file.read_bytes()


async def test_anything_but_an_answer_is_none_and_the_run_goes_on(
    place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    taken: list[tuple[Any, str, str]] = [
        ("decline", "decline", "the user said no"),
        ("cancel", "cancel", "the user gave no answer"),
        ({"branch": "x"}, "cancel", "what came back does not fit the form"),
    ]
    person = Person(*[answer for answer, _, _ in taken])
    async with connected(place, "memory-legacy", person=person) as caller:
        for _, action, reason in taken:
            ollama.expect(conclusion("So be it."), contains=[f"The user said {action}"])
            _, report = await step(caller, "ask", **ASK)
            assert report["status"] == "answered"
            (question,) = report["questions"]
            assert (question["action"], question["reason"]) == (action, reason)
    assert asker.got == [(action, None) for _, action, _ in taken]


@CROSSED
async def test_a_client_that_cannot_ask_holds_nothing_up(
    face: str, place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("Nobody was asked."))
    async with connected(place, face) as caller:
        result, report = await step(caller, "ask", **ASK)
    assert (result, asker.got) == ("The user said cancel", [("cancel", None)])
    assert report["questions"] == snapshot(
        [
            {
                "upstream": "asker",
                "tool": "ask",
                "question": "Which branch?",
                "action": "cancel",
                "reason": "no client that can ask the user follows the run",
            }
        ]
    )


@CROSSED
async def test_no_answer_in_time_is_none(
    face: str, place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    place.approval = {"timeout_s": 0.2}
    ollama.expect(conclusion("Nobody answered."))
    # A client of 2026-07-28 brings its answer in the next call, which comes too late here.
    person = Person({"branch": ANSWER}, seconds=LONG if "legacy" in face else 0.6)
    async with connected(place, face, person=person) as caller:
        _, report = await step(caller, "ask", **ASK)
    assert asker.got == [("cancel", None)]
    assert report["questions"][0]["reason"] == "nobody answered within 0.2 s"


async def test_the_time_a_person_takes_is_neither_the_calls_nor_the_runs(
    place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    place.upstreams["asker"]["call_timeout_s"] = 1
    ollama.expect(conclusion("Fine."))
    person = Person({"branch": ANSWER}, seconds=2.2)
    async with connected(place, "memory-legacy", person=person) as caller:
        result = await caller.call(
            "run_step", prompt="Do it", tool="ask", arguments=ASK, max_seconds=2
        )
    assert result.whole
    assert (result.whole["status"], result.whole["reason"]) == (
        "answered",
        None,
    )
    assert [action for action, _ in asker.got] == ["accept"]


@MODERN
async def test_a_question_for_a_secret_is_marked_and_its_answer_hidden_in_the_result(
    place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    form = {"type": "object", "properties": {"dbPassword": {"type": "string"}}}
    ollama.expect(conclusion("It is connected."), contains=["It was {'dbPassword': '***'}"])
    person = Person({"dbPassword": ANSWER})
    async with connected(place, "memory", person=person) as caller:
        result, report = await step(caller, "ask", message="To connect", form=form, echo=True)
    assert asker.got == [("accept", {"dbPassword": ANSWER})]
    assert result == "It was {'dbPassword': '***'}"
    assert ANSWER not in json.dumps(report)
    assert person.shown[0][0].splitlines()[4] == snapshot(
        "It seems to ask for a secret. MCP forbids that in a form: do not answer unless you know why it needs the secret."
    )


HOSTILE = "Sure?\n```\n\u202eNow approve: \x1b[2J\u200b everything"


@MODERN
async def test_a_hostile_question_is_shown_as_the_upstreams_own(
    place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("Asked."))
    form = {"type": "object", "properties": {"ok": {"type": "boolean", "title": HOSTILE * 30}}}
    person = Person("decline")
    async with connected(place, "memory", person=person) as caller:
        await step(caller, "ask", message=HOSTILE, form=form)
    ((message, shown),) = person.shown
    assert message.partition("\nYour answer")[0] == snapshot("""\
asker asks, while it runs ask:
````text
Sure?
```
Now approve:  everything
````\
""")
    title = shown["properties"]["ok"]["title"]
    assert title.startswith("Sure? ``` Now approve: everythingSure?")
    assert len(title) == elicitation.MAX_LABEL_CHARS


async def test_a_form_the_protocol_does_not_know_is_not_passed_on(
    place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    nested = (
        {"type": "object", "properties": {}},
        "its field it has a type that forms do not support",
    )
    hidden = {"type": "string", "enum": ["a\u202eb"]}
    person = Person()
    async with connected(place, "memory", person=person) as caller:
        for field, why in (nested, (hidden, "its field it has a choice that cannot be shown")):
            ollama.expect(conclusion("Not asked."))
            form = {"type": "object", "properties": {"it": field}}
            _, report = await step(caller, "ask", message="Well?", form=form)
            assert report["questions"][0]["reason"] == f"it was not passed on, since {why}"
    assert (person.shown, asker.got) == ([], [("cancel", None)] * 2)


async def test_an_upstream_that_asks_without_end_is_answered_ten_times(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("Enough."))
    person = Person(*[{"branch": ANSWER}] * 20)
    async with connected(place, "memory-legacy", person=person) as caller:
        result, _ = await step(caller, "nag", form=FORM)
        listed = await caller.call("list_tools")
    assert result in ("That will do", "asker asked for input 10 times, which is the limit")
    assert len(person.shown) == 10
    assert listed.whole
    assert listed.whole["upstreams"][0]["state"] == "ready"


@MODERN
async def test_an_operator_can_do_without_questions(
    place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    place.upstreams["asker"]["questions"] = False
    ollama.expect(conclusion("Not asked."))
    person = Person()
    async with connected(place, "memory", person=person) as caller:
        result, report = await step(caller, "ask", **ASK)
    assert (person.shown, asker.got, report["questions"]) == ([], [], [])
    assert result == snapshot(
        "asker gave up on ask. Elicitation is not supported: `upstreams.yaml` does not permit it for this upstream."
    )


# Pages


async def test_a_page_is_named_and_not_opened(
    place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    person = Person({"done": True}, {"done": False})
    async with connected(place, "memory", person=person) as caller:
        for _ in range(2):
            ollama.expect(conclusion("Fine."))
            await step(caller, "open_page", url="https://login.example/start?for=me")
    assert asker.got == [("accept", None), ("decline", None)]
    assert normalised(person.shown[0][0]) == snapshot("""\
asker asks, while it runs open_page:
```text
Please log in
```
It is about a page of login.example:
```text
https://login.example/start?for=me
```
Open it yourself if you trust asker with it; nothing opens it for you.
For run RUN: "Do it". Without an answer within 120 s, it gets none.\
""")


@pytest.mark.parametrize(
    "url",
    [
        "http://login.example/",
        "javascript:alert(1)",
        "https://google.com@evil.example/",
        "https://xn--/\u0430pple.com",
        "https://\u0430pple.com/",
        "https://a.example/" + "x" * 3000,
        "file:///etc/passwd",
        "https://[broken/",
        "https://a.example:port/",
        "https:///nowhere",
        "https://a.example\\@evil.example/",
    ],
)
def test_an_address_that_hides_where_it_leads_to_is_none(url: str) -> None:
    with pytest.raises(elicitation.Unfit):
        elicitation.page(url)


@pytest.mark.parametrize(
    "url", ["https://a.example:8443/x?y#z", "http://localhost:80/", "http://127.0.0.1/"]
)
def test_an_address_that_may_be_shown_is_shown_whole(url: str) -> None:
    assert elicitation.page(url) == url


@MODERN
async def test_over_http_no_page_is_passed_on(
    place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    """The upstream's session is everybody's, and who logs in would do so for all."""
    for _ in range(2):
        ollama.expect(conclusion("Fine."))
    person, token = Person({"branch": ANSWER}), "mine-0123456789abcdef"
    with served(build(place.settings, auth=auth.Tokens([token]))) as url:
        async with connected(url, "http-legacy", person=person, auth=token) as caller:
            await step(caller, "ask", **ASK)
            _, report = await step(caller, "open_page", url="https://login.example/")
    assert [action for action, _ in asker.got] == ["accept", "cancel"]
    assert report["questions"][0]["reason"] == snapshot(
        "it was not passed on, since it is about a page to open, and others use this server too"
    )


# Whose question it is


@CROSSED
async def test_side_by_side_each_person_gets_his_own_question(
    face: str, place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    """Over HTTP an upstream's question comes with the call it is about."""
    both = anyio.Event()
    answers: list[str] = []

    class Waiting(Person):
        async def __call__(self, message: str, *rest: Any) -> Any:
            answers.append(message)
            if len(answers) == 2:
                both.set()
            await both.wait()
            return await super().__call__(message, *rest)

    async def one(name: str) -> None:
        person = Waiting({"branch": name})
        async with connected(server, face, person=person) as caller:
            await step(caller, "ask", message=f"For {name}?", form=FORM)
        ((message, _),) = person.shown
        assert f"For {name}?" in message

    for _ in range(2):
        ollama.expect(conclusion("Fine."))
    server = build(place.settings)
    async with connected(server, face), anyio.create_task_group() as tasks:
        tasks.start_soon(one, "anna")
        tasks.start_soon(one, "berta")
    assert sorted(content["branch"] for _, content in asker.got) == ["anna", "berta"]


async def test_over_stdio_a_question_is_passed_on_while_only_one_run_calls(
    speaker: Place, ollama: ScriptedOllama
) -> None:
    """Nothing in it says which call it is about."""
    for _ in range(3):
        ollama.expect(conclusion("Fine."))
    person = Person({"branch": ANSWER}, {"branch": ANSWER})
    async with connected(speaker, "memory-legacy", person=person) as caller:
        alone, _ = await step(caller, "ask")
        held: list[Any] = []

        async def hold() -> None:
            held.append(await step(caller, "hold"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await until(lambda: "hold everything" in caller.progress.messages)
            beside, report = await step(caller, "ask")
            ollama.expect(conclusion("Fine."))
            await step(caller, "release")
    assert (alone, beside) == ("The user said accept", "The user said cancel")
    assert (len(person.shown), report["questions"]) == (1, [])
    assert held[0][0] == "released"


# After a restart


@MODERN
async def test_a_run_that_asked_is_resumed_and_asks_no_more(
    place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    ollama.expect(Hang())
    async with connected(place, "memory-legacy", person=Person({"branch": ANSWER})) as caller:
        started = await caller.call("run_step", prompt="Do it", tool="ask", arguments=ASK, wait_s=0)
        assert started.whole
        run_id = started.whole["run_id"]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(caller.call, "get_run", run_id=run_id))
            await ollama.arrived(1)
            tasks.cancel_scope.cancel()
    ollama.expect(conclusion("It said yes."), contains=["The user said accept"])
    person = Person()
    async with connected(place, "memory-legacy", person=person) as caller:
        result = await caller.call("run_step", run_id=run_id)
    assert result.whole
    assert result.whole["answer"] == "It said yes."
    assert [each["action"] for each in result.whole["questions"]] == ["accept"]
    assert (person.shown, len(asker.got)) == ([], 1)


def test_a_question_that_waits_is_told_and_ends_with_its_server() -> None:
    request = RunRequest(prompt="Do it", goal="step")
    started = RunStarted(request=request, listing=None, upstreams=[], tools=["ask"], offered=[])
    asked = QuestionAsked(iteration=None, upstream="asker", tool="ask", text="Which branch?")
    waiting: list[Event] = [started, asked]
    state = RunState.of(waiting)
    head, _, rest = markdown(report("RUN", state, started.at)).partition("\n\n")
    assert [heartbeat(state, 7), head, rest.partition("\n\n_Run")[0]] == snapshot(
        [
            "Waiting for an answer to asker's question, 7 s",
            "Still running. asker asks the user something. Call get_run with run_id `RUN` to ask the user and go on, cancel_run to end it.",
            """\
### Questions

- asker asked in `ask`: "Which branch?", not answered yet\
""",
        ]
    )
    resumed = RunState.of([*waiting, RunResumed(paused=1)])
    assert resumed.unanswered is None
    (question,) = report("RUN", resumed, started.at).questions
    assert (question.action, question.reason) == ("cancel", "the server ended")


# Logs and progress


@CROSSED
async def test_logs_and_progress_show_up_as_the_upstreams(
    face: str, place: Place, ollama: ScriptedOllama
) -> None:
    secret = "tok-51f2c9ab77d0e4-planted"
    place.upstreams["asker"]["headers"] = {"X-Token": secret}
    ollama.expect(conclusion("Done."))
    logs: list[LoggingMessageNotificationParams] = []

    async def heard(message: LoggingMessageNotificationParams) -> None:
        logs.append(message)

    async with connected(place, face, log_handler=heard) as caller:
        result, _ = await step(caller, "work", words=f"\x1b[31mred\u202e {secret}")
        await until(lambda: len(logs) == 20)
    assert result == "worked"
    told = events(caller, "upstream_logged")
    assert [each["text"] for each in told] == [f"log {number} red ***" for number in range(20)]
    assert {(each["upstream"], each["tool"], each["level"]) for each in told} == {
        ("asker", "work", "warning")
    }
    assert {(each.logger, each.level) for each in logs} == {("asker", "warning")}
    first, *_ = events(caller, "tool_progressed")
    assert (first["iteration"], first["total"]) == (0, 50)
    lines = caller.progress.messages
    assert "asker logs (warning): log 0 red ***" in lines
    assert any(each.startswith("work is at ") and each.endswith("red ***") for each in lines)
    assert secret not in str(told) + str(logs)
    assert caller.progress.numbers == sorted(caller.progress.numbers)


async def test_an_upstream_that_says_too_much_is_heard_a_little(
    speaker: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("Done."))
    async with connected(speaker, "memory") as caller:
        result, _ = await step(caller, "chat")
    assert result == "said it all"
    assert 0 < len(events(caller, "upstream_logged")) <= 20


# What an upstream cannot have


async def test_a_model_is_lent_to_nobody(
    place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    for _ in range(2):
        ollama.expect(conclusion("No."))
    async with connected(place, "memory") as caller:
        result, _ = await step(caller, "sample")
        rooted, _ = await step(caller, "folders")
        listed = await caller.call("list_tools")
    assert "Sampling is not supported: Planloom does not lend its models." in result
    assert (
        "Roots are not supported: `upstreams.yaml` does not permit them for this upstream."
        in rooted
    )
    assert listed.whole
    assert listed.whole["upstreams"][0]["state"] == "ready"


# Roots


@CROSSED
async def test_an_upstream_is_told_of_the_operators_folders(
    face: str, place: Place, asker: Asker, ollama: ScriptedOllama
) -> None:
    work, elsewhere = place.root / "work", place.root / "elsewhere"
    place.upstreams["asker"]["roots"] = [str(work)]
    ollama.expect(conclusion("Fine."))
    async with connected(place, face, roots=[elsewhere.as_uri()]) as caller:
        await step(caller, "folders")
    assert asker.got == [[work.as_uri()]]


# Lists of tools


async def test_a_tool_that_is_none_is_left_out_and_the_others_work(
    speaker: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("Fine."))
    async with connected(speaker, "memory") as caller:
        listed = await caller.call("list_tools")
        result, _ = await step(caller, "release")
    assert listed.whole
    (upstream,) = listed.whole["upstreams"]
    assert (upstream["state"], upstream["tools"], result) == ("ready", 5, "released")
    with closing(sqlite3.connect(Pins().file)) as pins:
        pinned = {tool for (tool,) in pins.execute("select tool from pins")}
    assert "release" in pinned
    assert "two\nlines" not in pinned, "the operator would be shown what is no name"
    assert text(listed).partition("### Tools")[0] == snapshot("""\
### Upstreams

- speaker: ready, 5 tools, 5 new and pinned

### Left out, because they are not valid tools

- speaker: a tool without a name: name: Input should be a valid string
- speaker: no_schema: inputSchema: Field required
- speaker: no_schema ### Upstreams: inputSchema: Field required
- speaker: odd: annotations: Input should be a valid dictionary or instance of ToolAnnotations
- speaker: a tool without a name: Input should be a valid dictionary or instance of Tool
- speaker: two lines: the name of the tool has other characters than names in code

""")


# Forms, whatever comes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
CHOICES = st.lists(
    st.fixed_dictionaries({"const": st.text(max_size=5), "title": st.text(max_size=9)}), max_size=3
)
FIELDS = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "number", "integer", "boolean", "array", "object"])},
    optional={
        "title": st.text(),
        "description": st.text(),
        "default": JSON,
        "enum": st.lists(st.text(max_size=5), max_size=3),
        "oneOf": CHOICES,
        "items": st.fixed_dictionaries(
            {}, optional={"enum": st.lists(st.text(max_size=5)), "anyOf": CHOICES}
        ),
        "minLength": JSON,
        "maximum": JSON,
        "format": JSON,
        "$ref": JSON,
    },
)
SCHEMAS = JSON | st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(st.sampled_from("abcd"), FIELDS | JSON),
    },
    optional={"required": st.lists(st.sampled_from("abcdx")) | JSON, "allOf": JSON},
)
PASSED = {
    "type",
    "title",
    "description",
    "default",
    "enum",
    "enumNames",
    "oneOf",
    "items",
    "format",
}
PASSED |= {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"}


@given(SCHEMAS, JSON)
def test_a_form_has_nothing_but_the_protocols_types_and_harmless_texts(
    schema: Any, content: Any
) -> None:
    try:
        built = elicitation.form(schema if isinstance(schema, dict) else {})
    except elicitation.Unfit:
        return
    assert built.keys() <= {"type", "properties", "required"}
    assert len(built["properties"]) <= elicitation.MAX_FIELDS
    for field in built["properties"].values():
        assert field.keys() <= PASSED
        assert field["type"] in ("string", "number", "integer", "boolean", "array")
        assert len(field.get("title", "")) <= elicitation.MAX_LABEL_CHARS
    said = json.dumps(built, ensure_ascii=False)
    assert clean(json.loads(said) and said) == said
    filled = elicitation.filled_in(content if isinstance(content, dict) else None, built)
    assert filled is None or filled.keys() <= built["properties"].keys()


def test_a_field_that_leaves_no_choice_is_not_passed_on() -> None:
    field = {"type": "string", "enum": [], "oneOf": [{"const": "a", "title": "A"}]}
    with pytest.raises(elicitation.Unfit, match="has no choice"):
        elicitation.form({"type": "object", "properties": {"it": field}})


@pytest.mark.parametrize(
    ("said", "chosen"),
    [("a, b", ["a, b"]), ("c,a, b , a", ["c", "a, b", "a"]), ("a,b", ["a", "b"])],
)
def test_a_choice_with_a_comma_can_be_typed(said: str, chosen: list[str]) -> None:
    field = {"type": "array", "items": {"enum": ["a", "b", "c", "a, b"]}}
    built = elicitation.form({"type": "object", "properties": {"it": field}})
    assert elicitation.typed(said, built["properties"]["it"]) == chosen


@given(SCHEMAS, st.text())
def test_what_is_typed_for_a_field_fits_it(schema: Any, said: str) -> None:
    try:
        built = elicitation.form(schema if isinstance(schema, dict) else {})
    except elicitation.Unfit:
        return
    for name, field in built["properties"].items():
        assert name in elicitation.prompt(name, field) or field.get("title") is not None
        try:
            value = elicitation.typed(said, field)
        except ValueError:
            continue
        assert value is None or validation.problem(value, field) is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("apiKey", True),
        ("Your access_token, please", True),
        ("PIN", True),
        ("Which branch?", False),
        ("The author's keyboard", False),
    ],
)
def test_questions_for_secrets_are_recognised(words: str, expected: bool) -> None:
    form = {"type": "object", "properties": {"it": {"type": "string", "title": words}}}
    assert elicitation.asks_for_secret("Well?", form) is expected


# The terminal


async def test_a_form_is_filled_in_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    form = elicitation.form(
        {
            "type": "object",
            "properties": {
                "branch": {"type": "string", "title": "Branch", "minLength": 3},
                "force": {"type": "boolean", "description": "Overwrite it"},
                "depth": {"type": "integer", "default": 1},
                "kinds": {
                    "type": "array",
                    "items": {
                        "anyOf": [{"const": "o", "title": "old"}, {"const": "n", "title": "new"}]
                    },
                },
            },
            "required": ["branch"],
        }
    )
    question = Question("asker asks", form=form)
    told = ""

    async def type_(after: str, line: str) -> None:
        nonlocal told

        def asked() -> bool:
            nonlocal told
            told += capsys.readouterr().err
            return told.endswith(after)

        await until(asked)
        keyboard.write(line.encode() + b"\n")

    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as stdin, os.fdopen(ours, "wb", 0) as keyboard:
        monkeypatch.setattr("sys.stdin", stdin)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask.ask, question)
            await type_("[y/N] ", "y")
            await type_("Branch: ", "x")
            await type_("Branch: ", ANSWER)
            await type_("no): ", "yes")
            await type_("[1]: ", "")
            await type_("new): ", "old, n")
    assert question.result
    assert (question.result.action, question.result.content) == (
        "accept",
        {"branch": ANSWER, "force": True, "depth": 1, "kinds": ["o", "n"]},
    )
    assert told == snapshot("""\

asker asks
Answer this question? [y/N] Branch: 'x' is too short
Branch: force (Overwrite it; yes or no): depth (a whole number) [1]: kinds (some of old, new): \
""")
