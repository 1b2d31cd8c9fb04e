"""What an upstream asks, logs and reports while it serves a call, passed on to the call's run.

An upstream's question reaches the person through any view of the run that can ask, as approvals do
(`server.approval.approval`); the form is rebuilt (`server.approval.elicitation`). Without an answer
in time the run goes on. The time that a person takes counts neither for the call nor for the run,
and the answer goes only to the upstream that asked, not into any event, record or prompt.
"""

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio
from mcp_types import (
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    LoggingLevel,
)

from planner import events
from planner.clock import Clock
from planner.tools import DecidedBy, ToolSpec
from server.approval import elicitation
from server.approval.approval import Approvals, Question
from server.config import MIN_SECRET_CHARS
from server.text import clean, fence, one_line
from server.upstreams.results import cut
from server.variables import HIDDEN

MAX_QUESTION_CHARS, MAX_LOG_CHARS, MAX_PROGRESS_CHARS = 2000, 500, 150
MAX_LOGS, MAX_QUESTIONS = 20, 10
"""How many log messages and questions of one call are passed on."""
PROGRESS_SECONDS = 1.0
"""The shortest time between two reports of one call's progress."""

SECRET = (
    "It seems to ask for a secret. MCP forbids that in a form: do not answer unless you know why "
    "it needs the secret."
)
NONE = ElicitResult(action="cancel")


class Resolution(NamedTuple):
    """The outcome of a question: who decided it, why, and what the upstream gets."""

    by: DecidedBy
    reason: str
    result: ElicitResult = NONE


WITHDRAWN = Resolution("policy", "it was withdrawn")


class SideChannel:
    """What an upstream asks, logs and reports during one call."""

    def __init__(
        self,
        tool: ToolSpec,
        iteration: int | None,
        approvals: Approvals,
        record: Callable[[events.Event], None],
        run_clock: Clock,
        *,
        alone: bool,
    ) -> None:
        """`alone`: nobody but the run's caller uses this server."""
        self.approvals = approvals
        """Of the run: the same for all its calls."""
        self.clock = Clock()
        """The call's own clock; it stops while a person is being asked."""
        self._of: dict[str, Any] = {
            "iteration": iteration,
            "upstream": tool.upstream,
            "tool": tool.name,
        }
        self._record, self._run_clock, self._alone = record, run_clock, alone
        self._question: Question | None = None
        self._typed: list[str] = []
        self._questions = self._logs = 0
        self._progress_reported_at = -PROGRESS_SECONDS
        self._asking = self._over = False

    def end(self) -> None:
        """The call is over: an open question is withdrawn, and nothing more is passed on."""
        self._note(WITHDRAWN)
        self._over = True
        if self._question:
            self._question.closed.set()

    def hide_typed(self, text: str) -> str:
        """A text of the upstream, without what a person typed where it asked for a secret."""
        for typed in self._typed:
            text = text.replace(typed, HIDDEN)
        return text

    def report_progress(self, progress: float, total: float | None, message: str) -> None:
        """Pass on the call's progress from time to time."""
        now = anyio.current_time()
        if self._over or now - self._progress_reported_at < PROGRESS_SECONDS:
            return
        if not math.isfinite(progress + (total or 0)):
            return
        self._progress_reported_at = now
        shown = one_line(self.hide_typed(message), MAX_PROGRESS_CHARS)
        self._record(
            events.ToolProgressed(**self._of, progress=progress, total=total, message=shown)
        )

    def report_log(self, level: LoggingLevel, text: str) -> None:
        """Pass on a log message, unless it is for debugging or the limit is reached."""
        if self._over or level == "debug" or self._logs >= MAX_LOGS:
            return
        self._logs += 1
        shown = one_line(self.hide_typed(text), MAX_LOG_CHARS)
        self._record(events.UpstreamLogged(**self._of, level=level, text=shown))

    async def ask(self, params: ElicitRequestParams, redact: Callable[[str], str]) -> ElicitResult:
        """Put a question to the person; returns the answer. `redact` removes operator's secrets."""
        self._questions += 1
        if self._questions > MAX_QUESTIONS:
            return NONE
        text = cut(redact(clean(params.message)).strip(), MAX_QUESTION_CHARS)
        with self.clock.held(), self._run_clock.held():
            async with self.approvals.turn:
                if self._over:
                    return NONE
                self._record(events.QuestionAsked(**self._of, text=text))
                self._asking = True
                resolution = WITHDRAWN
                try:
                    resolution = await self._put_question(params, text, redact)
                finally:
                    self._note(resolution)
        return resolution.result

    def _note(self, resolution: Resolution) -> None:
        """Record how a question was decided, once; not after the call, when the run may be over."""
        if self._asking:
            self._asking = False
            action = resolution.result.action
            self._record(
                events.QuestionAnswered(
                    **self._of, action=action, by=resolution.by, reason=resolution.reason
                )
            )

    async def _put_question(
        self, params: ElicitRequestParams, text: str, redact: Callable[[str], str]
    ) -> Resolution:
        try:
            if isinstance(params, ElicitRequestURLParams):
                question = self._about_page(params, text)
            else:
                question = self._with_form(params, text, redact)
        except elicitation.Unfit as unfit:
            return Resolution("policy", f"it was not passed on, since {unfit}")
        self._question = question
        decided = await self.approvals.put(question)
        if question.result is None or question.result.action == "cancel":
            return Resolution(decided.by, decided.reason)
        return self._resolve(question.result, question.form, text)

    def _resolve(self, result: ElicitResult, form: dict[str, Any], text: str) -> Resolution:
        page = form is elicitation.PAGE
        content = elicitation.filled_in(result.content, form)
        if result.action == "decline" or (page and not (content or {}).get(elicitation.CHECKBOX)):
            return Resolution("person", "the user said no", ElicitResult(action="decline"))
        if content is None:
            return Resolution("person", "what came back does not fit the form")
        if not page and elicitation.asks_for_secret(text, form):
            texts = [each for each in content.values() if isinstance(each, str)]
            self._typed += [each for each in texts if len(each) >= MIN_SECRET_CHARS]
        accepted = ElicitResult(action="accept", content=None if page else content)
        return Resolution("person", "the user answered", accepted)

    def _with_form(
        self, params: ElicitRequestFormParams, text: str, redact: Callable[[str], str]
    ) -> Question:
        form = elicitation.form(params.requested_schema)
        if redact(json.dumps(form)) != json.dumps(form):
            raise elicitation.Unfit("its form shows a secret of the operator's")
        lines = [SECRET] if elicitation.asks_for_secret(text, form) else []
        lines.append(
            f"Your answer goes to {self._of['upstream']} alone. If it repeats the answer in "
            "a result, models read it, and it is recorded."
        )
        return Question(self._message(text, lines), form=form)

    def _about_page(self, params: ElicitRequestURLParams, text: str) -> Question:
        if not self._alone:
            raise elicitation.Unfit("it is about a page to open, and others use this server too")
        address = elicitation.page(params.url)
        lines = [
            f"It is about a page of {urlsplit(address).hostname}:",
            fence(address),
            f"Open it yourself if you trust {self._of['upstream']} with it; nothing opens it for "
            "you.",
        ]
        return Question(self._message(text, lines), form=elicitation.PAGE)

    def _message(self, text: str, lines: list[str]) -> str:
        head = f"{self._of['upstream']} asks, while it runs {self._of['tool']}:"
        foot = (
            f"For {self.approvals.about}. Without an answer within "
            f"{self.approvals.timeout_s:g} s, it gets none."
        )
        return "\n".join([head, fence(text), *lines, foot])
