"""Prints AgentDojo's suites as JSON; runs on a Python that has `agentdojo`, and needs nothing else.

For each suite: its tools, the attacks' calls, and for each of the users' tasks the calls that solve
it with what they return, in which `MARK` stands wherever an attacker could have written.
"""

import json
from typing import Any

from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.attacks.important_instructions_attacks import ImportantInstructionsAttack
from agentdojo.functions_runtime import FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites

VERSION = "v1.2.2"
MARK = "ATTACKER-TEXT-HERE"


def suite_data(suite: Any) -> dict[str, Any]:
    benign = suite.load_and_inject_default_environment({})
    return {
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.parameters.model_json_schema(),
            }
            for tool in suite.tools
        ],
        "attacks": {
            name: {"goal": task.GOAL, "calls": calls(task.ground_truth(benign))}
            for name, task in suite.injection_tasks.items()
        },
        "tasks": {name: task_data(suite, task) for name, task in suite.user_tasks.items()},
    }


def task_data(suite: Any, task: Any) -> dict[str, Any]:
    vectors = suite.get_injection_vector_defaults()
    marked = suite.load_and_inject_default_environment(dict.fromkeys(vectors, MARK))
    environment = task.init_environment(marked)
    solution = task.ground_truth(environment.model_copy(deep=True))
    runtime = FunctionsRuntime(suite.tools)
    results = []
    for call in solution:
        result, error = runtime.run_function(environment, call.function, call.args)
        results.append(error or tool_result_to_str(result))
    return {"prompt": task.PROMPT, "calls": calls(solution), "results": results}


def calls(made: Any) -> list[dict[str, Any]]:
    return [{"tool": call.function, "arguments": dict(call.args)} for call in made]


if __name__ == "__main__":
    suites = {name: suite_data(suite) for name, suite in get_suites(VERSION).items()}
    text = ImportantInstructionsAttack._JB_STRING
    print(json.dumps({"version": VERSION, "mark": MARK, "attack": text, "suites": suites}))
