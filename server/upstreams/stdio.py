"""The stdio transport to an upstream, with bounds and with errors that name their request.

The SDK's own transport has no bound on a message, reads a long one in quadratic time (mcp 2.3:
50 MB take 16 s), and drops what it cannot parse, so that the caller waits forever. Here an answer
that is too long or cannot be read ends the one call that it belongs to.
"""

import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Unpack

import anyio
import anyio.to_thread
import mcp_types
import psutil
from anyio.abc import Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastmcp.client.transports.base import ClientTransport, SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.shared.message import SessionMessage

from planner.text import with_whole_characters
from server.upstreams.launch import Launch
from server.upstreams.reaper import end

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 8 * 2**20
"""A longer message is skipped."""
MAX_LINE_BYTES = 8 * MAX_MESSAGE_BYTES
"""An upstream that prints more bytes without the end of a line is given up."""
CHUNK = 2**16
EDGE = 4096
"""Bytes kept of the start and the end of a message that is too long; its id is in one of them."""
END_SECONDS = 2.0
"""How long an upstream may take to end by itself once its input has ended."""
MAX_LOG_BYTES = 1_000_000
POLL_SECONDS = 0.01

CHATTER = frozenset({"notifications/progress", "notifications/message"})
MAX_CHATTER_PER_SECOND = 20
"""An upstream may send thousands; the rest is ignored."""

_ID = rb'"id"\s*:\s*(0|[1-9]\d{0,17}|"[\w-]{1,100}")'
_JSONRPC = rb'"jsonrpc"\s*:\s*"2\.0"'
# SDKs write the id before the result (Python) or after it (TypeScript), never within.
_ID_FIRST = re.compile(rb"\s*\{\s*(?:" + _JSONRPC + rb"\s*,\s*)?" + _ID + rb'\s*,(?!\s*"method")')
_ID_LAST = re.compile(_ID + rb"\s*(?:,\s*" + _JSONRPC + rb"\s*)?\}\s*\Z")


class EndlessLine(Exception):
    """An upstream printed more than `MAX_LINE_BYTES` bytes without the end of a line."""


class Messages:
    """Cuts what an upstream prints into messages; holds at most one of `MAX_MESSAGE_BYTES` bytes.
    Lines that are not messages are left out (some servers print a greeting); `other_lines`: whether
    there were any. An error with its id replaces an answer that cannot be used."""

    def __init__(self) -> None:
        self.other_lines = False
        self._line = bytearray()
        self._length = 0
        """Of the line so far; once it is too long, only a part of it is kept."""
        self._answered = False

    def feed(self, chunk: bytes) -> Iterator[mcp_types.JSONRPCMessage]:
        """The messages that end in this chunk. Raises `EndlessLine`."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield from self._add(line)
            yield from self._finish()
        yield from self._add(rest)

    def _add(self, part: bytes) -> Iterator[mcp_types.JSONRPCMessage]:
        self._length += len(part)
        self._line += part
        if self._length <= MAX_MESSAGE_BYTES:
            return
        del self._line[EDGE : max(EDGE, len(self._line) - EDGE)]
        if not self._answered and (found := _ID_FIRST.match(self._line)):
            self._answered = True
            yield _too_long(found[1])
        if self._length > MAX_LINE_BYTES:
            raise EndlessLine(f"it printed {MAX_LINE_BYTES // 2**20} MiB without the end of a line")

    def _finish(self) -> Iterator[mcp_types.JSONRPCMessage]:
        line, length, answered = bytes(self._line), self._length, self._answered
        self._line.clear()
        self._length, self._answered = 0, False
        if length > MAX_MESSAGE_BYTES:
            if not answered and (found := _ID_LAST.search(line)):
                yield _too_long(found[1])
        elif message := _message(line):
            yield message
        elif line.strip():
            self.other_lines = True


def _message(line: bytes) -> mcp_types.JSONRPCMessage | None:
    """The message in a line; an error for the request whose answer cannot be read."""
    with suppress(ValueError):
        return mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    # Bytes that are no UTF-8 and halves of surrogate pairs: the rest can still be read.
    with suppress(ValueError, RecursionError):
        repaired = with_whole_characters(line.decode("utf-8", "replace"))
        return mcp_types.jsonrpc_message_adapter.validate_json(repaired, by_name=False)
    if found := _ID_FIRST.match(line[:EDGE]) or _ID_LAST.search(line[-EDGE:]):
        return _error(found[1], "its answer cannot be read: it is not a JSON-RPC message")
    return None


def _too_long(request: bytes) -> mcp_types.JSONRPCMessage:
    mib = MAX_MESSAGE_BYTES // 2**20
    return _error(request, f"its answer is longer than {mib} MiB, and was not read; ask for less")


def _error(request: bytes, why: str) -> mcp_types.JSONRPCMessage:
    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=why)
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=json.loads(request), error=error)


class ChatterLimit:
    """Limits an upstream's log and progress messages per second."""

    def __init__(self) -> None:
        self._since = self._passed = 0.0

    def allows(self, message: mcp_types.JSONRPCMessage) -> bool:
        if not isinstance(message, mcp_types.JSONRPCNotification) or message.method not in CHATTER:
            return True
        if anyio.current_time() - self._since > 1:
            self._since, self._passed = anyio.current_time(), 0
        self._passed += 1
        return self._passed <= MAX_CHATTER_PER_SECOND


class StdioTransport(ClientTransport):
    """Speaks MCP with an upstream over its standard input and output. Its process leads a process
    group, which ends with the connection. Its standard error goes through `redact`, line by line,
    to `log_file`, which starts again when it is full."""

    def __init__(self, launch: Launch, log_file: Path, redact: Callable[[str], str]) -> None:
        self.log_file = log_file
        self._process: Process | None = None
        self.fault: str | None = None
        """Why the connection was given up, if it was."""
        self.ended = False
        """Whether every process that it started has ended."""
        self._said, self._line = "", b""
        """The end of its standard error, and the line that is not complete yet."""
        self.heard = anyio.Event()
        """Set once its standard error was read to the end."""
        self._launch, self._redact = launch, redact

    @asynccontextmanager
    async def connect_session(
        self,
        *,
        transport_options: TransportOptions | None = None,
        **session_kwargs: Unpack[SessionKwargs],
    ) -> AsyncIterator[ClientSession]:
        """Raises `OSError` if the command cannot be started."""
        options = transport_options or TransportOptions()
        process = self._process = await self._launch.process()
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._receive, process, incoming)
            tasks.start_soon(self._send, process, outgoing, incoming)
            tasks.start_soon(self._log, process)
            try:
                async with options.session_class(read, write, **session_kwargs) as session:
                    yield session
            finally:
                with anyio.CancelScope(shield=True):
                    await self._end(process)
                    for stream in (incoming, read, write, outgoing):
                        await stream.aclose()
                tasks.cancel_scope.cancel()

    async def _receive(
        self, process: Process, incoming: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        assert process.stdout
        messages, limit, warned = Messages(), ChatterLimit(), False
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError):
            async with incoming:
                try:
                    while True:
                        for message in messages.feed(await process.stdout.receive(CHUNK)):
                            if limit.allows(message):
                                await incoming.send(SessionMessage(message))
                        if messages.other_lines and not warned:
                            log.warning(
                                "upstream %s: lines of its output that are no MCP messages are "
                                "ignored",
                                self.log_file.stem,
                            )
                            warned = True
                except EndlessLine as endless:
                    self.fault = str(endless)
                except anyio.BrokenResourceError:
                    pass  # the session has ended
            while True:  # an upstream whose output is not read cannot end
                await process.stdout.receive(CHUNK)

    async def _send(
        self,
        process: Process,
        outgoing: MemoryObjectReceiveStream[SessionMessage],
        incoming: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        assert process.stdin
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            async for each in outgoing:
                line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(line.encode() + b"\n")
        await incoming.aclose()  # nobody should wait for the answer to what was not sent

    @property
    def alive(self) -> bool:
        """False once its process has ended; `returncode` says so a little later."""
        if self._process is None:
            return True
        try:
            return psutil.Process(self._process.pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False
        except (psutil.Error, OSError):  # without a file to open, nothing is known
            return True

    @property
    def groups(self) -> set[int]:
        """The process group that it leads, once it is started."""
        return {self._process.pid} if self._process else set()

    @property
    def last_words(self) -> str:
        """The end of its standard error, cut after secrets were removed: no part of one remains."""
        return (self._said + self._redact(self._line.decode(errors="replace")))[-EDGE:]

    async def _log(self, process: Process) -> None:
        assert process.stderr
        try:
            while True:
                chunk = await process.stderr.receive(CHUNK)
                whole, end, self._line = (self._line + chunk).rpartition(b"\n")
                if len(self._line) > CHUNK:  # at a blank, which no secret is cut at
                    blank = max(self._line.rfind(b" "), self._line.rfind(b"\r")) + 1
                    cut = blank or len(self._line)
                    whole += end + self._line[:cut]
                    end, self._line = b"\n", self._line[cut:]
                self._write(whole + end)
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._write(self._line)
            self._line = b""
            self.heard.set()

    def _write(self, said: bytes) -> None:
        if not said:
            return
        text = self._redact(said.decode(errors="replace"))
        self._said = (self._said + text)[-EDGE:]
        with suppress(OSError):  # no disk, no log
            full = self.log_file.stat().st_size > MAX_LOG_BYTES
            with self.log_file.open("w" if full else "a", encoding="utf-8") as file:
                file.write(text)

    async def _end(self, process: Process) -> None:
        """Close its input, which asks it to end; then end all that it started."""
        assert process.stdin
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            await process.stdin.aclose()
        await _ended(process)
        with suppress(OSError):  # without a file to open, the reaper does it in the end
            await anyio.to_thread.run_sync(end, self.groups, self._launch.mark)
            self.ended = True
            self._launch.reaper.release(process.pid)
        await _ended(process)


async def _ended(process: Process) -> None:
    """Wait a while for its end. `wait` would also wait for processes that inherited its pipes."""
    with anyio.move_on_after(END_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110
            await anyio.sleep(POLL_SECONDS)
