"""Texts of the operator's file with variables in them, and the secrets that come in by these."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import AfterValidator, PlainSerializer, PlainValidator, SecretStr, ValidationInfo
from pydantic_core import PydanticCustomError

HIDDEN = "***"
"""Replaces a secret in a message."""

PUBLIC_VARIABLES = frozenset({"PLANLOOM_PROJECT", "PLANLOOM_PYTHON"})
"""Defined by us for every file: the project's absolute path and our own interpreter."""

CALLED_SECRET = re.compile(
    r"key|token|secret|pass|pwd|credential|auth|cookie|session|private", re.IGNORECASE
)
"""Names of variables, `env` entries and headers whose value is a secret."""

VARIABLE = re.compile(
    r"\$\$|\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{)"
)


class Expanded(SecretStr):
    """A string of the file with its variables filled in; `get_secret_value()` gives it whole.
    Printed, it shows `***` where a variable's value stands."""

    def __init__(
        self,
        value: str,
        shown: str = HIDDEN,
        secrets: Iterable[str] = (),
        credentials: Iterable[str] = (),
        written: str = HIDDEN,
    ) -> None:
        super().__init__(value)
        self._shown = shown
        self.secrets = frozenset(secrets)
        """The parts that must not appear anywhere."""
        self.credentials = frozenset(credentials)
        """The secrets whose variable is named like a secret."""
        self.written = written
        """As written in the file, with the variables' names."""

    def _display(self) -> str:
        return self._shown

    def __eq__(self, other: object) -> bool:
        """Equal if value and spelling are equal: a value from a variable is a secret."""
        return super().__eq__(other) and self.written == getattr(other, "written", None)

    __hash__ = SecretStr.__hash__


def expand(text: str, variables: Mapping[str, str]) -> Expanded:
    """Fill in `${NAME}` and `${NAME:-default}`; `$$` is one `$`, any other `$` stands for itself.
    The default counts when the variable is unset or empty; a value is not expanded again. Raises
    `KeyError` with the name of an unset variable, `ValueError` for a `${` left open."""
    value, shown, secrets, credentials, end = "", "", set[str](), set[str](), 0
    for match in VARIABLE.finditer(text):
        name, default = match["name"], match["default"]
        if match["broken"]:
            raise ValueError("a `${` has no name or no `}`")
        part = part_shown = "$"
        if name and default is not None and not variables.get(name):
            part = part_shown = default
        elif name:
            part = part_shown = variables[name]
            if name not in PUBLIC_VARIABLES:
                secrets.add(part)
                credentials |= {part} if CALLED_SECRET.search(name) else set()
                part_shown = HIDDEN
        literal = text[end : match.start()]
        value, shown, end = value + literal + part, shown + literal + part_shown, match.end()
    rest = text[end:]
    return Expanded(value + rest, shown + rest, secrets, credentials, written=text)


def wrong(why: str) -> PydanticCustomError:
    """An error that says how to correct a value; `config_file.py` adds the place."""
    return PydanticCustomError("config", "{why}", {"why": why})


def _expanded(value: object, info: ValidationInfo) -> Expanded:
    if isinstance(value, Expanded):
        return value
    if not isinstance(value, str):
        raise wrong("should be text; put the value in quotes")
    try:
        return expand(value, info.context or {})
    except KeyError as missing:
        name = missing.args[0]
        raise wrong(
            f"the variable {name} is not set; set it, or write ${{{name}:-default}}"
        ) from None
    except ValueError as broken:
        raise wrong(f"{broken}; write ${{NAME}}, or $$ for a plain $") from None


def _hidden(value: object, info: ValidationInfo) -> Expanded:
    """Like `_expanded`, for a value that is secret as a whole."""
    text = _expanded(value, info)
    whole = text.get_secret_value()
    ours = not text.secrets and any(f"${{{name}}}" in str(value) for name in PUBLIC_VARIABLES)
    secrets = () if ours else {whole, *text.secrets}
    return Expanded(whole, secrets=secrets, credentials=text.credentials)


Text = Annotated[
    Expanded, PlainValidator(_expanded, json_schema_input_type=str), PlainSerializer(str)
]
Hidden = Annotated[
    Expanded, PlainValidator(_hidden, json_schema_input_type=str), PlainSerializer(str)
]
HiddenMap = Annotated[
    dict[str, Hidden],
    AfterValidator(lambda values: {k: v for k, v in values.items() if v.get_secret_value()}),
]
