"""The arguments that several tools take, as a client's model reads them."""

from typing import Annotated, Any

from pydantic import Field

from planner.tools import Policy

Prompt = Annotated[
    str,
    "The question or task, complete in itself: this agent sees nothing else of your conversation. "
    "Example: 'In which file and line is parse_url defined?'",
]
StepPrompt = Annotated[
    str,
    "What this step should find out, complete in itself. Optional with run_id: then the next "
    "planned step is made, or the interrupted one is finished.",
]
WaitSeconds = Annotated[
    float,
    Field(
        description="Seconds to wait for the end. After that the call returns with status "
        "'running' and a run_id, and get_run waits on.",
        ge=0,
        le=86_400,
    ),
]
Iterations = Annotated[
    int, Field(description="Limit of tool calls; after the last one the run answers.", ge=1, le=100)
]
Seconds = Annotated[
    float,
    Field(
        description="Time limit of the whole run in seconds, even when no client is waiting.",
        gt=0,
        le=86_400,
    ),
]
ModelTokens = Annotated[
    int,
    Field(description="Limit of tokens in the prompts and replies of all model calls.", ge=1000),
]
DataSchema = Annotated[
    dict[str, Any] | None,
    "A JSON Schema: the answer then comes as `data` that fits it too. Example: "
    '{"type": "object", "properties": {"file": {"type": "string"}, "line": {"type": "integer"}}, '
    '"required": ["file", "line"]}',
]
RunPolicy = Annotated[
    Policy,
    "read_only: tools that only read. ask: others too, each call after the user approved it, if "
    "your client can ask (elicitation). allow: without asking where the operator's file permits "
    "it.",
]
RunId = Annotated[str, Field(description="The run_id of a report.", max_length=100)]
GoesOn = Annotated[
    str | None,
    Field(
        description="The run_id of a report: go on with its run, which knows what was found so "
        "far, instead of starting one.",
        max_length=100,
    ),
]
RequestKey = Annotated[
    str | None,
    Field(
        description="A name of your own for this request, such as a UUID. The same call with the "
        "same key gives the same run, and cancelling the call does not stop it. Not with run_id.",
        min_length=1,
        max_length=200,
    ),
]
