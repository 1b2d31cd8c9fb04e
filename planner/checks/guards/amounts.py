"""Whether an amount follows from the numbers that were seen."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import NamedTuple, Self

from planner.checks.claims import is_number, numbers_in, readings
from planner.checks.dates import numbers_of_time
from planner.checks.grounding import CENTS, SCALES, SMALLEST_AMOUNT

MAX_OPERANDS = 40
"""The newest numbers, from two of which another may follow."""
MAX_FEES = 8
"""The first numbers of a request that may be added to a share."""
_RATE = re.compile(r"[\d.,]+(?=\s?[%％٪])")


class Numbers(NamedTuple):
    """The numbers that an amount may come from."""

    seen: Sequence[float]
    fees: Sequence[float]
    """Those of the request but for its percentages."""
    rates: Sequence[float]
    """The percentages of the request."""
    times: Sequence[float]
    """What follows from the times and durations of the request."""
    scales: Sequence[int] = SCALES

    @property
    def in_cents(self) -> Self:
        """The same, for an amount that may be in the smallest unit of its currency."""
        return self._replace(scales=(*self.scales, CENTS))

    @classmethod
    def of(cls, seen: str, asked: str) -> Self:
        """Those of what was seen, and of the request."""
        forms = (form for rate in _RATE.findall(asked) for form in readings(rate))
        rates = list(dict.fromkeys(float(each) for each in forms if is_number(each)))
        fees = numbers_in(_RATE.sub(" ", asked))
        times = [*numbers_of_time(asked)]
        return cls(numbers_in(seen), fees[:MAX_FEES], rates[:MAX_FEES], times)

    def lead_to(self, amount: float) -> bool:
        """Whether an amount is one of them, in whatever unit, or follows from them."""
        in_unit = (number * scale for number in self.seen for scale in self.scales)
        found = (self.seen, in_unit, self.times, self._of_two(), self._shares())
        return any(abs(amount - each) < SMALLEST_AMOUNT / 2 for each in chain(*found))

    def last(self, durations: Sequence[Sequence[float]]) -> bool:
        """Whether all numbers of one of these were seen."""
        known = {*self.seen, *self.times}
        return any(known.issuperset(each) for each in durations)

    def _of_two(self) -> Iterator[float]:
        newest = self.seen[-MAX_OPERANDS:]
        for first, second in product(newest, newest):
            yield from (first + second, first - second, first * second)

    def _shares(self) -> Iterator[float]:
        """Each percentage of a number, and the number plus or minus it, also with another number of
        the request: "plus 19.5% and a fee of 5"."""
        for number, rate in product(self.seen[-MAX_OPERANDS:], self.rates):
            share = number * rate / 100
            for each in (share, number + share, number - share):
                yield each
                for fee in self.fees:
                    yield from (each + fee, each - fee)
