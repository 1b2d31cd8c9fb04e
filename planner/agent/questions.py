"""The questions to a run's models: each with its prompt, its schema, and the longest reply."""

from collections.abc import Awaitable, Sequence
from functools import cache, partial
from typing import Any, TypeVar

from pydantic import create_model
from pydantic_core import to_jsonable_python

from planner import protocol
from planner.actions import mode
from planner.agent.model_calls import REPLY_TOKENS, ModelCalls
from planner.checks import lenient, replies, schemas
from planner.checks.claims import only_repeats
from planner.checks.guards import repeats
from planner.errors import InvalidReply
from planner.events import ResultAssessed, Role
from planner.evidence.overviews import with_names
from planner.grammar import Schema, reaches_bound, unbounded
from planner.passage import Passage
from planner.prompts import questions
from planner.prompts.texts import fill, template, without_heads, without_notes
from planner.protocol import (
    Answer,
    Brief,
    Call,
    Conclude,
    FileTools,
    MakePlan,
    MoveOn,
    PlanFor,
    Stay,
    Summary,
)
from planner.state import Iteration, Step
from planner.tools import ToolSpec

Said = TypeVar("Said", Answer, Conclude)
T = TypeVar("T")

BRIEF_TOKENS = 120
OVERVIEW_TOKENS = 400
FACTS_TOKENS = 300
MAX_SHORT_ANSWER_CHARS = 400
"""Characters of a short answer."""
MAX_LONG_ANSWER_CHARS = 1900
"""Characters of a long one."""
MAX_SECOND_READING_CHARS = 240
"""Characters of the answer by a second reading."""
RESULT, RESULT_END = "<result>", "</result>"
"""How a result begins and ends in a prompt."""
SELECTION_TOKENS = 60
ARGUMENT_TOKENS = 300
LONG_ARGUMENT_TOKENS = 1000
"""Of arguments with a long text, such as what a file should hold."""
SQL_TOKENS = 150


class Asker:
    def __init__(self, calls: ModelCalls, tools: Sequence[ToolSpec]) -> None:
        self.calls = calls
        self.models = calls.models
        self.prompts = calls.prompts
        self.state = calls.state
        self.emit, self.guard = calls.emit, calls.guard
        self.tools = {tool.name: tool for tool in tools}
        self.may_change = False
        """Whether tools that are not read-only may be chosen now."""

    async def optional(self, asked: Awaitable[T], otherwise: T) -> T:
        """The reply to a question that the run can do without; `otherwise` where the model gives no
        valid one."""
        try:
            return await asked
        except InvalidReply:
            return otherwise

    async def brief(self, acting: bool = True) -> Brief:
        """What the request is for, as the fast model reads it; `acting`: whether it may be an
        action."""
        question = questions.brief(self.state)
        schema = schemas.brief(acting)
        return await self.calls.ask("brief", question, schema, Brief, BRIEF_TOKENS, fast=True)

    async def words(self) -> list[str]:
        """Other words to search for, from the fast model."""
        question = questions.asked("ask_other_words", self.state)
        schema = schemas.several(schemas.SEARCH_WORD, least=2)
        asked = self.only("words", question, "words", list[str], schema, BRIEF_TOKENS, fast=True)
        return await self.optional(asked, [])

    async def file_tools(self, lists: Sequence[str], reads: Sequence[str]) -> FileTools:
        """The tools that list a project's files and read one, out of these."""
        question = fill("ask_files")
        schema = schemas.file_tools(lists, reads)
        asked = self.calls.ask("files", question, schema, FileTools, SELECTION_TOKENS)
        return await self.optional(asked, FileTools(lists=None, reads=None))

    async def overview(self, passages: Sequence[Passage]) -> list[list[str]]:
        """An answer of any length from some passages: its lines, each as its sentences. It is
        written in plain text: as JSON, a quotation mark ends a sentence, and a small model says
        less. Where it goes on with the passages instead, it is asked for a list."""
        question = questions.on_passages("ask_overview", self.state, passages)
        reply = await self.calls.chat("overview", question, None, OVERVIEW_TOKENS)
        if replies.copies(reply.text, question):
            return [[each] for each in await self.facts(passages)]
        said = lenient.sentences_in(without_heads(lenient.prose_in(reply.text), passages))
        lines = [[_completed(each, passages) for each in line] for line in said]
        lines = with_names(lines, passages)
        if reply.finish == "stop":
            return lines
        rest = [] if replies.repeats_itself(reply.text) else [[lenient.CUT]]
        return [*lenient.without_last(lines), *rest]

    async def confirm(self, passages: Sequence[Passage]) -> str:
        """The answer by a second reading of these passages, which knows nothing of the first; empty
        where the model gives none."""
        question = questions.on_passages("ask_overview_again", self.state, passages)
        return await self._read_again("confirm", question, passages)

    async def facts(self, passages: Sequence[Passage]) -> list[str]:
        """What some passages say that belongs to a long answer."""
        question = questions.on_passages("ask_facts", self.state, passages)
        reply = await self.calls.chat("facts", question, None, FACTS_TOKENS)
        if replies.copies(reply.text, question):
            return []
        items = lenient.items_in(without_heads(lenient.prose_in(reply.text), passages))
        if reply.finish != "stop":
            items = items[:-1] or [f"{each} {lenient.CUT}" for each in items]
        return [_completed(each, passages) for each in items]

    async def select_tool(self) -> str | None:
        """The tool for a single step; None if it does not need one."""
        if not self.state.offered:
            return None
        choice = schemas.or_none([tool.name for tool in self.choices])
        return await self.select("select", questions.select(self.state), choice)

    async def select_for_step(self, step: Step, chosen: Call) -> Call:
        """The full model's choice between the tool it chose and those that the step brought in,
        which it could not choose then. It has read all but the new tools."""
        tools = [chosen.tool, *step.offered]
        question = questions.select_for_step(chosen.prompt, tools)
        asked = self.select("select", question, schemas.one_of(tools))
        selected = await self.optional(asked, None)
        return chosen.model_copy(update={"tool": selected or chosen.tool})

    async def select_to_do(self, chosen: Call, tools: Sequence[str] = ()) -> Call | None:
        """The choice once more of the tool that does what is asked, out of these or all that change
        something, with what was looked up for it in view: a plan is made before. None where nothing
        is to be done by what was looked up."""
        names = tools or [tool.name for tool in self.choices if not tool.read_only]
        question = questions.asked("select_to_do", self.state)
        selected = await self.select("select", question, schemas.or_none(names))
        return chosen.model_copy(update={"tool": selected}) if selected else None

    async def select_to_find(
        self, call: Call, missing: Sequence[str], names: Sequence[str], likely: Sequence[str]
    ) -> str | None:
        """The tool, out of these, that finds out what a call needs and no result says yet, those
        that are `likely` to do so named first; None where none does."""
        question = questions.select_to_find(self.state, call.tool, missing, likely)
        return await self.optional(self.select("select", question, schemas.or_none(names)), None)

    async def select(self, role: Role, question: str, choice: Schema) -> str | None:
        """The tool that a reply names."""
        said = await self.calls.ask(
            role, question, schemas.closed(tool=choice), protocol.Selection, SELECTION_TOKENS
        )
        return said.tool

    async def only(
        self,
        role: Role,
        question: str,
        name: str,
        shape: type[T],
        schema: Schema,
        max_tokens: int,
        fast: bool = False,
    ) -> T:
        """What a reply says that is an object with only this value."""
        closed = schemas.closed(**{name: schema})
        reply = _reply_of(name, shape)  # type: ignore[arg-type]  # types are hashable
        said = await self.calls.ask(role, question, closed, reply, max_tokens, fast)
        value: T = getattr(said, name)
        return value

    async def arguments(self, tool: ToolSpec, prompt: str, problem: str | None) -> dict[str, Any]:
        """The arguments for a tool call; `problem` is what was wrong with the ones before."""
        question = questions.arguments(self.state, tool, prompt, problem)
        written = await self._uncut(
            "arguments", question, tool.grammar, dict[str, Any], ARGUMENT_TOKENS, tool.name
        )
        return {name: _unmarked(value) for name, value in written.items()}

    async def _uncut(
        self,
        role: Role,
        question: str,
        schema: Schema,
        shape: type[T],
        max_tokens: int,
        called: str | None = None,
    ) -> T:
        """A reply under a stranger's schema, asked for once more without the grammar's bounds where
        a text or a list reaches one, and so may lack its end."""
        ask = partial(self.calls.ask, role, question, shape=shape, called=called)
        written = await ask(schema, max_tokens=max_tokens)
        if not reaches_bound(to_jsonable_python(written)):
            return written
        return await ask(unbounded(schema), max_tokens=LONG_ARGUMENT_TOKENS)

    async def sql(self, tables: Sequence[str], problem: str, things: str | None = None) -> str:
        """A query of these tables for what the request asks for; `problem` is the one before, and
        what was wrong with it; `things`: the name of the only table, if it has a row for each."""
        question = questions.sql(self.state, tables, problem)
        return await self.only("query", question, "sql", str, schemas.sql(things), SQL_TOKENS)

    async def answer(self, problem: str | None) -> Answer:
        """An attempt at the answer; `problem` is what was wrong with the attempt before."""
        role: Role = "repair" if problem else "answer"
        question = (
            questions.repair(self.state, problem) if problem else questions.answer(self.state)
        )
        long = self.state.wants == "long answer"
        longest = MAX_LONG_ANSWER_CHARS if long else MAX_SHORT_ANSWER_CHARS
        schema = schemas.answer(longest)
        said = await self.calls.ask(role, question, schema, Answer)
        # The end of a short one that its schema has cut off seldom has what was asked for.
        marked = long or said.final_answer.endswith(lenient.CUT)
        whole = lenient.whole(said.final_answer, longest, lenient.CUT if marked else "")
        return self._without_echo(said.model_copy(update={"final_answer": whole}), question)

    async def what_was_done(self) -> Summary:
        """What the calls of an action have done, and the one that is still missing."""
        question = questions.asked("ask_done", self.state)
        schema = schemas.summary([tool.name for tool in self.choices])
        return await self.calls.ask("answer", question, schema, Summary)

    async def was_done(self, call: Iteration) -> bool:
        """Whether a change was made, as its result says in whatever words and language."""
        schema = schemas.one_of([questions.DONE, questions.REFUSED])
        said = await self.only(
            "outcome", questions.outcome(call), "says", str, schema, SELECTION_TOKENS
        )
        return said == questions.DONE

    async def again(self) -> str:
        """The answer by a second reading of the results, as `confirm`."""
        return await self._read_again("again", self.prompts.again(self.state), self.state.passages)

    async def _read_again(self, role: Role, question: str, passages: Sequence[Passage]) -> str:
        schema, part = schemas.text(MAX_SECOND_READING_CHARS), self.state.part
        # It may take what is kept back for a conclusion: there is an answer, which waits for it.
        until = 0.0 if part.request.data_schema else part.ends_at
        with self.calls.clock.extended(until):
            asked = self.only(role, question, "answer_again", str, schema, REPLY_TOKENS)
            said = await self.optional(asked, "")
        return without_notes(lenient.whole(said, MAX_SECOND_READING_CHARS), passages)

    def _without_echo(self, said: Said, question: str) -> Said:
        """The reply, without the notes that code puts behind places, and without an answer that
        only repeats what the model was asked or shown."""
        prompt = self.state.question
        answer = without_notes(said.final_answer.strip(), self.state.passages)
        echo = len(answer) >= len(prompt.strip()) and answer in question
        echo = echo or answer.startswith(RESULT) or only_repeats(answer, prompt)
        return said.model_copy(update={"final_answer": "" if echo else answer})

    @property
    def choices(self) -> list[ToolSpec]:
        """The tools that the next call may be of."""
        return self.offered(changing=self.may_change)

    def offered(self, changing: bool) -> list[ToolSpec]:
        """The tools that a call may be of, with those that are not read-only or without them:
        `see_more` only when a result was cut, none whose last calls brought nothing new, and none
        that can only bring what is in view."""
        more = self.prompts.see_more(self.state)
        tools = [*(self.tools[name] for name in self.state.offered), *([more] if more else [])]
        fruitless = repeats.left_out(self.state)
        allowed = [tool for tool in tools if changing or tool.read_only]
        return [
            tool
            for tool in allowed
            if tool.name not in fruitless and not repeats.exhausted(self.state, tool)
        ]

    async def plan(self, names: Sequence[str], likely: Sequence[str], purpose: PlanFor) -> MakePlan:
        """The plan of calls of these tools, those that are `likely` to be needed named first."""
        chosen = [self.tools[name] for name in likely]
        return await self.calls.ask(
            "plan",
            questions.plan(self.state, chosen, purpose),
            schemas.plan(names, purpose),
            MakePlan,
        )

    async def decide(self, problem: str | None = None) -> Conclude | Stay | MoveOn:
        """The next decision; `problem` is what the decision before ignored."""
        how = mode(self.state)
        noted = self.calls.noted
        question = questions.decide(self.state, how, noted, problem)
        decision = await self.calls.ask(
            "decide",
            question,
            schemas.iteration_decision(
                schemas.one_of([tool.name for tool in self.choices]),
                how,
                noted,
                planned=bool(self.state.later_steps),
            ),
            protocol.ITERATION_DECISION,
        )
        if how == "deep":
            self.emit(
                ResultAssessed(
                    assessment=decision.assessment,
                    belief=decision.belief,
                    critique=decision.critique,
                )
            )
        if isinstance(decision, Conclude):
            return self._without_echo(_marked(decision), question)
        if isinstance(decision, MoveOn) and decision.objective in template("ask_decide").template:
            return decision.model_copy(update={"objective": ""})
        return decision

    async def conclude(self) -> Conclude:
        question = questions.asked("ask_conclude", self.state)
        said = await self.calls.ask("conclude", question, schemas.conclude(), Conclude)
        return self._without_echo(_marked(said), question)

    async def format(self, answer: str, data_schema: Schema, problem: str | None) -> Any:
        """The answer in the shape of the caller's schema; `problem` as for `arguments`."""
        question = questions.data(answer, data_schema, problem)
        schema = schemas.formatted(data_schema)
        reply = await self._uncut("format", question, schema, protocol.Formatted, REPLY_TOKENS)
        return reply.data


def _completed(sentence: str, passages: Sequence[Passage]) -> str:
    found = (lenient.completed(sentence, each.text) for each in passages)
    return next((each for each in found if each != sentence), sentence)


def _marked(said: Conclude) -> Conclude:
    """A conclusion with a mark where its schema has cut it off."""
    answer = lenient.whole(said.final_answer, schemas.MAX_CONCLUSION, lenient.CUT)
    return said.model_copy(update={"final_answer": answer})


@cache
def _reply_of(name: str, shape: Any) -> type[protocol.Wire]:
    """A reply that is an object with one value of this type."""
    field: dict[str, Any] = {name: (shape, ...)}
    return create_model("Reply", __base__=protocol.Wire, **field)


def _unmarked(value: Any) -> Any:
    """A value without the marks of a result, which a small model copies with what is in it."""
    if isinstance(value, str) and value.startswith(RESULT):
        return value.removeprefix(RESULT).removesuffix(RESULT_END).strip("\n")
    return value
