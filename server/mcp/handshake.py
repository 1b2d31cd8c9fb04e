"""What the server says about itself, which can be sent before the server is imported.

Hosts wait a few seconds for it, and FastMCP alone takes longer to import on a busy machine, so only
the standard library is used here. The server answers the same; a test holds the two together.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Any

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The protocols that begin with `initialize`, the newest last."""
MODERN = ("2026-07-28",)
"""Those that begin with `server/discover`, or with nothing."""
META = "io.modelcontextprotocol/"

ABILITIES = (
    "Right about half of the time with models of 1.5B parameters: where something is, what a name "
    "stands for, a value, a setting, a file. Check the answer: explanations, comparisons, "
    "summaries, lists; they contain about half of the facts. Review the diff: changes of existing "
    "files. Check the query: counts, sums, the largest or newest of a list that a tool returns. Do "
    "not rely on it yet: chains over several files, counting in code, finding bugs, and tasks in "
    "other tools."
)
"""What may be asked, in short, as the table in docs/ask.md has it."""


def instructions(project: Path) -> str:
    return f"""\
Planloom answers questions about the project in {project} by planning and running tools (code \
search, symbols, files, library documentation) with small local models; tools that may change \
something need the user's approval, unless the operator allows them without asking. Ask \
plan_and_answer one complete question. When its status is "running", follow the run with get_run.

{ABILITIES}"""


def first_answer(message: Any, project: Path) -> dict[str, Any] | None:
    """The answer to a request that opens a connection; None for other or invalid messages."""
    result: dict[str, Any]
    match message:
        case {
            "id": int() | str() as number,
            "method": "initialize",
            "params": {
                "protocolVersion": str() as asked,
                "capabilities": dict(),
                "clientInfo": {"name": str(), "version": str()},
            },
        }:
            agreed = asked if asked in LEGACY else LEGACY[-1]
            result = {
                "protocolVersion": agreed,
                "capabilities": _capabilities(changing=True),
                "serverInfo": _server(),
                "instructions": instructions(project),
            }
        case {
            "id": int() | str() as number,
            "method": "server/discover",
            "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": asked}},
        } if asked in MODERN:
            result = {
                "_meta": {f"{META}serverInfo": _server()},
                "ttlMs": 0,
                "cacheScope": "private",
                "supportedVersions": list(MODERN),
                "capabilities": _capabilities(changing=False)
                | {"extensions": {f"{META}ui": {}, f"{META}tasks": {}}},
                "instructions": instructions(project),
                "resultType": "complete",
            }
        case _:
            return None
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _server() -> dict[str, str]:
    return {"name": "planloom", "version": version("planloom")}


def _capabilities(*, changing: bool) -> dict[str, Any]:
    """`changing`: whether there are notifications when a list has changed."""
    return {
        "logging": {},
        "prompts": {"listChanged": changing},
        "resources": {"subscribe": False, "listChanged": changing},
        "tools": {"listChanged": changing},
        "completions": {},
    }
