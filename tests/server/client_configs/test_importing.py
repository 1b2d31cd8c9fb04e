"""Servers of other clients as upstreams: what is taken, in which form, and never a secret."""
# ruff: noqa: E501  texts stand as they are shown

import string
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from client_files import put
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from server.cli.init import upstreams_text
from server.client_configs.importing import (
    ImportedServer,
    SkippedServer,
    Source,
    import_servers,
    missing_variables,
)
from server.config_schema import upstreams_schema
from server.variables import expand

SECRET = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6"
VALIDATOR = Draft202012Validator(upstreams_schema())


def taken_from(folder: Path, servers: Any) -> tuple[list[ImportedServer], list[SkippedServer]]:
    file = put(folder / "mcp.json", {"mcpServers": servers})
    return import_servers([Source("It", file)], ["serena", "context7"])


def settings_from(folder: Path, entry: dict[str, Any]) -> dict[str, Any]:
    (taken,), left_out = taken_from(folder, {"it": entry})
    assert left_out == []
    return taken.settings


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"command": "planloom"}, "it is Planloom itself, which would call itself"),
        ({"command": "C:\\x\\planloom.exe"}, "it is Planloom itself, which would call itself"),
        (
            {"command": "python", "args": ["-m", "server.cli"]},
            "it is Planloom itself, which would call itself",
        ),
        (
            {"command": "uvx", "args": ["planloom==0.1.0"]},
            "it is Planloom itself, which would call itself",
        ),
        (
            {"url": "https://mcp.context7.com/mcp"},
            "Planloom comes with its own context7",
        ),
        ({"command": "x", "enabled": False}, "it is disabled in that file"),
        ({"url": "https://a/sse"}, "it speaks SSE, which streamable HTTP has replaced"),
        ({"url": "ws://a/mcp"}, "its address is not an HTTP address"),
        ({"type": "ws", "url": "https://a"}, "the transport ws is not supported by Planloom"),
        ({"type": "http", "command": "x"}, "it has no address for the transport http"),
        ({"command": "x", "url": "https://a"}, "it has both a command and a URL"),
        ({"command": 3}, "its `command` is not text"),
        ({"command": "\ud800"}, "it has invalid characters"),
        ({"command": "x", "args": "a"}, "its `args` are not a list"),
        ({"command": "x", "args": [["a"]]}, "one of its values is not text"),
        ({"command": "x", "env": ["A"]}, "its `env` are not a map"),
        ({"url": "http://[bad"}, "its address is not an HTTP address"),
        ({"command": "x", "env_keys": True}, "its `env_keys` are not a list"),
        ({"command": "x", "env_keys": "TOKEN"}, "its `env_keys` are not a list"),
        ({"command": "x", "env_vars": [{"name": "A"}]}, "one of its values is not text"),
        ({"command": "x", "args": ["${file}"]}, "only its client knows the value of `${file…`"),
        (
            {"command": "x", "env": {"A": "${workspaceFolderBasename}"}},
            "only its client knows the value of `${workspaceFolderBasename…`",
        ),
        (
            {"command": "x", "args": ["${config:a.b}"]},
            "only its client knows the value of `${config…`",
        ),
    ],
)
def test_what_cannot_be_taken_is_left_out_with_the_reason(
    tmp_path: Path, entry: Any, why: str
) -> None:
    taken, left_out = taken_from(tmp_path, {"it": entry})
    assert (taken, [each.why for each in left_out]) == ([], [why])


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ({"LEVEL": "debug"}, {"LEVEL": "debug"}),
        ({"PORT": 8080, "ON": True, "GONE": None}, {"PORT": "8080", "ON": "true"}),
        ({"ROOT": "/home/me/data_v3"}, {"ROOT": "/home/me/data_v3"}),
        ({"BASE": "https://api.example.com/v1"}, {"BASE": "https://api.example.com/v1"}),
        ({"API_KEY": "debug"}, {"API_KEY": "${API_KEY:-}"}),
        ({"PHRASE": "correct horse battery"}, {"PHRASE": "${PHRASE:-}"}),
        ({"HOOK": "https://hooks.example.com/T024BE7LD/B1"}, {"HOOK": "${HOOK:-}"}),
        ({"DSN": "postgres://a:b@c/d"}, {"DSN": "${DSN:-}"}),
        ({"A": "${B}", "C": "${D:-info}"}, {"A": "${B:-}", "C": "${D:-info}"}),
        ({"A": f"${{B:-{SECRET}}}"}, {"A": "${B:-}"}),
        ({"A": "${b:-info}", "C": "${env:d}"}, {"A": "${b:-info}", "C": "${d:-}"}),
        ({"A": f"{SECRET}${{B}}"}, {"A": "${A:-}"}),
        ({"A": "$HOME"}, {"A": "$$HOME"}),
    ],
)  # fmt: skip
def test_a_value_comes_along_only_if_it_is_plainly_no_secret(
    tmp_path: Path, given: Any, becomes: Any
) -> None:
    assert settings_from(tmp_path, {"command": "x", "env": given})["env"] == becomes


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        (["--token", "abc"], ["--token", "${IT_TOKEN:-}"]),
        (["--token=abc"], ["--token=${IT_TOKEN:-}"]),
        (["--token", "--verbose"], ["--token", "${IT_TOKEN:-}"]),
        (["-e", "API_KEY=abc"], ["-e", "API_KEY=${API_KEY:-}"]),
        (["--header", f"Authorization: Bearer {SECRET}"], ["--header", "Authorization: Bearer ${IT_TOKEN:-}"]),
        (["https://a.example/?api_key=abc"], ["${IT_ARGS:-}"]),
        ([SECRET], ["${IT_ARGS:-}"]),
        (["-y", "@scope/server@1.2.3", "--port", 80], ["-y", "@scope/server@1.2.3", "--port", "80"]),
        (["${userHome}${/}x"], ["${HOME}/x"]),
        (["-c", "cd /x && API_TOKEN=abc npx y"], ["-c", "${IT_ARGS:-}"]),
        (["-c", "cd /x && LEVEL=debug npx y"], ["-c", "cd /x && LEVEL=debug npx y"]),
        (["--env=API_KEY=abc"], ["--env=API_KEY=${API_KEY:-}"]),
        (["--header=X-Api-Key: abc"], ["--header=X-Api-Key: ${IT_X_API_KEY:-}"]),
        (["--url=https://a.example/?api_key=abc"], ["--url=${IT_ARGS:-}"]),
        (["-c", "npx y --api-key abc"], ["-c", "${IT_ARGS:-}"]),
        (["-c", "npx y --header 'X-Api-Key: abc'"], ["-c", "${IT_ARGS:-}"]),
        (["-c", "npx y --no-auth"], ["-c", "npx y --no-auth"]),
    ],
)  # fmt: skip
def test_arguments_come_along_unless_they_are_called_or_look_secret(
    tmp_path: Path, given: Any, becomes: Any
) -> None:
    assert settings_from(tmp_path, {"command": "x", "args": given})["args"] == becomes


def test_a_token_from_the_environment_is_one_more_header(tmp_path: Path) -> None:
    entry = {"url": "https://h/mcp", "http_headers": {"X-Area": "eu"}, "bearer_token_env_var": "t"}
    assert settings_from(tmp_path, entry)["headers"] == {
        "X-Area": "eu",
        "Authorization": "Bearer ${t:-}",
    }


def test_variables_that_a_client_names_are_taken_from_the_environment(tmp_path: Path) -> None:
    entry = {"command": "x", "env_vars": ["A", "http_proxy"]}
    env = {"A": "${A:-}", "http_proxy": "${http_proxy:-}"}
    assert settings_from(tmp_path, entry)["env"] == env


def test_one_variable_has_one_value(tmp_path: Path) -> None:
    env = {name: {"command": "x", "env": {"API_KEY": name * 9}} for name in ("a1", "b2")}
    env["c3"] = env["a1"]
    taken, _ = taken_from(tmp_path, env)
    assert [each.settings["env"]["API_KEY"] for each in taken] == [
        *("${API_KEY:-}", "${B2_API_KEY:-}", "${API_KEY:-}")
    ]
    assert [*missing_variables(taken)] == ["API_KEY", "B2_API_KEY"]


@pytest.mark.parametrize("value", ["!!int ''", "!!bool x", "!!timestamp x"])
def test_a_file_with_a_wrong_tag_is_left_out(tmp_path: Path, value: str) -> None:
    file = put(tmp_path / "it.yaml", f"a: {value}")
    taken, left_out = import_servers([Source("It", file)], [])
    assert (taken, [each.why for each in left_out]) == (
        [],
        [f"{file}: a value does not fit its tag"],
    )


def test_the_servers_of_single_projects_are_left_out(tmp_path: Path) -> None:
    """Claude Code keeps what `claude mcp add` adds by default among its projects."""
    projects = {
        "/a/b": {"mcpServers": {"one": {"command": "x"}}},
        "/c": {"mcpServers": None},
        "d": 1,
    }
    file = put(tmp_path / "claude.json", {"projects": projects})
    taken, left_out = import_servers([Source("It", file)], [])
    assert taken == []
    assert [(each.name, each.why) for each in left_out] == [
        ("one", "it is only for the project /a/b")
    ]


def test_settings_beside_the_servers_are_not_servers(tmp_path: Path) -> None:
    """Gemini CLI has lists of names where other clients have servers."""
    settings = {
        "extensions": {"disabled": ["a"]},
        "mcp": {"allowed": ["it"], "serverCommand": "x"},
        "mcpServers": {"it": {"command": "x"}},
    }
    file = put(tmp_path / "settings.json", settings)
    taken, left_out = import_servers([Source("Gemini CLI", file)], [])
    assert ([each.name for each in taken], left_out) == (["it"], [])


def test_servers_of_one_name_are_taken_once(tmp_path: Path) -> None:
    same, other = {"command": "x"}, {"command": "y"}
    files = [
        put(tmp_path / f"{name}.json", {"mcpServers": {"it": entry}})
        for name, entry in (("a", same), ("b", same), ("c", other))
    ]
    taken, left_out = import_servers([Source(file.stem, file) for file in files], [])
    assert [(each.source.title, each.settings) for each in taken] == [("a", same)]
    assert [(each.source.title, each.why) for each in left_out] == [
        ("c", f"another server is called it, in {files[0]}")
    ]


@pytest.mark.parametrize("name", ["serena", "Serena", "serena!", " context7"])
def test_a_server_that_planloom_comes_with_is_left_out(tmp_path: Path, name: str) -> None:
    taken, left_out = taken_from(tmp_path, {name: {"command": "x"}})
    assert taken == []
    assert [each.why for each in left_out] == [
        f"Planloom comes with its own {name.lower().strip(' !')}"
    ]


names = st.text(min_size=1, max_size=12)
texts = st.text(max_size=20)
entries = st.fixed_dictionaries(
    {"command": texts},
    optional={
        "args": st.lists(texts, max_size=3),
        "env": st.dictionaries(names, texts, max_size=3),
        "url": texts,
        "headers": st.dictionaries(names, texts, max_size=3),
        "type": st.sampled_from(["stdio", "http", "sse"]),
        "other": st.none() | st.booleans() | texts,
    },
)


@given(st.dictionaries(names, entries, max_size=4))
@hypothesis_settings(max_examples=60)
def test_whatever_a_client_says_the_file_written_is_one_that_can_be_read(servers: Any) -> None:
    with TemporaryDirectory() as folder:
        taken, left_out = taken_from(Path(folder), servers)
    assert len(taken) + len(left_out) == len(servers)
    text = upstreams_text("upstreams:\n  first: {command: x}\n", taken, left_out)
    data = yaml.safe_load(text.encode())
    VALIDATOR.validate(data)
    assert data["upstreams"] == {"first": {"command": "x"}} | {
        each.name: each.settings for each in taken
    }


tokens = st.text(string.ascii_letters + string.digits, min_size=20, max_size=40).filter(
    lambda text: any(map(str.isupper, text)) and any(map(str.islower, text)) and not text.isalpha()
)
WHOLE = ("{}", "Bearer {}", "Bearer ${{A}}{}", "https://me:{}@host/x", "${{A:-{}}}", "a b {}")
CALLED = ("--token={}", "--header=Authorization: Bearer {}", "https://host/?key={}", "KEY={}", "{}")


@given(tokens, st.sampled_from(WHOLE), st.sampled_from(CALLED), st.sampled_from(WHOLE[:4]))
def test_no_token_gets_into_the_file(token: str, value: str, argument: str, after: str) -> None:
    servers = {
        "one": {
            "command": f"/opt/{token}/x",
            "cwd": f"/srv/{token}",
            "args": [argument.format(token), "--password", after.format(token)],
            "env": {"A": value.format(token)},
        },
        "two": {
            "url": f"https://host/{token}",
            "headers": {"X-A": value.format(token), "Authorization": after.format(token)},
        },
    }
    with TemporaryDirectory() as folder:
        taken, left_out = taken_from(Path(folder), servers)
    assert (len(taken), left_out) == (2, [])
    assert token not in upstreams_text("upstreams: {}", taken, left_out)
    assert token not in str([missing_variables(taken), taken])


@given(texts)
def test_a_text_that_comes_along_is_the_same_text(text: str) -> None:
    with TemporaryDirectory() as folder:
        taken, _ = taken_from(Path(folder), {"it": {"command": "x", "args": ["a", text]}})
    for each in taken:
        if not each.variables and "${" not in text:
            assert expand(each.settings["args"][1], {}).get_secret_value() == text
