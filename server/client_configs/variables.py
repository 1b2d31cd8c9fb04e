"""The names of the variables that stand for secrets of imported servers."""

import re


class Variables:
    """The variables of all servers: one name, one value."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def name_for(self, name: str, value: str, upstream: str) -> str:
        """A variable's name for this value: the plain name, unless another value has it."""
        names = [variable_name(name), variable_name(f"{upstream}_{name}")]
        names += [f"{names[-1]}_{number}" for number in range(2, len(self._values) + 3)]
        free = next(each for each in names if self._values.get(each, value) == value)
        self._values[free] = value
        return free

    def add_used(self, name: str) -> None:
        """Reserve the name of a variable that a client's file takes from the environment."""
        self._values.setdefault(name, "")


def variable_name(text: str) -> str:
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").upper()
    return name if re.match(r"[A-Z_]", name) else f"_{name}"
