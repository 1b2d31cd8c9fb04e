"""The end of a request for a change: what was done and what was not, by the record."""
# ruff: noqa: E501  texts stand as users see them

import random
from typing import Any

import pytest
from in_memory import (
    ALLOWED,
    DictionaryPool,
    Fast,
    Ran,
    Requests,
    approve,
    deciding,
    planned,
    spec,
)
from inline_snapshot import snapshot
from replies import beside_record, conclusion, deed, found, steps, was_done

from planner.agent import cut_short
from planner.errors import ModelUnavailable
from planner.events import ItemStarted
from planner.protocol import Limits, RunRequest
from planner.state import RunState
from planner.tools import Approver, Outcome, Policy, Safety, ToolResult

pytestmark = pytest.mark.anyio

LIST_ROOMS = spec("list_rooms", upstream="office")
POST = spec("post", "room", "text", upstream="office", safety=Safety.WRITE)
APPEND = spec("append_to_file", "content", "file_id", upstream="office", safety=Safety.WRITE)
HELLO = {"room": "general", "text": "hello"}
BYE = {"room": "general", "text": "bye"}
HELLO_POSTED = 'post {"room": "general", "text": "hello"}'
BYE_POSTED = 'post {"room": "general", "text": "bye"}'
LOST = ToolResult(outcome=Outcome.TIMEOUT, text="No answer within 30 s.", answered=False)
ELSE = "hello was said in general. The password was replaced by another."
DELETED = {
    "type": "object",
    "properties": {"deleted": {"type": "boolean"}},
    "required": ["deleted"],
}


def office(*posted: str | ToolResult) -> DictionaryPool:
    specs = [LIST_ROOMS, POST, APPEND]
    results: dict[str, list[str | ToolResult]] = {
        "post": list(posted),
        "append_to_file": ["Appended."],
    }
    return DictionaryPool({}, specs=specs, results=results)


TWO = steps(("Say hello", "post"), ("Say bye", "post"))


async def acted(
    prompt: str, *turns: Any, pool: DictionaryPool, approver: Approver = approve, **options: Any
) -> Ran:
    read = Fast(deed("office"))
    given: Any = {"policy": Policy.ASK} | options
    return await planned(read, *turns, pool=pool, prompt=prompt, approver=approver, **given)


async def stepped(
    *turns: Any, pool: DictionaryPool, approver: Approver, calls: list[dict[str, str]], prompt: str
) -> Ran:
    """A run of a step for each of these calls, and then of a conclusion."""
    given: Any = {"policy": Policy.ASK}
    first, *later = [
        {"goal": "step", "tool": "post", "arguments": call, "limits": Limits(iterations=1)}
        for call in calls
    ]
    requests = [RunRequest(prompt=prompt, **(each | given)) for each in later]
    concludes = RunRequest(prompt="What was done?", goal="conclude", **given)
    return await planned(
        *turns,
        pool=pool,
        approver=approver,
        inbox=Requests(*requests, concludes),
        prompt=prompt,
        **(first | given),
    )


async def concluded(said: str) -> Ran:
    """A run of one step, which posted hello, whose conclusion says this."""
    return await stepped(
        conclusion("hello is said."),
        conclusion(said),
        pool=office("Sent."),
        approver=approve,
        calls=[HELLO],
        prompt="Say it",
    )


@pytest.mark.parametrize(
    ("order", "status", "answer"),
    [
        (
            "Say hello in general",
            "partial",
            "What was done:\n- nothing, as far as is known\n\nNot done, as far as is known:\n"
            "- Say hello in general: not begun\n\nThe model says:\nIt was said.",
        ),
        ("How do I say hello in general?", "answered", "It was said."),
    ],
)
async def test_a_conclusion_knows_an_order_of_which_a_step_made_no_call(
    order: str, status: str, answer: str
) -> None:
    pool = office()
    pool.results["list_rooms"] = ["- general"]
    ran = await acted(
        order,
        {"tool": "list_rooms"},
        conclusion("There is general."),
        conclusion("It was said."),
        pool=pool,
        inbox=Requests(RunRequest(prompt="What was done?", goal="conclude", policy=Policy.ASK)),
        goal="step",
    )
    assert (ran.state.status, ran.state.answer) == (status, answer)


async def test_what_a_call_was_given_is_known_with_its_quotes_and_backslashes() -> None:
    """JSON and Python escape them; the model's sentence was taken for the claim of another call."""
    text = 'it\'s "C:\\logs\\app.log"'
    said = f"I posted `{text}` in general."
    ran = await acted(
        f"Post {text} in general",
        steps(("Post it", "post")),
        {"room": "general", "text": text},
        was_done(said),
        pool=office("Sent."),
    )
    assert ran.state.model_says == said
    assert ran.state.status == "answered"


async def test_data_is_made_of_what_was_done() -> None:
    """A sentence about something else is left out, so that it is not put into data."""
    ran = await acted(
        "Say hello in general and delete the room",
        steps(("Say it", "post")),
        HELLO,
        was_done(ELSE),
        {"data": {"deleted": False}},
        pool=office("Sent."),
        data_schema=DELETED,
    )
    assert ran.state.model_says == "hello was said in general."
    assert HELLO_POSTED in ran.asked[-1].last
    assert "password" not in ran.asked[-1].last
    assert ran.state.status == "answered"


async def test_of_a_refused_call_and_one_without_an_answer_the_second_is_said() -> None:
    ran = await stepped(
        conclusion("It is said."),
        conclusion("bye is said."),
        conclusion("Both are said."),
        pool=office(LOST),
        approver=deciding(True, False),
        calls=[HELLO, BYE],
        prompt="Say it",
    )
    assert ran.state.status == "failed"
    assert ran.state.answer.startswith("It is not known whether anything was changed")


async def test_each_of_two_calls_for_the_same_purpose_is_to_be_made_if_a_caller_gave_them() -> None:
    ran = await stepped(
        conclusion("It was declined.", success=False),
        conclusion("bye is said."),
        conclusion("hello and bye are said."),
        pool=office("Sent."),
        approver=deciding(False, True),
        calls=[HELLO, BYE],
        prompt="Say it",
    )
    assert (ran.state.status, ran.state.answer) == (
        "partial",
        f"What was done:\n- {BYE_POSTED}\n\nNot done, as far as is known:\n"
        f"- {HELLO_POSTED}: not approved (the user said no)",
    )


async def test_a_conclusion_is_held_against_the_calls_of_its_steps() -> None:
    ran = await concluded("The password was replaced by another.")
    assert ran.state.answer == f"What was done:\n- {HELLO_POSTED}"


@pytest.mark.parametrize(
    "said",
    [
        "All requested actions have been completed.",
        "Die Nachricht wurde erfolgreich gesendet.",
        "El mensaje se ha enviado correctamente.",
        "Сообщение успешно отправлено.",
        "消息已成功发送。",
        "メッセージを送信しました。",
    ],
)
async def test_a_confirmation_in_any_words_does_not_make_an_answer_partial(said: str) -> None:
    ran = await acted(
        "Say hello in general",
        steps(("Say it", "post")),
        HELLO,
        was_done(said),
        pool=office("Sent."),
    )
    assert ran.state.status == "answered"
    assert ran.state.answer.startswith(f"What was done:\n- {HELLO_POSTED}")


async def test_a_long_argument_hides_no_other() -> None:
    content = "- 1 cup butter, softened\n- 2 cups flour\n" * 8
    ran = await acted(
        f"Add the ingredients to file 11:\n{content}",
        steps(("Add them", "append_to_file")),
        {"content": content, "file_id": "11"},
        was_done("The ingredients were added."),
        pool=office(),
    )
    [_, listed, *_] = ran.state.answer.splitlines()
    assert listed == snapshot(
        '- append_to_file {"content": "- 1 cup butter, softened\\n- 2 cups flour\\n- 1 cup butter, sof…", "file_id": "11"}'
    )


async def test_a_step_whose_change_was_refused_is_not_ticked() -> None:
    ran = await acted(
        "Say hello and bye in general",
        TWO,
        HELLO,
        BYE,
        was_done("hello was said in general."),
        pool=office("Sent."),
        approver=deciding(True, False),
    )
    assert [step.success for step in ran.state.steps] == [True, False]


async def test_without_a_model_the_end_says_what_was_not_done_too() -> None:
    ran = await acted(
        "Say hello and bye in general",
        TWO,
        HELLO,
        BYE,
        was_done(""),
        ModelUnavailable("the model is down"),
        pool=office("Sent."),
        approver=deciding(True, False),
    )
    assert (ran.state.status, ran.state.own_words) == ("partial", "")
    assert ran.state.answer == snapshot("""\
It may not be finished: the model is down.

What was done:
- post {"room": "general", "text": "hello"}

Not done, as far as is known:
- post {"room": "general", "text": "bye"}: not approved (the user said no)\
""")


async def test_without_a_model_the_end_says_that_a_call_got_no_answer() -> None:
    ran = await acted(
        "Say hello in general",
        steps(("Say it", "post")),
        HELLO,
        ModelUnavailable("the model is down"),
        pool=office(LOST),
    )
    assert ran.state.answer == snapshot("""\
It may not be finished: the model is down.

What was done:
- nothing, as far as is known

Not done, as far as is known:
- post {"room": "general", "text": "hello"}: No answer within 30 s. It may have been done or not, and is not made again; look with a tool that reads.\
""")


async def test_a_list_that_is_cut_short_has_the_changes_of_its_earlier_items() -> None:
    ran = await acted(
        "1. Say 'hello' in general 2. Which rooms are there?",
        Fast(deed("office")),
        steps(("Say hello", "post")),
        HELLO,
        was_done("hello was said in general."),
        ModelUnavailable("the model is down"),
        pool=office("Sent."),
    )
    assert ran.state.answer.splitlines()[1] == f"   - {HELLO_POSTED}"
    second = max(n for n, each in enumerate(ran.events) if isinstance(each, ItemStarted))
    end = cut_short(RunState.of(ran.events[: second + 1]), "the record cannot be followed")
    assert (end.status, end.answer) == (
        "partial",
        "It may not be finished: the record cannot be followed.\n\n"
        f"What was done:\n- {HELLO_POSTED}",
    )


async def test_the_words_for_one_request_are_not_those_of_the_next() -> None:
    ran = await concluded("It is said.")
    assert ran.state.answer == beside_record("It is said.", HELLO_POSTED)
    before = next(n for n, each in enumerate(ran.events) if each.type == "run_continued")
    assert RunState.of(ran.events[:before]).own_words == "hello is said."
    assert RunState.of(ran.events[: before + 1]).own_words == ""


TOLD = "There are two rooms. The password has been set to '1j1l-2k3j'."
ODD = "The 'odd' room has 12 members."


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (TOLD, "Nothing was changed.\n\nThe model says:\nThere are two rooms."),
        (
            f"{ODD} The password has been set to '1j1l-2k3j'.",
            f"Nothing was changed.\n\nThe model says:\n{ODD}",
        ),
        ("No room is called '1j1l-2k3j'.", "No room is called '1j1l-2k3j'."),
        ("The rooms are general and random.", "The rooms are general and random."),
    ],
)
async def test_a_value_of_the_request_alone_is_not_told_as_set(said: str, answer: str) -> None:
    """Of a request that was read as a question, in an answer that is not certain."""
    pool = office()
    pool.results["list_rooms"] = ["- general: 12\n- random"]
    ran = await planned(
        Fast({"search": ["rooms"], "wants": "short answer"}),
        steps(("Look", "list_rooms")),
        found(said),
        {"answer_again": "There are three."},
        pool=pool,
        prompt="Are there odd rooms? If so, set my password to 1j1l-2k3j.",
        **ALLOWED,
    )
    assert (ran.state.status, ran.state.answer) == ("partial", answer)


async def test_the_status_does_not_depend_on_the_order_of_words_in_a_set() -> None:
    """The number stands beside the row with all words, which tells exactly half as much of it as
    it has to: sums of floats in another order came out a little less in one of twenty."""
    some = "boiler valve lantern harbour kettle marble saddle turbine walnut yonder zephyr quarry"
    chance = random.Random(7)
    for _ in range(60):
        words = " ".join(chance.sample(some.split(), 5))
        others = [
            f"{' '.join(chance.sample(some.split(), chance.randint(1, 4)))} {number}"
            for number in range(40, 46)
        ]
        result = "\n".join([*others, f"{words} 7", "30"])
        pool = DictionaryPool({}, specs=[spec("look", "what")], results={"look": [result]})
        ran = await planned(
            found("30"),
            pool=pool,
            prompt=f"What is the {words}?",
            tool="look",
            arguments={"what": "x"},
        )
        assert ran.state.status == "answered"
