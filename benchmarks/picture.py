"""A moving picture of a real run, for the README.

    python -m benchmarks.picture [QUESTION] [--project FOLDER] [--output FILE]

It runs `planloom ask` on a terminal of its own, with whatever model server is configured, and
writes what the terminal showed as an animated SVG without a script. Nothing in it is made up: the
clock below is the run's own, and a wait that is shown shorter than it was says so.
"""

import argparse
import math
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from pathlib import Path

import pyte
from on_terminal import HEIGHT, WIDTH, on_terminal
from pyte.screens import Char

from benchmarks import ROOT

DOCS = ROOT / "docs"
FERRY = ROOT / "examples" / "ferry"
QUESTION = "How heavy may my suitcase be?"
"""As `make demo` asks: a text search finds none of its words in that project."""
MAX_WAIT_SECONDS = 1.5
"""Seconds that nothing but a clock may change on the picture."""
MIN_FRAME_SECONDS = 0.15
MAX_SECONDS = 30.0
"""Of the whole picture: what is longer is shown faster, and says so."""
LAST_SECONDS = 6.0
"""That the end stays before it begins again."""
MAX_FRAMES = 160
CHARACTER, LINE, MARGIN = 8.4, 19, 20
"""Pixels."""
COLOURS = {
    "black": "#5c6370",
    "red": "#e06c75",
    "green": "#98c379",
    "brown": "#e5c07b",
    "yellow": "#e5c07b",
    "blue": "#61afef",
    "magenta": "#c678dd",
    "cyan": "#56b6c2",
    "white": "#dcdfe4",
}
STYLE = """\
text { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
font-size: 14px; white-space: pre }
.dim { fill: #9aa2b1 }
#film { animation: film %(seconds).1fs steps(1, end) infinite }
@keyframes film { %(keys)s }
@media (prefers-reduced-motion: reduce) { #film { animation: none; transform: %(last)s } }"""

Cast = Sequence[tuple[float, bytes]]
"""What a terminal was sent, and after how many seconds."""


@dataclass(frozen=True)
class Frame:
    """What stood on the terminal."""

    seconds: float
    """Since the run began."""
    lines: tuple[str, ...]
    """As SVG."""
    still: tuple[str, ...]
    """As text, without what only a clock or a spinner changes."""


@dataclass(frozen=True)
class Shown:
    frame: Frame
    begins: float
    """Seconds into the picture."""
    left_out: float
    """Seconds of waiting that were left out right before it."""


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.picture", description=__doc__)
    parser.add_argument("question", nargs="?", default=QUESTION)
    parser.add_argument("--project", type=Path, default=FERRY)
    parser.add_argument("--upstreams", type=Path)
    parser.add_argument("--output", type=Path, default=DOCS / "picture.svg")
    chosen = parser.parse_args(words)
    command = [sys.executable, "-m", "server.cli", "ask", chosen.question]
    command += ["--project", str(chosen.project.resolve())]
    command += ["--upstreams", str(chosen.upstreams)] if chosen.upstreams else []
    code, cast = recorded(command)
    if code:
        sys.stderr.write(f"`planloom ask` ended with exit code {code}; no picture was written.\n")
        return code
    svg = picture(f'planloom ask "{chosen.question}"', cast)
    chosen.output.write_text(svg, "utf-8")
    print(f"{chosen.output}: {len(svg.encode()) / 1000:.0f} kB")
    return 0


def recorded(command: Sequence[str]) -> tuple[int, Cast]:
    """What a command writes on a terminal, and when."""
    cast, known = [(0.0, b"")], 0
    began = time.monotonic()

    def seen(written: bytes) -> None:
        nonlocal known
        cast.append((time.monotonic() - began, written[known:]))
        known = len(written)

    code, _ = on_terminal(command, {}, seen, subprocess.Popen)
    return code, cast


def picture(command: str, cast: Cast) -> str:
    """The cast as an animated SVG."""
    shown, faster = timed(frames(cast))
    rows = max(len(each.frame.lines) for each in shown)
    width, height = WIDTH * CHARACTER + 2 * MARGIN, (rows + 4) * LINE + 2 * MARGIN
    seconds = shown[-1].begins + LAST_SECONDS
    moves = [f"translateX({-number * width:.0f}px)" for number in range(len(shown))]
    keys = " ".join(
        f"{100 * each.begins / seconds:.3f}% {{ transform: {move} }}"
        for each, move in zip(shown, moves, strict=True)
    )
    keys += f" 100% {{ transform: {moves[-1]} }}"
    style = STYLE % {"seconds": seconds, "keys": keys, "last": moves[-1]}
    every = {line: number for number, line in enumerate(_unique(shown))}
    defined = "\n".join(f'<g id="l{number}">{line}</g>' for line, number in every.items())
    film = "\n".join(
        f'<g transform="translate({number * width:.0f} 0)">{_drawn(each, every, rows)}</g>'
        for number, each in enumerate(shown)
    )
    note = f"A real run of {_clock(shown[-1].frame.seconds)}; waits are shortened"
    note += f", and the rest is {faster:.1f} times as fast." if faster > 1 else "."
    typed = (
        f'<text x="0" y="14"><tspan fill="{COLOURS["green"]}">$</tspan> {escape(command)}</text>'
    )
    inside = f'width="{width - 2 * MARGIN:.0f}" height="{height - MARGIN:.0f}" fill="#dcdfe4"'
    told = f'<text class="dim" x="0" y="{(rows + 3) * LINE + 14}">{escape(note)}</text>'
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">
<title>{escape(command)}</title>
<style>
{style}
</style>
<defs>
{defined}
</defs>
<rect width="100%" height="100%" rx="8" fill="#23272e"/>
<svg x="{MARGIN}" y="{MARGIN}" {inside}>
{typed}
<g id="film">
{film}
</g>
{told}
</svg>
</svg>
"""


def frames(cast: Cast) -> list[Frame]:
    """What stood on the terminal from time to time: at least the beginning and the end."""
    screen = pyte.Screen(WIDTH, HEIGHT)
    stream = pyte.ByteStream(screen)
    least = max(MIN_FRAME_SECONDS, cast[-1][0] / MAX_FRAMES)
    found: list[Frame] = []
    for (seconds, piece), after in zip(cast, [*(each[0] for each in cast[1:]), None], strict=True):
        stream.feed(piece)
        if after is None or (after - seconds > 0.02 and seconds - _last(found) >= least):
            found.append(_frame(screen, seconds))
    return found


def timed(every: Sequence[Frame]) -> tuple[list[Shown], float]:
    """When each frame is shown, and how many times faster than it was."""
    kept = [next(same) for _, same in groupby(every, key=lambda each: each.still)]
    if kept[-1] is not every[-1]:
        kept.append(every[-1])
    waits = [after.seconds - before.seconds for before, after in pairwise(kept)]
    whole = sum(min(wait, MAX_WAIT_SECONDS) for wait in waits)
    faster = max(1.0, whole / MAX_SECONDS)
    shown = [Shown(kept[0], 0.0, 0.0)]
    for frame, wait in zip(kept[1:], waits, strict=True):
        begins = shown[-1].begins + min(wait, MAX_WAIT_SECONDS) / faster
        shown.append(Shown(frame, begins, max(0.0, wait - MAX_WAIT_SECONDS)))
    return shown, faster


def _last(found: Sequence[Frame]) -> float:
    return found[-1].seconds if found else -math.inf


def _frame(screen: pyte.Screen, seconds: float) -> Frame:
    rows = [[screen.buffer[row][column] for column in range(WIDTH)] for row in range(HEIGHT)]
    while rows and not "".join(char.data for char in rows[-1]).strip():
        rows.pop()
    texts = ["".join(char.data for char in row).rstrip() for row in rows]
    still = tuple(re.sub(r"[\d.,]+|[\u2800-\u28ff|/\\-]", "", text) for text in texts)
    return Frame(seconds, tuple(map(_line, rows)), still)


def _line(row: Sequence[Char]) -> str:
    """One line of the terminal: each run of one look in its own place, whatever the font."""
    drawn, column = "", 0
    for look, run in groupby(row, _look):
        text = "".join(char.data for char in run)
        if text.strip():
            at = column + len(text) - len(text.lstrip())
            length = f'textLength="{len(text.strip()) * CHARACTER:.0f}"'
            drawn += f'<text x="{at * CHARACTER:.0f}" {length}{look}>{escape(text.strip())}</text>'
        column += len(text)
    return drawn


def _look(char: Char) -> str:
    name = char.fg.removeprefix("bright")
    colour = COLOURS.get(name) or (f"#{name}" if re.fullmatch("[0-9a-f]{6}", name) else "")
    look = f' fill="{colour}"' if colour else ""
    look += ' font-weight="bold"' if char.bold else ""
    look += ' font-style="italic"' if char.italics else ""
    return look + (' text-decoration="underline"' if char.underscore else "")


def _unique(shown: Sequence[Shown]) -> list[str]:
    return list(dict.fromkeys(line for each in shown for line in each.frame.lines if line))


def _drawn(shown: Shown, every: dict[str, int], rows: int) -> str:
    lines = "".join(
        f'<use href="#l{every[line]}" y="{(number + 1) * LINE + 14}"/>'
        for number, line in enumerate(shown.frame.lines)
        if line
    )
    told = _clock(shown.frame.seconds)
    if shown.left_out >= 1:
        told += f"   {shown.left_out:.0f} s of waiting left out"
    return f'{lines}<text class="dim" x="0" y="{(rows + 2) * LINE + 14}">{told}</text>'


def _clock(seconds: float) -> str:
    return f"{seconds // 60:.0f}:{seconds % 60:04.1f}"


if __name__ == "__main__":
    sys.exit(main())
