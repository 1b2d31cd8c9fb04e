"""Measurements that are no tests: they need models and time."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
"""The repository."""

# The scripted model server, the faulty upstream and other helpers are the tests'.
sys.path.append(str(ROOT / "tests" / "support"))


def say(text: str) -> None:
    """How far a measurement is; its results go to standard output."""
    print(text, file=sys.stderr, flush=True)
