"""What the models are asked. Each question is one text, which stands after everything so far."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from planner.checks.dates import DAY, YEAR, takes_day
from planner.checks.grounding import seen
from planner.checks.guards import repeats
from planner.passage import Passage
from planner.prompts.texts import (
    argument_names,
    catalogue,
    compact,
    fenced,
    fill,
    in_short,
    joined,
    one_line,
    parameters,
    passage,
)
from planner.protocol import Mode, PlanFor
from planner.state import Iteration, RunState
from planner.tools import ToolSpec

MAX_SHOWN_SCHEMA_CHARS = 2000
"""Characters of a reply's schema, where it is shown; one with many tools' arguments is too long."""
MAX_REQUEST_CHARS = 500
"""Characters of a request where it is said once more."""
RECENT = timedelta(days=60)
"""Where the newest date that was seen is no older, things are of the present."""
DONE, REFUSED = "it was done", "it was refused"
"""What the result of a change may say. A small model needs them in this order."""
MAX_CALL_CHARS = 300
"""Characters of the arguments of a call whose result is judged."""
MAX_FILE_GLIMPSE_CHARS = 350
"""Characters of a file's passages, where it is only asked whether the file has to change."""


def asked(question: str, state: RunState, **values: str) -> str:
    """The question of this name, with the request and these values in it."""
    return fill(question, prompt=short_request(state), **values)


def brief(state: RunState) -> str:
    return _asked_first(state, fill("ask_brief"))


def select(state: RunState) -> str:
    return _asked_first(state, fill("select"))


def _asked_first(state: RunState, question: str) -> str:
    """The first question about a request, with the request if it does not open the prompt."""
    if state.part is state.opens:
        return question
    return joined(asked("next_request", state), question)


def select_for_step(objective: str, tools: Sequence[str]) -> str:
    return fill("select_for_step", tools=", ".join(tools), objective=fenced(objective))


def select_to_find(
    state: RunState, tool: str, missing: Sequence[str], likely: Sequence[str]
) -> str:
    return asked(
        "select_to_find",
        state,
        needs=tool,
        missing=fenced(", ".join(missing)),
        likeliest=f" The likeliest: {', '.join(likely)}." if likely else "",
    )


def arguments(state: RunState, tool: ToolSpec, prompt: str, problem: str | None = None) -> str:
    question = fill(
        "arguments",
        tool=tool.name,
        prompt=fenced(prompt),
        request=short_request(state),
        names=argument_names(tool),
        parameters=fenced(parameters(tool)),
        today=_today(state) if takes_day(tool.input_schema) else "",
    )
    wrong = f"\nThe call before was not accepted: {fenced(problem)}" if problem else ""
    return question + wrong


def _today(state: RunState) -> str:
    """The day on which the run began, unless the user names a year, or the dates that were seen are
    of another time."""
    if state.started is None or YEAR.search(state.user_words):
        return ""
    today = date.fromtimestamp(state.started.at)
    newest = max(DAY.findall(seen(state)), default=f"{today}")
    return f"\nToday is {today:%A, %Y-%m-%d}." if newest >= f"{today - RECENT}" else ""


def sql(state: RunState, tables: Sequence[str], problem: str) -> str:
    defined = fenced("\n".join(tables))
    wrong = fill("sql_again", problem=fenced(problem)) if problem else ""
    return joined(asked("ask_sql", state, tables=defined), wrong)


def answer(state: RunState) -> str:
    how = fill("how_overview" if state.wants == "long answer" else "how_fact")
    ordered = state.wants == "action" or state.may_be_order
    if ordered and not any(each.changes for each in state.part_iterations):
        how += f" {fill('how_unchanged')}"
    return asked("ask_answer", state, how=how)


def which_files(state: RunState, texts: Mapping[str, str]) -> str:
    """The files that may have to change, each with the beginning of what it says."""
    shown = (f"=== {path}\n{text[:MAX_FILE_GLIMPSE_CHARS]}" for path, text in texts.items())
    return asked("ask_which_files", state, files="\n".join(shown))


def outcome(call: Iteration) -> str:
    """What came of a change."""
    return fill(
        "ask_outcome",
        tool=call.tool,
        arguments=one_line(fenced(compact(call.arguments)), MAX_CALL_CHARS),
        result=fenced(call.result),
        done=DONE,
        refused=REFUSED,
    )


def edit_call(tool: ToolSpec) -> str:
    return fill(
        "ask_edit_call",
        tool=tool.name,
        names=argument_names(tool),
        parameters=fenced(parameters(tool)),
    )


def on_passages(question: str, state: RunState, passages: Sequence[Passage]) -> str:
    """A question on these passages alone."""
    return asked(question, state, passages=fenced("\n\n".join(map(passage, passages))))


def translation(answer: str, language: str) -> str:
    return fill("ask_translation", answer=fenced(answer), language=language)


def repair(state: RunState, problem: str) -> str:
    return asked("ask_repair", state, problem=fenced(problem))


def plan(state: RunState, likely: Sequence[ToolSpec] = (), purpose: PlanFor = "question") -> str:
    """The plan, with the tools that are `likely` to be needed."""
    if purpose == "action":
        first = state.part is state.opens and not state.part_iterations  # it stands before this
        return fill("ask_plan_action", request="" if first else f"Request: {short_request(state)}")
    listed = catalogue(likely) or "-"
    if purpose == "change":
        return asked("ask_plan_change", state, tools=listed)
    listing = state.started.listing if state.started else None
    known = f"The project's top folder: {fenced(listing)}" if listing else ""
    return asked("ask_plan", state, known=known, tools=listed)


def decide(
    state: RunState, mode: Mode = "fast", noted: bool = False, problem: str | None = None
) -> str:
    """The next decision; `problem` is what the decision before ignored."""
    objective = fenced(state.step.objective) if state.step else ""
    name = "ask_decide" if mode == "fast" else "ask_decide_deep"
    question = asked(name, state, objective=objective)
    fruitless = repeats.left_out(state)
    other = fill("other_tool", tools=", ".join(fruitless)) if fruitless else ""
    notes = fill("ask_notes") if noted else ""
    return joined(fenced(problem or ""), question, notes, other)


def data(answer: str, schema: dict[str, Any], problem: str | None = None) -> str:
    """The question contains the answer: of several attempts, it is the one that counts."""
    question = fill("ask_format", answer=fenced(answer), schema=compact(schema))
    return f"{question}\nThe data before did not fit: {fenced(problem)}" if problem else question


def once_more(question: str, problem: str, schema: dict[str, Any]) -> str:
    """A question once more, after a reply that was not the JSON it asked for."""
    whole = compact(schema)
    shown = fill("reply_schema", schema=whole) if len(whole) <= MAX_SHOWN_SCHEMA_CHARS else ""
    return joined(question, fill("reply_again", problem=fenced(problem)), shown)


def short_request(state: RunState) -> str:
    """The request once more, short, since small models answer what they read last. A later request
    of the run is shown here only, as a whole."""
    prompt = state.question
    return in_short(prompt, MAX_REQUEST_CHARS) if state.part is state.opens else prompt
