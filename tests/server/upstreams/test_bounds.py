"""What hostile upstreams send is bounded: bytes, requests, pages, lines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from paths import SUPPORT
from serving import LONG, Place, served
from starlette.middleware.gzip import GZipMiddleware
from upstream_server import build_server

from planner.tools import Outcome
from server.upstreams import results, stdio
from server.upstreams.pool import UpstreamPool

pytestmark = pytest.mark.anyio

MakePool = Callable[..., UpstreamPool]


@pytest.fixture
def pool_of(place: Place, tmp_path: Path) -> MakePool:
    """A pool of these upstreams."""

    def pool_of(**upstreams: Any) -> UpstreamPool:
        place.upstreams = upstreams
        return UpstreamPool(place.settings, cache_dir=tmp_path / "cache")

    return pool_of


async def called(pool: UpstreamPool, name: str, **arguments: Any) -> tuple[Outcome, str]:
    tool = pool.find(name)
    assert tool
    result = await pool.call(tool, arguments)
    return result.outcome, result.text


def compressing(app: Any) -> Any:
    """Whether or not it is asked for."""
    compressed = GZipMiddleware(app)

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [each for each in scope["headers"] if each[0] != b"accept-encoding"]
            scope = {**scope, "headers": [*headers, (b"accept-encoding", b"gzip")]}
        await compressed(scope, receive, send)

    return asked


SPEAKER: dict[str, Any] = {
    "command": "${PLANLOOM_PYTHON}",
    "args": [str(SUPPORT / "speaking_upstream.py")],
}


async def test_requests_whose_answers_are_not_read_are_not_kept(pool_of: MakePool) -> None:
    async with pool_of(up=SPEAKER) as pool:
        await pool.ready(LONG)
        before = psutil.Process().memory_info().rss
        assert await called(pool, "demand", n=5_000) == (Outcome.SUCCESS, "asked it all")
        assert psutil.Process().memory_info().rss - before < 16 * 2**20


async def test_the_pages_of_a_tool_list_are_bounded_in_sum(pool_of: MakePool) -> None:
    pages = {**SPEAKER, "args": [*SPEAKER["args"], "pages"]}
    async with pool_of(up=pages) as pool:
        await pool.ready(LONG)
        (status,) = pool.upstreams()
        assert (status.state, status.tools) == ("failed", 0)
        assert status.error == "its tool list is longer than 8 MiB, with all pages"


async def test_an_upstream_is_not_asked_to_compress(pool_of: MakePool, tmp_path: Path) -> None:
    with served(build_server(tmp_path), wrap=GZipMiddleware, json_response=True) as url:
        async with pool_of(up={"url": url, "allow": ["flood", "say"]}) as pool:
            await pool.ready(LONG)
            outcome, said = await called(pool, "flood", characters=6 * stdio.MAX_MESSAGE_BYTES)
            assert (outcome, "longer than 8 MiB" in said) == (Outcome.ERROR, True)
            assert await called(pool, "say", text="still here") == (Outcome.SUCCESS, "still here")


async def test_an_answer_that_is_compressed_all_the_same_is_not_read(
    pool_of: MakePool, tmp_path: Path
) -> None:
    with served(build_server(tmp_path), wrap=compressing, json_response=True) as url:
        async with pool_of(up={"url": url}) as pool:
            await pool.ready(LONG)
            (status,) = pool.upstreams()
            assert status.state == "failed"
            compressed = "its answer is compressed (gzip), which Planloom did not ask for"
            assert compressed in str(status.error)


async def test_the_lines_of_a_result_are_bounded(pool_of: MakePool, tmp_path: Path) -> None:
    with served(build_server(tmp_path)) as url:
        async with pool_of(up={"url": url}) as pool:
            await pool.ready(LONG)
            outcome, said = await called(pool, "say", text="a\n" * 200_000)
            assert outcome is Outcome.SUCCESS
            assert said.count("\n") == results.MAX_LINES
            assert said.endswith("a\n[cut here: 180001 of 200001 lines left out]")
