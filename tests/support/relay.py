"""Stands in for a command where a client starts it: what `forked.py` forks carries it out, with the
standard streams, the environment and the signals of this process, and ends when this one does.

Called by `python -S relay.py SOCKET WORDS…`, as `forked.relayed` says.
"""

import json
import os
import signal
import socket
import struct
import sys
from types import FrameType

NUMBER = struct.Struct("i")


def main() -> int:
    forking = socket.socket(socket.AF_UNIX)
    forking.connect(sys.argv[1])
    order = {
        "words": sys.argv[2:],
        "environ": dict(os.environ),
        "cwd": os.getcwd(),  # noqa: PTH109  pathlib takes its time
        "held": True,
    }
    socket.send_fds(forking, [json.dumps(order).encode() + b"\n"], [0, 1, 2])
    (pid,) = NUMBER.unpack(forking.recv(NUMBER.size, socket.MSG_WAITALL))

    def pass_on(number: int, _frame: FrameType | None) -> None:
        os.kill(pid, number)

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, pass_on)
    os.close(0)
    os.close(1)
    (code,) = NUMBER.unpack(forking.recv(NUMBER.size, socket.MSG_WAITALL))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
