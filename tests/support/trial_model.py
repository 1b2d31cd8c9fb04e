"""A model that `planloom try` can measure: its answers to the questions are known."""

from scripted_ollama import FAST, HttpError, Reply, Request

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


def replies(request: Request) -> Reply:
    """The full model finds everything, the fast one says the same about everything."""
    (answer,) = [each for text, each in SCRIPT.items() if text in request.prompt]
    answer = ANSWERS[0] if request.model == FAST else answer
    if "final_answer" in request.keys and "found_in" in request.keys:
        held = {"assessment": "", "found_in": "results" if answer else "nowhere"}
        return held | {"final_answer": answer or "No line says it."}
    if "main_objective" in request.keys:
        steps = [{"objective": "Look", "tool": "read_file"}]
        return {"main_objective": "Find it", "steps": steps}
    if "path" in request.keys:
        return {"path": "README.md"}
    return HttpError(500, "no such question was foreseen")
