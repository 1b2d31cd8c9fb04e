"""What the planner knows of tools: their specs, their safety classes, and the pool that calls them.

The planner knows no MCP: `server.upstreams.pool` implements `ToolPool` over MCP clients, and a test
may implement it over a dictionary.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from planner.grammar import for_grammar

Arguments = dict[str, Any]
"""What a call is given, by the names of its tool's arguments."""
EMPTY: Sequence[Any] = (None, "", [], {})
"""The values that say nothing."""


class Safety(StrEnum):
    """What a tool may do to the world. Only `READ_ONLY` runs by itself."""

    READ_ONLY = "read_only"
    WRITE = "write"
    """It adds or changes something here."""
    DESTRUCTIVE = "destructive"
    """It may delete or overwrite something."""
    OPEN_WORLD = "open_world"
    """It does something elsewhere, such as sending a message."""


class Policy(StrEnum):
    """What a call of a tool that is not read-only needs, from the strictest on."""

    READ_ONLY = "read_only"
    """Such calls are refused."""
    ASK = "ask"
    """A person has to approve each call."""
    ALLOW = "allow"
    """Such calls need nothing."""


def strictest(*policies: Policy) -> Policy:
    return min(policies, key=list(Policy).index)


class Outcome(StrEnum):
    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    """The tool itself returned an error."""
    ERROR = "ERROR"
    """The call did not reach the tool, or its answer did not come back."""
    TIMEOUT = "TIMEOUT"


class Roles(BaseModel):
    """The arguments that the planner fills in when it uses a tool by itself."""

    model_config = ConfigDict(frozen=True)

    text_argument: str | None = None
    """Set for the tool that searches the project's text: the argument that takes a regular
    expression. The planner looks up the request's names with it."""
    name_argument: str | None = None
    """Set for the tool that finds files by name: the argument that takes the name."""
    file_argument: str | None = None
    """Set for the tool that reads a whole file: the argument that takes its path."""
    symbol_argument: str | None = None
    """Set for the tool that says what stands within a symbol, such as the methods of a class: the
    argument that takes its name. The planner looks up with it what a request names."""
    library_argument: str | None = None
    """Set for the tool that finds libraries by name: the argument that takes the name."""
    identifier_argument: str | None = None
    """Set for the tool that reads a library's documentation: the argument that takes the identifier
    that the other tool returns. The planner reads there about libraries that a request names."""
    topic_argument: str | None = None
    """Set for either of these two tools: the argument that takes the question."""

    @property
    def has_role(self) -> bool:
        """Whether the planner uses the tool by itself."""
        return any(getattr(self, role) for role in ROLES)


ROLES = tuple(Roles.model_fields)


class ToolSpec(Roles):
    """One tool of the pool, as the planner may offer it."""

    name: str
    """Unique within the pool: the bare name, or `upstream.name` where two upstreams clash."""
    upstream: str
    """Empty for the planner's own tools."""
    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})
    """The JSON Schema of the arguments that a model may write, without the operator's."""
    safety: Safety = Safety.DESTRUCTIVE
    policy: Policy = Policy.ASK
    """The most that the operator permits if the tool is not read-only."""
    fixed_arguments: Arguments = Field(default_factory=dict)
    """The operator's arguments, which are sent with each call."""
    priority: int = 0
    """Tools with a higher priority are offered earlier, and keep their plain name in a clash."""

    @cached_property
    def grammar(self) -> dict[str, Any]:
        """The part of its input schema that model servers can enforce."""
        return for_grammar(self.input_schema)

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        """The schemas of its arguments, by their names; `true` and `false` say nothing."""
        properties = self.input_schema.get("properties", {})
        named = properties.items() if isinstance(properties, dict) else ()
        return {name: each if isinstance(each, dict) else {} for name, each in named}

    @property
    def required(self) -> list[str]:
        required = self.input_schema.get("required", [])
        return required if isinstance(required, list) else []

    @property
    def bare_name(self) -> str:
        return self.name.removeprefix(f"{self.upstream}.")

    @property
    def read_only(self) -> bool:
        return self.safety is Safety.READ_ONLY


def read_only(tools: Iterable[ToolSpec]) -> list[ToolSpec]:
    return [tool for tool in tools if tool.read_only]


class ToolResult(BaseModel, frozen=True):
    """The result of a call. `text` is complete; the planner shortens it for a prompt."""

    outcome: Outcome
    text: str
    seconds: float = 0.0
    answered: bool = True
    """False if the call was sent and no readable answer came back: its effect is unknown."""

    @property
    def succeeded(self) -> bool:
        return self.outcome is Outcome.SUCCESS


def failed_call(text: str, answered: bool = True) -> ToolResult:
    """The result of a call that Planloom did not make, or that went wrong on its way."""
    return ToolResult(outcome=Outcome.ERROR, text=text, answered=answered)


class UpstreamState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    """It is started again."""
    CLOSED = "closed"
    DISABLED = "disabled"

    @property
    def needs_attention(self) -> bool:
        """Whether a person should hear of it: it is neither ready nor disabled on purpose."""
        return self not in {UpstreamState.READY, UpstreamState.DISABLED}


class UpstreamStatus(BaseModel):
    """One upstream as the pool sees it now."""

    model_config = ConfigDict(frozen=True)

    name: str
    state: UpstreamState
    tools: int = 0
    error: str | None = Field(default=None, description="Why it is not ready, and what to do.")
    held: list[str] = Field(
        default=[],
        description="Tools that are not used until the operator consents: each name, and what has "
        "changed.",
    )
    unreadable: list[str] = Field(
        default=[], description="What it lists that is not a valid tool: each name, and why."
    )


DecidedBy = Literal["policy", "person", "timeout", "no_way_to_ask"]
"""Who decided on a call. `timeout`: nobody answered; `no_way_to_ask`: nobody could be asked."""


class Approval(BaseModel, frozen=True):
    approved: bool
    by: DecidedBy
    reason: str


Approver = Callable[[ToolSpec, Arguments], Awaitable[Approval]]
"""Decides on the call of a tool that is not read-only, with exactly these arguments, which include
the operator's. It may wait for a person, and gets one call of a run at a time."""


async def refuse(tool: ToolSpec, arguments: Arguments) -> Approval:
    """The approver of runs for which nobody decides."""
    return Approval(approved=False, by="policy", reason="only read-only tools may run here")


class ToolPool(Protocol):
    def tools(self) -> Sequence[ToolSpec]:
        """Every tool that there is now, those with the highest priority first."""

    def upstreams(self) -> Sequence[UpstreamStatus]:
        """Every configured upstream with its state."""

    async def call(self, tool: ToolSpec, arguments: Arguments) -> ToolResult:
        """Call a tool. A failing upstream is an outcome, no exception. Cancellation reaches it."""

    async def listing(self) -> str | None:
        """The top-level listing of the project, or None when no upstream offers one."""


class PoolAround:
    """A pool that wraps another one; its subclasses override a part of that one's methods."""

    def __init__(self, pool: ToolPool) -> None:
        self.pool = pool

    def tools(self) -> Sequence[ToolSpec]:
        return self.pool.tools()

    def upstreams(self) -> Sequence[UpstreamStatus]:
        return self.pool.upstreams()

    async def call(self, tool: ToolSpec, arguments: Arguments) -> ToolResult:
        return await self.pool.call(tool, arguments)

    async def listing(self) -> str | None:
        return await self.pool.listing()


def names_of(tools: Iterable[ToolSpec]) -> set[str]:
    """How a request may name what it is to be done with: the tools and their upstreams."""
    return {name for tool in tools for name in (tool.upstream, tool.name)}


def find(name: str, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    """The tool of this name, or else the one that `upstream.name` means."""
    own = (tool for tool in tools if tool.name == name)
    meant = (tool for tool in tools if f"{tool.upstream}.{tool.name}" == name)
    return next(own, None) or next(meant, None)
