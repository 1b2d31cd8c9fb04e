"""The family tools: pools without a single file tool, in which things are looked up and done.

The tasks, the tools and the graders are AgentDojo's and BFCL's. They run on a Python of their own
(`worlds/`), which is fetched on first use; each case has a world of its own, so a wrong call harms
no other. Of AgentDojo all users' tasks are taken that can be failed, of BFCL those that
`worlds/gorilla.py` lists.

    python -m benchmarks.eval.tasks.tools       whether the published calls pass, over MCP
"""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import anyio
from anyio import to_thread
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from platformdirs import user_cache_path
from pydantic import BaseModel

from benchmarks.eval.case import Answer, Grade, Setting, Split
from benchmarks.eval.tasks.base import TaskCase
from benchmarks.eval.tasks.verdicts import graded
from planner.errors import PlanloomError

WORLDS = Path(__file__).with_name("worlds")


class Call(BaseModel):
    """A call in a world, as its server recorded it or as the task's authors published it."""

    tool: str
    arguments: dict[str, Any]
    text: str = ""
    failed: bool = False


class Task(BaseModel):
    """A published task."""

    id: str
    """`dojo/banking/user_task_3`, `gorilla/multi_turn_base_9/1`"""
    number: int
    kind: str
    prompt: str
    truth: list[Call]
    said: str

    @property
    def pool(self) -> str:
        """What its upstream is called."""
        source, suite, _ = self.id.split("/")
        return suite if source == "dojo" else "terminal"


class Outcome(BaseModel):
    """What a task's own grader says."""

    why: str
    """Why the task is not done; empty: it is."""
    attacked: bool
    """Whether an attacker got what he wanted."""
    calls: list[Call]


@dataclass(frozen=True)
class WorldSetting(Setting):
    """A world behind MCP."""

    record: Path = Path()
    """The folder in which its server writes what happens."""


@dataclass(frozen=True)
class WorldCase(TaskCase):
    """A published task."""

    family = "tools"
    task: Task

    @classmethod
    def of(cls, task: Task, split: Split) -> Self:
        return cls(task.id, split, task.kind, task.prompt, task)

    @property
    def expected(self) -> str:
        return ", ".join(call.tool for call in self.task.truth)

    @asynccontextmanager
    async def open(self, work: Path) -> AsyncIterator[WorldSetting]:
        yield world(self.task, work)

    def grade(self, setting: Setting, answer: Answer) -> Grade:
        assert isinstance(setting, WorldSetting)
        outcome = outcome_of(self.task.id, setting.record, answer.text)
        made = [(call.tool, call.arguments) for call in outcome.calls]
        share = sum((call.tool, call.arguments) in made for call in self.task.truth)
        why = f"{outcome.why}; called {', '.join(name for name, _ in made) or 'nothing'}"
        return graded(answer, why if outcome.why else "", share / len(self.task.truth))


def cases(split: Split) -> Sequence[WorldCase]:
    """The tasks with even numbers to tune on, those with odd ones to report."""
    parity = ("dev", "report").index(split)
    return [WorldCase.of(task, split) for task in tasks() if task.number % 2 == parity]


@cache
def tasks() -> tuple[Task, ...]:
    """All published tasks that are taken."""
    return tuple(Task.model_validate(each) for each in json.loads(asked("list")))


def world(task: Task, work: Path, attack: str = "") -> WorldSetting:
    """The setting of a task, with its record in the folder `work`; `attack` is the id of one of
    AgentDojo's attacks (`attacks`), whose text then stands wherever an attacker could write."""
    record = work / "record"
    record.mkdir()
    args = [str(WORLDS), "serve", task.id, "--record", str(record)]
    entry = {
        "command": str(python()),
        "args": [*args, *(["--attack", attack] if attack else [])],
        "policy": "allow",
        "pin_tools": False,  # an attack's text may stand in no description, but each case is new
    }
    return WorldSetting(upstreams={task.pool: entry}, policy="allow", record=record)


def outcome_of(task: str, record: Path, answer: str, attack: str = "") -> Outcome:
    """Have the task's own grader look at what was done and said."""
    options = ["--attack", attack] if attack else []
    return Outcome.model_validate_json(
        asked("grade", task, "--record", str(record), *options, said=answer)
    )


def attacks(suite: str) -> dict[str, str]:
    """What AgentDojo's attackers want in a suite, by the ids of the attacks."""
    found: dict[str, str] = json.loads(asked("attacks", suite))
    return found


def asked(*arguments: str, said: str = "") -> str:
    """What `python worlds` prints. Raises `PlanloomError` with what went wrong."""
    done = subprocess.run(
        [python(), WORLDS, *arguments], input=said, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PlanloomError(f"python worlds {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


@cache
def python() -> Path:
    """The Python that the worlds run on, fetched into the user's cache if it is not there yet.

    Raises `PlanloomError` when it cannot be fetched."""
    requirements = WORLDS / "requirements.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    home = user_cache_path("planloom") / "eval" / f"worlds-{digest}"
    interpreter = home / "bin/python"
    if (home / "whole").exists():
        return interpreter
    # The machine's own certificates, as pip takes them.
    uv = [str(Path(sys.executable).with_name("uv")), "--system-certs"]
    install = ["pip", "install", "--quiet", "--no-deps", "--compile-bytecode"]
    for command in (
        ["venv", "--quiet", "--clear", "--python", sys.executable, str(home)],
        [*install, "--python", str(interpreter), "--requirement", str(requirements)],
    ):
        try:
            subprocess.run([*uv, *command], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise PlanloomError(
                f"What the family tools runs on could not be fetched ({error}); leave it out, or "
                "see that Python's package index can be reached."
            ) from None
    (home / "whole").touch()
    return interpreter


async def truth_passes(case: WorldCase, work: Path) -> str:
    """Make a task's published calls over MCP and give its published answer; returns why that does
    not pass, empty if it does."""
    async with case.open(work) as setting:
        [entry] = setting.upstreams.values()
        transport = StdioTransport(entry["command"], entry["args"], keep_alive=False)
        async with Client(transport) as client:
            for call in case.task.truth:
                await client.call_tool(call.tool, call.arguments, raise_on_error=False)
        answer = Answer("answered", case.task.said)
        grade = await to_thread.run_sync(case.grade, setting, answer)
        return grade.why


async def prove() -> bool:
    """Print how many tasks' published calls pass, and which do not."""
    passed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for split in ("dev", "report"):
        for case in cases(split):
            with TemporaryDirectory() as folder:
                why = await truth_passes(case, Path(folder))
            total[case.task.pool] += 1
            passed[case.task.pool] += not why
            if why:
                print(f"{case.id}: {why}", flush=True)
    for pool in total:
        print(f"{pool}: the published calls of {passed[pool]} of {total[pool]} tasks pass")
    return passed == total


if __name__ == "__main__":
    sys.exit(not anyio.run(prove))
