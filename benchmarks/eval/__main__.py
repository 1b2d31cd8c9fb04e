"""`python -m benchmarks.eval`: ask the questions, print the table, keep everything as JSON."""

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import typer
from platformdirs import user_cache_path

from benchmarks.eval.check import SPLITS, Question, Split, verdict
from benchmarks.eval.codebases import PACKAGE, REPOSITORY, CodeBase, lay_out
from benchmarks.eval.results import Ledger, Record, Results, table
from benchmarks.eval.systems import SYSTEMS, Answer, Ask, Bench
from planner.errors import PlanloomError
from planner.models import ArgumentRoute, Message, Models
from planner.ollama import probe
from server.backends import open_models
from server.config import ModelSettings, shipped_file

GRACE_SECONDS = 10.0
"""Beyond the time limit, for a system that ends by itself when it is told the limit."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
Choice = Literal["dev", "report", "all"]


@app.callback(invoke_without_command=True)
def evaluate(
    context: typer.Context,
    split: Annotated[Choice, typer.Option(help="Tune on dev only.")] = "dev",
    systems: Annotated[str, typer.Option(help="Which, with commas.")] = ",".join(SYSTEMS),
    fast: Annotated[str, typer.Option(help="The fast model.")] = ModelSettings().fast,
    full: Annotated[str, typer.Option(help="The full model.")] = ModelSettings().full,
    argument_route: Annotated[
        ArgumentRoute, typer.Option(help="Who writes arguments for planloom.")
    ] = Models.argument_route,
    upstreams: Annotated[
        Path | None, typer.Option(help="An upstreams.yaml with a serena; default: the shipped one.")
    ] = None,
    only: Annotated[str, typer.Option(help="Questions whose id or text matches this regex.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="So many, evenly taken.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="The time limit of a question.")] = 120.0,
    out: Annotated[Path | None, typer.Option(help="The folder for the JSON.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="A JSON to go on with: what it has is not asked again.")
    ] = None,
) -> None:
    """Ask the questions of the systems and print how they did. Subcommands: table, questions."""
    if context.invoked_subcommand:
        return
    names = systems.split(",")
    if unknown := set(names) - set(SYSTEMS):
        raise typer.BadParameter(f"no such system: {', '.join(unknown)}; there are {list(SYSTEMS)}")
    codebases = selected(_lay_out(split), only, limit)
    bench = Bench(
        models=ModelSettings(
            fast=fast,
            full=full,
            host=os.environ.get("OLLAMA_HOST"),
            argument_route=argument_route,
        ),
        upstreams=upstreams or shipped_file(),
        environ=dict(os.environ),
        work=_cache() / "work",
        seconds=seconds,
    )
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    path = resume or (out or _cache() / "results") / f"{split}-{stamp}.json"
    results = Results.load(resume) if resume else Results(about={})
    try:
        anyio.run(_evaluate, bench, codebases, names, results, path)
    except KeyboardInterrupt:
        _say(f"Interrupted. Go on with: --resume {path}")
        raise typer.Exit(130) from None
    except PlanloomError as error:
        _say(f"{error}\nWhat there is so far can be gone on with: --resume {path}")
        raise typer.Exit(2) from None
    finally:
        if results.records:
            print(table(results), flush=True)
            _say(f"Everything is in {path}")


@app.command("table")
def print_table(files: list[Path]) -> None:
    """Print the Markdown tables of JSON files."""
    print("\n\n".join(table(Results.load(file)) for file in files))


@app.command()
def questions(split: Choice = "all") -> None:
    """List the questions with their answers, without asking them."""
    for codebase in _lay_out(split):
        print(f"\n{codebase.name} ({len(codebase.questions)}): {codebase.root}")
        for each in codebase.questions:
            print(f"  {each.id}: {each.text} -> {each.expected}")


def _lay_out(split: Choice) -> list[CodeBase]:
    splits: Sequence[Split] = SPLITS if split == "all" else (split,)
    return lay_out(_cache() / "codebases", splits)


def _cache() -> Path:
    return user_cache_path("planloom") / "eval"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def selected(codebases: Sequence[CodeBase], only: str, limit: int | None) -> list[CodeBase]:
    """The code bases with the questions that match; of those at most `limit`, spread evenly over
    all code bases and kinds."""
    pattern = re.compile(only, re.IGNORECASE)
    matching = [
        question
        for codebase in codebases
        for question in codebase.questions
        if pattern.search(question.id) or pattern.search(question.text)
    ]
    if limit and limit < len(matching):
        matching = [matching[index * len(matching) // limit] for index in range(limit)]
    chosen = {question.id for question in matching}
    found = [
        CodeBase(each.name, each.root, tuple(q for q in each.questions if q.id in chosen))
        for each in codebases
    ]
    return [each for each in found if each.questions]


async def _evaluate(
    bench: Bench,
    codebases: Sequence[CodeBase],
    names: Sequence[str],
    results: Results,
    path: Path,
) -> None:
    """System by system, so that one's prompts do not push another's out of the prefix cache."""
    ollama = await probe(bench.models.host)
    if ollama is None and "native" in names:
        _say("Ollama does not answer: native is left out, since the embedded models call no tools.")
        names = [name for name in names if name != "native"]
    results.about = results.about or _about(bench, ollama.version if ollama else None)
    await warm_up(bench.models)
    for name in names:
        for codebase in codebases:
            open_questions = [q for q in codebase.questions if not results.has(name, q)]
            if not open_questions:
                continue
            _say(f"{name}: starting on {codebase.name}")
            async with SYSTEMS[name](bench, codebase) as ask:
                for question in open_questions:
                    record = await _record(name, question, ask, bench.seconds)
                    results.records.append(record)
                    results.save(path)
                    _progress(
                        record, results, len(names) * sum(len(c.questions) for c in codebases)
                    )


def _about(bench: Bench, ollama: str | None) -> dict[str, Any]:
    git = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty"]
    described = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": described or "unknown",
        "fast": bench.models.fast,
        "full": bench.models.full,
        "arguments": bench.models.argument_route,
        "on": f"Ollama {ollama}" if ollama else "embedded",
        "num_ctx": bench.models.num_ctx,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        PACKAGE: version(PACKAGE),
        "limit": f"{bench.seconds:g} s",
    }


async def warm_up(settings: ModelSettings) -> None:
    """Load both models before the clock runs, whoever is asked first."""
    models = await open_models(settings)
    try:
        hello: Message = {"role": "user", "content": "Say OK."}
        for model in {id(each): each for each in (models.fast, models.full)}.values():
            await model.chat([hello], max_tokens=2)
    finally:
        await models.aclose()


async def _record(name: str, question: Question, ask: Ask, limit: float) -> Record:
    """Ask one question. Whatever goes wrong in it is its record, and the others go on."""
    ledger = Ledger()
    answer = Answer("failed", f"No answer within {limit:g} s.")
    began = time.monotonic()
    with anyio.move_on_after(limit + GRACE_SECONDS):
        try:
            answer = await ask(question.text, ledger)
        except Exception as error:  # noqa: BLE001  a system's fault is what is measured here
            answer = Answer("failed", f"{type(error).__name__}: {error}")
    return Record(
        system=name,
        question=question,
        verdict=verdict(question, answer.status, answer.text),
        status=answer.status,
        answer=answer.text,
        seconds=round(time.monotonic() - began, 2),
        ledger=ledger,
        details=answer.details,
    )


def _progress(record: Record, results: Results, total: int) -> None:
    said = " ".join(record.answer.split())[:90]
    _say(
        f"[{len(results.records)}/{total}] {record.system} {record.question.id} {record.verdict} "
        f"({record.status}) {record.seconds:.1f} s: {said}  [{record.question.expected}]"
    )


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.eval")
