"""The best answer to a request so far, and what speaks for and against it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from unicodedata import normalize

from planner.agent.changes import Changes
from planner.agent.gathering import Gatherer
from planner.checks.citations import supporting
from planner.checks.claims import beyond
from planner.checks.grounding import results
from planner.evidence.words import named, says
from planner.protocol import Conclude
from planner.state import RunState


@dataclass
class BestAnswer:
    state: RunState
    changes: Changes
    gatherer: Gatherer
    text: str | None = None
    """None as long as there is no answer."""
    unsure: str | None = None
    """Why it is not certain."""
    quotes: list[str] = field(default_factory=list)
    """The lines that say it."""
    nowhere: str = ""
    """Which names of the request that it repeats stand in no file, as a sentence; empty if none."""

    def forget(self) -> None:
        """Begin with the next request."""
        self.text, self.unsure, self.quotes, self.nowhere = None, None, [], ""
        self.gatherer.absent = []

    def keep(self, answer: str, unsure: str | None) -> None:
        self.text, self.unsure = answer, unsure

    def doubt(self, why: str) -> None:
        """Say why the answer is not certain, besides what was said before."""
        self.unsure = "; ".join(filter(None, [self.unsure, why]))

    def certain(self) -> Conclude | None:
        """The best answer so far, if nothing speaks against it."""
        return self.concluded(self.text) if self.text and self.unsure is None else None

    @property
    def absent(self) -> list[str]:
        """The names and words of the request that were searched for, and that neither a file nor
        any other result has."""
        absent = [] if self.changes.acting else self.gatherer.absent
        known = normalize("NFC", results(self.state)).casefold() if absent else ""
        return [each for each in absent if each.casefold() not in known]

    def concluded(self, answer: str) -> Conclude:
        """The conclusion with this answer. If it names nothing and no line says it, the fact that
        no file contains what the request asks about is worth more, or is said before it where files
        have other words of the request. One that repeats a name of the request which stands
        nowhere, or the first word that was searched for, is not certain, and that is said before
        it, too; so it is before a short one that is not certain and repeats a word, if files have
        no other word of the request."""
        prompt, absent = self.state.question, self.absent
        self.quotes, self.nowhere = supporting(self.state, answer, prompt), ""
        bare = not (self.quotes or beyond(answer, prompt))
        all_absent = {each for each in self.state.search if says(prompt, each)} <= {*absent}
        if absent and bare and all_absent:
            return Conclude(final_answer=_no_file_contains(absent), success=False)
        doubted = self.unsure is not None and self.state.wants == "short answer"
        telling = {*absent} if all_absent and doubted else named(prompt) | {*self.state.search[:1]}
        told = [each for each in absent if bare or (each in telling and says(answer, each))]
        if told:
            self.nowhere = _no_file_contains(told)
            self.unsure = self.unsure or self.nowhere
        return Conclude(final_answer=re.sub(r"</?result>", "", answer))


def _no_file_contains(words: Sequence[str]) -> str:
    either = " or ".join(f'"{each}"' for each in words)
    return f"No file contains {either}."
