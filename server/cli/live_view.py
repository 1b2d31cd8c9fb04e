"""A run on a terminal while it goes on: its plan, drawn anew with each event. Elsewhere a line for
each."""

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from planner.actions import in_words
from planner.events import Event, OfTheMoment, RunFinished, StepStarted
from planner.state import Iteration, RunState
from planner.tools import Outcome
from server.text import clean, counted, flat
from server.views.progress import heartbeat, message

MARKS = {
    "done": ("✓", "green"),
    "failed": ("×", "red"),
    "now": ("●", "cyan"),
    "later": ("○", "dim"),
}
LONGEST_DRAFT = 600
"""Characters of an answer that is being written: the newest."""
MOST_LATER = 8
"""Later steps that are drawn."""
MOST_CALLS = 8
"""Tool calls of a step that are drawn, the newest."""


class Drawing:
    """What is shown of one run. Use it as a context; `tell` it what happens and `wait` between."""

    def __init__(self, console: Console, prompt: str, began: float) -> None:
        """`began`: the moment from which seconds count."""
        self.console = console
        self.prompt = prompt
        self.began = began
        self.state = RunState()
        self._newest = began
        self._moment: str | None = None
        """What passed a moment ago, and is not kept."""
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self.resume()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.pause()

    def pause(self) -> None:
        """Leave the terminal to something else."""
        self._live.stop()

    def resume(self) -> None:
        if self.console.is_interactive:
            self._live.start()

    def tell(self, events: Iterable[Event]) -> None:
        """Take in what happened next."""
        for event in events:
            self.state.apply(event)
            self._newest = event.at
            moment = isinstance(event, OfTheMoment)
            self._moment = message(event, self.state) if moment else None
            if not self.console.is_interactive and not moment:
                style = "bold" if isinstance(event, StepStarted | RunFinished) else "default"
                line = f"{event.at - self.began:6.1f} s  {message(event, self.state)}"
                self.console.print(Text(line, style=style), soft_wrap=True)

    def wait(self, queued: bool = False) -> None:
        """Draw what there is, and what is being waited for; `queued`: the run's turn."""
        if self.console.is_interactive:
            quiet = max(0.0, time.time() - self._newest)
            doing = self._moment or heartbeat(self.state, quiet, queued)
            self._live.update(self.drawn(doing), refresh=True)

    def drawn(self, doing: str) -> RenderableType:
        """The request, the plan with the calls of its current step, the draft of an answer, what is
        being done, and the cost."""
        state = self.state
        parts: list[RenderableType] = [_line(self.prompt, "bold")]
        if state.main_objective:
            parts.append(_line(state.main_objective, "dim"))
        parts += ["", self._plan()]
        if state.draft:
            parts += ["", Text(clean(state.draft[-LONGEST_DRAFT:]))]
        tokens = sum(call.prompt_tokens for call in state.ledger)
        written = sum(call.generated_tokens for call in state.ledger)
        cost = (
            f"{time.time() - self.began:.0f} s, {counted(len(state.ledger), 'model call')}, "
            f"{tokens:,} tokens read, {written:,} written"
        )
        return Group(*parts, "", _line(doing, "cyan"), _line(cost, "dim"))

    def _plan(self) -> Table:
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=1)
        table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        table.add_column(justify="right", no_wrap=True, style="dim")

        def row(mark: str, text: str, right: str = "", style: str = "") -> None:
            glyph, colour = MARKS.get(mark, ("", ""))
            table.add_row(Text(glyph, colour), _line(text, style), _line(right))

        def calls(step: int) -> None:
            made = [each for each in self.state.iterations if each.step == step]
            for each in made[-MOST_CALLS:]:
                row("", f"  {each.tool} {in_words(each.arguments)}", _came(each))

        if not self.state.steps:
            row("now", "Look around")
            calls(0)
        for step in self.state.steps:
            if step.completed:
                row("done" if step.success else "failed", step.objective)
                if step.notes:
                    row("", step.notes, style="dim")
            else:
                row("now", step.objective, style="bold")
                calls(step.number)
        for objective in self.state.later_steps[:MOST_LATER]:
            row("later", objective, style="dim")
        return table


def _came(iteration: Iteration) -> str:
    """What came of a call, in a few words."""
    match iteration.outcome:
        case None:
            return "waits for approval" if iteration.asked and not iteration.approval else "…"
        case Outcome.SUCCESS:
            lines = len(iteration.result.splitlines())
            return f"{counted(lines, 'line')}, {iteration.seconds:.1f} s"
        case Outcome.TIMEOUT:
            return "timed out"
        case _:
            return "failed"


def _line(text: str, style: str = "") -> Text:
    """On one line, without what a terminal would obey."""
    indent = len(text) - len(text.lstrip(" "))
    return Text(" " * indent + flat(clean(text)), style=style)
