"""What the documentation says of the libraries that a question names, through the tools that an
operator has declared for it.
"""

import re
from collections.abc import Iterable, Sequence

from planner.agent.tool_calls import Caller
from planner.evidence import hits
from planner.evidence.hits import Hit
from planner.evidence.passages import of_document
from planner.evidence.words import named, says, tokens, words
from planner.passage import Passage
from planner.tools import ToolSpec

MIN_NAME = 3
"""Characters of a library's name."""
MAX_LIBRARIES = 2
"""Libraries that are looked up for one question."""
_LOCKED = re.compile(r"(?:[.-]lock(?:\.\w+)?|\.sum)$")
"""Files that list all that libraries need themselves."""
USE = (
    r"(?i)(?:^\s*from\s+(?:NAMES)[\w.]*\s+import\b|^\s*import\s+(?:\w+,\s*)*(?:NAMES)\b"
    r"|^\s*(?:pub\s+)?use\s+(?:NAMES)::|^\s*using\s+(?:NAMES)\s*[.;]"
    r"|^\s*#\s*include\s*[<\"](?:NAMES)\b|^\s*import\s+[\w.]*\b(?:NAMES)\b[\w.*]*;"
    r"|\b(?:from|require|import)\s*\(?\s*[\"'](?:NAMES)[\"'/]"
    r"|[\"'](?:NAMES)[\"']\s*:\s*[\"'][\^~<>=*\d]|[\"'](?:NAMES)(?:\[[\w,]*\])?\s*[<>=~!]=?\s*\d"
    r"|^(?:NAMES)\s*(?:=\s*(?:[\"'][\^~<>=*\d]|\{)|[<>=~!]=\s*\d|$))"
)
"""How most languages, and the files that list what a project needs, name a library."""


class Documentation:
    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        read = caller.read_only
        self.library = next((tool for tool in read if tool.library_argument), None)
        self.documents = next((tool for tool in read if tool.identifier_argument), None)

    async def passages(
        self, search: ToolSpec, question: str, more: Sequence[str], found: Sequence[Hit]
    ) -> list[Passage]:
        """What the documentation says of the libraries that the question names: those that the
        project uses, and any where the question names the documentation itself."""
        if self.library is None or self.documents is None:
            return []
        passages: list[Passage] = []
        topic = " ".join([question, *more])  # its words are English, whatever the question is
        for name in await self._named(search, question, more, found):
            purpose = f"find the library {name}"
            known = await self.caller.look_up(self.library, name, purpose, topic)
            identifier = _identifier(known.result, name.partition(".")[0])
            if not known.succeeded or identifier is None:
                continue
            purpose = f"read the documentation of {name}"
            read = await self.caller.look_up(self.documents, identifier, purpose, topic)
            if read.succeeded:
                passages += of_document(identifier, read.result, self.documents.upstream)
        return passages

    async def _named(
        self, search: ToolSpec, question: str, more: Sequence[str], found: Sequence[Hit]
    ) -> list[str]:
        """The names in a question of libraries that the project uses; of any, the brief's first,
        where the question names their documentation."""
        assert self.documents
        own = {part.partition(".")[0].lower() for hit in found for part in hit.path.split("/")}
        chosen, marked = {*words("\n".join(more))}, named(question)
        marked |= {each for each in tokens(question) if each[0].isupper()}
        spelled = [  # other words of a question are the names of libraries too, such as "which"
            each
            for each in re.findall(r"[^\W\d_][\w-]+(?:\.\w+)?", question)
            if each in marked or "-" in each or chosen.issuperset(words(each.partition(".")[0]))
        ]
        spelled += [name.partition(".")[0] for name in spelled]  # commander.js is used as commander
        said = {*words(question)}
        spelled += [term for term in more if said >= {*words(term)}]
        names = {name.lower(): name for name in spelled if len(name) >= MIN_NAME}
        names = {key: name for key, name in names.items() if key not in own}
        names.pop(self.documents.upstream.lower(), None)
        if not names:
            return []
        purpose = "look for a library that the project uses"
        used = await self.caller.look_up(search, _use(names), purpose)
        lines = hits.of_search(used.result) if used.succeeded else []
        lines = [each for each in lines if not _LOCKED.search(each.path)]
        kept = [
            name
            for key, name in names.items()
            if any(re.search(_use([key]), line.text) for line in lines)
        ]
        if not kept and says(question, self.documents.upstream):
            kept = [name for key, name in names.items() if key in {term.lower() for term in more}]
        return kept[:MAX_LIBRARIES]


def _use(names: Iterable[str]) -> str:
    """A pattern of the lines that use one of these libraries."""
    return USE.replace("NAMES", "|".join(map(re.escape, names)))


def _identifier(listed: str, library: str) -> str | None:
    """The first identifier such as `/org/project` that has a library's name in it."""
    marked = (re.match(r"/[\w./-]*", each) for each in listed.split())
    found = (each[0] for each in marked if each)
    return next((each for each in found if library.casefold() in each.casefold()), None)
