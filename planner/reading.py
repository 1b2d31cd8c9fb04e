"""A request as code reads it, before any model does: the names in it, and what is asked of them.

It only has to be right where it says something: a request that it cannot place is left to the
models, with whatever its names and words lead to.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from importlib.resources import files

MOST_NAMES = 6
"""Of a request, looked up."""
LONGEST_REQUEST = 4000
"""Characters of it that are read."""


def _words(name: str) -> frozenset[str]:
    text = files("planner").joinpath("prompts", f"{name}.txt").read_text("utf-8")
    return frozenset(text.split())


PLAIN_WORDS = _words("plain_words")
"""Words of ordinary questions: they point at no line of code."""
WORLD_WORDS = _words("world_words")
"""Words for people, dates and events: what code seldom tells, whatever else stands in it."""


class Intent(StrEnum):
    """What is asked of a name."""

    PLACE = "place"
    """Where it is defined."""
    USES = "uses"
    """Who calls or uses it."""
    BASES = "bases"
    """What it inherits from."""
    HEIRS = "heirs"
    """What inherits from it."""


_EXTENSIONS = (
    "py|pyi|ts|js|tsx|jsx|md|rst|toml|yaml|yml|json|go|rs|java|kt|rb|php|c|h|cc|cpp|cs|sh|txt|cfg"
    "|ini|conf|env|sql|html|css|lock"
)
_NAME = re.compile(
    r"`([^`\n]{2,80})`|\"([^\"\n]{2,80})\"|(?<!\w)'([^'\n]{2,80})'(?!\w)"  # a quotation
    rf"|(?<![\w/.])([\w./-]*\w\.(?:{_EXTENSIONS}))\b"  # a file
    r"|\b([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\(\)"  # called()
    r"|\b(?:function|method|class|constant|variable|parameter|field|module|option|called|named)"
    r"\s+([A-Za-z_]\w+)"
    r"|\b((?:\w+\.)*(?:[A-Za-z]\w*)?_\w+(?:\.\w+)*)\b"  # snake_case
    r"|\b((?:\w+\.)*(?:[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|[A-Z]{2,}[a-z]\w*)(?:\.\w+)*)\b"
    r"|\b([A-Z][A-Z0-9]{2,})\b"  # CONSTANT
    r"|\b([A-Za-z]\w+)\s+(?:function|method|class|constant|enum|dataclass|decorator)\b"
    r"|(?<=[a-z,] )([A-Z][a-z]{2,})\b"  # a capital within a sentence
)
_FILE = re.compile(rf"[\w./-]*\w\.(?:{_EXTENSIONS})|(?:README|CHANGELOG|Makefile|Dockerfile)")
_USE_OF = (
    r"(?:calls?|calling|invokes?|invoking|uses?|using|references?|instantiates?|creates?|imports?|"
    r"constructs?|triggers?|(?:relies|rely|depends?) on|(?:use|usages?|callers?|users?|call sites?)"
    r" (?:of|for)|(?:calls?|references?) to)"
)
_USED = (
    r"(?:is|are|was|gets?|being|be)?\s*(?:\w+ly\s+)?(?:called|used|invoked|referenced|created|"
    r"instantiated|constructed|triggered|imported)\b"
)
_ASKS_WHO = re.compile(
    r"\b(?:who|what|which|where|name|list|find|show|how (?:many|often)|number|count|anything|"
    r"anyone|anywhere|callers?)\b",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(r"\b(?:if|when|once)\s+(?:I|we|you|one|some\w+|nobody)\b", re.IGNORECASE)
_HEIR_OF = (
    r"(?:inherits?|inheriting|derives?|derived|deriving) from|extends?|extending|"
    r"(?:subclass|subclasses|children|heirs) of|subclass(?:es|ing)?"
)
_BASE = re.compile(
    r"\b(?:inherits?|(?:base|parent|super) ?class(?:es)?|subclass of|extends?|derives? from)\b",
    re.IGNORECASE,
)
_DEFINED = re.compile(
    r"\b(?:where|file|line|module|locat\w+)\b.*\b(?:defin\w+|declar\w+|implement\w*|liv(?:e|es)|"
    r"located|resides?|sits?)\b|\b(?:definition|location|declaration) of\b"
    r"|\bwhere(?:'s| is| are| can I find| do I find)\s+(?:the\s+)?(?:\w+\s+)?[`'\"]?[\w.]+[`'\"]?"
    r"\s*(?:[?,.;:]|$)",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"\b(?:inherits?|bases?|parents?|uses?|values?|defaults?|calls?|returns?|raises?)\b",
    re.IGNORECASE,
)
_COUNTED = {
    "methods": r"methods?|functions?|member functions?",
    "classes": r"classes",
    "parameters": r"parameters?|arguments?|args|params?",
    "fields": r"fields?|attributes?|members?|values?|constants?|variants?|entries|options?|keys?",
    "places": r"places?|times|spots?|call sites?|occurrences?|calls",
    "files": r"files?|modules?",
    "heirs": r"subclasses|children|heirs",
    "callers": r"callers?",
    "sections": r"sections?|tables?|headings?|blocks?|groups?",
    "items": r"items?|bullets?|points?|parts?|steps?|lines?|things?|components?|features?",
}
_HOW_MANY = re.compile(
    r"\b(?:how many|number of|count (?:of |up )?(?:the |all (?:the )?)?)\s*(.{0,60})", re.IGNORECASE
)
_HOW_OFTEN = re.compile(r"\bhow often\b", re.IGNORECASE)
_WHETHER = re.compile(
    r"^\W*(?:(?:please|hi|hello)\W+)?(?:(?:can|could) you )?(?:tell me |check |see )?"
    r"(?:if |whether )?"
    r"(?:(?:is|are) there\b|(?:does|do|has|have) (?:this|the|it|we|any)|(?:is|are) (?:an?|any|the) "
    r".*\b(?:defined|present|here|anywhere|in this)\b|any\b|there (?:is|are)\b)",
    re.IGNORECASE,
)


_COMPOUND = re.compile(
    r"\band\s+(?:also\s+)?(?:what|how|who|why|whom|which (?!file|line|module|path)|where)\b"
    r"|\?.+\?|\bexplain\b|\bwhy\b|\bdescribe\b|\bsummar",
    re.IGNORECASE | re.DOTALL,
)
_DEFAULT = re.compile(
    r"\bdefaults?\b|\bwithout\b|\bomit\w*|\bleav\w+ (?:\w+ )?out\b|\bleft out\b|\bunless\b"
    r"|(?:\b(?:not|none|nobody|nothing|never|no one)\b|n't\b).*"
    r"\b(?:give\w*|pass\w*|set|specif\w+|sa(?:y|ys|id)|provide\w*|suppl\w+|told|mention\w*)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Reading:
    """What a request's words tell. `request` is its text."""

    request: str
    _text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_text", self.request[:LONGEST_REQUEST])

    @cached_property
    def files(self) -> list[str]:
        """The files it names, as it names them."""
        return list(dict.fromkeys(_FILE.findall(self._text)))

    @cached_property
    def names(self) -> list[str]:
        """What it names of the code: identifiers and quotations, in their order; of a dotted name
        each part."""
        found: dict[str, None] = {}
        for match in _NAME.finditer(self._text):
            name = next(group for group in match.groups() if group).removesuffix("()").strip()
            parts = [name] if name in self.files or "." not in name else name.split(".")
            for part in parts:
                if part and part.lower() not in PLAIN_WORDS and not part.startswith("__"):
                    found.setdefault(part)
        return list(found)[:MOST_NAMES]

    @cached_property
    def keywords(self) -> dict[str, str]:
        """Its telling plain words by their stems, in their order."""
        found: dict[str, str] = {}
        for word in re.findall(r"[A-Za-z]{4,}", self._text):
            stem = re.sub(r"(?:ing|ers?|ed|es|s)$", "", word.lower())
            if word.lower() not in PLAIN_WORDS and len(stem) > 2:
                found.setdefault(stem, word)
        alone = [a for a in found if not any(b in a for b in found if b != a)]
        return {stem: found[stem] for stem in alone[:MOST_NAMES]}

    @cached_property
    def stems(self) -> list[str]:
        return list(self.keywords)

    @cached_property
    def identifiers(self) -> list[str]:
        """The names that can only be names of the code: `snake_case`, `camelCase`, quoted."""
        return [name for name in self.names if re.fullmatch(r"\w*(?:_|[a-z][A-Z])\w*", name)]

    @cached_property
    def world(self) -> list[str]:
        """Its words for people, dates and events, which the code itself has to mention."""
        words = re.findall(
            r"[a-z]+", re.sub(r"[`'\"][^`'\"]*[`'\"]|\w*_\w*", "", self._text).lower()
        )
        return list(dict.fromkeys(word for word in words if word in WORLD_WORDS))

    @cached_property
    def intent(self) -> Intent | None:
        """What is asked of the names; None where that is none of these, or not clear."""
        if not self.names:
            return None
        if self._before(_HEIR_OF):
            return Intent.HEIRS
        if _BASE.search(self._text):
            return Intent.BASES
        asks = _ASKS_WHO.search(self._text) and not _SUPPOSES.search(self._text)
        if asks and (self._before(_USE_OF) or self._after(_USED)):
            return Intent.USES
        if _DEFINED.search(self._text) and not _MORE.search(self._text) and not self.counted:
            return Intent.PLACE
        return None

    @cached_property
    def counted(self) -> str | None:
        """What is to be counted, a key of `_COUNTED`; None when nothing of the code is."""
        if _HOW_OFTEN.search(self._text):
            return "places"
        asked = _HOW_MANY.search(self._text)
        if asked is None:
            return None
        found = {
            kind: match.start()
            for kind, words in _COUNTED.items()
            if (match := re.search(rf"\b(?:{words})\b", asked[1], re.IGNORECASE))
        }
        return min(found, key=lambda kind: found[kind], default=None)

    @cached_property
    def compound(self) -> bool:
        """Whether it asks for more than one thing, so that one fact is not the answer."""
        return _COMPOUND.search(self._text) is not None

    @cached_property
    def asks_for_default(self) -> bool:
        """Whether it asks for what holds if nobody says otherwise."""
        return _DEFAULT.search(self._text) is not None

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(re.findall(r"\w+", self._text))

    @cached_property
    def whether(self) -> bool:
        """Whether it asks if there is something."""
        return _WHETHER.match(self._text) is not None

    def _before(self, words: str) -> bool:
        either = "|".join(map(re.escape, self.names))
        pattern = rf"\b(?:{words})\s+(?:the\s+)?(?:\w+\s+)?[`'\"]?(?:\w+\.)?(?:{either})\b"
        return re.search(pattern, self._text, re.IGNORECASE) is not None

    def _after(self, words: str) -> bool:
        either = "|".join(map(re.escape, self.names))
        pattern = rf"\b(?:{either})(?:\(\))?[`'\"]?\s+{words}"
        return re.search(pattern, self._text, re.IGNORECASE) is not None
