"""Renaming: definitions that get another name, and what uses them."""

import re
from collections.abc import Mapping, Sequence

from planner.evidence.definitions import defined_name, indentation
from planner.evidence.file_text import split_lines
from planner.evidence.rewriting import Change
from planner.evidence.words import INTO_NAME, OUT_OF_NAME, is_name, tokens


def renames(text: str, written: str, asked: set[str]) -> dict[str, str]:
    """The definitions that got another name, by the old one, where both are asked for."""
    before, after = ([*map(defined_name, split_lines(each))] for each in (text, written))
    lost = [name for name in before if name in asked and name not in after]
    gained = [name for name in after if name in asked and name not in before]
    return dict(zip(lost, gained, strict=True)) if len(lost) == len(gained) else {}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with new names for old ones."""
    return "".join(_renamed_line(line, names) for line in text.splitlines(keepends=True))


def _renamed_line(line: str, names: Mapping[str, str]) -> str:
    """A plain word that stands between backticks is prose beside them."""
    parts = re.split(r"(`+)", line)
    code = {*tokens(" ".join(parts[2::4]))}
    beside = {old: new for old, new in names.items() if is_name(old) or old not in code}
    return "".join(
        _replaced(part, names if at % 4 == 2 else beside) for at, part in enumerate(parts)
    )


def _replaced(text: str, names: Mapping[str, str]) -> str:
    if not names:
        return text
    either = "|".join(map(re.escape, names))
    old = rf"(?:(?<!\w)|{INTO_NAME})(?:{either})(?:(?!\w)|{OUT_OF_NAME})"
    return re.sub(old, lambda found: names[found[0]], text)


def foreign(path: str, text: str, names: Mapping[str, str], used: str) -> list[str]:
    """The uses of a file's names as parts of something that its path does not name: `json.load` may
    be another one than `load`."""
    outermost = (line for line in split_lines(text) if not indentation(line))
    own = names.keys() & {*map(defined_name, outermost)}
    if not own:
        return []
    behind = rf"(\w+)(?:\.|::|->)(?:{'|'.join(map(re.escape, own))})(?!\w)"
    found = (each[0] for each in re.finditer(behind, used) if each[1] not in tokens(path))
    return list(dict.fromkeys(found))


def uses(text: str, names: Mapping[str, str], changed: Sequence[Change]) -> list[Change]:
    """The changes that put new names in the place of old ones, in lines that have no change."""
    taken = {number for each in changed for number in range(each.first, each.last)}
    new = ((number, line, renamed(line, names)) for number, line in enumerate(split_lines(text)))
    return [
        Change(number, number + 1, [other])
        for number, line, other in new
        if other != line and number not in taken
    ]
