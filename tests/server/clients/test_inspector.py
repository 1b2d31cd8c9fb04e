"""The command line of the MCP Inspector: every call starts a client, and over stdio a server."""

import json
import os
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import external_file
from ollama_replies import Hang
from planted import ANSWER, CONSTANT, QUESTION, VALUE
from remote_client import PATIENCE, pinned, with_node
from replies import found
from scripted_ollama import ScriptedOllama
from serving import Place, until
from wire import Wire

from benchmarks.clients import OBSERVED, Row

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

OTHER_QUESTION = f"What is {CONSTANT}, and in which file?"
OTHER_ANSWER = f"`{CONSTANT}` is {VALUE}, in jobs/secret.py, line 3."


@dataclass(frozen=True)
class Inspector:
    """The command with a server."""

    home: Path
    before: Sequence[str] = ()
    """Options that say where the server is."""
    after: Sequence[str] = ()
    """Its command."""

    def popen(self, *words: str) -> subprocess.Popen[str]:
        patience = ["--connect-timeout", str(int(PATIENCE * 1000))]
        shown = ["--format", "json", *patience]
        return subprocess.Popen(
            ["mcp-inspector", "--cli", *self.before, *words, *shown, *self.after],
            env=with_node(dict(os.environ)) | {"HOME": str(self.home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> dict[str, Any]:
        """The result that it prints."""
        with self.popen(*words) as process:
            try:
                printed, errors = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        assert printed, errors
        result: dict[str, Any] = json.loads(printed)["result"]
        return result

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        return self.run(*self.calling(tool, **arguments))

    @staticmethod
    def calling(tool: str, /, **arguments: Any) -> list[str]:
        given = json.dumps(arguments)
        return ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", given]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_inspector_calls_the_tools(
    transport: str, place: Place, ollama: ScriptedOllama, tmp_path: Path
) -> None:
    wire = Wire(tmp_path)
    with ExitStack() as stack:
        if transport == "stdio":
            environ = [word for item in place.environ.items() for word in ("-e", "=".join(item))]
            command = wire.tapped(place.entry)
            inspector = Inspector(tmp_path, environ, ["--", *command])
        else:
            _, port = stack.enter_context(place.http())
            url = f"http://127.0.0.1:{stack.enter_context(wire.forwarded(port))}/mcp"
            token = f"Authorization: Bearer {place.token}"
            inspector = Inspector(tmp_path, ["--server-url", url, "--header", token])

        listed = inspector.run("--method", "tools/list")
        assert "plan_and_answer" in {tool["name"] for tool in listed["tools"]}

        ollama.expect(found(ANSWER))
        asking = ["--tool-name", "plan_and_answer", "--tool-arg", f"prompt={QUESTION}"]
        answered = inspector.run("--method", "tools/call", *asking)
        assert answered["structuredContent"]["answer"] == ANSWER
        assert answered["content"][0]["text"].startswith(ANSWER)

        note = {"text": "bring milk"}
        refused = inspector.call("run_step", prompt="Note it", tool="append_note", arguments=note)
        assert refused["isError"]
        assert "this client cannot ask" in refused["content"][0]["text"]

        # Ended in the middle of a call, it finds the run by the key that it gave.
        ollama.expect(Hang(then=json.dumps(found(OTHER_ANSWER))))
        keyed = {"prompt": OTHER_QUESTION, "request_key": "mine"}
        with inspector.popen(*inspector.calling("plan_and_answer", **keyed)) as process:
            await until(lambda: len(ollama.requests) == 2)
            process.terminate()
        if transport == "stdio":
            assert ollama.requests[1].hung_up.wait(PATIENCE)
            ollama.expect(found(OTHER_ANSWER))
        else:
            ollama.release()
        again = inspector.call("plan_and_answer", **keyed)
        assert again["structuredContent"]["answer"] == OTHER_ANSWER
    assert not any("progressToken" in str(message) for message in wire.said)
    assert "elicitation" not in wire.capabilities
    row = Row(
        client=f"MCP Inspector {pinned('@modelcontextprotocol/inspector')}, command line",
        transport=transport,
        protocol=wire.protocol,
        tools="yes",
        report="text and data",
        progress="does not ask for it",
        approval="cannot ask: refused",
        cancel="its end interrupts the run" if transport == "stdio" else "the run goes on",
        long_call="`request_key`",
    )
    assert asdict(row) == external_file(OBSERVED / f"inspector-{transport}.json")
