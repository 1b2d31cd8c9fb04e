"""A recorded run as a model's replies to the planner: each question is told by its schema."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from benchmarks.speed.runs import Call, Run, tools
from benchmarks.speed.server import Said
from planner.schemas import MOST_CALLS, Schema

STEPS_AHEAD = 3
"""So many later steps a plan names, and names anew when they are done."""
NOWHERE = {"final_answer": "No line says it.", "found_in": "nowhere"}
"""To every try at the answer before the last call."""


class PlannerScript:
    """Says what the run's decisions are, in whatever fields the planner asks for them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._decided: list[Call] = []
        self._unwritten: list[Call] = []
        """Decided on, with arguments still to be written."""
        self._planned: list[str] = []
        """The later steps that the plan has named; it is revised when they are done."""
        self._arguments = {tool.name: tool.grammar for tool in tools()}

    def __call__(self, body: dict[str, Any]) -> Said:
        schema = body["format"]
        for call in self._unwritten:
            if schema == self._arguments[call.tool]:
                self._unwritten.remove(call)
                return compact(call.arguments)
        return compact(filled(schema, self._values(schema)))

    def _values(self, schema: Schema) -> dict[str, Any]:
        """What there is to say at this point of the run, by the names of the planner's fields."""
        asked = set(schema.get("properties", ()))
        answer = {"final_answer": self.run.answer, "a_line": self.run.a_line}
        if "final_answer" in asked:
            done = len(self._decided) == len(self.run.calls)
            if "found_in" in asked and not done:
                return NOWHERE
            concluded = {"decision": "conclude", "success": True, "found_in": "results"}
            return answer | concluded | {"assessment": self._decided[-1].assessment}
        if asked == {"tool"}:
            (call,) = self._next(1)
            return {"tool": call}
        if not self.run.steps or len(self._decided) == len(self.run.calls):
            raise AssertionError(f"the run has no decision left for {sorted(asked)}")
        last = self._decided[-1]
        calls = self._next(MOST_CALLS)
        step = next(step for step in self.run.steps if calls[0] in step.calls)
        said: dict[str, Any] = {"assessment": last.assessment, "notes": last.notes}
        said["tool_calls"] = calls
        if last in step.calls:
            return said | {"decision": "stay"}
        if step.objective not in self._planned:
            said["objective"] = step.objective
        number = self.run.steps.index(step)
        later = [each.objective for each in self.run.steps[number + 1 : number + 1 + STEPS_AHEAD]]
        if "main_objective" in asked or (later and later[0] not in self._planned):
            said["later_steps"] = self._planned = later
        if "main_objective" in asked:
            return said | {"main_objective": self.run.main_objective}
        before = next(each for each in self.run.steps if last in each.calls)
        return said | {"decision": "move_on" if before.success else "give_up"}

    def _next(self, most: int) -> list[Call]:
        """The next call, and those of its step that can be made at once with it."""
        calls = self.run.calls[len(self._decided) :]
        together = 1
        while together < min(most, len(calls)) and calls[together].alongside:
            together += 1
        self._decided += calls[:together]
        self._unwritten += calls[:together]
        return calls[:together]


def filled(schema: Schema, values: Mapping[str, Any]) -> Any:
    """The values in the shape of a schema: its keys in its order, as far as there is a value."""
    branches = schema.get("anyOf", [schema])
    decision = values.get("decision")
    for branch in branches:
        if decision in _decisions(branch, decision):
            return {
                key: _value(part, values[key])
                for key, part in branch["properties"].items()
                if key in values
            }
    raise AssertionError(f"no branch of the schema is a {decision}: {schema}")


def _decisions(branch: Schema, said: Any) -> Sequence[Any]:
    schema = branch["properties"].get("decision", {})
    return schema.get("enum") or [schema.get("const", said)]


def _value(schema: Schema, value: Any) -> Any:
    match value:
        case Call() if any("prefixItems" in branch for branch in schema.get("anyOf", ())):
            return [value.tool, *_in_order(value)]  # decided on in one
        case Call() if "properties" in schema:
            return {"prompt": value.prompt, "tool": value.tool}
        case Call():
            return value.tool
        case dict():
            return filled(schema, value)
        case list():
            return [_value(schema["items"], each) for each in value]
        case str() if len(value) > schema.get("maxLength", len(value)):
            return value[: schema["maxLength"]].rpartition(". ")[0] + "."
    return value


def _in_order(call: Call) -> Iterator[Any]:
    for name in _parameters()[call.tool]:
        yield call.arguments.get(name)


@cache
def _parameters() -> dict[str, list[str]]:
    return {tool.name: list(tool.input_schema["properties"]) for tool in tools()}


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
