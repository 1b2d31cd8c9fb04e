"""Tool definitions as the operator accepted them: a changed one waits for the operator's consent.

Descriptions are part of prompts, and an annotation can make a tool run by itself, so an upstream
that changes them changes what the agent does. The tools of a new upstream are pinned as they are
(trust on first use). After that, a changed tool is held back until the operator accepts it with
`planloom tools --accept`, and so is a new one, which may be a changed tool under another name.

The pins of all servers of a user are in one SQLite file. docs/security.md says what pins do not
prevent.
"""

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from mcp_types import Tool
from platformdirs import user_state_path
from pydantic import BaseModel

from planner.text import begin_alike
from server.config import UpstreamSettings
from server.text import clean, digest, one_line

BUSY_SECONDS = 5.0
"""How long another process may hold the file."""
MAX_QUOTE_CHARS = 500
"""Characters of a text in the description of a difference."""
AROUND = 4
"""Words before and after a change."""

_TABLE = """
create table if not exists pins (
    upstream text not null, tool text not null, pinned text, proposed text, at real not null,
    primary key (upstream, tool)
)
"""
MAX_TOOLS = 1_000
"""Of an upstream. To list one holds up all runs for about a millisecond."""

_FORGET = """
delete from pins where upstream = ? and pinned is null and tool not in (
    select tool from pins where upstream = ? and pinned is null order by at desc limit ?
)
"""
"""Keeps the newest proposals of new tools: an upstream may list other names each time."""
_WRITE = "insert or replace into pins (upstream, tool, pinned, proposed, at) values (?, ?, ?, ?, ?)"


class Definition(BaseModel, frozen=True):
    """The parts of a tool's definition that decisions depend on."""

    description: str
    input_schema: dict[str, Any]
    annotations: dict[str, Any]

    @classmethod
    def of(cls, tool: Tool) -> Self:
        said = tool.annotations
        return cls(
            description=tool.description or "",
            input_schema=tool.input_schema,
            annotations=said.model_dump(by_alias=True, exclude_none=True) if said else {},
        )


@dataclass(frozen=True)
class HeldTool:
    upstream: str
    tool: str
    differences: tuple[str, ...]
    """In words, from what is pinned."""
    digest: str = ""
    """Of its definition as it was listed, all of it."""

    def __str__(self) -> str:
        return f"{one_line(self.tool)}: {'; '.join(self.differences)}"


@dataclass
class PinCheck:
    held: dict[str, HeldTool] = field(default_factory=dict)
    first_seen: int = 0
    """How many were pinned as they are, because the upstream was new."""
    problem: str | None = None
    """Why they could not be pinned, and what to do."""


@dataclass(frozen=True)
class _Pin:
    """A row of the file, definitions as canonical JSON."""

    pinned: str | None
    """None: the tool is new and was not accepted yet."""
    proposed: str | None
    """As it was last listed, where that is not what is pinned."""


def identity(name: str, settings: UpstreamSettings) -> str:
    """An upstream by its name and by what the file says it is. An operator who writes another
    command, version or URL has consented to what it brings."""
    texts = [settings.command, *settings.args, settings.url]
    written = json.dumps([text.written if text else None for text in texts])
    return f"{name} {digest(written)[:16]}"


class Pins:
    """The pinned definitions, in one file. Every method may wait for the disk."""

    def __init__(self, file: Path | None = None) -> None:
        """`file`: None means the one in the user's state directory."""
        self.file = file or user_state_path("planloom") / "pins.sqlite"

    def check(self, upstream: str, tools: Mapping[str, Definition]) -> PinCheck:
        """Compare what `upstream` (an `identity`) lists with what is pinned of it; pin it when
        nothing is. Never raises: a file that is damaged or cannot be read holds every tool back,
        one that cannot be written only those known to have changed."""
        listed = {
            name: json.dumps(definition.model_dump(mode="json"), sort_keys=True)
            for name, definition in tools.items()
        }
        checked: PinCheck | None = None
        try:
            with self._open() as database:
                checked, changes = _compare(upstream, _pins(database, upstream), listed)
                if changes:
                    database.execute("begin immediate")
                    # Again: another process may have been first.
                    checked, changes = _compare(upstream, _pins(database, upstream), listed)
                    _write(database, upstream, changes)
                    database.execute(_FORGET, (upstream, upstream, MAX_TOOLS))
                    database.execute("commit")
        except sqlite3.OperationalError as error:
            if checked is None and os.access(self.file, os.F_OK):
                why = f"{self.file} cannot be read ({error}), so nobody knows if it has changed"
                return _all_held(upstream, tools, why)
            checked = checked or PinCheck()
            checked.first_seen = 0
            checked.problem = (
                f"its tools could not be pinned in {self.file} ({error}); make that writable"
            )
        except (sqlite3.DatabaseError, ValueError):
            why = f"{self.file} is damaged; delete it to take all tools as they are now"
            return _all_held(upstream, tools, why)
        return checked

    def held(self, upstream: str) -> list[HeldTool]:
        """The tools that wait for consent, as last listed. Raises `sqlite3.Error`."""
        with self._open() as database:
            return _held(upstream, _pins(database, upstream))

    def accept(self, upstream: str, held: HeldTool) -> bool:
        """Pin a tool as it was held; False if it has changed since. Raises `sqlite3.Error`."""
        with self._open() as database:
            database.execute("begin immediate")
            pins = _pins(database, upstream)
            if held not in _held(upstream, pins):
                return False
            _write(database, upstream, {held.tool: _Pin(pins[held.tool].proposed, None)})
            database.execute("commit")
        return True

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.file, os.O_CREAT, 0o600))
        except OSError as error:
            raise sqlite3.OperationalError(error.strerror) from None
        with closing(sqlite3.connect(self.file, BUSY_SECONDS, isolation_level=None)) as database:
            database.execute(_TABLE)
            yield database


def _pins(database: sqlite3.Connection, upstream: str) -> dict[str, _Pin]:
    rows = database.execute(
        "select tool, pinned, proposed from pins where upstream = ? order by tool", (upstream,)
    )
    return {tool: _Pin(pinned, proposed) for tool, pinned, proposed in rows}


def _write(database: sqlite3.Connection, upstream: str, pins: Mapping[str, _Pin]) -> None:
    now = time.time()
    rows = [(upstream, tool, pin.pinned, pin.proposed, now) for tool, pin in pins.items()]
    database.executemany(_WRITE, rows)


def _all_held(upstream: str, tools: Iterable[str], why: str) -> PinCheck:
    return PinCheck({tool: HeldTool(_name(upstream), tool, (why,)) for tool in tools})


def _compare(
    upstream: str, pins: Mapping[str, _Pin], listed: Mapping[str, str]
) -> tuple[PinCheck, dict[str, _Pin]]:
    """The held tools among the listed ones, and the pins to write."""
    if not pins:
        return PinCheck(first_seen=len(listed)), {
            tool: _Pin(definition, None) for tool, definition in listed.items()
        }
    now = {}
    for tool, definition in listed.items():
        pinned = pins[tool].pinned if tool in pins else None
        now[tool] = _Pin(pinned, None if definition == pinned else definition)
    held = {each.tool: each for each in _held(upstream, now)}
    return PinCheck(held), {tool: pin for tool, pin in now.items() if pin != pins.get(tool)}


def _held(upstream: str, pins: Mapping[str, _Pin]) -> list[HeldTool]:
    return [
        HeldTool(
            _name(upstream),
            tool,
            tuple(_differences(pin.pinned, pin.proposed)),
            digest(pin.proposed)[:32],
        )
        for tool, pin in pins.items()
        if pin.proposed
    ]


def digest_of(held: Sequence[HeldTool]) -> str:
    """A digest of all of them; 128 bits, since an upstream may try any number of definitions."""
    return digest(json.dumps(sorted((each.upstream, each.tool, each.digest) for each in held)))[:32]


def _name(upstream: str) -> str:
    return upstream.partition(" ")[0]


# Differences in words.


def _differences(pinned: str | None, proposed: str) -> list[str]:
    new = Definition.model_validate_json(proposed)
    if pinned is None:
        return [f"is new, and says {_quoted(new.description)}"]
    old = Definition.model_validate_json(pinned)
    differences = [
        *_changed_text("its description", old.description, new.description),
        *_changed_schema(old.input_schema, new.input_schema),
        *_changed_keys("its annotation", old.annotations, new.annotations),
    ]
    return differences or ["its definition is written differently"]


def _changed_text(what: str, old: str, new: str) -> list[str]:
    """The words between what both texts begin and end with, with a few around them."""
    if old == new:
        return []
    before, after = old.split(), new.split()
    if before == after:
        return [f"{what} has other spaces or line endings"]
    start = begin_alike(before, after)
    end = begin_alike(before[start:][::-1], after[start:][::-1])
    says = _quoted(_part(after, start, len(after) - end))
    return [f"{what} says {says}, and said {_quoted(_part(before, start, len(before) - end))}"]


def _part(words: Sequence[str], start: int, end: int) -> str:
    start, stop = max(0, start - AROUND), end + AROUND
    return (
        ("… " if start else "") + " ".join(words[start:stop]) + (" …" if stop < len(words) else "")
    )


def _changed_schema(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    arguments = [schema.get("properties") for schema in (old, new)]
    before, after = [each if isinstance(each, dict) else {} for each in arguments]
    differences = [
        f"it takes a new argument {_quoted(name)}" for name in after if name not in before
    ]
    differences += [f"it no longer takes {_quoted(name)}" for name in before if name not in after]
    for name in sorted(before.keys() & after.keys()):
        differences += _changed_keys(f"{_quoted(name)}:", before[name], after[name])
    rest = [{k: v for k, v in schema.items() if k != "properties"} for schema in (old, new)]
    return [*differences, *_changed_keys("its arguments:", *rest)]


def _changed_keys(what: str, old: Any, new: Any) -> list[str]:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [] if old == new else [f"{what} is {_quoted(new)}, and was {_quoted(old)}"]
    differences = []
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if isinstance(was, str) and isinstance(now, str):
            differences += _changed_text(f"{what} {clean(key)}", was, now)
        elif was != now:
            differences.append(f"{what} {clean(key)} is {_quoted(now)}, and was {_quoted(was)}")
    return differences


def _quoted(value: Any) -> str:
    """A foreign value, shortened, on one line; None means that it is not given."""
    if value is None:
        return "not given"
    if not isinstance(value, str):
        return one_line(json.dumps(value, ensure_ascii=False), MAX_QUOTE_CHARS)
    return f'"{one_line(value, MAX_QUOTE_CHARS)}"'
