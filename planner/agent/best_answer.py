"""The best answer to a request so far, and what speaks for and against it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.agent.changes import Changes
from planner.agent.gathering import Gatherer
from planner.checks.citations import supporting, unproved
from planner.checks.claims import beyond
from planner.checks.grounding import results
from planner.evidence.words import named, says
from planner.protocol import Conclude
from planner.state import RunState


@dataclass
class BestAnswer:
    """The best answer to the newest request of a run."""

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
        self.gatherer.absent = []

    def keep(self, answer: str, unsure: str | None) -> None:
        """Remember the best answer so far, and why it is not certain."""
        self.text, self.unsure = answer, unsure

    def certain(self) -> Conclude | None:
        """The best answer so far, if nothing speaks against it."""
        return self.concluded(self.text) if self.text and self.unsure is None else None

    def concluded(self, answer: str) -> Conclude:
        """The conclusion with this answer. If it names nothing and no line says it, the fact that
        no file contains what the request asks about is worth more. An uncertain one that names only
        numbers which stand in results for another reason is a guess. One that repeats a name of the
        request which stands nowhere is not certain. Where an uncertain one repeats a word of the
        request that stands nowhere, that is said first."""
        prompt = self.state.question
        self.quotes = supporting(self.state, answer, prompt)
        absent = [] if self.changes.acting else self.gatherer.absent
        new = beyond(answer, prompt)
        if absent and not (self.quotes or new):
            return self._not_found(_nowhere(absent))
        guessed = [] if self.changes.wanted or not self.unsure else unproved(self.state, answer)
        if guessed and {*new} <= {*guessed}:
            why = not_asked_about(guessed)
            return self._not_found(f"Could not find out: {why}.")
        answer, known = re.sub(r"</?result>", "", answer), results(self.state).casefold()
        told = [each for each in absent if says(answer, each) and each.casefold() not in known]
        names = [each for each in told if each in named(prompt)]
        if names and not self.unsure:
            self.unsure = _nowhere(names)
        if told and self.unsure:
            answer = f"{_nowhere(told)} The model says: {answer}"
        return Conclude(final_answer=answer)

    def _not_found(self, answer: str) -> Conclude:
        self.unsure = None  # it is what is known
        return Conclude(final_answer=answer, success=False)


def not_asked_about(numbers: Sequence[str]) -> str:
    """What is said of numbers that stand in results for another reason."""
    return f"the results contain {', '.join(numbers)}, but not about what was asked"


def _nowhere(words: Sequence[str]) -> str:
    either = " or ".join(f'"{each}"' for each in words)
    return f"No file contains {either}."
