"""Reading again what planned calls were to change: a tool may say in its own words that it changed
nothing, and a model may write a whole file of which it was shown a part, or put what stands beside
a place there once more.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from planner.agent.best_answer import BestAnswer
from planner.agent.gathering import Gatherer
from planner.checks.guards.arguments import takes_path
from planner.evidence.file_text import doubled, file_text, outside, plain, run_together
from planner.evidence.listing import is_path_of
from planner.evidence.syntax import breaks
from planner.evidence.words import tokens
from planner.state import Iteration, RunState
from planner.text import strings


class Rereader:
    """Reads files once more, and doubts what was done to them."""

    def __init__(self, state: RunState, gatherer: Gatherer, best: BestAnswer) -> None:
        self.state = state
        self.gatherer = gatherer
        self.best = best

    async def look_again(self) -> None:
        """Read the files once more that planned calls were to change."""
        calls = self.state.part_iterations
        for path, before in self.before().items():
            given = [*filter(None, (self._given(call, path) for call in calls))]
            text = await self.gatherer.text(path) if given else None
            if text is None:
                continue
            if run_together(before, text, [*chain.from_iterable(given)]):
                self.best.doubt(f"a line of {path} was run together with what was added")
            elif not any(_may_be_about(before, texts) for texts in given):
                continue
            elif not text.strip():  # where no tool deletes files, small models empty them
                self.best.doubt(f"{path} is empty now")
            elif plain(text) == plain(before):
                self.best.doubt(f"{path} reads as it did before")
            elif breaks(path, before, text):
                self.best.doubt(f"{path} could be parsed before, and cannot be any more")
            elif self._lost_unseen(path, before, text):
                self.best.doubt(f"{path} has lost lines that the model was not shown")
            elif doubled(before, text):
                self.best.doubt(f"{path} has lines twice that it had once")

    def before(self) -> dict[str, str]:
        """The files that were looked up before the first change, by their paths."""
        found: dict[str, str] = {}
        for each in self.state.part_iterations:
            if each.changes:
                break
            if each.by == "lookup" and each.succeeded and each.tool == self.gatherer.reader:
                found.setdefault(next(iter(each.arguments.values())), file_text(each.result))
        return found

    def _given(self, call: Iteration, path: str) -> list[str]:
        """The texts that a call may have put into a file: the only file that it names is this one,
        or a patch in it does."""
        places = [value for name, value in call.arguments.items() if takes_path(name)]
        given = [each for each in strings(call.arguments) if each not in places]
        named_ = all(is_path_of(path, each) for each in places)
        patched = any("\n" in each and path in each for each in given)
        return given if call.changed and named_ and (places or patched) else []

    def _lost_unseen(self, path: str, before: str, text: str) -> bool:
        """Whether a file is shorter by lines that stood in none of the passages."""
        shown = [each for each in self.state.passages if each.source == path]
        unseen = Counter(filter(None, plain(outside(before, shown)).split("\n")))
        left = plain(text).split("\n")
        return len(left) < len(plain(before).split("\n")) and bool(unseen - Counter(left))


def _may_be_about(text: str, given: Sequence[str]) -> bool:
    """Whether the texts of a call share a word with a file's, or hold none."""
    told = "\n".join(given)
    return not told.strip() or bool({*tokens(told)} & {*tokens(text)})
