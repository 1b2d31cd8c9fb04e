"""The family changes: a small project is to be changed with write tools, and its files looked at.

Two projects (`projects/parcel` in Python, `projects/board` in JavaScript), a copy of one for each
case. Most cases have a server of files like the MCP project's own (`filesystem.py`), which knows no
code and cannot search text; some have the real Serena with its edit tools. Nothing else may change:
a file that nobody spoke of, and changed, is wrong whatever the answer says.
"""

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import yaml

from benchmarks.eval.case import Answer, Grade, Setting, Split
from benchmarks.eval.tasks.base import TaskCase
from benchmarks.eval.tasks.verdicts import graded

PROJECTS = Path(__file__).with_name("projects")
SECONDS = 60.0
"""For a project's own tests, since what a model wrote may never end."""

Tree = Mapping[str, str]
"""The texts of a project's files, by path."""


class Wanted(Protocol):
    """What has to become of one file."""

    def missing(self, before: str | None, after: str | None) -> str:
        """What is wrong with the file; empty: nothing. None: there is no such file."""


@dataclass(frozen=True)
class Text:
    """This very text; blanks at the ends of lines and of the file do not count."""

    text: str

    def missing(self, before: str | None, after: str | None) -> str:
        same = after is not None and _stripped(after) == _stripped(self.text)
        return "" if same else "is not as it should be"


@dataclass(frozen=True)
class Replaced:
    """The text as it was, with these words replaced wherever they stand."""

    old: str
    new: str

    def missing(self, before: str | None, after: str | None) -> str:
        wanted = re.sub(rf"(?<!\w){re.escape(self.old)}(?!\w)", self.new, before or "")
        return Text(wanted).missing(before, after)


@dataclass(frozen=True)
class Added:
    """One line more, somewhere among lines without an empty one between them."""

    line: str
    """A regular expression for it."""
    among: str
    """One of those lines."""

    def missing(self, before: str | None, after: str | None) -> str:
        diff = list(difflib.ndiff(_filled(before or ""), _filled(after or "")))
        lost = [line for line in diff if line.startswith("- ")]
        new = [line[2:] for line in diff if line.startswith("+ ")]
        if lost or len(new) != 1 or not re.fullmatch(self.line, new[0], re.IGNORECASE):
            return f"has not one new line {self.line}"
        parts = "\n".join(_stripped(after or "")).split("\n\n")
        together = any({self.among, new[0]} <= set(part.split("\n")) for part in parts)
        return "" if together else f"does not have the line beside {self.among}"


@dataclass(frozen=True)
class Holds:
    """Regular expressions that match or do not, and at most so many lines lost and new."""

    patterns: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    lost: int = 0
    new: int = 1

    def missing(self, before: str | None, after: str | None) -> str:
        text = after or ""
        for pattern in self.patterns:
            if not re.search(pattern, text, re.MULTILINE):
                return f"does not hold {pattern}"
        for pattern in self.gone:
            if re.search(pattern, text, re.MULTILINE):
                return f"still holds {pattern}"
        diff = list(difflib.ndiff(_filled(before or ""), _filled(text)))
        lost, new = (sum(line.startswith(sign) for line in diff) for sign in ("- ", "+ "))
        return "" if lost <= self.lost and new <= self.new else "has other lines changed"


@dataclass(frozen=True)
class Data:
    """The data of a JSON or YAML file as they were, but for these values, by their paths."""

    values: Mapping[tuple[str, ...], Any]

    def missing(self, before: str | None, after: str | None) -> str:
        before = before or ""
        # All JSON is YAML, but a list with a comma at its end is no JSON.
        load: Callable[[str], Any] = json.loads if before.startswith("{") else yaml.safe_load
        try:
            found = load(after or "")
        except (ValueError, yaml.YAMLError):
            return "cannot be read"
        wanted = load(before)
        for path, value in self.values.items():
            place = wanted
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
        return "" if found == wanted else "does not hold the wanted data"


@dataclass(frozen=True)
class Gone:
    """The file is not there any more."""

    def missing(self, before: str | None, after: str | None) -> str:
        return "is still there" if after is not None else ""


def _stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _filled(text: str) -> list[str]:
    return [line for line in _stripped(text) if line]


@dataclass(frozen=True)
class ChangeSetting(Setting):
    """A project as it was handed out."""

    before: Tree = field(default_factory=dict)


@dataclass(frozen=True)
class Change(TaskCase):
    """A change of a project that somebody asks for."""

    family = "change"
    files: Mapping[str, Wanted]
    """What has to become of which file; all others stay as they are."""
    project: str = "parcel"
    pool: Literal["filesystem", "serena"] = "filesystem"
    spoilt: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """What is replaced by what in the project before it is handed out."""
    runs: str = ""
    """Python that runs in the project without an error when all is well."""

    @property
    def expected(self) -> str:
        return ", ".join(f"{path}: {wanted}" for path, wanted in self.files.items())

    @asynccontextmanager
    async def open(self, work: Path) -> AsyncIterator[ChangeSetting]:
        root = work / self.project
        shutil.copytree(
            PROJECTS / self.project, root, ignore=shutil.ignore_patterns("__pycache__", ".*")
        )
        for path, (old, new) in self.spoilt.items():
            text = (root / path).read_text(encoding="utf-8")
            assert old in text, f"{self.id} spoils what is not there"
            (root / path).write_text(text.replace(old, new), encoding="utf-8")
        files = Path(__file__).with_name("filesystem.py")
        entries: dict[str, dict[str, Any]] = {
            "filesystem": {
                "command": sys.executable,
                "args": ["-P", str(files), str(root)],
                "policy": "allow",
            },
            "serena": {"policy": "allow"},
        }
        yield ChangeSetting(root, {self.pool: entries[self.pool]}, "allow", tree(root))

    def grade(self, setting: Setting, answer: Answer) -> Grade:
        assert isinstance(setting, ChangeSetting)
        assert setting.project is not None
        after = tree(setting.project)
        missing = [
            f"{path} {wrong}"
            for path, wanted in self.files.items()
            if (wrong := wanted.missing(setting.before.get(path), after.get(path)))
        ]
        touched = [path for path in _touched(setting.before, after) if path not in self.files]
        if not missing and not touched:
            missing = self._failing(setting.project)
        share = 1 - len(missing) / len(self.files)
        if touched:
            return Grade("wrong", max(share - 0.5, 0), f"changed besides: {', '.join(touched)}")
        return graded(answer, "; ".join(missing), max(share, 0))

    def _failing(self, project: Path) -> list[str]:
        """What goes wrong when the project is run; empty: nothing."""
        if self.project != "parcel":
            return []
        pytest = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        for command in ([*pytest, "tests"], [sys.executable, "-B", "-c", self.runs]):
            try:
                done = subprocess.run(
                    command,
                    cwd=project,
                    env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=SECONDS,
                )
            except subprocess.TimeoutExpired:
                return [f"the project does not end within {SECONDS:g} s"]
            if done.returncode:
                last = (done.stdout + done.stderr).strip().splitlines()[-1:]
                return [f"the project does not run: {' '.join(last)}"]
        return []


def tree(root: Path) -> Tree:
    """All files below a folder, without what programs leave behind in hidden folders and caches."""
    paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
    names = {path: path.relative_to(root) for path in paths}
    return {
        name.as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path, name in names.items()
        if not any(part.startswith(".") or part == "__pycache__" for part in name.parts)
    }


def _touched(before: Tree, after: Tree) -> Iterator[str]:
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path):
            yield path


ORDER = (
    "from parcel.orders import Item, Order\n"
    'order = Order(7, "FR", [Item("cup", 6.0, 0.3333, 2), Item("pot", 18.0, 1.0)])\n'
)

CHANGES = (
    Change(
        "weight-limit", "dev", "constant",
        "Set the maximum weight of a parcel to 25 kg.",
        {"parcel/rates.py": Replaced("MAX_WEIGHT = 30", "MAX_WEIGHT = 25")},
    ),
    Change(
        "rename-function", "dev", "rename",
        "rename shipping_price to delivery_price, everywhere it is used (code, tests and readme)",
        {
            path: Replaced("shipping_price", "delivery_price")
            for path in (
                "README.md", "parcel/__main__.py", "parcel/orders.py", "parcel/rates.py",
                "tests/test_rates.py",
            )
        },
    ),
    Change(
        "currency-parameter", "dev", "parameter",
        "Gib der Funktion format_line in parcel/report.py einen zweiten Parameter currency mit dem "
        "Vorgabewert CURRENCY und benutze ihn in der Ausgabe.",
        {"parcel/report.py": Holds((r"(?s)def format_line\(.*currency",), lost=2, new=3)},
        language="de",
        runs=ORDER + "from parcel.report import format_line\n"
        'assert format_line(order).endswith("EUR")\n'
        'assert format_line(order, currency="USD").endswith("USD")\n'
        'assert format_line(order, "GBP").endswith("GBP")',
    ),
    Change(
        "free-delivery-bug", "dev", "bug",
        "tests/test_rates.py fails: test_delivery_is_free_from_the_limit_on. Find the bug in the "
        "code and fix it, leave the test alone.",
        {"parcel/rates.py": Holds(lost=1, new=1)},
        spoilt={"parcel/rates.py": ("value >= FREE_FROM", "value > FREE_FROM")},
    ),
    Change(
        "usage-file", "dev", "create",
        "Create the file docs/usage.md with exactly these two lines:\n# Usage\n"
        "Call python -m parcel with a country and a weight.",
        {"docs/usage.md": Text("# Usage\nCall python -m parcel with a country and a weight.\n")},
    ),
    Change(
        "legacy", "dev", "delete",
        "parcel/legacy.py isn't used any more, please delete it",
        {"parcel/legacy.py": Gone()},
    ),
    Change(
        "express", "dev", "list",
        "Add \"express delivery\" to the features in the README",
        {"README.md": Added(r"[-*] express delivery\.?", "- prices by weight and country")},
    ),
    Change(
        "default-carrier", "dev", "configuration",
        "En config/carriers.json, pon ups como transportista por defecto.",
        {"config/carriers.json": Data({("default",): "ups"})},
        language="es",
    ),
    Change(
        "too-many", "dev", "typo",
        "there's a typo in an error message somewhere in src: 'to many cards' must be 'too many "
        "cards'. fix it pls",
        {"src/store.js": Replaced("to many cards", "too many cards")},
        project="board",
    ),
    Change(
        "rounded-weight", "dev", "body",
        "Order.weight should round its result to two decimals. Please change it.",
        {"parcel/orders.py": Holds((r"round\(",), lost=1, new=3)},
        pool="serena",
        runs=ORDER + "assert order.weight() == 1.67",
    ),
    Change(
        "rename-method", "dev", "rename",
        "Rename the method subtotal of Order to goods_value in the whole project.",
        {
            path: Replaced("subtotal", "goods_value")
            for path in ("parcel/orders.py", "tests/test_orders.py")
        },
        pool="serena",
    ),
    Change(
        "most-cards", "report", "constant",
        "A board should take up to 200 cards, not 50. Change that.",
        {"src/store.js": Replaced("MAX_CARDS = 50", "MAX_CARDS = 200")},
        project="board",
    ),
    Change(
        "rename-in-js", "report", "rename",
        "formatDate is a bad name, call it toDateText in src and test",
        {
            path: Replaced("formatDate", "toDateText")
            for path in ("src/format.js", "src/index.js", "test/format.test.js")
        },
        project="board",
    ),
    Change(
        "decimals", "report", "parameter",
        "Give shipping_price an optional parameter decimals, 2 by default, that says to how many "
        "decimals the price is rounded.",
        {"parcel/rates.py": Holds((r"decimals",), lost=3, new=6)},
        pool="serena",
        runs="from parcel.rates import shipping_price\n"
        'assert shipping_price(0.333, "FR") == 5.13\n'
        'assert shipping_price(0.333, "FR", decimals=0) == 5\n'
        'assert shipping_price(0.333, "FR", 3) == 5.133',
    ),
    Change(
        "quantity-bug", "report", "bug",
        "Der Test test_every_piece_counts in tests/test_orders.py schlägt fehl. Finde den Fehler "
        "im Code und behebe ihn; den Test bitte nicht ändern.",
        {"parcel/orders.py": Holds(lost=1, new=1)},
        language="de",
        spoilt={"parcel/orders.py": ("item.kilograms * item.quantity", "item.kilograms")},
    ),
    Change(
        "units", "report", "create",
        "Write a new module parcel/units.py with one function grams_to_kilograms(grams) that "
        "returns the kilograms.",
        {"parcel/units.py": Holds((r"def grams_to_kilograms\(grams",), new=20)},
        runs="from parcel.units import grams_to_kilograms\n"
        "assert grams_to_kilograms(2500) == 2.5 and grams_to_kilograms(0) == 0",
    ),
    Change(
        "move-settings", "report", "move",
        "Move config/settings.yaml to parcel/settings.yaml",
        {
            "config/settings.yaml": Gone(),
            "parcel/settings.yaml": Text((PROJECTS / "parcel/config/settings.yaml").read_text()),
        },
    ),
    Change(
        "tracking", "report", "list",
        "请在 README.md 的 Features 列表末尾加上一项：tracking links",
        {"README.md": Added(r"[-*] tracking links\.?", "- prices by weight and country")},
        language="zh",
    ),
    Change(
        "weekly-report", "report", "configuration",
        "Switch the weekly report on in config/settings.yaml, and let it retry 5 times.",
        {
            "config/settings.yaml": Data(
                {("report", "weekly"): True, ("retry", "attempts"): 5}
            )
        },
    ),
    Change(
        "received", "report", "typo",
        "Corrige la faute de frappe « Recieved » dans parcel/report.py.",
        {"parcel/report.py": Replaced("Recieved", "Received")},
        language="fr",
    ),
    Change(
        "move-constant", "report", "move",
        "Move the constant CURRENCY from parcel/report.py to parcel/rates.py. Whoever uses it "
        "shall import it from there.",
        {
            "parcel/report.py": Holds(
                (r"from parcel\.rates import CURRENCY",), (r"^CURRENCY =",), lost=1, new=1
            ),
            "parcel/rates.py": Holds((r'^CURRENCY = "EUR"',), new=1),
            "parcel/__main__.py": Holds(
                (r"from parcel\.rates import .*CURRENCY",),
                (r"from parcel\.report import",),
                lost=2,
                new=2,
            ),
        },
        pool="serena",
        runs="import parcel.__main__, parcel.rates, parcel.report\n"
        'assert parcel.rates.CURRENCY == parcel.report.CURRENCY == "EUR"',
    ),
    Change(
        "version", "report", "constant",
        "bump the version to 1.4.0",
        {
            "pyproject.toml": Replaced("1.3.0", "1.4.0"),
            "parcel/__init__.py": Replaced("1.3.0", "1.4.0"),
        },
    ),
)  # fmt: skip


def cases(split: Split) -> Sequence[Change]:
    return [change for change in CHANGES if change.split == split]
