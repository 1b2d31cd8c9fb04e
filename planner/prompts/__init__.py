"""The prompts: texts as files beside this one, filled in from the run's state (`texts`).

Nothing that changes stands before something that stays, since a model server keeps the longest
common prefix of two prompts. All roles share the messages up to their last one. A prompt only
grows, until it would outgrow the context and the past is put in short (`ContextCompressed`).
Rewriting a file and planning an action have system prompts of their own.
"""

import math
from collections.abc import Hashable, Sequence

from planner.actions import actions, attempts
from planner.checks.guards.results import BROADER, found_something
from planner.checks.schemas import closed
from planner.events import ALONE, TRIES, ModelCalled, Role
from planner.evidence import context
from planner.evidence.selection import likeliest
from planner.evidence.tool_ranking import shown_whole
from planner.evidence.words import long_words
from planner.models.base import Message
from planner.prompts.questions import asked
from planner.prompts.texts import (
    assistant,
    catalogue,
    compact,
    fenced,
    fill,
    harmless,
    in_short,
    joined,
    one_line,
    passage,
    system,
    system_act,
    user,
)
from planner.state import Iteration, RunState, Steered, Step
from planner.text import json_of
from planner.tools import Outcome, Safety, ToolSpec

OUTCOMES = {
    Outcome.SUCCESS: "this",
    Outcome.FAILURE: "a failure",
    Outcome.ERROR: "an error",
    Outcome.TIMEOUT: "nothing in time",
}
RESULT_CHARACTERS = 1800
"""Characters of a tool result: some 500 tokens, 15 s for a 1.5B model on two cores."""
BEFORE_ACTING: Sequence[Role] = ("brief", "files", "example")
"""What is asked of an action before it is planned, on the prompt that reads the request."""
PAST_RESULTS = 4
"""The shortened past may take as many characters as this many results."""


class Prompts:
    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.system = system(tools)
        self.system_act = system_act(tools)
        self.listed_later = {} if shown_whole(tools) else {tool.name: tool for tool in tools}
        """The tools that the system prompt does not list."""
        self.result_characters = RESULT_CHARACTERS
        self._shown: dict[Hashable, str] = {}
        """Results as they stand in prompts, by all that they depend on."""

    def conversation(self, state: RunState, question: str, role: Role = "decide") -> list[Message]:
        """Everything so far, and a question, which stands with the newest result if nothing was
        asked about that yet. A result is read `again` as if nothing had been said of it."""
        if role == "rewrite":  # what the run's own prompt says of JSON and searches is in the way
            own: Message = {"role": "system", "content": fill("system_rewrite")}
            return harmless([own, user(question)])
        acting = state.wants == "action" and role not in BEFORE_ACTING
        messages = [self.system_act if acting else self.system]
        opening = state.opens.opening
        left_out: Role | None = "brief" if acting else None
        request, brief = self._request(state), state.opens.brief
        brought = self._listed("this request too", brief.offered if brief else [])
        briefs = [call for call in opening if call.role == "brief"]
        in_turn = briefs[-1:] if brief and brief.first else []
        for call in opening:
            if call.role != "brief":
                request, brought = joined(request, brought), ""
            if call.role == left_out or (call.role == "files" and not state.passages):
                continue
            whole = call.role != "brief" or call in in_turn
            reply = call.reply if whole else without_questions(call.reply)
            messages += [user(joined(request, call.question)), assistant(reply)]
            request = ""
        request = joined(request, brought)
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
            """The messages about the steps that had begun by then."""
            due = [beginnings.pop(0)[1] for at, _ in list(beginnings) if at <= (iteration, asked)]
            return [message for each in due for message in each]

        before = begun(shown[0].number - 1 if shown else len(state.iterations), math.inf)
        if request and (
            before or state.iterations[state.opens.first :]
        ):  # what follows comes after it
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
            if _passed_over(state, iteration):
                continue
            pending = joined(pending, self._result(state, iteration, said, role))
            for number, call in enumerate(iteration.exchange, 1):
                if call.role == left_out or self._left_out(state, iteration, call, role):
                    continue
                messages += [user(joined(pending, call.question)), assistant(call.reply)]
                messages += begun(iteration.number, number)
                pending, said = "", call.reply
        return harmless([*messages, user(joined(pending, question))])

    @staticmethod
    def _left_out(state: RunState, iteration: Iteration, call: ModelCalled, role: Role) -> bool:
        """Whether a question and its reply do not stand in the prompt: those about the newest
        result in another reading of it, and tries at an answer from older passages."""
        if iteration is state.shown_iterations[-1]:
            return role == "again" or (role == "answer" and call.role in TRIES)
        superseded = iteration.gathered and iteration.part == len(state.parts) - 1
        return bool(superseded) and call.role in TRIES

    def _past(self, state: RunState) -> list[Message]:
        """The past in short: completed steps and the calls of the next one, and that step."""
        shown = {each.number for each in state.shown_iterations}
        hinted = [each for each in state.steered if each.shown and each.iteration not in shown]
        said = [user(self._hints(hinted))] if hinted else []
        before = state.steps_in_short[state.opens.steps :]
        if not (before or state.iterations_in_short):
            return said
        steps = [
            f"{step.number}. {one_line(step.notes, 400)} ({one_line(step.objective, 60)}"
            f"{'' if step.success else ', without success'})"
            for step in before
        ]
        calls = attempts(actions(state, state.iterations_in_short))
        lines = context.within([*steps, *calls], PAST_RESULTS * self.result_characters)
        lines = [fenced(line) for line in lines]
        messages = [message for step in before for message in self._step_tools(step)]
        if steps:
            messages.append(user(fill("past_steps", steps="\n".join(lines[: len(steps)]))))
        for step in state.steps[len(state.steps_in_short) :][:1]:
            later_steps = fenced("; ".join(step.later_steps)) or "none"
            objective = fenced(step.objective)
            text = fill("current", number=step.number, objective=objective, later_steps=later_steps)
            messages.append(user(text))
        if calls:
            messages.append(user(fill("past_calls", calls="\n".join(lines[len(steps) :]))))
        return messages + said

    def see_more(self, state: RunState) -> ToolSpec | None:
        """The planner's own tool for the rest of a result; None while all are shown whole."""
        cut = {
            number: None
            for each in state.shown_iterations
            if each.by != "lookup" and each.outcome
            for number in context.left_out(self.shown_result(state, each))
            if number < len(state.iterations)
        }
        if not cut:
            return None
        return ToolSpec(
            name=context.SEE_MORE,
            upstream="",  # the planner's own
            description="Shows more lines of a result that was cut.",
            input_schema=closed(
                from_line={
                    "type": "integer",
                    "minimum": 1,
                    "description": "The line to go on from, as the cut result says at its end.",
                },
                iteration={
                    "type": "integer",
                    "enum": list(cut),
                    "description": "Whose result it is, as it says there.",
                },
            ),
            safety=Safety.READ_ONLY,
        )

    def again(self, state: RunState) -> str:
        """A second reading of the same results, asked as if it were the first."""
        last = len(state.iterations) - 1  # what was said with its exchange, which is left out
        said = [each for each in state.steered if each.iteration == last >= 0]
        return joined(self._hints(said), asked("ask_again", state))

    def said_since(self, state: RunState) -> str:
        """What the user has said to the run since the last question; it stands before the next."""
        parts = []
        for each in state.unshown:
            parts.append(self._hints([each]))
            if each.changed is not None:
                steps = fenced("; ".join(each.changed)) or "none"
                parts.append(fill("plan_changed", later_steps=steps))
        return joined(*parts)

    def _hints(self, steered: Sequence[Steered]) -> str:
        """The user's hints, and the tools that came with them."""
        parts = []
        for each in steered:
            hint = each.said.hint
            parts.append(fill("hint", hint=fenced(hint)) if hint else "")
            parts.append(self._listed("this", each.offered))
        return joined(*parts)

    def _request(self, state: RunState) -> str:
        tools = self._listed("this request", state.started.offered if state.started else [])
        opens = state.opens
        said = joined(opens.request.said_before, *opens.before)
        before = fill("said_before", said=fenced(said)) if said else ""
        return fill("request", known=joined(tools, before), prompt=opens.request.prompt)

    def _step_tools(self, step: Step) -> list[Message]:
        """The tools that a step brought in; the message stays when the step is completed."""
        listed = self._listed(f"step {step.number}", step.offered)
        return [user(listed)] if listed else []

    def _listed(self, purpose: str, names: Sequence[str]) -> str:
        tools = catalogue([self.listed_later[name] for name in names if name in self.listed_later])
        return fill("tools_listed", purpose=purpose, tools=tools) if tools else ""

    def _result(self, state: RunState, iteration: Iteration, said: str, role: Role) -> str:
        """The result of a call, with its arguments unless the reply before (`said`) has them. The
        first answer is read from the likeliest passages alone."""
        if iteration.gathered:
            passages = iteration.gathered.passages
            first = role == "answer" and iteration is state.shown_iterations[-1]
            if first and not any(call.role == role for call in iteration.exchange):
                passages = likeliest(passages)
            shown = fenced("\n\n".join(map(passage, passages)))
            query = fenced(in_short(iteration.gathered.query))
            return fill("passages", query=query, passages=shown or _nothing(state, iteration))
        known = said and all(compact(value) in said for value in iteration.arguments.values())
        arguments = "" if known else f"({fenced(compact(iteration.arguments))})"
        result = self.shown_result(state, iteration)
        if broader := BROADER.match(result):
            arguments += f" found nothing. {iteration.tool}({fenced(broader[1])})"
            result = result[broader.end() :]
        return fill(
            "result",
            tool=iteration.tool,
            arguments=arguments,
            outcome=OUTCOMES[iteration.outcome or Outcome.ERROR],
            result=fenced(result),
        )

    def shown_result(self, state: RunState, iteration: Iteration) -> str:
        """The result as it stands in a prompt: readable, its telling lines within the budget."""
        key = (iteration.number, iteration.outcome, self.result_characters)
        if key not in self._shown:
            asked = f"{state.user_words} {iteration.prompt} {compact(iteration.arguments)}"
            text = context.shortened(
                context.readable(iteration.result),
                self.result_characters,
                {*long_words(asked)},
                iteration.number,
            )
            self._shown[key] = context.with_count(iteration.result, text)
        return self._shown[key]


def _passed_over(state: RunState, iteration: Iteration) -> bool:
    """Whether a look-up failed, and a later call returned something: a small model makes the same
    call again, or takes what the failure says for what was found."""
    if iteration.changes or iteration.exchange or iteration.outcome is not Outcome.FAILURE:
        return False
    later = state.iterations[iteration.number + 1 :]
    return any(each.by != "lookup" and found_something(each) for each in later)


def without_questions(reply: str) -> str:
    """The reply that read the request, without the two questions in it, which code did not take: a
    small model writes an answer there, and believes it later."""
    told = json_of(reply)
    if not isinstance(told, dict) or "first" not in told:
        return reply
    return compact({key: value for key, value in told.items() if key not in ("first", "then")})


def _nothing(state: RunState, iteration: Iteration) -> str:
    """What stands in place of passages, if an iteration has none."""
    earlier = (each for each in state.shown_iterations if each.number < iteration.number)
    if any(each.gathered and each.gathered.passages for each in earlier):
        return "(nothing besides what is shown above)"
    return "(nothing was found)"
