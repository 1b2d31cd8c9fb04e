"""The standard input and output of a server that is still being imported.

A thread reads the input and answers what opens a connection (`server.mcp.handshake`). Everything is
passed on to the server, whose own answers to that are left out. What anybody else prints goes to
standard error, and a host that is gone is only the end of the input.
"""

import io
import json
import os
import re
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from planner.text import with_whole_characters
from server.mcp.handshake import first_answer

CHUNK = 2**16
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
MAX_OPENING_BYTES = 2**20
"""Bytes of a line that is looked at; no client opens a connection with more."""


class Front:
    """Stands in for the standard streams; `take` gives them to the server."""

    def __init__(self, project: Path) -> None:
        """Take the standard streams from everything else that might use them, and begin to read."""
        self._project = project
        self._input, self._output = os.dup(0), os.dup(1)
        self._feed, self._fed = socket.socketpair()
        """What the host says goes in on one side; the server reads it on the other."""
        self._answered_ids: list[Any] = []
        """The ids of the requests that the server need not answer any more."""
        self._handed_over = False
        self._lock = threading.Lock()
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        threading.Thread(target=self._read, daemon=True).start()

    def take(self) -> None:
        """Replace `sys.stdin` and `sys.stdout` for the server, which is ready now."""
        with self._lock:
            self._handed_over = True
        sys.stdin = self._fed.makefile("r", encoding="utf-8")
        output = io.BufferedWriter(_Output(self))
        sys.stdout = io.TextIOWrapper(output, encoding="utf-8")

    def _read(self) -> None:
        rest = bytearray()  # the beginning of a line
        with suppress(OSError):  # the host is gone
            while chunk := os.read(self._input, CHUNK):
                rest += chunk
                if b"\n" in chunk:
                    *parts, rest = rest.split(b"\n")
                    lines = [_repaired(bytes(part)) for part in parts]
                    with self._lock:
                        if not self._handed_over:
                            self._look_at(lines)
                    self._feed.sendall(b"".join(line + b"\n" for line in lines))
            self._feed.sendall(rest)
        self._end_input()

    def _end_input(self) -> None:
        with suppress(OSError):  # it has ended before
            self._feed.shutdown(socket.SHUT_WR)

    def _look_at(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            try:
                message = json.loads(line) if len(line) <= MAX_OPENING_BYTES else None
            except (ValueError, RecursionError):
                continue  # the server says so
            if answer := first_answer(message, self._project):
                self._answered_ids.append(answer["id"])
                self.send(json.dumps(answer, ensure_ascii=False).encode() + b"\n")

    def pass_on(self, line: bytes) -> None:
        """Send messages to the host, and anything else to standard error."""
        if not line.startswith(b'{"jsonrpc"'):
            sys.stderr.buffer.write(line)
            sys.stderr.flush()
            return
        if self._answered_ids:
            message = json.loads(line)
            if "method" not in message and message.get("id") in self._answered_ids:
                self._answered_ids.remove(message["id"])
                return
        self.send(line)

    def send(self, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._output, rest) :]
        except OSError:
            self._end_input()


def _repaired(line: bytes) -> bytes:
    """The line without halves of surrogate pairs: the SDK would drop it, and its caller wait."""
    if not _SURROGATE.search(line):
        return line
    with suppress(ValueError, RecursionError):
        return with_whole_characters(line)
    return line


class _Output(io.RawIOBase):
    """Passes printed text on line by line."""

    def __init__(self, front: Front) -> None:
        super().__init__()
        self._front, self._line = front, bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        text = bytes(data)
        complete, end, rest = text.rpartition(b"\n")
        if end:
            for line in (bytes(self._line) + complete + end).splitlines(keepends=True):
                self._front.pass_on(line)
            self._line.clear()
        self._line += rest
        return len(text)
