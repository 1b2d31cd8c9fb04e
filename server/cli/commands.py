"""The command line: init, ask, serve, token, runs, tools, doctor, models, schema."""

import gc
import json
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

# Imports of the server wait until a command needs them: FastMCP alone takes a second. The settings
# come before them, so that a mistake in them is told at once.

app = typer.Typer(
    name="planloom",
    help="A planning agent for small local models, as an MCP server.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Project = Annotated[
    Path | None,
    typer.Option("--project", help="The project's folder. Default: PLANLOOM_PROJECT, or here."),
]
Upstreams = Annotated[
    Path | None,
    typer.Option("--upstreams", help="The upstreams.yaml. Default: PLANLOOM_UPSTREAMS, or yours."),
]


def main() -> None:
    """The console script. Our own errors are one line; nothing else is expected."""
    os.environ.setdefault("FASTMCP_ENABLE_RICH_LOGGING", "false")
    os.environ.setdefault("FASTMCP_CHECK_FOR_UPDATES", "off")
    os.environ.setdefault("FASTMCP_LOG_LEVEL", "WARNING")
    from planner.errors import PlanloomError

    try:
        app()
    except PlanloomError as error:
        from server.text import clean

        typer.echo(f"planloom: {clean(str(error))}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


@app.callback(invoke_without_command=True)
def planloom(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """A planning agent for small local models, as an MCP server."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"planloom {installed('planloom')}")
        raise typer.Exit


@app.command()
def init(
    taken_from: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FILE", help="A client's file or folder, not all found."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the file instead of writing it.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace your upstreams.yaml; it is kept beside it.")
    ] = False,
    client: Annotated[
        Literal["claude-desktop", "continue", "cursor", "vscode"] | None,
        typer.Option(help="Print the entry by which this client uses Planloom, instead."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="With --client: put the entry into the client's file.")
    ] = False,
    http: Annotated[
        str | None,
        typer.Option(
            "--http", metavar="ADDRESS", help="With --client: HOST:PORT or URL it serves."
        ),
    ] = None,
    project: Annotated[
        Path | None,
        typer.Option("--project", help="With --client: the project's folder. Default: here."),
    ] = None,
) -> None:
    """Write your upstreams.yaml with the MCP servers of your other clients; or, with --client, a
    client's entry for Planloom."""
    from server.cli.init import client_entry, write_upstreams

    if client is None:
        if write or http or project:
            raise typer.BadParameter("--write, --http and --project go with --client")
        return write_upstreams(taken_from or [], dry_run=dry_run, force=force)
    if taken_from or dry_run or force:
        raise typer.BadParameter("--from, --dry-run and --force do not go with --client")
    return client_entry(client, project, http, write=write)


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question, in quotes.")],
    project: Project = None,
    upstreams: Upstreams = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", metavar="FILE", help="A JSON Schema: the answer as data too."),
    ] = None,
    max_iterations: Annotated[int, typer.Option(min=1, max=100, help="Most tool calls.")] = 10,
    max_seconds: Annotated[float, typer.Option(min=1, help="Most seconds.")] = 600,
    policy: Annotated[
        Literal["read_only", "ask", "allow"],
        typer.Option(
            help="What tools that are not read-only need; upstreams.yaml can only tighten it.",
        ),
    ] = "ask",
) -> None:
    """Answer a question about the project; progress goes to standard error. On a terminal, what may
    change something is asked about there; elsewhere it is refused."""
    settings = _settings(project, upstreams)
    data_schema = _read_schema(schema) if schema else None
    from planner.tools import Policy

    limits = {"iterations": max_iterations, "seconds": max_seconds}
    given = (question, limits, data_schema, Policy(policy), as_json)
    sys.exit(_run_with_upstreams("server.cli.ask", "ask_on_terminal", settings, *given))


@app.command()
def serve(
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Serve HTTP there, not stdio."),
    ] = None,
    project: Project = None,
    upstreams: Upstreams = None,
) -> None:
    """Run the MCP server: on standard input and output, or over HTTP at /mcp with a token, where
    OpenAI clients find the planner as a model at /v1."""
    if http is None:
        from server.cli.front import Front
        from server.project import project_folder

        front = Front.open(project_folder(project, os.environ))
        _run_with_upstreams(
            "server.cli.serve_stdio", "serve_stdio", _settings(project, upstreams), front
        )
    else:
        settings = _settings(project, upstreams)
        with _uncollected():
            from server.cli.serve_http import serve_http

        serve_http(settings, http, os.environ)


runs = typer.Typer(help="Show recorded runs, and go on with interrupted ones.")
app.add_typer(runs, name="runs")
RunId = Annotated[str, typer.Argument(help="A run's id, or its beginning.")]


@runs.callback(invoke_without_command=True)
def runs_listed(
    context: typer.Context,
    most: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", help="Watch the newest instead.")] = False,
    project: Project = None,
    upstreams: Upstreams = None,
) -> None:
    """List the newest runs, or watch the newest as it goes on."""
    if context.invoked_subcommand is None:
        settings = _settings(project, upstreams)
        from server.cli.runs import follow_run, list_runs

        if follow:
            _run(follow_run, settings, None, False, False)
        else:
            _run(list_runs, settings, most)


@runs.command("show")
def runs_show(
    run_id: RunId,
    whole: Annotated[bool, typer.Option("--transcript", help="Prompts, replies, results.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Watch it until it ends.")] = False,
    project: Project = None,
    upstreams: Upstreams = None,
) -> None:
    """Show the report of a run, or all that was said in it."""
    settings = _settings(project, upstreams)
    from server.cli.runs import follow_run, show_run

    _run(follow_run if follow else show_run, settings, run_id, whole, as_json)


@runs.command("resume")
def runs_resume(
    run_id: RunId,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    project: Project = None,
    upstreams: Upstreams = None,
) -> None:
    """Go on with an interrupted run; what it did is not done again."""
    settings = _settings(project, upstreams)
    given = (run_id, as_json)
    sys.exit(_run_with_upstreams("server.cli.ask", "resume_on_terminal", settings, *given))


@app.command()
def token() -> None:
    """Print the token that clients of `serve --http` send; makes it when there is none."""
    from server.auth import own_token

    typer.echo(own_token())


@app.command()
def tools(
    project: Project = None,
    upstreams: Upstreams = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="NAME",
            help="Show what a tool that is held back would change, or all of an upstream; with the "
            "digest that this prints (NAME@DIGEST), consent to it.",
        ),
    ] = None,
) -> None:
    """Start the upstreams and list their tools, with state, safety class and priority."""
    settings = _settings(project, upstreams)
    if accept:
        from server.cli.ask import accept_tools

        return accept_tools(settings, accept)
    sys.exit(_run_with_upstreams("server.cli.ask", "list_tools", settings))


@app.command()
def doctor(project: Project = None, upstreams: Upstreams = None) -> None:
    """Check models, upstreams and versions; say what is wrong and how to mend it."""
    settings = _settings(project, upstreams)
    from server.cli.doctor import examine

    sys.exit(_run(examine, settings))


@app.command()
def models(project: Project = None, upstreams: Upstreams = None) -> None:
    """Make the models ready: fetches the embedded ones if they are what will be used."""
    settings = _settings(project, upstreams)
    from server.cli.ask import prepare_models

    _run(prepare_models, settings)


@app.command()
def schema() -> None:
    """Print the JSON Schema of upstreams.yaml."""
    from server.config_schema import schema_text

    typer.echo(schema_text(), nl=False)


def _settings(project: Path | None, upstreams: Path | None) -> Any:
    from server.config import load_settings

    settings = load_settings(upstreams, project, os.environ)
    # The settings hold it now, and the ollama package cannot be imported while it is wrong.
    os.environ.pop("OLLAMA_HOST", None)
    return settings


def _read_schema(file: Path) -> dict[str, Any]:
    from planner.errors import ConfigError

    try:
        schema = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"--schema {file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--schema {file}: this is not JSON: {error}; mend it") from None
    if not isinstance(schema, dict):
        raise ConfigError(f"--schema {file}: a JSON Schema is an object; write one")
    return schema


def _run_with_upstreams(module: str, function: str, settings: Any, *arguments: Any) -> Any:
    """Call the function of the module, which is imported while the upstreams start."""
    from importlib import import_module

    import anyio.to_thread

    from server.upstreams.launch import head_start

    async def run() -> Any:
        async with head_start(settings) as launcher:
            with _uncollected():
                imported = await anyio.to_thread.run_sync(import_module, module)
            return await getattr(imported, function)(settings, *arguments, launcher=launcher)

    return _run(run)


@contextmanager
def _uncollected() -> Iterator[None]:
    """For imports: what they make stays, so that the garbage collector need not look through it,
    which would be a seventh of their time, nor ever again."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _run(function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
    import anyio

    return anyio.run(function, *arguments)
