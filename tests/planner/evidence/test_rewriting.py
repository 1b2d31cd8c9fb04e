"""What a rewritten part of a file changes, as edits whose old text stands in the file once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.evidence.best_edits import (
    defines_again,
    files_without_names,
    fitting,
    in_place,
    likeliest,
    unlike_first,
    used,
)
from planner.evidence.file_parts import parts, whole
from planner.evidence.renaming import renamed, renames, uses
from planner.evidence.rewriting import (
    Change,
    Edit,
    changes,
    edits,
    fence,
)
from planner.passage import Passage

PATH = "shop/rates.py"
TEXT = '''"""Rates."""

LIMIT = 30


class Rates:
    def price(self, weight: float) -> float:
        """The price."""
        if weight > LIMIT:
            raise ValueError("too heavy")
        return weight * 2
'''
LINES = st.lists(st.sampled_from(["a = 1", "    b = 2", "", "c()", "end"]), min_size=1, max_size=12)


def applied(text: str, found: list[Edit]) -> str:
    for each in found:
        assert text.find(each.old) == text.rfind(each.old) >= 0
        text = text.replace(each.old, each.new)
    return text


def edited(text: str, part: Passage, written: str) -> list[Edit]:
    return edits(part.source, text, changes(text, part, written))


def changed(written: str, text: str = TEXT) -> str:
    return applied(text, edited(text, whole(PATH, text), written))


def test_a_line_is_replaced_where_it_stands() -> None:
    found = edited(TEXT, whole(PATH, TEXT), TEXT.replace("= 30", "= 25"))
    assert found == [Edit(PATH, "LIMIT = 30", "LIMIT = 25")]
    assert fence(found) == "```diff\n-LIMIT = 30\n+LIMIT = 25\n```"


def test_what_closes_a_new_block_is_not_taken_for_the_end_of_what_it_stands_in() -> None:
    text = "class A {\n  f() {\n    b();\n  }\n}\n"
    written = "  f() {\n    b();\n    if (x) {\n      c();\n    }\n  }\n"
    assert changed(written, text) == f"class A {{\n{written}}}\n"


def test_a_line_that_stands_twice_is_replaced_with_what_stands_around_it() -> None:
    text = "on = 1\n\noff = 0\n\non = 1\nlast = 9\n"
    assert changed(text.replace("on = 1\nlast", "on = 2\nlast"), text).endswith(
        "on = 2\nlast = 9\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("b()\nc()\n", "if x:\n    b()\n    c()\n"),
        (
            "def f():\n    b()\n    c()\n",
            "def f():\n    try:\n        b()\n    except E:\n        pass\n    c()\n",
        ),
        ("def f():\n    if x:\n        b()\n    c()\n", "def f():\n    b()\n    c()\n"),
        ("a:\n  x: 1\ny: 2\n", "a:\n  x: 1\n  y: 2\n"),
        ("1,bob\n2,amy\n3,zed\n", "1,bob\n3,zed\n"),
        ("1,bob\n2,amy\n3,zed\n", "2,amy\n3,zed\n"),
        ("1,bob\n2,amy\n3,zed\n", "1,bob\n2,amy\n"),
        ("x = 1\ny = 2\nz = 3\n", "y = 2\nx = 1\nz = 3\n"),
        ("def a():\n    b\n\n\ndef c():\n    d\n", "def c():\n    d\n\n\ndef a():\n    b\n"),
        ("x\n\nw\nv\nu\nt\ns\n", "w\nv\nu\nt\ns\n\nx\n"),
        ("n\na,2\na,2\na,2\ny\n", "n\na,2\na,2\na,7\ny\n"),
    ],
)
def test_lines_may_move_and_go(before: str, after: str) -> None:
    assert changed(after, before) == after
    assert changed(before, before) == before


def test_a_part_that_was_written_with_other_indentation_keeps_its_own() -> None:
    tabs = "def f():\n\tb()\n\tc()\n"
    assert changed("def f():\n    b()\n    d()\n    c()\n", tabs) == tabs.replace(
        "\tc", "\td()\n\tc"
    )


@pytest.mark.parametrize(
    ("before", "written", "after"),
    [
        (
            "f() {\n  if (a) {\n    b();\n  }\n}\n",
            "f() {\n    if (a) {\n        b();\n    }\n}\n",
            None,
        ),
        (
            '{\n  "a": {\n    "x": 1\n  }\n}\n',
            '{\n    "a": {\n        "x": 1,\n        "y": 2\n    }\n}\n',
            '{\n  "a": {\n    "x": 1,\n    "y": 2\n  }\n}\n',
        ),
        (
            "class A {\n  /**\n   * a\n   */\n  f() {\n    b();\n  }\n}\n",
            "class A {\n    /**\n     * a\n     * c\n     */\n    f() {\n        b();\n    }\n}\n",
            "class A {\n  /**\n   * a\n   * c\n   */\n  f() {\n    b();\n  }\n}\n",
        ),
        ("def f():\n    a\n    b\n", "def f():\n        a\n        b\n", None),
        ("if x:\n    a\nb\n", "a\nb\n", None),
        ("import os\nimport re\n\nx = 1\n", "x = 1\n", None),
        (
            "class A:\n    def f(self):\n        x\n        y\n",
            "def f(self):\n    x\n    z\n    y\n",
            "class A:\n    def f(self):\n        x\n        z\n        y\n",
        ),
        (
            "class A:\n    def f(self):\n        return self.x[1]\n",
            "def f(self):\n        return self.x.get(1)\n",
            "class A:\n    def f(self):\n        return self.x.get(1)\n",
        ),
        (
            "def f():\n    a\n\n    b\n    c\n",
            "def f():\n    with x:\n        a\n\n        b\n    c\n",
            "def f():\n    with x:\n        a\n\n        b\n    c\n",
        ),
    ],
)
def test_the_indentation_of_a_model_counts_only_for_what_it_changes(
    before: str, written: str, after: str | None
) -> None:
    assert changed(written, before) == (after or before)


@pytest.mark.parametrize("tab", ["\t", "  ", "    "])
@pytest.mark.parametrize("written", ["\t", " ", "    "])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\tsend()\n", "\tif late:\n\t\tsend()\n"),
        ("\t\tretry()\n", "\t\tretry(3)\n"),
        ("\tclose()\n", "\tclose()\n\n\ndef g(late):\n\tif late:\n\t\tsend()\n"),
    ],
)
def test_lines_move_and_come_with_tabs_and_with_spaces_as_the_file_has_them(
    tab: str, written: str, old: str, new: str
) -> None:
    text = "def f(late):\n\tprepare()\n\tif busy:\n\t\tretry()\n\tsend()\n\tclose()\n"
    before, after = (each.replace("\t", tab) for each in (text, text.replace(old, new)))
    assert changed(text.replace(old, new).replace("\t", written), before) == after


def test_renames_of_equal_lines_hold_one_after_the_other() -> None:
    text = "assert foo(1)\nx\nassert foo(1)\n"
    assert applied(text, edits(PATH, text, uses(text, {"foo": "bar"}, []))) == text.replace(
        "foo", "bar"
    )


def test_changes_of_two_parts_of_a_file_do_not_take_one_for_the_other() -> None:
    text = "one:\n  size: 3\n\ntwo:\n  size: 5\n"
    first, second = (
        Passage(source=PATH, first=at, last=at + 1, text=text.split("\n\n")[at // 4])
        for at in (1, 4)
    )
    made = [
        *changes(text, first, "one:\n  size: 5"),
        *changes(text, second, "two:\n  size: 7"),
    ]
    assert applied(text, edits(PATH, text, made)) == "one:\n  size: 5\n\ntwo:\n  size: 7\n"


def test_what_is_added_stands_beside_the_line_before() -> None:
    written = TEXT.replace("LIMIT = 30\n", "LIMIT = 30\nLEAST = 1\n")
    assert edited(TEXT, whole(PATH, TEXT), written) == [
        Edit(PATH, "LIMIT = 30", "LIMIT = 30\nLEAST = 1")
    ]


def test_only_a_part_that_was_written_is_changed() -> None:
    written = (
        'def price(self, weight: float) -> float:\n    """The price."""\n    if weight >= LIMIT:'
    )
    assert changed(written) == TEXT.replace("weight > LIMIT", "weight >= LIMIT")


def test_a_method_that_was_written_further_out_stays_as_deep_as_it_was() -> None:
    written = (
        "def price(self, weight: float) -> float:\n"
        '    """The price."""\n'
        "    if weight > LIMIT:\n"
        '        raise ValueError("too heavy")\n'
        "    return round(weight * 2, 2)"
    )
    assert changed(written) == TEXT.replace("weight * 2", "round(weight * 2, 2)")


@pytest.mark.parametrize("written", ["NOTHING", "", "# shop/rates.py\n", TEXT, f"# {PATH}\n{TEXT}"])
def test_nothing_that_is_like_the_file_changes_nothing(written: str) -> None:
    assert edited(TEXT, whole(PATH, TEXT), written) == []


def test_a_line_that_says_more_than_the_name_of_the_file_is_written() -> None:
    written = f"# {PATH}: what a parcel costs\n{TEXT}"
    assert changed(written) == written


def test_a_file_of_one_line_is_replaced_by_one_that_is_like_it() -> None:
    text = "version = '1.3.0'\n"
    assert changed("version = '1.4.0'", text) == "version = '1.4.0'\n"
    assert edited(text, whole(PATH, text), "I cannot change this.") == []


def test_an_end_that_was_not_written_is_not_taken_for_one_that_was_added() -> None:
    text = "f() {\n  b();\n}\n\ng() {\n  d();\n}\n"
    after = text.replace("  b();\n", "  b();\n  if (x) {\n    c();\n  }\n")
    assert changed(after.removesuffix("}\n"), text) == after


def test_dots_in_the_place_of_lines_leave_nothing_out() -> None:
    written = TEXT.replace(
        '        """The price."""\n        if weight > LIMIT:\n', "        # ...\n"
    )
    assert edited(TEXT, whole(PATH, TEXT), written) == []


def test_the_ends_of_lines_stay_as_they_are() -> None:
    text = TEXT.replace("\n", "\r\n")
    written = TEXT.replace("= 30", "= 25").replace("* 2", "* 3")
    found = edited(text, whole(PATH, text), written)
    assert applied(text, found) == written.replace("\n", "\r\n")
    assert any(
        "\r\n" in each.old for each in edited(text, whole(PATH, text), TEXT[:30] + TEXT[45:])
    )


@pytest.mark.parametrize("mark", ["\f", "\x1c", "\u2028", "\x85"])
def test_what_editors_do_not_take_for_the_end_of_a_line_ends_none(mark: str) -> None:
    """A part of a file holds the lines that its passages count, and edits keep such characters."""
    text = f"{mark}\n" * 3 + "\n\n".join(f"def f{n}():\n    return {n}" for n in range(90))
    (part,) = parts("a.py", text, "change f50", [], {"f50"})
    assert "def f50():" in part.text
    written = part.text.replace("return 50", "return 7")
    assert applied(text, edited(text, part, written)) == text.replace("return 50", "return 7")
    text = f"a = 1{mark}2\n"
    assert applied(text, edits("a.py", text, uses(text, {"a": "b"}, []))) == f"b = 1{mark}2\n"
    assert whole("a.py", f"a{mark}b\n").last == 1


@pytest.mark.parametrize(
    ("text", "added", "again"),
    [
        ("class Toll:\n    pass\n", "class Toll:\n    def pay(self):\n        pass\n", True),
        ("class Toll:\n    pass\n", "class Fee:\n    pass\n", False),
        ("Toll:\n  A: 1\njob:\n  name: x\n", "  Toll:\n    B: 2\n", False),
    ],
)
def test_a_class_is_defined_once_and_a_key_may_be_at_two_levels(
    text: str, added: str, again: bool
) -> None:
    assert defines_again(text, Edit(PATH, "", added), {"Toll", "job"}) == again


@given(LINES, LINES)
def test_edits_make_of_a_file_what_was_written(before: list[str], after: list[str]) -> None:
    text, written = ("\n".join(["first", *lines, "last"]) for lines in (before, after))
    result = text
    for each in edited(text, whole(PATH, text), written):
        result = result.replace(each.old, each.new, 1)

    def filled(lines: str) -> list[str]:
        return [line.strip() for line in lines.splitlines() if line.strip()]

    assert filled(result) == filled(written) or len(before) > 1


@pytest.mark.parametrize(
    ("line", "new"),
    [
        (
            "- ``open(gate)``: open ``gate``, as ``open`` does",
            "- ``lift(gate)``: open ``gate``, as ``lift`` does",
        ),
        ("`gate.open()` and open_gate", "`gate.lift()` and lift_gate"),
        ("`open_gate` is open_gate", "`lift_gate` is lift_gate"),
        ("open(gate)  # to open it", "lift(gate)  # to lift it"),
    ],
)
def test_a_plain_word_that_stands_between_backticks_is_prose_beside_them(
    line: str, new: str
) -> None:
    assert renamed(line, {"open": "lift", "open_gate": "lift_gate"}) == new


def test_a_definition_with_another_name_takes_its_uses_along() -> None:
    before = "def open_gate():\n    total = 1\n"
    after = "def open_door():\n    result = 1\n"
    names = renames(before, after, {"rename", "open_gate", "to", "open_door"})
    assert names == {"open_gate": "open_door"}
    assert renamed("open_gate(); reopen_gate()", names) == "open_door(); reopen_gate()"
    text = "open_gate()\nreopen_gate()\n\nopen_gate()\n"
    found = edits(PATH, text, uses(text, names, []))
    assert applied(text, found) == "open_door()\nreopen_gate()\n\nopen_door()\n"


def test_of_several_files_the_one_is_changed_that_the_request_is_about() -> None:
    wanted = Edit("rates.py", "MAX_WEIGHT = 30", "MAX_WEIGHT = 25")
    others = [
        Edit("settings.yaml", "wait: 5", "wait: 5\nmax_weight: 25"),
        Edit("legacy.py", "def old(weight):", "def new(weight):"),
    ]
    texts = {each.path: each.old for each in [wanted, *others]}
    query = "Set the maximum weight to 25 kg"
    assert likeliest([others[0], wanted, others[1]], texts, query) == ["rates.py"]
    alike = [Edit(path, "<h1>Acme</h1>", "<h1>Globex</h1>") for path in ("a.html", "b.html")]
    texts = {"a.html": "replace everywhere\n<h1>Acme</h1>", "b.html": "<h1>Acme</h1>"}
    assert likeliest(alike, texts, "Replace Acme by Globex everywhere") == [*texts]
    assert fitting([Edit("a.py", "return home", "return world"), wanted], query) == [wanted]


def test_what_is_added_counts_with_what_it_stands_in() -> None:
    texts = {"fetch.ts": "const retryCodes = [\n  408,\n];\n", "README.md": "the codes are 408\n"}
    found = [
        Edit("fetch.ts", "  408,", "  408,\n  418,"),
        Edit("README.md", "the codes are 408", "the codes are 408, 418"),
    ]
    assert likeliest(found, texts, "Retry the codes of 418") == ["fetch.ts"]


def test_where_the_same_is_replaced_by_the_same_nothing_is_left_out() -> None:
    found = [
        Edit("limits.rb", "part_limit = 4096", "part_limit = 2048"),
        Edit("README.md", "It is 4096.", "It is 2048."),
        Edit("spec.rb", "limit", "limit 2048"),
    ]
    texts = {each.path: each.old for each in found}
    query = "Change the part limit from 4096 to 2048"
    assert likeliest(found, texts, query) == ["limits.rb", "README.md"]
    assert unlike_first(found, query) == ["spec.rb"]
    assert unlike_first([], query) == []


def test_a_definition_that_nobody_asked_for_is_left_out_beside_the_change() -> None:
    """Unless it is used, or there is nothing else."""
    text = 'KINDS = ["day", "week"]\n\n\ndef kinds():\n    return KINDS\n'
    entry = Change(0, 1, ['KINDS = ["day", "week", "year"]'])
    helper = Change(5, 5, ["", "", "def add_kind(kind):", "    KINDS.append(kind)"])
    request = 'Add "year" to the kinds'
    kept, left_out = in_place(request, {PATH: [entry, helper]}, {PATH: text})
    assert kept == {PATH: [entry]}
    assert [why for why, some in left_out if some] == ["which nobody asked for"]
    using = Change(0, 1, ["KINDS = []", 'add_kind("year")'])
    for some in ([using, helper], [helper]):
        assert in_place(request, {PATH: some}, {PATH: text})[0] == {PATH: some}


def test_a_value_that_nothing_uses_is_left_out_though_it_is_the_new_one() -> None:
    texts = {PATH: "LIMIT = 3\n\n\n"}
    changed = [Change(0, 1, ["LIMIT = 500"]), Change(3, 3, ["MAX_LIMIT = 500"])]
    kept, left_out = in_place("Change the limit to 500", {PATH: changed}, texts)
    assert kept == {PATH: changed[:1]}
    used = Change(3, 3, ["MAX_LIMIT = 500", "check(MAX_LIMIT)"])
    assert in_place("Change the limit to 500", {PATH: [changed[0], used]}, texts)[1][1][1] == []
    assert [edit.added for _, some in left_out for edit in some] == [["", "MAX_LIMIT = 500"]]


def test_what_has_nothing_of_a_change_that_other_files_have_may_not_belong_to_it() -> None:
    entry = Edit("kinds.py", '"day"', '"day", "year"')
    other = Edit("parse.py", "parse(text)", "parse(text, strict=True)")
    moved = Edit("old.py", 'year = "year"', "pass")
    request = 'Add "year" to the kinds'
    assert files_without_names([entry, other, moved], request) == ["parse.py"]
    assert files_without_names([entry, other], f"{request}, see parse.py") == []
    assert files_without_names([other], request) == []


def test_what_a_change_uses_and_does_not_define() -> None:
    new = "def first():\n    return self.by_name.get(read_all(None))"
    assert used([Edit(PATH, "x", f"x\n{new}\n    topItem = 1\n    topItem()")]) == {
        "by_name",
        "read_all",
    }


def test_many_renamed_lines_are_told_apart() -> None:
    old = "".join(f"use(gate, {number})\n" for number in range(3000))
    renamed_lines = old.replace("gate", "door")  # line by line with each other, they take an hour
    edit = Edit(PATH, old, renamed_lines)
    assert (edit.lost, edit.added) == (old.splitlines(), renamed_lines.splitlines())
