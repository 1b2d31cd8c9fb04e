"""What a call has in place of what the request says."""

import re

from planner.checks.grounding import chosen, given_values
from planner.checks.guards.sources import candidates
from planner.evidence.words import says
from planner.state import RunState
from planner.text import leaves
from planner.tools import Arguments

_VALUE = re.compile(
    r"""(?<!\w)(?:"[^"\n]+"|'[^'\n]+'|“[^”\n]+”|„[^“”\n]+[“”]|«[^»\n]+»|「[^」\n]+」)|[\w.@+/:-]*\w"""
)
"""A word of a request, or what it puts between quotation marks."""
_QUOTES = "\"'“”„«»「」 "
_MOMENT = re.compile(r"\d{1,2}:\d{2}|\d{4}-\d{2}-\d{2}")


def values_in(request: str) -> list[tuple[re.Match[str], str]]:
    """The words and quotations of a request: where they stand, and without their marks."""
    return [(each, each[0].strip(_QUOTES)) for each in _VALUE.finditer(request)]


def form_of(value: str) -> str:
    """The form of an address, a code, a day or a time, which others of its kind have; empty for
    anything else."""
    if "@" in value[1:]:
        return "@"
    code = value.isascii() and any(map(str.isalpha, value)) and any(map(str.isdigit, value))
    return re.sub(r"\d+", "0", value.casefold()) if code or _MOMENT.fullmatch(value) else ""


def other_than_asked(arguments: Arguments, state: RunState) -> str | None:
    """What may be wrong with a change: it has a value of the form of one that the request says and
    no call has, or one that stands in a list under the name of its argument, where the request says
    another one of these."""
    request, calls = state.prompt, chosen(state)
    used = "\n".join([*(str(value) for _, value in leaves(arguments)), *given_values(calls)])
    asked = [each for _, each in values_in(request) if form_of(each) and not says(used, each)]
    for name, value in leaves(arguments):
        if not isinstance(value, str) or not value or says(request, value):
            continue
        others = [each for each in asked if form_of(each) == form_of(value)]
        for call in calls:
            listed = [] if call.changes else candidates(name, call.result)
            if value in listed:
                others += [each for each in listed if says(request, each) and not says(used, each)]
        if others:
            return f"the request says {others[0]}, which no argument has; {name} is {value}"
    return None
