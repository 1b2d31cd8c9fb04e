"""What a change may be made with: values that a result or the user has named."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple
from urllib.parse import unquote

from planner.checks.claims import claims, holds, is_date, is_value, numbers_in, plain
from planner.checks.dates import in_seconds, lasting
from planner.checks.forms import is_path
from planner.checks.grounding import chosen, gathered, given_paths
from planner.checks.guards.amounts import Numbers
from planner.checks.guards.arguments import Corrected, takes_path
from planner.checks.guards.no_effect import literals
from planner.checks.guards.results import empty
from planner.checks.validation import choices, takes_whole
from planner.evidence.context import entries_within, readable
from planner.evidence.listing import paths_said
from planner.evidence.words import BETWEEN, apart, long_words, says, words
from planner.state import Iteration, RunState
from planner.text import flat, leaves, shortened, strings
from planner.tools import Arguments, Safety, ToolSpec

NOT_MADE = "It was not made: "
"""The beginning of the result of a change that was held back because of a guess."""
NOT_DUE = f"{NOT_MADE}by what was looked up, nothing is to be done. Say why."
"""The result of a planned change that its model declined."""
MIN_DESCRIBING_CHARS = 16
"""Characters that a value and the description of its argument begin with."""
MAX_PLAIN_NUMBER = 1
"""A number up to this one is a flag or a count."""
MAX_IN_WORDS = 20
MAX_CANDIDATES = 40
"""Values that a model may choose an argument from."""
MAX_ENTRY_CHARS = 120
"""Of an entry in a complaint."""
_TOKEN_VALUE = re.compile(r"\S*[\d@/#]\S*|\S+\.\w\S*")
_SCHEME = re.compile(r"\w+://|^(?:[^\W\d_]+:+)+(?=.)")
"""What says of which kind a value is: `https://`, `team:` of `team:4509`."""
_QUANTITY = re.compile(r"(?:\d+(?:\.\d+)?[^\W\d_]{1,3})+")
"""Numbers with their units: `2h`, `512Mi`, `1h30m`."""
_LASTING = re.compile(rf"(?<![^\W_]){_QUANTITY.pattern}(?!\w)")
"""A quantity as a part of a value: `now-6h`."""
_DECIMAL = re.compile(r"\d+(?:\.\d+)?")
_LONG_CODE = re.compile(r"\+?(?=\w*\d)[^\W_]{8,34}")
"""An account, or the number of a telephone or a card."""
_BLANK_VALUE = re.compile(r"<.*>|\[.*\]|\{.*\}|\$\{?\w+\}?")
"""`<id of the bill>`: what stands for a value that is not known."""
_CODE_VALUE = re.compile(r"[^\W\d_].*\d|\d.*[^\W\d_]|@")
"""With letters and digits, or an e-mail address."""


_EXPLAINED = re.compile(r"(?<![\w.])(\d{1,3})\s*[=:]\s*(?=[^\W\d])")
"""A number and what it means."""


class Guess(NamedTuple):
    """A value that a model gave an argument, and that nobody had said."""

    argument: str
    value: Any

    def __str__(self) -> str:
        return f"{self.argument}: {self.value}"

    @property
    def is_amount(self) -> bool:
        """Whether it is a number and no id."""
        return not isinstance(self.value, str) and not is_id(self.argument)

    @property
    def may_be_in_words(self) -> bool:
        """Whether it is a number that people write in words: "two coffees"."""
        return self.is_amount and self.value in range(MAX_IN_WORDS + 1)

    @property
    def wanted(self) -> str:
        """What has to be found out: the argument, with its value only if that is in words, because
        a small model would look for an id that it made up."""
        plain = isinstance(self.value, str) and not _BLANK_VALUE.fullmatch(self.value)
        if not plain or _TOKEN_VALUE.fullmatch(self.value):
            return self.argument
        return f"{self.argument} of {self.value!r}"


def said(state: RunState) -> str:
    """What a change may be made with: the user's words, passages, results that hold something, and
    the paths of files that were read."""
    texts = gathered(state)
    for call in chosen(state):
        if not empty(call.result):
            texts += given_paths(call)
            texts.append(found_by(call))
    return "\n".join([*texts, state.said_by_user])


def found_by(call: Iteration) -> str:
    """The result of a call without what the call looked for, which "no transfer of 798.0" names."""
    result = apart(readable(call.result))
    numbers = [str(each) for each in call.arguments.values() if type(each) in (int, float)]
    for value in [*strings(call.arguments), *numbers]:
        if not is_path(value):
            told = re.escape(apart(value))
            result = re.sub(rf"(?<![\w./@#-]){told}(?![\w/@#-]|\.\w)", "", result)
    return result.replace(BETWEEN, "")


def unseen(
    arguments: Arguments, seen: str, tool: ToolSpec | None = None, asked: str = ""
) -> list[Guess]:
    """The arguments of a change that appear nowhere in what was seen: ids, accounts, channels,
    addresses, paths and amounts; not free text, nor dates, which are spelled in many ways. A number
    may follow from two others, or from one and what the user `asked`, or be in cents where only
    whole numbers are taken. A value may have a meaning by the tool's definition."""
    in_units = Numbers.of(seen, asked)
    seen = f"{seen}\n{plain(seen)}"  # an id may stand there in other digits
    guesses = []
    for argument, each in arguments.items():
        in_cents = tool and takes_whole(tool.grammar, argument)
        numbers = in_units.in_cents if in_cents else in_units
        guesses += [
            Guess(argument, value)
            for name, value in [*leaves(each, argument), *literals(each)]
            if (
                not (tool and _has_meaning(tool, argument, value))
                and _has_no_source(value, seen, numbers, known_only=is_id(name))
            )
            or (
                _PLACE_ARGUMENT.search(name)
                and isinstance(value, str)
                and not _stands(value.strip("#@ "), seen)
            )
            or (tool and _describes(tool, argument, value) and value not in seen)
        ]
    return guesses


def _describes(tool: ToolSpec, argument: str, value: Any) -> bool:
    """Whether a value is what the tool's definition says of it: `1-31 characters, none of …`."""
    said = str(tool.parameters.get(argument, {}).get("description", ""))
    begins = value[:MIN_DESCRIBING_CHARS] if isinstance(value, str) else ""
    return len(begins) == MIN_DESCRIBING_CHARS and " " in begins and begins in said


def _has_meaning(tool: ToolSpec, argument: str, value: Any) -> bool:
    """Whether a tool's definition says what a value stands for: it is a choice, or a number of a
    scale such as "1 = urgent, 2 = high"."""
    if type(value) in (int, float, str) and value in choices(tool.grammar, argument):
        return True
    if type(value) not in (int, float):
        return False
    said = str(tool.parameters.get(argument, {}).get("description", ""))
    scale = {int(each) for each in _EXPLAINED.findall(said)}
    return len(scale) > 1 and value in scale and not is_id(argument)


def without_guesses(arguments: Arguments, tool: ToolSpec, seen: str, asks: bool) -> Corrected:
    """Leave out the optional arguments of a change that nobody said: those that are `unseen`, and
    texts without a word of what was seen or of the tool's definition. If a person is asked, a small
    number stays and is told to be a guess: it may have been said in words."""
    kept, changes = dict(arguments), []
    known = {*words(f"{seen}\n{tool.model_dump_json()}")}
    guessed = {
        each.argument
        for each in unseen(arguments, seen, tool)
        if not (asks and each.may_be_in_words)
    }
    for name, value in arguments.items():
        texts = [text for text in strings(value) if not is_date(text)]
        own = {*words("\n".join(texts))}
        made_up = bool(own) and own.isdisjoint(known)
        if name not in tool.required and (made_up or name in guessed):
            del kept[name]
            changes.append(f"{name}: {value} was left out: nobody said it")
    return kept, changes


def optional_codes(arguments: Arguments, tool: ToolSpec) -> Arguments:
    """The optional texts with codes that a look-up is given, such as a range of cells, besides
    paths and defaults."""
    return {
        name: value
        for name, value in arguments.items()
        if name not in tool.required and isinstance(value, str) and not takes_path(name)
        if _CODE_VALUE.search(value) and value != tool.parameters.get(name, {}).get("default")
    }


def without_codes(arguments: Arguments, tool: ToolSpec, seen: str) -> Corrected:
    """Leave out the optional codes of a look-up that nobody said. A small model copies the example
    of a description."""
    guessed = [
        each
        for each in unseen(optional_codes(arguments, tool), seen, tool)
        if _CODE_VALUE.search(each.value) and not _LASTING.search(each.value)
    ]
    kept = {name: arguments[name] for name in arguments if name not in {g[0] for g in guessed}}
    return kept, [f"{each} was left out: nobody said it" for each in guessed]


_ID_ARGUMENT = re.compile(
    r"(?:^|_)(?i:((?:[giosu]|[gu]u)?id)s?)_?$|(?<=[a-z])((?:(?:[GIOSU]|[GU][Uu])[Ii]|I)[Dd])s?$"
)
"""`id`, `ticket_id`, `fileIds`, `id_`, `issue_iid`, `dashboardUid`: where the name of an id is."""


def is_id(argument: str) -> bool:
    return _ID_ARGUMENT.search(argument) is not None


_PLACE_ARGUMENT = re.compile(r"(?i:(?:channel|account|recipient)s?(?:_?name)?)$")
"""`channel`, `channel_name`, `from_account`, `recipients`: who or what has to exist, and may have a
plain word as its name."""


def _has_no_source(value: Any, seen: str, numbers: Numbers, known_only: bool) -> bool:
    """`known_only`: whether a number has to stand there, however small it is."""
    match value:
        case bool():
            return False
        case int() | float() if known_only:
            alone = rf"(?<![\w.-])(?<!\d[:/]){value}(?![\w/-]|[:.]\d)"
            return re.search(alone, apart(seen)) is None
        case int() | float():
            plain_number = abs(value) <= MAX_PLAIN_NUMBER or numbers.lead_to(abs(value))
            return not plain_number and not in_seconds(value, seen)
        case str() if known_only and " " in value.strip():  # a title, where an id is asked for
            return True
        case str() if _BLANK_VALUE.fullmatch(value):
            return value not in seen
        case str() if _QUANTITY.fullmatch(value) and not (known_only or _stands(value, seen)):
            return not all(map(numbers.lead_to, map(float, _DECIMAL.findall(value))))
        case str() if not known_only and numbers.last(lasting(value)):
            return False
        case str() if _is_token(value, known_only) and not is_date(value):
            bare = unquote(_SCHEME.sub("", value)).strip("./#@")
            whole, *of_path = [_stands(part, seen) for part in [bare, *bare.split("/")]]
            return not whole and not all(of_path)
    return False


def _is_token(value: str, known_only: bool) -> bool:
    """Whether a text names something that has to be known. Words joined with underscores, such as
    the kind of a relation, may be the model's own, unless they are an id."""
    return _TOKEN_VALUE.fullmatch(value) is not None or (known_only and "_" in value)


def _stands(value: str, text: str) -> bool:
    """Whether a text has a value as a whole, in any case; a long code may stand in groups."""
    if holds(text.casefold(), value.casefold()):
        return True
    if not _LONG_CODE.fullmatch(value):
        return False
    grouped = "[ .()-]{0,2}".join(map(re.escape, value))
    whole = rf"(?<!\w)(?<!\d[ -]){grouped}(?!\w|[ -]\d)"
    return re.search(whole, apart(text), re.IGNORECASE) is not None


def mentioned(names: Iterable[str], state: RunState) -> set[str]:
    """The arguments of which the user says a word of their names."""
    said = {*words(state.user_words)}
    return {name for name in names if said & {*words(name)}}


def another_entry(arguments: Arguments, state: RunState) -> str | None:
    """What may be wrong with an id in a change: the entry that has it, in a list that was found,
    has no word of the request which tells the entries apart, and another entry has one, or has a
    value as the request says it. A small model takes the first entry."""
    request = state.user_words
    asked = {*long_words(request)}
    for name, listed, having in _entries_meant(arguments, state):
        said = [asked.intersection(words(each)) | _whole_in(request, each) for each in listed]
        told = [each - said[0].intersection(*said) for each in said]
        best = max(range(len(listed)), key=lambda n: len(told[n]))
        if told[best] and not told[having]:
            own, other = (shortened(flat(listed[n]), MAX_ENTRY_CHARS) for n in (having, best))
            word = min(told[best] & asked or told[best])
            return (
                f"the request says {word}, as ({other}) does; {name} {arguments[name]} is ({own})"
            )
    return None


def _whole_in(request: str, entry: str) -> set[str]:
    """The values of an entry that stand in a request as they are: `Dune` beside `Dune Messiah`."""
    values = re.findall(r"""[:=]\s*["']?([^\W\d][^"'\n,}]*)""", entry)
    return {each.strip() for each in values if says(request, each.strip())}


def as_it_is(arguments: Arguments, state: RunState) -> str | None:
    """What is wrong with a change whose entry has all of its values already, by the newest list: it
    would change nothing, and be told as done."""
    newest = next(_entries_meant(arguments, state), None)
    if newest is None:
        return None
    name, listed, having = newest
    entry = listed[having]
    values = {each: value for each, value in arguments.items() if each != name}
    if not values or not all(_has(entry, each, value) for each, value in values.items()):
        return None
    own = shortened(flat(entry), MAX_ENTRY_CHARS)
    return f"{name} {arguments[name]} has these values already: ({own})"


def _has(entry: str, name: str, value: Any) -> bool:
    """Whether an entry of a list has a value under the name of an argument."""
    own = candidates(name, entry)
    match value:
        case bool():
            return str(value).lower() in map(str.lower, own)
        case int() | float():
            return value in numbers_in("\n".join(own))
        case str() if value.strip():
            return any(_stands(value, each) for each in own)
    return False


def not_named(tool: ToolSpec, arguments: Arguments, request: str) -> str | None:
    """Why a file is not to be deleted, where nobody is asked: the request names others, and not
    this one. A destructive tool that needs nothing but a path is taken for one that deletes."""
    named = paths_said(request)
    [name] = tool.required if len(tool.required) == 1 else [""]
    path, *places = (
        each.removeprefix("./").strip("/") for each in (str(arguments.get(name, "")), *named)
    )
    if not (named and path and takes_path(name) and tool.safety is Safety.DESTRUCTIVE):
        return None
    if any(f"{path}/".startswith(f"{each}/") or path.endswith(f"/{each}") for each in places):
        return None
    return f"the request names {', '.join(named)}, and not {path}"


def instead_of_said(before: Arguments, now: Arguments, request: str) -> str | None:
    """A name or a path of the request for which the next try of a change has something else: a tool
    that cannot find a folder is not to write somewhere else."""
    said = {each for each in claims(request) if not is_value(each)}
    pairs = ((str(before.get(name)), str(value)) for name, value in now.items())
    return next((old for old, new in pairs if old in said and old not in new), None)


def without_flips(arguments: Arguments, tool: ToolSpec, state: RunState) -> Corrected:
    """Leave out the optional booleans of a change that would turn what its entry has now, if the
    user says no word of their names: a small model fills in each argument."""
    kept, changes = dict(arguments), []
    meant = {*tool.required, *mentioned(arguments, state)}
    for _, listed, having in _entries_meant(arguments, state):
        for name, value in arguments.items():
            own = candidates(name, listed[having]) if isinstance(value, bool) else []
            if name not in meant and own and own[0].lower() != str(value).lower():
                kept.pop(name, None)
                changes.append(f"{name}: {value} was left out: it is {own[0]}, and nobody said so")
    return kept, changes


def _entries_meant(
    arguments: Arguments, state: RunState
) -> Iterator[tuple[str, Sequence[str], int]]:
    """The arguments that are ids, each with the lists, the newest first, in which only one entry
    has it, and that entry's place."""
    lists = [entries_within(call.result) for call in chosen(state)][::-1]
    for name, listed in product(filter(is_id, arguments), lists):
        given = arguments[name]
        own = str(given[0] if isinstance(given, list) and len(given) == 1 else given)
        having = [n for n, each in enumerate(listed) if own in candidates(name, each)]
        if len(having) == 1:
            yield name, listed, having[0]


_ID = r"""[^\s"',}\])|;]+"""
_BARE = r"""[^\s"',}\]][^\n\t,}\]|;]*?(?=\s+\w+[:=]|\s+#|\s*(?:[\n\t,}\]|;]|\Z))"""
"""A value without quotation marks: up to the next name, a comment, or the end of its entry."""


def candidates(argument: str, result: str) -> list[str]:
    """The values that a result gives under the name of an argument, or of its id: `id_: '24'` for
    `event_id`, `iid: 3` for `issue_iid`."""
    names = {argument}
    if found := _ID_ARGUMENT.search(argument):
        own = found[1] or found[2]
        names |= {argument.removesuffix("s"), own, f"{own}_"}
    named = "|".join(map(re.escape, names))
    bare = _ID if is_id(argument) else _BARE
    values = re.findall(
        rf"""(?i)(?<![\w])["']?(?:{named})["']?\s*[:=]\s*(?:"([^"\n]+)"|'([^'\n]+)'|({bare}))""",
        result,
    )
    return list(dict.fromkeys("".join(each).strip() for each in values))[:MAX_CANDIDATES]


def only_candidates(argument: str, result: str) -> list[str]:
    """The candidates; none if they are accounts, addresses or codes, and the result's prose has
    another one: otherwise a stranger's line could be the only choice."""
    own = candidates(argument, result)
    if not any(map(_CODE_VALUE.search, own)):
        return own
    codes = (each for each in claims(result) if _CODE_VALUE.search(each))
    others = (each for each in codes if not any(each in value for value in own))
    named = "\n".join(re.findall(r"""(?m)\w["']?\s*[:=]\s*(.*)""", result))
    return own if all(each in named for each in others) else []
