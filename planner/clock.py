"""The time that a run has taken, and its limits."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import anyio


class Clock:
    """Counts a run's seconds, from those that it had `spent` before. While the clock is held, as in
    a replay, no time counts and no limit is reached."""

    def __init__(self, spent: float = 0.0) -> None:
        self._spent = spent
        self._since = anyio.current_time()
        self._holds = 0
        self._open: list[tuple[float, anyio.CancelScope]] = []

    @property
    def seconds(self) -> float:
        return self._spent + (0.0 if self._holds else anyio.current_time() - self._since)

    @contextmanager
    def limit(self, seconds: float) -> Iterator[anyio.CancelScope]:
        """A scope that is cancelled when the run has taken so many seconds."""
        with anyio.CancelScope() as scope:
            entry = (seconds, scope)
            self._open.append(entry)
            self._set_deadlines()
            try:
                yield scope
            finally:
                self._open.remove(entry)  # not always the last: calls are made side by side

    @contextmanager
    def extended(self, seconds: float) -> Iterator[None]:
        """Let the limits in force last until then at least."""
        before = self._open
        self._open = [(max(seconds, until), scope) for until, scope in before]
        self._set_deadlines()
        try:
            yield
        finally:
            self._open = before
            self._set_deadlines()

    @property
    def seconds_left(self) -> float:
        """The seconds until the first limit that is in force."""
        return min((seconds for seconds, _ in self._open), default=inf) - self.seconds

    @property
    def expired(self) -> bool:
        """Whether a limit that is in force has been reached."""
        return any(scope.cancel_called for _, scope in self._open)

    def expire(self) -> None:
        """Treat the innermost limit as reached, as it was in the run that is replayed."""
        self._open[-1][1].cancel()

    def hold(self) -> None:
        """Stop the clock until `release` was called as often."""
        self._spent = self.seconds
        self._holds += 1
        self._set_deadlines()

    def release(self) -> None:
        self._holds -= 1
        self._since = anyio.current_time()
        self._set_deadlines()

    @contextmanager
    def held(self) -> Iterator[None]:
        self.hold()
        try:
            yield
        finally:
            self.release()

    def _set_deadlines(self) -> None:
        for seconds, scope in self._open:
            left = inf if self._holds else seconds - self.seconds
            scope.deadline = anyio.current_time() + left
