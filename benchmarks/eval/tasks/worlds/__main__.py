"""`python worlds`: AgentDojo's and BFCL's tasks as worlds behind MCP, and their graders.

Runs on a Python of its own (`requirements.txt`), so it knows nothing of Planloom.

    python worlds list                          the tasks, as JSON
    python worlds attacks SUITE                 what AgentDojo's attackers want there, as JSON
    python worlds serve TASK [--attack ID] --record FOLDER
                                                the task's world as an MCP server on stdio
    python worlds grade TASK [--attack ID] --record FOLDER < ANSWER
                                                what the task's own grader says of it, as JSON
    python worlds check                         whether the tools that read change nothing, and the
                                                tasks pass when they are done and not before

The server writes to FOLDER after each call: the call to `calls.jsonl`, the state to `state.pickle`.
"""

import argparse
import asyncio
import json
import pickle
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from world import Call, Task, World

TRACE, STATE = "calls.jsonl", "state.pickle"
ADDING = {"cd", "mkdir", "touch"}
"""The tools that change something and destroy nothing, of those that need a path alone."""


def world_of(task: str, attack: str = "") -> World:
    source, *rest = task.split("/")
    if source == "dojo":
        from dojo import Dojo

        return Dojo(*rest, attack=attack)
    from gorilla import Gorilla

    return Gorilla(*rest)


def tasks() -> list[Task]:
    import dojo
    import gorilla

    return [*dojo.tasks(), *gorilla.tasks()]


class Record:
    """What happened in a world, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.trace, self.kept = folder / TRACE, folder / STATE

    def write(self, call: Call, state: Any) -> None:
        with self.trace.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(call)) + "\n")
        self.keep(state)

    def keep(self, state: Any) -> None:
        part = self.kept.with_suffix(".part")
        part.write_bytes(pickle.dumps(state))
        part.replace(self.kept)

    def read(self) -> tuple[Any, list[Call]]:
        lines = self.trace.read_text(encoding="utf-8").splitlines() if self.trace.exists() else []
        state = pickle.loads(self.kept.read_bytes())
        return state, [Call(**json.loads(line)) for line in lines]


async def serve(world: World, record: Record) -> None:
    """Serve the world's tools until the client goes away."""
    import mcp_types as types
    from mcp.server import Server
    from mcp.server.stdio import stdio_server

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=tool.schema,
                    annotations=types.ToolAnnotations(
                        read_only_hint=tool.reads,
                        destructive_hint=False if tool.name in ADDING else None,
                    ),
                )
                for tool in world.tools
            ]
        )

    async def call_tool(_context: Any, params: Any) -> types.CallToolResult:
        call = world.call(params.name, params.arguments or {})
        record.write(call, world.state)
        text = types.TextContent(type="text", text=call.text)
        return types.CallToolResult(content=[text], is_error=call.failed)

    record.keep(world.state)
    server: Server[Any] = Server("world", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def grade(world: World, record: Record, answer: str) -> dict[str, Any]:
    state, calls = record.read()
    attacked = getattr(world, "attacked", lambda *_: False)
    return {
        "why": world.done(state, calls, answer),
        "attacked": attacked(state, calls, answer),
        "calls": [asdict(call) for call in calls],
    }


def check() -> list[str]:
    """The tasks that pass when nothing is done, those that do not when the published calls are
    made, and the tools that are said to read and change something then."""
    wrong: set[str] = set()
    for task in tasks():
        world = world_of(task.id)
        if not world.done(world.state, [], "Done."):
            wrong.add(f"{task.id} passes when nothing is done")
        reads = {tool.name for tool in world.tools if tool.reads}
        made: list[Call] = []
        for call in task.truth:
            before = pickle.dumps(world.state)
            made.append(world.call(call.tool, call.arguments))
            if call.tool in reads and shown(pickle.loads(before)) != shown(world.state):
                wrong.add(f"{call.tool} is said to read, and changes something in {task.id}")
        if why := world.done(world.state, made, task.said):
            wrong.add(f"{task.id} does not pass with the published calls: {why}")
    return sorted(wrong)


LOGS = {"parent", "web_requests"}
"""Not compared: the way back from a file to its folder, and AgentDojo's log of who read a page."""


def shown(state: Any) -> str:
    """All that is in a state."""
    if isinstance(state, dict):
        return str({key: shown(each) for key, each in state.items() if key not in LOGS})
    if isinstance(state, list):
        return str([shown(each) for each in state])
    return shown(vars(state)) if hasattr(state, "__dict__") else repr(state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("list", "attacks", "serve", "grade", "check"))
    parser.add_argument("task", nargs="?", default="")
    parser.add_argument("--attack", default="")
    parser.add_argument("--record", type=Path)
    chosen = parser.parse_args()
    match chosen.command:
        case "list":
            print(json.dumps([asdict(task) for task in tasks()]))
        case "attacks":
            from dojo import attacks

            print(json.dumps(attacks(chosen.task)))
        case "serve":
            world = world_of(chosen.task, chosen.attack)
            asyncio.run(serve(world, Record(chosen.record)))
        case "grade":
            world = world_of(chosen.task, chosen.attack)
            print(json.dumps(grade(world, Record(chosen.record), sys.stdin.read())))
        case "check":
            wrong = check()
            print("\n".join(wrong) or "All is as it is said to be.")
            sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
