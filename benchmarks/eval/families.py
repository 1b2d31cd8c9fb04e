"""The families of cases, by name. Each is made only when it is asked for."""

from collections.abc import Sequence
from functools import cache, partial

from benchmarks.eval.case import Cases, Family, Split
from benchmarks.eval.codebases import files
from benchmarks.eval.described import ask
from benchmarks.eval.generated import SEEDS, generate
from benchmarks.eval.lookup import Asker
from benchmarks.eval.question import Question, read
from benchmarks.eval.source import Source, parse
from benchmarks.eval.tasks import changes, talk, tools

LOOKUPS = {
    "repository": {
        "definition": 2, "value": 1, "default": 1, "caller": 1, "uses": 2,
        "methods": 1, "file": 1, "absence": 1, "unanswerable": 1,
    },
    "package": {
        "definition": 1, "value": 1, "default": 1, "caller": 1, "base": 2,
        "methods": 1, "file": 1, "absence": 1, "unanswerable": 1,
    },
}  # fmt: skip
"""How many questions of which kind; fewer where a code base has not the symbols for them."""


@cache
def parsed(name: str) -> Source:
    return parse(files(name))


@cache
def lookups(split: Split) -> Sequence[Question]:
    """Questions made by code of what it sees in Python code, with what it says now."""
    project = generate(SEEDS[split])
    name = f"generated-{split}"
    questions = ask(project, Asker(parse(project.files), name, split, shared=False))
    for name, plan in LOOKUPS.items():
        asker = Asker(parsed(name), name, split, shared=True)
        for kind, most in plan.items():
            questions += asker.make(kind, most)
    return questions


CASES: dict[Family, Cases] = {
    "lookup": lookups,
    "polyglot": partial(read, "polyglot"),
    "wild": partial(read, "wild"),
    "broad": partial(read, "broad"),
    "docs": partial(read, "docs"),
    "lists": partial(read, "lists"),
    "tools": tools.cases,
    "change": changes.cases,
    "talk": talk.cases,
}
