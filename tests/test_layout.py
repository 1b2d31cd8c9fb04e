"""The house: who may import whom, and what a command loads."""

import re
import subprocess
import sys
from graphlib import TopologicalSorter

import pytest

from benchmarks import ROOT
from benchmarks.layout import imports, modules, ours, place

ORDER = (
    *(
        "planner.errors",
        "planner.clock",
        "planner.text",
        "planner.hosts",
        "planner.grammar",
        "planner.passage",
    ),
    *("planner.tools", "planner.protocol", "planner.events", "planner.state", "planner.inbox"),
    *("planner.models", "planner.evidence", "planner.checks", "planner.actions"),
    *("planner.prompts", "planner.agent"),
    *(
        "server.background",
        "server.text",
        "server.project",
        *("server.yaml_lines", "server.variables", "server.config", "server.environment"),
        "server.config_file",
        "server.config_schema",
        "server.auth",
        "server.backends",
    ),
    *("server.client_configs", "server.views", "server.approval", "server.journal"),
    *("server.upstreams", "server.runs", "server.mcp", "server.http", "server.app", "server.cli"),
)
"""The folders, and the modules beside them, from the ground up: each imports only what comes before
it, and what is in it."""
ADAPTERS = {
    f"planner.models.{name}"
    for name in ("ollama", "openai_chat", "http", "embedded", "embedded_worker", "weights")
}
"""What knows one kind of model server; the rest knows `ChatModel`."""
KNOW_ADAPTERS = {"server.backends", "server.cli.doctor", "server.cli.trial.run"}
MAX_LINES = 400
"""Of a module; a longer one has a reason."""


def height(module: str) -> int:
    """Where the module's folder stands in the order; both packages themselves hold nothing."""
    return ORDER.index(place(module))


@pytest.mark.parametrize("module", sorted(modules()))
def test_a_folder_imports_only_those_below_it(module: str) -> None:
    if module in ("planner", "server"):
        assert not set(imports(module))
        return
    assert not {other for other in ours(module) if height(other) > height(module)}


def test_each_long_module_has_a_reason() -> None:
    """Which has more than `MAX_LINES`; docs/design.md says why."""
    long = {
        file.relative_to(ROOT).as_posix()
        for file in modules().values()
        if len(file.read_text("utf-8").splitlines()) > MAX_LINES
    }
    design = (ROOT / "docs" / "design.md").read_text("utf-8")
    table = design.partition("| module | reason |")[2].partition("\n\n")[0]
    assert long == set(re.findall("^\\| `(.+?)`", table, re.MULTILINE))


def test_no_modules_import_each_other() -> None:
    TopologicalSorter({module: ours(module) for module in modules()}).prepare()


@pytest.mark.parametrize("module", sorted(name for name in modules() if name.startswith("planner")))
def test_the_planner_knows_no_server(module: str) -> None:
    named = {name.partition(".")[0] for name in imports(module)}
    assert not named & {"server", "mcp", "mcp_types", "fastmcp"}


@pytest.mark.parametrize("module", sorted(name for name in modules() if name.startswith("server")))
def test_the_server_knows_no_prompt(module: str) -> None:
    assert not [name for name in imports(module) if name.startswith("planner.prompts")]


def test_few_know_the_kinds_of_model_servers() -> None:
    outside = {name for name in modules() if not name.startswith("planner.models")}
    assert {name for name in outside if ours(name) & ADAPTERS} == KNOW_ADAPTERS


def test_upstreams_are_started_before_fastmcp_is_imported() -> None:
    program = (
        "import sys\n"
        "import server.cli.commands, server.config_file, server.upstreams.launch\n"
        "slow = {'fastmcp', 'httpx', 'mcp', 'mcp_types', 'ollama'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("words", [["--help"], ["ask", "--help"]])
def test_help_loads_no_fastmcp(words: list[str]) -> None:
    program = (
        "import sys\n"
        "from server.cli.commands import main\n"
        f"sys.argv = ['planloom', *{words!r}]\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    slow = {'fastmcp', 'httpx', 'mcp', 'ollama', 'uvicorn'} & set(sys.modules)\n"
        "    assert not slow, slow\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage" in done.stdout
