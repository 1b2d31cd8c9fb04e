"""Events as a test writes them down."""

from collections.abc import Iterable

from planner.events import ArgumentsWritten, Event, ToolCalled, ToolReturned, ToolSelected
from planner.state import Iteration, RunState
from planner.tools import Outcome


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
