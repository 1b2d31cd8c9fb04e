"""What trials have found, kept for `planloom try --last` and for the doctor."""

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import median

from platformdirs import user_state_path
from pydantic import BaseModel, ValidationError

from server.cli.trial.project import Outcome
from server.client_configs.files import replace
from server.config import Settings
from server.config_file import own_file, shipped_file

NEAR = 1
"""Answers by which two pairs may differ by chance: the quicker one is better then."""


class Measurement(BaseModel):
    fast: str
    full: str
    outcomes: list[Outcome] = []
    seconds: list[float] = []
    memory: int | None = None
    """Bytes that both take when loaded; None where the server does not tell."""
    stopped: str = ""
    """What ended it before its time was over; empty if nothing did."""

    @property
    def name(self) -> str:
        return self.full if self.fast == self.full else f"{self.fast},{self.full}"

    @property
    def right(self) -> int:
        return self.outcomes.count("right")

    @property
    def wrong(self) -> int:
        return self.outcomes.count("wrong")

    @property
    def median_seconds(self) -> float:
        return median(self.seconds) if self.seconds else 0.0

    @property
    def summary(self) -> str:
        return (
            f"{self.right} of {len(self.outcomes)} right, {self.wrong} wrong and sure, "
            f"{self.median_seconds:.1f} s"
        )

    @property
    def score(self) -> int:
        """A confident wrong answer costs as much as a right one gains."""
        return self.right - self.wrong


class Results(BaseModel):
    """The newest result of each pair."""

    measured: list[Measurement] = []

    def add(self, new: Measurement) -> None:
        self.measured = [each for each in self.measured if each.name != new.name] + [new]

    def of(self, fast: str, full: str) -> Measurement | None:
        mine = [each for each in self.measured if (each.fast, each.full) == (fast, full)]
        return mine[0] if mine else None


def best(measured: Collection[Measurement]) -> Measurement | None:
    """The pair to take: the quickest of those that answer about as well as the best one."""
    whole = [each for each in measured if each.outcomes and not each.stopped]
    if not whole:
        return None
    most = max(each.score for each in whole)
    near = [each for each in whole if each.score >= most - NEAR]
    return min(near, key=lambda each: (each.median_seconds, -each.score))


def results_file() -> Path:
    return user_state_path("planloom") / "trial.json"


def load_results() -> Results:
    """The saved results; none if there is no file, or if its format is another one."""
    try:
        return Results.model_validate_json(results_file().read_bytes())
    except (OSError, ValidationError):
        return Results()


def save_results(results: Results) -> None:
    replace(results_file(), results.model_dump_json(indent=1), keep=False)


def target(settings: Settings) -> Path:
    """The file that gets the models: the one that was read, unless it is the shipped one."""
    source = settings.source
    return own_file() if source in (None, shipped_file()) else source


def write_command(settings: Settings, named: Sequence[str] = ()) -> str:
    """The command that writes the best pair, or that of these names, into that file."""
    file = target(settings)
    other = [] if file == own_file() else ["--upstreams", str(file)]
    return shlex.join(["planloom", "try", "--last", "--write", *other, *named])
