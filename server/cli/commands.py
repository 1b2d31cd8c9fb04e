"""The command line: init, ask, serve, token, runs, tools, doctor, try, models, schema."""

import errno
import gc
import json
import os
import select
import signal
import stat
import sys
from collections.abc import Callable, Coroutine
from io import TextIOWrapper
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from planner.errors import ConfigError, PlanloomError
from server.mcp.handshake import ABILITIES
from server.text import clean, plain, read_text

# Imports of the server wait until a command needs them: FastMCP alone takes a second. The settings
# come before them, so that a mistake in them is reported at once.

PATIENCE_SECONDS = 2.0
"""How long it waits for standard input before it says so."""
EXITS = (
    "Exit codes: 0 answered, or not found after a search; 1 partly answered, refused, failed or "
    "cancelled; 2 wrong usage, or no model; 130 interrupted."
)


class Commands(TyperGroup):
    """Says what is wrong with a value in its own words, not in pydantic's."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = plain(error.message)
            raise


app = typer.Typer(
    name="planloom",
    cls=Commands,
    help="A planning agent for small local models, as an MCP server.",
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _option(spelling: str, text: str, **bounds: Any) -> Any:
    """An option as its help writes it: `--from FILE`, `--quiet -q`."""
    words = spelling.split()
    names = [word for word in words if word.startswith("-")]
    return typer.Option(*names, metavar=next(iter(words[len(names) :]), None), help=text, **bounds)


Project = Annotated[
    Path | None,
    _option(
        "--project FOLDER",
        "The project's folder. Default: PLANLOOM_PROJECT, or the current directory.",
    ),
]
Upstreams = Annotated[
    Path | None,
    _option("--upstreams FILE", "The upstreams file. Default: PLANLOOM_UPSTREAMS, or your own."),
]
Model = Annotated[str | None, _option("--model NAME", "The model for everything, or FAST,FULL.")]
AsJson = Annotated[bool, _option("--json", "Print the report as JSON.")]
Quiet = Annotated[bool, _option("--quiet -q", "Print the answer only.")]
Verbose = Annotated[bool, _option("--verbose -v", "Print the cost, after the answer.")]


def main() -> None:
    # FastMCP reads `.env` where it is started: in the project, which is a stranger's folder.
    os.environ.setdefault("FASTMCP_ENV_FILE", os.devnull)
    os.environ.setdefault("FASTMCP_ENABLE_RICH_LOGGING", "false")
    os.environ.setdefault("FASTMCP_LOG_LEVEL", "WARNING")
    # Its store would have its functions wrapped in type checks, a tenth of what a start takes.
    os.environ.setdefault("PY_KEY_VALUE_DISABLE_BEARTYPE", "true")
    if sys.stdin is None:  # who starts us has closed it
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin = os.fdopen(0, closefd=False)
    if isinstance(sys.stdout, TextIOWrapper):  # no answer is lost for want of a character
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except PlanloomError as error:
        typer.echo(f"planloom: {clean(str(error))}", err=True)
        sys.exit(2)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # where the rest goes when Python ends
        typer.echo(f"planloom: {error.strerror}; free some space, or write elsewhere", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


@app.callback(invoke_without_command=True)
def planloom(version: Annotated[bool, _option("--version", "Print the version.")] = False) -> None:
    """A planning agent for small local models, as an MCP server."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"planloom {installed('planloom')}")
        raise typer.Exit


@app.command(short_help="Write your upstreams.yaml, or the entry for a client.")
def init(
    client_files: Annotated[
        list[Path] | None, _option("--from FILE", "Read this client's file or folder only.")
    ] = None,
    dry_run: Annotated[bool, _option("--dry-run", "Print the file instead of writing it.")] = False,
    force: Annotated[
        bool, _option("--force", "Replace your upstreams.yaml; a copy of it is kept.")
    ] = False,
    client: Annotated[
        Literal[
            "claude-code",
            "claude-desktop",
            "cline",
            "codex",
            "continue",
            "copilot",
            "cursor",
            "gemini",
            "goose",
            "opencode",
            "vscode",
            "zed",
        ]
        | None,
        _option("--client", "Print the entry that makes this client use Planloom."),
    ] = None,
    write: Annotated[
        bool, _option("--write", "With --client: put the entry into the client's file.")
    ] = False,
    http: Annotated[
        str | None,
        _option(
            "--http ADDRESS",
            "With --client: connect to a running `planloom serve --http`; HOST:PORT or URL.",
        ),
    ] = None,
    project: Annotated[
        Path | None,
        _option(
            "--project FOLDER",
            "With --client: the project's folder. Default: the current directory.",
        ),
    ] = None,
) -> None:
    """Write your upstreams.yaml with the MCP servers of your other clients; or, with --client, a
    client's entry for Planloom."""
    from server.cli.init import client_entry, write_upstreams

    if client is None:
        if write or http or project:
            raise typer.BadParameter("--write, --http and --project can only be used with --client")
        return write_upstreams(client_files or [], dry_run=dry_run, force=force)
    if client_files or dry_run or force:
        raise typer.BadParameter("--from, --dry-run and --force cannot be used with --client")
    return client_entry(client, project, http, write=write)


@app.command(short_help="Answer a question about the project.", epilog=f"{ABILITIES}\n\n{EXITS}")
def ask(
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION", help="The question, in quotes; - reads it from standard input."
        ),
    ],
    project: Project = None,
    upstreams: Upstreams = None,
    model: Model = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    schema: Annotated[
        Path | None,
        _option("--schema FILE", "A JSON Schema; the answer comes as data that fits it too."),
    ] = None,
    seconds: Annotated[
        float, _option("--seconds N", "The time limit, in seconds.", min=1, max=86_400)
    ] = 600,
    iterations: Annotated[
        int, _option("--iterations N", "The limit of tool calls.", min=1, max=100)
    ] = 10,
    policy: Annotated[
        Literal["read_only", "ask", "allow"],
        _option(
            "--policy",
            "May the run change something? read_only: never. ask: each call, once you approve it. "
            "allow: without asking. upstreams.yaml can be stricter.",
        ),
    ] = "ask",
) -> None:
    """Answer a question about the project; progress goes to standard error. You can
    pipe in the text that the question is about. On a terminal you are asked before anything is
    changed; without one, such a call is refused."""
    settings = _settings(project, upstreams, model)
    question = _with_input(question)
    if not question.strip():
        raise typer.BadParameter(
            "the question is empty; write one in quotes", param_hint="QUESTION"
        )
    data_schema = _read_schema(schema) if schema else None
    from planner.protocol import Limits, RunRequest
    from planner.tools import Policy

    request = RunRequest(
        prompt=question,
        limits=Limits(iterations=iterations, seconds=seconds),
        data_schema=data_schema,
        policy=Policy(policy),
    )
    shown = (as_json, _detail(quiet, verbose), _given(project, upstreams, model))
    sys.exit(_run_with_upstreams("server.cli.ask:run_on_terminal", settings, request, *shown))


@app.command(short_help="Run the MCP server, on standard input and output or over HTTP.")
def serve(
    http: Annotated[
        str | None, _option("--http HOST:PORT", "Serve HTTP at this address instead of stdio.")
    ] = None,
    project: Project = None,
    upstreams: Upstreams = None,
) -> None:
    """Run the MCP server: on standard input and output, or over HTTP at /mcp with a token, where
    OpenAI clients find the planner as a model at /v1."""
    if http is None:
        from server.cli.front import Front
        from server.project import project_folder

        if sys.stdin.isatty():
            typer.echo(
                "planloom: waiting for an MCP client, which starts this command itself "
                "(planloom init --client NAME). To ask from here: planloom ask; to end: Ctrl-C.",
                err=True,
            )
        front = Front(project_folder(project, os.environ))
        settings = _settings(project, upstreams)
        _run_with_upstreams("server.cli.serve_stdio:serve_stdio", settings, front)
    else:
        settings = _settings(project, upstreams)
        _imported("server.cli.serve_http:serve_http")(settings, http, os.environ)


runs = typer.Typer(help="Show recorded runs, answer what they ask, and resume them.")
app.add_typer(runs, name="runs")
RunId = Annotated[str, typer.Argument(metavar="ID", help="A run's id, or its beginning.")]
WaitingRun = Annotated[
    str,
    typer.Argument(
        metavar="ID[@DIGEST]", help="The run's id, or its beginning; see `planloom runs`."
    ),
]


@runs.callback(invoke_without_command=True)
def runs_listed(
    context: typer.Context,
    most: Annotated[
        int, _option("--most N", "How many runs to show, the newest first.", min=1, max=10**6)
    ] = 20,
    follow: Annotated[bool, _option("--follow", "Watch the newest run instead.")] = False,
    project: Project = None,
    upstreams: Upstreams = None,
) -> None:
    """List the newest runs, or watch the newest as it goes on."""
    if context.invoked_subcommand is None:
        settings = _settings(project, upstreams)
        if follow:
            _run("server.cli.runs:follow_run", settings, None, False, False)
        else:
            _run("server.cli.runs:list_runs", settings, most)


@runs.command("show")
def runs_show(
    run_id: RunId,
    whole: Annotated[
        bool, _option("--transcript", "Print all prompts, replies and results.")
    ] = False,
    as_json: AsJson = False,
    follow: Annotated[bool, _option("--follow", "Watch it until it ends.")] = False,
    project: Project = None,
    upstreams: Upstreams = None,
) -> None:
    """Show the report of a run, or its whole transcript."""
    command = "server.cli.runs:follow_run" if follow else "server.cli.runs:show_run"
    _run(command, _settings(project, upstreams), run_id, whole, as_json)


@runs.command("approve")
def runs_approve(run_id: WaitingRun, project: Project = None, upstreams: Upstreams = None) -> None:
    """Approve the call that a run is waiting to make. It is shown first; with the digest that
    `planloom runs` prints (ID@DIGEST), that very call is approved at once."""
    sys.exit(_run("server.cli.runs:decide_run", _settings(project, upstreams), run_id, True))


@runs.command("decline", short_help="Decline that call; the run continues without it.")
def runs_decline(run_id: WaitingRun, project: Project = None, upstreams: Upstreams = None) -> None:
    """Decline the call that a run is waiting to make; the run continues without it."""
    sys.exit(_run("server.cli.runs:decide_run", _settings(project, upstreams), run_id, False))


@runs.command("resume")
def runs_resume(
    run_id: RunId,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    project: Project = None,
    upstreams: Upstreams = None,
    model: Model = None,
) -> None:
    """Continue an interrupted run; what it did is not done again."""
    settings = _settings(project, upstreams, model)
    shown = (as_json, _detail(quiet, verbose), _given(project, upstreams, model))
    sys.exit(_run_with_upstreams("server.cli.ask:run_on_terminal", settings, run_id, *shown))


@app.command(short_help="Print the token that clients of `serve --http` send.")
def token() -> None:
    """Print the token that clients of `serve --http` send; create it if needed."""
    from server.auth import own_token

    typer.echo(own_token())


@app.command(short_help="List the upstreams and their tools.")
def tools(
    project: Project = None,
    upstreams: Upstreams = None,
    accept: Annotated[
        list[str] | None,
        _option(
            "--accept NAME",
            "Show what has changed in a tool that is held back, or in all tools of an upstream, "
            "and print the NAME@DIGEST that accepts exactly this change.",
        ),
    ] = None,
) -> None:
    """Start the upstreams and list their tools, with state, safety class and priority."""
    settings = _settings(project, upstreams)
    if accept:
        from server.cli.ask import accept_tools

        return accept_tools(settings, accept)
    sys.exit(_run_with_upstreams("server.cli.ask:list_tools", settings))


@app.command(short_help="Say what is wrong, and how to fix it.")
def doctor(project: Project = None, upstreams: Upstreams = None) -> None:
    """Check models, upstreams and versions; say what is wrong and how to fix it."""
    sys.exit(_run("server.cli.doctor:examine", _settings(project, upstreams)))


@app.command("try", short_help="Measure your models, and say which one to use.")
def try_models(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL", help="Models, or pairs FAST,FULL. Default: all that Ollama has."
        ),
    ] = None,
    write: Annotated[
        bool, _option("--write", "Put the best ones into your upstreams.yaml.")
    ] = False,
    last: Annotated[bool, _option("--last", "Show the last results without asking again.")] = False,
    minutes: Annotated[
        float,
        _option(
            "--minutes N",
            "The time for each model, in minutes; a question may take an eighth of it.",
            min=0.1,
        ),
    ] = 5,
    upstreams: Upstreams = None,
) -> None:
    """Ask twelve questions of each model that your Ollama has, and say which one to use."""
    settings = _settings(None, upstreams)
    if last:
        from server.cli.trial.run import show_last

        sys.exit(show_last(settings, models or [], write))
    sys.exit(_run("server.cli.trial.run:try_on_terminal", settings, models or [], minutes, write))


@app.command(short_help="Check the models, and download the embedded ones if needed.")
def models(project: Project = None, upstreams: Upstreams = None) -> None:
    """Check that the models can be used, and download the embedded models if they will be used."""
    _run("server.cli.ask:prepare_models", _settings(project, upstreams))


@app.command()
def schema() -> None:
    """Print the JSON Schema of upstreams.yaml."""
    from server.config_schema import schema_text

    typer.echo(schema_text(), nl=False)


def _settings(project: Path | None, upstreams: Path | None, model: str | None = None) -> Any:
    from server.config_file import load_settings

    fast, _, full = (model or "").partition(",")
    if model and not fast:
        raise typer.BadParameter("name one model, or two as FAST,FULL", param_hint="--model")
    named = {"fast": fast, "full": full or fast} if model else {}
    settings = load_settings(upstreams, project, os.environ, named)
    # The settings hold it now, and the ollama package cannot be imported while it is wrong.
    os.environ.pop("OLLAMA_HOST", None)
    return settings


def _detail(quiet: bool, verbose: bool) -> str:
    if quiet and verbose:
        raise typer.BadParameter("use either -q or -v")
    return "quiet" if quiet else "verbose" if verbose else "usual"


def _given(project: Path | None, upstreams: Path | None, model: str | None) -> list[str]:
    """The options that select project, upstreams and model, as they were given."""
    options = {"--project": project, "--upstreams": upstreams, "--model": model}
    return [word for name, value in options.items() if value for word in (name, str(value))]


def _with_input(question: str) -> str:
    """The question with the text on standard input, if there is any: in place of `-`, or as the
    text that the question is about."""
    kind = os.fstat(0).st_mode
    if question != "-" and not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind)):
        return question
    if stat.S_ISFIFO(kind) and not select.select([0], [], [], PATIENCE_SECONDS)[0]:
        typer.echo(
            "planloom: waiting for standard input; to go on without it, use: < /dev/null", err=True
        )
    with os.fdopen(0, "rb", closefd=False) as stdin:
        piped = stdin.read().decode("utf-8", "replace").strip("\n")
    if question == "-":
        return piped
    return f"{question}\n\nIt is about this text:\n\n{piped}" if piped else question


def _read_schema(file: Path) -> dict[str, Any]:
    try:
        schema = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--schema {file}: this is not JSON: {error}; correct it") from None
    if not isinstance(schema, dict):
        raise ConfigError(f"--schema {file}: a JSON Schema is an object; write one")
    return schema


def _run_with_upstreams(command: str, settings: Any, *arguments: Any) -> Any:
    """Run the command, whose module is imported while the upstreams start."""
    import anyio.to_thread

    from server.upstreams.launch import head_start

    async def run() -> Any:
        async with head_start(settings) as launcher:
            function = await anyio.to_thread.run_sync(_imported, command)
            return await function(settings, *arguments, launcher=launcher)

    return _run(run)


def _imported(command: str) -> Any:
    """The function `module:name`. Keeps the garbage collector from searching what an import
    creates, which stays (a seventh of its time)."""
    gc.disable()
    try:
        return resolve_name(command)
    finally:
        gc.freeze()
        gc.enable()


def _run(command: str | Callable[[], Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
    """Run a command. SIGTERM, which `timeout` and service managers send, ends it as Ctrl-C does:
    with what it has so far. A job that a script starts with `&` ignores Ctrl-C, not SIGTERM."""
    import anyio

    function = _imported(command) if isinstance(command, str) else command
    background = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)

    async def run() -> Any:
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # the event loop's handler
        if background:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return await function(*arguments)

    return anyio.run(run)
