"""What a client of the OpenAI API asks, as a request for the planner."""

import re
from typing import Any, Literal

from pydantic import BaseModel, Field

from planner.protocol import Limits, RunRequest
from planner.text import shortened
from planner.tools import Policy
from server.text import clean
from server.views.markdown import CONCLUSION

MODEL = "planloom"
RUN_SECONDS = 540.0
"""The time limit of a run; OpenAI's own clients give up on a reply after 600 s."""
MAX_CONVERSATION_CHARS, MAX_MESSAGE_CHARS = 2000, 600
"""Of the conversation and of one message in it: some 500 tokens, with which each prompt begins."""
EVIDENCE = "\n\n---\n\nEvidence:"


class Part(BaseModel):
    """A part of a message's content. Only texts can be read."""

    type: str
    text: str = ""


class ChatMessage(BaseModel):
    role: str
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.text)
        return self.content or ""


class JsonSchema(BaseModel):
    json_schema: dict[str, Any] = Field(alias="schema")


class ResponseFormat(BaseModel):
    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: JsonSchema | None = None


class StreamOptions(BaseModel):
    include_usage: bool = False


class ChatRequest(BaseModel):
    """A client's request; other fields (temperature, max_tokens, tools …) are ignored."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    response_format: ResponseFormat | None = None
    tool_choice: Any = None

    @property
    def data_schema(self) -> dict[str, Any] | None:
        given = self.response_format.json_schema if self.response_format else None
        return given.json_schema if given else None

    def run_request(self) -> RunRequest:
        """The request for the planner. Raises `Unservable`."""
        if self.model != MODEL:
            what = f"There is no model {self.model!r} here; the planner is called {MODEL!r}."
            raise Unservable(what, "model", "model_not_found", 404)
        if self.n not in (None, 1):
            raise Unservable("One request gets one answer; leave `n` out.", "n")
        if self.tool_choice not in (None, "none", "auto"):
            raise Unservable(
                "The planner calls its own tools and none of a client's; leave `tool_choice` out.",
                "tool_choice",
            )
        wanted = self.response_format.type if self.response_format else "text"
        if wanted != "text" and self.data_schema is None:
            raise Unservable(
                "JSON is written to a schema only; send response_format as "
                '{"type": "json_schema", "json_schema": {"name": …, "schema": …}}.',
                "response_format",
            )
        asked = [place for place, each in enumerate(self.messages) if each.role == "user"]
        if not asked:
            raise Unservable("There is no message with the role `user`; send one.", "messages")
        last = self.messages[asked[-1]]
        unread = {part.type for part in last.content or () if isinstance(part, Part)} - {"text"}
        if unread:
            what = f"The planner reads text only, not {', '.join(sorted(unread))}; leave it out."
            raise Unservable(what, "messages")
        before = self.messages[: asked[-1]]
        return RunRequest(
            prompt=last.text,
            said_before=said_before(before),
            user_said_before=said_before([each for each in before if each.role == "user"]),
            limits=Limits(seconds=RUN_SECONDS),
            policy=Policy.ASK,
            data_schema=self.data_schema,
        )


class Unservable(Exception):
    """A well-formed request that the planner cannot serve."""

    def __init__(
        self, text: str, param: str, code: str = "unsupported_value", status: int = 400
    ) -> None:
        super().__init__(text)
        self.param, self.code, self.status = param, code, status


def said_before(messages: list[ChatMessage]) -> str:
    """The newest messages of user and assistant, within bounds, and only the conclusions of our own
    answers. A client's system prompt is for another agent."""
    lines: list[str] = []
    room = MAX_CONVERSATION_CHARS
    for each in reversed(messages):
        if each.role not in ("user", "assistant"):
            continue
        text = re.split(rf"^{CONCLUSION}\n-+$", each.text, flags=re.MULTILINE)[-1]
        text = text.partition(EVIDENCE)[0].strip()
        text = shortened(text, MAX_MESSAGE_CHARS)
        line = f"{each.role.capitalize()}: {clean(text)}"
        room -= len(line)
        if room < 0:
            break
        lines += [line] if text else []
    return "\n".join(reversed(lines))
