"""Spans of a run: a fold of its events into OpenTelemetry, by its semantic conventions for GenAI.

Without an SDK and an exporter this does nothing. Prompts, replies and arguments stay out of spans.
"""

from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from planner.events import (
    Event,
    ModelCalled,
    RunContinued,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolCalled,
    ToolReturned,
)
from planner.tools import Outcome

AGENT = "planloom"


class Spans:
    """The spans of one run: `invoke_agent` around a `chat` or `execute_tool` for each call."""

    def __init__(self, run_id: str, providers: Mapping[str, str]) -> None:
        """The current span becomes the parent. `providers`: the models' servers by the models'
        names."""
        self._run_id = run_id
        self._providers = providers
        self._tracer = trace.get_tracer(AGENT)
        self._parent: Context = get_current()
        self._run: Span = trace.INVALID_SPAN
        self._tools: dict[int, Span] = {}

    def record(self, event: Event) -> None:
        match event:
            case RunStarted() | RunResumed() | RunContinued():
                self._run = self._tracer.start_span(
                    f"invoke_agent {AGENT}",
                    context=self._parent,
                    start_time=_nanoseconds(event.at),
                    attributes={
                        "gen_ai.operation.name": "invoke_agent",
                        "gen_ai.agent.name": AGENT,
                        "gen_ai.conversation.id": self._run_id,
                    },
                )
            case ModelCalled():
                self._chat(event)
            case ToolCalled():
                self._tools[event.iteration] = self._tracer.start_span(
                    f"execute_tool {event.tool}",
                    context=self._within,
                    start_time=_nanoseconds(event.at),
                    attributes={
                        "gen_ai.operation.name": "execute_tool",
                        "gen_ai.tool.name": event.tool,
                        "gen_ai.tool.call.id": f"{self._run_id}/{event.iteration}",
                        "planloom.upstream": event.upstream,
                    },
                )
            case ToolReturned():
                if span := self._tools.pop(event.iteration, None):
                    failed = event.outcome is not Outcome.SUCCESS
                    _end(span, event.at, event.outcome.lower() if failed else None)
            case RunFinished():
                for span in self._tools.values():
                    _end(span, event.at, "cancelled")
                self._tools.clear()
                self._run.set_attribute("planloom.status", event.status)
                _end(self._run, event.at, "failed" if event.status == "failed" else None)
            case _:
                pass  # what took no time of its own

    @property
    def _within(self) -> Context:
        return trace.set_span_in_context(self._run, self._parent)

    def _chat(self, call: ModelCalled) -> None:
        span = self._tracer.start_span(
            f"chat {call.model}",
            context=self._within,
            kind=SpanKind.CLIENT,
            start_time=_nanoseconds(call.at - call.seconds),
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": self._providers.get(call.model, "unknown"),
                "gen_ai.request.model": call.model,
                "gen_ai.output.type": "json",
                "gen_ai.usage.input_tokens": call.prompt_tokens,
                "gen_ai.usage.cache_read.input_tokens": call.cached_tokens,
                "gen_ai.usage.output_tokens": call.generated_tokens,
                "planloom.role": call.role,
                "planloom.load_seconds": call.load_seconds,
                "planloom.prefill_seconds": call.prefill_seconds,
                "planloom.decode_seconds": call.decode_seconds,
            },
        )
        _end(span, call.at, None)


def _end(span: Span, at: float, error: str | None) -> None:
    if error:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR))
    span.end(_nanoseconds(at))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
