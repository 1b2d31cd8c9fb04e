"""The pool of upstream MCP servers: starts, restarts, filters and calls them.

One `fastmcp.Client` per upstream, in generations: FastMCP's client does not recover from a lost
connection, so a new one replaces it and the old one is closed in the background, bounded in time.
"""

import logging
import re
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.to_thread
import mcp_types
import psutil
from anyio.abc import TaskGroup, TaskStatus
from fastmcp.client.messages import MessageHandler
from fastmcp.client.progress import ProgressHandler
from fastmcp.client.transports import ClientTransport, StreamableHttpTransport
from mcp import InputRequiredRoundsExceededError, MCPError
from mcp.client.session import ClientRequestContext
from pydantic import ValidationError
from rapidfuzz import process

from planner.clock import Clock
from planner.state import RunState
from planner.tools import Outcome, ToolResult, ToolSpec, UpstreamStatus
from server import roots, toolresults
from server.bounded_http import bounded_client
from server.config import Settings, ToolSettings, UpstreamSettings
from server.conversation import NONE, Conversation
from server.launch import Launch, Launcher
from server.pins import Definition, Held, Pins, identity
from server.reaper import MARK
from server.redaction import Redactor
from server.reuse import Reuse
from server.sessions import REFUSALS, Session, UpstreamClient
from server.stdio import StdioTransport

# Their records repeat whatever an upstream printed and the URLs called, tokens included.
for _name in ("mcp.client", "httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

STARTING, READY, FAILED, CLOSED, DISABLED = "starting", "ready", "failed", "closed", "disabled"

FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 60.0
"""Between tries to start an upstream; doubled from the one to the other."""
STEADY_S = 60.0
"""An upstream that ran this long begins at the first delay again."""
PATIENCE_S = 8.0
"""How long a call waits for an upstream that is coming up."""
POLL_S = 1.0
"""How often a stdio upstream's process is looked at: its death sends no message."""
HANG_S = 5.0
"""How long after its own time limit a start that still has not ended counts as hung."""
HANGS = 3
"""So many calls in a row without an answer, and the upstream is started anew."""
MOST_UNREADABLE = 20
"""Listed things that are no tools, of which it is told why."""
SCOPED_SESSIONS = 4
"""Sessions with callers' own roots that are kept; those unused the longest go first."""
CALLS_AT_ONCE = 16
"""Calls that one upstream is given at a time; more wait, and their time has not begun."""
GRACE_S, KILL_S = 3.0, 1.5
"""For an upstream to end by itself, then for the client to notice that it was killed."""

log = logging.getLogger(__name__)


class UpstreamPool:
    """The tools of every upstream in `settings`; a `planner.tools.ToolPool`.

    Use as an async context manager: entering starts all upstreams side by side and returns at once,
    leaving ends them and every process they started. Calls run side by side.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        environ: Mapping[str, str] | None = None,
        cache_dir: Path | None = None,
        pins: Pins | None = None,
        launcher: Launcher | None = None,
        for_operator: bool = True,
    ) -> None:
        """`environ`: what upstreams' environments are picked from; None: ours. `cache_dir`: where
        their logs go; None: the user's cache directory. `pins`: None means the user's. `launcher`:
        of a `head_start`, which then has the two first. `for_operator`: callers are the operator,
        who may read what upstreams last wrote to their standard error."""
        self.problem: str | None = None
        """Why the upstreams file is not in force as it stands now."""
        self._launcher = launcher or Launcher(environ, cache_dir)
        self._reaper = self._launcher.reaper
        self._for_operator = for_operator
        self._reuse = Reuse()
        self._pins = pins or Pins()
        self._everyone = list(settings.upstreams.values())
        """Those that are gone, too: their secrets may still be said."""
        self._redactor = Redactor(self._everyone)
        self._upstreams = {
            name: self._made(name, upstream) for name, upstream in settings.upstreams.items()
        }
        self._retiring: set[_Upstream] = set()
        self._scoped: OrderedDict[tuple[_Upstream, tuple[str, ...]], _Upstream] = OrderedDict()
        """Sessions of their own, for callers whose roots are others than the operator's."""
        self._tasks: TaskGroup
        self._running: TaskGroup
        self._closing = anyio.Event()
        self._seen: list[object] = []
        self._catalogue: dict[str, ToolSpec] = {}

    def _made(self, name: str, settings: UpstreamSettings) -> "_Upstream":
        redactor = Redactor(self._everyone, settings)
        permitted = roots.resolved(each.get_secret_value() for each in settings.roots)
        given = (self._launcher, self._pins, redactor, permitted, self._for_operator)
        return _Upstream(name, settings, *given)

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        await self._tasks.start(self._run)
        return self

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        async with anyio.create_task_group() as self._running:
            self._start(self._upstreams.values())
            task_status.started()
            await self._closing.wait()
            self._running.cancel_scope.cancel()

    def _start(self, upstreams: Iterable["_Upstream"]) -> None:
        enabled = [each for each in upstreams if each.settings.enabled]
        if any(each.settings.command for each in enabled):
            self._reaper.start()
        for each in enabled:
            self._running.start_soon(each.run)

    def change(self, upstreams: Mapping[str, UpstreamSettings]) -> None:
        """Have these upstreams from now on: new ones start, those with other settings start anew,
        and the rest stays. Calls under way are answered by whom they were made to, which ends
        then."""
        before = self._upstreams
        settings = {name: each.settings for name, each in before.items()}
        if self._closing.is_set() or settings == upstreams:
            return
        self._everyone += [each for each in upstreams.values() if each not in self._everyone]
        self._upstreams = {
            name: before[name] if settings.get(name) == wanted else self._made(name, wanted)
            for name, wanted in upstreams.items()
        }
        for redactor in (self._redactor, *(each._redactor for each in before.values())):
            redactor.know(self._everyone)
        self._start(each for name, each in self._upstreams.items() if each is not before.get(name))
        for name, each in before.items():
            if each is not self._upstreams.get(name):
                self._retiring.add(each)
                self._running.start_soon(self._retire, each)
        for key in [key for key in self._scoped if key[0] in self._retiring]:
            self._retiring.add(self._scoped[key])
            self._running.start_soon(self._retire, self._scoped.pop(key))
        self._reuse.forget()

    async def _retire(self, upstream: "_Upstream") -> None:
        await upstream.retire()
        self._retiring.discard(upstream)

    def changed(self) -> Callable[[str], bool]:
        """Tells of an upstream, by its name, whether it was changed or taken out from now on."""
        before = self._upstreams
        return lambda name: self._upstreams.get(name) is not before.get(name)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
        # Without the exception, which would come out wrapped in a group.
        await self._tasks.__aexit__(None, None, None)

    async def aclose(self) -> None:
        """End every upstream within about five seconds, from any task. Calls in flight return an
        error; later calls do too."""
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as closing:
                for upstream in [
                    *self._upstreams.values(),
                    *self._scoped.values(),
                    *self._retiring,
                ]:
                    closing.start_soon(upstream.aclose)
                self._closing.set()
            await anyio.to_thread.run_sync(self._reaper.close)

    async def usable(self, patience: float, timeout: float) -> None:  # noqa: ASYNC109  bounds
        """Wait until each upstream is ready or failed; after `patience` seconds only until one is
        ready, and at most `timeout` seconds in all."""
        if await self.ready(patience):
            return
        with anyio.move_on_after(timeout - patience):
            while not any(upstream.state == READY for upstream in self._upstreams.values()):
                async with anyio.create_task_group() as tasks:
                    for upstream in self._upstreams.values():
                        tasks.start_soon(_changed, upstream, tasks.cancel_scope)

    async def ready(self, timeout: float) -> bool:  # noqa: ASYNC109  a bound, not a failure
        """Wait until each upstream is ready or failed; False if `timeout` seconds did not do."""
        with anyio.move_on_after(timeout):
            for upstream in self._upstreams.values():
                while upstream.state == STARTING:
                    await upstream.changed.wait()
            return True
        return False

    def upstreams(self) -> Sequence[UpstreamStatus]:
        return [upstream.status() for upstream in self._upstreams.values()]

    def tools(self) -> Sequence[ToolSpec]:
        return list(self._specs().values())

    def find(self, name: str) -> ToolSpec | None:
        """The tool of that name; `upstream.tool` names any tool, whether or not names clash."""
        if spec := self._specs().get(name):
            return spec
        upstream, _, tool = name.partition(".")
        specs = self._specs().values()
        return next((s for s in specs if s.upstream == upstream and s.name == tool), None)

    def held(self, name: str) -> Held | None:
        """The tool of that name, bare or as `upstream.tool`, if it waits for consent."""
        for upstream in self._upstreams.values():
            for tool, held in upstream.held.items():
                if name in (tool, f"{upstream.name}.{tool}"):
                    return held
        return None

    @property
    def first_seen(self) -> dict[str, int]:
        """How many tools were pinned now, by upstream, since nothing was known of them before."""
        return {name: each.first_seen for name, each in self._upstreams.items() if each.first_seen}

    @property
    def shadowed(self) -> list[str]:
        """Tools of several upstreams whose names are the same or look it, a line for each name."""
        alike: dict[str, list[ToolSpec]] = {}
        for spec in self._specs().values():
            alike.setdefault(toolresults.skeleton(spec.bare_name), []).append(spec)
        return [
            ", ".join(f"{spec.name} (of {spec.upstream})" for spec in specs)
            for specs in alike.values()
            if len({spec.upstream for spec in specs}) > 1
        ]

    def redacted(self, text: str) -> str:
        """A text of ours without what is recognisably a secret of an upstream."""
        return self._redactor.said(text)

    def nearest(self, name: str, n: int = 3) -> list[str]:
        """Up to `n` names of tools that look like `name`, the most alike first."""
        return [found[0] for found in process.extract(name, list(self._specs()), limit=n)]

    async def call(
        self,
        tool: ToolSpec,
        arguments: dict[str, Any],
        conversation: Conversation | None = None,
        roots: Sequence[str] | None = None,
    ) -> ToolResult:
        """See `planner.tools.ToolPool`. `conversation` gets what the upstream says besides; `roots`
        are the caller's folders, None where he did not say."""
        upstream = self._upstreams.get(tool.upstream)
        name = tool.bare_name
        if upstream is None or (upstream.state == READY and name not in upstream.tools):
            near = ", ".join(self.nearest(tool.name)) or "none"
            text = f"The tool {tool.name} does not exist. The nearest names: {near}."
            return ToolResult(outcome=Outcome.ERROR, text=text)
        session = self._session(upstream, roots)
        if not tool.read_only:
            try:
                return await session.call(name, arguments, conversation)
            finally:
                self._reuse.forget()
        seconds = upstream.settings.reuse_s if session is upstream else 0
        if seconds and (result := self._reuse.find(tool, arguments)):
            return result
        result = await session.call(name, arguments, conversation, reading=True)
        current = upstream is self._upstreams.get(tool.upstream)
        if seconds and current and not (conversation and conversation.asked):
            self._reuse.keep(tool, arguments, result, seconds)
        return result

    async def listing(self, roots: Sequence[str] | None = None) -> str | None:
        for upstream in self._upstreams.values():
            wanted = upstream.settings.listing
            if wanted and upstream.state == READY and wanted.tool in upstream.tools:
                session = self._session(upstream, roots)
                result = await session.call(wanted.tool, wanted.arguments)
                if result.outcome == Outcome.SUCCESS:
                    return toolresults.listing_text(result.text)
        return None

    @property
    def takes_roots(self) -> bool:
        """Whether it is of use to know the folders a caller works in."""
        return any(each.roots and each.state != DISABLED for each in self._upstreams.values())

    def _session(self, upstream: "_Upstream", given: Sequence[str] | None) -> "_Upstream":
        """The session for a caller of these roots. An upstream keeps its roots as long as it runs,
        so callers share one only if they have the same."""
        if given is None or not upstream.roots or self._closing.is_set():
            return upstream
        common = roots.within(given, upstream.roots)
        if common == upstream.roots:
            return upstream
        key = (upstream, common)
        if key not in self._scoped:
            self._scoped[key] = upstream.scoped(common)
            self._running.start_soon(self._scoped[key].run)
        self._scoped.move_to_end(key)
        for old in list(self._scoped)[:-SCOPED_SESSIONS]:
            if self._scoped[old].idle:
                self._running.start_soon(self._scoped.pop(old).aclose)
        return self._scoped[key]

    def _specs(self) -> dict[str, ToolSpec]:
        """The tools by their names in the pool, in the order of `tools()`."""
        seen: list[object] = [upstream.tools for upstream in self._upstreams.values()]
        if [id(tools) for tools in seen] != [id(tools) for tools in self._seen]:
            self._seen, self._catalogue = seen, self._named()
        return self._catalogue

    def _named(self) -> dict[str, ToolSpec]:
        specs = [spec for upstream in self._upstreams.values() for spec in upstream.tools.values()]
        specs.sort(key=lambda spec: -spec.priority)  # stable: the upstreams' order stays
        named: dict[str, ToolSpec] = {}
        for spec in specs:
            # A bare name like `git.log` must not pass for the tool `log` of an upstream `git`.
            looks_qualified = spec.name.partition(".")[0] in self._upstreams and "." in spec.name
            name = spec.name
            if name in named or looks_qualified:
                name = f"{spec.upstream}.{spec.name}"
            named[name] = spec.model_copy(update={"name": name})
        return named


class RunPool:
    """The pool as one run has it: what upstreams say and ask during its calls comes to the run, and
    they are told of its caller's folders."""

    def __init__(
        self,
        pool: UpstreamPool,
        given: Sequence[str] | None,
        state: RunState,
        converse: Callable[[ToolSpec, int | None], Conversation],
    ) -> None:
        """`given`: the caller's folders, None where he did not say. `converse` begins what is said
        during a call, given its iteration."""
        self._pool, self._roots = pool, given
        self._state, self._converse = state, converse

    def tools(self) -> Sequence[ToolSpec]:
        return self._pool.tools()

    def upstreams(self) -> Sequence[UpstreamStatus]:
        return self._pool.upstreams()

    async def listing(self) -> str | None:
        return await self._pool.listing(self._roots)

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        conversation = self._converse(tool, self._iteration(tool, arguments))
        try:
            return await self._pool.call(tool, arguments, conversation, self._roots)
        finally:
            conversation.end()

    def _iteration(self, tool: ToolSpec, arguments: dict[str, Any]) -> int | None:
        """The run's iteration that waits for this call; its arguments may have been widened."""
        under_way = [
            each
            for each in self._state.iterations
            if each.tool == tool.name and each.upstream and each.outcome is None
        ]
        same = [each for each in under_way if each.arguments == arguments]
        return (same or under_way)[-1].number if under_way else None


async def _changed(upstream: "_Upstream", heard: anyio.CancelScope) -> None:
    await upstream.changed.wait()
    heard.cancel()


class _Upstream:
    """One upstream: its state, its tools as last listed, and the client in use."""

    def __init__(
        self,
        name: str,
        settings: UpstreamSettings,
        launcher: Launcher,
        pins: Pins,
        redactor: Redactor,
        roots: tuple[str, ...] = (),
        for_operator: bool = True,
    ) -> None:
        self.name = name
        self.settings = settings
        self.roots = roots
        """The folders it is told of; none, and it cannot ask for any."""
        self.state = STARTING if settings.enabled else DISABLED
        self.tools: dict[str, ToolSpec] = {}
        """Kept while the upstream is down: what a model was told exists does not come and go."""
        self.held: dict[str, Held] = {}
        """Tools that wait for the operator's consent, and are not among the others."""
        self.first_seen = 0
        self.unreadable: list[str] = []
        """What was listed and is no tool, and why."""
        self.changed = anyio.Event()
        self._launcher = launcher
        self._pins, self._pins_stamp, self._redactor = pins, 0, redactor
        self._identity = identity(name, settings)
        self._error = None if settings.enabled else "it is switched off; set `enabled: true`"
        self._generation: _Generation | None = None
        self._wanted = anyio.Event()
        self._was_ready = False
        self._turns = anyio.CapacityLimiter(CALLS_AT_ONCE)
        self._for_operator = for_operator

    def scoped(self, roots: tuple[str, ...]) -> "_Upstream":
        """A session of its own, with these roots."""
        given = (self._launcher, self._pins, self._redactor, roots, self._for_operator)
        return _Upstream(self.name, self.settings, *given)

    @property
    def idle(self) -> bool:
        """Whether nobody waits for it."""
        return not self._turns.borrowed_tokens

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
        delay = FIRST_DELAY_S
        async with anyio.create_task_group() as disposals:
            while self.state != CLOSED:
                try:
                    generation = _Generation(
                        self.name,
                        self.settings,
                        self._launcher,
                        self._redactor,
                        self.roots if self.settings.roots else None,
                    )
                except ValueError as error:  # nothing to connect to: trying is no use
                    self._become(FAILED, self._scrub(str(error)))
                    return
                self._generation = generation
                self._become(STARTING, self._error)  # the last try's, until one succeeds
                self._was_ready = await self._start(generation)
                if self._was_ready:
                    started = anyio.current_time()
                    self._wanted = anyio.Event()
                    self._become(READY)
                    await self._watch(generation)
                    if anyio.current_time() - started > STEADY_S:
                        delay = FIRST_DELAY_S
                polite = self._was_ready and not generation.fault
                disposals.start_soon(generation.dispose, GRACE_S if polite else 0)
                with anyio.move_on_after(delay):
                    await (self._wanted.wait() if self._was_ready else anyio.sleep_forever())
                delay = min(2 * delay, LONGEST_DELAY_S)

    async def retire(self) -> None:
        """End as soon as the calls under way are answered."""
        with anyio.move_on_after(self.settings.call_timeout_s + HANG_S):
            while self._turns.borrowed_tokens:  # noqa: ASYNC110  a limiter sets no event
                await anyio.sleep(POLL_S)
        await self.aclose("it was changed in the upstreams file")

    async def aclose(self, why: str = "the pool is closed") -> None:
        if self.state == DISABLED:
            return
        was_ready = self.state == READY
        self._become(CLOSED, why)
        if generation := self._generation:
            generation.lose()
            await generation.dispose(GRACE_S if was_ready else 0)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        conversation: Conversation | None = None,
        reading: bool = False,
    ) -> ToolResult:
        """`reading`: not unless the tool only reads when the call goes out, whatever it did when
        the call was decided on."""
        async with self._turns:
            return await self._call_now(name, arguments, conversation, reading)

    async def _call_now(
        self,
        name: str,
        arguments: Mapping[str, Any],
        conversation: Conversation | None,
        reading: bool,
    ) -> ToolResult:
        started = anyio.current_time()
        answered = True
        generation = await self._up()
        if generation is None:
            outcome, text = Outcome.ERROR, f"{self.name} is {self.state}: {self._error}"
        elif name not in self.tools:
            outcome, text = Outcome.ERROR, f"{self.name} no longer has the tool {name}."
        elif reading and not self.tools[name].read_only:
            outcome = Outcome.ERROR
            text = f"{name} may do more than read now; the call was not approved and not made."
        else:
            outcome, text = await self._call(generation, name, arguments, conversation)
            text = conversation.hidden(text) if conversation else text
            lost = outcome is Outcome.ERROR and generation.lost
            answered = not lost and outcome is not Outcome.TIMEOUT
        seconds = anyio.current_time() - started
        return ToolResult(outcome=outcome, text=text, seconds=seconds, answered=answered)

    async def _call(
        self,
        generation: "_Generation",
        name: str,
        arguments: Mapping[str, Any],
        conversation: Conversation | None,
    ) -> tuple[Outcome, str]:
        tool = self.settings.tools.get(name, ToolSettings())
        if self.settings.lines_from == 0:
            arguments = toolresults.lines_from_zero(arguments)
        arguments = {**arguments, **tool.arguments}
        if not toolresults.is_sendable(arguments):
            return Outcome.ERROR, "The arguments are not JSON that can be sent; write them anew."
        clock = conversation.clock if conversation else Clock()
        with clock.limit(clock.seconds + self.settings.call_timeout_s) as scope:
            try:
                with generation.serving(scope, conversation) as progressed:
                    result = await generation.client.call_tool_mcp(name, arguments, progressed)
                generation.timeouts = 0
                return self._read(result, tool)
            except MCPError as error:
                if error.error.message in REFUSALS:
                    return Outcome.ERROR, f"{self.name} gave {name} up. {error.error.message}"
                if generation.survives(error):
                    unread = error.error.code == mcp_types.PARSE_ERROR
                    how = f"answered {name}, but" if unread else "refused the call:"
                    return Outcome.ERROR, self._scrub(f"{self.name} {how} {error}")
                self._lose(generation, str(error))
            except InputRequiredRoundsExceededError as error:
                return Outcome.ERROR, f"{self.name} asked for input {error.max_rounds} times"
            except ValidationError as error:
                text = f"{self.name} answered {name}, but its answer is no tool result"
                return Outcome.ERROR, self._scrub(f"{text}: {error.errors()[0]['msg']}")
            except Exception as error:  # noqa: BLE001  whatever a transport raises, the run goes on
                self._lose(generation, str(error) or type(error).__name__)
        if scope.cancelled_caught and not generation.lost:
            return self._timed_out(generation, name)
        return Outcome.ERROR, f"{self.name} was lost during {name}: {self._error}"

    def _timed_out(self, generation: "_Generation", name: str) -> tuple[Outcome, str]:
        generation.timeouts += 1
        if generation.timeouts >= HANGS:
            self._lose(generation, f"{HANGS} calls in a row ran out of time")
        limit = f"{self.settings.call_timeout_s:g} s"
        return Outcome.TIMEOUT, f"{name} did not end within {limit}; ask it for less."

    def _read(self, result: mcp_types.CallToolResult, tool: ToolSettings) -> tuple[Outcome, str]:
        text = toolresults.content_text(result.content, result.structured_content)
        if self.settings.lines_from == 0 and not tool.verbatim:
            text = toolresults.lines_from_one(text)
        text = toolresults.cut(self._redactor.said(toolresults.clean(text)))
        failed = result.is_error or any(re.match(p, text) for p in self.settings.error_texts)
        return (Outcome.FAILURE if failed else Outcome.SUCCESS), text

    async def _up(self) -> "_Generation | None":
        """The client to call, waited for a moment if the upstream is coming up."""
        with anyio.move_on_after(PATIENCE_S):
            while self.state == STARTING or (self._was_ready and self.state in {READY, FAILED}):
                if self.state == READY and (generation := self._generation):
                    if generation.alive():
                        return generation
                    self._lose(generation, "its process ended")
                self._wanted.set()
                await self.changed.wait()
        return None

    async def _start(self, generation: "_Generation") -> bool:
        try:
            with anyio.fail_after(self.settings.start_timeout_s + HANG_S):
                await generation.connect()
                await self._list_tools(generation)
        except Exception as error:  # noqa: BLE001  whatever a transport raises, the others go on
            self._lose(generation, self._why_not_started(error))
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
            return f"{why}; see that {self.settings.url} is up and takes the `headers`"
        return f"it ended while it started ({why}); see its log"

    async def _watch(self, generation: "_Generation") -> None:
        """Until the generation is lost: look at its process, list its tools when they change."""
        while not generation.lost:
            with anyio.move_on_after(POLL_S):
                await generation.news.wait()
            generation.news = anyio.Event()
            if self.held and await self._consented():
                generation.stale = True
            if generation.stale and not generation.lost:
                generation.stale = False
                with suppress(Exception):  # the list as it was is better than none
                    with anyio.fail_after(self.settings.call_timeout_s):
                        await self._list_tools(generation)
            if not generation.lost and not generation.alive():
                self._lose(generation, "its process ended")

    async def _list_tools(self, generation: "_Generation") -> None:
        found, unreadable = await generation.list_tools()
        listed = [toolresults.redacted(tool, self._redactor.said) for tool in found]
        specs = [toolresults.tool_spec(tool, self.name, self.settings) for tool in listed]
        tools = {spec.name: spec for spec in sorted(filter(None, specs), key=lambda s: s.name)}
        if self.settings.pin_tools:
            await self._hold_back(listed, len(tools))
        before = self.unreadable
        self.unreadable = [self._scrub(why) for why in unreadable[:MOST_UNREADABLE]]
        if self.unreadable != before:
            log.warning("%s: left out, since they are no tools: %s", self.name, self.unreadable)
        self.held = {name: held for name, held in self.held.items() if name in tools}
        self.tools = {name: spec for name, spec in tools.items() if name not in self.held}

    async def _hold_back(self, listed: Sequence[mcp_types.Tool], used: int) -> None:
        """Compare all that is listed with its pins, beyond the `used` ones: what the operator
        denies may be allowed some day, and is not new then."""
        definitions = {tool.name: Definition.of(tool) for tool in listed}
        checked = await anyio.to_thread.run_sync(self._pins.check, self._identity, definitions)
        if checked.first_seen:
            self.first_seen = used
            log.info("%s: %d tools seen first and pinned", self.name, used)
        for held in checked.held.values():
            if held != self.held.get(held.tool):
                log.warning("%s: held back until `planloom tools --accept`: %s", self.name, held)
        if checked.problem:
            log.warning("%s: %s", self.name, checked.problem)
        self.held = checked.held

    async def _consented(self) -> bool:
        """Whether a tool that was held back waits no longer, by the file that has changed."""
        stamp, before = self._pins.stamp(), self._pins_stamp
        self._pins_stamp = stamp
        if stamp == before:
            return False
        try:
            waiting = await anyio.to_thread.run_sync(self._pins.held, self._identity)
        except sqlite3.Error:
            return False  # the file is in use, or damaged: what was held stays so
        return not self.held.keys() <= {each.tool for each in waiting}

    def _lose(self, generation: "_Generation", why: str) -> None:
        """The generation is of no more use: its calls end now and a new one will be started."""
        if not generation.lost and self.state != CLOSED:
            tail = generation.log_tail()
            said = f"\nThe end of {generation.log}:\n{tail}" if tail else ""
            why = generation.fault or toolresults.clean(why)
            if said and not self._for_operator:  # it may be about other callers
                log.warning("%s: %s", self.name, self._scrub(why + said))
                said = ""
            self._become(FAILED, self._scrub(why + said))
        generation.lose()

    def _become(self, state: str, error: str | None = None) -> None:
        if self.state == CLOSED:
            return  # for good, whatever is still under way
        self.state, self._error = state, error
        self.changed.set()
        self.changed = anyio.Event()

    def _scrub(self, text: str) -> str:
        return self._redactor.told(toolresults.clean(text))


class _Changes(MessageHandler):
    """Notes that the tool list changed; the watcher fetches it, for a handler must not wait."""

    def __init__(self, generation: "_Generation") -> None:
        self._generation = generation

    async def on_tool_list_changed(self, message: mcp_types.ToolListChangedNotification) -> None:
        self._generation.stale = True
        self._generation.news.set()


_CALL: ContextVar[Conversation | None] = ContextVar("_CALL", default=None)
"""The conversation of the call that is being made, which the SDK carries along: to what asks for
input since 2026-07-28, and over HTTP to all that an upstream says in answer to the call."""


class _Generation:
    """One client of an upstream, from its start to the end of its last process."""

    def __init__(
        self,
        name: str,
        settings: UpstreamSettings,
        launcher: Launcher,
        redactor: Redactor,
        roots: tuple[str, ...] | None = None,
    ) -> None:
        """`roots`: None: it cannot ask for any."""
        self.lost = False
        self.stale = False
        self.news = anyio.Event()
        """Set when `lost` or `stale` became true."""
        self.calls: dict[anyio.CancelScope, Conversation | None] = {}
        """Those under way."""
        self.timeouts = 0
        """Calls in a row that ran out of time."""
        self.log = launcher.cache_dir / "logs" / f"{name}.log"
        self._process: psutil.Process | None = None
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
            transport = self._stdio = StdioTransport(self._launch, self.log, redactor.told)
        self._redactor = redactor
        self.client = UpstreamClient(
            transport,
            self._asked if settings.questions else None,
            name=name,
            roots=None if roots is None else [Path(root).as_uri() for root in roots],
            log_handler=self._logged,
            message_handler=_Changes(self),
            init_timeout=settings.start_timeout_s,
        )

    async def connect(self) -> None:
        await self.client.__aenter__()  # type: ignore[no-untyped-call]
        if self._stdio and self._stdio.pid:
            with suppress(psutil.NoSuchProcess):
                self._process = psutil.Process(self._stdio.pid)

    async def list_tools(self) -> tuple[list[mcp_types.Tool], list[str]]:
        """Its tools, and why what else it lists is none."""
        session = self.client.session
        assert isinstance(session, Session)
        unreadable = session.dispatcher.unreadable = []
        return await self.client.list_tools(), unreadable

    @contextmanager
    def serving(
        self, scope: anyio.CancelScope, conversation: Conversation | None
    ) -> Iterator[ProgressHandler | None]:
        """While a call is under way: what the upstream says goes to its conversation; yields what
        takes its progress. A generation that is lost cancels the `scope`."""

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            if conversation:
                said = self._redactor.said(toolresults.clean(message or ""))
                conversation.progressed(progress, total, said)

        self.calls[scope] = conversation
        token = _CALL.set(conversation)
        try:
            yield progressed if conversation else None
        finally:
            _CALL.reset(token)
            del self.calls[scope]

    def _speaking(self) -> Conversation | None:
        """The call during which an upstream says something. Over stdio, up to 2025-11-25, nothing
        tells: it is known as long as only one run's calls are under way. Else it is nobody's, so
        that no caller gets what is meant for another."""
        if known := _CALL.get():
            return known
        calls = list(self.calls.values())
        if not calls or len({each and each.approvals for each in calls}) > 1:
            return None
        return calls[-1]

    async def _asked(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult:
        conversation = self._speaking()
        return await conversation.ask(params, self._redactor.said) if conversation else NONE

    async def _logged(self, message: mcp_types.LoggingMessageNotificationParams) -> None:
        if conversation := self._speaking():
            text = toolresults.log_text(message.data)
            conversation.logged(message.level, self._redactor.said(text))

    @property
    def fault(self) -> str | None:
        """Why we gave the connection up, if it was we who did."""
        return self._stdio.fault if self._stdio else self._excess

    def _exceeded(self, why: str) -> None:
        self._excess = why

    def alive(self) -> bool:
        """False once the process is known to have ended; over HTTP only a call can tell."""
        return self._process is None or _runs(self._process)

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

    async def dispose(self, grace: float = GRACE_S) -> None:
        """Close the client and end all it started: politely for `grace` seconds, then by force."""
        if self._disposed:
            await self._disposed.wait()
            return
        self._disposed = anyio.Event()
        with anyio.CancelScope(shield=True):
            family = await anyio.to_thread.run_sync(self._family)
            async with anyio.create_task_group() as closing:
                closed = anyio.Event()
                closing.start_soon(self._close, closed)
                with anyio.move_on_after(grace):
                    await closed.wait()
                await anyio.to_thread.run_sync(self._kill, family)
                with anyio.move_on_after(KILL_S):
                    await closed.wait()
                closing.cancel_scope.cancel()
        self._disposed.set()

    async def _close(self, closed: anyio.Event) -> None:
        # A client whose connection broke raises on closing, and then its transport is still open.
        for close in (self.client.close, self.client.transport.close):
            with suppress(Exception):
                await close()  # type: ignore[no-untyped-call]
        closed.set()

    def _family(self) -> list[psutil.Process]:
        """The process and its descendants. To be asked while the process lives: a descendant that
        outlives it is nobody's child."""
        with suppress(psutil.Error):
            if self._process:
                return [self._process, *self._process.children(recursive=True)]
        return []

    def _kill(self, family: list[psutil.Process]) -> None:
        family = [*family, *self._marked(psutil.process_iter())]
        for member in family:
            with suppress(psutil.Error):
                member.kill()
        deadline = time.monotonic() + KILL_S
        while any(map(_runs, family)) and time.monotonic() < deadline:
            time.sleep(0.01)

    def _marked(self, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
        """Those that inherited this generation's mark in their environment."""
        found: list[psutil.Process] = []
        if self._launch is None:
            return found
        for candidate in processes:
            with suppress(psutil.Error):
                if candidate.environ().get(MARK) == self._launch.mark:
                    found.append(candidate)
        return found

    def log_tail(self, lines: int = 5) -> str:
        """The last lines it wrote to its standard error."""
        words = self._stdio.last_words if self._stdio else ""
        return "\n".join(toolresults.clean(words).strip().splitlines()[-lines:])


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _ready_log(path: Path) -> None:
    """Where an upstream's standard error goes; readable by the user only."""
    with suppress(OSError):  # a disk that takes no log is no reason to do without the upstream
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
