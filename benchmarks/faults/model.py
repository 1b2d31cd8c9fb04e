"""A model server for load: Ollama's wire format, fixed replies, a set time for each.

It notes when it had replied and when the next request of the same run came: what lies between is
the time the server under test took. It is a process of its own (`LoadModel`), since a hundred
clients in the same event loop would be measured as well.
"""

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import defaultdict
from typing import Any, Self

NAMES = ("qwen2.5-coder:0.5b", "qwen2.5-coder:1.5b")
RUN = re.compile(r"errand (\d+)")


class LoadModel:
    """The process, as a context manager."""

    def __init__(self, steps: int, seconds: float) -> None:
        command = [sys.executable, "-m", "benchmarks.faults.model", str(steps), str(seconds)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        self.host = self._process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def step_seconds(self) -> list[float]:
        """Ends the process. Of every step of all runs, the time that no model call took."""
        said, _ = self._process.communicate()
        return list(json.loads(said))


class _Model:
    """Leads every run through `steps` steps of one tool call each; `seconds` a reply, +-50 %."""

    def __init__(self, steps: int, seconds: float) -> None:
        self.steps, self.seconds = steps, seconds
        self.gaps: dict[str, list[float]] = defaultdict(list)
        """Of each run, the seconds of every step that its model calls did not take."""
        self._replied: dict[str, float] = {}
        self._random = random.Random(1)

    async def serve(self) -> None:
        """Until the standard input ends."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1024)
        print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        # A run's first gap is its start.
        print(json.dumps([gap for gaps in self.gaps.values() for gap in gaps[1:]]), flush=True)
        os._exit(0)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: (\d+)", head, re.I)
                body = await reader.readexactly(int(length[1])) if length else b""
                path = head.split()[1].decode()
                if path == "/api/chat":
                    reply = await self._chat(json.loads(body))
                elif path == "/api/version":
                    reply = {"version": "0.40.3"}
                else:
                    reply = {"models": [{"name": name, "model": name} for name in NAMES]}
                data = json.dumps(reply).encode() + b"\n"
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the server under test has hung up
        finally:
            writer.close()

    async def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
        arrived = time.perf_counter()
        run = RUN.search(body["messages"][1]["content"])
        name = run[1] if run else ""
        content = self._reply(body["format"], name)
        if name in self._replied:
            gap = arrived - self._replied[name]
            if "found_in" in content:  # a result was read: a step begins
                self.gaps[name].append(gap)
            elif self.gaps[name] and content.keys() & {"tool_calls", "text"}:  # else the run ends
                self.gaps[name][-1] += gap
        await asyncio.sleep(self.seconds * self._random.uniform(0.5, 1.5))
        self._replied[name] = time.perf_counter()
        return {
            "model": body["model"],
            "created_at": "2026-11-21T07:30:10Z",
            "message": {"role": "assistant", "content": json.dumps(content)},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": sum(len(m["content"]) for m in body["messages"]) // 4,
            "eval_count": 20,
        }

    def _reply(self, schema: dict[str, Any], name: str) -> dict[str, Any]:
        from replies import conclusion, found, move_on, nowhere, plan, second, words

        branches = schema.get("anyOf", [schema])
        fields = {field for branch in branches for field in branch.get("properties", {})}
        number = len(self.gaps[name])
        done = number > self.steps
        if "wants" in fields:
            return {"search": ["errand"], "wants": "short answer"}
        if "answer_again" in fields:
            return second("All is well.")
        if "lists" in fields:
            return {"lists": None, "reads": None}
        if fields == {"words"}:
            return words("errand", "chore")
        if "found_in" in fields:
            return found("All is well.") if done else nowhere()
        if "steps" in fields:
            return plan("say", objective=f"Say {number}")
        if fields == {"text"}:
            return {"text": f"Errand {name}: {number} done. " + "All is well. " * 40}
        if len(branches) > 1:
            return move_on("say", f"Say {number}")
        return conclusion("All is well.")


if __name__ == "__main__":
    asyncio.run(_Model(int(sys.argv[1]), float(sys.argv[2])).serve())
