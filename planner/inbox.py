"""What comes to a run from outside besides replies and results."""

from collections.abc import Sequence

from planner.events import RunContinued
from planner.protocol import Steering


class Inbox:
    """What is said to a run. Here, nothing."""

    def steering(self) -> Sequence[Steering]:
        """What was said since the last time, in the order it came in."""
        return []

    def next_request(self) -> RunContinued | None:
        """What else the run has to do when it has done what was asked; None ends it."""
        return None
