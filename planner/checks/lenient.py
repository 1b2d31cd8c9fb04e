"""What a model wrote in plain text: the list, the sentences or the block of code in its reply."""

import re

_MARK = re.compile(r"^\s*(?:[-*•]\s|\d+[.)]\s|```.*)\s*")


_BLOCK = re.compile(r"^(```[^\n]*\n.*?^```)[^\n]*$", re.DOTALL | re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?؟۔።])\s+(?=[^\W\d_a-z`])|(?<=[。！？।॥။។])\s*")
"""A sentence begins after a blank, with a capital or a name in code; in some scripts right after
the sign that ends the one before."""


def items_in(text: str) -> list[str]:
    """The items of a list in plain text, without their marks, and without what introduces them."""
    found = [_MARK.sub("", line).strip() for line in text.splitlines()]
    return [item for item in found if re.search(r"\w", item) and not item.endswith(":")]


def sentences_in(text: str) -> list[list[str]]:
    """The lines of an answer in plain text that say something, each as its sentences; an item of a
    list is one sentence, and so is a block of code between others."""
    *before, last = _BLOCK.split(text)
    if not any(re.search(r"\w", each) for each in [*before[::2], last]):  # it is all in a block
        before, last = [], text
    lines: list[list[str]] = []
    for prose, block in zip([*before[::2], last], [*before[1::2], ""], strict=True):
        lines += _sentences(prose)
        lines += [[block]] if block else []
    return lines


def _sentences(prose: str) -> list[list[str]]:
    lines = [line.rstrip() for line in prose.splitlines() if not line.lstrip().startswith("```")]
    said = [line for line in lines if re.search(r"\w|\|\s*:?-", line)]  # or the rule of a table
    return [
        [line] if _MARK.match(line) else [*filter(None, _SENTENCE_END.split(line.strip()))]
        for line in said
    ]


def whole(text: str) -> str:
    """A text that was cut off, up to its last sentence that is whole, if it has one."""
    return "\n".join(" ".join(line) for line in without_last(sentences_in(text)))


def without_last(lines: list[list[str]]) -> list[list[str]]:
    """Lines, each as its sentences, without the last sentence unless it is the only one."""
    *before, last = lines or [[]]
    kept = [*before, last[:-1]] if before or len(last) > 1 else lines
    return [line for line in kept if line]


def block_in(reply: str, fences: bool) -> str:
    """What a reply has in a code block; empty where it has none. `fences`: whether the text itself
    has code blocks; one in a language may be added to it in any case."""
    inside = r".*" if fences else r"(?:^```\w.*?^```(?!\w)|(?!^```).)*"
    closed = re.search(rf"^```[^\n]*\n({inside})^```(?!\w)", reply, re.DOTALL | re.MULTILINE)
    found = closed or re.search(r"^```[^\n]*\n(.*)", reply, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""
