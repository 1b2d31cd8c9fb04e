"""What is sold."""

from datetime import date

from attrs import field, frozen, validators

KINDS = ("adult", "child", "family", "dog")
LARGEST_PARTY = 9


@frozen
class Ticket:
    """One ticket for one day. Two tickets with the same number are the same ticket."""

    number: int
    kind: str = field(validator=validators.in_(KINDS))
    day: date
    persons: int = field(default=1, validator=[validators.ge(1), validators.le(LARGEST_PARTY)])
    paid_cents: int = 0

    @property
    def is_free(self) -> bool:
        return self.paid_cents == 0
