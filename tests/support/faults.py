"""The catalogue of faults: what is broken, and what a caller shall see of it.

`tests/test_faults.py` injects each of them in memory, `python -m benchmarks.faults` on every face
and with the time it takes.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ollama_replies import Answer, Drop, ErrorLine, Garbage, Hang, HttpError, NoEnd, Reply
from planted import ANSWER, CLASS, QUESTION
from replies import conclusion, found
from scripted_ollama import FAST, Request, ScriptedOllama
from serving import Called, Place, text

FAULTY = Path(__file__).with_name("faulty_upstream.py")
SHORT = 0.5
"""Seconds: the time limit of what hangs."""


def faulty(start: str = "", **options: Any) -> dict[str, Any]:
    """The entry of a faulty upstream in `upstreams.yaml`."""
    command = {"command": sys.executable, "args": [str(FAULTY), *filter(None, [start])]}
    return command | options


class Absent:
    """A model server that is not there."""

    host = "127.0.0.1:1"


@dataclass(frozen=True)
class Fault:
    """What is broken, what is called then, and what the caller sees, as a regular expression."""

    name: str
    sees: str
    replies: tuple[Reply, ...] = ()
    """What the model server says before it answers as it should."""
    upstreams: dict[str, Any] = field(default_factory=dict)
    """Besides the one over the project's files."""
    call: str = "plan_and_answer"
    arguments: dict[str, Any] = field(default_factory=lambda: {"prompt": QUESTION})
    models: Callable[[], Any] | None = None
    """The model server, if it is another one."""

    def arrange(self, place: Place) -> None:
        for reply in self.replies:
            place.ollama.expect(reply)
        place.upstreams |= self.upstreams


def of_model(name: str, sees: str, *replies: Reply, **options: Any) -> Fault:
    return Fault(name, sees, replies, **options)


def of_tool(name: str, sees: str, tool: str, **options: Any) -> Fault:
    upstreams = {"up": faulty(error_texts=["Error"], allow=[tool], **options)}
    arguments = {"prompt": "Do it", "tool": f"up.{tool}", "arguments": {}}
    return Fault(name, sees, upstreams=upstreams, call="run_step", arguments=arguments)


def of_start(name: str, why: str, upstream: dict[str, Any]) -> Fault:
    """Another upstream fails to start, again and again; the question is answered all the same."""
    return Fault(
        name, f"answered: up is (failed|starting): {why}", (found(ANSWER),), {"up": upstream}
    )


def obliging(request: Request) -> Reply:
    """What a model says that has nothing else to do."""
    return conclusion("That is what there is.", success=False)


def seen(result: Called) -> str:
    """What a caller saw, in one line."""
    report = result.whole
    if report is None:
        return "error: " + " ".join(text(result).split())
    calls = [call for action in report["actions"] for call in action["tool_calls"]]
    parts = [report["status"], report["reason"] or ""]
    if any(call["upstream"] == "up" for call in calls):
        parts = [report["status"], calls[-1]["outcome"], calls[-1]["result"]]
    parts += [
        f"{each['name']} is {each['state']}: {each['error']}"
        for each in report["upstreams"]
        if each["error"]
    ]
    return ": ".join(" ".join(part.split()) for part in parts if part)


GONE = r"partial: The connection to Ollama at \S+ broke while"
CUT = r"ERROR: up answered \w+, but its answer is longer than 8 MiB, and was not read; ask for less"
UNREAD = r"ERROR: up answered \w+, but its answer cannot be read: it is not a JSON-RPC message"

MODEL_FAULTS = [
    of_model(
        "model server absent",
        r"error: Ollama does not answer at \S+; start it with `ollama serve`",
        models=Absent,
    ),
    of_model(
        "model missing",
        r"error: Ollama at \S+ does not have the model .*; run `ollama pull",
        models=lambda: ScriptedOllama(models=[FAST]),
    ),
    of_model("model server dies in mid-stream", GONE, Drop(after='{"final_')),
    of_model(
        "stream ends without its last record, twice",
        r"partial: \S+ twice gave a reply that is not the JSON it was asked for",
        NoEnd(after='{"final_'),
        NoEnd(after='{"final_'),
    ),
    of_model(
        "error within the stream",
        r"partial: Ollama at \S+ failed on `\S+` \(while it was answering\): out of luck",
        ErrorLine("out of luck", after='{"final_'),
    ),
    of_model(
        "model server sends what is no JSON",
        r"partial: What answers at \S+ does not speak Ollama's protocol",
        Garbage(),
    ),
    of_model(
        "model server hangs",
        r"(partial|failed): the time limit of 2 s was reached",
        Hang(),
        arguments={"prompt": QUESTION, "max_seconds": 2},
    ),
    of_model(
        "model server hangs to the end",
        r"(partial|failed): the time limit of 2 s was reached",
        Hang(),
        Hang(),
        arguments={"prompt": QUESTION, "max_seconds": 2},
    ),
    of_model(
        "reply that is not the JSON asked for, twice",
        r"partial: \S+ twice gave a reply that is not the JSON it was asked for",
        Answer("Surely!", unconstrained=True),
        Answer("Surely!", unconstrained=True),
    ),
    of_model(
        "empty reply, twice",
        r"partial: \S+ twice gave a reply that is not the JSON it was asked for",
        Answer("", unconstrained=True),
        Answer("", unconstrained=True),
    ),
    of_model(
        "prompt longer than the context",
        r"failed: The request does not fit the 8192 tokens of \S+ .* Shorten it, or raise num_ctx",
        arguments={"prompt": "word " * 100_000},
    ),
    of_model(
        "model server cuts the prompt silently",
        r"partial: Ollama at \S+ cut the prompt for `\S+`: it read 1 tokens of at least",
        *[Answer(found(ANSWER), fields={"prompt_eval_count": 1})] * 5,
        arguments={"prompt": f"What is {CLASS}? " + "It is in some file of the project. " * 300},
    ),
    of_model(
        "model server busy (503)",
        r"partial: Ollama at \S+ is busy: .*Try again when other requests have ended",
        HttpError(503, "server busy, please try again.  maximum pending requests exceeded"),
    ),
]

UPSTREAM_FAULTS = [
    of_start(
        "upstream absent",
        r"no-such-command: No such file or directory; install it",
        {"command": "no-such-command"},
    ),
    of_start(
        "upstream ends while it starts",
        r"it ended while it started .* cannot start",
        faulty("exits"),
    ),
    Fault(  # the answer does not wait for it, so that it may not have failed yet
        "upstream hangs while it starts",
        r"^answered(: up is (failed|starting): it did not answer within 0.5 s|$)",
        (found(ANSWER),),
        {"up": faulty("hangs", start_timeout_s=SHORT)},
    ),
    of_start(
        "tool list that is none",
        r"its tool list is not valid: Field required",
        faulty("bad_list"),
    ),
    of_tool("upstream slow", "SUCCESS: better late than never", "slow"),
    of_tool("upstream dies in mid-call", "ERROR: up was lost during die: .*the last words", "die"),
    of_tool("upstream dies within an answer", "ERROR: up was lost during half", "half"),
    of_tool(
        "upstream hangs",
        r"TIMEOUT: never did not end within 0.5 s; ask it for less",
        "never",
        call_timeout_s=SHORT,
    ),
    of_tool(
        "answer to another request",
        "TIMEOUT: wrong_id did not end",
        "wrong_id",
        call_timeout_s=SHORT,
    ),
    of_tool("answer of 50 MiB", CUT, "flood"),
    of_tool("answer of 50 MiB, its id at the end", CUT, "flood_id_last"),
    of_tool(
        "line without an end",
        r"ERROR: up was lost during endless: it printed 64 MiB without the end of a line",
        "endless",
    ),
    of_tool("one byte that is no UTF-8", "SUCCESS: caf\ufffd found in menu.txt", "bad_byte"),
    of_tool("half a surrogate pair", r"SUCCESS: half \? found in pairs.txt", "surrogate"),
    of_tool("answer 5,000 levels deep", UNREAD, "deep"),
    of_tool("answer with neither result nor error", UNREAD, "neither"),
    of_tool("result of a wrong shape", "ERROR: .*its answer is not a tool result", "shape"),
    of_tool(
        "content of an unknown kind", "ERROR: .*its answer is not a tool result", "unknown_content"
    ),
    of_tool("rubbish on stdout", "SUCCESS: after the rubbish", "rubbish"),
    of_tool("error marked as success", "FAILURE: Error: the index is corrupt", "calls_it_success"),
    of_tool("schema with a cycle of $ref", "SUCCESS: fine", "cyclic"),
    of_tool("20,000 progress notifications", "SUCCESS: after 20,000 notifications", "spam"),
    of_tool("20 MiB on stderr", "SUCCESS: after 20 MiB of complaints", "noise"),
    of_tool("upstream asks for a model", "SUCCESS: .* was told: Sampling is not supported", "asks"),
]
CATALOGUE = MODEL_FAULTS + UPSTREAM_FAULTS
