"""Where a function that a file does not have yet is put, and what the model is shown for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.evidence.additions import new_names, place, placed
from planner.evidence.rewriting import applied, edits

PYTHON = """import json


class Shop:
    name = "shop"

    def all(self):
        return [*self.items]

    @property
    def open(self) -> bool:
        return True


def load(path):
    return json.loads(path)


async def save(path):
    return path
"""
GO = """package shop

type Shop struct {
	items []string
}

// All lists the items.
func (s *Shop) All() []string {
	return s.items
}

func load(path string) string {
	return path
}
"""
PHP = """<?php

class Shop
{
    public function all(): array
    {
        return $this->items;
    }
}
"""
ELIXIR = """defmodule Shop do
  @doc "All of them."
  def all(items), do: items

  def load(path) do
    File.read(path)
  end
end
"""


@pytest.mark.parametrize(
    ("path", "text", "request_", "written", "added", "behind"),
    [
        (
            "shop.py",
            PYTHON,
            "Add a method first() to Shop",
            "            def first(self):\n                return 1\n",
            "\n    def first(self):\n        return 1",
            "return [*self.items]",
        ),
        (
            "shop.py",
            PYTHON,
            "Add a function dump",
            "class Shop:\n    pass\n\n\n# Writes.\n@cached\ndef dump(path):\n    return 1\n",
            "\n\n# Writes.\n@cached\ndef dump(path):\n    return 1",
            "return json.loads(path)",
        ),
        (
            "shop.go",
            GO,
            "Add a method First to Shop",
            "func (s *Shop) First() string {\n\treturn s.items[0]\n}\n",
            "\nfunc (s *Shop) First() string {\n\treturn s.items[0]\n}",
            "return s.items\n}",
        ),
        (
            "shop.go",
            GO,
            "Add a function Version",
            "func Version() string {\n\treturn path\n}\n",
            "\nfunc Version() string {\n\treturn path\n}",
            "return path\n}",
        ),
        (
            "Shop.php",
            PHP,
            "Add a method first",
            "public function first()\n{\n    return 1;\n}\n",
            "\n    public function first()\n    {\n        return 1;\n    }",
            "return $this->items;\n    }",
        ),
        (
            "shop.ex",
            ELIXIR,
            "Füge eine Funktion first hinzu",
            "defmodule Shop do\n  def first(items) do\n    hd(items)\n  end\nend\n",
            "\n  def first(items) do\n    hd(items)\n  end",
            "File.read(path)\n  end",
        ),
    ],
)
def test_what_is_new_stands_behind_what_it_is_like(
    path: str, text: str, request_: str, written: str, added: str, behind: str
) -> None:
    asked = {*request_.replace("(", " ").split()}
    names = new_names(text, written, asked)
    where = place(path, text, request_, written, names)
    assert where
    changed, beside = placed(text, where, written, names)
    after = applied(text, edits(path, text, changed))
    assert after == text.replace(f"{behind}\n", f"{behind}\n{added}\n", 1)
    assert [line for line in beside if "def" not in line and "class" not in line] == (
        ["    pass"] if "pass" in written else []
    )


def test_where_nothing_is_defined_nothing_is_shown() -> None:
    assert place("hours.yaml", "open: 8\n", "Add late", "def late():\n    pass", {"late"}) is None


@given(text=st.text("def a(:)\n {}#", max_size=80), written=st.text("def b(:)\n {}", max_size=60))
def test_anything_can_be_compared(text: str, written: str) -> None:
    names = new_names(text, written, {"a", "b", "d", "e", "f"})
    if names and (where := place("some.py", text, "b", written, names)):
        changed, _ = placed(text, where, written, names)
        assert [each.first for each in changed] == [where.example.last]
