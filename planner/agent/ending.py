"""The end of a request: its status and its answer, held against what was asked for, what was found
and what was done."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from planner.agent.best_answer import BestAnswer
from planner.agent.changes import NO_CALL, UNKNOWN, Changes, Lacks
from planner.agent.formatting import Shaped, shaped
from planner.agent.gathering import last_gathered
from planner.agent.questions import Asker
from planner.agent.reading import NO_LINE
from planner.agent.translating import TRANSLATED, translated
from planner.checks.citations import beside_lists, said_by_one, supporting, unproved
from planner.checks.claims import beyond, holds
from planner.checks.deeds import done
from planner.checks.grounding import (
    converted,
    echoed,
    in_own_words,
    names_more,
    of_request,
    only_of_request,
    queries,
    results,
    unsupported,
    unsupported_data,
)
from planner.checks.guards.decisions import gives_up
from planner.checks.guards.repeats import newest_failure
from planner.checks.lenient import CUT, only, sentences_in, text_of
from planner.checks.parts import read_in_part
from planner.clock import Clock
from planner.events import FinalStatus, RunFinished, StepConcluded
from planner.prompts import Prompts
from planner.prompts.texts import passage
from planner.protocol import Conclude, FromRecord
from planner.state import RunState
from planner.text import indented

OWN_WORDS = "many of its words are in none of the passages that were read"
OWN_QUERY = "it was found by a query that the model wrote; check its conditions"
"""Half of these answers are right (docs/experiments.md, "Lists as tables")."""
NO_END = "its end is missing: it was cut off while it was written"
ONE_PART = "only a part of the list that {tool} returns was read"
MAY_BE_ORDER = (
    "the request may also ask for a change, and nothing was changed; ask for the change by itself"
)
NO_TOOLS = "Nothing can be looked up: this run has no tools. Connect an upstream MCP server."
NO_READING_TOOLS = (
    "Nothing can be looked up: none of the tools is marked as read-only, so each of them may "
    "change something. In the upstreams file, set `safety: read_only` for those that only read."
)
MAX_FOUND_CHARS = 600
"""Characters of what one call found, if the run ends without an answer."""


def cut_short(state: RunState, reason: str) -> RunFinished:
    """The end of a run that cannot go on: it shows what was found, as it was found."""
    return _without_model(state, Prompts([]), reason, done(state.iterations_asked))


def _without_model(
    state: RunState, prompts: Prompts, reason: str, made: str, left: str = ""
) -> RunFinished:
    found = [f"- {step.objective}: {step.notes}" for step in state.completed_steps if step.notes]
    found += [
        f"- {each.tool} returned: {prompts.shown_result(state, each)[:MAX_FOUND_CHARS]}"
        for each in state.open_iterations
        if each.succeeded and each.by != "lookup" and not each.changes
    ]
    if (gathered := last_gathered(state.open_iterations)) and gathered.gathered:
        shown = "\n".join(map(passage, gathered.gathered.passages))
        found.append(f"- passages on the request:\n{shown[:MAX_FOUND_CHARS]}")
    why = reason.rstrip(".")
    so_far = "\n".join(found)
    begins, model_says = _not_found_out(reason), None
    if made or left:
        begins, model_says = f"It may not be finished: {why}.\n\n{_record(made, left)}", so_far
    answer = _paragraphs(begins, f"Found so far:\n{so_far}" if found else "")
    status: FinalStatus = "partial" if found or made else "failed"
    return RunFinished(status=status, answer=answer, model_says=model_says, reason=reason)


def _not_found_out(reason: str) -> str:
    return f"Could not find out: {reason.rstrip('.')}."


def _record(made: str, left: str) -> str:
    """What was done, and what is left to do."""
    return _paragraphs(f"What was done:\n{made or '- nothing, as far as is known'}", left)


def _said(answer: str) -> str:
    """The answer, as the model's words."""
    return f"The model says:\n{answer}"


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))


class Doubt(NamedTuple):
    reason: str
    missing: Sequence[str] = ()
    """What it claims and no result says."""
    elsewhere: Sequence[str] = ()
    """Its numbers that stand in results for another reason."""


@dataclass(frozen=True)
class Ending:
    state: RunState
    changes: Changes
    best: BestAnswer
    asker: Asker
    clock: Clock

    async def conclude(self, conclusion: Conclude, reason: str | None) -> RunFinished:
        """The end with a conclusion; `reason` is why the run could not go on."""
        if self.state.part.request.goal == "plan":
            return _planned(conclusion, reason)
        if not conclusion.final_answer.strip():
            return self.without_model(reason or "the model gave no answer")
        if repeats := self._repeats_request(conclusion):
            self.best.unsure = self.best.unsure or NO_LINE
        if self._ordered(conclusion, repeats) and (undone := self.changes.undone()):
            return self._undone(*undone, conclusion, reason)
        deeds = conclusion.final_answer if self._tells_of_deeds(conclusion) else ""
        lacks = self.changes.lacks(deeds)
        answer = self._answer(conclusion, lacks)
        notes = _paragraphs(answer, lacks.in_words)
        from_record = answer and isinstance(conclusion, FromRecord)
        told = notes if from_record else self._beside_record(answer, lacks.in_words)
        found = conclusion.success and not gives_up(conclusion.final_answer)
        formatted = await self._formatted(told) if found else Shaped()
        self._conclude_open_step(conclusion, found, notes or told, lacks)
        talk = self.state.wants == "talk"
        doubt = self._doubt(answer, told, formatted.data) if found and not talk else None
        reason = reason or lacks.reason
        status: FinalStatus = "answered"
        if lacks.reason or doubt:
            status, reason = "partial", reason or (doubt and doubt.reason)
        elif not found and reason:
            status = "partial"
        elif not found:
            status, reason = "not_found", newest_failure(self.state)
            if reason and answer:
                told = _paragraphs(_not_found_out(reason), _said(told))
        elif talk and (self._spoken or echoed(self.state, answer)):
            reason = reason or "nothing was looked up or changed for this reply"
        if status == "partial" and (rest := self._without_orders(answer)):
            answer = rest
            told = _paragraphs("Nothing was changed.", _said(answer))
        elif (self._orders_too or self._may_agree) and answer:
            told = _paragraphs("Nothing was changed.", _said(told))
        elif self.best.nowhere and answer:
            told = _paragraphs(self.best.nowhere, _said(told))
        if formatted.problem:
            status = "partial"
            unfit = f"the answer could not be put into the caller's schema: {formatted.problem}"
            reason = f"{reason}; {unfit}" if reason else unfit
        if answer == told and found and not (talk or self.changes.wanted):
            told = await translated(answer, self.state, self.asker.calls)
            reason = reason or (TRANSLATED if told != answer else None)
        loose = doubt.elsewhere if doubt else ()
        quotes = [each for each in self.best.quotes if not any(holds(each, n) for n in loose)]
        return RunFinished(
            status=status,
            answer=told,
            model_says=None if answer == told else answer,
            reason=reason,
            quotes=quotes,
            unsupported=[*doubt.missing] if doubt else [],
            data=formatted.data,
        )

    def _answer(self, conclusion: Conclude, lacks: Lacks) -> str:
        """The conclusion's answer without what it says of other deeds than the run's; empty if it
        claims one that was not done."""
        answer = conclusion.final_answer
        if lacks.claimed or echoed(self.state, answer, lacks.failed):
            return ""
        return self.changes.related(answer) if self._tells_of_deeds(conclusion) else answer

    def _conclude_open_step(
        self, conclusion: Conclude, found: bool, notes: str, lacks: Lacks
    ) -> None:
        """End the only step of a `step` request, or the one that an answer ends."""
        goal, step = self.state.part.request.goal, self.state.step
        if goal == "step":
            self._conclude_step(found, notes)
        elif goal == "answer" and step:
            failed = step.objective in [each.prompt for each in lacks.failed]
            self._conclude_step(conclusion.success and not failed, conclusion.assessment)

    def _without_orders(self, answer: str) -> str:
        """The answer to a question without the sentences that have a value which only the request
        says, or else without those that have no other, if something could have been changed and
        was not. "Check it, and if it is odd, set the password to X" is read as a question, and X
        told as if it had been set. Empty where this does not apply, or nothing is left."""
        asked = self.state.part.request.goal == "answer" and self.state.wants != "talk"
        changed = any(each.changes for each in self.changes.calls)
        if changed or not (asked and self.changes.possible):
            return ""
        values, lines = of_request(self.state, answer), sentences_in(answer)
        sentences = [each for line in lines for each in line]
        orders = [each for each in sentences if any(holds(each, value) for value in values)]
        if len(orders) == len(sentences):
            orders = [each for each in sentences if only_of_request(self.state, each)]
        return text_of(only(lines, lambda each: each not in orders)) if orders else ""

    def _tells_of_deeds(self, conclusion: Conclude) -> bool:
        """Whether a model says in it what was done."""
        return self.changes.wanted and not isinstance(conclusion, FromRecord)

    def _beside_record(self, answer: str, left: str) -> str:
        """What was done, from the record, what is left, and then the answer, as the model's words:
        it may take one file or name for another, which no check notices. Only the answer, if there
        was nothing to do."""
        made = done(self.changes.calls)
        if answer and not (made or left):
            return answer
        return _paragraphs(_record(made, left), _said(answer) if answer else "")

    def _doubt(self, answer: str, told: str, data: Any) -> Doubt | None:
        """Why an answer with its `data` is not certain."""
        missing = unsupported(self.state, answer) + unsupported_data(self.state, told, data)
        if tool := read_in_part(self.state, answer):
            return Doubt(ONE_PART.format(tool=tool), missing=missing)
        if self.best.unsure or missing:
            said = f"no result says {', '.join(missing)}"
            return Doubt(self.best.unsure or said, missing=missing)
        if CUT in answer:
            return Doubt(NO_END)
        if not results(self.state).strip():
            return Doubt("nothing was looked up for it")
        if loose := unproved(self.state, answer):
            why = f"the results contain {', '.join(loose)}, but not about what was asked"
            return Doubt(why, elsewhere=loose)
        if other := converted(self.state, answer):
            return Doubt(f"no result says {', '.join(other)}, unless in another unit")
        if in_own_words(self.state, answer):
            return Doubt(OWN_WORDS)
        if self._orders_too:
            return Doubt(MAY_BE_ORDER)
        queried = queries(self.state) and not self.changes.wanted
        rests_on_it = queried and not beside_lists(self.state, answer, self.state.prompt)
        return Doubt(OWN_QUERY) if rests_on_it else None

    def without_tools(self) -> RunFinished:
        """The end of a question that no tool can look up."""
        unmarked = any(tool.upstream for tool in self.changes.tools)
        return RunFinished(status="not_found", answer=NO_READING_TOOLS if unmarked else NO_TOOLS)

    def without_model(self, reason: str) -> RunFinished:
        """The end with what was found, since no model says what it means."""
        made, left = done(self.changes.calls), self.changes.lacks().in_words
        ended = _without_model(self.state, self.asker.prompts, reason, made, left)
        if self.state.part.request.goal == "step":
            self._conclude_step(success=False, notes=reason)
        return ended

    def _ordered(self, conclusion: Conclude, repeats: bool) -> bool:
        """Whether this answer is only valid if a change was made. A conclusion is about all steps,
        and may come when no step did what it was for. `repeats`: whether it repeats the request."""
        if self.state.part.request.goal == "conclude":
            succeeded = any(step.success for step in self.state.steps)
            return bool(self.changes.failed()) and not succeeded
        answer = conclusion.final_answer
        may_be_order = self.state.may_be_order and not self._orders_too
        may_say_so = may_be_order and bool(echoed(self.state, answer))
        return self.changes.wanted or may_say_so or (repeats and self._may_be_missed)

    @property
    def _orders_too(self) -> bool:
        """Whether a question may also be an order, which the run could carry out."""
        return self.state.may_be_order and self.changes.possible

    @property
    def _may_agree(self) -> bool:
        """Whether a request that was read as a question may order what was spoken of before: "yes,
        please" has no word of it, and neither has an answer that tells it as done."""
        may_be_order = self.state.may_be_order or self._may_be_missed
        return self._spoken and may_be_order and not self.changes.wanted

    @property
    def _spoken(self) -> bool:
        """Whether the request goes on with a conversation."""
        return bool(self.state.part.request.said_before)

    @property
    def _may_be_missed(self) -> bool:
        """Whether a request that was read as a question may be an order: it has no question mark,
        and the run may change something."""
        asks = self.changes.asked or self.state.wants == "talk"
        return self.state.part.request.goal == "answer" and self.changes.possible and not asks

    def _repeats_request(self, conclusion: Conclude) -> bool:
        """Whether an answer has words of the request that no result has, and nothing says it: what
        was asked for may be told as if it were done. An answer that names nothing beyond the
        request is said by a line or not, and nothing says it if no result has a name or number
        that it repeats; one that names more counts as said if it is certain, or if passages were
        found."""
        answer, prompt = conclusion.final_answer, self.state.prompt
        answers = conclusion.success and not self.changes.wanted
        if not answers or not results(self.state).strip():
            return False
        if only_of_request(self.state, answer):
            return True
        if not echoed(self.state, answer):
            return False
        if beyond(answer, prompt):
            return not self.state.passages and bool(
                self.best.unsure or unproved(self.state, answer)
            )
        if self._may_be_missed:  # an answer to a question says something new
            return not said_by_one(self.state, answer, prompt, least=1)
        return not supporting(self.state, answer, prompt)

    def _undone(
        self, status: FinalStatus, why: str, conclusion: Conclude, reason: str | None
    ) -> RunFinished:
        """The end of a request for a change that was not made, for this reason (`why`)."""
        unsure, quotes = self.best.unsure, self.best.quotes
        if why == NO_CALL and reason != unsure:  # a doubt about an answer is no cause
            why = reason or why
        text = why if why == UNKNOWN else f"Nothing was changed: {why}."
        is_question = self._is_question(conclusion)
        if is_question and not self._spoken:
            status, why = "partial", reason or unsure or why
            text = f"{conclusion.final_answer}\n\n{text}"
        elif is_question or self._may_answer(conclusion):
            status, text = "partial", f"{text}\n\n{_said(conclusion.final_answer)}"
        elif quotes:
            text += "\n\nFound:\n" + "\n".join(f"- {quote}" for quote in quotes)
            # What was read as an action may be a question.
            status = "partial" if why == NO_CALL and not self.changes.chosen else status
        if self.state.part.request.goal == "step":
            self._conclude_step(success=status == "partial", notes=text)
        return RunFinished(status=status, answer=text, reason=why, quotes=quotes)

    def _is_question(self, conclusion: Conclude) -> bool:
        """Whether what was read as an action was answered like a question, "how do I …", where no
        tool changes anything. An answer with words of the request that no result has may say that
        it was done."""
        request = self.state.part.request
        step = request.goal == "step" and not request.tool
        ordered = self.state.wants == "action" or self.state.may_be_order
        if not ordered or (self.asker.may_change and not step):
            return False
        return conclusion.success and not echoed(self.state, conclusion.final_answer)

    def _may_answer(self, conclusion: Conclude) -> bool:
        """Whether a request with a question mark, read as an order that no tool can carry out, was
        answered with something that it does not say and results hold. It may still tell the order
        as done, so the record comes first."""
        if self.changes.wanted or self.changes.possible or not conclusion.success:
            return False
        return names_more(self.state, conclusion.final_answer, self.state.prompt)

    def _conclude_step(self, success: bool, notes: str) -> None:
        if step := self.state.step:
            self.asker.emit(StepConcluded(number=step.number, success=success, notes=notes))

    async def _formatted(self, answer: str) -> Shaped:
        """The answer as data, while its step's results still stand in the prompt."""
        part = self.state.part
        schema = part.request.data_schema
        if schema is None or part.request.goal not in ("answer", "conclude"):
            return Shaped()
        with self.clock.limit(part.ends_at):
            return await shaped(answer, schema, self.asker)
        return Shaped(problem="the time limit was reached")


def _planned(plan: Conclude, reason: str | None) -> RunFinished:
    """The end of a request for a plan, which claims nothing: it says what is to be done."""
    status: FinalStatus = "answered"
    if not plan.success or gives_up(plan.final_answer):
        status = "partial" if reason else "not_found"
    return RunFinished(status=status, answer=plan.final_answer, reason=reason)


def of_items(ends: Sequence[RunFinished]) -> RunFinished:
    """The end of a request that is a list, from the ends of its items, each with its number."""
    statuses = {each.status for each in ends}
    reasons = [f"{n}: {each.reason}" for n, each in enumerate(ends, 1) if each.reason]
    answers = [f"{n}. {indented(each.answer, 3)}" for n, each in enumerate(ends, 1)]
    says = [each.answer if each.model_says is None else each.model_says for each in ends]
    return RunFinished(
        status=ends[0].status if len(statuses) == 1 else "partial",
        answer="\n".join(answers),
        model_says="\n".join(says),
        reason="; ".join(reasons) or None,
        quotes=[quote for each in ends for quote in each.quotes],
        unsupported=[claim for each in ends for claim in each.unsupported],
    )
