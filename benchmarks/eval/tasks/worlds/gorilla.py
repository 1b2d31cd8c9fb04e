"""BFCL's multi-turn tasks on its file system and its tickets, with their own state check.

A task of BFCL is a conversation of several turns. Planloom's tools take one request, so a case here
is one turn, in the state that the published calls of the turns before it leave, and only turns are
taken whose text says by itself what is wanted. The check is BFCL's: the state as the published
calls leave it, and their results among the results of the calls that were made.
"""

import json
from importlib.resources import files
from itertools import count
from typing import Any

from bfcl_eval.constants.executable_backend_config import MULTI_TURN_FUNC_DOC_FILE_MAPPING
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import (
    response_checker,
    state_checker,
)
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call
from world import Call, Task, Tool, kind, parsed

TURNS = (
    (0, 0), (1, 0), (2, 0), (3, 0), (5, 0), (5, 2), (7, 0), (8, 0), (8, 1), (9, 1), (16, 0),
    (19, 1), (21, 0), (23, 2), (24, 1), (24, 2), (27, 0), (32, 0), (34, 0), (41, 0), (44, 0),
    (46, 0), (47, 1), (180, 5),
)  # fmt: skip
"""The chosen ones, task and turn: files and tickets, every kind of call, one to five of them."""

READS = {
    "cat", "diff", "du", "find", "grep", "ls", "pwd", "sort", "tail", "wc",
    "absolute_value", "add", "divide", "imperial_si_conversion", "logarithm", "max_value", "mean",
    "min_value", "multiply", "percentage", "power", "round_number", "si_unit_conversion",
    "square_root", "standard_deviation", "subtract", "sum_values",
    "get_message_stats", "get_user_id", "list_users", "message_get_login_status", "search_messages",
    "view_messages_sent",
    "get_tweet", "get_tweet_comments", "get_user_stats", "get_user_tweets",
    "list_all_following", "posting_get_login_status", "search_tweets",
    "get_ticket", "get_user_tickets", "ticket_get_login_status",
    "compute_exchange_rate", "get_all_credit_cards", "get_budget_fiscal_year",
    "get_credit_card_balance", "get_flight_cost", "get_nearest_airport_by_city",
    "list_all_airports", "retrieve_invoice", "travel_get_login_status",
    "verify_traveler_information",
}  # fmt: skip
"""The tools that leave everything as it is. `cd` is not among them: it moves what the others see.
`python worlds check` compares states before and after."""

NUMBERS = count()
DATA = files("bfcl_eval") / "data"
TYPES = {"dict": "object", "float": "number", "tuple": "array"}
"""BFCL's words for types that JSON Schema calls something else."""


def read(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / path).read_text().splitlines()]


def entries() -> dict[str, dict[str, Any]]:
    """The conversations that `TURNS` names, each with its `truth`, by id."""
    found = {entry["id"]: entry for entry in read("BFCL_v4_multi_turn_base.json")}
    for answer in read("possible_answer/BFCL_v4_multi_turn_base.json"):
        found[answer["id"]]["truth"] = answer["ground_truth"]
    return {id: found[id] for id in (f"multi_turn_base_{number}" for number, _ in TURNS)}


def tasks() -> list[Task]:
    """The chosen turns, `gorilla/multi_turn_base_9/1`."""
    found = []
    known = entries()
    for place, (number, turn) in enumerate(TURNS):
        entry = known[f"multi_turn_base_{number}"]
        [message] = entry["question"][turn]
        tools = {tool.name: tool for tool in published(entry)}
        truth = tuple(by_name(call, tools) for call in entry["truth"][turn])
        sort = kind([call.tool for call in truth if call.tool != "cd"], READS)
        id = f"gorilla/{entry['id']}/{turn}"
        found.append(Task(id, place, sort, message["content"].strip(), truth, ""))
    return found


def by_name(source: str, tools: dict[str, Tool]) -> Call:
    """A published call with the names of its arguments, as an MCP client makes it."""
    name, values, named = parsed(source)
    names = list(tools[name].schema["properties"])
    return Call(name, dict(zip(names, values, strict=False)) | named)


def published(entry: dict[str, Any]) -> list[Tool]:
    """The tools of a conversation, as BFCL publishes them."""
    docs = [
        doc
        for name in entry["involved_classes"]
        for doc in read(f"multi_turn_func_doc/{MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]}")
        if doc["name"] not in entry.get("excluded_function", ())
    ]
    return [
        Tool(doc["name"], doc["description"], schema(doc["parameters"]), doc["name"] in READS)
        for doc in docs
    ]


def schema(doc: dict[str, Any]) -> dict[str, Any]:
    """BFCL's description of a value in JSON Schema."""
    said = dict(doc)
    if "type" in said:
        said["type"] = TYPES.get(said["type"], said["type"])
    if said.get("type") == "any":
        del said["type"]
    if isinstance(said.get("items"), dict):
        said["items"] = schema(said["items"])
    if isinstance(said.get("properties"), dict):
        said["properties"] = {name: schema(each) for name, each in said["properties"].items()}
    return said


class Gorilla:
    """A conversation's classes as one of its turns finds them."""

    def __init__(self, id: str, turn: str) -> None:
        self.entry = entries()[id]
        self.turn = int(turn)
        self.state = self._after([])
        self.tools = published(self.entry)

    def _after(self, calls: list[str]) -> dict[str, Any]:
        """The instances after the turns before and these calls. BFCL keeps an instance under its
        name as long as the process lives, so no name is used twice."""
        before = [call for turn in self.entry["truth"][: self.turn] for call in turn]
        self.results, instances = execute_multi_turn_func_call(
            [*before, *calls],
            self.entry["initial_config"],
            self.entry["involved_classes"],
            f"world_{next(NUMBERS)}",
            self.entry["id"],
        )
        self.results = self.results[len(before) :]
        return dict(instances)

    def call(self, tool: str, arguments: dict[str, Any]) -> Call:
        if not any(each.name == tool for each in self.tools):
            return Call(tool, arguments, f"There is no tool {tool}.", failed=True)
        owner = next(each for each in self.state.values() if hasattr(each, tool))
        try:
            result = getattr(owner, tool)(**arguments)
        except Exception as error:  # noqa: BLE001  as BFCL's own execution says it
            return Call(tool, arguments, f"Error during execution: {error}", failed=True)
        failed = isinstance(result, dict) and "error" in result
        return Call(tool, arguments, said(result), failed)

    def done(self, state: Any, calls: list[Call], answer: str) -> str:
        truth = self.entry["truth"][self.turn]
        wanted = self._after(truth)
        checked = state_checker(state, wanted)
        if checked["valid"]:
            results = [call.text for call in calls]
            checked = response_checker(results, self.results, self.turn)
        return "" if checked["valid"] else f"BFCL: {checked['error_message']}"


def said(result: Any) -> str:
    """A result as BFCL's own execution puts it."""
    if isinstance(result, str):
        return result
    return json.dumps(result) if isinstance(result, dict) else str(result)
