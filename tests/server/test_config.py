"""Settings: where they come from, what a wrong file is told, and that secrets stay secret."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from planner.errors import ConfigError
from server.config_file import load_settings, shipped_file

SECRET = "s3cret-value-of-the-environment"


@pytest.fixture(autouse=True)
def own_config_dir(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """An empty configuration directory, whatever the machine's user has."""
    directory = tmp_path_factory.mktemp("config")
    monkeypatch.setattr("server.config_file.user_config_path", lambda name: directory / name)
    return directory / "planloom"


def written(folder: Path, text: str) -> Path:
    file = folder / "upstreams.yaml"
    file.write_text(text, encoding="utf-8")
    return file


# Where runs are kept


def test_runs_in_a_directory_or_in_redis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "runs: {redis: '${REDIS}', fleet: one, directory: /there}")
    environ = {"REDIS": f"redis://:{SECRET}@127.0.0.1/0"}
    runs = load_settings(file, tmp_path, environ).runs
    assert runs.redis
    assert (runs.redis.get_secret_value(), runs.fleet) == (environ["REDIS"], "one")
    assert SECRET not in repr(runs)
    runs = load_settings(file, tmp_path, environ | {"PLANLOOM_RUNS": "/here"}).runs
    assert (runs.redis, runs.directory) == (None, Path("/here"))
    other = {"PLANLOOM_RUNS": f"rediss://:{SECRET}@there/1", "PLANLOOM_FLEET": "two"}
    runs = load_settings(file, tmp_path, environ | other).runs
    assert runs.redis
    assert (runs.redis.get_secret_value(), runs.fleet) == (other["PLANLOOM_RUNS"], "two")
    assert SECRET not in repr(runs)
    with pytest.raises(ConfigError, match="PLANLOOM_FLEET: use at most 64 letters"):
        load_settings(file, tmp_path, environ | {"PLANLOOM_FLEET": "a b"})
    for url in ("127.0.0.1:6379", "redis://there:port"):
        with pytest.raises(ConfigError, match="is not the address of a Redis; write redis://"):
            load_settings(file, tmp_path, {"REDIS": url})
    for wrong in ("timeoutt=5", "socket_timeout=abc"):
        with pytest.raises(
            ConfigError, match=r"runs\.redis: a parameter after the `\?` is not one"
        ):
            load_settings(file, tmp_path, {"REDIS": f"redis://127.0.0.1/0?{wrong}"})
    monkeypatch.setattr("server.config_file.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pipx install"):
        load_settings(file, tmp_path, environ)


# Where settings come from


def test_defaults(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, ""), tmp_path, {})
    assert settings.models.fast == settings.models.full == "qwen2.5-coder:1.5b"
    assert (settings.models.backend, settings.models.num_ctx) == ("auto", 8192)
    assert settings.project == tmp_path
    assert settings.upstreams == {}


@pytest.mark.parametrize(
    ("text", "environ", "fast"),
    [
        ("models: {full: big}", {}, "big"),
        ("", {"PLANLOOM_FULL_MODEL": "big"}, "big"),
        ("models: {full: other}", {"PLANLOOM_FULL_MODEL": "big"}, "big"),
        ("models: {fast: small}", {"PLANLOOM_FULL_MODEL": "big"}, "small"),
    ],
)
def test_the_full_model_plays_both_roles_if_only_that_one_is_named(
    tmp_path: Path, text: str, environ: dict[str, str], fast: str
) -> None:
    models = load_settings(written(tmp_path, text), tmp_path, environ).models
    assert (models.fast, models.full) == (fast, "big")


def test_arguments_win_over_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "models: {fast: file, full: file, backend: embedded, num_ctx: 4096}")
    environ = {
        "PLANLOOM_FAST_MODEL": "env",
        "PLANLOOM_FULL_MODEL": "env",
        "PLANLOOM_BACKEND": "",
        "OLLAMA_HOST": "127.0.0.1:1",
        "PLANLOOM_PROJECT": str(tmp_path),
    }
    settings = load_settings(file, None, environ, {"full": "argument"})
    models = settings.models
    assert (models.full, models.fast, models.backend) == ("argument", "env", "embedded")
    assert (models.num_ctx, models.host) == (4096, "127.0.0.1:1")
    assert settings.project == tmp_path
    other = tmp_path / "other"
    other.mkdir()
    assert load_settings(file, other, environ).project == other


def test_the_file_is_argument_then_environment_then_user_then_shipped(
    tmp_path: Path, own_config_dir: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    written(project, "upstreams: {evil: {command: rm}}")
    assert load_settings(None, project, {}).source == shipped_file()
    own_config_dir.mkdir()
    own = written(own_config_dir, "")
    assert load_settings(None, project, {}).source == own
    named = written(tmp_path, "")
    assert load_settings(None, project, {"PLANLOOM_UPSTREAMS": str(named)}).source == named
    argument = tmp_path / "argument.yaml"
    argument.write_text("")
    environ = {"PLANLOOM_UPSTREAMS": str(named)}
    assert load_settings(argument, project, environ).source == argument


def test_the_shipped_file_needs_nothing_of_the_environment(tmp_path: Path) -> None:
    settings = load_settings(shipped_file(), tmp_path, {})
    serena, context7 = settings.upstreams["serena"], settings.upstreams["context7"]
    assert serena.command
    assert serena.command.get_secret_value() == sys.executable
    # Without -P, `python -m` would import a package named `server` from where it is started.
    assert [arg.get_secret_value() for arg in serena.args][:3] == [
        "-P",
        "-m",
        "planloom.server.upstreams.serena",
    ]
    assert serena.args[-1].get_secret_value() == str(tmp_path)
    assert context7.env == {}
    for upstream in settings.upstreams.values():
        assert all(len(tool.description or "") <= 140 for tool in upstream.tools.values())


# Mistakes


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("upstreams: [", "1: this is not YAML: "),
        ("a: \x01", "1: this is not YAML: it contains a character that YAML does not allow"),
        ("a: &x {b: *x}", "1: it is nested too deep, or an alias contains itself; write it out"),
        ("a: " + 2000 * "[" + 2000 * "]", "1: it is nested too deep, or an alias contains itself"),
        ("a: !!int ''", "1: a value does not fit its tag; remove the `!!`"),
        ("a: !!bool x", "1: a value does not fit its tag"),
        ("a: !!timestamp x", "1: a value does not fit its tag"),
        ("<<: {foo: 1}", "1: (top level): unknown key `foo`; known keys: models, approval"),
        (
            "upstreams:\n  a:\n    <<: {comand: x}\n    command: y",
            "2: upstreams.a: unknown key `comand`; did you mean `command`?",
        ),
        (
            "upstreams:\n  a: {command: x, roots: ['~nosuch/x']}",
            "2: upstreams.a: `roots` are absolute paths",
        ),
        ("? [1]\n: 2", "1: this is not YAML: found unhashable key; correct that line"),
        ("- 1", "1: (top level): should be a map; write `key: value` lines below it"),
        ("modls: {}", "1: modls: unknown key `modls`; did you mean `models`?"),
        (
            "approval: {timout_s: 1}",
            "1: approval.timout_s: unknown key `timout_s`; did you mean `timeout_s`?",
        ),
        (
            "approval: {timeout_s: 0}",
            "1: approval.timeout_s: should be greater than 0; correct the value",
        ),
        ("runs: {fleet: a b}", "1: runs.fleet: use at most 64 letters, digits, `-` and `_`"),
        ("zzz: 1", "1: zzz: unknown key `zzz`; known keys: models, approval, runs, upstreams"),
        ("models:\n  num_ctx: 5", "2: models.num_ctx: should be greater than or equal to 512"),
        ("models:\n  full: a\n  full: b", "3: models.full: the key appears twice; remove one"),
        (
            "upstreams:\n  a b: {command: x}",
            "2: upstreams.a b: is not a valid name for an upstream",
        ),
        (
            "upstreams:\n  a: {command: x, listing: {tool: t, arguments: {1: 2}}}",
            "2: upstreams.a.listing.arguments: a key is not text (YAML reads on, off, yes and no "
            "as true or false); put it in quotes",
        ),
        (
            "upstreams:\n  a: {command: x, tools: {t: {arguments: {day: 2026-01-01}}}}",
            "2: upstreams.a.tools.t.arguments: has a value that is not JSON, such as a date; put "
            "it in quotes",
        ),
        ("upstreams:\n  on: {command: x}", "1: upstreams: a key is not text (YAML reads on"),
        ("upstreams:\n  a:", "2: upstreams.a: should be a map"),
        ("upstreams:\n  a: {}", "2: upstreams.a: has no `command` and no `url`; give exactly one"),
        (
            "upstreams:\n  a: {command: x, url: y}",
            "2: upstreams.a: has both `command` and `url`; give exactly one",
        ),
        (
            "upstreams:\n  a: {url: y, env: {A: b}}",
            "2: upstreams.a: `env` has no meaning with `url`; remove it",
        ),
        (
            "upstreams:\n  a:\n    command: x\n    args: [ok, 8080]",
            "4: upstreams.a.args.1: should be text; put the value in quotes",
        ),
        (
            "upstreams:\n  a:\n    command: x\n    args: text",
            "4: upstreams.a.args: should be a list; correct the value",
        ),
        (
            "upstreams:\n  a:\n    command: x\n    pin_tools: maybe",
            "4: upstreams.a.pin_tools: should be true or false; correct the value",
        ),
        (
            "upstreams:\n  a:\n    command: x\n    enabeld: false",
            "4: upstreams.a.enabeld: unknown key `enabeld`; did you mean `enabled`?",
        ),
        (
            "upstreams:\n  a:\n    command: x\n    tools:\n      t: {saftey: write}",
            "5: upstreams.a.tools.t.saftey: unknown key `saftey`; did you mean `safety`?",
        ),
        (
            "upstreams:\n  a:\n    command: x\n    listing: {arguments: {}}",
            "4: upstreams.a.listing: `tool` is missing; add it",
        ),
        (
            "upstreams:\n  a:\n    command: x\n    start_timeout_s: 0",
            "4: upstreams.a.start_timeout_s: should be greater than 0; correct the value",
        ),
        (
            "upstreams:\n  a:\n    command: x\n    error_texts: ['(']",
            "4: upstreams.a.error_texts.0: is not a regular expression",
        ),
        (
            "upstreams:\n  a:\n    command: x\n    env:\n      KEY: ${NOPE}",
            "5: upstreams.a.env.KEY: the variable NOPE is not set; set it, or write ${NOPE:-",
        ),
        (
            "upstreams:\n  a:\n    command: x ${",
            "3: upstreams.a.command: a `${` has no name or no `}`; write ${NAME}, or $$",
        ),
    ],
)
def test_a_mistake_is_told_with_line_key_and_fix(tmp_path: Path, text: str, problem: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_settings(file, tmp_path, {})
    assert str(caught.value).startswith(f"{file}:{problem}")


def test_every_mistake_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    file = written(tmp_path, "upstreams:\n  a: {}\n  b: {command: 3}\nx: 1\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(file, tmp_path, {})
    assert [line.split(":")[1] for line in str(caught.value).splitlines()] == ["2", "3", "4"]


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        (
            {"PLANLOOM_BACKEND": "cloud"},
            "PLANLOOM_BACKEND: should be 'auto', 'ollama', 'openai'",
        ),
        ({"PLANLOOM_PROJECT": "/no/such/folder"}, "PLANLOOM_PROJECT: /no/such/folder is not a"),
        ({"PLANLOOM_UPSTREAMS": "/no/such.yaml"}, "/no/such.yaml: cannot be read: No such file"),
        ({"PLANLOOM_UPSTREAMS": "~nosuch/x"}, "~nosuch/x: `~` names no user's folder; write the"),
        ({"PLANLOOM_PROJECT": "~nosuch/x"}, "~nosuch/x: `~` names no user's folder"),
        ({"PLANLOOM_RUNS": "valkey://there/0"}, "PLANLOOM_RUNS: is not the address of a Redis"),
        ({"PLANLOOM_RUNS": "~nosuch/x"}, "~nosuch/x: `~` names no user's folder"),
    ],
)
def test_a_wrong_variable_is_named(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(None, None, environ)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (b"caf\xe9", "the name of .* is not UTF-8; rename the folder"),
        (b"x" * 300, "is not a directory; name the project's folder"),
    ],
)
def test_a_folder_that_cannot_be_a_project_is_named(
    tmp_path: Path, name: bytes, problem: str
) -> None:
    folder = tmp_path / os.fsdecode(name)
    with suppress(OSError):
        folder.mkdir()
    with pytest.raises(ConfigError, match=f"^--project: .*{problem}"):
        load_settings(shipped_file(), folder, {})


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "upstreams.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read: it is not UTF-8 text"):
        load_settings(file, tmp_path, {})


def test_merged_keys_are_not_duplicates(tmp_path: Path) -> None:
    text = "upstreams:\n  a: &a {command: x, priority: 1}\n  b: {<<: *a, command: y}\n"
    settings = load_settings(written(tmp_path, text), tmp_path, {})
    assert settings.upstreams["b"].priority == 1


# Variables and secrets

SECRETIVE = """
upstreams:
  local:
    command: ${PLANLOOM_PYTHON}
    args: ["--token=${TOKEN}", "${PLANLOOM_PROJECT}", "${LEVEL:-high}", "$$HOME"]
    cwd: /srv/${TOKEN}
    env: {KEY: "${TOKEN}", NONE: "${NOTHING:-}", ROOT: "${PLANLOOM_PROJECT}", PLAIN: written-here}
  remote:
    url: https://example.invalid/${TOKEN}
    headers: {Authorization: "Bearer ${TOKEN}", X-None: "${NOTHING:-}"}
"""


def test_variables_are_filled_in_and_shown_nowhere(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, SECRETIVE), tmp_path, {"TOKEN": SECRET})
    local, remote = settings.upstreams["local"], settings.upstreams["remote"]
    assert [arg.get_secret_value() for arg in local.args] == [
        f"--token={SECRET}",
        str(tmp_path),
        "high",
        "$HOME",
    ]
    assert str(local.args[0]) == "--token=***"
    assert {name: value.get_secret_value() for name, value in local.env.items()} == {
        "KEY": SECRET,
        "ROOT": str(tmp_path),
        "PLAIN": "written-here",
    }
    assert remote.headers["Authorization"].get_secret_value() == f"Bearer {SECRET}"
    assert remote.headers.keys() == {"Authorization"}
    assert local.secrets == {SECRET, "written-here"}
    assert remote.secrets == {SECRET, f"Bearer {SECRET}"}
    shown = f"{settings!r} {settings} {settings.model_dump_json()} {settings.model_dump()}"
    assert SECRET not in shown
    assert "written-here" not in shown


@pytest.mark.parametrize(
    "wrong", ["start_timeout_s: ${TOKEN}", "tols: {}", "listing: {}", "headers: {a: b}"]
)
def test_no_error_holds_a_secret(tmp_path: Path, wrong: str) -> None:
    text = SECRETIVE.replace("  remote:", f"    {wrong}\n  remote:")
    with pytest.raises(ConfigError) as caught:
        load_settings(written(tmp_path, text), tmp_path, {"TOKEN": SECRET})
    assert SECRET not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
