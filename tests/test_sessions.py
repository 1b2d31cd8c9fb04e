"""The recorded terminal sessions in docs/: what a person sees in the first minutes, with Ollama and
without it. `make sessions` records them."""

import io
import json
import os
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

import forked
import pyte
import pytest
from ollama_replies import Hang
from on_terminal import HEIGHT, WIDTH, on_terminal
from paths import ROOT
from pyte.screens import Char
from replies import found
from rich.console import Console
from rich.style import Style
from rich.text import Text
from scripted_ollama import FULL, ScriptedOllama
from serving import TRIAL_FILES, Place, free_port

from server.cli.trial.project import QUESTIONS, write_project

DOCS = ROOT / "docs"
QUESTION = QUESTIONS[4].text
ANSWER = "Open port 8473."
SAME = (
    (r"https?://127\.0\.0\.1:\d+", "http://127.0.0.1:11434"),
    (r"/\S*/project(?=/|$|\s)", "/home/you/tidewatch"),
    (r"/\S*/upstreams\.yaml", "/home/you/.config/planloom/upstreams.yaml"),
    (r"(?<=Python )[\d.]+", "3.13.1"),
    (r"\b[0-9a-f]{32}\b", "4f1c0de5a6b740d2b1c9e8f7a6d5c4b3"),
    (r"\b\d[\d.]* s\b", "0.4 s"),
    (r"[\d,]+ tokens read, \d+ written", "803 tokens read, 9 written"),
)
"""What differs from one recording to the next, and what stands in its place."""


class Session:
    """A terminal, as a picture."""

    def __init__(self) -> None:
        self.console = Console(
            record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False
        )

    def type(self, command: str) -> None:
        self.console.print(Text.assemble(("$ ", "green"), (command, "bold")))

    def show(self, written: bytes) -> None:
        """What stands on the screen once this was written."""
        screen = pyte.Screen(WIDTH, HEIGHT)
        pyte.ByteStream(screen).feed(written)
        lines = [_line(screen, number) for number in range(HEIGHT)]
        while lines and not lines[-1].plain.strip():
            lines.pop()
        for line in lines:
            self.console.print(_settled(line), no_wrap=True, overflow="crop")
        self.console.print()

    def note(self, text: str) -> None:
        self.console.print(Text(f"# {text}", "dim italic"))

    def kept(self, name: str, title: str) -> None:
        """The picture is the one in docs/; recorded again, it becomes that."""
        svg = self.console.export_svg(title=title, unique_id="session")
        svg = "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"
        file = DOCS / name
        if os.environ.get("RECORD_SESSIONS"):
            file.write_text(svg, "utf-8")
        assert _words(file.read_text("utf-8")) == _words(svg), "make sessions"


def _line(screen: pyte.Screen, number: int) -> Text:
    line = Text()
    chars = [screen.buffer[number][column] for column in range(WIDTH)]
    for style, run in groupby(chars, _style):
        line.append("".join(char.data for char in run), style)
    line.rstrip()
    return line


def _style(char: Char) -> Style:
    colour = None if char.fg == "default" else char.fg.replace("brown", "yellow")
    if colour and re.fullmatch("[0-9a-f]{6}", colour):
        colour = f"#{colour}"
    return Style(color=colour, bold=char.bold, italic=char.italics, underline=char.underscore)


def _settled(line: Text) -> Text:
    for pattern, same in SAME:
        for match in reversed(list(re.finditer(pattern, line.plain))):
            style = line.get_style_at_offset(Console(), match.start())
            told = Text(match.expand(same), style)
            line = Text.assemble(line[: match.start()], told, line[match.end() :])
    return line


def _words(svg: str) -> list[str]:
    """What stands in the picture; how far apart, the seconds of the machine say."""
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    return " ".join(texts).replace("&#160;", " ").split()


@pytest.fixture
def place(ollama: ScriptedOllama) -> Iterator[Place]:
    """In a folder with a short name, so that lines break where they do elsewhere."""
    with TemporaryDirectory(prefix="planloom-") as folder:
        place = Place(Path(folder), ollama, upstreams={"files": TRIAL_FILES})
        rmtree(place.project)
        write_project(place.project)
        yield place


def test_the_first_minutes_with_ollama(place: Place, ollama: ScriptedOllama) -> None:
    session = Session()
    session.type("planloom doctor")
    code, written = on_terminal(place.command("doctor"), place.environ)
    session.show(written)
    assert code == 0

    ollama.expect(Hang("", json.dumps(found(ANSWER))))
    writing = b""

    def seen(written: bytes) -> None:
        nonlocal writing
        if not writing and re.search(rb"(?s)Found by.*for the model.*written", written):
            writing = written
            ollama.release()

    code, written = on_terminal(place.command("ask", QUESTION), place.environ, seen)
    session.type(f'planloom ask "{QUESTION}"')
    session.note("while the model writes")
    session.show(writing)
    session.note("the answer")
    session.show(written)
    assert code == 0
    session.kept("session-ollama.svg", f"Ollama with {FULL}")


def test_the_first_minutes_without_ollama(place: Place) -> None:
    place.variables = {
        "OLLAMA_HOST": f"127.0.0.1:{free_port()}",
        "PLANLOOM_BACKEND": "auto",
        forked.WITHOUT: "xllamacpp",
    }
    session = Session()
    for words, code in ((("doctor",), 1), (("ask", QUESTION), 2)):
        session.type(" ".join(["planloom", *(f'"{w}"' if " " in w else w for w in words)]))
        ended, written = on_terminal(place.command(*words), place.environ)
        session.show(written)
        assert ended == code
    session.kept("session-without.svg", "Without Ollama")
