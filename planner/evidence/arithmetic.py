"""What the numbers of a passage make, worked out by code: small models do not multiply."""

import re
from collections.abc import Iterator
from decimal import Decimal
from math import prod

from planner.passage import Passage

MAX_RESULTS = 3
"""Of one passage."""
MAX_DIGITS = 18
"""Of a number; a longer one is no size and no time limit."""
MAX_SHIFT = 62
MAX_FACTORS = 7
"""After the first; a longer product is not worked out."""
_TYPE = r"(?:[uif]\d+|[uUlLn]+)?"
_DIGITS = r"\d[\d_]*(?:\.\d+)?"
_WHOLE = rf"\d[\d_]*{_TYPE}"
_NUMBER = rf"{_DIGITS}{_TYPE}"
_EXPRESSION = re.compile(
    rf"(?<![\w.])(?:{_NUMBER}(?:\s*\*\s*{_NUMBER}){{1,{MAX_FACTORS}}}|{_WHOLE}\s*<<\s*{_WHOLE})"
    r"(?!\.?\w|\s*(?:\*|<<|\())"
)
_OPERATORS = ("*", "/", "%", "-", "^", "<<", ">>")
"""What must not come before a product: it would belong to a longer one."""


def worked_out(passage: Passage) -> Passage:
    """The passage with what its products of plain numbers make: `1024 * 1024 is 1048576`."""
    found = dict.fromkeys(_results(passage.text))
    told = "; ".join(filter(None, [passage.inside, *list(found)[:MAX_RESULTS]]))
    return passage.model_copy(update={"inside": told}) if found else passage


def _results(text: str) -> Iterator[str]:
    for match in _EXPRESSION.finditer(text):
        before = text[: match.start()].rpartition("\n")[2].rstrip()
        after = text[match.end() :].lstrip(" \t")
        shown = " ".join(match.group().split())
        if before.endswith(_OPERATORS) or (
            "<<" in shown and (before.endswith("+") or after.startswith(("+", "-")))
        ):
            continue
        numbers = [Decimal(each) for each in _plain(shown)]
        if any(len(each.as_tuple().digits) > MAX_DIGITS for each in numbers):
            continue
        if "<<" in shown:
            first, by = map(int, numbers)
            result = Decimal(first << by) if by <= MAX_SHIFT else Decimal(0)
        else:
            result = prod(numbers, start=Decimal(1))
        if 0 < result < 10**MAX_DIGITS:
            yield f"{shown} is {result.normalize():f}"


def _plain(expression: str) -> list[str]:
    """The numbers of an expression, without separators and types."""
    return [each.replace("_", "") for each in re.findall(rf"(?<![\w.]){_DIGITS}", expression)]
