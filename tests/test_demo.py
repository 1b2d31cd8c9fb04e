"""`make demo`: its example client, its project and its question."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT
from replies import found
from scripted_ollama import ScriptedOllama
from serving import LONG, TRIAL_FILES, Place

from benchmarks import picture

FERRY = ROOT / "examples" / "ferry"
LINE = "MAX_BAG_KG = 25"


def question() -> str:
    (asked,) = re.findall(r"^QUESTION \?= (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return str(asked)


QUESTIONS = {
    "How heavy may my suitcase be?": "MAX_BAG_KG = 25",
    "How late can I show up at the quay?": "RAMP_CLOSES_MINUTES = 12",
    "Where can my puppy sit during the trip?": 'DOG_DECKS = ("open deck", "vehicle deck")',
    "When does a trip get more expensive in the evening?": "NIGHT_BEGINS = 22",
    "What does a four-year-old pay for the trip?": "FREE_BELOW_AGE = 6",
}
"""What a text search cannot answer, and the line that does."""
EVERYWHERE = {"a", "at", "be", "can", "does", "for", "get", "how", "i", "in", "may", "more", "my"}
EVERYWHERE |= {"the", "what", "when", "where"}
"""Words of a question that say nothing of what it is about."""


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_word_of_such_a_question_is_in_the_project(question: str) -> None:
    project = "".join(f"{file}\n{file.read_text()}" for file in FERRY.rglob("*.py")).lower()
    words = set(re.findall(r"[a-z]+", question.lower())) - EVERYWHERE
    assert len(words) >= 2
    assert not [word for word in words if word in project]
    assert project.count(QUESTIONS[question].lower()) == 1


def test_the_question_stands_nowhere_in_the_project() -> None:
    texts = [file.read_text() for file in FERRY.rglob("*.py")]
    assert sum(LINE in text for text in texts) == 1
    assert not any(question() in text for text in texts)
    assert question() == picture.QUESTION  # what the README shows


def test_the_example_client_shows_the_answer_with_its_line(
    tmp_path: Path, ollama: ScriptedOllama
) -> None:
    place = Place(tmp_path, ollama, upstreams={"files": TRIAL_FILES})
    ollama.expect({"search": ["suitcase", "weight", "bag"], "wants": "short answer"})
    ollama.expect(found("A bag may weigh 25 kg."), contains=[LINE])
    script = str(ROOT / "examples" / "ask_over_stdio.py")
    client = [sys.executable, script, question(), str(FERRY)]
    environ = os.environ | place.environ | {"PLANLOOM_UPSTREAMS": str(place.file)}
    done = subprocess.run(
        client, env=environ, capture_output=True, text=True, timeout=LONG, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"> {question()}\n" in done.stderr
    assert done.stdout.strip().startswith("A bag may weigh 25 kg.")
    evidence = done.stdout.partition("Evidence")[2]
    assert "ferry/luggage.py:" in evidence
    assert LINE in evidence
    assert "Makefile" not in done.stdout
