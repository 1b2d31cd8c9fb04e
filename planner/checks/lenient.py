"""What a model wrote in plain text: the list, the sentences or the block of code in its reply."""

import json
import re
from collections.abc import Callable, Sequence
from itertools import dropwhile, groupby, takewhile

from planner.evidence.words import LOWER
from planner.text import NUMBERED

_MARK = re.compile(rf"^\s*(?:[-*•]\s|・|{NUMBERED}|```.*)\s*")
_BLOCK = re.compile(r"^([ \t]*```[^\n]*\n.*?^[ \t]*```)[^\n]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_MONTH = r"\s+[^\s\d]+ [12]\d{3}(?!\d)"
_SENTENCE_END = re.compile(
    rf"(?<=[.!?؟۔።։])(?:(?<!\d\.)|(?!{_MONTH}))\s+(?=[^\W\d_{LOWER}])"
    r"|(?<=[。！？।॥။។])\s*(?![\s。！？」』）】》”’)\]])"
)
"""A sentence begins after a blank, with no small letter; in some scripts right after the end of the
one before, unless marks close there. `12. Mai 2024` goes on."""
COLONS = (":", "：")
"""A sentence that ends with one leads to what stands below it."""
_WIDE = "。！？"
"""No blank stands behind these."""
CUT = "[…]"
"""What stands in place of the rest of an answer that was cut off."""
_ODD = r"(?!\s*```)[^`\n]*`(?:[^`\n]*`[^`\n]*`)*[^`\n]*"
_CODE = re.compile(rf"^{_ODD}(?:\n(?=[^`\n]*[^\s`])[^`\n]*)*\n{_ODD}$", re.MULTILINE)
"""Lines with code that begins in the first of them and ends in the last."""
_BREAK = re.compile(rf"\s*\n\s*(?:[-*•]\s+|{NUMBERED}\s*)?")
_WITHIN = "\0"
"""Stands for a line's end within an item, or within code."""
_UNENDED = re.compile(r"[\w,]\Z")
_BEFORE_TEXT = re.compile(r"[^\w`\"'(\[{<]*")
"""What a line of a comment begins with."""
MIN_COPIED = 4
"""Words at the end of a sentence that tell where it was copied from."""
MAX_FURTHER_LINES = 3
"""Lines on which such a sentence may go on."""


def items_in(text: str) -> list[str]:
    """The items of a list in plain text, without their marks and what introduces them. A block with
    a language is an item; small models put whole lists into other blocks."""
    found: list[str] = []
    for prose, block in _divided(text):
        is_code = re.match(r"\s*```\w", block)
        lines = [*_lines(prose), *([] if is_code else block.splitlines())]
        items = (_BREAK.sub("\n", _MARK.sub("", line).strip()) for line in lines)
        found += [
            item
            for item in items
            if item == CUT or (re.search(r"\w", item) and not item.endswith(COLONS))
        ]
        found += [block] if is_code else []
    return found


def sentences_in(text: str) -> list[list[str]]:
    """The lines of a plain text, each as its sentences. An item of a list is one sentence, and so
    is a block of code between other text. A blank line has none."""
    parts = _divided(text)
    if not any(re.search(r"\w", prose) for prose, _ in parts):  # it is all in a block
        parts = [(text, "")]
    lines: list[list[str]] = []
    for prose, block in parts:
        lines += _sentences(prose)
        lines += [[block]] if block else []
    return _trimmed(lines)


def _divided(text: str) -> list[tuple[str, str]]:
    """What stands before each block of code, with the block, and what stands after the last one."""
    *before, last = _BLOCK.split(text)
    return [*zip(before[::2], before[1::2], strict=True), (last, "")]


def _sentences(prose: str) -> list[list[str]]:
    lines = [line.rstrip() for line in _lines(prose) if not line.lstrip().startswith("```")]
    said = [line for line in lines if re.search(r"\w|\|\s*:?-|\A\Z", line)]  # a table's rule, too
    return [
        [line] if _MARK.match(line) or "\n" in line else [*filter(None, _SENTENCE_END.split(line))]
        for line in said
    ]


def _lines(prose: str) -> list[str]:
    """The lines of a text. Code is on one line though its marks are not, and an item of a list with
    what goes on with it: what is set in, or begins within a sentence."""
    found: list[str] = []
    in_item = False
    for line in _CODE.sub(lambda code: code[0].replace("\n", _WITHIN), prose).splitlines():
        marked = _MARK.match(line) and not line.lstrip().startswith("```")
        goes_on = line[:1].isspace() or (found and _UNENDED.search(found[-1]) and _is_rest(line))
        if in_item and not marked and line.strip() and goes_on:
            found[-1] += f"{_WITHIN}{line}"
        else:
            found.append(line)
            in_item = bool(marked)
    return [line.replace(_WITHIN, "\n") for line in found]


def _is_rest(line: str) -> bool:
    """Whether a line begins with a small letter, as no sentence does."""
    return re.match(f"[{LOWER}]", line) is not None


def completed(sentence: str, text: str) -> str:
    """A sentence that was copied from a text and ends with one of its lines, with its rest: small
    models take a line of a comment for a sentence."""
    tail = sentence.split()[-MIN_COPIED:]
    if len(tail) < MIN_COPIED or not _UNENDED.search(sentence):
        return sentence
    lines = text.splitlines()
    copied = (number for number, line in enumerate(lines, 1) if line.split()[-MIN_COPIED:] == tail)
    begins = next(copied, len(lines))
    whole = sentence
    for line in lines[begins : begins + MAX_FURTHER_LINES]:
        rest = _BEFORE_TEXT.sub("", line, count=1)
        if not _is_rest(rest):
            break
        first, *more = _SENTENCE_END.split(rest.rstrip())
        whole = f"{whole} {first}"
        if more or not _UNENDED.search(whole):
            return whole
    return sentence


def _trimmed(lines: Sequence[list[str]]) -> list[list[str]]:
    """Lines without blank ones around them, and with one blank line for several."""
    groups = [[*group] for _, group in groupby(lines, key=bool)]
    joined = [line for group in groups for line in (group if group[0] else [[]])]
    return joined[bool(joined and not joined[0]) : len(joined) - bool(joined and not joined[-1])]


def is_block(sentence: str) -> bool:
    return _BLOCK.fullmatch(sentence) is not None


def has_block(text: str) -> bool:
    return _BLOCK.search(text) is not None


def only(lines: Sequence[list[str]], keep: Callable[[str], bool]) -> list[list[str]]:
    """Lines, each as its sentences, without the sentences that are not to be kept, nor those that
    lead to nothing else ("you can use the following code:")."""
    left = [[*filter(keep, line)] for line in lines]
    for number, line in enumerate(left):
        if line and line[-1].rstrip().endswith(COLONS):
            below = [*zip(lines[number + 1 :], left[number + 1 :], strict=True)]
            led_to = takewhile(lambda each: each[0], dropwhile(lambda each: not each[0], below))
            if below and not any(kept for _, kept in led_to):
                line.pop()
    return _trimmed([new for new, line in zip(left, lines, strict=True) if new or not line])


def text_of(lines: Sequence[list[str]]) -> str:
    return "\n".join(
        "".join(f"{each}{'' if each.endswith((*_WIDE,)) else ' '}" for each in line).rstrip(" ")
        for line in lines
    )


def whole(text: str, longest: int, mark: str = "") -> str:
    """A text; if it was cut off at its `longest`, up to its last whole sentence or, where it has
    only one, without the last word, with a mark."""
    if len(text) < longest:
        return text
    lines = sentences_in(text)
    kept = without_last(lines)
    said = text_of(kept) if kept != lines else text.rpartition(" ")[0].rstrip(",;") or text
    return f"{said} {mark}".rstrip()


def cut_off(text: str) -> str | None:
    """A text that was cut off, up to its last whole sentence, with a mark; None if it has none."""
    lines = sentences_in(text)
    kept = without_last(lines)
    return f"{text_of(kept)} {CUT}" if kept != lines else None


def without_last(lines: list[list[str]]) -> list[list[str]]:
    """Lines, each as its sentences, without the last sentence unless it is the only one."""
    *before, last = lines or [[]]
    return _trimmed([*before, last[:-1]]) if before or len(last) > 1 else lines


def prose_in(reply: str) -> str:
    """The plain text of a reply that may be JSON after all: a string, a list of strings, or an
    object with nothing else."""
    try:
        said = json.loads(reply, strict=False)
    except (ValueError, RecursionError):
        return reply
    if isinstance(said, dict) and len(said) == 1:
        (said,) = said.values()
    if isinstance(said, list) and said and all(isinstance(each, str) for each in said):
        return "\n".join(f"- {each}" for each in said)
    return said if isinstance(said, str) else reply


def block_in(reply: str, text: str) -> str:
    """The new form of a text in a reply: its code block, or of several the one with most of the
    text's lines; else all of the reply if it begins and ends as the text does; else empty."""
    # Blocks within a block: those of the text, or one in a language that is added.
    inside = r".*" if "```" in text else r"(?:^[ ]*```\w.*?^[ ]*```(?!\w)|(?!^[ ]*```).)*"
    closed = rf"^([ ]*)```[^\n]*\n({inside})^[ ]*```(?!\w)"
    found = re.findall(closed, reply, re.DOTALL | re.MULTILINE)
    if not found and (cut := re.search(r"^([ ]*)```[^\n]*\n(.*)", reply, re.DOTALL | re.MULTILINE)):
        found = [(cut[1], cut[2] if "```" in text else re.sub(r"```\s*\Z", "", cut[2]))]
    if not found:
        return reply if _ends(reply) == _ends(text) else ""
    own = set(text.splitlines())
    blocks = [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]
    return max(blocks, key=lambda each: len(own & set(each.splitlines())))


def _ends(text: str) -> tuple[str, str]:
    lines = text.strip().splitlines() or [""]
    return lines[0], lines[-1]
