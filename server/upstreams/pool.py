"""The pool of upstream MCP servers, and what a run sees of it."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from planner.checks.guards.decisions import unknown_tool
from planner.state import RunState
from planner.tools import (
    Outcome,
    PoolAround,
    ToolResult,
    ToolSpec,
    UpstreamState,
    UpstreamStatus,
    failed_call,
    find,
)
from server.background import background_tasks, cancel_on
from server.config import Settings, UpstreamSettings
from server.upstreams import results
from server.upstreams.launch import Launcher
from server.upstreams.pins import HeldTool, Pins
from server.upstreams.redaction import Redactor
from server.upstreams.side_channel import SideChannel
from server.upstreams.upstream import Upstream

COURTESY_SECONDS = 1.0
"""How long a run waits for an upstream that it does not need."""


class UpstreamPool(anyio.AsyncContextManagerMixin):
    """The tools of every upstream in `settings`; a `planner.tools.ToolPool`. Entering it starts the
    upstreams and returns at once; leaving ends them and every process they started."""

    def __init__(
        self,
        settings: Settings,
        *,
        pins: Pins | None = None,
        launcher: Launcher | None = None,
        for_operator: bool = True,
    ) -> None:
        """`pins`: None: the user's. `launcher`: of a `head_start`; None: a new one. `for_operator`:
        callers are the operator, who may read what upstreams last wrote to their standard error."""
        self.problem: str | None = None
        """Why the newest changes of the upstreams file are not in effect."""
        self.project = settings.project
        self._launcher = launcher or Launcher()
        self._for_operator = for_operator
        self._pins = pins or Pins()
        self._everyone = list(settings.upstreams.values())
        """Also those that are gone: their secrets may still appear."""
        self._redactor = Redactor(self._everyone)
        self._upstreams = {
            name: self._new(name, upstream) for name, upstream in settings.upstreams.items()
        }
        self._retiring: set[Upstream] = set()
        self._running: TaskGroup
        self._closed = False
        self._seen: list[object] = []
        self._catalogue: list[ToolSpec] = []

    def _new(self, name: str, settings: UpstreamSettings) -> Upstream:
        redactor = Redactor(self._everyone, settings)
        return Upstream(name, settings, self._launcher, self._pins, redactor, self._for_operator)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with background_tasks() as self._running:
            self._start(self._upstreams.values())
            try:
                yield self
            finally:
                await self.aclose()

    def _start(self, upstreams: Iterable[Upstream]) -> None:
        enabled = [each for each in upstreams if each.settings.enabled]
        if any(each.settings.command for each in enabled):
            self._launcher.reaper.start()
        for each in enabled:
            self._running.start_soon(each.run)

    def change(self, upstreams: Mapping[str, UpstreamSettings]) -> None:
        """Have these upstreams from now on: new ones start, those with other settings restart, and
        the rest stays. An upstream that is replaced answers its calls under way, and ends then."""
        before = self._upstreams
        settings = {name: each.settings for name, each in before.items()}
        if self._closed or settings == upstreams:
            return
        self._everyone += [each for each in upstreams.values() if each not in self._everyone]
        self._upstreams = {
            name: before[name] if settings.get(name) == wanted else self._new(name, wanted)
            for name, wanted in upstreams.items()
        }
        for redactor in (self._redactor, *(each._redactor for each in before.values())):
            redactor.know(self._everyone)
        self._start(each for name, each in self._upstreams.items() if each is not before.get(name))
        for name, each in before.items():
            if each is not self._upstreams.get(name):
                self._retiring.add(each)
                self._running.start_soon(self._retire, each)

    async def _retire(self, upstream: Upstream) -> None:
        await upstream.retire()
        self._retiring.discard(upstream)

    def changed(self) -> Callable[[str], bool]:
        """A function that tells whether the upstream of a name was changed or removed since."""
        before = self._upstreams
        return lambda name: self._upstreams.get(name) is not before.get(name)

    async def aclose(self) -> None:
        """End every upstream in about five seconds, from any task. Open and later calls fail."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as closing:
                for upstream in [*self._upstreams.values(), *self._retiring]:
                    closing.start_soon(upstream.aclose)
            await anyio.to_thread.run_sync(self._launcher.reaper.close)

    async def usable(
        self,
        patience: float,
        timeout: float,  # noqa: ASYNC109  a bound
        prompt: str = "",
    ) -> None:
        """Wait for what a run needs: the upstreams that read the project or that its prompt names.
        All of them get `patience` seconds to be ready or to fail. Then one has to be ready, or any
        upstream if none of them is in its first start. `timeout` bounds both."""
        every = list(self._upstreams.values())
        named = [each for each in every if each.name.lower() in prompt.lower()]
        reading = [*named, *(each for each in every if each.settings.reads_project)] or every
        if await _settled(reading, patience) and any(
            each.state == UpstreamState.READY for each in reading
        ):
            await _settled(every, min(patience, COURTESY_SECONDS))
            return
        if await _settled(every, 0):
            return
        with anyio.move_on_after(timeout - patience):
            # The first start of what reads the project may fetch it: nothing else answers for it.
            while not any(
                each.state == UpstreamState.READY
                for each in (reading if any(map(_first_start, reading)) else every)
            ):
                async with anyio.create_task_group() as tasks:
                    for upstream in self._upstreams.values():
                        tasks.start_soon(cancel_on, upstream.changed, tasks.cancel_scope)

    async def ready(self, timeout: float) -> bool:  # noqa: ASYNC109  a bound, not a failure
        return await _settled(self._upstreams.values(), timeout)

    def upstreams(self) -> Sequence[UpstreamStatus]:
        return [upstream.status() for upstream in self._upstreams.values()]

    def tools(self) -> Sequence[ToolSpec]:
        seen: list[object] = [upstream.tools for upstream in self._upstreams.values()]
        if [id(tools) for tools in seen] != [id(tools) for tools in self._seen]:
            self._seen, self._catalogue = seen, self._named()
        return list(self._catalogue)

    def find(self, name: str) -> ToolSpec | None:
        """The tool of that name; `upstream.tool` names any tool, whether or not names clash."""
        return find(name, self.tools())

    def held(self, name: str) -> HeldTool | None:
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
        for spec in self.tools():
            alike.setdefault(results.skeleton(spec.bare_name), []).append(spec)
        return [
            ", ".join(f"{spec.name} (of {spec.upstream})" for spec in specs)
            for specs in alike.values()
            if len({spec.upstream for spec in specs}) > 1
        ]

    def redact(self, text: str) -> str:
        """The text without recognisable secrets of upstreams."""
        return self._redactor.redact_output(text)

    async def call(
        self, tool: ToolSpec, arguments: dict[str, Any], channel: SideChannel | None = None
    ) -> ToolResult:
        """See `planner.tools.ToolPool`. `channel` gets what else the upstream sends."""
        upstream = self._upstreams.get(tool.upstream)
        name = tool.bare_name
        if upstream is None or (
            upstream.state == UpstreamState.READY and name not in upstream.tools
        ):
            return failed_call(unknown_tool(tool.name, self.tools()))
        return await upstream.call(name, arguments, channel, reading=tool.read_only)

    async def listing(self) -> str | None:
        for upstream in self._upstreams.values():
            wanted = upstream.settings.listing
            if wanted and upstream.state == UpstreamState.READY and wanted.tool in upstream.tools:
                result = await upstream.call(wanted.tool, wanted.arguments)
                if result.outcome == Outcome.SUCCESS:
                    return results.listing_text(result.text)
        return None

    def _named(self) -> list[ToolSpec]:
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
        return list(named.values())


class RunPool(PoolAround):
    """The pool of one run. What upstreams say during its calls reaches the run."""

    def __init__(
        self,
        pool: UpstreamPool,
        state: RunState,
        open_channel: Callable[[ToolSpec, int | None], SideChannel],
    ) -> None:
        """`open_channel` opens the side channel of a call in an iteration."""
        super().__init__(pool)
        self._upstreams, self._state, self._open_channel = pool, state, open_channel

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        channel = self._open_channel(tool, self._iteration(tool, arguments))
        try:
            return await self._upstreams.call(tool, arguments, channel)
        finally:
            channel.end()

    def _iteration(self, tool: ToolSpec, arguments: dict[str, Any]) -> int | None:
        """The run's iteration that waits for this call; its arguments may have been widened."""
        under_way = [
            each
            for each in self._state.iterations
            if each.tool == tool.name and each.upstream and each.outcome is None
        ]
        same = [each for each in under_way if each.arguments == arguments]
        return (same or under_way)[-1].number if under_way else None


def _first_start(upstream: Upstream) -> bool:
    return upstream.state == UpstreamState.STARTING and not upstream.status().error


async def _settled(upstreams: Iterable[Upstream], timeout: float) -> bool:  # noqa: ASYNC109  a bound
    """Wait until each is ready or failed; False if `timeout` seconds did not do."""
    with anyio.move_on_after(timeout):
        for upstream in upstreams:
            while upstream.state == UpstreamState.STARTING:
                await upstream.changed.wait()
        return True
    return False
