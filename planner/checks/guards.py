"""Checks in code, before a call and on its result (a table: docs/planning.md).

They are pure functions; their callers emit the events.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

from rapidfuzz import fuzz, process

from planner.evidence.context import RESULTS_KEPT, readable
from planner.evidence.listing import paths_in
from planner.passage import Passage
from planner.protocol import Conclude, MoveOn, Stay
from planner.state import Iteration, RunState, plain, skipped, wanted_first
from planner.tools import Outcome, Policy, ToolSpec

FRUITLESS_DECISIONS = 2
"""After so many in a row whose calls brought nothing new, another tool has to be chosen; after one
more, the run concludes."""
MAX_FAULT_CHARS = 1000
"""Characters of a result that is nothing but an error."""
MAX_FAULT_LINES = 3
"""Of such a result, unless it is a traceback."""
MAX_PATTERN_WORDS = 4
"""Of a pattern that is tried with other separators; a longer one is a sentence or a line."""
MIN_WORD_CHARS = 3
"""Characters of a word that is searched for alone."""
REFUSED = "It was not made; go on without it."
UNKNOWN = "It may have been done or not, and is not made again; look with a tool that reads."
NOTHING = "Nothing for the arguments above"
"""The beginning of the result of a widened call."""


def nearest(name: str, names: Sequence[str], most: int = 3) -> list[str]:
    """The names most similar to `name`, best first, without those that are not similar."""
    found = process.extract(name, names, scorer=fuzz.WRatio, limit=most, score_cutoff=40)
    return [each for each, _, _ in found]


def unknown_tool(name: str, tools: Sequence[ToolSpec]) -> str:
    """The message about an invented tool. It never says "is not available"."""
    near = nearest(name, [tool.name for tool in tools])
    hint = f" The nearest tools are: {', '.join(near)}." if near else ""
    return f'The tool "{name}" does not exist.{hint}'


def not_allowed(tool: ToolSpec, policy: Policy) -> str | None:
    """Why a run with this policy may not even ask for a call of the tool; None if it may."""
    if tool.read_only or Policy.READ_ONLY not in (tool.policy, policy):
        return None
    who = "the operator permits" if tool.policy is Policy.READ_ONLY else "this run may use"
    return (
        f'The tool "{tool.name}" was refused: its safety class is {tool.safety}, and {who} '
        "read-only tools only."
    )


_PATH_ARGUMENT = re.compile(
    r"(?<!name_)(?<!pro)(?:path|file(?:_?name)?|folder|dir(?:ectory)?)$", re.IGNORECASE
)
"""`relative_path`, `fileName`; not `name_path`, which is a symbol's, nor `file_mask`."""


def takes_path(name: str) -> bool:
    """Whether an argument of this name takes the path of a file or a folder."""
    return _PATH_ARGUMENT.search(name) is not None


def takes_paths(tool: ToolSpec) -> bool:
    names = tool.input_schema.get("properties", {})
    return any(takes_path(name.removesuffix("s")) for name in names)


def seen_paths(state: RunState) -> list[str]:
    """Every path in the listing, the request or a result, and the folders of paths in calls."""
    texts = [state.started.listing or "" if state.started else "", state.user_words]
    succeeded = [each for each in state.iterations if each.outcome is Outcome.SUCCESS]
    texts += [each.result for each in succeeded]
    used = [
        folder
        for each in succeeded
        for name, value in each.arguments.items()
        if takes_path(name) and isinstance(value, str)
        for folder in _parents(value.strip("./"))
    ]
    return list(dict.fromkeys([*used, *(path for text in texts for path in _paths(text))]))


@lru_cache(maxsize=RESULTS_KEPT)
def _paths(text: str) -> tuple[str, ...]:
    paths = (path.strip("./") for path in paths_in(text))
    return tuple(dict.fromkeys(path for path in paths if path))


def corrected_paths(
    arguments: dict[str, Any], tool: ToolSpec, seen: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Resolve path arguments that appear nowhere to the nearest path seen; leave out an optional
    one without any. Returns the arguments and the changes, a line each."""
    corrected, changes = dict(arguments), []
    folders = {parent for path in seen for parent in _parents(path)}
    for name, value in arguments.items():
        if not takes_path(name) or not isinstance(value, str) or "*" in value:
            continue
        path = value.strip("./")
        if path in ("", *folders, *seen):
            continue
        if near := _nearest_path(path, seen, whole=value.startswith("/")):
            corrected[name] = near
            changes.append(f"{name}: {value} was never seen; {near} is the nearest path")
        elif name not in tool.required:
            del corrected[name]
            changes.append(f"{name}: {value} was never seen; looking everywhere")
    return corrected, changes


def _nearest_path(path: str, seen: Sequence[str], whole: bool) -> str | None:
    """The path seen that has more or fewer folders before it, else the one spelled most similarly.
    A bare name may come from the listing of any folder, so it only replaces a `whole` path, which
    begins at the root."""
    longer = [each for each in seen if each.endswith("/" + path)]
    shorter = [each for each in seen if path.endswith("/" + each) and (whole or "/" in each)]
    if longer or shorter:
        return longer[0] if longer else max(shorter, key=len)
    others = [
        each
        for each in seen
        if len(each) > 0.8 * len(path)  # a part of it is similar to every path with that part
        and not path.startswith(each + "/")  # its own folders
    ]
    near = process.extractOne(path, others, scorer=fuzz.partial_ratio, score_cutoff=90)
    return near[0] if near else None


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _property(tool: ToolSpec, name: str) -> dict[str, Any]:
    properties = tool.input_schema.get("properties", {})
    found = properties.get(name, {}) if isinstance(properties, dict) else {}
    return found if isinstance(found, dict) else {}


def coercions(written: dict[str, Any], coerced: dict[str, Any]) -> list[str]:
    """What `schemas.coerced` changed in arguments of the wrong types, a line each."""
    return [
        f"{name}: {value!r} was left out"
        if name not in coerced
        else f"{name}: {value!r} was taken as {coerced[name]!r}"
        for name, value in written.items()
        if name not in coerced or (type(value), value) != (type(coerced[name]), coerced[name])
    ]


# Regular expressions and masks: small models confuse them.

_SAYS_MASK = re.compile(r"\b(?:globs?|masks?|wildcards?)\b", re.IGNORECASE)
_SAYS_REGEX = re.compile(r"\bregex|\bregular expression", re.IGNORECASE)
_REGEX_IN_MASK = re.compile(r"\\[.wdsbWDSB]|^\^|\$$|\||\.\+|^\.\*|^\(\?")
"""What no mask contains. `main.*` is a mask; `.*` at the start is one only for hidden files, and
its translation finds these too."""
_REGEX_PART = re.compile(
    r"(?P<nothing>^\(\?\w+\)|[\^$]|\\[bB])"
    r"|(?P<any>(?:\\[wdsWDS]|\.|\[[^\]]*\]|\([^()]*\))[*+?]|\\[wdsWDS]|\([^()]*\))"
    r"|\\(?P<escaped>.)"
)


def takes_mask(tool: ToolSpec, name: str) -> bool:
    """Whether an argument is a file mask such as `*.py`, by its name and description."""
    words = re.sub(r"[_-]|(?<=[a-z])(?=[A-Z])", " ", name)
    says = _property(tool, name).get("description", "")
    if takes_regex(tool, name):
        return False
    of_files = words.endswith("pattern") and bool(_SAYS_MASK.search(tool.description))
    return bool(_SAYS_MASK.search(words) or _SAYS_MASK.search(str(says)) or of_files)


def takes_regex(tool: ToolSpec, name: str) -> bool:
    """Whether an argument is a regular expression, by its name and description."""
    says = f"{name} {_property(tool, name).get('description', '')}"
    return name == tool.text_argument or bool(_SAYS_REGEX.search(says))


def corrected_patterns(
    arguments: dict[str, Any], tool: ToolSpec
) -> tuple[dict[str, Any], list[str]]:
    """Translate regular expressions for arguments that take a mask, and masks and broken
    expressions for those that take a regular expression. Returns the arguments and the changes, a
    line each."""
    corrected, changes = dict(arguments), []
    for name, value in arguments.items():
        if not isinstance(value, str):
            continue
        if takes_mask(tool, name) and _REGEX_IN_MASK.search(value):
            mask = corrected[name] = _as_mask(value)
            changes.append(f"{name}: {value} is a regular expression; the mask is {mask}")
        elif takes_regex(tool, name) and (problem := _broken(value)):
            corrected[name] = _as_regex(value)
            changes.append(
                f"{name}: {value} is not a regular expression ({problem}); {corrected[name]}"
            )
    return corrected, changes


def _as_mask(expression: str) -> str:
    """`.*\\.py$` as `*.py`; alternatives as a mask for all files."""
    if "|" in re.sub(r"\([^()]*\)", "", expression):
        return "*"
    mask = _REGEX_PART.sub(lambda part: "*" if part["any"] else part["escaped"] or "", expression)
    return re.sub(r"\*+", "*", mask) or "*"


def _broken(expression: str) -> str | None:
    try:
        re.compile(expression)
    except re.error as error:
        # Other dialects than Python's may know more, but none knows these.
        known = ("nothing to repeat", "multiple repeat", "missing )", "unbalanced", "unterminated")
        return error.msg if error.msg.startswith(known) else None
    except (OverflowError, RecursionError):
        return None
    return None


def _as_regex(text: str) -> str:
    """`*.py` as `\\.py`, `*foo*` as `foo`; what is not a mask is taken literally: `connect(`."""
    if not text.startswith("*") and "**" not in text:
        return re.escape(text)
    parts = [re.escape(part) for part in re.split(r"[*/]*\*[*/]*", text) if part]
    return ".*".join(parts) or "."


# What a change may be made with.

MIN_QUOTED_CHARS = 6
"""Characters of the first line of a text that a tool did not find."""
NEAR = 60
"""Of 100: from there on a passage nearly contains a text."""
MAX_PLAIN_NUMBER = 1
"""A number up to this one needs no source: it is a flag or a count."""
MAX_OPERANDS = 40
"""The newest numbers, from two of which another may follow."""
_TOKEN_VALUE = re.compile(r"\S*[\d@/_#]\S*|\S+\.\w\S*")
_DATE_VALUE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?|\d{1,2}:\d{2}(?::\d{2})?")


def unseen(arguments: dict[str, Any], seen: str) -> list[str]:
    """The arguments of a change that appear nowhere in what was seen: ids, accounts, addresses,
    paths and amounts, each as `name: value`. Free text is the model's own; dates are spelled in
    many ways; a number may follow from two others."""
    numbers = [float(each) for each in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w])", seen)]
    return [
        f"{name}: {value}"
        for name, each in arguments.items()
        for value in (each if isinstance(each, list) else [each])
        if _has_no_source(value, seen, numbers)
    ]


def _has_no_source(value: Any, seen: str, numbers: Sequence[float]) -> bool:
    match value:
        case bool():
            return False
        case int() | float():
            newest = numbers[-MAX_OPERANDS:]
            derived = (
                result
                for first, second in product(newest, newest)
                for result in (first + second, first - second, first * second)
            )
            return value > MAX_PLAIN_NUMBER and value not in numbers and value not in derived
        case str() if _TOKEN_VALUE.fullmatch(value) and not _DATE_VALUE.fullmatch(value):
            return value.strip("./").casefold() not in seen.casefold()
    return False


def meant(arguments: dict[str, Any], failure: str, passages: Sequence[Passage]) -> Passage | None:
    """The passage that a call was meant for, if its tool did not find a text that is in another
    place than the call names, or is nearly somewhere: small models copy from memory."""
    said = [*_strings(arguments)]
    texts = [each.text.lower() for each in passages]
    for value in said:
        quoted = value.strip().lower()
        first = quoted.partition("\n")[0]
        if len(first) < MIN_QUOTED_CHARS or first not in failure.lower():
            continue
        holding = [each for each in passages if quoted in each.text.lower()]
        if not holding:
            near = process.extractOne(quoted, texts, scorer=fuzz.partial_ratio, score_cutoff=NEAR)
            return passages[near[2]] if near else None
        if not any(each.source == value for each in holding for value in said):
            return holding[0]
    return None


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _strings(each)
        case dict():
            yield from _strings(list(value.values()))


# What a result really is.

_EMPTY = re.compile(r"[\s\[\]{}()\"':,.]*|.*\bno (?:results|matches|files)\b.{0,80}", re.I | re.S)


def empty(result: str) -> bool:
    """Whether a successful result contains nothing: `[]`, `{"files": []}`, "no matches"."""
    if result.startswith(f"{NOTHING}, nor for "):
        return True
    bare = re.sub(r'"\w+"\s*:', "", result)
    return len(bare) < 200 and _EMPTY.fullmatch(bare) is not None


_FAULT = re.compile(
    r"(?:MCP )?(?:Error|ERROR|error)(?::(?:\s|$)| - | -?\d+: "
    r"| (?:accessing|calling|connecting|executing|fetching|loading|opening|reading|searching) )"
    r"|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): "
    r"|(?:Unknown|Invalid) tool\b|Tool \S+ (?:not found|does not exist|is not available)"
)
_TRACEBACK = "Traceback (most recent call last):"
_FAULT_KEYS = {
    "code",
    "details",
    "error",
    "errors",
    "isError",
    "message",
    "ok",
    "status",
    "success",
}
_SHOWS_TEXT = re.compile(
    r"(?<![a-z])(?:read|cat|view|open|search|grep|contents?|logs?)(?![a-z])", re.IGNORECASE
)


def fault(tool: ToolSpec, arguments: dict[str, Any], result: str) -> bool:
    """Whether a result that is marked as a success is nothing but a short error.

    If the tool shows the project's own text, the error has to name the tool or the path: a log may
    contain one line that says "Error: disk full".
    """
    text = result.strip()
    if len(text) > MAX_FAULT_CHARS:
        return False
    short = len(text.splitlines()) <= MAX_FAULT_LINES and _FAULT.match(text) is not None
    if not (short or text.startswith(_TRACEBACK) or _is_fault(text)):
        return False
    if not (tool.file_argument or tool.text_argument or _SHOWS_TEXT.search(tool.name)):
        return True
    places = [str(value).strip("./") for name, value in arguments.items() if takes_path(name)]
    return any(name and name in text for name in (tool.name, *places))


def _is_fault(text: str) -> bool:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(data, dict)
        and bool(data.get("error") or data.get("isError") is True)
        and data.keys() <= _FAULT_KEYS
    )


# What to try when nothing was found.


def wider(tool: ToolSpec, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Broader versions of a call that found nothing, the nearest first.

    A search in texts or for files is made everywhere, then with a looser pattern; a look-up in a
    folder everywhere; a listing in the parent folder.
    """
    everywhere = _everywhere(tool, arguments)
    mask = next((name for name in tool.required if takes_mask(tool, name)), None)
    tries: list[dict[str, Any]] = []
    if tool.text_argument:
        pattern = str(arguments.get(tool.text_argument, ""))
        tries = [everywhere | {tool.text_argument: each} for each in (pattern, *_loosened(pattern))]
    elif mask:
        written = str(arguments.get(mask, ""))
        loose = f"*{_stem(written.rpartition('/')[2].strip('*?'))}*"
        tries = [everywhere | {mask: each} for each in (written, loose.replace("**", "*"))]
    elif not tool.file_argument:
        texts = [name for name in tool.required if isinstance(arguments.get(name), str)]
        if any(not takes_path(name) for name in texts):
            kept = {name: value for name, value in arguments.items() if name in texts}
            tries = [everywhere] if kept.items() <= everywhere.items() else []
        else:
            tries = [_one_up(arguments)]
    distinct: list[dict[str, Any]] = []
    for each in tries:
        if not any(same(tool, each, other) for other in (arguments, *distinct)):
            distinct.append(each)
    return distinct


def _everywhere(tool: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments without those that limit the call to some files."""
    required = tool.required
    return {
        name: _top(value) if takes_path(name) else value
        for name, value in arguments.items()
        if name in required or not (takes_path(name) or takes_mask(tool, name))
    }


def _top(path: Any) -> Any:
    """The top of the project, or the parent folder of an absolute path, which may be elsewhere."""
    return _parent(path) if isinstance(path, str) and path.startswith("/") else "."


def _one_up(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _parent(value) if takes_path(name) and isinstance(value, str) else value
        for name, value in arguments.items()
    }


def _parent(path: str) -> str:
    parent = path.rstrip("/").rpartition("/")[0]
    return parent or ("/" if path.startswith("/") else ".")


def _stem(name: str) -> str:
    return name.rpartition(".")[0] or name


def _loosened(pattern: str) -> list[str]:
    """A pattern in any case, with any separator between its words, then its longest word alone."""
    plain = re.sub(r"\(\?\w+\)|\\.", " ", pattern)
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]{2,}(?![a-z])|\d+", plain)
    loose = []
    if 0 < len(words) <= MAX_PATTERN_WORDS and "|" not in plain:
        loose.append("(?i)" + "[ _.-]?".join(words))
    telling = [word for word in words if len(word) >= MIN_WORD_CHARS]
    if telling:
        loose.append("(?i)" + max(telling, key=len))
    return loose


# Repeats, and runs without progress.


def repeated(state: RunState, tool: ToolSpec, arguments: dict[str, Any]) -> Iteration | None:
    """The last iteration that made this call, or an equal one, and got a result. One from before a
    change, or for an earlier request, does not count: its result may be outdated."""
    for iteration in reversed(state.part_iterations):
        if iteration.outcome is Outcome.SUCCESS and made(iteration, tool, arguments):
            return iteration
        if iteration.changes:
            return None
    return None


def known(state: RunState, iteration: Iteration) -> bool:
    """Whether a call was refused because its result is known."""
    return any(
        each.tool == iteration.tool
        and each.arguments == iteration.arguments
        and each.outcome is Outcome.SUCCESS
        for each in state.iterations[: iteration.number]
    )


def not_again(state: RunState, tool: ToolSpec, arguments: dict[str, Any]) -> str | None:
    """Why a call that may change something is neither requested nor made again: it was refused, or
    it was sent and its effect is unknown."""
    for iteration in state.iterations:
        if not made(iteration, tool, arguments):
            continue
        before = f"This very call was made in iteration {iteration.number}"
        if not iteration.answered:
            return f"{before}, and what it did is unknown. {UNKNOWN}"
        if iteration.approval and not iteration.approval.approved:
            return f"{before}, and not approved: {iteration.approval.reason}. {REFUSED}"
    return None


def made(iteration: Iteration, tool: ToolSpec, arguments: dict[str, Any]) -> bool:
    """Whether an iteration made this call, or an equal one."""
    return iteration.tool == tool.name and same(tool, iteration.arguments, arguments)


def same(tool: ToolSpec, first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two calls are equal except for defaults, empty options and the spelling of paths."""
    return _normal(tool, first) == _normal(tool, second)


def _normal(tool: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    normal = {}
    for name, value in arguments.items():
        if takes_path(name) and isinstance(value, str):
            value = (value.rstrip("/") or value).removeprefix("./")
            value = "" if value == "." else value
        unsaid: tuple[Any, ...] = (None, "", [], {}, _property(tool, name).get("default"))
        if name in tool.required or value not in unsaid:
            normal[name] = value
    return normal


def new_lines(iterations: Sequence[Iteration]) -> Sequence[int]:
    """For each iteration, how many lines of its result are new; a change counts as one at least."""
    done = ((each.outcome is Outcome.SUCCESS, each) for each in iterations)
    return _new_lines(*((each.result, each.changes) if ok else ("", False) for ok, each in done))


@lru_cache(maxsize=128)
def _new_lines(*results: tuple[str, bool]) -> tuple[int, ...]:
    seen: set[str] = set()
    counts = []
    for result, changed in results:
        lines = _lines(result)
        counts.append(max(len(lines - seen), int(changed)))
        seen |= lines
    return tuple(counts)


@lru_cache(maxsize=RESULTS_KEPT)
def _lines(result: str) -> frozenset[str]:
    if empty(result):
        return frozenset()
    lines = {line.strip() for line in readable(result).splitlines()} - {""}
    return frozenset(line for line in lines if not line.startswith(NOTHING))


def fruitless(state: RunState) -> list[list[str]]:
    """The tools of the newest decisions in a row whose calls brought no new line: faults, refusals,
    empty results, and repeats. Look-ups by code do not count, because they end by themselves, nor
    does anything before the user steered the run."""
    fresh = new_lines(state.iterations)
    decisions: list[list[str]] = [[]]
    steered_at = max((each.iteration for each in state.steered), default=-1)
    for each in reversed(state.iterations):
        if each.by == "lookup" or fresh[each.number] or each.number <= steered_at:
            decisions[-1] = []  # one of its calls brought something
            break
        decisions[-1].append(each.tool)
        if not each.beside:
            decisions.append([])
    return [tools for tools in decisions if tools]


def left_out(state: RunState) -> list[str]:
    """The tools that may not be chosen next, because their last calls brought nothing new."""
    decisions = fruitless(state)
    if len(decisions) < FRUITLESS_DECISIONS:
        return []
    return list(dict.fromkeys(tool for tools in decisions for tool in tools))


def against_the_user(state: RunState, decision: Conclude | Stay | MoveOn) -> str | None:
    """What the user has said about later steps, if a decision ignores it."""
    if not isinstance(decision, MoveOn):
        return None
    begun = decision.objective or next(iter(state.later_steps), "")
    if plain(begun) in skipped(state.said):
        return f"The user does not want this step: {begun}"
    first = next(iter(state.later_steps), "")
    wanted = plain(first) in wanted_first(state.said)
    if wanted and plain(begun) in map(plain, state.later_steps[1:]):
        return f"The user wants this step first: {first}"
    return None


def gives_up(answer: str) -> bool:
    """Whether an answer says that there is none, however the model has marked it."""
    return (
        re.match(r"(?i)\W*(?:i )?(?:could not|cannot|can't|couldn't|unable to)\b", answer)
        is not None
    )
