"""What an answer says was done is what was done: by the journal, whatever a model says of it."""

import json
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import httpx
import openai
import pytest
from fastmcp import FastMCP
from jsonschema import Draft202012Validator
from notes import CALL, CALL_IN_WORDS, Person, noted, report
from ollama_replies import Answer, Reply
from replies import beside_record, conclusion, deed, deep, found, nowhere, plan, steps, was_done
from scripted_ollama import FAST, FULL, Request, ScriptedOllama
from serving import LONG, Place, bearer, served, text

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
    answer = 'What was done:\n- add_note {"text": "hello"}'
    not_done = (
        'Not done, as far as is known:\n- add_note {"text": "farewell"}: not approved (the user '
        "said no)"
    )
    assert [(each["status"], each["answer"]) for each in map(report, results)] == [
        ("partial", f"{answer}\n\n{not_done}"),
        ("partial", f"{answer}\n\n{not_done}\n\nThe model says:\nIt is one."),
    ]


def two_notes(ollama: ScriptedOllama) -> None:
    """A plan of two notes, and the first of them."""
    ollama.expect(deed("notes"))
    steps = [{"objective": f"Note {each}", "tool": "add_note"} for each in ("hello", "farewell")]
    ollama.expect({"steps": steps})
    ollama.expect({"text": "hello"})


async def test_of_two_changes_only_the_one_that_was_made_is_said_to_be_done(
    place: Place, ollama: ScriptedOllama
) -> None:
    two_notes(ollama)
    ollama.expect({"text": "farewell"})
    ollama.expect(was_done("Hello and farewell are noted."))
    prompt = "Note hello and farewell"
    async with place.client(person=Person(True, False)) as caller:
        result = await caller.call("plan_and_answer", prompt=prompt)
    assert noted(place.project) == [["hello", "nobody"]]
    assert report(result)["status"] == "partial"
    assert report(result)["answer"] == (
        'What was done:\n- add_note {"text": "hello"}\n\nNot done, as far as is known:\n'
        '- add_note {"text": "farewell"}: not approved (the user said no)'
    )


async def test_a_planned_change_that_was_not_begun_is_not_said_to_be_done(
    place: Place, ollama: ScriptedOllama
) -> None:
    two_notes(ollama)
    ollama.expect(conclusion("It is noted."))
    asked = {"prompt": "Note hello and farewell", "max_iterations": 1}
    async with place.client(person=Person(True)) as caller:
        result = await caller.call("plan_and_answer", **asked)
    assert noted(place.project) == [["hello", "nobody"]]
    assert (report(result)["status"], report(result)["answer"]) == (
        "partial",
        'What was done:\n- add_note {"text": "hello"}\n\n'
        "Not done, as far as is known:\n- Note farewell: not begun\n\n"
        "The model says:\nIt is noted.",
    )


NO_LINE = "no line of the results was found that says it"


async def test_a_step_that_reads_does_not_say_that_something_was_done(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion(CLAIM))
    async with place.client(person=Person()) as caller:
        done = await caller.call("run_step", prompt="Note hello", tool="count_notes", arguments={})
    assert (report(done)["status"], report(done)["reason"]) == ("partial", NO_LINE)


@pytest.mark.parametrize(
    ("prompt", "claim"),
    [
        ("Note hello", CLAIM),
        # One that has the request's own date and name, which are no evidence.
        ("Note 'Follow-up' on 2024-05-19.", "The note 'Follow-up' on 2024-05-19 was added."),
        ("メモ「こんにちは」を追加してください。", "メモ「こんにちは」を追加しました。"),
    ],
)
async def test_an_order_that_is_read_as_a_question_is_not_said_to_be_done(
    prompt: str, claim: str, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect({"search": ["note"], "wants": "short answer"})
    ollama.expect(plan("count_notes"))
    ollama.expect(found(claim))
    async with place.client(person=Person()) as caller:
        done = await caller.call("plan_and_answer", prompt=prompt)
    assert (report(done)["status"], report(done)["answer"]) == (
        "failed",
        f"{NOTHING}no call that changes anything was made.",
    )


async def test_a_question_whose_answer_no_line_says_is_no_order(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect({"search": ["note"], "wants": "short answer"})
    ollama.expect(plan("count_notes"))
    ollama.expect(found(CLAIM))
    async with place.client(person=Person()) as caller:
        done = await caller.call("plan_and_answer", prompt="Is the note hello there?")
    assert (report(done)["status"], report(done)["reason"]) == ("partial", NO_LINE)
    assert report(done)["answer"] == CLAIM


async def test_what_was_not_found_is_no_order(place: Place, ollama: ScriptedOllama) -> None:
    told = "The note hello was not found."
    ollama.expect({"search": ["note"], "wants": "short answer"})
    ollama.expect(plan("count_notes"))
    ollama.expect(nowhere())
    ollama.expect(conclusion(told, success=False))
    async with place.client(person=Person()) as caller:
        done = await caller.call("plan_and_answer", prompt="Find the note hello")
    assert (report(done)["status"], report(done)["answer"]) == ("not_found", told)


async def test_a_conclusion_from_steps_that_read_does_not_say_that_something_was_done(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(conclusion("There are 0 notes."))
    ollama.expect(conclusion(CLAIM))
    async with place.client(person=Person()) as caller:
        step = await caller.call("run_step", prompt="Count", tool="count_notes", arguments={})
        run = {"run_id": report(step)["run_id"]}
        done = await caller.call("plan_and_answer", prompt="Note hello", **run)
    assert (report(done)["status"], report(done)["reason"]) == ("partial", NO_LINE)


async def test_a_plan_does_not_say_that_it_is_done(place: Place, ollama: ScriptedOllama) -> None:
    """Where a model writes more than it was asked for."""
    steps = [{"objective": "Note hello", "tool": "add_note"}]
    ollama.expect(Answer({"assessment": CLAIM, "steps": steps}, unconstrained=True))
    async with place.client(person=Person()) as caller:
        result = await caller.call("make_plan", prompt="Note hello")
    assert CLAIM not in text(result)


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


async def test_a_change_is_chosen_and_argued_by_the_full_model_in_a_plan(
    place: Place, ollama: ScriptedOllama
) -> None:
    place.variables = {"PLANLOOM_FAST_MODEL": FAST}
    ollama.expect(deed("note"), model=FAST)
    ollama.expect(plan("add_note"), model=FULL)
    ollama.expect({"text": "hello"}, model=FULL)
    ollama.expect(was_done("It is added."), model=FULL)
    async with place.client("memory-legacy", Person(True)) as caller:
        result = await caller.call("plan_and_answer", prompt="Note hello")
    assert report(result)["status"] == "answered"
    told = [each["type"] for each in caller.progress.events]
    assert told.index("plan_made") < told.index("approval_asked") < told.index("tool_called")
    assert noted(place.project) == [["hello", "nobody"]]
    (written,) = [each.schema for each in ollama.requests if "text" in properties(each)]
    assert written
    assert written["properties"].keys() == {"text", "author"}


def properties(request: Request) -> Any:
    return (request.schema or {}).get("properties", {})


async def test_a_question_may_change_nothing(place: Place, ollama: ScriptedOllama) -> None:
    """Whatever the model plans for it."""
    place.upstreams["notes"]["policy"] = "allow"
    ollama.expect({"search": ["note"], "wants": "short answer"})
    ollama.expect(steps(("Count them", "count_notes"), ("Add one", "add_note")))
    ollama.expect(found("There are 0 notes."))
    async with place.client(person=Person()) as caller:
        question = {"prompt": "How many notes are there?", "policy": "allow"}
        result = await caller.call("plan_and_answer", **question)
    assert noted(place.project) == []
    told = report(result)
    assert told["status"] == "partial"
    assert told["answer"] == "Nothing was changed.\n\nThe model says:\nThere are 0 notes."


async def test_a_tool_that_changes_something_looks_nothing_up(
    place: Place, ollama: ScriptedOllama
) -> None:
    """Whatever the operator says of it, nothing is written before a plan."""
    searches = {"add_note": {"text_argument": "text"}}
    place.upstreams["notes"] |= {"policy": "allow", "tools": searches}
    ollama.expect({"search": ["note"], "wants": "short answer"})
    ollama.expect(plan("count_notes"))
    ollama.expect(found("There are 0 notes."))
    async with place.client() as caller:
        question = {"prompt": "How many notes are there?", "policy": "allow"}
        await caller.call("plan_and_answer", **question)
    assert noted(place.project) == []


def noting_unasked(place: Place, ollama: ScriptedOllama, **arguments: str) -> None:
    """Nobody is asked about a note, and a model plans one with these arguments."""
    place.upstreams["notes"]["policy"] = "allow"
    ollama.expect(deed("note"))
    ollama.expect(plan("add_note"))
    ollama.expect(arguments)


async def test_what_need_not_be_said_and_was_guessed_is_left_out(
    place: Place, ollama: ScriptedOllama
) -> None:
    noting_unasked(place, ollama, text="hello", author="anna@example.com")
    ollama.expect(was_done("hello was noted."))
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt="Note hello", policy="allow")
    assert report(result)["status"] == "answered"
    assert noted(place.project) == [["hello", "nobody"]]


async def test_a_guess_is_not_sent_where_nobody_is_asked(
    place: Place, ollama: ScriptedOllama
) -> None:
    """A tool is asked for that finds it out, and the call is argued again."""
    noting_unasked(place, ollama, text="anna@example.com")
    ollama.expect({"tool": "count_notes"})
    ollama.expect({"text": "anna@example.com"})
    ollama.expect(was_done(CLAIM))
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt="Note her address", policy="allow")
    assert report(result)["status"] == "failed"
    assert "no result and no word of the request says text: anna@example.com" in text(result)
    assert CLAIM not in text(result)
    assert noted(place.project) == []


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        ("random", conclusion("It was not posted.", success=False)),
        ("general", was_done("It was not posted.")),
    ],
)
async def test_a_channel_that_nobody_named_is_told_as_a_guess(
    channel: str, said: dict[str, Any], place: Place, ollama: ScriptedOllama
) -> None:
    mcp: FastMCP = FastMCP("chat", version="1")

    @mcp.tool(annotations={"readOnlyHint": False})
    def post(channel: str, text: str) -> str:
        return "posted"

    ollama.expect(deed("post"))
    ollama.expect(plan("post"))
    ollama.expect({"channel": channel, "text": "hello"})
    ollama.expect(said)
    person = Person(False)
    with served(mcp) as url:
        place.upstreams = {"chat": {"url": url}}
        async with place.client(person=person) as caller:
            await caller.call("plan_and_answer", prompt="Post hello in general")
    (shown,) = person.shown
    assert ("contains channel: random." in shown) == (channel == "random")


async def paid_with(
    reads: Callable[..., Any], changes: Callable[..., Any], place: Place, prompt: str
) -> dict[str, Any]:
    """The report of a request to an upstream of these two tools, whose every call is allowed."""
    mcp: FastMCP = FastMCP("bank", version="1")
    mcp.tool(reads, annotations={"readOnlyHint": True})
    mcp.tool(changes, annotations={"readOnlyHint": False})
    with served(mcp) as url:
        place.upstreams = {"bank": {"url": url, "policy": "allow"}}
        async with place.client() as caller:
            return report(await caller.call("plan_and_answer", prompt=prompt, policy="allow"))


def assert_made_up(ended: dict[str, Any], tool: str, argument: str) -> None:
    why = f"{tool} was not called: no result and no word of the request says {argument}"
    assert (ended["status"], ended["reason"]) == ("failed", why)
    assert ended["answer"].startswith(f"Nothing was changed: {why}.")


SENT = "AC-7980 was paid."


@pytest.mark.parametrize(
    ("asked", "told", "said"),
    [
        ("Find account: AC-7980", "[]", conclusion(SENT)),
        ("Find account: AC-7980", "There is no account {text}.", was_done(SENT)),
        ("帐户：AC-7980", 'Nichts zu "{text}" gefunden', was_done(SENT)),
        ("AC-7980", "{text}", was_done(SENT)),
    ],
)
async def test_a_guess_is_not_proved_by_looking_it_up(
    asked: str, told: str, said: dict[str, Any], place: Place, ollama: ScriptedOllama
) -> None:
    """What a model made up is not paid because a call that looked for it repeats it."""
    paid: list[str] = []

    def find_account(text: str) -> str:
        return told.format(text=text)

    def pay(account: str) -> str:
        paid.append(account)
        return "paid"

    ollama.expect(deed("payment"))
    ollama.expect(plan("pay"))
    ollama.expect({"account": "AC-7980"})
    ollama.expect({"tool": "find_account"}, contains=["pay needs account"])
    ollama.expect({"text": asked})
    ollama.expect({"account": "AC-7980"})
    ollama.expect(said)
    ended = await paid_with(find_account, pay, place, "Pay what is due")
    assert paid == []
    assert_made_up(ended, "pay", "account: AC-7980")


async def test_an_amount_that_nobody_said_is_not_looked_up(
    place: Place, ollama: ScriptedOllama
) -> None:
    """Another one may be found under the same name, and would be as wrong."""
    sent: list[float] = []

    def list_payments() -> list[dict[str, float]]:
        return [{"amount": 1000.0}]

    def send(amount: float) -> str:
        sent.append(amount)
        return "sent"

    ollama.expect(deed("payment"))
    ollama.expect(plan("send"))
    ollama.expect({"amount": 798.0})
    ollama.expect(was_done("798.0 was sent back."))
    ended = await paid_with(list_payments, send, place, "Send the difference back")
    assert sent == []
    assert_made_up(ended, "send", "amount: 798.0")


async def test_an_amount_may_follow_from_the_request_and_a_long_result(
    place: Place, ollama: ScriptedOllama
) -> None:
    sent: list[float] = []

    def payments() -> list[float]:
        return [*(7.0 + number for number in range(60)), 1000.0]

    def send(amount: float) -> str:
        sent.append(amount)
        return f"{amount} sent"

    ollama.expect(deed("payment"))
    ollama.expect(
        {
            "steps": [
                {"objective": "See what they sent", "tool": "payments"},
                {"objective": "Send the rest back", "tool": "send"},
            ]
        }
    )
    ollama.expect({"tool": "send"})
    ollama.expect({"amount": 875.5})
    ollama.expect(was_done("875.5 was sent."))
    prompt = "We spent 124.5. Send back what their payment was more than that"
    ended = await paid_with(payments, send, place, prompt)
    assert (ended["status"], sent) == ("answered", [875.5])


async def test_arguments_have_the_names_of_the_tools_schema(
    place: Place, ollama: ScriptedOllama
) -> None:
    """What a model writes otherwise is not sent, and written again."""
    ollama.expect(deed("note"))
    ollama.expect(plan("add_note"))
    ollama.expect(Answer({"hello": "nobody"}, unconstrained=True))
    ollama.expect({"text": "hello"}, contains=["'hello' was unexpected"])
    ollama.expect(was_done("hello was noted."))
    person = Person(True)
    async with place.client(person=person) as caller:
        result = await caller.call("plan_and_answer", prompt="Note hello")
    assert report(result)["status"] == "answered"
    assert len(person.shown) == 1
    assert noted(place.project) == [["hello", "nobody"]]


@pytest.mark.parametrize("policy", ["allow", "ask"])
async def test_what_was_guessed_is_looked_up_before_a_change_is_made(
    policy: str, place: Place, ollama: ScriptedOllama
) -> None:
    """And before a person is asked about it."""
    noting_unasked(place, ollama, text="7")
    ollama.expect(
        {"tool": "count_notes"}, contains=["add_note needs text, which no result says yet."]
    )
    ollama.expect({"text": "0 notes"}, contains=["count_notes({}) returned this"])
    ollama.expect(was_done("0 notes was noted."))
    person = Person(True)
    async with place.client(person=person) as caller:
        prompt = "Note how many notes there are"
        result = await caller.call("plan_and_answer", prompt=prompt, policy=policy)
    assert report(result)["status"] == "answered"
    assert noted(place.project) == [["0 notes", "nobody"]]
    assert len(person.shown) == (policy == "ask")
    assert not any("guess" in each for each in person.shown)


# Whatever happens to a call, and whoever asks


def boasting(tool: str) -> Callable[[Request], Reply]:
    """A model that calls this tool, and says of any outcome that the note hello was added."""
    replies: list[dict[str, Any]] = [
        *({"tool": tool}, plan(tool), {"text": "farewell"}, was_done(CLAIM), found(CLAIM)),
        *(conclusion(CLAIM), deep(conclusion(CLAIM)), {"answer_again": CLAIM}, {}),
    ]

    def reply(request: Request) -> Reply:
        schema = Draft202012Validator(request.schema or {})
        return next(each for each in replies if schema.is_valid(each))

    return reply


NOTHING = "Nothing was changed: "
DONE = 'add_note {"text": "farewell"}'
ENDS = {
    "declined": ("add_note", "refused", f"{NOTHING}add_note was not approved (the user said no"),
    "failed": ("delete_notes", "failed", f"{NOTHING}delete_notes did not succeed ("),
    "no tool": ("count_notes", "failed", f"{NOTHING}no call that changes anything was made."),
    "another call": ("add_note", "partial", DONE),
}
"""What becomes of a request to note hello: by which tool, the status, and what a person is told."""


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("face", ["plan_and_answer", "run_step", "ask", "openai"])
async def test_no_face_says_of_a_change_what_a_model_says_of_it(
    face: str, end: str, place: Place
) -> None:
    tool, status, told = ENDS[end]
    approve = end != "declined"
    with ScriptedOllama(handler=boasting(tool)) as place.ollama:
        place.ollama.expect(deed("note"))
        if face == "ask":
            if not approve:
                told = f"{NOTHING}this run may only use tools that read."  # nobody can be asked
            place.upstreams["notes"]["policy"] = "allow" if approve else "ask"
            words = ("ask", "--json", "--policy", "allow" if approve else "ask", "Note hello")
            found = json.loads((await anyio.to_thread.run_sync(place.run, *words)).stdout)
            said, stands = "\n".join([found["answer"], *found["done"]]), found["status"]
        elif face == "openai":
            said, stands = await over_the_openai_api(place, approve), status
        else:
            async with place.client(person=Person(*[approve] * 3)) as caller:
                result = await caller.call(face, prompt="Note hello")
            said, stands = text(result), report(result)["status"]
    assert told in said
    assert CLAIM not in said
    assert stands == status
    assert noted(place.project) == ([["farewell", "nobody"]] if end == "another call" else [])


async def over_the_openai_api(place: Place, approve: bool) -> str:
    """What a client of `/v1` is told, a person answering in the browser."""
    with served(build(place.settings, auth=auth.Tokens([KEY]))) as url:
        base = url.removesuffix("/mcp")
        asked: Any = [{"role": "user", "content": "Note hello"}]
        told: list[str] = []
        async with (
            httpx.AsyncClient(base_url=base, headers=bearer(KEY), timeout=LONG) as browser,
            openai.AsyncOpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0) as client,
        ):
            await browser.get("/view/runs")

            async def ask() -> None:
                try:
                    reply = await client.chat.completions.create(model="planloom", messages=asked)
                    told.append(reply.choices[0].message.content or "")
                except openai.InternalServerError as error:  # how a run that failed is told
                    told.append(error.message)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                while not told:
                    for run in (await browser.get("/view/runs")).json()["runs"]:
                        if call := run["approval"]:
                            answer = {"digest": call["digest"], "approve": approve}
                            await browser.post(f"/view/runs/{run['id']}/approval", json=answer)
                    await anyio.sleep(0.05)
    return told[0]


OTHERS = {
    "Note hello": ("farewell", "The note hello was added."),
    "Note 25": ("52", "25 was noted."),
    "Notiere hallo": ("tschüss", "Die Notiz hallo steht da."),
    "记下你好": ("再见", "已记下你好。"),
}
"""A request, the text that was noted instead, and what a model says was done."""
SAME = {
    "Note hello": ("hello", "The note hello was added."),
    "Write a note that greets Anna": ("Good morning, Anna!", "A note that greets Anna was added."),
    "记下你好": ("你好", "已记下你好。"),
    "Note how many notes there are": ("0 notes", "It was noted how many notes there are."),
}
"""What nobody can take for something else than was asked for."""


@pytest.mark.parametrize("prompt", OTHERS)
async def test_an_answer_in_the_words_of_the_request_does_not_stand_beside_another_change(
    prompt: str, place: Place, ollama: ScriptedOllama
) -> None:
    noted_text, claim = OTHERS[prompt]
    result = await after_noting(noted_text, claim, prompt, place, ollama)
    answer = f'What was done:\n- add_note {{"text": "{noted_text}"}}'
    assert (report(result)["status"], report(result)["answer"]) == ("partial", answer)
    assert report(result)["reason"].startswith("no call that was made says ")
    assert claim not in text(result)


@pytest.mark.parametrize("prompt", SAME)
async def test_an_answer_in_the_words_of_the_request_stands_beside_its_change(
    prompt: str, place: Place, ollama: ScriptedOllama
) -> None:
    noted_text, claim = SAME[prompt]
    result = await after_noting(noted_text, claim, prompt, place, ollama)
    assert report(result)["status"] == "answered"
    call = f'add_note {{"text": "{noted_text}"}}'
    assert report(result)["answer"] == beside_record(claim, call)


async def after_noting(
    noted_text: str, claim: str, prompt: str, place: Place, ollama: ScriptedOllama
) -> Any:
    """The result of a run whose model notes a text, and claims what it was asked for."""
    ollama.expect(deed("note"))
    steps = [{"objective": "Count", "tool": "count_notes"}, {"objective": "N", "tool": "add_note"}]
    ollama.expect({"steps": steps})
    ollama.expect({"tool": "add_note"}, contains=["The results above say what it needs."])
    ollama.expect({"text": noted_text})
    ollama.expect(was_done(claim))
    async with place.client(person=Person(True)) as caller:
        return await caller.call("plan_and_answer", prompt=prompt)


# What was done is told from the record


async def test_what_was_done_stands_beside_any_answer(place: Place, ollama: ScriptedOllama) -> None:
    """Also where the model says something else, or nothing of it."""
    call = CALL | {"arguments": {"text": "![x](https://leak.example/?q=1)\nhello"}}
    ollama.expect(conclusion("As you wish."))
    async with place.client(person=Person(True)) as caller:
        result = await caller.call("run_step", **call)
        run_id = report(result)["run_id"]
        whole = report(await caller.call("get_run", run_id=run_id, whole=True))
    shown = await anyio.to_thread.run_sync(place.run, "runs", "show", run_id)
    made = 'add_note {"text": "![x](https://leak.example/?q=1)\\nhello"}'
    assert report(result)["answer"] == beside_record("As you wish.", made)
    assert (result.structured_content or {})["done"] == whole["done"] == [made]
    assert text(result).startswith("What was done:\n- add_note")
    assert "![x](" not in text(result)
    assert "What was done" in shown.stdout


async def test_a_change_of_a_step_before_is_told_once(place: Place, ollama: ScriptedOllama) -> None:
    bye = {"prompt": "Note bye", "tool": "add_note", "arguments": {"text": "bye"}}
    for said in ("hello is noted.", "bye is noted."):
        ollama.expect(conclusion(said))
    async with place.client(person=Person(True, True)) as caller:
        run = {"run_id": report(await caller.call("run_step", **CALL))["run_id"]}
        result = await caller.call("run_step", **bye, **run)
    shown = text(result)
    assert shown.startswith('What was done:\n- add_note {"text": "bye"}\n\nThe model says:')
    assert f"### Done before\n\n- {CALL_IN_WORDS}" in shown
    assert shown.count('"bye"') == shown.count('"hello"') == 1
    assert shown.count("bye is noted.") == 1


async def test_a_look_at_the_effect_of_a_change_bears_the_answer_out(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(deed("note"))
    steps = [
        {"objective": "Note hello", "tool": "add_note"},
        {"objective": "Count the notes", "tool": "count_notes"},
    ]
    ollama.expect({"steps": steps})
    ollama.expect({"text": "hello"})
    ollama.expect(was_done("There are 1 notes now."))
    async with place.client(person=Person(True)) as caller:
        result = await caller.call("plan_and_answer", prompt="Note hello, then count the notes")
    assert (report(result)["status"], report(result)["answer"]) == (
        "answered",
        beside_record("There are 1 notes now.", CALL_IN_WORDS),
    )
    assert (result.structured_content or {})["done"] == ['add_note {"text": "hello"}']
    assert [each["lines"] for each in report(result)["evidence"]] == [["1 notes"]]


async def test_a_run_whose_only_step_was_declined_ends_as_refused(
    place: Place, ollama: ScriptedOllama
) -> None:
    for said in ("It is noted.", CLAIM, "There are 0 notes."):
        ollama.expect(conclusion(said))
    told = "Nothing was changed: add_note was not approved (the user said no)."
    async with place.client(person=Person(False)) as caller:
        step = report(await caller.call("run_step", **CALL))
        run = {"run_id": step["run_id"]}
        concluded = report(await caller.call("plan_and_answer", prompt="", **run))
        another = report(
            await caller.call("run_step", prompt="Count them", tool="count_notes", **run)
        )
    assert [(each["status"], each["answer"]) for each in (step, concluded)] == [
        ("refused", told),
        ("refused", told),
    ]
    assert [(each["objective"], each["status"]) for each in another["steps"]] == [
        ("Note hello", "failed"),
        ("Count them", "completed"),
    ]


async def test_a_run_whose_newest_step_failed_goes_on_and_is_concluded(
    place: Place, ollama: ScriptedOllama
) -> None:
    for said in (
        "They are deleted.",
        "They are deleted.",
        "There are 0 notes.",
        "0 notes are left.",
    ):
        ollama.expect(conclusion(said))
    told = "Nothing was changed: delete_notes did not succeed"
    async with place.client(person=Person(True)) as caller:
        asked = {"prompt": "Delete the notes", "tool": "delete_notes", "arguments": {}}
        step = report(await caller.call("run_step", **asked))
        run = {"run_id": step["run_id"]}
        concluded = report(await caller.call("plan_and_answer", prompt="", **run))
        another = report(
            await caller.call("run_step", prompt="Count them", tool="count_notes", **run)
        )
        ended = report(await caller.call("plan_and_answer", prompt="", **run))
    assert [each["status"] for each in (step, concluded)] == ["failed", "failed"]
    assert all(told in each["answer"] for each in (step, concluded))
    assert another["status"] == "answered"
    assert ended["status"] == "partial"
    assert "Not done, as far as is known:\n- delete_notes" in ended["answer"]
