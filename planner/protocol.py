"""What is asked of the planner, and what the models say.

The wire shapes are flat and their keys stand in alphabetical order, since some model servers sort
them: `assessment` (thinking) comes before `decision` (choice) and before `final_answer`.
The models write all this under the JSON Schemas of `planner.checks.schemas`.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from planner.tools import Policy

Goal = Literal["answer", "plan", "step", "conclude"]
PlanFor = Literal["question", "action", "change"]
"""What a plan does: find out; look up what an action needs, and do it; or only a change."""
Mode = Literal["fast", "deep"]
"""How much the model writes for a decision; `planner.actions.mode` chooses."""


class Limits(BaseModel, frozen=True, extra="forbid"):
    """The limits of a run. When one is reached, the run still answers from what was found."""

    iterations: int = Field(default=10, ge=1, le=100)
    """Tool calls that a model chooses, each with one decision; the last one has to conclude."""
    seconds: float = Field(default=600.0, gt=0, le=86_400)
    """Wall-clock time for the whole run, the conclusion included."""
    model_tokens: int = Field(default=120_000, ge=1_000)
    """Prompt and generated tokens of all model calls, cached ones too. A long iteration takes some
    15,000, so whoever raises `iterations` has to raise this and `seconds` too."""


class RunRequest(BaseModel, frozen=True, extra="forbid"):
    prompt: str
    """The user's question or task. The client's own system prompt never comes here."""
    said_before: str = ""
    """The conversation up to the prompt, as data that the models see; nothing is looked up in it.
    Keep it short: it is in every prompt."""
    user_said_before: str = ""
    """The part of it that the user said: a call may be made with what stands there."""
    goal: Goal = "answer"
    """`plan`: stop at the plan; `step`: one tool call and its notes; `conclude`: the answer from
    the steps before."""
    tool: str | None = None
    """The tool to begin with; None lets the planner choose."""
    arguments: dict[str, Any] | None = None
    """The arguments of `tool`; None lets a model write them."""
    limits: Limits = Limits()
    policy: Policy = Policy.READ_ONLY
    """What calls of tools that are not read-only need. A tool's own policy can only tighten it."""
    data_schema: dict[str, Any] | None = None
    """The JSON Schema (2020-12) that an answer is put into besides its text; None: text only."""


SteeredBy = Literal["caller", "person"]
"""`caller`: through a tool; `person`: by hand, as in the live view."""


class Steering(BaseModel):
    """What the user, or a caller for them, says to a run that is under way. It takes effect at the
    run's next decision."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hint: str = ""
    """The models see it with their next question, and in all prompts after it."""
    skip: list[str] = []
    """Objectives of later steps to skip."""
    order: list[str] = []
    """Objectives of later steps to do first, in this order."""
    by: SteeredBy = "caller"


class Wire(BaseModel):
    """Something that a model writes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Wants = Literal["short answer", "long answer", "action", "talk"]
"""What a request is for; with `talk`, there is nothing to look up."""

IT = "[it]"
"""In a question, what an earlier one finds."""


class Brief(Wire):
    """How a model reads the request, in any language."""

    search: list[str]
    """English words that a text about it contains; empty if there is nothing to look for."""
    wants: Literal["short answer", "long answer", "action"] = "short answer"
    reply: str = ""
    """The reply to a greeting and the like, if there is nothing to look for."""
    first: str = ""
    """A question that has to be answered before the rest can be looked up; empty if none has."""
    then: str = ""
    """The rest, with `[it]` for the answer."""


class FileTools(Wire):
    """The tool that lists a project's files, and the one that shows the text of one."""

    lists: str | None
    reads: str | None


class Call(Wire):
    prompt: str = ""
    tool: str


class Selection(Wire):
    tool: str | None


class Answer(Wire):
    """An attempt at the answer from what was gathered."""

    assessment: str = ""
    """What the results say about it; written first, it makes small models' answers better."""
    final_answer: str
    found_in: Literal["results", "nowhere"]
    """`nowhere` if no result says it."""

    @property
    def found(self) -> bool:
        """Whether there is an answer; small models write `nowhere` as the answer, too."""
        said = self.final_answer.strip(" .").casefold()
        return self.found_in == "results" and said not in ("", "nowhere")


class Language(Wire):
    """The language of a request."""

    language: str = Field(pattern="^[A-Z][a-z]{2,19}$")


class Summary(Wire):
    """What was done for an action."""

    final_answer: str
    missing: str | None
    """What is still to be found out or done; None where nothing is."""
    tool: str | None
    """The tool for it."""


class Formatted(Wire):
    """The answer in the shape of the caller's schema, whatever its root is."""

    data: Any

    @field_validator("data")
    @classmethod
    def finite(cls, data: Any) -> Any:
        json.dumps(data, allow_nan=False)  # 1e999 is read as infinity, which JSON does not have
        return data


class Assessed(Wire):
    """What the model thinks of the newest result before it decides, in deep mode only."""

    assessment: str = ""
    belief: str = ""
    """Where the facts may be; the next call tests it."""
    critique: str = ""
    """Why the calls so far missed them."""


class Conclude(Assessed):
    """The request is answered, or it is clear that it cannot be."""

    decision: Literal["conclude"] = "conclude"
    final_answer: str
    success: bool = True
    """False if the answer says that it could not be found out."""


class FromRecord(Conclude):
    """A conclusion that code has made from what was done."""


class PlannedStep(Wire):
    objective: str
    tool: str | None = None
    """The tool that it calls; None: that is decided when the step begins."""


class MakePlan(Wire):
    """The plan, made once; decisions may change what comes later."""

    assessment: str = ""
    """Written unasked by a model that no schema holds; it is not used."""
    steps: list[PlannedStep] = Field(min_length=1)


class Stay(Assessed):
    """The current step needs other tool calls."""

    decision: Literal["stay"] = "stay"
    later_steps: list[str] | None = None
    """New later steps; None keeps them."""
    notes: str = ""
    """Requested when older results may soon be shortened."""
    tool_calls: list[Call] = Field(min_length=1)


class MoveOn(Assessed):
    """The current step is complete. Its notes are kept when its results are shortened."""

    decision: Literal["move_on", "give_up"] = "move_on"
    """`give_up`: the step did not find what it was for."""
    later_steps: list[str] | None = None
    notes: str
    objective: str = ""
    """Of the next step; empty: it is the first of the later steps."""
    tool_calls: list[Call] = Field(min_length=1)


ITERATION_DECISION: TypeAdapter[Conclude | Stay | MoveOn] = TypeAdapter(
    Annotated[Conclude | Stay | MoveOn, Field(discriminator="decision")]
)
