"""The whole of it, with real models and a real Serena: `make live`."""

import ast
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest
import yaml
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from planner.models.ollama import probe
from planner.models.weights import cached
from server.backends import embedded_installed
from server.config_file import load_settings, shipped_file

pytestmark = [pytest.mark.live, pytest.mark.anyio]

SECONDS = 1500
"""For one question, on a machine that does other things too."""


@pytest.fixture
async def backend(tmp_path: Path) -> str:
    """Ollama where it answers, else the embedded models where their weights are; else a skip."""
    models = load_settings(shipped_file(), tmp_path, os.environ).models
    wanted = {models.fast, models.full}
    server = await probe(models.host)
    if server and all(server.has(name) for name in wanted):
        return "ollama"
    if embedded_installed() and all(cached(name) for name in wanted):
        return "embedded"
    pytest.skip(
        f"no models: Ollama {'lacks' if server else 'does not answer and there are no weights of'} "
        f"{' and '.join(sorted(wanted))}; run `ollama pull` for each, or `planloom models`"
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


@pytest.fixture
def where(tmp_path: Path, project: Path) -> list[str]:
    """The options for this project and Serena alone, as it is shipped."""
    shipped = yaml.safe_load(shipped_file().read_text("utf-8"))
    file = tmp_path / "upstreams.yaml"
    file.write_text(yaml.safe_dump({"upstreams": {"serena": shipped["upstreams"]["serena"]}}))
    return ["--project", str(project), "--upstreams", str(file)]


async def test_a_name_that_no_model_can_guess_comes_back(
    backend: str, project: Path, where: list[str]
) -> None:
    name = f"Harbour{secrets.token_hex(4).capitalize()}Beacon"
    (project / "jobs").mkdir()
    (project / "README.md").write_text("# Harbour\n\nTells when ships arrive.\n")
    (project / "jobs" / "ships.py").write_text("def arrived() -> bool:\n    return True\n")
    (project / "jobs" / "beacon.py").write_text(
        f"class {name}:\n    def light(self) -> str:\n        return 'lit'\n"
    )
    transport = StdioTransport(
        sys.executable,
        ["-m", "server.cli", "serve", *where],
        env={**os.environ, "PLANLOOM_BACKEND": backend},
        keep_alive=False,
    )
    async with Client(transport, init_timeout=60) as client:
        with anyio.fail_after(SECONDS):
            result = await client.call_tool(
                "plan_and_answer",
                {
                    "prompt": "What is the name of the class in the file jobs/beacon.py?",
                    "wait_s": SECONDS,
                    "max_seconds": SECONDS - 100,
                },
                raise_on_error=False,
            )
            assert result.structured_content
            asked = {"run_id": result.structured_content["run_id"], "whole": True}
            report = (await client.call_tool("get_run", asked)).structured_content
    assert report
    assert report["status"] == "answered", report
    assert name in report["answer"], report
    assert any(name in call["result"] for each in report["actions"] for call in each["tool_calls"])


def defined(package: Path, function: str) -> tuple[str, int]:
    """The one file with a function of this name, and the line of its `def`."""
    ((file, line),) = [
        (file.relative_to(package.parent).as_posix(), node.lineno)
        for file in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    return file, line


async def test_ask_answers_with_the_file_and_line(
    backend: str, project: Path, where: list[str]
) -> None:
    spec = find_spec("anyio")
    assert spec
    assert spec.origin
    package = project / "anyio"
    shutil.copytree(Path(spec.origin).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    file, line = defined(package, "fail_after")
    question = "In which file and line is the function fail_after defined?"
    words = ["ask", "--json", "--seconds", str(SECONDS - 100), question]
    done = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-m", "server.cli", *words, *where],
            env={**os.environ, "PLANLOOM_BACKEND": backend},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["status"] == "answered", report
    assert file in report["answer"], report
    places = re.findall(r"(\d+)(?:-(\d+))?", report["answer"].replace(file, ""))
    assert any(int(first) <= line <= int(last or first) for first, last in places), report
