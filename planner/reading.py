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


PERSON_WORDS = ("author", "maintainer", "copyright", "written by", "created by")


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
    r"`([^`\s]{2,80})`|\"([^\"\s]{2,80})\"|(?<!\w)'([^'\s]{2,80})'(?!\w)"  # a quoted word
    rf"|(?<![\w/.])([\w./-]*\w\.(?:{_EXTENSIONS}))\b"  # a file
    r"|(?<![\w-])(--[a-z][\w-]+)"  # an option of a command
    r"|\b([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\(\)"  # called()
    r"|\b([A-Za-z_]\w+(?:\.[A-Za-z_]\w+)+)\b"  # dotted
    r"|\b((?:[A-Za-z]\w*)?_\w+)\b"  # snake_case
    r"|\b([a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|[A-Z]{2,}[a-z]\w*)\b"  # camelCase
)
"""What can only be a name of the code."""
_PERHAPS = re.compile(
    r"`([^`\n]{2,80})`|\"([^\"\n]{2,80})\"|(?<!\w)'([^'\n]{2,80})'(?!\w)"  # a quotation
    r"|\b(?:function|method|class|constant|variable|parameter|field|module|option|called|named)"
    r"\s+([A-Za-z_]\w+)"
    r"|\b([A-Za-z]\w+)\s+(?:function|method|class|constant|enum|dataclass|decorator)\b"
    r"|\b([A-Z][A-Z0-9]{2,})\b"
    r"|(?<=[a-z,] )([A-Z][a-z]{2,})\b"  # a capital within a sentence
    r"|^(?:[Ww]ho|[Ww]hat) (?:calls|uses) ([a-z]\w+)\b|^[Ww]here(?:'s| is) ([a-z]\w+)\b"
)
"""What may be one, or just a word: it is where the project defines it."""
_FILE = re.compile(rf"[\w./-]*\w\.(?:{_EXTENSIONS})|(?:README|CHANGELOG|Makefile|Dockerfile)")
_USE_OF = (
    r"(?:calls?|calling|invokes?|invoking|uses?|using|references?|instantiates?|creates?|imports?|"
    r"constructs?|triggers?|emits?|raises?|fires?|publishes|(?:relies|rely|depends?) on|"
    r"(?:use|usages?|callers?|users?|call sites?) (?:of|for)|(?:calls?|references?) to)"
)
_USED = (
    r"(?:is|are|was|gets?|being|be)?\s*(?:\w+ly\s+)?(?:called|used|invoked|referenced|created|"
    r"instantiated|constructed|triggered|imported|emitted|raised|fired|published)\b"
)
_ASKS_WHO = re.compile(
    r"\b(?:who|what|which|where|name|list|find|show|how (?:many|often)|number|count|anything|"
    r"anyone|anywhere|callers?)\b",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(
    r"\b(?:if|when|once)\s+(?:I|we|you|one|some\w+|nobody)\b"
    r"|(?<!do )(?<!does )\b(?:I|we|you)\s+(?:can\s+|just\s+)?"
    r"(?:call|use|create|invoke|construct)\b",
    re.IGNORECASE,
)
_HEIR_OF = (
    r"(?:inherits?|inheriting|derives?|derived|deriving)\s+(?:\W*\w+ly\W*\s)?from|extends?|extending|"
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
    r"\s*(?:[?,.;:]|$)"
    r"|(?<!many )(?<!command )\bline\b(?! of code)|\bwhat (?:file|module) is\b",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"\b(?:inherits?|bases?|parents?|uses?|values?|defaults?|calls?|returns?|raises?)\b",
    re.IGNORECASE,
)
_COUNTED = {
    "methods": r"methods?|functions?|member functions?",
    "classes": r"classes(?= |$|\?)",
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
    r"(?:\bhow many\b|\bnumber of\b|\bcount of\b|(?:^|[.?!,]\s*|please )count (?:the |all )*)"
    r"\s*(.{0,60})",
    re.IGNORECASE,
)
_HOW_OFTEN = re.compile(r"\bhow often\b", re.IGNORECASE)
_WHETHER = re.compile(
    r"^\W*(?:(?:please|hi|hello|so|and)\W+)?(?:(?:can|could|would) you )?"
    r"(?:(?:tell me|check|see|know)\b )?(?:if |whether )?"
    r"(?:is|are|was|were|does|do|did|has|have|can|could|will|any|there (?:is|are))\b"
    r"(?! (?:you|me|idea|chance)\b)",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"\bwho(?:m|se)?\b[^?.]*\b(?:came up|invent\w*|design\w*|buil[dt]\w*|made|makes|add(?:ed|s)|"
    r"propos\w*|introduc\w*|chose|thought|owns?|request\w*|asked|wants?|signed|in charge|"
    r"responsible|contact\w*)\b",
    re.IGNORECASE,
)
_COMPOUND = re.compile(
    r"\band\s+(?:also\s+)?(?:how|who|why|whom|where|(?:what|which)\b(?! (?:file|line|module|path)))"
    r"|\?.+\?|\bexplain\b|\bwhy\b|\bdescribe\b|\bsummar",
    re.IGNORECASE | re.DOTALL,
)
_FILE_OF = re.compile(
    r"\b(?:which|what|the|name of the)\s+(?:\w+\s+){0,2}(?:files?|modules?|scripts?)\b"
    r"|^\W*where\b|\bwhere(?:abouts)? (?:in|is|are|do|does)\b",
    re.IGNORECASE,
)
_PROJECT = re.compile(
    r"\b(?:this|the|our|my) (?:\w+ )?"
    r"(?:project|code(?: ?base)?|repo(?:sitory)?|package|library|app)\b|\bhere\b|\bdo we\b",
    re.IGNORECASE,
)
_DEFAULT = re.compile(
    r"\bdefaults?\b|\bwithout\b|\bomit\w*|\b(?:leav\w+|left) (?:\w+ )?(?:out|off|away)\b|\bunless\b"
    r"|\bexplicit\w*\b|\b(?:with|gets?) (?:just|only|nothing)\b"
    r"|(?:\b(?:not|none|nobody|nothing|never|no one)\b|n't\b).*"
    r"\b(?:give\w*|pass\w*|set|specif\w+|sa(?:y|ys|id)|provide\w*|suppl\w+|told|mention\w*)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Reading:
    """What a request's words tell. `request` is its text."""

    request: str
    defined: frozenset[str] | None = None
    """The names that the project defines, once it has been searched for those of the request."""
    _text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_text", self.request[:LONGEST_REQUEST])

    @cached_property
    def files(self) -> list[str]:
        """The files it names, as it names them."""
        return list(dict.fromkeys(_FILE.findall(self._text)))

    @cached_property
    def certain(self) -> frozenset[str]:
        """The names that can only be names of the code."""
        return frozenset(self._named(_NAME))

    @cached_property
    def names(self) -> list[str]:
        """What it names of the code, in its order, without files: identifiers, quotations, options;
        and what may be just words, if the project is not known to define nothing of that name."""
        found = self._named(_NAME) | {
            name: place
            for name, place in self._named(_PERHAPS).items()
            if self.defined is None or name in self.defined
        }
        return sorted(found, key=lambda name: found[name])[:MOST_NAMES]

    def _named(self, pattern: re.Pattern[str]) -> dict[str, int]:
        """What a pattern finds, each with its place. Of a dotted name of a class or a constant,
        each part."""
        found: dict[str, int] = {}
        for match in pattern.finditer(self._text):
            name = next(group for group in match.groups() if group).removesuffix("()").strip()
            parts = name.split(".") if re.match(r"[A-Z_]\w*\.\w|\w+\.\w*_", name) else [name]
            for part in parts:
                plain = pattern is _PERHAPS and part.lower() in PLAIN_WORDS
                if part and not (plain or part.startswith("__") or part in self.files):
                    found.setdefault(part, match.start())
        return found

    @cached_property
    def keywords(self) -> dict[str, str]:
        """Its telling plain words by their stems, in their order."""
        found: dict[str, str] = {}
        for word in re.findall(r"[A-Za-z]{4,}|\b[A-Z][A-Z0-9]{2,}\b", self._text):
            stem = re.sub(r"(?:ing|ers?|ed|es|s)$", "", word.lower())
            if word.lower() not in PLAIN_WORDS and len(stem) > 2:
                found.setdefault(stem, word)
        alone = [a for a in found if not any(b in a for b in found if b != a)]
        return {stem: found[stem] for stem in alone[:MOST_NAMES]}

    @cached_property
    def stems(self) -> list[str]:
        return list(self.keywords)

    @cached_property
    def world(self) -> list[str]:
        """Its words for people, dates and events, which the code itself has to mention; for a
        person, words that stand beside people's names."""
        plain = re.sub(r"[`'\"][^`'\"]*[`'\"]|\w*_\w*", "", self._text)
        words = re.findall(r"[a-z]+", plain.lower())
        found = [word for word in words if word in WORLD_WORDS]
        if _PERSON.search(plain) and self.intent is None:
            found += PERSON_WORDS
        return list(dict.fromkeys(found))

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
    def asks_for_file(self) -> bool:
        """Whether it asks which file something is in that it only describes."""
        return not self.names and not self.files and _FILE_OF.search(self._text) is not None

    @cached_property
    def about_project(self) -> bool:
        """Whether it says that it is about the project."""
        return _PROJECT.search(self._text) is not None

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
        if re.search(rf"(?<!\w)(?:{either})\S*\s+(?:{words})\s", self._text):
            return False  # one of the names does it
        pattern = rf"\b(?:{words})\s+(?:the\s+)?(?:\w+\s+)?[`'\"]?(?:\w+\.)?(?:{either})(?!\w)"
        return re.search(pattern, self._text, re.IGNORECASE) is not None

    def _after(self, words: str) -> bool:
        either = "|".join(map(re.escape, self.names))
        pattern = rf"(?<!\w)(?:{either})(?:\(\))?[`'\"]?\s+{words}"
        return re.search(pattern, self._text, re.IGNORECASE) is not None
