"""What a call needs and nobody has said is found with another tool."""
# ruff: noqa: E501  texts stand as models see them

import json
from typing import Any

import pytest
from in_memory import DictionaryPool, Fast, Ran, Said, planned, spec
from inline_snapshot import snapshot
from replies import conclusion, deed, deep, found, nowhere, second, steps

from planner.agent.ending import OWN_QUERY
from planner.checks.guards.arguments import spelled_as_said
from planner.checks.guards.widening import items
from planner.evidence.answers import answers
from planner.state import Iteration
from planner.tools import Outcome, Safety, ToolResult, ToolSpec


def of_each(name: str, argument: str) -> ToolSpec:
    """A tool that tells something of each thing of a list."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {argument: {"type": "array", "items": {"type": "string"}}},
        "required": [argument],
    }
    return ToolSpec(
        name=name,
        upstream="city",
        description=name,
        input_schema=schema,
        safety=Safety.READ_ONLY,
    )


pytestmark = pytest.mark.anyio

LIST_CAFES = spec("list_cafes", "city", upstream="city", description="All cafes of a city.")
GET_MENU = of_each("get_menu_of_cafes", "cafe_names")
GET_RATING = of_each("get_rating_of_cafes", "cafe_names")
CAFES = ["Anker", "Birne", "Cello"]
LISTED = "Cafes: Anker\nBirne\nCello\n"
MENUS = {"Anker": "tea", "Birne": "cake", "Cello": "cake"}
RATINGS = {name: f"Rating: {n}.5\nSaid: fine\nand cheap" for n, name in enumerate(CAFES, 2)}
QUESTION = "Which cafe in Bern with cake is rated best?"
BEST = "SELECT name FROM cafe_names WHERE menu = 'cake' ORDER BY Rating DESC LIMIT 1"


def city(**results: list[str | ToolResult]) -> DictionaryPool:
    results.setdefault("list_cafes", [LISTED])
    return DictionaryPool({}, specs=[LIST_CAFES, GET_MENU, GET_RATING], results=results)


async def asked(*turns: Said, pool: DictionaryPool, prompt: str = QUESTION) -> Ran:
    return await planned(Fast(deed("city")), *turns, pool=pool, prompt=prompt)


def call(tool: str, told: dict[str, str], argument: str = "cafe_names") -> Iteration:
    """A call that was given the names of things, and told something of each."""
    made = Iteration(number=0, step=1, tool=tool, prompt="", outcome=Outcome.SUCCESS)
    made.arguments, made.result = {argument: [*told]}, json.dumps(told)
    return made


async def rated(*turns: Said, prompt: str = QUESTION) -> Ran:
    """A run that has the menus and ratings of all, and queries them."""
    return await asked(
        steps(("Find cake", "get_menu_of_cafes"), ("Rate them", "get_rating_of_cafes")),
        {"cafe_names": CAFES},
        {"cafe_names": CAFES},
        {"sql": BEST},
        *turns,
        pool=city(get_menu_of_cafes=[json.dumps(MENUS)], get_rating_of_cafes=[str(RATINGS)]),
        prompt=prompt,
    )


async def test_the_things_that_a_look_up_is_about_are_found_first() -> None:
    """And later calls about such things are made with those that were found."""
    pool = city(get_menu_of_cafes=["{}", str(MENUS)], get_rating_of_cafes=[str(RATINGS)])
    ran = await asked(
        steps(("Find cake", "get_menu_of_cafes"), ("Rate them", "get_rating_of_cafes")),
        {"cafe_names": ["Bern"]},
        {"tool": "list_cafes"},
        {"city": "bern"},
        {"sql": BEST},
        found("Cello is rated best."),
        pool=pool,
    )
    assert pool.calls == [
        ("get_menu_of_cafes", {"cafe_names": ["Bern"]}),
        ("list_cafes", {"city": "Bern"}),
        ("get_menu_of_cafes", {"cafe_names": CAFES}),
        ("get_rating_of_cafes", {"cafe_names": CAFES}),
    ]
    question = next(each.last for each in ran.asked if "finds it out" in each.last)
    assert question.partition("Request: ")[2] == snapshot("""\
Which cafe in Bern with cake is rated best?
get_menu_of_cafes needs cafe_names, which no result says yet. Which tool finds it out? The likeliest: list_cafes. Reply {"tool":"name"}, or {"tool":null} if none does.\
""")
    assert ran.guards == ["spelling"]
    assert "Cello" in ran.state.answer


async def test_one_thing_is_chosen_from_those_that_were_found() -> None:
    one = spec("seats_in_cafe", "cafe_name", upstream="city")
    pool = DictionaryPool(
        {},
        specs=[LIST_CAFES, one],
        results={"list_cafes": [LISTED], "seats_in_cafe": ["{}", "12 seats", "8 seats", "9 seats"]},
    )
    ran = await asked(
        steps(("Count the seats", "seats_in_cafe")),
        {"cafe_name": "Bern"},
        {"tool": "list_cafes"},
        {"city": "Bern"},
        {"cafe_name": "Birne"},
        found("It has 12 seats."),
        pool=pool,
        prompt="How many seats has the second cafe of Bern?",
    )
    [*_, chosen] = [each.schema for each in ran.asked if "cafe_name" in str(each.schema)]
    assert chosen
    assert chosen["properties"]["cafe_name"]["enum"] == CAFES
    assert ("seats_in_cafe", {"cafe_name": "Birne"}) in pool.calls


async def test_the_answer_says_what_was_found_of_its_thing_and_was_asked_for() -> None:
    asks = "Which cafe with cake is best? Tell me its rating."
    ran = await rated(found("Cello"), second("It is Cello."), prompt=asks)
    assert ran.state.answer == "Cello\n- Rating: 4.5"
    assert ran.state.reason == OWN_QUERY


def test_what_most_tools_say_of_the_same_things_is_one_table() -> None:
    beds = {"Mond": "2", "Nord": "3", "Ost": "1"}
    calls = [call("menu_of_cafes", MENUS), call("tables_of_cafes", MENUS)]
    together = answers([*calls, call("beds_of_hotels", beds, "hotel_names")])
    assert together
    assert [each.name for each in together.columns] == ["name", "menu", "tables"]
    assert answers([call("menu_of_cafes", {"Anker": "tea"})]) is None


async def test_what_was_found_for_the_only_step_is_queried() -> None:
    pool = city(get_menu_of_cafes=["{}", json.dumps(MENUS)])
    ran = await asked(
        steps(("Find tea", "get_menu_of_cafes")),
        {"cafe_names": ["Bern"]},
        {"tool": "list_cafes"},
        {"city": "Bern"},
        {"sql": "SELECT name FROM cafe_names WHERE get_menu_of = 'tea'"},
        found("Anker has tea."),
        pool=pool,
        prompt="Which cafe in Bern has tea?",
    )
    assert ran.state.answer == "Anker has tea."
    assert ran.state.reason == OWN_QUERY


def test_an_address_is_no_name_with_a_value() -> None:
    links = {name: f"https://{name}.example" for name in CAFES}
    table = answers([call("link_of", links)])
    assert table
    assert [each.name for each in table.columns] == ["name", "link_of"]


async def test_what_is_told_of_each_thing_is_queried_as_one_table() -> None:
    ran = await rated(found("Cello is rated best."))
    [tables] = [each.last for each in ran.script.asides if "as tables in SQLite" in each.last]
    assert tables.partition("as tables in SQLite:\n")[2].partition("\nRequest")[0] == snapshot(
        "CREATE TABLE cafe_names (name TEXT /* 'Anker' */, menu TEXT /* 'tea', 'cake' */, Rating NUMERIC /* 2.5 */, Said TEXT /* 'fine and cheap' */)"
    )
    assert json.loads(ran.results[-1][2]) == {
        "name": "Cello",
        "menu": "cake",
        "Rating": 4.5,
        "Said": "fine\nand cheap",
    }


async def test_the_items_of_a_list_do_not_stand_for_several_arguments() -> None:
    table = spec("find_table", "city", "cafe_name", upstream="city")
    listing = spec("list_cafes", upstream="city", description="All cafes, with their city.")
    pool = DictionaryPool(
        {},
        specs=[listing, table],
        results={"list_cafes": [LISTED], "find_table": ["{}"]},
    )
    ran = await asked(
        steps(("Find a table", "find_table")),
        {"city": "Bern", "cafe_name": "any"},
        {"tool": "list_cafes"},
        nowhere(),
        conclusion("There is none.", success=False),
        pool=pool,
    )
    assert [name for name, _ in pool.calls] == ["find_table", "list_cafes"]
    assert ran.state.status == "not_found"


async def test_numbers_that_were_found_are_given_as_numbers() -> None:
    orders = spec("list_orders", "day", upstream="city")
    details = of_each("get_orders", "order_ids")
    details.input_schema["properties"]["order_ids"]["items"] = {"type": "integer"}
    listed = json.dumps([{"order_id": 12}, {"order_id": 13}])
    pool = DictionaryPool(
        {},
        specs=[orders, details],
        results={"list_orders": [listed], "get_orders": ["[]", "12 is late, 13 is not."]},
    )
    await asked(
        steps(("Read the orders", "get_orders")),
        {"order_ids": [7]},
        {"tool": "list_orders"},
        {"day": "Monday"},
        found("Order 12 is late."),
        pool=pool,
        prompt="Which order of Monday is late?",
    )
    assert pool.calls[-1] == ("get_orders", {"order_ids": [12, 13]})


@pytest.mark.parametrize("choice", [None, "list_cafes"])
async def test_a_look_up_is_made_once_where_nothing_is_found_for_it(choice: str | None) -> None:
    pool = city(get_menu_of_cafes=["{}"], list_cafes=["Cafes: \n"])
    turns: list[Said] = [{"tool": choice}, *([{"city": "Bern"}] if choice else [])]
    ran = await asked(
        steps(("Find cake", "get_menu_of_cafes")),
        {"cafe_names": ["Bern"]},
        *turns,
        nowhere(),
        deep(conclusion("There is none.", success=False)),
        pool=pool,
    )
    assert [name for name, _ in pool.calls] == ["get_menu_of_cafes", "list_cafes"][: len(turns)]
    assert ran.state.status == "not_found"


@pytest.mark.parametrize(
    ("result", "listed"),
    [
        (LISTED, CAFES),
        ("Cafes:\nAnker\nBirne", ["Anker", "Birne"]),
        ("Cafe: Anker", ["Anker"]),
        ('["Anker", "Birne"]', ["Anker", "Birne"]),
        ("['Anker', 'Birne']", ["Anker", "Birne"]),
        ("Airline: BA, Flight: BA12", []),
        ("Cafes: \n", []),
        ("There is one in the old town.", []),
        ('{"name": "Anker", "seats": 3}', []),
    ],
)
def test_items_of_a_list(result: str, listed: list[str]) -> None:
    assert [*items(result)] == listed


STATE = {"enum": ["open", "closed"]}
CHOOSING = spec(
    "issues",
    input_schema={
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "state": {"anyOf": [STATE, {"type": "null"}]},
            "labels": {"type": "array", "items": STATE},
            "kind": {"type": "string", "description": "Issues or Requests"},
        },
    },
)


def test_what_the_user_said_in_other_capitals() -> None:
    given = {"city": "bern", "names": ["anker", "Birne"], "limit": 3, "other": "BER"}
    assert spelled_as_said(given, CHOOSING, "Is there an Anker in Bern?", "")[0] == given | {
        "city": "Bern",
        "names": ["Anker", "Birne"],
    }
    assert spelled_as_said({"word": "bern"}, CHOOSING, "Bern, and bern too", "")[1] == []


@pytest.mark.parametrize(
    "given", [{"state": "open"}, {"labels": ["open"]}, {"country": "IN"}, {"kind": "Issues"}]
)
def test_choices_and_codes_are_spelled_as_the_tool_does(given: dict[str, Any]) -> None:
    assert spelled_as_said(given, CHOOSING, "Open issues in India, please", "") == (given, [])


async def test_a_name_that_was_found_stays_as_it_is_spelled() -> None:
    """The names of collections, tables and keys are mostly in lower case; people write a noun with
    a capital in German, and where a sentence begins."""
    tools = [
        spec("list_collections", upstream="city"),
        spec("count", "collection", upstream="city"),
    ]
    told: dict[str, list[str | ToolResult]] = {
        "list_collections": ["Name: kunden\nName: cafes"],
        "count": ["1204 documents"],
    }
    ran = await asked(
        steps(("List them", "list_collections"), ("Count them", "count")),
        {"collection": "kunden"},
        found("Es gibt 1204 Kunden."),
        pool=DictionaryPool({}, specs=tools, results=told),
        prompt="Wie viele Kunden gibt es?",
    )
    assert (ran.pool.calls[-1], ran.guards) == (("count", {"collection": "kunden"}), [])


READ_SHEET = spec("read_sheet", "path", "sheet", upstream="office")
DESCRIBE = spec("describe_workbook", "path", upstream="office", description="The sheets of a file.")


def failed(text: str) -> ToolResult:
    return ToolResult(outcome=Outcome.FAILURE, text=text)


async def test_a_look_up_that_failed_is_made_again_with_what_its_tool_said_in_view() -> None:
    """As often as that is new; a value that it says there is not is one of those that there are."""
    tours = spec("list_tours", "day", "city", upstream="boats")
    cities = "city 'Berne' is not one of 'Bern', 'Thun'"
    pool = DictionaryPool(
        {},
        specs=[tours],
        results={"list_tours": [failed("day is not YYYY-MM-DD"), failed(cities), "at 10:30"]},
    )
    ran = await planned(
        Fast(deed("tours")),
        steps(("List the tours", "list_tours")),
        {"day": "4 May", "city": "Berne"},
        {"day": "2026-05-04", "city": "Berne"},
        {"day": "2026-05-04", "city": "Bern"},
        found("At 10:30."),
        pool=pool,
        prompt="When do tours of Berne start on 4 May?",
    )
    assert [arguments for _, arguments in pool.calls] == [
        {"day": "4 May", "city": "Berne"},
        {"day": "2026-05-04", "city": "Berne"},
        {"day": "2026-05-04", "city": "Bern"},
    ]
    [*_, last] = [each for each in ran.asked if "Call list_tours" in each.last]
    assert last.schema
    assert last.schema["properties"]["city"]["enum"] == ["Bern", "Thun"]
    assert last.last.endswith(f"The call before was not accepted: {cities}")
    assert ran.state.answer == "At 10:30."


async def test_what_nobody_has_said_of_a_file_is_found_first() -> None:
    pool = DictionaryPool(
        {},
        specs=[READ_SHEET, DESCRIBE],
        results={
            "read_sheet": [failed("no such sheet"), "tea costs 3.20"],
            "describe_workbook": ['{"sheet": "Prices"}'],
        },
    )
    await planned(
        Fast(deed("tea")),
        steps(("Read the prices", "read_sheet")),
        {"path": "bar.xlsx", "sheet": "Menu"},
        {"tool": "describe_workbook"},
        {"path": "bar.xlsx"},
        {"path": "bar.xlsx", "sheet": "Prices"},
        found("Tea costs 3.20."),
        pool=pool,
        prompt="What does tea cost in bar.xlsx?",
    )
    assert pool.calls[1:] == [
        ("describe_workbook", {"path": "bar.xlsx"}),
        ("read_sheet", {"path": "bar.xlsx", "sheet": "Prices"}),
    ]


async def test_a_tool_that_the_failure_speaks_of_is_called_first_and_for_all_alike() -> None:
    """A query needs the columns of the tables, and nothing says which table."""
    query = spec("run_query", "sql", upstream="shop")
    about = "The columns of a table, for SQL."
    columns = spec("list_columns", "table", upstream="shop", description=about)
    tables = spec("list_tables", upstream="shop")
    pool = DictionaryPool(
        {},
        specs=[tables, columns, query],
        results={
            "list_tables": [
                '{"tables": [{"name": "teas", "kind": "t"}, {"name": "sales", "kind": "t"}]}'
            ],
            "run_query": [failed('Column "price" does not exist'), "3.20"],
            "list_columns": ["cost, name", "tea, day"],
        },
    )
    wrong, right = "SELECT price FROM teas", "SELECT cost FROM teas"
    ran = await planned(
        Fast(deed("tea")),
        steps(("List the tables", "list_tables"), ("Query the price", "run_query")),
        {"sql": wrong},
        {"tool": "list_columns"},
        {"table": "teas"},
        {"sql": right},
        found("It costs 3.20."),
        pool=pool,
        prompt="What does tea cost?",
    )
    assert pool.calls == [
        ("list_tables", {}),
        ("run_query", {"sql": wrong}),
        ("list_columns", {"table": "teas"}),
        ("list_columns", {"table": "sales"}),
        ("run_query", {"sql": right}),
    ]
    assert "siblings" in ran.guards
    assert ran.state.answer == "It costs 3.20."


async def test_what_was_found_before_is_taken_for_a_look_up_that_found_nothing() -> None:
    tables = spec("list_tables", upstream="shop")
    describe = spec("describe_table", "table_name", upstream="shop")
    pool = DictionaryPool(
        {},
        specs=[tables, describe],
        results={
            "list_tables": ["[{'name': 'teas'}, {'name': 'sales'}]"],
            "describe_table": ["[]", "cost, name", "tea, day"],
        },
    )
    ran = await planned(
        Fast(deed("tea")),
        steps(("List the tables", "list_tables"), ("Look at it", "describe_table")),
        {"table_name": "payments"},
        {"table_name": "teas"},
        found("teas has cost and name."),
        pool=pool,
        prompt="What do we know of tea?",
    )
    assert [arguments for _, arguments in pool.calls] == [
        {},
        {"table_name": "payments"},
        {"table_name": "teas"},
        {"table_name": "sales"},
    ]
    assert "cost, name" in ran.asked[-1].text


async def test_a_broader_call_stands_in_prompts_as_what_it_is() -> None:
    search = spec("search_notes", "query", upstream="notes")
    pool = DictionaryPool(
        {}, specs=[search], results={"search_notes": ["[]", "[]", '["Ann eats no nuts"]']}
    )
    ran = await planned(
        Fast(deed("Ann")),
        steps(("Find it", "search_notes")),
        {"query": "Ann allergies"},
        found("Ann eats no nuts."),
        pool=pool,
        prompt="What does Ann not eat?",
    )
    assert ran.asked[-1].last.partition("Request:")[0] == snapshot("""\
search_notes({"query":"Ann allergies"}) found nothing. search_notes({"query":"Ann"}) returned this:
<result>
["Ann eats no nuts"]
</result>
""")


async def test_the_end_says_that_the_look_up_has_failed() -> None:
    query = spec("run_query", "sql", upstream="shop")
    pool = DictionaryPool(
        {}, specs=[query], results={"run_query": [failed("no such table: tea")] * 9}
    )
    ran = await planned(
        Fast(deed("tea")),
        steps(("Query the price", "run_query")),
        {"sql": "SELECT price FROM tea"},
        nowhere(),
        deep(conclusion("There is no such data.", success=False)),
        pool=pool,
        prompt="What does tea cost?",
    )
    assert ran.state.status == "not_found"
    assert ran.state.reason == snapshot("run_query failed: no such table: tea")
    assert ran.state.answer == snapshot("""\
Could not find out: run_query failed: no such table: tea.

The model says:
There is no such data.\
""")


async def test_a_tool_that_always_failed_is_told_of_when_no_other_is_left() -> None:
    fetch = spec("fetch", "url", upstream="web")
    pool = DictionaryPool({}, specs=[fetch], results={"fetch": [failed("Refused: it is private")]})
    ran = await planned(
        Fast(deed("refund")),
        steps(("Fetch it", "fetch"), ("Read the refund", "fetch"), ("Tell the refund", "fetch")),
        *([{"url": "http://shop.test"}] * 3),
        conclusion("The page cannot be read.", success=False),
        pool=pool,
        prompt="How long is the refund of http://shop.test?",
    )
    assert ran.state.answer == snapshot("""\
Could not find out: fetch failed: Refused: it is private.

The model says:
The page cannot be read.\
""")
