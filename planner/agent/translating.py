"""An answer in the language of the request. A small model answers in that of what it has read, even
if it is told otherwise; told the language by its name, it translates well."""

import unicodedata

from planner.agent.model_calls import ModelCalls
from planner.checks import schemas
from planner.checks.grounding import unsaid
from planner.errors import ModelError
from planner.prompts import language, questions
from planner.protocol import Language
from planner.state import RunState

TRANSLATED = "the model translated its answer, and code compared only the names and numbers"
"""What is said of an answer that is certain otherwise."""
MAX_CHARACTERS = 1000
"""Of an answer; a longer one takes too long."""


async def translated(answer: str, state: RunState, calls: ModelCalls) -> str:
    """The answer in the language of the request, if it is in that of the prompts and the request is
    not; as it is where the translation does not have the same names and numbers."""
    part = state.part
    foreign = language.is_other(state.prompt, state.search) and language.is_own(answer)
    shaped = part.request.goal != "answer" or part.request.data_schema
    if not foreign or shaped or len(answer) > MAX_CHARACTERS:
        return answer
    new = ""
    try:
        with calls.clock.limit(part.ends_at):
            new = await _translation(answer, state, calls)
    except ModelError:
        return answer
    same = not (unsaid(answer, new) or unsaid(new, f"{answer}\n{state.prompt}"))
    return new if same and _is_like(state.prompt, new) else answer


async def _translation(answer: str, state: RunState, calls: ModelCalls) -> str:
    """Empty where it was cut off, or where a server that does not hold its model to the schema says
    that there is nothing to translate."""
    asked = questions.asked("ask_language", state)
    spoken = (await calls.ask("translate", asked, schemas.language(), Language)).language
    if spoken == language.LANGUAGE:
        return ""
    question = questions.translation(answer, spoken)
    reply = await calls.chat("translate", question, None, len(answer))
    return reply.text.strip() if reply.finish == "stop" else ""


def _is_like(request: str, text: str) -> bool:
    """Whether a text may be in the language of a request: it is not in that of the prompts, and in
    the same script."""
    scripts, others = (
        {unicodedata.name(each, "").partition(" ")[0] for each in said if each.isalpha()}
        - {"LATIN"}
        for said in (request, text)
    )
    return bool(text) and not language.is_own(text) and (not scripts or bool(scripts & others))
