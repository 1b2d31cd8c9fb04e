"""What a run's calls changed, and what they did not."""

import json
from collections.abc import Sequence

from planner.checks.citations import sources_of
from planner.checks.claims import is_number
from planner.checks.grounding import said_in
from planner.evidence.words import words
from planner.state import Iteration, RunState
from planner.tools import Outcome


def invented(state: RunState, call: Iteration, known: str) -> bool:
    """Whether a model gave a call a text of which no word was said before: not by the user, in no
    result, and not in what is `known` of the tool."""
    before = [each.text for each in sources_of(state) if each.made.number < call.number]
    said = {*words("\n".join([state.user_words, known, *before]))}
    texts = [text for text in said_in(call.arguments, "", ()) if not is_number(text)]
    given = [{*words(text)} for text in texts]
    return call.by_model and any(told and not told & said for told in given)


def done(calls: Sequence[Iteration]) -> str:
    """The calls that changed something, a line each."""
    return "\n".join(f"- {each}" for each in changes(calls))


def changes(calls: Sequence[Iteration]) -> list[str]:
    """The calls that changed something: the tool and its arguments."""
    made = [each for each in calls if each.changes and each.outcome is Outcome.SUCCESS]
    return [_call(each) for each in made]


def left_undone(calls: Sequence[Iteration], steps: Sequence[str]) -> str:
    """Calls that did not succeed, a line each, with the reason, and steps that were not begun."""
    failed = [
        f"{_call(each)}: {_why_not(each)}" if each.outcome else f"{each.prompt}: not begun"
        for each in calls
    ]
    return "\n".join(f"- {each}" for each in [*failed, *(f"{step}: not begun" for step in steps)])


def _why_not(iteration: Iteration) -> str:
    if iteration.approval and not iteration.approval.approved:
        return f"not approved ({iteration.approval.reason})"
    return iteration.result.strip().partition("\n")[0][:200]


def _call(iteration: Iteration) -> str:
    return f"{iteration.tool} {json.dumps(iteration.arguments, ensure_ascii=False)}"
