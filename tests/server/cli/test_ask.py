"""`planloom ask` as people are used to from other commands: options, pipes, exit codes, links."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from inline_snapshot import snapshot
from ollama_replies import Drop, Hang, HttpError, Reply
from on_terminal import on_terminal
from paths import ROOT
from planted import ANSWER, CLASS, QUESTION
from replies import deed, found
from scripted_ollama import FAST, FULL, ScriptedOllama
from serving import LONG, Place, end, until, wait_until

from server.journal import journal_for
from server.mcp.handshake import ABILITIES

pytestmark = pytest.mark.anyio

SHELL = {"SHELL": "/bin/bash"}


def test_short_help_is_the_help(place: Place) -> None:
    short, whole = place.run("ask", "-h"), place.run("ask", "--help")
    assert short.stdout == whole.stdout
    assert "Exit codes: 0 answered" in " ".join(whole.stdout.split())


@pytest.mark.parametrize("command", [[], ["runs"]])
def test_the_list_of_commands_cuts_no_sentence(command: list[str], place: Place) -> None:
    shown = place.run_alone(*command, "-h")
    assert shown.returncode == 0
    commands = shown.stdout.partition("Commands:\n")[2].splitlines()
    assert len(commands) > 3
    assert all(line.endswith(".") and not line.endswith("...") for line in commands)


def test_the_version_is_told(place: Place) -> None:
    told = place.run_alone("--version")
    assert re.fullmatch(r"planloom \d+\.\d+\.\d+\n", told.stdout)
    assert told.returncode == 0


def test_a_shell_completes_commands(place: Place) -> None:
    typed = {"COMP_WORDS": "planloom do", "COMP_CWORD": "1"}
    asking = {"_PLANLOOM_COMPLETE": "complete_bash"} | typed | SHELL
    program = Path(sys.executable).with_name("planloom")
    done = subprocess.run(
        [program], env={**place.environ, **asking}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["doctor"]


def test_quietly_the_answer_stands_alone(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(found(ANSWER))
    done = place.run("ask", "-q", QUESTION)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{ANSWER}\n"


def test_quietly_an_answer_says_what_it_is_worth(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(deed("notes"))
    done = place.run("ask", "-q", "Delete the notes")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == snapshot("""\
Nothing was changed: this run may only use tools that read.

_Status: refused_
""")


def test_the_cost_comes_after_the_answer_and_when_asked_for(
    place: Place, ollama: ScriptedOllama
) -> None:
    for words in (["ask", QUESTION], ["ask", "-v", QUESTION]):
        ollama.expect(found(ANSWER))
        merged = place.run(*words, merged=True).stdout
        assert ("prompt tokens" in merged) is ("-v" in words)
        if "-v" in words:
            assert merged.index(ANSWER) < merged.index("prefill")
        else:
            assert "prefill" not in merged


@pytest.mark.parametrize(("named", "asked"), [(FAST, {FAST}), (f"{FAST},{FULL}", {FAST, FULL})])
def test_a_model_is_named_on_the_command_line(
    place: Place, ollama: ScriptedOllama, named: str, asked: set[str]
) -> None:
    ollama.expect(found(ANSWER))
    done = place.run("ask", "--model", named, "--json", QUESTION)
    report = json.loads(done.stdout)
    assert {call["model"] for call in report["usage"]["calls"]} == asked


def test_a_question_is_read_from_a_pipe(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(found(ANSWER), contains=[f"{QUESTION}\n"])
    done = place.run("ask", "-", text=QUESTION)
    assert done.stdout.startswith(ANSWER)
    assert place.run("runs").stdout.endswith(f"  {QUESTION}\n")  # and nothing around it


def test_what_is_piped_in_is_what_the_question_is_about(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(ANSWER), contains=[f"Where is this?\n\nIt is about this text:\n\n{CLASS}"])
    done = place.run("ask", "Where is this?", text=f"{CLASS}\n")
    assert done.stdout.startswith(ANSWER)


def test_what_the_locale_has_no_character_for_is_escaped(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(ANSWER))
    asked = f"✓ {QUESTION}"
    place.run("ask", "-q", asked)
    done = place.run("runs", PYTHONIOENCODING="iso-8859-1")
    assert (done.returncode, done.stderr) == (0, "")
    run_id = done.stdout.splitlines()[1].split()[0]
    shown = place.run("runs", "show", run_id, "--transcript", PYTHONIOENCODING="iso-8859-1")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert asked.replace("✓", "\\u2713") in shown.stdout


def test_whoever_reads_the_answer_may_be_gone(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(found(ANSWER))
    report = json.loads(place.run("ask", "--json", QUESTION).stdout)
    for words in (["show", "--json"], ["show"], ["show", "--transcript"]):
        showing = place.popen("runs", *words, report["run_id"], PYTHONUNBUFFERED="")
        assert showing.stdout
        showing.stdout.close()
        _, errors = showing.communicate(timeout=LONG)
        assert (showing.returncode, errors.decode()) == (1, "")


# Exit codes


@pytest.mark.parametrize(
    ("script", "status", "code"),
    [
        ([found(ANSWER)], "answered", 0),
        ([Drop()], "partial", 1),
    ],
)
def test_the_exit_code_says_how_it_ended(
    place: Place, script: list[Reply], status: str, code: int
) -> None:
    with ScriptedOllama(handler=lambda _: HttpError(500, "no")) as ollama:
        for reply in script:
            ollama.expect(reply)
        place.ollama = ollama
        done = place.run("ask", "--json", QUESTION)
    assert (json.loads(done.stdout)["status"], done.returncode) == (status, code)


def test_the_exit_code_says_that_it_was_refused(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(deed("notes"))
    done = place.run("ask", "--json", "Delete the notes")
    assert (json.loads(done.stdout)["status"], done.returncode) == ("refused", 1)


def test_the_exit_code_says_that_it_failed(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(Drop())
    done = place.run("ask", "--json", "What is qqqq?")
    assert (json.loads(done.stdout)["status"], done.returncode) == ("failed", 1)


async def test_the_exit_code_says_that_it_was_cancelled(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(Hang())
    asking = place.popen("ask", "--json", QUESTION)
    try:
        await until(lambda: bool(ollama.requests))
        (run,) = await journal_for(place.settings.runs).list(5)
        async with place.client() as caller:
            await caller.call("cancel_run", run_id=run.id)
        output, _ = await anyio.to_thread.run_sync(asking.communicate)
    finally:
        end(asking)
    assert (json.loads(output)["status"], asking.returncode) == ("cancelled", 1)


def test_an_interrupted_run_says_how_to_go_on_with_it(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(Hang())
    asking = place.popen("ask", QUESTION)
    try:
        wait_until(lambda: bool(ollama.requests))
        asking.send_signal(signal.SIGINT)
        output, errors = asking.communicate(timeout=LONG)
    finally:
        end(asking)
    assert (asking.returncode, output) == (130, b"")
    assert b"Traceback" not in errors, errors.decode()
    assert ollama.requests[0].hung_up.wait(LONG)
    assert place.processes() == []
    (run_id, options) = re.findall(
        r"Interrupted. To continue: planloom runs resume (\w+) (.+)\n", errors.decode()
    )[0]
    assert options == f"--project {place.project} --upstreams {place.root / 'upstreams.yaml'}"
    assert place.run("runs", "show", run_id).stdout.startswith(
        "Interrupted before it ended. "
        f"To continue: `planloom runs resume {run_id[:8]}`; nothing is done twice.\n"
    )
    ollama.expect(found(ANSWER))
    resumed = place.run("runs", "resume", run_id)
    assert resumed.returncode == 0
    assert resumed.stdout.startswith(ANSWER)
    seconds = [float(each) for each in re.findall(r"(?m)^ *(\S+) s  ", resumed.stderr)]
    assert seconds == sorted(seconds)
    assert seconds[0] == 0


# On a terminal


def test_places_are_links_and_code_has_no_background(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(found(ANSWER))
    code, written = on_terminal(place.command("ask", QUESTION), place.environ)
    assert code == 0
    shown = written.decode()
    file = place.project / "jobs" / "secret.py"
    linked = re.findall(r"\x1b\]8;[^;]*;file://[^/]*([^\x1b]*)\x1b\\(.*?)\x1b\]8;;", shown)
    assert (f"{file}#6", "jobs/secret.py:6") in [
        (to, re.sub(r"\x1b\[[^m]*m", "", text)) for to, text in linked
    ]
    assert not re.search(r"\x1b\[(?:\d+;)*(?:4[0-8]|10[0-7])[;m]", shown)


def test_a_run_is_listed_on_one_line(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(found(ANSWER))
    place.run("ask", "-q", f"{QUESTION} And which file uses it, by what name, and for what?")
    _, written = on_terminal(place.command("runs"), place.environ)
    head, *runs = re.sub(r"\x1b\[[^m]*m", "", written.decode()).splitlines()
    assert head.startswith("RUN ")
    assert len(runs) == 1
    assert runs[0].endswith("…")
    told = place.run("runs").stdout.splitlines()[1]
    assert re.match(rf"[0-9a-f]{{8}}  answered  \d+ (?:s|min) ago +{place.project}  What is", told)


def test_without_runs_it_is_said_how_one_begins(place: Place) -> None:
    listed, followed = place.run("runs"), place.run("runs", "--follow")
    said = "No runs yet. Start one with `planloom ask`, or from a client.\n"
    assert (listed.returncode, listed.stdout) == (0, said)
    assert (followed.returncode, followed.stderr) == (2, f"planloom: {said}")


def test_what_the_search_found_is_shown_while_the_model_writes(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(Hang("", json.dumps(found(ANSWER))))

    before = b""

    def seen(written: bytes) -> None:
        nonlocal before
        if not before and b"defines" in written:
            before = written
            ollama.release()

    code, written = on_terminal(place.command("ask", QUESTION), place.environ, seen)
    assert code == 0
    assert b"Found by the search, before the model's answer" in before
    assert b"is defined in" not in before
    assert b"is defined in" in written


# Without Ollama


def test_a_dead_address_is_told_before_other_models_answer(place: Place) -> None:
    done = place.run(
        "ask",
        QUESTION,
        OLLAMA_HOST="127.0.0.1:1",
        PLANLOOM_BACKEND="auto",
        PLANLOOM_FAST_MODEL="none",
    )
    assert done.returncode == 2
    first, *_ = done.stderr.splitlines()
    assert first == (
        "Ollama does not answer at http://127.0.0.1:1 (OLLAMA_HOST): the embedded models answer "
        "instead"
    )


def test_the_help_says_what_to_ask_as_the_guide_does(place: Place) -> None:
    assert ABILITIES in " ".join(place.run("ask", "-h").stdout.split())
    page = (ROOT / "docs" / "ask.md").read_text("utf-8")
    advice = {each.lower() for each in re.findall(r"^\| \*\*(.+?)\*\*:", page, re.MULTILINE)}
    said = re.findall(r"(?:^|\. )([A-Z].*?):", ABILITIES)
    assert advice == {each.removesuffix(" with models of 1.5B parameters").lower() for each in said}
