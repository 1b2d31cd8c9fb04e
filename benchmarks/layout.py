"""The size of the code: `python -m benchmarks.layout`.

Files and lines of each package; its floors, the modules of the longest chain in which each imports
the next; and its arrows, the pairs of places (folders, and modules beside them) where one imports
the other.
"""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from benchmarks import ROOT

PACKAGES = ("planner", "server")


@cache
def modules() -> dict[str, Path]:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    names = {file: ".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files}
    return {name.removesuffix(".__init__"): file for file, name in names.items()}


def imports(module: str) -> Iterator[str]:
    """Every module named in an import, wherever in the module it stands."""
    file = modules()[module]
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}:{node.lineno}: a relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in modules() else str(node.module)


@cache
def ours(module: str) -> frozenset[str]:
    return frozenset(name for name in imports(module) if name in modules())


def place(module: str) -> str:
    """The folder, or the module beside the folders, that it belongs to."""
    return ".".join(module.split(".")[:2])


def described(package: str) -> str:
    own = {name: file for name, file in modules().items() if name.split(".")[0] == package}
    below = {name: ours(name) & own.keys() for name in own}
    floor: dict[str, int] = {}
    for name in TopologicalSorter(below).static_order():
        floor[name] = 1 + max((floor[each] for each in below[name]), default=0)
    arrows = {(place(name), place(each)) for name in own for each in below[name]}
    lines = sum(len(file.read_text("utf-8").splitlines()) for file in own.values())
    return (
        f"{package}: {len(own)} files, {lines} lines, {max(floor.values())} floors, "
        f"{sum(one != other for one, other in arrows)} arrows"
    )


if __name__ == "__main__":
    for package in PACKAGES:
        print(described(package))
