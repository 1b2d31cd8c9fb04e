"""Which files have what a request changes, and which of the edits that a model wrote fit it."""

from collections.abc import Mapping, Sequence

from planner.evidence.definitions import defined_name, indentation
from planner.evidence.file_text import split_lines
from planner.evidence.rewriting import Edit
from planner.evidence.words import named, only_in, quoted, tokens, words


def places(texts: Mapping[str, str], request: str, absent: set[str]) -> list[str]:
    """The files that have what a request quotes, or a name beside one that is `absent` so far: it
    gets the new name, or something with it. A small model goes by the names of files."""
    new = absent & named(request)
    known = named(request) - new if new else set[str]()
    quotes = quoted(request)
    return [
        path
        for path, text in texts.items()
        if known & {*tokens(text)} or any(each in text for each in quotes)
    ]


def likeliest(found: Sequence[Edit], texts: Mapping[str, str], query: str) -> list[str]:
    """The files whose edits fit a query best. Their edits bring most words of it that no text had;
    of these files, the replaced lines, or else the texts, have most of its words."""
    asked = {*words(query)}
    held = {path: asked & {*words(text)} for path, text in texts.items()}
    new = asked.difference(*held.values())

    def score(edit: Edit) -> tuple[int, int, int]:
        lost, added = ({*words("\n".join(some))} for some in (edit.lost, edit.added))
        brought = len(new & added)
        return brought, len(asked & lost), 0 if brought else len(held[edit.path])

    scored = [(score(each), each.path) for each in found]
    best = max(scored, default=(None, ""))[0]
    return list(dict.fromkeys(path for reached, path in scored if reached == best))


def defines_again(text: str, edit: Edit, asked: set[str]) -> bool:
    """Whether an edit adds the line of an outermost definition that the file has, and keeps, of a
    name that is asked about: a small model writes the class around a method once more."""
    there = {line for line in split_lines(text) if line and not indentation(line)} - {*edit.lost}
    new = ((defined_name(line), line.strip()) for line in edit.added)
    # A key of YAML may well stand on its own at two levels.
    return any(name in asked and line in there and line != f"{name}:" for name, line in new)


def takes_over(edit: Edit, names: Mapping[str, str]) -> bool:
    """Whether an edit puts a new name in the place of something else than what gets it."""
    for lost, added in edit.hunks:
        before, after = tokens("\n".join(lost)), tokens("\n".join(added))
        for old, new in names.items():
            if lost and after.count(new) > before.count(new) + before.count(old):
                return True
    return False


def fitting(found: Sequence[Edit], query: str) -> list[Edit]:
    """The edits that have a word of the query, or a name that another one of these brings: a model
    that has nothing to change changes something else."""
    kept = [each for each in found if {*words(_told(each))} & {*words(query)}]
    brought = {each: only_in(each.new, each.old) for each in found}
    while more := [
        each
        for each in found
        if each not in kept and any(brought[each] & brought[other] for other in kept)
    ]:
        kept += more
    return [each for each in found if each in kept]


def _told(edit: Edit) -> str:
    return "\n".join([edit.old, edit.new] if edit.added else edit.lost)
