"""What code sees for itself in the lines of a look-up, in words.

A small model does not count, takes one line's number for another's, and does not put two lines
together. Where a request asks for just such a fact, code states it, and an answer has to go by it.
"""

import re
from typing import NamedTuple

from planner.lines import Line
from planner.lookup import Lookup
from planner.reading import Intent

MOST_FINDINGS = 8
LONGEST_LIST = 400
"""Characters of the names that were counted."""

_LEFT_OUT = r"(?:without|exclud\w+|except|besides|not counting|not including|other than|apart from)"
_ONLY_PUBLIC = re.compile(rf"\bpublic\b|\b{_LEFT_OUT}\b.*\b(?:private|underscore)", re.IGNORECASE)
_NOT_SPECIAL = re.compile(rf"\b{_LEFT_OUT}\b.*(?:__|\b(?:special|dunder|magic)\b)", re.IGNORECASE)
_ASKS_FILE = re.compile(r"\b(?:file|module|path)\b", re.IGNORECASE)
_ASKS_FUNCTION = re.compile(r"\b(?:function|method|class|who|caller)\b", re.IGNORECASE)
_SECTION = re.compile(r"\s*\[+[^\]]+\]+\s*$|#+ ")
_YAML_SECTION = re.compile(r"[\w\"'-]+\s*:")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
_WORDS = (  # noqa: SIM905  as one reads it
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
).split()


class Finding(NamedTuple):
    """A fact that code sees."""

    text: str
    says: tuple[str, ...] = ()
    """What an answer that goes by it holds."""


def findings(lookup: Lookup) -> list[Finding]:
    """What code sees of what is asked; nothing where the request asks for something else."""
    match lookup.reading.intent:
        case Intent.USES:
            return _uses(lookup)
        case Intent.HEIRS:
            return _heirs(lookup)
        case Intent.PLACE:
            return _places(lookup)
        case Intent.BASES:
            return _bases(lookup)
    if lookup.reading.counted and (found := _counts(lookup)):
        return found
    return _defaults(lookup) if lookup.reading.asks_for_default else []


def facts(lookup: Lookup) -> list[Finding]:
    """The findings of which one is the answer, if the request asks for just that."""
    return facts_among(findings(lookup), lookup)


def facts_among(found: list[Finding], lookup: Lookup) -> list[Finding]:
    """The same, of findings at hand."""
    return [] if lookup.reading.compound else [finding for finding in found if finding.says]


def misses(lookup: Lookup, answer: str) -> str | None:
    """What an answer ought to say by the facts and does not; None when it goes by one."""
    known = facts(lookup)
    if not known or any(all(_said(answer, part) for part in fact.says) for fact in known):
        return None
    return known[0].text


def _places(lookup: Lookup) -> list[Finding]:
    asks_line = re.search(r"\blines?\b", lookup.request, re.IGNORECASE)
    return [
        Finding(
            f"{_full_name(lookup, head)} is defined in {head.path} on line {head.number}: "
            f"{head.text.strip()}",
            (_file(head), *([str(head.number)] if asks_line else [])),
        )
        for head in lookup.heads[:MOST_FINDINGS]
    ]


def _full_name(lookup: Lookup, head: Line) -> str:
    scope = lookup.lines.scope(head)
    return f"{scope}.{head.defines}" if scope else str(head.defines)


def _uses(lookup: Lookup) -> list[Finding]:
    by_scope: dict[tuple[str, str], list[Line]] = {}
    for line in lookup.uses:
        by_scope.setdefault((line.path, lookup.lines.scope(line) or ""), []).append(line)
    only_file = _ASKS_FILE.search(lookup.request) and not _ASKS_FUNCTION.search(lookup.request)
    found = []
    for (_, scope), lines in by_scope.items():
        name = next(name for name in lookup.names if lines[0].has(name))
        verb = "calls" if re.search(rf"\b{re.escape(name)}\s*\(", lines[0].text) else "uses"
        if scope and not only_file:
            text = f"{scope} {verb} {name} at {lines[0]}"
            found.append(Finding(text, (scope.rsplit(".", 1)[-1],)))
        else:
            where = f"in {scope}, at" if scope else "at"
            found.append(Finding(f"{name} is used {where} {lines[0]}", (_file(lines[0]),)))
    counted = lookup.reading.counted
    if counted and found:
        files = {line.path for line in lookup.uses}
        number = {"places": len(lookup.uses), "files": len(files)}.get(counted, len(by_scope))
        name = " or ".join(name for name in lookup.names if any(u.has(name) for u in lookup.uses))
        unit = counted if counted in ("places", "files") else "functions"
        total = Finding(f"{_counted(number, unit)} with calls of {name}:", (str(number),))
        return [total, *(Finding(each.text) for each in found[:MOST_FINDINGS])]
    return found[:MOST_FINDINGS]


def _heirs(lookup: Lookup) -> list[Finding]:
    heirs = lookup.lines.heirs(lookup.names)
    found = [
        Finding(
            f"{line.defines} inherits from {', '.join(line.bases)} at {line}", (str(line.defines),)
        )
        for line in heirs[:MOST_FINDINGS]
    ]
    if lookup.reading.counted and heirs:
        names = ", ".join(str(line.defines) for line in heirs)
        text = f"{_counted(len(heirs), 'classes')} inheriting from {lookup.names[0]}: {names}"
        return [Finding(text, (str(len(heirs)),)), *(Finding(each.text) for each in found)]
    return found


def _bases(lookup: Lookup) -> list[Finding]:
    found: list[Finding] = []
    asks_file = _ASKS_FILE.search(lookup.request)
    for head in [head for head in lookup.heads if head.bases][:2]:
        for base in head.bases:
            for place in lookup.lines.definitions([base])[:2]:
                above = f", which inherits from {', '.join(place.bases)}" if place.bases else ""
                text = (
                    f"{head.defines} inherits from {base}{above}. "
                    f"{base} is defined in {place.path} on line {place.number}"
                )
                found.append(Finding(text, (_file(place) if asks_file else base,)))
            if base not in lookup.lines.heads:
                found.append(Finding(f"{head.defines} inherits from {base} at {head}", (base,)))
    return found


def _defaults(lookup: Lookup) -> list[Finding]:
    """The defaults of a named function or class: those that the request speaks of."""
    spoken = {word.lower() for word in lookup.reading.words}
    found = []
    for head in lookup.heads:
        if head.path not in lookup.lines.whole or not (head.is_class or head.is_function):
            continue
        for name, value in lookup.lines.defaults(head).items():
            if name in lookup.reading.words or _in_words(name, spoken):
                constant = lookup.lines.values.get(value)
                is_what = f"{value}, and {constant.text.strip()}" if constant else value
                says = constant.text.partition("=")[2].strip() if constant else value
                text = f"The default of {name} in {head.defines} is {is_what}. At {head}"
                found.append(Finding(text, (says,)))
    return found[:MOST_FINDINGS]


def _in_words(name: str, spoken: set[str]) -> bool:
    """Whether a text speaks of a name of several words, as of `usable_metres` in "how many usable
    metres"."""
    parts = name.lower().strip("_").split("_")
    return len(parts) > 1 and all(part in spoken for part in parts)


def _counts(lookup: Lookup) -> list[Finding]:
    found: list[Finding] = []
    for path in lookup.files_named:
        found += _counts_of_file(lookup, path)
    for head in [head for head in lookup.heads if head.path in lookup.lines.whole][:2]:
        found += _counts_of(lookup, head)
    return found


def _counts_of(lookup: Lookup, head: Line) -> list[Finding]:
    counted = lookup.reading.counted
    lists = any("Enum" in base or base == "Flag" for base in head.bases)
    if counted == "parameters" and head.is_function:
        names, of = list(lookup.lines.parameters(head)), "parameters"
    elif counted == "methods" and head.is_class:
        names, of = _methods(lookup, head), "methods"
    elif head.is_class and (lists or counted in ("fields", "parameters", "items")):
        names, of = lookup.lines.fields(head), "members" if lists else "fields"
    else:
        return []
    text = f"{head.defines} has {_counted(len(names), of)}: {', '.join(names)[:LONGEST_LIST]}"
    return [Finding(f"{text}. At {head}", (str(len(names)),))]


def _methods(lookup: Lookup, head: Line) -> list[str]:
    """The methods of a class that the request means."""
    names = lookup.lines.methods(head)
    if _ONLY_PUBLIC.search(lookup.request):
        return [name for name in names if not name.startswith("_")]
    if _NOT_SPECIAL.search(lookup.request):
        return [name for name in names if not name.startswith("__")]
    return names


def _counts_of_file(lookup: Lookup, path: str) -> list[Finding]:
    lines = lookup.lines.of(path)
    if path not in lookup.lines.whole:
        return []
    section = _YAML_SECTION if path.endswith((".yaml", ".yml")) else _SECTION
    unit, found = {
        "classes": ("classes", [line for line in lines if line.is_class]),
        "methods": ("functions", [line for line in lines if line.is_function]),
        "sections": ("sections", [line for line in lines if section.match(line.text)]),
        "items": ("list items", [line for line in lines if _ITEM.match(line.text)]),
    }.get(lookup.reading.counted or "", ("", []))
    if not found:
        return []
    names = ", ".join(line.defines or line.text.strip(" #-*[]:") for line in found)
    text = f"{path} has {_counted(len(found), unit)}: {names[:LONGEST_LIST]}"
    return [Finding(text, (str(len(found)),))]


def _counted(number: int, unit: str) -> str:
    singular = {"classes": "class", "list items": "list item"}.get(unit, unit.removesuffix("s"))
    return f"{number} {singular if number == 1 else unit}"


def _file(line: Line) -> str:
    return line.path.rsplit("/", 1)[-1]


def _said(answer: str, part: str) -> bool:
    """Whether the answer says it; a small number also in words, a module also without its end."""
    ways = [part, part.strip("\"'"), part.removesuffix(".py")]
    if part.isdigit() and int(part) < len(_WORDS):
        ways.append(_WORDS[int(part)])
    return any(re.search(rf"(?<!\w){re.escape(way)}(?!\w)", answer, re.IGNORECASE) for way in ways)
