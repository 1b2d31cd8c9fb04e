"""The tool calls of a run: their arguments are written and checked, and the calls are made and
recorded as events."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import anyio

from planner.agent.correcting import corrected
from planner.agent.questions import Asker
from planner.agent.sending import Sender
from planner.checks import validation
from planner.checks.guards import repeats, sources
from planner.checks.guards.arguments import coercions
from planner.checks.guards.decisions import not_allowed, unknown_tool
from planner.checks.guards.instead import other_than_asked
from planner.checks.guards.sources import Guess
from planner.clock import Clock
from planner.errors import InvalidReply
from planner.events import (
    ApprovalAsked,
    ApprovalDecided,
    ArgumentsWritten,
    ToolCalled,
    ToolReturned,
    ToolSelected,
)
from planner.evidence import context
from planner.protocol import Call
from planner.state import Iteration
from planner.tools import (
    ROLES,
    Approver,
    Arguments,
    Outcome,
    Policy,
    ToolPool,
    ToolResult,
    ToolSpec,
    find,
    read_only,
)

TAKING = ("properties", "anyOf", "oneOf", "allOf", "$ref")
"""What a schema says arguments with."""


class Refusal(NamedTuple):
    """Why a call may not run, and the guard that says so."""

    guard: str
    message: str


class Caller:
    """Calls the tools of one run. Whatever keeps a call from going out comes back as its result."""

    def __init__(
        self,
        pool: ToolPool,
        tools: Sequence[ToolSpec],
        asker: Asker,
        approver: Approver,
        clock: Clock,
    ) -> None:
        self.sender = Sender(pool, asker.state, asker.guard)
        self.tools = tools
        self.approver = approver
        self.clock = clock
        self.read_only = read_only(tools)
        self.asker = asker
        self.state = asker.state
        self.emit = asker.emit
        self.guessed: list[Guess] = []
        """The arguments of the newest change that nobody had said."""
        self.recalls_only = False
        """Whether no further look-up is made, since the time for them is over."""

    async def look_up(self, tool: ToolSpec, value: str, purpose: str, topic: str = "") -> Iteration:
        """A call of the planner's own that looks up a value, with the defaults for everything else.
        A call that was made before is not made again."""
        return await self.own_call(tool, _arguments(tool, value, topic), purpose)

    async def own_call(self, tool: ToolSpec, arguments: Arguments, purpose: str) -> Iteration:
        """A call of the planner's own with these arguments, unless it was made before."""
        if earlier := repeats.repeated(self.state, tool, arguments):
            return earlier
        if self.recalls_only:
            return Iteration(-1, 0, tool.name, purpose, outcome=Outcome.TIMEOUT)
        self.emit(ToolSelected(tool=tool.name, prompt=purpose, by="lookup"))
        iteration = self.state.iterations[-1]
        await self.execute(iteration, tool, arguments)
        return iteration

    def recall(self, earlier: Iteration) -> None:
        """A call of the planner's own once more, from the record."""
        self.emit(ToolSelected(tool=earlier.tool, prompt=earlier.prompt, by="lookup"))
        again = self.state.iterations[-1]
        self.record_text(again, earlier.arguments, Outcome.SUCCESS, earlier.result)

    async def call(
        self,
        *calls: Call,
        given: Arguments | None = None,
        problem: str | None = None,
        by: str | None = None,
        may_guess: bool = True,
        choices: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """The tool calls of one decision, from their choice to their results: arguments are written
        one after the other, on one prompt, and then the calls run side by side; those that may
        change something one by one when the others have read. What may not run comes back as a
        result. `given` are arguments taken as they are: the caller's own, those that code made, or
        those of the model `by`; `problem` is what was wrong with the ones before.
        `may_guess`: whether a person may be asked for a change with arguments that nobody said;
        `choices`: the values that some arguments are chosen from."""
        self.guessed = []
        ready: list[tuple[Iteration, ToolSpec, Arguments]] = []
        refused: list[tuple[Iteration, Refusal]] = []
        for number, call in enumerate(calls):
            prompt = call.prompt or (self.state.step.objective if self.state.step else "")
            self.emit(ToolSelected(tool=call.tool, prompt=prompt, beside=number > 0))
            iteration = self.state.iterations[-1]
            prepared = await self.prepared(iteration, call, given, problem, by, choices or {})
            if isinstance(prepared, Refusal):
                refused.append((iteration, prepared))
            elif any(repeats.made(each, *prepared) for each, _, _ in ready):
                twice = "This very call is made already, side by side with it."
                refused.append((iteration, Refusal("repeated", twice)))
            else:
                ready.append((iteration, *prepared))
        for iteration, (guard, message) in refused:
            self.asker.guard(guard, message)
            self.record_text(iteration, {}, Outcome.ERROR, message)
        async with anyio.create_task_group() as tasks:
            for each in ready:
                if each[1].read_only:
                    tasks.start_soon(self.execute, *each)
        for each in ready:
            if not each[1].read_only:
                await self.execute(*each, may_guess)

    def decline(self, call: Call) -> None:
        """Record that a planned change is not made, since by what was looked up it is not due."""
        self.emit(ToolSelected(tool=call.tool, prompt=call.prompt))
        self.record_text(self.state.iterations[-1], {}, Outcome.ERROR, sources.NOT_DUE)

    async def prepared(
        self,
        iteration: Iteration,
        call: Call,
        given: Arguments | None,
        problem: str | None,
        by: str | None,
        choices: Mapping[str, Sequence[str]],
    ) -> "tuple[ToolSpec, Arguments] | Refusal":
        """The tool and the arguments of a call, or why it may not run."""
        more = self.asker.prompts.see_more(self.state)
        tool = find(call.tool, [*self.tools, more] if more else self.tools)
        if tool is None:
            return Refusal("unknown_tool", unknown_tool(call.tool, self.read_only))
        if refused := not_allowed(tool, self.policy):
            return Refusal("not_allowed", refused)
        if not (tool.read_only or self.asker.may_change or given is not None):
            unplanned = f"{tool.name} may change something, and only a planned step may do that."
            return Refusal("not_allowed", unplanned)
        if given is not None:
            self.record_arguments(iteration, given, by)
            return tool, given
        written = await self.write_arguments(iteration, _narrowed(tool, choices), problem)
        if isinstance(written, str):
            return Refusal("arguments", f"The arguments do not fit: {written}")
        if problem and not tool.read_only:
            before = self.state.iterations[iteration.number - 1].arguments
            if instead := sources.instead_of_said(before, written, self.state.user_words):
                return Refusal("arguments", f"The request says {instead}.")
        return tool, written

    async def write_arguments(
        self, iteration: Iteration, tool: ToolSpec, problem: str | None
    ) -> Arguments | str:
        """The arguments that fit the tool's schema, or what is still wrong after two tries."""
        if not any(tool.input_schema.get(part) for part in TAKING):
            return {}
        for first in (True, False):
            try:
                written = await self.asker.arguments(tool, iteration.prompt, problem)
            except InvalidReply as error:
                return str(error)
            writer = self.state.ledger[-1].model
            emptied = None if tool.read_only else sources.mentioned(written, self.state)
            arguments = validation.coerced(written, tool.input_schema, emptied)
            problem = validation.problem(arguments, tool.input_schema)
            if problem is None and first and not tool.read_only:
                problem = sources.another_entry(arguments, self.state)
                problem = problem or other_than_asked(arguments, self.state)
                problem = problem or sources.as_it_is(arguments, self.state)
            if problem is None:
                self.asker.guard("coercion", *coercions(written, arguments))
                arguments = corrected(tool, arguments, self.state, self.asker.guard)
                self.record_arguments(iteration, arguments, writer)
                return arguments
            self.asker.guard("arguments", f"{tool.name}: {problem}")
        return problem or ""

    async def execute(
        self,
        iteration: Iteration,
        tool: ToolSpec,
        arguments: Arguments,
        may_guess: bool = True,
    ) -> None:
        """Run an allowed call, unless it was made before or is not approved."""
        if earlier := repeats.repeated(self.state, tool, arguments):
            before = f"This very call was made before, in iteration {earlier.number}"
            if tool.read_only:
                self.asker.guard("repeated", f"{before}; its result is shown again.")
                return self.record_text(iteration, arguments, Outcome.SUCCESS, earlier.result)
            message = f"{before}, and is not made again."
            self.asker.guard("repeated", message)
            return self.record_text(iteration, arguments, Outcome.ERROR, message)
        if failed := repeats.repeated(self.state, tool, arguments, Outcome.FAILURE):
            message = f"This very call failed before, in iteration {failed.number}"
            self.asker.guard("repeated", message)
            return self.record_text(iteration, arguments, Outcome.FAILURE, failed.result)
        if not tool.upstream:
            return self.show_more(iteration, arguments)
        if not tool.read_only and (
            refusal := await self.refusal(iteration, tool, arguments, may_guess)
        ):
            return self.record_text(iteration, arguments, Outcome.ERROR, refusal)
        self.emit(
            ToolCalled(
                iteration=iteration.number,
                upstream=tool.upstream,
                tool=tool.name,
                arguments=arguments,
            )
        )
        send = self.sender.read if tool.read_only else self.change
        return self.record_result(iteration, arguments, await send(iteration, tool, arguments))

    async def refusal(
        self, iteration: Iteration, tool: ToolSpec, arguments: Arguments, may_guess: bool
    ) -> str | None:
        """Why a call that may change something is not made; None when it was approved."""
        message = repeats.not_again(self.state, tool, arguments)
        # A person who is asked about a planned call can tell whether it is meant as well.
        planned = iteration.prompt in self.state.planned_tools
        if iteration.by_model and (self.policy is Policy.ALLOW or not planned):
            message = message or repeats.in_another_way(self.state, tool, arguments, self.tools)
        if message:
            self.asker.guard("not_again", message)
            return message
        self.guessed = []
        if iteration.by_model:
            if same := sources.as_it_is(arguments, self.state):
                self.asker.guard("unchanged", f"{tool.name}: {same}")
                return f"{sources.NOT_MADE}{same}. It would change nothing."
            if self.policy is Policy.ALLOW and (
                other := sources.not_named(tool, arguments, self.state.user_words)
            ):
                self.asker.guard("not_named", f"{tool.name}: {other}")
                return f"{sources.NOT_MADE}{other}. Delete nothing else."
            said, asked = sources.said(self.state), self.state.said_by_user
            self.guessed = sources.unseen(arguments, said, tool, asked)
        guessed = [*map(str, self.guessed)]
        if guessed:
            message = f"no result and no word of the request says {', '.join(guessed)}"
            self.asker.guard("unseen", f"{tool.name}: {message}")
            if self.policy is Policy.ALLOW or not may_guess:  # nobody is asked, who could tell
                return f"{sources.NOT_MADE}{message}. Look it up with a tool that reads."
        whole = arguments | tool.fixed_arguments
        self.emit(
            ApprovalAsked(
                iteration=iteration.number,
                upstream=tool.upstream,
                tool=tool.name,
                arguments=whole,
                safety=tool.safety,
                guessed=guessed,
            )
        )
        approval = await self.approver(tool, whole)
        self.emit(
            ApprovalDecided(iteration=iteration.number, tool=tool.name, **approval.model_dump())
        )
        return None if approval.approved else f"Not approved: {approval.reason}. {repeats.REFUSED}"

    @property
    def policy(self) -> Policy:
        return self.state.part.request.policy

    async def change(
        self, iteration: Iteration, tool: ToolSpec, arguments: Arguments
    ) -> ToolResult:
        """An approved call, made once. It may take the seconds that are kept back, since an answer
        is worth more than a conclusion without it. If none comes, the result says so. If the run is
        ended from outside, the call stays open."""
        try:
            with self.clock.extended(self.state.part.ends_at):
                result = await self.sender.send(tool, arguments)
        except anyio.get_cancelled_exc_class():
            if self.clock.expired:
                cut_off = ToolResult(outcome=Outcome.TIMEOUT, text=repeats.UNKNOWN, answered=False)
                self.record_result(iteration, arguments, cut_off)
            raise
        if result.answered:
            return result
        return result.model_copy(update={"text": f"{result.text} {repeats.UNKNOWN}"})

    def show_more(self, iteration: Iteration, arguments: Arguments) -> None:
        """The next lines of a result that was cut, from the record."""
        cut: int = arguments["iteration"]
        text = context.readable(self.state.iterations[cut].result)
        longest = self.asker.prompts.result_characters
        shown = context.part(text, arguments["from_line"], longest, cut)
        outcome = Outcome.SUCCESS if shown else Outcome.FAILURE
        none = f"The result of iteration {cut} has {len(context.lines(text))} lines."
        self.record_text(iteration, arguments, outcome, shown or none)

    def record_arguments(self, iteration: Iteration, arguments: Arguments, by: str | None) -> None:
        self.emit(
            ArgumentsWritten(
                iteration=iteration.number, tool=iteration.tool, arguments=arguments, model=by
            )
        )

    def record_text(
        self, iteration: Iteration, arguments: Arguments, outcome: Outcome, text: str
    ) -> None:
        """What keeps a call from going out, or comes from the record, as its result."""
        self.record_result(iteration, arguments, ToolResult(outcome=outcome, text=text))

    def record_result(self, iteration: Iteration, arguments: Arguments, result: ToolResult) -> None:
        self.emit(
            ToolReturned(
                iteration=iteration.number,
                tool=iteration.tool,
                arguments=arguments,
                **result.model_dump(),
            )
        )


def _arguments(tool: ToolSpec, value: str, topic: str) -> Arguments:
    """The arguments of a look-up: the value, the question if the tool takes one, and the top folder
    if the tool requires a place."""
    arguments = (getattr(tool, role) for role in ROLES)
    filled = {next(filter(None, arguments)): value}
    if tool.topic_argument and topic:
        filled[tool.topic_argument] = topic
    return filled | {name: "." for name in tool.required if name not in filled}


def _narrowed(tool: ToolSpec, choices: Mapping[str, Sequence[str]]) -> ToolSpec:
    """The tool with arguments that take only some values."""
    if not choices:
        return tool
    schema = validation.narrowed(tool.input_schema, choices)
    # Not a copy, which would keep the grammar of the schema before.
    return ToolSpec.model_validate(tool.model_dump() | {"input_schema": schema})


def permitted(tools: Sequence[ToolSpec], policy: Policy) -> list[ToolSpec]:
    """The tools that a run of this policy may call, some of them once a call is approved."""
    return [tool for tool in tools if not_allowed(tool, policy) is None]
