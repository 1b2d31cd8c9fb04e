"""Questions about any Python code base, made from what `ast` sees in it.

The two splits share no wording: of each kind's phrasings, those at even places ask in dev, those at
odd places in report. Which symbols are asked for is decided by a hash of their names, so that one
symbol is in one split only and stays there when the code around it changes.
"""

import ast
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from benchmarks.eval.case import SPLITS, Split
from benchmarks.eval.check import Check, file, number, whole
from benchmarks.eval.question import Proof, Question
from benchmarks.eval.source import Constant, Literal, Source, defaults, methods, names_in

Named = TypeVar("Named")

PHRASINGS: dict[str, tuple[str, ...]] = {
    "definition": (
        "In which file and on which line is `{name}` defined?",
        "Where can I find the definition of {name}? I need the file and the line number.",
        "Where is {name} defined? Give file and line.",
        "I am looking for {name}: what file is it defined in, and at what line?",
    ),
    "value": (
        "What is the value of `{name}`?",
        "Which value does the constant {name} have?",
        "What is {name} set to?",
        "Tell me what {name} is in this code.",
    ),
    "default": (
        "What is the default value of the parameter `{parameter}` of `{name}`?",
        "If I call {name} without {parameter}, which value is used for it?",
        "Which default does {name} have for {parameter}?",
        "What does {parameter} default to in {name}?",
    ),
    "caller": (
        "Which function calls `{name}`?",
        "From which function or method is {name} called?",
        "Who calls {name}? Name the function.",
        "What is the name of the function in this project that makes use of {name}?",
    ),
    "base": (
        "In which file is the class defined that {name} inherits from?",
        "{name} has a base class. Which file is that base class in?",
        "Which file defines the base class of `{name}`?",
        "{name} is a subclass. Where is its parent class, in which file?",
    ),
    "uses": (
        "Which constant does the function `{name}` use, and what value does it have?",
        "{name} relies on a constant. What is that constant called and what is its value?",
        "Name the constant that {name} uses, with its value.",
        "The code of {name} depends on one constant: which one, and how is it set?",
    ),
    "methods": (
        "How many methods does the class `{name}` define, special methods such as __init__ "
        "included?",
        "Count the methods of {name}, with those whose names begin with underscores.",
        "How many methods are there in the body of class {name} (count __init__ too)?",
        "What is the number of methods in class {name}, dunder methods included?",
    ),
    "file": (
        "Which file has the code that does this: {summary}?",
        'Where is this implemented: "{summary}"? The file is enough.',
        "In which file is this done: {summary}?",
        "I need the file with the part of the code for this: {summary}.",
    ),
}
NOTHING: tuple[tuple[str, str], ...] = (
    ("Is there a class that sends e-mail in this project?", r"smtp|e-?mail"),
    ("Does this code talk to an FTP server anywhere?", r"\bftp"),
    ("Is there a function called parse_csv_header here?", r"parse_csv|csv_header"),
    ("Does the project define a class named PriceCalculator?", r"price|calculator"),
    ("Does this code base contain anything that draws charts?", r"chart|matplotlib|plotly"),
    ("Is there any code here that makes PDF files?", r"\bpdf|reportlab"),
    ("Is a function rotate_image defined in this project?", r"rotate_image|image_rot"),
    ("Is there a setting for a Bluetooth device?", r"bluetooth"),
)
"""Questions whose answer is no, if the pattern is nowhere in the code base."""
UNKNOWABLE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Who reviewed the last change to {name}?", ()),
    (
        "How many companies use {name} in production?",
        (r"\d+ (?:\w+ )?compan", r"(?:is|are|about|over) \d"),
    ),
    (
        "How many milliseconds did {name} take on average in last month's load test?",
        (r"\d ?(?:ms|milli)", r"(?:is|was|took|about) \d"),
    ),
    ("On which date was the newest bug in {name} reported?", (r"\b(?:19|20)\d\d\b",)),
)
"""Questions that no code can answer, and what an answer to them would say."""


def rank(name: str) -> int:
    """A place in an order that has nothing to do with the code, the same on every machine."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def value_patterns(value: Literal) -> tuple[str, ...]:
    return (whole(str(value)),) if isinstance(value, str | bool) else number(value)


class Asker:
    """Makes one split's questions about one code base.

    `shared`: the code base is the same for both splits, so that each takes its half of the symbols.
    """

    def __init__(self, source: Source, codebase: str, split: Split, *, shared: bool) -> None:
        self.source = source
        self.codebase = codebase
        self.split = split
        self.half = SPLITS.index(split)
        self._shared = shared
        self._paths = list(source.files)
        self._definitions = {each.name: each for each in source.unique()}
        self._constants = source.unique_constants()
        self.asked: set[str] = set()
        """Symbols that a question was made of."""
        self._numbers: dict[str, int] = {}

    # Parts that the generated project uses too.

    def question(
        self,
        kind: str,
        text: str,
        expected: str,
        required: Sequence[Sequence[str]],
        *,
        forbidden: Sequence[str] = (),
        proofs: Sequence[Proof] = (),
        absent: Sequence[str] = (),
    ) -> Question:
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return Question(
            id=f"{self.split}/lookup/{self.codebase.partition('-')[0]}/{kind}-{self._numbers[kind]}",
            family="lookup",
            split=self.split,
            codebase=self.codebase,
            kind=kind,
            wordings=(text,),
            expected=expected,
            check=Check(
                required=tuple(tuple(group) for group in required), forbidden=tuple(forbidden)
            ),
            evidence=tuple((self._line(each),) for each in proofs),
            proofs=tuple(proofs),
            absent=tuple(absent),
        )

    def _line(self, proof: Proof) -> str:
        return self.source.files[proof.path].splitlines()[proof.line - 1].strip()

    def file(self, path: str) -> tuple[str, ...]:
        return file(path, self._paths)

    def proof(self, text: str, path: str | None = None) -> Proof:
        """The first place where the code base has this text. Raises `LookupError`."""
        for each, content in self.source.files.items():
            if path in (None, each) and text in content:
                line = content[: content.index(text)].count("\n") + 1
                return Proof(path=each, line=line, text=text)
        raise LookupError(f"{text!r} is not in {path or self.codebase}")

    def none(self, text: str, absent: str) -> Question:
        return self.question("absence", text, "no", [], absent=[absent])

    def unknowable(self, text: str, forbidden: Sequence[str] = ()) -> Question:
        expected = "could not be found out"
        return self.question("unanswerable", text, expected, [], forbidden=forbidden)

    # Questions of every kind, as many as wanted.

    def make(self, kind: str, most: int) -> list[Question]:
        makers: dict[str, Callable[[], Iterator[Question]]] = {
            "definition": self.definitions,
            "value": self.values,
            "default": self.defaults,
            "caller": self.callers,
            "base": self.bases,
            "uses": self.uses,
            "methods": self.methods,
            "file": self.files,
            "absence": self.absences,
            "unanswerable": self.unanswerables,
        }
        return list(islice(makers[kind](), most))

    def _text(self, kind: str, key: str, **parts: str) -> str:
        phrasings = PHRASINGS[kind][self.half :: 2]
        return phrasings[rank(key) % len(phrasings)].format(**parts)

    def _mine(self, named: Mapping[str, Named]) -> Iterator[tuple[str, Named]]:
        """This split's names that were not asked for yet, in hash order, with what has them."""
        for name in sorted(named, key=rank):
            mine = not self._shared or rank(name) % 2 == self.half
            if mine and name not in self.asked:
                self.asked.add(name)
                yield name, named[name]

    def definitions(self) -> Iterator[Question]:
        plain = {
            name: each for name, each in self._definitions.items() if not each.node.decorator_list
        }
        for name, each in self._mine(plain):
            yield self.question(
                "definition",
                self._text("definition", name, name=name),
                f"{each.path}:{each.line}",
                [self.file(each.path), number(each.line)],
                proofs=[Proof(path=each.path, line=each.line, text=name)],
            )

    def values(self) -> Iterator[Question]:
        for name, each in self._mine(self._constants):
            yield self.question(
                "value",
                self._text("value", name, name=name),
                each.source,
                [value_patterns(each.value)],
                proofs=[self._constant_proof(each)],
            )

    def _constant_proof(self, each: Constant) -> Proof:
        return Proof(path=each.path, line=each.line, text=each.source)

    def defaults(self) -> Iterator[Question]:
        found = {}
        for name, each in self._definitions.items():
            if not isinstance(each.node, ast.ClassDef) and (pairs := list(defaults(each.node))):
                found[name] = (each, pairs)
        for name, (each, pairs) in self._mine(found):
            parameter, line, value = pairs[0]
            yield self.question(
                "default",
                self._text("default", name, name=name, parameter=parameter),
                repr(value),
                [value_patterns(value)],
                proofs=[Proof(path=each.path, line=line, text=parameter)],
            )

    def callers(self) -> Iterator[Question]:
        found = {}
        for name, each in self._definitions.items():
            callers = self.source.callers.get(name, [])
            known = {caller.name for caller in callers}
            if not each.is_class and len(known) == 1 and name not in known:
                (only,) = known
                if only in self._definitions:
                    found[name] = callers[0]
        for name, caller in self._mine(found):
            yield self.question(
                "caller",
                self._text("caller", name, name=name),
                f"{caller.name} in {caller.path}",
                [[whole(caller.name)]],
                proofs=[Proof(path=caller.path, line=caller.line, text=caller.name)],
            )

    def bases(self) -> Iterator[Question]:
        found = {}
        for name, each in self._definitions.items():
            if not isinstance(each.node, ast.ClassDef) or len(each.node.bases) != 1:
                continue
            for base in names_in(each.node.bases[0]) & set(self._definitions):
                if self._definitions[base].path != each.path:
                    found[name] = self._definitions[base]
        for name, base_class in self._mine(found):
            each = self._definitions[name]
            yield self.question(
                "chain",
                self._text("base", name, name=name),
                f"{base_class.path} ({base_class.name})",
                [self.file(base_class.path)],
                proofs=[
                    Proof(path=base_class.path, line=base_class.line, text=base_class.name),
                    Proof(path=each.path, line=each.line, text=name),
                ],
            )

    def uses(self) -> Iterator[Question]:
        found = {}
        for name, each in self._definitions.items():
            used = {used for used in names_in(each.node) if used.isupper() and len(used) > 1}
            if not each.is_class and len(used) == 1 and used <= set(self._constants):
                found[name] = self._constants[used.pop()]
        for name, constant in self._mine(found):
            yield self.question(
                "chain",
                self._text("uses", name, name=name),
                f"{constant.name} = {constant.source}",
                [[whole(constant.name)], value_patterns(constant.value)],
                proofs=[self._constant_proof(constant)],
            )

    def methods(self) -> Iterator[Question]:
        found = {}
        for name, each in self._definitions.items():
            if isinstance(each.node, ast.ClassDef):
                counted = methods(each.node)
                if 3 <= len(counted) <= 9 and len(set(counted)) == len(counted):
                    found[name] = len(counted)
        for name, count in self._mine(found):
            each = self._definitions[name]
            yield self.question(
                "count",
                self._text("methods", name, name=name),
                str(count),
                [number(count)],
                proofs=[Proof(path=each.path, line=each.line, text=name)],
            )

    def files(self) -> Iterator[Question]:
        """By a docstring's own words: code cannot paraphrase them and stay sure of the answer."""
        found = {}
        text = self.source.text
        for name, each in self._definitions.items():
            summary = each.summary
            plain = re.fullmatch(r"[A-Z][\w ,'()-]*\w", summary)  # no markup
            if plain and 6 <= len(summary.split()) <= 16 and text.count(summary) == 1:
                found[name] = summary[0].lower() + summary[1:]
        for name, summary in self._mine(found):
            each = self._definitions[name]
            yield self.question(
                "file",
                self._text("file", name, summary=summary),
                each.path,
                [self.file(each.path)],
                proofs=[Proof(path=each.path, line=each.line, text=name)],
            )

    def absences(self) -> Iterator[Question]:
        """The code bases begin at different places of the list, so that each asks another."""
        fitting = [
            (text, absent)
            for text, absent in NOTHING[self.half :: 2]
            if not re.search(absent, self.source.text, re.IGNORECASE)
        ]
        first = len(self.codebase)
        for index in range(len(fitting)):
            yield self.none(*fitting[(first + index) % len(fitting)])

    def unanswerables(self) -> Iterator[Question]:
        kinds = UNKNOWABLE[self.half :: 2]
        mine = self._mine(self._definitions)
        for index, (name, _) in enumerate(mine, len(self.codebase)):
            text, forbidden = kinds[index % len(kinds)]
            yield self.unknowable(text.format(name=name), forbidden)
