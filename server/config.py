"""What the operator decides: models, project and upstreams. `config_file.py` reads it."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from platformdirs import user_state_path
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StringConstraints,
    field_validator,
    model_validator,
)

from planner.errors import ConfigError
from planner.tools import Policy, Roles, Safety
from server.project import expanded
from server.variables import CALLED_SECRET, Expanded, Hidden, HiddenMap, Text, wrong


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise wrong(f"is not a regular expression ({error}); correct the pattern") from None
    return pattern


def _api_base(url: str) -> str:
    try:
        parts = urlsplit(url)
        there = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # such as a port beyond the last one
        there = False
    if not there or parts.query or parts.fragment:
        raise wrong("is not the address of an API; write it as http://HOST:PORT/v1")
    if parts.username or parts.password:
        raise wrong("contains a password; give it as the key instead")
    path = parts.path.rstrip("/") or "/v1"
    return parts._replace(path=path).geturl()


def _is_absolute(path: str) -> bool:
    try:
        return expanded(Path(path)).is_absolute()
    except ConfigError:  # of a user who is not there
        return False


def _sendable(key: Expanded) -> Expanded:
    value = key.get_secret_value()
    if not (value.isascii() and value.isprintable()):
        raise wrong("has characters that an HTTP header cannot contain; give the key alone")
    return key


MIN_SECRET_CHARS = 4
"""Anything shorter protects nothing, and hiding it would remove plain words."""

Pattern = Annotated[str, AfterValidator(_compiles)]


def _fleet_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{0,64}", text):
        raise wrong("use at most 64 letters, digits, `-` and `_`")
    return text


REDIS = ("redis://", "rediss://", "unix://")


def _redis_url(url: Expanded) -> Expanded:
    text = url.get_secret_value()
    with suppress(ValueError):
        urlsplit(text).port  # noqa: B018  it has to be a number
        if text.startswith(REDIS):
            return url
    raise wrong("is not the address of a Redis; write redis://[[USER]:PASSWORD@]HOST:PORT/0")


def _is_json(value: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        raise wrong("has a value that is not JSON, such as a date; put it in quotes") from None
    return value


Arguments = Annotated[dict[str, Any], AfterValidator(_is_json)]
UpstreamName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Frozen(BaseModel):
    # The docstrings of fields are their descriptions, in the JSON Schema and the reference.
    model_config = ConfigDict(frozen=True, extra="forbid")


class _ToolSettings(_Frozen):
    safety: Safety | None = None
    """What the tool may do. Overrides the upstream's annotations."""
    policy: Policy | None = None
    """What is permitted if the tool is not read-only. Default: the upstream's policy."""
    priority: int | None = None
    """Tools with a higher priority are offered earlier. Default: the upstream's priority."""
    description: str | None = None
    """Replaces the upstream's text in prompts."""
    arguments: Arguments = Field(default_factory=dict)
    """Sent with each call, and removed from the schema that the model sees."""
    hide: tuple[str, ...] = ()
    """Optional arguments to remove from the schema that the model sees."""
    verbatim: bool = False
    """True: the result is the text of a file, and `lines_from` does not change it."""


class ToolSettings(Roles, _ToolSettings):
    """What the operator sets for one tool. Anything left out is as the upstream says."""


class Listing(_Frozen):
    """The tool that lists the project's top level, and the arguments for that."""

    tool: str
    """Its name."""
    arguments: Arguments = Field(default_factory=dict)
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
            raise wrong(f"{what}; give exactly one of them")
        if not all(_is_absolute(each.get_secret_value()) for each in self.roots):
            raise wrong("`roots` are absolute paths, such as ${PLANLOOM_PROJECT}")
        # Either may be empty, of a variable that is not set; the upstream will say so.
        way = "command" if self.url is None else "url"
        others = {"command": ("headers",), "url": ("args", "cwd", "env")}[way]
        if stray := [name for name in others if getattr(self, name)]:
            raise wrong(f"`{stray[0]}` has no meaning with `{way}`; remove it")
        return self

    @property
    def _texts(self) -> list[Expanded]:
        texts = [self.command, self.cwd, self.url, *self.args, *self.roots]
        return [each for each in (*texts, *self.env.values(), *self.headers.values()) if each]

    @property
    def secrets(self) -> frozenset[str]:
        """Every value that must not appear in a message, a log or an event."""
        found = {secret for text in self._texts for secret in text.secrets}
        return frozenset(secret for secret in found if len(secret) >= MIN_SECRET_CHARS)

    @property
    def credentials(self) -> frozenset[str]:
        """The secrets whose variable, entry or header has the name of a secret."""
        called = {secret for text in self._texts for secret in text.credentials}
        for name, text in (self.env | self.headers).items():
            called |= text.secrets if CALLED_SECRET.search(name) else set()
        return frozenset(called) & self.secrets


class ModelSettings(_Frozen):
    """Which models play the two roles and where they run."""

    fast: Annotated[str, Field(min_length=1)] = "qwen2.5-coder:1.5b"
    """Reads requests and finds other words to search for. If only `full` is set, that model plays
    this role too."""
    full: Annotated[str, Field(min_length=1)] = "qwen2.5-coder:1.5b"
    """Plans, writes arguments and answers."""
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

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        """The full model plays both roles if only that one is named."""
        if "fast" not in self.model_fields_set:  # nor is it then: another full model may come
            object.__setattr__(self, "fast", self.full)
        return self

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
    redis: Annotated[Hidden, AfterValidator(_redis_url)] | None = None
    """The URL of a Redis or Valkey database, for servers on several machines: runs are recorded
    there, not in `directory`."""
    fleet: Annotated[str, AfterValidator(_fleet_name)] = ""
    """A name that several servers of the same project, upstreams and models share. When one of them
    ends or has no free turn, another one takes over its runs."""


class File(_Frozen):
    """What `upstreams.yaml` may hold."""

    models: ModelSettings = ModelSettings()
    """Which models play the two roles and where they run. The environment overrides it."""
    approval: ApprovalSettings = ApprovalSettings()
    """How a person is asked for approval."""
    runs: RunSettings = Field(default_factory=RunSettings)
    """How many runs a server accepts, where it records them, and how long it keeps ended ones."""
    upstreams: dict[UpstreamName, UpstreamSettings] = Field(default_factory=dict)
    """The upstream MCP servers, by names of letters, digits, `_` and `-`."""

    @field_validator("models", "approval", "runs", "upstreams", mode="before")
    @classmethod
    def _empty_if_none(cls, value: Any) -> Any:
        return {} if value is None else value  # a key whose entries are all commented out


Stamp = tuple[int, int, int]
"""Changes when a file is written: its time, size and number."""


class Settings(File):
    """Everything a server is started with: the file, after the environment and the options."""

    project: Path
    """Absolute."""
    project_named: bool = True
    """False: nobody named it, and it is where the server was started."""
    source: Path | None = None
    """The file the upstreams come from."""
    stamps: dict[Path, Stamp] = Field(default_factory=dict)
    """Of the files that they come from or may come from, before they were read."""
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
