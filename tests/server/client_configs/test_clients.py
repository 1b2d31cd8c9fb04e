"""The places where clients have their servers."""

from pathlib import Path

import pytest
from inline_snapshot import snapshot
from platformdirs.macos import MacOS

from server.client_configs.clients import CLIENTS


def test_each_system_has_its_places(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    places = {name: str(client.file.relative_to(home)) for name, client in CLIENTS.items()}
    assert places == snapshot(
        {
            "claude-desktop": ".config/Claude/claude_desktop_config.json",
            "claude-code": ".claude.json",
            "cursor": ".cursor/mcp.json",
            "vscode": ".config/Code/User/mcp.json",
            "continue": ".continue/config.yaml",
            "zed": ".config/zed/settings.json",
            "codex": ".codex/config.toml",
            "gemini": ".gemini/settings.json",
            "copilot": ".copilot/mcp-config.json",
            "cline": ".cline/data/settings/cline_mcp_settings.json",
            "goose": ".config/goose/config.yaml",
            "opencode": ".config/opencode/opencode.json",
        }
    )
    monkeypatch.setattr("server.client_configs.clients.PlatformDirs", MacOS)
    claude = CLIENTS["claude-desktop"].file
    assert claude == home / "Library/Application Support/Claude/claude_desktop_config.json"
