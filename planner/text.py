"""Texts on one line, cut, and counted."""


def flat(text: str) -> str:
    """The text on one line, with single blanks."""
    return " ".join(text.split())


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and a mark: `most` characters in all."""
    return text if len(text) <= most else text[: most - 1] + "…"


def counted(count: int, noun: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
