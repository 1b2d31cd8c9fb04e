"""Lines of a project's code, as searches and files gave them, and what they say of each other.

It knows the shape of code (definitions, indentation, imports), not its grammar: it has to serve any
language a little, and lines with gaps between them.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from planner.context import readable

LONGEST_LINE = 300
"""Characters of a line; minified code has no telling ones."""
BODY_LINES = 10
"""Of a definition, after its head."""
WIDEST_GAP = 3
"""Blank lines between lines of one definition; more may hide another one."""
FARTHEST_SCOPE = 400
"""Lines above a line, in which the function or class is looked for that it stands in."""

_DEFINITION = re.compile(
    r"^\s*(?:export\s+|public\s+|private\s+|static\s+|async\s+|pub\s+|abstract\s+|default\s+)*"
    r"(?:def|class|function|func|fn|const|let|var|type|interface|struct|enum|trait)\s+(\w+)"
    r"|^\s*([A-Za-z_][\w-]*)\s*(?::[^=]+)?=(?!=)"
    r"|^\s*\"?([A-Za-z_][\w-]*)\"?\s*:\s"
)
_SCOPE = re.compile(r"^\s*(?:\w+\s+)*?(def|class|function|func|fn)\s+(\w+)")
_CLASS = re.compile(r"^\s*(?:\w+\s+)*?class\s+(\w+)")
_FUNCTION = re.compile(r"^\s*(?:\w+\s+)*?(?:def|function|func|fn)\s+(\w+)")
_FIELD = re.compile(r"^\s*([A-Za-z_]\w*)\s*(?::[^=]+)?(?:=(?!=)|$)|^\s*([A-Za-z_]\w*)\s*:\s*\w")
_PARAMETER = re.compile(r"\s*\*{0,2}\s*(\w+)\s*(?::[^=]*)?(?:=(.*))?$")
_GIVEN = re.compile(r"^\s*([A-Za-z_]\w*)\s*(?::[^=]+)?=\s*([^#]+)")
_TEXT = re.compile(r"""^\s*(?:\"{3}|'{3})(.+?)(?:\"{3}|'{3})?\s*$""")
_COMMENT = re.compile(r"^\s*(?:#:?|//+)\s*(.+)$")
_IMPORT = re.compile(r"^\s*(?:from\s+\S+\s+import|import|use|using|#include)\b")
_CONSTANT = re.compile(r"\b_?[A-Z][A-Z0-9_]{3,}\b")
_BASES = re.compile(r"^\s*class\s+\w+\((.*)\)|^\s*(?:\w+\s+)*class\s+\w+\s+extends\s+([\w.]+)")
_LINE = re.compile(r"([^\s:]+):(\d+):(.*)")


class Line(NamedTuple):
    """One line of the project."""

    path: str
    number: int
    text: str

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())

    @property
    def defines(self) -> str | None:
        match = _DEFINITION.match(self.text)
        return (match[1] or match[2] or match[3]) if match else None

    @property
    def imports(self) -> bool:
        return _IMPORT.match(self.text) is not None

    @property
    def constants(self) -> list[str]:
        """The names in capitals in it."""
        return list(dict.fromkeys(_CONSTANT.findall(self.text)))

    @property
    def bases(self) -> list[str]:
        """The classes that a class line inherits from."""
        match = _BASES.match(self.text)
        found = (match[1] or match[2] or "") if match else ""
        return re.findall(r"(?<![=\w])[A-Za-z_]\w{2,}(?!\w|\s*=)", found)

    @property
    def is_class(self) -> bool:
        return _CLASS.match(self.text) is not None

    @property
    def is_function(self) -> bool:
        return _FUNCTION.match(self.text) is not None

    def has(self, name: str) -> bool:
        """Whether the name stands in it as a whole word."""
        return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self.text) is not None

    def __str__(self) -> str:
        return f"{self.path}:{self.number}:{self.text}"


class Lines:
    """The lines known of a project."""

    def __init__(self) -> None:
        self.by_place: dict[tuple[str, int], Line] = {}
        self.whole: set[str] = set()
        """The files of which every line is known."""

    def __bool__(self) -> bool:
        return bool(self.by_place)

    def add(self, result: str) -> list[Line]:
        """Take in a search's result, of rows `path:number:text`; returns its lines."""
        rows = map(_LINE.fullmatch, readable(result).splitlines())
        found = [Line(row[1], int(row[2]), row[3][:LONGEST_LINE]) for row in rows if row]
        self._take(found)
        return found

    def add_file(self, path: str, text: str) -> None:
        """Take in a whole file."""
        rows = enumerate(text.splitlines(), 1)
        self._take([Line(path, number, row[:LONGEST_LINE]) for number, row in rows if row.strip()])
        self.whole.add(path)

    def _take(self, lines: list[Line]) -> None:
        for line in lines:
            self.by_place.setdefault((line.path, line.number), line)
        for derived in ("values", "heads"):  # they follow from the lines
            self.__dict__.pop(derived, None)

    @cached_property
    def heads(self) -> dict[str, list[Line]]:
        """The lines that define a name, by the name; those in tests last."""
        found: dict[str, list[Line]] = {}
        for line in self.by_place.values():
            if (name := line.defines) and not line.imports:
                found.setdefault(name, []).append(line)
        return {name: sorted(lines, key=in_tests) for name, lines in found.items()}

    @cached_property
    def values(self) -> dict[str, Line]:
        """The lines that give a constant its value."""
        return {
            name: line
            for name, lines in self.heads.items()
            for line in reversed(lines)
            if _CONSTANT.fullmatch(name) and "=" in line.text
        }

    def definitions(self, names: Iterable[str]) -> list[Line]:
        found = [line for name in dict.fromkeys(names) for line in self.heads.get(name, [])]
        return sorted(found, key=in_tests)

    def about(self, line: Line) -> str:
        """What is said of the value that a line gives: the comment above it, the text below it."""
        if _GIVEN.match(line.text) is None:
            return ""
        below = self.by_place.get((line.path, line.number + 1))
        if below and below.indent == line.indent and (text := _TEXT.match(below.text)):
            return text[1].strip()
        above = self.by_place.get((line.path, line.number - 1))
        if above and above.indent == line.indent and (comment := _COMMENT.match(above.text)):
            return comment[1].strip()
        return ""

    def body(self, head: Line, most: int = BODY_LINES) -> list[Line]:
        """The lines after a definition's first that belong to it, as far as they are known."""
        body: list[Line] = []
        farthest = head.number + 3 * most
        for number in range(head.number + 1, farthest + 1):
            line = self.by_place.get((head.path, number))
            if line is None:
                continue  # a blank line, or one that no search gave
            closes = line.text.lstrip().startswith((")", "]", "}"))
            if len(body) >= most or (line.indent <= head.indent and not closes):
                break
            body.append(line)
        return body

    def scope(self, line: Line) -> str | None:
        """The function or class that a line stands in, as `Class.method`, as far as is known."""
        names: list[str] = []
        if line.text.lstrip().startswith("@"):
            below = (self.by_place.get((line.path, line.number + step)) for step in range(1, 6))
            names = [match[2] for each in below if each and (match := _SCOPE.match(each.text))][:1]
        indent, gap = line.indent, 0
        for number in range(line.number - 1, max(0, line.number - FARTHEST_SCOPE), -1):
            above = self.by_place.get((line.path, number))
            gap = gap + 1 if above is None and line.path not in self.whole else 0
            if gap > WIDEST_GAP:
                break
            if above is None or above.indent >= indent or above.text.lstrip().startswith(")"):
                continue  # the last one ends a signature of several lines
            if match := _SCOPE.match(above.text):
                if not names or match[1] == "class":
                    names.insert(0, match[2])
                if match[1] == "class":
                    break
            indent = above.indent
            if indent == 0:
                break
        return ".".join(names) or None

    def uses(self, names: Iterable[str]) -> list[Line]:
        """The lines that call one of these, or else mention one; tests last."""
        wanted = list(names)
        mentions = [
            line
            for line in self.by_place.values()
            if not line.imports
            and not line.text.lstrip().startswith(("#", "//", "*"))
            and any(line.has(name) and line.defines != name for name in wanted)
        ]
        called = [re.compile(rf"(?<!\w){re.escape(name)}\s*\(") for name in wanted]
        calls = [line for line in mentions if any(each.search(line.text) for each in called)]
        calls = [line for line in calls if not line.is_class]
        return sorted(calls or [line for line in mentions if not line.is_class], key=in_tests)

    def heirs(self, names: Iterable[str]) -> list[Line]:
        """The lines of the classes that inherit from one of these, tests last."""
        wanted = set(names)
        found = [line for line in self.by_place.values() if wanted & set(line.bases)]
        return sorted(found, key=in_tests)

    def methods(self, head: Line) -> list[str]:
        """The functions in the body of a class."""
        return [
            match[1]
            for line in self._members(head)
            if (match := _FUNCTION.match(line.text)) is not None
        ]

    def fields(self, head: Line) -> list[str]:
        """What the body of a class gives a value or a type."""
        found = [
            match[1] or match[2]
            for line in self._members(head)
            if not line.is_function and (match := _FIELD.match(line.text)) is not None
        ]
        return [name for name in found if name not in ("pass", "return")]

    def _members(self, head: Line) -> list[Line]:
        """The lines of a body that stand directly in it."""
        body = [line for line in self.body(head, most=2000)]
        body = _without_signature(head, body)
        least = min((line.indent for line in body), default=0)
        return [line for line in body if line.indent == least]

    def parameters(self, head: Line) -> dict[str, str | None]:
        """The parameters of a function with their defaults, without `self` and `cls`."""
        text = head.text.partition("(")[2]
        for line in self.body(head, most=60):
            if _balanced("(" + text):
                break
            text += " " + line.text.strip()
        parts, part, depth = [], "", 1
        for letter in text:
            depth += (letter in "([{") - (letter in ")]}")
            if depth == 0:
                break
            if letter == "," and depth == 1:
                parts.append(part)
                part = ""
            else:
                part += letter
        found = [_PARAMETER.match(each) for each in [*parts, part]]
        return {
            match[1]: match[2].strip() if match[2] else None
            for match in found
            if match and match[1] not in ("self", "cls")
        }

    def defaults(self, head: Line) -> dict[str, str]:
        """What a function's parameters, or a class's fields, are if nobody says otherwise."""
        if head.is_function:
            found = self.parameters(head)
            return {name: value for name, value in found.items() if value is not None}
        members = self._members(head)
        given = [match for line in members if (match := _GIVEN.match(line.text))]
        values = {match[1]: match[2].strip() for match in given}
        for line in members:
            if line.defines == "__init__":
                values |= self.defaults(line)
        return values

    def around(self, line: Line, lines: int) -> list[Line]:
        """The known lines of its file at most so many lines away, itself included."""
        numbers = range(line.number - lines, line.number + lines + 1)
        found = (self.by_place.get((line.path, number)) for number in numbers)
        return [each for each in found if each]

    def purpose(self, path: str) -> str:
        """What a file says of itself: the first line of its docstring, or of its first comment."""
        for line in self.of(path)[:3]:
            inside = line.number == 2 and (path, 1) in self.by_place
            says = inside or line.text.startswith(('"', "'", "#", "/"))
            if says and (text := line.text.strip(" \"'#/*")):
                return text
        return ""

    def of(self, path: str) -> list[Line]:
        """The known lines of a file, in order."""
        found = [line for line in self.by_place.values() if line.path == path]
        return sorted(found, key=lambda line: line.number)


def _balanced(text: str) -> bool:
    return text.count("(") <= text.count(")")


def _without_signature(head: Line, body: list[Line]) -> list[Line]:
    """The body without the further lines of a head that takes several."""
    text = head.text
    for index, line in enumerate(body):
        if _balanced(text):
            return body[index:]
        text += line.text
    return body if _balanced(head.text) else []


def in_tests(line: Line) -> bool:
    return re.search(r"(?:^|[/_])tests?(?:[/_.]|$)", line.path) is not None
