"""Start Serena without leaving a trace in the project.

`python -m planloom.server.upstreams.serena --project DIR` writes a configuration to the user's
cache and then becomes Serena, which would keep its settings and caches in the project, and download
a language server. Serena's own environment, in that cache too, is fetched at the first start.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from platformdirs import user_cache_path

SERENA = "serena-agent==2.1.0"
"""The version whose tools, texts and line numbers `upstreams.yaml` was written against."""


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


def fetched() -> tuple[str, Path]:
    """Serena's command, fetched if necessary, and the folder with its servers' commands."""
    tools = user_cache_path("planloom") / "serena" / SERENA
    commands = tools / "bin"
    servers = tools / SERENA.partition("==")[0] / "bin"
    if not (command := shutil.which("serena", path=commands)):
        env = {
            # As pip does: a client's environment names no certificates of one's own.
            "UV_SYSTEM_CERTS": "true",
            **os.environ,
            **{"UV_TOOL_DIR": str(tools), "UV_TOOL_BIN_DIR": str(commands)},
        }
        uv = shutil.which("uv", path=Path(sys.executable).parent) or "uv"
        install = [uv, "tool", "install", "--quiet", SERENA, "--with", "jedi-language-server"]
        try:
            subprocess.run(
                install, env=env, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True
            )
        except FileNotFoundError:
            sys.exit("uv is not installed; it is a package that Planloom depends on")
        except subprocess.CalledProcessError:
            sys.exit(f"{SERENA} could not be fetched")
        command = shutil.which("serena", path=commands)
    return command or sys.exit(f"{SERENA} has no command; delete {tools}"), servers


def arguments(project: Path) -> list[str]:
    return [
        *("start-mcp-server", "--agent-interface", "tools", "--project", str(project)),
        *("--enable-web-dashboard", "false", "--context", "desktop-app", "--log-level", "WARNING"),
    ]


def main() -> None:
    options = argparse.ArgumentParser(description="Start Serena for Planloom.")
    options.add_argument("--project", type=Path, required=True, help="the project's directory")
    project = options.parse_args().project.resolve()
    if not project.is_dir():
        sys.exit(f"{project} is not a directory; name the project's folder")
    command, servers = fetched()
    digest = hashlib.sha256(os.fsencode(project)).hexdigest()[:16]
    home = user_cache_path("planloom") / "serena" / digest
    # Without this directory Serena would take settings from a `.serena` in the project.
    (home / "project").mkdir(parents=True, exist_ok=True)
    (home / "serena_config.yml").write_text(configuration(home), encoding="utf-8")
    path = os.pathsep.join([str(servers), os.environ.get("PATH", os.defpath)])
    env = os.environ | {"PATH": path, "SERENA_HOME": str(home)}
    os.execvpe(command, [command, *arguments(project)], env)


if __name__ == "__main__":
    main()
