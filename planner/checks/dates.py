"""Dates as texts write them, and as a tool's description wants them."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
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
"""What is likely a year."""
_TIME = re.compile(
    r"(?<![\d:.])(2[0-3]|[01]?\d)(?:[:.h]([0-5]\d))?(?![\d:])(?: ?([apAP])\.? ?[mM]\b)?"
)
_DURATION = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_LASTS = re.compile(
    r"(?<![\d.,:])(\d{1,4})[ -]?[^\W\d_]+(?=\W{0,2}(?:[^\W\d]{1,3} )?(\d{1,2})?(?![\d.,:]))"
)
"""A number with its unit, and a number behind it: `2 hours 30`, `2h30`, `2 Stunden und 30`."""
_UNITS = (604_800, 86_400, 3600, 60, 1)
"""The seconds of what a duration in ISO 8601 has, but for years and months."""
_SMALLER = ((60, 60), (24, 24), (7, 7), (1440, 60), (168, 24), (10_080, 60))
"""How many of a smaller unit of time one has, and how many may stand beside it."""
MAX_ZONE = timedelta(hours=14)
"""The most that a local time differs from UTC."""
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


def numbers_of_time(text: str) -> Iterator[float]:
    """The numbers that follow from the times and durations of a text: 17 from "5 pm", 150 from "2
    hours 30 minutes", 72 from "3 days", 90 from "9:15 to 10:45"."""
    told = [(int(hour), minutes, half) for hour, minutes, half in _TIME.findall(text)]
    times = [
        (hour % 12 + 12 * (half in "pP") if half else hour) * 60 + int(minutes or 0)
        for hour, minutes, half in told
    ]
    for each in times:
        yield from divmod(each, 60)
    for first, second in pairwise(times):
        yield from ((second - first) % 1440, (second - first) % 1440 / 60)
    for number, beside in _LASTS.findall(text):
        for many, most in _SMALLER:
            yield int(number) * many
            if beside and int(beside) < most:
                yield int(number) * many + int(beside)


def lasting(value: str) -> list[tuple[float, ...]]:
    """The numbers of which a duration in ISO 8601 consists, and its length in each unit:
    `PT1H30M` is 1 and 30, or 90, or 1.5. Empty for anything else."""
    found = _DURATION.fullmatch(value)
    parts = [int(each or 0) for each in found.groups()] if found else []
    if not any(parts):
        return []
    seconds = sum(each * unit for each, unit in zip(parts, _UNITS, strict=True))
    return [tuple(filter(None, parts)), *((seconds / unit,) for unit in _UNITS)]


def in_seconds(number: float, text: str) -> bool:
    """Whether a number is a moment, in seconds or milliseconds since 1970, of a day that a text
    says."""
    seconds = number / 1000 if number > 10**11 else number
    if not 10**9 <= seconds < 10**10:
        return False
    moment = datetime.fromtimestamp(seconds, UTC)
    days = {f"{(moment + zone).date()}" for zone in (-MAX_ZONE, timedelta(), MAX_ZONE)}
    return any(day in text or in_words(day, text) for day in days)


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
