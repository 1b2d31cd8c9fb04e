"""A run while it goes on: its plan, drawn again with each event, or a line for each event."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from planner.actions import call_in_words, outcome_in_words
from planner.events import ApprovalAsked, Event, OfTheMoment, RunFinished, StepStarted
from planner.evidence.words import words
from planner.passage import Passage
from planner.state import RunState
from planner.text import counted
from server.cli.hyperlinks import linked
from server.text import clean, duration, one_line
from server.views.consent import Waiting
from server.views.progress import heartbeat, message
from server.views.report import steps, usage

MARKS = {
    "completed": ("✓", "green"),
    "failed": ("×", "red"),
    "unfinished": ("×", "red"),
    "current": ("●", "cyan"),
    "later": ("○", "dim"),
}
MAX_DRAFT_CHARS = 600
"""Of an answer that is being written; the newest are shown."""
MAX_LATER = 8
MAX_FOUND = 4
"""How many passages are drawn: the best ones."""
MAX_CALLS = 8
"""How many tool calls of a step are drawn: the newest ones."""


class LiveView:
    """The view of one run. Use it as a context: `add` its events and `draw` it in between."""

    def __init__(
        self,
        console: Console,
        prompt: str,
        began: float,
        project: Path,
        waiting: Callable[[RunState], Waiting | None] = lambda state: None,
    ) -> None:
        """`began`: the moment from which seconds count, without pauses. `project`: where links
        lead. `waiting`: the call that waits for an approval which is given elsewhere."""
        self.console = console
        self.prompt = prompt
        self.began = began
        self.project = project
        self.waiting = waiting
        self.state = RunState()
        self._newest = began
        self._moment: str | None = None
        """What was said a moment ago, and is not kept."""
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self.resume()
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()

    def pause(self) -> None:
        """Stop drawing, so that others can use the terminal."""
        self._live.stop()

    def resume(self) -> None:
        if self.console.is_interactive:
            self._live.start()

    def add(self, events: Iterable[Event]) -> None:
        """Apply the next events; where nothing can be drawn again, print each."""
        for event in events:
            self.state.apply(event)
            self._newest = event.at
            moment = isinstance(event, OfTheMoment)
            self._moment = message(event, self.state) if moment else None
            if not self.console.is_interactive and not moment:
                style = "bold" if isinstance(event, StepStarted | RunFinished) else "default"
                seconds = event.at - self.began - self.state.paused
                line = f"{seconds:6.1f} s  {message(event, self.state)}"
                self.console.print(Text(line, style=style), soft_wrap=True)
                if isinstance(event, ApprovalAsked) and (call := self.waiting(self.state)):
                    self.console.print(asking(call), soft_wrap=True)

    def draw(self, queued: bool = False, models_doing: str = "") -> None:
        """Draw the run; `queued`: it waits for its turn; `models_doing`: what a model does now."""
        if self.console.is_interactive:
            quiet = max(0.0, time.time() - self._newest)
            call = self.waiting(self.state)
            doing = self._moment or heartbeat(self.state, quiet, queued, call, models_doing)
            self._live.update(self.drawn(doing), refresh=True)

    def drawn(self, doing: str) -> RenderableType:
        """The request, the plan with current calls, passages, the draft, what it does, the cost."""
        state = self.state
        parts: list[RenderableType] = []
        if call := self.waiting(state):
            parts += [asking(call), ""]
        parts.append(_line(self.prompt, "bold"))
        parts += ["", self._plan()]
        if state.passages:
            parts += ["", _line("Found by the search, before the model's answer:", "dim")]
            parts += [self._found(each) for each in state.passages[:MAX_FOUND]]
        if state.draft:
            parts += ["", Text(clean(state.draft[-MAX_DRAFT_CHARS:]))]
        cost = usage(state, time.time())
        spent = (
            f"{duration(cost.seconds)}, {counted(cost.model_calls, 'model call')}, "
            f"{cost.prompt_tokens:,} tokens read, {cost.generated_tokens:,} written"
        )
        return Group(*parts, "", _line(doing, "cyan"), _line(spent, "dim"))

    def _found(self, passage: Passage) -> Text:
        """A passage by the line that shares most words with the request."""
        lines, asked = passage.text.splitlines() or [""], {*words(self.prompt)}
        scores = [(len(asked & {*words(line)}), bool(line.strip())) for line in lines]
        number = scores.index(max(scores))
        line = lines[number]
        source = f"{passage.source}:{passage.first + number}"
        place = linked(_line(source, "cyan"), self.project)
        relation = [_line(f"{passage.relation}:"), Text(" ")] if passage.relation else []
        shown = Text.assemble("  ", place, "  ", *relation, _line(line.strip(), "dim"))
        shown.no_wrap, shown.overflow = True, "ellipsis"
        return shown

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
            for each in made[-MAX_CALLS:]:
                took = f", {duration(each.seconds)}" if each.outcome and each.upstream else ""
                row("", f"  {each.tool} {call_in_words(each)}", f"{outcome_in_words(each)}{took}")

        if not self.state.steps:
            row("current", "Look around")
            calls(0)
        plan = steps(self.state)
        for step in [each for each in plan if each.status != "later"]:
            here = step.status == "current"
            row(step.status, step.in_words, style="bold" if here else "")
            if here:
                calls(step.number)
            elif step.notes:
                row("", step.notes, style="dim")
        for step in [each for each in plan if each.status == "later"][:MAX_LATER]:
            row("later", step.in_words, style="dim")
        return table


def asking(call: Waiting) -> Text:
    text = Text()
    text.append(" APPROVAL NEEDED ", style="bold black on yellow")
    text.append(f" {call.time_left(time.time())}\n", style="bold yellow")
    text.append(f"  {call.call}\n", style="bold")
    text.append("".join(f"    {line}\n" for line in call.arguments.splitlines()))
    if call.guess:
        text.append(f"  {call.guess}\n", style="bold yellow")
    text.append(f"  {call.command('approve')}\n  {call.command('decline')}", style="bold")
    return text


def _line(text: str, style: str = "") -> Text:
    """The text on one line, without terminal control sequences."""
    indent = len(text) - len(text.lstrip(" "))
    return Text(" " * indent + one_line(text), style=style)
