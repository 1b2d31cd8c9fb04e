"""Rewriting: what the full model changes in a file by writing it again, in parts where it is long.

Code compares, keeps what fits the request, and tells what it leaves out. A function that the file
does not have yet is asked for by itself.
"""

from collections.abc import Mapping, Sequence

from planner.agent.best_answer import BestAnswer
from planner.agent.budget import Budget
from planner.agent.edit_questions import EditAsker
from planner.evidence import additions, best_edits, file_parts, renaming, rewriting
from planner.evidence.additions import Place
from planner.evidence.definitions import defined_name
from planner.evidence.file_text import outside
from planner.evidence.listing import says_path
from planner.evidence.rewriting import Change, Edit
from planner.evidence.syntax import breaks
from planner.evidence.words import named, quoted, tokens
from planner.passage import Passage
from planner.state import RunState
from planner.text import flat, shortened

MAX_TOLD_CHARS = 160
"""Characters that say what is left out, or what is changed in a file."""


class Rewriter:
    """Has files written again, and keeps what fits the request."""

    def __init__(
        self, state: RunState, questions: EditAsker, budget: Budget, best: BestAnswer
    ) -> None:
        self.state = state
        self.questions = questions
        self.budget = budget
        self.best = best
        self.names: dict[str, str] = {}
        """The definitions that get another name, with it."""
        self._beside: dict[str, str] = {}
        """The definitions that stay, with the one that the request wants beside each."""

    def forget(self) -> None:
        """Begin with the next request."""
        self.names, self._beside = {}, {}

    async def changes(
        self, path: str, text: str, query: str, before: Sequence[Edit]
    ) -> list[Change]:
        """The changes of a file; `before` are the edits of other files."""
        prompt = self.state.prompt
        asked, old = {*tokens(prompt)}, best_edits.old_numbers(prompt, [text])
        names = {*named(prompt), *quoted(prompt), *old}
        kept, left, by_part = list[Change](), list[Edit](), list[list[Edit]]()
        parts = file_parts.parts(path, text, prompt, self.state.search, names)
        for part in parts:
            if (kept or before) and self._seconds_for_a_part() > self.budget.seconds_left:
                self.best.doubt(f"there was no time for all of {path}")
                break
            said = names & {*tokens(part.text)}
            if said and said <= self.names.keys():
                continue  # uses are found without a model
            written, whole = await self.questions.rewrite(part)
            await self._tell_names_apart(renaming.renames(part.text, written, asked))
            new = additions.new_names(text, written, asked) - {*self.names.values()}
            if new and new <= self._defined_as_said(path, before):
                continue
            where = self._place(path, text, query, part, written, new)
            if where:
                made = await self._added(path, text, where, new)
            else:
                written = renaming.renamed(written, self.names)
                made = additions.beside(
                    text, rewriting.changes(text, part, written), self._beside.keys()
                )
            fitting, others = self._fitting(path, text, made, query, [before, *by_part])
            kept += [each for each, _ in fitting]
            by_part.append([edit for _, edit in fitting])
            left += others
            if where:
                break
            if not whole:
                self.best.doubt(f"what was written for {path} was cut off")
        if best_edits.scattered(by_part):
            self.best.doubt(f"{path} was changed in several places, and one may be enough")
        if kept:
            self.leave_out(left, "without a word of the request")
        taken = best_edits.taken_away(rewriting.edits(path, text, kept)) - self.names.keys()
        if more := taken & asked & {*tokens(outside(text, parts))}:
            self.best.doubt(f"{path} has {', '.join(sorted(more))} in other places, too")
        return kept

    def _fitting(
        self,
        path: str,
        text: str,
        made: Sequence[Change],
        query: str,
        before: Sequence[Sequence[Edit]],
    ) -> tuple[list[tuple[Change, Edit]], list[Edit]]:
        """The changes of a file that fit the request, each with its edit, and the edits that have
        no word of it; `before` are those of other parts and files."""
        asked = {*tokens(self.state.prompt)}
        wrong = best_edits.misplaced(text, made, asked)
        for why, some in wrong:
            self.leave_out(rewriting.edits(path, text, some), why)
        misplaced = [each for _, some in wrong for each in some]
        alone = [
            (each, edit)
            for each in made
            if each not in misplaced
            for edit in rewriting.edits(path, text, [each])
        ]
        once = best_edits.defined_once(text, [edit for _, edit in alone], asked, before)
        if len(once) < len(alone):
            self.best.doubt(f"left out in {path}: what it defines already")
        fitting = best_edits.fitting(once, query)
        if breaks(path, text, rewriting.applied(text, fitting)):
            self.leave_out(fitting, "since the file could not be parsed any more")
            once = fitting = []
        others = [edit for edit in once if edit not in fitting]
        return [each for each in alone if each[1] in fitting], others

    async def _tell_names_apart(self, found: Mapping[str, str]) -> None:
        """Keep which of these definitions get another name. Where the request wants another one
        beside a definition, small models write it in its place, too."""
        for old, new in found.items():
            if self.names.get(old) == new or self._beside.get(old) == new:
                continue
            names = self.names if await self.questions.renames(old, new) else self._beside
            names[old] = new

    def _place(
        self, path: str, text: str, query: str, part: Passage, written: str, new: set[str]
    ) -> Place | None:
        """Where a function that is new belongs, if it was written in a part of a file alone, or in
        the place of another one."""
        whole = part.text.strip() == text.strip()
        in_place_of = new & {*self._beside.values()}
        if not new or (whole and not in_place_of):
            return None
        return additions.place(path, text, query, written, new)

    async def _added(self, path: str, text: str, where: Place, names: set[str]) -> list[Change]:
        """What a model writes by itself where a file does not have these names yet."""
        written = await self.questions.add(path, where)
        made, others = additions.placed(text, where, written, names)
        if others:
            told = shortened(flat("; ".join(others)), MAX_TOLD_CHARS)
            self.best.doubt(f"left out in {path}: {told}")
        return made

    def _defined_as_said(self, path: str, before: Sequence[Edit]) -> set[str]:
        """What these edits define in files that the request names; nothing if it names this one."""
        request = self.state.prompt
        here = says_path(request, path)
        there = [] if here else [each for each in before if says_path(request, each.path)]
        return {name for each in there for name in map(defined_name, each.added) if name}

    def _seconds_for_a_part(self) -> float:
        """The longest that writing something again has taken."""
        written = (each.seconds for each in self.state.ledger if each.role == "rewrite")
        return max(written, default=0.0)

    def leave_out(self, some: Sequence[Edit], why: str) -> None:
        """Say which edits are not made, if there are any, and why."""
        if some:
            paths = ", ".join(dict.fromkeys(each.path for each in some))
            told = shortened(flat("; ".join(each.shown for each in some)), MAX_TOLD_CHARS)
            self.best.doubt(f"left out in {paths}, {why}: {told}")
