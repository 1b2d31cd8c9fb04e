"""What a run gets from outside besides replies and results."""

from collections.abc import Sequence

from planner.events import RunContinued
from planner.protocol import Steering


class Inbox:
    """The messages for a run. This class never has any."""

    def steering(self) -> Sequence[Steering]:
        """The steering since the last call, in the order of its arrival."""
        return []

    def next_request(self) -> RunContinued | None:
        """The next request when the run has done the last one; None ends the run."""
        return None
