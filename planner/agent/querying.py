"""Queries of the lists that tools returned: the model writes them, code runs them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from planner.agent.questions import Asker
from planner.agent.tool_calls import Caller
from planner.checks.grounding import query_written
from planner.checks.guards import repeats
from planner.checks.guards.results import NOTHING as NOTHING_FOR
from planner.errors import InvalidReply
from planner.events import ToolSelected
from planner.evidence import queries
from planner.evidence.answers import answers, whole
from planner.evidence.records import is_further
from planner.evidence.tables import Table, table
from planner.state import Iteration, RunState
from planner.tools import Outcome

TRIES = 2
NOTHING = "no row fits its conditions. LIKE '%word%' finds a word within a value."
"""What is wrong with a query that finds nothing, as the model is told."""


@dataclass(frozen=True)
class Querier:
    state: RunState
    asker: Asker
    caller: Caller

    async def query(self) -> bool:
        """Query the results for what the request asks for, if one of the newest is a list. What is
        found is recorded as a call of the planner's own tool. A query that fails or finds nothing
        is written once more. If that finds nothing either, or the model writes none, the list is
        read as it is. Returns whether a query has found something."""
        things = self.things()
        lists = [things] if things else self.lists()
        definitions = [each.definition for each in lists]
        only = things.name if things else None
        wrong = ""
        for _ in range(TRIES if lists else 0):
            try:
                written = await self.asker.sql(definitions, wrong, only)
            except InvalidReply:
                break
            sql = queries.unknown_last(written)
            rows, problem = self.run(lists, sql)
            if not problem:
                self.record(sql, whole(rows, things) if things else rows)
                return True
            wrong = f"{sql}\n{problem}"
            self.asker.guard("query", f"{problem}: {sql}")
        return False

    def lists(self) -> Sequence[Table]:
        """What the newest calls returned, as tables. Those of calls before are left out: a small
        model joins whatever it is shown."""
        new = [each for each in self.state.newest if not repeats.known(self.state, each)]
        made = (table(each.tool, each.result) for each in new if _is_result(each))
        return list({each.name.lower(): each for each in made if each}.values())

    def things(self) -> Table | None:
        """What the calls of a plan have returned for each of the same things, when all are made.
        It is queried once."""
        if self.state.later_steps or query_written(self.state):
            return None
        return answers(self.state.part_iterations)

    def run(self, lists: Sequence[Table], sql: str) -> tuple[Sequence[queries.Row], str]:
        """The rows that a query finds, and what is wrong with it."""
        try:
            rows = queries.query(lists, sql)
        except queries.QueryError as error:
            return [], str(error)
        if missing := queries.passed_over(lists, sql, self.state.question):
            return rows, f"the request says {', '.join(missing)}, and the query does not"
        if queries.says_something(rows):
            return rows, ""
        return rows, " ".join([NOTHING, *queries.known_values(lists, sql)])

    def record(self, sql: str, rows: Sequence[queries.Row]) -> None:
        """What a query found, as the result of a call."""
        self.caller.emit(
            ToolSelected(tool=queries.QUERY, prompt=self.state.question, by="query", beside=True)
        )
        iteration = self.state.iterations[-1]
        text = json.dumps(rows if len(rows) > 1 else rows[0], ensure_ascii=False)
        self.caller.record_arguments(iteration, {"sql": sql}, self.state.ledger[-1].model)
        self.caller.record_text(iteration, {"sql": sql}, Outcome.SUCCESS, text)


def _is_result(call: Iteration) -> bool:
    """Whether it is a call of the pool's that read something, with its own arguments, from its
    beginning: what was found with broader ones says nothing of the conditions that were left
    out."""
    own = call.by == "choice" and not call.result.startswith(NOTHING_FOR)
    own = own and not is_further(call.arguments)
    return own and call.succeeded and not call.changes
