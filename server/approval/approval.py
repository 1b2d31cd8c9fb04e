"""Who may run what: policies, the questions to a person, and the gate before the pool.

A call of a tool that is not read-only is decided on by the stricter of the tool's policy and the
run's. If that is `ask`, the run waits at the call, and every view whose client can ask puts the
question to its person: over `elicitation/create` up to the protocol of 2025-11-25, as an
`InputRequiredResult` since 2026-07-28. The first answer counts; without one in time it is a no.

Exactly what was approved runs: an approval is valid for one call of this tool with these arguments,
and the gate stops every other call, whatever the planner does. An answer from another process names
the call by its digest (`Approvals.sealed`). The SDK seals the state that a client of 2026-07-28
sends back (AES-256-GCM; it is bound to the call and the caller, and expires).
"""

import hmac
import json
import secrets
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from fastmcp import Context
from mcp import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponse,
)
from pydantic import ValidationError

from planner.errors import RequestError
from planner.events import ApprovalAsked
from planner.protocol import RunRequest
from planner.state import RunState
from planner.text import shortened
from planner.tools import (
    Approval,
    Policy,
    PoolAround,
    ToolPool,
    ToolResult,
    ToolSpec,
    failed_call,
    strictest,
)
from server.background import cancel_on
from server.text import one_line
from server.variables import HIDDEN
from server.views import consent
from server.views.consent import Waiting, visible
from server.views.inert import inert_piece

LATE_SECONDS = 600.0
"""How long after a question was closed a client may still bring an answer, and find its run."""
MAX_PROMPT_CHARS = 200
MAX_WHY_CHARS = 200
"""Of the reason why a client could not ask."""
SECRET_LOST = (
    "its arguments hold a secret, which the run's record does not contain; give the secret again, "
    "in another step or a new run"
)
ANSWER = "approval"
"""The key of the question in an `InputRequiredResult`, and of its answer."""
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approve": {
            "type": "boolean",
            "title": "Make this call",
            "description": "Once, with exactly these arguments.",
            "default": False,
        }
    },
    "required": ["approve"],
}


class Question:
    """A question to a person, until it is closed by an answer, by time, or with its run."""

    def __init__(
        self, message: str, question_id: str | None = None, *, form: dict[str, Any] = FORM
    ) -> None:
        """`question_id`: identifies the question on every server; None: a new one. `form`: the JSON
        Schema of what the person fills in; by default, whether a call may be made."""
        self.id = question_id or uuid.uuid4().hex
        self.message = message
        self.form = form
        self.closed = anyio.Event()
        self.result: ElicitResult | None = None
        """What the person did with the form, if anything."""
        self.approval: Approval | None = None
        """The approval that follows from it, or why nobody was asked."""
        self.opened = 0.0
        """When it began to wait here, in seconds since the epoch."""
        self._asked = 0
        """How many clients show it."""

    def close(self, approval: Approval) -> None:
        """Later answers are ignored."""
        if not self.closed.is_set():
            self.approval = approval
            self.closed.set()

    def answer(self, result: ElicitResult) -> None:
        if not self.closed.is_set():
            self.result = result
        if result.action == "cancel":
            self.close(Approval(approved=False, by="person", reason="the user gave no answer"))
        else:
            ticked = (result.content or {}).get("approve") is True
            self.close(consent.approval_by_person(result.action == "accept" and ticked))

    async def elicit(self, ctx: Context) -> None:
        """Ask a client of 2025-11-25 or before, until it answers or the question is closed."""
        self._asked += 1
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_on, self.closed, tasks.cancel_scope)
                try:
                    asked = ctx.session.elicit_form(self.message, self.form, ctx.request_id)
                    self.answer(await asked)
                except (MCPError, ValidationError) as error:
                    closed = isinstance(error, MCPError) and error.code == CONNECTION_CLOSED
                    # A client that ends says so, too; that is no answer. Another may show it, too.
                    if self._asked == 1 and not closed:
                        why = one_line(str(error), MAX_WHY_CHARS)
                        reason = f"the client could not ask the user: {why}"
                        self.close(Approval(approved=False, by="no_way_to_ask", reason=reason))
                tasks.cancel_scope.cancel()
        finally:
            self._asked -= 1

    def request(self) -> ElicitRequest:
        self._asked += 1
        return ElicitRequest(
            params=ElicitRequestFormParams(message=self.message, requested_schema=self.form)
        )


class Approvals:
    """The approvals of one run, and the person who is asked for them: about one thing at a time."""

    def __init__(self, run_id: str, request: RunRequest, state: RunState, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.turn = anyio.Lock()
        """Held by an upstream's question as long as it waits."""
        self.can_ask = False
        """Whether there is, or may be, a view whose client can ask a person. After a question
        without an answer this is false until somebody calls again."""
        self.secret_lost = False
        """Whether the caller gave a secret that the record has only as `***`."""
        self._run_id = run_id
        self._request = request
        self._state = state
        self._key = secrets.token_bytes(32)
        self._granted: set[str] = set()
        self._used: set[str] = set()
        """The tickets that an answer has come with."""
        self._question: Question | None = None
        self._early: dict[str, Approval] = {}
        """Answers given on another server, by the question's id, before the run asks here."""

    @property
    def about(self) -> str:
        prompt = visible(json.dumps(self._request.prompt, ensure_ascii=False))
        return f"run {self._run_id}: {inert_piece(shortened(prompt, MAX_PROMPT_CHARS + 1))}"

    @property
    def question(self) -> Question | None:
        open_ = self._question is not None and not self._question.closed.is_set()
        return self._question if open_ else None

    def sealed(self, asked: ApprovalAsked) -> ApprovalAsked:
        """A call that is about to be asked for, with the digest that its answer is bound to: an
        HMAC whose key is written nowhere. It stands beside the call in records and on screens,
        which hide a secret of the call, and a plain hash could be tried for it."""
        call = [self._run_id, asked.iteration, asked.upstream, asked.tool, asked.arguments]
        digest = hmac.digest(self._key, json.dumps(call, sort_keys=True).encode(), "sha256")
        return asked.model_copy(update={"digest": digest.hex()})

    def lost(self, tool: ToolSpec, arguments: dict[str, Any]) -> bool:
        """Whether this call has a lost secret in the caller's arguments, and cannot be made."""
        written = {name: arguments[name] for name in arguments.keys() - tool.fixed_arguments.keys()}
        return self.secret_lost and HIDDEN in json.dumps(written)

    def grant(self, tool: ToolSpec, arguments: dict[str, Any]) -> None:
        """Permit exactly this call, once."""
        self._granted.add(_bound_to(tool, arguments))

    def spend(self, tool: ToolSpec, arguments: dict[str, Any]) -> bool:
        """Whether exactly this call was approved; using the approval ends it."""
        granted = _bound_to(tool, arguments)
        found = granted in self._granted
        self._granted.discard(granted)
        return found

    def ask(self, question: Question, seen: int) -> InputRequiredResult:
        """The question as the result of a call of 2026-07-28, with the state that leads its answer
        back here. `seen`: how many of the run's events the call has told."""
        ticket = secrets.token_hex(16)
        state = {"run": self._run_id, "question": question.id, "ticket": ticket, "seen": seen}
        return InputRequiredResult(
            input_requests={ANSWER: question.request()}, request_state=json.dumps(state)
        )

    def answer(
        self, question_id: str, ticket: str, responses: Mapping[str, InputResponse] | None
    ) -> None:
        """Take a client's answer, if it is not late. Raises `RequestError` for a used ticket."""
        if ticket in self._used:
            raise RequestError(
                "requestState: it was used for an answer before, and can be used once. Follow the "
                f"run with get_run, run_id {self._run_id}."
            )
        self._used.add(ticket)
        response = (responses or {}).get(ANSWER)
        question = self.question
        if question and question.id == question_id and isinstance(response, ElicitResult):
            question.answer(response)

    def mirror(self) -> Question | None:
        """For a run that another server drives: the question that it has opened since the last
        look, to be asked here too. Closes the one before, which is decided there."""
        asked = self._state.undecided
        if self._question and (asked is None or asked.digest != self._question.id):
            self._question.closed.set()
            self._question = None
            self.can_ask = False  # as it is there, if nobody has answered
        if self._question is None and asked:
            self._question = self._about(asked)
            return self._question
        return None

    def answered_elsewhere(self, question_id: str, approval: Approval) -> None:
        """Take a person's answer from another server, even if the question is not open here yet."""
        if self.question and self.question.id == question_id:
            self.question.close(approval)
        else:
            self._early[question_id] = approval

    async def decide(self, tool: ToolSpec, arguments: dict[str, Any]) -> Approval:
        """Decide by the policies, or ask the person."""
        if self.lost(tool, arguments):
            return Approval(approved=False, by="policy", reason=SECRET_LOST)
        match strictest(self._request.policy, tool.policy):
            case Policy.READ_ONLY:
                reason = "only read-only tools may run"
                return Approval(approved=False, by="policy", reason=reason)
            case Policy.ALLOW:
                reason = "the operator and the run's caller allow it"
                return Approval(approved=True, by="policy", reason=reason)
        # Nothing may wait before this: a view that got `ApprovalAsked` looks for it next.
        asked = self._state.undecided
        assert asked  # it was recorded just now
        question = self._about(asked)
        if early := self._early.pop(question.id, None):
            question.close(early)
        return await self.put(question)

    async def put(self, question: Question) -> Approval:
        """Put a question to the person through any view of the run that can ask."""
        if not self.can_ask:
            reason = "no client that can ask the user follows the run"
            return Approval(approved=False, by="no_way_to_ask", reason=reason)
        # Nothing may wait before this: a view that got the question looks for it next.
        self._question = question
        question.opened = time.time()
        try:
            with anyio.move_on_after(self.timeout_s) as waiting:
                await question.closed.wait()
        finally:
            question.closed.set()
        if waiting.cancelled_caught:
            self.can_ask = False
        reason = f"nobody answered within {self.timeout_s:g} s"
        return question.approval or Approval(approved=False, by="timeout", reason=reason)

    @property
    def waiting(self) -> Waiting | None:
        if (question := self.question) is None:
            return None
        return consent.waiting(self._run_id, self._state, self.timeout_s, question.opened)

    def decide_by_hand(self, digest: str, approve: bool, where: str) -> None:
        """Apply a person's answer to the call they saw. Raises `RequestError` if it is decided."""
        approval = consent.consent(self.waiting, digest, approve, where)
        if question := self.question:
            question.close(approval)

    def _about(self, asked: ApprovalAsked) -> Question:
        text = consent.question(self._run_id, asked, self.about, self.timeout_s)
        return Question(text, asked.digest)


class GuardedPool(PoolAround):
    """A run's pool: what is not read-only goes out only when this very call was approved."""

    def __init__(
        self,
        pool: ToolPool,
        approvals: Approvals,
        changed: Callable[[str], bool] = lambda upstream: False,
    ) -> None:
        """`changed`: whether the operator has changed an upstream since the run began."""
        super().__init__(pool)
        self._approvals = approvals
        self._changed = changed

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        """Go by the tool's present class and policy: upstream and operator may have changed it."""
        if self._approvals.lost(tool, arguments):
            return failed_call(f"The call of {tool.name} was not made: {SECRET_LOST}.")
        name = (tool.upstream, tool.bare_name)
        tools = self.tools()
        now = next((each for each in tools if (each.upstream, each.bare_name) == name), tool)
        if tool.read_only and now.read_only:
            return await self.pool.call(tool, arguments)
        if not self._approvals.spend(tool, arguments):
            return failed_call(f"The call of {tool.name} was not approved and not made.")
        tightened = strictest(now.policy, tool.policy) is not tool.policy
        if tightened or self._changed(tool.upstream):
            return failed_call(
                f"The call of {tool.name} was not made: the operator has changed its upstream "
                f"{tool.upstream} since this run began. Ask again."
            )
        return await self.pool.call(tool, arguments)


def _bound_to(tool: ToolSpec, arguments: dict[str, Any]) -> str:
    call = [tool.upstream, tool.name, arguments | tool.fixed_arguments]
    return json.dumps(call, sort_keys=True)
