"""What the documentation says of the libraries that a question names, through the tools that an
operator has declared for it.
"""

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

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
"""Libraries of the project that are looked up for one question."""
MAX_LINE = 400
"""Characters of a line that may import a library; longer ones are no source."""
MAX_OTHERS = 3
"""Names that may be those of other libraries."""
_WORD = r"[^\W\d_][\w-]+"
_LOCKED = re.compile(r"(?:[.-]lock(?:\.\w+)?|\.sum)$")
"""Files that list all that libraries need themselves."""
_LISTED = (
    r"[\"'](?:NAMES)[\"']\s*:\s*[\"'](?:[\^~<>=]+\s*\d|\d+\.[\dx*]|\*[\"'])"
    r"|[\"'](?:NAMES)(?:\[[\w,]*\])?\s*(?:[<>~!=]=|[<>])\s*\d[\w.*]*\s*[\"',;]"
    r"|^(?:NAMES)\s*=\s*(?:[\"'][\^~<>=]*\d{1,3}(?:\.[^\"']*)?[\"']|\{\s*[a-z]+\s*=)"
    r"|^(?:NAMES)\s*[<>~!=]=\s*\d"
    r"|\bgem\s+[\"'](?:NAMES)[\"']|_dependency\s*\(?\s*[\"'](?:NAMES)[\"']"
)
"""How the files that list what a project needs name a library."""
_IMPORTED = (
    r"^\s*from\s+(?:NAMES)[\w.]*\s+import\b|^\s*import\s+(?:\w+,\s*)*(?:NAMES)\b"
    r"|^\s*(?:pub\s+)?use\s+(?:NAMES)::|^\s*using\s+(?:NAMES)\s*[.;]"
    r"|^\s*#\s*include\s*[<\"](?:NAMES)\b|^\s*import\s+[\w.]*\b(?:NAMES)\b[\w.*]*;"
    r"|\b(?:from|require|import)\s*\(?\s*[\"'](?:NAMES)[\"'/]"
)
"""How most languages name a library."""
USE = rf"(?i)(?:{_IMPORTED}|{_LISTED}|^(?:NAMES)$)"
"""How they and these files do."""
_PLAIN_USE = (
    r"(?i)(?:^\s*from\s+(?:NAMES)(?:\.\w+)*\s+import\b"
    r"|^\s*import\s+(?:\w+,\s*)*(?:NAMES)(?:\.[\w.]*)?\s*(?:,|#|as\b|$)"
    r"|^\s*(?:pub\s+)?(?-i:use\s+(?:NAMES)::)|^\s*using\s+(?:NAMES)\s*[.;]"
    r"|^\s*#\s*include\s*[<\"](?:NAMES)/"
    rf"|^\s*import\s+(?!javax?\.)(?:\w+\.)*(?:NAMES)\.[\w.*]*;|{_LISTED})"
)
"""The same for a word like "path", which a language's own modules and all kinds of lines have."""


class Documentation:
    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        read = caller.read_only
        self.library = next((tool for tool in read if tool.library_argument), None)
        self.documents = next((tool for tool in read if tool.identifier_argument), None)

    async def passages(
        self,
        search: ToolSpec,
        question: str,
        more: Sequence[str],
        found: Sequence[Hit],
        absent: Collection[str],
        read: Sequence[Passage],
    ) -> list[Passage]:
        """What the documentation says of the libraries that the question names: those that the
        project uses; or else those of the brief's words that no file has, or any of them where the
        question names the documentation itself. If it names something that no file has, it may be
        of a library that the files which were `read` use."""
        if self.library is None or self.documents is None:
            return []
        own = {part.partition(".")[0].lower() for hit in found for part in hit.path.split("/")}
        names = self._spelled(question, more, own)
        used = await self._used(search, names)
        anywhere = says(question, self.documents.upstream)
        others = (term for term in more if term.lower() in names and (anywhere or term in absent))
        passages: list[Passage] = []
        topic = " ".join([question, *more])  # its words are English, whatever the question is
        for name in used[:MAX_LIBRARIES] or dict.fromkeys(islice(others, MAX_OTHERS)):
            passages += await self._of(name, topic, within=bool(used))
        missing = [] if passages else [each for each in named(question) if each in absent]
        if missing:
            listed = await self._used(search, _imported(read, own))
            for name in listed[:MAX_LIBRARIES]:
                told = await self._of(name, topic, within=True)
                if any(says(each.text, one) for each in told for one in missing):
                    passages += told
        return passages

    async def _of(self, name: str, topic: str, *, within: bool) -> list[Passage]:
        """What the documentation of a library says of a topic; nothing if it has none."""
        assert self.library
        assert self.documents
        known = await self.caller.look_up(self.library, name, f"find the library {name}", topic)
        identifier = _identifier(known.result, name.partition(".")[0], within=within)
        if not known.succeeded or identifier is None:
            return []
        purpose = f"read the documentation of {name}"
        read = await self.caller.look_up(self.documents, identifier, purpose, topic)
        if not read.succeeded:
            return []
        return of_document(identifier, read.result, self.documents.upstream)

    def _spelled(self, question: str, more: Sequence[str], own: Collection[str]) -> dict[str, str]:
        """What may name a library in a question, by its lower case; no file of the project's own
        has that name."""
        assert self.documents
        chosen, marked = {*words("\n".join(more))}, named(question)
        marked |= {each for each in tokens(question) if each[0].isupper()}
        spelled = [  # other words of a question are the names of libraries too, such as "which"
            each
            for each in re.findall(rf"{_WORD}(?:\.\w+)?", question)
            if each in marked or "-" in each or chosen.issuperset(words(each.partition(".")[0]))
        ]
        spelled += [name.partition(".")[0] for name in spelled]  # commander.js is used as commander
        said = {*words(question)}
        spelled += [term for term in more if said >= {*words(term)}]
        names = {name.lower(): name for name in spelled if len(name) >= MIN_NAME}
        names.pop(self.documents.upstream.lower(), None)
        return {key: name for key, name in names.items() if key not in own}

    async def _used(self, search: ToolSpec, names: Mapping[str, str]) -> list[str]:
        """Those of these names that are libraries of the project."""
        if not names:
            return []
        purpose = "look for a library that the project uses"
        used = await self.caller.look_up(search, _use(names), purpose)
        lines = hits.of_search(used.result) if used.succeeded else []
        lines = [each for each in lines if not _LOCKED.search(each.path)]
        return [name for name in names.values() if _uses(lines, name)]


def _imported(passages: Iterable[Passage], own: Collection[str]) -> dict[str, str]:
    """The words of the lines in these passages that import a library, by their lower case, without
    the names of the project's own files."""
    importing = re.compile("(?i)" + _IMPORTED.replace("NAMES", _WORD))
    lines = (line for each in passages for line in each.text.splitlines() if len(line) <= MAX_LINE)
    words = (word for line in lines if importing.search(line) for word in re.findall(_WORD, line))
    names = {word.lower(): word for word in words if len(word) >= MIN_NAME}
    return {key: name for key, name in names.items() if key not in own}


def _use(names: Iterable[str], use: str = USE) -> str:
    """A pattern of the lines that use one of these libraries."""
    return use.replace("NAMES", "|".join(map(re.escape, names)))


def _uses(lines: Sequence[Hit], name: str) -> bool:
    """Whether one of these lines uses a library of this name, no module of Python's own."""
    key = name.lower()
    plain = name in (key, name.upper())
    how = USE if not plain else _LISTED if key in sys.stdlib_module_names else _PLAIN_USE
    using = re.compile(_use([key], how))
    return any(
        using.search(line.text)
        or (line.text.strip() == key and "require" in line.path)  # as in requirements.txt
        for line in lines
    )


def _identifier(listed: str, library: str, *, within: bool) -> str | None:
    """The first identifier such as `/org/project` in which a part begins with a library's name, or
    has it `within`."""
    marked = (re.match(r"/[\w./-]*", each) for each in listed.split())
    name = re.escape(library) if within else rf"/{re.escape(library)}(?![^\W_])"
    return next((each[0] for each in marked if each and re.search(name, each[0], re.I)), None)
