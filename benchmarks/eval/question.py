"""Questions about code bases and lists: written by hand in `questions/FAMILY-SPLIT.yaml`, or made
by code."""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from benchmarks.eval import codebases
from benchmarks.eval.case import Answer, Family, Grade, Setting, Split
from benchmarks.eval.check import MAX_ANSWER_CHARS, Check, grade, number, whole

FOLDER = Path(__file__).with_name("questions")
ENOUGH = 0.6
"""The share of its facts that a right answer to a broad question holds."""
CONTEXT7 = "context7"
RECORDED = Path(__file__).with_name("context7.py")
LISTS = Path(__file__).with_name("lists.py")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Proof(_Frozen):
    """Where a code base says what the check expects: `text` stands in that line of that file."""

    path: str
    line: int
    text: str


class Question(_Frozen):
    """One question about one code base, or one folder of lists, and how its answer is checked."""

    id: str
    family: Family
    split: Split
    codebase: str
    kind: str
    language: str = "en"
    wordings: tuple[str, ...]
    expected: str
    check: Check
    evidence: tuple[tuple[str, ...], ...] = ()
    proofs: tuple[Proof, ...] = ()
    absent: tuple[str, ...] = ()
    """What matches nowhere in the code base, so that "no" or "could not be found out" is right."""

    @property
    def place(self) -> str:
        return f"docs-{self.codebase}" if self.family == "docs" else self.codebase

    @asynccontextmanager
    async def open(self, work: Path) -> AsyncIterator[Setting]:
        """The code base, read by Serena; for `docs` the recorded documentation too. For `lists` the
        lists alone."""
        if self.family == "lists":
            served = [str(LISTS), str(FOLDER / "lists" / self.codebase)]
            yield Setting(upstreams={self.codebase: {"command": sys.executable, "args": served}})
            return
        root = codebases.write(codebases.files(self.codebase), work / self.codebase)
        upstreams: dict[str, dict[str, Any]] = {"serena": {}}
        if self.family == "docs":
            upstreams[CONTEXT7] = {"command": sys.executable, "args": [str(RECORDED)]}
        yield Setting(root, upstreams)

    @property
    def in_docs(self) -> bool:
        """Whether the answer stands in the documentation of a library, and not in the project."""
        return self.family == "docs" and self.kind != "code"

    def grade(self, setting: Setting, answer: Answer) -> Grade:
        """By its facts, without what only repeats the question; for `docs` only if the
        documentation was asked: what a model knows by heart may be out of date."""
        text = answer.text
        for wording in self.wordings:
            text = text.replace(wording, "")
        graded = grade(self.kind, self.check, answer.status, text)
        asked = any(call.upstream == CONTEXT7 and call.success for call in answer.calls)
        if self.in_docs and graded.verdict == "right" and not asked:
            return Grade("wrong", graded.share, "right, but the documentation was not asked")
        return graded


Texts = str | int | float | list[str | int | float]
"""Alternatives. A text is a whole word, `/.../` a regular expression, a number one in digits or
in words."""


class Written(_Frozen):
    """A question as it stands in a file."""

    id: str
    """Unique within the file."""
    code: str
    """The code base, or the folder of lists."""
    kind: str
    language: str = "en"
    ask: list[str]
    """The wordings, as people type them."""
    answer: str
    """The right one, for people; it passes its own check."""
    holds: list[Texts] = []
    """The facts of a right answer. An absence may leave it out: then it is "no"."""
    never: list[Texts] = []
    """What no right answer says."""
    evidence: list[str | list[str]] = []
    """What has to have stood in a prompt for the answer to be known."""
    absent: list[str] = []
    """For an absence: what matches nowhere in the code base."""


@cache
def read(family: Family, split: Split) -> Sequence[Question]:
    """The questions of one file. Raises `ValueError` for one that is none."""
    entries = yaml.safe_load((FOLDER / f"{family}-{split}.yaml").read_text("utf-8"))
    return [_question(Written.model_validate(each), family, split) for each in entries]


def _question(written: Written, family: Family, split: Split) -> Question:
    language = written.language
    broad = family == "broad"
    return Question(
        id=f"{split}/{family}/{written.id}",
        family=family,
        split=split,
        codebase=written.code,
        kind=written.kind,
        language=language,
        wordings=tuple(written.ask),
        expected=written.answer,
        check=Check(
            required=tuple(_patterns(each, language) for each in written.holds),
            forbidden=tuple(p for each in written.never for p in _patterns(each, language)),
            least=ENOUGH if broad else 1.0,
            longest=MAX_ANSWER_CHARS * (4 if broad else 1),
        ),
        evidence=tuple((e,) if isinstance(e, str) else tuple(e) for e in written.evidence),
        absent=tuple(written.absent),
    )


def _patterns(fact: Texts, language: str) -> tuple[str, ...]:
    patterns: list[str] = []
    for each in fact if isinstance(fact, list) else [fact]:
        if not isinstance(each, str):
            patterns += number(each, language)
        elif len(each) > 1 and each[0] == each[-1] == "/":
            patterns.append(each[1:-1])
        else:
            patterns.append(whole(each))
    return tuple(patterns)
