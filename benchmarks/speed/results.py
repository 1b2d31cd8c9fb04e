"""What the benchmark found, as Markdown tables and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.eval.results import markdown
from benchmarks.speed.bound import Bound
from benchmarks.speed.designs import Replay, by_role
from benchmarks.speed.simulation import MACHINES


@dataclass(frozen=True)
class Measured:
    """One recorded run: its bound, and what every design did with it."""

    bound: Bound
    replays: list[Replay]

    def replay(self, design: str) -> Replay:
        return next(each for each in self.replays if each.design == design)

    def ratios(self, replay: Replay) -> dict[str, float]:
        """The replay by the bound."""
        seconds = {
            machine.name: replay.seconds(machine) / self.bound.seconds(machine)
            for machine in MACHINES
        }
        return {
            **seconds,
            "computed": replay.computed / self.bound.computed,
            "generated": replay.generated / self.bound.generated,
            "calls": replay.calls / self.bound.calls,
        }


def ratios(measured: Sequence[Measured]) -> str:
    head = (
        "design",
        "steps",
        *(f"s, {m.name}" for m in MACHINES),
        "computed",
        "generated",
        "calls",
    )
    rows = [
        [design, str(each.bound.steps)]
        + [f"{ratio:.2f}" for ratio in each.ratios(each.replay(design)).values()]
        for design in _designs(measured)
        for each in measured
    ]
    return markdown(head, rows)


def counts(measured: Sequence[Measured]) -> str:
    head = (
        *("design", "steps", "model calls", "prompt", "computed", "cached", "generated"),
        *(f"s, {machine.name}" for machine in MACHINES),
    )
    rows = [
        [
            *(design, str(replay.steps), str(replay.calls), str(replay.prompt)),
            *(str(replay.computed), f"{replay.cached_share:.0%}", str(replay.generated)),
            *(f"{replay.seconds(machine):.1f}" for machine in MACHINES),
        ]
        for design in _designs(measured)
        for replay in [each.replay(design) for each in measured]
    ]
    rows += [
        [
            *("lower bound", str(bound.steps), str(bound.calls), "", str(bound.computed), ""),
            str(bound.generated),
            *(f"{bound.seconds(machine):.1f}" for machine in MACHINES),
        ]
        for bound in [each.bound for each in measured]
    ]
    return markdown(head, rows)


def roles(replay: Replay) -> str:
    """Where the calls and tokens of a replay went."""
    head = ("asked for", "model", "calls", "prompt", "computed", "generated")
    return markdown(
        head,
        [
            [role, model, *(str(found[key]) for key in head[2:])]
            for (role, model), found in by_role(replay).items()
        ],
    )


def as_json(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    return [
        {
            "steps": each.bound.steps,
            "bound": asdict(each.bound)
            | {"seconds": {machine.name: each.bound.seconds(machine) for machine in MACHINES}},
            "designs": {
                replay.design: {
                    "model_calls": replay.calls,
                    "prompt_tokens": replay.prompt,
                    "computed_tokens": replay.computed,
                    "generated_tokens": replay.generated,
                    "cached_share": replay.cached_share,
                    "seconds": {machine.name: replay.seconds(machine) for machine in MACHINES},
                    "ratios": each.ratios(replay),
                    "roles": [
                        {"role": role, "model": model, **found}
                        for (role, model), found in by_role(replay).items()
                    ],
                }
                for replay in each.replays
            },
        }
        for each in measured
    ]


def _designs(measured: Sequence[Measured]) -> list[str]:
    return [replay.design for replay in measured[0].replays]
