"""Questions about code bases: written by hand in `questions/*.yaml`, or made by code.

A file of `questions/` holds the questions of one family and split. Of each question:

    id        unique within the file
    code      the code base
    kind      what sort of question it is
    language  of the wordings; left out: en
    ask       the wordings, as people type them
    answer    the right answer, for people
    holds     the facts of a right answer. A fact is a text, a number, or a list of alternatives;
              texts are whole words, `/.../` is a regular expression
    never     what no right answer says, written in the same way
    evidence  what has to have stood in a prompt for the answer to be known: one text, or a list
              of alternatives, for each
    absent    for an absence: regular expressions that match nowhere in the code base
"""

import re
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
from benchmarks.eval.check import LONGEST_ANSWER, NEGATIONS, Check, grade, number, whole

KEYS = frozenset(re.findall(r"^    (\w+)  ", __doc__ or "", re.MULTILINE))
FOLDER = Path(__file__).with_name("questions")
ENOUGH = 0.6
"""The share of its facts that a right answer to a broad question holds."""
CONTEXT7 = "context7"
RECORDED = Path(__file__).with_name("context7.py")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Proof(_Frozen):
    """Where a code base says what the check expects: `text` stands in that line of that file."""

    path: str
    line: int
    text: str


class Question(_Frozen):
    """One question about one code base, and how its answer is checked."""

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
        """The code base, read by Serena; for `docs` the recorded documentation too."""
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
        """By its facts; for `docs` only if the documentation was asked: what a model knows by heart
        may be out of date."""
        graded = grade(self.kind, self.check, answer.status, answer.text)
        asked = any(call.upstream == CONTEXT7 and call.success for call in answer.calls)
        if self.in_docs and graded.verdict == "right" and not asked:
            return Grade("wrong", graded.share, "right, but the documentation was not asked")
        return graded


@cache
def read(family: Family, split: Split) -> Sequence[Question]:
    """The questions of `questions/FAMILY-SPLIT.yaml`."""
    path = FOLDER / f"{family}-{split}.yaml"
    return [_question(each, family, split) for each in yaml.safe_load(path.read_text("utf-8"))]


def _question(data: dict[str, Any], family: Family, split: Split) -> Question:
    if unknown := set(data) - KEYS:
        raise ValueError(f"{data['id']} has keys that mean nothing: {unknown}")
    kind = data["kind"]
    required = tuple(_patterns(fact) for fact in data.get("holds", ()))
    if kind == "absence" and not required:
        required = (NEGATIONS,)
    broad = family == "broad"
    return Question(
        id=f"{split}/{family}/{data['id']}",
        family=family,
        split=split,
        codebase=data["code"],
        kind=kind,
        language=data.get("language", "en"),
        wordings=tuple(data["ask"]),
        expected=str(data["answer"]),
        check=Check(
            required=required,
            forbidden=tuple(p for each in data.get("never", ()) for p in _patterns(each)),
            least=ENOUGH if broad else 1.0,
            longest=LONGEST_ANSWER * (4 if broad else 1),
        ),
        evidence=tuple(_texts(group) for group in data.get("evidence", ())),
        absent=tuple(data.get("absent", ())),
    )


def _patterns(fact: Any) -> tuple[str, ...]:
    patterns: list[str] = []
    for each in fact if isinstance(fact, list) else [fact]:
        if isinstance(each, bool) or not isinstance(each, int | float | str):
            raise ValueError(f"{each!r} in {fact!r} is no text and no number; put it in quotes")
        if not isinstance(each, str):
            patterns += number(each)
        elif len(each) > 1 and each[0] == each[-1] == "/":
            patterns.append(each[1:-1])
        else:
            patterns.append(whole(each))
    return tuple(patterns)


def _texts(group: str | list[str]) -> tuple[str, ...]:
    return (group,) if isinstance(group, str) else tuple(group)
