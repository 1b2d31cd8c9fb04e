"""Ends what a server started: an upstream's processes when the server closes it (`end`), and all of
them once the server is gone, however it went.

Every upstream leads a process group of its own, and every process below it inherits a mark in its
environment. The reaper is a small process beside the server that knows those groups and reads a
pipe which only the server writes to. The pipe ends with the server, by SIGKILL too; then the reaper
ends the groups and every process with the mark: SIGTERM, half a second, SIGKILL.

The reaper may be killed itself, and the server right after it. So a standby, forked from it, gets
the same messages and takes its place. Where both are killed, the server starts the next one.

It needs only pipes and process groups, so that it does the same on Linux and macOS. A process that
leaves its group, clears its environment and outlives its parent is not found. The file is run by
its path as the reaper; for the server it is the module with `Reaper`.
"""

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from contextlib import suppress
from typing import TextIO

MARK = "PLANLOOM_UPSTREAM"
"""The environment variable that holds the mark."""
GRACE_SECONDS = 0.5
"""Between SIGTERM and SIGKILL."""
DONE = "done\n"
"""The last line of a server that ended in good order."""
KILL_SECONDS = 2.0
"""How long to look for processes that are started while others are being killed."""
END_SECONDS = 3.0
"""How long the reaper may take to end when it has nothing left to do."""


class Reaper:
    """The server's side: tells the reaper which process groups there are."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        """What the value of `MARK` begins with in every process of this server."""
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: threading.Thread
        self._guard = threading.Lock()
        self._closing = threading.Lock()

    def start(self) -> None:
        """Does nothing if the reaper runs."""
        with self._guard:
            if self._process is None:
                self._begin()

    def adopt(self, group: int) -> None:
        """`group`: the process id of its leader."""
        with self._guard:
            self._groups.add(group)
            self._tell(f"+{group}\n")

    def release(self, group: int) -> None:
        """Call this once the group is gone: the system may reuse its number."""
        with self._guard:
            self._groups.discard(group)
            self._tell(f"-{group}\n")

    def close(self) -> None:
        """End the reaper, and with it all that was not released; from any thread, also again."""
        with self._closing:
            with self._guard:
                self._tell(DONE)
                process, self._process = self._process, None
                if process is None:
                    return
                assert process.stdin
                process.stdin.close()
            self._watcher.join(END_SECONDS)
            if self._watcher.is_alive():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                self._watcher.join()

    def _begin(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-I", __file__, self.mark],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a signal to the server's group is not for the reaper
        )
        self._process = process
        self._watcher = threading.Thread(target=self._watch, args=[process], daemon=True)
        self._watcher.start()
        for group in self._groups:
            self._write(f"+{group}\n")

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        """Start another reaper once this one and its standby were killed."""
        with process:
            assert process.stdout
            process.stdout.read()  # they write nothing: it ends with the last of them
            while True:
                with self._guard, suppress(OSError):
                    if self._process is process:
                        self._begin()
                    return
                time.sleep(GRACE_SECONDS)

    def _tell(self, line: str) -> None:
        if self._process is None:
            return
        try:
            self._write(line)
        except OSError:  # it and its standby were killed just now
            with suppress(OSError):  # no process can be started: `_watch` tries again
                self._begin()
                self._write(line)

    def _write(self, line: str) -> None:
        assert self._process
        assert self._process.stdin
        self._process.stdin.write(line.encode())


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    standby = appointed(groups)
    orderly = follow(sys.stdin, groups, standby)
    if groups or not orderly:
        end(groups, sys.argv[1])
    with suppress(OSError):
        standby.write(DONE)


def appointed(groups: set[int]) -> TextIO:
    """The pipe to the standby, once this process is the reaper: at once for the first one, and for
    a standby after its predecessor was killed. `groups` gets those known by then."""
    while True:
        read_end, write_end = os.pipe()
        if os.fork():
            os.close(read_end)
            return os.fdopen(write_end, "w", buffering=1)
        os.close(write_end)
        with os.fdopen(read_end) as lines:
            if follow(lines, groups):
                sys.exit()


def follow(lines: TextIO, groups: set[int], standby: TextIO | None = None) -> bool:
    """Update `groups` and tell the standby until the pipe ends; returns whether it said `DONE`."""
    orderly = False
    for line in lines:
        if line == DONE:
            orderly = True
            continue
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
        if standby:
            with suppress(OSError):  # it was killed
                standby.write(line)
    return orderly


def end(groups: set[int], mark: str) -> None:
    """End every process of the groups or with the mark, and all their descendants."""
    import psutil  # takes longer than all else here, and is needed at the very end only

    def ours(process: psutil.Process) -> bool:
        grouped = os.getpgid(process.pid) in groups
        return grouped or process.environ().get(MARK, "").startswith(mark)

    def left() -> set[psutil.Process]:
        found: set[psutil.Process] = set()
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.status() != psutil.STATUS_ZOMBIE and ours(process):
                    found |= {process, *process.children(recursive=True)}
        return found

    for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        deadline = time.monotonic() + seconds
        while processes := left():  # on a busy machine the look alone may take longer than this
            for process in processes:
                with suppress(psutil.Error):
                    process.send_signal(number)
            if time.monotonic() >= deadline:
                break
            time.sleep(0.05)


if __name__ == "__main__":
    main()
