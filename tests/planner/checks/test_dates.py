"""Dates and times are written as a tool's description asks for them."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.checks.dates import as_described
from planner.checks.validation import coerced

MINUTES = "The start of the event. Must be in format YYYY-MM-DD HH:MM."


@pytest.mark.parametrize(
    ("value", "description", "written"),
    [
        ("2024-05-19 12:00:00", MINUTES, "2024-05-19 12:00"),
        ("2024-05-19T12:00:00", MINUTES, "2024-05-19 12:00"),
        ("2024-05-19 12:00", MINUTES, "2024-05-19 12:00"),
        ("2024-05-19T12:00", "Der Tag (DD.MM.YYYY)", "19.05.2024"),
        ("2024-05-19", "MM/DD/YYYY", "05/19/2024"),
        ("2024-05-19 09:30", "yyyy-mm-ddThh:mm:ss", "2024-05-19T09:30:00"),
        ("2024-05-19T09:30:00", "as %Y%m%d %H:%M", "20240519 09:30"),
    ],
)
def test_a_date_is_written_in_the_format_that_is_named(
    value: str, description: str, written: str
) -> None:
    assert as_described(value, description) == written


@pytest.mark.parametrize(
    ("value", "description"),
    [
        ("2024-05-19", MINUTES),  # the time would be invented
        ("2024-05-19T12:00:00+02:00", MINUTES),  # and this would be another one
        ("next Monday", MINUTES),
        ("2024-05-19T12:00:00", "The start of the event."),
        ("2024-05-19T12:00:00", "YYYY-MM-DD or YYYY-MM-DD HH:MM"),
        ("2024-05-19T12:00:00", "HH:MM"),  # the day would be lost
        ("19", "MMDD"),
        ("2024-05-19T12:00:00", "COMMAND"),
    ],
)
def test_what_is_no_such_date_stays(value: str, description: str) -> None:
    assert as_described(value, description) == value


@given(st.datetimes(min_value=datetime(1000, 1, 1)), st.sampled_from(" T"))
def test_the_minute_stays_whatever_the_spelling(moment: datetime, between: str) -> None:
    written = as_described(moment.isoformat(between), MINUTES)
    assert datetime.strptime(written, "%Y-%m-%d %H:%M") == moment.replace(second=0, microsecond=0)


@given(st.text(), st.text())
def test_any_text_may_stand_there(value: str, description: str) -> None:
    assert isinstance(as_described(value, description), str)


def test_the_arguments_of_a_call_are_written_so() -> None:
    schema = {
        "properties": {
            "start": {"type": "string", "description": MINUTES},
            "title": {"type": "string", "description": "The title"},
        },
        "required": ["start", "title"],
    }
    written = {"start": "2024-05-19T12:00:00", "title": "2024-05-19T12:00:00"}
    assert coerced(written, schema) == written | {"start": "2024-05-19 12:00"}


def test_a_format_that_cannot_be_read_changes_nothing_else() -> None:
    described = {"type": "string", "description": "An interval, YYYY-MM-DD/YYYY-MM-DD"}
    schema = {"properties": {"range": described, "limit": {"type": "integer"}}}
    written = {"range": "2024-05-01/2024-05-09", "limit": "5"}
    assert coerced(written, schema) == written | {"limit": 5}
