"""The planning agent: from a request to an answer, by the protocol of seeds/000 and 001.

    gather:    code looks up the names in the request; where that finds nothing, the fast model
               selects a tool, a model writes its arguments, the tool is called
    answer:    on every result the full model first tries the answer, and code looks its facts up
    plan:      where the results do not hold it, the full model makes a plan
    iterate:   arguments, call, and one decision: conclude, stay in the step, or move on
    conclude:  the last iteration has to; a run never ends without an answer

Everything that happens is an event; what the next prompt needs is a fold of them (`RunState`).
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import anyio
from pydantic import TypeAdapter, ValidationError

from planner import guards, protocol, schemas
from planner.context import TokenEstimate
from planner.errors import ContextExceeded, InvalidReply, ModelError, RequestError
from planner.events import (
    ArgumentsWritten,
    Event,
    FinalStatus,
    GuardTripped,
    ModelCalled,
    PlanMade,
    PlanRevised,
    Role,
    RunFinished,
    RunStarted,
    StepConcluded,
    StepContinued,
    StepStarted,
    ToolCalled,
    ToolReturned,
    ToolSelected,
)
from planner.grounding import unsupported
from planner.lookup import Lookup
from planner.models import ChatModel, Models
from planner.prompts import Prompts, compact
from planner.protocol import Conclude, MakePlan, MoveOn, RunRequest, Stay
from planner.schemas import Schema
from planner.state import RunState
from planner.tools import Outcome, Safety, ToolPool, ToolResult, ToolSpec

T = TypeVar("T")

RESULT_CHARACTERS = 1800
"""Of one tool result, in a prompt; some 500 tokens, 15 s for a 1.5B model on two cores."""
SMALLEST_RESULT_CHARACTERS = 200
DECISION_TOKENS = 700
CONCLUSION_SHARE = 0.2
"""Of the run's seconds, kept back for the conclusion."""
CONCLUSION_SECONDS = 60.0
"""At most so much is kept back."""


async def run(
    request: RunRequest, models: Models, pool: ToolPool, record: Callable[[Event], None]
) -> RunState:
    """Run a request to its end, recording every event, and return the final state.

    Always ends in `RunFinished`, except when cancelled or when the request itself is wrong
    (`RequestError`): a model or a tool that fails is part of the run.
    """
    if not request.prompt.strip():
        raise RequestError("The prompt is empty. Say what you want to know.")
    return await _Run(request, models, pool, record).to_its_end()


class LimitReached(Exception):
    """A limit of the run; its text is the reason given to the user."""


class _Run:
    def __init__(
        self,
        request: RunRequest,
        models: Models,
        pool: ToolPool,
        record: Callable[[Event], None],
    ) -> None:
        self.request = request
        self.models = models
        self.pool = pool
        self.state = RunState()
        self._record = record
        self.tools = list(pool.tools())
        self.offered = [tool for tool in self.tools if tool.safety is Safety.READ_ONLY]
        self.names = [tool.name for tool in self.offered]
        self.prompts = Prompts(self.offered, RESULT_CHARACTERS)
        self.estimates = {id(models.fast): TokenEstimate(), id(models.full): TokenEstimate()}

    def emit(self, event: Event) -> None:
        self.state.apply(event)
        self._record(event)

    # The way of a request.

    async def to_its_end(self) -> RunState:
        limit = self.request.limits.seconds
        kept_back = min(limit * CONCLUSION_SHARE, CONCLUSION_SECONDS)
        reason: str | None = None
        conclusion: Conclude | None = None
        self.emit(
            RunStarted(
                request=self.request,
                listing=await self.pool.listing(),
                upstreams=list(self.pool.upstreams()),
                tools=self.names,
            )
        )
        try:
            with anyio.move_on_after(limit - kept_back) as time_limit:
                conclusion = await self.work()
            if time_limit.cancelled_caught:
                reason = f"the time limit of {limit:g} s was reached"
        except LimitReached as reached:
            reason = str(reached)
        except ModelError as error:
            return self.finish_without_model(str(error))
        if conclusion is None:
            try:
                with anyio.fail_after(kept_back):
                    conclusion = await self.conclude()
            except TimeoutError:
                return self.finish_without_model(reason or "the conclusion took too long")
            except ModelError as error:
                return self.finish_without_model(f"{reason}; {error}" if reason else str(error))
        return self.finish(conclusion, reason)

    async def work(self) -> Conclude | None:
        """The protocol. None means that a conclusion is still due."""
        if not await self.gather():
            return None
        if self.request.goal == "step":
            return None
        if self.request.goal == "plan":
            self.make(await self.plan())
            return Conclude(final_answer=self.state.conclusion_from_assistant_data)
        if guards.no_progress(self.state):
            self.stuck()
            return None
        decision: Conclude | MakePlan | Stay | MoveOn
        decision = await self.answer() or await self.plan()
        while not isinstance(decision, Conclude):
            next_tool, prompt = self.follow(decision)
            await self.call_tool(next_tool, prompt)
            self.hold_limits()
            if guards.no_progress(self.state):
                self.stuck()
                return None
            decision = await self.answer() or await self.decide()
        return decision

    def stuck(self) -> None:
        """More of the same will not help: a conclusion is due."""
        message = f"the last {guards.FRUITLESS_CALLS} calls brought nothing; concluding"
        self.emit(GuardTripped(guard="no_progress", message=message))

    async def gather(self) -> bool:
        """The first facts; False when there are none and the model needs none."""
        looked_up = self.request.tool is None and await self.look_up_names()
        if self.request.goal == "answer":
            self.hold_limits()
        if looked_up:
            return True
        tool = self.request.tool or await self.select_tool()
        if tool is None:
            self.emit(ToolSelected(tool=None, prompt=self.request.prompt))
            return bool(self.state.iterations)
        await self.call_tool(tool, self.request.prompt, self.request.arguments)
        if self.request.goal == "answer":
            self.hold_limits()
        return True

    def follow(self, decision: MakePlan | Stay | MoveOn) -> tuple[str, str]:
        """Record what was decided; returns the next tool and what it shall find."""
        match decision:
            case MakePlan():
                self.make(decision)
                return decision.next_step.tool, decision.next_step.prompt
            case Stay():
                self.emit(
                    StepContinued(number=len(self.state.steps), notes=decision.notes_to_future_self)
                )
                self.revise(decision.later_steps)
                return decision.tool, decision.prompt
            case MoveOn():
                number = len(self.state.steps)
                self.emit(
                    StepConcluded(
                        number=number,
                        success=decision.success,
                        notes=decision.notes_to_future_self,
                    )
                )
                self.revise(decision.later_steps)
                self.start_step(number + 1, decision.next_step.objective)
                return decision.next_step.tool, decision.next_step.prompt

    def make(self, plan: MakePlan) -> None:
        self.emit(
            PlanMade(
                main_objective=plan.main_objective,
                conclusion_from_assistant_data=plan.assessment,
                later_steps=plan.later_steps,
            )
        )
        self.start_step(1, plan.next_step.objective)

    def start_step(self, number: int, objective: str) -> None:
        self.emit(StepStarted(number=number, objective=objective))
        if objective in self.state.later_steps:  # it is no longer a later one
            self.revise([step for step in self.state.later_steps if step != objective])

    def revise(self, later_steps: list[str] | None) -> None:
        if later_steps is not None and later_steps != self.state.later_steps:
            self.emit(PlanRevised(later_steps=later_steps))

    def hold_limits(self) -> None:
        limits = self.request.limits
        if len(self.state.iterations) >= limits.iterations:
            raise LimitReached(f"the limit of {limits.iterations} iterations was reached")
        if self.state.model_tokens >= limits.model_tokens:
            raise LimitReached(f"the limit of {limits.model_tokens} model tokens was reached")

    def finish(self, conclusion: Conclude, reason: str | None) -> RunState:
        if self.request.goal != "plan" and not conclusion.final_answer.strip():
            return self.finish_without_model(reason or "the model gave no answer")
        if self.state.step and self.request.goal == "answer":
            self.emit(
                StepConcluded(
                    number=self.state.step.number,
                    success=conclusion.success,
                    notes=conclusion.assessment,
                )
            )
        status: FinalStatus = "answered"
        missing: list[str] = []
        if not conclusion.success or guards.gives_up(conclusion.final_answer):
            status = "partial" if reason else "not_found"
        elif self.request.goal != "plan":
            missing = unsupported(self.state, conclusion.final_answer)
        if missing:
            status = "partial"
            reason = reason or f"no result says {', '.join(missing)}"
        self.emit(
            RunFinished(
                status=status,
                answer=conclusion.final_answer,
                reason=reason,
                unsupported=missing,
            )
        )
        return self.state

    def finish_without_model(self, reason: str) -> RunState:
        """The honest end when no model can write one: what was found, as it was found."""
        found = [f"- {step.objective}: {step.notes}" for step in self.state.completed_steps]
        found += [
            f"- {each.tool} returned: {self.prompts.shown_result(self.state, each)[:600]}"
            for each in self.state.open_iterations
            if each.outcome is Outcome.SUCCESS
        ]
        answer = f"Could not find out: {reason.rstrip('.')}."
        if found:
            answer += "\n\nFound so far:\n" + "\n".join(found)
        self.emit(
            RunFinished(status="partial" if found else "failed", answer=answer, reason=reason)
        )
        return self.state

    # What the models are asked.

    async def look_up_names(self) -> bool:
        """Where the names in the request stand in the project: what a person would search first.

        It costs no model call, and gives the models real paths to write. False when there is
        nothing to look up or nothing was found; then the fast model selects a tool.
        """
        tool = next((tool for tool in self.offered if tool.text_argument), None)
        if not tool or not tool.text_argument:
            return False
        lookup = Lookup(self.request.prompt)
        most = self.request.limits.iterations
        while len(self.state.iterations) < most and (pattern := lookup.pattern()):
            wanted = ", ".join(lookup.wanted)
            self.emit(ToolSelected(tool=tool.name, prompt=f"find {wanted}", by="lookup"))
            await self.execute(tool, {tool.text_argument: pattern})
            lookup.add(self.state.iterations[-1].result)
        return bool(lookup.lines)

    async def select_tool(self) -> str | None:
        if not self.names:
            return None
        selection = await self.ask(
            "select",
            self.models.fast,
            self.prompts.select(),
            schemas.selection(self.names),
            protocol.SELECTION,
            max_tokens=60,
        )
        return selection.tool

    async def write_arguments(self, tool: ToolSpec, prompt: str) -> dict[str, Any] | str:
        """The arguments that fit the tool's schema, or what is still wrong after two tries."""
        if not tool.input_schema.get("properties"):
            return {}
        first = self.models.fast if tool.fast_arguments else self.models.full
        problem: str | None = None
        for model in (first, self.models.full):
            question = self.prompts.arguments(tool, prompt, problem)
            written = await self.ask(
                "arguments",
                model,
                question,
                schemas.for_grammar(tool.input_schema),
                protocol.ARGUMENTS,
                max_tokens=300,
            )
            arguments = schemas.coerced(written, tool.input_schema)
            problem = schemas.problem(arguments, tool.input_schema)
            if problem is None:
                arguments, changes = guards.mended_paths(
                    arguments, tool, guards.seen_paths(self.state)
                )
                for change in changes:
                    self.emit(GuardTripped(guard="path", message=change))
                self.emit(ArgumentsWritten(tool=tool.name, arguments=arguments, model=model.name))
                return arguments
            self.emit(GuardTripped(guard="arguments", message=f"{tool.name}: {problem}"))
        return problem or ""

    async def answer(self) -> Conclude | None:
        """A try at the answer; None when the results do not hold it, or it says what none does.

        A small model answers well from lines it sees and decides badly whether to: asked for both
        at once it plans on with the answer before its eyes. So it answers first, and code checks.
        """
        question = self.prompts.answer(self.state)
        role: Role = "answer"
        for _ in range(2):
            said = await self.ask(
                role, self.models.full, question, schemas.answer(), protocol.ANSWER
            )
            if said.found_in != "results" or not said.final_answer.strip():
                return None
            missing = unsupported(self.state, said.final_answer)
            if not missing:
                return Conclude(final_answer=said.final_answer)
            message = f"no result says {', '.join(missing)}"
            self.emit(GuardTripped(guard="grounding", message=message))
            role, question = "repair", self.prompts.repair(self.state, missing)
        return None

    async def plan(self) -> MakePlan:
        question = self.prompts.plan(self.state)
        schema = schemas.plan(self.names)
        return await self.ask("plan", self.models.full, question, schema, protocol.PLAN)

    async def decide(self) -> Conclude | Stay | MoveOn:
        question = self.prompts.decide(self.state)
        schema = schemas.iteration_decision(self.names)
        return await self.ask(
            "decide", self.models.full, question, schema, protocol.ITERATION_DECISION
        )

    async def conclude(self) -> Conclude:
        question = self.prompts.conclude(self.state)
        return await self.ask(
            "conclude", self.models.full, question, schemas.conclude(), protocol.CONCLUSION
        )

    async def ask(
        self,
        role: Role,
        model: ChatModel,
        question: str,
        schema: Schema,
        shape: TypeAdapter[T],
        max_tokens: int = DECISION_TOKENS,
    ) -> T:
        """One question under a schema; an unusable reply is redone once, by the full model."""
        for chosen in (model, self.models.full):
            reply = await self.chat(role, chosen, question, schema, max_tokens)
            try:
                return shape.validate_json(reply)
            except ValidationError as error:
                wrong = error.errors()[0]
                problem = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
                self.emit(GuardTripped(guard="reply", message=f"{chosen.name}: {problem}"))
        raise InvalidReply(
            f"{self.models.full.name} twice gave a reply that is not the JSON it was asked for "
            f"({role}: {problem}). Try a larger model (PLANLOOM_FULL_MODEL)."
        )

    async def chat(
        self,
        role: Role,
        model: ChatModel,
        question: str,
        schema: Schema,
        max_tokens: int,
    ) -> str:
        """One model call that fits the context: results are shown shorter until it does."""
        estimate = self.estimates[id(model)]
        while True:
            messages = self.prompts.conversation(self.state, question)
            if estimate.of(messages) + max_tokens <= model.context_tokens:
                try:
                    reply = await model.chat(messages, schema=schema, max_tokens=max_tokens)
                    break
                except ContextExceeded:
                    if self.prompts.result_characters <= SMALLEST_RESULT_CHARACTERS:
                        raise
            elif self.prompts.result_characters <= SMALLEST_RESULT_CHARACTERS:
                raise ContextExceeded(
                    f"The request does not fit the {model.context_tokens} tokens of {model.name} "
                    f"(about {estimate.of(messages)} needed). Shorten it, or raise num_ctx."
                )
            self.prompts.result_characters //= 2
            self.emit(
                GuardTripped(
                    guard="context",
                    message=f"results are shown up to {self.prompts.result_characters} characters",
                )
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
        return reply.text

    # The tool call.

    async def call_tool(
        self, name: str, prompt: str, arguments: dict[str, Any] | None = None
    ) -> None:
        """One tool call, from its name to its result. What may not run comes back as a result."""
        self.emit(ToolSelected(tool=name, prompt=prompt))
        tool = find(name, self.tools)
        if tool is None:
            return self.refuse("unknown_tool", name, guards.unknown_tool(name, self.offered))
        if refusal := guards.not_allowed(tool):
            return self.refuse("not_allowed", name, refusal)
        if arguments is None:
            written = await self.write_arguments(tool, prompt)
            if isinstance(written, str):
                return self.refuse("arguments", name, f"The arguments do not fit: {written}")
            arguments = written
        else:
            self.emit(ArgumentsWritten(tool=name, arguments=arguments, model=None))
        return await self.execute(tool, arguments)

    async def execute(self, tool: ToolSpec, arguments: dict[str, Any]) -> None:
        """Run an allowed call, unless it was made before; widen it when it comes back empty."""
        if earlier := guards.repeated(self.state, tool, arguments):
            message = (
                f"This very call was made before, in iteration {earlier.number}; its result stands "
                "there. Another call is needed, or the conclusion."
            )
            self.emit(GuardTripped(guard="repeated", message=message))
            return self.returned(tool.name, arguments, Outcome.ERROR, message, 0.0)
        self.emit(ToolCalled(upstream=tool.upstream, tool=tool.name, arguments=arguments))
        result = await self.pool.call(tool, arguments)
        hop = len(self.state.lookups) > 1 and self.state.iterations[-1].by == "lookup"
        if result.outcome is Outcome.SUCCESS and guards.empty(result.text) and not hop:
            for wider in guards.wider(tool, arguments):
                message = f"Nothing for {compact(arguments)}; looking for {compact(wider)}"
                self.emit(GuardTripped(guard="empty", message=message))
                again = await self.pool.call(tool, wider)
                if again.outcome is Outcome.SUCCESS and not guards.empty(again.text):
                    text = f"Nothing for the arguments above. For {compact(wider)}:\n{again.text}"
                    seconds = result.seconds + again.seconds
                    result = ToolResult(outcome=Outcome.SUCCESS, text=text, seconds=seconds)
                    break
        return self.returned(tool.name, arguments, result.outcome, result.text, result.seconds)

    def refuse(self, guard: str, name: str, message: str) -> None:
        self.emit(GuardTripped(guard=guard, message=message))
        self.returned(name, {}, Outcome.ERROR, message, 0.0)

    def returned(
        self, name: str, arguments: dict[str, Any], outcome: Outcome, text: str, seconds: float
    ) -> None:
        self.emit(
            ToolReturned(
                tool=name, arguments=arguments, outcome=outcome, text=text, seconds=seconds
            )
        )


def find(name: str, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    """The tool of this name, bare or as `upstream.name`."""
    for tool in tools:
        if name in (tool.name, f"{tool.upstream}.{tool.name}"):
            return tool
    return None
