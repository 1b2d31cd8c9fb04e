"""Fixtures every test may use."""

import signal

import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A suite in a shell's background ignores SIGINT, and so would every child it interrupts."""


@pytest.fixture
def anyio_backend() -> str:
    """FastMCP's client runs on asyncio only."""
    return "asyncio"
