"""Start Serena without leaving a trace in the project: `python -m server.serena --project DIR`.

Serena keeps its settings and caches in the project by default and asks for a language server that
has to be downloaded. This writes a configuration of ours to the user's cache and then becomes
Serena (no process stays in between), run by `uvx` so that nothing is installed here.
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

from platformdirs import user_cache_path

SERENA = "serena-agent==2.1.0"
"""The version whose tools, texts and line numbers `upstreams.yaml` was written against."""


def serena_home(project: Path) -> Path:
    """The directory with Serena's files about this project, in the user's cache."""
    digest = hashlib.sha256(os.fsencode(project)).hexdigest()[:16]
    return user_cache_path("planloom") / "serena" / digest


def configuration(home: Path) -> str:
    """The text of `serena_config.yml`. Jedi serves Python, for the default server would be
    downloaded at the first start; it answers to the name only if `python` gives way to it."""
    return f"""\
agent_interface: tools
web_dashboard: false
gui_log_window: false
ls_priorities: {{python: 0, python_jedi: 3}}
project_serena_folder_location: {json.dumps(str(home / "project"))}
projects: []
"""


def command(project: Path) -> list[str]:
    """The command that Serena is started with."""
    return [
        *("uvx", "--from", SERENA, "--with", "jedi-language-server"),
        *("serena", "start-mcp-server", "--agent-interface", "tools", "--project", str(project)),
        *("--enable-web-dashboard", "false", "--context", "desktop-app", "--log-level", "WARNING"),
    ]


def main() -> None:
    options = argparse.ArgumentParser(description="Start Serena for Planloom.")
    options.add_argument("--project", type=Path, required=True, help="the project's directory")
    project = options.parse_args().project.resolve()
    if not project.is_dir():
        sys.exit(f"{project} is not a directory; name the project's folder")
    scripts = str(Path(sys.executable).parent)
    env = os.environ | {"PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)])}
    if not shutil.which("uvx", path=env["PATH"]):
        sys.exit("uvx is not there; it comes with the package uv, which Planloom depends on")
    home = serena_home(project)
    # Without this directory Serena would take settings from a `.serena` in the project.
    (home / "project").mkdir(parents=True, exist_ok=True)
    (home / "serena_config.yml").write_text(configuration(home), encoding="utf-8")
    argv = command(project)
    os.execvpe(argv[0], argv, env | {"SERENA_HOME": str(home)})


if __name__ == "__main__":
    main()
