"""What the operator decides: models, project and upstreams, from a file, the environment, the CLI.

Explicit arguments win over the environment, the environment over the file. A mistake is one
`ConfigError` whose text names the file, the line, the key and what to do. No text contains a
variable's value."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import yaml
from platformdirs import user_config_path, user_state_path
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    SecretStr,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError
from rapidfuzz import fuzz, process

from planner.errors import ConfigError
from planner.tools import Policy, Safety
from server.project import project_folder

HIDDEN = "***"
"""Replaces a secret in a message."""

PUBLIC_VARIABLES = frozenset({"PLANLOOM_PROJECT", "PLANLOOM_PYTHON"})
"""Defined by us for every file: the project's absolute path and our own interpreter."""

_MIN_SECRET_CHARS = 4
"""In characters. Anything shorter protects nothing, and hiding it would blank out plain words."""

CALLED_SECRET = re.compile(
    r"key|token|secret|pass|pwd|credential|auth|cookie|session|private", re.IGNORECASE
)
"""Names of variables, `env` entries and headers whose value is a secret."""

_VARIABLE = re.compile(
    r"\$\$|\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{)"
)


class Expanded(SecretStr):
    """A string of the file with its variables filled in; `get_secret_value()` gives it whole.

    Printed, it shows `***` where a variable's value stands.
    """

    def __init__(
        self,
        value: str,
        shown: str = HIDDEN,
        secrets: Iterable[str] = (),
        credentials: Iterable[str] = (),
        written: str = HIDDEN,
    ) -> None:
        super().__init__(value)
        self._shown = shown
        self.secrets = frozenset(secrets)
        """The parts that must not appear anywhere."""
        self.credentials = frozenset(credentials)
        """The secrets whose variable is named like a secret."""
        self.written = written
        """As written in the file, with the variables' names."""

    def _display(self) -> str:
        return self._shown

    def __eq__(self, other: object) -> bool:
        """Equal if value and spelling are equal: a value from a variable is a secret."""
        return super().__eq__(other) and self.written == getattr(other, "written", None)

    __hash__ = SecretStr.__hash__


def expand(text: str, variables: Mapping[str, str]) -> Expanded:
    """Fill in `${NAME}` and `${NAME:-default}`; `$$` is one `$`, any other `$` stands for itself.

    The default counts when the variable is unset or empty; a value is not expanded again.
    Raises `KeyError` with the name of an unset variable, `ValueError` for a `${` left open.
    """
    value, shown, secrets, credentials, end = "", "", set[str](), set[str](), 0
    for match in _VARIABLE.finditer(text):
        name, default = match["name"], match["default"]
        if match["broken"]:
            raise ValueError("a `${` has no name or no `}`")
        part = part_shown = "$"
        if name and default is not None and not variables.get(name):
            part = part_shown = default
        elif name:
            part = part_shown = variables[name]
            if name not in PUBLIC_VARIABLES:
                secrets.add(part)
                credentials |= {part} if CALLED_SECRET.search(name) else set()
                part_shown = HIDDEN
        literal = text[end : match.start()]
        value, shown, end = value + literal + part, shown + literal + part_shown, match.end()
    rest = text[end:]
    return Expanded(value + rest, shown + rest, secrets, credentials, written=text)


def _wrong(why: str) -> PydanticCustomError:
    """An error that says how to correct a value; `_explain` adds the place."""
    return PydanticCustomError("config", "{why}", {"why": why})


def _expanded(value: object, info: ValidationInfo) -> Expanded:
    if isinstance(value, Expanded):
        return value
    if not isinstance(value, str):
        raise _wrong("should be text; put the value in quotes")
    try:
        return expand(value, info.context or {})
    except KeyError as missing:
        name = missing.args[0]
        raise _wrong(
            f"the variable {name} is not set; set it, or write ${{{name}:-default}}"
        ) from None
    except ValueError as broken:
        raise _wrong(f"{broken}; write ${{NAME}}, or $$ for a plain $") from None


def _hidden(value: object, info: ValidationInfo) -> Expanded:
    """Like `_expanded`, for a value that is secret as a whole."""
    text = _expanded(value, info)
    whole = text.get_secret_value()
    ours = not text.secrets and any(f"${{{name}}}" in str(value) for name in PUBLIC_VARIABLES)
    secrets = () if ours else {whole, *text.secrets}
    return Expanded(whole, secrets=secrets, credentials=text.credentials)


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise _wrong(f"is not a regular expression ({error}); correct the pattern") from None
    return pattern


def _api_base(url: str) -> str:
    try:
        parts = urlsplit(url)
        there = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # such as a port beyond the last one
        there = False
    if not there or parts.query or parts.fragment:
        raise _wrong("is not the address of an API; write it as http://HOST:PORT/v1")
    if parts.username or parts.password:
        raise _wrong("contains a password; give it as the key instead")
    path = parts.path.rstrip("/") or "/v1"
    return parts._replace(path=path).geturl()


def _sendable(key: Expanded) -> Expanded:
    value = key.get_secret_value()
    if not (value.isascii() and value.isprintable()):
        raise _wrong("has characters that an HTTP header cannot contain; give the key alone")
    return key


Text = Annotated[
    Expanded, PlainValidator(_expanded, json_schema_input_type=str), PlainSerializer(str)
]
Hidden = Annotated[
    Expanded, PlainValidator(_hidden, json_schema_input_type=str), PlainSerializer(str)
]
HiddenMap = Annotated[
    dict[str, Hidden],
    AfterValidator(lambda values: {k: v for k, v in values.items() if v.get_secret_value()}),
]
Pattern = Annotated[str, AfterValidator(_compiles)]
UpstreamName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Frozen(BaseModel):
    # The docstrings of fields are their descriptions, in the JSON Schema and the reference.
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ToolSettings(_Frozen):
    """What the operator sets for one tool. Anything left out is as the upstream says."""

    safety: Safety | None = None
    """What the tool may do. Overrides the upstream's annotations."""
    policy: Policy | None = None
    """What is permitted if the tool is not read-only. Default: the upstream's policy."""
    priority: int | None = None
    """Tools with a higher priority are offered earlier. Default: the upstream's priority."""
    description: str | None = None
    """Replaces the upstream's text in prompts."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Sent with each call, and removed from the schema that the model sees."""
    hide: tuple[str, ...] = ()
    """Optional arguments to remove from the schema that the model sees."""
    text_argument: str | None = None
    """Set for the tool that searches the project's text: the argument that takes a regular
    expression. The planner looks up the request's names with it."""
    name_argument: str | None = None
    """Set for the tool that finds files by name: the argument that takes the name."""
    file_argument: str | None = None
    """Set for the tool that reads a whole file: the argument that takes its path."""
    library_argument: str | None = None
    """Set for the tool that finds libraries by name: the argument that takes the name."""
    identifier_argument: str | None = None
    """Set for the tool that reads a library's documentation: the argument that takes the identifier
    that the other tool returns. The planner reads there about libraries that the project uses and
    a request asks about."""
    topic_argument: str | None = None
    """Set for either of these two tools: the argument that takes the question."""
    verbatim: bool = False
    """True: the result is the text of a file, and `lines_from` does not change it."""


class Listing(_Frozen):
    """The tool that lists the project's top level, and the arguments for that."""

    tool: str
    """Its name."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """The arguments of the call."""


class UpstreamSettings(_Frozen):
    """One upstream MCP server: a command (stdio) or a URL (streamable HTTP)."""

    # The schema tells editors what `_one_way_in` checks.
    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["command"]}, {"required": ["url"]}]}
    )

    command: Text | None = None
    """The program to start; Planloom talks to it over stdio."""
    args: tuple[Text, ...] = ()
    """Its arguments."""
    cwd: Text | None = None
    """The directory it starts in. Default: an empty directory of Planloom's, not the project,
    because commands such as `npx` run what they find in the directory they start in."""
    env: HiddenMap = Field(default_factory=dict)
    """Added to the base environment. Entries that expand to nothing are left out."""
    url: Text | None = None
    """The address of a server that speaks streamable HTTP."""
    headers: HiddenMap = Field(default_factory=dict)
    """Sent with each request. Entries that expand to nothing are left out."""
    enabled: bool = True
    """False: the upstream is not used."""
    start_timeout_s: Seconds = 60
    """The time limit for its start, until it has listed its tools, in seconds."""
    call_timeout_s: Seconds = 60
    """The time limit for one tool call, in seconds."""
    priority: int = 0
    """Tools with a higher priority are offered earlier, and keep their plain name in a clash."""
    trust_annotations: bool = True
    """False: the upstream's own annotations do not count, and each tool counts as destructive
    unless `safety` says otherwise."""
    pin_tools: bool = True
    """Whether a tool whose definition has changed needs the operator's consent."""
    questions: bool = True
    """Whether its questions to the user (elicitation) are passed on."""
    roots: tuple[Text, ...] = ()
    """The folders that it gets when it asks for roots, as absolute paths. Empty: it cannot ask for
    roots."""
    policy: Policy = Policy.ASK
    """What is permitted at most for its tools that are not read-only. A run can only tighten it."""
    allow: tuple[str, ...] = ("*",)
    """Names or globs of the tools to use."""
    deny: tuple[str, ...] = ()
    """Names or globs of tools not to use, even if `allow` names them."""
    lines_from: Literal[0, 1] = 1
    """The number that the upstream gives to the first line of a file. Planloom's own is always
    1."""
    error_texts: tuple[Pattern, ...] = ()
    """Regular expressions; a result whose text starts with a match is a failure."""
    listing: Listing | None = None
    """How to list the project's top level, if this upstream can. The models see the list first."""
    tools: dict[str, ToolSettings] = Field(default_factory=dict)
    """Settings of single tools, by tool name."""

    @property
    def reads_project(self) -> bool:
        """Whether the planner searches with this upstream by itself."""
        roles = ("text_argument", "name_argument", "file_argument")
        named = any(getattr(tool, role) for tool in self.tools.values() for role in roles)
        return self.enabled and (self.listing is not None or named)

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if (self.command is None) == (self.url is None):
            what = "has no `command` and no `url`"
            if self.url is not None:
                what = "has both `command` and `url`"
            raise _wrong(f"{what}; give exactly one of them")
        paths = [Path(each.get_secret_value()).expanduser() for each in self.roots]
        if not all(path.is_absolute() for path in paths):
            raise _wrong("`roots` are absolute paths, such as ${PLANLOOM_PROJECT}")
        # Either may be empty, of a variable that is not set; the upstream will say so.
        way = "command" if self.url is None else "url"
        others = {"command": ("headers",), "url": ("args", "cwd", "env")}[way]
        if stray := [name for name in others if getattr(self, name)]:
            raise _wrong(f"`{stray[0]}` has no meaning with `{way}`; remove it")
        return self

    @property
    def secrets(self) -> frozenset[str]:
        """Every value that must not appear in a message, a log or an event."""
        texts = [self.command, self.cwd, self.url, *self.args, *self.roots]
        hidden = [*self.env.values(), *self.headers.values()]
        found = {secret for text in [*texts, *hidden] if text for secret in text.secrets}
        return frozenset(secret for secret in found if len(secret) >= _MIN_SECRET_CHARS)

    @property
    def credentials(self) -> frozenset[str]:
        """The secrets whose variable, entry or header has the name of a secret."""
        texts = [self.command, self.cwd, self.url, *self.args]
        hidden = {**self.env, **self.headers}
        called = {
            secret for text in [*texts, *hidden.values()] if text for secret in text.credentials
        }
        for name, text in hidden.items():
            called |= text.secrets if CALLED_SECRET.search(name) else set()
        return frozenset(called) & self.secrets


class ModelSettings(_Frozen):
    """Which models play the two roles and where they run."""

    fast: Annotated[str, Field(min_length=1)] = "qwen2.5-coder:1.5b"
    """Replies to requests that need no tool. By default the full model, so that only one is
    loaded."""
    full: Annotated[str, Field(min_length=1)] = "qwen2.5-coder:1.5b"
    """Reads requests, plans, writes arguments and answers."""
    backend: Literal["auto", "ollama", "openai", "embedded"] = "auto"
    """`auto`: the server at `url` if one is set, else Ollama if it answers, else the embedded
    models."""
    url: Annotated[str, AfterValidator(_api_base)] | None = None
    """The base of the OpenAI chat API of another model server, such as
    `http://127.0.0.1:1234/v1`."""
    key: Annotated[Hidden, AfterValidator(_sendable)] | None = None
    """The API key for that server."""
    host: str | None = None
    """The address of Ollama, in the form of OLLAMA_HOST. Default: Ollama's own default."""
    num_ctx: Annotated[int, Field(ge=512)] = 8192
    """The context window in tokens."""
    keep_alive: int | str = "30m"
    """How long Ollama keeps a model loaded: seconds, or a duration such as `30m`; -1: forever."""
    warm_up: bool = True
    """Whether a server that starts loads the models and has them read the text that every run
    begins with. It never downloads a model."""
    parallel: Annotated[int, Field(ge=1)] = 4
    """How many calls one model gets at a time; the others wait in Planloom, where they do not time
    out. Values above OLLAMA_NUM_PARALLEL have no effect."""

    @property
    def uses_url(self) -> bool:
        """Whether the models are those of the server at `url`."""
        return self.backend == "openai" or (self.backend == "auto" and self.url is not None)


class ApprovalSettings(_Frozen):
    """How a person is asked about calls that may change something."""

    timeout_s: Seconds = 120
    """How long a question waits for an answer, in seconds; then the call is refused."""


class RunSettings(_Frozen):
    """How many runs a server accepts, where it records them, and how long it keeps ended ones (the
    first limit that is reached counts)."""

    concurrent: Annotated[int, Field(ge=1)] = 16
    """How many runs work at the same time. On a small machine each makes the others slower."""
    queue: Annotated[int, Field(ge=0)] = 256
    """How many runs wait for their turn, first come, first served. Beyond that, a caller gets the
    error that the server is busy, with a time to try again."""

    directory: Path = Field(default_factory=lambda: user_state_path("planloom") / "runs")
    """Where runs are recorded; by default `runs` in the user's state directory."""
    most: Annotated[int, Field(ge=0)] = 1000
    """How many ended runs are kept."""
    days: Annotated[float, Field(ge=0, le=1e6)] = 30
    """How long an ended run is kept, in days."""
    megabytes: Annotated[float, Field(ge=0, le=1e9)] = 1024
    """How much space the records may take, in megabytes."""
    redis: Hidden | None = None
    """The URL of a Redis or Valkey database, for servers on several machines: runs are recorded
    there, not in `directory`."""
    fleet: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,64}$")] = ""
    """A name that several servers of the same project, upstreams and models share. When one of them
    ends or has no free turn, another one takes over its runs."""


def _empty_if_none(value: object) -> object:
    return {} if value is None else value  # a key whose entries are all commented out


class File(_Frozen):
    """What `upstreams.yaml` may hold."""

    models: Annotated[ModelSettings, BeforeValidator(_empty_if_none)] = ModelSettings()
    """Which models play the two roles and where they run. The environment overrides it."""
    approval: Annotated[ApprovalSettings, BeforeValidator(_empty_if_none)] = ApprovalSettings()
    """How a person is asked for approval."""
    runs: Annotated[RunSettings, BeforeValidator(_empty_if_none)] = Field(
        default_factory=RunSettings
    )
    """How many runs a server accepts, where it records them, and how long it keeps ended ones."""
    upstreams: Annotated[dict[UpstreamName, UpstreamSettings], BeforeValidator(_empty_if_none)] = (
        Field(default_factory=dict)
    )
    """The upstream MCP servers, by names of letters, digits, `_` and `-`."""


class Settings(File):
    """Everything a server is started with: the file, after the environment and the options."""

    project: Path
    """Absolute."""
    project_named: bool = True
    """False: nobody named it, and it is where the server was started."""
    source: Path | None = None
    """The file the upstreams come from."""
    _load: Callable[[Path], "Settings"] | None = PrivateAttr(None)
    _moved_to: Path | None = PrivateAttr(None)

    def loaded_again(self) -> "Settings":
        """Read the files again, with the same arguments and environment. Raises `ConfigError`."""
        return self._load(self._moved_to or self.project) if self._load else self

    def move_to(self, project: Path) -> None:
        """Load the settings for another project from now on."""
        self._moved_to = project

    @property
    def may_change(self) -> bool:
        """Whether any tool may be permitted to do more than read."""
        policies = [
            policy
            for upstream in self.upstreams.values()
            if upstream.enabled
            for policy in (upstream.policy, *(tool.policy for tool in upstream.tools.values()))
        ]
        return any(policy not in (None, Policy.READ_ONLY) for policy in policies)


MODEL_VARIABLES = {
    "fast": "PLANLOOM_FAST_MODEL",
    "full": "PLANLOOM_FULL_MODEL",
    "backend": "PLANLOOM_BACKEND",
    "host": "OLLAMA_HOST",
    "url": "PLANLOOM_MODEL_URL",
    "key": "PLANLOOM_MODEL_KEY",
    "warm_up": "PLANLOOM_WARM_UP",
}
"""Fields of `ModelSettings` that the environment sets. Not pydantic-settings: it reads the
environment as it is, while a reload needs the one the server was started with; and names that
follow no rule, the lines of the file and the texts of mistakes would stay ours."""


def load_settings(
    upstreams_file: Path | None,
    project: Path | None,
    environ: Mapping[str, str],
    models: Mapping[str, Any] | None = None,
) -> Settings:
    """Read the settings for one server.

    `upstreams_file`: None means PLANLOOM_UPSTREAMS, else `upstreams.yaml` in the user's
    configuration directory, else the shipped one. A file in the project is never read: a project
    is a stranger's folder, and the file names commands to run.
    `project`: None means PLANLOOM_PROJECT, else the current directory.
    `models`: fields of `ModelSettings` that win over everything; None values do not count.
    Raises `ConfigError`.
    """
    environ = dict(environ)
    root = project_folder(project, environ)
    variables = {**environ, "PLANLOOM_PROJECT": str(root), "PLANLOOM_PYTHON": sys.executable}
    path = _which_file(upstreams_file, environ)
    file = _read(path, variables)
    settings = Settings(
        models=_overridden(file.models, environ, models or {}),
        approval=file.approval,
        runs=_placed(file.runs, environ),
        project=root,
        project_named=project is not None or bool(environ.get("PLANLOOM_PROJECT")),
        upstreams=file.upstreams,
        source=path,
    )
    settings._load = partial(load_settings, upstreams_file, environ=environ, models=models)
    return settings


def _is_redis_url(text: str) -> bool:
    try:
        urlsplit(text).port  # noqa: B018  it has to be a number
    except ValueError:
        return False
    return text.startswith(_REDIS)


_REDIS = ("redis://", "rediss://", "unix://")


def _placed(runs: RunSettings, environ: Mapping[str, str]) -> RunSettings:
    given = environ.get("PLANLOOM_RUNS", "")
    in_redis = given.startswith(_REDIS)
    place = Path(runs.directory if in_redis or not given else given)
    changes: dict[str, Any] = {"directory": place.expanduser().absolute()}
    if given:
        changes["redis"] = Expanded(given, secrets=(given,)) if in_redis else None
    if fleet := environ.get("PLANLOOM_FLEET"):
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", fleet):
            raise ConfigError("PLANLOOM_FLEET: should be up to 64 letters, digits, - and _")
        changes["fleet"] = fleet
    placed = runs.model_copy(update=changes)
    if placed.redis and not _is_redis_url(placed.redis.get_secret_value()):
        raise ConfigError("runs in Redis: the URL should be redis://[[USER]:PASSWORD@]HOST:PORT/0")
    if placed.redis and find_spec("redis") is None:
        raise ConfigError("runs in Redis need its client: install planloom[redis]")
    return placed


def _which_file(given: Path | None, environ: Mapping[str, str]) -> Path:
    if given:
        return given.expanduser()
    if named := environ.get("PLANLOOM_UPSTREAMS"):
        return Path(named).expanduser()
    own = own_file()
    return own if own.is_file() else shipped_file()


def own_file() -> Path:
    """The path of the user's `upstreams.yaml`, which may not exist."""
    return user_config_path("planloom") / "upstreams.yaml"


def shipped_file() -> Path:
    """The `upstreams.yaml` that comes with Planloom: in the wheel, or in a source checkout."""
    packaged = Path(str(resources.files("server"))) / "upstreams.yaml"
    return packaged if packaged.is_file() else Path(__file__).parent.parent / "upstreams.yaml"


def named_variables(path: Path) -> list[str]:
    """The variables that an upstreams file takes from the environment; none if it cannot be
    read."""
    try:
        data, _ = _parse(path, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ConfigError):
        return []
    return sorted(set(_variables_in(data)) - PUBLIC_VARIABLES)


def _variables_in(data: object) -> Iterator[str]:
    match data:
        case str():
            yield from (match["name"] for match in _VARIABLE.finditer(data) if match["name"])
        case dict():
            yield from _variables_in(list(data.values()))
        case list():
            for each in data:
                yield from _variables_in(each)


def _read(path: Path, variables: Mapping[str, str]) -> File:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {why}; name a readable file") from None
    data, lines = _parse(path, text)
    try:
        return File.model_validate(data, context=variables)
    except ValidationError as error:
        problems = [_explain(problem, path, lines) for problem in error.errors()]
    raise ConfigError("\n".join(problems))


MAX_NODES = 100_000
"""Of the file, with aliases expanded; a few lines of aliases can expand to billions."""

_Key = tuple[str | int, ...]


def _parse(path: Path, text: str) -> tuple[Any, dict[_Key, int]]:
    """The file's data, and the line (from 1) of every key and list entry in it."""
    try:
        loader = yaml.SafeLoader(text)
        lines: dict[_Key, int] = {(): 1}
        if (node := loader.get_single_node()) is None:
            return {}, lines
        if _size(node, {}) > MAX_NODES:
            raise ConfigError(f"{path}:1: its aliases expand to too much; write them out")
        _note_lines(node, (), lines, path)  # before `<<` keys are merged into the nodes
        return loader.construct_document(node), lines
    except RecursionError:
        raise ConfigError(f"{path}:1: an alias contains itself; write it out") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        what = getattr(error, "problem", None) or "it contains a character that YAML does not allow"
        raise ConfigError(f"{path}:{line}: this is not YAML: {what}; correct that line") from None
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(f"{path}:1: this cannot be read: {error}") from None


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """The number of nodes from this one on, with aliases expanded."""
    if id(node) not in known:
        known[id(node)] = 1 + sum(
            _size(part, known)
            for each in (node.value if isinstance(node, yaml.CollectionNode) else ())
            for part in (each if isinstance(each, tuple) else (each,))
        )
    return known[id(node)]


def _note_lines(node: yaml.Node, key: _Key, lines: dict[_Key, int], path: Path) -> None:
    if isinstance(node, yaml.SequenceNode):
        children = list(enumerate(node.value))
    elif isinstance(node, yaml.MappingNode):
        children = []
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                continue  # no key of ours; the constructor refuses it
            line = name.start_mark.line + 1
            if (child := (*key, name.value)) in lines:
                place = f"{path}:{line}: {_dotted(child)}"
                raise ConfigError(f"{place}: the key appears twice; remove one of the two")
            lines[child] = line
            children.append((name.value, value))
    else:
        return
    for name, value in children:
        lines.setdefault((*key, name), value.start_mark.line + 1)
        _note_lines(value, (*key, name), lines, path)


def _dotted(key: _Key) -> str:
    return ".".join(str(part) for part in key) or "(top level)"


def _explain(problem: ErrorDetails, path: Path, lines: Mapping[_Key, int]) -> str:
    """One problem as `file:line: key.path: what is wrong; do this`, without the value itself."""
    location = tuple(str(part) if not isinstance(part, int) else part for part in problem["loc"])
    key = location
    while key not in lines:  # pydantic adds parts of its own, such as `[key]`
        key = key[:-1]
    if problem["type"] == "extra_forbidden":
        what = _unknown_key(str(key[-1]), key[:-1])
    elif problem["type"] == "missing":
        what = f"`{location[-1]}` is missing; add it"
    elif problem["type"] == "config":
        what = problem["msg"]
    elif location[-1:] == ("[key]",):
        what = "is not a valid name for an upstream; use letters, digits, `_` and `-`"
    elif problem["type"] in {"model_type", "dict_type"}:
        what = "should be a map; write `key: value` lines below it"
    else:
        what = problem["msg"].removeprefix("Input ") + "; correct the value"
    return f"{path}:{lines[key]}: {_dotted(key)}: {what}"


def _unknown_key(name: str, parent: _Key) -> str:
    sections: dict[str, type[BaseModel]] = {"approval": ApprovalSettings, "runs": RunSettings}
    section = sections.get(str(parent[0]), ModelSettings) if parent else ModelSettings
    levels: list[type[BaseModel]] = [File, section, UpstreamSettings, Listing, ToolSettings]
    known = list(levels[len(parent)].model_fields)
    near = process.extractOne(name, known, scorer=fuzz.ratio, score_cutoff=60)
    advice = f"did you mean `{near[0]}`?" if near else f"known keys: {', '.join(known)}"
    return f"unknown key `{name}`; {advice}"


def _overridden(
    models: ModelSettings, environ: Mapping[str, str], explicit: Mapping[str, Any]
) -> ModelSettings:
    named: dict[str, Any] = {field: environ.get(name) for field, name in MODEL_VARIABLES.items()}
    if named["key"]:
        named["key"] = Expanded(named["key"])  # as it is: no variables are filled in
    chosen = {k: v for k, v in named.items() if v} | {
        k: v for k, v in explicit.items() if v is not None
    }
    try:
        merged = ModelSettings.model_validate(dict(models) | chosen)
    except ValidationError as error:
        wrong = error.errors()[0]
        field = str(wrong["loc"][0])
        what = wrong["msg"].removeprefix("Input ")
        what += "" if wrong["type"] == "config" else "; correct the value"
    else:
        if merged.backend != "openai" or merged.url:
            return merged
        field, what = "url", "the backend `openai` needs it; write http://HOST:PORT/v1"
    place = MODEL_VARIABLES.get(field, field) if field not in explicit else field
    raise ConfigError(f"{place}: {what}")
