"""`planloom` in processes that are forked from one that has imported it: an import takes four
seconds of processor time, for each command of each test.

`run` starts that one by this file. It is no child of the tests', which count their children, and
ends when their process does.
"""

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from socketserver import ForkingMixIn, StreamRequestHandler, UnixStreamServer
from typing import Any


def run(
    words: Sequence[str],
    environ: dict[str, str],
    seconds: float,
    text: str | None = None,
    merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """`planloom` with these words, and with this text piped in, if there is one, or else without a
    standard input. Merged, its errors are in its output, where they came."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        files = [f"{folder}/output", f"{folder}/output" if merged else f"{folder}/errors"]
        connection.settimeout(seconds)
        connection.connect(_forking())
        order: dict[str, Any] = {"words": list(words), "environ": environ, "text": text}
        order |= {"cwd": str(Path.cwd()), "files": files}
        connection.sendall(json.dumps(order).encode() + b"\n")
        code = connection.recv(9)
        assert code, "it ended without an exit code"
        output, errors = (Path(file).read_bytes().decode() for file in files)
        errors = "" if merged else errors
    return subprocess.CompletedProcess(list(words), int(code), output, errors)


@cache
def _forking() -> str:
    """The socket of the process that forks."""
    file = Path(tempfile.mkdtemp(), "socket")
    ours = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    starting = subprocess.Popen(
        [sys.executable, __file__, str(file)],
        env=ours | {"PYTHONPATH": str(Path.cwd())},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    starting.wait()
    _held.append(starting)
    return str(file)


_held: list[subprocess.Popen[bytes]] = []
"""Whose standard input it waits for the end of."""


class _Forking(ForkingMixIn, UnixStreamServer):
    def service_actions(self) -> None:
        super().service_actions()
        if select.select([0], [], [], 0)[0]:  # the tests have ended
            shutil.rmtree(Path(sys.argv[1]).parent)
            os._exit(0)


def piped(text: str) -> int:
    """The end of a pipe that brings this text, and no more."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(text.encode())  # short enough for what a pipe holds unread
    return reading


class _Command(StreamRequestHandler):
    def handle(self) -> None:
        from server.cli.commands import main

        order = json.loads(self.rfile.readline())
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["environ"])
        files = [
            os.open(os.devnull, os.O_RDONLY) if order["text"] is None else piped(order["text"])
        ]
        files += [os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND) for file in order["files"]]
        for number, file in enumerate(files):
            os.dup2(file, number)
        sys.argv = ["planloom", *order["words"]]
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:  # noqa: BLE001  as Python ends with it
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        self.wfile.write(str(code).encode())


if __name__ == "__main__":
    with _Forking(sys.argv[1], _Command) as forking:
        os.environ |= {"FASTMCP_LOG_LEVEL": "WARNING", "FASTMCP_ENABLE_RICH_LOGGING": "false"}
        import server.app
        import server.cli.ask
        import server.cli.doctor
        import server.cli.runs  # noqa: F401

        if os.fork() == 0:
            os.setsid()
            forking.serve_forever()
