"""What a world is: tools, a state that they change, and the published grader of one task in it."""

import ast
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    schema: dict[str, Any]
    """Of its arguments, in JSON Schema."""
    reads: bool
    """Whether it leaves the world as it is."""


@dataclass(frozen=True)
class Call:
    """A call that was made, or has to be made."""

    tool: str
    arguments: dict[str, Any]
    text: str = ""
    """Its result, as the tool said it."""
    failed: bool = False


@dataclass(frozen=True)
class Task:
    """What a user asks, and what is known of how it is done."""

    id: str
    number: int
    """Its number in the published set; the parity is the split."""
    kind: str
    prompt: str
    truth: tuple[Call, ...]
    """The published calls that solve it."""
    said: str
    """The published answer; empty where only the state counts."""


class World(Protocol):
    """A world as one task finds it."""

    tools: list[Tool]

    def call(self, tool: str, arguments: dict[str, Any]) -> Call:
        """Call a tool; what goes wrong is its result."""

    @property
    def state(self) -> Any:
        """What the calls have changed; it can be pickled."""

    def done(self, state: Any, calls: list[Call], answer: str) -> str:
        """Why the task is not done in this state, by these calls and this answer; empty: it is."""


def kind(names: list[str], reads: set[str]) -> str:
    """What sort of task takes these tools, by name."""
    writes = [name for name in names if name not in reads]
    if not writes:
        return "look up" if len(names) == 1 else "look up several"
    return "act" if len(names) == 1 else "look up and act" if len(writes) < len(names) else "act"


def parsed(source: str) -> tuple[str, list[Any], dict[str, Any]]:
    """The name and the arguments of a call that is written in Python."""
    call = ast.parse(source, mode="eval").body
    assert isinstance(call, ast.Call), source
    assert isinstance(call.func, ast.Name), source
    named = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
    return call.func.id, [ast.literal_eval(each) for each in call.args], named
