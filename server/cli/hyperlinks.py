"""Places such as `src/a.py:12` in what a terminal shows, as links that open them."""

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

PLACE = re.compile(r"(?<![\w/.-])(?P<path>[\w@+-][\w./@+-]*):(?P<line>\d+)(?:-\d+)?(?![\w:])")


def link(file: Path, line: int) -> str:
    """The address of a line, for the editor whose terminal this is, or by the file's own name."""
    path = quote(str(file))
    if os.environ.get("TERM_PROGRAM") == "vscode":
        return f"vscode://file{path}:{line}"
    return f"file://{socket.gethostname()}{path}#{line}"


def linked(text: Text, project: Path) -> Text:
    for match in PLACE.finditer(text.plain):
        # `Path.resolve` raises for a circle of links.
        file = Path(os.path.realpath(project / match["path"]))
        # `Path.is_file` raises for a name that is too long.
        if file.is_relative_to(os.path.realpath(project)) and os.path.isfile(file):  # noqa: PTH113
            text.stylize(Style(link=link(file, int(match["line"]))), *match.span())
    return text


@dataclass
class Linked:
    """A renderable, with links on its places."""

    drawn: RenderableType
    project: Path

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self.drawn, options, pad=False):
            parts = [(each.text, each.style or Style.null()) for each in line if not each.control]
            yield from linked(Text.assemble(*parts, end=""), self.project).render(console)
            yield Segment.line()
