"""What the cases of the families in this folder have in common."""

from dataclasses import dataclass, field
from typing import ClassVar

from benchmarks.eval.case import Family, Split


@dataclass(frozen=True)
class TaskCase:
    """Something that is said in one wording, in a setting of its own."""

    family: ClassVar[Family]
    name: str
    split: Split
    kind: str
    wording: str
    language: str = field(default="en", kw_only=True)
    evidence: tuple[tuple[str, ...], ...] = field(default=(), kw_only=True)
    place: str | None = field(default=None, kw_only=True)

    @property
    def id(self) -> str:
        return f"{self.split}-{self.family}-{self.name}"

    @property
    def wordings(self) -> tuple[str, ...]:
        return (self.wording,)
