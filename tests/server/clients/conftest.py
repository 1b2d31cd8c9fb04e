"""What the tests of other programs share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from scripted_ollama import ScriptedOllama
from serving import Place, until


@pytest.fixture
async def place(tmp_path: Path, ollama: ScriptedOllama) -> AsyncIterator[Place]:
    place = Place(tmp_path, ollama)
    yield place
    await until(lambda: not place.processes())
