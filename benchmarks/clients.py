"""The table of docs/clients.md, made of what the tests of clients saw.

    python -m benchmarks.clients

The tests in `tests/server/clients` note what each client did in `tests/outside/clients/observed`;
`pytest -m outside tests/server/clients --inline-snapshot=fix` notes it again. This writes the
table into the page. `tests/server/clients/test_table.py` fails while the page says something else.
"""

import json
from dataclasses import dataclass, fields

from benchmarks import ROOT

OBSERVED = ROOT / "tests" / "outside" / "clients" / "observed"
PAGE = ROOT / "docs" / "clients.md"
BEGIN, END = "<!-- python -m benchmarks.clients -->\n\n", "<!-- end -->"

HEADS = {
    "client": "client",
    "transport": "over",
    "protocol": "protocol",
    "tools": "lists the tools",
    "report": "the report",
    "progress": "progress",
    "approval": "approval",
    "cancel": "cancel",
    "long_call": "a long call",
}


@dataclass(frozen=True)
class Row:
    """What a client did with Planloom; every text stands in the table as it is."""

    client: str
    """With its version."""
    transport: str
    protocol: str
    tools: str
    report: str
    progress: str
    approval: str
    cancel: str
    long_call: str


def rows() -> list[Row]:
    """What was noted, in the order of the clients' names."""
    noted = [Row(**json.loads(file.read_text("utf-8"))) for file in OBSERVED.glob("*.json")]
    return sorted(noted, key=lambda row: (row.client.casefold(), row.transport))


def table() -> str:
    names = [field.name for field in fields(Row)]
    lines = [[HEADS[name] for name in names], ["---"] * len(names)]
    lines += [[getattr(row, name) for name in names] for row in rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page() -> str:
    """The page with the table as it has to be."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
