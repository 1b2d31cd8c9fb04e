"""The forms that upstreams have a person fill in, rebuilt from the primitive types of the protocol
of 2025-11-25: nothing else of an upstream's schema gets to a client."""

import math
import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from planner.checks import validation
from planner.hosts import is_loopback
from server.text import clean, one_line

MAX_FIELDS = 20
MAX_CHOICES = 100
MAX_LABEL_CHARS, MAX_HELP_CHARS = 100, 300
"""Characters of a field's title or a choice, and of its description."""
MAX_CHOICE_CHARS = 200
"""Characters of what a choice stands for. It goes back as it is, so it is never cut."""
MAX_TEXT_CHARS = 4000
"""Characters of a text that a person fills in."""
MAX_URL_CHARS = 2000

CHECKBOX = "done"
PAGE: dict[str, Any] = {
    "type": "object",
    "properties": {
        CHECKBOX: {
            "type": "boolean",
            "title": "I opened the page, or will open it",
            "default": False,
        }
    },
    "required": [CHECKBOX],
}
"""Instead of a page that a client would open: nothing is opened that a person did not open."""

_NAME = re.compile(r"[\w.$@:/-]{1,64}")
_FORMATS = ("email", "uri", "date", "date-time")
_SECRET_WORDS = re.compile(
    r"\b(?:pass(?:word|phrase|code|wd)s?|pwd|secrets?|tokens?|credentials?|cookies?|pin|otp|2fa|cvv"
    r"|cvc|iban|ssn|(?:api|private|secret|access|recovery|license) ?keys?|seed phrase|card number"
    r"|one time code|social security)\b",
    re.IGNORECASE,
)
_WORD_ENDS = re.compile(r"(?<=[a-z])(?=[A-Z])|[_-]+")


class Unfit(ValueError):
    """A question that is not passed on; its text says why."""


def form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The form with the protocol's types only, and with harmless, short texts. Raises `Unfit`."""
    properties = schema.get("properties", {})
    if schema.get("type") != "object" or not isinstance(properties, dict):
        raise Unfit("its form is not an object with properties")
    if len(properties) > MAX_FIELDS:
        raise Unfit(f"its form has more than {MAX_FIELDS} fields")
    for name in properties:
        if not _NAME.fullmatch(name):
            raise Unfit("a field of its form has a name that cannot be shown")
    required = schema.get("required")
    needed = [name for name in properties if isinstance(required, list) and name in required]
    built: dict[str, Any] = {
        "type": "object",
        "properties": {name: _field(name, field) for name, field in properties.items()},
    }
    return built | {"required": needed} if needed else built


def _field(name: str, field: Any) -> dict[str, Any]:
    if not isinstance(field, dict):
        raise Unfit(f"its field {name} is not a schema")
    built: dict[str, Any] = {"type": field.get("type")}
    for key, longest in (("title", MAX_LABEL_CHARS), ("description", MAX_HELP_CHARS)):
        if isinstance(field.get(key), str):
            built[key] = one_line(field[key], longest)
    match field.get("type"):
        case "boolean":
            pass
        case "integer" | "number":
            bounds = {key: field.get(key) for key in ("minimum", "maximum")}
            built |= {key: bound for key, bound in bounds.items() if _is_number(bound)}
        case "string" if "enum" in field or "oneOf" in field:
            built |= _choices(name, field, "oneOf")
        case "string":
            built |= _lengths(field, "minLength", "maxLength")
            if field.get("format") in _FORMATS:
                built["format"] = field["format"]
        case "array" if isinstance(field.get("items"), dict):
            items = field["items"]
            built |= _lengths(field, "minItems", "maxItems")
            kind = {"type": "string"} if "enum" in items else {}
            built["items"] = kind | _choices(name, items, "anyOf")
        case _:
            raise Unfit(f"its field {name} has a type that forms do not support")
    default = field.get("default")
    if default is not None and not validation.problem(default, built) and _is_clean(default):
        built["default"] = default
    return built


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _lengths(field: Mapping[str, Any], *keys: str) -> dict[str, int]:
    given = {key: field.get(key) for key in keys}
    return {key: value for key, value in given.items() if type(value) is int and 0 <= value < 1e15}


def _choices(name: str, field: Mapping[str, Any], titled: str) -> dict[str, Any]:
    """The choices: `enum`, or `oneOf` and `anyOf` with titles."""
    plain, given = field.get("enum"), field.get(titled)
    if isinstance(plain, list):
        built: dict[str, Any] = {"enum": [_choice(name, each) for each in plain]}
        labels = field.get("enumNames")
        if isinstance(labels, list) and len(labels) == len(plain):
            built["enumNames"] = [one_line(str(each), MAX_LABEL_CHARS) for each in labels]
    elif isinstance(given, list) and all(isinstance(each, dict) for each in given):
        built = {
            titled: [
                {
                    "const": _choice(name, each.get("const")),
                    "title": one_line(str(each.get("title", each.get("const"))), MAX_LABEL_CHARS),
                }
                for each in given
            ]
        }
    else:
        raise Unfit(f"its field {name} has no list of choices")
    (choices, *_) = built.values()
    if not 0 < len(choices) <= MAX_CHOICES:
        raise Unfit(f"its field {name} has no choice, or more than {MAX_CHOICES}")
    return built


def _choice(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_CHOICE_CHARS or not _is_clean(value):
        raise Unfit(f"its field {name} has a choice that cannot be shown")
    return value


def _is_clean(value: Any) -> bool:
    texts = value if isinstance(value, list) else [value]
    return all(not isinstance(each, str) or clean(each) == each for each in texts)


def filled_in(content: Mapping[str, Any] | None, built: Mapping[str, Any]) -> dict[str, Any] | None:
    """The form's fields as filled in, and no others; None if they do not fit."""
    values = {name: (content or {}).get(name) for name in built["properties"]}
    values = {name: value for name, value in values.items() if value is not None}
    if any(isinstance(value, str) and len(value) > MAX_TEXT_CHARS for value in values.values()):
        return None
    if any(isinstance(value, float) and not math.isfinite(value) for value in values.values()):
        return None
    return values if validation.problem(values, dict(built)) is None else None


def prompt(name: str, field: Mapping[str, Any]) -> str:
    """The line that asks for a field on the terminal."""
    about = [field["description"]] if field.get("description") else []
    if choices := _titles(field):
        about.append(("some of " if field["type"] == "array" else "") + ", ".join(choices))
    elif field["type"] != "string":
        about.append(
            {"boolean": "yes or no", "integer": "a whole number"}.get(field["type"], "a number")
        )
    said = f" ({'; '.join(about)})" if about else ""
    default = f" [{field['default']}]" if "default" in field else ""
    return f"{field.get('title', name)}{said}{default}: "


def typed(text: str, field: Mapping[str, Any]) -> Any:
    """Parse a typed line as the field's value; None for an empty line. Raises `ValueError`."""
    if not text:
        return field.get("default")
    titles = _titles(field)
    match field["type"]:
        case "boolean":
            value: Any = {"y": True, "yes": True, "n": False, "no": False}.get(text.lower(), text)
        case "integer":
            value = int(text)
        case "number":
            value = float(text)
            if not math.isfinite(value):
                raise ValueError(f"{text} is not a number")
        case "array":
            value = [titles.get(each, each) for each in _parted(text, titles)]
        case _:
            value = titles.get(text, text)
    if problem := validation.problem(value, dict(field)):
        raise ValueError(problem)
    return value


def _parted(text: str, titles: Collection[str]) -> list[str]:
    """The parts of a line with commas between them; a title may have some of its own."""
    known = "|".join(re.escape(each) for each in sorted(titles, key=len, reverse=True))
    return re.findall(rf"\s*({known}|[^,]+?)\s*(?:,|$)", text)


def _titles(field: Mapping[str, Any]) -> dict[str, str]:
    """The choices by their titles."""
    source = field.get("items", field)
    if titled := source.get("oneOf") or source.get("anyOf"):
        return {each["title"]: each["const"] for each in titled}
    choices = source.get("enum", [])
    return dict(zip(source.get("enumNames", choices), choices, strict=True))


def asks_for_secret(message: str, built: Mapping[str, Any]) -> bool:
    texts = [message]
    for name, field in built["properties"].items():
        texts += [name, field.get("title", ""), field.get("description", "")]
    return any(_SECRET_WORDS.search(_WORD_ENDS.sub(" ", text)) for text in texts)


def page(url: str) -> str:
    """The address of a page that a person should open, if it is safe to show. Raises `Unfit`."""
    try:
        parts = urlsplit(url)
        host, user = parts.hostname or "", parts.username
        _ = parts.port
    except ValueError:
        raise Unfit("its address is not valid") from None
    if len(url) > MAX_URL_CHARS or not re.fullmatch(r"[!-~]+", url) or "\\" in url:
        raise Unfit("its address is too long, or has characters that are not allowed in an address")
    if user is not None or not re.fullmatch(r"[A-Za-z0-9.:-]+", host):
        raise Unfit("its address does not show where it leads")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise Unfit("its address does not begin with https")
    return url
