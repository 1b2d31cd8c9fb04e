"""The documentation does what it says: links lead somewhere, commands are understood, snippets are
valid, and whatever is named is there."""

import ast
import importlib
import json
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
import yaml
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from markdown_it import MarkdownIt
from markdown_it.token import Token
from paths import ROOT
from planted import CLASS
from replies import found
from scripted_ollama import FAST, FULL, ScriptedOllama
from serving import LONG, Place, end, free_port, served, wait_until_it_listens
from typer.main import get_command

from benchmarks.speed import runs
from server.app import build
from server.auth import Tokens
from server.cli import commands as cli
from server.config_file import load_settings

README = ROOT / "README.md"
INDEX = ROOT / "docs" / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS]
TROUBLESHOOTING = ROOT / "docs" / "troubleshooting.md"

CHECKED = {"sh", "yaml", "json", "python"}
SHOWN = {"", "text", "markdown", "mermaid"}
"""Languages of blocks that show output."""
ELSEWHERE = {"docker", "export", "git", "npx", "ollama", "openssl", "pip", "pipx", "uv", "uvx"}
"""Programs that are not ours; what they are told of us is checked all the same."""
BETWEEN = re.compile(r"[()|&;]+")

URL = "redis://127.0.0.1:6379/0"
"""What a variable of this name may hold."""
TOKEN = "a-token-of-the-tests-own-0123456789"

MARKDOWN = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Block:
    """A block of code in a page."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


@cache
def tokens(page: Path) -> list[Token]:
    return MARKDOWN.parse(page.read_text("utf-8"))


def inline(page: Path) -> Iterator[Token]:
    """What stands in paragraphs, headings and cells: texts, codes, links, images."""
    for token in tokens(page):
        yield from token.children or ()


def codes(page: Path) -> list[str]:
    return [token.content for token in inline(page) if token.type == "code_inline"]


def blocks(*languages: str) -> list[Block]:
    """An indented block holds commands."""
    return [
        Block(page, (token.map or [0])[0] + 1, language, token.content)
        for page in PAGES
        for token in tokens(page)
        if token.type in ("fence", "code_block")
        for language in ["sh" if token.type == "code_block" else token.info.strip()]
        if not languages or language in languages
    ]


@cache
def headings(page: Path) -> list[tuple[int, str]]:
    """The level and the text of each."""
    found = tokens(page)
    return [
        (int(token.tag[1]), "".join(child.content for child in found[at + 1].children or ()))
        for at, token in enumerate(found)
        if token.type == "heading_open"
    ]


@cache
def anchors(page: Path) -> set[str]:
    """As GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for _, text in headings(page)}


def source(*folders: str) -> str:
    return "\n".join(
        file.read_text("utf-8") for folder in folders for file in (ROOT / folder).rglob("*.py")
    )


# Pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [
        str(token.attrs.get("href") or token.attrs.get("src"))
        for token in inline(page)
        if token.type in ("link_open", "image")
    ]
    lost = []
    for target in targets:
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            lost.append(target)
    assert lost == []


def test_the_index_lists_every_page() -> None:
    listed = {str(token.attrs["href"]) for token in inline(INDEX) if token.type == "link_open"}
    assert {page.name for page in DOCS} - {INDEX.name} - listed == set()


def test_every_block_is_checked_or_shown() -> None:
    assert {block.language for block in blocks()} - CHECKED - SHOWN == set()


# Commands


def commands(text: str) -> Iterator[list[str]]:
    """Every simple command of a block, without what is set for it and where its output goes."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(re.sub(r">\s*\S+", "", line), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if not BETWEEN.fullmatch(word):
                words.append(word)
                continue
            while words and re.match(r"\w+=|\$$", words[0]):
                del words[0]
            if words:
                yield words
            words = []


@pytest.mark.parametrize("block", blocks("sh"), ids=str)
def test_commands_are_understood(block: Block) -> None:
    for words in commands(block.text):
        understand(words)


def understand(words: list[str]) -> None:
    program, *given = words
    match Path(program).name, given:
        case "planloom", _:
            accepted(cli.app, given)
        case "python", ["-m", module, *options]:
            accepted_by_module(module, options)
        case "make", targets:
            assert all(re.search(rf"^{target}:", makefile(), re.M) for target in targets)
        case "pytest", _:
            assert all(any(ROOT.glob(word)) for word in given if word.startswith("tests/"))
        case "npx" | "uvx", _ if "planloom" in given:
            accepted(cli.app, given[given.index("planloom") + 1 :])
        case name, _:
            assert name in ELSEWHERE or (ROOT / program).is_file(), program
    for extra in re.findall(r"\[(\w+)\]", " ".join(given)):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        assert extra in project["optional-dependencies"]


def makefile() -> str:
    return (ROOT / "Makefile").read_text("utf-8")


def named(app: typer.Typer, words: list[str]) -> tuple[Any, list[str]]:
    """The command that the first words name, and the rest of them."""
    command: Any = get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def accepted(app: typer.Typer, words: list[str]) -> None:
    """As far as it can be said without running it. Raises click's `UsageError`."""
    command, rest = named(app, words)
    assert not (hasattr(command, "commands") and rest and rest[0][0] != "-"), words
    command.make_context(command.name, list(rest))


def accepted_by_module(module: str, words: list[str]) -> None:
    package = find_spec(module)
    assert package, module
    whole = f"{module}.__main__" if package.submodule_search_locations else module
    loaded = importlib.import_module(whole)
    app = getattr(loaded, "app", None)
    if isinstance(app, typer.Typer):
        accepted(app, words)
    else:
        text = Path(str(loaded.__file__)).read_text("utf-8")
        assert all(f'"{word}"' in text for word in words if word.startswith("--")), words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_sentences_are_there(page: Path) -> None:
    """Named in part, often: the command and its options have to be there."""
    for code in codes(page):
        if code.startswith("planloom "):
            command, rest = named(cli.app, code.split()[1:])
            assert not (hasattr(command, "commands") and rest and rest[0].isalpha()), code
            options = {option for each in command.params for option in each.opts} | {"--help"}
            assert {word for word in rest if word.startswith("--")} <= options, code


# Snippets


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_yaml_is_an_upstreams_file_or_a_clients(block: Block, tmp_path: Path) -> None:
    data = yaml.safe_load(block.text)
    if data and data.get("schema") == "v1":  # Continue's
        assert data["name"]
        assert data["version"]
        return
    file = tmp_path / "upstreams.yaml"
    file.write_text(block.text)
    variables = re.findall(r"\$\{(\w+)", block.text)
    given = {name: URL if name.endswith("_URL") else "a-value" for name in variables}
    load_settings(file, tmp_path, given | {"PLANLOOM_PROJECT": str(tmp_path)})


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_is_json_and_entries_start_something(block: Block) -> None:
    try:
        found = [json.loads(block.text)]
    except json.JSONDecodeError:  # messages, one a line
        found = [json.loads(line) for line in block.text.splitlines()]
    for data in found:
        for entry in data.get("mcpServers", data.get("servers", {})).values():
            assert ("command" in entry) != ("url" in entry)
            if "command" in entry:
                accepted(cli.app, entry["args"])


# Names


def test_variables_are_there() -> None:
    told = {
        name
        for page in PAGES
        for name in re.findall(r"\bPLANLOOM_[A-Z_]+\b(?!…)", page.read_text())
    }
    there = set(re.findall(r'"(PLANLOOM_[A-Z_]+)"', source("planner", "server")))
    assert told - there == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_are_there(page: Path) -> None:
    ours = re.compile(r"(?:planner|server|tests|benchmarks|examples|docs)/[\w./*-]*")
    named = [code.split(":")[0] for code in codes(page) if ours.fullmatch(code.split(":")[0])]
    named = [name for name in named if name != "server/discover"]  # a method of MCP
    assert [name for name in named if not any(ROOT.glob(name.rstrip("/")))] == []


def test_the_image_gets_all_that_it_copies() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}
    context = (ROOT / ".dockerignore").read_text().splitlines()
    assert "planloom" in copied
    assert copied <= {line[1:] for line in context if line.startswith("!")}


@pytest.mark.anyio
async def test_tools_resources_and_prompts_are_there(place: Place) -> None:
    async with Client(build(place.settings)) as client:
        tools = {tool.name for tool in await client.list_tools()}
        prompts = {prompt.name for prompt in await client.list_prompts()}
        resources = {str(each.uri) for each in await client.list_resources()}
        resources |= {each.uri_template for each in await client.list_resource_templates()}
    page = (ROOT / "docs" / "tools.md").read_text("utf-8")
    table = page.partition("\n## Tools\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) == tools
    told = [code for page in PAGES for code in codes(page)]
    assert {code for code in told if re.match(r"(runs?|ui)://\w*\{?\w", code)} - resources == set()
    assert set(re.findall(r"^\| `(\w+)\(.*?\)` \|", page, re.M)) == prompts


# Troubleshooting


@cache
def said() -> str:
    """Every text in the code, a line each, with `…` for what is filled in."""
    return "\n".join(
        filled(node, "…").replace("\n", " ")
        for folder in ("planner", "server")
        for file in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.JoinedStr | ast.Constant)
    )


def filled(node: ast.expr, with_what: str) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(p.value) if isinstance(p, ast.Constant) else with_what for p in parts)


def section(title: str) -> list[str]:
    """The names in the headings of a section of the page."""
    within, names = False, []
    for level, text in headings(TROUBLESHOOTING):
        if level == 2:
            within = text == title
        elif within:
            names.append(text)
    return names


def test_every_finding_of_the_doctor_is_explained() -> None:
    tree = ast.parse((ROOT / "server" / "cli" / "doctor.py").read_text("utf-8"))
    findings = {
        filled(node.args[0], "NAME")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding"
    }
    explained = {name for text in section("What doctor finds") for name in text.split(", ")}
    assert explained == findings


@pytest.mark.parametrize("message", section("What messages mean"))
def test_messages_are_those_of_the_code(message: str) -> None:
    assert re.search(".*".join(map(re.escape, re.split(r"\s*…\s*", message))), said())


# Commands, run


def run_here(words: list[str], monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    """Run the console script in this process; it has to end well."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    for name in ("ENABLE_RICH_LOGGING", "CHECK_FOR_UPDATES", "LOG_LEVEL"):
        monkeypatch.setenv(f"FASTMCP_{name}", "WARNING")
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code in (None, 0)


def environ(place: Place) -> dict[str, str]:
    here = {"HOME": place.root, "PLANLOOM_PROJECT": place.project, "PLANLOOM_UPSTREAMS": place.file}
    return place.environ | {name: str(path) for name, path in here.items()}


@pytest.fixture
def run_in_place(place: Place, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], None]:
    return lambda words: run_here(words, monkeypatch, environ(place))


def on(place: Place, words: Sequence[str]) -> list[str]:
    folders = ("/path/", "examples/")
    return [str(place.project) if word.startswith(folders) else word for word in words]


OURS = {
    tuple(words)
    for block in blocks("sh")
    for words in commands(block.text)
    if Path(words[0]).name == "planloom"
}
SERVE = {
    tuple(re.sub(r":\d+$", ":8000", word) for word in words) for words in OURS if "serve" in words
}
"""On one port, since a free one is taken instead."""
CONSENT = {words for words in OURS if "--accept" in words}
LOOK = {words for words in OURS if {"show", "resume", "--follow"} & {*words}}
"""They need a run that was there before."""
ANSWER = {words for words in OURS if {"approve", "decline"} & {*words}}
"""They need a run that waits for them, as in `tests/server/views/test_consent.py`."""
TRY = {words for words in OURS if "try" in words}
"""They take a while, and are run in `tests/server/cli/test_trial.py`."""
RUN = {words for words in OURS if "serve" not in words} - CONSENT - LOOK - ANSWER - TRY
MODELS = (FAST, FULL, "qwen2.5-coder:7b", "qwen3:4b")
"""Those that the pages name."""


@pytest.mark.parametrize("words", sorted(RUN), ids=" ".join)
def test_commands_run(
    words: tuple[str, ...],
    place: Place,
    ollama: ScriptedOllama,
    monkeypatch: pytest.MonkeyPatch,
    run_in_place: Callable[[list[str]], None],
) -> None:
    ollama.models = MODELS
    asked = place.project / "jobs" / "asked.py"
    if "ask" in words:
        asked.write_text(f"# {words[-1]}\n")
        ollama.expect(found("It is not in jobs/asked.py."))
    monkeypatch.chdir(place.root)
    try:
        run_in_place(on(place, words))
    finally:
        asked.unlink(missing_ok=True)  # other tests read the same project


@pytest.mark.parametrize("words", sorted(LOOK), ids=" ".join)
def test_commands_run_on_a_run(
    words: tuple[str, ...],
    ollama: ScriptedOllama,
    capsys: pytest.CaptureFixture[str],
    run_in_place: Callable[[list[str]], None],
) -> None:
    answer = f"`{CLASS}` is defined in jobs/secret.py, line 6."
    ollama.expect(found(answer))
    run_in_place(["planloom", "ask", f"Where is {CLASS} defined?"])
    run_in_place(["planloom", "runs"])
    known = capsys.readouterr().out.splitlines()[-1].split()[0]
    run_in_place([known if word == "ID" else word for word in words])
    assert answer in capsys.readouterr().out


@pytest.mark.parametrize("words", sorted(CONSENT), ids=" ".join)
def test_commands_consent(
    words: tuple[str, ...],
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def search(word: str) -> str:
        return word

    docs: FastMCP = FastMCP("docs", on_duplicate="replace")
    docs.tool(search, description="Search the manual.")
    with served(docs) as url:
        place.upstreams = {"docs": {"url": url}}
        given = place.environ | {"PLANLOOM_UPSTREAMS": str(place.file)}
        run_here(["planloom", "tools"], monkeypatch, given)
        docs.tool(search, description="Search the manual, and tell its author.")
        run_here(["planloom", "tools"], monkeypatch, given)
        assert "planloom tools --accept" in capsys.readouterr().out
        run_here(list(words), monkeypatch, given)
        shown = capsys.readouterr().out
        assert "Would accept docs.search" in shown
        command = shown.splitlines()[-1].partition(": ")[2].split()
        run_here(command, monkeypatch, given)
    assert "Accepted docs.search" in capsys.readouterr().out


@pytest.mark.parametrize("words", sorted(SERVE), ids=" ".join)
def test_commands_serve(words: tuple[str, ...], place: Place) -> None:
    address = words[words.index("--http") + 1]
    port = free_port()
    given = [word.replace(address, f"{address.split(':')[0]}:{port}") for word in words[1:]]
    serving = place.popen(*given, PLANLOOM_TOKEN=TOKEN)
    try:
        wait_until_it_listens(serving, port)
        health = httpx.get(f"http://127.0.0.1:{port}/health", timeout=LONG)
        assert health.json() == {"status": "ok"}
    finally:
        end(serving)


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_runs(
    block: Block, place: Place, ollama: ScriptedOllama, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against a server of ours."""
    ollama.expect(found("It is nowhere."), contains=["UpstreamPool"])
    with served(build(place.settings, auth=Tokens([TOKEN]))) as url:
        text = block.text.replace("http://127.0.0.1:8000", url.removesuffix("/mcp"))
        text = text.replace("<what `planloom token` prints>", TOKEN)
        exec(compile(text, str(block), "exec"), {})
    assert 'No file contains "UpstreamPool".' in capsys.readouterr().out


MEASURE = {
    tuple(words[2:])
    for block in blocks("sh")
    for words in commands(block.text)
    if words[:2] == ["python", "-m"]
}
QUICK = [
    words
    for words in sorted(MEASURE)
    if words[:2] in {("benchmarks.eval", "questions"), ("benchmarks.speed", "--json")}
    or words[0] == "benchmarks.overhead"
]
"""What takes seconds; others take minutes to hours, most of them with models or data to fetch."""


@pytest.mark.parametrize("words", QUICK, ids=" ".join)
def test_quick_measurements_run(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """On the shortest run that they take, in this process: their imports take most of the time."""
    given = [str(tmp_path / "measured.json") if word == "FILE" else word for word in words]
    if words[0] == "benchmarks.overhead":
        given += ["--steps", "3", "--repeats", "2"]
    if words[1:] == ("questions",):
        given += ["--families", "polyglot,docs,talk"]  # others are made, not read
    monkeypatch.setattr(runs, "STEPS", (10,))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", given)
    monkeypatch.delitem(sys.modules, f"{given[0]}.__main__", raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(given[0], run_name="__main__")
    assert ended.value.code in (None, 0)
    assert capfd.readouterr().out


# The way of the README


@pytest.mark.anyio
async def test_from_the_readme_to_an_answer_in_a_client(
    place: Place, ollama: ScriptedOllama, run_in_place: Callable[[list[str]], None]
) -> None:
    """What it says is run: the entry is written into the client's file, and what the file says is
    started by a client."""
    (words,) = [words for words in RUN if {"--client", "/path/to/your/project"} <= set(words)]
    run_in_place(on(place, words))
    assert words[words.index("--client") + 1] == "claude-code"
    file = place.root / ".claude.json"
    entry = json.loads(file.read_text())["mcpServers"]["planloom"]
    command = StdioTransport(entry["command"], entry["args"], env=environ(place), keep_alive=False)
    ollama.expect(found(f"`{CLASS}` is in jobs/secret.py, line 6."))
    async with Client(command) as session:
        given = {"prompt": f"In which file and line is the class {CLASS} defined?"}
        result = await session.call_tool("plan_and_answer", given)
    assert "jobs/secret.py" in str(result.content)
    assert (result.structured_content or {})["status"] == "answered"
