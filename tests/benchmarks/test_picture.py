"""The moving picture of a run: made from a real terminal, without a script, with its waits told."""

import json
import os
import re
import threading
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from ollama_replies import Hang
from planted import CLASS
from replies import found
from scripted_ollama import ScriptedOllama
from serving import Place

from benchmarks import picture

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> str:
    said = [" ".join(each.itertext()) for each in ET.fromstring(svg).iter(f"{SVG}text")]
    return " ".join(" ".join(said).split())


def let_go(ollama: ScriptedOllama) -> None:
    """Have the model write for a while, so that there is something to see meanwhile."""
    while not ollama.requests:
        time.sleep(0.05)
    time.sleep(3)
    ollama.release()


def test_a_run_becomes_a_picture(
    place: Place, ollama: ScriptedOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in place.environ.items():
        monkeypatch.setenv(name, value)
    answer = json.dumps(found(f"`{CLASS}` is defined in jobs/secret.py, line 6."))
    ollama.expect(Hang("", answer))
    threading.Thread(target=let_go, args=(ollama,)).start()
    output = place.root / "picture.svg"
    words = [f"In which file is {CLASS} defined?", "--project", str(place.project)]
    words += ["--upstreams", str(place.file), "--output", str(output)]
    assert picture.main(words) == 0
    svg = output.read_text("utf-8")
    assert len(svg.encode()) < 300_000
    tags = {each.tag.removeprefix(SVG) for each in ET.fromstring(svg).iter()}
    assert tags <= {"svg", "title", "style", "defs", "g", "text", "tspan", "use", "rect"}
    assert not re.search(r"(?:href|src)=\"(?!#)|url\(|@import", svg)
    assert "@keyframes film" in svg
    assert f"In which file is {CLASS} defined?" in texts(svg)
    assert "Found by" in texts(svg)  # while the model wrote
    assert "is defined in jobs/secret.py, line 6." in texts(svg)
    if kept := os.environ.get("PICTURE"):
        Path(kept).write_text(svg)


def test_a_run_that_cannot_begin_makes_no_picture(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (place.environ | {"OLLAMA_HOST": "127.0.0.1:9"}).items():
        monkeypatch.setenv(name, value)
    output = place.root / "picture.svg"
    words = ["Why?", "--upstreams", str(place.file), "--output", str(output)]
    assert picture.main([*words, "--project", str(place.project)]) == 2
    assert "no picture was written" in capsys.readouterr().err
    assert not output.exists()


def test_a_wait_is_shown_shorter_and_says_so() -> None:
    clock = [(second, f"\rWaiting, {second} s".encode()) for second in range(1, 41)]
    every = picture.frames([(0.0, b"Begun\r\n"), *clock, (41.0, b"\r\nThe answer <&>\r\n")])
    shown, faster = picture.timed(every)
    assert faster == 1
    assert [each.left_out for each in shown] == [0.0, 0.0, 38.5]
    assert shown[-1].begins == 2.5
    svg = picture.picture("planloom ask", [(each, b"x") for each in (0.0, 1.0)])
    assert "A real run of 0:01.0; waits are shortened." in texts(svg)
    drawn = picture.picture("planloom ask", [(0.0, b"Begun\r\n"), *clock, (41.0, b"\r\n<&>")])
    assert "38 s of waiting left out" in texts(drawn)
    assert "<&>" in texts(drawn)
