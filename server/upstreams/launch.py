"""The processes of stdio upstreams, each with its own environment and known to the reaper. Nothing
of MCP is imported here: FastMCP takes a second to import and an upstream about as long to start, so
a command starts the upstreams first (`head_start`) and imports the rest meanwhile."""

import os
import re
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import Process
from platformdirs import user_cache_path

from server.config import Settings, UpstreamSettings
from server.upstreams.reaper import MARK, Reaper

BASE_ENVIRONMENT = re.compile(
    r"HOME|USER|LOGNAME|LANG|LANGUAGE|TERM|TMPDIR|TEMP|TMP|SHELL|TZ"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
    r"|HTTPS?_PROXY|ALL_PROXY|NO_PROXY"
    r"|(?:LC|XDG|UV|PIP|NPM_CONFIG)_\w+",
    re.IGNORECASE,
)
"""What every stdio upstream gets of our environment, besides PATH. Anything else, such as a key,
has to be named in its own `env`. UV_, PIP_ and NPM_CONFIG_ say where packages come from."""


class Launch:
    """One start of a stdio upstream: what it is started with, and its process."""

    def __init__(self, settings: UpstreamSettings, cache_dir: Path, reaper: Reaper) -> None:
        assert settings.command  # the settings hold a command or a URL
        self.mark = f"{reaper.mark}.{uuid.uuid4().hex}"
        """The value that every process below it has in its environment."""
        self.command = settings.command.get_secret_value()
        self.args = [arg.get_secret_value() for arg in settings.args]
        self.cwd = settings.cwd.get_secret_value() if settings.cwd else _nowhere(cache_dir)
        own = {name: value.get_secret_value() for name, value in settings.env.items()}
        self.env = child_environment(os.environ) | own | {MARK: self.mark}
        self.reaper = reaper
        self._process: Process | None = None

    async def process(self) -> Process:
        """The process, as the leader of a process group; started once. Raises `OSError`."""
        if self._process is None:
            self._process = await anyio.open_process(
                [self.command, *self.args], env=self.env, cwd=self.cwd, start_new_session=True
            )
            self.reaper.adopt(self._process.pid)
        return self._process

    async def aclose(self) -> None:
        """End the process, if it was started. What it started itself is the reaper's."""
        if self._process:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.aclose()


class Launcher:
    """Makes the launches of one server. `cache_dir`: by default the user's cache directory."""

    def __init__(self, cache_dir: Path | None = None) -> None:
        self.cache_dir = cache_dir or user_cache_path("planloom")
        self.reaper = Reaper()
        self._ahead: dict[str, Launch] = {}
        """Launches of upstreams that nobody has asked for yet."""

    def launch(self, name: str, settings: UpstreamSettings) -> Launch:
        """The launch that `begin` has started, or a new one."""
        return self._ahead.pop(name, None) or Launch(settings, self.cache_dir, self.reaper)

    async def begin(self, upstreams: Mapping[str, UpstreamSettings]) -> None:
        """Start the process of each upstream that is a command, before anything talks to it."""
        commands = {n: each for n, each in upstreams.items() if each.enabled and each.command}
        if not commands:
            return
        self.reaper.start()
        for name, each in commands.items():
            launch = self._ahead[name] = Launch(each, self.cache_dir, self.reaper)
            with suppress(OSError, ValueError):  # the next caller tries again, and gets the error
                await launch.process()

    async def aclose(self) -> None:
        """End the processes that nobody has used."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.reaper.close)
            for launch in self._ahead.values():
                await launch.aclose()


@asynccontextmanager
async def head_start(settings: Settings) -> AsyncIterator[Launcher]:
    """A launcher for `UpstreamPool` that has begun with all upstreams."""
    async with aclosing(Launcher()) as launcher:
        await launcher.begin(settings.upstreams)
        yield launcher


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The base environment of every upstream, with our scripts first in PATH: `uvx` is there."""
    scripts = str(Path(sys.executable).parent)
    path = os.pathsep.join(part for part in (scripts, environ.get("PATH")) if part)
    return {k: v for k, v in environ.items() if BASE_ENVIRONMENT.fullmatch(k)} | {"PATH": path}


def _nowhere(cache_dir: Path) -> str:
    """An empty directory, or the root if none can be made."""
    nowhere = cache_dir / "empty"
    with suppress(OSError):
        nowhere.mkdir(parents=True, exist_ok=True)
        return str(nowhere)
    return nowhere.anchor
