"""The programs in tests/outside/clients: MCP clients of their own, each in its own process."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import pytest
from paths import OUTSIDE, ROOT

PROGRAMS = OUTSIDE / "clients"
ENVIRONMENTS = ROOT / ".venv" / "clients"
NODE_BIN = PROGRAMS / "node_modules" / ".bin"

PATIENCE = 180.0
"""A bound for programs that hang, in seconds; they start slowly on a busy machine."""


def with_node(environ: dict[str, str]) -> dict[str, str]:
    """The environment, with the node and the programs of package.json before others."""
    return environ | {"PATH": f"{NODE_BIN}{os.pathsep}{environ['PATH']}"}


def pinned(package: str) -> str:
    """The version of a client that tests/outside/set-up installs."""
    wanted: dict[str, str] = json.loads((PROGRAMS / "package.json").read_text())["dependencies"]
    for file in PROGRAMS.glob("*.txt"):
        wanted |= dict(re.findall(r"^([\w-]+).*==(.+)$", file.read_text(), re.MULTILINE))
    return wanted[package]


def command(program: str) -> list[str]:
    """What runs a program: node, or Python in its own environment if it has one."""
    file = PROGRAMS / program
    if file.suffix == ".mjs":
        return [str(NODE_BIN / "node"), str(file)]
    own = file.with_suffix(".txt").exists()
    python = ENVIRONMENTS / file.stem / "bin" / "python" if own else Path(sys.executable)
    return [str(python), str(file)]


@dataclass
class Call:
    """What a client told of a call, in the order of its arrival."""

    progress: list[str] = field(default_factory=list)
    run_id: str = ""
    asked: list[str] = field(default_factory=list)
    result: dict[str, Any] | None = None
    error: str | None = None

    @property
    def report(self) -> dict[str, Any]:
        assert self.result, self.error
        found: dict[str, Any] = self.result["structured"]
        return found

    @property
    def text(self) -> str:
        assert self.result, self.error
        return str(self.result["text"])


class RemoteClient:
    """A connected client that does one call at a time."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._lines: Queue[bytes] = Queue()
        Thread(target=self._read).start()
        self.tools: list[str] = self._next()["tools"]

    @classmethod
    @contextmanager
    def started(cls, program: str, server: dict[str, Any]) -> Iterator["RemoteClient"]:
        """The client that this program is, of a server as `remote.py` has it."""
        with subprocess.Popen(
            [*command(program), json.dumps(server)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            try:
                client = cls(process)
                yield client
                client._end()
            finally:
                process.kill()

    def begin(
        self, tool: str, /, *, limit_s: float | None = None, reset: bool = False, **arguments: Any
    ) -> None:
        """Begin a call, with a limit of the client's own; progress may `reset` it."""
        said: dict[str, Any] = {"tool": tool, "arguments": arguments}
        if limit_s is not None:
            said["limit_s"] = limit_s
        if reset:
            said["reset"] = True
        self._call = Call()
        self._say(said)

    def cancel(self) -> None:
        """Cancel the call once it has told of progress, and so of its run."""
        while not self._call.progress:
            self._hear()
        self._say("cancel")

    def ended(self) -> Call:
        """The call that was begun, when it has ended."""
        while self._call.result is None and self._call.error is None:
            self._hear()
        return self._call

    def call(self, tool: str, /, **arguments: Any) -> Call:
        self.begin(tool, **arguments)
        return self.ended()

    def _end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()  # which the client takes for its end
        assert self._process.wait(PATIENCE) == 0

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _hear(self) -> None:
        said = self._next()
        if "progress" in said:
            self._call.progress.append(said["progress"])
            self._call.run_id = said.get("run_id") or self._call.run_id
        elif "asked" in said:
            self._call.asked.append(said["asked"])
        else:
            self._call.result, self._call.error = said.get("result"), said.get("error")

    def _say(self, said: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(said).encode() + b"\n")
        self._process.stdin.flush()

    def _next(self) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=PATIENCE)
        except Empty:
            pytest.fail("The client says nothing.")
        assert line, "The client has ended; its errors are on standard error."
        said: dict[str, Any] = json.loads(line)
        return said
