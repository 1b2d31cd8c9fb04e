"""How files are divided into passages."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.evidence.file_text import MAX_LINE, MAX_PROSE, MAX_WORD, file_text
from planner.evidence.passages import (
    MAX_NESTED,
    MAX_UNIT,
    _chunks,
    around,
    of_file,
)
from planner.passage import Passage

BODY = "\n".join(f"        value_{number} = compute({number})" for number in range(9))
PYTHON = f'''"""A module of two classes."""

import os

LIMIT = 41


# What leads to a class stands with it.
@register
class First(Base):
    """The first one."""

    def begin(self) -> int:
{BODY}
        return LIMIT

    @property
    def end(self) -> int:
{BODY}
        return 7


class Second:
    pass
'''
C_BODY = "\n".join(f"    step({number}, width, LEFT_SIDE);" for number in range(25))
C_LIKE = f"""#include <stdio.h>

/* What the gate does. */
int open_gate(int width)
{{
{C_BODY}
    return width;
}}

static const int WIDTH = 31;
"""
JAVA_BODY = "\n".join(f"        this.step({number}, by);" for number in range(20))
JAVA = f"""package doors;

public class Gate extends Door {{
    private int width = 3;

    public int open(int by) {{
{JAVA_BODY}
        return width;
    }}

    public void close() {{
        width = 0;
        // {"What is said of it. " * 12}
    }}
}}
"""
MARKDOWN = f"""# Guide

{"An introduction of some length. " * 12}

## Setting up

{"Run the command, then wait. " * 12}

```sh
# no heading

planloom ask
```

### On Windows

It is the same.

## Ending

Stop it.
"""


def holding(passages: list[Passage], text: str) -> Passage:
    (found,) = [each for each in passages if text in each.text]
    return found


def test_a_paragraph_in_one_line_is_not_cut() -> None:
    paragraph = f"{'It is said that gates open. ' * 16}The limit is 77."
    assert holding(of_file("guide.md", paragraph), "The limit is 77.").text == paragraph
    (minified,) = of_file("app.min.js", "a" * 900)
    assert len(minified.text) == MAX_LINE


def test_the_rows_of_a_long_table_keep_its_section_and_its_names() -> None:
    names = "| name | default | most | what |"
    rows = [f"| limit_{n} | {n} | {n * 100} | some words on it |" for n in range(40)]
    text = "\n".join(["# Settings", "", "## Limits", "", names, "|---|---|---|---|", *rows])
    last = holding(of_file("docs.md", text), "| limit_39 |")
    assert last.heading.splitlines() == ["# Settings", "## Limits", names]


def test_what_a_pointer_points_to_is_no_line_of_a_comment() -> None:
    lines = ["int parse(int *out) {", "    *out = HEADER;", "    limit = MAX_FRAME;", "}"]
    assert around(lines, 2) == ["int parse(int *out) {"]


@pytest.mark.parametrize(
    "wrapped",
    [
        json.dumps({"path": "a.py", "content": PYTHON}),
        "\n".join(f"{n:6}\t{line}" for n, line in enumerate(PYTHON.splitlines(), 1)),
        "\n".join(f"{n:>5}→{line}" for n, line in enumerate(PYTHON.splitlines(), 1)),
        f"\ufeff{PYTHON}",
        f"[Reading {len(PYTHON.splitlines())} lines from start (0 remaining)]\n\n{PYTHON}",
    ],
)
def test_a_file_is_the_same_whatever_its_tool_puts_around_it(wrapped: str) -> None:
    assert of_file("a.py", file_text(wrapped)) == of_file("a.py", PYTHON)


@pytest.mark.parametrize(
    "text",
    ["1\tAlice\t30\n2\tBob\t40", "1: one\n2: two\n3: three", "[v3]\n\na = 1\nb = 2", "[v2]\nx"],
)
def test_numbers_of_a_files_own_stay(text: str) -> None:
    assert file_text(text) == text


def test_a_method_is_a_passage_that_is_seen_with_its_class() -> None:
    passages = of_file("a.py", PYTHON, "files")
    end = holding(passages, "return 7")
    assert end.text.splitlines()[:2] == ["    @property", "    def end(self) -> int:"]
    assert end.heading.splitlines()[-1] == "class First(Base):"
    assert end.text.endswith("return 7")
    assert "class Second" not in end.text
    assert {each.upstream for each in passages} == {"files"}


def test_what_leads_to_a_class_stands_with_it() -> None:
    first = holding(of_file("a.py", PYTHON), "class First(Base):")
    assert "# What leads to a class stands with it.\n@register\nclass First(Base):" in first.text


@pytest.mark.parametrize(
    "member",
    [
        "    /**\n    {0} of it.\n\n      Told:\n\n    @default {1}wide\n    */\n    {0}?: n;\n\n",
        "    /// {0} of it.\n    ///\n    /// It is {1}wide.\n    #[default]\n    {0},\n",
        "    #[arg(\n        default = {1}wide,\n    )]\n    {0}: int,\n",
        "    // {0} of the gate, {1}wide\n    int {0} = 4;\n",
        "    , {0} :: Int\n    -- ^ {0} of the gate.\n    -- It is {1}wide.\n",
    ],
)
def test_a_member_stands_with_what_leads_to_it(member: str) -> None:
    names = ["width", "height", "depth", "weight", "colour", "age"] * 3
    members = [member.format(f"{name}_{n}", n * "very ") for n, name in enumerate(names)]
    divided = of_file("gate.d.ts", "export type Gate = {\n" + "".join(members) + "};\n")
    assert len(divided) > 2
    for each in members:
        assert sum(each.strip() in passage.text for passage in divided) == 1


@pytest.mark.parametrize(
    ("head", "odd"),
    [
        ("class Gate\n{", "#pragma warning disable 618\n"),
        ("class Gate\n{", "//  int old;\n\n"),
        ("class Gate {", "public:\n"),
        ("impl<T> Gate<T>\nwhere\n    T: Copy,\n{", ""),
        ("defmodule Gate do", '    @doc """\n    Options:\n\n    * `one`\n      it is\n    """\n'),
    ],
)
def test_what_stands_shallower_within_a_definition_does_not_end_it(head: str, odd: str) -> None:
    body = "int one, int two)\n    {\n        return one + two;\n    }\n"
    members = [f"    int size_{number}({body}" for number in range(20)]
    text = "\n".join([head, *members[:10], odd + members[10], *members[11:], "}"])
    for number in (11, 19):
        inside = holding(of_file("gate", text), f"size_{number}(")
        assert inside.heading == head.splitlines()[0]


@pytest.mark.parametrize("end", ["fi", "END IF;", "End If"])
def test_what_ends_a_body_belongs_to_it(end: str) -> None:
    (whole,) = of_file("gate", f"if open then\n    shut the gate\n{end}\n")
    assert whole.text.endswith(end)


def test_what_has_no_end_is_no_comment() -> None:
    assert [each.text for each in of_file("a.ignore", "/*.log\n\n/*.tmp\n")] == ["/*.log\n\n/*.tmp"]


def test_small_neighbours_are_put_together() -> None:
    head = holding(of_file("a.py", PYTHON), "LIMIT = 41")
    assert (head.first, "import os" in head.text, head.heading) == (1, True, "")


def test_a_short_function_in_braces_is_one_passage_with_what_leads_to_it() -> None:
    short = "int add(int a, int b)\n{\n    return a + b;\n}\n"
    long = C_LIKE.replace("static", f"/* Adds. */\n{short}\nstatic")
    add = holding(of_file("gate.c", long), "int add(")
    assert add.text.startswith("/* Adds. */\nint add(int a, int b)\n{\n    return a + b;\n}")


def test_a_long_function_in_braces_is_divided_and_begins_with_what_leads_to_it() -> None:
    first, *inner = [each for each in of_file("gate.c", C_LIKE) if "step(" in each.text]
    assert first.text.startswith("/* What the gate does. */\nint open_gate(int width)\n{\n")
    assert inner


def test_a_part_of_a_function_in_braces_is_seen_with_its_first_line() -> None:
    _, *inner = [each for each in of_file("gate.c", C_LIKE) if "step(" in each.text]
    assert all("int open_gate(int width)" in each.heading for each in inner)


def test_a_class_in_braces_is_divided_by_its_methods() -> None:
    passages = of_file("Gate.java", JAVA)
    close = holding(passages, "width = 0;")
    assert close.text.startswith("    public void close() {")
    assert close.heading == "public class Gate extends Door {"
    middle = holding(passages, "this.step(17, by);")
    assert "    public int open(int by) {" in f"{middle.heading}\n{middle.text}"


def test_a_documents_paragraphs_stand_under_their_headings() -> None:
    passages = of_file("guide.md", MARKDOWN)
    setting_up = holding(passages, "Run the command")
    assert setting_up.text.startswith("## Setting up")
    assert setting_up.heading == "# Guide"
    code = holding(passages, "planloom ask")
    assert "# no heading\n\nplanloom ask\n```" in code.text
    assert holding(passages, "It is the same.").heading == "# Guide\n## Setting up"
    assert holding(passages, "Stop it.").heading == "# Guide"


def test_the_same_text_is_code_or_a_document_by_its_name() -> None:
    assert of_file("a.md", MARKDOWN) != of_file("a.py", MARKDOWN)
    assert of_file("a.MD", MARKDOWN)[0].heading == of_file("a.md", MARKDOWN)[0].heading


def test_a_long_line_is_cut() -> None:
    (passage,) = of_file("min.js", "x" * 5000 + "\n")
    assert passage.text == "x" * MAX_LINE


def test_places_are_lines_as_editors_count_them() -> None:
    assert Passage(source="a.py", first=3, last=3, text="x").place == "a.py:3"
    assert Passage(source="a.py", first=3, last=5, text="x").place == "a.py:3-5"


rows = st.text(max_size=120).filter(lambda text: len(text.splitlines()) < 2 and text.isprintable())
lines = st.one_of(
    st.sampled_from(
        [
            *PYTHON.splitlines(),
            *C_LIKE.splitlines(),
            *MARKDOWN.splitlines(),
            *("", "   ", "\t", "}", "    })", "end", "\tif x:", "        y", "~~~", "y" * 900),
        ]
    ),
    st.builds(lambda depth, text: " " * depth + text, st.integers(0, 12), rows),
)
texts = st.lists(lines, max_size=80).map("\n".join)
paths = st.sampled_from(["a.py", "b.c", "doc.md", "notes.txt", "Makefile", ""])


@given(paths, texts)
def test_every_line_that_is_not_blank_stands_in_one_passage_at_its_own_number(
    path: str, text: str
) -> None:
    passages = of_file(path, text)
    numbers = [number for each in passages for number in range(each.first, each.last + 1)]
    assert numbers == sorted(set(numbers))
    rows = text.split("\n")
    wanted = {number for number, row in enumerate(rows, 1) if row[:MAX_LINE].strip()}
    assert wanted <= set(numbers) <= set(range(1, len(rows) + 1))
    for each in passages:
        assert each.source == path
        assert each.text.strip()
        shown = each.text.split("\n")
        whole = rows[each.first - 1 : each.last]
        prose = [row.count(" ") * MAX_WORD > len(row) for row in whole]
        bounds = [MAX_PROSE if is_prose else MAX_LINE for is_prose in prose]
        assert shown == [row[:most].rstrip() for row, most in zip(whole, bounds, strict=True)]


@pytest.mark.parametrize("mark", ["\f", "\x1c", "\u2028", "\x85"])
def test_only_a_line_feed_ends_a_line(mark: str) -> None:
    """As for editors and searches; GNU's and CPython's sources hold form feeds."""
    passages = of_file("a.py", f"first = 1\n{mark}\nthird = 3\n")
    (number,) = [
        each.first + row
        for each in passages
        for row, line in enumerate(each.text.split("\n"))
        if line == "third = 3"
    ]
    assert number == 3


def test_many_short_lines_before_a_function_are_divided() -> None:
    settings = "".join(f"SETTING_{number} = {number}\n" for number in range(300))
    passages = of_file("a.py", f"{settings}def first():\n    return 1\n")
    assert max(len(each.text) for each in passages) <= 2 * MAX_UNIT


def test_the_entries_of_a_list_stand_within_their_key_however_deep() -> None:
    """YAML lets them stand as deep as the key."""
    jobs = "".join(f"- name: job{n}\n  # {'what it is for ' * 8}\n  run: {n}\n" for n in range(9))
    passages = of_file("a.yaml", f"version: 2\njobs:\n{jobs}after: 1\nlist:\n- x: 3\n")
    headings = {each.heading for each in passages if "name: job" in each.text}
    assert headings == {"", "jobs:"}
    assert holding(passages, "name: job0").text.startswith("version: 2\njobs:")
    assert holding(passages, "after: 1").heading == ""
    assert holding(passages, "- x: 3").text.endswith("list:\n- x: 3")


def test_a_line_of_a_list_at_the_depth_of_its_key_is_around_what_it_holds() -> None:
    assert around(["d:", "- w: 1", "- x: 2", "  y: 3"], 3) == ["d:", "- x: 2"]


def test_blank_lines_are_read_once() -> None:
    reads: list[int] = []

    class Counting(list[str]):
        def __getitem__(self, index: Any) -> Any:
            reads.append(1)
            return super().__getitem__(index)

    lines = Counting(["a = 1", *[""] * 2000, "    b = 2"])
    assert list(_chunks(lines, 0, 2001)) == [(0, 2001)]
    assert len(reads) < 5 * len(lines)


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("a.rst", "Guide\n=====\n\n{0}\n\nSetting up\n----------\n\n{0}\n\n7 tries."),
        ("a.rst", "指南\n====\n\n{0}\n\n设置\n~~~~\n\n{0}\n\n7 tries."),
        ("a.md", "Guide\n=====\n\n{0}\n\nSetting up\n----------\n\n{0}\n\n7 tries."),
        ("a.adoc", "= Guide\n\n{0}\n\n== Setting up\n\n{0}\n\n7 tries."),
    ],
)
def test_a_heading_is_known_by_its_marks_or_by_its_underline(name: str, document: str) -> None:
    text = document.format("What is said of it. " * 15)
    lines = text.split("\n")
    last = of_file(name, text)[-1]
    assert last.text == "7 tries."
    assert last.heading.split("\n") == [lines[0], next(each for each in lines[4:] if each)]


def test_what_stands_over_no_underline_of_its_length_is_no_heading() -> None:
    text = f"---\ntitle: Guide\n---\n\n{'What is said of it. ' * 15}\n\n***\n\n7 tries."
    assert {each.heading for each in of_file("a.md", text)} == {""}


def test_a_block_right_under_a_heading_is_no_underline() -> None:
    [only] = of_file("a.md", "# Guide\n~~~\n# no heading\n~~~\n")
    assert (only.first, only.last) == (1, 4)


def test_what_is_nested_without_end_is_cut_by_its_size() -> None:
    """12,000 lines, up to 290 deep, took more than a minute; a third of them shows it."""
    lines = [f"{' ' * (number % 290)}k{number}:" for number in range(4_000)]
    passages = of_file("a.yaml", "\n".join(lines))
    assert max(len(each.heading.split("\n")) for each in passages) == MAX_NESTED
    assert "\n".join(each.text for each in passages).split("\n") == lines


def test_a_fence_within_a_longer_one_does_not_end_it() -> None:
    inner = "````md\n```sh\n# not a heading\n```\n````"
    text = f"# T\n\n{inner}\n\n```\n# c1\n```python\n# c2\n```\n# Real\nx"
    found = of_file("a.md", text)
    assert [each.text.splitlines()[0] for each in found] == ["# T", "# Real"]


@pytest.mark.parametrize(
    ("path", "mark", "before"),
    [
        ("dock.js", "`", "  const plain = ['`', \"`\", /`/]\n  // it`s\n"),
        ("dock.py", '"""', "  plain = '`'\n"),
    ],
)
def test_a_text_of_several_lines_ends_no_unit_around_it(path: str, mark: str, before: str) -> None:
    """One that is quoted or in a comment begins no text, and nor does one without an end."""
    body = "\n".join(f"    step_{number} = tie({number})" for number in range(12))
    methods = "\n\n".join(f"  def moor_{number}():\n{body}" for number in range(3))
    text = f"{mark}Use it so:\n- load\n- cross{mark}"
    dock = f"class Dock\n{before}  def help():\n    say({text})\n\n{methods}\n  cost = {mark}5\n"
    _, *units = of_file(path, dock)
    assert [each.heading.splitlines()[0] for each in units] == ["class Dock"] * len(units)
    assert "  def moor_2():" in units[-1].text
