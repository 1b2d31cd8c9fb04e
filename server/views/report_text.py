"""The report of a run in words: as Markdown, and the parts of it that other views show."""

import json
from collections.abc import Iterable

from planner.actions import ActionApproval, ActionToolCall
from planner.checks.citations import Evidence
from planner.protocol import Steering
from planner.text import counted, flat, indented, shortened
from server.text import duration, fence, status_in_words
from server.views.inert import inert
from server.views.report import QuestionReport, Report

MAX_CLAIM_CHARS = 80
"""Characters of a claim where it is cited."""
MAX_CLAIMS = 6
"""How many claims are cited beside the lines that support them; the data has all of them."""

MARKS = {"completed": "x", "failed": "!", "current": "~", "unfinished": "!", "later": " "}


def markdown(found: Report, *, cost: bool = True, after: str | None = None) -> str:
    """The report for a reader. `after`: what to do now, for one who has no tools."""
    parts = [conclusion(found, after)]
    if made := done_in_words(found):
        parts.append(made)
    if found.objective:
        bullets = [f"- [{MARKS[step.status]}] {step.in_words}" for step in found.steps]
        head = f"A plan has been created where the objective is: {flat(found.objective)}"
        parts.append("\n".join([head, "", *bullets]))
    if found.steering:
        ended = found.status not in ("running", "interrupted")
        late = "it came too late" if ended else "for the next decision"
        said = [
            f"- {flat(steering_in_words(each))}{'' if each.taken else f' ({late})'}"
            for each in found.steering
        ]
        parts.append("### Said while it ran\n\n" + "\n".join(said))
    notes = [
        f"{step.number}. {step.in_words}\n   {indented(step.notes, 3)}"
        for step in found.steps
        if step.success is not None
        and step.notes
        and not f"\n{found.answer}".endswith(f"\n{step.notes}")
    ]
    if notes and found.status != "running":
        parts.append("### Steps\n\n" + "\n".join(notes))
    if found.evidence:
        objectives = {step.number: step.objective for step in found.steps}
        cited = [
            _cited(number, each, objectives.get(each.step, "gathering"))
            for number, each in enumerate(found.evidence, 1)
        ]
        parts.append("### Evidence\n\n" + "\n".join(cited))
    for title, lines in (
        ("Approvals", decisions(found)),
        ("Questions", [*map(asked_in_words, found.questions)]),
        ("Not available", unavailable(found)),
    ):
        if lines:
            parts.append(f"### {title}\n\n{_bullets(lines)}")
    if found.warnings:
        parts.append(warned(found.warnings))
    parts.append(
        _foot(found) if cost else f"_Run {found.run_id}: {duration(found.usage.seconds)} in all_"
    )
    return inert("\n\n".join(parts))


def conclusion(found: Report, after: str | None = None) -> str:
    """The answer, what it is worth, and what to do now: `after`, or else by which tool."""
    after = what_next(found) if after is None else after
    if found.status == "interrupted":
        return f"Interrupted before it ended. {after}"
    if found.status == "running":
        here = next((step for step in found.steps if step.status == "current"), None)
        doing = f" (step {here.number}: {flat(here.objective)})" if here else ""
        return f"Still running{doing}. {after}"
    parts = [found.answer]
    if found.data is not None:
        parts.append(f"```json\n{json.dumps(found.data, ensure_ascii=False, indent=2)}\n```")
    if found.status != "answered" or found.reason:
        reason = f": {found.reason}" if found.reason and found.reason not in found.answer else ""
        parts.append(f"_Status: {status_in_words(found.status)}{reason}_")
    return "\n\n".join([*parts, after] if after else parts)


def done_in_words(found: Report) -> str:
    """The changes that were made and that the answer does not list; empty without any."""
    others = [each for each in found.done if f"- {each.removesuffix('…')}" not in found.answer]
    if not others:
        return ""
    head = "What was done" if len(others) == len(found.done) else "Done before"
    return f"### {head}\n\n{_bullets(others)}"


def what_next(found: Report) -> str:
    """What the caller may do now, by which tool; empty where nothing is left to do."""
    run = f"run_id `{found.run_id}`"
    if found.status == "interrupted":
        if found.goal == "step":
            return f"Call run_step with {run} alone to finish the step; nothing is done twice."
        return (
            f"Call plan_and_answer with the same prompt and {run} to go on with it; nothing is "
            "done twice."
        )
    if found.status == "running":
        if found.questions and not found.questions[-1].action:
            asks = f"{found.questions[-1].upstream} asks the user something. "
        elif undecided := [
            call for call, approval in _approvals(found) if approval.approved is None
        ]:
            asks = f"`{undecided[-1].name}` needs the user's approval. "
        else:
            return f"Call get_run with {run} to follow it, cancel_run to end it."
        return f"{asks}Call get_run with {run} to ask the user and go on, cancel_run to end it."
    if found.status in ("failed", "cancelled"):
        return ""
    if found.goal == "plan":
        return f"Call run_step with {run} to make the first step."
    if found.goal == "step":
        return f"Call run_step with {run} for another step, plan_and_answer with it to conclude."
    return ""


def unavailable(found: Report) -> list[str]:
    """What the run had to do without, a line each; empty if it has its answer or was cut off."""
    if found.status in ("answered", "interrupted"):
        return []
    down = [each for each in found.upstreams if each.state.needs_attention]
    return [f"{each.name}: {each.error or each.state}" for each in down] + [
        f"{each.name}: {counted(len(each.held), 'tool')} held back until you consent; "
        "`planloom tools` shows why"
        for each in found.upstreams
        if each.held
    ]


def decisions(found: Report) -> list[str]:
    """A line for each call that needed approval: `write_file` (write), refused: not now."""
    lines = []
    for call, approval in _approvals(found):
        answer = {True: "approved", False: "refused", None: "not decided"}[approval.approved]
        reason = f": {flat(approval.reason)}" if approval.reason else ""
        lines.append(f"`{call.name}` ({approval.safety}), {answer}{reason}")
    return lines


def _approvals(found: Report) -> list[tuple[ActionToolCall, ActionApproval]]:
    calls = [call for action in found.actions for call in action.tool_calls]
    return [(call, call.approval) for call in calls if call.approval]


def warned(warnings: Iterable[str]) -> str:
    return "\n".join(f"**Warning:** {flat(warning)}" for warning in warnings)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {indented(line, 2)}" for line in lines)


def steering_in_words(steering: Steering) -> str:
    parts = [f'says "{steering.hint}"'] if steering.hint else []
    parts += [f"skips {'; '.join(steering.skip)}"] if steering.skip else []
    parts += [f"puts first {'; '.join(steering.order)}"] if steering.order else []
    return f"the {steering.by} {' and '.join(parts)}"


def asked_in_words(each: QuestionReport) -> str:
    """files asked in `read_file`: "Which branch?", answered."""
    answers = {"accept": "answered", "decline": "refused", None: "not answered yet"}
    outcome = answers.get(each.action, f"not answered: {flat(each.reason)}")
    asked = shortened(flat(each.question), MAX_CLAIM_CHARS)
    return f'{each.upstream} asked in `{each.tool}`: "{asked}", {outcome}'


def _cited(number: int, each: Evidence, objective: str) -> str:
    """An item of the evidence: what it supports, its step and tool, and the lines."""
    claims = [shortened(flat(claim.replace("`", "")), MAX_CLAIM_CHARS) for claim in each.claims]
    shown = ", ".join(f"`{claim}`" for claim in claims[:MAX_CLAIMS])
    more = ", …" if len(claims) > MAX_CLAIMS else ""
    place = f"`{flat(each.source.replace('`', ''))}`, " if each.source else ""
    head = f"{number}. {shown}{more}: {place}step {each.step} ({flat(objective)}), `{each.tool}`"
    lines = "\n".join(each.lines)
    if not lines:
        return head
    margin = len(f"{number}. ")
    return f"{head}\n{' ' * margin}{indented(fence(lines), margin)}"


def _foot(found: Report) -> str:
    usage = found.usage
    about = "" if usage.cached_told else "about "
    cached = f", {about}{usage.cached_tokens} of them cached" if usage.model_calls else ""
    spared = ""
    if found.answer and found.spared.tokens:
        spared = (
            f"; some {found.spared.tokens} tokens of tool results read for an answer of "
            f"{found.spared.answer_tokens}"
        )
    return (
        f"_Run {found.run_id}: {counted(usage.tool_calls, 'tool call')} "
        f"({duration(usage.tool_seconds)}), {counted(usage.model_calls, 'model call')} "
        f"({usage.prompt_tokens} prompt tokens{cached}, {usage.generated_tokens} generated, "
        f"{duration(usage.model_seconds)}); {duration(usage.seconds)} in all{spared}_"
    )
