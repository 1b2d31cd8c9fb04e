"""What the ship does in rough weather."""

from enum import Enum

MAX_GUSTS_KN = 41
"""Above, the ship stays in the harbour."""
MAX_GUSTS_FOR_VEHICLES_KN = 28
"""Above, the vehicle deck stays empty; people still cross."""
MAX_WAVES_M = 2.3


class Crossing(Enum):
    NORMAL = "normal"
    PEOPLE_ONLY = "people only"
    CANCELLED = "cancelled"


def decide(gusts_kn: float, waves_m: float) -> Crossing:
    """How the next crossing is made."""
    if gusts_kn > MAX_GUSTS_KN or waves_m > MAX_WAVES_M:
        return Crossing.CANCELLED
    if gusts_kn > MAX_GUSTS_FOR_VEHICLES_KN:
        return Crossing.PEOPLE_ONLY
    return Crossing.NORMAL
