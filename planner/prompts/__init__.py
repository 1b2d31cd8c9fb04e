"""The prompts: texts as files beside this one, filled in from the run's state.

Everything is rendered from the state, and what is rendered only grows within a step: a model
server keeps the longest common prefix of two prompts, so nothing that changes stands before
something that stays. All roles share the messages up to their last one. Where it would outgrow the
context, the past is put in short (`ContextCompressed`) and it grows on from there. Rewriting a file
and planning an action begin with system prompts of their own.
"""

import json
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from planner.actions import actions, attempts
from planner.checks.guards import repeats
from planner.events import ALONE, TRIES, ModelCalled, Role
from planner.evidence import context
from planner.evidence.passages import likeliest
from planner.evidence.tool_ranking import shown_whole
from planner.models.base import Message
from planner.passage import Passage
from planner.protocol import Mode, PlanFor
from planner.state import Iteration, RunState, Steered, Step
from planner.tools import Outcome, Safety, ToolSpec

OUTCOMES = {
    Outcome.SUCCESS: "this",
    Outcome.FAILURE: "a failure",
    Outcome.ERROR: "an error",
    Outcome.TIMEOUT: "nothing in time",
}
MAX_DEFAULT_CHARS = 160
"""Characters of a parameter's default."""
MAX_SHOWN_SCHEMA_CHARS = 2000
"""Characters of a reply's schema, where it is shown; with the arguments of many tools in it, it is
longer than what it would mend."""
RESULT_CHARACTERS = 1800
"""Of one tool result, in a prompt; some 500 tokens, 15 s for a 1.5B model on two cores."""
MAX_FILE_GLIMPSE_CHARS = 350
"""Characters of a file's passages, where it is only asked whether the file has to change."""
BEFORE_ACTING: Sequence[Role] = ("brief", "files", "example")
"""What is asked of an action before it is planned, on the prompt that reads the request."""
PAST_RESULTS = 4
"""What is past may take as many characters as so many results, when it stands in short."""


@cache
def template(name: str) -> Template:
    return Template(files(__name__).joinpath(f"{name}.txt").read_text("utf-8").rstrip("\n"))


def fill(name: str, **values: object) -> str:
    return template(name).substitute(values).strip("\n")


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def signature(tool: ToolSpec) -> str:
    """`path, pattern, limit?`: the parameters in the schema's order, optional ones marked."""
    names = tool.input_schema.get("properties", {})
    return ", ".join(name if name in tool.required else f"{name}?" for name in names)


def parameters(tool: ToolSpec) -> str:
    """One line for each parameter: its name, its type, and the first sentence on it, within
    bounds."""
    lines = []
    for name, schema in tool.input_schema.get("properties", {}).items():
        kind = schema.get("type", "") if isinstance(schema, dict) else ""
        kind = kind if isinstance(kind, str) else ""
        notes = ", ".join(filter(None, [kind, "" if name in tool.required else "optional"]))
        about = one_line(schema.get("description", "")) if isinstance(schema, dict) else ""
        default = schema.get("default") if isinstance(schema, dict) else None
        if default not in (None, ""):
            about += f" (default {compact(default)[:MAX_DEFAULT_CHARS]})"
        lines.append(f"- {name}{f' ({notes})' if notes else ''}: {about.strip() or '?'}")
    return "\n".join(lines) or "It takes no arguments."


def one_line(text: str, longest: int = 160) -> str:
    """The first sentence, on one line, at most `longest` characters."""
    flat = re.sub(r"\s+", " ", text).strip()
    sentence = re.split(r"(?<=[.!?])\s", flat, maxsplit=1)[0] if len(flat) > longest else flat
    return sentence if len(sentence) <= longest else sentence[: longest - 1] + "…"


def catalogue(tools: Sequence[ToolSpec]) -> str:
    """A line for each tool, which its upstream's words cannot leave."""
    return "\n".join(
        f"- {tool.name}({signature(tool)}): {fenced(one_line(tool.description))}" for tool in tools
    )


def system(tools: Sequence[ToolSpec]) -> Message:
    """The part that every run on the same pool shares, word for word."""
    return _with_tools("system", tools, examples=fill("brief_examples"))


def system_act(tools: Sequence[ToolSpec]) -> Message:
    """The same for planning and making an action. What the other one says of sorting requests and
    searching makes a small model plan calls that nobody asked for (docs/evaluation.md)."""
    return _with_tools("system_act", tools)


def _with_tools(name: str, tools: Sequence[ToolSpec], **values: str) -> Message:
    listed = catalogue(tools) if shown_whole(tools) else fill("tools_elsewhere")
    return {"role": "system", "content": fill(name, tools=listed or "(none)", **values)}


def fenced(text: str) -> str:
    """A stranger's text, or a model's about it, that can neither open nor close a fence."""
    return re.sub(r"<(\s*/\s*|)(result)", r"‹\1\2", text, flags=re.IGNORECASE)


_TURN = re.compile(r"<(?=[|｜][\w▁]{1,40}[|｜]>|(?:start|end)_of_turn>|/?s>)|\[(?=/?INST\])")
"""What begins a token that chat templates separate messages with: of ChatML and Llama (`<|…|>`),
DeepSeek, Gemma, Mistral and Llama 2. Model servers read them within a message's text too."""


def harmless(messages: list[Message]) -> list[Message]:
    """The messages, none of which can be taken for several."""
    return [{**each, "content": _TURN.sub("‹", each["content"])} for each in messages]


def as_it_was(written: str, text: str) -> str:
    """What was written of a text that `harmless` may have changed, with the text's own signs."""
    return written if "‹" in text else written.replace("‹", "<")


class Prompts:
    """Renders the messages of one run."""

    def __init__(
        self, tools: Sequence[ToolSpec], result_characters: int = RESULT_CHARACTERS
    ) -> None:
        self.system = system(tools)
        self.system_act = system_act(tools)
        self.listed_later = {} if shown_whole(tools) else {tool.name: tool for tool in tools}
        """The tools that the system prompt does not list."""
        self.result_characters = result_characters
        self._shown: dict[Hashable, str] = {}
        """Results as they stand in prompts, by all that they depend on."""

    def conversation(self, state: RunState, question: str, role: Role = "decide") -> list[Message]:
        """Everything so far, and a question. It stands with the newest result if nothing was asked
        about that yet. A result is read `again` as if nothing had been said of it."""
        if role == "rewrite":  # what the run's own prompt says of JSON and searches is in the way
            own: Message = {"role": "system", "content": fill("system_rewrite")}
            return harmless([own, user(question)])
        acting = state.wants == "action" and role not in BEFORE_ACTING
        messages = [self.system_act if acting else self.system]
        opening = state.parts[0].opening if state.parts else []
        left_out: Role | None = "brief" if acting else None
        request = self._request(state)
        for call in opening:
            if call.role == left_out:
                continue
            messages += [user(_joined(request, call.question)), assistant(call.reply)]
            request = ""
        # The passages of a long answer were read a few at a time, and never as a whole.
        alone = role in ALONE or (state.wants == "long answer" and role == "words")
        shown = [] if alone else state.shown_iterations
        beginnings = [
            (step.begun, self._step_tools(step))
            for step in state.steps[len(state.steps_in_short) :]
        ]
        place, tools = beginnings.pop(0) if beginnings else ((-1, 0), [])
        beginnings.insert(0, (place, self._past(state) + tools))

        def begun(iteration: int, asked: float) -> list[Message]:
            """What is told with the steps that had begun by then."""
            due = [beginnings.pop(0)[1] for at, _ in list(beginnings) if at <= (iteration, asked)]
            return [message for each in due for message in each]

        before = begun(shown[0].number - 1 if shown else len(state.iterations), math.inf)
        if request and (before or state.iterations):  # what follows comes after it
            messages.append(user(request))
            request = ""
        messages += before
        pending, said = request, ""
        part = 0
        for iteration in shown:
            if iteration.part > part:
                part, said = iteration.part, ""  # what was said last has not led to it
            # The calls of a look-up are shown as the passages that came of them.
            if iteration.outcome is None or (iteration.by == "lookup" and not iteration.gathered):
                continue
            pending = _joined(pending, self._result(state, iteration, said, role))
            for number, call in enumerate(iteration.exchange, 1):
                if call.role == left_out or self._left_out(state, iteration, call, role):
                    continue
                messages += [user(_joined(pending, call.question)), assistant(call.reply)]
                messages += begun(iteration.number, number)
                pending, said = "", call.reply
        return harmless([*messages, user(_joined(pending, question))])

    @staticmethod
    def _left_out(state: RunState, iteration: Iteration, call: ModelCalled, role: Role) -> bool:
        """Whether a question and its reply do not stand in the prompt: for another reading those
        about the newest result, and tries at an answer from passages when there are newer ones."""
        if iteration is state.shown_iterations[-1]:
            return role == "again" or (role == "answer" and call.role in TRIES)
        superseded = iteration.gathered and iteration.part == len(state.parts) - 1
        return bool(superseded) and call.role in TRIES

    def _past(self, state: RunState) -> list[Message]:
        """What stands in short: completed steps and calls of the next one, a line each, and what
        that step is, since the decision on it is not to be seen."""
        shown = {each.number for each in state.shown_iterations}
        heard = [each for each in state.steered if each.shown and each.iteration not in shown]
        said = [user(self._heard(heard))] if heard else []
        if not (state.steps_in_short or state.iterations_in_short):
            return said
        steps = [
            f"{step.number}. {one_line(step.notes, 400)} ({one_line(step.objective, 60)}"
            f"{'' if step.success else ', without success'})"
            for step in state.steps_in_short
        ]
        calls = attempts(actions(state, state.iterations_in_short))
        lines = context.within([*steps, *calls], PAST_RESULTS * self.result_characters)
        lines = [fenced(line) for line in lines]
        messages = [message for step in state.steps_in_short for message in self._step_tools(step)]
        if steps:
            messages.append(user(fill("past_steps", steps="\n".join(lines[: len(steps)]))))
        for step in state.steps[len(steps) : len(steps) + 1]:
            messages.append(user(self._current(state, step)))
        if calls:
            messages.append(user(fill("past_calls", calls="\n".join(lines[len(steps) :]))))
        return messages + said

    def see_more(self, state: RunState) -> ToolSpec | None:
        """The planner's own tool for the rest of a result; None while all are shown whole."""
        cut = {
            number: None
            for each in state.shown_iterations
            if each.by == "choice"
            for number in context.left_out(self.shown_result(state, each))
            if number < len(state.iterations)
        }
        if not cut:
            return None
        return ToolSpec(
            name=context.SEE_MORE,
            upstream="",  # the planner's own
            description="Shows more lines of a result that was cut.",
            input_schema={
                "type": "object",
                "properties": {
                    "from_line": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "The line to go on from, as the cut result says at its end.",
                    },
                    "iteration": {
                        "type": "integer",
                        "enum": list(cut),
                        "description": "Whose result it is, as it says there.",
                    },
                },
                "required": ["from_line", "iteration"],
                "additionalProperties": False,
            },
            safety=Safety.READ_ONLY,
        )

    def brief(self, state: RunState) -> str:
        return self._asked_first(state, fill("ask_brief"))

    def words(self, state: RunState) -> str:
        return fill("ask_other_words", prompt=_question(state))

    def files(self) -> str:
        return fill("ask_files")

    def select(self, state: RunState) -> str:
        return self._asked_first(state, fill("select"))

    def _asked_first(self, state: RunState, question: str) -> str:
        """What is asked first about a request: the first one stands before it; any other is told
        in it."""
        if len(state.parts) < 2:
            return question
        return _joined(fill("next_request", prompt=_question(state)), question)

    def select_for_step(self, objective: str, tools: Sequence[str]) -> str:
        return fill("select_for_step", tools=", ".join(tools), objective=fenced(objective))

    def select_to_do(self, state: RunState) -> str:
        return fill("select_to_do", prompt=_question(state))

    def select_to_find(self, state: RunState, missing: Sequence[str]) -> str:
        said = fenced("; ".join(missing))
        return fill("select_to_find", prompt=_question(state), missing=said)

    def arguments(
        self, state: RunState, tool: ToolSpec, prompt: str, problem: str | None = None
    ) -> str:
        question = fill(
            "arguments",
            tool=tool.name,
            prompt=fenced(prompt),
            request=_question(state),
            names=_named(tool),
            parameters=fenced(parameters(tool)),
        )
        wrong = f"\nThe arguments before did not fit: {fenced(problem)}" if problem else ""
        return question + wrong

    def answer(self, state: RunState) -> str:
        how = fill("how_overview" if state.wants == "long answer" else "how_fact")
        ordered = state.wants == "action" or state.may_be_order
        if ordered and not any(each.changes for each in state.part_iterations):
            how += f" {fill('how_unchanged')}"
        return fill("ask_answer", prompt=_question(state), how=how)

    def what_was_done(self, state: RunState) -> str:
        return fill("ask_done", prompt=_question(state))

    def again(self, state: RunState) -> str:
        """A second reading of the same results, asked as if it were the first."""
        last = len(state.iterations) - 1  # what was said with its exchange, which is left out
        said = [each for each in state.steered if each.iteration == last >= 0]
        return _joined(self._heard(said), fill("ask_again", prompt=_question(state)))

    def told(self, state: RunState) -> str:
        """What the user has said to the run since the last question; it stands before the next."""
        parts = []
        for each in state.unshown:
            parts.append(self._heard([each]))
            if each.changed is not None:
                steps = fenced("; ".join(each.changed)) or "none"
                parts.append(fill("plan_changed", later_steps=steps))
        return _joined(*parts)

    def _heard(self, steered: Sequence[Steered]) -> str:
        """The user's hints, and the tools that came with them."""
        parts = []
        for each in steered:
            hint = each.said.hint
            parts.append(fill("hint", hint=fenced(hint)) if hint else "")
            parts.append(self._listed("this", each.offered))
        return _joined(*parts)

    def overview(self, state: RunState, passages: Sequence[Passage]) -> str:
        """An answer of any length from these passages."""
        return self._alone("ask_overview", state, passages)

    def facts(self, state: RunState, passages: Sequence[Passage]) -> str:
        """What these passages say that belongs to the answer."""
        return self._alone("ask_facts", state, passages)

    def which_files(self, state: RunState, texts: Mapping[str, str]) -> str:
        """The files that may have to change, each with the beginning of what it says."""
        shown = (f"=== {path}\n{text[:MAX_FILE_GLIMPSE_CHARS]}" for path, text in texts.items())
        return fill("ask_which_files", prompt=_question(state), files="\n".join(shown))

    def rewrite(self, state: RunState, part: Passage) -> str:
        """A part of a file, to be written as the request wants it."""
        return fill("ask_rewrite", prompt=_question(state), path=part.source, text=part.text)

    def editing_tool(self) -> str:
        return fill("ask_editing_tool")

    def changing_tools(self, state: RunState, tools: Sequence[ToolSpec]) -> str:
        return fill("ask_changing_tools", prompt=_question(state), tools=catalogue(tools))

    def edit_call(self, tool: ToolSpec) -> str:
        return fill(
            "ask_edit_call", tool=tool.name, names=_named(tool), parameters=fenced(parameters(tool))
        )

    @staticmethod
    def _alone(question: str, state: RunState, passages: Sequence[Passage]) -> str:
        shown = fenced("\n\n".join(map(passage, passages)))
        return fill(question, prompt=_question(state), passages=shown)

    def repair(self, state: RunState, problem: str) -> str:
        return fill("ask_repair", prompt=_question(state), problem=fenced(problem))

    def plan(
        self, state: RunState, likely: Sequence[ToolSpec] = (), purpose: PlanFor = "question"
    ) -> str:
        """The plan, with the tools that are `likely` to be needed."""
        if purpose == "action":
            first = len(state.parts) == 1 and not state.iterations  # it stands before this
            return fill("ask_plan_action", request="" if first else f"Request: {_question(state)}")
        listed = catalogue(likely) or "-"
        if purpose == "change":
            return fill("ask_plan_change", prompt=_question(state), tools=listed)
        listing = state.started.listing if state.started else None
        known = f"The project's top folder: {fenced(listing)}" if listing else ""
        return fill("ask_plan", prompt=_question(state), known=known, tools=listed)

    def decide(
        self,
        state: RunState,
        mode: Mode = "fast",
        noted: bool = False,
        problem: str | None = None,
    ) -> str:
        """The next decision; `problem` is what the one before did not heed."""
        question = fill(
            "ask_decide" if mode == "fast" else "ask_decide_deep",
            objective=fenced(state.step.objective) if state.step else "",
            prompt=_question(state),
        )
        fruitless = repeats.left_out(state)
        other = fill("other_tool", tools=", ".join(fruitless)) if fruitless else ""
        notes = fill("ask_notes") if noted else ""
        return _joined(fenced(problem or ""), question, notes, other)

    def conclude(self, state: RunState) -> str:
        """The last iteration's own prompt: a conclusion is due."""
        return fill("ask_conclude", prompt=_question(state))

    def format(self, answer: str, schema: dict[str, Any], problem: str | None = None) -> str:
        """The answer stands in it: of several tries before, it is the one that counts."""
        question = fill("ask_format", answer=fenced(answer), schema=compact(schema))
        return (
            f"{question}\nThe data before did not fit: {fenced(problem)}" if problem else question
        )

    def mended(self, question: str, problem: str, schema: dict[str, Any]) -> str:
        """A question once more, after a reply that was not the JSON it asked for."""
        whole = compact(schema)
        shown = fill("reply_schema", schema=whole) if len(whole) <= MAX_SHOWN_SCHEMA_CHARS else ""
        return _joined(question, fill("reply_again", problem=fenced(problem)), shown)

    def _request(self, state: RunState) -> str:
        tools = self._listed("this request", state.started.offered if state.started else [])
        said = state.started.request.said_before if state.started else ""
        before = fill("said_before", said=fenced(said)) if said else ""
        prompt = state.started.request.prompt if state.started else ""
        return fill("request", known=_joined(tools, before), prompt=prompt)

    def _current(self, state: RunState, step: Step) -> str:
        return fill(
            "current",
            number=step.number,
            objective=fenced(step.objective),
            later_steps=fenced("; ".join(step.later_steps)) or "none",
        )

    def _step_tools(self, step: Step) -> list[Message]:
        """The tools that a step brought in. The message stays, before the step's own, when the
        step is completed, so that the next prompt begins with the same."""
        listed = self._listed(f"step {step.number}", step.offered)
        return [user(listed)] if listed else []

    def _listed(self, purpose: str, names: Sequence[str]) -> str:
        tools = catalogue([self.listed_later[name] for name in names if name in self.listed_later])
        return fill("tools_listed", purpose=purpose, tools=tools) if tools else ""

    def _result(self, state: RunState, iteration: Iteration, said: str, role: Role) -> str:
        """What came of a call, with its arguments unless they stand in what was `said` before. Of
        passages, the first answer is read from the likeliest ones alone."""
        if iteration.gathered:
            passages = iteration.gathered.passages
            first = role == "answer" and iteration is state.shown_iterations[-1]
            if first and not any(call.role == role for call in iteration.exchange):
                passages = likeliest(passages)
            shown = fenced("\n\n".join(map(passage, passages)))
            query = fenced(one_line(iteration.gathered.query))
            return fill("passages", query=query, passages=shown or "(nothing was found)")
        known = said and all(compact(value) in said for value in iteration.arguments.values())
        return fill(
            "result",
            tool=iteration.tool,
            arguments="" if known else f"({fenced(compact(iteration.arguments))})",
            outcome=OUTCOMES[iteration.outcome or Outcome.ERROR],
            result=fenced(self.shown_result(state, iteration)),
        )

    def shown_result(self, state: RunState, iteration: Iteration) -> str:
        """The result as it stands in a prompt: readable, its telling lines within the budget."""
        key = (iteration.number, iteration.outcome, self.result_characters)
        if key not in self._shown:
            wanted = context.words(
                f"{state.user_words} {iteration.prompt} {compact(iteration.arguments)}"
            )
            self._shown[key] = context.shortened(
                context.readable(iteration.result), self.result_characters, wanted, iteration.number
            )
        return self._shown[key]


def passage(each: Passage) -> str:
    """A passage as models see it: its file and lines, what it stands in, and its text. Small models
    take numbers before the lines for values."""
    place = f"{each.place} ({each.relation})" if each.relation else each.place
    heading = [f"{line}\n..." for line in each.heading.splitlines()]
    return "\n".join([place, *heading, each.text])


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _named(tool: ToolSpec) -> str:
    """The names of a tool's arguments, as its call begins with them."""
    return ",".join(f'"{name}":...' for name in tool.input_schema.get("properties", {}))


def _joined(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def _question(state: RunState) -> str:
    """The request once more, short: small models answer what they read last. One that the run goes
    on with stands nowhere else, and so here as a whole."""
    prompt = state.request.prompt if state.request else ""
    return one_line(prompt, longest=300) if len(state.parts) < 2 else prompt
