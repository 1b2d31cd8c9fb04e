"""A run for a reader: what was asked of the models and tools, and what they replied."""

import json
import time
from collections.abc import Iterable

from planner import events
from planner.actions import outcome_in_words
from planner.state import RunState
from server.text import clean, duration, fence, status_in_words
from server.views.inert import inert
from server.views.progress import message

MAX_TEXT_CHARS = 4_000
"""Characters of one text; `get_run` has a tool result as a whole."""


def transcript(run_id: str, record: Iterable[events.Event]) -> str:
    """The run as Markdown, in the order in which it happened, prompts and replies word for word;
    of each prompt only the question at its end, since the rest follows from what is above."""
    parts = [f"# Run {run_id}"]
    state = RunState()
    for event in record:
        state.apply(event)
        if not parts[1:]:
            began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(event.at))
            parts.append(f"Began {began}.")
        match event:
            case events.RunStarted():
                parts.append(_block("## Request", event.request.prompt))
            case events.RunContinued():
                parts.append(_block("## Next request", event.request.prompt))
            case events.ItemStarted():
                parts.append(_block(f"## Item {event.number} of {event.of}", event.prompt))
            case events.ModelCalled():
                parts.append(_block(f"## {event.model}: {event.role}", event.question))
                parts.append(_block("Reply:", event.reply))
            case events.ToolReturned():
                asked = json.dumps(event.arguments, ensure_ascii=False)
                what = outcome_in_words(state.iterations[event.iteration])
                parts.append(_block(f"## {event.tool}: {what}", asked))
                parts.append(_block(f"Result, after {duration(event.seconds)}:", event.text))
            case events.RunFinished():
                parts.append(_block(f"## Ended: {status_in_words(event.status)}", event.answer))
            case events.AnswerDelta() | events.ToolProgressed():
                pass  # what came of it has it as a whole
            case _:
                parts.append(f"- {message(event, state)}")
    return inert("\n\n".join(parts))


def _block(head: str, text: str) -> str:
    text = clean(text)
    more = len(text) - MAX_TEXT_CHARS
    shown = text if more <= 0 else f"{text[:MAX_TEXT_CHARS]}\n[… {more} more characters]"
    return f"{head}\n\n{fence(shown)}"
