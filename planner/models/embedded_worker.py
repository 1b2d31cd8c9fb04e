"""The worker process of `planner.models.embedded`: llama.cpp's HTTP server on a loopback port.

It reads one JSON line of settings from stdin and prints one JSON line on stdout:
`{"address": "http://127.0.0.1:PORT"}` once the model is loaded, or `{"error": "..."}`. It ends when
its stdin closes, which happens when the parent asks for it and when the parent dies, however it
dies. Whatever llama.cpp writes goes to stderr.

It is run by its path and imports nothing of this package, so it starts the same from every
directory.
"""

import ctypes
import json
import os
import signal
import sys
from typing import Any, TextIO

# llama.cpp notices a cancelled call between two batches: 128 tokens are one to three seconds on a
# small machine, and batches of 2048 read only a tenth faster there.
BATCH_TOKENS = 128
WARNINGS = 2
PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """Let the kernel end this process with its parent: while a model loads nobody reads stdin."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _claim_stdout() -> TextIO:
    """The real stdout. File descriptor 1 leads to stderr from here on: native code may print."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _serve(settings: dict[str, Any]) -> Any:
    """Load the model and listen; the server listens for as long as it is referenced."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["weights"]
    params.api_keys = [settings["api_key"]]  # other users of this machine reach the port, too
    params.n_ctx = settings["context_tokens"]
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.n_parallel = 1
    # Each written token passes hundreds of spin barriers, and a thread that waits for a busy core
    # holds them all: with every core in use, another program made writing ten times slower. One
    # core left free costs little. Prefill has few barriers for its work and takes all cores.
    params.cpuparams.n_threads = max(1, settings["threads"] - 1)
    params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = 0  # the one slot keeps its prefix; no copies of older ones
    params.sse_ping_interval = settings["ping_seconds"]
    params.fit_params = False  # the settings are final, do not spend time on fitting them
    params.ui = False
    params.verbosity = WARNINGS
    return xllamacpp.Server(params)


def main() -> None:
    _die_with_parent()
    answers = _claim_stdout()
    settings = json.loads(sys.stdin.readline())
    try:
        server = _serve(settings)
        ready = {"address": server.listening_address}
    except (ImportError, RuntimeError) as error:
        ready = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(ready), file=answers, flush=True)
    sys.stdin.read()
    os._exit(0)  # at once, also in the middle of a generation


if __name__ == "__main__":
    main()
