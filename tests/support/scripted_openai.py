"""A scripted server of the OpenAI chat API: the scripted Ollama with another face.

Replies, faults and expectations are those of `scripted_ollama`; a `Request` has the fields of
Ollama's whatever came over the wire, and `sent` is that.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ollama_replies import Garbage, HttpError, Reply
from scripted_ollama import Connection, Request, ScriptedOllama, schema_problems


@dataclass(frozen=True)
class ApiRequest(Request):
    """One POST to `/v1/chat/completions`."""

    sent: dict[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


class ScriptedOpenAI(ScriptedOllama):
    """The server. `key` is what it wants to see; `windows` are the context windows that it tells
    of its models; `refuses` are the fields that it answers with HTTP 400; `takes_roles` is False
    for a model whose chat template wants user and assistant in turn; `tells` are the parts of a
    reply's cost that it tells: `usage`, `cached`, `timings`."""

    def __init__(
        self,
        *,
        key: str | None = None,
        windows: Mapping[str, int] | None = None,
        refuses: Sequence[str] = (),
        takes_roles: bool = True,
        tells: Sequence[str] = ("usage", "cached"),
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.key = key
        self.windows = windows or {}
        self.refuses = refuses
        self.takes_roles = takes_roles
        self.tells = tells

    @property
    def connection(self) -> type[Connection]:
        return _ApiConnection

    @property
    def base(self) -> str:
        """For PLANLOOM_MODEL_URL."""
        return f"{self.url}/v1"

    @property
    def sent(self) -> list[dict[str, Any]]:
        """Every body that came, those with a usual reply aside."""
        return [each.sent for each in self.requests if isinstance(each, ApiRequest)]

    def _take(self, request: Request) -> Reply:
        assert isinstance(request, ApiRequest)
        for name in self.refuses:
            if name in request.sent:
                return HttpError(400, f"Unrecognized request argument supplied: {name}")
        roles = [each["role"] for each in request.messages]
        turns = ["user", "assistant"] * len(roles)
        if not self.takes_roles and roles != turns[: len(roles)]:
            return HttpError(500, "Conversation roles must alternate user/assistant/user/…")
        return super()._take(request)

    def _request_problems(self, request: Request) -> Iterator[str]:
        assert isinstance(request, ApiRequest)
        if request.sent.get("stream") is not True:
            yield "The call does not stream, so that a cancel would not stop the server."
        if request.schema is not None:
            yield from schema_problems(request.schema, "response_format")

    def _get(self, path: str) -> dict[str, Any] | None:
        if path != "/v1/models":
            return None
        listed = [
            {"id": name, "object": "model"}
            | ({"max_model_len": self.windows[name]} if name in self.windows else {})
            for name in self.models
        ]
        return {"object": "list", "data": listed}


class _ApiConnection(Connection):
    """Speaks server-sent events; each record of Ollama's is one or several of them."""

    @property
    def _api(self) -> ScriptedOpenAI:
        assert isinstance(self.server.ollama, ScriptedOpenAI)
        return self.server.ollama

    def _let_in(self) -> bool:
        if self._api.key in (None, self.headers.get("Authorization", "").removeprefix("Bearer ")):
            return True
        self._send(401, {"error": {"message": f"Incorrect API key, not {self._api.key}"}})
        return False

    def do_GET(self) -> None:
        if self._let_in():
            super().do_GET()

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._let_in():
            return
        if self.path != "/v1/chat/completions":
            self._send(404, b"404 page not found")
            return
        shape = sent.get("response_format", {}).get("json_schema", {}).get("schema")
        window = self._api.windows.get(sent["model"], 1_000_000)
        body = {
            "model": sent["model"],
            "messages": sent["messages"],
            "format": shape,
            "options": {"num_predict": sent["max_tokens"], "num_ctx": window},
        }
        request = ApiRequest(body, sent=sent, headers=dict(self.headers))
        try:
            self._reply(request, self._api._answer(request))
        except ConnectionError:
            request.hung_up.set()
            self.close_connection = True

    def _reply(self, request: Request, reply: Reply) -> None:
        if isinstance(reply, HttpError) and isinstance(reply.error, str):
            error = {"message": reply.error, "type": "invalid_request_error"}
            self._send(reply.status, {"error": error})
        else:
            super()._reply(request, reply)
            if isinstance(reply, Garbage):
                self.close_connection = True

    def _line(self, record: dict[str, Any]) -> None:
        self._chunk(b": a comment that keeps the connection alive\n\n")
        if "error" in record:
            self._event({"error": {"message": record["error"], "code": 500}})
            return
        said = record["message"]
        delta = {"content": said["content"], "reasoning_content": said.get("thinking")}
        self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if not record["done"]:
            return
        ended: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": record["done_reason"]}
        self._event({"choices": [ended]} | self._timings(record))
        prompt, reply = record.get("prompt_eval_count"), record.get("eval_count")
        if "usage" in self._api.tells:
            usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": reply}
            if "cached" in self._api.tells:
                usage["prompt_tokens_details"] = {
                    "cached_tokens": record.get("prompt_eval_cached_count")
                }
            self._event({"choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n")

    def _timings(self, record: dict[str, Any]) -> dict[str, Any]:
        if "timings" not in self._api.tells:
            return {}
        return {
            "timings": {
                "cache_n": record["prompt_eval_cached_count"],
                "prompt_ms": record["prompt_eval_duration"] / 1e6,
                "predicted_ms": record["eval_duration"] / 1e6,
            }
        }

    def _event(self, data: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(data).encode() + b"\n\n")
