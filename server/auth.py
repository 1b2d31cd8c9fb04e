"""Who may call over HTTP, and whose run is whose.

Every request needs a bearer token. On loopback it is one of ours, which only the user can read; the
operator may set other tokens (PLANLOOM_TOKEN), or name an auth provider of FastMCP, such as OAuth
(PLANLOOM_AUTH), and has to beyond loopback. FastMCP checks at /mcp, `route` at other paths.
"""

import hashlib
import hmac
import importlib
import json
import os
import re
import secrets
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, cast

from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken, AuthProvider, TokenVerifier
from fastmcp.server.dependencies import get_access_token
from mcp.server.auth.provider import principal_components
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE, RequestBodyLimitMiddleware
from platformdirs import user_state_path
from starlette.authentication import has_required_scope
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import request_response
from starlette.types import ASGIApp, Receive, Scope, Send

from planner.errors import ConfigError
from planner.hosts import is_loopback
from server.environment import AUTH, TOKEN

TOKEN_BYTES = 32
MIN_TOKEN_CHARS = 20
"""Of a token that the operator sets; a random one of that length cannot be guessed."""

NO_TOKEN = (
    "This server requires its token, and the request has none or another one. Send it in the "
    "header `Authorization: Bearer TOKEN`; in an OpenAI client it is the API key. `planloom token` "
    f"prints it on the server's machine, unless the operator set another one ({TOKEN})."
)

_SENDABLE = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1


class Tokens(TokenVerifier):
    """Knows callers by their tokens, and keeps only the hashes. FastMCP's `StaticTokenVerifier`
    keeps the tokens in a dictionary, whose timing reveals something about them."""

    def __init__(self, tokens: Iterable[str], *, users: bool = False) -> None:
        """`users`: all tokens belong to the user who runs the server, so they name one caller."""
        super().__init__()
        self._digests = [_digest(token) for token in tokens]
        self._users = users

    async def verify_token(self, token: str) -> AccessToken | None:
        given = _digest(token)
        equal = [known for known in self._digests if hmac.compare_digest(known, given)]
        if not equal:
            return None
        known = self._digests[0] if self._users else equal[0]
        kind = UsersToken if self._users else AccessToken
        return kind(token=token, client_id=f"token {known.hex()[:16]}", scopes=[])


class UsersToken(AccessToken):
    """A token of the user who runs the server."""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def caller() -> str:
    """The current caller: the same text for the same token, or for the same user with the same
    OAuth client. Empty over stdio and in memory, where there is one caller."""
    token = get_access_token()
    return json.dumps(principal_components(token)) if token else ""


def is_user() -> bool:
    """Whether the caller has our own token, which only the user who runs the server can read."""
    return isinstance(get_access_token(), UsersToken)


Handler = Callable[[Request], Awaitable[Response]]


def route(mcp: FastMCP, path: str, methods: list[str]) -> Callable[[Handler], Handler]:
    """Publish a plain HTTP route beside /mcp, for the same callers and with the same limit on
    bodies. Its handler asks `caller()` whose request it is, as a tool does. FastMCP's own
    `custom_route` lets everyone in."""

    def publish(handler: Handler) -> Handler:
        async def answered(request: Request) -> Response:
            try:
                return await handler(request)
            except ClientDisconnect:  # within its body
                return Response()  # to nobody

        app: ASGIApp = request_response(answered)
        app = RequestBodyLimitMiddleware(app, DEFAULT_MAX_REQUEST_BODY_SIZE)
        if mcp.auth:
            app = _LetIn(app, mcp.auth.required_scopes)
        mcp.custom_route(path, methods)(cast(Any, app))  # a Starlette route takes an app, too
        return handler

    return publish


@dataclass
class _LetIn:
    """Refuses strangers before their request is read, in the form that `refusal` has."""

    app: ASGIApp
    scopes: list[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)  # the provider's middleware has read its token
        app = self.app
        if not connection.user.is_authenticated:
            app = refusal(401, NO_TOKEN, "invalid_api_key", headers={"WWW-Authenticate": "Bearer"})
        elif not has_required_scope(connection, self.scopes):
            needed = f"The token needs the scopes {', '.join(self.scopes)}."
            app = refusal(403, needed, "insufficient_scope")
        await app(scope, receive, send)


def refusal(
    status: int,
    text: str,
    code: str,
    *,
    kind: str = "invalid_request_error",
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An error as the OpenAI API has it ("Errors" in its reference), for all plain routes."""
    error = {"message": text, "type": kind, "param": param, "code": code}
    return JSONResponse({"error": error}, status, headers)


@dataclass(frozen=True)
class TokenSource:
    """Where a client's token comes from, for the person who sets the client up."""

    where: str
    shown_as: str | None = None
    """What a client's entry contains instead of the token; None if the client fetches its own."""
    own: str | None = None
    """Our own token. One that the operator has set is never shown."""
    passing: str | None = None
    """A token that ends with this server, for places such as the address of a page."""


def provider(environ: Mapping[str, str], host: str) -> tuple[AuthProvider, TokenSource]:
    """The auth provider of a server at `host`. Raises `ConfigError`, also if one must be named."""
    if name := environ.get(AUTH):
        return _loaded(name), TokenSource(f"{name} ({AUTH}) decides who may call.")
    if given := environ.get(TOKEN):
        tokens = [token.strip() for token in given.split(",") if token.strip()]
        if not tokens:
            raise ConfigError(f"{TOKEN}: it is set but contains no token; set one, or unset it")
        for token in tokens:
            if not _is_token(token):
                raise ConfigError(
                    f"{TOKEN}: a token is {MIN_TOKEN_CHARS} characters or more of letters, digits "
                    "and -._~+/; make one with: openssl rand -hex 32"
                )
        return Tokens(tokens), TokenSource(f"The token is that of {TOKEN}.", f"${{{TOKEN}}}")
    if not is_loopback(host):
        raise ConfigError(
            f"--http {host or 'on all addresses'}: other machines can reach this address, so "
            f"callers need a token of your own. Set {TOKEN} (for example to what `openssl rand "
            f"-hex 32` prints) or {AUTH}=module:name of a FastMCP auth provider, or serve on "
            "127.0.0.1"
        )
    token, passing = own_token(), secrets.token_urlsafe(TOKEN_BYTES)
    where = f"The token is in {token_file()}, which only you can read; `planloom token` prints it."
    source = TokenSource(where, "<what `planloom token` prints>", token, passing)
    return Tokens([token, passing], users=True), source


def _is_token(text: str) -> bool:
    return len(text) >= MIN_TOKEN_CHARS and bool(_SENDABLE.fullmatch(text))


def _loaded(name: str) -> AuthProvider:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # noqa: BLE001  the operator's module may raise anything
        raise ConfigError(
            f"{AUTH}={name}: cannot be loaded ({type(error).__name__}: {error}); write it as "
            "module:name, and check that PYTHONPATH contains its folder"
        ) from None
    if not isinstance(found, AuthProvider):
        raise ConfigError(
            f"{AUTH}={name}: this is not a FastMCP auth provider; name one as module:name"
        )
    return found


def token_file() -> Path:
    return user_state_path("planloom") / "token"


def own_token() -> str:
    """The user's token, created if needed. Raises `ConfigError`, also if others can read it."""
    file = token_file()
    try:
        if not file.exists():
            _make(file)
        mode, token = file.stat().st_mode, file.read_text("ascii", "replace").strip()
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise ConfigError(f"{file}: {why}; make it readable, or set {TOKEN}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(
            f"{file}: other users can read it, so its token may be known; delete it, and the next "
            "start creates another"
        )
    if not _is_token(token):
        raise ConfigError(f"{file}: contains no token; delete it, and the next start creates one")
    return token


def _make(file: Path) -> None:
    """Write a new token atomically; if two processes do so, the first one wins."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=file.parent, prefix=".token-") as new:  # for its owner only
        new.write(secrets.token_urlsafe(TOKEN_BYTES) + "\n")
        new.flush()
        with suppress(FileExistsError):
            os.link(new.name, file)
