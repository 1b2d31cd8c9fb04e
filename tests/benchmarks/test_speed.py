"""The speed benchmark: its cache follows the servers' rules, and the planner keeps its bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.speed import runs, tokens
from benchmarks.speed.__main__ import chart, measure, tables
from benchmarks.speed.bound import least
from benchmarks.speed.designs import planloom
from benchmarks.speed.results import Measured
from benchmarks.speed.server import FULL, serving
from benchmarks.speed.simulation import LAPTOP, ModelServer, Served, common_prefix
from planner.errors import ModelError
from planner.models.base import ChatRequest
from planner.models.ollama import OllamaClient, OllamaModel

pytestmark = pytest.mark.anyio

# What the planner costs at most at ten steps, as ratios to the lower bound. The first three are
# where it stands and 5 % more, for changes to lower; the aims are 1.25, 1.5 and 1.5. It computed
# 2.0 while decisions wrote arguments themselves: these have a call of their own now, with the
# tool's parameters and the request in its question, and generate less for it.
MAX_COMPUTED = 2.34
MAX_GENERATED = 2.15
MAX_LAPTOP_SECONDS = 2.2
MIN_CACHED = 0.6
MAX_CALLS = 20
"""At ten steps."""
MAX_GROWTH = 1.12
"""Of a ratio from ten steps to thirty. It stands at 1.07, of what is generated: both runs plan six
of their calls, and the others are decided on."""
MAX_GROWTH_OF_CALLS = 1.18
"""The same of the number of calls. It stands at 1.12: of thirty tool calls more are made at once,
which the bound counts as one, and each has its arguments written in a call of its own."""

TEXT = st.lists(st.sampled_from("abc"), min_size=1, max_size=12)


def call(server: ModelServer, prompt: list[str], reply: str) -> Served:
    return server.serve(FULL, prompt, list(reply))


# The cache.


@given(TEXT, TEXT)
def test_a_common_prefix_is_common_and_ends_where_the_texts_part(
    first: list[str], second: list[str]
) -> None:
    length = common_prefix(first, second)
    assert first[:length] == second[:length]
    assert first[length : length + 1] != second[length : length + 1] or first == second


@given(st.lists(st.tuples(TEXT, st.text("abc", max_size=4)), min_size=1, max_size=8))
def test_one_slot_holds_the_last_prompt_and_its_reply(calls: list[tuple[list[str], str]]) -> None:
    server = ModelServer()
    held: list[str] = []
    for prompt, reply in calls:
        served = call(server, prompt, reply)
        assert served.cached == min(common_prefix(held, prompt), len(prompt) - 1)
        assert served.computed >= 1
        held = prompt + list(reply)


@given(st.lists(TEXT, min_size=2, max_size=8))
def test_a_conversation_that_only_grows_is_computed_once(parts: list[list[str]]) -> None:
    server = ModelServer()
    prompt: list[str] = []
    for part in parts:
        prompt = prompt + part
        call(server, prompt, "ab")
        prompt = [*prompt, "a", "b"]
    assert sum(each.computed for each in server.served) == sum(map(len, parts))


# Tokens and the wire.


@given(st.text(max_size=200))
def test_tokens_are_the_whole_text(text: str) -> None:
    assert "".join(tokens.tokens(text)) == text


async def test_the_adapter_reads_the_simulated_counts() -> None:
    server = ModelServer()
    async with (
        serving(server, lambda body: '{"tool":"read_file"}') as host,
        OllamaClient(host) as client,
    ):
        model = OllamaModel(FULL, client, context_tokens=8192)
        schema = {"type": "object", "properties": {"tool": {"enum": ["read_file"]}}}
        for _ in range(2):
            reply = await model.chat(
                ChatRequest([{"role": "user", "content": "Which?"}], max_tokens=20, schema=schema)
            )
        with pytest.raises(ModelError, match="the reply has 6 tokens, and num_predict is 3"):
            await model.chat(ChatRequest([{"role": "user", "content": "Which?"}], max_tokens=3))
        with pytest.raises(ModelError, match="the reply breaks the schema"):
            await model.chat(
                ChatRequest(
                    [{"role": "user", "content": "Which?"}],
                    max_tokens=20,
                    schema={"type": "object", "properties": {"tool": {"enum": ["find_file"]}}},
                )
            )
    served = server.served[-1]
    assert len(server.served) == 2
    assert reply.text == '{"tool":"read_file"}'
    assert (reply.prompt_tokens, reply.cached_tokens) == (served.prompt, served.prompt - 1)
    assert reply.generated_tokens == served.generated == 6
    assert reply.prefill_seconds == pytest.approx(1 / LAPTOP.rates.prefill)
    assert reply.decode_seconds == pytest.approx(6 / LAPTOP.rates.decode)


# The recorded runs.


@pytest.mark.parametrize("steps", runs.STEPS)
def test_a_recorded_run_has_its_calls_and_their_results(steps: int) -> None:
    run = runs.load(steps)
    assert all(call.result and call.assessment for call in run.calls)
    assert not run.first.alongside
    assert {call.tool for call in run.calls} <= {tool.name for tool in runs.tools()}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def measured() -> list[Measured]:
    return await measure((3, 10))


async def test_the_planner_keeps_its_distance_from_the_bound(measured: list[Measured]) -> None:
    for each in measured:
        planner = each.replay("planloom")
        assert planner.cached_share >= MIN_CACHED
    ten = measured[-1]
    ratios = ten.ratios(ten.replay("planloom"))
    assert ten.replay("planloom").calls <= MAX_CALLS
    assert ratios["computed"] <= MAX_COMPUTED
    assert ratios["generated"] <= MAX_GENERATED
    assert ratios[LAPTOP.name] <= MAX_LAPTOP_SECONDS


async def test_no_design_goes_below_the_bound(measured: list[Measured]) -> None:
    for each in measured:
        for replay in each.replays:
            assert min(each.ratios(replay).values()) >= 1, replay.design


async def test_the_distance_does_not_grow_with_the_steps(measured: list[Measured]) -> None:
    ten, run = measured[-1], runs.load(30)
    replay = await planloom(run)
    after = Measured(least(run), [replay]).ratios(replay)
    for name, ratio in ten.ratios(ten.replay("planloom")).items():
        most = MAX_GROWTH_OF_CALLS if name == "calls" else MAX_GROWTH
        assert after[name] <= most * ratio, name


async def test_the_tables_and_the_plot_show_every_design(measured: list[Measured]) -> None:
    told, drawn = tables(measured), chart(measured)
    for name in ("planloom", "loop", "lower bound"):
        assert f"| {name} | 10 |" in told
    assert drawn.count("<polyline") == 3
    assert ">computed prompt tokens<" in drawn
    assert ">the ordinary tool loop<" in drawn
