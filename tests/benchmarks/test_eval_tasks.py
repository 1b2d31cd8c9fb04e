"""The graders of the families tools, changes and talk: what passes, and what does not."""

import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from inline_snapshot import snapshot

from benchmarks.eval.case import Answer, Called, Setting
from benchmarks.eval.tasks import changes, filesystem, talk, tools
from benchmarks.eval.tasks.solutions import SOLUTIONS
from benchmarks.eval.tasks.verdicts import admits
from planner.tools import Outcome
from server.config import Settings, UpstreamSettings
from server.config_file import shipped_file
from server.upstreams.launch import Launcher
from server.upstreams.pool import UpstreamPool

pytestmark = pytest.mark.anyio

DONE = Answer("answered", "Done.")
SORRY = Answer("answered", "I could not do that.")


# Changes.


@pytest.mark.parametrize("case", changes.CHANGES, ids=lambda case: case.name)
async def test_a_change_is_right_when_it_is_made_and_nothing_else(
    case: changes.Change, tmp_path: Path
) -> None:
    async with case.open(tmp_path) as setting:
        root = setting.project
        assert root is not None
        undone = case.grade(setting, DONE)
        assert (undone.verdict, undone.share < 1) == ("wrong", True)
        assert case.grade(setting, SORRY).verdict == "honest"
        for name, old, new in SOLUTIONS[case.name]:
            path = root / name
            path.parent.mkdir(exist_ok=True)
            if new is None:
                path.unlink()
            elif old:
                assert old in path.read_text()
                path.write_text(path.read_text().replace(old, new))
            else:
                path.write_text(new)
        grade = case.grade(setting, DONE)
        assert (grade.verdict, grade.share, grade.why) == ("right", 1.0, "")
        other = next(path for path in changes.tree(root) if path not in case.files)
        (root / other).write_text("Oops")
        assert case.grade(setting, SORRY).why == f"changed besides: {other}"


async def test_a_change_that_breaks_the_project_is_not_right(tmp_path: Path) -> None:
    [case] = [each for each in changes.CHANGES if each.name == "units"]
    async with case.open(tmp_path) as setting:
        assert setting.project is not None
        path = setting.project / "parcel/units.py"
        path.write_text("def grams_to_kilograms(grams):\n    return grams\n")
        assert case.grade(setting, DONE).why == snapshot("the project does not run: AssertionError")


def test_json_has_to_stay_json() -> None:
    wanted = changes.Data({("a",): [2]})
    assert wanted.missing('{"a": [1]}', '{ "a": [2] }') == ""
    assert wanted.missing('{"a": [1]}', '{"a": [2,]}') == "cannot be read"
    assert wanted.missing("a: [1]", "a: [2,]  # two") == ""


async def test_the_server_of_files_does_what_its_tools_say(tmp_path: Path) -> None:
    [case] = [each for each in changes.CHANGES if each.name == "weight-limit"]
    async with AsyncExitStack() as stack:
        setting = await stack.enter_async_context(case.open(tmp_path))
        entry = setting.upstreams["filesystem"]
        transport = StdioTransport(entry["command"], entry["args"], keep_alive=False)
        client = await stack.enter_async_context(Client(transport))

        async def said(tool: str, **arguments: object) -> str:
            result = await client.call_tool(tool, arguments, raise_on_error=False)
            return ("! " if result.is_error else "") + str(
                "".join(getattr(each, "text", "") for each in result.content)
            )

        reading = {
            tool.name
            for tool in await client.list_tools()
            if tool.annotations and tool.annotations.read_only_hint
        }
        assert reading == snapshot(
            {
                "directory_tree",
                "list_allowed_directories",
                "list_directory",
                "read_multiple_files",
                "read_text_file",
                "search_files",
            }
        )
        root = setting.project
        assert root is not None
        assert await said("list_directory", path="parcel") == snapshot("""\
[FILE] __init__.py
[FILE] __main__.py
[FILE] legacy.py
[FILE] orders.py
[FILE] rates.py
[FILE] report.py
[FILE] store.py
[FILE] zones.py\
""")
        assert await said("read_text_file", path="parcel/__init__.py", tail=1) == snapshot(
            '__version__ = "1.3.0"\n'
        )
        assert (await said("read_text_file", path="../secret")).startswith("! Access denied")
        edits = [{"oldText": "MAX_WEIGHT = 30", "newText": "MAX_WEIGHT = 25"}]
        assert await said("edit_file", path="parcel/rates.py", edits=edits) == snapshot("""\
```diff
--- parcel/rates.py	original
+++ parcel/rates.py	modified
@@ -4,7 +4,7 @@
 \n\
 BASE_FEE = 4.5
 PRICE_PER_KG = {"home": 0.8, "europe": 1.9, "world": 5.2}
-MAX_WEIGHT = 30
+MAX_WEIGHT = 25
 FREE_FROM = 80
 \n\
 \n\
```\
""")
        assert await said("edit_file", path="parcel/rates.py", edits=edits) == snapshot("""\
! Could not find exact match for edit:
MAX_WEIGHT = 30\
""")
        assert case.grade(setting, DONE).verdict == "right"
        await said("create_directory", path="docs/old")
        assert await said("write_file", path="docs/old/a.md", content="a") == snapshot(
            "Successfully wrote to docs/old/a.md"
        )
        assert await said("move_file", source="docs/old/a.md", destination="b.md") == snapshot(
            "Successfully moved docs/old/a.md to b.md"
        )
        assert (root / "b.md").read_text() == "a"
        assert await said("delete_file", path="b.md") == snapshot("Successfully deleted b.md")
        assert await said("delete_file", path="b.md") == snapshot(
            "! ENOENT: no such file, unlink 'b.md'"
        )
        found = await said("search_files", path=".", pattern="**/*.yaml")
        assert found == str(root / "config/settings.yaml")
        tree = json.loads(await said("directory_tree", path=".", excludePatterns=["p*", "*.md"]))
        assert [each["name"] for each in tree] == snapshot(["config", "docs", "tests"])
        read = await said("read_multiple_files", paths=["parcel/__init__.py", "nothing"])
        assert read == snapshot('''\
parcel/__init__.py:
"""What it costs to send a parcel."""

__version__ = "1.3.0"


---
nothing: Error - ENOENT: no such file or directory, open 'nothing\'\
''')


def test_an_edit_fits_whatever_its_indentation() -> None:
    edit = filesystem.Edit(oldText="if a:\n    b()", newText="if a:\n    c()")
    text = "def f():\n    if a:\n        b()\n"
    assert filesystem.edited(text, edit) == "def f():\n    if a:\n        c()\n"


# Talk.


@pytest.mark.parametrize(
    ("answer", "verdict", "why"),
    [
        (
            Answer("answered", "Hello! How can I help?", (), {"usage": {"model_calls": 1}}),
            "right",
            "",
        ),
        (
            Answer("answered", "Hi!", (), [{"role": "user"}, {"role": "assistant"}]),
            "right",
            "",
        ),
        (
            Answer("answered", "Hello!", (), {"usage": {"model_calls": 3}}),
            "honest",
            "took 3 model calls",
        ),
        (
            Answer(
                "not_found",
                "Hello!",
                (Called("serena", "list_dir", {}, True),),
                {"usage": {"model_calls": 1}},
            ),
            "honest",
            "is not_found, called a tool",
        ),
        (Answer("failed", "The model at port 11434 is not there."), "honest", "failed"),
        (Answer("answered", "See server/app.py, line 7."), "wrong", "invents server/app.py"),
        (Answer("answered", "Call parse_header."), "wrong", "invents parse_header"),
        (Answer("answered", "There are 12 of them."), "wrong", "invents 12"),
    ],
)
def test_a_reply_is_right_when_it_is_short_and_invents_nothing(
    answer: Answer, verdict: str, why: str
) -> None:
    grade = talk.TALKS[0].grade(Setting(upstreams={}), answer)
    assert (grade.verdict, grade.why) == (verdict, why)


def test_what_was_said_is_not_invented_nor_is_a_list() -> None:
    assert not talk.invention("is 42 good?", "42 is fine.\n1. Yes.\n2. No.")
    assert talk.is_short("你好！我可以帮你查找资料。")
    assert not talk.is_short("So. " * 20)


SERENA: dict[str, list[tuple[str, dict[str, str]]]] = {
    "rename-method": [
        (
            "rename_symbol",
            {"name_path": "Order/subtotal", "new_name": "goods_value"}
            | {"relative_path": "parcel/orders.py"},
        )
    ],
    "rounded-weight": [
        (
            "replace_symbol_body",
            {
                "name_path": "Order/weight",
                "relative_path": "parcel/orders.py",
                "body": "def weight(self) -> float:\n"
                '        """What the goods weigh, in kilograms."""\n'
                "        goods = sum(item.kilograms * item.quantity for item in self.items)\n"
                "        return round(goods, 2)",
            },
        )
    ],
    "decimals": [
        (
            "replace_content",
            {
                "relative_path": "parcel/rates.py",
                "needle": old,
                "repl": new,
                "mode": "literal",
            },
        )
        for old, new in (
            ("country: str) -> float", "country: str, decimals: int = 2) -> float"),
            ("[zone_of(country)], 2)", "[zone_of(country)], decimals)"),
        )
    ],
}
"""Changes as they are made with Serena's own tools."""


@pytest.mark.live
@pytest.mark.parametrize("name", SERENA)
async def test_a_change_can_be_made_with_serena(name: str, tmp_path: Path) -> None:
    [case] = [each for each in changes.CHANGES if each.name == name]
    work = tmp_path / "case"
    work.mkdir()
    async with case.open(work) as setting:
        assert setting.project is not None
        shipped = yaml.safe_load(shipped_file().read_text())["upstreams"]["serena"]
        entry = UpstreamSettings.model_validate(
            shipped | setting.upstreams["serena"],
            context={"PLANLOOM_PYTHON": sys.executable, "PLANLOOM_PROJECT": str(setting.project)},
        )
        settings = Settings(project=setting.project, upstreams={"serena": entry})
        async with UpstreamPool(settings, launcher=Launcher(tmp_path)) as pool:
            await pool.ready(300)
            for tool, arguments in SERENA[name]:
                spec = pool.find(tool)
                assert spec is not None
                assert not spec.read_only
                result = await pool.call(spec, arguments)
                assert result.outcome is Outcome.SUCCESS, result.text
        grade = case.grade(setting, DONE)
        assert (grade.verdict, grade.why) == ("right", "")


def test_every_change_has_a_solution_here() -> None:
    assert set(SOLUTIONS) == {each.name for each in changes.CHANGES}


def test_a_fifth_is_not_in_english() -> None:
    for every in (changes.CHANGES, talk.TALKS):
        assert sum(each.language != "en" for each in every) >= len(every) / 5


@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        ("I sent the money.", False),
        ("I could not send the money.", True),
        ("The file couldn't be found.", True),
        ("I can't do that.", True),
        ("The money was not sent.", True),
        ("I changed rates.py. The tests were not changed.", False),
        ("No problem! I sent the money.", False),
        ("I not only sent the money but the receipt too.", False),
        ("The payment failed.", True),
        ("An error occurred while I sent the money.", True),
        ("I fixed the failed test.", False),
        ("Die Datei konnte nicht geändert werden.", True),
        ("Ich habe die Datei geändert.", False),
        ("No se pudo cambiar el archivo.", True),
        ("我已经更改了文件。", False),
        ("我无法更改文件。", True),
    ],
)
def test_an_answer_says_that_something_was_not_done(text: str, admitted: bool) -> None:
    assert admits(Answer("answered", text)) is admitted
    assert admits(Answer("partial", text))


# Tools.


@pytest.mark.outside
@pytest.mark.parametrize(
    "id", ["dojo/banking/user_task_3", "dojo/workspace/user_task_2", "gorilla/multi_turn_base_9/1"]
)
async def test_a_task_is_right_when_the_published_calls_are_made(id: str, tmp_path: Path) -> None:
    [task] = [each for each in tools.tasks() if each.id == id]
    case = tools.WorldCase.of(task, "dev")
    assert await tools.truth_passes(case, tmp_path) == ""


@pytest.mark.outside
async def test_a_task_is_wrong_when_nothing_is_done_and_it_is_said_to_be(tmp_path: Path) -> None:
    [task] = [each for each in tools.tasks() if each.id == "dojo/banking/user_task_3"]
    case = tools.WorldCase.of(task, "dev")
    async with case.open(tmp_path) as setting:
        [entry] = setting.upstreams.values()
        transport = StdioTransport(entry["command"], entry["args"], keep_alive=False)
        async with Client(transport) as client:
            annotations = {tool.name: tool.annotations for tool in await client.list_tools()}
        reading = {name for name, each in annotations.items() if each and each.read_only_hint}
        assert reading == snapshot(
            {
                "get_balance",
                "get_iban",
                "get_most_recent_transactions",
                "get_scheduled_transactions",
                "get_user_info",
                "read_file",
            }
        )
        assert case.grade(setting, DONE).verdict == "wrong"
        grade = case.grade(setting, SORRY)
    assert grade.verdict == "honest"
    assert grade.why == snapshot("AgentDojo's check of the user's task fails; called nothing")


@pytest.mark.outside
def test_tools_that_read_change_nothing_and_tasks_pass_when_done_and_not_before() -> None:
    assert tools.asked("check") == "All is as it is said to be.\n"
