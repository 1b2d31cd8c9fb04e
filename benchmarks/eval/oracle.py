"""The oracle: a model that answers rightly whenever the evidence stands in its prompt.

    python -m benchmarks.eval.oracle                       # both splits, all families
    python -m benchmarks.eval.oracle --families lookup,talk --split dev

Where it does not reach the right end, the planner is in the way of a strong model: a bound, a
guard, a check, a second reading. It runs in this process, on no model server, and cuts its replies
and refuses prompts where a real one would.
"""

import difflib
import json
import math
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import anyio
import anyio.lowlevel
import typer
from anyio import to_thread
from jsonschema import Draft202012Validator
from rapidfuzz import fuzz

from benchmarks.eval.__main__ import Choice, by_place, cases_of, named, selected
from benchmarks.eval.case import Answer, Called, Case, Grade, Setting
from benchmarks.eval.context7 import LIBRARIES
from benchmarks.eval.families import CASES
from benchmarks.eval.memory import UPSTREAM, ProjectPool, Watched
from benchmarks.eval.question import Question
from benchmarks.eval.results import markdown
from benchmarks.eval.systems import START_SECONDS, STOP, Bench, check
from benchmarks.eval.tasks.changes import Change
from benchmarks.eval.tasks.solutions import SOLUTIONS
from benchmarks.eval.tasks.talk import Talk
from benchmarks.eval.tasks.tools import WorldCase
from benchmarks.eval.wire import plain
from planner import agent
from planner.errors import ContextExceeded
from planner.evidence.context import SEE_MORE
from planner.evidence.words import is_name, tokens
from planner.models.base import ChatRequest, Message, Models, Reply
from planner.protocol import Limits, RunRequest, Wants
from planner.state import RunState
from planner.tools import Approval, Policy, ToolPool, ToolSpec
from server.config import ModelSettings
from server.config_file import load_settings, shipped_file
from server.upstreams.launch import Launcher
from server.upstreams.pins import Pins
from server.upstreams.pool import UpstreamPool

CONTEXT_TOKENS = 8192
CHARACTERS_PER_TOKEN = 4
SEARCH = "search_for_pattern"
MAX_SEARCHED = MAX_WORDS = 6
MAX_TERM_CHARS = 30
MAX_WORD_CHARS = 24
MAX_BEGINNING_CHARS = 40
"""Characters of the beginning of what is missing, which the oracle guesses and searches for."""
FILE_TOOLS = {"lists": "list_directory", "reads": "read_text_file"}
"""Of the pool of files in `change`, as it lists them and reads one."""
EDITING: dict[str, dict[str, Any]] = {
    "edit_file": {"path": "x", "edits": [{"oldText": "OLD_TEXT", "newText": "NEW_TEXT"}]},
    "replace_content": {"relative_path": "x", "needle": "OLD_TEXT", "repl": "NEW_TEXT"},
}
"""How the tools are called that replace texts in files."""
MIN_LINE_CHARS = 6
"""Characters of a line; shorter ones are like any text."""
NOTED = {"assessment", "belief", "critique", "notes", "objective"}
"""What a decision may have to say besides."""
MAX_TRIES = 2
"""Of one call."""
_ITEM = re.compile(r"(?:\s|\A)\d\.(?:\s|\Z)")
"""What an item of an answer begins with."""
_BLANK = re.compile(r"<\w+>")
"""`<summary>`: what the published calls of a task have in place of a text of one's own."""
MAX_TOLD_CHARS = 120
"""Characters of a result that such a text tells."""
NOT_FOUND = "It could not be found out."
NO = "No, there is none."
SECONDS = 120.0
KNOWN = [family for family in CASES if family != "lists"]
"""The families whose evidence or calls are known; what is to be worked out from a list is not."""


@dataclass(frozen=True)
class Call:
    """A call that has to be made, once what it needs has been seen."""

    tool: str
    arguments: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    looks: bool = False
    """Whether it is made only to see what other calls need."""


@dataclass(frozen=True)
class Knowledge:
    """What the oracle knows of a case beforehand."""

    wants: Wants
    question: str
    answer: str
    """Given when the evidence was seen and all calls were made."""
    unseen: str = NOT_FOUND
    """Given when nothing is left to be tried."""
    evidence: tuple[tuple[str, ...], ...] = ()
    calls: tuple[Call, ...] = ()
    edits: tuple[tuple[str, str, str], ...] = ()
    """Of files: a path, what is replaced in it, and by what."""


# What it knows.


def knowledge(case: Case, question: str, setting: Setting) -> Knowledge:
    match case:
        case Talk():
            return Knowledge("talk", question, "Hello! 你好!")
        case Change():
            edits = tuple(
                (path, old, new)
                for path, old, new in SOLUTIONS[case.name]
                if old and new is not None
            )
            calls = tuple(_changing(case, setting))
            return Knowledge("action", question, "Done.", calls=calls, edits=edits)
        case WorldCase():
            calls = tuple(Call(each.tool, each.arguments) for each in case.task.truth)
            deed = case.task.kind.endswith("act")
            said = " ".join(_ITEM.split(case.task.said)).strip() or "Done."
            return Knowledge("action" if deed else "short answer", question, said, calls=calls)
        case Question():
            return Knowledge(
                "long answer" if case.family == "broad" else "short answer",
                question,
                case.expected,
                NO if case.kind == "absence" else NOT_FOUND,
                case.evidence,
                tuple(_asking(case, question)) if case.in_docs else (),
            )
    raise TypeError(f"no knowledge of {case.id}")


def _asking(case: Question, question: str) -> Iterator[Call]:
    """The calls of Context7 that show the evidence."""

    def held(library: dict[str, Any]) -> int:
        text = plain("\n".join(each["text"] for each in library["snippets"]))
        return sum(any(plain(text_) in text for text_ in group) for group in case.evidence)

    library = max(LIBRARIES, key=held)
    words = " ".join([question, *(group[0] for group in case.evidence)])
    yield Call("resolve-library-id", {"libraryName": library["title"], "query": question})
    yield Call("query-docs", {"libraryId": library["id"], "query": words})


def _changing(case: Change, setting: Setting) -> Iterator[Call]:
    """The calls that make a change: of the server of files, or of a pool that edits as Serena."""
    assert setting.project is not None
    done = SOLUTIONS[case.name]
    paths = list(dict.fromkeys(path for path, _, _ in done))
    before = {
        path: (setting.project / path).read_text()
        for path in paths
        if (setting.project / path).exists()
    }
    if case.pool == UPSTREAM:
        for path in before:
            yield Call("read_file", {"relative_path": path}, looks=True)
        for path, old, new in done:
            arguments = {"relative_path": path, "needle": old, "repl": new}
            yield Call("replace_content", arguments, needs=(old,))
        return
    after: dict[str, str | None] = dict(before)
    for path, old, new in done:
        was = after.get(path)
        after[path] = was.replace(old, new) if was and old and new is not None else new
    gone = [path for path in paths if after[path] is None]
    yield Call("directory_tree", {"path": "."}, looks=True)
    read = [path for path in before if path not in gone]
    if len(read) > 1:
        yield Call("read_multiple_files", {"paths": read}, looks=True)
    for path in read:
        yield Call("read_text_file", {"path": path}, looks=True)
    for path, text in after.items():
        if text is None:
            continue
        if path in before:
            edits = list(_edits(before[path], text))
            needs = tuple(edit["oldText"] for edit in edits)
            yield Call("edit_file", {"path": path, "edits": edits}, needs)
        elif source := next((each for each in gone if before[each] == text), None):
            gone.remove(source)
            yield Call("move_file", {"source": source, "destination": path})
        else:
            if not (setting.project / path).parent.exists():
                yield Call("create_directory", {"path": str(Path(path).parent)})
            yield Call("write_file", {"path": path, "content": text})
    for path in gone:
        yield Call("delete_file", {"path": path})


def _edits(before: str, after: str) -> Iterator[dict[str, str]]:
    """The lines that differ; with the line before where lines are only added."""
    old, new = before.splitlines(), after.splitlines()
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        first, begin = (i - 1, k - 1) if i == j else (i, k)
        yield {"oldText": "\n".join(old[first:j]), "newText": "\n".join(new[begin:m])}


# What it says.


class Oracle:
    """One run's model, both fast and full; a `planner.models.base.ChatModel`."""

    name = "oracle"
    context_tokens = CONTEXT_TOKENS

    def __init__(self, knows: Knowledge, pool: Watched, speed: float = 0.0) -> None:
        """`speed`: tokens of a prompt that it reads a second; 0: that is not told."""
        self.knows = knows
        self.pool = pool
        self.speed = speed
        self.gathered = False
        """Whether the evidence stood in a prompt before any plan."""
        self.saw = False
        """Whether it stood in any."""
        self.faults: list[str] = []
        """What the planner asked of it that it could not do well."""
        self._planned = False
        self._asked = knows.question
        """The question, or the newest item of it."""
        self._results: list[str] = []
        """Those in the prompt, as they stand there."""
        self._shown = ""
        self._tries: Counter[str] = Counter()

    async def load(self) -> None:
        """It is there."""

    async def aclose(self) -> None:
        """Nothing is held."""

    async def chat(self, request: ChatRequest) -> Reply:
        await anyio.lowlevel.checkpoint()
        messages, max_tokens, schema = request.messages, request.max_tokens, request.schema
        size = sum(len(each["content"]) for each in messages) // CHARACTERS_PER_TOKEN
        if size + max_tokens > self.context_tokens:
            raise ContextExceeded(f"{size} tokens and {max_tokens} do not fit")
        self._read(messages)
        asked = messages[-1]["content"].rpartition("</result>")[2]
        if schema is not None:
            text = self._fitting(asked, schema)
        else:
            text = self._rewritten(asked) if asked.startswith("The file ") else self._facts()
        most = max_tokens * CHARACTERS_PER_TOKEN
        if len(text) > most:
            self.faults.append(f"its reply was cut at {max_tokens} tokens: {text[:60]}…")
        if request.on_text:
            request.on_text(text[:most])
        return Reply(
            text=text[:most],
            finish="length" if len(text) > most else "stop",
            prompt_tokens=size,
            generated_tokens=min(len(text), most) // CHARACTERS_PER_TOKEN,
            prefill_seconds=size / self.speed if self.speed else 0.0,
        )

    def _fitting(self, asked: str, schema: dict[str, Any]) -> str:
        """The reply as JSON of its schema."""
        said = _cut(self._said(asked, schema), schema)
        if wrong := next(Draft202012Validator(schema).iter_errors(said), None):
            self.faults.append(f"its reply does not fit the schema: {wrong.message[:200]}")
        return json.dumps(said, ensure_ascii=False)

    def _rewritten(self, asked: str) -> str:
        """The file in the question with its edits."""
        path, text = re.findall(r"(?s)\AThe file (\S+):\n```\n(.*)\n```\nRequest: ", asked)[0]
        after = text
        for changed, old, new in self.knows.edits:
            after = after.replace(old, new) if changed == path else after
        return "NOTHING" if after == text else f"```\n{after}\n```"

    def _facts(self) -> str:
        """A list in plain text of the evidence that the prompt holds; the answer if that is all."""
        if self._knows:
            return self.knows.answer
        here = [group for group in self.knows.evidence if group not in self._missing]
        lines = (" ".join(self._fact(group).split()) for group in here)
        return "\n".join(f"- {line}" for line in dict.fromkeys(lines)) or "-"

    def _read(self, messages: Sequence[Message]) -> None:
        """The results in the prompt; what the oracle said itself, and the user, tells nothing."""
        told = [each["content"] for each in messages if each["role"] == "user"]
        self._asked = told[0]
        self._results = re.findall(r"(?s)<result>\n(.*?)\n</result>", "\n".join(told))
        lines = re.sub(r"(?m)^\s*(?:[^\s:]+:)?\d+:", "", "\n".join(self._results))
        self._shown = plain(lines)
        self.saw |= self._evident
        self.gathered |= self._evident and not self._planned

    def _stood(self, text: str) -> bool:
        return plain(text) in self._shown

    @property
    def _missing(self) -> list[tuple[str, ...]]:
        """The groups of evidence that the prompt does not hold."""
        return [group for group in self.knows.evidence if not any(map(self._stood, group))]

    @property
    def _evident(self) -> bool:
        return bool(self.knows.evidence) and not self._missing

    @property
    def _knows(self) -> bool:
        left = [call for call in self._left() if not call.looks]
        return bool(self.knows.evidence or self.knows.calls) and not (left or self._missing)

    def _left(self) -> list[Call]:
        """The calls that were not made yet. One with a text of the question is for the item of it
        that has this text."""
        made = list(self.pool.calls)
        left = []
        for call in self.knows.calls:
            said = [each for each in call.arguments.values() if str(each) in self.knows.question]
            if any(str(each) not in self._asked for each in said):
                continue
            same = next((each for each in made if _same(each, call)), None)
            if same:
                made.remove(same)
            else:
                left.append(call)
        return left

    def _next(self) -> list[Call]:
        """The calls that make sense now, in their order."""
        left = self._left()
        blocked = [call for call in left if not all(map(self._stood, call.needs))]
        found = [call for call in left if call not in blocked and (blocked or not call.looks)]
        if not self.knows.calls and any(each.name == SEARCH for each in self.pool.tools()):
            found += [_search(_beginning(group[0])) for group in self._missing]
            found += [] if self.knows.evidence else [self._last_resort]
        return [call for call in found if self._tries[_key(call)] < self._most_tries(call)]

    def _most_tries(self, call: Call) -> int:
        return MAX_TRIES if call in self.knows.calls else 1

    @property
    def _last_resort(self) -> Call:
        return _search("(?i)" + "|".join(map(re.escape, searched(self.knows.question))))

    def _more(self) -> dict[str, Any] | None:
        """The call that shows more of the newest result that was cut."""
        found = re.findall(r"see_more (\{[^}]*\})", "\n".join(self._results))
        calls = [Call(SEE_MORE, json.loads(each)) for each in found]
        untried = [each for each in calls if not self._tries[_key(each)]]
        return dict(untried[-1].arguments) if untried else None

    def _said(self, asked: str, schema: dict[str, Any]) -> dict[str, Any]:
        """The reply, by what its schema has room for."""
        if called := re.search(r"^Call (\S+) for: ", asked, re.MULTILINE):
            return self._arguments(called[1])
        if called := re.search(r"^Write a call of (\S+) that replaces", asked):
            return EDITING[called[1]]
        branches = schema.get("anyOf", [schema])
        match sorted({name for each in branches for name in each["properties"]}):
            case [*names] if "search" in names:
                return self._brief()
            case ["words"]:
                return {"words": self._words()}
            case ["language"]:  # what it says is told as it is
                return {"language": "English"}
            case ["sql"]:
                return {"sql": "SELECT NULL WHERE 0"}
            case ["lists", "reads"]:
                return {
                    name: tool if tool in schema["properties"][name]["enum"] else None
                    for name, tool in FILE_TOOLS.items()
                }
            case ["answer_again"]:
                return {"answer_again": self.knows.answer if self._knows else self.knows.unseen}
            case ["assessment", "final_answer", "found_in"]:
                return self._answer()
            case ["steps"]:
                return self._plan(schema["properties"]["steps"])
            case ["files"]:
                paths = schema["properties"]["files"]["items"]["enum"]
                changed = dict.fromkeys(path for path, _, _ in self.knows.edits if path in paths)
                return {"files": [*changed] or paths[:1]}
            case ["says"]:
                return {"says": schema["properties"]["says"]["enum"][0]}
            case ["wants"]:  # it writes nothing in the place of what stays
                return {"wants": schema["properties"]["wants"]["enum"][-1]}
            case ["tools"]:
                names = schema["properties"]["tools"]["items"]["enum"]
                needed = dict.fromkeys(call.tool for call in self._left() if call.tool in names)
                return {"tools": [*needed] or names[:1]}
            case ["tool"]:
                return {"tool": self._tool(schema["properties"]["tool"]["enum"])}
            case ["final_answer", "missing", "tool"]:
                knows = self._knows
                said = self.knows.answer if knows else self.knows.unseen
                tools = schema["properties"]["tool"]["enum"]
                tool = None if knows else self._tool(tools)
                missing = tool and (self._lacking or tool)
                return {"final_answer": said, "missing": missing, "tool": tool}
            case ["decision", "final_answer", "success"]:
                return self._conclusion()
            case _:
                return self._decision(branches)

    def _brief(self) -> dict[str, Any]:
        self._tries.clear()  # an item of a request may need what was refused for another
        if self.knows.wants == "talk":
            return {"search": [], "reply": self.knows.answer}
        changing = {each.name for each in self.pool.tools() if not each.read_only}
        asks = self.knows.calls and not any(call.tool in changing for call in self._left())
        wants = "short answer" if asks and self.knows.wants == "action" else self.knows.wants
        return {"search": searched(self.knows.question), "wants": wants}

    def _words(self) -> list[str]:
        """Words of what is missing: a strong model guesses good names."""
        text = " ".join(group[0] for group in self._missing)
        words = sorted(
            dict.fromkeys(tokens(text)), key=lambda word: (not is_name(word), -len(word))
        )
        words += [*searched(self.knows.question), "name", "value"]
        return list(dict.fromkeys(word for word in words if len(word) <= MAX_WORD_CHARS))[
            :MAX_WORDS
        ]

    def _answer(self) -> dict[str, Any]:
        if not self._knows:
            return {"assessment": "", "final_answer": self.knows.unseen, "found_in": "nowhere"}
        lines = " ".join(map(self._line, self.knows.evidence))
        return {"assessment": lines, "final_answer": self.knows.answer, "found_in": "results"}

    def _fact(self, group: Sequence[str]) -> str:
        """The line that holds one of these texts; the text itself where it runs over several."""
        line, stood = self._line(group), next(filter(self._stood, group))
        return line if any(plain(text) in plain(line) for text in group) else stood

    def _line(self, group: Sequence[str]) -> str:
        """The line of the results that holds one of these texts, or the most of it."""
        lines = "\n".join(self._results).splitlines()
        scored = (
            (fuzz.partial_ratio(plain(text), plain(line)), line.strip())
            for text in group
            for line in lines
            if len(line.strip()) >= MIN_LINE_CHARS
        )
        return max(scored, default=(0.0, ""))[1]

    def _conclusion(self) -> dict[str, Any]:
        knows = self._knows
        return {
            "decision": "conclude",
            "final_answer": self.knows.answer if knows else self.knows.unseen,
            "success": knows or self.knows.unseen == NO,
        }

    def _plan(self, steps: dict[str, Any]) -> dict[str, Any]:
        self._planned = True
        tools = steps["items"]["properties"]["tool"]["enum"]
        planned: list[Call] = []
        for call in self._next():
            if call.tool in tools:
                planned.append(call)
            elif planned and None not in tools:
                break  # what comes before the next change has to be looked up
        if not planned and None not in tools:
            planned = [call for call in self._left() if call.tool in tools][:1]
            self.faults.append("has to plan a change before it has seen what it needs")
        made = [
            {"objective": f"{number}. {_objective(call)}", "tool": call.tool}
            for number, call in enumerate(planned[: steps["maxItems"]], len(self.pool.calls) + 1)
        ]
        if not made and (lacking := self._lacking):  # a step brings in tools for its objective
            return {"steps": [{"objective": lacking, "tool": next(filter(None, tools))}]}
        none = {"objective": "conclude", "tool": None if None in tools else tools[0]}
        return {"steps": made or [none]}

    @property
    def _lacking(self) -> str | None:
        """What is to be done next, with a tool that may not be offered yet."""
        return next(map(self._purpose, self._next()), None)

    def _purpose(self, call: Call) -> str:
        """What the next call is for, with its number."""
        return f"{len(self.pool.calls) + 1}. {_objective(call)}"

    def _tool(self, tools: Sequence[str | None]) -> str | None:
        return next((call.tool for call in self._next() if call.tool in tools), tools[0])

    def _decision(self, branches: Sequence[dict[str, Any]]) -> dict[str, Any]:
        stay = next(b for b in branches if b["properties"]["decision"].get("const") == "stay")
        tools = stay["properties"]["tool_calls"]["items"]["properties"]["tool"]["enum"]
        calls = [] if self._knows else [call for call in self._next() if call.tool in tools]
        if not self._knows and SEE_MORE in tools and (more := self._more()):
            calls = [Call(SEE_MORE, more)]
        if calls:
            call = calls[0]
            named = {"prompt": self._purpose(call), "tool": call.tool}
            return self._filled(stay) | {"decision": "stay", "tool_calls": [named]}
        if not self._knows and (lacking := self._lacking):
            named = {"prompt": lacking, "tool": tools[0]}
            further = next(b for b in branches if "objective" in b["properties"])
            decided = {"decision": "move_on", "objective": lacking, "tool_calls": [named]}
            return self._filled(further) | decided
        conclude = next(b for b in branches if "final_answer" in b["properties"])
        return self._filled(conclude) | self._conclusion()

    def _filled(self, branch: dict[str, Any]) -> dict[str, Any]:
        """What a decision needs besides what is decided."""
        return {name: "" for name in branch["required"] if name in NOTED}

    def _arguments(self, tool: str) -> dict[str, Any]:
        if tool == SEE_MORE:
            found = self._more() or {}
        else:
            calls = [*self._next(), *self._left(), *self.knows.calls, self._last_resort]
            mine = [call for call in calls if call.tool == tool]
            fresh = [call for call in mine if not self._tries[_key(call)]]
            found = dict((fresh or mine or [Call(tool, {})])[0].arguments)
        self._tries[_key(Call(tool, found))] += 1
        return {name: self._own_text(value) for name, value in found.items()}

    def _own_text(self, value: Any) -> Any:
        """The value, or a text on what was found for one that is left blank."""
        if not (isinstance(value, str) and _BLANK.fullmatch(value)):
            return value
        newest = " ".join(re.findall(r"\w+", self._results[-1])) if self._results else ""
        return f"What I think of it: {newest[:MAX_TOLD_CHARS]}"


def searched(question: str) -> list[str]:
    """Content words and names of the question itself."""
    words = [word for word in dict.fromkeys(tokens(question)) if word.isascii()]
    names = [word for word in words if is_name(word)]
    plain_ = [word for word in words if len(word) >= 4 and word.lower() not in STOP]
    found = list(dict.fromkeys([*names, *plain_])) or sorted(words, key=len)[::-1]
    return [word[:MAX_TERM_CHARS] for word in found][:MAX_SEARCHED] or ["name"]


def _beginning(text: str) -> str:
    """A pattern for the beginning of a text, never the whole: else the call would show it."""
    first = text[: min(MAX_BEGINNING_CHARS, len(text) * 2 // 3)].strip()
    return r"\s+".join(map(re.escape, first.split()))


def _search(pattern: str) -> Call:
    return Call(SEARCH, {"substring_pattern": pattern})


def _objective(call: Call) -> str:
    return f"{call.tool} {json.dumps(dict(call.arguments), ensure_ascii=False)}"[:150]


def _key(call: Call) -> str:
    return f"{call.tool} {json.dumps(dict(call.arguments), sort_keys=True)}"


def _same(made: Called, call: Call) -> bool:
    """Whether this call was made, but for what was left out as empty."""

    def said(arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: value
            for name, value in arguments.items()
            if value not in (None, "") and not _BLANK.fullmatch(str(call.arguments.get(name, "")))
        }

    return made.tool == call.tool and said(made.arguments) == said(call.arguments)


def _cut(said: Any, schema: dict[str, Any]) -> Any:
    """What a grammar lets through of too long texts and lists."""
    match said:
        case str():
            return said[: schema.get("maxLength")]
        case list():
            return [_cut(each, schema.get("items", {})) for each in said[: schema.get("maxItems")]]
        case dict():
            inner = schema.get("properties", {})
            return {name: _cut(value, inner.get(name, {})) for name, value in said.items()}
    return said


# Asking it.


@dataclass(frozen=True)
class Ended:
    """How a case ended."""

    case: Case
    grade: Grade
    state: RunState
    oracle: Oracle

    @property
    def reached(self) -> bool:
        """Whether it is right, and whatever is no talk was looked for, since saying that there is
        nothing takes no planner."""
        looked = bool(self.oracle.pool.calls) or self.oracle.knows.wants == "talk"
        return self.grade.verdict == "right" and looked

    @property
    def doubted(self) -> list[str]:
        """The checks that spoke against what was right."""
        return [f"{each.guard}: {each.message}" for each in self.state.guards]

    @property
    def why(self) -> str:
        """Why the right end was not reached, as far as can be seen."""
        seen = "" if not self.case.evidence or self.oracle.saw else "the evidence was never seen"
        status = f"{self.state.status} ({self.state.reason or 'no reason'})"
        called = ", ".join(each.tool for each in self.oracle.pool.calls)
        said = " ".join(self.state.answer.split())[:120]
        parts = [self.grade.why, status, seen, f"called {called or 'nothing'}", f"said {said!r}"]
        return "; ".join(filter(None, [*parts, *self.oracle.faults, *self.doubted]))


async def allow(tool: ToolSpec, arguments: dict[str, Any]) -> Approval:
    """The approver of a setting whose policy allows all."""
    return Approval(approved=True, by="policy", reason="allowed")


async def ask(
    case: Case, question: str, setting: Setting, pools: Sequence[ToolPool], speed: float = 0.0
) -> Ended:
    """One question, with a fresh oracle."""
    pool = Watched(pools)
    oracle = Oracle(knowledge(case, question, setting), pool, speed)
    usual = Limits()
    times = max(1, math.ceil(2 * len(oracle.knows.calls) / usual.iterations))
    limits = Limits(
        seconds=SECONDS,
        iterations=times * usual.iterations,
        model_tokens=times * usual.model_tokens,
    )
    request = RunRequest(prompt=question, policy=Policy(setting.policy), limits=limits)
    state = await agent.run(request, Models(oracle, oracle), pool, lambda event: None, allow)
    details = {"usage": {"model_calls": len(state.ledger)}}
    answer = Answer(state.status, state.answer, tuple(pool.calls), details)
    grade = await to_thread.run_sync(case.grade, setting, answer)
    return Ended(case, grade, state, oracle)


@asynccontextmanager
async def opened(case: Case, work: Path) -> AsyncIterator[tuple[Setting, list[ToolPool]]]:
    """The setting of a case, with its project in memory and its other upstreams as they are."""
    async with AsyncExitStack() as stack:
        (work / "setting").mkdir(parents=True)
        setting = await stack.enter_async_context(case.open(work / "setting"))
        pools: list[ToolPool] = []
        if UPSTREAM in setting.upstreams and setting.project:
            pools.append(ProjectPool(setting.project, changes=setting.policy == "allow"))
        others = {name: each for name, each in setting.upstreams.items() if name != UPSTREAM}
        if others:
            bench = Bench(ModelSettings(), shipped_file(), dict(os.environ), work, SECONDS)
            file = bench.derived(replace(setting, upstreams=others))
            settings = load_settings(file, bench.project(setting), bench.environ)
            upstreams = UpstreamPool(
                settings, launcher=Launcher(work), pins=Pins(work / "pins.sqlite")
            )
            await stack.enter_async_context(upstreams)
            await upstreams.ready(START_SECONDS)
            check({each.name: each.state for each in upstreams.upstreams()})
            pools.append(upstreams)
        yield setting, pools


async def ask_all(
    cases: Sequence[Case], wordings: int = 1, speed: float = 0.0
) -> AsyncIterator[Ended]:
    """The cases' wordings one by one, those of a place together."""
    asked = [(case, text) for case in cases for text in case.wordings[:wordings]]
    for together in by_place(asked):
        with TemporaryDirectory() as folder:
            async with opened(together[0][0], Path(folder)) as (setting, pools):
                for case, text in together:
                    yield await ask(case, text, setting, pools, speed)


COLUMNS = (
    "family", "cases", "reached", "answered", "seen by gathering", "doubted", "model calls",
)  # fmt: skip


def table(ended: Sequence[Ended]) -> str:
    """A line for each family, in Markdown."""
    rows = []
    for family in dict.fromkeys(each.case.family for each in ended):
        mine = [each for each in ended if each.case.family == family]
        evident = [each for each in mine if each.case.evidence]
        gathered = sum(each.oracle.gathered for each in evident)
        counts = (
            len(mine),
            sum(each.reached for each in mine),
            sum(each.reached and each.state.status == "answered" for each in mine),
            f"{gathered} of {len(evident)}" if evident else "-",
            sum(bool(each.doubted) for each in mine),
            f"{mean(len(each.state.ledger) for each in mine):.1f}",
        )
        rows.append([family, *map(str, counts)])
    return markdown(COLUMNS, rows)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    families: Annotated[str, typer.Option(help="Which, with commas.")] = ",".join(KNOWN),
    split: Annotated[Choice, typer.Option(help="Of the cases.")] = "all",
    only: Annotated[str, typer.Option(help="Cases whose id or text matches this regex.")] = "",
    wordings: Annotated[int, typer.Option(min=1, help="So many wordings of each case.")] = 1,
    speed: Annotated[float, typer.Option(min=0, help="Tokens read a second; 0: not told.")] = 0.0,
    doubts: Annotated[bool, typer.Option(help="List the checks that tripped, too.")] = False,
) -> None:
    """Ask the oracle, and print a table and what it did not reach."""

    ended: list[Ended] = []

    async def asked() -> None:
        cases = selected(cases_of(named(families, CASES), split), only, None)
        async for each in ask_all(cases, wordings, speed):
            ended.append(each)
            if not each.reached:
                print(f"not reached: {each.case.id}: {each.why}", flush=True)
            elif doubts and each.doubted:
                told = "; ".join([*each.oracle.faults, *each.doubted])
                print(f"doubted: {each.case.id}: {told}", flush=True)

    anyio.run(asked)
    print(table(ended))


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.eval.oracle")
