"""A command on a terminal of its own: what it writes, byte for byte."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import forked

WIDTH, HEIGHT = 100, 60


def on_terminal(
    command: Sequence[str],
    environ: Mapping[str, str],
    seen: Callable[[bytes], None] | None = None,
    start: Callable[..., subprocess.Popen[bytes]] = forked.Process,
) -> tuple[int, bytes]:
    """Run a command whose output and errors are a terminal: its exit code, and all that it wrote;
    `seen` is called with that as it grows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    plain = {"TERM": "xterm-256color", "NO_COLOR": "", "COLORTERM": "truecolor", "TERM_PROGRAM": ""}
    plain |= {"COLUMNS": str(WIDTH), "LINES": str(HEIGHT)}  # for pytest-xdist sets them too
    process = start(
        command,
        env={**os.environ, **plain, **environ},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = b""
    with os.fdopen(ours, "rb", buffering=0) as screen, suppress(OSError):  # EIO: it has ended
        while piece := screen.read(65536):
            written += piece
            if seen:
                seen(written)
    return process.wait(), written
