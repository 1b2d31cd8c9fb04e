"""What a model server computes: prefix caches in slots, loaded models, time by a machine's rates.

The rules are those of Ollama and the llama.cpp below it (source: research on Ollama 0.5 to 0.40):

- A loaded model has `OLLAMA_NUM_PARALLEL` slots. A slot holds the tokens of its last call, prompt
  and reply; the longest common prefix with the next prompt is not computed again, but for the
  prompt's last token, whose result the reply starts from.
- The slot that shares most with the prompt is taken, if that is more than a tenth of it; else the
  one unused for longest.
- A call whose runner options differ from those the model was loaded with loads it again.
- At most `OLLAMA_MAX_LOADED_MODELS` are loaded; one more takes the place of the one unused for
  longest.

The host-memory cache of newer servers, which brings back prompts that left their slot, is not
simulated: none of the designs goes back to one. Nothing sleeps: seconds come from token counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

MIN_SHARE = 0.1
"""Of a prompt, that a slot has to hold already to be taken for it."""
RUNNER_OPTIONS = (
    *("num_ctx", "num_batch", "num_gpu", "main_gpu", "use_mmap", "num_thread"),
    *("draft_num_predict", "shift"),
)
"""What a model's runner is started with; the other options belong to a call."""

Loading = Literal["warm", "first", "reload", "swap"]
"""What a call finds: the model loaded; never loaded; loaded with other options; pushed out."""


@dataclass(frozen=True)
class Rates:
    """Tokens per second of one model on one machine."""

    prefill: float
    decode: float


@dataclass(frozen=True)
class Machine:
    """How fast a machine is. `overhead` are seconds of every call besides its tokens, `load` those
    of loading a model."""

    name: str
    fast: Rates
    full: Rates
    overhead: float
    load: float = 3.0

    def seconds(self, call: "Served", fast: str) -> float:
        """A call's time; `fast` is the name of the fast model. The first load of a model is left
        out: it stays loaded between runs."""
        rates = self.fast if call.model == fast else self.full
        loading = self.load if call.loading in ("reload", "swap") else 0.0
        return (
            self.overhead + loading + call.computed / rates.prefill + call.generated / rates.decode
        )


MACHINES = (
    Machine("two CPU cores", fast=Rates(110, 28), full=Rates(40, 10), overhead=0.05),
    Machine("laptop GPU", fast=Rates(8000, 180), full=Rates(1000, 40), overhead=0.1),
    Machine("data-centre GPU", fast=Rates(40_000, 700), full=Rates(10_000, 200), overhead=0.1),
)
"""A 0.5B model as the fast one; the full one is 1.5B on the CPU and 7B on the GPUs. Rates from
measurements and assumptions in research/ollama.md, 4.5."""
LAPTOP = MACHINES[1]


@dataclass(frozen=True)
class Served:
    """One call as the server counted it. `prompt` is the whole prompt, `cached` its part that was
    not computed again."""

    model: str
    prompt: int
    cached: int
    generated: int
    loading: Loading

    @property
    def computed(self) -> int:
        return self.prompt - self.cached


def common_prefix(first: Sequence[str], second: Sequence[str]) -> int:
    """How many tokens two texts begin with in common."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))


@dataclass
class _Slot:
    tokens: list[str] = field(default_factory=list)
    used: int = 0
    """The number of the call that used it last."""


@dataclass
class _Loaded:
    options: Mapping[str, Any]
    slots: list[_Slot]
    used: int = 0


class ModelServer:
    """The state of a server and what every call cost. Calls are served one after the other."""

    def __init__(self, *, parallel: int = 1, max_loaded: int = 2) -> None:
        self.parallel = parallel
        self.max_loaded = max_loaded
        self.served: list[Served] = []
        self._loaded: dict[str, _Loaded] = {}
        self._pushed_out: set[str] = set()

    @property
    def loaded(self) -> list[str]:
        return list(self._loaded)

    def serve(
        self, model: str, options: Mapping[str, Any], prompt: Sequence[str], reply: Sequence[str]
    ) -> Served:
        number = len(self.served) + 1
        runner = {key: options[key] for key in RUNNER_OPTIONS if key in options}
        loading = self._load(model, runner)
        loaded = self._loaded[model]
        slot = self._slot(loaded, prompt)
        cached = min(common_prefix(slot.tokens, prompt), len(prompt) - 1)
        slot.tokens = [*prompt, *reply]
        slot.used = loaded.used = number
        served = Served(model, len(prompt), cached, len(reply), loading)
        self.served.append(served)
        return served

    def _load(self, model: str, options: Mapping[str, Any]) -> Loading:
        if (loaded := self._loaded.get(model)) and loaded.options == options:
            return "warm"
        loading: Loading = "reload" if loaded else "first"
        if not loaded and len(self._loaded) >= self.max_loaded:
            oldest = min(self._loaded, key=lambda name: self._loaded[name].used)
            del self._loaded[oldest]
            self._pushed_out.add(oldest)
        if not loaded and model in self._pushed_out:
            loading = "swap"
        self._loaded[model] = _Loaded(options, [_Slot() for _ in range(self.parallel)])
        return loading

    def _slot(self, loaded: _Loaded, prompt: Sequence[str]) -> _Slot:
        best = max(loaded.slots, key=lambda slot: common_prefix(slot.tokens, prompt))
        if common_prefix(best.tokens, prompt) > MIN_SHARE * len(prompt):
            return best
        return min(loaded.slots, key=lambda slot: slot.used)
