"""What a run found: one record per question and system, kept as JSON, shown as a table."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, Self

from pydantic import BaseModel

from benchmarks.eval.check import KINDS, Question, Verdict


class Ledger(BaseModel):
    """What an answer cost."""

    model_calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    tool_calls: int = 0

    def add(self, prompt: int, cached: int, generated: int) -> None:
        self.model_calls += 1
        self.prompt_tokens += prompt
        self.generated_tokens += generated
        self.cached_tokens += cached


class Record(BaseModel):
    """One question asked of one system."""

    system: str
    question: Question
    verdict: Verdict
    status: str
    answer: str
    seconds: float
    ledger: Ledger
    details: Any = None
    """The system's own account: a report, or the messages of a loop."""


class Results(BaseModel):
    """A run, or as much of it as there is."""

    about: dict[str, Any]
    """Models, versions, machine, settings."""
    records: list[Record] = []

    def save(self, path: Path) -> None:
        """Write it whole or not at all, since a run may be interrupted at any time."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(self.model_dump_json(indent=1), encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls.model_validate_json(path.read_text(encoding="utf-8"))

    def has(self, system: str, question: Question) -> bool:
        """Whether this very question, code base as it is now, was asked of the system."""
        return any(each.system == system and each.question == question for each in self.records)


def table(results: Results) -> str:
    """The Markdown tables: outcome and cost per system, right answers per kind and code base."""
    by_split: dict[str, list[Record]] = defaultdict(list)
    for record in results.records:
        by_split[record.question.split].append(record)
    parts = [_about(results.about)]
    for split, records in by_split.items():
        systems: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            systems[record.system].append(record)
        kinds = [kind for kind in KINDS if any(r.question.kind == kind for r in records)]
        bases = list(dict.fromkeys(r.question.codebase for r in records))
        parts += [
            f"### {split}",
            markdown(COLUMNS, [_row(name, each) for name, each in systems.items()]),
            _right_by("kind", kinds, systems, lambda record: record.question.kind),
            _right_by("code base", bases, systems, lambda record: record.question.codebase),
        ]
    return "\n\n".join(parts)


def _about(about: dict[str, Any]) -> str:
    return "Run of " + ", ".join(f"{key} {value}" for key, value in about.items()) + "."


COLUMNS = (
    "system", "questions", "right", "wrong", "honest", "median s", "p90 s",
    "model calls", "prompt", "computed", "generated",
)  # fmt: skip
"""Calls and tokens are means per question. `computed` is the prompt without its cached part."""


def _row(system: str, records: Sequence[Record]) -> list[str]:
    seconds = sorted(record.seconds for record in records)
    ledgers = [record.ledger for record in records]
    return [
        system,
        str(len(records)),
        *(_share(records, verdict) for verdict in ("right", "wrong", "honest")),
        f"{median(seconds):.1f}",
        f"{seconds[math.ceil(0.9 * len(seconds)) - 1]:.1f}",
        f"{fmean(each.model_calls for each in ledgers):.1f}",
        f"{fmean(each.prompt_tokens for each in ledgers):.0f}",
        f"{fmean(each.prompt_tokens - each.cached_tokens for each in ledgers):.0f}",
        f"{fmean(each.generated_tokens for each in ledgers):.0f}",
    ]


def _share(records: Sequence[Record], verdict: str) -> str:
    count = sum(record.verdict == verdict for record in records)
    return f"{count} ({count / len(records):.0%})"


def _right_by(
    what: str,
    groups: Iterable[str],
    systems: dict[str, list[Record]],
    group_of: Callable[[Record], str],
) -> str:
    rows = []
    for group in groups:
        row = [group]
        for records in systems.values():
            mine = [record for record in records if group_of(record) == group]
            row.append(f"{sum(record.verdict == 'right' for record in mine)}/{len(mine)}")
        rows.append(row)
    return markdown((f"right, by {what}", *systems), rows)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column is text, the others are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
