"""What can be done before the next run is asked for: the models are loaded, and read the
instructions."""

from planner.evidence.tool_ranking import Ranking
from planner.models.base import Message, Models
from planner.prompts import has_own_instructions
from planner.prompts.texts import system
from planner.state import RunState
from planner.tools import ToolPool, read_only

READY: Message = {"role": "user", "content": "Are you ready?"}


async def load(models: Models) -> None:
    """Have both models loaded. Raises `ModelError`."""
    for model in models.distinct:
        await model.load()


def pushed_out(state: RunState) -> bool:
    """Whether the last prompt of a run began with other instructions than the next run's: a model
    server that keeps one prompt has to read these again."""
    return bool(state.ledger) and has_own_instructions(state, state.ledger[-1].role)


async def read_instructions(models: Models, pool: ToolPool) -> None:
    """Have the models read what every run on the pool begins with, so that it stands in the prefix
    cache of their server. Not while a run is on: its prompt would be pushed out of there.

    The full model first, which answers most requests alone. Raises `ModelError`.
    """
    tools = Ranking(read_only(pool.tools())).tools
    for model in models.distinct:
        await model.chat([system(tools), READY], max_tokens=1)
