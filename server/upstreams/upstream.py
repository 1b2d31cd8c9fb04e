"""One upstream MCP server: started, kept up, and called. FastMCP's client does not recover from a
lost connection, so a new one replaces it, and the old one is closed in the background."""

import logging
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
import anyio.to_thread
import mcp_types
from mcp import InputRequiredRoundsExceededError, MCPError
from pydantic import ValidationError

from planner.clock import Clock
from planner.tools import Outcome, ToolResult, ToolSpec, UpstreamState, UpstreamStatus, failed_call
from server.config import ToolSettings, UpstreamSettings
from server.text import clean
from server.upstreams import results
from server.upstreams.connection import GRACE_SECONDS, Connection
from server.upstreams.launch import Launcher
from server.upstreams.pins import Definition, HeldTool, Pins, identity
from server.upstreams.redaction import Redactor
from server.upstreams.sessions import REFUSALS
from server.upstreams.side_channel import SideChannel

FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 1.0, 60.0
"""Between attempts to start an upstream; the delay doubles each time."""
STEADY_SECONDS = 60.0
"""After an upstream ran this long, the first delay is used again."""
PATIENCE_SECONDS = 8.0
"""How long a call waits for an upstream that is starting."""
POLL_SECONDS = 1.0
"""How often a stdio upstream's process is looked at: its death sends no message."""
MIN_LISTING_PAUSE_SECONDS = 3.0
"""Between two listings of an upstream whose tools change again and again."""
HANG_SECONDS = 5.0
"""A start that goes on this much longer than its time limit counts as hung."""
MAX_TIMEOUTS = 3
"""After so many calls in a row without an answer, the upstream is restarted."""
MAX_UNREADABLE = 20
"""How many invalid tools of a list are reported with the reason."""
MAX_CALLS = 16
"""Calls that one upstream gets at a time; the others wait, and their time limit has not begun."""

log = logging.getLogger(__name__)


class Upstream:
    """One upstream: its state, its tools as last listed, and the client in use."""

    def __init__(
        self,
        name: str,
        settings: UpstreamSettings,
        launcher: Launcher,
        pins: Pins,
        redactor: Redactor,
        for_operator: bool,
    ) -> None:
        self.name = name
        self.settings = settings
        self.state = UpstreamState.STARTING if settings.enabled else UpstreamState.DISABLED
        self.tools: dict[str, ToolSpec] = {}
        """Kept while the upstream is down: tools that a model has seen do not come and go."""
        self.held: dict[str, HeldTool] = {}
        """Tools that wait for the operator's consent, and are not among the others."""
        self.first_seen = 0
        self.unreadable: list[str] = []
        """What it lists that is not a valid tool, and why."""
        self.changed = anyio.Event()
        self._launcher = launcher
        self._pins, self._redactor = pins, redactor
        self._identity = identity(name, settings)
        self._error = None if settings.enabled else "it is switched off; set `enabled: true`"
        self._connection: Connection | None = None
        self._wanted = anyio.Event()
        self._was_ready = False
        self._turns = anyio.CapacityLimiter(MAX_CALLS)
        self._for_operator = for_operator

    def status(self) -> UpstreamStatus:
        return UpstreamStatus(
            name=self.name,
            state=self.state,
            tools=len(self.tools),
            error=self._error,
            held=[str(held) for held in self.held.values()],
            unreadable=self.unreadable,
        )

    async def run(self) -> None:
        """Keep the upstream up until cancelled."""
        delay = FIRST_DELAY_SECONDS
        async with anyio.create_task_group() as disposals:
            while self.state != UpstreamState.CLOSED:
                try:
                    connection = Connection(
                        self.name, self.settings, self._launcher, self._redactor
                    )
                except ValueError as error:  # nothing to connect to: another try does not help
                    self._fail(str(error))
                    return
                self._connection = connection
                # With the last try's error, until one succeeds.
                self._become(UpstreamState.STARTING, self._error)
                self._was_ready = await self._start(connection)
                if self._was_ready:
                    started = anyio.current_time()
                    self._wanted = anyio.Event()
                    self._become(UpstreamState.READY)
                    await self._watch(connection)
                    if anyio.current_time() - started > STEADY_SECONDS:
                        delay = FIRST_DELAY_SECONDS
                polite = self._was_ready and not connection.fault
                disposals.start_soon(connection.dispose, GRACE_SECONDS if polite else 0)
                with anyio.move_on_after(delay):
                    await (self._wanted.wait() if self._was_ready else anyio.sleep_forever())
                delay = min(2 * delay, MAX_DELAY_SECONDS)

    async def retire(self) -> None:
        """End as soon as the calls under way are answered."""
        with anyio.move_on_after(self.settings.call_timeout_s + HANG_SECONDS):
            while self._turns.borrowed_tokens:  # noqa: ASYNC110  a limiter sets no event
                await anyio.sleep(POLL_SECONDS)
        await self.aclose("it was changed in the upstreams file")

    async def aclose(self, why: str = "the server is shutting down") -> None:
        if self.state == UpstreamState.DISABLED:
            return
        was_ready = self.state == UpstreamState.READY
        self._become(UpstreamState.CLOSED, why)
        if connection := self._connection:
            connection.lose()
            await connection.dispose(GRACE_SECONDS if was_ready else 0)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        channel: SideChannel | None = None,
        reading: bool = False,
    ) -> ToolResult:
        """`reading`: refuse the call if the tool is no longer read-only when it is sent."""
        async with self._turns:
            started = anyio.current_time()
            connection = await self._up()
            if connection is None:
                why = f": {self._error}" if self._error else ""
                result = failed_call(f"{self.name} is not available ({self.state}{why})")
            elif name not in self.tools:
                result = failed_call(f"{self.name} no longer has the tool {name}.")
            elif reading and not self.tools[name].read_only:
                why = "nobody has approved this call, so it was not made."
                result = failed_call(f"{name} is no longer read-only, and {why}")
            else:
                result = await self._call(connection, name, arguments, channel)
                if channel:
                    result = result.model_copy(update={"text": channel.hide_typed(result.text)})
            return result.model_copy(update={"seconds": anyio.current_time() - started})

    async def _call(
        self,
        connection: Connection,
        name: str,
        arguments: Mapping[str, Any],
        channel: SideChannel | None,
    ) -> ToolResult:
        tool = self.settings.tools.get(name, ToolSettings())
        if self.settings.lines_from == 0:
            arguments = results.lines_from_zero(arguments)
        arguments = {**arguments, **tool.arguments}
        if not results.is_sendable(arguments):
            return failed_call("The arguments are not JSON that can be sent; write them again.")
        clock = channel.clock if channel else Clock()
        with clock.limit(clock.seconds + self.settings.call_timeout_s) as scope:
            try:
                with connection.serving(scope, channel) as progressed:
                    result = await connection.client.call_tool_mcp(name, arguments, progressed)
                connection.timeouts = 0
                return self._read(result, tool)
            except MCPError as error:
                if error.error.message in REFUSALS:
                    return failed_call(f"{self.name} gave up on {name}. {error.error.message}")
                if connection.survives(error):
                    unread = error.error.code == mcp_types.PARSE_ERROR
                    how = f"answered {name}, but" if unread else "refused the call:"
                    text = self._scrub(f"{self.name} {how} {error}")
                    return failed_call(text, answered=not (unread or connection.lost))
                await self._lose(connection, str(error))
            except InputRequiredRoundsExceededError as error:
                text = f"{self.name} asked for input {error.max_rounds} times, which is the limit"
                return failed_call(text, False)
            except ValidationError as error:
                text = f"{self.name} answered {name}, but its answer is not a tool result"
                return failed_call(self._scrub(f"{text}: {error.errors()[0]['msg']}"), False)
            except Exception as error:  # noqa: BLE001  whatever a transport raises, the run goes on
                await self._lose(connection, str(error) or type(error).__name__)
        if scope.cancelled_caught and not connection.lost:
            return await self._timed_out(connection, name)
        return failed_call(f"{self.name} was lost during {name}: {self._error}", False)

    async def _timed_out(self, connection: Connection, name: str) -> ToolResult:
        connection.timeouts += 1
        if connection.timeouts >= MAX_TIMEOUTS:
            await self._lose(connection, f"{MAX_TIMEOUTS} calls in a row ran out of time")
        limit = f"{self.settings.call_timeout_s:g} s"
        text = f"{name} did not end within {limit}; ask it for less."
        return ToolResult(outcome=Outcome.TIMEOUT, text=text, answered=False)

    def _read(self, result: mcp_types.CallToolResult, tool: ToolSettings) -> ToolResult:
        text = results.content_text(result.content, result.structured_content)
        if self.settings.lines_from == 0 and not tool.verbatim:
            text = results.lines_from_one(text)
        # What is added to a file has to have the ends of lines that the file has.
        parts = text.split("\r\n") if tool.file_argument else [text]
        text = results.cut(self._redactor.redact_output("\r\n".join(map(clean, parts))))
        failed = result.is_error or any(re.match(p, text) for p in self.settings.error_texts)
        return ToolResult(outcome=Outcome.FAILURE if failed else Outcome.SUCCESS, text=text)

    async def _up(self) -> Connection | None:
        """The connection to call, after a short wait if the upstream is starting."""
        with anyio.move_on_after(PATIENCE_SECONDS):
            while self.state == UpstreamState.STARTING or (
                self._was_ready and self.state in {UpstreamState.READY, UpstreamState.FAILED}
            ):
                if self.state == UpstreamState.READY and (connection := self._connection):
                    if connection.alive():
                        return connection
                    await self._lose(connection, "its process ended")
                self._wanted.set()
                await self.changed.wait()
        return None

    async def _start(self, connection: Connection) -> bool:
        try:
            with anyio.fail_after(self.settings.start_timeout_s + HANG_SECONDS):
                await connection.connect()
                await self._list_tools(connection)
        except Exception as error:  # noqa: BLE001  whatever a transport raises, the others go on
            await self._lose(connection, self._why_not_started(error))
            return False
        return True

    def _why_not_started(self, error: Exception) -> str:
        why = str(error) or type(error).__name__
        if isinstance(error, TimeoutError) or "Failed to initialize" in why:
            limit = f"{self.settings.start_timeout_s:g} s"
            return f"it did not answer within {limit}; raise `start_timeout_s`"
        if isinstance(cause := error.__cause__, OSError) and cause.filename:
            where = "install it, or correct `command` or `cwd`"
            return f"{cause.filename}: {cause.strerror}; {where}"
        if isinstance(error, ValidationError):
            return f"its tool list is not valid: {error.errors()[0]['msg']}"
        if isinstance(error, MCPError) and error.error.code == mcp_types.PARSE_ERROR:
            return why
        if self.settings.url:
            return f"{why}; check that {self.settings.url} is up and accepts the `headers`"
        return f"it ended while it started ({why}); see its log"

    async def _watch(self, connection: Connection) -> None:
        """Until the connection is lost: look at its process, list its tools when they change."""
        due = anyio.current_time()
        while not connection.lost:
            with anyio.move_on_after(POLL_SECONDS):
                await connection.news.wait()
            connection.news = anyio.Event()
            if self.held and await self._consented():
                connection.stale = True
            if connection.stale and not connection.lost and anyio.current_time() >= due:
                connection.stale = False
                with suppress(Exception):  # the list as it was is better than none
                    with anyio.fail_after(self.settings.call_timeout_s):
                        await self._list_tools(connection)
                due = anyio.current_time() + MIN_LISTING_PAUSE_SECONDS
            if not connection.lost and not connection.alive():
                await self._lose(connection, "its process ended")

    async def _list_tools(self, connection: Connection) -> None:
        found, unreadable = await connection.list_tools()
        listed = [results.redact_tool(tool, self._redactor.redact_output) for tool in found]
        specs = [results.tool_spec(tool, self.name, self.settings) for tool in listed]
        tools = {spec.name: spec for spec in sorted(filter(None, specs), key=lambda s: s.name)}
        if self.settings.pin_tools:
            await self._hold_back(listed, len(tools))
        allowed = [tool for tool in listed if results.is_allowed(tool, self.settings)]
        unreadable = [*unreadable, *filter(None, map(results.unusable, allowed))]
        before = self.unreadable
        self.unreadable = [self._scrub(why) for why in unreadable[:MAX_UNREADABLE]]
        if self.unreadable != before:
            log.warning(
                "%s: left out, because they are not valid tools: %s", self.name, self.unreadable
            )
        self.held = {name: held for name, held in self.held.items() if name in tools}
        self.tools = {name: spec for name, spec in tools.items() if name not in self.held}

    async def _hold_back(self, listed: Sequence[mcp_types.Tool], used: int) -> None:
        """Compare all listed tools with their pins: the operator may allow more than the `used`."""
        named = [tool for tool in listed if results.is_tool_name(tool.name)]
        definitions = {tool.name: Definition.of(tool) for tool in named}
        checked = await anyio.to_thread.run_sync(self._pins.check, self._identity, definitions)
        if checked.first_seen:
            self.first_seen = used
            log.info("%s: %d tools new and pinned", self.name, used)
        for held in checked.held.values():
            if held != self.held.get(held.tool):
                log.warning("%s: held back until `planloom tools --accept`: %s", self.name, held)
        if checked.problem:
            log.warning("%s: %s", self.name, checked.problem)
        self.held = checked.held

    async def _consented(self) -> bool:
        """Whether the operator has accepted a held tool since it was listed."""
        try:
            waiting = await anyio.to_thread.run_sync(self._pins.held, self._identity)
        except sqlite3.Error:
            return False  # the file is in use, or damaged: what was held stays so
        return not self.held.keys() <= {each.tool for each in waiting}

    async def _lose(self, connection: Connection, why: str) -> None:
        """Give up the connection: its calls end now, and a new one will be started."""
        await connection.heard()
        if not connection.lost and self.state != UpstreamState.CLOSED:
            tail = connection.log_tail()
            said = f"\nThe end of {connection.log}:\n{tail}" if tail else ""
            why = connection.fault or clean(why)
            if said and not self._for_operator:  # it may be about other callers
                log.warning("%s: %s", self.name, self._scrub(why + said))
                said = ""
            self._fail(why + said)
        connection.lose()

    def _fail(self, why: str) -> None:
        self._become(UpstreamState.FAILED, self._scrub(why))

    def _become(self, state: UpstreamState, error: str | None = None) -> None:
        if self.state == UpstreamState.CLOSED:
            return  # it stays closed, whatever is still under way
        self.state, self._error = state, error
        self.changed.set()
        self.changed = anyio.Event()

    def _scrub(self, text: str) -> str:
        return self._redactor.redact_message(clean(text))
