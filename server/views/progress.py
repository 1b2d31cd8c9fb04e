"""What a person reads while a run goes on: one line for each event."""

import json
import time

from planner import events
from planner.actions import call_in_words, outcome_in_words, size
from planner.state import RunState
from planner.text import counted, shortened
from planner.tools import Outcome
from server.text import duration, one_line, status_in_words
from server.views import consent
from server.views.consent import Waiting, shown_arguments
from server.views.report import planned_change
from server.views.report_text import steering_in_words

HEARTBEAT_SECONDS = 5.0
"""After so long without an event, a line says what the run waits for."""
MAX_LINE_CHARS = 200
"""Characters of a progress message; hosts cut longer ones."""
MAX_CALL_CHARS = 80
"""Of a call's arguments: the pattern of a search can be longer than a screen."""
MAX_ASKED_CHARS = 8000
"""Of a message that asks for approval: a person has to see the whole call."""
MAX_DRAFT_CHARS = 160
"""Of an answer that is being written; the newest are shown."""

DOING = {
    "brief": "read the request",
    "words": "said what else to search for",
    "files": "chose the tools for files",
    "again": "read the results again",
    "query": "queried the lists",
    "select": "chose a tool",
    "arguments": "wrote the arguments",
    "answer": "tried the answer",
    "repair": "tried the answer again",
    "overview": "answered from the first passages",
    "confirm": "read the first passages again",
    "facts": "collected facts from more passages",
    "rewrite": "wrote a part of a file",
    "example": "said how a tool is called",
    "plan": "made a plan",
    "decide": "weighed the result",
    "conclude": "concluded",
    "translate": "put the answer into the language of the request",
    "format": "put the answer into data",
    "outcome": "read whether it was done",
}
GOT = {"accept": "an answer", "decline": "a refusal", "cancel": "no answer"}


def message(event: events.Event, state: RunState) -> str:
    """The line for an event, given the state right after it."""
    text = _message(event, state)
    line = one_line(text) or event.type.replace("_", " ")
    line = line[:1].upper() + line[1:] if isinstance(event, events.ToolSelected) else line
    return shortened(
        line, MAX_ASKED_CHARS if isinstance(event, events.ApprovalAsked) else MAX_LINE_CHARS
    )


def heartbeat(
    state: RunState,
    silent_seconds: float | None,
    queued: bool = False,
    call: Waiting | None = None,
    models_doing: str = "",
) -> str:
    """The line that says what the run waits for, and, if that is given, how long it has. `call`:
    the one that waits for approval. `models_doing`: what a model does now, if that is known."""
    model = f"the model{f' ({models_doing})' if models_doing else ''}"
    line = f"{where(state)}waiting for {_awaited(state, queued, call) or model}"
    since = "" if silent_seconds is None else f", {silent_seconds:.0f} s"
    return line[0].upper() + line[1:] + since


def _awaited(state: RunState, queued: bool, call: Waiting | None) -> str:
    """What the run waits for; empty if it is a model."""
    if asked := state.unanswered:
        return f"an answer to {asked.upstream}'s question"
    if called := [each.tool for each in state.newest if each.upstream and each.outcome is None]:
        return " and ".join(called)
    if state.undecided:
        left = f" ({call.time_left(time.time())})" if call else ""
        return f"approval of {state.undecided.tool}{left}"
    if queued:
        return "other runs to end"
    return "" if state.started else "the upstreams to start"


def where(state: RunState) -> str:
    """`Step 2 of 4: `; empty before the plan, and without the total if there is no plan."""
    if not state.steps:
        return ""
    number = state.steps[-1].number
    if state.main_objective is None:
        return f"Step {number}: " if number > 1 else ""
    return f"Step {number} of {number + len(state.later_steps)}: "


def _message(event: events.Event, state: RunState) -> str:
    at = where(state)
    match event:
        case events.RunStarted():
            down = [each.name for each in event.upstreams if each.state.needs_attention]
            without = f", without {', '.join(down)}" if down else ""
            few = len(event.offered) < len(event.tools)
            handful = f", {len(event.offered)} of them shown" if few else ""
            reading = counted(len(event.tools) - len(event.approved_first), "read-only tool")
            asking = len(event.approved_first)
            more = f" and {asking} that {'needs' if asking == 1 else 'need'} approval"
            return f"Started with {reading}{more if asking else ''}{handful}{without}"
        case events.ModelCalled():
            return (
                f"{at}{event.model} {DOING[event.role]} ({event.prompt_tokens} tokens in, "
                f"{event.generated_tokens} out, {duration(event.seconds)})"
            )
        case events.ToolSelected():
            return (
                f"{at}next is {event.tool}: {event.prompt}" if event.tool else "No tool is needed"
            )
        case events.BriefMade(wants="talk"):
            return "Nothing to look up"
        case events.BriefMade():
            return f"{at}looking for {', '.join(event.search)}"
        case events.PassagesGathered(passages=[]):
            new = "new " if state.passages else ""  # those shown before are not shown again
            return f"{at}no {new}passage was found"
        case events.PassagesGathered():
            places = [each.place for each in event.passages]
            return f"{at}found {counted(len(places), 'passage')}: {', '.join(places)}"
        case events.ArgumentsWritten():
            return f"{at}arguments {json.dumps(event.arguments, ensure_ascii=False)}"
        case events.ApprovalAsked():
            given = shown_arguments(event.arguments, whole=True)[0].replace("\n", "; ")
            return f"{at}approval is needed: {consent.in_words(event)}, with {given}"
        case events.ApprovalDecided():
            return f"{at}{event.tool} was {consent.outcome(event)}"
        case events.ToolCalled():
            given = shortened(call_in_words(state.iterations[event.iteration]), MAX_CALL_CHARS)
            return f"{at}{event.tool} {given}"
        case events.ToolReturned(outcome=Outcome.SUCCESS):
            return f"{at}{event.tool} returned {size(event.text)} in {duration(event.seconds)}"
        case events.ToolReturned():
            how = outcome_in_words(state.iterations[event.iteration])
            return f"{at}{event.tool} {'was ' * how.startswith('not ')}{how}: {event.text}"
        case events.ToolProgressed():
            got = f"{event.progress:g}" + (f" of {event.total:g}" if event.total else "")
            return f"{at}{event.tool} is at {got}" + (f": {event.message}" if event.message else "")
        case events.UpstreamLogged():
            return f"{at}{event.upstream} logs ({event.level}): {event.text}"
        case events.QuestionAsked():
            return f"{at}{event.upstream} asks, in {event.tool}: {event.text}"
        case events.QuestionAnswered():
            return f"{at}{event.upstream} got {GOT[event.action]}: {event.reason}"
        case events.PlanMade():
            planned = [planned_change(state, objective) for objective in event.tools]
            changes = " and ".join(dict.fromkeys(filter(None, planned)))
            more = f" ({changes} may change something)" if changes else ""
            steps = counted(len(event.later_steps) + 1, "step")
            return f"Plan of {steps}{more}"
        case events.ResultAssessed():
            return f"{at}{event.critique or event.assessment}"
        case events.ContextCompressed():
            which = f"results up to iteration {event.up_to}"
            return f"{at}from now on the models see {which} in a shorter form"
        case events.StepStarted():
            more = f" (with {counted(len(event.offered), 'more tool')})" if event.offered else ""
            return f"{at}{event.objective}{more}"
        case events.StepContinued():
            return f"{at}noted: {event.notes}" if event.notes else f"{at}goes on"
        case events.StepConcluded():
            result = "done" if event.success else "ended without success"
            return f"Step {event.number} {result}" + (f": {event.notes}" if event.notes else "")
        case events.PlanRevised():
            return f"Plan revised: {'; '.join(event.later_steps) or 'no later steps'}"
        case events.RunSteered():
            return f"{at}{steering_in_words(event.steering)}; the next decision takes it up"
        case events.SteeringTaken():
            return f"{at}taken up: {steering_in_words(event.steering)}"
        case events.GuardTripped():
            return f"{at}{event.message}"
        case events.RunResumed():
            return f"{at}resumed after {duration(event.paused)}"
        case events.RunContinued():
            if event.request.goal == "conclude":
                return f"Concluding from {counted(len(state.steps), 'step')}"
            return f"Goes on: {event.request.prompt}"
        case events.ItemStarted():
            return f"Item {event.number} of {event.of}: {event.prompt}"
        case events.AnswerDelta():
            newest = state.draft[-MAX_DRAFT_CHARS:]
            return f"Answer so far: {'…' if newest != state.draft else ''}{newest}"
        case events.RunFinished():
            ended = status_in_words(event.status)
            return f"Finished: {ended}" + (f" ({event.reason})" if event.reason else "")
