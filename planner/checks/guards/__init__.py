"""Checks in code, before a call and on its result (a table: docs/planning.md).

They are pure functions; their callers emit the events.
"""
