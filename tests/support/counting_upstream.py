"""An MCP server that notes each call in a file, with a tool that reads and one that writes.

By hand: a library would take a second to start, for each server that is killed.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    log = Path(sys.argv[1])
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    tools = [
        {"name": "find", "inputSchema": schema, "annotations": {"readOnlyHint": True}},
        {
            "name": "note",
            "inputSchema": schema,
            "annotations": {"readOnlyHint": False, "destructiveHint": False},
        },
    ]
    for line in sys.stdin:
        request = json.loads(line)
        match request["method"]:
            case "initialize":
                version = request["params"]["protocolVersion"]
                info = {"name": "counting", "version": "1"}
                result = {"protocolVersion": version, "capabilities": {"tools": {}}}
                result["serverInfo"] = info
            case "tools/list":
                result = {"tools": tools}
            case "tools/call":
                call = request["params"]
                what = f"{call['name']} {call['arguments']['text']}"
                for when in ("begin", "end"):
                    with log.open("a") as stream:
                        stream.write(f"{when} {what}\n")
                    time.sleep(0.01)
                result = {"content": [{"type": "text", "text": f"done {what}"}]}
            case _:
                result = {}
        if "id" in request:
            reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
            if result:
                reply["result"] = result
            else:
                reply["error"] = {"code": -32601, "message": "Method not found"}
            print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
