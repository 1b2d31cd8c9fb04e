"""Dates and times in the format that a tool's description names."""

import re
from datetime import datetime

_FIELD = r"(?:YYYY|MM|DD|HH|SS|yyyy|mm|dd|hh|ss|%[YmdHMS])"
_FORMAT = re.compile(rf"(?<![\w%]){_FIELD}(?:[-/.: T]?{_FIELD})+Z?(?!\w)")
"""`YYYY-MM-DD`, `DD.MM.YYYY`, `YYYY-MM-DDTHH:mm:ss`, `%Y-%m-%d %H:%M`."""
_DIRECTIVES = {"YYYY": "%Y", "DD": "%d", "HH": "%H", "SS": "%S"}


def as_described(value: str, description: str) -> str:
    """A date or time in the only format that a description names: `2024-05-19 12:00` for
    `2024-05-19T12:00:00` and "in format YYYY-MM-DD HH:MM". The value as it is where it fits, has a
    time zone, has no time and one is asked for, or is no date in ISO 8601."""
    formats = {_directives(each) for each in _FORMAT.findall(description)}
    if len(formats) != 1:
        return value
    [wanted] = formats
    try:
        datetime.strptime(value, wanted)
    except ValueError:
        pass
    else:
        return value
    try:
        meant = datetime.fromisoformat(value.strip())
    except ValueError:
        return value
    has_time = len(value.strip()) > len("2024-05-19")
    if meant.tzinfo or ("%H" in wanted and not has_time) or "%Y" not in wanted:
        return value
    return meant.strftime(wanted)


def _directives(named: str) -> str:
    """A format as `strptime` takes it. What follows the hour as `MM` are minutes."""
    fields = re.split(f"({_FIELD})", named)
    for place, field in enumerate(fields):
        if field.upper() == "MM":
            fields[place] = "%M" if "%H" in fields[:place] else "%m"
        else:
            fields[place] = _DIRECTIVES.get(field.upper(), field)
    return "".join(fields)
