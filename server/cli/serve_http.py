"""Runs the MCP server over HTTP, and leaves no upstream behind when it ends."""

import asyncio
import errno
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import FrameType

import anyio
import uvicorn
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from planner.errors import ConfigError
from planner.hosts import is_loopback
from server import auth
from server.app import Parts, build
from server.client_configs.clients import http_server
from server.client_configs.entries import NAME
from server.config import Settings
from server.environment import ALLOWED_HOSTS
from server.http.connections import BoundedConnection, max_backlog

ANSWER_SECONDS = 4.0
"""How long the reports of interrupted runs may take to go out."""
GRACE_SECONDS = 3
"""How long requests under way may take when the server has to end."""
MCP = "/mcp"
REFUSALS = {
    413: f"The request is larger than {DEFAULT_MAX_REQUEST_BODY_SIZE >> 20} MiB, which is the "
    "limit. Send less.\n",
    421: "The Host header names a host that this server does not accept. To accept it, add it to "
    f"{ALLOWED_HOSTS}.\n",
}


def serve_http(settings: Settings, address: str, environ: Mapping[str, str]) -> None:
    """Serve MCP at `http://HOST:PORT/mcp` and the OpenAI API at `/v1`, to callers with a token.
    Host and Origin are checked, against web pages that rebind a name. Raises `ConfigError`."""
    host, port = split_address(address)
    provider, tokens = auth.provider(environ, host)
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None) or 0
        why = f"cannot listen there ({os.strerror(number)}); choose another port"
        if number == errno.EADDRNOTAVAIL:
            why = "this machine does not have that address; use one of its own, such as 127.0.0.1"
        if number < 0 or isinstance(error, UnicodeError):  # of the search for its address
            why = f"the host {host} is not found; correct its name"
        raise ConfigError(f"--http {address}: {why}") from None
    opened: list[Parts] = []
    mcp = build(settings, on_open=opened.append, auth=provider)
    hosts = [name.strip() for name in environ.get(ALLOWED_HOSTS, "").split(",") if name.strip()]
    app = mcp.http_app(
        path=MCP,
        host_origin_protection=True,
        allowed_hosts=hosts,
        # A proxy that ends TLS and runs elsewhere is not believed that a request came by https.
        allowed_origins=[f"https://{name}" for name in hosts],
    )
    config = uvicorn.Config(
        with_clear_refusals(app, by_token=isinstance(provider, auth.Tokens)),
        http=BoundedConnection,
        backlog=max_backlog(),
        log_level="warning",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    with listening:
        print(_client_entry(address, hosts, tokens), file=sys.stderr, flush=True)
        _Server(config, opened).run(sockets=[listening])


def _client_entry(address: str, hosts: Sequence[str], tokens: auth.TokenSource) -> str:
    """What a person puts into a client's configuration. It has our own token only on a terminal,
    because standard error may go to a log; the page's address has a token that ends with this
    server, because browsers keep addresses."""
    host, port = split_address(address)
    shown = f"{hosts[0]}:{port}" if hosts else address
    token = tokens.own if tokens.own and sys.stderr.isatty() else tokens.shown_as
    entry = {"mcpServers": {NAME: http_server(f"http://{shown}{MCP}", token)}}
    page = f"http://{shown}/view"
    if tokens.passing and sys.stderr.isatty():
        page += f"#token={tokens.passing}"
    lines = [
        json.dumps(entry, indent=2),
        f"Watch its runs at {page}",
        f"For an OpenAI client: base URL http://{shown}/v1, model planloom, the token as API key.",
        tokens.where,
    ]
    if not is_loopback(host):
        lines.append(
            "Requests cross the network unencrypted: put a proxy with TLS in front of this server."
        )
    return "\n".join(lines)


def with_clear_refusals(app: ASGIApp, *, by_token: bool) -> ASGIApp:
    """The app, which says what to do where FastMCP and the SDK only name the status. `by_token`:
    callers send tokens of ours, not of an auth provider."""

    async def clear(scope: Scope, receive: Receive, send: Send) -> None:
        refusal: PlainTextResponse | None = None

        async def clearly(message: Message) -> None:
            nonlocal refusal
            if refusal:
                return
            status = message.get("status", 0)
            unknown = status == 401 and by_token and scope["path"] == MCP
            if text := f"{auth.NO_TOKEN}\n" if unknown else REFUSALS.get(status):
                named = {"WWW-Authenticate": "Bearer"} if unknown else None
                refusal = PlainTextResponse(text, status, named)
                await refusal(scope, receive, send)
            else:
                await send(message)

        await app(scope, receive, clearly)

    return clear


class _Server(uvicorn.Server):
    """On a signal, ends the runs first, so that each open request gets its report."""

    def __init__(self, config: uvicorn.Config, opened: list[Parts]) -> None:
        super().__init__(config)
        self._opened = opened
        self._ending: Future[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._ending or not self._opened:
            super().handle_exit(sig, frame)
        else:
            loop = asyncio.get_running_loop()
            self._ending = asyncio.run_coroutine_threadsafe(self._end_runs(sig, frame), loop)

    async def _end_runs(self, sig: int, frame: FrameType | None) -> None:
        try:
            for parts in self._opened:
                await parts.engine.interrupt_all()
            with anyio.move_on_after(ANSWER_SECONDS):
                while self.server_state.tasks:  # noqa: ASYNC110  uvicorn sets no event
                    await anyio.sleep(0.02)
        finally:
            super().handle_exit(sig, frame)


def split_address(address: str) -> tuple[str, int]:
    """`127.0.0.1:8000` as host and port. Raises `ConfigError`."""
    host, colon, port = address.rpartition(":")
    if ":" in host and not host.startswith("["):
        raise ConfigError(
            f"--http {address}: put an IPv6 address in brackets, for example [::1]:8000"
        )
    host = host.strip("[]")
    number = port.isdecimal() and len(port) < 6
    if not colon or not number or not 0 < int(port) < 65536:
        raise ConfigError(f"--http {address}: should be HOST:PORT, for example 127.0.0.1:8000")
    return host, int(port)
