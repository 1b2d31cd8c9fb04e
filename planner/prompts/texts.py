"""How texts stand in prompts: the files beside this one filled in, tools and passages in lines, and
what strangers write made harmless."""

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from planner.checks.lenient import sentences_in
from planner.evidence.tool_ranking import shown_whole
from planner.evidence.words import asks
from planner.models.base import Message
from planner.passage import Passage
from planner.text import flat, shortened
from planner.tools import ToolSpec

MAX_QUERY_CHARS = 160
"""Characters of what was searched for, above what was found."""
MAX_DEFAULT_CHARS = 160
"""Characters of a parameter's default."""


@cache
def template(name: str) -> Template:
    return Template(
        files("planner.prompts").joinpath(f"{name}.txt").read_text("utf-8").rstrip("\n")
    )


def fill(name: str, **values: object) -> str:
    return template(name).substitute(values).strip("\n")


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def signature(tool: ToolSpec) -> str:
    """`path, pattern, limit?`: the parameters, optional ones marked."""
    return ", ".join(name if name in tool.required else f"{name}?" for name in tool.parameters)


def parameters(tool: ToolSpec) -> str:
    """One line for each parameter: its name, its type, and the first sentence on it."""
    lines = []
    for name, schema in tool.parameters.items():
        kind = schema.get("type", "")
        kind = kind if isinstance(kind, str) else ""
        notes = ", ".join(filter(None, [kind, "" if name in tool.required else "optional"]))
        about = one_line(schema.get("description", ""))
        default = schema.get("default")
        if default not in (None, ""):
            about += f" (default {compact(default)[:MAX_DEFAULT_CHARS]})"
        lines.append(f"- {name}{f' ({notes})' if notes else ''}: {about.strip() or '?'}")
    return "\n".join(lines) or "It takes no arguments."


def one_line(text: str, longest: int = 160) -> str:
    """The first sentence, on one line, at most `longest` characters."""
    whole = flat(text)
    sentence = re.split(r"(?<=[.!?])\s", whole, maxsplit=1)[0] if len(whole) > longest else whole
    return shortened(sentence, longest)


def in_short(text: str, longest: int = MAX_QUERY_CHARS) -> str:
    """A request on one line; without its shortest sentences, such as a greeting, if it is longer
    than `longest`. Questions stay longest: they may be about a long text."""
    if len(whole := flat(text)) <= longest:
        return whole
    left = dict(enumerate(flat(each) for line in sentences_in(text) for each in line))
    for number in sorted(left, key=lambda number: (asks(left[number]), len(left[number])))[:-1]:
        if len(" ".join(left.values())) > longest:
            del left[number]
    return shortened(" ".join(left.values()) or whole, longest)


def catalogue(tools: Sequence[ToolSpec]) -> str:
    """A line for each tool. Its upstream's words cannot break out of the line."""
    return "\n".join(
        f"- {tool.name}({signature(tool)}): {fenced(one_line(tool.description))}" for tool in tools
    )


def system(tools: Sequence[ToolSpec]) -> Message:
    """The part that all runs with the same permitted tools share, word for word."""
    sorting = fill("system", examples=fill("brief_examples"))
    return {"role": "system", "content": f"{system_act(tools)['content']}\n\n{sorting}"}


def system_act(tools: Sequence[ToolSpec]) -> Message:
    """The same for planning and making an action: its beginning, which a model's server need not
    read again. What follows, of sorting requests and searching, makes a small model plan calls that
    nobody asked for (docs/experiments.md)."""
    listed = catalogue(tools) if shown_whole(tools) else fill("tools_elsewhere")
    return {"role": "system", "content": fill("system_act", tools=listed or "(none)")}


def fenced(text: str) -> str:
    """A stranger's text, or a model's about it, that can neither open nor close a fence."""
    return re.sub(r"<(\s*/\s*|)(result)", r"‹\1\2", text, flags=re.IGNORECASE)


_TURN = re.compile(r"<(?=[|｜][\w▁]{1,40}[|｜]>|(?:start|end)_of_turn>|/?s>)|\[(?=/?INST\])")
"""What begins a token that chat templates separate messages with: of ChatML and Llama (`<|…|>`),
DeepSeek, Gemma, Mistral and Llama 2. Model servers read them within a message's text too."""
_HARMLESS = {"<": "‹", "[": "［"}
"""What stands for it."""


def harmless(messages: list[Message]) -> list[Message]:
    """The messages, none of which can be taken for several."""
    return [
        {**each, "content": _TURN.sub(lambda found: _HARMLESS[found[0]], each["content"])}
        for each in messages
    ]


def as_it_was(written: str, text: str) -> str:
    """What was written of a text that `harmless` may have changed, with the text's own signs."""
    for sign, instead in _HARMLESS.items():
        if instead not in text:
            written = written.replace(instead, sign)
    return written


def passage(each: Passage) -> str:
    """A passage as models see it: its file and lines, what it stands in, and its text. Small models
    take numbers before the lines for values."""
    heading = [f"{line}\n..." for line in each.heading.splitlines()]
    return "\n".join([_head(each), *heading, each.text])


def _head(each: Passage) -> str:
    """The place of a passage, and what code says of it."""
    about = ", ".join(filter(None, [each.relation, each.inside]))
    return f"{each.place} ({about})" if about else each.place


def without_notes(answer: str, passages: Sequence[Passage]) -> str:
    """The answer without the brackets behind passages' places, which small models copy."""
    for note in {re.escape(note) for each in passages if (note := each.relation or each.inside)}:
        answer = re.sub(rf"(:\d+(?:-\d+)?) \({note}[^()\n]*\)", r"\1", answer)
    return answer


_NOTED = re.compile(r":\d+(?:-\d+)? \(")
"""The lines of a place, with what code says of them behind."""


def without_heads(text: str, passages: Sequence[Passage]) -> str:
    """The text without lines that are the first one of a passage, or its end, with what code says
    of it in brackets."""
    heads = [*map(_head, passages)]
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        end = line.strip(" -*`\n")
        if not (_NOTED.search(end) and any(head.endswith(end) for head in heads)):
            kept.append(line)
    return "".join(kept)


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def argument_names(tool: ToolSpec) -> str:
    """The names of a tool's arguments, as its call begins with them."""
    return ",".join(f'"{name}":...' for name in tool.parameters)


def joined(*parts: str) -> str:
    return "\n".join(part for part in parts if part)
