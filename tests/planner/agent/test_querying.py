"""Lists that tools return: the model writes a query, code runs it, and the answer is read from what
it finds."""
# ruff: noqa: E501  texts stand as models see them

import json
from typing import Any

import pytest
from in_memory import ALLOWED, DictionaryPool, Fast, Ran, Said, Unconstrained, planned, spec
from inline_snapshot import snapshot
from replies import deed, found, nowhere, plan, second, steps, was_done

from planner.agent.ending import OWN_QUERY
from planner.protocol import Limits
from planner.tools import Outcome, Policy, Safety, ToolResult

pytestmark = pytest.mark.anyio

ISSUES = [
    {"number": 7, "state": "open", "assignee": "bob", "votes": 3},
    {"number": 8, "state": "closed", "assignee": "bob", "votes": 12},
    {"number": 9, "state": "open", "assignee": "lena", "votes": 5},
    {"number": 10, "state": "open", "assignee": "bob", "votes": 1},
]
LIST_ISSUES = spec("list_issues", upstream="tracker")
CLOSE = spec("close", "number", upstream="tracker", safety=Safety.WRITE)
QUESTION = "How many open issues does bob have?"
COUNTED = "SELECT COUNT(*) FROM list_issues WHERE state = 'open' AND assignee = 'bob'"


def tracker(*issues: list[dict[str, Any]], **results: list[Any]) -> DictionaryPool:
    listed = [json.dumps(each) for each in issues or (ISSUES,)]
    return DictionaryPool({}, specs=[LIST_ISSUES, CLOSE], results={"list_issues": listed} | results)


def sql(text: str) -> dict[str, str]:
    return {"sql": text}


async def asked(*turns: Said, pool: DictionaryPool, **request: Any) -> Ran:
    prompt = {"prompt": QUESTION} | request
    return await planned(plan("list_issues"), *turns, pool=pool, **prompt)


async def test_a_list_is_queried_and_the_answer_is_read_from_what_was_found() -> None:
    ran = await asked(sql(COUNTED), found("bob has 2 open issues."), pool=tracker())
    queried, answered = ran.script.asides[-2], ran.asked[-1]
    assert queried.last == snapshot("""\
list_issues({}) returned this:
<result>
4 entries:
- number: 7, state: open, assignee: bob, votes: 3
- number: 8, state: closed, assignee: bob, votes: 12
- number: 9, state: open, assignee: lena, votes: 5
- number: 10, state: open, assignee: bob, votes: 1
</result>
The lists above as tables in SQLite:
CREATE TABLE list_issues (number NUMERIC /* 7 */, state TEXT /* 'open', 'closed' */, assignee TEXT /* 'bob', 'lena' */, votes NUMERIC /* 3 */)
Request: How many open issues does bob have?
Reply {"sql":one SELECT that finds what the request asks for}.\
""")
    listed = queried.last.partition("The lists above as tables")[0]
    assert answered.last.startswith(listed)
    assert answered.last.removeprefix(listed) == snapshot("""\
query_results({"sql":"SELECT COUNT(*) FROM list_issues WHERE state = 'open' AND assignee = 'bob'"}) returned this:
<result>
COUNT(*): 2
</result>
Request: How many open issues does bob have?
Answer it from the results above only, in the language of the request. The answer is one or two sentences with the exact names, values and files.
Reply {"assessment":what the results say about it,"final_answer":the answer,"found_in":"results" or, if nothing above says it, "nowhere"}.\
""")
    assert [(each.tool, each.arguments, each.result) for each in ran.state.iterations] == snapshot(
        [
            (
                "list_issues",
                {},
                '[{"number": 7, "state": "open", "assignee": "bob", "votes": 3}, {"number": 8, "state": "closed", "assignee": "bob", "votes": 12}, {"number": 9, "state": "open", "assignee": "lena", "votes": 5}, {"number": 10, "state": "open", "assignee": "bob", "votes": 1}]',
            ),
            (
                "query_results",
                {
                    "sql": "SELECT COUNT(*) FROM list_issues WHERE state = 'open' AND assignee = 'bob'"
                },
                '{"COUNT(*)": 2}',
            ),
        ]
    )
    assert (ran.state.status, ran.state.answer) == ("partial", "bob has 2 open issues.")
    assert ran.state.reason == OWN_QUERY
    assert ran.state.quotes == snapshot(["COUNT(*): 2"])


async def test_an_answer_with_another_number_than_the_query_is_doubted() -> None:
    ran = await asked(sql(COUNTED), found("bob has 3 open issues."), pool=tracker())
    assert (ran.state.status, ran.state.reason) == snapshot(
        ("partial", "A query of the results says 2")
    )


async def test_a_query_that_fails_is_written_once_more() -> None:
    wrong = "SELECT COUNT(*) FROM issues WHERE state = 'open'"
    ran = await asked(sql(wrong), sql(COUNTED), found("bob has 2 open issues."), pool=tracker())
    first, again = ran.script.asides[-3].last, ran.script.asides[-2].last
    assert again.startswith(first)
    assert again.removeprefix(first) == snapshot("""\

The query before did not work:
SELECT COUNT(*) FROM issues WHERE state = 'open'
no such table: issues\
""")
    assert [(each.guard, each.message) for each in ran.state.guards] == snapshot(
        [("query", "no such table: issues: SELECT COUNT(*) FROM issues WHERE state = 'open'")]
    )
    assert (ran.state.status, ran.state.reason) == ("partial", OWN_QUERY)


@pytest.mark.parametrize("said", ["COUNT(*)", "number"])
async def test_a_list_in_which_queries_find_nothing_is_read_and_doubted(said: str) -> None:
    """Zero is nothing too: a condition that fits no row counts to that."""
    none = sql(f"SELECT {said} FROM list_issues WHERE assignee = 'bob' AND state = 'opened'")
    ran = await asked(none, none, found("bob has issue 7."), pool=tracker())
    assert [each.tool for each in ran.state.iterations] == ["list_issues"]
    assert ran.guards == ["query", "query", "second_reading"]
    assert (ran.state.status, ran.state.answer) == ("partial", "bob has issue 7.")
    assert ran.state.reason == "The answer was read from a list, and no query confirms it"


async def test_a_list_is_read_as_it_is_if_the_model_writes_no_query() -> None:
    """Not every server holds it to the schema."""
    said = Unconstrained({"sql": None})
    ran = await asked(said, said, found("bob has issue 7."), pool=tracker())
    assert (ran.state.status, ran.state.answer) == ("partial", "bob has issue 7.")


@pytest.mark.parametrize(
    ("wanted", "details", "status"),
    [
        ("assignee = 'nobody'", "number: 7\nreported by: mail@lena.example", "answered"),
        ("number = 7", "number: 7\nreported by: mail@lena.example", "answered"),
        ("number = 7", "number: 7", "partial"),
    ],
)
async def test_what_another_result_says_does_not_rest_on_a_query(
    wanted: str, details: str, status: str
) -> None:
    said = sql(f"SELECT number, assignee FROM list_issues WHERE {wanted}")
    pool = tracker([*ISSUES, {"number": 11, "assignee": "mail@lena.example"}])
    pool.specs.append(spec("get_issue", "number", upstream="tracker"))
    pool.results["get_issue"] = [details]
    ran = await planned(
        steps(("List the issues", "list_issues"), ("Read the issue", "get_issue")),
        *[said] * (1 if "7" in wanted else 2),
        *[nowhere()] * ("7" in wanted),
        {"number": "7"},
        found("It was reported by mail@lena.example."),
        pool=pool,
        prompt="Who reported issue number 7?",
    )
    assert ran.state.status == status


async def test_a_short_list_is_not_queried() -> None:
    ran = await asked(found("bob has issue 7."), pool=tracker(ISSUES[:2]))
    assert "query" not in [each.role for each in ran.state.ledger]


@pytest.mark.parametrize(
    ("argument", "value", "is_queried"),
    [
        ("cursor", "c:10", False),
        ("pageToken", "x9", False),
        ("page", "2", False),
        ("offset", "10", False),
        ("page", "1", True),
        ("offset", "0", True),
        ("cursor", "", True),
        ("state", "open", True),
    ],
)
async def test_the_last_page_is_not_queried_as_all_of_a_list(
    argument: str, value: str, is_queried: bool
) -> None:
    pool = tracker()
    pool.specs[0] = spec("list_issues", f"{argument}?", upstream="tracker")
    turns = [sql(COUNTED), found("bob has 2 open issues.")] if is_queried else [found("Issue 7.")]
    ran = await asked({argument: value}, *turns, pool=pool)
    assert ("query_results" in [each.tool for each in ran.state.iterations]) is is_queried


def in_parts(*further: Any) -> DictionaryPool:
    """A tracker whose first page is followed by these."""
    pages = [{"issues": ISSUES, "next_cursor": "c4"}, *further]
    told = [each if isinstance(each, ToolResult) else json.dumps(each) for each in pages]
    pool = tracker(list_issues=told)
    pool.specs[0] = spec("list_issues", "state?", "cursor?", upstream="tracker")
    return pool


async def test_the_further_pages_of_a_list_are_read_as_one() -> None:
    more = [each | {"number": number} for number, each in enumerate(ISSUES, 11)]
    pool = in_parts({"issues": more, "next_cursor": None})
    ran = await asked({"state": "all"}, sql(COUNTED), found("bob has 4 open issues."), pool=pool)
    assert [arguments for _, arguments in pool.calls] == [
        {"state": "all"},
        {"state": "all", "cursor": "c4"},
    ]
    assert json.loads(ran.results[0][2]) == {"issues": [*ISSUES, *more]}
    assert (ran.guards, ran.state.reason) == (["page"], OWN_QUERY)


@pytest.mark.parametrize(
    ("again", "whole"),
    [
        ({"issues": ISSUES, "next_cursor": "c4"}, False),
        ({"issues": [], "next_cursor": None}, True),
        ({"message": "later"}, False),
    ],
)
async def test_a_page_without_new_entries_ends_a_list_only_if_it_is_empty(
    again: dict[str, Any], whole: bool
) -> None:
    said = [sql(COUNTED), found("bob has 2 open issues.")] if whole else [found("7, 9 and 10.")]
    ran = await asked({"state": "all"}, *said, pool=in_parts(again))
    assert ("next_cursor" in ran.results[0][2]) is not whole
    assert len(ran.pool.calls) == 2


@pytest.mark.parametrize(
    ("prompt", "answer", "status"),
    [
        ("Which issues are there?", "There are 7, 8, 9 and 10.", "partial"),
        ("Which issue has the most votes?", "It is 8, with 12 votes.", "partial"),
        ("Who is assigned to issue 9?", "It is assigned to lena.", "answered"),
        ("List the last 4 issues", "They are 7, 8, 9 and 10.", "answered"),
    ],
)
async def test_an_answer_on_all_of_a_list_that_was_read_in_part_is_doubted(
    prompt: str, answer: str, status: str
) -> None:
    pool = in_parts(ToolResult(outcome=Outcome.FAILURE, text="Slow down."))
    if "last 4" in prompt:
        pool.results["list_issues"] = pool.results["list_issues"][:1]
    ran = await asked({"state": "all"}, found(answer), pool=pool, prompt=prompt)
    part = "only a part of the list that list_issues returns was read"
    assert ran.state.status == status
    assert ran.state.reason == (part if status == "partial" else None)


@pytest.mark.parametrize(
    ("prompt", "status"),
    [("Close all issues", "partial"), ("Close the issues 7 and 9", "answered")],
)
async def test_changes_of_all_of_a_list_that_was_read_in_part_are_no_whole(
    prompt: str, status: str
) -> None:
    page = json.dumps({"issues": ISSUES, "has_more": True})
    ran = await planned(
        Fast(deed("issues")),
        steps(("List", "list_issues"), ("Close", "close"), ("Close", "close")),
        *({"number": each} for each in ("7", "9")),
        was_done("The issues 7 and 9 were closed."),
        pool=tracker(list_issues=[page], close=["Closed."] * 2),
        prompt=prompt,
        **ALLOWED,
    )
    assert ran.state.status == status


async def test_a_query_without_a_value_that_the_request_names_is_written_once_more() -> None:
    loose = sql("SELECT COUNT(*) FROM list_issues WHERE state = 'open'")
    ran = await asked(loose, sql(COUNTED), found("bob has 2 open issues."), pool=tracker())
    assert [each.message for each in ran.state.guards] == snapshot(
        [
            "the request says bob, and the query does not: SELECT COUNT(*) FROM list_issues WHERE state = 'open'"
        ]
    )
    assert (ran.state.status, ran.state.reason) == ("partial", OWN_QUERY)


async def test_a_value_that_all_records_have_is_no_condition() -> None:
    """The call itself asked for open issues."""
    still_open = [each for each in ISSUES if each["state"] == "open"]
    ran = await asked(
        sql("SELECT COUNT(*) FROM list_issues WHERE assignee = 'bob'"),
        found("bob has 2 open issues."),
        pool=tracker(still_open),
    )
    assert ran.guards == []
    assert ran.state.reason == OWN_QUERY


async def test_two_readings_agree_if_both_say_what_a_query_has_found() -> None:
    issues = [each | {"title": f"{each['state']} case"} for each in ISSUES]
    ran = await asked(
        sql("SELECT title FROM list_issues ORDER BY votes DESC LIMIT 1"),
        found("closed case"),
        second("The issue that has the most votes is closed case."),
        pool=tracker(issues),
        prompt="Which issue has the most votes?",
    )
    assert (ran.state.answer, ran.state.reason) == ("closed case", OWN_QUERY)


async def test_a_query_is_none_of_the_calls_that_a_limit_is_for() -> None:
    said = found("bob has 2 open issues.")
    ran = await asked(sql(COUNTED), said, pool=tracker(), limits=Limits(iterations=1))
    assert [each.tool for each in ran.state.iterations] == ["list_issues", "query_results"]


async def test_what_is_changed_is_found_by_a_query() -> None:
    steps = [("List them", "list_issues"), ("Close it", "close")]
    ran = await planned(
        Fast(deed("issues")),
        {"steps": [{"objective": objective, "tool": tool} for objective, tool in steps]},
        sql("SELECT number FROM list_issues ORDER BY votes ASC LIMIT 1"),
        {"tool": "close"},
        {"number": "10"},
        was_done("Issue 10 was closed."),
        pool=(pool := tracker(close=["Closed."])),
        prompt="Close the issue with the fewest votes",
        **ALLOWED,
    )
    assert pool.calls == [("list_issues", {}), ("close", {"number": "10"})]
    assert ran.state.status == "answered"


@pytest.mark.parametrize(
    ("prompt", "found", "reason"),
    [
        ("Close the open issues", "state = 'open'", "the request may also ask for 9, 10"),
        ("Close issue 7", "state = 'open'", None),
        ("Close the open issues", "number = 7", None),
    ],
)
async def test_of_what_a_query_found_for_a_change_all_is_asked_for(
    prompt: str, found: str, reason: str | None
) -> None:
    """Unless the request says which."""
    ran = await planned(
        Fast(deed("issues")),
        steps(("List them", "list_issues"), ("Close them", "close")),
        sql(f"SELECT number FROM list_issues WHERE {found}"),
        {"tool": "close"},
        {"number": "7"},
        was_done("Issue 7 was closed."),
        pool=tracker(close=["Closed."]),
        prompt=prompt,
        **ALLOWED,
    )
    assert ran.state.reason == reason


async def test_an_amount_that_a_query_made_up_is_not_sent() -> None:
    """A value of the query's own was not found."""
    send = spec("send", "amount", upstream="tracker", safety=Safety.WRITE)
    pool = tracker()
    pool.specs.append(send)
    made_up = sql("SELECT 500 AS amount FROM list_issues")
    ran = await planned(
        Fast(deed("issues")),
        {
            "steps": [
                {"objective": "List", "tool": "list_issues"},
                {"objective": "Send", "tool": "send"},
            ]
        },
        made_up,
        made_up,
        {"tool": "send"},
        {"amount": "500"},
        was_done("500 was sent."),
        pool=pool,
        prompt="Send what is due",
        **ALLOWED,
    )
    assert [name for name, _ in pool.calls] == ["list_issues"]
    assert ran.state.status == "failed"


async def test_a_plan_lists_the_same_only_once_until_something_is_changed() -> None:
    steps = ["list_issues", "list_issues", "close", "list_issues"]
    planned_steps = {
        "steps": [{"objective": f"{n}. {each}", "tool": each} for n, each in enumerate(steps)]
    }
    ran = await planned(
        planned_steps,
        pool=tracker(),
        prompt="Plan it",
        goal="plan",
        policy=Policy.ALLOW,
    )
    begun = [each.objective for each in ran.state.steps]
    assert [*begun, *ran.state.later_steps] == snapshot(
        ["0. list_issues", "2. close", "3. list_issues"]
    )


async def test_what_a_query_has_found_ends_a_plan_that_would_go_on() -> None:
    pool = tracker()
    pool.specs.append(spec("list_rooms", upstream="tracker"))
    steps = [{"objective": each, "tool": each} for each in ("list_issues", "list_rooms")]
    ran = await planned(
        {"steps": steps}, sql(COUNTED), found("bob has 2 open issues."), pool=pool, prompt=QUESTION
    )
    assert [name for name, _ in pool.calls] == ["list_issues"]
    assert (ran.state.status, ran.state.reason) == ("partial", OWN_QUERY)


async def test_a_tool_of_the_same_name_is_none_of_the_planners_queries() -> None:
    tool = spec("query_results", upstream="tracker")
    pool = DictionaryPool({}, specs=[tool], results={"query_results": [json.dumps(ISSUES)]})
    ran = await planned(
        plan("query_results"), found("bob has issue 7."), pool=pool, prompt=QUESTION
    )
    assert [(each.by, each.tool) for each in ran.state.iterations] == [("choice", "query_results")]
    assert ran.state.answer == "bob has issue 7."
