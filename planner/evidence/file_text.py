"""The text of a file: from what a tool says, and as lines that can be shown."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from planner.passage import Passage
from planner.text import json_of

MAX_LINE = 300
"""Characters of a line; the rest of a longer one, such as minified code, is left out."""
MAX_PROSE = 2500
"""The same for a line of prose, which may be a whole paragraph."""
MAX_WORD = 12
"""Characters of an average word of prose and a blank."""
MAX_WRITTEN = 1000
"""Characters of a line that a person may have written, unless it is prose."""
_NUMBER = re.compile(r"\s+(\d{1,7})\t|\s*(\d{1,7})→")
"""The number of a line, as `cat -n` and editors write it."""
_COUNTED = re.compile(r"\[.*\]\n[ \t]*")
"""A line in brackets, with an empty one below it."""
_OTHER_ENDS = re.compile(r"[\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Characters that Python takes for ends of lines, and editors do not."""


def split_lines(text: str) -> list[str]:
    """The lines of a file as editors and searches count them, without their ends."""
    found = re.split(r"\r\n?|\n", text.removeprefix("\ufeff"))
    return found if found[-1] else found[:-1]


def file_text(result: str) -> str:
    """The text of a file in a tool's result, which may stand in an object, below a line that counts
    its lines, or behind their numbers."""
    text = result
    if text.startswith("{") and "\n" not in text.strip():
        texts = [each for each in (json_of(text) or {}).values() if isinstance(each, str)]
        longest = max(texts, key=len, default="")
        text = longest if len(longest) > len(text) / 2 and "\n" in longest else text
    lines = split_lines(text)
    counted = _COUNTED.fullmatch("\n".join(lines[:2]))
    if counted and str(len(lines) - 2) in re.findall(r"\d+", lines[0]):
        lines = lines[2:]
        text = "\n".join(lines)
    rows = [_NUMBER.match(line) for line in lines]
    numbers = [int(each[1] or each[2]) for each in rows if each]
    if len(rows) > 1 and numbers == [*range(1, len(rows) + 1)]:
        text = "\n".join(each.string[each.end() :] for each in rows if each)
    return text


def plain(text: str) -> str:
    """A text as it is compared: tools show the ends of its lines, and of itself, in their way."""
    return "\n".join(line.rstrip() for line in split_lines(text)).rstrip()


def outside(text: str, parts: Sequence[Passage]) -> str:
    """The lines of a file that are in none of these parts of it."""
    within = {number for each in parts for number in range(each.first, each.last + 1)}
    lines = enumerate(split_lines(text), 1)
    return "\n".join(line for number, line in lines if number not in within)


def readable(line: str) -> str:
    """A line without blanks at its end, or the beginning of one that is too long."""
    if len(line) > MAX_LINE:
        line = line[: MAX_PROSE if _is_prose(line) else MAX_LINE]
    return _OTHER_ENDS.sub(" ", line).rstrip()


def is_generated(line: str) -> bool:
    """Whether a line is too long to be written by hand, and no prose."""
    return len(line) > MAX_WRITTEN and not _is_prose(line)


def _is_prose(line: str) -> bool:
    """Whether a line has blanks between words, or is in a script that has none."""
    foreign = sum(not each.isascii() for each in line)
    return line.count(" ") * MAX_WORD > len(line) or 2 * foreign > len(line)


def doubled(before: str, text: str) -> bool:
    """Whether lines that stood in a text once, one after another, now stand there twice."""
    was, now = Counter(_runs(before)), Counter(_runs(text))
    return any(was[lines] == 1 and times > 1 for lines, times in now.items())


def run_together(before: str, text: str, given: Sequence[str]) -> bool:
    """Whether a line that was there now shares its line with a given text that has no line break
    where one was needed."""
    now = {*split_lines(text)}
    gone = {*filter(str.strip, split_lines(before))} - now
    edges = {line for each in given for line in split_lines(each)[:1] + split_lines(each)[-1:]}
    together = ({edge + line, line + edge} for edge in edges if edge.strip() for line in gone)
    return any(each & now for each in together)


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    """Three lines at a time, of those with a word: two may be the same by chance."""
    lines = [line.strip() for line in split_lines(text) if re.search(r"\w", line)]
    return zip(lines, lines[1:], lines[2:], strict=False)
