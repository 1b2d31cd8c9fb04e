"""A passage: lines of one source that belong together."""

from pydantic import BaseModel


class Passage(BaseModel, frozen=True):
    source: str
    """The file's path; for other results the tool, with what it was asked."""
    first: int
    """The number of its first line, from 1."""
    last: int
    text: str
    heading: str = ""
    """The lines that the unit stands in, such as its class, from the outermost on."""
    upstream: str = ""
    relation: str = ""
    """What it is to a name: `defines NAME`, `caller uses NAME`, `mentions NAME`."""
    inside: str = ""
    """What code has found out about it: `2 functions in it: load, cross`, `used by load`."""

    @classmethod
    def made(cls, source: str, text: str, relation: str) -> "Passage":
        """One that is not lines of a file, but a text that was made of what a tool returned."""
        last = text.count("\n") + 1
        return cls(source=source, first=1, last=last, text=text, relation=relation)

    @property
    def told(self) -> str:
        """Its text, and what code has found out about it."""
        return "\n".join(filter(None, [self.text, self.inside]))

    @property
    def place(self) -> str:
        """`path:12`, or `path:12-30`."""
        lines = f"{self.first}-{self.last}" if self.last > self.first else f"{self.first}"
        return f"{self.source}:{lines}"

    def within(self, other: "Passage") -> bool:
        """Whether the other has all of its lines."""
        same = self.source == other.source
        return same and other.first <= self.first and self.last <= other.last
