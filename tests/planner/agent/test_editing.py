"""Changes of files: written again by a model, compared by code, made by calls of the pool."""

from collections.abc import Sequence
from typing import Any

import pytest
from in_memory import (
    ALLOWED,
    LIST,
    SEARCH,
    WRITE,
    DictionaryPool,
    Fast,
    Ran,
    Unconstrained,
    deciding,
    planned,
    spec,
)
from inline_snapshot import snapshot
from replies import conclusion, deed, plan, steps, was_done

from planner.events import ApprovalAsked, PlanMade
from planner.evidence.file_parts import parts
from planner.protocol import Limits
from planner.tools import Approval, Outcome, Policy, Safety, ToolResult, ToolSpec

pytestmark = pytest.mark.anyio

READ = spec("read_file", "path", file_argument="path")
EDIT = ToolSpec(
    name="edit_file",
    upstream="files",
    description="Replaces texts in a file.",
    input_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}},
            "preview": {"type": "boolean", "default": False},
        },
        "required": ["path", "edits"],
        "$defs": {
            "Edit": {
                "type": "object",
                "properties": {"before": {"type": "string"}, "after": {"type": "string"}},
                "required": ["before", "after"],
            }
        },
    },
    safety=Safety.WRITE,
)
SWAP = spec("swap", "file_path", "needle", "repl", safety=Safety.WRITE)
GATES = "OPEN_HOURS = 8\n\n\ndef open_gate(name):\n    return name\n"
USE = "from gates import open_gate\n\nopen_gate('north')\n"
SHOWN = {
    "path": "some.txt",
    "edits": [{"before": "OLD_TEXT", "after": "NEW_TEXT"}],
    "preview": True,
}
RENAMED = {"wants": "rename open_gate to open_door"}
SWAPPED = {"file_path": "x", "needle": "OLD_TEXT", "repl": "NEW_TEXT"}


class Files(DictionaryPool):
    """Files that are changed, too."""

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        if tool.read_only or self.results.get(tool.name):
            return await super().call(tool, arguments)
        self.calls.append((tool.name, arguments))
        path = arguments.get("path") or arguments["file_path"]
        pairs = [(each["before"], each["after"]) for each in arguments.get("edits", [])]
        for old, new in pairs or [(arguments["needle"], arguments["repl"])]:
            assert self.files[path].count(old) == 1
            self.files[path] = self.files[path].replace(old, new)
        return ToolResult(outcome=Outcome.SUCCESS, text="Done.")


class Careless(Files):
    """Each change is made in another place as well."""

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        result = await super().call(tool, arguments)
        if not tool.read_only:
            self.files["gates.py"] = self.files["gates.py"].replace("return name", "return 9")
        return result


def files(*tools: ToolSpec) -> Files:
    return Files({"gates.py": GATES, "use.py": USE}, specs=[SEARCH, READ, LIST, *tools])


def rewritten(text: str) -> Unconstrained:
    return Unconstrained(f"```python\n{text}```")


def about(
    *search: str, tool: str = "edit_file", shown: Any = SHOWN, files: Sequence[str] = ("gates.py",)
) -> list[Any]:
    """How a request for a change is read, which tool makes it, and in which files."""
    said = {"files": [*files]}
    return [Fast(deed(*search)), {"tool": tool}, {"tools": [tool]}, shown, said]


async def hours(pool: Files, **options: Any) -> Ran:
    return await planned(
        *about("OPEN_HOURS"),
        rewritten(GATES.replace("= 8", "= 9")),
        pool=pool,
        prompt="Set OPEN_HOURS to 9",
        **(ALLOWED | options),
    )


@pytest.mark.parametrize("beside", [(), (SWAP,)])
async def test_a_server_that_only_writes_makes_the_changes_where_the_one_that_reads_cannot(
    beside: Sequence[ToolSpec],
) -> None:
    elsewhere = EDIT.model_copy(update={"upstream": "elsewhere"})
    pool = files(elsewhere, *beside)
    tool = "swap" if beside else "edit_file"
    shown = SWAPPED if beside else SHOWN
    await planned(
        *about("OPEN_HOURS", tool=tool, shown=shown),
        rewritten(GATES.replace("= 8", "= 9")),
        pool=pool,
        prompt="Set OPEN_HOURS to 9",
        **ALLOWED,
    )
    assert pool.files["gates.py"] == GATES.replace("= 8", "= 9")
    assert pool.calls[-2][0] == tool


async def test_a_file_is_written_again_and_what_differs_is_changed() -> None:
    pool = files(EDIT, WRITE)
    ran = await hours(pool)
    assert pool.files["gates.py"] == GATES.replace("= 8", "= 9")
    made = [arguments for name, arguments in pool.calls if name == "edit_file"]
    assert made == [
        {"path": "gates.py", "edits": [{"before": "OPEN_HOURS = 8", "after": "OPEN_HOURS = 9"}]}
    ]
    assert (ran.state.status, ran.state.answer) == snapshot(
        (
            "answered",
            """\
gates.py
```diff
-OPEN_HOURS = 8
+OPEN_HOURS = 9
```\
""",
        )
    )
    [planned_] = [each for each in ran.events if isinstance(each, PlanMade)]
    assert planned_.tools == snapshot(
        {"Change gates.py: OPEN_HOURS = 8 → OPEN_HOURS = 9": "edit_file"}
    )


async def test_how_files_are_written_again_is_asked_without_the_runs_own_prompt() -> None:
    ran = await hours(files(EDIT))
    which, asked = (each for each in ran.asked if each.text.startswith("You change files"))
    assert which.last.splitlines()[:-1] == snapshot(
        [
            "Files of the project, with what they say about the request:",
            "=== gates.py",
            "OPEN_HOURS = 8",
            "...",
            "def open_gate(name):",
            "    return name",
            "=== use.py",
            "from gates import open_gate",
            "",
            "open_gate('north')",
            "Request: Set OPEN_HOURS to 9",
        ]
    )
    system, question = (each["content"] for each in asked.messages)
    assert (system, question.splitlines()[:-1]) == snapshot(
        (
            "You change files of a project as a user asks.",
            [
                "The file gates.py:",
                "```",
                "OPEN_HOURS = 8",
                "",
                "",
                "def open_gate(name):",
                "    return name",
                "```",
                "Request: Set OPEN_HOURS to 9",
            ],
        )
    )


@pytest.mark.parametrize(
    ("path", "use", "reason"),
    [
        ("use.py", USE, None),
        ("use.py", f"import gates\n{USE}gates.open_gate('south')\n", None),
        ("use.py", f"{USE}locks.open_gate('south')\n", "locks.open_gate may be something else"),
        ("open_gate.py", USE, "open_gate.py may be something else"),
    ],
)
async def test_a_renamed_definition_takes_its_uses_along_without_a_model(
    path: str, use: str, reason: str | None
) -> None:
    pool = files(SWAP)
    pool.files = {"gates.py": GATES, path: use}
    shown = SWAPPED
    ran = await planned(
        *about("open_gate", tool="swap", shown=shown),
        rewritten(GATES.replace("open_gate", "open_door")),
        RENAMED,
        pool=pool,
        prompt="rename open_gate to open_door",
        **ALLOWED,
    )
    assert pool.files[path] == use.replace("open_gate", "open_door")
    assert pool.files["gates.py"] == GATES.replace("open_gate", "open_door")
    assert (ran.state.status, ran.state.reason) == ("partial" if reason else "answered", reason)


@pytest.mark.parametrize(
    ("request_", "old", "new", "other", "left"),
    [
        (
            *("rename open_gate to open_door", "open_gate", "open_door", "shut_gate"),
            "print(shut_gate(2)) → print(open_door(2))",
        ),
        (
            *("Change OPEN_HOURS from 8 to 9", "8", "9", "2"),
            "print(shut_gate(2)) → print(shut_gate(9))",
        ),
    ],
)
async def test_nothing_else_gets_the_new_name_or_value(
    request_: str, old: str, new: str, other: str, left: str
) -> None:
    pool = files(EDIT)
    pool.files["gates.py"] = f"{GATES}\n\nprint(open_gate(1))\n\nprint(shut_gate(2))\n"
    written = pool.files["gates.py"].replace(old, new)
    ran = await planned(
        *about("OPEN_HOURS", "open_gate"),
        rewritten(written.replace(other, new)),
        *([RENAMED] if "rename" in request_ else []),
        pool=pool,
        prompt=request_,
        **ALLOWED,
    )
    told = f"left out in gates.py, because it replaces something else: {left}"
    assert (ran.state.status, ran.state.reason) == ("partial", told)
    assert pool.files["gates.py"] == written


async def test_what_is_only_added_takes_no_place() -> None:
    pool = files(EDIT)
    written = GATES.replace("open_gate(name)", "open_gate(name, hours=OPEN_HOURS)")
    pool.files["gates.py"] = f"{GATES}\n\nprint(OPEN_HOURS)\n"
    ran = await planned(
        *about("open_gate", "hours"),
        rewritten(f"{written}\n\nprint(hours)\n"),
        pool=pool,
        prompt="Give open_gate a parameter hours, which is OPEN_HOURS by default, and print it",
        **ALLOWED,
    )
    assert pool.files["gates.py"] == f"{written}\n\nprint(hours)\n"
    assert ran.state.status == "answered"


async def test_a_file_with_a_name_of_the_request_is_changed_beside_one_that_it_names() -> None:
    pool = files(EDIT)
    pool.files["use.py"] = f"{USE}print(OPEN_HOURS)\n"
    ran = await planned(
        *about("OPEN_HOURS", files=["gates.py", "use.py"]),
        rewritten(GATES.replace("OPEN_HOURS = 8\n", "")),
        rewritten(f"OPEN_HOURS = 8\n{pool.files['use.py']}"),
        pool=pool,
        prompt="Take OPEN_HOURS out of gates.py",
        **ALLOWED,
    )
    assert "OPEN_HOURS = 8" in pool.files["use.py"]
    assert ran.state.status == "answered"


@pytest.mark.parametrize("more", [0, 40])
async def test_a_function_that_was_written_in_the_place_of_another_one_goes_behind_it(
    more: int,
) -> None:
    """Asked for one beside another, small models write it over that one."""
    rest = "".join(f"\n\ndef ring_{n}(bell):\n    return bell + {n}\n" for n in range(more))
    pool = files(EDIT)
    pool.files["gates.py"] = GATES + rest
    new = "def shut_gate(name):\n    return not name\n"
    ran = await planned(
        *about("open_gate", "gates"),
        rewritten("OPEN_HOURS = 8\n\n\n" + new + (rest if not more else "")),
        {"wants": "add shut_gate"},
        rewritten(new),
        pool=pool,
        prompt="Add shut_gate beside open_gate",
        **ALLOWED,
    )
    assert pool.files["gates.py"] == f"{GATES}\n\n{new}{rest}"
    assert pool.files["use.py"] == USE
    assert ran.state.status == "answered"


async def test_a_value_that_was_written_in_the_place_of_another_one_goes_behind_it() -> None:
    pool = files(EDIT)
    await planned(
        *about("OPEN_HOURS"),
        rewritten(GATES.replace("OPEN_HOURS = 8", "SHUT_HOURS = 16")),
        {"wants": "add SHUT_HOURS"},
        pool=pool,
        prompt="Add SHUT_HOURS = 16 below OPEN_HOURS",
        **ALLOWED,
    )
    assert pool.files["gates.py"].startswith("OPEN_HOURS = 8\nSHUT_HOURS = 16\n\n")


async def test_uses_that_a_search_left_out_are_told() -> None:
    class Cut(Files):
        async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
            result = await super().call(tool, arguments)
            text = "\n".join(result.text.splitlines()[:2]) if tool is SEARCH else result.text
            return result.model_copy(update={"text": text})

    uses = {f"use_{n}.py": "from gates import open_gate\n" for n in range(3)}
    ran = await planned(
        *about("open_gate"),
        rewritten(GATES.replace("open_gate", "open_door")),
        RENAMED,
        pool=Cut({"gates.py": GATES, **uses}, specs=[SEARCH, READ, EDIT]),
        prompt="rename open_gate to open_door",
        **ALLOWED,
    )
    assert (ran.state.status, ran.state.reason) == (
        "partial",
        "open_gate still stands in use_1.py, use_2.py",
    )


async def test_a_file_without_the_old_name_is_written_again_as_well() -> None:
    pool = files(EDIT)
    pool.files["notes.md"] = "# Notes\n\n- gates open at 8\n"
    written = f"{pool.files['notes.md']}- open_door is the new name\n"
    ran = await planned(
        *about("open_gate", "gates", files=["gates.py", "notes.md", "use.py"]),
        rewritten(GATES.replace("open_gate", "open_door")),
        RENAMED,
        rewritten(written),
        pool=pool,
        prompt="rename open_gate to open_door, and say so in the notes",
        **ALLOWED,
    )
    assert pool.files["notes.md"] == written
    assert pool.files["use.py"] == USE.replace("open_gate", "open_door")
    assert ran.state.status == "answered"


async def test_what_a_new_name_is_for_is_looked_for_where_the_old_one_stands() -> None:
    pool = files(EDIT)
    pool.files["notes.md"] = "# Notes\n\n- gates open at 8\n"
    await planned(
        *about("open_gate", "gates", files=["notes.md"]),
        rewritten(GATES.replace("open_gate", "open_door")),
        RENAMED,
        pool=pool,
        prompt="rename open_gate to open_door",
        **ALLOWED,
    )
    assert pool.files["gates.py"] == GATES.replace("open_gate", "open_door")
    assert pool.files["use.py"] == USE.replace("open_gate", "open_door")


MANY = "\n\n".join(f"def gate_{n}():\n    # opens gate {n}\n    return {n}\n" for n in range(60))


async def test_what_a_request_quotes_is_changed_where_it_stands() -> None:
    pool = files(EDIT)
    pool.files["gates.py"] = MANY
    ran = await planned(
        *about("comment", "gate"),
        rewritten("def gate_42():\n    # opens gate forty-two\n    return 42\n"),
        pool=pool,
        prompt='Write the number in the comment "opens gate 42" in letters',
        **ALLOWED,
    )
    assert pool.files["gates.py"] == MANY.replace("opens gate 42", "opens gate forty-two")
    assert ran.state.status == "answered"


async def test_what_a_request_quotes_and_no_edit_changes_is_told() -> None:
    pool = files(EDIT)
    pool.files["gates.py"] = f"{GATES}\n\n# opens the gate\n"
    ran = await planned(
        *about("comment", "gate"),
        rewritten(pool.files["gates.py"].replace("8", "9")),
        pool=pool,
        prompt='Write the comment "opens the gate" of OPEN_HOURS in capitals',
        **ALLOWED,
    )
    assert ran.state.reason == snapshot('no change was found for "opens the gate"')


@pytest.mark.parametrize("replaced", ["", "return"])
async def test_one_change_in_several_parts_of_a_file_is_told(replaced: str) -> None:
    request = "Say that it is a gate, in gate_3 or gate_30"
    pool = files(EDIT)
    pool.files["gates.py"] = MANY
    shown = parts("gates.py", MANY, request, [], {"gate_3", "gate_30"})
    assert len(shown) == 2
    ran = await planned(
        *about("gate"),
        *(
            rewritten(
                f"{each.text.split(replaced)[0] if replaced else each.text}\n    pass  # a gate\n"
            )
            for each in shown
        ),
        pool=pool,
        prompt=request,
        **ALLOWED,
    )
    assert (ran.state.status, ran.state.reason) == (
        "partial",
        "gates.py was changed in several places, and one may be enough",
    )


async def test_what_the_file_that_the_request_names_defines_is_not_defined_in_another_one() -> None:
    pool = files(EDIT)
    added = "\n\ndef shut_gate(name):\n    return None\n"
    ran = await planned(
        *about("gates", "open_gate", files=["use.py", "gates.py"]),
        rewritten(f"{GATES}{added}"),
        rewritten(f"{USE}{added}"),
        pool=pool,
        prompt="Add a function shut_gate to gates.py, beside open_gate",
        **ALLOWED,
    )
    assert pool.files["gates.py"] == f"{GATES}{added}"
    assert pool.files["use.py"] == USE
    assert (ran.state.status, ran.state.reason) == ("answered", None)


async def test_what_a_part_of_a_file_defines_now_is_not_defined_in_another_one() -> None:
    request = "Define SHUT_GATE, like gate_3 and gate_30"
    pool = files(EDIT)
    pool.files["gates.py"] = MANY
    shown = parts("gates.py", MANY, request, [], {"gate_3", "gate_30"})
    assert len(shown) == 2
    one, other = (f"{each.text}\n\n\nSHUT_GATE = {n}\n" for n, each in enumerate(shown))
    ran = await planned(
        *about("gate"), rewritten(one), rewritten(other), pool=pool, prompt=request, **ALLOWED
    )
    assert pool.files["gates.py"].count("SHUT_GATE") == 1
    assert ran.state.reason == "left out in gates.py: what it defines already"


def rates(limit: int) -> str:
    return "\n\n".join(f"def rate_{n}():\n    return {limit if n == 7 else n}\n" for n in range(60))


async def test_where_a_number_is_replaced_only_what_has_the_old_one_is_written_again() -> None:
    pool = files(EDIT)
    pool.files |= {"gates.py": rates(4096), "use.py": "import gates  # rates, limits\n"}
    ran = await planned(
        *about("rate", "limit", files=["use.py", "gates.py"]),
        rewritten("def rate_7():\n    return 2048\n"),
        pool=pool,
        prompt="Lower the limit of the rates from 4096 to 2048",
        **ALLOWED,
    )
    assert pool.files["gates.py"] == rates(2048)
    assert (ran.state.status, ran.state.reason) == ("answered", None)


async def test_what_there_is_no_time_to_write_is_told_and_the_rest_is_changed() -> None:
    pool = files(EDIT)
    closed = pool.files["use.py"] = f"{USE}closed = 8\n"
    ran = await planned(
        *about("hours", "closed", files=["gates.py", "use.py"]),
        Unconstrained(f"```\n{GATES.replace('8', '9')}```", {"decode_seconds": 60.0}),
        pool=pool,
        prompt="Set OPEN_HOURS in gates.py and closed in use.py to 9",
        limits=Limits(seconds=120),
        **ALLOWED,
    )
    assert pool.files["gates.py"] == GATES.replace("8", "9")
    assert pool.files["use.py"] == closed
    assert ran.state.status == "partial"
    assert ran.state.reason == snapshot(
        "there was no time for all of use.py; no change was found for use.py"
    )


async def test_what_a_long_file_does_not_have_yet_is_written_by_itself() -> None:
    pool = files(EDIT)
    pool.files["gates.py"] = MANY
    within = "def gate_3(n):\n    def shut_gate(n):\n        return n\n"
    ran = await planned(
        *about("gate"),
        rewritten(within),
        rewritten('import os\n\n\ndef shut_gate(n):\n    """Shut it."""\n    return -n\n'),
        pool=pool,
        prompt="Define shut_gate, like gate_3",
        **ALLOWED,
    )
    asked = next(each for each in ran.asked if "has these lines" in each.last)
    assert [line for line in asked.last.splitlines()[:-1] if "def gate_" not in line] == snapshot(
        [
            "The file gates.py has these lines, among others:",
            "```",
            "```",
            "One of its definitions as a whole:",
            "```",
            "    # opens gate 3",
            "    return 3",
            "```",
            "Request: Define shut_gate, like gate_3",
        ]
    )
    like = "    # opens gate 3\n    return 3\n"
    shut = 'def shut_gate(n):\n    """Shut it."""\n    return -n\n'
    assert pool.files["gates.py"] == MANY.replace(like, f"{like}\n\n{shut}")
    assert (ran.state.status, ran.state.reason) == ("partial", "left out in gates.py: import os")


async def test_a_file_that_could_not_be_read_any_more_is_not_written() -> None:
    pool = files(EDIT)
    closed = pool.files["use.py"] = f"{USE}closed = 8\n"
    ran = await planned(
        *about("hours", "closed", files=["gates.py", "use.py"]),
        rewritten(GATES.replace("8", "(9")),
        rewritten(closed.replace("8", "9")),
        pool=pool,
        prompt="Set OPEN_HOURS in gates.py and closed in use.py to 9",
        **ALLOWED,
    )
    assert pool.files["gates.py"] == GATES
    assert pool.files["use.py"] == closed.replace("8", "9")
    assert ran.state.status == "partial"
    assert ran.state.reason == snapshot(
        "left out in gates.py, since the file could not be parsed any more: OPEN_HOURS = 8 → "
        "OPEN_HOURS = (9; no change was found for gates.py"
    )


async def test_what_cannot_be_written_is_not_planned_in_another_way() -> None:
    """A plan would write the file as a whole, with less of it in view."""
    pool = files(EDIT)
    ran = await planned(
        *about("hours"),
        rewritten(GATES.replace("8", "(9")),
        conclusion("It was not set.", success=False),
        pool=pool,
        prompt="Set OPEN_HOURS in gates.py to 9",
        **ALLOWED,
    )
    assert pool.files["gates.py"] == GATES
    assert "plan" not in [role for role, _ in ran.roles]
    assert ran.state.answer == snapshot(
        "Nothing was changed: what the model wrote cannot be used: left out in gates.py, since the "
        "file could not be parsed any more: OPEN_HOURS = 8 → OPEN_HOURS = (9."
    )


async def test_what_is_not_asked_about_stays_beside_a_function_that_is() -> None:
    pool = files(EDIT)
    two = pool.files["gates.py"] = "def gate_2():\n    return 2\n\n\ndef gate_3():\n    return 3\n"
    ran = await planned(
        *about("gate_3", "width"),
        rewritten(two.replace("()", "(width)")),
        pool=pool,
        prompt="Give gate_3 a parameter width",
        **ALLOWED,
    )
    assert pool.files["gates.py"] == two.replace("gate_3()", "gate_3(width)")
    assert ran.state.status == "partial"
    assert ran.state.reason == snapshot(
        "left out in gates.py, in functions not asked about: def gate_2(): → def gate_2(width):"
    )


async def test_a_file_whose_edits_are_less_likely_is_told() -> None:
    pool = files(EDIT)
    pool.files["use.py"] = f"{USE}closed = 3\n"
    ran = await planned(
        *about("hours", "closed", files=["gates.py", "use.py"]),
        rewritten(GATES.replace("= 8", "= 19")),
        rewritten(pool.files["use.py"].replace("= 3", "= 19")),
        pool=pool,
        prompt="Set the opening hours to 19",
        **ALLOWED,
    )
    assert pool.files["gates.py"] == GATES.replace("= 8", "= 19")
    assert pool.files["use.py"].endswith("closed = 3\n")
    assert (ran.state.status, ran.state.reason) == (
        "partial",
        "use.py may have to be changed as well",
    )


async def test_a_word_that_is_replaced_in_parts_of_a_long_file_only_is_told() -> None:
    pool = files(EDIT)
    units = [f"## Part {n}\n\nCall open_gate, and wait. {'So it is. ' * 40}" for n in range(12)]
    pool.files = {"guide.md": "\n\n".join(units)}
    shown = parts("guide.md", pool.files["guide.md"], "open_gate", [], {"open_gate"})
    ran = await planned(
        *about("open_gate", files=["guide.md"]),
        *(rewritten(f"{each.text.replace('open_gate', 'open_door')}\n") for each in shown),
        pool=pool,
        prompt="write open_door instead of open_gate",
        **ALLOWED,
    )
    assert {"open_gate", "open_door"} <= {*pool.files["guide.md"].replace(",", "").split()}
    assert (ran.state.status, ran.state.reason) == (
        "partial",
        "guide.md has open_gate in other places, too",
    )


async def test_all_changes_are_planned_before_the_first_is_asked_for() -> None:
    async def decline(tool: ToolSpec, arguments: dict[str, Any]) -> Approval:
        return Approval(approved=False, by="person", reason="not today")

    pool = files(EDIT)
    ran = await hours(pool, policy=Policy.ASK, approver=decline)
    kinds = [type(each) for each in ran.events]
    assert kinds.index(PlanMade) < kinds.index(ApprovalAsked)
    assert pool.files["gates.py"] == GATES
    assert ran.state.status == "refused"
    assert ran.state.answer == snapshot(
        "Nothing was changed: edit_file was not approved (not today)."
    )


async def test_a_change_that_the_file_does_not_show_is_not_certain() -> None:
    pool = files(EDIT)
    pool.results["edit_file"] = ["Done."]
    ran = await hours(pool)
    assert (ran.state.status, ran.state.reason) == (
        "partial",
        "gates.py is not as the change was to leave it",
    )
    assert ran.state.answer == "No change is seen in gates.py."


async def test_what_a_tool_has_changed_besides_is_told_and_shown() -> None:
    pool = Careless({"gates.py": GATES}, specs=[SEARCH, READ, EDIT])
    ran = await hours(pool)
    assert (ran.state.status, ran.state.reason) == (
        "partial",
        "gates.py is not as the change was to leave it",
    )
    assert {"-    return name", "+    return 9"} <= {*ran.state.answer.splitlines()}


async def test_where_nothing_would_change_calls_are_planned() -> None:
    pool = files(EDIT)
    ran = await planned(
        *about("OPEN_HOURS"),
        Unconstrained("NOTHING"),
        plan("edit_file"),
        {"path": "gates.py", "edits": [{"before": "OPEN_HOURS = 8", "after": "OPEN_HOURS = 9"}]},
        was_done("OPEN_HOURS is 9."),
        pool=pool,
        prompt="Set OPEN_HOURS to 9",
        **ALLOWED,
    )
    assert ran.state.status == "answered"
    assert ran.state.answer.endswith("\n\nThe model says:\nOPEN_HOURS is 9.")


async def test_only_the_edits_that_were_made_are_shown() -> None:
    pool = files(SWAP)
    pool.files = {"gates.py": "HOURS = 8\n\n\ndef f():\n    return 1\n\n\nDEFAULT_HOURS = 8\n"}
    shown = SWAPPED
    ran = await planned(
        *about("HOURS", tool="swap", shown=shown),
        rewritten(pool.files["gates.py"].replace("= 8", "= 9")),
        pool=pool,
        prompt="Set HOURS and DEFAULT_HOURS to 9",
        policy=Policy.ASK,
        approver=deciding(False, True),
    )
    assert pool.files["gates.py"].startswith("HOURS = 8\n")
    edits, left = ran.state.answer.split("\n\n")
    assert edits.splitlines()[2:4] == ["-DEFAULT_HOURS = 8", "+DEFAULT_HOURS = 9"]
    assert left.endswith("not approved (the user said no)")
    assert ran.state.status == "partial"


@pytest.mark.parametrize(
    "line", [r"GATE_RE = re.compile(r'\d+ gate\'s')", r'GATE_RE = "C:\temp"', "GATE_RE = 'it''s'"]
)
async def test_an_edit_of_quotes_and_backslashes_is_no_claim_of_a_model(line: str) -> None:
    pool = files(EDIT)
    pool.files = {"gates.py": f"{line}\n"}
    ran = await planned(
        *about("GATE_RE"),
        rewritten(f"{line}  # checked\n"),
        pool=pool,
        prompt="Add the comment checked to GATE_RE",
        **ALLOWED,
    )
    assert pool.files["gates.py"] == f"{line}  # checked\n"
    assert (ran.state.status, ran.state.reason) == ("answered", None)
    assert f"+{line}  # checked" in ran.state.answer


@pytest.mark.parametrize(
    ("tools", "needed", "shown"),
    [
        ({"tool": None}, {"tools": ["write_file"]}, None),
        ({"tool": "edit_file"}, {"tools": ["write_file"]}, None),
        ({"tool": "edit_file"}, {"tools": ["edit_file"]}, {"path": "x", "edits": []}),
    ],
)
async def test_a_request_that_is_not_met_by_replacing_texts_is_planned(
    tools: Any, needed: Any, shown: Any
) -> None:
    pool = files(EDIT, WRITE)
    pool.results["write_file"] = ["Written."]
    ran = await planned(
        Fast(deed("gates")),
        tools,
        needed,
        *([shown] if shown else []),
        plan("write_file"),
        {"path": "new.py", "text": "pass"},
        was_done("new.py was written."),
        pool=pool,
        prompt="Write pass to new.py, beside gates.py",
        **ALLOWED,
    )
    assert [name for name, arguments in pool.calls if "text" in arguments] == ["write_file"]
    assert ran.state.status == "answered"


LONG = f"a = 1\nb = 2\nc = 3\nOPEN_HOURS = 8\n{GATES * 100}"
SET = {"path": "gates.py", "text": "OPEN_HOURS = 9"}


@pytest.mark.parametrize(
    ("given", "left", "reason"),
    [
        (SET, LONG, "gates.py reads as it did before"),
        ({"text": "+++ gates.py\n-OPEN_HOURS\n"}, LONG, "gates.py reads as it did before"),
        (SET, "OPEN_HOURS = 9\n", "gates.py has lost lines that the model was not shown"),
        (SET, f"a = 1\nb = 2\nc = 3\n\n{LONG}", "gates.py has lines twice that it had once"),
        (
            SET,
            LONG.replace("= 8", "= ("),
            "gates.py could be parsed before, and cannot be any more",
        ),
        (SET, LONG.replace("= 8", "= 9"), None),
        (
            {"path": "gates.py", "text": "# hours"},
            f"# hours{LONG}",
            "a line of gates.py was run together with what was added",
        ),
        ({"path": "gates.py", "text": ""}, "", "gates.py is empty now"),
        ({"path": "gates.py", "text": "keeper@example.com"}, LONG, None),
        ({"path": "old/hours.py", "text": "OPEN_HOURS = 8"}, LONG, None),
    ],
)
async def test_files_are_read_again_after_planned_calls(
    given: dict[str, str], left: str, reason: str | None
) -> None:
    class Saying(Files):
        async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
            if tool.name == "patch":
                self.files["gates.py"] = left
            return await super().call(tool, arguments)

    patch = spec("patch", "path?", "text", safety=Safety.WRITE)
    results: dict[str, list[str | ToolResult]] = {"patch": ["The project is locked."]}
    ran = await planned(
        *(Fast(deed("OPEN_HOURS")), plan("patch"), given, was_done("It was done.")),
        pool=Saying({"gates.py": LONG}, specs=[SEARCH, READ, LIST, patch], results=results),
        prompt="Set OPEN_HOURS to 9 in gates.py, keeper@example.com, as in old/hours.py",
        **ALLOWED,
    )
    assert (ran.state.status, ran.state.reason) == ("partial" if reason else "answered", reason)


async def test_a_file_that_one_of_two_planned_calls_empties_is_read_again() -> None:
    class Emptied(Files):
        async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
            if tool.name == "patch" and not arguments["text"]:
                self.files["gates.py"] = ""
            return await super().call(tool, arguments)

    patch = spec("patch", "path?", "text", safety=Safety.WRITE)
    results: dict[str, list[str | ToolResult]] = {"patch": ["Noted.", "Done."]}
    ran = await planned(
        Fast(deed("OPEN_HOURS")),
        steps(("Note who asks", "patch"), ("Empty it", "patch")),
        {"path": "gates.py", "text": "keeper@example.com"},
        {"path": "gates.py", "text": ""},
        was_done("It was done."),
        pool=Emptied({"gates.py": LONG}, specs=[SEARCH, READ, LIST, patch], results=results),
        prompt="Note keeper@example.com in gates.py, and empty it",
        **ALLOWED,
    )
    assert (ran.state.status, ran.state.reason) == ("partial", "gates.py is empty now")


async def test_a_change_that_became_possible_is_made() -> None:
    create = spec("create_folder", "path", safety=Safety.WRITE)
    pool = files(WRITE, create)
    no = ToolResult(outcome=Outcome.FAILURE, text="There is no folder docs.")
    pool.results["write_file"] = [no, "Written."]
    pool.results["create_folder"] = ["Created."]
    steps = [{"objective": each, "tool": each} for each in ("write_file", "create_folder")]
    arguments = {"path": "docs/gates.md", "text": "pass"}
    ran = await planned(
        Fast(deed("gates")),
        {"steps": steps},
        arguments,
        arguments,
        was_done("docs is not there.", "create_folder", "create_folder"),
        {"path": "docs"},
        was_done("docs/gates.md was written with pass."),
        pool=pool,
        prompt="Write pass to docs/gates.md, beside gates.py",
        **ALLOWED,
    )
    made = [name for name, _ in pool.calls if name in ("write_file", "create_folder")]
    assert made == ["write_file", "create_folder", "write_file"]
    assert ran.state.status == "answered"


async def test_what_would_end_a_message_is_in_the_file_as_it_was() -> None:
    pool = files(EDIT)
    pool.files["gates.py"] = f"END = '<|im_end|>'\n{GATES}"
    ran = await planned(
        *about("OPEN_HOURS"),
        rewritten(f"END = '‹|im_end|>'\n{GATES.replace('= 8', '= 9')}"),
        pool=pool,
        prompt="Set OPEN_HOURS to 9",
        **ALLOWED,
    )
    (asked,) = [each for each in ran.asked if each.schema is None]
    assert "<|im_end|>" not in asked.text
    assert pool.files["gates.py"] == f"END = '<|im_end|>'\n{GATES.replace('= 8', '= 9')}"


@pytest.mark.parametrize("prompt", ["Set OPEN_HOURS and/or hours to 9", "Set it to 9 in gates.py"])
async def test_only_files_that_are_there_are_written_again(prompt: str) -> None:
    pool = files(EDIT)
    ran = await planned(
        *about("OPEN_HOURS"),
        rewritten(GATES.replace("= 8", "= 9")),
        pool=pool,
        prompt=prompt,
        **ALLOWED,
    )
    assert pool.files["gates.py"] == GATES.replace("= 8", "= 9")
    assert ran.state.status == "answered"


async def test_what_has_nothing_to_do_with_the_request_stays() -> None:
    pool = files(EDIT)
    written = GATES.replace("= 8", "= 9").replace("return name", "return 'north'")
    ran = await planned(
        *about("OPEN_HOURS"),
        rewritten(written),
        pool=pool,
        prompt="Set OPEN_HOURS to 9",
        **ALLOWED,
    )
    assert pool.files["gates.py"] == GATES.replace("= 8", "= 9")
    assert (ran.state.status, ran.state.reason) == snapshot(
        (
            "partial",
            "left out in gates.py, without a word of the request: return name → return 'north'",
        )
    )


async def test_what_uses_a_name_that_an_edit_brings_is_changed_with_it() -> None:
    pool = files(EDIT)
    written = f"import sys\n\nout = sys.stderr\n{GATES}"
    written = written.replace("return name", "return out.write(name)")
    ran = await planned(
        *about("OPEN_HOURS", "stderr"),
        rewritten(written),
        pool=pool,
        prompt="Let gates.py use stderr",
        **ALLOWED,
    )
    assert pool.files["gates.py"] == written
    assert ran.state.status == "answered"


@pytest.mark.parametrize(
    ("prompt", "needed", "reason"),
    [
        ("Set OPEN_HOURS to 9", "write_file", None),
        ("Set OPEN_HOURS to 9", "tell", None),
        ("Write OPEN_HOURS as 9", "write_file", None),
        (
            "Set OPEN_HOURS to 9, and say so in docs/hours.md",
            "write_file",
            "no change was found for docs/hours.md",
        ),
        (
            "把gates.py里的OPEN_HOURS改成9，并写入docs/hours.md文件",
            "write_file",
            "no change was found for docs/hours.md",
        ),
        ("Set OPEN_HOURS to 9, and tell the keeper", "tell", "tell may be needed as well"),
        ("Set OPEN_HOURS to 9: use.py needs it", "write_file", None),
        ("Set OPEN_HOURS to 9, as Gate.hours", "write_file", None),
    ],
)
async def test_what_the_request_needs_besides_its_edits_is_told(
    prompt: str, needed: str, reason: str | None
) -> None:
    tell = spec("tell", "whom", "text", safety=Safety.WRITE)
    read, tool, _, *rest = about("OPEN_HOURS")
    ran = await planned(
        *(read, tool, {"tools": ["edit_file", needed]}, *rest),
        rewritten(GATES.replace("= 8", "= 9")),
        pool=files(EDIT, WRITE, tell),
        prompt=prompt,
        **ALLOWED,
    )
    assert ran.state.reason == reason
    assert ran.state.status == ("partial" if reason else "answered")


async def test_a_file_that_the_request_names_and_that_stays_is_told() -> None:
    ran = await planned(
        *about("open_gate", files=["gates.py", "use.py"]),
        rewritten(GATES.replace("return name", "return None")),
        Unconstrained("NOTHING"),
        pool=files(EDIT),
        prompt="Return None from open_gate in gates.py, and do not print it in use.py",
        **ALLOWED,
    )
    assert (ran.state.status, ran.state.reason) == (
        "partial",
        "no change was found for use.py",
    )


async def test_what_was_cut_off_is_written_up_to_what_the_file_has() -> None:
    pool = files(EDIT)
    begun = "\n\ndef close_gate(name):\n    for each in name"
    ran = await planned(
        *about("OPEN_HOURS", "close_gate"),
        Unconstrained(f"```python\n{GATES.replace('= 8', '= 9')}{begun}"),
        pool=pool,
        prompt="Set OPEN_HOURS to 9, and add close_gate",
        reply_fields={"finish": "length"},
        **ALLOWED,
    )
    assert pool.files["gates.py"] == GATES.replace("= 8", "= 9")
    assert (ran.state.status, ran.state.reason) == (
        "partial",
        "what was written for gates.py was cut off",
    )


async def test_a_change_may_take_all_calls_that_there_are() -> None:
    ran = await hours(files(EDIT), limits=Limits(iterations=1))
    assert (ran.state.status, ran.state.reason) == ("answered", None)
    assert ran.state.answer.startswith("gates.py\n```diff\n")


async def test_a_definition_that_the_file_has_is_not_added_once_more() -> None:
    """A small model writes the class around a method again."""
    pool = files(EDIT)
    pool.files["tolls.py"] = "class Toll:\n    def raised(self):\n        return 1\n"
    new = "    def count(self):\n        return 2\n"
    again = "class Toll:\n    def pay(self):\n        return 3\n"
    ran = await planned(
        *about("Toll", files=["tolls.py"]),
        rewritten(f"{again}\n\n{pool.files['tolls.py']}{new}"),
        pool=pool,
        prompt="Add a method count() to `Toll`",
        **ALLOWED,
    )
    assert pool.files["tolls.py"] == f"class Toll:\n    def raised(self):\n        return 1\n{new}"
    assert (ran.state.status, ran.state.reason) == (
        "partial",
        "left out in tolls.py: what it defines already",
    )


async def test_what_only_uses_a_name_that_is_changed_is_not_written_by_the_model() -> None:
    others = [f"def {name}():\n    return {name * 9}\n" for name in ("free", "open", "none")] * 3
    uses = [f"def use_{n}():\n    return Toll({n}, {'x' * 80})\n" for n in range(40)]
    text = "\n\n".join(["class Toll:\n    pass\n", *others, *uses])
    pool = files(EDIT)
    pool.files["tolls.py"] = text
    ran = await planned(
        *about("Toll", files=["tolls.py"]),
        rewritten("class Charge:\n    pass"),
        {"wants": "rename Toll to Charge"},
        pool=pool,
        prompt="rename the class `Toll` to `Charge`",
        **ALLOWED,
    )
    assert ran.state.status == "answered"
    assert pool.files["tolls.py"] == text.replace("Toll", "Charge")


@pytest.mark.parametrize("iterations", [10, 1])
async def test_with_few_calls_each_file_is_changed_by_one_or_none_is(iterations: int) -> None:
    pool = files(SWAP)
    pool.files["use.py"] = "\nelse\n".join(f"open_gate({number})" for number in range(12))
    shown = SWAPPED
    ran = await planned(
        *about("open_gate", tool="swap", shown=shown),
        rewritten(GATES.replace("open_gate", "open_door")),
        RENAMED,
        *([conclusion("It was not done.")] if iterations == 1 else []),
        pool=pool,
        prompt="rename open_gate to open_door",
        limits=Limits(iterations=iterations),
        **ALLOWED,
    )
    calls = [name for name, _ in pool.calls].count("swap")
    if iterations == 10:
        assert (ran.state.status, calls) == ("answered", 2)
        assert pool.files["use.py"].count("open_door(") == 12
        assert "-open_gate(3)\n+open_door(3)\n-open_gate(4)\n+open_door(4)" in ran.state.answer
    else:
        assert calls == 0
        assert (ran.state.status, ran.state.answer) == snapshot(
            ("failed", "Nothing was changed: it takes 2 calls, and the run has 1 iteration left.")
        )
        assert PlanMade not in map(type, ran.events)
