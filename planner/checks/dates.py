"""Dates as texts write them, and as a tool's description wants them."""

import json
import re
from contextlib import suppress
from datetime import date, datetime
from typing import Any

_FIELD = r"(?:YYYY|MM|DD|HH|SS|yyyy|mm|dd|hh|ss|%[YmdHMS])"
_FORMAT = re.compile(rf"(?<![\w%]){_FIELD}(?:[-/.: T]?{_FIELD})+Z?(?!\w)")
"""`YYYY-MM-DD`, `DD.MM.YYYY`, `YYYY-MM-DDTHH:mm:ss`, `%Y-%m-%d %H:%M`."""
ONE_WAY = (
    re.compile(
        r"(?<![\d/])(?P<y>[12]\d{3})(?:년 ?|[年/])(?P<m>\d{1,2})(?:월 ?|[月/])"
        r"(?P<d>\d{1,2})[日일]?(?![\d/])"
    ),
    re.compile(r"(?<![\d.])(?P<d>\d{1,2})\. ?(?P<m>\d{1,2})\. ?(?P<y>[12]\d{3})(?!\d|\.\d)"),
)
"""Dates without the name of a month that are read in one way: `2024年5月12日`, `12.5.2024`."""
DAY_FIRST = re.compile(r"(?<![\w/])(?P<d>\d{1,2})/(?P<m>\d{1,2})/(?P<y>[12]\d{3})(?![\w/])")
MONTH_FIRST = re.compile(r"(?<![\w/])(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>[12]\d{3})(?![\w/])")
"""`12/5/2024`, which is 12 May or 5 December."""
DAY = re.compile(r"(?<!\d)[12]\d{3}-\d{2}-\d{2}(?!\d)")
_TAKES_DAY = re.compile(
    rf'"format": "date(?:-time)?"|"(?:\w*_)?date": {{|"\w*Date": {{|{DAY.pattern}'
    r"|\bISO[- ]?8601|\bISO[- ](?:date|time|format|string)|\bRFC[- ]?3339"
)
YEAR = re.compile(r"(?<!\d)(?:19|20)\d{2}(?!\d)")
_DIRECTIVES = {"YYYY": "%Y", "DD": "%d", "HH": "%H", "SS": "%S"}


def in_iso(text: str, *patterns: re.Pattern[str]) -> str:
    """A text with the dates that these patterns find as `2024-05-12`."""
    for pattern in patterns:
        text = pattern.sub(_iso, text)
    return text


def _iso(found: re.Match[str]) -> str:
    try:
        return f"{date(int(found['y']), int(found['m']), int(found['d']))}"
    except ValueError:
        return found[0]


def in_moment(number: str, answer: str, text: str) -> bool:
    """Whether a number of an answer is part of a date or a time in a text: the 5 of "5 May 2024" in
    2024-05-05, the 3 of "3 pm" in 15:00."""
    padded = number.zfill(2)
    years = re.findall(rf"(?<!\d)([12]\d{{3}})-(?:{padded}-\d\d|\d\d-{padded})(?!\d)", text)
    if any(_is_dated(number, year, answer) for year in {*years}):
        return True
    time = re.search(
        rf"(?<!\d){number}(?:\D{{1,3}}([0-5]\d)(?!\d))?(?: ?([apAP])\.? ?[mM]\b)?", answer
    )
    minutes, half = time.groups() if time else (None, None)
    hour = int(number)
    if half:
        hours = [hour % 12 + 12 * (half in "pP")]
    elif minutes:  # which half of the day it is may be said in words
        hours = [hour, (hour + 12) % 24] if hour <= 12 else [hour]
    else:
        return False
    return any(has_time(text, f"{each:02}", minutes or r"\d\d") for each in hours)


def in_words(day: str, text: str) -> bool:
    """Whether a text says a date in ISO 8601 with its month by name."""
    year, _, number = day.split("-")
    return _is_dated(str(int(number)), year, text)


def _is_dated(number: str, year: str, text: str) -> bool:
    """ "5 May 2024", "5 de mayo de 2024", "May 5, 2024", "5 tháng 5 năm 2024", "2024. május 5." """
    word = r"[^\s\d]+"  # the name of a month may have marks, which are no letters
    dated = (
        rf"\b{number}\b\.?(?: de)? {word}(?: de)? {year}|{word} {number},? {year}"
        rf"|\b{number} {word} \d{{1,2}} {word} {year}|{year}\.? {word} {number}\b"
    )
    return re.search(dated, text) is not None


def has_time(text: str, hour: str, minutes: str) -> bool:
    return re.search(rf"(?<![\d:]){hour}:{minutes}(?!\d)", text) is not None


def takes_day(schema: dict[str, Any]) -> bool:
    """Whether one of a tool's arguments is a date, by its name, its format, or its description."""
    told = json.dumps(schema.get("properties", {}))
    named = any("%Y" in _directives(each) for each in _FORMAT.findall(told))
    return named or _TAKES_DAY.search(told) is not None


def as_described(value: str, description: str) -> str:
    """A date or time of ISO 8601 in the only format that a description names: `2024-05-19 12:00`
    for `2024-05-19T12:00:00` and "in format YYYY-MM-DD HH:MM". One with a time zone, or without the
    time that is asked for, stays as it is."""
    formats = {_directives(each) for each in _FORMAT.findall(description)}
    if len(formats) != 1:
        return value
    [wanted] = formats
    try:
        with suppress(ValueError):
            datetime.strptime(value, wanted)
            return value
        meant = datetime.fromisoformat(value.strip())
    except (ValueError, re.error):  # it is no date, or a field stands in the format twice
        return value
    has_time = len(value.strip()) > len("2024-05-19")
    if meant.tzinfo or ("%H" in wanted and not has_time) or "%Y" not in wanted:
        return value
    return meant.strftime(wanted)


def _directives(named: str) -> str:
    """A format as `strptime` takes it. `MM` after the hour are minutes."""
    fields = re.split(f"({_FIELD})", named)
    for place, field in enumerate(fields):
        if field.upper() == "MM":
            fields[place] = "%M" if "%H" in fields[:place] else "%m"
        else:
            fields[place] = _DIRECTIVES.get(field.upper(), field)
    return "".join(fields)
