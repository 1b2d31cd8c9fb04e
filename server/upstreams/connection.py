"""One connection to an upstream, with the process behind it, from its start to its end."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

import anyio
import anyio.to_thread
import mcp_types
from fastmcp.client.progress import ProgressHandler
from fastmcp.client.transports import ClientTransport, StreamableHttpTransport
from mcp import MCPError
from mcp.client.session import ClientRequestContext

from server.config import UpstreamSettings
from server.text import clean
from server.upstreams import results
from server.upstreams.bounded_http import bounded_client
from server.upstreams.launch import Launch, Launcher
from server.upstreams.reaper import end
from server.upstreams.redaction import Redactor
from server.upstreams.sessions import Session, UpstreamClient
from server.upstreams.side_channel import NONE, SideChannel
from server.upstreams.stdio import StdioTransport

# Their records repeat whatever an upstream printed and the URLs called, tokens included.
for _name in ("mcp.client", "httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

GRACE_SECONDS, CLOSE_SECONDS = 3.0, 1.5
"""How long an upstream has to end by itself, and then the client to notice that it was killed."""
ENDING_SECONDS = 0.3
"""How long a process whose output has ended may take to end."""
LAST_WORDS_SECONDS = 1.0
"""How long the standard error of a process that has ended may take to be read."""
MAX_LOG_LINES = 5
"""Of what an upstream last wrote to its standard error."""


_CALL: ContextVar[SideChannel | None] = ContextVar("_CALL", default=None)
"""The channel of the call that is being made, which the SDK carries along: to what asks for
input since 2026-07-28, and over HTTP to all that an upstream says in answer to the call."""


class Connection:
    """One client of an upstream, from its start to the end of its last process."""

    def __init__(
        self, name: str, settings: UpstreamSettings, launcher: Launcher, redactor: Redactor
    ) -> None:
        self.lost = False
        self.stale = False
        self.news = anyio.Event()
        """Set when `lost` or `stale` became true."""
        self.calls: dict[anyio.CancelScope, SideChannel | None] = {}
        """The calls under way, each with its channel."""
        self.timeouts = 0
        """How many calls in a row have timed out."""
        self.log = launcher.cache_dir / "logs" / f"{name}.log"
        self._disposed: anyio.Event | None = None
        self._launch: Launch | None = None
        self._stdio: StdioTransport | None = None
        self._excess: str | None = None
        if not (settings.command or settings.url):
            raise ValueError("`command` or `url` is empty; set the variable that it comes from")
        if settings.url:
            headers = {k: v.get_secret_value() for k, v in settings.headers.items()}
            transport: ClientTransport = StreamableHttpTransport(
                settings.url.get_secret_value(),
                headers,
                httpx_client_factory=bounded_client(self._exceeded),
            )
        else:
            self._launch = launcher.launch(name, settings)
            _ready_log(self.log)
            transport = self._stdio = StdioTransport(
                self._launch, self.log, redactor.redact_message
            )
        self._redactor = redactor
        roots = [root.get_secret_value() for root in settings.roots]
        self.client = UpstreamClient(
            transport,
            self._asked if settings.questions else None,
            name=name,
            roots=[Path(root).expanduser().as_uri() for root in roots] or None,
            log_handler=self._logged,
            message_handler=self._heard,
            init_timeout=settings.start_timeout_s,
        )

    async def connect(self) -> None:
        await self.client.__aenter__()  # type: ignore[no-untyped-call]

    async def list_tools(self) -> tuple[list[mcp_types.Tool], list[str]]:
        """Its valid tools, and why its other entries are not valid."""
        session = self.client.session
        assert isinstance(session, Session)
        unreadable = session.dispatcher.unreadable = []
        return await self.client.list_tools(), unreadable

    @contextmanager
    def serving(
        self, scope: anyio.CancelScope, channel: SideChannel | None
    ) -> Iterator[ProgressHandler | None]:
        """Connects the upstream to a call's channel, until the call ends or `lose` cancels it."""

        async def report_progress(
            progress: float, total: float | None, message: str | None
        ) -> None:
            if channel:
                said = self._redactor.redact_output(clean(message or ""))
                channel.report_progress(progress, total, said)

        self.calls[scope] = channel
        token = _CALL.set(channel)
        try:
            yield report_progress if channel else None
        finally:
            _CALL.reset(token)
            del self.calls[scope]

    def _speaking(self) -> SideChannel | None:
        """The call that an upstream's message belongs to. Over stdio, up to 2025-11-25, messages do
        not say so: it is known only while one run's calls are under way. Otherwise it belongs to
        nobody, so that no caller gets what is meant for another."""
        if known := _CALL.get():
            return known
        calls = list(self.calls.values())
        if not calls or len({each and each.approvals for each in calls}) > 1:
            return None
        return calls[-1]

    async def _heard(self, message: object) -> None:
        """Notes that the tool list changed. The watcher fetches it: a handler must not wait."""
        if isinstance(message, mcp_types.ToolListChangedNotification) and not self.stale:
            self.stale = True
            self.news.set()

    async def _asked(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult:
        channel = self._speaking()
        return await channel.ask(params, self._redactor.redact_output) if channel else NONE

    async def _logged(self, message: mcp_types.LoggingMessageNotificationParams) -> None:
        if channel := self._speaking():
            text = results.log_text(message.data)
            channel.report_log(message.level, self._redactor.redact_output(text))

    @property
    def fault(self) -> str | None:
        """Why Planloom closed the connection, if it did."""
        return self._stdio.fault if self._stdio else self._excess

    def _exceeded(self, why: str) -> None:
        self._excess = why

    def alive(self) -> bool:
        """False once the process is known to have ended; over HTTP only a call can tell."""
        return self._stdio is None or self._stdio.alive

    def survives(self, error: MCPError) -> bool:
        """Whether the client can be used after this protocol error."""
        if self._stdio:
            return error.error.code != mcp_types.CONNECTION_CLOSED and self.alive()
        # Others may mean a lost session.
        return error.error.code in (mcp_types.INVALID_PARAMS, mcp_types.URL_ELICITATION_REQUIRED)

    def lose(self) -> None:
        """End the calls in flight and tell the watcher."""
        self.lost = True
        self.news.set()
        for scope in self.calls:
            scope.cancel()

    async def dispose(self, grace: float = GRACE_SECONDS) -> None:
        """Close the client and end all it started: politely for `grace` seconds, then by force."""
        if self._disposed:
            await self._disposed.wait()
            return
        self._disposed = anyio.Event()
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as closing:
                closed = anyio.Event()
                closing.start_soon(self._close, closed)
                with anyio.move_on_after(grace):
                    await closed.wait()
                # Not again: a group that has ended may be another program's by now.
                if self._launch and self._stdio and not self._stdio.ended:
                    with suppress(OSError):  # without a file to open, the reaper does it in the end
                        await anyio.to_thread.run_sync(end, self._stdio.groups, self._launch.mark)
                with anyio.move_on_after(CLOSE_SECONDS):
                    await closed.wait()
                closing.cancel_scope.cancel()
        self._disposed.set()

    async def _close(self, closed: anyio.Event) -> None:
        # A client whose connection broke raises on closing, and then its transport is still open.
        for close in (self.client.close, self.client.transport.close):
            with suppress(Exception):
                await close()  # type: ignore[no-untyped-call]
        closed.set()

    async def heard(self) -> None:
        """Wait a while for the last words of a process that has ended, or is about to: its output
        ends first."""
        if self._stdio is None:
            return
        with anyio.move_on_after(ENDING_SECONDS):
            while self._stdio.alive:  # noqa: ASYNC110  the system tells nobody
                await anyio.sleep(0.01)
        if not self._stdio.alive:
            with anyio.move_on_after(LAST_WORDS_SECONDS):
                await self._stdio.heard.wait()

    def log_tail(self) -> str:
        words = self._stdio.last_words if self._stdio else ""
        return "\n".join(clean(words).strip().splitlines()[-MAX_LOG_LINES:])


def _ready_log(path: Path) -> None:
    """Where an upstream's standard error goes; readable by the user only."""
    with suppress(OSError):  # the upstream works without a log, too
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
