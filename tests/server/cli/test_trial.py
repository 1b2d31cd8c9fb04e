"""`planloom try`: models are measured on questions of its own, and the best ones written down."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator

import forked
import pytest
import yaml
from client_files import Run, put
from ollama_replies import Hang, Reply
from scripted_ollama import FAST, FULL, Request, ScriptedOllama
from serving import LONG, Place, end, free_port, wait_until
from trial_model import ANSWERS, SCRIPT, measured, right

from server.cli.trial.project import FILES, QUESTIONS, Question
from server.cli.trial.results import Measurement, best
from server.config_file import shipped_file


def replies(request: Request) -> Reply:
    """The full model finds everything, the fast one says the same about everything."""
    return right(request, ANSWERS[0] if request.model == FAST else None)


@pytest.fixture
def ollama() -> Iterator[ScriptedOllama]:
    with ScriptedOllama(handler=replies) as ollama:
        yield ollama


def tried(place: Place, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return place.run_alone("try", *words, **environ)


def test_the_models_are_measured_and_the_better_one_is_written_down(place: Place) -> None:
    file = place.root / "mine.yaml"
    file.write_bytes(b"# Mine.\r\nmodels:\r\n  full: none:1b  # small\r\nupstreams: {}\r\n")
    done = tried(place, FAST, FULL, "--write", "--upstreams", str(file))
    assert done.returncode == 0, done.stderr
    rows = measured(done.stdout)
    assert rows[FULL] == ["12", "0", "0"]
    right, wrong, honest = map(int, rows[FAST])
    assert right < 4
    assert right + wrong + honest == 12
    assert file.read_bytes().decode() == (
        f"# Mine.\r\nmodels:\r\n  full: {FULL} # small\r\n  fast: {FULL}\r\nupstreams: {{}}\r\n"
    )


@pytest.mark.parametrize(
    ("words", "names"), [([], {FAST, FULL}), ([f"{FAST},{FULL}"], {f"{FAST},{FULL}"})]
)
def test_all_models_or_a_pair_are_measured(
    words: list[str], names: set[str], place: Place, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setattr("server.cli.trial.run.QUESTIONS", QUESTIONS[:2])
    monkeypatch.setenv("COLUMNS", "40")  # of no concern where there is no terminal
    # Of two that are equally right the quicker is the best, so there is no pair to try.
    with ScriptedOllama(handler=right) as place.ollama:
        monkeypatch.setenv("OLLAMA_HOST", place.ollama.host)
        code, output, errors = run("try", *words)
    assert code == 0, errors
    assert measured(output).keys() == names
    head = output.strip().splitlines()[0]
    assert [cell.strip() for cell in head.strip("|").split("|")] == [
        "model, or fast,full",
        "right",
        "wrong and sure",
        "honest",
        "median seconds",
        "memory",
    ]
    assert "…" not in output


def test_a_slow_model_is_asked_as_long_as_there_is_time_and_still_counts(place: Place) -> None:
    def asked(request: Request) -> Reply:
        return Hang() if QUESTIONS[0].text not in request.prompt else right(request)

    with ScriptedOllama(handler=asked) as place.ollama:
        done = tried(place, FULL, "--minutes", "0.1")
    assert done.returncode == 0, done.stderr
    count = sum(map(int, measured(done.stdout)[FULL]))
    assert 1 <= count < 12
    assert f"{FULL} was asked {count} of 12 questions in its time" in done.stderr
    assert f"Best: {FULL} (" in done.stdout


def test_what_cannot_be_measured_is_said_at_once(place: Place) -> None:
    done = tried(place, FAST, "none:1b", f"other:2b,{FULL}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "planloom: Ollama does not have none:1b, other:2b; run `ollama pull none:1b`, "
        f"`ollama pull other:2b`. It has: {FAST}, {FULL}\n"
    )
    done = tried(place, OLLAMA_HOST=f"127.0.0.1:{free_port()}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "planloom: Ollama does not answer at http://127.0.0.1:" in done.stderr
    assert "`ollama serve`" in done.stderr


@pytest.mark.parametrize(
    ("stop", "shell", "before"),
    [
        (signal.SIGINT, [], [FAST]),
        # What a script starts with `&` ignores Ctrl-C.
        (signal.SIGTERM, ["sh", "-c", 'trap "" INT && exec "$@"', "sh"], []),
    ],
)
def test_an_interrupted_trial_shows_what_it_has(
    stop: signal.Signals, shell: list[str], before: list[str], place: Place
) -> None:
    def hangs(request: Request) -> bool:
        return request.model == FULL and QUESTIONS[2].text in request.prompt

    def asked(request: Request) -> Reply:
        return Hang() if hangs(request) else right(request)

    with ScriptedOllama(handler=asked) as ollama:
        place.ollama = ollama
        start: type[subprocess.Popen[bytes]] = subprocess.Popen if shell else forked.Process
        trying = start(
            [*shell, sys.executable, "-m", "server.cli", "try", *before, FULL],
            env={**os.environ, **place.environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            wait_until(lambda: any(map(hangs, ollama.requests)))
            trying.send_signal(stop)
            output, errors = trying.communicate(timeout=LONG)
        finally:
            end(trying)
    assert trying.returncode == 130
    rows = measured(output.decode())
    assert rows == {each: ["12", "0", "0"] for each in before} | {FULL: ["2", "0", "0"]}
    assert [each in output.decode() for each in ("Best: ", f"Best: {FAST} (")] == [bool(before)] * 2
    assert f"{FULL} stopped after 2 of 12 questions: it was interrupted" in errors.decode()
    assert f"{FULL} 2/12 right, " in errors.decode()
    assert b"Traceback" not in errors
    assert list(measured(tried(place, "--last").stdout)) == before


def test_the_doctor_knows_a_better_model_that_was_measured(place: Place) -> None:
    state = place.root / "state" / "planloom"
    state.mkdir(parents=True)
    results = [
        measure(FAST, 3, seconds=1.0).model_dump(),
        measure(FULL, 11, seconds=4.0).model_dump(),
    ]
    (state / "trial.json").write_text(json.dumps({"measured": results}))
    done = place.run("doctor", PLANLOOM_FAST_MODEL=FAST, PLANLOOM_FULL_MODEL=FAST)
    assert done.returncode == 0
    assert (
        f"TIP models measured: {FAST}, in use: 3 of 12 right, 9 wrong and sure, 1.0 s\n"
        f"      {FULL}: 11 of 12 right, 1 wrong and sure, 4.0 s. "
        f"To use it: planloom try --last --write --upstreams {place.file}\n"
    ) in done.stdout
    done = place.run("doctor")
    assert f"ok  models measured: {FULL}, in use: 11 of 12 right" in done.stdout


def test_without_results_there_is_nothing_to_show(place: Place) -> None:
    done = tried(place, "--last")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "planloom: Nothing was measured yet; run `planloom try`\n"


def measure(name: str, right: int, seconds: float = 1.0, wrong: int | None = None) -> Measurement:
    wrong = 12 - right if wrong is None else wrong
    honest = 12 - right - wrong
    outcomes = ["right"] * right + ["wrong"] * wrong + ["honest"] * honest
    return Measurement.model_validate(
        {"fast": name, "full": name, "outcomes": outcomes, "seconds": [seconds] * 12}
    )


def test_the_quickest_of_about_the_best_is_taken() -> None:
    slow, quick = measure("slow", 11, 9.0, wrong=0), measure("quick", 10, 2.0, wrong=0)
    assert best([slow, quick]) == quick
    sure = measure("sure", 11, 1.0, wrong=1)
    careful = measure("careful", 11, 5.0, wrong=0)
    assert best([sure, careful]) == sure
    sure, honest = measure("sure", 8, 1.0, wrong=4), measure("honest", 7, 5.0, wrong=0)
    assert best([sure, honest]) == honest
    assert best([]) is None


def test_the_command_to_write_the_best_names_the_file_that_was_given(place: Place) -> None:
    file = put(place.root / "my own.yaml", "upstreams: {}")
    put(place.root / "state/planloom/trial.json", {"measured": [measure(FULL, 11).model_dump()]})
    done = tried(place, "--last", FULL, "--upstreams", str(file), PLANLOOM_FAST_MODEL=FAST)
    command = done.stdout.rpartition("upstreams.yaml: ")[2]
    assert shlex.split(command) == [
        *("planloom", "try", "--last", "--write", "--upstreams", str(file), FULL)
    ]
    done = tried(place, *shlex.split(command)[2:])
    assert yaml.safe_load(file.read_text())["models"] == {"fast": FULL, "full": FULL}


def test_without_an_own_file_the_shipped_one_is_continued(place: Place) -> None:
    state = place.root / "state" / "planloom"
    state.mkdir(parents=True)
    record = {"measured": [measure(FULL, 11).model_dump()]}
    (state / "trial.json").write_text(json.dumps(record))
    assert tried(place, "--last", "--write").returncode == 0
    own = (place.root / "config" / "planloom" / "upstreams.yaml").read_text()
    shipped = shipped_file().read_text("utf-8")
    assert own.startswith(shipped.rstrip("\n"))
    assert yaml.safe_load(own) == yaml.safe_load(shipped) | {"models": {"fast": FULL, "full": FULL}}


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.text[:30])
def test_a_right_answer_stands_in_the_project(question: Question) -> None:
    answer = SCRIPT[question.text]
    status = "answered" if answer else "not_found"
    assert question.outcome(status, answer) == "right"
    assert question.outcome("answered", "It is 17.") == "wrong"
    if question.facts:
        assert question.outcome("not_found", "No line says it.") == "honest"
        alone = [fact for fact in question.facts if re.fullmatch(r"\w+", fact)]
        text = FILES.read_text("utf-8")
        assert all(fact in text for fact in alone)
