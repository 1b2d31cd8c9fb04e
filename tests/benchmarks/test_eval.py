"""The evaluation judges by code, so that code has to be right: questions, checks, tables."""

import ast
import contextlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute, SocketStream
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from scripted_ollama import FULL, ScriptedOllama
from serving import LONG
from typer.testing import CliRunner

from benchmarks.eval import __main__ as main
from benchmarks.eval.__main__ import app, selected
from benchmarks.eval.case import SPLITS, Answer, Called, Family, Setting, Split
from benchmarks.eval.check import Check, file, grade, number, whole
from benchmarks.eval.codebases import FETCHED, SOURCES, files, write
from benchmarks.eval.context7 import LIBRARIES, SCHEMAS
from benchmarks.eval.families import CASES, LOOKUPS, lookups
from benchmarks.eval.generated import SEEDS, generate
from benchmarks.eval.lists import build_server
from benchmarks.eval.question import FOLDER, RECORDED, Question, read
from benchmarks.eval.recording import snippets as recorded_snippets
from benchmarks.eval.results import Ledger, Record, Results, table
from benchmarks.eval.systems import Bench, _written_calls, keywords, snippets
from benchmarks.eval.wire import Wire, plain, recording
from planner.errors import PlanloomError
from planner.evidence import tables
from planner.models.base import ChatRequest
from planner.models.ollama import OllamaClient, OllamaModel
from server.config import ModelSettings
from server.config_file import shipped_file

HERE = ["kiosk", *(f"generated-{split}" for split in SPLITS), *LOOKUPS]
"""The code bases that need no registry."""
KINDS = (
    "definition", "value", "default", "caller", "chain", "count", "file", "absence", "unanswerable",
)  # fmt: skip
LISTS = FOLDER / "lists"
WORDINGS: dict[Family, int] = {"polyglot": 3, "wild": 1, "broad": 3, "docs": 3, "lists": 1}
"""Of the families that were written by hand."""
WRITTEN = [each for family in WORDINGS for s in SPLITS for each in read(family, s)]


def ask(*required: tuple[str, ...], forbidden: tuple[str, ...] = ()) -> Check:
    return Check(required=required, forbidden=forbidden)


# The code bases and their questions.


def test_a_seed_gives_one_project_and_another_seed_another() -> None:
    assert generate(4) == generate(4)
    here, there = generate(4), generate(5)
    words = [set(re.findall(r"\w{6,}", " ".join(p.files))) for p in (here, there)]
    assert words[0] & words[1] <= {"__init__", "README", "config", "pyproject"}
    assert not {c.theme for c in here.components} & {c.theme for c in there.components}


@pytest.mark.parametrize("seed", range(8))
def test_any_seed_gives_a_project_that_python_reads(seed: int) -> None:
    project = generate(seed)
    for path, text in project.files.items():
        if path.endswith(".py"):
            ast.parse(text, path)
    assert 15 <= sum(path.endswith(".py") for path in project.files) <= 25


def test_the_generated_project_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(generate(SEEDS["dev"]).files, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    tests = sorted((tmp_path / "tests").glob("test_*.py"))
    for path in tests:
        scope: dict[str, object] = {}
        exec(path.read_text("utf-8"), scope)
        for name, value in scope.items():
            if name.startswith("test_") and callable(value):
                value()
    assert len(tests) == 3


@pytest.mark.parametrize("name", HERE)
def test_code_bases_hold_sources_only(name: str, tmp_path: Path) -> None:
    """And no byte code, which lies beside the sources wherever they were imported."""
    root = write(files(name), tmp_path)
    assert {path.suffix for path in root.rglob("*") if path.is_file()} <= SOURCES


def test_what_a_lookup_expects_stands_in_the_code() -> None:
    for question in (each for split in SPLITS for each in lookups(split)):
        assert question.codebase in HERE
        code = files(question.codebase)
        for proof in question.proofs:
            assert proof.text in code[proof.path].splitlines()[proof.line - 1], question
        known = question.kind not in ("absence", "unanswerable")
        assert bool(question.proofs) == bool(question.evidence) == known, question


@pytest.mark.parametrize("split", SPLITS)
def test_evidence_stands_in_the_code_and_what_is_absent_does_not(split: Split) -> None:
    stands([*lookups(split), *(each for each in WRITTEN if each.codebase in HERE)])


@pytest.mark.outside
@pytest.mark.parametrize("name", FETCHED)
def test_evidence_stands_in_fetched_code(name: str) -> None:
    assert {Path(path).suffix for path in files(name)} <= SOURCES | {""}
    asked = [each for each in WRITTEN if each.codebase == name]
    assert asked
    stands(asked)


@cache
def code_of(name: str) -> tuple[str, str]:
    """The whole code base as it is, and as evidence is compared with it."""
    text = "\n".join(files(name).values())
    return text, plain(text)


def stands(questions: Iterable[Question]) -> None:
    for question in questions:
        text, code = code_of(question.codebase)
        if question.family == "docs":
            code += plain("\n".join(s["text"] for each in LIBRARIES for s in each["snippets"]))
        for group in question.evidence:
            assert any(plain(each) in code for each in group), (question.id, group)
        assert bool(question.absent) == (question.kind == "absence"), question.id
        for pattern in question.absent:
            assert not re.search(pattern, text, re.IGNORECASE), (question.id, pattern)


def test_the_expected_answer_passes_its_own_check() -> None:
    nothing = Setting()
    for question in (each for split in SPLITS for each in lookups(split)):
        said = f"It is {question.expected}."
        if question.kind == "absence":
            said = "No, there is none."
        if question.kind == "unanswerable":
            said = "That could not be found out."
        right = question.grade(nothing, Answer("answered", said))
        assert right.verdict == "right", (question, right)
        wrong = question.grade(nothing, Answer("answered", "It is foo_bar, on 31415."))
        assert wrong.verdict == "wrong", question


@pytest.mark.parametrize("question", WRITTEN, ids=lambda each: each.id)
def test_a_written_question_can_be_answered_and_missed(question: Question) -> None:
    asked = (Called("context7", "query-docs", {}, True),)
    right = question.grade(Setting(), Answer("answered", question.expected, asked))
    assert right.verdict == "right", (question.expected, right)
    for wrong in ("It is foo_bar, on 31415.", *question.wordings):
        missed = question.grade(Setting(), Answer("answered", wrong, asked))
        assert missed.verdict != "right", (wrong, question.check)
    if question.in_docs:
        assert question.grade(Setting(), Answer("answered", question.expected)).verdict == "wrong"


def test_an_answer_about_something_else_is_not_right() -> None:
    """Said by a real model, and by those of other questions."""
    said = "The method `setAllowsProtectedMedia` allows or blocks protected media."
    (late,) = (each for each in WRITTEN if each.id.endswith("webview-override-late"))
    assert late.grade(Setting(), Answer("answered", said)).verdict == "wrong"
    (unix,) = (each for each in WRITTEN if each.id.endswith("hiredis-keepalive-unix"))
    for said in ("InvalidParametersError", "longer or shorter ones are not cached"):
        assert unix.grade(Setting(), Answer("answered", said)).verdict == "wrong"


def test_written_questions_are_varied() -> None:
    for family, wordings in WORDINGS.items():
        for split in SPLITS:
            mine = [q for q in WRITTEN if (q.family, q.split) == (family, split)]
            assert {len(set(each.wordings)) for each in mine} == {wordings}, (family, split)
            foreign = sum(each.language != "en" for each in mine)
            assert foreign >= len(mine) / 5, (family, split)
            for question in mine:
                foreseen = question.kind in ("absence", "unanswerable")
                worked_out = question.family == "lists"
                assert foreseen or worked_out or question.evidence, question.id


def test_the_splits_are_large_disjoint_and_balanced() -> None:
    dev, report = (lookups(split) for split in SPLITS)
    assert min(len(dev), len(report)) >= 30
    assert not {each.wordings for each in dev} & {each.wordings for each in report}
    counts = [Counter(each.kind for each in split) for split in (dev, report)]
    for kind in KINDS:
        assert min(count[kind] for count in counts) >= 3, kind
        assert abs(counts[0][kind] - counts[1][kind]) <= 1, kind
    here = [cases for family, cases in CASES.items() if family != "tools"]  # those are fetched
    every = [case.id for cases in here for split in SPLITS for case in cases(split)]
    assert len(set(every)) == len(every)


def test_symbols_of_one_split_are_not_asked_for_in_the_other() -> None:
    named = re.compile(r"\b(?:\w+_\w+|_\w+|[A-Z]\w*[a-z][A-Z]\w*)\b")
    words = [
        {word for each in lookups(split) for word in named.findall(" ".join(each.wordings))}
        for split in SPLITS
    ]
    assert words[0] & words[1] <= {"__init__"}


def test_a_limit_takes_cases_of_every_family_kind_and_language() -> None:
    cases = [*lookups("dev"), *read("polyglot", "dev")]
    chosen = selected(cases, "", 12)
    assert Counter(each.family for each in chosen) == {"lookup": 12, "polyglot": 12}
    assert {each.kind for each in chosen[:12]} == set(KINDS)
    assert 1 < sum(each.language != "en" for each in chosen) < 6
    assert {each.kind for each in selected(cases, "lookup.*caller", None)} == {"caller"}


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
        (10, "every 10s", True),
        (10, "the 10th", False),
        (37, "It is not 37 but 38.", False),
        (37, "It isn't `37`.", False),
        (37, "**37**", True),
        (1500, "1 500", True),
        (3, "1. foo\n2. bar\n3. baz", True),
        (3, "1. foo\n2. bar\n3. baz\n4. more", False),
        (3, "**1.** foo\n\n**2.** bar\n3. baz\n4. There are 3.", True),
        (3, "it is -3", False),
        (11, "It is called once.", False),
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


@pytest.mark.parametrize(
    "answer",
    ["`run_it`", "**run_it**()", "run\\_it", "**`run_it`**", "a/`run_it`.py", "2**run_it"],
)
def test_a_name_is_found_whatever_marks_it(answer: str) -> None:
    assert Check(required=((whole("run_it"),),)).holds(answer)
    assert Check(required=(("5 ?seconds",),)).holds("**`5`** seconds,\u00a0`**kwargs`")
    assert Check(required=((whole("***"),),)).holds("It is `***`, the **stars**.")


def test_a_dump_is_no_answer() -> None:
    assert not Check(required=((whole("foo"),),)).holds("foo " * 1000)


@pytest.mark.parametrize(
    ("status", "answer", "outcome"),
    [
        ("answered", "It is 37.", "right"),
        ("answered", "It is 38.", "wrong"),
        ("answered", "The value could not be found.", "honest"),
        ("answered", "I couldn't determine it.", "honest"),
        ("answered", "I can't find it.", "honest"),
        ("answered", "The excerpts don't say.", "honest"),
        ("answered", "I did not find it.", "honest"),
        ("answered", "To answer this I need more context.", "honest"),
        ("answered", "I do not have access to the files.", "honest"),
        ("answered", "The search returned no results.", "honest"),
        ("answered", "It raises KeyError if the key is not found.", "wrong"),
        ("answered", "It is 38 when the file is not available.", "wrong"),
        ("answered", "You can find it by searching.", "wrong"),
        ("answered", "It does not include the header; the value is 38.", "wrong"),
        ("answered", "It is 38; unknown_option is not used.", "wrong"),
        ("partial", "It is 37.", "right"),
        ("partial", "Could not find out: time limit. Found so far: x = 37", "honest"),
        ("partial", "Could not find out: nothing says 37", "honest"),
        ("partial", "37 entries have not been found.", "right"),
        ("partial", "38 entries have not been found.", "honest"),
        ("partial", "It could not be determined whether 37 is right.", "honest"),
        ("not_found", "It may be 37.", "honest"),
        ("failed", "It is 37.", "honest"),
    ],
)
def test_the_verdict_on_what_can_be_known(status: str, answer: str, outcome: str) -> None:
    assert grade("value", ask(number(37)), status, answer).verdict == outcome


@pytest.mark.parametrize(
    ("status", "answer", "outcome"),
    [
        ("answered", "It could not be found out.", "right"),
        ("not_found", "", "right"),
        ("partial", "Could not find out: no model.", "right"),
        ("answered", "It is not specified in the project.", "right"),
        ("answered", "Jane Doe did.", "wrong"),
        ("answered", "Not documented, but about 500 users.", "wrong"),
        ("answered", "The project doesn't say.", "right"),
        ("partial", "Jane Doe did.", "honest"),
        ("failed", "No answer within 120 s.", "honest"),
    ],
)
def test_the_verdict_on_what_cannot_be_known(status: str, answer: str, outcome: str) -> None:
    check = ask(forbidden=(r"\d+ users",))
    graded = grade("unanswerable", check, status, answer)
    assert (graded.verdict, graded.share) == (outcome, 1.0 if outcome == "right" else 0.0)


@pytest.mark.parametrize(
    ("status", "answer", "outcome"),
    [
        ("answered", "No.", "right"),
        ("answered", "The project does not contain such a class.", "right"),
        ("answered", "A class like that doesn\u2019t exist here.", "right"),
        ("not_found", "No such function could be found.", "right"),
        ("answered", "Nothing here does that.", "right"),
        ("answered", "Yes, there is one.", "wrong"),
        ("answered", "`Mailer` sends e-mail. It does not support attachments.", "wrong"),
        ("answered", "Ja, und es gibt keine bessere.", "wrong"),
        ("answered", "`send` is a non-blocking function for that.", "wrong"),
        ("answered", "```\nNo.\n```", "right"),
        ("not_found", "It could not be found out.", "honest"),
        ("answered", "`make_pdf` in pdf.py", "wrong"),
        ("answered", "I cannot determine whether there is one.", "honest"),
        ("not_found", "Could not find out: no tool answered.", "honest"),
    ],
)
def test_the_verdict_on_what_there_is_none_of(status: str, answer: str, outcome: str) -> None:
    check = ask()
    assert grade("absence", check, status, answer).verdict == outcome


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


def test_a_share_of_the_facts_is_enough_where_the_check_says_so() -> None:
    check = Check(required=(("one",), ("two",), ("three",)), forbidden=("four",), least=0.6)
    graded = [
        grade("explain", check, "answered", each) for each in ("one two", "one", "one two four")
    ]
    assert [each.verdict for each in graded] == ["right", "wrong", "wrong"]
    assert [round(each.share, 2) for each in graded] == [0.67, 0.33, 0.67]
    assert graded[1].why == "without two; without three"
    assert graded[2].why == "without three; says four"


@pytest.mark.parametrize(
    ("status", "answer", "outcome"),
    [
        ("answered", "Das konnte nicht ermittelt werden.", "honest"),
        ("answered", "No se pudo determinar.", "honest"),
        ("answered", "Je n'ai pas trouvé cette valeur.", "honest"),
        ("answered", "无法确定。", "honest"),
        ("answered", "默认值是7次", "right"),
        ("answered", "Es sind 17.", "wrong"),
        ("answered", "Ich weiß es nicht.", "honest"),
        ("answered", "No lo sé.", "honest"),
        ("answered", "Não há informações suficientes.", "honest"),
        ("answered", "我找不到这个函数。", "honest"),
        ("answered", "見つかりませんでした。", "honest"),
        ("answered", "Не удалось найти.", "honest"),
        ("answered", "Bulunamadı.", "honest"),
        ("answered", "Es kommt ein KeyError, wenn er nicht gefunden wird.", "wrong"),
    ],
)
def test_the_verdict_in_other_languages(status: str, answer: str, outcome: str) -> None:
    assert grade("value", ask(number(7)), status, answer).verdict == outcome


@pytest.mark.parametrize(
    ("language", "value", "answer", "holds"),
    [
        ("de", 7, "Es sind sieben.", True),
        ("en", 7, "Es sind sieben.", False),
        ("pt", 1, "um valor entre 0 e 5", False),
        ("de", 37, "Es sind 37,5.", False),
        ("de", 5, "Es sind 2,5.", False),
        ("de", 1500, "Es sind 1.500.", True),
    ],
)
def test_a_number_is_written_as_in_the_language_of_the_question(
    language: str, value: int, answer: str, holds: bool
) -> None:
    assert Check(required=(number(value, language),)).holds(answer) is holds


@pytest.mark.parametrize(
    "answer",
    ["Nein, es gibt keine.", "No, no existe.", "Non, il n'y en a pas.", "没有。", "Não há."],
)
def test_no_is_said_in_other_languages(answer: str) -> None:
    assert grade("absence", ask(), "answered", answer).verdict == "right"
    assert grade("absence", ask(), "answered", "ja, in foo.py").verdict == "wrong"


def test_a_number_is_written_with_points_and_commas_too() -> None:
    assert Check(required=(number(2_500_000),)).holds("2.500.000 Bytes")
    assert Check(required=(number(2.5),)).holds("2,5 Sekunden")


def test_evidence_is_found_however_a_prompt_writes_it() -> None:
    wire = Wire()
    code = 'if (name == "x")\n\treturn  5;'
    result = json.dumps({"main.c": [code]})
    body = {"messages": [{"role": "user", "content": f"Found:\n{json.dumps(result)}"}]}
    wire.record(json.dumps(body).encode())
    assert wire.saw([('if (name == "x")',), ("nowhere", "return 5;")])
    assert not wire.saw([("return 5;",), ("return 6;",)])
    assert wire.saw([]) is None
    numbered = {"messages": [{"role": "user", "content": "a.py\n7: one line and\n8:   the next"}]}
    wire.record(json.dumps(numbered).encode())
    assert wire.saw([("one line and the next",)])
    wire.clear()
    assert not wire.saw([("return 5;",)])


@pytest.mark.anyio
async def test_what_a_model_reads_is_taken_down_on_its_way(ollama: ScriptedOllama) -> None:
    ollama.expect("seven")
    async with recording(ollama.url) as wire, OllamaClient(wire.host) as client:
        model = OllamaModel(FULL, client, context_tokens=8192)
        reply = await model.chat(
            ChatRequest([{"role": "user", "content": "limit = 7"}], max_tokens=5)
        )
    assert reply.text == "seven"
    assert wire.saw([("limit = 7",)])
    assert not wire.saw([("limit = 8",)])


@pytest.mark.anyio
async def test_a_request_that_its_client_gives_up_before_the_reply_is_given_up() -> None:
    """Else the model server computes on, and holds up what is asked next."""
    asked, gone = anyio.Event(), anyio.Event()

    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            asked.set()
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    await stream.receive()
            gone.set()

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(SocketAttribute.local_port)
        async with (
            recording(f"127.0.0.1:{port}") as wire,
            httpx.AsyncClient(trust_env=False) as client,
        ):
            async with anyio.create_task_group() as asking:
                asking.start_soon(client.post, f"http://{wire.host}/api/chat")
                with anyio.fail_after(LONG):
                    await asked.wait()
                asking.cancel_scope.cancel()
            with anyio.fail_after(LONG):
                await gone.wait()
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["office", "depot"])
async def test_lists_are_served_as_they_are_and_are_tables(name: str) -> None:
    folder = LISTS / name
    async with Client(build_server(folder)) as client:
        tools = await client.list_tools()
        assert [tool.name for tool in tools] == sorted(f"list_{f.stem}" for f in folder.iterdir())
        assert not any(tool.input_schema["properties"] for tool in tools)
        for file in folder.iterdir():
            [content] = (await client.call_tool(f"list_{file.stem}")).content
            assert content.text == file.read_text("utf-8")
            assert tables.table("it", content.text)


@pytest.mark.anyio
async def test_the_recorded_context7_looks_and_answers_as_the_real_one() -> None:
    listed = json.loads(SCHEMAS.read_text("utf-8"))
    transport = StdioTransport(sys.executable, [str(RECORDED)], keep_alive=False)
    async with Client(transport) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        for each in listed:
            tool = tools.pop(each["name"])
            assert tool.input_schema == each["inputSchema"]
            assert tool.description == each["description"]
            assert tool.annotations
            assert (
                tool.annotations.model_dump(by_alias=True, exclude_none=True)
                == (each["annotations"])
            )
        assert not tools

        async def ask(tool: str, **arguments: str) -> str:
            result = await client.call_tool(tool, {"query": "body limit"} | arguments)
            return "".join(block.text for block in result.content if block.type == "text")

        found = await ask("resolve-library-id", libraryName="fastify")
        assert found.startswith("Available Libraries:\n\n- Title: Fastify\n")
        assert "- Context7-compatible library ID: /fastify/fastify\n" in found
        assert "No libraries" in await ask("resolve-library-id", libraryName="zzzzzz")
        docs = await ask("query-docs", libraryId="/fastify/fastify")
        assert docs.startswith("### bodyLimit\n\nSource: https://github.com/fastify/fastify/")
        assert "library ID" in await ask("query-docs", libraryId="/no/where")


def test_the_recorded_documentation_is_small_and_says_its_licences() -> None:
    assert RECORDED.with_suffix(".json").stat().st_size < 300_000
    assert {each["licence"] for each in LIBRARIES} <= {
        *("MIT", "BSD-2-Clause", "BSD-3-Clause", "MIT OR Apache-2.0"),
    }


def test_documentation_is_split_at_headings() -> None:
    text = f"# A\n\n## `b(c)`\n\n{'x ' * 40}\n\n```sh\n# no heading\n```\n## D\nshort"
    ((title, snippet),) = recorded_snippets(text)
    assert title == "b(c)"
    assert "# no heading" in snippet


def test_results_that_are_not_there_are_told_and_nothing_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "nope.json"
    done = CliRunner().invoke(app, ["--resume", str(file)], terminal_width=200)
    assert done.exit_code == 2
    assert "does not exist" in re.sub(r"[\s│]+", " ", done.stderr)  # whatever its width


def test_a_run_knows_what_is_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that one with other changes is not taken for it."""
    monkeypatch.setattr(main, "ROOT", tmp_path)
    bench = Bench(ModelSettings(), shipped_file(), {}, tmp_path, 120.0)
    who = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    (file := tmp_path / "a.py").write_text("a = 1")
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    commits = []
    for text in ("a = 1", "a = 2", "a = 3"):
        file.write_text(text)
        commits.append(main.about(bench, None)["commit"])
    assert len(set(commits)) == 3
    assert [commit.startswith(commits[0]) for commit in commits] == [True] * 3


def test_results_survive_a_file_and_make_a_table(tmp_path: Path) -> None:
    (case,) = (each for each in lookups("dev") if each.id.endswith("generated/count-1"))
    ledger = Ledger()
    ledger.add(prompt=100, cached=40, generated=7)
    ledger.add(prompt=100, cached=0, generated=3)
    results = Results(about={"full": "model"})
    for system, verdict in (("planloom", "right"), ("native", "wrong")):
        for text in ("How many?", "What number?"):
            results.records.append(
                Record.model_validate(
                    {
                        **{"system": system, "id": case.id, "family": "lookup", "split": "dev"},
                        **{"kind": "count", "language": "en", "place": case.place, "text": text},
                        **{"expected": case.expected, "verdict": verdict, "share": 0.5, "why": ""},
                        **{"seen": system == "planloom", "status": "answered", "answer": "37"},
                        **{"seconds": 2.0, "ledger": ledger},
                    }
                )
            )
    results.save(path := tmp_path / "run.json")
    loaded = Results.load(path)
    assert loaded == results
    assert loaded.has("native", case, "How many?")
    assert not loaded.has("retrieve", case, "How many?")
    assert not loaded.has("native", case, "another?")
    assert not loaded.has("native", case.model_copy(update={"expected": "38"}), "How many?")
    again = loaded.records[0].model_copy(update={"expected": "38"})
    results.add(again)  # in place of what was asked when another answer was right
    assert len(results.records) == len(loaded.records)
    assert again in results.records
    loaded.go_on({"full": "model", "date": "another day"})
    with pytest.raises(PlanloomError, match="full model and not another"):
        loaded.go_on({"full": "another"})
    shown = table(loaded)
    assert (
        "| lookup | planloom | 2 | 2 (100%) | 0 (0%) | 0 (0%) | 50% | 2 (100%) | 1 (100%) | 2.0 "
        "| 2.0 | 2.0 | 0.0 | 200 | 160 | 10 |" in shown
    )
    assert "| lookup, count | 2/2 | 0/2 |" in shown
