"""The code bases that are asked about, laid out in folders of their own.

Copies, not the places themselves: nothing changes while a run is under way, nothing but the code
itself is there to be found, and each has the same path in every run.
"""

import importlib.util
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.eval import generated
from benchmarks.eval.check import Question, Split
from benchmarks.eval.questions import Asker
from benchmarks.eval.source import read

REPOSITORY = Path(__file__).parents[2]
PACKAGE = "anyio"
"""Installed wherever Planloom is; no one has to download it, and it is not small."""
_COPIED = ("*.py", "*.yaml", "*.txt", "*.md", "pyproject.toml")


@dataclass(frozen=True)
class CodeBase:
    name: str
    root: Path
    questions: tuple[Question, ...]


def lay_out(folder: Path, splits: Sequence[Split]) -> list[CodeBase]:
    """Write every code base below `folder` anew, and ask the questions of these splits."""
    return [
        *(_generated(folder, split) for split in splits),
        _copied(folder, "repository", splits, _copy_repository, REPOSITORY_PLAN),
        _copied(folder, "package", splits, copy_package, PACKAGE_PLAN),
    ]


def _generated(folder: Path, split: Split) -> CodeBase:
    project = generated.generate(generated.SEEDS[split])
    root = _empty(folder / f"generated-{split}")
    project.write(root)
    asker = Asker(read(root), "generated", split, shared=False)
    return CodeBase(f"generated-{split}", root, tuple(generated.ask(project, asker)))


REPOSITORY_PLAN = {
    "definition": 2, "value": 1, "default": 1, "caller": 1, "uses": 2,
    "methods": 1, "file": 1, "absence": 1, "unanswerable": 1,
}  # fmt: skip
PACKAGE_PLAN = {
    "definition": 1, "value": 1, "default": 1, "caller": 1, "base": 2,
    "methods": 1, "file": 1, "absence": 1, "unanswerable": 1,
}  # fmt: skip
"""How many questions of which kind; fewer where a code base has not the symbols for them."""


def _copied(
    folder: Path,
    name: str,
    splits: Sequence[Split],
    copy: Callable[[Path], None],
    plan: dict[str, int],
) -> CodeBase:
    root = _empty(folder / name)
    copy(root)
    source = read(root)
    questions: list[Question] = []
    for split in splits:
        asker = Asker(source, name, split, shared=True)
        for kind, most in plan.items():
            questions += asker.make(kind, most)
    return CodeBase(name, root, tuple(questions))


def _copy_repository(root: Path) -> None:
    for part in ("planner", "server"):
        _copy(REPOSITORY / part, root / part)


def copy_package(root: Path) -> None:
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    _copy(Path(spec.origin).parent, root / PACKAGE)


def _copy(source: Path, target: Path) -> None:
    for pattern in _COPIED:
        for path in source.rglob(pattern):
            copied = target / path.relative_to(source)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
