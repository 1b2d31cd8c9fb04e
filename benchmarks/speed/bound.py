"""The least that a run can cost, whatever the design: see `least`."""

from dataclasses import dataclass
from typing import Any

from benchmarks.speed.designs import shown
from benchmarks.speed.runs import Call, Run
from benchmarks.speed.simulation import Machine
from benchmarks.speed.tokens import tokens


@dataclass(frozen=True)
class Bound:
    steps: int
    computed: int
    generated: int
    calls: int

    def seconds(self, machine: Machine) -> float:
        return machine.seconds(self.calls, self.computed, self.generated)


def least(run: Run) -> Bound:
    """What no design that makes these tool calls and reads these results can do without.

    Computed once each: the request with the listing, and every result as far as the planner shows
    it. No instructions, which were read before the run; no chat template, no question, no
    repetition of the request, nothing that a model wrote (it is in the cache), nothing on a second
    model.

    Generated once each, as bare values without JSON, keys or quotes: each step's objective, each
    tool's name, each argument's value, what is kept of each step but the last (later steps no
    longer see its results), and the answer. No assessments, no instruction to a tool besides its
    arguments, no notes that later notes replace, no failed try at the answer.

    Calls: one for each group of tool calls that need nothing of each other, and one for the answer.
    """
    read = [run.request, run.listing, *(shown(run, call) for call in run.calls)]
    said = [step.objective for step in run.steps] + [run.answer]
    said += [part for call in run.calls for part in _values(call)]
    said += [step.calls[-1].notes for step in run.steps[:-1]]
    return Bound(
        steps=len(run.calls),
        computed=sum(len(tokens(text)) for text in read),
        generated=sum(len(tokens(text)) for text in said),
        calls=run.rounds + 1,
    )


def _values(call: Call) -> list[str]:
    return [call.tool, *map(_bare, call.arguments.values())]


def _bare(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
