"""When passengers may go on board."""

RAMP_OPENS_MINUTES = 45
"""The ramp opens this many minutes before departure."""
RAMP_CLOSES_MINUTES = 12
"""The ramp closes this many minutes before departure; after that nobody boards."""


def may_board(minutes_before_departure: float) -> bool:
    return RAMP_CLOSES_MINUTES <= minutes_before_departure <= RAMP_OPENS_MINUTES
