"""What a listing names, in the forms in which tools say it."""

import json
from typing import Any

import pytest

from planner.evidence.listing import folders_in, is_path_of, of_listing, paths_said, visible

FILE = {"type": "file", "name": "a.py"}


@pytest.mark.parametrize(
    ("result", "folders"),
    [
        ("[DIR] Some.Example\n[FILE] Makefile\n[FILE] a.py", {"Some.Example"}),
        ("src/\nMakefile\nlib/deep/", {"src", "deep"}),
        (json.dumps([FILE, {"type": "directory", "name": "Some.Example"}]), {"Some.Example"}),
        ("Makefile\nsrc", set()),
        ("[1] a\n[2] b", set()),
        ('["src", "README.md"]', set()),
        ("[1, null]", set()),
        ("2024", set()),
        ("true", set()),
    ],
)
def test_folders_are_known_by_their_marks(result: str, folders: set[str]) -> None:
    assert {name for name, is_folder in folders_in(result).items() if is_folder} == folders


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ([FILE], ["a.py"]),
        (
            [
                {"type": "file", "name": "Makefile"},
                {"type": "dir", "name": "src"},
                {"type": "dir", "name": "lib"},
            ],
            ["Makefile", "src", "lib"],
        ),
        ([{"type": "dir", "name": "src", "children": [FILE]}], ["src/a.py"]),
        ({"path": "lib", "entries": [FILE]}, ["lib/a.py"]),
        (
            [
                {"kind": "text/plain", "path": "src/a.py"},
                {"kind": "text/plain", "path": "src/b.py"},
            ],
            ["src/a.py", "src/b.py"],
        ),
        ([{"name": "src", "files": [{"name": "a.py"}]}, {"name": "b.py"}], ["src/a.py", "b.py"]),
        ({"dirs": ["src"], "files": ["a.py"]}, ["src", "a.py"]),
        (["src/a.py", "Makefile"], ["src/a.py", "Makefile"]),
        ([{"size": 3}, None, 5], []),
    ],
)
def test_an_entry_is_known_by_its_name_and_not_by_its_kind(value: Any, paths: list[str]) -> None:
    assert of_listing(json.dumps(value)) == paths


@pytest.mark.parametrize(
    ("lines", "paths"),
    [
        (["[DIR] odd names", "[FILE] a b.txt    25 B", "Total: 1 file"], ["odd names", "a b.txt"]),
        (["/srv/odd names/a b.txt", "/srv/Makefile"], ["/srv/odd names/a b.txt", "/srv/Makefile"]),
        (["see /srv/a.py, b.py"], ["/srv/a.py", "b.py"]),
        (["x" * 500_000 + "\t\tsrc"], ["src"]),
        (["Total: 0 files, 0 directories", "Combined size: 1.11 KB"], []),
    ],
)
def test_an_entry_of_text_is_a_whole_name(lines: list[str], paths: list[str]) -> None:
    assert of_listing("\n".join(lines)) == paths


@pytest.mark.parametrize(
    ("paths", "shown"),
    [
        (["a.py", ".git/HEAD", "src/.env", "src/b.py"], ["a.py", "src/b.py"]),
        (
            ["/home/u/.cache/p/a.py", "/home/u/.cache/p/.git/HEAD", "/home/u/.cache/p/src/b.py"],
            ["/home/u/.cache/p/a.py", "/home/u/.cache/p/src/b.py"],
        ),
        (["/home/u/.cache/p/a.py"], ["/home/u/.cache/p/a.py"]),
        ([], []),
    ],
)
def test_what_is_hidden_is_so_within_the_project(paths: list[str], shown: list[str]) -> None:
    """The project itself may be in a hidden folder."""
    assert visible(paths) == shown


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("Delete the file notes/a.md.", ["notes/a.md"]),
        ("Read /srv/garden... and ./Makefile.", ["/srv/garden", "./Makefile"]),
        ("Go to ../.. or src/.", ["../..", "src/."]),
        ("把notes/a.md里的数字改成9。", ["notes/a.md", "把notes/a.md里的数字改成9"]),
        ("b.mdを開いて", ["b.md", "b.mdを開いて"]),
        ("docs/API文档.md", ["docs/API", "文档.md", "docs/API文档.md"]),
    ],
)
def test_a_path_ends_with_its_sentence_and_beside_words_without_spaces(
    text: str, paths: list[str]
) -> None:
    assert paths_said(text) == paths


@pytest.mark.parametrize(
    ("name", "path", "same"),
    [
        ("notes/a.md", "docs/notes/a.md", True),
        ("notes/a.md", "other_notes/a.md", False),
        ("文档.md", "docs/API文档.md", True),
        ("API文档.md", "docs/API文档.md", True),
        ("文档.md", "docs/新文档.md", False),
    ],
)
def test_a_name_is_that_of_a_file_by_its_end(name: str, path: str, same: bool) -> None:
    assert is_path_of(name, path) == same
