"""The live view of runs in a browser: a page for everyone, and runs for those who may see them. The
page gets each change of a run's report (`server.views.report`) as an event of a stream."""

import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import anyio
from fastmcp import Context, FastMCP
from fastmcp.apps import UI_MIME_TYPE
from fastmcp.exceptions import ResourceError
from fastmcp.server.providers import LocalProvider
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from planner.errors import PlanloomError, RequestError
from planner.events import AnswerDelta
from planner.evidence.context import readable
from planner.protocol import RunRequest
from planner.tools import Policy
from server import auth
from server.journal.base import Unreachable
from server.journal.records import RunSummary
from server.mcp.context import engine_of, errors_as, numbered
from server.mcp.input_errors import first_problem
from server.mcp.results import VIEW
from server.runs.engine import Engine
from server.runs.run import LOCAL, Run, report_of
from server.text import clean, cleaned
from server.views.progress import heartbeat, message, where
from server.views.timeline import timeline

STATIC = Path(__file__).with_name("static")
MAX_LISTED = 100
"""How many runs are in the list: the newest ones."""
PACE_SECONDS = 0.2
"""The shortest time between two changes of a page."""
MIN_PAUSE_FACTOR = 20
"""A page is drawn again after this many times the time that it took to draw it."""
QUIET_SECONDS = 1.0
"""After so long without an event, a page gets a sign that nothing has changed."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
STYLE = '<link rel="stylesheet" href="view/view.css">'
SCRIPT = '<script type="module" src="view/view.js"></script>'
"""How the page refers to its files."""
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


def register(mcp: FastMCP, engine: Callable[[], Engine]) -> None:
    """Publish the view at /view, and as an MCP App; `engine` is that of the lifespan."""
    mcp.add_provider(APP)

    def publish(path: str, name: str) -> None:
        @mcp.custom_route(path, methods=["GET"])
        async def file(_request: Request) -> Response:
            media_type = TYPES[name.rpartition(".")[2]]
            return Response(text_of(name), headers=HEADERS, media_type=media_type)

    publish("/view", "view.html")
    publish("/view/view.css", "view.css")
    publish("/view/view.js", "view.js")

    @mcp.custom_route("/", methods=["GET"])
    async def home(_request: Request) -> Response:
        return RedirectResponse("view")

    def route(method: str, path: str, refused: int) -> Callable[[auth.Handler], auth.Handler]:
        """Publish a handler. Its errors get the status `refused`, or 503 if a retry may succeed."""

        def publish(handler: auth.Handler) -> auth.Handler:
            @auth.route(mcp, path, [method])
            async def guarded(request: Request) -> Response:
                try:
                    if method == "POST":
                        of_our_page(request)
                    return await handler(request)
                except PlanloomError as error:
                    why, status = str(error), 503 if isinstance(error, Unreachable) else refused
                except ValidationError as error:
                    (_, why), status = first_problem(error), refused
                return JSONResponse({"error": {"message": why}}, status, PRIVATE)

            return handler

        return publish

    async def run_of(request: Request) -> Run:
        return await find(engine(), request.path_params["run_id"])

    @route("GET", "/view/runs", 503)
    async def runs(_request: Request) -> Response:
        engine().watch(owners())
        listed = await listing(engine(), owners())
        project = cleaned(str(engine().pool.project))
        return JSONResponse(listed | {"project": project}, headers=PRIVATE)

    @route("POST", "/view/runs", 400)
    async def ask(request: Request) -> Response:
        asked = Question.model_validate_json(await request.body())
        wanted = RunRequest(prompt=asked.prompt, policy=Policy.ASK)
        run = await engine().start(wanted, auth.caller(), can_ask=True)
        return JSONResponse({"id": run.id}, 201, PRIVATE)

    @route("GET", "/view/runs/{run_id}", 404)
    async def follow(request: Request) -> Response:
        run = await run_of(request)
        if run.request.policy is Policy.ASK and not run.finished:
            await engine().attend(run)
        events = (f"data: {each}\n\n" async for each in changes(run))
        return StreamingResponse(events, headers=PRIVATE, media_type="text/event-stream")

    @route("GET", "/view/runs/{run_id}/calls/{number}", 404)
    async def model_call(request: Request) -> Response:
        """What a model was asked, and what it replied."""
        ledger = (await run_of(request)).state.ledger
        call = numbered("model call", ledger, request.path_params["number"])
        found = {"question": clean(call.question), "reply": clean(call.reply)}
        return JSONResponse(found, headers=PRIVATE)

    @route("GET", "/view/runs/{run_id}/results/{iteration}", 404)
    async def result(request: Request) -> Response:
        """The whole result of a tool call, as a reader sees it."""
        iterations = (await run_of(request)).state.iterations
        shown = numbered("iteration", iterations, request.path_params["iteration"])
        return PlainTextResponse(clean(readable(shown.result)), headers=PRIVATE)

    @route("POST", "/view/runs/{run_id}/approval", 400)
    async def decide(request: Request) -> Response:
        answer = Answer.model_validate_json(await request.body())
        run = await run_of(request)
        await engine().decide(run, answer.digest, answer.approve, "in the browser")
        return Response(status_code=204)

    @route("POST", "/view/runs/{run_id}/steer", 400)
    async def steer(request: Request) -> Response:
        said = SteerRequest.model_validate_json(await request.body())
        await engine().steer(await run_of(request), **said.model_dump(), by="person")
        return Response(status_code=204)

    @route("POST", "/view/runs/{run_id}/stop", 400)
    async def stop(request: Request) -> Response:
        await engine().cancel(await run_of(request))
        return Response(status_code=204)

    # The same page as an MCP App (the extension io.modelcontextprotocol/ui), and the list of runs
    # in which it finds the one of a call that is under way.


class Question(BaseModel):
    prompt: str


class Answer(BaseModel):
    """Whether the call that waits for approval may be made; `digest` is that of the call shown."""

    digest: str
    approve: bool


def of_our_page(request: Request) -> None:
    """Raises `RequestError` for a request from another site's page, which has no token either."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise RequestError("Only the view's own page may ask for this, not a page of another site.")


class SteerRequest(BaseModel):
    hint: str = ""
    skip: list[int] = []
    order: list[int] = []


UI = {"ui": {"prefersBorder": True}}
APP = LocalProvider()
"""The page as an MCP App (the extension io.modelcontextprotocol/ui), and the list of runs in which
it finds the one of a call that is under way."""


@APP.resource(VIEW, title="A run as it goes on", mime_type=UI_MIME_TYPE, meta=UI)
def app() -> str:
    """Plan, tool calls, answer and cost of a run, for hosts that show MCP Apps."""
    style, script = text_of("view.css"), text_of("view.js")
    return (
        text_of("view.html")
        .replace(STYLE, f"<style>\n{style}</style>")
        .replace(SCRIPT, f'<script type="module">\n{script}</script>')
    )


@APP.resource("runs://newest", title="The newest runs", mime_type="application/json")
async def newest(ctx: Context) -> str:
    """Id, status, prompt and times of the newest runs."""
    with errors_as(ResourceError):
        return json.dumps(await listing(engine_of(ctx), [auth.caller()]))


@cache
def text_of(name: str) -> str:
    return (STATIC / name).read_text("utf-8")


def owners() -> list[str]:
    """Whose runs the caller may see: their own; the user also sees those without a caller."""
    return [auth.caller(), *([LOCAL] if auth.is_user() else [])]


async def find(engine: Engine, run_id: str) -> Run:
    """A run that the caller may see. Raises `RequestError`."""
    *others, last = owners()
    for owner in others:
        with suppress(RequestError):
            return await engine.get(run_id, owner)
    return await engine.get(run_id, last)


async def listing(engine: Engine, callers: Sequence[str]) -> dict[str, Any]:
    """The newest runs of these callers, each with the call that waits for approval."""
    found = await engine.list_runs(MAX_LISTED, callers)
    return {"runs": cleaned([vars(each) | await _going_on(engine, each) for each in found])}


async def _going_on(engine: Engine, listed: RunSummary) -> dict[str, Any]:
    """The fields of a list entry that only a running run has."""
    with suppress(RequestError):  # it was deleted since it was listed
        if listed.status == "running":
            run = await find(engine, listed.id)
            return {"approval": approval(run), "doing": doing(run)}
    return {"approval": None}


def approval(run: Run) -> dict[str, Any] | None:
    """The call that the run waits with until a person has answered."""
    call = run.approvals.waiting
    return call.model_dump() if call else None


async def changes(run: Run) -> AsyncIterator[str]:
    """The changed keys of the run's page as JSON, at first all, until the run has ended here."""
    sent: dict[str, str] = {}
    while True:
        await run.flush()  # what a page has seen is not lost
        page = _PAGES.setdefault(run, Page())
        page.draw(run)
        count, now = page.count, page.shown
        new = {key: value for key, value in now.items() if sent.get(key) != value}
        yield f"{{{', '.join(f'{json.dumps(key)}: {value}' for key, value in new.items())}}}"
        sent = now
        if run.finished and count == len(run.events):
            return
        await anyio.sleep(max(PACE_SECONDS, page.pause))
        with anyio.move_on_after(QUIET_SECONDS):
            await run.wait_beyond(count)


class Page:
    """The report and the rest of a run's page, drawn once for all viewers."""

    def __init__(self) -> None:
        self.count = -1
        """The number of events in it."""
        self.shown: dict[str, str] = {}
        """JSON, by key."""
        self.pause = 0.0
        """Seconds until it is drawn again: drawing should cost less than the run itself."""
        self._finished = False

    def draw(self, run: Run) -> None:
        new = run.events[max(0, self.count) :]
        going_on = self.shown and run.finished == self._finished
        if going_on and all(isinstance(each, AnswerDelta) for each in new):
            changed = {"doing": doing(run)} | ({"draft": run.state.draft} if new else {})
            self.shown = self.shown | _as_json(cleaned(changed))
            self.count = len(run.events)
            return
        began = time.perf_counter()
        self.count, self._finished = len(run.events), run.finished
        more = {
            "prompt": run.request.prompt,
            "project": run.project,
            "created": run.created,
            "began": (run.state.started.at if run.state.started else run.created)
            + run.state.paused,
            "doing": doing(run),
            "approval": approval(run),
            "timeline": [each.model_dump() for each in timeline(run.events)],
        }
        self.shown = _as_json(report_of(run).model_dump(mode="json") | cleaned(more))
        self.pause = MIN_PAUSE_FACTOR * (time.perf_counter() - began)


_PAGES: WeakKeyDictionary[Run, Page] = WeakKeyDictionary()


def _as_json(values: dict[str, Any]) -> dict[str, str]:
    return {key: json.dumps(value) for key, value in values.items()}


def doing(run: Run) -> str:
    """What happened last, or what the run waits for."""
    last = run.events[-1] if run.events else None
    if isinstance(last, AnswerDelta):
        return f"{where(run.state)}an answer is being written"
    if last is None or run.models_doing():
        return heartbeat(run.state, None, run.queued, models_doing=run.models_doing())
    return message(last, run.state)
