"""Where a run's seconds went: what was waited for, one after the other or side by side."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

from planner import events
from server.views.progress import DOING
from server.views.report import Rounded

Kind = Literal["model", "tool", "person", "pause"]


class Span(BaseModel):
    kind: Kind
    what: str
    at: Rounded
    """Seconds since the run's first event."""
    seconds: Rounded
    number: int | None = None
    """Of the model call in the ledger, or of the tool call's iteration; from 0."""


def timeline(record: Sequence[events.Event]) -> list[Span]:
    """The spans in the order in which they ended."""
    if not record:
        return []
    began = record[0].at
    spans: list[Span] = []
    asked: float | None = None
    model_calls = 0

    def add(kind: Kind, what: str, until: float, seconds: float, number: int | None = None) -> None:
        at = max(0.0, until - seconds - began)
        spans.append(Span(kind=kind, what=what, at=at, seconds=max(0.0, seconds), number=number))

    for event in record:
        match event:
            case events.ModelCalled():
                add("model", DOING[event.role], event.at, event.seconds, model_calls)
                model_calls += 1
            case events.ToolReturned() if event.seconds:
                add("tool", event.tool, event.at, event.seconds, event.iteration)
            case events.ApprovalAsked() | events.QuestionAsked():
                asked = event.at
            case events.ApprovalDecided(by="person" | "timeout") if asked is not None:
                add("person", f"approval of {event.tool}", event.at, event.at - asked)
            case events.QuestionAnswered() if asked is not None:
                add("person", f"{event.upstream}’s question", event.at, event.at - asked)
            case events.RunResumed():
                asked = event.at  # what waits is asked anew
                add("pause", "no server", event.at, event.paused)
    return spans
