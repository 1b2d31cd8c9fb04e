"""What a person reads while a run goes on: one line for each event."""

import json
from typing import Any

from planner.events import (
    AnswerDelta,
    ArgumentsWritten,
    Event,
    GuardTripped,
    ModelCalled,
    PlanMade,
    PlanRevised,
    RunFinished,
    RunStarted,
    StepConcluded,
    StepContinued,
    StepStarted,
    ToolCalled,
    ToolReturned,
    ToolSelected,
)
from planner.state import RunState
from planner.tools import Outcome

HEARTBEAT_SECONDS = 5.0
"""After so long without an event, a line says what is being waited for."""
LONGEST = 200
"""Characters of a progress message; hosts cut longer ones."""

DOING = {
    "select": "chose a tool",
    "arguments": "wrote the arguments",
    "plan": "weighed the first result",
    "decide": "weighed the result",
    "conclude": "concluded",
}


def message(event: Event, state: RunState) -> str:
    """The line for an event, given the state right after it."""
    text = _message(event, state)
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + "…"


def heartbeat(state: RunState, silent_seconds: float) -> str:
    """The line for when nothing happened for a while; it says what is being waited for."""
    waiting = "the model"
    if state.iterations and state.iterations[-1].upstream and state.iterations[-1].outcome is None:
        waiting = state.iterations[-1].tool
    return f"{where(state)}waiting for {waiting}, {silent_seconds:.0f} s"


def where(state: RunState) -> str:
    """`Step 2 of 4: `; empty before the plan."""
    if not state.steps:
        return ""
    number = state.steps[-1].number
    return f"Step {number} of {number + len(state.later_steps)}: "


def _message(event: Event, state: RunState) -> str:
    at = where(state)
    match event:
        case RunStarted():
            up = ("ready", "disabled")
            down = [each.name for each in event.upstreams if each.state not in up]
            without = f", without {', '.join(down)}" if down else ""
            return f"Started with {len(event.tools)} read-only tools{without}"
        case ModelCalled():
            seconds = event.load_seconds + event.prefill_seconds + event.decode_seconds
            return (
                f"{at}{event.model} {DOING[event.role]} ({event.prompt_tokens} tokens in, "
                f"{event.generated_tokens} out, {seconds:.1f} s)"
            )
        case ToolSelected():
            return f"{at}{event.tool} is to: {event.prompt}" if event.tool else "No tool is needed"
        case ArgumentsWritten():
            return f"{at}{event.tool} {json.dumps(event.arguments, ensure_ascii=False)}"
        case ToolCalled():
            return f"{at}{event.tool} {shown(event.arguments)}"
        case ToolReturned(outcome=Outcome.SUCCESS):
            lines = event.text.count("\n") + 1 if event.text else 0
            size = f"{lines} lines" if lines > 1 else f"{len(event.text)} characters"
            return f"{at}{event.tool} returned {size} in {event.seconds:.1f} s"
        case ToolReturned():
            return f"{at}{event.tool}: {event.outcome}: {event.text}"
        case PlanMade():
            count = len(event.later_steps) + 1
            return f"Plan of {count} steps: {event.main_objective}"
        case StepStarted():
            return f"{at}{event.objective}"
        case StepContinued():
            return f"{at}noted: {event.notes}"
        case StepConcluded():
            result = "done" if event.success else "without success"
            return f"Step {event.number} {result}: {event.notes}"
        case PlanRevised():
            return f"{at}plan revised: {'; '.join(event.later_steps) or 'no later steps'}"
        case GuardTripped():
            return f"{at}{event.message}"
        case AnswerDelta():
            return f"Answer: {state.answer}"
        case RunFinished():
            return f"Finished: {event.status}" + (f" ({event.reason})" if event.reason else "")


def shown(arguments: dict[str, Any]) -> str:
    """`create_task_group in src`: arguments as a person would say them."""
    place = next(
        (
            str(arguments[key])
            for key in ("relative_path", "path", "directory", "folder", "file")
            if arguments.get(key) not in (None, "", ".")
        ),
        None,
    )
    rest = [
        str(value)
        for key, value in arguments.items()
        if isinstance(value, str | int | float)
        and not isinstance(value, bool)
        and str(value) not in ("", ".", place)
    ]
    said = " ".join(rest)
    return f"{said} in {place}".strip() if place else said or "everything"
