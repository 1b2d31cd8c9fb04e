"""What the evaluation asks: the face that every family of questions has, and every system sees.

A family is a module with `cases(split)`; `benchmarks/eval/families.py` lists them. A case is opened
in a work folder, which gives its setting (the project, the upstreams, the policy); a system answers
one of its wordings in that setting; the case grades the answer, and what became of the setting.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

Family = Literal["lookup", "polyglot", "wild", "broad", "docs", "lists", "tools", "change", "talk"]
Split = Literal["dev", "report"]
SPLITS: tuple[Split, Split] = ("dev", "report")
Verdict = Literal["right", "wrong", "honest"]
"""`wrong` claims to be an answer and is none; `honest` says, itself or by its status, that it is
none."""


@dataclass(frozen=True)
class Setting:
    """What a case is asked in. A family may derive from it what its grading needs."""

    project: Path | None = None
    """The folder that is served; None: a pool without a project."""
    upstreams: dict[str, dict[str, Any]] = field(default_factory=lambda: {"serena": {}})
    """Entries of upstreams.yaml by name. Where one is shipped under that name, what stands here is
    laid over it: `{"serena": {}}` is the shipped one."""
    policy: Literal["read_only", "allow"] = "read_only"
    """`allow`: tools that change something run without asking a person."""


@dataclass(frozen=True)
class Called:
    """A tool call that a system made."""

    upstream: str
    tool: str
    arguments: dict[str, Any]
    success: bool


@dataclass(frozen=True)
class Answer:
    """What a system said. A system without statuses has `answered` whenever it said anything."""

    status: str
    """As in Planloom's report: `answered`, `partial`, `not_found`, `failed` ..."""
    text: str
    calls: tuple[Called, ...] = ()
    details: Any = None
    """The system's own account: a report, or the messages of a loop."""


@dataclass(frozen=True)
class Grade:
    verdict: Verdict
    share: float
    """Of the facts that a full answer holds, from 0 to 1."""
    why: str = ""
    """What was missing or false, for people."""


class Case(Protocol):
    """One question, in one wording or several, and the code that judges its answers."""

    @property
    def id(self) -> str:
        """Unique among all cases; begins with the split and the family."""

    @property
    def family(self) -> Family: ...

    @property
    def split(self) -> Split: ...

    @property
    def kind(self) -> str:
        """What sort of question within the family: `value`, `caller`, `compare` ..."""

    @property
    def language(self) -> str:
        """That of the wordings: `en`, `de` ..."""

    @property
    def wordings(self) -> tuple[str, ...]:
        """The same question in other words. Each is asked by itself."""

    @property
    def expected(self) -> str:
        """The right answer, for people. A case whose answer has changed is asked again."""

    @property
    def evidence(self) -> tuple[tuple[str, ...], ...]:
        """Groups of alternatives: the answer could be known when of each group one text stood in
        some prompt of the run. Empty: there is nothing to be seen."""

    @property
    def place(self) -> str | None:
        """Cases with the same place share one setting that is opened once, and one server; so none
        of them may change it. None: opened for each wording and system."""

    def open(self, work: Path) -> AbstractAsyncContextManager[Setting]:
        """Make the setting in the folder `work`, which is the case's own and empty."""

    def grade(self, setting: Setting, answer: Answer) -> Grade:
        """Judge an answer that was given in this setting, while it is still open."""


Cases = Callable[[Split], Sequence[Case]]
"""The cases of one family and split, always the same and in the same order."""
