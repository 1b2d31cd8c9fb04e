"""The changes that a request is for, and what became of them, according to the run's record. A
model's words do not decide this."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from rapidfuzz import fuzz, process

from planner.agent.questions import Asker
from planner.checks.deeds import invented, left_out, left_undone, related
from planner.checks.forms import is_path
from planner.checks.grounding import carried_out, echoed, not_done, results
from planner.checks.guards import repeats, sources
from planner.checks.guards.no_effect import complaints
from planner.checks.guards.repeats import MAX_COMPLAINT_CHARS
from planner.checks.parts import rows_left
from planner.events import FinalStatus
from planner.evidence.words import asks, long_words, parts, says, words
from planner.passage import Passage
from planner.prompts.texts import one_line
from planner.protocol import Call
from planner.state import Iteration, RunState
from planner.text import strings
from planner.tools import EMPTY, Arguments, Outcome, ToolSpec, find

UNKNOWN = (
    "It is not known whether anything was changed: the call went out, and no answer came. Look "
    "before you ask for it again."
)
"""What the user is told about a change that got no answer."""
MIN_ECHOED = 3
"""Words of the request beside a call that an answer may not repeat as if they were done."""
SHARED_WORDS = 0.25
"""The share of an answer's words that calls have, if both are in one language."""
NO_CALL = "no call that changes anything was made"
"""Why nothing was changed, if no other reason is known."""
MIN_QUOTED_CHARS = 6
"""Characters of the first line of a text that a tool did not find."""
MAX_OUTCOME_CHARS = 400
"""Characters of a result that may be a refusal; those are short."""
NEAR = 60
"""Of 100: from there on a passage nearly contains a text."""


class Lacks(NamedTuple):
    """What a request for a change lacks at its end."""

    claimed: Sequence[str]
    """What its answer says and no call has done."""
    failed: Sequence[Iteration]
    pending: Sequence[str]
    """Its changes that were planned or ordered, and not begun."""
    left: Sequence[str] = ()
    """What it may order besides, as far as its words tell."""
    told: Sequence[str] = ()
    """The names of errors in what came of the changes that were made."""
    refused: Sequence[Iteration] = ()
    """Its changes whose results say that they were not made, as the model reads them."""

    @property
    def reason(self) -> str | None:
        """Why it is not done, or not said rightly; None if it lacks nothing."""
        if self.claimed:
            return f"no call that was made says {', '.join(self.claimed)}"
        if self.pending:
            return "not all planned changes were made"
        if self.failed:
            names = ", ".join(dict.fromkeys(each.tool for each in self.failed))
            return f"{names} did not succeed, as far as is known"
        if self.refused:
            last = self.refused[-1]
            return (
                f'{last.tool} may not have done it: "{one_line(last.result, MAX_COMPLAINT_CHARS)}"'
            )
        if self.told:
            return f"what was changed came with {', '.join(self.told)}"
        if self.left:
            return f"the request may also ask for {', '.join(self.left)}"
        return None

    @property
    def in_words(self) -> str:
        """What was not done; empty if nothing is left."""
        return left_undone(self.failed, [*self.pending, *self.left])


@dataclass(frozen=True)
class Changes:
    """The changes of one run."""

    state: RunState
    tools: Sequence[ToolSpec]
    """All tools of its pool."""
    permitted: Sequence[ToolSpec]
    """The tools that it may call."""
    asker: Asker
    outcomes: dict[tuple[str, str], bool] = field(default_factory=dict)
    """Whether changes were made, as the model reads what their tools returned."""

    @property
    def possible(self) -> bool:
        """Whether the run may call a tool that changes something."""
        return any(not tool.read_only for tool in self.permitted)

    @property
    def wanted(self) -> bool:
        """Whether the request is for a change or another action: it wants one, names a tool for
        one, or the plan has one. A request that may be an order counts as one if it has no question
        mark."""
        ordered = self.state.may_be_order and not self.asked
        return self.state.wants == "action" or ordered or self.chosen

    @property
    def asked(self) -> bool:
        """Whether the request has a question mark."""
        return asks(self.state.prompt)

    @property
    def acting(self) -> bool:
        """Whether a change is wanted, and may be planned now."""
        return self.wanted and self.asker.may_change

    @property
    def chosen(self) -> bool:
        """Whether the request, the plan or a call names a tool that changes something."""
        tools = [self.state.part.request.tool, *self.state.planned_tools.values()]
        tools += [each.tool for each in self.calls]
        named = (find(name, self.tools) for name in tools if name)
        return any(tool and not tool.read_only for tool in named)

    def looked_up_for(self, call: Call) -> bool:
        """Whether a call makes the only change that was planned, after others looked up what it
        needs."""
        made = [each for each in self.state.part_iterations if each.by == "choice"]
        planned = find(self.state.planned_tools.get(call.prompt, ""), self.tools)
        only = planned is not None and not planned.read_only and not self.pending()
        return only and bool(made) and all(map(self.reads, made))

    def alternatives(self, name: str) -> dict[str, str]:
        """The planned changes that may be ways to do the same, as their tools and this one take the
        same values, two at least: the first step of each tool. Empty if there are none."""
        steps: dict[str, str] = {}
        for step in self.pending():
            steps.setdefault(self.state.planned_tools[step], step)
        taken = self._parameters(name)
        alike = {
            other: step
            for other, step in steps.items()
            if _contained(taken, self._parameters(other))
        }
        return alike if name in alike and len(alike) > 1 else {}

    def _parameters(self, name: str) -> Set[str]:
        """The names of what a tool takes."""
        tool = find(name, self.tools)
        return tool.parameters.keys() if tool else set()

    @property
    def calls(self) -> Sequence[Iteration]:
        """The calls that an answer is about: a conclusion is about all steps of its run."""
        concludes = self.state.part.request.goal == "conclude"
        return self.state.iterations if concludes else self.state.part_iterations

    @property
    def made(self) -> Sequence[Iteration]:
        """The changes that were made."""
        return [each for each in self.calls if each.changed]

    def reads(self, call: Iteration) -> bool:
        tool = find(call.tool, self.tools)
        return tool is None or tool.read_only

    def failed(self) -> list[Iteration]:
        """The changes whose newest call did not succeed: something is left to do. Calls for the
        same purpose are tries at one change, unless their arguments were given: each of those is to
        be made, such as several edits of a file."""
        newest = {
            (each.prompt, "" if each.by_model else str(each.arguments)): each
            for each in self.calls
            if each.by == "choice" and not self.reads(each)
        }
        return [
            each
            for each in newest.values()
            if not each.succeeded and not repeats.known(self.state, each)
        ]

    def pending(self) -> list[str]:
        """The changes that are planned and have not begun."""
        planned = self.state.planned_tools
        return [
            step
            for step in self.state.later_steps
            if (tool := find(planned.get(step, ""), self.tools)) and not tool.read_only
        ]

    def not_called(self) -> list[str]:
        """The orders among the steps that a conclusion is about, if no step called a change: what
        one has only looked up, another one may do."""
        if self.state.part.request.goal != "conclude" or not all(map(self.reads, self.calls)):
            return []
        orders = [
            part.request.prompt
            for part in self.state.parts
            if part.brief and part.brief.wants == "action"
        ]
        return [each for each in orders if not asks(each)]

    def undone(self) -> tuple[FinalStatus, str] | None:
        """The status of a request for a change that was not made, and why it was not; None when a
        change was made."""
        calls = self.calls
        if self.made:
            return None
        if any(each.changes and not each.answered for each in calls):
            return "failed", UNKNOWN
        declined = [each for each in calls if each.approval and not each.approval.approved]
        if declined:
            call = declined[-1]
            return "refused", f"{call.tool} was not approved ({call.approval.reason})"  # type: ignore[union-attr]
        if not self.possible:
            return "refused", "this run may only use tools that read"
        failed = [each for each in calls if each.asked and not each.succeeded]
        if failed:
            first = failed[-1].result.strip().partition("\n")[0][:200]
            return "failed", f"{failed[-1].tool} did not succeed ({first})"
        unsent = [each for each in calls if each.upstream is None]  # a tool may say the same
        if held := [each for each in unsent if each.result.startswith(sources.NOT_MADE)]:
            why, _, _ = held[-1].result.removeprefix(sources.NOT_MADE).rpartition(". ")
            status: FinalStatus = "partial" if held[-1].result == sources.NOT_DUE else "failed"
            return status, f"{held[-1].tool} was not called: {one_line(why, MAX_COMPLAINT_CHARS)}"
        return "failed", NO_CALL

    def claimed(self, answer: str) -> list[str]:
        """What an answer says that was not done, as far as code can see."""
        return not_done(self.state, answer) or self.instead(answer) or self.unset(answer)

    def lacks(self, deeds: str = "") -> Lacks:
        """What is left to do, and what a text that tells of `deeds` says that was not done."""
        pending = [*self.pending(), *self.not_called()]
        left: list[str] = []
        if deeds and self.made:
            left = [*left_out(self.state, self.made), *self.uncalled(), *rows_left(self.state)]
        claimed = self.claimed(deeds) if deeds else []
        told = dict.fromkeys(name for each in self.made for name in complaints(each.result))
        refused = [
            each for each in self.made if not self.outcomes.get((each.tool, each.result), True)
        ]
        return Lacks(claimed, self.failed(), pending, [*dict.fromkeys(left)], [*told], refused)

    async def read_outcomes(self) -> None:
        """Have the model say which results of changes tell that nothing was done: a service may say
        so in any words and language. The same result of the same tool says the same."""
        for each in self.made:
            told = (each.tool, each.result)
            if told not in self.outcomes and len(each.result) <= MAX_OUTCOME_CHARS:
                asked = self.asker.was_done(each)
                self.outcomes[told] = await self.asker.optional(asked, True)

    def uncalled(self) -> list[str]:
        """The tools for changes that were not called, and of which the request has the verb, which
        nothing that was called has, and another word of the name."""
        called = {each.tool for each in self.calls}
        asked = {*words(" ".join([self.state.prompt, *self.state.search]))}
        known = "\n".join([*self._described(self.calls).values(), carried_out(self.state)])
        new = asked - {*words(known)}
        found = []
        for tool in self.permitted:
            verb, *others = parts(tool.bare_name)
            told = new.intersection(words(verb))
            if told and not (tool.read_only or tool.name in called):
                found += [tool.name] * (not asked.isdisjoint(long_words(" ".join(others))))
        return found

    def related(self, answer: str) -> str:
        """An answer without the sentences that have nothing to do with the request and its calls:
        small models tell of other deeds, and the record says what was done."""
        made = [each for each in self.calls if each.succeeded]
        return related(self.state, answer, "\n".join(self._described(made).values()))

    def instead(self, answer: str) -> list[str]:
        """The words of the request that an answer to it repeats, and that no result and no tool of
        a change that was made has: three at least, as a part of the request may not have been done,
        unless all are in another language; or one where a change was given a text that nobody had
        said, as something else may have been done."""
        tools = self._described(self.made)
        known = {*words("\n".join([results(self.state), *tools.values()]))}
        told = {each for each in long_words(answer) if not each.isdigit()}  # of no language
        said = [word for word in echoed(self.state, answer) if word not in known]
        several = len(said) >= MIN_ECHOED and len(told & known) >= SHARED_WORDS * len(told)
        made_up = any(invented(self.state, each, tools.get(each.tool, "")) for each in self.made)
        return said if made_up or several else []

    def unset(self, answer: str) -> list[str]:
        """The words of an answer by which the request names arguments that these changes could have
        been given, and were not: "the location was set" for an event without one."""
        given = [
            f"{each.tool} {name} {value}"
            for each in self.made
            for name, value in each.arguments.items()
            if value not in EMPTY or _clears(each.arguments)
        ]
        taken = (name for each in self.made for name in self._parameters(each.tool))
        could = {*words(" ".join(taken))}
        left = could & {*words(self.state.user_words)} - {*words("\n".join(given))}
        return [word for word in dict.fromkeys(words(answer)) if word in left]

    def _described(self, calls: Sequence[Iteration]) -> dict[str, str]:
        """The definitions of the tools of these calls, by their names."""
        tools = {each.tool: find(each.tool, self.tools) for each in calls}
        return {name: tool.model_dump_json() for name, tool in tools.items() if tool}

    @property
    def due(self) -> bool:
        """Whether a change is wanted, and none was made or the newest was not accepted by its
        tool."""
        failed = any(each.outcome is Outcome.FAILURE for each in self.state.newest)
        return self.wanted and (failed or self.undone() is not None)

    def to_repeat(self) -> Call | None:
        """The newest call, when it is a change that its tool did not accept: it is tried once more,
        with what the tool said in view."""
        [*_, newest] = self.state.newest
        before = self.state.iterations[newest.number - 1] if newest.number else None
        tried = before and before.prompt == newest.prompt and before.changes
        if tried or not (newest.changes and newest.outcome is Outcome.FAILURE):
            return None
        return Call(prompt=newest.prompt, tool=newest.tool)

    def possible_now(self) -> Iteration | None:
        """A change that its tool did not accept, after another change was made: it may be possible
        now, such as a file in a folder that was just created."""
        [*_, newest] = self.state.newest
        if not newest.changed:
            return None
        left = {each.prompt for each in self.failed()}
        refused = [
            each
            for each in self.calls
            if each.changes and each.outcome is Outcome.FAILURE and each.prompt in left
        ]
        return refused[-1] if refused else None

    def complaint(self) -> str:
        """What the newest call's tool said, and the passage that the call was meant for."""
        [*_, newest] = self.state.newest
        said = f"{complaint(newest)}{_inside(newest)}"
        meant = _meant(newest.arguments, newest.result, self.state.passages)
        if meant is None:
            return said
        nearest = f"The nearest text is in {meant.place}; copy path and text exactly:"
        return f"{said}\n{nearest}\n{meant.text}"


def complaint(call: Iteration) -> str:
    """What a tool said of a call that it did not accept."""
    return one_line(call.result, MAX_COMPLAINT_CHARS)


def _inside(call: Iteration) -> str:
    """That a file may be meant to come into what was given as its new path, if the tool's complaint
    names that."""
    match [*call.arguments.values()]:
        case [str(path), str(to)] if is_path(path) and " " not in to and says(call.result, to):
            inside = f"{to.rstrip('/')}/{path.rsplit('/', 1)[-1]}"
            return f"\nIf {to} is a folder, the path in it is {inside}."
    return ""


def _clears(arguments: Arguments) -> bool:
    """Whether a change says nothing but which entry it is of, so that its empty values are what it
    is for."""
    return all(value in EMPTY or sources.is_id(name) for name, value in arguments.items())


def _contained(one: Set[str], other: Set[str]) -> bool:
    """Whether one of them has all of the other, two at least."""
    return min(len(one), len(other)) > 1 and (one <= other or other <= one)


def _meant(arguments: Arguments, failure: str, passages: Sequence[Passage]) -> Passage | None:
    """The passage that a call was meant for, whose tool did not find a text: the text, or nearly
    the same, is in another place. Small models copy from memory."""
    said = [*strings(arguments)]
    texts = [each.text.lower() for each in passages]
    for value in said:
        quoted = value.strip().lower()
        first = quoted.partition("\n")[0]
        if len(first) < MIN_QUOTED_CHARS or first not in failure.lower():
            continue
        holding = [each for each in passages if quoted in each.text.lower()]
        if not holding:
            near = process.extractOne(quoted, texts, scorer=fuzz.partial_ratio, score_cutoff=NEAR)
            return passages[near[2]] if near else None
        if not any(each.source == value for each in holding for value in said):
            return holding[0]
    return None
