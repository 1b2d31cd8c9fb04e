"""Checks in code, before a call is spent. Each answers with a text for the model, or None."""

import re
from collections.abc import Sequence
from typing import Any

from rapidfuzz import fuzz, process

from planner.state import Iteration, RunState
from planner.tools import Outcome, Safety, ToolSpec

LONGEST_PATH = 400
"""Characters; what is longer is no path, and each of its folders would be looked at."""
FRUITLESS_CALLS = 2
"""So many calls in a row that brought nothing, and the run has to conclude."""


def nearest(name: str, names: Sequence[str], most: int = 3) -> list[str]:
    """The names most like `name`, best first; none that have nothing to do with it."""
    found = process.extract(name, names, scorer=fuzz.WRatio, limit=most, score_cutoff=40)
    return [each for each, _, _ in found]


def unknown_tool(name: str, tools: Sequence[ToolSpec]) -> str:
    """An invented tool "does not exist"; never "is not available" (source: design section 3)."""
    near = nearest(name, [tool.name for tool in tools])
    hint = f" The nearest tools are: {', '.join(near)}." if near else ""
    return f'The tool "{name}" does not exist.{hint}'


def not_allowed(tool: ToolSpec) -> str | None:
    """Only read-only tools run by themselves; the rest is refused until a person can approve it."""
    if tool.safety is Safety.READ_ONLY:
        return None
    return (
        f'The tool "{tool.name}" was refused: its safety class is {tool.safety}, and only '
        "read-only tools run without approval."
    )


_PATH_ARGUMENT = re.compile(r"path|file|folder|dir(?:ectory)?$", re.IGNORECASE)
_PATH = re.compile(
    r"(?<![\w@.+-])"  # from a word's start only: else a long word takes the square of its length
    r"(?:[\w@.+-]*(?:/[\w@.+-]+)+/?|[\w@+-][\w@.+-]*\.[A-Za-z]\w{0,5}\b|[\w@.+-]+/)"
)


def seen_paths(state: RunState) -> list[str]:
    """Every path that the listing, the request or a result has shown."""
    texts = [state.started.listing or "", state.started.request.prompt] if state.started else []
    texts += [each.result for each in state.iterations if each.outcome is Outcome.SUCCESS]
    found: dict[str, None] = {}
    for text in texts:
        for match in _PATH.finditer(text):
            path = match.group().strip("./")
            if 0 < len(path) <= LONGEST_PATH:
                found.setdefault(path)
    return list(found)


def mended_paths(
    arguments: dict[str, Any], tool: ToolSpec, seen: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Path arguments that nothing has shown, resolved to the nearest path seen; an optional one
    with nothing near is left out. Returns the arguments and what was changed, one line each."""
    required = tool.input_schema.get("required", [])
    mended, changes = dict(arguments), []
    folders = {parent for path in seen for parent in _parents(path)}
    for name, value in arguments.items():
        if not _PATH_ARGUMENT.search(name) or not isinstance(value, str):
            continue
        if "*" in value or "mask" in name or "glob" in name or value.strip("./") in ("", *folders):
            continue
        path = value.strip("./")
        if path in seen:
            continue
        ends = [each for each in seen if each.endswith("/" + path)]
        near = ends[:1] or [
            each
            for each, _, _ in process.extract(
                path,
                [each for each in seen if not path.startswith(each + "/")],  # its own folders
                scorer=fuzz.partial_ratio,
                limit=1,
                score_cutoff=90,
            )
        ]
        if near:
            mended[name] = near[0]
            changes.append(f"{name}: {value} was never seen; {near[0]} is the nearest path")
        elif name not in required:
            del mended[name]
            changes.append(f"{name}: {value} was never seen; looking everywhere")
    return mended, changes


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


_EMPTY = re.compile(r"[\s\[\]{}()\"':,.]*|.*\bno (?:results|matches|files)\b.{0,80}", re.I | re.S)


def empty(result: str) -> bool:
    """Whether a successful result holds nothing: `[]`, `{"files": []}`, "no matches"."""
    bare = re.sub(r'"\w+"\s*:', "", result)
    return len(bare) < 200 and _EMPTY.fullmatch(bare) is not None


def wider(tool: ToolSpec, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Broader tries of a text search that found nothing: everywhere and in any case, with any
    separator between the words of a name, then for its longest word alone."""
    argument = tool.text_argument
    pattern = arguments.get(argument, "") if argument else ""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]{2,}(?![a-z])|\d+", pattern)
    if not argument or not parts:
        return []
    tries = ["(?i)" + "[ _.-]?".join(parts), "(?i)" + max(parts, key=len)]
    required = tool.input_schema.get("required", [])
    kept = {name: value for name, value in arguments.items() if name in required}
    return [kept | {argument: each} for each in dict.fromkeys(tries)]


def no_progress(state: RunState) -> bool:
    """Whether the newest calls brought nothing: errors, refusals, repeats, empty results."""
    newest = state.iterations[-FRUITLESS_CALLS:]
    return len(newest) == FRUITLESS_CALLS and all(
        each.outcome is not Outcome.SUCCESS or empty(each.result) for each in newest
    )


def gives_up(answer: str) -> bool:
    """Whether an answer says that there is none, whatever the model marked it as."""
    return (
        re.match(r"(?i)\W*(?:i )?(?:could not|cannot|can't|couldn't|unable to)\b", answer)
        is not None
    )


def repeated(state: RunState, tool: ToolSpec, arguments: dict[str, Any]) -> Iteration | None:
    """The last iteration that made this very call and got its result."""
    for iteration in reversed(state.iterations):
        if (
            iteration.tool == tool.name
            and iteration.arguments == arguments
            and iteration.outcome is Outcome.SUCCESS
        ):
            return iteration
    return None
