"""What scripted models reply to the planner's questions."""

from collections.abc import Collection
from typing import Any


def found(answer: str) -> dict[str, Any]:
    """A try at the answer that says it stands in the results."""
    return {"assessment": "", "final_answer": answer, "found_in": "results"}


def was_done(answer: str, missing: str | None = None, tool: str | None = None) -> dict[str, Any]:
    """What a model says was done, and the call that is missing."""
    return {"final_answer": answer, "missing": missing, "tool": tool}


def deed(*search: str) -> dict[str, Any]:
    """How a request for a change or another action is read."""
    return {"search": list(search) or ["value"], "wants": "action"}


def words(*each: str) -> dict[str, Any]:
    """What to search for besides the request's own words."""
    return {"words": list(each)}


def second(answer: str) -> dict[str, Any]:
    """A second reading of the results."""
    return {"answer_again": answer}


def nowhere() -> dict[str, Any]:
    """A try at the answer that says that no result holds it."""
    return {"assessment": "", "final_answer": "No line says it.", "found_in": "nowhere"}


def conclusion(answer: str, success: bool = True) -> dict[str, Any]:
    return {"decision": "conclude", "final_answer": answer, "success": success}


def plan(tool: str, *later: str, objective: str = "Read the file") -> dict[str, Any]:
    """A plan whose first step calls a tool; what the later ones call is decided later."""
    return {
        "steps": [
            {"objective": objective, "tool": tool},
            *({"objective": each, "tool": None} for each in later),
        ],
    }


def steps(*calls: tuple[str, str]) -> dict[str, Any]:
    """A plan of these objectives, each with its tool."""
    return {"steps": [{"objective": objective, "tool": tool} for objective, tool in calls]}


def move_on(tool: str, objective: str, *later: str) -> dict[str, Any]:
    return {
        "decision": "move_on",
        "later_steps": list(later),
        "notes": "The file was read.",
        "objective": objective,
        "tool_calls": [{"prompt": objective, "tool": tool}],
    }


def stay(tool: str, prompt: str) -> dict[str, Any]:
    return {"decision": "stay", "tool_calls": [{"prompt": prompt, "tool": tool}]}


def of_many_steps(asked: Collection[str], number: int) -> dict[str, Any] | None:
    """A model's reply to question `number` for these keys, in a run of some thirty calls of `say`
    with long texts; None once it should answer."""
    if "text" in asked:
        return {"text": f"{number} {'x' * 300}"}
    if "steps" in asked:
        return plan("say", objective="Say it")
    if "found_in" not in asked:
        return move_on("say", f"Say {number}")
    return nowhere() if number <= 90 else None


def beside_record(says: str, *calls: str) -> str:
    """The answer of a run that made these calls, and whose model says this."""
    listed = "\n".join(f"- {each}" for each in calls)
    return f"What was done:\n{listed}\n\nThe model says:\n{says}"


def two_more_rows() -> list[dict[str, Any]]:
    """The first row of `in_memory.rows` was read: it takes the second and the third too."""
    third = deep(stay("row", "The third"))
    return [plan("row"), {"number": "2"}, third, {"number": "3"}]


def deep(decision: dict[str, Any]) -> dict[str, Any]:
    """The decision as it is asked for in deep mode."""
    return decision | {
        "assessment": "Not enough yet.",
        "belief": "It stands in another file.",
        "critique": "The wrong file was read.",
    }
