"""A run as Markdown that only grows, for clients that show a reply while it is written. What models
and strangers wrote is one line each and begins no block; the answer, any Markdown, comes last."""

import re

from planner import events
from planner.state import RunState
from planner.text import flat
from server.text import status_in_words
from server.views import report
from server.views.inert import inert, inert_piece

CONCLUSION = "Final conclusion reached"
MAX_UNDERLINE_CHARS = 72


class Document:
    """Folds events into pieces of text, which together are the document."""

    def __init__(self) -> None:
        self.state = RunState()
        self._later: list[str] | None = None
        """The later steps as last shown; None before there is a plan."""

    def add(self, event: events.Event) -> str:
        """The text that an event adds, often none."""
        self.state.apply(event)
        match event:
            case events.ItemStarted():
                self._later = None
                return _heading(line(f"{event.number}. {flat(event.prompt)}"))
            case events.StepStarted():
                return self._step(event)
            case events.StepContinued(notes=notes) if notes:
                return f"{line(notes)}\n\n"
            case events.PlanRevised() if self.state.step and event.later_steps != self._later:
                # Between two steps, the one that begins shows the change.
                self._later = event.later_steps
                return self._changed(event.later_steps)
            case events.StepConcluded(notes=notes, success=success) if notes or not success:
                failed = "" if success else "Without success. "
                return f"{failed}{line(notes)}".rstrip() + "\n\n"
            case events.RunFinished():
                item = bool(self.state.parts) and self.state.part.is_item  # else it never began
                concludes = self._later is not None or item
                heading = _heading(CONCLUSION) if concludes else ""
                return f"{heading}{_conclusion(event)}"
        return ""

    def _step(self, event: events.StepStarted) -> str:
        later = [step for step in self.state.later_steps if step != event.objective]
        steps, shown, self._later = [event.objective, *later], self._later, later
        plan = ""
        if shown is None:
            objective = line(self.state.main_objective or "")
            plan = f"A plan has been created where the objective is: {objective}\n\n"
            plan += self._bullets(steps)
        elif steps != shown:
            plan = self._changed(steps)
        return plan + _heading(line(event.objective) or f"Step {event.number}")

    def _changed(self, steps: list[str]) -> str:
        if not steps:
            return "The plan has changed: nothing comes after this.\n\n"
        return f"The plan has changed:\n\n{self._bullets(steps)}"

    def _bullets(self, steps: list[str]) -> str:
        later = {step.objective: step.in_words for step in report.steps(self.state)}
        return "".join(f"- {line(later.get(step, step))}\n" for step in steps) + "\n"


def line(text: str) -> str:
    """A foreign text on one line that Markdown always reads as a paragraph."""
    return re.sub(r"^(\d*)(?!`{1,2}[^`])([!-/:-@\[-`{-~])", r"\1\\\2", flat(inert_piece(text)))


def _conclusion(event: events.RunFinished) -> str:
    answer = inert(event.answer).strip()
    if event.status == "answered" and not event.reason:
        return answer
    why = f": {line(event.reason)}" if event.reason and event.reason not in event.answer else ""
    return f"_Status: {status_in_words(event.status)}{why}_\n\n{answer}"


def _heading(text: str) -> str:
    return f"{text}\n{'-' * min(len(text), MAX_UNDERLINE_CHARS)}\n\n"
