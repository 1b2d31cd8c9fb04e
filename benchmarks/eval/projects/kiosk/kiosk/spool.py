"""Tickets that the shop has not been told of yet."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from kiosk.model import Ticket

log = structlog.get_logger()
ATTEMPTS = 4
PAUSE_SECONDS = 1.5
MOST_KEPT = 500


class SpoolFull(Exception):
    """So many tickets wait that no more may be sold."""


class Spool:
    """A folder with one JSON file per ticket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, ticket: Ticket) -> None:
        """Raises `SpoolFull` rather than losing a ticket."""
        if len(list(self.folder.glob("*.json"))) >= MOST_KEPT:
            raise SpoolFull(f"{MOST_KEPT} tickets wait; is the shop down?")
        data = {"number": ticket.number, "kind": ticket.kind, "day": ticket.day.isoformat()}
        (self.folder / f"{ticket.number}.json").write_text(json.dumps(data))

    def flush(self, send: Callable[[dict[str, str]], None]) -> int:
        """Send the oldest first; stop at the first that cannot be sent. Returns how many were."""
        sent = 0
        for path in sorted(self.folder.glob("*.json"), key=lambda each: each.stat().st_mtime):
            if not self._try(send, json.loads(path.read_text())):
                break
            path.unlink()
            sent += 1
        return sent

    def _try(self, send: Callable[[dict[str, str]], None], data: dict[str, str]) -> bool:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                send(data)
            except OSError as error:
                log.warning("not_sent", number=data["number"], attempt=attempt, error=str(error))
                time.sleep(PAUSE_SECONDS * attempt)
            else:
                return True
        return False
