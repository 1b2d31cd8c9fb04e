"""Ends what a server started once the server is gone, however it went.

    Every upstream leads a process group of its own, and every process below it inherits a mark in
    its environment. The reaper is a small process beside the server that knows those groups and
    reads a pipe which only the server writes to. The pipe ends with the server, by SIGKILL too;
    then the reaper ends the groups and whoever bears the mark: SIGTERM, half a second, SIGKILL.

It needs no rights but the user's own and nothing of the kernel but pipes and process groups, so it
does the same on Linux and macOS. A process that leaves its group, clears its environment and
outlives its parent is not found. On Windows there is none: the SDK puts each upstream into a job
object, which the system ends with the server's handle.

The file is run by its path as the reaper; for the server it is the module with `Reaper`.
"""

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from contextlib import suppress

MARK = "PLANLOOM_UPSTREAM"
"""The environment variable that holds the mark."""
GRACE_SECONDS = 0.5
"""Between SIGTERM and SIGKILL."""
DONE = "done\n"
"""The last line of a server that ended in good order."""
KILL_SECONDS = 2.0
"""For what appears while the rest is being killed."""
END_SECONDS = 3.0
"""For the reaper itself to end, once nothing is left to it."""


class Reaper:
    """The server's side: tells the reaper which process groups there are."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        """What the value of `MARK` begins with in every process of this server."""
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = threading.Lock()

    def start(self) -> None:
        """Fine when it runs."""
        running = self._process is not None and self._process.poll() is None
        if sys.platform != "win32" and not running:
            self._process = subprocess.Popen(
                [sys.executable, "-I", __file__, self.mark],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a signal to the server's group is not for the reaper
            )

    def adopt(self, group: int) -> None:
        """`group`: the process id of its leader."""
        self._groups.add(group)
        self._tell(f"+{group}\n")

    def release(self, group: int) -> None:
        """To be called once nothing of the group is left: its number may come again."""
        self._groups.discard(group)
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """End the reaper, which ends what was not released. Fine when it has ended, and from
        several threads."""
        with self._closing:
            self._tell(DONE)
            process, self._process = self._process, None
            if process is None:
                return
            try:
                process.communicate(timeout=END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()

    def _tell(self, line: str) -> None:
        if self._process is None:
            return
        try:
            self._write(line)
        except OSError:  # somebody killed it
            self._replace()

    def keep(self) -> None:
        """Have another one, if somebody killed it. To be called now and then: a server that is
        killed after its reaper cannot do it any more."""
        if self._process is not None and self._process.poll() is not None:
            self._replace()

    def _replace(self) -> None:
        assert self._process
        self._process.wait()
        self.start()
        for group in self._groups:
            self._write(f"+{group}\n")

    def _write(self, line: str) -> None:
        assert self._process
        assert self._process.stdin
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    orderly = False
    for line in sys.stdin:
        if line == DONE:
            orderly = True
        else:
            (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    if groups or not orderly:
        end(groups, sys.argv[1])


def end(groups: set[int], mark: str) -> None:
    """End every process of the groups, and whoever bears the mark, with all their descendants."""
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
        while (processes := left()) and time.monotonic() < deadline:
            for process in processes:
                with suppress(psutil.Error):
                    process.send_signal(number)
            time.sleep(0.05)


if __name__ == "__main__":
    main()
