"""Whatever is said to the server, or by its models and upstreams: no crash, no hang, no trace.

A small part of what `python -m benchmarks.faults --parts inputs` generates.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import generated
import pytest
from scripted_ollama import ScriptedOllama
from serving import Place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with ScriptedOllama(handler=generated.willing) as ollama:
        place = Place(tmp_path, ollama)
        monkeypatch.setenv("XDG_CACHE_HOME", place.environ["XDG_CACHE_HOME"])
        yield place


@pytest.mark.parametrize(
    ("check", "count"),
    [
        (generated.in_memory, 50),
        (generated.over_stdio, 60),
        (generated.model_says, 30),
        (generated.upstream_says, 50),
    ],
)
def test_whatever_is_said_is_answered(
    check: Callable[[Place, int], Any], count: int, place: Place
) -> None:
    told = check(place, count)
    assert sum(told.values()) >= count


@pytest.mark.anyio
@pytest.mark.parametrize("tool", ["get_run", "cancel_run", "plan_and_answer"])
async def test_an_id_that_is_no_text_is_told(tool: str, place: Place) -> None:
    needed = {"prompt": "Go on"} if tool == "plan_and_answer" else {}
    async with place.client() as caller:
        told = await caller.error(tool, run_id="\ud800", **needed)
    assert told.startswith(f"{tool}: run_id: should be a valid string")
