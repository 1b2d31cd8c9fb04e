"""The last call, on request: the answer in the shape of the caller's JSON Schema."""

from typing import Any, NamedTuple

from planner.agent.questions import Asker
from planner.checks import validation
from planner.errors import ModelError
from planner.grammar import Schema


class Shaped(NamedTuple):
    """The data, or why there is none."""

    data: Any = None
    problem: str | None = None


async def shaped(answer: str, schema: Schema, asker: Asker) -> Shaped:
    """An answer as data that fits the caller's schema; what does not fit is written once more."""
    problem: str | None = None
    for _ in range(2):
        try:
            data = await asker.format(answer, schema, problem)
        except ModelError as error:
            return Shaped(problem=str(error))
        problem = validation.problem(data, schema)
        if problem and isinstance(data, dict):
            data = validation.coerced(data, schema)
            problem = validation.problem(data, schema)
        if problem is None:
            return Shaped(data=data)
        asker.guard("format", f"the data does not fit: {problem}")
    return Shaped(problem=problem)
