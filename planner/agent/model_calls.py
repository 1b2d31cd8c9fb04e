"""Questions to the two models of a run: under a schema, within the context, redone once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from planner import protocol
from planner.actions import mode
from planner.checks import lenient, schemas
from planner.checks.claims import only_repeats
from planner.checks.guards import repeats
from planner.errors import ContextExceeded, InvalidReply
from planner.events import (
    ASIDE,
    AnswerDelta,
    ContextCompressed,
    Event,
    GuardTripped,
    ModelCalled,
    ResultAssessed,
    Role,
)
from planner.evidence.context import TokenEstimate
from planner.evidence.rewriting import block_in
from planner.grammar import Schema
from planner.models.base import ChatModel, Models, Reply
from planner.passage import Passage
from planner.prompts import Prompts, as_it_was
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
from planner.state import RunState, Step
from planner.tools import ToolSpec

T = TypeVar("T")
Said = TypeVar("Said", Answer, Conclude)

MIN_RESULT_CHARS = 200
LOW_SHARE = 0.6
"""Of the tokens for a prompt: where it comes down to when it would exceed them."""
KEPT_SHARE = 0.625
"""Of the context: so much may prompts take at the end of a step before what is past is let go."""
NOTED_SHARE = 0.7
"""From there on a step that goes on has notes taken, since its results may have to make room."""
ANSWERS: Sequence[Role] = ("overview", "answer", "repair", "conclude")
"""Replies that hold an answer for the user; it is told while it is written."""
DELTA_CHARACTERS = 24
"""Of an answer, told at once: some words."""
REPLY_TOKENS = 700
BRIEF_TOKENS = 120
OVERVIEW_TOKENS = 400
FACTS_TOKENS = 300
REWRITE_TOKENS = 600
MAX_SHORT_ANSWER_CHARS = 400
"""Characters of a short answer."""
MAX_LONG_ANSWER_CHARS = 1900
"""Characters of a long one."""
SELECTION_TOKENS = 60
ARGUMENT_TOKENS = 300


class Draft:
    """Tells an answer piece by piece while the reply that holds it is written: as JSON, or as
    `prose`."""

    def __init__(self, emit: Callable[[Event], None], prose: bool) -> None:
        self.emit = emit
        self.prose = prose
        self._reply = ""
        self._told = 0

    def __call__(self, text: str) -> None:
        self._reply += text
        answer, ended = (self._reply, False) if self.prose else self._in_json()
        end = len(answer) if ended else answer.rfind(" ") + 1  # whole words
        if end - self._told >= (1 if ended else DELTA_CHARACTERS):
            self.emit(AnswerDelta(text=answer[self._told : end], begins=self._told == 0))
            self._told = end

    def _in_json(self) -> tuple[str, bool]:
        """The answer so far, and whether the reply has ended."""
        try:
            said = self._reply[max(0, self._reply.find("{")) :]  # a code fence may stand before it
            reply = from_json(said, allow_partial="trailing-strings")
        except ValueError:  # the model's server does not hold the schema; it is asked once more
            return "", False
        answer = reply.get("final_answer", "") if isinstance(reply, dict) else ""
        return answer, self._reply.rstrip().endswith("}")


def _read(reply: str, schema: Schema, shape: TypeAdapter[T]) -> T:
    """Raises `ValidationError`, on the reply as it is, when it cannot be read."""
    try:
        return shape.validate_json(reply)
    except ValidationError as error:
        found = lenient.json_in(reply, schema)
        if found is None:
            raise
        try:
            return shape.validate_json(found)
        except ValidationError:
            raise error from None


class Asker:
    """Asks the models of one run. Every call is a `ModelCalled` event with its cost."""

    def __init__(
        self,
        models: Models,
        tools: Sequence[ToolSpec],
        prompts: Prompts,
        state: RunState,
        emit: Callable[[Event], None],
    ) -> None:
        self.models = models
        self.tools = {tool.name: tool for tool in tools}
        self.prompts = prompts
        self.state = state
        self.emit = emit
        self.may_change = False
        """Whether tools that are not read-only may be chosen now."""
        self.estimates = {id(models.fast): TokenEstimate(), id(models.full): TokenEstimate()}

    async def brief(self, acting: bool = True) -> Brief:
        """How the request is to be met, read by the fast model; `acting`: whether it may be for an
        action."""
        question = self.prompts.brief(self.state)
        schema = schemas.brief(acting)
        return await self.ask(
            "brief", self.models.fast, question, schema, protocol.BRIEF, BRIEF_TOKENS
        )

    async def words(self) -> list[str]:
        """The fast model's other words to search for."""
        question = self.prompts.words(self.state)
        said = await self.ask(
            "words", self.models.fast, question, schemas.words(), protocol.WORDS, BRIEF_TOKENS
        )
        return said.words

    async def file_tools(self, lists: Sequence[str], reads: Sequence[str]) -> FileTools:
        """The tools that list a project's files and read one, out of these."""
        question = self.prompts.files()
        schema = schemas.file_tools(lists, reads)
        return await self.ask(
            "files", self.models.full, question, schema, protocol.FILE_TOOLS, SELECTION_TOKENS
        )

    async def overview(self, passages: Sequence[Passage]) -> list[list[str]]:
        """An answer of any length from some passages: its lines, each as its sentences. It is
        written in plain text: as JSON, a quotation mark ends a sentence, and a small model says
        less."""
        question = self.prompts.overview(self.state, passages)
        reply = await self.chat("overview", self.models.full, question, None, OVERVIEW_TOKENS)
        lines = lenient.sentences_in(reply.text)
        if reply.finish == "length" and lines:
            lines[-1].pop()
        return [line for line in lines if line]

    async def facts(self, passages: Sequence[Passage]) -> list[str]:
        """What some passages say that belongs to a long answer."""
        question = self.prompts.facts(self.state, passages)
        reply = await self.chat("facts", self.models.full, question, None, FACTS_TOKENS)
        items = lenient.items_in(reply.text)
        return items[:-1] if reply.finish == "length" else items

    async def files_to_change(self, texts: Mapping[str, str]) -> list[str]:
        """The files that a request wants changed, out of these, each with its passages."""
        question = self.prompts.which_files(self.state, texts)
        said = await self.ask(
            "rewrite",
            self.models.full,
            question,
            schemas.files([*texts]),
            protocol.FILES,
            BRIEF_TOKENS,
        )
        return list(dict.fromkeys(said.files))

    async def rewrite(self, part: Passage) -> str:
        """A part of a file as the request wants it; something else where nothing has to change."""
        question = self.prompts.rewrite(self.state, part)
        reply = await self.chat("rewrite", self.models.full, question, None, REWRITE_TOKENS)
        written = as_it_was(block_in(reply.text, fences="```" in part.text), part.text)
        return written.rpartition("\n")[0] if reply.finish == "length" else written

    async def editing_tool(self, names: Sequence[str]) -> str | None:
        """The tool that replaces texts in files, out of these."""
        return await self._select("example", self.prompts.editing_tool(), schemas.or_none(names))

    async def edit_call(self, tool: ToolSpec) -> dict[str, Any]:
        """How a tool is called that replaces texts in files."""
        question = self.prompts.edit_call(tool)
        return await self.ask(
            "example",
            self.models.full,
            question,
            tool.grammar,
            protocol.ARGUMENTS,
            ARGUMENT_TOKENS,
        )

    async def changing_tools(self, names: Sequence[str]) -> list[str]:
        """The tools that the change of a request needs, out of these."""
        question = self.prompts.changing_tools(self.state, [self.tools[name] for name in names])
        said = await self.ask(
            "example",
            self.models.full,
            question,
            schemas.tools(names),
            protocol.TOOLS,
            SELECTION_TOKENS,
        )
        return said.tools

    async def select_tool(self) -> str | None:
        """The tool for a single step; None when it needs none."""
        if not self.state.offered:
            return None
        choice = schemas.or_none([tool.name for tool in self.choices])
        return await self._select("select", self.prompts.select(self.state), choice)

    async def select_for_step(self, step: Step, chosen: Call) -> Call:
        """The full model's choice between the tool it chose and those that the step brought in,
        which it could not choose then. It has read all but the new tools."""
        tools = [chosen.tool, *step.offered]
        return await self._selected(
            chosen, self.prompts.select_for_step(chosen.prompt, tools), tools
        )

    async def select_to_do(self, chosen: Call) -> Call:
        """The choice once more of the tool that does what is asked, with what was looked up for it
        in view: a plan is made before."""
        tools = [tool.name for tool in self.choices if not tool.read_only]
        return await self._selected(chosen, self.prompts.select_to_do(self.state), tools)

    async def select_to_find(self, missing: Sequence[str]) -> str | None:
        """The tool that finds out what no result says yet; None where none does."""
        names = [tool.name for tool in self.choices if tool.read_only and tool.upstream]
        if not names:
            return None
        question = self.prompts.select_to_find(self.state, missing)
        return await self._select("select", question, schemas.or_none(names))

    async def _selected(self, chosen: Call, question: str, tools: Sequence[str]) -> Call:
        """A call with the tool that is selected for it."""
        selected = await self._select("select", question, schemas.one_of(tools))
        return chosen.model_copy(update={"tool": selected or chosen.tool})

    async def _select(self, role: Role, question: str, choice: Schema) -> str | None:
        said = await self.ask(
            role,
            self.models.full,
            question,
            schemas.selection(choice),
            protocol.SELECTION,
            SELECTION_TOKENS,
        )
        return said.tool

    async def arguments(self, tool: ToolSpec, prompt: str, problem: str | None) -> dict[str, Any]:
        """The arguments for a tool call; `problem` is what was wrong with the ones before."""
        return await self.ask(
            "arguments",
            self.models.full,
            self.prompts.arguments(self.state, tool, prompt, problem),
            tool.grammar,
            protocol.ARGUMENTS,
            max_tokens=ARGUMENT_TOKENS,
        )

    async def answer(self, problem: str | None) -> Answer:
        """A try at the answer; `problem` is what spoke against the try before."""
        role: Role = "repair" if problem else "answer"
        question = (
            self.prompts.repair(self.state, problem) if problem else self.prompts.answer(self.state)
        )
        long = self.state.wants == "long answer"
        longest = MAX_LONG_ANSWER_CHARS if long else MAX_SHORT_ANSWER_CHARS
        schema = schemas.answer(longest)
        said = await self.ask(role, self.models.full, question, schema, protocol.ANSWER)
        return self._without_echo(said, question)

    async def what_was_done(self) -> Summary:
        """What the calls of an action have done, and the one that is still missing."""
        question = self.prompts.what_was_done(self.state)
        schema = schemas.summary([tool.name for tool in self.choices])
        return await self.ask("answer", self.models.full, question, schema, protocol.SUMMARY)

    async def again(self) -> str:
        """The answer by a second reading of the results, which knows nothing of the first."""
        reading = await self.ask(
            "again",
            self.models.full,
            self.prompts.again(self.state),
            schemas.second_reading(),
            protocol.SECOND_READING,
        )
        return reading.answer_again

    def _without_echo(self, said: Said, question: str) -> Said:
        """The reply, without an answer that only repeats what the model was asked."""
        prompt = self.state.request.prompt if self.state.request else ""
        answer = said.final_answer.strip()
        echo = len(answer) >= len(prompt.strip()) and answer in question
        echo = echo or only_repeats(answer, prompt)
        return said.model_copy(update={"final_answer": ""}) if echo else said

    @property
    def choices(self) -> list[ToolSpec]:
        """The tools that the next call may be of: `see_more` only when a result was cut, and none
        whose last calls brought nothing new."""
        more = self.prompts.see_more(self.state)
        tools = [*(self.tools[name] for name in self.state.offered), *([more] if more else [])]
        fruitless = repeats.left_out(self.state)
        allowed = [tool for tool in tools if self.may_change or tool.read_only]
        return [tool for tool in allowed if tool.name not in fruitless]

    async def plan(self, names: Sequence[str], likely: Sequence[str], purpose: PlanFor) -> MakePlan:
        """The plan of calls of these tools, those that are `likely` to be needed named first."""
        chosen = [self.tools[name] for name in likely]
        return await self.ask(
            "plan",
            self.models.full,
            self.prompts.plan(self.state, chosen, purpose),
            schemas.plan(names, purpose),
            protocol.PLAN,
        )

    async def decide(self, problem: str | None = None) -> Conclude | Stay | MoveOn:
        """The next decision; `problem` is what the one before did not heed."""
        how = mode(self.state)
        noted = self.state.newest_prompt > NOTED_SHARE * self.models.full.context_tokens
        decision = await self.ask(
            "decide",
            self.models.full,
            self.prompts.decide(self.state, how, noted, problem),
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
        return decision

    async def conclude(self) -> Conclude:
        question = self.prompts.conclude(self.state)
        said = await self.ask(
            "conclude", self.models.full, question, schemas.conclude(), protocol.CONCLUSION
        )
        return self._without_echo(said, question)

    async def format(self, answer: str, data_schema: Schema, problem: str | None) -> Any:
        """The answer in the shape of the caller's schema; `problem` as for `arguments`."""
        question = self.prompts.format(answer, data_schema, problem)
        schema = schemas.formatted(data_schema)
        reply = await self.ask("format", self.models.full, question, schema, protocol.FORMATTED)
        return reply.data

    async def ask(
        self,
        role: Role,
        model: ChatModel,
        question: str,
        schema: Schema,
        shape: TypeAdapter[T],
        max_tokens: int = REPLY_TOKENS,
    ) -> T:
        """One question under a schema; before it stands what the user has said since the last one.
        Not every server holds a model to the schema: a reply is read leniently where it has to be,
        and an unusable one is mended once, by the full model."""
        if role not in ASIDE and (told := self.prompts.told(self.state)):
            question = f"{told}\n{question}"
        asked = question
        for chosen in (model, self.models.full):
            reply = await self.chat(role, chosen, asked, schema, max_tokens)
            try:
                return _read(reply.text, schema, shape)
            except ValidationError as error:
                wrong = error.errors()[0]
                problem = ": ".join(filter(None, (".".join(map(str, wrong["loc"])), wrong["msg"])))
                self.emit(GuardTripped(guard="reply", message=f"{chosen.name}: {problem}"))
                asked = self.prompts.mended(question, problem, schema)
        raise InvalidReply(
            f"{self.models.full.name} twice gave a reply that is not the JSON it was asked for "
            f"({role}: {problem}). Try a larger model (PLANLOOM_FULL_MODEL)."
        )

    async def chat(
        self,
        role: Role,
        model: ChatModel,
        question: str,
        schema: Schema | None,
        max_tokens: int,
    ) -> Reply:
        """One model call that fits the context: room is made until it does."""
        estimate = self.estimates[id(model)]
        while True:
            messages = self.prompts.conversation(self.state, question, role)
            if estimate.of(messages) + max_tokens <= model.context_tokens:
                try:
                    draft = Draft(self.emit, schema is None) if role in ANSWERS else None
                    reply = await model.chat(
                        messages, schema=schema, max_tokens=max_tokens, on_text=draft
                    )
                    break
                except ContextExceeded:
                    if not self.make_room(question, estimate, estimate.of(messages)):
                        raise
            elif not self.make_room(question, estimate, model.context_tokens - max_tokens):
                raise ContextExceeded(
                    f"The request does not fit the {model.context_tokens} tokens of {model.name} "
                    f"(about {estimate.of(messages)} needed). Shorten it, or raise num_ctx."
                )
        estimate.learn(messages, reply)
        self.emit(
            ModelCalled(
                role=role,
                model=model.name,
                question=question,
                reply=reply.text,
                **reply.model_dump(exclude={"text", "finish"}),
            )
        )
        return reply

    def let_go(self) -> None:
        """At the end of a step: once prompts take most of the room, only its notes stay, and those
        of the steps before. Until then all results do, so that prompts grow and nothing is computed
        twice."""
        if self.crowded:
            self.emit(ContextCompressed(up_to=len(self.state.iterations) - 1))

    @property
    def crowded(self) -> bool:
        """Whether prompts take so much of the context that completed steps have to make room."""
        return self.state.newest_prompt > KEPT_SHARE * self.models.full.context_tokens

    def make_room(self, question: str, estimate: TokenEstimate, tokens: int) -> bool:
        """Make prompts smaller than `tokens`; False when nothing is left to shorten.

        The past is put in short at once, from its oldest on, until prompts are well below: what a
        model server computed of the prompt before is lost then, so that has to be rare. The newest
        result stays. Where that is not enough, every result is shown shorter.
        """
        steps = [step.last_iteration for step in self.state.completed_steps[-1:]]
        done = [each for each in self.state.open_iterations if each.outcome is not None]
        older = [
            number
            for number in [*steps, *(each.number for each in done[:-1] if each.step)]
            if number > self.state.compressed_up_to
        ]
        if older:
            self.emit(ContextCompressed(up_to=self._enough(older, question, estimate, tokens)))
            return True
        if self.prompts.result_characters <= MIN_RESULT_CHARS:
            return False
        self.prompts.result_characters //= 2
        message = f"results are shown up to {self.prompts.result_characters} characters"
        self.emit(GuardTripped(guard="context", message=message))
        return True

    def _enough(self, older: list[int], question: str, estimate: TokenEstimate, tokens: int) -> int:
        """The first of the older iterations that leaves room enough when put in short."""
        for number in older:
            state = replace(self.state, compressed_up_to=number)
            if estimate.of(self.prompts.conversation(state, question)) <= LOW_SHARE * tokens:
                return number
        return older[-1]
