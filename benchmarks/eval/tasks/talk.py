"""The family talk: what people say that asks for nothing to be looked up, and an empty pool.

Right is what a polite program would do: one model call, no tool call, a few sentences that name no
file, no identifier and no number, since nothing was looked at that could hold one.
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.eval.case import Answer, Grade, Setting, Split
from benchmarks.eval.tasks.base import TaskCase

MAX_SENTENCES = 6
MAX_CHARACTERS = 700

_INVENTED = (
    r"[\w.-]+/[\w./-]+\.\w+",  # a path
    r"\b\w+\.(?:py|js|ts|md|json|ya?ml|toml|txt|rs|go|java|c|h|cpp)\b",
    r"\b\w+_\w+\b",
    r"\b[a-z]+[A-Z]\w*\b(?<!iPhone)",
    r"\b\w+\(\)",
    r"\d+",
)
"""What only looking could tell: paths, files, identifiers, numbers."""


@dataclass(frozen=True)
class Talk(TaskCase):
    """Something that is said."""

    family = "talk"

    @property
    def expected(self) -> str:
        return "a short reply that invents nothing, from one model call"

    @asynccontextmanager
    async def open(self, work: Path) -> AsyncIterator[Setting]:
        yield Setting(upstreams={})

    def grade(self, setting: Setting, answer: Answer) -> Grade:
        if answer.status in ("failed", "cancelled", "refused"):
            return Grade("honest", 0.0, answer.status)
        if invented := invention(self.wording, answer.text):
            return Grade("wrong", 0.0, f"invents {invented}")
        calls = model_calls(answer.details)
        kept = {
            "has no text": bool(answer.text.strip()),
            f"is {answer.status}": answer.status == "answered",
            "called a tool": not answer.calls,
            f"took {calls} model calls": calls == 1,
            "is long": is_short(answer.text),
        }
        missing = [what for what, well in kept.items() if not well]
        share = 1 - len(missing) / len(kept)
        return Grade("honest" if missing else "right", share, ", ".join(missing))


def invention(said: str, answer: str) -> str:
    """What the answer names that was not said; empty: nothing. The numbers of a list do not count,
    nor do the names of products."""
    plain = re.sub(r"^\s*(?:\d+[.)]|[-*])\s+", "", answer, flags=re.MULTILINE)
    for pattern in _INVENTED:
        for match in re.finditer(pattern, plain):
            if match[0].lower() not in said.lower():
                return match[0]
    return ""


def is_short(answer: str) -> bool:
    sentences = re.findall(r"[^.!?。！？\n]+(?:[.!?。！？\n]|$)", answer)
    return len(sentences) <= MAX_SENTENCES and len(answer) <= MAX_CHARACTERS


def model_calls(details: Any) -> int:
    """How often a model was asked, by a system's own account: a report's usage, or the assistant's
    messages of a loop."""
    if isinstance(details, dict):
        return int(details.get("usage", {}).get("model_calls", 0))
    return sum(each.get("role") == "assistant" for each in details or ())


TALKS = (
    Talk("hi", "dev", "greeting", "hi"),
    Talk("helped", "dev", "thanks", "thanks, that helped!"),
    Talk("can-you", "dev", "about", "What can you do?"),
    Talk("wie-gehts", "dev", "greeting", "Hallo, wie geht's?", language="de"),
    Talk("gracias", "dev", "thanks", "muchas gracias :)", language="es"),
    Talk("ni-hao", "dev", "about", "你好，你能帮我做什么？", language="zh"),
    Talk("keys", "dev", "nonsense", "asdkjh qwepoi zzzz"),
    Talk("a-demain", "dev", "farewell", "ok merci, à demain", language="fr"),
    Talk("morning", "report", "greeting", "Good morning!"),
    Talk("cheers", "report", "thanks", "great, cheers mate"),
    Talk("who", "report", "about", "who are you?"),
    Talk("alles", "report", "about", "Was kannst du alles?", language="de"),
    Talk("bonjour", "report", "greeting", "Bonjour !", language="fr"),
    Talk("arigato", "report", "thanks", "ありがとうございます", language="ja"),
    Talk("blorf", "report", "nonsense", "blorf?? blorf blorf"),
    Talk("privet", "report", "about", "Привет! Что ты умеешь?", language="ru"),
    Talk("test", "report", "nonsense", "test"),
)


def cases(split: Split) -> Sequence[Talk]:
    return [talk for talk in TALKS if talk.split == split]
