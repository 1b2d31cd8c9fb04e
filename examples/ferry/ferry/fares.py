"""What a ticket costs, in cents."""

PERSON = 640
VEHICLE = 2350
FREE_BELOW_AGE = 6
"""Children below this age cost nothing."""
NIGHT_SURCHARGE = 215
NIGHT_BEGINS = 22
"""From this hour on, a ticket costs the night surcharge too."""
NIGHT_ENDS = 5


def fare(age: int, hour: int, with_vehicle: bool = False) -> int:
    """The price of one ticket."""
    if age < FREE_BELOW_AGE:
        return 0
    price = VEHICLE if with_vehicle else PERSON
    return price + (NIGHT_SURCHARGE if hour >= NIGHT_BEGINS or hour < NIGHT_ENDS else 0)
