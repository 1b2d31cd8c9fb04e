"""What a crossing costs, in cents."""

PERSON = 640
VEHICLE = 2350
NIGHT_SURCHARGE = 215
FREE_BELOW_AGE = 6


def fare(age: int, hour: int, with_vehicle: bool = False) -> int:
    """The price of one ticket."""
    if age < FREE_BELOW_AGE:
        return 0
    price = VEHICLE if with_vehicle else PERSON
    return price + (NIGHT_SURCHARGE if hour >= 22 or hour < 5 else 0)
