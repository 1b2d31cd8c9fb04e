"""The records of a run and what is derived from them."""
# ruff: noqa: E501  texts stand as they are derived

import pytest
from in_memory import READ, SEARCH, DictionaryPool, Ran, planned
from inline_snapshot import snapshot
from planted import CLASS, CONSTANT, SOURCE, VALUE
from replies import conclusion, deep, found, move_on, nowhere, plan, stay

from planner.actions import Action, actions, attempts, in_words, mode
from planner.events import EVENT, ResultAssessed
from planner.state import RunState
from planner.tools import Outcome, ToolResult

pytestmark = pytest.mark.anyio

QUESTION = f"What does {CLASS} return?"


@pytest.fixture
async def ran() -> Ran:
    """Two steps: one that goes astray and is given up, and one that finds the value."""
    timed_out = ToolResult(outcome=Outcome.TIMEOUT, text="no answer within 5 s\nat all")
    pool = DictionaryPool(
        {"jobs/secret.py": SOURCE, "notes/guide.md": "Nothing is said here.\n"},
        specs=[SEARCH, READ],
        results={"read_file": [timed_out]},
    )
    return await planned(
        nowhere(),
        plan("read_file", "Look for the constant"),
        {"path": "notes/guide.md"},
        deep(stay("read_file", "Read the guide again")),
        {"path": "notes/guide.md"},
        move_on("search", "Look for the constant")
        | {"decision": "give_up", "notes": "notes/guide.md says nothing."},
        {"pattern": f"{CONSTANT}|def run"},
        nowhere(),
        deep(stay("read_file", "Read the file")),
        {"path": "jobs/secret.py"},
        found(f"It returns {CONSTANT}, which is {VALUE}."),
        pool=pool,
        prompt=QUESTION,
    )


def told(action: Action) -> dict[str, object]:
    """What a record says besides what the call itself was."""
    (call,) = action.tool_calls
    fields = action.model_dump(exclude={"timestamp", "tool_calls", "step", "prompt"})
    kept = {"name", "outcome", "insights", "learning", "relevance"}
    return {key: value for key, value in fields.items() if value} | call.model_dump(include=kept)


async def test_every_iteration_is_recorded(ran: Ran) -> None:
    done = actions(ran.state)
    assert [told(action) for action in done] == snapshot(
        [
            {
                "mode": "fast",
                "approach": "What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?",
                "progress": "advancing",
                "hypothesis": {"belief": "", "test": ""},
                "name": "search",
                "outcome": Outcome.SUCCESS,
                "insights": "",
                "learning": "5 new lines",
                "relevance": "high",
            },
            {
                "iteration": 1,
                "mode": "fast",
                "approach": "What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?",
                "progress": "stuck",
                "hypothesis": {"belief": "", "test": ""},
                "name": "search",
                "outcome": Outcome.SUCCESS,
                "insights": "",
                "learning": "nothing new",
                "relevance": "high",
            },
            {
                "iteration": 2,
                "mode": "deep",
                "thinking": "Not enough yet.",
                "planning": "read_file: Read the guide again",
                "reflection": "The wrong file was read.",
                "approach": "What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?: Read the file",
                "progress": "stuck",
                "hypothesis": {"belief": "", "test": ""},
                "name": "read_file",
                "outcome": Outcome.TIMEOUT,
                "insights": "Not enough yet.",
                "learning": "TIMEOUT: no answer within 5 s",
                "relevance": "low",
            },
            {
                "iteration": 3,
                "mode": "fast",
                "approach": "What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?: Read the file",
                "synthesis": "notes/guide.md says nothing.",
                "progress": "regressing",
                "hypothesis": {
                    "belief": "It stands in another file.",
                    "test": "read_file: Read the guide again",
                },
                "name": "read_file",
                "outcome": Outcome.SUCCESS,
                "insights": "notes/guide.md says nothing.",
                "learning": "1 new line",
                "relevance": "low",
            },
            {
                "iteration": 4,
                "mode": "deep",
                "thinking": "Not enough yet.",
                "planning": "read_file: Read the file",
                "reflection": "The wrong file was read.",
                "approach": "What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?: Look for the constant",
                "progress": "advancing",
                "hypothesis": {"belief": "", "test": ""},
                "name": "search",
                "outcome": Outcome.SUCCESS,
                "insights": "Not enough yet.",
                "learning": "1 new line",
                "relevance": "high",
            },
            {
                "iteration": 5,
                "mode": "fast",
                "approach": "What does VeryUniqueClassName_Phoenix_2025_QW3RTY return?: Look for the constant",
                "progress": "advancing",
                "hypothesis": {
                    "belief": "It stands in another file.",
                    "test": "read_file: Read the file",
                },
                "name": "read_file",
                "outcome": Outcome.SUCCESS,
                "insights": "It returns UNIQUE_CONSTANT_VERIFICATION_ZX9, which is 48613.",
                "learning": "7 new lines",
                "relevance": "high",
            },
        ]
    )
    wire = [EVENT.validate_json(EVENT.dump_json(event)) for event in ran.events]
    assert actions(RunState.of(wire)) == done


async def test_attempts_are_derived(ran: Ran) -> None:
    done = actions(ran.state)
    assert attempts(done) == snapshot(
        [
            "search((?i)VeryUniqueClassName_Phoenix_2025_QW3RTY|valu|uniqu|class|phoenix|return) → 5 new lines: jobs/secret.py:3:UNIQUE_CONSTANT_VERIFICATION_ZX9 = 48613 jobs/secret.py:6:class VeryUniqueClassName_Phoenix_2025_QW3RTY",
            "search((?i)VeryUniqueClassName_Phoenix_2025_QW3RTY|valu|qqqq|zzzz|uniqu|class|phoenix|r) → nothing new: jobs/secret.py:3:UNIQUE_CONSTANT_VERIFICATION_ZX9 = 48613 jobs/secret.py:6:class VeryUniqueClassName_Phoenix_2025_QW3RTY",
            "Not enough yet. (search(UNIQUE_CONSTANT_VERIFICATION_ZX9|def run))",
            "It returns UNIQUE_CONSTANT_VERIFICATION_ZX9, which is 48613. (read_file(jobs/secret.py))",
            "without result: read_file(notes/guide.md)",
        ]
    )


async def test_a_decision_is_deep_from_the_first_sign_that_the_fast_way_does_not_carry(
    ran: Ran,
) -> None:
    assert sum(isinstance(event, ResultAssessed) for event in ran.events) == 2
    chosen = [each for each in ran.state.iterations if each.by == "choice"]
    modes = [each.mode for each in chosen][:3]
    # a timeout; a file that is read; the step before without success, in spite of a new line
    assert modes == ["deep", "fast", "deep"]
    decisions = [
        asked for asked, (role, _) in zip(ran.asked, ran.roles, strict=True) if role == "decide"
    ]
    for asked, how in zip(decisions, modes, strict=True):
        branches = asked.schema["anyOf"] if asked.schema else []
        assert len(branches) == 3
        for branch in branches:
            assert ({"belief", "critique"} <= set(branch["required"])) == (how == "deep")
            assert list(branch["properties"]) == sorted(branch["properties"])
        assert ('"critique"' in asked.last) == (how == "deep")


async def test_an_empty_result_a_refusal_and_a_repeat_are_signs_too() -> None:
    pool = DictionaryPool({"jobs/secret.py": SOURCE}, specs=[SEARCH, READ])
    ran = await planned(
        nowhere(),
        plan("search"),
        {"pattern": "qqqqqqq"},
        deep(stay("read_file", "Read the file")),
        {"path": "jobs/secret.py"},
        nowhere(),
        stay("search", "Look again"),
        {"pattern": CLASS},
        nowhere(),
        deep(conclusion("It is not there.", success=False)),
        pool=pool,
        prompt=QUESTION,
    )
    gathered = [each for each in ran.state.iterations if each.by == "lookup"]
    assert [each.mode for each in gathered] == ["fast", "fast"]
    assert [each.mode for each in ran.state.iterations[2:]] == ["deep", "fast", "deep"]
    assert [each.progress for each in actions(ran.state)][2:] == [
        "stuck",
        "advancing",
        "regressing",
    ]
    assert mode(RunState()) == "fast"


def test_arguments_read_as_a_person_would_say_them() -> None:
    told = [
        in_words({"substring_pattern": "create_task_group", "relative_path": "src"}),
        in_words({"path": "src/a.py", "start_line": 1, "end_line": 20}),
        in_words({"relative_path": ".", "recursive": True}),
        in_words({"libraryName": "anyio", "query": "task groups"}),
        in_words({}),
    ]
    assert told == snapshot(
        [
            "create_task_group in src",
            "src/a.py (start_line 1, end_line 20)",
            "everything",
            "anyio task groups",
            "everything",
        ]
    )
