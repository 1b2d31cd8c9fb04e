"""Servers that are killed at random, and what has to hold then.

`Kills` starts a real server over stdio, has it drive a few runs at once, ends it with SIGKILL and
starts the next one, which goes on with them. The models are a scripted Ollama that answers by what
it is shown; the upstream notes each call it gets, so that nothing done twice can hide.
"""

import json
import os
import random
import re
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import psutil
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from ollama_replies import Reply
from replies import conclusion, deep, found, nowhere, plan, stay, was_done
from scripted_ollama import Request, ScriptedOllama, usual_reply
from serving import Place, Progress, ignored

CALLS = 8
"""Of a whole run: number 3 and 5 write, and the last two are made side by side."""
LOOK_UPS = 3
"""Planned as what has to be looked up before the first that writes."""
RUN_SECONDS = 0.6
"""About what the runs of one server take; kills fall anywhere in it."""
ORPHAN_SECONDS = 3.0


def question(name: str) -> str:
    return f"Collect the notes of {name}, and note {name}_3 and {name}_5, please."


def answer(name: str) -> str:
    return f"The words are {name}_0, {name}_1 and {name}_2."


def entry(log: Path) -> dict[str, Any]:
    """The upstream in `upstreams.yaml`."""
    counting = Path(__file__).with_name("counting_upstream.py")
    arguments = [str(counting), str(log)]
    return {"command": "${PLANLOOM_PYTHON}", "args": arguments, "policy": "allow"}


def script(request: Request) -> Reply:
    """What the models say. It depends on the prompt alone, as it does at temperature 0."""
    name = re.findall(r"notes of (\w+)", request.prompt)[0]
    done = len(set(re.findall(r'\(\{"text":"(\w+)"\}\)', request.prompt)))
    properties = request.properties
    if "wants" in request.keys:
        return {"search": ["notes"], "wants": "action"}
    if "found_in" in properties:
        return found(answer(name)) if done >= CALLS else nowhere()
    if properties == {"final_answer", "missing", "tool"}:
        next_tool = "note" if done in (3, 5) else "find"
        missing = (f"No {done}", next_tool) if done < CALLS else ()
        return was_done(answer(name), *missing)
    if usual := usual_reply(properties, answer(name)):
        return usual
    if properties == {"text"}:
        asked = re.findall(r"No (\d)", request.last)
        return {"text": f"{name}_{asked[-1] if asked else 0}"}
    if "steps" in properties:
        if done:  # what the notes need was looked up
            return plan("note", objective=f"No {done}")
        looked_up = [{"objective": f"No {number}", "tool": "find"} for number in range(LOOK_UPS)]
        return {"steps": looked_up}
    if done >= CALLS or properties == {"assessment", "decision", "final_answer", "success"}:
        return conclusion(answer(name))
    shape = deep if "critique" in json.dumps(request.schema) else dict
    decision = stay("note" if done in (3, 5) else "find", f"No {done}")
    if done == CALLS - 2:
        decision["tool_calls"].append({"prompt": f"No {done + 1}", "tool": "find"})
    return shape(decision)


class ScriptedModels(ScriptedOllama):
    """Answers every request by `script`, second readings too."""

    def _take(self, request: Request) -> Reply:
        return script(request) if request.schema else "Yes"  # it was warmed up


@dataclass
class Kills:
    """Servers on one place, killed one after the other."""

    place: Place
    log: Path
    chance: random.Random
    at_once: int = 3
    runs: dict[str, str] = field(default_factory=dict)
    """The names of those that have not ended, by their ids."""
    answers: dict[str, tuple[str, str, list[str]]] = field(default_factory=dict)
    """By name: status, answer, warnings."""
    told: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The events that clients were told, by run id."""
    begun: int = 0
    kills: int = 0
    in_doubt: int = 0
    """Writes that were under way at a kill."""
    problems: list[str] = field(default_factory=list)
    orphans: int = 0
    _finished: dict[str, int] = field(default_factory=dict)
    """Calls on record at some kill, and how often each had been made."""
    _families: list[tuple[float, list[psutil.Process]]] = field(default_factory=list)

    async def kill_one(self) -> None:
        """One server: it resumes what was under way, begins more, and is killed."""
        async with self.server() as (client, process), anyio.create_task_group() as tasks:
            for run_id, name in list(self.runs.items()):
                tasks.start_soon(self.resume, client, run_id, name)
            for _ in range(self.at_once - len(self.runs)):
                self.begun += 1
                tasks.start_soon(self.begin, client, f"r{self.begun}")
            await anyio.sleep(self.chance.uniform(0, RUN_SECONDS))
            family = process.children(recursive=True)
            process.kill()
            self.kills += 1
            killed = time.monotonic()
        self.look()
        await self.count_orphans()
        self._families.append((killed, family))

    async def count_orphans(self) -> None:
        """Those of the servers killed before, which have had the time to end."""
        for killed, family in self._families:
            await anyio.sleep(max(0.0, killed + ORPHAN_SECONDS - time.monotonic()))
            left = [each for each in family if each.is_running()]
            self.orphans += len(left)
            for each in left:
                each.kill()
        self._families.clear()

    async def finish(self) -> None:
        """One server that is left alone, until every run has ended."""
        await self.count_orphans()
        async with self.server() as (client, _), anyio.create_task_group() as tasks:
            for run_id, name in list(self.runs.items()):
                tasks.start_soon(self.resume, client, run_id, name)
        self.look()
        self.check()

    @asynccontextmanager
    async def server(self) -> AsyncIterator[tuple[Client[Any], psutil.Process]]:
        environ = {**os.environ, **self.place.environ, "PYTHONHASHSEED": "random"}
        environ["FASTMCP_LOG_LEVEL"] = "WARNING"
        command, *arguments = self.place.command("serve")
        transport = StdioTransport(command, arguments, env=environ, keep_alive=False)
        before = {child.pid for child in psutil.Process().children()}
        seen = Progress()
        client: Client[Any] = Client(transport, message_handler=seen)
        with suppress(Exception):  # the connection is lost when the server is killed
            await client.__aenter__()  # type: ignore[no-untyped-call]
            (process,) = [p for p in psutil.Process().children() if p.pid not in before]
            await client.call_tool("list_tools")  # the upstream is up
            yield client, process
        with suppress(Exception):
            await client.close()  # type: ignore[no-untyped-call]
        for meta in seen.meta:
            event = meta.get("planloom/event")
            if event and event["type"] != "answer_delta":  # a draft; the reply is on record
                self.told.setdefault(meta["planloom/run_id"], []).append(event)

    async def begin(self, client: Client[Any], name: str) -> None:
        arguments = {"prompt": question(name), "wait_s": 0, "request_key": name}
        arguments |= {"policy": "allow"}
        started = await self.call(client, "plan_and_answer", arguments)
        if started is None:  # whether it began is not known: the key tells
            self.runs[f"key {name}"] = name
        else:
            self.runs[started["run_id"]] = name
            await self.resume(client, started["run_id"], name)

    async def resume(self, client: Client[Any], run_id: str, name: str) -> None:
        arguments: dict[str, Any] = {"run_id": run_id, "prompt": question(name)}
        if run_id.startswith("key "):
            arguments = {"prompt": question(name), "request_key": name, "policy": "allow"}
        report = await self.call(client, "plan_and_answer", arguments)
        if report is not None:
            del self.runs[run_id]
            self.answers[name] = report["status"], report["answer"], report.get("warnings", [])
            if report.get("reason"):
                self.problems.append(f"{name}: {report['reason']}")

    async def call(
        self, client: Client[Any], tool: str, arguments: dict[str, Any]
    ) -> dict[str, Any] | None:
        """The report, or None when the server was killed meanwhile."""
        try:
            result = await client.call_tool(
                tool, arguments, progress_handler=ignored, raise_on_error=False
            )
        except Exception:  # noqa: BLE001  whatever a lost connection raises
            return None
        if result.structured_content is None:
            self.problems.append(f"{tool} {arguments}: {result.content}")
        return result.structured_content

    def look(self) -> None:
        """What the journal and the upstream's log say after a kill."""
        made = self.made()
        with closing(sqlite3.connect(self.place.journal)) as db:
            if (ok := db.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
                self.problems.append(f"integrity_check: {ok}")
            rows = db.execute("SELECT run, kind, data FROM entry ORDER BY run, seq").fetchall()
        recorded: dict[str, list[dict[str, Any]]] = {}
        for run, kind, data in rows:
            if kind == "event":
                recorded.setdefault(run, []).append(json.loads(data))
        for run, events in self.told.items():
            known = [(event["type"], event["at"]) for event in recorded.get(run, [])]
            lost = [event for event in events if (event["type"], event["at"]) not in known]
            self.problems += [f"{run} lost {event['type']}" for event in lost]
        self.told.clear()
        for events in recorded.values():
            for event in events:
                if event["type"] == "tool_returned" and event["outcome"] == "SUCCESS":
                    call = f"{event['tool']} {event['arguments']['text']}"
                    self._finished.setdefault(call, made[f"begin {call}"])

    def check(self) -> None:
        """What has to hold in the end."""
        made = self.made()
        for line, count in made.items():
            if line.startswith("begin note") and count > 1:
                self.problems.append(f"{line}: {count} times")
        for call, count in self._finished.items():
            if made[f"begin {call}"] != count:
                self.problems.append(f"{call} was finished and made again")
        for number in range(1, self.begun + 1):
            name = f"r{number}"
            status, said, warnings = self.answers.get(name, ("missing", "", []))
            self.in_doubt += len(warnings)
            if (status, said.rpartition("\n")[2]) != ("answered", answer(name)):
                self.problems.append(f"{name}: {status}: {said}")
            for word in (3, 5):
                done = made[f"begin note {name}_{word}"]
                doubtful = any(f"{name}_{word}" in warning for warning in warnings)
                if not done and not doubtful:
                    self.problems.append(f"{name}_{word} was not written, and nobody says so")

    def made(self) -> Counter[str]:
        """How often each call was begun, and each was ended: `begin note r1_3`."""
        return Counter(self.log.read_text().splitlines()) if self.log.exists() else Counter()
