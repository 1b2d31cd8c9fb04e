"""The prompts: texts as files beside this one, filled in from the run's state.

Everything is rendered from the state, and what is rendered only grows within a step: a model
server keeps the longest common prefix of two prompts, so nothing that changes stands before
something that stays. All roles share the messages up to their last one.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from planner import context
from planner.models import Message
from planner.state import Iteration, RunState
from planner.tools import Outcome, ToolSpec

OUTCOMES = {
    Outcome.SUCCESS: "this",
    Outcome.FAILURE: "a failure",
    Outcome.ERROR: "an error",
    Outcome.TIMEOUT: "nothing in time",
}


@cache
def template(name: str) -> Template:
    return Template(files(__name__).joinpath(f"{name}.txt").read_text("utf-8").rstrip("\n"))


def fill(name: str, **values: object) -> str:
    return template(name).substitute(values).strip("\n")


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def signature(tool: ToolSpec) -> str:
    """`path, pattern, limit?`: the parameters in the schema's order, optional ones marked."""
    required = tool.input_schema.get("required", [])
    names = tool.input_schema.get("properties", {})
    return ", ".join(name if name in required else f"{name}?" for name in names)


def parameters(tool: ToolSpec) -> str:
    """One line for each parameter: its name, and the first sentence on it."""
    lines = []
    for name, schema in tool.input_schema.get("properties", {}).items():
        about = one_line(schema.get("description", "")) if isinstance(schema, dict) else ""
        default = schema.get("default") if isinstance(schema, dict) else None
        if default not in (None, ""):
            about += f" (default {compact(default)})"
        lines.append(f"- {name}: {about.strip() or 'no description'}")
    return "\n".join(lines) or "It takes no arguments."


def one_line(text: str, longest: int = 160) -> str:
    """The first sentence, on one line, at most `longest` characters."""
    flat = re.sub(r"\s+", " ", text).strip()
    sentence = re.split(r"(?<=[.!?])\s", flat, maxsplit=1)[0] if len(flat) > longest else flat
    return sentence if len(sentence) <= longest else sentence[: longest - 1] + "…"


def catalogue(tools: Sequence[ToolSpec]) -> str:
    return "\n".join(
        f"- {tool.name}({signature(tool)}): {one_line(tool.description)}" for tool in tools
    )


def system(tools: Sequence[ToolSpec]) -> Message:
    """The part that every run on the same pool shares, word for word."""
    return {"role": "system", "content": fill("system", tools=catalogue(tools) or "(none)")}


def fenced(text: str) -> str:
    """A stranger's text that cannot close the fence it stands in."""
    return re.sub(r"<(/?)(result)", r"‹\1\2", text, flags=re.IGNORECASE)


class Prompts:
    """Renders the messages of one run."""

    def __init__(self, tools: Sequence[ToolSpec], result_characters: int) -> None:
        self.system = system(tools)
        self.result_characters = result_characters

    def conversation(self, state: RunState, *, last_ask: str | None = None) -> list[Message]:
        """Everything up to and with the newest result; `last_ask` replaces its question."""
        messages = [self.system, user(self._request(state))]
        messages += [
            user(
                fill(
                    "completed",
                    number=step.number,
                    objective=step.objective,
                    success="yes" if step.success else "no",
                    notes=fenced(step.notes),
                )
            )
            for step in state.completed_steps
        ]
        if state.completed_steps and state.step:
            messages.append(
                user(
                    fill(
                        "current",
                        main_objective=state.main_objective or "",
                        number=state.step.number,
                        objective=state.step.objective,
                        later_steps="; ".join(state.later_steps) or "none",
                    )
                )
            )
        finished = [each for each in state.open_iterations if each.outcome is not None]
        for iteration in finished:
            newest = iteration is finished[-1]
            ask = last_ask if newest and last_ask is not None else self.ask(state, iteration)
            if iteration.decision is None and not newest:
                ask = ""  # nothing was asked on it: the next call followed at once
            messages.append(user(self._result(state, iteration, ask)))
            if iteration.decision is not None and not (newest and last_ask is not None):
                messages.append({"role": "assistant", "content": iteration.decision})
        return messages

    def select(self, state: RunState) -> list[Message]:
        return [*self.conversation(state), user(fill("select"))]

    def arguments(
        self, state: RunState, tool: ToolSpec, prompt: str, problem: str | None = None
    ) -> list[Message]:
        ask = fill(
            "arguments",
            tool=tool.name,
            prompt=prompt,
            signature=signature(tool),
            parameters=parameters(tool),
        )
        if problem:
            ask += f"\nThe arguments before did not fit: {problem}"
        return [*self.conversation(state), user(ask)]

    def plan(self, state: RunState) -> list[Message]:
        """Before any tool result: the plan straight away."""
        ask = fill("ask_full_plan", prompt=_question(state))
        finished = [each for each in state.open_iterations if each.outcome is not None]
        messages = self.conversation(state, last_ask=ask)
        return messages if finished else [*messages, user(ask)]

    def conclude(self, state: RunState) -> list[Message]:
        """The last iteration's own prompt: a conclusion is due."""
        ask = fill("ask_conclude", prompt=_question(state))
        finished = [each for each in state.open_iterations if each.outcome is not None]
        if not finished:
            return [*self.conversation(state), user(ask)]
        if finished[-1].decision is None:
            return self.conversation(state, last_ask=ask)
        return [*self.conversation(state), user(ask)]

    def ask(self, state: RunState, iteration: Iteration) -> str:
        """The question after a result: the first one asks for a plan, the others for a decision."""
        if iteration.step == 0:
            return fill("ask_plan", prompt=_question(state))
        limit = state.started.request.limits.iterations if state.started else iteration.number
        return fill(
            "ask_decide",
            prompt=_question(state),
            objective=state.steps[iteration.step - 1].objective,
            left=max(0, limit - iteration.number),
        )

    def _request(self, state: RunState) -> str:
        listing = state.started.listing if state.started else None
        shown = f"The project's top folder: {fenced(listing)}" if listing else ""
        return fill("request", listing=shown, prompt=_prompt(state))

    def _result(self, state: RunState, iteration: Iteration, ask: str) -> str:
        return fill(
            "result",
            tool=iteration.tool,
            arguments=compact(iteration.arguments),
            outcome=OUTCOMES[iteration.outcome or Outcome.ERROR],
            result=fenced(self.shown_result(state, iteration)),
            ask=ask,
        )

    def shown_result(self, state: RunState, iteration: Iteration) -> str:
        """The result as it stands in a prompt: readable, its telling lines within the budget."""
        wanted = context.words(
            f"{_prompt(state)} {iteration.prompt} {compact(iteration.arguments)}"
        )
        return context.shortened(context.readable(iteration.result), self.result_characters, wanted)


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def _prompt(state: RunState) -> str:
    return state.started.request.prompt if state.started else ""


def _question(state: RunState) -> str:
    """The request once more, short: small models answer what they read last."""
    return one_line(_prompt(state), longest=300)
