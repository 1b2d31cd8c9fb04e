"""How close texts are to a question in meaning."""

import hashlib
from pathlib import Path

import anyio
import pytest

from planner.errors import ModelUnavailable
from planner.models import encoder
from planner.models.encoder import MiniLM

pytestmark = pytest.mark.anyio

QUESTION = "How long does it wait between two attempts?"
SAME = "def compute_backoff(tries): return min(base * 2 ** tries, max_delay)"
OTHER = "class Parser: def parse(self, text): return tree"
LONG = 60.0


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    return MiniLM()


async def test_what_means_the_same_is_closer_though_it_shares_no_word(minilm: MiniLM) -> None:
    likeness = await minilm.likeness(QUESTION, [OTHER, SAME, QUESTION])
    other, same, itself = likeness.scores
    assert other < same < itself == 1.0
    assert await minilm.likeness(QUESTION, [SAME]) == likeness.model_copy(update={"scores": [same]})


@pytest.mark.parametrize("text", ["", "\n", "日志级别", "\x00 \ud800", "word " * 9999])
async def test_any_text_can_be_compared(text: str, minilm: MiniLM) -> None:
    [score] = (await minilm.likeness(QUESTION, [text])).scores
    assert -1 <= score <= 1


async def test_a_text_is_read_once(minilm: MiniLM, monkeypatch: pytest.MonkeyPatch) -> None:
    await minilm.likeness(QUESTION, [SAME])
    monkeypatch.setattr(minilm, "_session", None)
    await minilm.likeness(QUESTION, [SAME])


async def test_a_comparison_can_be_cancelled(minilm: MiniLM) -> None:
    texts = [f"{OTHER} {number}" for number in range(1_000_000)]
    with anyio.fail_after(LONG), anyio.move_on_after(0.2) as cut:
        await minilm.likeness(QUESTION, texts)
    assert cut.cancelled_caught


async def test_other_weights_are_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "SHA256", "0" * 64)
    with pytest.raises(ModelUnavailable, match="has another SHA-256"):
        await MiniLM().likeness(QUESTION, [SAME])


def test_the_vocabulary_is_that_of_the_encoder() -> None:
    """As google-research/bert publishes it for its uncased model."""
    text = Path(encoder.__file__).with_name("vocabulary.txt").read_bytes()
    published = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
    assert hashlib.sha256(text).hexdigest() == published
