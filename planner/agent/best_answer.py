"""The best answer to a request so far, and what speaks for and against it."""

import re
from dataclasses import dataclass, field

from planner.agent.changes import Changes
from planner.agent.gathering import Gatherer
from planner.checks.citations import supporting
from planner.checks.claims import beyond
from planner.protocol import Conclude
from planner.state import RunState


@dataclass
class BestAnswer:
    """To the newest request of a run."""

    state: RunState
    changes: Changes
    gatherer: Gatherer
    text: str | None = None
    """None as long as there is no answer."""
    unsure: str | None = None
    """Why it is not certain."""
    quotes: list[str] = field(default_factory=list)
    """The lines that say it."""

    def forget(self) -> None:
        """Begin with the next request."""
        self.text, self.unsure, self.quotes = None, None, []

    def keep(self, answer: str, unsure: str | None) -> None:
        """Remember the best answer so far, and why it is not certain."""
        self.text, self.unsure = answer, unsure

    def certain(self) -> Conclude | None:
        """The best answer so far, where nothing speaks against it."""
        return self.concluded(self.text) if self.text and self.unsure is None else None

    def concluded(self, answer: str) -> Conclude:
        """The conclusion with this answer. One that tells nothing and that no line says is worth
        less than that what it is about stands nowhere."""
        prompt = self.state.part.request.prompt
        self.quotes = supporting(self.state, answer, prompt)
        absent = self.gatherer.absent
        if absent and not (self.quotes or self.changes.acting or beyond(answer, prompt)):
            nowhere = " or ".join(f'"{each}"' for each in absent)
            return Conclude(final_answer=f"No file contains {nowhere}.", success=False)
        return Conclude(final_answer=re.sub(r"</?result>", "", answer))
