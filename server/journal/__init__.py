"""The record of all runs, in a file or in Redis."""

from collections.abc import Callable

from server.config import RunSettings
from server.journal.base import Journal


def journal_for(settings: RunSettings, redact: Callable[[str], str] | None = None) -> Journal:
    if settings.redis is None:
        from server.journal.sqlite import SqliteJournal

        return SqliteJournal(settings, redact)
    from server.journal.redis import RedisJournal

    return RedisJournal(settings, redact)
