"""`planloom` in processes that are forked from one that has imported it: an import takes four
seconds of processor time, for each command of each test.

`Process` starts that one by this file. It is no child of the tests', which count their children,
and ends when their process does.
"""

import gc
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from socketserver import BaseRequestHandler, ForkingMixIn, UnixStreamServer
from typing import Any

NUMBER = struct.Struct("i")
WITHOUT = "TESTS_WITHOUT_MODULE"
"""The variable that names a module which a command shall not find."""


class Process(subprocess.Popen[bytes]):
    """A command `python -m server.cli …`, used like a process that was started."""

    _told: socket.socket
    """Where its exit code comes, when it has ended."""

    def _execute_child(
        self, args: Sequence[str], executable: Any, preexec_fn: Any, *given: Any
    ) -> None:
        _close_fds, _pass_fds, _cwd, env, _startup, _flags, _shell, *pipes = given
        stdin, _, _, stdout, _, stderr = pipes[:6]
        self._told = socket.socket(socket.AF_UNIX)
        self._told.connect(_forking())
        order = json.dumps({"words": args[3:], "environ": dict(env), "cwd": str(Path.cwd())})
        files = [0 if stdin == -1 else stdin, 1 if stdout == -1 else stdout]
        files.append(2 if stderr == -1 else stderr)
        socket.send_fds(self._told, [order.encode() + b"\n"], files)
        (self.pid,) = NUMBER.unpack(self._told.recv(NUMBER.size, socket.MSG_WAITALL))
        self._child_created = True
        self._close_pipe_fds(*pipes[:6])  # type: ignore[attr-defined]

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            # Several threads may wait for it, so that it stays where it is.
            told = self._told.recv(NUMBER.size, socket.MSG_WAITALL | socket.MSG_PEEK)
            (self.returncode,) = NUMBER.unpack(told)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and not select.select([self._told], [], [], timeout)[0]:
            assert timeout
            raise subprocess.TimeoutExpired(self.args, timeout)
        code = self.poll()
        assert code is not None
        return code


def run(
    words: Sequence[str],
    environ: dict[str, str],
    seconds: float,
    text: str | None = None,
    merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """A command to its end, with this text piped in, if there is one, or else without a standard
    input. Merged, its errors are in its output, where they came."""
    errors = subprocess.STDOUT if merged else subprocess.PIPE
    stdin = subprocess.DEVNULL if text is None else subprocess.PIPE
    command = [sys.executable, "-m", "server.cli", *words]
    with Process(
        command, env=environ, stdin=stdin, stdout=subprocess.PIPE, stderr=errors
    ) as process:
        said = None if text is None else text.encode()
        output, told = process.communicate(said, timeout=seconds)
    return subprocess.CompletedProcess(
        list(words), process.returncode, output.decode(), (told or b"").decode()
    )


def relayed(command: Sequence[str]) -> list[str]:
    """What a client starts instead of a command `python -m server.cli …` (`relay.py`)."""
    relay = Path(__file__).with_name("relay.py")
    return [command[0], "-S", str(relay), _forking(), *command[3:]]


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


class _Command(BaseRequestHandler):
    """Forks one command, and waits for it."""

    server: _Forking

    def handle(self) -> None:
        order, files, *_ = socket.recv_fds(self.request, 2**20, 3)
        while not order.endswith(b"\n"):
            order += self.request.recv(2**20)
        told = json.loads(order)
        pid = os.fork()
        if pid == 0:
            self.request.close()
            self.server.socket.close()
            os._exit(_done(told, files))
        for file in files:
            os.close(file)
        self.request.sendall(NUMBER.pack(pid))
        if told.get("held"):
            seen, _, _ = select.select([os.pidfd_open(pid), self.request], [], [])
            if self.request in seen:  # who holds it was killed
                os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        self.request.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _done(order: dict[str, Any], files: Sequence[int]) -> int:
    """The exit code of the command, carried out in this process."""
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environ"])
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    encoding = os.environ.get("PYTHONIOENCODING")
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    if absent := os.environ.get(WITHOUT):
        sys.modules[absent] = None  # type: ignore[assignment]
    if os.isatty(2):  # the consoles of these modules are made for the terminal where they are
        for name in [name for name in sys.modules if name.startswith("server.cli.")]:
            del sys.modules[name]
    sys.argv = ["planloom", *order["words"]]
    from server.cli.commands import main

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
    return code


if __name__ == "__main__":
    with _Forking(sys.argv[1], _Command) as forking:
        os.environ |= {"FASTMCP_LOG_LEVEL": "WARNING", "FASTMCP_ENABLE_RICH_LOGGING": "false"}
        # What each command would import or make when it needs it, too.
        import anyio._backends._asyncio  # noqa: F401
        import httpcore2  # noqa: F401
        from fastmcp import FastMCP

        import server.app
        import server.cli.ask
        import server.cli.doctor
        import server.cli.runs
        import server.cli.serve_http
        import server.cli.serve_stdio
        import server.journal.sqlite

        server.mcp.tools.register(FastMCP(), False, Path())
        gc.freeze()
        if os.fork() == 0:
            os.setsid()
            forking.serve_forever()
