"""A model that knows the answers to the questions of `planloom try`, and the table it gets."""

from ollama_replies import HttpError, Reply
from scripted_ollama import Request

from server.cli.trial.project import QUESTIONS

ANSWERS = (
    "It waits 240 seconds.",
    "Open tidewatch/alarm.py.",
    "Export TIDEWATCH_PAGER_KEY.",
    "It goes into maintenance.",
    "Open port 8473.",
    "Five harbours are watched.",
    "`smoothed` calls it.",
    "HarbourUnknown is raised.",
    "",
    "Ab 3.65 m.",
    "A warning is written to the log, an alarm is sent to the pager.",
    "After 400 days.",
)
"""What is right, question by question."""
SCRIPT = {question.text: answer for question, answer in zip(QUESTIONS, ANSWERS, strict=True)}


def right(request: Request, instead: str | None = None) -> Reply:
    """What is right, or the same about everything."""
    (answer,) = [each for text, each in SCRIPT.items() if text in request.prompt]
    answer = answer if instead is None else instead
    if "final_answer" in request.keys and "found_in" in request.keys:
        held = {"assessment": "", "found_in": "results" if answer else "nowhere"}
        return held | {"final_answer": answer or "No line says it."}
    if request.keys == {
        "decision",
        "final_answer",
        "success",
    }:  # on a machine so slow that its time is over
        return {"decision": "conclude", "final_answer": "It is not known.", "success": False}
    if "steps" in request.keys:
        steps = [{"objective": "Look", "tool": "read_file"}]
        return {"steps": steps}
    if "path" in request.keys:
        return {"path": "README.md"}
    return HttpError(500, "no such question was foreseen")


def measured(table: str) -> dict[str, list[str]]:
    """The table's counts of right, wrong and honest answers."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {row[0]: row[1:4] for row in rows if row[1:4] and row[1].isdigit()}
