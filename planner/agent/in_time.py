"""The time that look-ups may take: what they have found has to be read, too."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from planner.agent.tool_calls import Caller
from planner.tools import Outcome

T = TypeVar("T")

LOOK_UP_SHARE = 0.5
"""The share of the seconds left that look-ups may take."""
CUT_OFF = "The time for looking up was over before it answered."


async def in_time(caller: Caller, look_up: Callable[[], Awaitable[T]]) -> T:
    """What look-ups find within their time; once that is over, what they had found until then."""
    clock = caller.clock
    with clock.limit(clock.seconds + LOOK_UP_SHARE * clock.seconds_left):
        return await look_up()
    for each in caller.state.iterations[-1:]:
        if each.outcome is None:
            caller.record_text(each, each.arguments, Outcome.TIMEOUT, CUT_OFF)
    caller.recalls_only = True
    try:
        return await look_up()
    finally:
        caller.recalls_only = False
