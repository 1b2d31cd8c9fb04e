"""What lines define, in most languages, and what they are to names: by how a line looks, since no
language server knows every language, nor half of a file.
"""

import re
from functools import lru_cache

from planner.evidence.passages import around
from planner.evidence.words import TOKEN, is_name, tokens
from planner.passage import Passage

MAX_BEFORE_NAME = 4
"""Words of a line up to a name that it defines: `export const NAME`, `def name`."""
MAX_KEYS = 200
"""Lines of a passage in which keys within keys are looked for."""
_ASIDE = re.compile(
    r"(?<=\bpub)\([^()]*\)|(?<=\bfunc) \([^()]*\)(?= \w)|(?<=\bdef )self\."
    r"|(?i:(?<=\bcreate )or replace |\bif not exists )"
    r"|(?i:(?<=\bfun )|(?<=\bfunction )|(?<=\bprocedure )|(?<=\btable )|(?<=\bview )"
    r"|(?<=\bdefmodule ))(?:<[^()=]{0,80}> )?(?:[@:]?\w+(?:<[^()=]{0,80}>)?[?@]?[.:])+(?=\w)"
    r"|(?<=\btemplate)<[^()=;{}]{0,80}>(?= \w)|(?<=\w )<[^()=;{}]{0,80}> (?=\w)"
    r"|\busing (?=\w+ = )|\bcase (?=(?:class|object) )"
)
"""What stands before a name that is defined and says nothing of it: a scope, a receiver, a
condition in SQL, what a name stands within (`function M.name(`), words that begin statements
elsewhere (`using Name = `, `case class`)."""
_MARK = re.compile(r"(\bdefp? \w+)[?!](?!\w)|(?<=\w)[?!](?=:\s)")
"""What a name in Ruby may end with, or that of a member in TypeScript."""
_KEY = re.compile(r"^(\s*[{,]?\s*)([\"'])([\w.-]+)\2\s*(?::|=>)")
"""A key in quotation marks: `"name": 1` in JSON, `'name' => 1` in PHP."""
_SIGIL = re.compile(r"\$(?=\w+\s*=(?![=>~]))")
"""What PHP, Perl and PowerShell put before the name of a variable."""
_ACCESSORS = re.compile(r"\{\s*(?:\w+ )?(?:get|set)\b.*")
_OF_TYPES = re.compile(
    r"(?<=\w)(?:\s?<[^()=;{}]{0,80}>|(?:\[[^()=;{}\[\]]{0,80}\])+)"
    r"(?=(?:[\s*&?]+|::)(?:\w+::)*\w+\s*[(=;{<])"
)
"""What a type is made of, before a name that is defined: `List<User> all(`, `String[] names =`."""
_BASES = re.compile(
    r"^(\s*(?:\w+ )+?\w+) (?:(?:extends|implements)\b[^{]*|(?:@?\w+ )?constructor(?=\()|func(?=\())"
)
"""What a class is made of, behind its name: its body may open on the next line."""
_TAG = re.compile(r"\s*(?::\w+ [^:]+:|(?:[*#]+|//+|--)\s*[@\\]\w+)")
"""How a line of documentation tells of a parameter: `:param name:`, `* @param name`."""
_REMARK = re.compile(r"\s*(?:(?:\*|--+)(?:\s|$)|- (?![\w.\"'-]+\s*(?::|=>?)))")
"""How prose begins: a further line of a comment, a comment, an entry of a list that is no key."""
_DO = re.compile(r"(?<=[\w\]?!])\s+do$")
"""What opens a body in Ruby and Elixir, as `{` does elsewhere."""
_SIGNED = re.compile(r"\s*(?:[{,] *|@\w+ )?([a-z_][\w']*)(?:,[\w', ]+)?\s+::\s+(?=[A-Z([]|.*->)")
"""A name and its type, as in Haskell."""
_KINDS = r"(?:class|struct|enum|union|interface|namespace|object|trait)\b"
_KIND = re.compile(rf"\s*(?:\w+ )*?{_KINDS} (?!{_KINDS})([^\W\d]\w*)(?=[<&]|\s*[:{{]|\s+final\b)")
"""What has a body, and its name: `enum class level {`, `class buffer final : public base {`."""
CLASS = re.compile(rf"\s*(?:\w+(?:\(\w+\))? )*?{_KINDS}")
"""How a line begins that defines one of these."""
_BODY = re.compile(r"\s\{(?!\{)")
_ASSIGNED = re.compile(r"\s*=(?![=>])")
_METHOD = re.compile(r"\((?:[^()]|\([^()]*\))*\)(?:\s*:\s.*|(?:(?!->)[^()=])*)\{$")
"""Parameters and the beginning of a body, behind the name of a method."""
_OUTSET = re.compile(r"[\s*]*(?:\w+::)*")
"""What stands before the name of a method that no word stands before."""
_MACRO = re.compile(r"\s*#\s*define\s+(\w+)|\s*[a-z][\w.]* :(\w+)(?=,|$| do$)")
"""What a macro defines, in C or, by its first argument, in Ruby and Elixir (`field :name, `)."""
_EXPRESSION = re.compile(r"[^\w\s.:<>\[\],?*&'@-]|(?:\s|^)\?\s")
"""Only words and types come before a name that is defined, and not these characters."""
_STATEMENTS = {
    *("return", "await", "yield", "throw", "raise", "assert", "goto", "new", "delete", "del"),
    *("if", "else", "elif", "elsif", "elseif", "unless", "case", "switch", "match", "when", "is"),
    *("while", "until", "for", "foreach", "in", "and", "or", "not", "with", "try", "except"),
    *("catch", "rescue", "guard", "defer", "go", "lambda", "print", "echo", "puts"),
    *("import", "from", "use", "using", "include", "require", "package"),
    *("SELECT", "FROM", "WHERE", "AND", "OR", "IN", "ON", "BY", "INTO", "VALUES", "SET"),
}
"""Words of programming languages that never come before a name that is defined."""


def defined(passage: Passage) -> dict[str, int]:
    """The names that a passage's outermost lines define, and the keys within keys, as in YAML; with
    how many words stand before each."""
    lines, depth = _written(passage)
    found: dict[str, int] = {}
    for line in lines:
        name = defined_in(line)
        outermost = indentation(line) == depth
        few = len(lines) <= MAX_KEYS
        if name and (outermost or (few and name[1] == 0 and _is_key(passage, line))):
            found.setdefault(*name)
    return found


def outermost(passage: Passage) -> list[str]:
    """The lines of a passage that stand in no other one of it."""
    lines, depth = _written(passage)
    return [line for line in lines if indentation(line) == depth]


def _written(passage: Passage) -> tuple[list[str], int]:
    """The lines that are not blank, and their least indentation."""
    lines = [line for line in passage.text.splitlines() if line.strip()]
    return lines, min(map(indentation, lines), default=0)


def _is_key(passage: Passage, line: str) -> bool:
    """Whether a line stands within keys alone: a field of a class says little by itself."""
    inside = filter(None, map(defined_in, _within(passage, line)))
    return not is_local(passage, line) and all(position == 0 for _, position in inside)


def indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def heads(passage: Passage) -> set[str]:
    """The names of what a passage stands within."""
    return {*filter(None, map(defined_name, passage.heading.splitlines()))}


def is_local(passage: Passage, line: str) -> bool:
    """Whether a line of a passage stands within a function, as far as can be seen: within what has
    parameters, and is no class with its bases. An indented line of which nothing is known is taken
    for local."""
    inside = _within(passage, line)
    if not inside:
        return line[:1].isspace()
    return any("(" in each and not re.match(r"\s*(?:\w+ )*class\b", each) for each in inside)


def _within(passage: Passage, line: str | int) -> list[str]:
    """What a line of a passage, or its number from 0, stands within, from the outermost on."""
    lines = passage.text.splitlines()
    number = lines.index(line) if isinstance(line, str) else line
    return [*passage.heading.splitlines(), *around(lines, number)]


def defined_name(line: str) -> str | None:
    found = defined_in(line)
    return found[0] if found else None


def function_in(line: str) -> str | None:
    """The function that a line defines: a name with its parameters, and no class."""
    name = defined_name(line)
    called = name and re.search(rf"\b{re.escape(name)}\s*\(", line)
    return name if called and not CLASS.match(line) else None


@lru_cache(maxsize=100_000)
def defined_in(line: str) -> tuple[str, int] | None:
    """The name that a line defines, in most languages, and how many words stand before it:
    `def name(`, `export const NAME =`, `int *name(int x) {`, `name: type`, `self.name =`."""
    if _TAG.match(line) or _REMARK.match(line):
        return None
    if signed := _SIGNED.match(line):
        return signed[1], 0
    line = _bare(line)
    if (macro := _MACRO.match(line)) and line.split()[0] not in _STATEMENTS:
        return macro[1] or macro[2], 1
    opens = line.endswith("{")
    opens = opens or (line.rstrip(";,").endswith("}") and _BODY.search(line) is not None)
    opens = opens and line.count("(") >= line.count(")")  # no end of a list of parameters
    if opens and (kind := _KIND.match(line)):
        return kind[1], len(TOKEN.findall(line[: kind.start(1)]))
    opening: list[tuple[str, int]] = []
    for position, token in enumerate(TOKEN.finditer(line)):
        name, before, after = token.group(), line[: token.start()], line[token.end() :]
        behind = re.search(r"\w[*&\s]", before) is not None and not before.endswith(".")
        if position > MAX_BEFORE_NAME or _EXPRESSION.search(before):
            break
        if name[0].isdigit():
            continue
        if name in _STATEMENTS and not (_ASSIGNED.match(after) or (behind and after[:1] == "(")):
            break
        if _is_defined(before, after.lstrip(), behind) and (after.strip() or _ends(before, name)):
            return name, position
        if opens and behind and not (after.startswith("&") or re.fullmatch(_KINDS, name)):
            opening.append((name, position))
    return next((each for each in opening if not each[0].islower()), next(iter(opening), None))


def _ends(before: str, name: str) -> bool:
    """Whether a line may end with a name that it defines. Prose ends with any word, and a field in
    columns, with a pointer, or behind what is spelled as a name ends with its type."""
    first, *more = before.split()
    one_blank = re.search(r"\S[ \t]\Z", before) is not None
    if is_name(first) or not one_blank or any(each[0].isdigit() for each in (first, *more)):
        return False
    shouted = all(each.isupper() for each in (first, *more))
    return shouted or not name[0].islower() or (first[0].islower() and not more)


def _bare(line: str) -> str:
    """A line without what may stand around a name, and with `&` for what a type is made of."""
    line = _KEY.sub(r"\1\3:", _DO.sub(" {", line.rstrip()))
    line = _SIGIL.sub("", _MARK.sub(r"\1", _ASIDE.sub("", line)))
    line = _BASES.sub(r"\1 ", line)
    return _OF_TYPES.sub("&", _ACCESSORS.sub(";", line))


def _is_defined(before: str, after: str, behind: bool) -> bool:
    """Whether a line defines the name between these parts; `behind`: a word stands before it. A
    sentence of prose ends with a colon, too: `From a URL:`."""
    part = before.endswith((".", ":", ">"))
    called = after.startswith("(")
    return bool(
        _ASSIGNED.match(after)
        or after.startswith(":=")
        or (behind and " " in before.strip() and after.startswith("=>"))
        or (re.match(r":(?!:)", after) and not (part or before.lstrip()[:1].isupper()))
        or (called and (behind or (_OUTSET.fullmatch(before) and _METHOD.match(after))))
        or (re.match(r"[<\[;]|$" if "," not in before else r";|$", after) and behind and not part)
    )


def defining_line(passage: Passage, name: str) -> Passage:
    lines = passage.text.splitlines()
    defining = (number for number, line in enumerate(lines) if defined_name(line) == name)
    return _line(passage, next(defining, 0), {name})


def lines_with(passage: Passage, names: set[str]) -> list[Passage]:
    """The lines of a passage that have one of the names, with what each is to them."""
    lines = passage.text.splitlines() if any(name in passage.text for name in names) else []
    found = [number for number, line in enumerate(lines) if names & {*tokens(line)}]
    return [_line(passage, number, names) for number in found]


def related(passage: Passage, names: set[str]) -> Passage:
    """The passage with what it is to these names, and what in it uses them."""
    own = names & defined(passage).keys()
    used = (names & set(tokens(passage.text))) - own
    told = [f"defines {name}" for name in sorted(own)]
    for name in sorted(used):
        lines = enumerate(passage.text.splitlines())
        where = user(passage, next(number for number, line in lines if name in tokens(line)))
        told.append(f"{where} uses {name}" if where else f"mentions {name}")
    return passage.model_copy(update={"relation": ", ".join(told)}) if told else passage


def user(passage: Passage, number: int) -> str | None:
    """The innermost definition in which one of a passage's lines stands, counted from 0."""
    return next(filter(None, map(defined_name, reversed(_within(passage, number)))), None)


def _line(passage: Passage, number: int, names: set[str]) -> Passage:
    """One of a passage's lines, counted from 0, with what it is to these names."""
    at, text = passage.first + number, passage.text.splitlines()[number]
    heading = "\n".join(_within(passage, number)[:2])
    line = {"first": at, "last": at, "text": text, "heading": heading}
    return related(passage.model_copy(update=line), names)
