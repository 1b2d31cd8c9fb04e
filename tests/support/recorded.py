"""Events and records as a test writes them down."""

from collections.abc import Iterable
from typing import Any

from planner.events import ArgumentsWritten, Event, ToolCalled, ToolReturned, ToolSelected
from planner.protocol import RunRequest
from planner.state import Iteration, RunState
from planner.tools import Outcome
from server.journal.base import Journal, RunWriter
from server.journal.records import NewRun, RunSetup

MADE = RunSetup(planloom="1", fast="f", full="g", context_tokens=(1, 1))


def numbered(events: Iterable[Event]) -> list[Event]:
    """The events of calls made one after the other, each with the number of its iteration."""
    number = -1
    done: list[Event] = []
    for event in events:
        match event:
            case ToolSelected(tool=str()):
                number += 1
            case ArgumentsWritten() | ToolCalled() | ToolReturned():
                event = event.model_copy(update={"iteration": number})
        done.append(event)
    return done


def state_of(events: Iterable[Event]) -> RunState:
    return RunState.of(numbered(events))


def state_with(result: str) -> RunState:
    """A state with one call, which had this result."""
    return RunState(
        iterations=[Iteration(0, 1, "read", "", outcome=Outcome.SUCCESS, result=result)]
    )


async def begun(journal: Journal, run_id: str, *, caller: str = "me", **options: Any) -> RunWriter:
    request = RunRequest(prompt=f"prompt of {run_id}")
    return await journal.begin(NewRun(run_id, caller, request, MADE, **options))
