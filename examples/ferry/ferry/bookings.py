"""The bookings of a crossing, and what becomes of them in rough weather."""

from dataclasses import dataclass, replace

from ferry.fares import PERSON, VEHICLE
from ferry.weather import Crossing


@dataclass(frozen=True)
class Booking:
    name: str
    departure: int
    """The number of the crossing since the season began."""
    with_vehicle: bool = False
    credit: int = 0
    """Cents that the company owes."""


def settle(booking: Booking, crossing: Crossing) -> Booking:
    """The booking after it was decided how its crossing is made."""
    if crossing is Crossing.CANCELLED:
        return replace(booking, departure=booking.departure + 1)
    if crossing is Crossing.PEOPLE_ONLY and booking.with_vehicle:
        return replace(booking, with_vehicle=False, credit=VEHICLE - PERSON)
    return booking
