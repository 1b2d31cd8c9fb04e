"""Whether an answer is right, decided by code: no model and no person judges.

An answer is prose, so a check looks for the facts that have to stand in it (a name, a number, a
path) and for what must not. Answers come in the question's language, so words for "no", "could not
be found" and small numbers are known in those that questions are asked in.
"""

import re
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from benchmarks.eval.case import Grade, Verdict

MAX_ANSWER_CHARS = 1500
"""In characters. What is longer is a dump that holds the right string by chance."""
_WORDS = {
    word: number
    for words in (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen twenty",
        "null _ zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "cero _ dos tres cuatro cinco seis siete ocho nueve diez once doce",
        "zéro _ deux trois quatre cinq six sept huit neuf dix onze douze",
        "_ um dois três quatro cinco seis sete oito nove dez onze doze",
        "零 _ 两 三 四 五 六 七 八 九 十",
    )
    for number, word in enumerate(words.split())
    if word != "_"
}


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Check(_Frozen):
    """Regular expressions, case-insensitive: each group of `required` is a fact, held if one of its
    alternatives matches; none of `forbidden` may match."""

    required: tuple[tuple[str, ...], ...] = ()
    forbidden: tuple[str, ...] = ()
    least: float = 1.0
    """The share of the facts that a right answer holds."""
    longest: int = MAX_ANSWER_CHARS

    def missing(self, answer: str) -> list[tuple[str, ...]]:
        text = normal(answer)
        return [group for group in self.required if not any(_found(each, text) for each in group)]

    def false(self, answer: str) -> list[str]:
        return [each for each in self.forbidden if _found(each, normal(answer))]

    def share(self, answer: str) -> float:
        """Of the facts that the answer holds. 1 where none is asked for."""
        count = len(self.required)
        return (count - len(self.missing(answer))) / count if count else 1.0

    def holds(self, answer: str) -> bool:
        return (
            len(normal(answer)) <= self.longest
            and self.share(answer) >= self.least
            and not self.false(answer)
        )


def normal(answer: str) -> str:
    """The answer with plain numbers (`1_500` and `1,500` are 1500) and plain apostrophes."""
    return re.sub(r"(?<=\d)[_,](?=\d{3}(?!\d))", "", answer.replace("\u2019", "'"))


def whole(text: str) -> str:
    """A pattern for this very text as a word of its own, be it in a path, between quotes, or amid
    a script without spaces."""
    return rf"(?a:(?<!\w){re.escape(text)}(?!\w))"


def number(value: float) -> tuple[str, ...]:
    """Patterns for a number: in digits, and a small whole one in words."""
    if value == int(value):
        digits = rf"(?a:(?<![\w.]){int(value)}(?:\.0+)?(?!\w|\.\d))"
        words = [word for word, number in _WORDS.items() if number == value]
        apart = re.sub(r"(?<=\d)(?=(\d{3})+$)", "[. \u202f]", str(int(value)))
        return (digits, *map(whole, words), *([rf"(?<!\d){apart}(?!\d)"] if value >= 1000 else []))
    shown = re.escape(repr(value)).replace(r"\.", "[.,]")
    return (rf"(?a:(?<![\w.]){shown}0*(?!\w|\.\d))",)


def file(path: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Patterns for a file: its name if no other file has it, else its last folder too; or dotted,
    as a module is imported."""
    parts = path.split("/")
    alone = sum(each.split("/")[-1] == parts[-1] for each in paths) == 1
    dotted = path.removesuffix(".py").replace("/", ".")
    return whole("/".join(parts[-1:] if alone else parts[-2:])), whole(dotted)


_UNKNOWN = (
    r"(?:could|can|was|were|am|is|are)(?: not|n't|not)(?: \w+)? (?:be )?(?:found out|find|found|"
    r"determined?|locate[d]?|answer(?:ed)?|tell|identif\w+|know|able|possible)\b",
    r"\b(?:unable|impossible|not enough|insufficient)\b",
    r"\b(?:not know|don't know|unknown|no (?:\w+ )?(?:information|mention|data|record|indication))",
    r"\bnot (?:\w+ )?(?:specified|mentioned|provided|stated|available|recorded|documented|given)\b",
    r"\b(?:not|n't) (?:\w+ )?(?:say|tell|specify|mention|provide|state|record|include|contain)\b",
    r"\bnicht (?:\w+ ){0,2}?(?:gefunden|finden|ermittel\w+|feststell\w+|beantwort\w+|bekannt|"
    r"angegeben|erwähnt|hervor|dokumentiert)|\bunbekannt\b",
    r"\bkeine (?:\w+ )?(?:angabe|information|hinweis|daten)",
    r"\bno (?:\w+ ){0,2}?(?:encontr\w+|pud[eo]|puedo|se puede|sabe|especifica\w*|menciona\w*|"
    r"consta)",
    r"no hay (?:\w+ )?(?:informaci|datos|mención)|\bdesconocid",
    r"\b(?:ne|n'\w+|n') ?(?:\w+ ){0,3}?(?:pas|aucune?)\b.{0,20}"
    r"(?:trouv|détermin|précis|mentionn|indiqu|connu|savoir|information)",
    r"\bnão (?:\w+ ){0,2}?(?:encontr\w+|(?:foi|é) possível|sei|especifica\w*|menciona\w*|consta)",
    r"无法|未知|不知道|不清楚|没有(?:找到|提到|说明|相关|记录|提供|信息)",
    r"未(?:找到|提及|说明|提供|记录)",
)
_UNDECIDED = (
    r"find out",
    r"(?:not|n't)(?: \w+)? (?:be )?(?:determine|tell|answer|know|sure|clear)",
    r"\bunable\b",
    r"nicht (?:\w+ )?(?:ermittel|feststell|beantwort|sicher)",
    r"no (?:se )?pued[eo] (?:determinar|saber)|impossible de|não (?:sei|é possível)",
    r"无法(?:确定|回答)",
)
NEGATIONS = (
    r"\bno\b",
    r"\bnone\b",
    r"(?:not|n't)(?: \w+){0,3} (?:exist|f[io]u?nd|defined?|contain|ha(?:ve|s)|present|includ|"
    r"implement|any|appear|mention|locate|support|part|us(?:e|ed))",
    r"\bnein\b|\bkein\w*\b|\bnirgend|gibt es nicht",
    r"\bnicht (?:\w+ ){0,3}?(?:vorhanden|gefunden|definiert|unterstützt|vorgesehen|enthalten|"
    r"möglich|implementiert)",
    r"\bningun\w*|\bningún|\bnão\b|\bnenhum",
    r"\bnon\b|\baucune?\b|\b(?:ne|n'\w*) .{0,40}\bpas\b",
    r"没有|不存在|并无|未找到|不支持|不包含|未(?:定义|实现|提供)|否",
)
"""How an answer says "no, there is none"."""


def _found(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def _any(patterns: Iterable[str], text: str) -> bool:
    return any(_found(each, normal(text)) for each in patterns)


def grade(kind: str, check: Check, status: str, answer: str) -> Grade:
    """The outcome of an answer that came with this status (`answered`, `partial`, `not_found`,
    `failed`; a system without statuses has answered whenever it said anything).

    `unanswerable`: where the answer cannot be known, saying so is right; but a crash or a time
    limit said nothing, so `failed` is honest at best. `absence`: "no" is right. Any other kind: a
    `partial` answer is right if it holds the answer and does not say that it was not found: a list
    of what was seen on the way is no answer, and holds no share of the facts.
    """
    unknown = _any(_UNKNOWN, answer)
    given = status == "answered" or not unknown
    share = check.share(answer) if given else 0.0
    why = "; ".join(
        [f"without {group[0]}" for group in check.missing(answer)]
        + [f"says {each}" for each in check.false(answer)]
        + [f"longer than {check.longest}"] * (len(normal(answer)) > check.longest)
    )

    def graded(verdict: Verdict) -> Grade:
        return Grade(verdict, share, "" if verdict == "right" else why)

    if status in ("failed", "cancelled", "refused"):
        return Grade("honest", 0.0, status)
    honest: Verdict = "honest" if status != "answered" or unknown else "wrong"
    holds = check.holds(answer)
    if kind == "unanswerable":
        said = status in ("not_found", "partial") or (unknown and holds)
        return Grade("right", 1.0) if said else graded("wrong")
    if kind == "absence":
        said = holds and not _any(_UNDECIDED, answer)
        return Grade("right", 1.0) if said else graded(honest)
    if holds and given and status in ("answered", "partial"):
        return graded("right")
    return graded(honest)
