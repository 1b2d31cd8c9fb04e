"""A call of a model: under a schema, within the context; made again if its reply is unusable."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

import anyio
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from planner.checks import lenient, replies
from planner.clock import Clock
from planner.errors import ContextExceeded, InvalidReply, ModelError
from planner.events import (
    ASIDE,
    AnswerDelta,
    ContextCompressed,
    Event,
    GuardTripped,
    ModelCalled,
    Role,
)
from planner.evidence.context import TokenEstimate
from planner.evidence.words import is_unspaced
from planner.grammar import Schema
from planner.models.base import ChatModel, ChatRequest, Models, Reply
from planner.prompts import Prompts
from planner.prompts.questions import once_more
from planner.state import RunState

T = TypeVar("T")

MIN_RESULT_CHARS = 200
LOW_SHARE = 0.6
"""The share of the tokens for a prompt that it is shortened to when it would exceed them."""
KEPT_SHARE = 0.625
"""The share of the context that prompts may take at the end of a step before the past is
shortened."""
NOTED_SHARE = 0.7
"""The share of the context from which on a step that goes on takes notes, since its results may
have to make room."""
ANSWERS: tuple[Role, ...] = ("overview", "answer", "repair", "conclude")
"""Replies that contain an answer for the user, who sees it while it is written."""
PROSE: tuple[Role, ...] = ("overview", "facts")
"""Replies in plain text, which may end before they say all: where they repeat themselves."""
DELTA_CHARACTERS = 24
"""The length of a piece of an answer that is shown: some words."""
REPLY_TOKENS = 700
SECONDS_AFTER, SHARE_AFTER = 1.0, 0.2
"""The seconds that are left when an answer which is being written ends, for what code does with it;
at most this share of what is left when it is asked for."""
THINKING_SHARE, LARGE_THINKING_SHARE = 0.25, 0.5
"""The share of the context that a model gets for its thoughts, once it was seen to think; and once
they were cut off."""
MAX_THINKING_TOKENS = 4096


class Draft:
    """Shows an answer piece by piece while the reply that contains it is written, as JSON or as
    `prose`."""

    def __init__(self, emit: Callable[[Event], None], prose: bool) -> None:
        self.emit = emit
        self.prose = prose
        self._reply = ""
        self._told = 0

    def __call__(self, text: str) -> None:
        self._reply += text
        said = replies.after_thoughts(self._reply)
        answer, ended = (said, False) if self.prose else _answer_in(said)
        end = len(answer)
        while not ended and end and not (answer[end - 1] == " " or is_unspaced(answer[end - 1])):
            end -= 1  # whole words
        if end < self._told:  # what was taken for the answer was thought
            self._told = 0
        if end - self._told >= (1 if ended else DELTA_CHARACTERS):
            self.emit(AnswerDelta(text=answer[self._told : end], begins=self._told == 0))
            self._told = end


def _answer_in(said: str) -> tuple[str, bool]:
    """The answer in JSON so far, and whether that has ended."""
    try:
        begun = said[max(0, said.find("{")) :]  # a code fence may stand before it
        reply = from_json(begun, allow_partial="trailing-strings")
    except ValueError:  # the model's server does not hold the schema; it is asked once more
        return "", False
    answer = reply.get("final_answer") if isinstance(reply, dict) else None
    if not isinstance(answer, str):
        return "", False
    return answer, said.rstrip().endswith("}")


def _read(
    reply: str, schema: Schema, shape: type[T] | TypeAdapter[T], called: str | None = None
) -> T:
    """Raises `ValidationError`, on the reply as it is, when it cannot be read."""
    shape = shape if isinstance(shape, TypeAdapter) else TypeAdapter(shape)
    found = replies.json_in(reply, schema, called)
    with suppress(ValidationError):
        if found is not None:
            return shape.validate_json(found)
    return shape.validate_json(reply)


def _says_no_more(question: str, reply: str) -> bool:
    """Whether what a model writes goes round, or is what it was shown."""
    said = replies.after_thoughts(reply)
    return replies.repeats_itself(said) or replies.copies(said, question)


def _begun(reply: str, schema: Schema, shape: type[T] | TypeAdapter[T]) -> T | None:
    """The answer in a reply that was cut off, as far as its sentences are whole, with what the rest
    of such a reply says; None where there is none."""
    answer = lenient.cut_off(replies.up_to_repetition(_answer_in(reply)[0]))
    if answer is None:
        return None
    rest = {"found_in": "results", "missing": None, "tool": None}
    known = {name: value for name, value in rest.items() if name in schema["properties"]}
    shape = shape if isinstance(shape, TypeAdapter) else TypeAdapter(shape)
    return shape.validate_python({"final_answer": answer, **known})


class ModelCalls:
    """The calls of one run. Each is a `ModelCalled` event with its cost."""

    def __init__(
        self,
        models: Models,
        prompts: Prompts,
        state: RunState,
        emit: Callable[[Event], None],
        clock: Clock,
    ) -> None:
        self.models = models
        self.prompts = prompts
        self.state = state
        self.emit = emit
        self.clock = clock
        self.estimates = {id(models.fast): TokenEstimate(), id(models.full): TokenEstimate()}
        self.thinking_room: dict[int, int] = {}
        """The tokens that replies get besides for thoughts, by the model that was seen to think."""

    def guard(self, name: str, *messages: str) -> None:
        """Record what a guard of this name has found or changed."""
        for message in messages:
            self.emit(GuardTripped(guard=name, message=message))

    async def ask(
        self,
        role: Role,
        question: str,
        schema: Schema,
        shape: type[T] | TypeAdapter[T],
        max_tokens: int = REPLY_TOKENS,
        fast: bool = False,
        called: str | None = None,
    ) -> T:
        """One question under a schema, to the full model or the fast one. What the user has said
        since the last question stands before it. Not every server holds a model to the schema: a
        reply is read leniently where it has to be, and after an unusable one the full model is
        asked once more. `called`: the tool whose arguments are asked for."""
        if role not in ASIDE and (said := self.prompts.said_since(self.state)):
            question = f"{said}\n{question}"
        asked = question
        for chosen in (self.models.fast if fast else self.models.full, self.models.full):
            reply = await self.chat(role, asked, schema, max_tokens, chosen)
            try:
                return _read(reply.text, schema, shape, called)
            except ValidationError as error:
                wrong = error.errors()[0]
                problem = ": ".join(filter(None, (".".join(map(str, wrong["loc"])), wrong["msg"])))
                if reply.finish != "stop":
                    last = asked != question or reply.finish == "ended"
                    begun = _begun(reply.text, schema, shape) if role in ANSWERS and last else None
                    if begun is not None:
                        return begun
                    if reply.fault:
                        raise ModelError(reply.fault) from None
                    problem, max_tokens = f"it was cut off ({problem})", 2 * max_tokens
                self.guard("reply", f"{chosen.name}: {problem}")
                asked = once_more(question, problem, schema)
        better = "one that does not think" if id(chosen) in self.thinking_room else "a larger model"
        raise InvalidReply(
            f"{chosen.name} twice gave a reply that is not the JSON it was asked for ({role}: "
            f"{problem}). Try {better} (PLANLOOM_FULL_MODEL)."
        )

    async def chat(
        self,
        role: Role,
        question: str,
        schema: Schema | None,
        max_tokens: int,
        model: ChatModel | None = None,
    ) -> Reply:
        """One question to a model. It is asked once more, with more room for them, if thoughts that
        it could not be kept from took what its reply was to have."""
        model = model or self.models.full
        while True:
            reply = await self._call(role, question, schema, max_tokens, model)
            said = replies.after_thoughts(reply.text)
            thought = reply.thinking_tokens > 0 or len(said) < len(reply.text)
            cut = reply.finish == "length"
            more = thought and self._make_thinking_room(model, cut)
            if not (more and cut):
                return reply.model_copy(update={"text": replies.without_end(said)})

    def _until(self, role: Role) -> float:
        """When a reply that may say less than all ends: before the time is over."""
        left = self.clock.seconds_left
        in_time = anyio.current_time() + max(left - SECONDS_AFTER, (1 - SHARE_AFTER) * left)
        return in_time if role in (*ANSWERS, *PROSE) else math.inf

    def _make_thinking_room(self, model: ChatModel, cut: bool) -> bool:
        """Give a model that was seen to think room for it; whether it is more than before."""
        before = self.thinking_room.get(id(model), 0)
        share = LARGE_THINKING_SHARE if before and cut else THINKING_SHARE
        room = min(round(share * model.context_tokens), MAX_THINKING_TOKENS)
        if room <= before:
            return False
        self.thinking_room[id(model)] = room
        if not before:
            self.guard(
                "thinking",
                f"{model.name} thinks before it replies, which makes runs slow. A model that does "
                "not think is faster.",
            )
        return True

    async def _call(
        self, role: Role, question: str, schema: Schema | None, max_tokens: int, model: ChatModel
    ) -> Reply:
        """One model call that fits the context: room is made until it does."""
        estimate = self.estimates[id(model)]
        thoughts = self.thinking_room.get(id(model), 0)
        while True:
            messages = self.prompts.conversation(self.state, question, role)
            longest = max_tokens + thoughts
            if estimate.of(messages) + longest <= model.context_tokens:
                try:
                    draft = Draft(self.emit, schema is None) if role in ANSWERS else None
                    reply = await model.chat(
                        ChatRequest(
                            messages,
                            schema=schema,
                            max_tokens=longest,
                            on_text=draft,
                            enough=partial(_says_no_more, question) if role in PROSE else None,
                            until=self._until(role),
                        )
                    )
                    break
                except ContextExceeded:
                    if not self.make_room(question, estimate, estimate.of(messages)):
                        raise
            elif not self.make_room(question, estimate, model.context_tokens - longest):
                if not thoughts:
                    raise ContextExceeded(
                        f"The request does not fit the {model.context_tokens} tokens of "
                        f"{model.name} (about {estimate.of(messages)} needed). Shorten it, or "
                        "raise num_ctx."
                    )
                thoughts = 0
        estimate.learn(messages, reply)
        if reply.fault:
            self.guard("reply", f"{model.name}: it was broken off: {reply.fault}")
        self.emit(
            ModelCalled(
                role=role,
                model=model.name,
                question=question,
                reply=reply.text,
                **reply.model_dump(exclude={"text", "finish", "fault", "thinking_tokens"}),
            )
        )
        return reply

    def shorten_past(self) -> None:
        """Shorten the past at the end of a step, once prompts take most of the room: only the notes
        of the steps stay. Until then all results stay, so that prompts only grow and nothing is
        computed twice."""
        if self.crowded:
            self.emit(ContextCompressed(up_to=len(self.state.iterations) - 1))

    @property
    def crowded(self) -> bool:
        """Whether prompts take so much of the context that completed steps have to make room."""
        return self.state.newest_prompt > KEPT_SHARE * self.models.full.context_tokens

    @property
    def noted(self) -> bool:
        """Whether a decision takes notes, also of a step that goes on."""
        return self.state.newest_prompt > NOTED_SHARE * self.models.full.context_tokens

    def make_room(self, question: str, estimate: TokenEstimate, tokens: int) -> bool:
        """Make prompts smaller than `tokens`; False when nothing is left to shorten.

        The past is shortened at once, from its oldest part on, until prompts are well below the
        limit. The model server then has to compute the prompt again, so this should be rare. The
        newest result stays. If that is not enough, every result is shown shorter.
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
        self.guard(
            "context", f"results are shown up to {self.prompts.result_characters} characters"
        )
        return True

    def _enough(self, older: list[int], question: str, estimate: TokenEstimate, tokens: int) -> int:
        """The first of the older iterations that leaves enough room when all up to it are
        shortened."""
        for number in older:
            state = replace(self.state, compressed_up_to=number)
            if estimate.of(self.prompts.conversation(state, question)) <= LOW_SHARE * tokens:
                return number
        return older[-1]
