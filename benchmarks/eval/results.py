"""What a run found: one record per question and system, kept as JSON, shown as a table."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, Generic, Self, TypeVar

from pydantic import BaseModel

from benchmarks.eval.case import Case, Family, Split, Verdict
from planner.errors import PlanloomError


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
    """One wording of one case, asked of one system."""

    system: str
    id: str
    family: Family
    split: Split
    kind: str
    language: str
    place: str | None
    text: str
    """The wording."""
    expected: str
    verdict: Verdict
    share: float
    """Of the facts of a full answer."""
    why: str
    seen: bool | None
    """Whether the evidence stood in some prompt; None: the case has none, or nobody looked."""
    status: str
    answer: str
    seconds: float
    ledger: Ledger
    details: Any = None
    """The system's own account: a report, or the messages of a loop."""


One = TypeVar("One", bound=BaseModel)
"""What is recorded of one question."""


class Kept(BaseModel, Generic[One]):
    """A run, or as much of it as there is, in a file."""

    about: dict[str, Any]
    """Models, versions, machine, settings."""
    records: list[One] = []

    def save(self, path: Path) -> None:
        """Write it whole or not at all, since a run may be interrupted at any time."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(self.model_dump_json(indent=1), encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls.model_validate_json(path.read_text(encoding="utf-8"))

    def go_on(self, about: dict[str, Any]) -> None:
        """Be measured on like this. Raises `PlanloomError` if what there is was measured otherwise,
        since one table cannot tell them apart."""
        apart = [key for key in about if key != "date" and self.about.get(key) != about[key]]
        if self.about and apart:
            told = ", ".join(f"{key} {self.about.get(key)} and not {about[key]}" for key in apart)
            raise PlanloomError(f"What there is was measured with {told}. Begin another file.")
        self.about = self.about or about


class Results(Kept[Record]):
    """A run of the evaluation."""

    def has(self, system: str, case: Case, text: str) -> bool:
        """Whether the system was asked this wording of the case as it is now."""
        return any(
            (each.system, each.id, each.text, each.expected)
            == (system, case.id, text, case.expected)
            for each in self.records
        )

    def add(self, record: Record) -> None:
        """Take a record, in place of one of the same question with another right answer."""
        asked = (record.system, record.id, record.text)
        self.records = [r for r in self.records if (r.system, r.id, r.text) != asked]
        self.records.append(record)


def table(results: Results) -> str:
    """The Markdown tables: outcome and cost by family, by language, by kind and by place."""
    parts = [_about(results.about)]
    for split in dict.fromkeys(each.split for each in results.records):
        records = [each for each in results.records if each.split == split]
        parts += [
            f"### {split}",
            _outcomes("family", records, lambda each: each.family),
            _outcomes("language", records, lambda each: f"{each.family}, {each.language}"),
            _right_by("kind", records, lambda each: f"{each.family}, {each.kind}"),
            _right_by("place", records, lambda each: f"{each.family}, {each.place or 'its own'}"),
        ]
    return "\n\n".join(parts)


def _about(about: dict[str, Any]) -> str:
    return "Run of " + ", ".join(f"{key} {value}" for key, value in about.items()) + "."


COLUMNS = (
    "system", "asked", "right", "wrong", "honest", "facts", "seen", "in all wordings",
    "median s", "p90 s", "model calls", "tool calls", "prompt", "computed", "generated",
)  # fmt: skip
"""`facts` is the mean share of a full answer's facts. `seen`: of the wordings with evidence, those
whose evidence stood in a prompt. `in all wordings`: of the cases asked in more than one, those
right in each. Calls and tokens are means; `computed` is the prompt without its cached part."""


def _outcomes(what: str, records: Sequence[Record], group_of: Callable[[Record], str]) -> str:
    rows = []
    for group in dict.fromkeys(map(group_of, records)):
        mine = [each for each in records if group_of(each) == group]
        for system in dict.fromkeys(each.system for each in mine):
            row = _row(system, [each for each in mine if each.system == system])
            rows.append([group, *row])
    return markdown((what, *COLUMNS), rows)


def _row(system: str, records: Sequence[Record]) -> list[str]:
    seconds = sorted(record.seconds for record in records)
    ledgers = [record.ledger for record in records]
    looked = [record.seen for record in records if record.seen is not None]
    cases: dict[str, list[bool]] = {}
    for record in records:
        cases.setdefault(record.id, []).append(record.verdict == "right")
    several = [all(each) for each in cases.values() if len(each) > 1]
    return [
        system,
        str(len(records)),
        *(
            _of([record.verdict == verdict for record in records])
            for verdict in ("right", "wrong", "honest")
        ),
        f"{fmean(record.share for record in records):.0%}",
        _of(looked),
        _of(several),
        f"{median(seconds):.1f}",
        f"{seconds[math.ceil(0.9 * len(seconds)) - 1]:.1f}",
        f"{fmean(each.model_calls for each in ledgers):.1f}",
        f"{fmean(each.tool_calls for each in ledgers):.1f}",
        f"{fmean(each.prompt_tokens for each in ledgers):.0f}",
        f"{fmean(each.prompt_tokens - each.cached_tokens for each in ledgers):.0f}",
        f"{fmean(each.generated_tokens for each in ledgers):.0f}",
    ]


def _of(outcomes: Sequence[bool]) -> str:
    """How many, and their share; a dash where there was none to count."""
    return f"{sum(outcomes)} ({fmean(outcomes):.0%})" if outcomes else "-"


def _right_by(what: str, records: Sequence[Record], group_of: Callable[[Record], str]) -> str:
    systems = list(dict.fromkeys(each.system for each in records))
    rows = []
    for group in dict.fromkeys(map(group_of, records)):
        row = [group]
        for system in systems:
            mine = [r for r in records if r.system == system and group_of(r) == group]
            row.append(f"{sum(r.verdict == 'right' for r in mine)}/{len(mine)}")
        rows.append(row)
    return markdown((f"right, by {what}", *systems), rows)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column is text, the others are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
