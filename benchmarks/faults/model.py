"""A model server for load: Ollama's wire format, fixed replies, a set time for each.

It runs in the event loop of whoever measures, and notes when it had replied and when the next
request of the same run came. What lies between is the time the server under test took.
"""

import asyncio
import json
import random
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

NAMES = ("qwen2.5-coder:0.5b", "qwen2.5-coder:1.5b")
RUN = re.compile(r"errand (\d+)")


class LoadModel:
    """Leads every run through `steps` steps of one tool call each; `seconds` a reply, +-50 %."""

    def __init__(self, steps: int, seconds: float) -> None:
        self.steps, self.seconds = steps, seconds
        self.host = ""
        self.gaps: dict[str, list[float]] = defaultdict(list)
        """Of each run, the seconds of every step that its model calls did not take."""
        self._replied: dict[str, float] = {}
        self._random = random.Random(1)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["LoadModel"]:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1024)
        self.host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self

    def step_seconds(self) -> list[float]:
        """Sorted, of all steps of all runs; a run's first gap is its start."""
        return sorted(gap for gaps in self.gaps.values() for gap in gaps[1:])

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
            pass
        finally:
            writer.close()

    async def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
        arrived = time.perf_counter()
        run = RUN.search(body["messages"][1]["content"])
        name = run[1] if run else ""
        content = self._reply(body["format"], name)
        if name in self._replied:
            gap = arrived - self._replied[name]
            if "text" in content or not self.gaps[name]:  # arguments: a step begins
                self.gaps[name].append(gap)
            else:
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
        from serving import conclusion, found, move_on, nowhere, plan, second

        fields = schema.get("properties", {})
        done = len(self.gaps[name]) > self.steps
        if "a_line" in fields:
            return second("It is over.")
        if "words" in fields:
            return {"words": ["errand"]}
        if "tool" in fields and "prompt" not in fields:
            return {"tool": "say"}
        if "text" in fields:
            return {"text": f"Errand {name}: {len(self.gaps[name])} done. " + "All is well. " * 40}
        if "found_in" in fields:
            return found("All is well.") if done else nowhere()
        if "main_objective" in fields:
            return plan("say", prompt="Say it")
        if "anyOf" in schema:
            return move_on("say", f"Say {len(self.gaps[name])}")
        return conclusion("All is well.")
