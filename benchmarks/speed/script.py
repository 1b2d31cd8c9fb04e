"""A recorded run as a model's replies to the planner: each question is told by its schema."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.speed.runs import Call, Run, tools
from benchmarks.speed.server import Said
from planner.checks.schemas import MAX_CALLS
from planner.grammar import Schema
from planner.prompts.texts import compact

STEPS_AHEAD = 3
"""So many later steps a decision names, and names again when they are done."""
NOWHERE = {"assessment": "", "final_answer": "No line says it.", "found_in": "nowhere"}
"""To every try at the answer before the last call."""


class PlannerScript:
    """Says what the run's decisions are, in whatever fields the planner asks for them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._decided: list[Call] = []
        self._unwritten: list[Call] = []
        """Decided on, with arguments still to be written."""
        self._named: list[str] = []
        """The later steps that a decision has named; new ones are named when they are done."""
        self._arguments = {tool.name: tool.grammar for tool in tools()}

    def __call__(self, body: dict[str, Any]) -> Said:
        schema = body["format"]
        if self._unwritten and schema == self._arguments[self._unwritten[0].tool]:
            return compact(self._unwritten.pop(0).arguments)
        return compact(filled(schema, self._values(schema)))

    def _values(self, schema: Schema) -> dict[str, Any]:
        """What there is to say at this point of the run, by the names of the planner's fields."""
        asked = {key for branch in _branches(schema) for key in branch["properties"]}
        done = len(self._decided) == len(self.run.calls)
        if "wants" in asked:
            return {"search": self.run.search, "wants": self.run.wants}
        if "lists" in asked:  # nothing is gathered here
            return {"lists": None, "reads": None}
        if "steps" in asked:
            return self._plan()
        if "found_in" in asked:
            said = {"assessment": self.run.assessment, "final_answer": self.run.answer}
            return said | {"found_in": "results"} if done else NOWHERE
        if "answer_again" in asked:
            return {"answer_again": self.run.again}
        if asked == {"sql"}:  # the list is read as it is
            return {"sql": "SELECT NULL WHERE 0"}
        if done:
            raise AssertionError(f"the run has no decision left for {sorted(asked)}")
        return self._decision()

    def _plan(self) -> dict[str, Any]:
        calls = [call for call in self.run.calls if call.planned]
        assert calls == self.run.calls[: len(calls)], "the plan's calls are not the first ones"
        self._decide_on(calls)
        steps = [{"objective": call.planned, "tool": call.tool} for call in calls]
        return {"steps": steps}

    def _decision(self) -> dict[str, Any]:
        """The next call, and those of its step that can be made at once with it."""
        last = self._decided[-1]
        calls = self.run.calls[len(self._decided) :]
        together = 1
        while together < min(MAX_CALLS, len(calls)) and calls[together].alongside:
            together += 1
        calls = calls[:together]
        self._decide_on(calls)
        number, step = next(
            (number, step) for number, step in enumerate(self.run.steps) if calls[0] in step.calls
        )
        said: dict[str, Any] = {"assessment": last.assessment, "notes": last.notes}
        said["tool_calls"] = [{"prompt": call.prompt, "tool": call.tool} for call in calls]
        if last in step.calls:
            said["decision"] = "stay"
        else:
            before = next((each for each in self.run.steps if last in each.calls), step)
            said["decision"] = "move_on" if before.success else "give_up"
            if step.objective not in self._named:
                said["objective"] = step.objective
        later = [each.objective for each in self.run.steps[number + 1 : number + 1 + STEPS_AHEAD]]
        if later and later[0] not in self._named:
            said["later_steps"] = self._named = later
        return said

    def _decide_on(self, calls: Sequence[Call]) -> None:
        self._decided += calls
        self._unwritten += calls


def filled(schema: Schema, values: Mapping[str, Any]) -> Any:
    """The values in the shape of a schema: its keys in its order, as far as there is a value."""
    decision = values.get("decision")
    for branch in _branches(schema):
        if decision in _decisions(branch, decision):
            return {
                key: _value(part, values[key])
                for key, part in branch["properties"].items()
                if key in values
            }
    raise AssertionError(f"no branch of the schema is a {decision}: {schema}")


def _branches(schema: Schema) -> Sequence[Schema]:
    branches: Sequence[Schema] = schema.get("anyOf", [schema])
    return branches


def _decisions(branch: Schema, said: Any) -> Sequence[Any]:
    schema = branch["properties"].get("decision", {})
    return schema.get("enum") or [schema.get("const", said)]


def _value(schema: Schema, value: Any) -> Any:
    match value:
        case dict():
            return filled(schema, value)
        case list():
            return [_value(schema["items"], each) for each in value]
        case str() if len(value) > schema.get("maxLength", len(value)):
            return value[: schema["maxLength"]].rpartition(". ")[0] + "."
    return value
