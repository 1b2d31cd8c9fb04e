"""`EmbeddedModel`: a small model on llama.cpp without Ollama, in a worker process of its own.

The worker (`planner.models.embedded_worker`) speaks the OpenAI chat API on a loopback port, behind
a random key. If native code crashes, it is the worker that ends; and it ends with this process.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import anyio
import psutil
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic import BaseModel, ValidationError

from planner.errors import EMBEDDED_EXTRA, ModelError, ModelUnavailable
from planner.models.base import ChatRequest, Reply
from planner.models.openai_chat import OpenAIClient, OpenAIModel

WORKER = (
    sys.executable,
    "-P",  # nothing is imported from the working directory: it belongs to strangers
    str(Path(__file__).with_name("embedded_worker.py")),
)

START_SECONDS = 180.0
PING_SECONDS = 10
SILENCE_SECONDS = 60.0  # the worker pings within a call; this much silence means it hangs
GOODBYE_SECONDS = 2.0
MAX_READY_LINE_BYTES = 64 * 1024
MAX_LOG_TAIL_BYTES = 1500


class _Ready(BaseModel):
    address: str | None = None
    error: str | None = None


class _Client(OpenAIClient):
    """The connection to a worker, whose faults no setting can mend."""

    called = "the worker"
    advice = "the next call starts a new one."
    too_long = "Use a larger context window (num_ctx), or a shorter prompt."
    see_log = ""

    def _foreign(self, error: Exception) -> ModelError:
        return ModelError(f"{self.at} sent something that cannot be read: {error}")


@dataclass
class _Worker:
    """A running worker process and the way to talk to it."""

    process: Process
    model: OpenAIModel
    log: IO[bytes]

    async def fate(self) -> str:
        """The state of the process after a failure, with the last lines it wrote."""
        with anyio.move_on_after(GOODBYE_SECONDS):
            await self.process.wait()
        code = self.process.returncode
        end = "still runs" if code is None else f"ended with exit code {code}"
        self.log.seek(max(0, self.log.seek(0, os.SEEK_END) - MAX_LOG_TAIL_BYTES))
        tail = self.log.read().decode(errors="replace").strip()
        return f"{end}; its last lines:\n{tail}" if tail else f"{end} and wrote nothing"

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.model.aclose()
            with suppress(ProcessLookupError):  # it has ended by itself
                self.process.kill()  # it holds nothing worth a longer goodbye
            await self.process.aclose()
            self.log.close()


class EmbeddedModel:
    """One model in one worker process, started by the first call; calls queue.

    `weights` is a GGUF file. `context_tokens` is the window for prompt and reply together; it takes
    about 12 KiB (0.5B) or 28 KiB (1.5B) of memory per token. `command` starts the worker.
    """

    def __init__(
        self,
        name: str,
        weights: Path,
        *,
        context_tokens: int = 8192,
        command: Sequence[str] = WORKER,
    ) -> None:
        self.name, self.context_tokens = name, context_tokens
        self.doing = ""
        """What it does now, such as `is being loaded`; empty between calls."""
        self._weights = weights
        self._command = command
        self._lock = anyio.Lock()
        self._worker: _Worker | None = None

    async def load(self) -> None:
        """Start the worker and load the model, if need be. Raises `ModelUnavailable`."""
        async with self._lock:
            await self._running()

    async def chat(self, request: ChatRequest) -> Reply:
        """Ask once, at temperature 0; see `ChatModel.chat`."""

        def told(text: str) -> None:
            self.doing = "is writing"
            if request.on_text is not None:
                request.on_text(text)

        async with self._lock:
            begun = time.monotonic()
            worker = await self._running()
            load_seconds = time.monotonic() - begun
            try:
                reply = await worker.model.chat(replace(request, on_text=told))
            except ModelUnavailable as error:
                fate = await worker.fate()
                await self._discard()
                raise ModelUnavailable(
                    f"The worker of {self.name} failed during a call and {fate}\n"
                    "The next call starts a new one."
                ) from error
            finally:
                self.doing = ""
            return reply.model_copy(update={"load_seconds": load_seconds})

    async def aclose(self) -> None:
        """End the worker and wait for its end. A call in flight is waited for; cancel it first."""
        async with self._lock:
            await self._discard()

    async def _discard(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.aclose()

    async def _running(self) -> _Worker:
        if self._worker is not None and self._worker.process.returncode is not None:
            await self._discard()
        if self._worker is None:
            self.doing = "is being loaded"
            try:
                self._worker = await self._start()
            finally:
                self.doing = ""
        return self._worker

    async def _start(self) -> _Worker:
        if not self._weights.is_file():
            raise ModelUnavailable(f"{self.name}: there are no weights at {self._weights}.")
        api_key = secrets.token_urlsafe(32)
        # The key and the path go through stdin: other users may read a command line.
        settings = {
            "weights": str(self._weights),
            "api_key": api_key,
            "context_tokens": self.context_tokens,
            "threads": _cores(),
            "ping_seconds": PING_SECONDS,
        }
        log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        try:
            process = await anyio.open_process(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        except OSError as error:
            log.close()
            raise ModelUnavailable(
                f"The worker of {self.name} cannot be started ({self._command[0]}): {error}"
            ) from error
        client = _Client("http://127.0.0.1", key=api_key, gap_seconds=SILENCE_SECONDS)
        # It closes a connection after a reply without announcing it; a kept one would break the
        # next call.
        client.http.headers["Connection"] = "close"
        size = self.context_tokens
        model = OpenAIModel(self.name, client, context_tokens=size, on_read=self._reads)
        worker = _Worker(process, model, log)
        try:
            client.url = await self._url(worker, settings)
        except BaseException:
            await worker.aclose()
            raise
        return worker

    def _reads(self, processed: int, total: int) -> None:
        self.doing = f"reads the prompt, {processed:,} of {total:,} tokens"

    async def _url(self, worker: _Worker, settings: dict[str, Any]) -> str:
        """The base of the worker's API, once it has loaded the model."""
        stdin, stdout = worker.process.stdin, worker.process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            with anyio.fail_after(START_SECONDS):
                await stdin.send(json.dumps(settings).encode() + b"\n")
                answers = BufferedByteReceiveStream(stdout)
                line = await answers.receive_until(b"\n", MAX_READY_LINE_BYTES)
            ready = _Ready.model_validate_json(line)
        except (
            TimeoutError,
            anyio.BrokenResourceError,
            anyio.IncompleteRead,
            anyio.DelimiterNotFound,
            ValidationError,
        ) as error:
            raise ModelUnavailable(
                f"The worker of {self.name} did not start ({type(error).__name__}): "
                f"it {await worker.fate()}"
            ) from error
        if ready.address is None:
            raise ModelUnavailable(
                f"{self.name} cannot be loaded from {settings['weights']}: {ready.error}\n"
                f"If a package is missing, run: {EMBEDDED_EXTRA}\n"
                "Otherwise delete the file; the next start downloads it again."
            )
        return f"{ready.address}/v1"


def _cores() -> int:
    """The physical cores this process may use: more threads than that slow llama.cpp down. So many
    read the prompt; one less writes the reply."""
    allowed = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(allowed, psutil.cpu_count(logical=False) or allowed)
