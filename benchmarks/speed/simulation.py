"""What a model server computes: the prefix cache of each model, time by a machine's rates.

The rules are those of Ollama and the llama.cpp below it (source: research on Ollama 0.5 to 0.40),
with one slot for each model, and all models loaded. A slot holds the tokens of its last call,
prompt and reply; the longest common prefix with the next prompt is not computed again, but for the
prompt's last token, whose result the reply starts from.

The host-memory cache of newer servers, which brings back prompts that left their slot, is not
simulated: none of the designs goes back to one. Nothing sleeps: seconds come from token counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """Tokens per second of one model on one machine."""

    prefill: float
    decode: float


@dataclass(frozen=True)
class Machine:
    """How fast a machine is with the full model. `overhead` are seconds of every call besides its
    tokens."""

    name: str
    rates: Rates
    overhead: float

    def seconds(self, calls: int, computed: int, generated: int) -> float:
        """The time of so many calls, with so many tokens in all."""
        spent = computed / self.rates.prefill + generated / self.rates.decode
        return self.overhead * calls + spent


MACHINES = (
    Machine("two CPU cores", Rates(40, 10), overhead=0.05),
    Machine("laptop GPU", Rates(1000, 40), overhead=0.1),
    Machine("data-centre GPU", Rates(10_000, 200), overhead=0.1),
)
"""With a 1.5B model on the CPU and one of 7B on the GPUs. The rates come from measurements and
assumptions in research/ollama.md, 4.5."""
LAPTOP = MACHINES[1]


@dataclass(frozen=True)
class Served:
    """One call as the server counted it. `prompt` is the whole prompt, `cached` its part that was
    not computed again."""

    model: str
    prompt: int
    cached: int
    generated: int

    @property
    def computed(self) -> int:
        return self.prompt - self.cached


def common_prefix(first: Sequence[str], second: Sequence[str]) -> int:
    """How many tokens two texts begin with in common."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))


class ModelServer:
    """What a server holds and what every call cost. Calls are served one after the other."""

    def __init__(self) -> None:
        self.served: list[Served] = []
        self._held: dict[str, Sequence[str]] = {}
        """The tokens of the last call of each model."""

    def serve(self, model: str, prompt: Sequence[str], reply: Sequence[str]) -> Served:
        held = self._held.get(model, [])
        cached = min(common_prefix(held, prompt), len(prompt) - 1)
        self._held[model] = [*prompt, *reply]
        served = Served(model, len(prompt), cached, len(reply))
        self.served.append(served)
        return served
