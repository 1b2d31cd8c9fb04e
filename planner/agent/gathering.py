"""Gathering: from a question to the passages that may answer it, through the pool's own tools.

A text search says which files speak of the words; the best of them are read whole and divided into
passages, and those are ranked. Where a pool has no such search, a model says which of its tools
list files and read them, and files are read by the words in their paths (`file_listing`). Where it
has no files either, nothing can be gathered and a plan chooses the tools.
"""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from planner.agent.closeness import MAX_COMPARED, likeness, near
from planner.agent.documentation import Documentation
from planner.agent.file_listing import FileListing
from planner.agent.in_time import in_time
from planner.agent.outlines import Outlines
from planner.agent.pages import Pages
from planner.agent.tool_calls import Caller
from planner.checks.guards.results import empty
from planner.events import PassagesGathered
from planner.evidence import hits
from planner.evidence.best_files import best_files, defining_files
from planner.evidence.context import reading_characters
from planner.evidence.definitions import lines_with
from planner.evidence.file_text import file_text
from planner.evidence.hits import Hit
from planner.evidence.listing import is_path_of, paths_said, without_paths
from planner.evidence.overviews import listed
from planner.evidence.passages import of_file
from planner.evidence.ranking import NOT_COMPARED, Alike, named_in, ranked, undefined
from planner.evidence.search_terms import MAX_TERMS, absent, in_any_case, search_terms, spelled_out
from planner.evidence.selection import (
    fitting,
    foremost,
    selected,
    size,
    valued,
    with_uses,
)
from planner.evidence.words import tokens
from planner.passage import Passage
from planner.state import Iteration
from planner.tools import Outcome, names_of

MAX_SINGLE = 10
"""The words that are searched for one by one."""
MAX_FAILED = 3
"""Of them in a row, that the search refuses before it is taken for one that does not work."""
CUT_AT = 10
"""Limits of searches are multiples of this number of lines."""
MAX_FILES = 6
"""Files that are read whole for one question."""
MAX_NAMED = 12
"""Paths of one question that are looked for; a log in it may have hundreds."""
INTRODUCTION = "README.md"
"""The file in which a project says what it is."""
MAX_DEFINING = 4
"""Files read for what the definitions in these mention, for a long answer."""
DOCUMENTED_SHARE = 0.7
"""The share of what is shown that documentation gets, if there is any."""
INTRODUCTION_SHARE = 0.1
"""The share of what is shown for a long answer that the project's own introduction gets."""


class _Candidates(NamedTuple):
    """What a look-up found: passages of the project, and of documentation and web pages."""

    question: str
    more: Sequence[str]
    alike: Alike
    passages: Sequence[Passage]
    documented: Sequence[Passage]
    outlines: Sequence[Passage]
    named: Sequence[str]  # paths
    tool: str  # what found the passages
    afresh: bool  # whether passages that were shown before are shown again


class Gatherer:
    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.state = caller.state
        read = caller.read_only
        self.search = next((tool for tool in read if tool.text_argument), None)
        self.find = next((tool for tool in read if tool.name_argument), None)
        self.read = next((tool for tool in read if tool.file_argument), None)
        self.documentation = Documentation(caller)
        self.pages = Pages(caller)
        self.files = FileListing(caller)
        self.outlines = Outlines(caller)
        self.candidates: _Candidates | None = None
        """What the newest look-up found."""
        self.plain_patterns = False
        """Whether the search refused all patterns with flags: a dialect such as JavaScript's or
        POSIX's has none."""
        self.tool_names = {name.casefold() for name in names_of(caller.tools)}
        self.absent: list[str] = []
        """The names of the question, and words that the model searched for, that no file has."""
        library, documents = self.documentation.library, self.documentation.documents
        used = (self.search, self.read, library, documents)
        self.upstreams = {tool.upstream for tool in used if tool}

    @property
    def can_look_up(self) -> bool:
        """Whether other words may lead to other passages."""
        return self.search is not None or self.files.tools is not None

    @property
    def reader(self) -> str | None:
        """The name of the tool that reads a file, if one is known."""
        read = self.read or (self.files.tools and self.files.tools[1])
        return read.name if read else None

    async def gather(
        self, question: str, more: Sequence[str] = (), *, afresh: bool = False
    ) -> list[Passage]:
        """The passages for a question, as an event too; `more` are words beside its own. Those that
        stand in the prompt already are left out, unless it is to be read `afresh`."""
        first = len(self.state.iterations)
        searched, found = await in_time(self.caller, partial(self._look_up, question, more, afresh))
        self.candidates = found
        shown = self._shown(found, self.state.passages)
        if len(self.state.iterations) == first:  # all calls were made before
            if not (shown and searched):
                return []
            self.caller.recall(searched)  # what it led to before stays as it is in the prompt
        newest = len(self.state.iterations) - 1
        self.caller.emit(PassagesGathered(iteration=newest, query=question, passages=shown))
        return shown

    async def _look_up(
        self, question: str, more: Sequence[str], afresh: bool
    ) -> tuple[Iteration | None, _Candidates]:
        """The search or the listing that led to what was found for a question."""
        self.absent = []
        documented = await self.pages.passages(question)
        named: list[str] = []
        if self.search:
            searched, found = await self._searched(question, more)
            asked = paths_said(question)[:MAX_NAMED]
            named = [path for name in asked for path in await self._file(name, found)]
            files = list(dict.fromkeys([*named, *best_files(found, question, more)]))[:MAX_FILES]
            if self._long or not files:
                introduction = (await self._file(INTRODUCTION, []))[:1]
                files += [path for path in introduction if path not in files]
            read = await self._read(files)
            known = [*read, *_unread(found, read)]
            alike = await self._alike(known, question, more)
            used, defining = await self._defined(known, question, more, alike)
            if self._long:
                further = [path for path in defining if path not in files]
                read += await self._read(further[:MAX_DEFINING])
            passages = [*read, *_unread(dict.fromkeys([*found, *used]), read)]
            documented += await self.documentation.passages(
                self.search, question, more, found, self.absent, read
            )
        else:
            searched, passages = await self.files.passages(question, more)
            alike = await self._alike(passages, question, more)
        closeness = await self._alike(documented, question, more)
        documented = ranked(documented, question, " ".join(more), closeness)
        words = without_paths(question, named)
        outlines = await self.outlines.passages(passages, words)
        tool = searched.tool if searched else ""
        return searched, _Candidates(
            question, more, alike, passages, documented, outlines, named, tool, afresh
        )

    async def text(self, path: str) -> str | None:
        """A file as a whole; None where it cannot be read."""
        if self.read:
            read: Iteration | None = await self.caller.look_up(self.read, path, f"read {path}")
        else:
            read = await self.files.read(path)
        return file_text(read.result) if read and read.succeeded else None

    async def holding(self, name: str) -> list[str]:
        """The files in which a name stands."""
        if self.search:
            _, found = await self._lines([name], name)
            paths = [hit.path for hit in found if name in tokens(hit.text)]
        else:
            known = self.candidates.passages if self.candidates else ()
            paths = [each.source for each in known if name in tokens(each.text)]
        return list(dict.fromkeys(paths))

    async def further(self, groups: Sequence[list[Passage]]) -> list[list[Passage]]:
        """Those after the first of these groups of passages that may add something."""
        encoder, state = self.caller.asker.models.encoder, self.state
        return (await near(encoder, groups, state.question, state.search))[1:]

    def select_again(self) -> None:
        """Other passages of the newest look-up in place of those shown, for what the request wants
        now."""
        newest = last_gathered(self.state.iterations)
        if newest is None or self.candidates is None:
            return
        before = [
            passage
            for each in self.state.iterations
            if each.gathered and each is not newest
            for passage in each.gathered.passages
        ]
        shown = self._shown(self.candidates, before)
        question = self.candidates.question
        self.caller.emit(PassagesGathered(iteration=newest.number, query=question, passages=shown))

    async def _searched(
        self, question: str, more: Sequence[str]
    ) -> tuple[Iteration | None, list[Hit]]:
        """The search for the lines that hold a word of the question. Where that is too much for
        the tool, for each word by itself: one that is still too much stands everywhere and tells
        nothing."""
        terms = search_terms(question, more)
        if not terms:
            return None, []
        iteration, found = await self._lines(terms, question, more)
        if found or (iteration.succeeded and empty(iteration.result)):
            if found and len(found) % CUT_AT == 0:
                found = await self._completed(terms, found, question, more)
            nowhere = absent(question, more, terms, found)
            self.absent = [each for each in nowhere if each.casefold() not in self.tool_names]
            return iteration, found
        if iteration.outcome not in (Outcome.SUCCESS, Outcome.FAILURE):
            return None, []
        newest, lines = await self._one_by_one(terms, question, more)
        if lines or iteration.succeeded or self.plain_patterns:
            return newest, lines
        self.plain_patterns = True
        return await self._searched(question, more)

    async def _one_by_one(
        self, terms: Sequence[str], question: str, more: Sequence[str]
    ) -> tuple[Iteration | None, list[Hit]]:
        """The newest search for one of these words that found something, and what all of them
        found."""
        newest: Iteration | None = None
        lines: list[Hit] = []
        failed = 0
        for term in terms[:MAX_SINGLE]:
            iteration, found = await self._lines([term], question, more)
            if found:
                newest, lines = iteration, [*lines, *found]
            failed = failed + 1 if iteration.outcome is Outcome.FAILURE else 0
            if failed == MAX_FAILED:
                break
        return newest, list(dict.fromkeys(lines))

    async def _completed(
        self, terms: Sequence[str], found: list[Hit], question: str, more: Sequence[str]
    ) -> list[Hit]:
        """What a search found, which may have ended at its tool's limit: if the words that were not
        found, or else the rarest, bring lines of their own, each word is searched for."""
        lower = [hit.text.lower() for hit in found]
        count = {term: sum(term.lower() in text for text in lower) for term in terms}
        rare = [term for term in terms if not count[term]] or [min(terms, key=count.__getitem__)]
        _, lines = await self._lines(rare, question, more)
        if {*lines} <= {*found}:
            return found
        _, single = await self._one_by_one(terms, question, more)
        return list(dict.fromkeys([*found, *lines, *single]))

    async def _lines(
        self, terms: Sequence[str], question: str, more: Sequence[str] = ()
    ) -> tuple[Iteration, list[Hit]]:
        """The search for these terms of a question, and the lines it found."""
        pattern = f"(?i){'|'.join(map(re.escape, terms))}"
        if self.plain_patterns:
            pattern = "|".join(map(in_any_case, terms))
        return await self._look_for(pattern, spelled_out(terms, question, more))

    async def _look_for(self, pattern: str, words: Sequence[str]) -> tuple[Iteration, list[Hit]]:
        """The search for a pattern, which stands for these words, and the lines it found."""
        assert self.search
        purpose = f"find {', '.join(words)}"
        iteration = await self.caller.look_up(self.search, pattern, purpose)
        return iteration, hits.of_search(iteration.result) if iteration.succeeded else []

    async def _file(self, name: str, found: Sequence[Hit]) -> list[str]:
        """The paths in the project of a file, by its name or path."""
        known = dict.fromkeys(hit.path for hit in found)
        paths = [path for path in known if is_path_of(name, path)]
        last = name.rstrip("/").rsplit("/", 1)[-1]
        if not paths and self.find and last:
            iteration = await self.caller.look_up(self.find, last, f"find the file {last}")
            if iteration.succeeded:
                pattern = rf"(?<![\w./@+-])[\w./@+-]*{re.escape(last)}(?![\w-])"
                paths = [each.removeprefix("./") for each in re.findall(pattern, iteration.result)]
        return sorted(paths, key=len)[:2]

    async def _read(self, files: Sequence[str]) -> list[Passage]:
        """The passages of these files, of those that can be read."""
        passages: list[Passage] = []
        for path in files if self.read else ():
            assert self.read
            if (text := await self.text(path)) is not None:
                passages += of_file(path, text, self.read.upstream)
        return passages

    async def _alike(
        self, passages: Sequence[Passage], question: str, more: Sequence[str]
    ) -> Alike:
        """How close the likeliest of these passages are to the question in meaning, unless there
        is room for all of them."""
        if size(passages) <= self._room:
            return NOT_COMPARED
        likeliest = ranked(passages, question, " ".join(more))[:MAX_COMPARED]
        return await likeness(self.caller.asker.models.encoder, likeliest, question, more)

    async def _defined(
        self, passages: Sequence[Passage], question: str, more: Sequence[str], alike: Alike
    ) -> tuple[list[Hit], list[str]]:
        """The lines that have a name which the best passages mention and none defines, such as a
        constant's value for a function that uses it or the base of a class; and the files that
        define one."""
        best = ranked(passages, question, " ".join(more), alike)
        names = named_in(passages, question)
        having = (line for each in best for line in lines_with(each, names))
        top = [*valued(having, names), *foremost(best, names)]
        missing = undefined(passages, top)[:MAX_TERMS]
        if not missing:
            return [], []
        pattern = rf"\b(?:{'|'.join(map(re.escape, missing))})\b"
        if self.plain_patterns:
            pattern = "|".join(map(re.escape, missing))
        _, found = await self._look_for(pattern, missing[:6])
        return found, defining_files(found, {*missing})

    def _shown(self, found: "_Candidates", before: Sequence[Passage]) -> list[Passage]:
        """What is shown of the passages: of the documentation and of the project, without those
        that stand in the prompt already (`before`), unless they are to be read afresh."""
        question, more, alike, passages, documented, outlines, named, tool, afresh = found
        before = [] if afresh else before
        certain: list[Passage] = []
        if self._long and not documented:
            certain, likely = listed(passages, question, named, tool)
            certain = fitting(certain, self._room, before)
            outlines = [*outlines, *likely]
        room = self._room - size(certain)
        library = fitting(documented, round(room * DOCUMENTED_SHARE), before)
        introduction = [each for each in passages if each.source.endswith(INTRODUCTION)]
        kept_back = round(room * INTRODUCTION_SHARE) if self._long and introduction else 0
        inside = fitting(outlines, room - size(library) - kept_back, before)
        left = room - size(library) - size(inside) - kept_back
        shown_before = [*before, *library]
        own = selected(passages, question, more, left, shown_before, alike, whole=self._long)
        if self.search:  # files alone do not tell that nothing else has a name
            names = named_in(passages, question)
            own = [with_uses(each, passages, names) for each in own]
        shown = [*library, *own]
        shown[1:1] = inside  # near the first, and not before it
        introduced = fitting(introduction, room - size(shown), [*before, *shown])
        return [*certain, *shown, *introduced]

    @property
    def _room(self) -> int:
        """The characters of passages that are shown."""
        return reading_characters(self.state, self.caller.asker.models.full.context_tokens)

    @property
    def _long(self) -> bool:
        return self.state.wants == "long answer"


def _unread(found: Iterable[Hit], read: Sequence[Passage]) -> list[Passage]:
    """The lines found in files that were not read."""
    sources = {each.source for each in read}
    return hits.as_passages([hit for hit in found if hit.path not in sources])


def last_gathered(iterations: Sequence[Iteration]) -> Iteration | None:
    """The newest iteration that has passages."""
    gathered = (each for each in iterations[::-1] if each.gathered and each.gathered.passages)
    return next(gathered, None)
