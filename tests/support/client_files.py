"""The files of MCP clients in a home folder, and `planloom` run there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., tuple[Any, str, str]]
"""`planloom` with these words: exit code, output, errors."""


def put(file: Path, content: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file
