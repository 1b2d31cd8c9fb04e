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
    "en": "zero _ two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty",
    "de": "_ _ zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "es": "cero _ dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "fr": "zéro _ deux trois quatre cinq six sept huit neuf dix onze douze",
    "pt": "zero _ dois três quatro cinco seis sete oito nove dez onze doze",
    "zh": "零 _ 两 三 四 五 六 七 八 九 十",
}
"""Small numbers by language, from 0 on; `_` for words that mean other things as well ("one", "um")
or stand in code ("null")."""
_UNIT = r"(?:[mµn]?s|min|h|[kMG]?i?B)?"
"""What may follow the digits of a number without a space."""
_STATED = "(?<!不是)" + "".join(
    rf"(?<!{word} )(?<!{word} ['\"])" for word in (r"\bnot", "n't", r"\bnicht", r"\bpas", r"\bnão")
)
"""Before a text or a number: it does not stand there as what is not so."""


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

    def beside(self, answer: str) -> str:
        """The answer without what holds a fact: "not found" there is part of it, and no doubt."""
        parts = re.split(r"(?<=[.!?:])\s|[;\n。！？]", normal(answer))
        facts = [each for group in self.required for each in group]
        return "\n".join(part for part in parts if not _any(facts, part))

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


_NOTHING = (
    r"(?<![*\w])\*\*(?=[^\s*])|(?<=[^\s*])\*\*(?![*\w])|`|\\(?=_)",  # marks of Markdown
    r"(?<=\d)[_,](?=\d{3}(?!\d))",  # `1_500` and `1,500` are 1500
    r"(?m)^ *\d+[.)] (?=(?s:.*)^ *\d+[.)] )",  # numbers of a list, but for the last: how many
)
"""What an answer is written with, and what says nothing."""


def normal(answer: str) -> str:
    """The answer as plain text."""
    text = re.sub(r"[^\S\n]+", " ", answer.replace("\u2019", "'"))
    for pattern in _NOTHING:
        text = re.sub(pattern, "", text)
    return text.strip()


def whole(text: str) -> str:
    """A pattern for this very text as a word of its own, be it in a path, between quotes, or amid
    a script without spaces; but not right after "not"."""
    return rf"(?a:{_STATED}(?<!\w){re.escape(text)}(?!\w))"


def number(value: float, language: str = "en") -> tuple[str, ...]:
    """Patterns for a number in an answer to a question in this language: in digits, and a small
    whole one in words, also in English ones. Outside of English a comma may begin decimals."""
    point = r"\." if language == "en" else "[.,]"
    before = rf"{_STATED}(?<![\w.])(?<!\d{point})(?<!(?<!\w)[-−])"
    after = rf"{_UNIT}(?!\w|{point}\d)"
    if value != int(value):
        shown = re.escape(repr(value)).replace(r"\.", "[.,]")
        return (rf"(?a:{before}{shown}0*{after})",)
    digits = rf"(?a:{before}{int(value)}(?:{point}0+)?{after})"
    apart = re.sub(r"(?<=\d)(?=(\d{3})+$)", "[. '\xa0\u202f]", str(int(value)))
    grouped = [rf"(?<!\d){apart}(?!\d)"] if value >= 1000 else []
    known = (_WORDS[each].split() for each in dict.fromkeys(("en", language)) if each in _WORDS)
    words = [each[int(value)] for each in known if 0 <= value < len(each)]
    return (digits, *(whole(word) for word in words if word != "_"), *grouped)


def file(path: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Patterns for a file: its name if no other file has it, else its last folder too; or dotted,
    as a module is imported."""
    parts = path.split("/")
    alone = sum(each.split("/")[-1] == parts[-1] for each in paths) == 1
    dotted = path.removesuffix(".py").replace("/", ".")
    return whole("/".join(parts[-1:] if alone else parts[-2:])), whole(dotted)


_NO = (
    r"\b(?:no(?! problem| worries)|not(?! only)|none|nothing|never|neither|cannot)\b|n't\b",
    r"\b(?:nein|nicht|nichts|nie|kein\w*|nirgend\w*)\b",
    r"\b(?:ningun\w*|ningún|nada|nunca|tampoco)\b",
    r"\b(?:non(?!-)|aucune?|rien|jamais)\b|\b(?:ne|n'\w*) .{0,40}\bpas\b",
    r"\b(?:não|nenhum\w*)\b",
    r"没有|不存在|并无|未找到|不支持|不包含|未(?:定义|实现|提供)|否",
)
"""Words that deny, in the languages of the questions."""
_YES = r"^\W*(?:(?:yes|ja|sí|oui|sim)\b|是的|有)"
_UNABLE = (
    r"(?:\bnot|n't|\bcannot|\bunable to|\bimpossible to)(?: \w+){0,2} "
    r"(?:determin|tell|answer|know|sure|clear|find out|found out)",
    r"\bunable\b|\bno idea\b|\bdon't know\b|(?:\bnot|n't) (?:have access|help|assist)\b",
    r"\b(?:need|provide|without) (?:\w+ )?more (?:context|information|details|code)\b",
    r"^please (?:provide|share)\b",
    r"\bnicht (?:\w+ ){0,2}?(?:ermittel|feststell|beantwort|sicher|sagen)|\bweiß (?:\w+ )?nicht\b",
    r"\bno (?:\w+ )?(?:pud[eo]|puedo|se puede) (?:determinar|saber|decir)|\bno (?:lo )?sé\b",
    r"\bimpossible (?:de|à)\b|\bne (?:sais|peux) pas\b|\bnão (?:sei|é possível)",
    r"无法(?:确定|回答)|不知道|不清楚|わかりません|не знаю|bilmiyorum",
)
"""How an answer says that it does not know."""
_UNFOUND = (
    r"(?:\bnot|n't|\bcannot|\bnever|\bnothing)(?: \w+){0,3} (?:find|found|locate|identif|specif|"
    r"mention|provided|stated?\b|say\b|said\b|recorded|documented|available|able\b|possible\b)",
    r"(?:\bnot|n't) (?:\w+ )?(?:contain|include|provide|give|have)(?: \w+){1,3}? "
    r"(?:information|answer|detail|mention|data)",
    r"^\W*not (?:found|specified|mentioned|available|known)|\b(?:is|are|was|remains?) unknown\b",
    r"\bno (?:\w+ )?(?:information|mention|indication|results)|\b(?:not enough|insufficient)\b",
    r"\bnicht (?:\w+ ){0,2}?(?:gefunden|finden|bekannt|angegeben|erwähnt|hervor|dokumentiert)",
    r"\bunbekannt\b|\bkeine (?:\w+ )?(?:angabe|information|hinweis|daten)|\bsteht nichts\b",
    r"\bno (?:\w+ ){0,2}?(?:encontr\w+|encuentr\w+|aparece|especifica\w*|menciona\w*|consta|"
    r"(?:se )?pud[eo]|puedo|se puede)",
    r"\bno (?:hay|tengo) (?:\w+ )?(?:informaci|datos|mención)|\bdesconocid",
    r"\b(?:ne|n'\w+|n') ?(?:\w+ ){0,3}?(?:pas|aucune?|rien)\b.{0,20}"
    r"(?:trouv|détermin|précis|mentionn|indiqu|connu|savoir|information)",
    r"\bne trouve pas\b|\baucune (?:information|mention|indication)",
    r"\bnão (?:\w+ ){0,2}?(?:encontr\w+|foi possível|especifica\w*|menciona\w*|consta|informaç\w+)",
    r"見つかりません|не (?:найден|удалось|указан)|bulunamadı",
    r"无法|未知|找不到|没有(?:足够|找到|提到|说明|相关|记录|提供|信息)|未(?:找到|提及|说明|提供|记录)",
)
"""How an answer says that it was not found. Of something absent, that is a "no"."""


_IF = re.compile(
    r"\b(?:if|when|unless|wenn|falls|si|cuando|quand|quando)\b[^,.;:\n]*|(?:如果|当)[^，。]*",
    re.IGNORECASE,
)
"""What an answer says of a case that may be ("if the key is not found") is no doubt of it."""


def denies(answer: str) -> bool:
    """Whether an answer begins by saying no: later sentences tell more of what there is."""
    first = re.split(r"(?<=[.!?])\s|[;(\n。！？]", normal(answer))[0]
    return _any(_NO, first) and not _any((_YES,), first)


def unsure(answer: str) -> bool:
    """Whether an answer says that it does not know, or that nothing was found."""
    return _any((*_UNABLE, *_UNFOUND), _IF.sub("", normal(answer)))


def _found(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def _any(patterns: Iterable[str], text: str) -> bool:
    return any(_found(each, normal(text)) for each in patterns)


def grade(kind: str, check: Check, status: str, answer: str) -> Grade:
    """The outcome of an answer that came with this status (`answered`, `partial`, `not_found`,
    `failed`; a system without statuses has answered whenever it said anything).

    `unanswerable`: where the answer cannot be known, saying so is right; but a crash or a time
    limit said nothing, so `failed` is honest at best. `absence`: "no" is right, unless the check
    asks for more. Any other kind: a `partial` answer is right if it holds the answer and does not
    say that it was not found: a list of what was seen on the way is no answer, and holds no share
    of the facts.
    """
    if status in ("failed", "cancelled", "refused"):
        return Grade("honest", 0.0, status)
    unknown, holds = unsure(answer), check.holds(answer)
    honest: Verdict = "honest" if status != "answered" or unknown else "wrong"
    why = "; ".join(
        [f"without {group[0]}" for group in check.missing(answer)]
        + [f"says {each}" for each in check.false(answer)]
        + [f"longer than {check.longest}"] * (len(normal(answer)) > check.longest)
    )
    if kind == "unanswerable":
        if status == "not_found" or (unknown and holds):
            return Grade("right", 1.0)
        return Grade("wrong" if status == "answered" else "honest", 0.0, why)
    if kind == "absence":
        if holds and (check.required or denies(answer)) and not _any(_UNABLE, answer):
            return Grade("right", 1.0)
        return Grade(honest, 0.0, why or "does not say no")
    doubt = _any(_UNABLE, answer) or unsure(check.beside(answer))
    given = status == "answered" or not doubt
    share = check.share(answer) if given else 0.0
    if holds and given and status in ("answered", "partial"):
        return Grade("right", share)
    return Grade(honest, share, why)
