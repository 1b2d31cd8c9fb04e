"""A line chart as SVG, in plain Python: readable in light and dark, both axes logarithmic."""

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 84, 190, 24, 56
GAP = 17
"""Pixels between two labels at the right."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#8a8a8a")
DASHES = ("", "9 4", "3 3", "1 0")
STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #24292f }
.axis { stroke: #57606a } .grid { stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .axis { stroke: #9198a1 } .grid { stroke: #3d444d }
}"""


def chart(lines: Mapping[str, Sequence[tuple[int, int]]], title: str, across: str, up: str) -> str:
    """`lines`: the points of each line by its name; `across` and `up`: what the axes show."""
    xs = sorted({x for points in lines.values() for x, _ in points})
    ys = [y for points in lines.values() for _, y in points]
    ticks = [step * 10**power for power in range(8) for step in (1, 2, 5)]
    low = max(tick for tick in ticks if tick <= min(ys))
    high = min(tick for tick in ticks if tick >= max(ys))
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def at_x(x: float) -> float:
        span = math.log(xs[-1]) - math.log(xs[0])
        return LEFT + (right - LEFT) * (math.log(x) - math.log(xs[0])) / span

    def at_y(y: float) -> float:
        span = math.log(high) - math.log(low)
        return bottom - (bottom - TOP) * (math.log(y) - math.log(low)) / span

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{STYLE}\n</style>",
    ]
    for tick in ticks:
        if low <= tick <= high:
            parts.append(_line(LEFT, at_y(tick), right, at_y(tick), "grid"))
            parts.append(_text(LEFT - 8, at_y(tick) + 4, f"{tick:,}", "end"))
    for x in xs:
        parts.append(_line(at_x(x), bottom, at_x(x), bottom + 5, "axis"))
        parts.append(_text(at_x(x), bottom + 20, str(x), "middle"))
    parts.append(_line(LEFT, bottom, right, bottom, "axis"))
    parts.append(_line(LEFT, TOP, LEFT, bottom, "axis"))
    parts.append(_text((LEFT + right) / 2, HEIGHT - 12, across, "middle"))
    middle = (TOP + bottom) / 2
    parts.append(
        f'<text x="16" y="{middle:.0f}" text-anchor="middle" '
        f'transform="rotate(-90 16 {middle:.0f})">{escape(up)}</text>'
    )
    label_y = math.inf
    ends = sorted(lines, key=lambda name: lines[name][-1][1])
    order = list(lines)
    for name in ends:
        colour, dash = COLOURS[order.index(name)], DASHES[order.index(name)]
        points = [(at_x(x), at_y(y)) for x, y in lines[name]]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5" '
            f'stroke-dasharray="{dash}"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
        label_y = min(points[-1][1] + 4, label_y - GAP)
        parts.append(
            f'<text x="{right + 10}" y="{label_y:.1f}" style="fill: {colour}; font-weight: 600">'
            f"{escape(name)}</text>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
