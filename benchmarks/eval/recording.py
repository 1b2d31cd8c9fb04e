"""Record the documentation that the `docs` family asks: `python -m benchmarks.eval.recording`.

Of packages that ship their documentation as Markdown and permit its copying (the licence stands
beside each), split at headings as Context7 splits what it indexes. Writes `context7.json`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from platformdirs import user_cache_path

from benchmarks.eval.packages import Package

RECORDED = Path(__file__).with_name("context7.json")
MAX_SNIPPET_CHARS = 2500
"""Characters of a snippet; Context7's are short too."""


@dataclass(frozen=True)
class Library:
    """What Context7 says of a library, and the package whose documentation is recorded."""

    id: str
    title: str
    description: str
    licence: str
    package: Package


LIBRARIES = (
    Library(
        "/pallets/click",
        "Click",
        "Python composable command line interface toolkit",
        "BSD-3-Clause",
        Package(
            "pypi",
            "click",
            "8.3.1",
            tuple(
                f"docs/{name}.md"
                for name in ("options", "prompts", "testing", "parameter-types")
            ),
        ),
    ),
    Library(
        "/tj/commander.js",
        "Commander.js",
        "The complete solution for node.js command-line interfaces",
        "MIT",
        Package("npm", "commander", "14.0.2", ("Readme.md",)),
    ),
    Library(
        "/python-attrs/attrs",
        "attrs",
        "Python classes without boilerplate",
        "MIT",
        Package("pypi", "attrs", "25.4.0", ("docs/init.md", "docs/hashing.md")),
    ),
    Library(
        "/hynek/structlog",
        "structlog",
        "Simple, powerful, and fast logging for Python",
        "MIT OR Apache-2.0",
        Package(
            "pypi",
            "structlog",
            "25.5.0",
            tuple(
                f"docs/{name}.md"
                for name in ("configuration", "contextvars", "console-output", "processors",
                             "testing", "exceptions")
            ),
        ),
    ),
    Library(
        "/fastify/fastify",
        "Fastify",
        "Fast and low overhead web framework, for Node.js",
        "MIT",
        Package(
            "npm", "fastify", "5.6.2", ("docs/Reference/Server.md", "docs/Reference/Hooks.md")
        ),
    ),
    Library(
        "/motdotla/dotenv",
        "dotenv",
        "Loads environment variables from .env for Node.js projects",
        "BSD-2-Clause",
        Package("npm", "dotenv", "17.2.3", ("README.md",)),
    ),
)  # fmt: skip


def main() -> None:
    cache = user_cache_path("planloom") / "eval"
    recorded = [_recorded(library, cache) for library in LIBRARIES]
    text = json.dumps(recorded, indent=1, ensure_ascii=False)
    RECORDED.write_text(text + "\n", encoding="utf-8")
    print(f"{len(text) / 1000:.0f} kB: {', '.join(each['title'] for each in recorded)}")


def _recorded(library: Library, cache: Path) -> dict[str, Any]:
    return {
        "id": library.id,
        "title": library.title,
        "description": library.description,
        "licence": library.licence,
        "version": library.package.version,
        "snippets": [
            {
                "title": title,
                "source": f"https://github.com{library.id}/blob/main/{path}",
                "text": t,
            }
            for path, text in library.package.files(cache).items()
            for title, t in snippets(text)
        ],
    }


def snippets(markdown: str) -> Iterator[tuple[str, str]]:
    """The heading and the text of each section, without those that only hold others."""
    lines = markdown.splitlines()
    tokens = MarkdownIt().parse(markdown)
    starts = [
        (token.map[0], token.map[1], tokens[index + 1].content)
        for index, token in enumerate(tokens)
        if token.type == "heading_open" and token.map and token.level == 0
    ]
    ends = [start for start, _, _ in starts[1:]] + [len(lines)]
    for (_, begin, title), end in zip(starts, ends, strict=True):
        text = "\n".join(lines[begin:end])
        text = re.sub(r"<a id=.*?</a>|<!--.*?-->|^\([\w-]+\)=$", "", text, flags=re.S | re.M)
        text = re.sub(r"\n{3,}", "\n\n", text).strip()
        if len(text) > 40:
            yield re.sub(r"<[^>]+>|[`\\]", "", title).strip(), text[:MAX_SNIPPET_CHARS]


if __name__ == "__main__":
    main()
