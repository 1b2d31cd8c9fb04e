"""What can be done while no run is on: the models read the instructions."""

from planner.evidence.tool_ranking import Ranking
from planner.models.base import ChatRequest, Message, Models
from planner.prompts.texts import system
from planner.state import RunState
from planner.tools import ToolPool, read_only

READY: Message = {"role": "user", "content": "Are you ready?"}


async def read_instructions(models: Models, pool: ToolPool) -> None:
    """Have the models read what every run that may only read begins with, so that it stands in
    the prefix cache of their server. Not while a run is on: its prompt would be pushed out of
    there.

    The full model first, which answers most requests alone. Raises `ModelError`.
    """
    tools = Ranking(read_only(pool.tools())).tools
    for model in models.distinct:
        await model.chat(ChatRequest([system(tools), READY], max_tokens=1))


def pushes_out(state: RunState) -> bool:
    """Whether the prompts of a run begin otherwise than those of the next one will, so that the
    model server has to read the instructions again: an action has its own, and files are written
    without any."""
    return state.wants == "action"
