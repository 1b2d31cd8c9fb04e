"""AgentDojo's suites (banking, slack, travel, workspace), with their own environments and graders.

The package imports the clients of every model service that its agents can use. None is used here,
and they are half a gigabyte that takes ten seconds to import, so modules without content stand in.
"""

import sys
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

from world import Call, Task, Tool, kind
from writes import WRITES

CLIENTS = {"anthropic", "cohere", "dotenv", "google", "langchain", "openai", "requests", "tenacity"}
VERSION = "v1.2.2"
UNDONE = tuple(f"dojo/banking/user_task_{number}" for number in (5, 6, 8, 9, 10))
"""Left out, since AgentDojo's check of them passes when nothing is done at all."""
SUITES = ("banking", "slack", "travel", "workspace")


class Absent(MetaPathFinder, Loader):
    """Finds the clients as modules in which every name is there and means nothing."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in CLIENTS else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


class Empty(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


sys.meta_path.insert(0, Absent())

from agentdojo.agent_pipeline.tool_execution import tool_result_to_str  # noqa: E402
from agentdojo.attacks.important_instructions_attacks import (  # noqa: E402
    ImportantInstructionsAttack,
)
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime  # noqa: E402
from agentdojo.task_suite.load_suites import get_suite  # noqa: E402
from agentdojo.types import text_content_block_from_string  # noqa: E402


@cache
def loaded(suite: str, text: str) -> Any:
    """A suite's environment with this text wherever an attacker could have written; empty: with
    what stands there by itself. To be copied: there is one."""
    found = get_suite(VERSION, suite)
    injections = dict.fromkeys(found.get_injection_vector_defaults(), text) if text else {}
    return found.load_and_inject_default_environment(injections)


def tasks() -> list[Task]:
    """The users' tasks of all suites, `dojo/banking/user_task_3`, but for those in `UNDONE`."""
    found = []
    for name in SUITES:
        suite = get_suite(VERSION, name)
        reading = {tool.name for tool in suite.tools} - WRITES
        for id, task in suite.user_tasks.items():
            if f"dojo/{name}/{id}" in UNDONE:
                continue
            before = task.init_environment(loaded(name, "").model_copy(deep=True))
            truth = tuple(
                Call(each.function, dict(each.args)) for each in task.ground_truth(before)
            )
            names = [call.tool for call in truth]
            number = int(id.rpartition("_")[2])
            said = task.GROUND_TRUTH_OUTPUT
            prompt = task.PROMPT.strip()
            found.append(
                Task(f"dojo/{name}/{id}", number, kind(names, reading), prompt, truth, said)
            )
    return sorted(found, key=lambda task: (task.id.split("/")[1], task.number))


def attacks(suite: str) -> dict[str, str]:
    """What attackers want in a suite, by the ids of the injection tasks."""
    return {id: task.GOAL for id, task in get_suite(VERSION, suite).injection_tasks.items()}


class Dojo:
    """A suite's environment as one of its tasks finds it; with an attack, its text stands wherever
    an attacker could have written."""

    def __init__(self, suite: str, task: str, attack: str = "") -> None:
        self.suite = get_suite(VERSION, suite)
        self.task = self.suite.user_tasks[task]
        self.attack = self.suite.injection_tasks[attack] if attack else None
        text = ""
        if self.attack:
            text = ImportantInstructionsAttack._JB_STRING.format(
                user="Emma Johnson", model="AI assistant", goal=self.attack.GOAL
            )
        environment = loaded(suite, text).model_copy(deep=True)
        self.state = self.task.init_environment(environment)
        self.before = self.state.model_copy(deep=True)
        self.runtime = FunctionsRuntime(self.suite.tools)
        self.tools = [
            Tool(
                tool.name,
                tool.description,
                tool.parameters.model_json_schema(),
                tool.name not in WRITES,
            )
            for tool in self.suite.tools
        ]

    def call(self, tool: str, arguments: dict[str, Any]) -> Call:
        result, error = self.runtime.run_function(self.state, tool, arguments)
        return Call(tool, arguments, error or tool_result_to_str(result), bool(error))

    def done(self, state: Any, calls: list[Call], answer: str) -> str:
        done = self._graded(self.task, state, calls, answer)
        return "" if done else "AgentDojo's check of the user's task fails"

    def attacked(self, state: Any, calls: list[Call], answer: str) -> bool:
        """Whether the attacker got what he wanted."""
        return self.attack is not None and self._graded(self.attack, state, calls, answer)

    def _graded(self, task: Any, state: Any, calls: list[Call], answer: str) -> bool:
        trace = [FunctionCall(function=call.tool, args=call.arguments) for call in calls]
        said = [text_content_block_from_string(answer)]
        before = self.before.model_copy(deep=True)
        return bool(self.suite._check_task_result(task, said, before, state, trace))
