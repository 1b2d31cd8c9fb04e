"""Fixtures every test may use."""

import gc
import json
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import fastmcp
import pytest
from fastmcp.utilities.logging import configure_logging
from hypothesis import HealthCheck, settings
from jsonschema import Draft202012Validator
from notes import notes, notes_server
from paths import SUPPORT
from scripted_ollama import ScriptedOllama
from serving import Place, SharedUpstream

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A suite in a shell's background ignores SIGINT, and so would every child it interrupts."""

NO_TIME_IS_ASSERTED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", NO_TIME_IS_ASSERTED, derandomize=True)
settings.register_profile("search", NO_TIME_IS_ASSERTED, max_examples=1_000)
settings.load_profile("same")
"""A change passes or fails by itself, not by the examples of the day. `pytest -m hypothesis
--hypothesis-profile search` looks for new ones; what it finds becomes an `@example`."""


fastmcp.settings.enable_rich_logging = False
configure_logging(level="WARNING")
"""As `planloom` does it: Rich colours the code in each traceback, which takes seconds."""

check_schema = Draft202012Validator.check_schema


@cache
def check(schema: str) -> None:
    check_schema(json.loads(schema))


def check_once(schema: Any, **options: Any) -> None:
    """Each client checks the output schemas of a server's tools, which are the same each time."""
    if options:
        check_schema(schema, **options)
    else:
        check(json.dumps(schema))


Draft202012Validator.check_schema = check_once  # type: ignore[method-assign,assignment]


def pytest_collection_finish() -> None:
    """What was imported stays, and the garbage collector need not look through it again."""
    gc.freeze()


@pytest.fixture
def anyio_backend() -> str:
    """FastMCP's client runs on asyncio only."""
    return "asyncio"


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What servers keep between runs is not the user's, and not another test's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(autouse=True)
def no_authorities(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on loopback speaks TLS, and each HTTP client would read the system's certificates."""
    if not any(map(request.node.get_closest_marker, ("live", "outside"))):
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        monkeypatch.setenv("SSL_CERT_DIR", str(SUPPORT))


@pytest.fixture(scope="session")
def shared_upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedUpstream]:
    with SharedUpstream.open(tmp_path_factory.mktemp("shared") / "project") as shared:
        yield shared


@pytest.fixture
def ollama() -> Iterator[ScriptedOllama]:
    """A scripted Ollama, whose script has to be met as a whole."""
    with ScriptedOllama() as ollama:
        yield ollama


@pytest.fixture
def place(
    tmp_path: Path,
    ollama: ScriptedOllama,
    shared_upstream: SharedUpstream,
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    """A project whose environment is this process's own."""
    return entered(Place(tmp_path, ollama, shared=shared_upstream), monkeypatch)


@pytest.fixture
def own_place(tmp_path: Path, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The same, with an upstream process of its own."""
    return entered(Place(tmp_path, ollama), monkeypatch)


def entered(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name, value in place.environ.items():
        monkeypatch.setenv(name, value)
    return place


@pytest.fixture(scope="module")
def shared_notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedUpstream]:
    with SharedUpstream.open(tmp_path_factory.mktemp("notes") / "project", notes_server) as shared:
        yield shared


@pytest.fixture
def notes_place(
    tmp_path: Path,
    ollama: ScriptedOllama,
    shared_notes: SharedUpstream,
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    """A project whose tools take notes, after approval."""
    place = entered(Place(tmp_path, ollama, shared=shared_notes), monkeypatch)
    place.upstreams = {"notes": notes(shared_notes)}
    (place.project / "notes.txt").unlink(missing_ok=True)
    return place
