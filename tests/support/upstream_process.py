"""The test upstream over stdio.

Called by `python tests/support/upstream_process.py [--folder DIR] [--mode M]`. Each mode does what
upstreams do at their worst.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from by_hand import serve
from upstream_server import build_server, crowd, tools

MODES = ("plain", "library", "never_starts", "exits", "stubborn", "rubbish", "forks", "crowded")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--folder", type=Path, default=Path.cwd())
    options.add_argument("--mode", choices=MODES, default="plain")
    chosen = options.parse_args()
    if chosen.mode in {"stubborn", "never_starts"}:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if chosen.mode == "never_starts":
        time.sleep(3600)
    if chosen.mode == "exits":
        sys.exit(f"cannot start with {os.environ.get('TOKEN')}")
    if chosen.mode == "rubbish":
        os.write(1, b"Welcome!\n\x1b[31m{not json}\n[1, 2]\n")
    if chosen.mode == "forks":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    if chosen.mode == "library":
        build_server(chosen.folder).run("stdio", show_banner=False)
        return
    more = crowd() if chosen.mode == "crowded" else ()
    asyncio.run(serve("test upstream", [*tools(chosen.folder), *more]))
    if chosen.mode == "stubborn":
        time.sleep(3600)


if __name__ == "__main__":
    main()
