"""A Context7 that answers from recorded documentation: its tools, schemas and formats, no network.

Started by path as an upstream on stdio: `python benchmarks/eval/context7.py`. What is recorded, and
how, stands in `recording.py`.
"""

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from fastmcp import FastMCP
from fastmcp.tools import Tool, ToolResult
from mcp_types import ToolAnnotations
from rapidfuzz import fuzz

HERE = Path(__file__).parent
SCHEMAS = HERE.parents[1] / "tests" / "data" / "upstreams" / "context7.json"
"""As the real one lists its tools."""
LIBRARIES: list[dict[str, Any]] = json.loads((HERE / "context7.json").read_text("utf-8"))
MAX_LIBRARIES = 5
MAX_SNIPPETS = 6
LIKE = 55.0
"""How much a library's name has to be like the one looked for, of 100."""
NO_LIBRARY = "No libraries found matching the provided name."
NO_DOCS = (
    "Documentation not found or not finalized for this library. This might have happened because "
    "you used an invalid Context7-compatible library ID. To get a valid Context7-compatible "
    "library ID, use the 'resolve-library-id' with the package name you wish to retrieve "
    "documentation for."
)


def resolve(name: str) -> str:
    """The libraries whose name is like this one, most alike first, as Context7 lists them."""
    wanted = name.lower().strip()

    def likeness(library: dict[str, Any]) -> float:
        names = (library["title"].lower(), library["id"].rpartition("/")[2].lower())
        return max(fuzz.ratio(wanted, each) for each in names)

    found = sorted((each for each in LIBRARIES if likeness(each) >= LIKE), key=likeness)
    if not found:
        return NO_LIBRARY
    shown = [
        f"- Title: {each['title']}\n"
        f"- Context7-compatible library ID: {each['id']}\n"
        f"- Description: {each['description']}\n"
        f"- Code Snippets: {len(each['snippets'])}\n"
        f"- Source Reputation: High\n"
        f"- Versions: v{each['version']}"
        for each in found[::-1][:MAX_LIBRARIES]
    ]
    return "Available Libraries:\n\n" + "\n----------\n".join(shown)


def docs(library_id: str, query: str) -> str:
    """The snippets that hold the rarest words of the query most often."""
    parts = library_id.strip().strip("/").split("/")
    wanted = "/" + "/".join(parts[:2])
    library = next((each for each in LIBRARIES if each["id"].lower() == wanted.lower()), None)
    if library is None:
        return NO_DOCS
    snippets = library["snippets"]
    bags = [Counter(_words(f"{s['title']} {s['title']} {s['text']}")) for s in snippets]
    spread = Counter(word for bag in bags for word in bag)
    words = set(_words(query)) & set(spread)

    def score(bag: Counter[str]) -> float:
        length = math.sqrt(sum(bag.values()))
        return sum(
            math.log(1 + len(bags) / spread[word]) * bag[word] / (bag[word] + length / 10)
            for word in words
        )

    order = sorted(range(len(bags)), key=lambda index: -score(bags[index]))[:MAX_SNIPPETS]
    return "\n\n--------------------------------\n\n".join(
        f"### {snippets[i]['title']}\n\nSource: {snippets[i]['source']}\n\n{snippets[i]['text']}"
        for i in order
    )


def _words(text: str) -> list[str]:
    """Lower-case words, and the parts of names written in camel case or with underscores."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return [re.sub(r"(?:ing|ed|es|s)$", "", word) for word in re.findall(r"[^\W_]+", split.lower())]


class Recorded(Tool):
    """A tool with the real one's name, text, schema and annotations."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        if self.name == "query-docs":
            return ToolResult(docs(arguments["libraryId"], arguments["query"]))
        return ToolResult(resolve(arguments["libraryName"]))


def main() -> None:
    server = FastMCP("Context7")
    for each in json.loads(SCHEMAS.read_text("utf-8")):
        server.add_tool(
            Recorded(
                name=each["name"],
                title=each["title"],
                description=each["description"],
                parameters=each["inputSchema"],
                annotations=ToolAnnotations(**each["annotations"]),
            )
        )
    server.run(show_banner=False)


if __name__ == "__main__":
    main()
