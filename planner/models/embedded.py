"""`EmbeddedModel`: a small model on llama.cpp without Ollama, in a worker process of its own.

The worker (`planner.models.embedded_worker`) runs llama.cpp's HTTP server on a loopback port behind
a random key. A crash of native code ends the worker, never this process; the worker ends with this
process, even with a killed one.

Only weights that speak ChatML (`<|im_start|>role ... <|im_end|>`) fit: the Qwen family does.
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
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import anyio
import httpx
import psutil
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic import BaseModel, ValidationError

from planner.errors import EMBEDDED_EXTRA, ContextExceeded, ModelError, ModelUnavailable
from planner.models.base import ChatRequest, Message, Reply
from planner.models.http import lines, sendable

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


_Model = TypeVar("_Model", bound=BaseModel)


class _Ready(BaseModel):
    address: str | None = None
    error: str | None = None


class _Tokens(BaseModel):
    tokens: list[int]


class _Timings(BaseModel):
    cache_n: int
    prompt_n: int
    prompt_ms: float
    predicted_n: int
    predicted_ms: float


class _Problem(BaseModel):
    message: str
    type: str = ""


class _Progress(BaseModel):
    processed: int
    """Tokens of the prompt, those from the prefix cache included."""
    total: int


class _Event(BaseModel):
    """One event of a completion's stream. The last one has `timings`, or else `error`."""

    content: str = ""
    prompt_progress: _Progress | None = None
    stop_type: str = ""
    timings: _Timings | None = None
    error: _Problem | None = None


class _Refusal(BaseModel):
    error: _Problem


@dataclass
class _Worker:
    """A running worker process and the way to talk to it."""

    process: Process
    client: httpx.AsyncClient
    log: IO[bytes]
    begin_turn: int = 0
    end_turn: int = 0

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
            await self.client.aclose()
            with suppress(ProcessLookupError):  # it has ended by itself
                self.process.kill()  # it holds nothing worth a longer goodbye
            await self.process.aclose()
            self.log.close()


class EmbeddedModel:
    """One model in one worker process, started by the first call; calls queue.

    `weights` is a GGUF file. `context_tokens` is the window for prompt and reply together; it takes
    about 12 KiB (0.5B) or 28 KiB (1.5B) of memory per token. `threads` read the prompt, by
    default as many as the physical cores this process may use; one less writes the reply. `command`
    starts the worker.
    """

    def __init__(
        self,
        name: str,
        weights: Path,
        *,
        context_tokens: int = 8192,
        threads: int | None = None,
        command: Sequence[str] = WORKER,
    ) -> None:
        self.name, self.context_tokens = name, context_tokens
        self.doing = ""
        """What it does now, such as `is being loaded`; empty between calls."""
        self._weights = weights
        self._threads = threads or _cores()
        self._command = command
        self._lock = anyio.Lock()
        self._worker: _Worker | None = None

    async def load(self) -> None:
        """Start the worker and load the model, if that has not happened yet.

        Raises `ModelUnavailable` if the weights cannot be had or the worker does not come up.
        """
        async with self._lock:
            await self._running()

    async def chat(self, request: ChatRequest) -> Reply:
        """Ask once, at temperature 0; see `ChatModel.chat`.

        A reply cut off by the end of the context window has `finish` "length", like one cut off by
        `max_tokens`. llama.cpp ignores a schema it cannot turn into a grammar; check the reply.
        """
        async with self._lock:
            begun = time.monotonic()
            worker = await self._running()
            load_seconds = time.monotonic() - begun
            try:
                prompt = await self._tokens(worker, request.messages)
                reply = await self._complete(worker, prompt, request)
            except httpx.TransportError as error:
                fate = await worker.fate()
                await self._discard()
                raise ModelUnavailable(
                    f"The worker of {self.name} failed during a call "
                    f"({type(error).__name__}) and {fate}\nThe next call starts a new one."
                ) from error
            except ValidationError as error:
                await self._discard()
                raise ModelError(
                    f"The worker of {self.name} sent something that cannot be read: {error}\n"
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
            "threads": self._threads,
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
        worker = _Worker(process, _client(api_key), log)
        try:
            await self._connect(worker, settings)
        except BaseException:
            await worker.aclose()
            raise
        return worker

    async def _connect(self, worker: _Worker, settings: dict[str, Any]) -> None:
        try:
            with anyio.fail_after(START_SECONDS):
                worker.client.base_url = httpx.URL(await self._address(worker.process, settings))
                worker.begin_turn, worker.end_turn = await self._control_tokens(worker)
        except (
            TimeoutError,
            anyio.BrokenResourceError,
            anyio.IncompleteRead,
            anyio.DelimiterNotFound,
            httpx.TransportError,
            httpx.InvalidURL,
            ValidationError,
        ) as error:
            raise ModelUnavailable(
                f"The worker of {self.name} did not start ({type(error).__name__}): "
                f"it {await worker.fate()}"
            ) from error

    async def _address(self, process: Process, settings: dict[str, Any]) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send(json.dumps(settings).encode() + b"\n")
        line = await BufferedByteReceiveStream(process.stdout).receive_until(
            b"\n", MAX_READY_LINE_BYTES
        )
        ready = _Ready.model_validate_json(line)
        if ready.address is None:
            raise ModelUnavailable(
                f"{self.name} cannot be loaded from {settings['weights']}: {ready.error}\n"
                f"If a package is missing, run: {EMBEDDED_EXTRA}\n"
                "Otherwise delete the file; the next start downloads it again."
            )
        return ready.address

    async def _control_tokens(self, worker: _Worker) -> tuple[int, int]:
        response = await worker.client.post(
            "/tokenize", json={"content": "<|im_start|><|im_end|>", "parse_special": True}
        )
        tokens = self._read(response, _Tokens).tokens
        if len(tokens) != 2:
            raise ModelUnavailable(f"{self.name}: its weights are not those of a ChatML model.")
        return tokens[0], tokens[1]

    async def _tokens(self, worker: _Worker, messages: Sequence[Message]) -> list[int]:
        """The prompt in ChatML as tokens.

        Only the control tokens set here end or open a turn: the same characters inside a message,
        which may come from a stranger's file, are tokenised as the plain text they are.
        """
        begin, end = worker.begin_turn, worker.end_turn
        pieces: list[int | str] = []
        for message in sendable(messages):
            pieces += [begin, f"{message['role']}\n{message['content']}", end, "\n"]
        pieces += [begin, "assistant\n"]
        response = await worker.client.post(
            "/tokenize", json={"content": pieces, "parse_special": False}
        )
        return self._read(response, _Tokens).tokens

    async def _complete(self, worker: _Worker, prompt: list[int], request: ChatRequest) -> Reply:
        body: dict[str, Any] = {
            "prompt": prompt,
            "n_predict": request.max_tokens,
            "temperature": 0,
            "seed": 0,
            "stream": True,
            "cache_prompt": True,
            "return_progress": True,
        }
        if request.schema is not None:
            body["json_schema"] = request.schema
        text = ""
        last = _Event()
        # Leaving this block by any way closes the connection, and that stops the generation.
        async with worker.client.stream("POST", "/completion", json=body) as response:
            if response.is_error:
                await response.aread()
                raise self._refusal(response)
            async for line in lines(response):
                if not line.startswith(b"data: "):
                    continue
                last = _Event.model_validate_json(line.removeprefix(b"data: "))
                if read := last.prompt_progress:
                    self.doing = f"reads the prompt, {read.processed:,} of {read.total:,} tokens"
                if last.content:
                    self.doing = "is writing"
                    text += last.content
                    if request.on_text is not None:
                        request.on_text(last.content)
        if last.error is not None:
            raise self._error(last.error)
        if last.timings is None:
            raise ModelError(f"{self.name}: the worker's stream ended before the reply did.")
        return Reply(
            text=text,
            finish="length" if last.stop_type == "limit" else "stop",
            prompt_tokens=last.timings.cache_n + last.timings.prompt_n,
            cached_tokens=last.timings.cache_n,
            cached_told=True,
            generated_tokens=last.timings.predicted_n,
            prefill_seconds=last.timings.prompt_ms / 1000,
            decode_seconds=last.timings.predicted_ms / 1000,
        )

    def _read(self, response: httpx.Response, kind: type[_Model]) -> _Model:
        if response.is_error:
            raise self._refusal(response)
        return kind.model_validate_json(response.content)

    def _refusal(self, response: httpx.Response) -> ModelError:
        return self._error(_Refusal.model_validate_json(response.content).error)

    def _error(self, problem: _Problem) -> ModelError:
        if problem.type == "exceed_context_size_error":
            return ContextExceeded(f"{self.name}: {problem.message}")
        return ModelError(f"{self.name} refused the call: {problem.message}")


def _client(api_key: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        headers={"Authorization": f"Bearer {api_key}"},
        timeout=SILENCE_SECONDS,
        # The worker's server closes a connection after a streamed reply without announcing it;
        # a kept one would break the next call.
        limits=httpx.Limits(max_keepalive_connections=0),
        trust_env=False,  # no proxy between two processes of one machine
    )


def _cores() -> int:
    """The physical cores this process may use: more threads than that slow llama.cpp down."""
    allowed = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(allowed, psutil.cpu_count(logical=False) or allowed)
