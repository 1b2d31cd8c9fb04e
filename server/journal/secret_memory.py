"""Secrets that the record of a run hides, as long as the server that wrote it lives."""

import json
from dataclasses import replace
from typing import Any

from planner.protocol import RunRequest
from server.journal.records import StoredRun
from server.variables import HIDDEN

MAX_RUNS_KEPT = 200
"""Runs that are kept in memory, and so are their secrets; the oldest are removed first."""
SAID = ("run_continued", "run_steered")
"""The events with words of the caller, besides the one that has the run's request."""
AS_TYPED = "as_typed"
"""Set in the record of a next request that hides nothing of it: `***` in it is the caller's own. A
hint may come from another server, which has hidden what it hides."""


class SecretMemory:
    """What this server recorded with `***`, as it was before; in memory, for the newest runs."""

    def __init__(self) -> None:
        self._true: dict[str, dict[str, dict[str, Any]]] = {}
        """By run, and by what is on record instead."""

    def remember(self, run_id: str, data: dict[str, Any], recorded: dict[str, Any]) -> None:
        if HIDDEN in (line := _sorted(recorded)):
            self._true.setdefault(run_id, {})[line] = data
            if len(self._true) > MAX_RUNS_KEPT:
                del self._true[next(iter(self._true))]

    def recalled(self, stored: StoredRun) -> StoredRun:
        """The run as it was before secrets were hidden. Each entry depends on those before it, so
        this is possible only if this server wrote every entry that contains `***`. Otherwise only
        the newest entry is restored, because it begins a new request."""
        known = self._true.get(stored.id, {})
        request, *lines = (
            _sorted(data)
            for data in (stored.request.model_dump(), *(each.data for each in stored.entries))
        )
        if any(HIDDEN in line and line not in known for line in (request, *lines)):
            known = {line: known[line] for line in lines[-1:] if line in known}
        said = [
            line
            for each, line in zip(stored.entries, lines, strict=True)
            if each.data.get("type") in SAID and AS_TYPED not in each.data
        ]
        if not stored.setup.as_typed:
            said.append(request)
        return replace(
            stored,
            request=RunRequest.model_validate(known.get(request, stored.request)),
            entries=[
                replace(each, data=known[line]) if line in known else each
                for each, line in zip(stored.entries, lines, strict=True)
            ],
            secret_lost=any(HIDDEN in line and line not in known for line in said),
        )


def _sorted(data: dict[str, Any]) -> str:
    """The data as a text that is the same before and after it was on record."""
    return json.dumps(data, sort_keys=True)
