"""Entries of lists, counted by code in several languages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.evidence.counting import entries
from planner.evidence.passages import of_file
from planner.evidence.words import words

FILES = {
    "colours.py": (
        'COLOURS = ("red, dark", "green")\nOTHER = (1, 2)\n',
        ["COLOURS has 2 entries"],
    ),
    "typed.py": (
        'COLOURS: dict[str, int] = {\n    "red": 1,  # one, two\n    "green": (2, 3),\n}\n',
        ["COLOURS has 2 entries"],
    ),
    "colours.ts": (
        'export const colours: string[] = ["red", `a,b`,\n "blue"];\n'
        "export enum Colour { Red,\n Green = 3 }\n",
        ["colours has 3 entries"],
    ),
    "names.ts": ("export enum Colour {\n  Red,\n  Green = 3,\n}\n", ["Colour has 2 entries"]),
    "colours.rs": (
        'pub const COLOURS: &[&str] = &["a", "b", "c"];\n'
        "pub enum Colour {\n    Red,\n    /// Two, in fact.\n    Green(u8, u8),\n"
        "    Blue { a: u8, b: u8 },\n}\n",
        ["COLOURS has 3 entries", "Colour has 3 entries"],
    ),
    "colours.go": (
        'var colours = []string{"red", "green"}\n\nfunc colour(a int, b int) {\n\ta, b := f()\n}\n',
        ["colours has 2 entries"],
    ),
    "colours.c": (
        'static const char *colours[] = {"a", "b"};\n'
        "int colour(int a, int b) {\n    int c = a, d = b;\n    return c;\n}\n",
        ["colours has 2 entries"],
    ),
    "begin.py": (
        "import os\n\nCOLOUR_RED = 1\nCOLOUR_BLUE = 2\nSIZE_MIN = 3\nCOLOUR_GREEN = 4\n",
        ["3 names begin with COLOUR_"],
    ),
    "begin.h": (
        "#define COLOUR_RED 1 /* as fire */\n#define COLOUR_BLUE 2\n#define COLOUR_GREEN 4\n",
        ["3 names begin with COLOUR_"],
    ),
    "made.py": (
        "COLOURS = [*BASE, 'x', 'y']\nCOLOUR_MAP = {k: v for k, v in x}\n"
        "COLOURS_ALL = ['a', 'b'] + COLOURS\n",
        [],
    ),
    "format.ts": ("const formatColours = (colours, size) => colours;\n", []),
    "lists.md": ("Colours\n\n- red\n- blue\n\nShapes\n\n- round\n", []),
    "two.py": ("COLOUR_RED = 1\nCOLOUR_BLUE = 2\n", []),
    "cut.py": ("COLOURS = [\n    1,\n    2,\n", []),
    "colours.yaml": ("colours:\n  - red\n  - green\n", ['"colours:" has 2 entries']),
    "README.md": (
        "## Colours\n\n1. red\n   - dark\n   - light\n2. green\n",
        ['"## Colours" has 2 entries'],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_the_entries_of_a_list_are_counted(name: str) -> None:
    text, told = FILES[name]
    passages = of_file(name, text)
    asked = {*words("How many colours are there?")}
    assert [each for one in passages for each in entries(one, passages, asked)] == told


def test_a_list_that_goes_on_in_the_next_passage_is_not_counted() -> None:
    items = "\n".join(f"- colour {number}, and what is to be said of it" for number in range(90))
    passages = of_file("README.md", f"## Colours\n\n{items}\n")
    assert len(passages) > 1
    asked = {*words("How many colours are there?")}
    assert [each for one in passages for each in entries(one, passages, asked)] == []


def test_names_that_go_on_in_the_next_passage_are_not_counted() -> None:
    names = "\n".join(
        f"COLOUR_{number} = 'a colour, and what it is: {number}'" for number in range(90)
    )
    passages = of_file("colours.py", names)
    assert len(passages) > 1
    asked = {*words("How many colours are there?")}
    assert [each for one in passages for each in entries(one, passages, asked)] == []


ENTRIES = ["1", '"a, b"', "f(1, 2)", "[1, [2, 3]]", "'}'"]


@given(st.lists(st.sampled_from(ENTRIES), min_size=2, max_size=15), st.sampled_from(["", ",\n"]))
def test_entries_may_hold_anything(listed: list[str], end: str) -> None:
    passages = of_file("a.js", f"const colours = [{', '.join(listed)}{end}]\n")
    told = entries(passages[0], passages, {*words("colours")})
    assert told == [f"colours has {len(listed)} entries"]
