"""What the run journal costs: an event in the run's own thread, and the wait until it is on disk.

python -m benchmarks.journal [--folder DIR]
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import quantiles

import anyio

from planner.events import Event, ModelCalled, RunFinished, ToolReturned
from planner.protocol import RunRequest
from planner.tools import Outcome
from server.config import RunSettings
from server.journal import journal_for
from server.journal.base import RunWriter
from server.journal.records import Entry, NewRun, RunSetup

ROUNDS = 2_000
MADE = RunSetup(planloom="", fast="", full="", context_tokens=(1, 1))
ASKED = ModelCalled(
    role="answer",
    model="qwen2.5-coder:1.5b",
    question="What is it? " * 40,
    reply='{"final_answer":"It is defined in server/app.py, line 73."}',
    prompt_tokens=640,
    cached_tokens=600,
    cached_told=True,
    generated_tokens=20,
    load_seconds=0.1,
    prefill_seconds=1.5,
    decode_seconds=1.5,
)


def asked(number: int) -> Event:
    return ASKED


def result(characters: int, number: int) -> Event:
    """Another text each time, since one text is kept once."""
    text = f"server/app.py:{number}: class UpstreamPool:\n" * (characters // 38)
    return ToolReturned(
        iteration=0,
        tool="search",
        arguments={"pattern": "UpstreamPool"},
        outcome=Outcome.SUCCESS,
        text=text,
        seconds=0.1,
    )


async def measured(
    record: RunWriter, event: Callable[[int], Event], *, synced: bool = False
) -> str:
    """Milliseconds (p50, p95) of handing an event over, and until it is on disk."""
    appended, saved = [], []
    for number in range(ROUNDS // 4):
        said = event(number)
        began = time.perf_counter()
        record.append(Entry.of(said, 0.0), synced=synced)
        appended.append(time.perf_counter() - began)
        assert await record.flush(), record.problem
        saved.append(time.perf_counter() - began)
    return f"handed over {spread(appended)}, on disk after {spread(saved)}"


def spread(seconds: list[float]) -> str:
    cuts = quantiles(seconds, n=20)
    return f"{1000 * cuts[9]:.3f} / {1000 * cuts[18]:.3f} ms"


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folder", type=Path, help="On the disk to measure.")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        async with journal_for(RunSettings(directory=Path(folder) / "runs")) as journal:
            record = await journal.begin(NewRun("x", "me", RunRequest(prompt="?"), MADE))
            print("p50 / p95 of each")
            print("a model's reply:           ", await measured(record, asked))
            print("a result of 4 kB:          ", await measured(record, partial(result, 4_000)))
            print("a result of 100 kB:        ", await measured(record, partial(result, 100_000)))
            print("synced, as before a write: ", await measured(record, asked, synced=True))
            began = time.perf_counter()
            for _ in range(ROUNDS):
                record.append(Entry.of(ASKED, 0.0))
            told = time.perf_counter() - began
            await record.flush()
            took = time.perf_counter() - began
            each = f"{1000 * told / ROUNDS:.3f} ms each in the run's thread"
            print(f"{ROUNDS} at once: {ROUNDS / took:.0f} a second, {each}")
            record.append(Entry.of(RunFinished(status="answered", answer=""), 0.0))
            await record.flush()


if __name__ == "__main__":
    anyio.run(main)
