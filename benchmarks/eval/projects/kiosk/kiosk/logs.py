"""How the counter logs: readable on a terminal, JSON into a file otherwise."""

import logging
import sys

import structlog


def configure(verbose: bool = False) -> None:
    level = logging.DEBUG if verbose else logging.WARNING
    renderer = (
        structlog.dev.ConsoleRenderer(pad_event_to=36)
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
