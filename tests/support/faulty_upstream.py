"""An upstream in plain bytes, for what no MCP library sends: `faulty_upstream.py [START]`.

Each tool is a fault; START is one that happens before the first answer.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

MIB = 2**20


def send(raw: bytes) -> None:
    sys.stdout.buffer.write(raw + b"\n")
    sys.stdout.buffer.flush()


def answer(number: Any, result: Any) -> None:
    send(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode())


def text(number: Any, said: str) -> None:
    answer(number, {"content": [{"type": "text", "text": said}]})


def raw_text(number: Any, said: bytes) -> None:
    """An answer with these bytes between the quotes of its text."""
    head = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % number
    send(head + said + b'"}]}}')


def bad_byte(number: Any) -> None:
    raw_text(number, b"caf\xe9 found in menu.txt")


def surrogate(number: Any) -> None:
    raw_text(number, b"half \\ud800 found in pairs.txt")


def deep(number: Any) -> None:
    nested = b"[" * 5000 + b"]" * 5000
    send(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"x":%s}}' % (number, nested))


def flood(number: Any) -> None:
    raw_text(number, b"x" * 50 * MIB)


def flood_id_last(number: Any) -> None:
    body = b'{"result":{"content":[{"type":"text","text":"' + b"x" * 50 * MIB
    send(body + b'"}]},"jsonrpc":"2.0","id":%d}' % number)


def endless(number: Any) -> None:
    while True:
        sys.stdout.buffer.write(b"x" * MIB)


def shape(number: Any) -> None:
    answer(number, {"content": "not a list"})


def unknown_content(number: Any) -> None:
    answer(number, {"content": [{"type": "hologram", "data": "x"}]})


def neither(number: Any) -> None:
    send(b'{"jsonrpc":"2.0","id":%d}' % number)


def rubbish(number: Any) -> None:
    send(b"DEBUG: got a call\n\x1b[31m{not json}\n[1, 2]\n\xff\xfe")
    text(number, "after the rubbish")


def wrong_id(number: Any) -> None:
    text(number + 1000, "for somebody else")


def never(number: Any) -> None:
    """No answer."""


def die(number: Any) -> None:
    print("the last words", file=sys.stderr, flush=True)
    os._exit(3)


def half(number: Any) -> None:
    sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[' % number)
    sys.stdout.buffer.flush()
    os._exit(3)


def slow(number: Any) -> None:
    time.sleep(0.2)
    text(number, "better late than never")


def calls_it_success(number: Any) -> None:
    text(number, "Error: the index is corrupt")


def spam(number: Any) -> None:
    token = {"progressToken": number, "progress": 1}
    line = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": token})
    sys.stdout.buffer.write(f"{line}\n".encode() * 20_000)
    text(number, "after 20,000 notifications")


def asks(number: Any) -> None:
    params = {"messages": [], "maxTokens": 10}
    request = {"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": params}
    send(json.dumps(request).encode())
    refusal = json.loads(sys.stdin.buffer.readline())
    text(number, f"asked for a model and was told: {refusal['error']['message']}")


def noise(number: Any) -> None:
    for _ in range(20):
        sys.stderr.write("e" * MIB)
    sys.stderr.flush()
    text(number, "after 20 MiB of complaints")


def says(number: Any, line: str) -> None:
    """The line it is told to say, base64, with the request's id in the place of `"@ID@"`; then the
    answer, which is one too many if the line was it."""
    send(base64.b64decode(line).replace(b'"@ID@"', str(number).encode()))
    text(number, "after what was to be said")


def deaf(number: Any) -> None:
    """Answers, and never reads again."""
    text(number, "that was my last")
    time.sleep(3600)


TOOLS: dict[str, Callable[[Any], None]] = {
    tool.__name__: tool
    for tool in (
        *(bad_byte, surrogate, deep, flood, flood_id_last, endless, shape, unknown_content),
        *(neither, rubbish, wrong_id, never, die, half, slow, calls_it_success, spam, asks, noise),
        deaf,
    )
}
CYCLIC = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/a"}},
    "$defs": {
        "a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "null"}]},
        "b": {"$ref": "#/$defs/a"},
    },
}

SAYS = {"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]}


def listed() -> list[dict[str, Any]]:
    plain = {"inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    tools = [{"name": name, "description": f"Does {name}."} | plain for name in TOOLS]
    return [
        *tools,
        {"name": "cyclic", **plain, "inputSchema": CYCLIC},
        {"name": "says", **plain, "inputSchema": SAYS},
    ]


def main() -> None:
    start = sys.argv[1] if len(sys.argv) > 1 else ""
    if start == "stubborn":  # it ends neither with its input nor on a signal, nor does its child
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    if start == "exits":
        sys.exit("cannot start")
    if start == "hangs":
        time.sleep(3600)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        if number is None or method is None:
            continue
        if method == "initialize":
            server = {"name": "faulty", "version": "1"}
            version = message["params"]["protocolVersion"]
            capabilities: dict[str, Any] = {"tools": {}}
            answer(
                number,
                {"protocolVersion": version, "capabilities": capabilities, "serverInfo": server},
            )
        elif method == "tools/list" and start == "bad_list":
            answer(number, {"tools": [{"name": 7}]})
        elif method == "tools/list":
            answer(number, {"tools": listed()})
        elif method == "tools/call" and message["params"]["name"] == "says":
            says(number, **message["params"]["arguments"])
        elif method == "tools/call":
            name = message["params"]["name"]
            TOOLS.get(name, lambda n: text(n, "fine"))(number)
        else:
            error = {"code": -32601, "message": "no such method"}
            send(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode())
    if start == "stubborn":
        time.sleep(3600)


if __name__ == "__main__":
    main()
