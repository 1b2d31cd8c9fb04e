"""Planloom's entry in the files that people have written: nothing else in them changes."""

import json
import stat
import sys
from difflib import unified_diff
from pathlib import Path

import pytest
from client_files import Run, put
from inline_snapshot import snapshot

from server.client_configs.clients import CLIENTS, servers

COMMAND = str(Path(sys.executable).with_name("planloom"))


@pytest.mark.parametrize("half", ["", "\ud800"])
@pytest.mark.parametrize("client", ["claude-desktop", "cursor", "vscode"])
def test_writing_keeps_everything_else(run: Run, home: Path, client: str, half: str) -> None:
    key = "servers" if client == "vscode" else "mcpServers"
    own = {"command": "old", "args": ["serve"], "env": {"A": "b"}}
    other = {"command": "x", "env": {"ü": "✓", "N": 1.5, "half": half}}
    inputs = [{"id": "some-key"}, "odd", {"id": "planloom-token", "type": "old"}]
    before = {"theme": "dark", key: {"other": other, "planloom": own}, "inputs": inputs}
    file = put(CLIENTS[client].file, json.dumps(before, indent="\t"))
    file.chmod(0o640)
    words = ["--http", "127.0.0.1:8000"] if client != "claude-desktop" else []
    code, output, _ = run("init", "--client", client, "--write", *words)
    assert (code, output) == (0, "")
    after = json.loads(file.read_text())
    entry = after[key].pop("planloom")
    assert after[key] == {"other": other}
    assert entry["env"] == {"A": "b"}
    assert entry.get("command") != "old"
    assert after["theme"] == "dark"
    if client == "vscode":
        assert after["inputs"][:2] == inputs[:2]
        assert [each["type"] for each in after["inputs"][2:]] == ["promptString"]
    else:
        assert after["inputs"] == inputs
    assert file.read_text().startswith('{\n\t"theme"')
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    kept = file.with_name(f"{file.name}.bak")
    assert json.loads(kept.read_text()) == before

    again = file.read_text()
    run("init", "--client", client, "--write", *words)
    assert (file.read_text(), len([*file.parent.iterdir()])) == (again, 2)


def test_a_new_file_is_written_once(run: Run, home: Path) -> None:
    for _ in range(2):
        run("init", "--client", "vscode", "--http", "127.0.0.1:8000", "--write")
    assert len([*CLIENTS["vscode"].file.parent.iterdir()]) == 1


def test_a_null_is_a_map_without_entries_and_a_mark_stays(run: Run, home: Path) -> None:
    file = CLIENTS["cursor"].file
    file.parent.mkdir(parents=True)
    file.write_bytes(b'\xef\xbb\xbf{\r\n  "mcpServers": null\r\n}\r\n')
    assert run("init", "--client", "cursor", "--write")[0] == 0
    assert file.read_bytes().startswith(b'\xef\xbb\xbf{\r\n  "mcpServers": {\r\n    "planloom": {')
    assert [name for name, _ in servers(file)] == ["planloom"]


@pytest.mark.parametrize("none", ["", " []", "\n  # - name: old"])
def test_a_list_without_entries_takes_one(run: Run, home: Path, none: str) -> None:
    before = f"name: mine\nmcpServers:{none}\n# models\nmodels: []\n"
    file = put(CLIENTS["continue"].file, before)
    assert run("init", "--client", "continue", "--write")[0] == 0
    assert [name for name, _ in servers(file)] == ["planloom"]
    assert [
        line for line in before.splitlines() if "#" in line and line not in file.read_text()
    ] == []


BEFORE = {
    "zed": """\
// mine
{
  "theme": "One", // dark
  /* servers */
  "context_servers": {
    "other": {"command": "x"}, // the other
    // "old": {},
  },
}
""",
    "codex": """\
# mine
model = 'some'   # small

[mcp_servers.other]  # the other
command = "x"

# profiles
[profiles.fast]
model = "tiny"
""",
    "continue": """\
# mine
name: me
version: 1.0.0
schema: v1
mcpServers:
  # the other
  - name: other
    command: "x" # it

# models
models:
  - name: a
""",
    "goose": """\
GOOSE_MODEL: some # small
extensions:
  # the other
  other:
    enabled: true
    cmd: 'x'

# more
GOOSE_MODE: auto
""",
}


@pytest.mark.parametrize("client", sorted(BEFORE))
def test_what_people_wrote_stays_as_it_is(run: Run, home: Path, client: str) -> None:
    before = BEFORE[client]
    file = put(CLIENTS[client].file, before)
    assert run("init", "--client", client, "--write")[0] == 0
    after = file.read_text()
    written = after.replace(COMMAND, "/bin/planloom").replace(str(home), "HOME")
    changes = [*unified_diff(before.splitlines(), written.splitlines(), n=1, lineterm="")][2:]
    assert snapshot(
        {
            "codex": """\
@@ -9 +9,5 @@
 model = "tiny"
+
+[mcp_servers.planloom]
+command = "/bin/planloom"
+args = ["serve", "--project", "HOME"]\
""",
            "continue": """\
@@ -8,2 +8,8 @@
     command: "x" # it
+  - name: planloom
+    command: /bin/planloom
+    args:
+      - serve
+      - --project
+      - HOME
 \
""",
            "goose": """\
@@ -6,2 +6,13 @@
     cmd: 'x'
+  planloom:
+    enabled: true
+    type: stdio
+    name: planloom
+    description: A planning agent for questions about a project
+    cmd: /bin/planloom
+    args:
+    - serve
+    - --project
+    - HOME
+    timeout: 300
 \
""",
            "zed": """\
@@ -6,2 +6,10 @@
     "other": {"command": "x"}, // the other
+    "planloom": {
+      "command": "/bin/planloom",
+      "args": [
+        "serve",
+        "--project",
+        "HOME"
+      ]
+    },
     // "old": {},\
""",
        }
    )[client] == "\n".join(changes)
    assert not [line for line in changes if line[0] == "-"]
    run("init", "--client", client, "--write")
    assert file.read_text() == after


@pytest.mark.parametrize("client", sorted(BEFORE))
def test_ends_of_lines_stay(run: Run, client: str) -> None:
    file = put(CLIENTS[client].file, "")
    file.write_bytes(BEFORE[client].replace("\n", "\r\n").encode())
    run("init", "--client", client, "--write")
    assert file.read_bytes().count(b"\n") == file.read_bytes().count(b"\r\n") > 5


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_a_client_may_have_several_projects(run: Run, home: Path, client: str) -> None:
    folders = [home / "a/Some Shop", home / "b/some-shop", home / "c"]
    for folder in folders:
        folder.mkdir(parents=True)
        assert run("init", "--client", client, "--write", "--project", str(folder))[0] == 0
    file = CLIENTS[client].file
    text = file.read_text()
    named = {name: str(entry) for name, entry in servers(file)}
    assert [*named] == ["planloom", "planloom-some-shop", "planloom-c"]
    for folder, entry in zip(folders, named.values(), strict=True):
        assert f"'{folder}'" in entry
    _, _, told = run("init", "--client", client, "--write", "--project", f"{home}/c/../b/some-shop")
    assert "as planloom-some-shop" in told
    assert file.read_text() == text


def test_the_entry_of_another_project_stays_in_either_spelling(run: Run, home: Path) -> None:
    own = {"command": "planloom", "args": ["serve", "--project=/other"]}
    file = put(CLIENTS["cursor"].file, {"mcpServers": {"planloom": own}})
    run("init", "--client", "cursor", "--write")
    entries = dict(servers(file))
    assert (entries.pop("planloom"), [*entries]) == (own, ["planloom-home"])


def test_what_a_person_added_to_an_entry_stays(run: Run, home: Path) -> None:
    file = put(home / ".continue/config.yaml", BEFORE["continue"])
    run("init", "--client", "continue", "--write")
    file.write_text(
        file.read_text().replace("/planloom\n", "/planloom # mine\n    env: {A: b}\n    cwd: /x\n")
    )
    before = file.read_text()
    assert "# mine" in before
    file.write_text(before.replace("serve", "old"))
    run("init", "--client", "continue", "--write")
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("[]", "there is no map"),
        ("[1]", "it is not a map of settings"),
        ('{"mcpServers": []}', "there is no map"),
        ('{"mcpServers": [1]}', "`mcpServers` is not a map"),
        ('{"a": ' * 100_000, "nested too deep"),
        ("{", "Expecting property name"),
        ("{,}", "Expecting property name"),
    ],
)
def test_a_file_that_cannot_be_changed_is_left_alone(
    run: Run, home: Path, before: str, told: str
) -> None:
    file = put(home / ".cursor/mcp.json", before)
    code, _, errors = run("init", "--client", "cursor", "--write")
    assert (code, told in errors, file.read_text()) == (2, True, before)
    assert [*file.parent.iterdir()] == [file]


def test_a_link_stays_a_link(run: Run, home: Path) -> None:
    real = put(home / "dotfiles/mcp.json", {})
    link = home / ".cursor/mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    run("init", "--client", "cursor", "--write")
    assert link.is_symlink()
    assert "planloom" in real.read_text()
