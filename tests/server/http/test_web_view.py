"""The live view over HTTP, without a browser: its files, what a page is told, and whose runs are
whose. `tests/server/http/test_page.py` has the browser."""
# ruff: noqa: E501  texts stand as they are shown

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest
from fastmcp import Client
from inline_snapshot import snapshot
from ollama_replies import Hang
from planted import CLASS, CONSTANT, FUNCTION, VALUE
from replies import found, move_on, nowhere, plan
from scripted_ollama import ScriptedOllama
from serving import LONG, Place, bearer, served

from server import auth
from server.app import build
from server.http.web_view import STATIC

pytestmark = pytest.mark.anyio

QUESTION = f"What does {CLASS} return?"
ANSWER = f"`{CONSTANT}` is {VALUE}."
PLACE = f"`{CLASS}` is defined in jobs/secret.py, line 6."
"""An answer that the first look-up bears out."""
MINE, THEIRS = "mine-0123456789abcdef", "theirs-0123456789abcdef"


def script(ollama: ScriptedOllama) -> None:
    """A plan of two steps, and an answer that is half written when the model holds on."""
    ollama.expect(nowhere())
    ollama.expect(plan("read_file", "Look for its uses"))
    ollama.expect({"path": "jobs/secret.py", "start_line": 1})
    ollama.expect(move_on("search", "Look for its uses"))
    ollama.expect({"path": "jobs", "pattern": FUNCTION})
    whole = json.dumps(found(ANSWER))
    half = whole.index(" is ") + len(" is ")
    ollama.expect(Hang(after=whole[:half], then=whole[half:]))


def base(url: str) -> str:
    return url.removesuffix("/mcp")


async def told(url: str, run_id: str, token: str) -> AsyncIterator[dict[str, Any]]:
    """The changes that a page is told of a run."""
    path = f"{base(url)}/view/runs/{run_id}"
    async with (
        httpx.AsyncClient(timeout=LONG) as client,
        client.stream("GET", path, headers=bearer(token)) as response,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        async for line in response.aiter_lines():
            if line:
                yield json.loads(line.removeprefix("data: "))


async def begin(client: Client[Any]) -> str:
    prompt = {"prompt": QUESTION, "wait_s": 0}
    begun = await client.call_tool("plan_and_answer", prompt, raise_on_error=False)
    return str((begun.structured_content or {})["run_id"])


# The page


async def test_the_pages_files_are_for_anyone_and_bind_the_browser(place: Place) -> None:
    app = build(place.settings, auth=auth.Tokens([MINE])).http_app(path="/mcp")
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        page = await client.get("/view")
        assert {
            name: value for name, value in page.headers.items() if name != "content-length"
        } == snapshot(
            {
                "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
                "cache-control": "no-cache",
                "cross-origin-opener-policy": "same-origin",
                "cross-origin-resource-policy": "same-origin",
                "referrer-policy": "no-referrer",
                "x-content-type-options": "nosniff",
                "content-type": "text/html; charset=utf-8",
            }
        )
        assert page.text == (STATIC / "view.html").read_text("utf-8")
        for name, kind in (("view.css", "text/css"), ("view.js", "text/javascript")):
            file = await client.get(f"/view/{name}")
            assert file.headers["content-type"] == f"{kind}; charset=utf-8"
            assert f'"view/{name}"' in page.text


async def test_the_app_is_one_file_that_needs_no_other(place: Place) -> None:
    async with place.client() as caller:
        tools = {tool.name: tool for tool in await caller.client.list_tools()}
        uri = (tools["plan_and_answer"].meta or {})["ui"]["resourceUri"]
        (content,) = await caller.client.read_resource(uri)
    assert content.mime_type == "text/html;profile=mcp-app"
    text = content.text  # type: ignore[union-attr]
    for name in ("view.css", "view.js"):
        assert (STATIC / name).read_text("utf-8") in text
    assert re.findall(r'(?:src|href)="(.{5})', text) == ["data:", "#main", 'view"', 'view"']
    assert len(re.findall("</(?:script|style)", text)) == 2


# What a page is told


async def test_a_page_is_told_every_change_until_it_has_the_report(
    place: Place, ollama: ScriptedOllama
) -> None:
    script(ollama)
    with served(build(place.settings, auth=auth.Tokens([MINE]))) as url:
        async with Client(url, auth=MINE) as client:
            run_id = await begin(client)
            page: dict[str, Any] = {}
            first: dict[str, Any] = {}
            drafts = []
            with anyio.fail_after(LONG):
                async for changes in told(url, run_id, MINE):
                    page |= changes
                    first = first or changes
                    if page["draft"].startswith(f"`{CONSTANT}"):
                        drafts.append((page["draft"], page["doing"], page["steps"][-1]["status"]))
                        ollama.release()
            assert first["prompt"] == QUESTION
            assert drafts[0] == snapshot(
                (
                    "`UNIQUE_CONSTANT_VERIFICATION_ZX9` ",
                    "Step 2 of 2: an answer is being written",
                    "current",
                )
            )
            assert (page["status"], page["answer"], page["draft"]) == ("answered", ANSWER, "")
            got = await client.call_tool("get_run", {"run_id": run_id, "whole": True})
            report = got.structured_content or {}
            assert {key: page[key] for key in report} == report
            assert sorted(page.keys() - report.keys()) == snapshot(
                ["approval", "began", "created", "doing", "project", "prompt", "timeline"]
            )
            again = [changes async for changes in told(url, run_id, MINE)]
            assert again == [page]


async def test_a_page_is_told_what_the_model_does(
    place: Place, ollama: ScriptedOllama, reading: str
) -> None:
    ollama.expect(Hang("", json.dumps(found(PLACE))))
    doing = []
    with served(build(place.settings, auth=auth.Tokens([MINE]))) as url:
        async with Client(url, auth=MINE) as client:
            run_id = await begin(client)
            with anyio.fail_after(LONG):
                async for changes in told(url, run_id, MINE):
                    doing += [changes["doing"]] if "doing" in changes else []
                    if doing[-1] == f"Waiting for the model ({reading})":
                        ollama.release()
    assert f"Waiting for the model ({reading})" in doing


async def test_a_run_of_another_server_is_followed(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(Hang("", json.dumps(found(PLACE))))
    provider, source = auth.provider({}, "127.0.0.1")
    async with place.client() as caller:
        run_id = await begin(caller.client)
        await ollama.arrived()
        with served(build(place.settings, auth=provider)) as url:
            statuses = []
            with anyio.fail_after(LONG):
                async for changes in told(url, run_id, str(source.own)):
                    statuses += [changes["status"]] if "status" in changes else []
                    ollama.release()
    assert statuses == ["running", "answered"]


# Whose runs are whose


async def test_a_caller_sees_his_own_runs_and_the_user_those_of_his_other_servers(
    place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(PLACE))
    ollama.expect(found(PLACE))
    async with place.client() as caller:
        local = await caller.call("plan_and_answer", prompt=QUESTION)
    local_id = (local.structured_content or {})["run_id"]

    async def seen(url: str, token: str) -> list[str]:
        async with httpx.AsyncClient(timeout=LONG) as client:
            listed = await client.get(f"{base(url)}/view/runs", headers=bearer(token))
            return [run["id"] for run in listed.json()["runs"]]

    async def status(url: str, token: str, run_id: str) -> tuple[int, str]:
        async with httpx.AsyncClient(timeout=LONG) as client:
            path = f"{base(url)}/view/runs/{run_id}"
            response = await client.get(path, headers=bearer(token))
            return response.status_code, response.text.replace(run_id, "RUN")

    users, source = auth.provider({}, "127.0.0.1")
    with served(build(place.settings, auth=users)) as url:
        for token in (source.own, source.passing):
            assert await seen(url, str(token)) == [local_id]
            assert (await status(url, str(token), local_id))[0] == 200
    with served(build(place.settings, auth=auth.Tokens([MINE, THEIRS]))) as url:
        async with Client(url, auth=MINE) as client:
            prompt = {"prompt": QUESTION}
            mine = (await client.call_tool("plan_and_answer", prompt)).structured_content or {}
        assert await seen(url, MINE) == [mine["run_id"]]
        assert await seen(url, THEIRS) == []
        assert (await status(url, MINE, mine["run_id"]))[0] == 200
        for run_id in (mine["run_id"], local_id, "0" * 32):
            assert await status(url, THEIRS, run_id) == snapshot(
                (
                    404,
                    '{"error":{"message":"There is no run \\"RUN\\". Run ids come with the report of plan_and_answer; ended runs are kept for 30 days at most."}}',
                )
            )


async def test_what_cannot_be_said_to_a_run_is_told(place: Place, ollama: ScriptedOllama) -> None:
    ollama.expect(found(PLACE))
    with served(build(place.settings, auth=auth.Tokens([MINE, THEIRS]))) as url:
        async with Client(url, auth=MINE) as client:
            done = await client.call_tool("plan_and_answer", {"prompt": QUESTION})
        run_id = (done.structured_content or {})["run_id"]

        async def refused(what: str, token: str = MINE) -> str:
            path = f"{base(url)}/view/runs/{run_id}/steer"
            async with httpx.AsyncClient(timeout=LONG) as client:
                response = await client.post(path, content=what, headers=bearer(token))
            assert response.status_code == 400
            return str(response.json()["error"]["message"]).replace(run_id, "RUN")

        assert await refused('{"hint": "Look elsewhere"}') == snapshot(
            "Run RUN has ended (answered); it cannot be steered."
        )
        assert await refused('{"hint": "Look elsewhere"}', THEIRS) == snapshot(
            'There is no run "RUN". Run ids come with the report of plan_and_answer; ended runs are kept for 30 days at most.'
        )
        assert await refused("elsewhere") == snapshot(
            "Invalid JSON: expected value at line 1 column 1"
        )
        assert await refused('{"hint": 5}') == snapshot("hint: should be a valid string")


async def test_a_journal_that_cannot_be_read_for_a_moment_is_no_missing_run(place: Place) -> None:
    """The page tries again after 503, and never after 404."""
    app = build(place.settings, auth=auth.Tokens([MINE]))
    with served(app) as url:
        path = f"{base(url)}/view/runs/{'0' * 32}"
        async with httpx.AsyncClient(timeout=LONG, headers=bearer(MINE)) as client:
            file = place.settings.runs.directory / "runs.sqlite"
            away = file.rename(file.with_name("away"))
            file.mkdir()
            unreadable = await client.get(path)
            file.rmdir()
            away.rename(file)
            missing = await client.get(path)
    assert (unreadable.status_code, missing.status_code) == (503, 404)
    assert unreadable.json()["error"]["message"].startswith("The runs cannot be read: ")
