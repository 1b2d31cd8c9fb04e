"""Fixtures every test may use."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """FastMCP's client runs on asyncio only."""
    return "asyncio"
