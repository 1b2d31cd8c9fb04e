"""The command line as a person uses it: output, errors, exit codes, and what is left behind."""
# ruff: noqa: E501  texts stand as they are shown

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from ollama_replies import Hang
from planted import ANSWER, CLASS, QUESTION
from replies import conclusion, found, nowhere, plan
from scripted_ollama import FAST, FULL, ScriptedOllama
from serving import (
    FILES_LISTED,
    LONG,
    Place,
    SharedUpstream,
    end,
    normalised,
    upstream,
    wait_until,
)

from server.cli import commands as cli
from server.cli.doctor import do_without
from server.config_file import load_settings, shipped_file

MainHere = Callable[..., tuple[Any, str, str]]


@pytest.fixture
def place(tmp_path: Path, ollama: ScriptedOllama) -> Iterator[Place]:
    place = Place(tmp_path, ollama)
    yield place
    wait_until(lambda: not place.processes())


@pytest.fixture
def quick(tmp_path: Path, ollama: ScriptedOllama, shared_upstream: SharedUpstream) -> Place:
    """A place without an upstream process of its own."""
    return Place(tmp_path, ollama, shared=shared_upstream)


@pytest.fixture
def main_here(
    quick: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> MainHere:
    """Run the console script in this process: its exit code, output and errors."""

    def run(*command: str, **environ: str) -> tuple[Any, str, str]:
        for name, value in (quick.environ | environ).items():
            monkeypatch.setenv(name, value)
        for name in ("ENABLE_RICH_LOGGING", "CHECK_FOR_UPDATES", "LOG_LEVEL"):
            monkeypatch.setenv(f"FASTMCP_{name}", "WARNING")
        monkeypatch.setattr(sys, "argv", list(command[2:]))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output, errors = capfd.readouterr()
        errors = errors.replace(str(quick.root), "ROOT").replace(quick.ollama.url, "URL")
        return ended.value.code, output, errors

    return run


def told(done: subprocess.CompletedProcess[str], place: Place) -> str:
    """Standard error, without what differs from machine to machine."""
    return done.stderr.replace(str(place.root), "ROOT").replace(place.ollama.url, "URL")


# ask


def test_ask_prints_the_answer_and_progress_beside_it(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(found(ANSWER), contains=[f"class {CLASS}"])
    done = place.run("ask", QUESTION)
    assert done.returncode == 0
    assert normalised(done.stdout) == snapshot("""\
`VeryUniqueClassName_Phoenix_2025_QW3RTY` is defined in jobs/secret.py, line 6.

### Evidence

1. `VeryUniqueClassName_Phoenix_2025_QW3RTY`, `jobs/secret.py`, `6`: `jobs/secret.py:6`, step 0 (gathering), `search`
   ```text
   class VeryUniqueClassName_Phoenix_2025_QW3RTY:
   ```
2. `VeryUniqueClassName_Phoenix_2025_QW3RTY`, `jobs/secret.py`: `jobs/secret.py:11-12`, step 0 (gathering), `search`
   ```text
   return VeryUniqueClassName_Phoenix_2025_QW3RTY().run()
   ```

_Run RUN: 0.0 s in all_
""")
    assert normalised(done.stderr) == snapshot("""\
   0.0 s  Started with 6 read-only tools
   0.0 s  qwen2.5-coder:1.5b read the request (N tokens in, N out, 0 s)
   0.0 s  looking for value
   0.0 s  Next is search: find VeryUniqueClassName_Phoenix_2025_QW3RTY, value, which
   0.0 s  search VeryUniqueClassName_Phoenix_2025_QW3RTY, value, which
   0.0 s  search returned 5 lines in 0.0 s
   0.0 s  found 4 passages: jobs/secret.py:6, jobs/secret.py:11-12, jobs/secret.py:3, jobs/secret.py:8
   0.0 s  qwen2.5-coder:1.5b tried the answer (N tokens in, N out, 0.0 s)
   0.0 s  qwen2.5-coder:1.5b read the results again (N tokens in, N out, 0.0 s)
   0.0 s  Finished: answered
""")


def test_ask_prints_the_report_as_json(quick: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(nowhere())
    ollama.expect(plan("say"))
    ollama.expect({"text": "hello"})
    ollama.expect(nowhere())
    ollama.expect(conclusion("It is not there.", success=False))
    done = quick.run("ask", "--json", "--iterations", "3", QUESTION)
    assert done.returncode == 0  # an honest "not found" is an answer
    report = json.loads(done.stdout)
    assert (report["status"], report["answer"]) == ("not_found", "It is not there.")
    assert "Finished: not found" in done.stderr


@pytest.mark.parametrize("as_json", [True, False])
def test_ask_puts_the_answer_into_the_schema_of_a_file(
    quick: Place, main_here: MainHere, ollama: ScriptedOllama, as_json: bool
) -> None:
    file = quick.root / "schema.json"
    file.write_text('{"type": "array", "items": {"type": "string"}}')
    ollama.expect(found(ANSWER))
    ollama.expect({"data": ["jobs/secret.py"]})
    words = ["ask", QUESTION, "--schema", str(file), *(["--json"] if as_json else [])]
    code, output, _ = main_here(*quick.command(*words))
    assert code == 0
    if as_json:
        assert json.loads(output)["data"] == ["jobs/secret.py"]
    else:
        assert f'{ANSWER}\n\n```json\n[\n  "jobs/secret.py"\n]\n```' in output


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            None,
            snapshot(
                "planloom: ROOT/schema.json: cannot be read: No such file or directory; name a readable file\n"
            ),
        ),
        (
            "{'type': 'string'}",
            snapshot(
                "planloom: --schema ROOT/schema.json: this is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1); correct it\n"
            ),
        ),
        (
            '["string"]',
            snapshot(
                "planloom: --schema ROOT/schema.json: a JSON Schema is an object; write one\n"
            ),
        ),
        (
            '{"type": "text"}',
            snapshot(
                "planloom: data_schema: it is not a JSON Schema: type: 'text' is not valid under any of the given schemas. Correct it, or leave it out.\n"
            ),
        ),
    ],
)
def test_a_wrong_schema_file_is_told_in_one_line(
    quick: Place, main_here: MainHere, text: str | None, line: str
) -> None:
    file = quick.root / "schema.json"
    if text is not None:
        file.write_text(text)
    assert main_here(*quick.command("ask", "a", "--schema", str(file))) == (2, "", line)


def test_ask_without_a_model_says_what_to_do(quick: Place) -> None:
    done = quick.run("ask", QUESTION, OLLAMA_HOST="127.0.0.1:1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == snapshot(
        "planloom: Ollama does not answer at http://127.0.0.1:1; start it with `ollama serve`, or set OLLAMA_HOST to the address where it listens.\n"
    )


# Wrong input


@pytest.mark.parametrize(
    ("words", "environ", "line"),
    [
        (
            ["ask", "a"],
            {"PLANLOOM_BACKEND": "olama"},
            snapshot(
                "planloom: PLANLOOM_BACKEND: should be 'auto', 'ollama', 'openai' or 'embedded'; correct the value\n"
            ),
        ),
        (
            ["serve", "--http", "nonsense"],
            {},
            snapshot(
                "planloom: --http nonsense: should be HOST:PORT, for example 127.0.0.1:8000\n"
            ),
        ),
        (
            ["serve", "--http", "127.0.0.1:99999"],
            {},
            snapshot(
                "planloom: --http 127.0.0.1:99999: should be HOST:PORT, for example 127.0.0.1:8000\n"
            ),
        ),
        (
            ["serve", "--http", "0.0.0.0:8000"],
            {},
            snapshot(
                "planloom: --http 0.0.0.0: other machines can reach this address, so callers need a token of your own. Set PLANLOOM_TOKEN (for example to what `openssl rand -hex 32` prints) or PLANLOOM_AUTH=module:name of a FastMCP auth provider, or serve on 127.0.0.1\n"
            ),
        ),
    ],
)
def test_wrong_words_are_told_in_one_line(
    quick: Place, main_here: MainHere, words: list[str], environ: dict[str, str], line: str
) -> None:
    assert main_here(*quick.command(*words), **environ) == (2, "", line)


def test_a_wrong_address_is_told_before_what_cannot_be_imported_with_it(quick: Place) -> None:
    done = quick.run("ask", "a", OLLAMA_HOST="bad::host::1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == snapshot(
        "planloom: The address of Ollama (OLLAMA_HOST, or `host` under `models`) is not one; write it as `127.0.0.1:11434` or as `http://example.com:11434`.\n"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "upstreams: {files: [}",
            snapshot(
                "planloom: ROOT/wrong.yaml:1: this is not YAML: expected the node content, but found '}'; correct that line\n"
            ),
        ),
        (
            "upstreams: {files: {comand: ls}}",
            snapshot(
                "planloom: ROOT/wrong.yaml:1: upstreams.files.comand: unknown key `comand`; did you mean `command`?\n"
            ),
        ),
        (
            "upstreams: {files: {command: ls, args: ['${NO_SUCH_VARIABLE}']}}",
            snapshot(
                "planloom: ROOT/wrong.yaml:1: upstreams.files.args.0: the variable NO_SUCH_VARIABLE is not set; set it, or write ${NO_SUCH_VARIABLE:-default}\n"
            ),
        ),
        (
            None,
            snapshot(
                "planloom: ROOT/wrong.yaml: cannot be read: No such file or directory; name a readable file\n"
            ),
        ),
    ],
)
@pytest.mark.parametrize("command", ["ask", "serve"])
def test_wrong_files_are_told_in_one_line(
    quick: Place, main_here: MainHere, command: str, text: str | None, line: str
) -> None:
    file = quick.root / "wrong.yaml"
    if text is not None:
        file.write_text(text)
    words = [command, *(["a"] if command == "ask" else [])]
    assert main_here(*quick.command(*words)[:-1], str(file)) == (2, "", line)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["ask"], snapshot("Error: Missing argument 'QUESTION'.\n")),
        (
            ["ask", "  "],
            snapshot(
                "Error: Invalid value for QUESTION: the question is empty; write one in quotes\n"
            ),
        ),
        (
            ["ask", "a", "--iterations", "0"],
            snapshot(
                "Error: Invalid value for '--iterations': should be greater than or equal to 1\n"
            ),
        ),
        (
            ["ask", "a", "--policy", "all"],
            snapshot(
                "Error: Invalid value for '--policy': 'all' is not one of 'read_only', 'ask', 'allow'.\n"
            ),
        ),
        (
            ["ask", "x", "--seconds", "100000"],
            snapshot(
                "Error: Invalid value for '--seconds': should be less than or equal to 86400\n"
            ),
        ),
        (
            ["runs", "--most", "999999999999999999999"],
            snapshot(
                "Error: Invalid value for '--most': should be less than or equal to 1000000\n"
            ),
        ),
        (
            ["ask", "x", "--model", ",x"],
            snapshot("Error: Invalid value for --model: name one model, or two as FAST,FULL\n"),
        ),
        (["serv"], snapshot("Error: No such command 'serv'. Did you mean 'serve'?\n")),
    ],
)
def test_wrong_options_are_told_in_one_line(
    quick: Place, main_here: MainHere, words: list[str], line: str
) -> None:
    code, output, errors = main_here(*quick.command(*words))
    assert (code, output) == (2, "")
    assert errors.rpartition("\n\n")[2] == line


def test_serve_on_a_terminal_says_what_it_waits_for(quick: Place) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb", buffering=0) as keyboard:
        serving = quick.popen_on({"stdin": theirs}, "serve")
        os.close(theirs)
        try:
            keyboard.write(b"\x04")  # the end of input
            output, errors = serving.communicate(timeout=LONG)
        finally:
            end(serving)
    assert output == b""
    assert errors.startswith(b"planloom: waiting for an MCP client")


@pytest.mark.parametrize("words", [["serve"], ["ask", "-"]])
def test_a_closed_standard_input_is_an_empty_one(quick: Place, words: list[str]) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *quick.command(*words)],
        env={**os.environ, **quick.environ},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if words == ["serve"] else 2)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("a..b:8000", "the host a..b is not found; correct its name"),
        ("127.0.0.1:²", "should be HOST:PORT, for example 127.0.0.1:8000"),
    ],
)
def test_an_address_that_cannot_be_is_told(
    quick: Place, main_here: MainHere, address: str, told: str
) -> None:
    command = quick.command("serve", "--http", address)
    code, _, errors = main_here(*command, PLANLOOM_TOKEN="a-token-0123456789abcdef")
    assert (code, errors) == (2, f"planloom: --http {address}: {told}\n")


def test_a_port_in_use_is_told_in_one_line(quick: Place) -> None:
    port = quick.ollama.host.rpartition(":")[2]
    done = quick.run("serve", "--http", f"127.0.0.1:{port}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.replace(port, "PORT") == snapshot(
        "planloom: --http 127.0.0.1:PORT: cannot listen there (Address already in use); choose another port\n"
    )


# tools and doctor


def test_tools(place: Place) -> None:
    place.upstreams |= {"exits": upstream(mode="exits"), "resting": upstream(enabled=False)}
    done = place.run("tools")
    assert done.returncode == 1  # one of them is not ready
    assert told(done, place) == ""
    upstreams, _, tools = done.stdout.partition("### Tools\n\n")
    assert tools == f"{FILES_LISTED}\n"
    assert upstreams.replace(str(place.root), "ROOT") == snapshot("""\
### Upstreams

- files: ready, 8 tools, 8 new and pinned
- exits: failed: it ended while it started (Connection closed); see its log
  The end of ROOT/cache/planloom/logs/exits.log:
  cannot start with None
- resting: disabled: it is switched off; set `enabled: true`

""")


def test_doctor_finds_nothing_to_mend(place: Place) -> None:
    done = place.run("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert all(line.startswith("ok  ") for line in lines[:-1])
    assert lines[-1] == "Nothing to fix."


def test_doctor_says_how_to_mend(place: Place) -> None:
    exits = upstream(mode="exits", env={"TOKEN": "${NOT_SET:-}"})
    place.upstreams |= {"broken": {"command": "no-such-command"}, "exits": exits}
    with ScriptedOllama(models=[FAST]) as ollama:
        place.ollama = ollama
        done = place.run("doctor", PLANLOOM_FAST_MODEL=FAST)
    assert (done.returncode, done.stderr) == (1, "")
    shown = done.stdout.replace(str(place.root), "ROOT").replace(ollama.url, "URL")
    assert "\n".join(shown.splitlines()[3:]) == snapshot("""\
ok  upstreams file: ROOT/upstreams.yaml
ok  variables not set: NOT_SET; an upstream that needs one says so
ok  ollama: 0.40.3 at URL
ok  model qwen2.5-coder:0.5b: there
FIX model qwen2.5-coder:1.5b: missing
      Run: ollama pull qwen2.5-coder:1.5b
ok  upstream files: ready, 8 tools, 6 of them read-only; 8 seen for the first time, now pinned
FIX upstream broken: no-such-command: No such file or directory; install it, or correct `command` or `cwd`
      Correct it, or set `enabled: false` for broken in ROOT/upstreams.yaml
FIX upstream exits: it ended while it started (Connection closed); see its log
      The end of ROOT/cache/planloom/logs/exits.log:
      cannot start with None
      Correct it, or set `enabled: false` for exits in ROOT/upstreams.yaml
To fix: 3\
""")
    assert f"ollama pull {FULL}" in shown


def test_doctor_names_both_ways_where_no_model_answers(
    quick: Place, main_here: MainHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.cli.doctor.embedded_installed", lambda: False)
    dead = {"PLANLOOM_BACKEND": "auto", "OLLAMA_HOST": "127.0.0.1:1"}
    code, output, _ = main_here(*quick.command("doctor"), **dead)
    assert code == 1
    (said,) = re.findall("^FIX .*\n.*", output, re.MULTILINE)
    assert " ".join(said.split()) == (
        "FIX ollama: does not answer at http://127.0.0.1:1 Run: ollama serve (or set OLLAMA_HOST). "
        "Without Ollama, install the embedded models: pipx install --force '.[embedded]', in a "
        "checkout of Planloom"
    )


def test_nobody_is_told_to_edit_the_shipped_file(place: Place) -> None:
    shipped = load_settings(shipped_file(), place.project, place.environ)
    assert do_without("serena", shipped) == (
        "Correct it, or write an upstreams file of your own (planloom init) and set "
        "`enabled: false` for serena there"
    )
    assert do_without("files", place.settings).endswith(f"for files in {place.file}")


# The end


@pytest.mark.parametrize("words", [["runs"], ["ask", QUESTION]])
def test_output_that_a_full_disk_does_not_take_is_told(
    place: Place, ollama: ScriptedOllama, words: list[str]
) -> None:
    if words[0] == "ask":
        ollama.expect(found(ANSWER))
    with Path("/dev/full").open("w") as full:
        process = place.popen_on({"stdout": full.fileno()}, *words)
        _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 2
    last = errors.decode().splitlines()[-1]
    assert last == "planloom: No space left on device; free some space, or write elsewhere"
    assert b"Traceback" not in errors


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, None])
def test_serve_on_stdio_ends_with_everything_it_started(
    place: Place, ollama: ScriptedOllama, how: signal.Signals | None
) -> None:
    kind = "stubborn" if how is signal.SIGTERM else "plain"  # waiting for it takes seconds
    place.upstreams = {"other": upstream(mode=kind), "forks": upstream(mode="forks")}
    server = place.popen("serve")
    try:
        assert server.stdin
        assert server.stdout
        ollama.expect(Hang())
        ask(server, "plan_and_answer", prompt=QUESTION)  # answered by nobody
        wait_until(lambda: bool(ollama.requests))
        wait_until(lambda: len(place.processes()) == 6)  # its reapers, and what `forks` started
        if how is None:
            server.stdin.close()
            server.stdin = None
        else:
            server.send_signal(how)
        _, errors = server.communicate(timeout=LONG)
    finally:
        end(server)
    assert server.returncode == (0 if how is None else 128 + how)
    assert b"Traceback" not in errors, errors.decode()
    assert ollama.requests[0].hung_up.wait(LONG)
    assert place.processes() == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_serve_over_http_ends_with_everything_it_started(place: Place, how: signal.Signals) -> None:
    place.upstreams = {"forks": upstream(mode="forks")}
    with place.http() as (server, _):
        wait_until(lambda: len(place.processes()) == 5)  # as above
        server.send_signal(how)
        _, errors = server.communicate(timeout=LONG)
    assert server.returncode == (130 if how is signal.SIGINT else -how)
    assert b"Traceback" not in errors, errors.decode()
    assert errors.endswith(b"`planloom token` prints it.\n")
    assert place.processes() == []


def ask(server: subprocess.Popen[bytes], tool: str, **arguments: Any) -> None:
    """Call a tool over stdio, and do not wait for the answer."""
    client = {"name": "test", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    call = {"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}
    assert server.stdin
    for message in (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ):
        server.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
    server.stdin.flush()
