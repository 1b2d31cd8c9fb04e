"""What the operator's environment holds in secret comes out nowhere."""

import base64
import json
import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import anyio
import pytest
from fastmcp import Client
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from paths import SUPPORT
from replies import conclusion
from scripted_ollama import ScriptedOllama
from serving import Place, served, text

from planner import agent
from server import auth
from server.app import build
from server.config import UpstreamSettings
from server.upstreams.redaction import Redactor
from server.variables import HIDDEN

pytestmark = pytest.mark.anyio

LEAKY = SUPPORT / "leaky_upstream.py"
ENDS = "import os, sys; sys.exit(f'cannot start with {os.environ}')"
DATABASE_PASSWORD = "Pa55-of-the-database"
PLANTED = {
    "PLANTED_TOKEN": "tok-7f3a9c1e5b2d8f60-planted",
    "PLANTED_PASSWORD": "hunter2!",
    "PLANTED_PASSPHRASE": "correct horse battery 9",
    "PLANTED_DATABASE": f"postgres://user:{DATABASE_PASSWORD}@db.example/data",
}
NEVER = [*list(PLANTED.values())[:3], DATABASE_PASSWORD]
"""The address of the database is none: it may be shown without its password."""


def leaks(text: str) -> list[str]:
    """The planted values that stand in a text in any spelling, and whole Base64 ones with `user:`
    before them."""
    found = []
    for value in NEVER:
        basic = base64.b64encode(f"user:{value}".encode()).decode()[8:-4]
        spellings = {value, quote(value, safe=""), quote_plus(value), value.encode().hex()}
        spellings |= {json.dumps(value)[1:-1], basic if len(value) > 12 else value}
        found += [spelling for spelling in spellings if spelling in text]
    return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with ScriptedOllama() as ollama:
        place = Place(tmp_path, ollama, variables=PLANTED)
        for name, value in place.environ.items():
            monkeypatch.setenv(name, value)
        env = {name: f"${{{name}}}" for name in PLANTED}
        python = {"command": "${PLANLOOM_PYTHON}", "env": env}
        place.upstreams = {
            "leaky": python | {"args": [str(LEAKY), "--token=${PLANTED_TOKEN}"]},
            "ends": python | {"args": ["-c", ENDS]},
            "remote": {
                "url": "http://127.0.0.1:9/${PLANTED_TOKEN}",
                "headers": {"Authorization": "Bearer ${PLANTED_TOKEN}"},
            },
            "odd": {"url": "ftp://${PLANTED_TOKEN}"},
        }
        yield place
        assert [process.cmdline() for process in place.processes()] == []


def kept(place: Place) -> Iterable[str]:
    """Every file that servers wrote, the upstreams' logs among them."""
    for folder in ("state", "cache", "config"):
        for file in (place.root / folder).rglob("*"):
            if file.is_file():
                yield file.read_bytes().decode("utf-8", "replace")


async def test_no_command_prints_a_secret(place: Place) -> None:
    done = await anyio.to_thread.run_sync(lambda: place.run("doctor"))
    assert "leaky" in done.stdout
    assert HIDDEN in done.stdout
    assert leaks(done.stdout + done.stderr) == []
    assert [leaks(content) for content in kept(place) if leaks(content)] == []


async def test_no_answer_event_or_prompt_holds_a_secret(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ollama = place.ollama
    async with place.client() as caller:
        shown = [text(await caller.call("list_tools"))]
        for tool in ("leak", "structured", "fail", "crash"):
            ollama.expect(conclusion("It said something."))
            result = await caller.call("run_step", prompt="Call it", tool=tool, arguments={})
            assert result.whole
            (action,) = result.whole["actions"]
            said = action["tool_calls"][0]["result"]
            assert HIDDEN in said, said
            shown += [
                str(result.content),
                json.dumps(result.whole, ensure_ascii=False),
            ]
            run_id = result.whole["run_id"]
            shown.append(text(await caller.call("get_run", run_id=run_id, iteration=0)))
        shown += [json.dumps(caller.progress.meta, ensure_ascii=False), *caller.progress.messages]
    shown += [str(request) for request in ollama.requests]
    shown += [record.getMessage() for record in caplog.records]
    assert [each for each in shown if leaks(each)] == []
    assert [leaks(content) for content in kept(place) if leaks(content)] == []


async def test_no_server_logs_a_secret(place: Place) -> None:
    with place.http() as (server, port):
        async with Client(f"http://127.0.0.1:{port}/mcp", auth=place.token) as client:
            for tool in ("leak", "crash"):
                place.ollama.expect(conclusion("It said something."))
                arguments: dict[str, Any] = {"prompt": "Call it", "tool": tool, "arguments": {}}
                result = await client.call_tool("run_step", arguments, raise_on_error=False)
                whole = {"run_id": (result.structured_content or {})["run_id"], "whole": True}
                assert HIDDEN in str(await client.call_tool("get_run", whole))
        server.terminate()
        output, errors = await anyio.to_thread.run_sync(server.communicate)
    assert leaks((output + errors).decode()) == []


async def test_the_last_words_of_an_upstream_are_for_the_operator(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Where others call they go to the log; and no cut leaves half of a secret in them."""
    token = PLANTED["PLANTED_TOKEN"]
    said = f"'x' * 9000 + '{token}' + 'y' * (4096 - {len(token) // 2}) + chr(10)"
    place.upstreams["ends"]["args"] = ["-c", f"import sys; sys.stderr.write({said}); sys.exit(1)"]

    async def told(**options: Any) -> str:
        auth = options.get("auth")
        with served(build(place.settings, **options)) as url:
            async with Client(url, auth="mine-0123456789abcdef" if auth else None) as client:
                found = (await client.call_tool("list_tools")).structured_content
        assert found
        (ends,) = [each for each in found["upstreams"] if each["name"] == "ends"]
        return str(ends["error"])

    to_operator = await told()
    to_others = await told(auth=auth.Tokens(["mine-0123456789abcdef"]))
    assert to_operator.endswith("y" * 4000)
    assert token[-8:] not in to_operator
    assert (to_others, "yyy" in caplog.text) == (
        snapshot("it ended while it started (Connection closed); see its log"),
        True,
    )


async def test_a_fault_of_our_own_tells_no_secret(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError(f"unexpected {' '.join(PLANTED.values())}")

    monkeypatch.setattr(agent, "run", broken)
    async with place.client() as caller:
        result = await caller.call("plan_and_answer", prompt="Anything")
    assert "a fault in Planloom itself (RuntimeError: unexpected ***" in text(result)
    assert "RuntimeError: unexpected ***" in caplog.text
    assert leaks(text(result) + caplog.text) == []


async def test_a_wrong_file_is_told_without_its_secrets(place: Place) -> None:
    place.upstreams["leaky"]["start_timeout_s"] = "${PLANTED_TOKEN}"
    place.upstreams["remote"]["command"] = "${PLANTED_PASSWORD}"
    done = await anyio.to_thread.run_sync(lambda: place.run("tools"))
    assert done.returncode == 2
    assert "leaky.start_timeout_s" in done.stderr
    assert leaks(done.stdout + done.stderr) == []


# What is recognised


def upstream(value: str, name: str = "SOMETHING") -> UpstreamSettings:
    entry = {"command": sys.executable, "env": {name: f"${{{name}}}"}}
    return UpstreamSettings.model_validate(entry, context={name: value})


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("SOMETHING", "abcdefghijklmnop", True),
        ("SOMETHING", "abcdefghijklmno", False),
        ("SOMETHING", "/usr/share/dictionaries", False),
        ("SOMETHING", "C:\\Users\\someone\\things", False),
        ("SOMETHING", "https://example.com/path", False),
        ("SOMETHING", "several words in a row", False),
        ("LOG_LEVEL", "info", False),
        ("API_KEY", "hunter2", True),
        ("DB_PASSWORD", "postgres", False),
        ("PASSPHRASE", "several words in a row", True),
        ("AUTH", "Bearer abcdefghijklmnop", True),
    ],
)
def test_what_is_hidden_in_results(name: str, value: str, hidden: bool) -> None:
    redactor = Redactor([upstream(value, name)])
    for around in ("{}", "say {} here", '"{}"', "x={}&y", "({})"):
        said = around.format(value)
        assert (value in redactor.redact_output(said)) != hidden
    assert value not in Redactor([], upstream(value, name)).redact_message(f"it said {value}.")


def test_a_short_secret_is_not_taken_out_of_longer_words() -> None:
    redactor = Redactor([upstream("key-1", "API_KEY"), upstream("abc-12", "API_KEY")])
    assert redactor.redact_output("monkey-12 abc-123 abc-12") == f"monkey-12 abc-123 {HIDDEN}"


def test_what_one_upstream_was_given_another_does_not_show() -> None:
    mine, others = upstream("a" * 20), upstream("b" * 20)
    assert Redactor([mine, others], mine).redact_output("b" * 20) == HIDDEN


@given(
    secret=st.from_regex(r"[A-Za-z][A-Za-z0-9+/=_.~!-]{15,60}", fullmatch=True),
    before=st.text(st.characters(codec="ascii"), max_size=5),
    after=st.text(st.characters(codec="ascii"), max_size=5),
)
def test_no_spelling_gives_a_token_away(secret: str, before: str, after: str) -> None:
    redactor = Redactor([upstream(secret)])
    whole = before + secret + after
    for spelled in (whole, quote(whole, safe=""), quote(whole), json.dumps(whole)):
        assert secret not in redactor.redact_output(spelled)
        assert quote(secret, safe="") not in redactor.redact_output(spelled)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        hidden = redactor.redact_output(encode(whole.encode()).decode())
        assert HIDDEN in hidden
        left = sum(len(part) for part in hidden.split(HIDDEN))
        assert left <= 4 * (len(before) + len(after)) // 3 + 8


@pytest.mark.parametrize(
    ("secret", "spelled"),
    [
        ("/Jalr7K7MDENGbPxRfiCYEXAMPLEKEYab", "/Jalr7K7MDENGbPxRfiCYEXAMPLEKEYab"),
        ("s3cr!t(pw)*/9xyzABCD/efg", "s3cr!t(pw)*%2F9xyzABCD%2Fefg"),
        ("p&ss<w>rd-1234567890", "p\\u0026ss\\u003cw\\u003erd-1234567890"),
        ("abcdef/ghij+klmno1234==", "abcdef%2fghij%2bklmno1234%3d%3d"),
        ("abcdef/ghij+klmno1234==", "abcdef\\/ghij+klmno1234=="),
        ("the first line\nand 2 more", "the first line\r\nand 2 more"),
    ],
)
def test_spellings_of_other_languages(secret: str, spelled: str) -> None:
    redactor = Redactor([upstream(secret, "API_KEY")])
    assert redactor.redact_output(f"It is {spelled}.") == f"It is {HIDDEN}."


def test_a_path_is_no_secret_whatever_its_name() -> None:
    redactor = Redactor([upstream("/home/me/keys/id.pem", "KEY_FILE")])
    assert redactor.redact_output("in /home/me/keys/id.pem") == "in /home/me/keys/id.pem"
