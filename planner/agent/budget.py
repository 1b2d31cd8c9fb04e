"""What is left of the limits of a request: its seconds, iterations and model tokens."""

from dataclasses import dataclass

from planner.state import RunState

CONCLUSION_SHARE = 0.2
"""The share of the run's seconds that is kept back for the conclusion."""
CONCLUSION_SECONDS = 60.0
"""The most seconds that are kept back."""


class LimitReached(Exception):
    """A limit of the run; its text is the reason given to the user."""


@dataclass(frozen=True)
class Budget:
    """What is left for the newest request of a run. It is read from the record, so that a resumed
    run decides the same."""

    state: RunState

    @property
    def kept_back(self) -> float:
        """Seconds for the conclusion."""
        return min(self.state.part.request.limits.seconds * CONCLUSION_SHARE, CONCLUSION_SECONDS)

    @property
    def time_for_more(self) -> bool:
        """Whether models may take as long again as they have taken for this request. Without that
        time, what is begun would be cut off."""
        return self.state.model_seconds <= self.seconds_left

    @property
    def seconds_left(self) -> float:
        """The seconds before the conclusion is due; an item of a list has also those that the items
        before it have left."""
        part = self.state.part
        begun = next(each for each in self.state.parts if each.asked is part.asked)
        spent = begun.spent + sum(call.seconds for call in self.state.ledger[begun.calls :])
        return part.ends_at - self.kept_back - spent

    @property
    def calls_left(self) -> int:
        made = sum(each.by == "choice" for each in self.state.part_iterations)
        return self.state.part.request.limits.iterations - made

    def hold(self) -> None:
        """Raises `LimitReached` when no further call may be made."""
        limits = self.state.part.request.limits
        if self.calls_left <= 0:
            raise LimitReached(f"the limit of {limits.iterations} iterations was reached")
        if self.state.model_tokens >= limits.model_tokens:
            raise LimitReached(f"the limit of {limits.model_tokens} model tokens was reached")
