"""Reading: from gathered passages to an answer that code and a second reading have checked."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.agent.best_answer import BestAnswer
from planner.agent.budget import Budget
from planner.agent.changes import Changes
from planner.agent.closeness import about
from planner.agent.gathering import Gatherer
from planner.agent.questions import Asker
from planner.agent.steps import Steps
from planner.checks.agreement import LONG, agree, agreed, agreed_before, is_short, with_reason
from planner.checks.citations import MIN_NEW, beside_lists, guessed, likelier, said_by_one
from planner.checks.claims import beyond, both, claims, name_in, telling
from planner.checks.grounding import (
    borne_out,
    found_row,
    mostly_held,
    otherwise_queried,
    unsupported,
)
from planner.checks.lenient import CUT, items_in, only, text_of
from planner.events import BriefMade
from planner.evidence.answers import details
from planner.evidence.overviews import lists_all
from planner.evidence.selection import grouped, likeliest
from planner.passage import Passage
from planner.protocol import IT, Answer, Conclude, Wants
from planner.state import RunState
from planner.text import indented

FACTS_CHARACTERS = 2200
"""Characters of passages that are read at once for a long answer. A small model ignores most of a
longer text."""
NO_LINE = "no line of the results was found that says it"
NOT_ALL_READ = "not all of what was found was read"
READ_ONCE = "the results were not read a second time"
GUESSED = (
    "Could not find out: the results contain {numbers}, but nothing says that this is what was "
    "asked for."
)
MAY_LACK = "it was put together from several places, and may lack something"
ONE_OF_TWO = "only the first of its two questions was answered"
NOT_FIRST = "the first of its two questions was not answered by itself"
READINGS = 2
"""How often passages are gathered, as long as they answer nothing, before a plan is made."""


@dataclass
class Reader:
    state: RunState
    asker: Asker
    gatherer: Gatherer
    changes: Changes
    steps: Steps
    budget: Budget
    best: BestAnswer
    facts: list[str] = field(default_factory=list)
    """The long answer from the first passages, and what other passages add to it."""
    lead: str | None = None
    """A short answer from the first passages, in what was read for a long one."""
    shortened: bool = False
    """Whether the request was sorted as one for a long answer, and a short one came."""

    def forget(self) -> None:
        """Begin with the next request."""
        self.facts, self.lead, self.shortened = [], None, False

    async def read(self, wants: Wants) -> Conclude | None:
        """An answer from the passages that the request's words lead to; None where there is none
        that is certain. A request that asks for two things in turn is read so first."""
        brief = self.state.brief
        assert brief, "only a request that was read is read for"
        if brief.first:
            found = await self.in_turn(brief.first, brief.then, wants)
            if found or self.settled:
                return found
        readings = 1 if self.changes.wanted else READINGS  # no tool of the pool can do it
        found = await self.read_for(brief.search, wants, readings, afresh=bool(brief.first))
        if found and found.success and brief.first and IT not in brief.then:
            self.best.doubt(NOT_FIRST)
        return found

    async def in_turn(self, first: str, then: str, wants: Wants) -> Conclude | None:
        """The answers to a question of the request, and to the rest of it, which may be asked with
        what the first one found; None where one of them is not certain."""
        self.steps.plan([first, then], {})
        await self.steps.start(first, asks=True)
        found = await self.read_for(self.state.search, "short answer", readings=1)
        said, doubt = found.final_answer if found and found.success else "", None
        if not said and IT not in then:
            said, doubt = self.best.text or "", self.best.unsure
        name = name_in(said, first) if IT in then else said
        self.steps.end(success=bool(name) and not doubt, notes=said)
        if not name:
            self.best.forget()
            return None
        rest = then.replace(IT, name)
        self.steps.revise([rest])
        self.best.keep(said, ONE_OF_TWO)
        await self.steps.start(rest, asks=True)
        try:
            last = await self.read_for([name] if IT in then else self.state.search, wants, 1)
            self.steps.end(success=last is not None, notes=self.best.text or "")
        finally:  # also where a limit ends it
            if self.best.text:
                unsure = "; ".join(filter(None, [doubt, self.best.unsure]))
                self.best.keep(both(said, self.best.text), unsure or None)
        return self.best.certain() if last and last.success else None

    async def read_for(
        self, search: Sequence[str], wants: Wants, readings: int, *, afresh: bool = False
    ) -> Conclude | None:
        """An answer to the question that is read for now; `afresh`: from the likeliest passages,
        though another question may have been read from them."""
        self.forget()
        for number in range(readings):
            again = afresh and not number
            passages = await self.gatherer.gather(self.state.question, search, afresh=again)
            if not number:  # what it leads to may have been shown before
                passages = passages or self.state.passages
            self.budget.hold()
            if not passages and (number or not self.gatherer.can_look_up):
                break
            conclusion = None
            if passages and wants == "long answer":
                conclusion = await self.overview(passages)
                if not self.facts:  # small models take many a question for a long one
                    wants = "short answer"
                    self.asker.emit(self.sorted_as(wants, search))
                    self.gatherer.select_again()
            if passages and wants == "short answer":
                conclusion = await self.answer()
            if self.may_be_long and (self.best.unsure or not conclusion):
                conclusion = await self.lengthened(search)
            if conclusion:
                return conclusion
            if self.settled:
                break
            if number + 1 < readings:
                search = [*search, *await self.asker.words()]
        return self.best.certain()

    def sorted_as(self, wants: Wants, search: Sequence[str]) -> BriefMade:
        """The request's brief, as what it turned out to be."""
        assert self.state.brief
        known = self.state.brief.model_dump(exclude={"at", "search", "wants"})
        return BriefMade(search=list(search), wants=wants, **known)

    async def overview(self, passages: Sequence[Passage]) -> Conclude | None:
        """A long answer: one from the first passages, and then the facts that the others add, a few
        passages at a time, unless it has what one of the first ones lists; code leaves out what no
        passage holds. It is certain once all of it is held, others add nothing, and a second
        reading in a few words says nothing else. None otherwise; without facts where it is short
        enough to be read a second time like any short one."""
        groups = grouped(passages, FACTS_CHARACTERS)
        likeliest_group = groups[0]
        held = self.best.unsure != MAY_LACK  # what was said of other passages before
        if not self.facts:
            lines = await self.asker.overview(likeliest_group)
            said = text_of(lines)
            listed = any(lists_all(said, self.state.question, each) for each in likeliest_group)
            short = is_short(said, self.state.question) and not listed
            if said and (short or not (listed or self.stands(said))):  # else it says nothing
                self.lead, self.shortened = " ".join(items_in(said)) if short else None, True
                return None
            groups = [] if listed else await self.gatherer.further(groups)
            kept = only(lines, lambda each: mostly_held(self.state, each, said))
            held = bool(lines) and kept == lines and not listed
            self.facts = [told] if (told := text_of(kept)).strip(CUT) else []
        added, all_read = await self.add_facts(groups)
        if not self.facts:
            return None
        lacks = MAY_LACK if added or not held else None
        self.best.unsure = lacks if all_read else NOT_ALL_READ
        if self.best.text and self.best.unsure is None:
            self.best.unsure = READ_ONCE
            second = await self.asker.confirm(likeliest_group)
            if second and agree(second, self.best.text, self.state.question):
                self.best.unsure = None
            elif second:
                self.differ(second)
        return self.best.certain()

    @property
    def settled(self) -> bool:
        """Whether results hold the best answer, or no time is left to look for another one. Another
        search seldom makes an uncertain answer certain (docs/experiments.md)."""
        answer = self.best.text
        more = answer is None or (unsupported(self.state, answer) and self.budget.time_for_more)
        return not more

    @property
    def may_be_long(self) -> bool:
        """Whether a request was sorted as one for a long answer, and its short one names nothing
        that a second reading could agree on."""
        answer = self.best.text
        return self.shortened and answer is not None and not beyond(answer, self.state.question)

    async def lengthened(self, search: Sequence[str]) -> Conclude:
        """The short answer with what other passages add to it."""
        answer, unsure = self.best.text or "", self.best.unsure
        self.shortened, self.facts = False, [answer]
        self.asker.emit(self.sorted_as("long answer", search))
        self.gatherer.select_again()
        further = self.gatherer.further(grouped(self.newest_passages, FACTS_CHARACTERS))
        await self.add_facts(await further)
        self.best.unsure = unsure
        return self.best.concluded(self.best.text or answer)

    async def add_facts(self, groups: Sequence[Sequence[Passage]]) -> tuple[bool, bool]:
        """Read each of these for what it adds to a long answer, a step for each. Returns whether
        any did, and whether there was time for all."""
        sources = [dict.fromkeys(each.source for each in group) for group in groups]
        steps = [f"Read {', '.join(each)}" for each in sources]
        self.keep_facts()
        before = len(self.facts)
        if groups:
            self.steps.plan(steps, {}, known=self.best.text or "")
        longest = self.state.ledger[-1].seconds
        for step, group in zip(steps, groups, strict=True):
            if self.facts and self.budget.seconds_left < longest:
                return len(self.facts) > before, False
            if not self.steps.wanted(step):
                continue
            await self.steps.start(step)
            # A small model goes on with a list after the last of its facts.
            said = [each for each in await self.asker.facts(group) if self.stands(each, least=1)]
            found = borne_out(self.state, said, self.facts)
            if self.facts:
                answer = f"{self.state.question} {self.facts[0]}"
                found = await about(self.asker.models.encoder, found, answer)
            longest = max(longest, self.state.ledger[-1].seconds)
            self.steps.end(success=bool(found), notes="\n".join(found))
            self.facts += found
            self.keep_facts()
            self.budget.hold()
        return len(self.facts) > before, True

    def stands(self, answer: str, least: int = MIN_NEW) -> bool:
        """Whether an answer names something beyond the request, or one result says it; `least` is
        how many new words have to be said there."""
        question = self.state.question
        return bool(beyond(answer, question)) or said_by_one(self.state, answer, question, least)

    def keep_facts(self) -> None:
        """The long answer so far: the first one, and the facts beside it that tell most."""
        if self.facts:
            first, *others = self.facts
            listed = telling(others, " ".join([self.state.question, *self.state.search]))
            beside = "\n".join(f"- {indented(fact, 2)}" for fact in listed)
            self.best.keep("\n\n".join(filter(None, [first, beside])), NOT_ALL_READ)

    async def answer(self) -> Conclude | None:
        """A try at the answer from what was found; None when it is not there, or not certain.

        Code looks up what it says, and a second reading has to agree. The first one is of the
        likeliest passages, the second of all, asked in other words: a small model's wrong answers
        seldom come twice from what is not the same. Where they differ, the first question is
        asked once more, of all passages or, if they were read for a long answer, of the likeliest;
        the answer that was read from most passages is shown (docs/experiments.md). Numbers that
        stand in the results for another reason are guesses: where each reading says nothing else,
        nothing was found.
        """
        lead, self.lead = self.lead, None
        if lead and unsupported(self.state, lead):
            lead = None
        said = Answer(final_answer=lead, found_in="results") if lead else await self.first_reading()
        if said is None:
            return None
        first = said.final_answer
        if self.changes.acting or (self.state.wants == "long answer" and len(first) > LONG):
            return self.best.concluded(first)
        self.best.keep(first, READ_ONCE)
        second, third = await self.asker.again(), None
        certain = agreed(self.state, first, second) or agreed_before(self.state, said, second)
        first_is_narrow = self.more_to_read
        if certain is None and (lead or first_is_narrow):
            said = await self.asker.optional(self.asker.answer(None), None)
            if said and said.found:
                third = said.final_answer
                certain = agreed(self.state, first, third)
                if lead and certain is None:
                    certain = agreed(self.state, third, second)
        if said and certain is not None:
            more = details(found_row(self.state), certain, self.state.question)
            return self.judged("\n- ".join([with_reason(self.state, certain, said), *more]))
        # After a lead, the third was read from the likeliest passages alone.
        others = [first, third] if lead else [third, first]
        readings = [second, *others] if lead or first_is_narrow else [first, second]
        told = [*filter(None, readings)]
        question = self.state.question
        guesses = [] if self.changes.wanted else guessed(self.state, told, question)
        if guesses:
            answer = GUESSED.format(numbers=" and ".join(guesses))
            return Conclude(final_answer=answer, success=False)
        answer = likelier(self.state, told, question) or first
        differing = (each for each in (first, *told) if not agree(each, answer, question))
        self.best.text = answer
        if other := next(differing, second):
            self.differ(other)
        return None

    def judged(self, answer: str) -> Conclude | None:
        """The conclusion with an answer that two readings agree on, and what speaks against it;
        None where a query does."""
        self.best.keep(answer, None)
        conclusion = self.best.concluded(answer)
        other = otherwise_queried(self.state, answer)
        if other and not beside_lists(self.state, answer, self.state.question):
            self.doubt(other)
            return None
        if not (self.stands(answer) and (self.best.quotes or claims(answer))):
            self.best.unsure = NO_LINE
        return conclusion

    async def confirmed(self, conclusion: Conclude) -> Conclude:
        """A conclusion that a model came to when it decided how to go on, which has to agree with a
        reading of the results like any answer."""
        answer = conclusion.final_answer
        if self.changes.wanted or not answer.strip():
            return conclusion
        if missing := unsupported(self.state, answer):
            self.best.keep(answer, f"no result says {', '.join(missing)}")
            return conclusion
        self.best.keep(answer, READ_ONCE)
        second = await self.asker.again()
        if second and agreed(self.state, answer, second) is None:
            self.differ(second)
        elif second and (judged := self.judged(answer)):
            return judged
        return self.best.concluded(answer)

    def differ(self, other: str) -> None:
        """Doubt the best answer, since another reading does not say the same."""
        self.doubt(f"Two readings of the results differ: {other}")

    def doubt(self, why: str) -> None:
        self.best.unsure = why
        self.asker.guard("second_reading", why)

    async def first_reading(self) -> Answer | None:
        """What the likeliest passages answer, and all where they do not; asked once more where no
        result says it. None where no answer is found that results hold."""
        problem: str | None = None
        rejected: Answer | None = None
        for _ in range(2):
            asked = self.asker.answer(problem)
            said = await (self.asker.optional(asked, rejected) if rejected else asked)
            if problem is None and not said.found and self.more_to_read:
                said = await self.asker.answer(problem)
            if not said.found:
                return None
            missing = unsupported(self.state, said.final_answer)
            if not missing:
                return said
            rejected, problem = said, f"no result says {', '.join(missing)}"
            self.asker.guard("grounding", problem)
        self.best.keep(said.final_answer, problem)
        return None

    @property
    def more_to_read(self) -> bool:
        """Whether an answer was read from the likeliest passages, and not yet from all."""
        passages = self.newest_passages
        asked = sum(call.role == "answer" for call in self.state.iterations[-1].exchange)
        return len(likeliest(passages)) < len(passages) and asked == 1

    @property
    def newest_passages(self) -> Sequence[Passage]:
        gathered = self.state.iterations[-1].gathered
        return gathered.passages if gathered else []
