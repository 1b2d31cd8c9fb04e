"""What code finds and says of a request before any model is asked."""

# ruff: noqa: E501  the facts as they are said

import re

import pytest
from inline_snapshot import snapshot

from planner.findings import facts, misses
from planner.lookup import Lookup, Search
from planner.reading import Intent, Reading
from planner.telling import shown

FILES = {
    "README.md": "# Depot\n\nIts parts:\n\n- the sorter\n- the gate\n",
    "config/depot.toml": "[gate]\nopen_minutes = 12\n\n[sorter]\nlanes = 4\n",
    "depot/base.py": (
        "class Part:\n"
        '    """Something that starts."""\n\n'
        "    def __init__(self, name: str) -> None:\n"
        "        self.name = name\n\n"
        "    def start(self) -> None:\n"
        "        pass\n"
    ),
    "depot/limits.py": (
        "MOST_CRATES = 340\n"
        '"""Crates that fit on a lane."""\n'
        "# Seconds before a gate gives up\n"
        "GATE_PATIENCE = 75\n"
    ),
    "depot/sorter.py": (
        "from depot.base import Part\n"
        "from depot.limits import MOST_CRATES\n\n\n"
        "class Sorter(Part):\n"
        '    """Sorts crates by their destination."""\n\n'
        "    lanes: int = 4\n"
        "    speed: float = 1.5\n\n"
        "    def start(self) -> None:\n"
        "        self.take_crate(1)\n\n"
        "    def take_crate(\n"
        "        self,\n"
        "        weight: int,\n"
        "        *,\n"
        "        fragile: bool = False,\n"
        "    ) -> bool:\n"
        "        return weight < MOST_CRATES\n\n"
        "    def _jam(self) -> None:\n"
        "        raise RuntimeError\n\n\n"
        "class FastSorter(Sorter):\n"
        "    def start(self) -> None:\n"
        "        weigh_all([])\n\n\n"
        "def weigh_all(crates: list[int]) -> int:\n"
        "    def one(crate: int) -> int:\n"
        "        return crate\n\n"
        "    return sum(one(crate) for crate in crates)\n"
    ),
    "tests/test_sorter.py": (
        "from depot.sorter import weigh_all\n\n\n"
        "def test_nothing_weighs_nothing() -> None:\n"
        "    assert weigh_all([]) == 0\n"
    ),
}


def answer(search: Search) -> str:
    if search.kind == "file":
        return FILES.get(search.what, "")
    if search.kind == "name":
        return "\n".join(path for path in FILES if path.endswith(search.what))
    return "\n".join(
        f"{path}:{number}:{line}"
        for path, text in FILES.items()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(search.what, line)
    )


def look(request: str, *suggested: str) -> Lookup:
    lookup = Lookup(request, "README.md config/ depot/ tests/", suggested)
    while search := lookup.next():
        lookup.add(search, answer(search))
    return lookup


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (
            "Where is weigh_all defined? Give file and line.",
            snapshot(
                [
                    "weigh_all is defined in depot/sorter.py on line 31: def weigh_all(crates: list[int]) -> int:"
                ]
            ),
        ),
        (
            "The line of Sorter.take_crate, please",
            snapshot(
                ["Sorter.take_crate is defined in depot/sorter.py on line 14: def take_crate("]
            ),
        ),
        (
            "Which function calls `weigh_all`?",
            snapshot(
                ["FastSorter.start calls weigh_all at depot/sorter.py:28:        weigh_all([])"]
            ),
        ),
        (
            "where do we call take_crate",
            snapshot(
                ["Sorter.start calls take_crate at depot/sorter.py:12:        self.take_crate(1)"]
            ),
        ),
        (
            "Which test calls weigh_all?",
            snapshot(
                [
                    "test_nothing_weighs_nothing calls weigh_all at tests/test_sorter.py:5:    assert weigh_all([]) == 0"
                ]
            ),
        ),
        (
            "What does Sorter inherit from?",
            snapshot(["Sorter inherits from Part. Part is defined in depot/base.py on line 1"]),
        ),
        (
            "In which file is the base class of FastSorter?",
            snapshot(
                [
                    "FastSorter inherits from Sorter, which inherits from Part. Sorter is defined in depot/sorter.py on line 5"
                ]
            ),
        ),
        (
            "Which classes derive directly from Sorter?",
            snapshot(
                ["FastSorter inherits from Sorter at depot/sorter.py:26:class FastSorter(Sorter):"]
            ),
        ),
        (
            "How many classes inherit from `Part`?",
            snapshot(["1 class inheriting from Part: Sorter"]),
        ),
        (
            "How many methods does Sorter have?",
            snapshot(
                [
                    "Sorter has 3 methods: start, take_crate, _jam. At depot/sorter.py:5:class Sorter(Part):"
                ]
            ),
        ),
        (
            "How many methods has Sorter, not counting private ones?",
            snapshot(
                [
                    "Sorter has 2 methods: start, take_crate. At depot/sorter.py:5:class Sorter(Part):"
                ]
            ),
        ),
        (
            "How many parameters does `take_crate` take?",
            snapshot(
                [
                    "take_crate has 2 parameters: weight, fragile. At depot/sorter.py:14:    def take_crate("
                ]
            ),
        ),
        (
            "How many fields does the class Sorter have?",
            snapshot(
                ["Sorter has 2 fields: lanes, speed. At depot/sorter.py:5:class Sorter(Part):"]
            ),
        ),
        ("How many places call weigh_all?", snapshot(["1 place with calls of weigh_all:"])),
        (
            "How many sections does config/depot.toml have?",
            snapshot(["config/depot.toml has 2 sections: gate, sorter"]),
        ),
        (
            "How many sections does depot.toml have?",
            snapshot(["config/depot.toml has 2 sections: gate, sorter"]),
        ),
        (
            "How many parts does the README list?",
            snapshot(["README.md has 2 list items: the sorter, the gate"]),
        ),
        (
            "Is take_crate told fragile if nobody says so?",
            snapshot(
                [
                    "The default of fragile in take_crate is False. At depot/sorter.py:14:    def take_crate("
                ]
            ),
        ),
        (
            "What is the default of lanes in Sorter?",
            snapshot(
                ["The default of lanes in Sorter is 4. At depot/sorter.py:5:class Sorter(Part):"]
            ),
        ),
    ],
)
def test_what_code_sees_for_itself(request_: str, said: list[str]) -> None:
    assert [fact.text for fact in facts(look(request_))] == said


def test_an_answer_has_to_go_by_the_facts() -> None:
    lookup = look("How many methods does Sorter have?")
    assert misses(lookup, "It has three methods.") is None
    assert misses(lookup, "Sorter has 3 methods.") is None
    assert misses(lookup, "Sorter has 2 methods.") == facts(lookup)[0].text
    place = look("In which file and on which line is weigh_all defined?")
    assert misses(place, "depot/sorter.py, line 31") is None
    assert misses(place, "depot/sorter.py, line 32")
    assert misses(place, "depot/base.py, line 31")


def test_a_request_for_more_than_one_fact_is_answered_from_the_lines() -> None:
    lookup = look("Who calls weigh_all, and what does it return?")
    assert facts(lookup) == []
    assert "FastSorter.start calls weigh_all" in shown(lookup, 2000)
    assert "return sum(one(crate) for crate in crates)" in shown(lookup, 2000)


@pytest.mark.parametrize(
    ("request_", "unmentioned"),
    [
        ("Is there a function called parse_csv here?", ["parse_csv"]),
        ("Does this project talk to Prometheus?", ["Prometheus"]),
        ("Where is shred_crate defined?", ["shred_crate"]),
        ("Are there any bulldozers?", ["bulldozers"]),
        ("Is there any code here that makes PDF files?", ["PDF"]),
    ],
)
def test_what_no_line_mentions_is_absent(request_: str, unmentioned: list[str]) -> None:
    lookup = look(request_)
    assert lookup.absent
    assert lookup.unmentioned == unmentioned


@pytest.mark.parametrize(
    "request_",
    ["Is there a sorter?", "Does Sorter have a weigh_all?", "Is there a take-crate function?"],
)
def test_what_some_line_mentions_may_be_there(request_: str) -> None:
    assert not look(request_).absent


@pytest.mark.parametrize(
    "request_",
    [
        "Who reviewed take_crate?",
        "How many crates went through the sorter last week?",
        "Who came up with the sorter?",
    ],
)
def test_what_is_said_of_people_and_dates_the_project_has_to_mention(request_: str) -> None:
    assert look(request_).beyond


def test_a_person_that_the_project_mentions_is_not_beyond_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(FILES, "depot/sorter.py", f"# author: Zorp\n{FILES['depot/sorter.py']}")
    lookup = look("Who came up with the class Sorter?")
    assert not lookup.beyond
    assert "author: Zorp" in shown(lookup, 2000)


def test_a_file_that_is_not_where_the_request_says_is_looked_for_by_its_name() -> None:
    lookup = look("How many lanes does plant/config/depot.toml set?")
    assert [(each.kind, each.what) for each in lookup.done] == snapshot(
        [("file", "plant/config/depot.toml"), ("name", "depot.toml"), ("file", "config/depot.toml")]
    )
    assert lookup.files_named == ["config/depot.toml"]
    assert "depot.toml:5:lanes = 4" in shown(lookup, 2000)
    nowhere = look("How many lanes does plant/gone.toml set?")
    assert [(each.kind, each.what) for each in nowhere.done] == snapshot(
        [("file", "plant/gone.toml"), ("name", "gone.toml")]
    )
    assert nowhere.files_named == []


def test_a_constant_is_shown_with_what_is_said_of_it() -> None:
    assert shown(look("How many crates fit on a lane?"), 2000).splitlines()[0] == snapshot(
        "depot/limits.py:1:MOST_CRATES = 340    <- Crates that fit on a lane."
    )
    assert "GATE_PATIENCE = 75    <- Seconds before a gate gives up" in shown(
        look("After how many seconds does a gate give up?"), 2000
    )


def test_words_of_a_model_find_what_the_request_describes_otherwise() -> None:
    request = "Which file puts boxes in order of where they go?"
    assert look(request).vague
    assert "depot/sorter.py" not in shown(look(request), 2000)
    assert "Sorts crates by their destination" in shown(look(request, "sort", "destination"), 2000)


@pytest.mark.parametrize(
    ("request_", "intent", "names"),
    [
        ("who calls zap_it()", Intent.USES, ["zap_it"]),
        ("What invokes `Gate.open`?", Intent.USES, ["Gate", "open"]),
        ("`zap_it` is used where?", Intent.USES, ["zap_it"]),
        ("Which function does zap_it call?", None, ["zap_it"]),
        ("If I call zap_it without a size, what is taken?", None, ["zap_it"]),
        ("zap_it calls fold_it. Why?", None, ["zap_it", "fold_it"]),
        ("path and line of ZapIt please", Intent.PLACE, ["ZapIt"]),
        ("What is on the command line for zap_it?", None, ["zap_it"]),
        ("Which classes extend ZapIt?", Intent.HEIRS, ["ZapIt"]),
        ("What does ZapIt extend?", Intent.BASES, ["ZapIt"]),
        ("Hello there", None, []),
    ],
)
def test_what_is_asked_of_the_names(request_: str, intent: Intent | None, names: list[str]) -> None:
    reading = Reading(request_)
    assert (reading.intent, reading.names) == (intent, names)
