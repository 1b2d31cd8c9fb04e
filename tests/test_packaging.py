"""The package as a stranger gets it: built, installed into a clean environment, started there."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import anyio
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from paths import ROOT
from scripted_ollama import FULL, ScriptedOllama
from serving import LONG
from trial_model import measured, right

pytestmark = pytest.mark.outside

UV = str(Path(sys.executable).with_name("uv"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done(UV, "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    return wheel


def done(*command: str, **environ: str) -> str:
    """The output of a command that has to succeed, outside of this checkout."""
    kept = ("PATH", "HOME", "UV_", "PIP_", "SSL_", "LANG")
    clean = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    return subprocess.run(
        command, env=clean | environ, cwd="/", capture_output=True, text=True, check=True
    ).stdout


def test_the_wheel_holds_the_prompts_and_the_shipped_upstreams(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        shipped = archive.read("planloom/server/upstreams.yaml")
    assert shipped == (ROOT / "upstreams.yaml").read_bytes()
    prompts = {
        f"planloom/planner/prompts/{each.name}" for each in ROOT.glob("planner/prompts/*.txt")
    }
    assert prompts
    assert prompts <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"planloom"}


def test_uvx_starts_it_without_an_installation(wheel: Path, tmp_path: Path) -> None:
    """Beside other packages of the names it has inside."""
    uvx = [UV, "tool", "run", "--with", str(others(tmp_path)), "--from", str(wheel), "planloom"]
    assert done(*uvx, "--version") == f"planloom {version('planloom')}\n"
    entry = json.loads(done(*uvx, "init", "--client", "cursor"))["mcpServers"]["planloom"]
    assert [entry["command"], *entry["args"][:2]] == ["uvx", "planloom", "serve"]


def test_an_installed_planloom_serves_a_client_by_its_own_entry(
    wheel: Path, tmp_path: Path
) -> None:
    places = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    done(UV, "tool", "install", "--quiet", str(wheel), **places)
    planloom = str(tmp_path / "bin" / "planloom")
    home = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state")}
    done(planloom, "init", **home)
    printed = done(planloom, "init", "--client", "cursor", "--project", str(ROOT), **home)
    entry = json.loads(printed)["mcpServers"]["planloom"]
    own = tmp_path / "home" / ".config" / "planloom" / "upstreams.yaml"
    assert "serena:" in own.read_text("utf-8")
    own.write_text("upstreams: {}", "utf-8")  # no upstream is needed here

    assert "plan_and_answer" in served(entry["command"], entry["args"], home)


def served(command: str, words: list[str], home: dict[str, str]) -> set[str]:
    """The tools that a client sees of the server that this command starts."""

    async def tools() -> set[str]:
        environ = home | {"PATH": "/usr/bin:/bin", "PLANLOOM_WARM_UP": "false"}
        transport = StdioTransport(command, words, env=environ, keep_alive=False)
        with anyio.fail_after(LONG):
            async with Client(transport) as client:
                return {tool.name for tool in await client.list_tools()}

    return anyio.run(tools)


def test_it_works_beside_other_packages_of_the_names_it_has_inside(
    wheel: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    done(UV, "venv", "--quiet", "--seed", "--python", sys.executable, str(environment))
    python, planloom = (str(environment / "bin" / name) for name in ("python", "planloom"))
    (site,) = environment.glob("lib/*/site-packages")
    for name in ("server", "planner"):
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("theirs = True\n")
    done(python, "-m", "pip", "install", "--quiet", str(wheel))
    done(python, "-c", "import planner, server; assert planner.theirs and server.theirs")
    home = without_upstreams(tmp_path)
    assert "plan_and_answer" in served(planloom, ["serve", "--project", str(ROOT)], home)
    with ScriptedOllama(handler=right) as ollama:
        table = done(planloom, "try", FULL, OLLAMA_HOST=ollama.host, **home)
    assert measured(table)[FULL] == ["12", "0", "0"]
    serena = (python, "-P", "-m", "planloom.server.upstreams.serena", "--help")
    assert "--project" in done(*serena, **home)
    done(UV, "pip", "uninstall", "--quiet", "--python", python, "planloom")
    done(python, "-c", "import planner, server; assert planner.theirs and server.theirs")


def test_pipx_installs_it_beside_other_packages_of_those_names(wheel: Path, tmp_path: Path) -> None:
    theirs = others(tmp_path)
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    pipx = (UV, "tool", "run", "pipx")
    words = ("--python", sys.executable, "--preinstall", str(theirs), str(wheel))
    done(*pipx, "install", "--quiet", *words, **places)
    planloom = str(tmp_path / "bin" / "planloom")
    assert done(planloom, "--version") == f"planloom {version('planloom')}\n"
    (python,) = (str(each) for each in (tmp_path / "pipx").glob("venvs/planloom/bin/python"))
    done(python, "-c", "import planner, server; assert planner.theirs and server.theirs")
    home = without_upstreams(tmp_path)
    assert "plan_and_answer" in served(planloom, ["serve", "--project", str(ROOT)], home)
    done(*pipx, "uninstall", "planloom", **places)
    assert not Path(planloom).exists()


def without_upstreams(folder: Path) -> dict[str, str]:
    """A new home whose configuration has no upstream, as an environment."""
    own = folder / "home" / ".config" / "planloom" / "upstreams.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("upstreams: {}", "utf-8")
    return {"HOME": str(folder / "home")}


def others(folder: Path) -> Path:
    """A wheel of another project, whose packages have the names that ours has inside."""
    wheel = folder / "theirs-1.0-py3-none-any.whl"
    files = {f"{name}/__init__.py": "theirs = True\n" for name in ("planner", "server")}
    about = "Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n"
    made = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    inside = "theirs-1.0.dist-info"
    files |= {f"{inside}/METADATA": about, f"{inside}/WHEEL": made}
    record = "".join(f"{name},,\n" for name in [*files, f"{inside}/RECORD"])
    with ZipFile(wheel, "w") as archive:
        for name, text in (files | {f"{inside}/RECORD": record}).items():
            archive.writestr(name, text)
    return wheel
