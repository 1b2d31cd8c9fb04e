"""The code bases that are asked about, as texts by path.

They are read once in a process and written into the work folder of a case, so that nothing changes
while a run is under way, and nothing but sources is there to be found.
"""

import importlib.util
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path

from platformdirs import user_cache_path

from benchmarks import ROOT
from benchmarks.eval import generated
from benchmarks.eval.packages import Package

PROJECTS = Path(__file__).with_name("projects")
"""Small projects of ours."""
PACKAGE = "anyio"
"""Installed wherever Planloom is; no one has to download it, and it is not small."""
_COPIED = ("*.py", "*.yaml", "*.txt", "*.md", "pyproject.toml")
_ABOUT = ("README*", "*.md", "package.json", "pyproject.toml")

Files = dict[str, str]
"""Text by path, POSIX style, relative to the project's folder."""

FETCHED: dict[str, Package] = {
    # One per language and split; a few thousand lines each.
    "immer": Package("npm", "immer", "11.2.10", ("src/", "readme.md", "package.json")),
    "query-core": Package("npm", "@tanstack/query-core", "5.108.0", ("src/", "package.json")),
    "netinfo": Package(
        "npm",
        "@react-native-community/netinfo",
        "12.0.1",
        ("android/src/", "src/", "README.md", "package.json"),
    ),
    "webview": Package(
        "npm",
        "react-native-webview",
        "16.0.0",
        ("android/src/", "src/", "README.md", "package.json"),
    ),
    "jiter": Package(
        "pypi", "jiter", "0.19.0", ("src/", "README.md", "Cargo.toml"), below="crates/jiter"
    ),
    "safetensors": Package(
        "pypi", "safetensors", "0.8.0", ("src/", "README.md", "Cargo.toml"), below="safetensors"
    ),
    "hiredis": Package(
        "pypi", "hiredis", "3.5.0", ("*.c", "*.h", "*.md", "Makefile"), below="vendor/hiredis"
    ),
    "ujson": Package("pypi", "ujson", "6.1.0", ("src/ujson/*.[ch]", "README.md", "*.toml")),
    "tenacity": Package("pypi", "tenacity", "9.2.1", ("tenacity/", "tests/*.py", "pyproject.toml")),
    "httpcore": Package("pypi", "httpcore", "1.0.9", ("httpcore/", "docs/", *_ABOUT)),
    # Of `wild`, dev. Globs such as `[!t]*` leave tests out, or what is generated.
    "libp2p-yamux": Package("npm", "@chainsafe/libp2p-yamux", "8.0.1", ("src/", "package.json")),
    "pacer": Package("npm", "@tanstack/pacer", "0.22.0", ("src/", "package.json")),
    "jellyfish": Package("pypi", "jellyfish", "1.3.0", ("src/[!t]*.rs", "python/", "Cargo.toml")),
    "zopfli": Package("pypi", "zopfli", "0.4.3", ("src/*.c", "src/zopfli/", "zopfli/src/zopfli/")),
    "keychain": Package(
        "npm", "react-native-keychain", "10.0.0", ("android/", "ios/", "src/", "package.json")
    ),
    "huey": Package("pypi", "huey", "3.5.4", ("huey/[!t]*.py",)),
    "imapclient": Package(
        "pypi", "imapclient", "4.1.0", ("imapclient/[!lt]*.py", "imapclient/t[!e]*.py")
    ),
    "nodemailer": Package("npm", "nodemailer", "6.10.1", ("lib/", "package.json")),
    "apscheduler": Package(
        "pypi",
        "apscheduler",
        "3.11.3",
        ("src/apscheduler/", "tests/", "docs/*.rst", "README.rst", "pyproject.toml"),
    ),
    "waitress": Package(
        "pypi",
        "waitress",
        "3.0.2",
        ("src/waitress/", "docs/*.rst", "tests/*.py", "README.rst", "CHANGES.txt", "setup.cfg"),
    ),
    "just": Package(
        "pypi", "rust-just", "1.59.0", ("src/", "GRAMMAR.md", "Cargo.toml", "build.rs")
    ),
    "rtk": Package("npm", "@reduxjs/toolkit", "2.15.0", ("src/", "README.md", "package.json")),
    "nodemon": Package(
        "npm",
        "nodemon",
        "3.1.14",
        ("bin/nodemon.js", "lib/", "doc/", "README.md", "package.json", "index.d.ts"),
    ),
    "track-player": Package(
        "npm",
        "react-native-track-player",
        "4.1.2",
        ("android/", "ios/RNTrackPlayer/", "src/", "web/", "README.md", "package.json"),
    ),
    # Of `wild`, report.
    "dramatiq": Package(
        "pypi", "dramatiq", "2.2.1", ("bin/", "dramatiq/", "tests/", "*.md", "*.toml", "setup.*")
    ),
    "aiosmtpd": Package(
        "pypi",
        "aiosmtpd",
        "1.4.6",
        ("aiosmtpd/", "README.rst", "pyproject.toml", "[pt]*.ini", "setup.cfg"),
    ),
    "cheerio": Package("npm", "cheerio", "1.2.0", ("src/", "Readme.md", "package.json")),
    "tiptap-core": Package("npm", "@tiptap/core", "3.34.0", ("src/", "README.md", "package.json")),
    "ble-manager": Package(
        "npm",
        "react-native-ble-manager",
        "12.5.3",
        ("android/", "ios/", "src/", "*.podspec", "app.plugin.js", "README.md", "package.json"),
    ),
    "better-sqlite3": Package(
        "npm",
        "better-sqlite3",
        "12.11.1",
        ("lib/", "src/", "binding.gyp", "README.md", "package.json"),
    ),
    "bull": Package(
        "npm",
        "bull",
        "4.16.5",
        ("lib/[!s]*", "lib/scripts.js", "index.*", "CHANGELOG.md", "README.md", "package.json"),
    ),
}
SOURCES = frozenset(
    (  # noqa: SIM905
        ".c .cfg .cpp .gradle .gyp .h .hpp .ini .java .js .json .kt .lua .m .md .mm .mts .podspec "
        ".properties .py .pyi .rs .rst .swift .toml .ts .tsx .txt .xml .yaml"
    ).split()
)
"""What a code base may hold besides files without a suffix: no byte code, no binaries."""


@cache
def files(name: str) -> Files:
    """The sources of the code base of this name. Raises `PlanloomError` if they cannot be
    fetched."""
    if package := FETCHED.get(name):
        return {
            path: text
            for path, text in package.files(user_cache_path("planloom") / "eval").items()
            if Path(path).suffix in SOURCES | {""}
        }
    return _READ[name]()


def write(files: Files, root: Path) -> Path:
    """Lay them out below `root`, and return it."""
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="")
    return root


def _repository() -> Files:
    return {
        f"{part}/{path}": text
        for part in ("planner", "server")
        for path, text in _below(ROOT / part, _COPIED).items()
    }


def _package() -> Files:
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    found = _below(Path(spec.origin).parent, _COPIED)
    return {f"{PACKAGE}/{path}": text for path, text in found.items()}


def _project(name: str) -> Files:
    return _below(PROJECTS / name, ["*"])


def _below(folder: Path, patterns: Iterable[str]) -> Files:
    paths = {path for pattern in patterns for path in folder.rglob(pattern) if path.is_file()}
    paths = {path for path in paths if path.suffix in SOURCES | {""}}
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in sorted(paths)}


def _generated(seed: int) -> Files:
    return generated.generate(seed).files


_READ: dict[str, Callable[[], Files]] = {
    "repository": _repository,
    "package": _package,
    "kiosk": partial(_project, "kiosk"),
    **{f"generated-{split}": partial(_generated, seed) for split, seed in generated.SEEDS.items()},
}
