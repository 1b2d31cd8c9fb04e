"""What a model wrote in plain text: the list, the sentences or the block of code in its reply."""

import json
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


def prose_in(reply: str) -> str:
    """A reply in plain text that was written as JSON after all: a string, or an object with
    nothing but one text, or a list of them, in it."""
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
    """What a reply has in a code block as the new form of a text; of several blocks, the one with
    most of its lines. Empty where it has none. Without a block it may be all of the reply, if that
    begins and ends as the text does."""
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
