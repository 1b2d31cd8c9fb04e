"""What the planner knows of tools: their specs, their safety classes, and the pool that calls them.

The planner knows no MCP: `server.upstreams.pool` implements `ToolPool` over MCP clients, and a test
may implement it over a dictionary.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from planner.grammar import for_grammar


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
    """What a call needs whose tool is not read-only, from the strictest to the loosest."""

    READ_ONLY = "read_only"
    """It is refused."""
    ASK = "ask"
    """A person approves it, each time."""
    ALLOW = "allow"
    """Nothing."""


def strictest(*policies: Policy) -> Policy:
    """What holds where several have a say."""
    return min(policies, key=list(Policy).index)


class Outcome(StrEnum):
    """How a tool call ended.

    `FAILURE` is the tool's own "no" (an error result), `ERROR` a call that did not come through
    (upstream dead, protocol error, refused), `TIMEOUT` one that was cut off.
    """

    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"


ROLES = (
    *("text_argument", "name_argument", "file_argument"),
    *("library_argument", "identifier_argument", "topic_argument"),
)
"""What a tool's arguments are to the planner, where it uses the tool by itself."""


class ToolSpec(BaseModel):
    """One tool of the pool, as the planner may offer it."""

    model_config = ConfigDict(frozen=True)

    name: str
    """Unique within the pool: the bare name, or `upstream.name` where two upstreams clash."""
    upstream: str
    """Empty for the planner's own."""
    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})
    """The JSON Schema of the arguments the model may write (operator-fixed ones are left out)."""
    safety: Safety = Safety.DESTRUCTIVE
    policy: Policy = Policy.ASK
    """The most that the operator permits, should the tool not be read-only."""
    fixed_arguments: dict[str, Any] = Field(default_factory=dict)
    """The operator's, sent with each call whatever the model wrote."""
    priority: int = 0
    """Higher is offered earlier and breaks ties between equal names."""
    text_argument: str | None = None
    """The argument that takes a regular expression, if this tool searches the project's text. The
    planner looks the request's names up with it, and widens empty results."""
    name_argument: str | None = None
    """The argument that takes a file's name, if this tool finds files by it; the planner finds the
    files with it that a request names."""
    file_argument: str | None = None
    """The argument that takes a path, if this tool reads a whole file. The planner looks up with it
    what one line does not tell."""

    library_argument: str | None = None
    """The argument that takes a library's name, if this tool finds libraries by it. The planner
    looks the libraries up with it that a request names."""
    identifier_argument: str | None = None
    """The argument that takes a library's identifier, if this tool reads its documentation. The
    planner reads with it what the libraries' documentation says."""
    topic_argument: str | None = None
    """The argument of either that takes the question."""

    @cached_property
    def grammar(self) -> dict[str, Any]:
        """Its input schema as far as model servers hold a model to one."""
        return for_grammar(self.input_schema)

    @property
    def required(self) -> list[str]:
        """The arguments that a call must have."""
        required = self.input_schema.get("required", [])
        return required if isinstance(required, list) else []

    @property
    def bare_name(self) -> str:
        """Its name at its upstream."""
        return self.name.removeprefix(f"{self.upstream}.")

    @property
    def read_only(self) -> bool:
        """Whether it runs by itself."""
        return self.safety is Safety.READ_ONLY


def read_only(tools: Iterable[ToolSpec]) -> list[ToolSpec]:
    """The tools that run by themselves."""
    return [tool for tool in tools if tool.read_only]


class ToolResult(BaseModel):
    """What came back from a call. `text` is complete; shortening for a prompt is the planner's."""

    model_config = ConfigDict(frozen=True)

    outcome: Outcome
    text: str
    seconds: float = 0.0
    answered: bool = True
    """False when the call went out and nothing came back that can be read: nobody knows what it
    did."""


class UpstreamStatus(BaseModel):
    """One upstream as the pool sees it now."""

    # The docstrings of fields are their descriptions in the result of `list_tools`.
    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    name: str
    state: str
    """`starting`, `ready`, `failed`, `closed` or `disabled`."""
    tools: int = 0
    error: str | None = None
    """Why it is not ready, and what to do; None when it is."""
    held: list[str] = []
    """Tools that are not used until the operator consents: each name, and what has changed."""
    unreadable: list[str] = []
    """What it lists that is not a valid tool: each name, and why."""


DecidedBy = Literal["policy", "person", "timeout", "no_way_to_ask"]
"""Who approved or refused a call. `timeout`: nobody answered; `no_way_to_ask`: nobody could be
asked."""


class Approval(BaseModel):
    """What was decided on a call whose tool is not read-only."""

    model_config = ConfigDict(frozen=True)

    approved: bool
    by: DecidedBy
    reason: str


class Approver(Protocol):
    """Decides on calls whose tools are not read-only."""

    async def __call__(self, tool: ToolSpec, arguments: dict[str, Any]) -> Approval:
        """Decide on one call with these very arguments, the operator's among them. May wait for a
        person; is asked about one call of a run at a time."""
        ...


async def refuse(tool: ToolSpec, arguments: dict[str, Any]) -> Approval:
    """The approver where nobody decides."""
    return Approval(approved=False, by="policy", reason="only read-only tools may run here")


class ToolPool(Protocol):
    """The tools a run may use."""

    def tools(self) -> Sequence[ToolSpec]:
        """Every tool there is now, highest priority first, in an order that does not change
        while the pool does not."""
        ...

    def upstreams(self) -> Sequence[UpstreamStatus]:
        """Every configured upstream with its state."""
        ...

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool. Never raises for a failing upstream: that is an outcome. Cancellation
        reaches the upstream."""
        ...

    async def listing(self) -> str | None:
        """The top-level listing of the project, or None when no upstream offers one."""
        ...


class PoolAround:
    """A pool around another, which does what this one does not do itself."""

    def __init__(self, pool: ToolPool) -> None:
        self.pool = pool

    def tools(self) -> Sequence[ToolSpec]:
        return self.pool.tools()

    def upstreams(self) -> Sequence[UpstreamStatus]:
        return self.pool.upstreams()

    async def call(self, tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
        return await self.pool.call(tool, arguments)

    async def listing(self) -> str | None:
        return await self.pool.listing()
