"""The arguments of a call as its tool takes them: paths that exist, masks, regular expressions."""

import re
from collections.abc import Container, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from rapidfuzz import fuzz, process

from planner.checks.claims import holds, without_separators
from planner.checks.validation import choices
from planner.evidence.context import readable
from planner.evidence.listing import of_listing, paths_in
from planner.evidence.records import RESULTS_KEPT
from planner.evidence.words import BETWEEN, apart
from planner.state import RunState
from planner.text import shortened
from planner.tools import EMPTY, Arguments, ToolSpec

MIN_SHARE = 0.1
"""Of a tool's default number. What small models make up is less, such as 1 of 100; a single day
instead of seven may be meant."""
MAX_SHOWN = 60
"""Characters of a corrected text."""
Corrected = tuple[Arguments, list[str]]
"""Arguments as a guard leaves them, and what it has changed, a line each."""
_PATH_ARGUMENT = re.compile(
    r"(?<!name_)(?<!pro)(?:(?<!\bx)(?<!_x)(?<!json)(?<!json_)path|file(?:_?name)?|folder"
    r"|dir(?:ectory)?)$",
    re.IGNORECASE,
)
"""`relative_path`, `fileName`; not `name_path` of a symbol, `xpath`, `json_path` or `file_mask`."""


class Seen(NamedTuple):
    """The paths that texts show, and the texts."""

    paths: Sequence[str]
    texts: Sequence[str] = ()

    def holds(self, path: str) -> bool:
        """Whether a path stands in a text; it may not look like one: `Sent`, `Dockerfile`."""
        whole = rf"(?<![\w./\\@+-]){re.escape(apart(path))}(?![\w/\\@+-]|\.\w)"
        return any(path in text and re.search(whole, apart(text)) for text in self.texts)


def takes_path(name: str) -> bool:
    return _PATH_ARGUMENT.search(name) is not None


def takes_paths(tool: ToolSpec) -> bool:
    return any(takes_path(name.removesuffix("s")) for name in tool.parameters)


def seen_paths(state: RunState) -> Seen:
    """Every path in the listing, the request or a result, the folders of paths in calls, and what
    a call with the path of a folder found in it."""
    texts = [state.started.listing or "" if state.started else "", state.said_by_user]
    succeeded = [each for each in state.iterations if each.succeeded]
    texts += [readable(each.result) for each in succeeded]
    given = [
        (value, each.result)
        for each in succeeded
        for name, value in each.arguments.items()
        if takes_path(name) and isinstance(value, str)
    ]
    used = [folder for value, _ in given for folder in _parents(value.strip("./"))]
    texts += [_inside(value, result) for value, result in given if value.startswith("/")]
    paths = dict.fromkeys([*used, *(path for text in texts for path in _paths(text))])
    return Seen(list(paths), texts)


@lru_cache(maxsize=RESULTS_KEPT)
def _inside(folder: str, listing: str) -> str:
    """The paths of what is listed in a folder, one a line."""
    return "\n".join(f"{folder.rstrip('/')}/{each}" for each in of_listing(listing))


@lru_cache(maxsize=RESULTS_KEPT)
def _paths(text: str) -> tuple[str, ...]:
    paths = (path.removeprefix("./").rstrip("/") for path in paths_in(text))
    return tuple(dict.fromkeys(path for path in paths if path.strip("./")))


def corrected_paths(arguments: Arguments, tool: ToolSpec, seen: Seen) -> Corrected:
    """Replace a path that was never seen by the nearest one, or leave out an optional one."""
    corrected, changes = dict(arguments), []
    spelled: dict[str, str] = {}
    for each in seen.paths:
        spelled.setdefault(each.strip("./"), each)
    paths = [*spelled]
    folders = {parent for path in paths for parent in _parents(path)}
    for name, value in arguments.items():
        if not takes_path(name) or not isinstance(value, str) or "*" in value:
            continue
        if value in choices(tool.grammar, name):
            continue
        path = value.strip("./")
        if path in ("", *folders, *paths) or seen.holds(value.removeprefix("./").rstrip("/")):
            continue
        if value.startswith("/") and _joined(path, {*folders, *paths}, seen):
            continue
        if nearest := _nearest_path(path, paths, whole=value.startswith("/")):
            corrected[name] = near = spelled[nearest]
            changes.append(f"{name}: {value} was never seen; {near} is the nearest path")
        elif name not in tool.required and not _is_choice(tool, name, value):
            del corrected[name]
            changes.append(f"{name}: {value} was never seen; looking everywhere")
    return corrected, changes


def _is_choice(tool: ToolSpec, name: str, value: str) -> bool:
    """Whether the value of an optional argument may be no path, but a choice: `desc` of a
    `sort_dir`, `sent` of a mailbox's `folder`. A tool whose default is not everywhere needs it."""
    own = tool.parameters.get(name, {})
    if not re.fullmatch(r"[\w -]+", value):
        return False
    word = re.escape(value)
    listed = rf"([\"'`]){word}\1|(?:[|/]|\bor) ?{word}\b|\b{word} ?(?:[|/]|or\b)"
    elsewhere = own.get("default") not in (None, "", ".", "./", "/", "*")
    return elsewhere or re.search(listed, str(own.get("description", ""))) is not None


def _joined(path: str, known: Container[str], seen: Seen) -> bool:
    """Whether a path from the root is a folder that was seen and a known path within it: some tools
    take only such paths, and others return none."""
    return any(
        path.removeprefix(f"{folder}/") in known and seen.holds(f"/{folder}")
        for folder in _parents(path)
    )


def _nearest_path(path: str, seen: Sequence[str], whole: bool) -> str | None:
    """The path seen that has more or fewer folders before it, else the one spelled most similarly.
    A bare name may be from any folder's listing, so it only replaces a `whole` path."""
    longer = [each for each in seen if each.endswith("/" + path)]
    shorter = [each for each in seen if path.endswith("/" + each) and (whole or "/" in each)]
    if longer or shorter:
        return longer[0] if longer else max(shorter, key=len)
    others = [
        each
        for each in seen
        if len(each) > 0.8 * len(path)  # a part of it is similar to every path with that part
        and re.findall(r"\d", each) == re.findall(r"\d", path)  # 0002 is another one than 0001
        and not path.startswith(each + "/")  # its own folders
    ]
    near = process.extractOne(path, others, scorer=fuzz.partial_ratio, score_cutoff=90)
    return near[0] if near else None


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def same(tool: ToolSpec, first: Arguments, second: Arguments) -> bool:
    """Whether two calls are equal except for defaults, empty options and the spelling of paths."""
    return _normal(tool, first) == _normal(tool, second)


def _normal(tool: ToolSpec, arguments: Arguments) -> Arguments:
    normal = {}
    for name, value in arguments.items():
        if takes_path(name) and isinstance(value, str):
            value = (value.rstrip("/") or value).removeprefix("./")
            value = "" if value == "." else value
        unsaid = [*EMPTY, tool.parameters.get(name, {}).get("default")]
        if name in tool.required or value not in unsaid:
            normal[name] = value
    return normal


def coercions(written: Arguments, coerced: Arguments) -> list[str]:
    """What `validation.coerced` changed in arguments of the wrong types, a line each."""
    return [
        f"{name}: {value!r} was left out"
        if name not in coerced
        else f"{name}: {value!r} was taken as {coerced[name]!r}"
        for name, value in written.items()
        if name not in coerced or (type(value), value) != (type(coerced[name]), coerced[name])
    ]


def without_limits(arguments: Arguments, tool: ToolSpec, said: str) -> Corrected:
    """Leave out optional numbers far below the tool's default that the user has not said."""
    kept, changes = dict(arguments), []
    numbers = {float(each) for each in re.findall(r"\d+(?:\.\d+)?", without_separators(said))}
    for name, value in arguments.items():
        default = tool.parameters.get(name, {}).get("default")
        if name in tool.required or type(value) not in (int, float) or value in numbers:
            continue
        if isinstance(default, int | float) and 0 < value < MIN_SHARE * default:
            del kept[name]
            changes.append(f"{name}: {value} was left out; nobody said it, and {default} is usual")
    return kept, changes


def laid_out_as_said(arguments: Arguments, said: str) -> Corrected:
    """Give a text that the user said its line breaks: small models write it as one line."""
    changes: list[str] = []

    def laid_out(value: Any) -> Any:
        match value:
            case dict():
                return {name: laid_out(each) for name, each in value.items()}
            case list():
                return [laid_out(each) for each in value]
            case str() if " " in value and len(value) <= len(said):
                found = re.search(r"\s+".join(map(re.escape, value.split())), said)
                text = value.strip()
                if found and found[0].count("\n") > text.count("\n"):
                    told = repr(shortened(text, MAX_SHOWN))
                    changes.append(f"{told}: its line breaks are the request's")
                    return value.replace(text, found[0])
        return value

    return {name: laid_out(value) for name, value in arguments.items()}, changes


def spelled_as_said(arguments: Arguments, tool: ToolSpec, said: str, seen: str) -> Corrected:
    """Spell texts as the user did: many tools find nothing for `paris`. A choice, and what a result
    (`seen`) or the description spells so, stay: a collection may be named `kunden`. So does a code
    in capitals: `IN` is not the "in" of "in India"."""
    corrected, changes = dict(arguments), []
    for name, value in arguments.items():
        if choices(tool.grammar, name):
            continue
        known = f"{seen}\n{tool.parameters.get(name, {}).get('description', '')}"
        given = value if isinstance(value, list) else [value]
        spelled = [_as_said(each, said, known) if isinstance(each, str) else each for each in given]
        if spelled != given:
            corrected[name] = spelled if isinstance(value, list) else spelled[0]
            changes.append(f"{name}: {value} is {corrected[name]} in the request")
    return corrected, changes


def _as_said(value: str, said: str, known: str) -> str:
    if not value or value.isupper() or holds(known, value):
        return value
    whole = rf"(?<!\w){re.escape(apart(value))}(?!\w)"
    found = re.search(whole, apart(said), re.IGNORECASE)
    return found[0].replace(BETWEEN, "") if found and value not in said else value


# Regular expressions and masks: small models confuse them.

_SAYS_MASK = re.compile(r"\b(?:globs?|masks?|wildcards?)\b", re.IGNORECASE)
_SAYS_REGEX = re.compile(r"\bregex|\bregular expression", re.IGNORECASE)
_REGEX_IN_MASK = re.compile(r"\\[.wdsbWDSB]|^\^|\$$|\||\.\+|^\.\*|^\(\?")
"""What no mask contains. With `.*` at its start, a mask would be one for hidden files."""
_REGEX_PART = re.compile(
    r"(?P<nothing>^\(\?\w+\)|[\^$]|\\[bB])"
    r"|(?P<any>(?:\\[wdsWDS]|\.|\[[^\]]*\]|\([^()]*\))[*+?]|\\[wdsWDS]|\([^()]*\))"
    r"|\\(?P<escaped>.)"
)


def takes_mask(tool: ToolSpec, name: str) -> bool:
    """Whether an argument is a file mask such as `*.py`, by its name and description."""
    words = re.sub(r"[_-]|(?<=[a-z])(?=[A-Z])", " ", name)
    says = tool.parameters.get(name, {}).get("description", "")
    if takes_regex(tool, name):
        return False
    of_files = words.endswith("pattern") and bool(_SAYS_MASK.search(tool.description))
    about_files = takes_paths(tool) or re.search(r"\bfile", f"{name} {says}", re.IGNORECASE)
    described = about_files and _SAYS_MASK.search(str(says))  # else of words, in a text
    return bool(_SAYS_MASK.search(words) or described or of_files)


def takes_regex(tool: ToolSpec, name: str) -> bool:
    """Whether an argument is a regular expression, by its name and description."""
    says = f"{name} {tool.parameters.get(name, {}).get('description', '')}"
    return name == tool.text_argument or bool(_SAYS_REGEX.search(says))


def corrected_patterns(arguments: Arguments, tool: ToolSpec) -> Corrected:
    """Make masks of regular expressions where an argument takes a mask, and regular expressions of
    masks and broken expressions where it takes those."""
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
