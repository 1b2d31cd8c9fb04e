"""What callers say to a run: hints and another order while it works, and more when it has ended."""

from collections.abc import Sequence

from planner import agent
from planner.errors import RequestError
from planner.protocol import RunRequest, SteeredBy, Steering
from planner.tools import Policy, strictest
from server.runs.run import Run

MAX_HINT_CHARS = 500
"""It stays in the prompts of its run."""
MAX_STEERED = 10
"""How often one run may be steered."""
SINGLE_STEPS = ("step", "plan")
"""The goals of runs that may continue after they have ended."""
UNDER_WAY = "Run {} is under way. Follow it with get_run, and go on when it has ended."


def steering_of(
    run: Run, hint: str, skip: Sequence[int], order: Sequence[int], by: SteeredBy
) -> Steering:
    """Raises `RequestError` for steering that is not possible."""
    state = run.state
    hint = hint.strip()
    if state.status != "running":
        raise RequestError(f"Run {run.id} has ended ({state.status}); it cannot be steered.")
    if not (hint or skip or order):
        raise RequestError("There is nothing to tell the run: give `hint`, `skip` or `order`.")
    if len(hint) > MAX_HINT_CHARS:
        raise RequestError(f"hint: it has {len(hint)} characters; the limit is {MAX_HINT_CHARS}.")
    if len(state.steering) >= MAX_STEERED:
        raise RequestError(f"Run {run.id} was steered {MAX_STEERED} times, which is the limit.")
    later = dict(enumerate(state.later_steps, len(state.steps) + 1))
    if unknown := [number for number in [*skip, *order] if number not in later]:
        known = "; ".join(f"{number}: {step}" for number, step in later.items()) or "none"
        raise RequestError(
            f"There is no later step {unknown[0]}: only what has not begun can be skipped or "
            f"reordered. The later steps are: {known}"
        )
    return Steering(
        hint=hint,
        skip=[later[number] for number in dict.fromkeys(skip)],
        order=[later[number] for number in dict.fromkeys(order)],
        by=by,
    )


def next_request(run: Run, request: RunRequest, can_ask: bool) -> RunRequest:
    """The whole next request for a run that has ended. Raises `RequestError` if there is none."""
    state = run.state
    if run.request.goal not in SINGLE_STEPS:
        raise RequestError(
            f"Run {run.id} is not a run of single steps: only runs that run_step or make_plan "
            "started can go on after their end. Leave run_id out to start another."
        )
    if run.interrupted:
        raise RequestError(
            f"The last step of run {run.id} was interrupted. Call with its run_id alone to finish "
            "it first."
        )
    if not run.finished:
        raise RequestError(UNDER_WAY.format(run.id))
    made = any(step.completed for step in state.steps)
    if state.status == "cancelled" or (state.status == "failed" and not made):
        raise RequestError(f"Run {run.id} was {state.status}, and cannot do more. Start another.")
    prompt = request.prompt.strip()
    if not prompt and request.goal == "step":
        planned = [state.step.objective] if state.step else state.later_steps
        if not planned:
            raise RequestError("prompt: say what this step should find out; no step is planned.")
        prompt = planned[0]
    if request.goal == "conclude":
        if not made:
            raise RequestError(
                f"Run {run.id} has not made a step yet. Call run_step with its run_id first."
            )
        prompt = prompt or "; ".join(step.objective for step in state.steps if step.completed)
    policy = strictest(run.request.policy, request.policy)
    if policy is Policy.ASK and not can_ask:
        policy = Policy.READ_ONLY
    request = request.model_copy(update={"prompt": prompt, "policy": policy})
    agent.check(request)
    return request
