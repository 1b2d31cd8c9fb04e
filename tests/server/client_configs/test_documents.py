"""Files of other programs, changed in one place and else as people wrote them."""

import json
import re
import tomllib
from typing import Any

import pytest
import tomlkit
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from server.client_configs import jsonc
from server.client_configs.documents import changed

KEYS = st.text('ab"/*\\,]}{[: \n', max_size=4)
SCALARS = st.none() | st.booleans() | st.integers() | st.text(' \n"\\/*,]}{[:a', max_size=9)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
GAPS = st.sampled_from(["", " ", "\n", "\t", "// one, } two\n", "/* , ] */", "\n  // three\n  "])
SERVER = {"command": "x", "args": ["a", {"b": [], "c": {}}]}


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """A value as a person may write it, with comments and trailing commas."""

    def gap() -> str:
        return draw(GAPS)

    def text(value: Any) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value)
        mapping = isinstance(value, dict)
        parts = [
            gap()
            + (f"{json.dumps(key)}{gap()}:{gap()}{text(each)}" if mapping else text(each))
            + gap()
            for key, each in (value.items() if isinstance(value, dict) else enumerate(value))
        ]
        end = draw(st.sampled_from(["", ","])) if parts else ""
        body = ",".join(parts) + end + gap()
        return f"{{{body}}}" if mapping else f"[{body}]"

    return gap() + text(value) + gap()


def comments(text: str) -> list[str]:
    found = re.findall(r'("(?:[^"\\]|\\.)*")|(//[^\n]*|/\*.*?\*/)', text, re.DOTALL)
    return [comment for _, comment in found if comment]


def test_a_comment_beside_a_value_is_not_lost() -> None:
    place = ("models", "fast")
    text = "models: # mine\n  fast: a # quick\n"
    assert changed(text, ".yaml", {place: "b"}) == "models: # mine\n  fast: b # quick\n"
    with pytest.raises(ValueError, match="cannot be changed without losing"):
        changed("models: {fast: a, # quick\n  full: b}\n", ".yaml", {place: "b"})


@settings(max_examples=50, deadline=None)
@given(st.data(), st.dictionaries(KEYS, VALUES, max_size=3))
def test_json_with_comments_is_changed_in_one_place(data: st.DataObject, value: Any) -> None:
    text = data.draw(written(value))
    assert jsonc.loads(text) == value
    maps = [key for key, inner in value.items() if isinstance(inner, dict)]
    outer = data.draw(st.sampled_from([*maps, "new"]))
    key = data.draw(KEYS)
    new = jsonc.changed(text, (outer, key), SERVER)
    inner = value.get(outer, {})
    assert jsonc.loads(new) == value | {outer: inner | {key: SERVER}}
    if key not in inner:
        assert comments(new) == comments(text)
        rest = iter(new)
        assert all(each in rest for each in "".join(text.split()))  # nothing was taken out


@settings(max_examples=50, deadline=None)
@given(st.data(), st.lists(VALUES, max_size=3))
def test_a_list_takes_an_item_at_its_end(data: st.DataObject, items: Any) -> None:
    text = data.draw(written({"inputs": items}))
    place = data.draw(st.integers(0, len(items)))
    new = jsonc.changed(text, ("inputs", place), "new")
    assert jsonc.loads(new) == {"inputs": [*items[:place], "new", *items[place + 1 :]]}


@pytest.mark.parametrize("inner", ["{}", '{"a": {"args": ["issue #1"]}}'])
def test_a_hash_in_json_is_no_comment(inner: str) -> None:
    text = f'{{"theme": "One #1", "servers": {inner}}}'
    new = changed(text, ".json", {("servers", "new"): SERVER})
    assert json.loads(new) == {"theme": "One #1", "servers": json.loads(inner) | {"new": SERVER}}


@pytest.mark.parametrize("text", ["[]", "1", '{"a": 1}', '{"a": []}', '{"a": "{"}', "{,}", "{"])
def test_what_is_no_map_is_not_changed(text: str) -> None:
    with pytest.raises(ValueError, match=r"no map|Expecting"):
        changed(text, ".json", {("a", "b"): 1})


PLAIN = st.text("ab #:-'\"[]{}&*!|>%@`,?\n", min_size=1, max_size=9)
TREES = st.dictionaries(
    st.text("abc", min_size=1, max_size=3),
    st.recursive(
        st.booleans() | st.integers(0, 99) | PLAIN,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=3,
)


@settings(max_examples=50, deadline=None)
@given(TREES)
def test_yaml_is_changed_in_one_place(value: dict[str, Any]) -> None:
    lines = yaml.safe_dump(value, default_flow_style=False, sort_keys=False).splitlines()
    marks = [f"# {number}" for number, _ in enumerate(lines)]
    text = "\n".join(part for pair in zip(marks, lines, strict=True) for part in pair)
    assume(not value or yaml.safe_load(text) == value)  # a comment within a text is none
    try:
        new = changed(text, ".yaml", {("servers", "new"): SERVER})
    except ValueError as error:  # a list in a list that has a comment between them
        assert "without losing" in str(error)  # noqa: PT017
        return
    assert yaml.safe_load(new) == (yaml.safe_load(text) or {}) | {"servers": {"new": SERVER}}
    assert re.findall(r"^ *(# \d+)$", new, re.MULTILINE) == marks


def test_yaml_that_would_lose_a_comment_is_not_changed() -> None:
    with pytest.raises(ValueError, match="without losing"):
        changed("servers: {a: 1,\n  # one\n  b: 2}\n", ".yaml", {("servers", "c"): 3})


@settings(max_examples=50, deadline=None)
@given(TREES, st.booleans())
def test_toml_is_changed_in_one_place(value: dict[str, Any], there: bool) -> None:
    before = value | ({"servers": {"old": {"command": "y"}}} if there else {})
    text = "# top\n" + tomlkit.dumps(before) + "# end\n"
    new = changed(text, ".toml", {("servers", "new"): SERVER})
    assert new.startswith(text)
    wanted = before | {"servers": {**before.get("servers", {}), "new": SERVER}}
    assert tomllib.loads(new) == wanted
