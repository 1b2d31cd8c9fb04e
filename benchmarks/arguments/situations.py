"""Moments of a run whose right next call is known, in invented words like `eval.generated`'s.

Most stand after one result: the plan and its call are due. The last ones stand at the start, where
the listing is all that is known: the selection and its call are due.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

LISTING = "billing/ docs/ jobs/ media/ tests/ README.md settings.yaml"


@dataclass(frozen=True)
class Call:
    """A tool call that was made, or one that would be right.

    In a right one the arguments are regular expressions for the whole value, the empty one being
    that of an argument left out; arguments it does not name are free.
    """

    tool: str
    arguments: dict[str, Any]

    def allows(self, made: "Call") -> bool:
        return self.tool == made.tool and all(
            re.fullmatch(pattern, _plain(name, made.arguments.get(name, "")))
            for name, pattern in self.arguments.items()
        )


def _plain(name: str, value: Any) -> str:
    """A value as text; paths without what says nothing: `./jobs/` is `jobs`, the top is empty."""
    text = str(value)
    return text.removeprefix("./").rstrip("/").removesuffix(".") if "path" in name else text


@dataclass(frozen=True)
class Situation:
    request: str
    right: tuple[Call, ...]
    """Any of these is right."""
    before: Call | None = None
    """The call made before; None at the start."""
    result: str = field(default="", repr=False)
    """What it returned, as the models read it."""


def _within(path: str) -> str:
    """A pattern for the places to look for what stands in a file: it, its folders, everywhere."""
    parts = path.split("/")
    return "|".join(["", *(re.escape("/".join(parts[:end])) for end in range(1, len(parts) + 1))])


def reads(path: str, **lines: str) -> Call:
    return Call("read_file", {"relative_path": re.escape(path)} | lines)


def overview(path: str) -> Call:
    return Call("get_symbols_overview", {"relative_path": re.escape(path)})


def lists(folder: str) -> Call:
    return Call("list_dir", {"relative_path": re.escape(folder)})


def files(mask: str) -> Call:
    return Call("find_file", {"file_mask": mask, "relative_path": ""})


def searches(name: str, file: str = "") -> Call:
    """The text everywhere, or where it stands if that is known."""
    where = _within(file) if file else ""
    return Call("search_for_pattern", {"substring_pattern": f".*{name}.*", "relative_path": where})


def searches_uses(name: str) -> Call:
    """The text everywhere, and not just where it is defined."""
    pattern = rf"(?!.*\b(?:class|def)\b).*{name}.*"
    return Call("search_for_pattern", {"substring_pattern": pattern, "relative_path": ""})


def symbol(name: str, file: str = "") -> Call:
    where = _within(file) if file else ""
    pattern = rf"/?(?:\w+/)?{name}(?:/\w*)?"
    return Call("find_symbol", {"name_path_pattern": pattern, "relative_path": where})


def users(name: str, file: str) -> Call:
    return Call(
        "find_referencing_symbols",
        {"name_path": rf"/?(?:\w+/)?{name}", "relative_path": re.escape(file)},
    )


_Asked = tuple[str, tuple[Call, ...]]


def _after(before: Call, result: str, *asked: _Asked) -> Iterator[Situation]:
    for request, right in asked:
        yield Situation(request, right, before, result)


SITUATIONS: tuple[Situation, ...] = (
    *_after(
        Call("search_for_pattern", {"substring_pattern": "class Lekumtor"}),
        "jobs/lekum.py:3:from jobs.base.dravik import Dravikbase\n"
        "jobs/lekum.py:9:class Lekumtor(Dravikbase):",
        (
            "Which classes and functions are in the file that defines Lekumtor?",
            (overview("jobs/lekum.py"), reads("jobs/lekum.py")),
        ),
        ("What does the file that defines Lekumtor say?", (reads("jobs/lekum.py"),)),
        (
            "On which line is the base class of Lekumtor defined?",
            (
                symbol("Dravikbase", "jobs/base/dravik.py"),
                searches("Dravikbase", "jobs/base/dravik.py"),
                reads("jobs/base/dravik.py"),
            ),
        ),
        (
            "Which places use the class Lekumtor?",
            (users("Lekumtor", "jobs/lekum.py"), searches_uses("Lekumtor")),
        ),
    ),
    *_after(
        Call("search_for_pattern", {"substring_pattern": "def upload_brovita"}),
        "media/store/brovita.py:21:def upload_brovita(parcel: str, chunk_size: int = 512) -> int:",
        (
            "Who calls upload_brovita?",
            (users("upload_brovita", "media/store/brovita.py"), searches_uses("upload_brovita")),
        ),
        (
            "What stands in lines 15 to 40 of the file that defines upload_brovita?",
            (reads("media/store/brovita.py", start_line="15", end_line="40"),),
        ),
        (
            "Which other files are in the folder of the file that defines upload_brovita?",
            (lists("media/store"),),
        ),
        (
            "What does upload_brovita do in its body?",
            (
                symbol("upload_brovita", "media/store/brovita.py"),
                reads("media/store/brovita.py"),
            ),
        ),
    ),
    *_after(
        Call("find_file", {"file_mask": "*.yaml", "relative_path": "."}),
        '{"files": ["settings.yaml", "jobs/defaults/kesmor.yaml"]}',
        (
            "How many workers does the configuration give to kesmor?",
            (reads("jobs/defaults/kesmor.yaml"), searches("worker", "jobs/defaults/kesmor.yaml")),
        ),
        ("Which keys are in the settings at the top of the project?", (reads("settings.yaml"),)),
    ),
    *_after(
        Call("list_dir", {"relative_path": "billing", "recursive": False}),
        '{"dirs": ["billing/rates"], "files": ["billing/ledger.py", "billing/tulvane.py"]}',
        (
            "Which classes are defined in the tulvane module of billing?",
            (
                overview("billing/tulvane.py"),
                reads("billing/tulvane.py"),
                Call(
                    "search_for_pattern",
                    {"substring_pattern": ".*class.*", "relative_path": "billing/tulvane.py"},
                ),
            ),
        ),
        ("Which files are in the folder of the rates?", (lists("billing/rates"),)),
        (
            "Does billing have a class named Priceloom?",
            (symbol("Priceloom", "billing"), searches("Priceloom", "billing")),
        ),
    ),
    *_after(
        Call("get_symbols_overview", {"relative_path": "billing/ledger.py"}),
        '{"Class": ["Ledgertuk"], "Function": ["mint_solka"], "Constant": ["SOLKA_LIFETIME"]}',
        (
            "What is SOLKA_LIFETIME set to?",
            (
                symbol("SOLKA_LIFETIME", "billing/ledger.py"),
                searches("SOLKA_LIFETIME", "billing/ledger.py"),
                reads("billing/ledger.py"),
            ),
        ),
        (
            "From which function is mint_solka called?",
            (users("mint_solka", "billing/ledger.py"), searches_uses("mint_solka")),
        ),
        (
            "How many methods does Ledgertuk have?",
            (symbol("Ledgertuk", "billing/ledger.py"), reads("billing/ledger.py")),
        ),
    ),
    *_after(
        Call("search_for_pattern", {"substring_pattern": "(?i)retention"}),
        "README.md:14:How long parcels are kept: see docs/guide/retention.md.\n"
        "settings.yaml:7:retention_days: 35",
        ("What does the guide say about retention?", (reads("docs/guide/retention.md"),)),
        ("What else stands in the file with retention_days?", (reads("settings.yaml"),)),
    ),
    Situation("What does the README say?", (reads("README.md"),)),
    Situation("Which files are in the jobs folder?", (lists("jobs"),)),
    Situation("Are there files that end in .toml?", (files(r".*\*\.toml"),)),
    Situation(
        "Which classes and functions are in media/throttle.py?",
        (overview("media/throttle.py"), reads("media/throttle.py")),
    ),
    Situation("On which lines does penalty_seconds stand?", (searches("penalty_seconds"),)),
    Situation(
        "Where is the class Throttlevan defined?", (symbol("Throttlevan"), searches("Throttlevan"))
    ),
)
