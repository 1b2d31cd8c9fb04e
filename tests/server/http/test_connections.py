"""Connections that ask for nothing keep nobody out, and /health says whether there is a server."""

import asyncio
import os
import resource
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from typing import Any

import anyio
import anyio.to_thread
import httpx
import psutil
import pytest
from fastmcp import Client
from replies import conclusion
from scripted_ollama import ScriptedOllama
from serving import (
    LONG,
    Place,
    end,
    free_port,
    served,
    until,
    upstream,
    wait_until,
    wait_until_it_listens,
)

from server.app import Parts, build
from server.http import connections
from server.http.connections import BoundedConnection

pytestmark = pytest.mark.anyio

FILES = 160
"""The most that a server may open here."""


def half_open(port: int) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), timeout=LONG)
    opened.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-")
    return opened


@contextmanager
def with_few_files(place: Place) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    port = free_port()
    command = place.command("serve", "--http", f"127.0.0.1:{port}")
    process = subprocess.Popen(
        ["sh", "-c", f'ulimit -n {FILES} && exec "$@"', "sh", *command],
        env={**os.environ, **place.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_until_it_listens(process, port)
        yield process, port
    finally:
        end(process)


@pytest.mark.skipif(sys.platform == "win32", reason="no ulimit")
async def test_half_open_connections_keep_nobody_out(place: Place) -> None:
    place.upstreams = {"files": upstream()}
    with with_few_files(place) as (process, port), ExitStack() as stack:
        url = f"http://127.0.0.1:{port}"
        async with Client(f"{url}/mcp", auth=place.token) as client:
            await client.call_tool("list_tools")
            for _ in range(FILES + 20):
                stack.enter_context(half_open(port))
            listed = await client.call_tool("list_tools")
            assert listed.structured_content["upstreams"][0]["state"] == "ready"
        async with httpx.AsyncClient() as stranger:
            assert (await stranger.get(f"{url}/health")).status_code == 200
        process.terminate()
        _, said = await anyio.to_thread.run_sync(process.communicate)
        assert b"Too many open files" not in said


def test_a_connection_without_a_request_is_closed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.1)
    with served(build(place.settings), http=BoundedConnection) as url:
        port = httpx.URL(url).port
        assert port
        with half_open(port) as idle:
            assert idle.recv(1) == b""
        with socket.create_connection(("127.0.0.1", port), timeout=LONG) as asks:
            asks.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET ")
            with asks.makefile("rb") as answer:
                assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
                assert b'"ok"' in answer.read()  # to its end, which comes from the server


class Impatient(BoundedConnection):
    """Uvicorn's own timer ends at once."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.timeout_keep_alive = 0


def test_a_connection_takes_its_next_request_after_a_pause(place: Place) -> None:
    """The client that had just sent one got a connection reset (test_peers, once in ten times)."""
    with served(build(place.settings), http=Impatient) as url:
        connection = HTTPConnection("127.0.0.1", httpx.URL(url).port, timeout=LONG)
        for _ in range(2):
            connection.request("GET", "/health")
            assert b'"ok"' in connection.getresponse().read()
            time.sleep(0.1)
        connection.close()


def test_connections_are_limited_in_number(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 2 * LONG)
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    with served(build(place.settings), http=BoundedConnection) as url, ExitStack() as stack:
        opened = [stack.enter_context(half_open(httpx.URL(url).port or 0)) for _ in range(24)]
        wait_until(lambda: len(select.select(opened, [], [], 0)[0]) >= 16)  # those were closed
        assert httpx.get(url.replace("/mcp", "/health")).json() == {"status": "ok"}


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of files")
async def test_a_server_that_can_open_no_file_for_a_while_serves_afterwards(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at its upstreams' processes again and again, for which it opens files."""
    failed = threading.Event()
    look = psutil.Process

    def looked_at(pid: int) -> psutil.Process:
        try:
            return look(pid)
        except OSError:
            failed.set()
            raise

    place.upstreams = {"files": upstream()}
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with place.client() as caller:
        await caller.call("list_tools")
        with monkeypatch.context() as watched:
            watched.setattr(psutil, "Process", looked_at)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, files[1]))
            try:
                await until(failed.is_set)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, files)
        ollama.expect(conclusion("It was said."), contains=["still here"])
        say = {"prompt": "Say it", "tool": "say", "arguments": {"text": "still here"}}
        result = await caller.call("run_step", **say)
    assert (result.whole or {})["answer"] == "It was said."


async def test_health_says_when_the_pool_is_gone(place: Place) -> None:
    opened: list[tuple[asyncio.AbstractEventLoop, Parts]] = []
    mcp = build(
        place.settings, on_open=lambda parts: opened.append((asyncio.get_running_loop(), parts))
    )
    with served(mcp) as url:
        health = url.replace("/mcp", "/health")
        assert (await anyio.to_thread.run_sync(httpx.get, health)).json() == {"status": "ok"}
        loop, parts = opened[0]
        loop.call_soon_threadsafe(parts.pool._running.cancel_scope.cancel)
        await until(lambda: httpx.get(health).status_code == 503)
