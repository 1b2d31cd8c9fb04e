"""Results of calls that only read, given again to the same call of any run for a while.

Off unless an upstream's `reuse_s` says how long: what it reads may be changed by others meanwhile.
"""

import json
from collections import OrderedDict
from typing import Any

import anyio

from planner.tools import Outcome, ToolResult, ToolSpec

MAX_RESULTS = 256
"""Results that are kept; those not asked for the longest go first."""
MAX_RESULT_CHARS = 200_000
"""Characters; a larger result is asked for again."""


class Reuse:
    def __init__(self) -> None:
        self._results: OrderedDict[tuple[str, str, str], tuple[float, ToolResult]] = OrderedDict()

    def find(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult | None:
        """The result of the same call, while it may be reused; its time is 0."""
        key = _key(tool, arguments)
        until, result = self._results.get(key, (0.0, None))
        if result is None or until <= anyio.current_time():
            return None
        self._results.move_to_end(key)
        return result.model_copy(update={"seconds": 0.0})

    def keep(
        self, tool: ToolSpec, arguments: dict[str, Any], result: ToolResult, seconds: float
    ) -> None:
        """Keep a result for this many seconds, unless it failed."""
        if result.outcome is Outcome.SUCCESS and len(result.text) <= MAX_RESULT_CHARS:
            self._results[_key(tool, arguments)] = (anyio.current_time() + seconds, result)
            while len(self._results) > MAX_RESULTS:
                self._results.popitem(last=False)

    def forget(self) -> None:
        """Drop all results, because something may have been changed."""
        self._results.clear()


def _key(tool: ToolSpec, arguments: dict[str, Any]) -> tuple[str, str, str]:
    return tool.upstream, tool.name, json.dumps(arguments, sort_keys=True)
