"""The spans of a run, as an exporter gets them."""

from collections.abc import Iterator

import pytest
from inline_snapshot import snapshot
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from scripted_ollama import Hang, ScriptedOllama
from serving import CLASS, FUNCTION, Place, found, second, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The process's spans; the provider of a process can be set only once, hence by its getter."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def ours(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    return [each for each in exporter.get_finished_spans() if _attribute(each, "operation.name")]


def _attribute(span: ReadableSpan, name: str) -> object:
    return (span.attributes or {}).get(f"gen_ai.{name}")


async def test_spans_of_a_run(
    exported: InMemorySpanExporter, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(found(f"{FUNCTION} makes {CLASS} run."))
    ollama.expect(second(f"{FUNCTION} makes {CLASS} run."))
    async with place.client() as client:
        await client.call("plan_and_answer", prompt=f"What does {FUNCTION} do with {CLASS}?")
    *calls, run = ours(exported)
    assert [each.name for each in (run, *calls)] == snapshot(
        [
            "invoke_agent planloom",
            "chat qwen2.5-coder:1.5b",
            "execute_tool search",
            "chat qwen2.5-coder:1.5b",
            "chat qwen2.5-coder:1.5b",
        ]
    )
    assert all(each.parent and each.parent.span_id == run.context.span_id for each in calls)
    assert all((each.end_time or 0) <= (run.end_time or 0) for each in calls)
    chat = next(each for each in calls if each.name.startswith("chat"))
    attributes = dict(chat.attributes or {})
    tokens = {name: attributes.pop(name) for name in list(attributes) if "usage" in name}
    assert sorted(tokens) == [
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
    ]
    seconds = [attributes.pop(name) for name in list(attributes) if "seconds" in name]
    assert len(seconds) == 3
    assert attributes == snapshot(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "ollama",
            "gen_ai.request.model": "qwen2.5-coder:1.5b",
            "gen_ai.output.type": "json",
            "planloom.role": "brief",
        }
    )
    said = str([dict(each.attributes or {}) for each in (run, *calls)])
    assert CLASS not in said


async def test_a_cancelled_run_leaves_no_span_open(
    exported: InMemorySpanExporter, place: Place, ollama: ScriptedOllama
) -> None:
    ollama.expect(Hang())
    async with place.client() as client:
        report = await client.call("plan_and_answer", prompt=f"What is {CLASS}?", wait_s=0)
        await until(lambda: bool(ollama.requests))
        await client.call("cancel_run", run_id=(report.whole or {})["run_id"])
    run = ours(exported)[-1]
    assert (run.attributes or {})["planloom.status"] == "cancelled"
