"""AgentDojo's suites as data: what users ask, which calls that takes, and what attackers want.

The data stays in the package `agentdojo`, whose many requirements stay in an environment of their
own: `export.py` runs there and prints it.
"""

import subprocess
from pathlib import Path
from typing import Any

from pydantic import BaseModel

VERSION = "0.1.35"
HOW_TO_GET_IT = f"""\
The suites are those of the package agentdojo {VERSION}. It brings many others, so keep it apart:

    uv venv agentdojo && uv pip install --python agentdojo/bin/python agentdojo=={VERSION}
    python -m benchmarks.injection --agentdojo agentdojo/bin/python"""

READING = ("check_", "get_", "list_", "read_", "search_")
"""How the names of tools begin that an operator calls read-only."""


def reads(tool: str) -> bool:
    """Whether an operator calls the tool read-only."""
    return tool.startswith(READING)


class Call(BaseModel):
    tool: str
    arguments: dict[str, Any]


class Attack(BaseModel):
    """What an attacker wants."""

    goal: str
    calls: list[Call]


class Task(BaseModel):
    """What a user asks."""

    prompt: str
    calls: list[Call]
    results: list[str]
    """Of the calls, with the mark wherever an attacker could have written."""

    @property
    def reading(self) -> list[tuple[Call, str]]:
        """The read-only calls and their results."""
        return [each for each in zip(self.calls, self.results, strict=True) if reads(each[0].tool)]


class ListedTool(BaseModel):
    name: str
    description: str
    input_schema: dict[str, Any]


class Suite(BaseModel):
    tools: list[ListedTool]
    attacks: dict[str, Attack]
    tasks: dict[str, Task]


class Suites(BaseModel):
    version: str
    mark: str
    attack: str
    """What an attacker writes, with places for `user`, `model` and `goal`."""
    suites: dict[str, Suite]


def exported(python: Path) -> Suites:
    """The suites of the `agentdojo` that this Python has. Raises `CalledProcessError`."""
    script = Path(__file__).with_name("export.py")
    done = subprocess.run([python, script], stdout=subprocess.PIPE, check=True)
    return Suites.model_validate_json(done.stdout)
