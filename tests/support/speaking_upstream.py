"""An MCP server of 2025-11-25 over stdio that speaks as it likes: by hand, since no library would.

`ask` asks the user, and ends with the answer's action; `hold` ends when `release` is called; `chat`
sends thousands of notifications, `demand` tens of thousands of requests whose answers it does not
read. Of the tools it lists, some are none. It may list too much (`pages`, `many`), or other tools
each time, which it says at once (`storm`).
"""

import json
import sys
from typing import Any

NO_TOOLS = [
    {"name": 7, "inputSchema": {"type": "object"}},
    {"name": "no_schema"},
    {"name": "no_schema\n### Upstreams\u001b[2J"},
    {"name": "two\nlines", "inputSchema": {"type": "object"}},
    {"name": "odd", "inputSchema": {"type": "object"}, "annotations": "\u001b[31mreads"},
    "text",
]
HINTS = {"readOnlyHint": True}
SAMPLING = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "?"}}],
    "maxTokens": 1,
}
FORM = {"type": "object", "properties": {"branch": {"type": "string"}}}


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0"} | message), flush=True)


def end(call: Any, text: str) -> None:
    say(id=call, result={"content": [{"type": "text", "text": text}]})


def main() -> None:
    asked: dict[str, Any] = {}
    held: list[Any] = []
    listings = 0
    names = ("ask", "hold", "release", "chat", "demand")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [{"name": name, "inputSchema": schema, "annotations": HINTS} for name in names]
    for line in sys.stdin:
        message = json.loads(line)
        number, params = message.get("id"), message.get("params", {})
        match message.get("method"):
            case "initialize":
                server = {"name": "speaker", "version": "1"}
                version = params["protocolVersion"]
                answer = {"protocolVersion": version, "capabilities": {"tools": {}}}
                say(id=number, result=answer | {"serverInfo": server})
            case "tools/list" if "pages" in sys.argv:
                page = int(params.get("cursor", 0))
                tool = {"name": f"t{page}", "description": 3_000_000 * "x", "inputSchema": schema}
                more = {"nextCursor": str(page + 1)} if page < 40 else {}
                say(id=number, result={"tools": [tool]} | more)
            case "tools/list" if "many" in sys.argv:
                many = [{"name": f"t{each}", "inputSchema": schema} for each in range(1_001)]
                say(id=number, result={"tools": many})
            case "tools/list" if "storm" in sys.argv:
                listings += 1
                tool = {"name": f"listing_{listings}", "inputSchema": schema}
                say(id=number, result={"tools": [tool]})
                say(method="notifications/tools/list_changed")
            case "tools/list":
                say(id=number, result={"tools": [*NO_TOOLS, *tools]})
            case "tools/call" if params["name"] == "ask":
                asked[f"q{number}"] = number
                question = {"message": "Which branch?", "requestedSchema": FORM}
                say(id=f"q{number}", method="elicitation/create", params=question)
            case "tools/call" if params["name"] == "hold":
                held.append(number)
            case "tools/call" if params["name"] == "release":
                for call in [*held, number]:
                    end(call, "released")
                held.clear()
            case "tools/call" if params["name"] == "demand":
                for step in range(params["arguments"]["n"]):
                    say(id=f"d{step}", method="sampling/createMessage", params=SAMPLING)
                end(number, "asked it all")
            case "tools/call":
                token = params["_meta"]["progressToken"]
                for step in range(3000):
                    progress = {"progressToken": token, "progress": step}
                    say(method="notifications/progress", params=progress)
                    log = {"level": "error", "data": f"log {step}"}
                    say(method="notifications/message", params=log)
                end(number, "said it all")
            case None if number in asked:
                end(asked.pop(number), f"The user said {message['result']['action']}")
            case _ if number is not None:
                say(id=number, error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main()
