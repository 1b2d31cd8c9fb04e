"""Fixtures: what people do with `planloom` in a home folder, models that tell what they do."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from client_files import Run

from planner.models.base import Models
from server.backends import open_models
from server.cli import commands as cli


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("PLANLOOM_UPSTREAMS", raising=False)
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """`planloom` with these words: exit code, output, errors."""

    def run(*words: str) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["planloom", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capfd.readouterr()

    return run


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> str:
    """What the models of a server in this process say that they do, as embedded ones can."""
    doing = "tiny reads the prompt, 256 of 1,365 tokens"

    async def opened(*given: Any) -> Models:
        return replace(await open_models(*given), doing=lambda: doing)

    monkeypatch.setattr("server.backends.open_models", opened)
    return doing
