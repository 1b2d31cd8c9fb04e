"""The tasks scenarios of MCP's official conformance suite, against this server."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from notes import notes, notes_server
from paths import OUTSIDE
from scripted_ollama import ScriptedOllama
from serving import LONG, Place, SharedUpstream, served
from suite_adapter import SuiteAdapter, model

from server.app import build

pytestmark = pytest.mark.outside

MODULES = OUTSIDE / "conformance" / "node_modules"
SCENARIOS: dict[str, dict[str, str]] = {
    "tasks-lifecycle": {
        "sep-2663-tasks-get-status-failed": "a run that fails is a completed task with isError"
    },
    "tasks-capability-negotiation": {},
    "tasks-wire-fields": {},
    "tasks-request-state-removal": {},
    "tasks-mrtr-input": {"tasks-mrtr-partial-fulfillment": "a run asks one question at a time"},
    "tasks-request-headers": {
        "tasks-headers-tolerate-mcp-method-on-tools-call": "wants the words of the suite's own tool"
    },
    "tasks-dispatch-and-envelope": {},
    "tasks-status-notifications": {"tasks-status-notifications": "the suite skips it"},
    "tasks-required-task-error": {
        "sep-2663-server-returns-missing-capability-when-required": "no tool here demands tasks"
    },
    "tasks-mrtr-composition": {
        "sep-2663-mrtr-synchronous-before-task-creation": "a run asks when it is a task already"
    },
}
"""Each with the checks that it does not pass here, and why."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("conformance")
    with (
        SharedUpstream.open(root / "project", notes_server) as shared,
        ScriptedOllama(handler=model) as ollama,
    ):
        place = Place(root, ollama, shared=shared)
        place.upstreams = {"notes": notes(shared)}
        with served(build(place.settings), wrap=SuiteAdapter) as url:
            yield url


def checks(url: str, scenario: str, folder: Path) -> list[dict[str, Any]]:
    """What the suite found."""
    suite = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    command = [str(MODULES / ".bin" / "node"), str(suite), "server"]
    subprocess.run(
        [*command, "--url", url, "--scenario", scenario, "--output-dir", str(folder)],
        capture_output=True,
        timeout=LONG,
        check=False,
    )
    (found,) = folder.rglob("checks.json")
    return list(json.loads(found.read_text()))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_tasks_scenario(scenario: str, url: str, tmp_path: Path) -> None:
    found = checks(url, scenario, tmp_path)
    passed = {each["id"] for each in found if each["status"] in ("SUCCESS", "INFO")}
    missed = {each["id"]: each["errorMessage"] for each in found if each["id"] not in passed}
    assert missed.keys() == SCENARIOS[scenario].keys(), missed
