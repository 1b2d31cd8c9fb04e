"""The planner as a model of the OpenAI API, for clients without MCP.

The last user message starts a run, its plan and answer come as Markdown (`server.views.markdown`),
and what happens meanwhile as `reasoning_content`. The run ends when the client hangs up. A person
approves calls in the browser or on a terminal, and the reply says when, and how; while nobody looks
there, runs are read-only.
"""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastmcp import FastMCP
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from planner import events
from planner.errors import Busy, PlanloomError, RequestError
from planner.text import flat
from server import auth
from server.background import background_tasks
from server.http.openai_request import EVIDENCE, MODEL, ChatRequest, Unservable
from server.mcp.input_errors import first_problem
from server.mcp.results import ended
from server.runs.engine import Engine
from server.runs.run import Run, report_of
from server.text import cleaned, fence
from server.views import consent
from server.views.inert import inert, inert_piece
from server.views.markdown import Document, line
from server.views.progress import HEARTBEAT_SECONDS, message
from server.views.report_text import done_in_words, warned

IN_CONTENT = (
    events.ApprovalAsked,
    events.ApprovalDecided,
    events.ItemStarted,
    events.PlanMade,
    events.PlanRevised,
    events.RunFinished,
    events.StepConcluded,
    events.StepContinued,
    events.StepStarted,
)
"""The events in the content; the others are reasoning."""


def register(mcp: FastMCP, engine: Callable[[], Engine]) -> None:
    """Publish the routes on a server; `engine` gives its engine once it runs."""
    listed = {"id": MODEL, "object": "model", "created": int(time.time()), "owned_by": MODEL}

    @auth.route(mcp, "/v1/models", ["GET"])
    async def models(_: Request) -> Response:
        return JSONResponse({"object": "list", "data": [listed]})

    @auth.route(mcp, f"/v1/models/{MODEL}", ["GET"])
    async def model(_: Request) -> Response:
        return JSONResponse(listed)

    @auth.route(mcp, "/v1/chat/completions", ["POST"])
    async def completions(request: Request) -> Response:
        try:
            asked = ChatRequest.model_validate_json(await request.body())
            wanted = asked.run_request()
            run = await engine().start(wanted, auth.caller())
        except ValidationError as error:
            place, message = first_problem(error)
            return auth.refusal(400, message, "invalid_value", param=place or None)
        except Unservable as error:
            return auth.refusal(error.status, str(error), error.code, param=error.param)
        except Busy as busy:
            later = {"Retry-After": str(busy.retry_after_s)}
            return auth.refusal(
                429, str(busy), "rate_limit_exceeded", kind="rate_limit_error", headers=later
            )
        except RequestError as error:
            told = str(error).replace("data_schema", "response_format")
            param = "response_format" if told.startswith("response_format") else None
            return auth.refusal(400, told, "invalid_value", param=param)
        except PlanloomError as error:
            return auth.refusal(503, str(error), "model_unavailable", kind="server_error")
        completion = Completion(run, asked, f"{request.base_url}view?run={run.id}")
        if asked.stream:
            return RunStream(completion, engine())
        async with attached(run, engine(), request.receive):
            return await completion.whole()

    @auth.route(mcp, "/v1/{path:path}", ["DELETE", "GET", "POST", "PUT"])
    async def anything_else(request: Request) -> Response:
        what = f"There is no {request.method} {request.url.path} here"
        return auth.refusal(
            404, f"{what}; there are /v1/models and /v1/chat/completions.", "not_found"
        )


@asynccontextmanager
async def attached(run: Run, engine: Engine, receive: Receive) -> AsyncIterator[None]:
    """The run ends when its client hangs up."""

    async def listen() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if not run.finished:
            with suppress(RequestError):  # it goes on where its server does not end it
                await engine.cancel(run)

    async with background_tasks() as tasks:
        tasks.start_soon(listen)
        yield


class RunStream(StreamingResponse):
    """A completion as server-sent events. A client that does not read them holds up no run."""

    def __init__(self, completion: "Completion", engine: Engine) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"} | completion.headers
        super().__init__(completion.stream(), headers=headers, media_type="text/event-stream")
        self._run, self._engine = completion.run, engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with attached(self._run, self._engine, receive):
            await self.stream_response(send)


class Completion:
    def __init__(self, run: Run, asked: ChatRequest, link: str) -> None:
        """`link`: where a person sees the run."""
        self.run, self.link = run, link
        self.as_data = asked.data_schema is not None
        self.tells_usage = bool(asked.stream_options and asked.stream_options.include_usage)
        self.headers = {"X-Request-Id": run.id}
        """OpenAI's clients show it as the request's id."""
        self._document = Document()
        self._drafting = False

    async def whole(self) -> Response:
        content = "".join(
            [self._content(event) async for new in self.run.follow() for event in new]
        )
        if problem := self._problem():
            # Another try would be another run, and as long.
            headers = self.headers | {"X-Should-Retry": "false"}
            status = 503 if problem["code"] == "interrupted" else 500
            return JSONResponse({"error": problem}, status, headers)
        reply = {"role": "assistant", "content": content + self._sources(), "refusal": None}
        if self.as_data:
            reply |= self._data()
        choice = {"index": 0, "message": reply, "finish_reason": "stop", "logprobs": None}
        body = self._body("chat.completion", [choice]) | {"usage": self._usage()}
        return JSONResponse(body, headers=self.headers)

    async def stream(self) -> AsyncIterator[str]:
        """The reply while the run goes on, as server-sent events, the first one at once."""
        yield self._chunk({"role": "assistant", "content": ""})
        async for new in self.run.follow(lambda: HEARTBEAT_SECONDS):
            if not new:
                yield f": {self.run.doing(self._document.state)}\n\n"
            for event in new:
                for delta in self._deltas(event):
                    yield self._chunk(delta)
        if problem := self._problem():
            yield _event({"error": problem})
        else:
            if self.as_data:
                yield self._chunk({key: text for key, text in self._data().items() if text})
            elif foot := self._sources():
                yield self._chunk({"content": foot})
            yield self._chunk({}, finish_reason="stop")
            if self.tells_usage:
                yield _event(self._body("chat.completion.chunk", []) | {"usage": self._usage()})
        yield "data: [DONE]\n\n"

    def _deltas(self, event: events.Event) -> Iterator[dict[str, str]]:
        content = self._content(event)
        if isinstance(event, events.AnswerDelta):
            begins = "Draft: " if event.begins else ""
            yield {"reasoning_content": inert_piece(begins + event.text)}
            self._drafting = True
        elif self.as_data and isinstance(event, events.ApprovalAsked | events.ApprovalDecided):
            yield {"reasoning_content": content}
        elif self.as_data or not isinstance(event, IN_CONTENT):
            newline = "\n" if self._drafting else ""
            line = message(event, self._document.state)
            yield {"reasoning_content": f"{newline}{inert_piece(line)}\n"}
            self._drafting = False
        failed = isinstance(event, events.RunFinished) and self._problem()
        if content and not self.as_data and not failed:
            yield {"content": content}

    def _content(self, event: events.Event) -> str:
        document = self._document.add(event)
        if isinstance(event, events.ApprovalAsked):
            return self._question(event)
        if isinstance(event, events.ApprovalDecided):
            return f"{line(f'{event.tool} was {consent.outcome(event)}.')}\n\n"
        return document

    def _question(self, asked: events.ApprovalAsked) -> str:
        """A call that the run waits with, and how a person answers; nothing once it is decided."""
        call = self.run.approvals.waiting
        if call is None or call.digest != asked.digest:
            return ""
        arguments, _ = consent.shown_arguments(asked.arguments)
        guess = f"{line(call.guess)}\n\n" if call.guess else ""
        text = (
            f"**Waiting for your approval:** {line(call.call)}\n\n{fence(arguments)}\n\n{guess}"
            f"Answer in [the browser]({self.link}), which shows the whole call, or with "
            f"`{call.command('approve')}` or `{call.command('decline')}`. Without an answer within "
            f"{self.run.approvals.timeout_s:g} s the call is declined.\n\n"
        )
        return inert(text)

    def _problem(self) -> dict[str, Any] | None:
        code, name = "interrupted", self.run.id
        if self.run.elsewhere:
            text = (
                f"Another server goes on with run {name}; `planloom runs show --follow {name}` "
                "shows it."
            )
        elif self.run.interrupted:
            text = (
                f"The server was stopped, so run {name} was interrupted. To continue it: "
                f"`planloom runs resume {name}`."
            )
        elif self.run.state.status == "failed":
            code, text = "run_failed", self.run.state.answer
        else:
            return None
        message = " ".join([text, *(f"Warning: {each}" for each in report_of(self.run).warnings)])
        return {"message": inert(message), "type": "server_error", "param": None, "code": code}

    def _data(self) -> dict[str, str | None]:
        """The answer as the client's schema asks; without one, or where a check failed, the answer
        is the refusal that OpenAI's clients know. Warnings have no place in either."""
        state = self.run.state
        warnings = warned(report_of(self.run).warnings)
        beside = {"reasoning_content": inert(warnings)} if warnings else {}
        left_out = state.model_says == ""  # it said more than was done
        if state.data is None or state.unsupported or left_out:
            why = f" ({state.reason})" if state.reason and state.reason not in state.answer else ""
            return {"content": None, "refusal": inert(state.answer + why)} | beside
        data = json.dumps(cleaned(state.data, keys=True), ensure_ascii=False)
        return {"content": data, "refusal": None} | beside

    def _sources(self) -> str:
        """The changes, warnings, evidence and a link to the run; empty if there was no search."""
        found = report_of(self.run)
        before = [done_in_words(found), warned(found.warnings)]
        facts = "".join(f"\n\n{each}" for each in before if each)
        lines = []
        for each in ended(found).evidence:
            quote = "".join(f"  \n  `{_code(line)}`" for line in each.lines[:1])
            lines.append(f"- `{_code(each.source)}`{quote}")
        evidence = "\n".join([EVIDENCE, "", *lines]) if lines else ""
        if not (facts or evidence):
            return ""
        return inert(f"{facts}{evidence}\n\n[The whole run]({self.link})")

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return _event(self._body("chat.completion.chunk", [choice]))

    def _body(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.run.id}",
            "object": kind,
            "created": int(self.run.created),
            "model": MODEL,
            "choices": choices,
        }

    def _usage(self) -> dict[str, Any]:
        """The tokens of all model calls of the run."""
        usage = report_of(self.run).usage
        return {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.generated_tokens,
            "total_tokens": usage.prompt_tokens + usage.generated_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        }


def _code(text: str) -> str:
    return flat(text.replace("`", ""))


def _event(data: dict[str, Any]) -> str:
    """A server-sent event. All but ASCII is escaped, so that nothing in it ends a line."""
    return f"data: {json.dumps(data)}\n\n"
