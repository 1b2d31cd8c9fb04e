"""How long a start takes: the command line, the MCP server, and the first model call of a run.

python -m benchmarks.start [--starts 10]

Each round makes each start once, so that a busy moment of the machine meets them all. The upstream
is a recorded one over stdio, the model server one that answers no question.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import ROOT
from benchmarks.eval.results import markdown
from benchmarks.speed import runs
from benchmarks.speed.server import FULL
from server.mcp.handshake import META, MODERN

STEPS = 10
"""Of the recorded run whose upstream and request are used."""
UPSTREAM = [sys.executable, "-m", "benchmarks.overhead.upstream", str(STEPS)]
PLANLOOM = [sys.executable, "-m", "server.cli"]
CLIENT = {"name": "start", "version": "1"}
INITIALIZE = {
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT},
}
DISCOVER = {
    "method": "server/discover",
    "params": {
        "_meta": {
            f"{META}protocolVersion": MODERN[-1],
            f"{META}clientInfo": CLIENT,
            f"{META}clientCapabilities": {},
        }
    },
}
READY = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
LIST = {"method": "tools/list", "params": {}}
SERVE = [*PLANLOOM, "serve"]


class ModelServer(ThreadingHTTPServer):
    """An Ollama that knows its model and fails every question, having noted when it came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.asked = 0.0
        """When the first question with the run's request came; 0: none yet."""


class _Answers(BaseHTTPRequestHandler):
    server: ModelServer

    def do_GET(self) -> None:
        self._answer(200, {"version": "0.40.3", "models": [{"name": FULL, "model": FULL}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if runs.load(STEPS).request in str(body.get("messages")) and not self.server.asked:
            self.server.asked = time.perf_counter()
        self._answer(400, {"error": "nothing is answered here"})

    def _answer(self, status: int, body: Mapping[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--starts", type=int, default=10, help="Of each kind.")
    chosen = options.parse_args()
    models = ModelServer()
    threading.Thread(target=models.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        environ = _environment(Path(folder), models)
        kinds: dict[str, Callable[[], float]] = {
            "python -c pass": lambda: _ended([sys.executable, "-c", "pass"], environ),
            "planloom --help": lambda: _ended([*PLANLOOM, "--help"], environ),
            "planloom serve, until initialize is answered": lambda: _answered(
                SERVE, environ, INITIALIZE
            ),
            "planloom serve, until server/discover is answered": lambda: _answered(
                SERVE, environ, DISCOVER
            ),
            "planloom serve, until tools/list is answered": lambda: _answered(
                SERVE, environ, INITIALIZE, LIST
            ),
            "the upstream alone, until tools/list is answered": lambda: _answered(
                UPSTREAM, environ, INITIALIZE, LIST
            ),
            "planloom ask, until the first model call": lambda: _asked(models, environ),
        }
        seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(chosen.starts):
            for kind, start in kinds.items():
                seconds[kind].append(start())
    own = [a - b for a, b in zip(*list(seconds.values())[-1:-3:-1], strict=True)]
    seconds["the last two apart"] = own
    rows = [[k, f"{min(s):.2f}", f"{median(s):.2f}", f"{max(s):.2f}"] for k, s in seconds.items()]
    print(markdown((f"seconds, {chosen.starts} starts", "least", "median", "most"), rows))


def _environment(folder: Path, models: ModelServer) -> dict[str, str]:
    """Of a user who has nothing but an upstreams.yaml."""
    file = folder / "upstreams.yaml"
    entry = {"command": UPSTREAM[0], "args": UPSTREAM[1:], "cwd": str(ROOT)}
    file.write_text(json.dumps({"upstreams": {"recorded": entry}}))
    places = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
    return {
        **os.environ,
        **dict.fromkeys(places, str(folder)),
        "PLANLOOM_UPSTREAMS": str(file),
        "PLANLOOM_PROJECT": str(ROOT),
        "OLLAMA_HOST": f"127.0.0.1:{models.server_port}",
    }


def _ended(command: Sequence[str], environ: Mapping[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=environ, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def _answered(
    command: Sequence[str], environ: Mapping[str, str], *requests: Mapping[str, Any]
) -> float:
    """Until the last of these requests to an MCP server is answered."""
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        env=environ,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin
        assert process.stdout
        for number, request in enumerate(requests):
            if number == 1:
                process.stdin.write(READY)
            message = {"jsonrpc": "2.0", "id": number, **request}
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        while json.loads(process.stdout.readline()).get("id") != len(requests) - 1:
            pass
        seconds = time.perf_counter() - began
        process.stdin.close()
    return seconds


def _asked(models: ModelServer, environ: Mapping[str, str]) -> float:
    models.asked = 0.0
    began = time.perf_counter()
    subprocess.run(
        [*PLANLOOM, "ask", runs.load(STEPS).request],
        env=environ,
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert models.asked, "the run asked nothing"
    return models.asked - began


if __name__ == "__main__":
    main()
