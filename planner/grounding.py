"""Where an answer's facts come from: the lines of the tool results that hold them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from planner import schemas, telling
from planner.context import readable
from planner.findings import findings
from planner.lookup import PROSE, looked_up
from planner.state import RunState
from planner.tools import Outcome

MOST_LINES = 4
"""Of one tool result."""
LONGEST_LINE = 300
"""Characters."""
MOST_SHOWN = 4000
"""Characters of a look-up's telling lines; a number elsewhere in its files bears nothing out."""

_CLAIM = re.compile(
    r"https?://[^\s)>\]\"']+"  # a URL
    r"|(?:[\w.-]+/)+[\w.-]+"  # a path
    r"|\b\w+\.(?:py|ts|js|md|toml|yaml|yml|json|go|rs|java|c|h|cpp|txt|cfg|sh)\b"  # a file name
    r"|\b[A-Za-z]\w*_\w+\b|\b_\w+\b"  # snake_case
    r"|\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z0-9]+[A-Z]\w*\b"  # camelCase
    r"|\b[A-Z][A-Z0-9]{2,}\b"  # CONSTANT
    r"|\b\d+(?:\.\d+)?\b"  # a number
    r"|`[^`\n]+`|\"[^\"\n]{3,80}\"|'[^'\n]{3,80}'"  # a quotation
)


class Evidence(BaseModel):
    """One tool result that bears the answer out."""

    model_config = ConfigDict(frozen=True)

    iteration: int
    step: int
    """0 is the gathering before the plan."""
    tool: str
    claims: list[str]
    """What of the answer stands in this result."""
    lines: list[str]
    """The lines it stands in."""


def claims(text: str) -> list[str]:
    """The checkable parts of an answer: identifiers, paths, numbers, URLs, quotations."""
    found: dict[str, None] = {}
    for match in _CLAIM.finditer(text):
        found.setdefault(match.group().strip("`\"'").rstrip(".,;:"))
    return [claim for claim in found if claim]


def evidence(state: RunState) -> list[Evidence]:
    """For every tool result, the claims of the answer and its data found in it. What the user said
    himself counts only beside something that he did not say."""
    prompt = state.user_words
    wanted = claims(f"{state.answer}\n{said(state, state.data)}")
    found: list[Evidence] = []
    seen = [finding.text for finding in findings(looked_up(state))]
    for iteration in state.iterations:
        if iteration.outcome is not Outcome.SUCCESS:
            continue
        result = readable(iteration.result)
        if state.lookups and iteration is state.lookups[-1]:
            result = "\n".join([*seen, result])
        text = f"{iteration.arguments}\n{result}"
        held = [claim for claim in wanted if holds(text, claim)]
        if not any(not holds(prompt, claim) for claim in held):
            continue
        rows = result.splitlines()
        scores = [sum(holds(row, claim) for claim in held) for row in rows]
        best = max(scores, default=0)
        telling = [row for row, score in zip(rows, scores, strict=True) if score > 0.6 * best]
        telling.sort(
            key=lambda row: _PROSE.match(row) is not None
        )  # code before what is said of it
        lines = [row.strip()[:LONGEST_LINE] for row in telling[:MOST_LINES]] if best else []
        found.append(
            Evidence(
                iteration=iteration.number,
                step=iteration.step,
                tool=iteration.tool,
                claims=held,
                lines=lines,
            )
        )
    return found


_PROSE = re.compile(rf"[^\s:]+(?:{'|'.join(map(re.escape, PROSE))}):\d+:")
_LINE = re.compile(r"(?:\blines? |(?<=[\w]):)(\d+)\b")
_PLACE = re.compile(r"^([^\s:]+:\d+):", re.MULTILINE)
_PATH = re.compile(r"(?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,5}")


def unsupported(state: RunState, answer: str) -> list[str]:
    """What an answer claims and nothing that was seen says: neither a result, nor the request, nor
    the listing, nor the notes. A line number has to be one of the file named beside it, and any
    other number has to stand in what a model was shown: somewhere in a project stands every one."""
    seen = [each for each in state.iterations if each.outcome is Outcome.SUCCESS]
    looked = [looked_up(state, part) for part in range(len(state.parts))]
    shown = [telling.shown(each, MOST_SHOWN) for each in looked]
    shown += [readable(each.result) for each in seen if each.by == "choice"]
    # A single step's notes are an answer, which bears nothing out.
    noted = [] if state.single_steps else state.completed_steps
    shown += [f"{step.objective}\n{step.notes}" for step in noted]
    if state.started:
        shown += [state.user_words, state.started.listing or ""]
    text = "\n".join([*shown, *(readable(each.result) for each in seen if each.by == "lookup")])
    numbers = _PLACE.sub("", "\n".join(shown))
    places = set(_PLACE.findall(text))
    lines = _LINE.findall(answer)
    missing = [
        claim
        for claim in claims(answer)
        if claim not in lines and not holds(numbers if claim.isdigit() else text, claim)
    ]
    files = {place.rsplit(":", 1)[0] for place in places}
    for path in _PATH.findall(answer):
        known = {file for file in files if file == path or file.endswith("/" + path)}
        for number in lines if known and len(lines) == 1 else []:
            if not any(f"{file}:{number}" in places for file in known):
                missing.append(f"line {number} of {path}")
    return list(dict.fromkeys(missing))


def unsupported_data(state: RunState, answer: str, data: Any) -> list[str]:
    """The same for the answer's data, beyond what the answer says, which is checked by itself."""
    claimed = unsupported(state, said(state, data))
    return [claim for claim in claimed if not holds(answer, claim)]


def said(state: RunState, data: Any) -> str:
    """What data holds, as an answer would say it, one value a line. What the caller's schema names
    is left out: it is his own word, as the request is."""
    schema = state.request.data_schema if state.request else None
    return "\n".join(_said(data, "", schemas.named(schema or {})))


def _said(value: Any, key: str, named: Sequence[Any]) -> Iterator[str]:
    match value:
        case dict():
            for name, inner in value.items():
                yield from _said(name, "", named)
                yield from _said(inner, name, named)
        case list():
            for inner in value:
                yield from _said(inner, key, named)
        case None | bool():
            return
        case _ if value in named:
            return
        case int() if "line" in key.lower():
            yield f"line {value}"  # a line's number is borne out by its place alone
        case float() if value.is_integer():
            yield str(int(value))
        case _:
            yield str(value)


def agree(first: str, second: str, request: str) -> bool:
    """Whether two answers say the same: what one of them claims beyond the request, the other says
    too. One may say more."""
    readings = [(first, second), (second, first)]
    told = [(_beyond(one, request), _plain(other)) for one, other in readings]
    if any(claimed for claimed, _ in told):
        return any(
            claimed and all(holds(other, claim) for claim in claimed) for claimed, other in told
        )
    words = [set(re.findall(r"\w+", text.lower())) for text in (first, second)]
    return words[0] <= words[1] or words[1] <= words[0]


def _beyond(answer: str, request: str) -> list[str]:
    """What an answer claims that the request does not, paths by their file's name."""
    plain = [claim.rsplit("/", 1)[-1] for claim in claims(_plain(answer))]
    return [claim for claim in plain if not holds(request, claim)]


def _plain(text: str) -> str:
    """Numbers without separators: `11,340` and `11_340` are 11340."""
    return re.sub(r"(?<=\d)[_,](?=\d{3}(?!\d))", "", text)


def holds(text: str, claim: str) -> bool:
    """Whether the claim stands in the text as a whole word."""
    return claim in text and bool(re.search(rf"(?<!\w){re.escape(claim)}(?!\w)", text))
