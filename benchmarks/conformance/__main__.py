"""The official conformance suite of MCP against `planloom serve --http`.

    python -m benchmarks.conformance

It installs the suite (npm) into `.planloom/`, runs its server scenarios of every protocol version
that both sides speak, and prints a table in Markdown. The server is as a user starts it, token and
all; since the suite sends no token, a proxy in front of the server adds it. A non-pass that
`REASONS` does not explain is printed in bold, and makes the exit code 1.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, ByteStream, SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream
from faults import obliging
from scripted_ollama import ScriptedOllama
from serving import Place

PACKAGES = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "node@22")
"""The first suite that knows 2026-07-28, and the Node that it needs."""
VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
FOLDER = Path(".planloom/conformance")
MAX_HEAD_BYTES = 2**16

OWN = "calls a tool of the suite's own server"
REASONS = {
    "prompts-get-.*|sep-2322-non-tool-incomplete": "gets a prompt of the suite's own server",
    "resources-(read|templates)-.*": "reads a resource of the suite's own server",
    "resources-(un)?subscribe|sep-2575-server-(sends|tags|honors)-.*": (
        "subscriptions are not offered: `get_run` waits for a run"
    ),
    "tools-call-.*|elicitation-.*-general": OWN,
    "incoming-sse-event|sep-2575-(server-rejects-undeclared|missing)-capability.*": OWN,
    "json-schema-2020-12-tool-found": "looks for a tool of the suite's own server",
    "server-sse-(priming-event|retry-field)": (
        "streams cannot be resumed: a run is found again by its id"
    ),
    "sep-2549-resources-read-.*": "no resource is listed as long as there is no run",
    "sep-2243-server-(no-xmcp-tool|decode-.*|.*-param-.*)": "no tool asks for a header",
    "sep-2322-(sampling|list-roots)-incomplete": f"{OWN}; neither sampling nor roots are used here",
    "sep-2322-.*": f"{OWN}; how ours asks for approval is tested in tests/server/test_approval.py",
}
"""Why a check is not passed, by its id; the first that fits."""
HOLLOW = (
    "tools-call-simple-text|tools-call-error"
    "|input-required-result-(missing-input-response|ignore-extra-params|validate-input)"
)
"""Scenarios that may pass without the tool of the suite's own server that they call."""

Checks = list[dict[str, Any]]


async def main() -> bool:
    install()
    results: dict[str, dict[str, Checks]] = defaultdict(dict)
    with tempfile.TemporaryDirectory() as root, ScriptedOllama(handler=obliging) as ollama:
        place = Place(Path(root), ollama)
        with place.http() as (_, port):
            async with with_token(port, place.token) as open_port:
                for version in VERSIONS:
                    found = await run(f"http://127.0.0.1:{open_port}/mcp", version)
                    for scenario, checks in found.items():
                        results[scenario][version] = checks
    return table(results)


def install() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(FOLDER)]
    subprocess.run([*command, *PACKAGES], check=True)


async def run(url: str, version: str) -> dict[str, Checks]:
    """The checks of each scenario that the suite has for a version of the protocol."""
    print(version, file=sys.stderr)
    modules, folder = FOLDER / "node_modules", FOLDER / "results" / version
    shutil.rmtree(folder, ignore_errors=True)
    command = [modules / ".bin/node", modules / "@modelcontextprotocol/conformance/dist/index.js"]
    words = ["server", "--url", url, "--suite", "all", "--spec-version", version]
    done = await anyio.run_process([*command, *words, "--output-dir", folder], check=False)
    (FOLDER / f"{version}.log").write_bytes(done.stdout + done.stderr)
    return {
        scenario(file.parent.name): json.loads(file.read_text())
        for file in folder.glob("*/checks.json")
    }


def scenario(folder: str) -> str:
    """`server-ping-2026-11-21T15-34-00-599Z` is that of `ping`."""
    return re.sub(r"^server-(.*)-\d{4}-\d\d-\d\dT.*", r"\1", folder)


def table(results: dict[str, dict[str, Checks]]) -> bool:
    """Prints it; whether anything is not passed that has no reason here."""
    unexplained = False
    passed: Counter[str] = Counter()
    print("| scenario |", " | ".join(VERSIONS), "| why not |")
    print("| --- |", " | ".join("---" for _ in VERSIONS), "| --- |")
    for name, by_version in sorted(results.items()):
        verdicts = {version: verdict(checks) for version, checks in by_version.items()}
        passed.update(version for version, said in verdicts.items() if said == "pass")
        missed = [each for checks in by_version.values() for each in checks if not is_passed(each)]
        whys = dict.fromkeys(reason(each) for each in missed)
        if not missed and re.fullmatch(HOLLOW, name):
            whys[f"({OWN}, and a refusal suffices)"] = None
        unexplained |= any(why.startswith("**") for why in whys)
        cells = " | ".join(verdicts.get(version, "") for version in VERSIONS)
        print(f"| {name} | {cells} | {'; '.join(whys)} |")
    every = Counter(version for by_version in results.values() for version in by_version)
    counts = " | ".join(f"{passed[version]} of {every[version]}" for version in VERSIONS)
    print(f"| passed | {counts} | |")
    return unexplained


def is_passed(check: dict[str, Any]) -> bool:
    return check["status"] in ("SUCCESS", "INFO")


def verdict(checks: Checks) -> str:
    if any(check["status"] == "FAILURE" for check in checks):
        return "no"
    return "pass" if all(map(is_passed, checks)) else "in part"


def reason(check: dict[str, Any]) -> str:
    for name, why in REASONS.items():
        if re.fullmatch(name, check["id"]):
            return why
    return f"**{check['id']}: {check.get('errorMessage') or check['status']}**"


@asynccontextmanager
async def with_token(port: int, token: str) -> AsyncIterator[int]:
    """The port of a proxy that adds the token; all else of a request comes as it was sent."""
    added = [b"Connection: close", b"Authorization: Bearer " + token.encode()]

    async def serve(client: ByteStream) -> None:
        async with client, await anyio.connect_tcp("127.0.0.1", port) as server:
            request = BufferedByteReceiveStream(client)
            with suppress(anyio.IncompleteRead, anyio.BrokenResourceError):
                head = await request.receive_until(b"\r\n\r\n", MAX_HEAD_BYTES)
                lines = head.split(b"\r\n")
                kept = [line for line in lines if not line.lower().startswith(b"connection:")]
                await server.send(b"\r\n".join([*kept, *added, b"", b""]))
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(pipe, request, server)
                    await pipe(server, client)
                    tasks.cancel_scope.cancel()

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


async def pipe(source: ByteReceiveStream, target: ByteSendStream) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for chunk in source:
            await target.send(chunk)


if __name__ == "__main__":
    sys.exit(anyio.run(main))
