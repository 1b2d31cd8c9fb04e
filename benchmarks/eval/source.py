"""A Python code base as `ast` sees it: the facts that questions are made of.

Read at each run, so that what is expected is right for the code as it is then.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

Literal = int | float | str
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Definition:
    """A class, function or method."""

    name: str
    path: str
    line: int
    node: ast.ClassDef | Function
    owner: str | None = None
    """The class that it is a method of."""

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    @property
    def summary(self) -> str:
        """The first sentence of its docstring, on one line; empty if there is none."""
        first = (ast.get_docstring(self.node) or "").split("\n\n")[0]
        return " ".join(first.split()).split(". ")[0].rstrip(".:")


@dataclass(frozen=True)
class Constant:
    """A name in capitals that a module gives a literal value."""

    name: str
    path: str
    line: int
    """Of the value, which may stand below the name."""
    value: Literal
    source: str


@dataclass
class Source:
    """All of a code base. Where a name means more than one thing, no question is made of it."""

    files: dict[str, str]
    """Text by path."""
    definitions: list[Definition] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    callers: dict[str, list[Definition]] = field(default_factory=lambda: defaultdict(list))
    """By the bare name that is called: the innermost named functions that call it."""
    count: Counter[str] = field(default_factory=Counter)
    """How often a name is defined, as whatever."""

    @property
    def text(self) -> str:
        return "\n".join(self.files.values())

    def unique(self) -> Iterator[Definition]:
        """Definitions that a question can name without doubt."""
        for each in self.definitions:
            name = each.name.strip("_")
            # A plain word such as `report` could stand in any answer by chance.
            telling = "_" in name or any(letter.isupper() for letter in name[1:])
            if telling and self.count[each.name] == 1 and not each.name.startswith("__"):
                yield each

    def unique_constants(self) -> dict[str, Constant]:
        return {each.name: each for each in self.constants if self.count[each.name] == 1}


def parse(files: dict[str, str]) -> Source:
    """A code base by its texts, Python files parsed."""
    source = Source(files)
    for path, text in files.items():
        if path.endswith(".py"):
            tree = ast.parse(text)
            _constants(source, path, text, tree)
            _walk(source, path, tree, None, None)
    return source


def _constants(source: Source, path: str, text: str, tree: ast.Module) -> None:
    lines = text.encode().split(b"\n")
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        source.count[name] += 1
        literal = literal_of(value)
        if name.isupper() and literal is not None:
            shown = lines[value.lineno - 1][value.col_offset : value.end_col_offset].decode()
            if value.end_lineno != value.lineno:  # it looks through the whole text
                shown = ast.get_source_segment(text, value) or ""
            source.constants.append(Constant(name, path, value.lineno, literal, shown))


def _walk(
    source: Source, path: str, node: ast.AST, owner: str | None, function: Definition | None
) -> None:
    for child in ast.iter_child_nodes(node):
        inner_owner, inner = owner, function
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            method_of = owner if isinstance(node, ast.ClassDef) else None
            found = Definition(child.name, path, child.lineno, child, method_of)
            source.definitions.append(found)
            source.count[child.name] += 1
            if found.is_class:
                inner_owner, inner = child.name, None
            else:
                inner = found
        elif isinstance(child, ast.Call) and function:
            called = child.func
            name = called.attr if isinstance(called, ast.Attribute) else None
            name = called.id if isinstance(called, ast.Name) else name
            if name and function not in source.callers[name]:
                source.callers[name].append(function)
        _walk(source, path, child, inner_owner, inner)


def literal_of(node: ast.expr | None) -> Literal | None:
    """A number, or a short text of one word; what is hard to guess and easy to check."""
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return None
    match node.value:
        case int() | float() as value if value not in (0, 1):
            return value
        case str() as text if 2 <= len(text) <= 40 and not set(text) & set(" \n\\{}"):
            return text
    return None


def defaults(node: Function) -> Iterator[tuple[str, int, Literal]]:
    """Parameters with a literal default: name, line of the default, value. None is too common."""
    positional = [*node.args.posonlyargs, *node.args.args]
    pairs: list[tuple[ast.arg, ast.expr | None]] = [
        *zip(
            positional[len(positional) - len(node.args.defaults) :],
            node.args.defaults,
            strict=True,
        ),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
    for argument, default in pairs:
        value = literal_of(default)
        if value is None and isinstance(default, ast.Constant):
            value = default.value if isinstance(default.value, int) else None  # 0, 1, True, False
        if default is not None and value is not None:
            yield argument.arg, default.lineno, value


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def methods(node: ast.ClassDef) -> list[str]:
    """The methods in the body of a class, a property or overload counted as often as it stands."""
    return [
        each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
