"""Editing: what has to change in a project's files, and the calls that change it.

The full model says which files have to change, and writes each of them as it has to be. Code finds
what has changed, and fills in the calls of the pool's own tool. The model shows once how that tool
is called, with marks in the place of the texts. What uses a definition that has another name
follows without a model.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from planner.agent.best_answer import BestAnswer
from planner.agent.budget import Budget, LimitReached
from planner.agent.edit_questions import EditAsker
from planner.agent.gathering import Gatherer
from planner.agent.rereading import Rereader
from planner.agent.rewriting import MAX_TOLD_CHARS, Rewriter
from planner.agent.steps import Steps
from planner.agent.tool_calls import Caller
from planner.checks import validation
from planner.checks.guards.arguments import takes_path
from planner.evidence import best_edits, renaming, rewriting
from planner.evidence.file_text import plain
from planner.evidence.listing import is_path_of, paths_said
from planner.evidence.rewriting import Change, Edit
from planner.evidence.words import apart, named, quoted, tokens, words
from planner.protocol import Call, FromRecord
from planner.text import counted, flat, shortened, strings
from planner.tools import Arguments, ToolSpec

OLD, NEW = "OLD_TEXT", "NEW_TEXT"
"""What stands for the two texts in a call that shows how a tool is called."""
MAX_FILES = 10
"""Files that the model is shown, to choose those that have to change."""
MAX_LOOKED_UP = 6
"""Names of a change that are looked up in the project."""


class Editor:
    """Finds the edits that a request is for, and makes them."""

    def __init__(
        self, caller: Caller, gatherer: Gatherer, steps: Steps, budget: Budget, best: BestAnswer
    ) -> None:
        self.caller = caller
        self.asker = caller.asker
        self.questions = EditAsker(caller.asker)
        self.state = caller.state
        self.gatherer = gatherer
        self.steps = steps
        self.budget = budget
        self.best = best
        self.rewriter = Rewriter(self.state, self.questions, budget, best)
        self.rereader = Rereader(self.state, gatherer, best)
        self.tool: ToolSpec | None = None
        """The tool that replaces texts in files, once `ready` has found it."""
        self._example: Arguments = {}
        self._path = ""
        """The name of its argument for the file."""
        self._needed: list[ToolSpec] = []
        """The tools that the request needs, as the model says, and that make no edits."""
        self._texts: dict[str, str] = {}
        """The files as they were, by their paths."""

    async def ready(self) -> bool:
        """Whether the request is met by replacing texts in files, and the pool has a tool for it
        whose calls can be written. A model says so."""
        changing = [tool for tool in self.asker.choices if not tool.read_only]
        editing = [tool for tool in changing if _edits_files(tool)]
        # One server may read the project's files, and another one write them.
        own = [tool for tool in editing if tool.upstream in self.state.looked_up]
        able = {tool.name: tool for tool in own or editing}
        if not able:
            return False
        chosen = await self.questions.editing_tool([*able])
        needed = await self.questions.changing_tools([tool.name for tool in changing])
        if chosen is None or not {*able} & {*needed}:
            return False
        self._needed = [self.asker.tools[name] for name in needed if name not in able]
        tool = able[chosen]
        example = validation.coerced(await self.questions.edit_call(tool), tool.input_schema)
        texts = list(strings(example))
        if validation.problem(example, tool.input_schema) or not (
            texts.count(OLD) == texts.count(NEW) == 1
        ):
            return False
        self.tool, self._path = tool, _paths(tool)[0]
        # A switch that nobody asked for stays as its tool has it: a preview, or all places at once.
        self._example = {
            name: value
            for name, value in example.items()
            if name in tool.required or not isinstance(value, bool)
        }
        return True

    async def edits(self) -> list[Edit]:
        """What has to change in the files that the request is about; empty if it is not met by
        replacing texts in files."""
        if not await self.ready():
            return []
        request = self.state.prompt
        query = " ".join([request, *self.state.search])
        files = await self._files(request)
        changed: dict[str, list[Change]] = {}
        self.rewriter.forget()
        new_names = self.rewriter.names
        for path in files:
            text = self._texts[path] = await self.gatherer.text(path) or ""
            if not new_names.keys() & {*tokens(text)}:  # uses are found without a model
                changed[path] = await self.rewriter.changes(path, text, query, self._edits(changed))
        unlike: list[str] = []
        if not (named(request) or paths_said(request)):
            kept = best_edits.likeliest(self._edits(changed), self._texts, query)
            if others := [path for path, some in changed.items() if some and path not in kept]:
                self.best.doubt(f"{', '.join(others)} may have to be changed as well")
            changed = {path: changed[path] for path in kept}
            if unlike := best_edits.unlike_first(self._edits(changed), query):
                self.best.doubt(f"{', '.join(unlike)} may not have to be changed")
        changed, left_out = best_edits.in_place(request, changed, self._texts)
        for why, some in left_out:
            self.rewriter.leave_out(some, why)
        without = best_edits.files_without_names(self._edits(changed), request)
        if others := [path for path in without if path not in unlike]:
            self.best.doubt(f"{', '.join(others)} may not have to be changed")
        if self.best.unsure and not any(changed.values()):
            # A plan would write the files as a whole, with less in view.
            raise LimitReached(f"what the model wrote cannot be used: {self.best.unsure}")
        using = [path for name in new_names for path in await self.gatherer.holding(name)]
        for path in dict.fromkeys(using):
            text = self._texts[path] = await self.gatherer.text(path) or ""
            before = changed.setdefault(path, [])
            changed[path] = [*before, *renaming.uses(text, new_names, before)]
        self._doubt_names(new_names, files)
        for name in self._unmade(request, changed) if any(changed.values()) else ():
            self.best.doubt(f"no change was found for {name}")
        if besides := self._besides(query):
            self.best.doubt(f"{', '.join(besides)} may be needed as well")
        found = self._edits(changed)
        await self._doubt_made_up(found)
        return found

    async def _doubt_made_up(self, found: Sequence[Edit]) -> None:
        """Doubt members and functions that edits use, and that neither the request nor a file has:
        a small model makes them up, and a few are the language's own."""
        known = {*tokens("\n".join([self.state.prompt, *self._texts.values()]))}
        new = best_edits.used(found) - known
        nowhere = [
            name for name in sorted(new)[:MAX_LOOKED_UP] if not await self.gatherer.holding(name)
        ]
        if nowhere:
            self.best.doubt(f"no file has {', '.join(nowhere)}, which the change uses")

    def _doubt_names(self, names: Mapping[str, str], defining: Sequence[str]) -> None:
        """Doubt new names in the place of what may be something else of the same name."""
        used = "\n".join(self._texts.values())
        others = [
            *(each for p in defining for each in renaming.foreign(p, self._texts[p], names, used)),
            *(path for path in self._texts if PurePosixPath(path).stem in names),
        ]
        if others:
            self.best.doubt(f"{', '.join(dict.fromkeys(others))} may be something else")

    def _unmade(self, request: str, changed: Mapping[str, Sequence[Change]]) -> list[str]:
        """The files that a request names and that were to change, or are not there, and have no
        change, and what it quotes of them. A file that only has something to do with it, such as a
        test that fails, was read."""
        known = {*self._texts, *self.rereader.before()}
        endings = {PurePosixPath(path).suffix for path in known} - {""}
        found: list[str] = []
        for name in paths_said(request):
            paths = [path for path in known if is_path_of(name, path)]
            to_change = [path for path in paths if path in changed]
            ending = PurePosixPath(name).suffix  # `Order.weight` is no file, nor is `and/or`
            alone = apart(name) == name  # no word stands beside it
            absent = alone and not paths and (ending in endings or (ending and "/" in name))
            if absent or (to_change and not any(changed[path] for path in to_change)):
                found.append(name)
        old = "\n".join(each.old for each in self._edits(changed))
        stand = (each for each in quoted(request) if each in "\n".join(self._texts.values()))
        return [*found, *(f'"{each}"' for each in stand if each not in old)]

    def _besides(self, query: str) -> list[str]:
        """The other tools that the request needs, as the model says, if the query has a word of
        their own name: a small model names tools that have nothing to do with it. One that could
        write a file takes the place of the edits."""
        assert self.tool
        said = {*words(query)} - {*words(self.tool.name)}
        return [
            tool.name for tool in self._needed if said & {*words(tool.name)} and not _writes(tool)
        ]

    def _edits(self, changed: Mapping[str, Sequence[Change]]) -> list[Edit]:
        """The edits that make the changes of these files."""
        return [
            edit
            for path, some in changed.items()
            for edit in rewriting.edits(path, self._texts[path], some)
        ]

    async def make(self, found: Sequence[Edit]) -> FromRecord:
        """Make these edits, with a step for each file. All are planned before the first is made. If
        there are not enough calls for all of them, each file is changed by one; if there are still
        not enough, none is made."""
        assert self.tool
        tool = self.tool.name
        files = rewriting.by_file(found)
        if sum(len(self.calls(some)) for _, some in files) > self.budget.calls_left:
            files = [(path, rewriting.as_one(self._texts[path], some)) for path, some in files]
        calls = {path: self.calls(changed) for path, changed in files}
        if (needed := sum(map(len, calls.values()))) > self.budget.calls_left:
            there_are = counted(self.budget.calls_left, "iteration")
            raise LimitReached(f"it takes {needed} calls, and the run has {there_are} left")
        steps = {
            path: shortened(
                flat(f"Change {path}: {'; '.join(each.shown for each in changed)}"), MAX_TOLD_CHARS
            )
            for path, changed in files
        }
        self.steps.plan([*steps.values()], dict.fromkeys(steps.values(), tool))
        shown: list[str] = []
        for path, changed in files:
            await self.steps.start(steps[path])
            for arguments in calls[path]:
                call = Call(prompt=steps[path], tool=tool)
                await self.caller.call(call, given=arguments)
            done = [each for each in changed if self.made(each)]
            differing = await self.differing(done) if done else []
            if differing:
                self.best.doubt(f"{path} is not as the change was to leave it")
            self.steps.end(success=done == changed and not differing)
            if done and (made := [each for each in differing or done if each.lost or each.added]):
                shown.append(f"{path}\n{rewriting.fence(made)}")
            if path != files[-1][0]:
                self.budget.hold()
        for name in self.rewriter.names if self.gatherer.search else ():  # a search may be cut off
            if left := await self.gatherer.holding(name):
                self.best.doubt(f"{name} still stands in {', '.join(left)}")
        unchanged = f"No change is seen in {', '.join(steps)}."
        return FromRecord(final_answer="\n\n".join(shown) or unchanged)

    def made(self, edit: Edit) -> bool:
        """Whether a call has made this edit."""
        calls = (each for each in self.state.part_iterations if each.changed)
        texts = [{*strings(each.arguments)} for each in calls]
        return any({edit.path, edit.old, edit.new} <= each for each in texts)

    async def differing(self, made: Sequence[Edit]) -> list[Edit]:
        """The file before and after these edits of it, where it reads otherwise than they leave it;
        empty where it does not. A tool may change other places as well, or none and call that a
        success."""
        path, before = made[0].path, self._texts[made[0].path]
        text = await self.gatherer.text(path)
        if text is None:
            return [*made]
        same = plain(text) == plain(rewriting.applied(before, made))
        return [] if same else [Edit(path, plain(before), plain(text))]

    def calls(self, found: Sequence[Edit]) -> list[Arguments]:
        """The arguments of the calls that make these edits of one file: of a single call where the
        tool takes a list of them."""

        def put(value: Any, edit: Edit) -> Any:
            match value:
                case str():
                    return {OLD: edit.old, NEW: edit.new}.get(value, value)
                case dict():
                    return {name: put(each, edit) for name, each in value.items()}
                case [one] if {OLD, NEW} <= {*strings(one)}:
                    return [put(one, each) for each in found]
                case list():
                    return [put(each, edit) for each in value]
            return value

        made = [put(self._example, each) | {self._path: each.path} for each in found]
        return [call for number, call in enumerate(made) if call not in made[:number]]

    async def _files(self, request: str) -> list[str]:
        """The files that have to change, as the model says, out of those in view and those that the
        request names."""
        reader = self.gatherer.reader
        ours = ("", self.asker.tools[reader].upstream if reader else "")  # no documentation
        texts: dict[str, str] = {}
        for each in sorted(self.state.passages, key=lambda each: each.first):
            if each.upstream in ours:
                before = texts.get(each.source)
                texts[each.source] = f"{before}\n...\n{each.text}" if before else each.text
        named_ = paths_said(request)
        for path in named_:
            if "/" in path and path not in texts and (text := await self.gatherer.text(path)):
                texts[path] = text
        best = dict.fromkeys([*named_, *(each.source for each in self.state.passages)])
        shown = {path: texts[path] for path in best if path in texts}
        chosen = dict([*shown.items()][:MAX_FILES])
        files = await self.questions.files_to_change(chosen) if chosen else []
        return best_edits.files_for(request, files, chosen, {*self.gatherer.absent})


def _paths(tool: ToolSpec) -> list[str]:
    return [name for name in tool.required if takes_path(name)]


def _edits_files(tool: ToolSpec) -> bool:
    """Whether a tool could take a file's path and two texts."""
    return len(_paths(tool)) == 1 and len(validation.texts(tool.grammar)) > 2


def _writes(tool: ToolSpec) -> bool:
    """Whether a tool could take a file's path and a text for it."""
    return bool(_paths(tool)) and len(validation.texts(tool.grammar)) > len(_paths(tool))
