"""A call that waits for approval: how every view shows it, and how the answer reaches the run. It
loads no MCP framework, for the commands. `server.approval.approval` says when a person is asked."""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field

from planner.errors import RequestError
from planner.events import ApprovalAsked, ApprovalDecided
from planner.state import RunState
from planner.text import shortened
from planner.tools import Approval, Safety
from server.text import fence
from server.views.inert import inert_piece

MAX_VALUE_CHARS, MAX_SHOWN_CHARS = 2000, 8000
"""Characters of an argument in a question, and of all of them."""
SHORT_ID, MIN_DIGEST_CHARS = 8, 12
"""Characters of a run's id and of a call's digest by which a person names them."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_BLANK = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    r"\U000e0100-\U000e01ef]"
)
"""Characters that Unicode calls letters or marks, and that fonts do not show."""
MEANING = {  # of the classes that approval is asked for
    Safety.WRITE: "it adds or changes something",
    Safety.DESTRUCTIVE: "it may delete or overwrite something",
    Safety.OPEN_WORLD: "it does something outside of this machine",
}


class Waiting(BaseModel, frozen=True):
    """A call that waits until a person has approved or declined it."""

    run_id: str
    digest: str = Field(description="Of the run and this very call: an answer is bound to it.")
    iteration: int
    call: str = Field(description="The tool, its upstream, and what it may do.")
    arguments: str = Field(description="All of them, as a person reads them.")
    guess: str = Field(description="What of them may be a guess, in words; empty when nothing.")
    lapses: float = Field(description="Seconds since the epoch; no answer until then means no.")

    def time_left(self, now: float) -> str:
        return f"{max(0.0, self.lapses - now):.0f} s left"

    def command(self, answer: Literal["approve", "decline"]) -> str:
        """The command that gives this answer to exactly this call."""
        named = f"{self.run_id[:SHORT_ID]}@{self.digest[:MIN_DIGEST_CHARS]}"
        return f"planloom runs {answer} {named}"


def waiting(run_id: str, state: RunState, timeout_s: float, opened: float = 0.0) -> Waiting | None:
    """The run's call that waits for approval, if there is one. `opened`: when the question was put,
    if that is known; after a resume it is put again, once the run has its turn."""
    asked = state.undecided if state.status == "running" else None
    if asked is None or not asked.digest:
        return None
    resumed = state.resumed[-1].at if state.resumed else 0.0
    return Waiting(
        run_id=run_id,
        digest=asked.digest,
        iteration=asked.iteration,
        call=in_words(asked),
        arguments=shown_arguments(asked.arguments, whole=True)[0],
        guess=guess(asked),
        lapses=max(asked.at, resumed, opened) + timeout_s,
    )


def consent(call: Waiting | None, digest: str, approve: bool, where: str) -> Approval:
    """A person's answer, given `where`, to the call that was shown. `digest`: the call's, or its
    beginning. Raises `RequestError` if it is too short, and if no call waits or another one."""
    if len(digest) < MIN_DIGEST_CHARS:
        raise RequestError("The digest is not whole. Give it as `planloom runs` prints it.")
    if call is None or not call.digest.startswith(digest):
        raise RequestError(
            "This call no longer waits for approval: it was decided, its time ran out, or the run "
            "has moved on to another call. See `planloom runs`."
        )
    return approval_by_person(approve, f" {where}")


def not_taken(run_id: str, seconds: float) -> RequestError:
    """The error where the answer had no effect within so many seconds."""
    return RequestError(
        f"The server that drives run {run_id[:SHORT_ID]} has not taken the answer within "
        f"{seconds:g} s. Look again with `planloom runs show {run_id[:SHORT_ID]}`."
    )


def approval_by_person(approve: bool, where: str = "") -> Approval:
    word = "approved it" if approve else "said no"
    return Approval(approved=approve, by="person", reason=f"the user {word}{where}")


# How a call is shown.


def outcome(approval: ApprovalDecided) -> str:
    """`approved: the user approved it`."""
    return f"{'approved' if approval.approved else 'not approved'}: {approval.reason}"


def in_words(asked: ApprovalAsked) -> str:
    """`add_note of notes (write: it adds or changes something)`."""
    kind = asked.safety.replace("_", " ")
    return f"{asked.tool} of {asked.upstream} ({kind}: {MEANING[asked.safety]})"


def guess(asked: ApprovalAsked) -> str:
    """What of a call may be a guess; empty when nothing."""
    if not asked.guessed:
        return ""
    values = shortened(visible(", ".join(asked.guessed)), MAX_VALUE_CHARS)
    return f"This may be a guess: neither a result nor the request contains {values}."


def question(run_id: str, asked: ApprovalAsked, about: str, timeout_s: float) -> str:
    """The question to a person, as far as a form has room; `about`: for which run."""
    shown, cut = shown_arguments(asked.arguments)
    lines = ["Planloom asks: may it make this call?", "", in_words(asked), fence(shown)]
    if cut:
        lines.append(
            f"This is not all of it. get_run with run_id {run_id} and iteration {asked.iteration} "
            "shows the whole."
        )
    if asked.guessed:
        lines.append(inert_piece(guess(asked)))  # a client may render it
    lines.append(
        f"For {about}. It is made once, exactly as shown. Without an answer within "
        f"{timeout_s:g} s it is declined."
    )
    return "\n".join(lines)


def whole_call(asked: ApprovalAsked) -> str:
    shown, _ = shown_arguments(asked.arguments, whole=True)
    return f"{asked.tool} of {asked.upstream}, which waits for approval\n{fence(shown)}"


def shown_arguments(arguments: Mapping[str, Any], whole: bool = False) -> tuple[str, bool]:
    """The arguments as a person reads them, one below the other, and whether something was cut.
    A text of several lines is shown behind bars, so that no part of it looks like another argument.
    Characters that a reader would not see are written as escapes, and a backslash as two."""
    longest_value, longest = (None, None) if whole else (MAX_VALUE_CHARS, MAX_SHOWN_CHARS)
    lines: list[str] = []
    cut = False
    for number, (name, value) in enumerate(arguments.items()):
        if longest and sum(map(len, lines)) > longest:
            lines.append(f"… and {len(arguments) - number} more arguments")
            return "\n".join(lines), True
        key = name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)[:MAX_VALUE_CHARS]
        block = isinstance(value, str) and "\n" in value
        text = value if block else json.dumps(value, ensure_ascii=False)
        rest = len(text) - longest_value if longest_value else 0
        if rest > 0:
            cut, text = True, text[:longest_value]
        if block:
            lines.append(f"{key}:")
            lines += [
                f"  | {visible(each.replace(chr(92), chr(92) * 2))}" for each in text.split("\n")
            ]
        else:
            lines.append(f"{key}: {visible(text)}")
        if rest > 0:
            lines[-1] += f" … and {rest} more characters"
    return "\n".join(lines) or "(no arguments)", cut


def visible(text: str) -> str:
    """The text with invisible characters, and those that look like a space, as escapes."""
    return "".join(
        each if each.isprintable() and not _BLANK.match(each) else _escape(each) for each in text
    )


def _escape(character: str) -> str:
    return r"\u007f" if character == "\x7f" else json.dumps(character)[1:-1]
