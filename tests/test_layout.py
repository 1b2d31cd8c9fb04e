"""The house: who may import whom, and what a command loads."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent

LEVELS = (
    {"grammar", "evidence", "evidence.passages", "evidence.words"},
    {"errors", "protocol", "tools", "models", "clock", "evidence.hits", "evidence.ranking"},
    {"events"},
    {"state", "inbox"},
    {"ranking", "schemas", "context", "model_server", "embedded", "embedded_worker", "weights"},
    {"lenient", "ollama", "openai_chat"},
    {"guards", "evidence.claims"},
    {"actions"},
    {"prompts"},
    {"agent.model_calls", "warming"},
    {"agent.tool_calls", "agent.formatting"},
    {"agent.gathering"},
    {"agent.loop"},
    {"agent"},
)
"""The planner's modules from the ground up; each may import those of its own level and below."""
ADAPTERS = {
    *("ollama", "openai_chat", "model_server"),
    *("embedded", "embedded_worker", "weights"),
}
"""Known to `server.backends` and the doctor only: the rest of the planner knows `ChatModel`."""


def imports(file: Path) -> Iterator[str]:
    """Every module named in an import of the file, wherever it stands."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}:{node.lineno}: a relative import"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules(package: str) -> dict[str, Path]:
    """A package's modules by name, as it names them; a package in it is a module too."""
    folder = HOUSE / package
    names = {file: file.relative_to(folder).with_suffix("").parts for file in folder.rglob("*.py")}
    named = {file: ".".join(parts).removesuffix(".__init__") for file, parts in names.items()}
    return {name: file for file, name in named.items() if name != "__init__"}


def level(module: str) -> int:
    (found,) = [number for number, names in enumerate(LEVELS) if module in names]
    return found


@pytest.mark.parametrize("module", sorted(modules("planner")))
def test_the_planner_knows_nothing_above_it(module: str) -> None:
    named = set(imports(modules("planner")[module]))
    assert not {name.partition(".")[0] for name in named} & {
        "server",
        "mcp",
        "mcp_types",
        "fastmcp",
    }
    inside = {name.removeprefix("planner.") for name in named if name.startswith("planner.")}
    inside &= set(modules("planner"))  # `from planner.tools import Outcome` names no module
    assert not {other for other in inside if level(other) > level(module)}
    if module not in ADAPTERS:
        assert not inside & ADAPTERS


def test_every_module_of_the_planner_has_its_level() -> None:
    assert set.union(*LEVELS) == set(modules("planner"))


@pytest.mark.parametrize("module", sorted(modules("server")))
def test_the_server_knows_no_prompt(module: str) -> None:
    assert not [name for name in imports(modules("server")[module]) if "planner.prompts" in name]


def test_upstreams_are_started_before_fastmcp_is_imported() -> None:
    program = (
        "import sys\n"
        "import server.cli, server.config, server.launch\n"
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
