"""`planloom doctor`: what is installed, what is wrong, and how to fix it."""

import os
import platform
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.metadata import version

from rich.text import Text

from planner.errors import EMBEDDED_EXTRA, ModelUnavailable
from planner.models.ollama import OllamaServer, host_url, probe
from planner.models.weights import cached
from planner.text import counted, indented
from planner.tools import Safety, UpstreamState
from server.backends import api_client, api_models, embedded_installed, missing_model
from server.cli.runs import console, output
from server.cli.trial.results import best, load_results, write_command
from server.config import ModelSettings, Settings
from server.config_file import named_variables, shipped_file
from server.runs.execution import START_SECONDS
from server.upstreams.listing import pool_listing
from server.upstreams.pool import UpstreamPool


@dataclass(frozen=True)
class Finding:
    """One result of the doctor. `fix` says how to correct it, if something is wrong."""

    what: str
    detail: str
    fix: str | None = None
    tip: str | None = None
    """What would be better, though nothing is wrong."""


async def examine(settings: Settings) -> int:
    """Print every finding; 1 when something has to be fixed."""
    wrong = 0
    async for finding in findings(settings):
        wrong += finding.fix is not None
        mark, style = ("TIP ", "yellow") if finding.tip else ("ok  ", "green")
        mark, style = ("FIX ", "red") if finding.fix else (mark, style)
        detail = indented(finding.detail, 6)
        line = Text.assemble((mark, style), (f"{finding.what}: ", "bold"), detail)
        output.print(line, soft_wrap=True)
        if said := finding.fix or finding.tip:
            output.print(Text(f"      {said}"), soft_wrap=True)
    output.print(Text("Nothing to fix." if not wrong else f"To fix: {wrong}", style="bold"))
    return 1 if wrong else 0


async def findings(settings: Settings) -> AsyncIterator[Finding]:
    packages = ", ".join(f"{name} {version(name)}" for name in ("fastmcp", "mcp", "ollama"))
    yield Finding("planloom", f"{version('planloom')} on Python {platform.python_version()}")
    yield Finding("packages", packages)
    yield Finding("project", str(settings.project))
    yield Finding("upstreams file", str(settings.source))
    named = named_variables(settings.source) if settings.source else []
    if unset := [name for name in named if not os.environ.get(name)]:
        detail = f"{', '.join(unset)}; an upstream that needs one says so"
        yield Finding("variables not set", detail)
    for finding in await _models(settings):
        yield finding
    with console.status("starting the upstreams"):
        async with UpstreamPool(settings) as pool:
            await pool.ready(START_SECONDS)
            found = pool_listing(pool)
    for upstream in found.upstreams:
        mine = [tool for tool in found.tools if tool.upstream == upstream.name]
        free = sum(tool.safety is Safety.READ_ONLY for tool in mine)
        if upstream.state is UpstreamState.READY:
            new = upstream.first_seen
            pinned = f"; {new} seen for the first time, now pinned" if new else ""
            detail = f"ready, {counted(len(mine), 'tool')}, {free} of them read-only{pinned}"
            yield Finding(f"upstream {upstream.name}", detail)
        elif upstream.state is UpstreamState.DISABLED:
            yield Finding(f"upstream {upstream.name}", "disabled")
        else:
            why = upstream.error or upstream.state
            yield Finding(f"upstream {upstream.name}", why, do_without(upstream.name, settings))
        if upstream.held:
            command = f"planloom tools --accept {upstream.name}"
            fix = (
                "Their definitions have changed since they were pinned, so they are held back. "
                f"If that is an upgrade you want: {command}"
            )
            yield Finding(f"tools of {upstream.name}", "\n".join(upstream.held), fix)
        if upstream.unreadable:
            fix = f"They are left out, the others work. Tell the author of {upstream.name}."
            yield Finding(f"tools of {upstream.name}", "\n".join(upstream.unreadable), fix)
    for names in found.shadowed:
        yield Finding("names that look the same", names)


def do_without(upstream: str, settings: Settings) -> str:
    """How to fix an upstream or turn it off. An upgrade replaces the shipped file."""
    if settings.source == shipped_file():
        return (
            f"Correct it, or write an upstreams file of your own (planloom init) and set "
            f"`enabled: false` for {upstream} there"
        )
    return f"Correct it, or set `enabled: false` for {upstream} in {settings.source}"


async def _models(settings: Settings) -> list[Finding]:
    models = settings.models
    if models.uses_url:
        return await _api(models)
    wanted = sorted({models.fast, models.full})
    found: list[Finding] = []
    if models.backend != "embedded":
        if server := await probe(models.host):
            found.append(Finding("ollama", f"{server.version} at {server.url}"))
            for name in wanted:
                there = server.has(name)
                fix = None if there else f"Run: ollama pull {name}"
                found.append(Finding(f"model {name}", "there" if there else "missing", fix))
            return found + _measured(settings, server)
        silent = f"does not answer at {host_url(models.host)}"
        instead = models.backend == "auto" and embedded_installed()
        if instead:
            silent += "; the embedded models answer instead"
        fix = "Run: ollama serve (or set OLLAMA_HOST)" if models.host or not instead else None
        if models.backend == "auto" and not instead:
            fix = f"{fix}. Without Ollama, install the embedded models: {EMBEDDED_EXTRA}"
        found.append(Finding("ollama", silent, fix))
        if not instead:
            return found
    if not embedded_installed():
        return [Finding("embedded models", "not installed", f"Run: {EMBEDDED_EXTRA}")]
    found.append(Finding("embedded models", f"xllamacpp {version('xllamacpp')}"))
    absent = "will be downloaded at first use, or now with `planloom models`"
    return found + [Finding(f"weights {name}", str(cached(name) or absent)) for name in wanted]


def _measured(settings: Settings, server: OllamaServer) -> list[Finding]:
    """Whether `planloom try` has found better models among the installed ones."""
    results = load_results()
    there = [each for each in results.measured if server.has(each.fast) and server.has(each.full)]
    found, used = best(there), results.of(settings.models.fast, settings.models.full)
    if found is None or used is None:
        return []
    detail = f"{used.name}, in use: {used.summary}"
    if found.name == used.name:
        choices = counted(len(there), "choice")
        return [Finding("models measured", f"{detail}; the best of {choices}")]
    tip = f"{found.name}: {found.summary}. To use it: {write_command(settings)}"
    return [Finding("models measured", detail, tip=tip)]


async def _api(settings: ModelSettings) -> list[Finding]:
    client = api_client(settings)
    try:
        server = await client.probe()
    except ModelUnavailable as error:
        return [Finding("model server", f"cannot be used at {client.url}", str(error))]
    finally:
        await client.aclose()
    found = [Finding("model server", f"{counted(len(server.models), 'model')} at {server.url}")]
    for name in dict.fromkeys(api_models(settings, server)):
        if name not in server.models:
            found.append(Finding(f"model {name}", "missing", missing_model(server, [name])))
            continue
        window = server.models[name]
        context = f", with a context of {window} tokens" if window else ""
        if window and window < settings.num_ctx:
            context += f" (num_ctx: {settings.num_ctx})"
        found.append(Finding(f"model {name}", f"there{context}"))
    return found
