"""What the tests of the models' adapters ask."""

from planner.models.base import Message

COLOUR = {
    "type": "object",
    "properties": {"colour": {"type": "string", "maxLength": 20}},
    "required": ["colour"],
}


def user(text: str) -> Message:
    return {"role": "user", "content": text}
