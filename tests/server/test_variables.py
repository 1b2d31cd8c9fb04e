"""Texts with variables: filled in, hidden, and as they were written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.variables import Expanded, expand


@given(st.text())
def test_a_doubled_dollar_is_one_dollar(text: str) -> None:
    assert expand(text.replace("$", "$$"), {}).get_secret_value() == text


@given(st.text().filter(lambda text: "${" not in text and "$$" not in text))
def test_text_without_a_variable_stays(text: str) -> None:
    expanded = expand(text, {})
    assert (expanded.get_secret_value(), str(expanded)) == (text, text)
    assert not expanded.secrets


@given(st.text("abc$", max_size=8), st.text(min_size=1), st.text("xyz", max_size=8))
def test_a_value_is_taken_as_it_is_and_hidden(before: str, value: str, after: str) -> None:
    expanded = expand(before.replace("$", "$$") + "${NAME}" + after, {"NAME": value})
    assert expanded.get_secret_value() == before + value + after
    assert str(expanded) == f"{before}***{after}"
    assert expanded.secrets == {value}


@given(st.text("abc$:-", max_size=8), st.sampled_from([{}, {"NAME": ""}]))
def test_a_default_stands_in_for_an_unset_or_empty_variable(
    default: str, variables: dict[str, str]
) -> None:
    assert expand(f"${{NAME:-{default}}}", variables).get_secret_value() == default


def test_unset_and_broken_variables_raise() -> None:
    with pytest.raises(KeyError, match="NAME"):
        expand("${NAME}", {})
    with pytest.raises(ValueError, match="has no name"):
        expand("${NAME", {})


def test_a_plain_text_made_expanded_is_hidden() -> None:
    assert str(Expanded("zebra-1234")) == "***"
