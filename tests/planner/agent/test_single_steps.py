"""A client's own model plans: single steps on one run, and the conclusion from all of them."""
# ruff: noqa: E501  texts stand as clients see them

from typing import Any

import pytest
from in_memory import DictionaryPool, Requests, add_many, planned
from inline_snapshot import snapshot
from planted import CLASS
from replies import conclusion, plan

from planner.protocol import Limits, RunRequest

pytestmark = pytest.mark.anyio

SINGLE = Limits(iterations=1)
READ_NOTE: dict[str, Any] = {"tool": "read_file", "arguments": {"path": "notes/a.md"}}
FIRST_STEP: dict[str, Any] = {"prompt": "Read a note.", "goal": "step"} | READ_NOTE


def step(prompt: str, **options: Any) -> RunRequest:
    return RunRequest(prompt=prompt, goal="step", limits=SINGLE, **options)


def ending(prompt: str, **options: Any) -> RunRequest:
    return RunRequest(prompt=prompt, goal="conclude", **options)


# What the models are asked


async def test_steps_share_a_prompt_that_only_grows(pool: DictionaryPool) -> None:
    ran = await planned(
        conclusion("notes/a.md says Alpha."),
        {"path": "notes/b.md"},
        conclusion("It says Beta."),
        conclusion("They say Alpha and Beta."),
        pool=pool,
        inbox=Requests(step("Read the other note.", tool="read_file"), ending("What do they say?")),
        **FIRST_STEP,
    )
    assert pool.calls == [("read_file", {"path": f"notes/{name}.md"}) for name in "ab"]
    for before, now in zip(ran.asked, ran.asked[1:], strict=False):
        assert now.messages[: len(before.messages) - 1] == before.messages[:-1]
    assert "\n".join(each["content"] for each in ran.asked[-1].messages[1:]) == snapshot("""\
Request: Read a note.
read_file({"path":"notes/a.md"}) returned this:
<result>
Alpha
</result>
No calls are left. Give the best answer to the request from the results and notes above: Read a note.
Reply {"decision":"conclude","final_answer":...,"success":true, or false if it could not be found out}.
{"decision": "conclude", "final_answer": "notes/a.md says Alpha.", "success": true}
read_file({"path":"notes/b.md"}) returned this:
<result>
Beta
</result>
No calls are left. Give the best answer to the request from the results and notes above: Read the other note.
Reply {"decision":"conclude","final_answer":...,"success":true, or false if it could not be found out}.
{"decision": "conclude", "final_answer": "It says Beta.", "success": true}
No calls are left. Give the best answer to the request from the results and notes above: What do they say?
Reply {"decision":"conclude","final_answer":...,"success":true, or false if it could not be found out}.\
""")
    steps = [(each.objective, each.success, each.notes) for each in ran.state.steps]
    assert steps == [
        ("Read a note.", True, "notes/a.md says Alpha."),
        ("Read the other note.", True, "It says Beta."),
    ]
    assert (ran.state.status, ran.state.answer) == ("answered", "They say Alpha and Beta.")
    assert ran.state.unsupported == []


async def test_a_step_without_a_tool_is_given_one_by_the_full_model(pool: DictionaryPool) -> None:
    ran = await planned(
        conclusion("It says Alpha."),
        {"tool": "list_dir"},
        {},
        conclusion("There is jobs/secret.py."),
        pool=pool,
        inbox=Requests(step("Which files are there?")),
        **FIRST_STEP,
    )
    assert "The user's next request: Which files are there?\nWhich tool" in ran.asked[1].last
    assert [each.tool for each in ran.state.iterations] == ["read_file", "list_dir"]


async def test_a_step_that_needs_no_tool_is_known_by_its_notes(pool: DictionaryPool) -> None:
    ran = await planned(
        {"tool": None},
        conclusion("Hello."),
        conclusion("It says Alpha."),
        pool=pool,
        inbox=Requests(step("Read.", **READ_NOTE)),
        prompt="Greet me.",
        goal="step",
    )
    assert "Completed steps, in short:\n1. Hello. (Greet me.)" in ran.asked[-1].text
    assert ran.state.unsupported == []


async def test_a_later_step_that_needs_no_tool_is_known_by_what_it_concluded(
    pool: DictionaryPool,
) -> None:
    ran = await planned(
        conclusion("It says Alpha."),
        {"tool": None},
        conclusion("Alpha is a letter."),
        conclusion("It says Alpha, a letter."),
        pool=pool,
        inbox=Requests(step("What is that?"), ending("What does it say?")),
        **FIRST_STEP,
    )
    *_, before, last = ran.asked
    assert last.messages[: len(before.messages)] == before.messages
    assert "Alpha is a letter." in last.messages[len(before.messages)]["content"]


async def test_a_call_is_made_again_for_another_step(pool: DictionaryPool) -> None:
    """The client asks for it; what it reads may have changed."""
    ran = await planned(
        conclusion("It says Alpha."),
        conclusion("It says Alpha still."),
        pool=pool,
        inbox=Requests(step("And now?", **READ_NOTE)),
        **FIRST_STEP,
    )
    assert len(pool.calls) == 2
    assert ran.guards == []


async def test_a_note_alone_bears_nothing_out(pool: DictionaryPool) -> None:
    """The results of all steps are there; what a model said of them is no fact."""
    ran = await planned(
        conclusion("It says `Gamma`."),
        conclusion("The note says `Gamma`."),
        pool=pool,
        inbox=Requests(ending("What does it say?")),
        **FIRST_STEP,
    )
    assert (ran.state.status, ran.state.unsupported) == ("partial", ["Gamma"])


async def test_many_steps_stay_within_the_context(pool: DictionaryPool) -> None:
    pool.files |= {f"notes/{number}.md": f"Line {number}. " * 99 for number in range(12)}
    requests = [
        step(f"Read {number}.", tool="read_file", arguments={"path": f"notes/{number}.md"})
        for number in range(12)
    ]
    ran = await planned(
        conclusion("It says Alpha."),
        *(conclusion(f"It says Line {number}.") for number in range(12)),
        conclusion("It was read."),
        pool=pool,
        inbox=Requests(*requests, ending("What was read?")),
        context_tokens=3000,
        **FIRST_STEP,
    )
    assert "context_compressed" in [event.type for event in ran.events]
    assert "\n2. It says Line 0. (Read 0.)\n" in ran.asked[-1].text
    assert len(ran.state.steps) == 13


async def test_tools_that_a_step_brings_in_stay(pool: DictionaryPool) -> None:
    add_many(pool)
    ran = await planned(
        conclusion("It says Alpha."),
        {"tool": "tide_table"},
        {"text": "today"},
        conclusion("High water at noon."),
        conclusion("It says Alpha; high water at noon."),
        pool=pool,
        inbox=Requests(step("Ask the tide_table."), ending("And?")),
        **FIRST_STEP,
    )
    assert "tide_table" not in ran.asked[0].text
    listed = "Tools for step 2:\n- tide_table(text): Tides"
    assert all(each.text.count(listed) == 1 for each in ran.asked[1:])
    for before, now in zip(ran.asked[2:], ran.asked[3:], strict=False):
        assert now.messages[: len(before.messages) - 1] == before.messages[:-1]


async def test_steps_follow_a_plan(pool: DictionaryPool) -> None:
    ran = await planned(
        plan("read_file", "Read a", "Read b"),
        conclusion(f"It has {CLASS}."),
        conclusion("It says Beta."),
        pool=pool,
        inbox=Requests(
            step("Read the file", tool="read_file", arguments={"path": "jobs/secret.py"}),
            step("Read b", tool="read_file", arguments={"path": "notes/b.md"}),
        ),
        prompt="Read them.",
        goal="plan",
    )
    steps = [(each.number, each.objective, each.success) for each in ran.state.steps]
    assert steps == [(1, "Read the file", True), (2, "Read b", True)]
    assert ran.state.later_steps == ["Read a"]
