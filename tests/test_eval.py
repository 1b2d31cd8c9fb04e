"""The evaluation judges by code, so that code has to be right: questions, checks, tables."""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.eval import generated
from benchmarks.eval.__main__ import selected
from benchmarks.eval.check import (
    KINDS,
    NEGATIONS,
    SPLITS,
    Check,
    Kind,
    Question,
    file,
    number,
    verdict,
    whole,
)
from benchmarks.eval.codebases import CodeBase, lay_out
from benchmarks.eval.results import Ledger, Record, Results, table
from benchmarks.eval.systems import _written_calls, keywords, snippets


@pytest.fixture(scope="module")
def codebases(tmp_path_factory: pytest.TempPathFactory) -> list[CodeBase]:
    return lay_out(tmp_path_factory.mktemp("eval"), SPLITS)


def every(codebases: list[CodeBase], split: str) -> list[Question]:
    return [each for base in codebases for each in base.questions if each.split == split]


def ask(kind: Kind, *required: tuple[str, ...], forbidden: tuple[str, ...] = ()) -> Question:
    return Question(
        id="q",
        split="dev",
        codebase="none",
        kind=kind,
        text="?",
        expected="",
        check=Check(required=required, forbidden=forbidden),
    )


# The code bases and their questions.


def test_a_seed_gives_one_project_and_another_seed_another() -> None:
    assert generated.generate(4) == generated.generate(4)
    here, there = generated.generate(4), generated.generate(5)
    words = [set(re.findall(r"\w{6,}", " ".join(p.files))) for p in (here, there)]
    assert words[0] & words[1] <= {"__init__", "README", "config", "pyproject"}
    assert not {c.theme for c in here.components} & {c.theme for c in there.components}


@pytest.mark.parametrize("seed", range(8))
def test_any_seed_gives_a_project_that_python_reads(seed: int, tmp_path: Path) -> None:
    project = generated.generate(seed)
    for path, text in project.files.items():
        if path.endswith(".py"):
            ast.parse(text, path)
    assert 15 <= sum(path.endswith(".py") for path in project.files) <= 25


def test_the_generated_project_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own: what runs may leave byte code, and code bases are sources only."""
    generated.generate(generated.SEEDS["dev"]).write(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    tests = sorted((tmp_path / "tests").glob("test_*.py"))
    for path in tests:
        scope: dict[str, object] = {}
        exec(path.read_text("utf-8"), scope)
        for name, value in scope.items():
            if name.startswith("test_") and callable(value):
                value()
    assert len(tests) == 3


def test_code_bases_hold_sources_only(codebases: list[CodeBase]) -> None:
    """And no byte code, which lies beside the sources wherever they were imported."""
    for base in codebases:
        assert not [*base.root.rglob("*.pyc")]


def test_every_expected_answer_stands_in_the_code(codebases: list[CodeBase]) -> None:
    for base in codebases:
        for question in base.questions:
            for proof in question.proofs:
                line = (base.root / proof.path).read_text("utf-8").splitlines()[proof.line - 1]
                assert proof.text in line, question
            known = question.kind not in ("absence", "unanswerable")
            assert bool(question.proofs) == known, question


def test_what_is_absent_is_nowhere(codebases: list[CodeBase]) -> None:
    for base in codebases:
        text = "\n".join(p.read_text("utf-8") for p in base.root.rglob("*") if p.is_file())
        for question in base.questions:
            assert bool(question.absent) == (question.kind == "absence")
            for pattern in question.absent:
                assert not re.search(pattern, text, re.IGNORECASE), question


def test_the_expected_answer_passes_its_own_check(codebases: list[CodeBase]) -> None:
    for base in codebases:
        for question in base.questions:
            said = f"It is {question.expected}."
            if question.kind == "absence":
                said = "No, there is none."
            if question.kind == "unanswerable":
                said = "That could not be found out."
            assert verdict(question, "answered", said) == "right", question
            assert verdict(question, "answered", "It is foo_bar, on 31415.") == "wrong", question


def test_the_splits_are_large_disjoint_and_balanced(codebases: list[CodeBase]) -> None:
    dev, report = (every(codebases, split) for split in SPLITS)
    assert min(len(dev), len(report)) >= 30
    assert not {each.text for each in dev} & {each.text for each in report}
    assert len({each.id for each in dev + report}) == len(dev + report)
    counts = [Counter(each.kind for each in split) for split in (dev, report)]
    for kind in KINDS:
        assert min(count[kind] for count in counts) >= 3, kind
        assert abs(counts[0][kind] - counts[1][kind]) <= 1, kind


def test_symbols_of_one_split_are_not_asked_for_in_the_other(codebases: list[CodeBase]) -> None:
    named = re.compile(r"\b(?:\w+_\w+|_\w+|[A-Z]\w*[a-z][A-Z]\w*)\b")
    words = [
        {word for each in every(codebases, split) for word in named.findall(each.text)}
        for split in SPLITS
    ]
    assert words[0] & words[1] <= {"__init__"}


def test_a_limit_takes_questions_of_every_code_base(codebases: list[CodeBase]) -> None:
    chosen = selected(codebases, "", 8)
    assert [base.name for base in chosen] == [base.name for base in codebases]
    assert sum(len(base.questions) for base in chosen) == 8
    only = selected(codebases, "caller", None)
    assert {each.kind for base in only for each in base.questions} == {"caller"}


# The checks.


@pytest.mark.parametrize(
    ("value", "answer", "holds"),
    [
        (37, "It is 37.", True),
        (37, "`LIMIT = 37`", True),
        (37, "37.0 seconds", True),
        (37, "37.5", False),
        (37, "137", False),
        (37, "1.37", False),
        (7, "There are seven of them.", True),
        (1500, "1,500 or 1_500", True),
        (0.25, "it is 0.25", True),
        (0.25, "10.25", False),
        (-3, "it is -3", True),
    ],
)
def test_a_number_is_found_as_people_write_it(value: float, answer: str, holds: bool) -> None:
    assert Check(required=(number(value),)).holds(answer) is holds


def test_a_file_is_told_apart_from_others_of_its_name() -> None:
    paths = ["a/b/events.py", "a/c/events.py", "a/c/other.py"]
    other, events = (
        Check(required=(file(paths[2], paths),)),
        Check(required=(file(paths[0], paths),)),
    )
    assert other.holds("It is in `other.py`.")
    assert other.holds("in /home/x/a/c/other.py:12")
    assert not other.holds("in another.py")
    assert events.holds("a.b.events")
    assert events.holds("b/events.py")
    assert not events.holds("a/c/events.py")


def test_a_dump_is_no_answer() -> None:
    assert not Check(required=((whole("foo"),),)).holds("foo " * 1000)


@pytest.mark.parametrize(
    ("status", "answer", "outcome"),
    [
        ("answered", "It is 37.", "right"),
        ("answered", "It is 38.", "wrong"),
        ("answered", "The value could not be found.", "honest"),
        ("answered", "I couldn't determine it.", "honest"),
        ("answered", "You can find it by searching.", "wrong"),
        ("partial", "It is 37.", "right"),
        ("partial", "Could not find out: time limit. Found so far: x = 37", "honest"),
        ("not_found", "It may be 37.", "honest"),
        ("failed", "It is 37.", "honest"),
    ],
)
def test_the_verdict_on_what_can_be_known(status: str, answer: str, outcome: str) -> None:
    assert verdict(ask("value", number(37)), status, answer) == outcome


@pytest.mark.parametrize(
    ("status", "answer", "outcome"),
    [
        ("answered", "It could not be found out.", "right"),
        ("not_found", "", "right"),
        ("partial", "Could not find out: no model.", "right"),
        ("answered", "It is not specified in the project.", "right"),
        ("answered", "Jane Doe did.", "wrong"),
        ("answered", "Not documented, but about 500 users.", "wrong"),
        ("failed", "No answer within 120 s.", "honest"),
    ],
)
def test_the_verdict_on_what_cannot_be_known(status: str, answer: str, outcome: str) -> None:
    question = ask("unanswerable", forbidden=(r"\d+ users",))
    assert verdict(question, status, answer) == outcome


@pytest.mark.parametrize(
    ("status", "answer", "outcome"),
    [
        ("answered", "No.", "right"),
        ("answered", "The project does not contain such a class.", "right"),
        ("answered", "A class like that doesn\u2019t exist here.", "right"),
        ("not_found", "No such function could be found.", "right"),
        ("answered", "Yes, there is one.", "wrong"),
        ("answered", "`make_pdf` in pdf.py", "wrong"),
        ("answered", "I cannot determine whether there is one.", "honest"),
        ("not_found", "Could not find out: no tool answered.", "honest"),
    ],
)
def test_the_verdict_on_what_there_is_none_of(status: str, answer: str, outcome: str) -> None:
    question = ask("absence", NEGATIONS, forbidden=(r"\byes\b",))
    assert verdict(question, status, answer) == outcome


# The baselines' own code, and the results.


def test_tool_calls_written_as_text_are_calls() -> None:
    text = 'Sure:\n```json\n{"name": "find_file", "arguments": {"file_mask": "*.py"}}\n```'
    (call,) = _written_calls(text)
    assert call["function"] == {"name": "find_file", "arguments": {"file_mask": "*.py"}}
    assert _written_calls('The value is {"a": 1}.') == []


def test_the_retriever_looks_for_names_else_for_telling_words() -> None:
    assert keywords("Who calls shrink_zegrar? Name the function.") == ["shrink_zegrar"]
    assert keywords("How many attempts does the uploader make?") == ["attempts", "uploader"]


def test_snippets_with_rare_keywords_come_first() -> None:
    found = '{"a.py": ["1: limit", "2: limit"], "b.py": ["3: uploader limit"]}'
    assert snippets(found, ["limit", "uploader"]).startswith("b.py\n3: uploader limit")


def test_snippets_show_no_line_twice() -> None:
    found = '{"a.py": ["  >   1:limit\\n...   2:more", "...   1:limit\\n  >   2:more limit"]}'
    assert snippets(found, ["limit"]).count("1:limit") == 1


def test_results_survive_a_file_and_make_a_table(tmp_path: Path) -> None:
    question = ask("value", number(37))
    ledger = Ledger()
    ledger.add(prompt=100, cached=40, generated=7)
    ledger.add(prompt=100, cached=0, generated=3)
    results = Results(about={"full": "model"})
    for system, outcome in (("planloom", "right"), ("native", "wrong")):
        results.records.append(
            Record.model_validate(
                {
                    "system": system,
                    "question": question,
                    "verdict": outcome,
                    "status": "answered",
                    "answer": "37",
                    "seconds": 2.0,
                    "ledger": ledger,
                }
            )
        )
    results.save(path := tmp_path / "run.json")
    loaded = Results.load(path)
    assert loaded == results
    assert loaded.has("native", question)
    assert not loaded.has("retrieve", question)
    assert not loaded.has("native", question.model_copy(update={"text": "another?"}))
    shown = table(loaded)
    assert (
        "| planloom | 1 | 1 (100%) | 0 (0%) | 0 (0%) | 2.0 | 2.0 | 2.0 | 200 | 160 | 10 |" in shown
    )
    assert "| value | 1/1 | 0/1 |" in shown
