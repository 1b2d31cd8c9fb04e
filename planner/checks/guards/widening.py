"""What to try when nothing was found."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from planner.checks.guards.arguments import same, takes_mask, takes_path
from planner.evidence.records import RESULTS_KEPT, only_list, value_of
from planner.evidence.words import TOKEN, is_unspaced, parts
from planner.state import Iteration
from planner.tools import Arguments, Outcome, ToolSpec

MAX_PATTERN_WORDS = 4
"""Words of a pattern that is tried with other separators; a longer one is a sentence or a line."""
MIN_WORD_CHARS = 3
"""Characters of a word that is searched for alone."""
_OPERATOR = re.compile(r":\w")
"""What stands behind an operator of a search, as in `from:anna`."""
STATEMENT = re.compile(r"[=<>{}]|\w\(|\b[A-Z]{3,} .*\b[A-Z]{3,} ")
"""What stands in a query in a language of its own, whose words alone are none: SQL, JQL, PromQL."""
MAX_SIBLINGS = 6
"""Items of a list that are all looked up if nobody said which."""
MAX_ITEM_CHARS = 60
QUOTED = re.compile(r"""(?<!\w)["'`]([^"'`\n]{1,60})["'`](?!\w)""")
"""What a message quotes."""
_HEADED = re.compile(r"(?:([^\n:,\"'\[{(]{1,60}:)\s+)?(.*)", re.DOTALL)
"""What a list may begin with: `Hotels: `."""


def wider(tool: ToolSpec, arguments: Arguments) -> list[Arguments]:
    """Broader versions of a call that found nothing, the nearest first: a search for texts or files
    is made everywhere, then with a looser pattern; a look-up in a folder everywhere; a listing in
    the parent folder; any other look-up without its optional texts, then for its longest words."""
    everywhere = _everywhere(tool, arguments)
    mask = next((name for name in tool.required if takes_mask(tool, name)), None)
    tries: list[Arguments] = []
    if tool.text_argument:
        pattern = str(arguments.get(tool.text_argument, ""))
        tries = [everywhere | {tool.text_argument: each} for each in (pattern, *_loosened(pattern))]
    elif mask:
        written = str(arguments.get(mask, ""))
        name = written.rpartition("/")[2].strip("*?")
        loose = f"*{name.rpartition('.')[0] or name}*".replace("**", "*")
        if "**/" in tool.model_dump_json():  # without it, only the top folder is looked at
            loose = f"**/{loose}"
        tries = [everywhere | {mask: each} for each in (written, loose)]
    elif not tool.file_argument:
        texts = [name for name in tool.required if isinstance(arguments.get(name), str)]
        if any(not takes_path(name) for name in texts):
            kept = {name: value for name, value in arguments.items() if name in texts}
            if kept.items() <= everywhere.items():
                tries = _with_fewer_words(everywhere, tool)
        else:
            tries = [_without_conditions(arguments, tool), _one_up(arguments)]
    return _distinct(tool, arguments, tries)


def in_fewer_words(tool: ToolSpec, arguments: Arguments) -> list[Arguments]:
    """Broader versions of a look-up that failed: many tools say "not found" as an error."""
    texts = [name for name, value in arguments.items() if isinstance(value, str)]
    if tool.text_argument or tool.file_argument:
        return []
    tries = [*_with_fewer_words(arguments, tool), _without_conditions(arguments, tool)]
    return _distinct(tool, arguments, tries if texts else [])


@lru_cache(maxsize=RESULTS_KEPT)
def items(result: str) -> tuple[str, ...]:
    """The items of a list of short texts, in JSON or one on a line, maybe behind a heading; or of
    records that differ in nothing but one text each, such as the tables of a database."""
    read = value_of(result)
    if named := _names(only_list(read)):
        return named
    if isinstance(read, dict) and len(read) == 1:
        [read] = read.values()
    heading, text = _HEADED.fullmatch(result.strip()).groups()  # type: ignore[union-attr]
    lines = text.splitlines() if read is None else read
    listed = [each for each in lines if isinstance(each, str)] if isinstance(lines, list) else []
    found = [each.strip().removeprefix("- ").strip("'\"") for each in listed]
    alone = read is None and heading is None and len(found) == 1
    fits = all(len(each) <= MAX_ITEM_CHARS and ": " not in each for each in found)
    return tuple(filter(None, found)) if fits and not alone else ()


def _names(listed: Sequence[Any]) -> tuple[str, ...]:
    """The only value in which records differ, if it is a text in all of them."""
    if not listed or not all(isinstance(each, dict) for each in listed):
        return ()
    fields = dict.fromkeys(name for each in listed for name in each)
    differing = [name for name in fields if len({str(each.get(name)) for each in listed}) > 1]
    found = [each.get(name) for name in differing[:1] for each in listed]
    alone = len(differing) == 1 and all(isinstance(each, str) for each in found)
    return tuple(found) if alone else ()


def siblings(argument: str, value: str, call: Iteration) -> list[str]:
    """The other items of a short list in which an argument's value is one: of what a call returned,
    or of what one that failed names instead."""
    failed = call.outcome is Outcome.FAILURE
    found = instead_of(call).get(argument, []) if failed else items(call.result)
    short = value in found and len(found) <= MAX_SIBLINGS
    return [each for each in found if each != value] if short else []


def instead_of(call: Iteration) -> dict[str, list[str]]:
    """What a failure quotes beside the value of an argument, which it quotes too: the values that
    are possible, by argument."""
    quoted = list(dict.fromkeys(QUOTED.findall(call.result)))
    wrong = [name for name, value in call.arguments.items() if value in quoted]
    others = [each for each in quoted if each not in call.arguments.values()]
    return {name: others for name in wrong if others}


def _distinct(tool: ToolSpec, arguments: Arguments, tries: Sequence[Arguments]) -> list[Arguments]:
    """The tries without the call itself, each once."""
    distinct: list[Arguments] = []
    for each in tries:
        if not any(same(tool, each, other) for other in (arguments, *distinct)):
            distinct.append(each)
    return distinct


def _everywhere(tool: ToolSpec, arguments: Arguments) -> Arguments:
    """The arguments without those that limit the call to some files."""
    return {
        name: _top(value) if takes_path(name) else value
        for name, value in arguments.items()
        if name in tool.required or not (takes_path(name) or takes_mask(tool, name))
    }


def _without_conditions(arguments: Arguments, tool: ToolSpec) -> Arguments:
    """The arguments without optional texts that are no paths."""
    return {
        name: value
        for name, value in arguments.items()
        if name in tool.required or takes_path(name) or not isinstance(value, str)
    }


def _with_fewer_words(arguments: Arguments, tool: ToolSpec) -> list[Arguments]:
    """The call without optional texts, then with the longest words of what it looks for alone."""
    texts = [name for name, value in arguments.items() if isinstance(value, str)]
    needed = [name for name in texts if name in tool.required]
    asked = needed or texts[:1]
    bare = {name: value for name, value in arguments.items() if name not in texts or name in asked}
    if len(asked) != 1 or takes_path(asked[0]):
        return [bare]
    said = str(bare[asked[0]]).strip()
    in_words = " " in said and not STATEMENT.search(said)  # and no URL
    found = TOKEN.finditer(said) if in_words else ()
    words = [each[0] for each in found if _tells(each[0]) and not _OPERATOR.match(said, each.end())]
    alone = sorted(dict.fromkeys(words), key=len, reverse=True)[:2] if len(words) > 1 else []
    return [bare, *(bare | {asked[0]: word} for word in alone)]


def _tells(word: str) -> bool:
    """Whether a word may be searched for alone; in scripts without spaces, a short one may."""
    return len(word) >= MIN_WORD_CHARS or is_unspaced(word)


def _top(path: Any) -> Any:
    """The top of the project, or the parent folder of an absolute path, which may be elsewhere."""
    return _parent(path) if isinstance(path, str) and path.startswith("/") else "."


def _one_up(arguments: Arguments) -> Arguments:
    return {
        name: _parent(value) if takes_path(name) and isinstance(value, str) else value
        for name, value in arguments.items()
    }


def _parent(path: str) -> str:
    parent = path.rstrip("/").rpartition("/")[0]
    return parent or ("/" if path.startswith("/") else ".")


def _loosened(pattern: str) -> list[str]:
    """A pattern in any case, with any separator between its words, then its longest word alone."""
    plain = re.sub(r"\(\?\w+\)|\\.", " ", pattern)
    words = parts(plain)
    loose = []
    if 0 < len(words) <= MAX_PATTERN_WORDS and "|" not in plain:
        loose.append("(?i)" + "[ _.-]?".join(words))
    telling = [*filter(_tells, words)]
    if telling:
        loose.append("(?i)" + max(telling, key=len))
    return loose
