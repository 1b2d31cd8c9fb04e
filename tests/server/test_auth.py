"""The HTTP face lets no stranger in: tokens, hosts, sizes, and whose run is whose."""
# ruff: noqa: E501  texts stand as they are shown

import json
import os
import pty
import re
import socket
import time
from typing import Any

import httpx
import pytest
from fastmcp import Client
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from inline_snapshot import snapshot
from ollama_replies import Hang
from planted import CLASS
from scripted_ollama import ScriptedOllama
from serving import LONG, Place, bearer, end, free_port, listens, served, text
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from planner.errors import ConfigError
from server import auth
from server.app import build

pytestmark = pytest.mark.anyio

MINE, THEIRS = "mine-0123456789abcdef", "theirs-0123456789abcdef"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


# Who is let in


async def test_only_health_and_an_empty_page_are_there_without_the_token(place: Place) -> None:
    app = build(place.settings, auth=auth.Tokens([MINE])).http_app(path="/mcp")
    asked = {}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for route in app.routes:
            assert isinstance(route, Route)
            for method in sorted(route.methods or ()):
                response = await client.request(method, route.path)
                asked[f"{method} {route.path}"] = response.status_code
    assert asked == snapshot(
        {
            "DELETE /mcp": 401,
            "GET /mcp": 401,
            "HEAD /mcp": 401,
            "POST /mcp": 401,
            "GET /view": 200,
            "HEAD /view": 200,
            "GET /view/view.css": 200,
            "HEAD /view/view.css": 200,
            "GET /view/view.js": 200,
            "HEAD /view/view.js": 200,
            "GET /": 307,
            "HEAD /": 307,
            "GET /view/runs": 401,
            "HEAD /view/runs": 401,
            "POST /view/runs": 401,
            "GET /view/runs/{run_id}": 401,
            "HEAD /view/runs/{run_id}": 401,
            "GET /view/runs/{run_id}/calls/{number}": 401,
            "HEAD /view/runs/{run_id}/calls/{number}": 401,
            "GET /view/runs/{run_id}/results/{iteration}": 401,
            "HEAD /view/runs/{run_id}/results/{iteration}": 401,
            "POST /view/runs/{run_id}/approval": 401,
            "POST /view/runs/{run_id}/steer": 401,
            "POST /view/runs/{run_id}/stop": 401,
            "GET /v1/models": 401,
            "HEAD /v1/models": 401,
            "GET /v1/models/planloom": 401,
            "HEAD /v1/models/planloom": 401,
            "POST /v1/chat/completions": 401,
            "DELETE /v1/{path:path}": 401,
            "GET /v1/{path:path}": 401,
            "HEAD /v1/{path:path}": 401,
            "POST /v1/{path:path}": 401,
            "PUT /v1/{path:path}": 401,
            "GET /health": 503,
            "HEAD /health": 503,
        }
    )


async def test_only_the_right_token_in_the_header_lets_in(place: Place) -> None:
    with place.http() as (process, port):
        url = f"http://127.0.0.1:{port}/mcp"
        async with httpx.AsyncClient(timeout=LONG) as client:

            async def status(said: str = "", query: str = "") -> int:
                headers = [(b"Authorization", said.encode("latin-1"))] if said else []
                response = await client.post(url + query, json=LIST, headers=headers)
                return response.status_code

            assert await status() == 401
            assert await status(f"Bearer {place.token[:-1]}") == 401
            assert await status(f"Basic {place.token}") == 401
            assert await status("Bearer \xff") == 401
            assert await status("", f"?access_token={place.token}") == 401
            assert await status(f"Bearer {place.token}") not in (401, 403)
            health = await client.get(f"http://127.0.0.1:{port}/health")
            assert health.json() == {"status": "ok"}

            # A web page that has a name point here, or that posts from elsewhere.
            right = bearer(place.token)
            rebound = await client.post(url, json=LIST, headers=right | {"Host": "evil.example"})
            assert (rebound.status_code, rebound.text) == snapshot(
                (
                    421,
                    "The Host header names a host that this server does not accept. To accept it, add it to PLANLOOM_ALLOWED_HOSTS.\n",
                )
            )
            evil = {"Origin": "http://evil.example"}
            foreign = await client.post(url, json=LIST, headers=right | evil)
            assert foreign.status_code == 403

            large = "x" * 5_000_000
            refused = await client.post(url, content=large, headers=right)
            assert (refused.status_code, refused.text) == snapshot(
                (413, "The request is larger than 4 MiB, which is the limit. Send less.\n")
            )
            assert (await client.post(url, content=large)).status_code == 401
        with socket.create_connection(("127.0.0.1", port)) as gone:  # within its request
            head = "POST /view/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n"
            gone.sendall(f"{head}Authorization: Bearer {place.token}\r\n\r\n{{".encode())
        async with Client(url, auth=place.token) as mcp:
            assert await mcp.list_tools()
        process.terminate()
        _, errors = process.communicate(timeout=LONG)
    assert b"Traceback" not in errors, errors.decode()
    assert place.token not in errors.decode()
    shown = errors.decode().replace(str(port), "PORT").replace(str(place.root), "ROOT")
    assert shown == snapshot("""\
{
  "mcpServers": {
    "planloom": {
      "url": "http://127.0.0.1:PORT/mcp",
      "headers": {
        "Authorization": "Bearer <what `planloom token` prints>"
      }
    }
  }
}
Watch its runs at http://127.0.0.1:PORT/view
For an OpenAI client: base URL http://127.0.0.1:PORT/v1, model planloom, the token as API key.
The token is in ROOT/state/planloom/token, which only you can read; `planloom token` prints it.
""")


async def test_a_plain_route_lets_in_whom_mcp_does_and_knows_its_caller(place: Place) -> None:
    """The same tokens, hosts, origins and sizes, and the same caller as a tool has."""
    provider = auth.Tokens([MINE, THEIRS])
    mcp = build(place.settings, auth=provider)
    reached = []

    @auth.route(mcp, "/echo", ["POST"])
    async def echo(request: Request) -> Response:
        reached.append(len(await request.body()))
        return PlainTextResponse(auth.caller())

    @mcp.tool
    async def who() -> str:
        return auth.caller()

    transport = httpx.ASGITransport(mcp.http_app(host_origin_protection=True))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:

        async def ask(token: str, content: str = "", **headers: str) -> httpx.Response:
            headers |= bearer(token) if token else {}
            return await client.post("/echo", content=content, headers=headers)

        refused = await ask("")
        assert (refused.status_code, refused.json()) == snapshot(
            (
                401,
                {
                    "error": {
                        "message": "This server requires its token, and the request has none or another one. Send it in the header `Authorization: Bearer TOKEN`; in an OpenAI client it is the API key. `planloom token` prints it on the server's machine, unless the operator set another one (PLANLOOM_TOKEN).",
                        "type": "invalid_request_error",
                        "param": None,
                        "code": "invalid_api_key",
                    }
                },
            )
        )
        assert (await ask(MINE[:-1])).status_code == 401
        assert (await ask("", "x" * 5_000_000)).status_code == 401
        assert (await ask(MINE, "x" * 5_000_000)).status_code == 413
        assert (await ask(MINE, Host="evil.example")).status_code == 421
        assert (await ask(MINE, Origin="http://evil.example")).status_code == 403
        assert reached == []
        mine, theirs = (await ask(MINE)).text, (await ask(THEIRS)).text
        assert reached == [0, 0]
    with served(mcp) as url:
        for token, text_of_route in ((MINE, mine), (THEIRS, theirs)):
            async with Client(url, auth=token) as known:
                assert (await known.call_tool("who")).data == text_of_route != ""
    assert mine != theirs


async def test_a_plain_route_wants_the_scopes_that_mcp_does(place: Place) -> None:
    mcp = build(place.settings, auth=auth.Tokens([MINE]))
    assert mcp.auth
    mcp.auth.required_scopes = ["runs"]  # as a provider of the operator's may have it

    @auth.route(mcp, "/echo", ["GET"])
    async def echo(_request: Request) -> Response:
        raise AssertionError

    transport = httpx.ASGITransport(mcp.http_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        refused = await client.get("/echo", headers=bearer(MINE))
    assert (refused.status_code, refused.json()["error"]["message"]) == snapshot(
        (403, "The token needs the scopes runs.")
    )


def test_a_terminal_is_shown_the_whole_entry(place: Place) -> None:
    """A person reads there; elsewhere standard error goes to a log."""
    ours, theirs = pty.openpty()
    address = f"127.0.0.1:{free_port()}"
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = place.popen_on({"stderr": theirs}, "serve", "--http", address)
        os.close(theirs)
        shown = ""
        try:
            while "prints it." not in shown:
                shown += screen.read(4096).decode()
            while not listens(int(address.rpartition(":")[2])):
                time.sleep(0.02)
            (page,) = re.findall(r"Watch its runs at (\S+)", shown)
            runs, _, token = page.replace("/view#", "/view/runs#").partition("#token=")
            listed = httpx.get(runs, headers=bearer(token), timeout=LONG).json()
            assert listed["runs"] == []
        finally:
            end(process)
    assert token != place.token
    entry, _ = json.JSONDecoder().raw_decode(shown)
    assert entry["mcpServers"]["planloom"] == {
        "url": f"http://{address}/mcp",
        "headers": bearer(place.token),
    }


def test_the_token_is_for_its_owner_only_and_stays(place: Place) -> None:
    made = place.run_alone("token")
    assert made.stdout.strip() == place.token
    file = place.root / "state" / "planloom" / "token"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]
    assert len(place.token) >= 43  # 256 bits
    assert place.run_alone("token").stdout == made.stdout


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [
        (
            "x" * 43,
            0o640,
            snapshot(
                "ROOT/state/planloom/token: other users can read it, so its token may be known; delete it, and the next start creates another"
            ),
        ),
        (
            "",
            0o600,
            snapshot(
                "ROOT/state/planloom/token: contains no token; delete it, and the next start creates one"
            ),
        ),
        (
            "\xff" * 43,
            0o600,
            snapshot(
                "ROOT/state/planloom/token: contains no token; delete it, and the next start creates one"
            ),
        ),
    ],
)
def test_a_token_file_that_is_no_use_is_told(
    place: Place, content: str, mode: int, told: str
) -> None:
    file = auth.token_file()
    file.parent.mkdir(parents=True)
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(ConfigError) as error:
        auth.own_token()
    assert str(error.value).replace(str(place.root), "ROOT") == told


# Beyond loopback, and the operator's own


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        (
            {},
            snapshot(
                "--http HOST: other machines can reach this address, so callers need a token of your own. Set PLANLOOM_TOKEN (for example to what `openssl rand -hex 32` prints) or PLANLOOM_AUTH=module:name of a FastMCP auth provider, or serve on 127.0.0.1"
            ),
        ),
        (
            {"PLANLOOM_TOKEN": f"{MINE},short"},
            snapshot(
                "PLANLOOM_TOKEN: a token is 20 characters or more of letters, digits and -._~+/; make one with: openssl rand -hex 32"
            ),
        ),
        (
            {"PLANLOOM_TOKEN": "twenty characters, and a space"},
            snapshot(
                "PLANLOOM_TOKEN: a token is 20 characters or more of letters, digits and -._~+/; make one with: openssl rand -hex 32"
            ),
        ),
        (
            {"PLANLOOM_TOKEN": " , "},
            snapshot("PLANLOOM_TOKEN: it is set but contains no token; set one, or unset it"),
        ),
        (
            {"PLANLOOM_AUTH": "no_such_module:auth"},
            snapshot(
                "PLANLOOM_AUTH=no_such_module:auth: cannot be loaded (ModuleNotFoundError: No module named 'no_such_module'); write it as module:name, and check that PYTHONPATH contains its folder"
            ),
        ),
        (
            {"PLANLOOM_AUTH": "json"},
            snapshot(
                "PLANLOOM_AUTH=json: cannot be loaded (AttributeError: module 'json' has no attribute ''); write it as module:name, and check that PYTHONPATH contains its folder"
            ),
        ),
        (
            {"PLANLOOM_AUTH": "json:dumps"},
            snapshot(
                "PLANLOOM_AUTH=json:dumps: this is not a FastMCP auth provider; name one as module:name"
            ),
        ),
    ],
)
def test_beyond_loopback_it_needs_a_token_or_a_provider_of_the_operators(
    environ: dict[str, str], told: str
) -> None:
    for host in ("0.0.0.0", "192.0.2.1", "example.com", "::"):
        with pytest.raises(ConfigError) as error:
            auth.provider(environ, host)
        assert str(error.value).replace(host, "HOST") == told
    auth.provider({"PLANLOOM_TOKEN": MINE}, "0.0.0.0")


async def test_a_project_does_not_configure_the_server(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.root / ".env").write_text("FASTMCP_STATELESS_HTTP=true\n")
    monkeypatch.chdir(place.root)
    monkeypatch.delenv("FASTMCP_ENV_FILE", raising=False)
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "client", "version": "1"},
    }
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    with place.http() as (_, port):
        async with httpx.AsyncClient(timeout=LONG) as client:
            headers = bearer(place.token, Accept="application/json, text/event-stream")
            begun = await client.post(f"http://127.0.0.1:{port}/mcp", json=begin, headers=headers)
    assert "mcp-session-id" in begun.headers


async def test_the_operators_token_is_not_shown_and_names_are_allowed(place: Place) -> None:
    environ = {"PLANLOOM_TOKEN": MINE, "PLANLOOM_ALLOWED_HOSTS": "planloom.example"}
    with place.http(**environ) as (process, port):
        async with httpx.AsyncClient(timeout=LONG) as client:
            response = await client.post(
                f"http://127.0.0.1:{port}/mcp",
                json=LIST,
                headers=bearer(MINE) | {"Host": "planloom.example"},
            )
            assert response.status_code not in (401, 421)
            asked = {}
            for origin in ("https://planloom.example", "https://other.example"):
                response = await client.post(
                    f"http://127.0.0.1:{port}/view/runs",
                    json={"prompt": ""},
                    headers=bearer(MINE) | {"Host": "planloom.example", "Origin": origin},
                )
                asked[origin] = response.status_code
        assert asked == {"https://planloom.example": 400, "https://other.example": 403}
        process.terminate()
        _, errors = process.communicate(timeout=LONG)
    assert errors.decode().replace(str(port), "PORT") == snapshot("""\
{
  "mcpServers": {
    "planloom": {
      "url": "http://planloom.example:PORT/mcp",
      "headers": {
        "Authorization": "Bearer ${PLANLOOM_TOKEN}"
      }
    }
  }
}
Watch its runs at http://planloom.example:PORT/view
For an OpenAI client: base URL http://planloom.example:PORT/v1, model planloom, the token as API key.
The token is that of PLANLOOM_TOKEN.
""")
    assert not auth.token_file().exists()


# Whose run is whose


async def shares(ollama: ScriptedOllama, url: str, mine: str, theirs: str) -> None:
    """A run of one caller is none to the other, in the same words as one that never was."""
    ollama.expect(Hang())
    async with Client(url, auth=mine) as me, Client(url, auth=theirs) as they:
        prompt = {"prompt": f"What is {CLASS}, and in which file?", "wait_s": 0}
        begun = await me.call_tool("plan_and_answer", prompt, raise_on_error=False)
        run_id = (begun.structured_content or {})["run_id"]
        assert re.fullmatch("[0-9a-f]{32}", run_id)
        await ollama.arrived()

        async def told(client: Client[Any], tool: str, run_id: str) -> str:
            result = await client.call_tool(tool, {"run_id": run_id}, raise_on_error=False)
            assert result.is_error
            return text(result)

        unknown = "0" * 32
        for tool in ("get_run", "cancel_run"):
            foreign = await told(they, tool, run_id)
            assert foreign.replace(run_id, unknown) == await told(they, tool, unknown)
        still = await me.call_tool("get_run", {"run_id": run_id, "wait_s": 0})
        assert (still.structured_content or {})["status"] == "running"
        ended = await me.call_tool("cancel_run", {"run_id": run_id})
        assert (ended.structured_content or {})["status"] == "cancelled"


async def test_a_run_is_its_callers_own(place: Place, ollama: ScriptedOllama) -> None:
    provider, _ = auth.provider({"PLANLOOM_TOKEN": f"{MINE}, {THEIRS}"}, "0.0.0.0")
    with served(build(place.settings, auth=provider)) as url:
        await shares(ollama, url, MINE, THEIRS)


async def test_a_provider_of_fastmcp_tells_users_apart(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = RSAKeyPair.generate()
    (place.root / "my_auth.py").write_text(
        "from fastmcp.server.auth.providers.jwt import JWTVerifier\n"
        f"auth = JWTVerifier(public_key={pair.public_key!r}, issuer='https://issuer.example', "
        "audience='planloom')\n"
    )

    def user(name: str, audience: str = "planloom") -> str:
        return pair.create_token(name, "https://issuer.example", audience)

    monkeypatch.syspath_prepend(place.root)
    provider, source = auth.provider({"PLANLOOM_AUTH": "my_auth:auth"}, "0.0.0.0")
    assert source.shown_as is None
    with served(build(place.settings, auth=provider)) as url:
        await shares(ollama, url, user("me"), user("they"))
        async with httpx.AsyncClient(timeout=LONG) as client:
            for stranger in (user("me", "another"), MINE):
                response = await client.post(url, json=LIST, headers=bearer(stranger))
                assert response.status_code == 401
