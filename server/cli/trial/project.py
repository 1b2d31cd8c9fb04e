"""What a trial asks, and the small project that it asks about: names and numbers that no model
knows from elsewhere."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Outcome = Literal["right", "wrong", "honest"]
"""`wrong`: it claims to be the answer and is not. `honest`: it does not claim to be."""

MAX_ANSWER_CHARS = 800
"""In characters. What is longer is an excerpt that holds the right word by chance."""

FILES = {
    "README.md": """\
# Tidewatch

Watches the tide gauges of a few small harbours, and tells the harbour masters when the water gets
too high. `tidewatch run` starts the watch, `tidewatch status` prints the levels.

See docs/operations.md for what to do at night.
""",
    "CHANGELOG.md": """\
# Changes

## 2.1

- The interval between two readings is longer: it was 150 seconds.
- Osterfleet is watched too.

## 2.0

- Levels are kept in one file instead of one for each harbour.
""",
    "pyproject.toml": """\
[project]
name = "tidewatch"
version = "2.1.0"
dependencies = ["pyserial>=3.5", "structlog>=24"]

[project.scripts]
tidewatch = "tidewatch.cli:main"
""",
    "deploy/production.yaml": """\
# What runs on the harbour's own machine.
status_page:
  host: 0.0.0.0
  port: 8473
store:
  path: /var/lib/tidewatch/levels.db
pager:
  retries: 6
""",
    "deploy/testing.yaml": """\
status_page:
  host: 127.0.0.1
  port: 8090
store:
  path: levels-test.db
""",
    "docs/operations.md": """\
# At night

A warning is written to the log only; nobody is woken up. An alarm is sent to the pager of the
harbour master as well, and repeated until somebody confirms it with `tidewatch confirm`.

A gauge in maintenance raises no alarm. Bring it back with `tidewatch revive NAME` when its cable
has been looked at.
""",
    "tidewatch/config.py": '''\
"""What the watch is set to."""

import os

HARBOURS = ("Norderloch", "Osterfleet", "Kliffsand", "Grauhaven", "Tiefsiel")

READING_INTERVAL_S = 240
"""Seconds from one reading of a gauge to the next."""
RETRY_AFTER_S = 35
"""Seconds until a pager that did not answer is tried again."""

WARNING_M = 2.85
ALARM_M = 3.20
STORM_SURGE_M = 3.65
"""Levels in metres above chart datum."""

MAX_SILENT_READINGS = 3
"""A gauge that misses so many readings in a row goes into maintenance."""


def pager_key() -> str:
    """The key of the pager's service."""
    return os.environ["TIDEWATCH_PAGER_KEY"]
''',
    "tidewatch/gauge.py": '''\
"""The gauges: one reading after the other, smoothed."""

from collections import deque

from tidewatch.config import HARBOURS, MAX_SILENT_READINGS


class HarbourUnknown(LookupError):
    """No gauge stands in this harbour."""


class Gauge:
    """The gauge of one harbour."""

    def __init__(self, harbour: str) -> None:
        if harbour not in HARBOURS:
            raise HarbourUnknown(harbour)
        self.harbour = harbour
        self.silent = 0
        self.in_maintenance = False
        self.newest: deque[float] = deque(maxlen=5)

    def take(self, level: float | None) -> None:
        """Take in a reading; None if the gauge sent nothing."""
        if level is None:
            self.silent += 1
            if self.silent >= MAX_SILENT_READINGS:
                self.in_maintenance = True
            return
        self.silent = 0
        self.newest.append(smoothed(level, self.newest))


def smoothed(level: float, before: deque[float]) -> float:
    """The level without single waves."""
    near = [*before, level][-3:]
    return to_centimetres(sum(near) / len(near))


def to_centimetres(level: float) -> float:
    """As exact as the gauges are."""
    return round(level, 2)
''',
    "tidewatch/alarm.py": '''\
"""Who is told about a level, and how loudly."""

import structlog

from tidewatch.config import ALARM_M, STORM_SURGE_M, WARNING_M
from tidewatch.gauge import Gauge
from tidewatch.pager import send

log = structlog.get_logger()


def judge(gauge: Gauge, level: float) -> str:
    """Decide whether an alarm is raised for a level, and raise it."""
    if gauge.in_maintenance or level < WARNING_M:
        return "calm"
    if level < ALARM_M:
        log.warning("high water", harbour=gauge.harbour, level=level)
        return "warning"
    urgent = level >= STORM_SURGE_M
    send(gauge.harbour, f"{level:.2f} m", urgent=urgent)
    return "storm surge" if urgent else "alarm"
''',
    "tidewatch/pager.py": '''\
"""The harbour masters' pagers."""

import json
from urllib.request import Request, urlopen

from tidewatch.config import pager_key

ADDRESS = "https://pager.example/v2/messages"


def send(harbour: str, text: str, urgent: bool = False) -> None:
    """Send a message to the pager of a harbour's master."""
    body = json.dumps({"to": harbour, "text": text, "urgent": urgent}).encode()
    headers = {"Authorization": f"Bearer {pager_key()}"}
    urlopen(Request(ADDRESS, data=body, headers=headers), timeout=10)
''',
    "tidewatch/store.py": '''\
"""The levels, kept in one SQLite file."""

import sqlite3

KEEP_DAYS = 400


def open_store(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE IF NOT EXISTS levels (harbour TEXT, at REAL, metres REAL)")
    return connection


def prune(connection: sqlite3.Connection, now: float) -> int:
    """Forget levels that are older than they are kept; how many those were."""
    done = connection.execute("DELETE FROM levels WHERE at < ?", (now - KEEP_DAYS * 86400,))
    return done.rowcount
''',
    "tests/test_alarm.py": """\
from tidewatch.alarm import judge
from tidewatch.gauge import Gauge


def test_a_gauge_in_maintenance_is_calm() -> None:
    gauge = Gauge("Kliffsand")
    gauge.in_maintenance = True
    assert judge(gauge, 4.0) == "calm"
""",
}


@dataclass(frozen=True)
class Question:
    """A question and what its answer holds: every one of `facts`, none of `errors` (regular
    expressions). Without facts, the project does not say it."""

    text: str
    facts: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    def outcome(self, status: str, answer: str) -> Outcome:
        """Judge an answer by what its run claims for it."""
        claimed = status == "answered"
        if not self.facts:
            none = re.search(r"(?i)\b(?:no|not|none|never|nothing|cannot)\b|n't\b", answer)
            return "right" if not claimed or none else "wrong"
        holds = (
            len(answer) <= MAX_ANSWER_CHARS
            and all(re.search(f"(?i){each}", answer) for each in self.facts)
            and not any(re.search(f"(?i){each}", answer) for each in self.errors)
        )
        if holds and status in ("answered", "partial"):
            return "right"
        return "wrong" if claimed else "honest"


QUESTIONS = (
    Question("How long does Tidewatch pause from one gauge reading to the next?",
             (r"\b240\b|4 min",)),
    Question("I want to change when the harbour master gets alerted. Which file do I open?",
             (r"alarm\.py|config\.py",)),
    Question("Which environment variable must I export so that messages can be sent?",
             ("TIDEWATCH_PAGER_KEY",)),
    Question("What becomes of a gauge that misses three readings in a row?", ("maintenance",)),
    Question("Which port do I open in the firewall for the status page in production?",
             (r"\b8473\b",), (r"\b8090\b",)),
    Question("How many harbours are being watched?", (r"\b5\b|\bfive\b",)),
    Question("Who calls to_centimetres?", (r"\bsmoothed\b",)),
    Question("What is raised if I ask for the gauge of a harbour that does not exist?",
             ("HarbourUnknown",)),
    Question("What is the password of the levels database?"),
    Question("Ab welchem Wasserstand gilt eine Sturmflut?", (r"3[.,]65",)),
    Question("How does a warning differ from an alarm for the harbour master?",
             (r"\blog", r"pager|sent|message|woken",)),
    Question("After how many days are old levels deleted?", (r"\b400\b",)),
)  # fmt: skip


def write_project(folder: Path) -> None:
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
