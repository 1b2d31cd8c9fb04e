"""How the shipped Serena is fetched and started, without fetching it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from server.upstreams import serena


class Started(Exception):
    """Where a process would have become Serena."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(serena, "user_cache_path", lambda name: tmp_path / name)
    return tmp_path / "planloom" / "serena" / serena.SERENA


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What Serena is started with; instead of becoming it, the process goes on."""
    seen: list[Any] = []

    def become(command: str, argv: list[str], env: dict[str, str]) -> None:
        seen.append((command, argv, env))
        raise Started

    monkeypatch.setattr(os, "execvpe", become)
    monkeypatch.setattr(sys, "argv", ["serena", "--project", str(tmp_path)])
    return seen


def test_serena_is_fetched_once_into_the_cache(
    cache: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fetched: list[Any] = []

    def install(command: list[str], env: dict[str, str], **_: Any) -> None:
        fetched.append((Path(command[0]).name, command[1:], env))
        program = Path(env["UV_TOOL_BIN_DIR"]) / "serena"
        program.parent.mkdir(parents=True)
        program.write_text("")
        program.chmod(0o755)

    monkeypatch.setattr(subprocess, "run", install)
    for _ in range(2):
        with pytest.raises(Started):
            serena.main()
    ((uv, arguments, env),) = fetched
    assert (uv, arguments[:2]) == ("uv", ["tool", "install"])
    assert env["UV_SYSTEM_CERTS"] == "true"
    command, argv, given = started[-1]
    assert command == str(cache / "bin" / "serena")
    assert argv[-6:-4] == ["--enable-web-dashboard", "false"]
    assert argv[argv.index("--project") + 1] == str(tmp_path)
    assert given["PATH"].split(os.pathsep)[0] == str(cache / "serena-agent" / "bin")
    assert list(Path(given["SERENA_HOME"]).iterdir()) != []


def test_what_keeps_serena_from_being_fetched_is_said(
    cache: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(command: list[str], **_: Any) -> None:
        raise subprocess.CalledProcessError(2, command)

    def missing(command: list[str], **_: Any) -> None:
        raise FileNotFoundError

    said = []
    for install in (fail, missing, lambda *_, **__: None):
        monkeypatch.setattr(subprocess, "run", install)
        with pytest.raises(SystemExit) as ended:
            serena.main()
        said.append(ended.value.code)
    assert said == [
        f"{serena.SERENA} could not be fetched",
        "uv is not installed; it is a package that Planloom depends on",
        f"{serena.SERENA} has no command; delete {cache}",
    ]
    assert started == []
